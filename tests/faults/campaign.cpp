// Makes each driver call of a scenario fail in turn, and reports every expectation that was not met.
//
// For each scenario, a first run counts the calls of each entry point. Then each of these calls fails in a separate
// run: once or from then on, with an ordinary error or with a status that reports a dead context. A run is a process
// that opens the driver again. A run that does not end is killed and counted. FERRY_TEST_DRIVER selects the driver.
//
//   test-faults [--scenario=TEXT] [--entry=NAME] [--nth=N] [--mode=TEXT] [--jobs=N] [--limit=SECONDS]
//
// FERRY_FAULT_SECONDS stops the campaign after that many seconds. The order of the cases is then random, determined by
// FERRY_FAULT_SEED. The seed is printed.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <thread>

#include <dirent.h>
#include <execinfo.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "faults/trial.h"
#include "support/second_process.h"

namespace ferry::test {
namespace {

// ---- Cases

struct fault_mode {
    const char *name;
    CUresult result; // CUDA_SUCCESS: an error that is typical of the entry point
    bool sticky;
};
constexpr fault_mode fault_modes[] = {
    {"once unknown", CUDA_ERROR_UNKNOWN, false},      {"once refused", CUDA_SUCCESS, false},
    {"once dead", CUDA_ERROR_ILLEGAL_ADDRESS, false}, // as if another context had died
    {"sticky unknown", CUDA_ERROR_UNKNOWN, true},     {"sticky refused", CUDA_SUCCESS, true},
};

CUresult natural_refusal(const std::string &entry) {
    // Other statuses would mean that the memory to be released was already freed with its context.
    for (const char *const part : {"Unregister", "FreeHost"})
        if (entry.find(part) != std::string::npos) return CUDA_ERROR_NOT_PERMITTED;
    for (const char *const part : {"Alloc", "Create", "Register", "Load", "Retain", "Import", "Open", "EnablePeer"})
        if (entry.find(part) != std::string::npos) return CUDA_ERROR_OUT_OF_MEMORY;
    return CUDA_ERROR_INVALID_VALUE;
}

struct fault_case {
    const scenario *of;
    const char *entry;
    int nth;
    const fault_mode *mode;
};

// Chooses the first calls, some in the middle and the last two.
std::vector<int> chosen_calls(int count, int most) {
    std::vector<int> chosen;
    if (count <= most) {
        for (int nth = 1; nth <= count; ++nth)
            chosen.push_back(nth);
        return chosen;
    }
    const int last = std::min(2, most / 3), middle = std::min(3, most / 3), first = most - last - middle;
    for (int nth = 1; nth <= first; ++nth)
        chosen.push_back(nth);
    for (int i = 1; i <= middle; ++i)
        chosen.push_back(first + (count - last - first) * i / (middle + 1));
    for (int nth = count - last + 1; nth <= count; ++nth)
        chosen.push_back(nth);
    chosen.erase(std::unique(chosen.begin(), chosen.end()), chosen.end());
    return chosen;
}

// ---- Findings that do not fail the campaign

// A null field matches anything. `text` is the beginning of the finding's text, `mode` a part of the mode's name.
struct exemption {
    finding kind;
    const char *text, *scenario, *entry, *mode;
    const char *why;
};

// Unavoidable consequences of a fault.
constexpr char no_context[] = "the driver frees no pinned memory without a context",
               no_owner[] =
                   "without its context ferry cannot know whose memory has the address of a prepared batch's table",
               no_wait[] = "a pool of buffers stays if the wait for its memory fails";
constexpr exemption consequences[] = {
    {finding::driver_leak, nullptr, nullptr, "cuCtxGetId", "refused", "the driver reports that the context has ended"},
    {finding::driver_leak, "surface", nullptr, "cuCtxGetCurrent", "sticky",
     "its context can no longer be made current"},
    {finding::driver_leak, "registration", "without a current context", "cuCtxGetCurrent", nullptr, no_context},
    {finding::driver_leak, "registration", "without a current context", "cuCtxPushCurrent", nullptr, no_context},
    {finding::driver_leak, "device memory", "prepared batches", "cuCtxGetCurrent", nullptr, no_owner},
    {finding::driver_leak, "device memory", "prepared batches", "cuCtxPushCurrent", nullptr, no_owner},
    {finding::driver_leak, "pool", "arrays through a buffer", nullptr, nullptr, no_wait},
    {finding::driver_leak, "pool", "nests through a buffer", nullptr, nullptr, no_wait},
};

bool is_equal(const char *wanted, const char *text) { return !wanted || std::strcmp(wanted, text) == 0; }

template <class List> bool is_in(const List &list, const fault_case &one, finding kind, const char *text) {
    return std::any_of(std::begin(list), std::end(list), [&](const exemption &each) {
        return each.kind == kind && (!each.text || std::strncmp(text, each.text, std::strlen(each.text)) == 0) &&
               is_equal(each.scenario, one.of->name) && is_equal(each.entry, one.entry) &&
               (!each.mode || std::strstr(one.mode->name, each.mode));
    });
}

// ---- One run, in its own process

int limit_s = 40; // longer than any run takes on a busy machine with sanitizers
constexpr int status_no_driver = 77, status_hang = 78;

verdict *running = nullptr;

void print_stack(int) {
    void *frames[64];
    backtrace_symbols_fd(frames, backtrace(frames, 64), 1);
    const char end[] = "--\n";
    static_cast<void>(!write(1, end, sizeof end - 1));
}

// Prints the stacks of all threads, except threads that block signals.
void stop_hung_run(int) {
    running->add(finding::hang, "in %s", running->last_call);
    if (DIR *const tasks = opendir("/proc/self/task")) {
        while (const dirent *const one = readdir(tasks))
            if (const int thread = std::atoi(one->d_name)) {
                syscall(SYS_tgkill, getpid(), thread, SIGUSR1);
                std::this_thread::sleep_for(
                    std::chrono::milliseconds(20)); // so that the stacks are printed one after another
            }
    }
    _exit(status_hang);
}

[[noreturn]] void run_in_child(const scenario &of, const fault &planned, verdict &result, int output) {
    dup2(output, 1);
    dup2(output, 2);
    running = &result;
    void *frame = nullptr;
    backtrace(&frame, 1); // loads what a backtrace needs, which a signal handler may not do
    std::signal(SIGUSR1, print_stack);
    std::signal(SIGALRM, stop_hung_run);
    alarm(static_cast<unsigned>(of.is_long ? 6 * limit_s : limit_s));
    if (const std::int32_t status = open_driver_under_test())
        _exit(status == FERRY_ERROR_NO_DRIVER || status == FERRY_ERROR_NO_DEVICE ? status_no_driver : 1);
    {
        trial run(planned, result);
        of.run(run);
    }
    std::fflush(nullptr);
    _exit(0); // a sanitizer with findings changes this status
}

// Runs several processes in parallel, each with its own verdict and output.
class runner {
public:
    explicit runner(int jobs) : slots_(static_cast<std::size_t>(jobs)) {
        for (slot &one : slots_) {
            one.result = static_cast<verdict *>(
                mmap(nullptr, sizeof(verdict), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
            one.output = memfd_create("output", MFD_CLOEXEC);
        }
    }
    using report = std::function<void(const verdict &result, const std::string &output, int exit_status)>;
    void start(const scenario &of, const fault &planned, report done) {
        slot *free = nullptr;
        while (!free) {
            for (slot &one : slots_)
                if (one.process == 0) free = &one;
            if (!free) wait_for_one();
        }
        *free->result = {};
        static_cast<void>(!ftruncate(free->output, 0));
        lseek(free->output, 0, SEEK_SET);
        free->done = std::move(done);
        std::fflush(nullptr);
        free->process = fork();
        if (free->process == 0) run_in_child(of, planned, *free->result, free->output);
        if (free->process < 0) std::abort();
    }
    void finish() {
        while (std::any_of(slots_.begin(), slots_.end(), [](const slot &one) { return one.process != 0; }))
            wait_for_one();
    }

private:
    struct slot {
        pid_t process = 0;
        verdict *result = nullptr;
        int output = -1;
        report done;
    };
    void wait_for_one() {
        int status = 0;
        const pid_t ended = waitpid(-1, &status, 0);
        for (slot &one : slots_) {
            if (one.process != ended) continue;
            one.process = 0;
            std::string output(static_cast<std::size_t>(lseek(one.output, 0, SEEK_END)), '\0');
            static_cast<void>(!pread(one.output, output.data(), output.size(), 0));
            if (WIFSIGNALED(status))
                one.result->add(finding::crash, "in %s: %s", one.result->last_call, strsignal(WTERMSIG(status)));
            else if (WEXITSTATUS(status) && WEXITSTATUS(status) != status_no_driver &&
                     WEXITSTATUS(status) != status_hang)
                one.result->add(finding::crash, "in %s: exit status %d", one.result->last_call, WEXITSTATUS(status));
            one.done(*one.result, output, status);
        }
    }
    std::vector<slot> slots_;
};

// ---- The campaign

struct row {
    int cases = 0, injected = 0, failed_calls = 0, failed_streams = 0, defects = 0;
    void add(const row &other) {
        cases += other.cases, injected += other.injected, failed_calls += other.failed_calls;
        failed_streams += other.failed_streams, defects += other.defects;
    }
};

struct choice {
    std::string scenario, entry, mode;
    int nth = 0;
    int jobs = 1;
};

class campaign {
public:
    explicit campaign(const choice &wanted) : wanted_(wanted), runner_(wanted.jobs) {}

    // Returns 77 if the driver does not exist.
    int run() {
        count_calls();
        if (!has_driver_) {
            std::printf("SKIPPED: no GPU\n");
            return 77;
        }
        if (seconds_) shuffle();
        const auto end =
            std::chrono::steady_clock::now() + std::chrono::seconds(seconds_ ? std::atoi(seconds_) : 1 << 30);
        std::printf("cases: %zu\n", cases_.size());
        for (const fault_case &one : cases_) {
            if (std::chrono::steady_clock::now() >= end) break;
            const CUresult result = one.mode->result ? one.mode->result : natural_refusal(one.entry);
            runner_.start(
                *one.of, {one.entry, one.nth, result, one.mode->sticky},
                [this, one](const verdict &found, const std::string &output, int) { note(one, found, output); });
        }
        runner_.finish();
        print_table();
        return total_.defects || has_failed_ ? 1 : 0;
    }

private:
    void count_calls() {
        for (const std::vector<scenario> *list : {&memory_scenarios, &copy_scenarios})
            for (const scenario &one : *list) {
                if (std::string(one.name).find(wanted_.scenario) == std::string::npos) continue;
                if (one.is_long && seconds_ && wanted_.scenario.empty()) continue;
                runner_.start(one, {}, [this, &one](const verdict &found, const std::string &output, int status) {
                    if (WIFEXITED(status) && WEXITSTATUS(status) == status_no_driver) {
                        has_driver_ = false;
                        return;
                    }
                    for (int i = 0; i < found.finding_count; ++i) {
                        std::printf("defect without a fault: %s: %s: %s\n%s", one.name, name_of(found.findings[i].kind),
                                    found.findings[i].text, output.c_str());
                        has_failed_ = true;
                    }
                    plan(one, found);
                });
            }
        runner_.finish();
    }

    void plan(const scenario &of, const verdict &counted) {
        for (int i = 0; i < driver_symbol_count; ++i) {
            const char *const entry = driver_symbols[i].name;
            if (i > 0 && std::strcmp(entry, driver_symbols[i - 1].name) == 0)
                continue; // the older signature of the same name
            if (!wanted_.entry.empty() && wanted_.entry != entry) continue;
            for (const int nth : chosen_calls(counted.counts[i], of.max_calls))
                for (const fault_mode &mode : fault_modes)
                    if ((wanted_.nth == 0 || wanted_.nth == nth) &&
                        std::string(mode.name).find(wanted_.mode) != std::string::npos)
                        cases_.push_back({&of, entry, nth, &mode});
        }
    }

    void shuffle() {
        const char *const given = std::getenv("FERRY_FAULT_SEED");
        const unsigned seed = given ? static_cast<unsigned>(std::strtoul(given, nullptr, 10)) : std::random_device()();
        std::printf("FERRY_FAULT_SEED=%u\n", seed);
        // Runs end in any order, so their counts arrive in any order.
        std::sort(cases_.begin(), cases_.end(), [](const fault_case &one, const fault_case &other) {
            return std::tuple(std::string(one.of->name), std::string(one.entry), one.nth, one.mode) <
                   std::tuple(std::string(other.of->name), std::string(other.entry), other.nth, other.mode);
        });
        std::shuffle(cases_.begin(), cases_.end(), std::mt19937(seed));
    }

    void note(const fault_case &one, const verdict &found, const std::string &output) {
        row added = {.cases = 1,
                     .injected = found.injected,
                     .failed_calls = found.failed_calls,
                     .failed_streams = found.failed_streams};
        calls_ += found.calls;
        for (int i = 0; i < found.finding_count; ++i) {
            if (is_in(consequences, one, found.findings[i].kind, found.findings[i].text)) continue;
            ++kinds_[found.findings[i].kind];
            std::printf("defect: %s, %s call %d, %s: %s: %s\n", one.of->name, one.entry, one.nth, one.mode->name,
                        name_of(found.findings[i].kind), found.findings[i].text);
            added.defects = 1;
        }
        if (added.defects && outputs_printed_ < 40 && !output.empty()) {
            std::printf("%s\n", output.c_str());
            ++outputs_printed_;
        }
        std::fflush(stdout);
        rows_[one.entry].add(added);
        total_.add(added);
    }

    void print_table() const {
        const auto print = [](const char *name, const row &of) {
            std::printf("%-36s %7d %9d %13d %15d %8d\n", name, of.cases, of.injected, of.failed_calls,
                        of.failed_streams, of.defects);
        };
        std::printf("%-36s %7s %9s %13s %15s %8s\n", "entry point", "cases", "injected", "failed calls",
                    "failed streams", "defects");
        for (const auto &[entry, of] : rows_)
            print(entry.c_str(), of);
        print("all", total_);
        std::printf("faults: cases=%d injected=%d calls=%lld failed_calls=%d failed_streams=%d defects=%d",
                    total_.cases, total_.injected, calls_, total_.failed_calls, total_.failed_streams, total_.defects);
        for (const auto &[kind, count] : kinds_) {
            std::string name = name_of(kind);
            std::replace(name.begin(), name.end(), ' ', '_');
            std::printf(" %s=%d", name.c_str(), count);
        }
        std::printf("\n");
    }

    const choice wanted_;
    const char *const seconds_ = std::getenv("FERRY_FAULT_SECONDS"); // null: no limit
    runner runner_;
    bool has_driver_ = true, has_failed_ = false;
    std::vector<fault_case> cases_;
    std::map<std::string, row> rows_;
    std::map<finding, int> kinds_;
    row total_;
    long long calls_ = 0;
    int outputs_printed_ = 0;
};

bool read_argument(const char *argument, const char *name, std::string &value) {
    const std::size_t length = std::strlen(name);
    if (std::strncmp(argument, name, length) != 0) return false;
    value = argument + length;
    return true;
}

} // namespace
} // namespace ferry::test

int main(int argc, char **argv) {
    using namespace ferry::test;
    if (argc > 1 && std::strcmp(argv[1], "--second-process") == 0) { // the second process of a scenario
        int status = open_driver_under_test();
        if (status == FERRY_SUCCESS) play_second_process(argc, argv, status);
        return status ? 1 : 0;
    }
    choice wanted;
    for (int i = 1; i < argc; ++i) {
        std::string number;
        if (read_argument(argv[i], "--scenario=", wanted.scenario) ||
            read_argument(argv[i], "--entry=", wanted.entry) || read_argument(argv[i], "--mode=", wanted.mode))
            continue;
        if (read_argument(argv[i], "--nth=", number)) {
            wanted.nth = std::atoi(number.c_str());
        } else if (read_argument(argv[i], "--limit=", number)) {
            limit_s = std::max(std::atoi(number.c_str()), 1);
        } else if (read_argument(argv[i], "--jobs=", number)) {
            wanted.jobs = std::max(std::atoi(number.c_str()), 1);
        } else {
            std::printf(
                "test-faults [--scenario=TEXT] [--entry=NAME] [--nth=N] [--mode=TEXT] [--jobs=N] [--limit=SECONDS]\n");
            return 2;
        }
    }
    return campaign(wanted).run();
}
