// Loads a .safetensors file to all GPUs at the same time, with one call for each: load_model [FILE].
#include <chrono>
#include <cstdio>
#include <ferry/ferry.hpp>
#include <nlohmann/json.hpp>

// Returns the offset of each tensor, and its place behind the first tensor. The file may contain anything.
static std::vector<ferry::piece> read_header(const ferry::file &file, std::uint64_t size) {
    std::uint64_t length[1];
    file.read(0, length).or_throw(); // refused if the file has fewer than 8 bytes
    if (length[0] > size - 8) throw std::runtime_error("the header is longer than the file");
    std::string text(length[0], ' ');
    file.read(8, text).or_throw();
    const auto header = nlohmann::json::parse(text);
    std::vector<ferry::piece> tensors;
    for (const auto &[name, about] : header.items()) {
        if (name == "__metadata__") continue;
        const auto [begin, end] = about.at("data_offsets").get<std::array<std::uint64_t, 2>>();
        if (begin > end || end > size - 8 - length[0]) throw std::runtime_error(name + " is not in the file");
        tensors.emplace_back(ferry::source(8 + length[0] + begin), ferry::destination(begin), end - begin);
    }
    return tensors;
}

int main(int count, char **arguments) try { // without an argument, loads a temporary file and checks the bytes
    std::string text("A\0\0\0\0\0\0\0{\"a\":{\"data_offsets\":[0,999]},\"b\":{\"data_offsets\":[999,5000999]}}", 73);
    while (text.size() < 73 + 5'000'999)
        text += std::to_string(text.size());
    FILE *const made = std::tmpfile();
    if (!made || std::fwrite(text.data(), text.size(), 1, made) != 1 || std::fflush(made)) return 1;
    const auto ferry = ferry::instance::open(ferry::any_driver()).or_throw();
    const auto file = count > 1 ? ferry::file::open(ferry, arguments[1]).or_throw()
                                : ferry::file::open_descriptor(ferry, fileno(made)).or_throw();
    const std::uint64_t size = file.info().or_throw().size;
    const auto tensors = read_header(file, size);
    std::vector<std::tuple<ferry::device_memory<char>, ferry::stream, ferry::ticket>> devices;
    for (int device = 0; device < ferry.report().or_throw().device_count; ++device)
        devices.emplace_back(ferry::device_memory<char>::create(ferry, device, size).or_throw(),
                             ferry::stream::create(ferry, device).or_throw(), ferry::ticket());
    const auto start = std::chrono::steady_clock::now();
    for (auto &[memory, stream, ticket] : devices) {
        auto pieces = tensors;
        for (ferry::piece &piece : pieces)
            piece.destination += memory.address();
        ticket = file.read_pieces_async(pieces, stream).or_throw();
    }
    for (const auto &[memory, stream, ticket] : devices)
        ticket.wait().or_throw();
    const std::chrono::duration<double, std::nano> taken = std::chrono::steady_clock::now() - start;
    const double bytes = static_cast<double>(size * devices.size());
    std::printf("%zu tensors, %.0f bytes, %.2f GB/s\n", tensors.size(), bytes, bytes / taken.count());
    for (std::size_t i = 0; count == 1 && i < devices.size(); ++i) {
        std::string found(size, ' ');
        ferry::copy(ferry, std::get<0>(devices[i]), found).or_throw();
        if (found.compare(0, 5'000'999, text, 73, 5'000'999) != 0) return 1;
    }
} catch (const std::exception &error) {
    return std::fprintf(stderr, "%s\n", error.what()), 1;
}
