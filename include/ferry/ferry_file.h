/*
 * Files as places of copies.
 *
 * A ferry_place of kind FERRY_KIND_FILE is a place in a file: `address` is the offset of a byte, and pitches and origins
 * mean what they mean for memory. So a range, a column block of a matrix or a sub-volume of a file is one copy.
 *
 * ferry.h states the conventions for statuses, structs and comments.
 */
#ifndef FERRY_FERRY_FILE_H
#define FERRY_FERRY_FILE_H

#include "ferry.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---------------------------------------------------------------------------------------------------------------
 * Files
 *
 * One end of ferry_copy and ferry_copy_async may be a file. The other end is device memory or an array of the device of
 * the copy, or host memory. ferry's threads read the file into the slots of the staging buffer or write the slots to the
 * file, as they do with pageable memory (docs/staging.md). Host memory at the other end needs no slot. The file is not
 * mapped, so that no failure of the file is a signal.
 *
 * A copy that reads past the end of the file is refused. Later failures, such as a file that becomes shorter while it is
 * read, end the copy with FERRY_ERROR_FILE. The stream goes on: kernels behind an asynchronous copy may see bytes that
 * were not read. Asynchronous copies therefore require a ticket (else FERRY_ERROR_INVALID_ARGUMENT, FERRY_FIELD_TICKET).
 * The ticket has the status, the offset, the system's error number and, in a batch, the index of the copy or piece. If a
 * range is read for several devices, the index names one of its copies. ferry_ticket_write_status reports the status
 * to later work on the stream. If the ticket of such a copy is released first, the log and
 * ferry_staging_info.failed_files report the failure. A copy that fails may have written a part of its
 * destination, and bytes_done then counts all bytes that a thread has finished with.
 *
 * The sources of pieces may be offsets in one file: ferry_piece_list.source_file. ferry_copy_pieces and
 * ferry_copy_pieces_async then copy, for example, all tensors of a model in one call. Pieces that are next to each other
 * in the file are read by one call of the system. If a destination is not in memory of the stream's device, or with
 * FERRY_COPY_NO_KERNELS, each piece is staged by itself, as a descriptor of a batch.
 *
 * A copy between two files is refused with FERRY_ERROR_UNSUPPORTED (FERRY_FIELD_KIND), and a file that is not open for
 * the access with FERRY_ERROR_HANDLE (FERRY_FIELD_FILE).
 *
 * Descriptors of ferry_copy_batch and ferry_copy_batch_async may have files too. Each of them is staged by itself, so
 * pieces are faster for many small ranges. The destinations of contiguous copies may be on any device, unless the options
 * force a route or contain FERRY_COPY_NO_WAIT. Copies to other devices than the
 * stream's use internal streams, and fail with FERRY_ERROR_LIMIT if blocked streams use all of them. A range with destinations on several devices is
 * read once. After the first failed transfer, no other copy of a file of the batch goes on.
 *
 * Files are read and written in the order of the stream. Graphs, prepared batches and fills take no files
 * (FERRY_ERROR_UNSUPPORTED, or FERRY_ERROR_CAPTURE on a stream that is being captured).
 *
 * In the child of a fork, ferry_file_get_info and ferry_file_close work as in the parent, whose copies continue. All other
 * calls with files return -1003 and do nothing (see Forks in ferry.h).
 * ------------------------------------------------------------------------------------------------------------ */

/* ferry_file_options.flags */
#define FERRY_FILE_READ 1u        /* the file can be the source of a copy */
#define FERRY_FILE_WRITE 2u       /* the file can be the destination of a copy */
#define FERRY_FILE_CREATE 4u      /* ferry_file_open makes the file if it does not exist. Needs WRITE */
#define FERRY_FILE_TRUNCATE 8u    /* ferry_file_open removes all bytes of the file. Needs WRITE */
#define FERRY_FILE_KEEP_CACHE 16u /* as FERRY_FILE_DIRECT_ALWAYS, but a refused direct transfer fails the copy */
#define FERRY_FILE_SYNC 32u       /* written bytes are durable (fdatasync) when a copy completes. Needs WRITE */

/*
 * ferry_file_options.direct: whether transfers bypass the page cache. Offsets, sizes and memory may have any alignment.
 * Direct reads leave the page cache untouched. Direct writes remove the blocks that they write from the page cache, and
 * blocks that a copy writes in part go through it (docs/files.md).
 */
#define FERRY_FILE_DIRECT_AUTO 0   /* ferry decides. In this release, all transfers use the page cache */
#define FERRY_FILE_DIRECT_NEVER 1  /* all transfers use the page cache */
#define FERRY_FILE_DIRECT_ALWAYS 2 /* direct, except for transfers that the system refuses. Linux only */

/* ferry_ticket_info.file_error, which is otherwise the number of the system's error */
#define FERRY_FILE_ENDED (-1)     /* the file had ended before this byte */
#define FERRY_FILE_CANCELLED (-2) /* ferry_ticket_cancel came before this byte */

typedef struct ferry_file_options {
    uint32_t struct_size;
    uint32_t flags;       /* FERRY_FILE_*, joined by |. Without READ and WRITE: READ, or the access of a descriptor */
    int32_t direct;       /* FERRY_FILE_DIRECT_* */
    uint32_t max_threads; /* that transfer bytes of one copy at the same time; 0: no limit */
} ferry_file_options;

