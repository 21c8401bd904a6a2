#include "plan/predict.h"

#include <algorithm>
#include <bit>

#include "plan/kernel_boxes.h"

namespace ferry {

namespace {

constexpr unsigned max_access = 16;
constexpr std::uint64_t sector = 32; // bytes: the minimum that memory and links transfer

bool has_gaps(const shape_end &end, const shape &shape) noexcept {
    return !end.array && ((shape.height > 1 && end.row_pitch != shape.width) ||
                          (shape.depth > 1 && end.slice_height != shape.height));
}

std::uint64_t lowest_bit(std::uint64_t numbers) noexcept { return numbers & -numbers; }

std::uint64_t slice_pitch(const shape_end &end) noexcept { return end.row_pitch * end.slice_height; }

std::uint64_t strides_of(const shape_end &end, const shape &shape) noexcept {
    return (shape.height > 1 ? end.row_pitch : 0) | (shape.depth > 1 ? slice_pitch(end) : 0);
}

// 1, 1/2, 1/4 …: a table, because every copy needs one of these numbers and divisions are slow.
struct powers_of_half {
    double of[width_classes];
    constexpr powers_of_half() : of{} {
        double power = 1;
        for (double &each : of) {
            each = power;
            power /= 2;
        }
    }
};
constexpr powers_of_half halves;

// Returns the nanoseconds per row of this width.
double row_ns(const std::uint32_t (&rates)[width_classes], std::uint64_t width, double line_rate) noexcept {
    return static_cast<double>(width) * 1000 / rate_of(rates, width, line_rate);
}

} // namespace

row_profile rows_of(const shape &shape) noexcept {
    const shape_end &from = shape.source, &to = shape.destination;
    row_profile rows;
    const bool source_gaps = has_gaps(from, shape), destination_gaps = has_gaps(to, shape);
    rows.is_line = !source_gaps && !destination_gaps;
    rows.side = source_gaps && destination_gaps ? gaps::both : source_gaps ? gaps::source : gaps::destination;
    rows.has_array = from.array || to.array;
    rows.width = shape.width;
    rows.count = shape.height * shape.depth;
    // Whole slices without gaps count as rows.
    const bool are_slices =
        shape.height > 1 && !rows.has_array && from.row_pitch == shape.width && to.row_pitch == shape.width;
    if (are_slices) {
        rows.width *= shape.height;
        rows.count = shape.depth;
    }
    const auto pitch_of = [&](const shape_end &end) noexcept {
        return shape.height > 1 && !are_slices ? end.row_pitch : slice_pitch(end);
    };
    if (source_gaps) rows.source_pitch = pitch_of(from);
    if (destination_gaps) rows.destination_pitch = pitch_of(to);
    if (rows.has_array) {
        // From arrays, all accesses of a kernel are as wide as the first and the last access.
        const std::uint64_t apart = from.x | shape.width | to.span.first | strides_of(to, shape);
        rows.access = to.array ? max_access : static_cast<unsigned>(lowest_bit(apart | max_access));
        return rows;
    }
    const std::uint64_t from_strides = strides_of(from, shape), to_strides = strides_of(to, shape);
    const std::uint64_t apart = (from.span.first - to.span.first) |
                                (shape.height > 1 ? from.row_pitch - to.row_pitch : 0) |
                                (shape.depth > 1 ? slice_pitch(from) - slice_pitch(to) : 0);
    rows.engine_alignment = lowest_bit(rows.width | from_strides | to_strides);
    rows.host_alignment = lowest_bit(
        rows.width | sector | (is_host(from.kind) ? from.span.first | from_strides : to.span.first | to_strides));
    const row_words words = choose_words(
        {.apart = apart, .first = to.span.first, .strides = to_strides, .width = shape.width}, is_host(to.kind));
    rows.access = static_cast<unsigned>(words.word);
    rows.has_parts = !words.is_whole;
    // The partial words of a row take about as long as four additional words.
    rows.words =
        static_cast<double>((words.windows + (words.is_whole ? 0 : 4)) * words.word) / static_cast<double>(shape.width);
    return rows;
}

double rate_of(const std::uint32_t (&rates)[width_classes], std::uint64_t width, double line_rate) noexcept {
    const auto at = static_cast<int>(std::bit_width(width)) - 1;
    if (at >= width_classes - 1) return width >> (width_classes - 1) > 1 ? line_rate : rates[width_classes - 1];
    const auto low = static_cast<double>(rates[at]), high = static_cast<double>(rates[at + 1]);
    const auto beyond = static_cast<std::int64_t>(width - (1ull << at));
    return low + (high - low) * (static_cast<double>(beyond) * halves.of[at]);
}

std::uint32_t array_kernel_rate(const device_profile &profile, unsigned access) noexcept {
    // To a destination 1, 2, 4 and 8 bytes past a cache line: 494, 755, 1098 and 1455 GB/s of 2000 (512^3 texels of 4
    // bytes, H200).
    constexpr std::uint32_t percent[access_classes] = {25, 38, 55, 73, 100};
    return std::max(profile.array_kernel_rate / 100, 1u) * percent[std::countr_zero(access)];
}

unsigned blocks_for(const direction_profile &facts, copy_direction direction, double bytes, unsigned access,
                    unsigned max_blocks, bool of_array) noexcept {
    // The bytes of a block of 512 threads with two accesses each. Beyond that, the threads loop.
    const double share = 2.0 * 512 * access;
    const bool over_host_link = direction <= copy_direction::device_to_host;
    // Narrow accesses keep fewer bytes in flight. On an H200, 4 blocks of 16-byte accesses or 16 blocks of 4-byte
    // accesses saturate a host link, which gains little beyond 32 blocks. The device's memory needs one block per SM,
    // or two with narrow accesses.
    const unsigned enough = of_array && !over_host_link
                                ? UINT16_MAX
                                : facts.kernel_blocks * std::min(max_access / access, over_host_link ? 8u : 2u);
    const double wanted = std::clamp(bytes / share + 1, 1.0, static_cast<double>(std::min(enough, 0xffffu)));
    const auto blocks = static_cast<unsigned>(wanted);
    return max_blocks ? std::min(blocks, max_blocks) : blocks;
}

double kernel_row_ns(const direction_profile &facts, copy_direction direction, const row_profile &rows,
                     unsigned blocks) noexcept {
    const int access_class = std::countr_zero(rows.access);
    const auto width = static_cast<double>(rows.width);
    const double of_blocks = static_cast<double>(blocks * rows.access) / max_access * facts.kernel_block_rate;
    const double of_words = std::min<double>(of_blocks, facts.kernel_access_rates[access_class]);
    const double words_ns = width * rows.words * 1000 / of_words;
    if (rows.is_line) return std::max(words_ns, width * 1000 / facts.kernel_line_rate);

    const auto &rates = facts.kernel_rates[static_cast<int>(rows.side)];
    const auto &scattered = facts.kernel_rates[static_cast<int>(gaps::destination)];
    // Gaps at the device's end of a host link cost nothing, because the device's memory is faster.
    const std::uint64_t pitch = direction == copy_direction::host_to_device ? rows.source_pitch
                                : direction == copy_direction::device_to_host
                                    ? rows.destination_pitch
                                    : std::max(rows.source_pitch, rows.destination_pitch);
    double ns = 0;
    if (pitch && rows.access < max_access && rows.width > sector) {
        // The accesses of a warp end within rows. Each part of a row that a warp accesses costs one additional sector.
        const double pieces = 1 + width / (32.0 * rows.access);
        ns = pieces * row_ns(rates, static_cast<std::uint64_t>(width / pieces) + sector, facts.kernel_line_rate);
    } else {
        ns = row_ns(rates, rows.width, facts.kernel_line_rate);
    }
    // Each partial word is a separate request on the link, and takes as long as 16 bytes with gaps around them. The
    // rates of narrower rows were measured including their parts. Reads of host memory are in flight together: for rows
    // of 17 B at a pitch of 25, the parts take 0.9 ns per row (H200).
    const double request_ns = row_ns(scattered, max_access, facts.kernel_line_rate);
    const bool adds_requests = direction == copy_direction::device_to_host && rows.width > max_access;
    if (rows.has_parts && adds_requests) ns += 3 * request_ns;
    if (rows.has_parts && direction == copy_direction::host_to_device)
        ns += row_ns(facts.kernel_rates[static_cast<int>(gaps::source)], max_access, facts.kernel_line_rate) / 2;
    // Rows that start or end within a sector of host memory cost an additional request.
    if (adds_requests && rows.destination_pitch && rows.host_alignment < sector) ns += request_ns;
    // Rows were measured at a pitch of twice their width. At a larger pitch, each row costs a separate sector, and
    // reads of host memory cost more: 1.4 ns per row of 1 to 32 bytes at a pitch of 512 (H200).
    constexpr std::uint64_t link_request = 128;
    const std::uint64_t paid = std::min(pitch, direction == copy_direction::host_to_device ? link_request : sector);
    if (paid > 2 * rows.width) {
        const double apart_ns = ns * static_cast<double>(paid) / static_cast<double>(2 * rows.width);
        const bool is_one_request = direction == copy_direction::device_to_host && rows.destination_pitch;
        ns = is_one_request ? std::max(ns, std::min(apart_ns, request_ns)) : apart_ns;
    }
    // Narrow accesses that scatter wide rows are no faster than narrow rows. Partial words additionally cost the
    // sectors that they share.
    if (direction == copy_direction::within_device && rows.destination_pitch &&
        (rows.access < max_access || rows.has_parts)) {
        const double touched = rows.has_parts && rows.width > sector ? width + 2 * sector - rows.access : width;
        ns = std::max(ns, touched * 1000 / scattered[access_class]);
    }
    return std::max(ns, words_ns);
}

// On an H200 with CUDA 13.0, a driver copy of at least many_rows rows, of whole 4-byte words at pitches that are
// multiples of 4, takes longer to start and a fifth of the time per row. 51 Ki rows are not yet copied by this method.
// 64 Ki rows of 1 KiB and 82 Ki of 100 B are. Rows of 17 B or at a pitch of 11 never are.
bool goes_by_many_rows(copy_direction direction, const row_profile &rows) noexcept {
    return direction == copy_direction::within_device && !rows.is_line && !rows.has_array && rows.count >= many_rows &&
           rows.engine_alignment >= 4;
}

double driver_row_ns(const direction_profile &facts, copy_direction direction, const row_profile &rows) noexcept {
    const double line_rate = facts.driver_line_rate;
    const auto width = static_cast<double>(rows.width);
    if (rows.is_line) return width * 1000 / line_rate;
    const auto &rates = facts.driver_rates[static_cast<int>(rows.side)];
    if (direction == copy_direction::within_device && !rows.has_array && !goes_by_many_rows(direction, rows)) {
        // A copy of few rows, or of rows that are not whole words. Two of the measured rates are for such copies: rows
        // of two bytes are not whole words, and the widest rows are few.
        const double widest_rate = rows.width >> width_classes ? line_rate : rates[width_classes - 1];
        return std::max(width * 1000 / widest_rate, 2000.0 / rates[1]);
    }
    double ns = row_ns(rates, rows.width, line_rate);
    if (direction >= copy_direction::within_device || rows.has_array) return ns;
    // Rows that share a sector of host memory wait for each other. They were measured at a pitch of twice their width.
    // At a larger pitch, they take as long as wider rows.
    const std::uint64_t apart = std::min(rows.source_pitch, sector) / 2;
    if (direction == copy_direction::host_to_device && apart > rows.width)
        ns = std::min(ns, row_ns(rates, apart, line_rate));
    // A sector that a row covers only in part is transferred completely. Reads transfer more sectors.
    if (rows.host_alignment < sector) {
        const std::uint64_t more = rows.source_pitch && direction == copy_direction::host_to_device ? sector / 2 : 0;
        ns = std::max(ns, row_ns(rates, rows.width + sector + more - rows.host_alignment, line_rate));
    }
    return ns;
}

} // namespace ferry
