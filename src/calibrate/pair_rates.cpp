#include "calibrate/pair_rates.h"

#include <algorithm>
#include <bit>

#include "calibrate/workspace.h"
#include "device/capture_mode.h"
#include "exec/driver_copy.h"
#include "exec/kernel_launch.h"
#include "routes/relayed.h"

namespace ferry {

namespace {

// The fixed time of a copy of 64 MiB is 5 % of the total over NVLink 4, and 6 % for a relayed copy
// (docs/performance.md, H100).
constexpr std::uint64_t max_pair_bytes = 64 * MiB, min_pair_bytes = 8 * MiB;
// For the copies. The rest of two seconds is for the contexts and the allocations.
constexpr std::uint64_t pair_budget_ns = 600'000'000;

class pair_workspace {
public:
    // `here` must be current.
    pair_workspace(const driver_table &cu, const pair_ground &ground, CUcontext here, CUcontext there) noexcept
        : cu_(cu), ground_(ground), near_(here), far_(there), watch_(cu),
          lanes_(cu, ground.contexts, ground.pinned, ground.devices, ground.memory) {}
    ~pair_workspace() {
        if (stream_) cu_.cuStreamSynchronize(stream_); // a copy may still be in flight after another copy failed
        lanes_.close();
        if (host_) static_cast<void>(host_.free(cu_, ground_.contexts, ground_.pinned));
        for (const CUdeviceptr memory : {source_, destination_})
            if (memory) cu_.cuMemFree(memory);
        if (stream_) cu_.cuStreamDestroy(stream_);
    }
    pair_workspace(const pair_workspace &) = delete;
    pair_workspace &operator=(const pair_workspace &) = delete;

    // Measures without access first, because access is best disabled by destroying the context.
    error measure(pair_rates &found) noexcept {
        if (is_software()) size_ = 2 * min_pair_bytes; // longer copies would only take longer
        if (error failed = prepare()) return failed;
        watch_.start(stream_, 0, 0); // the rate budget is 0: these copies have their own budget
        if (error failed = choose_size()) return failed;
        std::uint32_t fixed_ns = 0;
        if (error failed = measure(pair_route::driver, size_, fixed_ns, found.bounce_rate)) return failed;
        if (error failed = measure_relay(found)) return failed;
        if (!ground_.has_access) return {};
        if (call_result result = cu_.cuCtxEnablePeerAccess(far_, 0)) return to_error(result);
        if (error failed = measure(pair_route::driver, size_, found.direct_fixed_ns, found.direct_rate)) return failed;
        if (!ground_.kernels.may_serve() || ground_.kernels.load()) return {};
        std::uint64_t line = std::min(size_, is_software() ? MiB : max_link_bytes);
        const int node = ground_.devices[ground_.device].info.numa_node;
        if (error failed = host_.allocate(cu_, ground_.pinned, line, MiB, node, host_owner::pool)) return failed;
        line = std::min(line, host_.block.size);
        if (error failed = measure(pair_route::link_to, line, fixed_ns, found.link_to_rate)) return failed;
        return measure(pair_route::link_from, line, fixed_ns, found.link_from_rate);
    }

private:
    error prepare() noexcept {
        if (!lanes_.may_serve()) return {.status = FERRY_ERROR_UNSUPPORTED};
        if (call_result result = cu_.cuStreamCreateWithPriority(&stream_, CU_STREAM_NON_BLOCKING, 0)) {
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
            const call_result result = cu_.cuMemAlloc(&memory, size);
            if (result) memory = 0;
            return result;
        });
    }

    // Shortens the copies until the budget is sufficient for all of them, based on the driver's copy without access.
    error choose_size() noexcept {
        std::uint64_t ns = 0;
        if (error failed = time_of(pair_route::driver, short_line(), 1, ns)) return failed;
        constexpr std::uint64_t lines = 3 * (runs + 1); // of the driver with and without access, and the relay
        const std::uint64_t line_ns = ns * (size_ / short_line());
        const std::uint64_t too_long_by = std::max<std::uint64_t>(line_ns * lines / pair_budget_ns, 1);
        size_ = std::max(size_ / std::bit_ceil(too_long_by), min_pair_bytes);
        return {};
    }

