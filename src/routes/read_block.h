// Pinned memory into which the calling thread reads the sources of several copies of one call. From the second source
// on, they share blocks, because allocating a block and freeing it on a stream takes microseconds.
#pragma once

#include <algorithm>

#include "base/rounding.h"
#include "memory/pinned_pool.h"

namespace ferry {

class read_block {
public:
    read_block(pinned_pool &pool, CUstream stream) noexcept : pool_(pool), stream_(stream) {}
    ~read_block() { free(); }
    read_block(const read_block &) = delete;
    read_block &operator=(const read_block &) = delete;

    // Takes memory for one source. It is in use until the stream has completed the copies that were enqueued before the
    // next block was needed, or before this object ended.
    // `may_grow`: see pinned_pool.
    error take(std::uint64_t bytes, void *&address, bool may_grow) noexcept {
        if (bytes > left_) {
            std::uint64_t size = block_ ? std::max(bytes, shared_size) : bytes;
            free();
            error failed = pool_.allocate(size, block_, may_grow);
            if (failed && size != bytes) failed = pool_.allocate(size = bytes, block_, may_grow); // may be free
            if (failed) return failed;
            left_ = size;
            next_ = static_cast<std::byte *>(block_);
        }
        address = next_;
        const std::uint64_t taken = std::min(round_up(bytes, alignment), left_);
        next_ += taken;
        left_ -= taken;
        return {};
    }

private:
    static constexpr std::uint64_t shared_size = std::uint64_t{256} << 10, alignment = 256;

    // If recording the event fails, the block stays in use: a copy may be in flight.
    void free() noexcept {
        if (block_) static_cast<void>(pool_.free_on(stream_, block_));
        block_ = nullptr;
        left_ = 0;
    }

    pinned_pool &pool_;
    const CUstream stream_;
    void *block_ = nullptr;
    std::byte *next_ = nullptr;
    std::uint64_t left_ = 0;
};

} // namespace ferry
