#include "driver/result.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <iterator>

namespace ferry {

namespace {

constexpr std::uint16_t plain = 0, dead = FERRY_STATUS_CONTEXT_DEAD, retry = FERRY_STATUS_RETRY;

// All names and texts are in one constant, and rows refer to them by offset: a pointer would need a relocation of 24
// bytes.
struct all_strings {
#define FERRY_DRIVER_RESULT(number, name, traits, text) char name_##number[sizeof #name], text_##number[sizeof text];
#include "driver/results.inc"
#undef FERRY_DRIVER_RESULT
};
constexpr all_strings strings = {
#define FERRY_DRIVER_RESULT(number, name, traits, text) #name, text,
#include "driver/results.inc"
#undef FERRY_DRIVER_RESULT
};

struct row {
    std::uint16_t number, name, text;
    std::uint16_t traits;
};
constexpr row rows[] = {
#define FERRY_DRIVER_RESULT(number, name, traits, text)                                                                \
    {number, offsetof(all_strings, name_##number), offsetof(all_strings, text_##number), traits},
#include "driver/results.inc"
#undef FERRY_DRIVER_RESULT
};

constexpr bool is_driver_status(std::int32_t status) noexcept { return status <= FERRY_STATUS_DRIVER_BASE; }

driver_result find_status(std::int32_t status) noexcept {
    return find_driver_result(FERRY_STATUS_DRIVER_BASE - status);
}

} // namespace

error about(error failed, std::int32_t field, std::uint64_t value) noexcept {
    switch (failed.status) {
    case to_status(CUDA_ERROR_INVALID_VALUE):
    case to_status(CUDA_ERROR_OUT_OF_MEMORY):
    case to_status(CUDA_ERROR_INVALID_CONTEXT):
    case to_status(CUDA_ERROR_INVALID_HANDLE):
    case to_status(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED):
    case to_status(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED):
    case FERRY_ERROR_INVALID_ARGUMENT:
    case FERRY_ERROR_ADDRESS:
    case FERRY_ERROR_IN_USE:
    case FERRY_ERROR_HANDLE:
    case FERRY_ERROR_IMPORTED:
    case FERRY_ERROR_NOT_SHAREABLE:
        if (failed.field != FERRY_FIELD_NONE || failed.side != FERRY_SIDE_NONE) break;
        failed.field = static_cast<std::int16_t>(field);
        failed.numbers = numbers::value;
        failed.value = value;
        break;
    default:
        break;
    }
    return failed;
}

std::int32_t report(ferry_error_info *details, const error &what, error_item where) noexcept {
    if (!details) return what.status;
    // A struct_size of 0 means the size of the struct's first version, which is the smallest that a caller can have.
    constexpr std::uint32_t first_size = 56, smallest_size = 8; // see plausible_size, base/sized.h
    if (details->struct_size == 0) details->struct_size = first_size;
    const bool is_whole = details->struct_size >= sizeof *details;
    ferry_error_info shorter;
    ferry_error_info &info = is_whole ? *details : shorter;
    info.status = what.status;
    info.side = what.side;
    info.field = what.field;
    info.index = where.index;
    info.limit = what.limit;
    info.value = what.value;
    info.driver_function = what.status ? name_of_call(what.status.call) : nullptr;
    info.item = where.item;
    info.numbers = static_cast<std::int32_t>(what.numbers);
    if (!is_whole && details->struct_size >= smallest_size) {
        shorter.struct_size = details->struct_size;
        std::memcpy(details, &shorter, details->struct_size);
    }
    return what.status;
}

driver_result find_driver_result(std::int32_t number) noexcept {
    const auto *found = std::lower_bound(std::begin(rows), std::end(rows), number,
                                         [](const row &one, std::int32_t n) { return one.number < n; });
    if (found == std::end(rows) || found->number != number) return {};
    const char *const start = reinterpret_cast<const char *>(&strings);
    return {start + found->name, start + found->text, found->traits};
}

const char *status_name(std::int32_t status) noexcept {
    if (const char *own = own_status_name(status)) return own;
    if (!is_driver_status(status)) return "FERRY_ERROR_UNKNOWN_STATUS";
    const driver_result known = find_status(status);
    return known.name ? known.name : "CUDA_ERROR_UNKNOWN_RESULT";
}

const char *status_text(std::int32_t status) noexcept {
    if (const char *own = own_status_text(status)) return own;
    if (!is_driver_status(status)) return "not a status of ferry";
    const driver_result known = find_status(status);
    return known.text ? known.text : "a driver result that this version of ferry does not know";
}

std::uint32_t status_traits(std::int32_t status) noexcept {
    if (status == FERRY_ERROR_OUT_OF_MEMORY || status == FERRY_ERROR_LIMIT || status == FERRY_ERROR_WOULD_BLOCK ||
        status == FERRY_ERROR_IN_USE || status == FERRY_ERROR_NOT_READY)
        return FERRY_STATUS_RETRY;
    return is_driver_status(status) ? find_status(status).traits : 0;
}

} // namespace ferry
