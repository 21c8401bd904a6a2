#include "memory/arrays.h"

#include "driver/formats.h"
#include "driver/result.h"

namespace ferry {

failure create_array(const driver_table &cu, const ferry_array_desc &desc, CUarray &array) noexcept {
    if (desc.flags & ~(FERRY_ARRAY_SURFACE | FERRY_ARRAY_TEXTURE_GATHER))
        return {FERRY_ERROR_FLAGS, FERRY_SIDE_NONE, FERRY_FIELD_FLAGS, 0, desc.flags};
    if (!desc.width) return {FERRY_ERROR_INVALID_ARGUMENT, FERRY_SIDE_NONE, FERRY_FIELD_WIDTH};
    static_assert(FERRY_ARRAY_SURFACE == CUDA_ARRAY3D_SURFACE_LDST);
    static_assert(FERRY_ARRAY_TEXTURE_GATHER == CUDA_ARRAY3D_TEXTURE_GATHER);
    CUDA_ARRAY3D_DESCRIPTOR call = {};
    call.Width = desc.width;
    call.Height = desc.height;
    call.Depth = desc.depth;
    call.Format = static_cast<CUarray_format>(desc.format);
    call.NumChannels = desc.channels;
    call.Flags = desc.flags;
    return to_failure(cu.cuArray3DCreate(&array, &call));
}

failure describe_array(const driver_table &cu, CUarray array, ferry_array_desc &desc,
                       std::uint32_t &bytes_per_element) noexcept {
    CUDA_ARRAY3D_DESCRIPTOR call = {};
    if (CUresult result = cu.cuArray3DGetDescriptor(&call, array)) return to_failure(result);
    desc = {};
    desc.format = static_cast<std::int32_t>(call.Format);
    desc.channels = call.NumChannels;
    desc.flags = call.Flags;
    desc.width = call.Width;
    desc.height = call.Height;
    desc.depth = call.Depth;
    bytes_per_element = elements_of(call).size;
    return {};
}

} // namespace ferry
