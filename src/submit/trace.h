// The program's trace: one event for each call that copies or fills, and another one when its stream has passed.
#pragma once

#include <atomic>

#include "base/function_ref.h"
#include "base/status.h"
#include "driver/cuda_api.h"
#include "ferry/ferry.h"
#include "plan/plan.h"

namespace ferry {

struct trace_sink {
    void (*call)(void *user, const ferry_trace_event *event) = nullptr;
    void *user = nullptr;
    std::atomic<std::uint64_t> calls = 0;

    explicit operator bool() const noexcept { return call != nullptr; }
};

// What a call was asked for.
struct traced_call {
    std::int32_t kind; // FERRY_TRACE_*
    copy_form form;
    CUstream stream;
    std::uint64_t bytes;
    std::uint64_t count;
};

// Of a box whose height and depth 0 count as 1.
constexpr std::uint64_t bytes_of(std::uint64_t width, std::uint64_t height, std::uint64_t depth) noexcept {
    return width * (height ? height : 1) * (depth ? depth : 1);
}

// Runs `run` and tells the program about it.
[[gnu::cold, gnu::noinline]] error trace(ferry_instance &instance, const traced_call &call,
                                         function_ref<error()> run) noexcept;

// Adds what a step of the running call has enqueued to its event.
[[gnu::cold, gnu::noinline]] void note_for_trace(route_kind route, CUcontext context) noexcept;

} // namespace ferry
