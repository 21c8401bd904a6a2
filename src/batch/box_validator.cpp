#include "batch/box_validator.h"

#include <algorithm>

#include "plan/pageable_pieces.h"
#include "routes/ends.h"
#include "submit/choice.h"

namespace ferry {

bool box_validator::add_as_last(const ferry_copy_desc &copy) noexcept {
    if (copy.source.kind != FERRY_KIND_ARRAY || !is_moved(copy, *last_of_array_) ||
        !batch_.boxes.reserve(batch_.boxes.size() + 1))
        return false;
    const batch_box &last = *(batch_.boxes.end() - 1);
    const shape &shape = last.shape;
    const array_facts &array = batch_.arrays[last.from].facts;
    const ferry_place &from = copy.source;
    if (from.x > array.width - shape.width || from.y > array.height - shape.height ||
        from.z > array.depth - shape.depth || from.x % array.element_size != 0)
        return false;
    const address_span &before = shape.destination.span;
    const std::uint64_t address = copy.destination.address, reach = before.last - before.first;
    const std::uint64_t first = before.first + (address - last_of_array_->destination.address);
    if (!address || first < address) return false;
    const std::uint32_t to = batch_.ranges.find_known(first, reach + 1);
    if (to == known_ranges::unknown || to != last.to) return false;
    batch_box &box = *batch_.boxes.end();
    box = last;
    box.shape.source.x = from.x;
    box.shape.source.y = from.y;
    box.shape.source.z = from.z;
    box.shape.destination.span = {first, first + reach};
    last_of_array_ = &copy;
    return keep_box();
}

error box_validator::add_copy(const ferry_copy_desc &copy, std::uint64_t index, std::uint64_t following) noexcept {
    if (!batch_.boxes.reserve(batch_.boxes.size() + 1)) return no_memory;
    batch_box &box = *batch_.boxes.end(); // built in place, because a box is expensive to copy
    shape &shape = box.shape;
    if (error failed = validate_fields(copy, instance_.limits, shape)) return failed;
    if (shape.empty()) return {};
    const bool has_file = shape.has_file();
    if (has_file && !takes_files_) return refuse_files(shape);
    const bool is_line = shape.is_line() && !shape.source.array && !shape.destination.array;
    if (is_line && !has_file) {                                // planned with its group
        ferry_place to = copy.destination, from = copy.source; // the span includes the origin
        to.address = shape.destination.span.first;
        from.address = shape.source.span.first;
        return lines_.add_line(to, from, shape.width, following);
    }
    box.route = batch_route::calls;
    box.index = index;
    resolved_ends resolved;
    bool is_for_batches = true;
    const extent extent = {shape.width, shape.height, shape.depth};
    if (error failed =
            resolve(copy.source, shape.source, host_use::read, extent, resolved.source, box.from, is_for_batches))
        return on_side(failed, FERRY_SIDE_SOURCE);
    if (error failed = resolve(copy.destination, shape.destination, host_use::write, extent, resolved.destination,
                               box.to, is_for_batches))
        return on_side(failed, FERRY_SIDE_DESTINATION);
    if (error failed = validate_bounds(resolved, instance_.limits, shape)) return failed;
    const bool is_linear = !shape.source.array && !shape.destination.array;
    batch_.has_files |= has_file;
    if (has_file || batch_.preferences.any()) return add_own(box);
    if (shape.is_line() && is_linear && is_for_batches) {
        ferry_place to = copy.destination, from = copy.source;
        to.address = shape.destination.span.first;
        from.address = shape.source.span.first;
        return lines_.add_line(to, from, shape.width, following);
    }
    const bool on_host = is_host(shape.source.kind) && is_host(shape.destination.kind);
    const std::uint64_t element = std::max(resolved.source.array.element_size, resolved.destination.array.element_size);
    box.element = !is_for_batches || on_host ? 0 : is_linear ? 1 : element;
    box.group = is_for_batches ? group_of(box) : group_of_pageable(box);
    const bool is_known = box.group != piece_group::apart && resolved.source.array.element_size != 0;
    last_of_array_ = shape.source.array && is_known ? &copy : nullptr;
    return keep_box() ? ok : no_memory;
}

piece_group box_validator::group_of(const batch_box &box) const noexcept {
    if (box.shape.destination.array) return piece_group::apart;
    const range_use from = box.shape.source.array ? range_use::of_device : batch_.ranges[box.from].as_source;
    return ferry::group_of(from, batch_.ranges[box.to].as_destination);
}

piece_group box_validator::group_of_pageable(const batch_box &box) const noexcept {
    const shape &shape = box.shape;
    if (shape.source.array || shape.destination.array || !are_rows_pieces(shape.height * shape.depth))
        return piece_group::apart;
    const piece_group group = ferry::group_of(batch_.ranges[box.from], batch_.ranges[box.to]);
    if (!is_pageable(group)) return piece_group::apart;
    const bool to_device = group == piece_group::pageable_up;
    const address_span &host = (to_device ? shape.source : shape.destination).span;
    const address_span &device = (to_device ? shape.destination : shape.source).span;
    const bool is_registered = instance_.pinned.ranges().next_registration(host.first) <= host.last; // a part of it
    const bool is_whole =
        batch_.ranges[to_device ? box.to : box.from].holds(device.first, device.last - device.first + 1);
    return is_whole && !is_registered ? group : piece_group::apart;
}

error box_validator::add_own(batch_box &box) noexcept {
    box.route = batch_route::own;
    box.group = piece_group::apart;
    call_facts call = {.context_device = batch_.context_device, .form = copy_form::asynchronous};
    call.preferences = batch_.preferences;
    if (leaves_device(box.shape, call.context_device))
        if (error failed = look_up_pool_ends(instance_, call.context_device, box.shape)) return failed;
    if (error failed = look_at_stream(instance_, box.shape, stream_, call)) return failed;
    copy_step step = {box.shape, call, {}, {}};
    resolved_ends ends;
    know_ends(batch_, box.shape, {box.to, box.from}, ends);
    const error failed = choose(instance_, ends, batch_.context.wanted, step);
    const bool may_be_broadcast = box.shape.source.file && step.plan.refused == obstacle::other_device;
    if (failed && !may_be_broadcast) return failed;
    box.plan = step.plan;
    box.to = static_cast<std::uint32_t>(batch_.own_views.size());
    last_of_array_ = nullptr;
    return batch_.own_views.append(step.views) && keep_box() ? ok : no_memory;
}

error box_validator::resolve(const ferry_place &place, const shape_end &end, host_use use, const extent &extent,
                             resolved_place &resolved, std::uint32_t &known, bool &is_for_batches) noexcept {
    resolved.range_size = 0;
    resolved.array.element_size = 0;
    if (end.array) {
        resolved.kind = memory_kind::array;
        if (error failed = batch_.arrays.find(place, known)) return failed;
        resolved.array = batch_.arrays[known].facts;
        const error failed = resolve_array_device(place, resolved.array, resolved.device);
        is_for_batches &= resolved.device < 0 || resolved.device == batch_.context_device;
        return failed;
    }
    if (end.file) {
        known = known_ranges::unknown;
        return resolve_place(instance_.cu, place, end.span, {.ranges = nullptr, .use = use}, resolved);
    }
    const std::uint64_t bytes = end.span.last - end.span.first + 1;
    const int stated = place.kind == FERRY_KIND_DEVICE ? place.device : -1;
    std::uint32_t index = batch_.ranges.find_known(end.span.first, bytes);
    if (index == known_ranges::unknown)
        if (error failed = batch_.ranges.find(end.span.first, bytes, stated, index)) return failed;
    known = index;
    const known_range &range = batch_.ranges[index];
    resolved.kind = range.kind;
    resolved.device = range.device;
    is_for_batches &= range.is_reached;
    if (instance_.full_checks && is_freed(instance_, range.first)) return refuse_freed(place.address, FERRY_SIDE_NONE);
    if (range.holds(end.span.first, bytes))
        return instance_.full_checks ? check_statement(place, range.kind, range.device) : ok;
    is_for_batches = false;
    if (instance_.full_checks) {
        const memory_kind kind = resolved.kind; // memory may be pageable only to this context
        error failed = lines_.query_fully(place, use, end.span, rows_of(end, extent), resolved);
        resolved.kind = kind;
        return failed;
    }
    if (range.kind == memory_kind::pageable)
        return place.kind == FERRY_KIND_DEVICE
                   ? refuse_value(FERRY_ERROR_ADDRESS, FERRY_SIDE_NONE, FERRY_FIELD_ADDRESS, place.address)
                   : ok;
    if (is_host(range.kind) && instance_.pinned.ranges().end_of_piece(end.span.first))
        return {};                   // the driver copies it in parts
    const known_range first = range; // a copy, because find() may move the ranges
    bool goes_on = first.kind == memory_kind::device;
    for (known_range last = first; goes_on && !last.holds(end.span.last, 1);) {
        if (error failed = batch_.ranges.find(last.first + last.size, 1, -1, index)) return failed;
        last = batch_.ranges[index];
        goes_on = last.kind == first.kind && last.device == first.device;
    }
    if (goes_on) return {};
    resolved.range_start = first.first;
    resolved.range_size = first.size;
    return {};
}

} // namespace ferry
