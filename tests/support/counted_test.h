// A fixture for tests that count driver calls. Each test has its own stream.
#pragma once

#include "ferry/ferry_devices.h"
#include "support/driver_under_test.h"
#include "support/fault_driver.h"

namespace ferry::test {

class counted_test : public ferry_test {
protected:
    void SetUp() override {
        ferry_test::SetUp();
        ferry_options options = driver.options();
        options.kernels = kernels;
        counted = open_or_fail(options);
        ASSERT_OK(raw().cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    }
    void TearDown() override {
        EXPECT_OK(raw().cuStreamDestroy(stream));
        counted.reset();
        ferry_test::TearDown();
    }
    bool has_kernels() const { return ferry_instance_get_proc(counted.get(), "cuLibraryLoadData", 12000) != nullptr; }

    std::int32_t kernels = FERRY_KERNELS_LAZY; // set it before SetUp
    fault_driver driver{raw_entry_points()};
    instance_owner counted; // the driver counts the calls of this instance
    CUstream stream = nullptr;
};

} // namespace ferry::test
