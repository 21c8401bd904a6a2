// Tests what calls may cost, by counting heap allocations and driver calls: of copies, fills, batches and blocks of a
// pinned pool. Only the opening of an instance is timed.
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <new>

#include "support/fault_driver.h"
#include "support/how.h"
#include "support/piece_lists.h"
#include "support/raw_objects.h"
#include "support/system.h"
#include "support/test_place.h"

namespace {
std::atomic<long> allocations = 0;
}

// The linker redirects calls of the C allocator to these functions (--wrap). The operator new below counts as well.
extern "C" {
void *__real_malloc(std::size_t size);
void *__real_calloc(std::size_t count, std::size_t size);
void *__real_realloc(void *memory, std::size_t size);
void *__wrap_malloc(std::size_t size) { return ++allocations, __real_malloc(size); }
void *__wrap_calloc(std::size_t count, std::size_t size) { return ++allocations, __real_calloc(count, size); }
void *__wrap_realloc(void *memory, std::size_t size) { return ++allocations, __real_realloc(memory, size); }
#if defined(_WIN32)
void *__real__aligned_malloc(std::size_t size, std::size_t alignment);
void *__wrap__aligned_malloc(std::size_t size, std::size_t alignment) {
    return ++allocations, __real__aligned_malloc(size, alignment);
}
#else
void *__real_aligned_alloc(std::size_t alignment, std::size_t size);
void *__wrap_aligned_alloc(std::size_t alignment, std::size_t size) {
    return ++allocations, __real_aligned_alloc(alignment, size);
}
#endif
}
void *operator new(std::size_t size) {
    ++allocations;
    if (void *memory = __real_malloc(size ? size : 1)) return memory;
    std::abort();
}
void operator delete(void *memory) noexcept { std::free(memory); }
void operator delete(void *memory, std::size_t) noexcept { std::free(memory); }

