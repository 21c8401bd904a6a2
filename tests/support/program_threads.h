// Worker threads of a program, to which ferry submits its work. They end with this object.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

namespace ferry::test {

class program_threads {
public:
    explicit program_threads(int count = 2) {
        for (int i = 0; i < count; ++i)
            threads_.emplace_back([this] { run(); });
    }
    ~program_threads() {
        {
            const std::lock_guard lock(mutex_);
            is_over_ = true;
        }
        wake_.notify_all();
        for (std::thread &thread : threads_)
            thread.join();
    }
    program_threads(const program_threads &) = delete;
    program_threads &operator=(const program_threads &) = delete;

    // For ferry_options::submit; `user` is a program_threads.
    static std::int32_t submit(void *user, void (*work)(void *), void *argument) {
        auto &self = *static_cast<program_threads *>(user);
        const int nth = ++self.asked;
        if (self.refuses && self.refuses(nth)) return 0;
        {
            const std::lock_guard lock(self.mutex_);
            self.jobs_.push_back({work, argument});
        }
        self.wake_.notify_one();
        ++self.submitted;
        if (self.is_full && self.is_full(nth)) self.run_oldest();
        return 1;
    }

    // While held, submitted work waits.
    void hold(bool held) {
        {
            const std::lock_guard lock(mutex_);
            is_held_ = held;
        }
        wake_.notify_all();
    }
    int jobs_waiting() {
        const std::lock_guard lock(mutex_);
        return static_cast<int>(jobs_.size());
    }
    // A worker that runs looks for new copies before it returns.
    bool is_idle() {
        const std::lock_guard lock(mutex_);
        return jobs_.empty() && running_ == 0;
    }

    bool (*refuses)(int nth) = nullptr; // the calls of submit that return 0; null: none
    // The calls of submit that find the queue full. They run the oldest job themselves. Null: none.
    bool (*is_full)(int nth) = nullptr;
    static bool always(int) { return true; }
    static bool sometimes(int nth) { return nth % 3 != 0; }
    std::atomic<int> asked = 0, submitted = 0;

private:
    void run() {
        std::unique_lock lock(mutex_);
        for (;;) {
            wake_.wait(lock, [&] { return is_over_ || !(jobs_.empty() || is_held_); });
            if (jobs_.empty()) return;
            run_oldest(lock);
        }
    }
    void run_oldest(std::unique_lock<std::mutex> &lock) {
        const auto [work, argument] = jobs_.front();
        jobs_.pop_front();
        ++running_;
        lock.unlock();
        work(argument);
        lock.lock();
        --running_;
    }
    void run_oldest() {
        std::unique_lock lock(mutex_);
        if (!jobs_.empty()) run_oldest(lock);
    }

    std::mutex mutex_;
    std::condition_variable wake_;
    std::deque<std::pair<void (*)(void *), void *>> jobs_;
    int running_ = 0;
    bool is_over_ = false, is_held_ = false;
    std::deque<std::thread> threads_; // last, because the threads use the members above
};

} // namespace ferry::test
