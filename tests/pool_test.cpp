// Stream-ordered memory and its pools.
#include <atomic>
#include <chrono>
#include <cstring>
#include <map>
#include <set>
#include <thread>

#include "support/fault_driver.h"
#include "support/gate.h"
#include "support/raw_objects.h"
#include "support/system.h"
#include "support/test_place.h"

namespace ferry::test {
namespace {

constexpr std::uint64_t mib = 1 << 20;
constexpr std::int32_t out_of_memory = FERRY_STATUS_DRIVER_BASE - CUDA_ERROR_OUT_OF_MEMORY;

template <class Struct> Struct sized() {
    Struct made = {};
    made.struct_size = sizeof made;
    return made;
}

ferry_pool_desc desc_of(std::int32_t location, std::int32_t index = 0) {
    auto desc = sized<ferry_pool_desc>();
    desc.location = location;
    desc.index = index;
    return desc;
}

class pools : public ferry_test {
protected:
    void SetUp() override {
        ferry_test::SetUp();
        if (!device_info().memory_pools) GTEST_SKIP() << "this driver has no stream-ordered memory";
        stream = std::make_unique<test_stream>();
    }
    void TearDown() override {
        stream.reset();
        ferry_test::TearDown();
    }

    ferry_device_info device_info(int device = 0) const {
        auto info = sized<ferry_device_info>();
        EXPECT_OK(ferry_device_get_info(basic.get(), device, &info, nullptr));
        return info;
    }
    ferry_pool_info info_of(CUmemoryPool pool) const { return info_of(basic.get(), pool); }
    static ferry_pool_info info_of(ferry_instance *instance, CUmemoryPool pool) {
        auto info = sized<ferry_pool_info>();
        EXPECT_OK(ferry_pool_get_info(instance, pool, &info, nullptr));
        return info;
    }
    ferry_pool_stats stats_of(CUmemoryPool pool) const {
        auto stats = sized<ferry_pool_stats>();
        EXPECT_OK(ferry_pool_get_stats(basic.get(), pool, &stats, nullptr));
        return stats;
    }
    ferry_pool_attributes attributes_of(CUmemoryPool pool) const {
        auto attributes = sized<ferry_pool_attributes>();
        EXPECT_OK(ferry_pool_get_attributes(basic.get(), pool, &attributes, nullptr));
        return attributes;
    }
    ferry_address_info about(std::uint64_t address) const {
        auto info = sized<ferry_address_info>();
        EXPECT_OK(ferry_address_get_info(basic.get(), address, &info, nullptr));
        return info;
    }
    CUmemoryPool default_pool(int device = 0) const {
        CUmemoryPool pool = nullptr;
        EXPECT_OK(ferry_pool_get_default(basic.get(), FERRY_LOCATION_DEVICE, device, &pool, nullptr));
        return pool;
    }
    std::int32_t access_of(CUmemoryPool pool, int device) const {
        std::int32_t access = -1;
        EXPECT_OK(ferry_pool_get_access(basic.get(), pool, device, &access, nullptr));
        return access;
    }
    bool has_peers() const {
        int can = 0;
        return device_count() > 1 && raw().cuDeviceCanAccessPeer(&can, 1, 0) == CUDA_SUCCESS && can;
    }

    CUmemoryPool make(const ferry_pool_desc &desc) const { return make(basic.get(), desc); }
    static CUmemoryPool make(ferry_instance *instance, const ferry_pool_desc &desc) {
        CUmemoryPool pool = nullptr;
        ferry_error_info error = new_error();
        EXPECT_OK(ferry_pool_create(instance, &desc, &pool, &error)) << describe(error);
        return pool;
    }
    std::uint64_t take(CUmemoryPool pool, std::uint64_t size) const {
        std::uint64_t address = 0;
        EXPECT_OK(ferry_pool_alloc_async(basic.get(), pool, size, *stream, &address, nullptr));
        return address;
    }
    void free(std::uint64_t address) const {
        EXPECT_OK(ferry_device_free_async(basic.get(), address, *stream, nullptr));
    }
    void synchronize() const { EXPECT_OK(raw().cuStreamSynchronize(*stream)); }
    void destroy(CUmemoryPool pool) const { EXPECT_OK(ferry_pool_destroy(basic.get(), pool, nullptr)); }
    void expect_context_kept() const {
        CUcontext current = nullptr;
        EXPECT_OK(raw().cuCtxGetCurrent(&current));
        EXPECT_EQ(current, context);
    }

