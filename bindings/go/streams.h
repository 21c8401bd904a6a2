// Code generated from the C headers by generate/main.go. DO NOT EDIT.

#include <ferry/ferry_all.h>

static inline int32_t go_ferry_copy_async(ferry_instance *instance, const ferry_copy_desc *copy, const ferry_copy_options *options, uintptr_t stream, ferry_ticket **ticket, ferry_error_info *error) {
    return ferry_copy_async(instance, copy, options, (struct CUstream_st *)stream, ticket, error);
}

static inline int32_t go_ferry_copy_bytes_async(ferry_instance *instance, uint64_t destination, uint64_t source, uint64_t size, const ferry_copy_options *options, uintptr_t stream, ferry_ticket **ticket, ferry_error_info *error) {
    return ferry_copy_bytes_async(instance, destination, source, size, options, (struct CUstream_st *)stream, ticket, error);
}

static inline int32_t go_ferry_ticket_create(ferry_instance *instance, uintptr_t stream, ferry_ticket **ticket, ferry_error_info *error) {
    return ferry_ticket_create(instance, (struct CUstream_st *)stream, ticket, error);
}

static inline int32_t go_ferry_ticket_wait_async(ferry_ticket *ticket, uintptr_t stream, ferry_error_info *error) {
    return ferry_ticket_wait_async(ticket, (struct CUstream_st *)stream, error);
}

static inline int32_t go_ferry_copy_batch_async(ferry_instance *instance, const ferry_copy_desc *copies, uint64_t count, const ferry_copy_options *options, uintptr_t stream, ferry_ticket **ticket, ferry_error_info *error) {
    return ferry_copy_batch_async(instance, copies, count, options, (struct CUstream_st *)stream, ticket, error);
}

static inline int32_t go_ferry_copy_pieces_async(ferry_instance *instance, const ferry_piece_list *pieces, const ferry_copy_options *options, uintptr_t stream, ferry_ticket **ticket, ferry_error_info *error) {
    return ferry_copy_pieces_async(instance, pieces, options, (struct CUstream_st *)stream, ticket, error);
}

static inline int32_t go_ferry_prepared_create(ferry_instance *instance, const ferry_copy_desc *copies, uint64_t count, const ferry_copy_options *options, uintptr_t stream, ferry_prepared **prepared, ferry_error_info *error) {
    return ferry_prepared_create(instance, copies, count, options, (struct CUstream_st *)stream, prepared, error);
}

static inline int32_t go_ferry_prepared_create_pieces(ferry_instance *instance, const ferry_piece_list *pieces, const ferry_copy_options *options, uintptr_t stream, ferry_prepared **prepared, ferry_error_info *error) {
    return ferry_prepared_create_pieces(instance, pieces, options, (struct CUstream_st *)stream, prepared, error);
}

static inline int32_t go_ferry_prepared_launch(ferry_prepared *prepared, const ferry_copy_options *options, uintptr_t stream, ferry_ticket **ticket, ferry_error_info *error) {
    return ferry_prepared_launch(prepared, options, (struct CUstream_st *)stream, ticket, error);
}

static inline int32_t go_ferry_prepared_set_addresses(ferry_prepared *prepared, const ferry_piece_list *pieces, uintptr_t stream, ferry_error_info *error) {
    return ferry_prepared_set_addresses(prepared, pieces, (struct CUstream_st *)stream, error);
}

static inline int32_t go_ferry_prepared_destroy_deferred(ferry_prepared *prepared, uintptr_t stream, ferry_error_info *error) {
    return ferry_prepared_destroy_deferred(prepared, (struct CUstream_st *)stream, error);
}

static inline int32_t go_ferry_fill_async(ferry_instance *instance, const ferry_fill_desc *fill, const ferry_copy_options *options, uintptr_t stream, ferry_ticket **ticket, ferry_error_info *error) {
    return ferry_fill_async(instance, fill, options, (struct CUstream_st *)stream, ticket, error);
}

static inline int32_t go_ferry_copy_explain_async(ferry_instance *instance, const ferry_copy_desc *copy, const ferry_copy_options *options, uintptr_t stream, ferry_explanation *explanation, ferry_error_info *error) {
    return ferry_copy_explain_async(instance, copy, options, (struct CUstream_st *)stream, explanation, error);
}

static inline int32_t go_ferry_fill_explain_async(ferry_instance *instance, const ferry_fill_desc *fill, const ferry_copy_options *options, uintptr_t stream, ferry_explanation *explanation, ferry_error_info *error) {
    return ferry_fill_explain_async(instance, fill, options, (struct CUstream_st *)stream, explanation, error);
}

