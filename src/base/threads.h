// Threads of the library's own: one job in several parts at once, and threads that stay. Signals for the program are
// blocked in them, but not the signals of their own faults: the program may have a handler for those.
#pragma once

#include <bit>
#include <cstdint>

namespace ferry {

inline constexpr unsigned most_threads = 64;

// Processors by their numbers, as the system has them.
struct processor_set {
    static constexpr unsigned most = 8192; // Linux has no more

    void add(unsigned number) noexcept {
        if (number < most) words[number / word_bits] |= 1UL << number % word_bits;
    }
    unsigned count() const noexcept {
        unsigned found = 0;
        for (const unsigned long word : words)
            found += static_cast<unsigned>(std::popcount(word));
        return found;
    }

    static constexpr unsigned word_bits = 8 * sizeof(unsigned long);
    unsigned long words[most / word_bits] = {};
};

// The processors that the process may run on: its main thread, whichever calls. Empty where the system does not tell.
processor_set processors_of_process() noexcept;
// Their number, or that of all; at least 1.
unsigned available_processors() noexcept;
// The number of processors that the calling thread may run on, at least 1.
unsigned processors_of_caller() noexcept;
// Empty where the system does not tell.
processor_set processors_of_node(int node) noexcept;

// Runs part(user, 0) to part(user, count - 1), each on a thread of its own, the first on the caller's, and returns when
// all are done; `count` is at most most_threads. Where a thread cannot be started the caller runs its part. The threads
// run where the caller may and as it does: a page lies on the node of the thread that touches it first.
void run_each(unsigned count, void (*part)(void *user, unsigned index), void *user) noexcept;

template <class Job> void run_on_threads(unsigned count, Job &job) noexcept {
    run_each(
        count, [](void *user, unsigned index) { (*static_cast<Job *>(user))(index); }, &job);
}

// A thread does not inherit these from the thread that starts it. What the system does not grant is left as it is.
struct thread_traits {
    const char *name = "ferry";                // at most 15 letters
    const processor_set *processors = nullptr; // that it may run on; null or none of the machine's: the process's
    int niceness = 0;                          // 0: the process's
};

// Has the default scheduling class. Stays where it is while it runs, and so do its traits. It must be joined.
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

// For a thread that was started with all signals blocked: unblocks those that its own instructions raise.
void unblock_faults() noexcept;

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
