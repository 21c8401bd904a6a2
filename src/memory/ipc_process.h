// This process as one side of sharing with other processes: the checks at the start of every import, the common fields
// of every handle, and the driver calls for both.
#pragma once

#include "device/capture_mode.h"
#include "device/contexts.h"
#include "driver/result.h"
#include "ferry/ferry_ipc.h"
#include "memory/ipc_handle.h"

namespace ferry {

// A random name for a pool or an event that this process has exported.
struct ipc_key {
    std::uint8_t bytes[16];
    bool operator==(const ipc_key &other) const noexcept;
};

class ipc_process {
public:
    ipc_process(const driver_table &cu, const device_facts *devices, device_contexts &contexts) noexcept
        : cu_(cu), devices_(devices), contexts_(contexts) {}

    const process_identity &own() const noexcept { return own_; }
    error describe(const ferry_ipc_handle &handle, ferry_ipc_info &info) const noexcept;

    // Fails in a forked child, which has no driver and may have inherited a locked mutex. Must be called before
    // locking.
    error check_driver() const noexcept;
    // The first step of every import: decodes the handle and checks whether this process can use it. `device` is -1 for
    // a handle without a device.
    error check_handle(const ferry_ipc_handle &handle, bool is_expected(std::int32_t), handle_contents &contents,
                       int &device) const noexcept;
    void begin_handle(std::int32_t kind, int device, handle_contents &contents) const noexcept;
    // Makes a context of `device` current. -1: any context.
    error enter(int device, context_scope &scope, CUcontext &context) noexcept;

private:
    int find_device(const handle_contents &contents) const noexcept;

    const driver_table &cu_;
    const device_facts *devices_;
    device_contexts &contexts_;
    const process_identity own_ = own_process();
};

// Calls an entry point that the driver may lack and that a global-mode capture of any thread would forbid.
template <class Entry, class... Arguments>
status_code call_relaxed(const driver_table &cu, const Entry &entry, Arguments... arguments) noexcept {
    const relaxed_capture_mode relaxed(cu);
    return relaxed.entered() ? call_optional(entry, arguments...) : relaxed.why().status;
}

// Translates the driver's status for an object that cannot be exported.
error export_failure(status_code status, std::int32_t field) noexcept;
// Translates the driver's status for an object that no longer exists.
error import_failure(status_code status) noexcept;

} // namespace ferry
