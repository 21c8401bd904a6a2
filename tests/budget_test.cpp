// The budgets of an instance (ferry_options.max_pinned_bytes, max_device_bytes and max_threads), and what
// ferry_instance_get_usage reports.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#if defined(__linux__)
#include <dirent.h>
#include <fstream>
#endif

#include "support/counted_test.h"
#include "support/dice.h"
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

template <class Struct> Struct sized() {
    Struct made = {};
    made.struct_size = sizeof made;
    return made;
}

bool within_seconds(const std::function<bool()> &is_true) {
    const auto end = std::chrono::steady_clock::now() + 20s;
    while (!is_true()) {
        if (std::chrono::steady_clock::now() > end) return false;
        std::this_thread::sleep_for(1ms);
    }
    return true;
}

ferry_copy_desc line(std::uint64_t to, std::uint64_t from, std::uint64_t size) {
    ferry_copy_desc made = {};
    made.destination.address = to;
    made.source.address = from;
    made.width = size;
    return made;
}

class budgets : public counted_test {
protected:
    template <class Change> void reopen(const Change &change) {
        counted.reset();
        ferry_options options = driver.options();
        change(options);
        counted = open_or_fail(options);
    }
    ferry_usage usage() const {
        auto found = sized<ferry_usage>();
        EXPECT_OK(ferry_instance_get_usage(counted.get(), &found, nullptr));
        EXPECT_EQ(found.pinned_bytes,
                  found.staging_bytes + found.table_bytes + found.read_buffer_bytes + found.link_bytes);
        return found;
    }
    // The bytes that the instance has allocated through the driver and not freed.
    std::uint64_t held(std::initializer_list<const char *> kinds) const {
        std::uint64_t sum = 0;
        for (const fault_driver::live_object &one : driver.live_objects())
            for (const char *const kind : kinds)
                if (std::strcmp(one.kind, kind) == 0) sum += one.size;
        return sum;
    }
    std::uint64_t pinned() const { return held({"pinned memory", "registration"}); }
    std::uint64_t on_devices() const { return held({"device memory"}); }

    // Waits for the thread that adds slots.
    void expect_usage_of_driver(const char *when) const {
        EXPECT_TRUE(within_seconds([&] { return usage().pinned_bytes == pinned(); })) << when;
        EXPECT_EQ(usage().device_bytes + usage().deferred_bytes, on_devices()) << when;
    }

    ferry_error_info error = new_error();
};

#if defined(__linux__)
// The number of threads of the process that ferry has started, apart from the software driver's.
unsigned threads_of_ferry() {
    unsigned found = 0;
    DIR *const tasks = opendir("/proc/self/task");
    while (const dirent *const one = readdir(tasks)) {
        std::string name;
        std::getline(std::ifstream(std::string("/proc/self/task/") + one->d_name + "/comm"), name);
        found += name == "ferry-staging" || name == "ferry-watchdog" || name == "ferry-trace";
    }
    closedir(tasks);
    return found;
}
#endif

TEST_F(budgets, the_usage_of_a_new_instance_is_zero) {
    const ferry_usage found = usage();
    const std::uint64_t none[] = {found.threads,        found.pinned_bytes,   found.device_bytes,
                                  found.deferred_bytes, found.pinned_refused, found.device_refused,
                                  found.threads_refused};
    EXPECT_TRUE(std::all_of(std::begin(none), std::end(none), [](std::uint64_t one) { return one == 0; }));
    EXPECT_EQ(ferry_instance_get_usage(counted.get(), nullptr, nullptr), FERRY_ERROR_INVALID_ARGUMENT);
    auto used = sized<ferry_usage>();
    EXPECT_EQ(ferry_instance_get_usage(nullptr, &used, nullptr), FERRY_ERROR_INVALID_ARGUMENT);
}

