// FERRY_SOURCE_ORDER_ANY, the default: when the source of an asynchronous copy from pageable memory is read, with other
// work and with ferry's own copies ahead.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "support/captured_graph.h"
#include "support/counted_test.h"
#include "support/gate.h"
#include "support/how.h"
#include "support/piece_batch.h"
#include "support/raw_objects.h"
#include "support/test_place.h"

namespace ferry::test {
namespace {

constexpr std::uint64_t KiB = 1 << 10, max_early = 256 * KiB;

struct origin;

class source_order : public counted_test {
protected:
    void SetUp() override {
        counted_test::SetUp();
        if (!has_kernels()) GTEST_SKIP() << "without staging, only the driver reads the source";
        ASSERT_OK(ferry_staging_prepare(counted.get(), 0, nullptr));
        // The buffers' memory is allocated now: allocating may wait for work that a gate holds.
        const device_memory target(max_early);
        const bytes from(max_early);
        gate held(stream);
        EXPECT_OK(ferry_copy_async(counted.get(), copy_of(target, from.data(), max_early), nullptr, stream, nullptr,
                                   nullptr));
    }
    // A descriptor that lives until the end of the call that takes it.
    struct described {
        ferry_copy_desc copy = {};
        operator const ferry_copy_desc *() const { return &copy; }
    };
    static described copy_of(std::uint64_t to, const void *from, std::uint64_t size) {
        described made;
        ferry_place_host(&made.copy.source, from);
        made.copy.destination.address = to;
        made.copy.width = size;
        return made;
    }
    static described copy_back(void *to, std::uint64_t from, std::uint64_t size) {
        described made;
        ferry_place_host(&made.copy.destination, to);
        made.copy.source.address = from;
        made.copy.width = size;
        return made;
    }
    ferry_explanation explain(const ferry_copy_desc *copy, const how &options = {}) {
        ferry_explanation told = {};
        told.struct_size = sizeof told;
        EXPECT_OK(ferry_copy_explain_async(counted.get(), copy, options, stream, &told, nullptr));
        return told;
    }
    bool is_read_early(const ferry_copy_desc *copy, const how &options = {}) {
        const ferry_explanation told = explain(copy, options);
        return told.route == FERRY_ROUTE_BUFFERED || told.route == FERRY_ROUTE_DRIVER;
    }
    void expect_read_after_writers(const origin &from, CUstream on, CUevent event);
};

TEST_F(source_order, a_short_source_behind_other_work_is_read_in_the_call_by_default) {
    for (const std::uint64_t size : {std::uint64_t{1}, 4 * KiB, 16 * KiB, 64 * KiB, max_early}) {
        SCOPED_TRACE(size);
        const bytes data = random_bytes(size, size);
        const device_memory target(size);
        bytes from = data;
        {
            gate held(stream);
            const described copy = copy_of(target, from.data(), size);
            EXPECT_TRUE(is_read_early(copy));
            EXPECT_EQ(explain(copy, in_stream_order).route, FERRY_ROUTE_STAGED);
            ASSERT_OK(ferry_copy_async(counted.get(), copy, nullptr, stream, nullptr, nullptr));
            std::fill(from.begin(), from.end(), std::byte{0});
        }
        EXPECT_OK(raw().cuStreamSynchronize(stream));
        EXPECT_TRUE(read_back(target, size) == data);
    }
}

TEST_F(source_order, long_sources_and_rows_are_staged_behind_other_work) {
    const device_memory target(2 * max_early);
    const bytes from(2 * max_early);
    described rows = copy_of(target, from.data(), 64);
    rows.copy.height = 2;
    rows.copy.source.row_pitch = rows.copy.destination.row_pitch = 128;
    const gate held(stream);
    EXPECT_EQ(explain(copy_of(target, from.data(), max_early + 1)).route, FERRY_ROUTE_STAGED);
    EXPECT_EQ(explain(rows).route, FERRY_ROUTE_STAGED);
    EXPECT_EQ(explain(copy_of(target, from.data(), max_early), urgent).route, FERRY_ROUTE_STAGED);
}

// The program that depends on this must state the order.
TEST_F(source_order, in_stream_order_a_source_is_read_after_the_program_s_own_work_has_written_it) {
    constexpr std::uint64_t size = 16 * KiB;
    struct written {
        bytes source = bytes(size);
        const bytes data = random_bytes(size, 9);
    } memory;
    const device_memory target(size);
    {
        gate held(stream);
        ASSERT_OK(raw().cuLaunchHostFunc(
            stream,
            [](void *argument) {
                auto *const later = static_cast<written *>(argument);
                std::memcpy(later->source.data(), later->data.data(), size);
            },
            &memory));
        ASSERT_OK(ferry_copy_async(counted.get(), copy_of(target, memory.source.data(), size), in_stream_order, stream,
                                   nullptr, nullptr));
    }
    EXPECT_OK(raw().cuStreamSynchronize(stream));
    EXPECT_TRUE(read_back(target, size) == memory.data);
}

// ---- Sources that ferry's own copies write

enum class writer { single, batch, pieces, prepared, ticket };
constexpr writer writers[] = {writer::single, writer::batch, writer::pieces, writer::prepared, writer::ticket};

// Device memory that copies write to pageable memory: two parts of a MiB each.
struct origin {
    static constexpr std::uint64_t part = 1024 * KiB, size = 2 * part;

