// The library's own threads: one job in parallel parts, and long-lived worker threads. They block the program's
// signals, except signals raised by their own faults, for which the program may have a handler.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <iterator>

#if defined(_MSC_VER)
#include <intrin.h>
#endif

namespace ferry {

inline constexpr unsigned max_threads = 64;

// A set of processors, identified by the system's processor numbers.
struct processor_set {
    static constexpr unsigned most = 8192; // the maximum that Linux supports

    void add(unsigned number) noexcept {
        if (number < most) words[number / word_bits] |= std::uint64_t{1} << number % word_bits;
    }
    void keep(const processor_set &others) noexcept { // removes processors that are not in `others`
        for (std::size_t i = 0; i < std::size(words); ++i)
            words[i] &= others.words[i];
    }
    bool has(unsigned number) const noexcept {
        return number < most && (words[number / word_bits] >> number % word_bits & 1);
    }
    unsigned count() const noexcept {
        unsigned found = 0;
        for (const std::uint64_t word : words)
            found += static_cast<unsigned>(std::popcount(word));
        return found;
    }

    static constexpr unsigned word_bits = 64;
    std::uint64_t words[most / word_bits] = {};
};

// The processors that the process's main thread may run on, for every calling thread. Empty if the system does not
// report them.
processor_set processors_of_process() noexcept;
// The number of processors in processors_of_process(), or of all processors if that set is empty, but at most the CPU
// quota of a control group divided by its period. At least 1.
unsigned available_processors() noexcept;
// The number of processors that the calling thread may run on, at least 1.
unsigned processors_of_caller() noexcept;
// The processors of a NUMA node. Empty if the system does not report them.
processor_set processors_of_node(int node) noexcept;

// Runs part(user, 0) to part(user, count - 1), each on its own thread, and returns when all parts have finished. The
// calling thread runs the first part, and each part for which no thread can be started. `count` must be at most
// max_threads. The threads inherit the caller's affinity and scheduling, because a page is allocated on the NUMA node
// of the thread that touches it first.
void run_each(unsigned count, void (*part)(void *user, unsigned index), void *user) noexcept;

template <class Job> void run_on_threads(unsigned count, Job &job) noexcept {
    run_each(
        count, [](void *user, unsigned index) { (*static_cast<Job *>(user))(index); }, &job);
}

// Settings that a worker does not inherit from the thread that starts it. A setting that the system rejects stays
// unchanged.
struct thread_traits {
    static constexpr int niceness_of_process = 20, lowest_niceness = -20;

    const char *name = "ferry";                // at most 15 characters
    const processor_set *processors = nullptr; // null, or no processor of the machine: the process's processors
    // If the system rejects this value, the thread gets the lowest value that the system permits, and at most the
    // process's value.
    int niceness = niceness_of_process;
    // Requests short time slices, so that the thread runs soon after it wakes even if all processors are busy.
    bool is_prompt = false;
};

// A thread of the default scheduling class. The object and its traits must stay valid and in place while the thread
// runs, and the thread must be joined.
class worker_thread {
public:
    // False if the system cannot start a thread.
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

// Blocks the program's signals on the calling thread, so that a thread started during this scope does not handle them.
class signals_blocked {
public:
    signals_blocked() noexcept;
    ~signals_blocked();
    signals_blocked(const signals_blocked &) = delete;
    signals_blocked &operator=(const signals_blocked &) = delete;

private:
    alignas(void *) unsigned char before_[128]; // the system's signal set
    bool is_blocked_;
};

// For a thread that was started with all signals blocked: unblocks signals that its own instructions raise.
void unblock_faults() noexcept;

std::uint64_t clock_ns() noexcept; // monotonic

// Pauses in a spin loop that waits for another thread or a device.
inline void relax_processor() noexcept {
#if defined(_MSC_VER) && defined(_M_X64)
    _mm_pause();
#elif defined(_MSC_VER)
    __yield();
#elif defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

// Sleeps. `time_ns` must be less than one second.
void rest_for(std::uint64_t time_ns) noexcept;

// The total number of page faults of the calling thread that had to wait. 0 if the system does not count them.
std::uint64_t slow_faults_of_caller() noexcept;

} // namespace ferry
