// Streams and events for programs without CUDA's headers: ferry alone creates, orders, waits for, queries and times
// them.
#include <future>
#include <thread>

#include "support/fault_driver.h"
#include "support/gate.h"
#include "support/piece_lists.h"
#include "support/raw_objects.h"
#include "support/test_place.h"
#include "support/waiting_free.h"

namespace ferry::test {
namespace {

class streams : public ferry_test {
protected:
    CUstream_st *new_stream(std::uint32_t flags = FERRY_STREAM_NON_BLOCKING, int device = 0) {
        CUstream_st *stream = nullptr;
        EXPECT_OK(ferry_stream_create(basic.get(), device, flags, 0, &stream, nullptr));
        return stream;
    }
    CUevent_st *new_event(std::uint32_t flags = 0, int device = 0) {
        CUevent_st *event = nullptr;
        EXPECT_OK(ferry_event_create(basic.get(), device, flags, &event, nullptr));
        return event;
    }
};

TEST_F(streams, have_the_requested_flags_and_priority) {
    CUstream_st *stream = nullptr;
    ASSERT_OK(ferry_stream_create(basic.get(), 0, FERRY_STREAM_NON_BLOCKING, -1, &stream, nullptr));
    unsigned flags = 0;
    int priority = 0;
    EXPECT_OK(raw().cuStreamGetFlags(stream, &flags));
    EXPECT_OK(raw().cuStreamGetPriority(stream, &priority));
    EXPECT_EQ(flags, static_cast<unsigned>(CU_STREAM_NON_BLOCKING));
    EXPECT_EQ(priority, -1);
    EXPECT_OK(ferry_stream_destroy(basic.get(), stream, nullptr));
    stream = new_stream(0);
    EXPECT_OK(raw().cuStreamGetFlags(stream, &flags));
    EXPECT_EQ(flags, 0u);
    EXPECT_OK(ferry_stream_destroy(basic.get(), stream, nullptr));
}

TEST_F(streams, the_software_driver_refuses_handles_that_are_not_its_own) {
    if (!on_software_driver()) GTEST_SKIP() << "the NVIDIA driver may crash";
    static std::uint64_t foreign[64] = {};
    auto *const stream = reinterpret_cast<CUstream_st *>(foreign);
    auto *const event = reinterpret_cast<CUevent_st *>(foreign);
    auto *const array = reinterpret_cast<CUarray_st *>(foreign);
    constexpr std::int32_t invalid_handle = FERRY_STATUS_DRIVER_BASE - static_cast<int>(CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(ferry_stream_synchronize(basic.get(), stream, nullptr), invalid_handle);
    EXPECT_EQ(ferry_event_synchronize(basic.get(), event, nullptr), invalid_handle);
    EXPECT_EQ(ferry_event_record(basic.get(), event, nullptr, nullptr), invalid_handle);
    EXPECT_EQ(ferry_array_destroy(basic.get(), array, nullptr), invalid_handle);
    EXPECT_EQ(ferry_context_push(basic.get(), 0, reinterpret_cast<CUctx_st *>(foreign), nullptr),
              FERRY_STATUS_DRIVER_BASE - static_cast<int>(CUDA_ERROR_INVALID_CONTEXT));
    EXPECT_EQ(ferry_stream_destroy(basic.get(), stream, nullptr), invalid_handle);
    test_place source(place_kind::pinned, {.width = 64}), destination(place_kind::device, {.width = 64});
    EXPECT_EQ(ferry_copy_bytes_async(basic.get(), destination.address(), source.address(), 64, nullptr, stream, nullptr,
                                     nullptr),
              invalid_handle);
}

TEST_F(streams, an_event_orders_two_streams) {
    constexpr std::uint64_t size = 4 << 20;
    CUstream_st *const first = new_stream(), *const second = new_stream();
    CUevent_st *const event = new_event(FERRY_EVENT_DISABLE_TIMING);
    test_place source(place_kind::pinned, {.width = size}), middle(place_kind::device, {.width = size}),
        back(place_kind::pinned, {.width = size});
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {
        source.fill(seed);
        ASSERT_OK(ferry_copy_bytes_async(basic.get(), middle.address(), source.address(), size, nullptr, first, nullptr,
                                         nullptr));
        ASSERT_OK(ferry_event_record(basic.get(), event, first, nullptr));
        ASSERT_OK(ferry_stream_wait_event(basic.get(), second, event, nullptr));
        ASSERT_OK(ferry_copy_bytes_async(basic.get(), back.address(), middle.address(), size, nullptr, second, nullptr,
                                         nullptr));
        ASSERT_OK(ferry_stream_synchronize(basic.get(), second, nullptr));
        ASSERT_EQ(back.read(), source.picture());
    }
    EXPECT_OK(ferry_event_destroy(basic.get(), event, nullptr));
    EXPECT_OK(ferry_stream_destroy(basic.get(), first, nullptr));
    EXPECT_OK(ferry_stream_destroy(basic.get(), second, nullptr));
}

TEST_F(streams, and_events_report_whether_they_are_done_and_events_measure_time) {
    constexpr std::uint64_t size = 16 << 20;
    CUstream_st *const stream = new_stream();
    CUevent_st *const start = new_event(), *const end = new_event(FERRY_EVENT_BLOCKING_SYNC);
    std::int32_t done = -1;
    EXPECT_OK(ferry_stream_query(basic.get(), stream, &done, nullptr));
    EXPECT_EQ(done, 1) << "nothing was enqueued";
    EXPECT_OK(ferry_event_query(basic.get(), end, &done, nullptr));
    EXPECT_EQ(done, 1) << "never recorded";
    test_place source(place_kind::pinned, {.width = size}), device(place_kind::device, {.width = size});
    gate held(stream);
    ASSERT_OK(ferry_event_record(basic.get(), start, stream, nullptr));
    for (int i = 0; i < 4; ++i)
        ASSERT_OK(ferry_copy_bytes_async(basic.get(), device.address(), source.address(), size, nullptr, stream,
                                         nullptr, nullptr));
    ASSERT_OK(ferry_event_record(basic.get(), end, stream, nullptr));
    EXPECT_OK(ferry_stream_query(basic.get(), stream, &done, nullptr));
    EXPECT_EQ(done, 0);
    EXPECT_OK(ferry_event_query(basic.get(), end, &done, nullptr));
    EXPECT_EQ(done, 0);
    float milliseconds = 1;
    EXPECT_EQ(ferry_event_elapsed_time(basic.get(), start, end, &milliseconds, nullptr),
              FERRY_STATUS_DRIVER_BASE - CUDA_ERROR_NOT_READY);
    EXPECT_EQ(milliseconds, 0);
    held.open();
    EXPECT_OK(ferry_event_synchronize(basic.get(), end, nullptr));
    EXPECT_OK(ferry_event_query(basic.get(), end, &done, nullptr));
    EXPECT_EQ(done, 1);
    EXPECT_OK(ferry_stream_synchronize(basic.get(), stream, nullptr));
    EXPECT_OK(ferry_stream_query(basic.get(), stream, &done, nullptr));
    EXPECT_EQ(done, 1);
    EXPECT_OK(ferry_event_elapsed_time(basic.get(), start, end, &milliseconds, nullptr));
    EXPECT_GT(milliseconds, 0.05f) << "no link moves 64 MiB at 1.3 TB/s";
    CUevent_st *const silent = new_event(FERRY_EVENT_DISABLE_TIMING);
    EXPECT_OK(ferry_event_record(basic.get(), silent, stream, nullptr));
    EXPECT_OK(ferry_event_synchronize(basic.get(), silent, nullptr));
    EXPECT_EQ(ferry_event_elapsed_time(basic.get(), start, silent, &milliseconds, nullptr),
              FERRY_STATUS_DRIVER_BASE - CUDA_ERROR_INVALID_HANDLE);
    for (CUevent_st *const event : {start, end, silent})
        EXPECT_OK(ferry_event_destroy(basic.get(), event, nullptr));
    EXPECT_OK(ferry_stream_destroy(basic.get(), stream, nullptr));
}

TEST_F(streams, and_events_can_be_queried_while_a_free_in_another_thread_waits) {
    CUstream_st *const stream = new_stream();
    CUevent_st *const event = new_event();
    gate gate(stream);
    ASSERT_OK(ferry_event_record(basic.get(), event, stream, nullptr));
    {
        waiting_free free;
        EXPECT_TRUE(returns_beside(free, [instance = basic.get(), stream, event] {
            std::int32_t done = 1;
            EXPECT_OK(ferry_event_query(instance, event, &done, nullptr));
            EXPECT_EQ(0, done);
            done = 1;
            EXPECT_OK(ferry_stream_query(instance, stream, &done, nullptr));
            EXPECT_EQ(0, done);
        }));
        gate.let_go();
    }
    EXPECT_OK(ferry_event_destroy(basic.get(), event, nullptr));
    EXPECT_OK(ferry_stream_destroy(basic.get(), stream, nullptr));
}

TEST_F(streams, work_on_a_thread_without_a_context) {
    ASSERT_OK(raw().cuCtxSetCurrent(nullptr));
    CUstream_st *const stream = new_stream(0);
    CUevent_st *const event = new_event();
    std::int32_t done = 0;
    CUstream_st *const defaults[] = {nullptr, reinterpret_cast<CUstream_st *>(FERRY_DEFAULT_STREAM_LEGACY),
                                     reinterpret_cast<CUstream_st *>(FERRY_DEFAULT_STREAM_PER_THREAD), stream};
    for (CUstream_st *const each : defaults) {
        EXPECT_OK(ferry_event_record(basic.get(), event, each, nullptr));
        EXPECT_OK(ferry_stream_wait_event(basic.get(), each, event, nullptr));
        EXPECT_OK(ferry_stream_synchronize(basic.get(), each, nullptr));
        EXPECT_OK(ferry_stream_query(basic.get(), each, &done, nullptr));
        EXPECT_EQ(done, 1);
    }
    EXPECT_OK(ferry_event_synchronize(basic.get(), event, nullptr));
    CUcontext after = context;
    EXPECT_OK(raw().cuCtxGetCurrent(&after));
    EXPECT_EQ(after, nullptr);
    EXPECT_OK(ferry_event_destroy(basic.get(), event, nullptr));
    EXPECT_OK(ferry_stream_destroy(basic.get(), stream, nullptr));
    ASSERT_OK(raw().cuCtxSetCurrent(context));
}

TEST_F(streams, of_another_device_can_be_waited_for_whatever_context_is_current) {
    if (device_count() < 2) GTEST_SKIP() << "needs two devices";
    CUstream_st *const far = new_stream(FERRY_STREAM_NON_BLOCKING, 1), *const near = new_stream();
    CUevent_st *const event = new_event(0, 1);
    test_place memory(place_kind::device, {.width = 1 << 20}, 1), host(place_kind::pinned, {.width = 1 << 20});
    host.fill(3);
    EXPECT_OK(
        ferry_copy_bytes_async(basic.get(), memory.address(), host.address(), 1 << 20, nullptr, far, nullptr, nullptr));
    EXPECT_OK(ferry_event_record(basic.get(), event, far, nullptr));
    EXPECT_OK(ferry_stream_wait_event(basic.get(), near, event, nullptr));
    EXPECT_OK(ferry_stream_synchronize(basic.get(), near, nullptr));
    EXPECT_EQ(memory.read(), host.picture());
    EXPECT_EQ(ferry_event_record(basic.get(), event, near, nullptr),
              FERRY_STATUS_DRIVER_BASE - CUDA_ERROR_INVALID_HANDLE);
    EXPECT_OK(ferry_event_destroy(basic.get(), event, nullptr));
    EXPECT_OK(ferry_stream_destroy(basic.get(), far, nullptr));
    EXPECT_OK(ferry_stream_destroy(basic.get(), near, nullptr));
}

// A batch, a fill and a prepared launch have no tickets of their own: the stream's ticket reports when all are complete.
TEST_F(streams, tickets_and_notifications_follow_batches_and_fills) {
    constexpr std::uint64_t size = 1 << 20, count = 64, each = size / count;
    CUstream_st *const stream = new_stream();
    test_place pinned(place_kind::pinned, {.width = size}), device(place_kind::device, {.width = size});
    pinned.fill(5);
    std::vector<std::uint64_t> to, from, sizes(count, each);
    for (std::uint64_t i = 0; i < count; ++i)
        to.push_back(device.address() + i * each), from.push_back(pinned.address() + i * each);
    struct call {
        std::promise<std::int32_t> status;
        std::thread::id thread;
    } notified;
    ferry_ticket *ticket = nullptr;
    ferry_ticket_info info = {};
    info.struct_size = sizeof info;
    {
        const gate held(stream);
        ASSERT_OK(ferry_copy_pieces_async(basic.get(), in_arrays(to.data(), from.data(), sizes.data(), count), nullptr,
                                          stream, nullptr, nullptr));
        ASSERT_OK(ferry_ticket_create(basic.get(), stream, &ticket, nullptr));
        ASSERT_OK(ferry_stream_notify(
            basic.get(), stream,
            [](void *user, std::int32_t status) {
                auto &called = *static_cast<call *>(user);
                called.thread = std::this_thread::get_id();
                called.status.set_value(status);
            },
            &notified, nullptr));
        ASSERT_OK(ferry_ticket_get_info(ticket, &info, nullptr));
        EXPECT_EQ(info.done, 0);
        EXPECT_EQ(info.bytes_total, 0u);
    }
    EXPECT_OK(ferry_ticket_wait(ticket, FERRY_NO_TIMEOUT, nullptr));
    EXPECT_EQ(device.read(), pinned.picture());
    EXPECT_EQ(notified.status.get_future().get(), FERRY_SUCCESS);
    EXPECT_NE(notified.thread, std::this_thread::get_id());
    ASSERT_OK(ferry_ticket_get_info(ticket, &info, nullptr));
    EXPECT_EQ(info.done, 1);
    EXPECT_EQ(info.status, FERRY_SUCCESS);
    EXPECT_EQ(info.route, FERRY_ROUTE_NONE);
    EXPECT_OK(ferry_ticket_release(ticket, nullptr));
    EXPECT_OK(ferry_stream_destroy(basic.get(), stream, nullptr));
}

// Another event may have got the handle of one whose context is destroyed.
TEST_F(streams, tickets_name_no_event_of_a_destroyed_context) {
    fault_driver driver{raw_entry_points()};
    const instance_owner counted = open_or_fail(driver.options());
    CUcontext own = nullptr;
    ASSERT_OK(ferry_context_create(counted.get(), 0, 0, &own, nullptr));
    CUstream_st *stream = nullptr;
    ASSERT_OK(ferry_stream_create(counted.get(), 0, FERRY_STREAM_NON_BLOCKING, 0, &stream, nullptr));
    ferry_ticket *asked = nullptr, *waited_for = nullptr;
    {
        const made_current in(own);
        ASSERT_OK(ferry_ticket_create(counted.get(), CU_STREAM_PER_THREAD, &asked, nullptr));
        ASSERT_OK(ferry_ticket_create(counted.get(), CU_STREAM_PER_THREAD, &waited_for, nullptr));
        ASSERT_OK(raw().cuCtxSynchronize());
    }
    ASSERT_OK(ferry_context_destroy(counted.get(), own, nullptr));
    driver.reset_counts();
    constexpr std::int32_t destroyed = FERRY_STATUS_DRIVER_BASE - CUDA_ERROR_CONTEXT_IS_DESTROYED;
    ferry_ticket_info info = {};
    info.struct_size = sizeof info;
    EXPECT_OK(ferry_ticket_get_info(asked, &info, nullptr));
    EXPECT_TRUE(info.done);
    EXPECT_EQ(info.status, destroyed);
    EXPECT_EQ(ferry_ticket_wait(waited_for, FERRY_NO_TIMEOUT, nullptr), destroyed);
    for (ferry_ticket *const one : {asked, waited_for})
        EXPECT_OK(ferry_ticket_release(one, nullptr));
    for (const char *const call : {"cuEventQuery", "cuEventSynchronize", "cuEventDestroy"})
        EXPECT_EQ(driver.calls(call), 0) << call;
    EXPECT_OK(ferry_stream_destroy(counted.get(), stream, nullptr));
}

TEST_F(streams, tickets_and_notifications_work_on_default_streams_without_a_context) {
    CUcontext kept = nullptr;
    ASSERT_OK(raw().cuCtxGetCurrent(&kept));
    ASSERT_OK(raw().cuCtxSetCurrent(nullptr));
    ferry_ticket *ticket = nullptr;
    ASSERT_OK(ferry_ticket_create(basic.get(), nullptr, &ticket, nullptr));
    EXPECT_OK(ferry_ticket_wait(ticket, FERRY_NO_TIMEOUT, nullptr));
    EXPECT_OK(ferry_ticket_release(ticket, nullptr));
    std::promise<void> called;
    ASSERT_OK(ferry_stream_notify(
        basic.get(), nullptr, [](void *user, std::int32_t) { static_cast<std::promise<void> *>(user)->set_value(); },
        &called, nullptr));
    called.get_future().get();
    CUcontext current = kept;
    EXPECT_OK(raw().cuCtxGetCurrent(&current));
    EXPECT_EQ(current, nullptr);
    ASSERT_OK(raw().cuCtxSetCurrent(kept));
}

TEST_F(streams, captures_refuse_tickets_and_notifications_and_continue) {
    test_stream stream;
    CUgraph graph = nullptr;
    ferry_ticket *ticket = nullptr;
    ASSERT_OK(raw().cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    EXPECT_EQ(ferry_ticket_create(basic.get(), stream, &ticket, nullptr), FERRY_ERROR_CAPTURE);
    EXPECT_EQ(ticket, nullptr);
    EXPECT_EQ(ferry_stream_notify(
                  basic.get(), stream, [](void *, std::int32_t) { ADD_FAILURE(); }, nullptr, nullptr),
              FERRY_ERROR_CAPTURE);
    EXPECT_OK(raw().cuStreamEndCapture(stream, &graph));
    EXPECT_OK(raw().cuGraphDestroy(graph));
}

TEST_F(streams, a_notification_that_fails_is_not_called) {
    fault_driver driver(raw_entry_points());
    const instance_owner instance = open_or_fail(driver.options());
    driver.fail("cuStreamAddCallback", CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(ferry_stream_notify(
                  instance.get(), nullptr, [](void *, std::int32_t) { ADD_FAILURE(); }, nullptr, nullptr),
              FERRY_STATUS_DRIVER_BASE - CUDA_ERROR_OUT_OF_MEMORY);
    driver.heal();
    EXPECT_OK(ferry_stream_synchronize(instance.get(), nullptr, nullptr));
}

TEST_F(streams, refuse_bad_arguments) {
    CUstream_st *stream = reinterpret_cast<CUstream_st *>(7);
    CUevent_st *event = reinterpret_cast<CUevent_st *>(7);
    std::int32_t done = 7;
    float milliseconds = 7;
    EXPECT_EQ(ferry_stream_create(basic.get(), 0, 2, 0, &stream, nullptr), FERRY_ERROR_FLAGS);
    EXPECT_EQ(stream, nullptr);
    EXPECT_EQ(ferry_stream_create(basic.get(), device_count(), 0, 0, &stream, nullptr), FERRY_ERROR_DEVICE);
    EXPECT_EQ(ferry_stream_create(basic.get(), 0, 0, 0, nullptr, nullptr), FERRY_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(ferry_event_create(basic.get(), 0, 4, &event, nullptr), FERRY_ERROR_FLAGS);
    EXPECT_EQ(event, nullptr);
    EXPECT_EQ(ferry_event_create(basic.get(), -1, 0, &event, nullptr), FERRY_ERROR_DEVICE);
    EXPECT_EQ(ferry_event_record(basic.get(), nullptr, nullptr, nullptr), FERRY_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(ferry_stream_wait_event(basic.get(), nullptr, nullptr, nullptr), FERRY_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(ferry_event_query(basic.get(), nullptr, &done, nullptr), FERRY_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(done, 0);
    EXPECT_EQ(ferry_event_elapsed_time(basic.get(), nullptr, nullptr, &milliseconds, nullptr),
              FERRY_ERROR_INVALID_ARGUMENT);
    ferry_ticket *ticket = reinterpret_cast<ferry_ticket *>(7);
    EXPECT_EQ(ferry_ticket_create(nullptr, nullptr, &ticket, nullptr), FERRY_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(ticket, nullptr);
    EXPECT_EQ(ferry_ticket_create(basic.get(), nullptr, nullptr, nullptr), FERRY_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(ferry_stream_notify(basic.get(), nullptr, nullptr, nullptr, nullptr), FERRY_ERROR_INVALID_ARGUMENT);
    EXPECT_OK(ferry_stream_destroy(basic.get(), nullptr, nullptr));
    EXPECT_OK(ferry_event_destroy(basic.get(), nullptr, nullptr));
    for (const std::uintptr_t reserved : {FERRY_DEFAULT_STREAM_LEGACY, FERRY_DEFAULT_STREAM_PER_THREAD})
        EXPECT_EQ(ferry_stream_destroy(basic.get(), reinterpret_cast<CUstream_st *>(reserved), nullptr),
                  FERRY_ERROR_INVALID_ARGUMENT);
}

TEST_F(streams, a_driver_without_an_entry_point_is_reported) {
    fault_driver driver(raw_entry_points());
    for (const char *const entry : {"cuStreamCreateWithPriority", "cuEventCreate", "cuStreamQuery"})
        driver.hide(entry);
    const instance_owner instance = open_or_fail(driver.options());
    CUstream_st *stream = nullptr;
    CUevent_st *event = nullptr;
    std::int32_t done = 0;
    EXPECT_EQ(ferry_stream_create(instance.get(), 0, 0, 0, &stream, nullptr), FERRY_ERROR_UNSUPPORTED);
    EXPECT_EQ(ferry_event_create(instance.get(), 0, 0, &event, nullptr), FERRY_ERROR_UNSUPPORTED);
    EXPECT_EQ(ferry_stream_query(instance.get(), nullptr, &done, nullptr), FERRY_ERROR_UNSUPPORTED);
}

} // namespace
} // namespace ferry::test
