#include "memory/pools.h"

#include <cstddef>
#include <cstring>

#include "driver/result.h"
#include "memory/address.h"
#include "system/handles.h"

namespace ferry {

namespace {

using lock_guard = std::lock_guard<std::mutex>;

static_assert(FERRY_HANDLE_POSIX_FD == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR &&
              FERRY_HANDLE_WIN32 == CU_MEM_HANDLE_TYPE_WIN32 &&
              FERRY_HANDLE_WIN32_KMT == CU_MEM_HANDLE_TYPE_WIN32_KMT &&
              FERRY_HANDLE_FABRIC == CU_MEM_HANDLE_TYPE_FABRIC);
static_assert(FERRY_ACCESS_NONE == CU_MEM_ACCESS_FLAGS_PROT_NONE &&
              FERRY_ACCESS_READ_WRITE == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);

constexpr std::uint64_t bit(int device) noexcept { return std::uint64_t{1} << device; }

CUmemLocation lower(const pool_location &where, const device_facts *devices) noexcept {
    switch (where.location) {
    case FERRY_LOCATION_HOST:
        return {CU_MEM_LOCATION_TYPE_HOST, 0};
    case FERRY_LOCATION_HOST_NUMA:
        return {CU_MEM_LOCATION_TYPE_HOST_NUMA, where.index};
    default:
        return {CU_MEM_LOCATION_TYPE_DEVICE, devices[where.index].handle};
    }
}

// Translates the driver's status for a location that has no pools and for a node that does not exist.
error location_failure(status_code status, const pool_location &where) noexcept {
    if (status == to_status(CUDA_ERROR_NOT_SUPPORTED))
        return replace(status, refuse_signed(FERRY_ERROR_UNSUPPORTED, FERRY_SIDE_NONE, FERRY_FIELD_LOCATION,
                                             numbers::value, 0, where.location));
    if (status == to_status(CUDA_ERROR_INVALID_VALUE) && where.location == FERRY_LOCATION_HOST_NUMA)
        return replace(status, refuse_signed(FERRY_ERROR_INVALID_ARGUMENT, FERRY_SIDE_NONE, FERRY_FIELD_INDEX,
                                             numbers::value, 0, where.index));
    return {.status = status};
}

} // namespace

pool_record *memory_pools::find(CUmemoryPool pool) noexcept {
    for (pool_record &record : records_)
        if (record.pool == pool) return &record;
    return nullptr;
}

bool memory_pools::find(CUmemoryPool pool, pool_record &found) noexcept {
    const lock_guard lock(mutex_);
    const pool_record *const record = find(pool);
    if (record) found = *record;
    return record != nullptr;
}

error memory_pools::create(const ferry_pool_desc &desc, CUmemoryPool &pool) noexcept {
    const pool_location where = {desc.location, desc.index};
    CUmemPoolProps props = {};
    props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.handleTypes = static_cast<CUmemAllocationHandleType>(desc.handle_types);
    props.location = lower(where, devices_);
    if (desc.handle_types & FERRY_HANDLE_WIN32) props.win32SecurityAttributes = default_handle_attributes();
    props.maxSize = desc.max_size;
    if (const status_code status = call_optional(cu_.cuMemPoolCreate, &pool, &props)) {
        pool = nullptr;
        return location_failure(status, where);
    }
    const pool_record made = {pool, where, desc.handle_types, desc.max_size, true, false, 0};
    {
        const lock_guard lock(mutex_);
        pool_record *const old = find(pool); // of a pool that the program destroyed directly through the driver
        if (old) *old = made;
        if (old || records_.append(made)) return {};
    }
    call_optional(cu_.cuMemPoolDestroy, pool);
    pool = nullptr;
    return no_memory;
}

bool memory_pools::is_any_default(CUmemoryPool pool) const noexcept {
    CUmemoryPool standard = nullptr;
    for (int device = 0; device < contexts_.count(); ++device) {
        if (!get_default({FERRY_LOCATION_DEVICE, device}, standard) && standard == pool) return true;
        const int node = devices_[device].info.numa_node;
        if (node >= 0 && !get_default({FERRY_LOCATION_HOST_NUMA, node}, standard) && standard == pool) return true;
    }
    return !get_default({FERRY_LOCATION_HOST, 0}, standard) && standard == pool;
}

// A free may still be pending on a stream of any device, or of the current context.
error memory_pools::synchronise_all() noexcept {
    if (error failed = contexts_.synchronise_current()) return failed;
    const auto synchronise = [&](CUcontext context) noexcept -> error {
        context_scope scope(cu_);
        if (error failed = scope.enter(context)) return failed;
        return contexts_.synchronise_current();
    };
    for (int device = 0; device < contexts_.count(); ++device) {
        const CUdevice handle = devices_[device].handle;
        CUcontext in_use = nullptr, primary = nullptr;
        if (contexts_.is_in_use(device, in_use))
            if (error failed = synchronise(in_use)) return failed;
        // The program may use the primary context without ferry. An inactive primary context is not created for this.
        unsigned flags = 0;
        int is_active = 0;
        if (call_optional(cu_.cuDevicePrimaryCtxGetState, handle, &flags, &is_active) || !is_active) continue;
        if (call_result result = cu_.cuDevicePrimaryCtxRetain(&primary, handle)) return to_error(result);
        const error failed = primary == in_use ? ok : synchronise(primary);
        cu_.cuDevicePrimaryCtxRelease(handle);
        if (failed) return failed;
    }
    return {};
}

// used_current is unreliable: it still counts memory that cuMemFree has freed (CUDA 13.0). Trimming a pool without live
// memory releases everything except memory shared with other processes.
error memory_pools::trim(CUmemoryPool pool, ferry_pool_stats &stats) noexcept {
    if (const status_code status = call_optional(cu_.cuMemPoolTrimTo, pool, std::size_t{0})) return {.status = status};
    return get_pool_stats(cu_, pool, stats);
}

error memory_pools::check_unused(CUmemoryPool pool) noexcept {
    ferry_pool_stats stats = {};
    if (error failed = trim(pool, stats)) return failed;
    return stats.used_current && stats.reserved_current ? error{.status = FERRY_ERROR_IN_USE} : ok;
}

error memory_pools::wait_until_unused(CUmemoryPool pool) noexcept {
    if (is_any_default(pool)) return {.status = FERRY_ERROR_INVALID_ARGUMENT};
    ferry_pool_stats stats = {};
    if (error failed = trim(pool, stats)) return failed;
    if (!stats.reserved_current) return {};
    const bool may_be_in_use = stats.used_current != 0;
    if (error failed = synchronise_all()) return failed; // frees may be pending on streams
    return may_be_in_use ? check_unused(pool) : ok;
}

error memory_pools::wait_until_released(CUmemoryPool pool) noexcept {
    ferry_pool_stats stats = {};
    if (error failed = trim(pool, stats)) return failed;
    if (!stats.reserved_current) return {};
    if (error failed = synchronise_all()) return failed;
    if (error failed = trim(pool, stats)) return failed; // the memory of frees that are complete
    return stats.reserved_current ? error{.status = FERRY_ERROR_IN_USE} : ok;
}

error memory_pools::mark_ended(CUmemoryPool pool) noexcept {
    if (is_any_default(pool)) return {.status = FERRY_ERROR_INVALID_ARGUMENT};
    const lock_guard lock(mutex_);
    pool_record *record = find(pool);
    if (!record) {
        pool_record foreign;
        foreign.pool = pool;
        if (!records_.append(foreign)) return no_memory;
        record = records_.end() - 1;
    }
    record->is_ended = true;
    has_ended_ = true;
    return {};
}

void memory_pools::unmark_ended(CUmemoryPool pool) noexcept {
    const lock_guard lock(mutex_);
    if (pool_record *const record = find(pool)) record->is_ended = false;
}

bool memory_pools::is_marked(CUmemoryPool pool) noexcept {
    pool_record record;
    return find(pool, record) && record.is_ended;
}

void memory_pools::replace_current(CUmemoryPool pool, const pool_location &where) noexcept {
    CUmemoryPool current = nullptr, standard = nullptr;
    if (!get_current(where, current) && current == pool && !get_default(where, standard))
        (void)set_current(where, standard);
}

// Removes the record first: once the driver has destroyed the pool, another pool may get its handle.
error memory_pools::destroy(CUmemoryPool pool) noexcept {
    pool_record known;
    {
        const lock_guard lock(mutex_);
        if (pool_record *const record = find(pool)) {
            known = *record;
            records_.remove(static_cast<std::size_t>(record - records_.begin()));
        }
    }
    // After the current pool of a host location is destroyed, the driver still reports it as current (CUDA 13.0).
    if (known.pool && known.where.location != FERRY_LOCATION_DEVICE) replace_current(pool, known.where);
    const status_code status = call_optional(cu_.cuMemPoolDestroy, pool);
    if (status && known.pool) {
        const lock_guard lock(mutex_);
        (void)records_.append(known); // without a record, the pool counts as not created by ferry
    }
    return status == to_status(CUDA_ERROR_INVALID_VALUE) ? replace(status, {.status = FERRY_ERROR_INVALID_ARGUMENT})
                                                         : error{.status = status};
}

bool memory_pools::is_of(CUmemoryPool pool, const pool_location &where) const noexcept {
    CUmemoryPool one = nullptr;
    return (!get_current(where, one) && one == pool) || (!get_default(where, one) && one == pool);
}

bool memory_pools::find_location(CUmemoryPool pool, pool_location &where) noexcept {
    pool_record record;
    if (find(pool, record) && record.is_made) {
        where = record.where;
        return true;
    }
    const auto try_all = [&](std::int32_t location, auto index_of) noexcept {
        for (int device = 0; device < contexts_.count(); ++device) {
            where = {location, index_of(device)};
            if (where.index >= 0 && is_of(pool, where)) return true;
        }
        return false;
    };
    if (try_all(FERRY_LOCATION_DEVICE, [](int device) noexcept { return device; })) return true;
    where = {FERRY_LOCATION_HOST, 0};
    if (is_of(pool, where)) return true;
    if (try_all(FERRY_LOCATION_HOST_NUMA, [&](int device) noexcept { return devices_[device].info.numa_node; }))
        return true;
    where = {FERRY_LOCATION_UNKNOWN, -1};
    return false;
}

error memory_pools::locate(CUmemoryPool pool, pool_location &where) noexcept {
    return find_location(pool, where) ? ok : locate_by_allocation(pool, where);
}

// Allocates one byte, because the driver reports the location of memory, but not of a pool. The driver does not
// distinguish the host's NUMA nodes.
error memory_pools::locate_by_allocation(CUmemoryPool pool, pool_location &where) noexcept {
    if (!cu_.cuStreamCreateWithPriority || !cu_.cuStreamDestroy || !cu_.cuMemAllocFromPoolAsync || !cu_.cuMemFreeAsync)
        return {.status = FERRY_ERROR_UNSUPPORTED};
    CUstream stream = nullptr;
    if (call_result result = cu_.cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0))
        return to_error(result);
    CUdeviceptr byte = 0;
    error failed = to_error(cu_.cuMemAllocFromPoolAsync(&byte, 1, pool, stream));
    if (!failed) {
        address_facts facts;
        failed = look_up_address(cu_, byte, address_query::kind_only, facts);
        where = facts.kind == memory_kind::device ? pool_location{FERRY_LOCATION_DEVICE, facts.device}
                                                  : pool_location{FERRY_LOCATION_HOST, 0};
        const error freed = to_error(cu_.cuMemFreeAsync(byte, stream));
        if (!failed) failed = freed;
    }
    cu_.cuStreamDestroy(stream);
    return failed;
}

