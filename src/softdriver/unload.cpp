// What the C++ runtime inside the shared library keeps for good, given back when the library is unloaded. In the shared
// library alone: elsewhere the runtime is the whole program's.
#include "softdriver/state.h"

// libstdc++: frees the memory set aside for exceptions when there is no other (72 KiB). Null in other runtimes.
namespace __gnu_cxx {
__attribute__((weak, visibility("hidden"))) void __freeres(); // NOLINT(bugprone-reserved-identifier): its own name
}

namespace ferry::softdriver {
namespace {

// Also called when the process exits; there a driver left open may still run, and throw.
__attribute__((destructor)) void free_runtime() {
    if (__gnu_cxx::__freeres && !running_driver(false)) __gnu_cxx::__freeres();
}

} // namespace
} // namespace ferry::softdriver
