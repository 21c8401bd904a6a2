#include "memory/ipc.h"

#include <cstring>

#include "device/capture_mode.h"
#include "driver/result.h"
#include "memory/address.h"

namespace ferry {

namespace {

using lock_guard = std::lock_guard<std::mutex>;

constexpr bool is_memory(std::int32_t kind) noexcept {
    return kind == FERRY_IPC_MEMORY || kind == FERRY_IPC_POOL_MEMORY;
}
constexpr bool is_pool(std::int32_t kind) noexcept { return kind == FERRY_IPC_POOL; }
constexpr bool is_event(std::int32_t kind) noexcept { return kind == FERRY_IPC_EVENT; }

// Calls an entry point that a global-mode capture on any thread would forbid, and that this driver may lack.
template <class Function, class... Arguments>
std::int32_t call_relaxed(const driver_table &cu, Function *entry, Arguments... arguments) noexcept {
    const relaxed_capture_mode relaxed(cu);
    return relaxed.entered() ? call_optional(entry, arguments...) : relaxed.why().status;
}

// Translates the driver's status for an object that it cannot export.
error export_failure(std::int32_t status, std::int32_t field) noexcept {
    const bool is_refusal =
        status == to_status(CUDA_ERROR_INVALID_VALUE) || status == to_status(CUDA_ERROR_INVALID_HANDLE);
    return is_refusal ? refuse(FERRY_ERROR_NOT_SHAREABLE, FERRY_SIDE_NONE, field) : error{.status = status};
}

// Translates the driver's status for an object that is gone: the first was seen for memory, the others for events.
error import_failure(std::int32_t status) noexcept {
    const bool is_refusal = status == to_status(CUDA_ERROR_INVALID_VALUE) ||
                            status == to_status(CUDA_ERROR_MAP_FAILED) ||
                            status == to_status(CUDA_ERROR_INVALID_HANDLE);
    return is_refusal ? bad_handle(FERRY_ERROR_HANDLE) : error{.status = status};
}

// Fails in the child of a fork, which has no driver and may have inherited a locked mutex. Call this before locking.
error check_process(const driver_table &cu) noexcept {
    CUcontext current = nullptr;
    return to_error(cu.cuCtxGetCurrent(&current));
}

// Looks up the driver's number for an allocation, which no other allocation gets. look_up_address does not query it.
error look_up_buffer(const driver_table &cu, std::uint64_t address, std::uint64_t &buffer_id) noexcept {
    unsigned long long found = 0;
    CUpointer_attribute attribute = CU_POINTER_ATTRIBUTE_BUFFER_ID;
    void *value = &found;
    const CUresult result = cu.cuPointerGetAttributes(1, &attribute, &value, address);
    buffer_id = found;
    return to_error(result);
}

constexpr bool lies_within(std::uint64_t address, std::uint64_t start, std::uint64_t size) noexcept {
    return address >= start && address - start < size;
}

} // namespace

bool sharing::key::operator==(const key &other) const noexcept {
    return std::memcmp(bytes, other.bytes, sizeof bytes) == 0;
}

int sharing::find_device(const handle_contents &contents) const noexcept {
    for (int device = 0; device < contexts_.count(); ++device)
        if (std::memcmp(devices_[device].info.uuid, contents.device_uuid, sizeof contents.device_uuid) == 0)
            return device;
    return -1;
}

// The first step of every import: decodes the handle and checks whether this process can use it. `device` is -1 for a
// handle without a device.
error sharing::check_handle(const ferry_ipc_handle &handle, bool is_wanted(std::int32_t), handle_contents &contents,
                            int &device) const noexcept {
    if (error failed = decode(handle, contents)) return failed;
    if (!is_wanted(contents.kind)) return bad_handle(FERRY_ERROR_KIND);
    if (!is_same_machine(contents.exporter, own_)) return bad_handle(FERRY_ERROR_MACHINE);
    if (is_gone(contents.exporter, own_)) return bad_handle(FERRY_ERROR_HANDLE);
    device = find_device(contents);
    constexpr std::uint8_t none[sizeof contents.device_uuid] = {};
    if (device < 0 && std::memcmp(contents.device_uuid, none, sizeof none) != 0) return bad_handle(FERRY_ERROR_DEVICE);
    return check_process(cu_);
}

void sharing::begin_handle(std::int32_t kind, int device, handle_contents &contents) const noexcept {
    contents.kind = kind;
    contents.exporter = own_;
    if (device >= 0) std::memcpy(contents.device_uuid, devices_[device].info.uuid, sizeof contents.device_uuid);
}

// Makes a context of `device` current. -1: any context will do.
error sharing::enter(int device, context_scope &scope, CUcontext &context) noexcept {
    context_choice choice;
    if (CUresult result = cu_.cuCtxGetCurrent(&choice.current)) return to_error(result);
    choice.wanted = choice.current;
    if (device >= 0 || !choice.wanted)
        if (error failed = contexts_.get(device < 0 ? 0 : device, choice.wanted)) return failed;
    context = choice.wanted;
    return scope.enter(choice.wanted, choice.current);
}

error sharing::describe(const ferry_ipc_handle &handle, ferry_ipc_info &info) const noexcept {
    handle_contents contents;
    if (error failed = decode(handle, contents)) return failed;
    info.kind = contents.kind;
    info.device = find_device(contents);
    info.handle_types = contents.handle_type;
    info.size = contents.size;
    info.process = contents.exporter.number;
    std::memcpy(info.device_uuid, contents.device_uuid, sizeof info.device_uuid);
    info.is_own = is_same(contents.exporter, own_);
    return {};
}

// ---- Memory

error sharing::export_memory(std::uint64_t address, std::uint64_t size, ferry_ipc_handle &handle) noexcept {
    if (!is_known(own_)) return {.status = FERRY_ERROR_UNSUPPORTED};
    if (error failed = check_process(cu_)) return failed;
    address_facts facts;
    std::uint64_t buffer_id = 0;
    if (error failed = look_up_address(cu_, address, ask::everything, facts)) return failed;
    if (facts.kind == memory_kind::pageable)
        return refuse(FERRY_ERROR_ADDRESS, FERRY_SIDE_NONE, FERRY_FIELD_ADDRESS, 0, address);
    if (error failed = look_up_buffer(cu_, address, buffer_id)) return failed;
    if ((facts.kind != memory_kind::device && !facts.pool) || facts.kind == memory_kind::managed ||
        is_imported(address))
        return refuse(FERRY_ERROR_NOT_SHAREABLE, FERRY_SIDE_NONE, FERRY_FIELD_ADDRESS, 0, address);
    if (!facts.range_size) // of a host pool that the current device cannot access: the start is unknown
        return refuse(FERRY_ERROR_NOT_SHAREABLE, FERRY_SIDE_NONE, FERRY_FIELD_ADDRESS, 0, address);
    const std::uint64_t offset = address - facts.range_start, most = facts.range_size - offset;
    if (size > most)
        return refuse(FERRY_ERROR_OUT_OF_BOUNDS, FERRY_SIDE_NONE, FERRY_FIELD_SIZE, address + most,
                      size > UINT64_MAX - address ? UINT64_MAX : address + size);

    handle_contents contents = {};
    begin_handle(facts.pool ? FERRY_IPC_POOL_MEMORY : FERRY_IPC_MEMORY, facts.device, contents);
    contents.offset = offset;
    contents.size = size ? size : most;
    contents.allocation_size = facts.range_size;
    contents.buffer_id = buffer_id;
    contents.original = facts.range_start;
    context_scope scope(cu_);
    CUcontext context = nullptr;
    if (error failed = enter(facts.device, scope, context)) return failed;
    if (facts.pool) {
        if (error failed = export_pool_memory(contents, facts.pool)) return failed;
    } else {
        CUipcMemHandle payload;
        static_assert(sizeof payload == sizeof contents.payload);
        if (const std::int32_t status = call_relaxed(cu_, cu_.cuIpcGetMemHandle, &payload, facts.range_start))
            return export_failure(status, FERRY_FIELD_ADDRESS);
        std::memcpy(contents.payload, &payload, sizeof payload);
    }
    encode(contents, handle);
    return {};
}

error sharing::export_pool_memory(handle_contents &contents, CUmemoryPool pool) noexcept {
    const lock_guard lock(memory_mutex_);
    for (const exported_pool &exported : exported_pools_) {
        if (exported.pool != pool) continue;
        CUmemPoolPtrExportData payload;
        static_assert(sizeof payload == sizeof contents.payload);
        if (const std::int32_t status =
                call_relaxed(cu_, cu_.cuMemPoolExportPointer, &payload, CUdeviceptr{contents.original}))
            return export_failure(status, FERRY_FIELD_ADDRESS);
        std::memcpy(contents.payload, &payload, sizeof payload);
        std::memcpy(contents.key, exported.name.bytes, sizeof contents.key);
        return {};
    }
    return refuse(FERRY_ERROR_NOT_SHAREABLE, FERRY_SIDE_NONE, FERRY_FIELD_POOL);
}

error sharing::import_memory(const ferry_ipc_handle &handle, std::uint64_t &address) noexcept {
    handle_contents contents;
    int device = -1;
    if (error failed = check_handle(handle, is_memory, contents, device)) return failed;
    const bool is_own = is_same(contents.exporter, own_);
    if (!is_own) has_imported_ = true;
    if (error failed = is_own                              ? import_own(contents, address)
                       : contents.kind == FERRY_IPC_MEMORY ? open_memory(contents, device, address)
                                                           : import_from_pool(contents, device, address))
        return failed;
    address += contents.offset;
    return {};
}

// Finds memory that was opened in `context` or imported through `pool`. Both null: memory of this process.
sharing::imported_memory *sharing::find_import(const handle_contents &contents, CUcontext context,
                                               CUmemoryPool pool) noexcept {
    for (imported_memory &known : imported_memory_)
        if (known.original == contents.original && known.buffer_id == contents.buffer_id &&
            is_same(known.exporter, contents.exporter) && known.context == context && known.pool == pool &&
            !known.is_closing)
            return &known;
    return nullptr;
}

error sharing::import_own(const handle_contents &contents, std::uint64_t &address) noexcept {
    address_facts facts;
    std::uint64_t buffer_id = 0;
    if (error failed = look_up_address(cu_, contents.original, ask::everything, facts)) return failed;
    if (facts.kind == memory_kind::pageable) return bad_handle(FERRY_ERROR_HANDLE);
    if (error failed = look_up_buffer(cu_, contents.original, buffer_id)) return failed;
    if (buffer_id != contents.buffer_id || facts.range_start != contents.original ||
        facts.range_size != contents.allocation_size)
        return bad_handle(FERRY_ERROR_HANDLE);
    const lock_guard lock(memory_mutex_);
    if (imported_memory *known = find_import(contents, nullptr, nullptr))
        ++known->count;
    else if (!imported_memory_.append({contents.exporter, contents.original, contents.buffer_id, contents.original,
                                       contents.allocation_size, facts.device, nullptr, nullptr, 1, false}))
        return no_memory;
    address = contents.original;
    return {};
}

// The handle is not trusted: the allocation that it states must fit into the memory that the driver has mapped.
error sharing::check_opened(CUdeviceptr opened, const handle_contents &contents) const noexcept {
    address_facts facts;
    if (error failed = look_up_address(cu_, opened, ask::everything, facts)) return failed;
    const bool is_less = facts.range_size && facts.range_size < contents.allocation_size;
    return is_less ? bad_handle(FERRY_ERROR_HANDLE) : ok;
}

error sharing::open_memory(const handle_contents &contents, int device, std::uint64_t &address) noexcept {
    if (device < 0) return bad_handle(FERRY_ERROR_HANDLE); // anyone can forge such a handle
    context_scope scope(cu_);
    CUcontext context = nullptr;
    if (error failed = enter(device, scope, context)) return failed;
    const lock_guard lock(memory_mutex_);
    if (imported_memory *known = find_import(contents, context, nullptr)) {
        ++known->count;
        address = known->address;
        return {};
    }
    if (!imported_memory_.reserve(imported_memory_.size() + 1)) return no_memory;
    CUipcMemHandle payload;
    std::memcpy(&payload, contents.payload, sizeof payload);
    CUdeviceptr opened = 0;
    if (const std::int32_t status =
            call_relaxed(cu_, cu_.cuIpcOpenMemHandle, &opened, payload,
                         unsigned{CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS})) // the only flag, and required
        return import_failure(status);
    if (error failed = check_opened(opened, contents)) {
        call_relaxed(cu_, cu_.cuIpcCloseMemHandle, opened);
        return failed;
    }
    (void)imported_memory_.append({contents.exporter, contents.original, contents.buffer_id, opened,
                                   contents.allocation_size, device, context, nullptr, 1, false});
    address = opened;
    return {};
}

// The driver returns the same address for every import of an allocation, and the first free ends the mapping.
error sharing::import_from_pool(const handle_contents &contents, int device, std::uint64_t &address) noexcept {
    context_scope scope(cu_);
    CUcontext context = nullptr;
    if (error failed = enter(device, scope, context)) return failed;
    key name;
    std::memcpy(name.bytes, contents.key, sizeof name.bytes);
    const lock_guard lock(memory_mutex_);
    CUmemoryPool pool = nullptr;
    for (const imported_pool &known : imported_pools_)
        if (!known.is_own && known.name == name && !known.is_closing) pool = known.pool;
    if (!pool) return refuse(FERRY_ERROR_POOL, FERRY_SIDE_NONE, FERRY_FIELD_POOL);
    if (imported_memory *known = find_import(contents, nullptr, pool)) {
        ++known->count;
        address = known->address;
        return {};
    }
    if (!imported_memory_.reserve(imported_memory_.size() + 1)) return no_memory;
    CUmemPoolPtrExportData payload;
    std::memcpy(&payload, contents.payload, sizeof payload);
    CUdeviceptr opened = 0;
    if (const std::int32_t status = call_relaxed(cu_, cu_.cuMemPoolImportPointer, &opened, pool, &payload))
        return import_failure(status);
    imported_memory imported = {contents.exporter,
                                contents.original,
                                contents.buffer_id,
                                opened,
                                contents.allocation_size,
                                device,
                                nullptr,
                                pool,
                                1,
                                false};
    // A match means that the exporter has freed an allocation that is still open here, and reused its address.
    for (imported_memory &known : imported_memory_)
        if (known.pool == pool && known.address == opened) {
            imported.count += known.count;
            known = imported;
            address = opened;
            return {};
        }
    (void)imported_memory_.append(imported);
    address = opened;
    return {};
}

sharing::imported_memory *sharing::find_address(std::uint64_t address) noexcept {
    // Records overlap where an exporter has reused freed memory in pieces. The closest piece that begins at or before
    // the address is the right one.
    imported_memory *nearest = nullptr;
    for (imported_memory &known : imported_memory_)
        if (lies_within(address, known.address, known.size) && !known.is_closing &&
            (!nearest || known.address > nearest->address))
            nearest = &known;
    return nearest;
}

error sharing::close_memory(std::uint64_t address, CUstream stream) noexcept {
    if (error failed = check_process(cu_)) return failed;
    CUcontext opened_in = nullptr;
    CUdeviceptr opened = 0;
    {
        const lock_guard lock(memory_mutex_);
        imported_memory *const known = find_address(address);
        if (!known) return refuse(FERRY_ERROR_ADDRESS, FERRY_SIDE_NONE, FERRY_FIELD_ADDRESS, 0, address);
        if (known->count > 1) {
            --known->count;
            return {};
        }
        if (known->pool) {
            context_choice choice;
            context_scope scope(cu_);
            if (error failed = choose_context_on(cu_, contexts_, stream, known->device, choice)) return failed;
            if (error failed = scope.enter(choice.wanted, choice.current)) return failed;
            if (error failed = refuse_captured(cu_, stream)) return failed; // every launch would close it again
            if (const std::int32_t status = call_relaxed(cu_, cu_.cuMemFreeAsync, CUdeviceptr{known->address}, stream))
                return {.status = status};
        }
        if (!known->context) {
            imported_memory_.remove(static_cast<std::size_t>(known - imported_memory_.begin()));
            return {};
        }
        known->is_closing = true;
        opened_in = known->context;
        opened = known->address;
    }
    // Calls the driver without the lock: the driver waits for running work, which may wait for an import by another
    // thread. An import in the meantime opens the memory again, and the driver counts these openings.
    context_scope scope(cu_);
    std::int32_t status = scope.enter(opened_in).status;
    if (!status) status = call_relaxed(cu_, cu_.cuIpcCloseMemHandle, opened);
    const lock_guard lock(memory_mutex_);
    for (std::size_t i = 0; i < imported_memory_.size(); ++i) {
        imported_memory &known = imported_memory_[i];
        if (!known.is_closing || known.context != opened_in || known.address != opened) continue;
        if (status)
            known.is_closing = false;
        else
            imported_memory_.remove(i);
        break;
    }
    return {.status = status};
}

bool sharing::is_imported(std::uint64_t address) noexcept {
    if (!has_imported_.load(std::memory_order_relaxed) || check_process(cu_)) return false;
    const lock_guard lock(memory_mutex_);
    const imported_memory *const known = find_address(address);
    return known && (known->context || known->pool);
}

// ---- Pools

// Finds where a pool lies. Refuses a pool of another process.
error sharing::locate_shareable(CUmemoryPool pool, pool_location &where) noexcept {
    context_scope scope(cu_);
    CUcontext context = nullptr;
    if (error failed = enter(-1, scope, context)) return failed;
    if (is_imported(pool, where)) return refuse(FERRY_ERROR_NOT_SHAREABLE, FERRY_SIDE_NONE, FERRY_FIELD_POOL);
    const relaxed_capture_mode relaxed(cu_);
    return relaxed.entered() ? pools_.locate(pool, where) : relaxed.why();
}

error sharing::export_pool(CUmemoryPool pool, std::uint32_t handle_type, ferry_ipc_handle &handle,
                           std::int64_t &os_handle) noexcept {
    if (!is_known(own_)) return {.status = FERRY_ERROR_UNSUPPORTED};
    if (handle_type != FERRY_HANDLE_POSIX_FD && handle_type != FERRY_HANDLE_WIN32 &&
        handle_type != FERRY_HANDLE_WIN32_KMT && handle_type != FERRY_HANDLE_FABRIC)
        return refuse(FERRY_ERROR_INVALID_ARGUMENT, FERRY_SIDE_NONE, FERRY_FIELD_HANDLE_TYPES, 0, handle_type);
    pool_location where;
    if (error failed = locate_shareable(pool, where)) return failed;
    handle_contents contents = {};
    const int device = where.location == FERRY_LOCATION_DEVICE ? where.index : -1;
    begin_handle(FERRY_IPC_POOL, device, contents);
    contents.handle_type = handle_type;
    contents.location = where.location;
    contents.index = device < 0 ? where.index : 0;
    context_scope scope(cu_);
    CUcontext context = nullptr;
    if (error failed = enter(device, scope, context)) return failed;

    const lock_guard lock(memory_mutex_);
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
    if (const std::int32_t status =
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

error sharing::import_pool(const ferry_ipc_handle &handle, std::int64_t os_handle, CUmemoryPool &pool) noexcept {
    handle_contents contents;
    int device = -1;
    if (error failed = check_handle(handle, is_pool, contents, device)) return failed;
    // The location is used as an index later, so it must be an existing device or a node number.
    const bool lies_somewhere = device >= 0 ? contents.location == FERRY_LOCATION_DEVICE
                                            : contents.location == FERRY_LOCATION_HOST_NUMA && contents.index >= 0;
    if (!lies_somewhere) return bad_handle(FERRY_ERROR_HANDLE);
    context_scope scope(cu_);
    CUcontext context = nullptr;
    if (error failed = enter(device, scope, context)) return failed;
    imported_pool imported = {nullptr, {},    device, {contents.location, device < 0 ? contents.index : device},
                              1,       false, false};
    std::memcpy(imported.name.bytes, contents.key, sizeof contents.key);

    const lock_guard lock(memory_mutex_);
    for (const imported_pool &known : imported_pools_)
        if (known.name == imported.name && !known.is_closing) {
            ++find_pool(known.pool)->count;
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
    if (imported_pool *const known = find_pool(imported.pool)) { // two instances of its process exported it
        ++known->count;
        imported.count = 0;
    }
    (void)imported_pools_.append(imported);
    pool = imported.pool;
    return {};
}

// Finds the record that counts the imports of a pool.
sharing::imported_pool *sharing::find_pool(CUmemoryPool pool) noexcept {
    for (imported_pool &known : imported_pools_)
        if (known.pool == pool && known.count && !known.is_closing) return &known;
    return nullptr;
}

error sharing::open_pool(const handle_contents &contents, std::int64_t os_handle, CUmemoryPool &pool) noexcept {
    CUmemFabricHandle fabric;
    static_assert(sizeof fabric == sizeof contents.payload);
    std::memcpy(&fabric, contents.payload, sizeof fabric);
    const bool is_inside = contents.handle_type == FERRY_HANDLE_FABRIC;
    void *const driver_handle = is_inside ? &fabric : reinterpret_cast<void *>(static_cast<std::intptr_t>(os_handle));
    const std::int32_t status = call_relaxed(cu_, cu_.cuMemPoolImportFromShareableHandle, &pool, driver_handle,
                                             static_cast<CUmemAllocationHandleType>(contents.handle_type), 0ull);
    if (!status) return {};
    error failed = import_failure(status);
    if (status == to_status(CUDA_ERROR_UNKNOWN)) failed = bad_handle(FERRY_ERROR_HANDLE); // no descriptor of a pool
    if (failed.status == FERRY_ERROR_HANDLE && !is_inside) failed.field = FERRY_FIELD_OS_HANDLE;
    return failed;
}

error sharing::close_pool(CUmemoryPool pool) noexcept {
    if (error failed = check_process(cu_)) return failed;
    const auto for_each_name = [&](auto &&then) noexcept {
        for (std::size_t i = imported_pools_.size(); i-- > 0;)
            if (imported_pools_[i].pool == pool) then(i);
    };
    std::int32_t status = FERRY_SUCCESS;
    bool is_own = false;
    int device = -1;
    {
        const lock_guard lock(memory_mutex_);
        imported_pool *const known = find_pool(pool);
        if (!known) return refuse(FERRY_ERROR_POOL, FERRY_SIDE_NONE, FERRY_FIELD_POOL);
        if (known->count > 1) {
            --known->count;
            return {};
        }
        for (const imported_memory &memory : imported_memory_)
            if (memory.pool == pool) return refuse(FERRY_ERROR_IN_USE, FERRY_SIDE_NONE, FERRY_FIELD_POOL);
        is_own = known->is_own;
        device = known->device;
        for_each_name([&](std::size_t i) noexcept { imported_pools_[i].is_closing = true; });
    }
    // Calls the driver without the lock, as in close_memory.
    if (!is_own) {
        context_scope scope(cu_);
        CUcontext context = nullptr;
        status = enter(device, scope, context).status;
        if (!status) status = call_relaxed(cu_, cu_.cuMemPoolDestroy, pool);
    }
    const lock_guard lock(memory_mutex_);
    for_each_name([&](std::size_t i) noexcept {
        if (!imported_pools_[i].is_closing) return;
        imported_pools_[i].is_closing = false;
        if (!status) imported_pools_.remove(i);
    });
    if (status == to_status(CUDA_ERROR_INVALID_VALUE)) // seen while any instance has memory of the pool imported
        return refuse(FERRY_ERROR_IN_USE, FERRY_SIDE_NONE, FERRY_FIELD_POOL);
    return {.status = status};
}

bool sharing::is_imported(CUmemoryPool pool, pool_location &where) noexcept {
    if (!has_imported_.load(std::memory_order_relaxed) || check_process(cu_)) return false;
    const lock_guard lock(memory_mutex_);
    for (const imported_pool &known : imported_pools_)
        if (known.pool == pool && !known.is_own) {
            where = known.where;
            return true;
        }
    return false;
}

// Removes the name first: once the driver has destroyed the pool, another pool may get its handle. Calls the driver
// without the lock, because the driver may wait for work that waits for another thread's call. If the driver fails, the
// next export creates another name.
error sharing::destroy_pool(CUmemoryPool pool) noexcept {
    forget_pool(pool);
    return pools_.destroy(pool);
}

void sharing::forget_pool(CUmemoryPool pool) noexcept {
    const lock_guard lock(memory_mutex_);
    for (std::size_t i = 0; i < exported_pools_.size(); ++i)
        if (exported_pools_[i].pool == pool) {
            exported_pools_.remove(i);
            break;
        }
}

// ---- Events

error sharing::note_event(CUevent event, int device) noexcept {
    CUcontext context = nullptr;
    if (error failed = contexts_.get(device, context)) return failed;
    const lock_guard lock(event_mutex_);
    return events_.append({event, context, device, {}}) ? ok : error{.status = FERRY_ERROR_OUT_OF_MEMORY};
}

error sharing::create_event(int device, std::uint32_t flags, CUevent &event) noexcept {
    if (const std::int32_t status = call_optional(cu_.cuEventCreate, &event, flags)) return {.status = status};
    if (!(flags & FERRY_EVENT_INTERPROCESS)) return {};
    const error failed = note_event(event, device);
    if (failed) {
        call_optional(cu_.cuEventDestroy, event);
        event = nullptr;
    }
    return failed;
}

error sharing::destroy_event(CUevent event) noexcept {
    if (error failed = check_process(cu_)) return failed;
    const lock_guard lock(event_mutex_);
    for (const imported_event &imported : imported_events_)
        if (imported.event == event && imported.context)
            return refuse(FERRY_ERROR_IMPORTED, FERRY_SIDE_NONE, FERRY_FIELD_EVENT);
    if (const std::int32_t status = call_optional(cu_.cuEventDestroy, event)) return {.status = status};
    for (std::size_t i = 0; i < events_.size(); ++i)
        if (events_[i].event == event) {
            events_.remove(i);
            break;
        }
    return {};
}

error sharing::export_event(CUevent event, ferry_ipc_handle &handle) noexcept {
    if (!is_known(own_)) return {.status = FERRY_ERROR_UNSUPPORTED};
    if (error failed = check_process(cu_)) return failed;
    const lock_guard lock(event_mutex_);
    known_event *known = nullptr;
    for (known_event &each : events_)
        if (each.event == event) known = &each;
    const int device = known ? known->device : -1;
    context_scope scope(cu_);
    CUcontext context = nullptr;
    if (error failed = enter(device, scope, context)) return failed;
    CUipcEventHandle payload;
    if (const std::int32_t status = call_relaxed(cu_, cu_.cuIpcGetEventHandle, &payload, event))
        return export_failure(status, FERRY_FIELD_EVENT);
    if (!known) {
        if (!events_.append({event, nullptr, -1, {}})) return no_memory;
        known = events_.end() - 1;
    }
    if (known->name == key{} && !fill_with_random_bytes(known->name.bytes, sizeof known->name.bytes))
        return {.status = FERRY_ERROR_UNSUPPORTED};
    handle_contents contents = {};
    static_assert(sizeof payload == sizeof contents.payload);
    begin_handle(FERRY_IPC_EVENT, device, contents);
    std::memcpy(contents.payload, &payload, sizeof payload);
    std::memcpy(contents.key, known->name.bytes, sizeof contents.key);
    encode(contents, handle);
    return {};
}

error sharing::import_event(const ferry_ipc_handle &handle, CUevent &event) noexcept {
    handle_contents contents;
    int device = -1;
    if (error failed = check_handle(handle, is_event, contents, device)) return failed;
    imported_event imported = {nullptr, nullptr, 1};
    if (is_same(contents.exporter, own_)) {
        key name;
        std::memcpy(name.bytes, contents.key, sizeof name.bytes);
        if (name == key{}) return bad_handle(FERRY_ERROR_HANDLE); // events that were not exported have no name
        const lock_guard lock(event_mutex_);
        for (const known_event &known : events_)
            if (known.name == name) imported.event = known.event;
        if (!imported.event) return bad_handle(FERRY_ERROR_HANDLE);
        for (imported_event &known : imported_events_)
            if (known.event == imported.event && !known.context) {
                ++known.count;
                imported.count = 0;
            }
        if (imported.count && !imported_events_.append(imported)) return no_memory;
    } else {
        context_scope scope(cu_);
        if (error failed = enter(device, scope, imported.context)) return failed;
        CUipcEventHandle payload;
        std::memcpy(&payload, contents.payload, sizeof payload);
        if (const std::int32_t status = call_relaxed(cu_, cu_.cuIpcOpenEventHandle, &imported.event, payload))
            return import_failure(status);
        const lock_guard lock(event_mutex_);
        if (!imported_events_.append(imported)) {
            (void)call_optional(cu_.cuEventDestroy, imported.event);
            return no_memory;
        }
    }
    event = imported.event;
    return {};
}

error sharing::close_event(CUevent event) noexcept {
    if (error failed = check_process(cu_)) return failed;
    const lock_guard lock(event_mutex_);
    for (std::size_t i = 0; i < imported_events_.size(); ++i) {
        imported_event &known = imported_events_[i];
        if (known.event != event) continue;
        if (known.count > 1) {
            --known.count;
            return {};
        }
        if (known.context)
            if (const std::int32_t status = call_optional(cu_.cuEventDestroy, event)) return {.status = status};
        imported_events_.remove(i);
        return {};
    }
    return refuse(FERRY_ERROR_INVALID_ARGUMENT, FERRY_SIDE_NONE, FERRY_FIELD_EVENT);
}

// ---- Contexts

void sharing::forget_context(CUcontext context) noexcept {
    {
        const lock_guard lock(memory_mutex_);
        for (std::size_t i = imported_memory_.size(); i-- > 0;)
            if (imported_memory_[i].context == context) imported_memory_.remove(i);
    }
    const lock_guard lock(event_mutex_);
    for (std::size_t i = imported_events_.size(); i-- > 0;)
        if (imported_events_[i].context == context) imported_events_.remove(i);
    for (std::size_t i = events_.size(); i-- > 0;)
        if (events_[i].context == context) events_.remove(i);
}

} // namespace ferry
