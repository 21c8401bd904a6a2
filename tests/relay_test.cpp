// Copies between two devices that are relayed through pinned memory, on ferry's internal streams.
#include <chrono>
#include <cstring>
#include <deque>
#include <optional>
#include <string>
#include <thread>

#include "support/counted_test.h"
#include "support/dying_context.h"
#include "support/gate.h"
#include "support/how.h"
#include "support/raw_objects.h"
#include "support/station.h"
#include "support/waiting_free.h"

namespace ferry::test {
namespace {

constexpr std::uint64_t megabyte = 1 << 20;

class relayed : public counted_test {
protected:
    void SetUp() override {
        if (device_count() < 2) GTEST_SKIP() << "needs two devices";
        counted_test::SetUp();
        ASSERT_OK(ferry_context_retain_primary(counted.get(), 1, &there, nullptr));
    }
    void TearDown() override {
        if (counted) counted_test::TearDown();
    }

    static ferry_copy_desc line(const station &to, const station &from, std::uint64_t size) {
        ferry_copy_desc copy = {};
        copy.source.address = from.address();
        copy.destination.address = to.address();
        copy.width = size;
        return copy;
    }
    std::int32_t relay(const station &to, const station &from, std::uint64_t size, CUstream on) const {
        const ferry_copy_desc copy = line(to, from, size);
        return ferry_copy_async(counted.get(), &copy, by_relay, on, nullptr, nullptr);
    }
    ferry_explanation explain(const ferry_copy_desc &copy, CUstream on, const how &options = by_relay) const {
        ferry_explanation told = {};
        told.struct_size = sizeof told;
        EXPECT_OK(ferry_copy_explain_async(counted.get(), &copy, options, on, &told, nullptr));
        return told;
    }

