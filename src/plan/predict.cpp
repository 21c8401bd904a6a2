#include "plan/predict.h"

#include <algorithm>
#include <bit>

namespace ferry {

namespace {

constexpr unsigned widest_access = 16;
constexpr std::uint64_t sector = 32; // bytes: memory and links move no less

bool has_gaps(const shape_end &end, const shape &shape) noexcept {
    return !end.array && ((shape.height > 1 && end.row_pitch != shape.width) ||
                          (shape.depth > 1 && end.slice_height != shape.height));
}

// The widest access that kernels make: what the two ends of every row share, for they begin and end rows narrowly.
unsigned access_of(const shape &shape) noexcept {
    const shape_end &from = shape.source, &to = shape.destination;
    if (from.array || to.array) return widest_access;
    std::uint64_t apart = (from.span.first - to.span.first) | widest_access;
    if (shape.height > 1) apart |= from.row_pitch - to.row_pitch;
    if (shape.depth > 1) apart |= from.row_pitch * from.slice_height - to.row_pitch * to.slice_height;
    return static_cast<unsigned>(apart & -apart);
}

} // namespace

row_profile rows_of(const shape &shape) noexcept {
    row_profile rows = {};
    rows.bytes =
        static_cast<double>(shape.width) * static_cast<double>(shape.height) * static_cast<double>(shape.depth);
    const bool source_gaps = has_gaps(shape.source, shape), destination_gaps = has_gaps(shape.destination, shape);
    rows.is_line = !source_gaps && !destination_gaps;
    rows.side = source_gaps && destination_gaps ? gaps::both : source_gaps ? gaps::source : gaps::destination;
    rows.width = shape.width;
    // Whole slices without gaps in them are rows themselves.
    if (shape.height > 1 && !shape.source.array && !shape.destination.array && shape.source.row_pitch == shape.width &&
        shape.destination.row_pitch == shape.width)
        rows.width *= shape.height;
    const auto pitch_of = [&](const shape_end &end) noexcept {
        return shape.height > 1 ? end.row_pitch : end.row_pitch * end.slice_height;
    };
    rows.pitch = std::min(source_gaps ? pitch_of(shape.source) : UINT64_MAX,
                          destination_gaps ? pitch_of(shape.destination) : UINT64_MAX);
    rows.access = access_of(shape);
    return rows;
}

double rate_of(const std::uint32_t (&rates)[width_classes], std::uint64_t width, double line_rate) noexcept {
    const auto at = static_cast<int>(std::bit_width(width)) - 1;
    if (at >= width_classes - 1) return width >> (width_classes - 1) > 1 ? line_rate : rates[width_classes - 1];
    const auto low = static_cast<double>(rates[at]), high = static_cast<double>(rates[at + 1]);
    const std::uint64_t first = 1ull << at;
    return low + (high - low) * (static_cast<double>(width - first) / static_cast<double>(first));
}

unsigned blocks_for(const direction_profile &facts, copy_direction direction, double bytes, unsigned access,
                    unsigned most_blocks) noexcept {
    // A thread's share of a block of 512: two accesses. Beyond that it begins again.
    const double share = 2.0 * 512 * access;
    const bool over_host_link = direction <= copy_direction::device_to_host;
    // Narrow accesses leave less in flight on the link.
    const unsigned enough = facts.kernel_blocks << (over_host_link && access < widest_access);
    const double wanted = std::clamp(bytes / share + 1, 1.0, static_cast<double>(std::min(enough, 0xffffu)));
    const auto blocks = static_cast<unsigned>(wanted);
    return most_blocks ? std::min(blocks, most_blocks) : blocks;
}

double kernel_rate(const direction_profile &facts, const row_profile &rows, unsigned blocks) noexcept {
    double rate = facts.kernel_line_rate;
    if (!rows.is_line) {
        rate = rate_of(facts.kernel_rates[static_cast<int>(rows.side)], rows.width, rate);
        // Rows were measured at twice their width. Farther apart, each pays for a sector of its own.
        const std::uint64_t paid = std::min(rows.pitch, sector);
        if (paid > 2 * rows.width) rate *= static_cast<double>(2 * rows.width) / static_cast<double>(paid);
    }
    const int access_class = std::countr_zero(rows.access);
    const double of_blocks = static_cast<double>(blocks) * facts.kernel_block_rate * rows.access / widest_access;
    return std::min({rate, static_cast<double>(facts.kernel_access_rates[access_class]), of_blocks});
}

double driver_rate(const direction_profile &facts, const row_profile &rows) noexcept {
    const double line_rate = facts.driver_line_rate;
    return rows.is_line ? line_rate : rate_of(facts.driver_rates[static_cast<int>(rows.side)], rows.width, line_rate);
}

} // namespace ferry
