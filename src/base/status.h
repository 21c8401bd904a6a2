// What a failed check has to say: the status and the field it is about. Travels by value; 0 is success.
#pragma once

#include <cstdint>

#include "ferry/ferry.h"

namespace ferry {

struct failure {
    std::int32_t status = FERRY_SUCCESS;
    std::int32_t side = FERRY_SIDE_NONE;
    std::int32_t field = FERRY_FIELD_NONE;
    std::uint64_t limit = 0;
    std::uint64_t value = 0;

    // Failing is what does not happen: the compiler lays the code out for that.
    explicit operator bool() const noexcept { return __builtin_expect(status != FERRY_SUCCESS, false); }
};

inline constexpr failure no_memory = {.status = FERRY_ERROR_OUT_OF_MEMORY};

// Errors of the memory layer know the field; which side it is about its caller knows.
inline failure on_side(failure failed, std::int32_t side) noexcept {
    if (failed.field != FERRY_FIELD_NONE) failed.side = side;
    return failed;
}

// Out of the way of what succeeds: what leads to a call of a cold function is laid out elsewhere.
[[gnu::cold, gnu::noinline]] failure refuse(std::int32_t status, std::int32_t side, std::int32_t field,
                                            std::uint64_t limit = 0, std::uint64_t value = 0) noexcept;

inline failure refuse_option(std::int32_t status, std::int32_t field, std::uint64_t limit = 0,
                             std::uint64_t value = 0) noexcept {
    return refuse(status, FERRY_SIDE_OPTIONS, field, limit, value);
}

// Fills the caller's report, as far as it asked for one, and returns the status. `index` is of the one that failed, where
// there are many.
std::int32_t report(ferry_error_info *error, const failure &what, std::uint64_t index = 0) noexcept;

// ferry's own statuses; null for those that are not ferry's.
const char *own_status_name(std::int32_t status) noexcept;
const char *own_status_text(std::int32_t status) noexcept;

// The readable line of ferry_error_format, with the status in the words of the caller, who knows the driver's.
std::uint64_t format_error(const ferry_error_info &error, const char *status_name, const char *status_text,
                           char *buffer, std::uint64_t size) noexcept;

} // namespace ferry
