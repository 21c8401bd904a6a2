// Divides a staged copy between host memory and a device into chunks, each of which passes through a slot of the
// staging buffer. Long rows are divided into parts. A chunk of short rows contains several whole rows. Their alignment
// in the slot equals their alignment on the device modulo 16 bytes, so that the device can always access wide words.
// Many pieces are divided by plan/staged_list.h.
#pragma once

#include <algorithm>

#include "base/address_span.h"
#include "base/rounding.h"
#include "plan/kernel_boxes.h"
#include "plan/staged_list.h"

struct ferry_file;

namespace ferry {

// An array on the device, accessed through a surface of the context.
struct staged_array {
    std::uint64_t surface = 0; // 0: none
    gpu::array_form form{};
    std::uint64_t x = 0, y = 0, z = 0; // bytes; rows, 0 if the array has none; slices or layers
};

struct staged_box {
    gpu::box_end device, host;          // at device and host addresses
    std::uint64_t width, height, depth; // bytes, rows, slices; none is 0
    bool to_device;
    staged_array array = {};    // replaces `device`
    ferry_file *file = nullptr; // replaces host memory: `host.address` is an offset in it
    bool writes_file = false;   // otherwise reads it
    // The other end of the file, `device`, is host memory too. Threads move the bytes without slots, and the stream only
    // waits. `to_device` is true in both directions.
    bool is_on_host = false;
    bool is_host_new = false; // host memory was never written, and huge pages were requested for it
    bool by_copies = false;   // copy-engine copies on the stream replace the kernel at the device's end
};

// Additional space in a slot beyond the bytes of a chunk, for alignment.
constexpr std::uint64_t slot_margin = 256;
constexpr std::uint64_t min_slot = 4096;

struct staged_chunk {
    std::uint64_t first, count; // same as in gpu::ring_message
    std::uint64_t lead;         // bytes before the chunk in its slot
    std::uint64_t row, rows;    // counted over slices; for a list: the chunk's index, and 1
    std::uint64_t x, width;     // bytes of each row; for a list: 0, and all bytes
    std::uint64_t bytes() const noexcept { return rows * width; }
};

// Shorter copies have smaller chunks, so that several threads fill slots while the device empties other slots. The
// block waits for each chunk's fence and message, so chunks must not be too small: copies of 4 MiB took 218 us to the
// device and 215 us from it in chunks of 128 KiB, 230 and 251 us in chunks of 64 KiB, and 232 and 237 us in chunks of
// 256 KiB (H200, 8 threads asleep before, 2026-11-30).
constexpr std::uint64_t min_chunk = std::uint64_t{128} << 10; // bytes
constexpr std::uint64_t overlapping_chunks = 128;
constexpr std::uint64_t room_for_a_chunk(std::uint64_t bytes, std::uint64_t slot_size,
                                         std::uint64_t chunks = overlapping_chunks) noexcept {
    return std::min(round_up(std::max(bytes / chunks, min_chunk), min_slot), slot_size);
}
// Boxes to the device have fewer chunks: a block waits for each chunk's fence and message, which queue after the reads
// of all blocks (8 blocks on an H100: 38 GB/s in chunks of 64 KiB, 48 of 128 KiB, 51 of 512 KiB). Lists were not
// measured.
constexpr std::uint64_t overlapping_chunks_to_device = 64;
// A copy-engine copy costs several microseconds regardless of its size.
constexpr std::uint64_t overlapping_copies = 16;
// The number of chunks of the longest copy-engine launch. Longer copies would fill the stream's queue with their
// operations.
constexpr std::uint64_t max_staging_copies = 512;

// Returns the number of blocks of the staging kernel that leaves most of the time to the threads. 8 blocks saturate a
// host link. A thread that fills the slots of several blocks loses time switching between them. Threads that empty
// slots find more full slots if there are more blocks than threads.
// H200, 4 threads, to the device: 36 GB/s with 4 blocks, 26 GB/s with 8; to the host: 50 and 52 GB/s. With 8 threads
// and 8 blocks: 51 and 52 GB/s of 55. System calls that read a file need more threads, each with its block (12: 51 GB/s,
// 8: 43 to 49).
constexpr std::uint32_t blocks_for_threads(std::uint32_t threads, bool to_device, bool reads_file = false) noexcept {
    const std::uint32_t enough = reads_file ? 12 : 8;
    return std::clamp(to_device ? threads : 2 * threads, 1U, enough);
}

// The maximum for a file that is read from a disk: its blocks mostly wait, and occupy SMs meanwhile. 2 blocks copy faster
// than most disks, because the system reads ahead of their threads.
constexpr std::uint16_t blocks_for_slow_files = 2;

// The maximum number of blocks that serve a copy on one device.
constexpr std::uint32_t max_staged_blocks = 16;
static_assert(max_staged_blocks <= gpu::max_ring_blocks);

// The number of blocks on each device if several devices serve a copy over their links.
constexpr std::uint32_t blocks_on_each_link(std::uint32_t blocks, std::uint32_t links) noexcept {
    return std::min({blocks, max_staged_blocks, gpu::max_ring_blocks / links});
}
static_assert(blocks_on_each_link(40, 1) == 16 && blocks_on_each_link(16, 3) == 10 && blocks_on_each_link(8, 4) == 8);

class staging {
public:
    // `slot_size` excludes the margin. It must be at least min_slot and a multiple of 256.
    staging(const staged_box &box, std::uint64_t slot_size) noexcept;
    // The list must outlive this object. With a file, the host addresses of its pieces are offsets in the file.
    staging(const staged_list &list, bool to_device, ferry_file *file = nullptr) noexcept;

    std::uint64_t chunk_count() const noexcept { return chunk_count_; }
    std::uint64_t chunk_size() const noexcept { return chunk_size_; } // maximum, in bytes
    staged_chunk chunk(std::uint64_t index) const noexcept;
    std::uint64_t bytes_before(std::uint64_t index) const noexcept; // total bytes of the chunks before this one
    bool to_device() const noexcept { return box_.to_device; }
    bool writes_host(const address_span &range) const noexcept; // whether it writes bytes at these addresses
    const staged_list *list() const noexcept { return list_; }  // null for a box
    const staged_box &box() const noexcept { return box_; }
    const gpu::box_end &slot() const noexcept { return slot_; } // only pitches; the address is 0
    // Returns the offset of a row of `end` from its first row.
    std::uint64_t offset(const gpu::box_end &end, std::uint64_t row) const noexcept {
        return row / box_.height * end.slice_pitch + row % box_.height * end.row_pitch;
    }

    gpu::kernel kernel() const noexcept;
    // The kernel's parameters, except the record and whether it is shared.
    gpu::ring_parameters parameters() const noexcept;

private:
    void describe_array(gpu::ring_parameters &given) const noexcept;

    staged_box box_ = {};
    const staged_list *list_ = nullptr;
    gpu::box_end slot_ = {};
    bool by_rows_ = false;
    std::uint64_t per_row_ = 1, part_ = 0; // chunks per long row, and bytes per chunk
    std::uint64_t rows_per_chunk_ = 1;
    std::uint64_t chunk_count_, chunk_size_;
};

} // namespace ferry
