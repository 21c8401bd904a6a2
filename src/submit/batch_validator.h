// Checks the copies of a batch one by one, each by itself and against the memory, and turns each into pieces or a box
// of the request. The common case is inline here, because it takes only a few nanoseconds.
#pragma once

#include "submit/batch_request.h"
#include "submit/instance.h"

namespace ferry {

struct line_end;

class batch_validator {
public:
    batch_validator(ferry_instance &instance, CUstream stream, bool merges, batch_request &request) noexcept
        : instance_(instance), host_ranges_(instance.pinned.ranges()), stream_(stream), merges_(merges),
          request_(request) {}

    // Adds a line whose ends both lie in known ranges and do not overlap, as most pieces do. Returns false for any
    // other line. The caller must have reserved room.
    [[gnu::always_inline]] bool add_plain(std::uint64_t destination, std::uint64_t source,
                                          std::uint64_t size) noexcept {
        if (destination - source < size || source - destination < size) return false;
        const std::uint32_t to = request_.ranges.find_known(destination, size);
        const std::uint32_t from = request_.ranges.find_known(source, size);
        if (to == known_ranges::unknown || from == known_ranges::unknown) return false;
        append({destination, source, size, to, from});
        return true;
    }

    bool has_room_for(std::uint64_t count) noexcept {
        return count < SIZE_MAX / sizeof(batch_piece) / 4 && request_.pieces.reserve_more(count);
    }

    // Adds a valid box that reads the same array as the last box and differs from it only in position. In a large batch
    // most boxes do. Returns false for any other box.
    bool add_moved(const ferry_copy_desc &copy) noexcept { return last_of_array_ && add_as_last(copy); }

    // Adds any line, cut where an allocation ends. Leaves room for `following` pieces.
    [[gnu::cold, gnu::noinline]] error add_line(const ferry_place &to, const ferry_place &from, std::uint64_t size,
                                                std::uint64_t following) noexcept;

    // Adds any copy.
    [[gnu::cold, gnu::noinline]] error add_copy(const ferry_copy_desc &copy, std::uint64_t following) noexcept;

private:
    [[gnu::always_inline]] void append(const batch_piece &piece) noexcept {
        request_.pieces.add(piece, ferry::group_of(request_.ranges[piece.from], request_.ranges[piece.to]), merges_);
    }

    bool add_as_last(const ferry_copy_desc &copy) noexcept;
    // Both ends lie in memory that batches serve. Kernels write no arrays.
    piece_group group_of(const batch_box &box) const noexcept;
    // Adds a copy with flags of its own. The route that they ask for must be possible.
    error add_own(std::uint32_t flags, batch_box &box) noexcept;
    bool keep_box() noexcept { return request_.boxes.resize(request_.boxes.size() + 1); }

    // Finds the memory `done` bytes behind the start of a line, and shortens the step to the end of that memory.
    error walk(line_end &end, std::uint64_t done, std::uint64_t size, std::uint64_t &step) noexcept;
    // Device memory may continue in memory of the same device, as mapped memory does. Registered memory may continue in
    // any host memory.
    bool leaves_for_other_memory(std::uint32_t before, std::uint64_t address, const known_range &range) const noexcept;
    error check_beginning(const line_end &end, const known_range &range, std::uint64_t size) const noexcept;
    resolve_options full_options() const noexcept {
        return {.ranges = &host_ranges_, .full_checks = true, .stream = stream_};
    }

    // Finds the memory of one end of a box.
    error resolve(const ferry_place &place, const shape_end &end, resolved_place &resolved, std::uint32_t &known,
                  bool &is_for_batches) noexcept;

    ferry_instance &instance_;
    const host_ranges &host_ranges_;
    const CUstream stream_;
    const bool merges_;
    batch_request &request_;
    const ferry_copy_desc *last_of_array_ = nullptr; // the last box, if a later one may differ in position alone
};

} // namespace ferry
