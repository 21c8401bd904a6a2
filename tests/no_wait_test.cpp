// FERRY_COPY_NO_WAIT: no call waits for a stream, for a device or for first-use work. A call that would wait does nothing
// and says why.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <deque>
#include <functional>
#include <future>
#include <optional>
#include <string>

#include "support/counted_test.h"
#include "support/gate.h"
#include "support/how.h"
#include "support/piece_batch.h"
#include "support/raw_objects.h"
#include "support/station.h"
#include "support/test_place.h"

namespace ferry::test {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t KiB = 1 << 10, MiB = 1 << 20;

// Calls that wait for work, or that take milliseconds. No call with NO_WAIT makes any of them.
constexpr const char *slow_calls[] = {"cuArrayDestroy",     "cuCtxSynchronize",
                                      "cuEventSynchronize", "cuKernelGetFunction",
                                      "cuLibraryLoadData",  "cuMemAlloc",
                                      "cuMemAllocHost",     "cuMemFree",
                                      "cuMemFreeHost",      "cuMemHostAlloc",
                                      "cuMemHostRegister",  "cuMemHostUnregister",
                                      "cuStreamCreate",     "cuStreamCreateWithPriority",
                                      "cuStreamSynchronize"};

class no_wait_calls : public counted_test {
protected:
    void SetUp() override {
        counted_test::SetUp();
        if (!has_kernels()) GTEST_SKIP() << "without staging, almost every call waits";
    }
    void prepare() { ASSERT_OK(ferry_staging_prepare(counted.get(), 0, nullptr)); }

    // Makes a call on another thread, in the test's context. The call must return without a slow call of the driver,
    // although nothing that it might wait for goes on before `held` opens.
    template <class Call> std::int32_t quickly(gate *held, const Call &call) {
        driver.reset_counts();
        auto made = std::async(std::launch::async, [&] {
            const made_current scope(context);
            return call();
        });
        EXPECT_EQ(made.wait_for(30s), std::future_status::ready) << "the call waits";
        if (held && made.wait_for(0s) != std::future_status::ready) held->let_go();
        const std::int32_t status = made.get();
        for (const char *const one : slow_calls)
            EXPECT_EQ(driver.calls(one), 0) << one;
        return status;
    }

    std::int32_t last_obstacle() const { return static_cast<std::int32_t>(error.value); }
    // Expects a refusal that names the flag and the obstacle.
    void expect_refusal_for(std::int32_t status, std::int32_t obstacle) {
        expect_refusal(status, error, FERRY_ERROR_WOULD_BLOCK, FERRY_SIDE_OPTIONS, FERRY_FIELD_FLAGS);
        EXPECT_EQ(last_obstacle(), obstacle) << describe(error);
    }

