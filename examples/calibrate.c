/* Usage: calibrate [FILE]. Measures a device, saves the profile to a file, and loads it as the program would at its
 * next start. The explanation of one copy shows the effect of the profile. */
#include <ferry/ferry.h>
#include <ferry/ferry_devices.h>
#include <ferry/ferry_memory.h>

#include <stdio.h>
#include <stdlib.h>

static char text[1 << 16];

static void must(int32_t status) {
    if (status) fprintf(stderr, "%s\n", ferry_status_name(status)), exit(1);
}

static ferry_explanation explain(ferry_instance *ferry, const ferry_copy_desc *copy, const char *when) {
    ferry_explanation found = {.struct_size = sizeof found};
    must(ferry_copy_explain(ferry, copy, NULL, &found, NULL));
    printf("%s: %d ns by the driver, %d ns by a kernel (obstacle %d); route: the %s\n", when, (int)found.driver_ns,
           (int)found.kernel_ns, (int)found.kernel_obstacle, found.route == FERRY_ROUTE_KERNEL ? "kernel" : "driver");
    return found;
}

int main(int count, char **arguments) {
    const ferry_options options = {.struct_size = sizeof options, .driver = FERRY_DRIVER_AUTO};
    const char *const path = count > 1 ? arguments[1] : "ferry-profile.txt";
    ferry_instance *ferry, *restarted;
    ferry_host_block host = {.struct_size = sizeof host};
    uint64_t device, size;
    must(ferry_open(&options, &ferry, NULL));
    must(ferry_open(&options, &restarted, NULL));
    must(ferry_host_alloc(ferry, 1 << 20, NULL, &host, NULL));
    must(ferry_device_alloc(ferry, 0, 1 << 20, &device, NULL));
    ferry_copy_desc copy = {.width = 16, .height = 4096}; /* every fourth 16-byte element */
    ferry_place_host_pitched(&copy.source, host.address, 64, 0);
    ferry_place_device(&copy.destination, 0, device);
    explain(ferry, &copy, "by the built-in profile");

    must(ferry_device_calibrate(ferry, 0, NULL)); /* two seconds at most; nothing else should run */
    must(ferry_profile_save(ferry, 0, text, sizeof text, &size, NULL));
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(text, 1, size - 1, file) != size - 1 || fclose(file))
        return 1; /* without the terminating zero */
    const ferry_explanation measured = explain(ferry, &copy, "as measured");

    file = fopen(path, "rb");
    if (!file) return 1;
    size = fread(text, 1, sizeof text, file);
    fclose(file);
    must(ferry_profile_load(restarted, text, size, NULL));
    const ferry_explanation loaded = explain(restarted, &copy, "as loaded");

    ferry_host_free(ferry, host.address, NULL);
    ferry_device_free(ferry, device, NULL);
    ferry_close(restarted);
    ferry_close(ferry);
    const int same = loaded.route == measured.route && loaded.driver_ns == measured.driver_ns &&
                     loaded.kernel_ns == measured.kernel_ns;
    return same ? 0 : 1;
}
