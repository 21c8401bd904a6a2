// The memory calls: each enters a context, calls the driver and leaves.
#include "call/memory.h"
#include "base/sized.h"
#include "call/staging.h"
#include "driver/result.h"
#include "memory/arrays.h"

using namespace ferry;

extern "C" {

int32_t ferry_device_alloc(ferry_instance *instance, int32_t device, uint64_t size, uint64_t *address) {
    if (address) *address = 0;
    if (!instance || !address || !size) return FERRY_ERROR_INVALID_ARGUMENT;
    context_scope scope(instance->cu);
    if (failure failed = enter_device(*instance, device, scope)) return failed.status;
    CUdeviceptr allocated = 0;
    const failure failed = allocate_on_device(
        *instance, device, [&]() noexcept { return to_failure(instance->cu.cuMemAlloc(&allocated, size)); });
    if (!failed) *address = allocated;
    return noted(*instance, failed.status);
}

int32_t ferry_device_alloc_pitched(ferry_instance *instance, int32_t device, uint64_t width, uint64_t height,
                                   uint32_t element_size, uint64_t *address, uint64_t *row_pitch) {
    if (address) *address = 0;
    if (row_pitch) *row_pitch = 0;
    if (!instance || !address || !row_pitch || !width || !height) return FERRY_ERROR_INVALID_ARGUMENT;
    context_scope scope(instance->cu);
    if (failure failed = enter_device(*instance, device, scope)) return failed.status;
    CUdeviceptr allocated = 0;
    size_t pitch = 0;
    const unsigned alignment = element_size ? element_size : 4;
    const failure failed = allocate_on_device(*instance, device, [&]() noexcept {
        return to_failure(instance->cu.cuMemAllocPitch(&allocated, &pitch, width, height, alignment));
    });
    if (!failed) {
        *address = allocated;
        *row_pitch = pitch;
    }
    return noted(*instance, failed.status);
}

int32_t ferry_device_free(ferry_instance *instance, uint64_t address) {
    if (!instance) return FERRY_ERROR_INVALID_ARGUMENT;
    if (!address) return FERRY_SUCCESS;
    return noted(*instance, free_device_memory(*instance, address).status);
}

int32_t ferry_device_free_deferred(ferry_instance *instance, uint64_t address, CUstream_st *stream) {
    if (!instance) return FERRY_ERROR_INVALID_ARGUMENT;
    if (!address) return FERRY_SUCCESS;
    if (instance->fork_mark.is_in_child()) return no_driver_in_child;
    return noted(*instance, defer_free(*instance, address, stream).status);
}

int32_t ferry_deferred_trim(ferry_instance *instance, int32_t device, uint64_t keep) {
    if (!instance) return FERRY_ERROR_INVALID_ARGUMENT;
    if (instance->fork_mark.is_in_child()) return no_driver_in_child;
    if (device != FERRY_DEVICE_UNKNOWN)
        if (failure failed = check_device(*instance, device)) return failed.status;
    return noted(*instance, instance->deferred.trim(device, keep).status);
}

int32_t ferry_deferred_get_info(ferry_instance *instance, int32_t device, ferry_deferred_info *info) {
    if (!instance || !info) return FERRY_ERROR_INVALID_ARGUMENT;
    if (instance->fork_mark.is_in_child()) return no_driver_in_child;
    if (device != FERRY_DEVICE_UNKNOWN)
        if (failure failed = check_device(*instance, device)) return failed.status;
    ferry_deferred_info found = {};
    instance->deferred.count(device, found);
    return write_sized(found, info).status;
}

int32_t ferry_managed_alloc(ferry_instance *instance, int32_t device, uint64_t size, uint64_t *address) {
    if (address) *address = 0;
    if (!instance || !address || !size) return FERRY_ERROR_INVALID_ARGUMENT;
    context_scope scope(instance->cu);
    if (failure failed = enter_device(*instance, device, scope)) return failed.status;
    CUdeviceptr allocated = 0;
    const int32_t status =
        noted(*instance, call_optional(instance->cu.cuMemAllocManaged, &allocated, size, CU_MEM_ATTACH_GLOBAL));
    if (status == FERRY_SUCCESS) *address = allocated;
    return status;
}

int32_t ferry_array_create(ferry_instance *instance, int32_t device, const ferry_array_desc *desc, CUarray_st **array) {
    if (array) *array = nullptr;
    if (!instance || !desc || !array) return FERRY_ERROR_INVALID_ARGUMENT;
    ferry_array_desc wanted = {};
    if (failure failed = read_sized(desc, wanted)) return failed.status;
    return make_array(*instance, device, wanted, *array).status;
}

int32_t ferry_array_destroy(ferry_instance *instance, CUarray_st *array) {
    if (!instance) return FERRY_ERROR_INVALID_ARGUMENT;
    if (!array) return FERRY_SUCCESS;
    return destroy_array(*instance, array).status;
}

int32_t ferry_array_destroy_async(ferry_instance *instance, CUarray_st *array, CUstream_st *stream) {
    if (!instance) return FERRY_ERROR_INVALID_ARGUMENT;
    if (!array) return FERRY_SUCCESS;
    if (instance->fork_mark.is_in_child()) return no_driver_in_child;
    return noted(*instance, instance->deferred.give_up(array, stream).status);
}

int32_t ferry_mipmapped_array_create(ferry_instance *instance, int32_t device, const ferry_array_desc *desc,
                                     uint32_t levels, CUmipmappedArray_st **mipmapped) {
    if (mipmapped) *mipmapped = nullptr;
    if (!instance || !desc || !mipmapped) return FERRY_ERROR_INVALID_ARGUMENT;
    ferry_array_desc wanted = {};
    if (failure failed = read_sized(desc, wanted)) return failed.status;
    return make_mipmapped_array(*instance, device, wanted, levels, *mipmapped).status;
}

int32_t ferry_mipmapped_array_get_level(ferry_instance *instance, CUmipmappedArray_st *mipmapped, uint32_t level,
                                        CUarray_st **array) {
    if (array) *array = nullptr;
    if (!instance || !mipmapped || !array) return FERRY_ERROR_INVALID_ARGUMENT;
    context_scope scope(instance->cu);
    if (failure failed = enter_any(*instance, nullptr, scope)) return failed.status;
    const int32_t status = call_optional(instance->cu.cuMipmappedArrayGetLevel, array, mipmapped, level);
    if (status == FERRY_SUCCESS) instance->surfaces.note_level(mipmapped, *array);
    return status;
}

int32_t ferry_mipmapped_array_destroy(ferry_instance *instance, CUmipmappedArray_st *mipmapped) {
    if (!instance) return FERRY_ERROR_INVALID_ARGUMENT;
    if (!mipmapped) return FERRY_SUCCESS;
    return destroy_array(*instance, mipmapped).status;
}

int32_t ferry_mipmapped_array_destroy_async(ferry_instance *instance, CUmipmappedArray_st *mipmapped,
                                            CUstream_st *stream) {
    if (!instance) return FERRY_ERROR_INVALID_ARGUMENT;
    if (!mipmapped) return FERRY_SUCCESS;
    if (instance->fork_mark.is_in_child()) return no_driver_in_child;
    return noted(*instance, instance->deferred.give_up(mipmapped, stream).status);
}

int32_t ferry_array_get_plane(ferry_instance *instance, CUarray_st *array, uint32_t plane, CUarray_st **plane_array) {
    if (plane_array) *plane_array = nullptr;
    if (!instance || !array || !plane_array) return FERRY_ERROR_INVALID_ARGUMENT;
    context_scope scope(instance->cu);
    if (failure failed = enter_any(*instance, nullptr, scope)) return failed.status;
    return call_optional(instance->cu.cuArrayGetPlane, plane_array, array, plane);
}

int32_t ferry_array_describe(ferry_instance *instance, CUarray_st *array, ferry_array_desc *desc,
                             uint32_t *element_size) {
    if (element_size) *element_size = 0;
    if (!instance || !array || !desc) return FERRY_ERROR_INVALID_ARGUMENT;
    context_scope scope(instance->cu);
    if (failure failed = enter_any(*instance, nullptr, scope)) return failed.status;
    ferry_array_desc found = {};
    std::uint32_t bytes = 0;
    if (failure failed = describe_array(instance->cu, array, found, bytes)) return failed.status;
    if (failure failed = write_sized(found, desc)) return failed.status;
    if (element_size) *element_size = bytes;
    return FERRY_SUCCESS;
}

int32_t ferry_get_address_info(ferry_instance *instance, uint64_t address, ferry_address_info *info) {
    if (!instance || !info) return FERRY_ERROR_INVALID_ARGUMENT;
    ferry_address_info found = {};
    if (failure failed = describe_address(*instance, address, found)) return failed.status;
    return write_sized(found, info).status;
}

} // extern "C"
