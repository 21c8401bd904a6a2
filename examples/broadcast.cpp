// Copies the same numbers to every GPU in one call. Each device reads a part of the numbers over its own link and forwards
// it to the other devices (docs/devices.md).
#include <ferry/ferry.hpp>

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <vector>

int main() try {
    const auto ferry = ferry::instance::open(ferry::any_driver()).or_throw();
    const int devices = ferry.report().or_throw().device_count;
    const unsigned pairs = ferry.enable_all_peers().or_throw();

    auto numbers = ferry::pinned_memory<int>::create(ferry, 16 << 20).or_throw();
    std::iota(numbers.begin(), numbers.end(), 0);
    std::vector<ferry::device_memory<int>> copies;
    std::vector<std::uint64_t> addresses;
    for (int device = 0; device < devices; ++device) {
        copies.push_back(ferry::device_memory<int>::create(ferry, device, numbers.size()).or_throw());
        addresses.push_back(copies.back().address());
    }
    ferry::broadcast(ferry, ferry::source(numbers.data()), ferry::destinations(addresses), numbers.size() * sizeof(int))
        .or_throw();

    std::vector<int> found(numbers.size());
    for (const auto &copy : copies) {
        ferry::copy(ferry, copy, found).or_throw();
        if (!std::equal(found.begin(), found.end(), numbers.begin())) return 1;
    }
    std::printf("%zu numbers are on %d devices, %u pairs of which have access\n", found.size(), devices, pairs);
} catch (const ferry::error &error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
