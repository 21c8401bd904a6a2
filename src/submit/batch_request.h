// A batch on its way: checked, then planned, then enqueued, as often as wanted. What it works in is kept for the next
// one, so that a batch like the one before it allocates nothing.
#pragma once

#include <mutex>

#include "base/chain.h"
#include "copy/batch.h"
#include "device/contexts.h"
#include "exec/driver_batch.h"
#include "exec/kernel_copy.h"
#include "memory/known_arrays.h"
#include "plan/batch_groups.h"
#include "plan/kernel_pieces.h"
#include "submit/batch.h"

namespace ferry {

struct batch_request {
    explicit batch_request(const allocator &memory) noexcept
        : ranges(memory), arrays(memory), pieces(memory), boxes(memory), own_views(memory), spans(memory),
          array_views(memory), lines(memory), operations(memory) {}

    // Where it runs, known first.
    context_choice context;
    int context_device = -1;

    // What check_batch leaves. Not merged, uncut pieces are in the order of those of the input that have a size.
    known_ranges ranges;
    known_arrays arrays;
    grouped_pieces pieces;
    growing<batch_box> boxes;
    growing<kernel_views> own_views;
    growing<byte_span> spans;
    std::uint64_t bad_index = 0; // where it has failed

    // What plan_batch leaves.
    batch_plan plans[piece_groups];
    box_launch box_launches[box_sources][piece_groups];
    growing<kernel_view> array_views;
    line_batch lines; // of the groups that batch calls take, one after the other
    growing<CUDA_MEMCPY3D_BATCH_OP> operations;

    batch_request *previous = nullptr, *next = nullptr; // among those that rest

    bool is_empty() const noexcept { return pieces.size() == 0 && boxes.size() == 0; }
};

// Those that rest.
class batch_request_pool {
public:
    explicit batch_request_pool(const allocator &memory) noexcept : memory_(memory) {}
    ~batch_request_pool();
    batch_request_pool(const batch_request_pool &) = delete;
    batch_request_pool &operator=(const batch_request_pool &) = delete;

    batch_request *take() noexcept; // null where there is no memory
    void release(batch_request &request) noexcept;
    void destroy(batch_request &request) noexcept;

private:
    const allocator &memory_;
    std::mutex mutex_;
    chain<batch_request> free_;
};

class borrowed_request {
public:
    explicit borrowed_request(batch_request_pool &from) noexcept : from_(from), request_(from.take()) {}
    ~borrowed_request() {
        if (request_) from_.release(*request_);
    }
    borrowed_request(const borrowed_request &) = delete;
    borrowed_request &operator=(const borrowed_request &) = delete;

    explicit operator bool() const noexcept { return request_ != nullptr; }
    batch_request &operator*() const noexcept { return *request_; }

private:
    batch_request_pool &from_;
    batch_request *const request_;
};

// Finds the context for `stream` and makes it current, as for the first copy that has a device.
error enter_for_batch(ferry_instance &instance, const batch_input &input, CUstream stream, batch_request &request,
                      context_scope &scope) noexcept;

// All of the input; `merges` puts neighbours together. The context must be current.
error check_batch(ferry_instance &instance, const batch_input &input, bool merges, CUstream stream,
                  batch_request &request) noexcept;

// Whether the driver takes batch calls there.
constexpr bool takes_batch_calls(CUstream stream, bool is_captured) noexcept {
    return stream && stream != CU_STREAM_LEGACY && !is_captured;
}

// Likewise. `ways` are those that are chosen already; null: are not.
error plan_batch(ferry_instance &instance, bool takes_batch_calls, const batch_plan *ways,
                 batch_request &request) noexcept;

// The pieces of a group in the memory of the device, as kernels read them; 0: not there.
struct piece_table {
    std::uint64_t address = 0;
    piece_packer packed{nullptr, 0, {}};
};

// Where a job is enqueued: the stream's context is current.
struct launch_site {
    CUcontext context;
    CUstream stream;
    bool is_captured;
    const piece_table *tables = nullptr; // one for each group
    bool is_waited_for = false;          // at once, by the call itself
};

// What the driver refuses here leaves what was enqueued before it. The synchronous form is for jobs of a single call.
error submit_batch(ferry_instance &instance, const batch_request &request, copy_form form,
                   const launch_site &site) noexcept;

// How many pieces of a table a group needs, and writing it: `packed` has room for them. False for more than it can say.
std::uint64_t records_of(const group_facts &group) noexcept;
[[nodiscard]] bool pack_group(const batch_request &request, int group, piece_packer &packed) noexcept;

// A block of the instance's tables, once the stream has passed what was just enqueued. Waits for that where nothing else
// is possible.
error free_table(ferry_instance &instance, CUstream stream, void *table) noexcept;

// Whether all that there is to do is one call of the driver's for one copy.
bool is_single_call(const batch_request &request) noexcept;

} // namespace ferry
