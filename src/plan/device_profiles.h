// The profile of each device from which plans are made: built in until a calibration or the program replaces it.
#pragma once

#include <atomic>

#include "base/host.h"
#include "device/contexts.h"
#include "plan/profile.h"

namespace ferry {

class device_profiles {
public:
    explicit device_profiles(const allocator &memory) noexcept : memory_(memory) {}
    ~device_profiles();
    device_profiles(const device_profiles &) = delete;
    device_profiles &operator=(const device_profiles &) = delete;

    // Must be called first, once the devices are known.
    void set_up(const device_facts *devices, int count) noexcept;

    // Returns the profile in use. It stays valid as long as the instance, even after it was replaced.
    const device_profile *of(int device) const noexcept { return in_use_[device].load(std::memory_order_acquire); }

    // Stores a copy of a profile, for any number of devices. Equal profiles share one copy. Returns null if memory runs
    // out.
    const device_profile *keep(const device_profile &profile) noexcept;
    void use(int device, const device_profile *kept) noexcept {
        in_use_[device].store(kept, std::memory_order_release);
    }

private:
    // Another thread may still be planning with a profile that was replaced, so each distinct profile is kept until the
    // instance is closed.
    struct kept_profile {
        device_profile profile;
        kept_profile *next;
    };

    const allocator &memory_;
    std::atomic<const device_profile *> in_use_[device_contexts::max_devices] = {};
    std::atomic<kept_profile *> kept_ = nullptr;
};

} // namespace ferry
