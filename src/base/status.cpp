#include "base/status.h"

#include <cinttypes>
#include <cstddef>
#include <cstdio>
#include <cstring>

#include "base/obstacle.h"

namespace ferry {

error refuse(std::int32_t status, std::int32_t side, std::int32_t field, std::uint64_t limit,
             std::uint64_t value) noexcept {
    return {status, side, field, limit, value};
}

std::int32_t report(ferry_error_info *details, const error &what, std::uint64_t index) noexcept {
    if (!details) return what.status;
    // A struct_size of 0 counts as that of the first version, below which no caller's struct can be.
    constexpr std::uint32_t first_size = 40, smallest_size = 8; // see plausible_size, base/sized.h
    if (details->struct_size == 0) details->struct_size = first_size;
    const ferry_error_info told = {details->struct_size, what.status, what.side, what.field, index,
                                   what.limit,           what.value};
    if (details->struct_size >= sizeof told)
        *details = told;
    else if (details->struct_size >= smallest_size)
        std::memcpy(details, &told, details->struct_size);
    return what.status;
}

namespace {

struct own_status {
    const char *name;
    const char *text;
};

// Indexed by -status.
constexpr own_status own_statuses[] = {
    {"FERRY_SUCCESS", "success"},
    {"FERRY_ERROR_INVALID_ARGUMENT", "a required pointer is NULL or a value is outside its range"},
    {"FERRY_ERROR_OUT_OF_MEMORY", "no host memory for the library's own structures"},
    {"FERRY_ERROR_ABI_MISMATCH", "struct_size does not fit this library, or it names unknown bytes that are not zero"},
    {"FERRY_ERROR_RESERVED", "a reserved field is not zero"},
    {"FERRY_ERROR_FLAGS", "an unknown flag is set"},
    {"FERRY_ERROR_KIND", "an unknown kind, not the kind stated, or pageable memory where a device must reach it"},
    {"FERRY_ERROR_DEVICE", "there is no such device, or the memory is on another one than stated or than the stream"},
    {"FERRY_ERROR_ADDRESS", "the address is null, freed or foreign, or there is no array"},
    {"FERRY_ERROR_PITCH", "the pitch is below the width or above the device's limit, or the slice height is too small"},
    {"FERRY_ERROR_OVERFLOW", "offsets and extent do not fit 64 bits"},
    {"FERRY_ERROR_OUT_OF_BOUNDS", "origin plus extent reaches past the array or the allocation"},
    {"FERRY_ERROR_OVERLAP", "source and destination share bytes"},
    {"FERRY_ERROR_ARRAY_FORMAT",
     "element sizes differ, x or the width is not a whole number of elements, or there is no such format "
     "or no such number of channels"},
    {"FERRY_ERROR_NO_DRIVER", "there is no NVIDIA driver on this machine"},
    {"FERRY_ERROR_DRIVER_TOO_OLD", "the NVIDIA driver is older than CUDA 12.0 or lacks a required entry point"},
    {"FERRY_ERROR_NO_DEVICE", "there is an NVIDIA driver but no device that it can use"},
    {"FERRY_ERROR_UNSUPPORTED", "this build or this driver has no such feature"},
    {"FERRY_ERROR_SOFTWARE_CONFIG", "the software driver already runs with other settings"},
    {"FERRY_ERROR_NO_CONTEXT", "there is no context that the call could use"},
    {"FERRY_ERROR_PEER_ACCESS", "the one device cannot access the other's memory, or data got lost on the way"},
    {"FERRY_ERROR_ALIGNMENT", "an address, pitch or width is no multiple of the pattern's size"},
    {"FERRY_ERROR_CAPTURE", "the stream is being captured, and this cannot be part of a graph"},
    {"FERRY_ERROR_LIMIT", "the pinned pool is at its limit"},
    {"FERRY_ERROR_IN_USE", "something of it is still allocated or imported"},
    {"FERRY_ERROR_HANDLE", "no handle of this library's, one that was damaged, or what it names is gone"},
    {"FERRY_ERROR_MACHINE", "the handle was made on another machine, or before this one was started"},
    {"FERRY_ERROR_POOL", "the pool of this memory has not been imported, or this is no imported pool"},
    {"FERRY_ERROR_IMPORTED", "it is another process's: not to be freed, allocated from or exported"},
    {"FERRY_ERROR_NOT_SHAREABLE", "such memory, such a pool or such an event cannot be shared"},
    {"FERRY_ERROR_PROFILE", "the profile is damaged, of another version, or of another device or driver"},
    {"FERRY_ERROR_ROUTE", "the route that the flags force cannot take this copy"},
};
constexpr int own_status_count = sizeof own_statuses / sizeof own_statuses[0];
static_assert(own_status_count == 1 - FERRY_ERROR_ROUTE);

constexpr const char *side_names[] = {"", "source", "destination", "extent", "descriptor", "options"};
constexpr const char *field_names[] = {"",
                                       "kind",
                                       "device",
                                       "address",
                                       "array",
                                       "row_pitch",
                                       "slice_height",
                                       "x",
                                       "y",
                                       "z",
                                       "width",
                                       "height",
                                       "depth",
                                       "flags",
                                       "reserved",
                                       "struct_size",
                                       "driver",
                                       "checks",
                                       "callbacks",
                                       "software",
                                       "pattern",
                                       "numa",
                                       "numa_node",
                                       "threads",
                                       "size",
                                       "location",
                                       "index",
                                       "handle_types",
                                       "handle",
                                       "os_handle",
                                       "pool",
                                       "event",
                                       "register_chunk",
                                       "version",
                                       "line",
                                       "kernels",
                                       "staging",
                                       "staging_cpus",
                                       "staging_priority",
                                       "staging_bytes",
                                       "software_devices",
                                       "software_queues",
                                       "format",
                                       "channels"};
static_assert(sizeof side_names / sizeof side_names[0] == FERRY_SIDE_OPTIONS + 1);
static_assert(sizeof field_names / sizeof field_names[0] == FERRY_FIELD_CHANNELS + 1);

template <std::size_t count> const char *name_or_empty(const char *const (&names)[count], std::int32_t index) noexcept {
    return index >= 0 && static_cast<std::size_t>(index) < count ? names[index] : "";
}

// The words between value and limit; null where the status text says more than the numbers.
const char *relation(std::int32_t status, std::int32_t field, std::uint64_t value, std::uint64_t limit) noexcept {
    switch (status) {
    case FERRY_ERROR_INVALID_ARGUMENT:
        if (limit == 0 || value > INT64_MAX) return nullptr; // a negative value
        return field == FERRY_FIELD_REGISTER_CHUNK ? "not a multiple of" : value < limit ? "at least" : "at most";
    case FERRY_ERROR_PITCH:
        return value < limit ? "at least" : "at most";
    case FERRY_ERROR_OVERFLOW:
        return "at most";
    case FERRY_ERROR_OUT_OF_BOUNDS:
        return value < limit ? "but it begins at" : "but it ends at";
    case FERRY_ERROR_ARRAY_FORMAT:
        if (field == FERRY_FIELD_FORMAT) return nullptr;
        return field == FERRY_FIELD_CHANNELS ? "not one of 1, 2 and" : "in elements of";
    case FERRY_ERROR_ALIGNMENT:
        return "not a multiple of";
    case FERRY_ERROR_DRIVER_TOO_OLD:
        return "at least";
    case FERRY_ERROR_OVERLAP:
        return "shares bytes with";
    case FERRY_ERROR_HANDLE:
        return "not version";
    case FERRY_ERROR_PROFILE:
        return "of";
    default:
        return nullptr;
    }
}

} // namespace

const char *own_status_name(std::int32_t status) noexcept {
    return status <= 0 && status > -own_status_count ? own_statuses[-status].name : nullptr;
}

const char *own_status_text(std::int32_t status) noexcept {
    return status <= 0 && status > -own_status_count ? own_statuses[-status].text : nullptr;
}

std::uint64_t format_error(const ferry_error_info &details, const char *status_name, const char *status_text,
                           char *buffer, std::uint64_t size) noexcept {
    const char *side = name_or_empty(side_names, details.side);
    const char *field = name_or_empty(field_names, details.field);
    char where[64] = "";
    if (*side || *field) std::snprintf(where, sizeof where, "%s%s%s: ", side, *side && *field ? "." : "", field);
    // Numbers, where there are any, say more than the status text.
    char numbers[96] = "";
    const char *words = details.value || details.limit
                            ? relation(details.status, details.field, details.value, details.limit)
                            : nullptr;
    if (words) std::snprintf(numbers, sizeof numbers, "%" PRIu64 ", %s %" PRIu64, details.value, words, details.limit);
    char which[32] = "";
    if (details.index) std::snprintf(which, sizeof which, "copy %" PRIu64 ": ", details.index);
    const bool has_obstacle = details.status == FERRY_ERROR_ROUTE && details.value;
    const int length = std::snprintf(buffer, size, "%s%s%s%s%s (%s)", which, where, words ? numbers : status_text,
                                     has_obstacle ? ": " : "", has_obstacle ? text_of(details.value) : "", status_name);
    return length < 0 ? 0 : static_cast<std::uint64_t>(length);
}

} // namespace ferry
