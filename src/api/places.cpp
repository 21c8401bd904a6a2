// The C functions that build places and descriptors.
#include <algorithm>
#include <cstddef>
#include <cstring>

#include "ferry/ferry.h"
#include "ferry/ferry_file.h"

namespace {

void fill(ferry_place *place, int32_t kind, int32_t device, uint64_t address, uint64_t row_pitch,
          uint64_t slice_height) noexcept {
    if (!place) return;
    *place = {};
    place->kind = kind;
    place->device = device;
    place->address = address;
    place->row_pitch = row_pitch;
    place->slice_height = slice_height;
}

uint64_t to_address(const void *pointer) noexcept { return reinterpret_cast<uintptr_t>(pointer); }

} // namespace

extern "C" {

void ferry_place_any(ferry_place *place, uint64_t address) { fill(place, FERRY_KIND_ANY, 0, address, 0, 0); }

void ferry_place_host(ferry_place *place, const void *address) {
    fill(place, FERRY_KIND_HOST, 0, to_address(address), 0, 0);
}

void ferry_place_host_pitched(ferry_place *place, const void *address, uint64_t row_pitch, uint64_t slice_height) {
    fill(place, FERRY_KIND_HOST, 0, to_address(address), row_pitch, slice_height);
}

void ferry_place_device(ferry_place *place, int32_t device, uint64_t address) {
    fill(place, FERRY_KIND_DEVICE, device, address, 0, 0);
}

void ferry_place_device_pitched(ferry_place *place, int32_t device, uint64_t address, uint64_t row_pitch,
                                uint64_t slice_height) {
    fill(place, FERRY_KIND_DEVICE, device, address, row_pitch, slice_height);
}

void ferry_place_array(ferry_place *place, int32_t device, CUarray_st *array) {
    ferry_place_array_layer(place, device, array, 0);
}

void ferry_place_array_layer(ferry_place *place, int32_t device, CUarray_st *array, uint64_t layer) {
    fill(place, FERRY_KIND_ARRAY, device, 0, 0, 0);
    if (!place) return;
    place->array = array;
    place->z = layer;
}

void ferry_place_file(ferry_place *place, ferry_file *file, uint64_t offset) {
    ferry_place_file_pitched(place, file, offset, 0, 0);
}

void ferry_place_file_pitched(ferry_place *place, ferry_file *file, uint64_t offset, uint64_t row_pitch,
                              uint64_t slice_height) {
    fill(place, FERRY_KIND_FILE, 0, offset, row_pitch, slice_height);
    if (place) place->file = file;
}

void ferry_copy_desc_set(ferry_copy_desc *copy, const ferry_place *destination, const ferry_place *source,
                         uint64_t width, uint64_t height, uint64_t depth) {
    if (!copy) return;
    const ferry_place nowhere = {};
    const ferry_place from = source ? *source : nowhere, to = destination ? *destination : nowhere; // may be in *copy
    *copy = {};
    copy->source = from;
    copy->destination = to;
    copy->width = width;
    copy->height = height;
    copy->depth = depth;
}

void ferry_fill_desc_init(ferry_fill_desc *fill, const ferry_place *destination, uint64_t width, uint64_t height,
                          uint64_t depth, const void *pattern, uint32_t pattern_size) {
    if (!fill) return;
    const ferry_place nowhere = {};
    const ferry_place to = destination ? *destination : nowhere; // may be in *fill
    *fill = {};
    fill->destination = to;
    fill->width = width;
    fill->height = height;
    fill->depth = depth;
    fill->pattern_size = pattern_size;
    if (pattern) std::memcpy(fill->pattern, pattern, std::min<std::size_t>(pattern_size, sizeof fill->pattern));
}

} // extern "C"
