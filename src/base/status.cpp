#include "base/status.h"

#include <algorithm>
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
    // A struct_size of 0 means the size of the struct's first version, which is the smallest that a caller can have.
    constexpr std::uint32_t first_size = 40, smallest_size = 8; // see plausible_size, base/sized.h
    if (details->struct_size == 0) details->struct_size = first_size;
    const ferry_error_info info = {details->struct_size, what.status, what.side, what.field, index,
                                   what.limit,           what.value};
    if (details->struct_size >= sizeof info)
        *details = info;
    else if (details->struct_size >= smallest_size)
        std::memcpy(details, &info, details->struct_size);
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
    {"FERRY_ERROR_INVALID_ARGUMENT", "a required pointer is NULL, or a value is outside its range"},
    {"FERRY_ERROR_OUT_OF_MEMORY", "no host memory for the library's own structures"},
    {"FERRY_ERROR_ABI_MISMATCH", "struct_size is out of range, or covers unknown bytes that are not zero"},
    {"FERRY_ERROR_RESERVED", "a reserved field is not zero"},
    {"FERRY_ERROR_FLAGS", "an unknown flag is set"},
    {"FERRY_ERROR_KIND",
     "unknown kind, memory of a kind other than stated, or pageable memory that a device must access"},
    {"FERRY_ERROR_DEVICE", "no such device, or the memory is not on the stated device or the stream's device"},
    {"FERRY_ERROR_ADDRESS",
     "null address or array, or memory that is freed, inaccessible or not from the expected allocator"},
    {"FERRY_ERROR_PITCH",
     "the row pitch is below x + width or above the device's limit, or the slice height is below y + height"},
    {"FERRY_ERROR_OVERFLOW", "offsets and extent do not fit 64 bits"},
    {"FERRY_ERROR_OUT_OF_BOUNDS", "the box extends past the end of the array or allocation"},
    {"FERRY_ERROR_OVERLAP", "source and destination share bytes"},
    {"FERRY_ERROR_ARRAY_FORMAT",
     "element sizes differ, x or width is not a whole number of elements, or the array cannot have this format "
     "or number of channels"},
    {"FERRY_ERROR_NO_DRIVER", "no NVIDIA driver on this machine"},
    {"FERRY_ERROR_DRIVER_TOO_OLD", "the NVIDIA driver is older than CUDA 12.0 or lacks a required entry point"},
    {"FERRY_ERROR_NO_DEVICE", "the NVIDIA driver has no usable device"},
    {"FERRY_ERROR_UNSUPPORTED", "not supported by this build or this driver"},
    {"FERRY_ERROR_SOFTWARE_CONFIG", "the software driver is already running with other settings"},
    {"FERRY_ERROR_NO_CONTEXT", "no context to pop, or the call cannot use the context"},
    {"FERRY_ERROR_PEER_ACCESS", "one device cannot access the memory of the other, or the probe lost data"},
    {"FERRY_ERROR_ALIGNMENT", "an address, pitch or width is not a multiple of the pattern's size"},
    {"FERRY_ERROR_CAPTURE", "the stream is being captured, and a graph cannot contain this call"},
    {"FERRY_ERROR_LIMIT", "a pinned pool is at its limit, or the staging buffer has no free slot"},
    {"FERRY_ERROR_IN_USE", "memory of the pool is still allocated or imported"},
    {"FERRY_ERROR_HANDLE", "the handle is not valid for this call or damaged, or its object no longer exists"},
    {"FERRY_ERROR_MACHINE", "the handle was made on another machine, or before the last reboot"},
    {"FERRY_ERROR_POOL", "the pool of this memory is not imported, or this is not an imported pool"},
    {"FERRY_ERROR_IMPORTED",
     "imported: this process cannot free it, change it or allocate from it, only close the import"},
    {"FERRY_ERROR_NOT_SHAREABLE", "this memory, pool, event or semaphore cannot be shared"},
    {"FERRY_ERROR_PROFILE", "the profile is damaged, or is for another version, device or driver"},
    {"FERRY_ERROR_ROUTE", "the route that the flags force does not support this copy"},
    {"FERRY_ERROR_NO_SOFTWARE_DRIVER",
     "the software driver is not installed: its library libferry-software cannot be loaded "
     "(Debian package libferry-software1)"},
    {"FERRY_ERROR_SOFTWARE_BUILD", "the software driver's library libferry-software is of another build than libferry: "
                                   "install both from one release"},
};
constexpr int own_status_count = sizeof own_statuses / sizeof own_statuses[0];
static_assert(own_status_count == 1 - FERRY_ERROR_SOFTWARE_BUILD);

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
                                       "driver_options",
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
                                       "format",
                                       "channels",
                                       "helpers",
                                       "trace_phases"};
