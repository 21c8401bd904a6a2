// Tracks what this instance has exported to other processes and imported from them. The driver counts only some
// imports, and making a mapping takes tens of microseconds each time. This class counts every import and opens it once.
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

    error export_memory(std::uint64_t address, std::uint64_t size, ferry_ipc_handle &handle) noexcept;
    error export_pool(CUmemoryPool pool, std::uint32_t handle_type, ferry_ipc_handle &handle,
                      std::int64_t &os_handle) noexcept;
    error export_event(CUevent event, ferry_ipc_handle &handle) noexcept;

    error import_memory(const ferry_ipc_handle &handle, std::uint64_t &address) noexcept;
    error import_pool(const ferry_ipc_handle &handle, std::int64_t os_handle, CUmemoryPool &pool) noexcept;
    error import_event(const ferry_ipc_handle &handle, CUevent &event) noexcept;

    error close_memory(std::uint64_t address, CUstream stream) noexcept;
    error close_pool(CUmemoryPool pool) noexcept;
    error close_event(CUevent event) noexcept;

    error describe(const ferry_ipc_handle &handle, ferry_ipc_info &info) const noexcept;

    // Returns whether an address lies in memory of another process.
    bool is_imported(std::uint64_t address) noexcept;
    // Returns whether a pool belongs to another process, and where the pool lies.
    bool is_imported(CUmemoryPool pool, pool_location &where) noexcept;

    // Creates an event in the context of `device`, which must be current. Records the device of an interprocess event,
    // which cannot be queried later.
    error create_event(int device, std::uint32_t flags, CUevent &event) noexcept;
    // Destroys an event, shared or not. Refuses an event of another process.
    error destroy_event(CUevent event) noexcept;
    // Destroys a pool of this process. The current context and the capture mode must be as memory_pools requires.
    error destroy_pool(CUmemoryPool pool) noexcept;
    // Forgets an exported pool. A new pool may get the handle of an exported pool that the program destroyed directly
    // through the driver.
    void forget_pool(CUmemoryPool pool) noexcept;
    // Forgets what was opened in a context, because it ends with the context.
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
        std::uint32_t count; // 0: a second name of a pool that another record counts
        bool is_own;         // exported by this instance
        bool is_closing;
    };
    struct imported_memory {
        process_identity exporter; // identifies the allocation, together with the next two
        std::uint64_t original;
        std::uint64_t buffer_id;
        std::uint64_t address; // of the whole allocation, in this process
        std::uint64_t size;
        int device;
        CUcontext context; // of cuIpcOpenMemHandle; null: not opened by that call
        CUmemoryPool pool; // through which it was imported; pool and context both null: memory of this process
        std::uint32_t count;
        bool is_closing;
    };
    struct known_event {
        CUevent event;
        CUcontext context; // null: unknown
        int device;        // -1: unknown
        key name;
    };
    struct imported_event {
        CUevent event;
        CUcontext context;   // null: an event of this process
        std::uint32_t count; // 1 for events of other processes, because each opening is another event
    };

    error check_handle(const ferry_ipc_handle &handle, bool is_wanted(std::int32_t), handle_contents &contents,
                       int &device) const noexcept;
    int find_device(const handle_contents &contents) const noexcept;
    void begin_handle(std::int32_t kind, int device, handle_contents &contents) const noexcept;
    error enter(int device, context_scope &scope, CUcontext &context) noexcept;

    error note_event(CUevent event, int device) noexcept;
    error locate_shareable(CUmemoryPool pool, pool_location &where) noexcept;
    error export_pool_memory(handle_contents &contents, CUmemoryPool pool) noexcept;
    error import_own(const handle_contents &contents, std::uint64_t &address) noexcept;
    error check_opened(CUdeviceptr opened, const handle_contents &contents) const noexcept;
    error open_memory(const handle_contents &contents, int device, std::uint64_t &address) noexcept;
    error import_from_pool(const handle_contents &contents, int device, std::uint64_t &address) noexcept;
    error open_pool(const handle_contents &contents, std::int64_t os_handle, CUmemoryPool &pool) noexcept;

    imported_memory *find_import(const handle_contents &contents, CUcontext context, CUmemoryPool pool) noexcept;
    imported_memory *find_address(std::uint64_t address) noexcept;
    imported_pool *find_pool(CUmemoryPool pool) noexcept;

    const driver_table &cu_;
    const device_facts *devices_;
    device_contexts &contexts_;
    memory_pools &pools_;
    const process_identity own_ = own_process();

    std::atomic<bool> has_imported_ = false; // ever, memory or a pool of another process
    std::mutex memory_mutex_;                // guards the next three
    growing<exported_pool> exported_pools_;
    growing<imported_pool> imported_pools_;
    growing<imported_memory> imported_memory_;

    std::mutex event_mutex_; // guards the next two
    growing<known_event> events_;
    growing<imported_event> imported_events_;
};

} // namespace ferry
