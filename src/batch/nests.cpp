#include "batch/nests.h"

#include <algorithm>
#include <cstdio>

#include "batch/batch.h"
#include "batch/launches.h"
#include "batch/nest_plans.h"
#include "device/stream_order.h"
#include "exec/driver_copy.h"
#include "exec/kernel_launch.h"
#include "memory/stream_buffer.h"
#include "submit/copy.h"
#include "submit/note_error.h"

namespace ferry {

namespace {

// The boxes that one batch copies, if a nest has more.
constexpr std::size_t boxes_at_once = 4096;

// ---- Running

// The call of the nests that are being copied.
struct nest_call {
    ferry_instance &instance;
    const call_options &options;
    const nest_site &site;
    ferry_ticket *ticket; // may be null
};

// Kernels read lists of a small nest from pinned memory. That took 8 to 31 us more for each MiB that was copied, and a
// copy of the lists in device memory takes about 15 us (H200, driver 580, 2026-11-30).
constexpr std::uint64_t min_bytes_for_device_lists = std::uint64_t{1} << 20;

// Launches the kernel, which reads lists of indices in host memory from a table.
error run_nest_kernel(const nest_call &call, const nest &seen, nest_link link, std::uint64_t skipped,
                      std::uint32_t blocks) noexcept {
    ferry_instance &instance = call.instance;
    const CUstream stream = call.site.stream;
    const std::uint64_t bytes = bytes_of_host_indices(seen);
    if (!bytes) return launch_nest(instance.cu, instance.kernels, seen, link, skipped, blocks, stream);
    const bool no_wait = call.options.preferences.no_wait;
    void *table = nullptr;
    if (error failed = instance.tables.allocate(bytes, table, !no_wait))
        return failed.status == FERRY_ERROR_LIMIT && no_wait ? refuse_route(obstacle::busy) : failed;
    nest moved = seen;
    stream_buffer on_device(instance.cu, instance.buffers, instance.device_memory[call.site.device], stream);
    const auto launch = [&]() noexcept -> error {
        if (!no_wait && instance.buffers.are_supported() && seen.bytes() >= min_bytes_for_device_lists)
            if (error failed = on_device.allocate(call.site.device, bytes)) return failed;
        const auto address = reinterpret_cast<std::uintptr_t>(table);
        if (const CUdeviceptr copied = on_device.address()) {
            move_indices(moved, static_cast<std::uint64_t *>(table), copied);
            const line_end from = {memory_kind::pinned, address}, to = {memory_kind::device, copied};
            if (call_result result = copy_line(instance.cu, from, to, bytes, copy_form::asynchronous, stream))
                return to_error(result);
        } else {
            address_facts facts;
            if (error failed = look_up_address(instance.cu, address, address_query::everything, facts)) return failed;
            move_indices(moved, static_cast<std::uint64_t *>(table), facts.device_address);
        }
        return launch_nest(instance.cu, instance.kernels, moved, link, skipped, blocks, stream);
    };
    error failed = launch();
    for (const error &passed : {on_device.free(), free_table(instance, stream, table)})
        if (!failed) failed = passed;
    return failed;
}

// Runs the boxes of a nest as batches. The places give the kinds of both ends.
error run_boxes(const nest_call &call, const nest &of, const nest_boxes &cut, const ferry_place &destination,
                const ferry_place &source) noexcept {
    const bool is_file = destination.kind == FERRY_KIND_FILE || source.kind == FERRY_KIND_FILE;
    const nest_site &site = call.site;
    growing<ferry_copy_desc> boxes(call.instance.allocator);
    call_options options = call.options;
    options.checks_overlap = false; // the nest was checked
    if (site.form == copy_form::synchronous) options.preferences.follow_the_stream();
    const auto run = [&]() noexcept {
        std::uint64_t ignored = no_index;
        const batch_input batch = {.copies = boxes.begin(), .count = boxes.size(), .options = options};
        const error failed =
            run_batch(call.instance, batch, site.form, site.stream, is_file ? call.ticket : nullptr, ignored);
        boxes.clear();
        if (call.ticket) call.ticket->item = FERRY_ITEM_NONE; // the program knows no boxes
        return failed;
    };
    const auto add = [&](const ferry_copy_desc &box) noexcept -> error {
        if (!boxes.append(box)) return no_memory;
        return boxes.size() == boxes_at_once ? run() : ok;
    };
    if (error failed = for_each_box(of, cut, destination, source, add)) return failed;
    return boxes.size() ? run() : ok;
}

error run_as_boxes(const nest_call &call, const nest_plan &plan) noexcept {
    return run_boxes(call, plan.given.moved, plan.boxes, plan.given.destination, plan.given.source);
}

// Copies one part through the buffer.
error run_halves(const nest_call &call, const nest_plan &plan, const nest_halves &halves, CUdeviceptr buffer) noexcept {
    nest outer = halves.outer, inner = halves.inner;
    ferry_place place = {};
    place.kind = FERRY_KIND_DEVICE;
    place.device = call.site.device;
    const nest_boxes cut = cut_into_boxes(outer, call.instance.limits.max_pitch);
    const auto change_layout = [&]() noexcept { return run_nest_kernel(call, inner, nest_link::none, 0, plan.blocks); };
    if (plan.packs_source) {
        outer.destination += buffer;
        inner.source += buffer;
        const error failed = run_boxes(call, outer, cut, place, plan.given.source);
        return failed ? failed : change_layout();
    }
    inner.destination += buffer;
    outer.source += buffer;
    const error failed = change_layout();
    return failed ? failed : run_boxes(call, outer, cut, plan.given.destination, place);
}

// The parts follow each other on the stream, and so do the allocation and the end of the buffer. Without memory for it,
// the boxes are copied directly. Traces and counters have only the copies of boxes, which copy all bytes.
[[gnu::noinline]] error run_through_buffer(const nest_call &call, const nest_plan &plan) noexcept {
    ferry_instance &instance = call.instance;
    const int device = call.site.device;
    stream_buffer buffer(instance.cu, instance.buffers, instance.device_memory[device], call.site.stream);
    if (error failed = buffer.allocate(device, plan.packing.buffer_bytes())) return failed;
    if (!buffer.address()) return run_as_boxes(call, plan);
    error failed = plan.packing.for_each(
        [&](const nest_halves &halves) noexcept { return run_halves(call, plan, halves, buffer.address()); });
    const error freed = buffer.free();
    if (!failed) failed = freed;
    if (call.site.form == copy_form::asynchronous) return failed;
    const error passed = wait_for_legacy_stream(instance.cu); // also for work that was enqueued before a failure
    return failed ? failed : passed;
}

error run_by_kernel(const nest_call &call, const nest_plan &plan) noexcept {
    ferry_instance &instance = call.instance;
    const nest_site &site = call.site;
    const std::uint64_t begin_ns = site.form == copy_form::synchronous ? clock_ns() : 0;
    if (error failed = run_nest_kernel(call, plan.seen, plan.link, plan.skipped, plan.blocks)) return failed;
    if (instance.trace) instance.trace.note(route_kind::kernel, site.context);
    error passed;
    if (site.form == copy_form::synchronous) passed = wait_for_legacy_stream(instance.cu);
    instance.counters.add(site.device, route_kind::kernel, site.stream, 1, plan.given.moved.bytes(),
                          begin_ns ? clock_ns() - begin_ns : 0);
    return passed;
}

error run(const nest_call &call, const nest_plan &plan) noexcept {
    switch (plan.way) {
    case nest_way::kernel:
        return run_by_kernel(call, plan);
    case nest_way::buffer:
        return run_through_buffer(call, plan);
    default:
        return run_as_boxes(call, plan);
    }
}

} // namespace

error run_nests(ferry_instance &instance, const nest_input &input, copy_form form, CUstream stream,
                ferry_ticket *ticket, error_item &bad) noexcept {
    bad = {};
    if (input.count == 0) return {};
    nest_site site = {.stream = stream, .form = form};
    context_scope scope(instance.cu);
    if (error failed = enter_context_of_nests(instance, input, scope, site)) return failed;
    nest_plan plan;
    int bad_axis = no_axis;
    const auto plan_one = [&](std::uint64_t i) noexcept {
        plan = {};
        const error failed = plan_nest(instance, input.nests[i], input.options, site, plan, bad_axis);
        if (failed) bad = item_of_nest(i, bad_axis);
        return failed;
    };
    // All nests are checked before any is copied.
    for (std::uint64_t i = 0; i < input.count; ++i) {
        if (error failed = plan_one(i)) return failed;
        if (!ticket && form == copy_form::asynchronous && !plan.is_empty() && plan.has_file())
            return refuse_value(FERRY_ERROR_INVALID_ARGUMENT, FERRY_SIDE_NONE, FERRY_FIELD_TICKET, 0);
    }
    if (error failed = begin_ticket(ticket, stream)) return failed;
    const nest_call call = {instance, input.options, site, ticket};
    for (std::uint64_t i = 0; i < input.count; ++i) {
        if (input.count > 1)
            if (error failed = plan_one(i)) return failed;
        if (plan.is_empty()) continue;
        if (error failed = noted(instance, run(call, plan))) {
            bad = item_of_nest(i, no_axis);
            return failed;
        }
    }
    return end_ticket(ticket, stream);
}

namespace {

// All boxes take the route of the first box.
error explain_boxes(ferry_instance &instance, const nest_plan &plan, const copy_preferences &wanted, CUstream stream,
                    ferry_explanation &found) noexcept {
    nest first = plan.given.moved;
    for (int i = 0; i < first.axes; ++i)
        if (!plan.boxes.is_inside(i)) first.axis[i].count = 1;
    const auto explain = [&](const ferry_copy_desc &box) noexcept {
        return explain_copy(instance, box, wanted, copy_form::asynchronous, stream, found);
    };
    if (error failed = for_each_box(first, plan.boxes, plan.given.destination, plan.given.source, explain))
        return failed;
    found.calls = static_cast<std::uint32_t>(std::min<std::uint64_t>(plan.boxes.count, UINT32_MAX));
    if (plan.boxes.count > 1) {
        found.kernel_obstacle = static_cast<std::int32_t>(plan.why_no_kernel);
        found.kernel_ns = plan.kernel_ns;
        found.driver_ns = plan.boxes_ns;
    }
    return {};
}

void explain_kernel(const ferry_instance &instance, const nest_plan &plan, int device,
                    ferry_explanation &found) noexcept {
    const bool is_packed = plan.way == nest_way::buffer;
    const nest moved = is_packed ? plan.packing.first().outer : plan.given.moved;
    const std::uint64_t parts = is_packed ? plan.packing.parts() : 1;
    found.route = is_packed ? FERRY_ROUTE_STAGED : FERRY_ROUTE_KERNEL;
    found.calls = static_cast<std::uint32_t>(std::min<std::uint64_t>(parts, UINT32_MAX));
    found.max_sms = std::min(plan.blocks, static_cast<std::uint32_t>(instance.devices[device].info.sm_count));
    if (is_packed) found.threads = plan.has_file() ? instance.file_threads : instance.staging_threads;
    std::snprintf(found.driver_call, sizeof found.driver_call, "cuLaunchKernel");
    found.context_device = device;
    found.source_memory = public_kind(plan.ends.source.kind);
    found.destination_memory = public_kind(plan.ends.destination.kind);
    found.source_device = plan.ends.source.device;
    found.destination_device = plan.ends.destination.device;
    found.width = moved.run;
    found.height = moved.run ? moved.bytes() / moved.run : 0;
    found.depth = 1;
    found.kernel_ns = plan.kernel_ns;
    found.driver_ns = plan.boxes_ns;
    found.kernel_obstacle = static_cast<std::int32_t>(plan.why_no_kernel);
    found.profile = origin_of(instance.profiles.of(device), instance.devices[device].info);
}

} // namespace

error explain_nest(ferry_instance &instance, const nest_input &input, CUstream stream, ferry_explanation &found,
                   error_item &bad) noexcept {
    found = {};
    found.context_device = found.source_device = found.destination_device = -1;
    bad = {};
    nest_site site = {.stream = stream, .form = copy_form::asynchronous};
    context_scope scope(instance.cu);
    if (error failed = enter_context_of_nests(instance, input, scope, site)) return failed;
    nest_plan plan;
    int bad_axis = no_axis;
    const copy_preferences &wanted = input.options.preferences;
    if (error failed = plan_nest(instance, *input.nests, input.options, site, plan, bad_axis)) {
        bad = item_of_nest(0, bad_axis);
        return failed;
    }
    if (plan.is_empty()) return {};
    if (plan.way == nest_way::boxes) return explain_boxes(instance, plan, wanted, stream, found);
    explain_kernel(instance, plan, site.device, found);
    const bool is_forced = wanted.forced == route_kind::kernel || wanted.forced == route_kind::staged;
    found.reason = is_forced ? FERRY_REASON_FORCED : FERRY_REASON_PREDICTED;
    return {};
}

} // namespace ferry
