// The C functions for device and managed memory, arrays and address queries. Each function that needs a context enters
// it for the driver calls and leaves it afterwards.
#include "base/sized.h"
#include "device/capture_mode.h"
#include "driver/result.h"
#include "memory/address.h"
#include "memory/arrays.h"
#include "submit/deferred_room.h"
#include "submit/note_error.h"

using namespace ferry;

namespace {

// Frees device memory, managed memory or memory of a pool. Rejects imported memory.
error free_device_memory(ferry_instance &instance, std::uint64_t address) noexcept {
    if (instance.fork_mark.is_in_child()) return in_child;
    if (instance.externals.is_part(address)) return {.status = FERRY_ERROR_IMPORTED};
    address_facts facts;
    if (error failed = look_up_address(instance.cu, address, address_query::everything, facts)) return failed;
    if (facts.kind != memory_kind::device && facts.kind != memory_kind::managed && !facts.pool)
        return {.status = FERRY_ERROR_ADDRESS};
    if (instance.sharing.memory.is_imported(address)) return {.status = FERRY_ERROR_IMPORTED};
    if (instance.deferred.holds(address)) return {.status = FERRY_ERROR_ADDRESS};
    context_scope scope(instance.cu);
    const bool is_on_device = facts.kind == memory_kind::device;
    if (error failed = is_on_device ? enter_device(instance, facts.device, scope) : enter_any(instance, nullptr, scope))
        return failed;
    return to_error(instance.cu.cuMemFree(address));
}

// Frees memory in the order of `stream`.
error defer_free(ferry_instance &instance, std::uint64_t address, CUstream stream) noexcept {
    if (instance.externals.is_part(address)) return {.status = FERRY_ERROR_IMPORTED};
    context_scope scope(instance.cu); // without a current context, a driver may not report the owner
    if (error failed = enter_any(instance, nullptr, scope)) return failed;
    address_facts facts;
    if (error failed = look_up_address(instance.cu, address, address_query::everything_and_access, facts))
        return failed;
    const bool is_freeable = facts.kind == memory_kind::device || facts.kind == memory_kind::managed;
    const bool is_there = is_freeable && !facts.pool && facts.owner && facts.range_start == address;
    if (!is_there) return {.status = FERRY_ERROR_ADDRESS};
    if (instance.sharing.memory.is_imported(address)) return {.status = FERRY_ERROR_IMPORTED};
    return instance.deferred.defer(address, facts.range_size, facts.device, facts.owner, stream);
}

// Called before an allocation on the device: trims deferred frees to the limit.
void make_room(ferry_instance &instance, int device) noexcept {
    // If this fails, the allocation may still succeed.
    static_cast<void>(instance.deferred.limit(device, deferred_limit(instance, device)));
}

template <class Allocate>
error allocate_on_device(ferry_instance &instance, int device, const Allocate &allocate) noexcept {
    make_room(instance, device);
    return allocate_or_trim(allocate,
                            [&](std::uint64_t &freed) noexcept { return instance.deferred.trim(device, 0, &freed); });
}

template <class Array, class Create>
error make(ferry_instance &instance, int device, const made_array &like, Array &array, const Create &create) noexcept {
    context_scope scope(instance.cu);
    made_array as = like;
    as.device = device;
    if (error failed = enter_device(instance, device, scope, as.context)) return failed;
    if (instance.deferred.take(as, array)) return {};
    if (error failed = allocate_on_device(instance, device, create)) {
        note_error(instance, failed);
        return failed;
    }
    instance.surfaces.note(array, as);
    return {};
}

template <class Array> error destroy(ferry_instance &instance, Array array) noexcept {
    context_scope scope(instance.cu);
    if (error failed = enter_any(instance, nullptr, scope)) return failed;
    if (instance.deferred.holds(array))
        return refuse_value(FERRY_ERROR_INVALID_ARGUMENT, FERRY_SIDE_NONE, FERRY_FIELD_ARRAY, number(array));
    const auto end = [&]() noexcept {
        if constexpr (std::is_same_v<Array, CUmipmappedArray>)
            if (instance.externals.is_part(array)) return instance.externals.release_array(array);
        return instance.surfaces.destroy(array);
    };
    const error failed = end();
    note_error(instance, failed);
    return failed;
}

error make_array(ferry_instance &instance, int device, const ferry_array_desc &desc, CUarray &array) noexcept {
    const made_array like = {.context = nullptr, .device = 0, .is_mipmapped = false, .levels = 1, .desc = desc};
    return make(instance, device, like, array, [&]() noexcept { return create_array(instance.cu, desc, array); });
}

error make_mipmapped_array(ferry_instance &instance, int device, const ferry_array_desc &desc, std::uint32_t levels,
                           CUmipmappedArray &mipmapped) noexcept {
    const made_array like = {.context = nullptr, .device = 0, .is_mipmapped = true, .levels = levels, .desc = desc};
    return make(instance, device, like, mipmapped,
                [&]() noexcept { return create_mipmapped_array(instance.cu, desc, levels, mipmapped); });
}

error destroy_array(ferry_instance &instance, CUarray array) noexcept { return destroy(instance, array); }
error destroy_array(ferry_instance &instance, CUmipmappedArray mipmapped) noexcept {
    return destroy(instance, mipmapped);
}

// Adds the bytes that the pool keeps without an allocation in them.
error add_unused(const driver_table &cu, CUmemoryPool pool, std::uint64_t &bytes) noexcept {
    ferry_pool_stats stats = {};
    if (error failed = get_pool_stats(cu, pool, stats)) return failed;
    if (stats.reserved_current > stats.used_current) bytes += stats.reserved_current - stats.used_current;
    return {};
}

error count_memory(ferry_instance &instance, int device, ferry_device_memory_info &found) noexcept {
    context_scope scope(instance.cu);
    if (error failed = enter_device(instance, device, scope)) return failed;
    const relaxed_capture_mode relaxed(instance.cu); // for the pools
    if (!relaxed.entered()) return relaxed.why();
    std::size_t free = 0, total = 0;
    if (const status_code status = call_optional(instance.cu.cuMemGetInfo, &free, &total)) return {.status = status};
    found.free = free;
    found.total = total;
    ferry_deferred_info deferred = {};
    instance.deferred.count(device, deferred);
    found.deferred = deferred.bytes;
    if (!instance.devices[device].info.memory_pools) return {};
    const pool_location here = {FERRY_LOCATION_DEVICE, device};
    CUmemoryPool standard = nullptr, current = nullptr;
    if (error failed = instance.pools.get_default(here, standard)) return failed;
    if (error failed = instance.pools.get_current(here, current)) return failed;
    if (error failed = add_unused(instance.cu, standard, found.pool_unused)) return failed;
    return current == standard ? ok : add_unused(instance.cu, current, found.pool_unused);
}

} // namespace

