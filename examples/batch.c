/* Many copies in one call: pieces and boxes, the index of a bad copy, and a batch prepared once and launched twice. */
#include <ferry/ferry.h>
#include <ferry/ferry_memory.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { count = 1000, size = 256 }; /* two frames of pieces; on the device their order is reversed */
static unsigned char frames[2][count][size], received[count][size];

static void must(int32_t status) {
    if (status) fprintf(stderr, "%s\n", ferry_status_name(status)), exit(1);
}

static int has_arrived(int frame) {
    for (int i = 0; i < count; ++i)
        if (memcmp(frames[frame][i], received[count - 1 - i], size) != 0) return 0;
    return 1;
}

int main(void) {
    const ferry_options options = {.struct_size = sizeof options, .driver = FERRY_DRIVER_AUTO};
    ferry_error_info error = {.struct_size = sizeof error};
    ferry_copy_options how = {.struct_size = sizeof how, .flags = FERRY_COPY_CHECK_OVERLAP | FERRY_COPY_UPDATABLE};
    ferry_instance *ferry;
    ferry_prepared *batch;
    ferry_piece pieces[2][count];
    ferry_piece_list first, second;
    uint64_t device;
    must(ferry_open(&options, &ferry, NULL));
    must(ferry_device_alloc(ferry, 0, sizeof received, &device, NULL));
    must(ferry_host_register(ferry, frames, sizeof frames, 0, NULL)); /* pinned: kernels may read it */
    for (int i = 0; i < count; ++i) {
        for (int frame = 0; frame < 2; ++frame) {
            memset(frames[frame][i], (i + 7 * frame) % 251, size);
            pieces[frame][i] = (ferry_piece){.source = (uint64_t)(uintptr_t)frames[frame][i],
                                             .destination = device + (uint64_t)(count - 1 - i) * size,
                                             .size = size};
        }
    }
    ferry_piece_list_set(&first, pieces[0], count);
    ferry_piece_list_set(&second, pieces[1], count);
    pieces[0][617].size = 1 << 30; /* past the end: the whole batch is refused */
    if (!ferry_copy_pieces(ferry, &first, NULL, &error)) return 1;
    pieces[0][617].size = size;
    must(ferry_copy_pieces(ferry, &first, NULL, NULL));
    ferry_copy_desc halves[2] = {{.width = size / 2, .height = count}}; /* each copies half of every row */
    ferry_place_device_pitched(&halves[0].source, 0, device, size, 0);
    ferry_place_host_pitched(&halves[0].destination, received, size, 0);
    halves[1] = halves[0];
    halves[1].source.x = halves[1].destination.x = size / 2;
    must(ferry_copy_batch(ferry, halves, 2, NULL, NULL));
    if (!has_arrived(0)) return 1;
    must(ferry_prepared_create_pieces(ferry, &first, &how, NULL, &batch, NULL));
    must(ferry_prepared_launch(batch, NULL, NULL, NULL, NULL));     /* on the default stream */
    must(ferry_prepared_set_addresses(batch, &second, NULL, NULL)); /* other sources */
    must(ferry_prepared_launch(batch, NULL, NULL, NULL, NULL));
    must(ferry_copy_batch(ferry, halves, 2, NULL, NULL));
    if (has_arrived(1)) printf("%d pieces arrived, twice; a bad one was number %d\n", (int)count, (int)error.index);
    ferry_prepared_destroy(batch, NULL);
    ferry_host_unregister(ferry, frames, NULL);
    ferry_device_free(ferry, device, NULL);
    ferry_close(ferry);
    return has_arrived(1) && error.index == 617 ? 0 : 1;
}
