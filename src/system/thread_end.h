// Calls a function at the end of each thread that asked for it. Unlike the destructor of a thread_local, it can be closed,
// so the library can be unloaded while such threads live on.
#pragma once

#include <cstdint>

namespace ferry {

class thread_end {
public:
    // `at_end` gets the value that the thread has set. False if the system has no room for another such function.
    [[nodiscard]] bool open(void (*at_end)(void *value)) noexcept;
    // Afterwards the function is not called. Meanwhile some systems call it for threads that live on.
    void close() noexcept;
    void set(void *value) noexcept; // for the calling thread; not null

private:
    std::uint32_t key_ = 0;
};

// Calls the function in every child that a fork makes of this process. It cannot be taken back.
[[nodiscard]] bool call_in_forked_child(void (*function)()) noexcept;

} // namespace ferry
