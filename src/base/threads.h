// Threads of the library's own: one job in several parts at once, and threads that stay. The program's signals are not
// for them.
#pragma once

#include <cstdint>

namespace ferry {

inline constexpr unsigned most_threads = 64;

// Threads that the calling one may keep busy: the processors that it may run on, at least 1.
unsigned available_processors() noexcept;

inline constexpr unsigned most_processors = 1024; // whose numbers are below that

// The numbers of a NUMA node's processors; none where the system does not tell.
unsigned processors_of_node(int node, std::int32_t (&numbers)[most_processors]) noexcept;

// Runs part(user, 0) to part(user, count - 1), each on a thread of its own, the first on the caller's, and returns when
// all are done; `count` is at most most_threads. Where a thread cannot be started the caller runs its part.
void run_each(unsigned count, void (*part)(void *user, unsigned index), void *user) noexcept;

template <class Job> void run_on_threads(unsigned count, Job &job) noexcept {
    run_each(
        count, [](void *user, unsigned index) { (*static_cast<Job *>(user))(index); }, &job);
}

struct thread_traits {
    const char *name = "ferry";               // at most 15 letters
    const std::int32_t *processors = nullptr; // that it may run on
    std::uint32_t processor_count = 0;        // 0: all that the program may
    int niceness = 0;                         // what the system does not grant is left as it is
};

// Stays where it is while it runs, and so do its traits. It must be joined.
class worker_thread {
public:
    // False where the system has no thread to give.
    [[nodiscard]] bool start(void (*run)(void *user), void *user, const thread_traits &traits) noexcept;
    void join() noexcept;
    bool is_started() const noexcept { return is_started_; }

private:
    static void *begin(void *self) noexcept;

    void (*run_)(void *user) = nullptr;
    void *user_ = nullptr;
    const thread_traits *traits_ = nullptr;
    std::uintptr_t handle_ = 0;
    bool is_started_ = false;
};

std::uint64_t clock_ns() noexcept; // that only runs forward

// Between two looks at what another thread or a device is about to change.
inline void relax_processor() noexcept {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

// Below a second.
void rest_for(std::uint64_t time_ns) noexcept;

} // namespace ferry
