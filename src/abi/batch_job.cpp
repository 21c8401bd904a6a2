#include "abi/batch_job.h"

#include <algorithm>
#include <iterator>
#include <new>

#include "abi/copy_steps.h"
#include "abi/instance.h"
#include "base/checked.h"
#include "route/kernel_route.h"

namespace ferry {

// ---- Jobs that rest

batch_jobs::~batch_jobs() {
    while (batch_job *const job = resting_.pop())
        destroy(*job);
}

batch_job *batch_jobs::take() noexcept {
    // A child of a fork may have been born with the mutex locked, and others need not wait either: there are more jobs.
    if (std::unique_lock held(mutex_, std::try_to_lock); held.owns_lock())
        if (batch_job *const rested = resting_.pop()) return rested;
    void *const place = memory_.allocate(sizeof(batch_job), alignof(batch_job));
    return place ? new (place) batch_job(memory_) : nullptr;
}

void batch_jobs::give_back(batch_job &job) noexcept {
    if (std::unique_lock held(mutex_, std::try_to_lock); held.owns_lock())
        resting_.push_front(job);
    else
        destroy(job);
}

void batch_jobs::destroy(batch_job &job) noexcept {
    job.~batch_job();
    memory_.deallocate(&job, sizeof(batch_job));
}

// ---- Checking

namespace {

constexpr failure no_memory = {.status = FERRY_ERROR_OUT_OF_MEMORY};

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
        const known_ranges &ranges = job_.ranges;
        const std::uint32_t to = ranges.guess(destination), from = ranges.guess(source);
        const bool overlap = destination - source < size || source - destination < size;
        if (!ranges[to].holds(destination, size) || !ranges[from].holds(source, size) || overlap) return false;
        append({destination, source, size, to, from});
        return true;
    }

    bool has_room_for(std::uint64_t count) noexcept {
        return count < SIZE_MAX / sizeof(batch_piece) / 4 && job_.pieces.reserve(job_.pieces.size() + count);
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
        batch_box box = {};
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
        resolved_ends resolved;
        bool is_for_batches = true;
        if (failure failed = resolve(copy.source, shape.source, resolved.source, box.from, is_for_batches))
            return on_side(failed, FERRY_SIDE_SOURCE);
        if (failure failed = resolve(copy.destination, shape.destination, resolved.destination, box.to, is_for_batches))
            return on_side(failed, FERRY_SIDE_DESTINATION);
        if (failure failed = look_up_arrays(instance_.cu, copy, resolved)) return failed;
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
        const known_ranges &ranges = job_.ranges;
        box.group = is_linear && is_for_batches ? group_of(ranges[box.from], ranges[box.to], job_.context_device)
                                                : piece_group::apart;
        return job_.boxes.append(box) ? failure{} : no_memory;
    }

private:
    void append(const batch_piece &piece) noexcept {
        if (merges_)
            append_merging(job_.pieces, piece);
        else
            job_.pieces.append_reserved(piece);
    }

    // One with flags: what they ask for must be possible.
    failure add_own(std::uint32_t flags, batch_box &box) noexcept {
        box.way = box_way::own;
        box.group = piece_group::apart;
        plan_facts facts = {.context_device = job_.context_device, .form = copy_form::asynchronous};
        facts.wishes = wishes_of(flags);
        if (failure failed = choose(instance_, box.shape, job_.context.wanted, facts, box.views, box.plan))
            return failed;
        return job_.boxes.append(box) ? failure{} : no_memory;
    }

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
    failure resolve(const ferry_place &place, const shape_end &end, resolved_place &resolved,
                    std::uint32_t &range_index, bool &is_for_batches) noexcept {
        resolved.range_size = 0;
        resolved.array.element_size = 0;
        if (end.array) {
            resolved.kind = memory_kind::array;
            resolved.device = place.device;
            is_for_batches &= place.device < 0 || place.device == job_.context_device;
            return {};
        }
        const std::uint64_t bytes = end.span.last - end.span.first + 1;
        const int stated = place.kind == FERRY_KIND_DEVICE ? place.device : -1;
        std::uint32_t index = known_ranges::unknown;
        if (failure failed = job_.ranges.find(end.span.first, bytes, stated, index)) return failed;
        range_index = index;
        const known_range range = job_.ranges[index];
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
        bool goes_on = range.kind == memory_kind::device;
        for (known_range last = range; goes_on && !last.holds(end.span.last, 1);) {
            if (failure failed = job_.ranges.find(last.first + last.size, 1, -1, index)) return failed;
            last = job_.ranges[index];
            goes_on = last.kind == range.kind && last.device == range.device;
        }
        if (goes_on) return {};
        resolved.range_start = range.first;
        resolved.range_size = range.size;
        return {};
    }

