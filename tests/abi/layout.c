/*
 * The size of every public struct and the offset of every field, held at compile time. ferry_place, ferry_copy_desc and
 * ferry_fill_desc are frozen for good; the others may only grow at their end. Each field begins where the one before it
 * ends, so no compiler's padding is part of the ABI.
 */
#include "ferry/ferry_all.h"

#define JOIN(a, b) a##b
#define NAME(line) JOIN(assertion_, line)
#define ASSERT(condition)                                                                                              \
    struct NAME(__LINE__) {                                                                                            \
        char holds[(condition) ? 1 : -1];                                                                              \
    }

#define SIZE_OF(type, field) sizeof(((type *)0)->field)
#define END_OF(type, field) (offsetof(type, field) + SIZE_OF(type, field))
#define FIRST(type, field) ASSERT(offsetof(type, field) == 0)
#define NEXT(type, before, field, offset) ASSERT(offsetof(type, field) == (offset) && END_OF(type, before) == (offset))
#define LAST(type, field, size) ASSERT(sizeof(type) == (size) && END_OF(type, field) == (size))

ASSERT(sizeof(void *) == 8);

FIRST(ferry_place, kind);
NEXT(ferry_place, kind, device, 4);
NEXT(ferry_place, device, address, 8);
NEXT(ferry_place, address, array, 16);
NEXT(ferry_place, array, row_pitch, 24);
NEXT(ferry_place, row_pitch, slice_height, 32);
NEXT(ferry_place, slice_height, x, 40);
NEXT(ferry_place, x, y, 48);
NEXT(ferry_place, y, z, 56);
NEXT(ferry_place, z, file, 64);
NEXT(ferry_place, file, reserved, 72);
LAST(ferry_place, reserved, 96);

FIRST(ferry_copy_desc, destination);
NEXT(ferry_copy_desc, destination, source, 96);
NEXT(ferry_copy_desc, source, width, 192);
NEXT(ferry_copy_desc, width, height, 200);
NEXT(ferry_copy_desc, height, depth, 208);
NEXT(ferry_copy_desc, depth, reserved, 216);
LAST(ferry_copy_desc, reserved, 256);

FIRST(ferry_axis, count);
NEXT(ferry_axis, count, stride, 8);
NEXT(ferry_axis, stride, indices, 16);
NEXT(ferry_axis, indices, index_limit, 24);
NEXT(ferry_axis, index_limit, index_type, 32);
NEXT(ferry_axis, index_type, index_memory, 36);
NEXT(ferry_axis, index_memory, reserved, 40);
LAST(ferry_axis, reserved, 56);

FIRST(ferry_nest_end, place);
NEXT(ferry_nest_end, place, axes, 96);
LAST(ferry_nest_end, axes, 432);

FIRST(ferry_nest, destination);
NEXT(ferry_nest, destination, source, 432);
NEXT(ferry_nest, source, width, 864);
NEXT(ferry_nest, width, axes, 872);
NEXT(ferry_nest, axes, reserved_32, 876);
NEXT(ferry_nest, reserved_32, skipped, 880);
NEXT(ferry_nest, skipped, reserved, 888);
LAST(ferry_nest, reserved, 920);

FIRST(ferry_piece, destination);
NEXT(ferry_piece, destination, source, 8);
NEXT(ferry_piece, source, size, 16);
LAST(ferry_piece, size, 24);

FIRST(ferry_piece_list, struct_size);
NEXT(ferry_piece_list, struct_size, reserved, 4);
NEXT(ferry_piece_list, reserved, count, 8);
NEXT(ferry_piece_list, count, destinations, 16);
NEXT(ferry_piece_list, destinations, sources, 24);
NEXT(ferry_piece_list, sources, sizes, 32);
NEXT(ferry_piece_list, sizes, stride, 40);
NEXT(ferry_piece_list, stride, source_file, 48);
LAST(ferry_piece_list, source_file, 56);

