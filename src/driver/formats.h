// The formats of CUDA arrays whose elements have a size: plain texels, and blocks of 4 × 4 compressed ones.
#pragma once

#include <cstdint>

#include <cuda.h>

namespace ferry {

struct array_format {
    CUarray_format name;
    std::uint8_t bytes;    // of one element; of one of its channels where their number is free
    std::uint8_t channels; // the only number allowed; 0: 1, 2 or 4
    std::uint8_t side;     // an element holds side × side texels
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
};

// The elements of an array in the units of a copy: bytes of one, and how many there are across, down and deep.
struct array_elements {
    std::uint32_t size = 0; // 0: a format or a number of channels that has none
    std::uint64_t across = 0, down = 1, deep = 1;
};

inline array_elements elements_of(const CUDA_ARRAY3D_DESCRIPTOR &array) noexcept {
    for (const array_format &format : array_formats) {
        if (format.name != array.Format) continue;
        const unsigned channels = array.NumChannels;
        const bool is_allowed =
            format.channels ? channels == format.channels : channels == 1 || channels == 2 || channels == 4;
        if (!is_allowed) return {};
        const auto blocks = [&](std::size_t texels) { return (texels + format.side - 1) / format.side; };
        return {format.channels ? format.bytes : format.bytes * channels, blocks(array.Width),
                array.Height ? blocks(array.Height) : 1, array.Depth ? array.Depth : 1};
    }
    return {};
}

} // namespace ferry
