// Runs or explains one copy. A copy that is run, run with a ticket or explained passes one pipeline: validate the
// fields, choose the context, look up both ends in it, check bounds and overlap, plan. The pipeline is in a header so
// that the compiler inlines it into its callers.
#pragma once

#include <algorithm>
#include <optional>

#include "base/function_ref.h"
#include "routes/ends.h"
#include "submit/choice.h"
#include "submit/staging_setup.h"

namespace ferry {

// One copy, ready to be submitted.
struct prepared_copy {
    copy_step step;
    resolved_ends ends;
    context_choice choice;

    copy_site site(CUstream stream) const noexcept { return {choice.wanted, stream}; }
};

// Looks up the array ends.
[[gnu::noinline]] error look_up_arrays(const ferry_instance &instance, const ferry_copy_desc &copy,
                                       resolved_ends &ends) noexcept;

// Refuses memory whose deferred free is pending.
[[gnu::cold, gnu::noinline]] error check_freed(ferry_instance &instance, const ferry_copy_desc &copy,
                                               const resolved_ends &ends) noexcept;

// What the short path has found out about a copy that it does not serve.
struct short_findings {
    // To the driver, in any context. The other end is on the device.
    bool is_source_unknown = false, is_destination_unknown = false;
    int device = -1;                // of the current context, with an unknown end
    CUcontext current = nullptr;    // the same
    std::optional<call_facts> call; // after look_at_stream

