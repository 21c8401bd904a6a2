// The parts of the case nests: the memory that all copies share, arrays in several layouts, and the rows of each file.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "case.h"
#include "ferry/ferry_nest.h"

namespace bench {

// The sizes of the copies. The largest decides the size of the memory.
struct nest_sizes {
    std::vector<std::size_t> block_counts;
    std::size_t cache_layers, cache_blocks; // of the cache that is copied within the device
    std::size_t linked_blocks;              // of the cache that is copied over the link
    std::size_t matrix;                     // rows and columns
    std::size_t submitted_blocks, blocks_beside_kernel;

    std::size_t memory() const;
};
nest_sizes nest_sizes_of(const session &session);

// A pinned buffer and two device buffers, with guard bytes past their ends.
class nest_memory {
public:
    nest_memory(const environment &environment, std::size_t size);

    const bench::environment &environment;

private:
    const owned<void *> pinned_memory_;
    const owned<CUdeviceptr> first_memory_, second_memory_;

public:
    const buffer pinned, first, second;
    const direction to_device, to_host, within_device;

    // Fills the source of a direction: `fill` writes `size` bytes to host memory.
    void load(const direction &direction, std::size_t size, const std::function<void(std::byte *)> &fill) const;
    // Clears the destination and the guard bytes past `size` bytes, runs the contender, and calls `is_right` with the
    // destination's bytes in host memory. Throws if they are wrong, or if a guard byte has changed.
    void verify(const direction &direction, std::size_t size, const contender &contender,
                const std::function<bool(const std::byte *)> &is_right) const;
};

// The contents of a source: the word with this index. No byte is 0.
constexpr std::uint64_t word_at(std::uint64_t index) {
    const std::uint64_t mixed = (index + 1) * 0x9E3779B97F4A7C15;
    return (mixed ^ mixed >> 32) | 0x0101010101010101;
}

// Calls work(first, end) on several threads with parts of the range from 0 to `count`. Returns whether all returned true.
bool in_parallel(std::size_t count, const std::function<bool(std::size_t, std::size_t)> &work);

ferry_place place_of(const buffer &buffer);
void issue_nest(const environment &environment, const ferry_nest &nest, CUstream stream,
                const copy_options &options = {});
// ferry_copy_nests_async, timed until the bytes have arrived. The nest must live as long as the contender.
contender ferry_nest_contender(const environment &environment, const ferry_nest &nest);
// The bytes of a run after ferry has joined the axes.
std::size_t run_of(const environment &environment, const ferry_nest &nest);
// The time in which `bytes` arrive at this throughput. The sizes of a quick run are too small for such targets: the launch of
// the kernel takes a large part of the time.
inline std::optional<double> longest_ns(const session &session, std::size_t bytes, double gigabytes_per_second) {
    if (session.is_quick) return std::nullopt;
    return static_cast<double>(bytes) / gigabytes_per_second;
}

// Lists of blocks, the time of the call, and blocks beside a kernel.
void add_block_lists(session &session, const nest_sizes &sizes, const nest_memory &memory, row_list &rows);
void add_submission(session &session, const nest_sizes &sizes, const nest_memory &memory, row_list &rows);
void add_blocks_beside_kernel(session &session, const nest_sizes &sizes, const nest_memory &memory, row_list &rows);

} // namespace bench
