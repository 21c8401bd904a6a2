// Gives an instance rates for pairs of devices, as if they had been measured, by loading a profile.
#pragma once

#include <string>

#include "ferry/ferry_devices.h"
#include "plan/profile_text.h"
#include "support/driver_under_test.h"

namespace ferry::test {

inline ferry_device_info info_of_device(ferry_instance *instance, std::int32_t device) {
    ferry_device_info info = {};
    info.struct_size = sizeof info;
    EXPECT_OK(ferry_device_get_info(instance, device, &info, nullptr));
    return info;
}
inline std::string address_of(ferry_instance *instance, std::int32_t device) {
    return info_of_device(instance, device).pci_address;
}

inline profile_pair pair_of(const std::string &device, const std::string &peer, const pair_rates &rates) {
    profile_pair pair = {.rates = rates};
    std::snprintf(pair.device, sizeof pair.device, "%s", device.c_str());
    std::snprintf(pair.peer, sizeof pair.peer, "%s", peer.c_str());
    return pair;
}

// Loads the profile of `device` again, with these pairs.
inline void load_pairs(ferry_instance *instance, std::int32_t device, const pair_list &pairs) {
    ferry_report report = {};
    report.struct_size = sizeof report;
    ASSERT_OK(ferry_instance_get_report(instance, &report, nullptr));
    const ferry_device_info info = info_of_device(instance, device);
    const profile_owner owner = {info, report.driver_version};
    std::string text(65536, '\0');
    std::uint64_t needed = 0;
    ASSERT_OK(ferry_profile_save(instance, device, text.data(), text.size(), &needed, nullptr));
    device_profile profile = {};
    ASSERT_EQ(read_profile(text.data(), needed - 1, owner, profile).fault, profile_fault::none);
    const std::uint64_t length = write_profile(profile, owner, pairs, text.data(), text.size());
    ASSERT_OK(ferry_profile_load(instance, text.data(), length, nullptr));
}

// Loads the rates of copies from `device` to `peer`.
inline void load_rates(ferry_instance *instance, std::int32_t device, std::int32_t peer, const pair_rates &rates) {
    const profile_pair pair = pair_of(address_of(instance, device), address_of(instance, peer), rates);
    load_pairs(instance, device, [&](const pair_use &use) { use(pair); });
}

} // namespace ferry::test
