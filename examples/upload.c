/* Copies bytes to a GPU and back. Without a GPU, the software driver is used. */
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
    uint64_t device_memory = 0;

    int32_t status = ferry_open(&options, &ferry, &error);
    if (!status) status = ferry_instance_get_report(ferry, &report, NULL);
    if (!status) status = ferry_device_alloc(ferry, 0, size, &device_memory, NULL);
    if (!status) status = ferry_copy_bytes(ferry, device_memory, address_of(sent), size, NULL, &error);
    if (!status) status = ferry_copy_bytes(ferry, address_of(received), device_memory, size, NULL, &error);
    if (status) print_failure(&error, status);

    const int arrived = !status && memcmp(sent, received, size) == 0;
    if (arrived)
        printf("%d bytes went there and back on %s\n", size,
               report.driver == FERRY_DRIVER_SOFTWARE ? "the software driver" : "the GPU");

    ferry_device_free(ferry, device_memory, NULL);
    ferry_close(ferry);
    return arrived ? 0 : 1;
}
