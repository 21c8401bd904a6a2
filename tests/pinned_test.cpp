// Pinned host memory and registrations: how blocks are allocated, what is tried when memory is short, and copies and
// fills that cross from one part of registered memory into the next.
#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <thread>

#include "support/fault_driver.h"
#include "support/how.h"
#include "support/huge_pages.h"
#include "support/raw_objects.h"
#include "support/system.h"
#include "support/test_place.h"
#include "system/pages.h"
#include "system/readable.h"

namespace ferry::test {
namespace {

const auto page = page_size(); // 64 KiB on some Arm systems
constexpr std::uint64_t huge_page = 2 << 20;
constexpr std::int32_t out_of_memory = FERRY_STATUS_DRIVER_BASE - CUDA_ERROR_OUT_OF_MEMORY;
constexpr std::int32_t invalid_value = FERRY_STATUS_DRIVER_BASE - CUDA_ERROR_INVALID_VALUE;

std::uint64_t number(const void *address) { return reinterpret_cast<std::uintptr_t>(address); }

ferry_host_options new_options() {
    ferry_host_options options = {};
    options.struct_size = sizeof options;
    return options;
}

ferry_host_block new_block() {
    ferry_host_block block = {};
    block.struct_size = sizeof block;
    return block;
}

ferry_address_info ask(ferry_instance *instance, const void *address) {
    ferry_address_info info = {};
    info.struct_size = sizeof info;
    EXPECT_OK(ferry_address_get_info(instance, number(address), &info, nullptr));
    return info;
}

// Counts the memory of the instance, and fails on demand.
struct counted_memory {
    std::int64_t held = 0;
    int left = -1; // successful allocations left; below 0: no limit

    void set(ferry_options &options) {
        options.allocate_user = this;
        options.allocate = [](void *self, std::uint64_t size, std::uint64_t alignment) -> void * {
            auto &memory = *static_cast<counted_memory *>(self);
            if (memory.left == 0) return nullptr;
            if (memory.left > 0) --memory.left;
            memory.held += static_cast<std::int64_t>(size);
            return allocate_aligned(size, alignment);
        };
        options.deallocate = [](void *self, void *memory, std::uint64_t size) {
            static_cast<counted_memory *>(self)->held -= static_cast<std::int64_t>(size);
            free_aligned(memory);
        };
    }
};

class pinned : public ferry_test {
protected:
    void SetUp() override {
        ferry_test::SetUp();
        ferry_options options = driver.options();
        memory.set(options);
        counted = open_or_fail(options);
        options.checks = FERRY_CHECKS_FULL;
        counted_full = open_or_fail(options);
        driver.reset_counts();
        for (int device = 0; device < device_count(); ++device) {
            ferry_device_info info = {};
            info.struct_size = sizeof info;
            EXPECT_OK(ferry_device_get_info(basic.get(), device, &info, nullptr));
            is_mapped_by_ferry &= info.host_register && info.registered_address_is_device_address;
        }
    }
    void TearDown() override {
        driver.heal();
        counted.reset();
        counted_full.reset();
        EXPECT_EQ(memory.held, 0);
        ferry_test::TearDown();
    }

    // Allocates a block through the counted instance.
    std::int32_t allocate(std::uint64_t size, const ferry_host_options &options, ferry_host_block &block) {
        block = new_block();
        ferry_error_info error = new_error();
        const std::int32_t status = ferry_host_alloc(counted.get(), size, &options, &block, &error);
        EXPECT_EQ(error.status, status);
        return status;
    }
    // Copies every byte to the device and back.
    void expect_usable(ferry_instance *instance, void *address, std::uint64_t size) {
        const bytes told = random_bytes(size, size);
        std::memcpy(address, told.data(), size);
        device_memory there(size);
        EXPECT_OK(ferry_copy_bytes(instance, there, number(address), size, nullptr, nullptr));
        std::memset(address, 0, size);
        EXPECT_OK(ferry_copy_bytes(instance, number(address), there, size, nullptr, nullptr));
        EXPECT_EQ(std::memcmp(address, told.data(), size), 0);
    }

