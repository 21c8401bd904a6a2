// Peer access: querying, probing with data, enabling and disabling; and measuring pairs of devices.
#include <chrono>
#include <cstddef>
#include <thread>

#include "support/fault_driver.h"
#include "support/gate.h"
#include "support/raw_objects.h"
#include "support/test_place.h"

namespace ferry::test {
namespace {

ferry_peer_info ask(ferry_instance *instance, int device, int peer) {
    ferry_peer_info info = {};
    info.struct_size = sizeof info;
    EXPECT_OK(ferry_peer_get_info(instance, device, peer, &info, nullptr));
    return info;
}

std::uint32_t failed_peers(ferry_instance *instance) {
    ferry_report report = {};
    report.struct_size = sizeof report;
    EXPECT_OK(ferry_instance_get_report(instance, &report, nullptr));
    return report.failed_peers;
}

class peers : public ferry_test {
protected:
    void SetUp() override {
        if (device_count() < 2) GTEST_SKIP() << "needs two devices";
        ferry_test::SetUp();
        if (!ask(basic.get(), 0, 1).driver_can_access) GTEST_SKIP() << "no peer access between devices 0 and 1";
    }
    void TearDown() override {
        if (basic) ferry_test::TearDown();
    }

    // Returns whether device 0's context can access the memory of device 1: only then does the driver know an address
    // for it there.
    bool reaches() {
        test_place far(place_kind::device, {.width = 4096}, 1);
        CUdeviceptr address = 0;
        raw().cuPointerGetAttribute(&address, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, far.address());
        return address != 0;
    }
};

TEST_F(peers, facts_of_a_pair_equal_the_facts_that_the_driver_reports) {
    for (const auto &[device, peer] : {std::pair{0, 1}, std::pair{1, 0}}) {
        const ferry_peer_info info = ask(basic.get(), device, peer);
        EXPECT_EQ(info.device, device);
        EXPECT_EQ(info.peer, peer);
        int can = -1, rank = -1, atomics = -1, arrays = -1;
        ASSERT_OK(raw().cuDeviceCanAccessPeer(&can, device, peer));
        ASSERT_OK(raw().cuDeviceGetP2PAttribute(&rank, CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK, device, peer));
        ASSERT_OK(
            raw().cuDeviceGetP2PAttribute(&atomics, CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED, device, peer));
        ASSERT_OK(
            raw().cuDeviceGetP2PAttribute(&arrays, CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED, device, peer));
        EXPECT_EQ(info.driver_can_access, can);
        EXPECT_EQ(info.can_access, can);
        EXPECT_EQ(info.performance_rank, rank);
        EXPECT_EQ(info.native_atomics, atomics);
        EXPECT_EQ(info.array_access, arrays);
        EXPECT_EQ(info.probe, FERRY_PROBE_NOT_RUN);
    }
}

TEST_F(peers, enabling_and_disabling_can_be_repeated_and_have_a_direction) {
    EXPECT_FALSE(reaches());
    for (int round = 0; round < 2; ++round)
        EXPECT_OK(ferry_peer_enable(basic.get(), 0, 1, nullptr));
    EXPECT_TRUE(reaches());
    EXPECT_EQ(ask(basic.get(), 0, 1).probe, FERRY_PROBE_PASSED);
    EXPECT_EQ(ask(basic.get(), 1, 0).probe, FERRY_PROBE_NOT_RUN) << "each direction has its own probe";
    EXPECT_OK(ferry_peer_disable(basic.get(), 1, 0, nullptr)) << "never enabled";
    EXPECT_TRUE(reaches());
    for (int round = 0; round < 2; ++round)
        EXPECT_OK(ferry_peer_disable(basic.get(), 0, 1, nullptr));
    EXPECT_FALSE(reaches());
}

TEST_F(peers, a_probe_runs_once_and_leaves_access_as_it_was) {
    fault_driver driver(raw_entry_points());
    const instance_owner instance = open_or_fail(driver.options());
    EXPECT_OK(ferry_peer_probe(instance.get(), 0, 1, nullptr));
    EXPECT_FALSE(reaches());
    const int copies = driver.calls("cuMemcpy3DPeerAsync");
    EXPECT_GT(copies, 0);
    EXPECT_EQ(driver.calls("cuMemAlloc"), driver.calls("cuMemFree"));
    EXPECT_EQ(driver.calls("cuStreamCreateWithPriority"), driver.calls("cuStreamDestroy"));
    EXPECT_OK(ferry_peer_enable(instance.get(), 0, 1, nullptr));
    EXPECT_OK(ferry_peer_probe(instance.get(), 0, 1, nullptr));
    EXPECT_EQ(driver.calls("cuMemcpy3DPeerAsync"), copies) << "the result was remembered";
    EXPECT_OK(ferry_peer_probe(basic.get(), 0, 1, nullptr));
    EXPECT_TRUE(reaches()) << "access enabled elsewhere stays";
    EXPECT_OK(ferry_peer_disable(instance.get(), 0, 1, nullptr));
}

// The driver's own call waits for nothing, and a copy in flight that still uses the access kills its context.
TEST_F(peers, disabling_waits_for_the_copies_in_flight) {
    test_place far(place_kind::device, {.width = 1 << 20}, 1), near(place_kind::device, {.width = 1 << 20}, 0);
    far.fill(1);
    for (const bool is_written : {false, true}) {
        ASSERT_OK(ferry_peer_enable(basic.get(), 0, 1, nullptr));
        test_place &source = is_written ? near : far, &destination = is_written ? far : near;
        const test_stream stream;
        gate held(stream);
        ASSERT_OK(ferry_copy_bytes_async(basic.get(), destination.address(), source.address(), 1 << 20, nullptr, stream,
                                         nullptr, nullptr));
        std::atomic<bool> is_open = false;
        std::thread opens([&] {
            std::this_thread::sleep_for(std::chrono::milliseconds(50));
            is_open = true;
            held.let_go();
        });
        EXPECT_OK(ferry_peer_disable(basic.get(), 0, 1, nullptr));
        EXPECT_TRUE(is_open) << "the copy has not run yet";
        opens.join();
        ASSERT_OK(raw().cuStreamSynchronize(stream));
        EXPECT_EQ(destination.read(), far.picture());
    }
}

TEST_F(peers, no_copy_in_flight_depends_on_the_access_of_a_probe) {
    fault_driver driver(raw_entry_points());
    const instance_owner instance = open_or_fail(driver.options());
    EXPECT_OK(ferry_peer_probe(instance.get(), 0, 1, nullptr));
    EXPECT_EQ(driver.calls("cuCtxDisablePeerAccess"), 0);
    EXPECT_EQ(driver.calls("cuCtxCreate"), 1) << "the probe uses a context of its own, with which access ends";
    EXPECT_EQ(driver.calls("cuCtxDestroy"), 1);
}

// Some machines report access and move nothing. A copy that does nothing and succeeds imitates such a machine.
TEST_F(peers, trap_9_a_pair_whose_bytes_do_not_arrive_counts_as_having_no_access) {
    for (const int lost_copy : {3, 7}) { // the copy from the peer, and the copy to it
        SCOPED_TRACE(lost_copy);
        fault_driver driver(raw_entry_points());
        const instance_owner instance = open_or_fail(driver.options());
        driver.fail("cuMemcpy3DPeerAsync", CUDA_SUCCESS, lost_copy);
        EXPECT_EQ(ferry_peer_enable(instance.get(), 0, 1, nullptr), FERRY_ERROR_DATA_LOST);
        EXPECT_FALSE(reaches());
        const ferry_peer_info info = ask(instance.get(), 0, 1);
        EXPECT_EQ(info.driver_can_access, 1);
        EXPECT_EQ(info.can_access, 0);
        EXPECT_EQ(info.probe, FERRY_PROBE_FAILED);
        EXPECT_EQ(failed_peers(instance.get()), 1u);
        const int copies = driver.calls("cuMemcpy3DPeerAsync");
        EXPECT_EQ(ferry_peer_enable(instance.get(), 0, 1, nullptr), FERRY_ERROR_DATA_LOST)
            << "even if it would work now";
        EXPECT_EQ(driver.calls("cuMemcpy3DPeerAsync"), copies);
        EXPECT_OK(ferry_peer_enable(instance.get(), 1, 0, nullptr)) << "the other direction is another pair";
        EXPECT_OK(ferry_peer_disable(instance.get(), 1, 0, nullptr));
        test_place source(place_kind::device, {.width = 4096}, 1), destination(place_kind::device, {.width = 4096}, 0);
        source.fill(1);
        EXPECT_OK(ferry_copy_bytes(instance.get(), destination.address(), source.address(), 4096, nullptr, nullptr));
        EXPECT_EQ(destination.read(), source.picture()) << "copies still work, by the driver's detour";
    }
    EXPECT_EQ(failed_peers(basic.get()), 0u) << "each instance probes for itself";
}

TEST_F(peers, if_any_call_of_a_probe_fails_nothing_is_leaked_or_recorded) {
    const char *const entries[] = {
        "cuCtxEnablePeerAccess", "cuStreamCreateWithPriority", "cuMemAlloc", "cuMemcpy3DPeerAsync",
        "cuStreamSynchronize",   "cuCtxPushCurrent",           "cuCtxCreate"};
    for (const char *const entry : entries)
        for (const int nth : {1, 2}) {
            SCOPED_TRACE(testing::Message() << entry << " " << nth);
            fault_driver driver(raw_entry_points());
            const instance_owner instance = open_or_fail(driver.options());
            EXPECT_OK(ferry_context_synchronize(instance.get(), 1, nullptr, nullptr)); // makes the contexts
            driver.reset_counts();
            driver.fail(entry, CUDA_ERROR_OPERATING_SYSTEM, nth);
            const std::int32_t status = ferry_peer_probe(instance.get(), 0, 1, nullptr);
            const bool was_met = driver.calls(entry) >= nth;
            EXPECT_EQ(status, was_met ? FERRY_STATUS_DRIVER_BASE - CUDA_ERROR_OPERATING_SYSTEM : FERRY_SUCCESS);
            driver.heal();
            CUcontext current = nullptr;
            EXPECT_OK(raw().cuCtxGetCurrent(&current));
            EXPECT_EQ(current, context);
            const int failed_allocations = was_met && std::string(entry) == "cuMemAlloc";
            EXPECT_EQ(driver.calls("cuMemFree"), driver.calls("cuMemAlloc") - failed_allocations);
            EXPECT_FALSE(reaches());
            EXPECT_OK(ferry_peer_probe(instance.get(), 0, 1, nullptr)) << "a transient fault is not remembered";
        }
}

TEST_F(peers, probing_leaves_captures_on_other_streams_alone) {
    CUstream stream = nullptr;
    ASSERT_OK(raw().cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    ASSERT_OK(raw().cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    EXPECT_OK(ferry_peer_probe(basic.get(), 0, 1, nullptr));
    CUgraph graph = nullptr;
    EXPECT_OK(raw().cuStreamEndCapture(stream, &graph));
    EXPECT_OK(raw().cuGraphDestroy(graph));
    EXPECT_OK(raw().cuStreamDestroy(stream));
}

TEST_F(peers, threads_that_enable_at_the_same_time_all_succeed) {
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i)
        threads.emplace_back([this, i] { EXPECT_OK(ferry_peer_enable(full.get(), i % 2, 1 - i % 2, nullptr)); });
    for (std::thread &thread : threads)
        thread.join();
    EXPECT_TRUE(reaches());
    EXPECT_OK(ferry_peer_disable(full.get(), 0, 1, nullptr));
    EXPECT_OK(ferry_peer_disable(full.get(), 1, 0, nullptr));
}

// A probe that ended by disabling access would remove it from an instance that has just reported that access is enabled.
TEST_F(peers, instances_that_enable_at_the_same_time_do_not_take_access_from_one_another) {
    for (int round = 0; round < 100; ++round) {
        const instance_owner first = open_or_fail(options_under_test()), second = open_or_fail(options_under_test());
        std::vector<std::thread> threads;
        for (ferry_instance *const instance : {first.get(), second.get()})
            threads.emplace_back([instance] { EXPECT_OK(ferry_peer_enable(instance, 0, 1, nullptr)); });
        for (std::thread &thread : threads)
            thread.join();
        ASSERT_TRUE(reaches()) << "round " << round;
        ASSERT_OK(ferry_peer_disable(first.get(), 0, 1, nullptr));
    }
}

TEST_F(peers, driver_results_other_than_yes_or_no_are_returned) {
    fault_driver driver(raw_entry_points());
    const instance_owner instance = open_or_fail(driver.options());
    driver.fail("cuDeviceCanAccessPeer", CUDA_ERROR_LAUNCH_FAILED, 1, true);
    EXPECT_EQ(ferry_peer_probe(instance.get(), 0, 1, nullptr), FERRY_STATUS_DRIVER_BASE - CUDA_ERROR_LAUNCH_FAILED);
    EXPECT_EQ(ferry_peer_enable(instance.get(), 0, 1, nullptr), FERRY_STATUS_DRIVER_BASE - CUDA_ERROR_LAUNCH_FAILED);
    EXPECT_EQ(ask(instance.get(), 0, 1).can_access, 0);
}

TEST_F(peers, a_driver_without_peer_entry_points_is_reported) {
    fault_driver driver(raw_entry_points());
    driver.hide("cuDeviceGetP2PAttribute");
    {
        const instance_owner instance = open_or_fail(driver.options());
        const ferry_peer_info info = ask(instance.get(), 0, 1);
        EXPECT_EQ(info.performance_rank, -1);
        EXPECT_EQ(info.native_atomics, 0);
    }
    driver.hide("cuCtxEnablePeerAccess");
    const instance_owner instance = open_or_fail(driver.options());
    EXPECT_EQ(ferry_peer_enable(instance.get(), 0, 1, nullptr), FERRY_ERROR_UNSUPPORTED);
    EXPECT_EQ(ferry_peer_disable(instance.get(), 0, 1, nullptr), FERRY_ERROR_UNSUPPORTED);
    driver.heal();
    driver.hide("cuDeviceCanAccessPeer");
    const instance_owner other = open_or_fail(driver.options());
    EXPECT_EQ(ferry_peer_probe(other.get(), 0, 1, nullptr), FERRY_ERROR_UNSUPPORTED);
    EXPECT_EQ(ask(other.get(), 0, 1).can_access, 0);
}

class calibrated_pairs : public ferry_test {
protected:
    void SetUp() override {
        if (device_count() < 2) GTEST_SKIP() << "needs two devices";
        ferry_test::SetUp();
    }
    void TearDown() override {
        if (basic) ferry_test::TearDown();
    }
    static void expect_no_rates(const ferry_peer_info &info) {
        EXPECT_EQ(info.direct_mb_per_s, 0u);
        EXPECT_EQ(info.bounce_mb_per_s, 0u);
        EXPECT_EQ(info.relay_mb_per_s, 0u);
        EXPECT_EQ(info.relay_fixed_ns, 0u);
        EXPECT_EQ(info.direct_fixed_ns, 0u);
        EXPECT_EQ(info.link_to_mb_per_s, 0u);
        EXPECT_EQ(info.link_from_mb_per_s, 0u);
    }
    // Returns whether device 0's context can access the memory of device 1.
    static bool reaches() {
        test_place far(place_kind::device, {.width = 4096}, 1);
        CUdeviceptr address = 0;
        raw().cuPointerGetAttribute(&address, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, far.address());
        return address != 0;
    }
};

TEST_F(calibrated_pairs, rates_are_reported_for_what_the_pair_offers_and_for_no_other_pair) {
    expect_no_rates(ask(basic.get(), 0, 1));
    ferry_error_info error = new_error();
    const auto begin = std::chrono::steady_clock::now();
    ASSERT_OK(ferry_peer_calibrate(basic.get(), 0, 1, &error)) << describe(error);
    const auto took = std::chrono::steady_clock::now() - begin;
    RecordProperty("milliseconds",
                   static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(took).count()));
    EXPECT_LT(took, std::chrono::seconds(on_software_driver() ? 30 : 2));
    const ferry_peer_info info = ask(basic.get(), 0, 1);
    EXPECT_EQ(info.probe != FERRY_PROBE_NOT_RUN, info.driver_can_access) << "the probe runs first";
    EXPECT_EQ(info.direct_mb_per_s > 0, info.can_access);
    for (const std::uint32_t rate : {info.bounce_mb_per_s, info.relay_mb_per_s}) {
        EXPECT_GT(rate, 10u) << "10 MB/s";
        EXPECT_LT(rate, 1'000'000u) << "1 TB/s";
    }
    EXPECT_GT(info.relay_fixed_ns, 0u);
    EXPECT_EQ(info.direct_fixed_ns > 0, info.can_access);
    const bool has_kernels = raw().cuLibraryLoadData && raw().cuLaunchKernel;
    for (const std::uint32_t rate : {info.link_to_mb_per_s, info.link_from_mb_per_s}) {
        EXPECT_EQ(rate > 0, info.can_access && has_kernels);
        EXPECT_LT(rate, 1'000'000u) << "1 TB/s";
    }
    EXPECT_EQ(info.reserved, 0u);
    expect_no_rates(ask(basic.get(), 1, 0));
    expect_no_rates(ask(full.get(), 0, 1));
}

TEST_F(calibrated_pairs, links_are_not_measured_without_kernels) {
    ferry_options options = options_under_test();
    options.kernels = FERRY_KERNELS_NONE;
    const instance_owner instance = open_or_fail(options);
    ASSERT_OK(ferry_peer_calibrate(instance.get(), 0, 1, nullptr));
    const ferry_peer_info info = ask(instance.get(), 0, 1);
    EXPECT_EQ(info.direct_mb_per_s > 0, info.can_access);
    EXPECT_EQ(info.link_to_mb_per_s, 0u);
    EXPECT_EQ(info.link_from_mb_per_s, 0u);
}

TEST_F(calibrated_pairs, a_caller_whose_struct_has_no_rates_gets_the_fields_that_it_knows) {
    ASSERT_OK(ferry_peer_calibrate(basic.get(), 0, 1, nullptr));
    ferry_peer_info info = {};
    info.struct_size = offsetof(ferry_peer_info, direct_mb_per_s);
    ASSERT_OK(ferry_peer_get_info(basic.get(), 0, 1, &info, nullptr));
    EXPECT_EQ(info.peer, 1);
    expect_no_rates(info);
}

TEST_F(calibrated_pairs, access_and_the_current_context_are_unchanged_and_nothing_leaks) {
    fault_driver driver(raw_entry_points());
    ferry_options options = driver.options();
    options.kernels = FERRY_KERNELS_AT_OPEN; // they stay
    const instance_owner instance = open_or_fail(options);
    ASSERT_OK(ferry_context_synchronize(instance.get(), 0, nullptr, nullptr)); // makes the contexts
    ASSERT_OK(ferry_context_synchronize(instance.get(), 1, nullptr, nullptr));
    const std::size_t objects = driver.live_objects().size();
    for (const bool is_enabled : {false, true}) {
        SCOPED_TRACE(is_enabled);
        if (is_enabled && ferry_peer_enable(instance.get(), 0, 1, nullptr)) break; // not offered
        driver.reset_counts();
        EXPECT_OK(ferry_peer_calibrate(instance.get(), 0, 1, nullptr));
        EXPECT_OK(ferry_peer_calibrate(instance.get(), 1, 0, nullptr));
        EXPECT_EQ(reaches(), is_enabled);
        EXPECT_EQ(driver.live_objects().size(), objects);
        EXPECT_EQ(driver.calls("cuCtxDisablePeerAccess"), 0);
        CUcontext current = nullptr;
        EXPECT_OK(raw().cuCtxGetCurrent(&current));
        EXPECT_EQ(current, context);
        if (is_enabled) {
            EXPECT_OK(ferry_peer_disable(instance.get(), 0, 1, nullptr));
        }
    }
}

TEST_F(calibrated_pairs, a_calibration_needs_no_current_context_and_leaves_captures_alone) {
    CUstream stream = nullptr;
    ASSERT_OK(raw().cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    ASSERT_OK(raw().cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    std::thread([&] {
        CUcontext current = nullptr;
        EXPECT_OK(ferry_peer_calibrate(basic.get(), 0, 1, nullptr));
        EXPECT_OK(raw().cuCtxGetCurrent(&current));
        EXPECT_EQ(current, nullptr);
    }).join();
    CUgraph graph = nullptr;
    EXPECT_OK(raw().cuStreamEndCapture(stream, &graph));
    EXPECT_OK(raw().cuGraphDestroy(graph));
    EXPECT_OK(raw().cuStreamDestroy(stream));
}

TEST_F(calibrated_pairs, calibrations_on_several_threads_all_succeed) {
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i)
        threads.emplace_back([this, i] { EXPECT_OK(ferry_peer_calibrate(basic.get(), i % 2, 1 - i % 2, nullptr)); });
    for (std::thread &thread : threads)
        thread.join();
    EXPECT_GT(ask(basic.get(), 0, 1).bounce_mb_per_s, 0u);
    EXPECT_GT(ask(basic.get(), 1, 0).bounce_mb_per_s, 0u);
}

// What the driver calls access may move nothing: no rate of such a link is of any use.
TEST_F(calibrated_pairs, a_pair_that_loses_data_is_measured_without_access) {
    if (!ask(basic.get(), 0, 1).driver_can_access) GTEST_SKIP() << "no peer access between devices 0 and 1";
    fault_driver driver(raw_entry_points());
    const instance_owner instance = open_or_fail(driver.options());
    driver.fail("cuMemcpy3DPeerAsync", CUDA_SUCCESS, 3);
    EXPECT_OK(ferry_peer_calibrate(instance.get(), 0, 1, nullptr));
    const ferry_peer_info info = ask(instance.get(), 0, 1);
    EXPECT_EQ(info.probe, FERRY_PROBE_FAILED);
    EXPECT_EQ(info.direct_mb_per_s, 0u);
    EXPECT_GT(info.bounce_mb_per_s, 0u);
    EXPECT_GT(info.relay_mb_per_s, 0u);
}

TEST_F(calibrated_pairs, a_calibration_works_with_less_memory) {
    fault_driver driver(raw_entry_points());
    const instance_owner instance = open_or_fail(driver.options());
    ferry_peer_probe(instance.get(), 0, 1, nullptr); // so that its allocations do not count
    driver.reset_counts();
    driver.fail("cuMemAlloc", CUDA_ERROR_OUT_OF_MEMORY, 2);
    EXPECT_OK(ferry_peer_calibrate(instance.get(), 0, 1, nullptr));
    EXPECT_EQ(driver.calls("cuMemAlloc"), 3);
    EXPECT_EQ(driver.calls("cuMemFree"), 2);
    driver.fail("cuMemAlloc", CUDA_ERROR_OUT_OF_MEMORY, 2, true);
    EXPECT_EQ(ferry_peer_calibrate(instance.get(), 0, 1, nullptr), FERRY_STATUS_DRIVER_BASE - CUDA_ERROR_OUT_OF_MEMORY);
    driver.heal();
    driver.hide("cuEventQuery");
    const instance_owner without_events = open_or_fail(driver.options());
    EXPECT_EQ(ferry_peer_calibrate(without_events.get(), 0, 1, nullptr), FERRY_ERROR_UNSUPPORTED);
}

class peer_arguments : public ferry_test {};

TEST_F(peer_arguments, that_are_equal_are_named_as_equal) {
    ferry_instance *const ferry = basic.get();
    ferry_peer_info info = {};
    info.struct_size = sizeof info;
    ferry_error_info error = new_error();
    const auto expect_equal = [&](std::int32_t status) {
        expect_refusal(status, error, FERRY_ERROR_DEVICE, FERRY_SIDE_NONE, FERRY_FIELD_PEER);
        EXPECT_EQ(describe(error), "peer: 0, must differ from device 0 (FERRY_ERROR_DEVICE)");
    };
    expect_equal(ferry_peer_get_info(ferry, 0, 0, &info, &error));
    expect_equal(ferry_peer_probe(ferry, 0, 0, &error));
    expect_equal(ferry_peer_enable(ferry, 0, 0, &error));
    expect_equal(ferry_peer_disable(ferry, 0, 0, &error));
    expect_equal(ferry_peer_calibrate(ferry, 0, 0, &error));
    const std::int32_t self = 0;
    ferry_multilink_options options = {};
    options.struct_size = sizeof options;
    options.helpers = &self;
    options.helper_count = 1;
    EXPECT_EQ(ferry_multilink_set(ferry, 0, &options, &error), FERRY_ERROR_DEVICE);
    EXPECT_EQ(describe(error), "helper 0: options.helpers: 0, must differ from device 0 (FERRY_ERROR_DEVICE)");
}

TEST_F(peer_arguments, devices_that_do_not_form_a_pair_are_refused) {
    ferry_peer_info info = {};
    info.struct_size = sizeof info;
    const int count = device_count();
    for (const auto &[device, peer] : {std::pair{0, 0}, std::pair{0, count}, std::pair{-1, 0}, std::pair{count, 0}}) {
        EXPECT_EQ(ferry_peer_get_info(basic.get(), device, peer, &info, nullptr), FERRY_ERROR_DEVICE);
        EXPECT_EQ(ferry_peer_probe(basic.get(), device, peer, nullptr), FERRY_ERROR_DEVICE);
        EXPECT_EQ(ferry_peer_enable(basic.get(), device, peer, nullptr), FERRY_ERROR_DEVICE);
        EXPECT_EQ(ferry_peer_disable(basic.get(), device, peer, nullptr), FERRY_ERROR_DEVICE);
        ferry_error_info error = new_error();
        EXPECT_EQ(ferry_peer_calibrate(basic.get(), device, peer, &error), FERRY_ERROR_DEVICE);
        EXPECT_EQ(error.status, FERRY_ERROR_DEVICE);
        const bool is_peer = device == 0; // the device exists
        EXPECT_EQ(error.field, is_peer ? FERRY_FIELD_PEER : FERRY_FIELD_DEVICE) << describe(error);
        EXPECT_EQ(error.value, static_cast<std::uint64_t>(std::int64_t{is_peer ? peer : device})) << describe(error);
    }
    EXPECT_EQ(ferry_peer_calibrate(nullptr, 0, 1, nullptr), FERRY_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(ferry_peer_get_info(basic.get(), 0, 0, nullptr, nullptr), FERRY_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(ferry_peer_enable(nullptr, 0, 1, nullptr), FERRY_ERROR_INVALID_ARGUMENT);
}

} // namespace
} // namespace ferry::test
