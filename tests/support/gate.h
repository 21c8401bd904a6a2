// Work that stays in a stream until a test lets it go.
#pragma once

#include <atomic>
#include <future>
#include <memory>

#include "support/driver_under_test.h"

namespace ferry::test {

// Holds a stream by a host function until it is opened. Nothing may wait for the stream before that.
class gate {
public:
    explicit gate(CUstream stream) : held_(stream) {
        EXPECT_OK(raw().cuLaunchHostFunc(
            stream,
            [](void *held) { std::unique_ptr<promise>(static_cast<promise *>(held))->get()->get_future().wait(); },
            new promise(opened_)));
    }
    ~gate() { open(); }
    gate(const gate &) = delete;
    gate &operator=(const gate &) = delete;

    // In any thread.
    void let_go() {
        if (!is_open_.exchange(true)) opened_->set_value();
    }
    void open() {
        if (is_open_) return;
        let_go();
        raw().cuStreamSynchronize(held_);
    }

private:
    // The host function's own, as no one waits for it in a context that has died.
    using promise = std::shared_ptr<std::promise<void>>;
    promise opened_ = std::make_shared<std::promise<void>>();
    CUstream held_;
    std::atomic<bool> is_open_ = false;
};

} // namespace ferry::test
