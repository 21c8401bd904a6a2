// Stream capture and graphs. A graph is the list of captured operations in the order of capture, which respects every
// edge. A launch replays the list in that order on one stream: correct, but without the concurrency of a GPU.
#include "softdriver/entry.h"
#include "softdriver/state.h"

#include <algorithm>

namespace ferry::softdriver {

namespace {

thread_local CUstreamCaptureMode mode_of_thread = CU_STREAM_CAPTURE_MODE_GLOBAL;

// Returns whether the origin's next operation would depend on everything that was captured. If not, a forked stream was
// not joined.
bool is_joined(const capture &over, const stream &origin) {
    std::vector<bool> reached(over.nodes.size());
    for (const std::size_t last : origin.captured_after)
        reached[last] = true;
    for (std::size_t i = over.nodes.size(); i-- > 0;)
        if (reached[i])
            for (const std::size_t before : over.nodes[i].after)
                reached[before] = true;
    return std::find(reached.begin(), reached.end(), false) == reached.end();
}

CUstreamCaptureStatus status_of(const stream &on) {
    if (&on == &on.owner->legacy)
        for (const stream *other : on.owner->streams)
            require(!other->capturing || !other->synchronises_with_legacy(), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    if (!on.capturing) return CU_STREAM_CAPTURE_STATUS_NONE;
    return on.capturing->invalidated ? CU_STREAM_CAPTURE_STATUS_INVALIDATED : CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

} // namespace

void invalidate(capture &broken, CUresult result) {
    broken.invalidated = true;
    throw refusal{result};
}

// Rejects a call that is unsafe during a capture, and breaks the capture (docs/driver.md). This applies to the thread's
// own captures unless they are relaxed, and to global captures of any thread. A thread may set a mode for itself: with
// THREAD_LOCAL only its own captures apply, and with RELAXED none.
void refuse_if_capture_forbids(driver &cu) {
    if (mode_of_thread == CU_STREAM_CAPTURE_MODE_RELAXED) return;
    bool forbidden = false;
    for (const capture_ptr &one : cu.captures) {
        const bool own = one->thread == this_thread() && one->mode != CU_STREAM_CAPTURE_MODE_RELAXED;
        const bool of_all =
            one->mode == CU_STREAM_CAPTURE_MODE_GLOBAL && mode_of_thread == CU_STREAM_CAPTURE_MODE_GLOBAL;
        if (!own && !of_all) continue;
        one->invalidated = forbidden = true;
    }
    require(!forbidden, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
}

void refuse_if_legacy_would_join_capture(const context &of) {
    for (const stream *other : of.streams)
        if (other->capturing && other->synchronises_with_legacy())
            invalidate(*other->capturing, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
}

void add_to_capture(stream &on, work what) {
    capture &into = *on.capturing;
    require(!into.invalidated, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    into.nodes.push_back({std::move(what), std::move(on.captured_after)});
    on.captured_after = {into.nodes.size() - 1};
}

void end_capture(driver &cu, capture &over) {
    over.ended = true;
    cu.contexts.each([&](context &owner) {
        for (stream *one : owner.streams) {
            if (one->capturing.get() != &over) continue;
            one->captured_after.clear();
            one->capturing = nullptr;
        }
    });
    std::erase_if(cu.captures, [&](const capture_ptr &one) { return one.get() == &over; });
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode) {
    return enter_query([&](driver &) {
        require(mode && *mode >= CU_STREAM_CAPTURE_MODE_GLOBAL && *mode <= CU_STREAM_CAPTURE_MODE_RELAXED);
        std::swap(*mode, mode_of_thread);
    });
}

CUresult cuStreamBeginCapture(CUstream handle, CUstreamCaptureMode mode) {
    return enter_context([&](driver &cu, context &) {
        require(mode == CU_STREAM_CAPTURE_MODE_GLOBAL || mode == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL ||
                mode == CU_STREAM_CAPTURE_MODE_RELAXED);
        stream &on = find_stream(cu, handle);
        require(&on != &on.owner->legacy, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        require(!on.capturing, CUDA_ERROR_ILLEGAL_STATE);
        auto begun = std::make_shared<capture>();
        begun->id = cu.next_id++;
        begun->mode = mode;
        begun->thread = this_thread();
        begun->origin = &on;
        cu.captures.push_back(begun);
        on.capturing = std::move(begun);
    });
}

CUresult cuStreamEndCapture(CUstream handle, CUgraph *captured) {
    return enter_context([&](driver &cu, context &) {
        require(captured);
        *captured = nullptr;
        stream &on = find_stream(cu, handle);
        require(on.capturing != nullptr, CUDA_ERROR_ILLEGAL_STATE);
        const capture_ptr over = on.capturing;
        if (over->origin != &on) invalidate(*over, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
        if (over->mode != CU_STREAM_CAPTURE_MODE_RELAXED && over->thread != this_thread())
            invalidate(*over, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
        const bool joined = is_joined(*over, on);
        end_capture(cu, *over);
        require(!over->invalidated, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
        require(joined, CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
        auto made = std::make_shared<graph>();
        for (capture::node &one : over->nodes)
            made->nodes.push_back({.what = std::move(one.what)});
        made->allocates = std::move(over->allocates);
        made->frees = std::move(over->frees);
        made->keeps = std::move(over->keeps);
        if (!over->handle) over->handle = reinterpret_cast<CUgraph>(next_handle());
        *captured = cu.graphs.add(std::make_unique<graph_ptr>(std::move(made)), over->handle);
    });
}

CUresult cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus *status) {
    return enter_query([&](driver &cu) {
        require(status);
        *status = status_of(find_stream(cu, handle));
    });
}

// The graph under construction accepts only user objects. Its nodes have no handles here, so a call that requests them
// is rejected instead of returning null.
CUresult cuStreamGetCaptureInfo(CUstream handle, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *under_way,
                                const CUgraphNode **dependencies, size_t *dependency_count) {
    return enter([&](driver &cu) {
        require(status);
        const stream &on = find_stream(cu, handle);
        *status = status_of(on);
        if (*status != CU_STREAM_CAPTURE_STATUS_ACTIVE) return;
        require(!dependencies, CUDA_ERROR_NOT_SUPPORTED);
        capture &asked = *on.capturing;
        if (!asked.handle) asked.handle = reinterpret_cast<CUgraph>(next_handle());
        if (under_way) *under_way = asked.handle;
        if (id) *id = asked.id;
        if (dependency_count) *dependency_count = on.captured_after.size();
    });
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *made, CUgraph handle, unsigned long long flags) {
    return enter([&](driver &cu) {
        constexpr unsigned long long known =
            CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;
        require(made && !(flags & ~known));
        const graph_ptr *const of = cu.graphs.find(handle);
        require(of);
        const bool frees_on_launch = flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
        *made = cu.executables.add(
            std::make_unique<executable>(executable{std::make_shared<graph>(**of), frees_on_launch}));
    });
}

CUresult cuGraphLaunch(CUgraphExec handle, CUstream on_handle) {
    return enter_context([&](driver &cu, context &) {
        const executable *const found = cu.executables.find(handle);
        require(found);
        const graph &runs = *found->runs;
        stream &on = find_stream(cu, on_handle);
        require_launchable(runs, on, found->frees_on_launch);
        for (const graph_node &node : runs.nodes)
            enqueue(cu, on, node.what);
        if (on.capturing)
            on.capturing->keeps.insert(on.capturing->keeps.end(), runs.keeps.begin(), runs.keeps.end());
        else if (!runs.keeps.empty())
            enqueue(cu, on, {.body = [keeps = runs.keeps] {}}); // keeps them alive until the launch ends
        note_memory_of_launch(cu, runs, on);
    });
}

CUresult cuGraphExecDestroy(CUgraphExec handle) {
    return enter([&](driver &cu) {
        require(cu.executables.remove(handle));
        collect_graph_memory(cu);
    });
}

CUresult cuGraphDestroy(CUgraph handle) {
    return enter([&](driver &cu) {
        require(cu.graphs.remove(handle));
        collect_graph_memory(cu);
    });
}

} // namespace ferry::softdriver
