// Staged copies without a kernel: copy-engine copies replace the kernel. Stream memory operations order them with the
// workers.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <deque>
#include <optional>
#include <thread>
#include <utility>

#include "base/rounding.h"
#include "ferry/ferry_file.h"
#include "kernels/parameters.h"
#include "support/counted_test.h"
#include "support/gate.h"
#include "support/how.h"
#include "support/opened_file.h"
#include "support/raw_objects.h"
#include "support/replaced_call.h"
#include "support/stuck_pages.h"
#include "support/temporary_file.h"
#include "support/waiting_free.h"

namespace ferry::test {
namespace {

constexpr how by_copies = by_staging | no_kernels;

std::uint64_t at(const bytes &memory) { return reinterpret_cast<std::uintptr_t>(memory.data()); }

ferry_copy_desc line(std::uint64_t to, std::uint64_t from, std::uint64_t size) {
    ferry_copy_desc copy = {};
    copy.source.address = from;
    copy.destination.address = to;
    copy.width = size;
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
    std::int32_t copy_async(std::uint64_t to, std::uint64_t from, std::uint64_t size, const how &options,
                            CUstream on) const {
        const ferry_copy_desc copy = line(to, from, size);
        return ferry_copy_async(counted.get(), &copy, options, on, nullptr, nullptr);
    }
    ferry_explanation explain(const ferry_copy_desc &copy, const how &options) const {
        ferry_explanation told = {};
        told.struct_size = sizeof told;
        EXPECT_OK(ferry_copy_explain_async(counted.get(), &copy, options, stream, &told, nullptr));
        return told;
    }
};

TEST_F(without_kernels, calls_return_while_their_stream_is_blocked_and_copies_run_in_order) {
    const bytes from = random_bytes(3 << 20, 1);
    bytes to(from.size());
    const device_memory device(from.size());
    ASSERT_OK(ferry_staging_prepare(counted.get(), 0, nullptr));
    driver.reset_counts();
    {
        gate held(stream);
        const ferry_explanation told = explain(line(device, at(from), from.size()), no_kernels);
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

TEST_F(without_kernels, few_driver_copies_move_many_chunks_even_after_kernels_used_the_slots) {
    ASSERT_OK(ferry_staging_prepare(counted.get(), 0, nullptr));
    constexpr std::size_t size = (32 << 20) + 5, chunks = 65;
    const device_memory device(size);
    for (int round = 0; round < 3; ++round) {
        const bytes from = random_bytes(size, static_cast<std::uint64_t>(round));
        bytes to(size);
        driver.reset_counts();
        ASSERT_OK(copy_async(device, at(from), size, by_copies, stream));
        ASSERT_OK(raw().cuStreamSynchronize(stream)); // else the slots may be taken
        EXPECT_LE(driver.calls("cuMemcpy3DAsync"), chunks * 2 / 5) << round;
        driver.reset_counts();
        ASSERT_OK(copy_async(at(to), device, size, by_copies, stream));
        ASSERT_OK(raw().cuStreamSynchronize(stream));
        EXPECT_LE(driver.calls("cuMemcpy3DAsync"), chunks * 2 / 5) << round;
        EXPECT_TRUE(to == from) << round;
        ASSERT_OK(copy_async(at(to), device, size, by_staging, stream));
        ASSERT_OK(raw().cuStreamSynchronize(stream));
    }
}

// The second copy of a batch has other slots than the first, or waits for them.
TEST_F(without_kernels, batches_of_boxes_and_lines_arrive) {
    ferry_options options = driver.options();
    options.staging_bytes = 1 << 20; // slots of 128 KiB
    counted = open_or_fail(options);
    ASSERT_OK(ferry_staging_prepare(counted.get(), 0, nullptr));
    constexpr std::size_t width = 200'000, pitch = 300'000, rows = 12, line_size = 3'000'000;
    const bytes from = random_bytes(rows * pitch + line_size, 3);
    const device_memory device(from.size());
    const std::uint64_t base = device;
    const auto box = [&](std::uint64_t to, std::uint64_t in) {
        ferry_copy_desc copy = line(to, in, width);
        copy.height = rows;
        copy.source.row_pitch = copy.destination.row_pitch = pitch;
        return copy;
    };
    const std::uint64_t behind = rows * pitch;
    bytes to(from.size());
    const ferry_copy_desc up[] = {box(base, at(from)), line(base + behind, at(from) + behind, line_size)};
    const ferry_copy_desc down[] = {line(at(to) + behind, base + behind, line_size), box(at(to), base)};
    for (int round = 0; round < 4; ++round) {
        ASSERT_OK(raw().cuMemsetD8(device, 0, from.size()));
        ASSERT_OK(raw().cuCtxSynchronize());
        std::fill(to.begin(), to.end(), std::byte{1});
        ASSERT_OK(ferry_copy_batch_async(counted.get(), up, 2, no_kernels, stream, nullptr, nullptr));
        ASSERT_OK(ferry_copy_batch_async(counted.get(), down, 2, no_kernels, stream, nullptr, nullptr));
        ASSERT_OK(raw().cuStreamSynchronize(stream));
        bytes expected = from;
        for (std::size_t row = 0; row < rows; ++row)
            std::fill_n(&expected[row * pitch + width], pitch - width, std::byte{1});
        EXPECT_TRUE(to == expected) << round;
    }
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
        ASSERT_OK(copy_async(device, at(from), size, round % 2 ? by_copies : by_staging, stream));
        ASSERT_OK(raw().cuStreamSynchronize(stream)); // else the slots may be taken
        ASSERT_OK(copy_async(at(to), device, size, round % 3 ? by_copies : by_staging, stream));
        ASSERT_OK(raw().cuStreamSynchronize(stream));
        ASSERT_TRUE(to == from) << round;
    }
}

// A free that waits for all work holds the driver's lock, even while another thread enqueues copies.
TEST_F(without_kernels, frees_in_other_threads_do_not_block_copies) {
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
                EXPECT_OK(copy_async(device, at(from), size, no_kernels, on));
                EXPECT_OK(copy_async(at(to), device, size, no_kernels, on));
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

TEST_F(without_kernels, copies_on_32_streams_at_the_same_time_arrive) {
    constexpr std::size_t count = 32, size = 700'001;
    std::deque<test_stream> streams(count);
    const device_memory device(count * size);
    const bytes from = random_bytes(count * size, 1);
    bytes to(from.size());
    for (std::size_t i = 0; i < count; ++i)
        ASSERT_OK(copy_async(device + i * size, at(from) + i * size, size, no_kernels, streams[i]));
    for (std::size_t i = 0; i < count; ++i)
        ASSERT_OK(copy_async(at(to) + i * size, device + i * size, size, no_kernels, streams[i]));
    for (const test_stream &one : streams)
        ASSERT_OK(raw().cuStreamSynchronize(one));
    EXPECT_TRUE(to == from);
}

// Slots are reserved when a copy is enqueued. If no slot is free, the driver copies, or a forced copy is refused.
TEST_F(without_kernels, copies_without_a_free_slot_take_another_route) {
    ferry_options options = driver.options();
    options.staging_bytes = 8192; // two slots, one of which kernels need
    counted = open_or_fail(options);
    const bytes from = random_bytes(100'000, 1);
    const device_memory device(from.size());
    const test_stream other;
    const device_memory elsewhere(from.size());
    gate held(other);
    ASSERT_OK(copy_async(elsewhere, at(from), from.size(), by_copies, other)); // takes the other slot
    constexpr how read = by_copies | read_in_the_call;                         // the caller would help
    EXPECT_EQ(copy_async(device, at(from), from.size(), by_copies, stream), FERRY_ERROR_LIMIT);
    EXPECT_EQ(copy_async(device, at(from), from.size(), read, stream), FERRY_ERROR_LIMIT);
    ferry_ticket *ticket = nullptr;
    const ferry_copy_desc copy = line(device, at(from), from.size());
    ASSERT_OK(ferry_copy_async(counted.get(), &copy, no_kernels, stream, &ticket, nullptr));
    EXPECT_OK(ferry_ticket_wait(ticket, FERRY_NO_TIMEOUT, nullptr));
    EXPECT_OK(ferry_ticket_release(ticket, nullptr));
    bytes to(from.size());
    ASSERT_OK(raw().cuMemcpyDtoH(to.data(), device, to.size()));
    EXPECT_TRUE(to == from);
}

// A program can submit the whole batch again without the forced route.
TEST_F(without_kernels, a_batch_by_a_forced_route_fails_while_no_slot_is_free_and_can_be_repeated_without_that_route) {
    ferry_options of_instance = driver.options();
    of_instance.staging_bytes = 8192; // two slots, one of which kernels need
    counted = open_or_fail(of_instance);
    constexpr std::size_t half = 50'000, size = 2 * half;
    const bytes from = random_bytes(size, 3);
    const device_memory device(size), elsewhere(size);
    // The two copies are merged, so that one slot is enough.
    const ferry_copy_desc copies[] = {line(device, at(from), half), line(device + half, at(from) + half, half)};
    const auto submit = [&](bool is_prepared, const how &options) {
        ferry_error_info error = new_error();
        if (!is_prepared) return ferry_copy_batch_async(counted.get(), copies, 2, options, stream, nullptr, &error);
        ferry_prepared *prepared = nullptr;
        EXPECT_OK(ferry_prepared_create(counted.get(), copies, 2, options, stream, &prepared, nullptr));
        const std::int32_t status = ferry_prepared_launch(prepared, nullptr, stream, nullptr, &error);
        EXPECT_OK(ferry_prepared_destroy(prepared, nullptr));
        EXPECT_EQ(error.status, status);
        return status;
    };
    for (const bool is_prepared : {false, true}) {
        SCOPED_TRACE(is_prepared ? "prepared" : "not prepared");
        ASSERT_OK(raw().cuMemsetD8(device, 0, size));
        ASSERT_OK(raw().cuCtxSynchronize());
        const test_stream other;
        {
            const gate held(other);
            ASSERT_OK(copy_async(elsewhere, at(from), size, by_copies, other)); // takes the other slot
            EXPECT_EQ(submit(is_prepared, by_copies), FERRY_ERROR_LIMIT);
            ASSERT_OK(submit(is_prepared, no_kernels));
            ASSERT_OK(raw().cuStreamSynchronize(stream));
            EXPECT_TRUE(read_back(device, size) == from);
        }
        ASSERT_OK(raw().cuStreamSynchronize(other));
        EXPECT_OK(submit(is_prepared, by_copies)) << "the slot is free again";
        ASSERT_OK(raw().cuStreamSynchronize(stream));
    }
}

TEST_F(without_kernels, a_batch_that_fails_for_lack_of_slots_has_enqueued_the_copies_before_the_failed_one) {
    ferry_options of_instance = driver.options();
    of_instance.staging_bytes = 16384; // four slots, two of which kernels need
    counted = open_or_fail(of_instance);
    constexpr std::size_t half = 50'000, size = 2 * half;
    const bytes from = random_bytes(size, 4);
    const device_memory device(size), elsewhere(size);
    // In this order the two copies are not merged.
    const ferry_copy_desc copies[] = {line(device + half, at(from), half), line(device, at(from) + half, half)};
    ASSERT_OK(raw().cuMemsetD8(device, 0, size));
    ASSERT_OK(raw().cuCtxSynchronize());
    const test_stream other;
    {
        gate held(other);
        held.hold(stream);
        ASSERT_OK(copy_async(elsewhere, at(from), size, by_copies, other)); // takes one slot, the first copy the other
        EXPECT_EQ(ferry_copy_batch_async(counted.get(), copies, 2, by_copies, stream, nullptr, nullptr),
                  FERRY_ERROR_LIMIT);
    }
    ASSERT_OK(raw().cuStreamSynchronize(other));
    ASSERT_OK(raw().cuStreamSynchronize(stream));
    const bytes found = read_back(device, size);
    EXPECT_EQ(std::memcmp(&found[half], &from[0], half), 0);
    EXPECT_TRUE(std::equal(found.begin(), found.begin() + half, bytes(half).begin()));
}

// The parts before and behind the registered page need a slot each, but only one slot is free.
TEST_F(without_kernels, a_copy_whose_first_part_is_enqueued_succeeds_although_no_slot_is_free) {
    ferry_options options = driver.options();
    options.staging_bytes = 8192;
    counted = open_or_fail(options);
    constexpr std::size_t page = 4096, size = 3 * page;
    bytes memory(size + page);
    std::byte *const pages = memory.data() + (page - at(memory) % page) % page;
    ASSERT_OK(ferry_host_register(counted.get(), pages + page, page, 0, nullptr));
    const device_memory device(size);
    for (const bool is_up : {true, false})
        for (unsigned char value = 1; value <= 3; ++value) {
            std::fill_n(pages, size, std::byte{is_up ? value : static_cast<unsigned char>(0)});
            ASSERT_OK(raw().cuMemsetD8(device, is_up ? 0 : value, size));
            ASSERT_OK(raw().cuCtxSynchronize());
            gate held(stream);
            std::thread opener([&] {
                std::this_thread::sleep_for(std::chrono::milliseconds(50));
                held.let_go();
            });
            const std::uint64_t host = reinterpret_cast<std::uintptr_t>(pages);
            EXPECT_OK(
                copy_async(is_up ? device.address : host, is_up ? host : device.address, size, by_copies, stream));
            opener.join();
            ASSERT_OK(raw().cuStreamSynchronize(stream));
            const bytes expected(size, std::byte{value});
            EXPECT_TRUE((is_up ? read_back(device, size) : bytes(pages, pages + size)) == expected);
        }
    EXPECT_OK(ferry_host_unregister(counted.get(), pages + page, nullptr));
}

TEST_F(without_kernels, the_driver_makes_copies_of_too_many_chunks) {
    ferry_options options = driver.options();
    options.staging_bytes = 1 << 20;
    const instance_owner instance = open_or_fail(options);
    const bytes sent = random_bytes(100 << 20, 9);
    const device_memory device(sent.size());
    const ferry_copy_desc copy = line(device, at(sent), sent.size());
    for (const bool has_ticket : {false, true}) {
        ASSERT_OK(raw().cuMemsetD8(device, 0, sent.size()));
        ASSERT_OK(raw().cuCtxSynchronize());
        ferry_ticket *ticket = nullptr;
        ASSERT_OK(ferry_copy_async(instance.get(), &copy, no_kernels, stream, has_ticket ? &ticket : nullptr, nullptr));
        if (has_ticket) {
            EXPECT_OK(ferry_ticket_wait(ticket, FERRY_NO_TIMEOUT, nullptr));
            EXPECT_OK(ferry_ticket_release(ticket, nullptr));
        }
        ASSERT_OK(raw().cuStreamSynchronize(stream));
        EXPECT_TRUE(read_back(device, sent.size()) == sent) << has_ticket;
    }
    EXPECT_EQ(ferry_copy_async(instance.get(), &copy, by_copies, stream, nullptr, nullptr), FERRY_ERROR_ROUTE);
}

TEST_F(without_kernels, calls_that_wait_stage_too_many_chunks_in_parts) {
    ferry_options options = driver.options();
    options.staging_bytes = 256 << 10; // 512 chunks of 32 KiB: 16 MiB
    counted = open_or_fail(options);
    ASSERT_OK(ferry_staging_prepare(counted.get(), 0, nullptr));
    constexpr std::size_t pitch = 50'000, width = 40'000, rows = 900;
    const bytes sent = random_bytes(rows * pitch, 9);
    const device_memory device(sent.size());
    for (const bool is_box : {false, true}) {
        ferry_copy_desc up = line(device, at(sent), sent.size());
        if (is_box) {
            up.width = width;
            up.height = rows;
            up.source.row_pitch = up.destination.row_pitch = pitch;
        }
        for (const how &call : {how(), read_in_the_call}) {
            SCOPED_TRACE(testing::Message() << is_box << ", " << call);
            bytes received(sent.size());
            ferry_copy_desc down = up;
            std::swap(down.source, down.destination);
            down.destination.address = at(received);
            ASSERT_OK(raw().cuMemsetD8(device, 0, sent.size()));
            ASSERT_OK(raw().cuCtxSynchronize());
            driver.reset_counts();
            if (call == how()) {
                ASSERT_OK(ferry_copy(counted.get(), &up, by_copies, nullptr));
                ASSERT_OK(ferry_copy(counted.get(), &down, by_copies, nullptr));
            } else {
                ASSERT_OK(ferry_copy_async(counted.get(), &up, by_copies | call, stream, nullptr, nullptr));
                ASSERT_OK(
                    ferry_copy_async(counted.get(), &down, by_copies | written_in_the_call, stream, nullptr, nullptr));
                ASSERT_OK(raw().cuStreamSynchronize(stream));
            }
            EXPECT_EQ(driver.calls("cuLaunchKernel"), 0);
            for (std::size_t i = 0; i < sent.size(); ++i) {
                const bool is_copied = !is_box || i % pitch < width;
                ASSERT_EQ(received[i], is_copied ? sent[i] : std::byte{0}) << i;
            }
        }
    }
}

#if defined(__linux__)
TEST_F(without_kernels, few_driver_copies_move_a_file_and_boxes_of_a_file) {
    constexpr std::size_t pitch = 5000, width = 4000, rows = 4000, size = rows * pitch, chunks = 31;
    const bytes from = random_bytes(size, 11);
    const temporary_file file(from), other{bytes(size)};
    const opened_file in = open_file_as(counted.get(), file.path());
    const opened_file out = open_file_as(counted.get(), other.path(), {FERRY_FILE_READ | FERRY_FILE_WRITE});
    const device_memory device(size);
    ASSERT_OK(ferry_staging_prepare(counted.get(), 0, nullptr));
    for (const bool is_box : {false, true})
        for (const bool waits : {false, true}) {
            SCOPED_TRACE(testing::Message() << (is_box ? "a box" : "all bytes") << (waits ? ", waits" : ""));
            other.write(bytes(size));
            const std::uint64_t row_pitch = is_box ? pitch : 0;
            const std::uint64_t copied_width = is_box ? width : size, copied_rows = is_box ? rows : 1;
            ferry_copy_desc read, write;
            const ferry_place on_device = place_on_device(device), from_file = place_in(in, 0, row_pitch),
                              to_file = place_in(out, 0, row_pitch);
            ferry_copy_desc_set(&read, &on_device, &from_file, copied_width, copied_rows, 1);
            ferry_copy_desc_set(&write, &to_file, &on_device, copied_width, copied_rows, 1);
            for (const ferry_copy_desc &copy : {read, write}) {
                driver.reset_counts();
                if (waits) {
                    ASSERT_OK(ferry_copy(counted.get(), &copy, no_kernels, nullptr));
                } else {
                    ferry_ticket *ticket = nullptr;
                    ASSERT_OK(ferry_copy_async(counted.get(), &copy, no_kernels, stream, &ticket, nullptr));
                    EXPECT_OK(ferry_ticket_wait(ticket, FERRY_NO_TIMEOUT, nullptr));
                    EXPECT_OK(ferry_ticket_release(ticket, nullptr));
                    ASSERT_OK(raw().cuStreamSynchronize(stream));
                }
                EXPECT_GT(driver.calls("cuMemcpy3DAsync"), 0);
                EXPECT_LT(driver.calls("cuMemcpy3DAsync"), chunks * 2 / 3);
            }
            bytes expected = from;
            for (std::size_t row = 0; is_box && row < rows; ++row)
                std::fill_n(&expected[row * pitch + width], pitch - width, std::byte{0});
            EXPECT_TRUE(other.read() == expected);
        }
}
#endif

// The driver reads a short row of pinned memory inside the call if the stream is idle. Here the stream waits.
TEST_F(without_kernels, a_short_last_chunk_is_not_read_before_it_is_filled) {
    ferry_options options = driver.options();
    options.staging_threads = 1; // stuck in the first chunk
    counted = open_or_fail(options);
    ASSERT_OK(ferry_staging_prepare(counted.get(), 0, nullptr));
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
    const auto copy_rows = [&](std::uint64_t to, std::uint64_t in, bool have_gaps) {
        ferry_copy_desc copy = line(to, in, from.size());
        if (have_gaps) { // so that each chunk of a group is a copy
            copy.width = 999;
            copy.height = from.size() / 1000;
            copy.source.row_pitch = copy.destination.row_pitch = 1000;
        }
        return ferry_copy_async(counted.get(), &copy, by_copies, stream, nullptr, nullptr);
    };
    for (const auto &[entry, have_gaps] :
         {std::pair("cuStreamBatchMemOp", false), {"cuMemcpy3DAsync", false}, {"cuMemcpy3DAsync", true}})
        for (const bool to_device : {true, false})
            for (int nth = 1; nth <= 14; ++nth) {
                SCOPED_TRACE(testing::Message() << entry << ", call " << nth << (to_device ? ", to the device" : "")
                                                << (have_gaps ? ", with gaps" : ""));
                counted = open_or_fail(driver.options());
                ASSERT_OK(ferry_staging_prepare(counted.get(), 0, nullptr));
                bytes to = from;
                driver.reset_counts();
                driver.fail(entry, CUDA_ERROR_UNKNOWN, nth);
                const std::int32_t status =
                    to_device ? copy_rows(device, at(from), have_gaps) : copy_rows(at(to), device, have_gaps);
                EXPECT_EQ(status, driver.injected() != 0 ? -1000 - CUDA_ERROR_UNKNOWN : FERRY_SUCCESS);
                driver.heal();
                ASSERT_OK(raw().cuStreamSynchronize(stream));
                ASSERT_OK(copy_async(device, at(from), from.size(), by_staging, stream));
                std::fill(to.begin(), to.end(), std::byte{0});
                ASSERT_OK(copy_async(at(to), device, to.size(), no_kernels, stream));
                ASSERT_OK(raw().cuStreamSynchronize(stream));
                ASSERT_TRUE(to == from);
            }
    counted = open_or_fail(driver.options());
    driver.fail("cuStreamBatchMemOp", CUDA_ERROR_NOT_SUPPORTED, 1, true);
    ASSERT_OK(copy_async(device, at(from), from.size(), no_kernels, stream)) << "the driver copies";
    driver.heal();
}

// A driver that refuses the waits of a copy's second group once two threads are in pages of the source that do not
// arrive. The pages arrive 50 ms later.
struct refusal_while_stuck {
    static inline stuck_pages *source = nullptr;
    static inline int calls = 0;
    static inline std::thread releasing;

    static CUresult CUDAAPI refuse(CUstream stream, unsigned count, CUstreamBatchMemOpParams *all, unsigned flags) {
        const resolver real = raw_entry_points();
        const auto operate =
            reinterpret_cast<PFN_cuStreamBatchMemOp_v11070>(real.get_proc(real.user, "cuStreamBatchMemOp", 11070));
        if (!source || ++calls != 3) return operate(stream, count, all, flags);
        while (stuck_pages::waiting() < 2)
            std::this_thread::yield();
        releasing = std::thread([] {
            std::this_thread::sleep_for(std::chrono::milliseconds(50));
            source->release();
        });
        return CUDA_ERROR_UNKNOWN;
    }
};

// The program may free the source when the stream is idle, and the stream does not wait for the second group.
TEST_F(without_kernels, a_refused_call_returns_after_threads_have_left_the_source) {
    replaced_call waits{"cuStreamBatchMemOp", reinterpret_cast<void *>(refusal_while_stuck::refuse)};
    ferry_options options = waits.options();
    options.staging_bytes = 256 << 10; // slots of 32 KiB
    options.staging_threads = 2;
    const instance_owner instance = open_or_fail(options);
    ASSERT_OK(ferry_staging_prepare(instance.get(), 0, nullptr));
    constexpr std::size_t size = 300'000;
    const device_memory device(size);
    stuck_pages source(1, round_up(size, page_size()), 3);
    refusal_while_stuck::source = &source;
    refusal_while_stuck::calls = 0;
    const ferry_copy_desc copy = line(device, reinterpret_cast<std::uintptr_t>(source.data), size);
    EXPECT_NE(ferry_copy_async(instance.get(), &copy, by_copies, stream, nullptr, nullptr), 0);
    EXPECT_EQ(stuck_pages::waiting(), 0);
    refusal_while_stuck::source = nullptr;
    if (refusal_while_stuck::releasing.joinable()) refusal_while_stuck::releasing.join();
    EXPECT_OK(raw().cuStreamSynchronize(stream));
}

// ---- Kernels that do not start

// A driver that starts no kernel of a staged copy while it is full, like a device whose SMs are occupied.
class full_device {
public:
    explicit full_device(const ferry_options &inner) : inner_(inner) { current_ = this; }
    ~full_device() { current_ = nullptr; }
    full_device(const full_device &) = delete;
    full_device &operator=(const full_device &) = delete;

    ferry_options options() {
        ferry_options options = inner_;
        options.get_proc_user = this;
        options.get_proc = [](void *self, const char *name, std::int32_t version) -> void * {
            full_device &mine = *static_cast<full_device *>(self);
            void *const found = mine.inner_.get_proc(mine.inner_.get_proc_user, name, version);
            if (std::strcmp(name, "cuLaunchKernel") != 0) return found;
            mine.launch_ = reinterpret_cast<PFN_cuLaunchKernel_v4000>(found);
            return reinterpret_cast<void *>(&launch);
        };
        return options;
    }
    void fill() { is_full_ = true; }
    // Now the kernels that were launched run. Any thread may call this function.
    void make_room() {
        is_full_ = false;
        for (late_launch &one : late_) {
            void *parameters[] = {&one.given};
            const made_current context(one.context);
            EXPECT_OK(launch_(one.function, one.blocks, 1, 1, one.threads, 1, 1, 0, one.stream, parameters, nullptr));
        }
        late_.clear();
    }
    int launches() const { return launches_; }

private:
    struct late_launch {
        CUcontext context;
        CUfunction function;
        unsigned blocks, threads;
        CUstream stream;
        gpu::ring_parameters given;
    };
    static CUresult CUDAAPI launch(CUfunction function, unsigned blocks, unsigned grid_y, unsigned grid_z,
                                   unsigned threads, unsigned block_y, unsigned block_z, unsigned shared,
                                   CUstream stream, void **parameters, void **extra) {
        full_device &mine = *current_;
        ++mine.launches_;
        if (!mine.is_full_)
            return mine.launch_(function, blocks, grid_y, grid_z, threads, block_y, block_z, shared, stream, parameters,
                                extra);
        CUcontext context = nullptr;
        EXPECT_OK(raw().cuCtxGetCurrent(&context));
        mine.late_.push_back(
            {context, function, blocks, threads, stream, *static_cast<const gpu::ring_parameters *>(parameters[0])});
        return CUDA_SUCCESS;
    }

    static full_device *current_;
    const ferry_options inner_;
    PFN_cuLaunchKernel_v4000 launch_ = nullptr;
    std::vector<late_launch> late_;
    bool is_full_ = false;
    int launches_ = 0;
};
full_device *full_device::current_ = nullptr;

class on_a_full_device : public without_kernels {
protected:
    void SetUp() override {
        without_kernels::SetUp();
        if (IsSkipped()) return;
        counted = open_or_fail(device.options());
        ASSERT_OK(ferry_staging_prepare(counted.get(), 0, nullptr));
        memory.emplace(from.size());
        there = *memory;
    }
    void TearDown() override {
        device.make_room();
        memory.reset();
        counted.reset();
        without_kernels::TearDown();
    }

    full_device device{driver.options()};
    const bytes from = random_bytes(3'000'001, 5);
    bytes to = bytes(from.size());
    std::optional<device_memory> memory;
    CUdeviceptr there = 0;
};

TEST_F(on_a_full_device, asynchronous_copies_arrive) {
    device.fill();
    for (const how &options : {how(), by_staging, read_in_the_call})
        for (int round = 0; round < 3; ++round) {
            std::fill(to.begin(), to.end(), std::byte{0});
            ASSERT_OK(copy_async(there, at(from), from.size(), options, stream));
            ASSERT_OK(raw().cuStreamSynchronize(stream));
            ASSERT_OK(copy_async(at(to), there, to.size(), options == by_staging ? by_staging : how(), stream));
            ASSERT_OK(raw().cuStreamSynchronize(stream));
            ASSERT_TRUE(to == from) << options << ", round " << round;
        }
    EXPECT_GT(device.launches(), 0);
}

TEST_F(on_a_full_device, synchronous_copies_and_tickets_arrive) {
    device.fill();
    const ferry_copy_desc up = line(there, at(from), from.size()), down = line(at(to), there, to.size());
    ASSERT_OK(ferry_copy(counted.get(), &up, nullptr, nullptr));
    ASSERT_OK(ferry_copy(counted.get(), &down, nullptr, nullptr));
    ASSERT_TRUE(to == from);
    std::fill(to.begin(), to.end(), std::byte{0});
    ferry_ticket *ticket = nullptr;
    ASSERT_OK(ferry_copy_async(counted.get(), &down, nullptr, stream, &ticket, nullptr));
    EXPECT_OK(ferry_ticket_wait(ticket, FERRY_NO_TIMEOUT, nullptr));
    EXPECT_OK(ferry_ticket_release(ticket, nullptr));
    EXPECT_TRUE(to == from);
}

TEST_F(on_a_full_device, batches_arrive) {
    device.fill();
    constexpr std::size_t count = 30, size = 100'000;
    std::vector<ferry_copy_desc> copies;
    for (std::size_t i = 0; i < count; ++i)
        copies.push_back(line(there + i * size, at(from) + i * size, size));
    ASSERT_OK(ferry_copy_batch_async(counted.get(), copies.data(), count, nullptr, stream, nullptr, nullptr));
    ASSERT_OK(raw().cuStreamSynchronize(stream));
    ASSERT_OK(raw().cuMemcpyDtoH(to.data(), there, count * size));
    EXPECT_EQ(std::memcmp(to.data(), from.data(), count * size), 0);
}

#if defined(__linux__)
TEST_F(on_a_full_device, a_file_is_copied_even_if_other_copies_have_the_slots) {
    ferry_options options = device.options();
    options.staging_bytes = 8192; // two slots, of which copies without a kernel may have one
    counted = open_or_fail(options);
    ASSERT_OK(ferry_staging_prepare(counted.get(), 0, nullptr));
    const temporary_file file(from);
    ferry_file *opened = nullptr;
    ASSERT_OK(ferry_file_open(counted.get(), file.path().c_str(), nullptr, &opened, nullptr));
    const test_stream other;
    gate before(other);
    ASSERT_OK(copy_async(at(to), there, 5000, no_kernels, other));
    device.fill();
    ferry_place in_file, on_device;
    ferry_copy_desc copy;
    ferry_place_file(&in_file, opened, 0);
    ferry_place_device(&on_device, 0, there);
    for (const std::uint64_t size : {std::uint64_t{20'000}, std::uint64_t{from.size()}}) { // the second in many parts
        ferry_copy_desc_set(&copy, &on_device, &in_file, size, 1, 1);
        ferry_error_info error = new_error();
        EXPECT_OK(ferry_copy(counted.get(), &copy, nullptr, &error)) << describe(error);
        EXPECT_EQ(bytes(from.begin(), from.begin() + static_cast<std::ptrdiff_t>(size)), read_back(*memory, size));
    }
    before.open();
    ferry_file_close(opened);
}
#endif

TEST_F(on_a_full_device, copies_use_kernels_again_once_there_is_room) {
    device.fill();
    ASSERT_OK(copy_async(there, at(from), from.size(), {}, stream));
    ASSERT_OK(raw().cuStreamSynchronize(stream));
    const auto is_by_kernel = [&] { return explain(line(there, at(from), from.size()), {}).max_sms != 0; };
    EXPECT_FALSE(is_by_kernel());
    device.make_room();
    const auto begun = std::chrono::steady_clock::now();
    while (!is_by_kernel()) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
        ASSERT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(30));
    }
    const int before = device.launches();
    ASSERT_OK(copy_async(there, at(from), from.size(), {}, stream));
    ASSERT_OK(raw().cuMemcpyDtoHAsync(to.data(), there, to.size(), stream));
    ASSERT_OK(raw().cuStreamSynchronize(stream));
    EXPECT_TRUE(to == from);
    EXPECT_EQ(device.launches(), before + 2) << "one shows that there is room";
}

// The kernel runs on another stream. Later work on the program's stream must wait for it.
TEST_F(on_a_full_device, later_work_waits_for_a_copy_whose_pages_arrive_late) {
    stuck_pages stuck(1, from.size(), 3);
    ASSERT_OK(copy_async(there, reinterpret_cast<std::uintptr_t>(stuck.data), from.size(), {}, stream));
    const device_memory behind(from.size());
    ASSERT_OK(raw().cuMemcpyDtoDAsync(behind, there, from.size(), stream));
    EXPECT_EQ(raw().cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
    stuck.release();
    ASSERT_OK(raw().cuStreamSynchronize(stream));
    ASSERT_OK(raw().cuMemcpyDtoH(to.data(), behind, to.size()));
    EXPECT_EQ(std::memcmp(to.data(), stuck.data, to.size()), 0);
}

} // namespace
} // namespace ferry::test
