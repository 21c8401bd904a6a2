#include "calibrate/pair_rates.h"

#include <algorithm>
#include <bit>

#include "calibrate/workspace.h"
#include "device/capture_mode.h"
#include "exec/driver_copy.h"
#include "links/relay.h"

namespace ferry {

namespace {

// The fixed time of 64 MiB is 5 % of the whole over NVLink 4, and 6 % of a relayed copy (docs/performance.md, H100).
constexpr std::uint64_t max_pair_bytes = 64 * MiB, min_pair_bytes = 8 * MiB;
// For the copies. The rest of two seconds is left for the contexts and the allocations.
constexpr std::uint64_t pair_budget_ns = 600'000'000;

class pair_workspace {
public:
    // `here` must be current.
    pair_workspace(const driver_table &cu, const pair_ground &ground, CUcontext here, CUcontext there) noexcept
        : cu_(cu), ground_(ground), near_(here), far_(there), watch_(cu),
          lanes_(cu, ground.contexts, ground.pinned, ground.devices, ground.memory) {}
    ~pair_workspace() {
        if (stream_) cu_.cuStreamSynchronize(stream_); // a copy may be in flight when another fails
        lanes_.close();
        for (const CUdeviceptr memory : {source_, destination_})
            if (memory) cu_.cuMemFree(memory);
        if (stream_) cu_.cuStreamDestroy(stream_);
    }
    pair_workspace(const pair_workspace &) = delete;
    pair_workspace &operator=(const pair_workspace &) = delete;

    // Measures without access first: a context's access is best ended by ending the context.
    error measure(measured_pair &found) noexcept {
        if (error failed = prepare()) return failed;
        watch_.start(stream_, 0, 0); // no rates: the copies keep to a budget of their own
        if (error failed = choose_size()) return failed;
        std::uint32_t bounce_fixed_ns = 0;
        if (error failed = measure_driver(bounce_fixed_ns, found.rates.bounce)) return failed;
        if (error failed = measure_relay(found.rates)) return failed;
        if (!ground_.has_access) return {};
        if (CUresult result = cu_.cuCtxEnablePeerAccess(far_, 0)) return to_error(result);
        return measure_driver(found.direct_fixed_ns, found.rates.direct);
    }

private:
    error prepare() noexcept {
        if (!lanes_.may_serve()) return {.status = FERRY_ERROR_UNSUPPORTED};
        if (CUresult result = cu_.cuStreamCreateWithPriority(&stream_, CU_STREAM_NON_BLOCKING, 0)) {
            stream_ = nullptr;
            return to_error(result);
        }
        if (error failed = allocate(source_)) return failed;
        context_scope scope(cu_);
        if (error failed = scope.enter(far_)) return failed;
        return allocate(destination_);
    }
    error allocate(CUdeviceptr &memory) noexcept {
        if (error failed = leave_room(cu_, size_, min_pair_bytes)) return failed;
        return allocate_shrinking(size_, min_pair_bytes, [&](std::uint64_t size) noexcept {
            const CUresult result = cu_.cuMemAlloc(&memory, size);
            if (result) memory = 0;
            return result;
        });
    }

    // Shortens the lines until the budget suffices for all, as far as the driver's way without access tells.
    error choose_size() noexcept {
        std::uint64_t ns = 0;
        if (error failed = time_of(way::driver, short_line(), 1, ns)) return failed;
        constexpr std::uint64_t lines = 3 * (runs + 1); // of the driver with and without access, and the relay
        const std::uint64_t line_ns = ns * (size_ / short_line());
        const std::uint64_t too_long_by = std::max<std::uint64_t>(line_ns * lines / pair_budget_ns, 1);
        size_ = std::max(size_ / std::bit_ceil(too_long_by), min_pair_bytes);
        return {};
    }

    error measure_driver(std::uint32_t &fixed_ns, std::uint32_t &rate) noexcept {
        std::uint64_t small_ns = 0, ns = 0;
        constexpr int small_runs = 9;
        constexpr std::uint64_t small = 4;
        if (error failed = time_of(way::driver, small, small_runs, small_ns)) return failed;
        if (error failed = time_of(way::driver, size_, runs, ns)) return failed;
        fixed_ns = to_fact(small_ns);
        rate = rate_in(size_, ns, small_ns);
        return {};
    }

