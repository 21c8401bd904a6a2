#include "support/driver_under_test.h"

#include "softdriver/softdriver.h"
#include "support/gpu_profile.h"
#include "support/second_process.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>

namespace ferry::test {

namespace {

// Stays open while the program runs, so that every test gets the same software driver with the same configuration.
struct environment {
    ferry_instance *instance = nullptr;
    driver_table table;
    bool found[driver_symbol_count] = {};
    ferry_report report = {};
} environment;

std::int32_t wanted_driver() {
    const char *wanted = std::getenv("FERRY_TEST_DRIVER");
    return wanted && std::strcmp(wanted, "cuda") == 0 ? FERRY_DRIVER_CUDA : FERRY_DRIVER_SOFTWARE;
}

std::uint32_t number_in(const char *variable) {
    const char *wanted = std::getenv(variable);
    return wanted ? static_cast<std::uint32_t>(std::atoi(wanted)) : 0;
}
std::uint32_t wanted_queues() { return number_in("FERRY_TEST_QUEUES"); }

// Starts the software driver with the settings of the environment. Instances join it. Lossy links are for tests only, so
// they are not among the settings that ferry_open passes on.
void start_software_driver() {
#if FERRY_HAS_SOFTWARE_DRIVER
    if (wanted_driver() != FERRY_DRIVER_SOFTWARE) return;
    softdriver::config settings;
    settings.devices = number_in("FERRY_TEST_DEVICES");
    settings.hardware_queues = wanted_queues();
    settings.links = static_cast<softdriver::device_links>(number_in("FERRY_TEST_LINKS"));
    settings.device_memory = number_in("FERRY_TEST_MEMORY");
    if (softdriver::open(settings) != softdriver::open_result::opened) std::abort();
#endif
}

void end_software_driver() {
#if FERRY_HAS_SOFTWARE_DRIVER
    if (wanted_driver() == FERRY_DRIVER_SOFTWARE) softdriver::close();
#endif
}

void *get_real(void *, const char *name, int version) {
    return ferry_instance_get_proc(environment.instance, name, version);
}

} // namespace

const driver_table &raw() { return environment.table; }
resolver raw_entry_points() { return {get_real, nullptr}; }
bool on_software_driver() { return environment.report.driver == FERRY_DRIVER_SOFTWARE; }
int device_count() { return environment.report.device_count; }
bool streams_share_a_queue() { return wanted_queues() == 1; }

ferry_options options_under_test() {
    ferry_options options = {};
    options.struct_size = sizeof options;
    options.driver = wanted_driver();
    return options;
}

instance_owner open_or_fail(const ferry_options &options) {
    ferry_instance *instance = nullptr;
    ferry_error_info error = new_error();
    EXPECT_OK(ferry_open(&options, &instance, &error)) << describe(error);
    plan_as_on_a_gpu(instance);
    return instance_owner(instance);
}

[[gnu::weak]] void take_arguments(int, char **) {}

void driver_test::SetUp() {
    CUdevice device = 0;
    ASSERT_OK(raw().cuDeviceGet(&device, 0));
    ASSERT_OK(raw().cuDevicePrimaryCtxRetain(&context, device));
    ASSERT_OK(raw().cuCtxSetCurrent(context));
}

void driver_test::TearDown() {
    EXPECT_OK(raw().cuCtxSetCurrent(context));
    EXPECT_OK(raw().cuCtxSynchronize());
    EXPECT_OK(raw().cuCtxSetCurrent(nullptr));
    EXPECT_OK(raw().cuDevicePrimaryCtxRelease(0));
}

void ferry_test::SetUp() {
    driver_test::SetUp();
    ferry_options options = options_under_test();
    basic = open_or_fail(options);
    options.checks = FERRY_CHECKS_FULL;
    full = open_or_fail(options);
    ASSERT_TRUE(basic && full);
}

void ferry_test::TearDown() {
    basic.reset();
    full.reset();
    driver_test::TearDown();
}

bytes random_bytes(std::size_t size, std::uint64_t seed) {
    // The bytes repeat after a prime number of bytes. A copy to a wrong place is still noticed, unless the distance is a
    // multiple of that number. Drawing all bytes would take most of the time of tests of large copies.
    constexpr std::size_t period = 1'000'003;
    // PCG's multiplier and increment. The xor mixes the high bits into the low bits, so that consecutive words differ
    // there too. A generator with more state is slow under sanitizers.
    std::linear_congruential_engine<std::uint64_t, 6364136223846793005, 1442695040888963407, 0> random(seed);
    bytes made(size);
    const std::size_t drawn = std::min(size, period);
    for (std::size_t i = 0; i < drawn; i += 8) {
        std::uint64_t word = random();
        word ^= word >> 32;
        std::memcpy(made.data() + i, &word, std::min<std::size_t>(drawn - i, 8));
    }
    for (std::size_t i = drawn; i < size; i += std::min(i, size - i))
        std::memcpy(made.data() + i, made.data(), std::min(i, size - i));
    return made;
}

ferry_error_info new_error() {
    ferry_error_info error = {};
    error.struct_size = sizeof error;
    return error;
}

std::string describe(const ferry_error_info &error) {
    std::string line(ferry_error_format(&error, nullptr, 0), '\0');
    ferry_error_format(&error, line.data(), line.size() + 1);
    return line;
}

ferry_explanation new_explanation() {
    ferry_explanation explanation = {};
    explanation.struct_size = sizeof explanation;
    return explanation;
}

std::string describe(const ferry_explanation &explanation) {
    std::string line(ferry_explanation_format(&explanation, nullptr, 0), '\0');
    ferry_explanation_format(&explanation, line.data(), line.size() + 1);
    return line;
}

::testing::AssertionResult is_success(std::int32_t status) {
    if (status == FERRY_SUCCESS) return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure() << ferry_status_name(status) << ": " << ferry_status_text(status);
}

::testing::AssertionResult is_success(CUresult result) {
    return is_success(result == CUDA_SUCCESS ? 0 : FERRY_STATUS_DRIVER_BASE - static_cast<std::int32_t>(result));
}

void expect_refusal(std::int32_t returned, const ferry_error_info &error, std::int32_t status, std::int32_t side,
                    std::int32_t field) {
    EXPECT_STREQ(ferry_status_name(returned), ferry_status_name(status));
    EXPECT_EQ(error.status, returned);
    EXPECT_EQ(error.side, side) << describe(error);
    EXPECT_EQ(error.field, field) << describe(error);
}

} // namespace ferry::test

