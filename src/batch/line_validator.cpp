#include "batch/line_validator.h"

#include <algorithm>

namespace ferry {

error line_validator::query_fully(const ferry_place &place, host_use use, const address_span &span,
                                  const row_layout &rows, resolved_place &resolved) noexcept {
    const full_check full = {access_, use, rows};
    return query_driver(instance_.cu, place, span,
                        {.ranges = &instance_.pinned.ranges(), .full = &full, .stream = stream_}, resolved);
}

error line_validator::add_line(const ferry_place &to, const ferry_place &from, std::uint64_t size,
                               std::uint64_t following) noexcept {
    line_end source = {from, FERRY_SIDE_SOURCE}, destination = {to, FERRY_SIDE_DESTINATION};
    for (const line_end *const end : {&source, &destination}) {
        std::uint64_t last = 0;
        if (!end->place.address) return refuse_value(FERRY_ERROR_ADDRESS, end->side, FERRY_FIELD_ADDRESS, 0);
        if (!add(end->place.address, size - 1, last))
            return refuse(FERRY_ERROR_OVERFLOW, FERRY_SIDE_EXTENT, FERRY_FIELD_WIDTH, numbers::at_most,
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

error line_validator::walk(line_end &end, std::uint64_t done, std::uint64_t size, std::uint64_t &step) noexcept {
    const std::uint64_t address = end.place.address + done, beyond = end.place.address + size;
    const std::uint32_t before = end.range;
    if (error failed = batch_.ranges.find(address, size - done, end.stated_device(), end.range))
        return on_side(failed, end.side);
    const known_range &range = batch_.ranges[end.range];
    if (done == 0)
        if (error failed = check_beginning(end, range, size)) return failed;
    const bool changes = done != 0 && end.range != before;
    if (changes && leaves_for_other_memory(before, address, range))
        return refuse(FERRY_ERROR_OUT_OF_BOUNDS, end.side, FERRY_FIELD_ADDRESS, numbers::end, address, beyond);
    if (range.size && range.kind != memory_kind::pageable) {
        step = std::min(step, range.room_from(address));
        return {};
    }
    const std::uint64_t border = instance_.pinned.ranges().next_registration(address);
    if (border > address) step = std::min(step, border - address);
    return {};
}

bool line_validator::leaves_for_other_memory(std::uint32_t before, std::uint64_t address,
                                             const known_range &range) const noexcept {
    const known_range &left = batch_.ranges[before];
    if (!left.has_known_extent && !range.has_known_extent) return left.kind != range.kind; // extents unknown
    if (left.kind == memory_kind::device || range.kind == memory_kind::device)
        return left.kind != range.kind || left.device != range.device;
    host_registration registration;
    return left.kind == memory_kind::managed ||
           (is_pinned(left.kind) && !instance_.pinned.ranges().find_registration(address - 1, registration));
}

error line_validator::check_beginning(const line_end &end, const known_range &range, std::uint64_t size) noexcept {
    if (!instance_.full_checks) {
        // Rejected here, because the driver might reject it only in the middle of the batch.
        const bool is_nothing = end.place.kind == FERRY_KIND_DEVICE && range.kind == memory_kind::pageable;
        return is_nothing ? refuse_value(FERRY_ERROR_ADDRESS, end.side, FERRY_FIELD_ADDRESS, end.place.address) : ok;
    }
    if (is_freed(instance_, range.first)) return refuse_freed(end.place.address, end.side);
    if (range.holds(end.place.address, size))
        return on_side(check_statement(end.place, range.kind, range.device), end.side);
    const address_span span = {end.place.address, end.place.address + (size - 1)};
    const host_use use = end.side == FERRY_SIDE_SOURCE ? host_use::read : host_use::write;
    resolved_place resolved;
    if (error failed = query_fully(end.place, use, span, {span.first, size, 1, 0, 1, 0}, resolved))
        return on_side(failed, end.side);
    shape_end whole;
    whole.span = span;
    return check_range(whole, end.side, resolved);
}

} // namespace ferry
