// interference: a kernel that computes on all SMs concurrently with each way of copying, and how much each slows down
// the other.
#include <algorithm>
#include <cmath>

#include "case.h"
#include "compute.h"
#include "progress.h"
#include "units.h"

namespace bench {

namespace of_interference {
namespace {

// The driver's queue accepts about a thousand launches.
constexpr int max_copies = 400;

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

struct streams {
    CUstream compute, copy;
};

struct measured {
    double compute_us, copy_us;
    int copies = 0; // that completed before the kernel did
};

// The events: start of both streams, end of the kernel, then the end of each copy.
constexpr int begun = 0, computed = 1, first_copied = 2;

void wait_for_both(const environment &environment, const streams &on) {
    for (const CUstream stream : {on.compute, on.copy})
        check(environment.cu.cuStreamSynchronize(stream), "cuStreamSynchronize");
}

// Measures only the kernel if there are no copies, and only the copies if there is no kernel.
measured measure_once(const environment &environment, const stopwatch &watch, const streams &on,
                      const compute_kernel *kernel, const way_of_copying &way, int copies) {
    watch.note(begun, on.compute);
    check(environment.cu.cuStreamWaitEvent(on.copy, watch[begun], 0), "cuStreamWaitEvent");
    if (kernel) kernel->launch(on.compute);
    watch.note(computed, on.compute);
    for (int i = 0; i < copies; ++i) {
        way.enqueue(on.copy);
        watch.note(first_copied + i, on.copy);
    }
    wait_for_both(environment, on);
    measured found = {watch.us_between(begun, computed), 0};
    if (!copies) return found;
    if (!kernel) return {0, watch.us_between(begun, first_copied + copies - 1) / copies, copies};
    while (found.copies < copies && watch.us_between(begun, first_copied + found.copies) <= found.compute_us)
        ++found.copies;
    // If no copy completed in time, the first copy waited for the whole kernel.
    const int counted = std::max(found.copies, 1);
    found.copy_us = watch.us_between(begun, first_copied + counted - 1) / counted;
    return found;
}

template <class Member> double median_of(const std::vector<measured> &all, Member member) {
    samples values;
    for (const measured &one : all)
        values.push_back(static_cast<double>(one.*member));
    return summarise(std::move(values)).median;
}

number_table::line measure_way(const session &session, const stopwatch &watch, const streams &on,
                               const compute_kernel &kernel, const way_of_copying &way, const char *priority) {
    const environment &environment = session.environment;
    const auto once = [&](const compute_kernel *beside, int copies) {
        return measure_once(environment, watch, on, beside, way, copies);
    };
    once(&kernel, 1); // warm-up
    const double compute_us = once(&kernel, 0).compute_us, copy_us = once(nullptr, 10).copy_us;
    // Enough copies to last as long as the kernel if both take twice as long.
    const int copies = static_cast<int>(std::clamp(std::ceil(2 * compute_us / copy_us), 1.0, double{max_copies}));
    std::vector<measured> computing, copying, both;
    for (int i = 0; i < (session.is_quick ? 3 : 11); ++i) {
        computing.push_back(once(&kernel, 0));
        copying.push_back(once(nullptr, copies));
        both.push_back(once(&kernel, copies));
    }
    const auto slower = [](double beside, double alone) { return 100 * (beside / alone - 1); };
    const double compute_alone = median_of(computing, &measured::compute_us),
                 compute_beside = median_of(both, &measured::compute_us),
                 copy_alone = median_of(copying, &measured::copy_us), copy_beside = median_of(both, &measured::copy_us);
    return {{way.name, way.limit, priority},
            {compute_alone, compute_beside, slower(compute_beside, compute_alone), copy_alone, copy_beside,
             slower(copy_beside, copy_alone), median_of(both, &measured::copies)}};
}

owned<CUstream> make_stream_of_priority(const environment &environment, int priority) {
    CUstream stream = nullptr;
    check(environment.cu.cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, priority),
          "cuStreamCreateWithPriority");
    return {stream, environment.cu.cuStreamDestroy};
}

case_result run_interference(session &session) {
    const environment &environment = session.environment;
    if (const std::string why = why_no_computing(environment); !why.empty()) return skipped(why);
    environment.need({"cuCtxGetStreamPriorityRange", "cuStreamCreateWithPriority", "cuStreamDestroy"});
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
    int least = 0, greatest = 0;
    check(environment.cu.cuCtxGetStreamPriorityRange(&least, &greatest), "cuCtxGetStreamPriorityRange");
    const owned<CUstream> compute = make_stream_of_priority(environment, least),
                          same = make_stream_of_priority(environment, least),
                          first = make_stream_of_priority(environment, greatest);
    const compute_kernel kernel(environment);
    const stopwatch watch(environment, first_copied + max_copies);
    for (const way_of_copying &way : all_ways(session))
        for (const bool is_first : {false, true}) {
            session.progress.show("interference", way.name + ", " + way.limit, 0);
            const streams on = {compute.get(), is_first ? first.get() : same.get()};
            result.numbers.lines.push_back(
                measure_way(session, watch, on, kernel, way, is_first ? "greatest" : "same"));
        }
    return result;
}

} // namespace
} // namespace of_interference

const bench_case interference_case = {"interference", "each kind of copy beside a kernel that computes on all SMs",
                                      of_interference::run_interference};

} // namespace bench
