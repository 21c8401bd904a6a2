#include "routes/devices_at_work.h"

#include <bit>

#include "device/context_status.h"
#include "device/stream_order.h"

namespace ferry {

std::uint64_t devices_at_work(machine &machine, CUcontext context, CUstream stream) noexcept {
    stream_key user = {};
    int device = 0;
    if (machine.lanes.empty() || name_stream(machine.cu, context, stream, user) ||
        machine.contexts.device_of_current(context, device))
        return 0;
    return machine.lanes.devices_at_work(user, device);
}

status_code status_of_devices(machine &machine, std::uint64_t devices) noexcept {
    for (; devices != 0; devices &= devices - 1) {
        CUcontext context = nullptr;
        if (!machine.contexts.is_in_use(std::countr_zero(devices), context)) continue;
        const status_code status = context_status(machine.cu, context);
        if (means_dead_context(status)) return status;
    }
    return FERRY_SUCCESS;
}

status_code status_of_contexts(machine &machine, const context_name *contexts, std::uint32_t count) noexcept {
    for (const context_name *one = contexts; one != contexts + count; ++one) {
        const status_code status = may_live(machine.cu, *one) ? context_status(machine.cu, one->handle) : status_code();
        if (means_dead_context(status)) return status;
    }
    return FERRY_SUCCESS;
}

error wait_for_devices(machine &machine, CUcontext context, CUstream stream) noexcept {
    return wait_for_devices(machine, devices_at_work(machine, context, stream));
}

error wait_for_devices(machine &machine, std::uint64_t devices) noexcept {
    if (error failed = wait_for_legacy_stream(machine.cu)) return failed;
    return {.status = status_of_devices(machine, devices)};
}

} // namespace ferry
