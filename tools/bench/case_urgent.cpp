// urgent: a small copy while a large copy is in flight in the same direction on another stream.
#include <algorithm>

#include "case.h"
#include "progress.h"
#include "units.h"

namespace bench {

namespace of_urgent {
namespace {

constexpr std::size_t small_size = 64 << 10;
constexpr double max_median_ns = 60e3, max_p99_ns = 150e3;
constexpr double head_start_ns = 100e3; // after this time the big copy is running

// A round is one copy by the driver concurrent with a big copy that has just begun, then several copies by ferry
// concurrent with another big copy.
struct rounds_plan {
    int rounds, urgent_per_round;
    std::size_t samples_per_p99; // the minimum for which 1 % is meaningful
};

rounds_plan plan_of(const session &session) {
    if (session.environment.device_info.is_software) return {10, 4, 20}; // the CPU performs the big copies
    return session.is_quick ? rounds_plan{20, 20, 200} : rounds_plan{200, 10, 200};
}

// 512 MiB, which take 10 ms over an H200's link.
std::size_t big_size(const environment &environment) {
    std::size_t size = environment.device_info.is_software ? 64 << 20 : 512 << 20;
    while (size > environment.device_info.total_memory / 8)
        size /= 2;
    return size;
}

owned<CUstream> make_urgent_stream(const environment &environment) {
    environment.need({"cuCtxGetStreamPriorityRange", "cuStreamCreateWithPriority", "cuStreamDestroy"});
    int least = 0, greatest = 0;
    CUstream stream = nullptr;
    check(environment.cu.cuCtxGetStreamPriorityRange(&least, &greatest), "cuCtxGetStreamPriorityRange");
    check(environment.cu.cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, greatest),
          "cuStreamCreateWithPriority");
    return {stream, environment.cu.cuStreamDestroy};
}

// A big copy on its own stream.
class big_copy {
public:
    big_copy(const environment &environment, const direction &way, std::size_t size)
        : environment_(environment), size_(size), pinned_(allocate_pinned(environment, size)),
          device_(allocate_device(environment, size)), stream_(make_stream(environment)) {
        const buffer host = host_buffer(memory::pinned, pinned_.get());
        const buffer device = device_buffer(device_.get(), environment.device, environment.context.handle);
        copy_ = way.source.is_host() ? direction{way.name, host, device} : direction{way.name, device, host};
    }
    void begin() const {
        raw_copy_async(environment_, copy_, size_, stream_.get());
        const double until = now_ns() + head_start_ns;
        while (now_ns() < until) {
        }
    }
    bool is_under_way() const {
        const CUresult result = environment_.cu.cuStreamQuery(stream_.get());
        if (result == CUDA_ERROR_NOT_READY) return true;
        check(result, "cuStreamQuery");
        return false;
    }
    void end() const { check(environment_.cu.cuStreamSynchronize(stream_.get()), "cuStreamSynchronize"); }

private:
    const environment &environment_;
    const std::size_t size_;
    const owned<void *> pinned_;
    const owned<CUdeviceptr> device_;
    const owned<CUstream> stream_;
    direction copy_ = {};
};

struct taken_samples {
    samples raw, urgent, alone; // alone: urgent, with no big copy in flight
    int discarded = 0;          // because the big copy had ended
};

double time_of(const contender &contender) {
    const double start = now_ns();
    contender.run();
    return now_ns() - start;
}

taken_samples measure(const big_copy &big, const contender &raw, const contender &urgent, const rounds_plan &plan) {
    taken_samples taken;
    for (int round = 0; round < plan.rounds; ++round) {
        // The driver's copy ends after the big copy, so the big copy only needs to be in flight during the call.
        big.begin();
        const bool was_under_way = big.is_under_way();
        const double raw_ns = time_of(raw);
        if (was_under_way)
            taken.raw.push_back(raw_ns);
        else
            ++taken.discarded;
        big.end();

        big.begin();
        for (int i = 0; i < plan.urgent_per_round; ++i) {
            const double urgent_ns = time_of(urgent);
            if (!big.is_under_way()) {
                taken.discarded += plan.urgent_per_round - i;
                break;
            }
            taken.urgent.push_back(urgent_ns);
        }
        big.end();
        taken.alone.push_back(time_of(urgent));
    }
    return taken;
}

void add_rows(const taken_samples &taken, std::vector<std::string> labels, const rounds_plan &plan, row_list &rows) {
    const comparison medians = compare_blocks(taken.raw, taken.urgent, 10, &distribution::median);
    const comparison p99 =
        compare_blocks(taken.raw, taken.urgent, std::max<std::size_t>(taken.urgent.size() / plan.samples_per_p99, 1),
                       &distribution::p99);

    labels.push_back("median of " + std::to_string(taken.urgent.size()));
    rows.push_back({.labels = labels,
                    .bytes = small_size,
                    .times = {summarise(taken.raw), summarise(taken.urgent), medians.ratio},
                    .target = std::nullopt,
                    .max_ns = max_median_ns,
                    .reference_ns = summarise(taken.alone)});
    labels.back() = "p99 of " + std::to_string(taken.urgent.size() / p99.ratio.count);
    rows.push_back({.labels = labels,
                    .bytes = small_size,
                    .times = p99,
                    .target = std::nullopt,
                    .max_ns = max_p99_ns,
                    .reference_ns = summarise({summarise(taken.alone).p99})});
}

case_result run_urgent(session &session) {
    const environment &environment = session.environment;
    const std::size_t big_bytes = big_size(environment);
    const rounds_plan plan = plan_of(session);
    case_result result = session.begin(
        {.note = "", .label_columns = {"copy", "route", "of the samples"}, .reference_column = "with nothing beside"});
    environment.need({"cuStreamQuery"});
    const owned<CUstream> raw_stream = make_urgent_stream(environment), stream = make_stream(environment);
    int discarded = 0;
    for (const direction &way : pinned_directions(session.workspace)) {
        if (way.kind() == memory::device) continue; // such copies do not wait for a copy engine
        session.progress.show("urgent", way.name, small_size);
        const box small = line(way, small_size);
        const ferry_copy_desc copy = describe(small);
        const copy_options options = with_priority(FERRY_PRIORITY_URGENT);
        const auto wait_for = [&](const owned<CUstream> &which) {
            check(environment.cu.cuStreamSynchronize(which.get()), "cuStreamSynchronize");
        };
        const contender raw = {"cuMemcpy*Async", [&] {
                                   raw_copy_async(environment, way, small_size, raw_stream.get());
                                   wait_for(raw_stream);
                               }};
        const contender urgent = {"ferry_copy_async, urgent", [&] {
                                      ferry_copy_async_checked(environment.basic.get(), copy, stream.get(), options);
                                      wait_for(stream);
                                  }};
        const contender both[] = {raw, urgent};
        verify_each(session.workspace, {&small, 1}, both); // also loads the kernels
        const big_copy big(environment, way, big_bytes);
        session.workspace.clear(small.destination);
        const taken_samples taken = measure(big, raw, urgent, plan);
        session.workspace.verify(small, urgent.name); // the bytes that were copied concurrently with the big copy
        discarded += taken.discarded;
        if (!taken.raw.empty() && !taken.urgent.empty())
            add_rows(taken, {way.name, name_of_route(explain(environment, copy, options)->route)}, plan, result.rows);
    }
    result.note = "from the call until the stream is synchronised, while " + size_text(big_bytes) +
                  " are in flight in the same direction on another stream; host memory\nis pinned; raw: cuMemcpy*Async "
                  "on a stream of the greatest priority; ferry: ferry_copy_async with FERRY_PRIORITY_URGENT on an\n"
                  "ordinary stream. The big copy was still running at the end of ferry's samples, and at the call of "
                  "raw samples; samples\ndiscarded because it was not: " +
                  std::to_string(discarded);
    return result;
}

} // namespace
} // namespace of_urgent

const bench_case urgent_case = {"urgent", "64 KiB marked urgent, beside a big copy in the same direction",
                                of_urgent::run_urgent};

} // namespace bench
