// Arrays created by ferry, one of every kind and texel size, each with a copy of its bytes on the CPU.
#pragma once

#include <algorithm>
#include <random>

#include "ferry/ferry_memory.h"
#include "support/raw_objects.h"

namespace ferry::test {

struct texel {
    std::uint32_t size, channels;
    std::int32_t format;
};
inline constexpr texel texels[] = {{1, 1, FERRY_FORMAT_UINT8},
                                   {2, 1, FERRY_FORMAT_HALF},
                                   {4, 1, FERRY_FORMAT_FLOAT},
                                   {8, 2, FERRY_FORMAT_SINT32},
                                   {16, 4, FERRY_FORMAT_FLOAT}};

struct array_kind {
    const char *name;
    std::uint64_t width, height, depth; // texels, rows, slices
    std::uint32_t flags;
    std::uint32_t levels = 0; // nonzero: a mipmapped array with this many levels; the test uses the last
};
inline constexpr array_kind array_kinds[] = {
    {"1D", 300, 0, 0, 0},
    {"2D", 70, 33, 0, 0},
    {"3D", 37, 20, 9, 0},
    {"layers of 1D", 90, 0, 7, FERRY_ARRAY_LAYERED},
    {"layers of 2D", 40, 30, 5, FERRY_ARRAY_LAYERED},
    {"cube", 32, 32, 6, FERRY_ARRAY_CUBEMAP},
    {"layers of cubes", 16, 16, 12, FERRY_ARRAY_CUBEMAP | FERRY_ARRAY_LAYERED},
    {"level of 2D", 140, 66, 0, 0, 2},
    {"level of 3D", 74, 40, 18, 0, 3},
    {"level of layers", 80, 60, 5, FERRY_ARRAY_LAYERED, 2},
};

class ferry_array {
public:
    ferry_array(ferry_instance *instance, const array_kind &kind, const texel &texel,
                std::uint32_t flags = FERRY_ARRAY_SURFACE, int device = 0)
        : instance_(instance) {
        ferry_array_desc desc = {.struct_size = sizeof desc,
                                 .format = texel.format,
                                 .channels = texel.channels,
                                 .flags = kind.flags | flags,
                                 .width = kind.width,
                                 .height = kind.height,
                                 .depth = kind.depth};
        if (kind.levels) {
            EXPECT_OK(ferry_mipmapped_array_create(instance, device, &desc, kind.levels, &mipmapped_, nullptr));
            EXPECT_OK(ferry_mipmapped_array_get_level(instance, mipmapped_, kind.levels - 1, &array_, nullptr));
        } else {
            EXPECT_OK(ferry_array_create(instance, device, &desc, &array_, nullptr));
        }
        const auto of_level = [&](std::uint64_t side) {
            return kind.levels ? std::max<std::uint64_t>(side >> (kind.levels - 1), side != 0) : side;
        };
        const bool is_layered = kind.flags & (FERRY_ARRAY_LAYERED | FERRY_ARRAY_CUBEMAP);
        row_bytes = of_level(kind.width) * texel.size;
        rows = std::max<std::uint64_t>(of_level(kind.height), 1);
        slices = std::max<std::uint64_t>(is_layered ? kind.depth : of_level(kind.depth), 1);
    }
    ~ferry_array() { destroy(); }
    ferry_array(const ferry_array &) = delete;

    void destroy() { EXPECT_OK(try_to_destroy()); }
    std::int32_t try_to_destroy() {
        const std::int32_t status = mipmapped_ ? ferry_mipmapped_array_destroy(instance_, mipmapped_, nullptr)
                                               : ferry_array_destroy(instance_, array_, nullptr);
        if (status) return status;
        mipmapped_ = nullptr;
        array_ = nullptr;
        return status;
    }
    // For use after the instance was closed: the driver destroys what the instance has left.
    void destroy_by_the_driver() {
        if (mipmapped_)
            EXPECT_OK(raw().cuMipmappedArrayDestroy(mipmapped_));
        else
            EXPECT_OK(raw().cuArrayDestroy(array_));
        mipmapped_ = nullptr;
        array_ = nullptr;
    }

    void fill(std::uint64_t seed) {
        std::mt19937_64 random(seed);
        picture.resize(row_bytes * rows * slices);
        for (std::byte &one : picture)
            one = static_cast<std::byte>(random());
        CUDA_MEMCPY3D call = {};
        call.srcMemoryType = CU_MEMORYTYPE_HOST;
        call.srcHost = picture.data();
        call.srcPitch = call.WidthInBytes = row_bytes;
        call.srcHeight = call.Height = rows;
        call.dstMemoryType = CU_MEMORYTYPE_ARRAY;
        call.dstArray = array_;
        call.Depth = slices;
        EXPECT_OK(raw().cuMemcpy3D(&call));
        EXPECT_OK(raw().cuCtxSynchronize());
    }
    CUarray array() const { return array_; }
    CUmipmappedArray mipmapped() const { return mipmapped_; }

    std::uint64_t row_bytes = 0, rows = 0, slices = 0;
    bytes picture;

private:
    ferry_instance *instance_;
    CUarray array_ = nullptr;
    CUmipmappedArray mipmapped_ = nullptr;
};

} // namespace ferry::test