TEST_F(budgets, the_usage_is_what_the_driver_has_allocated_for_the_instance) {
    if (has_kernels()) {
        ASSERT_OK(ferry_staging_prepare(counted.get(), 0, nullptr));
    }
    expect_usage_of_driver("prepared");
    if (has_kernels()) {
        EXPECT_GT(usage().staging_bytes, 0u);
        EXPECT_GT(usage().read_buffer_bytes, 0u);
        EXPECT_GT(usage().threads, 1u);
    }

    // Many pieces need a table, and a prepared batch keeps one on the device.
    scattered pieces(place_kind::pinned, place_kind::device, 3000, 300, 1);
    ASSERT_OK(pieces.batch.copy_async(counted.get(), stream));
    ASSERT_OK(raw().cuStreamSynchronize(stream));
    pieces.expect_copied();
    expect_usage_of_driver("after a batch");
    ferry_prepared *prepared = nullptr;
    ASSERT_OK(pieces.batch.prepare(counted.get(), stream, updatable, &prepared));
    expect_usage_of_driver("after the preparation of a batch");
    if (has_kernels()) {
        EXPECT_GT(usage().table_bytes, 0u);
        EXPECT_GT(usage().device_bytes, 0u);
    }
    {
        const gate held(stream);
        const std::uint64_t device_bytes = usage().device_bytes;
        ASSERT_OK(ferry_prepared_destroy_deferred(prepared, stream, nullptr));
        EXPECT_EQ(usage().device_bytes, 0u);
        EXPECT_EQ(usage().deferred_bytes, device_bytes);
        expect_usage_of_driver("after a deferred free");
    }
    ASSERT_OK(raw().cuStreamSynchronize(stream));
    ASSERT_OK(ferry_deferred_trim(counted.get(), FERRY_DEVICE_UNKNOWN, 0, nullptr));
    EXPECT_EQ(usage().deferred_bytes, 0u);
    ASSERT_OK(pieces.batch.prepare(counted.get(), stream, updatable, &prepared));
    ASSERT_OK(ferry_prepared_destroy(prepared, nullptr));
    expect_usage_of_driver("after the end of prepared batches");
    EXPECT_EQ(usage().device_bytes, 0u);

    if (device_count() > 1) {
        CUcontext there = nullptr;
        ASSERT_OK(ferry_context_retain_primary(counted.get(), 1, &there, nullptr));
        const station near(context, 9 * MiB), far(there, 9 * MiB);
        near.write(bytes(9 * MiB));
        const ferry_copy_desc copy = line(far.address(), near.address(), 9 * MiB);
        ASSERT_OK(ferry_copy(counted.get(), &copy, by_relay, nullptr));
        EXPECT_GT(usage().link_bytes, 0u);
        expect_usage_of_driver("after a relay");
    }

    // Memory of the program does not count.
    const ferry_usage before = usage();
    auto host = sized<ferry_host_block>();
    ASSERT_OK(ferry_host_alloc(counted.get(), 4 * MiB, nullptr, &host, nullptr));
    EXPECT_EQ(usage().pinned_bytes, before.pinned_bytes);
    ASSERT_OK(ferry_host_free(counted.get(), host.address, nullptr));

    EXPECT_TRUE(within_seconds([&] {
        EXPECT_OK(ferry_staging_trim(counted.get(), nullptr));
        const ferry_usage now = usage();
        return now.link_bytes == 0 && now.read_buffer_bytes == 0 && now.table_bytes == 0 &&
               (now.staging_bytes == 0 || now.staging_bytes < before.staging_bytes / 4);
    }));
    expect_usage_of_driver("trimmed");
    counted.reset();
    EXPECT_EQ(pinned(), 0u) << "closed";
    EXPECT_EQ(on_devices(), 0u) << "closed";
}

// Copies of random sizes between memory of random kinds. A copy that is refused must leave its destination unchanged.
class random_copies {
public:
    random_copies(ferry_instance *instance, std::uint64_t seed) : instance_(instance), dice_(seed) {
        for (const place_kind kind : {place_kind::pageable, place_kind::pageable, place_kind::device,
                                      place_kind::device, place_kind::pinned, place_kind::array_2d})
            add(kind, 0);
        if (device_count() > 1) add(place_kind::device, 1);
    }
    void copy_once() {
        constexpr how ways[] = {{},      by_staging,       by_kernel,           by_driver, urgent,    in_stream_order,
                                no_wait, read_in_the_call, written_in_the_call, by_relay,  over_links};
        test_place &from = *dice_.among(places_), &to = *dice_.among(places_);
        if (&from == &to) return;
        const bool is_array = from.array() || to.array();
        const std::uint64_t width = is_array ? 1 + dice_.up_to(1023) : dice_.size(size);
        const std::uint64_t height = is_array ? 1 + dice_.up_to(255) : 1;
        grid_copy(from, to, width, height, dice_.of(ways));
    }
    int made = 0, refused = 0;

private:
    static constexpr std::uint64_t size = 256 * KiB;