namespace ferry::test {
namespace {

class costs : public ferry_test {};

TEST_F(costs, the_counter_sees_allocations) { // a counter that sees nothing would prove nothing
    const long before = allocations;
    void *volatile memory = std::malloc(10); // volatile, or the compiler removes both calls
    std::free(memory);
    int *volatile number = new int;
    delete number;
    EXPECT_EQ(allocations - before, 2);
}

TEST_F(costs, a_copy_makes_one_driver_copy_call_and_no_allocation) {
    fault_driver driver(raw_entry_points());
    ferry_options options = driver.options();
    options.staging = FERRY_STAGING_NONE; // the driver calls of staging threads would be counted too
    const instance_owner basic = open_or_fail(options);
    options.checks = FERRY_CHECKS_FULL;
    const instance_owner full = open_or_fail(options);
    CUstream stream = nullptr;
    ASSERT_OK(raw().cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    // The driver's copies and waits do nothing in this test, since a driver may allocate in them as it likes.
    for (const char *const entry : {"cuMemcpy3D", "cuMemcpy3DAsync", "cuMemcpy3DPeer", "cuMemcpy3DPeerAsync",
                                    "cuStreamSynchronize", "cuStreamQuery"})
        driver.fail(entry, CUDA_SUCCESS, 1, true);
    for (const place_kind from : all_place_kinds)
        for (const place_kind to : all_place_kinds) {
            const grid shape = {.width = 64};
            if (!can_be(from, shape) || !can_be(to, shape)) continue;
            test_place source(from, shape), destination(to, shape);
            for (ferry_instance *const instance : {basic.get(), full.get()})
                for (const statement stating : {statement::stated, statement::any})
                    for (const bool is_synchronous : {true, false}) {
                        const ferry_copy_desc copy =
                            describe_copy(source.describe(stating), destination.describe(stating), 48);
                        ferry_explanation told = {};
                        told.struct_size = sizeof told;
                        ASSERT_OK(is_synchronous
                                      ? ferry_copy_explain(instance, &copy, nullptr, &told, nullptr)
                                      : ferry_copy_explain_async(instance, &copy, nullptr, stream, &told, nullptr));
                        if (told.route == FERRY_ROUTE_STAGED) continue; // covered by the next test
                        ferry_error_info error = new_error();
                        driver.reset_counts();
                        const long before = allocations;
                        const std::int32_t status =
                            is_synchronous ? ferry_copy(instance, &copy, nullptr, &error)
                                           : ferry_copy_async(instance, &copy, nullptr, stream, nullptr, &error);
                        const long made = allocations - before;
                        ASSERT_OK(status) << describe(error);
                        EXPECT_EQ(made, 0);
                        EXPECT_EQ(driver.calls_beginning("cuMemcpy"), 1);
                        EXPECT_EQ(driver.calls("cuCtxPushCurrent"), 0) << "the right context is already current";
                        // One query per end. Full checks also query the end of pageable memory.
                        EXPECT_LE(driver.calls_beginning("cuPointerGetAttribute"), instance == full.get() ? 4 : 2);
                        EXPECT_LE(driver.calls("cuStreamSynchronize"), told.synchronises);
                    }
        }
    driver.heal();
    EXPECT_OK(raw().cuStreamDestroy(stream));
}

TEST_F(costs, kernel_copies_of_rows_and_explanations_query_each_end_once) {
    fault_driver driver(raw_entry_points());
    const instance_owner instance = open_or_fail(driver.options());
    if (!ferry_instance_get_proc(instance.get(), "cuLibraryLoadData", 12000))
        GTEST_SKIP() << "the driver cannot load kernels";
    const grid shape = {.width = 16, .height = 64, .row_pitch = 64};
    test_place host(place_kind::pinned, shape), device(place_kind::device, shape);
    for (const bool to_device : {true, false})
        for (const statement stating : {statement::stated, statement::any}) {
            const ferry_place here = host.describe(stating), there = device.describe(stating);
            const ferry_copy_desc copy =
                to_device ? describe_copy(here, there, 16, 64) : describe_copy(there, here, 16, 64);
            ASSERT_OK(ferry_copy(instance.get(), &copy, by_kernel, nullptr)); // which loads the kernels
            driver.reset_counts();
            ASSERT_OK(ferry_copy(instance.get(), &copy, by_kernel, nullptr));
            EXPECT_EQ(driver.calls("cuLaunchKernel"), 1);
            EXPECT_LE(driver.calls("cuPointerGetAttributes"), 2);
            ferry_explanation told = {};
            told.struct_size = sizeof told;
            driver.reset_counts();
            ASSERT_OK(ferry_copy_explain(instance.get(), &copy, by_kernel, &told, nullptr));
            EXPECT_LE(driver.calls("cuPointerGetAttributes"), 2);
        }
}

TEST_F(costs, boxes_of_a_batch_with_options_query_each_allocation_once) {
    fault_driver driver(raw_entry_points());
    const instance_owner instance = open_or_fail(driver.options());
    if (!ferry_instance_get_proc(instance.get(), "cuLibraryLoadData", 12000))
        GTEST_SKIP() << "the driver takes no kernels";
    CUstream stream = nullptr;
    ASSERT_OK(raw().cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    const grid shape = {.width = 16, .height = 64, .row_pitch = 128};
    test_place host(place_kind::pinned, shape), device(place_kind::device, shape);
    ferry_copy_desc copies[2];
    for (ferry_copy_desc &copy : copies)
        copy = describe_copy(host.describe(statement::any), device.describe(statement::any), 16, 64);
    copies[1].source.x = copies[1].destination.x = 64;
    for (int round = 0; round < 2; ++round) { // the first round loads the kernels
        driver.reset_counts();
        ASSERT_OK(ferry_copy_batch_async(instance.get(), copies, 2, by_kernel, stream, nullptr, nullptr));
        EXPECT_EQ(driver.calls("cuLaunchKernel"), 2);
    }
    EXPECT_EQ(driver.calls("cuPointerGetAttributes"), 2);
    ASSERT_OK(raw().cuStreamSynchronize(stream));
    EXPECT_OK(raw().cuStreamDestroy(stream));
}

TEST_F(costs, fills_query_their_memory_at_most_once) {
    fault_driver driver(raw_entry_points());
    const instance_owner instance = open_or_fail(driver.options());
    const bool has_kernels = ferry_instance_get_proc(instance.get(), "cuLibraryLoadData", 12000);
    const grid shape = {.width = 64, .height = 64, .row_pitch = 128};
    for (const place_kind kind : {place_kind::device, place_kind::pinned, place_kind::managed})
        for (const statement stating : {statement::stated, statement::any})
            for (const how &options : {by_kernel, by_driver}) {
                if (options == by_kernel && !has_kernels) continue;
                test_place place(kind, shape);
                ferry_fill_desc fill;
                const ferry_place to = place.describe(stating);
                const std::uint32_t pattern = 7;
                ferry_fill_desc_init(&fill, &to, 64, 64, 1, &pattern, sizeof pattern);
                ASSERT_OK(ferry_fill(instance.get(), &fill, options, nullptr));
                driver.reset_counts();
                ASSERT_OK(ferry_fill(instance.get(), &fill, options, nullptr));
                EXPECT_EQ(driver.calls("cuLaunchKernel"), options == by_kernel);
                EXPECT_LE(driver.calls("cuPointerGetAttributes"), 1);
            }
}

// Counts ferry's allocations alone: the driver's own do not go through ferry's callbacks.
std::atomic<long> own_allocations = 0;
void count_own_allocations(ferry_options &options) noexcept {
    options.allocate = [](void *, std::uint64_t size, std::uint64_t alignment) {
        ++own_allocations;
        return allocate_aligned(size, alignment);
    };
    options.deallocate = [](void *, void *memory, std::uint64_t) { free_aligned(memory); };
}

TEST_F(costs, a_staged_copy_makes_one_launch_and_no_allocation_once_it_is_warm) {
    fault_driver driver(raw_entry_points());
    ferry_options options = driver.options();
    count_own_allocations(options);
    options.staging_bytes = 4 * 4096; // so few slots that no thread adds any later
    const instance_owner instance = open_or_fail(options);
    if (!ferry_instance_get_proc(instance.get(), "cuLibraryLoadData", 12000))
        GTEST_SKIP() << "the driver cannot load kernels";
    CUstream stream = nullptr;
    ASSERT_OK(raw().cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    const grid shape = {.width = 300'000};
    test_place host(place_kind::pageable, shape), device(place_kind::device, shape);
    for (const bool to_device : {true, false})
        for (const bool is_synchronous : {true, false})
            for (const statement stating : {statement::stated, statement::any})
                for (int round = 0; round < 3; ++round) {
                    const ferry_place here = host.describe(stating), there = device.describe(stating);
                    const ferry_copy_desc copy =
                        to_device ? describe_copy(here, there, shape.width) : describe_copy(there, here, shape.width);
                    driver.reset_counts();
                    const long before = own_allocations;
                    const std::int32_t status =
                        is_synchronous ? ferry_copy(instance.get(), &copy, by_staging, nullptr)
                                       : ferry_copy_async(instance.get(), &copy, by_staging, stream, nullptr, nullptr);
                    const long made = own_allocations - before;
                    ASSERT_OK(status);
                    EXPECT_EQ(driver.calls("cuLaunchKernel"), 2) << "one shows that there is room";
                    EXPECT_EQ(driver.calls_beginning("cuMemcpy"), 0);
                    EXPECT_EQ(driver.calls("cuLaunchHostFunc"), 0);
                    EXPECT_EQ(driver.calls("cuEventRecord"), 0);
                    EXPECT_EQ(driver.calls("cuStreamSynchronize"), is_synchronous);
                    EXPECT_LE(driver.calls("cuStreamIsCapturing"), !is_synchronous);
                    ASSERT_OK(raw().cuStreamSynchronize(stream));
                    if (round == 0) continue; // the first round creates what is needed once
                    EXPECT_EQ(driver.calls("cuEventCreate"), 0);
                    if (!is_synchronous) { // a call that waits also queries whether the context is alive
                        EXPECT_LE(driver.calls("cuCtxGetId"), 1);
                    }
                    EXPECT_LE(driver.calls("cuPointerGetAttributes"), stating == statement::any ? 3 : 2);
                    EXPECT_EQ(made, 0);
                }
    EXPECT_OK(raw().cuStreamDestroy(stream));
}

TEST_F(costs, a_stated_copy_on_a_stream_queries_only_contexts_and_whether_host_memory_is_pageable) {
    fault_driver driver(raw_entry_points());
    const instance_owner instance = open_or_fail(driver.options());
    ferry_options options = driver.options();
    options.staging = FERRY_STAGING_NONE;
    const instance_owner unstaged = open_or_fail(options);
    test_place host(place_kind::pinned, {.width = 64}), device(place_kind::device, {.width = 64});
    CUstream stream = nullptr;
    ASSERT_OK(raw().cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    const ferry_copy_desc to_device =
                              describe_copy(host.describe(statement::stated), device.describe(statement::stated), 64),
                          to_host =
                              describe_copy(device.describe(statement::stated), host.describe(statement::stated), 64),
                          from_pinned =
                              describe_copy(host.describe(statement::pinned), device.describe(statement::stated), 64),
                          to_pinned =
                              describe_copy(device.describe(statement::stated), host.describe(statement::pinned), 64);
    for (ferry_instance *const one : {instance.get(), unstaged.get()})
        for (const ferry_copy_desc &copy : {to_device, to_host, from_pinned, to_pinned}) {
            // One query finds out whether the host memory is pageable. If so, ferry stages the copy or, without
            // staging, waits for the stream, since the driver would read a pageable source too early.
            const bool is_pinned = copy.source.kind == FERRY_KIND_PINNED || copy.destination.kind == FERRY_KIND_PINNED;
            const int asked = !is_pinned && (one == instance.get() || copy.source.kind == FERRY_KIND_HOST);
            ASSERT_OK(ferry_copy_async(one, &copy, nullptr, stream, nullptr, nullptr));
            driver.reset_counts();
            ASSERT_OK(ferry_copy_async(one, &copy, nullptr, stream, nullptr, nullptr));
            EXPECT_EQ(driver.calls("cuMemcpy3DAsync"), 1);
            EXPECT_EQ(driver.calls("cuCtxGetCurrent"), 1);
            EXPECT_EQ(driver.calls("cuStreamGetCtx"), 1);
            EXPECT_LE(driver.calls("cuPointerGetAttributes"), asked);
            EXPECT_LE(driver.calls_beginning("cu"),
                      4 + asked); // counts the query for the device of a context that is new to ferry
        }
    EXPECT_OK(raw().cuStreamSynchronize(stream));
    EXPECT_OK(raw().cuStreamDestroy(stream));
}

TEST_F(costs, a_short_copy_queries_only_the_current_context_and_ends_whose_kind_is_not_stated) {
    fault_driver driver(raw_entry_points());
    const instance_owner instance = open_or_fail(driver.options());
    const test_stream stream;
    const device_memory device(64);
    const pinned_memory host(64);
    const int context_queries = device_count() > 1 ? 2 : 1; // also for the device of a context that is new to ferry
    struct {
        std::int32_t host, device;
        int asked;
    } const statements[] = {{FERRY_KIND_PINNED, FERRY_KIND_DEVICE, 0},
                            {FERRY_KIND_HOST, FERRY_KIND_DEVICE, 1},
                            {FERRY_KIND_ANY, FERRY_KIND_DEVICE, 1},
                            {FERRY_KIND_PINNED, FERRY_KIND_ANY, 1},
                            {FERRY_KIND_ANY, FERRY_KIND_ANY, 2}};
    for (const auto &stated : statements) {
        ferry_copy_desc to_device = {}, to_host = {};
        to_device.width = to_host.width = 64;
        for (ferry_place *const place : {&to_device.source, &to_host.destination}) {
            place->kind = stated.host;
            place->address = reinterpret_cast<std::uintptr_t>(host.data());
        }
        for (ferry_place *const place : {&to_device.destination, &to_host.source}) {
            place->kind = stated.device;
            place->address = device;
        }
        for (const ferry_copy_desc &copy : {to_device, to_host}) {
            SCOPED_TRACE(testing::Message() << copy.source.kind << " to " << copy.destination.kind);
            driver.reset_counts();
            ASSERT_OK(ferry_copy_async(instance.get(), &copy, nullptr, stream, nullptr, nullptr));
            EXPECT_EQ(driver.calls("cuMemcpy3DAsync"), 1);
            EXPECT_EQ(driver.calls("cuPointerGetAttributes"), stated.asked);
            EXPECT_EQ(driver.calls_beginning("cu"), 1 + context_queries + stated.asked);
        }
    }
    EXPECT_OK(raw().cuStreamSynchronize(stream));
}

TEST_F(costs, a_fill_makes_one_driver_call_and_no_allocation) {
    fault_driver driver(raw_entry_points());
    const instance_owner instance = open_or_fail(driver.options());
    const bool has_kernels = ferry_instance_get_proc(instance.get(), "cuLibraryLoadData", 12000) != nullptr;
    constexpr std::uint8_t pattern[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    for (const place_kind kind : {place_kind::device, place_kind::pinned, place_kind::managed}) {
        test_place memory(kind, {.width = 64, .height = 4, .row_pitch = 80});
        for (const std::uint32_t size : {4u, 8u}) { // the driver fills the first size, a kernel the second
            if (size == 8 && !has_kernels) continue;
            ferry_fill_desc fill;
            const ferry_place place = memory.describe(statement::any);
            ferry_fill_desc_init(&fill, &place, 64, 4, 1, pattern, size);
            ASSERT_OK(ferry_fill(instance.get(), &fill, nullptr, nullptr)); // kernels are loaded on first need
            // These calls do nothing in this test, since a driver may allocate in them as it likes.
            for (const char *const entry : {"cuMemsetD2D32Async", "cuLaunchKernel", "cuStreamSynchronize"})
                driver.fail(entry, CUDA_SUCCESS, 1, true);
            driver.reset_counts();
            const long before = allocations;
            const std::int32_t status = ferry_fill(instance.get(), &fill, nullptr, nullptr);
            const long made = allocations - before;
            ASSERT_OK(status);
            EXPECT_EQ(made, 0);
            EXPECT_EQ(driver.calls("cuMemsetD2D32Async"), size == 4);
            EXPECT_EQ(driver.calls("cuLaunchKernel"), size == 8);
            EXPECT_EQ(driver.calls("cuStreamSynchronize"), 1);
            driver.heal();
        }
    }
}

TEST_F(costs, a_block_of_a_pinned_pool_takes_no_allocation_and_a_few_cheap_calls) {
    fault_driver driver(raw_entry_points());
    const instance_owner instance = open_or_fail(driver.options());
    ferry_pinned_pool *pool = nullptr;
    ASSERT_OK(ferry_pinned_pool_create(instance.get(), nullptr, &pool, nullptr));
    CUstream stream = nullptr;
    ASSERT_OK(raw().cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    // These calls do nothing in this test, since a driver may allocate in them as it likes.
    for (const char *const entry : {"cuEventRecord", "cuEventQuery", "cuStreamWaitEvent"})
        driver.fail(entry, CUDA_SUCCESS, 1, true);
    constexpr std::uint64_t size = 4 << 20;
    for (const bool allocates_on_stream : {false, true})
        for (const bool frees_on_stream : {false, true}) {
            ASSERT_OK(ferry_pinned_pool_reset_stats(pool, nullptr)); // also collects the blocks of completed frees
            for (int round = 0; round < 4; ++round) {
                void *block = nullptr;
                driver.reset_counts();
                const long before = allocations;
                const std::int32_t allocated = allocates_on_stream
                                                   ? ferry_pinned_pool_alloc_async(pool, size, stream, &block, nullptr)
                                                   : ferry_pinned_pool_alloc(pool, size, &block, nullptr);
                const std::int32_t freed = frees_on_stream ? ferry_pinned_pool_free_async(pool, block, stream, nullptr)
                                                           : ferry_pinned_pool_free(pool, block, nullptr);
                const long made = allocations - before;
                ASSERT_OK(allocated);
                ASSERT_OK(freed);
                if (round == 0) continue; // the first round grows the pool or creates an event
                EXPECT_EQ(made, 0);
                const int waits_ordered = driver.calls("cuStreamWaitEvent"), asked = driver.calls("cuEventQuery");
                EXPECT_EQ(driver.calls("cuEventRecord"), frees_on_stream);
                EXPECT_EQ(waits_ordered, allocates_on_stream && frees_on_stream);
                EXPECT_EQ(asked, !allocates_on_stream && frees_on_stream);
                EXPECT_EQ(driver.calls("cuStreamIsCapturing"), allocates_on_stream + frees_on_stream);
                EXPECT_EQ(driver.calls("cuThreadExchangeStreamCaptureMode"),
                          2 * (asked + allocates_on_stream + frees_on_stream));
                EXPECT_EQ(driver.calls("cuCtxGetCurrent"), allocates_on_stream + frees_on_stream);
                EXPECT_EQ(driver.calls("cuStreamGetCtx"), allocates_on_stream + frees_on_stream);
                EXPECT_EQ(driver.calls_beginning("cu"),
                          7 * (allocates_on_stream + frees_on_stream) + frees_on_stream + waits_ordered + 3 * asked);
            }
        }
    driver.heal();
    EXPECT_OK(ferry_pinned_pool_destroy(pool, nullptr));
    EXPECT_OK(raw().cuStreamDestroy(stream));
}

TEST_F(costs, a_warm_batch_queries_each_allocation_once_and_allocates_nothing) {
    fault_driver driver(raw_entry_points());
    const instance_owner instance = open_or_fail(driver.options());
    CUstream stream = nullptr;
    ASSERT_OK(raw().cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    constexpr std::uint64_t apart = 64, pieces_of_each = 128;
    std::vector<std::unique_ptr<test_place>> host, device;
    for (int i = 0; i < 8; ++i) {
        host.push_back(std::make_unique<test_place>(place_kind::pinned, grid{.width = apart * pieces_of_each}));
        device.push_back(std::make_unique<test_place>(place_kind::device, grid{.width = apart * pieces_of_each}));
    }
    std::vector<std::uint64_t> to, from, sizes;
    std::vector<ferry_copy_desc> copies;
    for (std::uint64_t i = 0; i < 8 * pieces_of_each; ++i) {
        to.push_back(device[i % 8]->address() + i / 8 * apart);
        from.push_back(host[i * 5 % 8]->address() + i / 8 * apart);
        sizes.push_back(apart / 2);
        ferry_copy_desc copy = {};
        copy.source.address = from.back();
        copy.destination.address = to.back();
        copy.width = sizes.back();
        copies.push_back(copy);
    }
    // These calls do nothing in this test, since a driver may allocate in them as it likes.
    for (const char *const entry :
         {"cuMemcpy3DAsync", "cuMemcpyBatchAsync", "cuLaunchKernel", "cuEventRecord", "cuEventQuery"})
        driver.fail(entry, CUDA_SUCCESS, 1, true);
    for (const bool is_described : {false, true})
        for (int round = 0; round < 6; ++round) {
            driver.reset_counts();
            const long before = allocations;
            const std::int32_t status =
                is_described ? ferry_copy_batch_async(instance.get(), copies.data(), copies.size(), nullptr, stream,
                                                      nullptr, nullptr)
                             : ferry_copy_pieces_async(instance.get(),
                                                       in_arrays(to.data(), from.data(), sizes.data(), sizes.size()),
                                                       nullptr, stream, nullptr, nullptr);
            const long made = allocations - before;
            ASSERT_OK(status);
            const int launches = driver.calls("cuLaunchKernel"), batches = driver.calls("cuMemcpyBatchAsync");
            EXPECT_EQ(launches + batches, 1) << "one call for all copies";
            EXPECT_EQ(driver.calls("cuMemcpy3DAsync"), 0);
            EXPECT_LE(driver.calls("cuPointerGetAttributes"), 8 + 2 * 8 + launches); // launches: for the table
            // The first rounds allocate a table for each batch that may be in flight.
            EXPECT_TRUE(made == 0 || round < 3) << made << " allocations in round " << round;
        }
    driver.heal();
    EXPECT_OK(raw().cuStreamDestroy(stream));
}

TEST_F(costs, staged_batches_between_staged_copies_allocate_nothing_once_warm) {
    ferry_options options = options_under_test();
    count_own_allocations(options);
    options.staging_bytes = 4 * 4096; // so few slots that no thread adds any later
    const instance_owner instance = open_or_fail(options);
    if (!ferry_instance_get_proc(instance.get(), "cuLibraryLoadData", 12000))
        GTEST_SKIP() << "the driver cannot load kernels";
    CUstream stream = nullptr;
    ASSERT_OK(raw().cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    constexpr std::uint64_t bytes = 64 * 1024, piece = 96;
    test_place host(place_kind::pageable, {.width = bytes}), device(place_kind::device, {.width = bytes});
    std::vector<std::uint64_t> to, from, sizes;
    for (std::uint64_t at = 0; at + piece <= bytes; at += 2 * piece) {
        to.push_back(device.address() + at);
        from.push_back(host.address() + at);
        sizes.push_back(piece);
    }
    const auto copy = [&] {
        return ferry_copy_bytes_async(instance.get(), device.address(), host.address(), bytes, by_staging, stream,
                                      nullptr, nullptr);
    };
    const auto copy_pieces = [&] {
        return ferry_copy_pieces_async(instance.get(), in_arrays(to.data(), from.data(), sizes.data(), sizes.size()),
                                       by_staging, stream, nullptr, nullptr);
    };
    for (int frame = 0; frame < 200; ++frame) {
        const long before = own_allocations;
        for (int i = 0; i <= frame % 3; ++i) // several launches are in flight
            ASSERT_OK(copy());
        ASSERT_OK(copy_pieces());
        ASSERT_OK(copy());
        const long made = own_allocations - before;
        ASSERT_OK(raw().cuStreamSynchronize(stream));
        if (frame != 0) {
            ASSERT_EQ(made, 0) << "in frame " << frame;
        }
    }
    EXPECT_OK(raw().cuStreamDestroy(stream));
}

TEST_F(costs, opening_another_instance_takes_under_10_ms) {
    if (!on_software_driver()) GTEST_SKIP() << "ferry-bench measures this on a GPU";
    double best = 1;
    for (int round = 0; round < 5; ++round) {
        const auto begin = std::chrono::steady_clock::now();
        const instance_owner opened = open_or_fail(options_under_test());
        best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    }
    EXPECT_LT(best, 0.010);
}

} // namespace
} // namespace ferry::test
