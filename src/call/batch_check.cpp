// The first part of a batch: every copy of it is checked, by itself and against the memory, and becomes a piece or a box.
#include <algorithm>

#include "base/checked.h"
#include "call/batch_job.h"
#include "call/copy_steps.h"

namespace ferry {

namespace {

// An end of a copy, as the checks walk along it.
struct line_end {
    const ferry_place &place;
    std::int32_t side;
    std::uint32_t range = known_ranges::unknown;

    int stated_device() const noexcept { return place.kind == FERRY_KIND_DEVICE ? place.device : -1; }
};

failure refuse_end(const line_end &end, std::uint64_t limit, std::uint64_t beyond) noexcept {
    return refuse(FERRY_ERROR_OUT_OF_BOUNDS, end.side, FERRY_FIELD_ADDRESS, limit, beyond);
}

class batch_checker {
public:
    batch_checker(ferry_instance &instance, CUstream stream, bool merges, batch_job &job) noexcept
        : instance_(instance), host_ranges_(instance.pinned.ranges()), stream_(stream), merges_(merges), job_(job) {}

    // Where both ends lie in ranges that are known already and all is right: what most pieces are. There must be room.
    [[gnu::always_inline]] bool add_plain(std::uint64_t destination, std::uint64_t source,
                                          std::uint64_t size) noexcept {
        if (destination - source < size || source - destination < size) return false;
        const std::uint32_t to = job_.ranges.find_known(destination, size);
        const std::uint32_t from = job_.ranges.find_known(source, size);
        if (to == known_ranges::unknown || from == known_ranges::unknown) return false;
        append({destination, source, size, to, from});
        return true;
    }

    bool has_room_for(std::uint64_t count) noexcept {
        return count < SIZE_MAX / sizeof(batch_piece) / 4 && job_.pieces.reserve_more(count);
    }

    // A box out of an array that is the last one moved, and right too: what most of many boxes are.
    bool add_moved(const ferry_copy_desc &copy) noexcept {
        if (!last_of_array_ || copy.source.kind != FERRY_KIND_ARRAY || !is_moved(copy, *last_of_array_) ||
            !job_.boxes.reserve(job_.boxes.size() + 1))
            return false;
        const batch_box &last = *(job_.boxes.end() - 1);
        const shape &shape = last.shape;
        const array_facts &array = job_.arrays[last.from].facts;
        const ferry_place &from = copy.source;
        if (from.x > array.width - shape.width || from.y > array.height - shape.height ||
            from.z > array.depth - shape.depth || from.x % array.element_size != 0)
            return false;
        const address_span &before = shape.destination.span;
        const std::uint64_t address = copy.destination.address, reach = before.last - before.first;
        const std::uint64_t first = before.first + (address - last_of_array_->destination.address);
        if (!address || first < address) return false;
        const std::uint32_t to = job_.ranges.find_known(first, reach + 1);
        if (to == known_ranges::unknown || to != last.to) return false;
        batch_box &box = *job_.boxes.end();
        box = last;
        box.shape.source.x = from.x;
        box.shape.source.y = from.y;
        box.shape.source.z = from.z;
        box.shape.destination.span = {first, first + reach};
        last_of_array_ = &copy;
        return keep_box();
    }

    // Any line; it is cut where an allocation ends. Leaves room for `following` pieces.
    [[gnu::cold, gnu::noinline]] failure add_line(const ferry_place &to, const ferry_place &from, std::uint64_t size,
                                                  std::uint64_t following) noexcept {
        line_end source = {from, FERRY_SIDE_SOURCE}, destination = {to, FERRY_SIDE_DESTINATION};
        for (const line_end *const end : {&source, &destination}) {
            std::uint64_t last = 0;
            if (!end->place.address) return refuse(FERRY_ERROR_ADDRESS, end->side, FERRY_FIELD_ADDRESS);
            if (!add(end->place.address, size - 1, last))
                return refuse(FERRY_ERROR_OVERFLOW, FERRY_SIDE_EXTENT, FERRY_FIELD_WIDTH, 0, size);
        }
        if (to.address - from.address < size || from.address - to.address < size)
            return refuse(FERRY_ERROR_OVERLAP, FERRY_SIDE_DESTINATION, FERRY_FIELD_ADDRESS);
        for (std::uint64_t done = 0; done < size;) {
            std::uint64_t step = size - done;
            for (line_end *const end : {&source, &destination})
                if (failure failed = walk(*end, done, size, step)) return failed;
            if (!has_room_for(following + 1)) return no_memory;
            append({to.address + done, from.address + done, step, destination.range, source.range});
            done += step;
        }
        return {};
    }