static inline int32_t go_ferry_copy_batch_explain_async(ferry_instance *instance, const ferry_copy_desc *copies, uint64_t count, const ferry_copy_options *options, uintptr_t stream, ferry_batch_explanation *explanation, ferry_error_info *error) {
    return ferry_copy_batch_explain_async(instance, copies, count, options, (struct CUstream_st *)stream, explanation, error);
}

static inline int32_t go_ferry_copy_pieces_explain_async(ferry_instance *instance, const ferry_piece_list *pieces, const ferry_copy_options *options, uintptr_t stream, ferry_batch_explanation *explanation, ferry_error_info *error) {
    return ferry_copy_pieces_explain_async(instance, pieces, options, (struct CUstream_st *)stream, explanation, error);
}

static inline int32_t go_ferry_stream_destroy(ferry_instance *instance, uintptr_t stream, ferry_error_info *error) {
    return ferry_stream_destroy(instance, (struct CUstream_st *)stream, error);
}

static inline int32_t go_ferry_stream_synchronize(ferry_instance *instance, uintptr_t stream, ferry_error_info *error) {
    return ferry_stream_synchronize(instance, (struct CUstream_st *)stream, error);
}

static inline int32_t go_ferry_stream_query(ferry_instance *instance, uintptr_t stream, int32_t *done, ferry_error_info *error) {
    return ferry_stream_query(instance, (struct CUstream_st *)stream, done, error);
}

static inline int32_t go_ferry_stream_notify(ferry_instance *instance, uintptr_t stream, void (*done)(void *, int32_t), void *user, ferry_error_info *error) {
    return ferry_stream_notify(instance, (struct CUstream_st *)stream, done, user, error);
}

static inline int32_t go_ferry_event_record(ferry_instance *instance, struct CUevent_st *event, uintptr_t stream, ferry_error_info *error) {
    return ferry_event_record(instance, event, (struct CUstream_st *)stream, error);
}

static inline int32_t go_ferry_stream_wait_event(ferry_instance *instance, uintptr_t stream, struct CUevent_st *event, ferry_error_info *error) {
    return ferry_stream_wait_event(instance, (struct CUstream_st *)stream, event, error);
}

static inline int32_t go_ferry_device_free_deferred(ferry_instance *instance, uint64_t address, uintptr_t stream, ferry_error_info *error) {
    return ferry_device_free_deferred(instance, address, (struct CUstream_st *)stream, error);
}

static inline int32_t go_ferry_host_free_deferred(ferry_instance *instance, void *address, uintptr_t stream, ferry_error_info *error) {
    return ferry_host_free_deferred(instance, address, (struct CUstream_st *)stream, error);
}

static inline int32_t go_ferry_host_unregister_deferred(ferry_instance *instance, void *address, uintptr_t stream, ferry_error_info *error) {
    return ferry_host_unregister_deferred(instance, address, (struct CUstream_st *)stream, error);
}

static inline int32_t go_ferry_array_destroy_deferred(ferry_instance *instance, struct CUarray_st *array, uintptr_t stream, ferry_error_info *error) {
    return ferry_array_destroy_deferred(instance, array, (struct CUstream_st *)stream, error);
}

static inline int32_t go_ferry_mipmapped_array_destroy_deferred(ferry_instance *instance, struct CUmipmappedArray_st *mipmapped, uintptr_t stream, ferry_error_info *error) {
    return ferry_mipmapped_array_destroy_deferred(instance, mipmapped, (struct CUstream_st *)stream, error);
}

static inline int32_t go_ferry_pinned_pool_destroy_deferred(ferry_pinned_pool *pool, uintptr_t stream, ferry_error_info *error) {
    return ferry_pinned_pool_destroy_deferred(pool, (struct CUstream_st *)stream, error);
}

static inline int32_t go_ferry_pinned_pool_alloc_async(ferry_pinned_pool *pool, uint64_t size, uintptr_t stream, void **address, ferry_error_info *error) {
    return ferry_pinned_pool_alloc_async(pool, size, (struct CUstream_st *)stream, address, error);
}

static inline int32_t go_ferry_pinned_pool_free_async(ferry_pinned_pool *pool, void *address, uintptr_t stream, ferry_error_info *error) {
    return ferry_pinned_pool_free_async(pool, address, (struct CUstream_st *)stream, error);
}

