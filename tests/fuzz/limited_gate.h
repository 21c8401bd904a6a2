// Blocks a stream while an operation enqueues work behind it.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

#include "fuzz/world.h"

namespace ferry::test {

// Blocks a stream until the gate is opened, for at most 60 s. A call that waits for the stream shows as a timeout. A
// call that pins memory, such as the first relay, may take seconds if other processes use the processors.
class limited_gate {
public:
    explicit limited_gate(const lane &on) {
        const made_current scope(on.context);
        EXPECT_OK(raw().cuLaunchHostFunc(
            on.stream,
            [](void *argument) {
                using namespace std::chrono;
                const std::unique_ptr<owner> held(static_cast<owner *>(argument));
                const auto until = steady_clock::now() + seconds(60);
                while (!(*held)->is_open && steady_clock::now() < until)
                    std::this_thread::sleep_for(microseconds(100));
                (*held)->has_timed_out = !(*held)->is_open;
            },
            new owner(state_)));
    }
    ~limited_gate() { open(); }
    limited_gate(const limited_gate &) = delete;
    void open() { state_->is_open = true; }
    bool has_timed_out() const { return state_->has_timed_out; }

private:
    struct state {
        std::atomic<bool> is_open = false, has_timed_out = false;
    };
    using owner = std::shared_ptr<state>; // shared with the host function, which may end later
    owner state_ = std::make_shared<state>();
};

} // namespace ferry::test
