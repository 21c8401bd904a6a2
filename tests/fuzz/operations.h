// The operations of the fuzzer, one function for each kind. operations.cpp has the table.
#pragma once

#include "fuzz/world.h"

namespace ferry::test {

// copy_operations.cpp
void copy_on_a_stream(world &);
void copy_with_a_ticket(world &);
void copy_at_once(world &);
void copy_bytes_on_a_stream(world &);
void copy_bytes_at_once(world &);
void nest_on_a_stream(world &w);
void copy_on_a_held_stream(world &);
void query_a_ticket(world &);
void make_a_stream_wait_for_a_ticket(world &);

// fill_operations.cpp
void fill_on_a_stream(world &);
void fill_at_once(world &);
void write_by_a_host_function(world &);
void write_by_the_program(world &);
void hold_a_stream(world &);

// file_operations.cpp
void read_a_file_on_a_stream(world &);
void write_a_file(world &);
void resize_a_file(world &);
void resize_a_file_during_a_copy(world &);

// batch_operations.cpp
void batch_on_a_stream(world &);
void batch_at_once(world &);
void pieces_on_a_stream(world &);
void pieces_at_once(world &);
void batch_with_files_on_a_stream(world &);
void batch_with_files_at_once(world &);
void pieces_of_a_file_on_a_stream(world &);
void pieces_of_a_file_at_once(world &);
void prepare_a_batch(world &);
void launch_a_prepared_batch(world &);
void set_addresses(world &);
void destroy_a_prepared_batch(world &);

// graph_operations.cpp
void capture_a_graph(world &);
void launch_a_graph(world &);
void destroy_a_graph(world &);

// memory_operations.cpp
void replace_a_buffer(world &);
void register_another_part(world &);
void reallocate_in_stream_order(world &);
void trim_staging(world &);
void trim_pools(world &);
void prepare_staging(world &);
void change_peer_access(world &);
void wait_for_a_stream(world &);
void compare_everything(world &);

// query_operations.cpp
void query_an_address(world &);
void query_the_rest(world &);
void push_and_pop_contexts(world &);
void share_with_itself(world &);
void import_forged_handles(world &);
void end_a_context(world &);
void save_and_load_a_profile(world &);

// overlap_operations.cpp
void copy_within_a_buffer(world &);
void pieces_within_a_buffer(world &);

// refused_operations.cpp
void refused_copy(world &);
void refused_options(world &);
void refused_batch(world &);
void refused_fill(world &);
void refused_calls(world &);

// ---- Shared helpers

buffer &any_buffer(world &of);
// Returns whether a fill on the lane reaches the buffer.
bool is_filled_on(const buffer &to, const lane &on);
// Returns the buffer written last in half of the cases, else any.
buffer &any_source(world &of);
drawn_copy any_copy(world &of);
// Returns whether no other lane works on the buffer.
bool is_only_of(const buffer &one, std::size_t lane);
// Whether the options force a route whose slots or streams may all be in use. The call then fails with
// FERRY_ERROR_LIMIT.
bool may_exceed_limits(const how &options);
bool is_forced(const how &options);
// Whether the call was refused because it would have waited. It must have done nothing.
bool would_block(world &w, std::int32_t status, const ferry_error_info &error, const how &options);
// Adds NO_WAIT now and then.
how may_forbid_waits(world &w, const how &options);
// The program writes to the source again.
void overwrite_source(const drawn_copy &drawn);
// The buffers that are not among `taken`.
std::vector<buffer *> buffers_beside(world &of, const std::vector<buffer *> &taken);
std::string describe_status(std::int32_t status, const ferry_error_info &error);

} // namespace ferry::test
