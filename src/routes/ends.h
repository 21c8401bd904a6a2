// What the driver reports about the two ends of a copy: queried only once, by the code that plans or runs the copy.
#pragma once

#include "exec/driver_copy.h"
#include "memory/resolve.h"
#include "routes/route.h"

namespace ferry {

// Queries everything about a linear end that is not known yet.
inline error know_everything(const driver_table &cu, const shape_end &end, resolved_place &place) noexcept {
    if (place.query == address_query::everything_and_access) return {};
    place.query = address_query::everything_and_access;
    return look_up_address(cu, end.span.first, place.query, place.facts.emplace());
}

// Replaces a kind that the caller stated by the kind that the driver reports: pageable or pinned, device or managed.
// Arrays keep their kind. Queries only what `place` does not contain yet. The copy's context must be current.
inline error know_kind(const driver_table &cu, const shape_end &end, resolved_place &place,
                       memory_kind &kind) noexcept {
    if (end.array || end.file) return {};
    if (error failed = know_everything(cu, end, place)) return failed;
    if (is_host(kind) || place.facts->kind == memory_kind::managed) kind = kind_to_context(*place.facts);
    return {};
}

// Determines the kind of host memory whose other end is on a device other than the context's. The driver's call names
// that device's context for both ends, so access from there is decisive. Without access the memory is pageable, even if
// the copy's own context has access: in that context, driver 580 mistakes such a copy for a copy between the devices
// and kills the process. If only that device has access, the memory is far_pinned. Called only for copies that leave
// their context's device.
[[gnu::cold, gnu::noinline]] error look_up_pool_ends(machine &machine, int context_device, shape &shape) noexcept;

// Returns FERRY_ERROR_WOULD_BLOCK if the context for `device` does not exist yet, and the caller must not wait until it
// is created.
inline error require_context(const device_contexts &contexts, const copy_preferences &wanted, int device) noexcept {
    return wanted.no_wait && !contexts.exists(device) ? refuse_route(obstacle::not_prepared) : ok;
}
// The same for the devices of both ends.
inline error require_contexts(const device_contexts &contexts, const copy_preferences &wanted,
                              const shape &shape) noexcept {
    for (const shape_end *const end : {&shape.source, &shape.destination})
        if (end->device >= 0)
            if (error failed = require_context(contexts, wanted, end->device)) return failed;
    return {};
}

// Finds the context of each end. An end on the device of the copy's context has that context. Host memory has the
// context of the other end.
error find_contexts(machine &machine, const shape &shape, int context_device, end_contexts &contexts) noexcept;

// Whether the calling process may read all of the memory. With full checks, this has already been tested.
bool is_readable(const machine &machine, const address_span &span) noexcept;

// Returns the measured rates of copies between the copy's two devices. All 0 within one device or the host.
pair_rates rates_between(const machine &machine, const shape &shape, int context_device) noexcept;

} // namespace ferry
