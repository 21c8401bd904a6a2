// Cuts a nest in two at a packed buffer. The buffer holds the bytes in the order of one end, so that the half between
// that end and the buffer consists of larger boxes. A large nest is cut into parts, which use the buffer one after the
// other. Pure, apart from reading indices in host memory.
#pragma once

#include "base/function_ref.h"
#include "base/status.h"
#include "copy/nest.h"

namespace ferry {

// At the buffer, both halves have addresses that start at 0.
struct nest_halves {
    nest outer; // between the end and the buffer
    nest inner; // between the buffer and the other end
};

class nest_packing {
public:
    nest_packing() noexcept = default;
    // Packs a normalized nest, which is not empty, in the order of its source or its destination. A part has at most
    // `max_bytes` bytes, or one run.
    nest_packing(const nest &of, bool by_source, std::uint64_t max_bytes) noexcept;

    std::uint64_t parts() const noexcept;
    std::uint64_t buffer_bytes() const noexcept; // of the largest part, which is the first
    nest_halves first() const noexcept;
    // Calls then(halves) for each part until a call fails.
    error for_each(function_ref<error(const nest_halves &)> then) const noexcept;

private:
    // The coordinates of a part: `count` on the axis that is cut, and one on each axis beyond it.
    struct place {
        std::uint64_t at[max_nest_axes] = {};
    };
    nest_halves halves_at(const place &where) const noexcept;
    std::uint64_t steps() const noexcept; // of the axis that is cut

    bool by_source_ = false;
    nest sorted_; // the smallest stride at the end first
    std::uint64_t packed_stride_[max_nest_axes] =
        {};                     // of each axis in a part. 0: all its coordinates are the same bytes
    int cut_ = 0;               // the axis that is cut; the number of axes if none is
    std::uint64_t at_once_ = 1; // coordinates of this axis in a part
};

} // namespace ferry
