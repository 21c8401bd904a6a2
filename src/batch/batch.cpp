// Runs many copies in one call: checks all of them, plans them by groups, and enqueues them.
#include "batch/batch.h"

#include "batch/broadcast.h"
#include "batch/file_pieces.h"
#include "batch/steps.h"
#include "device/capture_mode.h"
#include "device/stream_order.h"
#include "exec/driver_copy.h"
#include "routes/devices_at_work.h"
#include "submit/copy.h"
#include "submit/note_error.h"
#include "submit/ticket.h"

namespace ferry {

namespace {

// Checks and plans a batch for the stream. A request that is empty afterwards was not planned.
error plan(ferry_instance &instance, const batch_input &input, CUstream stream, batch_request &request,
           context_scope &scope, bool &is_captured) noexcept {
    if (error failed = enter_batch_context(instance, input, stream, request, scope)) return failed;
    const bool merges = !input.options.is_updatable;
    if (error failed = validate_batch(instance, input, merges, stream, request)) return failed;
    if (request.is_empty()) return {};
    if (error failed = query_capture(instance.cu, stream, is_captured)) return failed;
    return choose_batch_routes(instance, input, takes_batch_calls(stream, is_captured), nullptr, request);
}

// Makes and checks the steps of a planned request, and notes which copy of the input they refuse.
error make_steps(const batch_submission &of, const batch_input &input, batch_request &request,
                 batch_steps &steps) noexcept {
    shape refused;
    const error failed = make_checked_steps(of, steps, refused);
    if (failed) request.bad_index = index_of(of.instance, input, refused);
    return failed;
}

// Makes the steps of a planned request, and runs them. If `found` is not null, explains them instead.
error submit(ferry_instance &instance, const batch_input &input, batch_request &request, copy_form form,
             const launch_site &site, ferry_batch_explanation *found = nullptr) noexcept {
    const batch_submission of = {instance, request, form, site};
    batch_steps steps;
    if (error failed = make_steps(of, input, request, steps)) return failed;
    if (!found) return run_steps(of, steps);
    blocking longest = blocking::no;
    if (error failed = explain_calls(of, steps, longest)) return failed;
    explain_steps(of, steps, *found);
    found->blocks = static_cast<std::int32_t>(longest);
    return {};
}

// ---- Broadcasts

// Plans the copies that are in no broadcast as a separate batch, and calls work(request) if there are any.
error with_rest(ferry_instance &instance, const broadcast_sets &sets, CUstream stream, std::uint64_t &bad_index,
                function_ref<error(batch_request &)> work) noexcept {
    if (sets.rest().count == 0) return {};
    const borrowed_request borrowed(instance.requests);
    if (!borrowed) return no_memory;
    batch_request &rest = *borrowed;
    rest.context = {};
    context_scope scope(instance.cu);
    bool is_captured = false;
    error failed = plan(instance, sets.rest(), stream, rest, scope, is_captured);
    if (!failed && !rest.is_empty()) failed = work(rest);
    if (failed) bad_index = sets.index_of_rest(rest.bad_index);
    return failed;
}

// A broadcast counts as copies by the driver in the batch's own context.
void note_broadcast(ferry_instance &instance, const broadcast_sets &sets, std::size_t set,
                    const launch_site &site) noexcept {
    int device = 0;
    if (!instance.contexts.device_of_current(site.context, device))
        instance.counters.add(device, route_kind::driver, site.stream, sets.count(set),
                              sets.begin(set)->size * sets.count(set));
    if (instance.trace) instance.trace.note(route_kind::driver, site.context);
}

// Marks the present work of the stream, so that several broadcasts follow it and run at the same time as each other and as
// the other copies. Returns null if there is only one broadcast, or no lane is free.
lane *mark_before(ferry_instance &instance, const broadcast_sets &sets, const launch_site &site,
                  taken_lane &before) noexcept {
    stream_key user;
    const bool are_several = sets.size() > 1 || sets.rest().count != 0;
    if (!are_several || name_stream(instance.cu, site.context, site.stream, user) || before.take(site.context, user) ||
        instance.lanes.mark(*before, site.stream))
        return nullptr;
    return &*before;
}

// The broadcasts use their own lanes, for which the stream waits after the other copies.
error run_with_broadcasts(ferry_instance &instance, broadcast_sets &sets, const launch_site &site,
                          std::uint64_t &bad_index) noexcept {
    // Validation accepts a copy of a file to another device, which is not possible if it is in no broadcast.
    const auto check = [&](batch_request &rest) noexcept {
        batch_steps steps;
        return make_steps({instance, rest, copy_form::asynchronous, site}, sets.rest(), rest, steps);
    };
    error failed;
    if (site.files) failed = with_rest(instance, sets, site.stream, bad_index, check);
    if (failed) return failed;
    const bool was_idle = is_idle(instance.cu, site.stream, false); // regardless of the legacy stream
    taken_lane marked(instance.lanes);
    lane *const before = mark_before(instance, sets, site, marked);
    failed = with_rest(instance, sets, site.stream, bad_index, [&](batch_request &rest) noexcept {
        return submit(instance, sets.rest(), rest, copy_form::asynchronous, site);
    });
    for (std::size_t set = 0; set < sets.size(); ++set) {
        std::uint64_t index = no_index;
        const error refused = run_broadcast(instance, sets, set, site, was_idle, before, index);
        if (refused && !failed) bad_index = index;
        if (!refused) note_broadcast(instance, sets, set, site);
        if (!failed) failed = refused;
    }
    return failed;
}

// Devices forward chunks, so if the context of a device dies, the other devices miss bytes. Such broadcasts are
// repeated without that device.
error run_with_broadcasts_and_wait(ferry_instance &instance, batch_request &request, const launch_site &site,
                                   std::uint64_t &bad_index) noexcept {
    broadcast_sets &sets = request.broadcasts;
    const auto dead_of = [&](std::size_t set) noexcept {
        return count_dead(instance, sets.begin(set), sets.count(set), site);
    };
    growing<std::size_t> &dead = request.dead;
    dead.clear();
    for (std::size_t set = 0; set < sets.size(); ++set)
        if (!dead.append(dead_of(set))) return no_memory;
    error failed = run_with_broadcasts(instance, sets, site, bad_index);
    error passed = wait_for_devices(instance, site.context, site.stream);
    for (std::size_t set = 0; set < sets.size(); ++set)
        for (std::size_t now = dead_of(set); now > dead[set]; now = dead_of(set)) {
            dead.begin()[set] = now;
            std::uint64_t index = no_index;
            const error refused = run_broadcast(instance, sets, set, site, true, nullptr, index);
            if (refused && !failed) bad_index = index;
            if (!failed) failed = refused;
            if (const error again = wait_for_devices(instance, site.context, site.stream)) passed = again;
        }
    return failed ? failed : passed;
}

// ---- Whole batches

// Checks and plans the whole batch, and finds its broadcasts, for the execution and for the explanation. An empty
// request has nothing to do.
error begin(ferry_instance &instance, const batch_input &input, copy_form form, CUstream stream, batch_request &request,
            context_scope &scope, launch_site &site) noexcept {
    bool is_captured = false;
    if (error failed = plan(instance, input, stream, request, scope, is_captured)) return failed;
    if (request.is_empty()) return {};
    site = {request.context.wanted, stream, is_captured};
    site.is_waited_for = form == copy_form::synchronous;
    site.no_wait = request.preferences.no_wait;
    if (site.no_wait && site.is_waited_for) return refuse_route(obstacle::waits);
    request.broadcasts.clear();
    if (is_captured || site.no_wait) return {}; // a broadcast may create lanes
    if (input.options.is_updatable) return {};  // a prepared batch has no broadcasts
    // If the program's threads stage, the calling thread must help while it waits. Broadcasts do not support that.
    const bool may_wait_alone = site.is_waited_for && instance.report.uses_program_threads;
    return request.broadcasts.find(instance, input, request, !may_wait_alone);
}

// Runs a planned batch at the site.
error run_planned(ferry_instance &instance, const batch_input &input, copy_form form, const launch_site &site,
                  batch_request &request) noexcept {
    if (!request.broadcasts.empty())
        return form == copy_form::asynchronous
                   ? run_with_broadcasts(instance, request.broadcasts, site, request.bad_index)
                   : run_with_broadcasts_and_wait(instance, request, site, request.bad_index);
    if (form == copy_form::asynchronous || is_single_call(request)) return submit(instance, input, request, form, site);
    const error failed = submit(instance, input, request, copy_form::asynchronous, site);
    // Also for work that was enqueued before a failure.
    const error passed = wait_for_devices(instance, site.context, site.stream);
    return failed ? failed : passed;
}

error run(ferry_instance &instance, const batch_input &input, copy_form form, CUstream stream, ferry_ticket *ticket,
          batch_request &request) noexcept {
    context_scope scope(instance.cu);
    launch_site site = {};
    if (error failed = begin(instance, input, form, stream, request, scope, site)) return failed;
    if (request.is_empty()) return {};
    staged_progress of_call;
    if (request.has_files) {
        if (!ticket && !site.is_waited_for)
            return refuse_value(FERRY_ERROR_INVALID_ARGUMENT, FERRY_SIDE_NONE, FERRY_FIELD_TICKET, 0);
        site.files = ticket ? &ticket->progress : &of_call;
        if (ticket) {
            ticket->has_file = true;
            ticket->item = FERRY_ITEM_COPY;
        }
    }
    if (error failed = begin_ticket(ticket, stream)) return failed;
    const error failed = run_planned(instance, input, form, site, request);
    const error helped = instance.staging.help(of_call); // afterwards, no thread writes to it
    const bool is_of_file = (failed ? failed : helped).status == FERRY_ERROR_FILE;
    if (is_of_file && site.files->has_failed) request.bad_index = site.files->failed_at;
    if (failed) return failed;
    if (helped) return helped.status == FERRY_ERROR_FILE ? to_error(of_call.failure) : helped;
    return end_ticket(ticket, stream);
}

error explain(ferry_instance &instance, const batch_input &input, CUstream stream, batch_request &request,
              ferry_batch_explanation &found) noexcept {
    context_scope scope(instance.cu);
    launch_site site = {};
    found = {};
    found.context_device = -1;
    if (error failed = begin(instance, input, copy_form::asynchronous, stream, request, scope, site)) return failed;
    if (request.is_empty()) return {};
    const broadcast_sets &sets = request.broadcasts;
    error failed;
    if (sets.empty())
        failed = submit(instance, input, request, copy_form::asynchronous, site, &found);
    else
        failed = with_rest(instance, sets, stream, request.bad_index, [&](batch_request &rest) noexcept {
            return submit(instance, sets.rest(), rest, copy_form::asynchronous, site, &found);
        });
    found.broadcasts = {.copies = sets.copies(), .bytes = sets.bytes(), .predicted_ns = 0, .reserved = 0};
    found.context_device = request.context_device;
    return failed;
}

// find_refused_field for each copy of a batch. If a copy is found, `bad_index` becomes its index.
[[gnu::cold, gnu::noinline]] error find_refused_copy(ferry_instance &instance, const batch_input &input, copy_form form,
                                                     CUstream stream, const error &refused,
                                                     std::uint64_t &bad_index) noexcept {
    if (!is_of_argument(instance, refused)) return refused;
    for (std::uint64_t i = 0; i < input.count; ++i) {
        ferry_copy_desc copy = {};
        if (input.copies) {
            copy = input.copies[i];
        } else {
            copy.destination.address = input.pieces.destination(i);
            copy.source.address = input.pieces.source(i);
            copy.width = input.pieces.size(i);
        }
        const error found = find_refused_field(instance, copy, form, stream, refused);
        if (found.field == FERRY_FIELD_NONE) continue;
        bad_index = i;
        return found;
    }
    return refused;
}

// Calls work(request) with a request from the pool.
error with_request(ferry_instance &instance, std::uint64_t &bad_index,
                   function_ref<error(batch_request &)> work) noexcept {
    bad_index = no_index;
    const borrowed_request request(instance.requests);
    if (!request) return no_memory;
    (*request).context = {};
    const error failed = work(*request);
    if (!failed) return {};
    bad_index = (*request).bad_index;
    note_error(instance, failed);
    return failed;
}

// Calls work(batch) with a copy for each piece of a file.
[[gnu::cold, gnu::noinline]] error with_copies_of_pieces(ferry_instance &instance, const batch_input &pieces,
                                                         function_ref<error(const batch_input &)> work) noexcept {
    growing<ferry_copy_desc> copies(instance.allocator);
    if (!copies.reserve(pieces.count)) return note_error(instance, no_memory), no_memory;
    for (std::uint64_t i = 0; i < pieces.count; ++i) {
        const ferry_piece piece = pieces.pieces[i];
        ferry_copy_desc copy = {};
        copy.destination.address = piece.destination;
        copy.source.kind = FERRY_KIND_FILE;
        copy.source.file = pieces.source_file;
        copy.source.address = piece.source;
        copy.width = piece.size;
        copy.height = copy.depth = 1;
        static_cast<void>(copies.append(copy));
    }
    batch_input batch = {};
    batch.copies = copies.begin();
    batch.count = pieces.count;
    batch.options = pieces.options;
    return work(batch);
}

} // namespace

error run_batch(ferry_instance &instance, const batch_input &input, copy_form form, CUstream stream,
                ferry_ticket *ticket, std::uint64_t &bad_index) noexcept {
    if (input.source_file) {
        bool are_copies = false;
        const error failed = run_file_pieces(instance, input, form, stream, ticket, bad_index, are_copies);
        if (!are_copies) return failed;
        return with_copies_of_pieces(instance, input, [&](const batch_input &batch) noexcept {
            const error of_batch = run_batch(instance, batch, form, stream, ticket, bad_index);
            if (ticket && ticket->item == FERRY_ITEM_COPY) ticket->item = FERRY_ITEM_PIECE;
            return of_batch;
        });
    }
    const error failed = with_request(instance, bad_index, [&](batch_request &request) noexcept {
        return run(instance, input, form, stream, ticket, request);
    });
    return failed ? find_refused_copy(instance, input, form, stream, failed, bad_index) : failed;
}

error explain_batch(ferry_instance &instance, const batch_input &input, CUstream stream, ferry_batch_explanation &found,
                    std::uint64_t &bad_index) noexcept {
    if (input.source_file) {
        bool are_copies = false;
        const error failed = explain_file_pieces(instance, input, stream, found, bad_index, are_copies);
        if (!are_copies) return failed;
        return with_copies_of_pieces(instance, input, [&](const batch_input &batch) noexcept {
            return explain_batch(instance, batch, stream, found, bad_index);
        });
    }
    return with_request(instance, bad_index, [&](batch_request &request) noexcept {
        return explain(instance, input, stream, request, found);
    });
}

} // namespace ferry
