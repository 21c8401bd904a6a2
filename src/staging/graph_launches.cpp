#include "staging/graph_launches.h"

#include <cstdlib>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

namespace ferry {

// Both are allocated by malloc, because they may outlive the instance and its allocator.
struct graph_launches::scheduler_link {
    std::mutex mutex;
    staging_scheduler *scheduler;              // null after the scheduler was closed
    std::atomic<std::uint64_t> references = 1; // owned by the ties and the engine
};
struct graph_launches::graph_tie {
    scheduler_link &to;
    staging_launch *first; // null: nothing to release
};

namespace {

template <class Record, class... Arguments> Record *make(Arguments &&...arguments) noexcept {
    void *const place = std::malloc(sizeof(Record));
    return place ? new (place) Record{std::forward<Arguments>(arguments)...} : nullptr;
}
template <class Record> void unmake(Record &gone) noexcept {
    std::destroy_at(&gone);
    std::free(&gone);
}

} // namespace

graph_launches::scheduler_link *graph_launches::link() noexcept {
    scheduler_link *made = link_.load(std::memory_order_acquire);
    if (made) return made;
    void *const place = std::malloc(sizeof(scheduler_link));
    if (!place) return nullptr;
    auto *const fresh = new (place) scheduler_link;
    fresh->scheduler = &scheduler_;
    if (link_.compare_exchange_strong(made, fresh, std::memory_order_acq_rel)) return fresh;
    unmake(*fresh); // another thread was faster
    return made;
}

void graph_launches::drop_reference(scheduler_link &of) noexcept {
    if (of.references.fetch_sub(1, std::memory_order_acq_rel) == 1) unmake(of);
}

void graph_launches::release(void *tie) noexcept {
    auto &gone = *static_cast<graph_tie *>(tie);
    scheduler_link &to = gone.to;
    {
        const std::lock_guard lock(to.mutex);
        if (to.scheduler && gone.first) to.scheduler->release_captured(*gone.first);
    }
    unmake(gone);
    drop_reference(to);
}

void graph_launches::tie(CUstream stream, staging_launch &first) noexcept {
    if (!cu_.cuStreamGetCaptureInfo || !cu_.cuUserObjectCreate || !cu_.cuUserObjectRelease ||
        !cu_.cuGraphRetainUserObject)
        return;
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    CUgraph graph = nullptr;
    if (cu_.cuStreamGetCaptureInfo(stream, &status, nullptr, &graph, nullptr, nullptr) != CUDA_SUCCESS) return;
    if (status == CU_STREAM_CAPTURE_STATUS_INVALIDATED)
        return scheduler_.release_captured(first); // no graph will exist
    if (status != CU_STREAM_CAPTURE_STATUS_ACTIVE) return;
    scheduler_link *const to = link();
    if (!to) return;
    auto *const made = make<graph_tie>(*to, &first);
    if (!made) return;
    CUuserObject object = nullptr;
    if (cu_.cuUserObjectCreate(&object, made, release, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC) != CUDA_SUCCESS)
        return unmake(*made);
    to->references.fetch_add(1, std::memory_order_relaxed);
    if (cu_.cuGraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE) == CUDA_SUCCESS) return;
    made->first = nullptr; // the graph runs the launches anyway
    static_cast<void>(cu_.cuUserObjectRelease(object, 1));
}

void graph_launches::close() noexcept {
    scheduler_link *const to = link_.exchange(nullptr, std::memory_order_acq_rel);
    if (!to) return;
    {
        const std::lock_guard lock(to->mutex);
        to->scheduler = nullptr;
    }
    drop_reference(*to);
}

} // namespace ferry
