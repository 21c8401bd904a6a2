// ferry_options.trace: which calls it reports, and when.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include "support/captured_graph.h"
#include "support/fault_driver.h"
#include "support/gate.h"
#include "support/how.h"
#include "support/piece_lists.h"
#include "support/raw_objects.h"
#include "system/threads.h"

namespace ferry::test {
namespace {

constexpr std::uint64_t size = 1 << 20;

std::uint64_t number(const void *address) { return reinterpret_cast<std::uintptr_t>(address); }

struct heard {
    std::mutex mutex;
    std::vector<ferry_trace_event> events;

    std::vector<ferry_trace_event> all() {
        const std::lock_guard lock(mutex);
        return events;
    }
};

void hear(void *user, const ferry_trace_event *event) {
    auto &to = *static_cast<heard *>(user);
    const std::lock_guard lock(to.mutex);
    to.events.push_back(*event);
}

// Needs a current context. Not inside the class: Clang takes it for complete only behind that.
struct owned {
    test_stream stream;
    device_memory device{size};
    pinned_memory pinned{size};
};

class traces : public ferry_test {
protected:
    void SetUp() override {
        ferry_test::SetUp();
        ferry_options options = options_under_test();
        options.trace_user = &told;
        options.trace = hear;
        options.trace_phases = FERRY_PHASE_RETURN | FERRY_PHASE_DONE;
        traced = open_or_fail(options);
        memory.emplace();
        there = memory->device, pinned = number(memory->pinned.address), stream = memory->stream;
    }
    void TearDown() override {
        memory.reset();
        traced.reset();
        ferry_test::TearDown();
    }

    // Waits until there are so many events.
    std::vector<ferry_trace_event> events(std::size_t count) {
        for (int i = 0; i < 5000 && told.all().size() < count; ++i)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        return told.all();
    }

