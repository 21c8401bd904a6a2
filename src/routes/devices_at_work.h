// The other devices that have a part in a stream's work. If the context of one dies, the stream passes all the same, and
// bytes are missing.
#pragma once

#include "device/context_name.h"
#include "routes/machine.h"

namespace ferry {

// The devices, as bits, on whose internal streams work is in flight that was called on `stream`, whose context is
// `context`.
std::uint64_t devices_at_work(machine &machine, CUcontext context, CUstream stream) noexcept;
// Once the stream has passed: the status of a context that has died on one of these devices, or success.
std::int32_t status_of_devices(machine &machine, std::uint64_t devices) noexcept;
// Likewise, of these contexts. One that has been destroyed counts as alive: the program may have had no more use for it.
std::int32_t status_of_contexts(machine &machine, const context_name *contexts, std::uint32_t count) noexcept;
// Waits for the legacy stream, and for what these devices have had to do with its work.
error wait_for_devices(machine &machine, CUcontext context, CUstream stream) noexcept;
error wait_for_devices(machine &machine, std::uint64_t devices) noexcept;

} // namespace ferry
