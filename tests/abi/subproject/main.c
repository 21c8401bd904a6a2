/* What every way to consume ferry must build and run, as C and as C++: bytes to a device and back. */
#include <ferry/ferry.h>

#include <stdio.h>
#include <string.h>

#define SIZE 100003

static unsigned char sent[SIZE], received[SIZE];

int main(void) {
    ferry_options options;
    ferry_instance *ferry = NULL;
    uint64_t device_memory = 0;
    int32_t status;
    int i;
    for (i = 0; i < SIZE; ++i)
        sent[i] = (unsigned char)(i * 7 + i / 256);
    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    options.driver = FERRY_DRIVER_SOFTWARE;

    status = ferry_open(&options, &ferry, NULL);
    if (!status) status = ferry_device_alloc(ferry, 0, SIZE, &device_memory, NULL);
    if (!status) status = ferry_copy_bytes(ferry, device_memory, (uint64_t)(uintptr_t)sent, SIZE, NULL, NULL);
    if (!status) status = ferry_copy_bytes(ferry, (uint64_t)(uintptr_t)received, device_memory, SIZE, NULL, NULL);
    if (!status) status = ferry_device_free(ferry, device_memory, NULL);
    ferry_close(ferry);
    if (status) {
        printf("%s: %s\n", ferry_status_name(status), ferry_status_text(status));
        return 1;
    }
    if (memcmp(sent, received, SIZE) != 0) {
        printf("the bytes came back changed\n");
        return 1;
    }
    printf("%d bytes there and back\n", SIZE);
    return 0;
}
