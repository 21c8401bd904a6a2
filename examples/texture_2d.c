/* Copies a box of a large host image into a box of a 2D array (a texture), and back. x and width are in bytes. */
#include <ferry/ferry.h>
#include <ferry/ferry_memory.h>

#include <stdio.h>
#include <string.h>

enum { texel = 4, image_width = 640, image_height = 480, row_pitch = image_width * texel };
static unsigned char image[image_height][row_pitch], copy_of_image[image_height][row_pitch];

static void print_failure(ferry_error_info *error, int32_t status) {
    char line[256];
    error->status = status; /* calls without an error parameter return only this */
    ferry_error_format(error, line, sizeof line);
    fprintf(stderr, "%s\n", line);
}

int main(void) {
    const ferry_options options = {.struct_size = sizeof options, .driver = FERRY_DRIVER_AUTO};
    for (int y = 0; y < image_height; ++y)
        for (int x = 0; x < row_pitch; ++x)
            image[y][x] = (unsigned char)(x + 7 * y);

    const uint64_t width = 64 * texel, height = 32; /* the box: 64 by 32 texels */
    ferry_error_info error = {.struct_size = sizeof error};
    const ferry_array_desc rgba = {
        .struct_size = sizeof rgba, .format = FERRY_FORMAT_UINT8, .channels = 4, .width = 256, .height = 256};
    ferry_instance *ferry = NULL;
    struct CUarray_st *array = NULL;
    int32_t status = ferry_open(&options, &ferry, &error);
    if (!status) status = ferry_array_create(ferry, 0, &rgba, &array, NULL);

    ferry_place from_image, to_image, texture;
    ferry_place_host_pitched(&from_image, image, row_pitch, image_height);
    ferry_place_host_pitched(&to_image, copy_of_image, row_pitch, image_height);
    ferry_place_array(&texture, 0, array);
    from_image.x = to_image.x = 100 * texel;
    from_image.y = to_image.y = 50;
    texture.x = 16 * texel;
    texture.y = 8;

    ferry_copy_desc upload, download;
    ferry_copy_desc_set(&upload, &texture, &from_image, width, height, 1);
    ferry_copy_desc_set(&download, &to_image, &texture, width, height, 1);
    if (!status) status = ferry_copy(ferry, &upload, NULL, &error);
    if (!status) status = ferry_copy(ferry, &download, NULL, &error);
    if (status) print_failure(&error, status);

    int arrived = !status;
    for (uint64_t y = 50; y < 50 + height; ++y)
        arrived = arrived && memcmp(&image[y][100 * texel], &copy_of_image[y][100 * texel], width) == 0;
    if (arrived) printf("a box of 64 by 32 texels went through the array\n");

    ferry_array_destroy(ferry, array, NULL);
    ferry_close(ferry);
    return arrived ? 0 : 1;
}
