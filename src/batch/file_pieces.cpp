#include "batch/file_pieces.h"

#include <algorithm>

#include "base/checked.h"
#include "batch/request.h"
#include "batch/steps.h"
#include "device/capture_mode.h"
#include "device/stream_order.h"
#include "plan/staged_chunks.h"
#include "routes/devices_at_work.h"
#include "routes/driver.h"
#include "routes/ends.h"
#include "routes/staged.h"
#include "submit/note_error.h"
#include "submit/ticket.h"

namespace ferry {

namespace {

class file_pieces {
public:
    file_pieces(ferry_instance &instance, const batch_input &input, copy_form form, CUstream stream,
                batch_request &request) noexcept
        : instance_(instance), input_(input), form_(form), stream_(stream), request_(request),
          pieces_(request.pageable[0].pieces) {}

    // Checks all pieces, and prepares the device. Enters the copy's context. Empty if no piece has a byte.
    error prepare(context_scope &scope) noexcept;
    bool is_empty() const noexcept { return pieces_.size() == 0; }
    error run(ferry_ticket *ticket) noexcept;
    void explain(ferry_batch_explanation &found) const noexcept;
    bool are_copies() const noexcept { return are_copies_; }

private:
    error enter(context_scope &scope) noexcept;
    error check() noexcept;
    error check_one(const ferry_piece &piece, std::uint64_t file_size) noexcept;
    error add_device_memory(const ferry_piece &piece) noexcept;
    bool append(std::uint64_t device, std::uint64_t offset, std::uint64_t size) noexcept;
    error make_ready() noexcept;
    const copy_preferences &wanted() const noexcept { return input_.options.preferences; }
    std::uint32_t max_blocks() const noexcept;
    bool note_ends(ferry_ticket &ticket) const noexcept;
    std::uint64_t index_at(std::uint64_t bytes_before) const noexcept;
    bool is_waited_for() const noexcept { return form_ == copy_form::synchronous; }

