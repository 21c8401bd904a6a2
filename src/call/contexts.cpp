#include "call/contexts.h"

#include "driver/result.h"

namespace ferry {

failure named_or_own(ferry_instance &instance, int32_t device, CUcontext named, CUcontext &context) noexcept {
    context = named;
    if (named) return {};
    if (failure failed = check_device(instance, device)) return failed;
    return instance.contexts.get(device, context);
}

failure destroy_context(ferry_instance &instance, CUcontext context) noexcept {
    if (CUresult result = instance.cu.cuCtxDestroy(context)) return to_failure(result);
    instance.staging.forget(context);
    instance.contexts.forget(context);
    instance.kernels.forget(context);
    instance.sharing.forget_context(context);
    instance.deferred.forget(context);
    instance.surfaces.forget(context);
    return {};
}

} // namespace ferry
