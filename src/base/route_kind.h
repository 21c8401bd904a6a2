// The routes of copies.
#pragma once

#include <cstdint>

#include "ferry/ferry.h"

namespace ferry {

// The table of routes. A route has these columns:
// - its name: src/routes/NAME.cpp defines NAME_route,
// - its number in ferry.h,
// - whether ferry_copy_options may force the route,
// - the member of ferry_explanation that contains the predicted time, or null,
// - how messages express that a copy uses the route, such as "7.9 us by a kernel".
// The order is the order of preference: a copy uses the first route that can serve the copy and that is preferred to the
// driver route. The driver route is the last route, and serves all copies.
#define FERRY_ROUTES(ROUTE)                                                                                            \
    ROUTE(multilink, FERRY_ROUTE_MULTILINK, false, &ferry_explanation::multilink_ns, "over links")                     \
    ROUTE(buffered, FERRY_ROUTE_BUFFERED, false, nullptr, "buffered")                                                  \
    ROUTE(staged, FERRY_ROUTE_STAGED, true, &ferry_explanation::staged_ns, "staged")                                   \
    ROUTE(relayed, FERRY_ROUTE_RELAYED, true, &ferry_explanation::relay_ns, "relayed")                                 \
    ROUTE(kernel, FERRY_ROUTE_KERNEL, true, &ferry_explanation::kernel_ns, "by a kernel")                              \
    ROUTE(driver, FERRY_ROUTE_DRIVER, true, &ferry_explanation::driver_ns, "by the driver")

enum class route_kind : std::uint8_t {
    none = FERRY_ROUTE_NONE, // as a preference: any
#define FERRY_ROUTE(name, number, ...) name = number,
    FERRY_ROUTES(FERRY_ROUTE)
#undef FERRY_ROUTE
};

#define FERRY_ROUTE(...) +1
constexpr int route_count = FERRY_ROUTES(FERRY_ROUTE);
#undef FERRY_ROUTE

struct route_entry {
    const char *name = nullptr;
    bool may_be_forced = false;
    std::uint64_t ferry_explanation::*ns = nullptr;
    const char *how = nullptr;
};

// The table by number. Index 0 is FERRY_ROUTE_NONE.
struct route_entries {
    route_entry all[route_count + 1];

    // Whether the numbers of the routes are 1, 2, 3, ... Arrays that are indexed by number rely on that.
    constexpr bool are_complete() const noexcept {
        for (int number = 1; number <= route_count; ++number)
            if (!all[number].name) return false;
        return true;
    }
};
inline constexpr route_entries routes_by_number = [] {
    route_entries entries;
#define FERRY_ROUTE(name, number, ...) entries.all[number] = {#name, __VA_ARGS__};
    FERRY_ROUTES(FERRY_ROUTE)
#undef FERRY_ROUTE
    return entries;
}();
static_assert(routes_by_number.are_complete(), "the numbers of the routes must be consecutive");

constexpr const route_entry &entry_of(route_kind route) noexcept {
    return routes_by_number.all[static_cast<int>(route)];
}
// The entry of a number that a program passes. Unknown numbers get the entry of the driver route.
constexpr const route_entry &entry_of_number(std::int32_t number) noexcept {
    return routes_by_number.all[number > 0 && number <= route_count ? number : FERRY_ROUTE_DRIVER];
}

} // namespace ferry
