// What this instance has exported to other processes and imported from them. The driver counts some imports, others
// not, and makes a mapping anew at tens of microseconds each time: here every import is counted, and opened once.
#pragma once

#include <atomic>
#include <mutex>

#include "base/growing.h"
#include "device/contexts.h"
#include "memory/ipc_handle.h"
#include "memory/pools.h"

namespace ferry {

class sharing {
public:
    sharing(const driver_table &cu, const device_facts *devices, device_contexts &contexts, memory_pools &pools,
            const allocator &memory) noexcept
        : cu_(cu), devices_(devices), contexts_(contexts), pools_(pools), exported_pools_(memory),
          imported_pools_(memory), imported_memory_(memory), events_(memory), imported_events_(memory) {}

    failure export_memory(std::uint64_t address, std::uint64_t size, ferry_ipc_handle &handle) noexcept;
    failure export_pool(CUmemoryPool pool, std::uint32_t handle_type, ferry_ipc_handle &handle,
                        std::int64_t &os_handle) noexcept;
    failure export_event(CUevent event, ferry_ipc_handle &handle) noexcept;

    failure import_memory(const ferry_ipc_handle &handle, std::uint64_t &address) noexcept;
    failure import_pool(const ferry_ipc_handle &handle, std::int64_t os_handle, CUmemoryPool &pool) noexcept;
    failure import_event(const ferry_ipc_handle &handle, CUevent &event) noexcept;

    failure close_memory(std::uint64_t address, CUstream stream) noexcept;
    failure close_pool(CUmemoryPool pool) noexcept;
    failure close_event(CUevent event) noexcept;

    failure describe(const ferry_ipc_handle &handle, ferry_ipc_info &info) const noexcept;

    // Whether it lies in another process's memory.
    bool is_imported(std::uint64_t address) noexcept;
    // Whether it is another process's pool, and where that lies.
    bool is_imported(CUmemoryPool pool, pool_location &where) noexcept;

    // In the context of `device`, which is current. Of one for other processes the device is known from its making alone.
    failure create_event(int device, std::uint32_t flags, CUevent &event) noexcept;
    // Of any event, shared or not.
    failure destroy_event(CUevent event) noexcept;
    // Of this process's pools; the current context and the capture mode are as memory_pools wants them.
    failure destroy_pool(CUmemoryPool pool) noexcept;
    // A new pool may have the handle of an exported one that the program has destroyed by the driver's own call.
    void forget_pool(CUmemoryPool pool) noexcept;
    // What was opened in a context ends with it.
    void forget_context(CUcontext context) noexcept;

private:
    struct key {
        std::uint8_t bytes[16];
        bool operator==(const key &other) const noexcept;
    };
    struct exported_pool {
        CUmemoryPool pool;
        key name;
    };
    struct imported_pool {
        CUmemoryPool pool;
        key name;
        int device; // -1: host memory
        pool_location where;
        std::uint32_t count; // 0: another name of a pool that another record counts
        bool is_own;         // exported by this instance
        bool is_closing;
    };
    struct imported_memory {
        process_identity exporter; // with the next two: which allocation it is
        std::uint64_t original;
        std::uint64_t buffer_id;
        std::uint64_t address; // here, of all of it
        std::uint64_t size;
        int device;
        CUcontext context; // it was opened in; null: not opened by cuIpcOpenMemHandle
        CUmemoryPool pool; // it was imported through; both null: this process's own
        std::uint32_t count;
        bool is_closing;
    };
    struct known_event {
        CUevent event;
        CUcontext context; // null: not known
        int device;        // -1: not known
        key name;
    };
    struct imported_event {
        CUevent event;
        CUcontext context;   // null: this process's own
        std::uint32_t count; // of other processes' each opening is another event
    };

    failure check_handle(const ferry_ipc_handle &handle, bool is_wanted(std::int32_t), handle_contents &contents,
                         int &device) const noexcept;
    int find_device(const handle_contents &contents) const noexcept;
    void begin_handle(std::int32_t kind, int device, handle_contents &contents) const noexcept;
    failure enter(int device, context_scope &scope, CUcontext &context) noexcept;

    failure note_event(CUevent event, int device) noexcept;
    failure locate_shareable(CUmemoryPool pool, pool_location &where) noexcept;
    failure export_pool_memory(handle_contents &contents, CUmemoryPool pool) noexcept;
    failure import_own(const handle_contents &contents, std::uint64_t &address) noexcept;
    failure check_opened(CUdeviceptr opened, const handle_contents &contents) const noexcept;
    failure open_memory(const handle_contents &contents, int device, std::uint64_t &address) noexcept;
    failure import_from_pool(const handle_contents &contents, int device, std::uint64_t &address) noexcept;
    failure open_pool(const handle_contents &contents, std::int64_t os_handle, CUmemoryPool &pool) noexcept;

    imported_memory *find_import(const handle_contents &contents, CUcontext context, CUmemoryPool pool) noexcept;
    imported_memory *find_address(std::uint64_t address) noexcept;
    imported_pool *find_pool(CUmemoryPool pool) noexcept;

    const driver_table &cu_;
    const device_facts *devices_;
    device_contexts &contexts_;
    memory_pools &pools_;
    const process_identity own_ = own_process();

    std::atomic<bool> has_imported_ = false; // memory or a pool of another process, ever
    std::mutex memory_mutex_;                // of the three below
    growing<exported_pool> exported_pools_;
    growing<imported_pool> imported_pools_;
    growing<imported_memory> imported_memory_;

    std::mutex event_mutex_; // of these
    growing<known_event> events_;
    growing<imported_event> imported_events_;
};

} // namespace ferry