    // Any copy.
    [[gnu::cold, gnu::noinline]] failure add_copy(const ferry_copy_desc &copy, std::uint64_t following) noexcept {
        if (!job_.boxes.reserve(job_.boxes.size() + 1)) return no_memory;
        batch_box &box = *job_.boxes.end(); // where it will be if it becomes one: they are large
        shape &shape = box.shape;
        if (failure failed = lay_out(copy, instance_.limits, shape)) return failed;
        if (shape.empty()) return {};
        const bool is_line = shape.is_line() && !shape.source.array && !shape.destination.array;
        if (is_line && !copy.flags) {                              // with the instance's wishes as its group
            ferry_place to = copy.destination, from = copy.source; // without their origins
            to.address = shape.destination.span.first;
            from.address = shape.source.span.first;
            return add_line(to, from, shape.width, following);
        }
        box.way = box_way::call;
        resolved_ends resolved;
        bool is_for_batches = true;
        if (failure failed = resolve(copy.source, shape.source, resolved.source, box.from, is_for_batches))
            return on_side(failed, FERRY_SIDE_SOURCE);
        if (failure failed = resolve(copy.destination, shape.destination, resolved.destination, box.to, is_for_batches))
            return on_side(failed, FERRY_SIDE_DESTINATION);
        if (failure failed = settle(resolved, instance_.limits, shape)) return failed;
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
        const std::uint64_t element =
            std::max(resolved.source.array.element_size, resolved.destination.array.element_size);
        box.element = !is_for_batches || on_host ? 0 : is_linear ? 1 : element;
        box.group = is_for_batches ? group_of(box) : piece_group::apart;
        const bool is_known = box.group != piece_group::apart && resolved.source.array.element_size != 0;
        last_of_array_ = shape.source.array && is_known ? &copy : nullptr;
        return keep_box() ? failure{} : no_memory;
    }

private:
    [[gnu::always_inline]] void append(const batch_piece &piece) noexcept {
        job_.pieces.add(piece, ferry::group_of(job_.ranges[piece.from], job_.ranges[piece.to]), merges_);
    }

    // Both ends lie where batches go. Kernels write no arrays.
    piece_group group_of(const batch_box &box) const noexcept {
        if (box.shape.destination.array) return piece_group::apart;
        const range_use from = box.shape.source.array ? range_use::of_device : job_.ranges[box.from].as_source;
        return ferry::group_of(from, job_.ranges[box.to].as_destination);
    }

    // One with flags: what they ask for must be possible.
    failure add_own(std::uint32_t flags, batch_box &box) noexcept {
        box.way = box_way::own;
        box.group = piece_group::apart;
        plan_facts facts = {.context_device = job_.context_device, .form = copy_form::asynchronous};
        facts.wishes = wishes_of(flags);
        kernel_views views;
        if (failure failed = choose(instance_, box.shape, job_.context.wanted, facts, views, box.plan)) return failed;
        box.to = static_cast<std::uint32_t>(job_.own_views.size());
        last_of_array_ = nullptr;
        return job_.own_views.append(views) && keep_box() ? failure{} : no_memory;
    }

    bool keep_box() noexcept { return job_.boxes.resize(job_.boxes.size() + 1); }

