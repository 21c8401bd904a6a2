// Validates the copies of a batch one by one, first alone and then against the memory, and turns each into pieces or a
// box of the request.
#include <algorithm>

#include "batch/box_validator.h"
#include "batch/line_validator.h"
#include "routes/ends.h"

namespace ferry {

namespace {

error validate_pieces(const batch_input &input, line_validator &lines, checked_batch &batch) noexcept {
    const piece_list pieces = input.pieces; // a copy, which stays in registers
    for (std::uint64_t i = 0; i < input.count; ++i) {
        const ferry_piece piece = pieces[i];
        if (piece.size == 0 || lines.add_plain(piece.destination, piece.source, piece.size)) continue;
        ferry_place destination = {}, source = {};
        destination.address = piece.destination;
        source.address = piece.source;
        if (error failed = lines.add_line(destination, source, piece.size, input.count - i - 1)) {
            batch.bad_index = i;
            return failed;
        }
    }
    return {};
}

error validate_descriptors(const ferry_instance &instance, const batch_input &input, line_validator &lines,
                           box_validator &boxes, checked_batch &batch) noexcept {
    for (std::uint64_t i = 0; i < input.count; ++i) {
        const ferry_copy_desc &copy = input.copies[i];
        const std::uint64_t following = input.count - i - 1;
        error failed;
        if (boxes.add_moved(copy)) continue;
        // Full checks also compare the stated kind and device.
        if (!is_contiguous_copy(copy, instance.limits))
            failed = boxes.add_copy(copy, input.indices ? input.indices[i] : i, following);
        else if (instance.full_checks || !lines.add_plain(copy.destination.address, copy.source.address, copy.width))
            failed = lines.add_line(copy.destination, copy.source, copy.width, following);
        if (failed) {
            batch.bad_index = i;
            return failed;
        }
    }
    return {};
}

// Computes the layout of an input copy again, because the pieces do not know their indices.
error lay_out(const ferry_instance &instance, const batch_input &input, std::uint64_t index, shape &shape) noexcept {
    shape = {};
    if (input.copies) return validate_fields(input.copies[index], instance.limits, shape);
    const ferry_piece piece = input.pieces[index];
    shape.width = piece.size;
    shape.height = shape.depth = 1;
    shape.destination.span.first = piece.destination;
    shape.source.span.first = piece.source;
    return {};
}

// Returns the distance from the start of a copy's end to the start of one of its parts. A copy with an array has only
// one part.
std::uint64_t distance(const shape_end &part, const shape_end &whole) noexcept {
    if (part.array != whole.array) return UINT64_MAX;
    if (!part.array) return part.span.first - whole.span.first;
    return part.x == whole.x && part.y == whole.y && part.z == whole.z ? 0 : UINT64_MAX;
}

// Runs after all other checks.
error validate_overlaps(const ferry_instance &instance, const batch_input &input, checked_batch &batch) noexcept {
    batch.spans.clear();
    for (std::uint64_t i = 0; i < input.count; ++i) {
        shape shape;
        if (error failed = lay_out(instance, input, i, shape)) return failed;
        if (!shape.empty() && !append_spans(shape, i, batch.spans)) return no_memory;
    }
    const shared_bytes shared = find_shared_bytes(batch.spans);
    if (!shared.found) return {};
    batch.bad_index = shared.index;
    const auto end_of = [&](const ferry_copy_desc &copy) noexcept -> const ferry_place & {
        return shared.is_destination ? copy.destination : copy.source;
    };
    const std::int32_t kind = input.copies ? end_of(input.copies[shared.index]).kind : FERRY_KIND_ANY;
    return refuse(FERRY_ERROR_OVERLAP, shared.is_destination ? FERRY_SIDE_DESTINATION : FERRY_SIDE_SOURCE,
                  kind == FERRY_KIND_ARRAY  ? FERRY_FIELD_ARRAY
                  : kind == FERRY_KIND_FILE ? FERRY_FIELD_OFFSET
                                            : FERRY_FIELD_ADDRESS,
                  numbers::copy, shared.other, shared.index);
}

std::uint64_t width_of(const batch_input &input, std::uint64_t index) noexcept {
    return input.copies ? input.copies[index].width : input.pieces.size(index);
}

// Estimates from a sample of the copies.
std::uint64_t estimate_bytes(const batch_input &input) noexcept {
    constexpr std::uint64_t samples = 16;
    const std::uint64_t step = input.count / samples + 1;
    std::uint64_t sum = 0;
    for (std::uint64_t i = 0; i < input.count; i += step)
        if (!add(sum, width_of(input, i), sum)) return UINT64_MAX;
    return multiply(sum, step, sum) ? sum : UINT64_MAX;
}

// For the default streams in a thread without a context: finds the device of the first copy that has a device.
error find_first_device(const ferry_instance &instance, const batch_input &input, int &device) noexcept {
    for (std::uint64_t i = 0; i < input.count; ++i) {
        if (width_of(input, i) == 0) continue;
        for (const bool at_source : {false, true}) {
            ferry_place place = {};
            if (input.copies)
                place = at_source ? input.copies[i].source : input.copies[i].destination;
            else
                place.address = at_source ? input.pieces.source(i) : input.pieces.destination(i);
            if (error failed = find_device_of(instance.cu, instance.limits.device_count, place, device)) return failed;
            if (device >= 0) return {};
        }
    }
    return {};
}

} // namespace

error enter_batch_context(ferry_instance &instance, const batch_input &input, CUstream stream, checked_batch &batch,
                          context_scope &scope) noexcept {
    batch.bad_index = no_index;
    const auto find_device = [&](int &device) noexcept -> error {
        if (error failed = find_first_device(instance, input, device)) return failed;
        return require_context(instance.contexts, input.options.preferences, std::max(device, 0));
    };
    if (error failed = choose_context_by(instance.cu, instance.contexts, stream, find_device, batch.context))
        return failed;
    if (error failed = scope.enter(batch.context.wanted, batch.context.current)) return failed;
    return instance.contexts.device_of_current(batch.context.wanted, batch.context_device);
}

namespace {

error validate_knowing(ferry_instance &instance, const batch_input &input, bool merges, CUstream stream,
                       const host_knowledge &host, checked_batch &batch) noexcept {
    batch.preferences = input.options.preferences;
    batch.pieces.clear();
    batch.boxes.clear();
    batch.own_views.clear();
    batch.has_files = false;
    batch.arrays.begin(instance.cu, instance.surfaces);
    line_validator lines(instance, stream, merges, batch);
    if (!lines.has_room_for(input.count)) return no_memory;
    if (error failed = batch.ranges.begin(instance.cu, batch.context.wanted, batch.context_device, stream,
                                          estimate_bytes(input), host))
        return failed;
    if (!input.copies) return validate_pieces(input, lines, batch);
    box_validator boxes(instance, stream, batch, lines, input.takes_files);
    return validate_descriptors(instance, input, lines, boxes, batch);
}

// Queries the driver for a sample of the pieces that were assumed to be pageable.
error check_assumptions(const checked_batch &batch, bool &are_right) noexcept {
    constexpr std::size_t step = 16;
    are_right = true;
    for (std::size_t i = 0; i < batch.pieces.size() && are_right; i += step) {
        const batch_piece &piece = batch.pieces[i];
        if (error failed = batch.ranges.check_assumption(piece.source, piece.from, are_right)) return failed;
        if (!are_right) break;
        if (error failed = batch.ranges.check_assumption(piece.destination, piece.to, are_right)) return failed;
    }
    return {};
}

} // namespace

std::uint64_t index_of(const ferry_instance &instance, const batch_input &input, const shape &part) noexcept {
    for (std::uint64_t i = 0; i < input.count && !part.empty(); ++i) {
        shape whole;
        if (lay_out(instance, input, i, whole)) continue; // an empty copy may have any addresses
        const std::uint64_t behind = distance(part.destination, whole.destination);
        if (behind < whole.width && behind == distance(part.source, whole.source)) return i;
    }
    return no_index;
}

error validate_batch(ferry_instance &instance, const batch_input &input, bool merges, CUstream stream,
                     checked_batch &batch) noexcept {
    const host_knowledge host = {&instance.mappings, &instance.pinned.ranges()};
    bool are_right = false;
    if (!instance.full_checks) {
        if (error failed = validate_knowing(instance, input, merges, stream, host, batch)) return failed;
        if (error failed = check_assumptions(batch, are_right)) return failed;
    }
    if (!are_right)
        if (error failed = validate_knowing(instance, input, merges, stream, {}, batch)) return failed;
    return input.options.checks_overlap ? validate_overlaps(instance, input, batch) : ok;
}

} // namespace ferry