FIRST(ferry_copy_options, struct_size);
NEXT(ferry_copy_options, struct_size, flags, 4);
NEXT(ferry_copy_options, flags, route, 8);
NEXT(ferry_copy_options, route, priority, 12);
NEXT(ferry_copy_options, priority, source_order, 16);
NEXT(ferry_copy_options, source_order, max_sms, 20);
NEXT(ferry_copy_options, max_sms, tag, 24);
LAST(ferry_copy_options, tag, 32);

FIRST(ferry_fill_desc, destination);
NEXT(ferry_fill_desc, destination, width, 96);
NEXT(ferry_fill_desc, width, height, 104);
NEXT(ferry_fill_desc, height, depth, 112);
NEXT(ferry_fill_desc, depth, pattern, 120);
NEXT(ferry_fill_desc, pattern, pattern_size, 136);
NEXT(ferry_fill_desc, pattern_size, reserved0, 140);
NEXT(ferry_fill_desc, reserved0, reserved, 144);
LAST(ferry_fill_desc, reserved, 192);

FIRST(ferry_error_info, struct_size);
NEXT(ferry_error_info, struct_size, status, 4);
NEXT(ferry_error_info, status, side, 8);
NEXT(ferry_error_info, side, field, 12);
NEXT(ferry_error_info, field, index, 16);
NEXT(ferry_error_info, index, limit, 24);
NEXT(ferry_error_info, limit, value, 32);
NEXT(ferry_error_info, value, driver_function, 40);
NEXT(ferry_error_info, driver_function, item, 48);
NEXT(ferry_error_info, item, numbers, 52);
LAST(ferry_error_info, numbers, 56);

FIRST(ferry_options, struct_size);
NEXT(ferry_options, struct_size, driver, 4);
NEXT(ferry_options, driver, checks, 8);
NEXT(ferry_options, checks, kernels, 12);
NEXT(ferry_options, kernels, driver_options, 16);
NEXT(ferry_options, driver_options, get_proc, 24);
NEXT(ferry_options, get_proc, get_proc_user, 32);
NEXT(ferry_options, get_proc_user, log, 40);
NEXT(ferry_options, log, log_user, 48);
NEXT(ferry_options, log_user, allocate, 56);
NEXT(ferry_options, allocate, deallocate, 64);
NEXT(ferry_options, deallocate, allocate_user, 72);
NEXT(ferry_options, allocate_user, register_chunk, 80);
NEXT(ferry_options, register_chunk, deferred_bytes, 88);
NEXT(ferry_options, deferred_bytes, copy_options, 96);
NEXT(ferry_options, copy_options, staging, 104);
NEXT(ferry_options, staging, staging_threads, 108);
NEXT(ferry_options, staging_threads, staging_priority, 112);
NEXT(ferry_options, staging_priority, staging_niceness, 116);
NEXT(ferry_options, staging_niceness, staging_bytes, 120);
NEXT(ferry_options, staging_bytes, submit, 128);
NEXT(ferry_options, submit, submit_user, 136);
NEXT(ferry_options, submit_user, staging_numa, 144);
NEXT(ferry_options, staging_numa, staging_numa_node, 148);
NEXT(ferry_options, staging_numa_node, staging_cpus, 152);
NEXT(ferry_options, staging_cpus, staging_cpu_count, 160);
NEXT(ferry_options, staging_cpu_count, trace_phases, 164);
NEXT(ferry_options, trace_phases, trace, 168);
NEXT(ferry_options, trace, trace_user, 176);
NEXT(ferry_options, trace_user, max_pinned_bytes, 184);
NEXT(ferry_options, max_pinned_bytes, max_device_bytes, 192);
NEXT(ferry_options, max_device_bytes, max_threads, 200);
NEXT(ferry_options, max_threads, reserved, 204);
LAST(ferry_options, reserved, 208);

