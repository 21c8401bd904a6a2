// Chooses the route of a group of pieces that the same routes can serve: one kernel launch, one batch call of the
// driver, or one call per piece. Pure, like plan.h.
#pragma once

#include "plan/plan.h"

namespace ferry {

enum class batch_route : std::uint8_t {
    calls,      // one call for each piece or box
    batch_call, // cuMemcpyBatchAsync, or cuMemcpy3DBatchAsync for boxes
    kernel,     // one launch for a group of pieces, or for the boxes of one group and kind of source
    staged,     // all pieces and boxes in one staged copy, if an end is pageable: plan/pageable_pieces.h
    own,        // boxes with their own flags: each runs with its own plan
};
constexpr int batch_routes = 3; // the first three serve memory that is not pageable
constexpr int all_batch_routes = 5;

struct batch_facts {
    copy_direction direction = copy_direction::host_to_device;
    bool are_boxes = false; // of two or three dimensions
    bool are_of_arrays = false;
    std::uint64_t count = 0;   // number of pieces, with adjacent pieces merged
    std::uint64_t bytes = 0;   // of all pieces
    std::uint64_t largest = 0; // bytes of the largest piece
    unsigned access = 16;      // bytes: the widest access that both ends of every piece share; a power of two
    obstacle kernels = obstacle::not_loaded; // why kernels cannot serve this group: pageable, array …
    obstacle batch_call = obstacle::no_entry_point;
    copy_preferences preferences = {};
    const device_profile *profile = nullptr;
};

struct batch_plan {
    batch_route route = batch_route::calls;
    obstacle refused = obstacle::none; // same as in copy_plan
    std::uint16_t blocks = 0;          // for the kernel
    std::uint64_t predicted_ns = 0;    // 0: unknown
};
batch_plan plan_batch(const batch_facts &facts) noexcept;

struct batch_forecast {
    obstacle why_not = obstacle::none;
    std::uint16_t blocks = 0;
    std::uint64_t predicted_ns = 0; // from the call until the copy is complete; 0: unknown
};
// One per route, for the first three routes.
struct batch_forecasts {
    batch_forecast routes[batch_routes];
    const batch_forecast &operator[](batch_route route) const noexcept { return routes[static_cast<int>(route)]; }
};
batch_forecasts predict_batch(const batch_facts &facts) noexcept;

} // namespace ferry
