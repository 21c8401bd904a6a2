#include "submit/batch_request.h"

#include <new>

namespace ferry {

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

} // namespace ferry
