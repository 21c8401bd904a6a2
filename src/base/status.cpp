#include "base/status.h"

#include <cinttypes>
#include <cstddef>
#include <cstdio>
#include <cstring>

#include "base/abi_version.h"
#include "base/obstacle.h"
#include "ferry/ferry_file.h"
#include "ferry/ferry_nest.h"

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
    {"FERRY_ERROR_CAPTURE", "a graph cannot contain this call, as a node or by capture of its stream"},
    {"FERRY_ERROR_LIMIT", "a pool or budget is at its limit, or the staging buffer has no free slot"},
    {"FERRY_ERROR_IN_USE", "memory of the pool is still allocated or imported"},
    {"FERRY_ERROR_HANDLE", "the handle is not valid for this call or damaged, or its object no longer exists"},
    {"FERRY_ERROR_MACHINE", "the handle was made on another machine, or before the last reboot"},
    {"FERRY_ERROR_POOL", "the pool of this memory is not imported, or this is not an imported pool"},
    {"FERRY_ERROR_IMPORTED",
     "imported: this process cannot free it, change it or allocate from it, only close the import"},
    {"FERRY_ERROR_NOT_SHAREABLE", "this memory, pool, event or semaphore cannot be shared"},
    {"FERRY_ERROR_PROFILE", "the profile is damaged, or is for another version, device or driver"},
    {"FERRY_ERROR_ROUTE", "no route that the options allow can take this copy"},
    {"FERRY_ERROR_NO_SOFTWARE_DRIVER",
     "the software driver is not installed: its library libferry-software cannot be loaded "
     "(Debian package libferry-software" FERRY_ABI_VERSION ")"},
    {"FERRY_ERROR_SOFTWARE_BUILD", "the software driver's library libferry-software is of another build than libferry: "
                                   "install both from one release"},
    {"FERRY_ERROR_OTHER_KIND", "memory or a handle of another kind than stated"},
    {"FERRY_ERROR_PAGEABLE", "pageable memory, which the device cannot access"},
    {"FERRY_ERROR_DATA_LOST", "the driver reports peer access, but the probe lost data"},
    {"FERRY_ERROR_NOT_READY", "the work had not ended when the time-out was over"},
    {"FERRY_ERROR_WOULD_BLOCK", "the call would wait, which FERRY_COPY_NO_WAIT forbids"},
    {"FERRY_ERROR_FILE", "the system could not open, read or write the file, or the file has ended"},
};
constexpr int own_status_count = sizeof own_statuses / sizeof own_statuses[0];
static_assert(own_status_count == 1 - FERRY_ERROR_FILE);

constexpr const char *side_names[] = {"",           "source",  "destination",    "extent",
                                      "descriptor", "options", "driver_options", "pieces"};
static_assert(sizeof side_names / sizeof side_names[0] == FERRY_SIDE_PIECES + 1);

constexpr const char *item_names[] = {"", "copy", "piece", "helper", "staging_cpus", "ticket", "nest", "axis"};
static_assert(sizeof item_names / sizeof item_names[0] == FERRY_ITEM_AXIS + 1);

// The names of constants, from 0.
constexpr char kind_names[][24] = {"FERRY_KIND_ANY",   "FERRY_KIND_HOST",   "FERRY_KIND_DEVICE",
                                   "FERRY_KIND_ARRAY", "FERRY_KIND_PINNED", "FERRY_KIND_FILE"};
constexpr char route_names[][24] = {"FERRY_ROUTE_AUTO",     "FERRY_ROUTE_DRIVER",   "FERRY_ROUTE_KERNEL",
                                    "FERRY_ROUTE_STAGED",   "FERRY_ROUTE_BUFFERED", "FERRY_ROUTE_RELAYED",
                                    "FERRY_ROUTE_MULTILINK"};
