// Copies to, from and between CUDA arrays: whole arrays, and boxes inside.
#include "contest.h"
#include "grids.h"

namespace bench {

namespace of_grid_volume {
namespace {

constexpr std::size_t texel_sizes[] = {16, 8, 4, 2, 1};

// An array of this width and height in texels. Its last dimension is as long as table_bytes requires. For 1D arrays the
// driver has separate calls. A 1D array is as long as every device permits and uses only the largest texels, for at
// most 1 MiB.
struct shape {
    const char *dimensions;
    std::size_t width, height;
    std::size_t min_texel_size;
};
constexpr shape shapes[] = {{"1D", 64 << 10, 1, 16}, {"2D", 2048, 0, 1}, {"3D", 256, 64, 1}};

enum class side { host, device, array };

struct way {
    const char *name;
    side source, destination;
    const char *ceiling;
};
constexpr way ways[] = {
    {"H2A", side::host, side::array, "H2D"},   {"A2H", side::array, side::host, "D2H"},
    {"D2A", side::device, side::array, "D2D"}, {"A2D", side::array, side::device, "D2D"},
    {"A2A", side::array, side::array, "D2D"},
};

// Unaligned linear memory: an odd number of bytes between rows of even width, and some rows between slices.
constexpr std::size_t odd_row_padding = 13, odd_slice_padding = 3;
// The margin of a box inside, at both ends of each dimension: texels, rows, slices.
constexpr std::size_t margin_x = 5, margin_y = 3, margin_z = 1;

extent extent_of(const session &session, const shape &shape, std::size_t texel_size) {
    const std::size_t row = shape.width * texel_size, bytes = table_bytes(session, way_of_bytes::devices);
    if (shape.height == 1) return {row};
    return shape.height == 0 ? extent{row, bytes / row} : extent{row, shape.height, bytes / row / shape.height};
}

struct variant {
    bool is_inside; // a box inside the arrays
    bool is_odd;    // linear memory with odd pitches
};
constexpr variant variants[] = {{false, false}, {false, true}, {true, false}, {true, true}};

// Two arrays of one shape.
struct volume {
    const of_grid_volume::shape &shape;
    std::size_t texel_size;
    extent size;
    array source, destination;
};

volume make_volume(const session &session, const shape &shape, std::size_t texel_size) {
    const extent size = extent_of(session, shape, texel_size);
    const auto make = [&] {
        return make_array(session.environment, session.workspace.device_source, size, texel_size);
    };
    return {shape, texel_size, size, make(), make()};
}

// Only linear memory has pitches. A 1D copy has no rows, so it has neither a margin nor a pitch.
bool exists(const volume &volume, const way &way, const variant &variant) {
    const bool has_pitch = way.source != side::array || way.destination != side::array;
    return volume.size.is_line() ? !variant.is_inside && !variant.is_odd : has_pitch || !variant.is_odd;
}

box box_of(const workspace &workspace, const volume &volume, const way &way, const variant &variant) {
    place in_array = {.buffer = {}, .frame = volume.size};
    extent size = volume.size;
    if (variant.is_inside) {
        in_array.x = margin_x * volume.texel_size;
        in_array.y = margin_y;
        in_array.z = size.depth > 1 ? margin_z : 0;
        size = {size.width - 2 * in_array.x, size.height - 2 * in_array.y, size.depth - 2 * in_array.z};
    }
    const auto end = [&](side side, const array &array, const buffer &device) {
        if (side != side::array)
            return padded(side == side::host ? workspace.pinned : device, size, variant.is_odd ? odd_row_padding : 0,
                          variant.is_odd && size.depth > 1 ? odd_slice_padding : 0);
        place place = in_array;
        place.buffer = array.place.buffer;
        return place;
    };
    return {end(way.source, volume.source, workspace.device_source),
            end(way.destination, volume.destination, workspace.device_destination), size};
}

void visit_volume(const session &session, const volume &volume, const box_visitor &visit) {
    const std::string texels = std::to_string(volume.size.width / volume.texel_size);
    const std::string text = dimensions_text(texels, volume.size);
    for (const variant &variant : variants)
        for (const way &way : ways)
            if (exists(volume, way, variant))
                visit({{way.name, volume.shape.dimensions, text, std::to_string(volume.texel_size),
                        variant.is_inside ? "inside" : "whole", variant.is_odd ? "odd" : "tight"},
                       box_of(session.workspace, volume, way, variant),
                       way.ceiling});
}

// Whole arrays that ferry created for surfaces, copied to the device. Only the largest array has a target: 512 texels
// of 4 bytes per side.
void visit_surfaces(const session &session, const box_visitor &visit) {
    constexpr std::size_t texel_size = 4, largest_side = 512;
    constexpr double target = 1.6;
    for (const std::size_t side : {std::size_t{64}, std::size_t{128}, std::size_t{256}, largest_side}) {
        const extent size = {side * texel_size, side, side};
        if (size.bytes() > session.workspace.largest) break;
        const array source = make_ferry_array(session.environment, session.workspace.device_source, size, texel_size);
        grid_box found = {{"A2D", "3D, ferry's", dimensions_text(std::to_string(side), size),
                           std::to_string(texel_size), "whole", "tight"},
                          {source.place, padded(session.workspace.device_destination, size, 0, 0), size},
                          "D2D"};
        if (side == largest_side) found.target = target;
        visit(found);
    }
}

void visit_volumes(session &session, const box_visitor &visit) {
    for (const shape &shape : shapes)
        for (const std::size_t texel_size : chosen(session, texel_sizes))
            if (texel_size >= shape.min_texel_size)
                visit_volume(session, make_volume(session, shape, texel_size), visit);
    visit_surfaces(session, visit);
}

} // namespace
} // namespace of_grid_volume

const box_grid volume_grid = {
    "volume", {"copy", "array", "texels", "texel bytes", "box", "pitch"}, of_grid_volume::visit_volumes};

} // namespace bench
