// Chooses how a group of pieces that can all take the same ways is copied: by one kernel launch, by one of the driver's
// batch calls, or by one call for each piece. Pure, as plan.h.
#pragma once

#include "plan/plan.h"

namespace ferry {

enum class batch_route : std::uint8_t {
    calls,      // one call for each piece
    batch_call, // cuMemcpyBatchAsync, or cuMemcpy3DBatchAsync for boxes
    kernel,
    staged, // all in one staged copy, where an end is pageable: plan/pageable_pieces.h
};
constexpr int batch_ways = 3; // of memory that is not pageable

struct batch_facts {
    copy_direction direction = copy_direction::host_to_device;
    bool are_boxes = false; // of two or three dimensions
    bool are_of_arrays = false;
    std::uint64_t count = 0;   // of pieces, with neighbours merged
    std::uint64_t bytes = 0;   // of all pieces
    std::uint64_t largest = 0; // bytes of the largest piece
    unsigned access = 16;      // bytes: the widest access that both ends of every piece share; a power of two
    obstacle kernels = obstacle::not_loaded; // why kernels cannot serve this group: pageable, array …
    obstacle batch_call = obstacle::no_entry_point;
    copy_preferences preferences = {};
    const device_profile *profile = nullptr;
};

struct batch_plan {
    batch_route way = batch_route::calls;
    obstacle refused = obstacle::none; // as in copy_plan
    std::uint16_t blocks = 0;          // of the kernel
    std::uint64_t predicted_ns = 0;    // 0: not known
};
batch_plan plan_batch(const batch_facts &facts) noexcept;

struct batch_forecast {
    obstacle why_not = obstacle::none;
    std::uint16_t blocks = 0;
    std::uint64_t predicted_ns = 0; // from the call until the copy is complete; 0: not known
};
// One for each batch_route.
struct batch_forecasts {
    batch_forecast ways[batch_ways];
    const batch_forecast &operator[](batch_route way) const noexcept { return ways[static_cast<int>(way)]; }
};
batch_forecasts predict_batch(const batch_facts &facts) noexcept;

} // namespace ferry
