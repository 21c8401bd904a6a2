// Streams: the dependencies of an operation, and the lane that runs it.
#include "softdriver/entry.h"
#include "softdriver/state.h"

#include <algorithm>

namespace ferry::softdriver {

namespace {

thread_local unsigned per_thread_defaults = 0; // the number of per_thread_default_stream objects

stream &per_thread_stream(driver &cu, context &of) {
    watch_thread_end();
    auto &kept = of.per_thread[this_thread()];
    if (!kept) {
        auto made = std::make_unique<stream>();
        made->handle = CU_STREAM_PER_THREAD;
        made->owner = &of;
        made->queue = cu.devices[of.device].next_queue++ % cu.settings.hardware_queues;
        of.streams.push_back(made.get());
        kept = std::move(made);
    }
    return *kept;
}

// Removes a stream but keeps its last operation, which later work may have to wait for.
void retire(driver &cu, stream &gone) {
    if (gone.capturing) {
        gone.capturing->invalidated = true;
        if (gone.capturing->origin == &gone) end_capture(cu, *gone.capturing);
    }
    operations &left = gone.owner->of_destroyed_streams[gone.synchronises_with_legacy()];
    cu.engine.forget_finished(left);
    left.push_back(gone.last);
    if (gone.synchronises_with_legacy()) merge(gone.owner->after_destroyed_streams, gone.after);
    std::erase(gone.owner->streams, &gone);
}

CUresult create(CUstream *handle, unsigned flags, int priority) {
    return enter_context([&](driver &cu, context &current) {
        require(handle && !(flags & ~static_cast<unsigned>(CU_STREAM_NON_BLOCKING)));
        auto made = std::make_unique<stream>();
        made->owner = &current;
        made->flags = flags;
        made->priority = std::clamp(priority, greatest_priority, 0);
        made->queue = cu.devices[current.device].next_queue++ % cu.settings.hardware_queues;
        stream &kept = *made;
        current.streams.reserve(current.streams.size() + 1);
        kept.handle = cu.streams.add(std::move(made));
        current.streams.push_back(&kept);
        *handle = kept.handle;
    });
}

// Waiting for a stream under capture breaks the capture.
void refuse_to_wait(driver &cu, const stream &on) {
    if (on.capturing) invalidate(*on.capturing, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    if (&on == &on.owner->legacy) refuse_if_legacy_would_join_capture(*on.owner);
    refuse_if_capture_forbids(cu);
}

} // namespace

// The special handles refer to streams of the current context. Any other handle is accepted regardless of its stream's
// context (docs/driver.md).
stream &find_stream(driver &cu, CUstream handle) {
    if (!handle || handle == CU_STREAM_LEGACY) return current_context(cu).legacy;
    if (handle == CU_STREAM_PER_THREAD) return per_thread_stream(cu, current_context(cu));
    stream *const found = cu.streams.find(handle);
    require(found, CUDA_ERROR_INVALID_HANDLE);
    found->owner->require_sound();
    return *found;
}

per_thread_default_stream::per_thread_default_stream() noexcept { ++per_thread_defaults; }
per_thread_default_stream::~per_thread_default_stream() { --per_thread_defaults; }

stream &stream_of_synchronous_call(driver &cu) {
    context &current = current_context(cu);
    if (per_thread_defaults == 0) {
        refuse_if_legacy_would_join_capture(current);
        return current.legacy;
    }
    stream &own = per_thread_stream(cu, current);
    if (own.capturing) invalidate(*own.capturing, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    return own;
}

operations work_before(const stream &next) {
    const context &owner = *next.owner;
    operations before = {next.last};
    if (&next == &owner.legacy) {
        for (const stream *other : owner.streams)
            if (other->synchronises_with_legacy()) before.push_back(other->last);
        before.insert(before.end(), owner.of_destroyed_streams[1].begin(), owner.of_destroyed_streams[1].end());
    } else if (next.synchronises_with_legacy()) {
        before.push_back(owner.legacy.last);
    }
    return before;
}

void note_frees_before(stream &next) {
    const context &owner = *next.owner;
    if (&next == &owner.legacy) {
        for (const stream *other : owner.streams)
            if (other->synchronises_with_legacy()) merge(next.after, other->after);
        merge(next.after, owner.after_destroyed_streams);
    } else if (next.synchronises_with_legacy()) {
        merge(next.after, owner.legacy.after);
    }
}

operations work_of(const context &all) {
    operations work = {all.legacy.last};
    for (const stream *one : all.streams)
        work.push_back(one->last);
    for (const operations &left : all.of_destroyed_streams)
        work.insert(work.end(), left.begin(), left.end());
    return work;
}

operation_ptr enqueue(driver &cu, stream &on, work what, operations also_after) {
    if (on.capturing) {
        add_to_capture(on, std::move(what));
        return nullptr;
    }
    context &owner = *on.owner;
    if (&on == &owner.legacy) refuse_if_legacy_would_join_capture(owner);
    if (what.prepare) what.body = what.prepare(cu);
    if (what.is_transfer)
        what.body = [broken = owner.broken, body = std::move(what.body)] { broken->run_unless_broken(body); };
    const operations before = work_before(on);
    also_after.insert(also_after.end(), before.begin(), before.end());
    note_frees_before(on);

    const auto device = static_cast<unsigned>(owner.device);
    const bool copies = what.kind == lane_kind::host_to_device || what.kind == lane_kind::device_to_host;
    const lane_id lane = {what.kind, copies ? what.copy_device : device, on.queue};
    on.last = cu.engine.submit(lane, std::move(what.body), what.devices | std::uint64_t{1} << device, also_after);
    return on.last;
}

CUresult cuStreamCreate(CUstream *handle, unsigned flags) { return create(handle, flags, 0); }
CUresult cuStreamCreateWithPriority(CUstream *handle, unsigned flags, int priority) {
    return create(handle, flags, priority);
}

CUresult cuStreamGetPriority(CUstream handle, int *priority) {
    return enter([&](driver &cu) {
        require(priority);
        *priority = find_stream(cu, handle).priority;
    });
}

CUresult cuStreamGetFlags(CUstream handle, unsigned *flags) {
    return enter_query([&](driver &cu) {
        require(flags);
        *flags = find_stream(cu, handle).flags;
    });
}

CUresult cuStreamGetId(CUstream handle, unsigned long long *id) {
    return enter_query([&](driver &cu) {
        require(id);
        *id = find_stream(cu, handle).id;
    });
}

CUresult cuStreamGetCtx(CUstream handle, CUcontext *owner) {
    return enter_query([&](driver &cu) {
        require(owner);
        *owner = find_stream(cu, handle).owner->handle;
    });
}

namespace {

// The work that a query checks and for which a wait waits. Work on the legacy stream precedes the next work on a stream
// that synchronises with it, but queries and waits ignore it until then (seen on CUDA 13.0, H200).
operations own_work(const stream &on) { return &on == &on.owner->legacy ? work_before(on) : operations{on.last}; }

} // namespace

CUresult cuStreamQuery(CUstream handle) {
    return enter_query([&](driver &cu) {
        const stream &on = find_stream(cu, handle);
        refuse_to_wait(cu, on);
        const operations before = own_work(on);
        const bool idle =
            std::all_of(before.begin(), before.end(), [&](auto &work) { return cu.engine.finished(work); });
        return idle ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
    });
}

CUresult cuStreamSynchronize(CUstream handle) {
    std::shared_ptr<breakage> broken; // of the stream's context, which need not be current
    const CUresult result = enter_to_synchronise([&](driver &cu) {
        const stream &on = find_stream(cu, handle);
        refuse_to_wait(cu, on);
        broken = on.owner->broken;
        return own_work(on);
    });
    return result == CUDA_SUCCESS ? broken->result() : result;
}

// Returns immediately. Enqueued work still runs, and the legacy stream still waits for it.
void retire_streams_of_thread(driver &cu, std::uint64_t thread) {
    cu.contexts.each([&](context &owner) {
        const auto found = owner.per_thread.find(thread);
        if (found == owner.per_thread.end()) return;
        retire(cu, *found->second);
        owner.per_thread.erase(found);
    });
}

CUresult cuStreamDestroy(CUstream handle) {
    return enter([&](driver &cu) {
        require(handle && handle != CU_STREAM_LEGACY && handle != CU_STREAM_PER_THREAD, CUDA_ERROR_INVALID_HANDLE);
        stream &gone = find_stream(cu, handle);
        retire(cu, gone);
        cu.streams.remove(handle);
    });
}

// One thread runs the host functions and callbacks of the whole process. They must not call any entry point. Host
// functions of a broken context are not called, and callbacks get its status.
CUresult cuLaunchHostFunc(CUstream handle, CUhostFn function, void *user) {
    return enter_context([&](driver &cu, context &) {
        require(function);
        work call{.kind = lane_kind::host_function};
        call.body = [function, user, broken = find_stream(cu, handle).owner->broken] {
            if (broken->has_happened()) return;
            enter_host_function(true);
            function(user);
            enter_host_function(false);
        };
        enqueue(cu, find_stream(cu, handle), std::move(call));
    });
}

CUresult cuStreamAddCallback(CUstream handle, CUstreamCallback function, void *user, unsigned flags) {
    return enter_context([&](driver &cu, context &) {
        require(function && flags == 0);
        stream &on = find_stream(cu, handle);
        if (on.capturing) invalidate(*on.capturing, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        work call{.kind = lane_kind::host_function};
        call.body = [handle, function, user, broken = on.owner->broken] {
            enter_host_function(true);
            function(handle, broken->seen_by_work(), user);
            enter_host_function(false);
        };
        enqueue(cu, on, std::move(call));
    });
}

} // namespace ferry::softdriver
