#include "memory/ipc_memory.h"

#include <cstring>

#include "memory/address.h"

namespace ferry {

namespace {

constexpr bool is_memory(std::int32_t kind) noexcept {
    return kind == FERRY_IPC_MEMORY || kind == FERRY_IPC_POOL_MEMORY;
}

// Returns the driver's unique number for an allocation. look_up_address does not query it.
error look_up_buffer(const driver_table &cu, std::uint64_t address, std::uint64_t &buffer_id) noexcept {
    unsigned long long found = 0;
    CUpointer_attribute attribute = CU_POINTER_ATTRIBUTE_BUFFER_ID;
    void *value = &found;
    const call_result result = cu.cuPointerGetAttributes(1, &attribute, &value, address);
    buffer_id = found;
    return to_error(result);
}

// Compares everything that can distinguish allocations. The numbers are stated by the exporter, which may state the
// numbers of another process's memory. So the driver's own handle must match too.
bool names_same_allocation(const handle_contents &one, const handle_contents &other) noexcept {
    return one.kind == other.kind && one.original == other.original && one.buffer_id == other.buffer_id &&
           is_same(one.exporter, other.exporter) && std::memcmp(one.payload, other.payload, sizeof one.payload) == 0;
}

constexpr bool lies_within(std::uint64_t address, std::uint64_t start, std::uint64_t size) noexcept {
    return address >= start && address - start < size;
}

} // namespace

error ipc_memory::export_memory(std::uint64_t address, std::uint64_t size, ferry_ipc_handle &handle) noexcept {
    if (!is_known(process_.own())) return {.status = FERRY_ERROR_UNSUPPORTED};
    if (error failed = process_.check_driver()) return failed;
    address_facts facts;
    std::uint64_t buffer_id = 0;
    if (error failed = look_up_address(cu_, address, address_query::everything, facts)) return failed;
    if (facts.kind == memory_kind::pageable)
        return refuse(FERRY_ERROR_ADDRESS, FERRY_SIDE_NONE, FERRY_FIELD_ADDRESS, numbers::value, 0, address);
    if (error failed = look_up_buffer(cu_, address, buffer_id)) return failed;
    if ((facts.kind != memory_kind::device && !facts.pool) || facts.kind == memory_kind::managed ||
        is_imported(address))
        return refuse(FERRY_ERROR_NOT_SHAREABLE, FERRY_SIDE_NONE, FERRY_FIELD_ADDRESS, numbers::value, 0, address);
    if (!facts.range_size) // host pool that the current device cannot access: unknown start
        return refuse(FERRY_ERROR_NOT_SHAREABLE, FERRY_SIDE_NONE, FERRY_FIELD_ADDRESS, numbers::value, 0, address);
    const std::uint64_t offset = address - facts.range_start, rest = facts.range_size - offset;
    if (size > rest)
        return refuse(FERRY_ERROR_OUT_OF_BOUNDS, FERRY_SIDE_NONE, FERRY_FIELD_SIZE, numbers::at_most, rest, size);

    handle_contents contents = {};
    process_.begin_handle(facts.pool ? FERRY_IPC_POOL_MEMORY : FERRY_IPC_MEMORY, facts.device, contents);
    contents.offset = offset;
    contents.size = size ? size : rest;
    contents.allocation_size = facts.range_size;
    contents.buffer_id = buffer_id;
    contents.original = facts.range_start;
    context_scope scope(cu_);
    CUcontext context = nullptr;
    if (error failed = process_.enter(facts.device, scope, context)) return failed;
    if (facts.pool) {
        if (error failed = export_pool_memory(contents, facts.pool)) return failed;
    } else {
        CUipcMemHandle payload;
        static_assert(sizeof payload == sizeof contents.payload);
        if (const status_code status = call_relaxed(cu_, cu_.cuIpcGetMemHandle, &payload, facts.range_start))
            return export_failure(status, FERRY_FIELD_ADDRESS);
        std::memcpy(contents.payload, &payload, sizeof payload);
    }
    encode(contents, handle);
    return {};
}

error ipc_memory::export_pool_memory(handle_contents &contents, CUmemoryPool pool) noexcept {
    const lock_guard lock(mutex_);
    for (const exported_pool &exported : exported_pools_) {
        if (exported.pool != pool) continue;
        CUmemPoolPtrExportData payload;
        static_assert(sizeof payload == sizeof contents.payload);
        if (const status_code status =
                call_relaxed(cu_, cu_.cuMemPoolExportPointer, &payload, CUdeviceptr{contents.original}))
            return export_failure(status, FERRY_FIELD_ADDRESS);
        std::memcpy(contents.payload, &payload, sizeof payload);
        std::memcpy(contents.key, exported.name.bytes, sizeof contents.key);
        return {};
    }
    return refuse(FERRY_ERROR_NOT_SHAREABLE, FERRY_SIDE_NONE, FERRY_FIELD_POOL);
}

error ipc_memory::import_memory(const ferry_ipc_handle &handle, std::uint64_t &address) noexcept {
    handle_contents contents;
    int device = -1;
    if (error failed = process_.check_handle(handle, is_memory, contents, device)) return failed;
    const bool is_own = is_same(contents.exporter, process_.own());
    if (!is_own) has_imported_ = true;
    if (error failed = is_own                              ? import_own(contents, address)
                       : contents.kind == FERRY_IPC_MEMORY ? open_memory(contents, device, address)
                                                           : import_from_pool(contents, device, address))
        return failed;
    address += contents.offset;
    return {};
}

// Finds memory that was opened in `context` or imported through `pool`. If both are null: memory of this process.
ipc_memory::imported_memory *ipc_memory::find_import(const handle_contents &contents, CUcontext context,
                                                     CUmemoryPool pool) noexcept {
    for (imported_memory &known : imported_memory_)
        if (names_same_allocation(known.handle, contents) && known.context == context && known.pool == pool &&
            !known.is_closing)
            return &known;
    return nullptr;
}

// A later handle is trusted no more than the first: it must fit in the memory that is mapped.
error ipc_memory::import_again(imported_memory &known, const handle_contents &contents,
                               std::uint64_t &address) noexcept {
    if (contents.allocation_size > known.size) return bad_handle(FERRY_ERROR_HANDLE);
    ++known.count;
    address = known.address;
    return {};
}

error ipc_memory::import_own(const handle_contents &contents, std::uint64_t &address) noexcept {
    address_facts facts;
    std::uint64_t buffer_id = 0;
    if (error failed = look_up_address(cu_, contents.original, address_query::everything, facts)) return failed;
    if (facts.kind == memory_kind::pageable) return bad_handle(FERRY_ERROR_HANDLE);
    if (error failed = look_up_buffer(cu_, contents.original, buffer_id)) return failed;
    if (buffer_id != contents.buffer_id || facts.range_start != contents.original ||
        facts.range_size != contents.allocation_size)
        return bad_handle(FERRY_ERROR_HANDLE);
    const lock_guard lock(mutex_);
    if (imported_memory *known = find_import(contents, nullptr, nullptr))
        return import_again(*known, contents, address);
    if (!imported_memory_.append(
            {contents, contents.original, contents.allocation_size, facts.device, nullptr, nullptr, 1, false}))
        return no_memory;
    address = contents.original;
    return {};
}

// Finds how much memory the driver has mapped from `opened` on. The handle is not trusted. The allocation that it
// states must fit. So do its offset and size, which `decode` has compared with the stated allocation.
error ipc_memory::measure_opened(CUdeviceptr opened, const handle_contents &contents,
                                 std::uint64_t &size) const noexcept {
    address_facts facts;
    if (error failed = look_up_address(cu_, opened, address_query::everything, facts)) return failed;
    size = facts.range_size ? facts.range_start + facts.range_size - opened : 0;
    return size < contents.allocation_size ? bad_handle(FERRY_ERROR_HANDLE) : ok;
}

error ipc_memory::open_memory(const handle_contents &contents, int device, std::uint64_t &address) noexcept {
    if (device < 0) return bad_handle(FERRY_ERROR_HANDLE); // such a handle is easily forged
    context_scope scope(cu_);
    CUcontext context = nullptr;
    if (error failed = process_.enter(device, scope, context)) return failed;
    const lock_guard lock(mutex_);
    if (imported_memory *known = find_import(contents, context, nullptr))
        return import_again(*known, contents, address);
    if (!imported_memory_.reserve(imported_memory_.size() + 1)) return no_memory;
    CUipcMemHandle payload;
    std::memcpy(&payload, contents.payload, sizeof payload);
    CUdeviceptr opened = 0;
    const relaxed_capture_mode relaxed(cu_); // until the memory is recorded or closed again
    if (!relaxed.entered()) return relaxed.why();
    if (const status_code status =
            call_optional(cu_.cuIpcOpenMemHandle, &opened, payload,
                          unsigned{CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS})) // the only flag, and required
        return import_failure(status);
    std::uint64_t size = 0;
    if (error failed = measure_opened(opened, contents, size)) {
        call_optional(cu_.cuIpcCloseMemHandle, opened);
        return failed;
    }
    (void)imported_memory_.append({contents, opened, size, device, context, nullptr, 1, false});
    address = opened;
    return {};
}

// The driver returns the same address for every import of an allocation, and the first free unmaps it.
error ipc_memory::import_from_pool(const handle_contents &contents, int device, std::uint64_t &address) noexcept {
    context_scope scope(cu_);
    CUcontext context = nullptr;
    if (error failed = process_.enter(device, scope, context)) return failed;
    ipc_key name;
    std::memcpy(name.bytes, contents.key, sizeof name.bytes);
    const lock_guard lock(mutex_);
    CUmemoryPool pool = nullptr;
    for (const imported_pool &known : imported_pools_)
        if (!known.is_own && known.name == name && !known.is_closing) pool = known.pool;
    if (!pool) return refuse(FERRY_ERROR_POOL, FERRY_SIDE_NONE, FERRY_FIELD_POOL);
    if (imported_memory *known = find_import(contents, nullptr, pool)) return import_again(*known, contents, address);
    if (!imported_memory_.reserve(imported_memory_.size() + 1)) return no_memory;
    CUmemPoolPtrExportData payload;
    std::memcpy(&payload, contents.payload, sizeof payload);
    CUdeviceptr opened = 0;
    const relaxed_capture_mode relaxed(cu_); // until the memory is recorded or freed again
    if (!relaxed.entered()) return relaxed.why();
    if (const status_code status = call_optional(cu_.cuMemPoolImportPointer, &opened, pool, &payload))
        return import_failure(status);
    std::uint64_t size = 0;
    if (error failed = measure_opened(opened, contents, size)) {
        free_unless_known(pool, opened);
        return failed;
    }
    imported_memory imported = {contents, opened, size, device, nullptr, pool, 1, false};
    // A match means that the exporter has freed an allocation that is still open here, and has reused its address.
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

// Frees the memory of a rejected handle. The driver does not count imports, so memory that has a record must stay
// imported. A pool can be closed only after a stream has completed the free. The caller has no stream for that, so an
// empty stream is used.
void ipc_memory::free_unless_known(CUmemoryPool pool, CUdeviceptr opened) noexcept {
    for (const imported_memory &known : imported_memory_)
        if (known.pool == pool && known.address == opened) return;
    CUstream stream = nullptr;
    if (call_optional(cu_.cuStreamCreateWithPriority, &stream, CU_STREAM_NON_BLOCKING, 0)) return;
    if (!call_optional(cu_.cuMemFreeAsync, opened, stream)) call_optional(cu_.cuStreamSynchronize, stream);
    call_optional(cu_.cuStreamDestroy, stream);
}

ipc_memory::imported_memory *ipc_memory::find_address(std::uint64_t address) noexcept {
    // Records overlap if an exporter has reused parts of freed memory. The correct record is the last one that starts
    // at or before the address.
    imported_memory *nearest = nullptr;
    for (imported_memory &known : imported_memory_)
        if (lies_within(address, known.address, known.size) && !known.is_closing &&
            (!nearest || known.address > nearest->address))
            nearest = &known;
    return nearest;
}

error ipc_memory::close_memory(std::uint64_t address, CUstream stream) noexcept {
    opened_memory opened = {};
    if (error failed = begin_closing(address, stream, opened)) return failed;
    return opened.context ? end_closing(opened, false) : ok;
}

// Afterwards, another import of the memory opens it again, and the driver counts these openings.
error ipc_memory::begin_closing(std::uint64_t address, CUstream stream, opened_memory &opened) noexcept {
    opened = {};
    if (error failed = process_.check_driver()) return failed;
    const lock_guard lock(mutex_);
    imported_memory *const known = find_address(address);
    if (!known) return refuse(FERRY_ERROR_ADDRESS, FERRY_SIDE_NONE, FERRY_FIELD_ADDRESS, numbers::value, 0, address);
    if (known->count > 1) {
        --known->count;
        return {};
    }
    if (known->pool) {
        context_choice choice;
        context_scope scope(cu_);
        if (error failed = choose_context_on(cu_, contexts_, stream, known->device, choice)) return failed;
        if (error failed = scope.enter(choice.wanted, choice.current)) return failed;
        if (error failed = refuse_captured(cu_, stream)) return failed; // otherwise each launch would close it
        if (const status_code status = call_relaxed(cu_, cu_.cuMemFreeAsync, CUdeviceptr{known->address}, stream))
            return {.status = status};
    }
    if (!known->context) {
        imported_memory_.remove(static_cast<std::size_t>(known - imported_memory_.begin()));
        return {};
    }
    known->is_closing = true;
    opened = {known->address, known->size, known->device, known->context};
    return {};
}

// Calls the driver without the lock: the driver waits for running work, which may wait for an import by another thread.
error ipc_memory::end_closing(const opened_memory &opened, bool stays_claimed) noexcept {
    context_scope scope(cu_);
    status_code status = scope.enter(opened.context).status;
    if (!status) status = call_relaxed(cu_, cu_.cuIpcCloseMemHandle, CUdeviceptr{opened.address});
    if (!status || !stays_claimed) end_record(opened, !status);
    return {.status = status};
}

void ipc_memory::end_record(const opened_memory &opened, bool is_gone) noexcept {
    const lock_guard lock(mutex_);
    for (std::size_t i = 0; i < imported_memory_.size(); ++i) {
        imported_memory &known = imported_memory_[i];
        if (!known.is_closing || known.context != opened.context || known.address != opened.address) continue;
        if (is_gone)
            imported_memory_.remove(i);
        else
            known.is_closing = false;
        break;
    }
}

bool ipc_memory::is_in_import(std::uint64_t address) noexcept {
    if (process_.check_driver()) return false;
    const lock_guard lock(mutex_);
    const imported_memory *const known = find_address(address);
    return known && (known->context || known->pool);
}

// ---- Contexts

void ipc_memory::forget_context(CUcontext context) noexcept {
    const lock_guard lock(mutex_);
    for (std::size_t i = imported_memory_.size(); i-- > 0;)
        if (imported_memory_[i].context == context) imported_memory_.remove(i);
}

} // namespace ferry
