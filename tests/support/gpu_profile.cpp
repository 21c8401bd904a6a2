// Prints the profile of a GPU that was not measured, as a text for devices of the software driver. Tests that can use
// only the public interface load it.
#include "support/gpu_profile.h"

#include <cstdio>
#include <string>

int main() {
    ferry_options options = {};
    options.struct_size = sizeof options;
    options.driver = FERRY_DRIVER_SOFTWARE;
    ferry_instance *instance = nullptr;
    if (ferry_open(&options, &instance, nullptr)) return 1;
    ferry::test::plan_as_on_a_gpu(instance);
    std::uint64_t size = 0;
    ferry_profile_save(instance, 0, nullptr, 0, &size);
    std::string text(size, '\0');
    const bool is_saved = ferry_profile_save(instance, 0, text.data(), size, nullptr) == FERRY_SUCCESS;
    ferry_close(instance);
    return is_saved && std::fputs(text.c_str(), stdout) >= 0 ? 0 : 1;
}
