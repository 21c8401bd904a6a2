#include "memory/arrays.h"

#include <initializer_list>

#include "base/checked.h"
#include "base/rounding.h"
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

error refuse_format(const CUDA_ARRAY3D_DESCRIPTOR &array) noexcept {
    return find_format(array_formats, array.Format)
               ? refuse_option(FERRY_ERROR_ARRAY_FORMAT, FERRY_FIELD_CHANNELS, numbers::power, 4, array.NumChannels)
               : refuse_option(FERRY_ERROR_ARRAY_FORMAT, FERRY_FIELD_FORMAT, numbers::value, 0, array.Format);
}

// The driver validates formats, because newer drivers support more of them. It returns the same status for an invalid
// format and an invalid size.
error explain_refusal(const CUDA_ARRAY3D_DESCRIPTOR &call, status_code status) noexcept {
    const bool has_elements = elements_of(call).size != 0 || find_format(planar_formats, call.Format);
    if (status != to_status(CUDA_ERROR_INVALID_VALUE) || has_elements) return {.status = status};
    return replace(status, refuse_format(call));
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

// Replaces a level by the next one. Returns false at the last level.
bool halve(CUDA_ARRAY3D_DESCRIPTOR &level) noexcept {
    const bool has_layers = level.Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP);
    if (level.Width <= 1 && level.Height <= 1 && (has_layers || level.Depth <= 1)) return false;
    const auto halve_side = [](std::size_t &side) noexcept { side = side > 1 ? side / 2 : side; };
    halve_side(level.Width);
    halve_side(level.Height);
    if (!has_layers) halve_side(level.Depth);
    return true;
}

// Validates what the driver otherwise would, except for the sizes that a device supports.
error check_shape(const CUDA_ARRAY3D_DESCRIPTOR &array) noexcept {
    const bool is_layered = array.Flags & CUDA_ARRAY3D_LAYERED, is_cubemap = array.Flags & CUDA_ARRAY3D_CUBEMAP;
    const auto refuse_side = [](std::int32_t field, numbers given, std::uint64_t limit, std::uint64_t value) noexcept {
        return refuse_option(FERRY_ERROR_INVALID_ARGUMENT, field, given, limit, value);
    };
    if (find_format(planar_formats, array.Format))
        return refuse_option(FERRY_ERROR_UNSUPPORTED, FERRY_FIELD_FORMAT, numbers::value, 0, array.Format);
    if (!elements_of(array).size) return refuse_format(array);
    const struct {
        std::int32_t field;
        std::size_t texels;
    } sides[] = {
        {FERRY_FIELD_WIDTH, array.Width}, {FERRY_FIELD_HEIGHT, array.Height}, {FERRY_FIELD_DEPTH, array.Depth}};
    for (const auto &side : sides)
        if (side.texels > UINT32_MAX) return refuse_side(side.field, numbers::at_most, UINT32_MAX, side.texels);
    const bool is_compressed = find_format(array_formats, array.Format)->side > 1;
    if (!array.Height && (is_compressed || is_cubemap || (array.Depth && !is_layered)))
        return refuse_side(FERRY_FIELD_HEIGHT, numbers::at_least, 1, 0);
    if (is_cubemap && array.Height != array.Width)
        return refuse_side(FERRY_FIELD_HEIGHT, numbers::equal, array.Width, array.Height);
    if (is_layered && !array.Depth) return refuse_side(FERRY_FIELD_DEPTH, numbers::at_least, is_cubemap ? 6 : 1, 0);
    if (is_cubemap && !is_layered && array.Depth != 6)
        return refuse_side(FERRY_FIELD_DEPTH, numbers::equal, 6, array.Depth);
    if (is_cubemap && array.Depth % 6 != 0) return refuse_side(FERRY_FIELD_DEPTH, numbers::multiple, 6, array.Depth);
    return {};
}

// Each side has at most 32 bits, and so has the alignment: a row pitch fits 64 bits.
error lay_out_level(const CUDA_ARRAY3D_DESCRIPTOR &level, std::uint64_t row_alignment,
                    ferry_level_footprint &footprint) noexcept {
    const array_elements elements = elements_of(level);
    footprint.width = elements.across * elements.size;
    footprint.height = footprint.slice_height = elements.down;
    footprint.depth = elements.deep;
    footprint.row_pitch = round_up(footprint.width, row_alignment);
    const std::uint64_t max_rows = UINT64_MAX / footprint.row_pitch;
    if (elements.down > max_rows)
        return refuse_option(FERRY_ERROR_OVERFLOW, FERRY_FIELD_HEIGHT, numbers::at_most, max_rows, elements.down);
    if (elements.deep > max_rows / elements.down)
        return refuse_option(FERRY_ERROR_OVERFLOW, FERRY_FIELD_DEPTH, numbers::at_most, max_rows / elements.down,
                             elements.deep);
    footprint.size = footprint.row_pitch * (elements.down * elements.deep - 1) + footprint.width;
    return {};
}

} // namespace

error lay_out_array(const ferry_array_desc &desc, std::uint32_t levels, std::uint64_t row_alignment,
                    std::uint64_t level_alignment, ferry_level_footprint *footprints, std::uint32_t &count,
                    std::uint64_t &size) noexcept {
    CUDA_ARRAY3D_DESCRIPTOR level;
    if (error failed = lower(desc, level, FERRY_ARRAY_COLOR_ATTACHMENT)) return failed;
    if (error failed = check_shape(level)) return failed;
    // The first pass only checks: a call that fails writes no footprint.
    const CUDA_ARRAY3D_DESCRIPTOR first = level;
    for (ferry_level_footprint *written : {static_cast<ferry_level_footprint *>(nullptr), footprints}) {
        level = first;
        count = 0;
        size = 0;
        do {
            ferry_level_footprint footprint = {};
            if (error failed = lay_out_level(level, row_alignment, footprint)) return failed;
            std::uint64_t last = 0; // the offset is the last multiple of the alignment up to here
            if (!add(size, level_alignment - 1, last) || !add(last - last % level_alignment, footprint.size, size))
                return refuse_value(FERRY_ERROR_OVERFLOW, FERRY_SIDE_NONE, FERRY_FIELD_LEVEL, count);
            footprint.offset = last - last % level_alignment;
            if (written) written[count] = footprint;
        } while (++count != levels && halve(level));
    }
    return {};
}

std::uint64_t array_bytes(const ferry_array_desc &desc, std::uint32_t levels) noexcept {
    CUDA_ARRAY3D_DESCRIPTOR level;
    if (lower(desc, level, FERRY_ARRAY_COLOR_ATTACHMENT)) return 0;
    std::uint64_t bytes = 0;
    do
        bytes += bytes_of(level);
    while (--levels != 0 && halve(level)); // for 0 levels, until halve() returns false
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
