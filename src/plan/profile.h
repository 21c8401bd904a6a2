// The measured performance of a device, from which the cost model predicts times. Profiles are built in for the
// measured generations, replaced by a calibration of the machine itself, and stored as text.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "device/facts.h"
#include "ferry/ferry_devices.h"

namespace ferry {

enum class copy_direction : std::uint8_t { host_to_device, device_to_host, within_device, between_devices };
constexpr int copy_directions = 4;

// The ends of a copy that have gaps between rows.
enum class gaps : std::uint8_t { source, destination, both };
constexpr int gap_sides = 3;

constexpr int width_classes = 21; // rows of 1, 2, 4 … bytes to 1 MiB; wider rows count as contiguous
constexpr int access_classes = 5; // the access sizes of kernels: 1, 2, 4, 8 and 16 bytes

// FACT(name, dimensions, unit). Names in _ns are nanoseconds. Rates are payload bytes per microsecond, in copies large
// enough to hide the fixed time.
#define FERRY_DIRECTION_FACTS(FACT)                                                                                    \
    FACT(driver_fixed_ns, , time)                        /* one copy from its call to its end, without its bytes */    \
    FACT(driver_line_rate, , rate)                       /* of pinned memory, where an end is on the host */           \
    FACT(driver_pageable_rate, , rate)                   /* the same, of pageable memory */                            \
    FACT(driver_rates, [gap_sides][width_classes], rate) /* by row width, at a pitch of twice the width */             \
    FACT(kernel_fixed_ns, , time)                                                                                      \
    FACT(kernel_line_rate, , rate)                                                                                     \
    FACT(kernel_rates, [gap_sides][width_classes], rate)                                                               \
    FACT(kernel_access_rates, [access_classes], rate) /* the maximum with accesses of that size */                     \
    FACT(kernel_block_rate, , rate)                   /* of one block, where blocks are few */                         \
    FACT(kernel_blocks, , count)                      /* more blocks gain nothing */                                   \
    FACT(call_ns, , time)                             /* one of many pieces, each by its own call */                   \
    FACT(batch_piece_ns, , time)                      /* the same, by cuMemcpyBatchAsync */                            \
    FACT(batch_box_ns, , time)                        /* the same, by cuMemcpy3DBatchAsync */                          \
    FACT(kernel_piece_ns, , time)                     /* the same, by one launch with its table */                     \
    FACT(staged_fixed_ns, , time)                     /* staged, where an end is on the host */                        \
    FACT(staged_rate, , rate)                         /* with enough threads */                                        \
    FACT(staged_thread_rate, , rate)                  /* of one thread, at lines of host memory */                     \
    FACT(staged_row_ns, , time)                       /* added for each row, of one thread */

#define FERRY_DEVICE_FACTS(FACT)                                                                                       \
    FACT(many_rows_fixed_ns, , time) /* as driver_fixed_ns, of many rows within a device */                            \
    FACT(batch_fixed_ns, , time)     /* one of the driver's batch calls, without its pieces */                         \
    FACT(array_driver_rate, , rate)  /* array to linear memory of the device, a 3D array of 4-byte elements */         \
    FACT(array_kernel_rate, , rate)                                                                                    \
    FACT(array_call_ns, , time) /* one of many small boxes, each by its own call */                                    \
    FACT(array_kernel_box_ns, , time)                                                                                  \
    FACT(copies_fixed_ns, , time) /* as staged_fixed_ns and staged_rate, of staging by copies on the stream */         \
    FACT(copies_rate, , rate)                                                                                          \
    FACT(bounce_rate, , rate)    /* the driver's copies to devices without access, where no pair_rates are known */    \
    FACT(relay_fixed_ns, , time) /* ferry's, likewise: route_kind::relayed */                                          \
    FACT(relay_rate, , rate)

// The measurements of copies from one device to another. 0: not measured.
#define FERRY_PAIR_FACTS(FACT)                                                                                         \
    FACT(direct_rate, rate) /* by the driver over the link between the devices */                                      \
    FACT(direct_fixed_ns, time)                                                                                        \
    FACT(bounce_rate, rate) /* by the driver, without access */                                                        \
    FACT(relay_rate, rate)  /* by ferry, without access */                                                             \
    FACT(relay_fixed_ns, time)                                                                                         \
    FACT(link_to_rate, rate) /* from the host to the other device, by a kernel on the first, over the first's link */  \
    FACT(link_from_rate, rate)

// Limits a number to the range of a profile.
inline std::uint32_t to_fact(std::uint64_t number) noexcept {
    return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(number, 1, 100'000'000));
}

#define FERRY_PROFILE_MEMBER(name, dimensions, unit) std::uint32_t name dimensions;
struct direction_profile {
    FERRY_DIRECTION_FACTS(FERRY_PROFILE_MEMBER)
};
struct device_profile {
    direction_profile directions[copy_directions];
    FERRY_DEVICE_FACTS(FERRY_PROFILE_MEMBER)

    constexpr const direction_profile &operator[](copy_direction direction) const noexcept {
        return directions[static_cast<int>(direction)];
    }
    constexpr direction_profile &operator[](copy_direction direction) noexcept {
        return directions[static_cast<int>(direction)];
    }
};
#undef FERRY_PROFILE_MEMBER
#define FERRY_PAIR_MEMBER(name, unit) std::uint32_t name = 0;
struct pair_rates {
    FERRY_PAIR_FACTS(FERRY_PAIR_MEMBER)

    bool operator==(const pair_rates &) const noexcept = default;
};
#undef FERRY_PAIR_MEMBER
using pair_numbers = std::array<std::uint32_t, sizeof(pair_rates) / sizeof(std::uint32_t)>; // the same, in order

// For Hopper devices on a PCIe link, the measurements of an H200. For all other devices, estimates: every device should
// be at least this fast with kernels, and at most this fast with the driver's calls. So kernels are chosen only if they
// are much faster.
const device_profile &built_in_profile(const ferry_device_info &device) noexcept;
// Returns the origin of a device's profile: FERRY_PROFILE_*.
std::int32_t origin_of(const device_profile *profile, const ferry_device_info &device) noexcept;

} // namespace ferry
