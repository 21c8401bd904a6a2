// How a run opens the library, and the threads' reports of their current operations.
#include "fuzz/operations.h"

#include <cstdio>

namespace ferry::test {

const fuzz_setting fuzz_settings[] = {
    {"by default", FERRY_CHECKS_BASIC, FERRY_KERNELS_LAZY, FERRY_STAGING_LAZY},
    {"by default, with full checks", FERRY_CHECKS_FULL, FERRY_KERNELS_LAZY, FERRY_STAGING_LAZY},
    {"with everything at open", FERRY_CHECKS_BASIC, FERRY_KERNELS_AT_OPEN, FERRY_STAGING_AT_OPEN},
    {"with everything at open and full checks", FERRY_CHECKS_FULL, FERRY_KERNELS_AT_OPEN, FERRY_STAGING_AT_OPEN},
    {"with small rings", FERRY_CHECKS_BASIC, FERRY_KERNELS_AT_OPEN, FERRY_STAGING_LAZY, 64 << 10, 1},
    {"with threads of the program", FERRY_CHECKS_BASIC, FERRY_KERNELS_LAZY, FERRY_STAGING_LAZY, 256 << 10, 2, true},
    {"with a full queue", FERRY_CHECKS_BASIC, FERRY_KERNELS_LAZY, FERRY_STAGING_LAZY, 256 << 10, 2, true,
     program_threads::always},
    {"with a queue that is full at times", FERRY_CHECKS_FULL, FERRY_KERNELS_AT_OPEN, FERRY_STAGING_LAZY, 64 << 10, 2,
     true, program_threads::sometimes},
    {"without staging", FERRY_CHECKS_FULL, FERRY_KERNELS_LAZY, FERRY_STAGING_NONE},
    {"without kernels", FERRY_CHECKS_BASIC, FERRY_KERNELS_NONE, FERRY_STAGING_NONE},
};
const std::size_t fuzz_setting_count = std::size(fuzz_settings);

fuzz_run::fuzz_run(std::uint64_t seed, unsigned threads)
    : seed(seed), threads(threads), setting(fuzz_settings[dice(seed).up_to(fuzz_setting_count - 1)]), doing(threads) {
    ferry_options options = options_under_test();
    options.checks = setting.checks;
    options.kernels = setting.kernels;
    options.staging = setting.staging;
    options.staging_bytes = setting.staging_bytes;
    options.staging_threads = setting.staging_threads;
    if (setting.has_program_threads) {
        workers.emplace().is_full = setting.is_queue_full;
        options.submit = program_threads::submit;
        options.submit_user = &*workers;
    }
    if (dice(seed + 1).one_in(2)) {
        options.trace_user = this;
        options.trace = [](void *self, const ferry_trace_event *event) {
            if (event->phase == FERRY_PHASE_DONE && event->status) ++static_cast<fuzz_run *>(self)->failed_in_trace;
        };
    }
    ferry = open_or_fail(options);
    options.trace = nullptr;
    options.checks = setting.checks == FERRY_CHECKS_FULL ? FERRY_CHECKS_BASIC : FERRY_CHECKS_FULL;
    other = open_or_fail(options);
    options.copy_options = promises;
    promising = open_or_fail(options);
}

void fuzz_run::say(unsigned thread, const std::string &words) {
    const std::lock_guard lock(mutex_);
    doing[thread] = words;
    if (prints) std::printf("%u.%s\n", thread, words.c_str()), std::fflush(stdout);
}

std::string fuzz_run::words() {
    const std::lock_guard lock(mutex_);
    std::string all =
        "FERRY_FUZZ_SEED=" + std::to_string(seed) + " of " + std::to_string(threads) + " threads, " + setting.name;
    for (const std::string &one : doing)
        all += "\n  " + one;
    return all;
}

} // namespace ferry::test