constexpr char priority_names[][28] = {"FERRY_PRIORITY_NORMAL", "FERRY_PRIORITY_URGENT", "FERRY_PRIORITY_BACKGROUND"};
constexpr char staging_names[][24] = {"FERRY_STAGING_LAZY", "FERRY_STAGING_AT_OPEN", "FERRY_STAGING_NONE"};
static_assert(sizeof kind_names / sizeof kind_names[0] == FERRY_KIND_FILE + 1);
static_assert(sizeof route_names / sizeof route_names[0] == FERRY_ROUTE_MULTILINK + 1);
static_assert(sizeof priority_names / sizeof priority_names[0] == FERRY_PRIORITY_BACKGROUND + 1);
static_assert(sizeof staging_names / sizeof staging_names[0] == FERRY_STAGING_NONE + 1);

// How the numbers of a field are printed. A constant without a name is signed.
enum number_form : std::uint8_t {
    as_number,
    as_signed,
    as_bits,
    as_address,
    as_kind,
    as_route,
    as_priority,
    as_staging,
    as_field,     // FERRY_FIELD_*
    as_copy_flag, // FERRY_COPY_UPDATABLE, the only flag that is printed by name
};

struct field_text {
    const char *name;
    number_form form;
};
constexpr field_text fields[] = {
    {"", as_number},
    {"kind", as_kind},
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
    {"callbacks", as_address},
    {"driver_options", as_signed},
    {"pattern_size", as_number},
    {"numa", as_signed},
    {"numa_node", as_signed},
    {"threads", as_number},
    {"size", as_number},
    {"location", as_signed},
    {"index", as_signed},
    {"handle_types", as_bits},
    {"handle", as_address},
    {"os_handle", as_signed},
    {"pool", as_address},
    {"event", as_address},
    {"register_chunk", as_number},
    {"version", as_number},
    {"line", as_number},
    {"kernels", as_signed},
    {"staging", as_staging},
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
    {"route", as_route},
    {"priority", as_priority},
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
    {"submit", as_address},
    {"instance", as_address},
    {"copy", as_address},
    {"copies", as_address},
    {"pieces", as_address},
    {"fill", as_address},
    {"desc", as_address},
    {"text", as_address},
    {"graph", as_address},
    {"node", as_address},
    {"executable", as_address},
    {"result", as_address},
    {"path", as_address},
    {"offset", as_number},
    {"direct", as_signed},
    {"max_size", as_number},
    {"nests", as_address},
    {"axes", as_number},
    {"skipped", as_address},
    {"indices", as_address},
    {"index_limit", as_number},
    {"index_type", as_signed},
    {"index_memory", as_signed},
};
static_assert(sizeof fields / sizeof fields[0] == FERRY_FIELD_INDEX_MEMORY + 1);

// How value and limit are printed: the words between them, and the form of the limit if it is not the field's.
struct relation {
    char words[56] = ""; // empty: the numbers are printed in another way. An array needs no relocation
    number_form limit = as_number;
    bool has_form = false;
};

// Indexed by FERRY_NUMBERS_*.
constexpr relation relations[] = {
    {},
    {},
    {"must be at least"},
    {"must be at most"},
    {},
    {"must be at least 0 and less than"},
    {"must be"},
    {"must be a multiple of", as_number, true},
    {"must be a power of two, at most"},
    {"has bits outside"},
    {"before the beginning at"},
    {"past the end at"},
    {"does not fit elements of"},
    {},
    {"unlike this library's"},
    {"of"},
    {},
    {"refused by the driver with the result"},
    {"has a flag that needs"},
    {},
    {"must differ from device"},
    {"excluded by", as_field, true},
    {"requires", as_field, true},
    {"must not be the same as", as_field, true},
    {"prepared without", as_copy_flag, true},
    {"not accepted by this call:", as_copy_flag, true},
    {"must differ from the prepared address by a multiple of", as_number, true},
    {"must be memory of the same kind as the prepared address"},
    {},
    {},
};
static_assert(sizeof relations / sizeof relations[0] == FERRY_NUMBERS_OPENED + 1);

