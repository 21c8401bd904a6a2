// Reasons why a route cannot serve a copy: the values of FERRY_OBSTACLE_*, followed by values that only planning uses.
#pragma once

#include <cstdint>
#include <iterator>

#include "ferry/ferry.h"

namespace ferry {

// The obstacles that programs see, with their numbers in ferry.h.
#define FERRY_PUBLIC_OBSTACLES(OBSTACLE)                                                                               \
    OBSTACLE(none, FERRY_OBSTACLE_NONE, "none")                                                                        \
    OBSTACLE(no_route, FERRY_OBSTACLE_NO_ROUTE, "the forced route serves single copies, but no pieces of a batch")     \
    OBSTACLE(forbidden, FERRY_OBSTACLE_FORBIDDEN, "the options exclude kernels")                                       \
    OBSTACLE(not_loaded, FERRY_OBSTACLE_NOT_LOADED, "kernels not loaded (see ferry_options.kernels)")                  \
    OBSTACLE(host_to_host, FERRY_OBSTACLE_HOST_TO_HOST, "both ends are host memory")                                   \
    OBSTACLE(pageable, FERRY_OBSTACLE_PAGEABLE, "pageable memory")                                                     \
    OBSTACLE(managed, FERRY_OBSTACLE_MANAGED, "managed memory, which may reside anywhere (URGENT allows kernels)")     \
    OBSTACLE(array, FERRY_OBSTACLE_ARRAY, "an array that kernels cannot access (FERRY_ARRAY_SURFACE allows reads)")    \
    OBSTACLE(no_peer_access, FERRY_OBSTACLE_NO_ACCESS,                                                                 \
             "memory that the context cannot access (see ferry_peer_enable)")                                          \
    OBSTACLE(beyond, FERRY_OBSTACLE_BEYOND, "past the end of an allocation or registration")                           \
    OBSTACLE(read_only, FERRY_OBSTACLE_READ_ONLY, "memory that the device may only read")                              \
    OBSTACLE(not_pageable, FERRY_OBSTACLE_NOT_PAGEABLE, "no end is pageable memory")                                   \
    OBSTACLE(no_staging, FERRY_OBSTACLE_NO_STAGING,                                                                    \
             "staging is disabled (see ferry_options.staging) or has no threads or pinned memory")                     \
    OBSTACLE(other_device, FERRY_OBSTACLE_OTHER_DEVICE, "memory on a device other than the stream's")                  \
    OBSTACLE(direct, FERRY_OBSTACLE_DIRECT, "the device can access the host memory directly, at link speed")           \
    OBSTACLE(not_between_devices, FERRY_OBSTACLE_NOT_BETWEEN_DEVICES, "the ends are not on two devices")               \
    OBSTACLE(direct_access, FERRY_OBSTACLE_DIRECT_ACCESS, "one device can access the memory of the other")             \
    OBSTACLE(no_helpers, FERRY_OBSTACLE_NO_HELPERS, "no helpers (see ferry_multilink_set)")                            \
    OBSTACLE(not_cut, FERRY_OBSTACLE_NOT_CUT, "rows below 64 KiB, or addresses or pitches that differ modulo 16")      \
    OBSTACLE(small, FERRY_OBSTACLE_SMALL, "too small to benefit")                                                      \
    OBSTACLE(captured, FERRY_OBSTACLE_CAPTURED, "the copy becomes part of a graph")                                    \
    OBSTACLE(waits, FERRY_OBSTACLE_WAITS, "every route would wait for work of a stream")                               \
    OBSTACLE(not_prepared, FERRY_OBSTACLE_NOT_PREPARED, "the first-use work is not done (see ferry_staging_prepare)")  \
    OBSTACLE(busy, FERRY_OBSTACLE_BUSY, "other copies use what the route needs (try again later)")                     \
    OBSTACLE(file, FERRY_OBSTACLE_FILE, "an end is a file")

// The obstacles that only planning uses.
#define FERRY_INTERNAL_OBSTACLES(OBSTACLE)                                                                             \
    OBSTACLE(not_known, "not known")                                                                                   \
    OBSTACLE(not_measured, "device without a profile")                                                                 \
    OBSTACLE(default_stream, "default stream")                                                                         \
    OBSTACLE(no_entry_point, "missing from the driver")

enum class obstacle : std::uint8_t {
#define FERRY_OBSTACLE(name, number, text) name = number,
    FERRY_PUBLIC_OBSTACLES(FERRY_OBSTACLE)
#undef FERRY_OBSTACLE
#define FERRY_OBSTACLE(name, text) name,
        FERRY_INTERNAL_OBSTACLES(FERRY_OBSTACLE)
#undef FERRY_OBSTACLE
};

constexpr std::int32_t public_obstacles[] = {
#define FERRY_OBSTACLE(name, number, text) number,
    FERRY_PUBLIC_OBSTACLES(FERRY_OBSTACLE)
#undef FERRY_OBSTACLE
};
constexpr std::int32_t last_public_obstacle = static_cast<std::int32_t>(std::size(public_obstacles)) - 1;
#define FERRY_OBSTACLE(...) +1
constexpr int obstacles = last_public_obstacle + 1 FERRY_INTERNAL_OBSTACLES(FERRY_OBSTACLE);
#undef FERRY_OBSTACLE

// Texts are found by number.
constexpr bool are_obstacles_in_order() noexcept {
    for (std::int32_t number = 0; number <= last_public_obstacle; ++number)
        if (public_obstacles[number] != number) return false;
    return true;
}
static_assert(are_obstacles_in_order(), "the obstacles must be in the order of their numbers in ferry.h");

// Returns "?" for a number that is not an obstacle.
const char *text_of(std::uint64_t why) noexcept;
inline const char *text_of(obstacle why) noexcept { return text_of(static_cast<std::uint64_t>(why)); }

} // namespace ferry
