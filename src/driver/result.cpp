#include "driver/result.h"

#include <algorithm>
#include <iterator>

namespace ferry {

namespace {

constexpr std::uint32_t plain = 0, dead = FERRY_STATUS_CONTEXT_DEAD, retry = FERRY_STATUS_RETRY;

constexpr driver_result driver_results[] = {
#define FERRY_DRIVER_RESULT(number, name, traits, text) {number, #name, traits, text},
#include "driver/results.inc"
#undef FERRY_DRIVER_RESULT
};

constexpr bool is_driver_status(std::int32_t status) noexcept { return status <= FERRY_STATUS_DRIVER_BASE; }

const driver_result *find_status(std::int32_t status) noexcept {
    return find_driver_result(FERRY_STATUS_DRIVER_BASE - status);
}

} // namespace

const driver_result *find_driver_result(std::int32_t number) noexcept {
    const auto *found = std::lower_bound(std::begin(driver_results), std::end(driver_results), number,
                                         [](const driver_result &row, std::int32_t n) { return row.number < n; });
    return found != std::end(driver_results) && found->number == number ? found : nullptr;
}

const char *status_name(std::int32_t status) noexcept {
    if (const char *own = own_status_name(status)) return own;
    if (!is_driver_status(status)) return "FERRY_ERROR_UNKNOWN_STATUS";
    const driver_result *row = find_status(status);
    return row ? row->name : "CUDA_ERROR_UNKNOWN_RESULT";
}

const char *status_text(std::int32_t status) noexcept {
    if (const char *own = own_status_text(status)) return own;
    if (!is_driver_status(status)) return "not a status of ferry";
    const driver_result *row = find_status(status);
    return row ? row->text : "a driver result that ferry does not know";
}

std::uint32_t status_traits(std::int32_t status) noexcept {
    if (status == FERRY_ERROR_OUT_OF_MEMORY || status == FERRY_ERROR_LIMIT || status == FERRY_ERROR_IN_USE)
        return FERRY_STATUS_RETRY;
    const driver_result *row = is_driver_status(status) ? find_status(status) : nullptr;
    return row ? row->traits : 0;
}

} // namespace ferry
