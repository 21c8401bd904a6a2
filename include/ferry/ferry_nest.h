/*
 * Copies between two layouts: permuted arrays, lists of blocks, and other nests of axes.
 *
 * ferry.h states the conventions for statuses, structs and comments.
 */
#ifndef FERRY_FERRY_NEST_H
#define FERRY_FERRY_NEST_H

#include "ferry.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---------------------------------------------------------------------------------------------------------------
 * Nests
 *
 * A nest is a run of contiguous bytes that is repeated along up to six axes. Each axis has a stride at the source and
 * another stride at the destination, so one nest transposes a matrix, permutes the axes of an array, or moves blocks
 * between two layouts of a cache. The run with the coordinates c[0], c[1], ... begins at this address of an end:
 *
 *     place.address + (indices of axis 0)[c[0]] * stride of axis 0 + (indices of axis 1)[c[1]] * stride of axis 1 + ...
 *
 * An axis without indices uses the coordinate itself. The order of the axes is free: ferry sorts them, and joins axes
 * that are contiguous at both ends. If kernels can access both ends, a nest is copied either by one launch of a kernel or
 * as boxes, which take the routes of ferry_copy_batch_async. ferry takes what it predicts to be faster. A nest between a
 * device and pageable memory or a file is copied as boxes. If these would be many small boxes, it passes through a buffer
 * in device memory: larger boxes are copied between the host and the buffer, and a kernel changes the layout there. The
 * buffer has up to 64 MiB of stream-ordered memory, and counts for ferry_options.max_device_bytes until the call returns.
 * There is no buffer on streams that are being captured, for prepared nests, with FERRY_COPY_NO_WAIT or _NO_KERNELS, and
 * with a forced route other than FERRY_ROUTE_STAGED.
 *
 * Strides of both ends may be negative or 0. If runs of the destination share bytes, each shared byte receives one of
 * the values. The source must share no byte with the destination. FERRY_COPY_CHECK_OVERLAP refuses both, unless a list
 * of indices is in device memory. The check sorts the indices of the destination. It compares up to 1048576 runs, for
 * some hundred nanoseconds each, if the strides do not prove that all runs are apart, or if both ends have bytes between
 * the first and the last byte of the other end. It accepts nests of more runs that it would have to compare.
 *
 * Indices in device memory are read when the stream reaches the copy, so a graph can be launched again with new indices.
 * Kernels compare each index with index_limit. The runs of an index that is not below the limit are skipped, and
 * `skipped` counts it. ferry accesses no memory outside the range that index_limit and the strides state.
 * ------------------------------------------------------------------------------------------------------------ */

#define FERRY_NEST_AXES 6 /* the maximum number of axes */

/* ferry_axis.index_type */
#define FERRY_INDEX_NONE 0 /* no indices: `indices` is 0 */
#define FERRY_INDEX_U32 1  /* uint32_t */
#define FERRY_INDEX_U64 2  /* uint64_t */

/* ferry_axis.index_memory */
#define FERRY_INDICES_HOST 0 /* host memory, read before the call returns */
#define FERRY_INDICES_DEVICE                                                                                           \
    1 /* memory that kernels of the stream's device can access, read in the order of the stream */

/* One axis at one end of a nest. The same axis of the other end has the same count. */
typedef struct ferry_axis {
    uint64_t count;       /* runs along the axis; 0: the nest is empty */
    int64_t stride;       /* bytes, from one index to the next */
    uint64_t indices;     /* address of `count` indices, a multiple of their size */
    uint64_t index_limit; /* number: all indices are below it. 0: without indices */
    int32_t index_type;   /* FERRY_INDEX_NONE, FERRY_INDEX_U32 or FERRY_INDEX_U64 */
    int32_t index_memory; /* FERRY_INDICES_HOST or FERRY_INDICES_DEVICE */
    uint64_t reserved[2]; /* must be zero */
} ferry_axis;

/* One end of a nest. The place is linear memory: pitches, x, y and z must be 0. */
typedef struct ferry_nest_end {
    ferry_place place;
    ferry_axis axes[FERRY_NEST_AXES];
} ferry_nest_end;

/*
 * One copy between two layouts.
 *
 * skipped       Address of a uint64_t in device or pinned memory, a multiple of 8, to which a kernel adds the number of
 *               indices that are not below their limit. 0: skipped indices are not counted. The program sets the number
 *               to 0 first.
 */
typedef struct ferry_nest {
    ferry_nest_end destination;
    ferry_nest_end source;
    uint64_t width;       /* bytes of a run; 0: the nest is empty */
    uint32_t axes;        /* count: number of axes, at most FERRY_NEST_AXES */
    uint32_t reserved_32; /* must be zero */
    uint64_t skipped;
    uint64_t reserved[4]; /* must be zero */
} ferry_nest;

