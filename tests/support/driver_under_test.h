// The driver that this run tests: the software one, or with FERRY_TEST_DRIVER=cuda the machine's own. Test bodies do
// not know which; where only one of them can be asked, a test skips and says so.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "driver/table.h"
#include "ferry/ferry.h"

namespace ferry::test {

// The raw table of the driver under test; cuInit has been called.
const driver_table &raw();
resolver raw_entry_points();
bool on_software_driver();
int device_count();
// FERRY_TEST_QUEUES=1: all streams of the software driver wait for each other, as some of any driver's may.
bool streams_share_a_queue();

// A test with arguments of its own defines it; called before the tests run.
void take_arguments(int argc, char **argv);

// Options that open the driver under test.
ferry_options options_under_test();

struct close_instance {
    void operator()(ferry_instance *instance) const noexcept { ferry_close(instance); }
};
using instance_owner = std::unique_ptr<ferry_instance, close_instance>;
instance_owner open_or_fail(const ferry_options &options);

// Device 0's primary context is current on the thread.
struct driver_test : ::testing::Test {
    void SetUp() override;
    void TearDown() override;
    CUcontext context = nullptr;
};

// As driver_test, with an instance at each level of checks.
struct ferry_test : driver_test {
    void SetUp() override;
    void TearDown() override;
    instance_owner basic, full;
};

// Compared at once: one by one that takes half the time of the sanitized tests.
struct bytes : std::vector<std::byte> {
    using vector::vector;
    friend bool operator==(const bytes &one, const bytes &other) {
        if (one.size() != other.size()) return false;
        return one.empty() || std::memcmp(one.data(), other.data(), one.size()) == 0;
    }
};
bytes random_bytes(std::size_t size, std::uint64_t seed);

ferry_error_info new_error();
std::string describe(const ferry_error_info &error);

// ASSERT_OK(call): a driver's or ferry's success, or the name of what came instead.
::testing::AssertionResult is_success(CUresult result);
::testing::AssertionResult is_success(std::int32_t status);
#define EXPECT_OK(call) EXPECT_TRUE(::ferry::test::is_success(call))
#define ASSERT_OK(call) ASSERT_TRUE(::ferry::test::is_success(call))

// Expects a refusal that names exactly this.
void expect_refusal(std::int32_t returned, const ferry_error_info &error, std::int32_t status, std::int32_t side,
                    std::int32_t field);

} // namespace ferry::test