error memory_pools::is_default(CUmemoryPool pool, const pool_location &where, bool &is) const noexcept {
    CUmemoryPool standard = nullptr;
    const error failed = get_default(where, standard);
    is = !failed && standard == pool;
    // A driver without a query for the default pool of a host location does not support pools there.
    return failed.status == FERRY_ERROR_UNSUPPORTED ? ok : failed;
}

error memory_pools::get_default(const pool_location &of, CUmemoryPool &pool) const noexcept {
    CUmemLocation at = lower(of, devices_);
    const status_code status =
        of.location == FERRY_LOCATION_DEVICE
            ? call_optional(cu_.cuDeviceGetDefaultMemPool, &pool, CUdevice{at.id})
            : call_optional(cu_.cuMemGetDefaultMemPool, &pool, &at, CU_MEM_ALLOCATION_TYPE_PINNED);
    if (status) pool = nullptr;
    return location_failure(status, of);
}

error memory_pools::get_current(const pool_location &of, CUmemoryPool &pool) const noexcept {
    CUmemLocation at = lower(of, devices_);
    const status_code status = of.location == FERRY_LOCATION_DEVICE
                                   ? call_optional(cu_.cuDeviceGetMemPool, &pool, CUdevice{at.id})
                                   : call_optional(cu_.cuMemGetMemPool, &pool, &at, CU_MEM_ALLOCATION_TYPE_PINNED);
    if (status) pool = nullptr;
    return location_failure(status, of);
}

