#if defined(_WIN32)
#include "system/threads.h"

#include <algorithm>

#include "system/windows_api.h"

#include <process.h>

// Processors are numbered across Windows processor groups, 64 per group. A thread runs only in one group at a time.
namespace ferry {

namespace {

constexpr unsigned group_size = 64;

void add_group(processor_set &to, unsigned group, KAFFINITY members) noexcept {
    for (unsigned bit = 0; bit < group_size; ++bit)
        if (members >> bit & 1) to.add(group * group_size + bit);
}

// Returns the first group of the set, and its members.
GROUP_AFFINITY first_group_of(const processor_set &processors) noexcept {
    GROUP_AFFINITY found = {};
    for (unsigned number = 0; number < processor_set::most; ++number)
        if (processors.has(number)) {
            if (!found.Mask) found.Group = static_cast<WORD>(number / group_size);
            if (found.Group == number / group_size) found.Mask |= KAFFINITY{1} << number % group_size;
        }
    return found;
}

unsigned at_least_one(unsigned count) noexcept { return std::max(1U, count); }

using thread_entry = unsigned(__stdcall *)(void *);

HANDLE start_thread(thread_entry entry, void *argument) noexcept {
    return reinterpret_cast<HANDLE>(_beginthreadex(nullptr, 0, entry, argument, 0, nullptr));
}

void join_thread(HANDLE thread) noexcept {
    WaitForSingleObject(thread, INFINITE);
    CloseHandle(thread);
}

struct started_part {
    void (*part)(void *user, unsigned index);
    void *user;
    unsigned index;
    HANDLE thread;
};

unsigned __stdcall run_part(void *started) noexcept {
    const auto &mine = *static_cast<started_part *>(started);
    mine.part(mine.user, mine.index);
    return 0;
}

void set_name(const char *name) noexcept {
    // Since Windows 10 1607. Resolved at run time, because not every import library has it.
    using set_description = HRESULT(WINAPI *)(HANDLE, PCWSTR);
    const auto found = GetProcAddress(GetModuleHandleW(L"kernel32.dll"), "SetThreadDescription");
    if (!found) return;
    wchar_t wide[16] = {};
    for (int i = 0; i < 15 && name[i]; ++i)
        wide[i] = static_cast<wchar_t>(name[i]);
    reinterpret_cast<set_description>(reinterpret_cast<void *>(found))(GetCurrentThread(), wide);
}

// Creates a timer of the highest resolution available, because Sleep() rounds to ticks of up to 15.6 ms. The timer is
// not kept for the thread's next sleep: the library can be unloaded before the thread ends.
HANDLE make_timer() noexcept {
    constexpr DWORD high_resolution = 2; // CREATE_WAITABLE_TIMER_HIGH_RESOLUTION, Windows 10 1803
    const HANDLE timer = CreateWaitableTimerExW(nullptr, nullptr, high_resolution, TIMER_ALL_ACCESS);
    return timer ? timer : CreateWaitableTimerExW(nullptr, nullptr, 0, TIMER_ALL_ACCESS);
}

} // namespace

processor_set processors_of_process() noexcept {
    processor_set found;
    DWORD_PTR mine = 0, all = 0;
    const WORD groups = GetActiveProcessorGroupCount();
    // With several groups, the masks describe one group or are zero.
    if (groups <= 1) {
        if (GetProcessAffinityMask(GetCurrentProcess(), &mine, &all)) add_group(found, 0, mine);
        return found;
    }
    for (WORD group = 0; group < groups; ++group) {
        const DWORD count = GetActiveProcessorCount(group);
        add_group(found, group, count >= group_size ? ~KAFFINITY{0} : (KAFFINITY{1} << count) - 1);
    }
    return found;
}

unsigned available_processors() noexcept {
    const unsigned count = processors_of_process().count();
    return count ? count : at_least_one(GetActiveProcessorCount(ALL_PROCESSOR_GROUPS));
}

unsigned processors_of_caller() noexcept {
    GROUP_AFFINITY mine = {};
    if (!GetThreadGroupAffinity(GetCurrentThread(), &mine)) return available_processors();
    return at_least_one(static_cast<unsigned>(std::popcount(static_cast<std::uint64_t>(mine.Mask))));
}

processor_set processors_of_node(int node) noexcept {
    processor_set found;
    GROUP_AFFINITY members = {};
    if (node >= 0 && node <= UINT16_MAX && GetNumaNodeProcessorMaskEx(static_cast<USHORT>(node), &members))
        add_group(found, members.Group, members.Mask);
    return found;
}

void run_each(unsigned count, void (*part)(void *user, unsigned index), void *user) noexcept {
    started_part others[max_threads];
    unsigned started = 0;
    for (; started + 1 < count; ++started) {
        started_part &next = others[started];
        next = {part, user, started + 1, nullptr};
        next.thread = start_thread(run_part, &next);
        if (!next.thread) break;
    }
    part(user, 0);
    for (unsigned index = started + 1; index < count; ++index)
        part(user, index);
    for (unsigned index = 0; index < started; ++index)
        join_thread(others[index].thread);
}

bool worker_thread::start(void (*run)(void *user), void *user, const thread_traits &traits) noexcept {
    run_ = run;
    user_ = user;
    traits_ = &traits;
    constexpr thread_entry enter = [](void *self) noexcept -> unsigned {
        begin(self);
        return 0;
    };
    handle_ = reinterpret_cast<std::uintptr_t>(start_thread(enter, this));
    is_started_ = handle_ != 0;
    return is_started_;
}

void worker_thread::join() noexcept {
    if (!is_started_) return;
    join_thread(reinterpret_cast<HANDLE>(handle_));
    is_started_ = false;
}

void *worker_thread::begin(void *self) noexcept {
    const auto &mine = *static_cast<const worker_thread *>(self);
    const thread_traits &traits = *mine.traits_;
    set_name(traits.name);
    if (traits.niceness < 0 || traits.is_prompt)
        SetThreadPriority(GetCurrentThread(), THREAD_PRIORITY_ABOVE_NORMAL);
    else if (traits.niceness > 0 && traits.niceness < thread_traits::niceness_of_process)
        SetThreadPriority(GetCurrentThread(), THREAD_PRIORITY_BELOW_NORMAL);
    GROUP_AFFINITY wanted = first_group_of(traits.processors ? *traits.processors : processor_set{});
    if (wanted.Mask) SetThreadGroupAffinity(GetCurrentThread(), &wanted, nullptr);
    mine.run_(mine.user_);
    return nullptr;
}

// Windows has no signals to block.
signals_blocked::signals_blocked() noexcept : is_blocked_(false) {}
signals_blocked::~signals_blocked() = default;
void unblock_faults() noexcept {}

std::uint64_t slow_faults_of_caller() noexcept { return 0; }

void rest_for(std::uint64_t time_ns) noexcept {
    const HANDLE timer = make_timer();
    LARGE_INTEGER due; // in units of 100 ns; negative: relative to now
    due.QuadPart = -static_cast<LONGLONG>(std::max<std::uint64_t>(1, time_ns / 100));
    if (timer && SetWaitableTimer(timer, &due, 0, nullptr, nullptr, FALSE))
        WaitForSingleObject(timer, INFINITE);
    else
        Sleep(static_cast<DWORD>((time_ns + 999'999) / 1'000'000));
    if (timer) CloseHandle(timer);
}

} // namespace ferry
#endif
