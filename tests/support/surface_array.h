// Arrays of every form that kernels read through surfaces.
#pragma once

#include <algorithm>

#include "plan/kernel_arrays.h"
#include "support/raw_objects.h"

namespace ferry::test {

struct array_kind {
    const char *name;
    CUDA_ARRAY3D_DESCRIPTOR descriptor;
};
inline constexpr unsigned for_surfaces = CUDA_ARRAY3D_SURFACE_LDST;
inline constexpr array_kind array_kinds[] = {
    {"1D, 1 byte", {1000, 0, 0, CU_AD_FORMAT_UNSIGNED_INT8, 1, for_surfaces}},
    {"1D, 16 bytes", {300, 0, 0, CU_AD_FORMAT_FLOAT, 4, for_surfaces}},
    {"2D, 2 bytes", {130, 70, 0, CU_AD_FORMAT_UNSIGNED_INT16, 1, for_surfaces}},
    {"2D, 8 bytes", {64, 33, 0, CU_AD_FORMAT_SIGNED_INT32, 2, for_surfaces}},
    {"3D, 4 bytes", {48, 20, 10, CU_AD_FORMAT_FLOAT, 1, for_surfaces}},
    {"3D, 1 byte", {37, 11, 5, CU_AD_FORMAT_SIGNED_INT8, 1, for_surfaces}},
    {"1D layers", {200, 0, 7, CU_AD_FORMAT_FLOAT, 1, for_surfaces | CUDA_ARRAY3D_LAYERED}},
    {"2D layers", {40, 30, 6, CU_AD_FORMAT_HALF, 4, for_surfaces | CUDA_ARRAY3D_LAYERED}},
    {"cube", {32, 32, 6, CU_AD_FORMAT_UNSIGNED_INT8, 4, for_surfaces | CUDA_ARRAY3D_CUBEMAP}},
};

// An array with a surface, and a copy of its bytes on the CPU.
struct test_array {
    explicit test_array(const CUDA_ARRAY3D_DESCRIPTOR &descriptor, std::uint64_t seed) : of(descriptor) {
        EXPECT_OK(raw().cuArray3DCreate(&array, &of));
        const bool is_layered = of.Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP);
        form = array_form_of(of.Height, of.Depth, is_layered);
        row_bytes = of.Width * of.NumChannels * bytes_of_channel();
        rows = std::max<std::uint64_t>(of.Height, 1);
        slices = std::max<std::uint64_t>(of.Depth, 1);
        picture = random_bytes(row_bytes * rows * slices, seed);
        write_picture();
        CUDA_RESOURCE_DESC resource = {};
        resource.resType = CU_RESOURCE_TYPE_ARRAY;
        resource.res.array.hArray = array;
        EXPECT_OK(raw().cuSurfObjectCreate(&surface, &resource));
    }
    ~test_array() {
        EXPECT_OK(raw().cuSurfObjectDestroy(surface));
        EXPECT_OK(raw().cuArrayDestroy(array));
    }
    test_array(const test_array &) = delete;

    CUDA_MEMCPY3D whole() const {
        CUDA_MEMCPY3D copy = {};
        copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_HOST;
        copy.srcPitch = copy.dstPitch = row_bytes;
        copy.srcHeight = copy.dstHeight = rows;
        copy.WidthInBytes = row_bytes;
        copy.Height = rows;
        copy.Depth = slices;
        return copy;
    }
    void write_picture() const {
        CUDA_MEMCPY3D fill = whole();
        fill.srcHost = picture.data();
        fill.dstMemoryType = CU_MEMORYTYPE_ARRAY;
        fill.dstArray = array;
        EXPECT_OK(raw().cuMemcpy3D(&fill));
        EXPECT_OK(raw().cuCtxSynchronize());
    }
    bytes read() const {
        bytes found(picture.size());
        CUDA_MEMCPY3D fetch = whole();
        fetch.srcMemoryType = CU_MEMORYTYPE_ARRAY;
        fetch.srcArray = array;
        fetch.dstHost = found.data();
        EXPECT_OK(raw().cuMemcpy3D(&fetch));
        return found;
    }

    std::uint64_t bytes_of_channel() const {
        switch (of.Format) {
        case CU_AD_FORMAT_UNSIGNED_INT8:
        case CU_AD_FORMAT_SIGNED_INT8:
            return 1;
        case CU_AD_FORMAT_UNSIGNED_INT16:
        case CU_AD_FORMAT_HALF:
            return 2;
        default:
            return 4;
        }
    }

    CUDA_ARRAY3D_DESCRIPTOR of;
    CUarray array = nullptr;
    CUsurfObject surface = 0;
    gpu::array_form form{};
    std::uint64_t row_bytes = 0, rows = 0, slices = 0;
    bytes picture;
};

} // namespace ferry::test
