// The ends of a copy as seen by kernels of the current context: whether they can access each end, and at which address.
#pragma once

#include "base/obstacle.h"
#include "copy/shape.h"
#include "memory/surfaces.h"
#include "plan/kernel_arrays.h"

namespace ferry {

// One end of a copy as seen by kernels of the current context.
struct kernel_view {
    obstacle why_not = obstacle::not_known; // managed: kernels can access the end, which may reside anywhere
    std::uint64_t address = 0;              // device address of the first byte
    std::uint64_t surface = 0;              // for an array end
    gpu::array_form form{};
};

// Returns the view of linear memory. `facts` must come from address_query::everything_and_access. `context` is the
// current context, on `context_device`.
enum class access { read, write };
kernel_view view_of(const address_facts &facts, const address_span &span, access wanted, CUcontext context,
                    int context_device) noexcept;
// Returns the view of an array, and creates its surface if necessary. `why_not` is none only if the array has a
// surface.
kernel_view view_of(array_surfaces &surfaces, CUarray array, CUcontext context) noexcept;

struct kernel_views {
    kernel_view source, destination;
};

// Returns the box of a copy from an array.
kernel_array_box array_box_of(const shape &shape, const kernel_views &views) noexcept;

} // namespace ferry
