// One launch of a staged copy: a kernel on the copy's stream, and the part of the copy that it moves. A launch has one
// struct per lifetime. A record is used by one launch after another, a launch in a graph has many runs, and the workers
// of a run share several counters without a lock.
#pragma once

#include <algorithm>
#include <iterator>
#include <optional>

#include "base/atomic_word.h"
#include "device/tracked_contexts.h"
#include "staging/buffers.h"
#include "staging/channel.h"
#include "system/file.h"

namespace ferry {

// The progress of a copy, or of several copies of files, for a caller that requested it. The object must stay valid until
// `launches_left` is 0, which is the last value written here. It is written before the copy completes on the stream,
// unless the copy's context dies.
struct staged_progress {
    std::atomic<std::uint64_t> bytes_done = 0; // bytes that have arrived
    std::atomic<status_code> status = status_code();
    std::atomic<std::uint32_t> launches_left = 0;
    // The first failed transfer of a file. Valid if the status is FERRY_ERROR_FILE and no launch is left.
    std::atomic<bool> has_failed = false;
    file_failure failure;
    // Of this transfer: the index of the copy in its batch. For pieces: the number of bytes of all pieces before it.
    std::uint64_t failed_at = 0;
    std::atomic<bool> is_cancelled = false; // no further transfer of a file begins
    // The status of a failure is also written there, unless it is null. Pinned memory, which the stream reads behind the
    // copies.
    std::atomic<std::int32_t *> mirror = nullptr;

    // Returns false if another transfer has failed before.
    bool fail(const file_failure &failed, std::uint64_t at) noexcept {
        if (has_failed.exchange(true)) return false;
        failure = failed;
        failed_at = at;
        status.store(FERRY_ERROR_FILE);
        write_status(mirror.load());
        return true;
    }
    // Must be called once. The word is 0, and receives the status of a failure until no launch is left.
    void reflect(std::int32_t *word) noexcept {
        mirror.store(word);
        write_status(word);
    }
    bool is_done() const noexcept { return launches_left.load(std::memory_order_acquire) == 0; }

private:
    // Several threads may write the same value.
    void write_status(std::int32_t *word) const noexcept {
        const std::int32_t now = status.load();
        if (word && now) atomic_word(*word).store(now);
    }
};

// Lives as long as the engine: the memory that host and blocks share, and the host's side of it. Both sides continue to
// count from one launch to the next.
struct launch_record {
    gpu::ring_record *shared = nullptr; // pinned
    std::uint64_t device_address = 0;
    void *engine = nullptr; // for the host function that announces a run
    staging_channel channels[gpu::max_ring_blocks];
};

constexpr std::uint32_t max_staged_helpers = 3;    // per copy: each helper has a share of max_ring_blocks
constexpr std::uint32_t max_blocks_of_copies = 24; // of a copy-engine launch: this many chunks are in flight
static_assert(max_blocks_of_copies <= gpu::max_ring_blocks);

// Lives as long as the launch: describes what it copies. Written by enqueue(), before any other thread knows the
// launch.
struct launch_work {
    std::optional<staging> cut;
    staging_buffers *buffers = nullptr;
    staged_progress *progress = nullptr; // null after the end has been reported
    ferry_file *file = nullptr;          // the same
    std::uint64_t index = 0;             // of a copy with a file in its batch
    const tracked_context *context = nullptr;
    const tracked_context *helpers[max_staged_helpers] = {}; // contexts of the helpers, which have the last blocks
    std::uint64_t first_chunk = 0, end_chunk = 0;
    std::uint32_t blocks = 0;
    std::uint32_t own_blocks = 0;     // the number of these blocks on the copy's device
    std::uint32_t max_slots_each = 1; // per channel
    bool are_stores_streamed = false; // by the workers; into slots only while no other device copies
    int home = any_node;              // home node of the device's servers
    bool caller_helps = false;        // until the copy is complete
    bool is_first_on_stream = false;  // no earlier work is on the stream, so the kernel may run immediately
    bool may_read_ahead = false;      // a contiguous range of a file, which no server has announced to the system
    // Copy-engine copies on the stream replace the kernel: copy n, from 0, is performed as block n % blocks. Each block
    // has one slot, which it keeps.
    bool by_copies = false;
    bool is_broadcast = false; // in a dead context the stream does not trap: the caller queries contexts