FIRST(ferry_trace_event, struct_size);
NEXT(ferry_trace_event, struct_size, kind, 4);
NEXT(ferry_trace_event, kind, id, 8);
NEXT(ferry_trace_event, id, begin_ns, 16);
NEXT(ferry_trace_event, begin_ns, returned_ns, 24);
NEXT(ferry_trace_event, returned_ns, done_ns, 32);
NEXT(ferry_trace_event, done_ns, bytes, 40);
NEXT(ferry_trace_event, bytes, count, 48);
NEXT(ferry_trace_event, count, stream, 56);
NEXT(ferry_trace_event, stream, routes, 64);
NEXT(ferry_trace_event, routes, status, 68);
NEXT(ferry_trace_event, status, device, 72);
NEXT(ferry_trace_event, device, is_synchronous, 76);
NEXT(ferry_trace_event, is_synchronous, phase, 80);
NEXT(ferry_trace_event, phase, reserved, 84);
NEXT(ferry_trace_event, reserved, tag, 88);
LAST(ferry_trace_event, tag, 96);

FIRST(ferry_ticket_info, struct_size);
NEXT(ferry_ticket_info, struct_size, done, 4);
NEXT(ferry_ticket_info, done, status, 8);
NEXT(ferry_ticket_info, status, route, 12);
NEXT(ferry_ticket_info, route, bytes_done, 16);
NEXT(ferry_ticket_info, bytes_done, bytes_total, 24);
NEXT(ferry_ticket_info, bytes_total, tag, 32);
NEXT(ferry_ticket_info, tag, file_offset, 40);
NEXT(ferry_ticket_info, file_offset, file_error, 48);
NEXT(ferry_ticket_info, file_error, file_index, 52);
LAST(ferry_ticket_info, file_index, 56);

FIRST(ferry_file_options, struct_size);
NEXT(ferry_file_options, struct_size, flags, 4);
NEXT(ferry_file_options, flags, direct, 8);
NEXT(ferry_file_options, direct, max_threads, 12);
LAST(ferry_file_options, max_threads, 16);

FIRST(ferry_file_info, struct_size);
NEXT(ferry_file_info, struct_size, flags, 4);
NEXT(ferry_file_info, flags, size, 8);
LAST(ferry_file_info, size, 16);

FIRST(ferry_staging_info, struct_size);
NEXT(ferry_staging_info, struct_size, threads, 4);
NEXT(ferry_staging_info, threads, busy_threads, 8);
NEXT(ferry_staging_info, busy_threads, copies_in_flight, 12);
NEXT(ferry_staging_info, copies_in_flight, staging_bytes, 16);
NEXT(ferry_staging_info, staging_bytes, bytes_in_flight, 24);
NEXT(ferry_staging_info, bytes_in_flight, failed_files, 32);
LAST(ferry_staging_info, failed_files, 40);

FIRST(ferry_usage, struct_size);
NEXT(ferry_usage, struct_size, threads, 4);
NEXT(ferry_usage, threads, pinned_bytes, 8);
NEXT(ferry_usage, pinned_bytes, staging_bytes, 16);
NEXT(ferry_usage, staging_bytes, table_bytes, 24);
NEXT(ferry_usage, table_bytes, read_buffer_bytes, 32);
NEXT(ferry_usage, read_buffer_bytes, link_bytes, 40);
NEXT(ferry_usage, link_bytes, device_bytes, 48);
NEXT(ferry_usage, device_bytes, deferred_bytes, 56);
NEXT(ferry_usage, deferred_bytes, pinned_refused, 64);
NEXT(ferry_usage, pinned_refused, device_refused, 72);
NEXT(ferry_usage, device_refused, threads_refused, 80);
LAST(ferry_usage, threads_refused, 88);

FIRST(ferry_deferred_info, struct_size);
NEXT(ferry_deferred_info, struct_size, arrays, 4);
NEXT(ferry_deferred_info, arrays, allocations, 8);
NEXT(ferry_deferred_info, allocations, reserved, 12);
NEXT(ferry_deferred_info, reserved, bytes, 16);
LAST(ferry_deferred_info, bytes, 24);

FIRST(ferry_level_footprint, offset);
NEXT(ferry_level_footprint, offset, size, 8);
NEXT(ferry_level_footprint, size, row_pitch, 16);
NEXT(ferry_level_footprint, row_pitch, slice_height, 24);
NEXT(ferry_level_footprint, slice_height, width, 32);
NEXT(ferry_level_footprint, width, height, 40);
NEXT(ferry_level_footprint, height, depth, 48);
NEXT(ferry_level_footprint, depth, reserved, 56);
LAST(ferry_level_footprint, reserved, 64);

