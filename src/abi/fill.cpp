// The fills: lay out, resolve, check, choose the context, run.
#include <algorithm>
#include <cstring>

#include "abi/instance.h"
#include "copy/fill.h"
#include "driver/result.h"
#include "plan/plan.h"
#include "route/driver_fill.h"
#include "route/driver_route.h"
#include "route/parts.h"

namespace ferry {
namespace {

failure fill(ferry_instance &instance, const ferry_fill_desc &desc, copy_form form, CUstream stream) noexcept {
    fill_shape shape;
    if (failure failed = lay_out_fill(desc, instance.limits, shape)) return failed;
    if (shape.width == 0) return {};
    resolved_place resolved;
    if (failure failed = resolve_place(instance.cu, desc.destination, shape.destination.span,
                                       {.ranges = &instance.pinned.ranges(),
                                        .full_checks = instance.full_checks,
                                        .need_host_kind = true,
                                        .needs_registered = true,
                                        .stream = stream},
                                       resolved))
        return on_side(failed, FERRY_SIDE_DESTINATION);
    if (failure failed = settle_fill(resolved, shape)) return failed;
    const int device = shape.destination.device;
    context_choice choice;
    if (failure failed = choose_context_on(instance.cu, instance.contexts, stream, device, choice)) return failed;
    context_scope scope(instance.cu);
    if (failure failed = scope.enter(choice.wanted, choice.current)) return failed;
    constexpr std::int32_t refused = to_status(CUDA_ERROR_INVALID_VALUE);
    failure result = run_driver_fill(instance.cu, shape, stream);
    if (result.status == refused && shape.destination.kind == memory_kind::pinned)
        result = run_fill_in_parts(instance.cu, instance.pinned.ranges(), shape, result, stream);
    if (result.status == refused && device >= 0 && !is_within_reach(instance.cu, shape.destination.span.first)) {
        int context_device = -1;
        if (failure failed = instance.contexts.device_of_current(choice.wanted, context_device)) return failed;
        if (context_device != device) // the memory is another device's than the stream
            return {FERRY_ERROR_DEVICE, FERRY_SIDE_DESTINATION, FERRY_FIELD_DEVICE,
                    static_cast<std::uint64_t>(context_device), static_cast<std::uint64_t>(device)};
    }
    if (result || form == copy_form::asynchronous) return result;
    return wait_for_legacy_stream(instance.cu);
}

int32_t fill_and_report(ferry_instance *instance, const ferry_fill_desc *desc, copy_form form, CUstream stream,
                        ferry_error_info *error) noexcept {
    if (!instance || !desc) return report(error, null_argument);
    return report(error, fill(*instance, *desc, form, stream));
}

} // namespace
} // namespace ferry

using namespace ferry;

extern "C" {

void ferry_fill_desc_init(ferry_fill_desc *fill, const ferry_place *destination, uint64_t width, uint64_t height,
                          uint64_t depth, const void *pattern, uint32_t pattern_size) {
    if (!fill) return;
    const ferry_place nowhere = {};
    const ferry_place to = destination ? *destination : nowhere; // may lie in *fill
    *fill = {};
    fill->destination = to;
    fill->width = width;
    fill->height = height;
    fill->depth = depth;
    fill->pattern_size = pattern_size;
    if (pattern) std::memcpy(fill->pattern, pattern, std::min<std::size_t>(pattern_size, sizeof fill->pattern));
}

int32_t ferry_fill(ferry_instance *instance, const ferry_fill_desc *fill, ferry_error_info *error) {
    return fill_and_report(instance, fill, copy_form::synchronous, nullptr, error);
}

int32_t ferry_fill_async(ferry_instance *instance, const ferry_fill_desc *fill, CUstream_st *stream,
                         ferry_error_info *error) {
    return fill_and_report(instance, fill, copy_form::asynchronous, stream, error);
}

} // extern "C"
