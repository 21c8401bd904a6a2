#include "memory/arrays.h"

#include "driver/formats.h"
#include "driver/result.h"

namespace ferry {

namespace {

// Other flags are rejected: copies into sparse arrays, and into arrays with deferred mapping, kill the context
// (CUDA_ERROR_LAUNCH_FAILED, seen on CUDA 13.0).
constexpr std::uint32_t known_flags =
    FERRY_ARRAY_LAYERED | FERRY_ARRAY_SURFACE | FERRY_ARRAY_CUBEMAP | FERRY_ARRAY_TEXTURE_GATHER | FERRY_ARRAY_VIDEO;
static_assert(FERRY_ARRAY_LAYERED == CUDA_ARRAY3D_LAYERED && FERRY_ARRAY_SURFACE == CUDA_ARRAY3D_SURFACE_LDST &&
              FERRY_ARRAY_CUBEMAP == CUDA_ARRAY3D_CUBEMAP &&
              FERRY_ARRAY_TEXTURE_GATHER == CUDA_ARRAY3D_TEXTURE_GATHER &&
              FERRY_ARRAY_VIDEO == CUDA_ARRAY3D_VIDEO_ENCODE_DECODE);

error lower(const ferry_array_desc &desc, CUDA_ARRAY3D_DESCRIPTOR &call, std::uint32_t more_flags = 0) noexcept {
    if (desc.flags & ~(known_flags | more_flags))
        return refuse(FERRY_ERROR_FLAGS, FERRY_SIDE_OPTIONS, FERRY_FIELD_FLAGS, numbers::bits, known_flags | more_flags,
                      desc.flags);
    if (!desc.width) return refuse_option(FERRY_ERROR_INVALID_ARGUMENT, FERRY_FIELD_WIDTH, numbers::at_least, 1, 0);
    call = {};
    call.Width = desc.width;
    call.Height = desc.height;
    call.Depth = desc.depth;
    call.Format = static_cast<CUarray_format>(desc.format);
    call.NumChannels = desc.channels;
    call.Flags = desc.flags;
    return {};
}

// The driver validates formats, because newer drivers support more of them. It returns the same status for an invalid
// format and an invalid size.
error explain_refusal(const CUDA_ARRAY3D_DESCRIPTOR &call, status_code status) noexcept {
    const bool has_elements = elements_of(call).size != 0 || find_format(planar_formats, call.Format);
    if (status != to_status(CUDA_ERROR_INVALID_VALUE) || has_elements) return {.status = status};
    return replace(
        status, find_format(array_formats, call.Format)
                    ? refuse_option(FERRY_ERROR_ARRAY_FORMAT, FERRY_FIELD_CHANNELS, numbers::power, 4, call.NumChannels)
                    : refuse_option(FERRY_ERROR_ARRAY_FORMAT, FERRY_FIELD_FORMAT, numbers::value, 0, call.Format));
}

} // namespace

namespace {

std::uint64_t bytes_of(const CUDA_ARRAY3D_DESCRIPTOR &array) noexcept {
    const planar_format *const planar = find_format(planar_formats, array.Format);
    if (!planar) {
        const array_elements elements = elements_of(array);
        return elements.size * elements.across * elements.down * elements.deep;
    }
    // One plane of luma, and two channels of chroma in the other planes.
    const auto reduced = [](std::size_t size, std::size_t by) { return (size + by - 1) / by; };
    const std::uint64_t colour = reduced(array.Width, planar->across) * reduced(array.Height, planar->down);
    return find_format(array_formats, planar->plane_format)->bytes * (array.Width * array.Height + 2 * colour);
}

} // namespace

std::uint64_t array_bytes(const ferry_array_desc &desc, std::uint32_t levels) noexcept {
    CUDA_ARRAY3D_DESCRIPTOR level;
    if (lower(desc, level, FERRY_ARRAY_COLOR_ATTACHMENT)) return 0;
    const bool has_layers = desc.flags & (FERRY_ARRAY_LAYERED | FERRY_ARRAY_CUBEMAP);
    std::uint64_t bytes = 0;
    for (std::uint32_t i = 0; i < (levels ? levels : UINT32_MAX); ++i) {
        bytes += bytes_of(level);
        if (level.Width <= 1 && level.Height <= 1 && (has_layers || level.Depth <= 1)) break;
        const auto halve = [](std::size_t &side) noexcept { side = side > 1 ? side / 2 : side; };
        halve(level.Width);
        halve(level.Height);
        if (!has_layers) halve(level.Depth);
    }
    return bytes;
}

error create_array(const driver_table &cu, const ferry_array_desc &desc, CUarray &array) noexcept {
    CUDA_ARRAY3D_DESCRIPTOR call;
    if (error failed = lower(desc, call)) return failed;
    return explain_refusal(call, to_status(cu.cuArray3DCreate(&array, &call)));
}

error create_mipmapped_array(const driver_table &cu, const ferry_array_desc &desc, std::uint32_t levels,
                             CUmipmappedArray &mipmapped) noexcept {
    CUDA_ARRAY3D_DESCRIPTOR call;
    if (error failed = lower(desc, call)) return failed;
    constexpr std::uint32_t more_than_any = 32; // the driver creates as many as possible; 0 would create one
    return explain_refusal(
        call, call_optional(cu.cuMipmappedArrayCreate, &mipmapped, &call, levels ? levels : more_than_any));
}

error map_mipmapped_array(const driver_table &cu, CUexternalMemory memory, std::uint64_t offset,
                          const ferry_array_desc &desc, std::uint32_t levels, CUmipmappedArray &mipmapped) noexcept {
    CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC call = {};
    if (error failed = lower(desc, call.arrayDesc, FERRY_ARRAY_COLOR_ATTACHMENT)) return failed;
    call.offset = offset;
    call.numLevels = levels;
    return explain_refusal(call.arrayDesc,
                           call_optional(cu.cuExternalMemoryGetMappedMipmappedArray, &mipmapped, memory, &call));
}

error describe_array(const driver_table &cu, CUarray array, ferry_array_desc &desc,
                     std::uint32_t &bytes_per_element) noexcept {
    CUDA_ARRAY3D_DESCRIPTOR call = {};
    if (call_result result = cu.cuArray3DGetDescriptor(&call, array)) return to_error(result);
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
