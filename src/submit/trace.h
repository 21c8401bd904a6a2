// The program's trace: the events that the program receives for each call that copies or fills.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>

#include "base/chain.h"
#include "base/function_ref.h"
#include "base/host.h"
#include "base/status.h"
#include "device/context_name.h"
#include "ferry/ferry.h"
#include "plan/plan.h"
#include "system/threads.h"

namespace ferry {

// The request of a call.
struct traced_call {
    std::int32_t kind; // FERRY_TRACE_*
    copy_form form;
    CUstream stream;
    std::uint64_t bytes;
    std::uint64_t count;
    std::uint64_t tag;
};

// Returns the size of a box, in which a height or depth of 0 counts as 1.
constexpr std::uint64_t bytes_of(std::uint64_t width, std::uint64_t height, std::uint64_t depth) noexcept {
    return width * (height ? height : 1) * (depth ? depth : 1);
}

// Detects the completion of streams with driver events, which a thread queries in rotation. A callback on the stream
// would delay it, and would wait for the program's own callbacks.
class tracer {
public:
    tracer(const driver_table &cu, device_contexts &contexts, const allocator &memory) noexcept
        : cu_(cu), contexts_(contexts), memory_(memory) {}
    void set_up(const ferry_options &options) noexcept {
        call_ = options.trace, user_ = options.trace_user;
        phases_ = options.trace_phases ? options.trace_phases : ~0U;
    }
    explicit operator bool() const noexcept { return call_ != nullptr; }
    // Whether the program wants events that a thread must detect. The thread starts when the first such event is due.
    bool wants_thread() const noexcept { return call_ && phases_ & FERRY_PHASE_DONE; }
    bool has_thread() const noexcept { return has_thread_.load(std::memory_order_relaxed); }

    // Runs `run` and reports it to the program.
    [[gnu::cold, gnu::noinline]] error run(const traced_call &call, function_ref<error()> run) noexcept;
    // Adds the work that a step of the running call has enqueued to the call's event.
    [[gnu::cold, gnu::noinline]] void note(route_kind route, CUcontext context) const noexcept;
    // Waits for the calls whose events were created in `context`, reports them, and destroys their events. Must be
    // called before the context is destroyed, because the events end with it.
    void retire(CUcontext context) noexcept;
    // Runs `release`, which may end the device's primary context. Until it returns, no event of the device is passed to
    // the driver, unless ferry itself retains the context. Calls whose context has ended are not reported.
    void release_context(int device, function_ref<void()> release) noexcept;
    // Reports the calls that have completed by now, and ends the thread.
    void close() noexcept;

private:
    struct watched {
        ferry_trace_event event;
        CUevent passed;
        context_name made_in; // context of `passed`
        watched *previous, *next;
    };

    void tell(ferry_trace_event &event, std::uint32_t phase) const noexcept;
    bool start_thread() noexcept;
    void watch(const ferry_trace_event &event, CUcontext context) noexcept;
    void look_for_ends() noexcept;
    bool lives(const context_name &context) const noexcept;
    enum class progress { running, over, unknown };
    progress query(watched &one) const noexcept;
    void end(watched &one, progress seen) noexcept;
    void drop(watched &one, bool is_event_left) noexcept;
    template <class Matches> chain<watched> take(Matches matches) noexcept;

    const driver_table &cu_;
    device_contexts &contexts_;
    const allocator &memory_;
    void (*call_)(void *, const ferry_trace_event *) = nullptr;
    void *user_ = nullptr;
    std::uint32_t phases_ = 0; // FERRY_PHASE_*
    std::atomic<std::uint64_t> calls_ = 0;
    std::mutex mutex_; // guards all members below
    std::condition_variable arrived_;
    chain<watched> watched_, looked_at_, still_running_; // the thread moves calls from one chain to the next, and back
    thread_traits traits_{.name = "ferry-trace"};
    worker_thread thread_;
    std::atomic<bool> has_thread_ = false;
    bool is_closing_ = false;
};

} // namespace ferry
