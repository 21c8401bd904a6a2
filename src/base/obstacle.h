// Reasons why a route cannot serve a copy: the values of FERRY_OBSTACLE_*, followed by values that only planning uses.
#pragma once

#include <cstdint>

namespace ferry {

#define FERRY_OBSTACLES(OBSTACLE)                                                                                      \
    OBSTACLE(none, "none")                                                                                             \
    OBSTACLE(no_route, "the forced route does not serve pieces of a batch")                                            \
    OBSTACLE(forbidden, "the flags exclude kernels")                                                                   \
    OBSTACLE(not_loaded, "kernels not loaded (see ferry_options.kernels)")                                             \
    OBSTACLE(host_to_host, "both ends are host memory")                                                                \
    OBSTACLE(pageable, "pageable memory")                                                                              \
    OBSTACLE(managed, "managed memory, which may reside anywhere (URGENT allows kernels)")                             \
    OBSTACLE(array, "an array that kernels cannot access (FERRY_ARRAY_SURFACE allows reads)")                          \
    OBSTACLE(no_peer_access, "memory that the context cannot access (see ferry_peer_enable)")                          \
    OBSTACLE(beyond, "past the end of an allocation or registration")                                                  \
    OBSTACLE(read_only, "memory that the device may only read")                                                        \
    OBSTACLE(not_pageable, "no pageable memory")                                                                       \
    OBSTACLE(no_staging, "staging is disabled (see ferry_options.staging) or has no threads or pinned memory")         \
    OBSTACLE(other_device, "memory on a device other than the stream's")                                               \
    OBSTACLE(direct, "the device can access the host memory directly, at link speed")                                  \
    OBSTACLE(not_between_devices, "the ends are not on two devices")                                                   \
    OBSTACLE(direct_access, "one device can access the memory of the other")                                           \
    OBSTACLE(no_helpers, "no helpers (see ferry_multilink_set)")                                                       \
    OBSTACLE(not_cut, "rows below 64 KiB, or addresses or pitches that differ modulo 16")                              \
    OBSTACLE(small, "too small to benefit")                                                                            \
    OBSTACLE(captured, "the copy becomes part of a graph")                                                             \
    /* Not public: */                                                                                                  \
    OBSTACLE(not_known, "not known")                                                                                   \
    OBSTACLE(not_measured, "device without a profile")                                                                 \
    OBSTACLE(default_stream, "default stream")                                                                         \
    OBSTACLE(no_entry_point, "missing from the driver")

enum class obstacle : std::uint8_t {
#define FERRY_OBSTACLE(name, text) name,
    FERRY_OBSTACLES(FERRY_OBSTACLE)
#undef FERRY_OBSTACLE
};
constexpr int obstacles = static_cast<int>(obstacle::no_entry_point) + 1;

// Returns "?" for a number that is not an obstacle.
const char *text_of(std::uint64_t why) noexcept;
inline const char *text_of(obstacle why) noexcept { return text_of(static_cast<std::uint64_t>(why)); }

} // namespace ferry
