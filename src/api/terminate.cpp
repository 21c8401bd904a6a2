// For the shared library, which has the C++ library inside. When a program ends by an exception that nobody catches, that
// library prints the name of its type, and contains a demangler for it: 60 KB in libstdc++, 170 KB in libc++. ferry
// throws nothing that leaves it, so these take its place.
#include <cstddef>

// NOLINTBEGIN(bugprone-reserved-identifier): their own names

// libstdc++
namespace __gnu_cxx {
void __verbose_terminate_handler();
void __verbose_terminate_handler() { __builtin_abort(); }
} // namespace __gnu_cxx

// libc++, which prints a name as the linker knows it where there is no other.
extern "C" char *__cxa_demangle(const char *, char *, std::size_t *, int *status);
char *__cxa_demangle(const char *, char *, std::size_t *, int *status) {
    if (status) *status = -1;
    return nullptr;
}

// NOLINTEND(bugprone-reserved-identifier)
