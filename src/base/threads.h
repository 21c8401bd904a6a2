// One job in several parts at once.
#pragma once

namespace ferry {

inline constexpr unsigned most_threads = 64;

// Threads that the calling one may keep busy: the processors that it may run on, at least 1.
unsigned available_processors() noexcept;

// Runs part(user, 0) to part(user, count - 1), each on a thread of its own, the first on the caller's, and returns when
// all are done; `count` is at most most_threads. Where a thread cannot be started the caller runs its part.
void run_each(unsigned count, void (*part)(void *user, unsigned index), void *user) noexcept;

template <class Job> void run_on_threads(unsigned count, Job &job) noexcept {
    run_each(
        count, [](void *user, unsigned index) { (*static_cast<Job *>(user))(index); }, &job);
}

} // namespace ferry
