// One copy by a kernel of the current context: whether it reaches both ends, and the launch.
#pragma once

#include "exec/kernel_launch.h"
#include "memory/surfaces.h"
#include "plan/plan.h"

namespace ferry {

// An end of a copy as kernels of the current context see it.
struct kernel_view {
    obstacle why_not = obstacle::not_asked; // managed: they reach it, and it may be anywhere
    std::uint64_t address = 0;              // that the device has for its first byte
    std::uint64_t surface = 0;              // of an array
    kernels::array_form form{};
};

// Of linear memory, by what the driver answered, asked for everything and access. `context` is the current one, of
// `context_device`.
enum class access { read, write };
kernel_view view_of(const address_facts &facts, const address_span &span, access wanted, CUcontext context,
                    int context_device) noexcept;
// The same, and asks the driver.
error look_up_for_kernels(const driver_table &cu, const address_span &span, access wanted, CUcontext context,
                          int context_device, kernel_view &view) noexcept;

// Of an array that is a source: why_not is none only where it has a surface, which may be made now.
kernel_view look_up_for_kernels(array_surfaces &surfaces, CUarray array, CUcontext context) noexcept;

struct kernel_views {
    kernel_view source, destination;
};

// Out of an array.
kernel_array_box array_box_of(const shape &shape, const kernel_views &views) noexcept;

// The plan's route must be the kernel's. Both ends are reached, and the destination is linear.
[[gnu::noinline]] error run_kernel_copy(const driver_table &cu, kernel_set &kernels, const shape &shape,
                                        const copy_plan &plan, const kernel_views &views, CUstream stream) noexcept;

} // namespace ferry