    ferry_error_info error = new_error();
};

ferry_copy_desc line(std::uint64_t to, std::uint64_t from, std::uint64_t size) {
    ferry_copy_desc made = {};
    made.destination.address = to;
    made.source.address = from;
    made.width = size;
    return made;
}
std::uint64_t at(const void *data) { return reinterpret_cast<std::uintptr_t>(data); }

bool is_host_memory(place_kind kind) {
    return kind == place_kind::pageable || kind == place_kind::pinned || kind == place_kind::registered;
}

// Whether a copy of one of these kinds must be made: no option that the table of ferry_copy_async names makes it wait.
bool must_be_made(place_kind from, place_kind to, const how &options, std::uint64_t size) {
    const bool is_up = from == place_kind::pageable && (to == place_kind::device || is_array(to));
    const bool is_down = to == place_kind::pageable && (from == place_kind::device || is_array(from));
    const auto is_easy = [](place_kind kind) {
        return kind == place_kind::pinned || kind == place_kind::registered || kind == place_kind::device ||
               kind == place_kind::managed || kind == place_kind::pool || is_array(kind);
    };
    if (is_host_memory(from) && is_host_memory(to)) return false;
    if (is_up) return !options.has(read_in_the_call) || (!is_array(to) && size <= 64 * KiB);
    if (is_down) return !options.has(written_in_the_call);
    return is_easy(from) && is_easy(to);
}

TEST_F(no_wait_calls, each_pair_of_places_is_copied_without_a_wait_or_not_at_all) {
    prepare();
    constexpr grid shapes[] = {{.width = 4 * KiB}, {.width = 512, .height = 8}};
    const how variants[] = {no_wait, no_wait | in_stream_order, no_wait | read_in_the_call,
                            no_wait | written_in_the_call, no_wait | urgent};
    int made = 0, refused = 0;
    for (const place_kind from : all_place_kinds)
        for (const place_kind to : all_place_kinds)
            for (const grid &shape : shapes) {
                if (!is_supported(from) || !is_supported(to) || !can_be(from, shape) || !can_be(to, shape)) continue;
                for (const how &options : variants)
                    for (const bool is_busy : {false, true}) {
                        SCOPED_TRACE(std::string(name_of(from)) + " to " + name_of(to) + (is_busy ? ", busy" : ""));
                        test_place source(from, shape), destination(to, shape);
                        source.fill(1);
                        destination.fill(2);
                        const ferry_copy_desc copy =
                            describe_copy(source.describe(statement::any), destination.describe(statement::any),
                                          shape.width, shape.height);
                        std::optional<gate> held;
                        if (is_busy) held.emplace(stream);
                        const std::int32_t status = quickly(held ? &*held : nullptr, [&] {
                            return ferry_copy_async(counted.get(), &copy, options, stream, nullptr, &error);
                        });
                        held.reset();
                        EXPECT_OK(raw().cuStreamSynchronize(stream));
                        if (status == FERRY_SUCCESS)
                            reference_copy(source, {}, destination, {}, shape.width, shape.height, 1);
                        else
                            expect_refusal_for(status, FERRY_OBSTACLE_WAITS);
                        if (must_be_made(from, to, options, shape.width * shape.height)) {
                            EXPECT_EQ(status, FERRY_SUCCESS) << options << describe(error);
                        }
                        EXPECT_TRUE(destination.read() == destination.picture());
                        ++(status == FERRY_SUCCESS ? made : refused);
                    }
            }
    EXPECT_GT(made, 100);
    EXPECT_GT(refused, 10);
}

TEST_F(no_wait_calls, pageable_memory_of_any_size_is_copied_behind_other_work_and_on_an_idle_stream) {
    prepare();
    for (const std::uint64_t size : {1 * KiB, 64 * KiB, 65 * KiB, 256 * KiB, 1 * MiB, 5 * MiB})
        for (const bool is_busy : {false, true}) {
            SCOPED_TRACE(size);
            const bytes data = random_bytes(size, size);
            bytes back(size);
            const device_memory there(size);
            const ferry_copy_desc up = line(there, at(data.data()), size), down = line(at(back.data()), there, size);
            std::optional<gate> held;
            if (is_busy) held.emplace(stream);
            const how options = no_wait | in_stream_order;
            EXPECT_OK(quickly(held ? &*held : nullptr,
                              [&] { return ferry_copy_async(counted.get(), &up, options, stream, nullptr, nullptr); }));
            EXPECT_OK(quickly(held ? &*held : nullptr, [&] {
                return ferry_copy_async(counted.get(), &down, options, stream, nullptr, nullptr);
            }));
            held.reset();
            EXPECT_OK(raw().cuStreamSynchronize(stream));
            EXPECT_TRUE(back == data);
        }
}

TEST_F(no_wait_calls, without_preparation_a_call_is_refused_or_takes_a_route_that_needs_none) {
    const device_memory there(4 * MiB);
    const pinned_memory pinned(4 * MiB);
    bytes pageable(4 * MiB);
    const auto copy = [&](std::uint64_t from, std::uint64_t size, const how &options) {
        const ferry_copy_desc described = line(there, from, size);
        return quickly(nullptr,
                       [&] { return ferry_copy_async(counted.get(), &described, options, stream, nullptr, &error); });
    };
    EXPECT_OK(copy(at(pinned.data()), 4 * MiB, no_wait));
    EXPECT_OK(copy(at(pageable.data()), 4 * KiB, no_wait)) << "part of the driver's commands";
    expect_refusal_for(copy(at(pageable.data()), 4 * MiB, no_wait), FERRY_OBSTACLE_NOT_PREPARED);
    expect_refusal_for(copy(at(pageable.data()), 4 * MiB, no_wait | by_staging), FERRY_OBSTACLE_NOT_PREPARED);
    expect_refusal_for(copy(at(pinned.data()), 4 * MiB, no_wait | by_kernel), FERRY_OBSTACLE_NOT_PREPARED);
    EXPECT_OK(copy(at(pinned.data()), 4 * MiB, no_wait | urgent)) << "the driver replaces the kernel";
    prepare();
    for (const how &options : {no_wait, no_wait | by_staging})
        EXPECT_OK(copy(at(pageable.data()), 4 * MiB, options));
    EXPECT_OK(copy(at(pinned.data()), 4 * MiB, no_wait | by_kernel));
    ASSERT_OK(ferry_staging_trim(counted.get(), nullptr));
    EXPECT_OK(raw().cuStreamSynchronize(stream));
    expect_refusal_for(copy(at(pageable.data()), 4 * MiB, no_wait | by_staging), FERRY_OBSTACLE_NOT_PREPARED);
}

TEST_F(no_wait_calls, synchronous_calls_do_nothing_unless_they_have_nothing_to_copy) {
    prepare();
    const pinned_memory from(4 * KiB), to(4 * KiB);
    const device_memory there(4 * KiB);
    std::memset(from.data(), 1, 4 * KiB);
    std::memset(to.data(), 2, 4 * KiB);
    const bytes before = to.copy();
    ferry_copy_desc copy = line(at(to.data()), at(from.data()), 4 * KiB);
    expect_refusal_for(ferry_copy(counted.get(), &copy, no_wait, &error), FERRY_OBSTACLE_WAITS);
    expect_refusal_for(ferry_copy_bytes(counted.get(), at(to.data()), there, 4 * KiB, no_wait, &error),
                       FERRY_OBSTACLE_WAITS);
    expect_refusal_for(ferry_copy_batch(counted.get(), &copy, 1, no_wait, &error), FERRY_OBSTACLE_WAITS);
    piece_batch pieces;
    pieces.add(at(to.data()), there, 4 * KiB);
    pieces.add(there, at(from.data()), 4 * KiB);
    expect_refusal_for(pieces.copy(counted.get(), no_wait, &error), FERRY_OBSTACLE_WAITS);
    ferry_fill_desc fill = {};
    fill.destination.address = there;
    fill.width = 4 * KiB;
    fill.pattern_size = 1;
    expect_refusal_for(ferry_fill(counted.get(), &fill, no_wait, &error), FERRY_OBSTACLE_WAITS);
    EXPECT_TRUE(to.copy() == before);
    copy.width = 0;
    EXPECT_OK(ferry_copy(counted.get(), &copy, no_wait, &error));
    EXPECT_OK(ferry_copy_batch(counted.get(), &copy, 1, no_wait, &error));
}

TEST_F(no_wait_calls, fills_need_no_preparation_unless_a_kernel_makes_them) {
    const device_memory there(64 * KiB);
    ferry_fill_desc fill = {};
    fill.destination.address = there;
    fill.width = 64 * KiB;
    fill.pattern_size = 1;
    gate held(stream);
    const auto enqueue = [&](const how &options) {
        return quickly(&held, [&] { return ferry_fill_async(counted.get(), &fill, options, stream, nullptr, &error); });
    };
    EXPECT_OK(enqueue(no_wait));
    expect_refusal_for(enqueue(no_wait | by_kernel), FERRY_OBSTACLE_NOT_PREPARED);
    fill.pattern_size = 16; // for which the driver has no call
    fill.pattern[0] = 1;
    expect_refusal_for(enqueue(no_wait), FERRY_OBSTACLE_NOT_PREPARED);
    held.open();
    prepare();
    gate again(stream);
    EXPECT_OK(
        quickly(&again, [&] { return ferry_fill_async(counted.get(), &fill, no_wait, stream, nullptr, nullptr); }));
}

// ---- Full queues of ferry

// Enqueues copies behind a gate until one is refused. All that were accepted arrive, and then there is room again.
class full_queues : public no_wait_calls {
protected:
    void fill_up(std::uint64_t size, const how &options, int most) {
        prepare();
        const bytes data = random_bytes(size, 3), zeroes(size);
        const device_memory there(size * static_cast<std::uint64_t>(most));
        ASSERT_OK(raw().cuMemsetD8(there, 0, size * static_cast<std::uint64_t>(most)));
        ASSERT_OK(raw().cuCtxSynchronize());
        int accepted = 0;
        const auto enqueue = [&](gate *held) {
            const ferry_copy_desc copy =
                line(there + size * static_cast<std::uint64_t>(accepted), at(data.data()), size);
            return quickly(held,
                           [&] { return ferry_copy_async(counted.get(), &copy, options, stream, nullptr, &error); });
        };
        {
            gate held(stream);
            std::int32_t status = FERRY_SUCCESS;
            for (; accepted < most && (status = enqueue(&held)) == FERRY_SUCCESS; ++accepted) {
            }
            ASSERT_LT(accepted, most) << "nothing is full";
            ASSERT_GT(accepted, 0) << describe(error);
            expect_refusal_for(status, FERRY_OBSTACLE_BUSY);
        }
        EXPECT_OK(raw().cuStreamSynchronize(stream));
        for (int i = 0; i <= accepted; ++i)
            ASSERT_TRUE(read_back(there + size * static_cast<std::uint64_t>(i), size) == (i < accepted ? data : zeroes))
                << i << " of " << accepted;
        EXPECT_OK(enqueue(nullptr));
        EXPECT_OK(raw().cuStreamSynchronize(stream));
    }
};

TEST_F(full_queues, no_record_of_a_staged_copy_is_free) { fill_up(4 * KiB, no_wait | in_stream_order, 400); }
TEST_F(full_queues, no_slot_is_free_for_copies_without_a_kernel) { fill_up(2 * MiB, no_wait | no_kernels, 40); }
TEST_F(full_queues, no_block_is_free_into_which_the_caller_reads) {
    fill_up(512 * KiB, no_wait | read_in_the_call, 100);
}

TEST_F(full_queues, a_second_preparation_pins_nothing_while_blocks_are_in_use) {
    prepare();
    const bytes from(MiB);
    const device_memory there(MiB);
    const ferry_copy_desc copy = line(there, at(from.data()), MiB);
    gate held(stream);
    while (ferry_copy_async(counted.get(), &copy, no_wait | read_in_the_call, stream, nullptr, &error) ==
           FERRY_SUCCESS) {
    }
    EXPECT_EQ(last_obstacle(), FERRY_OBSTACLE_BUSY);
    driver.reset_counts();
    ASSERT_OK(ferry_staging_prepare(counted.get(), 0, nullptr));
    EXPECT_EQ(driver.calls("cuMemHostAlloc") + driver.calls("cuMemHostRegister"), 0);
}

// ---- Batches

// Not inside the class: Clang takes it for complete only behind that.
struct memory_of_batches {
    static constexpr std::uint64_t size = 8 * KiB;
    static constexpr int count = 6;
    bytes host = random_bytes(count * size, 5);
    pinned_memory pinned{count * size};
    device_memory there{2 * count * size};
};

class no_wait_batches : public no_wait_calls {
protected:
    static constexpr std::uint64_t size = memory_of_batches::size;
    static constexpr int count = memory_of_batches::count;
    void SetUp() override {
        no_wait_calls::SetUp();
        if (IsSkipped()) return;
        prepare();
        memory.emplace();
        ASSERT_OK(raw().cuMemsetD8(memory->there, 0, 2 * count * size));
        ASSERT_OK(raw().cuCtxSynchronize());
        for (std::uint64_t i = 0; i < count; ++i) {
            pageable.add(memory->there + 2 * i * size, at(memory->host.data()) + i * size, size);
            mixed.add(memory->there + 2 * i * size,
                      i % 2 ? at(memory->host.data()) + i * size : at(memory->pinned.data()) + i * size, size);
        }
        std::memcpy(memory->pinned.data(), memory->host.data(), count * size);
    }
    void TearDown() override {
        EXPECT_OK(raw().cuStreamSynchronize(stream));
        memory.reset();
        no_wait_calls::TearDown();
    }
    void expect_copied(bool is_copied) {
        EXPECT_OK(raw().cuStreamSynchronize(stream));
        const bytes found = read_back(memory->there, 2 * count * size);
        for (std::uint64_t i = 0; i < count; ++i)
            EXPECT_EQ(std::memcmp(found.data() + 2 * i * size, memory->host.data() + i * size, size) == 0, is_copied);
    }
    std::optional<memory_of_batches> memory;
    piece_batch pageable, mixed;
};

TEST_F(no_wait_batches, pageable_pieces_are_staged_together_behind_other_work_and_on_an_idle_stream) {
    for (const bool is_busy : {false, true})
        for (piece_batch *const pieces : {&pageable, &mixed}) {
            std::optional<gate> held;
            if (is_busy) held.emplace(stream);
            EXPECT_OK(quickly(held ? &*held : nullptr, [&] {
                return pieces->copy_async(counted.get(), stream, no_wait, &error);
            })) << describe(error);
            held.reset();
            expect_copied(true);
            ASSERT_OK(raw().cuMemsetD8(memory->there, 0, 2 * count * size));
            ASSERT_OK(raw().cuCtxSynchronize());
        }
}

TEST_F(no_wait_batches, a_batch_with_one_copy_that_would_wait_does_nothing) {
    bytes other(size);
    mixed.add(at(other.data()), at(memory->host.data()), size);
    gate held(stream);
    const std::int32_t status =
        quickly(&held, [&] { return mixed.copy_async(counted.get(), stream, no_wait, &error); });
    held.open();
    expect_refusal_for(status, FERRY_OBSTACLE_WAITS);
    EXPECT_EQ(error.index, static_cast<std::uint64_t>(count));
    expect_copied(false);
}

TEST_F(no_wait_batches, a_batch_that_must_be_written_in_the_call_does_nothing_if_a_destination_is_pageable) {
    const how options = no_wait | written_in_the_call;
    bytes back(count * size);
    piece_batch down;
    for (std::uint64_t i = 0; i < count; ++i)
        down.add(at(back.data()) + i * size, memory->there + 2 * i * size, size);
    const auto enqueue = [&](const piece_batch &pieces) {
        gate held(stream);
        return quickly(&held, [&] { return pieces.copy_async(counted.get(), stream, options, &error); });
    };
    EXPECT_OK(enqueue(pageable)) << "the flag does not apply to device memory: " << describe(error);
    expect_copied(true);
    expect_refusal_for(enqueue(down), FERRY_OBSTACLE_WAITS);
    EXPECT_OK(raw().cuStreamSynchronize(stream));
    EXPECT_TRUE(back == bytes(count * size));
}

// Each copy would be accepted alone, but together they need more slots or blocks than there are.
TEST_F(no_wait_batches, copies_that_are_not_staged_together_are_refused_together) {
    constexpr std::uint64_t many = 160, of_each = 4 * KiB;
    const bytes from = random_bytes(2 * many * of_each, 9);
    const device_memory to(2 * many * of_each);
    piece_batch pieces;
    for (std::uint64_t i = 0; i < many; ++i)
        pieces.add(to + 2 * i * of_each, at(from.data()) + 2 * i * of_each, of_each);
    ASSERT_OK(raw().cuMemsetD8(to, 0, 2 * many * of_each));
    ASSERT_OK(raw().cuCtxSynchronize());
    for (const how &options : {no_wait | no_kernels, no_wait | read_in_the_call}) {
        gate held(stream);
        const std::int32_t status =
            quickly(&held, [&] { return pieces.copy_async(counted.get(), stream, options, &error); });
        held.open();
        expect_refusal_for(status, FERRY_OBSTACLE_WAITS);
    }
    EXPECT_OK(raw().cuStreamSynchronize(stream));
    EXPECT_TRUE(read_back(to, 2 * many * of_each) == bytes(2 * many * of_each));
}

TEST_F(no_wait_batches, a_prepared_batch_follows_the_flag_of_its_launch) {
    bytes other(size);
    piece_batch waiting;
    waiting.add(at(other.data()), at(memory->host.data()), size);
    for (const bool is_stated_at_launch : {false, true}) {
        ferry_prepared *prepared = nullptr;
        ASSERT_OK(waiting.prepare(counted.get(), stream, is_stated_at_launch ? how() : no_wait, &prepared));
        EXPECT_EQ(ferry_prepared_launch(prepared, is_stated_at_launch ? no_wait : how(), stream, nullptr, &error),
                  FERRY_ERROR_WOULD_BLOCK);
        EXPECT_TRUE(other == bytes(size));
        EXPECT_OK(ferry_prepared_launch(prepared, ordinary, stream, nullptr, &error)) << describe(error);
        EXPECT_OK(ferry_prepared_destroy(prepared, nullptr));
        EXPECT_EQ(std::memcmp(other.data(), memory->host.data(), size), 0);
        std::fill(other.begin(), other.end(), std::byte{0});
    }
    ferry_prepared *prepared = nullptr;
    ASSERT_OK(mixed.prepare(counted.get(), stream, no_wait, &prepared));
    {
        gate held(stream);
        EXPECT_OK(quickly(&held, [&] { return ferry_prepared_launch(prepared, nullptr, stream, nullptr, &error); }))
            << describe(error);
    }
    expect_copied(true);
    EXPECT_OK(ferry_prepared_destroy(prepared, nullptr));
}

// ---- Contexts and devices

struct no_wait_contexts : driver_test {};

TEST_F(no_wait_contexts, no_context_is_created) {
    fault_driver driver(raw_entry_points());
    driver.fail("cuDevicePrimaryCtxGetState", CUDA_SUCCESS, 1, true); // it does not report the context of the tests
    const ferry_options options = driver.options();
    ferry_instance *opened = nullptr;
    ASSERT_OK(ferry_open(&options, &opened, nullptr));
    const instance_owner ferry(opened);
    ferry_error_info error = new_error();
    ferry_copy_desc copy = {}; // of an address that is not looked up before the context is there
    copy.destination.kind = FERRY_KIND_DEVICE;
    copy.destination.address = 1 << 20;
    copy.source.address = 1 << 20;
    copy.width = 4 * KiB;
    ferry_fill_desc fill = {};
    fill.destination = copy.destination;
    fill.width = 4 * KiB;
    fill.pattern_size = 1;
    const made_current none(nullptr);
    driver.reset_counts();
    const auto expect_refused = [&](std::int32_t status) {
        expect_refusal(status, error, FERRY_ERROR_WOULD_BLOCK, FERRY_SIDE_OPTIONS, FERRY_FIELD_FLAGS);
        EXPECT_EQ(error.value, FERRY_OBSTACLE_NOT_PREPARED) << describe(error);
    };
    expect_refused(ferry_copy_async(ferry.get(), &copy, no_wait, nullptr, nullptr, &error));
    expect_refused(ferry_copy_batch_async(ferry.get(), &copy, 1, no_wait, nullptr, nullptr, &error));
    expect_refused(ferry_fill_async(ferry.get(), &fill, no_wait, nullptr, nullptr, &error));
    EXPECT_EQ(driver.calls("cuDevicePrimaryCtxRetain"), 0);
}

TEST_F(no_wait_calls, copies_between_devices_do_not_wait_and_a_relay_needs_its_streams) {
    if (device_count() < 2) GTEST_SKIP() << "needs two devices";
    constexpr std::uint64_t size = 4 * MiB;
    prepare();
    const other_device other;
    const device_memory here(size);
    const bytes data = random_bytes(size, 8);
    write_for_all_streams(here, data);
    const made_current scope(other);
    const device_memory there(size);
    const made_current back(context);
    const ferry_copy_desc copy = line(there, here, size);
    const auto enqueue = [&](const how &options) {
        return quickly(nullptr,
                       [&] { return ferry_copy_async(counted.get(), &copy, options, stream, nullptr, &error); });
    };
    EXPECT_OK(enqueue(no_wait)) << describe(error);
    expect_refusal_for(enqueue(no_wait | by_relay), FERRY_OBSTACLE_NOT_PREPARED);
    EXPECT_OK(ferry_copy_async(counted.get(), &copy, by_relay, stream, nullptr, nullptr));
    EXPECT_OK(enqueue(no_wait | by_relay)) << describe(error);
    EXPECT_OK(raw().cuStreamSynchronize(stream));
    EXPECT_TRUE(read_back(there, size) == data);
}

// ---- Relays and several links

constexpr std::size_t lanes_at_once = 4; // on each device

class no_wait_relays : public no_wait_calls {
protected:
    static constexpr std::uint64_t size = 3 * MiB;

