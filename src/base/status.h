// The result of a check, returned by value: a status, and the field and numbers that it refers to. Status 0 is success.
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

    // Failures are marked as unlikely.
    explicit operator bool() const noexcept { return is_unlikely(status != FERRY_SUCCESS); }
};

inline constexpr error ok = {};
inline constexpr error no_memory = {.status = FERRY_ERROR_OUT_OF_MEMORY};

// Sets the side of an error from the memory layer, which knows the field but not the side.
inline error on_side(error failed, std::int32_t side) noexcept {
    if (failed.field != FERRY_FIELD_NONE) failed.side = side;
    return failed;
}

// Marked cold, so that the compiler moves the error paths that call it out of the hot code.
[[gnu::cold, gnu::noinline]] error refuse(std::int32_t status, std::int32_t side, std::int32_t field,
                                          std::uint64_t limit = 0, std::uint64_t value = 0) noexcept;

inline error refuse_option(std::int32_t status, std::int32_t field, std::uint64_t limit = 0,
                           std::uint64_t value = 0) noexcept {
    return refuse(status, FERRY_SIDE_OPTIONS, field, limit, value);
}

// Fills `details` up to its size, unless it is null, and returns the status. `index` is the index of the failed copy in
// a batch.
[[gnu::hot]] std::int32_t report(ferry_error_info *details, const error &what, std::uint64_t index = 0) noexcept;

// The name and text of a status that ferry defines; null for any other status.
const char *own_status_name(std::int32_t status) noexcept;
const char *own_status_text(std::int32_t status) noexcept;

// Writes the line of ferry_error_format. The caller supplies the name and text of the status, because this layer does
// not know the driver's results.
std::uint64_t format_error(const ferry_error_info &details, const char *status_name, const char *status_text,
                           char *buffer, std::uint64_t size) noexcept;

} // namespace ferry
