#include "submit/choice.h"

#include "device/stream_order.h"
#include "routes/driver.h"
#include "routes/ends.h"
#include "routes/ranking.h"
#include "routes/staged.h"

namespace ferry {

namespace {

// In a loop of small copies, only the previous copy may be ahead, so this waits as long as that copy takes. The
// software driver's threads may have to wait for a processor.
bool is_idle_soon(small_uploads &uploads, const upload_stream &on, bool is_software,
                  function_ref<bool()> is_idle) noexcept {
    const std::uint64_t last_copy_ns = is_software ? 300'000 : 30'000;
    if (!uploads.are_probably_alone(on)) return false;
    const std::uint64_t until = clock_ns() + last_copy_ns;
    while (clock_ns() < until)
        if (is_idle()) return true;
    uploads.note_longer_work(on);
    return false;
}

} // namespace

bool is_left_alone(ferry_instance &instance, const address_span &source, int device) noexcept {
    return instance.pinned.ranges().next_registration(source.first) > source.last &&
           !instance.devices[device].info.pageable_uses_host_page_tables && !instance.staging.may_write(source);
}

bool has_command_room(const ferry_instance &instance, const upload_stream &on, std::uint64_t bytes) noexcept {
    // A copy of up to 4 KiB exhausts the number of commands first, as every other call on the stream does.
    constexpr std::uint64_t max_without_room = 4096;
    return bytes <= max_without_room || instance.uploads.has_room(on, bytes);
}

error look_at_stream(ferry_instance &instance, const shape &shape, CUstream stream, call_facts &call) noexcept {
    call.has_command_room = false;
    if (call.form == copy_form::synchronous) return {};
    if (error failed = query_capture(instance.cu, stream, call.is_captured)) return failed;
    call.may_read_early = call.may_read_early && !call.is_captured && is_read_in_the_call(shape) &&
                          !is_elsewhere(shape.destination, call.context_device) &&
                          is_left_alone(instance, shape.source.span, call.context_device);
    if (call.is_captured || !needs_threads(shape)) return {};
    const upload_stream on = {stream, call.context_device};
    const bool may_go = may_go_with_commands(shape, call);
    call.has_command_room = may_go && has_command_room(instance, on, shape.width);
    if (call.has_command_room) return {};
    // The driver's call to the host would also wait for the program's own work on the legacy stream.
    const bool legacy_counts = copies_in_flight::are_any() || !is_read_in_the_call(shape);
    const auto ask = [&]() noexcept { return is_idle(instance.cu, stream, legacy_counts); };
    call.is_stream_idle = ask();
    const bool is_next_read_early = is_read_early(shape, call) || may_be_read_early(shape, call);
    const bool may_spin = !call.preferences.no_wait && (may_go || !is_next_read_early);
    if (!call.is_stream_idle && is_small_upload(shape) && may_spin)
        call.is_stream_idle = is_idle_soon(instance.uploads, on, instance.report.driver == FERRY_DRIVER_SOFTWARE, ask);
    return {};
}

plan_facts facts_of(ferry_instance &instance, const shape &shape, CUcontext context, const call_facts &call) noexcept {
    const int device = call.context_device;
    const shape_end &end = is_host(shape.source.kind) ? shape.destination : shape.source;
    const auto obstacle_unless = [](bool is_served, obstacle why) noexcept { return is_served ? obstacle::none : why; };
    const auto may_access = [&](const shape_end &end) noexcept {
        return obstacle_unless(!end.array || instance.surfaces.may_serve(end.array, context), obstacle::array);
    };
    plan_facts facts = {.call = call, .profile = instance.profiles.of(device)};
    facts.kernels = {.why_not = obstacle_unless(instance.kernels.may_serve(), obstacle::not_loaded),
                     .source_reach = may_access(shape.source),
                     .destination_reach = obstacle_unless(!shape.destination.array, obstacle::array),
                     .reaches_pageable =
                         device >= 0 && instance.devices[device].info.pageable_uses_host_page_tables != 0};
    facts.staging.why_not = obstacle_unless(instance.stages, obstacle::no_staging);
    facts.staging.reach = may_access(end);
    facts.staging.has_stream_waits = instance.cu.cuStreamBatchMemOp;
    facts.staging.has_stream_buffers = instance.buffers.are_supported();
    facts.staging.threads = threads_for(instance, shape);
    facts.staging.slot_size = instance.staging.slot_size();
    if (instance.stages && needs_threads(shape)) {
        const staging_engine::delays late = instance.staging.delays_on(device);
        facts.staging.thread_delay_ns = late.threads_ns;
        facts.staging.start_delay_ns = late.start_ns;
        facts.staging.idle_ns = late.idle_ns;
    }
    facts.links.pair = rates_between(instance, shape, device);
    return facts;
}

error look_up_views(ferry_instance &instance, const shape &shape, resolved_ends &ends, CUcontext context,
                    plan_facts &facts, kernel_views &views) noexcept {
    kernel_facts &kernels = facts.kernels;
    const bool is_staged = needs_threads(shape);
    const auto look_up = [&](const shape_end &end, resolved_place &place, access wanted, kernel_view &view,
                             obstacle &reach) noexcept -> error {
        if (end.file) {
            view.why_not = obstacle::file;
        } else if (end.kind == memory_kind::pageable) {
            // A kernel that accessed unreadable memory would kill its context; the driver rejects it with an error.
            const bool is_reached = kernels.reaches_pageable && is_readable(instance, end.span);
            view.why_not = is_reached ? obstacle::none : obstacle::pageable;
            view.address = end.span.first;
        } else if (!end.array) {
            if (error failed = know_everything(instance.cu, end, place)) return failed;
            view = view_of(*place.facts, end.span, wanted, context, facts.call.context_device);
        } else if (wanted == access::read || is_staged) {
            view = view_of(instance.surfaces, end.array, context);
        } else {
            view.why_not = obstacle::array;
        }
        reach = view.why_not;
        return {};
    };
    if (error failed = look_up(shape.source, ends.source, access::read, views.source, kernels.source_reach))
        return failed;
    if (error failed =
            look_up(shape.destination, ends.destination, access::write, views.destination, kernels.destination_reach))
        return failed;
    facts.staging.reach = is_host(shape.source.kind) ? kernels.destination_reach : kernels.source_reach;
    return {};
}

error look_up_for_routes(ferry_instance &instance, const shape &shape, CUcontext context, plan_facts &facts) noexcept {
    for (const route *const each : all_routes)
        if (each->look_up && each->needs_look_up(shape, facts.call))
            if (error failed = each->look_up(instance, shape, context, facts)) return failed;
    return {};
}

namespace {

// A file is copied from and to memory, outside of graphs. The system reports memory of the host that ferry's threads
// cannot access, but too late for the call.
[[gnu::cold]] error check_file_copy(const ferry_instance &instance, const copy_step &step) noexcept {
    const shape_end &source = step.shape.source, &destination = step.shape.destination;
    const std::int32_t file_side = source.file ? FERRY_SIDE_SOURCE : FERRY_SIDE_DESTINATION;
    if (step.call.is_captured) return refuse(FERRY_ERROR_CAPTURE, file_side, FERRY_FIELD_FILE);
    if (source.file && destination.file)
        return refuse(FERRY_ERROR_UNSUPPORTED, FERRY_SIDE_DESTINATION, FERRY_FIELD_KIND);
    const shape_end &memory = source.file ? destination : source;
    if (!is_host(memory.kind) || is_readable(instance, memory.span)) return {};
    return refuse_value(FERRY_ERROR_ADDRESS, source.file ? FERRY_SIDE_DESTINATION : FERRY_SIDE_SOURCE,
                        FERRY_FIELD_ADDRESS, memory.span.first);
}

// Chooses the first route that can serve after both ends have been looked up for kernels, if the route needs that, and
// after the route has been prepared.
error look_up_and_choose(ferry_instance &instance, resolved_ends &ends, CUcontext context, const ranked_routes &ranked,
                         const copy_question &copy, plan_facts &facts, copy_step &step) noexcept {
    const copy_preferences &preferences = facts.call.preferences;
    bool are_looked_up = false;
    obstacle refused = obstacle::none;
    for (int i = 0; i < ranked.count; ++i) {
        const route &by = *ranked.all[i].by;
        if (by.needs_views && !are_looked_up) {
            if (!preferences.no_kernels && instance.kernels.load_into(context, !preferences.no_wait))
                facts.kernels.why_not = preferences.no_wait ? obstacle::not_prepared : obstacle::not_loaded;
            if (error failed = look_up_views(instance, step.shape, ends, context, facts, step.views)) return failed;
            are_looked_up = true;
        }
        obstacle why_not = by.why_not(copy);
        if (!is_obstacle(why_not) && by.prepare) why_not = by.prepare(instance, step.shape, facts);
        if (!is_obstacle(why_not)) {
            step.plan = plan_by(ranked.all[i], copy);
            return {};
        }
        if (!is_wait(refused)) refused = why_not;
    }
    // The driver would serve, but wait.
    if (preferences.no_wait && preferences.forced == route_kind::none && !is_wait(refused)) refused = obstacle::waits;
    step.plan = refuse_plan(refused);
    return {};
}

} // namespace

error choose(ferry_instance &instance, resolved_ends &ends, CUcontext context, copy_step &step) noexcept {
    plan_facts facts = facts_of(instance, step.shape, context, step.call);
    if (error failed = look_up_for_routes(instance, step.shape, context, facts)) return failed;
    if (step.shape.has_file())
        if (error failed = check_file_copy(instance, step)) return failed;
    if (const shape_end &source = step.shape.source; source.file)
        facts.staging.is_source_slow =
            source.file->file.is_slow(source.span.first, source.span.last - source.span.first + 1);
    if (step.call.is_captured && is_read_early(step.shape, step.call)) return read_under_capture;
    if (step.call.is_captured && is_written_in_the_call(step.shape, step.call)) return written_under_capture;
    const copy_question copy(step.shape, facts);
    const ranked_routes ranked = rank_routes(copy);
    if (is_obstacle(ranked.refused))
        step.plan = refuse_plan(ranked.refused);
    else if (ranked.all[0].by == &driver_route)
        step.plan = plan_by(ranked.all[0], copy);
    else if (error failed = look_up_and_choose(instance, ends, context, ranked, copy, facts, step))
        return failed;
    return is_obstacle(step.plan.refused) ? refuse_route(step.plan.refused) : ok;
}

} // namespace ferry