    void SetUp() override {
        no_wait_calls::SetUp();
        if (IsSkipped()) return;
        if (device_count() < 2) GTEST_SKIP() << "needs two devices";
        other.emplace();
        for (std::size_t i = 0; i <= lanes_at_once; ++i) {
            near.emplace_back(context, size).write(picture(i));
            far.emplace_back(*other, size).write(bytes(size));
        }
    }
    void TearDown() override {
        near.clear();
        far.clear();
        other.reset();
        no_wait_calls::TearDown();
    }
    static bytes picture(std::size_t i) { return random_bytes(size, i + 1); }
    std::int32_t relay(std::size_t i, const how &options) {
        const ferry_copy_desc copy = line(far[i].address(), near[i].address(), size);
        return ferry_copy_async(counted.get(), &copy, options, near[i].stream(), nullptr, &error);
    }
    std::int32_t relay_quickly(std::size_t i, gate *held) {
        return quickly(held, [&] { return relay(i, no_wait | by_relay); });
    }

    std::optional<other_device> other;
    std::deque<station> near, far;
};

TEST_F(no_wait_relays, a_relay_on_a_blocked_stream_is_enqueued_in_stream_order) {
    ASSERT_OK(relay(0, by_relay)); // creates the lanes
    near[0].wait();
    {
        gate held(near[0].stream());
        near[0].fill(0x77, near[0].stream());
        EXPECT_OK(relay_quickly(0, &held)) << describe(error);
        EXPECT_RESULT(CUDA_ERROR_NOT_READY, raw().cuStreamQuery(near[0].stream()));
        near[0].fill(0x11, near[0].stream());
    }
    near[0].wait();
    EXPECT_TRUE(far[0].read() == bytes(size, std::byte{0x77}));
}

TEST_F(no_wait_relays, a_relay_is_refused_while_its_lanes_are_not_created_or_all_in_use) {
    const auto hold_all = [&](gate &held) {
        for (std::size_t i = 1; i < near.size(); ++i)
            held.hold(near[i].stream());
    };
    const auto wait_for_all = [&] {
        for (std::size_t i = 0; i < near.size(); ++i) {
            near[i].wait();
            EXPECT_TRUE(far[i].read() == (i < lanes_at_once ? picture(i) : bytes(size))) << i;
            if (i < lanes_at_once) far[i].write(bytes(size));
        }
    };
    {
        gate held(near[0].stream());
        hold_all(held);
        for (std::size_t i = 0; i < lanes_at_once; ++i) {
            expect_refusal_for(relay_quickly(i, &held), FERRY_OBSTACLE_NOT_PREPARED);
            ASSERT_OK(relay(i, by_relay)) << describe(error);
        }
    }
    wait_for_all();
    {
        gate held(near[0].stream());
        hold_all(held);
        for (std::size_t i = 0; i < lanes_at_once; ++i)
            EXPECT_OK(relay_quickly(i, &held)) << i << ": " << describe(error);
        expect_refusal_for(relay_quickly(lanes_at_once, &held), FERRY_OBSTACLE_BUSY);
    }
    wait_for_all();
    EXPECT_OK(relay_quickly(lanes_at_once, nullptr)) << describe(error);
    near.back().wait();
    EXPECT_TRUE(far.back().read() == picture(lanes_at_once));
}

// A copy over several links needs only its own device. Helpers without a lane are left out.
class no_wait_links : public no_wait_calls {
protected:
    static constexpr std::uint64_t size = 6 * MiB, large = 33 * MiB;

