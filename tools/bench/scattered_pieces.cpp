#include "scattered_pieces.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <numeric>

#include "environment.h"

namespace bench {

namespace {

constexpr std::size_t allocations = 16;

owned<void *> allocate_pageable(std::size_t size) {
    constexpr auto alignment = std::align_val_t{4096};
    void *const memory = ::operator new(size, alignment);
    std::memset(memory, 1, size);
    return {memory, [](void *of) { ::operator delete(of, alignment); }};
}

std::size_t part_for(const std::vector<std::size_t> &sizes) {
    const std::size_t bytes = std::accumulate(sizes.begin(), sizes.end(), std::size_t{0});
    const std::size_t largest = *std::max_element(sizes.begin(), sizes.end());
    return (2 * bytes / allocations + 2 * largest + 4095) / 4096 * 4096;
}

} // namespace

spread_memory::spread_memory(const environment &environment, memory kind, std::size_t part)
    : environment_(environment), kind_(kind), part_(part) {
    for (std::size_t i = 0; i < allocations; ++i)
        if (kind == memory::device)
            device_.push_back(allocate_device(environment, part));
        else
            host_.push_back(kind == memory::pinned ? allocate_pinned(environment, part) : allocate_pageable(part));
}

std::size_t spread_memory::size() const { return allocations * part_; }

void spread_memory::put(const std::vector<std::byte> &bytes) const {
    for (std::size_t i = 0; i < allocations; ++i)
        move(base(i), reinterpret_cast<std::uint64_t>(bytes.data() + i * part_));
}

std::vector<std::byte> spread_memory::get() const {
    std::vector<std::byte> bytes(size());
    for (std::size_t i = 0; i < allocations; ++i)
        move(reinterpret_cast<std::uint64_t>(bytes.data() + i * part_), base(i));
    return bytes;
}

void spread_memory::move(std::uint64_t to, std::uint64_t from) const {
    check(environment_.cu.cuMemcpy(to, from, part_), "cuMemcpy");
    check(environment_.cu.cuCtxSynchronize(), "cuCtxSynchronize");
}

scattered_pieces::scattered_pieces(const environment &environment, const batch_direction &direction,
                                   const std::vector<std::size_t> &sizes)
    : source_(environment, direction.source, part_for(sizes)),
      destination_(environment, direction.destination, part_for(sizes)), data_(source_.size()) {
    std::mt19937_64 random(7);
    for (std::byte &byte : data_)
        byte = static_cast<std::byte>(random() % 255 + 1);
    source_.put(data_);
    const std::vector<std::size_t> from = places(sizes, random), to = places(sizes, random);
    for (std::size_t i = 0; i < sizes.size(); ++i) {
        pieces.add(destination_.at(to[i]), source_.at(from[i]), sizes[i]);
        moves_.push_back({to[i], from[i], sizes[i]});
    }
}

void scattered_pieces::verify(const contender &contender) const {
    std::vector<std::byte> expected(data_.size());
    destination_.put(expected);
    contender.run();
    for (const move &one : moves_)
        std::memcpy(expected.data() + one.to, data_.data() + one.from, one.size);
    if (destination_.get() != expected) fail(std::string(contender.name) + ": a batch copied wrong bytes");
}

// Places pieces in a random order. Each piece is followed by a gap of its own size. No piece crosses two allocations.
std::vector<std::size_t> scattered_pieces::places(const std::vector<std::size_t> &sizes,
                                                  std::mt19937_64 &random) const {
    std::vector<std::size_t> order(sizes.size()), at(sizes.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::shuffle(order.begin(), order.end(), random);
    std::size_t next = 0;
    for (const std::size_t i : order) {
        if (next % source_.part() + sizes[i] > source_.part()) next += source_.part() - next % source_.part();
        at[i] = next;
        next += 2 * sizes[i];
    }
    return at;
}

contender raw_loop(const environment &environment, const piece_list &pieces) {
    return {"loop of cuMemcpyAsync", [&environment, &pieces] {
                for (std::size_t i = 0; i < pieces.count(); ++i)
                    check(environment.cu.cuMemcpyAsync(pieces.to[i], pieces.from[i], pieces.sizes[i],
                                                       environment.stream.get()),
                          "cuMemcpyAsync");
                drain(environment);
            }};
}

contender raw_batch(const environment &environment, piece_list &pieces) {
    return {"cuMemcpyBatchAsync", [&environment, &pieces] {
                CUmemcpyAttributes attributes = {};
                attributes.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
                std::size_t first = 0;
                check(environment.cu.cuMemcpyBatchAsync(pieces.raw_to.data(), pieces.raw_from.data(),
                                                        pieces.raw_sizes.data(), pieces.count(), &attributes, &first, 1,
                                                        environment.stream.get()),
                      "cuMemcpyBatchAsync");
                drain(environment);
            }};
}

void issue_pieces(ferry_instance *ferry, const piece_list &pieces, CUstream stream, const copy_options &options) {
    auto error = sized<ferry_error_info>();
    const ferry_piece_list list = pieces.list();
    check(ferry_copy_pieces_async(ferry, &list, pointer_to(options), stream, nullptr, &error),
          "ferry_copy_pieces_async", error);
}

contender ferry_pieces(const environment &environment, const piece_list &pieces, const copy_options &options) {
    return {"ferry_copy_pieces_async", [&environment, &pieces, options] {
                issue_pieces(environment.basic.get(), pieces, environment.stream.get(), options);
                drain(environment);
            }};
}

} // namespace bench
