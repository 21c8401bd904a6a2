// Waiting for tickets: with a time-out, for any of several tickets, and on a stream.
#include <chrono>
#include <thread>
#include <vector>

#include "support/captured_graph.h"
#include "support/counted_test.h"
#include "support/gate.h"
#include "support/how.h"
#include "support/raw_objects.h"
#include "support/system.h"

namespace ferry::test {
namespace {

constexpr std::uint64_t size = 3 << 20;
constexpr std::int64_t millisecond = 1'000'000;

std::uint64_t at(const void *data) { return reinterpret_cast<std::uintptr_t>(data); }

class tickets : public counted_test {
protected:
    void SetUp() override {
        counted_test::SetUp();
        // The first use of kernels and staging waits for the device.
        if (!has_kernels()) return;
        ASSERT_OK(ferry_staging_prepare(counted.get(), 0, nullptr));
    }
    ferry_ticket *copy(std::uint64_t to, std::uint64_t from, CUstream on, const how &options = {}) {
        ferry_copy_desc desc = {};
        ferry_place_any(&desc.source, from);
        ferry_place_any(&desc.destination, to);
        desc.width = size;
        ferry_ticket *ticket = nullptr;
        ferry_error_info error = new_error();
        EXPECT_OK(ferry_copy_async(counted.get(), &desc, options, on, &ticket, &error)) << describe(error);
        return ticket;
    }
    ferry_ticket *of_stream(CUstream on) {
        ferry_ticket *ticket = nullptr;
        EXPECT_OK(ferry_ticket_create(counted.get(), on, &ticket, nullptr));
        return ticket;
    }
    void release(ferry_ticket *ticket) { EXPECT_OK(ferry_ticket_release(ticket, nullptr)); }
};

std::int32_t wait(ferry_ticket *ticket, std::int64_t timeout_ns = FERRY_NO_TIMEOUT) {
    return ferry_ticket_wait(ticket, timeout_ns, nullptr);
}

std::int32_t wait_any(const std::vector<ferry_ticket *> &any, std::int64_t timeout_ns, std::uint64_t &index) {
    return ferry_ticket_wait_any(any.data(), any.size(), timeout_ns, &index, nullptr);
}

bool is_done(ferry_ticket *ticket) {
    ferry_ticket_info info = {};
    info.struct_size = sizeof info;
    EXPECT_OK(ferry_ticket_get_info(ticket, &info, nullptr));
    return info.done;
}

// ---- Time-outs --------------------------------------------------------------------------------------------------

TEST_F(tickets, a_wait_ends_after_its_time_out_and_loses_nothing) {
    const bytes pageable = random_bytes(size, 1);
    pinned_memory pinned(size);
    std::memcpy(pinned.data(), pageable.data(), size);
    const device_memory staged(size), direct(size);
    std::vector<how> routes = {by_driver};
    if (has_kernels()) routes.push_back(by_staging);
    for (const how &route : routes) {
        SCOPED_TRACE(route);
        const bool is_staged = route == by_staging;
        const device_memory &to = is_staged ? staged : direct;
        ferry_ticket *ticket = nullptr, *behind = nullptr;
        {
            gate held(stream);
            ticket = copy(to, is_staged ? at(pageable.data()) : at(pinned.data()), stream, route);
            behind = of_stream(stream);
            for (ferry_ticket *const one : {ticket, behind})
                for (const std::int64_t timeout : {std::int64_t{0}, millisecond, 20 * millisecond}) {
                    const auto begun = std::chrono::steady_clock::now();
                    EXPECT_EQ(FERRY_ERROR_NOT_READY, wait(one, timeout));
                    const auto waited = std::chrono::steady_clock::now() - begun;
                    EXPECT_GE(waited, std::chrono::nanoseconds(timeout));
                    EXPECT_LT(waited, std::chrono::nanoseconds(timeout) + std::chrono::seconds(5));
                    EXPECT_FALSE(is_done(one));
                }
        }
        constexpr std::int64_t enough = 60'000 * millisecond;
        EXPECT_OK(wait(ticket, enough));
        EXPECT_OK(wait(behind, enough));
        EXPECT_OK(wait(ticket, 0));
        EXPECT_OK(wait(behind));
        ASSERT_OK(raw().cuStreamSynchronize(stream));
        EXPECT_TRUE(read_back(to, size) == pageable);
        release(ticket);
        release(behind);
    }
}

TEST_F(tickets, a_wait_without_a_limit_returns_when_the_work_has_ended) {
    ferry_ticket *ticket = nullptr;
    gate held(stream);
    ticket = of_stream(stream);
    held.let_go();
    EXPECT_OK(wait(ticket));
    EXPECT_TRUE(is_done(ticket));
    release(ticket);
    held.open();
}

// ---- Any of several ---------------------------------------------------------------------------------------------

TEST_F(tickets, a_wait_for_any_returns_the_first_ticket_that_is_done) {
    if (streams_share_a_queue()) GTEST_SKIP() << "nothing passes a stream that waits";
    const test_stream other;
    const bytes pageable = random_bytes(size, 2);
    const device_memory blocked_target(size), target(size);
    ferry_ticket *blocked = nullptr, *free = nullptr, *later = nullptr;
    std::uint64_t index = 7;
    {
        gate held(stream);
        blocked = copy(blocked_target, at(pageable.data()), stream, has_kernels() ? by_staging : how());
        EXPECT_EQ(FERRY_ERROR_NOT_READY, wait_any({blocked, blocked}, millisecond, index));
        EXPECT_EQ(0u, index);
        free = copy(target, at(pageable.data()), other, has_kernels() ? by_staging : how());
        later = of_stream(other);
        EXPECT_OK(wait_any({blocked, free, blocked}, FERRY_NO_TIMEOUT, index));
        EXPECT_EQ(1u, index);
        EXPECT_OK(wait_any({blocked, later}, FERRY_NO_TIMEOUT, index));
        EXPECT_EQ(1u, index);
        EXPECT_OK(wait_any({free, blocked}, 0, index));
        EXPECT_EQ(0u, index);
        EXPECT_EQ(FERRY_ERROR_NOT_READY, wait_any({blocked}, 0, index));
    }
    EXPECT_OK(wait_any({blocked, free}, 60'000 * millisecond, index));
    EXPECT_LT(index, 2u);
    for (ferry_ticket *const one : {blocked, free, later}) {
        EXPECT_OK(wait(one));
        release(one);
    }
    EXPECT_TRUE(read_back(target, size) == pageable);
    EXPECT_TRUE(read_back(blocked_target, size) == pageable);
}

TEST_F(tickets, a_wait_for_any_returns_when_blocked_work_continues) {
    const pinned_memory pinned(size);
    const device_memory target(size);
    gate held(stream);
    ferry_ticket *const first = copy(target, at(pinned.data()), stream), *const second = of_stream(stream);
    std::uint64_t index = 7;
    EXPECT_EQ(FERRY_ERROR_NOT_READY, wait_any({second, first}, 20 * millisecond, index));
    std::thread opener([&] { held.let_go(); });
    EXPECT_OK(wait_any({second, first}, FERRY_NO_TIMEOUT, index));
    EXPECT_LT(index, 2u);
    opener.join();
    for (ferry_ticket *const one : {first, second}) {
        EXPECT_OK(wait(one));
        release(one);
    }
    held.open();
}

TEST_F(tickets, invalid_waits_are_refused_and_name_the_argument) {
    ferry_ticket *const ticket = of_stream(stream);
    ferry_ticket *list[3] = {ticket, nullptr, ticket};
    std::uint64_t index = 7;
    ferry_error_info error = new_error();
    EXPECT_EQ(FERRY_ERROR_INVALID_ARGUMENT, ferry_ticket_wait_any(list, 3, 0, &index, &error));
    EXPECT_EQ(FERRY_ITEM_TICKET, error.item);
    EXPECT_EQ(1u, error.index);
    EXPECT_EQ(FERRY_FIELD_TICKET, error.field) << describe(error);
    EXPECT_EQ(0u, index);
    EXPECT_EQ(FERRY_ERROR_INVALID_ARGUMENT, ferry_ticket_wait_any(list, 0, 0, &index, &error));
    EXPECT_EQ(FERRY_FIELD_COUNT, error.field);
    EXPECT_EQ(FERRY_ERROR_INVALID_ARGUMENT, ferry_ticket_wait_any(nullptr, 1, 0, &index, &error));
    EXPECT_EQ(FERRY_FIELD_TICKET, error.field) << describe(error);
    EXPECT_EQ(FERRY_ITEM_NONE, error.item) << describe(error);
    EXPECT_EQ(FERRY_ERROR_INVALID_ARGUMENT, ferry_ticket_wait_any(list, 1, 0, nullptr, &error));
    EXPECT_EQ(FERRY_ERROR_INVALID_ARGUMENT, ferry_ticket_wait_any(list, 1, -2, &index, &error));
    EXPECT_EQ(FERRY_FIELD_TIMEOUT, error.field);
    EXPECT_NE(std::string::npos, describe(error).find("timeout_ns: -2, must be at least -1")) << describe(error);
    EXPECT_EQ(FERRY_ERROR_INVALID_ARGUMENT, ferry_ticket_wait(ticket, INT64_MIN, &error));
    EXPECT_EQ(FERRY_FIELD_TIMEOUT, error.field);
    EXPECT_EQ(FERRY_ERROR_INVALID_ARGUMENT, ferry_ticket_wait(nullptr, 0, &error));
    EXPECT_EQ(FERRY_ERROR_INVALID_ARGUMENT, ferry_ticket_wait_async(nullptr, stream, &error));
    EXPECT_EQ(FERRY_STATUS_RETRY, ferry_status_traits(FERRY_ERROR_NOT_READY));
    EXPECT_OK(wait(ticket, INT64_MAX));
    release(ticket);
}

TEST_F(tickets, an_empty_copy_is_done_for_every_kind_of_wait) {
    ferry_copy_desc desc = {};
    const device_memory memory(64);
    ferry_place_any(&desc.source, memory);
    ferry_place_any(&desc.destination, memory);
    ferry_ticket *ticket = nullptr;
    ASSERT_OK(ferry_copy_async(counted.get(), &desc, nullptr, stream, &ticket, nullptr));
    std::uint64_t index = 7;
    EXPECT_OK(wait(ticket, 0));
    EXPECT_OK(wait_any({ticket}, 0, index));
    EXPECT_EQ(0u, index);
    EXPECT_OK(ferry_ticket_wait_async(ticket, stream, nullptr));
    release(ticket);
}

// ---- On a stream ------------------------------------------------------------------------------------------------

TEST_F(tickets, a_stream_waits_for_a_staged_copy_that_is_behind_a_blocked_stream) {
    const bytes pageable = random_bytes(size, 3);
    const device_memory middle(size);
    const pinned_memory result(size);
    const test_stream later;
    std::memset(result.data(), 0, size);
    ASSERT_OK(raw().cuMemsetD8(middle, 1, size));
    ASSERT_OK(raw().cuCtxSynchronize());
    {
        gate held(stream);
        ferry_ticket *const ticket = copy(middle, at(pageable.data()), stream, has_kernels() ? by_staging : how());
        ASSERT_OK(ferry_ticket_wait_async(ticket, later, nullptr)); // the host does not wait: the gate is closed
        release(ticket);
        ASSERT_OK(
            ferry_copy_bytes_async(counted.get(), at(result.data()), middle, size, nullptr, later, nullptr, nullptr));
        EXPECT_EQ(CUDA_ERROR_NOT_READY, raw().cuStreamQuery(later));
    }
    ASSERT_OK(raw().cuStreamSynchronize(later));
    EXPECT_TRUE(result.copy() == pageable);
}

TEST_F(tickets, a_stream_of_another_device_waits_for_a_ticket) {
    if (device_count() < 2) GTEST_SKIP() << "needs two devices";
    const other_device there;
    const bytes pageable = random_bytes(size, 4);
    const device_memory middle(size);
    const pinned_memory result(size);
    CUstream later = nullptr;
    ASSERT_OK(ferry_stream_create(counted.get(), 1, FERRY_STREAM_NON_BLOCKING, 0, &later, nullptr));
    {
        gate held(stream);
        ferry_ticket *const ticket = copy(middle, at(pageable.data()), stream);
        ASSERT_OK(ferry_ticket_wait_async(ticket, later, nullptr));
        release(ticket);
        ASSERT_OK(
            ferry_copy_bytes_async(counted.get(), at(result.data()), middle, size, nullptr, later, nullptr, nullptr));
        held.let_go();
        ASSERT_OK(ferry_stream_synchronize(counted.get(), later, nullptr));
    }
    EXPECT_TRUE(result.copy() == pageable);
    EXPECT_OK(ferry_stream_destroy(counted.get(), later, nullptr));
}

TEST_F(tickets, a_captured_stream_refuses_to_wait_for_a_ticket_and_the_capture_continues) {
    ferry_ticket *const ticket = of_stream(stream);
    test_stream capturing;
    captured_graph graph(capturing);
    EXPECT_EQ(FERRY_ERROR_CAPTURE, ferry_ticket_wait_async(ticket, capturing, nullptr));
    EXPECT_EQ(FERRY_SUCCESS, wait(ticket, 60'000 * millisecond)); // breaks no capture
    graph.end();
    graph.run();
    release(ticket);
}

TEST_F(tickets, no_stream_waits_for_a_ticket_of_a_destroyed_context) {
    CUcontext own = nullptr;
    ASSERT_OK(ferry_context_create(counted.get(), 0, 0, &own, nullptr));
    ferry_ticket *ticket = nullptr;
    {
        const made_current in(own);
        ticket = of_stream(reinterpret_cast<CUstream>(std::uintptr_t{FERRY_DEFAULT_STREAM_PER_THREAD}));
        ASSERT_OK(raw().cuCtxSynchronize());
    }
    ASSERT_OK(ferry_context_destroy(counted.get(), own, nullptr));
    driver.reset_counts();
    constexpr std::int32_t destroyed = FERRY_STATUS_DRIVER_BASE - CUDA_ERROR_CONTEXT_IS_DESTROYED;
    EXPECT_EQ(destroyed, ferry_ticket_wait_async(ticket, stream, nullptr));
    EXPECT_EQ(destroyed, wait(ticket, millisecond));
    std::uint64_t index = 7;
    EXPECT_OK(wait_any({ticket}, millisecond, index)); // the work has ended
    EXPECT_EQ(0, driver.calls("cuStreamWaitEvent") + driver.calls("cuEventQuery"));
    release(ticket);
}

TEST_F(tickets, a_driver_call_that_fails_is_reported_and_the_ticket_stays_usable) {
    ferry_ticket *const ticket = of_stream(stream);
    driver.fail("cuStreamWaitEvent", CUDA_ERROR_OUT_OF_MEMORY);
    ferry_error_info error = new_error();
    EXPECT_EQ(FERRY_STATUS_DRIVER_BASE - CUDA_ERROR_OUT_OF_MEMORY, ferry_ticket_wait_async(ticket, stream, &error));
    EXPECT_STREQ("cuStreamWaitEvent", error.driver_function);
    driver.heal();
    EXPECT_OK(ferry_ticket_wait_async(ticket, stream, nullptr));
    EXPECT_OK(wait(ticket));
    release(ticket);
}

TEST_F(tickets, a_forked_child_can_wait_for_no_ticket) {
    FERRY_NEEDS_FORK();
    ferry_ticket *const ticket = of_stream(stream);
    constexpr std::int32_t no_driver = FERRY_STATUS_DRIVER_BASE - CUDA_ERROR_NOT_INITIALIZED;
    const int status = run_in_child([&] {
        std::uint64_t index = 0;
        const bool is_refused = wait(ticket, 0) == no_driver && wait_any({ticket}, 0, index) == no_driver &&
                                ferry_ticket_wait_async(ticket, stream, nullptr) == no_driver;
        return is_refused ? 17 : 1;
    });
    EXPECT_EQ(17, status);
    EXPECT_OK(wait(ticket));
    release(ticket);
}

} // namespace
} // namespace ferry::test