    ferry_instance &instance_;
    const host_ranges &host_ranges_;
    const CUstream stream_;
    const bool merges_;
    batch_job &job_;
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
    if (failure failed = job.ranges.begin(instance.cu, job.context.wanted, job.context_device, stream)) return failed;
    batch_checker checker(instance, stream, merges, job);
    if (!checker.has_room_for(input.count)) return no_memory;
    if (failure failed =
            input.copies ? check_descriptors(instance, input, checker, job) : check_arrays(input, checker, job))
        return failed;
    return input.flags & FERRY_BATCH_CHECK_OVERLAP ? check_overlap(instance, input, job) : failure{};
}

// ---- Planning

namespace {

constexpr copy_direction direction_of(int group) noexcept {
    switch (static_cast<piece_group>(group)) {
    case piece_group::up:
        return copy_direction::host_to_device;
    case piece_group::down:
        return copy_direction::device_to_host;
    case piece_group::between:
        return copy_direction::between_devices;
    default:
        return copy_direction::within_device;
    }
}

obstacle batch_call_obstacle(bool has_entry_point, bool is_taken) noexcept {
    return !has_entry_point ? obstacle::no_entry_point : is_taken ? obstacle::none : obstacle::default_stream;
}

// True where some group goes by kernels.
bool plan_groups(const ferry_instance &instance, bool takes_batch_calls, bool has_kernels, batch_job &job) noexcept {
    bool takes_kernels = false;
    for (int group = 0; group < piece_groups; ++group) {
        const group_facts &of = job.groups[group];
        batch_plan &plan = job.plans[group];
        plan = {};
        if (of.count == 0) continue;
        const copy_wishes wishes = wishes_of(instance.copy_flags);
        if (group == static_cast<int>(piece_group::apart)) {
            if (wishes.forced == route_kind::kernel) plan.refused = obstacle::pageable; // or out of reach
            continue;
        }
        const bool is_managed = group == static_cast<int>(piece_group::managed);
        const std::uint64_t bits = of.misalignment | 16;
        plan = plan_batch({.direction = direction_of(group),
                           .count = of.count,
                           .bytes = of.bytes,
                           .largest = of.largest,
                           .access = static_cast<unsigned>(bits & -bits),
                           .kernels = is_managed    ? obstacle::managed
                                      : has_kernels ? obstacle::none
                                                    : obstacle::not_loaded,
                           .batch_call = batch_call_obstacle(has_line_batches(instance.cu), takes_batch_calls),
                           .wishes = wishes,
                           .profile = instance.profiles.of(job.context_device)});
        takes_kernels |= plan.way == batch_way::kernel;
    }
    return takes_kernels;
}

bool may_be_for_kernels(const batch_box &box) noexcept {
    return box.way != box_way::own && box.group != piece_group::apart && box.group != piece_group::managed;
}

// A box that a kernel copies faster by itself goes with the others that do; of the rest all of a group or none.
void plan_boxes_for_kernels(const ferry_instance &instance, bool takes_batch_calls, bool has_kernels,
                            batch_job &job) noexcept {
    plan_facts facts = {.context_device = job.context_device, .form = copy_form::asynchronous};
    facts.kernels = has_kernels ? obstacle::none : obstacle::not_loaded;
    facts.source_reach = facts.destination_reach = obstacle::none;
    facts.wishes = wishes_of(instance.copy_flags);
    facts.profile = instance.profiles.of(job.context_device);
    batch_facts rest[piece_groups];
    std::uint64_t misalignment[piece_groups] = {};
    for (batch_box &box : job.boxes) {
        if (box.way == box_way::own) continue;
        box.way = box_way::call;
        if (!may_be_for_kernels(box)) continue;
        const copy_plan alone = plan_copy(box.shape, facts);
        if (alone.route == route_kind::kernel) {
            box.way = box_way::kernel;
            box.blocks = alone.blocks;
            continue;
        }
        const auto group = static_cast<int>(box.group);
        const std::uint64_t bytes = box.shape.width * box.shape.height * box.shape.depth;
        ++rest[group].count;
        rest[group].bytes += bytes;
        rest[group].largest = std::max(rest[group].largest, bytes);
        misalignment[group] |= (box.shape.source.span.first ^ box.shape.destination.span.first) |
                               box.shape.source.row_pitch | box.shape.destination.row_pitch;
    }
    for (int group = 0; group < piece_groups; ++group) {
        if (rest[group].count == 0) continue;
        const std::uint64_t bits = misalignment[group] | 16;
        rest[group].direction = direction_of(group);
        rest[group].are_boxes = true;
        rest[group].access = static_cast<unsigned>(bits & -bits);
        rest[group].kernels = facts.kernels;
        rest[group].batch_call = batch_call_obstacle(has_box_batches(instance.cu), takes_batch_calls);
        rest[group].wishes = facts.wishes;
        rest[group].profile = facts.profile;
        const batch_plan plan = plan_batch(rest[group]);
        if (plan.way != batch_way::kernel) continue;
        for (batch_box &box : job.boxes)
            if (static_cast<int>(box.group) == group && box.way == box_way::call) {
                box.way = box_way::kernel;
                box.blocks = plan.blocks;
            }
    }
}

bool takes_kernels(const batch_job &job) noexcept {
    return std::any_of(job.boxes.begin(), job.boxes.end(),
                       [](const batch_box &box) { return box.way == box_way::kernel; });
}

// What is left goes by a batch call, if that takes several.
failure plan_box_calls(const ferry_instance &instance, bool takes_batch_calls, batch_job &job) noexcept {
    job.operations.clear();
    if (!takes_batch_calls || !has_box_batches(instance.cu)) return {};
    if (!job.operations.reserve(job.boxes.size())) return no_memory;
    batch_box *last = nullptr;
    for (batch_box &box : job.boxes) {
        CUDA_MEMCPY3D_BATCH_OP operation;
        if (box.way != box_way::call || !lower(box.shape, box.element, operation)) continue;
        job.operations.append_reserved(operation);
        box.way = box_way::batch_call;
        last = &box;
    }
    if (job.operations.size() != 1) return {};
    last->way = box_way::call;
    job.operations.clear();
    return {};
}

} // namespace

