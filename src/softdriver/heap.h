// A first-fit allocator of addresses in one or more ranges. It never accesses the memory at these addresses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

namespace ferry::softdriver {

class heap {
public:
    // The alignment of cuMemAlloc on the GPUs measured (256 is documented).
    static constexpr std::size_t alignment = 512;

    heap() = default;
    heap(std::uintptr_t begin, std::size_t size) : size_(size), free_bytes_(size) { free_.emplace(begin, size); }

    std::optional<std::uintptr_t> take(std::size_t bytes);
    void release(std::uintptr_t address, std::size_t bytes); // also adds new ranges

    std::size_t size() const { return size_; }
    std::size_t free_bytes() const { return free_bytes_; }
    std::size_t largest_free() const;

    static bool round_up(std::size_t &bytes); // to the size that take() uses; false for 0 and on overflow

private:
    std::size_t size_ = 0;
    std::size_t free_bytes_ = 0;
    std::map<std::uintptr_t, std::size_t> free_; // address → bytes, neighbours always merged
};

} // namespace ferry::softdriver
