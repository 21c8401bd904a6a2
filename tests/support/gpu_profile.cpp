// Prints the profile of a GPU that was not measured, as a text for devices of the software driver. Tests that can use
// only the public interface load it. With an argument, the driver copies pageable memory so slowly in this profile that
// ferry stages every such copy, even on a busy machine.
#include "support/gpu_profile.h"

#include <cstdio>
#include <string>

int main(int argc, char **) {
    ferry_options options = {};
    options.struct_size = sizeof options;
    options.driver = FERRY_DRIVER_SOFTWARE;
    ferry_instance *instance = nullptr;
    if (ferry_open(&options, &instance, nullptr)) return 1;
    ferry::test::plan_as_on_a_gpu(instance);
    ferry::device_profile slow = ferry::built_in_profile(ferry_device_info{});
    for (ferry::direction_profile &direction : slow.directions)
        direction.driver_pageable_rate = 1;
    if (argc > 1) instance->profiles.use(0, &slow);
    std::uint64_t size = 0;
    ferry_profile_save(instance, 0, nullptr, 0, &size, nullptr);
    std::string text(size, '\0');
    const bool is_saved = ferry_profile_save(instance, 0, text.data(), size, nullptr, nullptr) == FERRY_SUCCESS;
    ferry_close(instance);
    return is_saved && std::fputs(text.c_str(), stdout) >= 0 ? 0 : 1;
}