template <class Row, std::size_t count> const Row &row_or_first(const Row (&rows)[count], std::int32_t index) noexcept {
    return rows[index >= 0 && static_cast<std::size_t>(index) < count ? index : 0];
}

template <std::size_t count, std::size_t size>
const char *name_in(const char (&names)[count][size], std::uint64_t number) noexcept {
    return number < count ? names[number] : nullptr;
}

// Returns null for a number without a name.
const char *name_of(std::uint64_t number, number_form form) noexcept {
    switch (form) {
    case as_kind:
        return name_in(kind_names, number);
    case as_route:
        return name_in(route_names, number);
    case as_priority:
        return name_in(priority_names, number);
    case as_staging:
        return name_in(staging_names, number);
    case as_field:
        return number && number < sizeof fields / sizeof fields[0] ? fields[number].name : nullptr;
    case as_copy_flag:
        return number == FERRY_COPY_UPDATABLE ? "FERRY_COPY_UPDATABLE" : nullptr;
    default:
        return nullptr;
    }
}

struct number_text {
    const char *text; // a name, or the digits
    char digits[24];

    number_text(std::uint64_t number, number_form form) noexcept : text(name_of(number, form)) {
        if (text) return;
        text = digits;
        const bool is_hex = form == as_bits || form == as_address || form == as_copy_flag;
        const bool is_unsigned = form == as_number || form == as_field;
        const char *const format = is_hex ? "%#" PRIx64 : is_unsigned ? "%" PRIu64 : "%" PRId64;
        std::snprintf(digits, sizeof digits, format, number);
    }
    number_text(const number_text &) = delete;
};

// The form of the numbers of a field. Sizes, versions and indices share fields with addresses.
number_form form_of(const field_text &field, std::int32_t numbers) noexcept {
    if (field.form != as_address) return field.form;
    switch (numbers) {
    case FERRY_NUMBERS_VALUE:
    case FERRY_NUMBERS_MULTIPLE:
    case FERRY_NUMBERS_BEGIN:
    case FERRY_NUMBERS_END:
    case FERRY_NUMBERS_EXCLUDED:
    case FERRY_NUMBERS_REQUIRES:
    case FERRY_NUMBERS_SAME:
    case FERRY_NUMBERS_SHIFT:
    case FERRY_NUMBERS_PREPARED:
        return as_address;
    default:
        return as_number;
    }
}

// The value, and the numbers of the bits of the limit.
void write_choices(const number_text &value, std::uint64_t limit, number_form form, char *text,
                   std::size_t size) noexcept {
    int length = std::snprintf(text, size, "%s, must be one of", value.text);
    const char *separator = " ";
    for (unsigned choice = 0; choice < 64 && length > 0 && static_cast<std::size_t>(length) < size; ++choice) {
        if (!(limit >> choice & 1)) continue;
        const auto at = static_cast<std::size_t>(length);
        length += std::snprintf(text + at, size - at, "%s%s", separator,
                                number_text(choice, form == as_bits ? as_number : form).text);
        separator = ", ";
    }
}

// What the system reported about a file, at an offset.
void write_file_failure(const ferry_error_info &details, char *text, std::size_t size) noexcept {
    const auto code = static_cast<std::int32_t>(details.value);
    if (code == FERRY_FILE_ENDED)
        std::snprintf(text, size, "the file ends at byte %" PRIu64, details.limit);
    else if (code == FERRY_FILE_CANCELLED)
        std::snprintf(text, size, "cancelled at byte %" PRIu64, details.limit);
    else if (details.status == FERRY_ERROR_UNSUPPORTED || details.field == FERRY_FIELD_PATH ||
             details.field == FERRY_FIELD_OS_HANDLE)
        std::snprintf(text, size, "%s (system error %" PRId32 ")", std::strerror(code), code);
    else
        std::snprintf(text, size, "%s (system error %" PRId32 ") at byte %" PRIu64, std::strerror(code), code,
                      details.limit);
}

