// Compares what ferry_copy_explain reports with the driver calls that the copy then makes.
#include <cstring>
#include <optional>

#if defined(__linux__)
#include "support/comma_locale.h"
#endif
#include "base/obstacle.h"
#include "base/route_kind.h"
#include "support/fault_driver.h"
#include "support/gate.h"
#include "support/how.h"
#include "support/raw_objects.h"
#include "support/test_place.h"

namespace ferry::test {
namespace {

bool has_kernels(const instance_owner &instance) {
    return ferry_instance_get_proc(instance.get(), "cuLibraryLoadData", 12000) != nullptr;
}
// Memory of a host pool to which the device has no access counts as pageable, too.
constexpr bool is_pageable(place_kind kind) { return kind == place_kind::pageable || kind == place_kind::pool_of_host; }
// Memory that kernels reach even if the other end is pageable.
constexpr bool is_of_device(place_kind kind) { return kind == place_kind::device || kind == place_kind::pool; }

ferry_explanation explain(const instance_owner &instance, const ferry_copy_desc &copy, const how &options = {}) {
    ferry_explanation found = new_explanation();
    EXPECT_OK(ferry_copy_explain(instance.get(), &copy, options, &found, nullptr));
    return found;
}
ferry_explanation explain_async(const instance_owner &instance, const ferry_copy_desc &copy, CUstream stream,
                                const how &options = {}) {
    ferry_explanation found = new_explanation();
    EXPECT_OK(ferry_copy_explain_async(instance.get(), &copy, options, stream, &found, nullptr));
    return found;
}

// A copy between two places of the same shape, whose kinds are stated.
struct stated_copy {
    stated_copy(place_kind from, place_kind to, const grid &shape, std::uint64_t width, std::uint64_t height = 1,
                std::uint64_t depth = 1)
        : source(from, shape), destination(to, shape),
          copy(describe_copy(source.describe(statement::stated), destination.describe(statement::stated), width, height,
                             depth)) {}
    test_place source, destination;
    ferry_copy_desc copy;
};

class explanations : public ferry_test {};

// Staging is prepared: the first staged copy would wait for a stream that is blocked.
class explanations_on_a_stream : public explanations {
protected:
    void SetUp() override {
        explanations::SetUp();
        if (!has_kernels(basic)) GTEST_SKIP() << "the driver cannot load kernels";
        ASSERT_OK(ferry_staging_prepare(basic.get(), 0, nullptr));
        stream.emplace();
    }
    void TearDown() override {
        stream.reset();
        explanations::TearDown();
    }
    std::optional<test_stream> stream;
};

TEST_F(explanations, name_the_driver_call_that_the_copy_makes) {
    fault_driver driver(raw_entry_points());
    const instance_owner instance = open_or_fail(driver.options());
    const test_stream stream;
    const char *const calls[] = {"cuMemcpy3D", "cuMemcpy3DAsync", "cuMemcpy3DPeer", "cuMemcpy3DPeerAsync",
                                 "cuLaunchKernel"};
    for (int far_device = 0; far_device < std::min(device_count(), 2); ++far_device)
        for (const place_kind from : all_place_kinds)
            for (const place_kind to : all_place_kinds) {
                const grid shape = {.width = 64, .height = 4};
                if (!can_be(from, shape) || !can_be(to, shape)) continue;
                test_place source(from, shape, far_device), destination(to, shape);
                for (const statement stating : {statement::stated, statement::any})
                    for (const bool is_synchronous : {true, false}) {
                        SCOPED_TRACE(testing::Message() << name_of(from) << " to " << name_of(to));
                        const ferry_copy_desc copy =
                            describe_copy(source.describe(stating), destination.describe(stating), 48, 3);
                        const bool is_staged = !is_synchronous && has_kernels(instance) &&
                                               ((is_pageable(from) && is_of_device(to)) ||
                                                (is_pageable(to) && is_of_device(from) && far_device == 0));
                        const how options = is_staged ? by_staging : how(); // the driver is faster for so little
                        driver.reset_counts();
                        const ferry_explanation found = is_synchronous ? explain(instance, copy, options)
                                                                       : explain_async(instance, copy, stream, options);
                        EXPECT_EQ(driver.calls_beginning("cuMemcpy"), 0) << "nothing may be copied";
                        EXPECT_EQ(found.route, is_staged ? FERRY_ROUTE_STAGED : FERRY_ROUTE_DRIVER);
                        driver.reset_counts();
                        ASSERT_OK(is_synchronous
                                      ? ferry_copy(instance.get(), &copy, options, nullptr)
                                      : ferry_copy_async(instance.get(), &copy, options, stream, nullptr, nullptr));
                        ASSERT_OK(raw().cuStreamSynchronize(stream));
                        for (const char *const call : calls) {
                            // On an idle stream one more kernel shows first whether the device has room for kernels.
                            const int once = is_staged ? 2 : 1;
                            EXPECT_EQ(driver.calls(call), std::strcmp(call, found.driver_call) == 0 ? once : 0) << call;
                        }
                        EXPECT_EQ(driver.calls("cuStreamSynchronize"), found.synchronises);
                    }
            }
}

// Copies between pageable memory and a device, whose route depends on the stream: the lengths and options below.
constexpr std::uint64_t ticket_lengths[] = {64, 5000, 200'000, 3 << 20};
constexpr how ticket_options[] = {{}, urgent, no_kernels, read_in_the_call, written_in_the_call};

struct copy_for_ticket {
    copy_for_ticket(bool is_up, std::uint64_t length, const how &with)
        : host(place_kind::pageable, {.width = length}), device(place_kind::device, {.width = length}), options(with) {
        test_place &from = is_up ? host : device, &to = is_up ? device : host;
        copy = describe_copy(from.describe(statement::any), to.describe(statement::any), length);
    }
    ferry_explanation explain(const instance_owner &instance, CUstream stream) const {
        return explain_async(instance, copy, stream, options);
    }
    // Returns the route that the ticket reports.
    std::int32_t enqueue(ferry_instance *instance, CUstream stream) const {
        ferry_ticket *ticket = nullptr;
        ferry_ticket_info info = {};
        info.struct_size = sizeof info;
        EXPECT_OK(ferry_copy_async(instance, &copy, options, stream, &ticket, nullptr));
        EXPECT_OK(ferry_ticket_get_info(ticket, &info, nullptr));
        EXPECT_OK(ferry_ticket_release(ticket, nullptr));
        return info.route;
    }
    test_place host, device;
    how options;
    ferry_copy_desc copy = {};
};

TEST_F(explanations_on_a_stream, name_the_route_of_the_ticket_while_the_stream_stays_idle_or_busy) {
    for (const bool is_up : {true, false})
        for (const std::uint64_t length : ticket_lengths)
            for (const how &options : ticket_options) {
                SCOPED_TRACE(testing::Message() << length << (is_up ? " bytes up, " : " bytes down, ") << options);
                const copy_for_ticket one(is_up, length, options);
                ASSERT_OK(raw().cuCtxSynchronize());
                const ferry_explanation idle = one.explain(basic, *stream);
                const std::int32_t route = one.enqueue(basic.get(), *stream);
                ASSERT_OK(raw().cuCtxSynchronize());
                // On a busy machine, a staging delay that ferry has measured changes the route until it is forgotten.
                if (route != idle.route) {
                    EXPECT_NE(idle.staging_delay_ns + one.explain(basic, *stream).staging_delay_ns, 0u)
                        << "the ticket reports route " << route << ", explained was route " << idle.route;
                }
                gate held(*stream);
                const ferry_explanation busy = one.explain(basic, *stream);
                if (busy.blocks != FERRY_BLOCKS_NO) continue; // until the gate is open
                EXPECT_EQ(one.enqueue(basic.get(), *stream), busy.route);
                held.open();
            }
}

// A short copy behind other work is staged. Once that work has completed, the driver may be faster.
TEST_F(explanations_on_a_stream, name_another_route_once_the_work_before_the_copy_has_completed) {
    const copy_for_ticket one(false, 64, {});
    {
        gate held(*stream);
        EXPECT_EQ(one.explain(basic, *stream).route, FERRY_ROUTE_STAGED);
    }
    ASSERT_OK(raw().cuCtxSynchronize());
    EXPECT_EQ(one.explain(basic, *stream).route, FERRY_ROUTE_DRIVER);
    EXPECT_EQ(one.enqueue(basic.get(), *stream), FERRY_ROUTE_DRIVER);
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
    const struct {
        std::int32_t route, source_memory;
        const char *driver_call;
        std::uint32_t max_sms, threads, calls;
        std::uint64_t kernel_ns, staged_ns;
        const char *line;
    } cases[] = {
        {FERRY_ROUTE_KERNEL, FERRY_MEMORY_PINNED, "cuLaunchKernel", 8, 0, 0, 7890, 0,
         "kernel route: cuLaunchKernel on 8 SMs, pinned to device 0, 4 B x 1 rows x 1 slices; does not block; 123.5 us "
         "by the driver, 7.9 us by a kernel"},
        {FERRY_ROUTE_KERNEL, FERRY_MEMORY_PINNED, "cuLaunchKernel", 8, 0, 0, 0, 0,
         "kernel route: cuLaunchKernel on 8 SMs, pinned to device 0, 4 B x 1 rows x 1 slices; does not block; 123.5 "
         "us"},
        {FERRY_ROUTE_STAGED, FERRY_MEMORY_PAGEABLE, "cuLaunchKernel", 8, 7, 3, 0, 45000,
         "staged route: cuLaunchKernel on 8 SMs and 7 threads in 3 calls, pageable to device 0, 4 B x 1 rows x 1 "
         "slices; does not block; 123.5 us by the driver, 45.0 us staged"},
        {FERRY_ROUTE_STAGED, FERRY_MEMORY_PAGEABLE, "cuMemcpy3DAsync", 0, 7, 3, 0, 45000,
         "staged route: cuMemcpy3DAsync on 7 threads in 3 calls, pageable to device 0, 4 B x 1 rows x 1 slices; does "
         "not block; 123.5 us by the driver, 45.0 us staged"},
    };
    for (const auto &one : cases) {
        ferry_explanation given = new_explanation();
        given.route = one.route;
        given.source_memory = one.source_memory;
        given.destination_memory = FERRY_MEMORY_DEVICE;
        std::snprintf(given.driver_call, sizeof given.driver_call, "%s", one.driver_call);
        given.max_sms = one.max_sms;
        given.threads = one.threads;
        given.calls = one.calls;
        given.width = 4;
        given.height = given.depth = 1;
        given.driver_ns = 123456;
        given.kernel_ns = one.kernel_ns;
        given.staged_ns = one.staged_ns;
        EXPECT_EQ(describe(given), one.line);
    }
}

TEST_F(explanations_on_a_stream, report_why_a_copy_takes_its_route) {
    const grid line = {.width = 4096}, narrow = {.width = 16, .height = 1 << 16}, image = {.width = 1024, .height = 8};
    constexpr std::int32_t any_route = -1; // depends on the device
    struct {
        const char *what;
        place_kind from, to;
        grid shape;
        std::uint64_t width; // of each row
        how options;
        std::int32_t route, reason;
        const char *text;
    } const cases[] = {
        {"a line",
         place_kind::pinned,
         place_kind::device,
         line,
         4096,
         {},
         FERRY_ROUTE_DRIVER,
         FERRY_REASON_LINE,
         "; because the driver is as fast for contiguous memory"},
        {"both ends on the host",
         place_kind::pinned,
         place_kind::pinned,
         image,
         64,
         {},
         FERRY_ROUTE_DRIVER,
         FERRY_REASON_ONLY,
         "; no kernel: both ends are host memory"},
        {"narrow rows",
         place_kind::device,
         place_kind::device,
         narrow,
         4,
         {},
         any_route,
         FERRY_REASON_PREDICTED,
         "; because it is predicted to be the fastest ("},
        {"forced", place_kind::device, place_kind::device, narrow, 4, by_driver, FERRY_ROUTE_DRIVER,
         FERRY_REASON_FORCED, "; because the options force it"},
        {"forced to be staged", place_kind::pageable, place_kind::device, line, 4096, by_staging, FERRY_ROUTE_STAGED,
         FERRY_REASON_FORCED, "; because the options force it"},
        {"urgent", place_kind::pinned, place_kind::device, image, 64, urgent, FERRY_ROUTE_KERNEL, FERRY_REASON_URGENT,
         "; because of URGENT"},
        {"pageable, behind other work, which writes it", place_kind::pageable, place_kind::device, line, 4096,
         in_stream_order, FERRY_ROUTE_STAGED, FERRY_REASON_NO_WAIT, "; because the driver would make the caller wait"},
        {"pageable, behind other work",
         place_kind::pageable,
         place_kind::device,
         {.width = 1 << 17},
         1 << 17,
         {},
         FERRY_ROUTE_BUFFERED,
         FERRY_REASON_SOURCE_ORDER,
         "; because the source is read in the call"},
        {"read early",
         place_kind::pageable,
         place_kind::device,
         {.width = 1 << 19},
         1 << 19,
         read_in_the_call,
         FERRY_ROUTE_BUFFERED,
         FERRY_REASON_SOURCE_ORDER,
         "; because the source is read in the call"},
    };
    for (const auto &one : cases) {
        SCOPED_TRACE(one.what);
        const stated_copy between(one.from, one.to, one.shape, one.width, one.shape.height);
        const gate held(*stream);
        const ferry_explanation found = explain_async(basic, between.copy, *stream, one.options);
        EXPECT_EQ(found.route, one.route == any_route ? found.route : one.route);
        EXPECT_EQ(found.reason, one.reason);
        EXPECT_NE(describe(found).find(one.text), std::string::npos) << describe(found);
        EXPECT_EQ(found.profile, on_software_driver() ? FERRY_PROFILE_CAUTIOUS : found.profile);
        EXPECT_NE(found.profile, FERRY_PROFILE_NONE);
    }
}

TEST_F(explanations, name_a_measured_profile_once_the_device_is_calibrated) {
    ASSERT_OK(ferry_device_calibrate(full.get(), 0, nullptr));
    const stated_copy between(place_kind::device, place_kind::device, {.width = 4096}, 64);
    EXPECT_EQ(explain(full, between.copy).profile, FERRY_PROFILE_MEASURED);
}

TEST_F(explanations_on_a_stream, report_what_the_caller_waits_for) {
    for (const waiting_row &row : rows) {
        SCOPED_TRACE(row.line);
        if (!is_supported(row.from) || !is_supported(row.to)) continue;
        const stated_copy between(row.from, row.to, {.width = 64, .height = 4}, 48, 3);
        ferry_explanation found = new_explanation();
        {
            const gate held(*stream);
            found = explain_async(basic, between.copy, *stream, in_stream_order);
        }
        EXPECT_EQ(found.blocks, row.asynchronous);
        found.driver_ns = found.kernel_ns = found.staged_ns = 0; // the predictions depend on the device
        found.reason = FERRY_REASON_NONE;
        EXPECT_EQ(found.threads != 0, found.route == FERRY_ROUTE_STAGED);
        found.threads = 5; // the number of threads depends on the machine
        if (found.max_sms != 0) found.max_sms = 8;
        EXPECT_EQ(describe(found), row.line);
        EXPECT_EQ(found.synchronises, row.asynchronous == FERRY_BLOCKS_UNTIL_STAGED);
        EXPECT_EQ(explain(basic, between.copy).blocks, FERRY_BLOCKS_UNTIL_DONE);
    }
}

// While the stream is busy with something long, tests what "does not block" and "until the copy is complete" mean.
TEST_F(explanations, calls_that_do_not_block_return_before_the_work_ahead_of_them_has_ended) {
    constexpr std::uint64_t size = 64 << 20;
    const test_stream stream;
    ASSERT_OK(ferry_staging_prepare(basic.get(), 0, nullptr));
    test_place ahead(place_kind::pinned, {.width = size}), memory(place_kind::device, {.width = size});
    for (const waiting_row &row : rows) {
        SCOPED_TRACE(row.line);
        if (row.asynchronous == FERRY_BLOCKS_UNTIL_STAGED) continue; // small copies are staged immediately
        const stated_copy between(row.from, row.to, {.width = 64, .height = 4}, 48, 3);
        std::int32_t done = -1;
        if (row.asynchronous == FERRY_BLOCKS_NO) {
            ASSERT_OK(ferry_copy_async(basic.get(), &between.copy, nullptr, stream, nullptr,
                                       nullptr)); // creates what is needed once
            ASSERT_OK(raw().cuStreamSynchronize(stream));
            const gate held(stream); // a call that waited would not return
            ASSERT_OK(ferry_copy_async(basic.get(), &between.copy, nullptr, stream, nullptr, nullptr));
            ASSERT_OK(ferry_stream_query(basic.get(), stream, &done, nullptr));
            EXPECT_EQ(done, 0);
        } else {
            ASSERT_OK(ferry_copy_bytes_async(basic.get(), memory.address(), ahead.address(), size, nullptr, stream,
                                             nullptr, nullptr));
            ASSERT_OK(ferry_copy_async(basic.get(), &between.copy, nullptr, stream, nullptr, nullptr));
            ASSERT_OK(ferry_stream_query(basic.get(), stream, &done, nullptr));
            EXPECT_EQ(done, 1);
        }
        ASSERT_OK(raw().cuStreamSynchronize(stream));
    }
}

TEST_F(explanations, tight_dimensions_are_folded) {
    const stated_copy between(place_kind::pinned, place_kind::device, {.width = 64, .height = 4, .depth = 3}, 64, 4, 3);
    const ferry_explanation found = explain(basic, between.copy);
    EXPECT_EQ(found.width, 64u * 4 * 3);
    EXPECT_EQ(found.height, 1u);
    EXPECT_EQ(found.depth, 1u);
    EXPECT_EQ(found.context_device, 0);
    EXPECT_EQ(found.source_memory, FERRY_MEMORY_PINNED);
    EXPECT_EQ(found.source_device, -1);
    EXPECT_EQ(found.destination_memory, FERRY_MEMORY_DEVICE);
    EXPECT_EQ(found.destination_device, 0);
}

TEST_F(explanations, an_empty_copy_takes_no_route) {
    const ferry_explanation found = explain(basic, {});
    EXPECT_EQ(found.route, FERRY_ROUTE_NONE);
    EXPECT_EQ(found.reason, FERRY_REASON_NONE);
    EXPECT_STREQ(found.driver_call, "");
    EXPECT_EQ(describe(found), "nothing to copy");
}

TEST_F(explanations, a_bad_copy_is_refused_with_the_same_error_as_by_the_copy_itself) {
    ferry_copy_desc copy = {};
    copy.width = 4;
    ferry_explanation found = new_explanation();
    ferry_error_info error = new_error();
    expect_refusal(ferry_copy_explain(basic.get(), &copy, nullptr, &found, &error), error, FERRY_ERROR_ADDRESS,
                   FERRY_SIDE_SOURCE, FERRY_FIELD_ADDRESS);
    found.struct_size = 4;
    copy.width = 0;
    EXPECT_EQ(ferry_copy_explain(basic.get(), &copy, nullptr, &found, &error), FERRY_ERROR_ABI_MISMATCH);
    EXPECT_EQ(ferry_copy_explain(basic.get(), &copy, nullptr, nullptr, &error), FERRY_ERROR_INVALID_ARGUMENT);
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
    const ferry_explanation found = explain(basic, {});
    char buffer[8];
    EXPECT_EQ(ferry_explanation_format(&found, buffer, sizeof buffer), std::strlen("nothing to copy"));
    EXPECT_STREQ(buffer, "nothing");
}

TEST_F(explanations, a_line_has_room_for_the_longest_times_of_all_routes) {
    ferry_explanation found = new_explanation();
    found.route = FERRY_ROUTE_STAGED;
    std::string times;
    for (const route_entry &route : routes_by_number.all) {
        if (!route.ns) continue;
        found.*route.ns = UINT64_MAX;
        times += (times.empty() ? "; " : ", ") + std::string("18446744073709551.6 us ") + route.how;
    }
    char line[1024];
    ASSERT_LT(ferry_explanation_format(&found, line, sizeof line), sizeof line);
    EXPECT_NE(std::strstr(line, times.c_str()), nullptr) << line;
}

TEST_F(explanations, a_line_has_room_for_the_longest_shares_of_a_batch) {
    ferry_batch_explanation found = {};
    found.struct_size = sizeof found;
    found.max_sms = found.threads = UINT32_MAX;
    for (ferry_batch_share *const share :
         {&found.broadcasts, &found.staged, &found.kernels, &found.batch_calls, &found.singles})
        *share = {.copies = UINT64_MAX, .bytes = UINT64_MAX, .predicted_ns = UINT64_MAX, .reserved = 0};
    char line[1024];
    ASSERT_LT(ferry_batch_explanation_format(&found, line, sizeof line), sizeof line);
    EXPECT_NE(
        std::strstr(line, "; 18446744073709551615 by separate calls, 18446744073709.6 MB, 18446744073709551.6 us"),
        nullptr)
        << line;
}

TEST(obstacles, public_numbers_have_texts_and_no_others) {
    for (std::int32_t number = FERRY_OBSTACLE_NONE; number <= last_public_obstacle; ++number)
        EXPECT_STRNE(ferry_obstacle_text(number), "?") << number;
    for (const std::int32_t number : {-1, last_public_obstacle + 1, last_public_obstacle + 2, 1000})
        EXPECT_STREQ(ferry_obstacle_text(number), "?") << number;
}

#if defined(__linux__)

// Everything that ferry writes as text and that contains numbers.
std::string texts_of(ferry_instance *instance) {
    ferry_explanation found = {};
    found.struct_size = sizeof found;
    found.route = FERRY_ROUTE_KERNEL;
    found.source_memory = FERRY_MEMORY_PINNED;
    found.destination_memory = FERRY_MEMORY_DEVICE;
    found.width = 1234567;
    found.height = found.depth = 1;
    found.driver_ns = 123456789;
    found.kernel_ns = 1050;
    ferry_batch_explanation batch = {};
    batch.struct_size = sizeof batch;
    batch.kernels.copies = 1200;
    batch.kernels.bytes = 9876543210;
    batch.kernels.predicted_ns = 999949;
    char line[512] = "";
    std::string all = describe(found) + '\n';
    ferry_batch_explanation_format(&batch, line, sizeof line);
    all += std::string(line) + '\n';
    ferry_error_info error = new_error();
    EXPECT_NE(ferry_device_alloc(instance, 1234, 1, &found.width, &error), FERRY_SUCCESS);
    all += describe(error) + '\n';
    std::uint64_t needed = 0;
    EXPECT_OK(ferry_profile_save(instance, 0, nullptr, 0, &needed, nullptr));
    std::string profile(needed, '\0');
    EXPECT_OK(ferry_profile_save(instance, 0, profile.data(), profile.size(), nullptr, nullptr));
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
