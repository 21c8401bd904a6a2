// Keeps arrays and memory that a program has given up in stream order. Destroying them waits for running work and holds
// a driver lock meanwhile. Once the stream has passed, a kept array is reused in place of a new array of the
// same description. The rest is destroyed when the caller may wait.
//
// No driver call runs under the mutex: a destroy may wait for work that needs a thread which is in give_up.
#pragma once

#include <mutex>

#include "base/chain.h"
#include "device/context_name.h"
#include "memory/external.h"
#include "memory/pinned.h"

namespace ferry {

class deferred_frees {
public:
    deferred_frees(const driver_table &cu, device_contexts &contexts, array_surfaces &arrays,
                   external_objects &externals, pinned_memory &pinned, const allocator &memory) noexcept
        : cu_(cu), contexts_(contexts), arrays_(arrays), externals_(externals), pinned_(pinned), memory_(memory) {}
    ~deferred_frees();
    deferred_frees(const deferred_frees &) = delete;
    deferred_frees &operator=(const deferred_frees &) = delete;

    // Gives up an array that ferry made, without waiting. Returns FERRY_ERROR_CAPTURE on a stream that is being
    // captured, FERRY_ERROR_INVALID_ARGUMENT for an array that is not recorded or was given up already.
    error give_up(CUarray array, CUstream stream) noexcept { return give_up_array(kind::array, array, stream); }
    error give_up(CUmipmappedArray mipmapped, CUstream stream) noexcept;
    // Gives up device memory that the context `owner` owns. Returns FERRY_ERROR_ADDRESS if it was given up already.
    error give_up(CUdeviceptr address, std::uint64_t size, int device, CUcontext owner, CUstream stream) noexcept;
    // Gives up host memory that ferry allocated. Returns FERRY_ERROR_ADDRESS if no such block begins there, or it was
    // given up already. A context must be current.
    error give_up_host(std::uint64_t address, CUstream stream) noexcept;
    // Gives up imported memory with all that was made of it. Returns FERRY_ERROR_HANDLE if there is none, or it was given
    // up already.
    error give_up(CUexternalMemory memory, CUstream stream) noexcept;
    error give_up(CUexternalSemaphore semaphore, CUstream stream) noexcept;
    // Must be called before imported memory is released: its arrays end with it, so those given up are forgotten.
    void forget_parts(CUexternalMemory of) noexcept;
    bool holds(const void *handle) noexcept { return holds(name_of(handle)); }
    bool holds(std::uint64_t name) noexcept;

    // Takes a kept array or mipmapped array of this description whose stream has passed; false if there is none.
    template <class Array> bool take(const made_array &as, Array &array) noexcept {
        std::uint64_t name = 0;
        if (!take_name(as, name)) return false;
        array = reinterpret_cast<Array>(static_cast<std::uintptr_t>(name));
        return true;
    }

    // Destroys what streams have passed, oldest first, until `keep` bytes are left, and all that takes no bytes. Device
    // -1: on each device, and in the host's memory. Waits for running work. Adds the number of destroyed objects to
    // `freed` if it is not null.
    error trim(int device, std::uint64_t keep, std::uint64_t *freed = nullptr) noexcept {
        return device < 0 ? trim(host, contexts_.count(), keep, freed) : trim(device, device + 1, keep, freed);
    }
    // As trim, but does nothing while no more than `keep` bytes are kept.
    error limit(int device, std::uint64_t keep) noexcept;
    error trim_host(std::uint64_t keep, std::uint64_t *freed = nullptr) noexcept {
        return trim(host, host + 1, keep, freed);
    }
    void count(int device, ferry_deferred_info &info) noexcept;

    // Forgets what lives in a context, because it ends with the context.
    void forget(CUcontext context) noexcept;
    // Waits until streams have passed, and destroys everything. Must be called before the destructor, while there is a
    // driver.
    void close() noexcept;

private:
    enum class kind : std::uint8_t {
        array,
        mipmapped_array,
        imported_array, // mipmapped too, but of an import's memory: never reused
        memory,
        host_memory,
        external_memory,
        external_semaphore
    };
    static constexpr int host = -1; // the device of host memory, which lies on none
    struct kept {
        kind what = kind::array;
        bool is_queried = false; // by a thread without the mutex: must stay where it is
        bool is_lost = false;    // its context, or its import, ended during the query
        int device = host;
        std::uint64_t name = 0; // handle or address
        std::uint64_t size = 0; // bytes
        made_array as = {};
        host_block block = {};                   // of host memory
        external_objects::made_image image = {}; // of an imported array
        context_name made_in = {};               // of host memory: null where no context ends it
        CUevent passed = nullptr; // recorded where the program gave the object up; null: ended with its context
        context_name recorded_in = {};
        kept *previous = nullptr, *next = nullptr;
    };
    using lock = std::unique_lock<std::mutex>;

    static bool is_reusable(const kept &one) noexcept { return one.what <= kind::mipmapped_array; }
    static bool is_array(const kept &one) noexcept { return one.what <= kind::imported_array; }
    static std::uint64_t name_of(const void *array) noexcept { return reinterpret_cast<std::uintptr_t>(array); }
    error give_up_array(kind what, const void *array, CUstream stream) noexcept;
    error give_up(const kept &given, CUstream stream) noexcept;
    error record(const kept &given, const context_name &on, CUstream stream, kept *&made) noexcept;
    kept *find(std::uint64_t name) noexcept;
    kept *take_spare(const context_name &context) noexcept;
    void keep_spare(kept &done) noexcept;
    void drop(kept &gone) noexcept;
    void drop_spares(const context_name &context) noexcept;
    bool take_name(const made_array &as, std::uint64_t &name) noexcept;
    bool lives(const context_name &context) noexcept;
    // Returns whether the stream has passed the event. Releases the lock meanwhile.
    bool has_passed(kept &waiting, lock &held) noexcept;
    std::uint64_t bytes_of(int device) const noexcept;
    bool holds_more(int device, std::uint64_t keep) const noexcept;
    // Called without the mutex.
    error destroy(const kept &gone) noexcept;
    error destroy_host(const kept &gone) noexcept;
    error trim(int first, int end, std::uint64_t keep, std::uint64_t *freed) noexcept; // [first, end) of the devices
    void collect(int device, std::uint64_t keep, chain<kept> &passed, lock &held) noexcept;

    const driver_table &cu_;
    device_contexts &contexts_;
    array_surfaces &arrays_;
    external_objects &externals_;
    pinned_memory &pinned_;
    const allocator &memory_;
    std::mutex mutex_;
    chain<kept> given_up_; // in the order in which the program gave them up
    chain<kept> spare_;    // records with an event that can be recorded again
};

} // namespace ferry
