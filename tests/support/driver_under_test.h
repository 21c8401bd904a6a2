// The driver under test: the software driver or, with FERRY_TEST_DRIVER=cuda, the driver of the machine. Test bodies do
// not depend on the driver. A test that only one driver can run is skipped on the other driver, with the reason.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "driver/table.h"
#include "ferry/ferry_all.h"

namespace ferry::test {

// The raw table of the driver under test. cuInit has been called.
const driver_table &raw();
resolver raw_entry_points();
bool on_software_driver();
int device_count();
// FERRY_TEST_DEVICES and FERRY_TEST_LINKS: the software driver's number of devices, and its device_links as a number.
// FERRY_TEST_QUEUES=1: all streams of the software driver share one hardware queue and wait for each other, as some
// streams of any driver may.
bool streams_share_a_queue();

// Called before the tests run. A test program with its own arguments defines this function.
void take_arguments(int argc, char **argv);

// Options that open the driver under test.
ferry_options options_under_test();

struct close_instance {
    void operator()(ferry_instance *instance) const noexcept { ferry_close(instance); }
};
using instance_owner = std::unique_ptr<ferry_instance, close_instance>;
// Plans on the software driver as on a GPU (support/gpu_profile.h).
instance_owner open_or_fail(const ferry_options &options);

// Calls ferry_host_alloc with only flags. Leaves *address null on failure.
inline std::int32_t allocate_pinned(ferry_instance *instance, std::uint64_t size, std::uint32_t flags, void **address,
                                    ferry_error_info *error = nullptr) {
    ferry_host_options options = {};
    options.struct_size = sizeof options;
    options.flags = flags;
    ferry_host_block block = {};
    block.struct_size = sizeof block;
    const std::int32_t status = ferry_host_alloc(instance, size, &options, &block, error);
    *address = block.address;
    return status;
}

// Makes device 0's primary context current on the thread.
struct driver_test : ::testing::Test {
    void SetUp() override;
    void TearDown() override;
    CUcontext context = nullptr;
};

// Like driver_test, with one instance for each level of checks.
struct ferry_test : driver_test {
    void SetUp() override;
    void TearDown() override;
    instance_owner basic, full;
};

// Bytes that are compared by one memcmp, because comparing them individually takes half the time of the tests under
// sanitizers.
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
ferry_explanation new_explanation();
std::string describe(const ferry_explanation &explanation);

// ASSERT_OK(call) expects success from the driver or from ferry and prints the name of any other status.
::testing::AssertionResult is_success(CUresult result);
::testing::AssertionResult is_success(std::int32_t status);
#define EXPECT_OK(call) EXPECT_TRUE(::ferry::test::is_success(call))
#define ASSERT_OK(call) ASSERT_TRUE(::ferry::test::is_success(call))

// Expects a rejection with exactly this status, side and field.
// Whether a pair of devices has no access: the driver reports none, or the probe lost data.
inline bool is_without_access(std::int32_t status) {
    return status == FERRY_ERROR_PEER_ACCESS || status == FERRY_ERROR_DATA_LOST;
}
void expect_refusal(std::int32_t returned, const ferry_error_info &error, std::int32_t status, std::int32_t side,
                    std::int32_t field);

} // namespace ferry::test
