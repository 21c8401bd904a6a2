// pageable-pieces: many pieces of pageable memory in one call, as in programs with many tensors.
#include <cmath>
#include <numeric>

#include "case.h"
#include "lines.h"
#include "progress.h"
#include "scattered_pieces.h"
#include "units.h"

namespace bench {

namespace of_pageable_pieces {
namespace {

constexpr std::size_t KiB = 1 << 10;

struct list_of_sizes {
    std::string name;
    std::vector<std::size_t> sizes;
    std::optional<double> of_link; // the minimum share of the link
};

// 256 B to 256 KiB, evenly distributed over the powers of two: about 50 KB on average.
std::vector<std::size_t> mixed_sizes(std::size_t count) {
    std::mt19937_64 random(5);
    std::vector<std::size_t> sizes(count);
    for (std::size_t &size : sizes)
        size = static_cast<std::size_t>(std::exp2(8 + 10.0 * static_cast<double>(random() % 10001) / 10000)) / 4 * 4;
    return sizes;
}

// Five tensors per layer, for 24 layers of a language model with 0.3 billion parameters, in half precision.
std::vector<std::size_t> tensors_of_a_model(std::size_t part) {
    std::vector<std::size_t> sizes;
    for (int layer = 0; layer < 24; ++layer)
        for (const std::size_t parameters : {std::size_t{1024}, std::size_t{3 * 1024 * 1024}, std::size_t{1024 * 1024},
                                             std::size_t{2 * 1024 * 2752}, std::size_t{2752 * 1024}})
            sizes.push_back(std::max<std::size_t>(2 * parameters / part, 256));
    return sizes;
}

std::size_t sum_of(const std::vector<std::size_t> &sizes) {
    return std::accumulate(sizes.begin(), sizes.end(), std::size_t{0});
}

case_result run_pageable_pieces(session &session) {
    case_result result =
        session.begin({.note = "raw: a loop of cuMemcpyAsync; ferry: ferry_copy_pieces_async; link: one copy of as "
                               "much pinned memory; until all have arrived",
                       .label_columns = {"pieces", "copy"},
                       .reference_column = "link"});
    const environment &environment = session.environment;
    // Quick runs have fewer or smaller pieces, to which the shares of the link do not apply.
    const bool is_quick = session.is_quick;
    const std::size_t mixed = is_quick ? 150 : 1500, equal = is_quick ? 64 : 4096, part = is_quick ? 64 : 1;
    const auto share = [&](double of_link) { return is_quick ? std::nullopt : std::optional(of_link); };
    const list_of_sizes lists[] = {
        {std::to_string(mixed) + " of 256 B to 256 KiB", mixed_sizes(mixed), share(0.6)},
        {std::to_string(equal) + " of 4 KiB", std::vector<std::size_t>(equal, 4 * KiB), {}},
        {is_quick ? "120 tensors of a small model" : "120 tensors of a model", tensors_of_a_model(part), share(0.85)}};
    constexpr batch_direction directions[] = {{"H2D", memory::pageable, memory::device},
                                              {"D2H", memory::device, memory::pageable}};
    for (const batch_direction &direction : directions)
        for (const list_of_sizes &list : lists) {
            const std::size_t bytes = sum_of(list.sizes);
            if (bytes > session.workspace.largest * 2) continue;
            session.progress.show("pageable-pieces", joined({direction.name, ", ", list.name.c_str()}), bytes);
            const scattered_pieces scattered(environment, direction, list.sizes);
            const bool to_device = direction.destination == memory::device;
            const bench::direction link = {direction.name,
                                           to_device ? session.workspace.pinned : session.workspace.device_source,
                                           to_device ? session.workspace.device_destination : session.workspace.pinned};
            const std::size_t at_once = std::min(bytes, session.workspace.largest);
            const contender all[] = {raw_loop(environment, scattered.pieces),
                                     ferry_pieces(environment, scattered.pieces),
                                     raw_line(environment, link, form::async, at_once)};
            scattered.verify(all[0]);
            scattered.verify(all[1]);
            std::vector<samples> taken = interleave(all, is_quick ? effort{3, 10, 0.05e9} : effort{10, 60, 1.5e9});
            for (double &time : taken[2])
                time *= static_cast<double>(bytes) / static_cast<double>(at_once);
            row found = {.labels = {list.name, direction.name},
                         .bytes = bytes,
                         .times = compare(taken[0], taken[1]),
                         .target = 1.0,
                         .ceiling = ceiling_of(direction.name, session.ceilings)};
            found.reference_ns = summarise(taken[2]);
            found.of_link = link_share{compare(taken[2], taken[1]).ratio, list.of_link};
            result.rows.push_back(found);
        }
    return result;
}

} // namespace
} // namespace of_pageable_pieces

const bench_case pageable_pieces_case = {"pageable-pieces", "many pieces of pageable memory in one call",
                                         of_pageable_pieces::run_pageable_pieces};

} // namespace bench
