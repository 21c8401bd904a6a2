// Measures the time of work on a stream, for a calibration with a limited time budget.
#pragma once

#include <algorithm>

#include "base/function_ref.h"
#include "driver/result.h"
#include "plan/profile.h"
#include "system/threads.h"

namespace ferry {

inline constexpr std::uint64_t KiB = 1024, MiB = 1024 * KiB;

inline std::uint32_t rate_in(std::uint64_t bytes, std::uint64_t ns, std::uint64_t fixed_ns) noexcept {
    // If a copy takes no longer than an empty copy, the time of its bytes cannot be determined. So the bytes count for
    // at least a quarter of the time.
    const std::uint64_t of_bytes = std::max(ns - std::min(ns, fixed_ns), std::max<std::uint64_t>(ns / 4, 1));
    return to_fact(bytes * 1000 / of_bytes);
}

class stopwatch {
public:
    explicit stopwatch(const driver_table &cu) noexcept : cu_(cu) {}

    // Starts with a budget of `budget_ns` for `rates` calls of rate_of_run.
    void start(CUstream stream, std::uint64_t budget_ns, int rates) noexcept {
        stream_ = stream;
        deadline_ns_ = clock_ns() + budget_ns;
        rates_left_ = rates;
    }

    // Measures the time of `run` and of the work that it enqueues.
    [[gnu::noinline]] error time_once(function_ref<error()> run, std::uint64_t &ns) noexcept {
        const std::uint64_t begin = clock_ns();
        if (error failed = run()) return failed;
        if (call_result result = cu_.cuStreamSynchronize(stream_)) return to_error(result);
        ns = clock_ns() - begin;
        return {};
    }

    static constexpr int max_runs = 15;
    // Returns the median of an odd number of runs, after one warm-up run.
    [[gnu::noinline]] error median_of(int runs, function_ref<error()> run, std::uint64_t &ns) noexcept {
        std::uint64_t times[max_runs];
        if (error failed = time_once(run, times[0])) return failed;
        for (int i = 0; i < runs; ++i)
            if (error failed = time_once(run, times[i])) return failed;
        std::nth_element(times, times + runs / 2, times + runs);
        ns = times[runs / 2];
        return {};
    }

    // Measures the payload rate of `run(bytes)`, in bytes per microsecond. Copies a multiple of `unit` that takes half
    // a millisecond, or this rate's share of the remaining time. A small copy ends before its rate is measurable, and
    // stays in a cache. So copies at least `wanted` bytes if that does not take much longer.
    [[gnu::noinline]] error rate_of_run(std::uint64_t unit, std::uint64_t max_bytes, std::uint64_t fixed_ns,
                                        function_ref<error(std::uint64_t)> run, std::uint32_t &rate,
                                        std::uint64_t wanted = 0) noexcept {
        constexpr int runs = 3;
        constexpr std::uint64_t growth = 8, max_target_ns = 500'000;
        const std::uint64_t now = clock_ns(), left = deadline_ns_ - std::min(now, deadline_ns_);
        const std::uint64_t share = left / static_cast<std::uint64_t>(std::max(rates_left_--, 1)) / (runs + 2);
        const std::uint64_t target_ns = std::clamp<std::uint64_t>(share, 10'000, max_target_ns);
        const std::uint64_t all = max_bytes / unit * unit;
        std::uint64_t bytes = std::min(all, std::max<std::uint64_t>(unit, 16 * KiB / unit * unit)), ns = 0;
        const auto run_all = [&]() noexcept { return run(bytes); };
        if (error failed = time_once(run_all, ns)) return failed; // warm-up
        for (;; bytes = std::min(all, bytes * growth)) {
            if (error failed = time_once(run_all, ns)) return failed;
            if (bytes == all || ns > fixed_ns + target_ns / growth) break;
        }
        const auto bytes_in = [&](std::uint64_t time_ns) noexcept {
            return std::clamp(rate_in(bytes, ns, fixed_ns) * time_ns / 1000 / unit * unit, unit, all);
        };
        bytes = std::clamp(wanted / unit * unit, bytes_in(target_ns), bytes_in(4 * target_ns));
        if (error failed = median_of(runs, run_all, ns)) return failed;
        rate = rate_in(bytes, ns, fixed_ns);
        return {};
    }

private:
    const driver_table &cu_;
    CUstream stream_ = nullptr;
    std::uint64_t deadline_ns_ = 0;
    int rates_left_ = 0;
};

} // namespace ferry
