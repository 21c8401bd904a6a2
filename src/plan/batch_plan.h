// Plans a batch by groups: each group of pieces or boxes that the same routes can serve uses one kernel launch, one
// batch call of the driver, or one call per copy, whichever is predicted to be fastest. Pure, like plan.h.
#pragma once

#include "base/function_ref.h"
#include "copy/batch.h"
#include "plan/plan.h"

namespace ferry {

enum class batch_route : std::uint8_t {
    calls,      // one call for each piece or box
    batch_call, // cuMemcpyBatchAsync, or cuMemcpy3DBatchAsync for boxes
    kernel,     // one launch for a group of pieces, or for the boxes of one group and kind of source
    staged,     // all pieces and boxes in one staged copy, if an end is pageable: plan/pageable_pieces.h
    own,        // boxes of a batch with preferences: each runs with its own plan
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
// Compiled for size, because a batch needs only a few plans.
[[gnu::cold]] batch_plan plan_batch(const batch_facts &facts) noexcept;

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
[[gnu::cold]] batch_forecasts predict_batch(const batch_facts &facts) noexcept;

// ---- Groups

// The source of a box that a kernel copies. Each kind has separate launches.
enum box_source : std::uint8_t { from_memory, from_array };
constexpr int box_sources = 2;

// A copy that is more than a run of bytes.
struct batch_box {
    ferry::shape shape;
    std::uint64_t element;  // bytes, the unit of batch calls; 0: batch calls cannot serve the box
    std::uint32_t to, from; // indices of known ranges or known arrays; for `own`: `to` is the index of its views
    piece_group group;      // apart: kernels cannot serve the box
    batch_route route;
    copy_plan plan;      // for `own`
    std::uint64_t index; // of the copy in the program's batch; for `own`

    box_source source() const noexcept { return shape.source.array ? from_array : from_memory; }
    bool is_of(int source, int of_group) const noexcept {
        return this->source() == source && static_cast<int>(group) == of_group;
    }
    std::uint64_t bytes() const noexcept { return shape.width * shape.height * shape.depth; }
};

// A launch: the boxes of one source and group that a kernel copies.
struct box_launch {
    std::uint64_t count, bytes;
    std::uint16_t blocks;
    std::uint64_t predicted_ns; // 0: unknown
};

// The facts that are common to all groups of a batch. The obstacles state why kernels, or the driver's batch calls,
// cannot serve.
struct batch_site {
    int context_device = -1;
    obstacle kernels = obstacle::not_loaded;
    obstacle line_calls = obstacle::no_entry_point, box_calls = obstacle::no_entry_point;
    copy_preferences preferences = {};
    const device_profile *profile = nullptr;
};

// Plans each group of pieces. Returns true if any group uses kernels.
bool plan_pieces(const batch_site &site, const grouped_pieces &pieces, batch_plan (&plans)[piece_groups]) noexcept;

// Chooses the boxes that kernels copy, and the number of blocks. The other boxes use calls. A box for which a separate
// kernel would be faster joins such boxes of the same source and group. Of the remaining boxes of a source and group,
// kernels copy all or none. Returns true if kernels copy any box.
// `takes_kernel_alone` returns whether a single copy of this shape would use a kernel.
bool plan_boxes(const batch_site &site, growing<batch_box> &boxes, box_launch (&launches)[box_sources][piece_groups],
                function_ref<bool(const shape &)> takes_kernel_alone) noexcept;

} // namespace ferry
