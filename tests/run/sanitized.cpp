// Copies through the driver. sanitizers_test.py compiles it with each sanitizer and runs it beneath ferry-run.
#include <cstdio>
#include <thread>
#include <vector>

#include <dlfcn.h>

namespace {

template <class... Arguments> int call(const char *name, Arguments... arguments) {
    static void *const driver = dlopen("libcuda.so.1", RTLD_NOW);
    const auto function = driver ? reinterpret_cast<int (*)(Arguments...)>(dlsym(driver, name)) : nullptr;
    return function ? function(arguments...) : -1;
}

} // namespace

int main() {
    void *context = nullptr;
    int failures = call("cuInit", 0U) || call("cuDevicePrimaryCtxRetain", &context, 0);
    const auto copy_there_and_back = [&] {
        const std::vector<unsigned char> from(std::size_t{8} << 20, 7);
        std::vector<unsigned char> to(from.size());
        unsigned long long memory = 0;
        failures += call("cuCtxSetCurrent", context) || call("cuMemAlloc_v2", &memory, from.size()) ||
                    call("cuMemcpyHtoD_v2", memory, static_cast<const void *>(from.data()), from.size()) ||
                    call("cuMemcpyDtoH_v2", static_cast<void *>(to.data()), memory, to.size()) || from != to;
    };
    std::thread(copy_there_and_back).join();
    std::printf("%d failures\n", failures);
    return failures;
}