FIRST(ferry_device_memory_info, struct_size);
NEXT(ferry_device_memory_info, struct_size, reserved, 4);
NEXT(ferry_device_memory_info, reserved, total, 8);
NEXT(ferry_device_memory_info, total, free, 16);
NEXT(ferry_device_memory_info, free, pool_unused, 24);
NEXT(ferry_device_memory_info, pool_unused, deferred, 32);
LAST(ferry_device_memory_info, deferred, 40);

FIRST(ferry_report, struct_size);
NEXT(ferry_report, struct_size, driver, 4);
NEXT(ferry_report, driver, driver_version, 8);
NEXT(ferry_report, driver_version, device_count, 12);
NEXT(ferry_report, device_count, fallback_reason, 16);
NEXT(ferry_report, fallback_reason, missing_count, 20);
NEXT(ferry_report, missing_count, checks, 24);
NEXT(ferry_report, checks, failed_peers, 28);
NEXT(ferry_report, failed_peers, kernels, 32);
NEXT(ferry_report, kernels, kernels_loaded, 36);
NEXT(ferry_report, kernels_loaded, kernel_contexts, 40);
NEXT(ferry_report, kernel_contexts, staging, 44);
NEXT(ferry_report, staging, staging_threads, 48);
NEXT(ferry_report, staging_threads, uses_program_threads, 52);
NEXT(ferry_report, uses_program_threads, staging_bytes, 56);
LAST(ferry_report, staging_bytes, 64);

FIRST(ferry_device_info, struct_size);
NEXT(ferry_device_info, struct_size, device, 4);
NEXT(ferry_device_info, device, name, 8);
NEXT(ferry_device_info, name, uuid, 136);
NEXT(ferry_device_info, uuid, pci_address, 152);
NEXT(ferry_device_info, pci_address, total_memory, 184);
NEXT(ferry_device_info, total_memory, max_pitch, 192);
NEXT(ferry_device_info, max_pitch, is_software, 200);
NEXT(ferry_device_info, is_software, compute_major, 204);
NEXT(ferry_device_info, compute_major, compute_minor, 208);
NEXT(ferry_device_info, compute_minor, sm_count, 212);
NEXT(ferry_device_info, sm_count, copy_engine_count, 216);
NEXT(ferry_device_info, copy_engine_count, overlap, 220);
NEXT(ferry_device_info, overlap, unified_addressing, 224);
NEXT(ferry_device_info, unified_addressing, pageable_access, 228);
NEXT(ferry_device_info, pageable_access, pageable_uses_host_page_tables, 232);
NEXT(ferry_device_info, pageable_uses_host_page_tables, can_map_host_memory, 236);
NEXT(ferry_device_info, can_map_host_memory, host_register, 240);
NEXT(ferry_device_info, host_register, host_register_read_only, 244);
NEXT(ferry_device_info, host_register_read_only, registered_address_is_device_address, 248);
NEXT(ferry_device_info, registered_address_is_device_address, managed_memory, 252);
NEXT(ferry_device_info, managed_memory, concurrent_managed_access, 256);
NEXT(ferry_device_info, concurrent_managed_access, memory_pools, 260);
NEXT(ferry_device_info, memory_pools, pool_handle_types, 264);
NEXT(ferry_device_info, pool_handle_types, numa_node, 268);
NEXT(ferry_device_info, numa_node, integrated, 272);
NEXT(ferry_device_info, integrated, texture_pitch_alignment, 276);
NEXT(ferry_device_info, texture_pitch_alignment, host_memory_pools, 280);
NEXT(ferry_device_info, host_memory_pools, host_numa_memory_pools, 284);
NEXT(ferry_device_info, host_numa_memory_pools, ipc_events, 288);
NEXT(ferry_device_info, ipc_events, reserved, 292);
NEXT(ferry_device_info, reserved, luid, 296);
NEXT(ferry_device_info, luid, luid_node_mask, 304);
NEXT(ferry_device_info, luid_node_mask, reserved1, 308);
LAST(ferry_device_info, reserved1, 312);

