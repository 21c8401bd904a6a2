// Declares the entry points of additions.inc, and the types of cuda.h that only they have.
#pragma once

#include "driver/cuda_api.h"

using CUctxCreateParams = struct CUctxCreateParams_st;
using CUexecAffinityParam = struct CUexecAffinityParam_st;
using CUgraphEdgeData = struct CUgraphEdgeData_st;
using CUgreenCtx = struct CUgreenCtx_st *;

namespace ferry::additions {

#define FERRY_DRIVER_SYMBOL(need, name, version, parameters) CUresult name parameters;
#include "additions.inc"
#undef FERRY_DRIVER_SYMBOL

} // namespace ferry::additions
