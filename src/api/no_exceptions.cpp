// For the shared library, which contains the C++ library. ferry is compiled without exceptions, but calls functions of
// the C++ library that may throw. The C++ library would then contain its code for exceptions, 70 KB in libstdc++, and
// allocate 72 KiB when it is loaded. ferry neither throws nor catches, so the functions below replace this code. The
// functions that would throw end the program instead, as an exception would in the first function of ferry that it
// reaches. All functions below are weak: if the C++ library contains its own versions for another reason, the linker
// uses the C++ library's versions.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>

#include <sched.h>

// NOLINTBEGIN(bugprone-reserved-identifier): names of the C++ library

namespace std {
[[gnu::weak]] void __throw_system_error(int);
void __throw_system_error(int) { __builtin_abort(); }
[[gnu::weak]] void __throw_out_of_range_fmt(const char *, ...);
void __throw_out_of_range_fmt(const char *, ...) { __builtin_abort(); }
} // namespace std

extern "C" {
[[gnu::weak]] int __gxx_personality_v0();
int __gxx_personality_v0() { __builtin_abort(); }

// Called before and after the initialisation of a static variable in a function. Compiled code reads the first byte,
// which is 1 once the variable is initialised. The second byte is 1 while a thread initialises it.
using guard_bytes = std::atomic<std::uint8_t>[8];
[[gnu::weak]] int __cxa_guard_acquire(guard_bytes *guard);
int __cxa_guard_acquire(guard_bytes *guard) {
    while (!(*guard)[0]) {
        if (!(*guard)[1].exchange(1)) return 1;
        sched_yield();
    }
    return 0;
}
[[gnu::weak]] void __cxa_guard_release(guard_bytes *guard);
void __cxa_guard_release(guard_bytes *guard) { (*guard)[0] = 1; }
}

// NOLINTEND(bugprone-reserved-identifier)

[[gnu::weak]] void *operator new(std::size_t) { __builtin_abort(); }
