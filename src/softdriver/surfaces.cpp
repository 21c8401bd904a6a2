// Surface objects, through which kernels access arrays. The array must be created with CUDA_ARRAY3D_SURFACE_LDST. The
// driver does not check the flag when a surface object is created (CUDA 13.0); here, kernels do not find other
// surfaces.
#include "softdriver/entry.h"
#include "softdriver/state.h"

namespace ferry::softdriver {

CUresult cuSurfObjectCreate(CUsurfObject *made, const CUDA_RESOURCE_DESC *asked) {
    return enter_context([&](driver &cu, context &current) {
        require(made && asked && asked->resType == CU_RESOURCE_TYPE_ARRAY && asked->flags == 0);
        require(cu.arrays.find(asked->res.array.hArray), CUDA_ERROR_INVALID_HANDLE);
        *made = cu.surfaces.add(std::make_unique<surface>(surface{asked->res.array.hArray, current.handle}),
                                CUsurfObject{next_handle()});
    });
}

CUresult cuSurfObjectDestroy(CUsurfObject gone) {
    return enter_context([&](driver &cu, context &) { require(cu.surfaces.remove(gone)); });
}

} // namespace ferry::softdriver
