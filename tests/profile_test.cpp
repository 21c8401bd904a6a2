// Calibration and profiles through the public interface. A calibration measures plausible values within its time and
// leaves nothing behind. A profile that was saved loads again, and nothing else does.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "plan/profile_text.h"
#include "submit/instance.h"
#include "support/driver_under_test.h"
#include "support/fault_driver.h"
#include "support/loaded_pairs.h"
#include "support/station.h"
#include "support/system.h"

namespace ferry::test {
namespace {

struct profiles : driver_test {};

std::string saved(ferry_instance *instance, std::int32_t device = 0) {
    std::uint64_t needed = 0;
    EXPECT_OK(ferry_profile_save(instance, device, nullptr, 0, &needed, nullptr));
    std::string text(needed, 'x');
    EXPECT_OK(ferry_profile_save(instance, device, text.data(), text.size(), nullptr, nullptr));
    EXPECT_EQ(text.back(), '\0');
    text.pop_back();
    return text;
}

// The numbers on the line that begins with this name.
std::vector<std::uint64_t> numbers(const std::string &text, const std::string &name) {
    const std::size_t at = text.find('\n' + name + ' ');
    EXPECT_NE(at, std::string::npos) << name;
    std::istringstream line(text.substr(at + name.size() + 2, text.find('\n', at + 1) - at - name.size() - 2));
    return {std::istream_iterator<std::uint64_t>(line), std::istream_iterator<std::uint64_t>()};
}

// Gives the facts that calibration measures numbers that it never finds.
void use_impossible_numbers(ferry_instance *instance) {
    constexpr std::uint32_t impossible = 99'999'999; // 100 TB/s, or 100 ms for a small copy
    device_profile profile = *instance->profiles.of(0);
    for (direction_profile &direction : profile.directions) {
        direction.driver_line_rate = impossible;
        direction.staged_fixed_ns = direction.staged_rate = direction.staged_thread_rate = impossible;
    }
    profile.array_driver_rate = profile.array_kernel_rate = impossible;
    const device_profile *const kept = instance->profiles.keep(profile);
    ASSERT_TRUE(kept);
    instance->profiles.use(0, kept);
}

std::uint64_t free_memory() {
    std::size_t free = 0, total = 0;
    EXPECT_OK(raw().cuMemGetInfo(&free, &total));
    return free;
}

// A real driver keeps some memory for itself, and other processes may allocate and free.
void expect_memory_is_back(std::uint64_t free_before) {
    const std::uint64_t kept = on_software_driver() ? 0 : 96 << 20;
    EXPECT_GE(free_memory() + kept, free_before);
}

TEST_F(profiles, calibration_keeps_to_its_time_and_its_results_are_plausible) {
    const instance_owner ferry = open_or_fail(options_under_test());
    use_impossible_numbers(ferry.get());
    const std::string before = saved(ferry.get());
    const std::uint64_t free_before = free_memory();
    const auto begin = std::chrono::steady_clock::now();
    ferry_error_info error = new_error();
    ASSERT_OK(ferry_device_calibrate(ferry.get(), 0, &error)) << describe(error);
    const auto took = std::chrono::steady_clock::now() - begin;
    RecordProperty("milliseconds",
                   static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(took).count()));
    if (!on_software_driver()) {
        EXPECT_LT(took, std::chrono::seconds(2));
    } else {
        EXPECT_LT(took, std::chrono::seconds(30)) << "on any machine";
    }
    expect_memory_is_back(free_before);

