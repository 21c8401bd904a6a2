// Tracks the interprocess events that this instance has created, exported to other processes or imported from them.
#pragma once

#include <mutex>

#include "base/growing.h"
#include "ferry/ferry_ipc.h"
#include "memory/ipc_process.h"

namespace ferry {

class ipc_events {
public:
    ipc_events(const driver_table &cu, ipc_process &process, device_contexts &contexts,
               const allocator &memory) noexcept
        : cu_(cu), process_(process), contexts_(contexts), events_(memory), imported_events_(memory) {}

    // Creates an event in the context of `device`, which must be current. Records the device of an interprocess event,
    // because the driver cannot report it later.
    error create_event(int device, std::uint32_t flags, CUevent &event) noexcept;
    // Destroys an event, shared or not. Rejects an event of another process.
    error destroy_event(CUevent event) noexcept;

    error export_event(CUevent event, ferry_ipc_handle &handle) noexcept;
    error import_event(const ferry_ipc_handle &handle, CUevent &event) noexcept;
    error close_event(CUevent event) noexcept;

    // Drops the records of the events of a context, because they end with the context.
    void forget_context(CUcontext context) noexcept;

private:
    using lock_guard = std::lock_guard<std::mutex>;

    struct known_event {
        CUevent event;
        CUcontext context; // null: unknown
        int device;        // -1: unknown
        ipc_key name;
    };
    struct imported_event {
        CUevent event;
        CUcontext context;   // null: created by this process
        std::uint32_t count; // 1 for events of other processes, because each import creates another event
    };

    error note_event(CUevent event, int device) noexcept;

    const driver_table &cu_;
    ipc_process &process_;
    device_contexts &contexts_;

    std::mutex mutex_; // guards the next two members
    growing<known_event> events_;
    growing<imported_event> imported_events_;
};

} // namespace ferry
