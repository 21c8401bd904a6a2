// The profiles of devices.
#include "call/profiles.h"

using namespace ferry;

extern "C" {

int32_t ferry_calibrate(ferry_instance *instance, int32_t device, ferry_error_info *error) {
    if (!instance) return report(error, null_argument);
    return report(error, measure_profile(*instance, device));
}

int32_t ferry_profile_save(const ferry_instance *instance, int32_t device, char *buffer, uint64_t size,
                           uint64_t *needed) {
    if (needed) *needed = 0;
    if (!instance || (!buffer && size)) return FERRY_ERROR_INVALID_ARGUMENT;
    return save_profile(*instance, device, buffer, size, needed).status;
}

int32_t ferry_profile_load(ferry_instance *instance, const char *text, uint64_t size, ferry_error_info *error) {
    if (!instance || !text) return report(error, null_argument);
    return report(error, load_profile(*instance, text, size));
}

} // extern "C"
