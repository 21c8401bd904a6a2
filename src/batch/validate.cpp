// Validates the copies of a batch one by one, each by itself and against the memory, and turns each into pieces or a box
// of the request.
#include <algorithm>

#include "base/checked.h"
#include "batch/request.h"
#include "plan/pageable_pieces.h"
#include "submit/copy_steps.h"

namespace ferry {

namespace {

// One end of a line, with the range that the checks have reached.
struct line_end {
    const ferry_place &place;
    std::int32_t side;
    std::uint32_t range = known_ranges::unknown;

    int stated_device() const noexcept { return place.kind == FERRY_KIND_DEVICE ? place.device : -1; }
};

error refuse_end(const line_end &end, std::uint64_t limit, std::uint64_t beyond) noexcept {
    return refuse(FERRY_ERROR_OUT_OF_BOUNDS, end.side, FERRY_FIELD_ADDRESS, limit, beyond);
}

// The common case is inline, because it takes only a few nanoseconds.
class batch_validator {
public:
    batch_validator(ferry_instance &instance, CUstream stream, bool merges, batch_request &request) noexcept
        : instance_(instance), host_ranges_(instance.pinned.ranges()), stream_(stream), merges_(merges),
          request_(request), access_(instance.mappings) {}

    // Adds a line whose ends both lie in known ranges and do not overlap, as most pieces do. Returns false for any
    // other line. The caller must have reserved room.
    [[gnu::always_inline]] bool add_plain(std::uint64_t destination, std::uint64_t source,
                                          std::uint64_t size) noexcept {
        if (destination - source < size || source - destination < size) return false;
        const std::uint32_t to = request_.ranges.find_known(destination, size);
        const std::uint32_t from = request_.ranges.find_known(source, size);
        if (to == known_ranges::unknown || from == known_ranges::unknown) return false;
        append({destination, source, size, to, from});
        return true;
    }

    bool has_room_for(std::uint64_t count) noexcept {
        return count < SIZE_MAX / sizeof(batch_piece) / 4 && request_.pieces.reserve_more(count);
    }

    // Adds a valid box that reads the same array as the last box and differs from it only in position. In a large batch
    // most boxes do. Returns false for any other box.
    bool add_moved(const ferry_copy_desc &copy) noexcept { return last_of_array_ && add_as_last(copy); }

    // Adds any line, cut where an allocation ends. Leaves room for `following` pieces.
    [[gnu::cold, gnu::noinline]] error add_line(const ferry_place &to, const ferry_place &from, std::uint64_t size,
                                                std::uint64_t following) noexcept;

    // Adds any copy.
    [[gnu::cold, gnu::noinline]] error add_copy(const ferry_copy_desc &copy, std::uint64_t following) noexcept;

private:
    [[gnu::always_inline]] void append(const batch_piece &piece) noexcept {
        request_.pieces.add(piece, ferry::group_of(request_.ranges[piece.from], request_.ranges[piece.to]), merges_);
    }

    bool add_as_last(const ferry_copy_desc &copy) noexcept;
    // Both ends lie in memory that batches serve. Kernels write no arrays.
    piece_group group_of(const batch_box &box) const noexcept;
    // Of a box with an end that the driver does not know.
    piece_group group_of_pageable(const batch_box &box) const noexcept;
    // Adds a copy with flags of its own. The route that they ask for must be possible.
    error add_own(std::uint32_t flags, batch_box &box) noexcept;
    bool keep_box() noexcept { return request_.boxes.resize(request_.boxes.size() + 1); }

    // Finds the memory `done` bytes behind the start of a line, and shortens the step to the end of that memory.
    error walk(line_end &end, std::uint64_t done, std::uint64_t size, std::uint64_t &step) noexcept;
    // Device memory may continue in memory of the same device, as mapped memory does. Registered memory may continue in
    // any host memory.
    bool leaves_for_other_memory(std::uint32_t before, std::uint64_t address, const known_range &range) const noexcept;
    error check_beginning(const line_end &end, const known_range &range, std::uint64_t size) noexcept;
    // Asks the driver about an end of a copy, with full checks.
    error query_fully(const ferry_place &place, host_use use, const address_span &span, const row_layout &rows,
                      resolved_place &resolved) noexcept {
        const full_check full = {access_, use, rows};
        return query_driver(instance_.cu, place, span, {.ranges = &host_ranges_, .full = &full, .stream = stream_},
                            resolved);
    }

    // Finds the memory of one end of a box.
    error resolve(const ferry_place &place, const shape_end &end, host_use use, const extent &extent,
                  resolved_place &resolved, std::uint32_t &known, bool &is_for_batches) noexcept;

