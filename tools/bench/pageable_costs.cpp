// The costs of pageable copies other than time on the link: processor time, threads, pinned memory, and the slowdown of
// a kernel that computes on all SMs at the same time. Measured for the driver, and for ferry with few and many threads.
#include <algorithm>
#include <cmath>
#include <ctime>

#include "compute.h"
#include "contest.h"
#include "pageable.h"
#include "progress.h"
#include "units.h"

namespace bench {

namespace {

// The instances whose copies are measured, one after another. 0 threads: the default.
struct named_options {
    const char *name;
    std::uint32_t threads;
};
constexpr named_options instance_options[] = {{"default", 0},   {"1 thread", 1},  {"2 threads", 2},
                                              {"4 threads", 4}, {"8 threads", 8}, {"16 threads", 16}};

instance open_with(const environment &environment, const named_options &which) {
    auto options = sized<ferry_options>();
    options.driver = environment.report.driver;
    options.staging_threads = which.threads;
    return open_ferry(options);
}

// One way of copying, enqueued on a stream.
struct way {
    const char *call, *options;
    ferry_instance *ferry; // null: the driver's own copy
    std::uint32_t max_sms; // the maximum number of SMs that the copy uses
    std::function<void(CUstream)> enqueue;
};

way by_driver(const environment &environment, const direction &direction, std::size_t size) {
    return {"cuMemcpy*Async", "-", nullptr, 0, [&environment, &direction, size](CUstream stream) {
                raw_copy_async(environment, direction, size, stream);
            }};
}

way by_ferry(const environment &environment, ferry_instance *ferry, const char *options, const direction &direction,
             std::size_t size) {
    const ferry_copy_desc copy = describe(line(direction, size));
    auto told = sized<ferry_explanation>();
    auto error = sized<ferry_error_info>();
    check(ferry_copy_explain_async(ferry, &copy, nullptr, environment.stream.get(), &told, &error),
          "ferry_copy_explain_async", error);
    return {"ferry_copy_async", options, ferry, told.max_sms,
            [ferry, copy](CUstream stream) { ferry_copy_async_checked(ferry, copy, stream); }};
}

// The processor time of all threads of the process, including time in the system.
double processor_time_ns() { return 1e9 * static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

// Waits without using processor time, whereas cuStreamSynchronize polls continuously.
class asleep {
public:
    explicit asleep(const environment &environment)
        : environment_(environment), event_([&] {
              CUevent event = nullptr;
              check(environment.cu.cuEventCreate(&event, CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING),
                    "cuEventCreate");
              return owned<CUevent>(event, environment.cu.cuEventDestroy);
          }()) {}
    void wait_for(CUstream stream) const {
        check(environment_.cu.cuEventRecord(event_.get(), stream), "cuEventRecord");
        check(environment_.cu.cuEventSynchronize(event_.get()), "cuEventSynchronize");
    }

private:
    const environment &environment_;
    const owned<CUevent> event_;
};

struct cost {
    double gb_per_s, processor_ms_per_gb, threads, ring_mib;
};

cost measure_cost(const session &session, const way &way, std::size_t size) {
    const environment &environment = session.environment;
    const CUstream stream = environment.stream.get();
    const asleep sleeper(environment);
    way.enqueue(stream);
    sleeper.wait_for(stream);

    samples times;
    const double processor_before = processor_time_ns(), end = now_ns() + (session.is_quick ? 0.02e9 : 0.3e9);
    while (times.size() < 3 || now_ns() < end) {
        const double start = now_ns();
        way.enqueue(stream);
        sleeper.wait_for(stream);
        times.push_back(now_ns() - start);
    }
    const double processor_ns = processor_time_ns() - processor_before, bytes = static_cast<double>(size);
    auto staging = sized<ferry_staging_info>();
    if (way.ferry)
        check(ferry_staging_get_info(way.ferry, &staging, nullptr), "ferry_staging_get_info",
              sized<ferry_error_info>());
    return {bytes / summarise(times).median, processor_ns / bytes / static_cast<double>(times.size()) * 1e3,
            static_cast<double>(staging.threads), static_cast<double>(staging.staging_bytes) / (1 << 20)};
}

// Runs a copy concurrently with the kernel, which is launched repeatedly for about twice as long as the copy takes
// alone.
class contest_for_multiprocessors {
public:
    explicit contest_for_multiprocessors(const environment &environment)
        : environment_(environment), kernel_(environment), watch_(environment, first_computed + max_launches),
          computing_(make_stream(environment)), copying_(make_stream(environment)) {}

    struct slowing {
        double compute_percent, copy_percent;
    };
    slowing measure(const way &way, int rounds) const {
        run(&way, 1); // warm-up
        const double launch_us = run(nullptr, 1).launch_us, copy_us = run(&way, 0).copy_us;
        const int launches =
            static_cast<int>(std::clamp(std::ceil(2 * copy_us / launch_us), 1.0, double{max_launches}));
        samples launch_alone, copy_alone, launch_beside, copy_beside;
        for (int i = 0; i < rounds; ++i) {
            launch_alone.push_back(run(nullptr, launches).launch_us);
            copy_alone.push_back(run(&way, 0).copy_us);
            const times both = run(&way, launches);
            launch_beside.push_back(both.launch_us);
            copy_beside.push_back(both.copy_us);
        }
        const auto slower = [](const samples &beside, const samples &alone) {
            return 100 * (summarise(beside).median / summarise(alone).median - 1);
        };
        return {slower(launch_beside, launch_alone), slower(copy_beside, copy_alone)};
    }

private:
    static constexpr int max_launches = 400; // the driver's queue accepts about a thousand
    static constexpr int begun = 0, copied = 1, first_computed = 2;

    struct times {
        double launch_us = 0, copy_us = 0;
    };
    times run(const way *way, int launches) const {
        watch_.note(begun, computing_.get());
        check(environment_.cu.cuStreamWaitEvent(copying_.get(), watch_[begun], 0), "cuStreamWaitEvent");
        for (int i = 0; i < launches; ++i) {
            kernel_.launch(computing_.get());
            watch_.note(first_computed + i, computing_.get());
        }
        if (way) way->enqueue(copying_.get());
        watch_.note(copied, copying_.get());
        for (const owned<CUstream> *stream : {&computing_, &copying_})
            check(environment_.cu.cuStreamSynchronize(stream->get()), "cuStreamSynchronize");
        times found;
        if (way) found.copy_us = watch_.us_between(begun, copied);
        if (launches) found.launch_us = launch_time(way ? found.copy_us : INFINITY, launches);
        return found;
    }
    // Returns the median time of the launches that ended before the copy did, or the time of the first launch if none
    // did.
    double launch_time(double copy_us, int launches) const {
        samples all;
        for (int i = 0; i < launches; ++i) {
            if (i && watch_.us_between(begun, first_computed + i) > copy_us) break;
            all.push_back(watch_.us_between(i ? first_computed + i - 1 : begun, first_computed + i));
        }
        return summarise(std::move(all)).median;
    }

    const environment &environment_;
    const compute_kernel kernel_;
    const stopwatch watch_;
    const owned<CUstream> computing_, copying_;
};

class cost_table {
public:
    explicit cost_table(session &session) : session_(session) {
        numbers.label_columns = {"copy", "size", "call", "options"};
        numbers.number_columns = {"GB/s", "CPU ms per GB", "threads", "ring MiB", "SMs"};
        if (!why_no_computing(session.environment).empty()) return;
        contest_.emplace(session.environment);
        numbers.number_columns.insert(numbers.number_columns.end(), {"compute slower by %", "copy slower by %"});
    }
    void add(const direction &direction, std::size_t size, const way &way) {
        session_.progress.show("pageable", std::string(direction.name) + ", costs of " + way.call, size);
        const environment &environment = session_.environment;
        const contender copy = {way.call, [&] {
                                    way.enqueue(environment.stream.get());
                                    drain(environment);
                                }};
        const box copied = line(direction, size);
        verify_each(session_.workspace, {&copied, 1}, {&copy, 1});
        const cost cost = measure_cost(session_, way, size);
        number_table::line line = {
            {direction.name, size_text(size), way.call, way.options},
            {cost.gb_per_s, cost.processor_ms_per_gb, cost.threads, cost.ring_mib, static_cast<double>(way.max_sms)}};
        if (contest_) {
            const auto slowing = contest_->measure(way, session_.is_quick ? 2 : 3);
            line.numbers.insert(line.numbers.end(), {slowing.compute_percent, slowing.copy_percent});
        }
        numbers.lines.push_back(std::move(line));
    }

    number_table numbers;

private:
    session &session_;
    std::optional<contest_for_multiprocessors> contest_;
};

} // namespace

number_table measure_costs(session &session) {
    const environment &environment = session.environment;
    environment.need({"cuEventCreate", "cuEventRecord", "cuEventSynchronize", "cuEventDestroy"});
    constexpr std::size_t wanted[] = {64 << 20, 1 << 30};
    std::vector<std::size_t> sizes;
    for (const std::size_t size : wanted)
        if (size <= session.workspace.largest) sizes.push_back(size);
    if (sizes.empty()) sizes.push_back(session.workspace.largest);
    cost_table table(session);
    for (const direction &direction : pageable_directions(session.workspace))
        for (const std::size_t size : sizes) {
            table.add(direction, size, by_driver(environment, direction, size));
            for (const named_options &options : chosen(session, instance_options)) {
                const instance opened = open_with(environment, options);
                table.add(direction, size, by_ferry(environment, opened.get(), options.name, direction, size));
            }
        }
    return table.numbers;
}

std::string note_on_costs(const session &session) {
    const std::string why = why_no_computing(session.environment);
    return "Costs: waits sleep; CPU: of all threads of the process; threads and ring: ferry's; the driver copies on "
           "the "
           "calling thread;\nSMs: the maximum number that ferry keeps busy" +
           (why.empty() ? std::string("; compute: a kernel on all SMs, beside the copy") : "; " + why) +
           ". PyTorch's and CuPy's own copies: tools/bench/python_copies.py";
}

} // namespace bench