    void add(place_kind kind, int device) {
        const grid shape = {.width = 1024, .height = 256};
        if (!is_supported(kind) || !can_be(kind, shape)) return;
        places_.push_back(std::make_unique<test_place>(kind, shape, device));
        places_.back()->fill(dice_.any());
    }
    void grid_copy(test_place &from, test_place &to, std::uint64_t width, std::uint64_t height, const how &options) {
        const bool is_line = height == 1 && !from.array() && !to.array();
        const std::uint64_t rows = is_line ? std::max<std::uint64_t>(width / 1024, 1) : height;
        const std::uint64_t row = is_line ? std::min<std::uint64_t>(width, 1024) : width;
        const ferry_copy_desc copy =
            describe_copy(from.describe(statement::stated), to.describe(statement::stated), row, rows);
        ferry_error_info error = new_error();
        const std::int32_t status = dice_.one_in(2)
                                        ? ferry_copy(instance_, &copy, options, &error)
                                        : ferry_copy_async(instance_, &copy, options, stream_, nullptr, &error);
        const bool is_forced = options.fields().route || options.fields().flags;
        EXPECT_TRUE(status == FERRY_SUCCESS || is_forced) << describe(error) << ", " << options;
        EXPECT_OK(raw().cuStreamSynchronize(stream_));
        EXPECT_OK(raw().cuStreamSynchronize(CU_STREAM_LEGACY));
        ++(status ? refused : made);
        if (status == FERRY_SUCCESS) reference_copy(from, {}, to, {}, row, rows, 1);
        EXPECT_TRUE(to.read() == to.picture()) << options << " " << row << " x " << rows << " from "
                                               << name_of(from.kind()) << " to " << name_of(to.kind());
    }

    ferry_instance *const instance_;
    dice dice_;
    std::vector<std::unique_ptr<test_place>> places_;
    test_stream stream_;
};

TEST_F(budgets, of_pinned_memory_are_never_exceeded_and_no_copy_loses_bytes) {
    std::uint64_t seed = 1;
    for (const std::uint64_t limit : {std::uint64_t{1}, 4 * KiB, 64 * KiB, 300 * KiB, 2 * MiB, 12 * MiB}) {
        SCOPED_TRACE(testing::Message() << "limit " << limit);
        reopen([&](ferry_options &options) { options.max_pinned_bytes = limit; });
        random_copies copies(counted.get(), seed++);
        for (int i = 0; i < 60; ++i) {
            copies.copy_once();
            ASSERT_LE(usage().pinned_bytes, limit);
            ASSERT_LE(pinned(), limit);
        }
        EXPECT_GT(copies.made, 10);
        // Batches use parameters if their table does not fit.
        scattered pieces(place_kind::pinned, place_kind::device, 3000, 30, seed);
        ASSERT_OK(pieces.batch.copy_async(counted.get(), stream));
        ASSERT_OK(raw().cuStreamSynchronize(stream));
        pieces.expect_copied();
        ASSERT_LE(pinned(), limit);
        EXPECT_EQ(usage().pinned_refused > 0, has_kernels());
        expect_usage_of_driver("at the end");
    }
}

TEST_F(budgets, of_pinned_memory_that_are_used_up_leave_larger_read_buffers_to_short_copies) {
    constexpr std::uint64_t limit = 256 * KiB;
    reopen([&](ferry_options &options) { options.max_pinned_bytes = limit; });
    const test_place to(place_kind::device, {.width = limit});
    const bytes from = random_bytes(limit, 1);
    const auto route_of = [&](std::uint64_t size) {
        const ferry_copy_desc copy = line(to.address(), reinterpret_cast<std::uintptr_t>(from.data()), size);
        ferry_ticket *ticket = nullptr;
        auto info = sized<ferry_ticket_info>();
        {
            const gate held(stream); // on an idle stream, the driver's copy is faster
            EXPECT_OK(ferry_copy_async(counted.get(), &copy, read_in_the_call, stream, &ticket, nullptr));
        }
        EXPECT_OK(raw().cuStreamSynchronize(stream));
        EXPECT_OK(ferry_ticket_get_info(ticket, &info, nullptr));
        EXPECT_OK(ferry_ticket_release(ticket, nullptr));
        return info.route;
    };
    ASSERT_EQ(route_of(200 * KiB), FERRY_ROUTE_BUFFERED);
    EXPECT_GE(usage().read_buffer_bytes, 200 * KiB);
    EXPECT_EQ(usage().pinned_refused, 0u);
    EXPECT_EQ(route_of(100 * KiB), FERRY_ROUTE_BUFFERED);
    EXPECT_EQ(usage().pinned_refused, 1u);
    const bytes found = to.read();
    EXPECT_TRUE(std::equal(from.begin(), from.begin() + 200 * KiB, found.begin()));
}

