// Divides many pieces, all between host memory and one device in one direction, into chunks for slots of a staging
// buffer. A chunk consists of whole pieces and parts of long pieces. Its slot starts with a table of
// gpu::staged_record. The table is followed by the bytes in windows of 16, aligned as on the device: each piece starts
// in a new window.
#pragma once

#include <algorithm>

#include "base/address_span.h"
#include "base/growing.h"
#include "kernels/parameters.h"

namespace ferry {

struct staged_piece {
    std::uint64_t device, host, size; // device and host address; bytes, not 0
};

constexpr std::uint64_t window_bytes = 16;
static_assert(sizeof(gpu::staged_record) == window_bytes, "the windows after the table are aligned");

constexpr std::uint64_t windows_of(std::uint64_t device, std::uint64_t size) noexcept {
    return (device % window_bytes + size + window_bytes - 1) / window_bytes;
}

// The position at which a list continues.
struct staged_cursor {
    const staged_piece *piece, *end;
    std::uint64_t done = 0;  // bytes of the piece
    std::uint64_t taken = 0; // bytes before the position, of all pieces
};

class staged_list {
public:
    explicit staged_list(const allocator &memory) noexcept : pieces_(memory), chunks_(memory) {}

    // Takes up to `bytes` of pieces, starting at the cursor, and divides them into chunks. Returns false if memory runs
    // out.
    [[nodiscard]] bool take(staged_cursor &from, std::uint64_t bytes, std::uint64_t slot_size) noexcept;

    bool touches_host(const address_span &range) const noexcept;
    bool has_memory() const noexcept { return chunks_.capacity() != 0; }

    struct chunk {
        std::uint64_t piece, done;  // the first piece, and how many of its bytes are in earlier chunks
        std::uint64_t bytes_before; // in earlier chunks
        std::uint32_t records, windows;
    };
    std::uint64_t chunk_count() const noexcept { return chunks_.size() - 1; } // only valid after take()
    const chunk &operator[](std::uint64_t index) const noexcept { return chunks_[index]; }
    std::uint64_t bytes_of(std::uint64_t index) const noexcept {
        return chunks_[index + 1].bytes_before - chunks_[index].bytes_before;
    }

    // Returns how many bytes of the copy come before the byte of the chunk at this host address. If the chunk does not
    // contain the address, the next address that it contains counts.
    std::uint64_t bytes_before(std::uint64_t index, std::uint64_t host) const noexcept;
    std::uint64_t host_of(std::uint64_t index) const noexcept { // of the chunk's first byte
        return pieces_.begin()[chunks_[index].piece].host + chunks_[index].done;
    }

    // Calls part(piece, record) for each piece, or part of a piece, in the chunk.
    template <class Part> void for_each_part(std::uint64_t index, const Part &part) const noexcept {
        const chunk &of = chunks_[index];
        std::uint64_t left = bytes_of(index), done = of.done, window = 0;
        for (const staged_piece *piece = pieces_.begin() + of.piece; left != 0; ++piece, done = 0) {
            const std::uint64_t size = std::min(piece->size - done, left), device = piece->device + done;
            part(staged_piece{device, piece->host + done, size},
                 gpu::staged_record{device, static_cast<std::uint32_t>(window), static_cast<std::uint32_t>(size)});
            window += windows_of(device, size);
            left -= size;
        }
    }

private:
    bool cut(std::uint64_t bytes, std::uint64_t slot_size) noexcept;

    growing<staged_piece> pieces_;
    growing<chunk> chunks_;          // plus the end of the last chunk
    std::uint64_t taken_before_ = 0; // bytes of the copy, by earlier lists
};

} // namespace ferry