    void SetUp() override {
        no_wait_calls::SetUp();
        if (IsSkipped()) return;
        if (device_count() < 2) GTEST_SKIP() << "needs two devices";
        prepare();
        const std::int32_t helper = 1;
        ferry_multilink_options options = {};
        options.struct_size = sizeof options;
        options.helpers = &helper;
        options.helper_count = 1;
        const std::int32_t status = ferry_multilink_set(counted.get(), 0, &options, nullptr);
        if (is_without_access(status)) GTEST_SKIP() << "no peer access with atomics";
        ASSERT_OK(status);
        has_helper = true;
        // Both wait for the thread that pins more slots for the device.
        prepare();
        ASSERT_OK(ferry_staging_prepare(counted.get(), helper, nullptr));
    }
    void TearDown() override {
        if (has_helper) {
            EXPECT_OK(ferry_peer_disable(counted.get(), 1, 0, nullptr));
        }
        no_wait_calls::TearDown();
    }
    // Copies from the device to host memory. Returns the number of kernels, or the status of a failure.
    int kernels_of_copy(const station &from, std::uint64_t to, std::uint64_t bytes, gate *held,
                        const how &options = no_wait | over_links) {
        const ferry_copy_desc copy = line(to, from.address(), bytes);
        const std::int32_t status = quickly(
            held, [&] { return ferry_copy_async(counted.get(), &copy, options, from.stream(), nullptr, &error); });
        EXPECT_OK(status) << describe(error);
        return status ? status : driver.calls("cuLaunchKernel");
    }
    // Makes lanes on the helper, as copies without the flag do.
    void make_lanes(const std::deque<station> &devices, std::uint64_t to) {
        gate held(devices[0].stream());
        for (std::size_t i = 1; i < devices.size(); ++i)
            held.hold(devices[i].stream());
        for (const station &one : devices) {
            const ferry_copy_desc copy = line(to, one.address(), size);
            ASSERT_OK(ferry_copy_async(counted.get(), &copy, over_links, one.stream(), nullptr, nullptr));
        }
    }

