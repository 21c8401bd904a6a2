// Tests that ferry_copy_explain is right, by comparing it with the driver calls that the copy then makes.
#include <cstring>

#if defined(__linux__)
#include "support/comma_locale.h"
#endif
#include "support/fault_driver.h"
#include "support/gate.h"
#include "support/raw_objects.h"
#include "support/test_place.h"

namespace ferry::test {
namespace {

class explanations : public ferry_test {};

bool has_kernels(const instance_owner &instance) {
    return ferry_instance_get_proc(instance.get(), "cuLibraryLoadData", 12000) != nullptr;
}
// Memory of a host pool to which the device has no access counts as pageable, too.
constexpr bool is_pageable(place_kind kind) { return kind == place_kind::pageable || kind == place_kind::pool_of_host; }
// Memory that kernels reach even if the other end is pageable.
constexpr bool is_of_device(place_kind kind) { return kind == place_kind::device || kind == place_kind::pool; }

TEST_F(explanations, name_the_driver_call_that_the_copy_makes) {
    fault_driver driver(raw_entry_points());
    const instance_owner instance = open_or_fail(driver.options());
    CUstream stream = nullptr;
    ASSERT_OK(raw().cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    const char *const calls[] = {"cuMemcpy3D", "cuMemcpy3DAsync", "cuMemcpy3DPeer", "cuMemcpy3DPeerAsync",
                                 "cuLaunchKernel"};
    for (int far_device = 0; far_device < std::min(device_count(), 2); ++far_device)
        for (const place_kind from : all_place_kinds)
            for (const place_kind to : all_place_kinds) {
                const grid shape = {.width = 64, .height = 4};
                if (!can_be(from, shape) || !can_be(to, shape)) continue;
                test_place source(from, shape, far_device), destination(to, shape);
                for (const statement how : {statement::stated, statement::any})
                    for (const bool is_synchronous : {true, false}) {
                        SCOPED_TRACE(testing::Message() << name_of(from) << " to " << name_of(to));
                        ferry_copy_desc copy = describe_copy(source.describe(how), destination.describe(how), 48, 3);
                        const bool is_staged = !is_synchronous && has_kernels(instance) &&
                                               ((is_pageable(from) && is_of_device(to)) ||
                                                (is_pageable(to) && is_of_device(from) && far_device == 0));
                        if (is_staged) copy.flags = FERRY_COPY_BY_STAGING; // the driver is faster for so little
                        ferry_explanation told = new_explanation();
                        driver.reset_counts();
                        ASSERT_OK(is_synchronous
                                      ? ferry_copy_explain(instance.get(), &copy, &told, nullptr)
                                      : ferry_copy_explain_async(instance.get(), &copy, stream, &told, nullptr));
                        EXPECT_EQ(driver.calls_beginning("cuMemcpy"), 0) << "nothing may be copied";
                        EXPECT_EQ(told.route, is_staged ? FERRY_ROUTE_STAGED : FERRY_ROUTE_DRIVER);
                        driver.reset_counts();
                        ASSERT_OK(is_synchronous ? ferry_copy(instance.get(), &copy, nullptr)
                                                 : ferry_copy_async(instance.get(), &copy, stream, nullptr, nullptr));
                        ASSERT_OK(raw().cuStreamSynchronize(stream));
                        for (const char *const call : calls) {
                            // On an idle stream one more kernel shows first whether the device has room for kernels.
                            const int once = is_staged ? 2 : 1;
                            EXPECT_EQ(driver.calls(call), std::strcmp(call, told.driver_call) == 0 ? once : 0) << call;
                        }
                        EXPECT_EQ(driver.calls("cuStreamSynchronize"), told.synchronises);
                    }
            }
    EXPECT_OK(raw().cuStreamDestroy(stream));
}

// Copies between pageable memory and a device, whose route depends on the stream: the lengths and flags below.
constexpr std::uint64_t ticket_lengths[] = {64, 5000, 200'000, 3 << 20};
constexpr std::uint32_t ticket_flags[] = {0, FERRY_COPY_URGENT, FERRY_COPY_NO_KERNELS, FERRY_COPY_SOURCE_READ,
                                          FERRY_COPY_DESTINATION_WRITTEN};

struct copy_for_ticket {
    copy_for_ticket(bool is_up, std::uint64_t length, std::uint32_t flags)
        : host(place_kind::pageable, {.width = length}), device(place_kind::device, {.width = length}) {
        test_place &from = is_up ? host : device, &to = is_up ? device : host;
        copy = describe_copy(from.describe(statement::any), to.describe(statement::any), length);
        copy.flags = flags;
    }
    ferry_explanation explain(ferry_instance *instance, CUstream stream) const {
        ferry_explanation told = new_explanation();
        EXPECT_OK(ferry_copy_explain_async(instance, &copy, stream, &told, nullptr));
        return told;
    }
    // Returns the route that the ticket reports.
    std::int32_t enqueue(ferry_instance *instance, CUstream stream) const {
        ferry_ticket *ticket = nullptr;
        ferry_ticket_info info = {};
        info.struct_size = sizeof info;
        EXPECT_OK(ferry_copy_async(instance, &copy, stream, &ticket, nullptr));
        EXPECT_OK(ferry_ticket_get_info(ticket, &info));
        EXPECT_OK(ferry_ticket_release(ticket));
        return info.route;
    }
    test_place host, device;
    ferry_copy_desc copy = {};
};

TEST_F(explanations, name_the_route_of_the_ticket_while_the_stream_stays_idle_or_busy) {
    if (!has_kernels(basic)) GTEST_SKIP() << "the driver cannot load kernels";
    ASSERT_OK(ferry_staging_prepare(basic.get(), 0));
    const test_stream stream;
    for (const bool is_up : {true, false})
        for (const std::uint64_t length : ticket_lengths)
            for (const std::uint32_t flags : ticket_flags) {
                SCOPED_TRACE(testing::Message() << length << " bytes, flags " << flags << (is_up ? " up" : " down"));
                const copy_for_ticket one(is_up, length, flags);
                ASSERT_OK(raw().cuCtxSynchronize());
                const ferry_explanation idle = one.explain(basic.get(), stream);
                EXPECT_EQ(one.enqueue(basic.get(), stream), idle.route);
                ASSERT_OK(raw().cuCtxSynchronize());
                gate held(stream);
                const ferry_explanation busy = one.explain(basic.get(), stream);
                if (busy.blocks != FERRY_BLOCKS_NO) continue; // until the gate is open
                EXPECT_EQ(one.enqueue(basic.get(), stream), busy.route);
                held.open();
            }
}

// A short copy behind other work is staged. Once that work has ended, the driver may be faster, and the copy is explained
// and made anew.
TEST_F(explanations, name_another_route_once_the_work_before_the_copy_has_ended) {
    if (!has_kernels(basic)) GTEST_SKIP() << "the driver cannot load kernels";
    ASSERT_OK(ferry_staging_prepare(basic.get(), 0));
    const test_stream stream;
    const copy_for_ticket one(false, 64, 0);
    {
        gate held(stream);
        EXPECT_EQ(one.explain(basic.get(), stream).route, FERRY_ROUTE_STAGED);
    }
    ASSERT_OK(raw().cuCtxSynchronize());
    EXPECT_EQ(one.explain(basic.get(), stream).route, FERRY_ROUTE_DRIVER);
    EXPECT_EQ(one.enqueue(basic.get(), stream), FERRY_ROUTE_DRIVER);
    ASSERT_OK(raw().cuCtxSynchronize());
}

struct waiting_row {
    place_kind from, to;
    std::int32_t asynchronous;
    const char *line;
};
constexpr waiting_row rows[] = {
    {place_kind::pinned, place_kind::device, FERRY_BLOCKS_NO,
     "driver route: cuMemcpy3DAsync, pinned to device 0, 48 B x 3 rows x 1 slices; does not block"},
    {place_kind::device, place_kind::pinned, FERRY_BLOCKS_NO,
     "driver route: cuMemcpy3DAsync, device 0 to pinned, 48 B x 3 rows x 1 slices; does not block"},
    {place_kind::registered, place_kind::array_2d, FERRY_BLOCKS_NO,
     "driver route: cuMemcpy3DAsync, pinned to array on device 0, 48 B x 3 rows x 1 slices; does not block; no kernel: "
     "an array that kernels cannot access (FERRY_ARRAY_SURFACE allows reads)"},
    {place_kind::device, place_kind::managed, FERRY_BLOCKS_NO,
     "driver route: cuMemcpy3DAsync, device 0 to managed, 48 B x 3 rows x 1 slices; does not block; no kernel: managed "
     "memory, which may reside anywhere (URGENT allows kernels)"},
    {place_kind::pageable, place_kind::device, FERRY_BLOCKS_NO,
     "staged route: cuLaunchKernel on 8 SMs and 5 threads, pageable to device 0, 48 B x 3 rows x 1 slices; "
     "does not block"},
    {place_kind::device, place_kind::pageable, FERRY_BLOCKS_NO,
     "staged route: cuLaunchKernel on 8 SMs and 5 threads, device 0 to pageable, 48 B x 3 rows x 1 slices; "
     "does not block"},
    {place_kind::pageable, place_kind::array_2d, FERRY_BLOCKS_NO,
     "staged route: cuMemcpy3DAsync on 5 threads, pageable to array on device 0, 48 B x 3 rows x 1 slices; "
     "does not block"},
    {place_kind::array_2d, place_kind::pageable, FERRY_BLOCKS_NO,
     "staged route: cuMemcpy3DAsync on 5 threads, array on device 0 to pageable, 48 B x 3 rows x 1 slices; "
     "does not block"},
    {place_kind::pinned, place_kind::pinned, FERRY_BLOCKS_UNTIL_DONE,
     "driver route: cuMemcpy3DAsync, pinned to pinned, 48 B x 3 rows x 1 slices; blocks until the copy is complete; no "
     "kernel: both "
     "ends are host memory"},
    {place_kind::pageable, place_kind::pinned, FERRY_BLOCKS_UNTIL_DONE,
     "driver route: cuMemcpy3DAsync, pageable to pinned, 48 B x 3 rows x 1 slices; blocks until the copy is complete; "
     "no kernel: both "
     "ends are host memory"},
    {place_kind::pinned, place_kind::open_pool_of_host, FERRY_BLOCKS_NO,
     "driver route: cuMemcpy3DAsync, pinned to pinned, 48 B x 3 rows x 1 slices; does not block; no kernel: both "
     "ends are host memory"},
    {place_kind::open_pool_of_host, place_kind::pinned, FERRY_BLOCKS_NO,
     "driver route: cuMemcpy3DAsync, pinned to pinned, 48 B x 3 rows x 1 slices; does not block; no kernel: both "
     "ends are host memory"},
    {place_kind::pageable, place_kind::open_pool_of_host, FERRY_BLOCKS_UNTIL_STAGED,
     "driver route: cuStreamSynchronize and cuMemcpy3DAsync, pageable to pinned, 48 B x 3 rows x 1 slices; blocks "
     "until the source has been read; no kernel: both ends are host memory"},
    {place_kind::open_pool_of_host, place_kind::pageable, FERRY_BLOCKS_UNTIL_DONE,
     "driver route: cuMemcpy3DAsync, pinned to pageable, 48 B x 3 rows x 1 slices; blocks until the copy is complete; "
     "no kernel: both "
     "ends are host memory"},
};

TEST_F(explanations, read_as_one_line_with_the_predicted_times) {
    ferry_explanation told = new_explanation();
    told.route = FERRY_ROUTE_KERNEL;
    told.source_memory = FERRY_MEMORY_PINNED;
    told.destination_memory = FERRY_MEMORY_DEVICE;
    std::strcpy(told.driver_call, "cuLaunchKernel");
    told.max_sms = 8;
    told.width = 4;
    told.height = told.depth = 1;
    told.driver_ns = 123456;
    told.kernel_ns = 7890;
    EXPECT_EQ(describe(told), "kernel route: cuLaunchKernel on 8 SMs, pinned to device 0, 4 B x 1 rows x 1 "
                              "slices; does not block; 123.5 us by the driver, 7.9 us by a kernel");
    told.kernel_ns = 0;
    EXPECT_EQ(describe(told), "kernel route: cuLaunchKernel on 8 SMs, pinned to device 0, 4 B x 1 rows x 1 "
                              "slices; does not block; 123.5 us");
    told.route = FERRY_ROUTE_STAGED;
    told.source_memory = FERRY_MEMORY_PAGEABLE;
    told.threads = 7;
    told.calls = 3;
    told.staged_ns = 45000;
    EXPECT_EQ(describe(told), "staged route: cuLaunchKernel on 8 SMs and 7 threads in 3 calls, pageable to device 0, "
                              "4 B x 1 rows x 1 slices; does not block; 123.5 us by the driver, 45.0 us staged");
    told.max_sms = 0;
    std::snprintf(told.driver_call, sizeof told.driver_call, "cuMemcpy3DAsync");
    EXPECT_EQ(describe(told),
              "staged route: cuMemcpy3DAsync on 7 threads in 3 calls, pageable to device 0, 4 B x 1 rows x "
              "1 slices; does not block; 123.5 us by the driver, 45.0 us staged");
}

TEST_F(explanations, tell_why_a_copy_takes_its_route) {
    if (!has_kernels(basic)) GTEST_SKIP() << "the driver cannot load kernels";
    ASSERT_OK(ferry_staging_prepare(basic.get(), 0));
    const test_stream stream;
    const grid line = {.width = 4096}, narrow = {.width = 16, .height = 1 << 16}, image = {.width = 1024, .height = 8};
    constexpr std::int32_t any_route = -1; // depends on the device
    struct {
        const char *what;
        place_kind from, to;
        grid shape;
        std::uint64_t width; // of each row
        std::uint32_t flags;
        std::int32_t route, reason;
        const char *text;
    } const cases[] = {
        {"a line", place_kind::pinned, place_kind::device, line, 4096, 0, FERRY_ROUTE_DRIVER, FERRY_REASON_LINE,
         "; because the driver is as fast for contiguous memory"},
        {"both ends on the host", place_kind::pinned, place_kind::pinned, image, 64, 0, FERRY_ROUTE_DRIVER,
         FERRY_REASON_ONLY, "; no kernel: both ends are host memory"},
        {"narrow rows", place_kind::device, place_kind::device, narrow, 4, 0, any_route, FERRY_REASON_PREDICTED,
         "; because it is predicted to be the fastest ("},
        {"forced", place_kind::device, place_kind::device, narrow, 4, FERRY_COPY_BY_DRIVER, FERRY_ROUTE_DRIVER,
         FERRY_REASON_FORCED, "; because the flags force it"},
        {"forced to be staged", place_kind::pageable, place_kind::device, line, 4096, FERRY_COPY_BY_STAGING,
         FERRY_ROUTE_STAGED, FERRY_REASON_FORCED, "; because the flags force it"},
        {"urgent", place_kind::pinned, place_kind::device, image, 64, FERRY_COPY_URGENT, FERRY_ROUTE_KERNEL,
         FERRY_REASON_URGENT, "; because of URGENT"},
        {"pageable, behind other work", place_kind::pageable, place_kind::device, line, 4096, 0, FERRY_ROUTE_STAGED,
         FERRY_REASON_NO_WAIT, "; because the driver would make the caller wait"},
        {"read early",
         place_kind::pageable,
         place_kind::device,
         {.width = 1 << 19},
         1 << 19,
         FERRY_COPY_SOURCE_READ,
         FERRY_ROUTE_BUFFERED,
         FERRY_REASON_SOURCE_READ,
         "; because SOURCE_READ requires reading the source in the call"},
    };
    for (const auto &one : cases) {
        SCOPED_TRACE(one.what);
        test_place source(one.from, one.shape), destination(one.to, one.shape);
        ferry_copy_desc copy = describe_copy(source.describe(statement::stated),
                                             destination.describe(statement::stated), one.width, one.shape.height);
        copy.flags = one.flags;
        ferry_explanation told = new_explanation();
        const gate held(stream);
        ASSERT_OK(ferry_copy_explain_async(basic.get(), &copy, stream, &told, nullptr));
        EXPECT_EQ(told.route, one.route == any_route ? told.route : one.route);
        EXPECT_EQ(told.reason, one.reason);
        EXPECT_NE(describe(told).find(one.text), std::string::npos) << describe(told);
        EXPECT_EQ(told.profile, on_software_driver() ? FERRY_PROFILE_CAUTIOUS : told.profile);
        EXPECT_NE(told.profile, FERRY_PROFILE_NONE);
    }
    ferry_explanation nothing = new_explanation();
    ferry_copy_desc empty = {};
    ASSERT_OK(ferry_copy_explain(basic.get(), &empty, &nothing, nullptr));
    EXPECT_EQ(nothing.reason, FERRY_REASON_NONE);
    ASSERT_OK(ferry_device_calibrate(full.get(), 0, nullptr));
    const device_memory one(4096), other(4096);
    empty.source.address = one, empty.destination.address = other, empty.width = 64;
    ASSERT_OK(ferry_copy_explain(full.get(), &empty, &nothing, nullptr));
    EXPECT_EQ(nothing.profile, FERRY_PROFILE_MEASURED);
}

TEST_F(explanations, tell_what_the_caller_waits_for) {
    if (!has_kernels(basic)) GTEST_SKIP() << "the driver cannot load kernels";
    ASSERT_OK(ferry_staging_prepare(basic.get(), 0));
    const test_stream stream;
    for (const waiting_row &row : rows) {
        SCOPED_TRACE(row.line);
        const grid shape = {.width = 64, .height = 4};
        if (!is_supported(row.from) || !is_supported(row.to)) continue;
        test_place source(row.from, shape), destination(row.to, shape);
        const ferry_copy_desc copy =
            describe_copy(source.describe(statement::stated), destination.describe(statement::stated), 48, 3);
        ferry_explanation told = new_explanation();
        {
            const gate held(stream);
            ASSERT_OK(ferry_copy_explain_async(basic.get(), &copy, stream, &told, nullptr));
        }
        EXPECT_EQ(told.blocks, row.asynchronous);
        told.driver_ns = told.kernel_ns = told.staged_ns = 0; // the predictions depend on the device
        told.reason = FERRY_REASON_NONE;
        EXPECT_EQ(told.threads != 0, told.route == FERRY_ROUTE_STAGED);
        told.threads = 5; // the number of threads depends on the machine
        if (told.max_sms != 0) told.max_sms = 8;
        EXPECT_EQ(describe(told), row.line);
        EXPECT_EQ(told.synchronises, row.asynchronous == FERRY_BLOCKS_UNTIL_STAGED);
        ASSERT_OK(ferry_copy_explain(basic.get(), &copy, &told, nullptr));
        EXPECT_EQ(told.blocks, FERRY_BLOCKS_UNTIL_DONE);
    }
}

// Shows what "does not block" and "until done" mean, while the stream is busy with something long.
TEST_F(explanations, calls_that_do_not_block_return_before_the_work_ahead_of_them_has_ended) {
    constexpr std::uint64_t size = 64 << 20;
    CUstream stream = nullptr;
    ASSERT_OK(raw().cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    ASSERT_OK(ferry_staging_prepare(basic.get(), 0));
    test_place ahead(place_kind::pinned, {.width = size}), memory(place_kind::device, {.width = size});
    for (const waiting_row &row : rows) {
        SCOPED_TRACE(row.line);
        if (row.asynchronous == FERRY_BLOCKS_UNTIL_STAGED) continue; // small copies are staged at once
        const grid shape = {.width = 64, .height = 4};
        test_place source(row.from, shape), destination(row.to, shape);
        const ferry_copy_desc copy =
            describe_copy(source.describe(statement::stated), destination.describe(statement::stated), 48, 3);
        std::int32_t done = -1;
        if (row.asynchronous == FERRY_BLOCKS_NO) {
            ASSERT_OK(ferry_copy_async(basic.get(), &copy, stream, nullptr, nullptr)); // creates what is needed once
            ASSERT_OK(raw().cuStreamSynchronize(stream));
            const gate held(stream); // a call that waited would not return
            ASSERT_OK(ferry_copy_async(basic.get(), &copy, stream, nullptr, nullptr));
            ASSERT_OK(ferry_stream_query(basic.get(), stream, &done));
            EXPECT_EQ(done, 0);
        } else {
            ASSERT_OK(ferry_copy_bytes_async(basic.get(), memory.address(), ahead.address(), size, stream, nullptr));
            ASSERT_OK(ferry_copy_async(basic.get(), &copy, stream, nullptr, nullptr));
            ASSERT_OK(ferry_stream_query(basic.get(), stream, &done));
            EXPECT_EQ(done, 1);
        }
        ASSERT_OK(raw().cuStreamSynchronize(stream));
    }
    EXPECT_OK(raw().cuStreamDestroy(stream));
}

TEST_F(explanations, tight_dimensions_are_folded) {
    const grid shape = {.width = 64, .height = 4, .depth = 3};
    test_place source(place_kind::pinned, shape), destination(place_kind::device, shape);
    const ferry_copy_desc copy =
        describe_copy(source.describe(statement::stated), destination.describe(statement::stated), 64, 4, 3);
    ferry_explanation told = new_explanation();
    ASSERT_OK(ferry_copy_explain(basic.get(), &copy, &told, nullptr));
    EXPECT_EQ(told.width, 64u * 4 * 3);
    EXPECT_EQ(told.height, 1u);
    EXPECT_EQ(told.depth, 1u);
    EXPECT_EQ(told.context_device, 0);
    EXPECT_EQ(told.source_memory, FERRY_MEMORY_PINNED);
    EXPECT_EQ(told.source_device, -1);
    EXPECT_EQ(told.destination_memory, FERRY_MEMORY_DEVICE);
    EXPECT_EQ(told.destination_device, 0);
}

TEST_F(explanations, an_empty_copy_takes_no_route) {
    ferry_copy_desc copy = {};
    ferry_explanation told = new_explanation();
    ASSERT_OK(ferry_copy_explain(basic.get(), &copy, &told, nullptr));
    EXPECT_EQ(told.route, FERRY_ROUTE_NONE);
    EXPECT_STREQ(told.driver_call, "");
    EXPECT_EQ(describe(told), "nothing to copy");
}

TEST_F(explanations, a_bad_copy_is_refused_as_by_the_copy_itself) {
    ferry_copy_desc copy = {};
    copy.width = 4;
    ferry_explanation told = new_explanation();
    ferry_error_info error = new_error();
    expect_refusal(ferry_copy_explain(basic.get(), &copy, &told, &error), error, FERRY_ERROR_ADDRESS, FERRY_SIDE_SOURCE,
                   FERRY_FIELD_ADDRESS);
    told.struct_size = 4;
    copy.width = 0;
    EXPECT_EQ(ferry_copy_explain(basic.get(), &copy, &told, &error), FERRY_ERROR_ABI_MISMATCH);
    EXPECT_EQ(ferry_copy_explain(basic.get(), &copy, nullptr, &error), FERRY_ERROR_INVALID_ARGUMENT);
    char line[8] = "before";
    EXPECT_EQ(ferry_explanation_format(nullptr, line, sizeof line), 0u);
    EXPECT_STREQ(line, "");
    EXPECT_EQ(ferry_explanation_format(nullptr, nullptr, 8), 0u);
    line[0] = 'x';
    EXPECT_EQ(ferry_error_format(nullptr, line, sizeof line), 0u);
    EXPECT_STREQ(line, "");
    EXPECT_GT(ferry_error_format(&error, nullptr, 8), 0u) << "no buffer counts as one of size 0";
}

TEST_F(explanations, a_line_is_truncated_to_the_buffer) {
    ferry_copy_desc copy = {};
    ferry_explanation told = new_explanation();
    ASSERT_OK(ferry_copy_explain(basic.get(), &copy, &told, nullptr));
    char buffer[8];
    EXPECT_EQ(ferry_explanation_format(&told, buffer, sizeof buffer), std::strlen("nothing to copy"));
    EXPECT_STREQ(buffer, "nothing");
}

TEST(obstacles, public_numbers_have_texts_and_no_others) {
    for (std::int32_t number = FERRY_OBSTACLE_NONE; number <= FERRY_OBSTACLE_CAPTURED; ++number)
        EXPECT_STRNE(ferry_obstacle_text(number), "?") << number;
    for (const std::int32_t number : {-1, FERRY_OBSTACLE_CAPTURED + 1, FERRY_OBSTACLE_CAPTURED + 2, 1000})
        EXPECT_STREQ(ferry_obstacle_text(number), "?") << number;
}

#if defined(__linux__)

// Everything that ferry writes as text and that contains numbers.
std::string texts_of(ferry_instance *instance) {
    ferry_explanation told = {};
    told.struct_size = sizeof told;
    told.route = FERRY_ROUTE_KERNEL;
    told.source_memory = FERRY_MEMORY_PINNED;
    told.destination_memory = FERRY_MEMORY_DEVICE;
    told.width = 1234567;
    told.height = told.depth = 1;
    told.driver_ns = 123456789;
    told.kernel_ns = 1050;
    ferry_batch_explanation batch = {};
    batch.struct_size = sizeof batch;
    batch.kernels.copies = 1200;
    batch.kernels.bytes = 9876543210;
    batch.kernels.predicted_ns = 999949;
    char line[512] = "";
    std::string all = describe(told) + '\n';
    ferry_batch_explanation_format(&batch, line, sizeof line);
    all += std::string(line) + '\n';
    ferry_error_info error = new_error();
    EXPECT_NE(ferry_device_alloc(instance, 1234, 1, &told.width, &error), FERRY_SUCCESS);
    all += describe(error) + '\n';
    std::uint64_t needed = 0;
    EXPECT_OK(ferry_profile_save(instance, 0, nullptr, 0, &needed));
    std::string profile(needed, '\0');
    EXPECT_OK(ferry_profile_save(instance, 0, profile.data(), profile.size(), nullptr));
    EXPECT_OK(ferry_profile_load(instance, profile.data(), needed - 1, nullptr));
    return all + profile;
}

TEST_F(explanations, and_other_texts_are_the_same_where_the_locale_has_decimal_commas) {
    const std::string usual = texts_of(basic.get());
    EXPECT_NE(usual.find("; 123456.8 us by the driver, 1.1 us by a kernel"), std::string::npos) << usual;
    EXPECT_NE(usual.find("1200 copies by a kernel on 0 SMs, 9876.5 MB, 999.9 us\n"), std::string::npos) << usual;
    const comma_locale locale;
    if (!locale.is_set()) GTEST_SKIP() << "the system has no localedef, which makes the locale";
    EXPECT_EQ(texts_of(basic.get()), usual);
}

#endif

} // namespace
} // namespace ferry::test
