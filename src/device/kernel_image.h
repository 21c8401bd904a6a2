// The kernels in a form that the driver loads: PTX alone, or native code for some GPUs and PTX for the others.
#pragma once

namespace ferry {

extern const char kernel_image[];

} // namespace ferry
