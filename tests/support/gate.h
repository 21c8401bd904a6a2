// Holds work in a stream until the test releases it.
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
    explicit gate(CUstream stream) : held_(stream) {
        EXPECT_OK(raw().cuLaunchHostFunc(
            stream, [](void *held) { static_cast<promise *>(held)->get()->get_future().wait(); }, keep(opened_)));
    }
    ~gate() { open(); }
    gate(const gate &) = delete;
    gate &operator=(const gate &) = delete;

    // Opens the gate without waiting for the stream. Safe from any thread.
    void let_go() {
        if (!is_open_.exchange(true)) opened_->set_value();
    }
    void open() {
        if (is_open_) return;
        let_go();
        raw().cuStreamSynchronize(held_);
    }

private:
    using promise = std::shared_ptr<std::promise<void>>;
    // Keeps the promise until the process ends. In a dead context the host function may never be called, and nobody
    // waits for it.
    static promise *keep(const promise &opened) {
        static std::mutex mutex;
        static auto *const kept = new std::deque<promise>;
        const std::lock_guard lock(mutex);
        return &kept->emplace_back(opened);
    }
    promise opened_ = std::make_shared<std::promise<void>>();
    CUstream held_;
    std::atomic<bool> is_open_ = false;
};

} // namespace ferry::test