int main(int argc, char **argv) {
    using namespace ferry::test;
    ::testing::InitGoogleTest(&argc, argv);
    take_arguments(argc, argv);
    const ferry_options options = options_under_test();
    start_software_driver();
    const std::int32_t status = ferry_open(&options, &environment.instance, nullptr);
    if (status) {
        const bool no_gpu = status == FERRY_ERROR_NO_DRIVER || status == FERRY_ERROR_NO_DEVICE;
        std::printf("%s: %s\n", no_gpu ? "SKIPPED, no GPU here" : "FAILED", ferry_status_text(status));
        return no_gpu ? 77 : 1; // Meson and Automake interpret 77 as skipped
    }
    environment.report.struct_size = sizeof environment.report;
    ferry_instance_get_report(environment.instance, &environment.report, nullptr);
    ferry::resolve_table(raw_entry_points(), environment.table, environment.found);
    // Retained for the whole run: a real driver takes tenths of a second to create a primary context again for every
    // test.
    CUcontext context = nullptr;
    for (int device = 0; device < device_count(); ++device)
        raw().cuDevicePrimaryCtxRetain(&context, device);
    int result = 0;
    if (!play_second_process(argc, argv, result)) result = RUN_ALL_TESTS();
    ferry_close(environment.instance);
    end_software_driver();
    return result;
}
