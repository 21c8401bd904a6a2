// Tests random operations over the whole library against a model: every byte of every buffer, the effects of
// synchronous calls when they return, the order of work on streams, and the result of each call.
//
// FERRY_FUZZ_SECONDS sets the run time. FERRY_FUZZ_SEED is the first seed; without it the seed is random. --seed,
// --operations and --threads repeat a run that failed; with one thread the run draws the same operations again. --print
// 1 prints each operation.
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <random>
#include <thread>

#include "fuzz/operations.h"
#include "support/second_process.h"

namespace ferry::test {

namespace {

using std::chrono::steady_clock;

struct arguments {
    std::uint64_t seed = 0, operations = 0;
    unsigned threads = 1;
    bool repeats = false, prints = false;
} arguments;

std::uint64_t number_in(const char *variable, std::uint64_t otherwise) {
    const char *const text = std::getenv(variable);
    return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

// Ends the process when no thread makes progress any more, and reports the operation of each thread.
class watchdog {
public:
    explicit watchdog(fuzz_run &of) : of_(of) {}
    ~watchdog() {
        {
            const std::lock_guard lock(mutex_);
            is_over_ = true;
        }
        wake_.notify_all();
        thread_.join();
    }

private:
    void look_on() {
        constexpr std::chrono::seconds patience(90);
        std::uint64_t seen = fuzz_steps();
        auto since = steady_clock::now();
        std::unique_lock lock(mutex_);
        while (!wake_.wait_for(lock, std::chrono::milliseconds(500), [&] { return is_over_; })) {
            if (const std::uint64_t now = fuzz_steps(); now != seen) {
                seen = now;
                since = steady_clock::now();
            } else if (steady_clock::now() - since > patience) {
                std::fprintf(stderr, "No progress for 90 s: %s\n", of_.words().c_str());
                std::abort();
            }
        }
    }

    fuzz_run &of_;
    std::mutex mutex_;
    std::condition_variable wake_;
    bool is_over_ = false;
    std::thread thread_{[this] { look_on(); }};
};

void run_thread(fuzz_run &run, unsigned thread, std::uint64_t operations, std::string *history) {
    world made(run, thread);
    const made_current scope(made.contexts[1]);
    for (std::uint64_t i = 0; i < operations && !run.has_failed; ++i) {
        made.step();
        if (history) *history += made.words() + "\n";
    }
    if (!run.has_failed) made.check_all();
}

void run_once(std::uint64_t seed, unsigned threads, std::uint64_t operations, const ferry_ipc_handle *lent,
              std::string *history = nullptr) {
    fuzz_run run(seed, threads);
    run.lent = lent;
    run.prints = arguments.prints;
    run.forbids_waits = !history;
    const watchdog looks_on(run);
    std::deque<std::thread> others;
    for (unsigned thread = 1; thread < threads; ++thread)
        others.emplace_back(run_thread, std::ref(run), thread, operations, nullptr);
    run_thread(run, 0, operations, history);
    for (std::thread &one : others)
        one.join();
}

FERRY_SECOND_PROCESS(lends_memory) {
    const instance_owner ferry = open_or_fail(options_under_test());
    std::uint64_t address = 0;
    ferry_ipc_handle handle = {};
    EXPECT_OK(ferry_device_alloc(ferry.get(), 0, lent_bytes, &address, nullptr));
    EXPECT_OK(ferry_ipc_export_memory(ferry.get(), address, 0, &handle, nullptr));
    channel.send(handle);
    channel.await_for_ever(); // a campaign may take hours
    EXPECT_OK(ferry_device_free(ferry.get(), address, nullptr));
    return 0;
}

struct fuzz : driver_test {
    void SetUp() override {
        driver_test::SetUp();
        if (!has_second_process) return;
        lender.emplace("lends_memory");
        lent = (*lender)->receive<ferry_ipc_handle>();
    }
    void TearDown() override {
        if (lender) {
            (*lender)->arrive();
            EXPECT_EQ(lender->wait(), 0);
        }
        driver_test::TearDown();
    }
    void run_for(std::chrono::milliseconds time, unsigned threads) {
        const auto until = steady_clock::now() + time;
        const std::uint64_t first = number_in("FERRY_FUZZ_SEED", std::random_device()());
        std::printf("first seed: %llu; each run has 300 operations on %u threads\n",
                    static_cast<unsigned long long>(first), threads);
        std::fflush(stdout);
        std::uint64_t runs = 0;
        do
            run_once(first + runs++, threads, 300, lent_handle());
        while (!HasFailure() && steady_clock::now() < until);
        std::printf("%llu runs\n", static_cast<unsigned long long>(runs));
    }

    const ferry_ipc_handle *lent_handle() const { return lender ? &lent : nullptr; }

    std::optional<second_process> lender;
    ferry_ipc_handle lent = {};
};

const std::chrono::milliseconds fuzz_time(number_in("FERRY_FUZZ_SECONDS", 4) * 1000);

TEST_F(fuzz, random_operations_agree_with_the_model) {
    if (arguments.repeats)
        run_once(arguments.seed, arguments.threads, arguments.operations, lent_handle());
    else
        run_for(fuzz_time * 3 / 4, 1);
}

TEST_F(fuzz, random_operations_of_several_threads_agree_with_the_model) {
    if (arguments.repeats) GTEST_SKIP() << "a single run is being repeated";
    run_for(fuzz_time / 4, 3);
}

TEST_F(fuzz, a_seed_repeats_its_operations) {
    if (arguments.repeats) GTEST_SKIP() << "a single run is being repeated";
    // Timing rarely decides whether a call is refused because no slot is free. Then other operations follow.
    const auto history = [&] {
        std::string made;
        run_once(7, 1, 150, lent_handle(), &made);
        return made;
    };
    bool is_repeated = false;
    for (int attempts = 0; attempts < 4 && !is_repeated; ++attempts)
        is_repeated = history() == history();
    EXPECT_TRUE(is_repeated);
}

struct counts : ::testing::Environment {
    void TearDown() override {
        std::printf("compared: %llu MB\n", static_cast<unsigned long long>(checked_bytes() / 1'000'000));
        for (std::size_t i = 0; i < operation_count; ++i)
            std::printf("%10llu %s\n", static_cast<unsigned long long>(runs_of(i)), operations[i].name);
    }
};
const auto *const prints_counts = ::testing::AddGlobalTestEnvironment(new counts);

} // namespace

void take_arguments(int argc, char **argv) {
    for (int i = 1; i + 1 < argc; ++i) {
        const std::string name = argv[i];
        const std::uint64_t value = std::strtoull(argv[i + 1], nullptr, 0);
        if (name == "--seed") arguments.seed = value, arguments.repeats = true;
        if (name == "--operations") arguments.operations = value;
        if (name == "--print") arguments.prints = value;
        if (name == "--threads") arguments.threads = static_cast<unsigned>(value);
    }
    if (!arguments.operations) arguments.operations = 300;
}

} // namespace ferry::test
