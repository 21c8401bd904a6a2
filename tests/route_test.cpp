// The choice of a route: the wishes a caller can state, their effect, and that every route moves the same bytes.
#include <functional>
#include <ostream>
#include <random>
#include <thread>
#include <vector>

#include "support/captured_graph.h"
#include "support/counted_test.h"
#include "support/gate.h"
#include "support/how.h"
#include "support/piece_lists.h"
#include "support/raw_objects.h"
#include "support/sanitizer.h"
#include "support/test_place.h"

namespace ferry::test {
namespace {

constexpr place_kind within_reach[] = {place_kind::pinned, place_kind::registered, place_kind::managed,
                                       place_kind::device, place_kind::pool};
constexpr place_kind out_of_reach[] = {place_kind::pageable, place_kind::pool_of_host, place_kind::array_2d};

bool is_on_host(place_kind kind) { return kind == place_kind::pinned || kind == place_kind::registered; }

ferry_explanation explain(ferry_instance *instance, const ferry_copy_desc &copy, CUstream stream,
                          const how &options = {}) {
    ferry_explanation told = {};
    told.struct_size = sizeof told;
    EXPECT_OK(ferry_copy_explain_async(instance, &copy, options, stream, &told, nullptr));
    return told;
}

class routes : public counted_test {
protected:
    routes() { kernels = FERRY_KERNELS_AT_OPEN; } // loading would wait for held work
    std::int32_t copy_async(const ferry_copy_desc &copy, const how &options, ferry_error_info *error = nullptr) {
        return ferry_copy_async(counted.get(), &copy, options, stream, nullptr, error);
    }
    void expect_no_kernel_for(const ferry_copy_desc &copy, std::int32_t obstacle) {
        ferry_error_info error = new_error();
        expect_refusal(copy_async(copy, by_kernel, &error), error, FERRY_ERROR_ROUTE, FERRY_SIDE_OPTIONS,
                       FERRY_FIELD_ROUTE);
        EXPECT_EQ(error.numbers, FERRY_NUMBERS_OBSTACLE);
        EXPECT_EQ(error.value, static_cast<std::uint64_t>(obstacle)) << describe(error);
    }
};

TEST_F(routes, a_kernel_moves_the_bytes_that_the_reference_moves) {
    if (!has_kernels()) GTEST_SKIP() << "the driver cannot load kernels";
    std::mt19937_64 random(20261121);
    const auto between = [&](std::uint64_t low, std::uint64_t high) { return low + random() % (high - low + 1); };
    for (int device = 0; device < std::min(device_count(), 2); ++device)
        for (const place_kind from : within_reach)
            for (const place_kind to : within_reach) {
                if (!is_supported(from) || !is_supported(to) || (is_on_host(from) && is_on_host(to))) continue;
                if (device && from == place_kind::pool) continue; // no device has access to the pool
                if (device && ferry_peer_enable(counted.get(), 0, 1, nullptr)) continue;
                SCOPED_TRACE(testing::Message() << name_of(from) << " on " << device << " to " << name_of(to));
                const grid shape = {.width = 300,
                                    .height = 20,
                                    .depth = 4,
                                    .row_pitch = 331,
                                    .slice_height = 23,
                                    .lead = between(0, 16)};
                test_place source(from, shape, device), destination(to, shape);
                source.fill(random());
                destination.fill(random());
                for (int round = 0; round < 20; ++round) {
                    const box at = {between(0, 40), between(0, 5), between(0, 1)},
                              onto = {between(0, 40), between(0, 5), between(0, 1)};
                    const std::uint64_t width = between(1, 250), height = between(1, 15), depth = between(1, 3);
                    const ferry_copy_desc copy =
                        describe_copy(source.describe(statement::any, at), destination.describe(statement::any, onto),
                                      width, height, depth);
                    ferry_error_info error = new_error();
                    const bool is_synchronous = between(0, 1);
                    driver.reset_counts();
                    ASSERT_OK(is_synchronous ? ferry_copy(counted.get(), &copy, by_kernel, &error)
                                             : copy_async(copy, by_kernel, &error))
                        << describe(error);
                    EXPECT_EQ(driver.calls("cuLaunchKernel"), 1);
                    EXPECT_EQ(driver.calls_beginning("cuMemcpy"), 0);
                    reference_copy(source, at, destination, onto, width, height, depth);
                    if (!is_synchronous) {
                        ASSERT_OK(raw().cuStreamSynchronize(stream));
                    }
                    ASSERT_EQ(destination.read(), destination.picture());
                }
            }
}

TEST_F(routes, a_forced_kernel_that_cannot_serve_is_refused_with_the_reason) {
    const grid shape = {.width = 64, .height = 4};
    test_place device(place_kind::device, shape), pinned(place_kind::pinned, shape), other(place_kind::pinned, shape);
    const auto expect = [&](test_place &from, test_place &to, std::int32_t obstacle) {
        SCOPED_TRACE(testing::Message() << name_of(from.kind()) << " to " << name_of(to.kind()));
        const ferry_copy_desc copy = describe_copy(from.describe(statement::any), to.describe(statement::any), 48, 3);
        driver.reset_counts();
        expect_no_kernel_for(copy, obstacle);
        EXPECT_EQ(driver.calls("cuLaunchKernel") + driver.calls_beginning("cuMemcpy"), 0);
        const how wish = urgent; // forces no route
        const ferry_explanation told = explain(counted.get(), copy, stream, wish);
        EXPECT_NE(told.route, FERRY_ROUTE_KERNEL);
        EXPECT_OK(copy_async(copy, wish));
        // One kernel shows that there is room for the other.
        EXPECT_EQ(driver.calls("cuLaunchKernel"), told.route == FERRY_ROUTE_STAGED ? 2 : 0);
        ASSERT_OK(raw().cuStreamSynchronize(stream));
    };
    for (const place_kind kind : out_of_reach) {
        if (!is_supported(kind)) continue;
        test_place one(kind, shape);
        const std::int32_t why = is_array(kind) ? FERRY_OBSTACLE_ARRAY : FERRY_OBSTACLE_PAGEABLE;
        expect(one, device, why);
        expect(device, one, why);
    }
    expect(pinned, other, FERRY_OBSTACLE_HOST_TO_HOST);
}

TEST_F(routes, the_driver_copies_a_box_that_exceeds_its_allocation) {
    const std::uint64_t size = 1 << 20;
    device_memory memory(size);
    pinned_memory host(size);
    ferry_copy_desc copy = {};
    copy.source.address = reinterpret_cast<std::uintptr_t>(host.data()) + size - 4096;
    copy.destination.address = memory;
    copy.width = 64;
    copy.height = 64;
    copy.source.row_pitch = copy.destination.row_pitch = 4096;
    expect_no_kernel_for(copy, FERRY_OBSTACLE_BEYOND);
}

TEST_F(routes, no_kernel_writes_memory_that_the_device_may_only_read) {
    constexpr std::uint64_t size = 4096;
    device_memory memory(size);
    alignas(4096) static std::byte bytes[size];
    ASSERT_OK(ferry_host_register(counted.get(), bytes, size, FERRY_REGISTER_READ_ONLY, nullptr));
    ferry_copy_desc copy = {};
    copy.source.address = memory;
    copy.destination.address = reinterpret_cast<std::uintptr_t>(bytes);
    copy.width = 64;
    expect_no_kernel_for(copy, FERRY_OBSTACLE_READ_ONLY);
    std::swap(copy.source, copy.destination); // but reading it is allowed
    ferry_error_info error = new_error();
    EXPECT_OK(copy_async(copy, by_kernel, &error)) << describe(error);
    ASSERT_OK(raw().cuStreamSynchronize(stream));
    EXPECT_OK(ferry_host_unregister(counted.get(), bytes, nullptr));
}

TEST_F(routes, the_options_of_a_copy_replace_the_options_of_the_instance) {
    if (!has_kernels()) GTEST_SKIP() << "the driver cannot load kernels";
    ferry_options options = driver.options();
    options.copy_options = by_kernel;
    const instance_owner instance = open_or_fail(options);
    const grid shape = {.width = 64, .height = 4};
    test_place from(place_kind::pinned, shape), to(place_kind::device, shape);
    const auto launches = [&](const how &of_the_copy) {
        const ferry_copy_desc copy = describe_copy(from.describe(statement::any), to.describe(statement::any), 48, 3);
        driver.reset_counts();
        EXPECT_OK(ferry_copy_async(instance.get(), &copy, of_the_copy, stream, nullptr, nullptr));
        EXPECT_OK(raw().cuStreamSynchronize(stream));
        return driver.calls("cuLaunchKernel");
    };
    EXPECT_EQ(launches({}), 1);
    EXPECT_EQ(launches(by_driver), 0);
    EXPECT_EQ(launches(no_kernels), 0) << "the route of the instance does not apply";
    EXPECT_EQ(launches(ordinary), 0) << "the driver copies three rows unless the options request a kernel";
    driver.reset_counts();
    EXPECT_OK(ferry_copy_bytes(instance.get(), to.address(), from.address(), 64, nullptr, nullptr));
    EXPECT_EQ(driver.calls("cuLaunchKernel"), 1) << "the short forms use the options of the instance";
}

// The tests' own instances plan as on a GPU (support/gpu_profile.h).
TEST_F(routes, the_software_driver_copies_pageable_memory_itself_unless_that_would_block_the_caller) {
    if (!on_software_driver()) GTEST_SKIP() << "is about the profile of the software driver";
    ferry_options options = options_under_test();
    options.kernels = FERRY_KERNELS_AT_OPEN;
    options.staging = FERRY_STAGING_AT_OPEN;
    ferry_instance *opened = nullptr;
    ASSERT_OK(ferry_open(&options, &opened, nullptr));
    const instance_owner ferry(opened);
    ASSERT_OK(ferry_staging_prepare(counted.get(), 0, nullptr));
    constexpr std::uint64_t largest = 16 << 20, MiB = 1 << 20;
    const device_memory device(largest);
    const bytes host(largest);
    // Calls `use` for copies of several sizes, both ways.
    const auto for_each_copy = [&](const std::function<void(const ferry_copy_desc &)> &use) {
        for (const std::uint64_t size : {std::uint64_t{4096}, MiB, MiB + 1, largest})
            for (const bool to_device : {true, false}) {
                SCOPED_TRACE(testing::Message() << size << (to_device ? " to the device" : " to the host"));
                ferry_copy_desc copy = {};
                copy.source.address = to_device ? reinterpret_cast<std::uintptr_t>(host.data()) : device.address;
                copy.destination.address = to_device ? device.address : reinterpret_cast<std::uintptr_t>(host.data());
                copy.width = size;
                use(copy);
            }
    };
    const auto explain_at_once = [&](const ferry_copy_desc &copy) {
        ferry_explanation told = new_explanation();
        EXPECT_OK(ferry_copy_explain(ferry.get(), &copy, nullptr, &told, nullptr));
        return told;
    };
    for_each_copy([&](const ferry_copy_desc &copy) {
        EXPECT_EQ(explain_at_once(copy).route, FERRY_ROUTE_DRIVER) << describe(explain_at_once(copy));
        EXPECT_EQ(explain_at_once(copy).profile, FERRY_PROFILE_BUILT_IN);
        EXPECT_EQ(explain(ferry.get(), copy, stream).route, FERRY_ROUTE_DRIVER);
        const gate held(stream);
        EXPECT_EQ(explain(ferry.get(), copy, stream, in_stream_order).route, FERRY_ROUTE_STAGED);
        EXPECT_EQ(explain(counted.get(), copy, stream, in_stream_order).route, FERRY_ROUTE_STAGED);
    });
    // A calibration finds the same, unless other programs take the processors meanwhile. Sanitizers slow down the software
    // driver's copies more than the worker threads' copies: the driver allocates a buffer for each upload, and the address
    // sanitizer does not reuse freed memory soon (1 MiB took 1.6 ms instead of 0.2 ms).
    bool is_by_driver = false;
    for (int attempt = 0; attempt < (is_sanitized ? 1 : 5) && !is_by_driver; ++attempt) {
        ASSERT_OK(ferry_device_calibrate(ferry.get(), 0, nullptr));
        is_by_driver = true;
        for_each_copy([&](const ferry_copy_desc &copy) {
            EXPECT_EQ(explain_at_once(copy).profile, FERRY_PROFILE_MEASURED);
            is_by_driver &= explain_at_once(copy).route == FERRY_ROUTE_DRIVER &&
                            explain(ferry.get(), copy, stream).route == FERRY_ROUTE_DRIVER;
        });
    }
    EXPECT_TRUE(is_by_driver || is_sanitized);
}

TEST_F(routes, the_software_driver_copies_every_piece_of_pageable_memory_itself_on_an_idle_stream) {
    if (!on_software_driver()) GTEST_SKIP() << "is about the profile of the software driver";
    ferry_options options = driver.options();
    options.kernels = FERRY_KERNELS_AT_OPEN;
    options.staging = FERRY_STAGING_AT_OPEN;
    ferry_instance *opened = nullptr;
    ASSERT_OK(ferry_open(&options, &opened, nullptr));
    const instance_owner ferry(opened);
    constexpr std::uint64_t count = 100, size = 5000;
    const device_memory device(count * size);
    const bytes sent = random_bytes(count * size, 48);
    bytes received(sent.size());
    std::vector<std::uint64_t> there, from, to;
    const std::vector<std::uint64_t> sizes(count, size - 8); // gaps, so that pieces stay apart
    for (std::uint64_t i = 0; i < count; ++i) {
        there.push_back(device + i * size);
        from.push_back(reinterpret_cast<std::uintptr_t>(sent.data()) + i * size);
        to.push_back(reinterpret_cast<std::uintptr_t>(received.data()) + i * size);
    }
    driver.reset_counts();
    ASSERT_OK(ferry_copy_pieces_async(ferry.get(), in_arrays(there.data(), from.data(), sizes.data(), count), nullptr,
                                      stream, nullptr, nullptr));
    ASSERT_OK(raw().cuStreamSynchronize(stream));
    ASSERT_OK(ferry_copy_pieces_async(ferry.get(), in_arrays(to.data(), there.data(), sizes.data(), count), nullptr,
                                      stream, nullptr, nullptr));
    ASSERT_OK(raw().cuStreamSynchronize(stream));
    EXPECT_EQ(driver.calls("cuLaunchKernel"), 0);
    for (std::uint64_t i = 0; i < count; ++i)
        ASSERT_TRUE(std::equal(&sent[i * size], &sent[i * size] + sizes[i], &received[i * size])) << i;
}

TEST_F(routes, an_explanation_names_the_call_the_multiprocessors_and_both_times) {
    if (!has_kernels()) GTEST_SKIP() << "the driver cannot load kernels";
    int kernel_copies = 0, driver_copies = 0;
    for (const place_kind from : {place_kind::pinned, place_kind::device})
        for (const std::uint64_t width : {4u, 64u, 4096u})
            for (const how &options : {how(), by_kernel, by_kernel | max_sms(2), by_driver, urgent, no_kernels}) {
                const grid shape = {.width = width, .height = 300, .row_pitch = 2 * width};
                test_place source(from, shape), destination(place_kind::device, {.width = width, .height = 300});
                source.fill(width);
                const ferry_copy_desc copy =
                    describe_copy(source.describe(statement::any), destination.describe(statement::any), width, 300);
                SCOPED_TRACE(testing::Message() << name_of(from) << ", rows of " << width << ", " << options);
                const ferry_explanation told = explain(counted.get(), copy, stream, options);
                driver.reset_counts();
                ASSERT_OK(copy_async(copy, options));
                ASSERT_OK(raw().cuStreamSynchronize(stream));
                EXPECT_EQ(driver.calls(told.driver_call), 1) << told.driver_call;
                EXPECT_EQ(driver.calls("cuLaunchKernel"), told.route == FERRY_ROUTE_KERNEL);
                EXPECT_EQ(told.max_sms != 0, told.route == FERRY_ROUTE_KERNEL);
                EXPECT_GT(told.driver_ns, 0u);
                EXPECT_EQ(told.kernel_ns == 0, told.kernel_obstacle != FERRY_OBSTACLE_NONE);
                EXPECT_EQ(told.kernel_obstacle == FERRY_OBSTACLE_FORBIDDEN, options == no_kernels);
                if (options.has(max_sms(2))) {
                    EXPECT_LE(told.max_sms, 2u);
                }
                if (!options) {
                    EXPECT_EQ(told.route == FERRY_ROUTE_KERNEL, told.kernel_ns * 21 / 20 < told.driver_ns);
                }
                if (options.has(by_kernel) || options.has(urgent)) {
                    EXPECT_EQ(told.route, FERRY_ROUTE_KERNEL);
                }
                ++(told.route == FERRY_ROUTE_KERNEL ? kernel_copies : driver_copies);
            }
    EXPECT_GT(kernel_copies, 0);
    EXPECT_GT(driver_copies, 0);
}

TEST_F(routes, a_kernel_makes_an_urgent_contiguous_copy_in_stream_order) {
    if (!has_kernels()) GTEST_SKIP() << "the driver cannot load kernels";
    const std::uint64_t size = 64 << 10;
    for (const bool to_device : {true, false}) {
        test_place host(place_kind::pinned, {.width = size}), device(place_kind::device, {.width = size});
        test_place &from = to_device ? host : device, &to = to_device ? device : host;
        from.fill(1);
        to.fill(2);
        const ferry_copy_desc copy =
            describe_copy(from.describe(statement::stated), to.describe(statement::stated), size);
        const bytes before = to.picture();
        driver.reset_counts();
        {
            gate held(stream);
            ASSERT_OK(copy_async(copy, urgent));
            EXPECT_EQ(to.read(), before) << "not before the earlier work on its stream";
        }
        ASSERT_OK(raw().cuStreamSynchronize(stream));
        EXPECT_EQ(driver.calls("cuLaunchKernel"), 1);
        reference_copy(from, {}, to, {}, size, 1, 1);
        EXPECT_EQ(to.read(), to.picture());
    }
}

TEST_F(routes, a_kernel_copy_is_captured_and_replayed) {
    if (!has_kernels()) GTEST_SKIP() << "the driver cannot load kernels";
    const grid shape = {.width = 40, .height = 50, .row_pitch = 80};
    test_place from(place_kind::pinned, shape), to(place_kind::device, shape);
    const ferry_copy_desc copy = describe_copy(from.describe(statement::any), to.describe(statement::any), 33, 50);
    const instance_owner fresh = open_or_fail(driver.options()); // loads its kernels within the capture
    captured_graph graph(stream);
    EXPECT_OK(ferry_copy_async(fresh.get(), &copy, by_kernel, stream, nullptr, nullptr));
    graph.end();
    for (const std::uint64_t seed : {1u, 2u}) {
        from.fill(seed);
        to.fill(seed + 10);
        graph.run();
        reference_copy(from, {}, to, {}, 33, 50, 1);
        EXPECT_EQ(to.read(), to.picture());
    }
}

TEST_F(routes, kernels_are_loaded_at_the_time_the_options_choose) {
    const auto loads = [&](std::int32_t kernels, std::int32_t expected) {
        ferry_options options = driver.options();
        options.kernels = kernels;
        driver.reset_counts();
        const instance_owner instance = open_or_fail(options);
        EXPECT_EQ(driver.calls("cuLibraryLoadData"), kernels == FERRY_KERNELS_AT_OPEN);
        const grid shape = {.width = 64, .height = 4};
        test_place from(place_kind::pinned, shape), to(place_kind::device, shape);
        const ferry_copy_desc copy = describe_copy(from.describe(statement::any), to.describe(statement::any), 48, 3);
        for (int round = 0; round < 2; ++round)
            EXPECT_EQ(expected, ferry_copy(instance.get(), &copy, by_kernel, nullptr));
        EXPECT_EQ(driver.calls("cuLibraryLoadData"), kernels != FERRY_KERNELS_NONE) << "once";
    };
    if (has_kernels()) {
        loads(FERRY_KERNELS_LAZY, FERRY_SUCCESS);
        loads(FERRY_KERNELS_AT_OPEN, FERRY_SUCCESS);
    }
    loads(FERRY_KERNELS_NONE, FERRY_ERROR_ROUTE);
    ferry_options options = driver.options();
    options.kernels = 3;
    ferry_instance *instance = nullptr;
    ferry_error_info error = new_error();
    expect_refusal(ferry_open(&options, &instance, &error), error, FERRY_ERROR_INVALID_ARGUMENT, FERRY_SIDE_OPTIONS,
                   FERRY_FIELD_KERNELS);
}

TEST_F(routes, a_failed_launch_is_reported_and_moves_nothing) {
    if (!has_kernels()) GTEST_SKIP() << "the driver cannot load kernels";
    const grid shape = {.width = 64, .height = 4};
    test_place from(place_kind::pinned, shape), to(place_kind::device, shape);
    from.fill(1);
    to.fill(2);
    const ferry_copy_desc copy = describe_copy(from.describe(statement::any), to.describe(statement::any), 48, 3);
    ASSERT_OK(ferry_copy(counted.get(), &copy, by_kernel, nullptr));
    to.fill(3);
    driver.fail("cuLaunchKernel", CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
    EXPECT_EQ(FERRY_STATUS_DRIVER_BASE - CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, copy_async(copy, by_kernel));
    ASSERT_OK(raw().cuStreamSynchronize(stream));
    EXPECT_EQ(to.read(), to.picture());
    EXPECT_OK(copy_async(copy, by_kernel));
    ASSERT_OK(raw().cuStreamSynchronize(stream));
}

// ---- Counters

ferry_device_counters counters_of(ferry_instance *instance, int device = 0) {
    ferry_device_counters found = {};
    found.struct_size = sizeof found;
    EXPECT_OK(ferry_device_get_counters(instance, device, &found, nullptr));
    return found;
}

struct count {
    std::uint64_t copies, bytes;
    bool has_waited;
    friend bool operator==(const count &, const count &) = default;
    friend std::ostream &operator<<(std::ostream &out, const count &one) {
        return out << one.copies << " copies, " << one.bytes << " bytes" << (one.has_waited ? ", waited" : "");
    }
};
count between(const ferry_route_counters &before, const ferry_route_counters &after) {
    return {after.copies - before.copies, after.bytes - before.bytes, after.waited_ns > before.waited_ns};
}

TEST_F(routes, counters_add_up_what_each_route_has_copied) {
    if (!has_kernels()) GTEST_SKIP() << "the driver cannot load kernels";
    constexpr std::uint64_t size = 64 << 10;
    ASSERT_OK(ferry_staging_prepare(counted.get(), 0, nullptr));
    const pinned_memory pinned(2 * size);
    const device_memory device(2 * size);
    bytes pageable(size);
    const auto at = [](const void *data) { return reinterpret_cast<std::uintptr_t>(data); };
    ferry_copy_desc copy = {}, up = {};
    copy.source.address = at(pinned.data());
    up.source.address = at(pageable.data());
    up.destination.address = copy.destination.address = device;
    up.width = copy.width = size;
    const ferry_device_counters before = counters_of(counted.get());
    EXPECT_OK(copy_async(copy, by_driver));
    EXPECT_OK(ferry_copy(counted.get(), &copy, by_driver, nullptr));
    EXPECT_OK(copy_async(copy, by_kernel));
    {
        gate held(stream);
        EXPECT_OK(copy_async(up, by_staging | in_stream_order));
        EXPECT_OK(copy_async(up, read_in_the_call)); // sent with the driver's commands
        up.width = size / 2;
        up.height = 2;
        up.source.row_pitch = up.destination.row_pitch = size / 2;
        EXPECT_OK(ferry_copy_async(counted.get(), &up, read_in_the_call | urgent, stream, nullptr, nullptr));
    }
    EXPECT_OK(raw().cuStreamSynchronize(stream));
    ferry_fill_desc fill = {};
    fill.destination.address = device;
    fill.width = size;
    fill.pattern_size = 1;
    EXPECT_OK(ferry_fill_async(counted.get(), &fill, nullptr, stream, nullptr, nullptr));
    const std::uint64_t to[] = {device, device + size + 64},
                        from[] = {at(pinned.data()), at(pinned.data()) + size + 64}, sizes[] = {100, 200};
    EXPECT_OK(
        ferry_copy_pieces_async(counted.get(), in_arrays(to, from, sizes, 2), by_kernel, stream, nullptr, nullptr));
    EXPECT_OK(raw().cuStreamSynchronize(stream));
    copy.width = 0;
    EXPECT_OK(copy_async(copy, how()));
    copy.width = size;
    copy.destination.row_pitch = 1;
    EXPECT_NE(copy_async(copy, how()), FERRY_SUCCESS) << "a refused copy does not count";
    const ferry_device_counters after = counters_of(counted.get());
    EXPECT_EQ(between(before.kernel, after.kernel), (count{3, size + 300, false}));
    EXPECT_EQ(after.driver.copies - before.driver.copies + after.staged.copies - before.staged.copies +
                  after.buffered.copies - before.buffered.copies,
              6u);
    EXPECT_EQ(after.driver.bytes - before.driver.bytes + after.staged.bytes - before.staged.bytes +
                  after.buffered.bytes - before.buffered.bytes,
              6 * size);
    EXPECT_GE(after.driver.copies - before.driver.copies, 3u);
    EXPECT_GE(after.staged.copies - before.staged.copies, 1u);
    EXPECT_GT(after.driver.waited_ns, before.driver.waited_ns) << "the synchronous copy";
    EXPECT_EQ(between(before.relayed, after.relayed), (count{0, 0, false}));
    EXPECT_EQ(between(before.multilink, after.multilink), (count{0, 0, false}));
    if (device_count() > 1) {
        EXPECT_EQ(counters_of(counted.get(), 1).driver.copies, 0u) << "all copies were in the context of device 0";
    }
    ferry_copy_desc small = {};
    bytes little(4096);
    small.source.address = at(little.data());
    small.destination.address = copy.destination.address;
    small.width = little.size();
    EXPECT_OK(raw().cuStreamSynchronize(stream));
    const ferry_device_counters before_small = counters_of(counted.get());
    EXPECT_OK(copy_async(small, how()));
    const ferry_device_counters after_small = counters_of(counted.get());
    EXPECT_EQ(between(before_small.driver, after_small.driver), (count{1, little.size(), true}))
        << "the time of a small pageable copy counts";
    ferry_error_info error = new_error();
    ferry_device_counters found = {};
    found.struct_size = sizeof found;
    expect_refusal(ferry_device_get_counters(counted.get(), device_count(), &found, &error), error, FERRY_ERROR_DEVICE,
                   FERRY_SIDE_NONE, FERRY_FIELD_DEVICE);
}

TEST_F(routes, a_fill_that_cannot_be_counted_succeeds) {
    if (device_count() < 2) GTEST_SKIP() << "with one device, no query is needed";
    const test_context other; // of the program, so its device must be queried
    const made_current scope(other);
    const test_stream there;
    const device_memory memory(64);
    ferry_fill_desc fill = {};
    fill.destination.kind = FERRY_KIND_DEVICE;
    fill.destination.address = memory;
    fill.width = 64;
    fill.pattern_size = 1;
    fill.pattern[0] = 7;
    driver.fail("cuCtxGetDevice", CUDA_ERROR_UNKNOWN, 1, true);
    EXPECT_OK(ferry_fill_async(counted.get(), &fill, nullptr, there, nullptr, nullptr));
    EXPECT_GT(driver.injected(), 0);
    driver.heal();
    EXPECT_OK(raw().cuStreamSynchronize(there));
    EXPECT_TRUE(read_back(memory, 64) == bytes(64, std::byte{7}));
}

TEST_F(routes, counters_lose_nothing_when_threads_copy_at_the_same_time) {
    constexpr int threads = 4, copies = 200;
    const pinned_memory pinned(4096);
    const device_memory device(4096);
    const ferry_device_counters before = counters_of(counted.get());
    std::vector<std::thread> all;
    for (int i = 0; i < threads; ++i)
        all.emplace_back([&] {
            const made_current scope(context);
            for (int k = 0; k < copies; ++k)
                EXPECT_OK(ferry_copy_bytes_async(counted.get(), device, reinterpret_cast<std::uintptr_t>(pinned.data()),
                                                 16, nullptr, stream, nullptr, nullptr));
        });
    for (std::thread &one : all)
        one.join();
    EXPECT_OK(raw().cuStreamSynchronize(stream));
    const ferry_device_counters after = counters_of(counted.get());
    EXPECT_EQ(after.driver.copies - before.driver.copies, std::uint64_t{threads * copies});
    EXPECT_EQ(after.driver.bytes - before.driver.bytes, std::uint64_t{threads * copies * 16});
}

} // namespace
} // namespace ferry::test
