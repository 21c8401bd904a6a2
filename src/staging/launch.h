// One launch of a staged copy: a kernel on the copy's stream, and the part of the copy that it moves. A launch has a
// struct for each of its lives. A record is used by one launch after another, a launch in a graph has many runs, and
// the workers of a run share a few counters without a lock.
#pragma once

#include <algorithm>
#include <iterator>
#include <optional>

#include "device/tracked_contexts.h"
#include "staging/buffers.h"
#include "staging/channel.h"

namespace ferry {

// The progress of a copy, for the caller that asked for it. The object must live until `launches_left` is 0. That value
// is the last one written here. It is written before the stream passes the copy, unless the copy's context dies.
struct staged_progress {
    std::atomic<std::uint64_t> bytes_done = 0; // bytes that have arrived
    std::atomic<std::int32_t> status = FERRY_SUCCESS;
    std::atomic<std::uint32_t> launches_left = 0;

    bool is_done() const noexcept { return launches_left.load(std::memory_order_acquire) == 0; }
};

// As long as the engine: the memory that host and blocks share, and the host's side of it. Both sides keep counting
// from one launch to the next.
struct launch_record {
    gpu::ring_record *shared = nullptr; // pinned
    std::uint64_t device_address = 0;
    void *engine = nullptr; // for the host function that announces a run
    staging_channel channels[gpu::max_ring_blocks];
};

constexpr std::uint32_t max_staged_helpers = 3;    // of a copy: each has a share of max_ring_blocks
constexpr std::uint32_t max_blocks_of_copies = 16; // of a launch by copies: so many are in flight
static_assert(max_blocks_of_copies <= gpu::max_ring_blocks);

// As long as the launch: what it copies. Written by enqueue(), before any other thread knows of the launch.
struct launch_work {
    std::optional<staging> cut;
    staging_buffers *buffers = nullptr;
    staged_progress *progress = nullptr; // null once the end has been reported
    const tracked_context *context = nullptr;
    const tracked_context *helpers[max_staged_helpers] = {}; // those of helpers, which have the last blocks
    std::uint64_t first_chunk = 0, end_chunk = 0;
    std::uint32_t blocks = 0;
    std::uint32_t own_blocks = 0;     // of these, on the copy's device
    std::uint32_t max_slots_each = 1; // for each channel
    bool are_stores_streamed = false; // by the workers; into slots only while no other device copies
    int home = any_node;              // of the device's servers
    bool caller_helps = false;        // until the copy is done
    bool is_first_on_stream = false;  // nothing was before it, so that its kernel may run at once
    // Copies on the stream take the place of the kernel: copy n, from 0, is the block n % blocks. Each has one slot,
    // which it keeps.
    bool by_copies = false;
    bool is_broadcast = false; // where a context has died the stream passes, and the caller asks for dead contexts

    bool is_to_device() const noexcept { return cut->to_device(); }
    bool is_in(const tracked_context *one) const noexcept {
        return context == one || std::find(std::begin(helpers), std::end(helpers), one) != std::end(helpers);
    }
    const tracked_context *context_of(std::uint32_t block) const noexcept {
        return block < own_blocks || own_blocks == 0 ? context : helpers[block / own_blocks - 1];
    }
    bool belongs_elsewhere(int node) const noexcept { return home != any_node && home != node; }
    std::uint64_t bytes() const noexcept { return cut->bytes_before(end_chunk) - cut->bytes_before(first_chunk); }
};

// As long as a run. Guarded by the scheduler's mutex.
struct launch_run {
    std::uint32_t next_block = 0; // the block whose channel is looked at first
    std::uint32_t stuck = 0;      // workers stuck when last inspected, and still at their channels
    // With helpers: the bytes that had arrived when last inspected, and since when there are no more.
    std::uint64_t bytes_done = 0, bytes_since_ns = 0;
};

// What the workers of a run read and write without the mutex.
struct launch_counters {
    std::atomic<bool> is_lost = false;   // the workers leave. Written under the mutex
    std::atomic<std::uint32_t> busy = 0; // channels that are taken. Written under the mutex
    std::atomic<std::uint32_t> held = 0; // slots. Written under the mutex
    alignas(64) std::atomic<std::uint64_t> next_chunk = 0;
    std::atomic<std::uint64_t> chunks_left = 0, bytes_done = 0; // bytes_done: bytes that have arrived
    std::atomic<std::uint64_t> thread_delay_ns = 0;             // the longest of a worker at one chunk
    std::atomic<std::uint64_t> copies_enqueued = 0;             // of a launch by copies: those that workers may serve
    std::atomic<bool> is_cut_short = false; // not all of its copies could be enqueued. Written under the mutex
};

// The states of a launch. Every launch is on one list of the scheduler, that of its state.
enum class launch_state : std::uint8_t {
    unused,    // the free list
    taken,     // by a copy that has not launched the kernel
    launched,  // behind a host function that will announce the run, or in a graph
    expected,  // announced: the kernel runs soon
    running,   // a block has come. Only now the launch gets slots
    leaving,   // all bytes have arrived, the graph has gone, or the run was called off; blocks may still be there
    withdrawn, // the kernel was not launched, but its host function will run
    losing,    // lost with its context, and workers have not noticed
    lost,      // without workers; the blocks may still use its slots
    dead,      // without slots. Never used again, because a block may still come
};
constexpr std::size_t launch_states = static_cast<std::size_t>(launch_state::dead) + 1;

struct staging_launch {
    explicit staging_launch(const allocator &memory) noexcept : list(memory) {}