failure plan_job(ferry_instance &instance, bool takes_batch_calls, const batch_plan *ways, batch_job &job) noexcept {
    if (!sort_by_group(job.pieces, job.scratch, job.ranges, job.context_device, job.groups)) return no_memory;
    if (ways)
        std::copy_n(ways, piece_groups, job.plans);
    else if (plan_groups(instance, takes_batch_calls, instance.kernels.may_serve(), job) && instance.kernels.load())
        plan_groups(instance, takes_batch_calls, false, job);
    for (const batch_plan &plan : job.plans)
        if (plan.refused != obstacle::none)
            return {FERRY_ERROR_ROUTE, FERRY_SIDE_DESCRIPTOR, FERRY_FIELD_FLAGS, 0,
                    static_cast<std::uint64_t>(plan.refused)};
    job.lines.clear();
    for (int group = 0; group < piece_groups; ++group)
        if (job.plans[group].way == batch_way::batch_call)
            if (!job.lines.append(job.pieces.begin() + job.groups[group].begin, job.groups[group].count))
                return no_memory;
    plan_boxes_for_kernels(instance, takes_batch_calls, instance.kernels.may_serve(), job);
    if (takes_kernels(job) && instance.kernels.load()) plan_boxes_for_kernels(instance, takes_batch_calls, false, job);
    return plan_box_calls(instance, takes_batch_calls, job);
}

