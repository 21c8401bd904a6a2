#include "memory/resolve.h"

#include "driver/formats.h"
#include "driver/result.h"

namespace ferry {

namespace {

constexpr failure wrong_kind = {FERRY_ERROR_KIND, FERRY_SIDE_NONE, FERRY_FIELD_KIND};
constexpr failure wrong_address = {FERRY_ERROR_ADDRESS, FERRY_SIDE_NONE, FERRY_FIELD_ADDRESS};

// Whether the driver's answer fits what the caller stated.
failure compare(const ferry_place &place, const address_facts &facts) noexcept {
    const bool is_device_side = facts.kind == memory_kind::device || facts.kind == memory_kind::managed;
    if (place.kind == FERRY_KIND_HOST && facts.kind == memory_kind::device) return wrong_kind;
    if (place.kind == FERRY_KIND_DEVICE && facts.kind == memory_kind::pageable) return wrong_address;
    if (place.kind == FERRY_KIND_DEVICE && !is_device_side) return wrong_kind;
    if (place.kind == FERRY_KIND_DEVICE && facts.kind == memory_kind::device && place.device != FERRY_DEVICE_UNKNOWN &&
        place.device != facts.device)
        return refuse(FERRY_ERROR_DEVICE, FERRY_SIDE_NONE, FERRY_FIELD_DEVICE, static_cast<std::uint64_t>(facts.device),
                      static_cast<std::uint64_t>(place.device));
    return {};
}

// The driver knows nothing of pageable memory, but it knows where memory of its own begins, and the system knows what
// the process may read: a freed or mistyped address is told from host memory by that.
failure check_pageable_span(const driver_table &cu, const address_span &span) noexcept {
    address_facts last;
    if (failure failed = look_up_address(cu, span.last, ask::ranges_too, last)) return failed;
    if (last.kind != memory_kind::pageable)
        return refuse(FERRY_ERROR_OUT_OF_BOUNDS, FERRY_SIDE_NONE, FERRY_FIELD_ADDRESS, last.range_start, span.last + 1);
    return host_range_is_readable(span.first, span.last) ? failure{} : wrong_address;
}

} // namespace

failure ask_driver(const driver_table &cu, const ferry_place &place, const address_span &span, bool full_checks,
                   resolved_place &resolved) noexcept {
    address_facts facts;
    const std::uint64_t address = full_checks ? span.first : place.address;
    if (failure failed = look_up_address(cu, address, full_checks ? ask::ranges_too : ask::kind_only, facts))
        return failed;
    if (failure failed = compare(place, facts)) return failed;
    if (full_checks && facts.kind == memory_kind::pageable)
        if (failure failed = check_pageable_span(cu, span)) return failed;
    resolved.kind = facts.kind;
    resolved.device = facts.device;
    resolved.range_start = facts.range_start;
    resolved.range_size = facts.range_size;
    return {};
}

failure look_up_array(const driver_table &cu, const ferry_place &place, array_facts &facts) noexcept {
    CUDA_ARRAY3D_DESCRIPTOR desc = {};
    const CUresult result = cu.cuArray3DGetDescriptor(&desc, place.array);
    if (result == CUDA_ERROR_INVALID_HANDLE || result == CUDA_ERROR_INVALID_VALUE)
        return refuse(FERRY_ERROR_ADDRESS, FERRY_SIDE_NONE, FERRY_FIELD_ARRAY);
    if (result) return to_failure(result);
    const array_elements elements = elements_of(desc);
    facts = {elements.size,
             elements.across * elements.size,
             elements.down,
             elements.deep,
             (desc.Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP)) != 0,
             desc.Height != 0};
    return {};
}

} // namespace ferry
