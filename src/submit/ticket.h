// Tickets report the progress of asynchronous copies and of streams.
#pragma once

#include <atomic>
#include <mutex>

#include "base/chain.h"
#include "base/growing.h"
#include "device/context_name.h"
#include "staging/scheduler.h"

struct ferry_ticket {
    ferry_ticket(ferry_instance &of, const ferry::allocator &memory) noexcept : instance(of), piece_ends(memory) {}

    ferry_instance &instance;
    CUevent passed = nullptr;    // recorded after the work; null for an empty copy
    ferry::context_name owner;   // context of the event
    bool is_staged = false;      // the copy is staged as a whole
    bool ends_on_stream = false; // of a staged copy: complete only when the stream has completed it
    bool has_file = false;
    std::atomic<bool> is_failure_known = false;         // the program or the log has the failure of a file
    std::atomic<bool> is_status_written = false;        // by write_ticket_status
    ferry::staged_progress progress;                    // of that copy, or of a batch's copies of files
    std::int32_t item = FERRY_ITEM_NONE;                // FERRY_ITEM_* of the copies of a batch with files
    ferry::growing<std::uint64_t> piece_ends;           // of a file: the bytes up to the end of each, of all pieces
    std::atomic<std::uint64_t> bytes_done_at_query = 0; // bytes that had arrived at the last query
    std::int32_t route = FERRY_ROUTE_NONE;
    std::uint64_t total = 0; // bytes
    std::uint64_t tag = 0;   // ferry_copy_options.tag
    // Contexts of other devices that took part in the work, until they have been checked after its end: the stream
    // completes even if one of them has died without copying all bytes. Checked by `status_of_others`.
    ferry::context_name others[8];
    std::uint64_t unnamed = 0; // bit mask of devices for whose contexts there was no space
    std::atomic<std::uint32_t> other_count = 0;
    std::atomic<ferry::status_code> status_of_others = ferry::status_code();
    ferry_ticket *previous = nullptr, *next = nullptr;
};

namespace ferry {

// The free list of tickets. Threads may still write to the progress of a ticket that was released before its copy was
// complete.
class ticket_pool {
public:
    explicit ticket_pool(const allocator &memory) noexcept : memory_(memory) {}
    // Must run after the last staged copy has ended.
    ~ticket_pool();
    ticket_pool(const ticket_pool &) = delete;
    ticket_pool &operator=(const ticket_pool &) = delete;

    ferry_ticket *take(ferry_instance &instance) noexcept; // newly constructed; null if memory runs out
    void release(ferry_ticket &ticket) noexcept;

private:
    const allocator &memory_;
    std::mutex mutex_;
    chain<ferry_ticket> free_;
};

// Calls enqueue(made) with a new ticket, which becomes *ticket unless the call fails. If `ticket` is null, calls
// enqueue(nullptr).
error enqueue_with_ticket(ferry_instance &instance, ferry_ticket **ticket, std::uint64_t tag, std::uint64_t bytes,
                          function_ref<error(ferry_ticket *)> enqueue) noexcept;
// Same as run_copy, asynchronously on a stream.
error run_copy_with_ticket(ferry_instance &instance, const ferry_copy_desc &copy, const call_options &options,
                           CUstream stream, ferry_ticket *&ticket) noexcept;
// Must be called before and after other work for the ticket is enqueued on the stream, whose context must be current.
// Both ignore a null ticket. Work that becomes part of a graph cannot have a ticket.
error begin_ticket(ferry_ticket *ticket, CUstream stream) noexcept;
error end_ticket(ferry_ticket *ticket, CUstream stream) noexcept;
// Creates a ticket for the work that is on the stream now.
error make_ticket(ferry_instance &instance, CUstream stream, ferry_ticket *&ticket) noexcept;
error query_ticket(ferry_ticket &ticket, ferry_ticket_info &info) noexcept;
// Waits until the copy is complete, and returns its status. A negative time is no limit. Returns FERRY_ERROR_NOT_READY
// if the copy is not complete after that time. Sets `failed_copy` if a file of a batch failed.
error wait_for_ticket(ferry_ticket &ticket, std::int64_t timeout_ns, error_item &failed_copy) noexcept;
// Waits until the work of any of the tickets has ended, and returns its index. At least one ticket is required.
error wait_for_any(ferry_ticket *const *tickets, std::uint64_t count, std::int64_t timeout_ns,
                   std::uint64_t &index) noexcept;
// See ferry_file.h.
error cancel_ticket(ferry_ticket &ticket) noexcept;
error write_ticket_status(ferry_ticket &ticket, std::uint64_t address, CUstream stream) noexcept;
// Makes later work on the stream wait for the work of the ticket.
error make_stream_wait(ferry_ticket &ticket, CUstream stream) noexcept;
error release_ticket(ferry_ticket &ticket) noexcept;

} // namespace ferry
