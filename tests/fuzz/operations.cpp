#include "fuzz/operations.h"

#include <algorithm>
#include <cstring>

namespace ferry::test {

const operation operations[] = {
    {"copy on a stream", 24, copy_on_a_stream},
    {"copy with a ticket", 10, copy_with_a_ticket},
    {"synchronous copy", 10, copy_at_once},
    {"copy of bytes on a stream", 6, copy_bytes_on_a_stream},
    {"synchronous copy of bytes", 3, copy_bytes_at_once},
    {"nest on a stream", 6, nest_on_a_stream},
    {"copy on a held stream", 4, copy_on_a_held_stream, true},
    {"ticket queried", 8, query_a_ticket},
    {"stream waiting for a ticket", 4, make_a_stream_wait_for_a_ticket},
    {"fill on a stream", 6, fill_on_a_stream},
    {"synchronous fill", 3, fill_at_once},
    {"file read on a stream", 3, read_a_file_on_a_stream},
    {"file written", 2, write_a_file},
    {"file made shorter or longer", 3, resize_a_file},
    {"file made shorter or longer during a copy", 3, resize_a_file_during_a_copy, true},
    {"write by a host function", 6, write_by_a_host_function},
    {"write by the program", 4, write_by_the_program},
    {"held stream", 6, hold_a_stream},
    {"batch on a stream", 4, batch_on_a_stream},
    {"synchronous batch", 2, batch_at_once},
    {"pieces on a stream", 3, pieces_on_a_stream},
    {"synchronous pieces", 1, pieces_at_once},
    {"batch with files on a stream", 4, batch_with_files_on_a_stream},
    {"synchronous batch with files", 2, batch_with_files_at_once},
    {"pieces of a file on a stream", 2, pieces_of_a_file_on_a_stream},
    {"synchronous pieces of a file", 1, pieces_of_a_file_at_once},
    {"prepared batch made", 3, prepare_a_batch},
    {"prepared batch launched", 6, launch_a_prepared_batch},
    {"prepared addresses set", 3, set_addresses},
    {"prepared batch destroyed", 1, destroy_a_prepared_batch},
    // Waiting for a context breaks the captures on its streams, on whichever thread.
    {"graph captured", 3, capture_a_graph, true},
    {"graph launched", 7, launch_a_graph},
    {"graph destroyed", 1, destroy_a_graph},
    {"buffer replaced", 3, replace_a_buffer},
    {"part registered", 3, register_another_part},
    {"memory freed and allocated in stream order", 3, reallocate_in_stream_order},
    {"staging trimmed", 1, trim_staging},
    {"pools trimmed", 1, trim_pools},
    {"staging prepared", 1, prepare_staging},
    {"peer access changed", 1, change_peer_access, true},
    {"stream waited for", 4, wait_for_a_stream},
    {"everything compared", 2, compare_everything},
    {"address queried", 4, query_an_address},
    {"other queries", 2, query_the_rest},
    {"contexts pushed and popped", 1, push_and_pop_contexts},
    {"memory, pools and events shared", 2, share_with_itself},
    {"forged handles of imported memory", 2, import_forged_handles},
    {"context that ends with a copy in flight", 1, end_a_context, true},
    {"profile saved and loaded", 1, save_and_load_a_profile},
    {"copy within a buffer", 4, copy_within_a_buffer},
    {"pieces within a buffer", 3, pieces_within_a_buffer},
    {"refused copy", 6, refused_copy},
    {"refused options", 4, refused_options},
    {"refused batch", 2, refused_batch},
    {"refused fill", 2, refused_fill},
    {"refused calls", 1, refused_calls},
};
const std::size_t operation_count = std::size(operations);

namespace {

std::atomic<std::uint64_t> runs[std::size(operations)], compared = 0, steps = 0;

} // namespace

void count_run(std::size_t operation) { ++runs[operation]; }
std::uint64_t runs_of(std::size_t operation) { return runs[operation]; }
void count_checked(std::uint64_t bytes) { compared += bytes; }
std::uint64_t checked_bytes() { return compared; }
void note_step() { ++steps; }
std::uint64_t fuzz_steps() { return steps; }

buffer &any_buffer(world &of) { return *of.random.among(of.buffers); }

bool is_filled_on(const buffer &to, const lane &on) {
    // Memory of another process is filled only in the context that opened it.
    if (to.kind == memory_kind::imported && std::strcmp(on.name, "of another context") == 0) return false;
    return to.traits().is_on_host || on.device == to.device;
}

buffer &any_source(world &of) { return of.last_written && of.random.one_in(2) ? *of.last_written : any_buffer(of); }

drawn_copy any_copy(world &of) {
    drawn_copy drawn;
    while (!draw_copy(of.random, any_source(of), any_buffer(of), drawn)) {
    }
    return drawn;
}

bool is_only_of(const buffer &one, std::size_t lane) {
    return ((one.readers | one.writers) & ~(std::uint32_t{1} << lane)) == 0;
}

void overwrite_source(const drawn_copy &drawn) {
    buffer &from = *drawn.source.in;
    for (std::uint64_t z = 0; z < drawn.size.depth; ++z)
        for (std::uint64_t y = 0; y < drawn.size.height; ++y) {
            const std::uint64_t at = drawn.source.offset_of(y, z);
            std::memset(&from.model[at], 0x5c, drawn.size.width);
            std::memset(from.bytes_on_host() + at, 0x5c, drawn.size.width);
        }
}

std::vector<buffer *> buffers_beside(world &of, const std::vector<buffer *> &taken) {
    std::vector<buffer *> found;
    for (const auto &one : of.buffers)
        if (std::find(taken.begin(), taken.end(), one.get()) == taken.end()) found.push_back(one.get());
    return found;
}

bool is_forced(const how &options) { return options.fields().route != FERRY_ROUTE_AUTO; }

bool would_block(world &w, std::int32_t status, const ferry_error_info &error, const how &options) {
    if (status != FERRY_ERROR_WOULD_BLOCK || !options.has(no_wait)) return false;
    w.expect(error.side == FERRY_SIDE_OPTIONS && error.field == FERRY_FIELD_FLAGS,
             "the error info does not name the flags of the options");
    w.expect(error.value >= FERRY_OBSTACLE_WAITS && error.value <= FERRY_OBSTACLE_BUSY,
             "the error info does not say why the call would wait");
    return true;
}

how may_forbid_waits(world &w, const how &options) {
    const bool is_drawn = w.random.one_in(6);
    return is_drawn && w.run.forbids_waits ? options | no_wait : options;
}

// Forced staging needs free slots where the options or the memory exclude kernels. Relays need streams.
bool may_exceed_limits(const how &options) { return options.has(by_staging) || options.has(by_relay); }

std::string describe_status(std::int32_t status, const ferry_error_info &error) {
    return std::string(ferry_status_name(status)) + ", " + describe(error);
}

} // namespace ferry::test
