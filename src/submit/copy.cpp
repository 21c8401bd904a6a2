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
    return prepare_copy(instance, copy, wanted, form, stream, why, submit);
}

error find_refused_field(ferry_instance &instance, const ferry_copy_desc &copy, copy_form form, CUstream stream,
                         error refused) noexcept {
    if (!is_of_argument(instance, refused)) return refused;
    const auto nothing = [](prepared_copy &) noexcept -> error { return {}; };
    const error found = with_prepared_copy(instance, copy, {}, form, stream, purpose::check, nothing);
    return found.field == FERRY_FIELD_NONE ? refused : replace(refused.status, found);
}

error note_failed_copy(ferry_instance &instance, const ferry_copy_desc &copy, copy_form form, CUstream stream,
                       error failed) noexcept {
    note_error(instance, failed);
    return find_refused_field(instance, copy, form, stream, failed);
}

// Flattened, because apart from the driver's call, the cost of a submission is mostly function calls and cold code.
[[gnu::flatten]] error run_copy(ferry_instance &instance, const ferry_copy_desc &copy, const copy_preferences &wanted,
                                copy_form form, CUstream stream) noexcept {
    const auto run = [&](const prepared_copy &prepared) noexcept {
        return run_step(instance, prepared.step, prepared.site(stream));
    };
    error result = prepare_copy(instance, copy, wanted, form, stream, purpose::run, run);
    if (result) result = note_failed_copy(instance, copy, form, stream, result);
    return result;
}

} // namespace ferry
