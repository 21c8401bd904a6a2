// Copies of pageable memory, and of narrow rows that are scattered into pinned memory: host threads move the bytes at
// the host's end, and a kernel or copies on the stream move them at the device's end, through slots of a staging
// buffer.
#include "routes/staged.h"

#include <algorithm>
#include <utility>

#include "copy/split.h"
#include "device/stream_order.h"
#include "driver/result.h"
#include "exec/driver_copy.h"
#include "memory/stream_buffer.h"
#include "plan/staged_chunks.h"
#include "routes/ends.h"

namespace ferry {

namespace {

// The end that threads read or write besides slots, and the other end. A file is the first, also if both are on the host.
bool is_from_host(const shape &shape) noexcept { return is_host(shape.source.kind) && !shape.destination.file; }
const shape_end &host_end(const shape &shape) noexcept {
    return is_from_host(shape) ? shape.source : shape.destination;
}
const shape_end &device_end(const shape &shape) noexcept {
    return is_from_host(shape) ? shape.destination : shape.source;
}

// Whether one launch without a kernel has enough chunks for the copy.
bool fits_one_launch(const shape &shape, std::uint64_t slot_size) noexcept {
    if (shape.bytes() > max_staging_copies * slot_size) return false;
    staged_box box = {};
    box.width = shape.width;
    box.height = shape.height;
    box.depth = shape.depth;
    box.to_device = is_host(shape.source.kind);
    box.by_copies = true;
    return ferry::staging(box, slot_size).chunk_count() <= max_staging_copies; // rows may not fill their slots
}

// Whether the copy can be staged without a kernel.
bool can_stage_by_copies(const shape &shape, const plan_facts &facts) noexcept {
    if (!facts.staging.has_stream_waits || !needs_threads(shape) || facts.call.is_captured) return false;
    const bool may_have_parts = shape.has_file() || caller_helps(shape, facts.call);
    return may_have_parts || fits_one_launch(shape, facts.staging.slot_size);
}

// Whether kernels are forbidden or cannot serve any copy.
bool has_no_kernels(const plan_facts &facts) noexcept {
    return facts.call.preferences.no_kernels || is_obstacle(facts.kernels.why_not);
}

// Whether the copy is of an array that kernels cannot access, and can pass through a buffer on the device: a kernel
// stages the bytes between the host and the buffer, and the driver copies them between the buffer and the array. Copies
// of 64 MiB without a kernel reached 19 GB/s to such an array and 22 GB/s from it, and arrays that kernels access 45 and
// 48 GB/s (H200, 2026-11-30).
bool passes_buffer(const copy_question &copy) noexcept {
    const plan_facts &facts = copy.facts;
    constexpr std::uint64_t min_bytes = std::uint64_t{2} << 20;
    return device_end(copy.shape).array && !copy.shape.has_file() && is_obstacle(facts.staging.reach) &&
           is_pageable(copy.shape) && copy.shape.bytes() >= min_bytes && facts.staging.has_stream_buffers &&
           !has_no_kernels(facts) && !facts.call.is_captured && !facts.call.preferences.no_wait;
}

// Whether the copy must be staged without a kernel.
bool needs_copies(const copy_question &copy) noexcept {
    return has_no_kernels(copy.facts) || (is_obstacle(copy.facts.staging.reach) && !passes_buffer(copy));
}

// Whether the destination is rows of pinned memory with gaps, which threads write faster than the link can scatter
// them.
bool scatters_rows(const shape &shape) noexcept {
    const shape_end &to = shape.destination;
    return is_pinned(to.kind) && !to.array && shape.height > 1 && to.row_pitch != shape.width;
}

// Pinned memory is staged only if its rows are scattered.
obstacle why_not_staged(const copy_question &copy) noexcept {
    const auto &[call, profile, kernels, staging, links] = copy.facts;
    const shape &shape = copy.shape;
    if (is_file_on_host(shape)) return staging.has_stream_waits ? staging.why_not : obstacle::no_staging;
    if (is_host(shape.source.kind) && is_host(shape.destination.kind)) return obstacle::host_to_host;
    if (has_far_end(shape)) return obstacle::other_device;
    if (!needs_threads(shape) && !scatters_rows(shape)) return obstacle::not_pageable;
    if (is_pageable(shape) && kernels.reaches_pageable) return obstacle::direct;
    const bool needs_kernel = !can_stage_by_copies(shape, copy.facts);
    if (needs_kernel && call.preferences.no_kernels) return obstacle::forbidden;
    if (is_obstacle(kernels.why_not) && (needs_kernel || is_obstacle(staging.why_not))) return kernels.why_not;
    if (is_obstacle(staging.why_not)) return staging.why_not;
    const shape_end &end = device_end(shape);
    if (is_elsewhere(end, call.context_device)) return obstacle::other_device;
    if (end.kind == memory_kind::managed) return obstacle::managed;
    return needs_kernel && !passes_buffer(copy) ? staging.reach : obstacle::none;
}

// The delay of a staged copy that recent copies suggest. If the caller helps, the delay of the threads does not count.
std::uint64_t staging_delay(const copy_question &copy, bool by_copies) noexcept {
    const staging_facts &staging = copy.facts.staging;
    return (by_copies ? 0 : staging.start_delay_ns) +
           (caller_helps(copy.shape, copy.facts.call) ? 0 : staging.thread_delay_ns);
}

std::uint32_t threads_at(const copy_question &copy) noexcept {
    return copy.facts.staging.threads + caller_helps(copy.shape, copy.facts.call);
}

std::uint16_t staged_blocks(const copy_question &copy) noexcept {
    const bool to_device = is_host(copy.shape.source.kind), reads_file = copy.shape.source.file;
    const std::uint32_t blocks = blocks_for_threads(threads_at(copy), to_device, reads_file),
                        max_blocks = copy.facts.call.preferences.max_blocks;
    const std::uint32_t wanted =
        copy.facts.staging.is_source_slow ? std::min<std::uint32_t>(blocks, blocks_for_slow_files) : blocks;
    return static_cast<std::uint16_t>(max_blocks ? std::min(max_blocks, wanted) : wanted);
}

struct staged_times {
    double by_ring_ns, by_copies_ns; // with a kernel, and without
};

// A staged copy takes as long as the link, or as the threads at the host's rows, whichever is slower.
staged_times predict_both(const copy_question &copy) noexcept {
    const plan_facts &facts = copy.facts;
    const auto &[direction, of_direction, rows] = copy.rates();
    const double bytes = rows.bytes();
    const bool has_gaps = copy.shape.height > 1 && host_end(copy.shape).row_pitch != copy.shape.width;
    const double threads =
        std::clamp(bytes / static_cast<double>(min_chunk), 1.0, static_cast<double>(threads_at(copy)));
    const double rows_ns = has_gaps ? static_cast<double>(rows.count) * of_direction->staged_row_ns : 0;
    const double by_threads = (bytes * 1000 / of_direction->staged_thread_rate + rows_ns) / threads;
    const device_profile &whole = *facts.profile;
    const double in_buffer = // read and written on the device
        passes_buffer(copy) ? 2 * bytes * 1000 / whole[copy_direction::within_device].driver_line_rate : 0;
    const double wake_ns = ns_to_wake(direction, facts.call.form, facts.staging.idle_ns);
    const double by_ring = of_direction->staged_fixed_ns + wake_ns +
                           std::max(bytes * 1000 / of_direction->staged_rate, by_threads) + in_buffer +
                           static_cast<double>(staging_delay(copy, false));
    // Kernels that fill the device delay the start of staging kernels. Copies of 256 MiB and more then reached 19 to 22
    // GB/s, and 35 on an idle device (H200, 2026-11-30).
    const double share_beside_kernels = facts.staging.start_delay_ns ? 0.6 : 1;
    const double by_copies = whole.copies_fixed_ns + wake_ns +
                             std::max(bytes * 1000 / (whole.copies_rate * share_beside_kernels), by_threads) +
                             static_cast<double>(staging_delay(copy, true));
    return {by_ring, by_copies};
}

prediction predict_staged(const copy_question &copy) noexcept {
    const auto [by_ring, by_copies] = predict_both(copy);
    const copy_preferences &preferences = copy.facts.call.preferences;
    const bool is_kernel_meant = preferences.is_urgent || preferences.forced != route_kind::none;
    const bool takes_copies = can_stage_by_copies(copy.shape, copy.facts) &&
                              (needs_copies(copy) || (!is_kernel_meant && by_copies < by_ring));
    return {takes_copies ? by_copies : by_ring, staged_blocks(copy), takes_copies, staging_delay(copy, takes_copies)};
}

// A call that waits for its copy anyway waits for the kernel as long as that may save time.
std::uint16_t start_patience(const copy_question &copy) noexcept {
    constexpr std::uint16_t least_us = staged_copy::least_patience_us;
    const plan_facts &facts = copy.facts;
    if (!facts.profile || facts.call.form != copy_form::synchronous) return least_us;
    const auto [by_ring_ns, by_copies_ns] = predict_both(copy);
    const double saved_us = (by_copies_ns - by_ring_ns) / 1000;
    return static_cast<std::uint16_t>(std::clamp(saved_us / 2, double{least_us}, double{UINT16_MAX}));
}

// Whether to stage a copy of pageable memory that can be staged. After other work on a stream, the copy is always
// staged: the driver's call would wait for that work, and the work may wait for the caller. On an idle stream, the
// driver's call waits only for the copy itself. That is acceptable for small copies, if staging is delayed, and if
// staging is much slower.
bool is_staged(const copy_question &copy) noexcept {
    const plan_facts &facts = copy.facts;
    const call_facts &call = facts.call;
    const shape &shape = copy.shape;
    const bool may_be_read = call.form == copy_form::synchronous || call.is_stream_idle || is_read_early(shape, call) ||
                             may_be_read_early(shape, call) || (call.is_source_final && is_read_in_the_call(shape));
    if (call.preferences.is_urgent) return !may_be_read || !is_sent_with_commands(shape);
    if (call.form == copy_form::asynchronous) {
        if (!may_be_read || !facts.profile) return true;
        const direction_profile &profile = *copy.rates().profile;
        if (is_worth_staging(shape.bytes(), profile) && staging_delay(copy, false) == 0 && !needs_copies(copy))
            return true;
    }
    return facts.profile && copy.is_faster(staged_route);
}

// Whether to stage rows of pinned memory, which the driver and kernels can copy too.
bool are_rows_staged(const copy_question &copy) noexcept {
    if (is_obstacle(copy.why_not_predicted())) return false;
    // For rows with gaps on the device, or with odd widths, the staging kernel is slower than predicted: 64 Ki
    // rows of 3 B took 117 us, against the driver's 88 us, and rows of 4 B at a pitch of 8 on both sides took 201 us.
    // The threads are slower than predicted at rows far apart: 190 us at a pitch of 512 B (H200).
    constexpr std::uint64_t cache_line = 64;
    const shape &shape = copy.shape;
    const shape_end &device = device_end(shape);
    if (shape.destination.row_pitch > cache_line) return false;
    const bool has_gaps = device.row_pitch != shape.width || (shape.depth > 1 && device.slice_height != shape.height);
    if (has_gaps || shape.width % 4 != 0) return false;
    return copy.is_faster(staged_route) &&
           (is_obstacle(kernel_route.why_not(copy)) ||
            copy.predicted(staged_route).ns * kernel_margin < copy.predicted(kernel_route).ns);
}

preference prefer_staged(const copy_question &copy) noexcept {
    if (copy.shape.has_file()) return {true, FERRY_REASON_ONLY};
    const bool is_urgent = copy.facts.call.preferences.is_urgent;
    if (!(is_pageable(copy.shape) ? is_staged(copy) : !is_urgent && are_rows_staged(copy))) return {};
    if (is_urgent) return {true, FERRY_REASON_URGENT};
    const bool is_faster = copy.facts.profile && copy.is_faster(staged_route);
    return {true, static_cast<std::uint8_t>(is_faster ? FERRY_REASON_PREDICTED : FERRY_REASON_NO_WAIT)};
}

// Copies on the stream replace the kernel if kernels are forbidden or cannot serve, or if kernels recently started
// late.
void plan_staged(const copy_question &copy, copy_plan &plan) noexcept {
    const plan_facts &facts = copy.facts;
    plan.wait_in_the_call = facts.call.form == copy_form::asynchronous && caller_helps(copy.shape, facts.call);
    plan.by_copies = is_file_on_host(copy.shape);
    if (plan.by_copies) return;
    const bool needs = needs_copies(copy);
    const bool may_be_by_copies = can_stage_by_copies(copy.shape, facts);
    if (may_be_by_copies) plan.start_patience_us = start_patience(copy);
    plan.by_copies =
        may_be_by_copies &&
        (needs || (facts.profile && facts.staging.start_delay_ns != 0 && copy.predicted(staged_route).by_copies));
    plan.blocks = plan.by_copies && needs ? std::uint16_t{0} : staged_blocks(copy);
    plan.through_buffer = !plan.by_copies && passes_buffer(copy);
    if (!plan.by_copies && !plan.through_buffer && facts.links.multilink == obstacle::none)
        plan.links = std::min<std::uint16_t>(facts.links.count, max_staged_links);
}

// Checks what only a staged copy needs. The driver rejects unreadable memory with an error. A staging thread that
// accessed such memory would end the process.
obstacle prepare_staged(machine &machine, const shape &shape, plan_facts &facts) noexcept {
    const bool is_touchable =
        !is_pageable(shape) || is_file_on_host(shape) || is_readable(machine, host_end(shape).span);
    const bool may_wait = !facts.call.preferences.no_wait;
    const bool is_ready =
        facts.call.form != copy_form::asynchronous || is_ready_to_stage(machine, facts.call.context_device, may_wait);
    if (!is_touchable || !is_ready)
        facts.staging.why_not = is_touchable && !may_wait ? obstacle::not_prepared : obstacle::no_staging;
    return facts.staging.why_not;
}

gpu::box_end box_end_of(const shape_end &end, std::uint64_t address) noexcept {
    return {address, end.row_pitch, end.row_pitch * end.slice_height};
}

staged_box staged_box_of(const shape &shape, const kernel_view &view, bool by_copies) noexcept {
    const shape_end &host = host_end(shape), &device = device_end(shape);
    staged_box box = {};
    box.host = box_end_of(host, host.span.first);
    box.file = host.file;
    box.writes_file = shape.destination.file;
    box.is_on_host = is_file_on_host(shape);
    box.width = shape.width;
    box.height = shape.height;
    box.depth = shape.depth;
    box.to_device = is_host(shape.source.kind);
    box.by_copies = by_copies;
    if (device.array)
        box.array = {view.surface, view.form, device.x, device.y, device.z};
    else
        box.device = box_end_of(device, box.is_on_host ? device.span.first : view.address);
    return box;
}

// Returns after the last write to `progress`.
error run_and_help(staging_engine &engine, const staged_copy &copy, CUstream stream,
                   staged_progress &progress) noexcept {
    const error failed = engine.enqueue(copy, stream, &progress);
    const error helped = engine.help(progress);
    return failed ? failed : helped;
}

// The helpers of a staged copy over several links, and their lanes. A helper without a lane is not used.
class helpers_of_copy {
public:
    explicit helpers_of_copy(machine &machine) noexcept
        : machine_(machine),
          own_(machine.lanes), lanes_{taken_lane(machine.lanes), taken_lane(machine.lanes), taken_lane(machine.lanes)} {
    }
    // The helpers' lanes are busy until the copy's kernels on these lanes have ended.
    ~helpers_of_copy() {
        if (count_) note_use();
    }
    helpers_of_copy(const helpers_of_copy &) = delete;
    helpers_of_copy &operator=(const helpers_of_copy &) = delete;

