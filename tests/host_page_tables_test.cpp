// Devices that use the host's page tables, as beside a Grace processor: they take pageable memory themselves, so ferry
// does not stage it.
#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "ferry/ferry.h"
#include "softdriver/softdriver.h"
#include "support/gpu_profile.h"
#include "support/how.h"
#include "support/system.h"

namespace ferry::test {
namespace {

constexpr std::uint64_t MiB = 1 << 20;

class host_page_tables : public testing::Test {
protected:
    void SetUp() override {
        softdriver::use_host_page_tables(true);
        ferry_options options = {};
        options.struct_size = sizeof options;
        options.driver = FERRY_DRIVER_SOFTWARE;
        ASSERT_EQ(ferry_open(&options, &ferry_, nullptr), FERRY_SUCCESS);
        plan_as_on_a_gpu(ferry_);
        ASSERT_EQ(ferry_device_alloc(ferry_, 0, 16 * MiB, &device_, nullptr), FERRY_SUCCESS);
        ASSERT_EQ(ferry_stream_create(ferry_, 0, FERRY_STREAM_NON_BLOCKING, 0, &stream_, nullptr), FERRY_SUCCESS);
    }
    void TearDown() override {
        if (stream_) {
            EXPECT_EQ(ferry_stream_destroy(ferry_, stream_, nullptr), FERRY_SUCCESS);
        }
        if (device_) {
            EXPECT_EQ(ferry_device_free(ferry_, device_, nullptr), FERRY_SUCCESS);
        }
        ferry_close(ferry_);
        softdriver::use_host_page_tables(false);
    }

    static std::uint64_t address(const void *memory) { return reinterpret_cast<std::uintptr_t>(memory); }
    // Rows of `width` bytes at a pitch of `pitch` on the host and without gaps on the device.
    ferry_copy_desc rows(void *host, std::uint64_t width, std::uint64_t pitch, std::uint64_t height,
                         bool to_device) const {
        ferry_place at_host = {}, on_device = {};
        at_host.address = address(host);
        at_host.row_pitch = pitch;
        on_device.address = device_;
        on_device.row_pitch = width;
        ferry_copy_desc copy = {};
        copy.source = to_device ? at_host : on_device;
        copy.destination = to_device ? on_device : at_host;
        copy.width = width;
        copy.height = height;
        copy.depth = 1;
        return copy;
    }
    ferry_explanation explain(const ferry_copy_desc &copy, const how &options = {}) const {
        ferry_explanation told = {};
        told.struct_size = sizeof told;
        EXPECT_EQ(ferry_copy_explain_async(ferry_, &copy, options, stream_, &told, nullptr), FERRY_SUCCESS);
        return told;
    }

    ferry_instance *ferry_ = nullptr;
    std::uint64_t device_ = 0;
    CUstream_st *stream_ = nullptr;
};

TEST_F(host_page_tables, the_driver_copies_large_contiguous_pageable_memory_without_staging) {
    std::vector<std::byte> host(16 * MiB);
    for (const bool to_device : {true, false}) {
        const ferry_explanation told = explain(rows(host.data(), host.size(), host.size(), 1, to_device));
        EXPECT_EQ(told.route, FERRY_ROUTE_DRIVER);
        EXPECT_EQ(told.staged_obstacle, FERRY_OBSTACLE_DIRECT);
        EXPECT_EQ(told.kernel_obstacle, FERRY_OBSTACLE_NONE);
    }
    const ferry_copy_desc copy = rows(host.data(), host.size(), host.size(), 1, true);
    ferry_error_info error = {};
    error.struct_size = sizeof error;
    EXPECT_EQ(ferry_copy_async(ferry_, &copy, by_staging, stream_, nullptr, &error), FERRY_ERROR_ROUTE);
    EXPECT_EQ(error.value, std::uint64_t{FERRY_OBSTACLE_DIRECT});
}

TEST_F(host_page_tables, kernels_copy_rows_of_pageable_memory_and_nothing_beside_them) {
    constexpr std::uint64_t width = 24, pitch = 100, height = 3000;
    std::vector<std::byte> from(pitch * height), to(from.size(), std::byte{0xee});
    for (std::size_t i = 0; i < from.size(); ++i)
        from[i] = static_cast<std::byte>(i * 7);
    for (const bool waits : {true, false}) {
        std::fill(to.begin(), to.end(), std::byte{0xee});
        const ferry_copy_desc there = rows(from.data(), width, pitch, height, true);
        const ferry_copy_desc back = rows(to.data(), width, pitch, height, false);
        EXPECT_EQ(explain(there, by_kernel).route, FERRY_ROUTE_KERNEL);
        for (const ferry_copy_desc *const copy : {&there, &back})
            ASSERT_EQ(waits ? ferry_copy(ferry_, copy, by_kernel, nullptr)
                            : ferry_copy_async(ferry_, copy, by_kernel, stream_, nullptr, nullptr),
                      FERRY_SUCCESS);
        ASSERT_EQ(ferry_stream_synchronize(ferry_, stream_, nullptr), FERRY_SUCCESS);
        for (std::size_t i = 0; i < to.size(); ++i)
            ASSERT_EQ(to[i], i % pitch < width ? from[i] : std::byte{0xee}) << i;
    }
}

TEST_F(host_page_tables, no_kernel_touches_memory_that_the_process_cannot_read) {
    const mapped_memory closed(MiB, page_access::none);
    const ferry_copy_desc copy = rows(closed.data(), 8, 16, 1000, true);
    EXPECT_EQ(ferry_copy_async(ferry_, &copy, by_kernel, stream_, nullptr, nullptr), FERRY_ERROR_ROUTE);
    std::byte whole{1};
    EXPECT_EQ(ferry_copy_bytes(ferry_, device_, address(&whole), 1, nullptr, nullptr), FERRY_SUCCESS)
        << "the context lives";
}

} // namespace
} // namespace ferry::test