    enum class pair_route : std::uint8_t { driver, relay, link_to, link_from };

    error measure(pair_route taken, std::uint64_t bytes, std::uint32_t &fixed_ns, std::uint32_t &rate) noexcept {
        std::uint64_t small_ns = 0, ns = 0;
        constexpr std::uint64_t small = 16;
        if (error failed = time_of(taken, small, 2 * runs - 1, small_ns)) return failed;
        if (error failed = time_of(taken, bytes, taken == pair_route::driver ? runs : 3 * runs, ns)) return failed;
        fixed_ns = to_fact(small_ns);
        rate = rate_in(bytes, ns, small_ns);
        return {};
    }

    // Uses two lengths, because the first and the last chunk of a relayed copy are not overlapped.
    error measure_relay(pair_rates &found) noexcept {
        std::uint64_t short_ns = 0, long_ns = 0;
        if (error failed = time_of(pair_route::relay, short_line(), runs, short_ns)) return failed;
        if (error failed = time_of(pair_route::relay, size_, runs, long_ns)) return failed;
        found.relay_rate = rate_in(size_ - short_line(), long_ns, short_ns);
        found.relay_fixed_ns = to_fact(short_ns - std::min(short_ns, short_line() * 1000 / found.relay_rate));
        return {};
    }

    // Returns the median of `count` copies, after one warm-up copy.
    error time_of(pair_route taken, std::uint64_t bytes, int count, std::uint64_t &ns) noexcept {
        const shape line = line_of(bytes);
        const auto copy = [&]() noexcept -> error {
            if (taken == pair_route::relay)
                return run_relay(cu_, lanes_, line, {near_, stream_, near_, far_, ground_.peer});
            if (taken == pair_route::driver) {
                copy_plan plan;
                plan.names_contexts = true;
                return run_driver_route(cu_, line, plan, copy_form::asynchronous, {near_, far_}, stream_);
            }
            // Moves the bytes in the same way as a helper moves its part of a copy over several links.
            const bool is_to_device = taken == pair_route::link_to;
            const std::uint64_t to = is_to_device ? destination_ : host_.device_address,
                                from = is_to_device ? host_.device_address : destination_;
            const unsigned blocks = is_to_device ? link_blocks_to_device : link_blocks_to_host;
            return launch_strided(cu_, ground_.kernels, box_of(line, to, from), blocks, stream_);
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
    bool is_software() const noexcept { return ground_.devices[ground_.device].info.is_software != 0; }
    std::uint64_t short_line() const noexcept { return size_ / 8; }

    static constexpr int runs = 5;
    static constexpr std::uint64_t max_link_bytes = 16 * MiB;

    const driver_table &cu_;
    const pair_ground &ground_;
    const CUcontext near_, far_;
    stopwatch watch_;
    lane_set lanes_;
    CUstream stream_ = nullptr;
    CUdeviceptr source_ = 0, destination_ = 0;
    staged_memory host_;
    std::uint64_t size_ = max_pair_bytes; // size of a long copy
};

} // namespace

error calibrate_pair(const driver_table &cu, const pair_ground &ground, pair_rates &found) noexcept {
    const relaxed_capture_mode relaxed(cu); // calibration allocates, which a capture of another thread forbids
    if (!relaxed.entered()) return relaxed.why();
    temporary_context there(cu), here(cu);
    if (error failed = there.make(ground.devices[ground.peer].handle)) return failed;
    if (error failed = here.make(ground.devices[ground.device].handle)) return failed;
    context_scope scope(cu);
    if (error failed = scope.enter(here.get())) return failed;
    pair_rates measured;
    if (error failed = pair_workspace(cu, ground, here.get(), there.get()).measure(measured)) return failed;
    found = measured;
    return {};
}

} // namespace ferry