    counted_memory memory;
    fault_driver driver{raw_entry_points()};
    instance_owner counted, counted_full;
    bool is_mapped_by_ferry = true;
};

// ---- Blocks ----------------------------------------------------------------------------------------------------

TEST_F(pinned, blocks_of_every_size_are_aligned_usable_and_end_at_the_requested_size) {
    for (const std::uint64_t size : {std::uint64_t{1}, page - 1, page, 3 * page + 5, huge_page - 1, huge_page,
                                     5 * huge_page + page + 7, 40 * huge_page}) {
        SCOPED_TRACE(size);
        void *address = nullptr;
        ASSERT_OK(allocate_pinned(counted.get(), size, 0, &address));
        const bool is_huge = has_huge_pages && is_mapped_by_ferry && size >= huge_page;
        EXPECT_EQ(number(address) % (is_huge ? huge_page : page), 0u);
        const ferry_address_info info = ask(counted.get(), address);
        EXPECT_EQ(info.memory, FERRY_MEMORY_PINNED);
        EXPECT_EQ(info.range_start, number(address));
        EXPECT_EQ(info.range_size, size);
        EXPECT_EQ(info.device_address, number(address));
        expect_usable(counted.get(), address, size);
        ASSERT_OK(ferry_host_free(counted.get(), address, nullptr));
        EXPECT_EQ(ask(counted.get(), address).memory, FERRY_MEMORY_PAGEABLE) << "no part of it is left pinned";
    }
}

TEST_F(pinned, flags_choose_who_allocates) {
    struct {
        std::uint32_t flags;
        bool by_driver;
    } const rows[] = {{0, false},
                      {FERRY_HOST_NOT_PORTABLE, false},
                      {FERRY_HOST_NOT_MAPPED, false},
                      {FERRY_HOST_ALLOW_SMALLER | FERRY_HOST_ALLOW_PAGEABLE, false},
                      {FERRY_HOST_SHARED, false},
                      {FERRY_HOST_BY_DRIVER, true},
                      {FERRY_HOST_WRITE_COMBINED, true},
                      {FERRY_HOST_WRITE_COMBINED | FERRY_HOST_NOT_PORTABLE | FERRY_HOST_NOT_MAPPED, true}};
    for (const auto &row : rows) {
        SCOPED_TRACE(row.flags);
        ferry_host_options options = new_options();
        options.flags = row.flags;
        ferry_host_block block;
        const int by_driver = driver.calls("cuMemHostAlloc");
        ASSERT_OK(allocate(3 * page, options, block));
        const bool is_drivers = row.by_driver || !is_mapped_by_ferry;
        EXPECT_EQ(block.origin, is_drivers ? FERRY_HOST_FROM_DRIVER : FERRY_HOST_FROM_MAPPING);
        EXPECT_EQ(driver.calls("cuMemHostAlloc") - by_driver, is_drivers);
        EXPECT_EQ(block.memory, FERRY_MEMORY_PINNED);
        EXPECT_EQ(block.size, 3 * page);
        if (row.flags == FERRY_HOST_WRITE_COMBINED) {
            unsigned flags = 0;
            EXPECT_OK(raw().cuMemHostGetFlags(&flags, block.address));
            EXPECT_TRUE(flags & CU_MEMHOSTALLOC_WRITECOMBINED);
        }
        // The driver's own free takes it too.
        if (is_drivers) {
            EXPECT_OK(raw().cuMemFreeHost(block.address));
        } else {
            EXPECT_OK(ferry_host_free(counted.get(), block.address, nullptr));
        }
    }
}

TEST_F(pinned, the_child_of_a_fork_shares_shared_blocks) {
    FERRY_NEEDS_FORK();
    for (const std::uint64_t size : {page, 3 * huge_page + page, 40 * huge_page + 5}) {
        SCOPED_TRACE(size);
        ferry_host_options options = new_options();
        options.flags = FERRY_HOST_SHARED;
        ferry_host_block block;
        ASSERT_OK(allocate(size, options, block));
        expect_usable(counted.get(), block.address, size);
        auto *const bytes = static_cast<unsigned char *>(block.address);
        bytes[0] = 1, bytes[size - 1] = 2;
        const int read = run_in_child([&] {
            const int found = bytes[0] * 16 + bytes[size - 1];
            bytes[0] = 3;
            return found;
        });
        EXPECT_EQ(read, 0x12);
        EXPECT_EQ(bytes[0], 3);
        EXPECT_OK(ferry_host_free(counted.get(), block.address, nullptr));
    }
}

TEST_F(pinned, shared_blocks_are_in_huge_pages_if_the_system_can_collapse_shared_memory) {
    if (!can_share_huge_pages() || !is_mapped_by_ferry) GTEST_SKIP() << "shared memory has small pages here";
    for (const std::uint64_t pages : {1, 3, 40}) {
        SCOPED_TRACE(pages);
        ferry_host_options options = new_options();
        options.flags = FERRY_HOST_SHARED;
        ferry_host_block block;
        ASSERT_OK(allocate(pages * huge_page + page, options, block));
        EXPECT_GE(huge_pages_of(block.address, block.size).bytes, pages * huge_page / 4 * 3);
        const auto *const bytes = static_cast<const unsigned char *>(block.address);
        EXPECT_TRUE(std::all_of(bytes, bytes + block.size, [](unsigned char byte) { return byte == 0; }));
        expect_usable(counted.get(), block.address, block.size);
        EXPECT_OK(ferry_host_free(counted.get(), block.address, nullptr));
    }
}

TEST_F(pinned, a_freed_block_leaves_no_pages_behind) {
    if (!is_mapped_by_ferry) GTEST_SKIP() << "the driver always allocates here";
    for (const std::uint32_t flags : {0U, FERRY_HOST_SHARED}) {
        for (const std::uint64_t size : {page, 3 * huge_page + page, 40 * huge_page + 5}) {
            SCOPED_TRACE(size);
            ferry_host_options options = new_options();
            options.flags = flags;
            ferry_host_block block;
            ASSERT_OK(allocate(size, options, block));
            const std::uint64_t first = number(block.address), last = first + size - 1;
            EXPECT_TRUE(host_range_is_readable(first, last));
            EXPECT_OK(ferry_host_free(counted.get(), block.address, nullptr));
            for (std::uint64_t at = first; at <= last; at += page)
                ASSERT_FALSE(host_range_is_readable(at, at)) << at - first;
        }
    }
}

TEST_F(pinned, wrong_options_are_named) {
    const auto expect = [&](std::uint64_t size, auto change, std::int32_t status, std::int32_t side,
                            std::int32_t field) {
        ferry_host_options options = new_options();
        change(options);
        ferry_host_block block = new_block(), untouched = block;
        ferry_error_info error = new_error();
        const std::int32_t returned = ferry_host_alloc(counted.get(), size, &options, &block, &error);
        expect_refusal(returned, error, status, side, field);
        EXPECT_EQ(std::memcmp(&block, &untouched, sizeof block), 0);
    };
    using options = ferry_host_options;
    expect(
        0, [](options &) {}, FERRY_ERROR_INVALID_ARGUMENT, FERRY_SIDE_NONE, FERRY_FIELD_SIZE);
    expect(
        1, [](options &o) { o.flags = 128; }, FERRY_ERROR_FLAGS, FERRY_SIDE_OPTIONS, FERRY_FIELD_FLAGS);
    expect(
        1, [](options &o) { o.threads = 65; }, FERRY_ERROR_INVALID_ARGUMENT, FERRY_SIDE_OPTIONS, FERRY_FIELD_THREADS);
    for (const std::int32_t numa : {-1, 3})
        expect(
            1, [=](options &o) { o.numa = numa; }, FERRY_ERROR_INVALID_ARGUMENT, FERRY_SIDE_OPTIONS, FERRY_FIELD_NUMA);
    for (const std::int32_t device : {-1, device_count()})
        expect(
            1, [=](options &o) { o.numa = FERRY_NUMA_DEVICE, o.device = device; }, FERRY_ERROR_DEVICE,
            FERRY_SIDE_OPTIONS, FERRY_FIELD_DEVICE);
    for (const std::int32_t node : {-1, INT32_MAX})
        expect(
            1, [=](options &o) { o.numa = FERRY_NUMA_NODE, o.numa_node = node; }, FERRY_ERROR_INVALID_ARGUMENT,
            FERRY_SIDE_OPTIONS, FERRY_FIELD_NUMA_NODE);
    for (const std::uint32_t size : {7u, 5000u})
        expect(
            1, [=](options &o) { o.struct_size = size; }, FERRY_ERROR_ABI_MISMATCH, FERRY_SIDE_OPTIONS,
            FERRY_FIELD_STRUCT_SIZE);
    ferry_host_block block = new_block();
    block.struct_size = 3;
    EXPECT_EQ(ferry_host_alloc(counted.get(), 1, nullptr, &block, nullptr), FERRY_ERROR_ABI_MISMATCH);
    EXPECT_EQ(ferry_host_alloc(counted.get(), 1, nullptr, nullptr, nullptr), FERRY_ERROR_INVALID_ARGUMENT);
    block = new_block();
    EXPECT_EQ(ferry_host_alloc(nullptr, 1, nullptr, &block, nullptr), FERRY_ERROR_INVALID_ARGUMENT);
    void *address = &block;
    EXPECT_EQ(allocate_pinned(counted.get(), 1, 128u, &address), FERRY_ERROR_FLAGS);
    EXPECT_EQ(address, nullptr);
    EXPECT_EQ(driver.calls("cuMemHostAlloc") + driver.calls("cuMemHostRegister"), 0);
}

TEST_F(pinned, the_block_struct_is_filled_up_to_the_callers_size_and_options_are_optional) {
    ferry_host_block block = new_block();
    block.struct_size = offsetof(ferry_host_block, size); // a caller could do nothing without the address and the size
    EXPECT_EQ(ferry_host_alloc(basic.get(), 4096, nullptr, &block, nullptr), FERRY_ERROR_ABI_MISMATCH);
    block.struct_size = offsetof(ferry_host_block, origin);
    block.origin = 77;
    ASSERT_OK(ferry_host_alloc(counted.get(), page, nullptr, &block, nullptr));
    EXPECT_EQ(block.size, page);
    EXPECT_EQ(block.origin, 77);
    EXPECT_OK(ferry_host_free(counted.get(), block.address, nullptr));
}

TEST_F(pinned, any_number_of_threads_can_touch_the_pages) {
    for (const std::uint32_t threads : {0u, 1u, 2u, 3u, 64u})
        for (const std::uint64_t size : {page, 100 * page + 1, 3 * huge_page + 5}) {
            ferry_host_options options = new_options();
            options.threads = threads;
            options.flags = FERRY_HOST_ALLOW_PAGEABLE;
            ferry_host_block block;
            ASSERT_OK(allocate(size, options, block));
            EXPECT_EQ(block.memory, FERRY_MEMORY_PINNED);
            if (block.origin == FERRY_HOST_FROM_MAPPING) {
                const bytes all(static_cast<std::byte *>(block.address),
                                static_cast<std::byte *>(block.address) + size);
                EXPECT_EQ(all, bytes(size));
            }
            expect_usable(counted.get(), block.address, size);
            ASSERT_OK(ferry_host_free(counted.get(), block.address, nullptr));
        }
}

TEST_F(pinned, a_block_is_on_the_requested_node_if_the_system_reports_nodes) {
    ferry_device_info info = {};
    info.struct_size = sizeof info;
    ASSERT_OK(ferry_device_get_info(counted.get(), 0, &info, nullptr));
    for (const std::int32_t numa : {FERRY_NUMA_ANY, FERRY_NUMA_DEVICE, FERRY_NUMA_NODE}) {
        ferry_host_options options = new_options();
        options.numa = numa;
        ferry_host_block block;
        ASSERT_OK(allocate(3 * huge_page, options, block));
        const bool has_known_node = block.origin == FERRY_HOST_FROM_MAPPING && block.numa_node >= 0;
        EXPECT_TRUE(!has_known_node || numa != FERRY_NUMA_NODE || block.numa_node == 0) << block.numa_node;
        EXPECT_TRUE(!has_known_node || numa != FERRY_NUMA_DEVICE || info.numa_node < 0 ||
                    block.numa_node == info.numa_node)
            << block.numa_node << " instead of " << info.numa_node;
        EXPECT_OK(ferry_host_free(counted.get(), block.address, nullptr));
    }
}

// ---- When memory is short --------------------------------------------------------------------------------------

TEST_F(pinned, where_registering_fails_the_driver_allocates) {
    if (!is_mapped_by_ferry) GTEST_SKIP() << "the driver always does here";
    driver.fail("cuMemHostRegister", CUDA_ERROR_OUT_OF_MEMORY);
    ferry_host_block block;
    ASSERT_OK(allocate(10 * page, new_options(), block));
    EXPECT_EQ(block.origin, FERRY_HOST_FROM_DRIVER);
    EXPECT_EQ(block.size, 10 * page);
    expect_usable(counted.get(), block.address, block.size);
    EXPECT_OK(ferry_host_free(counted.get(), block.address, nullptr));
}

TEST_F(pinned, a_smaller_block_is_taken_only_if_allowed_and_within_the_allowed_size) {
    const std::uint64_t size = 64 * page;
    struct {
        std::uint32_t flags;
        std::uint64_t min_size;
        int tries; // of the driver to allocate
    } const rows[] = {{0, 0, 1},
                      {0, page, 1},
                      {FERRY_HOST_ALLOW_SMALLER, 0, 7}, // 64 pages down to 1
                      {FERRY_HOST_ALLOW_SMALLER, 16 * page, 3},
                      {FERRY_HOST_ALLOW_SMALLER, 17 * page, 3}, // 64, 32, 17
                      {FERRY_HOST_ALLOW_SMALLER, size, 1},
                      {FERRY_HOST_ALLOW_SMALLER, 2 * size, 1}};
    for (const auto &row : rows) {
        SCOPED_TRACE(testing::Message() << row.flags << ", at least " << row.min_size);
        ferry_host_options options = new_options();
        options.flags = row.flags;
        options.min_size = row.min_size;
        ferry_host_block block;
        driver.fail("cuMemHostRegister", CUDA_ERROR_OUT_OF_MEMORY, 1, true);
        driver.fail("cuMemHostAlloc", CUDA_ERROR_OUT_OF_MEMORY, 1, true);
        const int allocations = driver.calls("cuMemHostAlloc");
        EXPECT_EQ(allocate(size, options, block), out_of_memory);
        EXPECT_EQ(block.address, nullptr);
        EXPECT_EQ(driver.calls("cuMemHostAlloc") - allocations, row.tries);
        driver.heal();
    }
    // The block of the second try is used.
    ferry_host_options options = new_options();
    options.flags = FERRY_HOST_ALLOW_SMALLER | FERRY_HOST_ALLOW_PAGEABLE | FERRY_HOST_BY_DRIVER;
    for (const auto &[least, expected] : {std::pair{std::uint64_t{0}, size / 2}, {size - page, size - page}}) {
        options.min_size = least;
        driver.fail("cuMemHostAlloc", CUDA_ERROR_OUT_OF_MEMORY);
        ferry_host_block block;
        ASSERT_OK(allocate(size, options, block));
        EXPECT_EQ(block.size, expected);
        EXPECT_EQ(block.memory, FERRY_MEMORY_PINNED);
        expect_usable(counted.get(), block.address, block.size);
        EXPECT_OK(ferry_host_free(counted.get(), block.address, nullptr));
    }
}

TEST_F(pinned, pageable_memory_is_the_last_resort_and_freed_like_the_rest) {
    for (const std::uint32_t smaller : {0u, FERRY_HOST_ALLOW_SMALLER}) {
        ferry_host_options options = new_options();
        options.flags = FERRY_HOST_ALLOW_PAGEABLE | smaller;
        driver.fail("cuMemHostRegister", CUDA_ERROR_OUT_OF_MEMORY, 1, true);
        driver.fail("cuMemHostAlloc", CUDA_ERROR_OUT_OF_MEMORY, 1, true);
        driver.reset_counts();
        ferry_host_block block;
        ASSERT_OK(allocate(huge_page + 5, options, block));
        driver.heal();
        EXPECT_EQ(driver.calls("cuMemHostAlloc") > 1, smaller != 0);
        driver.reset_counts();
        EXPECT_EQ(block.memory, FERRY_MEMORY_PAGEABLE);
        EXPECT_EQ(block.origin, FERRY_HOST_FROM_SYSTEM);
        EXPECT_EQ(block.size, huge_page + 5);
        EXPECT_EQ(ask(counted.get(), block.address).memory, FERRY_MEMORY_PAGEABLE);
        expect_usable(counted.get(), block.address, block.size);
        // The program may register it like other memory of the process.
        EXPECT_OK(ferry_host_register(counted.get(), block.address, block.size, 0, nullptr));
        EXPECT_EQ(ferry_host_free(counted.get(), block.address, nullptr), FERRY_ERROR_ADDRESS);
        EXPECT_OK(ferry_host_unregister(counted.get(), block.address, nullptr));
        EXPECT_OK(ferry_host_free(counted.get(), block.address, nullptr));
        EXPECT_EQ(driver.calls("cuMemFreeHost"), 0);
    }
}

TEST_F(pinned, no_fallback_is_tried_once_the_context_is_dead) {
    ferry_host_options options = new_options();
    options.flags = FERRY_HOST_ALLOW_SMALLER | FERRY_HOST_ALLOW_PAGEABLE;
    const std::int32_t dead = FERRY_STATUS_DRIVER_BASE - CUDA_ERROR_ILLEGAL_ADDRESS;
    ferry_host_block block;
    if (is_mapped_by_ferry) {
        driver.fail("cuMemHostRegister", CUDA_ERROR_ILLEGAL_ADDRESS);
        EXPECT_EQ(allocate(8 * page, options, block), dead);
        EXPECT_EQ(driver.calls("cuMemHostAlloc"), 0);
        driver.reset_counts();
        driver.fail("cuMemHostRegister", CUDA_ERROR_OUT_OF_MEMORY);
    }
    driver.fail("cuMemHostAlloc", CUDA_ERROR_ILLEGAL_ADDRESS);
    EXPECT_EQ(allocate(8 * page, options, block), dead);
    EXPECT_EQ(driver.calls("cuMemHostAlloc"), 1);
    EXPECT_EQ(block.address, nullptr);
}

TEST_F(pinned, without_memory_for_the_record_there_is_no_block_and_no_registration) {
    memory.left = 0;
    void *address = nullptr;
    if (is_mapped_by_ferry) {
        EXPECT_EQ(allocate_pinned(counted.get(), page, 0, &address), FERRY_ERROR_OUT_OF_MEMORY);
        EXPECT_EQ(address, nullptr);
    }
    mapped_memory own(4 * page);
    EXPECT_EQ(ferry_host_register(counted.get(), own.data(), own.size(), 0, nullptr), FERRY_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(ask(counted.get(), own.data()).memory, FERRY_MEMORY_PAGEABLE);
    memory.left = -1;
}

TEST_F(pinned, whichever_driver_call_fails_its_status_is_returned_and_nothing_leaks) {
    mapped_memory own(4 * page);
    void *kept = nullptr;
    ASSERT_OK(allocate_pinned(counted.get(), page, 0, &kept));
    for (const char *const entry : {"cuCtxGetCurrent", "cuThreadExchangeStreamCaptureMode", "cuMemHostAlloc",
                                    "cuMemFreeHost", "cuMemHostRegister", "cuMemHostUnregister"})
        for (int nth = 1; nth <= 3; ++nth)
            for (const std::uint32_t flags : {0u, FERRY_HOST_BY_DRIVER}) {
                SCOPED_TRACE(testing::Message() << entry << ", call " << nth << ", flags " << flags);
                driver.reset_counts();
                driver.fail(entry, CUDA_ERROR_OPERATING_SYSTEM, nth);
                const auto expect_fault_or_success = [&](std::int32_t status) {
                    EXPECT_TRUE(status == FERRY_STATUS_DRIVER_BASE - CUDA_ERROR_OPERATING_SYSTEM || is_success(status));
                    CUcontext current = nullptr;
                    EXPECT_OK(raw().cuCtxGetCurrent(&current));
                    EXPECT_EQ(current, context);
                    return status == FERRY_SUCCESS;
                };
                void *address = nullptr;
                if (expect_fault_or_success(allocate_pinned(counted.get(), 2 * page, flags, &address))) {
                    if (!expect_fault_or_success(
                            ferry_host_free(counted.get(), address, nullptr))) { // the caller still owns it
                        EXPECT_OK(ferry_host_free(counted.get(), address, nullptr));
                    }
                } else {
                    EXPECT_EQ(address, nullptr);
                }
                if (expect_fault_or_success(ferry_host_register(counted.get(), own.data(), own.size(), 0, nullptr)) &&
                    !expect_fault_or_success(ferry_host_unregister(counted.get(), own.data(), nullptr)) &&
                    ask(basic.get(), own.data()).memory == FERRY_MEMORY_PINNED) { // the call did not reach the driver
                    EXPECT_OK(ferry_host_unregister(counted.get(), own.data(), nullptr));
                }
                driver.heal();
                EXPECT_EQ(ask(basic.get(), own.data()).memory, FERRY_MEMORY_PAGEABLE);
                const auto met = [&](const char *which) { return std::string(which) == entry; };
                const auto faults = [&](const char *which) { return met(which) && driver.calls(which) >= nth; };
                EXPECT_EQ(driver.calls("cuMemHostAlloc") - faults("cuMemHostAlloc"),
                          driver.calls("cuMemFreeHost") - faults("cuMemFreeHost"));
                EXPECT_EQ(driver.calls("cuMemHostRegister") - faults("cuMemHostRegister"),
                          driver.calls("cuMemHostUnregister") - faults("cuMemHostUnregister"));
                EXPECT_EQ(ask(basic.get(), kept).memory, FERRY_MEMORY_PINNED);
            }
    EXPECT_OK(ferry_host_free(counted.get(), kept, nullptr));
}

// ---- Freeing ---------------------------------------------------------------------------------------------------

TEST_F(pinned, invalid_frees_are_refused_without_side_effects) {
    EXPECT_OK(ferry_host_free(counted.get(), nullptr, nullptr));
    EXPECT_EQ(ferry_host_free(nullptr, nullptr, nullptr), FERRY_ERROR_INVALID_ARGUMENT);
    void *block = nullptr;
    ASSERT_OK(allocate_pinned(counted.get(), 2 * page, 0, &block));
    mapped_memory own(2 * page);
    ASSERT_OK(ferry_host_register(counted.get(), own.data(), own.size(), 0, nullptr));
    EXPECT_EQ(ferry_host_free(counted.get(), own.data(), nullptr), FERRY_ERROR_ADDRESS)
        << "it is registered, not allocated";
    EXPECT_EQ(ferry_host_free(counted.get(), own.data() + page, nullptr), FERRY_ERROR_ADDRESS);
    if (is_mapped_by_ferry) { // then it is ferry's registration
        EXPECT_EQ(ferry_host_unregister(counted.get(), block, nullptr), FERRY_ERROR_ADDRESS);
    }
    int unknown = 0;
    EXPECT_NE(ferry_host_free(counted.get(), static_cast<std::byte *>(block) + page, nullptr), FERRY_SUCCESS);
    EXPECT_NE(ferry_host_free(counted.get(), &unknown, nullptr), FERRY_SUCCESS);
    EXPECT_NE(ferry_host_unregister(counted.get(), &unknown, nullptr), FERRY_SUCCESS);
    EXPECT_NE(ferry_host_unregister(counted.get(), own.data() + page, nullptr), FERRY_SUCCESS) << "not where it begins";
    expect_usable(counted.get(), block, 2 * page);
    expect_usable(counted.get(), own.data(), own.size());
    EXPECT_OK(ferry_host_unregister(counted.get(), own.data(), nullptr));
    EXPECT_EQ(ferry_host_unregister(counted.get(), own.data(), nullptr),
              FERRY_STATUS_DRIVER_BASE - CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    EXPECT_OK(ferry_host_free(counted.get(), block, nullptr));
    EXPECT_EQ(ferry_host_free(counted.get(), block, nullptr), invalid_value) << "already freed";
}

TEST_F(pinned, memory_of_the_drivers_own_calls_can_be_freed_and_unregistered_too) {
    void *allocated = nullptr;
    ASSERT_OK(raw().cuMemHostAlloc(&allocated, page, 0));
    EXPECT_OK(ferry_host_free(counted.get(), allocated, nullptr));
    mapped_memory own(page);
    ASSERT_OK(raw().cuMemHostRegister(own.data(), own.size(), 0));
    EXPECT_OK(ferry_host_unregister(counted.get(), own.data(), nullptr));
    EXPECT_EQ(ask(basic.get(), own.data()).memory, FERRY_MEMORY_PAGEABLE);
}

TEST_F(pinned, a_block_outlives_the_context_it_was_pinned_in_and_can_still_be_freed) {
    CUcontext own = nullptr;
    ASSERT_OK(ferry_context_create(counted.get(), 0, 0, &own, nullptr));
    ASSERT_OK(raw().cuCtxPushCurrent(own));
    ferry_host_block block;
    ASSERT_OK(allocate(2 * page, new_options(), block));
    mapped_memory pages(2 * page);
    ASSERT_OK(ferry_host_register(counted.get(), pages.data(), pages.size(), 0, nullptr));
    ASSERT_OK(raw().cuCtxPopCurrent(nullptr));
    ASSERT_OK(ferry_context_destroy(counted.get(), own, nullptr));
    if (block.origin == FERRY_HOST_FROM_MAPPING) {
        EXPECT_EQ(ask(counted.get(), block.address).memory, FERRY_MEMORY_PAGEABLE);
        EXPECT_OK(ferry_host_free(counted.get(), block.address, nullptr));
    }
    // A range whose registration ended with its context can be registered again and is then reported as it is now.
    ASSERT_OK(ferry_host_register(counted.get(), pages.data() + page, page, 0, nullptr));
    EXPECT_EQ(ask(counted.get(), pages.data() + page).range_size, page);
    EXPECT_EQ(ask(counted.get(), pages.data()).memory, FERRY_MEMORY_PAGEABLE);
    EXPECT_OK(ferry_host_unregister(counted.get(), pages.data() + page, nullptr));
}

TEST_F(pinned, many_threads_allocate_and_free_blocks) {
    std::vector<std::thread> threads;
    for (unsigned thread = 0; thread < 4; ++thread)
        threads.emplace_back([this, thread] {
            for (unsigned round = 0; round < 30; ++round) {
                void *blocks[3] = {};
                for (void *&block : blocks)
                    ASSERT_OK(allocate_pinned(basic.get(), page * (1 + thread), round % 3 ? 0 : FERRY_HOST_BY_DRIVER,
                                              &block));
                for (void *const block : blocks) {
                    std::memset(block, static_cast<int>(thread), page * (1 + thread));
                    ASSERT_OK(ferry_host_free(basic.get(), block, nullptr));
                }
            }
        });
    for (std::thread &thread : threads)
        thread.join();
}

TEST_F(pinned, captures_on_other_streams_are_left_alone) {
    test_stream stream;
    mapped_memory own(2 * page);
    ASSERT_OK(raw().cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    for (const std::uint32_t flags : {0u, FERRY_HOST_BY_DRIVER}) {
        void *block = nullptr;
        EXPECT_OK(allocate_pinned(counted.get(), page, flags, &block));
        EXPECT_OK(ferry_host_free(counted.get(), block, nullptr));
    }
    EXPECT_OK(ferry_host_register(counted.get(), own.data(), own.size(), 0, nullptr));
    EXPECT_OK(ferry_host_unregister(counted.get(), own.data(), nullptr));
    CUgraph graph = nullptr;
    ASSERT_OK(raw().cuStreamEndCapture(stream, &graph));
    EXPECT_OK(raw().cuGraphDestroy(graph));
}

// ---- Registrations in pieces -----------------------------------------------------------------------------------

// An instance that registers at most about one page per driver call.
class pieces : public ferry_test {
protected:
    void SetUp() override {
        ferry_test::SetUp();
        ferry_options options = driver.options();
        options.register_chunk = page;
        counts.set(options);
        one_page = open_or_fail(options);
        options.checks = FERRY_CHECKS_FULL;
        one_page_full = open_or_fail(options);
    }
    void TearDown() override {
        driver.heal();
        one_page.reset();
        one_page_full.reset();
        EXPECT_EQ(counts.held, 0);
        ferry_test::TearDown();
    }

    counted_memory counts;
    fault_driver driver{raw_entry_points()};
    instance_owner one_page, one_page_full;
};

TEST_F(pieces, the_chunk_must_be_a_multiple_of_the_page) {
    for (const std::uint64_t chunk : {std::uint64_t{1}, page - 1, page + 512, UINT64_MAX}) {
        ferry_options options = options_under_test();
        options.register_chunk = chunk;
        ferry_instance *opened = nullptr;
        ferry_error_info error = new_error();
        expect_refusal(ferry_open(&options, &opened, &error), error, FERRY_ERROR_INVALID_ARGUMENT, FERRY_SIDE_OPTIONS,
                       FERRY_FIELD_REGISTER_CHUNK);
        EXPECT_EQ(error.value, chunk);
    }
}

TEST_F(pieces, a_registration_in_pieces_looks_like_one_to_the_caller) {
    mapped_memory own(6 * page);
    for (const std::uint64_t lead : {std::uint64_t{0}, std::uint64_t{100}}) {
        driver.reset_counts();
        const std::uint64_t size = 5 * page - 50;
        ASSERT_OK(ferry_host_register(one_page.get(), own.data() + lead, size, 0, nullptr));
        const int count = lead ? 6 : 5;
        EXPECT_EQ(driver.calls("cuMemHostRegister"), count);
        for (const std::uint64_t offset : {lead, lead + page, lead + size - 1}) {
            const ferry_address_info info = ask(one_page.get(), own.data() + offset);
            EXPECT_EQ(info.memory, FERRY_MEMORY_PINNED);
            EXPECT_EQ(info.range_start, number(own.data()) + lead);
            EXPECT_EQ(info.range_size, size);
        }
        EXPECT_LE(ask(basic.get(), own.data() + page).range_size, page) << "the driver got single pages";
        EXPECT_EQ(ask(one_page.get(), own.data() + lead + size).memory, FERRY_MEMORY_PAGEABLE);
        EXPECT_EQ(ferry_host_register(one_page.get(), own.data() + 2 * page, page, 0, nullptr),
                  FERRY_STATUS_DRIVER_BASE - CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
        ASSERT_OK(ferry_host_unregister(one_page.get(), own.data() + lead, nullptr));
        EXPECT_EQ(driver.calls("cuMemHostUnregister"), count);
        for (std::uint64_t offset = 0; offset < own.size(); offset += page / 2)
            EXPECT_EQ(ask(basic.get(), own.data() + offset).memory, FERRY_MEMORY_PAGEABLE);
    }
    ferry_error_info error = new_error();
    expect_refusal(ferry_host_register(one_page.get(), own.data(), UINT64_MAX, 0, &error), error, FERRY_ERROR_OVERFLOW,
                   FERRY_SIDE_NONE, FERRY_FIELD_SIZE);
}

TEST_F(pieces, all_pieces_are_registered_or_none) {
    mapped_memory own(8 * page);
    // Another registration, which must stay.
    ASSERT_OK(ferry_host_register(one_page.get(), own.data(), 2 * page, 0, nullptr));
    const auto expect_nothing_registered = [&] {
        for (std::uint64_t at = 2; at < 8; ++at)
            EXPECT_EQ(ask(basic.get(), own.data() + at * page).memory, FERRY_MEMORY_PAGEABLE);
        EXPECT_EQ(ask(one_page.get(), own.data() + page).range_size, 2 * page);
    };
    for (int nth = 1; nth <= 6; ++nth) {
        driver.reset_counts();
        driver.fail("cuMemHostRegister", CUDA_ERROR_OUT_OF_MEMORY, nth);
        EXPECT_EQ(ferry_host_register(one_page.get(), own.data() + 2 * page, 6 * page, 0, nullptr), out_of_memory);
        EXPECT_EQ(driver.calls("cuMemHostUnregister"), nth - 1);
        expect_nothing_registered();
    }
    // One of the six pages is registered already.
    ASSERT_OK(raw().cuMemHostRegister(own.data() + 6 * page, page, 0));
    EXPECT_EQ(ferry_host_register(one_page.get(), own.data() + 2 * page, 6 * page, 0, nullptr),
              FERRY_STATUS_DRIVER_BASE - CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    ASSERT_OK(raw().cuMemHostUnregister(own.data() + 6 * page));
    expect_nothing_registered();
    std::vector<std::uint64_t> held; // registered until the list cannot grow any more
    mapped_memory others(32 * page);
    counts.left = 0;
    std::int32_t status = FERRY_SUCCESS;
    for (std::uint64_t at = 0; at < others.size() && status == FERRY_SUCCESS; at += page) {
        status = ferry_host_register(one_page.get(), others.data() + at, page, 0, nullptr);
        if (status == FERRY_SUCCESS) held.push_back(at);
    }
    EXPECT_EQ(status, FERRY_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(ask(basic.get(), others.data() + held.size() * page).memory, FERRY_MEMORY_PAGEABLE);
    EXPECT_EQ(ferry_host_register(one_page.get(), own.data() + 2 * page, 6 * page, 0, nullptr),
              FERRY_ERROR_OUT_OF_MEMORY);
    expect_nothing_registered();
    counts.left = -1;
    for (const std::uint64_t at : held)
        EXPECT_OK(ferry_host_unregister(one_page.get(), others.data() + at, nullptr));
    ASSERT_OK(ferry_host_register(one_page.get(), own.data() + 2 * page, 6 * page, 0, nullptr));
    EXPECT_OK(ferry_host_unregister(one_page.get(), own.data() + 2 * page, nullptr));
    EXPECT_OK(ferry_host_unregister(one_page.get(), own.data(), nullptr));
}

TEST_F(pieces, unregistering_releases_all_pieces_and_returns_the_first_error) {
    mapped_memory own(3 * page);
    ASSERT_OK(ferry_host_register(one_page.get(), own.data(), own.size(), 0, nullptr));
    driver.reset_counts();
    driver.fail("cuMemHostUnregister", CUDA_ERROR_OPERATING_SYSTEM, 2);
    EXPECT_EQ(ferry_host_unregister(one_page.get(), own.data(), nullptr),
              FERRY_STATUS_DRIVER_BASE - CUDA_ERROR_OPERATING_SYSTEM);
    EXPECT_EQ(driver.calls("cuMemHostUnregister"), 3);
    EXPECT_EQ(ask(one_page.get(), own.data() + 2 * page).memory, FERRY_MEMORY_PAGEABLE);
    EXPECT_EQ(ask(one_page.get(), own.data() + page).range_size, page) << "only the driver still has it registered";
    EXPECT_OK(ferry_host_unregister(one_page.get(), own.data() + page, nullptr));
}

TEST_F(pieces, read_only_memory_is_registered_for_reading) {
    ferry_device_info info = {};
    info.struct_size = sizeof info;
    ASSERT_OK(ferry_device_get_info(basic.get(), 0, &info, nullptr));
    if (!info.host_register_read_only) GTEST_SKIP() << "not on this machine";
    mapped_memory own(3 * page, page_access::read);
    ASSERT_OK(ferry_host_register(one_page.get(), own.data(), own.size(), FERRY_REGISTER_READ_ONLY, nullptr));
    device_memory there(own.size());
    ASSERT_OK(raw().cuMemsetD8(there, 7, own.size()));
    EXPECT_OK(ferry_copy_bytes(one_page.get(), there, number(own.data()), own.size(), nullptr, nullptr));
    EXPECT_EQ(read_back(there, own.size()), bytes(own.size()));
    EXPECT_OK(ferry_host_unregister(one_page.get(), own.data(), nullptr));
}

// ---- Copies and fills across pieces ----------------------------------------------------------------------------

// Pages that are either pageable ('.') or part of a registration. Consecutive pages with the same letter are registered
// together, page by page.
class patchwork {
public:
    patchwork(ferry_instance *instance, const std::string &pattern)
        : pages(pattern.size() * page), picture(pages.size()), instance_(instance) {
        for (std::size_t at = 0; at < pattern.size();) {
            const std::size_t end = std::min(pattern.find_first_not_of(pattern[at], at), pattern.size());
            if (pattern[at] != '.') {
                EXPECT_OK(ferry_host_register(instance, pages.data() + at * page, (end - at) * page, 0, nullptr));
                registered_.push_back(pages.data() + at * page);
            }
            at = end;
        }
    }
    ~patchwork() {
        for (std::byte *const address : registered_)
            EXPECT_OK(ferry_host_unregister(instance_, address, nullptr));
    }
    patchwork(const patchwork &) = delete;

    void fill(std::uint64_t seed) {
        picture = random_bytes(picture.size(), seed);
        std::memcpy(pages.data(), picture.data(), picture.size());
    }
    bytes read() const { return bytes(pages.data(), pages.data() + pages.size()); }

    mapped_memory pages;
    bytes picture;

private:
    ferry_instance *instance_;
    std::vector<std::byte *> registered_;
};

// One end of a copy in a patchwork. The copy gives its size.
struct patch_box {
    std::uint64_t offset, row_pitch, slice_height;
    ferry_place describe(const patchwork &of) const {
        ferry_place place = {};
        ferry_place_host_pitched(&place, of.pages.data() + offset, row_pitch, slice_height);
        return place;
    }
    std::byte &in(bytes &picture, std::uint64_t x, std::uint64_t y, std::uint64_t z) const {
        return picture[offset + (z * slice_height + y) * row_pitch + x];
    }
};

struct drawing {
    std::mt19937_64 random;
    std::uint64_t operator()(std::uint64_t low, std::uint64_t high) {
        return std::uniform_int_distribution<std::uint64_t>(low, high)(random);
    }
};

struct drawn_extent {
    std::uint64_t width, height, depth;
};

patch_box draw_box(drawing &draw, const patchwork &in, const drawn_extent &extent) {
    const bool is_tight = extent.height * extent.depth > 1 && draw(0, 3) == 0;
    const std::uint64_t row_pitch = extent.width + (is_tight ? 0 : draw(0, page));
    const std::uint64_t slice_height = extent.height + (is_tight ? 0 : draw(0, 2));
    const std::uint64_t reach = ((extent.depth - 1) * slice_height + extent.height - 1) * row_pitch + extent.width;
    if (reach > in.pages.size()) return {0, 0, 0};
    return {draw(0, in.pages.size() - reach), row_pitch, slice_height};
}

std::string draw_pattern(drawing &draw) {
    std::string pattern;
    char letter = 'A';
    while (pattern.size() < 24)
        pattern.append(draw(1, 5), draw(0, 2) ? letter++ : '.');
    return pattern;
}

TEST_F(pieces, copies_of_every_shape_and_direction_cross_pieces_as_if_they_were_one) {
    std::random_device device;
    const std::uint64_t seed = device();
    drawing draw = {std::mt19937_64(seed)};
    test_stream stream;
    int crossing = 0;
    for (int round = 0; round < 400 && !HasFailure(); ++round) {
        const std::string pattern = draw_pattern(draw);
        ferry_instance *const instance = round % 2 ? one_page.get() : one_page_full.get();
        const bool is_synchronous = draw(0, 1), is_upload = draw(0, 1);
        const drawn_extent extent = {draw(1, 3 * page), draw(0, 2) ? draw(1, 6) : 1, draw(0, 2) ? 1 : draw(1, 3)};
        constexpr place_kind kinds[] = {place_kind::pageable, place_kind::pinned,   place_kind::managed,
                                        place_kind::device,   place_kind::array_2d, place_kind::array_3d};
        const place_kind kind = kinds[draw(0, 5)];
        const grid shape = {.width = extent.width + 8, .height = extent.height + 1, .depth = extent.depth + 1};
        SCOPED_TRACE(testing::Message() << "seed " << seed << ", round " << round << ", " << pattern << ", "
                                        << name_of(kind) << (is_upload ? " from" : " to") << " it, " << extent.width
                                        << " x " << extent.height << " x " << extent.depth);
        if (!can_be(kind, shape)) continue;
        patchwork host(instance, pattern);
        const patch_box at = draw_box(draw, host, extent);
        if (!at.row_pitch) continue;
        test_place other(kind, shape);
        host.fill(draw(0, 1000));
        other.fill(draw(0, 1000));
        const box origin = {.x = draw(0, 8), .y = draw(0, 1), .z = draw(0, 1)};
        const ferry_place here = at.describe(host), there = other.describe(statement::stated, origin);
        const ferry_copy_desc copy = is_upload ? describe_copy(here, there, extent.width, extent.height, extent.depth)
                                               : describe_copy(there, here, extent.width, extent.height, extent.depth);
        ferry_explanation told = {};
        told.struct_size = sizeof told;
        ferry_error_info error = new_error();
        ASSERT_OK(is_synchronous ? ferry_copy_explain(instance, &copy, nullptr, &told, &error)
                                 : ferry_copy_explain_async(instance, &copy, nullptr, stream, &told, &error))
            << describe(error);
        driver.reset_counts();
        ASSERT_OK(is_synchronous ? ferry_copy(instance, &copy, nullptr, &error)
                                 : ferry_copy_async(instance, &copy, nullptr, stream, nullptr, &error))
            << describe(error);
        // The first call may be one that the driver refuses, which makes one call more.
        const int made = driver.calls_beginning("cuMemcpy3D") + driver.calls("cuLaunchKernel");
        EXPECT_GE(made, static_cast<int>(told.calls));
        // Copies that stage a part take it in chunks. A part of small pages fits into one.
        if (told.route != FERRY_ROUTE_STAGED || page == 4096) {
            EXPECT_LE(made, static_cast<int>(told.calls + (told.calls > 1)));
        }
        crossing += told.calls > 1;
        ASSERT_OK(raw().cuStreamSynchronize(stream));
        for (std::uint64_t z = 0; z < extent.depth; ++z)
            for (std::uint64_t y = 0; y < extent.height; ++y)
                for (std::uint64_t x = 0; x < extent.width; ++x) {
                    std::byte &ours = at.in(host.picture, x, y, z);
                    std::byte &theirs = other.picture_at(origin.x + x, origin.y + y, origin.z + z);
                    (is_upload ? theirs : ours) = is_upload ? ours : theirs;
                }
        EXPECT_EQ(host.read(), host.picture);
        EXPECT_EQ(other.read(), other.picture());
    }
    EXPECT_GT(crossing, 50);
}

TEST_F(pieces, copies_from_one_patchwork_to_another_are_cut_at_the_borders_of_both) {
    std::random_device device;
    const std::uint64_t seed = device();
    drawing draw = {std::mt19937_64(seed)};
    test_stream stream;
    int crossing = 0;
    for (int round = 0; round < 200 && !HasFailure(); ++round) {
        SCOPED_TRACE(testing::Message() << "seed " << seed << ", round " << round);
        ferry_instance *const instance = round % 2 ? one_page.get() : one_page_full.get();
        patchwork source(instance, draw_pattern(draw)), destination(instance, draw_pattern(draw));
        const drawn_extent extent = {draw(1, 4 * page), draw(0, 2) ? draw(1, 5) : 1, draw(0, 2) ? 1 : draw(1, 3)};
        const patch_box from = draw_box(draw, source, extent), to = draw_box(draw, destination, extent);
        if (!from.row_pitch || !to.row_pitch) continue;
        source.fill(round);
        destination.fill(round + 1000);
        const ferry_copy_desc copy =
            describe_copy(from.describe(source), to.describe(destination), extent.width, extent.height, extent.depth);
        ferry_explanation told = {};
        told.struct_size = sizeof told;
        ASSERT_OK(ferry_copy_explain_async(instance, &copy, nullptr, stream, &told, nullptr));
        driver.reset_counts();
        ferry_error_info error = new_error();
        ASSERT_OK(round % 3 ? ferry_copy(instance, &copy, nullptr, &error)
                            : ferry_copy_async(instance, &copy, nullptr, stream, nullptr, &error))
            << describe(error);
        EXPECT_EQ(driver.calls_beginning("cuMemcpy3D"), static_cast<int>(told.calls + (told.calls > 1)));
        crossing += told.calls > 1;
        ASSERT_OK(raw().cuStreamSynchronize(stream));
        for (std::uint64_t z = 0; z < extent.depth; ++z)
            for (std::uint64_t y = 0; y < extent.height; ++y)
                for (std::uint64_t x = 0; x < extent.width; ++x)
                    to.in(destination.picture, x, y, z) = from.in(source.picture, x, y, z);
        EXPECT_EQ(destination.read(), destination.picture);
    }
    EXPECT_GT(crossing, 50);
}

TEST_F(pieces, an_array_takes_a_crossing_copy_even_where_a_border_cuts_an_element) {
    patchwork host(one_page.get(), "AB");
    test_place array(place_kind::array_1d, {.width = 1600, .element_size = 16});
    for (const std::uint64_t offset : {page - 160, page - 155}) { // the border is between two elements or in one
        host.fill(offset);
        array.fill(offset + 1);
        const ferry_place place = array.describe(statement::stated);
        ferry_place from = {};
        ferry_place_host(&from, host.pages.data() + offset);
        const ferry_copy_desc copy = describe_copy(from, place, 1600);
        ASSERT_OK(ferry_copy(one_page.get(), &copy, nullptr, nullptr));
        EXPECT_EQ(array.read(), bytes(host.picture.begin() + static_cast<std::ptrdiff_t>(offset),
                                      host.picture.begin() + static_cast<std::ptrdiff_t>(offset + 1600)));
    }
}

TEST_F(pieces, the_explanation_names_the_number_of_calls_and_what_the_caller_waits_for) {
    patchwork host(one_page.get(), "AAB.");
    device_memory there(4 * page);
    test_stream stream;
    how options = by_driver;
    const auto explain = [&](std::uint64_t offset, std::uint64_t size, bool is_upload) {
        ferry_place ours = {}, theirs = {};
        ferry_place_host(&ours, host.pages.data() + offset);
        ferry_place_device(&theirs, 0, there);
        const ferry_copy_desc copy = is_upload ? describe_copy(ours, theirs, size) : describe_copy(theirs, ours, size);
        ferry_explanation told = {};
        told.struct_size = sizeof told;
        EXPECT_OK(ferry_copy_explain_async(one_page.get(), &copy, options, stream, &told, nullptr));
        told.driver_ns = told.kernel_ns = told.staged_ns = 0; // predictions depend on the device
        told.threads = 5;                                     // and this on the number of processors
        if (told.max_sms != 0) told.max_sms = 8;
        told.kernel_obstacle = told.staged_obstacle = FERRY_OBSTACLE_NONE;
        EXPECT_NE(told.reason, FERRY_REASON_LINE);
        told.reason = FERRY_REASON_NONE;
        return describe(told);
    };
    const auto shape = [](std::uint64_t pages) { return std::to_string(pages * page) + " B x 1 rows x 1 slices; "; };
    EXPECT_EQ(explain(0, page, true),
              "driver route: cuMemcpy3DAsync, pinned to device 0, " + shape(1) + "does not block");
    EXPECT_EQ(explain(0, 3 * page, true),
              "driver route: cuMemcpy3DAsync in 3 calls, pinned to device 0, " + shape(3) + "does not block");
    EXPECT_EQ(explain(0, 4 * page, true),
              "driver route: cuStreamSynchronize and cuMemcpy3DAsync in 4 calls, pinned to device 0, " + shape(4) +
                  "blocks until the source has been read");
    EXPECT_EQ(explain(2 * page, 2 * page, false), "driver route: cuMemcpy3DAsync in 2 calls, device 0 to pinned, " +
                                                      shape(2) + "blocks until the copy is complete");
    if (!ferry_instance_get_proc(one_page.get(), "cuLibraryLoadData", 12000)) return;
    options = {};
    EXPECT_EQ(explain(2 * page, 2 * page, false),
              "staged route: cuLaunchKernel on 8 SMs and 5 threads in 2 calls, device 0 to pinned, " + shape(2) +
                  "does not block");
}

TEST_F(pieces, the_status_of_a_later_part_is_returned) {
    patchwork host(one_page.get(), "AAAA");
    device_memory there(4 * page);
    test_stream stream;
    driver.fail("cuMemcpy3DAsync", CUDA_ERROR_OUT_OF_MEMORY, 4); // the refused call and two parts come first
    driver.reset_counts();
    EXPECT_EQ(ferry_copy_bytes_async(one_page.get(), there, number(host.pages.data()), 4 * page, nullptr, stream,
                                     nullptr, nullptr),
              out_of_memory);
    EXPECT_EQ(driver.calls("cuMemcpy3DAsync"), 4);
    ASSERT_OK(raw().cuStreamSynchronize(stream));
}

TEST_F(pieces, a_crossing_copy_is_captured_with_all_its_parts) {
    patchwork host(one_page.get(), "AAB");
    host.fill(1);
    device_memory there(2 * page);
    ASSERT_OK(raw().cuMemsetD8(there, 0, 2 * page));
    ASSERT_OK(raw().cuCtxSynchronize());
    test_stream stream;
    ASSERT_OK(raw().cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    EXPECT_OK(ferry_copy_bytes_async(one_page.get(), there, number(host.pages.data()) + page / 2, 2 * page, nullptr,
                                     stream, nullptr, nullptr));
    CUgraph graph = nullptr;
    CUgraphExec exec = nullptr;
    ASSERT_OK(raw().cuStreamEndCapture(stream, &graph));
    ASSERT_OK(raw().cuGraphInstantiateWithFlags(&exec, graph, 0));
    EXPECT_EQ(read_back(there, 2 * page), bytes(2 * page)) << "nothing has run yet";
    ASSERT_OK(raw().cuGraphLaunch(exec, stream));
    ASSERT_OK(raw().cuStreamSynchronize(stream));
    const auto begin = host.picture.begin() + static_cast<std::ptrdiff_t>(page / 2);
    EXPECT_EQ(read_back(there, 2 * page), bytes(begin, begin + static_cast<std::ptrdiff_t>(2 * page)));
    EXPECT_OK(raw().cuGraphExecDestroy(exec));
    EXPECT_OK(raw().cuGraphDestroy(graph));
}

TEST_F(pieces, a_copy_past_an_allocation_is_refused_by_full_checks_and_after_the_driver) {
    void *block = nullptr;
    ASSERT_OK(allocate_pinned(full.get(), page, 0, &block));
    void *drivers = nullptr;
    ASSERT_OK(raw().cuMemHostAlloc(&drivers, page, 0));
    device_memory there(4 * page);
    for (void *const address : {block, drivers}) {
        ferry_error_info error = new_error();
        expect_refusal(ferry_copy_bytes(full.get(), there, number(address) + 10, page, nullptr, &error), error,
                       FERRY_ERROR_OUT_OF_BOUNDS, FERRY_SIDE_SOURCE, FERRY_FIELD_ADDRESS);
        expect_refusal(ferry_copy_bytes(basic.get(), there, number(address) + 10, page, nullptr, &error), error,
                       FERRY_ERROR_OUT_OF_BOUNDS, FERRY_SIDE_SOURCE, FERRY_FIELD_ADDRESS);
        EXPECT_NE(error.driver_function, nullptr);
    }
    EXPECT_OK(raw().cuMemFreeHost(drivers));
    EXPECT_OK(ferry_host_free(full.get(), block, nullptr));
}

TEST_F(pieces, full_checks_refuse_a_copy_that_runs_into_unmapped_memory) {
    mapped_memory own(4 * page);
    ASSERT_OK(ferry_host_register(one_page_full.get(), own.data(), 2 * page, 0, nullptr));
    own.allow(3 * page, page, page_access::none);
    device_memory there(4 * page);
    const auto copy = [&](std::uint64_t size, ferry_error_info &error) {
        return ferry_copy_bytes(one_page_full.get(), there, number(own.data()), size, nullptr, &error);
    };
    ferry_error_info error = new_error();
    EXPECT_OK(copy(3 * page, error)) << describe(error);
    expect_refusal(copy(3 * page + 1, error), error, FERRY_ERROR_ADDRESS, FERRY_SIDE_SOURCE, FERRY_FIELD_ADDRESS);
    // ferry does not know a foreign registration behind its own.
    ASSERT_OK(raw().cuMemHostRegister(own.data() + 2 * page, page, 0));
    expect_refusal(copy(3 * page, error), error, FERRY_ERROR_OUT_OF_BOUNDS, FERRY_SIDE_SOURCE, FERRY_FIELD_ADDRESS);
    EXPECT_EQ(error.limit, number(own.data()) + 2 * page);
    ASSERT_OK(raw().cuMemHostUnregister(own.data() + 2 * page));
    EXPECT_OK(ferry_host_unregister(one_page_full.get(), own.data(), nullptr));
}

TEST_F(pieces, fills_cross_pieces_and_do_not_run_into_pageable_memory) {
    std::random_device device;
    const std::uint64_t seed = device();
    drawing draw = {std::mt19937_64(seed)};
    int crossed = 0, refused = 0;
    for (int round = 0; round < 300 && !HasFailure(); ++round) {
        SCOPED_TRACE(testing::Message() << "seed " << seed << ", round " << round);
        ferry_instance *const instance = round % 2 ? one_page.get() : one_page_full.get();
        const std::string pattern = draw(0, 1) ? draw_pattern(draw) : "AAABBBBCDDDDDEEE";
        patchwork host(instance, pattern);
        host.fill(round);
        const std::uint32_t unit = 1u << draw(0, 2);
        const drawn_extent extent = {draw(1, 3 * page / unit) * unit, draw(1, 4), 1};
        patch_box at = draw_box(draw, host, extent);
        at.row_pitch = at.row_pitch / unit * unit;
        at.offset = at.offset / unit * unit;
        if (!at.row_pitch || pattern[at.offset / page] == '.') continue;
        const ferry_place place = at.describe(host);
        const std::byte value[4] = {std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}};
        ferry_fill_desc fill;
        ferry_fill_desc_init(&fill, &place, extent.width, extent.height, 1, value, unit);
        ferry_error_info error = new_error();
        const std::int32_t status = ferry_fill(instance, &fill, nullptr, &error);
        const std::uint64_t reach = (extent.height - 1) * at.row_pitch + extent.width;
        bool is_all_registered = true, is_one_page = at.offset / page == (at.offset + reach - 1) / page;
        for (std::uint64_t y = 0; y < extent.height; ++y)
            for (std::uint64_t x = 0; x < extent.width; ++x)
                is_all_registered &= pattern[(at.offset + y * at.row_pitch + x) / page] != '.';
        if (status) {
            EXPECT_TRUE(status == invalid_value || status == FERRY_ERROR_OUT_OF_BOUNDS) << describe(error);
            EXPECT_NE(pattern.substr(at.offset / page, (at.offset + reach - 1) / page - at.offset / page + 1).find('.'),
                      std::string::npos);
            ++refused;
        } else {
            EXPECT_TRUE(is_all_registered);
            crossed += !is_one_page;
            for (std::uint64_t y = 0; y < extent.height; ++y)
                for (std::uint64_t x = 0; x < extent.width; ++x)
                    at.in(host.picture, x, y, 0) = value[x % unit];
        }
        EXPECT_EQ(host.read(), host.picture) << "the whole fill or nothing";
    }
    EXPECT_GT(crossed, 20);
    EXPECT_GT(refused, 5);
}

TEST_F(pieces, a_fill_whose_pattern_a_border_cuts_is_refused_whole) {
    mapped_memory own(2 * page);
    ASSERT_OK(ferry_host_register(one_page.get(), own.data(), page + 2, 0, nullptr));
    if (ferry_host_register(one_page.get(), own.data() + page + 2, 100, 0, nullptr)) {
        EXPECT_OK(ferry_host_unregister(one_page.get(), own.data(), nullptr));
        GTEST_SKIP() << "this driver does not register a page twice";
    }
    ferry_place place = {};
    ferry_place_host(&place, own.data());
    ferry_fill_desc fill;
    ferry_fill_desc_init(&fill, &place, page + 8, 1, 1, "abcd", 4);
    EXPECT_EQ(ferry_fill(one_page.get(), &fill, nullptr, nullptr), invalid_value);
    EXPECT_EQ(bytes(own.data(), own.data() + own.size()), bytes(own.size()));
    ferry_fill_desc_init(&fill, &place, page + 8, 1, 1, "ab", 2);
    EXPECT_OK(ferry_fill(one_page.get(), &fill, nullptr, nullptr));
    EXPECT_EQ(std::memcmp(own.data() + page - 2, "abababababab", 10), 0);
    EXPECT_OK(ferry_host_unregister(one_page.get(), own.data(), nullptr));
    EXPECT_OK(ferry_host_unregister(one_page.get(), own.data() + page + 2, nullptr));
}

} // namespace
} // namespace ferry::test
