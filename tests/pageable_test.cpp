// Copies between pageable memory and devices through the public calls: every byte against a plain copy on the CPU, what
// the caller waits for, and the order on streams.
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <thread>

#if !defined(_WIN32)
#include <csignal>
#include <dirent.h>
#include <fstream>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "exec/kernel_launch.h"
#include "support/captured_graph.h"
#include "support/counted_test.h"
#include "support/emulator.h"
#include "support/ferry_array.h"
#include "support/gate.h"
#include "support/how.h"
#include "support/huge_pages.h"
#include "support/piece_batch.h"
#include "support/piece_lists.h"
#include "support/program_threads.h"
#include "support/raw_objects.h"
#include "support/stuck_pages.h"
#include "support/system.h"
#include "support/test_place.h"
#include "support/waiting_free.h"

// Makes pthread_create fail while gives_threads is false.
static std::atomic<bool> gives_threads = true;
#if !defined(_WIN32)
extern "C" int __real_pthread_create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
extern "C" int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*run)(void *), void *user) {
    return gives_threads ? __real_pthread_create(thread, how, run, user) : EAGAIN;
}
#endif

namespace ferry::test {
namespace {

constexpr bool both_ways[] = {true, false};

class pageable : public counted_test {
protected:
    void SetUp() override {
        counted_test::SetUp();
        if (!has_kernels()) GTEST_SKIP() << "the driver takes no kernels";
        open(small());
    }
    // A staging buffer so small that even small copies use each slot many times.
    ferry_options small() const {
        ferry_options options = driver.options();
        options.staging_bytes = 256 << 10;
        options.staging_threads = 3;
        return options;
    }
    void open(const ferry_options &options) {
        counted.reset();
        counted = open_or_fail(options);
    }
    static ferry_copy_desc line(std::uint64_t to, std::uint64_t from, std::uint64_t size) {
        ferry_copy_desc copy = {};
        copy.source.address = from;
        copy.destination.address = to;
        copy.width = size;
        return copy;
    }
    // Staged, though the driver might be faster for so little.
    std::int32_t copy_async(std::uint64_t to, std::uint64_t from, std::uint64_t size, const how &options = by_staging) {
        const ferry_copy_desc copy = line(to, from, size);
        return ferry_copy_async(counted.get(), &copy, options, stream, nullptr, nullptr);
    }
    ferry_explanation explain(const ferry_copy_desc &copy, const how &options = by_staging,
                              bool is_synchronous = false) const {
        ferry_explanation told = {};
        told.struct_size = sizeof told;
        EXPECT_OK(is_synchronous ? ferry_copy_explain(counted.get(), &copy, options, &told, nullptr)
                                 : ferry_copy_explain_async(counted.get(), &copy, options, stream, &told, nullptr));
        return told;
    }
};

std::uint64_t at(const bytes &memory) { return reinterpret_cast<std::uintptr_t>(memory.data()); }

// ---- Bytes ------------------------------------------------------------------------------------------------------

struct scene {
    grid host, device;
    box from, to; // the origins of the host's and the device's end
    std::uint64_t width, height = 1, depth = 1;
};

const scene scenes[] = {
    {{.width = 1}, {.width = 1}, {}, {}, 1},
    {{.width = 300'003, .lead = 5}, {.width = 300'100, .lead = 3}, {.x = 1}, {.x = 70}, 300'001},
    {{.width = 700'001}, {.width = 700'001}, {}, {}, 700'001},
    {{.width = 64, .height = 900, .row_pitch = 80},
     {.width = 60, .height = 900, .row_pitch = 64},
     {.x = 3},
     {.x = 1},
     50,
     800},
    {{.width = 4, .height = 9000, .row_pitch = 8}, {.width = 4, .height = 9000}, {}, {}, 4, 9000},
    {{.width = 70'000, .height = 5, .row_pitch = 70'001},
     {.width = 70'001, .height = 7, .row_pitch = 80'000},
     {.y = 1},
     {.x = 1, .y = 2},
     69'999,
     4},
    {{.width = 40, .height = 20, .depth = 9, .row_pitch = 44, .slice_height = 22, .lead = 1},
     {.width = 50, .height = 19, .depth = 8, .row_pitch = 64, .slice_height = 30},
     {.x = 2, .y = 1, .z = 1},
     {.x = 7, .y = 2},
     33,
     17,
     8},
};

TEST_F(pageable, boxes_arrive_whole_on_every_route) {
    std::uint64_t seed = 1;
    for (const scene &scene : scenes)
        for (const place_kind kind : {place_kind::device, place_kind::pool})
            for (const bool to_device : both_ways)
                for (const how &options : {how(), by_staging, by_driver, no_kernels, urgent, by_staging | max_sms(1),
                                           by_staging | no_kernels})
                    for (const statement stated : {statement::stated, statement::any})
                        for (const bool is_synchronous : {true, false}) {
                            if (!is_supported(kind)) continue;
                            SCOPED_TRACE(testing::Message() << name_of(kind) << (to_device ? " to" : " from") << " it, "
                                                            << options << ", " << scene.width << " x " << scene.height);
                            test_place host(place_kind::pageable, scene.host), device(kind, scene.device);
                            host.fill(seed++);
                            device.fill(seed++);
                            const ferry_place here = host.describe(stated, scene.from),
                                              there = device.describe(stated, scene.to);
                            const ferry_copy_desc copy =
                                to_device ? describe_copy(here, there, scene.width, scene.height, scene.depth)
                                          : describe_copy(there, here, scene.width, scene.height, scene.depth);
                            const std::int32_t expected =
                                options.has(by_staging)  ? FERRY_ROUTE_STAGED
                                : options.has(by_driver) ? FERRY_ROUTE_DRIVER
                                // whichever is predicted faster
                                : options == how() || options == no_kernels ? FERRY_ROUTE_NONE
                                // an urgent line of so few bytes may go along with the driver's commands
                                : options == urgent && to_device && scene.width * scene.height <= 65536
                                    ? FERRY_ROUTE_NONE
                                    : FERRY_ROUTE_STAGED;
                            const ferry_explanation told = explain(copy, options, is_synchronous);
                            if (expected != FERRY_ROUTE_NONE) {
                                EXPECT_EQ(told.route, expected);
                            }
                            if (options.has(no_kernels)) {
                                EXPECT_EQ(told.max_sms, 0u);
                                EXPECT_STRNE(told.driver_call, "cuLaunchKernel");
                                driver.reset_counts();
                            }
                            ferry_error_info error = new_error();
                            ASSERT_OK(is_synchronous
                                          ? ferry_copy(counted.get(), &copy, options, &error)
                                          : ferry_copy_async(counted.get(), &copy, options, stream, nullptr, &error))
                                << describe(error);
                            if (!is_synchronous) {
                                ASSERT_OK(raw().cuStreamSynchronize(stream));
                            }
                            if (options.has(no_kernels)) {
                                EXPECT_EQ(driver.calls("cuLaunchKernel"), 0);
                            }
                            if (to_device)
                                reference_copy(host, scene.from, device, scene.to, scene.width, scene.height,
                                               scene.depth);
                            else
                                reference_copy(device, scene.to, host, scene.from, scene.width, scene.height,
                                               scene.depth);
                            ASSERT_EQ(device.read(), device.picture());
                            ASSERT_EQ(host.read(), host.picture());
                        }
}

TEST_F(pageable, boxes_of_arrays_arrive_whole) {
    if (!ferry_instance_get_proc(counted.get(), "cuSurfObjectCreate", 12000))
        GTEST_SKIP() << "the driver has no surfaces";
    std::mt19937_64 random(3);
    const auto up_to = [&](std::uint64_t most) { return random() % (most + 1); };
    for (const array_kind &kind : array_kinds)
        for (const texel &texel : texels) {
            ferry_array array(counted.get(), kind, texel);
            array.fill(random());
            for (int round = 0; round < 6; ++round) {
                const bool to_array = round % 2, is_synchronous = round % 3 == 0;
                SCOPED_TRACE(testing::Message()
                             << kind.name << ", texels of " << texel.size << (to_array ? ", to it" : ""));
                ferry_place there = {};
                ferry_place_array(&there, 0, array.array());
                there.x = round < 2 ? 0 : up_to(array.row_bytes / texel.size - 1) * texel.size;
                there.y = round < 2 ? 0 : up_to(array.rows - 1);
                there.z = round < 2 ? 0 : up_to(array.slices - 1);
                const std::uint64_t width = array.row_bytes - there.x, height = array.rows - there.y,
                                    depth = array.slices - there.z, pitch = width + up_to(20), rows = height + up_to(3);
                bytes host = random_bytes(pitch * rows * depth, random()), expected = host;
                ferry_place here = {};
                ferry_place_host_pitched(&here, host.data(), pitch, rows);
                ferry_copy_desc copy = to_array ? describe_copy(here, there, width, height, depth)
                                                : describe_copy(there, here, width, height, depth);
                const how options = round % 4 < 2 ? by_staging | no_kernels : by_staging;
                EXPECT_EQ(explain(copy, options, is_synchronous).route, FERRY_ROUTE_STAGED);
                ASSERT_OK(is_synchronous ? ferry_copy(counted.get(), &copy, options, nullptr)
                                         : ferry_copy_async(counted.get(), &copy, options, stream, nullptr, nullptr));
                ASSERT_OK(raw().cuStreamSynchronize(stream));
                for (std::uint64_t z = 0; z < depth; ++z)
                    for (std::uint64_t y = 0; y < height; ++y) {
                        std::byte *const in_array =
                            &array.picture[((there.z + z) * array.rows + there.y + y) * array.row_bytes + there.x];
                        std::byte *const in_host = &(to_array ? host : expected)[(z * rows + y) * pitch];
                        std::memcpy(to_array ? in_array : in_host, to_array ? in_host : in_array, width);
                    }
                ASSERT_TRUE(host == expected);
                bytes whole(array.picture.size());
                ferry_place all = {}, tight = {};
                ferry_place_array(&all, 0, array.array());
                ferry_place_host(&tight, whole.data());
                copy = describe_copy(all, tight, array.row_bytes, array.rows, array.slices);
                ASSERT_OK(ferry_copy(counted.get(), &copy, by_driver, nullptr));
                ASSERT_TRUE(whole == array.picture);
            }
        }
}

TEST_F(pageable, rows_scattered_into_pinned_memory_may_be_staged) {
    test_place device(place_kind::device, {.width = 40'000}),
        pinned(place_kind::pinned, {.width = 4, .height = 10'000, .row_pitch = 8});
    device.fill(1);
    pinned.fill(2);
    ferry_place from = device.describe(statement::stated);
    from.row_pitch = 4;
    from.slice_height = 0;
    const ferry_copy_desc copy = describe_copy(from, pinned.describe(statement::stated), 4, 10'000);
    EXPECT_EQ(explain(copy).route, FERRY_ROUTE_STAGED);
    ASSERT_OK(ferry_copy_async(counted.get(), &copy, by_staging, stream, nullptr, nullptr));
    ASSERT_OK(raw().cuStreamSynchronize(stream));
    for (std::uint64_t y = 0; y < 10'000; ++y)
        for (std::uint64_t x = 0; x < 4; ++x)
            pinned.picture_at(x, y, 0) = device.picture()[y * 4 + x];
    EXPECT_EQ(pinned.read(), pinned.picture());
}

// ---- What cannot be staged ---------------------------------------------------------------------------------------

TEST_F(pageable, a_forced_copy_that_cannot_be_staged_is_refused_with_its_reason) {
    bytes host(4096), other(4096);
    const pinned_memory pinned(4096);
    const device_memory device(4096), second(4096);
    const struct {
        std::uint64_t to, from;
        std::int32_t why;
    } rows[] = {{at(host), at(other), FERRY_OBSTACLE_HOST_TO_HOST},
                {device, second, FERRY_OBSTACLE_NOT_PAGEABLE},
                {device, reinterpret_cast<std::uintptr_t>(pinned.data()), FERRY_OBSTACLE_NOT_PAGEABLE},
                {reinterpret_cast<std::uintptr_t>(pinned.data()), device, FERRY_OBSTACLE_NOT_PAGEABLE}};
    for (const auto &row : rows) {
        ferry_error_info error = new_error();
        const ferry_copy_desc copy = line(row.to, row.from, 4096);
        expect_refusal(ferry_copy_async(counted.get(), &copy, by_staging, stream, nullptr, &error), error,
                       FERRY_ERROR_ROUTE, FERRY_SIDE_OPTIONS, FERRY_FIELD_ROUTE);
        EXPECT_EQ(error.value, static_cast<std::uint64_t>(row.why));
        EXPECT_EQ(explain(copy, {}).staged_obstacle, row.why);
        EXPECT_EQ(explain(copy, {}).route, FERRY_ROUTE_DRIVER);
        const std::uint64_t size = 4096;
        EXPECT_EQ(ferry_copy_pieces_async(counted.get(), in_arrays(&row.to, &row.from, &size, 1), by_staging, stream,
                                          nullptr, &error),
                  FERRY_ERROR_ROUTE);
        EXPECT_EQ(error.value, static_cast<std::uint64_t>(row.why)) << describe(error);
    }
    EXPECT_EQ(copy_async(device, at(host), 4096, by_kernel | no_kernels), FERRY_ERROR_ROUTE);
    for (const std::int32_t route : {FERRY_ROUTE_BUFFERED, FERRY_ROUTE_MULTILINK})
        EXPECT_EQ(copy_async(device, at(host), 4096, detail::with_route(route)), FERRY_ERROR_UNSUPPORTED);
}

TEST_F(pageable, without_kernels_or_staging_the_driver_copies_and_the_call_blocks) {
    const bytes host = random_bytes(1 << 20, 1);
    const device_memory device(host.size());
    const auto expect_by_driver = [&](std::int32_t why) {
        const ferry_explanation told = explain(line(device, at(host), host.size()), {});
        EXPECT_EQ(told.route, FERRY_ROUTE_DRIVER);
        EXPECT_EQ(told.blocks, FERRY_BLOCKS_UNTIL_STAGED);
        EXPECT_EQ(told.staged_obstacle, why);
        EXPECT_EQ(told.threads, 0u);
        driver.reset_counts();
        ASSERT_OK(copy_async(device, at(host), host.size(), {}));
        EXPECT_EQ(driver.calls("cuMemcpy3DAsync"), 1);
        EXPECT_EQ(driver.calls("cuLaunchKernel"), 0);
        ASSERT_OK(raw().cuStreamSynchronize(stream));
        EXPECT_TRUE(read_back(device, host.size()) == host);
    };
    ferry_options options = small();
    options.staging = FERRY_STAGING_NONE;
    open(options);
    expect_by_driver(FERRY_OBSTACLE_NO_STAGING);
    options = small();
    options.kernels = FERRY_KERNELS_NONE;
    open(options);
    expect_by_driver(FERRY_OBSTACLE_NOT_LOADED);
    options = small();
    driver.hide("cuLibraryLoadData");
    open(options);
    expect_by_driver(FERRY_OBSTACLE_NOT_LOADED);
    driver.heal();
}

TEST_F(pageable, without_threads_the_driver_makes_asynchronous_copies_and_the_caller_stages_synchronous_copies) {
    bytes host = random_bytes(2 << 20, 1); // so much that it would be staged
    const device_memory device(host.size());
    open(small());
    FERRY_NEEDS_REFUSED_THREADS();
    gives_threads = false;
    const ferry_explanation told = explain(line(device, at(host), host.size()), {});
    EXPECT_EQ(told.route, FERRY_ROUTE_DRIVER);
    EXPECT_EQ(told.staged_obstacle, FERRY_OBSTACLE_NO_STAGING);
    EXPECT_OK(copy_async(device, at(host), host.size(), {}));
    EXPECT_OK(raw().cuStreamSynchronize(stream));
    EXPECT_TRUE(read_back(device, host.size()) == host);
    const bytes sent = std::exchange(host, bytes(host.size()));
    const ferry_copy_desc back = line(at(host), device, host.size());
    EXPECT_OK(ferry_copy(counted.get(), &back, by_staging, nullptr));
    gives_threads = true;
    EXPECT_TRUE(host == sent);
    EXPECT_EQ(explain(line(device, at(host), host.size()), {}).route, FERRY_ROUTE_STAGED)
        << "threads can be created again";
}

// ---- Time and order ----------------------------------------------------------------------------------------------

TEST_F(pageable, calls_return_while_their_stream_is_blocked_and_copies_run_in_order) {
    const bytes from = random_bytes(2 << 20, 1);
    bytes to(from.size());
    const device_memory device(from.size());
    ASSERT_OK(copy_async(device, at(from), from.size())); // makes all that is made on first need
    ASSERT_OK(raw().cuMemsetD8Async(device, 0, from.size(), stream));
    ASSERT_OK(raw().cuStreamSynchronize(stream));
    {
        gate held(stream);
        const ferry_explanation told = explain(line(device, at(from), from.size()), {});
        EXPECT_EQ(told.blocks, FERRY_BLOCKS_NO);
        EXPECT_EQ(explain(line(device, at(from), 64), in_stream_order).route, FERRY_ROUTE_STAGED);
        ASSERT_OK(copy_async(device, at(from), from.size(), {}));
        ASSERT_OK(copy_async(at(to), device, to.size(), {}));
        ASSERT_OK(copy_async(device, at(from) + 100, 64, in_stream_order));
        EXPECT_TRUE(to == bytes(to.size())) << "nothing may run while the gate is shut";
    }
    ASSERT_OK(raw().cuStreamSynchronize(stream));
    EXPECT_TRUE(to == from);
    EXPECT_TRUE(std::equal(from.begin() + 100, from.begin() + 164, read_back(device, 64).begin()));
}

TEST_F(pageable, a_small_source_is_read_immediately_on_an_idle_stream) {
    for (const std::size_t size : {std::size_t{4096}, std::size_t{256} << 10}) {
        bytes from = random_bytes(size, 1);
        const bytes sent = from;
        const device_memory device(size);
        const ferry_copy_desc copy = line(device, at(from), size);
        ASSERT_OK(raw().cuStreamSynchronize(stream));
        EXPECT_EQ(explain(copy, {}).route, FERRY_ROUTE_DRIVER) << size;
        const bool is_short = size <= 4096; // the driver copies it into its commands
        EXPECT_EQ(explain(copy, {}).blocks, is_short ? FERRY_BLOCKS_NO : FERRY_BLOCKS_UNTIL_STAGED) << size;
        ASSERT_OK(copy_async(device, at(from), size, {}));
        ASSERT_OK(raw().cuStreamSynchronize(stream));
        EXPECT_TRUE(read_back(device, size) == sent);
        // To the host the driver waits for the copy itself.
        EXPECT_EQ(explain(line(at(from), device, size), {}).blocks, FERRY_BLOCKS_UNTIL_DONE) << size;
    }
}

TEST_F(pageable, work_before_and_after_a_copy_keeps_its_order_on_every_kind_of_stream) {
    const std::size_t size = 300'000;
    const device_memory device(size), copy_of_it(size);
    for (const CUstream on : {stream, CUstream{}, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD})
        for (int round = 1; round < 8; ++round) {
            bytes seen(size);
            const bytes sent = random_bytes(size, static_cast<std::uint64_t>(round));
            ASSERT_OK(raw().cuMemsetD8Async(device, static_cast<unsigned char>(round), size, on));
            ASSERT_OK(ferry_copy_bytes_async(counted.get(), at(seen), device, size, nullptr, on, nullptr, nullptr));
            ASSERT_OK(ferry_copy_bytes_async(counted.get(), device, at(sent), size, nullptr, on, nullptr, nullptr));
            ASSERT_OK(raw().cuMemcpyDtoDAsync(copy_of_it, device, size, on));
            ASSERT_OK(raw().cuMemsetD8Async(device, 0xff, size, on));
            ASSERT_OK(raw().cuStreamSynchronize(on));
            ASSERT_EQ(std::count(seen.begin(), seen.end(), std::byte(round)), static_cast<std::ptrdiff_t>(size));
            ASSERT_TRUE(read_back(copy_of_it, size) == sent);
        }
}

TEST_F(pageable, chains_of_copies_across_streams_carry_the_bytes) {
    const std::size_t size = 200'000;
    std::deque<test_stream> streams(5);
    std::deque<test_event> events(5);
    std::deque<bytes> stations;
    const device_memory device(size);
    stations.push_back(random_bytes(size, 1));
    for (std::size_t i = 0; i < streams.size(); ++i) {
        stations.push_back(bytes(size));
        if (i) {
            ASSERT_OK(raw().cuStreamWaitEvent(streams[i], events[i - 1], 0));
        }
        ASSERT_OK(ferry_copy_bytes_async(counted.get(), device, at(stations[i]), size, nullptr, streams[i], nullptr,
                                         nullptr));
        ASSERT_OK(ferry_copy_bytes_async(counted.get(), at(stations[i + 1]), device, size, nullptr, streams[i], nullptr,
                                         nullptr));
        ASSERT_OK(raw().cuMemsetD8Async(device, 0, size, streams[i]));
        ASSERT_OK(raw().cuEventRecord(events[i], streams[i]));
    }
    ASSERT_OK(raw().cuEventSynchronize(events.back()));
    EXPECT_TRUE(stations.back() == stations.front());
}

TEST_F(pageable, a_synchronous_copy_is_complete_when_it_returns_and_follows_the_legacy_stream) {
    const std::size_t size = 1 << 20;
    const device_memory device(size);
    const test_stream other;
    for (int round = 1; round < 6; ++round) {
        bytes seen(size);
        const bytes sent = random_bytes(size, static_cast<std::uint64_t>(round));
        ASSERT_OK(raw().cuMemsetD8Async(device, static_cast<unsigned char>(round), size, nullptr));
        const ferry_copy_desc back = line(at(seen), device, size);
        ASSERT_OK(ferry_copy(counted.get(), &back, by_staging, nullptr));
        ASSERT_EQ(std::count(seen.begin(), seen.end(), std::byte(round)), static_cast<std::ptrdiff_t>(size));
        const ferry_copy_desc there = line(device, at(sent), size);
        ASSERT_OK(ferry_copy(counted.get(), &there, by_staging, nullptr));
        const pinned_memory found(size);
        ASSERT_OK(raw().cuMemcpyDtoHAsync(found.data(), device, size, other));
        ASSERT_OK(raw().cuStreamSynchronize(other));
        ASSERT_TRUE(found.copy() == sent);
    }
}

TEST_F(pageable, new_memory_of_the_program_is_placed_in_huge_pages) {
    if (!can_have_huge_pages()) GTEST_SKIP() << "the system gives no huge pages";
    const std::size_t size = 24 << 20;
    const device_memory device(size);
    ASSERT_OK(raw().cuMemsetD8(device, 7, size));
    for (const bool is_synchronous : {true, false})
        for (const std::uint64_t pieces : {1, 2}) {
            SCOPED_TRACE(testing::Message() << is_synchronous << " " << pieces);
            const mapped_memory fresh(size);
            std::vector<ferry_copy_desc> copies;
            for (std::uint64_t i = 0; i < pieces; ++i)
                copies.push_back(line(fresh.address() + i * size / pieces, device, size / pieces));
            if (pieces == 1)
                ASSERT_OK(is_synchronous
                              ? ferry_copy(counted.get(), copies.data(), by_staging, nullptr)
                              : ferry_copy_async(counted.get(), copies.data(), by_staging, stream, nullptr, nullptr));
            else
                ASSERT_OK(is_synchronous ? ferry_copy_batch(counted.get(), copies.data(), pieces, by_staging, nullptr)
                                         : ferry_copy_batch_async(counted.get(), copies.data(), pieces, by_staging,
                                                                  stream, nullptr, nullptr));
            ASSERT_OK(raw().cuStreamSynchronize(stream));
            EXPECT_EQ(std::memcmp(fresh.data(), bytes(size, std::byte{7}).data(), size), 0);
            EXPECT_GE(huge_pages_of(fresh.data(), size).bytes, size / 2);
        }
}

TEST_F(pageable, captured_copies_run_at_each_launch) {
    const std::size_t size = 500'000;
    bytes from = random_bytes(size, 1), to(size);
    const device_memory device(size);
    captured_graph graph(stream);
    ASSERT_OK(copy_async(device, at(from), size));
    ASSERT_OK(copy_async(at(to), device, size));
    ASSERT_OK(copy_async(device, at(from), 64));
    graph.end();
    EXPECT_TRUE(to == bytes(size)) << "nothing may run before the graph is launched";
    for (std::uint64_t round = 0; round < 5; ++round) {
        const bytes drawn = random_bytes(size, round + 5);
        std::copy(drawn.begin(), drawn.end(), from.begin());
        graph.run();
        ASSERT_TRUE(to == from);
    }
}

TEST_F(pageable, copies_run_in_other_contexts_and_without_a_current_one) {
    bytes from = random_bytes(300'000, 1), to(from.size());
    const device_memory device(from.size());
    {
        const made_current none(nullptr);
        ASSERT_OK(copy_async(device, at(from), from.size()));
        ASSERT_OK(copy_async(at(to), device, to.size()));
        ASSERT_OK(raw().cuStreamSynchronize(stream));
    }
    EXPECT_TRUE(to == from);
}

// ---- Memory that is registered in part ---------------------------------------------------------------------------

TEST_F(pageable, the_registered_part_of_a_range_is_not_staged) {
    const auto page = static_cast<std::size_t>(page_size());
    const std::size_t size = 1024 * page;
    auto *const memory = static_cast<std::byte *>(allocate_aligned(size, page));
    const bytes data = random_bytes(size, 1);
    std::copy(data.begin(), data.end(), memory);
    const device_memory device(size);
    const auto base = reinterpret_cast<std::uintptr_t>(memory);
    ASSERT_OK(copy_async(device, base, size)); // loads the kernels, which waits for held streams
    ASSERT_OK(raw().cuStreamSynchronize(stream));
    for (const std::size_t first : {std::size_t{0}, 300 * page}) {
        ASSERT_OK(ferry_host_register(counted.get(), memory + first, 30 * page, 0, nullptr));
        for (const bool is_synchronous : {false, true}) {
            ASSERT_OK(raw().cuMemsetD8(device, 0, size));
            ASSERT_OK(raw().cuCtxSynchronize());
            const ferry_copy_desc there = line(device, base, size), back = line(base, device, size);
            std::optional<gate> held; // behind it, asynchronous copies are staged
            if (!is_synchronous) held.emplace(stream);
            const std::uint32_t parts = first ? 3 : 2;
            const ferry_explanation told = explain(there, {}, is_synchronous);
            // One driver call may run on from pageable into registered memory.
            const bool is_one_call = first && told.route == FERRY_ROUTE_DRIVER;
            EXPECT_EQ(told.calls, is_one_call ? 1 : parts);
            EXPECT_TRUE(is_synchronous || told.route == FERRY_ROUTE_STAGED);
            driver.reset_counts();
            ASSERT_OK(is_synchronous ? ferry_copy(counted.get(), &there, nullptr, nullptr)
                                     : ferry_copy_async(counted.get(), &there, nullptr, stream, nullptr, nullptr));
            if (!is_synchronous) {
                // If kernels were recently delayed, copy-engine copies stage the parts.
                const int kernels = driver.calls("cuLaunchKernel");
                EXPECT_TRUE(kernels == static_cast<int>(parts) - 1 || driver.calls("cuStreamBatchMemOp") != 0);
                if (driver.calls("cuStreamBatchMemOp") == 0) {
                    // The driver refuses a copy that begins in registered memory, on the short path and again.
                    EXPECT_EQ(driver.calls("cuMemcpy3DAsync"), first ? 1 : 3);
                }
            }
            held.reset();
            ASSERT_OK(raw().cuStreamSynchronize(stream));
            EXPECT_TRUE(read_back(device, size) == data);
            std::fill(memory, memory + size, std::byte{0});
            ASSERT_OK(is_synchronous ? ferry_copy(counted.get(), &back, nullptr, nullptr)
                                     : ferry_copy_async(counted.get(), &back, nullptr, stream, nullptr, nullptr));
            ASSERT_OK(raw().cuStreamSynchronize(stream));
            EXPECT_TRUE(std::equal(data.begin(), data.end(), memory));
        }
        ASSERT_OK(ferry_host_unregister(counted.get(), memory + first, nullptr));
    }
    free_aligned(memory);
}

// ---- Options -----------------------------------------------------------------------------------------------------

void set_niceness(ferry_options &options, std::int32_t niceness) {
    options.staging_priority = FERRY_STAGING_PRIORITY_NICENESS;
    options.staging_niceness = niceness;
}

TEST_F(pageable, wrong_options_are_refused_by_name) {
    const std::int32_t processors[] = {0, -1}, one = 0;
    const struct {
        std::function<void(ferry_options &)> set;
        std::int32_t field;
    } rows[] = {
        {[](ferry_options &options) { options.staging = 3; }, FERRY_FIELD_STAGING},
        {[](ferry_options &options) { options.staging = -1; }, FERRY_FIELD_STAGING},
        {[](ferry_options &options) { options.staging_threads = 65; }, FERRY_FIELD_STAGING_THREADS},
        {[](ferry_options &options) { options.staging_priority = 3; }, FERRY_FIELD_STAGING_PRIORITY},
        {[](ferry_options &options) { options.staging_priority = -1; }, FERRY_FIELD_STAGING_PRIORITY},
        {[](ferry_options &options) { options.staging_niceness = 1; }, FERRY_FIELD_STAGING_NICENESS},
        {[](ferry_options &options) { set_niceness(options, 20); }, FERRY_FIELD_STAGING_NICENESS},
        {[](ferry_options &options) { set_niceness(options, -21); }, FERRY_FIELD_STAGING_NICENESS},
        {[](ferry_options &options) { options.staging_bytes = 4095; }, FERRY_FIELD_STAGING_BYTES},
        {[](ferry_options &options) { options.staging_bytes = (1ull << 30) + 1; }, FERRY_FIELD_STAGING_BYTES},
        {[](ferry_options &options) { options.staging_cpu_count = 1; }, FERRY_FIELD_STAGING_CPU_COUNT},
        {[&](ferry_options &options) { options.staging_cpus = &one; }, FERRY_FIELD_STAGING_CPU_COUNT},
        {[&](ferry_options &options) { options.staging_cpus = processors, options.staging_cpu_count = 2; },
         FERRY_FIELD_STAGING_CPUS},
        {[](ferry_options &options) { options.staging_numa = FERRY_NUMA_DEVICE; }, FERRY_FIELD_STAGING_NUMA},
        {[](ferry_options &options) { options.staging_numa = FERRY_NUMA_NODE, options.staging_numa_node = -1; },
         FERRY_FIELD_STAGING_NUMA_NODE},
    };
    for (const auto &row : rows) {
        ferry_options options = small();
        row.set(options);
        ferry_instance *opened = nullptr;
        ferry_error_info error = new_error();
        expect_refusal(ferry_open(&options, &opened, &error), error, FERRY_ERROR_INVALID_ARGUMENT, FERRY_SIDE_OPTIONS,
                       row.field);
        EXPECT_EQ(opened, nullptr);
    }
}

bool within_ten_seconds(const std::function<bool()> &happens) {
    const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!happens()) {
        if (std::chrono::steady_clock::now() > patience) return false;
        std::this_thread::yield();
    }
    return true;
}

TEST_F(pageable, options_choose_the_threads_and_the_ring_size) {
    const std::int32_t processors[] = {0, 1};
    program_threads own;
    const std::function<void(ferry_options &)> choices[] = {
        [](ferry_options &options) { options.staging_threads = 1; },
        [](ferry_options &options) { options.staging_bytes = 4096; },
        [](ferry_options &options) { options.staging_bytes = 0; },
        [](ferry_options &options) { options.staging = FERRY_STAGING_AT_OPEN; },
        [](ferry_options &options) { set_niceness(options, 5); },
        [&](ferry_options &options) { options.staging_cpus = processors, options.staging_cpu_count = 2; },
        [](ferry_options &options) { options.staging_numa = FERRY_NUMA_NODE; },
        [&](ferry_options &options) { options.submit = program_threads::submit, options.submit_user = &own; },
    };
    for (const auto &choose : choices) {
        SCOPED_TRACE(&choose - choices);
        ferry_options options = small();
        choose(options);
        open(options);
        bytes from = random_bytes(400'000, 1), to(from.size());
        const device_memory device(from.size());
        ASSERT_OK(copy_async(device, at(from), from.size()));
        ASSERT_OK(copy_async(at(to), device, to.size()));
        ASSERT_OK(raw().cuStreamSynchronize(stream));
        EXPECT_TRUE(to == from);
        EXPECT_EQ(explain(line(device, at(from), from.size())).threads, options.staging_threads);
    }
    counted.reset();
    EXPECT_GT(own.asked, 0);
}

TEST_F(pageable, staging_buffers_of_every_size_serve_copies_without_a_kernel) {
    const bytes from = random_bytes(300'000, 1);
    const device_memory device(from.size());
    for (const std::uint64_t size : {4096, 8192, 12288, 16384, 65536}) {
        SCOPED_TRACE(size);
        ferry_options options = small();
        options.staging_bytes = size;
        open(options);
        ferry_report report = {};
        report.struct_size = sizeof report;
        ASSERT_OK(ferry_instance_get_report(counted.get(), &report, nullptr));
        EXPECT_GE(report.staging_bytes, 8192u) << "a slot stays for other copies";
        for (const std::uint64_t length : {std::uint64_t{64}, std::uint64_t{10'000}, from.size()})
            for (int round = 0; round < 4; ++round) {
                bytes to(length);
                ASSERT_OK(copy_async(device, at(from), length, by_staging | no_kernels));
                ASSERT_OK(raw().cuStreamSynchronize(stream));
                ASSERT_OK(copy_async(at(to), device, length, by_staging | no_kernels));
                ASSERT_OK(raw().cuStreamSynchronize(stream));
                EXPECT_TRUE(std::equal(to.begin(), to.end(), from.begin()));
            }
    }
}

// FERRY_ERROR_LIMIT would say that the call can be repeated.
TEST_F(pageable, a_copy_of_too_many_chunks_for_staging_without_a_kernel_is_refused_as_such) {
    ferry_options options = small();
    options.staging_bytes = 4096;
    open(options);
    constexpr std::uint64_t slot = 4096, most = 512, wide = slot / 2 + 2; // rows of which a slot holds one
    const bytes from(most * slot + 1);
    const device_memory device(from.size());
    const struct {
        std::uint64_t width, height;
        bool is_served;
    } boxes[] = {{most * slot, 1, true}, {most * slot + 1, 1, false}, {wide, most, true}, {wide, most + 1, false}};
    for (const auto &[width, height, is_served] : boxes) {
        SCOPED_TRACE(testing::Message() << width << " x " << height);
        ferry_copy_desc copy = line(device, at(from), width);
        copy.height = height;
        copy.source.row_pitch = height > 1 ? width + 2 : 0;
        for (const bool is_forced : {true, false}) {
            const how options = is_forced ? by_staging | no_kernels : no_kernels;
            const std::int32_t expected = is_served || !is_forced ? FERRY_SUCCESS : FERRY_ERROR_ROUTE;
            ferry_explanation explanation = new_explanation();
            EXPECT_EQ(ferry_copy_explain_async(counted.get(), &copy, options, stream, &explanation, nullptr), expected);
            EXPECT_EQ(ferry_copy_async(counted.get(), &copy, options, stream, nullptr, nullptr), expected);
            ASSERT_OK(raw().cuStreamSynchronize(stream));
        }
    }
}

TEST_F(pageable, every_kind_of_copy_arrives_although_submit_runs_work_itself) {
    for (const auto is_full : {program_threads::always, program_threads::sometimes})
        for (const std::uint64_t budget : {std::uint64_t{64} << 10, std::uint64_t{0}}) {
            program_threads own(1);
            own.is_full = is_full;
            ferry_options options = small();
            options.staging_bytes = budget;
            options.copy_options = by_staging;
            options.submit = program_threads::submit;
            options.submit_user = &own;
            open(options);
            constexpr std::uint64_t pieces = 50, size = 20'000;
            const bytes from = random_bytes(pieces * size, 1);
            bytes to(from.size()), on_device;
            const device_memory device(from.size());
            piece_batch up, down;
            for (std::uint64_t i = 0; i < pieces; ++i) {
                const auto first = from.end() - static_cast<std::ptrdiff_t>((i + 1) * size);
                on_device.insert(on_device.end(), first, first + static_cast<std::ptrdiff_t>(size));
                up.add(device + i * size, at(from) + (pieces - 1 - i) * size, size);
                down.add(at(to) + (pieces - 1 - i) * size, device + i * size, size);
            }
            const auto expect_copied = [&] {
                EXPECT_TRUE(to == from);
                std::fill(to.begin(), to.end(), std::byte{});
            };
            ASSERT_OK(up.copy_async(counted.get(), stream));
            ASSERT_OK(down.copy_async(counted.get(), stream));
            ASSERT_OK(raw().cuStreamSynchronize(stream));
            expect_copied();
            ASSERT_OK(up.copy(counted.get()));
            ASSERT_OK(down.copy(counted.get()));
            expect_copied();
            ASSERT_OK(ferry_copy_bytes(counted.get(), device, at(from), from.size(), nullptr, nullptr));
            ASSERT_OK(ferry_copy_bytes(counted.get(), at(to), device, to.size(), nullptr, nullptr));
            expect_copied();
            ferry_prepared *prepared = nullptr;
            ASSERT_OK(down.prepare(counted.get(), stream, {}, &prepared));
            ASSERT_OK(up.copy_async(counted.get(), stream));
            ASSERT_OK(ferry_prepared_launch(prepared, nullptr, stream, nullptr, nullptr));
            ASSERT_OK(raw().cuStreamSynchronize(stream));
            expect_copied();
            ASSERT_OK(ferry_prepared_destroy(prepared, nullptr));
            ferry_ticket *ticket = nullptr;
            const ferry_copy_desc copy = line(at(to), device, to.size());
            for (const how &staged : {by_staging, by_staging | no_kernels, by_staging | written_in_the_call}) {
                ASSERT_OK(up.copy_async(counted.get(), stream));
                ASSERT_OK(ferry_copy_async(counted.get(), &copy, staged, stream, &ticket, nullptr));
                ASSERT_OK(ferry_ticket_wait(ticket, FERRY_NO_TIMEOUT, nullptr));
                ASSERT_OK(ferry_ticket_release(ticket, nullptr));
                EXPECT_TRUE(to == on_device);
            }
            ASSERT_OK(raw().cuStreamSynchronize(stream));
            counted.reset();
            EXPECT_GT(own.submitted, 0);
        }
}

// ---- Batches -----------------------------------------------------------------------------------------------------

TEST_F(pageable, pieces_and_boxes_of_a_batch_do_not_block_and_arrive) {
    constexpr std::uint64_t pieces = 12, size = 40'000;
    const device_memory device(pieces * size);
    bytes from = random_bytes(pieces * size, 1), to(from.size());
    piece_batch there;
    std::vector<ferry_copy_desc> boxes;
    for (std::uint64_t i = 0; i < pieces; ++i) {
        there.add(device + i * size, at(from) + i * size, size - i);
        ferry_copy_desc box = line(at(to) + i * size, device + i * size, 100);
        box.destination.row_pitch = box.source.row_pitch = 200;
        box.height = 100;
        boxes.push_back(box);
    }
    const auto expect_all = [&] {
        EXPECT_TRUE(read_back(device, 1000) == bytes(from.begin(), from.begin() + 1000));
        for (std::uint64_t i = 0; i < pieces; ++i)
            for (std::uint64_t y = 0; y < 100; ++y)
                ASSERT_EQ(std::memcmp(&to[i * size + y * 200], &from[i * size + y * 200], 100), 0) << i << ", " << y;
    };
    ASSERT_OK(copy_async(at(to), device, 1)); // makes everything that is made on first need
    for (const how &options : {how(), by_staging}) {
        SCOPED_TRACE(testing::Message() << options);
        for (const bool is_synchronous : {false, true}) {
            ASSERT_OK(raw().cuMemsetD8Async(device, 0, pieces * size, stream));
            ASSERT_OK(raw().cuStreamSynchronize(stream));
            std::fill(to.begin(), to.end(), std::byte{0});
            if (is_synchronous) {
                ASSERT_OK(there.copy(counted.get(), options));
                ASSERT_OK(ferry_copy_batch(counted.get(), boxes.data(), boxes.size(), options, nullptr));
            } else {
                gate held(stream);
                ASSERT_OK(there.copy_async(counted.get(), stream, options));
                ASSERT_OK(ferry_copy_batch_async(counted.get(), boxes.data(), boxes.size(), options, stream, nullptr,
                                                 nullptr));
            }
            ASSERT_OK(raw().cuStreamSynchronize(stream));
            expect_all();
        }
        // The same as prepared batches, on streams and in graphs.
        ferry_prepared *prepared = nullptr, *prepared_boxes = nullptr;
        ASSERT_OK(there.prepare(counted.get(), stream, options, &prepared));
        ASSERT_OK(ferry_prepared_create(counted.get(), boxes.data(), boxes.size(), options, stream, &prepared_boxes,
                                        nullptr));
        {
            captured_graph graph(stream);
            ASSERT_OK(ferry_prepared_launch(prepared, nullptr, stream, nullptr, nullptr));
            ASSERT_OK(ferry_prepared_launch(prepared_boxes, nullptr, stream, nullptr, nullptr));
            graph.end();
            for (std::uint64_t round = 0; round < 3; ++round) {
                const bytes drawn = random_bytes(from.size(), round + 9);
                std::copy(drawn.begin(), drawn.end(), from.begin());
                graph.run();
                expect_all();
            }
        }
        ASSERT_OK(ferry_prepared_launch(prepared_boxes, nullptr, stream, nullptr, nullptr));
        ASSERT_OK(raw().cuStreamSynchronize(stream));
        EXPECT_OK(ferry_prepared_destroy(prepared, nullptr));
        EXPECT_OK(ferry_prepared_destroy(prepared_boxes, nullptr));
    }
}

// ---- Tickets -----------------------------------------------------------------------------------------------------

ferry_ticket_info look_at(ferry_ticket *ticket) {
    ferry_ticket_info info = {};
    info.struct_size = sizeof info;
    EXPECT_OK(ferry_ticket_get_info(ticket, &info, nullptr));
    return info;
}

TEST_F(pageable, tickets_report_the_progress_of_a_copy_on_every_route) {
    const std::uint64_t size = 500'000;
    bytes host = random_bytes(size, 1);
    const pinned_memory pinned(size);
    const device_memory device(size), other(size);
    const struct {
        std::uint64_t to, from;
        how options;
        std::int32_t route;
    } rows[] = {{device, at(host), {}, FERRY_ROUTE_STAGED},
                {at(host), device, {}, FERRY_ROUTE_STAGED},
                {device, reinterpret_cast<std::uintptr_t>(pinned.data()), {}, FERRY_ROUTE_DRIVER},
                {device, other, by_kernel, FERRY_ROUTE_KERNEL}};
    ASSERT_OK(copy_async(device, other, size, by_kernel)); // makes everything that is made on first need
    ASSERT_OK(copy_async(at(host), device, 1));
    for (const auto &row : rows) {
        SCOPED_TRACE(row.route);
        const ferry_copy_desc copy = line(row.to, row.from, size);
        ferry_ticket *ticket = nullptr, *early = nullptr;
        {
            gate held(stream);
            ASSERT_OK(ferry_copy_async(counted.get(), &copy, row.options, stream, &ticket, nullptr));
            ASSERT_OK(ferry_copy_async(counted.get(), &copy, row.options, stream, &early, nullptr));
            const ferry_ticket_info info = look_at(ticket);
            EXPECT_EQ(info.done, 0);
            EXPECT_EQ(info.bytes_done, 0u);
            EXPECT_EQ(info.bytes_total, size);
            EXPECT_EQ(info.route, row.route);
            EXPECT_OK(ferry_ticket_release(early, nullptr)); // the copy continues
        }
        EXPECT_OK(ferry_ticket_wait(ticket, FERRY_NO_TIMEOUT, nullptr));
        const ferry_ticket_info info = look_at(ticket);
        EXPECT_EQ(info.done, 1);
        EXPECT_OK(info.status);
        EXPECT_EQ(info.bytes_done, size);
        EXPECT_OK(ferry_ticket_release(ticket, nullptr));
        ASSERT_OK(raw().cuStreamSynchronize(stream));
    }
}

TEST_F(pageable, tickets_of_empty_copies_are_done_and_impossible_tickets_are_refused) {
    bytes host(4096);
    const device_memory device(4096);
    ferry_copy_desc copy = line(device, at(host), 0);
    ferry_ticket *ticket = nullptr;
    ASSERT_OK(ferry_copy_async(counted.get(), &copy, by_staging, stream, &ticket, nullptr));
    EXPECT_EQ(look_at(ticket).done, 1);
    EXPECT_EQ(look_at(ticket).bytes_total, 0u);
    EXPECT_OK(ferry_ticket_wait(ticket, FERRY_NO_TIMEOUT, nullptr));
    EXPECT_OK(ferry_ticket_release(ticket, nullptr));
    EXPECT_OK(ferry_ticket_release(nullptr, nullptr));
    copy.width = 4096;
    {
        captured_graph graph(stream);
        EXPECT_EQ(ferry_copy_async(counted.get(), &copy, by_staging, stream, &ticket, nullptr), FERRY_ERROR_CAPTURE);
        EXPECT_EQ(ticket, nullptr);
        ASSERT_OK(copy_async(device, at(host), 4096));
        graph.end();
        graph.run();
    }
    copy.source.kind = 99;
    ferry_error_info error = new_error();
    expect_refusal(ferry_copy_async(counted.get(), &copy, by_staging, stream, &ticket, &error), error, FERRY_ERROR_KIND,
                   FERRY_SIDE_SOURCE, FERRY_FIELD_KIND);
    EXPECT_EQ(ferry_ticket_get_info(nullptr, nullptr, nullptr), FERRY_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(ferry_ticket_wait(nullptr, FERRY_NO_TIMEOUT, nullptr), FERRY_ERROR_INVALID_ARGUMENT);
    ferry_ticket_info cut = {};
    cut.struct_size = 4;
    copy.source.kind = 0;
    ASSERT_OK(ferry_copy_async(counted.get(), &copy, by_staging, stream, &ticket, nullptr));
    EXPECT_EQ(ferry_ticket_get_info(ticket, &cut, nullptr), FERRY_ERROR_ABI_MISMATCH);
    EXPECT_OK(ferry_ticket_wait(ticket, FERRY_NO_TIMEOUT, nullptr));
    EXPECT_OK(ferry_ticket_release(ticket, nullptr));
}

TEST_F(pageable, a_ticket_can_be_queried_while_a_free_in_another_thread_waits_for_its_copy) {
    bytes host = random_bytes(500'000, 1);
    const device_memory device(host.size());
    program_threads own;
    ferry_options options = small();
    options.submit = program_threads::submit;
    options.submit_user = &own;
    open(options);
    ASSERT_OK(copy_async(device, at(host), host.size())); // makes everything that is made on first need
    ASSERT_OK(raw().cuStreamSynchronize(stream));
    EXPECT_TRUE(within_ten_seconds([&] { return own.is_idle(); }));
    own.hold(true);
    const ferry_copy_desc copy = line(device, at(host), host.size());
    ferry_ticket *ticket = nullptr;
    ASSERT_OK(ferry_copy_async(counted.get(), &copy, by_staging, stream, &ticket, nullptr));
    EXPECT_TRUE(within_ten_seconds([&] { return own.jobs_waiting() != 0; }));
    {
        waiting_free free;
        EXPECT_TRUE(returns_beside(free, [ticket] {
            const ferry_ticket_info info = look_at(ticket);
            EXPECT_EQ(info.done, 0);
            EXPECT_EQ(info.bytes_done, 0u);
        }));
        own.hold(false);
    }
    EXPECT_OK(ferry_ticket_wait(ticket, FERRY_NO_TIMEOUT, nullptr));
    EXPECT_OK(ferry_ticket_release(ticket, nullptr));
    counted.reset();
}

TEST_F(pageable, while_bytes_arrive_querying_a_ticket_does_not_call_the_driver) {
    bytes host = random_bytes(std::uint64_t{64} << 20, 1);
    const device_memory device(host.size());
    const ferry_copy_desc copy = line(device, at(host), host.size());
    int advances = 0;
    // On a busy machine a copy may pass while this thread does not run.
    EXPECT_TRUE(within_ten_seconds([&] {
        ferry_ticket *ticket = nullptr;
        EXPECT_OK(ferry_copy_async(counted.get(), &copy, by_staging, stream, &ticket, nullptr));
        driver.reset_counts();
        int queries = 0;
        for (std::uint64_t bytes_done = 0;;) {
            const ferry_ticket_info info = look_at(ticket);
            if (info.done) break;
            ++queries;
            advances += info.bytes_done != bytes_done;
            bytes_done = info.bytes_done;
            std::this_thread::yield();
        }
        // A query that sees progress saves one driver call: its own or the call of the next query.
        EXPECT_LE(driver.calls("cuEventQuery"), queries - advances + 2);
        EXPECT_OK(ferry_ticket_release(ticket, nullptr));
        return advances > 0;
    }));
}

// ---- Memory ------------------------------------------------------------------------------------------------------

ferry_staging_info staging_of(const instance_owner &instance) {
    ferry_staging_info info = {};
    info.struct_size = sizeof info;
    EXPECT_OK(ferry_staging_get_info(instance.get(), &info, nullptr));
    return info;
}

TEST_F(pageable, the_staging_buffer_is_allocated_on_first_need_and_released_on_request) {
    const bytes host = random_bytes(300'000, 1);
    const device_memory device(host.size());
    EXPECT_EQ(staging_of(counted).threads, 0u);
    EXPECT_EQ(staging_of(counted).staging_bytes, 0u);
    for (int round = 0; round < 3; ++round) {
        ASSERT_OK(copy_async(device, at(host), host.size()));
        ASSERT_OK(raw().cuStreamSynchronize(stream));
        EXPECT_TRUE(read_back(device, host.size()) == host);
        EXPECT_EQ(staging_of(counted).threads, 3u);
        EXPECT_GT(staging_of(counted).staging_bytes, 0u);
        EXPECT_LE(staging_of(counted).staging_bytes, std::uint64_t{300} << 10);
        // The kernel of the last copy may not have ended yet, and slots may still be added.
        const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(10);
        while (staging_of(counted).staging_bytes && std::chrono::steady_clock::now() < patience) {
            EXPECT_OK(ferry_staging_trim(counted.get(), nullptr));
            std::this_thread::yield();
        }
        EXPECT_EQ(staging_of(counted).staging_bytes, 0u);
    }
    ferry_options options = small();
    options.staging = FERRY_STAGING_AT_OPEN;
    open(options);
    EXPECT_EQ(staging_of(counted).threads, 3u);
    EXPECT_GT(staging_of(counted).staging_bytes, 0u);
    EXPECT_EQ(ferry_staging_trim(nullptr, nullptr), FERRY_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(ferry_staging_get_info(counted.get(), nullptr, nullptr), FERRY_ERROR_INVALID_ARGUMENT);
}

// Otherwise the rest would be allocated beside the first copies, which wait for the driver meanwhile.
TEST_F(pageable, prepared_staging_has_all_of_its_memory) {
    for (const bool at_open : {false, true})
        for (int round = 0; round < 10; ++round) {
            ferry_options options = small();
            options.staging_bytes = 8 << 20;
            if (at_open) options.staging = FERRY_STAGING_AT_OPEN;
            open(options);
            if (!at_open) {
                ASSERT_OK(ferry_staging_prepare(counted.get(), 0, nullptr));
            }
            ASSERT_GE(staging_of(counted).staging_bytes, options.staging_bytes);
        }
}

TEST_F(pageable, the_first_copy_after_preparation_creates_nothing) {
    const bytes host = random_bytes(300'000, 1);
    const device_memory device(host.size());
    open(small());
    ASSERT_OK(ferry_staging_prepare(counted.get(), 0, nullptr));
    driver.reset_counts();
    ASSERT_OK(copy_async(device, at(host), host.size())); // on an idle stream
    ASSERT_OK(raw().cuStreamSynchronize(stream));
    EXPECT_GE(driver.calls("cuLaunchKernel"), 1);
    for (const char *const call : {"cuStreamCreateWithPriority", "cuEventCreate", "cuMemHostAlloc", "cuMemHostRegister",
                                   "cuLibraryLoadData", "cuKernelGetFunction"})
        EXPECT_EQ(driver.calls(call), 0) << call;
}

TEST_F(pageable, pinned_memory_that_the_driver_fails_to_free_stays_in_use) {
    const bytes host = random_bytes(300'000, 1);
    const device_memory device(host.size());
    for (const char *const entry : {"cuThreadExchangeStreamCaptureMode", "cuMemHostUnregister", "cuMemFreeHost",
                                    "cuCtxGetCurrent", "cuCtxPushCurrent"})
        for (int nth = 1; nth <= 4; ++nth) {
            SCOPED_TRACE(testing::Message() << entry << ", call " << nth);
            counted.reset();
            driver.reset_counts();
            open(small());
            ASSERT_OK(copy_async(device, at(host), host.size()));
            ASSERT_OK(raw().cuStreamSynchronize(stream));
            const auto trim_all = [&] { // slots may still be added, and the last kernel may not have ended
                const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(10);
                while (staging_of(counted).staging_bytes && std::chrono::steady_clock::now() < patience) {
                    const std::int32_t status = ferry_staging_trim(counted.get(), nullptr);
                    if (status) return status;
                    std::this_thread::yield();
                }
                return std::int32_t{FERRY_SUCCESS};
            };
            const int before = driver.calls(entry);
            driver.fail(entry, CUDA_ERROR_NOT_PERMITTED, nth);
            const std::int32_t status = trim_all();
            const bool is_reached = driver.calls(entry) - before >= nth;
            driver.heal();
            CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL; // the failed call may have left it changed
            EXPECT_OK(raw().cuThreadExchangeStreamCaptureMode(&mode));
            if (status) {
                EXPECT_GT(staging_of(counted).staging_bytes, 0u);
            }
            ASSERT_OK(copy_async(device, at(host), host.size()));
            ASSERT_OK(raw().cuStreamSynchronize(stream));
            EXPECT_TRUE(read_back(device, host.size()) == host);
            EXPECT_OK(trim_all());
            EXPECT_EQ(staging_of(counted).staging_bytes, 0u);
            counted.reset();
            const auto failed = [&](const char *which) { return is_reached && std::string(which) == entry; };
            EXPECT_EQ(driver.calls("cuMemHostRegister") + driver.calls("cuMemHostAlloc"),
                      driver.calls("cuMemHostUnregister") - failed("cuMemHostUnregister") +
                          driver.calls("cuMemFreeHost") - failed("cuMemFreeHost"));
        }
}

TEST_F(pageable, everything_the_first_copy_needs_can_be_made_in_advance) {
    const bytes host = random_bytes(300'000, 1);
    const device_memory device(host.size());
    ASSERT_OK(ferry_staging_prepare(counted.get(), 0, nullptr));
    EXPECT_EQ(staging_of(counted).threads, 3u);
    EXPECT_GT(staging_of(counted).staging_bytes, 0u);
    {
        const test_stream other;
        gate held(other); // loading kernels would wait for it
        ASSERT_OK(copy_async(device, at(host), host.size()));
        ASSERT_OK(ferry_staging_prepare(counted.get(), 0, nullptr)) << "everything is made already";
    }
    ASSERT_OK(raw().cuStreamSynchronize(stream));
    EXPECT_TRUE(read_back(device, host.size()) == host);
    EXPECT_EQ(ferry_staging_prepare(counted.get(), device_count(), nullptr), FERRY_ERROR_DEVICE);
    EXPECT_EQ(ferry_staging_prepare(counted.get(), -1, nullptr), FERRY_ERROR_DEVICE);
    EXPECT_EQ(ferry_staging_prepare(nullptr, 0, nullptr), FERRY_ERROR_INVALID_ARGUMENT);

    FERRY_NEEDS_REFUSED_THREADS();
    gives_threads = false;
    open(small());
    EXPECT_EQ(ferry_staging_prepare(counted.get(), 0, nullptr), FERRY_ERROR_OUT_OF_MEMORY);
    gives_threads = true;
    EXPECT_OK(ferry_staging_prepare(counted.get(), 0, nullptr));
    for (const bool leaves_out_kernels : {true, false}) {
        ferry_options options = small();
        if (leaves_out_kernels)
            options.kernels = FERRY_KERNELS_NONE;
        else
            options.staging = FERRY_STAGING_NONE;
        open(options);
        ferry_error_info error = new_error();
        expect_refusal(ferry_staging_prepare(counted.get(), 0, &error), error, FERRY_ERROR_UNSUPPORTED, FERRY_SIDE_NONE,
                       FERRY_FIELD_STAGING);
        EXPECT_EQ(error.numbers, FERRY_NUMBERS_OBSTACLE) << describe(error);
        EXPECT_EQ(error.value, std::uint64_t{FERRY_OBSTACLE_NO_STAGING}) << describe(error);
        EXPECT_EQ(staging_of(counted).threads, 0u);
    }
}

TEST_F(pageable, copies_in_flight_are_counted_until_they_have_ended) {
    constexpr std::uint64_t size = 3'000'001, rows = 1000, row = 100;
    bytes host(size);
    const device_memory device(size);
    const auto expect_in_flight = [&](std::uint32_t copies, std::uint64_t bytes_left) {
        const ferry_staging_info info = staging_of(counted);
        EXPECT_EQ(info.copies_in_flight, copies);
        EXPECT_EQ(info.bytes_in_flight, bytes_left);
        EXPECT_EQ(info.busy_threads, 0u);
    };
    expect_in_flight(0, 0);
    ASSERT_OK(copy_async(device, at(host), size)); // makes everything that is made on first need
    ASSERT_OK(raw().cuStreamSynchronize(stream));
    expect_in_flight(0, 0);
    {
        gate held(stream);
        ASSERT_OK(copy_async(device, at(host), size));
        expect_in_flight(1, size);
        ferry_copy_desc apart = line(at(host), device, row);
        apart.height = rows;
        apart.source.row_pitch = apart.destination.row_pitch = 2 * row;
        ASSERT_OK(ferry_copy_async(counted.get(), &apart, by_staging, stream, nullptr, nullptr));
        expect_in_flight(2, size + rows * row);
        ferry_ticket *ticket = nullptr;
        const ferry_copy_desc back = line(at(host), device, 70'000);
        ASSERT_OK(ferry_copy_async(counted.get(), &back, by_staging, stream, &ticket, nullptr));
        EXPECT_OK(ferry_ticket_release(ticket, nullptr));
        expect_in_flight(3, size + rows * row + 70'000);
    }
    ASSERT_OK(raw().cuStreamSynchronize(stream));
    expect_in_flight(0, 0);
    EXPECT_TRUE(within_ten_seconds([&] {
        EXPECT_OK(copy_async(device, at(host), size));
        ferry_staging_info info = {};
        do
            info = staging_of(counted);
        while (info.copies_in_flight && !info.busy_threads);
        EXPECT_LE(info.busy_threads, info.threads);
        EXPECT_OK(raw().cuStreamSynchronize(stream));
        return info.busy_threads != 0;
    })) << "among many copies, a busy thread is seen at least once";
    expect_in_flight(0, 0);
}

TEST_F(pageable, a_copy_in_a_graph_is_in_flight_only_while_it_runs) {
    constexpr std::uint64_t size = 1'000'000;
    const bytes host(size);
    const device_memory device(size);
    program_threads own;
    ferry_options options = small();
    options.submit = program_threads::submit;
    options.submit_user = &own;
    open(options);
    const auto expect_in_flight = [&](std::uint32_t copies, std::uint64_t bytes_left) {
        EXPECT_EQ(staging_of(counted).copies_in_flight, copies);
        EXPECT_EQ(staging_of(counted).bytes_in_flight, bytes_left);
    };
    own.hold(true);
    {
        captured_graph graph(stream);
        ASSERT_OK(copy_async(device, at(host), size));
        graph.end();
        expect_in_flight(0, 0);
        for (int round = 0; round < 2; ++round) {
            ASSERT_OK(raw().cuGraphLaunch(graph.executable, stream));
            EXPECT_TRUE(within_ten_seconds([&] { return staging_of(counted).copies_in_flight != 0; }));
            expect_in_flight(1, size);
            own.hold(false);
            ASSERT_OK(raw().cuStreamSynchronize(stream));
            expect_in_flight(0, 0);
            EXPECT_TRUE(within_ten_seconds([&] { return own.is_idle(); }));
            own.hold(true);
        }
    }
    ASSERT_OK(copy_async(device, at(host), size));
    expect_in_flight(1, size);
    own.hold(false);
    ASSERT_OK(raw().cuStreamSynchronize(stream));
    expect_in_flight(0, 0);
    counted.reset();
}

// ---- Threads of ferry's own --------------------------------------------------------------------------------------

// A page of the program that its own fault handler makes accessible, as write barriers do.
class guarded_page {
public:
    guarded_page(const mapped_memory &memory, std::size_t offset, bool is_read)
        : memory_(memory), offset_(offset), handler_([this](std::byte *at) { return open_page(at); }) {
        memory_.allow(offset, size_, is_read ? page_access::none : page_access::read);
    }
    guarded_page(const guarded_page &) = delete;
    int faults() const { return faults_; }

private:
    bool open_page(const std::byte *at) {
        const std::byte *const page = memory_.data() + offset_;
        if (at < page || at >= page + size_) return false;
        ++faults_;
        memory_.allow(offset_, size_, page_access::read_write);
        return true;
    }

    const mapped_memory &memory_;
    const std::size_t offset_, size_ = page_size();
    std::atomic<int> faults_ = 0;
    fault_handler handler_; // last: it uses the members above
};

class faults : public pageable {
protected:
    // A `Page` is closed when it is made, and its handler opens it.
    template <class Page> void expect_copies_to_open_a_page() {
        constexpr std::size_t size = 1 << 20;
        const device_memory device(size);
        for (const how &options : {by_staging, by_driver})
            for (const bool to_device : both_ways) {
                // On a GPU the driver copies in its own way.
                if (options == by_driver && !on_software_driver()) continue;
                SCOPED_TRACE(testing::Message() << (to_device ? "to" : "from") << " the device, " << options);
                const mapped_memory host(size);
                std::memset(host.data(), 1, size);
                ASSERT_OK(raw().cuMemsetD8(device, 2, size));
                ASSERT_OK(raw().cuCtxSynchronize());
                {
                    const Page closed(host, size / 2, to_device);
                    ASSERT_OK(copy_async(to_device ? std::uint64_t{device} : host.address(),
                                         to_device ? host.address() : std::uint64_t{device}, size, options));
                    ASSERT_OK(raw().cuStreamSynchronize(stream));
                    EXPECT_GT(closed.faults(), 0);
                }
                EXPECT_TRUE(read_back(device, size) == bytes(host.data(), host.data() + size));
                EXPECT_EQ(host.data()[0], std::byte(to_device ? 1 : 2));
            }
    }
};

TEST_F(faults, of_closed_pages_in_staging_threads_reach_the_handlers_of_the_program) {
    expect_copies_to_open_a_page<guarded_page>();
}

#if !defined(_WIN32)

// A page of a mapped file that is beyond the file's end until the program's handler makes the file longer.
class page_beyond_end {
public:
    page_beyond_end(const mapped_memory &memory, std::size_t offset, bool)
        : page_(memory.data() + offset), handler_([this](std::byte *at) { return lengthen(at); }) {
        EXPECT_GE(file_, 0);
        EXPECT_NE(mmap(page_, size_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file_, 0), MAP_FAILED);
    }
    ~page_beyond_end() { ::close(file_); }
    page_beyond_end(const page_beyond_end &) = delete;
    int faults() const { return faults_; }

private:
    bool lengthen(const std::byte *at) {
        if (at < page_ || at >= page_ + size_) return false;
        ++faults_;
        return ftruncate(file_, static_cast<off_t>(size_)) == 0;
    }

    std::byte *const page_;
    const std::size_t size_ = page_size();
    const int file_ = memfd_create("ferry-test", MFD_CLOEXEC); // empty
    std::atomic<int> faults_ = 0;
    fault_handler handler_; // last: it uses the members above
};

TEST_F(faults, of_mapped_files_in_staging_threads_reach_the_handlers_of_the_program) {
    expect_copies_to_open_a_page<page_beyond_end>();
}

std::vector<pid_t> threads_named(const std::string &name) {
    std::vector<pid_t> found;
    DIR *const tasks = opendir("/proc/self/task");
    while (const dirent *const one = readdir(tasks)) {
        std::string its_name;
        std::getline(std::ifstream(std::string("/proc/self/task/") + one->d_name + "/comm"), its_name);
        if (its_name == name) found.push_back(std::atoi(one->d_name));
    }
    closedir(tasks);
    return found;
}

TEST_F(pageable, signals_for_the_program_do_not_reach_staging_threads) {
    ASSERT_OK(ferry_staging_prepare(counted.get(), 0, nullptr));
    const auto blocked_by = [](pid_t thread) {
        std::ifstream status("/proc/self/task/" + std::to_string(thread) + "/status");
        std::uint64_t blocked = 0;
        for (std::string word; status >> word;)
            if (word == "SigBlk:") status >> std::hex >> blocked;
        return blocked;
    };
    const auto bit = [](int signal) { return std::uint64_t{1} << (signal - 1); };
    EXPECT_TRUE(within_ten_seconds([&] { // until all of them have started
        const std::vector<pid_t> threads = threads_named("ferry-staging");
        return threads.size() == staging_of(counted).threads &&
               std::all_of(threads.begin(), threads.end(), [&](pid_t thread) {
                   const std::uint64_t blocked = blocked_by(thread);
                   return blocked & bit(SIGTERM) && blocked & bit(SIGUSR1) && blocked & bit(SIGCHLD) &&
                          !(blocked & bit(SIGSEGV)) && !(blocked & bit(SIGFPE));
               });
    }));
}

// The scheduling settings of a thread.
struct thread_settings {
    cpu_set_t processors;
    int policy, niceness;
    bool operator==(const thread_settings &other) const {
        return CPU_EQUAL(&processors, &other.processors) && policy == other.policy && niceness == other.niceness;
    }
};
thread_settings settings_of(pid_t thread) {
    thread_settings found = {};
    EXPECT_EQ(sched_getaffinity(thread, sizeof found.processors, &found.processors), 0);
    found.policy = sched_getscheduler(thread);
    found.niceness = getpriority(PRIO_PROCESS, static_cast<id_t>(thread));
    return found;
}
TEST_F(pageable, staging_threads_run_with_the_settings_of_the_process_whichever_thread_copies_first) {
    thread_settings expected = settings_of(getpid());
    if (CPU_COUNT(&expected.processors) < 2) GTEST_SKIP() << "one processor only";
    expected.policy = SCHED_OTHER;
    ferry_options options = small();
    options.staging_threads = 0;
    options.staging_priority = FERRY_STAGING_PRIORITY_OF_PROCESS;
    open(options);
    ferry_report report = {};
    report.struct_size = sizeof report;
    ASSERT_OK(ferry_instance_get_report(counted.get(), &report, nullptr));

    const bytes host = random_bytes(300'000, 1);
    const device_memory device(host.size());
    ASSERT_OK(raw().cuMemsetD8Async(device, 0, host.size(), stream)); // makes the driver start its threads
    ASSERT_OK(raw().cuStreamSynchronize(stream));
    bool may_go_back = false;
    std::thread([&] {
        cpu_set_t one;
        CPU_ZERO(&one);
        for (unsigned i = 0; CPU_COUNT(&one) == 0; ++i)
            if (CPU_ISSET(i, &expected.processors)) CPU_SET(i, &one);
        ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
        const sched_param none = {};
        ASSERT_EQ(sched_setscheduler(0, SCHED_IDLE, &none), 0);
        ASSERT_EQ(setpriority(PRIO_PROCESS, 0, expected.niceness + 3), 0);
        ASSERT_OK(raw().cuCtxSetCurrent(context));
        ASSERT_OK(copy_async(device, at(host), host.size()));
        ASSERT_OK(raw().cuStreamSynchronize(stream));
        ferry_instance *const second = open_or_fail(options).release();
        ferry_report of_second = report;
        EXPECT_OK(ferry_instance_get_report(second, &of_second, nullptr));
        EXPECT_EQ(of_second.staging_threads, report.staging_threads);
        ferry_close(second);
        ASSERT_OK(raw().cuCtxSetCurrent(nullptr));
        may_go_back =
            sched_setscheduler(0, SCHED_OTHER, &none) == 0 && setpriority(PRIO_PROCESS, 0, expected.niceness) == 0;
    }).join();
    EXPECT_TRUE(within_ten_seconds([&] { // until all of them have started
        const std::vector<pid_t> threads = threads_named("ferry-staging");
        return threads.size() == staging_of(counted).threads &&
               std::all_of(threads.begin(), threads.end(), [&](pid_t thread) {
                   const thread_settings found = settings_of(thread);
                   return may_go_back ? found == expected : CPU_EQUAL(&found.processors, &expected.processors);
               });
    }));
}

struct scheduling { // of the system calls, version 0
    std::uint32_t size = sizeof(scheduling), policy = SCHED_OTHER;
    std::uint64_t flags = 0;
    std::int32_t niceness = 0;
    std::uint32_t priority = 0;
    std::uint64_t slice_ns = 0, deadline_ns = 0, period_ns = 0;
};
scheduling scheduling_of(pid_t thread) {
    scheduling found;
    EXPECT_EQ(syscall(SYS_sched_getattr, thread, &found, sizeof found, 0), 0);
    return found;
}
scheduling granted_for(std::int32_t lowest_niceness) {
    scheduling granted;
    std::thread([&] {
        for (int niceness = lowest_niceness; niceness < 20 && setpriority(PRIO_PROCESS, 0, niceness) != 0; ++niceness) {
        }
        scheduling wanted = scheduling_of(0);
        wanted.slice_ns = 100'000;
        syscall(SYS_sched_setattr, 0, &wanted, 0);
        granted = scheduling_of(0);
    }).join();
    return granted;
}
TEST_F(pageable, staging_threads_run_soon_after_they_wake_by_default_and_have_the_niceness_that_the_options_name) {
    ferry_options with_0 = small(), with_5 = small();
    set_niceness(with_0, 0);
    set_niceness(with_5, 5);
    for (const auto &[options, niceness] : {std::pair{small(), -20}, {with_0, 0}, {with_5, 5}}) {
        SCOPED_TRACE(niceness);
        const scheduling granted = granted_for(niceness);
        open(options);
        const bytes host = random_bytes(300'000, 1);
        const device_memory device(host.size());
        ASSERT_OK(copy_async(device, at(host), host.size()));
        ASSERT_OK(raw().cuStreamSynchronize(stream));
        EXPECT_TRUE(within_ten_seconds([&] { // until all of them have started
            const std::vector<pid_t> threads = threads_named("ferry-staging");
            return threads.size() == staging_of(counted).threads &&
                   std::all_of(threads.begin(), threads.end(), [&](pid_t thread) {
                       const scheduling found = scheduling_of(thread);
                       return found.niceness == granted.niceness && found.slice_ns == granted.slice_ns;
                   });
        }));
    }
}

#endif

// ---- Slow pages --------------------------------------------------------------------------------------------------

// Copies that are stuck because their pages do not arrive. There are more of them than staging threads.
class beside_stuck_copies : public pageable {
protected:
    static constexpr std::size_t size = 1 << 20;

    // Starts the copies in the current context.
    void start(std::size_t count, bool to_device, int expected_waiting) {
        is_to_device = to_device;
        device.emplace(count * size);
        small_device.emplace(4096); // allocated now: freeing it later would wait for the copies
        picture = random_bytes(count * size, 7);
        write_for_all_streams(*device, picture);
        pages.emplace(count, size, 8);
        for (std::size_t i = 0; i < count; ++i) {
            const test_stream &on = *streams.emplace_back(std::make_unique<test_stream>());
            const std::uint64_t here = reinterpret_cast<std::uintptr_t>(pages->data) + i * size,
                                there = *device + i * size;
            const ferry_copy_desc copy = line(to_device ? there : here, to_device ? here : there, size);
            ASSERT_OK(ferry_copy_async(counted.get(), &copy, by_staging, on, nullptr, nullptr));
        }
        small_stream.emplace(); // consecutive streams share no hardware queue
        EXPECT_TRUE(within_ten_seconds([&] { return pages->waiting() >= expected_waiting; }));
    }
    // Releases the pages and checks that all bytes arrive.
    void finish() {
        pages->release();
        for (const auto &one : streams)
            EXPECT_OK(raw().cuStreamSynchronize(*one));
        const std::size_t all = streams.size() * size;
        const bytes host(pages->data, pages->data + all);
        EXPECT_TRUE(is_to_device ? read_back(*device, all) == host : host == picture);
        EXPECT_EQ(pages->waiting(), 0);
        streams.clear();
        small_stream.reset();
        pages.reset();
        device.reset();
        small_device.reset();
    }
    void expect_small_copies_to_pass(bool caller_waits) {
        for (const bool to_device : both_ways) {
            bytes host = random_bytes(4096, to_device);
            const bytes on_device = random_bytes(4096, 3);
            ASSERT_OK(raw().cuMemcpyHtoDAsync(*small_device, on_device.data(), 4096, *small_stream));
            ASSERT_OK(raw().cuStreamSynchronize(*small_stream));
            const ferry_copy_desc copy = line(to_device ? std::uint64_t{*small_device} : at(host),
                                              to_device ? at(host) : std::uint64_t{*small_device}, 4096);
            ferry_ticket *ticket = nullptr;
            ASSERT_OK(ferry_copy_async(counted.get(), &copy, by_staging, *small_stream, &ticket, nullptr));
            if (caller_waits) {
                EXPECT_TRUE(returns([&] { EXPECT_OK(ferry_ticket_wait(ticket, FERRY_NO_TIMEOUT, nullptr)); }));
            }
            ASSERT_TRUE(within_ten_seconds([&] { return ::ferry::test::look_at(ticket).done != 0; }));
            EXPECT_OK(ferry_ticket_release(ticket, nullptr));
            ASSERT_OK(raw().cuStreamSynchronize(*small_stream));
            bytes back(4096);
            ASSERT_OK(raw().cuMemcpyDtoHAsync(back.data(), *small_device, 4096, *small_stream));
            ASSERT_OK(raw().cuStreamSynchronize(*small_stream));
            EXPECT_TRUE(host == (to_device ? back : on_device));
        }
    }
    // Returns whether the call returns within ten seconds. Otherwise releases the pages, so that it does.
    bool returns(const std::function<void()> &call) {
        std::future<void> done = std::async(std::launch::async, [&] {
            CUcontext current = nullptr;
            ASSERT_OK(raw().cuCtxSetCurrent(context_of_calls ? context_of_calls : context));
            call();
            ASSERT_OK(raw().cuCtxSetCurrent(current));
        });
        const bool is_done = done.wait_for(std::chrono::seconds(10)) == std::future_status::ready;
        if (!is_done) pages->release();
        done.wait();
        return is_done;
    }

    bool is_to_device = true;
    CUcontext context_of_calls = nullptr;
    std::optional<device_memory> device, small_device;
    bytes picture;
    std::optional<stuck_pages> pages;
    std::vector<std::unique_ptr<test_stream>> streams;
    std::optional<test_stream> small_stream;
};

TEST_F(beside_stuck_copies, other_copies_complete_whether_the_caller_waits_or_not) {
    for (const std::uint64_t staging_bytes : {0ull, 256ull << 10, 16384ull})
        for (const bool to_device : both_ways)
            for (const bool caller_waits : both_ways) {
                SCOPED_TRACE(testing::Message() << "staging buffer " << staging_bytes << (to_device ? ", to" : ", from")
                                                << " the device" << (caller_waits ? ", the caller waits" : ""));
                ferry_options options = small();
                options.staging_threads = 4;
                options.staging_bytes = staging_bytes;
                open(options);
                ASSERT_OK(ferry_staging_prepare(counted.get(), 0, nullptr));
                start(5, to_device, staging_bytes == 16384 ? 1 : 4);
                expect_small_copies_to_pass(caller_waits);
                finish();
                if (HasFailure()) return;
            }
}

TEST_F(beside_stuck_copies, a_job_system_with_one_thread_does_not_block_others) {
    for (const bool to_device : both_ways)
        for (const bool caller_waits : both_ways) {
            SCOPED_TRACE(testing::Message()
                         << (to_device ? "to" : "from") << " the device" << (caller_waits ? ", the caller waits" : ""));
            program_threads own(1);
            ferry_options options = small();
            options.submit = program_threads::submit;
            options.submit_user = &own;
            open(options);
            start(3, to_device, 1);
            expect_small_copies_to_pass(caller_waits);
            finish();
            counted.reset();
            if (HasFailure()) return;
        }
}

// The copy runs on the legacy stream of a new context. That stream shares no hardware queue with the streams made soon
// after it.
TEST_F(beside_stuck_copies, a_synchronous_copy_returns) {
    for (const bool to_device : both_ways) {
        ferry_options options = small();
        options.staging_threads = 1;
        open(options);
        ASSERT_OK(ferry_context_create(counted.get(), 0, 0, &context_of_calls, nullptr));
        const bytes host = random_bytes(4096, 1);
        {
            std::optional<made_current> scope(context_of_calls);
            const device_memory there(4096);
            const ferry_copy_desc copy = line(there, at(host), 4096);
            ASSERT_OK(ferry_copy(counted.get(), &copy, by_staging, nullptr)); // makes all that is made on first need
            write_for_all_streams(there, bytes(4096));
            scope.reset();
            start(2, to_device, 1);
            EXPECT_TRUE(returns([&] { EXPECT_OK(ferry_copy(counted.get(), &copy, by_staging, nullptr)); }));
            finish();
            scope.emplace(context_of_calls);
            EXPECT_TRUE(read_back(there, 4096) == host);
        }
        EXPECT_OK(ferry_context_destroy(counted.get(), context_of_calls, nullptr));
        if (HasFailure()) return;
    }
}

// ---- Graphs that end ---------------------------------------------------------------------------------------------

// A graph of one copy. `ended` counts the graphs of this kind that are gone completely.
class copy_graph {
public:
    copy_graph(ferry_instance *ferry, const ferry_copy_desc &copy, CUstream stream) {
        const driver_table &cu = raw();
        EXPECT_OK(cu.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
        EXPECT_OK(ferry_copy_async(ferry, &copy, by_staging, stream, nullptr, nullptr));
        EXPECT_OK(cu.cuStreamEndCapture(stream, &graph));
        CUuserObject counts = nullptr;
        EXPECT_OK(cu.cuUserObjectCreate(
            &counts, nullptr, [](void *) { ++ended; }, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
        EXPECT_OK(cu.cuGraphRetainUserObject(graph, counts, 1, CU_GRAPH_USER_OBJECT_MOVE));
        EXPECT_OK(cu.cuGraphInstantiateWithFlags(&executable, graph, 0));
    }
    ~copy_graph() {
        destroy_executable();
        destroy_graph();
    }
    copy_graph(const copy_graph &) = delete;
    void destroy_graph() {
        if (CUgraph gone = std::exchange(graph, nullptr)) {
            EXPECT_OK(raw().cuGraphDestroy(gone));
        }
    }
    void destroy_executable() {
        if (CUgraphExec gone = std::exchange(executable, nullptr)) {
            EXPECT_OK(raw().cuGraphExecDestroy(gone));
        }
    }
    void launch(CUstream stream) const { EXPECT_OK(raw().cuGraphLaunch(executable, stream)); }

    static inline std::atomic<int> ended = 0;
    CUgraph graph = nullptr;
    CUgraphExec executable = nullptr;
};

struct ending_graphs : pageable {
    void SetUp() override {
        pageable::SetUp();
        if (!raw().cuUserObjectCreate) GTEST_SKIP() << "the driver has no user objects";
        copy_graph::ended = 0;
    }
    void expect_whole() {
        EXPECT_OK(raw().cuStreamSynchronize(stream));
        EXPECT_TRUE(read_back(device, host.size()) == host);
        EXPECT_OK(raw().cuMemsetD8(device, 0, host.size()));
        EXPECT_OK(raw().cuCtxSynchronize());
    }
    const bytes host = random_bytes(300'000, 1);
    CUdeviceptr device = 0;
    ferry_copy_desc copy = {};
};

TEST_F(ending_graphs, captured_copies_keep_no_memory_once_their_graphs_are_gone) {
    static std::atomic<std::int64_t> held;
    held = 0;
    ferry_options options = small();
    options.allocate = [](void *, std::uint64_t size, std::uint64_t alignment) {
        held += static_cast<std::int64_t>(size);
        return allocate_aligned(size, alignment);
    };
    options.deallocate = [](void *, void *memory, std::uint64_t size) {
        if (memory) held -= static_cast<std::int64_t>(size);
        free_aligned(memory);
    };
    open(options);
    ASSERT_OK(ferry_staging_prepare(counted.get(), 0, nullptr)); // with the slots that another thread adds
    const device_memory there(host.size());
    const ferry_copy_desc one = line(there, at(host), host.size());
    std::int64_t before = 0;
    int pinned_before = 0;
    for (int i = 1; i <= 4000; ++i) {
        {
            copy_graph graph(counted.get(), one, stream);
            if (i % 500 == 0) {
                graph.launch(stream);
                ASSERT_OK(raw().cuStreamSynchronize(stream));
                EXPECT_TRUE(read_back(there, host.size()) == host);
            }
        }
        if (i % 50 == 0) {
            ASSERT_TRUE(within_ten_seconds([&] { return copy_graph::ended == i; }));
        }
        if (i == 1000) {
            before = held;
            pinned_before = driver.calls("cuMemHostRegister") + driver.calls("cuMemHostAlloc");
        }
    }
    EXPECT_EQ(held, before);
    EXPECT_EQ(driver.calls("cuMemHostRegister") + driver.calls("cuMemHostAlloc"), pinned_before);
    counted.reset();
    EXPECT_EQ(held, 0);
}

TEST_F(ending_graphs, a_captured_copy_runs_as_long_as_anything_can_launch_its_graph) {
    const device_memory there(host.size());
    device = there;
    copy = line(there, at(host), host.size());
    ASSERT_OK(ferry_copy_async(counted.get(), &copy, by_staging, stream, nullptr,
                               nullptr)); // makes everything that is made on first need
    expect_whole();
    {
        copy_graph graph(counted.get(), copy, stream);
        graph.destroy_graph();
        for (int round = 0; round < 3; ++round) {
            graph.launch(stream);
            expect_whole();
            copy_graph other(counted.get(), copy, stream); // must not take a record that is still in use
        }
        EXPECT_TRUE(within_ten_seconds([] { return copy_graph::ended == 3; }));
        gate held(stream);
        graph.launch(stream);
        graph.destroy_executable();
        EXPECT_EQ(copy_graph::ended, 3);
    }
    expect_whole();
    EXPECT_TRUE(within_ten_seconds([] { return copy_graph::ended == 4; }));
}

TEST_F(ending_graphs, a_graph_may_be_destroyed_after_the_instance_was_closed) {
    const device_memory there(host.size());
    device = there;
    copy = line(there, at(host), host.size());
    {
        copy_graph unused(counted.get(), copy, stream), used(counted.get(), copy, stream);
        used.launch(stream);
        expect_whole(); // no graph may run once the instance is closed
        counted.reset();
    }
    EXPECT_TRUE(within_ten_seconds([] { return copy_graph::ended == 2; }));
    counted = open_or_fail(small());
    ASSERT_OK(ferry_copy_async(counted.get(), &copy, by_staging, stream, nullptr, nullptr));
    expect_whole();
}

TEST_F(ending_graphs, where_a_graph_cannot_own_its_copies_they_stay_until_the_instance_closes) {
    const device_memory there(host.size());
    device = there;
    copy = line(there, at(host), host.size());
    for (const char *const entry : {"cuStreamGetCaptureInfo", "cuUserObjectCreate", "cuGraphRetainUserObject"})
        for (const bool is_missing : {true, false}) {
            SCOPED_TRACE(testing::Message() << entry << (is_missing ? " is missing" : " fails"));
            if (is_missing)
                driver.hide(entry);
            else
                driver.fail(entry, CUDA_ERROR_UNKNOWN);
            open(small());
            copy_graph graph(counted.get(), copy, stream);
            driver.heal();
            graph.launch(stream);
            expect_whole();
            graph.destroy_graph();
            graph.launch(stream);
            expect_whole();
        }
    open(small());
}

// Imitates a kernel node disabled by cuGraphNodeSetEnabled. Only kernel nodes can be disabled, so the host function
// before it still runs.
TEST_F(ending_graphs, a_disabled_kernel_is_not_waited_for_once_its_graph_is_gone) {
    const device_memory there(host.size());
    device = there;
    copy = line(there, at(host), host.size());
    for (const CUresult answer : {CUDA_SUCCESS, CUDA_ERROR_NOT_PERMITTED}) {
        open(small());
        ASSERT_OK(ferry_copy_async(counted.get(), &copy, by_staging, stream, nullptr, nullptr));
        expect_whole();
        CUgraph graph = nullptr;
        ASSERT_OK(raw().cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
        driver.fail("cuLaunchKernel", answer); // the host function before it is captured
        EXPECT_EQ(ferry_copy_async(counted.get(), &copy, by_staging, stream, nullptr, nullptr),
                  answer ? -1000 - answer : FERRY_SUCCESS);
        driver.heal();
        ASSERT_OK(raw().cuStreamEndCapture(stream, &graph));
        CUgraphExec executable = nullptr;
        ASSERT_OK(raw().cuGraphInstantiateWithFlags(&executable, graph, 0));
        for (int round = 0; round < 3; ++round)
            ASSERT_OK(raw().cuGraphLaunch(executable, stream));
        ASSERT_OK(raw().cuStreamSynchronize(stream));
        EXPECT_EQ(staging_of(counted).copies_in_flight, answer ? 0u : 3u);
        ASSERT_OK(ferry_copy_async(counted.get(), &copy, by_staging, stream, nullptr,
                                   nullptr)); // other copies are not held up
        expect_whole();
        ASSERT_OK(raw().cuGraphDestroy(graph));
        ASSERT_OK(raw().cuGraphExecDestroy(executable));
        EXPECT_TRUE(within_ten_seconds([&] { return staging_of(counted).copies_in_flight == 0; }));
        counted.reset();
    }
}

// ---- Ends --------------------------------------------------------------------------------------------------------

TEST_F(pageable, closing_waits_for_copies_in_flight) {
    const bytes host = random_bytes(2'000'000, 1);
    const device_memory device(host.size());
    ASSERT_OK(copy_async(device, at(host), host.size()));
    ASSERT_OK(copy_async(device, at(host), host.size()));
    counted.reset();
    ASSERT_OK(raw().cuStreamSynchronize(stream));
    EXPECT_TRUE(read_back(device, host.size()) == host);
}

// Breaks the current context, as a kernel of the program may. Loading the kernel waits for running work in the context.
class fatal_kernel {
public:
    fatal_kernel() {
        CUcontext current = nullptr;
        EXPECT_OK(raw().cuCtxGetCurrent(&current));
        EXPECT_OK(kernels_.load_into(current).status);
    }
    void run() {
        const test_stream stream;
        EXPECT_OK(launch_strided(raw(), kernels_, {{4096, 0, 0}, {8192, 0, 0}, 16, 1, 1}, 1, stream).status);
        EXPECT_RESULT(killed, raw().cuStreamSynchronize(stream));
    }
    static constexpr CUresult killed = CUDA_ERROR_ILLEGAL_ADDRESS;

private:
    kernel_set kernels_{raw()};
};

// A context that a test may break. It is current while this object lives.
struct expendable_context {
    explicit expendable_context(ferry_instance *of) : ferry(of) {
        EXPECT_OK(ferry_context_create(of, 0, 0, &handle, nullptr));
        EXPECT_OK(raw().cuCtxPushCurrent(handle));
    }
    ~expendable_context() {
        EXPECT_OK(raw().cuCtxPopCurrent(nullptr));
        EXPECT_OK(ferry_context_destroy(ferry, handle, nullptr));
    }
    expendable_context(const expendable_context &) = delete;
    ferry_instance *ferry;
    CUcontext handle = nullptr;
};

TEST_F(pageable, an_error_of_other_work_fails_no_copy_in_a_context_that_is_alive) {
    bytes up = random_bytes(2'000'000, 1), down(up.size());
    const device_memory device(up.size());
    const test_stream other;
    const test_event event;
    ASSERT_OK(copy_async(device, at(down), down.size()));
    ASSERT_OK(raw().cuStreamSynchronize(stream));
    for (const CUresult injected : {CUDA_ERROR_UNKNOWN, CUDA_ERROR_ILLEGAL_ADDRESS, CUDA_ERROR_LAUNCH_FAILED}) {
        SCOPED_TRACE(injected);
        ferry_ticket *ticket = nullptr;
        std::fill(down.begin(), down.end(), std::byte{});
        {
            gate held(stream);
            ASSERT_OK(copy_async(device, at(up), up.size()));
            const ferry_copy_desc back = line(at(down), device, down.size());
            ASSERT_OK(ferry_copy_async(counted.get(), &back, by_staging, stream, &ticket, nullptr));
            driver.fail("cuEventRecord", injected);
            EXPECT_EQ(ferry_event_record(counted.get(), event, other, nullptr), -1000 - injected);
            driver.fail("cuEventQuery", injected); // the answer about the context itself, once
            EXPECT_EQ(look_at(ticket).done, 0);
            driver.heal();
            EXPECT_EQ(staging_of(counted).copies_in_flight, 2u);
        }
        EXPECT_OK(ferry_ticket_wait(ticket, FERRY_NO_TIMEOUT, nullptr));
        EXPECT_OK(ferry_ticket_release(ticket, nullptr));
        ASSERT_OK(raw().cuStreamSynchronize(stream));
        EXPECT_TRUE(down == up);
    }
}

TEST_F(pageable, the_death_of_one_context_ends_no_copy_in_another) {
    if (!on_software_driver()) GTEST_SKIP() << "on a GPU the other contexts of the process are lost too";
    const bytes host = random_bytes(2'000'000, 1);
    const device_memory device(host.size());
    const test_stream other;
    ASSERT_OK(copy_async(device, at(host), host.size()));
    ASSERT_OK(raw().cuMemsetD8Async(device, 0, host.size(), stream));
    ASSERT_OK(raw().cuStreamSynchronize(stream));
    const expendable_context doomed(counted.get());
    const test_event event;
    fatal_kernel().run();
    const made_current alive(context);
    {
        gate held(stream);
        ASSERT_OK(copy_async(device, at(host), host.size()));
        EXPECT_EQ(ferry_stream_wait_event(counted.get(), other, event, nullptr), -1000 - fatal_kernel::killed);
    }
    ASSERT_OK(raw().cuStreamSynchronize(stream));
    EXPECT_TRUE(read_back(device, host.size()) == host);
}

// The driver reports that a context is dead although it is not.
TEST_F(pageable, a_stream_whose_copy_was_abandoned_fails) {
    if (!on_software_driver()) GTEST_SKIP() << "on a GPU the other contexts of the process are lost too";
    if (streams_share_a_queue()) GTEST_SKIP() << "nothing passes a stream that waits";
    constexpr CUresult told = CUDA_ERROR_ILLEGAL_ADDRESS;
    const bytes host = random_bytes(2'000'000, 1);
    enum class state { before_its_kernel, in_its_kernel, captured };
    counted.reset();
    for (const state when : {state::before_its_kernel, state::in_its_kernel, state::captured}) {
        SCOPED_TRACE(static_cast<int>(when));
        program_threads own;
        ferry_options options = small();
        options.submit = program_threads::submit;
        options.submit_user = &own;
        const instance_owner makes_contexts = open_or_fail(driver.options());
        open(options);
        const expendable_context lied_about(makes_contexts.get());
        const test_stream there, other;
        const device_memory device(host.size());
        ASSERT_OK(
            ferry_copy_bytes_async(counted.get(), device, at(host), host.size(), nullptr, there, nullptr, nullptr));
        ASSERT_OK(raw().cuStreamSynchronize(there));
        EXPECT_TRUE(within_ten_seconds([&] { return own.is_idle(); }));
        own.hold(true);
        captured_graph graph(other); // empty, except where a copy is captured
        if (when == state::captured) {
            ASSERT_OK(
                ferry_copy_bytes_async(counted.get(), device, at(host), host.size(), nullptr, other, nullptr, nullptr));
        }
        graph.end();
        std::optional<gate> held;
        if (when == state::before_its_kernel) held.emplace(there);
        ferry_ticket *ticket = nullptr;
        const ferry_copy_desc copy = line(device, at(host), host.size());
        ASSERT_OK(ferry_copy_async(counted.get(), &copy, by_staging, there, &ticket, nullptr));
        if (when != state::before_its_kernel) {
            EXPECT_TRUE(within_ten_seconds([&] { return own.jobs_waiting() != 0; }));
        }
        driver.fail("cuEventQuery", told, 1, true);
        EXPECT_EQ(look_at(ticket).status, -1000 - told);
        EXPECT_EQ(ferry_ticket_wait(ticket, FERRY_NO_TIMEOUT, nullptr), -1000 - told);
        driver.heal();
        EXPECT_EQ(staging_of(counted).copies_in_flight, 0u);
        held.reset();
        own.hold(false);
        if (when == state::captured) {
            EXPECT_NE(raw().cuGraphLaunch(graph.executable, other),
                      CUDA_ERROR_NOT_READY); // the context may be dead by now
            EXPECT_NE(raw().cuStreamSynchronize(other), CUDA_SUCCESS);
        }
        EXPECT_NE(raw().cuStreamSynchronize(there), CUDA_SUCCESS);
        EXPECT_OK(ferry_ticket_release(ticket, nullptr));
        const made_current as(context);
        const device_memory alive(host.size());
        ASSERT_OK(copy_async(alive, at(host), host.size())); // other contexts still work
        ASSERT_OK(raw().cuStreamSynchronize(stream));
        EXPECT_TRUE(read_back(alive, host.size()) == host);
        counted.reset();
    }
}

TEST_F(pageable, a_context_that_dies_leaves_no_copy_waiting) {
    if (!on_software_driver()) GTEST_SKIP() << "on a GPU the other contexts of the process are lost too";
    if (streams_share_a_queue()) GTEST_SKIP() << "nothing passes a stream that waits";
    const bytes host = random_bytes(300'000, 1);
    for (const how &options : {by_staging, by_staging | no_kernels}) {
        open(driver.options());
        const expendable_context doomed(counted.get());
        fatal_kernel fatal;
        const test_stream held_stream, other;
        const device_memory there(host.size());
        const ferry_copy_desc copy = line(there, at(host), host.size());
        ASSERT_OK(ferry_copy_async(counted.get(), &copy, by_staging, other, nullptr, nullptr));
        ASSERT_OK(raw().cuStreamSynchronize(other));
        ferry_ticket *asked = nullptr, *waited_for = nullptr;
        {
            gate held(held_stream);
            ASSERT_OK(ferry_copy_async(counted.get(), &copy, options, held_stream, &waited_for, nullptr));
            ASSERT_OK(ferry_copy_async(counted.get(), &copy, options, held_stream, &asked, nullptr));
            fatal.run();
            EXPECT_EQ(ferry_ticket_wait(waited_for, FERRY_NO_TIMEOUT, nullptr), -1000 - fatal.killed);
            const ferry_ticket_info info = look_at(asked);
            EXPECT_EQ(info.done, 1);
            EXPECT_EQ(info.status, -1000 - fatal.killed);
            EXPECT_EQ(staging_of(counted).copies_in_flight, 0u);
        }
        EXPECT_OK(ferry_ticket_release(asked, nullptr));
        EXPECT_OK(ferry_ticket_release(waited_for, nullptr));
    }
    const device_memory device(host.size());
    ASSERT_OK(copy_async(device, at(host), host.size()));
    ASSERT_OK(raw().cuStreamSynchronize(stream));
    EXPECT_TRUE(read_back(device, host.size()) == host);
}

// The context dies while a thread is at the memory, which keeps it from leaving.
TEST_F(beside_stuck_copies, a_ticket_of_a_dead_context_is_done_only_when_no_thread_accesses_the_memory) {
    if (!on_software_driver()) GTEST_SKIP() << "on a GPU the other contexts of the process are lost too";
    if (streams_share_a_queue()) GTEST_SKIP() << "nothing passes a stream that waits";
    for (const bool to_device : both_ways) {
        SCOPED_TRACE(to_device ? "to the device" : "from the device");
        open(small());
        const expendable_context doomed(counted.get());
        fatal_kernel fatal;
        const test_stream there;
        const device_memory memory(size);
        {
            const bytes warm(4096);
            ASSERT_OK(
                ferry_copy_bytes_async(counted.get(), memory, at(warm), warm.size(), nullptr, there, nullptr, nullptr));
            ASSERT_OK(raw().cuStreamSynchronize(there));
        }
        stuck_pages slow(1, size, 9);
        const std::uint64_t here = reinterpret_cast<std::uintptr_t>(slow.data);
        const ferry_copy_desc copy =
            line(to_device ? std::uint64_t{memory} : here, to_device ? here : std::uint64_t{memory}, size);
        ferry_ticket *ticket = nullptr;
        ASSERT_OK(ferry_copy_async(counted.get(), &copy, by_staging, there, &ticket, nullptr));
        EXPECT_TRUE(within_ten_seconds([&] { return stuck_pages::waiting() != 0; }));
        fatal.run();
        for (int i = 0; i < 3; ++i)
            EXPECT_EQ(look_at(ticket).done, 0) << "a thread still waits for a page of the copy";
        EXPECT_GT(staging_of(counted).busy_threads, 0u) << "how a copy without a ticket learns of that thread";
        slow.release();
        EXPECT_EQ(ferry_ticket_wait(ticket, FERRY_NO_TIMEOUT, nullptr), -1000 - fatal.killed);
        EXPECT_EQ(staging_of(counted).busy_threads, 0u);
        EXPECT_EQ(look_at(ticket).done, 1);
        EXPECT_EQ(stuck_pages::waiting(), 0);
        EXPECT_OK(ferry_ticket_release(ticket, nullptr));
    }
}

// A staged copy by copies took such words for chunks that had arrived.
TEST_F(pageable, a_stream_of_a_dead_context_ends_its_waits_and_writes_no_words) {
    if (!on_software_driver()) GTEST_SKIP() << "on a GPU the other contexts of the process are lost too";
    if (streams_share_a_queue()) GTEST_SKIP() << "nothing passes a stream that waits";
    open(driver.options());
    const pinned_memory words(2 * sizeof(std::uint32_t));
    std::memset(words.data(), 0, words.size);
    const auto address = reinterpret_cast<std::uintptr_t>(words.data());
    const expendable_context doomed(counted.get());
    fatal_kernel fatal;
    const test_stream held;
    CUstreamBatchMemOpParams both[2] = {};
    both[0].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
    both[0].waitValue.address = address;
    both[0].waitValue.value = 1;
    both[1].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
    both[1].writeValue.address = address + sizeof(std::uint32_t);
    both[1].writeValue.value = 1;
    ASSERT_OK(raw().cuStreamBatchMemOp(held, 2, both, 0));
    fatal.run();
    EXPECT_EQ(raw().cuStreamSynchronize(held), fatal.killed);
    std::uint32_t written = 0;
    std::memcpy(&written, words.data() + sizeof written, sizeof written);
    EXPECT_EQ(written, 0u);
}

TEST_F(pageable, closing_ends_the_copies_of_a_dead_context_and_completes_all_other_copies) {
    if (!on_software_driver()) GTEST_SKIP() << "on a GPU the other contexts of the process are lost too";
    if (streams_share_a_queue()) GTEST_SKIP() << "nothing passes a stream that waits";
    program_threads own;
    ferry_options options = small();
    options.submit = program_threads::submit;
    options.submit_user = &own;
    options.copy_options = by_staging;
    open(options);
    const bytes host = random_bytes(300'000, 1);
    const device_memory device(host.size()), other_device(host.size());
    captured_graph graph(stream);
    ASSERT_OK(copy_async(device, at(host), host.size()));
    graph.end();
    const test_stream other;
    CUcontext doomed = nullptr;
    ASSERT_OK(raw().cuCtxCreate(&doomed, 0, 0));
    {
        fatal_kernel fatal;
        const test_stream there;
        const device_memory memory(host.size());
        ASSERT_OK(
            ferry_copy_bytes_async(counted.get(), memory, at(host), host.size(), nullptr, there, nullptr, nullptr));
        ASSERT_OK(raw().cuStreamSynchronize(there));
        gate held(there);
        ASSERT_OK(
            ferry_copy_bytes_async(counted.get(), memory, at(host), host.size(), nullptr, there, nullptr, nullptr));
        fatal.run();
        held.let_go();
    }
    ASSERT_OK(raw().cuCtxPopCurrent(nullptr));
    ASSERT_OK(
        ferry_copy_bytes_async(counted.get(), other_device, at(host), host.size(), nullptr, other, nullptr, nullptr));
    counted.reset();
    ASSERT_OK(raw().cuStreamSynchronize(other));
    EXPECT_TRUE(read_back(other_device, host.size()) == host);
    EXPECT_OK(raw().cuCtxDestroy(doomed));
}

TEST_F(pageable, a_free_does_not_block_a_worker_that_waits_for_its_ticket) {
    program_threads own(1); // the only worker: it must serve the copy, and waits for it
    ferry_options options = small();
    options.submit = program_threads::submit;
    options.submit_user = &own;
    open(options);
    const bytes host = random_bytes(2'000'000, 1);
    const device_memory device(host.size());
    ASSERT_OK(copy_async(device, at(host), host.size()));
    ASSERT_OK(raw().cuMemsetD8Async(device, 0, host.size(), stream));
    ASSERT_OK(raw().cuStreamSynchronize(stream));
    static ferry_ticket *ticket;
    static std::atomic<bool> is_done;
    is_done = false;
    {
        gate held(stream);
        const ferry_copy_desc copy = line(device, at(host), host.size());
        ASSERT_OK(ferry_copy_async(counted.get(), &copy, by_staging, stream, &ticket, nullptr));
        program_threads::submit(
            &own,
            [](void *) {
                EXPECT_OK(ferry_ticket_wait(ticket, FERRY_NO_TIMEOUT, nullptr));
                is_done = true;
            },
            nullptr);
        std::thread frees([&] {
            const made_current as(context);
            const device_memory brief(4096);
        });
        // The waiting worker checks now and then whether the context is alive. Those calls return even while the free
        // waits for the copy.
        driver.reset_counts();
        EXPECT_TRUE(within_ten_seconds([&] { return driver.calls("cuEventQuery") >= 4; }));
        held.let_go();
        EXPECT_TRUE(within_ten_seconds([&] { return is_done.load(); }));
        frees.join();
    }
    ASSERT_OK(raw().cuStreamSynchronize(stream));
    EXPECT_TRUE(read_back(device, host.size()) == host);
    EXPECT_OK(ferry_ticket_release(ticket, nullptr));
    counted.reset();
}

TEST_F(pageable, the_staging_buffer_outlives_an_adopted_context) {
    const bytes host = random_bytes(300'000, 1);
    CUcontext adopted = nullptr;
    ASSERT_OK(ferry_context_create(counted.get(), 0, 0, &adopted, nullptr));
    ASSERT_OK(ferry_context_adopt(counted.get(), 0, adopted, nullptr));
    {
        const made_current scope(adopted);
        const test_stream there;
        const device_memory device(host.size());
        ASSERT_OK(
            ferry_copy_bytes_async(counted.get(), device, at(host), host.size(), nullptr, there, nullptr, nullptr));
        ASSERT_OK(raw().cuStreamSynchronize(there));
    }
    ASSERT_OK(ferry_context_destroy(counted.get(), adopted, nullptr));
    const device_memory device(host.size());
    ASSERT_OK(copy_async(device, at(host), host.size()));
    ASSERT_OK(raw().cuStreamSynchronize(stream));
    EXPECT_TRUE(read_back(device, host.size()) == host);
}

// A call that may be the first one after a context has died.
struct late_call {
    const char *entry; // the driver entry point whose status reports the death
    std::function<std::int32_t(ferry_instance *, CUstream, CUevent, std::uint64_t)> run;
};

TEST_F(pageable, the_first_call_that_finds_a_dead_context_ends_the_copies_there) {
    if (!on_software_driver()) GTEST_SKIP() << "on a GPU the other contexts of the process are lost too";
    if (streams_share_a_queue()) GTEST_SKIP() << "nothing passes a stream that waits";
    ferry_prepared *prepared = nullptr;
    CUcontext doomed = nullptr;
    const late_call calls[] = {
        {"cuStreamSynchronize",
         [](auto *ferry, auto stream, auto, auto) { return ferry_stream_synchronize(ferry, stream, nullptr); }},
        {"cuStreamQuery",
         [](auto *ferry, auto stream, auto, auto) {
             std::int32_t done = 0;
             return ferry_stream_query(ferry, stream, &done, nullptr);
         }},
        {"cuEventRecord",
         [](auto *ferry, auto stream, auto event, auto) { return ferry_event_record(ferry, event, stream, nullptr); }},
        {"cuCtxSynchronize",
         [&](auto *ferry, auto, auto, auto) { return ferry_context_synchronize(ferry, 0, doomed, nullptr); }},
        {"cuMemsetD8Async",
         [](auto *ferry, auto stream, auto, auto address) {
             ferry_fill_desc fill = {};
             fill.destination.address = address;
             fill.width = 4096;
             fill.pattern_size = 1;
             return ferry_fill_async(ferry, &fill, nullptr, stream, nullptr, nullptr);
         }},
        {"cuLaunchKernel", [&](auto *, auto stream, auto,
                               auto) { return ferry_prepared_launch(prepared, nullptr, stream, nullptr, nullptr); }},
        {"cuEventSynchronize",
         [](auto *ferry, auto, auto event, auto) { return ferry_event_synchronize(ferry, event, nullptr); }},
        {"cuEventQuery",
         [](auto *ferry, auto, auto event, auto) {
             std::int32_t done = 0;
             return ferry_event_query(ferry, event, &done, nullptr);
         }},
        {"cuMemAlloc",
         [](auto *ferry, auto, auto, auto) {
             std::uint64_t none = 0;
             return ferry_device_alloc(ferry, 0, 4096, &none, nullptr);
         }},
        {"cuMemFree", [](auto *ferry, auto, auto, auto address) { return ferry_device_free(ferry, address, nullptr); }},
        {"cuMemAllocFromPoolAsync",
         [](auto *ferry, auto stream, auto, auto) {
             std::uint64_t none = 0;
             CUmemPoolHandle_st *pool = nullptr;
             const std::int32_t status = ferry_pool_get_default(ferry, FERRY_LOCATION_DEVICE, 0, &pool, nullptr);
             return status ? status : ferry_pool_alloc_async(ferry, pool, 4096, stream, &none, nullptr);
         }},
    };
    const bytes host = random_bytes(300'000, 1);
    for (const late_call &call : calls) {
        SCOPED_TRACE(call.entry);
        {
            const expendable_context own(counted.get());
            doomed = own.handle;
            fatal_kernel fatal;
            const test_stream held_stream, other;
            const test_event event;
            const device_memory device(host.size()), second(host.size());
            constexpr std::size_t pieces = 64; // enough small pieces for a kernel
            std::vector<std::uint64_t> from, to;
            for (std::size_t i = 0; i < pieces; ++i) {
                from.push_back(device + 256 * i);
                to.push_back(second + 256 * i);
            }
            const std::vector<std::uint64_t> sizes(pieces, 64);
            ASSERT_OK(ferry_prepared_create_pieces(counted.get(),
                                                   in_arrays(to.data(), from.data(), sizes.data(), pieces), nullptr,
                                                   other, &prepared, nullptr));
            ASSERT_OK(
                ferry_copy_bytes_async(counted.get(), device, at(host), host.size(), nullptr, other, nullptr, nullptr));
            ASSERT_OK(raw().cuStreamSynchronize(other));
            ferry_ticket *ticket = nullptr;
            {
                gate held(held_stream);
                const ferry_copy_desc copy = line(device, at(host), host.size());
                ASSERT_OK(ferry_copy_async(counted.get(), &copy, by_staging, held_stream, &ticket, nullptr));
                EXPECT_EQ(staging_of(counted).copies_in_flight, 1u);
                driver.fail(call.entry, fatal.killed);
                EXPECT_EQ(call.run(counted.get(), other, event, second), -1000 - fatal.killed);
                driver.heal();
                EXPECT_EQ(staging_of(counted).copies_in_flight, 1u) << "the context lives, whatever the call reported";
                fatal.run();
                driver.fail(call.entry, fatal.killed); // some calls run in a context that lives
                EXPECT_EQ(call.run(counted.get(), other, event, second), -1000 - fatal.killed);
                driver.heal();
                EXPECT_EQ(staging_of(counted).copies_in_flight, 0u);
                EXPECT_EQ(look_at(ticket).status, -1000 - fatal.killed);
            }
            EXPECT_OK(ferry_ticket_release(ticket, nullptr));
            static_cast<void>(ferry_prepared_destroy(prepared, nullptr)); // its table ended with the context
        }
        if (HasFailure()) return;
    }
}

TEST_F(pageable, a_forked_child_is_refused_and_closes_without_harm) {
    FERRY_NEEDS_FORK();
    SKIP_WITHOUT(pages_wiped_in_children);
    bytes host = random_bytes(300'000, 1);
    const device_memory device(host.size());
    const ferry_copy_desc copy = line(device, at(host), host.size());
    ferry_ticket *ticket = nullptr;
    ASSERT_OK(ferry_copy_async(counted.get(), &copy, by_staging, stream, &ticket, nullptr));
    ASSERT_OK(raw().cuStreamSynchronize(stream));
    const int status = run_in_child([&] {
        constexpr std::int32_t none = -1000 - CUDA_ERROR_NOT_INITIALIZED;
        ferry_ticket_info info = {};
        info.struct_size = sizeof info;
        bool is_refused = ferry_ticket_wait(ticket, FERRY_NO_TIMEOUT, nullptr) == none &&
                          ferry_ticket_get_info(ticket, &info, nullptr) == none;
        is_refused = is_refused && ferry_staging_trim(counted.get(), nullptr) == none &&
                     ferry_staging_prepare(counted.get(), 0, nullptr) == none &&
                     ferry_ticket_release(ticket, nullptr) == none &&
                     ferry_ticket_create(counted.get(), stream, &ticket, nullptr) == none &&
                     ferry_context_adopt(counted.get(), 0, nullptr, nullptr) == none;
        ferry_close(counted.release());
        return is_refused ? 0 : 1;
    });
    EXPECT_EQ(status, 0);
    EXPECT_OK(ferry_ticket_release(ticket, nullptr));
    ASSERT_OK(copy_async(at(host), device, host.size()));
    ASSERT_OK(raw().cuStreamSynchronize(stream));
}

TEST_F(pageable, no_failing_driver_call_causes_a_hang_and_the_next_copy_works) {
    const char *const entries[] = {"cuLaunchKernel",     "cuPointerGetAttributes", "cuThreadExchangeStreamCaptureMode",
                                   "cuMemHostRegister",  "cuMemHostAlloc",         "cuCtxGetCurrent",
                                   "cuStreamGetCtx",     "cuStreamIsCapturing",    "cuLibraryLoadData",
                                   "cuEventCreate",      "cuEventRecord",          "cuCtxPushCurrent",
                                   "cuLibraryGetKernel", "cuStreamSynchronize",    "cuDevicePrimaryCtxRetain"};
    const bytes host = random_bytes(400'000, 1);
    const device_memory device(host.size());
    for (const char *const entry : entries)
        for (const bool is_synchronous : {false, true})
            for (int nth = 1; nth <= 3; ++nth) {
                SCOPED_TRACE(testing::Message()
                             << entry << ", call " << nth << (is_synchronous ? ", synchronous" : ""));
                open(small());
                const ferry_copy_desc copy = line(device, at(host), host.size());
                driver.fail(entry, CUDA_ERROR_UNKNOWN, nth);
                ferry_ticket *ticket = nullptr;
                const std::int32_t status =
                    is_synchronous ? ferry_copy(counted.get(), &copy, by_staging, nullptr)
                                   : ferry_copy_async(counted.get(), &copy, nullptr, stream, &ticket, nullptr);
                driver.heal();
                EXPECT_TRUE(status == FERRY_SUCCESS || status == -1000 - CUDA_ERROR_UNKNOWN ||
                            (is_synchronous && status == FERRY_ERROR_ROUTE))
                    << status;
                EXPECT_EQ(ticket != nullptr, status == FERRY_SUCCESS && !is_synchronous);
                EXPECT_OK(raw().cuStreamSynchronize(stream));
                if (ticket) {
                    EXPECT_OK(ferry_ticket_wait(ticket, FERRY_NO_TIMEOUT, nullptr));
                    EXPECT_OK(ferry_ticket_release(ticket, nullptr));
                }
                if (status == FERRY_SUCCESS) {
                    EXPECT_TRUE(read_back(device, host.size()) == host);
                }
                CUcontext current = nullptr;
                EXPECT_OK(raw().cuCtxGetCurrent(&current));
                EXPECT_EQ(current, context);
                ASSERT_OK(copy_async(device, at(host) + 1000, host.size() - 1000));
                ASSERT_OK(raw().cuStreamSynchronize(stream));
                EXPECT_TRUE(std::equal(host.begin() + 1000, host.end(), read_back(device, host.size() - 1000).begin()));
                if (HasFailure()) return;
            }
}

} // namespace
} // namespace ferry::test
