// Pinned pools: sizes and alignment, stream order, the limit, failures at every step, and many threads.
#include <atomic>
#include <chrono>
#include <cstring>
#include <future>
#include <set>
#include <string>
#include <thread>

#include "support/fault_driver.h"
#include "support/gate.h"
#include "support/test_place.h"

namespace ferry::test {
namespace {

constexpr std::uint64_t large = 4 << 20; // each such block has a slab of its own
constexpr std::int32_t out_of_device_memory = FERRY_STATUS_DRIVER_BASE - CUDA_ERROR_OUT_OF_MEMORY;

struct destroy_pool {
    void operator()(ferry_pinned_pool *pool) const { EXPECT_OK(ferry_pinned_pool_destroy(pool, nullptr)); }
};
using pool_owner = std::unique_ptr<ferry_pinned_pool, destroy_pool>;

pool_owner new_pool(ferry_instance *instance, std::uint64_t limit = 0) {
    ferry_pinned_pool_options options = {};
    options.struct_size = sizeof options;
    options.max_size = limit;
    ferry_pinned_pool *pool = nullptr;
    ferry_error_info error = new_error();
    EXPECT_OK(ferry_pinned_pool_create(instance, &options, &pool, &error)) << describe(error);
    return pool_owner(pool);
}

ferry_pool_stats stats_of(const pool_owner &pool) {
    ferry_pool_stats stats = {};
    stats.struct_size = sizeof stats;
    EXPECT_OK(ferry_pinned_pool_get_stats(pool.get(), &stats, nullptr));
    return stats;
}

void *allocate(const pool_owner &pool, std::uint64_t size) {
    void *address = nullptr;
    EXPECT_OK(ferry_pinned_pool_alloc(pool.get(), size, &address, nullptr));
    return address;
}

void *allocate(const pool_owner &pool, std::uint64_t size, CUstream stream) {
    void *address = nullptr;
    EXPECT_OK(ferry_pinned_pool_alloc_async(pool.get(), size, stream, &address, nullptr));
    return address;
}

CUstream new_stream() {
    CUstream stream = nullptr;
    EXPECT_OK(raw().cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    return stream;
}

class pinned_pools : public ferry_test {
protected:
    void SetUp() override {
        ferry_test::SetUp();
        pool = new_pool(basic.get());
        for (CUstream *const stream : {&first, &second})
            *stream = new_stream();
    }
    void TearDown() override {
        pool.reset();
        for (CUstream const stream : {first, second})
            EXPECT_OK(raw().cuStreamDestroy(stream));
        ferry_test::TearDown();
    }
    void free(void *address) { EXPECT_OK(ferry_pinned_pool_free(pool.get(), address, nullptr)); }
    void free(void *address, CUstream stream) {
        EXPECT_OK(ferry_pinned_pool_free_async(pool.get(), address, stream, nullptr));
    }

    pool_owner pool;
    CUstream first = nullptr, second = nullptr;
};

TEST_F(pinned_pools, waste_an_eighth_of_a_block_at_most) {
    std::set<std::uint64_t> sizes;
    for (std::uint64_t size = 1; size <= 8192; size += size < 600 ? 1 : 61)
        sizes.insert(size);
    for (std::uint64_t power = 256; power <= 64 << 20; power *= 2)
        for (std::uint64_t eighth = 8; eighth < 16; ++eighth)
            for (std::uint64_t offset = 0; offset <= 2; ++offset)
                sizes.insert(power / 8 * eighth + offset - 1);
    std::mt19937_64 random(9);
    for (int i = 0; i < 200; ++i)
        sizes.insert(1 + random() % (std::uint64_t{64} << 20 >> random() % 20));
    for (const std::uint64_t size : sizes) {
        void *const address = allocate(pool, size);
        const std::uint64_t block = stats_of(pool).used_current;
        ASSERT_GE(block, size);
        ASSERT_LE(block - size, size > 2048 ? block / 8 : 255) << size;
        const auto place = reinterpret_cast<std::uintptr_t>(address);
        ASSERT_EQ(place % (size % 4096 == 0 || size > 30 << 10 ? 4096 : 256), 0u) << size;
        free(address);
        ASSERT_EQ(stats_of(pool).used_current, 0u);
        ASSERT_OK(
            ferry_pinned_pool_trim(pool.get(), size % 3 ? 16 << 20 : 0, nullptr)); // or slabs would add up to gigabytes
    }
}

TEST_F(pinned_pools, give_blocks_that_are_pinned_and_do_not_overlap) {
    std::mt19937_64 random(4);
    std::vector<std::pair<unsigned char *, std::size_t>> blocks;
    for (unsigned i = 0; i < 400; ++i) {
        const std::uint64_t size = 1 + random() % (i % 20 ? 5000 : 300000);
        blocks.emplace_back(static_cast<unsigned char *>(allocate(pool, size)), size);
        std::memset(blocks.back().first, static_cast<int>(i % 251), size);
    }
    for (std::size_t i = 0; i < blocks.size(); ++i) {
        const auto &[bytes, size] = blocks[i];
        for (std::size_t at = 0; at < size; at += at + 1 < size ? size - 1 : 1)
            ASSERT_EQ(bytes[at], i % 251);
        ferry_address_info info = {};
        info.struct_size = sizeof info;
        ASSERT_OK(ferry_address_get_info(basic.get(), reinterpret_cast<std::uintptr_t>(bytes), &info, nullptr));
        ASSERT_EQ(info.memory, FERRY_MEMORY_PINNED);
    }
    for (const auto &block : blocks)
        free(block.first);
    EXPECT_EQ(stats_of(pool).used_current, 0u);
}

TEST_F(pinned_pools, copy_from_and_to_every_device) {
    for (int device = 0; device < device_count(); ++device) {
        const test_place memory(place_kind::device, {.width = 10000}, device);
        auto *const there = static_cast<std::byte *>(allocate(pool, 10000)), *const back = static_cast<std::byte *>(
                                                                                 allocate(pool, 10000));
        const std::vector<std::byte> bytes = random_bytes(10000, 5);
        std::memcpy(there, bytes.data(), bytes.size());
        ASSERT_OK(ferry_copy_bytes(full.get(), memory.address(), reinterpret_cast<std::uintptr_t>(there), 10000,
                                   nullptr, nullptr));
        ASSERT_OK(ferry_copy_bytes(full.get(), reinterpret_cast<std::uintptr_t>(back), memory.address(), 10000, nullptr,
                                   nullptr));
        EXPECT_EQ(std::memcmp(back, bytes.data(), bytes.size()), 0);
        free(there);
        free(back);
    }
}

TEST_F(pinned_pools, reuse_a_freed_block) {
    void *const block = allocate(pool, 1000);
    free(block);
    EXPECT_EQ(allocate(pool, 900), block);
    free(block);
    void *const other = allocate(pool, large);
    free(other, first);
    EXPECT_OK(raw().cuStreamSynchronize(first));
    EXPECT_EQ(allocate(pool, large), other);
    free(other);
    EXPECT_EQ(stats_of(pool).reserved_current, large + (64 << 10));
}

TEST_F(pinned_pools, refuse_addresses_that_are_not_blocks_or_already_freed) {
    auto *const block = static_cast<std::byte *>(allocate(pool, 1000));
    const pool_owner other = new_pool(basic.get());
    void *const foreign = allocate(other, 1000);
    std::byte local = {};
    for (void *const wrong : {static_cast<void *>(block + 256), static_cast<void *>(block + 1),
                              static_cast<void *>(block + 1024), foreign, static_cast<void *>(&local)}) {
        EXPECT_EQ(ferry_pinned_pool_free(pool.get(), wrong, nullptr), FERRY_ERROR_ADDRESS);
        EXPECT_EQ(ferry_pinned_pool_free_async(pool.get(), wrong, first, nullptr), FERRY_ERROR_ADDRESS);
    }
    gate held(first);
    free(block, first);
    EXPECT_EQ(ferry_pinned_pool_free(pool.get(), block, nullptr), FERRY_ERROR_ADDRESS)
        << "while it waits for its stream";
    EXPECT_EQ(ferry_pinned_pool_free_async(pool.get(), block, second, nullptr), FERRY_ERROR_ADDRESS);
    held.open();
    EXPECT_EQ(stats_of(pool).used_current, 0u);
    EXPECT_EQ(ferry_pinned_pool_free(pool.get(), block, nullptr), FERRY_ERROR_ADDRESS) << "when it is free";
    EXPECT_OK(ferry_pinned_pool_free(other.get(), foreign, nullptr));
    EXPECT_OK(ferry_pinned_pool_free(pool.get(), nullptr, nullptr));
    EXPECT_OK(ferry_pinned_pool_free_async(pool.get(), nullptr, first, nullptr));
}

TEST_F(pinned_pools, keep_a_block_from_the_host_until_its_free_has_completed) {
    void *const block = allocate(pool, large);
    gate held(first);
    free(block, first);
    void *const other = allocate(pool, large);
    EXPECT_NE(other, block);
    EXPECT_EQ(stats_of(pool).used_current, 2 * large) << "a block that waits for its stream counts as used";
    held.open();
    EXPECT_EQ(allocate(pool, large), block);
    free(block);
    free(other);
}

TEST_F(pinned_pools, give_a_block_immediately_to_the_stream_that_freed_it) {
    void *const block = allocate(pool, large);
    {
        gate held(first);
        free(block, first);
        void *const other = allocate(pool, large, second);
        EXPECT_NE(other, block) << "without a limit another stream need not wait";
        EXPECT_EQ(allocate(pool, large, first), block);
        free(other);
        free(block, first);
    }
    for (const CUstream each : {CUstream{nullptr}, CU_STREAM_PER_THREAD}) {
        gate held(each);
        void *const mine = allocate(pool, large, first);
        free(mine, each);
        EXPECT_EQ(allocate(pool, large, each ? each : CU_STREAM_LEGACY), mine);
        held.open();
        free(mine, each);
    }
}

TEST_F(pinned_pools, distinguish_the_per_thread_streams_of_two_threads) {
    void *const block = allocate(pool, large);
    gate held(CU_STREAM_PER_THREAD);
    free(block, CU_STREAM_PER_THREAD);
    std::thread([&] {
        void *const other = allocate(pool, large, CU_STREAM_PER_THREAD);
        EXPECT_NE(other, block);
        free(other);
    }).join();
}

TEST_F(pinned_pools, at_the_limit_give_a_larger_block_if_no_memory_can_be_released) {
    constexpr std::uint64_t size = 512 << 10;
    const pool_owner small = new_pool(basic.get(), 4 * size);
    void *const blocks[] = {allocate(small, size), allocate(small, size), allocate(small, size), allocate(small, size)};
    ASSERT_OK(ferry_pinned_pool_free(small.get(), blocks[3], nullptr)); // the last two share one allocation
    EXPECT_EQ(allocate(small, size / 8), blocks[3]);
    void *none = &none;
    ferry_error_info error = new_error();
    expect_refusal(ferry_pinned_pool_alloc(small.get(), size / 8, &none, &error), error, FERRY_ERROR_LIMIT,
                   FERRY_SIDE_OPTIONS, FERRY_FIELD_MAX_SIZE);
    EXPECT_EQ(describe(error), "options.max_size: 2162688, must be at most 2097152 (FERRY_ERROR_LIMIT)");
    for (void *const one : blocks)
        ASSERT_OK(ferry_pinned_pool_free(small.get(), one, nullptr));
}

TEST_F(pinned_pools, at_the_limit_make_a_stream_wait_for_the_oldest_block) {
    const pool_owner small = new_pool(basic.get(), 2 * large);
    void *const blocks[] = {allocate(small, large), allocate(small, large)};
    void *none = &none;
    EXPECT_EQ(ferry_pinned_pool_alloc(small.get(), large, &none, nullptr), FERRY_ERROR_LIMIT);
    EXPECT_EQ(none, nullptr);
    EXPECT_EQ(ferry_pinned_pool_alloc_async(small.get(), large, second, &none, nullptr), FERRY_ERROR_LIMIT);
    const CUstream third = new_stream(), idle = new_stream();
    {
        gate held(first);
        CUevent passed = nullptr;
        ASSERT_OK(raw().cuEventCreate(&passed, CU_EVENT_DISABLE_TIMING));
        ASSERT_OK(raw().cuEventRecord(passed, first));
        ASSERT_OK(raw().cuStreamWaitEvent(third, passed, 0));
        ASSERT_OK(raw().cuEventDestroy(passed));
        ASSERT_OK(ferry_pinned_pool_free_async(small.get(), blocks[1], first, nullptr));
        ASSERT_OK(ferry_pinned_pool_free_async(small.get(), blocks[0], third, nullptr));
        EXPECT_EQ(ferry_pinned_pool_alloc(small.get(), large, &none, nullptr), FERRY_ERROR_LIMIT)
            << "the host does not wait";
        EXPECT_EQ(allocate(small, large, second), blocks[1]);
        EXPECT_EQ(raw().cuStreamQuery(second), CUDA_ERROR_NOT_READY) << "it waits for the first";
        EXPECT_EQ(raw().cuStreamQuery(idle), CUDA_SUCCESS);
        ASSERT_OK(ferry_pinned_pool_free_async(small.get(), blocks[1], second, nullptr));
    }
    EXPECT_OK(raw().cuStreamSynchronize(third));
    EXPECT_OK(raw().cuStreamSynchronize(second));
    void *const again[] = {allocate(small, large), allocate(small, large)};
    for (void *const address : again)
        EXPECT_OK(ferry_pinned_pool_free(small.get(), address, nullptr));
    for (const CUstream stream : {third, idle})
        EXPECT_OK(raw().cuStreamDestroy(stream));
}

TEST_F(pinned_pools, do_not_give_the_host_a_block_until_every_free_of_it_has_completed) {
    void *const block = allocate(pool, large);
    gate held(first);
    free(block, first);
    ASSERT_EQ(allocate(pool, large, first), block);
    free(block); // nothing was enqueued since, but the stream has not passed the first free
    void *const other = allocate(pool, large);
    EXPECT_NE(other, block);
    held.open();
    EXPECT_EQ(allocate(pool, large), block);
    free(block);
    free(other);
}

TEST_F(pinned_pools, keep_bytes_intact_that_streams_still_read) {
    const pool_owner small = new_pool(basic.get(), 3 * large);
    test_place device(place_kind::device, {.width = large});
    const CUstream streams[] = {first, second};
    bytes wanted;
    for (unsigned round = 0; round < 24; ++round) {
        const CUstream stream = streams[round % 2];
        void *address = nullptr;
        while (ferry_pinned_pool_alloc(small.get(), large, &address, nullptr) == FERRY_ERROR_LIMIT)
            std::this_thread::yield();
        ASSERT_NE(address, nullptr);
        wanted = random_bytes(large, round);
        std::memcpy(address, wanted.data(), large);
        ASSERT_OK(raw().cuStreamSynchronize(streams[(round + 1) % 2])); // the copies take turns at the target
        ASSERT_OK(ferry_copy_bytes_async(basic.get(), device.address(), reinterpret_cast<std::uintptr_t>(address),
                                         large, nullptr, stream, nullptr, nullptr));
        ASSERT_OK(ferry_pinned_pool_free_async(small.get(), address, stream, nullptr));
    }
    EXPECT_OK(raw().cuStreamSynchronize(first));
    EXPECT_OK(raw().cuStreamSynchronize(second));
    EXPECT_EQ(device.read(), wanted);
}

TEST_F(pinned_pools, outlive_the_streams_that_freed_their_blocks) {
    for (int round = 0; round < 20; ++round) {
        const CUstream passing = new_stream();
        test_place device(place_kind::device, {.width = large});
        void *const block = allocate(pool, large);
        ASSERT_OK(ferry_copy_bytes_async(basic.get(), device.address(), reinterpret_cast<std::uintptr_t>(block), large,
                                         nullptr, passing, nullptr, nullptr));
        free(block, passing);
        ASSERT_OK(raw().cuStreamDestroy(passing));
        const CUstream next = new_stream(); // possibly with the same handle
        void *const again = allocate(pool, large, next);
        free(again, next);
        ASSERT_OK(raw().cuStreamSynchronize(next));
        ASSERT_OK(raw().cuStreamDestroy(next));
        ASSERT_OK(raw().cuCtxSynchronize());
    }
    EXPECT_EQ(stats_of(pool).used_current, 0u);
}

TEST_F(pinned_pools, release_blocks_that_waited_for_a_destroyed_context) {
    CUcontext passing = nullptr;
    ASSERT_OK(raw().cuCtxCreate(&passing, 0, 0)); // makes it current too
    const CUstream stream = new_stream();
    ASSERT_OK(raw().cuCtxSetCurrent(context));
    void *const block = allocate(pool, large);
    free(block, stream);
    void *const mine = allocate(pool, large, first);
    free(mine, first);
    ASSERT_OK(raw().cuCtxDestroy(passing));
    ASSERT_OK(raw().cuStreamSynchronize(first));
    EXPECT_EQ(stats_of(pool).used_current, 0u);
    EXPECT_OK(ferry_pinned_pool_trim(pool.get(), 0, nullptr));
    EXPECT_EQ(stats_of(pool).reserved_current, 0u);
}

TEST_F(pinned_pools, are_independent_of_each_other) {
    const pool_owner other = new_pool(full.get());
    void *const mine = allocate(pool, 5000), *const theirs = allocate(other, 5000);
    EXPECT_NE(mine, theirs);
    EXPECT_EQ(stats_of(pool).used_current, 5120u);
    free(mine, first);
    EXPECT_EQ(stats_of(other).used_current, 5120u);
    EXPECT_OK(ferry_pinned_pool_free_async(other.get(), theirs, first, nullptr));
}

TEST_F(pinned_pools, count_what_is_reserved_and_what_is_used) {
    ferry_pool_stats stats = stats_of(pool);
    EXPECT_EQ(stats.reserved_current + stats.reserved_high + stats.used_current + stats.used_high, 0u);
    void *const blocks[] = {allocate(pool, large), allocate(pool, large - 1)};
    stats = stats_of(pool);
    EXPECT_EQ(stats.used_current, 2 * large);
    EXPECT_EQ(stats.reserved_current, 2 * large);
    free(blocks[0]);
    EXPECT_OK(ferry_pinned_pool_trim(pool.get(), large + 1, nullptr));
    stats = stats_of(pool);
    EXPECT_EQ(stats.used_current, large);
    EXPECT_EQ(stats.used_high, 2 * large);
    EXPECT_EQ(stats.reserved_current, large);
    EXPECT_EQ(stats.reserved_high, 2 * large);
    EXPECT_OK(ferry_pinned_pool_reset_stats(pool.get(), nullptr));
    stats = stats_of(pool);
    EXPECT_EQ(stats.used_high, large);
    EXPECT_EQ(stats.reserved_high, large);
    EXPECT_OK(ferry_pinned_pool_trim(pool.get(), 0, nullptr));
    EXPECT_EQ(stats_of(pool).reserved_current, large) << "a block in it is allocated";
    free(blocks[1]);
    EXPECT_OK(ferry_pinned_pool_trim(pool.get(), large, nullptr));
    EXPECT_EQ(stats_of(pool).reserved_current, large) << "the trim was to keep that much";
    EXPECT_OK(ferry_pinned_pool_trim(pool.get(), 0, nullptr));
    EXPECT_EQ(stats_of(pool).reserved_current, 0u);
    stats.struct_size = 7;
    EXPECT_EQ(ferry_pinned_pool_get_stats(pool.get(), &stats, nullptr), FERRY_ERROR_ABI_MISMATCH);
}

TEST_F(pinned_pools, at_the_limit_release_free_slabs_of_other_sizes) {
    const pool_owner small = new_pool(basic.get(), large + 100000);
    std::vector<void *> blocks;
    for (const std::uint64_t size : {300, 5000, 60000}) // these leave too little room for a large block
        for (std::uint64_t i = 0; i < 600000 / size; ++i)
            blocks.push_back(allocate(small, size));
    void *address = nullptr;
    EXPECT_EQ(ferry_pinned_pool_alloc(small.get(), large, &address, nullptr), FERRY_ERROR_LIMIT);
    for (void *const block : blocks)
        EXPECT_OK(ferry_pinned_pool_free_async(small.get(), block, first, nullptr));
    EXPECT_OK(raw().cuStreamSynchronize(first));
    EXPECT_OK(ferry_pinned_pool_alloc(small.get(), large, &address, nullptr));
    EXPECT_LE(stats_of(small).reserved_current, large + 100000);
    void *beside = nullptr;
    EXPECT_OK(ferry_pinned_pool_alloc(small.get(), 100, &beside, nullptr)) << "a slab no larger than needed";
    EXPECT_LE(stats_of(small).reserved_high, large + 100000);
    const std::uint64_t before = stats_of(small).reserved_current;
    EXPECT_OK(ferry_pinned_pool_free(small.get(), beside, nullptr));
    EXPECT_OK(ferry_pinned_pool_free(small.get(), address, nullptr));
    EXPECT_EQ(ferry_pinned_pool_alloc(small.get(), 2 * large, &address, nullptr), FERRY_ERROR_LIMIT);
    EXPECT_EQ(stats_of(small).reserved_current, before) << "nothing is released in vain";
    EXPECT_EQ(ferry_status_traits(FERRY_ERROR_LIMIT), FERRY_STATUS_RETRY);
}

TEST_F(pinned_pools, are_destroyed_only_without_allocated_blocks_and_wait_for_the_streams) {
    fault_driver driver(raw_entry_points());
    const instance_owner instance = open_or_fail(driver.options());
    ferry_pinned_pool *const other = new_pool(instance.get()).release();
    void *blocks[3] = {};
    for (void *&block : blocks)
        ASSERT_OK(ferry_pinned_pool_alloc(other, large, &block, nullptr));
    EXPECT_OK(ferry_pinned_pool_free_async(other, blocks[0], first, nullptr));
    EXPECT_OK(ferry_pinned_pool_free_async(other, blocks[1], second, nullptr));
    EXPECT_EQ(ferry_pinned_pool_destroy(other, nullptr), FERRY_ERROR_IN_USE);
    std::memset(blocks[2], 1, large);
    EXPECT_EQ(driver.calls("cuMemFreeHost") + driver.calls("cuMemHostUnregister"), 0);
    EXPECT_OK(ferry_pinned_pool_free(other, blocks[2], nullptr));
    EXPECT_OK(ferry_pinned_pool_destroy(other, nullptr));
    EXPECT_EQ(driver.calls("cuEventSynchronize"), 2);
    EXPECT_EQ(driver.calls("cuEventDestroy"), 2);
    EXPECT_OK(ferry_pinned_pool_destroy(nullptr, nullptr));
}

TEST_F(pinned_pools, serve_threads_without_a_context_and_leave_them_so) {
    ASSERT_OK(raw().cuCtxSetCurrent(nullptr));
    for (const CUstream stream : {CUstream{nullptr}, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD, first}) {
        void *const block = allocate(pool, large, stream);
        free(block, stream);
        stats_of(pool);
    }
    ASSERT_OK(ferry_context_synchronize(basic.get(), 0, nullptr, nullptr));
    EXPECT_OK(ferry_pinned_pool_trim(pool.get(), 0, nullptr));
    EXPECT_EQ(stats_of(pool).reserved_current, 0u);
    CUcontext after = context;
    EXPECT_OK(raw().cuCtxGetCurrent(&after));
    EXPECT_EQ(after, nullptr);
    ASSERT_OK(raw().cuCtxSetCurrent(context));
}

TEST_F(pinned_pools, leave_captures_alone) {
    void *const waiting = allocate(pool, large), *const block = allocate(pool, large);
    free(waiting, second);
    void *address = &address;
    CUgraph graph = nullptr;
    ASSERT_OK(raw().cuStreamBeginCapture(first, CU_STREAM_CAPTURE_MODE_GLOBAL));
    EXPECT_EQ(ferry_pinned_pool_free_async(pool.get(), block, first, nullptr), FERRY_ERROR_CAPTURE);
    EXPECT_EQ(ferry_pinned_pool_alloc_async(pool.get(), large, first, &address, nullptr), FERRY_ERROR_CAPTURE);
    EXPECT_EQ(address, nullptr);
    std::vector<void *> taken; // queries the driver, and grows
    for (int i = 0; i < 3; ++i)
        taken.push_back(allocate(pool, large));
    taken.push_back(allocate(pool, large, second));
    for (void *const one : taken)
        free(one, second);
    EXPECT_OK(ferry_pinned_pool_trim(pool.get(), 0, nullptr));
    free(block);
    ASSERT_OK(raw().cuStreamEndCapture(first, &graph));
    EXPECT_OK(raw().cuGraphDestroy(graph));
}

TEST_F(pinned_pools, refuse_the_legacy_stream_while_a_stream_that_synchronises_with_it_is_captured) {
    CUstream joined = nullptr;
    ASSERT_OK(raw().cuStreamCreate(&joined, CU_STREAM_DEFAULT));
    void *const block = allocate(pool, large);
    CUgraph graph = nullptr;
    ASSERT_OK(raw().cuStreamBeginCapture(joined, CU_STREAM_CAPTURE_MODE_GLOBAL));
    EXPECT_EQ(ferry_pinned_pool_free_async(pool.get(), block, nullptr, nullptr), FERRY_ERROR_CAPTURE);
    ASSERT_OK(raw().cuStreamEndCapture(joined, &graph));
    EXPECT_OK(raw().cuGraphDestroy(graph));
    free(block, nullptr);
    EXPECT_OK(raw().cuStreamDestroy(joined));
}

TEST_F(pinned_pools, accept_frees_from_host_functions) {
    struct last_use {
        ferry_pinned_pool *pool;
        void *block;
        std::int32_t status;
    } use = {pool.get(), allocate(pool, large), -1};
    const CUhostFn function = [](void *user) {
        auto *const last = static_cast<last_use *>(user);
        last->status = ferry_pinned_pool_free(last->pool, last->block, nullptr);
    };
    ASSERT_OK(raw().cuLaunchHostFunc(first, function, &use));
    ASSERT_OK(raw().cuStreamSynchronize(first));
    EXPECT_OK(use.status);
    EXPECT_EQ(allocate(pool, large), use.block);
    free(use.block);
}

// Each call of this driver returns only when another thread has freed a block. A real call may do so too: it waits for
// room in a queue, the queue for a host function, and the host function frees a block.
struct slow_driver {
    static ferry_pinned_pool *pool;
    static std::vector<void *> blocks; // each call frees one of them, while there are any
    static std::vector<std::thread> threads;
    static int calls;

    static void meanwhile() {
        if (blocks.empty()) return;
        const auto freed = std::make_shared<std::promise<std::int32_t>>();
        std::future<std::int32_t> status = freed->get_future();
        threads.emplace_back(
            [freed, block = blocks.back()] { freed->set_value(ferry_pinned_pool_free(pool, block, nullptr)); });
        blocks.pop_back();
        ++calls;
        if (status.wait_for(std::chrono::seconds(10)) == std::future_status::ready)
            EXPECT_OK(status.get());
        else
            ADD_FAILURE() << "no block can be freed while a driver call is running";
    }
    template <auto entry, class Function = typename std::remove_reference_t<decltype(raw().*entry)>::function>
    struct slow;
    template <auto entry, class... Arguments> struct slow<entry, CUresult(CUDAAPI *)(Arguments...)> {
        static CUresult CUDAAPI call(Arguments... arguments) {
            meanwhile();
            return (raw().*entry)(arguments...);
        }
    };
    static void *get_proc(void *, const char *name, int version) {
        const std::pair<const char *, void *> entries[] = {
#define SLOW(name) {#name, reinterpret_cast<void *>(slow<&driver_table::name>::call)}
            SLOW(cuEventCreate),     SLOW(cuEventRecord),       SLOW(cuEventQuery),
            SLOW(cuStreamWaitEvent), SLOW(cuMemHostAlloc),      SLOW(cuMemFreeHost),
            SLOW(cuStreamGetCtx),    SLOW(cuCtxGetCurrent),     SLOW(cuStreamIsCapturing),
            SLOW(cuMemHostRegister), SLOW(cuMemHostUnregister), SLOW(cuThreadExchangeStreamCaptureMode),
#undef SLOW
        };
        for (const auto &[slow_name, function] : entries)
            if (std::strcmp(name, slow_name) == 0) return function;
        const resolver inner = raw_entry_points();
        return inner.get_proc(inner.user, name, version);
    }
};
ferry_pinned_pool *slow_driver::pool = nullptr;
std::vector<void *> slow_driver::blocks;
std::vector<std::thread> slow_driver::threads;
int slow_driver::calls = 0;

TEST_F(pinned_pools, accept_frees_while_other_threads_are_in_the_driver) {
    ferry_options options = options_under_test();
    options.driver = FERRY_DRIVER_CUDA;
    options.get_proc = slow_driver::get_proc;
    const instance_owner instance = open_or_fail(options);
    const pool_owner slow = new_pool(instance.get(), 2 * large);
    slow_driver::pool = slow.get();
    for (int i = 0; i < 100; ++i) {
        void *const block = allocate(slow, 256);
        slow_driver::blocks.push_back(block);
    }
    void *const block = allocate(slow, large);
    gate held(first);
    EXPECT_OK(ferry_pinned_pool_free_async(slow.get(), block, first, nullptr));
    EXPECT_EQ(allocate(slow, large, second), block);
    held.open();
    EXPECT_OK(ferry_pinned_pool_free_async(slow.get(), block, second, nullptr));
    EXPECT_OK(raw().cuStreamSynchronize(second));
    EXPECT_OK(ferry_pinned_pool_free(slow.get(), allocate(slow, large), nullptr));
    EXPECT_OK(ferry_pinned_pool_trim(slow.get(), 0, nullptr));
    EXPECT_GT(slow_driver::calls, 20);
    for (void *const left : std::exchange(slow_driver::blocks, {}))
        EXPECT_OK(ferry_pinned_pool_free(slow.get(), left, nullptr));
    for (std::thread &thread : std::exchange(slow_driver::threads, {}))
        thread.join();
}

TEST_F(pinned_pools, refuse_bad_options_and_arguments) {
    constexpr std::uint32_t size = sizeof(ferry_pinned_pool_options);
    const struct {
        std::uint32_t struct_size, flags;
        std::int32_t numa, device, numa_node;
        std::uint32_t reserved;
        std::int32_t status, field;
    } cases[] = {
        {7, 0, 0, 0, 0, 0, FERRY_ERROR_ABI_MISMATCH, FERRY_FIELD_STRUCT_SIZE},
        {size, FERRY_HOST_ALLOW_SMALLER, 0, 0, 0, 0, FERRY_ERROR_FLAGS, FERRY_FIELD_FLAGS},
        {size, FERRY_HOST_ALLOW_PAGEABLE, 0, 0, 0, 0, FERRY_ERROR_FLAGS, FERRY_FIELD_FLAGS},
        {size, 64, 0, 0, 0, 0, FERRY_ERROR_FLAGS, FERRY_FIELD_FLAGS},
        {size, 0, 3, 0, 0, 0, FERRY_ERROR_INVALID_ARGUMENT, FERRY_FIELD_NUMA},
        {size, 0, -1, 0, 0, 0, FERRY_ERROR_INVALID_ARGUMENT, FERRY_FIELD_NUMA},
        {size, 0, FERRY_NUMA_DEVICE, device_count(), 0, 0, FERRY_ERROR_DEVICE, FERRY_FIELD_DEVICE},
        {size, 0, FERRY_NUMA_NODE, 0, -1, 0, FERRY_ERROR_INVALID_ARGUMENT, FERRY_FIELD_NUMA_NODE},
        {size, 0, 0, 0, 0, 1, FERRY_ERROR_RESERVED, FERRY_FIELD_RESERVED},
    };
    for (const auto &one : cases) {
        const ferry_pinned_pool_options options = {one.struct_size, one.flags,    one.numa, one.device,
                                                   one.numa_node,   one.reserved, 0};
        ferry_error_info error = new_error();
        auto *made = reinterpret_cast<ferry_pinned_pool *>(7);
        expect_refusal(ferry_pinned_pool_create(basic.get(), &options, &made, &error), error, one.status,
                       FERRY_SIDE_OPTIONS, one.field);
        EXPECT_EQ(made, nullptr);
    }
    void *address = &address;
    ferry_error_info error = new_error();
    expect_refusal(ferry_pinned_pool_alloc(pool.get(), 0, &address, &error), error, FERRY_ERROR_INVALID_ARGUMENT,
                   FERRY_SIDE_NONE, FERRY_FIELD_SIZE);
    EXPECT_EQ(address, nullptr);
    for (const std::uint64_t huge : {UINT64_MAX, (std::uint64_t{1} << 47) + 1})
        EXPECT_EQ(ferry_pinned_pool_alloc(pool.get(), huge, &address, nullptr), out_of_device_memory);
    EXPECT_EQ(ferry_pinned_pool_alloc(pool.get(), 1, nullptr, nullptr), FERRY_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(ferry_pinned_pool_alloc(nullptr, 1, &address, nullptr), FERRY_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(ferry_pinned_pool_alloc_async(pool.get(), 1, first, nullptr, nullptr), FERRY_ERROR_INVALID_ARGUMENT);
    expect_refusal(ferry_pinned_pool_alloc_async(pool.get(), 0, first, &address, &error), error,
                   FERRY_ERROR_INVALID_ARGUMENT, FERRY_SIDE_NONE, FERRY_FIELD_SIZE);
    EXPECT_EQ(ferry_pinned_pool_free(nullptr, &address, nullptr), FERRY_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(ferry_pinned_pool_free_async(nullptr, &address, first, nullptr), FERRY_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(ferry_pinned_pool_trim(nullptr, 0, nullptr), FERRY_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(ferry_pinned_pool_get_stats(pool.get(), nullptr, nullptr), FERRY_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(ferry_pinned_pool_reset_stats(nullptr, nullptr), FERRY_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(ferry_pinned_pool_create(basic.get(), nullptr, nullptr, nullptr), FERRY_ERROR_INVALID_ARGUMENT);
}

TEST_F(pinned_pools, of_every_kind_allocate_usable_memory) {
    const struct {
        std::uint32_t flags;
        std::int32_t numa, device;
    } kinds[] = {
        {FERRY_HOST_WRITE_COMBINED, 0, 0},
        {FERRY_HOST_BY_DRIVER, 0, 0},
        {FERRY_HOST_NOT_PORTABLE, 0, 0},
        {FERRY_HOST_NOT_MAPPED, 0, 0},
        {0, FERRY_NUMA_DEVICE, 0},
        {0, FERRY_NUMA_NODE, 0},
        {0, FERRY_NUMA_DEVICE, device_count() - 1},
    };
    const test_place device(place_kind::device, {.width = 4096});
    for (const auto &one : kinds) {
        const ferry_pinned_pool_options options = {sizeof options, one.flags, one.numa, one.device, 0, 0, 0};
        ferry_pinned_pool *made = nullptr;
        ASSERT_OK(ferry_pinned_pool_create(basic.get(), &options, &made, nullptr));
        const pool_owner kind(made);
        void *const block = allocate(kind, 4096, first);
        EXPECT_OK(ferry_copy_bytes_async(basic.get(), device.address(), reinterpret_cast<std::uintptr_t>(block), 4096,
                                         nullptr, first, nullptr, nullptr));
        EXPECT_OK(ferry_pinned_pool_free_async(made, block, first, nullptr));
    }
}

// The program's allocator. It counts what ferry allocates and frees.
struct counted_memory {
    static void *allocate(void *user, std::uint64_t size, std::uint64_t) {
        auto &self = *static_cast<counted_memory *>(user);
        if (self.until_refusal && --self.until_refusal == 0) return nullptr;
        self.bytes += size;
        return std::malloc(size);
    }
    static void deallocate(void *user, void *memory, std::uint64_t size) {
        static_cast<counted_memory *>(user)->bytes -= size;
        std::free(memory);
    }
    void install(ferry_options &options) {
        options.allocate = allocate;
        options.deallocate = deallocate;
        options.allocate_user = this;
    }
    std::atomic<std::uint64_t> bytes = 0;
    int until_refusal = 0;
};

// Makes a typical sequence of calls, returns the first failure and frees every block.
struct typical_use {
    explicit typical_use(ferry_instance *instance, CUstream one, CUstream two)
        : first_stream(one), second_stream(two), status(create(instance)) {}

    std::int32_t run() {
        if (status) return status;
        status = use();
        // A block is still in the list if its free failed. Freeing it again must work.
        for (void *const block : blocks)
            EXPECT_OK(ferry_pinned_pool_free(pool, block, nullptr));
        return status;
    }
    std::int32_t create(ferry_instance *instance) {
        ferry_pinned_pool_options options = {};
        options.struct_size = sizeof options;
        options.max_size = 2 * large;
        return ferry_pinned_pool_create(instance, &options, &pool, nullptr);
    }
    std::int32_t free_on(void *&block, CUstream stream) {
        const std::int32_t failed = ferry_pinned_pool_free_async(pool, block, stream, nullptr);
        if (!failed) block = nullptr;
        return failed;
    }
    std::int32_t use() {
        if (std::int32_t failed = ferry_pinned_pool_alloc(pool, large, &blocks[0], nullptr)) return failed;
        if (std::int32_t failed = ferry_pinned_pool_alloc_async(pool, large, first_stream, &blocks[1], nullptr))
            return failed;
        if (std::int32_t failed = free_on(blocks[0], first_stream)) return failed;
        if (std::int32_t failed = free_on(blocks[1], nullptr)) return failed;
        // The limit is reached: these calls wait, or query events.
        if (std::int32_t failed = ferry_pinned_pool_alloc_async(pool, large, second_stream, &blocks[0], nullptr))
            return failed;
        if (std::int32_t failed = free_on(blocks[0], second_stream)) return failed;
        if (std::int32_t failed = ferry_pinned_pool_trim(pool, 0, nullptr)) return failed;
        return ferry_pinned_pool_reset_stats(pool, nullptr);
    }

    CUstream first_stream, second_stream;
    ferry_pinned_pool *pool = nullptr;
    void *blocks[2] = {};
    std::int32_t status;
};

TEST_F(pinned_pools, survive_any_failing_call_of_the_driver) {
    fault_driver driver(raw_entry_points());
    int faults = 0;
    for (const char *const entry :
         {"cuMemHostRegister", "cuMemHostUnregister", "cuMemHostAlloc", "cuMemFreeHost", "cuEventCreate",
          "cuEventRecord", "cuEventQuery", "cuStreamWaitEvent", "cuStreamIsCapturing", "cuStreamGetCtx",
          "cuCtxGetCurrent", "cuThreadExchangeStreamCaptureMode"})
        for (int nth = 1;; ++nth) {
            driver.heal();
            counted_memory memory;
            ferry_options options = driver.options();
            memory.install(options);
            instance_owner instance = open_or_fail(options);
            driver.reset_counts();
            driver.fail(entry, CUDA_ERROR_OUT_OF_MEMORY, nth);
            typical_use use(instance.get(), first, second);
            const std::int32_t status = use.run();
            const bool was_reached = driver.calls(entry) >= nth;
            driver.heal();
            CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
            EXPECT_OK(raw().cuThreadExchangeStreamCaptureMode(&mode));
            EXPECT_OK(raw().cuCtxSynchronize());
            EXPECT_OK(ferry_pinned_pool_trim(use.pool, 0, nullptr));
            ferry_pool_stats stats = {};
            stats.struct_size = sizeof stats;
            EXPECT_OK(ferry_pinned_pool_get_stats(use.pool, &stats, nullptr));
            EXPECT_EQ(stats.used_current, 0u) << entry << " " << nth;
            EXPECT_EQ(stats.reserved_current, 0u) << entry << " " << nth;
            EXPECT_OK(ferry_pinned_pool_destroy(use.pool, nullptr));
            EXPECT_EQ(driver.calls("cuEventCreate") - (std::strcmp(entry, "cuEventCreate") == 0 && was_reached),
                      driver.calls("cuEventDestroy"))
                << entry << " " << nth;
            instance.reset();
            EXPECT_EQ(memory.bytes, 0u) << entry << " " << nth;
            CUcontext current = nullptr;
            EXPECT_OK(raw().cuCtxGetCurrent(&current));
            EXPECT_EQ(current, context);
            if (!was_reached) {
                EXPECT_OK(status);
                break;
            }
            ++faults;
            // If registering fails, the driver allocates. If a query fails, it is repeated. If a capture mode is not
            // restored, no call reports it.
            const std::set<std::string> harmless = {"cuMemHostRegister", "cuEventQuery",
                                                    "cuThreadExchangeStreamCaptureMode"};
            const bool may_go_on = harmless.count(entry) != 0;
            EXPECT_TRUE(status == out_of_device_memory || (may_go_on && status == FERRY_SUCCESS))
                << entry << " " << nth << ": " << ferry_status_name(status);
        }
    EXPECT_GE(faults, 20);
}

TEST_F(pinned_pools, that_cannot_grow_report_it_or_make_a_stream_wait) {
    fault_driver driver(raw_entry_points());
    const instance_owner instance = open_or_fail(driver.options());
    const pool_owner faulty = new_pool(instance.get());
    void *const block = allocate(faulty, large), *none = &none;
    for (const char *const entry : {"cuMemHostRegister", "cuMemHostAlloc"})
        driver.fail(entry, CUDA_ERROR_OUT_OF_MEMORY, 1, true);
    EXPECT_EQ(ferry_pinned_pool_alloc(faulty.get(), large, &none, nullptr), out_of_device_memory);
    EXPECT_EQ(none, nullptr);
    EXPECT_EQ(ferry_pinned_pool_alloc_async(faulty.get(), large, second, &none, nullptr), out_of_device_memory);
    EXPECT_EQ(stats_of(faulty).reserved_high, large);
    gate held(first);
    EXPECT_OK(ferry_pinned_pool_free_async(faulty.get(), block, first, nullptr));
    EXPECT_EQ(allocate(faulty, large, second), block);
    EXPECT_EQ(raw().cuStreamQuery(second), CUDA_ERROR_NOT_READY);
    held.open();
    EXPECT_OK(ferry_pinned_pool_free(faulty.get(), block, nullptr));
}

// These results mean that a context died, but a wait for another stream's work must not report anything else.
TEST_F(pinned_pools, report_the_result_of_a_wait_that_failed) {
    fault_driver driver(raw_entry_points());
    const instance_owner instance = open_or_fail(driver.options());
    const pool_owner full = new_pool(instance.get(), large);
    for (const CUresult result : {CUDA_ERROR_UNKNOWN, CUDA_ERROR_ILLEGAL_ADDRESS, CUDA_ERROR_INVALID_HANDLE}) {
        void *const block = allocate(full, large), *none = &none;
        gate held(first);
        EXPECT_OK(ferry_pinned_pool_free_async(full.get(), block, first, nullptr));
        driver.fail("cuStreamWaitEvent", result);
        ferry_error_info info = {};
        info.struct_size = sizeof info;
        EXPECT_EQ(ferry_pinned_pool_alloc_async(full.get(), large, second, &none, &info),
                  FERRY_STATUS_DRIVER_BASE - result);
        EXPECT_EQ(none, nullptr);
        EXPECT_STREQ(info.driver_function, "cuStreamWaitEvent");
        EXPECT_EQ(allocate(full, large, second), block) << "the block was lost";
        EXPECT_EQ(raw().cuStreamQuery(second), CUDA_ERROR_NOT_READY);
        held.open();
        EXPECT_OK(ferry_pinned_pool_free(full.get(), block, nullptr));
    }
}

TEST_F(pinned_pools, forget_memory_that_ended_with_its_context) {
    CUctx_st *passing = nullptr;
    ASSERT_OK(ferry_context_create(basic.get(), 0, 0, &passing, nullptr));
    ASSERT_OK(ferry_context_adopt(basic.get(), 0, passing, nullptr));
    for (const std::uint32_t flags : {0u, FERRY_HOST_BY_DRIVER}) {
        const ferry_pinned_pool_options options = {sizeof options, flags, 0, 0, 0, 0, 0};
        ferry_pinned_pool *made = nullptr;
        ASSERT_OK(ferry_pinned_pool_create(basic.get(), &options, &made, nullptr));
        const pool_owner other(made);
        EXPECT_OK(ferry_pinned_pool_free(made, allocate(other, large), nullptr));
        ASSERT_OK(ferry_context_destroy(basic.get(), passing, nullptr));
        EXPECT_OK(ferry_pinned_pool_trim(made, 0, nullptr));
        EXPECT_EQ(stats_of(other).reserved_current, 0u);
        ASSERT_OK(ferry_context_create(basic.get(), 0, 0, &passing, nullptr));
        ASSERT_OK(ferry_context_adopt(basic.get(), 0, passing, nullptr));
    }
    ASSERT_OK(ferry_context_destroy(basic.get(), passing, nullptr));
}

TEST_F(pinned_pools, keep_their_memory_from_being_freed_as_other_host_memory) {
    for (const std::uint32_t flags : {0u, FERRY_HOST_BY_DRIVER}) {
        const ferry_pinned_pool_options options = {sizeof options, flags, 0, 0, 0, 0, 0};
        ferry_pinned_pool *made = nullptr;
        ASSERT_OK(ferry_pinned_pool_create(basic.get(), &options, &made, nullptr));
        const pool_owner other(made);
        for (const std::uint64_t size : {std::uint64_t{256}, large}) {
            void *const block = allocate(other, size);
            EXPECT_EQ(ferry_host_free(basic.get(), block, nullptr), FERRY_ERROR_ADDRESS);
            std::memset(block, 1, size);
            EXPECT_OK(ferry_pinned_pool_free(made, block, nullptr));
        }
    }
}

TEST_F(pinned_pools, survive_a_lack_of_host_memory) {
    const instance_owner kept = open_or_fail(options_under_test());
    bool is_through = false;
    for (int nth = 1; !is_through; ++nth) {
        counted_memory memory;
        ferry_options options = options_under_test();
        memory.install(options);
        instance_owner instance = open_or_fail(options);
        memory.until_refusal = nth;
        typical_use use(instance.get(), first, second);
        const std::int32_t status = use.run();
        is_through = memory.until_refusal > 0;
        memory.until_refusal = 0;
        EXPECT_EQ(status, is_through ? FERRY_SUCCESS : FERRY_ERROR_OUT_OF_MEMORY) << nth;
        EXPECT_OK(ferry_pinned_pool_destroy(use.pool, nullptr));
        instance.reset();
        EXPECT_EQ(memory.bytes, 0u) << nth;
        ASSERT_LT(nth, 100);
    }
}

TEST_F(pinned_pools, leak_no_block_after_a_permanent_error) {
    fault_driver driver(raw_entry_points());
    const instance_owner instance = open_or_fail(driver.options());
    const pool_owner faulty = new_pool(instance.get(), large);
    void *const block = allocate(faulty, large);
    ASSERT_OK(ferry_pinned_pool_free_async(faulty.get(), block, first, nullptr));
    EXPECT_OK(raw().cuStreamSynchronize(first));
    driver.fail("cuEventQuery", CUDA_ERROR_INVALID_VALUE, 1, true); // this says nothing about the stream
    void *address = nullptr;
    EXPECT_EQ(ferry_pinned_pool_alloc(faulty.get(), large, &address, nullptr), FERRY_ERROR_LIMIT);
    driver.fail("cuEventQuery", CUDA_ERROR_LAUNCH_FAILED, 1, true); // this may come from another context
    EXPECT_EQ(ferry_pinned_pool_alloc(faulty.get(), large, &address, nullptr), FERRY_ERROR_LIMIT);
    driver.fail("cuEventCreate", CUDA_ERROR_LAUNCH_FAILED, 1, true); // now this context is dead too: nothing runs there
    EXPECT_EQ(allocate(faulty, large), block);
    EXPECT_OK(ferry_pinned_pool_free(faulty.get(), block, nullptr));
}

TEST_F(pinned_pools, destroy_all_events_whatever_a_query_of_one_returns) {
    fault_driver driver(raw_entry_points());
    const auto trim = [](ferry_pinned_pool *of, ferry_error_info *error) {
        return ferry_pinned_pool_trim(of, 0, error);
    };
    const auto get_stats = [](ferry_pinned_pool *of, ferry_error_info *error) {
        ferry_pool_stats stats = {};
        stats.struct_size = sizeof stats;
        return ferry_pinned_pool_get_stats(of, &stats, error);
    };
    const auto allocate_once = [](ferry_pinned_pool *of, ferry_error_info *error) {
        void *block = nullptr;
        const std::int32_t status = ferry_pinned_pool_alloc(of, large, &block, error);
        EXPECT_OK(ferry_pinned_pool_free(of, block, nullptr));
        return status;
    };
    std::int32_t (*const calls[])(ferry_pinned_pool *, ferry_error_info *) = {
        trim, get_stats, ferry_pinned_pool_reset_stats, allocate_once, ferry_pinned_pool_destroy};
    for (const CUresult answer : {CUDA_ERROR_LAUNCH_FAILED, CUDA_ERROR_ILLEGAL_ADDRESS, CUDA_ERROR_UNKNOWN,
                                  CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_NOT_READY})
        for (const char *const entry : {"cuEventQuery", "cuEventSynchronize"})
            for (const auto &call : calls) {
                SCOPED_TRACE(testing::Message() << entry << " says " << answer << " in call " << &call - calls);
                counted_memory memory;
                ferry_options options = driver.options();
                memory.install(options);
                instance_owner instance = open_or_fail(options);
                driver.reset_counts();
                pool_owner asked = new_pool(instance.get());
                void *const blocks[] = {allocate(asked, large), allocate(asked, large), allocate(asked, large)};
                for (void *const block : blocks)
                    EXPECT_OK(
                        ferry_pinned_pool_free_async(asked.get(), block, block == blocks[2] ? second : first, nullptr));
                for (CUstream const stream : {first, second})
                    EXPECT_OK(raw().cuStreamSynchronize(stream));
                EXPECT_EQ(driver.calls("cuEventCreate"), 3);
                driver.fail(entry, answer);
                const bool destroys = call == ferry_pinned_pool_destroy;
                const std::int32_t status = call(destroys ? asked.release() : asked.get(), nullptr);
                EXPECT_TRUE(destroys || status == FERRY_SUCCESS) << ferry_status_name(status);
                driver.heal();
                asked.reset();
                EXPECT_EQ(driver.calls("cuEventDestroy"), driver.calls("cuEventCreate"));
                instance.reset();
                EXPECT_EQ(memory.bytes, 0u);
            }
}

TEST_F(pinned_pools, replace_events_that_ended_with_a_context) {
    fault_driver driver(raw_entry_points());
    const instance_owner instance = open_or_fail(driver.options());
    const pool_owner faulty = new_pool(instance.get(), large);
    const auto pass = [&](std::int32_t expected) {
        void *const block = allocate(faulty, large, first);
        const std::int32_t status = ferry_pinned_pool_free_async(faulty.get(), block, first, nullptr);
        EXPECT_STREQ(ferry_status_name(status), ferry_status_name(expected));
        EXPECT_EQ(ferry_pinned_pool_free(faulty.get(), block, nullptr), status ? FERRY_SUCCESS : FERRY_ERROR_ADDRESS);
        EXPECT_OK(raw().cuStreamSynchronize(first));
        stats_of(faulty); // makes passed blocks free and keeps their events
    };
    pass(FERRY_SUCCESS);
    driver.reset_counts();
    driver.fail("cuEventRecord", CUDA_ERROR_INVALID_HANDLE);
    pass(FERRY_SUCCESS);
    EXPECT_EQ(driver.calls("cuEventCreate"), 1);
    driver.fail("cuEventRecord", CUDA_ERROR_INVALID_HANDLE, 1, true);
    pass(FERRY_STATUS_DRIVER_BASE - CUDA_ERROR_INVALID_HANDLE);
    driver.heal();
    pass(FERRY_SUCCESS);
}

TEST_F(pinned_pools, do_not_touch_the_events_of_a_destroyed_context) {
    fault_driver driver(raw_entry_points());
    const instance_owner instance = open_or_fail(driver.options());
    if (!ferry_instance_get_proc(instance.get(), "cuCtxGetId", 12000)) GTEST_SKIP() << "contexts have no IDs";
    pool_owner counted = new_pool(instance.get(), large);
    const auto use_in_new_context = [&](int blocks_left_waiting) {
        CUcontext context = nullptr;
        ASSERT_OK(ferry_context_create(instance.get(), 0, 0, &context, nullptr));
        ASSERT_OK(ferry_context_push(instance.get(), 0, context, nullptr));
        CUstream stream = nullptr;
        ASSERT_OK(raw().cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        for (int i = 0; i < 2; ++i)
            EXPECT_OK(ferry_pinned_pool_free_async(counted.get(), allocate(counted, large, stream), stream, nullptr));
        EXPECT_OK(ferry_stream_synchronize(instance.get(), stream, nullptr));
        if (!blocks_left_waiting) stats_of(counted);
        EXPECT_OK(ferry_stream_destroy(instance.get(), stream, nullptr));
        EXPECT_OK(ferry_context_pop(instance.get(), &context, nullptr));
        EXPECT_OK(ferry_context_destroy(instance.get(), context, nullptr));
    };
    use_in_new_context(0);
    use_in_new_context(1);
    driver.reset_counts();
    counted.reset();
    EXPECT_EQ(driver.calls("cuEventDestroy"), 0);
    EXPECT_EQ(driver.calls("cuEventSynchronize"), 0);
}

TEST_F(pinned_pools, do_not_call_the_driver_without_a_stream) {
    fault_driver driver(raw_entry_points());
    const instance_owner instance = open_or_fail(driver.options());
    const pool_owner counted = new_pool(instance.get());
    for (const std::uint64_t size : {100, 5000, 1 << 20, 5 << 20}) {
        void *const block = allocate(counted, size);
        EXPECT_OK(ferry_pinned_pool_free(counted.get(), block, nullptr));
        driver.reset_counts();
        for (int i = 0; i < 10; ++i)
            EXPECT_OK(ferry_pinned_pool_free(counted.get(), allocate(counted, size), nullptr));
        EXPECT_EQ(driver.calls_beginning("cu"), 0);
    }
}

TEST_F(pinned_pools, do_not_treat_a_failed_record_as_proof_that_earlier_frees_have_completed) {
    fault_driver driver(raw_entry_points());
    const instance_owner instance = open_or_fail(driver.options());
    pool_owner small = new_pool(instance.get(), 2 * large);
    void *const old = allocate(small, large), *const late = allocate(small, large);
    void *taken = nullptr;
    {
        gate held(first);
        EXPECT_OK(ferry_pinned_pool_free_async(small.get(), old, first, nullptr));
        EXPECT_EQ(taken = allocate(small, large, second), old) << "it waits for the event of the free";
    }
    ASSERT_OK(raw().cuStreamSynchronize(second));
    {
        gate held(first);
        EXPECT_OK(ferry_pinned_pool_free_async(small.get(), late, first, nullptr));
        driver.fail("cuEventRecord", CUDA_ERROR_OUT_OF_MEMORY);
        EXPECT_EQ(ferry_pinned_pool_free_async(small.get(), taken, second, nullptr), out_of_device_memory);
        EXPECT_OK(ferry_pinned_pool_free(small.get(), taken, nullptr)); // its event was passed long ago
        EXPECT_EQ(taken = allocate(small, large), old);
        void *more = nullptr;
        EXPECT_EQ(ferry_pinned_pool_alloc(small.get(), large, &more, nullptr), FERRY_ERROR_LIMIT)
            << "its stream is blocked";
    }
    EXPECT_OK(ferry_pinned_pool_free(small.get(), taken, nullptr));
}

TEST_F(pinned_pools, query_one_event_for_all_the_blocks_before_it) {
    fault_driver driver(raw_entry_points());
    const instance_owner instance = open_or_fail(driver.options());
    pool_owner counted = new_pool(instance.get());
    constexpr int count = 16; // blocks of 2 MiB share no slab
    void *blocks[count];
    const auto allocate_all = [&] {
        for (void *&block : blocks)
            block = allocate(counted, 2 << 20);
    };
    const auto free_all = [&] {
        for (void *const block : blocks)
            EXPECT_OK(ferry_pinned_pool_free_async(counted.get(), block, first, nullptr));
    };
    allocate_all();
    free_all();
    ASSERT_OK(raw().cuStreamSynchronize(first));
    driver.reset_counts();
    allocate_all();
    EXPECT_EQ(driver.calls("cuEventQuery"), 1);
    EXPECT_EQ(stats_of(counted).reserved_current, count * (std::uint64_t{2} << 20));
    // Half of the blocks are behind the gate. One query shows that the others are free, and one more that these are
    // not.
    std::set<void *> passed(blocks, blocks + count / 2);
    for (int i = 0; i < count / 2; ++i)
        EXPECT_OK(ferry_pinned_pool_free_async(counted.get(), blocks[i], first, nullptr));
    ASSERT_OK(raw().cuStreamSynchronize(first));
    {
        gate held(first);
        for (int i = count / 2; i < count; ++i)
            EXPECT_OK(ferry_pinned_pool_free_async(counted.get(), blocks[i], first, nullptr));
        driver.reset_counts();
        for (int i = 0; i < count / 2; ++i)
            EXPECT_EQ(passed.erase(blocks[i] = allocate(counted, 2 << 20)), 1u);
        EXPECT_EQ(driver.calls("cuEventQuery"), 2);
    }
    for (int i = 0; i < count / 2; ++i)
        EXPECT_OK(ferry_pinned_pool_free(counted.get(), blocks[i], nullptr));
}

TEST_F(pinned_pools, do_not_grow_for_a_stream_that_is_blocked) {
    gate held(first);
    std::vector<void *> blocks;
    for (int i = 0; i < 20; ++i)
        blocks.push_back(allocate(pool, large));
    for (void *const block : blocks)
        free(block, first);
    for (int i = 0; i < 50; ++i) {
        free(allocate(pool, large), second);
        EXPECT_OK(raw().cuStreamSynchronize(second));
    }
    EXPECT_EQ(stats_of(pool).reserved_current, 21 * large);
}

// Each thread writes its own mark, copies it, and checks that the copy is whole. A block that two threads hold at the
// same time shows.
TEST_F(pinned_pools, serve_many_threads_and_streams_at_the_same_time) {
    constexpr int thread_count = 6, rounds = 150;
    const pool_owner shared = new_pool(basic.get(), 48 << 20);
    std::atomic<int> wrong = 0, limits = 0;
    const auto work = [&](int number) {
        const int device = number % device_count();
        CUstream_st *streams[2] = {};
        for (CUstream_st *&stream : streams)
            if (ferry_stream_create(basic.get(), device, FERRY_STREAM_NON_BLOCKING, 0, &stream, nullptr)) ++wrong;
        std::uint64_t memory = 0;
        if (ferry_device_alloc(basic.get(), device, 1 << 20, &memory, nullptr)) ++wrong;
        std::mt19937 random(static_cast<unsigned>(number));
        for (int round = 0; round < rounds; ++round) {
            const std::uint64_t size = 1 + random() % (random() % 4 ? 40000 : 1 << 20);
            CUstream_st *const stream = streams[random() % 2];
            const bool is_async = random() % 2, frees_async = random() % 3;
            void *block = nullptr;
            const std::int32_t status = is_async
                                            ? ferry_pinned_pool_alloc_async(shared.get(), size, stream, &block, nullptr)
                                            : ferry_pinned_pool_alloc(shared.get(), size, &block, nullptr);
            if (status == FERRY_ERROR_LIMIT) {
                ++limits;
                continue;
            }
            if (status) ++wrong;
            if (is_async && ferry_stream_synchronize(basic.get(), stream, nullptr)) ++wrong;
            const auto mark = static_cast<unsigned char>(random() % 256);
            std::memset(block, mark, size);
            const auto address = reinterpret_cast<std::uintptr_t>(block);
            if (ferry_copy_bytes_async(basic.get(), memory, address, size, nullptr, stream, nullptr, nullptr)) ++wrong;
            if (frees_async) {
                if (ferry_pinned_pool_free_async(shared.get(), block, stream, nullptr)) ++wrong;
                continue;
            }
            if (ferry_stream_synchronize(basic.get(), stream, nullptr)) ++wrong;
            const auto *const bytes = static_cast<unsigned char *>(block);
            if (bytes[0] != mark || bytes[size / 2] != mark || bytes[size - 1] != mark) ++wrong;
            if (ferry_pinned_pool_free(shared.get(), block, nullptr)) ++wrong;
            if (round % 50 == 49 && ferry_pinned_pool_trim(shared.get(), 1 << 20, nullptr)) ++wrong;
        }
        if (ferry_device_free(basic.get(), memory, nullptr)) ++wrong;
        for (CUstream_st *const stream : streams)
            if (ferry_stream_synchronize(basic.get(), stream, nullptr) ||
                ferry_stream_destroy(basic.get(), stream, nullptr))
                ++wrong;
    };
    std::vector<std::thread> threads;
    for (int number = 0; number < thread_count; ++number)
        threads.emplace_back(work, number);
    for (std::thread &thread : threads)
        thread.join();
    EXPECT_EQ(wrong, 0);
    EXPECT_LT(limits, thread_count * rounds);
    const ferry_pool_stats stats = stats_of(shared);
    EXPECT_EQ(stats.used_current, 0u);
    EXPECT_LE(stats.reserved_high, std::uint64_t{48} << 20);
}

TEST_F(pinned_pools, serve_streams_of_several_devices) {
    if (device_count() < 2) GTEST_SKIP() << "needs two devices";
    CUstream_st *far = nullptr;
    ASSERT_OK(ferry_stream_create(basic.get(), 1, FERRY_STREAM_NON_BLOCKING, 0, &far, nullptr));
    const pool_owner small = new_pool(basic.get(), large);
    void *const block = allocate(small, large, first);
    for (int round = 0; round < 10; ++round) {
        gate held(first);
        ASSERT_OK(ferry_pinned_pool_free_async(small.get(), block, first, nullptr));
        ASSERT_EQ(allocate(small, large, far), block);
        EXPECT_EQ(raw().cuStreamQuery(far), CUDA_ERROR_NOT_READY);
        held.open();
        ASSERT_OK(ferry_pinned_pool_free_async(small.get(), block, far, nullptr));
        ASSERT_EQ(allocate(small, large, first), block);
    }
    EXPECT_OK(ferry_pinned_pool_free(small.get(), block, nullptr));
    EXPECT_OK(ferry_stream_synchronize(basic.get(), far, nullptr));
    EXPECT_OK(ferry_stream_destroy(basic.get(), far, nullptr));
}

} // namespace
} // namespace ferry::test
