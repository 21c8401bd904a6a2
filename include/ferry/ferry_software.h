/*
 * The software driver of ferry: a CUDA driver on the CPU, for machines without a GPU and for tests.
 *
 * It is a library of its own, libferry-software. A program that opens ferry with FERRY_DRIVER_SOFTWARE or
 * FERRY_DRIVER_AUTO (ferry.h) needs no function of this header: ferry_open opens the library and starts the driver. To
 * choose the number of devices and other settings, pass a ferry_software_options in ferry_options.driver_options.
 *
 * ferry_open looks for the library in this order: a copy that is linked into the same program or library as a static
 * ferry; a libferry-software that the process has already loaded; the folder of libferry; the places where the system's
 * loader looks. The library must be of the same build as ferry. ferry_open fails otherwise.
 *
 * The functions are for programs that link the library, and for programs that use the driver without ferry. A program
 * that links libferry-software.a beside a shared libferry passes ferry_software_get_proc in ferry_options.get_proc, so
 * that both use the same copy.
 *
 * A process has one software driver. It runs while at least one ferry_software_open is not closed; an instance of ferry
 * that uses it counts as one. ferry.h states the conventions for statuses, structs and comments.
 */
#ifndef FERRY_FERRY_SOFTWARE_H
#define FERRY_FERRY_SOFTWARE_H

#include "ferry.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ferry_software_options.links: the pairs of devices that can get peer access. */
#define FERRY_SOFTWARE_LINKS_DEFAULT 0 /* as the driver already runs, else ALL */
#define FERRY_SOFTWARE_LINKS_ALL 1     /* every pair */
#define FERRY_SOFTWARE_LINKS_NONE 2    /* no pair */
#define FERRY_SOFTWARE_LINKS_PAIRS 3   /* devices 2k and 2k + 1 */

/* Settings of the software driver. A field of 0 takes the value of the running driver; when the driver starts, it takes
 * the default. With every value of `links`, copies between contexts without peer access arrive. */
typedef struct ferry_software_options {
    uint32_t struct_size;
    uint32_t devices; /* number of devices, 1 to 64; default 2 */
    uint32_t queues;  /* hardware queues of each device, 1 to 128; default 8 */
    int32_t links;    /* FERRY_SOFTWARE_LINKS_* */
    uint64_t memory;  /* bytes of memory of each device; default 4 GiB; committed on first write */
} ferry_software_options;

/*
 * Starts the driver, or joins the running driver. ferry_open calls it with ferry_options.driver_options.
 *
 * NULL:          `options`, which are then all 0.
 * Blocking:      first_use. The call that starts the driver reserves memory and starts threads.
 * Ownership:     `options` is read before return. Each success needs one ferry_software_close.
 * Errors:        FERRY_ERROR_SOFTWARE_CONFIG if the driver runs with other settings than the options request;
 *                _INVALID_ARGUMENT with the number given and the allowed maximum; _ABI_MISMATCH; _OUT_OF_MEMORY. The
 *                field is FERRY_FIELD_DRIVER_OPTIONS. In the child of a fork the call succeeds, and cuInit fails.
 */
FERRY_API int32_t ferry_software_open(const ferry_software_options *options, ferry_error_info *error);

/*
 * Ends one ferry_software_open. The last call waits for running work, then frees all memory, arrays and contexts of the
 * driver. In the child of a fork it does nothing.
 *
 * Blocking:      device. The last call waits for running work.
 */
FERRY_API void ferry_software_close(void);

/*
 * Returns an entry point of the driver, with the meaning of ferry_options.get_proc. `user` is ignored.
 *
 * NULL:          `user`; returned if the driver has no such entry point.
 * Ownership:     the entry point may be called while the driver runs.
 */
FERRY_API void *ferry_software_get_proc(void *user, const char *name, int32_t version);

#ifdef __cplusplus
}
#endif

#endif /* FERRY_FERRY_SOFTWARE_H */