    // From two lengths: a relayed copy begins and ends with a chunk that nothing overlaps.
    error measure_relay(pair_rates &found) noexcept {
        std::uint64_t short_ns = 0, long_ns = 0;
        if (error failed = time_of(way::relay, short_line(), runs, short_ns)) return failed;
        if (error failed = time_of(way::relay, size_, runs, long_ns)) return failed;
        found.relay = rate_in(size_ - short_line(), long_ns, short_ns);
        found.relay_fixed_ns = to_fact(short_ns - std::min(short_ns, short_line() * 1000 / found.relay));
        return {};
    }

    enum class way : std::uint8_t { driver, relay };
    // The median of `count` copies, after one more.
    error time_of(way taken, std::uint64_t bytes, int count, std::uint64_t &ns) noexcept {
        const shape line = line_of(bytes);
        const auto copy = [&]() noexcept -> error {
            if (taken == way::relay) return run_relay(cu_, lanes_, line, {near_, stream_, near_, far_, ground_.peer});
            copy_plan plan;
            plan.names_contexts = true;
            return run_driver_route(cu_, line, plan, copy_form::asynchronous, {near_, far_}, stream_);
        };
        return watch_.median_of(count, copy, ns);
    }
    shape line_of(std::uint64_t bytes) const noexcept {
        shape line =
            shape_of({memory_kind::device, memory_kind::device, source_, destination_, false, false}, bytes, 1);
        line.source.device = ground_.device;
        line.destination.device = ground_.peer;
        return line;
    }
    std::uint64_t short_line() const noexcept { return size_ / 8; }

    static constexpr int runs = 5;

    const driver_table &cu_;
    const pair_ground &ground_;
    const CUcontext near_, far_;
    stopwatch watch_;
    lane_set lanes_;
    CUstream stream_ = nullptr;
    CUdeviceptr source_ = 0, destination_ = 0;
    std::uint64_t size_ = max_pair_bytes; // of a long line
};

} // namespace

error calibrate_pair(const driver_table &cu, const pair_ground &ground, measured_pair &found) noexcept {
    const relaxed_capture_mode relaxed(cu); // calibration allocates, which a capture on another thread forbids
    if (!relaxed.entered()) return relaxed.why();
    temporary_context there(cu), here(cu);
    if (error failed = there.make(ground.devices[ground.peer].handle)) return failed;
    if (error failed = here.make(ground.devices[ground.device].handle)) return failed;
    context_scope scope(cu);
    if (error failed = scope.enter(here.get())) return failed;
    measured_pair measured;
    if (error failed = pair_workspace(cu, ground, here.get(), there.get()).measure(measured)) return failed;
    found = measured;
    return {};
}

void put_pair(const measured_pair &pair, device_profile &profile) noexcept {
    profile.bounce_rate = pair.rates.bounce;
    profile.relay_fixed_ns = pair.rates.relay_fixed_ns;
    profile.relay_rate = pair.rates.relay;
    if (!pair.rates.direct) return;
    direction_profile &between = profile[copy_direction::between_devices];
    between.driver_fixed_ns = pair.direct_fixed_ns;
    between.driver_line_rate = pair.rates.direct;
    // Rows and kernels are not measured. Over the same link they are no faster than a line: else a profile made for a
    // faster link would prefer kernels to the driver.
    const auto limit = [&](std::uint32_t &rate) noexcept { rate = std::min(rate, pair.rates.direct); };
    limit(between.kernel_line_rate);
    for (int side = 0; side < gap_sides; ++side)
        for (int at = 0; at < width_classes; ++at) {
            limit(between.driver_rates[side][at]);
            limit(between.kernel_rates[side][at]);
        }
    for (std::uint32_t &rate : between.kernel_access_rates)
        limit(rate);
}

} // namespace ferry
