// Implements support/driver_under_test.h for a program whose runs are forked children, each of which opens the driver
// again.
#include <cstdlib>
#include <cstring>
#include <random>

#include "faults/trial.h"

namespace ferry::test {

namespace {

struct {
    ferry_instance *instance = nullptr;
    driver_table table;
    ferry_report report = {};
} opened;

} // namespace

std::int32_t open_driver_under_test() {
    const ferry_options options = options_under_test();
    if (const std::int32_t status = ferry_open(&options, &opened.instance, nullptr)) return status;
    opened.report.struct_size = sizeof opened.report;
    ferry_instance_get_report(opened.instance, &opened.report, nullptr);
    bool found[driver_symbol_count] = {};
    resolve_table(raw_entry_points(), opened.table, found);
    return FERRY_SUCCESS;
}

const driver_table &raw() { return opened.table; }
resolver raw_entry_points() {
    return {
        [](void *, const char *name, int version) { return ferry_instance_get_proc(opened.instance, name, version); }};
}
bool on_software_driver() { return opened.report.driver == FERRY_DRIVER_SOFTWARE; }
int device_count() { return opened.report.device_count; }

ferry_options options_under_test() {
    const char *const wanted = std::getenv("FERRY_TEST_DRIVER");
    ferry_options options = {};
    options.struct_size = sizeof options;
    options.driver = wanted && std::strcmp(wanted, "cuda") == 0 ? FERRY_DRIVER_CUDA : FERRY_DRIVER_SOFTWARE;
    return options;
}

bytes random_bytes(std::size_t size, std::uint64_t seed) {
    std::linear_congruential_engine<std::uint64_t, 6364136223846793005, 1442695040888963407, 0> random(seed);
    bytes made((size + 7) / 8 * 8);
    for (std::size_t i = 0; i < made.size(); i += 8) {
        std::uint64_t word = random();
        word ^= word >> 32;
        std::memcpy(made.data() + i, &word, 8);
    }
    made.resize(size);
    return made;
}

::testing::AssertionResult is_success(std::int32_t status) {
    if (status == FERRY_SUCCESS) return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure() << ferry_status_name(status) << ": " << ferry_status_text(status);
}

::testing::AssertionResult is_success(CUresult result) {
    return is_success(result == CUDA_SUCCESS ? 0 : FERRY_STATUS_DRIVER_BASE - static_cast<std::int32_t>(result));
}

} // namespace ferry::test
