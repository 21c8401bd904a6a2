// Validates contiguous copies of a batch one by one, and turns each into pieces of the request.
#pragma once

#include "base/checked.h"
#include "batch/request.h"
#include "submit/instance.h"

namespace ferry {

// The common case is inline, because it takes only a few nanoseconds.
class line_validator {
public:
    line_validator(ferry_instance &instance, CUstream stream, bool merges, checked_batch &batch) noexcept
        : instance_(instance), stream_(stream), merges_(merges), batch_(batch), access_(instance.mappings) {}

    // Adds a contiguous copy whose ends are both in known ranges and do not overlap, as most pieces are. Returns false
    // for any other copy. The caller must have reserved space.
    [[gnu::always_inline]] bool add_plain(std::uint64_t destination, std::uint64_t source,
                                          std::uint64_t size) noexcept {
        if (destination - source < size || source - destination < size) return false;
        const std::uint32_t to = batch_.ranges.find_known(destination, size);
        const std::uint32_t from = batch_.ranges.find_known(source, size);
        if (to == known_ranges::unknown || from == known_ranges::unknown) return false;
        append({destination, source, size, to, from});
        return true;
    }

    bool has_room_for(std::uint64_t count) noexcept {
        return count < SIZE_MAX / sizeof(batch_piece) / 4 && batch_.pieces.reserve_more(count);
    }

    // Adds any contiguous copy, split where an allocation ends. Leaves space for `following` pieces.
    [[gnu::cold, gnu::noinline]] error add_line(const ferry_place &to, const ferry_place &from, std::uint64_t size,
                                                std::uint64_t following) noexcept;

    // Queries the driver for an end of a copy, with full checks.
    error query_fully(const ferry_place &place, host_use use, const address_span &span, const row_layout &rows,
                      resolved_place &resolved) noexcept;

private:
    // One end of a contiguous copy, with the range that the checks have reached.
    struct line_end {
        const ferry_place &place;
        std::int32_t side;
        std::uint32_t range = known_ranges::unknown;

        int stated_device() const noexcept { return place.kind == FERRY_KIND_DEVICE ? place.device : -1; }
    };

    [[gnu::always_inline]] void append(const batch_piece &piece) noexcept {
        batch_.pieces.add(piece, group_of(batch_.ranges[piece.from], batch_.ranges[piece.to]), merges_);
    }

    // Finds the memory `done` bytes after the start of a copy, and shortens the step to the end of that memory.
    error walk(line_end &end, std::uint64_t done, std::uint64_t size, std::uint64_t &step) noexcept;
    // Device memory may be followed by memory of the same device, as with mapped memory. Registered memory may be
    // followed by any host memory.
    bool leaves_for_other_memory(std::uint32_t before, std::uint64_t address, const known_range &range) const noexcept;
    error check_beginning(const line_end &end, const known_range &range, std::uint64_t size) noexcept;

    ferry_instance &instance_;
    const CUstream stream_;
    const bool merges_;
    checked_batch &batch_;
    host_access access_; // for full checks
};

} // namespace ferry