    std::unique_ptr<test_stream> stream;
};

// ---- Allocating and freeing

TEST_F(pools, memory_is_usable_for_work_enqueued_after_its_allocation) {
    test_place host(place_kind::pinned, {.width = 100'000}), back(place_kind::pinned, {.width = 100'000});
    host.fill(1);
    std::uint64_t address = 0;
    ASSERT_OK(ferry_device_alloc_async(basic.get(), FERRY_DEVICE_UNKNOWN, 100'000, *stream, &address, nullptr));
    EXPECT_EQ(address % 256, 0u);
    EXPECT_OK(
        ferry_copy_bytes_async(basic.get(), address, host.address(), 100'000, nullptr, *stream, nullptr, nullptr));
    EXPECT_OK(ferry_copy_bytes_async(full.get(), back.address(), address, 100'000, nullptr, *stream, nullptr, nullptr));
    EXPECT_OK(ferry_device_free_async(basic.get(), address, *stream, nullptr));
    synchronize();
    EXPECT_EQ(back.read(), host.picture());
}

TEST_F(pools, ferry_reports_the_pool_of_an_address) {
    const CUmemoryPool pool = make(desc_of(FERRY_LOCATION_DEVICE));
    const std::uint64_t address = take(pool, 1000);
    const ferry_address_info info = about(address + 900);
    EXPECT_EQ(info.memory, FERRY_MEMORY_DEVICE);
    EXPECT_EQ(info.device, 0);
    EXPECT_EQ(info.range_start, address);
    EXPECT_EQ(info.range_size, 1000u);
    EXPECT_EQ(info.device_address, address + 900);
    EXPECT_EQ(info.pool, pool);
    test_place plain(place_kind::device, {.width = 64});
    EXPECT_EQ(about(plain.address()).pool, nullptr);
    free(address);
    EXPECT_EQ(about(address).memory, FERRY_MEMORY_PAGEABLE) << "gone as soon as the call returns";
    destroy(pool);
}

TEST_F(pools, allocating_and_freeing_on_a_named_stream_is_one_driver_call_each) {
    fault_driver driver(raw_entry_points());
    const instance_owner counted = open_or_fail(driver.options());
    const CUmemoryPool pool = make(counted.get(), desc_of(FERRY_LOCATION_DEVICE));
    std::uint64_t first = 0, second = 0;
    driver.reset_counts();
    ASSERT_OK(ferry_device_alloc_async(counted.get(), FERRY_DEVICE_UNKNOWN, 4096, *stream, &first, nullptr));
    ASSERT_OK(ferry_pool_alloc_async(counted.get(), pool, 4096, *stream, &second, nullptr));
    EXPECT_EQ(driver.calls_beginning("cu"), 2);
    ASSERT_OK(ferry_device_free_async(counted.get(), first, *stream, nullptr));
    ASSERT_OK(ferry_device_free_async(counted.get(), second, *stream, nullptr));
    EXPECT_EQ(driver.calls_beginning("cu"), 4);
    EXPECT_OK(ferry_context_synchronize(counted.get(), 0, nullptr, nullptr));
    driver.reset_counts();
    ASSERT_OK(ferry_device_alloc_async(counted.get(), 0, 4096, *stream, &first, nullptr));
    EXPECT_EQ(driver.calls_beginning("cu"), device_count() > 1 ? 2 : 1) << "queries the device if there are several";
    EXPECT_OK(ferry_device_free_async(counted.get(), first, *stream, nullptr));
    EXPECT_OK(ferry_pool_destroy(counted.get(), pool, nullptr));
}

TEST_F(pools, allocating_no_bytes_succeeds) {
    std::uint64_t address = 1;
    ASSERT_OK(ferry_device_alloc_async(basic.get(), 0, 0, *stream, &address, nullptr));
    EXPECT_OK(ferry_device_free_async(basic.get(), address, *stream, nullptr));
    EXPECT_OK(ferry_device_free_async(basic.get(), 0, *stream, nullptr));
    EXPECT_OK(ferry_device_free_async(basic.get(), 0, nullptr, nullptr));
    synchronize();
}

TEST_F(pools, either_free_takes_memory_of_either_kind) {
    std::uint64_t pooled = 0, plain = 0, on_host = 0;
    ASSERT_OK(ferry_device_alloc_async(basic.get(), 0, 4096, *stream, &pooled, nullptr));
    ASSERT_OK(ferry_device_alloc(basic.get(), 0, 4096, &plain, nullptr));
    EXPECT_OK(ferry_device_free(basic.get(), pooled, nullptr));
    EXPECT_OK(ferry_device_free_async(basic.get(), plain, *stream, nullptr));
    EXPECT_EQ(ferry_device_free(basic.get(), pooled, nullptr), FERRY_ERROR_ADDRESS);
    if (device_info().host_memory_pools) {
        const CUmemoryPool pool = make(desc_of(FERRY_LOCATION_HOST));
        on_host = take(pool, 4096);
        synchronize();
        EXPECT_OK(ferry_device_free(basic.get(), on_host, nullptr));
        destroy(pool);
    }
    synchronize();
}

TEST_F(pools, memory_that_cannot_be_freed_is_distinguished_from_a_failed_free) {
    const std::uint64_t address = take(default_pool(), 4096);
    test_place pageable(place_kind::pageable, {.width = 64});
    for (const CUstream on : {CUstream{*stream}, CUstream{nullptr}}) {
        EXPECT_EQ(ferry_device_free_async(basic.get(), address + 256, on, nullptr), FERRY_ERROR_ADDRESS)
            << "not its beginning";
        EXPECT_EQ(ferry_device_free_async(basic.get(), pageable.address(), on, nullptr), FERRY_ERROR_ADDRESS);
    }
    EXPECT_OK(ferry_device_free_async(basic.get(), address, nullptr, nullptr));
    EXPECT_EQ(ferry_device_free_async(basic.get(), address, nullptr, nullptr), FERRY_ERROR_ADDRESS) << "already freed";
    EXPECT_EQ(ferry_device_free_async(basic.get(), address, *stream, nullptr), FERRY_ERROR_ADDRESS);

    fault_driver driver(raw_entry_points());
    const instance_owner faulty = open_or_fail(driver.options());
    std::uint64_t other = take(default_pool(), 4096);
    driver.fail("cuMemFreeAsync", CUDA_ERROR_ILLEGAL_ADDRESS);
    EXPECT_EQ(ferry_device_free_async(faulty.get(), other, *stream, nullptr),
              FERRY_STATUS_DRIVER_BASE - CUDA_ERROR_ILLEGAL_ADDRESS);
    driver.fail("cuMemFreeAsync", CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(ferry_device_free_async(faulty.get(), other, *stream, nullptr),
              FERRY_STATUS_DRIVER_BASE - CUDA_ERROR_INVALID_VALUE)
        << "nothing is wrong with the memory: the driver knows why";
    free(other);
}

TEST_F(pools, a_thread_without_a_context_allocates_and_frees) {
    made_current nothing(nullptr);
    for (const CUstream on : {CUstream{*stream}, CUstream{nullptr}, CU_STREAM_PER_THREAD}) {
        std::uint64_t address = 0;
        ASSERT_OK(ferry_device_alloc_async(basic.get(), 0, 4096, on, &address, nullptr));
        EXPECT_EQ(about(address).device, 0);
        EXPECT_OK(ferry_device_free_async(basic.get(), address, on, nullptr));
        CUmemoryPool pool = default_pool();
        ASSERT_OK(ferry_pool_alloc_async(basic.get(), pool, 4096, on, &address, nullptr));
        EXPECT_OK(ferry_device_free_async(basic.get(), address, on, nullptr));
        CUcontext current = context;
        EXPECT_OK(raw().cuCtxGetCurrent(&current));
        EXPECT_EQ(current, nullptr);
    }
}

TEST_F(pools, a_default_stream_needs_the_device_named) {
    std::uint64_t address = 1;
    for (const CUstream on : {CUstream{nullptr}, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD})
        EXPECT_EQ(ferry_device_alloc_async(basic.get(), FERRY_DEVICE_UNKNOWN, 64, on, &address, nullptr),
                  FERRY_ERROR_DEVICE);
    EXPECT_EQ(address, 0u);
    for (const int device : {-2, device_count()})
        for (const CUstream on : {CUstream{nullptr}, CUstream{*stream}}) {
            ferry_error_info error = new_error();
            expect_refusal(ferry_device_alloc_async(basic.get(), device, 64, on, &address, &error), error,
                           FERRY_ERROR_DEVICE, FERRY_SIDE_NONE, FERRY_FIELD_DEVICE);
        }
}

TEST_F(pools, memory_is_on_the_named_device_whatever_context_is_current) {
    if (device_count() < 2) GTEST_SKIP() << "needs two devices";
    other_device other;
    for (const CUcontext current : {context, other.context, CUcontext{nullptr}})
        for (const CUstream on : {CUstream{*stream}, CUstream{nullptr}, CU_STREAM_PER_THREAD})
            for (const int device : {0, 1}) {
                SCOPED_TRACE(testing::Message() << "stream " << on << " device " << device);
                made_current now(current);
                std::uint64_t address = 0;
                ASSERT_OK(ferry_device_alloc_async(basic.get(), device, 4096, on, &address, nullptr));
                const ferry_address_info info = about(address);
                EXPECT_EQ(info.device, device);
                EXPECT_EQ(info.pool, default_pool(device));
                EXPECT_OK(ferry_device_free_async(basic.get(), address, on, nullptr));
                ASSERT_OK(ferry_pool_alloc_async(basic.get(), default_pool(device), 4096, on, &address, nullptr));
                EXPECT_EQ(about(address).device, device);
                EXPECT_OK(ferry_device_free_async(basic.get(), address, on, nullptr));
                CUcontext after = nullptr;
                EXPECT_OK(raw().cuCtxGetCurrent(&after));
                EXPECT_EQ(after, current);
            }
}

TEST_F(pools, a_free_takes_effect_after_the_work_before_it) {
    test_place host(place_kind::pinned, {.width = mib});
    host.fill(1);
    const CUmemoryPool pool = make(desc_of(FERRY_LOCATION_DEVICE));
    const std::uint64_t first = take(pool, 20 * mib);
    ferry_place place;
    ferry_place_device(&place, 0, first);
    const std::uint8_t seven = 7;
    ferry_fill_desc fill;
    ferry_fill_desc_init(&fill, &place, mib, 1, 1, &seven, 1);
    gate held(*stream);
    EXPECT_OK(ferry_fill_async(basic.get(), &fill, nullptr, *stream, nullptr, nullptr));
    EXPECT_OK(ferry_copy_bytes_async(basic.get(), host.address(), first, mib, nullptr, *stream, nullptr, nullptr));
    free(first);
    free(take(pool, 20 * mib));
    EXPECT_EQ(host.read(), host.picture()) << "the stream is blocked";
    EXPECT_EQ(stats_of(pool).reserved_current, 32 * mib) << "memory freed and allocated on one stream is reused";
    held.open();
    synchronize();
    EXPECT_EQ(host.read(), bytes(mib, std::byte{7}));
    destroy(pool);
}

// ---- Copies and fills

TEST_F(pools, memory_is_filled_and_copied_on_every_stream_and_in_every_context) {
    const auto other = device_count() > 1 ? std::make_unique<other_device>() : nullptr;
    const CUmemoryPool pool = make(desc_of(FERRY_LOCATION_DEVICE));
    const std::uint64_t address = take(pool, 4096);
    synchronize();
    test_place back(place_kind::pinned, {.width = 4096});
    std::uint8_t value = 0;
    for (const CUcontext current : {context, other ? other->context : nullptr, CUcontext{nullptr}})
        for (const CUstream on : {CUstream{*stream}, CUstream{nullptr}, CU_STREAM_PER_THREAD})
            for (const bool is_stated : {true, false})
                for (ferry_instance *const instance : {basic.get(), full.get()}) {
                    made_current now(current);
                    ferry_place place;
                    ferry_place_device(&place, is_stated ? 0 : FERRY_DEVICE_UNKNOWN, address);
                    ferry_fill_desc fill;
                    ++value;
                    ferry_fill_desc_init(&fill, &place, 4096, 1, 1, &value, 1);
                    ferry_error_info error = new_error();
                    ASSERT_OK(ferry_fill_async(instance, &fill, nullptr, on, nullptr, &error)) << describe(error);
                    {
                        made_current its_own(context);
                        ASSERT_OK(raw().cuCtxSynchronize());
                    }
                    ferry_place to;
                    ferry_place_host(&to, reinterpret_cast<void *>(back.address()));
                    const ferry_copy_desc copy = describe_copy(place, to, 4096);
                    ASSERT_OK(ferry_copy(instance, &copy, nullptr, &error)) << describe(error);
                    EXPECT_EQ(back.read(), bytes(4096, std::byte{value}));
                }
    free(address);
    destroy(pool);
}

TEST_F(pools, a_fill_on_another_devices_stream_needs_access) {
    if (!has_peers()) GTEST_SKIP() << "needs two devices with peer access";
    other_device other;
    made_current there(other);
    test_stream far;
    const CUmemoryPool pool = make(desc_of(FERRY_LOCATION_DEVICE));
    const std::uint64_t address = take(pool, 4096);
    ferry_place place;
    ferry_place_device(&place, 0, address);
    const std::uint8_t five = 5;
    ferry_fill_desc fill;
    ferry_fill_desc_init(&fill, &place, 4096, 1, 1, &five, 1);
    ferry_error_info error = new_error();
    const std::int32_t status = ferry_fill_async(basic.get(), &fill, nullptr, far, nullptr, &error);
    expect_refusal(status, error, FERRY_ERROR_DEVICE, FERRY_SIDE_DESTINATION, FERRY_FIELD_DEVICE);
    ASSERT_OK(ferry_pool_set_access(basic.get(), pool, 1, FERRY_ACCESS_READ_WRITE, nullptr));
    EXPECT_OK(ferry_fill_async(basic.get(), &fill, nullptr, far, nullptr, &error)) << describe(error);
    EXPECT_OK(raw().cuStreamSynchronize(far));
    EXPECT_EQ(read_back(address, 4096), bytes(4096, std::byte{5}));
    free(address);
    destroy(pool);
}

// ---- Capture

struct captured {
    explicit captured(CUstream stream) {
        CUgraph graph = nullptr;
        EXPECT_OK(raw().cuStreamEndCapture(stream, &graph));
        if (!graph) return;
        EXPECT_OK(raw().cuGraphInstantiateWithFlags(&runs, graph, 0));
        EXPECT_OK(raw().cuGraphDestroy(graph));
    }
    ~captured() {
        if (runs) {
            EXPECT_OK(raw().cuGraphExecDestroy(runs));
        }
    }
    captured(const captured &) = delete;
    CUgraphExec runs = nullptr;
};

// Before the graph is launched the driver knows nothing of the memory, so ferry takes the kind and device that the
// place states.
TEST_F(pools, allocation_fill_copy_and_free_are_captured_together) {
    test_place host(place_kind::pinned, {.width = 4096}), back(place_kind::pinned, {.width = 8192});
    for (ferry_instance *const instance : {basic.get(), full.get()}) {
        std::uint64_t address = 0;
        ferry_error_info error = new_error();
        ASSERT_OK(raw().cuStreamBeginCapture(*stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
        ASSERT_OK(ferry_device_alloc_async(instance, FERRY_DEVICE_UNKNOWN, 8192, *stream, &address, nullptr));
        ferry_place place;
        ferry_place_device(&place, 0, address);
        const std::uint8_t nine = 9;
        ferry_fill_desc fill;
        ferry_fill_desc_init(&fill, &place, 8192, 1, 1, &nine, 1);
        EXPECT_OK(ferry_fill_async(instance, &fill, nullptr, *stream, nullptr, &error)) << describe(error);
        ferry_copy_desc copy = describe_copy(host.describe(statement::stated), place, 4096);
        EXPECT_OK(ferry_copy_async(instance, &copy, nullptr, *stream, nullptr, &error)) << describe(error);
        copy = describe_copy(place, back.describe(statement::any), 8192);
        EXPECT_OK(ferry_copy_async(instance, &copy, nullptr, *stream, nullptr, &error)) << describe(error);
        EXPECT_OK(ferry_device_free_async(instance, address, *stream, nullptr));
        const captured graph(*stream);
        ASSERT_TRUE(graph.runs);
        for (std::uint64_t seed = 1; seed < 3; ++seed) {
            host.fill(seed);
            back.fill(seed + 10);
            ASSERT_OK(raw().cuGraphLaunch(graph.runs, *stream));
            synchronize();
            bytes expected(8192, std::byte{9});
            std::copy(host.picture().begin(), host.picture().end(), expected.begin());
            EXPECT_EQ(back.read(), expected);
        }
    }
}

TEST_F(pools, full_checks_trust_no_stated_kind_outside_a_capture) {
    const std::uint64_t address = take(default_pool(), 4096);
    free(address);
    synchronize();
    test_place back(place_kind::pinned, {.width = 64});
    ferry_place place;
    ferry_place_device(&place, 0, address);
    const ferry_copy_desc copy = describe_copy(place, back.describe(statement::stated), 64);
    ferry_error_info error = new_error();
    std::int32_t status = ferry_copy_async(full.get(), &copy, nullptr, *stream, nullptr, &error);
    expect_refusal(status, error, FERRY_ERROR_ADDRESS, FERRY_SIDE_SOURCE, FERRY_FIELD_ADDRESS);
    status = ferry_copy(full.get(), &copy, nullptr, &error);
    expect_refusal(status, error, FERRY_ERROR_ADDRESS, FERRY_SIDE_SOURCE, FERRY_FIELD_ADDRESS);
}

TEST_F(pools, pool_management_leaves_a_capture_on_the_same_thread_alone) {
    const CUmemoryPool old = make(desc_of(FERRY_LOCATION_DEVICE));
    test_place memory(place_kind::device, {.width = 64}), back(place_kind::pinned, {.width = 64});
    ASSERT_OK(raw().cuStreamBeginCapture(*stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    const CUmemoryPool pool = make(desc_of(FERRY_LOCATION_DEVICE));
    info_of(pool);
    info_of(default_pool());
    stats_of(pool);
    const ferry_pool_attributes attributes = attributes_of(pool);
    EXPECT_OK(ferry_pool_set_attributes(basic.get(), pool, &attributes, nullptr));
    EXPECT_OK(ferry_pool_reset_stats(basic.get(), pool, nullptr));
    EXPECT_OK(ferry_pool_trim(basic.get(), pool, 0, nullptr));
    EXPECT_OK(ferry_pool_set_current(basic.get(), FERRY_LOCATION_DEVICE, 0, pool, nullptr));
    EXPECT_OK(ferry_pool_set_current(basic.get(), FERRY_LOCATION_DEVICE, 0, default_pool(), nullptr));
    access_of(pool, 0);
    if (has_peers()) {
        EXPECT_OK(ferry_pool_set_access(basic.get(), pool, 1, FERRY_ACCESS_READ_WRITE, nullptr));
        EXPECT_OK(ferry_pool_set_access(basic.get(), pool, 1, FERRY_ACCESS_NONE, nullptr));
    }
    destroy(pool);
    destroy(old);
    EXPECT_OK(
        ferry_copy_bytes_async(basic.get(), back.address(), memory.address(), 64, nullptr, *stream, nullptr, nullptr));
    const captured graph(*stream);
    EXPECT_TRUE(graph.runs);
}

// A graph takes no copies that name contexts.
TEST_F(pools, copies_between_devices_are_captured_if_one_context_reaches_both) {
    if (device_count() < 2) GTEST_SKIP() << "needs two devices";
    constexpr place_kind kinds[] = {place_kind::pinned, place_kind::device, place_kind::array_2d, place_kind::pool};
    const grid shape = {.width = 64, .height = 8};
    for (const place_kind from : kinds)
        for (const place_kind to : kinds)
            for (const int from_device : {0, 1})
                for (const int to_device : {0, 1})
                    for (ferry_instance *const instance : {basic.get(), full.get()}) {
                        SCOPED_TRACE(testing::Message() << name_of(from) << " on " << from_device << " to "
                                                        << name_of(to) << " on " << to_device);
                        test_place source(from, shape, from_device), destination(to, shape, to_device);
                        source.fill(1);
                        const ferry_copy_desc copy = describe_copy(source.describe(statement::stated),
                                                                   destination.describe(statement::stated), 64, 8);
                        ferry_error_info error = new_error();
                        ASSERT_OK(raw().cuStreamBeginCapture(*stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
                        auto told = sized<ferry_explanation>();
                        const std::int32_t explained =
                            ferry_copy_explain_async(instance, &copy, nullptr, *stream, &told, nullptr);
                        const std::int32_t status =
                            ferry_copy_async(instance, &copy, nullptr, *stream, nullptr, &error);
                        EXPECT_EQ(explained, status);
                        const captured graph(*stream);
                        ASSERT_TRUE(graph.runs) << "a refusal does not break the capture";
                        expect_context_kept();
                        if (from == place_kind::pool && to == place_kind::pool && from_device != to_device) {
                            EXPECT_EQ(status, FERRY_ERROR_CAPTURE) << "no context reaches both pools";
                            EXPECT_EQ(error.status, FERRY_ERROR_CAPTURE);
                            continue;
                        }
                        ASSERT_OK(status) << describe(error);
                        EXPECT_STREQ(told.driver_call, "cuMemcpy3DAsync");
                        ASSERT_OK(raw().cuGraphLaunch(graph.runs, *stream));
                        synchronize();
                        EXPECT_EQ(destination.read(), source.picture());
                    }
}

TEST_F(pools, copies_between_pools_of_two_devices_are_captured_once_one_has_access_to_the_other) {
    if (!has_peers()) GTEST_SKIP() << "needs two devices with peer access";
    const CUmemoryPool near = make(desc_of(FERRY_LOCATION_DEVICE, 0)), far = make(desc_of(FERRY_LOCATION_DEVICE, 1));
    ASSERT_OK(ferry_pool_set_access(basic.get(), near, 1, FERRY_ACCESS_READ_WRITE, nullptr));
    const std::uint64_t source = take(near, 4096), destination = take(far, 4096);
    synchronize();
    ASSERT_OK(raw().cuMemsetD8Async(source, 3, 4096, *stream));
    synchronize();
    ASSERT_OK(raw().cuStreamBeginCapture(*stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    EXPECT_OK(ferry_copy_bytes_async(basic.get(), destination, source, 4096, nullptr, *stream, nullptr, nullptr));
    const captured graph(*stream);
    ASSERT_TRUE(graph.runs);
    ASSERT_OK(raw().cuGraphLaunch(graph.runs, *stream));
    synchronize();
    bytes back(4096);
    EXPECT_OK(ferry_copy_bytes(basic.get(), reinterpret_cast<std::uint64_t>(back.data()), destination, 4096, nullptr,
                               nullptr));
    EXPECT_EQ(back, bytes(4096, std::byte{3}));
    free(source);
    free(destination);
    destroy(near);
    destroy(far);
}

// ---- Properties of pools

TEST_F(pools, the_default_pool_belongs_to_the_driver_and_cannot_be_destroyed) {
    const CUmemoryPool pool = default_pool();
    const ferry_pool_info info = info_of(pool);
    EXPECT_EQ(info.location, FERRY_LOCATION_DEVICE);
    EXPECT_EQ(info.index, 0);
    EXPECT_EQ(info.is_default, 1);
    EXPECT_EQ(info.is_imported, 0);
    EXPECT_EQ(info.can_share, 0);
    EXPECT_EQ(info.handle_types, 0u);
    const ferry_pool_attributes attributes = attributes_of(pool);
    EXPECT_EQ(attributes.reuse_follow_event_dependencies, 1);
    EXPECT_EQ(attributes.reuse_opportunistic, 1);
    EXPECT_EQ(attributes.reuse_internal_dependencies, 1);
    EXPECT_EQ(attributes.release_threshold, 0u);
    EXPECT_EQ(ferry_pool_destroy(basic.get(), pool, nullptr), FERRY_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(default_pool(), pool);
    EXPECT_OK(ferry_pool_destroy(basic.get(), nullptr, nullptr));
}

TEST_F(pools, a_pool_has_the_requested_properties) {
    ferry_pool_desc desc = desc_of(FERRY_LOCATION_DEVICE, device_count() - 1);
    desc.handle_types = device_info(desc.index).pool_handle_types & FERRY_HANDLE_POSIX_FD;
    desc.max_size = 64 * mib;
    const CUmemoryPool pool = make(desc);
    const ferry_pool_info info = info_of(pool);
    EXPECT_EQ(info.location, FERRY_LOCATION_DEVICE);
    EXPECT_EQ(info.index, device_count() - 1);
    EXPECT_EQ(info.handle_types, desc.handle_types);
    EXPECT_EQ(info.max_size, 64 * mib);
    EXPECT_EQ(info.is_default, 0);
    EXPECT_EQ(info.can_share, desc.handle_types != 0);
    const std::uint64_t address = take(pool, 1 * mib);
    EXPECT_EQ(about(address).device, device_count() - 1);
    free(address);
    synchronize();
    destroy(pool);
}

TEST_F(pools, a_pool_grows_to_its_maximum_size_and_no_further) {
    ferry_pool_desc desc = desc_of(FERRY_LOCATION_DEVICE);
    desc.max_size = 64 * mib;
    const CUmemoryPool pool = make(desc);
    const std::uint64_t address = take(pool, 60 * mib);
    for (const CUstream on : {CUstream{*stream}, CUstream{nullptr}}) {
        std::uint64_t more = 1;
        EXPECT_EQ(ferry_pool_alloc_async(basic.get(), pool, 60 * mib, on, &more, nullptr), out_of_memory);
        EXPECT_EQ(more, 0u);
    }
    free(address);
    free(take(pool, 60 * mib));
    synchronize();
    destroy(pool);
}

TEST_F(pools, descriptions_that_cannot_be_made_are_refused_with_the_field_named) {
    CUmemoryPool pool = nullptr;
    const auto refuse = [&](const ferry_pool_desc &desc, std::int32_t status, std::int32_t field) {
        pool = default_pool();
        ferry_error_info error = new_error();
        const std::int32_t returned = ferry_pool_create(basic.get(), &desc, &pool, &error);
        expect_refusal(returned, error, status, FERRY_SIDE_OPTIONS, field);
        EXPECT_EQ(pool, nullptr);
        return describe(error);
    };
    EXPECT_EQ(refuse(desc_of(3), FERRY_ERROR_INVALID_ARGUMENT, FERRY_FIELD_LOCATION),
              "options.location: 3, must be from 0 to 2 (FERRY_ERROR_INVALID_ARGUMENT)");
    EXPECT_EQ(refuse(desc_of(-1), FERRY_ERROR_INVALID_ARGUMENT, FERRY_FIELD_LOCATION),
              "options.location: -1, must be from 0 to 2 (FERRY_ERROR_INVALID_ARGUMENT)");
    refuse(desc_of(FERRY_LOCATION_DEVICE, -1), FERRY_ERROR_DEVICE, FERRY_FIELD_INDEX);
    refuse(desc_of(FERRY_LOCATION_DEVICE, device_count()), FERRY_ERROR_DEVICE, FERRY_FIELD_INDEX);
    refuse(desc_of(FERRY_LOCATION_HOST, 1), FERRY_ERROR_INVALID_ARGUMENT, FERRY_FIELD_INDEX);
    refuse(desc_of(FERRY_LOCATION_HOST_NUMA, -1), FERRY_ERROR_INVALID_ARGUMENT, FERRY_FIELD_INDEX);
    if (device_info().host_numa_memory_pools)
        refuse(desc_of(FERRY_LOCATION_HOST_NUMA, 1000), FERRY_ERROR_INVALID_ARGUMENT, FERRY_FIELD_INDEX);
    ferry_pool_desc desc = desc_of(FERRY_LOCATION_DEVICE);
    desc.handle_types = 0x10;
    refuse(desc, FERRY_ERROR_INVALID_ARGUMENT, FERRY_FIELD_HANDLE_TYPES);
    desc.handle_types = FERRY_HANDLE_WIN32_KMT;
    if (!(device_info().pool_handle_types & FERRY_HANDLE_WIN32_KMT))
        refuse(desc, FERRY_ERROR_UNSUPPORTED, FERRY_FIELD_HANDLE_TYPES);
    desc = desc_of(FERRY_LOCATION_HOST);
    desc.handle_types = FERRY_HANDLE_POSIX_FD;
    if (device_info().host_memory_pools) refuse(desc, FERRY_ERROR_UNSUPPORTED, FERRY_FIELD_HANDLE_TYPES);
    desc = desc_of(FERRY_LOCATION_DEVICE);
    desc.struct_size = 4;
    refuse(desc, FERRY_ERROR_ABI_MISMATCH, FERRY_FIELD_STRUCT_SIZE);
}

TEST_F(pools, nulls_are_refused) {
    CUmemoryPool pool = default_pool(), made = nullptr;
    const ferry_pool_desc desc = desc_of(FERRY_LOCATION_DEVICE);
    ferry_instance *const it = basic.get();
    auto info = sized<ferry_pool_info>();
    auto attributes = sized<ferry_pool_attributes>();
    auto stats = sized<ferry_pool_stats>();
    std::uint64_t address = 1;
    std::int32_t access = 1;
    const std::int32_t statuses[] = {
        ferry_device_alloc_async(nullptr, 0, 64, *stream, &address, nullptr),
        ferry_device_alloc_async(it, 0, 64, *stream, nullptr, nullptr),
        ferry_device_free_async(nullptr, 64, *stream, nullptr),
        ferry_pool_create(nullptr, &desc, &made, nullptr),
        ferry_pool_create(it, nullptr, &made, nullptr),
        ferry_pool_create(it, &desc, nullptr, nullptr),
        ferry_pool_destroy(nullptr, pool, nullptr),
        ferry_pool_destroy_deferred(nullptr, pool, *stream, nullptr),
        ferry_pool_get_default(nullptr, 0, 0, &made, nullptr),
        ferry_pool_get_default(it, 0, 0, nullptr, nullptr),
        ferry_pool_get_default(it, 3, 0, &made, nullptr),
        ferry_pool_get_current(it, 0, 0, nullptr, nullptr),
        ferry_pool_get_current(nullptr, 0, 0, &made, nullptr),
        ferry_pool_get_current(it, FERRY_LOCATION_HOST, 1, &made, nullptr),
        ferry_pool_set_current(it, 0, 0, nullptr, nullptr),
        ferry_pool_set_current(nullptr, 0, 0, pool, nullptr),
        ferry_pool_alloc_async(it, nullptr, 64, *stream, &address, nullptr),
        ferry_pool_alloc_async(it, pool, 64, *stream, nullptr, nullptr),
        ferry_pool_alloc_async(nullptr, pool, 64, *stream, &address, nullptr),
        ferry_pool_get_info(it, nullptr, &info, nullptr),
        ferry_pool_get_info(it, pool, nullptr, nullptr),
        ferry_pool_get_attributes(it, nullptr, &attributes, nullptr),
        ferry_pool_get_attributes(it, pool, nullptr, nullptr),
        ferry_pool_set_attributes(it, nullptr, &attributes, nullptr),
        ferry_pool_set_attributes(it, pool, nullptr, nullptr),
        ferry_pool_get_stats(it, nullptr, &stats, nullptr),
        ferry_pool_get_stats(it, pool, nullptr, nullptr),
        ferry_pool_reset_stats(it, nullptr, nullptr),
        ferry_pool_reset_stats(nullptr, pool, nullptr),
        ferry_pool_trim(it, nullptr, 0, nullptr),
        ferry_pool_trim(nullptr, pool, 0, nullptr),
        ferry_pool_set_access(it, nullptr, 0, FERRY_ACCESS_READ_WRITE, nullptr),
        ferry_pool_set_access(it, pool, 0, 1, nullptr),
        ferry_pool_set_access(it, pool, 0, 2, nullptr),
        ferry_pool_get_access(it, nullptr, 0, &access, nullptr),
        ferry_pool_get_access(it, pool, 0, nullptr, nullptr),
    };
    for (const std::int32_t &status : statuses)
        EXPECT_EQ(status, FERRY_ERROR_INVALID_ARGUMENT) << &status - statuses;
    EXPECT_EQ(address, 0u);
    EXPECT_EQ(access, 0);
    EXPECT_EQ(ferry_pool_get_default(it, FERRY_LOCATION_DEVICE, device_count(), &made, nullptr), FERRY_ERROR_DEVICE);
    EXPECT_EQ(ferry_pool_set_access(it, pool, device_count(), 0, nullptr), FERRY_ERROR_DEVICE);
    EXPECT_EQ(ferry_pool_get_access(it, pool, -1, &access, nullptr), FERRY_ERROR_DEVICE);
    info.struct_size = stats.struct_size = attributes.struct_size = 4;
    EXPECT_EQ(ferry_pool_get_info(it, pool, &info, nullptr), FERRY_ERROR_ABI_MISMATCH);
    EXPECT_EQ(ferry_pool_get_stats(it, pool, &stats, nullptr), FERRY_ERROR_ABI_MISMATCH);
    EXPECT_EQ(ferry_pool_get_attributes(it, pool, &attributes, nullptr), FERRY_ERROR_ABI_MISMATCH);
    EXPECT_EQ(ferry_pool_set_attributes(it, pool, &attributes, nullptr), FERRY_ERROR_ABI_MISMATCH);
}

// ferry did not make these pools, and they are not current anywhere. Their location is not reported, because ferry would
// have to allocate from them. Allocations and access need it, and do allocate a byte.
TEST_F(pools, pools_of_the_program_work_everywhere) {
    fault_driver driver(raw_entry_points());
    const instance_owner counted = open_or_fail(driver.options());
    const int last = device_count() - 1;
    const CUmemLocation locations[] = {{CU_MEM_LOCATION_TYPE_DEVICE, last}, {CU_MEM_LOCATION_TYPE_HOST, 0}};
    for (const CUmemLocation &location : locations) {
        if (location.type == CU_MEM_LOCATION_TYPE_HOST && !device_info().host_memory_pools) continue;
        const bool on_device = location.type == CU_MEM_LOCATION_TYPE_DEVICE;
        CUmemPoolProps props = {};
        props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
        props.location = location;
        CUmemoryPool pool = nullptr;
        ASSERT_OK(raw().cuMemPoolCreate(&pool, &props));
        driver.reset_counts();
        const ferry_pool_info info = info_of(counted.get(), pool);
        EXPECT_EQ(info.location, FERRY_LOCATION_UNKNOWN);
        EXPECT_EQ(info.index, -1);
        EXPECT_EQ(info.is_default, 0);
        EXPECT_EQ(driver.calls("cuMemAllocFromPoolAsync"), 0);
        std::int32_t access = -1;
        EXPECT_OK(ferry_pool_get_access(counted.get(), pool, 0, &access, nullptr));
        EXPECT_EQ(access, on_device && last == 0 ? FERRY_ACCESS_READ_WRITE : FERRY_ACCESS_NONE);
        driver.reset_counts();
        EXPECT_OK(ferry_pool_set_access(counted.get(), pool, last, FERRY_ACCESS_READ_WRITE, nullptr));
        EXPECT_GE(driver.calls("cuMemAllocFromPoolAsync"), 1);
        EXPECT_EQ(driver.calls("cuMemFreeAsync"), driver.calls("cuMemAllocFromPoolAsync"));
        EXPECT_EQ(driver.calls("cuStreamDestroy"), driver.calls("cuStreamCreateWithPriority"));
        if (on_device) {
            ASSERT_OK(raw().cuDeviceSetMemPool(last, pool));
            driver.reset_counts();
            EXPECT_EQ(info_of(counted.get(), pool).location, FERRY_LOCATION_DEVICE);
            EXPECT_EQ(info_of(counted.get(), pool).index, last);
            EXPECT_EQ(driver.calls("cuMemAllocFromPoolAsync"), 0) << "the location of a current pool is known";
        }
        std::uint64_t address = 0;
        EXPECT_OK(ferry_pool_alloc_async(basic.get(), pool, 64, nullptr, &address, nullptr));
        EXPECT_EQ(about(address).pool, pool);
        EXPECT_OK(ferry_device_free_async(basic.get(), address, nullptr, nullptr));
        EXPECT_OK(ferry_pool_destroy(counted.get(), pool, nullptr));
    }
}

TEST_F(pools, allocations_that_name_no_pool_come_from_the_current_pool) {
    const CUmemoryPool pool = make(desc_of(FERRY_LOCATION_DEVICE));
    CUmemoryPool current = nullptr;
    EXPECT_OK(ferry_pool_get_current(basic.get(), FERRY_LOCATION_DEVICE, 0, &current, nullptr));
    EXPECT_EQ(current, default_pool());
    ASSERT_OK(ferry_pool_set_current(basic.get(), FERRY_LOCATION_DEVICE, 0, pool, nullptr));
    EXPECT_OK(ferry_pool_get_current(full.get(), FERRY_LOCATION_DEVICE, 0, &current, nullptr));
    EXPECT_EQ(current, pool);
    std::uint64_t address = 0, other = 0;
    ASSERT_OK(ferry_device_alloc_async(basic.get(), 0, 4096, *stream, &address, nullptr));
    ASSERT_OK(ferry_device_alloc_async(basic.get(), 0, 4096, nullptr, &other, nullptr));
    EXPECT_EQ(about(address).pool, pool);
    EXPECT_EQ(about(other).pool, pool);
    EXPECT_OK(ferry_device_free_async(basic.get(), other, nullptr, nullptr));
    if (device_count() > 1) {
        EXPECT_EQ(ferry_pool_set_current(basic.get(), FERRY_LOCATION_DEVICE, 1, pool, nullptr),
                  FERRY_ERROR_INVALID_ARGUMENT);
    }
    free(address);
    destroy(pool);
    EXPECT_OK(ferry_pool_get_current(basic.get(), FERRY_LOCATION_DEVICE, 0, &current, nullptr));
    EXPECT_EQ(current, default_pool());
}

TEST_F(pools, a_pool_in_use_cannot_be_destroyed_and_keeps_working) {
    const CUmemoryPool pool = make(desc_of(FERRY_LOCATION_DEVICE));
    const std::uint64_t address = take(pool, 4096);
    test_place host(place_kind::pinned, {.width = 4096});
    host.fill(1);
    EXPECT_EQ(ferry_pool_destroy(basic.get(), pool, nullptr), FERRY_ERROR_IN_USE);
    EXPECT_OK(ferry_copy_bytes_async(full.get(), address, host.address(), 4096, nullptr, *stream, nullptr, nullptr));
    synchronize();
    EXPECT_EQ(read_back(address, 4096), host.picture());
    free(take(pool, 64));
    free(address);
    destroy(pool); // waits for the frees
    EXPECT_EQ(about(address).memory, FERRY_MEMORY_PAGEABLE);
    // The driver must still be intact. CUDA 13.0 lost the memory of pools that were destroyed while in use, and then
    // crashed.
    for (int round = 0; round < 10; ++round) {
        const CUmemoryPool other = make(desc_of(FERRY_LOCATION_DEVICE));
        free(take(other, 20 * mib));
        destroy(other);
    }
}

class deferred_pools : public pools {
protected:
    std::int32_t end(CUmemoryPool pool) { return ferry_pool_destroy_deferred(counted.get(), pool, *stream, nullptr); }
    std::int32_t trim() { return ferry_deferred_trim(counted.get(), FERRY_DEVICE_UNKNOWN, 0, nullptr); }
    ferry_deferred_info kept(int device = FERRY_DEVICE_UNKNOWN) {
        auto info = sized<ferry_deferred_info>();
        EXPECT_OK(ferry_deferred_get_info(counted.get(), device, &info, nullptr));
        return info;
    }
    std::uint64_t take(CUmemoryPool pool, std::uint64_t size) {
        std::uint64_t address = 0;
        EXPECT_OK(ferry_pool_alloc_async(counted.get(), pool, size, *stream, &address, nullptr));
        return address;
    }

    fault_driver driver{raw_entry_points()};
    instance_owner counted = open_or_fail(driver.options());
};

TEST_F(deferred_pools, a_pool_is_destroyed_behind_the_frees_of_its_memory) {
    const CUmemoryPool pool = make(counted.get(), desc_of(FERRY_LOCATION_DEVICE));
    const std::uint64_t address = take(pool, 4 * mib);
    driver.reset_counts();
    {
        gate held(*stream);
        EXPECT_OK(ferry_device_free_async(counted.get(), address, *stream, nullptr));
        EXPECT_OK(end(pool)); // a call that waits would never return: the gate is closed
        EXPECT_OK(trim());
        EXPECT_EQ(kept(0).allocations, 1u);
        EXPECT_GE(kept(0).bytes, 4 * mib);
        EXPECT_EQ(driver.calls("cuMemPoolDestroy") + driver.calls("cuMemPoolTrimTo"), 0);
    }
    synchronize();
    EXPECT_OK(trim());
    EXPECT_EQ(kept().allocations, 0u);
    EXPECT_EQ(driver.calls("cuMemPoolDestroy"), 1);
    expect_context_kept();
    // The driver must still be intact: see a_pool_in_use_cannot_be_destroyed_and_keeps_working.
    for (int round = 0; round < 10; ++round) {
        const CUmemoryPool other = make(counted.get(), desc_of(FERRY_LOCATION_DEVICE));
        EXPECT_OK(ferry_device_free_async(counted.get(), take(other, 20 * mib), *stream, nullptr));
        EXPECT_OK(end(other));
        synchronize();
        EXPECT_OK(trim());
        EXPECT_EQ(kept().allocations, 0u);
    }
}

TEST_F(deferred_pools, a_pool_in_use_stays_until_its_memory_is_freed) {
    const CUmemoryPool pool = make(counted.get(), desc_of(FERRY_LOCATION_DEVICE));
    const std::uint64_t address = take(pool, 4096);
    EXPECT_OK(end(pool));
    synchronize();
    driver.reset_counts();
    EXPECT_OK(trim());
    EXPECT_EQ(kept().allocations, 1u);
    EXPECT_EQ(driver.calls("cuMemPoolDestroy") + driver.calls("cuCtxSynchronize"), 0);
    test_place host(place_kind::pinned, {.width = 4096});
    host.fill(1);
    EXPECT_OK(ferry_copy_bytes(counted.get(), address, host.address(), 4096, nullptr, nullptr));
    EXPECT_EQ(read_back(address, 4096), host.picture());
    EXPECT_OK(ferry_device_free_async(counted.get(), address, *stream, nullptr));
    synchronize();
    EXPECT_OK(trim());
    EXPECT_EQ(kept().allocations, 0u);
    EXPECT_EQ(driver.calls("cuMemPoolDestroy"), 1);
}

TEST_F(deferred_pools, no_call_accepts_an_ended_pool) {
    const CUmemoryPool pool = make(counted.get(), desc_of(FERRY_LOCATION_DEVICE));
    gate held(*stream);
    ASSERT_OK(end(pool));
    auto info = sized<ferry_pool_info>();
    auto attributes = sized<ferry_pool_attributes>();
    auto stats = sized<ferry_pool_stats>();
    ferry_ipc_handle handle = {};
    std::int64_t os_handle = -1;
    std::uint64_t address = 1;
    std::int32_t access = 1;
    ferry_instance *const it = counted.get();
    ferry_error_info error = new_error();
    expect_refusal(ferry_pool_destroy_deferred(it, pool, *stream, &error), error, FERRY_ERROR_INVALID_ARGUMENT,
                   FERRY_SIDE_NONE, FERRY_FIELD_POOL);
    EXPECT_EQ(error.value, reinterpret_cast<std::uintptr_t>(pool));
    const std::int32_t statuses[] = {
        ferry_pool_destroy(it, pool, nullptr),
        ferry_pool_set_current(it, 0, 0, pool, nullptr),
        ferry_pool_alloc_async(it, pool, 64, *stream, &address, nullptr),
        ferry_pool_alloc_async(it, pool, 64, nullptr, &address, nullptr),
        ferry_pool_get_info(it, pool, &info, nullptr),
        ferry_pool_get_attributes(it, pool, &attributes, nullptr),
        ferry_pool_set_attributes(it, pool, &attributes, nullptr),
        ferry_pool_get_stats(it, pool, &stats, nullptr),
        ferry_pool_reset_stats(it, pool, nullptr),
        ferry_pool_trim(it, pool, 0, nullptr),
        ferry_pool_set_access(it, pool, 0, FERRY_ACCESS_READ_WRITE, nullptr),
        ferry_pool_get_access(it, pool, 0, &access, nullptr),
    };
    for (const std::int32_t &status : statuses)
        EXPECT_EQ(status, FERRY_ERROR_INVALID_ARGUMENT) << &status - statuses;
    EXPECT_EQ(address, 0u);
    EXPECT_NE(ferry_ipc_export_pool(it, pool, FERRY_HANDLE_POSIX_FD, &handle, &os_handle, nullptr), FERRY_SUCCESS);
    EXPECT_EQ(kept().allocations, 1u);
    held.open();
    synchronize();
    EXPECT_OK(trim());
}

TEST_F(deferred_pools, the_default_pool_is_current_again) {
    const CUmemoryPool pool = make(counted.get(), desc_of(FERRY_LOCATION_DEVICE));
    ASSERT_OK(ferry_pool_set_current(counted.get(), FERRY_LOCATION_DEVICE, 0, pool, nullptr));
    const gate held(*stream);
    ASSERT_OK(end(pool));
    CUmemoryPool current = nullptr;
    EXPECT_OK(ferry_pool_get_current(counted.get(), FERRY_LOCATION_DEVICE, 0, &current, nullptr));
    EXPECT_EQ(current, default_pool());
}

TEST_F(deferred_pools, a_pool_that_cannot_be_ended_is_unchanged) {
    EXPECT_EQ(end(default_pool()), FERRY_ERROR_INVALID_ARGUMENT);
    EXPECT_OK(end(nullptr));
    const CUmemoryPool pool = make(counted.get(), desc_of(FERRY_LOCATION_DEVICE));
    ASSERT_OK(ferry_pool_set_current(counted.get(), FERRY_LOCATION_DEVICE, 0, pool, nullptr));
    {
        test_stream capturing;
        CUgraph graph = nullptr;
        ASSERT_OK(raw().cuStreamBeginCapture(capturing, CU_STREAM_CAPTURE_MODE_GLOBAL));
        ferry_error_info error = new_error();
        EXPECT_EQ(ferry_pool_destroy_deferred(counted.get(), pool, capturing, &error), FERRY_ERROR_CAPTURE);
        EXPECT_OK(raw().cuStreamEndCapture(capturing, &graph));
        EXPECT_OK(raw().cuGraphDestroy(graph));
    }
    for (const char *const entry : {"cuMemPoolGetAttribute", "cuEventCreate", "cuEventRecord", "cuCtxGetCurrent",
                                    "cuThreadExchangeStreamCaptureMode"}) {
        driver.fail(entry, CUDA_ERROR_UNKNOWN);
        EXPECT_EQ(end(pool), FERRY_STATUS_DRIVER_BASE - CUDA_ERROR_UNKNOWN) << entry;
        driver.heal();
    }
    EXPECT_EQ(kept().allocations, 0u);
    CUmemoryPool current = nullptr;
    EXPECT_OK(ferry_pool_get_current(counted.get(), FERRY_LOCATION_DEVICE, 0, &current, nullptr));
    EXPECT_EQ(current, pool);
    EXPECT_OK(ferry_device_free_async(counted.get(), take(pool, 64), *stream, nullptr));
    EXPECT_OK(end(pool));
    synchronize();
    driver.fail("cuMemPoolDestroy", CUDA_ERROR_UNKNOWN);
    EXPECT_EQ(trim(), FERRY_STATUS_DRIVER_BASE - CUDA_ERROR_UNKNOWN);
    EXPECT_EQ(kept().allocations, 1u) << "a pool that the driver does not destroy stays";
    driver.heal();
    EXPECT_OK(trim());
    EXPECT_EQ(kept().allocations, 0u);
}

TEST_F(deferred_pools, closing_the_instance_destroys_kept_pools_that_are_unused) {
    const CUmemoryPool unused = make(counted.get(), desc_of(FERRY_LOCATION_DEVICE)),
                       used = make(counted.get(), desc_of(FERRY_LOCATION_DEVICE));
    const std::uint64_t address = take(used, 4096);
    gate held(*stream);
    EXPECT_OK(end(unused));
    EXPECT_OK(end(used));
    driver.reset_counts();
    held.let_go();
    counted.reset();
    EXPECT_EQ(driver.calls("cuMemPoolDestroy"), 1);
    held.open();
    free(address);
    destroy(used);
}

TEST_F(pools, attributes_are_set_as_far_as_the_size_of_the_struct_reaches) {
    const CUmemoryPool pool = make(desc_of(FERRY_LOCATION_DEVICE));
    ferry_pool_attributes attributes = attributes_of(pool);
    attributes.reuse_follow_event_dependencies = 0;
    attributes.reuse_opportunistic = 0;
    attributes.reuse_internal_dependencies = 0;
    attributes.release_threshold = 5 * mib;
    ASSERT_OK(ferry_pool_set_attributes(basic.get(), pool, &attributes, nullptr));
    ferry_pool_attributes read = attributes_of(pool);
    EXPECT_EQ(std::memcmp(&read, &attributes, sizeof read), 0);
    attributes.reuse_follow_event_dependencies = 1;
    attributes.reuse_opportunistic = 1;
    attributes.release_threshold = 9;
    attributes.struct_size = 12; // the first two attributes
    ASSERT_OK(ferry_pool_set_attributes(basic.get(), pool, &attributes, nullptr));
    read = attributes_of(pool);
    EXPECT_EQ(read.reuse_follow_event_dependencies, 1);
    EXPECT_EQ(read.reuse_opportunistic, 1);
    EXPECT_EQ(read.reuse_internal_dependencies, 0);
    EXPECT_EQ(read.release_threshold, 5 * mib);
    attributes = attributes_of(pool);
    attributes.reuse_opportunistic = 2;
    attributes.release_threshold = 1;
    EXPECT_EQ(ferry_pool_set_attributes(basic.get(), pool, &attributes, nullptr), FERRY_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(attributes_of(pool).release_threshold, 5 * mib);
    destroy(pool);
}

TEST_F(pools, statistics_follow_allocations_trims_and_resets) {
    const CUmemoryPool pool = make(desc_of(FERRY_LOCATION_DEVICE));
    ferry_pool_attributes attributes = attributes_of(pool);
    attributes.release_threshold = ~std::uint64_t{0};
    ASSERT_OK(ferry_pool_set_attributes(basic.get(), pool, &attributes, nullptr));
    const std::uint64_t kept = take(pool, 20 * mib), gone = take(pool, 30 * mib);
    ferry_pool_stats stats = stats_of(pool);
    EXPECT_EQ(stats.reserved_current, 64 * mib);
    EXPECT_EQ(stats.used_current, 50 * mib);
    free(gone);
    synchronize();
    stats = stats_of(pool);
    EXPECT_EQ(stats.reserved_current, 64 * mib) << "below the release threshold";
    EXPECT_EQ(stats.used_current, 20 * mib);
    EXPECT_EQ(stats.used_high, 50 * mib);
    ASSERT_OK(ferry_pool_trim(basic.get(), pool, 64 * mib, nullptr));
    EXPECT_EQ(stats_of(pool).reserved_current, 64 * mib);
    ASSERT_OK(ferry_pool_trim(basic.get(), pool, 0, nullptr));
    EXPECT_EQ(stats_of(pool).reserved_current, 32 * mib) << "memory in use stays";
    ASSERT_OK(ferry_pool_reset_stats(basic.get(), pool, nullptr));
    stats = stats_of(pool);
    EXPECT_EQ(stats.reserved_high, 32 * mib);
    EXPECT_EQ(stats.used_high, 20 * mib);
    attributes.release_threshold = 0;
    ASSERT_OK(ferry_pool_set_attributes(basic.get(), pool, &attributes, nullptr));
    free(kept);
    synchronize();
    EXPECT_EQ(stats_of(pool).reserved_current, 0u) << "above the release threshold";
    destroy(pool);
}

// ---- Pools in host memory

TEST_F(pools, host_pool_memory_is_usable_immediately_by_the_host_and_by_devices_with_access) {
    for (const std::int32_t location : {FERRY_LOCATION_HOST, FERRY_LOCATION_HOST_NUMA}) {
        const ferry_device_info device = device_info();
        const bool is_there =
            location == FERRY_LOCATION_HOST ? device.host_memory_pools : device.host_numa_memory_pools;
        if (!is_there) continue;
        SCOPED_TRACE(location);
        const CUmemoryPool pool = make(desc_of(location));
        EXPECT_EQ(info_of(pool).location, location);
        EXPECT_EQ(info_of(pool).can_share, 0);
        const std::uint64_t address = take(pool, 4096);
        synchronize();
        auto *const host = reinterpret_cast<std::byte *>(address);
        std::memset(host, 3, 4096);
        test_place memory(place_kind::device, {.width = 4096});
        const auto explain = [&] {
            ferry_place from;
            ferry_place_host(&from, host);
            const ferry_copy_desc copy = describe_copy(from, memory.describe(statement::stated), 4096);
            auto told = sized<ferry_explanation>();
            EXPECT_OK(ferry_copy_explain_async(basic.get(), &copy, nullptr, *stream, &told, nullptr));
            return told;
        };
        ferry_place place;
        ferry_place_any(&place, address);
        const std::uint8_t six = 6;
        ferry_fill_desc fill;
        ferry_fill_desc_init(&fill, &place, 4096, 1, 1, &six, 1);

        EXPECT_EQ(access_of(pool, 0), FERRY_ACCESS_NONE);
        EXPECT_EQ(about(address).memory, FERRY_MEMORY_PAGEABLE);
        EXPECT_EQ(about(address).range_start, 0u) << "the driver does not report where it begins";
        EXPECT_EQ(about(address).range_size, 0u);
        EXPECT_EQ(about(address).pool, pool);
        EXPECT_EQ(about(address).device_address, 0u);
        EXPECT_EQ(explain().source_memory, FERRY_MEMORY_PAGEABLE);
        EXPECT_EQ(explain().blocks, FERRY_BLOCKS_UNTIL_STAGED);
        ferry_error_info error = new_error();
        for (ferry_instance *const instance : {basic.get(), full.get()}) {
            EXPECT_OK(ferry_copy_bytes(instance, memory.address(), address, 4096, nullptr, nullptr));
            EXPECT_EQ(memory.read(), bytes(4096, std::byte{3}));
            const std::int32_t status = ferry_fill_async(instance, &fill, nullptr, *stream, nullptr, &error);
            expect_refusal(status, error, FERRY_ERROR_PAGEABLE, FERRY_SIDE_DESTINATION, FERRY_FIELD_ADDRESS);
        }

        ASSERT_OK(ferry_pool_set_access(basic.get(), pool, 0, FERRY_ACCESS_READ_WRITE, nullptr));
        EXPECT_EQ(access_of(pool, 0), FERRY_ACCESS_READ_WRITE);
        EXPECT_EQ(about(address).memory, FERRY_MEMORY_PINNED);
        EXPECT_NE(about(address).device_address, 0u);
        EXPECT_EQ(explain().blocks, FERRY_BLOCKS_NO);
        for (ferry_instance *const instance : {basic.get(), full.get()}) {
            std::memset(host, 0, 4096);
            EXPECT_OK(ferry_fill_async(instance, &fill, nullptr, *stream, nullptr, &error)) << describe(error);
            synchronize();
            EXPECT_EQ(host[4095], std::byte{6});
        }
        ASSERT_OK(ferry_pool_set_access(basic.get(), pool, 0, FERRY_ACCESS_NONE, nullptr));
        EXPECT_EQ(access_of(pool, 0), FERRY_ACCESS_NONE);
        {
            made_current nothing(nullptr);
            EXPECT_EQ(about(address).memory, FERRY_MEMORY_PAGEABLE);
            std::uint64_t more = 0;
            EXPECT_OK(ferry_pool_alloc_async(basic.get(), pool, 64, nullptr, &more, nullptr));
            EXPECT_OK(ferry_device_free_async(basic.get(), more, nullptr, nullptr));
        }
        free(address);
        synchronize();
        destroy(pool);
    }
}

// The driver's own call waits for nothing, and a copy in flight that still uses the access kills its context.
TEST_F(pools, revoking_access_waits_for_the_copies_in_flight) {
    if (device_count() < 2) GTEST_SKIP() << "needs two devices";
    const CUmemoryPool pool = make(desc_of(FERRY_LOCATION_DEVICE, 1));
    if (ferry_pool_set_access(basic.get(), pool, 0, FERRY_ACCESS_READ_WRITE, nullptr))
        GTEST_SKIP() << "needs two devices with peer access";
    std::uint64_t far = 0;
    {
        other_device other;
        ASSERT_OK(ferry_pool_alloc_async(basic.get(), pool, 1 << 20, nullptr, &far, nullptr));
        ASSERT_OK(raw().cuMemsetD8(far, 7, 1 << 20));
        synchronize();
    }
    test_place near(place_kind::device, {.width = 1 << 20}, 0);
    gate held(*stream);
    ASSERT_OK(ferry_copy_bytes_async(basic.get(), near.address(), far, 1 << 20, nullptr, *stream, nullptr, nullptr));
    std::atomic<bool> is_open = false;
    std::thread opens([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        is_open = true;
        held.let_go();
    });
    EXPECT_OK(ferry_pool_set_access(basic.get(), pool, 0, FERRY_ACCESS_NONE, nullptr));
    EXPECT_TRUE(is_open) << "the copy has not run yet";
    opens.join();
    ASSERT_OK(raw().cuStreamSynchronize(*stream));
    EXPECT_EQ(near.read().front(), std::byte{7});
}

// A fill runs in the context of its stream, which need not be the current context.
TEST_F(pools, host_pool_memory_is_filled_by_the_device_that_has_access) {
    if (device_count() < 2 || !device_info().host_memory_pools)
        GTEST_SKIP() << "needs two devices with host memory pools";
    other_device other;
    const CUmemoryPool pool = make(desc_of(FERRY_LOCATION_HOST));
    const std::uint64_t address = take(pool, 4096);
    synchronize();
    ASSERT_OK(ferry_pool_set_access(basic.get(), pool, 1, FERRY_ACCESS_READ_WRITE, nullptr));
    ferry_place place;
    ferry_place_any(&place, address);
    const std::uint8_t four = 4;
    ferry_fill_desc fill;
    ferry_fill_desc_init(&fill, &place, 4096, 1, 1, &four, 1);
    CUstream far = nullptr;
    {
        made_current there(other);
        ASSERT_OK(raw().cuStreamCreate(&far, CU_STREAM_NON_BLOCKING));
    }
    for (ferry_instance *const instance : {basic.get(), full.get()}) {
        ferry_error_info error = new_error();
        EXPECT_OK(ferry_fill_async(instance, &fill, nullptr, far, nullptr, &error)) << describe(error);
        const std::int32_t status = ferry_fill_async(instance, &fill, nullptr, *stream, nullptr, &error);
        expect_refusal(status, error, FERRY_ERROR_PAGEABLE, FERRY_SIDE_DESTINATION, FERRY_FIELD_ADDRESS);
    }
    EXPECT_OK(raw().cuStreamSynchronize(far));
    EXPECT_EQ(*reinterpret_cast<std::byte *>(address), std::byte{4});
    EXPECT_OK(raw().cuStreamDestroy(far));
    free(address);
    destroy(pool);
}

TEST_F(pools, host_locations_have_default_and_current_pools) {
    if (!raw().cuMemGetDefaultMemPool || !device_info().host_memory_pools)
        GTEST_SKIP() << "the driver has no host memory pools";
    CUmemoryPool standard = nullptr, current = nullptr;
    ASSERT_OK(ferry_pool_get_default(basic.get(), FERRY_LOCATION_HOST, 0, &standard, nullptr));
    EXPECT_EQ(info_of(standard).location, FERRY_LOCATION_HOST);
    EXPECT_EQ(info_of(standard).is_default, 1);
    EXPECT_EQ(info_of(standard).can_share, 0);
    const CUmemoryPool pool = make(desc_of(FERRY_LOCATION_HOST));
    ASSERT_OK(ferry_pool_set_current(basic.get(), FERRY_LOCATION_HOST, 0, pool, nullptr));
    EXPECT_OK(ferry_pool_get_current(basic.get(), FERRY_LOCATION_HOST, 0, &current, nullptr));
    EXPECT_EQ(current, pool);
    destroy(pool);
    EXPECT_OK(ferry_pool_get_current(basic.get(), FERRY_LOCATION_HOST, 0, &current, nullptr));
    EXPECT_EQ(current, standard);
    EXPECT_EQ(ferry_pool_get_default(basic.get(), FERRY_LOCATION_HOST_NUMA, 1000, &current, nullptr),
              FERRY_ERROR_INVALID_ARGUMENT);
}

// ---- Access

TEST_F(pools, the_owner_has_access_and_keeps_it) {
    const CUmemoryPool pool = make(desc_of(FERRY_LOCATION_DEVICE));
    EXPECT_EQ(access_of(pool, 0), FERRY_ACCESS_READ_WRITE);
    EXPECT_OK(ferry_pool_set_access(basic.get(), pool, 0, FERRY_ACCESS_READ_WRITE, nullptr));
    EXPECT_EQ(ferry_pool_set_access(basic.get(), pool, 0, FERRY_ACCESS_NONE, nullptr), FERRY_ERROR_DEVICE);
    EXPECT_EQ(access_of(pool, 0), FERRY_ACCESS_READ_WRITE);
    destroy(pool);
}

TEST_F(pools, access_is_granted_and_revoked_and_probed_once) {
    if (!has_peers()) GTEST_SKIP() << "needs two devices with peer access";
    fault_driver driver(raw_entry_points());
    const instance_owner counted = open_or_fail(driver.options());
    const CUmemoryPool pool = make(counted.get(), desc_of(FERRY_LOCATION_DEVICE));
    const std::uint64_t address = take(pool, 4096);
    const auto reaches = [&] {
        other_device other;
        made_current there(other);
        CUdeviceptr seen = 0;
        raw().cuPointerGetAttribute(&seen, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, address);
        return seen != 0;
    };
    EXPECT_EQ(access_of(pool, 1), FERRY_ACCESS_NONE);
    EXPECT_FALSE(reaches());
    ASSERT_OK(ferry_pool_set_access(counted.get(), pool, 1, FERRY_ACCESS_READ_WRITE, nullptr));
    const int copies = driver.calls("cuMemcpy3DAsync");
    EXPECT_EQ(copies, 8);
    EXPECT_EQ(access_of(pool, 1), FERRY_ACCESS_READ_WRITE);
    EXPECT_TRUE(reaches());
    ASSERT_OK(ferry_pool_set_access(counted.get(), pool, 1, FERRY_ACCESS_NONE, nullptr));
    EXPECT_FALSE(reaches());
    ASSERT_OK(ferry_pool_set_access(counted.get(), pool, 1, FERRY_ACCESS_READ_WRITE, nullptr));
    EXPECT_TRUE(reaches());
    EXPECT_EQ(driver.calls("cuMemcpy3DAsync"), copies) << "the result of the probe was remembered";
    EXPECT_EQ(driver.calls("cuMemAlloc"), driver.calls("cuMemFree"));
    EXPECT_EQ(driver.calls("cuMemAllocFromPoolAsync"), driver.calls("cuMemFreeAsync"));
    EXPECT_EQ(driver.calls("cuStreamCreateWithPriority"), driver.calls("cuStreamDestroy"));
    expect_context_kept();
    free(address);
    EXPECT_OK(ferry_pool_destroy(counted.get(), pool, nullptr));
}

TEST_F(pools, access_that_the_driver_does_not_grant_is_reported) {
    if (!has_peers()) GTEST_SKIP() << "needs two devices with peer access";
    fault_driver driver(raw_entry_points());
    const instance_owner faulty = open_or_fail(driver.options());
    const CUmemoryPool pool = make(faulty.get(), desc_of(FERRY_LOCATION_DEVICE));
    driver.fail("cuMemPoolSetAccess", CUDA_SUCCESS); // the call succeeds without doing anything
    EXPECT_EQ(ferry_pool_set_access(faulty.get(), pool, 1, FERRY_ACCESS_READ_WRITE, nullptr), FERRY_ERROR_PEER_ACCESS);
    EXPECT_EQ(access_of(pool, 1), FERRY_ACCESS_NONE);
    EXPECT_OK(ferry_pool_set_access(faulty.get(), pool, 1, FERRY_ACCESS_READ_WRITE, nullptr));
    EXPECT_OK(ferry_pool_destroy(faulty.get(), pool, nullptr));
}

TEST_F(pools, a_pair_that_lost_data_before_gets_no_access) {
    if (!has_peers()) GTEST_SKIP() << "needs two devices with peer access";
    fault_driver driver(raw_entry_points());
    const instance_owner faulty = open_or_fail(driver.options());
    const CUmemoryPool pool = make(faulty.get(), desc_of(FERRY_LOCATION_DEVICE));
    driver.fail("cuMemcpy3DPeerAsync", CUDA_SUCCESS, 3);
    EXPECT_EQ(ferry_peer_probe(faulty.get(), 1, 0, nullptr), FERRY_ERROR_DATA_LOST);
    EXPECT_EQ(ferry_pool_set_access(faulty.get(), pool, 1, FERRY_ACCESS_READ_WRITE, nullptr), FERRY_ERROR_DATA_LOST);
    EXPECT_EQ(access_of(pool, 1), FERRY_ACCESS_NONE);
    EXPECT_OK(ferry_pool_destroy(faulty.get(), pool, nullptr));
}

// ---- Drivers that lack entry points or fail

TEST_F(pools, a_driver_without_the_entry_points_is_reported_and_everything_else_works) {
    const char *const all[] = {
        "cuMemAllocAsync",    "cuMemFreeAsync",         "cuMemAllocFromPoolAsync", "cuMemPoolCreate",
        "cuMemPoolDestroy",   "cuMemPoolSetAttribute",  "cuMemPoolGetAttribute",   "cuMemPoolTrimTo",
        "cuMemPoolSetAccess", "cuMemPoolGetAccess",     "cuDeviceGetMemPool",      "cuDeviceGetDefaultMemPool",
        "cuDeviceSetMemPool", "cuMemGetDefaultMemPool", "cuMemGetMemPool",         "cuMemSetMemPool"};
    const CUmemoryPool pool = make(desc_of(FERRY_LOCATION_DEVICE));
    fault_driver driver(raw_entry_points());
    for (const char *const entry : all)
        driver.hide(entry);
    const instance_owner old = open_or_fail(driver.options());
    ferry_instance *const it = old.get();
    const ferry_pool_desc desc = desc_of(FERRY_LOCATION_DEVICE);
    CUmemoryPool made = nullptr;
    auto info = sized<ferry_pool_info>();
    auto attributes = sized<ferry_pool_attributes>();
    auto stats = sized<ferry_pool_stats>();
    std::uint64_t address = 1;
    std::int32_t access = 1;
    test_place plain(place_kind::device, {.width = 64}), back(place_kind::pinned, {.width = 64});
    const std::int32_t statuses[] = {
        ferry_device_alloc_async(it, 0, 64, *stream, &address, nullptr),
        ferry_device_alloc_async(it, 0, 64, nullptr, &address, nullptr),
        ferry_device_free_async(it, plain.address(), *stream, nullptr),
        ferry_device_free_async(it, plain.address(), nullptr, nullptr),
        ferry_pool_create(it, &desc, &made, nullptr),
        ferry_pool_destroy(it, pool, nullptr),
        ferry_pool_destroy_deferred(it, pool, *stream, nullptr),
        ferry_pool_get_default(it, 0, 0, &made, nullptr),
        ferry_pool_get_default(it, FERRY_LOCATION_HOST, 0, &made, nullptr),
        ferry_pool_get_current(it, 0, 0, &made, nullptr),
        ferry_pool_set_current(it, 0, 0, pool, nullptr),
        ferry_pool_alloc_async(it, pool, 64, *stream, &address, nullptr),
        ferry_pool_alloc_async(it, pool, 64, nullptr, &address, nullptr),
        ferry_pool_get_attributes(it, pool, &attributes, nullptr),
        ferry_pool_set_attributes(it, pool, &attributes, nullptr),
        ferry_pool_get_stats(it, pool, &stats, nullptr),
        ferry_pool_reset_stats(it, pool, nullptr),
        ferry_pool_trim(it, pool, 0, nullptr),
        ferry_pool_set_access(it, pool, 0, FERRY_ACCESS_READ_WRITE, nullptr),
        ferry_pool_get_access(it, pool, 0, &access, nullptr),
    };
    for (const std::int32_t &status : statuses)
        EXPECT_EQ(status, FERRY_ERROR_UNSUPPORTED) << &status - statuses;
    EXPECT_EQ(address, 0u);
    EXPECT_EQ(access, 0);
    EXPECT_OK(ferry_pool_get_info(it, pool, &info, nullptr));
    EXPECT_EQ(info.location, FERRY_LOCATION_UNKNOWN);
    expect_context_kept();
    const std::uint64_t other = take(pool, 64);
    synchronize();
    EXPECT_OK(ferry_copy_bytes(it, other, plain.address(), 64, nullptr, nullptr))
        << "it is memory of a pool nevertheless";
    EXPECT_OK(ferry_copy_bytes_async(it, back.address(), other, 64, nullptr, *stream, nullptr, nullptr));
    synchronize();
    free(other);
    destroy(pool);
}

TEST_F(pools, a_device_without_pools_is_unsupported) {
    fault_driver driver(raw_entry_points());
    const instance_owner old = open_or_fail(driver.options());
    std::uint64_t address = 0;
    driver.fail("cuMemAllocAsync", CUDA_ERROR_NOT_SUPPORTED);
    EXPECT_EQ(ferry_device_alloc_async(old.get(), 0, 64, *stream, &address, nullptr), FERRY_ERROR_UNSUPPORTED);
    driver.fail("cuMemGetDefaultMemPool", CUDA_ERROR_NOT_SUPPORTED);
    CUmemoryPool pool = nullptr;
    EXPECT_EQ(ferry_pool_get_default(old.get(), FERRY_LOCATION_HOST, 0, &pool, nullptr), FERRY_ERROR_UNSUPPORTED);
}

// A driver that supports Win32 handles, and the handles that were requested.
struct driver_with_win32_handles {
    static inline CUmemPoolProps asked;

    static CUresult CUDAAPI get_attribute(int *value, CUdevice_attribute which, CUdevice device) {
        const CUresult result = raw().cuDeviceGetAttribute(value, which, device);
        if (which == CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES) *value = CU_MEM_HANDLE_TYPE_WIN32;
        return result;
    }
    static CUresult CUDAAPI create_pool(CUmemoryPool *pool, const CUmemPoolProps *props) {
        asked = *props;
        CUmemPoolProps plain = *props;
        plain.handleTypes = CU_MEM_HANDLE_TYPE_NONE;
        plain.win32SecurityAttributes = nullptr;
        return raw().cuMemPoolCreate(pool, &plain);
    }
    static void *get_proc(void *, const char *name, int version) {
        if (!std::strcmp(name, "cuDeviceGetAttribute")) return reinterpret_cast<void *>(&get_attribute);
        if (!std::strcmp(name, "cuMemPoolCreate")) return reinterpret_cast<void *>(&create_pool);
        return raw_entry_points().get_proc(raw_entry_points().user, name, version);
    }
};

TEST_F(pools, only_pools_with_win32_handles_have_security_attributes) {
    auto options = sized<ferry_options>();
    options.driver = FERRY_DRIVER_CUDA;
    options.get_proc = driver_with_win32_handles::get_proc;
    const instance_owner opened = open_or_fail(options);
    for (const std::uint32_t handle_types : {0u, FERRY_HANDLE_WIN32}) {
        auto desc = desc_of(FERRY_LOCATION_DEVICE);
        desc.handle_types = handle_types;
        CUmemoryPool pool = nullptr;
        ASSERT_OK(ferry_pool_create(opened.get(), &desc, &pool, nullptr));
        const CUmemPoolProps &asked = driver_with_win32_handles::asked;
        EXPECT_EQ(static_cast<std::uint32_t>(asked.handleTypes), handle_types);
#if defined(_WIN32)
        EXPECT_EQ(asked.win32SecurityAttributes != nullptr, handle_types == FERRY_HANDLE_WIN32);
#else
        EXPECT_EQ(asked.win32SecurityAttributes, nullptr) << "the driver takes none on this system";
#endif
        EXPECT_OK(ferry_pool_destroy(opened.get(), pool, nullptr));
    }
    auto desc = desc_of(FERRY_LOCATION_DEVICE);
    desc.handle_types = FERRY_HANDLE_POSIX_FD;
    CUmemoryPool pool = nullptr;
    EXPECT_EQ(ferry_pool_create(opened.get(), &desc, &pool, nullptr), FERRY_ERROR_UNSUPPORTED) << "not offered";
}

TEST_F(pools, attributes_unknown_to_the_driver_leave_the_callers_struct_alone) {
    fault_driver driver(raw_entry_points());
    const instance_owner old = open_or_fail(driver.options());
    for (const int nth : {1, 2, 3, 4}) {
        auto stats = sized<ferry_pool_stats>();
        auto attributes = sized<ferry_pool_attributes>();
        stats.used_high = attributes.release_threshold = 77;
        const std::int32_t unknown = FERRY_STATUS_DRIVER_BASE - CUDA_ERROR_INVALID_VALUE;
        driver.fail("cuMemPoolGetAttribute", CUDA_ERROR_INVALID_VALUE, nth);
        EXPECT_EQ(ferry_pool_get_stats(old.get(), default_pool(), &stats, nullptr), unknown);
        driver.fail("cuMemPoolGetAttribute", CUDA_ERROR_INVALID_VALUE, nth);
        EXPECT_EQ(ferry_pool_get_attributes(old.get(), default_pool(), &attributes, nullptr), unknown);
        EXPECT_EQ(stats.used_high, 77u);
        EXPECT_EQ(attributes.release_threshold, 77u);
    }
}

// Such a driver refuses only the question for the device pointer, which depends on the current context.
TEST_F(pools, an_address_is_known_to_a_driver_that_needs_a_context_for_its_device_pointer) {
    fault_driver driver(raw_entry_points());
    const instance_owner strict = open_or_fail(driver.options());
    const std::uint64_t address = take(default_pool(), 4096);
    auto info = sized<ferry_address_info>();
    driver.fail("cuPointerGetAttributes", CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_OK(ferry_address_get_info(strict.get(), address, &info, nullptr));
    EXPECT_EQ(info.range_size, 4096u);
    EXPECT_EQ(info.device_address, address);
    EXPECT_EQ(info.pool, default_pool());
    free(address);
}

struct counting_memory {
    int live = 0;
    bool is_full = false;
};

TEST_F(pools, without_memory_for_a_record_there_is_no_pool) {
    fault_driver driver(raw_entry_points());
    counting_memory memory;
    ferry_options options = driver.options();
    options.allocate_user = &memory;
    options.allocate = [](void *user, std::uint64_t size, std::uint64_t alignment) -> void * {
        auto &memory = *static_cast<counting_memory *>(user);
        if (memory.is_full) return nullptr;
        ++memory.live;
        return allocate_aligned(size, alignment);
    };
    options.deallocate = [](void *user, void *address, std::uint64_t) {
        --static_cast<counting_memory *>(user)->live;
        free_aligned(address);
    };
    {
        const instance_owner instance = open_or_fail(options);
        memory.is_full = true;
        const ferry_pool_desc desc = desc_of(FERRY_LOCATION_DEVICE);
        CUmemoryPool pool = nullptr;
        EXPECT_EQ(ferry_pool_create(instance.get(), &desc, &pool, nullptr), FERRY_ERROR_OUT_OF_MEMORY);
        EXPECT_EQ(pool, nullptr);
        EXPECT_EQ(driver.calls("cuMemPoolCreate"), 1);
        EXPECT_EQ(driver.calls("cuMemPoolDestroy"), 1);
        const CUmemoryPool foreign = make(desc);
        if (has_peers()) {
            EXPECT_EQ(ferry_pool_set_access(instance.get(), foreign, 1, FERRY_ACCESS_READ_WRITE, nullptr),
                      FERRY_ERROR_OUT_OF_MEMORY);
            EXPECT_EQ(access_of(foreign, 1), FERRY_ACCESS_NONE);
            EXPECT_EQ(driver.calls("cuMemAlloc"), driver.calls("cuMemFree"));
        }
        memory.is_full = false;
        pool = make(instance.get(), desc);
        EXPECT_OK(ferry_pool_destroy(instance.get(), pool, nullptr));
        destroy(foreign);
    }
    EXPECT_EQ(memory.live, 0);
}

TEST_F(pools, whatever_fails_its_status_is_returned_and_nothing_leaks) {
    const int far = has_peers() ? 1 : 0;
    CUmemPoolProps props = {};
    props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    CUmemoryPool foreign = nullptr;
    ASSERT_OK(raw().cuMemPoolCreate(&foreign, &props));
    const std::uint64_t kept = take(foreign, 4096);
    ASSERT_OK(raw().cuMemsetD8Async(kept, 1, 4096, *stream));
    synchronize();
    struct {
        const char *name;
        std::int32_t (*call)(ferry_instance *, CUmemoryPool);
    } const functions[] = {
        {"create and destroy",
         [](ferry_instance *it, CUmemoryPool) {
             const ferry_pool_desc desc = desc_of(FERRY_LOCATION_DEVICE);
             CUmemoryPool pool = nullptr;
             if (const std::int32_t status = ferry_pool_create(it, &desc, &pool, nullptr)) {
                 EXPECT_EQ(pool, nullptr);
                 return status;
             }
             const std::int32_t status = ferry_pool_destroy(it, pool, nullptr);
             if (status) {
                 EXPECT_OK(ferry_pool_destroy(it, pool, nullptr));
             }
             return status;
         }},
        {"info",
         [](ferry_instance *it, CUmemoryPool pool) {
             auto info = sized<ferry_pool_info>();
             return ferry_pool_get_info(it, pool, &info, nullptr);
         }},
        {"attributes",
         [](ferry_instance *it, CUmemoryPool pool) {
             auto attributes = sized<ferry_pool_attributes>();
             const std::int32_t status = ferry_pool_get_attributes(it, pool, &attributes, nullptr);
             return status ? status : ferry_pool_set_attributes(it, pool, &attributes, nullptr);
         }},
        {"statistics",
         [](ferry_instance *it, CUmemoryPool pool) {
             auto stats = sized<ferry_pool_stats>();
             const std::int32_t status = ferry_pool_get_stats(it, pool, &stats, nullptr);
             return status ? status : ferry_pool_reset_stats(it, pool, nullptr);
         }},
        {"trim", [](ferry_instance *it, CUmemoryPool pool) { return ferry_pool_trim(it, pool, 0, nullptr); }},
        {"access",
         [](ferry_instance *it, CUmemoryPool pool) {
             std::int32_t access = 0;
             const int device = device_count() > 1;
             const std::int32_t status = ferry_pool_set_access(it, pool, device, FERRY_ACCESS_READ_WRITE, nullptr);
             return status ? status : ferry_pool_get_access(it, pool, device, &access, nullptr);
         }},
        {"allocate and free on the legacy stream",
         [](ferry_instance *it, CUmemoryPool pool) {
             std::uint64_t address = 0;
             if (const std::int32_t status = ferry_pool_alloc_async(it, pool, 64, nullptr, &address, nullptr)) {
                 EXPECT_EQ(address, 0u);
                 return status;
             }
             const std::int32_t status = ferry_device_free_async(it, address, nullptr, nullptr);
             if (status) {
                 EXPECT_OK(ferry_device_free_async(it, address, nullptr, nullptr));
             }
             return status;
         }},
        {"allocate and free on a device",
         [](ferry_instance *it, CUmemoryPool) {
             std::uint64_t address = 0;
             if (const std::int32_t status =
                     ferry_device_alloc_async(it, device_count() - 1, 64, CU_STREAM_PER_THREAD, &address, nullptr)) {
                 EXPECT_EQ(address, 0u);
                 return status;
             }
             const std::int32_t status = ferry_device_free_async(it, address, CU_STREAM_PER_THREAD, nullptr);
             if (status) {
                 EXPECT_OK(ferry_device_free_async(it, address, CU_STREAM_PER_THREAD, nullptr));
             }
             return status;
         }},
    };
    // Calls by which ferry finds something out or cleans up. It does without them if they fail.
    const auto may_be_ignored = [](const char *entry) {
        return std::strcmp(entry, "cuDeviceGetMemPool") == 0 || std::strcmp(entry, "cuDeviceGetDefaultMemPool") == 0 ||
               std::strcmp(entry, "cuMemGetMemPool") == 0 || std::strcmp(entry, "cuMemGetDefaultMemPool") == 0 ||
               std::strcmp(entry, "cuStreamDestroy") == 0 || std::strcmp(entry, "cuMemFree") == 0 ||
               std::strcmp(entry, "cuCtxPopCurrent") == 0 || std::strcmp(entry, "cuPointerGetAttributes") == 0 ||
               std::strcmp(entry, "cuThreadExchangeStreamCaptureMode") == 0 ||
               std::strcmp(entry, "cuMemFreeAsync") == 0;
    };
    const std::int32_t failed = FERRY_STATUS_DRIVER_BASE - CUDA_ERROR_OPERATING_SYSTEM;
    int faults_met = 0;
    auto is_called = [&, calls = std::map<void *, std::set<std::string>>()](auto *function, const char *entry) mutable {
        std::set<std::string> &known = calls[reinterpret_cast<void *>(function)];
        if (known.empty()) {
            fault_driver driver(raw_entry_points());
            const instance_owner instance = open_or_fail(driver.options());
            driver.reset_counts();
            EXPECT_OK(function(instance.get(), foreign));
            for (const driver_symbol &symbol : driver_symbols)
                if (driver.calls(symbol.name)) known.insert(symbol.name);
        }
        return known.count(entry) != 0;
    };
    for (const auto &[name, call] : functions)
        for (const driver_symbol &symbol : driver_symbols) {
            if (std::strcmp(symbol.name, "cuCtxPopCurrent") == 0) continue; // then the driver leaves the context pushed
            if (!is_called(call, symbol.name)) continue;
            for (int nth = 1; nth < 10; ++nth) {
                SCOPED_TRACE(testing::Message() << name << ": " << symbol.name << " " << nth);
                fault_driver driver(raw_entry_points());
                const instance_owner instance = open_or_fail(driver.options());
                EXPECT_OK(ferry_context_synchronize(instance.get(), far, nullptr, nullptr));
                EXPECT_OK(ferry_context_synchronize(instance.get(), device_count() - 1, nullptr, nullptr));
                driver.reset_counts();
                driver.fail(symbol.name, CUDA_ERROR_OPERATING_SYSTEM, nth);
                const std::int32_t status = call(instance.get(), foreign);
                const bool was_met = driver.calls(symbol.name) >= nth;
                driver.heal();
                if (was_met && !may_be_ignored(symbol.name)) {
                    EXPECT_EQ(status, failed);
                }
                EXPECT_TRUE(status == FERRY_SUCCESS || (was_met && status == failed)) << ferry_status_name(status);
                expect_context_kept();
                // The capture mode of the thread has been restored.
                CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
                EXPECT_OK(raw().cuThreadExchangeStreamCaptureMode(&mode));
                if (std::strcmp(symbol.name, "cuThreadExchangeStreamCaptureMode") != 0) {
                    EXPECT_EQ(mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
                }
                if (!was_met) break;
                ++faults_met;
                const auto undone = [&](const char *entry) { // 1 if the failed call was of this entry
                    return std::strcmp(symbol.name, entry) == 0 ? 1 : 0;
                };
                EXPECT_EQ(driver.calls("cuStreamCreateWithPriority") - undone("cuStreamCreateWithPriority"),
                          driver.calls("cuStreamDestroy"));
                EXPECT_EQ(driver.calls("cuMemAlloc") - undone("cuMemAlloc"), driver.calls("cuMemFree"));
                if (std::strcmp(symbol.name, "cuMemFreeAsync") != 0) { // a failed free is not repeated
                    EXPECT_EQ(driver.calls("cuMemAllocFromPoolAsync") + driver.calls("cuMemAllocAsync") -
                                  undone("cuMemAllocFromPoolAsync") - undone("cuMemAllocAsync"),
                              driver.calls("cuMemFreeAsync"));
                }
                EXPECT_EQ(read_back(kept, 4096), bytes(4096, std::byte{1}));
            }
        }
    EXPECT_GT(faults_met, 40);
    synchronize();
    free(kept);
    EXPECT_OK(raw().cuMemPoolDestroy(foreign));
}

TEST_F(pools, threads_create_use_and_destroy_pools_at_the_same_time) {
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i)
        threads.emplace_back([&, i] {
            CUstream own = nullptr;
            ASSERT_OK(
                ferry_stream_create(basic.get(), i % device_count(), FERRY_STREAM_NON_BLOCKING, 0, &own, nullptr));
            for (int round = 0; round < 20; ++round) {
                const CUmemoryPool pool = make(desc_of(FERRY_LOCATION_DEVICE, (i + round) % device_count()));
                std::uint64_t address = 0;
                EXPECT_OK(ferry_pool_alloc_async(basic.get(), pool, 4096, own, &address, nullptr));
                EXPECT_EQ(about(address).pool, pool);
                EXPECT_EQ(info_of(pool).index, (i + round) % device_count());
                EXPECT_OK(ferry_device_free_async(basic.get(), address, own, nullptr));
                destroy(pool);
            }
            EXPECT_OK(ferry_stream_synchronize(basic.get(), own, nullptr));
            EXPECT_OK(ferry_stream_destroy(basic.get(), own, nullptr));
        });
    for (std::thread &thread : threads)
        thread.join();
}

// A driver that counts the threads that wait for a context of device 0.
struct counted_waits {
    static inline std::atomic<int> inside = 0, most = 0, calls = 0;

    static CUresult CUDAAPI synchronize() {
        CUdevice device = -1;
        EXPECT_OK(raw().cuCtxGetDevice(&device));
        if (device != 0) return raw().cuCtxSynchronize();
        const int now = ++inside;
        for (int before = most; before < now && !most.compare_exchange_weak(before, now);) {
        }
        ++calls;
        std::this_thread::sleep_for(std::chrono::microseconds(200)); // so that a second thread would be seen
        const CUresult result = raw().cuCtxSynchronize();
        --inside;
        return result;
    }
    static void *get_proc(void *, const char *name, int version) {
        if (!std::strcmp(name, "cuCtxSynchronize")) return reinterpret_cast<void *>(&synchronize);
        return raw_entry_points().get_proc(raw_entry_points().user, name, version);
    }
};

// CUDA 13.0 can deadlock when two threads wait for a context while pools are used (docs/driver.md).
TEST_F(pools, waits_for_a_context_take_turns) {
    auto options = sized<ferry_options>();
    options.driver = FERRY_DRIVER_CUDA;
    options.get_proc = counted_waits::get_proc;
    const instance_owner counted = open_or_fail(options);
    counted_waits::most = counted_waits::calls = 0;
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i)
        threads.emplace_back([&, i] {
            ASSERT_OK(raw().cuCtxSetCurrent(context));
            const test_stream own;
            for (int round = 0; round < 10; ++round) {
                if (i % 2) {
                    EXPECT_OK(ferry_context_synchronize(counted.get(), 0, nullptr, nullptr));
                    continue;
                }
                const CUmemoryPool pool = make(counted.get(), desc_of(FERRY_LOCATION_DEVICE));
                std::uint64_t address = 0;
                EXPECT_OK(ferry_pool_alloc_async(counted.get(), pool, 4096, own, &address, nullptr));
                gate held(own); // so that the pool waits for its free
                EXPECT_OK(ferry_device_free_async(counted.get(), address, own, nullptr));
                std::thread later([&] { held.let_go(); });
                EXPECT_OK(ferry_pool_destroy(counted.get(), pool, nullptr));
                later.join();
            }
        });
    for (std::thread &thread : threads)
        thread.join();
    EXPECT_GE(counted_waits::calls, 20);
    EXPECT_EQ(counted_waits::most, 1);
}

} // namespace
} // namespace ferry::test
