#include "base/status.h"

#include <cinttypes>
#include <cstddef>
#include <cstdio>
#include <cstring>

#include "base/abi_version.h"
#include "base/obstacle.h"
#include "ferry/ferry_file.h"

namespace ferry {

error refuse(std::int32_t status, std::int32_t side, std::int32_t field, numbers given, std::uint64_t limit,
             std::uint64_t value) noexcept {
    return {status, static_cast<std::int16_t>(side), static_cast<std::int16_t>(field), given, limit, value};
}

error refuse_signed(std::int32_t status, std::int32_t side, std::int32_t field, numbers given, std::int64_t limit,
                    std::int64_t value) noexcept {
    return refuse(status, side, field, given, static_cast<std::uint64_t>(limit), static_cast<std::uint64_t>(value));
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
    {"FERRY_ERROR_KIND", "no such kind"},
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
    {"FERRY_ERROR_UNSUPPORTED", "not supported by this version of ferry or by this driver"},
    {"FERRY_ERROR_SOFTWARE_CONFIG", "the software driver is already running with other settings"},
    {"FERRY_ERROR_NO_CONTEXT", "no context to pop or to release, or the call cannot use the context"},
    {"FERRY_ERROR_PEER_ACCESS", "one device cannot access the memory of the other"},
    {"FERRY_ERROR_ALIGNMENT", "an address, pitch, width or stride is not a multiple of the required size"},
    {"FERRY_ERROR_CAPTURE", "the stream is being captured, and a graph cannot contain this call"},
    {"FERRY_ERROR_LIMIT", "a pool or budget is at its limit, or the staging buffer has no free slot"},
    {"FERRY_ERROR_IN_USE", "memory of the pool is still allocated or imported"},
    {"FERRY_ERROR_HANDLE", "the handle is not valid for this call or damaged, or its object no longer exists"},
    {"FERRY_ERROR_MACHINE", "the handle was made on another machine, or before the last reboot"},
    {"FERRY_ERROR_POOL", "the pool of this memory is not imported, or this is not an imported pool"},
    {"FERRY_ERROR_IMPORTED",
     "imported: this process cannot free it, change it or allocate from it, only close the import"},
    {"FERRY_ERROR_NOT_SHAREABLE", "this memory, pool, event or semaphore cannot be shared"},
    {"FERRY_ERROR_PROFILE", "the profile is damaged, or is for another version, device or driver"},
    {"FERRY_ERROR_ROUTE", "the route that the options force does not support this copy"},
    {"FERRY_ERROR_NO_SOFTWARE_DRIVER",
     "the software driver is not installed: its library libferry-software cannot be loaded "
     "(Debian package libferry-software" FERRY_ABI_VERSION ")"},
    {"FERRY_ERROR_SOFTWARE_BUILD", "the software driver's library libferry-software is of another build than libferry: "
                                   "install both from one release"},
    {"FERRY_ERROR_OTHER_KIND", "memory or a handle of another kind than stated"},
    {"FERRY_ERROR_PAGEABLE", "pageable memory, which the device cannot access"},
    {"FERRY_ERROR_DATA_LOST", "the driver reports peer access, but the probe lost data"},
    {"FERRY_ERROR_NOT_READY", "the work had not ended when the time-out was over"},
    {"FERRY_ERROR_WOULD_BLOCK", "with NO_WAIT, the call does not wait"},
    {"FERRY_ERROR_FILE", "the system could not open, read or write the file, or the file has ended"},
};
constexpr int own_status_count = sizeof own_statuses / sizeof own_statuses[0];
static_assert(own_status_count == 1 - FERRY_ERROR_FILE);

constexpr const char *side_names[] = {"",           "source",  "destination",    "extent",
                                      "descriptor", "options", "driver_options", "pieces"};
static_assert(sizeof side_names / sizeof side_names[0] == FERRY_SIDE_PIECES + 1);

constexpr const char *item_names[] = {"", "copy", "piece", "helper", "staging_cpus", "ticket"};
static_assert(sizeof item_names / sizeof item_names[0] == FERRY_ITEM_TICKET + 1);

// How the numbers of a field are printed. Offsets within memory and small units share fields with addresses, and are
// decimal.
enum number_form : std::uint8_t { as_number, as_signed, as_bits, as_address };

struct field_text {
    const char *name;
    number_form form;
};
constexpr field_text fields[] = {
    {"", as_number},
    {"kind", as_signed},
    {"device", as_signed},
    {"address", as_address},
    {"array", as_address},
    {"row_pitch", as_number},
    {"slice_height", as_number},
    {"x", as_number},
    {"y", as_number},
    {"z", as_number},
    {"width", as_number},
    {"height", as_number},
    {"depth", as_number},
    {"flags", as_bits},
    {"reserved", as_number},
    {"struct_size", as_number},
    {"driver", as_signed},
    {"checks", as_signed},
    {"callbacks", as_number},
    {"driver_options", as_signed},
    {"pattern_size", as_number},
    {"numa", as_signed},
    {"numa_node", as_signed},
    {"threads", as_number},
    {"size", as_number},
    {"location", as_signed},
    {"index", as_signed},
    {"handle_types", as_bits},
    {"handle", as_number},
    {"os_handle", as_signed},
    {"pool", as_address},
    {"event", as_address},
    {"register_chunk", as_number},
    {"version", as_number},
    {"line", as_number},
    {"kernels", as_signed},
    {"staging", as_signed},
    {"staging_cpus", as_signed},
    {"staging_priority", as_signed},
    {"staging_bytes", as_number},
    {"format", as_signed},
    {"channels", as_number},
    {"helpers", as_signed},
    {"trace_phases", as_bits},
    {"staging_threads", as_signed},
    {"staging_cpu_count", as_number},
    {"staging_numa", as_signed},
    {"staging_numa_node", as_signed},
    {"level", as_number},
    {"plane", as_number},
    {"access", as_signed},
    {"stream", as_address},
    {"context", as_address},
    {"handle_type", as_signed},
    {"devices", as_signed},
    {"queues", as_signed},
    {"links", as_signed},
    {"count", as_number},
    {"timeout_ns", as_signed},
    {"route", as_signed},
    {"priority", as_signed},
    {"source_order", as_signed},
    {"max_sms", as_number},
    {"staging_niceness", as_signed},
    {"file", as_address},
    {"destinations", as_address},
    {"sources", as_address},
    {"sizes", as_address},
    {"stride", as_number},
    {"source_file", as_address},
    {"peer", as_signed},
    {"ticket", as_address},
    {"prepared", as_address},
    {"max_pinned_bytes", as_number},
    {"max_device_bytes", as_number},
    {"max_threads", as_number},
    {"path", as_number},
};
static_assert(sizeof fields / sizeof fields[0] == FERRY_FIELD_PATH + 1);

// The words between value and limit, indexed by FERRY_NUMBERS_*. Null: the numbers are printed in another way.
constexpr const char *relations[] = {
    nullptr,
    nullptr,
    "must be at least",
    "must be at most",
    "must be from 0 to",
    "must be at least 0 and less than",
    "must be",
    "must be a multiple of",
    "must be a power of two, at most",
    "has bits outside",
    "before the beginning at",
    "past the end at",
    "does not fit elements of",
    "shares bytes with copy",
    "unlike this library's",
    "of",
    nullptr,
    "refused by the driver with the result",
    "has a flag that needs",
    nullptr,
    "must differ from device",
    nullptr,
};
static_assert(sizeof relations / sizeof relations[0] == FERRY_NUMBERS_SYSTEM + 1);

template <class Row, std::size_t count> const Row &row_or_first(const Row (&rows)[count], std::int32_t index) noexcept {
    return rows[index >= 0 && static_cast<std::size_t>(index) < count ? index : 0];
}

struct number_text {
    char digits[24];

