/* Copies a box of a host volume to a box of a volume on the GPU, and back. x and width are in bytes. */
#include <ferry/ferry.h>
#include <ferry/ferry_memory.h>

#include <stdio.h>

enum { voxel = sizeof(float), width = 96, height = 64, depth = 48 };
static float volume[depth][height][width], copy_of_volume[depth][height][width];

static void print_failure(ferry_error_info *error, int32_t status) {
    char line[256];
    error->status = status; /* calls without an error parameter return only this */
    ferry_error_format(error, line, sizeof line);
    fprintf(stderr, "%s\n", line);
}

int main(void) {
    const ferry_options options = {.struct_size = sizeof options, .driver = FERRY_DRIVER_AUTO};
    for (int z = 0; z < depth; ++z)
        for (int y = 0; y < height; ++y)
            for (int x = 0; x < width; ++x)
                volume[z][y][x] = (float)(x + 100 * y + 10000 * z);

    ferry_error_info error = {.struct_size = sizeof error};
    ferry_instance *ferry = NULL;
    uint64_t device_memory = 0, row_pitch = 0;
    int32_t status = ferry_open(&options, &ferry, &error);
    /* A volume is allocated as one tall image: the distance of its slices is `height` rows. */
    if (!status)
        status = ferry_device_alloc_pitched(ferry, 0, width * voxel, height * depth, voxel, &device_memory, &row_pitch,
                                            NULL);

    ferry_place from_volume, to_volume, on_device;
    ferry_place_host_pitched(&from_volume, volume, width * voxel, height);
    ferry_place_host_pitched(&to_volume, copy_of_volume, width * voxel, height);
    ferry_place_device_pitched(&on_device, 0, device_memory, row_pitch, height);
    from_volume.x = to_volume.x = 10 * voxel;
    from_volume.y = to_volume.y = 20;
    from_volume.z = to_volume.z = 30;
    on_device.x = 4 * voxel;
    on_device.y = 5;
    on_device.z = 6;

    ferry_copy_desc upload, download; /* 32 by 16 by 8 voxels */
    ferry_copy_desc_set(&upload, &on_device, &from_volume, 32 * voxel, 16, 8);
    ferry_copy_desc_set(&download, &to_volume, &on_device, 32 * voxel, 16, 8);
    if (!status) status = ferry_copy(ferry, &upload, NULL, &error);
    if (!status) status = ferry_copy(ferry, &download, NULL, &error);
    if (status) print_failure(&error, status);

    int arrived = !status;
    for (int z = 30; z < 38; ++z)
        for (int y = 20; y < 36; ++y)
            for (int x = 10; x < 42; ++x)
                arrived = arrived && copy_of_volume[z][y][x] == volume[z][y][x];
    if (arrived) printf("a box of 32 by 16 by 8 voxels went there and back\n");

    ferry_device_free(ferry, device_memory, NULL);
    ferry_close(ferry);
    return arrived ? 0 : 1;
}
