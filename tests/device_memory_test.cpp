// The memory of a device: its size, what is free, and what pools and deferred frees keep.
#include "support/counted_test.h"
#include "support/raw_objects.h"

namespace ferry::test {
namespace {

constexpr std::uint64_t mib = 1 << 20;

class memory_of_a_device : public counted_test {
protected:
    ferry_device_memory_info memory(std::int32_t device = 0) {
        ferry_device_memory_info info = {};
        info.struct_size = sizeof info;
        ferry_error_info error = new_error();
        EXPECT_OK(ferry_device_get_memory(counted.get(), device, &info, &error)) << describe(error);
        return info;
    }
    bool has_pools() const {
        ferry_device_info info = {};
        info.struct_size = sizeof info;
        EXPECT_OK(ferry_device_get_info(counted.get(), 0, &info, nullptr));
        return info.memory_pools != 0;
    }
    // Sets how much the pool keeps when a stream is waited for, and returns the former value.
    std::uint64_t set_threshold(CUmemoryPool pool, std::uint64_t bytes) {
        ferry_pool_attributes attributes = {};
        attributes.struct_size = sizeof attributes;
        EXPECT_OK(ferry_pool_get_attributes(counted.get(), pool, &attributes, nullptr));
        std::swap(attributes.release_threshold, bytes);
        EXPECT_OK(ferry_pool_set_attributes(counted.get(), pool, &attributes, nullptr));
        return bytes;
    }
    // Allocates from the current pool in stream order and frees the memory, which the pool keeps.
    void leave_in_the_current_pool(std::uint64_t size) {
        std::uint64_t address = 0;
        EXPECT_OK(ferry_device_alloc_async(counted.get(), 0, size, stream, &address, nullptr));
        EXPECT_OK(ferry_device_free_async(counted.get(), address, stream, nullptr));
        EXPECT_OK(ferry_stream_synchronize(counted.get(), stream, nullptr));
    }
};

TEST_F(memory_of_a_device, each_device_has_the_total_and_the_free_memory_that_the_driver_reports) {
    for (std::int32_t device = 0; device < device_count(); ++device) {
        const ferry_device_memory_info info = memory(device);
        ferry_device_info facts = {};
        facts.struct_size = sizeof facts;
        ASSERT_OK(ferry_device_get_info(counted.get(), device, &facts, nullptr));
        std::size_t free = 0, total = 0;
        ASSERT_OK(ferry_context_push(counted.get(), device, nullptr, nullptr));
        EXPECT_OK(raw().cuMemGetInfo(&free, &total));
        ASSERT_OK(ferry_context_pop(counted.get(), nullptr, nullptr));
        EXPECT_EQ(total, info.total);
        EXPECT_LE(info.free, info.total);
        EXPECT_LE(info.total, facts.total_memory);
        if (on_software_driver()) {
            EXPECT_EQ(free, info.free);
        } // other processes may share a real device
        EXPECT_EQ(0u, info.reserved);
    }
}

TEST_F(memory_of_a_device, an_allocation_is_no_longer_free) {
    if (!on_software_driver()) GTEST_SKIP() << "other processes may share the device";
    const std::uint64_t before = memory().free;
    std::uint64_t address = 0;
    ASSERT_OK(ferry_device_alloc(counted.get(), 0, 8 * mib, &address, nullptr));
    EXPECT_EQ(before - 8 * mib, memory().free);
    ASSERT_OK(ferry_device_free(counted.get(), address, nullptr));
    EXPECT_EQ(before, memory().free);
}

TEST_F(memory_of_a_device, deferred_frees_of_this_device_are_counted_until_they_are_trimmed) {
    EXPECT_EQ(0u, memory().deferred);
    std::uint64_t address = 0;
    ASSERT_OK(ferry_device_alloc(counted.get(), 0, 3 * mib, &address, nullptr));
    ASSERT_OK(ferry_device_free_deferred(counted.get(), address, stream, nullptr));
    EXPECT_EQ(3 * mib, memory().deferred);
    for (std::int32_t other = 1; other < device_count(); ++other)
        EXPECT_EQ(0u, memory(other).deferred);
    ASSERT_OK(raw().cuStreamSynchronize(stream));
    ASSERT_OK(ferry_deferred_trim(counted.get(), 0, 0, nullptr));
    EXPECT_EQ(0u, memory().deferred);
}

TEST_F(memory_of_a_device, memory_that_the_default_pool_or_the_current_pool_keeps_is_counted_until_it_is_trimmed) {
    if (!has_pools()) GTEST_SKIP() << "the device has no pools";
    CUmemoryPool standard = nullptr;
    ASSERT_OK(ferry_pool_get_default(counted.get(), FERRY_LOCATION_DEVICE, 0, &standard, nullptr));
    ASSERT_OK(ferry_pool_trim(counted.get(), standard, 0, nullptr));
    const std::uint64_t threshold = set_threshold(standard, UINT64_MAX);
    const std::uint64_t before = memory().pool_unused;
    leave_in_the_current_pool(4 * mib);
    const std::uint64_t with_one = memory().pool_unused;
    EXPECT_GE(with_one, before + 4 * mib);

    ferry_pool_desc desc = {};
    desc.struct_size = sizeof desc;
    CUmemoryPool pool = nullptr;
    ASSERT_OK(ferry_pool_create(counted.get(), &desc, &pool, nullptr));
    EXPECT_EQ(with_one, memory().pool_unused);
    ASSERT_OK(ferry_pool_set_current(counted.get(), FERRY_LOCATION_DEVICE, 0, pool, nullptr));
    set_threshold(pool, UINT64_MAX);
    leave_in_the_current_pool(4 * mib);
    EXPECT_GE(memory().pool_unused, with_one + 4 * mib);

    ASSERT_OK(ferry_pool_trim(counted.get(), standard, 0, nullptr));
    ASSERT_OK(ferry_pool_trim(counted.get(), pool, 0, nullptr));
    EXPECT_EQ(before, memory().pool_unused);
    ASSERT_OK(ferry_pool_set_current(counted.get(), FERRY_LOCATION_DEVICE, 0, standard, nullptr));
    set_threshold(standard, threshold);
    ASSERT_OK(ferry_pool_destroy(counted.get(), pool, nullptr));
}

TEST_F(memory_of_a_device, the_call_breaks_no_capture_and_leaves_the_context_unchanged) {
    memory(); // creates the context
    ASSERT_OK(raw().cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    memory();
    CUgraph graph = nullptr;
    EXPECT_OK(raw().cuStreamEndCapture(stream, &graph));
    EXPECT_OK(raw().cuGraphDestroy(graph));
    CUcontext current = nullptr;
    ASSERT_OK(raw().cuCtxGetCurrent(&current));
    EXPECT_EQ(context, current);
    CUcontext popped = nullptr;
    ASSERT_OK(raw().cuCtxPopCurrent(&popped));
    memory();
    ASSERT_OK(raw().cuCtxGetCurrent(&current));
    EXPECT_EQ(nullptr, current);
    ASSERT_OK(raw().cuCtxPushCurrent(popped));
}

TEST_F(memory_of_a_device, wrong_arguments_are_refused_and_leave_the_struct_unchanged) {
    ferry_device_memory_info info = {};
    info.total = 7;
    EXPECT_EQ(FERRY_ERROR_INVALID_ARGUMENT, ferry_device_get_memory(nullptr, 0, &info, nullptr));
    EXPECT_EQ(FERRY_ERROR_INVALID_ARGUMENT, ferry_device_get_memory(counted.get(), 0, nullptr, nullptr));
    EXPECT_EQ(FERRY_ERROR_ABI_MISMATCH, ferry_device_get_memory(counted.get(), 0, &info, nullptr));
    info.struct_size = sizeof info;
    ferry_error_info error = new_error();
    EXPECT_EQ(FERRY_ERROR_DEVICE, ferry_device_get_memory(counted.get(), device_count(), &info, &error));
    EXPECT_EQ(FERRY_FIELD_DEVICE, error.field);
    EXPECT_EQ(static_cast<std::uint64_t>(device_count()), error.limit);
    driver.fail("cuMemGetInfo", CUDA_ERROR_UNKNOWN);
    EXPECT_EQ(FERRY_STATUS_DRIVER_BASE - CUDA_ERROR_UNKNOWN, ferry_device_get_memory(counted.get(), 0, &info, &error));
    EXPECT_STREQ("cuMemGetInfo", error.driver_function);
    EXPECT_EQ(7u, info.total);
}

TEST_F(memory_of_a_device, a_driver_without_the_query_is_refused) {
    counted.reset();
    driver.hide("cuMemGetInfo");
    counted = open_or_fail(driver.options());
    ferry_device_memory_info info = {};
    info.struct_size = sizeof info;
    EXPECT_EQ(FERRY_ERROR_UNSUPPORTED, ferry_device_get_memory(counted.get(), 0, &info, nullptr));
}

} // namespace
} // namespace ferry::test
