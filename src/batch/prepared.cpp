#include "batch/prepared.h"

#include <algorithm>
#include <new>

#include "batch/prepared_table.h"
#include "batch/steps.h"
#include "device/capture_mode.h"
#include "exec/kernel_launch.h"
#include "submit/note_error.h"
#include "submit/ticket.h"

namespace ferry {

// ---- Creating and destroying

namespace {

// Whether a piece of the input is one whole piece of the request. A piece is split where an allocation ends.
bool is_whole(const ferry_piece &given, const batch_request &request, std::size_t piece) noexcept {
    return piece < request.pieces.size() && request.pieces[piece].destination == given.destination &&
           request.pieces[piece].size == given.size;
}

error refuse_cut(std::uint64_t index, batch_request &request) noexcept {
    request.bad_index = index;
    return refuse(FERRY_ERROR_OUT_OF_BOUNDS, FERRY_SIDE_DESCRIPTOR, FERRY_FIELD_ADDRESS);
}

// Records the input of an updatable batch and the group of each piece. Rejects a piece with a size that is not one
// whole piece of the request.
error note_kinds(ferry_prepared &prepared, const batch_input &input) noexcept {
    batch_request &request = *prepared.request;
    if (!prepared.pieces.reserve(input.count) || !prepared.kinds.reserve(request.pieces.size())) return no_memory;
    for (std::uint64_t i = 0; i < input.count; ++i)
        prepared.pieces.append_reserved(input.pieces[i]);
    for (const batch_piece &piece : request.pieces)
        prepared.kinds.append_reserved(group_of(request.ranges[piece.from], request.ranges[piece.to]));
    std::size_t piece = 0;
    for (std::uint64_t i = 0; i < input.count; ++i)
        if (prepared.pieces[i].size != 0 && !is_whole(prepared.pieces[i], request, piece++))
            return refuse_cut(i, request);
    return {};
}

// Plans the batch, and finds a copy that launches would reject.
error choose_routes(ferry_instance &instance, const batch_input &input, const batch_plan *ways, CUstream stream,
                    batch_request &request) noexcept {
    if (error failed = choose_batch_routes(instance, input, true, ways, request)) return failed;
    // Boxes of a batch with preferences were planned before.
    if (!request.preferences.may_be_refused()) return {};
    const launch_site site = {request.context.wanted, stream, false};
    batch_steps steps;
    shape refused;
    const error failed = make_checked_steps({instance, request, copy_form::asynchronous, site}, steps, refused);
    if (failed) request.bad_index = index_of(instance, input, refused);
    return failed;
}

// Makes the table too.
error prepare_batch(ferry_prepared &prepared, const batch_input &input, CUstream stream) noexcept {
    ferry_instance &instance = prepared.instance;
    batch_request &request = *prepared.request;
    prepared.options = input.options;
    context_scope scope(instance.cu);
    if (error failed = enter_batch_context(instance, input, stream, request, scope)) return failed;
    if (error failed = validate_batch(instance, input, !prepared.options.is_updatable, stream, request)) return failed;
    if (prepared.options.is_updatable)
        if (error failed = note_kinds(prepared, input)) return failed;
    if (error failed = choose_routes(instance, input, nullptr, stream, request)) return failed;
    return make_table(prepared);
}

// Plans the nests. `boxes` receives the boxes of all nests that no kernel copies, and `ends` their number up to the end
// of each nest.
error plan_nests(ferry_prepared &prepared, const nest_input &input, const nest_site &site,
                 growing<ferry_copy_desc> &boxes, growing<std::uint64_t> &ends, error_item &bad) noexcept {
    nest_plan plan;
    int bad_axis = no_axis;
    const auto add_box = [&](const ferry_copy_desc &box) noexcept { return boxes.append(box) ? ok : no_memory; };
    const auto add = [&]() noexcept -> error {
        if (plan.is_empty()) return {};
        if (plan.way != nest_way::kernel)
            return for_each_box(plan.given.moved, plan.boxes, plan.given.destination, plan.given.source, add_box);
        return prepared.nests.append({plan.seen, plan.link, plan.blocks, plan.skipped}) ? ok : no_memory;
    };
    for (std::uint64_t i = 0; i < input.count; ++i) {
        plan = {};
        error failed = plan_nest(prepared.instance, input.nests[i], input.options, site, plan, bad_axis);
        if (!failed && !plan.is_empty() && plan.has_file())
            failed = refuse_value(FERRY_ERROR_UNSUPPORTED, FERRY_SIDE_NONE, FERRY_FIELD_FILE, 0);
        if (!failed) failed = add();
        if (failed) return bad = item_of_nest(i, bad_axis), failed;
        if (!ends.append(boxes.size())) return no_memory;
    }
    return {};
}

error prepare_nests(ferry_prepared &prepared, const nest_input &input, CUstream stream, error_item &bad) noexcept {
    ferry_instance &instance = prepared.instance;
    nest_site site = {.stream = stream, .form = copy_form::asynchronous, .is_prepared = true};
    context_scope scope(instance.cu);
    if (error failed = enter_context_of_nests(instance, input, scope, site)) return failed;
    growing<ferry_copy_desc> boxes(instance.allocator);
    growing<std::uint64_t> ends(instance.allocator);
    if (error failed = plan_nests(prepared, input, site, boxes, ends, bad)) return failed;
    batch_input batch = {
        .copies = boxes.begin(), .count = boxes.size(), .takes_files = false, .options = input.options};
    batch.options.checks_overlap = false; // the nests were checked
    const error failed = prepare_batch(prepared, batch, stream);
    const std::uint64_t index = prepared.request->bad_index;
    if (failed && index != no_index) {
        const std::uint64_t *const nest = std::upper_bound(ends.begin(), ends.end(), index);
        bad = item_of_nest(static_cast<std::uint64_t>(nest - ends.begin()), no_axis);
    }
    return failed;
}

void end_without_table(ferry_prepared &prepared) noexcept {
    ferry_instance &instance = prepared.instance;
    instance.requests.release(*prepared.request);
    prepared.~ferry_prepared();
    instance.allocator.deallocate(&prepared, sizeof(ferry_prepared));
}

error end(ferry_prepared &prepared) noexcept {
    const error failed = free_table_of(prepared);
    end_without_table(prepared);
    return failed;
}

error create(ferry_instance &instance, function_ref<error(ferry_prepared &)> prepare,
             ferry_prepared *&prepared) noexcept {
    batch_request *const request = instance.requests.take();
    if (!request) return no_memory;
    void *const place = instance.allocator.allocate(sizeof(ferry_prepared), alignof(ferry_prepared));
    if (!place) {
        instance.requests.release(*request);
        return no_memory;
    }
    auto *const made = new (place) ferry_prepared(instance, *request);
    const error failed = prepare(*made);
    if (failed) {
        note_error(instance, failed);
        end(*made);
    } else {
        prepared = made;
    }
    return failed;
}

} // namespace

error create_prepared(ferry_instance &instance, const batch_input &input, CUstream stream, ferry_prepared *&prepared,
                      std::uint64_t &bad_index) noexcept {
    bad_index = no_index;
    const auto prepare = [&](ferry_prepared &made) noexcept {
        const error failed = prepare_batch(made, input, stream);
        if (failed) bad_index = made.request->bad_index;
        return failed;
    };
    return create(instance, prepare, prepared);
}

error create_prepared_nests(ferry_instance &instance, const nest_input &input, CUstream stream,
                            ferry_prepared *&prepared, error_item &bad) noexcept {
    bad = {};
    const auto prepare = [&](ferry_prepared &made) noexcept { return prepare_nests(made, input, stream, bad); };
    return create(instance, prepare, prepared);
}

error destroy_prepared(ferry_prepared &prepared) noexcept {
    return prepared.instance.fork_mark.is_in_child() ? error{.status = no_driver_in_child} : end(prepared);
}

error destroy_prepared_deferred(ferry_prepared &prepared, CUstream stream) noexcept {
    ferry_instance &instance = prepared.instance;
    if (instance.fork_mark.is_in_child()) return in_child;
    if (error failed = defer_table_of(prepared, stream)) {
        note_error(instance, failed);
        return failed;
    }
    end_without_table(prepared);
    return {};
}

// ---- Launching and changing

namespace {

// Makes the stream's context current. Rejects a context that is not on the device of the batch.
error enter_stream(ferry_prepared &prepared, CUstream stream, context_scope &scope, CUcontext &context) noexcept {
    ferry_instance &instance = prepared.instance;
    const int wanted = prepared.request->context_device;
    context_choice choice;
    if (error failed = choose_context(instance.cu, instance.contexts, stream, wanted, choice)) return failed;
    if (error failed = scope.enter(choice.wanted, choice.current)) return failed;
    int device = -1;
    if (error failed = instance.contexts.device_of_current(choice.wanted, device)) return failed;
    context = choice.wanted;
    if (device == wanted) return {};
    return refuse_signed(FERRY_ERROR_DEVICE, FERRY_SIDE_NONE, FERRY_FIELD_DEVICE, numbers::equal, wanted, device);
}

bool is_at_home(const ferry_prepared &prepared, CUcontext context) noexcept {
    return context == prepared.request->context.wanted;
}

// Whether a graph in the batch's own context would read all addresses from the table.
bool reads_all_from_table(const ferry_prepared &prepared) noexcept {
    for (int group = 0; group < piece_groups; ++group)
        if (prepared.request->pieces.facts(group).count != 0 && !prepared.tables[group].address) return false;
    return true;
}

error launch_nests(const ferry_prepared &prepared, CUstream stream) noexcept {
    ferry_instance &instance = prepared.instance;
    for (const prepared_nest &one : prepared.nests) {
        if (error failed =
                launch_nest(instance.cu, instance.kernels, one.seen, one.link, one.skipped, one.blocks, stream))
            return failed;
        if (instance.trace) instance.trace.note(route_kind::kernel, prepared.request->context.wanted);
        instance.counters.add(prepared.request->context_device, route_kind::kernel, stream, 1, one.seen.bytes(), 0);
    }
    return {};
}

error launch(ferry_prepared &prepared, bool no_wait, CUstream stream, ferry_ticket *ticket) noexcept {
    ferry_instance &instance = prepared.instance;
    context_scope scope(instance.cu);
    launch_site site = {
        .context = nullptr, .stream = stream, .is_captured = false, .tables = prepared.tables, .no_wait = no_wait};
    if (error failed = enter_stream(prepared, stream, scope, site.context)) return failed;
    if (error failed = query_capture(instance.cu, stream, site.is_captured)) return failed;
    const bool holds_addresses = !is_at_home(prepared, site.context) || !reads_all_from_table(prepared);
    if (site.is_captured && prepared.options.is_updatable && holds_addresses) return {.status = FERRY_ERROR_CAPTURE};
    const batch_submission of = {instance, *prepared.request, copy_form::asynchronous, site};
    batch_steps steps;
    shape refused;
    if (error failed = make_checked_steps(of, steps, refused)) return failed;
    // Kernels of another context may not see the memory.
    if (prepared.nests.size() != 0 && !is_at_home(prepared, site.context)) return {.status = FERRY_ERROR_UNSUPPORTED};
    if (error failed = begin_ticket(ticket, stream)) return failed;
    if (error failed = run_steps(of, steps)) return failed;
    if (error failed = launch_nests(prepared, stream)) return failed;
    return end_ticket(ticket, stream);
}

} // namespace

error launch_prepared(ferry_prepared &prepared, bool no_wait, CUstream stream, ferry_ticket *ticket) noexcept {
    const error failed = launch(prepared, no_wait, stream, ticket);
    if (failed) note_error(prepared.instance, failed);
    return failed;
}

namespace {

// The end of a piece whose new address changed the piece's group.
std::int32_t side_of_change(const ferry_piece &changed, const ferry_piece &old, const known_range &to,
                            piece_group of_old) noexcept {
    if (changed.source == old.source) return FERRY_SIDE_DESTINATION;
    if (changed.destination == old.destination) return FERRY_SIDE_SOURCE;
    for (int use = 0; use < range_uses; ++use) // the destination may still be as before
        if (group_of(static_cast<range_use>(use), to.as_destination) == of_old) return FERRY_SIDE_SOURCE;
    return FERRY_SIDE_DESTINATION;
}

// For the piece at `at` of the request.
error refuse_other_group(const ferry_piece &changed, const ferry_piece &old, const batch_request &request,
                         std::size_t at, piece_group of_old) noexcept {
    const std::int32_t side = side_of_change(changed, old, request.ranges[request.pieces[at].to], of_old);
    const bool is_source = side == FERRY_SIDE_SOURCE;
    return refuse(FERRY_ERROR_OTHER_KIND, side, FERRY_FIELD_ADDRESS, numbers::prepared,
                  is_source ? old.source : old.destination, is_source ? changed.source : changed.destination);
}

// Checks that only the addresses change.
error compare_with_old(const ferry_prepared &prepared, batch_request &request) noexcept {
    std::size_t piece = 0;
    for (std::size_t i = 0; i < prepared.pieces.size(); ++i) {
        const ferry_piece &changed = prepared.changed[i];
        if (changed.size == 0) continue;
        request.bad_index = i;
        constexpr std::uint64_t word = 16; // units of pieces are counted from multiples of this
        const ferry_piece &old = prepared.pieces[i];
        if ((changed.destination - old.destination) % word)
            return refuse(FERRY_ERROR_ALIGNMENT, FERRY_SIDE_DESTINATION, FERRY_FIELD_ADDRESS, numbers::shift, word,
                          changed.destination);
        if (!is_whole(changed, request, piece)) return refuse_cut(i, request);
        const batch_piece &one = request.pieces[piece];
        if (group_of(request.ranges[one.from], request.ranges[one.to]) != prepared.kinds[piece])
            return refuse_other_group(changed, old, request, piece, prepared.kinds[piece]);
        ++piece;
    }
    request.bad_index = no_index;
    return {};
}

error check_and_send(ferry_prepared &prepared, const batch_input &input, CUstream stream,
                     batch_request &request) noexcept {
    ferry_instance &instance = prepared.instance;
    request.bad_index = no_index;
    request.context_device = prepared.request->context_device;
    context_scope scope(instance.cu);
    CUcontext of_stream = nullptr;
    if (error failed = enter_stream(prepared, stream, scope, of_stream)) return failed;
    if (error failed = refuse_captured(instance.cu, stream)) return failed;
    request.context.wanted = prepared.request->context.wanted;
    {
        context_scope home(instance.cu);
        if (error failed = home.enter(request.context.wanted, of_stream)) return failed;
        if (error failed = validate_batch(instance, input, false, stream, request)) return failed;
        if (error failed = compare_with_old(prepared, request)) return failed;
        if (error failed = choose_routes(instance, input, prepared.request->plans, stream, request)) return failed;
    }
    return change_table(prepared, request, stream);
}

} // namespace

error set_addresses(ferry_prepared &prepared, const piece_list &given, std::uint64_t count, CUstream stream,
                    std::uint64_t &bad_index) noexcept {
    if (!prepared.options.is_updatable) // the flags that the batch was prepared with
        return refuse_option(FERRY_ERROR_UNSUPPORTED, FERRY_FIELD_FLAGS, numbers::lacks, FERRY_COPY_UPDATABLE, 0);
    if (count != prepared.pieces.size())
        return refuse(FERRY_ERROR_INVALID_ARGUMENT, FERRY_SIDE_PIECES, FERRY_FIELD_COUNT, numbers::equal,
                      prepared.pieces.size(), count);
    ferry_instance &instance = prepared.instance;
    if (!prepared.changed.resize(count)) return no_memory;
    for (std::size_t i = 0; i < count; ++i) {
        const ferry_piece &old = prepared.pieces[i];
        prepared.changed[i] = {given.has_destinations() ? given.destination(i) : old.destination,
                               given.has_sources() ? given.source(i) : old.source, old.size};
    }
    const batch_input input = {
        .pieces = piece_list(prepared.changed.begin()), .count = count, .options = prepared.options};
    batch_request *request = instance.requests.take();
    if (!request) return no_memory;
    const error failed = check_and_send(prepared, input, stream, *request);
    bad_index = failed ? request->bad_index : no_index;
    if (failed) {
        note_error(instance, failed);
    } else {
        prepared.pieces.swap(prepared.changed);
        std::swap(prepared.request, request);
    }
    instance.requests.release(*request);
    return failed;
}

} // namespace ferry
