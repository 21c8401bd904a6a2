// One run of a scenario with one fault: an instance on a wrapped driver, and the expected effects of its calls.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <set>

#include "support/fault_driver.h"
#include "support/test_place.h"

namespace ferry::test {

// Opens the driver that FERRY_TEST_DRIVER names, for the functions of support/driver_under_test.h. Must be called once
// per process, after its last fork. Returns ferry_open's status.
std::int32_t open_driver_under_test();

// The driver call that is made to fail, and how. Without an entry point, no call fails and calls are only counted.
struct fault {
    const char *entry = nullptr;
    int nth = 1;
    CUresult result = CUDA_SUCCESS;
    bool sticky = false;

    bool means_death() const {
        return ferry_status_traits(FERRY_STATUS_DRIVER_BASE - result) & FERRY_STATUS_CONTEXT_DEAD;
    }
};

enum class finding : int {
    hang,
    crash,
    wrong_bytes,     // although all calls and the stream report success
    stream_failed,   // although the fault does not mean that a context is dead
    host_leak,       // memory of the program's allocator is left after ferry_close
    driver_leak,     // an object of the driver is left after ferry_close
    context_changed, // a call left another context current
    bad_output,      // a handle after a failure, an unknown status, or an error struct with another status
    harness,         // a call of the test itself failed
};
const char *name_of(finding kind);

// The result of a run, in memory that the run shares with the campaign.
struct verdict {
    int counts[driver_symbol_count]; // calls of each entry point while faults were possible
    int calls, failed_calls;         // calls of ferry's functions
    int injected;
    int failed_streams;
    char last_call[64];
    int finding_count;
    struct {
        finding kind;
        char text[240];
    } findings[6];

    [[gnu::format(printf, 3, 4)]] void add(finding kind, const char *format, ...);
};

class trial {
public:
    trial(const fault &planned, verdict &result);
    ~trial(); // closes the instance and detects leaks
    trial(const trial &) = delete;
    trial &operator=(const trial &) = delete;

    // Returns options that open the wrapped driver with a counting allocator.
    ferry_options options();
    // Opens `ferry` without a fault. From then on the planned driver calls fail.
    void open(const ferry_options &options);
    void open() { open(options()); }
    void begin_faults();
    void close();

    // CALL uses these two functions around each ferry call. `ended` counts the call, checks the invariants of every
    // call, and returns whether the call succeeded.
    void begin(const char *name);
    bool ended(const char *name, std::int32_t status);
    // Same as above, for a call that returns a handle, which must be null after a failure.
    template <class Handle> bool ended(const char *name, std::int32_t status, const Handle &handle) {
        const bool succeeded = ended(name, status);
        if (!succeeded && handle != Handle{}) add(finding::bad_output, "%s failed and returned an object", name);
        return succeeded;
    }
    // For a call that must not succeed, with or without a fault.
    void ended_refused(const char *name, std::int32_t status);
    // For the last argument of the next call. The status in the struct must equal the returned status, and a failure of
    // the driver must name the driver function.
    ferry_error_info *error();
    // For a call that releases something. If the call fails, it is repeated without faults.
    void release(const char *name, const std::function<std::int32_t()> &call);

    // Sets the current context. Each ferry call must leave it current.
    void make_current(CUcontext context);
    CUcontext context() const { return context_; }

    // Records the effect of a successful call. After a failed call, the destination may contain any bytes.
    void expect_copy(bool succeeded, test_place &source, const box &from, test_place &destination, const box &to,
                     std::uint64_t width, std::uint64_t height = 1, std::uint64_t depth = 1);
    void expect_pattern(bool succeeded, test_place &destination, const box &to, std::uint64_t width,
                        std::uint64_t height, std::uint64_t depth, const void *pattern, std::size_t pattern_size);
    // For the destination of a refused call.
    void expect_unchanged(test_place &destination) { touched_.insert(&destination); }
    // Waits for the stream through the raw driver and compares.
    void wait_and_compare(CUstream stream);
    // Compares the expected bytes. Sufficient alone after synchronous calls.
    void compare();
    // Returns whether the plan makes calls of this entry point fail.
    bool fails(const char *entry) const { return planned_.entry && std::strcmp(planned_.entry, entry) == 0; }
    // Returns whether the raw driver has reported a failed stream, and therefore a dead context. After that, nothing is
    // guaranteed.
    bool is_dead() const { return is_dead_; }
    void note_dead(const char *what, CUresult result);

    template <class... Values> void add(finding kind, const char *format, Values... values) {
        if constexpr (sizeof...(values) == 0)
            result_.add(kind, "%s", format);
        else
            result_.add(kind, format, values...);
    }

    ferry_instance *ferry = nullptr;
    fault_driver driver;
    CUcontext primary = nullptr; // of device 0; current at first
    CUstream stream = nullptr;   // created through the raw driver, non-blocking

private:
    void look_for_leaks();
    void note_call(const char *name, std::int32_t status);

    const fault planned_;
    verdict &result_;
    bool is_dead_ = false;
    CUcontext context_ = nullptr;
    ferry_error_info error_ = {};
    bool is_error_asked_ = false;
    std::set<test_place *> touched_, unknown_;
};

// Each adds the last argument, the trial's ferry_error_info.
#define CALL(trial, name, ...) ((trial).begin(#name), (trial).ended(#name, name(__VA_ARGS__, (trial).error())))
// `handle` is the result of the call.
#define MAKE(trial, handle, name, ...)                                                                                 \
    ((trial).begin(#name), (trial).ended(#name, name(__VA_ARGS__, (trial).error()), handle))
#define RELEASE(trial, name, ...) (trial).release(#name, [&] { return name(__VA_ARGS__, (trial).error()); })

struct scenario {
    const char *name;
    void (*run)(trial &);
    int max_calls = 16;   // maximum number of calls per entry point to fail: the first, some in the middle, the last
    bool is_long = false; // takes seconds, so it is omitted if time is limited
};
extern const std::vector<scenario> memory_scenarios, copy_scenarios;

} // namespace ferry::test
