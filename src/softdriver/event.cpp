// Events: markers on a stream's hardware queue, and the dependencies that make streams join a capture.
#include "softdriver/entry.h"
#include "softdriver/state.h"

namespace ferry::softdriver {

namespace {

event &find(driver &cu, CUevent handle) {
    event *const found = cu.events.find(handle);
    require(found, CUDA_ERROR_INVALID_HANDLE);
    found->owner->require_sound();
    return *found;
}

// The last record of an event, if another process made it.
struct foreign_record {
    std::shared_ptr<shared_event> event;
    std::uint64_t ticket = 0;

    bool is_finished() const { return event->is_finished(ticket); }
    void wait() const { event->wait(ticket); }
};
std::optional<foreign_record> find_foreign(const event &of) {
    if (!of.shared || of.shared->is_gone()) return std::nullopt;
    const std::uint64_t last = of.shared->last_ticket();
    if (last == of.ticket) return std::nullopt;
    return foreign_record{of.shared, last};
}

void record(driver &cu, stream &on, event &recorded) {
    work marker;
    std::uint64_t ticket = 0;
    const auto shared = recorded.shared && !recorded.shared->is_gone() ? recorded.shared : nullptr;
    if (shared) {
        ticket = shared->take_ticket();
        marker.body = [shared, ticket] { shared->finish(ticket); };
    }
    try {
        recorded.recorded = enqueue(cu, on, std::move(marker));
    } catch (...) {
        if (shared) shared->finish(ticket);
        throw;
    }
    recorded.ticket = ticket;
    recorded.after = on.after;
}

// An event that was last recorded in a capture cannot be queried or waited for; an attempt breaks the capture.
event &find_outside_capture(driver &cu, CUevent handle) {
    event &found = find(cu, handle);
    if (found.captured) invalidate(*found.captured, CUDA_ERROR_CAPTURED_EVENT);
    return found;
}

void wait_in_capture(stream &on, const event &awaited) {
    if (!awaited.captured) invalidate(*on.capturing, CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
    if (on.capturing && on.capturing != awaited.captured) {
        on.capturing->invalidated = true;
        invalidate(*awaited.captured, CUDA_ERROR_STREAM_CAPTURE_MERGE);
    }
    require(!awaited.captured->ended, CUDA_ERROR_CAPTURED_EVENT);
    require(!awaited.captured->invalidated, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    if (&on == &on.owner->legacy) invalidate(*awaited.captured, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    on.capturing = awaited.captured;
    on.captured_after.insert(on.captured_after.end(), awaited.captured_after.begin(), awaited.captured_after.end());
}

} // namespace

CUresult cuEventCreate(CUevent *handle, unsigned flags) {
    return enter_context([&](driver &cu, context &current) {
        require(handle && !(flags & ~(CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS)));
        const bool is_shared = flags & CU_EVENT_INTERPROCESS;
        require(!is_shared || flags & CU_EVENT_DISABLE_TIMING);
        auto made = std::make_unique<event>();
        if (is_shared) {
            const std::uint32_t slot = publish(cu, shared_kind::event);
            made->shared = std::make_shared<shared_event>(cu.own, cu.own->name_of(slot));
        }
        made->owner = &current;
        made->flags = flags;
        event &kept = *made;
        *handle = kept.handle = cu.events.add(std::move(made));
    });
}

CUresult cuEventDestroy(CUevent handle) {
    return enter([&](driver &cu) { require(cu.events.remove(handle), CUDA_ERROR_INVALID_HANDLE); });
}

CUresult cuEventRecord(CUevent handle, CUstream on_handle) {
    return enter([&](driver &cu) {
        event &recorded = find(cu, handle);
        stream &on = find_stream(cu, on_handle);
        require(recorded.owner == on.owner, CUDA_ERROR_INVALID_HANDLE);
        if (on.capturing) {
            require(!on.capturing->invalidated, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
            recorded.captured_after = on.captured_after;
            recorded.recorded = nullptr;
            recorded.after.clear();
        } else {
            record(cu, on, recorded);
        }
        recorded.captured = on.capturing;
    });
}

CUresult cuStreamWaitEvent(CUstream handle, CUevent awaited_handle, unsigned flags) {
    return enter([&](driver &cu) {
        require(flags == CU_EVENT_WAIT_DEFAULT);
        const event &awaited = find(cu, awaited_handle);
        stream &on = find_stream(cu, handle);
        if (on.capturing || awaited.captured) return wait_in_capture(on, awaited);
        if (const auto foreign = find_foreign(awaited)) {
            work waits;
            waits.body = [foreign] { foreign->wait(); };
            if (!foreign->is_finished()) enqueue(cu, on, std::move(waits));
        } else if (!cu.engine.finished(awaited.recorded)) {
            enqueue(cu, on, {}, {awaited.recorded});
        }
        merge(on.after, awaited.after);
    });
}

CUresult cuEventQuery(CUevent handle) {
    return enter_query([&](driver &cu) {
        const event &asked = find_outside_capture(cu, handle);
        refuse_if_capture_forbids(cu);
        const auto foreign = find_foreign(asked);
        const bool finished = foreign ? foreign->is_finished() : cu.engine.finished(asked.recorded);
        return finished ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
    });
}

CUresult cuEventSynchronize(CUevent handle) {
    std::optional<foreign_record> foreign;
    const CUresult result = enter_to_synchronise([&](driver &cu) {
        const event &awaited = find_outside_capture(cu, handle);
        refuse_if_capture_forbids(cu);
        foreign = find_foreign(awaited);
        return foreign ? operations{} : operations{awaited.recorded};
    });
    if (foreign) foreign->wait(); // no lock is held
    return result;
}

CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end) {
    return enter([&](driver &cu) {
        require(milliseconds);
        const event &first = find_outside_capture(cu, start);
        const event &second = find_outside_capture(cu, end);
        require(first.owner == second.owner, CUDA_ERROR_INVALID_HANDLE);
        require(first.recorded && second.recorded && !((first.flags | second.flags) & CU_EVENT_DISABLE_TIMING),
                CUDA_ERROR_INVALID_HANDLE);
        require(cu.engine.finished(first.recorded) && cu.engine.finished(second.recorded), CUDA_ERROR_NOT_READY);
        const auto elapsed_ns = cu.engine.finished_ns(second.recorded) - cu.engine.finished_ns(first.recorded);
        *milliseconds = static_cast<float>(static_cast<double>(elapsed_ns) * 1e-6);
    });
}

} // namespace ferry::softdriver
