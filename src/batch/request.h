// The working state of one batch: checked, then planned, then submitted any number of times. Its buffers are kept for
// the next batch, so that a batch of the same size allocates nothing.
#pragma once

#include "base/spare_records.h"
#include "batch/batch.h"
#include "batch/broadcast_sets.h"
#include "copy/batch.h"
#include "device/contexts.h"
#include "exec/driver_batch.h"
#include "exec/kernel_view.h"
#include "memory/known_arrays.h"
#include "plan/batch_plan.h"
#include "plan/kernel_pieces.h"
#include "plan/staged_list.h"

namespace ferry {

struct staged_progress; // staging/launch.h

// The pieces and rows of one direction between pageable memory and the context's device.
struct pageable_copies {
    explicit pageable_copies(const allocator &memory) noexcept : pieces(memory) {}

    growing<staged_piece> pieces; // empty: they are not staged together
    std::uint64_t bytes = 0;
    bool to_device = false;
};

// The copies of a batch. The validation sees only this part of a request. Afterwards, choose_batch_routes sorts the pieces
// and sets the routes of the boxes.
struct checked_batch {
    explicit checked_batch(const allocator &memory) noexcept
        : ranges(memory), arrays(memory), pieces(memory), boxes(memory), own_views(memory), spans(memory) {}

    // Set by enter_batch_context.
    context_choice context;
    int context_device = -1;

    // Set by validate_batch. Pieces that were neither merged nor cut are in the order of the input copies with a size.
    copy_preferences preferences;
    known_ranges ranges;
    known_arrays arrays;
    grouped_pieces pieces;
    growing<batch_box> boxes;
    growing<kernel_views> own_views;
    growing<byte_span> spans;
    bool has_files = false;
    std::uint64_t bad_index = no_index; // the input copy that failed

    bool is_empty() const noexcept { return pieces.size() == 0 && boxes.size() == 0; }
};

// The routes of a checked batch. choose_batch_routes sets them, and submissions only read them.
struct planned_batch {
    explicit planned_batch(const allocator &memory) noexcept
        : array_views(memory), lines(memory),
          operations(memory), pageable{pageable_copies(memory), pageable_copies(memory)} {}

    batch_plan plans[piece_groups];
    box_launch box_launches[box_sources][piece_groups];
    growing<kernel_view> array_views;
    line_batch lines; // of the groups that batch calls take, group after group
    growing<CUDA_MEMCPY3D_BATCH_OP> operations;
    pageable_copies pageable[2]; // to the device, from the device
};

struct batch_request : checked_batch, planned_batch {
    explicit batch_request(const allocator &memory) noexcept
        : checked_batch(memory), planned_batch(memory), broadcasts(memory), dead(memory) {}

    // Of a batch that is not prepared. The broadcasts are enqueued first. A separate request has the remaining copies.
    broadcast_sets broadcasts;
    growing<std::size_t> dead; // of each broadcast: the number of devices whose contexts are dead

    batch_request *previous = nullptr, *next = nullptr; // among the spare requests
};

class borrowed_request {
public:
    explicit borrowed_request(spare_records<batch_request> &from) noexcept : from_(from), request_(from.take()) {}
    ~borrowed_request() {
        if (request_) from_.release(*request_);
    }
    borrowed_request(const borrowed_request &) = delete;
    borrowed_request &operator=(const borrowed_request &) = delete;

    explicit operator bool() const noexcept { return request_ != nullptr; }
    batch_request &operator*() const noexcept { return *request_; }

private:
    spare_records<batch_request> &from_;
    batch_request *const request_;
};

// Finds the context for `stream` and makes it current. For a default stream on a thread without a context, uses the
// context for the device of the first copy that has a device.
error enter_batch_context(ferry_instance &instance, const batch_input &input, CUstream stream, checked_batch &batch,
                          context_scope &scope) noexcept;

// Validates the whole input and fills the pieces and boxes. `merges`: neighbouring pieces become one. The context must
// be current.
error validate_batch(ferry_instance &instance, const batch_input &input, bool merges, CUstream stream,
                     checked_batch &batch) noexcept;

// The known ranges at the ends of a copy. For an array, or for memory the driver does not know: known_ranges::unknown.
struct known_ends {
    std::uint32_t to = known_ranges::unknown, from = known_ranges::unknown;
};

// Passes on what the driver reported for the ranges, so that no further query is needed.
void know_ends(const checked_batch &batch, const shape &shape, const known_ends &known, resolved_ends &ends) noexcept;

// Whether the driver accepts batch calls on the stream.
constexpr bool takes_batch_calls(CUstream stream, bool is_captured) noexcept {
    return stream && stream != CU_STREAM_LEGACY && !is_captured;
}

// The copy of one piece.
shape shape_of(const batch_piece &piece, const known_ranges &ranges) noexcept;

// Returns the index of the input copy in which a copy of the request begins, or 0 for an empty shape. Checks each input
// copy, so call it only after a failure.
[[gnu::cold, gnu::noinline]] std::uint64_t index_of(const ferry_instance &instance, const batch_input &input,
                                                    const shape &part) noexcept;

// Chooses the routes of the validated batch. The context must be current. `ways`: the plans of the groups if they are
// already chosen, otherwise null.
error choose_batch_routes(ferry_instance &instance, const batch_input &input, bool takes_batch_calls,
                          const batch_plan *ways, batch_request &request) noexcept;

// The table of a group's pieces in device memory, which the kernel reads. An address of 0: there is no table.
struct piece_table {
    std::uint64_t address = 0;
    piece_packer packed{nullptr, 0, {}};
};

// Where a request is enqueued. The stream's context is current.
struct launch_site {
    CUcontext context;
    CUstream stream;
    bool is_captured;
    const piece_table *tables = nullptr; // one for each group
    bool is_waited_for = false;          // the call itself waits for the batch before it returns
    bool no_wait = false;                // see copy_preferences; for prepared batches, of the launch
    staged_progress *files = nullptr;    // of all copies with files; not null if there are any
};

// Whether the whole request is one driver call for one copy.
bool is_single_call(const batch_request &request) noexcept;

} // namespace ferry