TEST_F(budgets, of_pinned_memory_are_not_used_up_by_one_part) {
    if (!has_kernels()) GTEST_SKIP() << "without staging buffers";
    reopen([&](ferry_options &options) { options.max_pinned_bytes = 6 * MiB; });
    ASSERT_OK(ferry_staging_prepare(counted.get(), 0, nullptr));
    EXPECT_GE(usage().staging_bytes, 2 * MiB);
    EXPECT_GE(usage().read_buffer_bytes, 1 * MiB) << "staging buffers leave room";
}

TEST_F(budgets, hold_while_several_threads_copy_and_one_trims) {
    constexpr std::uint64_t limit = 1 * MiB;
    reopen([&](ferry_options &options) {
        options.max_pinned_bytes = limit;
        options.max_threads = 4;
    });
    std::atomic<int> at_work = 3;
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i)
        threads.emplace_back([&, i] {
            const made_current scope(context);
            random_copies copies(counted.get(), 100 + static_cast<std::uint64_t>(i));
            for (int round = 0; round < 60; ++round)
                copies.copy_once();
            --at_work;
        });
    while (at_work) {
        EXPECT_LE(usage().pinned_bytes, limit);
        EXPECT_LE(usage().threads, 4u);
        EXPECT_LE(pinned(), limit);
        EXPECT_OK(ferry_staging_trim(counted.get(), nullptr));
        std::this_thread::sleep_for(1ms);
    }
    for (std::thread &one : threads)
        one.join();
    expect_usage_of_driver("at the end");
    counted.reset();
    EXPECT_EQ(pinned(), 0u);
}

TEST_F(budgets, of_pinned_memory_refuse_forced_routes_and_name_the_option) {
    reopen([&](ferry_options &options) { options.max_pinned_bytes = 3 * KiB; });
    const auto expect_named = [&](std::int32_t status) {
        expect_refusal(status, error, FERRY_ERROR_LIMIT, FERRY_SIDE_OPTIONS, FERRY_FIELD_MAX_PINNED_BYTES);
        EXPECT_EQ(error.limit, 3 * KiB);
        EXPECT_GT(error.value, error.limit);
    };
    const test_place to(place_kind::device, {.width = 64 * KiB});
    bytes from(64 * KiB, std::byte{1});
    ferry_copy_desc copy = line(to.address(), reinterpret_cast<std::uintptr_t>(from.data()), from.size());
    if (has_kernels()) {
        expect_named(ferry_staging_prepare(counted.get(), 0, &error));
        expect_named(ferry_copy(counted.get(), &copy, by_staging, &error));
        EXPECT_EQ(ferry_copy_async(counted.get(), &copy, by_staging, stream, nullptr, &error), FERRY_ERROR_ROUTE);
        EXPECT_EQ(error.value, std::uint64_t{FERRY_OBSTACLE_NO_STAGING}) << describe(error);
    }
    EXPECT_OK(ferry_copy_async(counted.get(), &copy, read_in_the_call, stream, nullptr, &error)) << describe(error);
    ASSERT_OK(raw().cuStreamSynchronize(stream));
    EXPECT_EQ(to.read(), from);
    if (device_count() < 2) return;
    const test_place far(place_kind::device, {.width = 64 * KiB}, 1);
    copy = line(far.address(), to.address(), from.size());
    expect_named(ferry_copy(counted.get(), &copy, by_relay, &error));
    EXPECT_OK(ferry_copy(counted.get(), &copy, nullptr, nullptr));
    EXPECT_EQ(far.read(), from);
    EXPECT_EQ(usage().pinned_bytes, 0u);
}

