#include "batch/pageable.h"

#include <algorithm>

#include "device/stream_order.h"
#include "plan/pageable_pieces.h"
#include "plan/staged_chunks.h"
#include "routes/staged.h"
#include "submit/choice.h"
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
        count += box.route == batch_route::calls && box.group == group;
    return count;
}

error gather(batch_request &request, piece_group group, pageable_copies &to) noexcept {
    const int number = static_cast<int>(group);
    if (!to.pieces.reserve(request.pieces.facts(number).count)) return no_memory;
    for (const batch_piece *piece = request.pieces.begin(number); piece != request.pieces.end(number); ++piece)
        if (!add_piece(*piece, request.ranges, to)) return no_memory;
    for (const batch_box &box : request.boxes)
        if (box.route == batch_route::calls && box.group == group && !add_rows(box, request.ranges, to))
            return no_memory;
    return {};
}

// The driver rejects unreadable memory with an error. A staging thread that accessed such memory would end the process.
// The memory of a prepared batch may have changed since its checks.
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

// Whether the program's earlier work on the stream is complete.
error look_at_stream(const batch_submission &of, const pageable_copies &copies, bool &is_idle) noexcept {
    call_facts call = {
        .context_device = of.request.context_device, .form = of.form, .is_captured = of.site.is_captured};
    shape any = {};
    any.source.kind = copies.to_device ? memory_kind::pageable : memory_kind::device;
    any.destination.kind = copies.to_device ? memory_kind::device : memory_kind::pageable;
    any.width = copies.bytes;
    any.height = any.depth = 1;
    const error failed = look_at_stream(of.instance, any, of.site.stream, call);
    is_idle = call.is_stream_idle;
    return failed;
}

} // namespace

void plan_pageable(ferry_instance &instance, batch_request &request) noexcept {
    const copy_preferences &wanted = request.preferences;
    for (pageable_copies &of : request.pageable) {
        of.pieces.clear();
        of.bytes = 0;
        of.to_device = &of == request.pageable;
        const auto group = of.to_device ? piece_group::pageable_up : piece_group::pageable_down;
        batch_plan &plan = request.plans[static_cast<int>(group)];
        plan.route = batch_route::calls;
        if (!may_be_staged(instance, wanted)) continue;
        const std::uint64_t count = count_copies(request, group);
        // One piece is planned as a single copy.
        const bool is_one = count < 2 && wanted.forced != route_kind::staged && !wanted.no_wait;
        if (count == 0 || is_one || gather(request, group, of) ||
            instance.kernels.load_into(request.context.wanted, !wanted.no_wait)) {
            of.pieces.clear();
            continue;
        }
        plan.route = batch_route::staged;
        for (batch_box &box : request.boxes)
            if (box.route == batch_route::calls && box.group == group) box.route = batch_route::staged;
    }
}

error choose_staging(const batch_submission &of, const pageable_copies &copies, staging_choice &choice) noexcept {
    if (copies.pieces.size() == 0) return {};
    ferry_instance &instance = of.instance;
    const int device = of.request.context_device;
    pageable_facts facts = {.direction =
                                copies.to_device ? copy_direction::host_to_device : copy_direction::device_to_host,
                            .form = of.site.is_waited_for ? copy_form::synchronous : copy_form::asynchronous};
    facts.count = copies.pieces.size();
    facts.bytes = copies.bytes;
    const piece_group group = copies.to_device ? piece_group::pageable_up : piece_group::pageable_down;
    facts.largest = of.request.pieces.facts(static_cast<int>(group)).largest;
    facts.is_captured = of.site.is_captured;
    facts.threads = instance.staging_threads;
    facts.preferences = of.request.preferences;
    facts.profile = instance.profiles.of(device);
    const staging_engine::delays late = instance.staging.delays_on(device);
    const bool is_awaited = of.site.is_waited_for || facts.preferences.is_awaited(copies.to_device);
    choice.is_helped = is_awaited && !facts.is_captured;
    choice.delay_ns = facts.delay_ns = late.start_ns + (is_awaited ? 0 : late.threads_ns);
    if (of.is_at_home()) {
        if (error failed = look_at_stream(of, copies, choice.is_stream_idle)) return failed;
        facts.is_stream_idle = choice.is_stream_idle;
        const bool may_wait = !of.site.no_wait, is_wanted = may_wait ? are_pieces_staged(facts) : !choice.is_helped;
        choice.is_staged = is_wanted && may_threads_touch(instance, copies);
        const bool is_ready =
            choice.is_staged && (of.site.is_waited_for || is_ready_to_stage(instance, device, may_wait));
        if (!may_wait && choice.is_staged && !is_ready) return refuse_route(obstacle::not_prepared);
        if (!may_wait && choice.is_staged && !instance.staging.has_launches()) return refuse_route(obstacle::busy);
        choice.is_staged = is_ready;
    }
    const pageable_forecast expected = predict_pageable(facts);
    choice.staged_ns = expected.staged_ns;
    choice.calls_ns = expected.calls_ns;
    const std::uint32_t blocks = blocks_for_threads(instance.staging_threads, copies.to_device);
    const std::uint16_t limit = facts.preferences.max_blocks;
    choice.blocks = static_cast<std::uint16_t>(limit ? std::min<std::uint32_t>(limit, blocks) : blocks);
    return {};
}

error run_staged_pieces(const batch_submission &of, const batch_step &step, staged_progress *progress) noexcept {
    const bool to_device = step.group == piece_group::pageable_up;
    const pageable_copies &copies = of.request.pageable[to_device ? 0 : 1];
    const copy_preferences &wanted = of.request.preferences;
    const bool may_driver_serve = !of.site.is_captured && wanted.forced != route_kind::staged;
    const bool must_start_soon =
        may_driver_serve && step.is_first && !of.site.no_wait && !follows_legacy_stream(of.instance.cu, of.site.stream);
    const staged_copy copy = {
        .box = {.device = {}, .host = {}, .width = 0, .height = 0, .depth = 0, .to_device = to_device},
        .pieces = {copies.pieces.begin(), copies.pieces.size(), copies.bytes},
        .device = of.request.context_device,
        .context = of.site.context,
        .blocks = wanted.max_blocks,
        .is_captured = of.site.is_captured,
        .caller_helps = progress != nullptr,
        .is_stream_idle = step.is_first,
        .start_patience_us = must_start_soon ? staged_copy::least_patience_us : std::uint16_t{0}};
    return of.instance.staging.enqueue(copy, of.site.stream, progress);
}

} // namespace ferry
