// The file behind an opaque descriptor of memory or of a semaphore, as exported by Mesa's lavapipe (memory) or created
// by tests (both).
#pragma once

#include <cstdint>

#include "system/handles.h"

namespace ferry::softdriver {

// Owns the descriptor.
class external_file {
public:
    // Memory in a file: `size` bytes starting at `begin`. Neither is set if the descriptor is not such a file.
    explicit external_file(int descriptor) noexcept;

    int descriptor() const noexcept { return descriptor_.get(); }
    std::uint64_t begin() const noexcept { return begin_; }
    std::uint64_t size() const noexcept { return size_; }

private:
    const kept_descriptor descriptor_;
    std::uint64_t begin_ = 0, size_ = 0;
};

} // namespace ferry::softdriver
