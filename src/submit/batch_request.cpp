#include "submit/batch_request.h"

#include <new>

namespace ferry {

void know_ends(const batch_request &request, const shape &shape, const known_ends &known,
               resolved_ends &ends) noexcept {
    const auto know = [&](const shape_end &end, std::uint32_t index, resolved_place &place) noexcept {
        if (!end.array && request.ranges.facts_at(end.span.first, index, place.facts.emplace()))
            place.asked = ask::everything_and_access;
    };
    know(shape.source, known.from, ends.source);
    know(shape.destination, known.to, ends.destination);
}

batch_request_pool::~batch_request_pool() {
    while (batch_request *const request = free_.pop())
        destroy(*request);
}

batch_request *batch_request_pool::take() noexcept {
    // Waits for no lock. In the child of a fork the mutex may stay locked forever, and elsewhere a new request serves
    // as well.
    if (std::unique_lock held(mutex_, std::try_to_lock); held.owns_lock())
        if (batch_request *const reused = free_.pop()) return reused;
    void *const place = memory_.allocate(sizeof(batch_request), alignof(batch_request));
    return place ? new (place) batch_request(memory_) : nullptr;
}

void batch_request_pool::release(batch_request &request) noexcept {
    if (std::unique_lock held(mutex_, std::try_to_lock); held.owns_lock())
        free_.push_front(request);
    else
        destroy(request);
}

void batch_request_pool::destroy(batch_request &request) noexcept {
    request.~batch_request();
    memory_.deallocate(&request, sizeof(batch_request));
}

} // namespace ferry
