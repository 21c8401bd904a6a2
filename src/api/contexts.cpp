// The C functions for contexts.
#include "driver/result.h"
#include "submit/instance.h"
#include "submit/note_error.h"

using namespace ferry;

namespace {

// Returns the given context, or if it is null, the context that ferry uses for the device.
error named_or_own(ferry_instance &instance, int32_t device, CUcontext named, CUcontext &context) noexcept {
    context = named;
    if (named) return {};
    if (error failed = check_device(instance, device)) return failed;
    return instance.contexts.get(device, context);
}

// Destroys the context and drops everything that the instance has recorded about it.
error destroy_context(ferry_instance &instance, CUcontext context) noexcept {
    instance.trace.retire(context);
    instance.links.retire(context);
    if (call_result result = instance.cu.cuCtxDestroy(context)) return to_error(result);
    instance.staging.forget(context);
    instance.lanes.forget(context);
    instance.links.forget(context);
    instance.contexts.forget(context);
    instance.kernels.forget(context);
    instance.sharing.memory.forget_context(context);
    instance.sharing.events.forget_context(context);
    instance.deferred.forget(context);
    instance.externals.forget(context);
    instance.surfaces.forget(context);
    return {};
}

} // namespace

extern "C" {

int32_t ferry_context_retain_primary(ferry_instance *instance, int32_t device, CUctx_st **context,
                                     ferry_error_info *details) {
    if (context) *context = nullptr;
    if (!instance || !context) return report_null(details, instance, context);
    if (error failed = check_device(*instance, device)) return report(details, failed);
    if (call_result result = instance->cu.cuDevicePrimaryCtxRetain(context, instance->devices[device].handle))
        return report(details, to_error(result));
    instance->contexts.add_reference(device);
    return report(details, ok);
}

int32_t ferry_context_release_primary(ferry_instance *instance, int32_t device, ferry_error_info *details) {
    if (!instance) return report_null(details, instance);
    if (error failed = check_device(*instance, device)) return report(details, failed);
    // The driver would release the instance's own reference.
    if (!instance->contexts.take_reference(device))
        return report(details, refuse_value(FERRY_ERROR_NO_CONTEXT, FERRY_SIDE_NONE, FERRY_FIELD_DEVICE,
                                            static_cast<std::uint64_t>(device)));
    call_result result;
    instance->trace.release_context(
        device, [&] { result = instance->cu.cuDevicePrimaryCtxRelease(instance->devices[device].handle); });
    if (result) instance->contexts.add_reference(device);
    return report(details, to_error(result));
}

int32_t ferry_context_create(ferry_instance *instance, int32_t device, uint32_t flags, CUctx_st **context,
                             ferry_error_info *details) {
    if (context) *context = nullptr;
    if (!instance || !context) return report_null(details, instance, context);
    if (error failed = check_device(*instance, device)) return report(details, failed);
    return report(details, create_context(instance->cu, instance->devices[device].handle, flags, *context));
}

int32_t ferry_context_destroy(ferry_instance *instance, CUctx_st *context, ferry_error_info *details) {
    if (!instance) return report_null(details, instance);
    if (!context) return report_null_field(details, FERRY_FIELD_CONTEXT);
    return report(details, about(destroy_context(*instance, context), FERRY_FIELD_CONTEXT, number(context)));
}

int32_t ferry_context_adopt(ferry_instance *instance, int32_t device, CUctx_st *context, ferry_error_info *details) {
    if (!instance) return report_null(details, instance);
    if (instance->fork_mark.is_in_child()) return report(details, in_child); // the mutex may be locked there
    if (context) {
        if (error failed = instance->contexts.device_of(context, device))
            return report(details, about(failed, FERRY_FIELD_CONTEXT, number(context)));
    } else if (error failed = check_device(*instance, device)) {
        return report(details, failed);
    }
    instance->contexts.adopt(device, context);
    return report(details, ok);
}

int32_t ferry_context_push(ferry_instance *instance, int32_t device, CUctx_st *context, ferry_error_info *details) {
    if (!instance) return report_null(details, instance);
    CUcontext wanted = nullptr;
    if (error failed = named_or_own(*instance, device, context, wanted)) return report(details, failed);
    return report(details, about(to_error(instance->cu.cuCtxPushCurrent(wanted)), FERRY_FIELD_CONTEXT, number(wanted)));
}

int32_t ferry_context_pop(ferry_instance *instance, CUctx_st **context, ferry_error_info *details) {
    if (context) *context = nullptr;
    if (!instance) return report_null(details, instance);
    CUcontext popped = nullptr;
    const call_result result = instance->cu.cuCtxPopCurrent(&popped);
    if (context) *context = popped;
    return report(details,
                  {.status = result == CUDA_ERROR_INVALID_CONTEXT ? status_code(FERRY_ERROR_NO_CONTEXT, result.call)
                                                                  : to_status(result)});
}

int32_t ferry_context_get_current(ferry_instance *instance, CUctx_st **context, ferry_error_info *details) {
    if (context) *context = nullptr;
    if (!instance || !context) return report_null(details, instance, context);
    return report(details, to_error(instance->cu.cuCtxGetCurrent(context)));
}

int32_t ferry_context_synchronize(ferry_instance *instance, int32_t device, CUctx_st *context,
                                  ferry_error_info *details) {
    if (!instance) return report_null(details, instance);
    CUcontext wanted = nullptr;
    if (error failed = named_or_own(*instance, device, context, wanted)) return report(details, failed);
    context_scope scope(instance->cu);
    error failed = scope.enter(wanted);
    if (!failed) failed = instance->contexts.synchronise_current();
    return report(details, about(noted(*instance, failed), FERRY_FIELD_CONTEXT, number(wanted)));
}

} // extern "C"
