// Records the program's calls, their times and their callers. Any thread may add calls, and only recording a slow call
// can block.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/route_kind.h"
#include "entry_points.h"

namespace ferry_run {

// What a call copies, by the memory at both ends. For small calls, the ends are taken from the call's name instead of a
// look-up.
enum class traffic : unsigned {
    pageable_to_device,
    device_to_pageable,
    pinned_to_device,
    device_to_pinned,
    host_to_device, // small
    device_to_host, // small
    on_device,
    between_devices,
    other, // host to host, managed memory, unknown ends
    batch,
    fill,
    pinned_allocation,
    count
};

// The outcome of a call: served by ferry, with its route, or left to the driver, with the reason.
enum class outcome : unsigned {
#define FERRY_ROUTE(name, ...) by_##name##_route, // by_driver_route: only with --all
    FERRY_ROUTES(FERRY_ROUTE)
#undef FERRY_ROUTE
        filled,
    as_batch,
    allocated,
    first_reason,
    small = first_reason,
    driver_is_fastest,
    crowded, // a staged copy for which the host has no processor time
    captured,
    other_memory,       // managed memory, or ends whose kinds differ from the call's name
    other_context,      // no context is current, or not the stream's context
    refused,            // ferry rejects it, and the driver may reject it too
    unserved_call,      // a form of the call that ferry does not support
    no_ferry,           // ferry cannot be opened, is not open before cuInit, or is closed during a reset
    report_only_staged, // --report-only: what ferry would have done
    report_only_kernel,
    report_only_other,
    count
};
inline bool is_served(outcome one) noexcept { return one < outcome::first_reason; }

inline constexpr unsigned size_classes = 7; // below 4 KiB, 64 KiB, 1 MiB, 16 MiB, 256 MiB, 4 GiB, and above
unsigned size_class_of(std::uint64_t bytes) noexcept;

struct tally {
    std::uint64_t calls = 0, bytes = 0, time_ns = 0, saved_ns = 0;
};

// One call. `saved_ns`: the predicted time of the driver's call minus the predicted time of ferry's route.
// `caller`, `stack`: the return address of the call, and an address in its stack frame.
struct noted_call {
    entry function;
    traffic kind;
    outcome result;
    std::uint64_t bytes = 0, time_ns = 0, saved_ns = 0;
    const void *caller = nullptr, *stack = nullptr;
};
void note(const noted_call &call) noexcept;

std::uint64_t clock_ns() noexcept;

// ---- For the report

tally read_tally(traffic kind, outcome result, unsigned size_class) noexcept;

// Calls of at least slow_ns are recorded with their return addresses, innermost first. The library of an address is
// looked up at exit, because the look-up takes the loader's lock. A call with the caller and the stack of a recent call
// counts as having the same origin, because walking up the stack takes 9 us, and 20 after other work.
inline constexpr std::uint64_t slow_ns = 500'000;
struct call_site {
    static constexpr unsigned max_frames = 16;

    entry function;
    bool is_served;
    const void *frames[max_frames];
    tally calls;
};
inline constexpr unsigned max_sites = 256;
// `others`: calls without space for their sites, left to the driver and served.
unsigned read_sites(call_site (&sites)[max_sites], tally (&others)[2]) noexcept;

void forget_all() noexcept; // in the child of a fork

} // namespace ferry_run
