// The C functions for calibration and device profiles.
#include "calibrate/calibrate.h"
#include "plan/profile_text.h"
#include "submit/instance.h"
#include <algorithm>
#include <cstring>

using namespace ferry;

namespace {

profile_owner owner_of(const ferry_instance &instance, std::int32_t device) noexcept {
    return {instance.devices[device].info, instance.report.driver_version};
}

error measure_profile(ferry_instance &instance, std::int32_t device) noexcept {
    context_scope scope(instance.cu);
    CUcontext context = nullptr;
    if (error failed = enter_device(instance, device, scope, context)) return failed;
    device_profile profile = *instance.profiles.of(device);
    const calibration_options options = {.memory = instance.allocator,
                                         .kernels = &instance.kernels,
                                         .staging = instance.stages ? &instance.staging : nullptr,
                                         .device = device,
                                         .context = context,
                                         .multiprocessors = instance.devices[device].info.sm_count};
    if (error failed = calibrate(instance.cu, options, profile)) return failed;
    const device_profile *const kept = instance.profiles.keep(profile);
    if (!kept) return no_memory;
    instance.profiles.use(device, kept);
    return {};
}

bool is_same_kind(const ferry_device_info &one, const ferry_device_info &other) noexcept {
    return std::strcmp(one.name, other.name) == 0 && one.compute_major == other.compute_major &&
           one.compute_minor == other.compute_minor && one.sm_count == other.sm_count;
}

// Calls `use` for each measured pair whose first device is of this kind.
void for_each_pair(const ferry_instance &instance, std::int32_t kind, const pair_use &use) noexcept {
    const std::int32_t count = instance.limits.device_count;
    for (std::int32_t device = 0; device < count; ++device)
        for (std::int32_t peer = 0; peer < count; ++peer) {
            const ferry_device_info &from = instance.devices[device].info, &to = instance.devices[peer].info;
            if (device == peer || !is_same_kind(from, instance.devices[kind].info)) continue;
            profile_pair pair = {.rates = instance.peers.rates(device, peer)};
            if (pair.rates == pair_rates{}) continue;
            std::memcpy(pair.device, from.pci_address, sizeof pair.device);
            std::memcpy(pair.peer, to.pci_address, sizeof pair.peer);
            use(pair);
        }
}

// Returns the device with this PCI address, or -1.
std::int32_t find_by_address(const ferry_instance &instance, const char *address) noexcept {
    for (std::int32_t device = 0; device < instance.limits.device_count; ++device)
        if (std::strcmp(instance.devices[device].info.pci_address, address) == 0) return device;
    return -1;
}

// Applies the profile to every matching device, and to the pairs that start at one. If no device matches, reports the
// difference to the device that matches best.
error load_profile(ferry_instance &instance, const char *text, std::uint64_t size) noexcept {
    if (size && text[size - 1] == '\0') --size;
    if (!size) return refuse(FERRY_ERROR_PROFILE, FERRY_SIDE_NONE, FERRY_FIELD_SIZE, numbers::at_least, 1, 0);
    device_profile profile = {};
    std::uint64_t fits = 0;
    profile_problem nearest = {profile_fault::other_device};
    for (int device = 0; device < instance.limits.device_count; ++device) {
        const profile_problem problem = read_profile(text, size, owner_of(instance, device), profile);
        if (problem.fault == profile_fault::none)
            fits |= std::uint64_t{1} << device;
        else if (problem.fault != profile_fault::other_device)
            nearest = problem;
    }
    if (!fits) {
        constexpr std::int32_t fields[] = {FERRY_FIELD_NONE,   FERRY_FIELD_VERSION, FERRY_FIELD_LINE,
                                           FERRY_FIELD_DEVICE, FERRY_FIELD_DRIVER,  FERRY_FIELD_LINE};
        const std::int32_t field = fields[static_cast<int>(nearest.fault)];
        if (field == FERRY_FIELD_DEVICE) return refuse(FERRY_ERROR_PROFILE, FERRY_SIDE_NONE, field);
        if (field != FERRY_FIELD_LINE)
            return refuse(FERRY_ERROR_PROFILE, FERRY_SIDE_NONE, field,
                          field == FERRY_FIELD_VERSION ? numbers::known : numbers::equal, nearest.supported,
                          nearest.found);
        const auto lines = static_cast<std::uint64_t>(std::count(text, text + size, '\n'));
        return refuse(FERRY_ERROR_PROFILE, FERRY_SIDE_NONE, field, numbers::of, lines, nearest.line);
    }
    bool has_pairs = false;
    read_pairs(text, size, [&](const profile_pair &) noexcept { has_pairs = true; });
    if (has_pairs)
        if (error failed = instance.peers.make_room_for_rates()) return failed;
    const device_profile *const kept = instance.profiles.keep(profile);
    if (!kept) return no_memory;
    for (int device = 0; device < instance.limits.device_count; ++device)
        if (fits >> device & 1) instance.profiles.use(device, kept);
    read_pairs(text, size, [&](const profile_pair &pair) noexcept {
        const std::int32_t device = find_by_address(instance, pair.device), peer = find_by_address(instance, pair.peer);
        const bool is_here = device >= 0 && peer >= 0 && device != peer;
        if (is_here && fits >> device & 1) instance.peers.keep_rates(device, peer, pair.rates);
    });
    return {};
}

error save_profile(const ferry_instance &instance, std::int32_t device, char *buffer, std::uint64_t size,
                   std::uint64_t *needed) noexcept {
    if (error failed = check_device(instance, device)) return failed;
    const auto pairs = [&](const pair_use &use) noexcept { for_each_pair(instance, device, use); };
    const std::uint64_t length =
        write_profile(*instance.profiles.of(device), owner_of(instance, device), pairs, buffer, size);
    if (needed) *needed = length + 1;
    if (length < size || !buffer) return {};
    return refuse(FERRY_ERROR_INVALID_ARGUMENT, FERRY_SIDE_NONE, FERRY_FIELD_SIZE, numbers::at_least, length + 1, size);
}

} // namespace

extern "C" {

int32_t ferry_device_calibrate(ferry_instance *instance, int32_t device, ferry_error_info *details) {
    if (!instance) return report_null(details, instance);
    return report(details, measure_profile(*instance, device));
}

int32_t ferry_profile_save(ferry_instance *instance, int32_t device, char *buffer, uint64_t size, uint64_t *needed,
                           ferry_error_info *details) {
    if (needed) *needed = 0;
    if (!instance) return report_null(details, instance);
    if (!buffer && size) return report_null(details, buffer);
    return report(details, save_profile(*instance, device, buffer, size, needed));
}

int32_t ferry_profile_load(ferry_instance *instance, const char *text, uint64_t size, ferry_error_info *details) {
    if (!instance || !text) return report_null(details, instance, text);
    return report(details, load_profile(*instance, text, size));
}

} // extern "C"
