// The part of ipc_memory that exports and imports whole pools.
#include "memory/ipc_memory.h"

#include <cstring>

namespace ferry {

namespace {

constexpr bool is_pool(std::int32_t kind) noexcept { return kind == FERRY_IPC_POOL; }

} // namespace

// Finds the location of a pool. Rejects a pool of another process.
error ipc_memory::locate_shareable(CUmemoryPool pool, pool_location &where) noexcept {
    context_scope scope(cu_);
    CUcontext context = nullptr;
    if (error failed = process_.enter(-1, scope, context)) return failed;
    if (is_imported(pool, where)) return refuse(FERRY_ERROR_NOT_SHAREABLE, FERRY_SIDE_NONE, FERRY_FIELD_POOL);
    if (pools_.is_ended(pool)) return refuse(FERRY_ERROR_INVALID_ARGUMENT, FERRY_SIDE_NONE, FERRY_FIELD_POOL);
    const relaxed_capture_mode relaxed(cu_);
    return relaxed.entered() ? pools_.locate(pool, where) : relaxed.why();
}

error ipc_memory::export_pool(CUmemoryPool pool, std::uint32_t handle_type, ferry_ipc_handle &handle,
                              std::int64_t &os_handle) noexcept {
    if (!is_known(process_.own())) return {.status = FERRY_ERROR_UNSUPPORTED};
    if (handle_type != FERRY_HANDLE_POSIX_FD && handle_type != FERRY_HANDLE_WIN32 &&
        handle_type != FERRY_HANDLE_WIN32_KMT && handle_type != FERRY_HANDLE_FABRIC)
        return refuse(FERRY_ERROR_INVALID_ARGUMENT, FERRY_SIDE_NONE, FERRY_FIELD_HANDLE_TYPES, numbers::value, 0,
                      handle_type);
    pool_location where;
    if (error failed = locate_shareable(pool, where)) return failed;
    handle_contents contents = {};
    const int device = where.location == FERRY_LOCATION_DEVICE ? where.index : -1;
    process_.begin_handle(FERRY_IPC_POOL, device, contents);
    contents.handle_type = handle_type;
    contents.location = where.location;
    contents.index = device < 0 ? where.index : 0;
    context_scope scope(cu_);
    CUcontext context = nullptr;
    if (error failed = process_.enter(device, scope, context)) return failed;

    const lock_guard lock(mutex_);
    exported_pool exported = {pool, {}};
    bool is_new = true;
    for (const exported_pool &known : exported_pools_)
        if (known.pool == pool) {
            exported = known;
            is_new = false;
        }
    if (is_new && !exported_pools_.reserve(exported_pools_.size() + 1)) return no_memory;
    if (is_new && !fill_with_random_bytes(exported.name.bytes, sizeof exported.name.bytes))
        return {.status = FERRY_ERROR_UNSUPPORTED};
    alignas(void *) std::uint8_t driver_handle[sizeof contents.payload] = {}; // int, HANDLE or CUmemFabricHandle
    static_assert(sizeof(CUmemFabricHandle) == sizeof driver_handle);
    if (const status_code status =
            call_relaxed(cu_, cu_.cuMemPoolExportToShareableHandle, static_cast<void *>(driver_handle), pool,
                         static_cast<CUmemAllocationHandleType>(handle_type), 0ull))
        return export_failure(status, FERRY_FIELD_POOL);
    os_handle = -1;
    if (handle_type == FERRY_HANDLE_FABRIC) {
        std::memcpy(contents.payload, driver_handle, sizeof contents.payload);
    } else if (handle_type == FERRY_HANDLE_POSIX_FD) {
        int descriptor = -1;
        std::memcpy(&descriptor, driver_handle, sizeof descriptor);
        os_handle = descriptor;
    } else {
        std::memcpy(&os_handle, driver_handle, sizeof(void *));
    }
    if (is_new) (void)exported_pools_.append(exported);
    std::memcpy(contents.key, exported.name.bytes, sizeof contents.key);
    encode(contents, handle);
    return {};
}

error ipc_memory::import_pool(const ferry_ipc_handle &handle, std::int64_t os_handle, CUmemoryPool &pool) noexcept {
    handle_contents contents;
    int device = -1;
    if (error failed = process_.check_handle(handle, is_pool, contents, device)) return failed;
    // The location is used as an index later, so it must be an existing device or a node number.
    const bool lies_somewhere = device >= 0 ? contents.location == FERRY_LOCATION_DEVICE
                                            : contents.location == FERRY_LOCATION_HOST_NUMA && contents.index >= 0;
    if (!lies_somewhere) return bad_handle(FERRY_ERROR_HANDLE);
    context_scope scope(cu_);
    CUcontext context = nullptr;
    if (error failed = process_.enter(device, scope, context)) return failed;
    imported_pool imported = {nullptr, {},    device, {contents.location, device < 0 ? contents.index : device},
                              1,       false, false,  0};
    std::memcpy(imported.name.bytes, contents.key, sizeof contents.key);

    const lock_guard lock(mutex_);
    for (const imported_pool &known : imported_pools_)
        if (known.name == imported.name && !known.is_closing) {
            ++find_pool(known.pool)->count;
            pool = known.pool;
            return {};
        }
    for (const imported_pool &known : imported_pools_)
        if (known.name == imported.name && take_back(known.pool)) {
            pool = known.pool;
            return {};
        }
    if (!imported_pools_.reserve(imported_pools_.size() + 1)) return no_memory;
    for (const exported_pool &exported : exported_pools_)
        if (exported.name == imported.name) {
            imported.pool = exported.pool;
            imported.is_own = true;
        }
    if (!imported.is_own) {
        has_imported_ = true;
        if (error failed = open_pool(contents, os_handle, imported.pool)) return failed;
    }
    // The pool is already known if two instances of its process have exported it.
    if (take_back(imported.pool)) {
        imported.count = 0;
    } else if (imported_pool *const known = find_pool(imported.pool)) {
        ++known->count;
        imported.count = 0;
    }
    (void)imported_pools_.append(imported);
    pool = imported.pool;
    return {};
}

// Finds the record that counts the imports of a pool.
ipc_memory::imported_pool *ipc_memory::find_pool(CUmemoryPool pool) noexcept {
    for (imported_pool &known : imported_pools_)
        if (known.pool == pool && known.count && !known.is_closing) return &known;
    return nullptr;
}

error ipc_memory::open_pool(const handle_contents &contents, std::int64_t os_handle, CUmemoryPool &pool) noexcept {
    CUmemFabricHandle fabric;
    static_assert(sizeof fabric == sizeof contents.payload);
    std::memcpy(&fabric, contents.payload, sizeof fabric);
    const bool is_inside = contents.handle_type == FERRY_HANDLE_FABRIC;
    void *const driver_handle = is_inside ? &fabric : reinterpret_cast<void *>(static_cast<std::intptr_t>(os_handle));
    const status_code status = call_relaxed(cu_, cu_.cuMemPoolImportFromShareableHandle, &pool, driver_handle,
                                            static_cast<CUmemAllocationHandleType>(contents.handle_type), 0ull);
    if (!status) return {};
    error failed = import_failure(status);
    if (status == to_status(CUDA_ERROR_UNKNOWN)) // not a descriptor of a pool
        failed = replace(status, bad_handle(FERRY_ERROR_HANDLE));
    if (failed.status == FERRY_ERROR_HANDLE && !is_inside) failed.field = FERRY_FIELD_OS_HANDLE;
    return failed;
}

// Removes one import. If the pool must now be destroyed, the record stays and `last` points to it. Otherwise `last` is
// null: other imports are left, or this instance exported the pool.
error ipc_memory::remove_import(CUmemoryPool pool, imported_pool *&last) noexcept {
    last = nullptr;
    imported_pool *const known = find_pool(pool);
    if (!known) return refuse(FERRY_ERROR_POOL, FERRY_SIDE_NONE, FERRY_FIELD_POOL);
    if (known->count > 1) {
        --known->count;
        return {};
    }
    for (const imported_memory &memory : imported_memory_)
        if (memory.pool == pool) return refuse(FERRY_ERROR_IN_USE, FERRY_SIDE_NONE, FERRY_FIELD_POOL);
    if (known->is_own)
        forget_import(pool);
    else
        last = known;
    return {};
}

// Drops the record of an import of a pool that this instance exported.
void ipc_memory::forget_import(CUmemoryPool pool) noexcept {
    for (std::size_t i = imported_pools_.size(); i-- > 0;)
        if (imported_pools_[i].pool == pool && !imported_pools_[i].is_closing) imported_pools_.remove(i);
}

// Marks the pool under all its names.
void ipc_memory::mark_closing(CUmemoryPool pool, bool is_closing) noexcept {
    for (imported_pool &known : imported_pools_)
        if (known.pool == pool) known.is_closing = is_closing;
}

error ipc_memory::destroy_imported(CUmemoryPool pool, int device) noexcept {
    context_scope scope(cu_);
    CUcontext context = nullptr;
    if (error failed = process_.enter(device, scope, context)) return failed;
    const relaxed_capture_mode relaxed(cu_);
    if (!relaxed.entered()) return relaxed.why();
    const status_code status = call_optional(cu_.cuMemPoolDestroy, pool);
    if (status == to_status(CUDA_ERROR_INVALID_VALUE)) // seen while any instance has imported memory of the pool
        return replace(status, refuse(FERRY_ERROR_IN_USE, FERRY_SIDE_NONE, FERRY_FIELD_POOL));
    return {.status = status};
}

// Calls the driver without the lock, for the same reason as close_memory. `closing` is the number that the record keeps if
// the driver fails. If the number is 0, the import is open again.
error ipc_memory::destroy_closing(CUmemoryPool pool, int device, std::uintptr_t closing) noexcept {
    const error failed = destroy_imported(pool, device);
    const lock_guard lock(mutex_);
    for (std::size_t i = imported_pools_.size(); i-- > 0;) {
        imported_pool &known = imported_pools_[i];
        if (known.pool != pool || !known.is_closing) continue;
        if (!failed) {
            imported_pools_.remove(i);
            continue;
        }
        known.is_closing = closing != 0;
        if (known.count) known.closing = closing;
    }
    return failed;
}

error ipc_memory::close_pool(CUmemoryPool pool) noexcept {
    if (error failed = process_.check_driver()) return failed;
    int device = -1;
    {
        const lock_guard lock(mutex_);
        imported_pool *last = nullptr;
        if (error failed = remove_import(pool, last)) return failed;
        if (!last) return {};
        device = last->device;
        mark_closing(pool, true);
    }
    return destroy_closing(pool, device, 0);
}

error ipc_memory::begin_closing(CUmemoryPool pool, std::uintptr_t &closing, int &device) noexcept {
    closing = 0;
    if (error failed = process_.check_driver()) return failed;
    const lock_guard lock(mutex_);
    imported_pool *last = nullptr;
    if (error failed = remove_import(pool, last)) return failed;
    if (!last) return {};
    closing = last->closing = ++closings_;
    device = last->device;
    mark_closing(pool, true);
    return {};
}

error ipc_memory::end_closing(std::uintptr_t closing) noexcept {
    CUmemoryPool pool = nullptr;
    int device = -1;
    {
        const lock_guard lock(mutex_);
        for (imported_pool &known : imported_pools_) {
            if (known.closing != closing) continue;
            pool = known.pool;
            device = known.device;
            known.closing = 0; // an import during the driver's call opens the pool again
        }
    }
    return pool ? destroy_closing(pool, device, closing) : ok;
}

void ipc_memory::cancel_closing(std::uintptr_t closing) noexcept {
    const lock_guard lock(mutex_);
    for (const imported_pool &known : imported_pools_)
        if (known.closing == closing) {
            take_back(known.pool);
            return;
        }
}

// Finds the record that counts the imports of a pool between the two steps.
ipc_memory::imported_pool *ipc_memory::find_closed(CUmemoryPool pool) noexcept {
    for (imported_pool &known : imported_pools_)
        if (known.pool == pool && known.closing) return &known;
    return nullptr;
}

// The count is still 1.
bool ipc_memory::take_back(CUmemoryPool pool) noexcept {
    imported_pool *const known = find_closed(pool);
    if (!known) return false;
    known->closing = 0;
    mark_closing(pool, false);
    return true;
}

bool ipc_memory::is_closed(CUmemoryPool pool) noexcept {
    if (!has_imported_.load(std::memory_order_relaxed) || process_.check_driver()) return false;
    const lock_guard lock(mutex_);
    return find_closed(pool) != nullptr;
}

bool ipc_memory::is_imported(CUmemoryPool pool, pool_location &where) noexcept {
    if (!has_imported_.load(std::memory_order_relaxed) || process_.check_driver()) return false;
    const lock_guard lock(mutex_);
    for (const imported_pool &known : imported_pools_)
        if (known.pool == pool && !known.is_own) {
            where = known.where;
            return true;
        }
    return false;
}

// Removes the name first: once the driver has destroyed the pool, another pool may get its handle. Calls the driver
// without the lock, because the driver may wait for work that waits for a call of another thread. If the driver fails,
// the next export creates a new name.
error ipc_memory::destroy_pool(CUmemoryPool pool) noexcept {
    forget_pool(pool);
    return pools_.destroy(pool);
}

void ipc_memory::forget_pool(CUmemoryPool pool) noexcept {
    const lock_guard lock(mutex_);
    for (std::size_t i = 0; i < exported_pools_.size(); ++i)
        if (exported_pools_[i].pool == pool) {
            exported_pools_.remove(i);
            break;
        }
}

} // namespace ferry
