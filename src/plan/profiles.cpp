#include "plan/profiles.h"

#include <new>

namespace ferry {

device_profiles::~device_profiles() {
    for (kept_profile *kept = kept_; kept;) {
        kept_profile *const next = kept->next;
        memory_.deallocate(kept, sizeof *kept);
        kept = next;
    }
}

void device_profiles::set_up(const device_facts *devices, int count) noexcept {
    for (int device = 0; device < count; ++device)
        use(device, &built_in_profile(devices[device].info));
}

const device_profile *device_profiles::keep(const device_profile &profile) noexcept {
    void *const place = memory_.allocate(sizeof(kept_profile), alignof(kept_profile));
    if (!place) return nullptr;
    auto *const kept = new (place) kept_profile{profile, kept_.load(std::memory_order_relaxed)};
    while (!kept_.compare_exchange_weak(kept->next, kept, std::memory_order_release, std::memory_order_relaxed)) {
    }
    return &kept->profile;
}

} // namespace ferry