    ferry_instance &instance_;
    const batch_input &input_;
    const copy_form form_;
    const CUstream stream_;
    batch_request &request_;
    growing<staged_piece> &pieces_;
    std::uint64_t bytes_ = 0;
    bool are_copies_ = false;
};

error refuse_destination(std::int32_t status, std::uint64_t address) noexcept {
    return refuse_value(status, FERRY_SIDE_DESTINATION, FERRY_FIELD_ADDRESS, address);
}

error file_pieces::prepare(context_scope &scope) noexcept {
    pieces_.clear();
    if (error failed = enter(scope)) return failed;
    if (error failed = check()) return failed;
    if (is_empty()) return {};
    bool is_captured = false;
    if (!is_waited_for())
        if (error failed = query_capture(instance_.cu, stream_, is_captured)) return failed;
    if (is_captured) return refuse(FERRY_ERROR_CAPTURE, FERRY_SIDE_PIECES, FERRY_FIELD_SOURCE_FILE);
    return make_ready();
}

// For the default streams of a thread without a context, the context of the first destination's device.
error file_pieces::enter(context_scope &scope) noexcept {
    const auto find_device = [&](int &device) noexcept -> error {
        for (std::uint64_t i = 0; i < input_.count; ++i) {
            const ferry_piece piece = input_.pieces[i];
            if (piece.size == 0) continue;
            address_facts facts;
            if (error failed = look_up_address(instance_.cu, piece.destination, address_query::kind_only, facts))
                return failed;
            device = facts.device;
            break;
        }
        return require_context(instance_.contexts, wanted(), std::max(device, 0));
    };
    context_choice &choice = request_.context;
    if (error failed = choose_context_by(instance_.cu, instance_.contexts, stream_, find_device, choice)) return failed;
    if (error failed = scope.enter(choice.wanted, choice.current)) return failed;
    return instance_.contexts.device_of_current(choice.wanted, request_.context_device);
}

error file_pieces::check() noexcept {
    const open_file &file = input_.source_file->file;
    if (!file.may_read())
        return refuse(FERRY_ERROR_HANDLE, FERRY_SIDE_PIECES, FERRY_FIELD_SOURCE_FILE, numbers::opened, FERRY_FILE_READ,
                      access_of(file));
    std::uint64_t file_size = 0;
    if (const std::int32_t code = file.measure(file_size)) {
        error failed = to_error(file_failure{code});
        failed.side = FERRY_SIDE_PIECES;
        failed.field = FERRY_FIELD_SOURCE_FILE;
        return failed;
    }
    if (error failed = request_.ranges.begin(instance_.cu, request_.context.wanted, request_.context_device, stream_,
                                             file_size, {}))
        return failed;
    for (std::uint64_t i = 0; i < input_.count; ++i) {
        const ferry_piece piece = input_.pieces[i];
        if (piece.size == 0) continue;
        if (error failed = check_one(piece, file_size)) {
            request_.bad_index = i;
            return failed;
        }
    }
    return {};
}

error file_pieces::check_one(const ferry_piece &piece, std::uint64_t file_size) noexcept {
    if (!piece.destination) return refuse_destination(FERRY_ERROR_ADDRESS, 0);
    if (piece.size - 1 > UINT64_MAX - piece.destination)
        return refuse(FERRY_ERROR_OVERFLOW, FERRY_SIDE_PIECES, FERRY_FIELD_SIZE, numbers::at_most,
                      UINT64_MAX - piece.destination + 1, piece.size);
    if (piece.size > file_size || piece.source > file_size - piece.size)
        return refuse(FERRY_ERROR_OUT_OF_BOUNDS, FERRY_SIDE_SOURCE, FERRY_FIELD_OFFSET, numbers::end, file_size,
                      add_at_most(piece.source, piece.size));
    return add_device_memory(piece);
}

// Memory that is mapped from several allocations is added in parts.
error file_pieces::add_device_memory(const ferry_piece &piece) noexcept {
    for (std::uint64_t done = 0; done < piece.size;) {
        const std::uint64_t address = piece.destination + done, left = piece.size - done;
        std::uint32_t index = known_ranges::unknown;
        if (error failed = request_.ranges.find(address, left, -1, index))
            return on_side(failed, FERRY_SIDE_DESTINATION);
        const known_range &range = request_.ranges[index];
        if (range.kind == memory_kind::pageable && done != 0) // past the end of an allocation
            return refuse(FERRY_ERROR_OUT_OF_BOUNDS, FERRY_SIDE_DESTINATION, FERRY_FIELD_ADDRESS, numbers::end, address,
                          piece.destination + piece.size);
        are_copies_ = range.kind != memory_kind::device || range.device != request_.context_device || !range.is_reached;
        if (are_copies_) return refuse_destination(FERRY_ERROR_UNSUPPORTED, address);
        const std::uint64_t step = std::min(left, range.room_from(address));
        if (!append(address + range.alias, piece.source + done, step)) return no_memory;
        done += step;
    }
    bytes_ += piece.size;
    return {};
}

// Appends to the last piece if that is next to this one at both ends.
bool file_pieces::append(std::uint64_t device, std::uint64_t offset, std::uint64_t size) noexcept {
    if (pieces_.size() != 0) {
        staged_piece &last = *(pieces_.end() - 1);
        if (last.device + last.size == device && last.host + last.size == offset) {
            last.size += size;
            return true;
        }
    }
    return pieces_.append({device, offset, size});
}

error file_pieces::make_ready() noexcept {
    const copy_preferences &preferences = wanted();
    const bool may_wait = !preferences.no_wait;
    if (preferences.forced != route_kind::none && preferences.forced != route_kind::staged)
        return refuse_route(obstacle::file);
    if (!may_wait && is_waited_for()) return refuse_route(obstacle::waits);
    if (!instance_.stages) return refuse_route(obstacle::no_staging);
    const bool has_kernels = !preferences.no_kernels && instance_.kernels.may_serve();
    if (has_kernels && instance_.kernels.load_into(request_.context.wanted, may_wait))
        return refuse_route(may_wait ? obstacle::not_loaded : obstacle::not_prepared);
    are_copies_ = !has_kernels;
    if (are_copies_) return refuse_route(obstacle::forbidden);
    if (!is_waited_for() && !is_ready_to_stage(instance_, request_.context_device, may_wait))
        return refuse_route(may_wait ? obstacle::no_staging : obstacle::not_prepared);
    return {};
}

// The limit of the options, and a limit for slow files. 0: none.
std::uint32_t file_pieces::max_blocks() const noexcept {
    constexpr std::size_t samples = 8;
    const std::uint32_t limit = wanted().max_blocks;
    const std::size_t step = std::max<std::size_t>(pieces_.size() / samples, 1);
    bool is_slow = false;
    for (std::size_t i = 0; i < pieces_.size() && !is_slow; i += step)
        is_slow = input_.source_file->file.is_slow(pieces_[i].host, 1);
    if (!is_slow) return limit;
    return limit ? std::min<std::uint32_t>(limit, blocks_for_slow_files) : blocks_for_slow_files;
}

// So that the ticket finds the entry of a byte when the program's array may be gone. Returns false if memory runs out.
bool file_pieces::note_ends(ferry_ticket &ticket) const noexcept {
    ticket.item = FERRY_ITEM_PIECE;
    if (!ticket.piece_ends.reserve(input_.count)) return false;
    std::uint64_t end = 0;
    for (std::uint64_t i = 0; i < input_.count; ++i)
        ticket.piece_ends.append_reserved(end += input_.pieces.size(i));
    return true;
}

// The entry of a byte, from the number of bytes of all entries before it.
std::uint64_t file_pieces::index_at(std::uint64_t bytes_before) const noexcept {
    std::uint64_t index = 0;
    while (index + 1 < input_.count && bytes_before >= input_.pieces.size(index))
        bytes_before -= input_.pieces.size(index++);
    return index;
}

error file_pieces::run(ferry_ticket *ticket) noexcept {
    if (!ticket && !is_waited_for())
        return refuse_value(FERRY_ERROR_INVALID_ARGUMENT, FERRY_SIDE_NONE, FERRY_FIELD_TICKET, 0);
    if (ticket && !note_ends(*ticket)) return no_memory;
    if (error failed = begin_ticket(ticket, stream_)) return failed;
    staged_progress of_call;
    staged_progress &progress = ticket ? ticket->progress : of_call;
    const staged_copy copy = {.box = {.device = {},
                                      .host = {},
                                      .width = 0,
                                      .height = 0,
                                      .depth = 0,
                                      .to_device = true,
                                      .file = input_.source_file},
                              .pieces = {pieces_.begin(), pieces_.size(), bytes_},
                              .device = request_.context_device,
                              .context = request_.context.wanted,
                              .blocks = max_blocks(),
                              .caller_helps = is_waited_for(),
                              .may_wait = !wanted().no_wait};
    const error failed = instance_.staging.enqueue(copy, stream_, &progress);
    if (lacks_room(failed) && wanted().no_wait)
        return refuse_route(failed.status == FERRY_ERROR_LIMIT ? obstacle::busy : obstacle::not_prepared);
    if (!failed) {
        instance_.counters.add(request_.context_device, route_kind::staged, stream_, input_.count, bytes_);
        if (instance_.trace) instance_.trace.note(route_kind::staged, request_.context.wanted);
    }
    if (ticket) {
        if (failed) return failed;
        ticket->is_staged = true;
        ticket->has_file = true;
        ticket->route = FERRY_ROUTE_STAGED;
        return end_ticket(ticket, stream_);
    }
    const error helped = instance_.staging.help(progress);
    if (failed) return failed;
    if (helped.status == FERRY_ERROR_FILE) {
        request_.bad_index = index_at(progress.failed_at);
        return to_error(progress.failure);
    }
    if (helped) return helped;
    return wait_for_devices(instance_, request_.context.wanted, stream_);
}

void file_pieces::explain(ferry_batch_explanation &found) const noexcept {
    found.context_device = request_.context_device;
    found.staged = {.copies = pieces_.size(), .bytes = bytes_, .predicted_ns = 0, .reserved = 0};
    const std::uint32_t blocks = blocks_for_threads(instance_.file_threads, true, true), limit = max_blocks();
    found.max_sms = limit ? std::min(limit, blocks) : blocks;
    found.threads = instance_.file_threads;
    found.blocks = static_cast<std::int32_t>(blocking::no);
}

// Calls work(pieces) with the checked pieces, unless they are empty.
error with_pieces(ferry_instance &instance, const batch_input &input, copy_form form, CUstream stream,
                  std::uint64_t &bad_index, bool &are_copies, function_ref<error(file_pieces &)> work) noexcept {
    const borrowed_request borrowed(instance.requests);
    if (!borrowed) return no_memory;
    batch_request &request = *borrowed;
    request.context = {};
    request.bad_index = no_index;
    context_scope scope(instance.cu);
    file_pieces pieces(instance, input, form, stream, request);
    error failed = pieces.prepare(scope);
    are_copies = pieces.are_copies();
    if (are_copies) return failed;
    if (!failed && !pieces.is_empty()) failed = work(pieces);
    bad_index = request.bad_index;
    return noted(instance, failed);
}

} // namespace

error run_file_pieces(ferry_instance &instance, const batch_input &input, copy_form form, CUstream stream,
                      ferry_ticket *ticket, std::uint64_t &bad_index, bool &are_copies) noexcept {
    return with_pieces(instance, input, form, stream, bad_index, are_copies,
                       [&](file_pieces &pieces) noexcept { return pieces.run(ticket); });
}

error explain_file_pieces(ferry_instance &instance, const batch_input &input, CUstream stream,
                          ferry_batch_explanation &found, std::uint64_t &bad_index, bool &are_copies) noexcept {
    found = {};
    found.context_device = -1;
    return with_pieces(instance, input, copy_form::asynchronous, stream, bad_index, are_copies,
                       [&](file_pieces &pieces) noexcept {
                           pieces.explain(found);
                           return ok;
                       });
}

} // namespace ferry