    heard told;
    instance_owner traced;
    std::optional<owned> memory;
    CUstream stream = nullptr;
    std::uint64_t there = 0, pinned = 0;
    bytes pageable = random_bytes(size, 1);
};

ferry_copy_desc line(std::uint64_t from, std::uint64_t to, std::uint64_t width) {
    ferry_copy_desc copy = {};
    copy.source.address = from;
    copy.destination.address = to;
    copy.width = width;
    return copy;
}

bool has(const ferry_trace_event &event, int route) { return event.routes & 1u << route; }

TEST_F(traces, a_synchronous_copy_has_one_event) {
    const std::uint64_t before = clock_ns();
    ASSERT_OK(ferry_copy_bytes(traced.get(), there, pinned, size, nullptr, nullptr));
    const std::vector<ferry_trace_event> events = told.all();
    ASSERT_EQ(events.size(), 1u);
    const ferry_trace_event &event = events[0];
    EXPECT_EQ(event.struct_size, sizeof event);
    EXPECT_EQ(event.kind, FERRY_TRACE_COPY);
    EXPECT_EQ(event.id, 1u);
    EXPECT_EQ(event.bytes, size);
    EXPECT_EQ(event.count, 1u);
    EXPECT_EQ(event.routes, 1u << FERRY_ROUTE_DRIVER);
    EXPECT_EQ(event.device, 0);
    EXPECT_EQ(event.status, 0);
    EXPECT_EQ(event.is_synchronous, 1);
    EXPECT_EQ(event.phase, FERRY_PHASE_RETURN);
    EXPECT_GE(event.begin_ns, before);
    EXPECT_GE(event.returned_ns, event.begin_ns);
    EXPECT_EQ(event.done_ns, event.returned_ns);
    EXPECT_LE(event.done_ns, clock_ns());
}

TEST_F(traces, an_asynchronous_copy_has_another_event_once_it_has_completed) {
    gate held(stream);
    ASSERT_OK(ferry_copy_bytes_async(traced.get(), there, pinned, size, nullptr, stream, nullptr, nullptr));
    std::vector<ferry_trace_event> events = told.all();
    ASSERT_EQ(events.size(), 1u);
    EXPECT_EQ(events[0].done_ns, 0u);
    EXPECT_EQ(events[0].stream, stream);
    EXPECT_EQ(events[0].is_synchronous, 0);
    const std::uint64_t opened = clock_ns();
    held.open();
    events = this->events(2);
    ASSERT_EQ(events.size(), 2u);
    EXPECT_EQ(events[0].phase, FERRY_PHASE_RETURN);
    EXPECT_EQ(events[1].phase, FERRY_PHASE_DONE);
    EXPECT_EQ(events[1].id, events[0].id);
    EXPECT_EQ(events[1].returned_ns, events[0].returned_ns);
    EXPECT_GE(events[1].done_ns, opened);
    EXPECT_EQ(events[1].routes, events[0].routes);
    EXPECT_EQ(events[1].status, 0);
}

TEST_F(traces, all_phases_are_reported_by_default) {
    heard all;
    ferry_options options = options_under_test();
    options.trace = hear;
    options.trace_user = &all;
    const instance_owner instance = open_or_fail(options);
    ASSERT_OK(ferry_copy_bytes(instance.get(), there, pinned, size, nullptr, nullptr));
    ASSERT_OK(ferry_copy_bytes_async(instance.get(), there, pinned, size, nullptr, stream, nullptr, nullptr));
    for (int i = 0; i < 5000 && all.all().size() < 5; ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    const std::vector<ferry_trace_event> events = all.all();
    ASSERT_EQ(events.size(), 5u);
    constexpr std::uint32_t phases[] = {FERRY_PHASE_BEGIN, FERRY_PHASE_RETURN, FERRY_PHASE_BEGIN, FERRY_PHASE_RETURN,
                                        FERRY_PHASE_DONE};
    for (std::size_t i = 0; i < std::size(phases); ++i) {
        SCOPED_TRACE(i);
        EXPECT_EQ(events[i].phase, phases[i]);
        EXPECT_EQ(events[i].id, i < 2 ? 1u : 2u);
        EXPECT_EQ(events[i].kind, FERRY_TRACE_COPY);
        EXPECT_EQ(events[i].bytes, size);
        EXPECT_EQ(events[i].stream, i < 2 ? nullptr : stream);
        EXPECT_EQ(events[i].is_synchronous, i < 2);
        if (phases[i] != FERRY_PHASE_BEGIN) continue;
        EXPECT_NE(events[i].begin_ns, 0u);
        EXPECT_EQ(events[i].returned_ns, 0u);
        EXPECT_EQ(events[i].routes, 0u);
        EXPECT_EQ(events[i].device, -1);
        EXPECT_EQ(events[i].begin_ns, events[i + 1].begin_ns);
    }
}

TEST_F(traces, callbacks_run_in_the_callers_context) {
    std::vector<CUcontext> contexts;
    ferry_options options = options_under_test();
    options.trace_phases = FERRY_PHASE_BEGIN | FERRY_PHASE_RETURN;
    options.trace_user = &contexts;
    options.trace = [](void *user, const ferry_trace_event *) {
        CUcontext context = nullptr;
        EXPECT_OK(raw().cuCtxGetCurrent(&context));
        static_cast<std::vector<CUcontext> *>(user)->push_back(context);
    };
    const instance_owner instance = open_or_fail(options);
    {
        const made_current none(nullptr);
        ASSERT_OK(ferry_copy_bytes_async(instance.get(), there, pinned, size, nullptr, stream, nullptr, nullptr));
    }
    EXPECT_EQ(contexts, (std::vector<CUcontext>{nullptr, nullptr}));
    ASSERT_OK(raw().cuStreamSynchronize(stream));
}

TEST_F(traces, without_the_last_phase_a_call_costs_no_driver_event) {
    fault_driver driver(raw_entry_points());
    heard some;
    ferry_options options = driver.options();
    options.trace = hear;
    options.trace_user = &some;
    options.trace_phases = FERRY_PHASE_BEGIN | FERRY_PHASE_RETURN;
    instance_owner instance = open_or_fail(options);
    driver.reset_counts();
    ASSERT_OK(ferry_copy_bytes_async(instance.get(), there, pinned, size, nullptr, stream, nullptr, nullptr));
    EXPECT_EQ(driver.calls_beginning("cuEvent"), 0);
    ASSERT_OK(raw().cuStreamSynchronize(stream));
    instance.reset();
    const std::vector<ferry_trace_event> events = some.all();
    ASSERT_EQ(events.size(), 2u);
    EXPECT_EQ(events[0].phase, FERRY_PHASE_BEGIN);
    EXPECT_EQ(events[1].phase, FERRY_PHASE_RETURN);
}

TEST_F(traces, every_kind_of_call_is_reported) {
    const ferry_copy_desc copies[] = {line(pinned, there, 100), line(pinned + 512, there + 512, 200)};
    const std::uint64_t to[] = {there, there + 4096}, from[] = {pinned, pinned + 4096}, sizes[] = {16, 32};
    ferry_fill_desc fill = {};
    fill.destination.address = there;
    fill.width = 64;
    fill.height = 2;
    fill.destination.row_pitch = 128;
    fill.pattern_size = 1;
    ferry_prepared *prepared = nullptr;
    ferry_ticket *ticket = nullptr;
    ASSERT_OK(ferry_copy_batch_async(traced.get(), copies, 2, nullptr, stream, nullptr, nullptr));
    ASSERT_OK(ferry_copy_pieces_async(traced.get(), in_arrays(to, from, sizes, 2), nullptr, stream, nullptr, nullptr));
    ASSERT_OK(ferry_fill_async(traced.get(), &fill, nullptr, stream, nullptr, nullptr));
    ASSERT_OK(ferry_copy_async(traced.get(), &copies[0], nullptr, stream, &ticket, nullptr));
    ASSERT_OK(ferry_prepared_create(traced.get(), copies, 2, nullptr, stream, &prepared, nullptr));
    ferry_ticket *of_launch = nullptr;
    ASSERT_OK(ferry_prepared_launch(prepared, nullptr, stream, &of_launch, nullptr));
    ferry_ticket_info info = {};
    info.struct_size = sizeof info;
    EXPECT_OK(ferry_ticket_wait(of_launch, -1, nullptr));
    EXPECT_OK(ferry_ticket_get_info(of_launch, &info, nullptr));
    EXPECT_EQ(info.bytes_total, 300u);
    EXPECT_EQ(info.bytes_done, 300u);
    EXPECT_OK(ferry_ticket_release(of_launch, nullptr));
    const std::vector<ferry_trace_event> events = this->events(10);
    EXPECT_OK(ferry_prepared_destroy(prepared, nullptr));
    EXPECT_OK(ferry_ticket_release(ticket, nullptr));
    struct {
        int kind;
        std::uint64_t bytes, count;
    } const wanted[] = {{FERRY_TRACE_BATCH, 300, 2},
                        {FERRY_TRACE_BATCH, 48, 2},
                        {FERRY_TRACE_FILL, 128, 1},
                        {FERRY_TRACE_COPY, 100, 1},
                        {FERRY_TRACE_PREPARED, 300, 2}};
    ASSERT_EQ(events.size(), 2 * std::size(wanted));
    for (std::size_t i = 0; i < std::size(wanted); ++i) {
        SCOPED_TRACE(i);
        std::vector<ferry_trace_event> of;
        std::copy_if(events.begin(), events.end(), std::back_inserter(of),
                     [&](const ferry_trace_event &event) { return event.id == i + 1; });
        ASSERT_EQ(of.size(), 2u);
        for (const ferry_trace_event &event : of) {
            EXPECT_EQ(event.kind, wanted[i].kind);
            EXPECT_EQ(event.bytes, wanted[i].bytes);
            EXPECT_EQ(event.count, wanted[i].count);
            EXPECT_TRUE(has(event, FERRY_ROUTE_DRIVER) || has(event, FERRY_ROUTE_KERNEL)) << event.routes;
            EXPECT_EQ(event.device, 0);
        }
        EXPECT_EQ(of[0].done_ns, 0u);
        EXPECT_GE(of[1].done_ns, of[1].begin_ns);
    }
}

TEST_F(traces, the_route_is_the_one_that_was_taken) {
    ferry_copy_desc copy = line(number(pageable.data()), there, size);
    struct {
        how options;
        int route;
    } const wanted[] = {{by_driver, FERRY_ROUTE_DRIVER}, {by_staging, FERRY_ROUTE_STAGED}};
    for (const auto &one : wanted) {
        ASSERT_OK(ferry_copy_async(traced.get(), &copy, one.options, stream, nullptr, nullptr));
        EXPECT_EQ(told.all().back().routes, 1u << one.route);
        EXPECT_OK(raw().cuStreamSynchronize(stream));
    }
    copy = line(pinned, there, size);
    ASSERT_OK(ferry_copy(traced.get(), &copy, by_kernel, nullptr));
    EXPECT_EQ(told.all().back().routes, 1u << FERRY_ROUTE_KERNEL);
}

TEST_F(traces, a_call_that_fails_or_does_nothing_has_one_event) {
    ferry_copy_desc copy = line(pinned, there, 64);
    copy.source.kind = 99;
    EXPECT_EQ(ferry_copy_async(traced.get(), &copy, nullptr, stream, nullptr, nullptr), FERRY_ERROR_KIND);
    copy = line(pinned, there, 0);
    EXPECT_OK(ferry_copy_async(traced.get(), &copy, nullptr, stream, nullptr, nullptr));
    const std::vector<ferry_trace_event> events = told.all();
    ASSERT_EQ(events.size(), 2u);
    EXPECT_EQ(events[0].status, FERRY_ERROR_KIND);
    EXPECT_EQ(events[1].status, 0);
    for (const ferry_trace_event &event : events) {
        EXPECT_EQ(event.routes, 0u);
        EXPECT_EQ(event.device, -1);
        EXPECT_EQ(event.done_ns, event.returned_ns);
    }
}

TEST_F(traces, a_copy_in_a_graph_has_one_event_and_the_capture_continues) {
    captured_graph graph(stream);
    ASSERT_OK(ferry_copy_bytes_async(traced.get(), there, pinned, size, nullptr, stream, nullptr, nullptr));
    graph.end();
    graph.run();
    const std::vector<ferry_trace_event> events = told.all();
    ASSERT_EQ(events.size(), 1u);
    EXPECT_EQ(events[0].done_ns, 0u);
}

TEST_F(traces, default_streams_belong_to_the_copys_context) {
    if (device_count() < 2) GTEST_SKIP() << "needs two devices";
    std::uint64_t other = 0;
    ASSERT_OK(ferry_device_alloc(traced.get(), 1, size, &other, nullptr));
    ASSERT_OK(raw().cuCtxSetCurrent(nullptr));
    ASSERT_OK(ferry_copy_bytes_async(traced.get(), other, pinned, size, nullptr, nullptr, nullptr, nullptr));
    ASSERT_OK(ferry_context_synchronize(traced.get(), 1, nullptr, nullptr));
    const std::vector<ferry_trace_event> events = this->events(2);
    ASSERT_EQ(events.size(), 2u);
    EXPECT_EQ(events[0].device, 1);
    EXPECT_NE(events[1].done_ns, 0u);
    EXPECT_OK(ferry_device_free(traced.get(), other, nullptr));
}

// Counts the calls that name an event which the driver does not know, and those that name an event of a context whose
// end had returned before the call began.
struct checked_events {
    static inline std::atomic<int> wrong = 0, stale = 0;
    static inline std::mutex mutex;
    static inline std::map<CUevent, CUcontext> made_in;
    static inline std::set<CUcontext> ended;

    static void reset() {
        wrong = 0, stale = 0;
        made_in.clear(), ended.clear();
    }
    static void note_end(CUcontext context) {
        const std::lock_guard lock(mutex);
        ended.insert(context);
    }
    static void check(CUevent event) {
        const std::lock_guard lock(mutex);
        const auto found = made_in.find(event);
        stale += found != made_in.end() && ended.count(found->second);
    }
    static CUresult create(CUevent *event, unsigned flags) {
        const CUresult result = raw().cuEventCreate(event, flags);
        const std::lock_guard lock(mutex);
        if (!result) raw().cuCtxGetCurrent(&made_in[*event]);
        ended.erase(made_in[*event]); // a context that has the handle of one that has ended
        return result;
    }
    static CUresult query(CUevent event) {
        check(event);
        const CUresult result = raw().cuEventQuery(event);
        wrong += result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_READY;
        return result;
    }
    static CUresult destroy(CUevent event) {
        check(event);
        const CUresult result = raw().cuEventDestroy(event);
        wrong += result != CUDA_SUCCESS;
        return result;
    }
    static ferry_options options() {
        ferry_options options = options_under_test();
        options.driver = FERRY_DRIVER_CUDA;
        options.get_proc = [](void *, const char *name, int version) -> void * {
            if (std::strcmp(name, "cuEventCreate") == 0) return reinterpret_cast<void *>(create);
            if (std::strcmp(name, "cuEventQuery") == 0) return reinterpret_cast<void *>(query);
            if (std::strcmp(name, "cuEventDestroy") == 0) return reinterpret_cast<void *>(destroy);
            const resolver real = raw_entry_points();
            return real.get_proc(real.user, name, version);
        };
        return options;
    }
};

// Ends `count` contexts while a copy is in flight in each. Returns the DONE events.
std::vector<ferry_trace_event> end_contexts(int count, const std::function<CUcontext(ferry_instance *)> &make,
                                            const std::function<void(ferry_instance *, CUcontext)> &end) {
    heard told;
    ferry_options options = checked_events::options();
    options.trace = hear;
    options.trace_user = &told;
    options.trace_phases = FERRY_PHASE_DONE;
    checked_events::reset();
    const instance_owner instance = open_or_fail(options);
    for (int i = 0; i < count; ++i) {
        const CUcontext context = make(instance.get());
        {
            const made_current in(context);
            CUstream stream = nullptr;
            CUdeviceptr memory = 0;
            EXPECT_OK(raw().cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0));
            EXPECT_OK(raw().cuMemAlloc(&memory, size));
            EXPECT_OK(raw().cuLaunchHostFunc(
                stream, [](void *) { std::this_thread::sleep_for(std::chrono::microseconds(300)); }, nullptr));
            EXPECT_OK(ferry_copy_bytes_async(instance.get(), memory + size / 2, memory, size / 2, nullptr, stream,
                                             nullptr, nullptr));
        }
        end(instance.get(), context);
        checked_events::note_end(context);
        std::this_thread::sleep_for(std::chrono::microseconds(300)); // the tracer looks every 50
    }
    for (const ferry_trace_event &event : told.all())
        EXPECT_EQ(event.status, 0);
    return told.all();
}

CUcontext make_context(ferry_instance *instance) {
    CUcontext context = nullptr;
    EXPECT_OK(ferry_context_create(instance, 0, 0, &context, nullptr));
    return context;
}

TEST_F(traces, a_copy_in_a_context_that_ends_is_reported_as_it_ended) {
    const std::vector<ferry_trace_event> events =
        end_contexts(50, make_context, [](ferry_instance *instance, CUcontext context) {
            EXPECT_OK(ferry_context_destroy(instance, context, nullptr));
        });
    EXPECT_EQ(events.size(), 50u);
    EXPECT_EQ(checked_events::wrong, 0);
    EXPECT_EQ(checked_events::stale, 0);
}

// If a context ends without ferry, it can end between the tracer's check of the context and its query of an event. The
// tracer looks every 50 microseconds, so this is rare.
constexpr int rare = 5;

TEST_F(traces, a_context_that_ends_without_ferry_makes_no_copy_fail) {
    if (!on_software_driver()) GTEST_SKIP() << "no call may use a context of a GPU while the driver destroys it";
    end_contexts(50, make_context, [](ferry_instance *, CUcontext context) { EXPECT_OK(raw().cuCtxDestroy(context)); });
    EXPECT_LE(checked_events::stale, rare);
}

// Ends the primary context of device 1 several times. The instance has adopted another context for the device, so that
// it does not retain the primary context.
void end_primary_contexts(const std::function<void(ferry_instance *)> &release) {
    EXPECT_OK(raw().cuDevicePrimaryCtxRelease(1)); // the main function retains it
    CUcontext own = nullptr;
    end_contexts(
        on_software_driver() ? 50 : 5,
        [&](ferry_instance *instance) {
            if (!own) {
                EXPECT_OK(ferry_context_create(instance, 1, 0, &own, nullptr));
                EXPECT_OK(ferry_context_adopt(instance, 1, own, nullptr));
            }
            CUcontext primary = nullptr;
            EXPECT_OK(ferry_context_retain_primary(instance, 1, &primary, nullptr));
            return primary;
        },
        [&](ferry_instance *instance, CUcontext) {
            release(instance);
            unsigned flags = 0;
            int is_active = 1;
            EXPECT_OK(raw().cuDevicePrimaryCtxGetState(1, &flags, &is_active));
            EXPECT_FALSE(is_active) << "the context has not ended";
        });
    EXPECT_OK(raw().cuCtxDestroy(own));
    EXPECT_OK(raw().cuDevicePrimaryCtxRetain(&own, 1));
}

TEST_F(traces, a_primary_context_that_is_released_makes_no_copy_fail) {
    if (device_count() < 2) GTEST_SKIP() << "needs two devices";
    end_primary_contexts(
        [](ferry_instance *instance) { EXPECT_OK(ferry_context_release_primary(instance, 1, nullptr)); });
    EXPECT_EQ(checked_events::wrong, 0);
    EXPECT_EQ(checked_events::stale, 0);
}

TEST_F(traces, a_primary_context_that_is_released_without_ferry_makes_no_copy_fail) {
    if (device_count() < 2) GTEST_SKIP() << "needs two devices";
    if (!on_software_driver()) GTEST_SKIP() << "no call may use a context of a GPU while the driver destroys it";
    end_primary_contexts([](ferry_instance *) { EXPECT_OK(raw().cuDevicePrimaryCtxRelease(1)); });
    EXPECT_LE(checked_events::stale, rare);
}

TEST_F(traces, closing_reports_what_has_completed_and_does_not_wait) {
    gate held(stream);
    ASSERT_OK(ferry_copy_bytes_async(traced.get(), there, pinned, size, nullptr, stream, nullptr, nullptr));
    const test_stream other;
    ASSERT_OK(ferry_copy_bytes_async(traced.get(), there, pinned, size, nullptr, other, nullptr, nullptr));
    EXPECT_OK(raw().cuStreamSynchronize(other));
    traced.reset();
    const std::vector<ferry_trace_event> events = told.all();
    ASSERT_EQ(events.size(), 3u);
    EXPECT_EQ(events[2].id, 2u);
    held.open();
    EXPECT_EQ(told.all().size(), 3u);
}

} // namespace
} // namespace ferry::test
