// CUDA arrays and the tiled layout of their texels in device memory. The layout is intentionally opaque: code that
// treats an array as linear memory must fail here as it does on a GPU.
#pragma once

#include "softdriver/address_window.h"
#include "softdriver/heap.h"

#include <functional>
#include <memory>
#include <vector>

namespace ferry::softdriver {

struct context;

// A tile has 8 rows × 4 slices of 16-byte pieces. A dimension that the array lacks counts as 1. No texel crosses the
// border between pieces.
struct tiled_layout {
    CUdeviceptr storage = 0;
    std::size_t row_bytes = 0;
    std::size_t rows = 0;
    std::size_t slices = 0;

    static constexpr std::size_t piece = 16;
    // Powers of two, so that addresses are computed by shifting.
    unsigned tile_row_bits() const { return rows > 1 ? 3 : 0; }
    unsigned tile_slice_bits() const { return slices > 1 ? 2 : 0; }
    unsigned tile_bits() const { return tile_row_bits() + tile_slice_bits(); }
    std::size_t tiles_down() const { return ((rows - 1) >> tile_row_bits()) + 1; }
    std::size_t tiles_deep() const { return ((slices - 1) >> tile_slice_bits()) + 1; }
    std::size_t tiles_across() const { return (row_bytes + 2 * piece - 1) / (2 * piece) * 2; } // even: offset() swaps
    std::size_t storage_size() const;
    std::size_t row_offset(std::size_t y, std::size_t z) const; // of the row's first tile
    std::size_t offset(std::size_t x, std::size_t y, std::size_t z) const {
        return row_offset(y, z) + offset_in_row(x, tile_bits());
    }
    // Neighbours are swapped: even a 1D array is not linear.
    static std::size_t offset_in_row(std::size_t x, unsigned tile_bits) {
        return ((x / piece ^ 1) << tile_bits) * piece + x % piece;
    }
};

struct driver;
struct external_mapping;

// Owns the device memory of an array.
class array_storage {
public:
    array_storage(driver &cu, heap &from, std::size_t size); // rejects the call if the heap has not enough memory
    ~array_storage();
    array_storage(const array_storage &) = delete;

    CUdeviceptr start() const { return start_; }

private:
    heap &from_;
    std::size_t size_;
    CUdeviceptr start_;
};

struct array {
    context *owner = nullptr;
    int device = 0;
    CUDA_ARRAY3D_DESCRIPTOR descriptor{};
    tiled_layout layout; // contains no texels if the array has planes
    std::vector<CUarray> planes;
    std::unique_ptr<array_storage> storage; // null for planes and levels, which are in the whole's storage

    bool is_part() const { return !storage; }
};

struct mipmapped_array {
    context *owner = nullptr;
    int device = 0;
    std::vector<CUarray> levels;
    std::unique_ptr<array_storage> storage;
    std::shared_ptr<external_mapping> external; // replaces storage
};

// Creates a mipmapped array in other memory. `map` provides that memory for the size that the texels need.
CUmipmappedArray make_mipmapped_array(driver &cu, context &owner, const CUDA_ARRAY3D_DESCRIPTOR &asked, unsigned levels,
                                      const std::function<std::shared_ptr<external_mapping>(std::size_t size)> &map);

} // namespace ferry::softdriver