typedef struct ferry_file_info {
    uint32_t struct_size;
    uint32_t flags; /* FERRY_FILE_READ, FERRY_FILE_WRITE or both */
    uint64_t size;  /* bytes, now */
} ferry_file_info;

/*
 * Opens the file at `path`, in UTF-8. The copies of any instance may use it.
 *
 * NULL:          `options`, which is FERRY_FILE_READ.
 * Blocking:      driver_lock. The call waits for the file system.
 * Ownership:     *file is the caller's until ferry_file_close, which must come before ferry_close. `path` is read before
 *                return.
 * Errors:        FERRY_ERROR_FILE with the system's error number; _HANDLE if it is no regular file (FERRY_FIELD_PATH);
 *                _FLAGS for unknown flags, and for CREATE, TRUNCATE or SYNC without WRITE; _INVALID_ARGUMENT for an
 *                unknown value of `direct`, and for NEVER with KEEP_CACHE (FERRY_FIELD_DIRECT); _UNSUPPORTED with the
 *                system's error number if the file system refuses direct transfers (FERRY_FIELD_DIRECT, or _FLAGS for
 *                KEEP_CACHE), and if the instance stages with the program's threads (FERRY_FIELD_SUBMIT), which file
 *                accesses would block; _OUT_OF_MEMORY.
 */
FERRY_API int32_t ferry_file_open(ferry_instance *instance, const char *path, const ferry_file_options *options,
                                  ferry_file **file, ferry_error_info *error);

/*
 * Opens the file of a file descriptor or, on Windows, of a HANDLE. ferry duplicates it, and never moves its position.
 * The access is the access of the descriptor. READ and WRITE restrict it. A descriptor with O_APPEND cannot be written to
 * at an offset, and counts as read-only.
 *
 * NULL:          `options`: the access of the descriptor.
 * Blocking:      driver_lock. The call waits for the file system.
 * Ownership:     `os_handle` stays the caller's, who may close it. *file as for ferry_file_open.
 * Errors:        FERRY_ERROR_FILE with the system's error number (FERRY_FIELD_OS_HANDLE); _HANDLE if it is no regular
 *                file; _FLAGS for CREATE and TRUNCATE, and for READ, WRITE or SYNC if the descriptor lacks the access;
 *                others as ferry_file_open.
 */
FERRY_API int32_t ferry_file_open_descriptor(ferry_instance *instance, int64_t os_handle,
                                             const ferry_file_options *options, ferry_file **file,
                                             ferry_error_info *error);

/*
 * Closes a file.
 *
 * NULL:          `file`.
 * Thread-safety: no other call may be using the file.
 * Blocking:      driver_lock. The call waits for the file system.
 * Ownership:     a copy that uses the file continues. The last such copy closes the file for the system.
 */
FERRY_API void ferry_file_close(ferry_file *file);

/*
 * Fills `info`.
 *
 * Blocking:      driver_lock. The call waits for the file system.
 * Errors:        FERRY_ERROR_FILE with the system's error number.
 */
FERRY_API int32_t ferry_file_get_info(ferry_file *file, ferry_file_info *info, ferry_error_info *error);

/*
 * Cancels copies of files: what ferry's threads have not begun to transfer is not transferred. The copies then end as
 * after a failure, with FERRY_ERROR_FILE and FERRY_FILE_CANCELLED, unless all bytes were transferred before. The call
 * does not wait for that: ferry_ticket_wait does.
 *
 * Thread-safety: safe, but not beside ferry_ticket_release of the same ticket.
 * Errors:        FERRY_ERROR_UNSUPPORTED (FERRY_FIELD_TICKET) for a ticket of work without files.
 */
FERRY_API int32_t ferry_ticket_cancel(ferry_ticket *ticket, ferry_error_info *error);

/*
 * Writes an int32_t to `address` on `stream`, behind the ticket's work: 0 if all bytes of its files were transferred,
 * else FERRY_ERROR_FILE. So a kernel can find out in the order of the stream whether its input is complete.
 *
 * Values:        `address`: device or managed memory, a multiple of 4.
 * Thread-safety: safe, but not beside ferry_ticket_release of the same ticket.
 * Blocking:      first_use. The first call pins memory.
 * Ownership:     the ticket may be released immediately. The memory must live until the copy of the 4 bytes is complete.
 * Errors:        FERRY_ERROR_UNSUPPORTED (FERRY_FIELD_TICKET) for a ticket of work without files; _IN_USE for a second
 *                call with the same ticket; _ADDRESS; _CAPTURE on a stream that is being captured; _OUT_OF_MEMORY.
 */
FERRY_API int32_t ferry_ticket_write_status(ferry_ticket *ticket, uint64_t address, struct CUstream_st *stream,
                                            ferry_error_info *error);

/*
 * Overwrites the whole place with a place in a file, as the builders in ferry.h do.
 *
 * NULL:          `place`, `file`.
 * Ownership:     `file` must be open until the call that takes the place has returned.
 */
FERRY_API void ferry_place_file(ferry_place *place, ferry_file *file, uint64_t offset);
FERRY_API void ferry_place_file_pitched(ferry_place *place, ferry_file *file, uint64_t offset, uint64_t row_pitch,
                                        uint64_t slice_height);

#ifdef __cplusplus
}
#endif

#endif /* FERRY_FERRY_FILE_H */