FIRST(ferry_peer_info, struct_size);
NEXT(ferry_peer_info, struct_size, device, 4);
NEXT(ferry_peer_info, device, peer, 8);
NEXT(ferry_peer_info, peer, can_access, 12);
NEXT(ferry_peer_info, can_access, driver_can_access, 16);
NEXT(ferry_peer_info, driver_can_access, probe, 20);
NEXT(ferry_peer_info, probe, performance_rank, 24);
NEXT(ferry_peer_info, performance_rank, native_atomics, 28);
NEXT(ferry_peer_info, native_atomics, array_access, 32);
NEXT(ferry_peer_info, array_access, reserved, 36);
NEXT(ferry_peer_info, reserved, direct_mb_per_s, 40);
NEXT(ferry_peer_info, direct_mb_per_s, bounce_mb_per_s, 44);
NEXT(ferry_peer_info, bounce_mb_per_s, relay_mb_per_s, 48);
NEXT(ferry_peer_info, relay_mb_per_s, relay_fixed_ns, 52);
NEXT(ferry_peer_info, relay_fixed_ns, direct_fixed_ns, 56);
NEXT(ferry_peer_info, direct_fixed_ns, link_to_mb_per_s, 60);
NEXT(ferry_peer_info, link_to_mb_per_s, link_from_mb_per_s, 64);
LAST(ferry_peer_info, link_from_mb_per_s, 68);

FIRST(ferry_multilink_options, struct_size);
NEXT(ferry_multilink_options, struct_size, max_sms, 4);
NEXT(ferry_multilink_options, max_sms, helpers, 8);
NEXT(ferry_multilink_options, helpers, helper_count, 16);
NEXT(ferry_multilink_options, helper_count, reserved, 20);
LAST(ferry_multilink_options, reserved, 24);

FIRST(ferry_external_memory_desc, struct_size);
NEXT(ferry_external_memory_desc, struct_size, device, 4);
NEXT(ferry_external_memory_desc, device, handle_type, 8);
NEXT(ferry_external_memory_desc, handle_type, flags, 12);
NEXT(ferry_external_memory_desc, flags, handle, 16);
NEXT(ferry_external_memory_desc, handle, name, 24);
NEXT(ferry_external_memory_desc, name, size, 32);
LAST(ferry_external_memory_desc, size, 40);

FIRST(ferry_external_semaphore_desc, struct_size);
NEXT(ferry_external_semaphore_desc, struct_size, device, 4);
NEXT(ferry_external_semaphore_desc, device, handle_type, 8);
NEXT(ferry_external_semaphore_desc, handle_type, reserved, 12);
NEXT(ferry_external_semaphore_desc, reserved, handle, 16);
NEXT(ferry_external_semaphore_desc, handle, name, 24);
LAST(ferry_external_semaphore_desc, name, 32);

FIRST(ferry_array_desc, struct_size);
NEXT(ferry_array_desc, struct_size, format, 4);
NEXT(ferry_array_desc, format, channels, 8);
NEXT(ferry_array_desc, channels, flags, 12);
NEXT(ferry_array_desc, flags, width, 16);
NEXT(ferry_array_desc, width, height, 24);
NEXT(ferry_array_desc, height, depth, 32);
LAST(ferry_array_desc, depth, 40);

FIRST(ferry_address_info, struct_size);
NEXT(ferry_address_info, struct_size, memory, 4);
NEXT(ferry_address_info, memory, device, 8);
NEXT(ferry_address_info, device, reserved, 12);
NEXT(ferry_address_info, reserved, range_start, 16);
NEXT(ferry_address_info, range_start, range_size, 24);
NEXT(ferry_address_info, range_size, device_address, 32);
NEXT(ferry_address_info, device_address, pool, 40);
LAST(ferry_address_info, pool, 48);

