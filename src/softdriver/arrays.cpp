// Creation, description and layout of CUDA arrays, their planes and their levels. The rules are as seen on CUDA 13.0,
// H200.
#include "softdriver/arrays.h"

#include "driver/formats.h"
#include "softdriver/entry.h"
#include "softdriver/state.h"

#include <algorithm>
#include <bit>

namespace ferry::softdriver {

std::size_t tiled_layout::storage_size() const {
    return (tiles_across() * tiles_down() * tiles_deep() << tile_bits()) * piece;
}

std::size_t tiled_layout::row_offset(std::size_t y, std::size_t z) const {
    const unsigned row_bits = tile_row_bits(), slice_bits = tile_slice_bits();
    const std::size_t y_inside = y & ((std::size_t{1} << row_bits) - 1);
    const std::size_t z_inside = z & ((std::size_t{1} << slice_bits) - 1);
    const std::size_t tile = ((z >> slice_bits) * tiles_down() + (y >> row_bits)) * tiles_across();
    const std::size_t inside = (z_inside << row_bits) + y_inside;
    return ((tile << tile_bits()) + inside) * piece;
}

array_storage::array_storage(driver &cu, heap &from, std::size_t size) : from_(from), size_(size) {
    const auto taken = cu.take_memory(from, size);
    require(taken.has_value(), CUDA_ERROR_OUT_OF_MEMORY);
    start_ = *taken;
}

array_storage::~array_storage() {
    try {
        from_.release(start_, size_);
    } catch (...) { // no memory to record the range, so it leaks
    }
}

namespace {

constexpr unsigned kind_flags = CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP;
constexpr unsigned known_flags =
    kind_flags | CUDA_ARRAY3D_SURFACE_LDST | CUDA_ARRAY3D_TEXTURE_GATHER | CUDA_ARRAY3D_VIDEO_ENCODE_DECODE;
constexpr unsigned unimplemented_flags = CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING;

// The kinds of arrays and their maximum sizes, which device.cpp reports too. A maximum of 0 means that the kind lacks
// the dimension.
struct array_kind {
    unsigned flags;
    std::size_t width, height, depth;
};
constexpr array_kind array_kinds[] = {
    {0, 131072, 0, 0},
    {0, 131072, 65536, 0},
    {0, 16384, 16384, 16384},
    {CUDA_ARRAY3D_LAYERED, 32768, 0, 2048},
    {CUDA_ARRAY3D_LAYERED, 32768, 32768, 2048},
    {CUDA_ARRAY3D_CUBEMAP, 32768, 32768, 6},
    {CUDA_ARRAY3D_CUBEMAP | CUDA_ARRAY3D_LAYERED, 32768, 32768, 2046},
};

// The maximum width and height of arrays for gathering and of mipmapped arrays. The real limit was not measured; this
// is the limit for layers.
constexpr std::size_t widest_of_others = 32768;

bool is_within(const CUDA_ARRAY3D_DESCRIPTOR &asked, std::size_t side) {
    return asked.Width <= side && asked.Height <= side;
}

bool is_of(const array_kind &kind, const CUDA_ARRAY3D_DESCRIPTOR &asked) {
    const auto fits = [](std::size_t size, std::size_t limit) { return size <= limit && !size == !limit; };
    return kind.flags == (asked.Flags & kind_flags) && fits(asked.Width, kind.width) &&
           fits(asked.Height, kind.height) && fits(asked.Depth, kind.depth);
}

// Rejects descriptors that no array can have.
void check(const CUDA_ARRAY3D_DESCRIPTOR &asked) {
    require(!(asked.Flags & unimplemented_flags), CUDA_ERROR_NOT_SUPPORTED);
    require(!(asked.Flags & ~known_flags));
    require(std::any_of(std::begin(array_kinds), std::end(array_kinds),
                        [&](const array_kind &kind) { return is_of(kind, asked); }));
    const bool is_plain_2d = asked.Height && !asked.Depth;
    if (asked.Flags & CUDA_ARRAY3D_CUBEMAP) require(asked.Width == asked.Height && asked.Depth % 6 == 0);
    if (asked.Flags & CUDA_ARRAY3D_TEXTURE_GATHER) require(is_plain_2d && is_within(asked, widest_of_others));

    const array_format *const format = find_format(array_formats, asked.Format);
    require(format ? elements_of(asked).size != 0
                   : find_format(planar_formats, asked.Format) && asked.NumChannels == 3);
    // Video formats were only seen in plain 2D arrays.
    if (!format || format->is_video) require(is_plain_2d && asked.Flags & CUDA_ARRAY3D_VIDEO_ENCODE_DECODE);
    if (format && format->side > 1) {
        require(asked.Height);
        require(!(asked.Flags & CUDA_ARRAY3D_SURFACE_LDST), CUDA_ERROR_NOT_SUPPORTED);
    }
}

tiled_layout layout_of(const CUDA_ARRAY3D_DESCRIPTOR &of) {
    const array_elements elements = elements_of(of);
    return {0, elements.across * elements.size, elements.down, elements.deep};
}

using descriptors = std::vector<CUDA_ARRAY3D_DESCRIPTOR>;

descriptors planes_of(const CUDA_ARRAY3D_DESCRIPTOR &whole) {
    const planar_format *const format = find_format(planar_formats, whole.Format);
    if (!format) return {};
    CUDA_ARRAY3D_DESCRIPTOR plane = whole;
    plane.Format = format->plane_format;
    plane.NumChannels = 1;
    descriptors planes = {plane};
    plane.Width = (whole.Width + format->across - 1) / format->across;
    plane.Height = (whole.Height + format->down - 1) / format->down;
    plane.NumChannels = format->planes == 2 ? 2 : 1;
    planes.resize(format->planes, plane);
    return planes;
}

// Returns the requested number of levels, but at least one, and no level below the level of a single texel.
descriptors levels_of(const CUDA_ARRAY3D_DESCRIPTOR &whole, unsigned asked) {
    const bool is_3d = !(whole.Flags & kind_flags);
    const std::size_t largest = std::max({whole.Width, whole.Height, is_3d ? whole.Depth : 0});
    const auto max_levels = static_cast<unsigned>(std::bit_width(largest));
    descriptors levels;
    for (unsigned i = 0; i < std::clamp(asked, 1u, max_levels); ++i) {
        const auto halved = [i](std::size_t size) { return size ? std::max<std::size_t>(size >> i, 1) : 0; };
        CUDA_ARRAY3D_DESCRIPTOR level = whole;
        level.Width = halved(whole.Width);
        level.Height = halved(whole.Height);
        if (is_3d) level.Depth = halved(whole.Depth);
        levels.push_back(level);
    }
    return levels;
}

// The planes or levels of an array under construction. The destructor removes them unless finish() was called.
class array_parts {
public:
    array_parts(driver &cu, context &owner, const descriptors &parts) : array_parts(cu) {
        for (const CUDA_ARRAY3D_DESCRIPTOR &part : parts) {
            auto made = std::make_unique<array>();
            made->owner = &owner;
            made->device = owner.device;
            made->descriptor = part;
            made->layout = layout_of(part);
            made->layout.storage = size_;
            size_ += (made->layout.storage_size() + heap::alignment - 1) / heap::alignment * heap::alignment;
            names_.reserve(parts.size());
            names_.push_back(cu.arrays.add(std::move(made)));
        }
    }
    ~array_parts() {
        for (const CUarray name : names_)
            cu_.arrays.remove(name);
    }
    array_parts(const array_parts &) = delete;

