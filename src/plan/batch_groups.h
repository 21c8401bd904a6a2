// How the pieces and the boxes of a batch go: by groups, each the way that is predicted to be fastest. Pure, as plan.h.
#pragma once

#include "copy/batch.h"
#include "plan/batch_plan.h"

namespace ferry {

// How a box goes.
enum class box_way : std::uint8_t {
    call,       // of its own
    batch_call, // the job's operations are of these, in order
    kernel,     // one launch for all of a group and source
    own,        // as its flags ask: its plan
};

// What kernels copy boxes from, by launches of their own.
enum box_source : std::uint8_t { from_memory, from_array };
constexpr int box_sources = 2;

// What is more than a run of bytes, or has flags of its own.
struct batch_box {
    ferry::shape shape;
    std::uint64_t element;  // bytes, the unit of batch calls; 0: not for those
    std::uint32_t to, from; // the known ranges of linear ends, the known arrays of others; of `own`: to are its views
    piece_group group;      // apart: not for kernels
    box_way way;
    copy_wishes wishes;
    copy_plan plan; // of `own`

    box_source source() const noexcept { return shape.source.array ? from_array : from_memory; }
    bool is_of(int source, int of_group) const noexcept {
        return this->source() == source && static_cast<int>(group) == of_group;
    }
    std::uint64_t bytes() const noexcept { return shape.width * shape.height * shape.depth; }
};

// The boxes of one source and group that a kernel copies.
struct box_launch {
    std::uint64_t count, bytes;
    std::uint16_t blocks;
};

// What holds for all groups of a batch. The obstacles are why kernels, and the driver's batch calls, cannot serve.
struct batch_site {
    int context_device = -1;
    obstacle kernels = obstacle::not_loaded;
    obstacle line_calls = obstacle::no_entry_point, box_calls = obstacle::no_entry_point;
    copy_wishes wishes = {};
    const device_profile *profile = nullptr;
};

// True where some group goes by kernels.
bool plan_pieces(const batch_site &site, const grouped_pieces &pieces, batch_plan (&plans)[piece_groups]) noexcept;

// Which boxes kernels copy, and by how many blocks; the others are left to calls. A box that a kernel copies faster by
// itself goes with the others that do; of the rest all of a source and group or none. True where there are any.
bool plan_boxes(const batch_site &site, growing<batch_box> &boxes,
                box_launch (&launches)[box_sources][piece_groups]) noexcept;

} // namespace ferry
