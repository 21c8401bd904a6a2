// The file behind an opaque descriptor of memory or of a semaphore, as Mesa's lavapipe exports memory and as tests make
// both.
#pragma once

#include <cstdint>

namespace ferry::softdriver {

// Owns the descriptor.
class external_file {
public:
    // Memory in a file: from `begin` on, `size` bytes. Neither is set if the descriptor is no such file.
    explicit external_file(int descriptor) noexcept;
    ~external_file();
    external_file(const external_file &) = delete;
    external_file &operator=(const external_file &) = delete;

    int descriptor() const noexcept { return descriptor_; }
    std::uint64_t begin() const noexcept { return begin_; }
    std::uint64_t size() const noexcept { return size_; }

private:
    const int descriptor_;
    std::uint64_t begin_ = 0, size_ = 0;
};

} // namespace ferry::softdriver
