#include "faults/trial.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>

#include "support/gpu_profile.h"

namespace ferry::test {

namespace {

// Memory that ferry has allocated from the program. Every block must be deallocated, with its size.
std::mutex blocks_mutex;
std::map<void *, std::uint64_t> blocks; // guarded by blocks_mutex
verdict *blocks_verdict = nullptr;

void *allocate_counted(void *, std::uint64_t size, std::uint64_t alignment) {
    void *const made = std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
    const std::lock_guard lock(blocks_mutex);
    if (made) blocks[made] = size;
    return made;
}

void deallocate_counted(void *, void *memory, std::uint64_t size) {
    const std::lock_guard lock(blocks_mutex);
    const auto found = blocks.find(memory);
    if (found == blocks.end() || found->second != size) {
        blocks_verdict->add(finding::bad_output, "%p of %llu bytes was deallocated, but is not allocated", memory,
                            static_cast<unsigned long long>(size));
        return;
    }
    blocks.erase(found);
    std::free(memory);
}

} // namespace

const char *name_of(finding kind) {
    constexpr const char *names[] = {"hang",        "crash",           "wrong bytes", "stream failed", "host leak",
                                     "driver leak", "context changed", "bad output",  "harness"};
    return names[static_cast<int>(kind)];
}

void verdict::add(finding kind, const char *format, ...) {
    if (finding_count == static_cast<int>(std::size(findings))) return;
    auto &made = findings[finding_count];
    made.kind = kind;
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(made.text, sizeof made.text, format, arguments);
    va_end(arguments);
    ++finding_count; // last, because the run may end at any time
}

trial::trial(const fault &planned, verdict &result) : driver(raw_entry_points()), planned_(planned), result_(result) {
    blocks_verdict = &result;
    EXPECT_OK(raw().cuDevicePrimaryCtxRetain(&primary, 0));
    make_current(primary);
    EXPECT_OK(raw().cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
}

trial::~trial() {
    if (ferry) close();
    if (testing::UnitTest::GetInstance()->ad_hoc_test_result().Failed() && !is_dead_)
        add(finding::harness, "a call of the test itself failed, see above");
    look_for_leaks();
    raw().cuStreamDestroy(stream);
    raw().cuCtxSetCurrent(nullptr);
    raw().cuDevicePrimaryCtxRelease(0);
}

ferry_options trial::options() {
    ferry_options options = driver.options();
    options.allocate = allocate_counted;
    options.deallocate = deallocate_counted;
    return options;
}

void trial::open(const ferry_options &options) {
    EXPECT_OK(ferry_open(&options, &ferry, nullptr));
    plan_as_on_a_gpu(ferry);
    begin_faults();
}

void trial::begin_faults() {
    driver.reset_counts();
    if (planned_.entry) driver.fail(planned_.entry, planned_.result, planned_.nth, planned_.sticky);
}

void trial::close() {
    begin("ferry_close");
    ferry_close(ferry);
    ferry = nullptr;
    ended("ferry_close", FERRY_SUCCESS);
    for (int row = 0; row < driver_symbol_count; ++row)
        result_.counts[row] = driver.calls(driver_symbols[row].name);
    result_.injected = driver.injected();
    driver.heal();
}

void trial::begin(const char *name) { std::snprintf(result_.last_call, sizeof result_.last_call, "%s", name); }

void trial::ended_refused(const char *name, std::int32_t status) {
    note_call(name, status);
    if (status == FERRY_SUCCESS) add(finding::bad_output, "%s did what it must refuse", name);
}

bool trial::ended(const char *name, std::int32_t status) {
    note_call(name, status);
    if (status == FERRY_SUCCESS) return true;
    ++result_.failed_calls;
    if (!driver.injected()) add(finding::harness, "%s failed before any fault: %s", name, ferry_status_name(status));
    return false;
}

void trial::note_call(const char *name, std::int32_t status) {
    ++result_.calls;
    CUcontext now = nullptr;
    raw().cuCtxGetCurrent(&now);
    if (now != context_) {
        // If the driver fails to pop a context, ferry cannot restore the previous context.
        const bool is_excused = fails("cuCtxPopCurrent") && driver.injected();
        if (!is_excused) add(finding::context_changed, "%s left another context current", name);
        raw().cuCtxSetCurrent(context_);
    }
    if (is_error_asked_ && error_.status != status)
        add(finding::bad_output, "%s returned %d, but its error info has %d", name, status, error_.status);
    if (is_error_asked_ && status <= FERRY_STATUS_DRIVER_BASE && !error_.driver_function)
        add(finding::bad_output, "%s returned %s without the name of a driver function", name,
            ferry_status_name(status));
    is_error_asked_ = false;
    if (status > 0 || std::string(ferry_status_name(status)) == "FERRY_ERROR_UNKNOWN_STATUS")
        add(finding::bad_output, "%s returned %d", name, status);
}

ferry_error_info *trial::error() {
    error_ = {};
    error_.struct_size = sizeof error_;
    is_error_asked_ = true;
    return &error_;
}

void trial::release(const char *name, const std::function<std::int32_t()> &call) {
    begin(name);
    if (ended(name, call())) return;
    driver.pause(true);
    begin(name);
    ended(name, call());
    driver.pause(false);
}

void trial::make_current(CUcontext context) {
    EXPECT_OK(raw().cuCtxSetCurrent(context));
    context_ = context;
}

void trial::expect_copy(bool succeeded, test_place &source, const box &from, test_place &destination, const box &to,
                        std::uint64_t width, std::uint64_t height, std::uint64_t depth) {
    touched_.insert(&destination);
    if (!succeeded || unknown_.count(&source))
        unknown_.insert(&destination);
    else
        reference_copy(source, from, destination, to, width, height, depth);
}

void trial::expect_pattern(bool succeeded, test_place &destination, const box &to, std::uint64_t width,
                           std::uint64_t height, std::uint64_t depth, const void *pattern, std::size_t pattern_size) {
    touched_.insert(&destination);
    if (!succeeded) {
        unknown_.insert(&destination);
        return;
    }
    for (std::uint64_t z = 0; z < depth; ++z)
        for (std::uint64_t y = 0; y < height; ++y)
            for (std::uint64_t x = 0; x < width; x += pattern_size)
                std::memcpy(&destination.picture_at(to.x + x, to.y + y, to.z + z), pattern, pattern_size);
}

void trial::wait_and_compare(CUstream on) {
    begin("cuStreamSynchronize of the test itself");
    if (const CUresult result = raw().cuStreamSynchronize(on)) note_dead("waiting for a stream", result);
    compare();
}

void trial::note_dead(const char *what, CUresult result) {
    if (!is_dead_) {
        ++result_.failed_streams;
        if (!planned_.means_death()) add(finding::stream_failed, "%s: CUresult %d", what, static_cast<int>(result));
    }
    is_dead_ = true;
}

void trial::compare() {
    // A synchronous call that failed may have left work in flight.
    if (!unknown_.empty())
        if (const CUresult result = raw().cuCtxSynchronize()) note_dead("waiting for a context", result);
    for (test_place *const place : touched_) {
        if (is_dead_) break;
        if (unknown_.count(place)) {
            place->fill(1);
            continue;
        }
        const bytes found = place->read();
        if (is_dead_ || found == place->picture()) continue;
        std::size_t wrong = 0, first = found.size();
        for (std::size_t i = 0; i < found.size(); ++i)
            if (found[i] != place->picture()[i]) {
                ++wrong;
                first = std::min(first, i);
            }
        add(finding::wrong_bytes, "%zu of %zu bytes of %s memory, the first at %zu", wrong, found.size(),
            name_of(place->kind()), first);
        place->fill(1);
    }
    touched_.clear();
    unknown_.clear();
}

void trial::look_for_leaks() {
    {
        const std::lock_guard lock(blocks_mutex);
        for (const auto &[address, size] : blocks)
            add(finding::host_leak, "%llu bytes at %p", static_cast<unsigned long long>(size), address);
    }
    if (is_dead_) return; // a dead context's objects cannot be released
    const std::vector<fault_driver::live_object> left = driver.live_objects();
    // A pool exists as long as memory of the pool is allocated.
    const bool is_memory_left = std::any_of(left.begin(), left.end(), [](const fault_driver::live_object &one) {
        return one.destruction_failed && std::string(one.kind) == "device memory";
    });
    for (const fault_driver::live_object &one : left)
        if (!one.destruction_failed && !(is_memory_left && std::string(one.kind) == "pool"))
            add(finding::driver_leak, "%s %llx", one.kind, static_cast<unsigned long long>(one.handle));
}

} // namespace ferry::test
