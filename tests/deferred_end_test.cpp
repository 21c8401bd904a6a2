// Registrations, prepared batches, pinned pools and managed memory that end in stream order: no call waits, and
// everything ends exactly once, after the stream has completed its earlier work.
#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "support/captured_graph.h"
#include "support/counted_test.h"
#include "support/emulator.h"
#include "support/gate.h"
#include "support/how.h"
#include "support/piece_lists.h"
#include "support/raw_objects.h"
#include "support/system.h"

namespace ferry::test {
namespace {

constexpr std::uint64_t page = 4096, range_size = 8 * page;
constexpr std::int32_t not_registered = FERRY_STATUS_DRIVER_BASE - CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;

std::uint64_t number(const void *address) { return reinterpret_cast<std::uintptr_t>(address); }

// Page-aligned host memory that is not registered.
struct host_pages {
    host_pages() { std::memset(data, 0, range_size); }
    ~host_pages() { free_aligned(data); }
    host_pages(const host_pages &) = delete;
    std::byte *data = static_cast<std::byte *>(allocate_aligned(range_size, page));
};

// The ends under test wait for nothing behind a gate.
class deferred_ends : public counted_test {
protected:
    deferred_ends() { kernels = FERRY_KERNELS_AT_OPEN; }
    void reopen(std::uint64_t register_chunk) {
        ferry_options options = driver.options();
        options.kernels = kernels;
        options.register_chunk = register_chunk;
        counted.reset();
        counted = open_or_fail(options);
        driver.reset_counts();
    }
    void enroll(void *address, std::uint64_t size = range_size) {
        ASSERT_OK(ferry_host_register(counted.get(), address, size, 0, nullptr));
    }
    std::int32_t unregister(void *address) {
        return ferry_host_unregister_deferred(counted.get(), address, stream, nullptr);
    }
    std::int32_t trim(std::uint64_t keep = 0) {
        return ferry_deferred_trim(counted.get(), FERRY_DEVICE_UNKNOWN, keep, nullptr);
    }
    void expect_kept(std::uint32_t allocations, std::uint64_t bytes, int device = FERRY_DEVICE_UNKNOWN) {
        ferry_deferred_info info = {};
        info.struct_size = sizeof info;
        EXPECT_OK(ferry_deferred_get_info(counted.get(), device, &info, nullptr));
        EXPECT_EQ(0u, info.arrays);
        EXPECT_EQ(allocations, info.allocations);
        EXPECT_EQ(bytes, info.bytes);
    }
    std::int32_t memory_at(const void *address) {
        ferry_address_info info = {};
        info.struct_size = sizeof info;
        EXPECT_OK(ferry_address_get_info(counted.get(), number(address), &info, nullptr));
        return info.memory;
    }
    void pass() { ASSERT_OK(raw().cuStreamSynchronize(stream)); }

