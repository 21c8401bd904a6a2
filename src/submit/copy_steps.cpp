#include "submit/copy_steps.h"

#include <algorithm>
#include <cstring>

#include "device/stream_order.h"
#include "exec/driver_parts.h"
#include "submit/several_devices.h"
#include "submit/staging_setup.h"
#include "system/readable.h"

namespace ferry {

error find_device_of(const ferry_instance &instance, const ferry_place &place, int &device) noexcept {
    device = -1;
    const bool is_stated = place.kind == FERRY_KIND_DEVICE || place.kind == FERRY_KIND_ARRAY;
    if (is_stated && place.device >= 0) { // a batch's fields are not validated yet
        if (place.device < instance.limits.device_count) device = place.device;
        return {};
    }
    if (place.kind != FERRY_KIND_ANY && place.kind != FERRY_KIND_DEVICE) return {};
    address_facts facts;
    if (error failed = look_up_address(instance.cu, place.address, address_query::kind_only, facts)) return failed;
    device = facts.device;
    return {};
}

error look_up_arrays(const ferry_instance &instance, const ferry_copy_desc &copy, resolved_ends &ends) noexcept {
    const auto look_up = [&](const ferry_place &place, resolved_place &end) noexcept -> error {
        if (end.kind != memory_kind::array) return {};
        if (error failed = look_up_array(instance.cu, instance.surfaces, place, end.array)) return failed;
        return resolve_array_device(place, end.array, end.device);
    };
    if (error failed = look_up(copy.source, ends.source)) return on_side(failed, FERRY_SIDE_SOURCE);
    return on_side(look_up(copy.destination, ends.destination), FERRY_SIDE_DESTINATION);
}

error look_up_pool_ends(ferry_instance &instance, int context_device, shape &shape) noexcept {
    const auto look_up = [&](shape_end &end, const shape_end &other) noexcept -> error {
        if (end.kind != memory_kind::pageable && end.kind != memory_kind::host_pool) return {};
        if (!is_elsewhere(other, context_device)) return {};
        CUcontext there = nullptr;
        if (error failed = instance.contexts.get(other.device, there)) return failed;
        context_scope scope(instance.cu);
        if (error failed = scope.enter(there)) return failed;
        address_facts facts;
        if (error failed = look_up_address(instance.cu, end.span.first, address_query::kind_and_reach, facts))
            return failed;
        const bool is_pageable_there = kind_to_context(facts) == memory_kind::pageable;
        if (is_pageable_there)
            end.kind = memory_kind::pageable;
        else if (end.kind == memory_kind::pageable)
            end.kind = memory_kind::far_pinned;
        return {};
    };
    if (error failed = look_up(shape.source, shape.destination)) return failed;
    return look_up(shape.destination, shape.source);
}

error find_contexts(ferry_instance &instance, const shape &shape, int context_device, end_contexts &contexts) noexcept {
    const auto find = [&](const shape_end &end, CUcontext &found) noexcept -> error {
        return is_elsewhere(end, context_device) ? instance.contexts.get(end.device, found) : ok;
    };
    if (error failed = find(shape.source, contexts.source)) return failed;
    if (error failed = find(shape.destination, contexts.destination)) return failed;
    if (is_host(shape.source.kind)) contexts.source = contexts.destination;
    if (is_host(shape.destination.kind)) contexts.destination = contexts.source;
    return {};
}

error enter_for_graph(ferry_instance &instance, const shape &asked, const plan_facts &facts, const copy_site &site,
                      context_scope &scope) noexcept {
    if (is_read_in_the_call(asked)) return refuse(FERRY_ERROR_CAPTURE, FERRY_SIDE_SOURCE, FERRY_FIELD_ADDRESS);
    if (!leaves_device(asked, facts.context_device)) return {};
    ferry::shape shape = asked;
    if (shape.destination.kind == memory_kind::host) { // not looked up so far, see look_up_ends
        resolved_place here = {};
        if (error failed = know_kind(instance.cu, shape.destination, here, shape.destination.kind)) return failed;
        if (error failed = look_up_pool_ends(instance, facts.context_device, shape)) return failed;
    }
    end_contexts others;
    if (!belongs_to_current_context(site.stream))
        if (error failed = find_contexts(instance, shape, -1, others)) return failed;
    const auto is_served = [&](const shape_end &end, const shape_end &other, int device) noexcept {
        if (end.kind == memory_kind::device)
            return can_driver_copy(instance.cu, end.span.first, end.device < 0 || end.device == device);
        if (!is_elsewhere(other, device)) return true;
        // In other contexts than that of the other end the memory is pageable, and a graph would read it too early.
        if (end.kind == memory_kind::far_pinned) return &end == &shape.destination;
        if (end.kind != memory_kind::pageable) return true;
        resolved_place here = {};
        memory_kind kind = end.kind; // see look_up_pool_ends
        return !know_kind(instance.cu, end, here, kind) && kind != memory_kind::host_pool;
    };
    for (const CUcontext context : {site.context, others.source, others.destination}) {
        if (!context) continue;
        bool serves_both = false;
        {
            context_scope trial(instance.cu);
            int device = -1;
            if (error failed = trial.enter(context)) return failed;
            if (error failed = instance.contexts.device_of_current(context, device)) return failed;
            serves_both = is_served(shape.source, shape.destination, device) &&
                          is_served(shape.destination, shape.source, device);
        }
        if (serves_both) return scope.enter(context);
    }
    return {.status = FERRY_ERROR_CAPTURE};
}

namespace {

// A staged copy in a graph needs a kernel: it may run many times. A prepared batch that is staged by copies may be
// captured all the same.
bool can_be_in_graph(const copy_plan &plan) noexcept { return !plan.by_copies || plan.blocks != 0; }

// A graph reads the source at each launch.
constexpr error read_under_capture = {FERRY_ERROR_CAPTURE, FERRY_SIDE_DESCRIPTOR, FERRY_FIELD_FLAGS, 0,
                                      FERRY_COPY_SOURCE_READ};
// And it writes the destination at each launch.
constexpr error written_under_capture = {FERRY_ERROR_CAPTURE, FERRY_SIDE_DESCRIPTOR, FERRY_FIELD_FLAGS, 0,
                                         FERRY_COPY_DESTINATION_WRITTEN};

// Full checks have tested all of the memory already.
bool is_readable(const ferry_instance &instance, const address_span &span) noexcept {
    return instance.full_checks || host_range_is_readable(span.first, span.last);
}

} // namespace

error check_capture(ferry_instance &instance, const planned_copy &call, const copy_site &site) noexcept {
    if (!call.facts.is_captured) return {};
    if (is_written_in_the_call(call.shape, call.facts)) return written_under_capture;
    if (call.plan.route == route_kind::buffered || call.plan.wait_in_the_call) return read_under_capture;
    context_scope trial(instance.cu);
    return call.plan.route == route_kind::driver || !can_be_in_graph(call.plan)
               ? enter_for_graph(instance, call.shape, call.facts, site, trial)
               : ok;
}

error look_up_views(ferry_instance &instance, const shape &shape, resolved_ends &ends, CUcontext context,
                    plan_facts &facts, kernel_views &views) noexcept {
    const bool is_staged = is_pageable(shape);
    const auto look_up = [&](const shape_end &end, resolved_place &place, access wanted, kernel_view &view,
                             obstacle &reach) noexcept -> error {
        if (end.kind == memory_kind::pageable) {
            // A kernel that touched unreadable memory would end its context; the driver refuses it with an error.
            const bool is_reached = facts.reaches_pageable && is_readable(instance, end.span);
            view.why_not = is_reached ? obstacle::none : obstacle::pageable;
            view.address = end.span.first;
        } else if (!end.array) {
            if (error failed = know_everything(instance.cu, end, place)) return failed;
            view = view_of(*place.facts, end.span, wanted, context, facts.context_device);
        } else if (wanted == access::read || is_staged) {
            view = view_of(instance.surfaces, end.array, context);
        } else {
            view.why_not = obstacle::array;
        }
        reach = view.why_not;
        return {};
    };
    if (error failed = look_up(shape.source, ends.source, access::read, views.source, facts.source_reach))
        return failed;
    if (error failed =
            look_up(shape.destination, ends.destination, access::write, views.destination, facts.destination_reach))
        return failed;
    facts.staged_reach = is_host(shape.source.kind) ? facts.destination_reach : facts.source_reach;
    return {};
}

void begin_choice(ferry_instance &instance, const shape &shape, CUcontext context, plan_facts &facts) noexcept {
    facts.profile = instance.profiles.of(facts.context_device);
    facts.pair = rates_between(instance, shape, facts.context_device);
    facts.kernels = instance.kernels.may_serve() ? obstacle::none : obstacle::not_loaded;
    const bool is_read = !shape.source.array || instance.surfaces.may_serve(shape.source.array, context);
    facts.source_reach = is_read ? obstacle::none : obstacle::array;
    facts.destination_reach = shape.destination.array ? obstacle::array : obstacle::none;
    const shape_end &end = is_host(shape.source.kind) ? shape.destination : shape.source;
    const bool is_staged = !end.array || instance.surfaces.may_serve(end.array, context);
    facts.staging = instance.stages ? obstacle::none : obstacle::no_staging;
    facts.reaches_pageable =
        facts.context_device >= 0 && instance.devices[facts.context_device].info.pageable_uses_host_page_tables != 0;
    facts.has_stream_waits = instance.cu.cuStreamBatchMemOp;
    facts.staged_reach = is_staged ? obstacle::none : obstacle::array;
    facts.staging_threads = instance.staging_threads;
    facts.slot_size = instance.staging.slot_size();
    if (instance.stages && is_pageable(shape)) {
        const staging_engine::delays late = instance.staging.delays_on(facts.context_device);
        facts.thread_delay_ns = late.threads_ns;
        facts.start_delay_ns = late.start_ns;
    }
}

namespace {

bool is_small_upload(const shape &shape) noexcept {
    return is_read_in_the_call(shape) && shape.bytes() <= recent_copies::largest;
}

// In a loop of small copies only the last one may be in front: gives it the time that it takes. The software driver's
// threads may have to wait for a processor.
bool is_idle_soon(const recent_copies &recent, CUstream stream, bool is_software,
                  function_ref<bool()> is_idle) noexcept {
    const std::uint64_t last_copy_ns = is_software ? 300'000 : 30'000;
    if (!recent.is_recent(stream)) return false;
    const std::uint64_t until = clock_ns() + last_copy_ns;
    while (clock_ns() < until)
        if (is_idle()) return true;
    return false;
}

} // namespace

error look_at_stream(ferry_instance &instance, const shape &shape, CUstream stream, plan_facts &facts) noexcept {
    if (facts.form == copy_form::synchronous) return {};
    if (error failed = query_capture(instance.cu, stream, facts.is_captured)) return failed;
    if (facts.is_captured || !is_pageable(shape) || goes_with_commands(shape, facts)) return {};
    // The driver's call to the host would wait for the program's own work on the legacy stream too.
    const bool legacy_counts = copies_in_flight::are_any() || !is_read_in_the_call(shape);
    const auto ask = [&]() noexcept { return is_idle(instance.cu, stream, legacy_counts); };
    facts.is_stream_idle = ask();
    if (!facts.is_stream_idle && is_small_upload(shape) && !facts.preferences.source_read)
        facts.is_stream_idle =
            is_idle_soon(instance.recent, stream, instance.report.driver == FERRY_DRIVER_SOFTWARE, ask);
    return {};
}

namespace {

// Checks what only a staged copy needs, and rules staging out where it is missing.
void prepare_to_stage(ferry_instance &instance, const shape &shape, plan_facts &facts) noexcept {
    const shape_end &host = is_host(shape.source.kind) ? shape.source : shape.destination;
    // The driver refuses unreadable memory with an error. A staging thread that touched it would end the process.
    if (is_pageable(shape) && !is_readable(instance, host.span)) facts.staging = obstacle::no_staging;
    if (facts.form == copy_form::asynchronous && !is_ready_to_stage(instance, facts.context_device))
        facts.staging = obstacle::no_staging;
}

} // namespace

error choose(ferry_instance &instance, const shape &shape, resolved_ends &ends, CUcontext context, plan_facts &facts,
             kernel_views &views, copy_plan &plan) noexcept {
    begin_choice(instance, shape, context, facts);
    if (facts.preferences.over_links)
        if (error failed = look_at_links(instance, shape, context, facts)) return failed;
    if (leaves_device(shape, facts.context_device))
        if (error failed = look_at_access(instance, shape, facts)) return failed;
    const ranked_routes ranked = rank_routes(shape, facts);
    plan = ranked.plans[0];
    if (facts.is_captured && is_read_early(shape, facts)) return read_under_capture;
    if (facts.is_captured && is_written_in_the_call(shape, facts)) return written_under_capture;
    if (plan.route == route_kind::buffered) {
        const address_span &source = shape.source.span;
        if (is_readable(instance, source)) return {};
        plan = plan_for_driver(shape, facts); // which refuses unreadable memory
    }
    if (plan.route >= route_kind::relayed) return {};
    if (plan.route > route_kind::driver) { // ranked without a driver query so far
        if (!facts.preferences.no_kernels && instance.kernels.load_into(context)) facts.kernels = obstacle::not_loaded;
        if (error failed = look_up_views(instance, shape, ends, context, facts, views)) return failed;
        if (plan.route == route_kind::staged) prepare_to_stage(instance, shape, facts);
        obstacle why_not = obstacle::none;
        for (int i = 0; i < ranked.count; ++i) {
            plan = ranked.plans[i];
            why_not = veto(shape, facts, plan.route);
            if (why_not == obstacle::none) break;
            plan = refuse_plan(why_not);
        }
    }
    if (plan.route == route_kind::staged) { // more is known by now
        const std::uint8_t reason = plan.reason;
        plan = plan_for_staging(shape, facts);
        plan.reason = reason;
    }
    return plan.refused == obstacle::none ? ok : refuse_route(plan.refused);
}

bool is_in_parts(const ferry_instance &instance, const shape &shape) noexcept {
    const host_ranges &ranges = instance.pinned.ranges();
    const auto has_registrations = [&](const shape_end &end) noexcept {
        return !end.array && end.kind == memory_kind::pageable &&
               ranges.next_registration(end.span.first) <= end.span.last;
    };
    return crosses_border(shape, ranges) || has_registrations(shape.source) || has_registrations(shape.destination);
}

error for_each_planned_copy(ferry_instance &instance, const shape &whole, const plan_facts &facts,
                            const copy_site &site, function_ref<error(const planned_copy &)> then) noexcept {
    const host_ranges &ranges = instance.pinned.ranges();
    const auto end_of_stretch = [&](std::uint64_t address) noexcept {
        if (const std::uint64_t end = ranges.end_of_piece(address)) return end;
        const std::uint64_t next = ranges.next_registration(address);
        return next == UINT64_MAX ? 0 : next;
    };
    return for_each_part(whole, end_of_stretch, [&](shape part) noexcept -> error {
        resolved_ends ends = {};
        if (is_host(part.source.kind))
            if (error failed = know_kind(instance.cu, part.source, ends.source, part.source.kind)) return failed;
        if (is_host(part.destination.kind))
            if (error failed = know_kind(instance.cu, part.destination, ends.destination, part.destination.kind))
                return failed;
        if (leaves_device(part, facts.context_device))
            if (error failed = look_up_pool_ends(instance, facts.context_device, part)) return failed;
        plan_facts of_part = facts;
        kernel_views views;
        copy_plan plan;
        if (!is_pageable(part) && of_part.preferences.forced == route_kind::staged)
            of_part.preferences.forced = route_kind::none;
        if (needs_no_choice(part, of_part.preferences))
            plan = plan_for_driver(part, of_part);
        else if (error failed = choose(instance, part, ends, site.context, of_part, views, plan))
            return failed;
        return then(planned_copy{part, of_part, plan, views});
    });
}

error for_each_planned_call(ferry_instance &instance, const planned_copy &whole, const copy_site &site,
                            function_ref<error(const planned_copy &)> then) noexcept {
    const bool in_parts = whole.plan.route == route_kind::driver
                              ? crosses_border(whole.shape, instance.pinned.ranges())
                              : whole.plan.route == route_kind::staged && is_in_parts(instance, whole.shape);
    if (!in_parts) return then(whole);
    plan_facts facts = whole.facts;
    if (error failed = look_at_stream(instance, whole.shape, site.stream, facts)) return failed;
    return for_each_planned_copy(instance, whole.shape, facts, site, then);
}

namespace {

error run_by_driver(ferry_instance &instance, const shape &shape, const plan_facts &facts, const copy_plan &plan,
                    const copy_site &site) noexcept {
    context_scope graph_scope(instance.cu);
    if (facts.is_captured)
        if (error failed = enter_for_graph(instance, shape, facts, site, graph_scope)) return failed;
    end_contexts contexts = {site.context, site.context};
    if (plan.names_contexts)
        if (error failed = find_contexts(instance, shape, facts.context_device, contexts)) return failed;
    if (plan.wait_before)
        if (error failed = pass_earlier_work(instance.cu, site.stream, copies_in_flight::are_any())) return failed;
    const error failed = run_driver_route(instance.cu, shape, plan, facts.form, contexts, site.stream);
    return failed || !plan.wait_in_the_call ? failed : pass_earlier_work(instance.cu, site.stream, false);
}

void pack_rows(const shape &shape, std::byte *packed) noexcept {
    const shape_end &source = shape.source;
    for (std::uint64_t z = 0; z < shape.depth; ++z)
        for (std::uint64_t y = 0; y < shape.height; ++y, packed += shape.width) {
            const std::uint64_t row = source.span.first + (z * source.slice_height + y) * source.row_pitch;
            std::memcpy(packed, reinterpret_cast<const void *>(row), shape.width);
        }
}

// Reads the source into a block that is free again once the stream has passed the copy.
error run_buffered(ferry_instance &instance, const planned_copy &copy, const copy_site &site) noexcept {
    const std::uint64_t bytes = copy.shape.bytes();
    void *block = nullptr;
    if (error failed = instance.read_buffers.allocate(bytes, block)) return failed;
    pack_rows(copy.shape, static_cast<std::byte *>(block));
    shape packed = copy.shape;
    const auto first = reinterpret_cast<std::uintptr_t>(block);
    packed.source = {memory_kind::pinned,        -1,           nullptr,      0, 0, 0,
                     {first, first + bytes - 1}, packed.width, packed.height};
    const error failed = run_by_driver(instance, packed, copy.facts, plan_for_driver(packed, copy.facts), site);
    if (failed)
        static_cast<void>(instance.read_buffers.free(block));
    else // if the driver refuses the event behind the copy, the block stays taken: the copy may be in flight
        static_cast<void>(instance.read_buffers.free_on(site.stream, block));
    return failed;
}

// Stages with a kernel or without. A program's kernel that fills the device may wait for the copy, so ferry's kernel is
// not put behind it.
error run_staged(ferry_instance &instance, const planned_copy &copy, const copy_site &site,
                 staged_progress *progress) noexcept {
    const plan_facts &facts = copy.facts;
    const kernel_view &view = is_host(copy.shape.source.kind) ? copy.views.destination : copy.views.source;
    helpers_of_copy helpers(instance);
    if (copy.plan.links > 1 && !copy.plan.by_copies) helpers.take(copy, site);
    const auto run = [&](bool by_copies, bool must_start_soon) noexcept {
        copy_plan as = copy.plan;
        as.by_copies = by_copies;
        const staged_site staged = {site.context,    facts.context_device, facts.is_captured, facts.is_stream_idle,
                                    must_start_soon, helpers.begin(),      helpers.count()};
        return run_staged_copy(instance.cu, instance.staging, copy.shape, as, view, staged, site.stream, progress);
    };
    if (facts.is_captured) return run(false, false);
    bool is_late = false;
    if (!copy.plan.by_copies) {
        const bool is_first_on_stream =
            facts.form == copy_form::synchronous ? is_idle(instance.cu, site.stream, true) : facts.is_stream_idle;
        const bool must_start_soon = is_first_on_stream && can_stage_by_copies(copy.shape, facts);
        const error failed = run(false, must_start_soon);
        is_late = must_start_soon && failed.status == FERRY_ERROR_LIMIT;
        if (!is_late) return failed;
    }
    const error failed = run(true, false);
    // Copies on the stream that the driver refuses half-way still count on the progress.
    const bool is_untouched = failed.status == FERRY_ERROR_LIMIT || (lacks_memory(failed) && !progress);
    const bool may_driver_serve = !progress && facts.preferences.forced != route_kind::staged;
    const bool is_kernel_left = can_be_in_graph(copy.plan) && !(is_late && may_driver_serve);
    return is_untouched && is_kernel_left ? run(false, false) : failed;
}

} // namespace

error run_staged_broadcast(ferry_instance &instance, const planned_copy &copy, const copy_site &site,
                           const staged_targets &to, bool must_start_soon) noexcept {
    const plan_facts &facts = copy.facts;
    const staged_site staged = {site.context,         facts.context_device, false,
                                facts.is_stream_idle, must_start_soon,      to.helpers,
                                to.helper_count,      to.addresses,         to.count};
    return run_staged_copy(instance.cu, instance.staging, copy.shape, copy.plan, copy.views.destination, staged,
                           site.stream, nullptr);
}

error run_planned(ferry_instance &instance, const planned_copy &copy, const copy_site &site,
                  staged_progress *progress) noexcept {
    const ferry::shape &shape = copy.shape;
    const plan_facts &facts = copy.facts;
    const copy_plan &plan = copy.plan;
    const kernel_views &views = copy.views;
    const auto noted = [&](const error &failed, route_kind route) noexcept {
        if (instance.trace && !failed) [[unlikely]]
            instance.trace.note(route, site.context);
        if (site.taken && !failed) [[unlikely]]
            *site.taken = std::max(*site.taken, route);
        return failed;
    };
    if (plan.route == route_kind::kernel)
        return noted(run_kernel_copy(instance.cu, instance.kernels, shape, plan, views, site.stream), plan.route);
    if (plan.route == route_kind::buffered) {
        const error failed = run_buffered(instance, copy, site);
        if (!lacks_memory(failed)) return noted(failed, plan.route);
        return run_planned(instance, {shape, facts, plan_for_driver(shape, facts), views}, site);
    }
    if (plan.route == route_kind::relayed || plan.route == route_kind::multilink) {
        const error failed = plan.route == route_kind::relayed ? run_relayed(instance, copy, site)
                                                               : run_over_links(instance, copy, site);
        if (!lacks_memory(failed) || facts.preferences.forced == route_kind::relayed) return noted(failed, plan.route);
        return run_planned(instance, {shape, facts, plan_for_driver(shape, facts), views}, site);
    }
    if (plan.route == route_kind::staged && (!facts.is_captured || can_be_in_graph(plan))) {
        // With a progress it has been decided, whatever has been registered since.
        if (!progress && is_in_parts(instance, shape)) return run_in_parts(instance, shape, facts, site);
        const error failed = run_staged(instance, copy, site, progress);
        if (!lacks_memory(failed) || progress || facts.preferences.forced == route_kind::staged)
            return noted(failed, plan.route);
        // The driver copies everything again, including the part that was staged.
        return run_planned(instance, {shape, facts, plan_for_driver(shape, facts), views}, site);
    }
    if (facts.thread_delay_ns != 0) instance.staging.measure_thread_delay();
    const error result = run_by_driver(instance, shape, facts,
                                       plan.route == route_kind::driver ? plan : plan_for_driver(shape, facts), site);
    if (facts.is_stream_idle && is_small_upload(shape)) instance.recent.note(site.stream);
    // The driver refuses a copy whose host memory is registered in pieces.
    if (result.status == to_status(CUDA_ERROR_INVALID_VALUE) && crosses_border(shape, instance.pinned.ranges()))
        return run_in_parts(instance, shape, facts, site);
    return noted(result, route_kind::driver);
}

error run_in_parts(ferry_instance &instance, const shape &whole, const plan_facts &facts,
                   const copy_site &site) noexcept {
    plan_facts known = facts;
    if (error failed = look_at_stream(instance, whole, site.stream, known)) return failed;
    if (known.is_captured) {
        const auto check = [&](const planned_copy &part) noexcept { return check_capture(instance, part, site); };
        if (error failed = for_each_planned_copy(instance, whole, known, site, check)) return failed;
    }
    bool has_begun = false;
    return for_each_planned_copy(instance, whole, known, site, [&](const planned_copy &part) noexcept {
        error failed = run_planned(instance, part, site);
        // A copy whose first part is enqueued must not fail because no slot is free: the driver copies the others.
        if (has_begun && lacks_memory(failed) && part.plan.route != route_kind::driver)
            failed = run_planned(instance,
                                 {part.shape, part.facts, plan_for_driver(part.shape, part.facts), part.views}, site);
        has_begun = true;
        known.is_source_final |= part.plan.wait_before;
        known.is_stream_idle = false; // the part before
        return failed;
    });
}

} // namespace ferry
