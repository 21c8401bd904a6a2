// Which route a shape takes, and how. Pure: the same shape and facts give the same plan.
#pragma once

#include "copy/shape.h"

namespace ferry {

enum class copy_form { synchronous, asynchronous };

enum class route_kind { driver = FERRY_ROUTE_DRIVER };

struct plan_facts {
    int context_device = -1; // the device of the context the copy runs in
    copy_form form = copy_form::synchronous;
    bool is_captured = false; // it becomes part of a graph
};

struct copy_plan {
    route_kind route = route_kind::driver;
    // Some end lies on another device than the context's: the driver checks addresses against the current context, so
    // the call must be the one that names each end's own (NVIDIA/cccl pull request 9997). Graphs do not take that call.
    bool names_contexts = false;
    // The driver's synchronous call returns before the bytes are there: after device to device, and after pageable host
    // to device, whose last piece may still be on its way (CUDA driver API, "API synchronization behavior").
    bool synchronise_after = false;
};

// What the caller of the driver route waits for: "API synchronization behavior" of the CUDA driver API, and CUDA 13.0
// as observed. Whether host memory is pageable must be known.
enum class blocking { no, until_staged, until_done };
blocking blocking_of(memory_kind source, memory_kind destination, copy_form form) noexcept;

copy_plan plan_copy(const shape &shape, const plan_facts &facts) noexcept;

} // namespace ferry
