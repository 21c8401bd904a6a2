// A job system as in game engines. One thread runs only moves, which are ferry's work: a job that calls the driver may
// wait for a copy, and the copy waits for a move.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

class job_system {
public:
    explicit job_system(unsigned threads) {
        for (unsigned i = 0; i < threads + 1; ++i)
            threads_.emplace_back([this, only_moves = i == 0] { run(only_moves); });
    }
    ~job_system() {
        {
            const std::lock_guard<std::mutex> lock(mutex_);
            is_closing_ = true;
        }
        added_.notify_all();
        for (std::thread &one : threads_)
            one.join();
    }
    job_system(const job_system &) = delete;
    job_system &operator=(const job_system &) = delete;

    void add_job(std::function<void()> job) { add(jobs_, std::move(job)); }
    void add_move(std::function<void()> move) { add(moves_, std::move(move)); }

private:
    using queue = std::deque<std::function<void()>>;

    void add(queue &to, std::function<void()> job) {
        {
            const std::lock_guard<std::mutex> lock(mutex_);
            to.push_back(std::move(job));
        }
        added_.notify_all();
    }
    void run(bool only_moves) {
        std::unique_lock<std::mutex> lock(mutex_);
        for (;;) {
            added_.wait(lock, [&] { return is_closing_ || !moves_.empty() || (!only_moves && !jobs_.empty()); });
            queue *const from = !moves_.empty() ? &moves_ : !only_moves && !jobs_.empty() ? &jobs_ : nullptr;
            if (!from) return; // closing
            const std::function<void()> job = std::move(from->front());
            from->pop_front();
            lock.unlock();
            job();
            lock.lock();
        }
    }

    std::mutex mutex_;
    std::condition_variable added_;
    queue moves_, jobs_; // moves first
    bool is_closing_ = false;
    std::vector<std::thread> threads_;
};