extern "C" {

int32_t ferry_device_alloc(ferry_instance *instance, int32_t device, uint64_t size, uint64_t *address,
                           ferry_error_info *details) {
    if (address) *address = 0;
    if (!instance || !address) return report_null(details, instance, address);
    if (!size) return report(details, refuse_zero(FERRY_FIELD_SIZE));
    context_scope scope(instance->cu);
    error failed = enter_device(*instance, device, scope);
    if (failed) return report(details, failed);
    CUdeviceptr allocated = 0;
    failed = allocate_on_device(*instance, device,
                                [&]() noexcept { return to_error(instance->cu.cuMemAlloc(&allocated, size)); });
    if (!failed) *address = allocated;
    note_error(*instance, failed);
    return report(details, about(failed, FERRY_FIELD_SIZE, size));
}

int32_t ferry_device_alloc_pitched(ferry_instance *instance, int32_t device, uint64_t width, uint64_t height,
                                   uint32_t element_size, uint64_t *address, uint64_t *row_pitch,
                                   ferry_error_info *details) {
    if (address) *address = 0;
    if (row_pitch) *row_pitch = 0;
    if (!instance || !address || !row_pitch) return report_null(details, instance, address, row_pitch);
    if (!width || !height) return report(details, refuse_zero(width ? FERRY_FIELD_HEIGHT : FERRY_FIELD_WIDTH));
    context_scope scope(instance->cu);
    error failed = enter_device(*instance, device, scope);
    if (failed) return report(details, failed);
    CUdeviceptr allocated = 0;
    size_t pitch = 0;
    const unsigned alignment = element_size ? element_size : 4;
    failed = allocate_on_device(*instance, device, [&]() noexcept {
        return to_error(instance->cu.cuMemAllocPitch(&allocated, &pitch, width, height, alignment));
    });
    if (!failed) {
        *address = allocated;
        *row_pitch = pitch;
    }
    note_error(*instance, failed);
    return report(details, about(failed, FERRY_FIELD_SIZE, width * height));
}

int32_t ferry_device_free(ferry_instance *instance, uint64_t address, ferry_error_info *details) {
    if (!instance) return report_null(details, instance);
    if (!address) return report(details, ok);
    return report(details,
                  about(noted(*instance, free_device_memory(*instance, address)), FERRY_FIELD_ADDRESS, address));
}

int32_t ferry_device_free_deferred(ferry_instance *instance, uint64_t address, CUstream_st *stream,
                                   ferry_error_info *details) {
    if (!instance) return report_null(details, instance);
    if (!address) return report(details, ok);
    if (instance->fork_mark.is_in_child()) return report(details, in_child);
    return report(details,
                  about(noted(*instance, defer_free(*instance, address, stream)), FERRY_FIELD_ADDRESS, address));
}

int32_t ferry_deferred_trim(ferry_instance *instance, int32_t device, uint64_t keep, ferry_error_info *details) {
    if (!instance) return report_null(details, instance);
    if (instance->fork_mark.is_in_child()) return report(details, in_child);
    if (device != FERRY_DEVICE_UNKNOWN)
        if (error failed = check_device(*instance, device)) return report(details, failed);
    return report(details, noted(*instance, instance->deferred.trim(device, keep)));
}

int32_t ferry_deferred_get_info(ferry_instance *instance, int32_t device, ferry_deferred_info *info,
                                ferry_error_info *details) {
    if (!instance || !info) return report_null(details, instance, info);
    if (instance->fork_mark.is_in_child()) return report(details, in_child);
    if (device != FERRY_DEVICE_UNKNOWN)
        if (error failed = check_device(*instance, device)) return report(details, failed);
    ferry_deferred_info found = {};
    instance->deferred.count(device, found);
    return report(details, write_sized(found, info));
}

int32_t ferry_device_get_memory(ferry_instance *instance, int32_t device, ferry_device_memory_info *info,
                                ferry_error_info *details) {
    if (!instance || !info) return report_null(details, instance, info);
    if (instance->fork_mark.is_in_child()) return report(details, in_child); // the mutex may be locked there
    ferry_device_memory_info found = {};
    if (error failed = count_memory(*instance, device, found)) return report(details, noted(*instance, failed));
    return report(details, write_sized(found, info));
}

int32_t ferry_managed_alloc(ferry_instance *instance, int32_t device, uint64_t size, uint64_t *address,
                            ferry_error_info *details) {
    if (address) *address = 0;
    if (!instance || !address) return report_null(details, instance, address);
    if (!size) return report(details, refuse_zero(FERRY_FIELD_SIZE));
    context_scope scope(instance->cu);
    if (error failed = enter_device(*instance, device, scope)) return report(details, failed);
    CUdeviceptr allocated = 0;
    const status_code status =
        noted(*instance, call_optional(instance->cu.cuMemAllocManaged, &allocated, size, CU_MEM_ATTACH_GLOBAL));
    if (status == FERRY_SUCCESS) *address = allocated;
    return report(details, about({.status = status}, FERRY_FIELD_SIZE, size));
}

int32_t ferry_array_create(ferry_instance *instance, int32_t device, const ferry_array_desc *desc, CUarray_st **array,
                           ferry_error_info *details) {
    if (array) *array = nullptr;
    if (!instance || !desc || !array) return report_null(details, instance, desc, array);
    ferry_array_desc wanted = {};
    if (error failed = read_sized(desc, wanted)) return report(details, failed);
    return report(details, make_array(*instance, device, wanted, *array));
}

int32_t ferry_array_destroy(ferry_instance *instance, CUarray_st *array, ferry_error_info *details) {
    if (!instance) return report_null(details, instance);
    if (!array) return report(details, ok);
    return report(details, about(destroy_array(*instance, array), FERRY_FIELD_ARRAY, number(array)));
}

int32_t ferry_array_destroy_deferred(ferry_instance *instance, CUarray_st *array, CUstream_st *stream,
                                     ferry_error_info *details) {
    if (!instance) return report_null(details, instance);
    if (!array) return report(details, ok);
    if (instance->fork_mark.is_in_child()) return report(details, in_child);
    return report(details,
                  about(noted(*instance, instance->deferred.defer(array, stream)), FERRY_FIELD_ARRAY, number(array)));
}

int32_t ferry_mipmapped_array_create(ferry_instance *instance, int32_t device, const ferry_array_desc *desc,
                                     uint32_t levels, CUmipmappedArray_st **mipmapped, ferry_error_info *details) {
    if (mipmapped) *mipmapped = nullptr;
    if (!instance || !desc || !mipmapped) return report_null(details, instance, desc, mipmapped);
    ferry_array_desc wanted = {};
    if (error failed = read_sized(desc, wanted)) return report(details, failed);
    return report(details, make_mipmapped_array(*instance, device, wanted, levels, *mipmapped));
}

int32_t ferry_mipmapped_array_get_level(ferry_instance *instance, CUmipmappedArray_st *mipmapped, uint32_t level,
                                        CUarray_st **array, ferry_error_info *details) {
    if (array) *array = nullptr;
    if (!instance || !array) return report_null(details, instance, array);
    if (!mipmapped) return report_null_field(details, FERRY_FIELD_ARRAY);
    context_scope scope(instance->cu);
    if (error failed = enter_any(*instance, nullptr, scope)) return report(details, failed);
    const status_code status = call_optional(instance->cu.cuMipmappedArrayGetLevel, array, mipmapped, level);
    if (status == FERRY_SUCCESS) instance->surfaces.note_part(mipmapped, *array);
    return report(details, about({.status = status}, FERRY_FIELD_LEVEL, level));
}

int32_t ferry_mipmapped_array_destroy(ferry_instance *instance, CUmipmappedArray_st *mipmapped,
                                      ferry_error_info *details) {
    if (!instance) return report_null(details, instance);
    if (!mipmapped) return report(details, ok);
    return report(details, about(destroy_array(*instance, mipmapped), FERRY_FIELD_ARRAY, number(mipmapped)));
}

int32_t ferry_mipmapped_array_destroy_deferred(ferry_instance *instance, CUmipmappedArray_st *mipmapped,
                                               CUstream_st *stream, ferry_error_info *details) {
    if (!instance) return report_null(details, instance);
    if (!mipmapped) return report(details, ok);
    if (instance->fork_mark.is_in_child()) return report(details, in_child);
    return report(details, about(noted(*instance, instance->deferred.defer(mipmapped, stream)), FERRY_FIELD_ARRAY,
                                 number(mipmapped)));
}

int32_t ferry_array_get_plane(ferry_instance *instance, CUarray_st *array, uint32_t plane, CUarray_st **plane_array,
                              ferry_error_info *details) {
    if (plane_array) *plane_array = nullptr;
    if (!instance || !plane_array) return report_null(details, instance, plane_array);
    if (!array) return report_null_field(details, FERRY_FIELD_ARRAY);
    context_scope scope(instance->cu);
    if (error failed = enter_any(*instance, nullptr, scope)) return report(details, failed);
    const status_code status = call_optional(instance->cu.cuArrayGetPlane, plane_array, array, plane);
    if (status == FERRY_SUCCESS) instance->surfaces.note_part(array, *plane_array);
    return report(details, about({.status = status}, FERRY_FIELD_PLANE, plane));
}

int32_t ferry_array_get_info(ferry_instance *instance, CUarray_st *array, ferry_array_desc *desc,
                             uint32_t *element_size, ferry_error_info *details) {
    if (element_size) *element_size = 0;
    if (!instance || !desc) return report_null(details, instance, desc);
    if (!array) return report_null_field(details, FERRY_FIELD_ARRAY);
    context_scope scope(instance->cu);
    if (error failed = enter_any(*instance, nullptr, scope)) return report(details, failed);
    ferry_array_desc found = {};
    std::uint32_t bytes = 0;
    if (error failed = describe_array(instance->cu, array, found, bytes))
        return report(details, about(failed, FERRY_FIELD_ARRAY, number(array)));
    if (error failed = write_sized(found, desc)) return report(details, failed);
    if (element_size) *element_size = bytes;
    return report(details, ok);
}

int32_t ferry_array_desc_get_footprint(const ferry_array_desc *desc, uint32_t levels, uint32_t row_alignment,
                                       uint32_t level_alignment, ferry_level_footprint *footprints, uint32_t *count,
                                       uint64_t *size, ferry_error_info *details) {
    if (count) *count = 0;
    if (size) *size = 0;
    if (!desc) return report_null(details, desc);
    if (footprints && !levels) return report(details, refuse_zero(FERRY_FIELD_LEVEL));
    ferry_array_desc wanted = {};
    if (error failed = read_sized(desc, wanted)) return report(details, failed);
    std::uint32_t laid_out = 0;
    std::uint64_t bytes = 0;
    if (error failed = lay_out_array(wanted, levels, row_alignment ? row_alignment : 1,
                                     level_alignment ? level_alignment : 1, footprints, laid_out, bytes))
        return report(details, failed);
    if (count) *count = laid_out;
    if (size) *size = bytes;
    return report(details, ok);
}

} // extern "C"