    bool is_to_device() const noexcept { return cut->to_device(); }
    bool is_on_host() const noexcept { return cut->box().is_on_host; } // a copy-engine launch without slots and copies
    bool is_in(const tracked_context *one) const noexcept {
        return context == one || std::find(std::begin(helpers), std::end(helpers), one) != std::end(helpers);
    }
    const tracked_context *context_of(std::uint32_t block) const noexcept {
        return block < own_blocks || own_blocks == 0 ? context : helpers[block / own_blocks - 1];
    }
    bool belongs_elsewhere(int node) const noexcept { return home != any_node && home != node; }
    std::uint64_t bytes() const noexcept { return cut->bytes_before(end_chunk) - cut->bytes_before(first_chunk); }
};

// Lives as long as a run. Guarded by the scheduler's mutex.
struct launch_run {
    std::uint32_t next_block = 0; // the block whose channel is checked first
    std::uint32_t stuck = 0;      // workers found stuck by the last inspection that are still at their channels
    // With helpers: the bytes that had arrived at the last inspection, and the time since when none have arrived.
    std::uint64_t bytes_done = 0, bytes_since_ns = 0;
};

// The data that the workers of a run read and write without the mutex.
struct launch_counters {
    std::atomic<bool> is_lost = false;   // the workers leave. Written with the mutex locked
    std::atomic<std::uint32_t> busy = 0; // taken channels. Written with the mutex locked
    std::atomic<std::uint32_t> held = 0; // slots in use. Written with the mutex locked
    alignas(64) std::atomic<std::uint64_t> next_chunk = 0;
    std::atomic<std::uint64_t> chunks_left = 0, bytes_done = 0; // bytes_done: bytes that have arrived
    std::atomic<std::uint64_t> writes_left = 0;                 // to a file: chunks that are not written
    std::atomic<bool> is_space_reserved = false;                // for all bytes that are written to a file
    std::atomic<std::uint64_t> thread_delay_ns = 0;             // the longest delay of a worker on one chunk
    std::atomic<std::uint64_t> copies_enqueued = 0;             // copies that workers may serve
    std::atomic<bool> is_cut_short = false; // not all copies could be enqueued. Written with the mutex locked
};

// The states of a launch. Every launch is on one list of the scheduler, the list of its state.
enum class launch_state : std::uint8_t {
    unused,    // on the free list
    taken,     // by a copy that has not launched the kernel
    launched,  // after a host function that will announce the run, or in a graph
    expected,  // announced: the kernel will run soon
    running,   // a block has started. Only now the launch gets slots
    leaving,   // all bytes arrived, the graph was destroyed, or the run was cancelled; blocks may still be present
    withdrawn, // the kernel was not launched, but its host function will run
    losing,    // lost with its context, but workers have not noticed yet
    lost,      // without workers; the blocks may still use its slots
    dead,      // without slots. Never used again, because a block may still start
};
constexpr std::size_t launch_states = static_cast<std::size_t>(launch_state::dead) + 1;

struct staging_launch {
    explicit staging_launch(const allocator &memory) noexcept : list(memory) {}

    launch_record record;
    launch_work work;
    staged_list list; // the pieces that `work` copies, if any. Keeps its memory for the next copy
    launch_run run;
    launch_counters shared;

    // Guarded by the scheduler's mutex.
    launch_state state = launch_state::unused;
    std::uint64_t use = 0;                  // number of times the launch was taken from the free list
    bool is_captured = false;               // may run many times, including concurrently
    std::uint32_t runs_expected = 0;        // that have not ended
    std::uint64_t announced_ns = 0;         // time of the last announcement of a run
    std::uint64_t missed_ns = 0;            // if cancelled: when the kernel was last seen not started
    staging_launch *next_of_copy = nullptr; // links the launches of a copy
    status_code loss;                       // the error that killed the launch
    std::uint64_t lost_ns = 0;
    const tracked_context *dead = nullptr; // for a lost launch: the context that died
    staging_launch *previous = nullptr, *next = nullptr;

    // For a new run, in which no chunk is taken yet.
    void count_chunks() noexcept {
        shared.next_chunk = work.first_chunk;
        shared.chunks_left = shared.writes_left = work.end_chunk - work.first_chunk;
        shared.bytes_done = 0;
        shared.is_space_reserved = false;
        shared.thread_delay_ns = 0;
    }
    bool has_chunks() const noexcept { return shared.next_chunk.load(std::memory_order_relaxed) < work.end_chunk; }
};

// ---- The share of slots

// Compares the slots of a channel in a running launch with its share. Every decision to take, keep or return a slot is
// based on this function. The running launches of a device share its slots equally, and so do the channels of a launch.
// A launch may always have one slot. If there are more launches than slots, the share is zero, and a launch returns its
// slot after each chunk.
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
bool has_started(const staging_launch &launch) noexcept;
// Same as has_started, for the first block of a run that may be over. `ended` is the number of runs that had ended
// before.
bool has_started_since(const launch_record &record, std::uint32_t ended) noexcept;
// Returns whether all blocks have left all ended runs.
bool has_left(const staging_launch &launch) noexcept;
// Returns whether any block has not reported yet that it has completed all published messages.
bool is_at_work(const staging_launch &launch, const tracked_context *but = nullptr) noexcept;
// Ends the run for all blocks, including blocks that have not started yet.
void publish_end(staging_launch &launch) noexcept;
// Counts a block that will not start as a block that has left the run.
void pass_by(staging_launch &launch, std::uint32_t block) noexcept;
// Makes all blocks trap, including blocks that have not started yet.
void abort_blocks(staging_launch &launch) noexcept;

// ---- For a channel that the caller has taken or entered, or that no thread can take

// Records whether the block is present. In copies to the device, takes back the slots that the block has read.
void look_at(staging_launch &launch, std::uint32_t block) noexcept;
// Takes back all slots, regardless of the block's state.
void take_back_all(staging_channel &channel) noexcept;
// In copies to the host: returns whether bytes are ready to be written to the program's memory.
bool has_arrived(const staging_launch &launch, std::uint32_t block) noexcept;
// Moves the bytes of a slot that the block has filled into the parcel. Returns false if no slot is filled.
bool move_to_parcel(staging_launch &launch, std::uint32_t block, staged_parcel &parcel) noexcept;
// Returns whether chunks are left, the block is present, and its mailbox has space for another message.
bool has_room(const staging_launch &launch, const staging_channel &channel) noexcept;
// Performs the next step for the block, and returns the number of bytes moved from or to the program's memory. 0 means
// that the next step is up to the block, or that no chunk or no slot is available.
std::uint64_t advance(staging_launch &launch, std::uint32_t block) noexcept;

} // namespace ferry
