// Files that end with a test.
#pragma once

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <system_error>

#include "support/driver_under_test.h"

namespace ferry::test {

// A file in the folder for temporary files.
class temporary_file {
public:
    explicit temporary_file(const bytes &contents) {
        static std::atomic<int> count = 0;
        path_ = std::filesystem::temp_directory_path() / u8"ferry-\u00fc-";
        path_ += std::to_string(std::random_device{}()) + "-" + std::to_string(count++);
        write(contents);
    }
    ~temporary_file() {
        std::error_code ignored;
        std::filesystem::remove(path_, ignored);
    }
    temporary_file(const temporary_file &) = delete;

    void write(const bytes &contents) const {
        std::ofstream out(path_, std::ios::binary | std::ios::trunc);
        out.write(reinterpret_cast<const char *>(contents.data()), static_cast<std::streamsize>(contents.size()));
        ASSERT_TRUE(out.good());
    }
    bytes read() const {
        bytes all(std::filesystem::file_size(path_));
        std::ifstream in(path_, std::ios::binary);
        in.read(reinterpret_cast<char *>(all.data()), static_cast<std::streamsize>(all.size()));
        return all;
    }
    void resize(std::uint64_t size) const { std::filesystem::resize_file(path_, size); }
    // The number of descriptors of the file that this process has. Needs Linux.
    std::size_t count_descriptors() const {
        const auto is_of_file = [&](const auto &one) {
            std::error_code ignored; // another thread may have closed it
            return std::filesystem::equivalent(one.path(), path_, ignored);
        };
        return static_cast<std::size_t>(
            std::count_if(std::filesystem::directory_iterator("/proc/self/fd"), {}, is_of_file));
    }
    // In UTF-8.
    std::string path() const {
        const std::u8string text = path_.u8string();
        return {text.begin(), text.end()};
    }

private:
    std::filesystem::path path_;
};

} // namespace ferry::test
