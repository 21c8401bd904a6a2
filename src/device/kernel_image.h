// The kernels as the driver takes them: PTX, or native code for some GPUs and the PTX for the others.
#pragma once

namespace ferry {

extern const char kernel_image[];

} // namespace ferry
