#include "base/explanation.h"

#include <cinttypes>
#include <cstdio>

#include "base/obstacle.h"

namespace ferry {

namespace {

struct end_name {
    char text[32];
};

end_name name_of(std::int32_t memory, std::int32_t device) noexcept {
    constexpr const char *names[] = {"pageable", "pinned", "device", "managed", "array"};
    end_name name;
    const char *word = memory >= 0 && memory <= FERRY_MEMORY_ARRAY ? names[memory] : "?";
    if (memory == FERRY_MEMORY_ARRAY)
        std::snprintf(name.text, sizeof name.text, "array on device %d", device);
    else if (memory == FERRY_MEMORY_DEVICE)
        std::snprintf(name.text, sizeof name.text, "device %d", device);
    else
        std::snprintf(name.text, sizeof name.text, "%s", word);
    return name;
}

} // namespace

std::uint64_t format_explanation(const ferry_explanation &told, char *buffer, std::uint64_t size) noexcept {
    constexpr const char *waits[] = {"does not block", "blocks until the source has been read", "blocks until done"};
    const bool is_known = told.blocks >= 0 && told.blocks <= FERRY_BLOCKS_UNTIL_DONE;
    const bool by_kernel = told.route == FERRY_ROUTE_KERNEL;
    char how[48] = "", times[64] = "";
    if (by_kernel)
        std::snprintf(how, sizeof how, " on %" PRIu32 " multiprocessors", told.multiprocessors);
    else if (told.calls > 1)
        std::snprintf(how, sizeof how, " in %" PRIu32 " calls", told.calls);
    const auto microseconds = [](std::uint64_t ns) noexcept { return static_cast<double>(ns) * 1e-3; };
    if (told.driver_ns && told.kernel_ns)
        std::snprintf(times, sizeof times, "; %.1f us by the driver, %.1f us by a kernel", microseconds(told.driver_ns),
                      microseconds(told.kernel_ns));
    else if (told.driver_ns)
        std::snprintf(times, sizeof times, "; %.1f us", microseconds(told.driver_ns));
    const bool says_why = !by_kernel && told.kernel_obstacle != FERRY_OBSTACLE_NONE;
    const char *const why = says_why ? text_of(static_cast<std::uint64_t>(told.kernel_obstacle)) : "";
    const int length = told.route == FERRY_ROUTE_NONE
                           ? std::snprintf(buffer, size, "nothing to copy")
                           : std::snprintf(buffer, size,
                                           "%s route: %s%s%s, %s to %s, %" PRIu64 " B x %" PRIu64 " rows x %" PRIu64
                                           " slices; %s%s%s%s",
                                           by_kernel ? "kernel" : "driver", told.driver_call, how,
                                           told.synchronises ? " and cuStreamSynchronize" : "",
                                           name_of(told.source_memory, told.source_device).text,
                                           name_of(told.destination_memory, told.destination_device).text, told.width,
                                           told.height, told.depth, is_known ? waits[told.blocks] : "", times,
                                           says_why ? "; no kernel: " : "", why);
    return length < 0 ? 0 : static_cast<std::uint64_t>(length);
}

} // namespace ferry