    // Finds what lies `done` bytes behind the beginning of a line, and shortens the step to where that ends.
    failure walk(line_end &end, std::uint64_t done, std::uint64_t size, std::uint64_t &step) noexcept {
        const std::uint64_t address = end.place.address + done, beyond = end.place.address + size;
        const std::uint32_t before = end.range;
        if (failure failed = job_.ranges.find(address, size - done, end.stated_device(), end.range))
            return on_side(failed, end.side);
        const known_range &range = job_.ranges[end.range];
        if (done == 0)
            if (failure failed = check_beginning(end, range, size)) return failed;
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

    // Memory of a device may go on in memory of the same one, as mapped memory does; registered memory in any host memory.
    bool leaves_for_other_memory(std::uint32_t before, std::uint64_t address, const known_range &range) const noexcept {
        const known_range &left = job_.ranges[before];
        if (left.kind == memory_kind::device || range.kind == memory_kind::device)
            return left.kind != range.kind || left.device != range.device;
        host_registration registration;
        return left.kind == memory_kind::managed ||
               (left.kind == memory_kind::pinned && !host_ranges_.find_registration(address - 1, registration));
    }

    failure check_beginning(const line_end &end, const known_range &range, std::uint64_t size) const noexcept {
        if (!instance_.full_checks) {
            // Told here, as the driver might tell it in the middle of the batch.
            const bool is_nothing = end.place.kind == FERRY_KIND_DEVICE && range.kind == memory_kind::pageable;
            return is_nothing ? refuse(FERRY_ERROR_ADDRESS, end.side, FERRY_FIELD_ADDRESS) : failure{};
        }
        if (range.holds(end.place.address, size))
            return on_side(check_statement(end.place, range.kind, range.device), end.side);
        const address_span span = {end.place.address, end.place.address + (size - 1)};
        resolved_place resolved;
        if (failure failed = ask_driver(instance_.cu, end.place, span, full_options(), resolved))
            return on_side(failed, end.side);
        shape_end whole;
        whole.span = span;
        return check_range(whole, end.side, resolved);
    }

    resolve_options full_options() const noexcept {
        return {.ranges = &host_ranges_, .full_checks = true, .stream = stream_};
    }

    // The memory of one end of a box.
    failure resolve(const ferry_place &place, const shape_end &end, resolved_place &resolved, std::uint32_t &known,
                    bool &is_for_batches) noexcept {
        resolved.range_size = 0;
        resolved.array.element_size = 0;
        if (end.array) {
            resolved.kind = memory_kind::array;
            resolved.device = place.device;
            is_for_batches &= place.device < 0 || place.device == job_.context_device;
            if (failure failed = job_.arrays.find(place, known)) return failed;
            resolved.array = job_.arrays[known].facts;
            return {};
        }
        const std::uint64_t bytes = end.span.last - end.span.first + 1;
        const int stated = place.kind == FERRY_KIND_DEVICE ? place.device : -1;
        std::uint32_t index = job_.ranges.find_known(end.span.first, bytes);
        if (index == known_ranges::unknown)
            if (failure failed = job_.ranges.find(end.span.first, bytes, stated, index)) return failed;
        known = index;
        const known_range &range = job_.ranges[index];
        resolved.kind = range.kind;
        resolved.device = range.device;
        is_for_batches &= range.is_reached;
        if (range.holds(end.span.first, bytes))
            return instance_.full_checks ? check_statement(place, range.kind, range.device) : failure{};
        is_for_batches = false;
        if (instance_.full_checks) {
            const memory_kind kind = resolved.kind; // pageable to this context, and perhaps to no other
            failure failed = ask_driver(instance_.cu, place, end.span, full_options(), resolved);
            resolved.kind = kind;
            return failed;
        }
        if (range.kind == memory_kind::pageable)
            return place.kind == FERRY_KIND_DEVICE ? refuse(FERRY_ERROR_ADDRESS, FERRY_SIDE_NONE, FERRY_FIELD_ADDRESS)
                                                   : failure{};
        if (is_host(range.kind) && host_ranges_.end_of_piece(end.span.first)) return {}; // runs in parts
        const known_range first = range; // which do not stay where they are while others are found
        bool goes_on = first.kind == memory_kind::device;
        for (known_range last = first; goes_on && !last.holds(end.span.last, 1);) {
            if (failure failed = job_.ranges.find(last.first + last.size, 1, -1, index)) return failed;
            last = job_.ranges[index];
            goes_on = last.kind == first.kind && last.device == first.device;
        }
        if (goes_on) return {};
        resolved.range_start = first.first;
        resolved.range_size = first.size;
        return {};
    }

    ferry_instance &instance_;
    const host_ranges &host_ranges_;
    const CUstream stream_;
    const bool merges_;
    batch_job &job_;
    const ferry_copy_desc *last_of_array_ = nullptr; // what the last box was, if others can be that one moved
};

failure check_arrays(const batch_input &input, batch_checker &checker, batch_job &job) noexcept {
    for (std::uint64_t i = 0; i < input.count; ++i) {
        const std::uint64_t size = input.sizes[i];
        if (size == 0 || checker.add_plain(input.destinations[i], input.sources[i], size)) continue;
        ferry_place destination = {}, source = {};
        destination.address = input.destinations[i];
        source.address = input.sources[i];
        if (failure failed = checker.add_line(destination, source, size, input.count - i - 1)) {
            job.bad_index = i;
            return failed;
        }
    }
    return {};
}

failure check_descriptors(const ferry_instance &instance, const batch_input &input, batch_checker &checker,
                          batch_job &job) noexcept {
    for (std::uint64_t i = 0; i < input.count; ++i) {
        const ferry_copy_desc &copy = input.copies[i];
        const std::uint64_t following = input.count - i - 1;
        failure failed;
        if (checker.add_moved(copy)) continue;
        // With full checks what is stated is compared too.
        if (!is_plain_line(copy, instance.limits))
            failed = checker.add_copy(copy, following);
        else if (instance.full_checks || !checker.add_plain(copy.destination.address, copy.source.address, copy.width))
            failed = checker.add_line(copy.destination, copy.source, copy.width, following);
        if (failed) {
            job.bad_index = i;
            return failed;
        }
    }
    return {};
}

// Of what has been checked; the shapes are laid out once more, as the pieces know their indices no longer.
failure check_overlap(const ferry_instance &instance, const batch_input &input, batch_job &job) noexcept {
    job.spans.clear();
    for (std::uint64_t i = 0; i < input.count; ++i) {
        shape shape = {};
        if (input.copies) {
            if (failure failed = lay_out(input.copies[i], instance.limits, shape)) return failed;
        } else {
            shape.width = input.sizes[i];
            shape.height = shape.depth = 1;
            shape.destination.span.first = input.destinations[i];
            shape.source.span.first = input.sources[i];
        }
        if (!shape.empty() && !append_spans(shape, i, job.spans)) return no_memory;
    }
    const shared_bytes shared = find_shared_bytes(job.spans);
    if (!shared.found) return {};
    job.bad_index = shared.index;
    return refuse(FERRY_ERROR_OVERLAP, FERRY_SIDE_DESTINATION, FERRY_FIELD_INDEX, shared.other, shared.index);
}

// By a few of the copies.
std::uint64_t estimate_bytes(const batch_input &input) noexcept {
    constexpr std::uint64_t samples = 16;
    const std::uint64_t step = input.count / samples + 1;
    std::uint64_t sum = 0;
    for (std::uint64_t i = 0; i < input.count; i += step)
        if (__builtin_add_overflow(sum, input.copies ? input.copies[i].width : input.sizes[i], &sum)) return UINT64_MAX;
    return __builtin_mul_overflow(sum, step, &sum) ? UINT64_MAX : sum;
}

// For the default streams in a thread without a context: the devices of the first copy that has one.
failure find_first_devices(ferry_instance &instance, const batch_input &input, int (&devices)[2]) noexcept {
    for (std::uint64_t i = 0; i < input.count; ++i) {
        if ((input.copies ? input.copies[i].width : input.sizes[i]) == 0) continue;
        for (const bool at_source : {false, true}) {
            int &device = devices[at_source];
            ferry_place place = {};
            if (input.copies)
                place = at_source ? input.copies[i].source : input.copies[i].destination;
            else
                place.address = at_source ? input.sources[i] : input.destinations[i];
            device = -1;
            const bool is_stated = place.kind == FERRY_KIND_DEVICE || place.kind == FERRY_KIND_ARRAY;
            if (is_stated && place.device >= 0 && place.device < instance.limits.device_count)
                device = place.device;
            else if (place.kind == FERRY_KIND_ANY || place.kind == FERRY_KIND_DEVICE) {
                address_facts facts;
                if (failure failed = look_up_address(instance.cu, place.address, ask::kind_only, facts)) return failed;
                device = facts.device;
            }
        }
        if (devices[0] >= 0 || devices[1] >= 0) return {};
    }
    return {};
}

} // namespace

failure enter_for_batch(ferry_instance &instance, const batch_input &input, CUstream stream, batch_job &job,
                        context_scope &scope) noexcept {
    job.bad_index = 0;
    int devices[2] = {-1, -1};
    if (belongs_to_current_context(stream)) {
        CUcontext current = nullptr;
        if (CUresult result = instance.cu.cuCtxGetCurrent(&current)) return to_failure(result);
        if (!current)
            if (failure failed = find_first_devices(instance, input, devices)) return failed;
    }
    if (failure failed = choose_context(instance.cu, instance.contexts, stream, devices[0], devices[1], job.context))
        return failed;
    if (failure failed = scope.enter(job.context.wanted, job.context.current)) return failed;
    return instance.contexts.device_of_current(job.context.wanted, job.context_device);
}

failure check_batch(ferry_instance &instance, const batch_input &input, bool merges, CUstream stream,
                    batch_job &job) noexcept {
    job.pieces.clear();
    job.boxes.clear();
    job.own_views.clear();
    job.arrays.begin(instance.cu);
    batch_checker checker(instance, stream, merges, job);
    if (!checker.has_room_for(input.count)) return no_memory;
    if (failure failed =
            job.ranges.begin(instance.cu, job.context.wanted, job.context_device, stream, estimate_bytes(input)))
        return failed;
    if (failure failed =
            input.copies ? check_descriptors(instance, input, checker, job) : check_arrays(input, checker, job))
        return failed;
    return input.flags & FERRY_BATCH_CHECK_OVERLAP ? check_overlap(instance, input, job) : failure{};
}

} // namespace ferry
