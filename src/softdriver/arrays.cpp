// Creation, description and layout of CUDA arrays.
#include "softdriver/arrays.h"

#include "driver/formats.h"
#include "softdriver/entry.h"
#include "softdriver/state.h"

namespace ferry::softdriver {

std::size_t tiled_layout::storage_size() const {
    const std::size_t tiles_down = (rows + tile_rows() - 1) / tile_rows();
    const std::size_t tiles_deep = (slices + tile_slices() - 1) / tile_slices();
    return tiles_across() * tiles_down * tiles_deep * tile_rows() * tile_slices() * piece;
}

std::size_t tiled_layout::offset(std::size_t x, std::size_t y, std::size_t z) const {
    const std::size_t tiles_down = (rows + tile_rows() - 1) / tile_rows();
    const std::size_t tile_x = (x / piece) ^ 1; // neighbours swapped: even a 1D array is not linear
    const std::size_t tile = (z / tile_slices() * tiles_down + y / tile_rows()) * tiles_across() + tile_x;
    const std::size_t inside = z % tile_slices() * tile_rows() + y % tile_rows();
    return (tile * tile_rows() * tile_slices() + inside) * piece + x % piece;
}

namespace {

// The limits that device.cpp reports as MAXIMUM_TEXTURE…; a 2D array may be as wide as a 1D one.
bool fits_limits(const CUDA_ARRAY3D_DESCRIPTOR &asked) {
    if (asked.Depth) return asked.Height && asked.Width <= 16384 && asked.Height <= 16384 && asked.Depth <= 16384;
    return asked.Width <= 131072 && asked.Height <= 65536;
}

void create(driver &cu, context &current, CUarray *handle, const CUDA_ARRAY3D_DESCRIPTOR *asked) {
    refuse_if_capture_forbids(cu);
    require(handle && asked && asked->Width);
    require(!(asked->Flags & ~(CUDA_ARRAY3D_SURFACE_LDST | CUDA_ARRAY3D_TEXTURE_GATHER)), CUDA_ERROR_NOT_SUPPORTED);
    const array_elements elements = elements_of(*asked);
    require(elements.size && fits_limits(*asked));

    auto made = std::make_unique<array>();
    made->owner = &current;
    made->device = current.device;
    made->descriptor = *asked;
    made->layout.row_bytes = elements.across * elements.size;
    made->layout.rows = elements.down;
    made->layout.slices = elements.deep;
    array &kept = *made;
    const CUarray name = cu.arrays.add(std::move(made));
    kept.handle = name;
    const auto storage = cu.devices[current.device].memory.take(kept.layout.storage_size());
    if (!storage) cu.arrays.remove(name);
    require(storage.has_value(), CUDA_ERROR_OUT_OF_MEMORY);
    kept.layout.storage = *storage;
    *handle = name;
}

const array &find(driver &cu, CUarray handle) {
    const array *const found = cu.arrays.find(handle);
    require(found, CUDA_ERROR_INVALID_HANDLE);
    return *found;
}

} // namespace

CUresult cuArrayCreate(CUarray *handle, const CUDA_ARRAY_DESCRIPTOR *asked) {
    return enter_context([&](driver &cu, context &current) {
        require(asked);
        const CUDA_ARRAY3D_DESCRIPTOR general = {asked->Width, asked->Height, 0, asked->Format, asked->NumChannels, 0};
        create(cu, current, handle, &general);
    });
}

CUresult cuArray3DCreate(CUarray *handle, const CUDA_ARRAY3D_DESCRIPTOR *asked) {
    return enter_context([&](driver &cu, context &current) { create(cu, current, handle, asked); });
}

CUresult cuArrayGetDescriptor(CUDA_ARRAY_DESCRIPTOR *descriptor, CUarray handle) {
    return enter([&](driver &cu) {
        require(descriptor);
        const CUDA_ARRAY3D_DESCRIPTOR &general = find(cu, handle).descriptor;
        *descriptor = {general.Width, general.Height, general.Format, general.NumChannels};
    });
}

CUresult cuArray3DGetDescriptor(CUDA_ARRAY3D_DESCRIPTOR *descriptor, CUarray handle) {
    return enter([&](driver &cu) {
        require(descriptor);
        *descriptor = find(cu, handle).descriptor;
    });
}

CUresult cuArrayDestroy(CUarray handle) {
    return enter([&](driver &cu) {
        const array &gone = find(cu, handle);
        refuse_if_capture_forbids(cu);
        cu.engine.wait_idle(std::uint64_t{1} << gone.device);
        cu.devices[gone.device].memory.give_back(gone.layout.storage, gone.layout.storage_size());
        cu.arrays.remove(handle);
    });
}

} // namespace ferry::softdriver