    origin() : data(random_bytes(size, 4)), device(size) { write_for_all_streams(device, data); }

    const bytes data;
    const device_memory device;
};

// The objects that must outlive an unfinished copy.
struct kept_objects {
    ~kept_objects() {
        if (ticket) {
            EXPECT_OK(ferry_ticket_release(ticket, nullptr));
        }
        if (prepared) {
            EXPECT_OK(ferry_prepared_destroy(prepared, nullptr));
        }
    }
    ferry_ticket *ticket = nullptr;
    ferry_prepared *prepared = nullptr;
};

// Copies the origin to `to` on the stream.
void write_by(ferry_instance *instance, writer by, const origin &from, std::byte *to, CUstream stream,
              kept_objects &kept) {
    ferry_copy_desc copies[2] = {};
    piece_batch pieces;
    for (const std::uint64_t i : {0, 1}) {
        const std::uint64_t at = i * origin::part;
        copies[i].source.address = from.device + at;
        copies[i].destination.address = reinterpret_cast<std::uintptr_t>(to) + at;
        copies[i].width = origin::part;
        pieces.add(copies[i].destination.address, copies[i].source.address, origin::part);
    }
    ferry_copy_desc whole = copies[0];
    whole.width = origin::size;
    switch (by) {
    case writer::single:
        EXPECT_OK(ferry_copy_async(instance, &whole, nullptr, stream, nullptr, nullptr));
        break;
    case writer::batch:
        EXPECT_OK(ferry_copy_batch_async(instance, copies, 2, nullptr, stream, nullptr, nullptr));
        break;
    case writer::pieces:
        EXPECT_OK(pieces.copy_async(instance, stream));
        break;
    case writer::prepared:
        EXPECT_OK(ferry_prepared_launch(kept.prepared, nullptr, stream, nullptr, nullptr));
        break;
    case writer::ticket:
        EXPECT_OK(ferry_copy_async(instance, &whole, nullptr, stream, &kept.ticket, nullptr));
        break;
    }
}

// Expects that a copy on the test's stream reads its source after a copy on the stream `on`, which writes the source.
void source_order::expect_read_after_writers(const origin &from, CUstream on, CUevent event) {
    constexpr std::uint64_t size = 16 * KiB, offset = origin::size - size - 5;
    const device_memory target(size);
    for (const writer by : writers) {
        SCOPED_TRACE(testing::Message() << "writer " << static_cast<int>(by));
        bytes between(origin::size);
        const bytes beside = random_bytes(size, 7);
        const described read = copy_of(target, between.data() + offset, size);
        kept_objects kept;
        if (by == writer::prepared) {
            ferry_copy_desc whole = {};
            whole.source.address = from.device;
            whole.destination.address = reinterpret_cast<std::uintptr_t>(between.data());
            whole.width = origin::size;
            ASSERT_OK(ferry_prepared_create(counted.get(), &whole, 1, nullptr, on, &kept.prepared, nullptr));
        }
        {
            gate held(on);
            write_by(counted.get(), by, from, between.data(), on, kept);
            if (on != stream) {
                ASSERT_OK(raw().cuEventRecord(event, on));
                ASSERT_OK(raw().cuStreamWaitEvent(stream, event, 0));
            }
            EXPECT_EQ(explain(read).route, FERRY_ROUTE_STAGED);
            EXPECT_TRUE(is_read_early(copy_of(target, beside.data(), size))) << "no copy writes this source";
            ASSERT_OK(ferry_copy_async(counted.get(), read, nullptr, stream, nullptr, nullptr));
        }
        EXPECT_OK(raw().cuStreamSynchronize(stream));
        EXPECT_OK(raw().cuStreamSynchronize(on));
        const bytes arrived = read_back(target, size);
        EXPECT_EQ(std::memcmp(arrived.data(), from.data.data() + offset, size), 0);
    }
}

TEST_F(source_order, a_source_that_an_unfinished_copy_writes_is_read_after_the_copy) {
    const origin from;
    expect_read_after_writers(from, stream, nullptr);
}

TEST_F(source_order, a_source_that_a_copy_on_another_stream_writes_is_read_after_the_copy) {
    const origin from;
    const test_stream other;
    const test_event event(CU_EVENT_DISABLE_TIMING);
    expect_read_after_writers(from, other, event);
}

TEST_F(source_order, a_source_that_a_copy_on_another_device_writes_is_read_after_the_copy) {
    if (device_count() < 2) GTEST_SKIP() << "needs two devices";
    ASSERT_OK(ferry_staging_prepare(counted.get(), 1, nullptr));
    const other_device device;
    const made_current scope(device);
    const origin from;
    const test_stream other;
    const test_event event(CU_EVENT_DISABLE_TIMING);
    const made_current back(context);
    expect_read_after_writers(from, other, event);
}

TEST_F(source_order, a_source_that_is_registered_in_part_is_read_in_stream_order) {
    constexpr std::uint64_t page = 4096, size = 16 * page;
    const device_memory target(size), origin(size);
    const bytes data = random_bytes(size, 6);
    write_for_all_streams(origin, data);
    alignas(4096) static std::byte between[size];
    ASSERT_OK(ferry_host_register(counted.get(), between + 8 * page, 4 * page, 0, nullptr));
    {
        gate held(stream);
        // The driver writes the registered part.
        ASSERT_OK(ferry_copy_async(counted.get(), copy_back(between, origin, size), nullptr, stream, nullptr, nullptr));
        ASSERT_OK(ferry_copy_async(counted.get(), copy_of(target, between, size), nullptr, stream, nullptr, nullptr));
    }
    EXPECT_OK(raw().cuStreamSynchronize(stream));
    EXPECT_TRUE(read_back(target, size) == data);
    {
        gate held(stream);
        ASSERT_OK(ferry_copy_async(counted.get(), copy_back(between + 8 * page, origin, 4 * page), nullptr, stream,
                                   nullptr, nullptr));
        ASSERT_OK(ferry_copy_async(counted.get(), copy_of(target, between, size), nullptr, stream, nullptr, nullptr));
    }
    EXPECT_OK(raw().cuStreamSynchronize(stream));
    const bytes arrived = read_back(target, size);
    EXPECT_EQ(std::memcmp(arrived.data() + 8 * page, data.data(), 4 * page), 0);
    EXPECT_OK(ferry_host_unregister(counted.get(), between + 8 * page, nullptr));
}

TEST_F(source_order, unfinished_copies_of_other_instances_count_for_all_sources) {
    constexpr std::uint64_t size = 16 * KiB;
    const origin from;
    const device_memory target(size);
    bytes between(origin::size);
    const described read = copy_of(target, between.data(), size);
    const instance_owner another = open_or_fail(driver.options());
    ASSERT_OK(ferry_staging_prepare(another.get(), 0, nullptr));
    kept_objects kept;
    {
        gate held(stream);
        write_by(another.get(), writer::single, from, between.data(), stream, kept);
        EXPECT_EQ(explain(read).route, FERRY_ROUTE_STAGED);
        ASSERT_OK(ferry_copy_async(counted.get(), read, nullptr, stream, nullptr, nullptr));
    }
    EXPECT_OK(raw().cuStreamSynchronize(stream));
    const bytes arrived = read_back(target, size);
    EXPECT_EQ(std::memcmp(arrived.data(), from.data.data(), size), 0);
}

TEST_F(source_order, a_graph_may_write_a_source_until_the_graph_is_destroyed) {
    constexpr std::uint64_t size = 16 * KiB;
    const origin from;
    const device_memory target(size);
    bytes between(origin::size);
    const described read = copy_of(target, between.data(), size);
    {
        kept_objects kept;
        captured_graph graph(stream);
        write_by(counted.get(), writer::single, from, between.data(), stream, kept);
        graph.end();
        {
            gate held(stream);
            ASSERT_OK(raw().cuGraphLaunch(graph.executable, stream));
            EXPECT_EQ(explain(read).route, FERRY_ROUTE_STAGED);
            ASSERT_OK(ferry_copy_async(counted.get(), read, nullptr, stream, nullptr, nullptr));
        }
        EXPECT_OK(raw().cuStreamSynchronize(stream));
        const bytes arrived = read_back(target, size);
        EXPECT_EQ(std::memcmp(arrived.data(), from.data.data(), size), 0);
        const gate held(stream);
        EXPECT_EQ(explain(read).route, FERRY_ROUTE_STAGED) << "the graph may be launched again";
    }
    ASSERT_OK(raw().cuStreamSynchronize(stream));
    // The driver may destroy the objects of a graph later.
    for (int i = 0; i < 1000; ++i) {
        const gate held(stream);
        if (is_read_early(read)) return;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    ADD_FAILURE() << "the copy of a destroyed graph still counts";
}

TEST_F(source_order, a_graph_reads_at_each_launch) {
    constexpr std::uint64_t size = 16 * KiB;
    const device_memory target(size);
    bytes from = random_bytes(size, 1);
    captured_graph graph(stream);
    ASSERT_OK(ferry_copy_async(counted.get(), copy_of(target, from.data(), size), nullptr, stream, nullptr, nullptr));
    graph.end();
    for (const std::uint64_t seed : {2, 3}) {
        const bytes next = random_bytes(size, seed);
        std::copy(next.begin(), next.end(), from.begin());
        graph.run();
        EXPECT_TRUE(read_back(target, size) == next);
    }
}

TEST_F(source_order, many_small_copies_behind_other_work_wait_for_nothing) {
    constexpr std::uint64_t size = 16 * KiB, count = 300;
    const device_memory target(size * count);
    const bytes data = random_bytes(size * count, 3);
    bytes from(size);
    // The stream is idle at first, so the copies have room among its commands.
    ASSERT_OK(ferry_copy_async(counted.get(), copy_of(target, data.data(), size), nullptr, stream, nullptr, nullptr));
    ASSERT_OK(raw().cuStreamSynchronize(stream));
    {
        gate held(stream);
        for (std::uint64_t i = 0; i < count; ++i) {
            std::copy_n(data.data() + i * size, size, from.data());
            ASSERT_OK(ferry_copy_async(counted.get(), copy_of(target + i * size, from.data(), size), nullptr, stream,
                                       nullptr, nullptr));
        }
    }
    EXPECT_OK(raw().cuStreamSynchronize(stream));
    EXPECT_TRUE(read_back(target, size * count) == data);
}

TEST_F(source_order, memory_of_host_pools_is_read_in_stream_order) {
    constexpr std::uint64_t size = 16 * KiB;
    if (!can_be(place_kind::pool_of_host, {.width = size})) GTEST_SKIP() << "the driver has no host memory pools";
    const test_place from(place_kind::pool_of_host, {.width = size});
    const device_memory target(size);
    described copy = copy_of(target, nullptr, size);
    copy.copy.source = from.describe(statement::any);
    const gate held(stream);
    EXPECT_NE(explain(copy).route, FERRY_ROUTE_BUFFERED);
    EXPECT_NE(explain(copy).reason, FERRY_REASON_SOURCE_ORDER);
}

// The last two tests, because they have effect until the process ends: ferry does not know when such a graph is destroyed.
// A stream that synchronises with the legacy stream follows the graph, although nothing was enqueued on it.
TEST_F(source_order, what_a_graph_on_the_legacy_stream_writes_is_read_by_a_copy_on_a_blocking_stream) {
    constexpr std::uint64_t size = 16 * KiB;
    const origin from;
    const device_memory target(size);
    bytes between(size);
    captured_graph graph(stream);
    ASSERT_OK(raw().cuLaunchHostFunc(
        stream, [](void *) { std::this_thread::sleep_for(std::chrono::milliseconds(50)); }, nullptr));
    ASSERT_OK(ferry_copy_async(counted.get(), copy_back(between.data(), from.device, size), by_driver, stream, nullptr,
                               nullptr));
    graph.end();
    ASSERT_OK(raw().cuGraphLaunch(graph.executable, CU_STREAM_LEGACY));
    ASSERT_OK(ferry_copy_async(counted.get(), copy_of(target, between.data(), size), by_driver, CU_STREAM_PER_THREAD,
                               nullptr, nullptr));
    EXPECT_OK(raw().cuStreamSynchronize(CU_STREAM_PER_THREAD));
    EXPECT_OK(raw().cuStreamSynchronize(CU_STREAM_LEGACY));
    const bytes arrived = read_back(target, size);
    EXPECT_EQ(std::memcmp(arrived.data(), from.data.data(), size), 0);
}

TEST_F(source_order, once_the_driver_s_copies_to_pageable_memory_are_captured_all_sources_are_read_in_stream_order) {
    constexpr std::uint64_t size = 16 * KiB;
    const origin from;
    const device_memory target(size);
    bytes between(size);
    const described read = copy_of(target, between.data(), size);
    captured_graph graph(stream);
    ASSERT_OK(ferry_copy_async(counted.get(), copy_back(between.data(), from.device, size), by_driver, stream, nullptr,
                               nullptr));
    graph.end();
    ASSERT_OK(raw().cuGraphLaunch(graph.executable, stream)); // behind the gate, the driver's call would wait
    {
        gate held(stream);
        EXPECT_EQ(explain(read).route, FERRY_ROUTE_STAGED);
        ASSERT_OK(ferry_copy_async(counted.get(), read, nullptr, stream, nullptr, nullptr));
    }
    EXPECT_OK(raw().cuStreamSynchronize(stream));
    const bytes arrived = read_back(target, size);
    EXPECT_EQ(std::memcmp(arrived.data(), from.data.data(), size), 0);
}

} // namespace
} // namespace ferry::test
