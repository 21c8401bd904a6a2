// Stream-ordered memory and its pools: each call chooses a context, where it needs one, and calls the driver.
#include "abi/instance.h"

using namespace ferry;

extern "C" {

int32_t ferry_device_alloc_async(ferry_instance *, int32_t, uint64_t, CUstream_st *, uint64_t *) {
    return FERRY_ERROR_UNSUPPORTED;
}

int32_t ferry_device_free_async(ferry_instance *, uint64_t, CUstream_st *) { return FERRY_ERROR_UNSUPPORTED; }

int32_t ferry_pool_alloc_async(ferry_instance *, CUmemPoolHandle_st *, uint64_t, CUstream_st *, uint64_t *) {
    return FERRY_ERROR_UNSUPPORTED;
}

int32_t ferry_pool_create(ferry_instance *, const ferry_pool_desc *, CUmemPoolHandle_st **, ferry_error_info *) {
    return FERRY_ERROR_UNSUPPORTED;
}

int32_t ferry_pool_destroy(ferry_instance *, CUmemPoolHandle_st *) { return FERRY_ERROR_UNSUPPORTED; }

int32_t ferry_pool_get_access(ferry_instance *, CUmemPoolHandle_st *, int32_t, int32_t *) {
    return FERRY_ERROR_UNSUPPORTED;
}

int32_t ferry_pool_get_attributes(ferry_instance *, CUmemPoolHandle_st *, ferry_pool_attributes *) {
    return FERRY_ERROR_UNSUPPORTED;
}

int32_t ferry_pool_get_current(ferry_instance *, int32_t, int32_t, CUmemPoolHandle_st **) {
    return FERRY_ERROR_UNSUPPORTED;
}

int32_t ferry_pool_get_default(ferry_instance *, int32_t, int32_t, CUmemPoolHandle_st **) {
    return FERRY_ERROR_UNSUPPORTED;
}

int32_t ferry_pool_get_info(ferry_instance *, CUmemPoolHandle_st *, ferry_pool_info *) {
    return FERRY_ERROR_UNSUPPORTED;
}

int32_t ferry_pool_get_stats(ferry_instance *, CUmemPoolHandle_st *, ferry_pool_stats *) {
    return FERRY_ERROR_UNSUPPORTED;
}

int32_t ferry_pool_reset_stats(ferry_instance *, CUmemPoolHandle_st *) { return FERRY_ERROR_UNSUPPORTED; }

int32_t ferry_pool_set_access(ferry_instance *, CUmemPoolHandle_st *, int32_t, int32_t) {
    return FERRY_ERROR_UNSUPPORTED;
}

int32_t ferry_pool_set_attributes(ferry_instance *, CUmemPoolHandle_st *, const ferry_pool_attributes *) {
    return FERRY_ERROR_UNSUPPORTED;
}

int32_t ferry_pool_set_current(ferry_instance *, int32_t, int32_t, CUmemPoolHandle_st *) {
    return FERRY_ERROR_UNSUPPORTED;
}

int32_t ferry_pool_trim(ferry_instance *, CUmemPoolHandle_st *, uint64_t) { return FERRY_ERROR_UNSUPPORTED; }

} // extern "C"
