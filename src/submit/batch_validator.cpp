#include "submit/batch_validator.h"

#include <algorithm>

#include "base/checked.h"
#include "submit/copy_steps.h"

namespace ferry {

// One end of a line, with the range that the checks have reached.
struct line_end {
    const ferry_place &place;
    std::int32_t side;
    std::uint32_t range = known_ranges::unknown;

    int stated_device() const noexcept { return place.kind == FERRY_KIND_DEVICE ? place.device : -1; }
};

namespace {

error refuse_end(const line_end &end, std::uint64_t limit, std::uint64_t beyond) noexcept {
    return refuse(FERRY_ERROR_OUT_OF_BOUNDS, end.side, FERRY_FIELD_ADDRESS, limit, beyond);
}

} // namespace

bool batch_validator::add_as_last(const ferry_copy_desc &copy) noexcept {
    if (copy.source.kind != FERRY_KIND_ARRAY || !is_moved(copy, *last_of_array_) ||
        !request_.boxes.reserve(request_.boxes.size() + 1))
        return false;
    const batch_box &last = *(request_.boxes.end() - 1);
    const shape &shape = last.shape;
    const array_facts &array = request_.arrays[last.from].facts;
    const ferry_place &from = copy.source;
    if (from.x > array.width - shape.width || from.y > array.height - shape.height ||
        from.z > array.depth - shape.depth || from.x % array.element_size != 0)
        return false;
    const address_span &before = shape.destination.span;
    const std::uint64_t address = copy.destination.address, reach = before.last - before.first;
    const std::uint64_t first = before.first + (address - last_of_array_->destination.address);
    if (!address || first < address) return false;
    const std::uint32_t to = request_.ranges.find_known(first, reach + 1);
    if (to == known_ranges::unknown || to != last.to) return false;
    batch_box &box = *request_.boxes.end();
    box = last;
    box.shape.source.x = from.x;
    box.shape.source.y = from.y;
    box.shape.source.z = from.z;
    box.shape.destination.span = {first, first + reach};
    last_of_array_ = &copy;
    return keep_box();
}

error batch_validator::add_line(const ferry_place &to, const ferry_place &from, std::uint64_t size,
                                std::uint64_t following) noexcept {
    line_end source = {from, FERRY_SIDE_SOURCE}, destination = {to, FERRY_SIDE_DESTINATION};
    for (const line_end *const end : {&source, &destination}) {
        std::uint64_t last = 0;
        if (!end->place.address) return refuse(FERRY_ERROR_ADDRESS, end->side, FERRY_FIELD_ADDRESS);
        if (!add(end->place.address, size - 1, last))
            return refuse(FERRY_ERROR_OVERFLOW, FERRY_SIDE_EXTENT, FERRY_FIELD_WIDTH,
                          UINT64_MAX - end->place.address + 1, size);
    }
    if (to.address - from.address < size || from.address - to.address < size)
        return refuse(FERRY_ERROR_OVERLAP, FERRY_SIDE_DESTINATION, FERRY_FIELD_ADDRESS);
    for (std::uint64_t done = 0; done < size;) {
        std::uint64_t step = size - done;
        for (line_end *const end : {&source, &destination})
            if (error failed = walk(*end, done, size, step)) return failed;
        if (!has_room_for(following + 1)) return no_memory;
        append({to.address + done, from.address + done, step, destination.range, source.range});
        done += step;
    }
    return {};
}

error batch_validator::add_copy(const ferry_copy_desc &copy, std::uint64_t following) noexcept {
    if (!request_.boxes.reserve(request_.boxes.size() + 1)) return no_memory;
    batch_box &box = *request_.boxes.end(); // built in its final place, because a box is large to copy
    shape &shape = box.shape;
    if (error failed = validate_fields(copy, instance_.limits, shape)) return failed;
    if (shape.empty()) return {};
    const bool is_line = shape.is_line() && !shape.source.array && !shape.destination.array;
    if (is_line && !copy.flags) {                              // planned with its group, by the instance's preferences
        ferry_place to = copy.destination, from = copy.source; // the span includes the origin
        to.address = shape.destination.span.first;
        from.address = shape.source.span.first;
        return add_line(to, from, shape.width, following);
    }
    box.way = box_route::call;
    box.preferences = {};
    resolved_ends resolved;
    bool is_for_batches = true;
    if (error failed = resolve(copy.source, shape.source, resolved.source, box.from, is_for_batches))
        return on_side(failed, FERRY_SIDE_SOURCE);
    if (error failed = resolve(copy.destination, shape.destination, resolved.destination, box.to, is_for_batches))
        return on_side(failed, FERRY_SIDE_DESTINATION);
    if (error failed = validate_bounds(resolved, instance_.limits, shape)) return failed;
    const bool is_linear = !shape.source.array && !shape.destination.array;
    const std::uint32_t flags = copy.flags ? copy.flags : instance_.copy_flags;
    if (flags) return add_own(flags, box);
    if (shape.is_line() && is_linear && is_for_batches) {
        ferry_place to = copy.destination, from = copy.source;
        to.address = shape.destination.span.first;
        from.address = shape.source.span.first;
        return add_line(to, from, shape.width, following);
    }
    const bool on_host = is_host(shape.source.kind) && is_host(shape.destination.kind);
    const std::uint64_t element = std::max(resolved.source.array.element_size, resolved.destination.array.element_size);
    box.element = !is_for_batches || on_host ? 0 : is_linear ? 1 : element;
    box.group = is_for_batches ? group_of(box) : piece_group::apart;
    const bool is_known = box.group != piece_group::apart && resolved.source.array.element_size != 0;
    last_of_array_ = shape.source.array && is_known ? &copy : nullptr;
    return keep_box() ? ok : no_memory;
}

piece_group batch_validator::group_of(const batch_box &box) const noexcept {
    if (box.shape.destination.array) return piece_group::apart;
    const range_use from = box.shape.source.array ? range_use::of_device : request_.ranges[box.from].as_source;
    return ferry::group_of(from, request_.ranges[box.to].as_destination);
}

error batch_validator::add_own(std::uint32_t flags, batch_box &box) noexcept {
    box.way = box_route::own;
    box.group = piece_group::apart;
    plan_facts facts = {.context_device = request_.context_device, .form = copy_form::asynchronous};
    box.preferences = facts.preferences = preferences_of(flags);
    if (error failed = look_at_stream(instance_, box.shape, stream_, facts)) return failed;
    kernel_views views;
    resolved_ends ends; // empty: what kernels need was not asked
    if (error failed = choose(instance_, box.shape, ends, request_.context.wanted, facts, views, box.plan))
        return failed;
    box.to = static_cast<std::uint32_t>(request_.own_views.size());
    last_of_array_ = nullptr;
    return request_.own_views.append(views) && keep_box() ? ok : no_memory;
}

error batch_validator::walk(line_end &end, std::uint64_t done, std::uint64_t size, std::uint64_t &step) noexcept {
    const std::uint64_t address = end.place.address + done, beyond = end.place.address + size;
    const std::uint32_t before = end.range;
    if (error failed = request_.ranges.find(address, size - done, end.stated_device(), end.range))
        return on_side(failed, end.side);
    const known_range &range = request_.ranges[end.range];
    if (done == 0)
        if (error failed = check_beginning(end, range, size)) return failed;
    const bool changes = done != 0 && end.range != before;
    if (changes && leaves_for_other_memory(before, address, range)) return refuse_end(end, address, beyond);
    if (range.size) {
        step = std::min(step, range.room_from(address));
        return {};
    }
    const std::uint64_t border = host_ranges_.next_registration(address);
    if (border > address) step = std::min(step, border - address);
    return {};
}

bool batch_validator::leaves_for_other_memory(std::uint32_t before, std::uint64_t address,
                                              const known_range &range) const noexcept {
    const known_range &left = request_.ranges[before];
    if (!left.has_known_extent && !range.has_known_extent) return left.kind != range.kind; // extents unknown
    if (left.kind == memory_kind::device || range.kind == memory_kind::device)
        return left.kind != range.kind || left.device != range.device;
    host_registration registration;
    return left.kind == memory_kind::managed ||
           (is_pinned(left.kind) && !host_ranges_.find_registration(address - 1, registration));
}

error batch_validator::check_beginning(const line_end &end, const known_range &range,
                                       std::uint64_t size) const noexcept {
    if (!instance_.full_checks) {
        // Refused here, because the driver might refuse it only in the middle of the batch.
        const bool is_nothing = end.place.kind == FERRY_KIND_DEVICE && range.kind == memory_kind::pageable;
        return is_nothing ? refuse(FERRY_ERROR_ADDRESS, end.side, FERRY_FIELD_ADDRESS) : ok;
    }
    if (range.holds(end.place.address, size))
        return on_side(check_statement(end.place, range.kind, range.device), end.side);
    const address_span span = {end.place.address, end.place.address + (size - 1)};
    resolved_place resolved;
    if (error failed = query_driver(instance_.cu, end.place, span, full_options(), resolved))
        return on_side(failed, end.side);
    shape_end whole;
    whole.span = span;
    return check_range(whole, end.side, resolved);
}

error batch_validator::resolve(const ferry_place &place, const shape_end &end, resolved_place &resolved,
                               std::uint32_t &known, bool &is_for_batches) noexcept {
    resolved.range_size = 0;
    resolved.array.element_size = 0;
    if (end.array) {
        resolved.kind = memory_kind::array;
        resolved.device = place.device;
        is_for_batches &= place.device < 0 || place.device == request_.context_device;
        if (error failed = request_.arrays.find(place, known)) return failed;
        resolved.array = request_.arrays[known].facts;
        return {};
    }
    const std::uint64_t bytes = end.span.last - end.span.first + 1;
    const int stated = place.kind == FERRY_KIND_DEVICE ? place.device : -1;
    std::uint32_t index = request_.ranges.find_known(end.span.first, bytes);
    if (index == known_ranges::unknown)
        if (error failed = request_.ranges.find(end.span.first, bytes, stated, index)) return failed;
    known = index;
    const known_range &range = request_.ranges[index];
    resolved.kind = range.kind;
    resolved.device = range.device;
    is_for_batches &= range.is_reached;
    if (range.holds(end.span.first, bytes))
        return instance_.full_checks ? check_statement(place, range.kind, range.device) : ok;
    is_for_batches = false;
    if (instance_.full_checks) {
        const memory_kind kind = resolved.kind; // memory may be pageable to this context alone
        error failed = query_driver(instance_.cu, place, end.span, full_options(), resolved);
        resolved.kind = kind;
        return failed;
    }
    if (range.kind == memory_kind::pageable)
        return place.kind == FERRY_KIND_DEVICE ? refuse(FERRY_ERROR_ADDRESS, FERRY_SIDE_NONE, FERRY_FIELD_ADDRESS) : ok;
    if (is_host(range.kind) && host_ranges_.end_of_piece(end.span.first)) return {}; // the driver copies it in parts
    const known_range first = range; // a copy, because find() may move the ranges
    bool goes_on = first.kind == memory_kind::device;
    for (known_range last = first; goes_on && !last.holds(end.span.last, 1);) {
        if (error failed = request_.ranges.find(last.first + last.size, 1, -1, index)) return failed;
        last = request_.ranges[index];
        goes_on = last.kind == first.kind && last.device == first.device;
    }
    if (goes_on) return {};
    resolved.range_start = first.first;
    resolved.range_size = first.size;
    return {};
}

} // namespace ferry
