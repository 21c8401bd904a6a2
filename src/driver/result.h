// Converts the driver's results to statuses and text, without calling the driver.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "driver/table.h"

namespace ferry {

constexpr std::int32_t to_status(CUresult result) noexcept {
    return result == CUDA_SUCCESS ? FERRY_SUCCESS : FERRY_STATUS_DRIVER_BASE - static_cast<std::int32_t>(result);
}
constexpr status_code to_status(call_result returned) noexcept { return {to_status(returned.result), returned.call}; }

// The driver's status for an object that no longer exists, such as an event that was destroyed with its context.
inline constexpr std::int32_t invalid_handle = to_status(CUDA_ERROR_INVALID_HANDLE);

// Calls an entry point that the driver may lack.
template <class Entry, class... Arguments>
status_code call_optional(const Entry &entry, Arguments... arguments) noexcept {
    return entry ? to_status(entry(arguments...)) : status_code(FERRY_ERROR_UNSUPPORTED, Entry::row);
}

constexpr error to_error(CUresult result) noexcept { return {.status = to_status(result)}; }
constexpr error to_error(call_result returned) noexcept { return {.status = to_status(returned)}; }

// Adds the field that a call was given, if the status says that the value could not be used and the error names no side
// or field yet.
[[gnu::cold]] error about(error failed, std::int32_t field, std::uint64_t value) noexcept;

// Replaces the driver's status by ferry's own error, which keeps the name of the driver function.
inline error replace(status_code status, error own) noexcept {
    own.status.call = status.call;
    return own;
}

// Returns the name of a row of driver_symbols, counted from 1; null for 0.
constexpr const char *name_of_call(std::int32_t row) noexcept { return row ? driver_symbols[row - 1].name : nullptr; }

// What `index` of an error counts, and the index. Without an item, the index means nothing.
struct error_item {
    std::int32_t item = FERRY_ITEM_NONE;
    std::uint64_t index = 0;
};

// Fills `details` up to its size, unless it is null, and returns the status.
[[gnu::hot]] std::int32_t report(ferry_error_info *details, const error &what, error_item where = {}) noexcept;

// Same as report(details, ok), in line.
[[gnu::always_inline]] inline std::int32_t report_success(ferry_error_info *details) noexcept {
    if (!details) return FERRY_SUCCESS;
    const std::uint32_t size = details->struct_size;
    if (is_unlikely(size < sizeof *details)) return report(details, ok);
    *details = {};
    details->struct_size = size;
    return FERRY_SUCCESS;
}

// All null and 0 for results that this version of ferry does not know.
struct driver_result {
    const char *name = nullptr;
    const char *text = nullptr;
    std::uint32_t traits = 0; // FERRY_STATUS_*
};

driver_result find_driver_result(std::int32_t number) noexcept;

const char *status_name(std::int32_t status) noexcept;
const char *status_text(std::int32_t status) noexcept;
std::uint32_t status_traits(std::int32_t status) noexcept;
// Whether the status reports the death of a context. The dead context can be another than the one used by the call: see
// tracked_contexts.h.
inline bool means_dead_context(std::int32_t status) noexcept {
    return status_traits(status) & FERRY_STATUS_CONTEXT_DEAD;
}

// At process exit, the driver may be unloaded before the instance is closed. Then nothing needs to be released.
inline bool is_driver_gone(const driver_table &cu) noexcept {
    CUcontext current = nullptr;
    const CUresult result = cu.cuCtxGetCurrent(&current);
    return result == CUDA_ERROR_DEINITIALIZED || result == CUDA_ERROR_NOT_INITIALIZED;
}

} // namespace ferry
