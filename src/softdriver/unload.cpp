// When the shared library is unloaded, frees the memory that its C++ runtime keeps. Only a library with its own runtime
// contains this file, because otherwise the runtime belongs to the whole program.
#include "softdriver/state.h"

// libstdc++: frees the emergency memory for exceptions (72 KiB). Null in other runtimes.
namespace __gnu_cxx {
__attribute__((weak, visibility("hidden"))) void __freeres(); // NOLINT(bugprone-reserved-identifier): its own name
}

namespace ferry::softdriver {
namespace {

// Also called at process exit, when a driver that is still open may run and throw.
__attribute__((destructor)) void free_runtime() {
    if (__gnu_cxx::__freeres && !running_driver(false)) __gnu_cxx::__freeres();
}

} // namespace
} // namespace ferry::softdriver