    const std::string found = saved(ferry.get());
    EXPECT_NE(found, before);
    for (const std::string direction : {"host_to_device", "device_to_host", "within_device"}) {
        SCOPED_TRACE(direction);
        const std::uint64_t line = numbers(found, direction + ".driver_line_rate").at(0);
        EXPECT_GT(line, 10u) << "10 MB/s";
        EXPECT_LT(line, 20'000'000u) << "20 TB/s";
        EXPECT_LT(numbers(found, direction + ".driver_fixed_ns").at(0), 100'000'000u);
        for (const std::string side : {"source_gaps", "destination_gaps", "both_gaps"}) {
            const auto rates = numbers(found, direction + ".driver_rates." + side);
            ASSERT_EQ(rates.size(), 21u);
            EXPECT_GT(rates.back(), rates.front()) << "rows of a mebibyte against rows of a byte";
        }
    }
    const bool has_kernels = raw().cuLibraryLoadData && raw().cuLaunchKernel;
    for (const std::string name : {"host_to_device", "device_to_host", "within_device"}) {
        SCOPED_TRACE(name);
        const auto narrow_before = numbers(before, name + ".kernel_rates.both_gaps"),
                   narrow = numbers(found, name + ".kernel_rates.both_gaps");
        EXPECT_EQ(narrow != narrow_before, has_kernels);
        if (!has_kernels) continue;
        EXPECT_GT(narrow.back(), narrow.front());
        EXPECT_LT(numbers(found, name + ".kernel_piece_ns").at(0), 100'000u);
    }
    for (const std::string name : {"host_to_device", "device_to_host"}) {
        SCOPED_TRACE(name);
        if (!has_kernels) continue;
        for (const std::string fact : {".staged_fixed_ns", ".staged_rate", ".staged_thread_rate"})
            EXPECT_NE(numbers(found, name + fact), numbers(before, name + fact)) << fact;
        if (on_software_driver()) continue; // threads that wait for each other have any speed on a busy machine
        EXPECT_LT(numbers(found, name + ".staged_row_ns").at(0), 100'000u);
        EXPECT_LT(numbers(found, name + ".staged_fixed_ns").at(0), 1'000'000u);
        EXPECT_GT(numbers(found, name + ".staged_rate").at(0), 5'000u);
    }
    EXPECT_NE(numbers(found, "array_driver_rate"), numbers(before, "array_driver_rate"));
    if (has_kernels && raw().cuSurfObjectCreate) {
        EXPECT_NE(numbers(found, "array_kernel_rate"), numbers(before, "array_kernel_rate"));
    }
    // These are not measured.
    EXPECT_EQ(numbers(found, "between_devices.driver_line_rate"), numbers(before, "between_devices.driver_line_rate"));
    if (!on_software_driver()) {
        EXPECT_GT(numbers(found, "host_to_device.driver_line_rate").at(0), 2'000u);
        EXPECT_GT(numbers(found, "within_device.driver_line_rate").at(0),
                  numbers(found, "host_to_device.driver_line_rate").at(0));
    }
}

// Makes calibrations short, for tests that are not about kernels: on a CPU those take most of the time.
class driver_without_kernels : public fault_driver {
public:
    driver_without_kernels() : fault_driver(raw_entry_points()) { hide("cuLaunchKernel"); }
};

TEST_F(profiles, a_saved_profile_is_loaded_by_another_instance) {
    const driver_without_kernels driver;
    const instance_owner first = open_or_fail(driver.options()), second = open_or_fail(driver.options());
    ASSERT_OK(ferry_device_calibrate(first.get(), 0, nullptr));
    const std::string text = saved(first.get());
    ASSERT_NE(saved(second.get()), text);
    ASSERT_OK(ferry_profile_load(second.get(), text.data(), text.size(), nullptr));
    EXPECT_EQ(saved(second.get()), text);
    ASSERT_OK(ferry_profile_load(second.get(), text.c_str(), text.size() + 1, nullptr)) << "with its terminating zero";
    ferry_device_info info = {}, other = {};
    info.struct_size = other.struct_size = sizeof info;
    ASSERT_OK(ferry_device_get_info(first.get(), 0, &info, nullptr));
    for (int device = 1; device < device_count(); ++device) {
        ASSERT_OK(ferry_device_get_info(first.get(), device, &other, nullptr));
        const bool is_equal = std::strcmp(info.name, other.name) == 0;
        EXPECT_EQ(saved(second.get(), device) == text, is_equal) << "equal devices share a profile";
        EXPECT_NE(saved(first.get(), device), text) << "a calibration is of one device";
    }
}

TEST_F(profiles, saving_reports_the_required_size) {
    const instance_owner ferry = open_or_fail(options_under_test());
    std::uint64_t needed = 0;
    ASSERT_OK(ferry_profile_save(ferry.get(), 0, nullptr, 0, &needed, nullptr));
    std::string buffer(needed, '#');
    std::uint64_t again = 0;
    EXPECT_EQ(ferry_profile_save(ferry.get(), 0, buffer.data(), needed - 1, &again, nullptr),
              FERRY_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(again, needed);
    EXPECT_EQ(buffer, std::string(needed, '#')) << "nothing was written";
    EXPECT_OK(ferry_profile_save(ferry.get(), 0, buffer.data(), needed, nullptr, nullptr));
    EXPECT_EQ(buffer.rfind("ferry-profile 5\n", 0), 0u);
    EXPECT_EQ(ferry_profile_save(nullptr, 0, nullptr, 0, &needed, nullptr), FERRY_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(ferry_profile_save(ferry.get(), 0, nullptr, 1, &needed, nullptr), FERRY_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(ferry_profile_save(ferry.get(), device_count(), nullptr, 0, &needed, nullptr), FERRY_ERROR_DEVICE);
}

TEST_F(profiles, a_profile_that_is_damaged_outdated_or_for_another_device_is_refused) {
    const instance_owner ferry = open_or_fail(options_under_test());
    const std::string text = saved(ferry.get());
    const auto refused = [&](const std::string &text, std::int32_t field) {
        ferry_error_info error = new_error();
        const std::int32_t status = ferry_profile_load(ferry.get(), text.data(), text.size(), &error);
        expect_refusal(status, error, FERRY_ERROR_PROFILE, FERRY_SIDE_NONE, field);
        return error;
    };
    std::string damaged = text;
    damaged[damaged.size() / 2] ^= 1;
    refused(damaged, FERRY_FIELD_LINE);
    const ferry_error_info cut = refused(text.substr(0, text.size() / 2), FERRY_FIELD_LINE);
    EXPECT_LE(cut.limit, cut.value);
    EXPECT_NE(describe(cut).find("line: "), std::string::npos) << describe(cut);
    for (const std::string &empty : {std::string(), std::string(1, '\0')})
        EXPECT_EQ(describe(refused(empty, FERRY_FIELD_SIZE)), "size: 0, must be at least 1 (FERRY_ERROR_PROFILE)");
    std::string old = text;
    EXPECT_EQ(describe(refused(old.replace(old.find("profile 5"), 9, "profile 1"), FERRY_FIELD_VERSION)),
              "version: 1, unlike this library's 5 (FERRY_ERROR_PROFILE)");
    EXPECT_EQ(saved(ferry.get()), text) << "nothing was loaded";

    ferry_error_info error = new_error();
    EXPECT_EQ(ferry_profile_load(ferry.get(), nullptr, 0, &error), FERRY_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(ferry_profile_load(nullptr, text.data(), text.size(), &error), FERRY_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(ferry_device_calibrate(nullptr, 0, &error), FERRY_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(ferry_device_calibrate(ferry.get(), -1, &error), FERRY_ERROR_DEVICE);
    EXPECT_EQ(ferry_device_calibrate(ferry.get(), device_count(), &error), FERRY_ERROR_DEVICE);
}

// Imitates another machine as far as a profile is concerned: the entry points that identify it return other values.
struct renamed_driver {
    static inline const char *name = nullptr;
    static inline int version = 0;
    static CUresult CUDAAPI device_name(char *text, int length, CUdevice device) {
        const CUresult result = raw().cuDeviceGetName(text, length, device);
        if (result == CUDA_SUCCESS && name) std::snprintf(text, static_cast<std::size_t>(length), "%s", name);
        return result;
    }
    static CUresult CUDAAPI driver_version(int *found) {
        const CUresult result = raw().cuDriverGetVersion(found);
        if (result == CUDA_SUCCESS && version) *found = version;
        return result;
    }
    static ferry_options options() {
        ferry_options options = options_under_test();
        options.driver = FERRY_DRIVER_CUDA;
        options.get_proc = [](void *, const char *wanted, int version) -> void * {
            if (std::strcmp(wanted, "cuDeviceGetName") == 0) return reinterpret_cast<void *>(device_name);
            if (std::strcmp(wanted, "cuDriverGetVersion") == 0) return reinterpret_cast<void *>(driver_version);
            const resolver inner = raw_entry_points();
            return inner.get_proc(inner.user, wanted, version);
        };
        return options;
    }
};

TEST_F(profiles, a_profile_is_refused_on_another_device_or_driver) {
    const instance_owner here = open_or_fail(options_under_test());
    const std::string text = saved(here.get());
    ferry_error_info error = new_error();
    renamed_driver::name = "Some other GPU";
    {
        const instance_owner other = open_or_fail(renamed_driver::options());
        const std::int32_t status = ferry_profile_load(other.get(), text.data(), text.size(), &error);
        expect_refusal(status, error, FERRY_ERROR_PROFILE, FERRY_SIDE_NONE, FERRY_FIELD_DEVICE);
    }
    renamed_driver::name = nullptr;
    renamed_driver::version = 12999;
    {
        const instance_owner other = open_or_fail(renamed_driver::options());
        const std::int32_t status = ferry_profile_load(other.get(), text.data(), text.size(), &error);
        expect_refusal(status, error, FERRY_ERROR_PROFILE, FERRY_SIDE_NONE, FERRY_FIELD_DRIVER);
        EXPECT_EQ(error.numbers, FERRY_NUMBERS_EQUAL);
        EXPECT_EQ(error.value, static_cast<std::uint64_t>(here->report.driver_version)) << describe(error);
        EXPECT_EQ(error.limit, 12999u) << describe(error);
    }
    renamed_driver::version = 0;
}

TEST_F(profiles, a_failed_calibration_changes_nothing) {
    fault_driver faults(raw_entry_points());
    const instance_owner ferry = open_or_fail(faults.options());
    const std::string before = saved(ferry.get());
    CUcontext current = nullptr;
    ASSERT_OK(raw().cuCtxGetCurrent(&current));
    const std::uint64_t free_before = free_memory();
    const struct {
        const char *entry;
        int nth;
        std::int32_t status;
    } steps[] = {
        {"cuThreadExchangeStreamCaptureMode", 1, FERRY_STATUS_DRIVER_BASE - CUDA_ERROR_UNKNOWN},
        {"cuStreamCreateWithPriority", 1, FERRY_STATUS_DRIVER_BASE - CUDA_ERROR_UNKNOWN},
        {"cuMemGetInfo", 1, FERRY_STATUS_DRIVER_BASE - CUDA_ERROR_UNKNOWN},
        {"cuMemAlloc", 1, FERRY_STATUS_DRIVER_BASE - CUDA_ERROR_UNKNOWN},
        {"cuMemAlloc", 2, FERRY_STATUS_DRIVER_BASE - CUDA_ERROR_UNKNOWN},
        {"cuMemHostAlloc", 1, FERRY_STATUS_DRIVER_BASE - CUDA_ERROR_UNKNOWN},
        {"cuArray3DCreate", 1, FERRY_STATUS_DRIVER_BASE - CUDA_ERROR_UNKNOWN},
        {"cuSurfObjectCreate", 1, FERRY_STATUS_DRIVER_BASE - CUDA_ERROR_UNKNOWN},
        {"cuMemcpy3DAsync", 1, FERRY_STATUS_DRIVER_BASE - CUDA_ERROR_UNKNOWN},
        {"cuMemcpy3DAsync", 40, FERRY_STATUS_DRIVER_BASE - CUDA_ERROR_UNKNOWN},
        {"cuMemcpy3DAsync", 300, FERRY_STATUS_DRIVER_BASE - CUDA_ERROR_UNKNOWN},
        {"cuLaunchKernel", 1, FERRY_STATUS_DRIVER_BASE - CUDA_ERROR_UNKNOWN},
        {"cuLaunchKernel", 150, FERRY_STATUS_DRIVER_BASE - CUDA_ERROR_UNKNOWN},
        {"cuStreamSynchronize", 1, FERRY_STATUS_DRIVER_BASE - CUDA_ERROR_UNKNOWN},
        {"cuStreamSynchronize", 100, FERRY_STATUS_DRIVER_BASE - CUDA_ERROR_UNKNOWN},
    };
    for (const auto &step : steps) {
        SCOPED_TRACE(testing::Message() << step.entry << ", call " << step.nth);
        if (!ferry_instance_get_proc(ferry.get(), step.entry, 13000)) continue; // a driver of 12.0 lacks some
        faults.reset_counts();
        faults.fail(step.entry, CUDA_ERROR_UNKNOWN, step.nth);
        EXPECT_EQ(ferry_device_calibrate(ferry.get(), 0, nullptr), step.status);
        faults.heal();
        EXPECT_EQ(faults.calls("cuMemFree"), faults.calls("cuMemAlloc") - (std::strcmp(step.entry, "cuMemAlloc") == 0));
        EXPECT_EQ(faults.calls("cuMemFreeHost"),
                  faults.calls("cuMemHostAlloc") - (std::strcmp(step.entry, "cuMemHostAlloc") == 0));
        EXPECT_EQ(faults.calls("cuArrayDestroy"),
                  faults.calls("cuArray3DCreate") - (std::strcmp(step.entry, "cuArray3DCreate") == 0));
        EXPECT_EQ(faults.calls("cuStreamDestroy"), faults.calls("cuStreamCreateWithPriority") -
                                                       (std::strcmp(step.entry, "cuStreamCreateWithPriority") == 0));
        expect_memory_is_back(free_before);
        EXPECT_EQ(saved(ferry.get()), before);
        CUcontext now = nullptr;
        ASSERT_OK(raw().cuCtxGetCurrent(&now));
        EXPECT_EQ(now, current);
    }
}

// ---- Pairs of devices

class profiles_of_pairs : public driver_test {
protected:
    void SetUp() override {
        if (device_count() < 2) GTEST_SKIP() << "needs two devices";
        driver_test::SetUp();
        is_set_up_ = true;
    }
    void TearDown() override {
        if (is_set_up_) driver_test::TearDown();
    }

    static ferry_peer_info info_of(ferry_instance *instance, std::int32_t device = 0, std::int32_t peer = 1) {
        ferry_peer_info info = {};
        info.struct_size = sizeof info;
        EXPECT_OK(ferry_peer_get_info(instance, device, peer, &info, nullptr));
        return info;
    }

private:
    bool is_set_up_ = false;
};

// All but the checksum.
std::string body_of(const std::string &text) { return text.substr(0, text.rfind("checksum ")); }

TEST_F(profiles_of_pairs, every_calibrated_pair_is_saved_and_loaded) {
    const instance_owner first = open_or_fail(options_under_test()), second = open_or_fail(options_under_test());
    const std::string before = body_of(saved(first.get()));
    std::string lines;
    for (const auto &[device, peer] : {std::pair{0, 1}, std::pair{1, 0}}) {
        ASSERT_OK(ferry_peer_calibrate(first.get(), device, peer, nullptr));
        const ferry_peer_info info = info_of(first.get(), device, peer);
        std::ostringstream line;
        line << "pair " << address_of(first.get(), device) << ' ' << address_of(first.get(), peer) << ' '
             << info.direct_mb_per_s << ' ' << info.direct_fixed_ns << ' ' << info.bounce_mb_per_s << ' '
             << info.relay_mb_per_s << ' ' << info.relay_fixed_ns << ' ' << info.link_to_mb_per_s << ' '
             << info.link_from_mb_per_s << '\n';
        lines += line.str();
    }
    const std::string text = saved(first.get());
    EXPECT_EQ(body_of(text), before + lines) << "nothing else has changed";

    ASSERT_OK(ferry_profile_load(second.get(), text.data(), text.size(), nullptr));
    EXPECT_EQ(saved(second.get()), text);
    for (const auto &[device, peer] : {std::pair{0, 1}, std::pair{1, 0}}) {
        const ferry_peer_info measured = info_of(first.get(), device, peer),
                              loaded = info_of(second.get(), device, peer);
        EXPECT_EQ(loaded.bounce_mb_per_s, measured.bounce_mb_per_s);
        EXPECT_EQ(loaded.link_from_mb_per_s, measured.link_from_mb_per_s);
    }
    // A text without pairs, such as one that was saved before, leaves them.
    const std::string alone = saved(open_or_fail(options_under_test()).get());
    ASSERT_OK(ferry_profile_load(second.get(), alone.data(), alone.size(), nullptr));
    EXPECT_EQ(saved(second.get()), text);
}

TEST_F(profiles_of_pairs, pairs_of_absent_devices_are_skipped) {
    const instance_owner ferry = open_or_fail(options_under_test());
    const std::string before = saved(ferry.get()), here = address_of(ferry.get(), 0);
    for (const std::string &peer : {std::string("0000:EE:1E.0"), here})
        load_pairs(ferry.get(), 0, [&](const pair_use &use) {
            use(pair_of(here, peer, {.bounce_rate = 7}));
            use(pair_of(peer, here, {.bounce_rate = 7}));
        });
    EXPECT_EQ(saved(ferry.get()), before);
}

TEST_F(profiles_of_pairs, copies_are_relayed_where_measurements_of_the_pair_show_that_the_driver_is_slower) {
    constexpr std::uint64_t size = 64 << 20;
    const instance_owner ferry = open_or_fail(options_under_test());
    CUcontext there = nullptr;
    ASSERT_OK(ferry_context_retain_primary(ferry.get(), 1, &there, nullptr));
    const station near(context, size), far(there, size);
    ferry_copy_desc copy = {};
    copy.source.address = near.address();
    copy.destination.address = far.address();
    copy.width = size;
    const auto explain = [&] {
        ferry_explanation told = {};
        told.struct_size = sizeof told;
        EXPECT_OK(ferry_copy_explain_async(ferry.get(), &copy, nullptr, near.stream(), &told, nullptr));
        EXPECT_EQ(told.relay_obstacle, FERRY_OBSTACLE_NONE);
        return told;
    };
    ASSERT_OK(ferry_peer_calibrate(ferry.get(), 0, 1, nullptr));
    const ferry_peer_info info = info_of(ferry.get());
    const ferry_explanation measured = explain();
    EXPECT_GE(measured.relay_ns, info.relay_fixed_ns + size * 1000 / info.relay_mb_per_s);
    EXPECT_GE(measured.driver_ns, size * 1000 / info.bounce_mb_per_s);
    EXPECT_EQ(measured.route == FERRY_ROUTE_RELAYED,
              static_cast<double>(measured.relay_ns) * 1.05 < static_cast<double>(measured.driver_ns));

    EXPECT_EQ(measured.profile, FERRY_PROFILE_MEASURED);

    const auto route_with = [&](std::uint32_t bounce_rate) {
        load_rates(ferry.get(), 0, 1,
                   {.direct_rate = 100'000,
                    .direct_fixed_ns = 1,
                    .bounce_rate = bounce_rate,
                    .relay_rate = 40'000,
                    .relay_fixed_ns = 100'000});
        return explain().route;
    };
    EXPECT_EQ(route_with(10'000), FERRY_ROUTE_RELAYED);
    const bytes sent = random_bytes(size, 1);
    near.write(sent);
    ASSERT_OK(ferry_copy_async(ferry.get(), &copy, nullptr, near.stream(), nullptr, nullptr));
    near.wait();
    EXPECT_TRUE(far.read() == sent);
    EXPECT_EQ(route_with(50'000), FERRY_ROUTE_DRIVER);
}

TEST_F(profiles_of_pairs, a_failed_calibration_of_a_pair_changes_nothing) {
    const char *const entries[] = {
        "cuCtxCreate",         "cuCtxPushCurrent",    "cuStreamCreateWithPriority", "cuMemGetInfo",
        "cuMemAlloc",          "cuMemHostAlloc",      "cuMemHostRegister",          "cuPointerGetAttributes",
        "cuEventCreate",       "cuEventRecord",       "cuStreamWaitEvent",          "cuMemcpy3DAsync",
        "cuMemcpy3DPeerAsync", "cuStreamSynchronize", "cuCtxEnablePeerAccess",      "cuLaunchKernel"};
    fault_driver faults(raw_entry_points());
    ferry_options options = faults.options();
    options.kernels = FERRY_KERNELS_AT_OPEN; // they stay
    const instance_owner ferry = open_or_fail(options);
    ASSERT_OK(ferry_context_synchronize(ferry.get(), 0, nullptr, nullptr)); // makes the contexts
    ASSERT_OK(ferry_context_synchronize(ferry.get(), 1, nullptr, nullptr));
    ferry_peer_probe(ferry.get(), 0, 1, nullptr);
    std::map<std::string, int> calls; // of a calibration, by entry point
    {
        const instance_owner healthy = open_or_fail(faults.options());
        ferry_peer_probe(healthy.get(), 0, 1, nullptr);
        ASSERT_OK(ferry_context_synchronize(healthy.get(), 0, nullptr, nullptr));
        faults.reset_counts();
        ASSERT_OK(ferry_peer_calibrate(healthy.get(), 0, 1, nullptr));
        for (const char *const entry : entries)
            calls[entry] = faults.calls(entry);
    }
    const std::string before = saved(ferry.get());
    const std::size_t objects = faults.live_objects().size();
    const std::uint64_t free_before = free_memory();
    for (const char *const entry : entries) {
        const int count = calls[entry];
        for (const int nth :
             std::set{1, 2, count / 4}) {         // shorter lines, on a busy machine, have a third of the chunks
            if (nth < 1 || nth > count) continue; // such as allocations, where pinned memory is registered
            SCOPED_TRACE(testing::Message() << entry << ", call " << nth << " of " << count);
            faults.reset_counts();
            faults.fail(entry, CUDA_ERROR_UNKNOWN, nth);
            EXPECT_EQ(ferry_peer_calibrate(ferry.get(), 0, 1, nullptr), FERRY_STATUS_DRIVER_BASE - CUDA_ERROR_UNKNOWN);
            faults.heal();
            EXPECT_EQ(saved(ferry.get()), before);
            EXPECT_EQ(info_of(ferry.get()).bounce_mb_per_s, 0u);
            EXPECT_EQ(info_of(ferry.get()).relay_mb_per_s, 0u);
            EXPECT_EQ(faults.live_objects().size(), objects);
            expect_memory_is_back(free_before);
            CUcontext now = nullptr;
            ASSERT_OK(raw().cuCtxGetCurrent(&now));
            EXPECT_EQ(now, context);
        }
    }
    EXPECT_OK(ferry_peer_calibrate(ferry.get(), 0, 1, nullptr));
    EXPECT_NE(saved(ferry.get()), before);
}

// ---- Drivers that lack something

TEST_F(profiles, where_kernels_cannot_be_loaded_the_rest_is_measured) {
    driver_without_kernels faults;
    const instance_owner ferry = open_or_fail(faults.options());
    const std::string before = saved(ferry.get());
    ASSERT_OK(ferry_device_calibrate(ferry.get(), 0, nullptr));
    const std::string found = saved(ferry.get());
    for (const char *const entry : {"cuMemcpyBatchAsync", "cuMemcpy3DBatchAsync"})
        EXPECT_EQ(faults.calls(entry) > 0, ferry_instance_get_proc(ferry.get(), entry, 13000) != nullptr) << entry;
    EXPECT_EQ(numbers(found, "within_device.kernel_line_rate"), numbers(before, "within_device.kernel_line_rate"));
    EXPECT_NE(numbers(found, "within_device.driver_rates.both_gaps"),
              numbers(before, "within_device.driver_rates.both_gaps"));
}

TEST_F(profiles, where_nothing_is_staged_the_rest_is_measured) {
    ferry_options options = options_under_test();
    options.staging = FERRY_STAGING_NONE;
    const instance_owner ferry = open_or_fail(options);
    use_impossible_numbers(ferry.get());
    const std::string before = saved(ferry.get());
    ASSERT_OK(ferry_device_calibrate(ferry.get(), 0, nullptr));
    const std::string found = saved(ferry.get());
    for (const std::string fact : {"staged_fixed_ns", "staged_rate", "staged_thread_rate", "staged_row_ns"})
        EXPECT_EQ(numbers(found, "host_to_device." + fact), numbers(before, "host_to_device." + fact)) << fact;
    EXPECT_NE(numbers(found, "host_to_device.driver_line_rate"), numbers(before, "host_to_device.driver_line_rate"));
}

TEST_F(profiles, batch_calls_that_a_driver_refuses_keep_their_previous_numbers) {
    if (!raw().cuMemcpyBatchAsync && !raw().cuMemcpyBatchAsync_v12080) GTEST_SKIP() << "the driver has none";
    driver_without_kernels faults;
    const instance_owner ferry = open_or_fail(faults.options());
    const std::string before = saved(ferry.get());
    faults.fail("cuMemcpyBatchAsync", CUDA_ERROR_NOT_SUPPORTED, 1, true);
    faults.fail("cuMemcpy3DBatchAsync", CUDA_ERROR_UNKNOWN, 3); // once measuring has begun
    ASSERT_OK(ferry_device_calibrate(ferry.get(), 0, nullptr));
    const std::string found = saved(ferry.get());
    const auto expect_kept = [&](const std::string &name, bool is_kept) {
        EXPECT_EQ(numbers(found, name) == numbers(before, name), is_kept) << name;
    };
    for (const std::string direction : {"host_to_device", "device_to_host", "within_device"}) {
        expect_kept(direction + ".batch_piece_ns", true);
        expect_kept(direction + ".driver_rates.both_gaps", false);
    }
    expect_kept("host_to_device.batch_box_ns", true);
    expect_kept("batch_fixed_ns", true);
}

TEST_F(profiles, a_calibration_works_with_less_memory) {
    fault_driver faults(raw_entry_points());
    const instance_owner ferry = open_or_fail(faults.options());
    faults.fail("cuMemAlloc", CUDA_ERROR_OUT_OF_MEMORY, 2);
    faults.fail("cuMemHostAlloc", CUDA_ERROR_OUT_OF_MEMORY, 1);
    faults.reset_counts();
    EXPECT_OK(ferry_device_calibrate(ferry.get(), 0, nullptr));
    EXPECT_EQ(faults.calls("cuMemHostAlloc"), 2);
    EXPECT_EQ(faults.calls("cuMemAlloc"), 4);
    EXPECT_EQ(faults.calls("cuMemFree"), 3) << "for the allocations that succeeded";
    faults.fail("cuMemAlloc", CUDA_ERROR_OUT_OF_MEMORY, 1, true);
    EXPECT_EQ(ferry_device_calibrate(ferry.get(), 0, nullptr), FERRY_STATUS_DRIVER_BASE - CUDA_ERROR_OUT_OF_MEMORY);
    faults.heal();
    faults.hide("cuStreamCreateWithPriority");
    const instance_owner without_streams = open_or_fail(faults.options());
    EXPECT_EQ(ferry_device_calibrate(without_streams.get(), 0, nullptr), FERRY_ERROR_UNSUPPORTED);
}

TEST_F(profiles, a_calibration_needs_no_current_context_and_leaves_captures_alone) {
    const driver_without_kernels driver;
    const instance_owner ferry = open_or_fail(driver.options());
    CUstream stream = nullptr;
    CUdeviceptr memory = 0;
    ASSERT_OK(raw().cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    ASSERT_OK(raw().cuMemAlloc(&memory, 64));
    ASSERT_OK(raw().cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    std::thread([&] {
        CUcontext current = nullptr;
        EXPECT_OK(ferry_device_calibrate(ferry.get(), 0, nullptr));
        EXPECT_OK(raw().cuCtxGetCurrent(&current));
        EXPECT_EQ(current, nullptr);
    }).join();
    EXPECT_OK(raw().cuMemsetD8Async(memory, 1, 64, stream));
    CUgraph graph = nullptr;
    EXPECT_OK(raw().cuStreamEndCapture(stream, &graph)) << "the capture is intact";
    EXPECT_OK(raw().cuGraphDestroy(graph));
    EXPECT_OK(raw().cuMemFree(memory));
    EXPECT_OK(raw().cuStreamDestroy(stream));
}

TEST_F(profiles, copies_continue_while_profiles_change) {
    const instance_owner ferry = open_or_fail(options_under_test());
    const std::string text = saved(ferry.get());
    std::uint64_t memory = 0;
    ASSERT_OK(ferry_device_alloc(ferry.get(), 0, 4096, &memory, nullptr));
    std::atomic<bool> is_over = false;
    std::thread loader([&] {
        for (int round = 0; round < 200; ++round)
            EXPECT_OK(ferry_profile_load(ferry.get(), text.data(), text.size(), nullptr));
        is_over = true;
    });
    bytes rows(4096);
    ferry_place source, destination;
    ferry_place_host_pitched(&source, rows.data(), 8, 0);
    ferry_place_device_pitched(&destination, 0, memory, 4, 0);
    ferry_copy_desc copy;
    ferry_copy_desc_set(&copy, &source, &destination, 4, 512, 1);
    do
        ASSERT_OK(ferry_copy(ferry.get(), &copy, nullptr, nullptr));
    while (!is_over);
    loader.join();
    EXPECT_OK(ferry_device_free(ferry.get(), memory, nullptr));
}

// The program's allocator. It counts the bytes that the library holds.
struct counted_memory {
    std::atomic<std::int64_t> held = 0;
    std::atomic<bool> is_empty = false;

    void install(ferry_options &options) {
        options.allocate_user = this;
        options.allocate = [](void *self, std::uint64_t size, std::uint64_t alignment) -> void * {
            auto &counted = *static_cast<counted_memory *>(self);
            if (counted.is_empty) return nullptr;
            counted.held += static_cast<std::int64_t>(size);
            return allocate_aligned(size, alignment);
        };
        options.deallocate = [](void *self, void *memory, std::uint64_t size) {
            if (memory) static_cast<counted_memory *>(self)->held -= static_cast<std::int64_t>(size);
            free_aligned(memory);
        };
    }
};

TEST_F(profiles, memory_for_profiles_comes_from_the_program_and_is_returned) {
    counted_memory counted;
    ferry_options options = options_under_test();
    counted.install(options);
    {
        const instance_owner ferry = open_or_fail(options);
        const std::string text = saved(ferry.get());
        counted.is_empty = true;
        EXPECT_EQ(ferry_profile_load(ferry.get(), text.data(), text.size(), nullptr), FERRY_ERROR_OUT_OF_MEMORY);
        EXPECT_EQ(ferry_device_calibrate(ferry.get(), 0, nullptr), FERRY_ERROR_OUT_OF_MEMORY);
        if (device_count() > 1) {
            EXPECT_EQ(ferry_peer_calibrate(ferry.get(), 0, 1, nullptr), FERRY_ERROR_OUT_OF_MEMORY);
            EXPECT_EQ(saved(ferry.get()), text);
        }
        counted.is_empty = false;
        EXPECT_OK(ferry_profile_load(ferry.get(), text.data(), text.size(), nullptr));
        counted.is_empty = true;
        EXPECT_OK(ferry_profile_load(ferry.get(), text.data(), text.size(), nullptr)) << "its memory is there already";
        counted.is_empty = false;
    }
    EXPECT_EQ(counted.held, 0);
}

TEST_F(profiles, loading_the_same_profiles_again_takes_no_more_memory) {
    const driver_without_kernels driver;
    counted_memory counted;
    ferry_options options = driver.options();
    counted.install(options);
    {
        const instance_owner ferry = open_or_fail(options);
        const std::string built_in = saved(ferry.get());
        ASSERT_OK(ferry_device_calibrate(ferry.get(), 0, nullptr));
        const std::string measured = saved(ferry.get());
        ASSERT_NE(measured, built_in);
        ASSERT_OK(ferry_profile_load(ferry.get(), built_in.data(), built_in.size(), nullptr));
        const std::int64_t held = counted.held;
        const auto load_both = [&] {
            for (int round = 0; round < 100; ++round)
                for (const std::string *const text : {&built_in, &measured})
                    EXPECT_OK(ferry_profile_load(ferry.get(), text->data(), text->size(), nullptr));
        };
        std::thread other(load_both);
        load_both();
        other.join();
        EXPECT_EQ(counted.held, held);
        EXPECT_EQ(saved(ferry.get()), measured);
    }
    EXPECT_EQ(counted.held, 0);
}

} // namespace
} // namespace ferry::test