    [[gnu::cold, gnu::noinline]] void note(memory_kind from, memory_kind to, int of_current,
                                           CUcontext context) noexcept {
        is_source_unknown = from == memory_kind::pageable;
        is_destination_unknown = to == memory_kind::pageable;
        device = of_current;
        current = context;
    }
};

inline constexpr short_findings nothing_found = {};

enum class purpose {
    run,
    explain,
    become_node,
    check, // with full checks, nothing else
};

// Looks up the memory at both ends. The kind of host memory determines how the driver's call must be ordered and waited
// for, and whether the copy is staged. It may stay unknown only for the destination of an asynchronous copy from device
// memory if nothing is staged and the call need not wait. For a contiguous copy, only the kind is queried. If kernels
// may serve (`query_everything`), the single query of an end returns everything that they need.
[[gnu::always_inline]] inline error look_up_ends(ferry_instance &instance, const ferry_copy_desc &copy,
                                                 const shape &shape, copy_form form, const copy_preferences &wanted,
                                                 CUstream stream, bool query_everything, purpose why,
                                                 const short_findings &found, resolved_ends &ends) noexcept {
    const auto checks_fully = [&]() noexcept { return why == purpose::check || instance.full_checks; };
    const bool is_source_on_device = copy.source.kind == FERRY_KIND_DEVICE || copy.source.kind == FERRY_KIND_ARRAY;
    const bool need_destination = form == copy_form::synchronous || may_stage(instance, wanted) ||
                                  !is_source_on_device || wanted.written || wanted.no_wait;
    const auto look_up = [&](const ferry_place &place, const shape_end &end, host_use use, bool need_kind,
                             bool is_unknown, resolved_place &resolved) noexcept {
        const resolve_options options = {.ranges = &instance.pinned.ranges(),
                                         .use = use,
                                         .need_host_kind = need_kind,
                                         .need_reach = true, // for graphs, wherever the driver is queried
                                         .query_everything = query_everything,
                                         .is_unknown = is_unknown,
                                         .stream = stream};
        if (!checks_fully()) return resolve_place(instance.cu, place, end.span, options, resolved);
        return resolve_checked(instance.cu, place, rows_of(end, {shape.width, shape.height, shape.depth}), use,
                               end.span, instance.mappings, options, resolved);
    };
    if (error failed = look_up(copy.source, shape.source, host_use::read, true, found.is_source_unknown, ends.source))
        return on_side(failed, FERRY_SIDE_SOURCE);
    if (error failed = look_up(copy.destination, shape.destination, host_use::write, need_destination,
                               found.is_destination_unknown, ends.destination))
        return on_side(failed, FERRY_SIDE_DESTINATION);
    if (checks_fully() && instance.deferred.may_hold_any())
        if (error failed = check_freed(instance, copy, ends)) return failed;
    return shape.source.array || shape.destination.array ? look_up_arrays(instance, copy, ends) : ok;
}

// Whether the memory is pageable for every context, and not memory of a host pool.
inline bool is_pageable_everywhere(const resolved_place &place) noexcept {
    return place.facts && place.facts->kind == memory_kind::pageable;
}

// Prepares a copy, then calls `submit(prepared)` with the copy's context current. Skips `submit` for an empty copy.
template <class Submit>
[[gnu::always_inline]] inline error prepare_copy(ferry_instance &instance, const ferry_copy_desc &copy,
                                                 const copy_preferences &wanted, copy_form form, CUstream stream,
                                                 purpose why, const short_findings &found, Submit submit) noexcept {
    prepared_copy prepared;
    auto &[shape, call, plan, views] = prepared.step;
    resolved_ends &ends = prepared.ends;
    if (error failed = validate_fields(copy, instance.limits, shape)) return failed;
    if (shape.empty()) return {};

    context_choice &choice = prepared.choice;
    // A stream other than the default streams has its own context. For the default streams, this is the thread's current
    // context, or else the context of the destination's device, or else of the source's device.
    const auto find_device = [&](int &device) noexcept -> error {
        const int count = instance.limits.device_count;
        if (error failed = find_device_of(instance.cu, count, copy.destination, device)) return failed;
        if (device < 0)
            if (error failed = find_device_of(instance.cu, count, copy.source, device)) return failed;
        return require_context(instance.contexts, wanted, std::max(device, 0));
    };
    if (error failed = choose_context_by(instance.cu, instance.contexts, stream, find_device, choice)) return failed;
    context_scope scope(instance.cu);
    if (error failed = scope.enter(choice.wanted, choice.current)) return failed;

    call.preferences = wanted;
    const bool may_take_kernels = !shape.is_line() || call.preferences.any();
    if (error failed = look_up_ends(instance, copy, shape, form, call.preferences, stream,
                                    may_take_kernels || why == purpose::explain, why, found, ends))
        return failed;
    if (error failed = validate_bounds(ends, instance.limits, shape)) return failed;
    if (why == purpose::check) return {};

    call.form = form;
    if (why == purpose::become_node) call.is_captured = true;
    call.may_read_early =
        form == copy_form::asynchronous && wanted.order == source_order::any && is_pageable_everywhere(ends.source);
    if (error failed = instance.contexts.device_of_current(choice.wanted, call.context_device)) return failed;
    if (needs_no_choice(shape, call.preferences) && !leaves_device(shape, call.context_device)) {
        plan = plan_for_driver(shape, call);
    } else {
        if (leaves_device(shape, call.context_device)) {
            if (error failed = require_contexts(instance.contexts, call.preferences, shape)) return failed;
            if (error failed = look_up_pool_ends(instance, call.context_device, shape)) return failed;
        }
        if (why == purpose::become_node) { // by the driver
            const error refused = refuse_files(shape);
            return refused ? refused : submit(prepared);
        }
        if (found.call)
            call = *found.call;
        else if (error failed = look_at_stream(instance, shape, stream, call))
            return failed;
        if (error failed = choose(instance, ends, choice.wanted, prepared.step)) return failed;
    }
    return submit(prepared);
}

// Whether the driver has refused an argument, and full checks have not already looked for the reason.
inline bool is_of_argument(const ferry_instance &instance, const error &refused) noexcept {
    return refused.status == to_status(CUDA_ERROR_INVALID_VALUE) && refused.status.call && !instance.full_checks;
}
// After the driver has refused an argument of a copy: repeats the checks as full checks. Returns the error that they find,
// with the driver's function, or else `refused`.
[[gnu::cold, gnu::noinline]] error find_refused_field(ferry_instance &instance, const ferry_copy_desc &copy,
                                                      copy_form form, CUstream stream, error refused) noexcept;
// The consequences of a failed copy: note_error and find_refused_field.
[[gnu::cold, gnu::noinline]] error note_failed_copy(ferry_instance &instance, const ferry_copy_desc &copy,
                                                    copy_form form, CUstream stream, error failed) noexcept;

// Makes the copy a node of a graph. Refuses an empty copy.
[[gnu::cold]] error set_copy(ferry_instance &instance, const ferry_copy_desc &copy, const copy_preferences &wanted,
                             graph_target &target) noexcept;

// The same as prepare_copy, for calls that have much else to do. Only one copy of its code is in the library.
[[gnu::cold, gnu::noinline]] error with_prepared_copy(ferry_instance &instance, const ferry_copy_desc &copy,
                                                      const copy_preferences &wanted, copy_form form, CUstream stream,
                                                      purpose why,
                                                      function_ref<error(prepared_copy &)> submit) noexcept;

// The short path has called no copy function of the driver.
constexpr call_result not_run = {static_cast<CUresult>(-1)};

// The short path: a contiguous copy within the device of the current context, or between it and pinned memory. The
// driver accepts copies of pinned memory on streams of any context (docs/driver.md), so the stream is not queried.
// Returns the driver's result, or not_run if the pipeline must run the copy.
[[gnu::hot]] call_result run_short(ferry_instance &instance, const ferry_copy_desc &copy,
                                   const copy_preferences &wanted, copy_form form, CUstream stream,
                                   short_findings &found) noexcept;
// After the short path: runs a copy that it did not run, and finds the cause of the driver's refusal.
[[gnu::hot, gnu::noinline]] error run_long(ferry_instance &instance, const ferry_copy_desc &copy,
                                           const copy_preferences &wanted, copy_form form, CUstream stream,
                                           call_result refused, short_findings &found) noexcept;

// Tries the short path first, and otherwise takes the long path.
[[gnu::hot]] error run_copy(ferry_instance &instance, const ferry_copy_desc &copy, const copy_preferences &wanted,
                            copy_form form, CUstream stream) noexcept;

// Reports what run_copy would do in the current state. Copies nothing.
[[gnu::cold]] error explain_copy(ferry_instance &instance, const ferry_copy_desc &copy, const copy_preferences &wanted,
                                 copy_form form, CUstream stream, ferry_explanation &found) noexcept;

} // namespace ferry
