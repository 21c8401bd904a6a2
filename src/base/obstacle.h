// Reasons why a route cannot serve a copy: the values of FERRY_OBSTACLE_*, followed by values that only planning uses.
#pragma once

#include <cstdint>

namespace ferry {

#define FERRY_OBSTACLES(OBSTACLE)                                                                                      \
    OBSTACLE(none, "none")                                                                                             \
    OBSTACLE(no_route, "pieces of a batch cannot be staged")                                                           \
    OBSTACLE(forbidden, "the flags exclude kernels")                                                                   \
    OBSTACLE(not_loaded, "kernels not loaded (see ferry_options.kernels)")                                             \
    OBSTACLE(host_to_host, "both ends are host memory")                                                                \
    OBSTACLE(pageable, "pageable memory")                                                                              \
    OBSTACLE(managed, "managed memory, which may be anywhere (URGENT takes kernels)")                                  \
    OBSTACLE(array, "an array that kernels cannot copy (FERRY_ARRAY_SURFACE lets them read it)")                       \
    OBSTACLE(no_peer_access, "memory that the context cannot access (see ferry_peer_enable)")                          \
    OBSTACLE(beyond, "past the end of an allocation or registration")                                                  \
    OBSTACLE(read_only, "memory that the device may only read")                                                        \
    OBSTACLE(not_pageable, "no pageable memory")                                                                       \
    OBSTACLE(no_staging, "staging disabled (see ferry_options.staging), or without threads or pinned memory")          \
    OBSTACLE(other_device, "memory of another device than the stream's")                                               \
    OBSTACLE(direct, "the device reads host memory itself, at the speed of its link")                                  \
    OBSTACLE(not_between_devices, "the ends are not on two devices")                                                   \
    OBSTACLE(direct_access, "a device has access to the memory of the other")                                          \
    OBSTACLE(no_helpers, "no helpers: see ferry_multilink_set")                                                        \
    OBSTACLE(not_cut, "rows below 64 KiB, or addresses or pitches that differ modulo 16")                              \
    OBSTACLE(small, "too small to gain by it")                                                                         \
    OBSTACLE(captured, "the copy becomes part of a graph")                                                             \
    /* Not public: */                                                                                                  \
    OBSTACLE(not_known, "not known")                                                                                   \
    OBSTACLE(not_measured, "device without a profile")                                                                 \
    OBSTACLE(default_stream, "default stream")                                                                         \
    OBSTACLE(no_entry_point, "missing in the driver")

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
