/* What Go cannot say itself: the calls whose structs hold pointers, and callbacks. Memory of Go goes to C only as a
 * pointer parameter, so that cgo checks it and keeps it alive until the call returns. */
#ifndef FERRY_GO_CALLS_H
#define FERRY_GO_CALLS_H

#include "streams.h"

#include <ferry/ferry_all.h>

/* Addresses and handles are numbers in Go. */
static inline void *go_pointer(uint64_t address) { return (void *)(uintptr_t)address; }

extern void goFerryLog(uintptr_t log, int32_t level, char *message);
extern void goFerryDone(uintptr_t done, int32_t status);

static inline void go_log(void *user, int32_t level, const char *message) {
    goFerryLog((uintptr_t)user, level, (char *)message);
}

static inline void go_done(void *user, int32_t status) { goFerryDone((uintptr_t)user, status); }

static inline int32_t go_open(const ferry_options *options, const ferry_software_options *software,
                              const int32_t *staging_cpus, const ferry_copy_options *copy_options, uintptr_t log,
                              ferry_instance **instance, ferry_error_info *error) {
    ferry_options own = *options;
    own.driver_options = software;
    own.staging_cpus = staging_cpus;
    own.copy_options = copy_options;
    if (log) {
        own.log = go_log;
        own.log_user = (void *)log;
    }
    return ferry_open(&own, instance, error);
}

static inline int32_t go_notify(ferry_instance *instance, uintptr_t stream, uintptr_t done, ferry_error_info *error) {
    return go_ferry_stream_notify(instance, stream, go_done, (void *)done, error);
}

/* A copy whose ends may be memory of Go, which must outlive only this call. */
static inline int32_t go_copy(ferry_instance *instance, const ferry_copy_desc *copy, uint8_t *destination,
                              const uint8_t *source, const ferry_copy_options *options, ferry_explanation *explanation,
                              ferry_error_info *error) {
    ferry_copy_desc own = *copy;
    if (destination) own.destination.address = (uintptr_t)destination;
    if (source) own.source.address = (uintptr_t)source;
    return explanation ? ferry_copy_explain(instance, &own, options, explanation, error)
                       : ferry_copy(instance, &own, options, error);
}

/* Pieces in an array of Go. */
static inline ferry_piece_list go_pieces(const ferry_piece *pieces, uint64_t count, ferry_file *source_file) {
    ferry_piece_list list;
    ferry_piece_list_set(&list, pieces, count);
    list.source_file = source_file;
    return list;
}

static inline int32_t go_copy_pieces(ferry_instance *instance, const ferry_piece *pieces, uint64_t count,
                                     ferry_file *source_file, const ferry_copy_options *options,
                                     ferry_error_info *error) {
    const ferry_piece_list list = go_pieces(pieces, count, source_file);
    return ferry_copy_pieces(instance, &list, options, error);
}

static inline int32_t go_copy_pieces_async(ferry_instance *instance, const ferry_piece *pieces, uint64_t count,
                                           ferry_file *source_file, const ferry_copy_options *options, uintptr_t stream,
                                           ferry_ticket **ticket, ferry_error_info *error) {
    const ferry_piece_list list = go_pieces(pieces, count, source_file);
    return go_ferry_copy_pieces_async(instance, &list, options, stream, ticket, error);
}

static inline int32_t go_copy_pieces_explain_async(ferry_instance *instance, const ferry_piece *pieces, uint64_t count,
                                                   ferry_file *source_file, const ferry_copy_options *options,
                                                   uintptr_t stream, ferry_batch_explanation *explanation,
                                                   ferry_error_info *error) {
    const ferry_piece_list list = go_pieces(pieces, count, source_file);
    return go_ferry_copy_pieces_explain_async(instance, &list, options, stream, explanation, error);
}

static inline int32_t go_prepared_create_pieces(ferry_instance *instance, const ferry_piece *pieces, uint64_t count,
                                                ferry_file *source_file, const ferry_copy_options *options,
                                                uintptr_t stream, ferry_prepared **prepared, ferry_error_info *error) {
    const ferry_piece_list list = go_pieces(pieces, count, source_file);
    return go_ferry_prepared_create_pieces(instance, &list, options, stream, prepared, error);
}

static inline int32_t go_prepared_set_addresses(ferry_prepared *prepared, const ferry_piece *pieces, uint64_t count,
                                                ferry_file *source_file, uintptr_t stream, ferry_error_info *error) {
    const ferry_piece_list list = go_pieces(pieces, count, source_file);
    return go_ferry_prepared_set_addresses(prepared, &list, stream, error);
}

static inline int32_t go_multilink_set(ferry_instance *instance, int32_t device, const int32_t *helpers,
                                       uint32_t helper_count, uint32_t max_sms, ferry_error_info *error) {
    const ferry_multilink_options options = {sizeof options, max_sms, helpers, helper_count, 0};
    return ferry_multilink_set(instance, device, &options, error);
}

#endif
