// Keeps arrays, memory and other objects that a program ends in stream order. Destroying such an object waits for
// running work while a driver lock is held. Once the stream has completed the work before the free, a kept array is
// reused instead of creating a new array with the same description. Other objects are destroyed when the caller may
// wait.
//
// No driver call runs with the mutex locked: a destroy may wait for work that needs a thread which is in defer().
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>

#include "base/chain.h"
#include "device/context_name.h"
#include "ferry/ferry_memory.h"
#include "memory/external.h"
#include "memory/ipc_memory.h"
#include "memory/pinned.h"

namespace ferry {

// An object that ends by end(of, object). If end() fails, it is called again later. FERRY_ERROR_IN_USE is not reported.
struct deferred_object {
    void *of = nullptr, *object = nullptr;
    error (*end)(void *of, void *object) noexcept = nullptr;
};

class deferred_frees {
public:
    deferred_frees(const driver_table &cu, device_contexts &contexts, array_surfaces &arrays,
                   external_objects &externals, pinned_memory &pinned, ipc_memory &imported,
                   const allocator &memory) noexcept
        : cu_(cu), contexts_(contexts), arrays_(arrays), externals_(externals), pinned_(pinned), imported_(imported),
          memory_(memory) {}
    ~deferred_frees();
    deferred_frees(const deferred_frees &) = delete;
    deferred_frees &operator=(const deferred_frees &) = delete;

    // Frees an array that ferry created, without waiting. Returns FERRY_ERROR_CAPTURE on a stream that is being
    // captured, and FERRY_ERROR_INVALID_ARGUMENT for an array that is not recorded or already freed.
    error defer(CUarray array, CUstream stream) noexcept { return defer_array(kind::array, array, stream); }
    error defer(CUmipmappedArray mipmapped, CUstream stream) noexcept;
    // Frees device memory that the context `owner` owns. Returns FERRY_ERROR_ADDRESS if it is already freed.
    error defer(CUdeviceptr address, std::uint64_t size, int device, CUcontext owner, CUstream stream) noexcept;
    // Frees host memory that ferry allocated. Returns FERRY_ERROR_ADDRESS if no such block starts at the address or the
    // block is already freed. A context must be current.
    error defer_host(std::uint64_t address, CUstream stream) noexcept;
    // Unregisters host memory. Returns FERRY_ERROR_ADDRESS if no registration starts at the address or it is already
    // being unregistered. A context must be current.
    error defer_unregistering(std::uint64_t address, CUstream stream) noexcept;
    // Closes one import of memory of another process. Only the last close of memory that is not from a pool is kept.
    error defer_closing(std::uint64_t address, CUstream stream) noexcept;
    // Closes one import of a pool of another process. Only the last close is kept.
    error defer_closing(CUmemoryPool pool, CUstream stream) noexcept;
    // Ends an object that does not end with a context. `device` is -1 for an object in host memory.
    error defer(const deferred_object &object, std::uint64_t size, int device, CUstream stream) noexcept;
    // Frees imported memory and all objects that were created from it. Returns FERRY_ERROR_HANDLE if the memory is not
    // imported or already freed.
    error defer(CUexternalMemory memory, CUstream stream) noexcept;
    error defer(CUexternalSemaphore semaphore, CUstream stream) noexcept;
    // Must be called before imported memory is released: arrays end with their import, so the records of freed arrays
    // are dropped.
    void forget_parts(CUexternalMemory of) noexcept;
    bool holds(const void *handle) noexcept { return holds(name_of(handle)); }
    bool holds(std::uint64_t name) noexcept { return may_hold_any() && is_kept(name); }
    // False while nothing is kept. Full checks call this for each copy.
    bool may_hold_any() const noexcept { return may_hold_any_.load(std::memory_order_relaxed); }

    // Takes a kept array or mipmapped array with this description whose stream has completed; false if not found.
    template <class Array> bool take(const made_array &as, Array &array) noexcept {
        std::uint64_t name = 0;
        if (!take_name(as, name)) return false;
        array = reinterpret_cast<Array>(static_cast<std::uintptr_t>(name));
        return true;
    }

