// Sharing pools. A file descriptor represents the pool and can be passed to another process. After that, allocations
// are shared individually, each by several bytes of export data.
#include "softdriver/entry.h"
#include "softdriver/state.h"

namespace ferry::softdriver {

namespace {

// A second import returns the same pool or address (seen); imports are not counted.
const pool *find_imported(driver &cu, const shared_process &from, std::uint64_t serial) {
    const pool *found = nullptr;
    cu.pools.each([&](const pool &known) {
        if (known.exporter.get() == &from && known.exporter_serial == serial && !known.destroyed) found = &known;
    });
    return found;
}

const allocation *find_imported(driver &cu, const pool &through, std::uint64_t serial) {
    for (const auto &[address, memory] : cu.allocations)
        if (memory.pool == &through && memory.imported && memory.imported->serial == serial) return &memory;
    return nullptr;
}

} // namespace

CUresult cuMemPoolExportToShareableHandle(void *handle, CUmemoryPool of, CUmemAllocationHandleType type,
                                          unsigned long long flags) {
    return enter([&](driver &cu) {
        pool &shared = find_pool(cu, of);
        require(handle && flags == 0 && type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
        require(shared.handle_types & type); // an imported pool has none
        require(shared.on_device(), CUDA_ERROR_NOT_SUPPORTED);
        if (!shared.shared_at) shared.shared_at = publish(cu, shared_kind::pool, shared.location.id);
        const int file = write_name(cu.own->name_of(*shared.shared_at));
        require(file >= 0, CUDA_ERROR_OPERATING_SYSTEM);
        *static_cast<int *>(handle) = file;
    });
}

// Like any new pool, an imported pool is accessible only from its own device, regardless of the exporter's settings.
CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool *imported, void *handle, CUmemAllocationHandleType type,
                                            unsigned long long flags) {
    return enter([&](driver &cu) {
        require(imported && flags == 0 && type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
        const auto read = read_name(static_cast<int>(reinterpret_cast<std::intptr_t>(handle)));
        require(read && read->kind == shared_kind::pool && read->check == read->sum(), CUDA_ERROR_UNKNOWN);
        const shared_name &name = *read;
        const auto from = find_process(cu, name);
        require(from && from->is_alive());
        const shared_slot *const what = from->find(name);
        require(what);
        if (const pool *const known = find_imported(cu, *from, name.serial)) {
            *imported = known->handle;
            return;
        }
        pool &made = add_pool(cu, {CU_MEM_LOCATION_TYPE_DEVICE, what->device});
        made.exporter = from;
        made.exporter_serial = name.serial;
        *imported = made.handle;
    });
}

CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData *data, CUdeviceptr address) {
    return enter([&](driver &cu) {
        require(data);
        const auto found = cu.allocations.find(address);
        require(found != cu.allocations.end());
        allocation &memory = found->second;
        require(memory.pool && memory.pool->shared_at);
        if (!memory.shared_at)
            memory.shared_at =
                publish(cu, shared_kind::pool_memory, memory, cu.own->slot(*memory.pool->shared_at).serial);
        cu.own->name_of(*memory.shared_at).write_to(*data);
    });
}

CUresult cuMemPoolImportPointer(CUdeviceptr *address, CUmemoryPool handle, CUmemPoolPtrExportData *data) {
    return enter([&](driver &cu) {
        pool &into = find_pool(cu, handle);
        require(address && data && into.exporter);
        const auto name = shared_name::read_from(*data, shared_kind::pool_memory);
        require(name && into.exporter->is_named_by(*name) && into.exporter->is_alive());
        const shared_slot *const what = into.exporter->find(*name);
        require(what && what->pool == into.exporter_serial);
        if (const allocation *const known = find_imported(cu, into, name->serial)) {
            *address = known->address;
            return;
        }
        *address = import_memory(cu, into.exporter, *what, {.device = into.location.id, .pool = &into});
        into.take_into_use(rounded_size(cu.allocations.at(*address)));
    });
}

} // namespace ferry::softdriver
