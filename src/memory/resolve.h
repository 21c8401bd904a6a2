// Resolves a place of a copy descriptor to the kind of memory at that place.
#pragma once

#include <optional>

#include "base/address_span.h"
#include "memory/address.h"
#include "memory/host_ranges.h"
#include "memory/surfaces.h"
#include "system/file.h"
#include "system/host_access.h"

namespace ferry {

struct array_facts {
    std::uint32_t element_size; // 0: not an array, or a format without elements, whose extent in bytes is unknown
    std::uint64_t width;        // bytes
    std::uint64_t height;       // rows
    std::uint64_t depth;        // slices or layers
    bool is_layered;            // has layers or faces, which copies treat as slices; set for every array
    bool has_rows;              // false for 1D arrays and for layered 1D arrays; set for every array
    int device = -1;            // -1: unknown, because ferry did not create the array
};

// Filled by resolve_place and look_up_array.
struct resolved_place {
    memory_kind kind;
    int device;                // -1: host memory, or unknown
    std::uint64_t range_start; // valid if range_size is not 0
    std::uint64_t range_size;  // 0: unknown
    array_facts array;         // for arrays; the extent is valid if element_size is not 0
    // The driver's report for linear memory, and the extent of the query: `nothing` if the caller's statement was
    // sufficient.
    address_query query = address_query::nothing;
    std::optional<address_facts> facts = {};
};

// What full checks need to know about one end of a copy.
struct full_check {
    host_access &access;
    host_use use;
    row_layout rows;
};

struct resolve_options {
    const host_ranges *ranges; // registrations, whose borders a copy may cross
    const full_check *full = nullptr;
    host_use use = host_use::read;
    bool need_host_kind = false;   // distinguish pageable from pinned host memory
    bool need_reach = false;       // also detect memory that is pageable only to this context, see kind_to_context
    bool query_everything = false; // if the driver is queried, also query what kernels need
    bool is_unknown = false;       // the driver is known not to know the address
    bool needs_registered = false; // a span that begins in registered memory must be registered throughout
    // The driver does not know memory that was allocated during a capture of this stream. For such memory, the caller's
    // statement is trusted.
    CUstream stream = nullptr;
};

// Checks the caller's statement about a linear place against the driver's report.
[[gnu::hot]] error check_statement(const ferry_place &place, memory_kind kind, int device) noexcept;

// The part of resolve_place that queries the driver.
[[gnu::hot, gnu::noinline]] error query_driver(const driver_table &cu, const ferry_place &place,
                                               const address_span &span, const resolve_options &options,
                                               resolved_place &resolved) noexcept;

// Resolves a place. Its kind must be valid and its device in range, which validate_fields of copy/shape.h checks.
// `span` is read only for linear places.
inline error resolve_place(const driver_table &cu, const ferry_place &place, const address_span &span,
                           const resolve_options &options, resolved_place &resolved) noexcept {
    resolved.range_size = 0;
    resolved.array.element_size = 0;
    const bool is_array = place.kind == FERRY_KIND_ARRAY, says_pinned = place.kind == FERRY_KIND_PINNED;
    const bool is_host = says_pinned || place.kind == FERRY_KIND_HOST;
    const bool stated = is_host ? says_pinned || !options.need_host_kind
                                : place.kind == FERRY_KIND_DEVICE && place.device != FERRY_DEVICE_UNKNOWN;
    if (!is_array && !(stated && !options.full)) return query_driver(cu, place, span, options, resolved);
    resolved.kind = is_array      ? memory_kind::array
                    : says_pinned ? memory_kind::pinned
                    : is_host     ? memory_kind::host
                                  : memory_kind::device;
    resolved.device = is_host ? -1 : place.device;
    return {};
}

// Finds the device of a place, for a thread without a current context: the stated device, or else the device that the
// driver reports. -1: none. The place may be invalid.
[[gnu::cold, gnu::noinline]] error find_device_of(const driver_table &cu, int device_count, const ferry_place &place,
                                                  int &device) noexcept;

// Same as resolve_place, with full checks.
[[gnu::noinline]] error resolve_checked(const driver_table &cu, const ferry_place &place, const row_layout &rows,
                                        host_use use, const address_span &span, const address_space &mappings,
                                        resolve_options options, resolved_place &resolved) noexcept;

// Looks up the format, extent and device of an array. Unlike addresses, arrays can be queried only while a context is
// current. The driver has no query for the device, so only arrays that ferry created have a known device.
[[gnu::noinline]] error look_up_array(const driver_table &cu, const array_surfaces &made, const ferry_place &place,
                                      array_facts &facts) noexcept;

// Checks the caller's statement about the device of an array, and finds the device: -1 if it is unknown.
error resolve_array_device(const ferry_place &place, const array_facts &facts, int &device) noexcept;

} // namespace ferry
