// The routes of copies.
#pragma once

#include <cstdint>

#include "ferry/ferry.h"

namespace ferry {

// The table of routes: the name of each and its number in ferry.h, in the order of preference. A copy uses the first
// route that can serve the copy and is preferred to the driver route. The driver route is the last route, and serves
// all copies. src/routes/NAME.cpp defines NAME_route.
#define FERRY_ROUTES(ROUTE)                                                                                            \
    ROUTE(multilink, FERRY_ROUTE_MULTILINK) /* kernels of several devices, each over its own link to the host */       \
    ROUTE(buffered, FERRY_ROUTE_BUFFERED)   /* the calling thread reads the source; the driver copies its buffer */    \
    ROUTE(staged, FERRY_ROUTE_STAGED)       /* host threads, and a kernel or copies on the stream, through slots */    \
    ROUTE(relayed, FERRY_ROUTE_RELAYED)     /* between devices without access, through slots of pinned memory */       \
    ROUTE(kernel, FERRY_ROUTE_KERNEL)       /* a kernel on the stream */                                               \
    ROUTE(driver, FERRY_ROUTE_DRIVER)       /* the driver's own call */

enum class route_kind : std::uint8_t {
    none = FERRY_ROUTE_NONE, // as a preference: any
#define FERRY_ROUTE(name, number) name = number,
    FERRY_ROUTES(FERRY_ROUTE)
#undef FERRY_ROUTE
};

// The name of a route by its number, FERRY_ROUTE_*.
inline const char *name_of_route(std::int32_t number) noexcept {
    constexpr struct {
        std::int32_t number;
        const char *name;
    } routes[] = {
#define FERRY_ROUTE(name, number) {number, #name},
        FERRY_ROUTES(FERRY_ROUTE)
#undef FERRY_ROUTE
    };
    for (const auto &route : routes)
        if (route.number == number) return route.name;
    return "driver";
}

} // namespace ferry
