#include "submit/copy.h"

#include "submit/note_error.h"
#include "submit/run_step.h"

namespace ferry {

error look_up_arrays(const ferry_instance &instance, const ferry_copy_desc &copy, resolved_ends &ends) noexcept {
    const auto look_up = [&](const ferry_place &place, resolved_place &end) noexcept -> error {
        if (end.kind != memory_kind::array) return {};
        if (error failed = look_up_array(instance.cu, instance.surfaces, place, end.array)) return failed;
        return resolve_array_device(place, end.array, end.device);
    };
    if (error failed = look_up(copy.source, ends.source)) return on_side(failed, FERRY_SIDE_SOURCE);
    return on_side(look_up(copy.destination, ends.destination), FERRY_SIDE_DESTINATION);
}

error check_freed(ferry_instance &instance, const ferry_copy_desc &copy, const resolved_ends &ends) noexcept {
    if (is_freed(instance, ends.source)) return refuse_freed(copy.source.address, FERRY_SIDE_SOURCE);
    if (is_freed(instance, ends.destination)) return refuse_freed(copy.destination.address, FERRY_SIDE_DESTINATION);
    return {};
}

error with_prepared_copy(ferry_instance &instance, const ferry_copy_desc &copy, const copy_preferences &wanted,
                         copy_form form, CUstream stream, purpose why,
                         function_ref<error(prepared_copy &)> submit) noexcept {
    return prepare_copy(instance, copy, wanted, form, stream, why, nothing_found, submit);
}

error find_refused_field(ferry_instance &instance, const ferry_copy_desc &copy, copy_form form, CUstream stream,
                         error refused) noexcept {
    if (!is_of_argument(instance, refused)) return refused;
    const auto nothing = [](prepared_copy &) noexcept -> error { return {}; };
    const error found = with_prepared_copy(instance, copy, {}, form, stream, purpose::check, nothing);
    return found.field == FERRY_FIELD_NONE ? refused : replace(refused.status, found);
}

namespace {

// Whether the short path may serve the copy: a contiguous copy without preferences for its route, whose ends share no
// byte.
[[gnu::always_inline]] inline bool may_be_short(const ferry_instance &instance, const ferry_copy_desc &copy,
                                                const copy_preferences &wanted) noexcept {
    const std::uint64_t from = copy.source.address, to = copy.destination.address, most = copy.width - 1;
    const auto fits = [&](std::uint64_t address) noexcept { return address <= UINT64_MAX - most; };
    return !wanted.any_but_order() && !wanted.no_wait && !instance.trace && is_contiguous_copy(copy, instance.limits) &&
           fits(from) && fits(to) && (from > to ? from - to : to - from) > most;
}

// Queries the kind of one end of `width` bytes. With full checks, all of it must be in one allocation or registration.
[[gnu::hot, gnu::noinline, gnu::flatten]] bool query_short(const ferry_instance &instance, const ferry_place &place,
                                                           std::uint64_t width, int device,
                                                           memory_kind &kind) noexcept {
    const bool is_full = is_unlikely(instance.full_checks);
    address_facts facts;
    const address_query query = is_full ? address_query::everything : address_query::kind_and_reach;
    if (look_up_address(instance.cu, place.address, query, facts)) return false;
    kind = kind_to_context(facts);
    if (facts.kind == memory_kind::pageable) return place.kind != FERRY_KIND_DEVICE;
    const std::uint64_t before = place.address - facts.range_start;
    if (is_full && (facts.range_size < width || before > facts.range_size - width)) return false;
    if (kind == memory_kind::pinned) return place.kind != FERRY_KIND_DEVICE;
    const bool may_be_device = place.kind == FERRY_KIND_DEVICE || place.kind == FERRY_KIND_ANY;
    return kind == memory_kind::device && facts.device == device && may_be_device;
}

// Finds the kind of one end. Whether the short path serves it: host memory, except for host pools, and memory of the
// current context's device.
[[gnu::always_inline]] inline bool look_up_short(const ferry_instance &instance, const ferry_place &place,
                                                 std::uint64_t width, int device, line_end &end) noexcept {
    const bool says_pinned = place.kind == FERRY_KIND_PINNED;
    const bool says_device = place.kind == FERRY_KIND_DEVICE && place.device != FERRY_DEVICE_UNKNOWN;
    if (says_device && place.device != device) return false;
    end = {says_pinned ? memory_kind::pinned : memory_kind::device, place.address};
    const bool is_stated = (says_pinned || says_device) && !is_unlikely(instance.full_checks);
    return is_stated || query_short(instance, place, width, device, end.kind);
}

// Whether the pipeline may serve a copy that the driver has refused: it divides copies of memory that is registered in
// pieces, and enters the context of the stream. It also finds the wrong field. Other errors may be sticky.
[[gnu::cold, gnu::noinline]] bool may_pipeline_serve(const driver_table &cu, CUresult result, CUcontext current,
                                                     CUstream stream) noexcept {
    if (result == CUDA_ERROR_INVALID_VALUE || result == CUDA_ERROR_INVALID_CONTEXT) return true;
    CUcontext of_stream = current;
    return !belongs_to_current_context(stream) && cu.cuStreamGetCtx(stream, &of_stream) == CUDA_SUCCESS &&
           of_stream != current;
}

// Whether the driver's call is the whole copy: a copy of pinned memory, or an asynchronous one within a device. A
// synchronous call returns before other copies are complete.
constexpr bool is_served_short(memory_kind from, memory_kind to, copy_form form) noexcept {
    if (from == memory_kind::pinned) return to == memory_kind::device;
    return from == memory_kind::device &&
           (to == memory_kind::pinned || (to == memory_kind::device && form == copy_form::asynchronous));
}

[[gnu::hot, gnu::noinline, gnu::flatten]] call_result copy_and_count_wait(ferry_instance &instance,
                                                                          const line_end &source,
                                                                          const line_end &destination,
                                                                          std::uint64_t bytes, int device) noexcept {
    const std::uint64_t begin_ns = clock_ns();
    const call_result result = copy_line(instance.cu, source, destination, bytes, copy_form::synchronous, nullptr);
    if (result == CUDA_SUCCESS)
        instance.counters.add(device, route_kind::driver, nullptr, 1, bytes, clock_ns() - begin_ns);
    return result;
}

} // namespace

// Code that a call touches takes longer to fetch than to run, so the usual case is straight, and everything else is
// elsewhere.
[[gnu::flatten]] call_result run_short(ferry_instance &instance, const ferry_copy_desc &copy,
                                       const copy_preferences &wanted, copy_form form, CUstream stream,
                                       short_findings &found) noexcept {
    if (is_unlikely(!may_be_short(instance, copy, wanted))) return not_run;
    const driver_table &cu = instance.cu;
    CUcontext current = nullptr;
    int device = 0;
    if (is_unlikely(cu.cuCtxGetCurrent(&current) || !current || instance.contexts.device_of_current(current, device)))
        return not_run;
    line_end source, destination;
    if (is_unlikely(!look_up_short(instance, copy.source, copy.width, device, source))) return not_run;
    if (is_unlikely(!look_up_short(instance, copy.destination, copy.width, device, destination))) return not_run;
    if (is_unlikely(!is_served_short(source.kind, destination.kind, form))) {
        if (!is_host(source.kind) || !is_host(destination.kind))
            found.note(source.kind, destination.kind, device, current);
        return not_run;
    }
    if (is_unlikely(instance.full_checks) && instance.deferred.may_hold_any()) return not_run;
    call_result result;
    if (is_unlikely(form == copy_form::synchronous)) {
        result = copy_and_count_wait(instance, source, destination, copy.width, device);
    } else {
        result = copy_line(cu, source, destination, copy.width, copy_form::asynchronous, stream);
        if (is_likely(result == CUDA_SUCCESS)) instance.counters.add(device, route_kind::driver, stream, 1, copy.width);
    }
    if (is_unlikely(result != CUDA_SUCCESS) && may_pipeline_serve(cu, result, current, stream)) return not_run;
    return result;
}

namespace {

// Copies a source that may be read early with the driver's commands, if that is possible. The stream is of the current
// context.
[[gnu::always_inline]] inline bool run_with_commands(ferry_instance &instance, const ferry_copy_desc &copy,
                                                     const copy_preferences &wanted, CUstream stream,
                                                     const short_findings &found, error &failed) noexcept {
    if (copy.width > max_sent_with_commands || wanted.order == source_order::stream) return false;
    bool is_captured = true;
    const upload_stream on = {stream, found.device};
    const address_span source = {copy.source.address, copy.source.address + (copy.width - 1)};
    if (query_capture(instance.cu, stream, is_captured) || is_captured) return false;
    if (wanted.order == source_order::any && !is_left_alone(instance, source, found.device)) return false;
    if (!has_command_room(instance, on, copy.width)) return false;
    const std::uint64_t begin_ns = clock_ns();
    const call_result result =
        copy_line(instance.cu, {memory_kind::pageable, source.first}, {memory_kind::device, copy.destination.address},
                  copy.width, copy_form::asynchronous, stream);
    if (is_unlikely(result != CUDA_SUCCESS)) {
        if (may_pipeline_serve(instance.cu, result, found.current, stream)) return false;
        failed = to_error(result);
        return true;
    }
    instance.uploads.note(on, copy.width, false);
    instance.counters.add(found.device, route_kind::driver, stream, 1, copy.width, clock_ns() - begin_ns);
    return true;
}

// The short path of a small copy between pageable memory and the device of the current context, if the driver's call is
// the best route and need not wait.
[[gnu::hot, gnu::noinline]] bool run_short_pageable(ferry_instance &instance, const ferry_copy_desc &copy,
                                                    const copy_preferences &wanted, CUstream stream,
                                                    short_findings &found, error &failed) noexcept {
    CUcontext of_stream = found.current;
    if (!belongs_to_current_context(stream) &&
        (instance.cu.cuStreamGetCtx(stream, &of_stream) || of_stream != found.current))
        return false;
    if (found.is_source_unknown && run_with_commands(instance, copy, wanted, stream, found, failed)) return true;
    copy_step step;
    auto &[shape, call, plan, views] = step;
    const auto end_of = [&](const ferry_place &place, bool is_pageable) noexcept {
        return is_pageable ? line_end_at(memory_kind::pageable, -1, place.address, copy.width)
                           : line_end_at(memory_kind::device, found.device, place.address, copy.width);
    };
    shape.source = end_of(copy.source, found.is_source_unknown);
    shape.destination = end_of(copy.destination, found.is_destination_unknown);
    shape.width = copy.width;
    shape.height = shape.depth = 1;
    call.context_device = found.device;
    call.form = copy_form::asynchronous;
    call.preferences = wanted;
    call.may_read_early = wanted.order == source_order::any && found.is_source_unknown;
    if (look_at_stream(instance, shape, stream, call)) return false;
    found.call = call;
    const device_profile *const profile = instance.profiles.of(found.device);
    const bool may_compare = profile && !instance.devices[found.device].info.pageable_uses_host_page_tables;
    const bool is_by_driver =
        call.has_command_room || (call.is_stream_idle && may_compare && is_too_small_to_stage(shape, *profile));
    if (call.is_captured || !is_by_driver) return false;
    plan = plan_for_driver(shape, call);
    failed = run_step(instance, step, {found.current, stream});
    return true;
}

} // namespace

error note_failed_copy(ferry_instance &instance, const ferry_copy_desc &copy, copy_form form, CUstream stream,
                       error failed) noexcept {
    note_error(instance, failed);
    return find_refused_field(instance, copy, form, stream, failed);
}

namespace {

[[gnu::hot, gnu::noinline]] error run_in_pipeline(ferry_instance &instance, const ferry_copy_desc &copy,
                                                  const copy_preferences &wanted, copy_form form, CUstream stream,
                                                  const short_findings &found) noexcept {
    const auto run = [&](const prepared_copy &prepared) noexcept {
        return run_step(instance, prepared.step, prepared.site(stream));
    };
    return prepare_copy(instance, copy, wanted, form, stream, purpose::run, found, run);
}

// Whether a copy of a pageable end is probably staged, even if the threads are asleep.
bool will_need_threads(const ferry_copy_desc &copy, const short_findings &found) noexcept {
    return (found.is_source_unknown || found.is_destination_unknown) && copy.width > max_small_copy;
}

} // namespace

error run_long(ferry_instance &instance, const ferry_copy_desc &copy, const copy_preferences &wanted, copy_form form,
               CUstream stream, call_result refused, short_findings &found) noexcept {
    error failed = to_error(refused);
    if (refused == not_run) {
        const bool is_small_pageable = (found.is_source_unknown || found.is_destination_unknown) &&
                                       form == copy_form::asynchronous && copy.width <= max_small_copy &&
                                       !instance.full_checks;
        failed = {};
        if (will_need_threads(copy, found)) instance.staging.wake_threads(found.device);
        if (!is_small_pageable || !run_short_pageable(instance, copy, wanted, stream, found, failed))
            failed = run_in_pipeline(instance, copy, wanted, form, stream, found);
    }
    return failed ? note_failed_copy(instance, copy, form, stream, failed) : ok;
}

error run_copy(ferry_instance &instance, const ferry_copy_desc &copy, const copy_preferences &wanted, copy_form form,
               CUstream stream) noexcept {
    short_findings found;
    const call_result result = run_short(instance, copy, wanted, form, stream, found);
    return result == CUDA_SUCCESS ? ok : run_long(instance, copy, wanted, form, stream, result, found);
}

} // namespace ferry
