#include "links/pool_access.h"

#include "driver/result.h"
#include "links/data_probe.h"

namespace ferry {

namespace {

// Owns the allocations of the test, and releases them however the test ends.
class access_proof {
public:
    explicit access_proof(const driver_table &cu) noexcept : cu_(cu) {}
    ~access_proof() {
        if (far_) cu_.cuMemFreeAsync(far_, stream_);
        if (near_) cu_.cuMemFree(near_);
        if (stream_) cu_.cuStreamDestroy(stream_);
    }
    access_proof(const access_proof &) = delete;
    access_proof &operator=(const access_proof &) = delete;

    // Uses copies that name no contexts. The driver checks them against the current context, so they use the access.
    error run(CUmemoryPool pool, const allocator &memory, bool &passed) noexcept {
        if (!cu_.cuStreamCreateWithPriority || !cu_.cuStreamDestroy || !cu_.cuMemAllocFromPoolAsync ||
            !cu_.cuMemFreeAsync)
            return {.status = FERRY_ERROR_UNSUPPORTED};
        if (call_result result = cu_.cuStreamCreateWithPriority(&stream_, CU_STREAM_NON_BLOCKING, 0))
            return to_error(result);
        if (call_result result = cu_.cuMemAlloc(&near_, probe_size)) return to_error(result);
        if (call_result result = cu_.cuMemAllocFromPoolAsync(&far_, probe_size, pool, stream_)) return to_error(result);
        const probe_end near = {CU_MEMORYTYPE_DEVICE, near_, nullptr};
        const probe_end far = {CU_MEMORYTYPE_UNIFIED, far_, nullptr}; // the pool may be in host memory
        return probe_both_ways(cu_, move_in_current_context, near, far, stream_, memory, passed);
    }

private:
    const driver_table &cu_;
    CUstream stream_ = nullptr;
    CUdeviceptr near_ = 0, far_ = 0;
};

} // namespace

error give_access(const driver_table &cu, memory_pools &pools, const peer_access &peers, CUmemoryPool pool,
                  const pool_location &where, bool is_imported, int device, const allocator &memory,
                  const log_sink &log) noexcept {
    // This comes first, because a driver has accepted access for a device that is not a peer before any allocation, and
    // the next allocation then failed.
    if (where.location == FERRY_LOCATION_DEVICE) {
        if (peers.probe_result(device, where.index) == FERRY_PROBE_FAILED) return data_lost;
        if (error failed = peers.query_access(device, where.index)) return failed;
    }
    std::int32_t before = FERRY_ACCESS_NONE, after = FERRY_ACCESS_NONE;
    if (error failed = pools.get_access(pool, device, before)) return failed;
    if (error failed = pools.set_access(pool, device, FERRY_ACCESS_READ_WRITE)) return failed;
    error failed = pools.get_access(pool, device, after);
    if (!failed && after != FERRY_ACCESS_READ_WRITE) failed = no_access;
    if (!failed && !is_imported && !pools.access_is_proven(pool, device)) {
        bool passed = false;
        failed = access_proof(cu).run(pool, memory, passed);
        if (!failed && !passed) {
            log.write(FERRY_LOG_WARNING, "device %d has access to a pool, but test data was corrupted: access rejected",
                      device);
            failed = data_lost;
        }
        if (!failed) failed = pools.note_proven_access(pool, device);
    }
    if (failed && before != FERRY_ACCESS_READ_WRITE) pools.set_access(pool, device, before);
    return failed;
}

} // namespace ferry