// ---- Enqueuing

namespace {

shape shape_of(const batch_piece &piece, const known_ranges &ranges) noexcept {
    const auto end_of = [&](std::uint64_t address, std::uint32_t range) noexcept {
        shape_end end = {};
        end.kind = ranges[range].kind;
        end.device = ranges[range].device;
        end.span = {address, address + (piece.size - 1)};
        end.row_pitch = piece.size;
        end.slice_height = 1;
        return end;
    };
    return {end_of(piece.source, piece.from), end_of(piece.destination, piece.to), piece.size, 1, 1};
}

constexpr failure too_large = {.status = FERRY_ERROR_OVERFLOW}; // more than any memory holds

bool pack(const known_ranges &ranges, const batch_piece &piece, piece_packer &packed) noexcept {
    return packed.add(piece.destination + ranges[piece.to].alias, piece.source + ranges[piece.from].alias, piece.size);
}

} // namespace

failure free_table(ferry_instance &instance, CUstream stream, void *table) noexcept {
    if (!instance.tables.free_on(stream, table)) return {};
    const CUresult passed = instance.cu.cuStreamSynchronize(stream);
    instance.tables.free(table);
    return to_failure(passed);
}

std::uint64_t records_of(const group_facts &group) noexcept {
    return group.count + group.bytes / piece_packer::largest_record;
}

bool pack_group(const batch_job &job, int group, piece_packer &packed) noexcept {
    const batch_piece *const first = job.pieces.begin() + job.groups[group].begin;
    return std::all_of(first, first + job.groups[group].count,
                       [&](const batch_piece &piece) { return pack(job.ranges, piece, packed); });
}

namespace {

class batch_runner {
public:
    batch_runner(ferry_instance &instance, const batch_job &job, copy_form form, const launch_site &site) noexcept
        : instance_(instance), job_(job), form_(form), site_(site), stream_(site.stream),
          takes_batches_(takes_batch_calls(site.stream, site.is_captured)) {}

    failure run() noexcept {
        if (site_.is_captured)
            if (failure failed = for_each_call([&](const shape &shape) noexcept { return try_capture(shape); }))
                return failed;
        if (failure failed = for_each_call([&](const shape &shape) noexcept { return call(shape); })) return failed;
        if (failure failed = run_boxes()) return failed;
        std::size_t first_line = 0;
        for (int group = 0; group < piece_groups; ++group) {
            const std::size_t count = job_.groups[group].count;
            if (count == 0) continue;
            failure failed;
            if (way_of(group) == batch_way::batch_call) {
                failed = run_lines(group, first_line);
                first_line += count;
            } else if (way_of(group) == batch_way::kernel) {
                failed = run_kernel(group);
            }
            if (failed) return failed;
        }
        return {};
    }

private:
    batch_way way_of(int group) const noexcept {
        const batch_way planned = job_.plans[group].way;
        return planned == batch_way::batch_call && !takes_batches_ ? batch_way::calls : planned;
    }

    bool is_called(const batch_box &box) const noexcept {
        return box.way == box_way::call || (box.way == box_way::batch_call && !takes_batches_) ||
               (box.way == box_way::own && box.plan.route != route_kind::kernel);
    }

    // What goes by a driver call of its own.
    template <class Action> failure for_each_call(const Action &action) noexcept {
        for (const batch_box &box : job_.boxes)
            if (is_called(box))
                if (failure failed = action(box.shape)) return failed;
        for (int group = 0; group < piece_groups; ++group)
            if (way_of(group) == batch_way::calls)
                if (failure failed = for_each_piece(group, action)) return failed;
        return {};
    }

