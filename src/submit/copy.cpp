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
    return prepare_copy(instance, copy, wanted, form, stream, why, {}, submit);
}

error find_refused_field(ferry_instance &instance, const ferry_copy_desc &copy, copy_form form, CUstream stream,
                         error refused) noexcept {
    if (!is_of_argument(instance, refused)) return refused;
    const auto nothing = [](prepared_copy &) noexcept -> error { return {}; };
    const error found = with_prepared_copy(instance, copy, {}, form, stream, purpose::check, nothing);
    return found.field == FERRY_FIELD_NONE ? refused : replace(refused.status, found);
}

namespace {

// Whether the short path may serve the copy: an asynchronous contiguous copy without preferences, whose ends share no
// byte.
[[gnu::always_inline]] inline bool may_be_short(const ferry_instance &instance, const ferry_copy_desc &copy,
                                                const copy_preferences &wanted, copy_form form) noexcept {
    const std::uint64_t from = copy.source.address, to = copy.destination.address, most = copy.width - 1;
    const auto fits = [&](std::uint64_t address) noexcept { return address <= UINT64_MAX - most; };
    return form == copy_form::asynchronous && !wanted.any() && !wanted.no_wait && !instance.full_checks &&
           !instance.trace && is_contiguous_copy(copy, instance.limits) && fits(from) && fits(to) &&
           (from > to ? from - to : to - from) > most;
}

// Finds the kind of one end. Whether the short path serves it: pinned memory, and memory of the current context's device.
[[gnu::always_inline]] inline bool look_up_short(const driver_table &cu, const ferry_place &place, int device,
                                                 line_end &end, bool &is_unknown) noexcept {
    end = {place.kind == FERRY_KIND_PINNED ? memory_kind::pinned : memory_kind::device, place.address};
    if (place.kind == FERRY_KIND_PINNED) return true;
    if (place.kind == FERRY_KIND_DEVICE && place.device != FERRY_DEVICE_UNKNOWN) return place.device == device;
    address_facts facts;
    if (look_up_address(cu, place.address, address_query::kind_and_reach, facts)) return false;
    end.kind = kind_to_context(facts);
    is_unknown = facts.kind == memory_kind::pageable;
    if (end.kind == memory_kind::pinned) return place.kind != FERRY_KIND_DEVICE;
    return end.kind == memory_kind::device && place.kind != FERRY_KIND_HOST && facts.device == device;
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

// The short path: a contiguous copy within the device of the current context, or between it and pinned memory. The driver
// accepts such copies on streams of any context (docs/driver.md), so the stream is not queried. Returns false if the
// pipeline must run the copy.
[[gnu::hot, gnu::noinline, gnu::flatten]] bool run_short(ferry_instance &instance, const ferry_copy_desc &copy,
                                                         CUstream stream, unknown_ends &unknown,
                                                         error &failed) noexcept {
    const driver_table &cu = instance.cu;
    CUcontext current = nullptr;
    int device = 0;
    if (cu.cuCtxGetCurrent(&current) || !current || instance.contexts.device_of_current(current, device)) return false;
    line_end source, destination;
    if (!look_up_short(cu, copy.source, device, source, unknown.source) ||
        !look_up_short(cu, copy.destination, device, destination, unknown.destination))
        return false;
    if (is_host(source.kind) && is_host(destination.kind)) return false;
    const call_result result = copy_line(cu, source, destination, copy.width, stream);
    if (result == CUDA_SUCCESS)
        instance.counters.add(device, route_kind::driver, stream, 1, copy.width);
    else if (may_pipeline_serve(cu, result, current, stream))
        return false;
    failed = to_error(result);
    return true;
}

} // namespace

error note_failed_copy(ferry_instance &instance, const ferry_copy_desc &copy, copy_form form, CUstream stream,
                       error failed) noexcept {
    note_error(instance, failed);
    return find_refused_field(instance, copy, form, stream, failed);
}

namespace {

[[gnu::hot, gnu::noinline, gnu::flatten]] error run_in_pipeline(ferry_instance &instance, const ferry_copy_desc &copy,
                                                                const copy_preferences &wanted, copy_form form,
                                                                CUstream stream, const unknown_ends &unknown) noexcept {
    const auto run = [&](const prepared_copy &prepared) noexcept {
        return run_step(instance, prepared.step, prepared.site(stream));
    };
    return prepare_copy(instance, copy, wanted, form, stream, purpose::run, unknown, run);
}

} // namespace

// Both paths are flattened, because apart from the driver's call, the cost of a submission is mostly function calls and
// cold code. They are functions of their own, so that the pipeline does not need the stack of the short path too.
error run_copy(ferry_instance &instance, const ferry_copy_desc &copy, const copy_preferences &wanted, copy_form form,
               CUstream stream) noexcept {
    unknown_ends unknown;
    error result;
    if (!may_be_short(instance, copy, wanted, form) || !run_short(instance, copy, stream, unknown, result))
        result = run_in_pipeline(instance, copy, wanted, form, stream, unknown);
    if (result) result = note_failed_copy(instance, copy, form, stream, result);
    return result;
}

} // namespace ferry
