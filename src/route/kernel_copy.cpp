#include "route/kernel_copy.h"

#include "driver/result.h"
#include "route/driver_route.h"

namespace ferry {

namespace {

// A kernel that touches memory it does not reach ends its context: here nobody's word is taken for it.
obstacle find_obstacle(const address_facts &facts, const address_span &span, CUcontext owner, CUcontext context,
                       int context_device, std::uint64_t seen_at) noexcept {
    if (facts.kind == memory_kind::pageable) return obstacle::pageable;
    // Device memory of another context on the same device is not mapped in this one.
    const bool is_anothers = facts.device == context_device && owner && owner != context;
    if (!seen_at || is_anothers)
        return facts.kind == memory_kind::pinned ? obstacle::pageable : obstacle::no_peer_access;
    if (span.first < facts.range_start || span.last - facts.range_start >= facts.range_size) return obstacle::beyond;
    return facts.kind == memory_kind::managed ? obstacle::managed : obstacle::none;
}

} // namespace

failure look_up_for_kernels(const driver_table &cu, const shape_end &end, CUcontext context, int context_device,
                            kernel_view &view) noexcept {
    if (end.array) {
        view.why_not = obstacle::array;
        return {};
    }
    address_facts facts;
    if (failure failed = look_up_address(cu, end.span.first, ask::everything, facts)) return failed;
    CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_CONTEXT, CU_POINTER_ATTRIBUTE_DEVICE_POINTER};
    CUcontext owner = nullptr; // memory of pools belongs to no context
    CUdeviceptr seen_at = 0;
    void *values[] = {&owner, &seen_at};
    if (cu.cuPointerGetAttributes(2, attributes, values, end.span.first)) seen_at = 0;
    view = {find_obstacle(facts, end.span, owner, context, context_device, seen_at), seen_at};
    return {};
}

failure run_kernel_copy(const driver_table &cu, kernel_set &kernels, const shape &shape, const copy_plan &plan,
                        const kernel_views &views, CUstream stream) noexcept {
    const kernel_box box = box_of(shape, views.destination.address, views.source.address);
    if (failure failed = launch_strided(cu, kernels, box, plan.blocks, stream)) return failed;
    return plan.synchronise_after ? wait_for_legacy_stream(cu) : failure{};
}

} // namespace ferry