    template <class Action> failure for_each_piece(int group, const Action &action) noexcept {
        const batch_piece *const first = job_.pieces.begin() + job_.groups[group].begin;
        for (const batch_piece *piece = first; piece != first + job_.groups[group].count; ++piece)
            if (failure failed = action(shape_of(*piece, job_.ranges))) return failed;
        return {};
    }

    plan_facts facts() const noexcept {
        return {.context_device = job_.context_device, .form = form_, .is_captured = site_.is_captured};
    }

    // Whether the graph takes it: asked of all before any is enqueued.
    failure try_capture(const shape &shape) noexcept {
        plan_facts facts = this->facts();
        facts.is_captured = false;
        copy_plan plan = plan_for_driver(shape, facts);
        context_scope scope(instance_.cu);
        if (!plan.names_contexts) return {};
        return enter_for_graph(instance_, shape, stream_, site_.context, facts, plan, scope);
    }

    failure call(const shape &shape) noexcept {
        plan_facts facts = this->facts();
        facts.is_captured = false;
        copy_plan plan = plan_for_driver(shape, facts);
        context_scope graph_scope(instance_.cu);
        if (plan.names_contexts && site_.is_captured)
            if (failure failed = enter_for_graph(instance_, shape, stream_, site_.context, facts, plan, graph_scope))
                return failed;
        end_contexts contexts = {site_.context, site_.context};
        if (plan.names_contexts)
            if (failure failed = find_contexts(instance_, shape, job_.context_device, contexts)) return failed;
        failure result = run_driver_route(instance_.cu, shape, plan, form_, contexts, stream_);
        if (result) run_refused_in_parts(instance_, shape, facts, contexts, stream_, result);
        return result;
    }

    // What the driver refuses to take in a batch it may take one by one, and then says what is wrong.
    static bool is_refused(CUresult result) noexcept {
        return result == CUDA_ERROR_INVALID_VALUE || result == CUDA_ERROR_NOT_SUPPORTED;
    }

    failure run_boxes() noexcept {
        for (const batch_box &box : job_.boxes)
            if (box.way == box_way::own && box.plan.route == route_kind::kernel)
                if (failure failed =
                        run_kernel_copy(instance_.cu, instance_.kernels, box.shape, box.plan, box.views, stream_))
                    return failed;
        if (failure failed = run_box_calls()) return failed;
        for (int group = 0; group < piece_groups; ++group)
            if (failure failed = run_box_kernels(group)) return failed;
        return {};
    }

    failure run_box_calls() noexcept {
        if (job_.operations.size() == 0 || !takes_batches_) return {};
        const CUresult result = run_box_batch(instance_.cu, job_.operations.begin(), job_.operations.size(), stream_);
        if (!is_refused(result)) return to_failure(result);
        for (const batch_box &box : job_.boxes)
            if (box.way == box_way::batch_call)
                if (failure failed = call(box.shape)) return failed;
        return {};
    }

    // As many to a launch as the parameters hold; what is too large for that has one of its own.
    failure run_box_kernels(int group) noexcept {
        std::uint64_t count = 0, bytes = 0;
        std::uint32_t blocks = 0;
        for (const batch_box &box : job_.boxes)
            if (is_for_kernel(box, group)) {
                ++count;
                bytes += box.shape.width * box.shape.height * box.shape.depth;
                blocks = std::max<std::uint32_t>(blocks, box.blocks);
            }
        const team_cut cut = cut_boxes(count, bytes);
        kernels::box_parameters given;
        box_packer packer(given.boxes, kernels::most_boxes_in_parameters, cut);
        const auto launch = [&]() noexcept -> failure {
            if (packer.empty()) return {};
            const failure failed = launch_boxes(instance_.cu, instance_.kernels, packer, given, blocks, stream_);
            packer = box_packer(given.boxes, kernels::most_boxes_in_parameters, cut);
            return failed;
        };
        for (const batch_box &box : job_.boxes) {
            if (!is_for_kernel(box, group)) continue;
            const kernel_box one = box_of(box.shape, box.shape.destination.span.first + job_.ranges[box.to].alias,
                                          box.shape.source.span.first + job_.ranges[box.from].alias);
            pack_result packed = packer.add(one);
            if (packed == pack_result::no_room) {
                if (failure failed = launch()) return failed;
                packed = packer.add(one);
            }
            if (packed != pack_result::added)
                if (failure failed = launch_strided(instance_.cu, instance_.kernels, one, blocks, stream_))
                    return failed;
        }
        return launch();
    }