// Writes value and limit. Returns whether they replace the text of the status.
bool write_numbers(const ferry_error_info &details, const field_text &field, const char *item, char *text,
                   std::size_t size) noexcept {
    const number_form form = form_of(field, details.numbers);
    const number_text value(details.value, form);
    const relation &relation = row_or_first(relations, details.numbers);
    if (details.field == FERRY_FIELD_STRIDE && details.numbers == FERRY_NUMBERS_AT_LEAST) {
        std::snprintf(text, size, "%s, must be the size of the struct that contains a piece, at least %" PRIu64,
                      value.text, details.limit);
        return true;
    }
    if (*relation.words) {
        const number_text limit(details.limit, relation.has_form ? relation.limit : form);
        std::snprintf(text, size, "%s, %s %s", value.text, relation.words, limit.text);
        return true;
    }
    switch (details.numbers) {
    case FERRY_NUMBERS_UP_TO:
        std::snprintf(text, size, "%s, must be from %s to %s", value.text, number_text(0, form).text,
                      number_text(details.limit, form).text);
        return true;
    case FERRY_NUMBERS_ONE_OF:
        write_choices(value, details.limit, form, text, size);
        return true;
    case FERRY_NUMBERS_COPY:
        std::snprintf(text, size, "shares bytes with %s %" PRIu64, *item ? item : "copy", details.limit);
        return true;
    case FERRY_NUMBERS_SYSTEM:
        write_file_failure(details, text, size);
        return true;
    case FERRY_NUMBERS_OPENED:
        std::snprintf(text, size, "the file was not opened with %s",
                      details.limit == FERRY_FILE_WRITE ? "FERRY_FILE_WRITE" : "FERRY_FILE_READ");
        return true;
    case FERRY_NUMBERS_OBSTACLE:
        std::snprintf(text, size, "%s", text_of(details.value));
        return false;
    case FERRY_NUMBERS_VALUE:
        if (details.status == FERRY_ERROR_INVALID_ARGUMENT && !details.value && form == as_address) {
            std::snprintf(text, size, "NULL, must be a valid pointer");
            return true;
        }
        std::snprintf(text, size, "%s", value.text);
        return false;
    default:
        return false;
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
    const char *const item_name = row_or_first(item_names, details.item);
    char item[48] = "";
    if (details.item == FERRY_ITEM_AXIS)
        std::snprintf(item, sizeof item, "nest %" PRIu64 ", axis %" PRIu64 ": ", details.index / FERRY_NEST_AXES,
                      details.index % FERRY_NEST_AXES);
    else if (*item_name)
        std::snprintf(item, sizeof item, "%s %" PRIu64 ": ", item_name, details.index);
    const char *const side = row_or_first(side_names, details.side);
    const field_text &field = row_or_first(fields, details.field);
    char where[64] = "";
    if (*side || *field.name)
        std::snprintf(where, sizeof where, "%s%s%s: ", side, *side && *field.name ? "." : "", field.name);
    char numbers[256] = "";
    const bool is_whole = write_numbers(details, field, item_name, numbers, sizeof numbers);
    const bool is_obstacle = details.numbers == FERRY_NUMBERS_OBSTACLE;
    const char *const text = is_whole ? "" : status_text, *const between = is_whole || !*numbers ? "" : ": ";
    const char *const function = details.driver_function;
    const int length =
        std::snprintf(buffer, size, "%s%s%s%s%s (%s%s%s)", item, where, is_obstacle ? text : numbers, between,
                      is_obstacle ? numbers : text, status_name, function ? " from " : "", function ? function : "");
    return length < 0 ? 0 : static_cast<std::uint64_t>(length);
}

} // namespace ferry
