// nests-regret: compares the route that ferry chooses for random nests with the kernel and with boxes.
#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>

#include "contest.h"
#include "nests.h"
#include "progress.h"
#include "units.h"

namespace bench {

namespace of_nests_regret {
namespace {

constexpr std::size_t nest_count = 200, quick_step = 5; // a quick run measures every fifth nest
constexpr std::uint64_t seed = 20261130;
constexpr allowance more_than_best = {0.10, 1000};

constexpr std::size_t least_axes = 2, most_axes = 5;
constexpr unsigned most_width_bits = 16; // runs of 1 B to 64 KiB
constexpr std::size_t least_bytes = 4 << 10, most_runs = 1 << 20;
// The driver copies a piece of 4 KiB in 1.6 us (docs/performance.md: 2.50 GB/s), so the most boxes take about 20 ms.
constexpr std::uint32_t most_boxes = 10'000;

// As in the case regret: half of the time is for verifying the bytes.
constexpr double full_time_ns = 60e9, quick_time_ns = 4e9, max_budget_ns = 0.1e9;

// The bytes of the largest nest. A buffer has twice as many bytes, because nests have gaps.
std::size_t most_bytes_of(const session &session) {
    if (session.environment.device_info.is_software) return 256 << 10;
    return session.is_quick ? 8 << 20 : 32 << 20;
}

struct random_nest {
    std::size_t width;
    std::vector<std::size_t> counts;
    std::vector<std::size_t> from, to; // strides
    std::size_t from_span, to_span;    // bytes
    bool has_gaps;
};

class nest_generator {
public:
    explicit nest_generator(std::size_t most_bytes) : most_bytes_(most_bytes), random_(seed) {}

    random_nest next() {
        random_nest nest = {};
        nest.width = std::size_t{1} << below(most_width_bits + 1);
        if (below(4) == 0) nest.width -= below(nest.width / 2 + 1);
        std::size_t axes = least_axes + below(most_axes - least_axes + 1);
        while ((nest.width << axes) > most_bytes_)
            --axes;
        nest.counts.assign(axes, 2);
        grow(nest);
        allows_gaps_ = below(2) == 0;
        nest.from_span = lay_out(nest, nest.from);
        nest.to_span = lay_out(nest, nest.to);
        return nest;
    }

private:
    std::size_t below(std::size_t end) { return random_() % end; }

    // Multiplies the counts until the nest has a random number of bytes.
    void grow(random_nest &nest) {
        std::size_t doublings = 0;
        while ((least_bytes << doublings) < most_bytes_)
            ++doublings;
        const std::size_t bytes = least_bytes << below(doublings + 1);
        std::size_t runs = std::size_t{1} << nest.counts.size();
        while (true) {
            const std::size_t factor = 2 + below(2), axis = below(nest.counts.size());
            if (runs * factor * nest.width > bytes || runs * factor > most_runs) return;
            nest.counts[axis] *= factor;
            runs *= factor;
        }
    }

    // Orders the axes at one end, and leaves gaps after some of them. Returns the bytes that the end spans.
    std::size_t lay_out(random_nest &nest, std::vector<std::size_t> &strides) {
        std::vector<std::size_t> order(nest.counts.size());
        std::iota(order.begin(), order.end(), std::size_t{0});
        for (std::size_t i = order.size(); i-- > 1;)
            std::swap(order[i], order[below(i + 1)]);
        strides.resize(order.size());
        std::size_t extent = nest.width;
        std::size_t rest = std::accumulate(nest.counts.begin(), nest.counts.end(), std::size_t{1}, std::multiplies());
        for (const std::size_t axis : order) {
            const std::size_t gap = allows_gaps_ && below(3) == 0 ? 1 + below(std::min<std::size_t>(extent, 512)) : 0;
            if (gap && (extent + gap) * rest <= 2 * most_bytes_) {
                extent += gap;
                nest.has_gaps = true;
            }
            strides[axis] = extent;
            extent *= nest.counts[axis];
            rest /= nest.counts[axis];
        }
        return extent;
    }

