// Blocks a stream until the test releases it.
#pragma once

#include <atomic>
#include <deque>
#include <future>
#include <memory>
#include <mutex>

#include "support/driver_under_test.h"

namespace ferry::test {

// Blocks a stream with a host function until the gate is opened. Nothing may wait for the stream before that.
class gate {
public:
    explicit gate(CUstream stream) : held_(stream) { hold(stream); }
    ~gate() { open(); }
    gate(const gate &) = delete;
    gate &operator=(const gate &) = delete;

    // Blocks another stream too.
    void hold(CUstream stream) {
        EXPECT_OK(raw().cuLaunchHostFunc(
            stream, [](void *held) { static_cast<shared *>(held)->get()->opened.wait(); }, keep(opened_)));
    }
    // Opens the gate without waiting for the stream. Safe from any thread.
    void let_go() {
        if (!is_open_.exchange(true)) opened_->promise.set_value();
    }
    void open() {
        if (is_open_) return;
        let_go();
        raw().cuStreamSynchronize(held_);
    }

private:
    struct state {
        std::promise<void> promise;
        std::shared_future<void> opened = promise.get_future();
    };
    using shared = std::shared_ptr<state>;
    // Keeps the promise until the process ends. In a dead context the host function may never be called, so nothing
    // waits for it.
    static shared *keep(const shared &opened) {
        static std::mutex mutex;
        static auto *const kept = new std::deque<shared>;
        const std::lock_guard lock(mutex);
        return &kept->emplace_back(opened);
    }
    shared opened_ = std::make_shared<state>();
    CUstream held_;
    std::atomic<bool> is_open_ = false;
};

} // namespace ferry::test
