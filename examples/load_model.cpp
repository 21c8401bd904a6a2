// Copies a file to every GPU in one call: load_model [FILE]. Each device reads a part of the file over its own link and
// forwards it to the other devices (docs/devices.md). Without an argument, uses a temporary file of 64 MiB.
#include <ferry/ferry.hpp>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static int make_file() {
    char name[] = "/tmp/ferry-model-XXXXXX";
    const int file = mkstemp(name);
    if (file < 0) return file;
    unlink(name); // the file is deleted when the process ends
    std::vector<int> weights(64 << 18);
    std::iota(weights.begin(), weights.end(), 0);
    const std::size_t size = weights.size() * sizeof(int);
    return write(file, weights.data(), size) == static_cast<ssize_t>(size) ? file : -1;
}

int main(int count, char **arguments) try {
    const int file = count > 1 ? open(arguments[1], O_RDONLY) : make_file();
    struct stat about;
    if (file < 0 || fstat(file, &about)) return std::perror("the file cannot be opened"), 1;
    const auto size = static_cast<std::size_t>(about.st_size);
    void *const pages = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0);
    if (pages == MAP_FAILED) return std::perror("the file cannot be mapped"), 1;

    const auto ferry = ferry::instance::open(ferry::any_driver()).or_throw();
    const int devices = ferry.report().or_throw().device_count;
    const unsigned pairs = ferry.enable_all_peers().or_throw();
    std::vector<ferry::device_memory<std::byte>> copies;
    std::vector<std::uint64_t> addresses;
    for (int device = 0; device < devices; ++device) {
        copies.push_back(ferry::device_memory<std::byte>::create(ferry, device, size).or_throw());
        addresses.push_back(copies.back().address());
    }
    ferry::broadcast(ferry, ferry::source(pages), ferry::destinations(addresses), size).or_throw();

    std::vector<std::byte> found(size);
    for (auto &copy : copies) {
        ferry::copy(ferry, copy, found).or_throw();
        if (std::memcmp(found.data(), pages, size)) return 1;
    }
    std::printf("%zu bytes are on %d devices, %u pairs of which have access\n", size, devices, pairs);
} catch (const ferry::error &error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
