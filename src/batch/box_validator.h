// Validates copies of a batch that may not be contiguous, and turns each into a box or into pieces of the request.
#pragma once

#include "batch/line_validator.h"

namespace ferry {

class box_validator {
public:
    box_validator(ferry_instance &instance, CUstream stream, checked_batch &batch, line_validator &lines,
                  bool takes_files) noexcept
        : instance_(instance), stream_(stream), batch_(batch), lines_(lines), takes_files_(takes_files) {}

    // Adds a valid box that reads the same array as the last box and differs from it only in position, as most boxes of
    // a large batch do. Returns false for any other box.
    bool add_moved(const ferry_copy_desc &copy) noexcept { return last_of_array_ && add_as_last(copy); }

    // Adds any copy. `index`: in the program's batch. Leaves space for `following` pieces.
    [[gnu::cold, gnu::noinline]] error add_copy(const ferry_copy_desc &copy, std::uint64_t index,
                                                std::uint64_t following) noexcept;

private:
    bool add_as_last(const ferry_copy_desc &copy) noexcept;
    // For a box whose ends are both in memory that batches support. Kernels do not write arrays.
    piece_group group_of(const batch_box &box) const noexcept;
    // For a box with an end that the driver does not know.
    piece_group group_of_pageable(const batch_box &box) const noexcept;
    // Adds a box of a batch with preferences, or a box with a file. The route that they require must be possible.
    error add_own(batch_box &box) noexcept;
    bool keep_box() noexcept { return batch_.boxes.resize(batch_.boxes.size() + 1); }

    // Finds the memory of one end of a box.
    error resolve(const ferry_place &place, const shape_end &end, host_use use, const extent &extent,
                  resolved_place &resolved, std::uint32_t &known, bool &is_for_batches) noexcept;

    ferry_instance &instance_;
    const CUstream stream_;
    checked_batch &batch_;
    line_validator &lines_;
    const bool takes_files_;
    const ferry_copy_desc *last_of_array_ = nullptr; // the last box, if a later box may differ only in position
};

} // namespace ferry
