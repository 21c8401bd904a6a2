/* Double buffering: chunk n + 1 is uploaded while chunk n is downloaded, on two streams that events synchronise. */
#include <ferry/ferry.h>
#include <ferry/ferry_event.h>
#include <ferry/ferry_memory.h>

#include <stdio.h>
#include <string.h>

enum { chunk = 1 << 20, size = 8 * chunk };

static uint64_t address_of(const void *pointer) { return (uint64_t)(uintptr_t)pointer; }

int main(void) {
    const ferry_options options = {.struct_size = sizeof options, .driver = FERRY_DRIVER_AUTO};
    ferry_error_info error = {.struct_size = sizeof error};
    ferry_instance *ferry = NULL;
    ferry_host_block sent = {.struct_size = sizeof sent}, received = sent; /* pinned: pageable memory would be staged */
    uint64_t buffers[2] = {0, 0};
    struct CUstream_st *up = NULL, *down = NULL;
    struct CUevent_st *arrived[2] = {NULL, NULL}, *emptied[2] = {NULL, NULL};

    int32_t status = ferry_open(&options, &ferry, &error);
    if (!status) status = ferry_host_alloc(ferry, size, NULL, &sent, &error);
    if (!status) status = ferry_host_alloc(ferry, size, NULL, &received, &error);
    if (!status) status = ferry_stream_create(ferry, 0, FERRY_STREAM_NON_BLOCKING, 0, &up, NULL);
    if (!status) status = ferry_stream_create(ferry, 0, FERRY_STREAM_NON_BLOCKING, 0, &down, NULL);
    for (int i = 0; i < 2; ++i) {
        if (!status) status = ferry_device_alloc(ferry, 0, chunk, &buffers[i], NULL);
        if (!status) status = ferry_event_create(ferry, 0, FERRY_EVENT_DISABLE_TIMING, &arrived[i], NULL);
        if (!status) status = ferry_event_create(ferry, 0, FERRY_EVENT_DISABLE_TIMING, &emptied[i], NULL);
    }
    for (int i = 0; !status && i < size; ++i)
        ((unsigned char *)sent.address)[i] = (unsigned char)(i * 31 + (i >> 8));

    for (uint64_t at = 0; !status && at < size; at += chunk) {
        const uint64_t i = at / chunk % 2, from = address_of(sent.address) + at, to = address_of(received.address) + at;
        status = ferry_stream_wait_event(ferry, up, emptied[i], NULL); /* not recorded before the first two: no wait */
        if (!status) status = ferry_copy_bytes_async(ferry, buffers[i], from, chunk, NULL, up, NULL, &error);
        if (!status) status = ferry_event_record(ferry, arrived[i], up, NULL);
        if (!status) status = ferry_stream_wait_event(ferry, down, arrived[i], NULL); /* a kernel would go here */
        if (!status) status = ferry_copy_bytes_async(ferry, to, buffers[i], chunk, NULL, down, NULL, &error);
        if (!status) status = ferry_event_record(ferry, emptied[i], down, NULL);
    }
    if (!status) status = ferry_stream_synchronize(ferry, down, NULL);
    const int is_same = !status && memcmp(sent.address, received.address, size) == 0;
    if (is_same) printf("%d chunks of %d bytes went there and back\n", size / chunk, chunk);
    if (status) fprintf(stderr, "%s: %s\n", ferry_status_name(status), ferry_status_text(status));

    for (int i = 0; i < 2; ++i) {
        ferry_event_destroy(ferry, arrived[i], NULL);
        ferry_event_destroy(ferry, emptied[i], NULL);
        ferry_device_free(ferry, buffers[i], NULL);
    }
    ferry_stream_destroy(ferry, up, NULL);
    ferry_stream_destroy(ferry, down, NULL);
    ferry_host_free(ferry, sent.address, NULL);
    ferry_host_free(ferry, received.address, NULL);
    ferry_close(ferry);
    return is_same ? 0 : 1;
}
