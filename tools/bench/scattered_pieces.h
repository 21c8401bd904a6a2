// Pieces in a random order in 16 allocations at either end, and the calls that copy them.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "measure.h"
#include "workspace.h"

namespace bench {

struct piece_list {
    std::vector<std::uint64_t> to, from, sizes;
    std::vector<CUdeviceptr> raw_to, raw_from; // in the types of the driver's call
    std::vector<std::size_t> raw_sizes;
    std::vector<ferry_copy_desc> descriptors;
    std::size_t bytes = 0;

    std::size_t count() const { return sizes.size(); }
    void add(std::uint64_t destination, std::uint64_t source, std::size_t size) {
        to.push_back(destination), from.push_back(source), sizes.push_back(size);
        raw_to.push_back(destination), raw_from.push_back(source), raw_sizes.push_back(size);
        ferry_copy_desc copy = {};
        copy.source.address = source;
        copy.destination.address = destination;
        copy.width = size;
        descriptors.push_back(copy);
        bytes += size;
    }
    ferry_piece_list list() const {
        ferry_piece_list list;
        ferry_piece_list_set_arrays(&list, to.data(), from.data(), sizes.data(), count());
        return list;
    }
};

// 16 allocations of one kind, addressed as one range with gaps.
class spread_memory {
public:
    spread_memory(const environment &environment, memory kind, std::size_t part);
    std::uint64_t at(std::size_t offset) const { return base(offset / part_) + offset % part_; }
    std::size_t part() const { return part_; }
    std::size_t size() const; // of all allocations

    // Fill and read all allocations.
    void put(const std::vector<std::byte> &bytes) const;
    std::vector<std::byte> get() const;

private:
    std::uint64_t base(std::size_t i) const {
        return kind_ == memory::device ? device_[i].get() : reinterpret_cast<std::uint64_t>(host_[i].get());
    }
    void move(std::uint64_t to, std::uint64_t from) const;

    const environment &environment_;
    const memory kind_;
    const std::size_t part_;
    std::vector<owned<void *>> host_;
    std::vector<owned<CUdeviceptr>> device_;
};

struct batch_direction {
    const char *name;
    memory source, destination;
};
// The pieces of one row, and their memory. No two pieces are adjacent at both ends.
class scattered_pieces {
public:
    scattered_pieces(const environment &environment, const batch_direction &direction,
                     const std::vector<std::size_t> &sizes);
    void verify(const contender &contender) const;

    piece_list pieces;

private:
    struct move {
        std::size_t to, from, size;
    };
    std::vector<std::size_t> places(const std::vector<std::size_t> &sizes, std::mt19937_64 &random) const;

    spread_memory source_, destination_;
    std::vector<std::byte> data_;
    std::vector<move> moves_;
};

// Enqueue all pieces on the environment's stream, and wait for them.
contender raw_loop(const environment &environment, const piece_list &pieces);
// Only if the driver has cuMemcpyBatchAsync.
contender raw_batch(const environment &environment, piece_list &pieces);
contender ferry_pieces(const environment &environment, const piece_list &pieces, const copy_options &options = {});
void issue_pieces(ferry_instance *ferry, const piece_list &pieces, CUstream stream, const copy_options &options = {});

} // namespace bench
