// Staged copies without a kernel: copies on the stream take its place, in order with the workers by stream memory
// operations.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <deque>
#include <thread>

#include "support/counted_test.h"
#include "support/gate.h"
#include "support/raw_objects.h"
#include "support/stuck_pages.h"
#include "support/waiting_free.h"

namespace ferry::test {
namespace {

constexpr std::uint32_t by_copies = FERRY_COPY_BY_STAGING | FERRY_COPY_NO_KERNELS;

std::uint64_t at(const bytes &memory) { return reinterpret_cast<std::uintptr_t>(memory.data()); }

ferry_copy_desc line(std::uint64_t to, std::uint64_t from, std::uint64_t size, std::uint32_t flags) {
    ferry_copy_desc copy = {};
    copy.source.address = from;
    copy.destination.address = to;
    copy.width = size;
    copy.flags = flags;
    return copy;
}

class without_kernels : public counted_test {
protected:
    void SetUp() override {
        counted_test::SetUp();
        if (!has_kernels()) GTEST_SKIP() << "without kernels nothing is staged";
        if (!ferry_instance_get_proc(counted.get(), "cuStreamBatchMemOp", 11070))
            GTEST_SKIP() << "the driver has no stream memory operations";
    }
    std::int32_t copy_async(std::uint64_t to, std::uint64_t from, std::uint64_t size, std::uint32_t flags,
                            CUstream on) const {
        const ferry_copy_desc copy = line(to, from, size, flags);
        return ferry_copy_async(counted.get(), &copy, on, nullptr, nullptr);
    }
    ferry_explanation explain(const ferry_copy_desc &copy) const {
        ferry_explanation told = {};
        told.struct_size = sizeof told;
        EXPECT_OK(ferry_copy_explain_async(counted.get(), &copy, stream, &told, nullptr));
        return told;
    }
};

TEST_F(without_kernels, copies_return_while_their_stream_is_held_and_wait_their_turn) {
    const bytes from = random_bytes(3 << 20, 1);
    bytes to(from.size());
    const device_memory device(from.size());
    ASSERT_OK(ferry_staging_prepare(counted.get(), 0));
    driver.reset_counts();
    {
        gate held(stream);
        const ferry_explanation told = explain(line(device, at(from), from.size(), FERRY_COPY_NO_KERNELS));
        EXPECT_EQ(told.route, FERRY_ROUTE_STAGED);
        EXPECT_EQ(told.blocks, FERRY_BLOCKS_NO);
        EXPECT_EQ(told.max_sms, 0u);
        EXPECT_GT(told.threads, 0u);
        EXPECT_STREQ(told.driver_call, "cuMemcpy3DAsync");
        EXPECT_EQ(told.staged_obstacle, FERRY_OBSTACLE_NONE);
        ASSERT_OK(copy_async(device, at(from), from.size(), by_copies, stream));
        ASSERT_OK(copy_async(at(to), device, to.size(), by_copies, stream));
        EXPECT_TRUE(to == bytes(to.size())) << "nothing may run while the gate is shut";
    }
    ASSERT_OK(raw().cuStreamSynchronize(stream));
    EXPECT_TRUE(to == from);
    EXPECT_EQ(driver.calls("cuLaunchKernel"), 0);
}

TEST_F(without_kernels, kernels_and_copies_use_the_same_records_in_turn) {
    ferry_options options = driver.options();
    options.staging_bytes = 256 << 10; // slots of 32 KiB, so that each is used many times
    counted = open_or_fail(options);
    const std::size_t size = 1'000'003;
    const device_memory device(size);
    for (int round = 0; round < 24; ++round) {
        const bytes from = random_bytes(size, static_cast<std::uint64_t>(round));
        bytes to(size);
        ASSERT_OK(copy_async(device, at(from), size, round % 2 ? by_copies : FERRY_COPY_BY_STAGING, stream));
        ASSERT_OK(raw().cuStreamSynchronize(stream)); // else the slots may be taken
        ASSERT_OK(copy_async(at(to), device, size, round % 3 ? by_copies : FERRY_COPY_BY_STAGING, stream));
        ASSERT_OK(raw().cuStreamSynchronize(stream));
        ASSERT_TRUE(to == from) << round;
    }
}

// The driver's lock is held by a free that waits for all work, also while the copies of another thread are enqueued.
TEST_F(without_kernels, frees_in_other_threads_stop_no_copy) {
    std::atomic<bool> is_over = false;
    std::atomic<int> frees = 0;
    std::thread freeing([&] {
        EXPECT_OK(raw().cuCtxSetCurrent(context));
        while (!is_over) {
            CUdeviceptr some = 0;
            EXPECT_OK(raw().cuMemAlloc(&some, 4096));
            EXPECT_OK(raw().cuMemFree(some));
            ++frees;
        }
    });
    std::deque<std::thread> copying;
    for (int thread = 0; thread < 3; ++thread)
        copying.emplace_back([&, thread] {
            EXPECT_OK(raw().cuCtxSetCurrent(context));
            const test_stream on;
            const std::size_t size = 2'000'000 + static_cast<std::size_t>(thread);
            const device_memory device(size);
            for (int round = 0; round < 8; ++round) {
                const bytes from = random_bytes(size, static_cast<std::uint64_t>(8 * thread + round));
                bytes to(size);
                EXPECT_OK(copy_async(device, at(from), size, FERRY_COPY_NO_KERNELS, on));
                EXPECT_OK(copy_async(at(to), device, size, FERRY_COPY_NO_KERNELS, on));
                EXPECT_OK(raw().cuStreamSynchronize(on));
                EXPECT_TRUE(to == from);
            }
        });
    for (std::thread &one : copying)
        one.join();
    is_over = true;
    freeing.join();
    EXPECT_GT(frees, 0);
}

TEST_F(without_kernels, copies_on_32_streams_at_once_arrive) {
    constexpr std::size_t count = 32, size = 700'001;
    std::deque<test_stream> streams(count);
    const device_memory device(count * size);
    const bytes from = random_bytes(count * size, 1);
    bytes to(from.size());
    for (std::size_t i = 0; i < count; ++i)
        ASSERT_OK(copy_async(device + i * size, at(from) + i * size, size, FERRY_COPY_NO_KERNELS, streams[i]));
    for (std::size_t i = 0; i < count; ++i)
        ASSERT_OK(copy_async(at(to) + i * size, device + i * size, size, FERRY_COPY_NO_KERNELS, streams[i]));
    for (const test_stream &one : streams)
        ASSERT_OK(raw().cuStreamSynchronize(one));
    EXPECT_TRUE(to == from);
}

// Slots are reserved when a copy is enqueued. Where none is left, the driver copies, or a forced copy is refused.
TEST_F(without_kernels, copies_without_a_slot_go_another_way) {
    ferry_options options = driver.options();
    options.staging_bytes = 4096; // one slot, which kernels need
    counted = open_or_fail(options);
    const bytes from = random_bytes(100'000, 1);
    const device_memory device(from.size());
    constexpr std::uint32_t read = by_copies | FERRY_COPY_SOURCE_READ; // the caller would help
    EXPECT_EQ(copy_async(device, at(from), from.size(), by_copies, stream), FERRY_ERROR_LIMIT);
    EXPECT_EQ(copy_async(device, at(from), from.size(), read, stream), FERRY_ERROR_LIMIT);
    ferry_ticket *ticket = nullptr;
    const ferry_copy_desc copy = line(device, at(from), from.size(), FERRY_COPY_NO_KERNELS);
    ASSERT_OK(ferry_copy_async(counted.get(), &copy, stream, &ticket, nullptr));
    EXPECT_OK(ferry_ticket_wait(ticket));
    EXPECT_OK(ferry_ticket_release(ticket));
    bytes to(from.size());
    ASSERT_OK(raw().cuMemcpyDtoH(to.data(), device, to.size()));
    EXPECT_TRUE(to == from);
}

// The driver reads a short row of pinned memory inside the call if the stream is idle. Here the stream waits.
TEST_F(without_kernels, a_short_last_chunk_is_not_read_before_it_is_filled) {
    ferry_options options = driver.options();
    options.staging_threads = 1; // stuck in the first chunk
    counted = open_or_fail(options);
    ASSERT_OK(ferry_staging_prepare(counted.get(), 0));
    constexpr std::size_t size = (128 << 10) + 4096;
    const device_memory device(size);
    for (int round = 0; round < 3; ++round) {
        stuck_pages stuck(1, size, 20 + static_cast<std::uint64_t>(round));
        ASSERT_OK(copy_async(device, reinterpret_cast<std::uintptr_t>(stuck.data), size, by_copies, stream));
        stuck.release();
        ASSERT_OK(raw().cuStreamSynchronize(stream));
        bytes there(size);
        ASSERT_OK(raw().cuMemcpyDtoH(there.data(), device, size));
        EXPECT_EQ(std::memcmp(there.data(), stuck.data, size), 0);
    }
}

TEST_F(without_kernels, any_operation_that_the_driver_refuses_leaves_nothing_waiting) {
    const bytes from = random_bytes(1'500'000, 1);
    const device_memory device(from.size());
    for (const char *const entry : {"cuStreamBatchMemOp", "cuMemcpy3DAsync"})
        for (const bool to_device : {true, false})
            for (int nth = 1; nth <= 14; ++nth) {
                SCOPED_TRACE(testing::Message() << entry << ", call " << nth << (to_device ? ", to the device" : ""));
                counted = open_or_fail(driver.options());
                ASSERT_OK(ferry_staging_prepare(counted.get(), 0));
                bytes to = from;
                driver.reset_counts();
                driver.fail(entry, CUDA_ERROR_UNKNOWN, nth);
                const std::int32_t status = to_device ? copy_async(device, at(from), from.size(), by_copies, stream)
                                                      : copy_async(at(to), device, to.size(), by_copies, stream);
                EXPECT_EQ(status, driver.injected() != 0 ? -1000 - CUDA_ERROR_UNKNOWN : FERRY_SUCCESS);
                driver.heal();
                ASSERT_OK(raw().cuStreamSynchronize(stream));
                ASSERT_OK(copy_async(device, at(from), from.size(), FERRY_COPY_BY_STAGING, stream));
                std::fill(to.begin(), to.end(), std::byte{0});
                ASSERT_OK(copy_async(at(to), device, to.size(), FERRY_COPY_NO_KERNELS, stream));
                ASSERT_OK(raw().cuStreamSynchronize(stream));
                ASSERT_TRUE(to == from);
            }
    counted = open_or_fail(driver.options());
    driver.fail("cuStreamBatchMemOp", CUDA_ERROR_NOT_SUPPORTED, 1, true);
    ASSERT_OK(copy_async(device, at(from), from.size(), FERRY_COPY_NO_KERNELS, stream)) << "the driver copies";
    driver.heal();
}

} // namespace
} // namespace ferry::test
