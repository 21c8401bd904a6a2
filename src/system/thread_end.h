// Calls a function at the end of each thread that requested it. Unlike the destructor of a thread_local, it can be
// closed, so the library can be unloaded while such threads are still running.
#pragma once

#include <cstdint>

namespace ferry {

class thread_end {
public:
    // `at_end` receives the value that the thread has set. False if the system cannot register another function.
    [[nodiscard]] bool open(void (*at_end)(void *value)) noexcept;
    // After close() returns, the function is no longer called. During close(), some systems call it for threads that
    // are still running.
    void close() noexcept;
    void set(void *value) noexcept; // for the calling thread; not null

private:
    std::uint32_t key_ = 0;
};

// Calls the function in every child that this process forks. The registration cannot be undone.
[[nodiscard]] bool call_in_forked_child(void (*function)()) noexcept;

} // namespace ferry
