// interference: a kernel that computes on all SMs concurrently with each way of copying, and how much each slows down
// the other.
#include <algorithm>

#include "beside.h"
#include "case.h"
#include "progress.h"
#include "units.h"

namespace bench {

namespace of_interference {
namespace {

// One way of copying, enqueued repeatedly.
struct way_of_copying {
    std::string name, limit;
    std::function<void(CUstream)> enqueue;
};

void add_box(const environment &environment, const direction &direction, std::size_t bytes,
             std::vector<way_of_copying> &ways) {
    constexpr std::size_t row = 64;
    const extent size = {row, bytes / row};
    const box box = {padded(direction.source, size, row, 0), padded(direction.destination, size, 0, 0), size};
    const auto add = [&](const char *route, std::string limit, const copy_options &options) {
        ways.push_back({std::string(direction.name) + " rows of 64 B, " + route, std::move(limit),
                        [&environment, copy = describe(box), options](CUstream stream) {
                            ferry_copy_async_checked(environment.basic.get(), copy, stream, options);
                        }});
    };
    for (const std::uint32_t limit : {1u, 2u, 4u, 8u, 32u, 0u})
        add("kernel", limit ? std::to_string(limit) : "default", with_route(FERRY_ROUTE_KERNEL, limit));
    add("driver", "-", with_route(FERRY_ROUTE_DRIVER));
}

void add_line(const environment &environment, const direction &direction, std::size_t bytes,
              const copy_options &options, const char *route, std::vector<way_of_copying> &ways) {
    ways.push_back({std::string(direction.name) + ' ' + size_text(bytes) + ", " + route, "-",
                    [&environment, copy = describe(line(direction, bytes)), options](CUstream stream) {
                        ferry_copy_async_checked(environment.basic.get(), copy, stream, options);
                    }});
}

void add_batch(const environment &environment, const direction &direction, std::vector<way_of_copying> &ways) {
    constexpr std::size_t count = 1024, size = 4096;
    std::vector<ferry_piece> all;
    for (std::size_t i = 0; i < count; ++i) // every other piece of the destination, so that no pieces are merged
        all.push_back({direction.destination.address + 2 * i * size, direction.source.address + i * size, size});
    ways.push_back({std::string(direction.name) + " 1024 x 4 KiB, batch", "default",
                    [&environment, all = std::move(all)](CUstream stream) {
                        auto error = sized<ferry_error_info>();
                        ferry_piece_list list;
                        ferry_piece_list_set(&list, all.data(), count);
                        check(ferry_copy_pieces_async(environment.basic.get(), &list, nullptr, stream, nullptr, &error),
                              "ferry_copy_pieces_async", error);
                    }});
}

std::vector<way_of_copying> all_ways(const session &session) {
    const environment &environment = session.environment;
    const std::size_t frame = session.workspace.largest;
    std::vector<way_of_copying> ways;
    for (const direction &direction : pinned_directions(session.workspace)) {
        const bool within_device = direction.kind() == memory::device;
        if (direction.destination.is_host()) continue;
        add_box(environment, direction, std::min<std::size_t>(within_device ? 64 << 20 : 8 << 20, frame / 2), ways);
        add_line(environment, direction, std::min<std::size_t>(within_device ? 128 << 20 : 8 << 20, frame),
                 with_route(FERRY_ROUTE_DRIVER), "driver", ways);
        if (within_device) continue;
        add_line(environment, direction, 64 << 10, with_priority(FERRY_PRIORITY_URGENT), "urgent", ways);
        add_batch(environment, direction, ways);
    }
    return ways;
}

using measured = copies_beside_kernel::measured;
using streams = copies_beside_kernel::streams;

template <class Member> double median_of(const std::vector<measured> &all, Member member) {
    samples values;
    for (const measured &one : all)
        values.push_back(static_cast<double>(one.*member));
    return summarise(std::move(values)).median;
}

number_table::line measure_way(const session &session, const copies_beside_kernel &beside, const streams &on,
                               const compute_kernel &kernel, const way_of_copying &way, const char *priority) {
    const auto once = [&](const compute_kernel *running, int copies) {
        return beside.measure(on, running, way.enqueue, copies);
    };
    once(&kernel, 1); // warm-up
    const double compute_us = once(&kernel, 0).compute_us, copy_us = once(nullptr, 10).copy_us;
    const int copies = copies_beside_kernel::copies_for(compute_us, copy_us);
    std::vector<measured> computing, copying, both;
    for (int i = 0; i < (session.is_quick ? 3 : 11); ++i) {
        computing.push_back(once(&kernel, 0));
        copying.push_back(once(nullptr, copies));
        both.push_back(once(&kernel, copies));
    }
    const auto slower = [](double together, double alone) { return 100 * (together / alone - 1); };
    const double compute_alone = median_of(computing, &measured::compute_us),
                 compute_beside = median_of(both, &measured::compute_us),
                 copy_alone = median_of(copying, &measured::copy_us), copy_beside = median_of(both, &measured::copy_us);
    return {{way.name, way.limit, priority},
            {compute_alone, compute_beside, slower(compute_beside, compute_alone), copy_alone, copy_beside,
             slower(copy_beside, copy_alone), median_of(both, &measured::copies)}};
}

case_result run_interference(session &session) {
    const environment &environment = session.environment;
    if (const std::string why = why_no_computing(environment); !why.empty()) return skipped(why);
    case_result result =
        session.begin({.note = "the kernel keeps eight blocks of 256 threads on each SM. Copies are enqueued\nback "
                               "to back on another stream, with "
                               "the same priority or the greatest. The time of a copy beside the kernel counts\nthe "
                               "copies that ended before "
                               "the kernel did, or the first copy if none did. "
                               "Host memory is pinned",
                       .label_columns = {}});
    result.numbers.label_columns = {"copy", "max SMs", "priority"};
    result.numbers.number_columns = {"compute us",          "beside copies us", "compute slower by %", "copy us",
                                     "beside computing us", "copy slower by %", "copies in time"};
    const owned<CUstream> compute = make_stream_of_least_priority(environment),
                          same = make_stream_of_least_priority(environment),
                          first = make_stream_of_greatest_priority(environment);
    const compute_kernel kernel(environment);
    const copies_beside_kernel beside(environment);
    for (const way_of_copying &way : all_ways(session))
        for (const bool is_first : {false, true}) {
            session.progress.show("interference", way.name + ", " + way.limit, 0);
            const streams on = {compute.get(), is_first ? first.get() : same.get()};
            result.numbers.lines.push_back(
                measure_way(session, beside, on, kernel, way, is_first ? "greatest" : "same"));
        }
    return result;
}

} // namespace
} // namespace of_interference

const bench_case interference_case = {"interference", "each kind of copy beside a kernel that computes on all SMs",
                                      of_interference::run_interference};

} // namespace bench
