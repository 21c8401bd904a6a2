// Turns a staged copy into launches on its stream.
#include <algorithm>
#include <optional>
#include <utility>

#include "base/rounding.h"
#include "device/stream_order.h"
#include "driver/result.h"
#include "exec/kernel_launch.h"
#include "staging/engine.h"
#include "staging/host_copy.h"
#include "staging/spin.h"
#include "system/pages.h"

namespace ferry {

namespace {

// The longest copy that uses streaming stores to the device. To the host, only longer copies use them (H200).
// To the device: a device is slow to read bytes that were just written and are still in a processor's own cache (16
// MiB: 28 instead of 36 GB/s). In longer copies, the first slots have left the cache before the device reads them, and
// sending all slots through memory would be slower. A box has larger chunks than pieces, so its slots leave the cache
// sooner (H100, 32 MiB: 41 GB/s, and 36 with streaming stores).
// To the host: streaming stores are faster, because they do not read the destination before they write it.
// Without a kernel, to the device: all chunks of a copy use few slots, which never leave the cache. 256 MiB reached 29
// GB/s, and 37 with streaming stores (H200).
constexpr std::uint64_t cached_bytes = std::uint64_t{32} << 20, cached_bytes_of_box = std::uint64_t{16} << 20;

// Maximum size in bytes of a launch on a device with a display watchdog, which kills kernels after 2 s (Windows) to
// about 5 s (X11). A launch lasts as long as its page faults: 0.7 s for cold pages from a hard disk, at 100 MB/s.
constexpr std::uint64_t max_watched_launch = std::uint64_t{64} << 20;

// Requests huge pages for a destination. Returns whether the request was made for the destination of a box.
bool ask_for_destination(const staged_copy &copy) noexcept {
    for (std::uint64_t i = 0; i < copy.pieces.count; ++i)
        ask_for_huge_pages(reinterpret_cast<void *>(copy.pieces.begin[i].host), copy.pieces.begin[i].size);
    if (copy.pieces || copy.box.file) return false;
    const staged_box &box = copy.box;
    const std::uint64_t span =
        (box.depth - 1) * box.host.slice_pitch + (box.height - 1) * box.host.row_pitch + box.width;
    const bool has_gaps = span != box.width * box.height * box.depth; // bytes that the copy must not touch
    return !has_gaps && ask_for_huge_pages(reinterpret_cast<void *>(box.host.address), span);
}

} // namespace

// Takes all launches before the first kernel is launched, and announces them at that time unless a host function does.
// Workers lock the scheduler's mutex frequently, and a kernel launch may wait for something that waits for the previous
// launch.
error staging_engine::enqueue(const staged_copy &copy, CUstream stream, staged_progress *progress) noexcept {
    const bool by_function = is_announced_by_function(copy);
    if (by_function && !cu_.cuLaunchHostFunc) return {.status = FERRY_ERROR_UNSUPPORTED};
    const tracked_context *context = nullptr;
    if (error failed = tracked_.track(copy.context, context)) return failed;
    const tracked_context *of_helpers[max_staged_helpers] = {};
    if (error failed = track_helpers(copy, of_helpers)) return failed;
    device_buffers *of = nullptr;
    if (error failed = retain_buffers(copy, of)) return failed;
    if (copy.start_patience_us != 0 && !has_room_for_kernels(copy, *context, *of)) {
        scheduler_.release_lots();
        return {.status = FERRY_ERROR_LIMIT};
    }
    bool is_watched = devices_[copy.device].has_watchdog;
    for (std::uint32_t i = 0; i < copy.helper_count; ++i)
        is_watched |= devices_[copy.helpers[i].device].has_watchdog;
    const std::uint64_t largest = is_watched ? std::min(options_.max_launch, max_watched_launch) : options_.max_launch;
    std::optional<staging> box;
    staged_box with_pages = copy.box;
    with_pages.is_host_new = !copy.box.to_device && !copy.is_captured && ask_for_destination(copy);
    if (!copy.pieces) box.emplace(with_pages, of->buffers.slot_size);
    const std::uint64_t per_launch = !box                  ? largest
                                     : copy.box.is_on_host ? box->chunk_count()
                                     : copy.box.by_copies  ? max_staging_copies
                                                           : std::max<std::uint64_t>(largest / box->chunk_size(), 1);
    const std::uint64_t launches = divide_up(box ? box->chunk_count() : copy.pieces.bytes, per_launch);
    if (copy.is_captured) progress = nullptr; // the copy may run any number of times
    staging_launch *next = nullptr;
    const bool is_too_long = copy.box.by_copies && launches > 1;
    error failed = is_too_long ? error{.status = FERRY_ERROR_LIMIT} : take_launches(copy, launches, next);
    if (next) {
        if (progress)
            progress->launches_left.fetch_add(static_cast<std::uint32_t>(launches), std::memory_order_relaxed);
        launch_work all = work_of_all(copy, *context, *of, progress);
        std::copy(std::begin(of_helpers), std::end(of_helpers), all.helpers);
        if (box)
            share_box(*box, all, per_launch, *next);
        else
            failed = share_pieces(copy, all, per_launch, *next);
        if (copy.box.by_copies) failed = prepare_for_copies(*next);
        while (failed && next)
            scheduler_.withdraw(*std::exchange(next, next->next_of_copy), false);
    }
    if (next && !by_function) scheduler_.expect_all(*next);
    if (next) failed = launch_all(copy, *next, stream);
    scheduler_.release_lots();
    return failed;
}

error staging_engine::track_helpers(const staged_copy &copy,
                                    const tracked_context *(&found)[max_staged_helpers]) noexcept {
    for (std::uint32_t i = 0; i + 1 < copy.links(); ++i) {
        context_scope scope(cu_);
        if (error failed = scope.enter(copy.helpers[i].context)) return failed;
        if (error failed = tracked_.track(copy.helpers[i].context, found[i])) return failed;
    }
    return {};
}

// Provides the device's staging buffer and prevents changes: the first lot stays allocated and slots keep their size
// until release_lots().
error staging_engine::retain_buffers(const staged_copy &copy, device_buffers *&of) noexcept {
    const bool needs_threads = !copy.caller_helps, is_first_file = copy.box.file && !serves_files_.exchange(true);
    of = buffers_[copy.device].load(std::memory_order_acquire);
    while (!of || (needs_threads && !threads_.can_serve()) || !scheduler_.retain_lots(of->buffers)) {
        if (!copy.may_wait) return {.status = FERRY_ERROR_WOULD_BLOCK};
        if (error failed = provide(copy.device, needs_threads)) return failed;
        of = buffers_[copy.device].load(std::memory_order_acquire);
    }
    if (of->links.load(std::memory_order_relaxed) < copy.links()) {
        of->links = copy.links(); // of two concurrent copies, the second may set the value, until a third copy
        of->wants_more = true;
    }
    if (is_first_file) of->wants_more = true; // threads
    const bool may_add = !options_.submit && copy.may_wait;
    if (may_add && of->wants_more.load(std::memory_order_relaxed) && mutex_.try_lock()) {
        if (serves_files_.load(std::memory_order_relaxed))
            static_cast<void>(start_threads(*of)); // fewer threads serve files too
        add_other_slots(*of);
        mutex_.unlock();
    }
    return {};
}

error staging_engine::take_launches(const staged_copy &copy, std::uint64_t count, staging_launch *&taken) noexcept {
    while (!(taken = scheduler_.take(count, copy.is_captured, static_cast<bool>(copy.pieces)))) {
        if (!copy.may_wait) return {.status = FERRY_ERROR_LIMIT};
        const std::lock_guard lock(mutex_);
        if (error failed = add_launches(copy.device)) return failed;
    }
    return {};
}

namespace {

// Sets the destinations of the launch on a device: first the destination on that device, then the others.
void put_targets(const staged_copy &copy, std::uint32_t device, gpu::ring_parameters &given) noexcept {
    if (copy.target_count == 0) return;
    given.copies = copy.target_count;
    for (std::uint32_t i = 0; i < given.copies; ++i)
        given.to[i] = copy.targets[(device + i) % given.copies] - copy.targets[0];
}

} // namespace

// The work that all launches of a copy have in common. `blocks` and `max_slots_each` are maxima.
launch_work staging_engine::work_of_all(const staged_copy &copy, const tracked_context &context, device_buffers &of,
                                        staged_progress *progress) const noexcept {
    const bool to_device = copy.box.to_device, by_copies = copy.box.by_copies;
    const bool reads_file = copy.box.file && to_device;
    const std::uint32_t wanted =
        blocks_for_threads(wanted_threads(reads_file) + copy.caller_helps, to_device, reads_file);
    const std::uint32_t links = copy.links();
    const std::uint32_t blocks = blocks_on_each_link(copy.blocks ? copy.blocks : wanted, links);
    const std::uint64_t bytes = copy.pieces ? copy.pieces.bytes : copy.box.width * copy.box.height * copy.box.depth;
    const bool has_large_chunks = to_device && !copy.pieces && !by_copies;
    // Each block has one thread at a time.
    const std::uint32_t max_threads = copy.box.file ? copy.box.file->max_threads : 0;
    const std::uint32_t of_all_links = by_copies ? max_blocks_of_copies : blocks * links;
    const bool is_short = bytes <= (has_large_chunks ? cached_bytes_of_box : cached_bytes);
    return {.cut = {},
            .buffers = &of.buffers,
            .progress = progress,
            .index = copy.index,
            .context = &context,
            .blocks = max_threads ? std::min(of_all_links, max_threads) : of_all_links,
            .own_blocks = blocks,
            .max_slots_each = staging_channel::max_slots,
            .are_stores_streamed = is_short == to_device || (by_copies && to_device),
            .home = of.buffers.home,
            .caller_helps = copy.caller_helps,
            .is_first_on_stream = copy.is_stream_idle && !by_copies,
            .by_copies = by_copies,
            .is_broadcast = copy.target_count != 0};
}

void staging_engine::set_work(staging_launch &launch, const launch_work &of_all, const staging &cut,
                              std::uint64_t first, std::uint64_t end) noexcept {
    launch.work = of_all;
    launch.work.cut = cut;
    launch.work.first_chunk = first;
    launch.work.end_chunk = end;
    launch.work.file = cut.box().file;
    if (launch.work.file) retain(*launch.work.file);
    launch.work.may_read_ahead = launch.work.file && !cut.list() && !cut.box().writes_file && !has_gaps_in_file(cut);
    launch.work.blocks = static_cast<std::uint32_t>(std::min<std::uint64_t>(of_all.blocks, end - first));
    launch.work.own_blocks = std::min(of_all.own_blocks, launch.work.blocks);
    const std::uint64_t each = divide_up(end - first, launch.work.blocks); // no block has many while others have none
    launch.work.max_slots_each = static_cast<std::uint32_t>(std::min<std::uint64_t>(each, of_all.max_slots_each));
}

void staging_engine::share_box(const staging &cut, launch_work work, std::uint64_t per_launch,
                               staging_launch &first) noexcept {
    std::uint64_t begin = 0;
    for (staging_launch *launch = &first; launch; launch = launch->next_of_copy) {
        const std::uint64_t end = std::min(begin + per_launch, cut.chunk_count());
        set_work(*launch, work, cut, begin, end);
        work.is_first_on_stream = false;
        begin = end;
    }
}

error staging_engine::share_pieces(const staged_copy &copy, launch_work work, std::uint64_t per_launch,
                                   staging_launch &first) noexcept {
    staged_cursor next = {copy.pieces.begin, copy.pieces.begin + copy.pieces.count, 0};
    bool has_memory = true;
    for (staging_launch *launch = &first; launch; launch = launch->next_of_copy) {
        launch->work = work; // for withdraw()
        has_memory = has_memory && launch->list.take(next, per_launch, work.buffers->slot_size);
        if (!has_memory) continue;
        const staging cut(launch->list, copy.box.to_device, copy.box.file);
        set_work(*launch, work, cut, 0, cut.chunk_count());
        work.is_first_on_stream = false;
    }
    return has_memory ? ok : no_memory;
}

// Launches all kernels of a copy. If a launch fails, the launches after it are released.
error staging_engine::launch_all(const staged_copy &copy, staging_launch &first, CUstream stream) noexcept {
    error failed;
    staging_launch *next = &first, *last_in_graph = nullptr;
    while (next && !failed) {
        staging_launch &launch = *std::exchange(next, next->next_of_copy);
        const std::uint64_t use = launch.use; // the launch may be reused by another copy before keep() is called
        bool is_announced_there = false;
        failed = launch_kernel(copy, launch, stream, is_announced_there);
        if (is_announced_there && !failed) scheduler_.keep(launch, use);
        if (is_announced_there && copy.is_captured) last_in_graph = &launch; // a captured launch stays with this copy
    }
    if (last_in_graph && last_in_graph->next_of_copy) last_in_graph->next_of_copy = nullptr;
    while (next)
        scheduler_.withdraw(*std::exchange(next, next->next_of_copy), false);
    if (last_in_graph) graphs_.tie(stream, first);
    // Threads wait for the kernel, and possibly no further driver call will be made for this copy.
    if (!failed && !copy.is_captured && devices_[copy.device].keeps_work_back) pass_to_device(cu_, stream);
    return failed;
}

// Releases a launch that fails. `is_announced_there`: the host function was enqueued.
error staging_engine::launch_kernel(const staged_copy &copy, staging_launch &launch, CUstream stream,
                                    bool &is_announced_there) noexcept {
    gpu::ring_parameters given = launch.work.cut->parameters();
    given.record = launch.record.device_address;
    given.is_shared = copy.is_captured;
    const bool by_function = is_announced_by_function(copy);
    if (by_function) {
        const CUhostFn expect = [](void *given) {
            auto &expected = *static_cast<staging_launch *>(given);
            static_cast<staging_engine *>(expected.record.engine)->announce(expected);
        };
        if (call_result result = cu_.cuLaunchHostFunc(stream, expect, &launch)) {
            scheduler_.withdraw(launch, false);
            return to_error(result);
        }
        is_announced_there = true;
    }
    if (launch.work.by_copies) return enqueue_copies(copy, launch, stream);
    const bool is_helped = launch.work.own_blocks < launch.work.blocks;
    put_targets(copy, 0, given);
    const error failed = launch_ring(cu_, kernels_, launch.work.cut->kernel(), given, launch.work.own_blocks, stream);
    if (failed)
        scheduler_.withdraw(launch, by_function);
    else if (is_helped) // otherwise another copy may already use the launch
        launch_helpers(copy, launch, given);
    return failed;
}

// The run may be over before a helper's kernel is launched, but the launch is not reused until the helpers' blocks have
// left. If the kernel of a helper cannot be launched, the copy completes without it: blocks that do not start get no
// chunks.
void staging_engine::launch_helpers(const staged_copy &copy, staging_launch &launch,
                                    gpu::ring_parameters given) noexcept {
    // After the last of these launches has started, another copy may use the members of `launch`.
    const std::uint32_t each = launch.work.own_blocks, all = launch.work.blocks;
    const gpu::kernel kernel = launch.work.cut->kernel();
    given.first_block = each;
    for (std::uint32_t i = 0; given.first_block < all; ++i) {
        const staged_helper &helper = copy.helpers[i];
        const std::uint32_t blocks = std::min(each, all - given.first_block);
        context_scope scope(cu_);
        given.device.address = helper.device_address;
        put_targets(copy, 1 + i, given);
        error failed = scope.enter(helper.context);
        if (!failed) failed = launch_ring(cu_, kernels_, kernel, given, blocks, helper.stream);
        for (std::uint32_t block = 0; failed && block < blocks; ++block)
            pass_by(launch, given.first_block + block);
        given.first_block += blocks;
    }
}

void staging_engine::announce(staging_launch &launch) noexcept {
    // Read now, because another copy may use the launch after expect().
    const std::uint64_t chunks = launch.work.end_chunk - launch.work.first_chunk;
    const bool caller_helps = launch.work.caller_helps;
    scheduler_.expect(launch);
    if (!options_.submit) return;
    const auto asked = static_cast<std::uint32_t>(std::min<std::uint64_t>(wanted_threads(), chunks));
    threads_.request_visitors(asked, caller_helps);
}

// Launches an empty kernel on an internal stream, and waits a limited time until it has started. Meanwhile,
// threads wake up for the copy.
bool staging_engine::has_room_for_kernels(const staged_copy &copy, const tracked_context &context,
                                          device_buffers &of) noexcept {
    // Kernels of the software driver are threads, which may start late.
    const std::uint64_t on_gpu_ns = copy.start_patience_us * std::uint64_t{1000};
    const std::uint64_t patience_ns = devices_[copy.device].info.is_software ? 1'000'000'000 : on_gpu_ns;
    // The delay of a kernel that has not started is unknown. Kernels that fill a device often take this long.
    constexpr std::uint64_t supposed_delay_ns = 1'000'000;
    if (scheduler_.longest_wait(of.buffers, clock_ns()) >= patience_ns) return false;
    side_stream *const aside = sides_.take(context);
    staging_launch *launch = nullptr;
    bool has_started = !aside || take_launches(copy, 1, launch);
    if (!has_started) {
        const staging nothing({{}, {}, 1, 1, 1, copy.box.to_device}, min_slot);
        const launch_work work = work_of_all(copy, context, of, nullptr);
        set_work(*launch, work, nothing, 0, 1);
        gpu::ring_parameters given = nothing.parameters();
        const launch_record &record = launch->record;
        given.record = record.device_address;
        const std::uint32_t ended = record.channels[0].ended;
        const error failed = launch_ring(cu_, kernels_, nothing.kernel(), given, 1, aside->handle);
        if (failed)
            scheduler_.withdraw(*launch, false);
        else
            scheduler_.cancel(*launch);
        scheduler_.prepare_for_run(of.buffers, work.blocks);
        has_started = static_cast<bool>(failed); // the copy's own kernel reports the error
        has_started = has_started || spin_until([&] { return has_started_since(record, ended); }, patience_ns);
        if (!has_started) of.buffers.start_delay.add(std::max(supposed_delay_ns, on_gpu_ns), clock_ns());
    }
    if (aside) side_streams::release(*aside);
    return has_started;
}

bool staging_engine::has_room_on(int device, CUcontext context) noexcept {
    device_buffers *const of = buffers_[device].load(std::memory_order_acquire);
    const tracked_context *tracked = nullptr;
    staged_copy probe = {};
    probe.box.to_device = true;
    probe.start_patience_us = staged_copy::least_patience_us;
    probe.device = device;
    probe.context = context;
    if (!of || tracked_.track(context, tracked) || !scheduler_.retain_lots(of->buffers)) return true;
    const bool has_room = has_room_for_kernels(probe, *tracked, *of);
    scheduler_.release_lots();
    return has_room;
}

} // namespace ferry
