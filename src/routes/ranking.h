// Compares the routes of a copy. Pure: equal shapes and facts give equal results, and no driver call is made.
#pragma once

#include "routes/route.h"

namespace ferry {

// The routes that may serve, the preferred route first. The driver route is the last, and always in the list unless the
// caller forces another route, or forbids to wait and the driver would. If no route can serve, the list is empty and
// `refused` states why.
struct ranked_route {
    const route *by;
    std::uint8_t reason;
};
struct ranked_routes {
    ranked_route all[route_count];
    int count = 0;
    obstacle refused = obstacle::none;

    ranked_routes &add(const route &by, std::uint8_t reason) noexcept {
        all[count++] = {&by, reason};
        return *this;
    }
};
[[gnu::noinline]] ranked_routes rank_routes(const copy_question &copy) noexcept;

// Returns the plan of a route that can serve.
copy_plan plan_by(const ranked_route &route, const copy_question &copy) noexcept;

// Returns the plan of a copy whose facts are all known.
copy_plan plan_copy(const shape &shape, const plan_facts &facts) noexcept;

// The forecast for each route, for callers that need the reasons for a choice.
struct route_forecast {
    obstacle why_not = obstacle::none;
    std::uint16_t blocks = 0;
    std::uint64_t predicted_ns = 0; // from the call until the copy is complete; 0: unknown
    std::uint64_t delay_ns = 0;     // the part of this time that is due to recent delays
};
struct copy_forecast {
    route_forecast all[route_count + 1]; // by route_kind

    route_forecast &operator[](route_kind route) noexcept { return all[static_cast<int>(route)]; }
    const route_forecast &operator[](route_kind route) const noexcept { return all[static_cast<int>(route)]; }
};
copy_forecast predict_copy(const shape &shape, const plan_facts &facts) noexcept;

} // namespace ferry