    bool has_helper = false;
};

TEST_F(no_wait_links, a_copy_over_several_links_is_enqueued_on_a_blocked_stream) {
    const pinned_memory host(size);
    std::deque<station> devices;
    devices.emplace_back(context, size).write(bytes(size));
    const station &device = devices[0];
    EXPECT_EQ(kernels_of_copy(device, at(host.data()), size, nullptr), 1) << "the helper has no lane";
    device.wait();
    make_lanes(devices, at(host.data()));
    device.wait();
    {
        gate held(device.stream());
        device.fill(0x77, device.stream());
        EXPECT_EQ(kernels_of_copy(device, at(host.data()), size, &held), 2);
        EXPECT_RESULT(CUDA_ERROR_NOT_READY, raw().cuStreamQuery(device.stream()));
        device.fill(0x11, device.stream());
    }
    device.wait();
    EXPECT_TRUE(host.copy() == bytes(size, std::byte{0x77}));
}

TEST_F(no_wait_links, a_copy_does_without_helpers_while_all_lanes_are_in_use) {
    const pinned_memory host(size);
    std::deque<station> devices;
    for (std::size_t i = 0; i <= lanes_at_once; ++i)
        devices.emplace_back(context, size).write(bytes(size));
    make_lanes(devices, at(host.data()));
    for (const station &one : devices)
        one.wait();
    {
        gate held(devices[0].stream());
        for (std::size_t i = 1; i < devices.size(); ++i)
            held.hold(devices[i].stream());
        for (std::size_t i = 0; i < devices.size(); ++i)
            EXPECT_EQ(kernels_of_copy(devices[i], at(host.data()), size, &held), i < lanes_at_once ? 2 : 1) << i;
    }
    for (const station &one : devices)
        one.wait();
}

// There are counters for 32 copies. The driver makes further copies.
TEST_F(no_wait_links, the_driver_copies_while_all_counters_are_in_use) {
    constexpr int most = 40;
    const pinned_memory host(size);
    const station device(context, size);
    device.write(bytes(size));
    int by_kernels = 0;
    {
        gate held(device.stream());
        for (int i = 0; i < most; ++i)
            by_kernels += kernels_of_copy(device, at(host.data()), size, &held);
    }
    device.wait();
    EXPECT_EQ(by_kernels, 32);
}

TEST_F(no_wait_links, pageable_memory_is_staged_over_several_links_on_a_blocked_stream) {
    bytes host(large);
    const station device(context, large);
    device.write(bytes(large));
    const how options = over_links | by_staging;
    const auto copy_behind_work = [&](const auto &enqueue) {
        gate held(device.stream());
        device.fill(0x77, device.stream());
        enqueue(held);
        held.open();
        EXPECT_TRUE(host == bytes(large, std::byte{0x77}));
        std::fill(host.begin(), host.end(), std::byte{0});
    };
    const auto count_kernels = [&](gate &held) {
        return kernels_of_copy(device, at(host.data()), large, &held, no_wait | options);
    };
    copy_behind_work([&](gate &held) { EXPECT_EQ(count_kernels(held), 1) << "the helper has no lane"; });
    copy_behind_work([&](gate &) {
        const ferry_copy_desc copy = line(at(host.data()), device.address(), large);
        ASSERT_OK(ferry_copy_async(counted.get(), &copy, options, device.stream(), nullptr, nullptr));
    });
    copy_behind_work([&](gate &held) { EXPECT_EQ(count_kernels(held), 2); });
}

// ---- Explanations and tickets

TEST_F(no_wait_calls, explanations_report_what_the_call_would_do) {
    prepare();
    const device_memory there(1 * MiB);
    bytes from(1 * MiB);
    const ferry_copy_desc copy = line(there, at(from.data()), 1 * MiB);
    ferry_explanation found = new_explanation();
    EXPECT_OK(ferry_copy_explain_async(counted.get(), &copy, no_wait, stream, &found, &error));
    EXPECT_EQ(found.route, FERRY_ROUTE_STAGED);
    EXPECT_EQ(found.blocks, FERRY_BLOCKS_NO);
    expect_refusal_for(ferry_copy_explain_async(counted.get(), &copy, no_wait | by_driver, stream, &found, &error),
                       FERRY_OBSTACLE_WAITS);
    expect_refusal_for(ferry_copy_explain(counted.get(), &copy, no_wait, &found, &error), FERRY_OBSTACLE_WAITS);
}

TEST_F(no_wait_calls, a_ticket_reports_a_copy_that_did_not_wait_and_none_that_was_refused) {
    prepare();
    const device_memory there(2 * MiB);
    const bytes from = random_bytes(2 * MiB, 6);
    const ferry_copy_desc copy = line(there, at(from.data()), 2 * MiB);
    ferry_ticket *ticket = nullptr;
    {
        gate held(stream);
        EXPECT_OK(
            quickly(&held, [&] { return ferry_copy_async(counted.get(), &copy, no_wait, stream, &ticket, nullptr); }));
    }
    EXPECT_OK(ferry_ticket_wait(ticket, -1, nullptr));
    EXPECT_OK(ferry_ticket_release(ticket, nullptr));
    EXPECT_TRUE(read_back(there, 2 * MiB) == from);
    EXPECT_EQ(ferry_copy_async(counted.get(), &copy, no_wait | by_driver, stream, &ticket, nullptr),
              FERRY_ERROR_WOULD_BLOCK);
    EXPECT_EQ(ticket, nullptr);
}

} // namespace
} // namespace ferry::test