static_assert(sizeof side_names / sizeof side_names[0] == FERRY_SIDE_OPTIONS + 1);
static_assert(sizeof field_names / sizeof field_names[0] == FERRY_FIELD_TRACE_PHASES + 1);

template <std::size_t count> const char *name_or_empty(const char *const (&names)[count], std::int32_t index) noexcept {
    return index >= 0 && static_cast<std::size_t>(index) < count ? names[index] : "";
}

// Returns the words to print between value and limit. Returns null if the status text must be printed instead of the
// numbers.
const char *relation(std::int32_t status, std::int32_t field, std::uint64_t value, std::uint64_t limit) noexcept {
    switch (status) {
    case FERRY_ERROR_INVALID_ARGUMENT:
        if (limit == 0 || value > INT64_MAX) return nullptr; // a negative value
        return field == FERRY_FIELD_REGISTER_CHUNK ? "must be a multiple of"
               : value < limit                     ? "must be at least"
                                                   : "must be at most";
    case FERRY_ERROR_PITCH:
        return value < limit ? "must be at least" : "must be at most";
    case FERRY_ERROR_OVERFLOW:
        return "must be at most";
    case FERRY_ERROR_OUT_OF_BOUNDS:
        if (limit == 0 && field == FERRY_FIELD_SIZE) return nullptr; // the limit is unknown
        return value < limit ? "before the beginning at" : "past the end at";
    case FERRY_ERROR_ARRAY_FORMAT:
        if (field == FERRY_FIELD_FORMAT) return nullptr;
        return field == FERRY_FIELD_CHANNELS ? "must be 1, 2 or" : "does not fit elements of";
    case FERRY_ERROR_ALIGNMENT:
        return "must be a multiple of";
    case FERRY_ERROR_DRIVER_TOO_OLD:
        return "must be at least";
    case FERRY_ERROR_OVERLAP:
        return "shares bytes with copy";
    case FERRY_ERROR_HANDLE:
        return field == FERRY_FIELD_OS_HANDLE ? nullptr : "must be version";
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
    // The numbers, if there are any, replace the status text.
    char numbers[96] = "";
    const char *words = details.value || details.limit
                            ? relation(details.status, details.field, details.value, details.limit)
                            : nullptr;
    const bool are_addresses =
        details.field == FERRY_FIELD_ADDRESS && std::min(details.value, details.limit) > UINT32_MAX;
    const char *const format = are_addresses ? "%#" PRIx64 ", %s %#" PRIx64 : "%" PRIu64 ", %s %" PRIu64;
    if (words) std::snprintf(numbers, sizeof numbers, format, details.value, words, details.limit);
    char which[32] = "";
    if (details.index) std::snprintf(which, sizeof which, "copy %" PRIu64 ": ", details.index);
    const bool has_obstacle = details.status == FERRY_ERROR_ROUTE && details.value;
    const int length = std::snprintf(buffer, size, "%s%s%s%s%s (%s)", which, where, words ? numbers : status_text,
                                     has_obstacle ? ": " : "", has_obstacle ? text_of(details.value) : "", status_name);
    return length < 0 ? 0 : static_cast<std::uint64_t>(length);
}

} // namespace ferry