    ferry_instance &instance_;
    const host_ranges &host_ranges_;
    const CUstream stream_;
    const bool merges_;
    batch_request &request_;
    host_access access_;                             // for full checks
    const ferry_copy_desc *last_of_array_ = nullptr; // the last box, if a later one may differ in position alone
};

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
    box.route = batch_route::calls;
    box.preferences = {};
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
    box.group = is_for_batches ? group_of(box) : group_of_pageable(box);
    const bool is_known = box.group != piece_group::apart && resolved.source.array.element_size != 0;
    last_of_array_ = shape.source.array && is_known ? &copy : nullptr;
    return keep_box() ? ok : no_memory;
}

piece_group batch_validator::group_of(const batch_box &box) const noexcept {
    if (box.shape.destination.array) return piece_group::apart;
    const range_use from = box.shape.source.array ? range_use::of_device : request_.ranges[box.from].as_source;
    return ferry::group_of(from, request_.ranges[box.to].as_destination);
}

piece_group batch_validator::group_of_pageable(const batch_box &box) const noexcept {
    const shape &shape = box.shape;
    if (shape.source.array || shape.destination.array || !are_rows_pieces(shape.height * shape.depth))
        return piece_group::apart;
    const piece_group group = ferry::group_of(request_.ranges[box.from], request_.ranges[box.to]);
    if (!is_pageable(group)) return piece_group::apart;
    const bool to_device = group == piece_group::pageable_up;
    const address_span &host = (to_device ? shape.source : shape.destination).span;
    const address_span &device = (to_device ? shape.destination : shape.source).span;
    const bool is_registered = host_ranges_.next_registration(host.first) <= host.last; // a part of it
    const bool is_whole =
        request_.ranges[to_device ? box.to : box.from].holds(device.first, device.last - device.first + 1);
    return is_whole && !is_registered ? group : piece_group::apart;
}

error batch_validator::add_own(std::uint32_t flags, batch_box &box) noexcept {
    box.route = batch_route::own;
    box.group = piece_group::apart;
    plan_facts facts = {.context_device = request_.context_device, .form = copy_form::asynchronous};
    box.preferences = facts.preferences = preferences_of(flags);
    if (leaves_device(box.shape, facts.context_device))
        if (error failed = look_up_pool_ends(instance_, facts.context_device, box.shape)) return failed;
    if (error failed = look_at_stream(instance_, box.shape, stream_, facts)) return failed;
    kernel_views views;
    resolved_ends ends;
    know_ends(request_, box.shape, {box.to, box.from}, ends);
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
    if (range.size && range.kind != memory_kind::pageable) {
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

error batch_validator::check_beginning(const line_end &end, const known_range &range, std::uint64_t size) noexcept {
    if (!instance_.full_checks) {
        // Refused here, because the driver might refuse it only in the middle of the batch.
        const bool is_nothing = end.place.kind == FERRY_KIND_DEVICE && range.kind == memory_kind::pageable;
        return is_nothing ? refuse(FERRY_ERROR_ADDRESS, end.side, FERRY_FIELD_ADDRESS) : ok;
    }
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

error batch_validator::resolve(const ferry_place &place, const shape_end &end, host_use use, const extent &extent,
                               resolved_place &resolved, std::uint32_t &known, bool &is_for_batches) noexcept {
    resolved.range_size = 0;
    resolved.array.element_size = 0;
    if (end.array) {
        resolved.kind = memory_kind::array;
        if (error failed = request_.arrays.find(place, known)) return failed;
        resolved.array = request_.arrays[known].facts;
        const error failed = resolve_array_device(place, resolved.array, resolved.device);
        is_for_batches &= resolved.device < 0 || resolved.device == request_.context_device;
        return failed;
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
        error failed = query_fully(place, use, end.span, rows_of(end, extent), resolved);
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

error validate_pieces(const batch_input &input, batch_validator &validator, batch_request &request) noexcept {
    for (std::uint64_t i = 0; i < input.count; ++i) {
        const std::uint64_t size = input.sizes[i];
        if (size == 0 || validator.add_plain(input.destinations[i], input.sources[i], size)) continue;
        ferry_place destination = {}, source = {};
        destination.address = input.destinations[i];
        source.address = input.sources[i];
        if (error failed = validator.add_line(destination, source, size, input.count - i - 1)) {
            request.bad_index = i;
            return failed;
        }
    }
    return {};
}

error validate_descriptors(const ferry_instance &instance, const batch_input &input, batch_validator &validator,
                           batch_request &request) noexcept {
    for (std::uint64_t i = 0; i < input.count; ++i) {
        const ferry_copy_desc &copy = input.copies[i];
        const std::uint64_t following = input.count - i - 1;
        error failed;
        if (validator.add_moved(copy)) continue;
        // Full checks also compare the stated kind and device.
        if (!is_contiguous_copy(copy, instance.limits))
            failed = validator.add_copy(copy, following);
        else if (instance.full_checks ||
                 !validator.add_plain(copy.destination.address, copy.source.address, copy.width))
            failed = validator.add_line(copy.destination, copy.source, copy.width, following);
        if (failed) {
            request.bad_index = i;
            return failed;
        }
    }
    return {};
}

// Lays out an input copy again, because the pieces do not know their indices.
error lay_out(const ferry_instance &instance, const batch_input &input, std::uint64_t index, shape &shape) noexcept {
    shape = {};
    if (input.copies) return validate_fields(input.copies[index], instance.limits, shape);
    shape.width = input.sizes[index];
    shape.height = shape.depth = 1;
    shape.destination.span.first = input.destinations[index];
    shape.source.span.first = input.sources[index];
    return {};
}

// How far behind the beginning of a copy's end one of its parts begins. A part of a copy with an array is all of it.
std::uint64_t distance(const shape_end &part, const shape_end &whole) noexcept {
    if (part.array != whole.array) return UINT64_MAX;
    if (!part.array) return part.span.first - whole.span.first;
    return part.x == whole.x && part.y == whole.y && part.z == whole.z ? 0 : UINT64_MAX;
}

// Runs after all other checks.
error validate_overlaps(const ferry_instance &instance, const batch_input &input, batch_request &request) noexcept {
    request.spans.clear();
    for (std::uint64_t i = 0; i < input.count; ++i) {
        shape shape;
        if (error failed = lay_out(instance, input, i, shape)) return failed;
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
        if (!add(sum, input.copies ? input.copies[i].width : input.sizes[i], sum)) return UINT64_MAX;
    return multiply(sum, step, sum) ? sum : UINT64_MAX;
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

error enter_batch_context(ferry_instance &instance, const batch_input &input, CUstream stream, batch_request &request,
                          context_scope &scope) noexcept {
    request.bad_index = 0;
    const auto find_device = [&](int &device) noexcept { return find_first_device(instance, input, device); };
    if (error failed = choose_context_by(instance.cu, instance.contexts, stream, find_device, request.context))
        return failed;
    if (error failed = scope.enter(request.context.wanted, request.context.current)) return failed;
    return instance.contexts.device_of_current(request.context.wanted, request.context_device);
}

namespace {

error validate_knowing(ferry_instance &instance, const batch_input &input, bool merges, CUstream stream,
                       const host_knowledge &host, batch_request &request) noexcept {
    request.pieces.clear();
    request.boxes.clear();
    request.own_views.clear();
    request.arrays.begin(instance.cu, instance.surfaces);
    batch_validator validator(instance, stream, merges, request);
    if (!validator.has_room_for(input.count)) return no_memory;
    if (error failed = request.ranges.begin(instance.cu, request.context.wanted, request.context_device, stream,
                                            estimate_bytes(input), host))
        return failed;
    return input.copies ? validate_descriptors(instance, input, validator, request)
                        : validate_pieces(input, validator, request);
}

// Asks the driver about a sample of the pieces that were assumed to be pageable.
error check_assumptions(const batch_request &request, bool &are_right) noexcept {
    constexpr std::size_t step = 16;
    are_right = true;
    for (std::size_t i = 0; i < request.pieces.size() && are_right; i += step) {
        const batch_piece &piece = request.pieces[i];
        if (error failed = request.ranges.check_assumption(piece.source, piece.from, are_right)) return failed;
        if (!are_right) break;
        if (error failed = request.ranges.check_assumption(piece.destination, piece.to, are_right)) return failed;
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
    return 0;
}

error validate_batch(ferry_instance &instance, const batch_input &input, bool merges, CUstream stream,
                     batch_request &request) noexcept {
    const host_knowledge host = {&instance.mappings, &instance.pinned.ranges()};
    bool are_right = false;
    if (!instance.full_checks) {
        if (error failed = validate_knowing(instance, input, merges, stream, host, request)) return failed;
        if (error failed = check_assumptions(request, are_right)) return failed;
    }
    if (!are_right)
        if (error failed = validate_knowing(instance, input, merges, stream, {}, request)) return failed;
    return input.flags & FERRY_BATCH_CHECK_OVERLAP ? validate_overlaps(instance, input, request) : ok;
}

} // namespace ferry