TEST_F(budgets, of_device_memory_refuse_tables_of_prepared_batches) {
    if (!has_kernels()) GTEST_SKIP() << "without kernels, prepared batches have no table";
    scattered pieces(place_kind::pinned, place_kind::device, 1000, 30, 1);
    ferry_prepared *first = nullptr, *second = nullptr;
    ASSERT_OK(pieces.batch.prepare(counted.get(), stream, updatable, &first));
    const std::uint64_t size = usage().device_bytes;
    ASSERT_GT(size, 0u);
    ASSERT_OK(ferry_prepared_destroy(first, nullptr));
    reopen([&](ferry_options &options) { options.max_device_bytes = size + 1; });
    ASSERT_OK(pieces.batch.prepare(counted.get(), stream, updatable, &first));
    expect_refusal(pieces.batch.prepare(counted.get(), stream, updatable, &second, &error), error, FERRY_ERROR_LIMIT,
                   FERRY_SIDE_OPTIONS, FERRY_FIELD_MAX_DEVICE_BYTES);
    EXPECT_EQ(error.limit, size + 1);
    EXPECT_EQ(error.value, 2 * size);
    EXPECT_EQ(second, nullptr);
    EXPECT_EQ(usage().device_refused, 1u);
    EXPECT_EQ(usage().device_bytes, size);
    EXPECT_EQ(on_devices(), size);
    ASSERT_OK(ferry_prepared_launch(first, nullptr, stream, nullptr, nullptr));
    ASSERT_OK(raw().cuStreamSynchronize(stream));
    pieces.expect_copied();
    ASSERT_OK(ferry_prepared_destroy(first, nullptr));
    ASSERT_OK(pieces.batch.prepare(counted.get(), stream, updatable, &second));
    ASSERT_OK(ferry_prepared_destroy(second, nullptr));
    EXPECT_EQ(usage().device_bytes, 0u);
}

TEST_F(budgets, of_device_memory_refuse_the_counters_of_links) {
    if (device_count() < 2 || !has_kernels()) GTEST_SKIP() << "needs two devices and kernels";
    const std::int32_t helper = 1;
    ferry_multilink_options options = {};
    options.struct_size = sizeof options;
    options.helpers = &helper;
    options.helper_count = 1;
    if (ferry_multilink_set(counted.get(), 0, &options, nullptr)) GTEST_SKIP() << "no peer access with atomics";
    const ferry_usage used = usage();
    EXPECT_GT(used.device_bytes, 0u);
    EXPECT_GT(used.link_bytes, 0u);
    expect_usage_of_driver("with helpers");
    EXPECT_OK(ferry_peer_disable(counted.get(), helper, 0, nullptr));
    for (const bool is_pinned : {true, false}) {
        reopen([&](ferry_options &of_instance) {
            (is_pinned ? of_instance.max_pinned_bytes : of_instance.max_device_bytes) = 100;
        });
        expect_refusal(ferry_multilink_set(counted.get(), 0, &options, &error), error, FERRY_ERROR_LIMIT,
                       FERRY_SIDE_OPTIONS, is_pinned ? FERRY_FIELD_MAX_PINNED_BYTES : FERRY_FIELD_MAX_DEVICE_BYTES);
        EXPECT_EQ(usage().device_bytes, 0u);
        EXPECT_EQ(on_devices(), 0u);
        EXPECT_EQ(is_pinned ? usage().pinned_refused : usage().device_refused, 1u);
        static_cast<void>(ferry_peer_disable(counted.get(), helper, 0, nullptr));
    }
}

void count_event(void *user, const ferry_trace_event *event) {
    *static_cast<std::atomic<int> *>(user) += event->phase == FERRY_PHASE_DONE;
}

TEST_F(budgets, of_threads_below_what_the_options_need_are_refused) {
    const auto open = [&](std::uint32_t threads, std::int32_t staging, bool traces, std::uint32_t phases) {
        ferry_options options = driver.options();
        options.max_threads = threads;
        options.staging = staging;
        options.trace = traces ? count_event : nullptr;
        options.trace_phases = phases;
        ferry_instance *made = nullptr;
        const std::int32_t status = ferry_open(&options, &made, &error);
        ferry_close(made);
        return status;
    };
    const auto expect_least = [&](std::int32_t status, std::uint64_t least) {
        expect_refusal(status, error, FERRY_ERROR_INVALID_ARGUMENT, FERRY_SIDE_OPTIONS, FERRY_FIELD_MAX_THREADS);
        EXPECT_EQ(error.limit, least);
    };
    expect_least(open(1, FERRY_STAGING_LAZY, false, 0), 3);
    expect_least(open(2, FERRY_STAGING_LAZY, true, FERRY_PHASE_BEGIN), 3);
    expect_least(open(3, FERRY_STAGING_LAZY, true, 0), 4);
    EXPECT_OK(open(3, FERRY_STAGING_LAZY, true, FERRY_PHASE_RETURN));
    EXPECT_OK(open(4, FERRY_STAGING_LAZY, true, FERRY_PHASE_DONE));
    EXPECT_OK(open(1, FERRY_STAGING_NONE, true, 0));

    ferry_options options = driver.options();
    options.reserved = 1;
    ferry_instance *made = nullptr;
    expect_refusal(ferry_open(&options, &made, &error), error, FERRY_ERROR_RESERVED, FERRY_SIDE_OPTIONS,
                   FERRY_FIELD_RESERVED);
}

