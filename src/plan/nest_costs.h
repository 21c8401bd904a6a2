// Predicts which route of a nest is the fastest. Pure, like plan.h.
#pragma once

#include "copy/nest_boxes.h"
#include "plan/pageable_pieces.h"
#include "plan/plan.h"

namespace ferry {

struct nest_facts {
    const device_profile *profile = nullptr;
    copy_direction direction = copy_direction::within_device;
    copy_preferences preferences = {};
};

// Returns the number of blocks of the kernel.
unsigned nest_blocks(const nest_facts &facts, std::uint64_t bytes) noexcept;

// The times if the kernel copies the nest, or the driver copies it as boxes, of which `box` is one. For a profile.
std::uint64_t predict_nest_kernel(const nest_facts &facts, const nest &of) noexcept;
std::uint64_t predict_nest_boxes(const nest_facts &facts, const shape &box, std::uint64_t boxes) noexcept;
// Whether to take the kernel, provided that it can serve, instead of `boxes` boxes. The times are the predicted ones.
bool is_nest_for_kernel(const nest_facts &facts, std::uint64_t kernel_ns, std::uint64_t boxes_ns,
                        std::uint64_t boxes) noexcept;

// A nest with a pageable or file end. Its rows are staged directly; or it passes through a buffer on the device in
// `parts`, and the rows of `outer` are staged.
struct packed_facts {
    pageable_facts pageable;                    // `count` is not set
    const nest *of = nullptr, *outer = nullptr; // `outer` is of one part
    std::uint64_t boxes = 0, outer_boxes = 0, parts = 0;
};
bool is_nest_packed(const packed_facts &facts) noexcept;

} // namespace ferry
