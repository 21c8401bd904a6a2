#include "staging/staged_copy.h"

#include "exec/driver_copy.h"

namespace ferry {

namespace {

gpu::box_end box_end_of(const shape_end &end, std::uint64_t address) noexcept {
    return {address, end.row_pitch, end.row_pitch * end.slice_height};
}

staged_box staged_box_of(const shape &shape, const kernel_view &view) noexcept {
    const bool to_device = is_host(shape.source.kind);
    const shape_end &host = to_device ? shape.source : shape.destination;
    const shape_end &device = to_device ? shape.destination : shape.source;
    staged_box box = {};
    box.host = box_end_of(host, host.span.first);
    box.width = shape.width;
    box.height = shape.height;
    box.depth = shape.depth;
    box.to_device = to_device;
    if (device.array)
        box.array = {view.surface, view.form, device.x, device.y, device.z};
    else
        box.device = box_end_of(device, view.address);
    return box;
}

// `progress` is local to this call, which returns when nobody writes to `progress` any more.
error run_and_help(const driver_table &cu, staging_engine &engine, const staged_copy &copy, CUstream stream) noexcept {
    staged_progress progress;
    const error failed = engine.enqueue(copy, stream, &progress);
    const error helped = engine.help(progress);
    if (failed) return failed;
    return helped ? helped : wait_for_legacy_stream(cu);
}

} // namespace

error run_staged_copy(const driver_table &cu, staging_engine &engine, const shape &shape, const copy_plan &plan,
                      const kernel_view &view, const staged_site &site, CUstream stream,
                      staged_progress *progress) noexcept {
    const staged_copy copy = {.box = staged_box_of(shape, view),
                              .device = site.device,
                              .context = site.context,
                              .blocks = plan.blocks,
                              .is_captured = site.is_captured,
                              .caller_helps = plan.synchronise_after,
                              .is_stream_idle = site.is_stream_idle};
    return plan.synchronise_after ? run_and_help(cu, engine, copy, stream) : engine.enqueue(copy, stream, progress);
}

} // namespace ferry