    // Destroys objects whose streams have completed: oldest first until `keep` bytes are left, and all objects without
    // memory of their own. Device -1: on each device, and in host memory. Waits for running work. Adds the number of
    // destroyed objects to `freed` if it is not null.
    error trim(int device, std::uint64_t keep, std::uint64_t *freed = nullptr) noexcept {
        return device < 0 ? trim(host, contexts_.count(), keep, freed) : trim(device, device + 1, keep, freed);
    }
    // For allocations: the same as trim, but do nothing while another thread trims. limit() also does nothing while no
    // more than `keep` bytes are kept.
    error limit(int device, std::uint64_t keep) noexcept;
    error limit_host(std::uint64_t keep) noexcept;
    error trim_host(std::uint64_t keep, std::uint64_t *freed = nullptr) noexcept {
        return trim(host, host + 1, keep, freed);
    }
    void count(int device, ferry_deferred_info &info) noexcept;

    // Drops the records of all objects in a context, because they end with the context.
    void forget(CUcontext context) noexcept;
    // Waits for the streams and destroys everything. Must be called before the destructor, while the driver is loaded.
    void close() noexcept;

private:
    enum class kind : std::uint8_t {
        array,
        mipmapped_array,
        imported_array, // including mipmapped; in the memory of an import: never reused
        memory,
        host_memory,
        external_memory,
        external_semaphore,
        registration,
        imported_memory,
        object
    };
    static constexpr int host = -1; // represents host memory, which is on no device
    struct kept {
        kind what = kind::array;
        bool is_queried = false; // by a thread that has unlocked the mutex: the record must stay in place
        bool is_lost = false;    // its context or import ended during the query
        int device = host;
        std::uint64_t name = 0; // handle or address
        std::uint64_t size = 0; // bytes
        made_array as = {};
        host_block block = {};                   // for host memory
        host_registration registered = {};       // for a registration
        external_objects::made_image image = {}; // for an imported array
        opened_memory opened = {};               // for imported memory
        deferred_object other = {};              // for an object
        context_name made_in = {};               // for host memory: null if it does not end with a context
        CUevent passed = nullptr; // recorded when the program freed the object; null: destroyed with its context
        context_name recorded_in = {};
        kept *previous = nullptr, *next = nullptr;
    };
    using lock = std::unique_lock<std::mutex>;

    static bool is_reusable(const kept &one) noexcept { return one.what <= kind::mipmapped_array; }
    static bool is_array(const kept &one) noexcept { return one.what <= kind::imported_array; }
    static std::uint64_t name_of(const void *array) noexcept { return reinterpret_cast<std::uintptr_t>(array); }
    error defer_array(kind what, const void *array, CUstream stream) noexcept;
    error defer(const kept &given, CUstream stream) noexcept;
    error record(const kept &given, const context_name &on, CUstream stream, kept *&made) noexcept;
    kept *find(std::uint64_t name) noexcept;
    [[gnu::cold]] bool is_kept(std::uint64_t name) noexcept;
    kept *take_spare(const context_name &context) noexcept;
    void keep_spare(kept &done) noexcept;
    void drop(kept &gone) noexcept;
    void drop_spares(const context_name &context) noexcept;
    bool take_name(const made_array &as, std::uint64_t &name) noexcept;
    bool lives(const context_name &context) noexcept;
    // Returns whether the stream has completed the event. Unlocks the mutex during driver calls.
    bool has_passed(kept &waiting, lock &held) noexcept;
    std::uint64_t bytes_of(int device) const noexcept;
    bool holds_more(int device, std::uint64_t keep) const noexcept;
    // Must be called without the mutex.
    error destroy(const kept &gone) noexcept;
    error destroy_host(const kept &gone) noexcept;
    error unregister(const kept &gone) noexcept;
    error trim(int first, int end, std::uint64_t keep, std::uint64_t *freed) noexcept; // devices [first, end)
    error trim_alone(int first, int end, std::uint64_t keep, std::uint64_t *freed, lock &held) noexcept;
    void collect(int device, std::uint64_t keep, chain<kept> &passed, lock &held) noexcept;

    const driver_table &cu_;
    device_contexts &contexts_;
    array_surfaces &arrays_;
    external_objects &externals_;
    pinned_memory &pinned_;
    ipc_memory &imported_;
    const allocator &memory_;
    std::mutex mutex_;
    std::condition_variable ended_; // of a trim
    bool is_trimming_ = false;
    chain<kept> deferred_;                   // in the order of the frees
    std::atomic<bool> may_hold_any_ = false; // changes with the mutex locked
    chain<kept> spare_;                      // records whose event can be reused
};

} // namespace ferry
