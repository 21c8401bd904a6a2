// The case nests: lists of scattered blocks between a pinned pool and a device pool, until they have arrived, as the time
// of the call, and beside a kernel on all SMs.
#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>

#include "beside.h"
#include "lines.h"
#include "nests.h"
#include "progress.h"
#include "scattered_pieces.h"
#include "units.h"

namespace bench {

namespace of_nest_blocks {
namespace {

constexpr std::size_t word = sizeof(std::uint64_t);

// A list of 32-bit indices in host memory and in device memory.
struct list_of_indices {
    std::vector<std::uint32_t> host;
    owned<CUdeviceptr> device;
};

list_of_indices make_indices(const environment &environment, std::size_t count, std::size_t slots,
                             std::mt19937_64 &random) {
    std::vector<std::uint32_t> all(slots);
    std::iota(all.begin(), all.end(), 0);
    std::shuffle(all.begin(), all.end(), random);
    all.resize(count);
    owned<CUdeviceptr> device = allocate_device(environment, count * sizeof(std::uint32_t));
    check(environment.cu.cuMemcpyHtoD(device.get(), all.data(), count * sizeof(std::uint32_t)), "cuMemcpyHtoD");
    check(environment.cu.cuCtxSynchronize(), "cuCtxSynchronize");
    return {std::move(all), std::move(device)};
}

// Blocks of one size. A fifth of each pool is not copied.
class list_of_blocks {
public:
    list_of_blocks(const environment &environment, const nest_memory &memory, const direction &direction,
                   std::size_t count, std::size_t size)
        : memory_(memory), direction_(direction), size_(size), slots_(count * 5 / 4), random_(11),
          from_(make_indices(environment, count, slots_, random_)),
          to_(make_indices(environment, count, slots_, random_)), by_host_indices(make_nest(FERRY_INDICES_HOST)),
          by_device_indices(make_nest(FERRY_INDICES_DEVICE)), pieces(first_pieces(count)) {}

    std::size_t count() const { return from_.host.size(); }
    std::size_t bytes() const { return count() * size_; }
    std::string text() const { return std::to_string(count()) + " x " + size_text(size_); }

    piece_list first_pieces(std::size_t count) const {
        piece_list list;
        for (std::size_t i = 0; i < count; ++i)
            list.add(direction_.destination.address + to_.host[i] * size_,
                     direction_.source.address + from_.host[i] * size_, size_);
        return list;
    }
    // The contender copies the first `copied` blocks.
    void verify(const contender &contender, std::size_t copied) const;

private:
    ferry_nest make_nest(std::int32_t index_memory) const;
    void place_indices(ferry_nest_end &end, const list_of_indices &indices, std::int32_t index_memory) const;

