#include "staging/staged_copy.h"

#include "exec/driver_copy.h"

namespace ferry {

namespace {

gpu::box_end box_end_of(const shape_end &end, std::uint64_t address) noexcept {
    return {address, end.row_pitch, end.row_pitch * end.slice_height};
}

staged_box staged_box_of(const shape &shape, const kernel_view &view, bool by_copies) noexcept {
    const bool to_device = is_host(shape.source.kind);
    const shape_end &host = to_device ? shape.source : shape.destination;
    const shape_end &device = to_device ? shape.destination : shape.source;
    staged_box box = {};
    box.host = box_end_of(host, host.span.first);
    box.width = shape.width;
    box.height = shape.height;
    box.depth = shape.depth;
    box.to_device = to_device;
    box.by_copies = by_copies;
    if (device.array)
        box.array = {view.surface, view.form, device.x, device.y, device.z};
    else
        box.device = box_end_of(device, view.address);
    return box;
}

// Returns when no thread writes to `progress` any more.
error run_and_help(staging_engine &engine, const staged_copy &copy, CUstream stream,
                   staged_progress &progress) noexcept {
    const error failed = engine.enqueue(copy, stream, &progress);
    const error helped = engine.help(progress);
    return failed ? failed : helped;
}

} // namespace

error run_staged_copy(const driver_table &cu, staging_engine &engine, const shape &shape, const copy_plan &plan,
                      const kernel_view &view, const staged_site &site, CUstream stream,
                      staged_progress *progress) noexcept {
    const staged_copy copy = {.box = staged_box_of(shape, view, plan.by_copies),
                              .device = site.device,
                              .context = site.context,
                              .blocks = plan.blocks,
                              .is_captured = site.is_captured,
                              .caller_helps = plan.synchronise_after || plan.wait_in_the_call,
                              .is_stream_idle = site.is_stream_idle,
                              .must_start_soon = site.must_start_soon,
                              .device_end = is_host(shape.source.kind) ? &shape.destination : &shape.source,
                              .helpers = site.helpers,
                              .helper_count = plan.by_copies ? 0 : site.helper_count,
                              .targets = site.targets,
                              .target_count = site.target_count};
    if (!copy.caller_helps) return engine.enqueue(copy, stream, progress);
    staged_progress of_call;
    if (error failed = run_and_help(engine, copy, stream, progress ? *progress : of_call)) return failed;
    return plan.synchronise_after ? wait_for_legacy_stream(cu) : ok;
}

} // namespace ferry