FIRST(ferry_explanation, struct_size);
NEXT(ferry_explanation, struct_size, route, 4);
NEXT(ferry_explanation, route, blocks, 8);
NEXT(ferry_explanation, blocks, synchronises, 12);
NEXT(ferry_explanation, synchronises, driver_call, 16);
NEXT(ferry_explanation, driver_call, context_device, 48);
NEXT(ferry_explanation, context_device, destination_memory, 52);
NEXT(ferry_explanation, destination_memory, destination_device, 56);
NEXT(ferry_explanation, destination_device, source_memory, 60);
NEXT(ferry_explanation, source_memory, source_device, 64);
NEXT(ferry_explanation, source_device, calls, 68);
NEXT(ferry_explanation, calls, width, 72);
NEXT(ferry_explanation, width, height, 80);
NEXT(ferry_explanation, height, depth, 88);
NEXT(ferry_explanation, depth, driver_ns, 96);
NEXT(ferry_explanation, driver_ns, kernel_ns, 104);
NEXT(ferry_explanation, kernel_ns, kernel_obstacle, 112);
NEXT(ferry_explanation, kernel_obstacle, max_sms, 116);
NEXT(ferry_explanation, max_sms, staged_ns, 120);
NEXT(ferry_explanation, staged_ns, staged_obstacle, 128);
NEXT(ferry_explanation, staged_obstacle, threads, 132);
NEXT(ferry_explanation, threads, staging_delay_ns, 136);
NEXT(ferry_explanation, staging_delay_ns, relay_ns, 144);
NEXT(ferry_explanation, relay_ns, relay_obstacle, 152);
NEXT(ferry_explanation, relay_obstacle, links, 156);
NEXT(ferry_explanation, links, multilink_ns, 160);
NEXT(ferry_explanation, multilink_ns, multilink_obstacle, 168);
NEXT(ferry_explanation, multilink_obstacle, reason, 172);
NEXT(ferry_explanation, reason, profile, 176);
NEXT(ferry_explanation, profile, helper_sms, 180);
NEXT(ferry_explanation, helper_sms, engine_bytes, 184);
LAST(ferry_explanation, engine_bytes, 192);

FIRST(ferry_batch_share, copies);
NEXT(ferry_batch_share, copies, bytes, 8);
NEXT(ferry_batch_share, bytes, predicted_ns, 16);
NEXT(ferry_batch_share, predicted_ns, reserved, 24);
LAST(ferry_batch_share, reserved, 32);

FIRST(ferry_batch_explanation, struct_size);
NEXT(ferry_batch_explanation, struct_size, context_device, 4);
NEXT(ferry_batch_explanation, context_device, singles, 8);
NEXT(ferry_batch_explanation, singles, batch_calls, 40);
NEXT(ferry_batch_explanation, batch_calls, kernels, 72);
NEXT(ferry_batch_explanation, kernels, staged, 104);
NEXT(ferry_batch_explanation, staged, broadcasts, 136);
NEXT(ferry_batch_explanation, broadcasts, max_sms, 168);
NEXT(ferry_batch_explanation, max_sms, threads, 172);
NEXT(ferry_batch_explanation, threads, staging_delay_ns, 176);
NEXT(ferry_batch_explanation, staging_delay_ns, blocks, 184);
NEXT(ferry_batch_explanation, blocks, reserved, 188);
LAST(ferry_batch_explanation, reserved, 192);

FIRST(ferry_route_counters, copies);
NEXT(ferry_route_counters, copies, bytes, 8);
NEXT(ferry_route_counters, bytes, waited_ns, 16);
LAST(ferry_route_counters, waited_ns, 24);

FIRST(ferry_device_counters, struct_size);
NEXT(ferry_device_counters, struct_size, reserved, 4);
NEXT(ferry_device_counters, reserved, driver, 8);
NEXT(ferry_device_counters, driver, kernel, 32);
NEXT(ferry_device_counters, kernel, staged, 56);
NEXT(ferry_device_counters, staged, buffered, 80);
NEXT(ferry_device_counters, buffered, relayed, 104);
NEXT(ferry_device_counters, relayed, multilink, 128);
LAST(ferry_device_counters, multilink, 152);

FIRST(ferry_host_options, struct_size);
NEXT(ferry_host_options, struct_size, flags, 4);
NEXT(ferry_host_options, flags, numa, 8);
NEXT(ferry_host_options, numa, device, 12);
NEXT(ferry_host_options, device, numa_node, 16);
NEXT(ferry_host_options, numa_node, threads, 20);
NEXT(ferry_host_options, threads, min_size, 24);
LAST(ferry_host_options, min_size, 32);