TEST_F(budgets, of_threads_limit_all_threads_that_the_instance_starts) {
    if (!has_kernels()) GTEST_SKIP() << "without staging, there are no threads";
    for (const std::uint32_t most : {4u, 5u, 12u}) {
        SCOPED_TRACE(testing::Message() << most << " threads");
        std::atomic<int> ended = 0;
        reopen([&](ferry_options &options) {
            options.max_threads = most;
            options.staging_threads = 8;
            options.trace = count_event;
            options.trace_user = &ended;
        });
        for (int device = 0; device < device_count(); ++device)
            ASSERT_OK(ferry_staging_prepare(counted.get(), device, nullptr));
        auto info = sized<ferry_staging_info>();
        ASSERT_OK(ferry_staging_get_info(counted.get(), &info, nullptr));
        EXPECT_EQ(info.threads, std::min(8u, most - 3));
        auto report = sized<ferry_report>();
        ASSERT_OK(ferry_instance_get_report(counted.get(), &report, nullptr));
        EXPECT_EQ(report.staging_threads, info.threads);
        EXPECT_GE(info.staging_bytes, static_cast<std::uint64_t>(device_count()) * report.staging_bytes)
            << "the slots are added even if no thread is left for them";
        random_copies copies(counted.get(), most);
        for (int i = 0; i < 40; ++i) {
            copies.copy_once();
            EXPECT_LE(usage().threads, most);
#if defined(__linux__)
            EXPECT_TRUE(within_seconds([&] { return threads_of_ferry() <= most; })) << "threads that ended may linger";
#endif
        }
        EXPECT_TRUE(within_seconds([&] { return ended > 0; })) << "traces have their thread";
#if defined(__linux__)
        EXPECT_TRUE(within_seconds([&] { return threads_of_ferry() == usage().threads; }));
#endif
        EXPECT_EQ(usage().threads_refused > 0, most < 12);
    }
    counted.reset();
#if defined(__linux__)
    EXPECT_TRUE(within_seconds([&] { return threads_of_ferry() == 0; }));
#endif
}

// Runs each job on a new thread of the program, and counts the jobs that run at the same time.
struct job_system {
    ~job_system() {
        for (std::thread &one : threads)
            one.join();
    }
    static std::int32_t submit(void *user, void (*work)(void *argument), void *argument) {
        auto &self = *static_cast<job_system *>(user);
        const std::lock_guard lock(self.mutex);
        if (self.refuses) return 0;
        self.threads.emplace_back([=] { work(argument); });
        return 1;
    }
    std::atomic<bool> refuses = false;
    std::mutex mutex;
    std::vector<std::thread> threads;
};

TEST_F(budgets, of_threads_do_not_limit_the_threads_of_the_program) {
    if (!has_kernels()) GTEST_SKIP() << "without staging, there are no threads";
    job_system jobs;
    reopen([&](ferry_options &options) {
        options.max_threads = 3;
        options.staging_threads = 6;
        options.submit = job_system::submit;
        options.submit_user = &jobs;
    });
    const auto report = [&] {
        auto found = sized<ferry_report>();
        EXPECT_OK(ferry_instance_get_report(counted.get(), &found, nullptr));
        return found;
    }();
    EXPECT_EQ(report.staging_threads, 6u);
    const std::uint64_t size = 4 * MiB;
    const test_place to(place_kind::device, {.width = size});
    for (const bool refuses : {false, true}) {
        jobs.refuses = refuses;
        const bytes from = random_bytes(size, refuses);
        const ferry_copy_desc copy = line(to.address(), reinterpret_cast<std::uintptr_t>(from.data()), size);
        ASSERT_OK(ferry_copy_async(counted.get(), &copy, by_staging, stream, nullptr, nullptr));
        ASSERT_OK(raw().cuStreamSynchronize(stream));
        EXPECT_EQ(to.read(), from);
        EXPECT_LE(usage().threads, 3u);
    }
    EXPECT_GE(usage().threads, 2u) << "the watchdog, and a thread instead of the program's";
    {
        const std::lock_guard lock(jobs.mutex);
        EXPECT_GT(jobs.threads.size(), 1u);
    }
    counted.reset();
}

} // namespace
} // namespace ferry::test
