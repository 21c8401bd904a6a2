// Everything that an open instance owns.
#pragma once

#include <type_traits>

#include "base/spare_records.h"
#include "routes/machine.h"
#include "submit/counters.h"
#include "submit/ticket.h"
#include "submit/trace.h"

namespace ferry {
struct batch_request; // batch/request.h
}

struct ferry_instance : ferry::machine {
    ferry::tracer trace{cu, contexts, allocator};
    ferry::spare_records<ferry::batch_request> requests{allocator};
    ferry::ticket_pool tickets{allocator};
    ferry::route_counters counters;
};

namespace ferry {

// An address or a handle, as the value of an error.
inline std::uint64_t number(const void *address) noexcept { return reinterpret_cast<std::uintptr_t>(address); }
// A handle or an address that must not be null.
inline error refuse_null(std::int32_t field) noexcept {
    return refuse_value(FERRY_ERROR_INVALID_ARGUMENT, FERRY_SIDE_NONE, field, 0);
}

// The field of a parameter, by the type that it points to.
template <class Object>
constexpr std::int32_t field_of = std::is_function_v<Object> ? FERRY_FIELD_CALLBACKS
                                  : std::is_const_v<Object>  ? FERRY_FIELD_DESC
                                                             : FERRY_FIELD_RESULT;
template <> inline constexpr std::int32_t field_of<ferry_instance> = FERRY_FIELD_INSTANCE;
template <> inline constexpr std::int32_t field_of<const ferry_instance> = FERRY_FIELD_INSTANCE;
template <> inline constexpr std::int32_t field_of<const ferry_copy_desc> = FERRY_FIELD_COPY;
template <> inline constexpr std::int32_t field_of<const ferry_fill_desc> = FERRY_FIELD_FILL;
template <> inline constexpr std::int32_t field_of<const ferry_piece_list> = FERRY_FIELD_PIECES;
template <> inline constexpr std::int32_t field_of<const ferry_ipc_handle> = FERRY_FIELD_HANDLE;
template <> inline constexpr std::int32_t field_of<const char> = FERRY_FIELD_TEXT;
template <> inline constexpr std::int32_t field_of<CUgraph_st> = FERRY_FIELD_GRAPH;
template <> inline constexpr std::int32_t field_of<CUgraphNode_st> = FERRY_FIELD_NODE;
template <> inline constexpr std::int32_t field_of<CUgraphExec_st> = FERRY_FIELD_EXECUTABLE;

// The error of the first parameter that is null. The n-th byte of `fields` is the field of the n-th parameter, and the
// n-th bit of `given` says whether that parameter is not null.
[[gnu::cold, gnu::noinline]] inline error refuse_first_null(std::uint64_t fields, unsigned given) noexcept {
    for (; given & 1; given >>= 1)
        fields >>= 8;
    return refuse_null(static_cast<std::int32_t>(fields & 0xff));
}
[[gnu::cold, gnu::noinline]] inline std::int32_t report_first_null(ferry_error_info *details, std::uint64_t fields,
                                                                   unsigned given) noexcept {
    return report(details, refuse_first_null(fields, given));
}
template <class... Objects>
inline constexpr std::uint64_t fields_of = [] {
    std::uint64_t fields = 0;
    int shift = 0;
    ((fields |= std::uint64_t{field_of<Objects>} << shift, shift += 8), ...);
    return fields;
}();
template <class... Objects> [[gnu::always_inline]] inline unsigned are_given(Objects *...parameters) noexcept {
    unsigned given = 0;
    int shift = 0;
    ((given |= unsigned{parameters != nullptr} << shift++), ...);
    return given;
}
// The error of the first parameter that is null. The type of each parameter determines its field.
template <class... Objects> [[gnu::always_inline]] inline error null_among(Objects *...parameters) noexcept {
    return refuse_first_null(fields_of<Objects...>, are_given(parameters...));
}
// Reports this error.
template <class... Objects>
[[gnu::always_inline]] inline std::int32_t report_null(ferry_error_info *details, Objects *...parameters) noexcept {
    return report_first_null(details, fields_of<Objects...>, are_given(parameters...));
}
[[gnu::always_inline]] inline std::int32_t report_null_field(ferry_error_info *details, std::int32_t field) noexcept {
    return report_first_null(details, static_cast<std::uint64_t>(field), 0);
}

// A parameter, such as a size, that is 0.
inline error refuse_zero(std::int32_t field) noexcept {
    return refuse(FERRY_ERROR_INVALID_ARGUMENT, FERRY_SIDE_NONE, field, numbers::at_least, 1, 0);
}
// A copy or a fill of no bytes, which a graph cannot contain.
constexpr error empty_node = {
    FERRY_ERROR_INVALID_ARGUMENT, FERRY_SIDE_EXTENT, FERRY_FIELD_WIDTH, numbers::at_least, 1, 0};
// The driver's status in a forked child, for calls that must not reach the driver, or for which the driver does not
// report it.
constexpr std::int32_t no_driver_in_child = to_status(CUDA_ERROR_NOT_INITIALIZED);
constexpr error in_child = {.status = no_driver_in_child};

inline error check_device(const ferry_instance &instance, std::int32_t device,
                          std::int32_t field = FERRY_FIELD_DEVICE) noexcept {
    const int count = instance.limits.device_count;
    if (device >= 0 && device < count) return {};
    return refuse_signed(FERRY_ERROR_DEVICE, FERRY_SIDE_NONE, field, numbers::count, count, device);
}

// For full checks: whether the deferred free of memory is pending. `start` is the start of its allocation.
inline bool is_freed(ferry_instance &instance, std::uint64_t start) noexcept {
    return is_unlikely(instance.deferred.may_hold_any()) && start && instance.deferred.holds(start);
}
inline bool is_freed(ferry_instance &instance, const resolved_place &place) noexcept {
    return place.facts && is_freed(instance, place.facts->range_start);
}
inline error refuse_freed(std::uint64_t address, std::int32_t side) noexcept {
    return refuse_value(FERRY_ERROR_ADDRESS, side, FERRY_FIELD_ADDRESS, address);
}

// Makes the context that ferry uses for `device` current for the scope.
inline error enter_device(ferry_instance &instance, std::int32_t device, context_scope &scope,
                          CUcontext &context) noexcept {
    if (error failed = check_device(instance, device)) return failed;
    if (error failed = instance.contexts.get(device, context)) return failed;
    return scope.enter(context);
}

inline error enter_device(ferry_instance &instance, std::int32_t device, context_scope &scope) noexcept {
    CUcontext context = nullptr;
    return enter_device(instance, device, scope, context);
}

// Makes a context current for work that can run in any context: the stream's context, or for the default streams the
// current context, or else the context of device 0.
inline error enter_any(ferry_instance &instance, CUstream stream, context_scope &scope) noexcept {
    context_choice choice;
    if (error failed = choose_context(instance.cu, instance.contexts, stream, -1, choice)) return failed;
    return scope.enter(choice.wanted, choice.current);
}

} // namespace ferry
