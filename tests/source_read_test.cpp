// When an asynchronous call returns, the pageable source may be written again (FERRY_SOURCE_ORDER_CALL), and the pageable
// destination is complete (FERRY_COPY_DESTINATION_WRITTEN).
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "support/captured_graph.h"
#include "support/counted_test.h"
#include "support/gate.h"
#include "support/how.h"
#include "support/piece_batch.h"
#include "support/piece_lists.h"
#include "support/raw_objects.h"
#include "support/test_place.h"

namespace ferry::test {
namespace {

constexpr std::uint64_t MiB = 1 << 20;

class source_read : public counted_test {
protected:
    void SetUp() override {
        counted_test::SetUp();
        if (has_kernels()) {
            ASSERT_OK(ferry_staging_prepare(counted.get(), 0, nullptr));
        }
        // The buffers' memory is allocated now: allocating may wait for work that a gate holds.
        const device_memory target(MiB);
        const bytes from(MiB);
        gate held(stream);
        std::thread opener([&] { held.let_go(); });
        EXPECT_OK(enqueue(describe(target, from.data(), MiB)));
        opener.join();
        EXPECT_OK(raw().cuStreamSynchronize(stream));
    }
    static ferry_copy_desc describe(std::uint64_t to, const void *from, std::uint64_t size) {
        ferry_copy_desc copy = {};
        ferry_place_host(&copy.source, from);
        copy.destination.address = to;
        copy.width = size;
        return copy;
    }
    std::int32_t enqueue(const ferry_copy_desc &copy, const how &options = read_in_the_call) {
        return ferry_copy_async(counted.get(), &copy, options, stream, nullptr, nullptr);
    }
    ferry_explanation explain(const ferry_copy_desc &copy, const how &options = read_in_the_call) {
        ferry_explanation told = {};
        told.struct_size = sizeof told;
        EXPECT_OK(ferry_copy_explain_async(counted.get(), &copy, options, stream, &told, nullptr));
        return told;
    }
};

TEST_F(source_read, up_to_1_mib_after_other_work_is_read_in_a_call_that_does_not_wait) {
    for (const std::uint64_t size : {std::uint64_t{1}, std::uint64_t{4096}, std::uint64_t{70'001}, MiB}) {
        SCOPED_TRACE(size);
        const bytes data = random_bytes(size, size);
        const device_memory target(size);
        bytes from = data;
        {
            gate held(stream);
            const ferry_copy_desc copy = describe(target, from.data(), size);
            const ferry_explanation told = explain(copy);
            const bool is_short = size <= 4096; // the driver copies it into its commands
            EXPECT_EQ(told.route, is_short ? FERRY_ROUTE_DRIVER : FERRY_ROUTE_BUFFERED);
            EXPECT_EQ(told.blocks, FERRY_BLOCKS_NO);
            EXPECT_STREQ(told.driver_call, "cuMemcpy3DAsync");
            char text[256];
            ferry_explanation_format(&told, text, sizeof text);
            const std::string route = is_short ? "driver route" : "buffered route";
            EXPECT_EQ(std::string(text).find(route + ": cuMemcpy3DAsync, pageable to device 0"), 0u) << text;
            ASSERT_OK(enqueue(copy));
            std::fill(from.begin(), from.end(), std::byte{0});
        }
        EXPECT_OK(raw().cuStreamSynchronize(stream));
        EXPECT_TRUE(read_back(target, size) == data);
    }
}

// Synchronous calls are always in the order of the legacy stream.
TEST_F(source_read, synchronous_calls_read_after_earlier_work_has_written_the_source) {
    constexpr std::uint64_t size = 70'000;
    struct written {
        bytes source = bytes(size);
        const bytes data = random_bytes(size, 9);
    };
    const device_memory target(size);
    const std::uint64_t to = target, first = size / 2;
    for (const int form : {0, 1, 2}) { // single, batch, pieces
        SCOPED_TRACE(form);
        written memory;
        const auto write = [](void *argument) {
            auto *const later = static_cast<written *>(argument);
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
            std::memcpy(later->source.data(), later->data.data(), size);
        };
        const std::byte *const from = memory.source.data();
        const ferry_copy_desc copies[] = {describe(to, from, first), describe(to + first, from + first, size - first)};
        piece_batch pieces;
        for (const ferry_copy_desc &copy : copies)
            pieces.add(copy.destination.address, copy.source.address, copy.width);
        ASSERT_OK(raw().cuLaunchHostFunc(nullptr, write, &memory));
        if (form == 0)
            for (const ferry_copy_desc &copy : copies)
                EXPECT_OK(ferry_copy(counted.get(), &copy, read_in_the_call, nullptr));
        else if (form == 1)
            EXPECT_OK(ferry_copy_batch(counted.get(), copies, 2, read_in_the_call, nullptr));
        else
            EXPECT_OK(pieces.copy(counted.get(), read_in_the_call));
        EXPECT_TRUE(read_back(target, size) == memory.data);
        EXPECT_OK(raw().cuCtxSynchronize());
    }
}

TEST_F(source_read, every_form_and_destination_gets_the_bytes_of_the_call) {
    const grid box = {.width = 48, .height = 5, .depth = 3};
    for (const place_kind kind : {place_kind::device, place_kind::managed, place_kind::array_3d, place_kind::pool})
        for (const int device : {0, 1})
            for (const int form : {0, 1, 2, 3}) { // single, batch, prepared, with a ticket
                if (device >= device_count() || !can_be(kind, box)) continue;
                SCOPED_TRACE(testing::Message() << name_of(kind) << " of device " << device << ", form " << form);
                test_place target(kind, box, device), source(place_kind::pageable, box);
                target.fill(2);
                source.fill(3);
                ferry_copy_desc copy = {};
                copy.source = source.describe(statement::any);
                copy.destination = target.describe(statement::any);
                copy.width = box.width, copy.height = box.height, copy.depth = box.depth;
                ferry_prepared *prepared = nullptr;
                ferry_ticket *ticket = nullptr;
                if (form == 2) {
                    ASSERT_OK(
                        ferry_prepared_create(counted.get(), &copy, 1, read_in_the_call, stream, &prepared, nullptr));
                }
                const bytes sent = source.picture();
                {
                    gate held(stream);
                    std::thread opener;
                    // In another context's copy the driver may have to wait, so the gate opens by itself.
                    if (device != 0 || form == 2) opener = std::thread([&] { held.let_go(); });
                    EXPECT_OK(form == 1   ? ferry_copy_batch_async(counted.get(), &copy, 1, read_in_the_call, stream,
                                                                   nullptr, nullptr)
                              : form == 2 ? ferry_prepared_launch(prepared, nullptr, stream, nullptr, nullptr)
                                          : ferry_copy_async(counted.get(), &copy, read_in_the_call, stream,
                                                             form == 3 ? &ticket : nullptr, nullptr));
                    source.fill(9);
                    if (opener.joinable()) opener.join();
                }
                EXPECT_OK(raw().cuStreamSynchronize(stream));
                if (ticket) {
                    ferry_ticket_info info = {};
                    info.struct_size = sizeof info;
                    EXPECT_OK(ferry_ticket_get_info(ticket, &info, nullptr));
                    EXPECT_EQ(info.done, 1);
                    EXPECT_EQ(info.bytes_done, box.width * box.height * box.depth);
                    EXPECT_OK(ferry_ticket_release(ticket, nullptr));
                }
                if (prepared) {
                    EXPECT_OK(ferry_prepared_destroy(prepared, nullptr));
                }
                EXPECT_TRUE(target.read() == sent);
            }
}

TEST_F(source_read, more_than_the_buffers_hold_waits_for_the_stream_and_arrives) {
    constexpr int copies = 40; // of 1 MiB, where the buffers hold 32
    const device_memory target(copies * MiB);
    std::vector<bytes> sent;
    for (int i = 0; i < copies; ++i)
        sent.push_back(random_bytes(MiB, i));
    bytes from(MiB);
    {
        gate held(stream);
        std::thread opener([&] {
            std::this_thread::sleep_for(std::chrono::milliseconds(50));
            held.let_go();
        });
        for (int i = 0; i < copies; ++i) {
            from = sent[i];
            EXPECT_OK(enqueue(describe(target + i * MiB, from.data(), MiB)));
        }
        opener.join();
    }
    EXPECT_OK(raw().cuStreamSynchronize(stream));
    for (int i = 0; i < copies; ++i)
        EXPECT_TRUE(read_back(target + i * MiB, MiB) == sent[i]) << i;
}

TEST_F(source_read, a_ticket_reports_the_driver_s_route_if_no_memory_for_the_buffer_can_be_pinned) {
    const instance_owner other = open_or_fail(driver.options()); // which has pinned nothing yet
    const device_memory target(MiB);
    const bytes from = random_bytes(MiB, 3);
    const ferry_copy_desc copy = describe(target, from.data(), MiB);
    for (const char *const entry : {"cuMemHostRegister", "cuMemHostAlloc"})
        driver.fail(entry, CUDA_ERROR_OUT_OF_MEMORY, 1, true);
    ferry_explanation told = new_explanation();
    ferry_ticket *ticket = nullptr;
    {
        gate held(stream);
        EXPECT_OK(ferry_copy_explain_async(other.get(), &copy, read_in_the_call, stream, &told, nullptr));
        std::thread opener([&] { held.let_go(); });
        EXPECT_OK(ferry_copy_async(other.get(), &copy, read_in_the_call, stream, &ticket, nullptr));
        opener.join();
    }
    driver.heal();
    EXPECT_EQ(told.route, FERRY_ROUTE_BUFFERED);
    ferry_ticket_info info = {};
    info.struct_size = sizeof info;
    EXPECT_OK(ferry_ticket_wait(ticket, FERRY_NO_TIMEOUT, nullptr));
    EXPECT_OK(ferry_ticket_get_info(ticket, &info, nullptr));
    EXPECT_EQ(info.route, FERRY_ROUTE_DRIVER);
    EXPECT_OK(ferry_ticket_release(ticket, nullptr));
    EXPECT_TRUE(read_back(target, MiB) == from);
}

TEST_F(source_read, a_large_source_has_been_read_when_the_call_returns) {
    constexpr std::uint64_t size = 9 * MiB + 5;
    const bytes data = random_bytes(size, 1);
    const device_memory target(size);
    for (const how &other : {how(), by_driver, by_staging, no_kernels}) {
        if (other == by_staging && !has_kernels()) continue;
        SCOPED_TRACE(other);
        bytes from = data;
        ASSERT_OK(raw().cuMemsetD8Async(target, 7, size, stream)); // earlier work
        const ferry_copy_desc copy = describe(target, from.data(), size);
        const how options = read_in_the_call | other;
        if (has_kernels() && (other == by_driver || other == by_staging)) {
            const ferry_explanation told = explain(copy, options);
            EXPECT_EQ(told.blocks, FERRY_BLOCKS_UNTIL_STAGED);
        }
        ASSERT_OK(enqueue(copy, options));
        std::fill(from.begin(), from.end(), std::byte{0});
        EXPECT_OK(raw().cuStreamSynchronize(stream)); // the call returns before the copy is complete
        EXPECT_TRUE(read_back(target, size) == data);
    }
}

TEST_F(source_read, is_refused_under_capture_and_captures_nothing) {
    const device_memory target(4096);
    const bytes from = random_bytes(4096, 1);
    const ferry_copy_desc copy = describe(target, from.data(), 4096);
    ferry_prepared *prepared = nullptr;
    ASSERT_OK(ferry_prepared_create(counted.get(), &copy, 1, read_in_the_call, stream, &prepared, nullptr));
    captured_graph graph(stream);
    ferry_error_info info = {};
    info.struct_size = sizeof info;
    expect_refusal(ferry_copy_async(counted.get(), &copy, read_in_the_call, stream, nullptr, &info), info,
                   FERRY_ERROR_CAPTURE, FERRY_SIDE_OPTIONS, FERRY_FIELD_SOURCE_ORDER);
    EXPECT_EQ(ferry_copy_batch_async(counted.get(), &copy, 1, read_in_the_call, stream, nullptr, nullptr),
              FERRY_ERROR_CAPTURE);
    EXPECT_EQ(ferry_prepared_launch(prepared, nullptr, stream, nullptr, nullptr), FERRY_ERROR_CAPTURE);
    graph.end();
    graph.run();
    EXPECT_OK(ferry_prepared_destroy(prepared, nullptr));
}

TEST_F(source_read, has_no_effect_where_the_driver_s_own_calls_guarantee_nothing) {
    const device_memory device(4096);
    bytes to(4096);
    const bytes data = random_bytes(4096, 2);
    ferry_copy_desc there = describe(device, data.data(), 4096), back = {};
    EXPECT_OK(ferry_copy(counted.get(), &there, read_in_the_call, nullptr));
    back.source.address = device;
    ferry_place_host(&back.destination, to.data());
    back.width = 4096;
    ASSERT_OK(enqueue(back));
    EXPECT_OK(raw().cuStreamSynchronize(stream));
    EXPECT_TRUE(to == data);
    ferry_fill_desc fill = {};
    fill.destination.address = device;
    fill.width = 4096;
    fill.pattern_size = 1;
    EXPECT_OK(ferry_fill_async(counted.get(), &fill, read_in_the_call, stream, nullptr, nullptr));
}

TEST_F(source_read, without_buffers_the_driver_reads_the_source) {
    const device_memory target(MiB);
    const bytes data = random_bytes(MiB, 5);
    const instance_owner fresh = open_or_fail(driver.options());
    gate held(stream);
    std::thread opener([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        held.let_go();
    });
    driver.fail("cuMemHostRegister", CUDA_ERROR_OUT_OF_MEMORY, 1, true);
    driver.fail("cuMemHostAlloc", CUDA_ERROR_OUT_OF_MEMORY, 1, true);
    bytes from = data;
    const ferry_copy_desc copy = describe(target, from.data(), MiB);
    EXPECT_OK(ferry_copy_async(fresh.get(), &copy, read_in_the_call, stream, nullptr, nullptr));
    std::fill(from.begin(), from.end(), std::byte{0});
    opener.join();
    EXPECT_OK(raw().cuStreamSynchronize(stream));
    driver.heal();
    EXPECT_TRUE(read_back(target, MiB) == data);
}

TEST_F(source_read, a_destination_that_must_be_written_is_complete_when_the_call_returns) {
    for (const std::uint64_t size : {std::uint64_t{1}, std::uint64_t{70'001}, 5 * MiB})
        for (const bool is_behind_other_work : {false, true})
            for (const int form : {0, 1, 2}) { // single, batch, with a ticket
                SCOPED_TRACE(testing::Message() << size << ", " << is_behind_other_work << ", form " << form);
                const bytes data = random_bytes(size, size);
                const device_memory from(size);
                EXPECT_OK(raw().cuMemcpyHtoD(from, data.data(), size));
                EXPECT_OK(raw().cuCtxSynchronize()); // the stream does not wait for that copy's last bytes
                bytes to(size);
                ferry_copy_desc copy = {};
                copy.source.address = from;
                ferry_place_host(&copy.destination, to.data());
                copy.width = size;
                gate held(stream);
                std::thread opener([&] {
                    if (is_behind_other_work) std::this_thread::sleep_for(std::chrono::milliseconds(2));
                    held.let_go();
                });
                if (!is_behind_other_work) opener.join();
                EXPECT_EQ(explain(copy, written_in_the_call).blocks, FERRY_BLOCKS_UNTIL_DONE);
                ferry_ticket *ticket = nullptr;
                EXPECT_OK(form == 1 ? ferry_copy_batch_async(counted.get(), &copy, 1, written_in_the_call, stream,
                                                             nullptr, nullptr)
                                    : ferry_copy_async(counted.get(), &copy, written_in_the_call, stream,
                                                       form == 2 ? &ticket : nullptr, nullptr));
                EXPECT_TRUE(to == data);
                EXPECT_OK(ferry_ticket_release(ticket, nullptr));
                if (opener.joinable()) opener.join();
                EXPECT_OK(raw().cuStreamSynchronize(stream));
            }
}

TEST_F(source_read, an_instance_may_request_it_and_batches_of_pieces_wait_too) {
    constexpr std::uint64_t count = 40, size = 50'000;
    ferry_options options = driver.options();
    options.copy_options = written_in_the_call;
    const instance_owner asking = open_or_fail(options);
    const bytes data = random_bytes(count * size, 7);
    const device_memory from(data.size());
    EXPECT_OK(raw().cuMemcpyHtoD(from, data.data(), data.size()));
    EXPECT_OK(raw().cuCtxSynchronize());
    std::vector<bytes> to(count, bytes(size));
    std::vector<std::uint64_t> destinations, sources, sizes(count, size);
    for (std::uint64_t i = 0; i < count; ++i) {
        destinations.push_back(reinterpret_cast<std::uintptr_t>(to[i].data()));
        sources.push_back(from + i * size);
    }
    EXPECT_OK(ferry_copy_pieces_async(asking.get(), in_arrays(destinations.data(), sources.data(), sizes.data(), count),
                                      nullptr, stream, nullptr, nullptr));
    for (std::uint64_t i = 0; i < count; ++i)
        EXPECT_EQ(std::memcmp(to[i].data(), data.data() + i * size, size), 0) << i;
    EXPECT_OK(raw().cuStreamSynchronize(stream));
}

TEST_F(source_read, a_destination_cannot_be_written_in_a_call_that_is_captured) {
    if (!has_kernels()) GTEST_SKIP() << "the driver cannot load kernels";
    const device_memory from(2 * MiB);
    bytes to(2 * MiB);
    ferry_copy_desc copy = {};
    copy.source.address = from;
    ferry_place_host(&copy.destination, to.data());
    copy.width = to.size();
    CUgraph graph = nullptr;
    ASSERT_OK(raw().cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    ferry_error_info error = new_error();
    expect_refusal(ferry_copy_async(counted.get(), &copy, written_in_the_call, stream, nullptr, &error), error,
                   FERRY_ERROR_CAPTURE, FERRY_SIDE_OPTIONS, FERRY_FIELD_FLAGS);
    EXPECT_EQ(error.value, FERRY_COPY_DESTINATION_WRITTEN);
    EXPECT_OK(raw().cuStreamEndCapture(stream, &graph));
    EXPECT_OK(raw().cuGraphDestroy(graph));
}

} // namespace
} // namespace ferry::test
