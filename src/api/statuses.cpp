// The C functions for the version and for statuses. They need no instance.
#include <algorithm>
#include <cstring>

#include "base/obstacle.h"
#include "base/sized.h"
#include "driver/result.h"

using namespace ferry;

extern "C" {

int32_t ferry_version(void) { return FERRY_VERSION_MAJOR * 10000 + FERRY_VERSION_MINOR * 100 + FERRY_VERSION_PATCH; }

const char *ferry_status_name(int32_t status) { return status_name(status); }

const char *ferry_status_text(int32_t status) { return status_text(status); }

const char *ferry_obstacle_text(int32_t obstacle) {
    const bool is_public = obstacle >= FERRY_OBSTACLE_NONE && obstacle <= last_public_obstacle;
    return is_public ? text_of(static_cast<uint64_t>(obstacle)) : "?";
}

uint32_t ferry_status_traits(int32_t status) { return status_traits(status); }

uint64_t ferry_error_format(const ferry_error_info *details, char *buffer, uint64_t size) {
    if (!buffer) size = 0;
    if (size) buffer[0] = '\0';
    if (!details) return 0;
    // The caller may have been built with a smaller struct. A size of 0 means the first version, as in report().
    ferry_error_info known = {};
    const std::size_t given = details->struct_size ? details->struct_size : sizeof known;
    std::memcpy(&known, details, std::min(std::max<std::size_t>(given, smallest_size), sizeof known));
    return format_error(known, status_name(known.status), status_text(known.status), buffer, size);
}

} // extern "C"
