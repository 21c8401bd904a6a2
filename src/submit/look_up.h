// Looks up the ends of a copy: their devices, their arrays, and the views of kernels.
#pragma once

#include "memory/resolve.h"
#include "routes/route.h"
#include "submit/instance.h"

namespace ferry {

// Finds the device of a place, for a thread without a current context: the stated device, or else the device that the
// driver reports. -1: none.
[[gnu::cold, gnu::noinline]] error find_device_of(const ferry_instance &instance, const ferry_place &place,
                                                  int &device) noexcept;

// Looks up the array ends.
[[gnu::noinline]] error look_up_arrays(const ferry_instance &instance, const ferry_copy_desc &copy,
                                       resolved_ends &ends) noexcept;

// Finds out which ends kernels can access, and at which address. For a copy of pageable memory, this refers to the
// staging kernel and the end on the device. Queries only what `ends` does not contain yet, and stores the results
// there. The copy's context, `context`, must be current.
error look_up_views(ferry_instance &instance, const shape &shape, resolved_ends &ends, CUcontext context,
                    plan_facts &facts, kernel_views &views) noexcept;

} // namespace ferry
