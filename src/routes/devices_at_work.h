// The other devices that take part in a stream's work. If the context of one of them dies, the stream still completes,
// but bytes are missing.
#pragma once

#include "device/context_name.h"
#include "routes/machine.h"

namespace ferry {

// Returns a bit mask of the devices on whose internal streams work is in flight for `stream`, whose context is
// `context`.
std::uint64_t devices_at_work(machine &machine, CUcontext context, CUstream stream) noexcept;
// Once the work has completed on the stream: returns the status of a context that has died on one of these devices, or
// success.
status_code status_of_devices(machine &machine, std::uint64_t devices) noexcept;
// Same as above, for these contexts. A destroyed context counts as alive: the program may no longer have needed it.
status_code status_of_contexts(machine &machine, const context_name *contexts, std::uint32_t count) noexcept;
// Waits for the legacy stream, and for the part of its work that ran on these devices.
error wait_for_devices(machine &machine, CUcontext context, CUstream stream) noexcept;
error wait_for_devices(machine &machine, std::uint64_t devices) noexcept;

} // namespace ferry
