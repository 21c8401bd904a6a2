// The result of a check, passed by value: a status, and the field and numbers it is about. Status 0 is success.
#pragma once

#include <cstdint>

#include "base/compiler.h"
#include "ferry/ferry.h"

namespace ferry {

struct error {
    std::int32_t status = FERRY_SUCCESS;
    std::int32_t side = FERRY_SIDE_NONE;
    std::int32_t field = FERRY_FIELD_NONE;
    std::uint64_t limit = 0;
    std::uint64_t value = 0;

    // Tells the compiler that failures are unlikely.
    explicit operator bool() const noexcept { return is_unlikely(status != FERRY_SUCCESS); }
};

inline constexpr error ok = {};
inline constexpr error no_memory = {.status = FERRY_ERROR_OUT_OF_MEMORY};

// Sets the side of a failure of the memory layer, which knows the field but not the side.
inline error on_side(error failed, std::int32_t side) noexcept {
    if (failed.field != FERRY_FIELD_NONE) failed.side = side;
    return failed;
}

// Cold, so that the compiler moves the error paths that lead here out of the hot code.
[[gnu::cold, gnu::noinline]] error refuse(std::int32_t status, std::int32_t side, std::int32_t field,
                                          std::uint64_t limit = 0, std::uint64_t value = 0) noexcept;

inline error refuse_option(std::int32_t status, std::int32_t field, std::uint64_t limit = 0,
                           std::uint64_t value = 0) noexcept {
    return refuse(status, FERRY_SIDE_OPTIONS, field, limit, value);
}

// Fills `error`, unless it is null, up to its size, and returns the status. `index` is that of the failed copy in a
// batch.
[[gnu::hot]] std::int32_t report(ferry_error_info *details, const error &what, std::uint64_t index = 0) noexcept;

// The name and text of one of ferry's own statuses; null for any other.
const char *own_status_name(std::int32_t status) noexcept;
const char *own_status_text(std::int32_t status) noexcept;

// Writes the line of ferry_error_format. The caller passes the status's name and text, because only the caller knows
// the driver's.
std::uint64_t format_error(const ferry_error_info &details, const char *status_name, const char *status_text,
                           char *buffer, std::uint64_t size) noexcept;

} // namespace ferry