error memory_pools::set_current(const pool_location &of, CUmemoryPool pool) const noexcept {
    CUmemLocation at = lower(of, devices_);
    const status_code status = of.location == FERRY_LOCATION_DEVICE
                                   ? call_optional(cu_.cuDeviceSetMemPool, CUdevice{at.id}, pool)
                                   : call_optional(cu_.cuMemSetMemPool, &at, CU_MEM_ALLOCATION_TYPE_PINNED, pool);
    if (status == to_status(CUDA_ERROR_INVALID_VALUE)) return replace(status, {.status = FERRY_ERROR_INVALID_ARGUMENT});
    return location_failure(status, of);
}

error memory_pools::get_access(CUmemoryPool pool, int device, std::int32_t &access) const noexcept {
    CUmemLocation at = {CU_MEM_LOCATION_TYPE_DEVICE, devices_[device].handle};
    CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
    const status_code status = call_optional(cu_.cuMemPoolGetAccess, &flags, pool, &at);
    if (!status) access = flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE ? FERRY_ACCESS_READ_WRITE : FERRY_ACCESS_NONE;
    return {.status = status};
}

error memory_pools::set_access(CUmemoryPool pool, int device, std::int32_t access) const noexcept {
    const CUmemAccessDesc wanted = {{CU_MEM_LOCATION_TYPE_DEVICE, devices_[device].handle},
                                    static_cast<CUmemAccess_flags>(access)};
    return {.status = call_optional(cu_.cuMemPoolSetAccess, pool, &wanted, std::size_t{1})};
}

