#include "copy/nest_boxes.h"

#include "base/checked.h"

namespace ferry {

namespace {

// Whether the axis can be the rows of a box: they must not share bytes at either end.
bool has_pitches(const nest &of, const nest_axis &axis, std::uint64_t max_pitch) noexcept {
    const auto is_pitch = [&](std::int64_t stride) noexcept {
        return stride > 0 && static_cast<std::uint64_t>(stride) >= of.run &&
               static_cast<std::uint64_t>(stride) <= max_pitch;
    };
    return !axis.has_indices() && is_pitch(axis.destination_stride) && is_pitch(axis.source_stride);
}

// Whether the axis can be the slices of a box with these rows: a slice is a whole number of rows.
bool has_slices(const nest_axis &rows, const nest_axis &axis) noexcept {
    const auto is_pitch = [&](std::int64_t stride, std::int64_t of_rows) noexcept {
        return stride > 0 && stride % of_rows == 0 && static_cast<std::uint64_t>(stride / of_rows) >= rows.count;
    };
    return !axis.has_indices() && is_pitch(axis.destination_stride, rows.destination_stride) &&
           is_pitch(axis.source_stride, rows.source_stride);
}

std::uint64_t index_at(const nest_indices &indices, std::uint64_t coordinate) noexcept {
    return indices.address ? indices.at(coordinate) : coordinate;
}

} // namespace

nest_boxes cut_into_boxes(const nest &of, std::uint64_t max_pitch) noexcept {
    nest_boxes cut;
    std::uint64_t most = 0;
    for (int rows = 0; rows < of.axes; ++rows) {
        if (!has_pitches(of, of.axis[rows], max_pitch)) continue;
        int slices = -1;
        for (int i = 0; i < of.axes; ++i)
            if (i != rows && has_slices(of.axis[rows], of.axis[i]) &&
                (slices < 0 || of.axis[i].count > of.axis[slices].count))
                slices = i;
        const std::uint64_t inside = of.axis[rows].count * (slices < 0 ? 1 : of.axis[slices].count);
        if (inside <= most) continue;
        most = inside;
        cut.rows = rows;
        cut.slices = slices;
    }
    for (int i = 0; i < of.axes; ++i)
        if (!cut.is_inside(i) && !multiply(cut.count, of.axis[i].count, cut.count)) cut.count = UINT64_MAX;
    return cut;
}

shape first_box(const nest &of, const nest_boxes &cut) noexcept {
    shape box = {};
    box.width = of.run;
    box.height = cut.rows < 0 ? 1 : of.axis[cut.rows].count;
    box.depth = cut.slices < 0 ? 1 : of.axis[cut.slices].count;
    const auto set = [&](shape_end &end, std::uint64_t address, std::int64_t row, std::int64_t slice) noexcept {
        end.device = -1;
        end.row_pitch = row ? static_cast<std::uint64_t>(row) : box.width;
        end.slice_height = slice ? static_cast<std::uint64_t>(slice) / end.row_pitch : box.height;
        const std::uint64_t before_last = ((box.depth - 1) * end.slice_height + box.height - 1) * end.row_pitch;
        end.span = {address, address + before_last + (box.width - 1)};
    };
    const nest_axis none = {};
    const nest_axis &rows = cut.rows < 0 ? none : of.axis[cut.rows];
    const nest_axis &slices = cut.slices < 0 ? none : of.axis[cut.slices];
    set(box.source, of.source, rows.source_stride, slices.source_stride);
    set(box.destination, of.destination, rows.destination_stride, slices.destination_stride);
    return box;
}

error for_each_box(const nest &of, const nest_boxes &cut, const ferry_place &destination, const ferry_place &source,
                   function_ref<error(const ferry_copy_desc &)> then) noexcept {
    ferry_copy_desc box = {};
    box.destination = destination;
    box.source = source;
    box.width = of.run;
    if (cut.rows >= 0) {
        const nest_axis &rows = of.axis[cut.rows];
        box.height = rows.count;
        box.destination.row_pitch = static_cast<std::uint64_t>(rows.destination_stride);
        box.source.row_pitch = static_cast<std::uint64_t>(rows.source_stride);
    }
    if (cut.slices >= 0) {
        const nest_axis &rows = of.axis[cut.rows], &slices = of.axis[cut.slices];
        box.depth = slices.count;
        box.destination.slice_height = static_cast<std::uint64_t>(slices.destination_stride / rows.destination_stride);
        box.source.slice_height = static_cast<std::uint64_t>(slices.source_stride / rows.source_stride);
    }
    std::uint64_t at[max_nest_axes] = {};
    for (;;) {
        box.destination.address = of.destination;
        box.source.address = of.source;
        for (int i = 0; i < of.axes; ++i) {
            if (cut.is_inside(i)) continue;
            const nest_axis &axis = of.axis[i];
            box.destination.address +=
                index_at(axis.destination_indices, at[i]) * static_cast<std::uint64_t>(axis.destination_stride);
            box.source.address += index_at(axis.source_indices, at[i]) * static_cast<std::uint64_t>(axis.source_stride);
        }
        if (error failed = then(box)) return failed;
        int next = 0;
        while (next < of.axes && (cut.is_inside(next) || ++at[next] == of.axis[next].count))
            at[next++] = 0;
        if (next == of.axes) return {};
    }
}

} // namespace ferry
