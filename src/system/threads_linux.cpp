#if defined(__linux__)
#include "system/threads.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <ctime>

#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "system/control_groups.h"

namespace ferry {

namespace {

processor_set processors_of(pid_t thread) noexcept { // 0: the calling thread
    processor_set found;
    if (sched_getaffinity(thread, sizeof found.words, reinterpret_cast<cpu_set_t *>(found.words)) != 0) return {};
    return found;
}

unsigned count_or_all(const processor_set &allowed) noexcept {
    const unsigned count = allowed.count();
    return count ? count : static_cast<unsigned>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
}

} // namespace

processor_set processors_of_process() noexcept { return processors_of(getpid()); }
unsigned available_processors() noexcept {
    const std::uint64_t count = count_or_all(processors_of_process());
    return static_cast<unsigned>(std::min(count, processors_of_groups()));
}
unsigned processors_of_caller() noexcept { return count_or_all(processors_of(0)); }

processor_set processors_of_node(int node) noexcept {
    processor_set found;
    char name[64];
    std::snprintf(name, sizeof name, "/sys/devices/system/node/node%d/cpulist", node);
    std::FILE *const file = std::fopen(name, "re");
    if (!file) return found;
    // Parses a comma-separated list of numbers and ranges: 0-7,16-23.
    unsigned first = 0;
    while (std::fscanf(file, "%u", &first) == 1) {
        unsigned last = first;
        if (std::fscanf(file, "-%u", &last) != 1) last = first;
        for (unsigned number = first; number <= last && number < processor_set::most; ++number)
            found.add(number);
        if (std::fgetc(file) != ',') break;
    }
    std::fclose(file);
    return found;
}

namespace {

struct started_part {
    void (*part)(void *user, unsigned index);
    void *user;
    unsigned index;
    pthread_t thread;
};

void *run_part(void *started) noexcept {
    unblock_faults();
    const auto &mine = *static_cast<started_part *>(started);
    mine.part(mine.user, mine.index);
    return nullptr;
}

bool run_on(const processor_set &processors) noexcept {
    return sched_setaffinity(0, sizeof processors.words, reinterpret_cast<const cpu_set_t *>(processors.words)) == 0;
}

// On Linux, niceness is a property of a thread, and getpid() identifies the main thread.
void set_niceness(int wanted) noexcept {
    const int of_process = getpriority(PRIO_PROCESS, static_cast<id_t>(getpid()));
    if (wanted == thread_traits::niceness_of_process) wanted = of_process;
    if (setpriority(PRIO_PROCESS, 0, wanted) == 0) return;
    rlimit granted = {}; // stored as 20 - niceness
    const bool is_limited = getrlimit(RLIMIT_NICE, &granted) == 0 && granted.rlim_cur <= 40;
    const int lowest = is_limited ? 20 - static_cast<int>(granted.rlim_cur) : of_process;
    if (lowest < of_process && setpriority(PRIO_PROCESS, 0, std::max(wanted, lowest)) == 0) return;
    setpriority(PRIO_PROCESS, 0, of_process);
}

// Since Linux 6.12, a thread of the default class can request a time slice. A thread that wakes up runs before threads
// with longer slices. Older systems ignore the slice.
void ask_for_short_slices() noexcept {
    struct { // argument of the system call, version 0
        std::uint32_t size, policy;
        std::uint64_t flags;
        std::int32_t niceness;
        std::uint32_t priority;
        std::uint64_t slice_ns, deadline_ns, period_ns;
    } wanted = {};
    constexpr std::uint64_t shortest_slice_ns = 100'000; // the system's minimum
    wanted.size = sizeof wanted;
    wanted.policy = SCHED_OTHER;
    wanted.niceness = getpriority(PRIO_PROCESS, 0);
    wanted.slice_ns = shortest_slice_ns;
    syscall(SYS_sched_setattr, 0, &wanted, 0);
}

} // namespace

signals_blocked::signals_blocked() noexcept {
    static_assert(sizeof(sigset_t) <= sizeof before_);
    sigset_t all;
    sigfillset(&all);
    is_blocked_ = pthread_sigmask(SIG_SETMASK, &all, reinterpret_cast<sigset_t *>(before_)) == 0;
}

signals_blocked::~signals_blocked() {
    if (is_blocked_) pthread_sigmask(SIG_SETMASK, reinterpret_cast<const sigset_t *>(before_), nullptr);
}

void unblock_faults() noexcept {
    sigset_t faults;
    sigemptyset(&faults);
    for (const int one : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT})
        sigaddset(&faults, one);
    pthread_sigmask(SIG_UNBLOCK, &faults, nullptr);
}

void run_each(unsigned count, void (*part)(void *user, unsigned index), void *user) noexcept {
    started_part others[max_threads];
    unsigned started = 0;
    if (count > 1) {
        const signals_blocked blocked;
        for (; started + 1 < count; ++started) {
            started_part &next = others[started];
            next = {part, user, started + 1, {}};
            if (pthread_create(&next.thread, nullptr, run_part, &next) != 0) break;
        }
    }
    part(user, 0);
    for (unsigned index = started + 1; index < count; ++index)
        part(user, index);
    for (unsigned index = 0; index < started; ++index)
        pthread_join(others[index].thread, nullptr);
}

bool worker_thread::start(void (*run)(void *user), void *user, const thread_traits &traits) noexcept {
    static_assert(sizeof(pthread_t) <= sizeof handle_);
    run_ = run;
    user_ = user;
    traits_ = &traits;
    const signals_blocked blocked;
    pthread_t made = {};
    is_started_ = pthread_create(&made, nullptr, begin, this) == 0;
    std::memcpy(&handle_, &made, sizeof made);
    return is_started_;
}

void worker_thread::join() noexcept {
    if (!is_started_) return;
    pthread_t made = {};
    std::memcpy(&made, &handle_, sizeof made);
    pthread_join(made, nullptr);
    is_started_ = false;
}

void *worker_thread::begin(void *self) noexcept {
    unblock_faults();
    const auto &mine = *static_cast<const worker_thread *>(self);
    const thread_traits &traits = *mine.traits_;
    pthread_setname_np(pthread_self(), traits.name);
    constexpr unsigned long slack_ns = 1;
    prctl(PR_SET_TIMERSLACK, slack_ns, 0, 0, 0);
    const sched_param no_priority = {};
    pthread_setschedparam(pthread_self(), SCHED_OTHER, &no_priority);
    set_niceness(traits.niceness);
    if (traits.is_prompt) ask_for_short_slices();
    if (!traits.processors || !run_on(*traits.processors)) run_on(processors_of_process());
    mine.run_(mine.user_);
    return nullptr;
}

std::uint64_t slow_faults_of_caller() noexcept {
    rusage used = {};
    getrusage(RUSAGE_THREAD, &used);
    return static_cast<std::uint64_t>(used.ru_majflt);
}

void rest_for(std::uint64_t time_ns) noexcept {
    const timespec time = {0, static_cast<long>(time_ns)};
    nanosleep(&time, nullptr);
}

} // namespace ferry
#endif
