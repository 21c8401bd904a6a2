// Defines the kernels' entry points for the GPU. `tools/dev kernels` compiles this file into ferry_kernels.ptx.
#include "kernels/arrays.h"
#include "kernels/boxes.h"
#include "kernels/fills.h"
#include "kernels/links.h"
#include "kernels/nests.h"
#include "kernels/pieces.h"
#include "kernels/ring.h"

using namespace ferry::gpu;

#define FERRY_KERNEL(name, parameters, function)                                                                       \
    extern "C" __global__ void __launch_bounds__(threads_per_block, 2) ferry_##name(const parameters given) {             \
        function(given, {blockIdx.x, threadIdx.x, gridDim.x, blockDim.x});                                             \
    }
#include "kernels/list.inc"
#undef FERRY_KERNEL
