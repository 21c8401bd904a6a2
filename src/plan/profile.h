// What a device was measured to do: the numbers that predicted times are made of. Built in for the generations that were
// measured, replaced by a calibration of the machine itself, and kept as text.
#pragma once

#include <algorithm>
#include <cstdint>

#include "device/facts.h"

namespace ferry {

enum class copy_direction : std::uint8_t { host_to_device, device_to_host, within_device, between_devices };
constexpr int copy_directions = 4;

// Which end of a copy has gaps between its rows.
enum class gaps : std::uint8_t { source, destination, both };
constexpr int gap_sides = 3;

constexpr int width_classes = 21; // rows of 1, 2, 4 … bytes to 1 MiB; wider ones are as lines
constexpr int access_classes = 5; // the accesses of kernels: 1, 2, 4, 8 and 16 bytes

// FACT(name, dimensions, unit). Names in _ns are nanoseconds; rates are payload bytes per microsecond, as copies large
// enough to hide the fixed time reach them.
#define FERRY_DIRECTION_FACTS(FACT)                                                                                    \
    FACT(driver_fixed_ns, , time)                        /* one copy from its call to its end, but for the bytes */    \
    FACT(driver_line_rate, , rate)                       /* of pinned memory, where a host is an end */                \
    FACT(driver_pageable_rate, , rate)                   /* likewise, of pageable memory */                            \
    FACT(driver_rates, [gap_sides][width_classes], rate) /* by the width of a row, the pitch being twice that */       \
    FACT(kernel_fixed_ns, , time)                                                                                      \
    FACT(kernel_line_rate, , rate)                                                                                     \
    FACT(kernel_rates, [gap_sides][width_classes], rate)                                                               \
    FACT(kernel_access_rates, [access_classes], rate) /* what accesses of that size reach at best */                   \
    FACT(kernel_block_rate, , rate)                   /* of one block, where blocks are few */                         \
    FACT(kernel_blocks, , count)                      /* beyond which more blocks gain nothing */                      \
    FACT(call_ns, , time)                             /* a piece of many, each by a call of its own */                 \
    FACT(batch_piece_ns, , time)                      /* … by cuMemcpyBatchAsync */                                  \
    FACT(batch_box_ns, , time)                        /* … by cuMemcpy3DBatchAsync */                                \
    FACT(kernel_piece_ns, , time)                     /* … by one launch, its table made and sent */                 \
    FACT(staged_fixed_ns, , time)                     /* by threads and a kernel, where a host is an end */            \
    FACT(staged_rate, , rate)                         /* with threads enough */                                        \
    FACT(staged_thread_rate, , rate)                  /* of one thread at lines of the host's */                       \
    FACT(staged_row_ns, , time)                       /* more for each row, of one thread */

#define FERRY_DEVICE_FACTS(FACT)                                                                                       \
    FACT(many_rows_fixed_ns, , time) /* as driver_fixed_ns, of a copy of many rows within a device */                  \
    FACT(batch_fixed_ns, , time)     /* a batch by the driver's calls, but for its pieces */                           \
    FACT(array_driver_rate, , rate)  /* array to linear memory of the device, a 3D array of 4-byte elements */         \
    FACT(array_kernel_rate, , rate)                                                                                    \
    FACT(array_call_ns, , time) /* a small box of many, each by a call of its own */                                   \
    FACT(array_kernel_box_ns, , time)

// What a profile takes.
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

// Of Hopper devices on a PCIe link what an H200 was measured to do. Of all others a guess that no device should fall
// short of with kernels or exceed with the driver's calls: kernels are taken only where they win by much.
const device_profile &built_in_profile(const ferry_device_info &device) noexcept;

// What a profile holds for. Equal devices of one machine, and of equal machines, share theirs.
struct profile_owner {
    const ferry_device_info &device;
    int driver_version;
};

// The text ends in a zero, which is not counted in the length that is returned. Writes nothing unless all fits.
std::uint64_t write_profile(const device_profile &profile, const profile_owner &owner, char *text,
                            std::uint64_t size) noexcept;

enum class profile_fault : std::uint8_t { none, version, damage, other_device, other_driver, value };
struct profile_problem {
    profile_fault fault = profile_fault::none;
    std::uint32_t line = 0; // counted from 1
};

// Takes what write_profile made for an equal owner, to the byte. `profile` is unchanged if anything is wrong.
profile_problem read_profile(const char *text, std::uint64_t size, const profile_owner &owner,
                             device_profile &profile) noexcept;

} // namespace ferry
