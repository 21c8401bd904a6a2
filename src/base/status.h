// The result of a check, returned by value: a status, and the field and numbers that it refers to. Status 0 is success.
#pragma once

#include <cstdint>

#include "base/compiler.h"
#include "ferry/ferry.h"

namespace ferry {

// A status, and the driver function that returned it. Converts to and from the plain number, which loses the function.
// Aligned so that compilers access an atomic one without a library.
struct alignas(8) status_code {
    std::int32_t number = FERRY_SUCCESS;
    std::int32_t call = 0; // a row of driver_symbols (driver/table.h), counted from 1; 0 without a driver function

    constexpr status_code() noexcept = default;
    constexpr status_code(std::int32_t number, std::int32_t call = 0) noexcept : number(number), call(call) {}
    constexpr operator std::int32_t() const noexcept { return number; }
};

// What value and limit of an error are: the values of FERRY_NUMBERS_*.
enum class numbers : std::int32_t {
    none = FERRY_NUMBERS_NONE,
    value = FERRY_NUMBERS_VALUE,
    at_least = FERRY_NUMBERS_AT_LEAST,
    at_most = FERRY_NUMBERS_AT_MOST,
    up_to = FERRY_NUMBERS_UP_TO,
    count = FERRY_NUMBERS_COUNT,
    equal = FERRY_NUMBERS_EQUAL,
    multiple = FERRY_NUMBERS_MULTIPLE,
    power = FERRY_NUMBERS_POWER,
    bits = FERRY_NUMBERS_BITS,
    begin = FERRY_NUMBERS_BEGIN,
    end = FERRY_NUMBERS_END,
    element = FERRY_NUMBERS_ELEMENT,
    copy = FERRY_NUMBERS_COPY,
    known = FERRY_NUMBERS_KNOWN,
    of = FERRY_NUMBERS_OF,
    obstacle = FERRY_NUMBERS_OBSTACLE,
    result = FERRY_NUMBERS_RESULT,
    needs = FERRY_NUMBERS_NEEDS,
    one_of = FERRY_NUMBERS_ONE_OF,
    different = FERRY_NUMBERS_DIFFERENT,
    excluded = FERRY_NUMBERS_EXCLUDED,
    requires_field = FERRY_NUMBERS_REQUIRES,
    same = FERRY_NUMBERS_SAME,
    lacks = FERRY_NUMBERS_LACKS,
    not_here = FERRY_NUMBERS_NOT_HERE,
    shift = FERRY_NUMBERS_SHIFT,
    prepared = FERRY_NUMBERS_PREPARED,
    system = FERRY_NUMBERS_SYSTEM,
    opened = FERRY_NUMBERS_OPENED,
};

struct error {
    status_code status;
    std::int16_t side = FERRY_SIDE_NONE;
    std::int16_t field = FERRY_FIELD_NONE;
    ferry::numbers numbers = numbers::none;
    std::uint64_t limit = 0;
    std::uint64_t value = 0;

    // Failures are marked as unlikely.
    explicit operator bool() const noexcept { return is_unlikely(status != FERRY_SUCCESS); }
};

inline constexpr error ok = {};
inline constexpr error no_memory = {.status = FERRY_ERROR_OUT_OF_MEMORY};

// Sets the side of an error from the memory layer, which knows the field but not the side.
inline error on_side(error failed, std::int32_t side) noexcept {
    if (failed.field != FERRY_FIELD_NONE) failed.side = static_cast<std::int16_t>(side);
    return failed;
}

// Marked cold, so that the compiler moves the error paths that call it out of the hot code.
[[gnu::cold, gnu::noinline]] error refuse(std::int32_t status, std::int32_t side, std::int32_t field,
                                          numbers given = numbers::none, std::uint64_t limit = 0,
                                          std::uint64_t value = 0) noexcept;
// For signed numbers, such as the value of an int32_t field.
[[gnu::cold, gnu::noinline]] error refuse_signed(std::int32_t status, std::int32_t side, std::int32_t field,
                                                 numbers given, std::int64_t limit, std::int64_t value) noexcept;
// A value without a limit.
inline error refuse_value(std::int32_t status, std::int32_t side, std::int32_t field, std::uint64_t value) noexcept {
    return refuse(status, side, field, numbers::value, 0, value);
}

inline error refuse_option(std::int32_t status, std::int32_t field, numbers given = numbers::none,
                           std::uint64_t limit = 0, std::uint64_t value = 0) noexcept {
    return refuse(status, FERRY_SIDE_OPTIONS, field, given, limit, value);
}

// The name and text of a status that ferry defines; null for any other status.
const char *own_status_name(std::int32_t status) noexcept;
const char *own_status_text(std::int32_t status) noexcept;

// Writes the line of ferry_error_format. The caller supplies the name and text of the status, because this layer does
// not know the driver's results. Fields that `details` is too small for must be zero.
std::uint64_t format_error(const ferry_error_info &details, const char *status_name, const char *status_text,
                           char *buffer, std::uint64_t size) noexcept;

} // namespace ferry