error memory_pools::note_proven_access(CUmemoryPool pool, int device) noexcept {
    const lock_guard lock(mutex_);
    if (pool_record *const record = find(pool)) {
        record->proven_access |= bit(device);
        return {};
    }
    pool_record foreign;
    foreign.pool = pool;
    foreign.proven_access = bit(device);
    return records_.append(foreign) ? ok : error{.status = FERRY_ERROR_OUT_OF_MEMORY};
}

bool memory_pools::access_is_proven(CUmemoryPool pool, int device) noexcept {
    pool_record record;
    return find(pool, record) && record.proven_access & bit(device);
}

// ---- Attributes and statistics

namespace {

// The driver's flags are ints, and its numbers have 64 bits. The fields of the public structs have the same types.
struct pool_field {
    CUmemPool_attribute attribute;
    std::size_t offset, size;
};

constexpr pool_field attribute_fields[] = {
    {CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES, offsetof(ferry_pool_attributes, reuse_follow_event_dependencies),
     sizeof(std::int32_t)},
    {CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, offsetof(ferry_pool_attributes, reuse_opportunistic),
     sizeof(std::int32_t)},
    {CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, offsetof(ferry_pool_attributes, reuse_internal_dependencies),
     sizeof(std::int32_t)},
    {CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, offsetof(ferry_pool_attributes, release_threshold), sizeof(std::uint64_t)},
};

constexpr pool_field stats_fields[] = {
    {CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, offsetof(ferry_pool_stats, reserved_current), sizeof(std::uint64_t)},
    {CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, offsetof(ferry_pool_stats, reserved_high), sizeof(std::uint64_t)},
    {CU_MEMPOOL_ATTR_USED_MEM_CURRENT, offsetof(ferry_pool_stats, used_current), sizeof(std::uint64_t)},
    {CU_MEMPOOL_ATTR_USED_MEM_HIGH, offsetof(ferry_pool_stats, used_high), sizeof(std::uint64_t)},
};

template <std::size_t count, class Struct>
error get_fields(const driver_table &cu, CUmemoryPool pool, const pool_field (&fields)[count], Struct &out) noexcept {
    for (const pool_field &field : fields) {
        void *const value = reinterpret_cast<std::byte *>(&out) + field.offset;
        if (const status_code status = call_optional(cu.cuMemPoolGetAttribute, pool, field.attribute, value))
            return {.status = status};
    }
    return {};
}

} // namespace

error get_pool_attributes(const driver_table &cu, CUmemoryPool pool, ferry_pool_attributes &attributes) noexcept {
    return get_fields(cu, pool, attribute_fields, attributes);
}

error set_pool_attributes(const driver_table &cu, CUmemoryPool pool, const ferry_pool_attributes &attributes,
                          std::size_t known) noexcept {
    for (const std::int32_t flag : {attributes.reuse_follow_event_dependencies, attributes.reuse_opportunistic,
                                    attributes.reuse_internal_dependencies})
        if (flag != 0 && flag != 1) return {.status = FERRY_ERROR_INVALID_ARGUMENT, .side = FERRY_SIDE_OPTIONS};
    for (const pool_field &field : attribute_fields) {
        if (field.offset + field.size > known) continue;
        std::uint64_t value = 0;
        std::memcpy(&value, reinterpret_cast<const std::byte *>(&attributes) + field.offset, field.size);
        if (const status_code status =
                call_optional(cu.cuMemPoolSetAttribute, pool, field.attribute, static_cast<void *>(&value)))
            return {.status = status};
    }
    return {};
}

error get_pool_stats(const driver_table &cu, CUmemoryPool pool, ferry_pool_stats &stats) noexcept {
    return get_fields(cu, pool, stats_fields, stats);
}

error reset_pool_stats(const driver_table &cu, CUmemoryPool pool) noexcept {
    for (const CUmemPool_attribute mark : {CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, CU_MEMPOOL_ATTR_USED_MEM_HIGH}) {
        std::uint64_t to_current = 0; // the only value that the driver accepts
        if (const status_code status =
                call_optional(cu.cuMemPoolSetAttribute, pool, mark, static_cast<void *>(&to_current)))
            return {.status = status};
    }
    return {};
}

} // namespace ferry