    std::size_t size() const { return size_; }
    std::vector<CUarray> place(CUdeviceptr start) const {
        for (const CUarray name : names_)
            cu_.arrays.find(name)->layout.storage += start;
        return names_;
    }
    void finish() { names_.clear(); }

private:
    explicit array_parts(driver &cu) : cu_(cu) {} // after this, the destructor cleans up

    driver &cu_;
    std::size_t size_ = 0;
    std::vector<CUarray> names_;
};

void create(driver &cu, context &current, CUarray *handle, const CUDA_ARRAY3D_DESCRIPTOR *asked) {
    refuse_if_capture_forbids(cu);
    require(handle && asked);
    check(*asked);
    array_parts planes(cu, current, planes_of(*asked));
    auto made = std::make_unique<array>();
    made->owner = &current;
    made->device = current.device;
    made->descriptor = *asked;
    made->layout = layout_of(*asked);
    made->storage = std::make_unique<array_storage>(cu, cu.devices[current.device].memory,
                                                    planes.size() ? planes.size() : made->layout.storage_size());
    made->layout.storage = made->storage->start();
    made->planes = planes.place(made->storage->start());
    *handle = cu.arrays.add(std::move(made));
    planes.finish();
}

const array &find(driver &cu, CUarray handle) {
    const array *const found = cu.arrays.find(handle);
    require(found, CUDA_ERROR_INVALID_HANDLE);
    return *found;
}

const mipmapped_array &find(driver &cu, CUmipmappedArray handle) {
    const mipmapped_array *const found = cu.mipmapped_arrays.find(handle);
    require(found, CUDA_ERROR_INVALID_HANDLE);
    return *found;
}

void remove(driver &cu, const std::vector<CUarray> &parts) {
    for (const CUarray part : parts)
        cu.arrays.remove(part);
}

template <class Place>
CUmipmappedArray make_levels(driver &cu, context &owner, const CUDA_ARRAY3D_DESCRIPTOR &asked, unsigned levels,
                             const Place &place) {
    refuse_if_capture_forbids(cu);
    check(asked);
    require(!(asked.Flags & CUDA_ARRAY3D_VIDEO_ENCODE_DECODE)); // not a documented flag of this call
    require(is_within(asked, widest_of_others));
    array_parts parts(cu, owner, levels_of(asked, levels));
    auto made = std::make_unique<mipmapped_array>();
    made->owner = &owner;
    made->device = owner.device;
    made->levels = parts.place(place(*made, parts.size()));
    const CUmipmappedArray handle = cu.mipmapped_arrays.add(std::move(made));
    parts.finish();
    return handle;
}

} // namespace

CUmipmappedArray make_mipmapped_array(driver &cu, context &owner, const CUDA_ARRAY3D_DESCRIPTOR &asked, unsigned levels,
                                      const std::function<std::shared_ptr<external_mapping>(std::size_t size)> &map) {
    CUDA_ARRAY3D_DESCRIPTOR of_image = asked;
    of_image.Flags &= ~unsigned{CUDA_ARRAY3D_COLOR_ATTACHMENT}; // only for images of graphics APIs
    return make_levels(cu, owner, of_image, levels, [&](mipmapped_array &made, std::size_t size) {
        made.external = map(size);
        return made.external->address;
    });
}

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

// Destroying a level succeeds and changes nothing (seen). Planes are treated the same.
CUresult cuArrayDestroy(CUarray handle) {
    return enter([&](driver &cu) {
        const array &gone = find(cu, handle);
        if (gone.is_part()) return;
        refuse_if_capture_forbids(cu);
        wait_for_devices(cu, std::uint64_t{1} << gone.device);
        remove(cu, gone.planes);
        cu.arrays.remove(handle);
    });
}

CUresult cuArrayGetPlane(CUarray *plane, CUarray handle, unsigned index) {
    return enter([&](driver &cu) {
        const array &whole = find(cu, handle);
        require(plane && index < whole.planes.size());
        *plane = whole.planes[index];
    });
}

CUresult cuMipmappedArrayCreate(CUmipmappedArray *handle, const CUDA_ARRAY3D_DESCRIPTOR *asked, unsigned levels) {
    return enter_context([&](driver &cu, context &current) {
        require(handle && asked);
        *handle = make_levels(cu, current, *asked, levels, [&](mipmapped_array &made, std::size_t size) {
            made.storage = std::make_unique<array_storage>(cu, cu.devices[current.device].memory, size);
            return made.storage->start();
        });
    });
}

CUresult cuMipmappedArrayGetLevel(CUarray *level, CUmipmappedArray handle, unsigned index) {
    return enter([&](driver &cu) {
        const mipmapped_array &whole = find(cu, handle);
        require(level && index < whole.levels.size());
        *level = whole.levels[index];
    });
}

CUresult cuMipmappedArrayDestroy(CUmipmappedArray handle) {
    return enter([&](driver &cu) {
        const mipmapped_array &gone = find(cu, handle);
        refuse_if_capture_forbids(cu);
        wait_for_devices(cu, std::uint64_t{1} << gone.device);
        remove(cu, gone.levels);
        cu.mipmapped_arrays.remove(handle);
    });
}

} // namespace ferry::softdriver
