#include "record.h"

#include <cstring>
#include <initializer_list>
#include <pthread.h>
#include <time.h>
#include <unwind.h>

#include "settings.h"
#include "trace.h"

namespace ferry_run {

namespace {

constexpr unsigned kinds = static_cast<unsigned>(traffic::count), results = static_cast<unsigned>(outcome::count);

struct cell {
    std::atomic<std::uint64_t> calls, bytes, time_ns, saved_ns;
};

// Threads share these shards by number, so that two threads rarely write to the same cache line.
constexpr unsigned shard_count = 16;
struct alignas(64) shard {
    cell cells[kinds][results][size_classes];
};
shard shards[shard_count];
std::atomic<bool> is_any_noted = false;

unsigned own_shard() noexcept {
    static std::atomic<unsigned> next = 0;
    thread_local unsigned number = 0; // shard number plus 1; 0: none yet
    if (!number) number = next.fetch_add(1, std::memory_order_relaxed) % shard_count + 1;
    return number - 1;
}

void add(std::atomic<std::uint64_t> &sum, std::uint64_t more) noexcept {
    if (more) sum.fetch_add(more, std::memory_order_relaxed);
}

// ---- Slow calls

pthread_mutex_t sites_mutex = PTHREAD_MUTEX_INITIALIZER;
call_site sites[max_sites];
unsigned site_count = 0;
tally further[2]; // calls without space for their sites: left to the driver, and served

struct walk {
    call_site &site;
    unsigned frames = 0;
};

_Unwind_Reason_Code note_frame(_Unwind_Context *frame, void *argument) {
    auto &done = *static_cast<walk *>(argument);
    const auto *const at = reinterpret_cast<const void *>(_Unwind_GetIP(frame));
    if (!at || done.frames == call_site::max_frames) return _URC_END_OF_STACK;
    done.site.frames[done.frames++] = at;
    return _URC_NO_REASON;
}

// The origin of calls, without walking up the stack. One of 17 calls is walked again, because libraries that
// alternately call the same function of the CUDA runtime may use the same stack address.
struct known_path {
    entry function;
    bool is_served;
    const void *caller, *stack;
    unsigned site; // max_sites: no site
    unsigned calls_left;
};
constexpr unsigned calls_of_a_walk = 17;
known_path known_paths[256];

known_path &path_of(const noted_call &call) noexcept {
    const auto caller = reinterpret_cast<std::uintptr_t>(call.caller),
               stack = reinterpret_cast<std::uintptr_t>(call.stack);
    return known_paths[(caller ^ stack >> 4 ^ stack >> 12 ^ static_cast<unsigned>(call.function)) %
                       (sizeof known_paths / sizeof *known_paths)];
}

bool is_path_of(const known_path &known, const noted_call &call) noexcept {
    return known.stack == call.stack && known.caller == call.caller && known.function == call.function &&
           known.is_served == is_served(call.result);
}

void count(const noted_call &call, unsigned site) noexcept {
    tally &sum = site < max_sites ? sites[site].calls : further[is_served(call.result)];
    ++sum.calls;
    sum.bytes += call.bytes;
    sum.time_ns += call.time_ns;
    sum.saved_ns += call.saved_ns;
}

bool count_by_path(const noted_call &call) noexcept {
    pthread_mutex_lock(&sites_mutex);
    known_path &known = path_of(call);
    const bool is_known = is_path_of(known, call) && known.calls_left != 0;
    if (is_known) {
        --known.calls_left;
        count(call, known.site);
    }
    pthread_mutex_unlock(&sites_mutex);
    return is_known;
}

void note_site(const noted_call &call) noexcept {
    if (count_by_path(call)) return;
    call_site one = {call.function, is_served(call.result), {}, {}};
    walk done = {one};
    _Unwind_Backtrace(note_frame, &done);
    const auto is_same = [&](const call_site &known) {
        return known.function == one.function && known.is_served == one.is_served &&
               std::memcmp(known.frames, one.frames, sizeof one.frames) == 0;
    };
    pthread_mutex_lock(&sites_mutex);
    unsigned i = 0;
    while (i < site_count && !is_same(sites[i]))
        ++i;
    if (i == site_count && site_count < max_sites) sites[site_count++] = one;
    path_of(call) = {one.function, one.is_served, call.caller, call.stack, i, calls_of_a_walk - 1};
    count(call, i);
    pthread_mutex_unlock(&sites_mutex);
}

} // namespace

unsigned size_class_of(std::uint64_t bytes) noexcept {
    unsigned found = 0;
    for (std::uint64_t bound = 4096; found + 1 < size_classes && bytes >= bound; bound *= 16)
        ++found;
    return found;
}

std::uint64_t clock_ns() noexcept {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

void note(const noted_call &call) noexcept {
    if (!is_any_noted.load(std::memory_order_relaxed)) is_any_noted.store(true, std::memory_order_relaxed);
    cell &mine =
        shards[own_shard()]
            .cells[static_cast<unsigned>(call.kind)][static_cast<unsigned>(call.result)][size_class_of(call.bytes)];
    mine.calls.fetch_add(1, std::memory_order_relaxed);
    add(mine.bytes, call.bytes);
    add(mine.time_ns, call.time_ns);
    add(mine.saved_ns, call.saved_ns);
    if (call.time_ns >= slow_ns) note_site(call);
    if (the_settings().trace) trace_call(call, clock_ns() - call.time_ns);
}

tally read_tally(traffic kind, outcome result, unsigned size_class) noexcept {
    tally sum;
    for (const shard &one : shards) {
        const cell &from = one.cells[static_cast<unsigned>(kind)][static_cast<unsigned>(result)][size_class];
        sum.calls += from.calls.load(std::memory_order_relaxed);
        sum.bytes += from.bytes.load(std::memory_order_relaxed);
        sum.time_ns += from.time_ns.load(std::memory_order_relaxed);
        sum.saved_ns += from.saved_ns.load(std::memory_order_relaxed);
    }
    return sum;
}

unsigned read_sites(call_site (&copied)[max_sites], tally (&others)[2]) noexcept {
    pthread_mutex_lock(&sites_mutex);
    const unsigned count = site_count;
    std::memcpy(copied, sites, count * sizeof *sites);
    std::memcpy(others, further, sizeof further);
    pthread_mutex_unlock(&sites_mutex);
    return count;
}

void forget_all() noexcept {
    leave_trace();
    if (!is_any_noted.exchange(false)) return;
    for (shard &one : shards)
        for (auto &of_kind : one.cells)
            for (auto &of_result : of_kind)
                for (cell &each : of_result)
                    for (auto *sum : {&each.calls, &each.bytes, &each.time_ns, &each.saved_ns})
                        sum->store(0, std::memory_order_relaxed);
    pthread_mutex_init(&sites_mutex, nullptr); // another thread may have held it at the fork
    site_count = 0;
    for (known_path &one : known_paths)
        one = {};
    further[false] = further[true] = {};
}

} // namespace ferry_run
