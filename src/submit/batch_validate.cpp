// The first step of a batch: checks all of its copies.
#include "submit/batch_validator.h"
#include "submit/copy_steps.h"

namespace ferry {

namespace {

error check_arrays(const batch_input &input, batch_validator &checker, batch_request &request) noexcept {
    for (std::uint64_t i = 0; i < input.count; ++i) {
        const std::uint64_t size = input.sizes[i];
        if (size == 0 || checker.add_plain(input.destinations[i], input.sources[i], size)) continue;
        ferry_place destination = {}, source = {};
        destination.address = input.destinations[i];
        source.address = input.sources[i];
        if (error failed = checker.add_line(destination, source, size, input.count - i - 1)) {
            request.bad_index = i;
            return failed;
        }
    }
    return {};
}

error check_descriptors(const ferry_instance &instance, const batch_input &input, batch_validator &checker,
                        batch_request &request) noexcept {
    for (std::uint64_t i = 0; i < input.count; ++i) {
        const ferry_copy_desc &copy = input.copies[i];
        const std::uint64_t following = input.count - i - 1;
        error failed;
        if (checker.add_moved(copy)) continue;
        // Full checks also compare the stated kind and device.
        if (!is_plain_line(copy, instance.limits))
            failed = checker.add_copy(copy, following);
        else if (instance.full_checks || !checker.add_plain(copy.destination.address, copy.source.address, copy.width))
            failed = checker.add_line(copy.destination, copy.source, copy.width, following);
        if (failed) {
            request.bad_index = i;
            return failed;
        }
    }
    return {};
}

// Runs after all other checks. Lays out the shapes again, because the pieces no longer know their indices.
error check_overlap(const ferry_instance &instance, const batch_input &input, batch_request &request) noexcept {
    request.spans.clear();
    for (std::uint64_t i = 0; i < input.count; ++i) {
        shape shape = {};
        if (input.copies) {
            if (error failed = validate_fields(input.copies[i], instance.limits, shape)) return failed;
        } else {
            shape.width = input.sizes[i];
            shape.height = shape.depth = 1;
            shape.destination.span.first = input.destinations[i];
            shape.source.span.first = input.sources[i];
        }
        if (!shape.empty() && !append_spans(shape, i, request.spans)) return no_memory;
    }
    const shared_bytes shared = find_shared_bytes(request.spans);
    if (!shared.found) return {};
    request.bad_index = shared.index;
    return refuse(FERRY_ERROR_OVERLAP, FERRY_SIDE_DESTINATION, FERRY_FIELD_INDEX, shared.other, shared.index);
}

// Estimates from a sample of the copies.
std::uint64_t estimate_bytes(const batch_input &input) noexcept {
    constexpr std::uint64_t samples = 16;
    const std::uint64_t step = input.count / samples + 1;
    std::uint64_t sum = 0;
    for (std::uint64_t i = 0; i < input.count; i += step)
        if (__builtin_add_overflow(sum, input.copies ? input.copies[i].width : input.sizes[i], &sum)) return UINT64_MAX;
    return __builtin_mul_overflow(sum, step, &sum) ? UINT64_MAX : sum;
}

// For the default streams in a thread without a context: finds the device of the first copy that has one.
error find_first_device(const ferry_instance &instance, const batch_input &input, int &device) noexcept {
    for (std::uint64_t i = 0; i < input.count; ++i) {
        if ((input.copies ? input.copies[i].width : input.sizes[i]) == 0) continue;
        for (const bool at_source : {false, true}) {
            ferry_place place = {};
            if (input.copies)
                place = at_source ? input.copies[i].source : input.copies[i].destination;
            else
                place.address = at_source ? input.sources[i] : input.destinations[i];
            if (error failed = find_device_of(instance, place, device)) return failed;
            if (device >= 0) return {};
        }
    }
    return {};
}

} // namespace

error enter_for_batch(ferry_instance &instance, const batch_input &input, CUstream stream, batch_request &request,
                      context_scope &scope) noexcept {
    request.bad_index = 0;
    const auto find_device = [&](int &device) noexcept { return find_first_device(instance, input, device); };
    if (error failed = choose_context_by(instance.cu, instance.contexts, stream, find_device, request.context))
        return failed;
    if (error failed = scope.enter(request.context.wanted, request.context.current)) return failed;
    return instance.contexts.device_of_current(request.context.wanted, request.context_device);
}

error check_batch(ferry_instance &instance, const batch_input &input, bool merges, CUstream stream,
                  batch_request &request) noexcept {
    request.pieces.clear();
    request.boxes.clear();
    request.own_views.clear();
    request.arrays.begin(instance.cu);
    batch_validator checker(instance, stream, merges, request);
    if (!checker.has_room_for(input.count)) return no_memory;
    if (error failed = request.ranges.begin(instance.cu, request.context.wanted, request.context_device, stream,
                                            estimate_bytes(input)))
        return failed;
    if (error failed =
            input.copies ? check_descriptors(instance, input, checker, request) : check_arrays(input, checker, request))
        return failed;
    return input.flags & FERRY_BATCH_CHECK_OVERLAP ? check_overlap(instance, input, request) : ok;
}

} // namespace ferry
