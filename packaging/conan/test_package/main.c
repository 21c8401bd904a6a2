/* Copies bytes to a device of the software driver and back. */
#include <ferry/ferry.h>

#include <stdio.h>
#include <string.h>

static uint64_t address_of(const void *pointer) { return (uint64_t)(uintptr_t)pointer; }

int main(void) {
    const ferry_options options = {.struct_size = sizeof options, .driver = FERRY_DRIVER_SOFTWARE};
    const char sent[] = "sent to the device and back";
    char received[sizeof sent] = {0};
    ferry_error_info error = {.struct_size = sizeof error};
    ferry_instance *ferry = NULL;
    uint64_t device_memory = 0;

    int32_t status = ferry_open(&options, &ferry, &error);
    if (!status) status = ferry_device_alloc(ferry, 0, sizeof sent, &device_memory, &error);
    if (!status) status = ferry_copy_bytes(ferry, device_memory, address_of(sent), sizeof sent, NULL, &error);
    if (!status) status = ferry_copy_bytes(ferry, address_of(received), device_memory, sizeof sent, NULL, &error);
    if (status) {
        char line[256];
        ferry_error_format(&error, line, sizeof line);
        fprintf(stderr, "%s\n", line);
        return 1;
    }
    printf("%s\n", received);
    ferry_device_free(ferry, device_memory, NULL);
    ferry_close(ferry);
    return memcmp(sent, received, sizeof sent) != 0;
}