    // Orders the lanes after the stream's earlier work.
    void take(const copy_step &step, const copy_site &site) noexcept;
    const staged_helper *begin() const noexcept { return helpers_; }
    std::uint32_t count() const noexcept { return count_; }

private:
    void note_use() noexcept;

    machine &machine_;
    taken_lane own_, lanes_[max_staged_helpers];
    staged_helper helpers_[max_staged_helpers] = {};
    std::uint32_t count_ = 0;
};

void helpers_of_copy::take(const copy_step &step, const copy_site &site) noexcept {
    link_ways ways;
    stream_key user;
    const shape &shape = step.shape;
    const bool may_make = !step.call.preferences.no_wait;
    if (machine_.links.find_ways(shape, step.call.context_device, site.context, ways) || ways.count < 2) return;
    if (name_stream(machine_.cu, site.context, site.stream, user) || own_.take(site.context, user, false, may_make))
        return;
    for (unsigned link = 1; link < ways.count && count_ < max_staged_helpers; ++link) {
        const link_way &way = ways.all[link];
        context_scope scope(machine_.cu);
        if (scope.enter(way.context) || lanes_[count_].take(way.context, user, true, may_make)) continue;
        const CUstream behind = lanes_[count_]->stream;
        if (machine_.lanes.join(*own_, site.stream, behind)) return;
        helpers_[count_] = {way.context, behind, is_host(shape.source.kind) ? way.destination : way.source, way.device};
        ++count_;
    }
}

void helpers_of_copy::note_use() noexcept {
    for (std::uint32_t i = 0; i < count_; ++i)
        static_cast<void>(machine_.lanes.join(*lanes_[i], lanes_[i]->stream, lanes_[i]->stream));
}

struct staged_run {
    bool by_copies = false;
    std::uint16_t start_patience_us = 0; // see ferry::staged_copy
    const staged_helper *helpers = nullptr;
    std::uint32_t helper_count = 0;
    const std::uint64_t *targets = nullptr; // of a broadcast
    std::uint32_t target_count = 0;
};

// `progress` may be null. If the caller helps, the progress of the copy ends before the call returns.
error enqueue_staged(machine &machine, const copy_step &step, const copy_site &site, const staged_run &how,
                     staged_progress *progress) noexcept {
    const auto &[shape, call, plan, views] = step;
    const kernel_view &view = is_host(shape.source.kind) ? views.destination : views.source;
    const staged_copy copy = {.box = staged_box_of(shape, view, how.by_copies),
                              .device = call.context_device,
                              .context = site.context,
                              .blocks = plan.blocks,
                              .is_captured = call.is_captured,
                              .caller_helps = plan.synchronise_after || plan.wait_in_the_call,
                              .is_stream_idle = call.is_stream_idle,
                              .start_patience_us = how.start_patience_us,
                              .may_wait = !call.preferences.no_wait,
                              .device_end = &device_end(shape),
                              .helpers = how.helpers,
                              .helper_count = how.by_copies ? 0 : how.helper_count,
                              .targets = how.targets,
                              .target_count = how.target_count,
                              .index = site.index};
    if (shape.has_file() && !copy.caller_helps && !progress)
        return refuse_value(FERRY_ERROR_INVALID_ARGUMENT, FERRY_SIDE_NONE, FERRY_FIELD_TICKET, 0);
    if (!copy.caller_helps) return machine.staging.enqueue(copy, site.stream, progress);
    staged_progress of_call;
    staged_progress &reported = progress ? *progress : of_call;
    if (error failed = run_and_help(machine.staging, copy, site.stream, reported)) {
        const bool is_read = shape.source.file;
        return failed.status == FERRY_ERROR_FILE
                   ? on_side(to_error(reported.failure), is_read ? FERRY_SIDE_SOURCE : FERRY_SIDE_DESTINATION)
                   : failed;
    }
    return plan.synchronise_after ? wait_for_legacy_stream(machine.cu) : ok;
}

// Passes a part of a copy through intermediate memory, in the order of the stream: ferry stages the part between the host
// or a file and the intermediate memory, and the driver copies it between there and the other end.
error pass_part(machine &machine, copy_step staged, const copy_site &site, const shape_end &intermediate,
                bool to_device, const staged_run &how, staged_progress *progress) noexcept {
    shape by_driver = staged.shape;
    (to_device ? staged.shape.destination : staged.shape.source) = intermediate;
    (to_device ? by_driver.source : by_driver.destination) = intermediate;
    const auto copy_by_driver = [&]() noexcept {
        return run_driver_route(machine.cu, by_driver, {}, copy_form::asynchronous, {}, site.stream);
    };
    error failed = to_device ? ok : copy_by_driver();
    if (!failed) failed = enqueue_staged(machine, staged, site, how, progress);
    return !failed && to_device ? copy_by_driver() : failed;
}

// A copy between a file and the device without a kernel and without slots. Threads move each part between the file and
// a pinned block, and the copy engine moves it between the block and the device. Everything is in the order of the
// stream, so all parts use one block.
[[gnu::cold, gnu::noinline]] error run_through_block(machine &machine, const copy_step &step, const copy_site &site,
                                                     staged_progress *progress) noexcept {
    // A driver's call waits if too many operations are enqueued.
    constexpr std::uint64_t min_bytes = std::uint64_t{4} << 20, max_parts = 64;
    const std::uint64_t bytes = step.shape.bytes(), most = std::max(min_bytes, divide_up(bytes, max_parts));
    constexpr std::uint64_t limit = max_parts * machine::max_read_buffer_bytes;
    if (bytes > limit)
        return refuse(FERRY_ERROR_LIMIT, FERRY_SIDE_EXTENT, FERRY_FIELD_SIZE, numbers::at_most, limit, bytes);
    void *block = nullptr;
    if (error failed = machine.read_buffers.allocate_on(site.stream, std::min(bytes, most), block)) return failed;
    const bool is_read = step.shape.source.file;
    const error failed = for_each_chunk(step.shape, most, [&](const shape &part) noexcept {
        copy_step by_threads = step;
        by_threads.shape = part;
        const auto first = reinterpret_cast<std::uintptr_t>(block);
        return pass_part(machine, by_threads, site, packed_end(memory_kind::pinned, -1, first, part), is_read,
                         {.by_copies = true}, progress);
    });
    static_cast<void>(machine.read_buffers.free_on(site.stream, block));
    if (failed || !is_read) return failed;
    if (step.plan.synchronise_after) return wait_for_legacy_stream(machine.cu);
    return step.plan.wait_in_the_call ? to_error(machine.cu.cuStreamSynchronize(site.stream)) : ok;
}

// A copy without a kernel, of a file or in a call that waits. A call that waits copies parts, for which the slots suffice
// if no other copy has them.
[[gnu::cold, gnu::noinline]] error run_parts_by_copies(machine &machine, const copy_step &step, const copy_site &site,
                                                       staged_progress *progress) noexcept {
    const bool waits = step.plan.synchronise_after || step.plan.wait_in_the_call;
    const std::uint64_t most = waits ? machine.staging.slot_size() * (max_staging_copies / 2) : step.shape.bytes();
    return for_each_chunk(step.shape, most, [&](const shape &part) noexcept {
        copy_step of_part = step;
        of_part.shape = part;
        const error failed = enqueue_staged(machine, of_part, site, {.by_copies = true}, progress);
        const bool has_block = part.has_file() && failed.status == FERRY_ERROR_LIMIT && !step.call.preferences.no_wait;
        return has_block ? run_through_block(machine, of_part, site, progress) : failed;
    });
}

// Copies parts through a buffer on the device. `is_refused`: there is no buffer, or the device has no room for the first
// kernel. Then nothing was copied.
[[gnu::noinline]] error run_through_buffer(machine &machine, const copy_step &step, const copy_site &site,
                                           std::uint16_t start_patience_us, staged_progress *progress,
                                           bool &is_refused) noexcept {
    const bool to_array = is_host(step.shape.source.kind), waits = step.plan.synchronise_after;
    const std::uint64_t most = std::min(step.shape.bytes(), stream_buffer::max_bytes);
    const int device = step.call.context_device;
    stream_buffer buffer(machine.cu, machine.buffers, machine.device_memory[device], site.stream);
    if (error failed = buffer.allocate(device, most)) return failed;
    is_refused = !buffer.address();
    if (is_refused) return {};
    bool is_first = true;
    error failed = for_each_chunk(step.shape, most, [&](const shape &part) noexcept {
        copy_step staged = step;
        staged.shape = part;
        (to_array ? staged.views.destination : staged.views.source) = {.why_not = obstacle::none,
                                                                       .address = buffer.address()};
        staged.plan.wait_in_the_call |= waits; // the caller helps, and waits for the array afterwards
        staged.plan.synchronise_after = false;
        const bool is_next_on_stream = std::exchange(is_first, false) && to_array;
        const std::uint16_t patience_us = is_next_on_stream ? start_patience_us : 0;
        staged.call.is_stream_idle &= is_next_on_stream;
        const error failed =
            pass_part(machine, staged, site, packed_end(memory_kind::device, device, buffer.address(), part), to_array,
                      {.start_patience_us = patience_us}, progress);
        is_refused = patience_us != 0 && failed.status == FERRY_ERROR_LIMIT;
        return failed;
    });
    const error freed = buffer.free();
    if (is_refused) return freed;
    if (!failed) failed = freed;
    return !failed && waits ? wait_for_legacy_stream(machine.cu) : failed;
}

// Stages with a kernel or without. A kernel of the program that occupies the device may wait for the copy. In this
// case, ferry's kernel is not enqueued.
error run_staged(machine &machine, const copy_step &step, const copy_site &site, staged_progress *progress) noexcept {
    const call_facts &call = step.call;
    const copy_plan &plan = step.plan;
    helpers_of_copy helpers(machine);
    if (plan.links > 1 && !plan.by_copies) helpers.take(step, site);
    const auto run = [&](bool by_copies, std::uint16_t start_patience_us) noexcept {
        return enqueue_staged(machine, step, site, {by_copies, start_patience_us, helpers.begin(), helpers.count()},
                              progress);
    };
    if (call.is_captured) return run(false, 0);
    bool is_late = false;
    if (!plan.by_copies) {
        const bool is_first_on_stream =
            call.form == copy_form::synchronous ? is_idle(machine.cu, site.stream, true) : call.is_stream_idle;
        const bool may_wait = is_first_on_stream && !call.preferences.no_wait;
        const std::uint16_t patience_us = may_wait ? plan.start_patience_us : 0;
        const error failed = plan.through_buffer
                                 ? run_through_buffer(machine, step, site, patience_us, progress, is_late)
                                 : run(false, patience_us);
        if (!plan.through_buffer) is_late = patience_us != 0 && failed.status == FERRY_ERROR_LIMIT;
        if (!is_late) return failed;
        if (plan.through_buffer && plan.start_patience_us == 0) { // too large for staging without a buffer
            const budget &of_device = machine.device_memory[call.context_device];
            const std::uint64_t needed = std::min(step.shape.bytes(), stream_buffer::max_bytes);
            return of_device.left() < needed ? of_device.refuse(FERRY_FIELD_MAX_DEVICE_BYTES, needed) : no_memory;
        }
    }
    const bool is_file = step.shape.has_file() && !is_file_on_host(step.shape);
    const bool has_parts = is_file || (caller_helps(step.shape, call) && !is_file_on_host(step.shape) &&
                                       !fits_one_launch(step.shape, machine.staging.slot_size()));
    const error failed = has_parts ? run_parts_by_copies(machine, step, site, progress) : run(true, 0);
    // If the driver rejects a later copy on the stream, `progress` has already counted the earlier copies.
    const bool is_untouched = failed.status == FERRY_ERROR_LIMIT || (lacks_memory(failed) && !progress);
    const bool may_driver_serve = !progress && call.preferences.forced != route_kind::staged && !is_file;
    const bool is_kernel_left = can_be_in_graph(plan) && !plan.through_buffer && !(is_late && may_driver_serve);
    return is_untouched && is_kernel_left ? run(false, 0) : failed;
}

void explain_staged(const machine &machine, const copy_step &step, ferry_explanation &found) noexcept {
    const copy_plan &plan = step.plan;
    if (!plan.by_copies)
        found.max_sms = std::max<std::uint32_t>(found.max_sms, blocks_on_each_link(plan.blocks, plan.links));
    if (plan.links > 1) {
        found.links = std::max<std::uint32_t>(found.links, plan.links);
        found.helper_sms = found.max_sms;
    }
    const bool helps = step.call.form == copy_form::synchronous || plan.wait_in_the_call;
    found.threads = threads_for(machine, step.shape) + (helps ? 1u : 0u);
}

} // namespace

error run_staged_broadcast(machine &machine, const copy_step &step, const copy_site &site, const staged_targets &to,
                           bool must_start_soon, staged_progress *progress) noexcept {
    const std::uint16_t patience_us = must_start_soon ? staged_copy::least_patience_us : 0;
    return enqueue_staged(machine, step, site,
                          {step.plan.by_copies, patience_us, to.helpers, to.helper_count, to.addresses, to.count},
                          progress);
}

bool is_ready_to_stage(machine &machine, int device, bool may_wait) noexcept {
    if (!may_wait) return machine.is_staging_ready[device].load(std::memory_order_acquire);
    return !make_ready_to_stage(machine, device);
}

error make_ready_to_stage(machine &machine, int device) noexcept {
    std::atomic<bool> &is_ready = machine.is_staging_ready[device];
    if (is_ready.load(std::memory_order_acquire)) return {};
    if (error failed = machine.staging.prepare(device)) return failed;
    is_ready.store(true, std::memory_order_release);
    return {};
}

const route staged_route = {
    .kind = route_kind::staged,
    .why_not = why_not_staged,
    .predict = predict_staged,
    .run = run_staged,
    .may_fall_back = true,
    .needs_views = true,
    .prefer = prefer_staged,
    .plan = plan_staged,
    .prepare = prepare_staged,
    .call_name =
        [](const copy_step &step) noexcept {
            return is_file_on_host(step.shape) ? "cuStreamBatchMemOp"
                   : step.plan.by_copies       ? "cuMemcpy3DAsync"
                                               : launch_call;
        },
    .explain = explain_staged,
    .obstacle_field = &ferry_explanation::staged_obstacle,
};

} // namespace ferry