    launch_record record;
    launch_work work;
    staged_list list; // what `work` copies, if it copies many pieces. Keeps its memory for the next copy
    launch_run run;
    launch_counters shared;

    // Guarded by the scheduler's mutex.
    launch_state state = launch_state::unused;
    std::uint64_t use = 0;                  // how often the launch has been taken from the free list
    bool is_captured = false;               // may run many times, also concurrently
    std::uint32_t runs_expected = 0;        // and not ended
    std::uint64_t announced_ns = 0;         // when a run was last announced
    std::uint64_t missed_ns = 0;            // once called off: when its kernel was last seen not to have come; else 0
    staging_launch *next_of_copy = nullptr; // the launches of a copy
    std::int32_t loss = FERRY_SUCCESS;      // why the launch is lost
    std::uint64_t lost_ns = 0;
    const tracked_context *dead = nullptr; // of a lost launch: the context that has died
    staging_launch *previous = nullptr, *next = nullptr;

    // For a new run: no chunk has been taken.
    void count_chunks() noexcept {
        shared.next_chunk = work.first_chunk;
        shared.chunks_left = work.end_chunk - work.first_chunk;
        shared.bytes_done = 0;
        shared.thread_delay_ns = 0;
    }
    bool has_chunks() const noexcept { return shared.next_chunk.load(std::memory_order_relaxed) < work.end_chunk; }
};

// ---- The share of slots

// Compares what a channel of a running launch holds with its share. Every decision to take, keep or return a slot is
// made here. The running launches of a device share its slots equally, and so do the channels of a launch. A launch may
// always have one slot. Where launches outnumber slots its share is none, so it returns the slot after each chunk.
enum class slot_share : std::uint8_t { under, even, over };
inline slot_share compare_with_share(const staging_launch &launch, const staging_channel &channel) noexcept {
    if (launch.work.by_copies) return slot_share::even;
    const std::uint32_t of_launch = launch.work.buffers->share.load(std::memory_order_relaxed);
    const std::uint32_t of_channel = std::clamp(of_launch / launch.work.blocks, 1U, launch.work.max_slots_each);
    const std::uint32_t held = launch.shared.held.load(std::memory_order_relaxed), here = channel.slots();
    if (held > of_launch || here > of_channel) return slot_share::over;
    return held < std::max(of_launch, 1U) && here < of_channel ? slot_share::under : slot_share::even;
}

// ---- What both sides publish in a record

// Returns whether any block is present for the run that ends next.
bool has_come(const staging_launch &launch) noexcept;
// The same for the first block of a run that may be over: `ended` counts the runs that had ended before.
bool has_come_since(const launch_record &record, std::uint32_t ended) noexcept;
// Returns whether all blocks have left all runs that have ended.
bool has_left(const staging_launch &launch) noexcept;
// Returns whether any block has not reported that it has completed all published messages.
bool is_at_work(const staging_launch &launch, const tracked_context *but = nullptr) noexcept;
// Ends the run for all blocks, including blocks that have not come yet.
void publish_end(staging_launch &launch) noexcept;
// Lets a block that will not come count as one that has left the run.
void pass_by(staging_launch &launch, std::uint32_t block) noexcept;
// Makes all blocks trap, including blocks that have not come yet.
void abort_blocks(staging_launch &launch) noexcept;

// ---- For a channel that the caller has taken or entered, or that nobody can take

// Records whether the block is present. In copies to the device, takes back the slots that the block has read.
void look_at(staging_launch &launch, std::uint32_t block) noexcept;
// Takes back all slots, whatever the block is doing.
void take_back_all(staging_channel &channel) noexcept;
// In copies to the host: returns whether there are bytes to write to the program's memory.
bool has_arrived(const staging_launch &launch, std::uint32_t block) noexcept;
// Moves the bytes of a slot that the block has filled into the parcel. Returns false where no slot is filled.
bool move_to_parcel(staging_launch &launch, std::uint32_t block, staged_parcel &parcel) noexcept;
// Returns whether chunks are left, the block is present, and its mailbox has room for one more message.
bool has_room(const staging_launch &launch, const staging_channel &channel) noexcept;
// Does the next step for the block, and returns the number of bytes moved from or to the program's memory. 0: the next
// step is the block's, or there is no chunk or no slot.
std::uint64_t advance(staging_launch &launch, std::uint32_t block) noexcept;

} // namespace ferry
