// Frees the memory that the C++ runtime inside the shared library keeps, when the library is unloaded. Only a library
// with its own runtime contains this file: elsewhere the runtime belongs to the whole program.
#include "softdriver/state.h"

// libstdc++: frees the emergency memory for exceptions (72 KiB). Null in other runtimes.
namespace __gnu_cxx {
__attribute__((weak, visibility("hidden"))) void __freeres(); // NOLINT(bugprone-reserved-identifier): its own name
}

namespace ferry::softdriver {
namespace {

// Also called at process exit, when a driver that was left open may still run, and throw.
__attribute__((destructor)) void free_runtime() {
    if (__gnu_cxx::__freeres && !running_driver(false)) __gnu_cxx::__freeres();
}

} // namespace
} // namespace ferry::softdriver
