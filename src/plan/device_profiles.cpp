#include "plan/device_profiles.h"

#include <cstring>
#include <new>
#include <type_traits>

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
    static_assert(std::has_unique_object_representations_v<device_profile>);
    kept_profile *made = nullptr;
    kept_profile *newest = kept_.load(std::memory_order_acquire), *compared = nullptr;
    for (;;) {
        for (const kept_profile *one = newest; one != compared; one = one->next) {
            if (std::memcmp(&one->profile, &profile, sizeof profile) != 0) continue;
            memory_.deallocate(made, sizeof *made);
            return &one->profile;
        }
        if (!made) {
            void *const place = memory_.allocate(sizeof(kept_profile), alignof(kept_profile));
            if (!place) return nullptr;
            made = new (place) kept_profile{profile, nullptr};
        }
        made->next = compared = newest;
        if (kept_.compare_exchange_weak(newest, made, std::memory_order_acq_rel, std::memory_order_acquire))
            return &made->profile;
    }
}

} // namespace ferry
