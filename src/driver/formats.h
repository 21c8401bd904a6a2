// The formats of CUDA arrays, as observed on CUDA 13.0 (docs/driver.md): formats whose elements have a size (plain
// texels, compressed blocks of 4 × 4 texels, packed video), and planar video formats, which are copied plane by plane.
#pragma once

#include <cstddef>
#include <cstdint>

#include "driver/cuda_api.h"

namespace ferry {

struct array_format {
    CUarray_format name;
    std::uint8_t bytes;    // per element; per channel where the number of channels varies
    std::uint8_t channels; // the only permitted number; 0: 1, 2 or 4
    std::uint8_t side;     // an element covers side × side texels
    bool is_video = false; // only in arrays with CUDA_ARRAY3D_VIDEO_ENCODE_DECODE
};

inline constexpr array_format array_formats[] = {
    {CU_AD_FORMAT_UNSIGNED_INT8, 1, 0, 1},
    {CU_AD_FORMAT_UNSIGNED_INT16, 2, 0, 1},
    {CU_AD_FORMAT_UNSIGNED_INT32, 4, 0, 1},
    {CU_AD_FORMAT_SIGNED_INT8, 1, 0, 1},
    {CU_AD_FORMAT_SIGNED_INT16, 2, 0, 1},
    {CU_AD_FORMAT_SIGNED_INT32, 4, 0, 1},
    {CU_AD_FORMAT_HALF, 2, 0, 1},
    {CU_AD_FORMAT_FLOAT, 4, 0, 1},
    {CU_AD_FORMAT_UNORM_INT8X1, 1, 1, 1},
    {CU_AD_FORMAT_UNORM_INT8X2, 2, 2, 1},
    {CU_AD_FORMAT_UNORM_INT8X4, 4, 4, 1},
    {CU_AD_FORMAT_UNORM_INT16X1, 2, 1, 1},
    {CU_AD_FORMAT_UNORM_INT16X2, 4, 2, 1},
    {CU_AD_FORMAT_UNORM_INT16X4, 8, 4, 1},
    {CU_AD_FORMAT_SNORM_INT8X1, 1, 1, 1},
    {CU_AD_FORMAT_SNORM_INT8X2, 2, 2, 1},
    {CU_AD_FORMAT_SNORM_INT8X4, 4, 4, 1},
    {CU_AD_FORMAT_SNORM_INT16X1, 2, 1, 1},
    {CU_AD_FORMAT_SNORM_INT16X2, 4, 2, 1},
    {CU_AD_FORMAT_SNORM_INT16X4, 8, 4, 1},
    {CU_AD_FORMAT_UNORM_INT_101010_2, 4, 4, 1},
    {CU_AD_FORMAT_BC1_UNORM, 8, 4, 4},
    {CU_AD_FORMAT_BC1_UNORM_SRGB, 8, 4, 4},
    {CU_AD_FORMAT_BC2_UNORM, 16, 4, 4},
    {CU_AD_FORMAT_BC2_UNORM_SRGB, 16, 4, 4},
    {CU_AD_FORMAT_BC3_UNORM, 16, 4, 4},
    {CU_AD_FORMAT_BC3_UNORM_SRGB, 16, 4, 4},
    {CU_AD_FORMAT_BC4_UNORM, 8, 1, 4},
    {CU_AD_FORMAT_BC4_SNORM, 8, 1, 4},
    {CU_AD_FORMAT_BC5_UNORM, 16, 2, 4},
    {CU_AD_FORMAT_BC5_SNORM, 16, 2, 4},
    {CU_AD_FORMAT_BC6H_UF16, 16, 3, 4},
    {CU_AD_FORMAT_BC6H_SF16, 16, 3, 4},
    {CU_AD_FORMAT_BC7_UNORM, 16, 4, 4},
    {CU_AD_FORMAT_BC7_UNORM_SRGB, 16, 4, 4},
    {CU_AD_FORMAT_YUY2, 4, 4, 1, true},
    {CU_AD_FORMAT_Y210, 4, 2, 1, true},
    {CU_AD_FORMAT_Y216, 4, 2, 1, true},
    {CU_AD_FORMAT_AYUV, 4, 4, 1, true},
    {CU_AD_FORMAT_Y410, 4, 1, 1, true},
    {CU_AD_FORMAT_Y416, 8, 4, 1, true},
};

// Video formats with three channels. An array of such a format has no elements of its own, but its planes have.
struct planar_format {
    CUarray_format name;
    CUarray_format plane_format;
    std::uint8_t planes;       // 3: one channel per plane; 2: the second plane has two channels
    std::uint8_t across, down; // texels of the first plane per texel of the other planes
};

inline constexpr planar_format planar_formats[] = {
    {CU_AD_FORMAT_NV12, CU_AD_FORMAT_UNSIGNED_INT8, 2, 2, 2},
    {CU_AD_FORMAT_P010, CU_AD_FORMAT_UNSIGNED_INT16, 2, 2, 2},
    {CU_AD_FORMAT_P016, CU_AD_FORMAT_UNSIGNED_INT16, 2, 2, 2},
    {CU_AD_FORMAT_NV16, CU_AD_FORMAT_UNSIGNED_INT8, 2, 2, 1},
    {CU_AD_FORMAT_P210, CU_AD_FORMAT_UNSIGNED_INT16, 2, 2, 1},
    {CU_AD_FORMAT_P216, CU_AD_FORMAT_UNSIGNED_INT16, 2, 2, 1},
    {CU_AD_FORMAT_YUV444_8bit_SemiPlanar, CU_AD_FORMAT_UNSIGNED_INT8, 2, 1, 1},
    {CU_AD_FORMAT_YUV444_16bit_SemiPlanar, CU_AD_FORMAT_UNSIGNED_INT16, 2, 1, 1},
    {CU_AD_FORMAT_Y444_PLANAR8, CU_AD_FORMAT_UNSIGNED_INT8, 3, 1, 1},
    {CU_AD_FORMAT_Y444_PLANAR10, CU_AD_FORMAT_UNSIGNED_INT16, 3, 1, 1},
};

template <class Format, std::size_t count>
constexpr const Format *find_format(const Format (&among)[count], CUarray_format name) noexcept {
    for (const Format &format : among)
        if (format.name == name) return &format;
    return nullptr;
}

// The elements of an array in the units of a copy: the size of an element, and the number of elements in each
// dimension.
struct array_elements {
    std::uint32_t size = 0; // 0: this format or number of channels has no elements
    std::uint64_t across = 0, down = 1, deep = 1;
};

inline array_elements elements_of(const CUDA_ARRAY3D_DESCRIPTOR &array) noexcept {
    const array_format *const format = find_format(array_formats, array.Format);
    if (!format) return {};
    const unsigned channels = array.NumChannels;
    const bool is_allowed =
        format->channels ? channels == format->channels : channels == 1 || channels == 2 || channels == 4;
    if (!is_allowed) return {};
    const auto blocks = [&](std::size_t texels) { return (texels + format->side - 1) / format->side; };
    return {format->channels ? format->bytes : format->bytes * channels, blocks(array.Width),
            array.Height ? blocks(array.Height) : 1, array.Depth ? array.Depth : 1};
}

} // namespace ferry
