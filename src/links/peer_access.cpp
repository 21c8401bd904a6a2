#include "links/peer_access.h"

#include <bit>
#include <memory>
#include <type_traits>

#include "device/capture_mode.h"
#include "driver/result.h"
#include "links/data_probe.h"

namespace ferry {

namespace {

// Owns the allocations of a probe, and releases them however the probe ends. Access must be enabled.
class probe_run {
public:
    probe_run(const driver_table &cu, CUcontext near, CUcontext far) noexcept : cu_(cu), near_(near), far_(far) {}
    ~probe_run() {
        if (stream_) cu_.cuStreamDestroy(stream_);
        if (near_memory_) cu_.cuMemFree(near_memory_);
        if (far_memory_) cu_.cuMemFree(far_memory_); // needs no current context
    }
    probe_run(const probe_run &) = delete;
    probe_run &operator=(const probe_run &) = delete;

    // The near context must be current.
    error run(const allocator &memory, bool &passed) noexcept {
        if (error failed = prepare()) return failed;
        const probe_end near = {CU_MEMORYTYPE_DEVICE, near_memory_, near_};
        const probe_end far = {CU_MEMORYTYPE_DEVICE, far_memory_, far_};
        return probe_both_ways(cu_, move_between_contexts, near, far, stream_, memory, passed);
    }

private:
    error prepare() noexcept {
        if (call_result result = cu_.cuStreamCreateWithPriority(&stream_, CU_STREAM_NON_BLOCKING, 0))
            return to_error(result);
        if (call_result result = cu_.cuMemAlloc(&near_memory_, probe_size)) return to_error(result);
        context_scope scope(cu_);
        if (error failed = scope.enter(far_)) return failed;
        return to_error(cu_.cuMemAlloc(&far_memory_, probe_size));
    }

