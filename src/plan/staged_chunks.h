// How a copy between pageable memory and a device is cut into chunks, each of which goes through a slot of pinned memory.
// Long rows are cut into parts; of short ones a chunk has several, whole, which lie in the slot as they do on the device
// modulo 16 bytes, so that the device moves wide words whatever the alignment.
#pragma once

#include <algorithm>

#include "plan/kernel_boxes.h"

namespace ferry {

// An array on the device, by a surface of the context.
struct staged_array {
    std::uint64_t surface = 0; // 0: none
    kernels::array_form form{};
    std::uint64_t x = 0, y = 0, z = 0; // bytes; rows, 0 where the array has none; slices or layers
};

struct staged_box {
    kernels::box_end device, host;      // addresses: as the device has it, and as the host has it
    std::uint64_t width, height, depth; // bytes, rows, slices; none is 0
    bool to_device;
    staged_array array = {}; // in place of `device`
};

// Beyond the bytes of a chunk, a slot has room for its alignment.
constexpr std::uint64_t slot_margin = 256;
constexpr std::uint64_t smallest_slot = 4096;

struct staged_chunk {
    std::uint64_t first, count; // as of kernels::ring_message
    std::uint64_t lead;         // bytes before it in its slot
    std::uint64_t row, rows;    // counted over slices
    std::uint64_t x, width;     // bytes of each row
    std::uint64_t bytes() const noexcept { return rows * width; }
};

// Shorter copies are cut finer, so that several threads fill slots while the device empties others. Below the least a
// chunk is over before the next has been asked for.
constexpr std::uint64_t least_chunk = std::uint64_t{64} << 10; // bytes
constexpr std::uint64_t overlapping_chunks = 128;

// Of the kernel, which leaves most of the time to threads. 8 fill a host's link. A thread is lost on its way between blocks
// whose slots it fills; those who empty slots find some full if there are more blocks than threads. (H200, 4 threads to
// the device: by 4 blocks 36 GB/s, by 8 26; to the host 50 and 52. By 8 threads and 8 blocks: 51, 52 of 55.)
constexpr std::uint32_t blocks_for_threads(std::uint32_t threads, bool to_device) noexcept {
    constexpr std::uint32_t enough = 8;
    return std::clamp(to_device ? threads : 2 * threads, 1U, enough);
}

class staging {
public:
    // `slot_size`: beside the margin; at least smallest_slot, and a multiple of 256.
    staging(const staged_box &box, std::uint64_t slot_size) noexcept;

    std::uint64_t chunk_count() const noexcept { return chunk_count_; }
    std::uint64_t chunk_size() const noexcept { return chunk_size_; } // bytes, at most
    staged_chunk chunk(std::uint64_t index) const noexcept;
    std::uint64_t bytes_before(std::uint64_t index) const noexcept; // of the chunks before it
    const staged_box &box() const noexcept { return box_; }
    const kernels::box_end &slot() const noexcept { return slot_; } // its pitches
    // Of an end, from its first row.
    std::uint64_t offset(const kernels::box_end &end, std::uint64_t row) const noexcept {
        return row / box_.height * end.slice_pitch + row % box_.height * end.row_pitch;
    }

    kernels::kernel kernel() const noexcept;
    // All but the record, and whether it is shared.
    kernels::ring_parameters parameters() const noexcept;

private:
    void describe_array(kernels::ring_parameters &given) const noexcept;

    staged_box box_;
    kernels::box_end slot_;
    bool by_rows_;
    std::uint64_t per_row_ = 1, part_ = 0; // chunks of a long row, and bytes of one
    std::uint64_t rows_per_chunk_ = 1;
    std::uint64_t chunk_count_, chunk_size_;
};

} // namespace ferry
