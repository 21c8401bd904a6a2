/* Copies from one GPU to another. Enables peer access if possible. Without peer access, the same copy is slower. */
#include <ferry/ferry.h>
#include <ferry/ferry_devices.h>

#include <stdio.h>
#include <string.h>

static void print_failure(ferry_error_info *error, int32_t status) {
    char line[256];
    error->status = status; /* calls without an error parameter return only this */
    ferry_error_format(error, line, sizeof line);
    fprintf(stderr, "%s\n", line);
}

static uint64_t address_of(const void *pointer) { return (uint64_t)(uintptr_t)pointer; }

int main(void) {
    const ferry_options options = {.struct_size = sizeof options, .driver = FERRY_DRIVER_AUTO};
    enum { size = 1 << 20 };
    static unsigned char sent[size], received[size];
    for (int i = 0; i < size; ++i)
        sent[i] = (unsigned char)(i * 31 + (i >> 8));

    ferry_error_info error = {.struct_size = sizeof error};
    ferry_report report = {.struct_size = sizeof report};
    ferry_instance *ferry = NULL;
    uint64_t first = 0, second = 0;
    int32_t peer = 0, status = ferry_open(&options, &ferry, &error);
    if (!status) status = ferry_instance_get_report(ferry, &report, NULL);
    if (!status && report.device_count > 1) peer = 1; /* otherwise both ends are on device 0 */

    /* This first transfers test data, because some machines report peer access but lose data. */
    const int has_access = !status && peer == 1 && ferry_peer_enable(ferry, peer, 0, NULL) == FERRY_SUCCESS;

    if (!status) status = ferry_device_alloc(ferry, 0, size, &first, NULL);
    if (!status) status = ferry_device_alloc(ferry, peer, size, &second, NULL);
    if (!status) status = ferry_copy_bytes(ferry, first, address_of(sent), size, NULL, &error);
    if (!status) status = ferry_copy_bytes(ferry, second, first, size, NULL, &error);
    if (!status) status = ferry_copy_bytes(ferry, address_of(received), second, size, NULL, &error);
    if (status) print_failure(&error, status);

    const int arrived = !status && memcmp(sent, received, size) == 0;
    if (arrived)
        printf("%d bytes went %s\n", (int)size,
               peer == 0    ? "from one place to another of the only device"
               : has_access ? "from device 0 to device 1 by peer access"
                            : "from device 0 to device 1 without peer access");

    ferry_device_free(ferry, first, NULL);
    ferry_device_free(ferry, second, NULL);
    ferry_close(ferry);
    return arrived ? 0 : 1;
}