    const driver_table &cu_;
    const CUcontext near_, far_;
    CUstream stream_ = nullptr;
    CUdeviceptr near_memory_ = 0, far_memory_ = 0;
};

error enable_access(const driver_table &cu, CUcontext far, bool &was_enabled) noexcept {
    const call_result result = cu.cuCtxEnablePeerAccess(far, 0);
    was_enabled = result == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
    if (result == CUDA_ERROR_PEER_ACCESS_UNSUPPORTED) return replace(to_status(result), no_access);
    return was_enabled ? ok : to_error(result);
}

} // namespace

error peer_access::query_access(int device, int peer) const noexcept {
    int can = 0;
    const status_code status =
        call_optional(cu_.cuDeviceCanAccessPeer, &can, devices_[device].handle, devices_[peer].handle);
    if (status) return {.status = status};
    return can ? ok : no_access;
}

bool peer_access::reported(int device, int peer) const noexcept { return !query_access(device, peer); }

std::int32_t peer_access::attribute(CUdevice_P2PAttribute which, int device, int peer,
                                    std::int32_t unknown) const noexcept {
    int value = unknown;
    const status_code status =
        call_optional(cu_.cuDeviceGetP2PAttribute, &value, which, devices_[device].handle, devices_[peer].handle);
    return status == FERRY_SUCCESS ? value : unknown;
}

void peer_access::describe(int device, int peer, ferry_peer_info &found) const noexcept {
    found.device = device;
    found.peer = peer;
    found.driver_can_access = reported(device, peer);
    found.probe = probe_result(device, peer);
    found.can_access = found.driver_can_access && found.probe != FERRY_PROBE_FAILED;
    found.performance_rank = attribute(CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK, device, peer, -1);
    found.native_atomics = attribute(CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED, device, peer, 0);
    found.array_access = attribute(CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED, device, peer, 0);
    const pair_rates known = rates(device, peer);
    found.direct_mb_per_s = known.direct_rate;
    found.direct_fixed_ns = known.direct_fixed_ns;
    found.bounce_mb_per_s = known.bounce_rate;
    found.relay_mb_per_s = known.relay_rate;
    found.relay_fixed_ns = known.relay_fixed_ns;
    found.link_to_mb_per_s = known.link_to_rate;
    found.link_from_mb_per_s = known.link_from_rate;
}

peer_access::~peer_access() {
    static_assert(std::is_trivially_destructible_v<kept_rates>);
    memory_.deallocate(rates_.load(std::memory_order_relaxed), table_size() * sizeof(kept_rates));
}

error peer_access::make_room_for_rates() noexcept {
    if (rates_.load(std::memory_order_acquire)) return {};
    void *const place = memory_.allocate(table_size() * sizeof(kept_rates), alignof(kept_rates));
    if (!place) return no_memory;
    auto *const made = static_cast<kept_rates *>(place);
    std::uninitialized_value_construct_n(made, table_size());
    kept_rates *others = nullptr;
    if (!rates_.compare_exchange_strong(others, made, std::memory_order_acq_rel))
        memory_.deallocate(made, table_size() * sizeof(kept_rates));
    return {};
}

void peer_access::keep_rates(int device, int peer, const pair_rates &rates) noexcept {
    kept_rates &kept = *rates_of(device, peer);
    const auto numbers = std::bit_cast<pair_numbers>(rates);
    for (std::size_t i = 0; i < numbers.size(); ++i)
        kept.numbers[i].store(numbers[i], std::memory_order_relaxed);
}

pair_rates peer_access::rates(int device, int peer) const noexcept {
    const kept_rates *const kept = rates_of(device, peer);
    if (!kept) return {};
    pair_numbers numbers;
    for (std::size_t i = 0; i < numbers.size(); ++i)
        numbers[i] = kept->numbers[i].load(std::memory_order_relaxed);
    return std::bit_cast<pair_rates>(numbers);
}

error peer_access::enter(int device, int peer, context_scope &scope, CUcontext &near, CUcontext &far) noexcept {
    if (!cu_.cuCtxEnablePeerAccess || !cu_.cuCtxDisablePeerAccess) return {.status = FERRY_ERROR_UNSUPPORTED};
    if (error failed = contexts_.get(device, near)) return failed;
    if (error failed = contexts_.get(peer, far)) return failed;
    return scope.enter(near); // in a forked child, fails before any lock is taken
}

error peer_access::probe_between(int device, int peer, CUcontext near, CUcontext far, const allocator &memory,
                                 const log_sink &log) noexcept {
    if (!cu_.cuStreamCreateWithPriority || !cu_.cuStreamDestroy) return {.status = FERRY_ERROR_UNSUPPORTED};
    bool passed = false;
    if (error failed = probe_run(cu_, near, far).run(memory, passed)) return failed;
    found_[device][peer] = passed ? FERRY_PROBE_PASSED : FERRY_PROBE_FAILED;
    if (passed) return {};
    ++failed_count_;
    log.write(
        FERRY_LOG_WARNING,
        "the driver reports peer access from device %d to device %d, but test data was corrupted: access rejected",
        device, peer);
    return data_lost;
}

error peer_access::probe(int device, int peer, const allocator &memory, const log_sink &log) noexcept {
    if (is_known(device, peer)) return known(device, peer);
    if (error failed = query_access(device, peer)) return failed;
    context_scope scope(cu_);
    CUcontext near = nullptr, far = nullptr;
    if (error failed = enter(device, peer, scope, near, far)) return failed;
    const std::lock_guard lock(mutex_);
    if (is_known(device, peer)) return known(device, peer);
    const relaxed_capture_mode relaxed(cu_); // the probe allocates, which a capture of another thread forbids
    if (!relaxed.entered()) return relaxed.why();
    temporary_context own(cu_);
    if (error failed = own.make(devices_[device].handle)) return failed;
    context_scope inner(cu_);
    if (error failed = inner.enter(own.get())) return failed;
    bool was_enabled = false;
    if (error failed = enable_access(cu_, far, was_enabled)) return failed;
    return probe_between(device, peer, own.get(), far, memory, log);
}

error peer_access::enable(int device, int peer, const allocator &memory, const log_sink &log) noexcept {
    if (probe_result(device, peer) == FERRY_PROBE_FAILED) return data_lost;
    if (error failed = query_access(device, peer)) return failed;
    context_scope scope(cu_);
    CUcontext near = nullptr, far = nullptr;
    if (error failed = enter(device, peer, scope, near, far)) return failed;
    const std::lock_guard lock(mutex_);
    if (probe_result(device, peer) == FERRY_PROBE_FAILED) return data_lost; // found by another thread in the meantime
    bool was_enabled = false;
    if (error failed = enable_access(cu_, far, was_enabled)) return failed;
    if (is_known(device, peer)) return known(device, peer);
    const relaxed_capture_mode relaxed(cu_);
    const error failed = relaxed.entered() ? probe_between(device, peer, near, far, memory, log) : relaxed.why();
    // The probe's cuMemFree has waited for the copies in flight that may use the access.
    if (failed && !was_enabled) cu_.cuCtxDisablePeerAccess(far);
    return failed;
}

// Waits for both contexts first, because the driver's call does not wait. A copy in flight that loses its access kills
// its context.
error peer_access::disable(int device, int peer) noexcept {
    context_scope scope(cu_);
    CUcontext near = nullptr, far = nullptr;
    if (error failed = enter(device, peer, scope, near, far)) return failed;
    if (error failed = contexts_.synchronise_current()) return failed;
    {
        context_scope at_the_peer(cu_);
        if (error failed = at_the_peer.enter(far)) return failed;
        if (error failed = contexts_.synchronise_current()) return failed;
    }
    const std::lock_guard lock(mutex_);
    const call_result result = cu_.cuCtxDisablePeerAccess(far);
    return result == CUDA_ERROR_PEER_ACCESS_NOT_ENABLED ? ok : to_error(result);
}

} // namespace ferry