    number_text(std::uint64_t number, number_form form) noexcept {
        const bool is_hex = form == as_bits || (form == as_address && number > UINT32_MAX);
        const char *const format = is_hex ? "%#" PRIx64 : form == as_signed ? "%" PRId64 : "%" PRIu64;
        std::snprintf(digits, sizeof digits, format, number);
    }
};

// The value, and the numbers of the bits of the limit.
void write_choices(const number_text &value, std::uint64_t limit, char *text, std::size_t size) noexcept {
    int length = std::snprintf(text, size, "%s, must be one of", value.digits);
    const char *separator = " ";
    for (unsigned choice = 0; choice < 64 && length > 0 && static_cast<std::size_t>(length) < size; ++choice) {
        if (!(limit >> choice & 1)) continue;
        const auto at = static_cast<std::size_t>(length);
        length += std::snprintf(text + at, size - at, "%s%u", separator, choice);
        separator = ", ";
    }
}

// What the system reported about a file, at an offset.
void write_file_failure(const ferry_error_info &details, char *text, std::size_t size) noexcept {
    const auto code = static_cast<std::int32_t>(details.value);
    if (code == FERRY_FILE_ENDED)
        std::snprintf(text, size, "the file ends at byte %" PRIu64, details.limit);
    else if (details.field == FERRY_FIELD_PATH || details.field == FERRY_FIELD_OS_HANDLE)
        std::snprintf(text, size, "%s (system error %" PRId32 ")", std::strerror(code), code);
    else
        std::snprintf(text, size, "%s (system error %" PRId32 ") at byte %" PRIu64, std::strerror(code), code,
                      details.limit);
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
    char item[48] = "";
    if (const char *name = row_or_first(item_names, details.item); *name)
        std::snprintf(item, sizeof item, "%s %" PRIu64 ": ", name, details.index);
    const char *const side = row_or_first(side_names, details.side);
    const field_text &field = row_or_first(fields, details.field);
    char where[64] = "";
    if (*side || *field.name)
        std::snprintf(where, sizeof where, "%s%s%s: ", side, *side && *field.name ? "." : "", field.name);
    // A value with a limit replaces the status text.
    const char *const relation = row_or_first(relations, details.numbers);
    const number_text value(details.value, field.form), limit(details.limit, field.form);
    char numbers[256] = "";
    if (relation)
        std::snprintf(numbers, sizeof numbers, "%s, %s %s", value.digits, relation, limit.digits);
    else if (details.numbers == FERRY_NUMBERS_ONE_OF)
        write_choices(value, details.limit, numbers, sizeof numbers);
    else if (details.numbers == FERRY_NUMBERS_SYSTEM)
        write_file_failure(details, numbers, sizeof numbers);
    else if (details.numbers == FERRY_NUMBERS_VALUE)
        std::snprintf(numbers, sizeof numbers, "%s: ", value.digits);
    const bool has_limit =
        relation || details.numbers == FERRY_NUMBERS_ONE_OF || details.numbers == FERRY_NUMBERS_SYSTEM;
    const bool has_obstacle = details.numbers == FERRY_NUMBERS_OBSTACLE;
    const char *const function = details.driver_function;
    const int length =
        std::snprintf(buffer, size, "%s%s%s%s%s%s (%s%s%s)", item, where, numbers, has_limit ? "" : status_text,
                      has_obstacle ? ": " : "", has_obstacle ? text_of(details.value) : "", status_name,
                      function ? " from " : "", function ? function : "");
    return length < 0 ? 0 : static_cast<std::uint64_t>(length);
}

} // namespace ferry