    const nest_memory &memory_;
    const direction direction_;
    const std::size_t size_, slots_;
    std::mt19937_64 random_;
    const list_of_indices from_, to_;

public:
    const ferry_nest by_host_indices, by_device_indices;
    const piece_list pieces;
};

ferry_nest list_of_blocks::make_nest(std::int32_t index_memory) const {
    ferry_nest nest = {};
    nest.source.place = place_of(direction_.source);
    nest.destination.place = place_of(direction_.destination);
    nest.width = size_;
    nest.axes = 1;
    place_indices(nest.source, from_, index_memory);
    place_indices(nest.destination, to_, index_memory);
    return nest;
}

void list_of_blocks::place_indices(ferry_nest_end &end, const list_of_indices &indices,
                                   std::int32_t index_memory) const {
    ferry_axis &axis = end.axes[0];
    axis.count = count();
    axis.stride = static_cast<std::int64_t>(size_);
    axis.indices = index_memory == FERRY_INDICES_HOST ? reinterpret_cast<std::uint64_t>(indices.host.data())
                                                      : indices.device.get();
    axis.index_limit = slots_;
    axis.index_type = FERRY_INDEX_U32;
    axis.index_memory = index_memory;
}

void list_of_blocks::verify(const contender &contender, std::size_t copied) const {
    const std::size_t words = size_ / word;
    constexpr std::size_t nothing = SIZE_MAX;
    std::vector<std::size_t> source_of(slots_, nothing);
    for (std::size_t i = 0; i < copied; ++i)
        source_of[to_.host[i]] = from_.host[i];
    memory_.load(direction_, slots_ * size_, [&](std::byte *to) {
        in_parallel(slots_ * words, [&](std::size_t i, std::size_t end) {
            for (; i < end; ++i) {
                const std::uint64_t value = word_at(i);
                std::memcpy(to + i * word, &value, word);
            }
            return true;
        });
    });
    memory_.verify(direction_, slots_ * size_, contender, [&](const std::byte *found) {
        return in_parallel(slots_, [&](std::size_t slot, std::size_t end) {
            for (; slot < end; ++slot)
                for (std::size_t i = 0; i < words; ++i) {
                    const std::size_t source = source_of[slot];
                    const std::uint64_t expected = source == nothing ? 0 : word_at(source * words + i);
                    if (std::memcmp(found + (slot * words + i) * word, &expected, word) != 0) return false;
                }
            return true;
        });
    });
}

// ---- Until the blocks have arrived

// The driver's call takes more than a microsecond for each block, so it copies a part of the blocks.
constexpr std::size_t blocks_of_raw_call = 4096;

struct block_class {
    std::size_t size;
    double throughput; // the minimum, in GB/s
};
constexpr block_class block_classes[] = {{512, 44}, {2 << 10, 48}, {4 << 10, 48}, {8 << 10, 48}, {24 << 10, 48}};

struct way_of_indices {
    const char *name;
    const ferry_nest list_of_blocks::*nest;
};
constexpr way_of_indices ways_of_indices[] = {{"host", &list_of_blocks::by_host_indices},
                                              {"device", &list_of_blocks::by_device_indices}};

std::string nest_text(const list_of_blocks &blocks, const char *indices) {
    return blocks.text() + ", " + indices + " indices";
}

void add_list(session &session, const nest_memory &memory, const direction &direction, const block_class &of,
              std::size_t count, row_list &rows) {
    const environment &environment = session.environment;
    const list_of_blocks blocks(environment, memory, direction, count, of.size);
    session.progress.show("nests", joined({direction.name, " ", blocks.text().c_str()}), blocks.bytes());
    const std::size_t part = std::min(count, blocks_of_raw_call);
    piece_list raw_pieces = blocks.first_pieces(part);
    std::vector<contender> all = {
        environment.cu.cuMemcpyBatchAsync ? raw_batch(environment, raw_pieces) : raw_loop(environment, raw_pieces),
        ferry_pieces(environment, blocks.pieces), raw_line(environment, direction, form::async, blocks.bytes())};
    const std::size_t first_nest = all.size();
    for (const way_of_indices &way : ways_of_indices)
        all.push_back(ferry_nest_contender(environment, blocks.*way.nest));
    for (std::size_t i = 0; i < all.size(); ++i)
        if (i != 2) blocks.verify(all[i], i == 0 ? part : count);
    std::vector<samples> taken = interleave(all, session.is_quick ? effort{2, 20, 0.05e9} : effort{3, 40, 0.4e9});
    for (double &time : taken[0])
        time *= static_cast<double>(count) / static_cast<double>(part);
    for (std::size_t i = 0; i < std::size(ways_of_indices); ++i) {
        const samples &ferry = taken[first_nest + i];
        row found = {.labels = {direction.name, nest_text(blocks, ways_of_indices[i].name), size_text(of.size),
                                text("%s of %zu", all[0].name, part)},
                     .bytes = blocks.bytes(),
                     .times = compare(taken[0], ferry),
                     .max_ns = longest_ns(session, blocks.bytes(), of.throughput),
                     .ceiling = ceiling_of(direction.name, session.ceilings),
                     .reference_ns = summarise(taken[1])};
        found.of_link = link_share{compare(taken[2], ferry).ratio, {}};
        rows.push_back(std::move(found));
    }
}

// ---- The call alone

constexpr std::size_t submitted_size = 2 << 10;

owned<ferry_prepared *> prepare_nest(const environment &environment, const ferry_nest &nest) {
    auto error = sized<ferry_error_info>();
    ferry_prepared *prepared = nullptr;
    check(ferry_prepared_create_nests(environment.basic.get(), &nest, 1, nullptr, environment.stream.get(), &prepared,
                                      &error),
          "ferry_prepared_create_nests", error);
    return {prepared, [](ferry_prepared *handle) { ferry_prepared_destroy(handle, nullptr); }};
}

// A way of submitting all blocks in one call. The first is the call that the others are compared with.
struct submission {
    const char *name;
    std::optional<double> max_ns;
    std::function<void()> issue;
};

void add_submissions(session &session, const nest_memory &memory, const direction &direction, std::size_t count,
                     row_list &rows) {
    const environment &environment = session.environment;
    const list_of_blocks blocks(environment, memory, direction, count, submitted_size);
    const CUstream stream = environment.stream.get();
    session.progress.show("nests", joined({direction.name, " issue of ", blocks.text().c_str()}), blocks.bytes());
    const owned<ferry_prepared *> prepared = prepare_nest(environment, blocks.by_host_indices);
    const submission submissions[] = {
        {"pieces", {}, [&] { issue_pieces(environment.basic.get(), blocks.pieces, stream); }},
        {"host indices", 20e3, [&] { issue_nest(environment, blocks.by_host_indices, stream); }},
        {"device indices", {}, [&] { issue_nest(environment, blocks.by_device_indices, stream); }},
        {"prepared", 5e3,
         [&] {
             check(ferry_prepared_launch(prepared.get(), nullptr, stream, nullptr, nullptr), "ferry_prepared_launch",
                   {});
         }},
    };
    std::vector<contender> all;
    for (const submission &each : submissions) {
        all.push_back({each.name, each.issue, 1, [&] { drain(environment); }});
        blocks.verify(all.back(), count);
    }
    const std::vector<samples> taken =
        interleave(all, session.is_quick ? effort{2, 100, 0.1e9} : effort{20, 400, 0.5e9});
    for (std::size_t i = 1; i < all.size(); ++i)
        rows.push_back({.labels = {direction.name, "issue of " + blocks.text() + ", " + all[i].name,
                                   size_text(submitted_size), "issue of pieces"},
                        .bytes = blocks.bytes(),
                        .times = compare(taken[0], taken[i]),
                        .max_ns = submissions[i].max_ns});
}

// ---- Beside a kernel

constexpr std::size_t size_beside_kernel = 4 << 10;
constexpr std::uint32_t sms_beside_kernel = 8;
constexpr double compute_share = 1 / 1.10, link_share_beside_kernel = 0.6;

struct stream_for_copies {
    const char *name;
    CUstream stream;
    bool has_targets;
};

void add_beside_kernel(session &session, const copies_beside_kernel &beside, const compute_kernel &kernel,
                       CUstream compute, const nest_memory &memory, const direction &direction, std::size_t count,
                       const stream_for_copies &copies_on, row_list &rows) {
    const environment &environment = session.environment;
    const list_of_blocks blocks(environment, memory, direction, count, size_beside_kernel);
    const copies_beside_kernel::streams on = {compute, copies_on.stream};
    session.progress.show("nests", joined({direction.name, " beside a kernel"}), blocks.bytes());
    const copy_options limited = with_route(FERRY_ROUTE_AUTO, sms_beside_kernel);
    const auto nest = [&](CUstream stream) { issue_nest(environment, blocks.by_device_indices, stream, limited); };
    const auto line = [&](CUstream stream) { raw_copy_async(environment, direction, blocks.bytes(), stream); };
    blocks.verify({"ferry_copy_nests_async", [&] { nest(copies_on.stream); }, 1,
                   [&] { check(environment.cu.cuStreamSynchronize(copies_on.stream), "cuStreamSynchronize"); }},
                  count);
    beside.measure(on, &kernel, nest, 1); // warm-up
    const int copies = copies_beside_kernel::copies_for(beside.measure(on, &kernel, nest, 0).compute_us,
                                                        beside.measure(on, nullptr, nest, 10).copy_us);
    samples compute_alone, compute_beside, link, copy_beside;
    for (int i = 0; i < (session.is_quick ? 4 : 14); ++i) {
        compute_alone.push_back(1e3 * beside.measure(on, &kernel, nest, 0).compute_us);
        link.push_back(1e3 * beside.measure(on, nullptr, line, 10).copy_us);
        const copies_beside_kernel::measured both = beside.measure(on, &kernel, nest, copies);
        compute_beside.push_back(1e3 * both.compute_us);
        copy_beside.push_back(1e3 * both.copy_us);
    }
    const std::string what = text("%s, %u SMs, %s priority", blocks.text().c_str(), sms_beside_kernel, copies_on.name);
    const auto target = [&](double share) { return copies_on.has_targets ? std::optional(share) : std::nullopt; };
    rows.push_back({.labels = {direction.name, "kernel beside " + what, size_text(size_beside_kernel), "kernel alone"},
                    .bytes = blocks.bytes(),
                    .times = compare(compute_alone, compute_beside),
                    .target = target(compute_share)});
    rows.push_back(
        {.labels = {direction.name, what + ", beside a kernel", size_text(size_beside_kernel), "contiguous copy"},
         .bytes = blocks.bytes(),
         .times = compare(link, copy_beside),
         .target = target(link_share_beside_kernel),
         .ceiling = ceiling_of(direction.name, session.ceilings)});
}

} // namespace
} // namespace of_nest_blocks

void add_block_lists(session &session, const nest_sizes &sizes, const nest_memory &memory, row_list &rows) {
    for (const direction *way : {&memory.to_device, &memory.to_host})
        for (const std::size_t count : sizes.block_counts)
            for (const of_nest_blocks::block_class &of : of_nest_blocks::block_classes)
                of_nest_blocks::add_list(session, memory, *way, of, count, rows);
}

void add_submission(session &session, const nest_sizes &sizes, const nest_memory &memory, row_list &rows) {
    for (const direction *way : {&memory.to_device, &memory.to_host})
        of_nest_blocks::add_submissions(session, memory, *way, sizes.submitted_blocks, rows);
}

void add_blocks_beside_kernel(session &session, const nest_sizes &sizes, const nest_memory &memory, row_list &rows) {
    const environment &environment = session.environment;
    if (!why_no_computing(environment).empty()) return;
    const owned<CUstream> compute = make_stream_of_least_priority(environment),
                          same = make_stream_of_least_priority(environment),
                          first = make_stream_of_greatest_priority(environment);
    const compute_kernel kernel(environment, 200);
    const copies_beside_kernel beside(environment);
    for (const direction *way : {&memory.to_device, &memory.to_host})
        for (const of_nest_blocks::stream_for_copies &on :
             {of_nest_blocks::stream_for_copies{"greatest", first.get(), true}, {"same", same.get(), false}})
            of_nest_blocks::add_beside_kernel(session, beside, kernel, compute.get(), memory, *way,
                                              sizes.blocks_beside_kernel, on, rows);
}

} // namespace bench
