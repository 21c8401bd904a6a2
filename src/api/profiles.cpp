// The C functions for calibration and device profiles.
#include "calibrate/calibrate.h"
#include "plan/profile_text.h"
#include "submit/instance.h"
#include <algorithm>

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

// Every device that the profile fits uses it. If it fits none, reports the fault found for the closest device.
error load_profile(ferry_instance &instance, const char *text, std::uint64_t size) noexcept {
    if (size && text[size - 1] == '\0') --size;
    const device_profile *kept = nullptr;
    profile_problem nearest = {profile_fault::other_device};
    for (int device = 0; device < instance.limits.device_count; ++device) {
        device_profile profile = {};
        const profile_problem problem = read_profile(text, size, owner_of(instance, device), profile);
        if (problem.fault == profile_fault::none) {
            if (!kept) kept = instance.profiles.keep(profile);
            if (!kept) return no_memory;
            instance.profiles.use(device, kept);
        } else if (problem.fault != profile_fault::other_device) {
            nearest = problem;
        }
    }
    if (kept) return {};
    constexpr std::int32_t fields[] = {FERRY_FIELD_NONE,   FERRY_FIELD_VERSION, FERRY_FIELD_LINE,
                                       FERRY_FIELD_DEVICE, FERRY_FIELD_DRIVER,  FERRY_FIELD_LINE};
    error failed = {FERRY_ERROR_PROFILE, FERRY_SIDE_NONE, fields[static_cast<int>(nearest.fault)]};
    if (failed.field == FERRY_FIELD_LINE) {
        failed.value = nearest.line;
        failed.limit = static_cast<std::uint64_t>(std::count(text, text + size, '\n'));
    }
    return failed;
}

error save_profile(const ferry_instance &instance, std::int32_t device, char *buffer, std::uint64_t size,
                   std::uint64_t *needed) noexcept {
    if (error failed = check_device(instance, device)) return failed;
    const std::uint64_t length = write_profile(*instance.profiles.of(device), owner_of(instance, device), buffer, size);
    if (needed) *needed = length + 1;
    return length < size || !buffer ? ok : null_argument;
}

} // namespace

extern "C" {

int32_t ferry_device_calibrate(ferry_instance *instance, int32_t device, ferry_error_info *details) {
    if (!instance) return report(details, null_argument);
    return report(details, measure_profile(*instance, device));
}

int32_t ferry_profile_save(const ferry_instance *instance, int32_t device, char *buffer, uint64_t size,
                           uint64_t *needed) {
    if (needed) *needed = 0;
    if (!instance || (!buffer && size)) return FERRY_ERROR_INVALID_ARGUMENT;
    return save_profile(*instance, device, buffer, size, needed).status;
}

int32_t ferry_profile_load(ferry_instance *instance, const char *text, uint64_t size, ferry_error_info *details) {
    if (!instance || !text) return report(details, null_argument);
    return report(details, load_profile(*instance, text, size));
}

} // extern "C"
