// nests: copies between two layouts. This file has the arrays: the pairs of layouts of a cache, transposes, and the
// reversed order of all axes.
#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>

#include "lines.h"
#include "nests.h"
#include "progress.h"
#include "units.h"

namespace bench {

namespace of_nests {
namespace {

// An array whose elements have `unit` bytes. Its axes are numbered. In the contents, element i is the i-th element in the
// order of these numbers.
struct array_of_axes {
    std::vector<std::size_t> counts;
    std::size_t unit;

    std::size_t elements() const {
        return std::accumulate(counts.begin(), counts.end(), std::size_t{1}, std::multiplies());
    }
    std::size_t bytes() const { return elements() * unit; }
};

// A layout: the axes of an array from the outermost to the innermost.
using axis_order = std::vector<std::size_t>;

// The distance between neighbours along each axis, in elements.
std::vector<std::size_t> strides_of(const array_of_axes &array, const axis_order &order) {
    std::vector<std::size_t> strides(order.size());
    std::size_t stride = 1;
    for (std::size_t i = order.size(); i-- > 0;) {
        strides[order[i]] = stride;
        stride *= array.counts[order[i]];
    }
    return strides;
}

axis_order in_order(const array_of_axes &array) {
    axis_order order(array.counts.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    return order;
}

axis_order reversed(axis_order order) {
    std::reverse(order.begin(), order.end());
    return order;
}

ferry_nest nest_between(const array_of_axes &array, const buffer &source, const axis_order &from,
                        const buffer &destination, const axis_order &to) {
    ferry_nest nest = {};
    nest.source.place = place_of(source);
    nest.destination.place = place_of(destination);
    nest.width = array.unit;
    nest.axes = static_cast<std::uint32_t>(array.counts.size());
    const std::vector<std::size_t> from_strides = strides_of(array, from), to_strides = strides_of(array, to);
    for (std::size_t axis = 0; axis < array.counts.size(); ++axis) {
        nest.source.axes[axis].count = nest.destination.axes[axis].count = array.counts[axis];
        nest.source.axes[axis].stride = static_cast<std::int64_t>(from_strides[axis] * array.unit);
        nest.destination.axes[axis].stride = static_cast<std::int64_t>(to_strides[axis] * array.unit);
    }
    return nest;
}

// ---- The contents

struct pair_of_words {
    std::uint64_t one, other;
    bool operator==(const pair_of_words &) const = default;
};

template <class Unit> Unit element_at(std::size_t index) {
    if constexpr (sizeof(Unit) == sizeof(pair_of_words))
        return {word_at(2 * index), word_at(2 * index + 1)};
    else
        return static_cast<Unit>(word_at(index));
}

// Calls visit(position in the layout, number of the element) for all elements on several threads, until it returns false.
template <class Visit> bool visit_elements(const array_of_axes &array, const axis_order &order, const Visit &visit) {
    const std::vector<std::size_t> numbers = strides_of(array, in_order(array));
    const std::size_t inner = array.counts[order.back()], step = numbers[order.back()];
    return in_parallel(array.elements() / inner, [&](std::size_t row, std::size_t end) {
        for (; row < end; ++row) {
            std::size_t rest = row, number = 0;
            for (std::size_t i = order.size() - 1; i-- > 0;) {
                number += rest % array.counts[order[i]] * numbers[order[i]];
                rest /= array.counts[order[i]];
            }
            for (std::size_t i = 0; i < inner; ++i)
                if (!visit(row * inner + i, number + i * step)) return false;
        }
        return true;
    });
}

template <class Unit> struct contents_of {
    static void fill(const array_of_axes &array, const axis_order &order, std::byte *to) {
        visit_elements(array, order, [to](std::size_t position, std::size_t number) {
            const Unit element = element_at<Unit>(number);
            std::memcpy(to + position * sizeof element, &element, sizeof element);
            return true;
        });
    }
    static bool are_in(const array_of_axes &array, const axis_order &order, const std::byte *found) {
        return visit_elements(array, order, [found](std::size_t position, std::size_t number) {
            const Unit element = element_at<Unit>(number);
            return std::memcmp(found + position * sizeof element, &element, sizeof element) == 0;
        });
    }
};

struct contents {
    std::size_t unit;
    void (*fill)(const array_of_axes &, const axis_order &, std::byte *);
    bool (*are_in)(const array_of_axes &, const axis_order &, const std::byte *);
};
template <class Unit>
constexpr contents contents_in_units_of = {sizeof(Unit), contents_of<Unit>::fill, contents_of<Unit>::are_in};
constexpr contents all_contents[] = {contents_in_units_of<std::uint8_t>, contents_in_units_of<std::uint16_t>,
                                     contents_in_units_of<std::uint32_t>, contents_in_units_of<std::uint64_t>,
                                     contents_in_units_of<pair_of_words>};

// A copy of an array from one layout to another.
struct permutation {
    const array_of_axes &array;
    const axis_order &from, &to;

    ferry_nest nest(const buffer &source, const buffer &destination) const {
        return nest_between(array, source, from, destination, to);
    }
    void verify(const nest_memory &memory, const direction &direction, const contender &contender) const {
        const contents &of = *std::find_if(std::begin(all_contents), std::end(all_contents),
                                           [&](const contents &each) { return each.unit == array.unit; });
        memory.load(direction, array.bytes(), [&](std::byte *to_fill) { of.fill(array, from, to_fill); });
        memory.verify(direction, array.bytes(), contender,
                      [&](const std::byte *found) { return of.are_in(array, to, found); });
    }
};

// ---- The layouts of a cache

enum cache_axis : std::size_t { layer, block, kv, token, head, part };

struct cache_layout {
    const char *name;
    axis_order order;
};
const cache_layout cache_layouts[] = {
    {"LKBTHW", {layer, kv, block, token, head, part}}, {"LKBHTW", {layer, kv, block, head, token, part}},
    {"LBKTHW", {layer, block, kv, token, head, part}}, {"BLKTHW", {block, layer, kv, token, head, part}},
    {"HLKBTW", {head, layer, kv, block, token, part}}, {"LKBHwTw", {layer, kv, block, head, part, token}},
};

// 16 tokens in a block, 8 heads, and a width of 128 numbers of 2 bytes. One layout cuts the width into parts of 8 numbers,
// so an element has 16 bytes.
array_of_axes cache_of(std::size_t layers, std::size_t blocks) { return {{layers, blocks, 2, 16, 8, 16}, 16}; }

// The contiguous bytes along the innermost axis.
std::size_t innermost_bytes(const array_of_axes &array, const axis_order &order) {
    return array.counts[order.back()] * array.unit;
}

constexpr double link_throughput = 48;          // GB/s
constexpr std::size_t least_run_on_host = 256;  // bytes, for that throughput
constexpr std::size_t least_run_on_device = 64; // bytes, for the greater share of a contiguous copy
constexpr double share_of_long_runs = 0.8, share_of_short_runs = 0.6;

effort effort_within_device(const session &session) {
    return session.is_quick ? effort{2, 40, 0.02e9} : effort{7, 100, 0.1e9};
}
effort effort_over_link(const session &session) {
    return session.is_quick ? effort{1, 10, 0.02e9} : effort{4, 20, 0.15e9};
}

// A copy within the device beside a contiguous copy.
void add_within_device(session &session, const nest_memory &memory, const permutation &copy, std::string name,
                       std::optional<double> target, row_list &rows) {
    const environment &environment = session.environment;
    const direction &way = memory.within_device;
    const std::size_t bytes = copy.array.bytes();
    session.progress.show("nests", name, bytes);
    const ferry_nest nest = copy.nest(way.source, way.destination);
    const std::size_t run = run_of(environment, nest);
    const contender all[] = {raw_line(environment, way, form::async, bytes), ferry_nest_contender(environment, nest)};
    copy.verify(memory, way, all[1]);
    const std::vector<samples> taken = interleave(all, effort_within_device(session));
    const double by_run = run >= least_run_on_device ? share_of_long_runs : share_of_short_runs;
    rows.push_back({.labels = {way.name, std::move(name), size_text(run), "contiguous copy"},
                    .bytes = bytes,
                    .times = compare(taken[0], taken[1]),
                    .target = target.value_or(by_run),
                    .ceiling = ceiling_of(way.name, session.ceilings)});
}

// A copy over the link beside a contiguous copy over the link and a nest within the device, one after the other.
void add_over_link(session &session, const nest_memory &memory, const permutation &copy, std::string name,
                   const direction &way, row_list &rows) {
    const environment &environment = session.environment;
    const std::size_t bytes = copy.array.bytes();
    session.progress.show("nests", joined({way.name, " ", name.c_str()}), bytes);
    const ferry_nest nest = copy.nest(way.source, way.destination);
    const bool to_device = way.source.is_host();
    const direction over_link =
        to_device ? direction{"H2D", memory.pinned, memory.first} : direction{"D2H", memory.second, memory.pinned};
    const ferry_nest in_device = copy.nest(memory.first, memory.second);
    const contender in_two_steps = {"contiguous copy, then within the device", [&] {
                                        const CUstream stream = environment.stream.get();
                                        if (to_device) raw_copy_async(environment, over_link, bytes, stream);
                                        issue_nest(environment, in_device, stream);
                                        if (!to_device) raw_copy_async(environment, over_link, bytes, stream);
                                        drain(environment);
                                    }};
    const contender all[] = {in_two_steps, ferry_nest_contender(environment, nest),
                             raw_line(environment, over_link, form::async, bytes)};
    copy.verify(memory, way, all[0]);
    copy.verify(memory, way, all[1]);
    const std::vector<samples> taken = interleave(all, effort_over_link(session));
    row found = {.labels = {way.name, std::move(name), size_text(run_of(environment, nest)), all[0].name},
                 .bytes = bytes,
                 .times = compare(taken[0], taken[1]),
                 .ceiling = ceiling_of(way.name, session.ceilings)};
    if (innermost_bytes(copy.array, to_device ? copy.from : copy.to) >= least_run_on_host)
        found.max_ns = longest_ns(session, bytes, link_throughput);
    found.of_link = link_share{compare(taken[2], taken[1]).ratio, {}};
    rows.push_back(std::move(found));
}

template <class Add> void for_each_pair(const array_of_axes &cache, const Add &add) {
    for (const cache_layout &from : cache_layouts)
        for (const cache_layout &to : cache_layouts)
            if (&from != &to) add(permutation{cache, from.order, to.order}, joined({from.name, " to ", to.name}));
}

void add_cache_layouts(session &session, const nest_sizes &sizes, const nest_memory &memory, row_list &rows) {
    for_each_pair(cache_of(sizes.cache_layers, sizes.cache_blocks), [&](const permutation &copy, std::string name) {
        add_within_device(session, memory, copy, std::move(name), {}, rows);
    });
    const array_of_axes linked = cache_of(sizes.cache_layers, sizes.linked_blocks);
    for (const direction *way : {&memory.to_device, &memory.to_host})
        for_each_pair(linked, [&](const permutation &copy, std::string name) {
            add_over_link(session, memory, copy, std::move(name), *way, rows);
        });
}

void add_transposes(session &session, const nest_sizes &sizes, const nest_memory &memory, row_list &rows) {
    for (const std::size_t unit : {1, 2, 4, 8}) {
        const array_of_axes matrix = {{sizes.matrix, sizes.matrix}, unit};
        const axis_order from = in_order(matrix), to = reversed(from);
        add_within_device(session, memory, {matrix, from, to},
                          text("transpose %zu x %zu of %zu B", sizes.matrix, sizes.matrix, unit),
                          unit == 1 ? share_of_short_runs : share_of_long_runs, rows);
    }
    array_of_axes cache = cache_of(sizes.cache_layers, sizes.cache_blocks);
    cache.counts.back() *= cache.unit / 2;
    cache.unit = 2;
    const axis_order from = in_order(cache), to = reversed(from);
    add_within_device(session, memory, {cache, from, to}, "LBKTHW to WHTKBL", share_of_short_runs, rows);
}

constexpr const char *nests_note =
    "Host memory is pinned. Rows of 'issue' are the times of the calls. All other times end when the bytes have "
    "arrived.\n"
    "raw: the copy that 'beside' names. A raw copy of some of the blocks counts as often as it fits into all blocks.\n"
    "Layouts are named by their axes, the outermost first: L layer, B block, K key or value, T token, H head, W "
    "width,\n"
    "w a part of the width (8 numbers of 2 bytes). run: the contiguous bytes after ferry has joined the axes.\n"
    "Targets in time: without --quick 48 GB/s, or 44 GB/s for blocks of 512 B; 20 µs for a call, or 5 µs if the nest "
    "is "
    "prepared.\n"
    "of link: a contiguous copy of as many bytes over the link";

case_result run_nests(session &session) {
    session.environment.need({"cuMemcpyAsync", "cuMemcpyHtoD", "cuMemcpyDtoH", "cuMemsetD8"});
    case_result result = session.begin(
        {.note = nests_note, .label_columns = {"copy", "nest", "run", "beside"}, .reference_column = "pieces"});
    const nest_sizes sizes = nest_sizes_of(session);
    const nest_memory memory(session.environment, sizes.memory());
    add_submission(session, sizes, memory, result.rows);
    add_block_lists(session, sizes, memory, result.rows);
    add_cache_layouts(session, sizes, memory, result.rows);
    add_transposes(session, sizes, memory, result.rows);
    add_blocks_beside_kernel(session, sizes, memory, result.rows);
    return result;
}

} // namespace
} // namespace of_nests

const bench_case nests_case = {"nests", "copies between two layouts: lists of blocks, layouts of a cache, transposes",
                               of_nests::run_nests};

} // namespace bench