    const std::size_t most_bytes_;
    bool allows_gaps_ = false;
    std::mt19937_64 random_;
};

std::size_t runs_of(const random_nest &nest) {
    return std::accumulate(nest.counts.begin(), nest.counts.end(), std::size_t{1}, std::multiplies());
}

ferry_nest describe_nest(const random_nest &nest, const direction &way) {
    ferry_nest described = {};
    described.source.place = place_of(way.source);
    described.destination.place = place_of(way.destination);
    described.width = nest.width;
    described.axes = static_cast<std::uint32_t>(nest.counts.size());
    for (std::size_t axis = 0; axis < nest.counts.size(); ++axis) {
        described.source.axes[axis].count = described.destination.axes[axis].count = nest.counts[axis];
        described.source.axes[axis].stride = static_cast<std::int64_t>(nest.from[axis]);
        described.destination.axes[axis].stride = static_cast<std::int64_t>(nest.to[axis]);
    }
    return described;
}

// Returns nothing if the options force a route that cannot serve the nest.
std::optional<ferry_explanation> explain_nest(const environment &environment, const ferry_nest &nest,
                                              const copy_options &options) {
    auto found = sized<ferry_explanation>();
    auto error = sized<ferry_error_info>();
    const std::int32_t status = ferry_copy_nest_explain_async(environment.basic.get(), &nest, pointer_to(options),
                                                              environment.stream.get(), &found, &error);
    if (status == FERRY_ERROR_ROUTE) return std::nullopt;
    check(status, "ferry_copy_nest_explain_async", error);
    return found;
}

contender contender_with(const environment &environment, const ferry_nest &nest, const copy_options &options,
                         const char *name) {
    return {name, [&environment, &nest, options] {
                issue_nest(environment, nest, environment.stream.get(), options);
                drain(environment);
            }};
}

// The contents of a source, and what a destination must contain after a copy.
struct nest_images {
    std::vector<std::byte> source, destination;
};

nest_images images_of(const random_nest &nest) {
    nest_images images = {std::vector<std::byte>(nest.from_span), std::vector<std::byte>(nest.to_span)};
    for (std::size_t at = 0; at < images.source.size(); at += sizeof(std::uint64_t)) {
        const std::uint64_t word = word_at(at);
        std::memcpy(&images.source[at], &word, std::min(sizeof word, images.source.size() - at));
    }
    std::vector<std::size_t> at(nest.counts.size());
    for (std::size_t run = runs_of(nest); run-- > 0;) {
        std::size_t from = 0, to = 0, rest = run;
        for (std::size_t axis = 0; axis < nest.counts.size(); ++axis) {
            from += rest % nest.counts[axis] * nest.from[axis];
            to += rest % nest.counts[axis] * nest.to[axis];
            rest /= nest.counts[axis];
        }
        std::memcpy(&images.destination[to], &images.source[from], nest.width);
    }
    return images;
}

void verify_routes(const nest_memory &memory, const direction &way, const random_nest &nest,
                   std::span<const contender> all) {
    const nest_images images = images_of(nest);
    for (const contender &each : all) {
        // A check of a copy to the device overwrites the source.
        memory.load(way, images.source.size(),
                    [&](std::byte *to) { std::memcpy(to, images.source.data(), images.source.size()); });
        memory.verify(way, images.destination.size(), each, [&](const std::byte *found) {
            return std::memcmp(found, images.destination.data(), images.destination.size()) == 0;
        });
    }
}

std::string counts_text(const random_nest &nest) {
    std::string text;
    for (const std::size_t count : nest.counts)
        text += (text.empty() ? "" : "x") + std::to_string(count);
    return text;
}

row measure_nest(session &session, const nest_memory &memory, const direction &way, const random_nest &of,
                 std::uint32_t boxes, double budget_ns) {
    const environment &environment = session.environment;
    const ferry_nest nest = describe_nest(of, way);
    const copy_options by_kernel = with_route(FERRY_ROUTE_KERNEL), as_boxes = with_flags(FERRY_COPY_NO_KERNELS);
    std::vector<route_choice::route> routes;
    std::vector<contender> all = {contender_with(environment, nest, {}, "ferry_copy_nests_async")};
    const auto add_route = [&](std::int32_t route, const copy_options &options, const char *name,
                               std::uint64_t ferry_explanation::*predicted) {
        const std::optional<ferry_explanation> found = explain_nest(environment, nest, options);
        if (!found) return;
        routes.push_back({route, {}, static_cast<double>((*found).*predicted)});
        all.push_back(contender_with(environment, nest, options, name));
    };
    add_route(FERRY_ROUTE_KERNEL, by_kernel, "kernel", &ferry_explanation::kernel_ns);
    add_route(FERRY_ROUTE_DRIVER, as_boxes, "boxes", &ferry_explanation::driver_ns);
    verify_routes(memory, way, of, all);
    const std::vector<samples> taken = interleave(all, {session.is_quick ? 1 : 3, 400, budget_ns});
    route_choice choice = compare_routes(std::move(routes), std::span(taken).subspan(1), taken[0], more_than_best);
    // A nest that a kernel copies is one call. Several boxes are several calls, whatever the route of the first box is.
    const std::optional<ferry_explanation> chosen = explain_nest(environment, nest, {});
    choice.chosen = chosen->calls > 1 ? FERRY_ROUTE_DRIVER : chosen->route;
    std::size_t best = 1;
    for (std::size_t i = 2; i < all.size(); ++i)
        if (summarise(taken[i]).median < summarise(taken[best]).median) best = i;
    return {.labels = {way.name, counts_text(of), size_text(of.width), of.has_gaps ? "yes" : "no",
                       std::to_string(boxes), all[best].name},
            .bytes = of.width * runs_of(of),
            .times = compare(taken[best], taken[0]),
            .ceiling = ceiling_of(way.name, session.ceilings),
            .choice = std::move(choice)};
}

case_result run_nests_regret(session &session) {
    session.environment.need({"cuMemcpyHtoD", "cuMemcpyDtoH", "cuMemsetD8"});
    case_result result = session.begin(
        {.note =
             "200 random nests of 2 to 5 axes, in a quick run every fifth: runs of 1 B to 64 KiB, up to 10000 boxes, "
             "host memory pinned. raw: the faster of the two forced routes: the kernel (FERRY_ROUTE_KERNEL) and "
             "boxes (FERRY_COPY_NO_KERNELS). ferry: ferry_copy_nests_async without options. All until the bytes "
             "have arrived. The target allows 10 % + 1 µs more than the faster route.",
         .label_columns = {"copy", "counts", "width", "gaps", "boxes", raw_call_column}});
    const std::size_t most_bytes = most_bytes_of(session);
    const nest_memory memory(session.environment, 2 * most_bytes);
    const direction *const ways[] = {&memory.within_device, &memory.to_device, &memory.to_host};
    nest_generator generator(most_bytes);
    const double end = now_ns() + (session.is_quick ? quick_time_ns : full_time_ns);
    std::size_t number = 0;
    while (number < nest_count) {
        const random_nest nest = generator.next();
        const direction &way = *ways[number / quick_step % std::size(ways)];
        const std::optional<ferry_explanation> boxes =
            explain_nest(session.environment, describe_nest(nest, way), with_flags(FERRY_COPY_NO_KERNELS));
        if (!boxes || boxes->calls > most_boxes) continue;
        ++number;
        if (session.is_quick && number % quick_step != 1) continue;
        session.progress.show("nests-regret", std::string(way.name) + ' ' + counts_text(nest) + ',', nest.width);
        const std::size_t left = (nest_count - number) / (session.is_quick ? quick_step : 1) + 1;
        const double share = std::max(end - now_ns(), 0.0) / static_cast<double>(left);
        result.rows.push_back(
            measure_nest(session, memory, way, nest, boxes->calls, std::min(share / 2, max_budget_ns)));
    }
    return result;
}

} // namespace
} // namespace of_nests_regret

const bench_case nests_regret_case = {"nests-regret",
                                      "random nests: the route that ferry chooses beside the kernel and beside boxes",
                                      of_nests_regret::run_nests_regret};

} // namespace bench