static inline int32_t go_ferry_device_alloc_async(ferry_instance *instance, int32_t device, uint64_t size, uintptr_t stream, uint64_t *address, ferry_error_info *error) {
    return ferry_device_alloc_async(instance, device, size, (struct CUstream_st *)stream, address, error);
}

static inline int32_t go_ferry_device_free_async(ferry_instance *instance, uint64_t address, uintptr_t stream, ferry_error_info *error) {
    return ferry_device_free_async(instance, address, (struct CUstream_st *)stream, error);
}

static inline int32_t go_ferry_pool_destroy_deferred(ferry_instance *instance, struct CUmemPoolHandle_st *pool, uintptr_t stream, ferry_error_info *error) {
    return ferry_pool_destroy_deferred(instance, pool, (struct CUstream_st *)stream, error);
}

static inline int32_t go_ferry_pool_alloc_async(ferry_instance *instance, struct CUmemPoolHandle_st *pool, uint64_t size, uintptr_t stream, uint64_t *address, ferry_error_info *error) {
    return ferry_pool_alloc_async(instance, pool, size, (struct CUstream_st *)stream, address, error);
}

static inline int32_t go_ferry_external_memory_release_deferred(ferry_instance *instance, struct CUextMemory_st *memory, uintptr_t stream, ferry_error_info *error) {
    return ferry_external_memory_release_deferred(instance, memory, (struct CUstream_st *)stream, error);
}

static inline int32_t go_ferry_external_semaphore_signal_async(ferry_instance *instance, struct CUextSemaphore_st *semaphore, uint64_t value, uintptr_t stream, ferry_error_info *error) {
    return ferry_external_semaphore_signal_async(instance, semaphore, value, (struct CUstream_st *)stream, error);
}

static inline int32_t go_ferry_external_semaphore_wait_async(ferry_instance *instance, struct CUextSemaphore_st *semaphore, uint64_t value, uint32_t timeout_ms, uintptr_t stream, ferry_error_info *error) {
    return ferry_external_semaphore_wait_async(instance, semaphore, value, timeout_ms, (struct CUstream_st *)stream, error);
}

static inline int32_t go_ferry_external_semaphore_release_deferred(ferry_instance *instance, struct CUextSemaphore_st *semaphore, uintptr_t stream, ferry_error_info *error) {
    return ferry_external_semaphore_release_deferred(instance, semaphore, (struct CUstream_st *)stream, error);
}

static inline int32_t go_ferry_ticket_write_status(ferry_ticket *ticket, uint64_t address, uintptr_t stream, ferry_error_info *error) {
    return ferry_ticket_write_status(ticket, address, (struct CUstream_st *)stream, error);
}

static inline int32_t go_ferry_ipc_close_memory(ferry_instance *instance, uint64_t address, uintptr_t stream, ferry_error_info *error) {
    return ferry_ipc_close_memory(instance, address, (struct CUstream_st *)stream, error);
}

static inline int32_t go_ferry_ipc_close_memory_deferred(ferry_instance *instance, uint64_t address, uintptr_t stream, ferry_error_info *error) {
    return ferry_ipc_close_memory_deferred(instance, address, (struct CUstream_st *)stream, error);
}

static inline int32_t go_ferry_ipc_close_pool_deferred(ferry_instance *instance, struct CUmemPoolHandle_st *pool, uintptr_t stream, ferry_error_info *error) {
    return ferry_ipc_close_pool_deferred(instance, pool, (struct CUstream_st *)stream, error);
}

static inline int32_t go_ferry_copy_nests_async(ferry_instance *instance, const ferry_nest *nests, uint64_t count, const ferry_copy_options *options, uintptr_t stream, ferry_ticket **ticket, ferry_error_info *error) {
    return ferry_copy_nests_async(instance, nests, count, options, (struct CUstream_st *)stream, ticket, error);
}

static inline int32_t go_ferry_prepared_create_nests(ferry_instance *instance, const ferry_nest *nests, uint64_t count, const ferry_copy_options *options, uintptr_t stream, ferry_prepared **prepared, ferry_error_info *error) {
    return ferry_prepared_create_nests(instance, nests, count, options, (struct CUstream_st *)stream, prepared, error);
}

static inline int32_t go_ferry_copy_nest_explain_async(ferry_instance *instance, const ferry_nest *nest, const ferry_copy_options *options, uintptr_t stream, ferry_explanation *explanation, ferry_error_info *error) {
    return ferry_copy_nest_explain_async(instance, nest, options, (struct CUstream_st *)stream, explanation, error);
}
