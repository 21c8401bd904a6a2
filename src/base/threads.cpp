#include "base/threads.h"

#include <algorithm>

#if !defined(_WIN32)
#include <csignal>
#include <pthread.h>
#include <unistd.h>
#endif
#if defined(__linux__)
#include <sched.h>
#endif

namespace ferry {

#if defined(_WIN32)

unsigned available_processors() noexcept { return 1; }

void run_each(unsigned count, void (*part)(void *user, unsigned index), void *user) noexcept {
    for (unsigned index = 0; index < count; ++index)
        part(user, index);
}

#else

unsigned available_processors() noexcept {
#if defined(__linux__)
    cpu_set_t allowed; // fails where there are more processors than bits
    if (sched_getaffinity(0, sizeof allowed, &allowed) == 0)
        return static_cast<unsigned>(std::max(1, CPU_COUNT(&allowed)));
#endif
    return static_cast<unsigned>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
}

namespace {

struct started_part {
    void (*part)(void *user, unsigned index);
    void *user;
    unsigned index;
    pthread_t thread;
};

void *run_part(void *started) noexcept {
    const auto &mine = *static_cast<started_part *>(started);
    mine.part(mine.user, mine.index);
    return nullptr;
}

} // namespace

void run_each(unsigned count, void (*part)(void *user, unsigned index), void *user) noexcept {
    started_part others[most_threads];
    unsigned started = 0;
    if (count > 1) {
        // The program's signals are for the program's threads.
        sigset_t all, before;
        sigfillset(&all);
        const bool is_masked = pthread_sigmask(SIG_SETMASK, &all, &before) == 0;
        for (; started + 1 < count; ++started) {
            started_part &next = others[started];
            next = {part, user, started + 1, {}};
            if (pthread_create(&next.thread, nullptr, run_part, &next) != 0) break;
        }
        if (is_masked) pthread_sigmask(SIG_SETMASK, &before, nullptr);
    }
    part(user, 0);
    for (unsigned index = started + 1; index < count; ++index)
        part(user, index);
    for (unsigned index = 0; index < started; ++index)
        pthread_join(others[index].thread, nullptr);
}

#endif

} // namespace ferry
