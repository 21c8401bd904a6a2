// The ends of a copy as kernels of the current context see them: whether they reach each end, and at which address.
#pragma once

#include "base/obstacle.h"
#include "copy/shape.h"
#include "memory/surfaces.h"
#include "plan/kernel_arrays.h"

namespace ferry {

// One end of a copy as kernels of the current context see it.
struct kernel_view {
    obstacle why_not = obstacle::not_known; // managed: kernels reach the end, which may be anywhere
    std::uint64_t address = 0;              // of the first byte, on the device
    std::uint64_t surface = 0;              // of an array end
    gpu::array_form form{};
};

// Returns the view of linear memory. `facts` come from address_query::everything_and_access. `context` is the current one, on
// `context_device`.
enum class access { read, write };
kernel_view view_of(const address_facts &facts, const address_span &span, access wanted, CUcontext context,
                    int context_device) noexcept;
// Returns the view of an array, and makes its surface if need be. `why_not` is none only where the array has a surface.
kernel_view view_of(array_surfaces &surfaces, CUarray array, CUcontext context) noexcept;

struct kernel_views {
    kernel_view source, destination;
};

// Returns the box of a copy out of an array.
kernel_array_box array_box_of(const shape &shape, const kernel_views &views) noexcept;

} // namespace ferry
