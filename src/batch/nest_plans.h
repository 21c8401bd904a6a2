// How nests are copied: by one launch of a kernel, as boxes by other routes, or through a buffer in device memory.
#pragma once

#include "batch/nests.h"
#include "copy/nest_boxes.h"
#include "copy/nest_fields.h"
#include "copy/nest_packing.h"
#include "plan/kernel_nests.h"
#include "plan/nest_costs.h"
#include "routes/ends.h"

namespace ferry {

enum class nest_way : std::uint8_t {
    boxes,
    kernel,
    buffer, // boxes between the host and a buffer, and a kernel between the buffer and the device
};

// Where nests are copied. The context is current.
struct nest_site {
    CUcontext context = nullptr;
    int device = -1;
    CUstream stream;
    copy_form form;
    bool is_captured = false;
    bool is_prepared = false; // the copies are prepared, and may be captured later
};

// A checked nest whose way is chosen. It is executed, prepared or explained.
struct nest_plan {
    checked_nest given;
    resolved_ends ends;
    nest_way way = nest_way::boxes;
    nest_boxes boxes;
    obstacle why_no_kernel = obstacle::none;
    // For a kernel, which accesses `seen` with the addresses of the context's device. A buffer has `blocks` too.
    nest seen;
    nest_link link = nest_link::none;
    copy_direction direction = copy_direction::within_device;
    std::uint32_t blocks = 0;
    std::uint64_t skipped = 0;
    std::uint64_t kernel_ns = 0, boxes_ns = 0; // predicted; 0: unknown
    // For a buffer.
    nest_packing packing;
    bool packs_source = false;

    bool is_empty() const noexcept { return given.moved.is_empty(); }
    bool has_file() const noexcept {
        return given.source.kind == FERRY_KIND_FILE || given.destination.kind == FERRY_KIND_FILE;
    }
};

// Enters the context of the call, as for a batch: for a default stream of a thread without a context, the context of
// the first device that a nest names.
error enter_context_of_nests(ferry_instance &instance, const nest_input &input, context_scope &scope,
                             nest_site &site) noexcept;

// Checks a nest and chooses its way. On failure, `bad_axis` is the axis that the error is about, or no_axis.
error plan_nest(ferry_instance &instance, const ferry_nest &given, const call_options &options, const nest_site &site,
                nest_plan &plan, int &bad_axis) noexcept;

// The bytes of all lists of indices in host memory, as kernels read them. move_indices copies the lists to `table`,
// which is at `address` for kernels.
std::uint64_t bytes_of_host_indices(const nest &of) noexcept;
void move_indices(nest &seen, std::uint64_t *table, std::uint64_t address) noexcept;

// The item that an error is about: a nest, or one of its axes.
error_item item_of_nest(std::uint64_t index, int axis) noexcept;

} // namespace ferry
