// One copy of a batch after the other is checked, by itself and against the memory, and becomes a piece or a box of the
// job. What most are is in this header, as it takes a few nanoseconds.
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

    // Where both ends lie in ranges that are known already and all is right: what most pieces are. There must be room.
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

    // A box out of an array that is the last one moved, and right too: what most of many boxes are.
    bool add_moved(const ferry_copy_desc &copy) noexcept { return last_of_array_ && add_as_last(copy); }

    // Any line; it is cut where an allocation ends. Leaves room for `following` pieces.
    [[gnu::cold, gnu::noinline]] error add_line(const ferry_place &to, const ferry_place &from, std::uint64_t size,
                                                std::uint64_t following) noexcept;

    // Any copy.
    [[gnu::cold, gnu::noinline]] error add_copy(const ferry_copy_desc &copy, std::uint64_t following) noexcept;

private:
    [[gnu::always_inline]] void append(const batch_piece &piece) noexcept {
        request_.pieces.add(piece, ferry::group_of(request_.ranges[piece.from], request_.ranges[piece.to]), merges_);
    }

    bool add_as_last(const ferry_copy_desc &copy) noexcept;
    // Both ends lie where batches go. Kernels write no arrays.
    piece_group group_of(const batch_box &box) const noexcept;
    // One with flags: what they ask for must be possible.
    error add_own(std::uint32_t flags, batch_box &box) noexcept;
    bool keep_box() noexcept { return request_.boxes.resize(request_.boxes.size() + 1); }

    // Finds what lies `done` bytes behind the beginning of a line, and shortens the step to where that ends.
    error walk(line_end &end, std::uint64_t done, std::uint64_t size, std::uint64_t &step) noexcept;
    // Memory of a device may go on in memory of the same one, as mapped memory does; registered memory in any host memory.
    bool leaves_for_other_memory(std::uint32_t before, std::uint64_t address, const known_range &range) const noexcept;
    error check_beginning(const line_end &end, const known_range &range, std::uint64_t size) const noexcept;
    resolve_options full_options() const noexcept {
        return {.ranges = &host_ranges_, .full_checks = true, .stream = stream_};
    }

    // The memory of one end of a box.
    error resolve(const ferry_place &place, const shape_end &end, resolved_place &resolved, std::uint32_t &known,
                  bool &is_for_batches) noexcept;

    ferry_instance &instance_;
    const host_ranges &host_ranges_;
    const CUstream stream_;
    const bool merges_;
    batch_request &request_;
    const ferry_copy_desc *last_of_array_ = nullptr; // what the last box was, if others can be that one moved
};

} // namespace ferry
