#include "memory/resolve.h"

#include <algorithm>

#include "base/checked.h"
#include "device/capture_mode.h"
#include "driver/formats.h"
#include "driver/result.h"

namespace ferry {

namespace {

error wrong_kind(std::int32_t stated, std::int32_t found) noexcept {
    return refuse_signed(FERRY_ERROR_OTHER_KIND, FERRY_SIDE_NONE, FERRY_FIELD_KIND, numbers::equal, found, stated);
}

error wrong_address(std::uint64_t address) noexcept {
    return refuse_value(FERRY_ERROR_ADDRESS, FERRY_SIDE_NONE, FERRY_FIELD_ADDRESS, address);
}

error check_access(const full_check &full, address_span left) noexcept {
    for (address_span barred; full.access.find_barred(left, full.use, barred); left.first = barred.last + 1) {
        if (full.rows.touches(barred)) return wrong_address(barred.first);
        if (barred.last == left.last) break; // in the gap between two rows
    }
    return {};
}

// Checks that a copy may access all of its rows. The span may include several registrations with pageable memory in
// between; the instance records its registrations. The driver does not know pageable memory, but reports where its own
// memory begins. The system reports which memory the process may access, which detects freed and mistyped addresses.
error check_host_span(const driver_table &cu, const address_span &span, const host_ranges &ranges,
                      const full_check &full, bool may_be_pageable) noexcept {
    const auto refuse_end = [&](std::uint64_t limit) noexcept {
        return refuse(FERRY_ERROR_OUT_OF_BOUNDS, FERRY_SIDE_NONE, FERRY_FIELD_ADDRESS, numbers::end, limit,
                      span.last + 1);
    };
    // The last address can be the highest of all, so no end of the span is computed.
    const auto last_before = [&](std::uint64_t unregistered) noexcept {
        const std::uint64_t next = ranges.next_registration(unregistered);
        return next == UINT64_MAX ? next : next - 1;
    };
    for (std::uint64_t first = span.first;;) {
        host_registration registered;
        const bool is_registered = ranges.find_registration(first, registered);
        const std::uint64_t last =
            std::min(span.last, is_registered ? registered.address + registered.size - 1 : last_before(first));
        if (!is_registered) {
            if (!may_be_pageable) return refuse_end(first);
            address_facts facts;
            if (first != span.first)
                if (error failed = look_up_address(cu, first, address_query::kind_only, facts)) return failed;
            if (facts.kind != memory_kind::pageable) return refuse_end(first);
            if (error failed = look_up_address(cu, last, address_query::everything, facts)) return failed;
            if (facts.kind != memory_kind::pageable) return refuse_end(facts.range_start);
        }
        if (error failed = check_access(full, {first, last})) return failed;
        if (last == span.last) break;
        first = last + 1;
    }
    return full.access.has_guarded_end(span) ? wrong_address(span.last) : ok;
}

error check_device(const ferry_place &place, int device) noexcept {
    if (place.device == FERRY_DEVICE_UNKNOWN || place.device == device) return {};
    return refuse_signed(FERRY_ERROR_DEVICE, FERRY_SIDE_NONE, FERRY_FIELD_DEVICE, numbers::equal, device, place.device);
}

} // namespace

error check_statement(const ferry_place &place, memory_kind kind, int device) noexcept {
    const bool is_device_side = kind == memory_kind::device || kind == memory_kind::managed;
    if (place.kind == FERRY_KIND_PINNED && kind != memory_kind::pinned)
        return wrong_kind(place.kind, is_device_side ? FERRY_KIND_DEVICE : FERRY_KIND_HOST);
    if (place.kind == FERRY_KIND_HOST && kind == memory_kind::device) return wrong_kind(place.kind, FERRY_KIND_DEVICE);
    if (place.kind == FERRY_KIND_DEVICE && kind == memory_kind::pageable) return wrong_address(place.address);
    if (place.kind == FERRY_KIND_DEVICE && !is_device_side) return wrong_kind(place.kind, FERRY_KIND_HOST);
    return place.kind == FERRY_KIND_DEVICE && kind == memory_kind::device ? check_device(place, device) : ok;
}

namespace {

// Resolves a file, whose size may change at any time.
[[gnu::cold]] error resolve_file(const ferry_file &file, const address_span &span, host_use use,
                                 resolved_place &resolved) noexcept {
    resolved.kind = memory_kind::file;
    resolved.device = -1;
    const std::uint32_t needed = use == host_use::read ? FERRY_FILE_READ : FERRY_FILE_WRITE,
                        access = access_of(file.file);
    if (!(access & needed))
        return refuse(FERRY_ERROR_HANDLE, FERRY_SIDE_NONE, FERRY_FIELD_FILE, numbers::opened, needed, access);
    constexpr std::uint64_t max_size = INT64_MAX;
    std::uint64_t size = max_size;
    if (use == host_use::read)
        if (const std::int32_t code = file.file.measure(size)) return to_error(file_failure{code});
    if (span.last < size) return {};
    return refuse(FERRY_ERROR_OUT_OF_BOUNDS, FERRY_SIDE_NONE, FERRY_FIELD_OFFSET, numbers::end, size,
                  add_at_most(span.last, 1));
}

} // namespace

error query_driver(const driver_table &cu, const ferry_place &place, const address_span &span,
                   const resolve_options &options, resolved_place &resolved) noexcept {
    if (place.kind == FERRY_KIND_FILE) return resolve_file(*place.file, span, options.use, resolved);
    const bool all = options.full != nullptr;
    const address_query needed = options.query_everything ? address_query::everything_and_access
                                 : all                    ? address_query::everything
                                 : options.need_reach     ? address_query::kind_and_reach
                                                          : address_query::kind_only;
    address_facts &facts = resolved.facts.emplace();
    resolved.query = needed;
    if (!options.is_unknown)
        if (error failed = look_up_address(cu, span.first, needed, facts)) return failed;
    const bool is_stated = place.kind == FERRY_KIND_DEVICE && place.device != FERRY_DEVICE_UNKNOWN;
    resolved.kind = options.need_reach ? kind_to_context(facts) : facts.kind;
    resolved.device = facts.device;
    if (is_stated && facts.kind == memory_kind::pageable && is_being_captured(cu, options.stream)) {
        resolved.kind = memory_kind::device;
        resolved.device = place.device;
        if (all) facts.kind = memory_kind::device; // it has no range to check
    }
    const bool is_to_context = resolved.kind == memory_kind::device || place.kind == FERRY_KIND_PINNED;
    const memory_kind kind = is_to_context ? resolved.kind : facts.kind;
    if (error failed = check_statement(place, kind, resolved.device)) return failed;
    resolved.range_start = facts.range_start;
    resolved.range_size = all ? facts.range_size : 0;
    if (!all) return {};
    if (facts.kind == memory_kind::pageable) return check_host_span(cu, span, *options.ranges, *options.full, true);
    const bool leaves = facts.range_size && span.last - facts.range_start >= facts.range_size;
    if (facts.kind != memory_kind::pinned || !leaves || !options.ranges->end_of_piece(span.first)) return {};
    resolved.range_size = 0;
    const bool may_be_pageable = !options.needs_registered && place.kind != FERRY_KIND_PINNED;
    return check_host_span(cu, span, *options.ranges, *options.full, may_be_pageable);
}

error find_device_of(const driver_table &cu, int device_count, const ferry_place &place, int &device) noexcept {
    device = -1;
    const bool is_stated = place.kind == FERRY_KIND_DEVICE || place.kind == FERRY_KIND_ARRAY;
    if (is_stated && place.device >= 0) {
        if (place.device < device_count) device = place.device;
        return {};
    }
    if (place.kind != FERRY_KIND_ANY && place.kind != FERRY_KIND_DEVICE) return {};
    address_facts facts;
    if (error failed = look_up_address(cu, place.address, address_query::kind_only, facts)) return failed;
    device = facts.device;
    return {};
}

error resolve_checked(const driver_table &cu, const ferry_place &place, const row_layout &rows, host_use use,
                      const address_span &span, const address_space &mappings, resolve_options options,
                      resolved_place &resolved) noexcept {
    host_access access(mappings);
    const full_check full = {access, use, rows};
    options.full = &full;
    return resolve_place(cu, place, span, options, resolved);
}

error look_up_array(const driver_table &cu, const array_surfaces &made, const ferry_place &place,
                    array_facts &facts) noexcept {
    CUDA_ARRAY3D_DESCRIPTOR desc = {};
    const call_result result = cu.cuArray3DGetDescriptor(&desc, place.array);
    if (result == CUDA_ERROR_INVALID_HANDLE || result == CUDA_ERROR_INVALID_VALUE)
        return replace(to_status(result), refuse(FERRY_ERROR_ADDRESS, FERRY_SIDE_NONE, FERRY_FIELD_ARRAY));
    if (result) return to_error(result);
    const array_elements elements = elements_of(desc);
    facts = {elements.size,
             elements.across * elements.size,
             elements.down,
             elements.deep,
             (desc.Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP)) != 0,
             desc.Height != 0,
             made.device_of(place.array)};
    return {};
}

error resolve_array_device(const ferry_place &place, const array_facts &facts, int &device) noexcept {
    device = place.device;
    if (facts.device < 0) return {};
    device = facts.device;
    return check_device(place, facts.device);
}

} // namespace ferry
