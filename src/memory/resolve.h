// From a place as the caller describes it to a place whose memory is known.
#pragma once

#include <optional>

#include "memory/address.h"
#include "memory/host_ranges.h"

namespace ferry {

struct array_facts {
    std::uint32_t element_size; // 0: a format without elements, whose extent is not known in bytes; or no array
    std::uint64_t width;        // bytes
    std::uint64_t height;       // rows
    std::uint64_t depth;        // slices or layers
    bool is_layered;            // layers or faces, of which a copy sees slices; filled for every array
    bool has_rows;              // not so 1D arrays and layers of them; likewise
};

// Filled by resolve_place and look_up_array.
struct resolved_place {
    memory_kind kind;
    int device;                // -1: host memory, or not known
    std::uint64_t range_start; // read only if there is a size
    std::uint64_t range_size;  // 0: not known
    array_facts array;         // of an array; its extent is read only if there is an element size
    // What the driver answered of linear memory, and how much it was asked: nothing where the caller's word was enough.
    ask asked = ask::nothing;
    std::optional<address_facts> facts = {};
};

struct resolve_options {
    const host_ranges *ranges; // that a copy may cross
    bool full_checks = false;
    bool need_host_kind = false;   // tell pageable host memory from pinned
    bool need_reach = false;       // and what is pageable to the current context alone, see kind_to_context
    bool ask_everything = false;   // what kernels need to know too, where the driver is asked at all
    bool needs_registered = false; // all of it, if it begins in registered memory
    // What its capture has allocated is unknown to the driver: there the caller's word counts.
    CUstream stream = nullptr;
};

// The bytes that a copy touches at a linear place: the addresses of the first and the last one.
struct address_span {
    std::uint64_t first;
    std::uint64_t last;
};

// Whether what the driver told of a linear place fits what the caller stated.
failure check_statement(const ferry_place &place, memory_kind kind, int device) noexcept;

// Asks the driver; part of resolve_place.
[[gnu::noinline]] failure ask_driver(const driver_table &cu, const ferry_place &place, const address_span &span,
                                     const resolve_options &options, resolved_place &resolved) noexcept;

// The kind must be a known one and the device in range, as lay_out of copy/shape.h checks. `span` is that of a
// linear place.
inline failure resolve_place(const driver_table &cu, const ferry_place &place, const address_span &span,
                             const resolve_options &options, resolved_place &resolved) noexcept {
    resolved.range_size = 0;
    resolved.array.element_size = 0;
    const bool is_array = place.kind == FERRY_KIND_ARRAY, is_host = place.kind == FERRY_KIND_HOST;
    const bool stated =
        is_host ? !options.need_host_kind : place.kind == FERRY_KIND_DEVICE && place.device != FERRY_DEVICE_UNKNOWN;
    if (!is_array && !(stated && !options.full_checks)) return ask_driver(cu, place, span, options, resolved);
    resolved.kind = is_array ? memory_kind::array : is_host ? memory_kind::host : memory_kind::device;
    resolved.device = is_host ? -1 : place.device;
    return {};
}

// What an array place is made of. Unlike addresses, arrays can be asked about only within a context.
[[gnu::noinline]] failure look_up_array(const driver_table &cu, const ferry_place &place, array_facts &facts) noexcept;

} // namespace ferry
