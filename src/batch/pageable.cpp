#include "batch/pageable.h"

#include "device/stream_order.h"
#include "submit/copy_steps.h"
#include "submit/staging_setup.h"
#include "system/host_access.h"
#include "system/readable.h"

namespace ferry {

namespace {

bool may_be_staged(const ferry_instance &instance, const copy_preferences &wanted) noexcept {
    return instance.stages && instance.kernels.may_serve() && !wanted.no_kernels && wanted.forced != route_kind::driver;
}

bool add_rows(const batch_box &box, const known_ranges &ranges, pageable_copies &to) noexcept {
    const shape &shape = box.shape;
    const std::uint64_t rows = shape.height * shape.depth;
    const shape_end &device = to.to_device ? shape.destination : shape.source;
    const shape_end &host = to.to_device ? shape.source : shape.destination;
    const std::uint64_t alias = ranges[to.to_device ? box.to : box.from].alias;
    if (!to.pieces.reserve(to.pieces.size() + rows)) return false;
    for (std::uint64_t z = 0; z < shape.depth; ++z)
        for (std::uint64_t y = 0; y < shape.height; ++y)
            to.pieces.append_reserved({device.span.first + (z * device.slice_height + y) * device.row_pitch + alias,
                                       host.span.first + (z * host.slice_height + y) * host.row_pitch, shape.width});
    to.bytes += box.bytes();
    return true;
}

bool add_piece(const batch_piece &piece, const known_ranges &ranges, pageable_copies &to) noexcept {
    to.bytes += piece.size;
    const std::uint64_t device = to.to_device ? piece.destination : piece.source;
    const std::uint64_t alias = ranges[to.to_device ? piece.to : piece.from].alias;
    return to.pieces.append({device + alias, to.to_device ? piece.source : piece.destination, piece.size});
}

std::uint64_t count_copies(const batch_request &request, piece_group group) noexcept {
    std::uint64_t count = request.pieces.facts(static_cast<int>(group)).count;
    for (const batch_box &box : request.boxes)
        count += box.way == box_route::call && box.group == group;
    return count;
}

error gather(batch_request &request, piece_group group, pageable_copies &to) noexcept {
    const int number = static_cast<int>(group);
    if (!to.pieces.reserve(request.pieces.facts(number).count)) return no_memory;
    for (const batch_piece *piece = request.pieces.begin(number); piece != request.pieces.end(number); ++piece)
        if (!add_piece(*piece, request.ranges, to)) return no_memory;
    for (const batch_box &box : request.boxes)
        if (box.way == box_route::call && box.group == group && !add_rows(box, request.ranges, to)) return no_memory;
    return {};
}

pageable_facts facts_of(ferry_instance &instance, const pageable_copies &of, const batch_request &request,
                        const launch_site &site) noexcept {
    const staging_engine::delays late = instance.staging.delays_on(request.context_device);
    pageable_facts facts = {.direction = of.to_device ? copy_direction::host_to_device : copy_direction::device_to_host,
                            .form = site.is_waited_for ? copy_form::synchronous : copy_form::asynchronous};
    facts.count = of.pieces.size();
    facts.bytes = of.bytes;
    facts.is_captured = site.is_captured;
    facts.threads = instance.staging_threads;
    facts.preferences = preferences_of(instance.copy_flags);
    const bool is_helped = site.is_waited_for || facts.preferences.is_awaited(of.to_device);
    facts.delay_ns = late.start_ns + (is_helped ? 0 : late.threads_ns);
    facts.profile = instance.profiles.of(request.context_device);
    return facts;
}

// The driver refuses unreadable memory with an error. A staging thread that touched it would end the process. The memory
// of a prepared batch may have changed since its checks.
bool may_threads_touch(const ferry_instance &instance, const pageable_copies &of) noexcept {
    const auto span_of = [&](std::size_t at) noexcept {
        const staged_piece &piece = of.pieces[at];
        return address_span{piece.host, piece.host + (piece.size - 1)};
    };
    if (!instance.full_checks) return host_ranges_are_readable(instance.mappings, of.pieces.size(), span_of);
    host_access access(instance.mappings);
    address_span barred;
    for (std::size_t i = 0; i < of.pieces.size(); ++i)
        if (access.find_barred(span_of(i), of.to_device ? host_use::read : host_use::write, barred)) return false;
    return true;
}

} // namespace

void plan_pageable(ferry_instance &instance, batch_request &request) noexcept {
    const copy_preferences wanted = preferences_of(instance.copy_flags);
    for (pageable_copies &of : request.pageable) {
        of.pieces.clear();
        of.bytes = 0;
        of.to_device = &of == request.pageable;
        const auto group = of.to_device ? piece_group::pageable_up : piece_group::pageable_down;
        batch_plan &plan = request.plans[static_cast<int>(group)];
        plan.way = batch_route::calls;
        if (!may_be_staged(instance, wanted)) continue;
        const std::uint64_t count = count_copies(request, group);
        const bool is_one = count < 2 && wanted.forced != route_kind::staged; // planned as a single copy
        if (count == 0 || is_one || gather(request, group, of) || instance.kernels.load_into(request.context.wanted)) {
            of.pieces.clear();
            continue;
        }
        plan.way = batch_route::staged;
        for (batch_box &box : request.boxes)
            if (box.way == box_route::call && box.group == group) box.way = box_route::staged;
    }
}

bool takes_staging(ferry_instance &instance, const pageable_copies &of, const batch_request &request,
                   const launch_site &site, bool is_earlier_work_done) noexcept {
    if (of.pieces.size() == 0) return false;
    pageable_facts facts = facts_of(instance, of, request, site);
    facts.is_stream_idle = is_earlier_work_done;
    if (!are_pieces_staged(facts) || !may_threads_touch(instance, of)) return false;
    return site.is_waited_for || is_ready_to_stage(instance, request.context_device);
}

pageable_forecast predict_pageable(ferry_instance &instance, const pageable_copies &of, const batch_request &request,
                                   const launch_site &site) noexcept {
    return predict_pageable(facts_of(instance, of, request, site));
}

error run_pageable(ferry_instance &instance, const pageable_copies &of, const batch_request &request,
                   const launch_site &site, bool is_earlier_work_done, staged_progress *progress) noexcept {
    const copy_preferences wanted = preferences_of(instance.copy_flags);
    const bool may_driver_serve = !site.is_captured && wanted.forced != route_kind::staged;
    const staged_copy copy = {
        .box = {.device = {}, .host = {}, .width = 0, .height = 0, .depth = 0, .to_device = of.to_device},
        .pieces = {of.pieces.begin(), of.pieces.size(), of.bytes},
        .device = request.context_device,
        .context = site.context,
        .blocks = wanted.max_blocks,
        .is_captured = site.is_captured,
        .caller_helps = progress != nullptr,
        .is_stream_idle = is_earlier_work_done,
        .must_start_soon =
            may_driver_serve && is_earlier_work_done && !follows_legacy_stream(instance.cu, site.stream)};
    return instance.staging.enqueue(copy, site.stream, progress);
}

} // namespace ferry
