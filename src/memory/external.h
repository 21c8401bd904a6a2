// Memory and semaphores that graphics APIs have exported and this instance has imported. The driver does not track
// which addresses and arrays were created from an import, so each must be freed individually. This class frees them
// together with their import. Arrays can also be freed alone.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>

#include "base/growing.h"
#include "device/context_name.h"
#include "ferry/ferry_external.h"
#include "memory/surfaces.h"

namespace ferry {

class external_objects {
public:
    external_objects(const driver_table &cu, device_contexts &contexts, array_surfaces &arrays,
                     const allocator &memory) noexcept
        : cu_(cu), contexts_(contexts), arrays_(arrays), memories_(memory), images_(memory), semaphores_(memory) {}

    // The device must exist. On success, the driver owns a file descriptor.
    error import_memory(const ferry_external_memory_desc &desc, CUexternalMemory &memory) noexcept;
    error get_address(CUexternalMemory memory, std::uint64_t offset, std::uint64_t size,
                      std::uint64_t &address) noexcept;
    error create_array(CUexternalMemory memory, std::uint64_t offset, const ferry_array_desc &desc,
                       std::uint32_t levels, CUmipmappedArray &array) noexcept;
    // Waits for running work on the device. After an error some parts may be destroyed, and only this function may be
    // called again.
    error release_memory(CUexternalMemory memory) noexcept;
    struct made_memory {
        CUexternalMemory handle;
        context_name made_in;
        int device;
        std::uint64_t size;
        std::uint64_t address; // of the whole memory; 0: a resource without an address
        bool is_ending;        // being released: another import may already have the handle
    };
    bool find(CUexternalMemory memory, made_memory &found) noexcept;
    // Whether the object ends with an import.
    bool is_part(std::uint64_t address) noexcept {
        return is_unlikely(has_memory_.load(std::memory_order_relaxed)) && is_part_of_any(address);
    }
    bool is_part(CUmipmappedArray array) noexcept;

    // The texels of an image. They are destroyed individually or with their import, whichever happens first.
    struct made_image {
        CUmipmappedArray handle;
        CUexternalMemory of;
        context_name made_in;
        int device;
        std::uint64_t size;
        std::uint64_t number; // unique, whereas the driver may reuse the handle
        bool is_claimed;
        bool is_ending;
    };
    // Waits for running work. Returns FERRY_ERROR_INVALID_ARGUMENT for an array that was already freed.
    error release_array(CUmipmappedArray array) noexcept;
    // Claims an array for a deferred free. False if it was already freed.
    bool claim_array(CUmipmappedArray array, made_image &given) noexcept;
    void cancel_claim(const made_image &given) noexcept;
    // Does nothing if the array was destroyed with its import.
    error release_claimed(const made_image &given) noexcept;

    error import_semaphore(const ferry_external_semaphore_desc &desc, CUexternalSemaphore &semaphore) noexcept;
    error signal(CUexternalSemaphore semaphore, std::uint64_t value, CUstream stream) noexcept;
    error wait(CUexternalSemaphore semaphore, std::uint64_t value, std::uint32_t timeout_ms, CUstream stream) noexcept;
    error release_semaphore(CUexternalSemaphore semaphore) noexcept;
    struct made_semaphore {
        CUexternalSemaphore handle;
        context_name made_in;
        int device;
        std::int32_t type;
        bool is_ending;
    };
    bool find(CUexternalSemaphore semaphore, made_semaphore &found) noexcept;

    // Drops the records of everything imported in a context, because it ends with the context.
    void forget(CUcontext context) noexcept;

private:
    bool is_part_of_any(std::uint64_t address) noexcept;
    using lock_guard = std::lock_guard<std::mutex>;
    // No driver call runs with the mutex locked: the call may wait for work that needs a thread which waits for the
    // mutex. So space for a record is reserved before the driver call that creates the object. `in_flight` counts these
    // reservations of all threads.
    template <class Record> struct records {
        explicit records(const allocator &memory) noexcept : all(memory) {}
        growing<Record> all;
        std::size_t in_flight = 0;
    };
    template <class Record> bool reserve(records<Record> &of) noexcept;
    template <class Record> void cancel(records<Record> &of) noexcept;
    template <class Record> void keep(records<Record> &of, const Record &made) noexcept;
    template <class Record, class Handle> bool find(records<Record> &of, Handle handle, Record &found) noexcept;
    // Marks a record as ending; false if not found. Afterwards, end() removes or restores it.
    template <class Record, class Is> bool begin_end(records<Record> &of, const Is &is, Record &found) noexcept;
    template <class Record> void end(records<Record> &of, const Record &ended, bool is_gone) noexcept;

    error enter(int device, context_scope &scope, context_name &made_in) noexcept;
    bool begin_end_of_part(CUexternalMemory of, made_image &found) noexcept;
    error end_image(const made_image &gone) noexcept;
    error end_parts(const made_memory &of) noexcept;
    error enter_stream(CUexternalSemaphore semaphore, CUstream stream, context_scope &scope,
                       made_semaphore &of) noexcept;
    error map_all(const ferry_external_memory_desc &desc, made_memory &made) noexcept;

    const driver_table &cu_;
    device_contexts &contexts_;
    array_surfaces &arrays_;
    std::mutex mutex_;
    std::condition_variable image_ended_; // or was restored
    std::uint64_t last_number_ = 0;
    std::atomic<bool> has_memory_ = false; // set by the first import: before that, frees do not lock the mutex
    records<made_memory> memories_;
    records<made_image> images_;
    records<made_semaphore> semaphores_;
};

} // namespace ferry
