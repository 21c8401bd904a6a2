#include "calibrate/staged_rates.h"

#include <algorithm>
#include <cstring>

#include "driver/result.h"

namespace ferry {

namespace {

std::uint64_t less(std::uint64_t a, std::uint64_t b) noexcept { return a - std::min(a, b); }

template <class Run> error median_of_runs(const Run &run, std::uint64_t &ns) noexcept {
    constexpr int runs = 5;
    std::uint64_t times[runs];
    for (int i = -1; i < runs; ++i) { // one warm-up run
        const std::uint64_t begin = clock_ns();
        if (error failed = run()) return failed;
        times[std::max(i, 0)] = std::max<std::uint64_t>(clock_ns() - begin, 1);
    }
    std::nth_element(times, times + runs / 2, times + runs);
    ns = times[runs / 2];
    return {};
}

class staged_direction {
public:
    staged_direction(const driver_table &cu, const staging_ground &ground, bool to_device) noexcept
        : cu_(cu), ground_(ground), to_device_(to_device) {}

    error measure(direction_profile &found) noexcept {
        std::uint64_t small_ns = 0, large_ns = 0, large = small;
        constexpr std::uint64_t settling_ns = 10'000'000; // slots are still being added during the first copies
        const std::uint64_t begin = clock_ns();
        do {
            if (error failed = time_line(small, small_ns)) return failed;
        } while (clock_ns() - begin < settling_ns);
        // Increases the size of the copy until its rate is measurable, but no further.
        constexpr std::uint64_t long_enough_ns = 1'000'000;
        do {
            large *= 2;
            if (error failed = time_line(large, large_ns)) return failed;
        } while (large_ns < long_enough_ns && 2 * large <= ground_.size);
        const std::uint64_t more_ns = std::max(less(large_ns, small_ns), large_ns / 4);
        found.staged_rate = to_fact((large - small) * 1000 / std::max<std::uint64_t>(more_ns, 1));
        found.staged_thread_rate = to_fact(rate_of_one_thread());
        const std::uint64_t by_link = small * 1000 / found.staged_rate,
                            by_threads = small * 1000 / found.staged_thread_rate / threads();
        found.staged_fixed_ns = to_fact(less(small_ns, std::max(by_link, by_threads)));
        // Every byte passes through a kernel. If the times exceed the kernel's, other programs on the processors have
        // disturbed the measurement.
        found.staged_fixed_ns = std::max(found.staged_fixed_ns, found.kernel_fixed_ns);
        found.staged_rate = std::min(found.staged_rate, found.kernel_line_rate);
        return measure_rows(found);
    }

private:
    static constexpr std::uint64_t small = MiB; // at this size, whether threads help is a close call

    std::uint64_t threads() const noexcept { return ground_.engine.wanted_threads() + 1; } // plus the caller

    error copy(std::uint64_t width, std::uint64_t rows, std::uint64_t pitch) noexcept {
        staged_copy copy = {};
        copy.device = ground_.device;
        copy.context = ground_.context;
        copy.caller_helps = true;
        copy.box.device = {ground_.on_device, width, 0};
        copy.box.host = {reinterpret_cast<std::uintptr_t>(ground_.pageable), pitch, 0};
        copy.box.width = width;
        copy.box.height = rows;
        copy.box.depth = 1;
        copy.box.to_device = to_device_;
        staged_progress progress;
        const error failed = ground_.engine.enqueue(copy, ground_.stream, &progress);
        const error helped = ground_.engine.help(progress);
        if (failed) return failed;
        return helped ? helped : to_error(cu_.cuStreamSynchronize(ground_.stream));
    }
    error time_line(std::uint64_t bytes, std::uint64_t &ns) noexcept {
        return median_of_runs([&]() noexcept { return copy(bytes, 1, bytes); }, ns);
    }

    // Copies the whole buffer, so that the bytes do not come from a cache.
    std::uint64_t rate_of_one_thread() noexcept {
        std::uint64_t ns = 0;
        const auto copy = [&]() noexcept -> error {
            std::memcpy(to_device_ ? ground_.pinned : ground_.pageable, to_device_ ? ground_.pageable : ground_.pinned,
                        ground_.size);
            return {};
        };
        static_cast<void>(median_of_runs(copy, ns));
        return ground_.size * 1000 / ns;
    }

    // Measures narrow rows, where the cost per row outweighs the cost of the bytes.
    error measure_rows(direction_profile &found) noexcept {
        constexpr std::uint64_t width = 4, rows = 128 * KiB;
        std::uint64_t ns = 0;
        if (error failed = median_of_runs([&]() noexcept { return copy(width, rows, 2 * width); }, ns)) return failed;
        const std::uint64_t of_threads =
            less(ns, found.staged_fixed_ns) * std::min(threads(), width * rows / min_chunk);
        found.staged_row_ns = to_fact(less(of_threads, width * rows * 1000 / found.staged_thread_rate) / rows);
        return {};
    }

    const driver_table &cu_;
    const staging_ground &ground_;
    const bool to_device_;
};

} // namespace

error calibrate_staging(const driver_table &cu, const staging_ground &ground, device_profile &profile) noexcept {
    for (const bool to_device : {true, false}) {
        staged_direction one(cu, ground, to_device);
        if (error failed =
                one.measure(profile[to_device ? copy_direction::host_to_device : copy_direction::device_to_host]))
            return failed;
    }
    return {};
}

} // namespace ferry
