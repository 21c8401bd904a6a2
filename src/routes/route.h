// A route is one way to move a copy. Each route has its own file in this folder and a line in FERRY_ROUTES
// (base/route_kind.h). The file defines how the route is chosen and how it runs.
#pragma once

#include <optional>

#include "exec/graph_target.h"
#include "exec/kernel_view.h"
#include "plan/facts.h"
#include "plan/predict.h"
#include "routes/machine.h"
#include "routes/read_block.h"

namespace ferry {

// A copy, or a part of a copy, whose route is chosen. It is executed or explained, and contains everything that either
// needs.
struct copy_step {
    ferry::shape shape;
    call_facts call;
    copy_plan plan;
    kernel_views views; // set where the route has a kernel
};

// Where a step is enqueued. The stream's context must be current. Unless `taken` is null, run_step stores the route
// that the copy used there. If several parts used different routes, it stores the highest number.
struct copy_site {
    CUcontext context;
    CUstream stream;
    route_kind *taken = nullptr;
    graph_target *node = nullptr; // if not null, the copy becomes this node, and there is no stream
    std::uint64_t index = 0;      // of a copy with a file in its batch: reported if the file fails
    read_block *reads = nullptr;  // if not null, the copies of the call share it in the route BUFFERED
};

inline bool is_obstacle(obstacle why) noexcept { return why != obstacle::none; }

// Whether an error reports that nothing is free, or that something would have to be created first.
inline bool lacks_room(const error &failed) noexcept {
    return failed.status == FERRY_ERROR_LIMIT || failed.status == FERRY_ERROR_WOULD_BLOCK;
}
// Whether an error reports that a resource is exhausted. Another route may still serve.
inline bool lacks_memory(const error &failed) noexcept {
    return failed.status == FERRY_ERROR_OUT_OF_MEMORY || failed.status == to_status(CUDA_ERROR_OUT_OF_MEMORY) ||
           lacks_room(failed);
}

struct prediction {
    double ns; // from the call until the copy is complete; 0: unknown
    std::uint16_t blocks;
    bool by_copies;         // of the staged route
    std::uint64_t delay_ns; // the part of `ns` that is due to recent delays
};

struct route;

// A copy whose route is to be chosen. Caches values that several rules compute.
class copy_question {
public:
    copy_question(const ferry::shape &shape, const plan_facts &facts) noexcept : shape(shape), facts(facts) {}
    copy_question(const copy_question &) = delete;
    copy_question &operator=(const copy_question &) = delete;

    const ferry::shape &shape;
    const plan_facts &facts;

    // Why the times of the routes cannot be predicted.
    obstacle why_not_predicted() const noexcept;
    // The members below require a profile.
    struct speeds {
        copy_direction direction;
        const direction_profile *profile; // of the direction
        row_profile rows;
    };
    const speeds &rates() const noexcept;
    const prediction &predicted(const route &by) const noexcept;
    // Whether the route is predicted to be faster than the driver by kernel_margin.
    bool is_faster(const route &by) const noexcept;
    bool would_be_staged_if_awake() const noexcept; // apart from obstacles

private:
    mutable std::optional<speeds> rates_;
    mutable prediction predicted_[route_count + 1]; // by route_kind
    mutable std::uint16_t known_ = 0;               // bit k: the prediction of route_kind k
    static_assert(route_count < 16);
};

// How a route that can serve a copy compares with the driver route, if the route has its own rule.
struct preference {
    bool is_taken = false;
    std::uint8_t reason = FERRY_REASON_NONE;
};

struct route {
    route_kind kind;
    // Why the route cannot serve the copy, according to the facts. Pure.
    obstacle (*why_not)(const copy_question &) noexcept;
    // Predicts the time of the copy. Pure. Null: the time is not predicted.
    prediction (*predict)(const copy_question &) noexcept;
    // Enqueues the step. Unless `progress` is null, reports the progress of the copy there.
    error (*run)(machine &, const copy_step &, const copy_site &, staged_progress *progress) noexcept;

    // All members below have defaults.

    // The driver route can serve if `run` fails because memory, slots or streams are exhausted.
    bool may_fall_back = false;
    // No other route is considered if this route is chosen.
    bool is_final = false;
    // A copy on the route can become part of a graph. False: the route uses ferry's internal streams.
    bool may_be_captured = true;
    // The kernels are loaded, and both ends are looked up for them, before the route is chosen. `why_not` is then
    // evaluated again.
    bool needs_views = false;
    // Queries the driver for facts that only the rules of this route need, and stores them in `facts`. Called before any
    // route is chosen or explained, if `needs_look_up` returns true for the copy. `needs_look_up` is pure.
    bool (*needs_look_up)(const ferry::shape &, const call_facts &) noexcept = nullptr;
    error (*look_up)(machine &, const ferry::shape &, CUcontext, plan_facts &) noexcept = nullptr;
    // Whether the route is chosen if it can serve. Pure. Null: if it is predicted to be faster than the driver.
    preference (*prefer)(const copy_question &) noexcept = nullptr;
    // Sets the parameters of a plan that already has the route and `synchronise_after`. Pure.
    void (*plan)(const copy_question &, copy_plan &) noexcept = nullptr;
    // Provides the resources of the route after it was ranked first. If that fails, returns the obstacle, and the next
    // route serves.
    obstacle (*prepare)(machine &, const ferry::shape &, plan_facts &) noexcept = nullptr;

    // The explanation of a copy: the driver call that the step makes, the route's own fields, and the member that contains
    // the obstacle.
    const char *(*call_name)(const copy_step &) noexcept;
    void (*explain)(const machine &, const copy_step &, ferry_explanation &) noexcept = nullptr;
    std::int32_t ferry_explanation::*obstacle_field = nullptr;
};

#define FERRY_ROUTE(name, ...) extern const route name##_route;
FERRY_ROUTES(FERRY_ROUTE)
#undef FERRY_ROUTE

// In the order of preference.
constexpr const route *all_routes[] = {
#define FERRY_ROUTE(name, ...) &name##_route,
    FERRY_ROUTES(FERRY_ROUTE)
#undef FERRY_ROUTE
};

// Null for `none`, and for values that are not a route.
inline const route *find_route(route_kind kind) noexcept {
    switch (kind) {
#define FERRY_ROUTE(name, ...)                                                                                         \
    case route_kind::name:                                                                                             \
        return &name##_route;
        FERRY_ROUTES(FERRY_ROUTE)
#undef FERRY_ROUTE
    default:
        return nullptr;
    }
}

inline constexpr char launch_call[] = "cuLaunchKernel";

} // namespace ferry