FIRST(ferry_host_block, struct_size);
NEXT(ferry_host_block, struct_size, memory, 4);
NEXT(ferry_host_block, memory, address, 8);
NEXT(ferry_host_block, address, size, 16);
NEXT(ferry_host_block, size, origin, 24);
NEXT(ferry_host_block, origin, numa_node, 28);
LAST(ferry_host_block, numa_node, 32);

FIRST(ferry_pinned_pool_options, struct_size);
NEXT(ferry_pinned_pool_options, struct_size, flags, 4);
NEXT(ferry_pinned_pool_options, flags, numa, 8);
NEXT(ferry_pinned_pool_options, numa, device, 12);
NEXT(ferry_pinned_pool_options, device, numa_node, 16);
NEXT(ferry_pinned_pool_options, numa_node, reserved, 20);
NEXT(ferry_pinned_pool_options, reserved, max_size, 24);
LAST(ferry_pinned_pool_options, max_size, 32);

FIRST(ferry_pool_stats, struct_size);
NEXT(ferry_pool_stats, struct_size, reserved, 4);
NEXT(ferry_pool_stats, reserved, reserved_current, 8);
NEXT(ferry_pool_stats, reserved_current, reserved_high, 16);
NEXT(ferry_pool_stats, reserved_high, used_current, 24);
NEXT(ferry_pool_stats, used_current, used_high, 32);
LAST(ferry_pool_stats, used_high, 40);

FIRST(ferry_pool_desc, struct_size);
NEXT(ferry_pool_desc, struct_size, location, 4);
NEXT(ferry_pool_desc, location, index, 8);
NEXT(ferry_pool_desc, index, handle_types, 12);
NEXT(ferry_pool_desc, handle_types, max_size, 16);
LAST(ferry_pool_desc, max_size, 24);

FIRST(ferry_pool_info, struct_size);
NEXT(ferry_pool_info, struct_size, location, 4);
NEXT(ferry_pool_info, location, index, 8);
NEXT(ferry_pool_info, index, handle_types, 12);
NEXT(ferry_pool_info, handle_types, max_size, 16);
NEXT(ferry_pool_info, max_size, is_default, 24);
NEXT(ferry_pool_info, is_default, is_imported, 28);
NEXT(ferry_pool_info, is_imported, can_share, 32);
NEXT(ferry_pool_info, can_share, reserved, 36);
LAST(ferry_pool_info, reserved, 40);

FIRST(ferry_pool_attributes, struct_size);
NEXT(ferry_pool_attributes, struct_size, reuse_follow_event_dependencies, 4);
NEXT(ferry_pool_attributes, reuse_follow_event_dependencies, reuse_opportunistic, 8);
NEXT(ferry_pool_attributes, reuse_opportunistic, reuse_internal_dependencies, 12);
NEXT(ferry_pool_attributes, reuse_internal_dependencies, release_threshold, 16);
LAST(ferry_pool_attributes, release_threshold, 24);

FIRST(ferry_ipc_info, struct_size);
NEXT(ferry_ipc_info, struct_size, kind, 4);
NEXT(ferry_ipc_info, kind, device, 8);
NEXT(ferry_ipc_info, device, handle_types, 12);
NEXT(ferry_ipc_info, handle_types, size, 16);
NEXT(ferry_ipc_info, size, process, 24);
NEXT(ferry_ipc_info, process, device_uuid, 32);
NEXT(ferry_ipc_info, device_uuid, is_own, 48);
NEXT(ferry_ipc_info, is_own, reserved, 52);
LAST(ferry_ipc_info, reserved, 56);

ASSERT(sizeof(ferry_ipc_handle) == 256);

FIRST(ferry_software_options, struct_size);
NEXT(ferry_software_options, struct_size, devices, 4);
NEXT(ferry_software_options, devices, queues, 8);
NEXT(ferry_software_options, queues, links, 12);
NEXT(ferry_software_options, links, memory, 16);
LAST(ferry_software_options, memory, 24);
