// Operations that perform a single copy, in every form of the call. The explanation must match the actual copy.
#include "fuzz/limited_gate.h"
#include "fuzz/operations.h"

namespace ferry::test {

namespace {

// Returns true for a success. Options may force a route that does not support the copy. No other valid copy may be
// rejected.
bool went_well(world &w, std::int32_t status, std::int32_t explained, const ferry_error_info &error,
               const drawn_copy &drawn) {
    if (status == FERRY_ERROR_LIMIT && may_exceed_limits(drawn.options)) return false;
    if (would_block(w, status, error, drawn.options)) return false;
    if (status != explained && !(status == 0 && explained == FERRY_ERROR_WOULD_BLOCK)) {
        w.fail("ferry_copy_explain returned " + std::string(ferry_status_name(explained)) + ", but the call returned " +
               describe_status(status, error));
        return false;
    }
    w.expect(error.status == status, "the status in the error info differs from the returned status");
    if (status == 0) return true;
    if (status == FERRY_ERROR_ROUTE && is_forced(drawn.options)) {
        w.expect(error.side == FERRY_SIDE_OPTIONS && error.field == FERRY_FIELD_ROUTE,
                 "the error info does not name the route of the options");
        w.expect(std::string("?") != ferry_obstacle_text(static_cast<std::int32_t>(error.value)),
                 "the error info has an unknown obstacle");
        return false;
    }
    w.fail("a valid copy was refused: " + describe_status(status, error));
    return false;
}

// Adds options that only single copies on streams support: relays, and guarantees for the return of the call.
void add_options_of_streams(world &w, drawn_copy &drawn) {
    static constexpr how guarantees[] = {read_in_the_call, written_in_the_call, promises};
    const buffer &from = *drawn.source.in, &to = *drawn.destination.in;
    const bool is_between_devices = !from.traits().is_on_host && !to.traits().is_on_host && from.device != to.device;
    if (is_between_devices && drawn.options == how() && w.random.one_in(2)) {
        drawn.options = with_any_tag(w.random, by_relay);
    } else if (w.random.one_in(4)) {
        drawn.options |= w.random.of(guarantees);
        if (drawn.options.has(read_in_the_call)) w.wait_for(*drawn.source.in); // it may be read before earlier work
    }
    drawn.options = may_forbid_waits(w, drawn.options);
}

// After the call has returned, checks what the options guarantee and what the caller has waited for according to the
// explanation.
void check_waits(world &w, std::size_t lane, const drawn_copy &drawn, const ferry_explanation &explained) {
    buffer &from = *drawn.source.in, &to = *drawn.destination.in;
    const bool reuses = w.random.one_in(2); // drawn in any case, because the explanation may depend on timing
    if (explained.route == FERRY_ROUTE_NONE) return;
    const int device = w.lanes[lane].device;
    if (drawn.options.has(written_in_the_call) && to.is_pageable_beside(from, device) && is_only_of(to, lane))
        w.compare(to, "right after a call that promises a written destination");
    if (drawn.options.has(read_in_the_call) && from.is_pageable_beside(to, device)) {
        if (reuses && &from != &to && is_only_of(from, lane)) overwrite_source(drawn);
        return;
    }
    if (explained.blocks == FERRY_BLOCKS_NO) return;
    // The driver was predicted to be faster than staging. The reason may be a delay of staging that had ended by the
    // time of the call.
    if (explained.route == FERRY_ROUTE_DRIVER && explained.staged_obstacle == FERRY_OBSTACLE_NONE) return;
    // A copy in parts waits for some of its parts. A pinned part of the source is read later, and the pageable part may
    // still be staged, as above.
    if (explained.calls > 1) return;
    if (explained.blocks == FERRY_BLOCKS_UNTIL_DONE && to.traits().is_on_host && is_only_of(to, lane))
        w.compare(to, "right after a call that waits until the copy is done");
    const bool is_source_read =
        explained.blocks == FERRY_BLOCKS_UNTIL_DONE || explained.source_memory == FERRY_MEMORY_PAGEABLE;
    if (!reuses || !is_source_read || !from.traits().is_on_host || &from == &to || !is_only_of(from, lane)) return;
    overwrite_source(drawn);
}

void issue(world &w, const drawn_copy &drawn, std::size_t lane, bool with_ticket) {
    const struct lane &on = w.lanes[lane];
    const std::vector<effect> effects = {drawn};
    ferry_instance *const ferry = w.instance_for(effects);
    const ferry_copy_desc copy = drawn.describe();
    ferry_explanation explained = new_explanation();
    ferry_error_info error = new_error();
    ferry_ticket *ticket = nullptr;
    const CUcontext current = w.context_for(on);
    const std::int32_t said = w.call(
        current, [&] { return ferry_copy_explain_async(ferry, &copy, drawn.options, on.stream, &explained, nullptr); });
    const std::int32_t status = w.call(current, [&] {
        return ferry_copy_async(ferry, &copy, drawn.options, on.stream, with_ticket ? &ticket : nullptr, &error);
    });
    if (!went_well(w, status, said, error, drawn)) return;
    w.enqueued(lane, effects);
    check_waits(w, lane, drawn, explained);
    if (!ticket || said != 0) return w.keep_ticket(ticket, lane, effects, bytes_of(effects), drawn.options);
    ferry_ticket_info info = {};
    info.struct_size = sizeof info;
    w.require(ferry_ticket_get_info(ticket, &info, nullptr));
    // A copy may use the driver's route if no earlier work is on the stream: a short copy, and a long copy if staging
    // was delayed. Since the explanation, the earlier work may have completed, and other threads may have enqueued work
    // on the legacy stream.
    const auto goes_either_way = [&](std::int32_t route) {
        return route == FERRY_ROUTE_DRIVER || route == FERRY_ROUTE_STAGED ||
               (route == FERRY_ROUTE_BUFFERED && !drawn.options.has(in_stream_order));
    };
    const bool may_change = goes_either_way(info.route) && goes_either_way(explained.route) &&
                            (explained.route != FERRY_ROUTE_DRIVER || !w.is_alone());
    if (info.route != explained.route && !may_change)
        w.fail("the explanation has route " + std::to_string(explained.route) + ", but the ticket has route " +
               std::to_string(info.route));
    w.keep_ticket(ticket, lane, effects, bytes_of(effects), drawn.options);
}

void enqueue(world &w, bool with_ticket) {
    drawn_copy drawn = any_copy(w);
    add_options_of_streams(w, drawn);
    const std::size_t lane = w.any_lane();
    w.say(std::string("ferry_copy_async on '") + w.lanes[lane].name + "' of device " +
          std::to_string(w.lanes[lane].device) + ": " + drawn.words());
    w.wait_for_early_read(drawn);
    w.order(lane, {drawn});
    issue(w, drawn, lane, with_ticket);
}

// Draws a line and options that it cannot be rejected for.
drawn_copy any_line(world &w) {
    static constexpr how unfailing[] = {{}, {}, ordinary, in_stream_order, urgent, no_kernels, by_driver, max_sms(2)};
    buffer *from = nullptr, *to = nullptr;
    do {
        from = &any_source(w);
        to = &any_buffer(w);
    } while (from->is_array() || to->is_array() || from == to);
    drawn_copy drawn = draw_pieces(w.random, {from}, *to, 1).front();
    drawn.options = with_any_tag(w.random, w.random.of(unfailing));
    return drawn;
}

// Waits for the work that a synchronous call of this thread conflicts with. May omit work that the legacy stream waits
// for anyway, unless there is nothing to copy.
void wait_before(world &w, const drawn_copy &drawn, CUcontext current) {
    const extent &size = drawn.size;
    const bool is_ordered = size.width && size.height && size.depth && current && w.random.one_in(2);
    w.wait_for({drawn}, is_ordered ? w.lanes_of_legacy_stream(current) : 0);
}

} // namespace

void copy_on_a_stream(world &w) { enqueue(w, false); }
void copy_with_a_ticket(world &w) { enqueue(w, true); }

void copy_at_once(world &w) {
    const drawn_copy drawn = any_copy(w);
    const CUcontext current = w.any_context();
    w.say("ferry_copy: " + drawn.words());
    wait_before(w, drawn, current);
    w.compare_if_settled(*drawn.source.in, "the source of a synchronous copy");
    const std::vector<effect> effects = {drawn};
    ferry_instance *const ferry = w.instance_for(effects);
    const ferry_copy_desc copy = drawn.describe();
    ferry_explanation explained = new_explanation();
    ferry_error_info error = new_error();
    const std::int32_t said =
        w.call(current, [&] { return ferry_copy_explain(ferry, &copy, drawn.options, &explained, nullptr); });
    const std::int32_t status = w.call(current, [&] { return ferry_copy(ferry, &copy, drawn.options, &error); });
    if (!went_well(w, status, said, error, drawn)) return;
    w.done(effects);
    w.compare(*drawn.destination.in, "right after a synchronous copy");
}

void copy_bytes_on_a_stream(world &w) {
    const drawn_copy drawn = any_line(w);
    const std::size_t lane = w.any_lane();
    const struct lane &on = w.lanes[lane];
    w.say(std::string("ferry_copy_bytes_async on '") + on.name + "' of device " + std::to_string(on.device) + ": " +
          drawn.words());
    w.wait_for_early_read(drawn);
    w.order(lane, {drawn});
    const ferry_copy_desc copy = drawn.describe();
    ferry_instance *const ferry = w.instance_for({drawn});
    ferry_ticket *ticket = nullptr;
    const bool with_ticket = w.random.one_in(3);
    if (!w.require(w.call(w.context_for(on), [&] {
            return ferry_copy_bytes_async(ferry, copy.destination.address, copy.source.address, copy.width,
                                          drawn.options, on.stream, with_ticket ? &ticket : nullptr, nullptr);
        })))
        return;
    w.enqueued(lane, {drawn});
    w.keep_ticket(ticket, lane, {drawn}, bytes_of({drawn}), drawn.options);
}

void copy_bytes_at_once(world &w) {
    const drawn_copy drawn = any_line(w);
    const CUcontext current = w.any_context();
    w.say("ferry_copy_bytes: " + drawn.words());
    wait_before(w, drawn, current);
    const ferry_copy_desc copy = drawn.describe();
    ferry_instance *const ferry = w.instance_for({drawn});
    if (!w.require(w.call(current, [&] {
            return ferry_copy_bytes(ferry, copy.destination.address, copy.source.address, copy.width, drawn.options,
                                    nullptr);
        })))
        return;
    w.done({drawn});
    w.compare(*drawn.destination.in, "right after a synchronous copy");
}

namespace {

// The same box as a nest whose axes are in any order. Words of the row may be an axis too.
ferry_nest as_nest(world &w, const ferry_copy_desc &copy) {
    struct axis {
        std::uint64_t count, to, from;
    };
    const auto pitches_of = [&](const ferry_place &place) {
        const std::uint64_t row = place.row_pitch ? place.row_pitch : copy.width;
        const std::uint64_t slice =
            row * (place.slice_height ? place.slice_height : std::max<std::uint64_t>(copy.height, 1));
        return std::pair{row, slice};
    };
    const auto [to_row, to_slice] = pitches_of(copy.destination);
    const auto [from_row, from_slice] = pitches_of(copy.source);
    const std::uint64_t words = copy.width && copy.width % 4 == 0 && w.random.one_in(2) ? copy.width / 4 : 1;
    axis axes[] = {{words, copy.width / words, copy.width / words},
                   {std::max<std::uint64_t>(copy.height, 1), to_row, from_row},
                   {std::max<std::uint64_t>(copy.depth, 1), to_slice, from_slice}};
    std::swap(axes[0], axes[w.random.up_to(2)]);
    std::swap(axes[1], axes[1 + w.random.up_to(1)]);
    ferry_nest nest = {};
    for (ferry_nest_end *const end : {&nest.destination, &nest.source}) {
        const bool at_source = end == &nest.source;
        const ferry_place &place = at_source ? copy.source : copy.destination;
        const auto [row, slice] = pitches_of(place);
        end->place = place;
        end->place.address += place.x + place.y * row + place.z * slice;
        end->place.x = end->place.y = end->place.z = end->place.row_pitch = end->place.slice_height = 0;
        for (std::size_t i = 0; i < std::size(axes); ++i) {
            end->axes[i].count = axes[i].count;
            end->axes[i].stride = static_cast<std::int64_t>(at_source ? axes[i].from : axes[i].to);
        }
    }
    nest.width = copy.width / words;
    nest.axes = std::size(axes);
    return nest;
}

} // namespace

void nest_on_a_stream(world &w) {
    static constexpr how unfailing[] = {{}, {}, ordinary, in_stream_order, urgent, no_kernels, by_driver, max_sms(2)};
    drawn_copy drawn = any_copy(w);
    if (drawn.source.in->is_array() || drawn.destination.in->is_array()) return;
    drawn.options = with_any_tag(w.random, w.random.of(unfailing));
    const std::size_t lane = w.any_lane();
    const struct lane &on = w.lanes[lane];
    w.say(std::string("ferry_copy_nests_async on '") + on.name + "' of device " + std::to_string(on.device) + ": " +
          drawn.words());
    w.wait_for_early_read(drawn);
    w.order(lane, {drawn});
    const ferry_nest nest = as_nest(w, drawn.describe());
    ferry_instance *const ferry = w.instance_for({drawn});
    ferry_ticket *ticket = nullptr;
    const bool with_ticket = w.random.one_in(3);
    if (!w.require(w.call(w.context_for(on), [&] {
            return ferry_copy_nests_async(ferry, &nest, 1, drawn.options, on.stream, with_ticket ? &ticket : nullptr,
                                          nullptr);
        })))
        return;
    w.enqueued(lane, {drawn});
    w.keep_ticket(ticket, lane, {drawn}, bytes_of({drawn}), drawn.options);
}

// ---- Waiting

void copy_on_a_held_stream(world &w) {
    if (w.run.setting.kernels == FERRY_KERNELS_LAZY && w.run.setting.staging == FERRY_STAGING_NONE)
        return; // loading would wait
    drawn_copy drawn = any_copy(w);
    add_options_of_streams(w, drawn);
    const std::size_t lane = w.any_lane([](const struct lane &one) { return !one.is_default; });
    const struct lane &on = w.lanes[lane];
    ferry_instance *const ferry = w.instance_for({drawn});
    const ferry_copy_desc copy = drawn.describe();
    w.say(std::string("ferry_copy_async on a held '") + on.name + "' of device " + std::to_string(on.device) + ": " +
          drawn.words());
    // Staging is prepared first, because a first copy may wait.
    const std::int32_t prepared = w.call(on.context, [&] { return ferry_staging_prepare(ferry, on.device, nullptr); });
    w.expect(prepared == 0 || prepared == FERRY_ERROR_UNSUPPORTED, "ferry_staging_prepare failed");
    w.wait_for_early_read(drawn);
    w.order(lane, {drawn});
    ferry_explanation explained = new_explanation();
    ferry_error_info error = new_error();
    const CUcontext current = w.any_context();
    limited_gate gate(on);
    const std::int32_t said = w.call(
        current, [&] { return ferry_copy_explain_async(ferry, &copy, drawn.options, on.stream, &explained, nullptr); });
    if (explained.blocks != FERRY_BLOCKS_NO) gate.open();
    // Staging without a kernel needs slots. If other copies, or other parts of this copy, use the slots, the driver
    // performs the copy and waits for the stream (docs/contract.md). The ticket reports the route.
    const bool may_lack_slots = explained.route == FERRY_ROUTE_STAGED && explained.max_sms == 0;
    ferry_ticket *ticket = nullptr;
    const std::int32_t status = w.call(current, [&] {
        return ferry_copy_async(ferry, &copy, drawn.options, on.stream, may_lack_slots ? &ticket : nullptr, &error);
    });
    ferry_ticket_info info = {};
    info.struct_size = sizeof info;
    if (ticket) {
        w.require(ferry_ticket_get_info(ticket, &info, nullptr));
        w.require(ferry_ticket_release(ticket, nullptr));
    }
    const bool lacked_slots = may_lack_slots && (info.route == FERRY_ROUTE_DRIVER || explained.calls > 1);
    w.expect(!gate.has_timed_out() || lacked_slots, "the call waited for its stream, but the explanation denied it");
    gate.open();
    if (!went_well(w, status, said, error, drawn)) return;
    w.enqueued(lane, {drawn});
    check_waits(w, lane, drawn, explained);
}

void make_a_stream_wait_for_a_ticket(world &w) {
    if (w.tickets.empty()) return;
    const held_ticket held = w.tickets[w.random.up_to(w.tickets.size() - 1)];
    const struct lane &on = w.lanes[w.any_lane()];
    w.say("'" + std::string(on.name) + "' waits for the ticket of operation " + std::to_string(held.operation));
    w.require(w.call(w.context_for(on), [&] { return ferry_ticket_wait_async(held.ticket, on.stream, nullptr); }));
}

void query_a_ticket(world &w) {
    if (w.tickets.empty()) return;
    const std::size_t chosen = w.random.up_to(w.tickets.size() - 1);
    const held_ticket held = w.tickets[chosen];
    const bool waits = w.random.one_in(2);
    w.say(std::string(waits ? "waiting for" : "querying") + " the ticket of operation " +
          std::to_string(held.operation));
    const auto wait = [&] {
        // Waits with short time-outs, for any of several tickets, or without a limit.
        std::int64_t timeout = w.random.one_in(2) ? FERRY_NO_TIMEOUT : 100'000;
        if (w.random.one_in(3)) {
            std::vector<ferry_ticket *> any;
            for (const held_ticket &one : w.tickets)
                any.push_back(one.ticket);
            std::uint64_t index = any.size();
            const std::int32_t status = w.call(w.any_context(), [&] {
                return ferry_ticket_wait_any(any.data(), any.size(), timeout, &index, nullptr);
            });
            w.expect(status == FERRY_ERROR_NOT_READY || (status == FERRY_SUCCESS && index < any.size()),
                     "waiting for any ticket failed");
            ferry_ticket_info found = {};
            found.struct_size = sizeof found;
            if (!status) w.require(ferry_ticket_get_info(any[index], &found, nullptr));
            w.expect(status || found.done, "a wait for any ticket returned one that is not done");
            timeout = FERRY_NO_TIMEOUT;
        }
        const auto context = w.any_context(); // drawn once, because the number of waits depends on timing
        for (;;) {
            const std::int32_t status =
                w.call(context, [&] { return ferry_ticket_wait(held.ticket, timeout, nullptr); });
            if (status != FERRY_ERROR_NOT_READY) return w.require(status);
        }
    };
    if (waits) wait();
    const ferry_ticket_info info = w.query_ticket(held);
    w.expect(info.done || !waits, "a ticket that was waited for is not done");
    if (info.done && bytes_of(held.effects) != 0) // otherwise it is done immediately
        for (const effect &one : held.effects)
            if (const buffer &to = *destination_of(one);
                (to.traits().is_on_host || to.file()) && w.last_write_of(to) == held.operation)
                w.compare(to, "after the ticket reported completion");
    if (w.random.one_in(2)) w.release_ticket(chosen);
}

} // namespace ferry::test