    static bool is_for_kernel(const batch_box &box, int group) noexcept {
        return box.way == box_way::kernel && static_cast<int>(box.group) == group;
    }

    failure run_lines(int group, std::size_t first) noexcept {
        const CUresult result = run_line_batch(instance_.cu, job_.lines, first, job_.groups[group].count, stream_);
        if (!is_refused(result)) return to_failure(result);
        return for_each_piece(group, [&](const shape &shape) noexcept { return call(shape); });
    }

    failure run_kernel(int group) noexcept {
        const std::uint32_t blocks = job_.plans[group].blocks;
        const std::uint64_t records = records_of(job_.groups[group]);
        if (site_.tables && site_.tables[group].address)
            return launch_piece_table(instance_.cu, instance_.kernels, site_.tables[group].packed,
                                      site_.tables[group].address, blocks, stream_);
        void *table = nullptr;
        // A graph outlives the call, so its pieces travel in the parameters, in as many launches as that takes.
        const bool wants_table = records > kernels::most_pieces_in_parameters && !site_.is_captured;
        if (!wants_table || instance_.tables.allocate(records * sizeof(kernels::piece), table))
            return run_in_parameters(group, blocks);
        if (failure failed = launch_from(table, group, records, blocks)) {
            instance_.tables.free(table);
            return failed;
        }
        return free_table(instance_, stream_, table);
    }

    failure launch_from(void *table, int group, std::uint64_t records, std::uint32_t blocks) noexcept {
        address_facts facts;
        if (failure failed =
                look_up_address(instance_.cu, reinterpret_cast<std::uintptr_t>(table), ask::everything, facts))
            return failed;
        piece_packer packer(static_cast<kernels::piece *>(table), static_cast<std::uint32_t>(records),
                            cut_pieces(job_.groups[group].count, job_.groups[group].bytes));
        if (!pack_group(job_, group, packer)) return too_large;
        return launch_piece_table(instance_.cu, instance_.kernels, packer, facts.device_address, blocks, stream_);
    }

    failure run_in_parameters(int group, std::uint32_t blocks) noexcept {
        const group_facts &of = job_.groups[group];
        const team_cut cut = cut_pieces(of.count, of.bytes);
        const batch_piece *next = job_.pieces.begin() + of.begin;
        const batch_piece *const end = next + of.count;
        while (next != end) {
            kernels::piece_parameters given;
            piece_packer packer(given.pieces, kernels::most_pieces_in_parameters, cut);
            while (next != end && pack(job_.ranges, *next, packer))
                ++next;
            if (packer.empty()) return too_large;
            if (failure failed = launch_pieces(instance_.cu, instance_.kernels, packer, given, blocks, stream_))
                return failed;
        }
        return {};
    }

    ferry_instance &instance_;
    const batch_job &job_;
    const copy_form form_;
    const launch_site &site_;
    const CUstream stream_;
    const bool takes_batches_; // this stream: a prepared job was planned for others too
};

} // namespace

failure enqueue_job(ferry_instance &instance, const batch_job &job, copy_form form, const launch_site &site) noexcept {
    return batch_runner(instance, job, form, site).run();
}

bool is_single_call(const batch_job &job) noexcept {
    if (job.pieces.size() + job.boxes.size() != 1) return false;
    if (job.boxes.size() == 1) return job.boxes[0].way == box_way::call;
    return std::none_of(std::begin(job.plans), std::end(job.plans),
                        [](const batch_plan &plan) { return plan.way != batch_way::calls; });
}

} // namespace ferry