    // A batch whose pieces are in a table on the device, except on a driver without kernels.
    ferry_prepared *prepare(std::uint64_t to, std::uint64_t from) {
        std::vector<std::uint64_t> destinations, sources, sizes;
        for (std::uint64_t i = 0; i < pieces; ++i) {
            destinations.push_back(to + 256 * i);
            sources.push_back(from + 256 * i);
            sizes.push_back(128);
        }
        ferry_prepared *prepared = nullptr;
        ferry_error_info error = new_error();
        EXPECT_OK(ferry_prepared_create_pieces(
            counted.get(), in_arrays(destinations.data(), sources.data(), sizes.data(), pieces),
            has_kernels() ? by_kernel | updatable : updatable, stream, &prepared, &error))
            << describe(error);
        return prepared;
    }
    static constexpr std::uint64_t pieces = 8;
};

// ---- Registrations

TEST_F(deferred_ends, memory_stays_registered_until_its_stream_has_completed) {
    for (const std::uint64_t chunk : {std::uint64_t{0}, 2 * page}) {
        SCOPED_TRACE(chunk);
        reopen(chunk);
        const host_pages host;
        const device_memory target(range_size);
        const bytes data = random_bytes(range_size, chunk);
        std::memcpy(host.data, data.data(), range_size);
        enroll(host.data);
        const int parts = driver.calls("cuMemHostRegister");
        {
            gate held(stream);
            ASSERT_OK(ferry_copy_bytes_async(counted.get(), target, number(host.data), range_size, nullptr, stream,
                                             nullptr, nullptr));
            ASSERT_OK(unregister(host.data)); // a call that waits would never return: the gate is closed
            ASSERT_OK(trim());
            expect_kept(1, range_size);
            expect_kept(0, 0, 0); // host memory is on no device
            EXPECT_EQ(FERRY_MEMORY_PINNED, memory_at(host.data));
            EXPECT_EQ(FERRY_ERROR_ADDRESS, unregister(host.data));
            EXPECT_EQ(FERRY_ERROR_ADDRESS, ferry_host_unregister(counted.get(), host.data, nullptr));
            EXPECT_EQ(0, driver.calls("cuMemHostUnregister"));
        }
        EXPECT_TRUE(read_back(target, range_size) == data);
        EXPECT_OK(trim(range_size));
        expect_kept(1, range_size);
        EXPECT_OK(trim());
        expect_kept(0, 0);
        EXPECT_EQ(parts, driver.calls("cuMemHostUnregister"));
        EXPECT_EQ(FERRY_MEMORY_PAGEABLE, memory_at(host.data));
        EXPECT_EQ(FERRY_ERROR_ADDRESS, unregister(host.data));
        enroll(host.data); // like new
        EXPECT_OK(ferry_host_unregister(counted.get(), host.data, nullptr));
    }
}

TEST_F(deferred_ends, memory_can_be_registered_again_once_its_stream_has_completed) {
    const host_pages host;
    enroll(host.data);
    {
        gate held(stream);
        ASSERT_OK(unregister(host.data));
        EXPECT_EQ(FERRY_STATUS_DRIVER_BASE - CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
                  ferry_host_register(counted.get(), host.data, range_size, 0, nullptr));
    }
    enroll(host.data, page);
    expect_kept(0, 0);
    EXPECT_EQ(FERRY_MEMORY_PAGEABLE, memory_at(host.data + page));
    EXPECT_OK(ferry_host_unregister(counted.get(), host.data, nullptr));
    EXPECT_EQ(driver.calls("cuMemHostUnregister") + 2, driver.calls("cuMemHostRegister")); // two attempts were refused
}

TEST_F(deferred_ends, addresses_where_no_registration_begins_are_refused) {
    const host_pages host;
    enroll(host.data);
    EXPECT_EQ(FERRY_ERROR_INVALID_ARGUMENT, ferry_host_unregister_deferred(nullptr, host.data, stream, nullptr));
    EXPECT_EQ(FERRY_ERROR_INVALID_ARGUMENT, ferry_host_unregister_deferred(counted.get(), nullptr, stream, nullptr));
    ferry_error_info error = new_error();
    expect_refusal(ferry_host_unregister_deferred(counted.get(), host.data + page, stream, &error), error,
                   FERRY_ERROR_ADDRESS, FERRY_SIDE_NONE, FERRY_FIELD_ADDRESS);
    int here = 0;
    EXPECT_EQ(FERRY_ERROR_ADDRESS, unregister(&here));
    void *block = nullptr;
    ASSERT_OK(allocate_pinned(counted.get(), page, 0, &block));
    EXPECT_EQ(FERRY_ERROR_ADDRESS, unregister(block));
    EXPECT_OK(ferry_host_free(counted.get(), block, nullptr));
    {
        test_stream capturing;
        captured_graph graph(capturing);
        EXPECT_EQ(FERRY_ERROR_CAPTURE, ferry_host_unregister_deferred(counted.get(), host.data, capturing, nullptr));
        graph.end();
        graph.run();
    }
    expect_kept(0, 0);
    EXPECT_OK(ferry_host_unregister(counted.get(), host.data, nullptr)) << "still registered";
}

TEST_F(deferred_ends, a_registration_that_ended_with_its_context_is_not_undone_again) {
    for (const bool by_ferry : {true, false})
        for (const bool is_early : {true, false}) {
            SCOPED_TRACE(testing::Message() << by_ferry << is_early);
            const host_pages host;
            CUcontext made = nullptr;
            ASSERT_OK(ferry_context_create(counted.get(), 0, 0, &made, nullptr));
            {
                const made_current in(made);
                enroll(host.data);
            }
            if (is_early) {
                ASSERT_OK(unregister(host.data)); // on a stream of the primary context
            }
            if (by_ferry)
                ASSERT_OK(ferry_context_destroy(counted.get(), made, nullptr));
            else
                ASSERT_OK(raw().cuCtxDestroy(made));
            pass();
            driver.reset_counts();
            if (is_early) {
                EXPECT_OK(trim());
            } else {
                EXPECT_EQ(not_registered, unregister(host.data));
            }
            EXPECT_EQ(0, driver.calls("cuMemHostUnregister"));
            expect_kept(0, 0);
            enroll(host.data); // in the primary context
            EXPECT_OK(unregister(host.data));
            pass();
            EXPECT_OK(trim());
            EXPECT_EQ(1, driver.calls("cuMemHostUnregister"));
        }
}

TEST_F(deferred_ends, only_one_of_several_threads_unregisters_a_range) {
    const host_pages host;
    for (int round = 0; round < 20; ++round) {
        enroll(host.data);
        std::atomic<int> ends = 0;
        std::vector<std::thread> threads;
        for (int thread = 0; thread < 3; ++thread)
            threads.emplace_back([&, thread] {
                EXPECT_OK(raw().cuCtxSetCurrent(context));
                ends += (thread == 0 ? ferry_host_unregister(counted.get(), host.data, nullptr)
                                     : unregister(host.data)) == FERRY_SUCCESS;
            });
        for (std::thread &thread : threads)
            thread.join();
        EXPECT_EQ(1, ends);
        pass();
        EXPECT_OK(trim());
    }
    EXPECT_EQ(FERRY_MEMORY_PAGEABLE, memory_at(host.data));
}

// ---- Prepared batches

TEST_F(deferred_ends, a_prepared_batch_is_destroyed_behind_its_launches) {
    const pinned_memory from(256 * pieces);
    const device_memory to(256 * pieces);
    const bytes data = random_bytes(from.size, 1);
    std::memcpy(from.data(), data.data(), data.size());
    ferry_prepared *const prepared = prepare(to, number(from.data()));
    ASSERT_OK(ferry_prepared_launch(prepared, nullptr, stream, nullptr, nullptr)); // loads what the first launch needs
    pass();
    std::memset(from.data(), 0, from.size);
    const int tables = has_kernels() ? 1 : 0;
    driver.reset_counts();
    {
        gate held(stream);
        ASSERT_OK(ferry_prepared_launch(prepared, nullptr, stream, nullptr, nullptr));
        ASSERT_OK(ferry_prepared_destroy_deferred(prepared, stream, nullptr));
        ASSERT_OK(trim());
        ferry_deferred_info info = {};
        info.struct_size = sizeof info;
        EXPECT_OK(ferry_deferred_get_info(counted.get(), 0, &info, nullptr));
        EXPECT_EQ(static_cast<std::uint32_t>(tables), info.allocations);
        EXPECT_EQ(tables != 0, info.bytes != 0);
        EXPECT_EQ(0, driver.calls("cuMemFree"));
        std::memcpy(from.data(), data.data(), data.size()); // the launch has not read it yet
    }
    const bytes arrived = read_back(to, 256 * pieces);
    for (std::uint64_t i = 0; i < pieces; ++i)
        EXPECT_EQ(0, std::memcmp(&arrived[256 * i], &data[256 * i], 128)) << i;
    EXPECT_OK(trim());
    expect_kept(0, 0);
    EXPECT_EQ(tables, driver.calls("cuMemFree"));
}

TEST_F(deferred_ends, a_prepared_batch_that_cannot_be_destroyed_is_unchanged) {
    const pinned_memory from(256 * pieces);
    const device_memory to(256 * pieces);
    ferry_prepared *const prepared = prepare(to, number(from.data()));
    EXPECT_OK(ferry_prepared_destroy_deferred(nullptr, stream, nullptr));
    if (has_kernels()) { // else there is no table
        test_stream capturing;
        captured_graph graph(capturing);
        EXPECT_EQ(FERRY_ERROR_CAPTURE, ferry_prepared_destroy_deferred(prepared, capturing, nullptr));
        graph.end();
        graph.run();
        ferry_error_info error = new_error();
        driver.fail("cuEventRecord", CUDA_ERROR_OUT_OF_MEMORY);
        EXPECT_EQ(FERRY_STATUS_DRIVER_BASE - CUDA_ERROR_OUT_OF_MEMORY,
                  ferry_prepared_destroy_deferred(prepared, stream, &error));
        EXPECT_STREQ("cuEventRecord", error.driver_function);
        driver.heal();
    }
    EXPECT_OK(ferry_prepared_launch(prepared, nullptr, stream, nullptr, nullptr));
    EXPECT_OK(ferry_prepared_destroy_deferred(prepared, stream, nullptr));
    pass();
    EXPECT_OK(trim());
    expect_kept(0, 0);
}

TEST_F(deferred_ends, a_table_that_ended_with_its_context_is_not_freed_again) {
    const pinned_memory from(256 * pieces);
    for (const bool is_early : {true, false}) {
        CUcontext made = nullptr;
        ASSERT_OK(ferry_context_create(counted.get(), 0, 0, &made, nullptr));
        ferry_prepared *prepared = nullptr;
        {
            const made_current in(made);
            const device_memory to(256 * pieces);
            CUstream own = nullptr;
            ASSERT_OK(raw().cuStreamCreate(&own, CU_STREAM_NON_BLOCKING));
            std::swap(own, stream);
            prepared = prepare(to, number(from.data()));
            std::swap(own, stream);
            if (is_early) {
                EXPECT_OK(ferry_prepared_destroy_deferred(prepared, own, nullptr));
            }
        }
        ASSERT_OK(ferry_context_destroy(counted.get(), made, nullptr));
        driver.reset_counts();
        if (!is_early) {
            EXPECT_OK(ferry_prepared_destroy_deferred(prepared, stream, nullptr));
        }
        expect_kept(0, 0);
        EXPECT_OK(trim());
        EXPECT_EQ(0, driver.calls("cuMemFree")) << "the address may belong to a new allocation";
    }
}

// ---- Pinned pools

TEST_F(deferred_ends, a_pinned_pool_is_destroyed_behind_the_frees_of_its_blocks) {
    ferry_pinned_pool *pool = nullptr;
    void *block = nullptr;
    ASSERT_OK(ferry_pinned_pool_create(counted.get(), nullptr, &pool, nullptr));
    ASSERT_OK(ferry_pinned_pool_alloc(pool, page, &block, nullptr));
    EXPECT_EQ(FERRY_ERROR_IN_USE, ferry_pinned_pool_destroy_deferred(pool, stream, nullptr));
    EXPECT_OK(ferry_pinned_pool_destroy_deferred(nullptr, stream, nullptr));
    const device_memory target(page);
    const bytes data = random_bytes(page, 1);
    std::memcpy(block, data.data(), page);
    driver.reset_counts();
    {
        gate held(stream);
        ASSERT_OK(
            ferry_copy_bytes_async(counted.get(), target, number(block), page, nullptr, stream, nullptr, nullptr));
        ASSERT_OK(ferry_pinned_pool_free_async(pool, block, stream, nullptr));
        ASSERT_OK(ferry_pinned_pool_destroy_deferred(pool, stream, nullptr));
        ASSERT_OK(trim());
        ferry_deferred_info info = {};
        info.struct_size = sizeof info;
        EXPECT_OK(ferry_deferred_get_info(counted.get(), FERRY_DEVICE_UNKNOWN, &info, nullptr));
        EXPECT_EQ(1u, info.allocations);
        EXPECT_GE(info.bytes, page);
        EXPECT_EQ(0, driver.calls("cuMemHostUnregister") + driver.calls("cuMemFreeHost"));
    }
    EXPECT_TRUE(read_back(target, page) == data);
    EXPECT_OK(trim());
    expect_kept(0, 0);
    EXPECT_EQ(1, driver.calls("cuMemHostUnregister") + driver.calls("cuMemFreeHost"));
}

TEST_F(deferred_ends, a_pinned_pool_that_cannot_be_destroyed_is_unchanged) {
    ferry_pinned_pool *pool = nullptr;
    void *block = nullptr;
    ASSERT_OK(ferry_pinned_pool_create(counted.get(), nullptr, &pool, nullptr));
    {
        test_stream capturing;
        captured_graph graph(capturing);
        EXPECT_EQ(FERRY_ERROR_CAPTURE, ferry_pinned_pool_destroy_deferred(pool, capturing, nullptr));
        graph.end();
        graph.run();
    }
    ASSERT_OK(ferry_pinned_pool_alloc(pool, page, &block, nullptr));
    EXPECT_OK(ferry_pinned_pool_free(pool, block, nullptr));
    EXPECT_OK(ferry_pinned_pool_destroy_deferred(pool, nullptr, nullptr));
}

// ---- Managed memory

TEST_F(deferred_ends, managed_memory_is_freed_behind_its_stream) {
    std::uint64_t memory = 0;
    if (ferry_managed_alloc(counted.get(), 0, page, &memory, nullptr)) GTEST_SKIP() << "no managed memory";
    {
        gate held(stream);
        ASSERT_OK(ferry_device_free_deferred(counted.get(), memory, stream, nullptr));
        ASSERT_OK(trim());
        EXPECT_EQ(0, driver.calls("cuMemFree"));
        expect_kept(1, page);
        EXPECT_EQ(FERRY_ERROR_ADDRESS, ferry_device_free_deferred(counted.get(), memory, stream, nullptr));
        EXPECT_EQ(FERRY_ERROR_ADDRESS, ferry_device_free(counted.get(), memory, nullptr));
    }
    EXPECT_OK(trim());
    EXPECT_EQ(1, driver.calls("cuMemFree"));
    expect_kept(0, 0);
}

// ---- The end of the instance, and failures

TEST_F(deferred_ends, closing_the_instance_ends_everything_that_is_kept) {
    const host_pages host;
    const pinned_memory from(256 * pieces);
    const device_memory to(256 * pieces);
    ferry_prepared *const prepared = prepare(to, number(from.data()));
    ferry_pinned_pool *pool = nullptr;
    void *block = nullptr;
    ASSERT_OK(ferry_pinned_pool_create(counted.get(), nullptr, &pool, nullptr));
    ASSERT_OK(ferry_pinned_pool_alloc(pool, page, &block, nullptr));
    enroll(host.data);
    gate held(stream);
    ASSERT_OK(ferry_pinned_pool_free_async(pool, block, stream, nullptr));
    ASSERT_OK(unregister(host.data));
    ASSERT_OK(ferry_prepared_destroy_deferred(prepared, stream, nullptr));
    ASSERT_OK(ferry_pinned_pool_destroy_deferred(pool, stream, nullptr));
    held.let_go();
    counted.reset();
    EXPECT_EQ(driver.calls("cuMemHostRegister") + driver.calls("cuMemHostAlloc"),
              driver.calls("cuMemHostUnregister") + driver.calls("cuMemFreeHost"));
    EXPECT_EQ(driver.calls("cuMemAlloc"), driver.calls("cuMemFree"));
    EXPECT_EQ(driver.calls("cuEventCreate"), driver.calls("cuEventDestroy"));
    held.open();
}

TEST_F(deferred_ends, failing_driver_calls_leave_nothing_registered) {
    const char *const entries[] = {"cuCtxGetCurrent", "cuStreamIsCapturing",    "cuEventCreate",
                                   "cuEventRecord",   "cuEventQuery",           "cuThreadExchangeStreamCaptureMode",
                                   "cuMemFree",       "cuPointerGetAttributes", "cuMemHostUnregister",
                                   "cuCtxGetId",      "cuCtxPushCurrent"};
    for (const char *const entry : entries)
        for (int nth = 1; nth <= 3; ++nth) {
            SCOPED_TRACE(testing::Message() << entry << " " << nth);
            reopen(2 * page); // several pieces
            const host_pages host;
            enroll(host.data);
            const made_current none(nullptr); // so that ferry has to push contexts
            driver.fail(entry, CUDA_ERROR_UNKNOWN, nth);
            const bool is_given = unregister(host.data) == FERRY_SUCCESS;
            EXPECT_TRUE(raw().cuStreamSynchronize(stream) == CUDA_SUCCESS);
            static_cast<void>(trim());
            driver.heal();
            EXPECT_OK(trim());
            expect_kept(0, 0);
            if (!is_given) {
                EXPECT_OK(ferry_host_unregister(counted.get(), host.data, nullptr));
            }
            EXPECT_EQ(FERRY_MEMORY_PAGEABLE, memory_at(host.data));
        }
}

TEST_F(deferred_ends, the_child_of_a_fork_is_refused) {
    FERRY_NEEDS_FORK();
    SKIP_WITHOUT(pages_wiped_in_children);
    const host_pages host;
    const pinned_memory from(256 * pieces);
    const device_memory to(256 * pieces);
    ferry_prepared *const prepared = prepare(to, number(from.data()));
    ferry_pinned_pool *pool = nullptr;
    ASSERT_OK(ferry_pinned_pool_create(counted.get(), nullptr, &pool, nullptr));
    enroll(host.data);
    const int status = run_in_child([&] {
        constexpr std::int32_t refused = FERRY_STATUS_DRIVER_BASE - CUDA_ERROR_NOT_INITIALIZED;
        const bool is_refused =
            unregister(host.data) == refused && ferry_prepared_destroy_deferred(prepared, stream, nullptr) == refused &&
            ferry_pinned_pool_destroy_deferred(pool, stream, nullptr) == refused &&
            ferry_ipc_close_memory_deferred(counted.get(), number(&from), stream, nullptr) == refused &&
            ferry_ipc_close_pool_deferred(counted.get(), reinterpret_cast<CUmemoryPool>(8), stream, nullptr) == refused;
        return is_refused ? 17 : 1;
    });
    EXPECT_EQ(17, status);
    EXPECT_OK(ferry_pinned_pool_destroy(pool, nullptr));
    EXPECT_OK(ferry_prepared_destroy(prepared, nullptr));
    EXPECT_OK(ferry_host_unregister(counted.get(), host.data, nullptr));
}

} // namespace
} // namespace ferry::test
