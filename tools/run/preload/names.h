// Readable names for the kinds of calls, and for their outcomes.
#pragma once

#include <iterator>

#include "record.h"

namespace ferry_run {

inline constexpr const char *kind_names[] = {"pageable to device",
                                             "device to pageable",
                                             "pinned to device",
                                             "device to pinned",
                                             "host to device",
                                             "device to host",
                                             "on a device",
                                             "between devices",
                                             "other",
                                             "batches",
                                             "fills",
                                             "pinned allocations"};
static_assert(std::size(kind_names) == static_cast<std::size_t>(traffic::count));

inline constexpr const char *result_names[] = {
#define FERRY_ROUTE(name, number, flag, ns, how) how,
    FERRY_ROUTES(FERRY_ROUTE)
#undef FERRY_ROUTE
        "filled",
    "as a batch",
    "allocated",
    "small",
    "the driver is as fast",
    "the host is crowded",
    "captured in a graph",
    "other memory",
    "another context, or none",
    "ferry rejects it",
    "a form not supported",
    "ferry is not open",
    "ferry would stage it",
    "ferry would use a kernel",
    "ferry would serve it"};
static_assert(std::size(result_names) == static_cast<std::size_t>(outcome::count));

inline const char *name_of(traffic kind) noexcept { return kind_names[static_cast<unsigned>(kind)]; }
inline const char *name_of(outcome result) noexcept { return result_names[static_cast<unsigned>(result)]; }

} // namespace ferry_run
