// A profile as text, which a program stores in a file: the names and numbers, the device and driver on which they were
// measured, the measurements of pairs of devices, and a checksum.
#pragma once

#include "base/function_ref.h"
#include "ferry/ferry_devices.h"
#include "plan/profile.h"

namespace ferry {

// The device and driver for which a profile is valid. Equal devices share a profile, on one machine and on equal
// machines.
struct profile_owner {
    const ferry_device_info &device;
    int driver_version;
};

// Both devices by their PCI addresses, as in ferry_device_info.
struct profile_pair {
    char device[32] = "", peer[32] = "";
    pair_rates rates;
};
// Calls the given function for each pair.
using pair_use = function_ref<void(const profile_pair &)>;
using pair_list = function_ref<void(const pair_use &)>;

// Returns the length of the text without its terminating zero. Writes nothing unless the whole text fits.
std::uint64_t write_profile(const device_profile &profile, const profile_owner &owner, const pair_list &pairs,
                            char *text, std::uint64_t size) noexcept;

enum class profile_fault : std::uint8_t { none, version, damage, other_device, other_driver, value };
struct profile_problem {
    profile_fault fault = profile_fault::none;
    std::uint32_t line = 0;                 // counted from 1
    std::uint64_t found = 0, supported = 0; // of version and other_driver: the numbers in the text and here
};

// Accepts exactly the bytes that write_profile writes for an equal owner. On failure, `profile` is unchanged.
profile_problem read_profile(const char *text, std::uint64_t size, const profile_owner &owner,
                             device_profile &profile) noexcept;
// Lists the pairs of a text that read_profile has accepted.
void read_pairs(const char *text, std::uint64_t size, const pair_use &use) noexcept;

} // namespace ferry
