// Everything that an open instance owns.
#pragma once

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

constexpr error null_argument = {.status = FERRY_ERROR_INVALID_ARGUMENT};
// An address or a handle, as the value of an error.
inline std::uint64_t number(const void *address) noexcept { return reinterpret_cast<std::uintptr_t>(address); }
// A handle or an address that must not be null.
inline error refuse_null(std::int32_t field) noexcept {
    return refuse_value(FERRY_ERROR_INVALID_ARGUMENT, FERRY_SIDE_NONE, field, 0);
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
