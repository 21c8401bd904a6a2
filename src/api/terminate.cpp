// For the shared library, which contains the C++ library. If a program ends with an uncaught exception, the C++ library
// prints the name of its type, and contains a demangler for that purpose: 60 KB in libstdc++, 170 KB in libc++. No
// exception leaves ferry, so the functions below replace this code.
#include <cstddef>

// NOLINTBEGIN(bugprone-reserved-identifier): names of the C++ library

// libstdc++
namespace __gnu_cxx {
void __verbose_terminate_handler();
void __verbose_terminate_handler() { __builtin_abort(); }
} // namespace __gnu_cxx

// libc++ prints the mangled name if there is no demangled name.
extern "C" char *__cxa_demangle(const char *, char *, std::size_t *, int *status);
char *__cxa_demangle(const char *, char *, std::size_t *, int *status) {
    if (status) *status = -1;
    return nullptr;
}

// NOLINTEND(bugprone-reserved-identifier)
