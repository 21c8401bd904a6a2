#include "links/multilink.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <new>

#include "base/atomic_word.h"
#include "device/context_status.h"
#include "device/stream_order.h"
#include "driver/result.h"
#include "exec/driver_copy.h"
#include "exec/kernel_launch.h"
#include "exec/kernel_view.h"

namespace ferry {

namespace {

// The rows must be long, because a chunk contains at most one row.
constexpr std::uint64_t shortest_row = std::uint64_t{64} << 10;

bool is_cut_well(const shape &shape) noexcept {
    const shape_end &from = shape.source, &to = shape.destination;
    const std::uint64_t apart = from.span.first - to.span.first;
    const std::uint64_t rows = shape.height > 1 ? from.row_pitch - to.row_pitch : 0;
    const std::uint64_t slices =
        shape.depth > 1 ? from.row_pitch * from.slice_height - to.row_pitch * to.slice_height : 0;
    return (apart | rows | slices) % 16 == 0 && (shape.is_line() || shape.width >= shortest_row);
}

// Small enough that all blocks end at nearly the same time, and large enough that the cost of claims is negligible.
std::uint64_t size_of_chunk(const shape &shape, std::uint64_t all_blocks) noexcept {
    constexpr std::uint64_t min_size = std::uint64_t{32} << 10, max_size = std::uint64_t{256} << 10, rounds = 16;
    const std::uint64_t share = shape.bytes() / (all_blocks * rounds) / 4096 * 4096;
    return std::clamp(share, min_size, max_size);
}

// The device's copy engine copies the first part of a contiguous copy, slightly less than the share of its link,
// because it is faster than a kernel: 55 of 55 GB/s, a kernel 51 (H200). Then the device's kernel joins the helpers'
// kernels.
std::uint64_t share_of_engine(const shape &shape, std::uint64_t chunk, double own_share) noexcept {
    if (!shape.is_line()) return 0;
    return static_cast<std::uint64_t>(static_cast<double>(shape.width) * own_share * 0.9) / chunk * chunk;
}

gpu::box_end link_end_of(const shape_end &end, std::uint64_t address) noexcept {
    return {address, end.row_pitch, end.row_pitch * end.slice_height};
}

bool has_passed(const link_record &record) noexcept {
    for (unsigned link = 0; link < gpu::max_links; ++link)
        if (record.launched >> link & 1 &&
            atomic_word(record.passed[link]).load(std::memory_order_acquire) != record.number)
            return false;
    return true;
}

} // namespace

link_shares share_links(const shape &shape, unsigned links, double own_share, std::uint32_t blocks,
                        std::uint32_t max_of_helper, bool may_use_engine) noexcept {
    std::uint32_t of_helper = blocks_of_a_link(shape);
    if (max_of_helper) of_helper = std::min(of_helper, max_of_helper);
    const std::uint64_t chunk = size_of_chunk(shape, blocks + (links - 1) * of_helper);
    return {of_helper, chunk, may_use_engine ? share_of_engine(shape, chunk, own_share) : 0};
}

link_helpers::~link_helpers() {
    for (const std::atomic<link_station *> &place : stations_)
        if (link_station *const one = place.load(std::memory_order_relaxed)) {
            std::destroy_at(one);
            memory_.deallocate(one, sizeof(link_station));
        }
}

// ---- Set-up

error link_helpers::set(int device, std::uint64_t helpers, std::uint32_t max_blocks) noexcept {
    // A forked child has no driver, and its copy of the mutex may be locked. There, this query fails before the mutex
    // is used.
    CUcontext current = nullptr;
    if (const call_result result = cu_.cuCtxGetCurrent(&current)) return to_error(result);
    const std::lock_guard lock(mutex_);
    if (helpers) {
        if (!lanes_.may_serve() || !kernels_.may_serve()) return {.status = FERRY_ERROR_UNSUPPORTED};
        const relaxed_capture_mode relaxed(cu_);
        if (!relaxed.entered()) return relaxed.why();
        for (int other = 0; other < contexts_.count(); ++other) {
            if (other != device && !(helpers >> other & 1)) continue;
            CUcontext context = nullptr;
            if (error failed = contexts_.get(other, context)) return failed;
            context_scope scope(cu_);
            if (error failed = scope.enter(context)) return failed;
            if (error failed = kernels_.load_into(context)) return failed;
        }
        if (error failed = prepare(device)) return failed;
    }
    max_blocks_[device].store(max_blocks, std::memory_order_relaxed);
    helpers_[device].store(helpers, std::memory_order_release);
    return {};
}

error link_helpers::prepare(int device) noexcept {
    CUcontext context = nullptr;
    if (error failed = contexts_.get(device, context)) return failed;
    context_scope scope(cu_);
    if (error failed = scope.enter(context)) return failed;
    link_station *one = stations_[device].load(std::memory_order_relaxed);
    if (one && one->owner == name_context(cu_, context)) return {};
    if (!one) {
        void *const place = memory_.allocate(sizeof(link_station), alignof(link_station));
        if (!place) return no_memory;
        one = new (place) link_station;
        one->device = device;
        stations_[device].store(one, std::memory_order_release);
    }
    // Another context was adopted. Copies in flight may still use the counters, so the counters stay with their
    // context.
    if (one->owner.handle && may_live(cu_, one->owner)) return {.status = FERRY_ERROR_IN_USE};
    helpers_[device].store(0, std::memory_order_release); // copies that start now use no links
    if (one->owner.handle) drop(*one);
    const error failed = fill(*one, device);
    if (failed)
        release(*one);
    else
        one->owner = name_context(cu_, context);
    return failed;
}

error link_helpers::fill(link_station &made, int device) noexcept {
    constexpr std::uint64_t words = sizeof(gpu::link_counters::left);
    budget &of_device = device_memory_[device];
    if (!of_device.take(link_station::counters_size))
        return of_device.refuse(FERRY_FIELD_MAX_DEVICE_BYTES, link_station::counters_size);
    if (const call_result result = cu_.cuMemAlloc(&made.memory, link_station::counters_size)) {
        of_device.give_back(link_station::counters_size);
        return to_error(result);
    }
    if (const call_result result = cu_.cuMemsetD8(made.memory, 0, link_station::counters_size)) return to_error(result);
    if (error failed = wait_for_legacy_stream(cu_)) return failed; // cuMemsetD8 may return before it is done
    constexpr std::uint64_t size = link_station::max_records * words;
    if (error failed =
            made.words.allocate(cu_, pinned_, size, size, devices_[device].info.numa_node, host_owner::links))
        return failed;
    for (unsigned i = 0; i < link_station::max_records; ++i) {
        link_record &record = made.records[i];
        if (const call_result result = cu_.cuEventCreate(&record.start, CU_EVENT_DISABLE_TIMING))
            return to_error(result);
        record.counters = made.memory + i * sizeof(gpu::link_counters);
        record.passed = reinterpret_cast<std::uint64_t *>(made.words.host() + i * words);
        record.passed_address = made.words.device_address + i * words;
        std::fill_n(record.passed, gpu::max_links, std::uint64_t{0});
        record.number = record.launched = 0;
        record.before = {};
    }
    return {};
}

void link_helpers::release(link_station &one) noexcept {
    for (link_record &record : one.records)
        if (record.start) {
            cu_.cuEventDestroy(record.start);
            record.start = nullptr;
        }
    if (one.memory) cu_.cuMemFree(one.memory);
    forget_memory(one);
}

void link_helpers::forget_memory(link_station &one) noexcept {
    if (one.memory) device_memory_[one.device].give_back(link_station::counters_size);
    one.memory = 0;
    static_cast<void>(one.words.free(cu_, contexts_, pinned_));
    one.owner = {};
}

void link_helpers::forget(CUcontext context) noexcept {
    const std::lock_guard lock(mutex_);
    for (int device = 0; device < contexts_.count(); ++device) {
        link_station *const one = stations_[device].load(std::memory_order_relaxed);
        if (!one || one->owner.handle != context) continue;
        helpers_[device].store(0, std::memory_order_release);
        drop(*one);
    }
}

// A kernel of a helper that starts late still counts itself as ended.
void link_helpers::retire(CUcontext context) noexcept {
    CUcontext current = nullptr;
    if (cu_.cuCtxGetCurrent(&current)) return; // in a forked child, where the mutex may be locked
    // All copies to a context that is about to end have been enqueued. A late launch writes `passed` when it ends.
    const auto have_all_passed = [&]() noexcept {
        const std::lock_guard lock(mutex_);
        return std::all_of(std::begin(stations_), std::end(stations_), [&](const auto &place) noexcept {
            const link_station *const one = place.load(std::memory_order_acquire);
            return !one || one->owner.handle != context || !may_live(cu_, one->owner) ||
                   std::all_of(std::begin(one->records), std::end(one->records), has_passed);
        });
    };
    if (!have_all_passed()) lanes_.wait_for_others(context, have_all_passed);
}

// Events and counters were destroyed with their context.
void link_helpers::drop(link_station &one) noexcept {
    for (link_record &record : one.records)
        record.start = nullptr;
    forget_memory(one);
}

// cuMemFree waits for the device, and therefore for launches that may start late.
void link_helpers::close() noexcept {
    for (const std::atomic<link_station *> &place : stations_) {
        link_station *const one = place.load(std::memory_order_relaxed);
        if (!one || !one->owner.handle) continue;
        context_scope scope(cu_); // if this fails, the calls below work without it
        if (!may_live(cu_, one->owner)) {
            static_cast<void>(one->words.free(cu_, contexts_, pinned_));
            continue;
        }
        static_cast<void>(scope.enter(one->owner.handle));
        release(*one);
    }
}

// ---- A copy

error link_helpers::find_ways(const shape &shape, int device, CUcontext context, link_ways &found) noexcept {
    found.count = 0;
    const std::uint64_t helpers = helpers_[device].load(std::memory_order_acquire);
    const link_station *const station = stations_[device].load(std::memory_order_acquire);
    found.why_not = obstacle::no_helpers;
    // Another context may have the handle of the context that had the counters.
    if (!helpers || !station || station->owner != name_context(cu_, context)) return {};
    const bool is_staged = is_pageable(shape);
    found.why_not = obstacle::not_cut;
    if (!is_staged && !is_cut_well(shape)) return {};
    found.max_blocks = max_blocks_[device].load(std::memory_order_relaxed);
    // A kernel that accesses memory without access kills its context, so the whole of both ends must be known to be
    // accessible.
    const auto find = [&](const shape_end &end, access wanted, const link_way &way, std::uint64_t &address) noexcept {
        address_facts facts;
        if (end.kind == memory_kind::pageable) return obstacle::none; // accessed through slots
        if (look_up_address(cu_, end.span.first, address_query::everything_and_access, facts))
            return obstacle::not_known;
        const kernel_view view = view_of(facts, end.span, wanted, way.context, way.device);
        address = view.address;
        return view.why_not;
    };
    const auto add = [&](int of, CUcontext in) noexcept {
        link_way way = {of, in, 0, 0};
        obstacle why_not = find(shape.source, access::read, way, way.source);
        if (why_not == obstacle::none) why_not = find(shape.destination, access::write, way, way.destination);
        // The counters belong to no pool, so access to a pool does not include them.
        if (why_not == obstacle::none && !is_within_reach(cu_, station->memory)) why_not = obstacle::no_peer_access;
        if (why_not == obstacle::none) found.all[found.count++] = way;
        return why_not;
    };
    found.why_not = add(device, context);
    if (found.count == 0) return {};
    found.why_not = obstacle::no_peer_access;
    for (int helper = 0; helper < contexts_.count() && found.count < gpu::max_links; ++helper) {
        CUcontext there = nullptr;
        if (helper == device || !(helpers >> helper & 1) || contexts_.get(helper, there)) continue;
        if (means_dead_context(context_status(cu_, there))) continue;
        context_scope scope(cu_);
        if (!scope.enter(there)) add(helper, there);
    }
    if (found.count > 1) found.why_not = obstacle::none;
    return {};
}

link_record *link_helpers::take_record(int device) noexcept {
    link_station *const station = stations_[device].load(std::memory_order_acquire);
    for (link_record &record : station->records) {
        if (record.is_taken.exchange(true, std::memory_order_acquire)) continue;
        if (has_passed(record)) return &record;
        record.is_taken.store(false, std::memory_order_release);
    }
    return nullptr;
}

namespace {

// One copy over several links, with the counters of one record.
class link_run {
public:
    link_run(const driver_table &cu, kernel_set &kernels, lane_set &lanes, const shape &shape, const link_ways &ways,
             std::uint32_t blocks, bool may_make, CUstream stream, link_record &record) noexcept
        : cu_(cu), kernels_(kernels), lanes_(lanes), shape_(shape), ways_(ways), blocks_(blocks), may_make_(may_make),
          stream_(stream), record_(record) {}

