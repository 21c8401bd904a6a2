// Tracks the memory and the pools that this instance has exported to other processes or imported from them. The driver
// counts only some kinds of imports, and each new mapping takes tens of microseconds. This class counts every import
// and maps it once.
#pragma once

#include <atomic>
#include <mutex>

#include "base/growing.h"
#include "ferry/ferry_ipc.h"
#include "memory/ipc_process.h"
#include "memory/pools.h"

namespace ferry {

// Memory of another process that the driver has mapped into a context.
struct opened_memory {
    std::uint64_t address;
    std::uint64_t size; // bytes
    int device;
    CUcontext context; // null: nothing is mapped
};

class ipc_memory {
public:
    ipc_memory(const driver_table &cu, ipc_process &process, device_contexts &contexts, memory_pools &pools,
               const allocator &memory) noexcept
        : cu_(cu), process_(process), contexts_(contexts), pools_(pools), exported_pools_(memory),
          imported_pools_(memory), imported_memory_(memory) {}

    error export_memory(std::uint64_t address, std::uint64_t size, ferry_ipc_handle &handle) noexcept;
    error import_memory(const ferry_ipc_handle &handle, std::uint64_t &address) noexcept;
    error close_memory(std::uint64_t address, CUstream stream) noexcept;
    // The two steps of close_memory. The first step closes one import, and returns what the second step must unmap. The
    // second step waits for running work. If the driver fails to unmap the memory, `stays_claimed` states whether the
    // second step can be repeated or the import is open again.
    error begin_closing(std::uint64_t address, CUstream stream, opened_memory &opened) noexcept;
    error end_closing(const opened_memory &opened, bool stays_claimed) noexcept;
    void cancel_closing(const opened_memory &opened) noexcept { end_record(opened, false); }
    // For memory that ended with its context. Makes no driver call.
    void forget_closing(const opened_memory &opened) noexcept { end_record(opened, true); }

    error export_pool(CUmemoryPool pool, std::uint32_t handle_type, ferry_ipc_handle &handle,
                      std::int64_t &os_handle) noexcept;
    error import_pool(const ferry_ipc_handle &handle, std::int64_t os_handle, CUmemoryPool &pool) noexcept;
    error close_pool(CUmemoryPool pool) noexcept;
    // The two steps of close_pool. The first step closes one import and makes no driver call. If this was the last import,
    // `closing` is the number of the second step, otherwise 0. The second step may wait for running work, and returns
    // FERRY_ERROR_IN_USE while the driver still has memory of the pool. It can be repeated if it fails. An import of the
    // pool before the second step takes the pool back, and the second step does nothing.
    error begin_closing(CUmemoryPool pool, std::uintptr_t &closing, int &device) noexcept;
    error end_closing(std::uintptr_t closing) noexcept;
    void cancel_closing(std::uintptr_t closing) noexcept;
    // Returns whether a pool is between the two steps.
    bool is_closed(CUmemoryPool pool) noexcept;

    // Returns whether an address is in memory of another process.
    bool is_imported(std::uint64_t address) noexcept {
        return is_unlikely(has_imported_.load(std::memory_order_relaxed)) && is_in_import(address);
    }
    // Returns whether a pool belongs to another process, and the location of the pool.
    bool is_imported(CUmemoryPool pool, pool_location &where) noexcept;

    // Destroys a pool of this process. The current context and the capture mode must satisfy the requirements of
    // memory_pools.
    error destroy_pool(CUmemoryPool pool) noexcept;
    // Drops the record of an exported pool. If the program destroys an exported pool directly through the driver, a new
    // pool may get its handle.
    void forget_pool(CUmemoryPool pool) noexcept;
    // Drops the records of memory that was opened in a context, because it ends with the context.
    void forget_context(CUcontext context) noexcept;

private:
    bool is_in_import(std::uint64_t address) noexcept;
    using lock_guard = std::lock_guard<std::mutex>;

    void end_record(const opened_memory &opened, bool is_gone) noexcept;

    struct exported_pool {
        CUmemoryPool pool;
        ipc_key name;
    };
    struct imported_pool {
        CUmemoryPool pool;
        ipc_key name;
        int device; // -1: host memory
        pool_location where;
        std::uint32_t count; // 0: another name of a pool that a different record counts
        bool is_own;         // exported by this instance
        bool is_closing;
        std::uintptr_t closing; // number of the second step that destroys the pool; 0: none
    };
    struct imported_memory {
        handle_contents handle; // identifies the allocation
        std::uint64_t address;  // start of the whole allocation in this process
        std::uint64_t size;     // mapped size from `address` on, as reported by this process's driver
        int device;
        CUcontext context; // for cuIpcOpenMemHandle; null: not opened by that call
        CUmemoryPool pool; // the pool it was imported through; pool and context both null: memory of this process
        std::uint32_t count;
        bool is_closing;
    };

    // ipc_memory.cpp
    error export_pool_memory(handle_contents &contents, CUmemoryPool pool) noexcept;
    error import_own(const handle_contents &contents, std::uint64_t &address) noexcept;
    error measure_opened(CUdeviceptr opened, const handle_contents &contents, std::uint64_t &size) const noexcept;
    error open_memory(const handle_contents &contents, int device, std::uint64_t &address) noexcept;
    error import_from_pool(const handle_contents &contents, int device, std::uint64_t &address) noexcept;
    imported_memory *find_import(const handle_contents &contents, CUcontext context, CUmemoryPool pool) noexcept;
    error import_again(imported_memory &known, const handle_contents &contents, std::uint64_t &address) noexcept;
    void free_unless_known(CUmemoryPool pool, CUdeviceptr opened) noexcept;
    imported_memory *find_address(std::uint64_t address) noexcept;

    // ipc_pools.cpp
    error locate_shareable(CUmemoryPool pool, pool_location &where) noexcept;
    error open_pool(const handle_contents &contents, std::int64_t os_handle, CUmemoryPool &pool) noexcept;
    imported_pool *find_pool(CUmemoryPool pool) noexcept;
    imported_pool *find_closed(CUmemoryPool pool) noexcept;
    error remove_import(CUmemoryPool pool, imported_pool *&last) noexcept;
    void forget_import(CUmemoryPool pool) noexcept;
    void mark_closing(CUmemoryPool pool, bool is_closing) noexcept;
    bool take_back(CUmemoryPool pool) noexcept;
    error destroy_imported(CUmemoryPool pool, int device) noexcept;
    error destroy_closing(CUmemoryPool pool, int device, std::uintptr_t closing) noexcept;

    const driver_table &cu_;
    ipc_process &process_;
    device_contexts &contexts_;
    memory_pools &pools_;

    std::atomic<bool> has_imported_ = false; // whether memory or a pool of another process was ever imported
    std::mutex mutex_;                       // guards the next members
    growing<exported_pool> exported_pools_;
    growing<imported_pool> imported_pools_;
    growing<imported_memory> imported_memory_;
    std::uintptr_t closings_ = 0; // the last number of a second step
};

} // namespace ferry
