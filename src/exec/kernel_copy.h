// Copies by a kernel of the current context: checks that the kernel reaches both ends, and launches it.
#pragma once

#include "exec/kernel_launch.h"
#include "memory/surfaces.h"
#include "plan/plan.h"

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

// Launches the kernel. The plan's route must be the kernel route, kernels must reach both ends, and the destination
// must be linear.
[[gnu::noinline]] error run_kernel_copy(const driver_table &cu, kernel_set &kernels, const shape &shape,
                                        const copy_plan &plan, const kernel_views &views, CUstream stream) noexcept;

} // namespace ferry