/*
 * Makes `count` copies between layouts, which have no order among themselves, and returns when all are complete. Otherwise
 * as ferry_copy. All nests are checked before any is copied.
 *
 * NULL:          `nests`, `options`.
 * Values:        `nests`: `count` elements.
 * Blocking:      stream. The call returns when the copies are complete.
 * Ownership:     `nests` and indices in host memory are read before return.
 * Errors:        as ferry_copy. `item` and `index` name the nest (FERRY_ITEM_NEST), or its axis (FERRY_ITEM_AXIS). Also
 *                FERRY_ERROR_INVALID_ARGUMENT if both ends have different counts, for more axes than FERRY_NEST_AXES, for
 *                indices without a limit, and for an unknown index type or memory; _OVERLAP with
 *                FERRY_COPY_CHECK_OVERLAP; _ADDRESS for indices or `skipped` that the device cannot access; _ALIGNMENT;
 *                _OUT_OF_BOUNDS for an index in host memory that is not below its limit, and for memory past the
 *                allocation that the strides and limits state; _OVERFLOW; _RESERVED for a pitch or an origin of a place;
 *                _UNSUPPORTED for an array, and for indices in device memory if a kernel cannot access both ends
 *                (FERRY_FIELD_INDEX_MEMORY).
 */
FERRY_API int32_t ferry_copy_nests(ferry_instance *instance, const ferry_nest *nests, uint64_t count,
                                   const ferry_copy_options *options, ferry_error_info *error);

/*
 * Enqueues `count` copies between layouts on `stream`, as ferry_copy_async does.
 *
 * NULL:          `nests`, `options`, `ticket`, which a file requires.
 * Values:        `nests`: `count` elements.
 * Blocking:      stream, if boxes are copied, as ferry_copy_batch_async. Otherwise first_use. The first kernel in a context
 *                loads all kernels, and the first host indices pin memory.
 * Ownership:     `nests` and indices in host memory are read before return. The memory must live until the copy is
 *                complete, and so must indices in device memory and `skipped`. *ticket as for ferry_copy_async.
 * Errors:        as ferry_copy_nests and ferry_copy_async. FERRY_ERROR_CAPTURE (FERRY_FIELD_INDEX_MEMORY) for indices in
 *                host memory on a stream that is being captured.
 */
FERRY_API int32_t ferry_copy_nests_async(ferry_instance *instance, const ferry_nest *nests, uint64_t count,
                                         const ferry_copy_options *options, struct CUstream_st *stream,
                                         ferry_ticket **ticket, ferry_error_info *error);

/*
 * Prepares `count` copies between layouts, as ferry_prepared_create. ferry_prepared_launch enqueues them, and may be
 * captured: indices in host memory are read here and kept in device memory. No nest passes through a buffer.
 *
 * NULL:          `nests`, `options`.
 * Values:        `nests`: `count` elements.
 * Blocking:      device, as ferry_prepared_create.
 * Ownership:     as ferry_prepared_create. `nests` and indices in host memory are read before return. Indices in device
 *                memory and `skipped` must live until the last launch is complete.
 * Errors:        as ferry_copy_nests and ferry_prepared_create. FERRY_ERROR_UNSUPPORTED for a file. A launch in another
 *                context of the device fails with _UNSUPPORTED if a kernel copies a nest.
 */
FERRY_API int32_t ferry_prepared_create_nests(ferry_instance *instance, const ferry_nest *nests, uint64_t count,
                                              const ferry_copy_options *options, struct CUstream_st *stream,
                                              ferry_prepared **prepared, ferry_error_info *error);

/*
 * Explains how ferry_copy_nests_async would copy one nest. Copies nothing. For a nest that is copied as boxes, the
 * explanation is of the first box, and `calls` is the number of boxes. For a nest that a kernel copies, `width` is the run,
 * and `height` the number of runs. A nest that passes through a buffer has the route FERRY_ROUTE_STAGED, the number of
 * parts in `calls`, and in `width` and `height` the runs between the host and the buffer in the first part.
 *
 * NULL:          `options`.
 * Blocking:      first_use, as ferry_copy_explain_async.
 * Errors:        as ferry_copy_nests_async.
 */
FERRY_API int32_t ferry_copy_nest_explain_async(ferry_instance *instance, const ferry_nest *nest,
                                                const ferry_copy_options *options, struct CUstream_st *stream,
                                                ferry_explanation *explanation, ferry_error_info *error);

#ifdef __cplusplus
}
#endif

#endif /* FERRY_FERRY_NEST_H */
