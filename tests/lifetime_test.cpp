// What batches keep between calls, and what ends beside them: contexts, arrays, the instance.
#include <atomic>
#include <thread>

#include "support/fault_driver.h"
#include "support/ferry_array.h"
#include "support/gate.h"
#include "support/raw_objects.h"

namespace ferry::test {
namespace {

// Pieces by a kernel, in pinned memory and in a device's: every second slot of each, so that none is merged.
struct kernel_pieces {
    static constexpr std::uint64_t size = 96, apart = 128;

    explicit kernel_pieces(std::size_t count) : count(count), from(count * apart), to(count * apart) {
        for (std::size_t i = 0; i < count; ++i) {
            sources.push_back(reinterpret_cast<std::uintptr_t>(from.data()) + i * apart);
            destinations.push_back(to + i * apart);
            sizes.push_back(size);
        }
        fill(1);
    }
    void fill(std::uint64_t seed) {
        const bytes data = random_bytes(count * apart, seed);
        std::copy(data.begin(), data.end(), from.data());
    }
    std::int32_t copy(ferry_instance *instance, CUstream stream) const {
        return ferry_copy_pieces_async(instance, destinations.data(), sources.data(), sizes.data(), count, 0, stream,
                                       nullptr);
    }
    std::int32_t prepare(ferry_instance *instance, CUstream stream, std::uint32_t flags,
                         ferry_prepared **prepared) const {
        return ferry_prepared_create_pieces(instance, destinations.data(), sources.data(), sizes.data(), count, flags,
                                            stream, prepared, nullptr);
    }
    bool have_arrived() const {
        const bytes arrived = read_back(to, count * apart), sent = from.copy();
        for (std::size_t i = 0; i < count; ++i)
            if (!std::equal(&arrived[i * apart], &arrived[i * apart] + size, &sent[i * apart])) return false;
        return true;
    }

    std::size_t count;
    pinned_memory from;
    device_memory to;
    std::vector<std::uint64_t> destinations, sources, sizes;
};

constexpr std::size_t beyond_parameters = 1000;

// On a driver whose calls are counted, with kernels for all that they can copy.
struct lifetimes : driver_test {
    void SetUp() override {
        driver_test::SetUp();
        ferry = open_or_fail(options());
    }
    void TearDown() override {
        ferry.reset();
        driver_test::TearDown();
    }
    ferry_options options() const {
        ferry_options options = driver.options();
        options.copy_flags = FERRY_COPY_BY_KERNEL;
        return options;
    }
    int host_memory_held() const {
        return driver.calls("cuMemHostRegister") + driver.calls("cuMemHostAlloc") -
               driver.calls("cuMemHostUnregister") - driver.calls("cuMemFreeHost");
    }
    fault_driver driver{raw_entry_points()};
    instance_owner ferry;
};

TEST_F(lifetimes, tables_go_back_to_the_driver_with_the_instance) {
    const test_stream stream;
    const kernel_pieces pieces(beyond_parameters);
    driver.reset_counts();
    ASSERT_OK(pieces.copy(ferry.get(), stream));
    EXPECT_GT(host_memory_held(), 0);
    ferry.reset();
    EXPECT_EQ(host_memory_held(), 0);
    EXPECT_OK(raw().cuStreamSynchronize(stream));
    EXPECT_TRUE(pieces.have_arrived());
}

TEST_F(lifetimes, tables_of_a_context_that_is_gone_are_not_written) {
    for (const bool is_destroyed_by_ferry : {true, false})
        for (const bool is_from_driver : {true, false}) {
            SCOPED_TRACE(testing::Message() << "destroyed by " << (is_destroyed_by_ferry ? "ferry" : "the driver")
                                            << ", tables from " << (is_from_driver ? "the driver" : "a mapping"));
            if (is_from_driver) driver.fail("cuMemHostRegister", CUDA_ERROR_NOT_SUPPORTED, 1, true);
            ferry = open_or_fail(options());
            CUctx_st *own = nullptr;
            ASSERT_OK(ferry_context_create(ferry.get(), 0, 0, &own));
            ASSERT_OK(ferry_context_adopt(ferry.get(), 0, own));
            {
                const made_current in_own(own);
                const test_stream stream;
                const kernel_pieces pieces(beyond_parameters);
                ASSERT_OK(pieces.copy(ferry.get(), stream));
                ASSERT_OK(raw().cuStreamSynchronize(stream));
                EXPECT_TRUE(pieces.have_arrived());
            }
            if (is_destroyed_by_ferry) {
                ASSERT_OK(ferry_context_destroy(ferry.get(), own));
            } else {
                ASSERT_OK(ferry_context_adopt(ferry.get(), 0, nullptr));
                ASSERT_OK(raw().cuCtxDestroy(own));
            }
            const test_stream stream;
            const kernel_pieces pieces(beyond_parameters);
            driver.reset_counts();
            ASSERT_OK(pieces.copy(ferry.get(), stream));
            EXPECT_EQ(driver.calls("cuLaunchKernel"), 1) << "by a new table";
            ASSERT_OK(raw().cuStreamSynchronize(stream));
            EXPECT_TRUE(pieces.have_arrived());
            ferry.reset();
            driver.heal();
        }
}

} // namespace
} // namespace ferry::test