    void cut(bool may_use_engine, std::uint64_t patience) noexcept {
        given_.counters = record_.counters;
        given_.height = shape_.height;
        const link_shares shares =
            share_links(shape_, ways_.count, ways_.own_share, blocks_, ways_.max_blocks, may_use_engine);
        of_helper_ = shares.of_helper;
        given_.chunk_size = shares.chunk;
        by_engine_ = shares.by_engine;
        given_.width = shape_.width - by_engine_;
        given_.per_row = (given_.width + given_.chunk_size - 1) / given_.chunk_size;
        given_.chunks = given_.per_row * shape_.height * shape_.depth;
        given_.claimed = record_.before.claimed;
        given_.complete = record_.before.complete;
        given_.number = ++record_.number;
        given_.patience = patience;
        record_.launched = 0;
    }

    // The owner is launched before the helpers: from then on the copy is certain to be performed. If that launch fails,
    // the copy engine completes what it has started.
    error run() noexcept {
        if (const call_result result = cu_.cuEventRecord(record_.start, stream_)) return to_error(result);
        if (by_engine_)
            if (error failed = copy_by_engine(0, by_engine_)) return failed;
        if (error failed = launch(0, blocks_, stream_))
            return by_engine_ ? copy_by_engine(by_engine_, given_.width) : failed;
        record_.before.claimed += given_.chunks;
        record_.before.complete += given_.chunks;
        stream_key user;
        if (!name_stream(cu_, ways_.all[0].context, stream_, user))
            for (unsigned link = 1; link < ways_.count; ++link)
                call_helper(link, user);
        return {};
    }

private:
    error copy_by_engine(std::uint64_t at, std::uint64_t size) const noexcept {
        shape part = shape_;
        part.width = size;
        part.source.span.first += at;
        part.destination.span.first += at;
        return run_driver_route(cu_, part, {}, copy_form::asynchronous, {}, stream_);
    }
    error launch(unsigned link, std::uint32_t blocks, CUstream on) noexcept {
        given_.destination = link_end_of(shape_.destination, ways_.all[link].destination + by_engine_);
        given_.source = link_end_of(shape_.source, ways_.all[link].source + by_engine_);
        given_.passed = record_.passed_address + link * sizeof(std::uint64_t);
        given_.link = link;
        given_.left = record_.before.left[link];
        given_.is_owner = link == 0;
        if (error failed = launch_link(cu_, kernels_, given_, blocks, on)) return failed;
        record_.launched |= std::uint64_t{1} << link;
        record_.before.claimed += blocks;
        record_.before.left[link] += blocks;
        return {};
    }
    // If a helper fails to start, the copy completes without it.
    void call_helper(unsigned link, const stream_key &user) noexcept {
        context_scope scope(cu_);
        taken_lane lane(lanes_);
        if (scope.enter(ways_.all[link].context) || lane.take(ways_.all[link].context, user, true, may_make_) ||
            cu_.cuStreamWaitEvent(lane->stream, record_.start, 0))
            return;
        static_cast<void>(launch(link, of_helper_, lane->stream));
        static_cast<void>(lanes_.join(*lane, lane->stream, lane->stream));
    }

    const driver_table &cu_;
    kernel_set &kernels_;
    lane_set &lanes_;
    const shape &shape_;
    const link_ways &ways_;
    const std::uint32_t blocks_;
    const bool may_make_;
    const CUstream stream_;
    link_record &record_;
    gpu::link_parameters given_ = {};
    std::uint32_t of_helper_ = 0;
    std::uint64_t by_engine_ = 0; // bytes
};

} // namespace

error link_helpers::run(const shape &shape, const link_ways &ways, std::uint32_t blocks, bool may_use_engine,
                        bool may_make, CUstream stream) noexcept {
    link_record *const record = take_record(ways.all[0].device);
    if (!record) return {.status = FERRY_ERROR_LIMIT};
    link_run copy(cu_, kernels_, lanes_, shape, ways, blocks, may_make, stream, *record);
    copy.cut(may_use_engine, patience);
    const error failed = copy.run();
    record->is_taken.store(false, std::memory_order_release);
    return failed;
}

} // namespace ferry