    CUcontext there = nullptr;
};

TEST_F(relayed, long_lines_arrive_whole_on_streams_of_either_device) {
    for (const std::uint64_t size : {std::uint64_t{1}, 3 * megabyte + 17, 41 * megabyte + 5}) {
        const station near(context, size), far(there, size);
        for (const bool forth : {true, false})
            for (const station *const caller : {&near, &far}) {
                SCOPED_TRACE(testing::Message() << size << (forth ? " forth" : " back"));
                const station &from = forth ? near : far, &to = forth ? far : near;
                const bytes sent = random_bytes(size, size + forth);
                from.write(sent);
                to.write(bytes(size));
                driver.reset_counts();
                ASSERT_OK(relay(to, from, size, caller->stream()));
                caller->wait();
                EXPECT_TRUE(to.read() == sent);
                EXPECT_EQ(driver.calls("cuLaunchKernel"), 0) << "kernels that occupy the devices delay nothing";
            }
    }
}

TEST_F(relayed, a_line_whose_chunks_fill_their_slots_arrives_whole) {
    const std::uint64_t size = 140 * megabyte + 3;
    const station near(context, size), far(there, size);
    const bytes sent = random_bytes(size, 6);
    near.write(sent);
    far.write(bytes(size));
    ASSERT_OK(relay(far, near, size, near.stream()));
    near.wait();
    EXPECT_TRUE(far.read() == sent);
}

TEST_F(relayed, synchronous_copies_are_complete_on_return_whatever_context_is_current) {
    const std::uint64_t size = 9 * megabyte + 1;
    const station near(context, size), far(there, size);
    for (const CUcontext current : {context, there, CUcontext{nullptr}}) {
        const bytes sent = random_bytes(size, 5);
        near.write(sent);
        far.write(bytes(size));
        ASSERT_OK(raw().cuCtxSetCurrent(current));
        const ferry_copy_desc copy = line(far, near, size);
        EXPECT_OK(ferry_copy(counted.get(), &copy, by_relay, nullptr));
        CUcontext after = nullptr;
        EXPECT_OK(raw().cuCtxGetCurrent(&after));
        EXPECT_EQ(after, current);
        EXPECT_TRUE(far.read() == sent);
    }
    ASSERT_OK(raw().cuCtxSetCurrent(context));
}

TEST_F(relayed, a_synchronous_copy_that_the_driver_refuses_in_part_leaves_nothing_in_flight) {
    const std::uint64_t size = 64 * megabyte;
    const station near(context, size), far(there, size);
    near.write(bytes(size, std::byte{0x5a}));
    far.write(bytes(size));
    const ferry_copy_desc copy = line(far, near, size);
    ASSERT_OK(ferry_copy(counted.get(), &copy, by_relay, nullptr)); // makes the lanes
    far.write(bytes(size));
    driver.reset_counts();
    driver.fail("cuMemcpy3DAsync", CUDA_ERROR_NOT_SUPPORTED, 12);
    EXPECT_EQ(ferry_copy(counted.get(), &copy, by_relay, nullptr), FERRY_STATUS_DRIVER_BASE - CUDA_ERROR_NOT_SUPPORTED);
    driver.heal();
    EXPECT_EQ(driver.calls("cuStreamSynchronize"), 1);
    const bytes found = far.read();
    EXPECT_EQ(found.front(), std::byte{0x5a}) << "the first part arrived";
    EXPECT_EQ(found.back(), std::byte{0});
    for (const CUcontext one : {context, there}) {
        const made_current in(one);
        ASSERT_OK(raw().cuCtxSynchronize());
    }
    EXPECT_TRUE(far.read() == found);
}

// Where the stream cannot be ordered behind a relay, the host waits for it: no chunk may come late.
TEST_F(relayed, work_after_a_copy_runs_last_even_if_the_driver_rejects_a_call) {
    const std::uint64_t size = 16 * megabyte;
    const station near(context, size), far(there, size);
    near.write(bytes(size, std::byte{0x5a}));
    const ferry_copy_desc copy = line(far, near, size);
    ASSERT_OK(ferry_copy_async(counted.get(), &copy, by_relay, far.stream(), nullptr, nullptr)); // makes the lanes
    far.wait();
    for (const char *const call : {"cuStreamWaitEvent", "cuEventRecord"}) {
        driver.reset_counts();
        ASSERT_OK(ferry_copy_async(counted.get(), &copy, by_relay, far.stream(), nullptr, nullptr));
        far.wait();
        const int calls = driver.calls(call);
        ASSERT_GT(calls, 4);
        for (const int nth : {1, 2, calls / 2, calls - 1, calls})
            for (const CUresult refusal : {CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_NOT_SUPPORTED}) {
                SCOPED_TRACE(testing::Message() << call << " " << nth << " of " << calls << ": " << refusal);
                far.write(bytes(size));
                driver.fail(call, refusal, nth);
                ferry_copy_async(counted.get(), &copy, by_relay, far.stream(), nullptr, nullptr);
                driver.heal();
                far.fill(0x77, far.stream());
                far.wait();
                for (const CUcontext one : {context, there}) {
                    const made_current in(one);
                    ASSERT_OK(raw().cuCtxSynchronize());
                }
                ASSERT_TRUE(far.read() == bytes(size, std::byte{0x77}));
            }
    }
}

// The stream's own work before and after: each copy must take what the fill before it wrote, and no later fill.
TEST_F(relayed, copies_are_ordered_with_other_work_on_the_stream) {
    const std::uint64_t size = 5 * megabyte;
    const station near(context, size), far(there, size), back(context, size);
    for (const station *const caller : {&near, &far}) {
        std::deque<bytes> seen;
        for (unsigned char value = 1; value <= 12; ++value) {
            near.fill(value, near.stream());
            if (caller != &near) near.wait();
            ASSERT_OK(relay(far, near, size, caller->stream()));
            ASSERT_OK(relay(back, far, size, caller->stream()));
            if (caller == &near) {
                near.fill(0xee, near.stream()); // must not reach the copy before it
            } else {
                far.fill(0xee, far.stream());
                caller->wait();
            }
            if (value % 4 == 0) {
                caller->wait();
                ASSERT_TRUE(back.read() == bytes(size, std::byte{value})) << int{value};
            }
        }
        caller->wait();
    }
}

TEST_F(relayed, a_blocked_stream_blocks_its_copy_and_no_other_stream) {
    if (streams_share_a_queue()) GTEST_SKIP() << "streams of one queue wait for each other";
    const std::uint64_t size = 4 * megabyte;
    const station held(context, size), beside(context, size), far(there, size), other(there, size);
    const bytes first = random_bytes(size, 1), second = random_bytes(size, 2);
    held.write(first);
    beside.write(second);
    far.write(bytes(size));
    other.write(bytes(size));
    {
        gate shut(held.stream());
        ASSERT_OK(relay(far, held, size, held.stream()));
        ASSERT_OK(relay(other, beside, size, beside.stream()));
        beside.wait();
        EXPECT_TRUE(other.read() == second);
        EXPECT_EQ(raw().cuStreamQuery(held.stream()), CUDA_ERROR_NOT_READY);
    }
    held.wait();
    EXPECT_TRUE(far.read() == first);
}

TEST_F(relayed, frees_in_other_threads_do_not_block_copies) {
    const std::uint64_t size = 12 * megabyte;
    const station near(context, size), far(there, size);
    const bytes sent = random_bytes(size, 3);
    near.write(sent);
    far.write(bytes(size));
    std::optional<waiting_free> free;
    {
        gate shut(near.stream());
        ASSERT_OK(relay(far, near, size, near.stream()));
        free.emplace();
        std::this_thread::sleep_for(std::chrono::milliseconds(20)); // the free is most likely in the driver by now
    }
    near.wait();
    free.reset();
    EXPECT_TRUE(far.read() == sent);
}

// Chunks are cut from rows and slices that do not divide them, and gaps stay as they are.
TEST_F(relayed, boxes_of_many_chunks_arrive_whole_and_touch_nothing_else) {
    struct box {
        std::uint64_t width, height, depth, pitch, slice;
    };
    for (const box &one :
         {box{5000, 1300, 1, 5200, 1300}, box{70'001, 61, 3, 70'016, 64}, box{4096, 700, 3, 4096, 700}})
        for (const bool forth : {true, false}) {
            SCOPED_TRACE(testing::Message() << one.width << " x " << one.height << " x " << one.depth << forth);
            const std::uint64_t size = one.pitch * one.slice * one.depth;
            const station near(context, size), far(there, size);
            const station &from = forth ? near : far, &to = forth ? far : near;
            const bytes sent = random_bytes(size, size);
            bytes expected = random_bytes(size, size + 1);
            from.write(sent);
            to.write(expected);
            for (std::uint64_t z = 0; z < one.depth; ++z)
                for (std::uint64_t y = 0; y < one.height; ++y) {
                    const std::uint64_t at = (z * one.slice + y) * one.pitch;
                    std::memcpy(expected.data() + at, sent.data() + at, one.width);
                }
            ferry_copy_desc copy = line(to, from, one.width);
            copy.height = one.height;
            copy.depth = one.depth;
            copy.source.row_pitch = copy.destination.row_pitch = one.pitch;
            copy.source.slice_height = copy.destination.slice_height = one.slice;
            driver.reset_counts();
            ASSERT_OK(ferry_copy_async(counted.get(), &copy, by_relay, near.stream(), nullptr, nullptr));
            near.wait();
            EXPECT_GE(driver.calls("cuMemcpy3DAsync"), 10) << "several chunks, each into a slot and out of it";
            EXPECT_TRUE(to.read() == expected);
        }
}

// ferry's streams that wait for held streams occupy hardware queues. Their number is limited: this many relays are
// served at the same time.
constexpr int relays_at_once = 4;

TEST_F(relayed, copies_on_a_few_blocked_streams_are_relayed_and_the_driver_makes_the_others) {
    constexpr int count = 7;
    const std::uint64_t size = 3 * megabyte;
    std::deque<station> near, far;
    for (int i = 0; i < count; ++i) {
        near.emplace_back(context, size).write(random_bytes(size, static_cast<std::uint64_t>(i)));
        far.emplace_back(there, size).write(bytes(size));
    }
    int refused = 0;
    {
        gate shut(near[0].stream());
        for (int i = 1; i < count; ++i)
            shut.hold(near[i].stream());
        for (int i = 0; i < count; ++i) {
            const std::int32_t status = relay(far[i], near[i], size, near[i].stream());
            refused += status == FERRY_ERROR_LIMIT;
            if (status == FERRY_ERROR_LIMIT) {
                const ferry_copy_desc copy = line(far[i], near[i], size);
                ASSERT_OK(ferry_copy_async(counted.get(), &copy, by_driver, near[i].stream(), nullptr, nullptr));
            } else {
                ASSERT_OK(status);
            }
        }
    }
    EXPECT_EQ(refused, count - relays_at_once);
    for (int i = 0; i < count; ++i) {
        near[i].wait();
        EXPECT_TRUE(far[i].read() == random_bytes(size, static_cast<std::uint64_t>(i)));
    }
    ASSERT_OK(relay(far[0], near[1], size, near[0].stream())) << "idle again";
}

TEST_F(relayed, a_copy_that_cannot_be_relayed_is_refused_with_the_reason) {
    const station near(context, 4096), other(context, 4096), far(there, 4096);
    const auto expect = [&](const ferry_copy_desc &copy, std::uint64_t obstacle) {
        ferry_error_info error = new_error();
        expect_refusal(ferry_copy_async(counted.get(), &copy, by_relay, near.stream(), nullptr, &error), error,
                       FERRY_ERROR_ROUTE, FERRY_SIDE_OPTIONS, FERRY_FIELD_ROUTE);
        EXPECT_EQ(error.value, obstacle);
    };
    expect(line(other, near, 4096), FERRY_OBSTACLE_NOT_BETWEEN_DEVICES);
    std::uint64_t host[8] = {};
    ferry_copy_desc to_host = line(other, near, sizeof host);
    to_host.destination.address = reinterpret_cast<std::uintptr_t>(host);
    expect(to_host, FERRY_OBSTACLE_NOT_BETWEEN_DEVICES);

    CUgraph graph = nullptr;
    ASSERT_OK(raw().cuStreamBeginCapture(near.stream(), CU_STREAM_CAPTURE_MODE_RELAXED));
    expect(line(far, near, 4096), FERRY_OBSTACLE_CAPTURED);
    ASSERT_OK(raw().cuStreamEndCapture(near.stream(), &graph));
    ASSERT_OK(raw().cuGraphDestroy(graph));
}

TEST_F(relayed, the_explanation_names_the_route_its_time_and_the_access) {
    const std::uint64_t size = 64 * megabyte;
    const station near(context, size), far(there, size);
    const ferry_explanation told = explain(line(far, near, size), near.stream());
    EXPECT_EQ(told.route, FERRY_ROUTE_RELAYED);
    EXPECT_EQ(told.blocks, FERRY_BLOCKS_NO);
    EXPECT_EQ(told.max_sms, 0u);
    EXPECT_STREQ(told.driver_call, "cuMemcpy3DAsync");
    EXPECT_EQ(told.relay_obstacle, FERRY_OBSTACLE_NONE);
    EXPECT_GT(told.relay_ns, 0u);
    char text[512] = "";
    ferry_explanation_format(&told, text, sizeof text);
    EXPECT_NE(std::string(text).find("relayed route: cuMemcpy3DAsync"), std::string::npos) << text;

    ferry_peer_info pair = {};
    pair.struct_size = sizeof pair;
    ASSERT_OK(ferry_peer_get_info(counted.get(), 0, 1, &pair, nullptr));
    if (!pair.can_access || is_without_access(ferry_peer_enable(counted.get(), 0, 1, nullptr)))
        GTEST_SKIP() << "no peer access";
    const ferry_explanation with_access = explain(line(far, near, size), near.stream(), {});
    EXPECT_EQ(with_access.route, FERRY_ROUTE_DRIVER);
    EXPECT_EQ(with_access.relay_obstacle, FERRY_OBSTACLE_DIRECT_ACCESS);
    EXPECT_OK(ferry_peer_disable(counted.get(), 0, 1, nullptr));
}

TEST_F(relayed, copies_avoid_a_link_that_loses_data_although_the_program_has_access_over_it) {
    ferry_peer_info pair = {};
    pair.struct_size = sizeof pair;
    ASSERT_OK(ferry_peer_get_info(counted.get(), 0, 1, &pair, nullptr));
    if (!pair.can_access || ferry_peer_probe(counted.get(), 0, 1, nullptr) != FERRY_ERROR_DATA_LOST)
        GTEST_SKIP() << "no link that loses data";
    const std::uint64_t size = 20 * megabyte;
    const station near(context, size), far(there, size);
    const made_current in(context);
    ASSERT_OK(raw().cuCtxEnablePeerAccess(there, 0));
    far.write(random_bytes(size, 4));
    const ferry_copy_desc copy = line(far, near, size);
    for (const how &options : {how(), by_relay}) {
        near.write(random_bytes(size, 3));
        EXPECT_EQ(explain(copy, near.stream(), options).relay_obstacle, FERRY_OBSTACLE_NONE)
            << "it counts as no access";
        EXPECT_OK(ferry_copy_async(counted.get(), &copy, options, near.stream(), nullptr, nullptr));
        near.wait();
    }
    EXPECT_OK(raw().cuCtxDisablePeerAccess(there));
    EXPECT_TRUE(far.read() == random_bytes(size, 3)) << "at the latest by the second copy";
}

TEST_F(relayed, slots_are_released_by_a_trim_and_allocated_again) {
    const std::uint64_t size = 20 * megabyte;
    const station near(context, size), far(there, size);
    for (int round = 0; round < 3; ++round) {
        const bytes sent = random_bytes(size, static_cast<std::uint64_t>(round));
        near.write(sent);
        ASSERT_OK(relay(far, near, size, near.stream()));
        near.wait();
        EXPECT_TRUE(far.read() == sent);
        const made_current none(round ? nullptr : context); // any thread may trim
        ASSERT_OK(ferry_staging_trim(counted.get(), nullptr));
    }
}

TEST_F(relayed, slots_are_released_in_a_context_that_exists) {
    if (device_count() < 3) GTEST_SKIP() << "needs three devices";
    CUcontext last = nullptr;
    ASSERT_OK(ferry_context_retain_primary(basic.get(), 2, &last, nullptr));
    const instance_owner instance = open_or_fail(driver.options());
    const std::uint64_t size = 2 * megabyte;
    const station near(there, size), far(last, size);
    const ferry_copy_desc copy = line(far, near, size);
    ASSERT_OK(ferry_copy_async(instance.get(), &copy, by_relay, near.stream(), nullptr, nullptr));
    near.wait();
    driver.reset_counts();
    {
        const made_current none(nullptr);
        ASSERT_OK(ferry_staging_trim(instance.get(), nullptr));
    }
    EXPECT_EQ(driver.calls("cuMemFreeHost") + driver.calls("cuMemHostUnregister"), 1);
    EXPECT_EQ(driver.calls("cuDevicePrimaryCtxRetain"), 0) << "device 0 has no part in it";
}

TEST_F(relayed, slots_end_with_an_instance_that_a_thread_without_a_context_closes) {
    const std::uint64_t size = 2 * megabyte;
    const station near(context, size), far(there, size);
    ASSERT_OK(relay(far, near, size, near.stream()));
    near.wait();
    const made_current none(nullptr);
    EXPECT_FALSE(driver.live_objects().empty());
    counted.reset();
    for (const fault_driver::live_object &left : driver.live_objects())
        EXPECT_STREQ(left.kind, "reference to a primary context") << "this test's own";
}

TEST_F(relayed, the_instance_may_be_closed_with_a_copy_in_flight) {
    const std::uint64_t size = 30 * megabyte;
    const station near(context, size), far(there, size);
    const bytes sent = random_bytes(size, 9);
    near.write(sent);
    ASSERT_OK(relay(far, near, size, near.stream()));
    counted.reset();
    near.wait();
    EXPECT_TRUE(far.read() == sent);
}

TEST_F(relayed, a_prepared_copy_is_refused_in_a_graph_and_nothing_is_captured) {
    const std::uint64_t size = 4 * megabyte;
    const station near(context, size), far(there, size);
    const bytes sent = random_bytes(size, 21);
    near.write(sent);
    far.write(bytes(size));
    const ferry_copy_desc copy = line(far, near, size);
    ferry_prepared *prepared = nullptr;
    ASSERT_OK(ferry_prepared_create(counted.get(), &copy, 1, by_relay, near.stream(), &prepared, nullptr));
    CUgraph graph = nullptr;
    ASSERT_OK(raw().cuStreamBeginCapture(near.stream(), CU_STREAM_CAPTURE_MODE_RELAXED));
    EXPECT_EQ(ferry_prepared_launch(prepared, nullptr, near.stream(), nullptr, nullptr), FERRY_ERROR_ROUTE);
    ASSERT_OK(raw().cuStreamEndCapture(near.stream(), &graph));
    ASSERT_OK(raw().cuGraphDestroy(graph));
    ASSERT_OK(ferry_prepared_launch(prepared, nullptr, near.stream(), nullptr, nullptr));
    near.wait();
    EXPECT_TRUE(far.read() == sent);
    ASSERT_OK(ferry_prepared_destroy(prepared, nullptr));
}

// As for single copies: no other route takes its place.
TEST_F(relayed, a_copy_of_a_batch_is_refused_while_all_lanes_are_active) {
    const std::uint64_t size = 3 * megabyte;
    const station far(there, size);
    std::deque<station> near;
    for (int i = 0; i < relays_at_once + 2; ++i)
        near.emplace_back(context, size);
    {
        gate shut(near[0].stream());
        for (std::size_t i = 1; i < near.size(); ++i)
            shut.hold(near[i].stream());
        for (int i = 0; i < relays_at_once + 2; ++i) {
            const ferry_copy_desc copy = line(far, near[i], size);
            const std::int32_t status =
                ferry_copy_batch_async(counted.get(), &copy, 1, by_relay, near[i].stream(), nullptr, nullptr);
            EXPECT_EQ(status, i < relays_at_once ? FERRY_SUCCESS : FERRY_ERROR_LIMIT) << i;
        }
    }
    for (const station &one : near)
        one.wait();
}

// ---- Contexts that die

TEST_F(relayed, a_context_that_dies_meanwhile_is_reported_although_the_stream_completes) {
    if (!on_software_driver()) GTEST_SKIP() << "would break the contexts of later tests";
    if (!has_kernels()) GTEST_SKIP() << "without kernels";
    const std::uint64_t size = 40 * megabyte;
    for (const auto &[is_synchronous, is_source] :
         {std::pair{true, true}, {false, true}, {true, false}, {false, false}}) {
        SCOPED_TRACE(testing::Message() << "synchronous: " << is_synchronous << ", the source's: " << is_source);
        CUcontext own = nullptr;
        ASSERT_OK(ferry_context_create(counted.get(), 0, 0, &own, nullptr));
        {
            dying_context doomed(1);
            const instance_owner instance = open_or_fail(dying_context::options());
            ASSERT_OK(ferry_context_adopt(instance.get(), 0, own, nullptr));
            ASSERT_OK(ferry_context_adopt(instance.get(), 1, doomed, nullptr));
            const station other(own, size);
            ferry_copy_desc copy = {};
            copy.source.address = is_source ? doomed.allocate(size) : other.address();
            copy.destination.address = is_source ? other.address() : doomed.allocate(size);
            copy.width = size;
            const made_current in(own);
            doomed.arm();
            std::int32_t status = FERRY_SUCCESS;
            if (is_synchronous) {
                status = ferry_copy(instance.get(), &copy, by_relay, nullptr);
            } else {
                ferry_ticket *ticket = nullptr;
                {
                    const gate held(other.stream());
                    ASSERT_OK(ferry_copy_async(instance.get(), &copy, by_relay, other.stream(), &ticket, nullptr));
                }
                status = ferry_ticket_wait(ticket, FERRY_NO_TIMEOUT, nullptr);
                EXPECT_OK(ferry_ticket_release(ticket, nullptr));
            }
            EXPECT_TRUE(doomed.is_doomed());
            EXPECT_EQ(ferry_status_traits(status), FERRY_STATUS_CONTEXT_DEAD) << status;
        }
        EXPECT_OK(raw().cuCtxDestroy(own));
    }
}

} // namespace
} // namespace ferry::test
