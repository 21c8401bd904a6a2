// The pinned pools: each call checks its arguments and hands them on.
#include "abi/instance.h"

using namespace ferry;

extern "C" {

int32_t ferry_pinned_pool_alloc(ferry_pinned_pool *, uint64_t, void **) { return FERRY_ERROR_UNSUPPORTED; }

int32_t ferry_pinned_pool_alloc_async(ferry_pinned_pool *, uint64_t, CUstream_st *, void **) {
    return FERRY_ERROR_UNSUPPORTED;
}

int32_t ferry_pinned_pool_create(ferry_instance *, const ferry_pinned_pool_options *, ferry_pinned_pool **,
                                 ferry_error_info *) {
    return FERRY_ERROR_UNSUPPORTED;
}

int32_t ferry_pinned_pool_destroy(ferry_pinned_pool *) { return FERRY_ERROR_UNSUPPORTED; }

int32_t ferry_pinned_pool_free(ferry_pinned_pool *, void *) { return FERRY_ERROR_UNSUPPORTED; }

int32_t ferry_pinned_pool_free_async(ferry_pinned_pool *, void *, CUstream_st *) { return FERRY_ERROR_UNSUPPORTED; }

int32_t ferry_pinned_pool_get_stats(ferry_pinned_pool *, ferry_pool_stats *) { return FERRY_ERROR_UNSUPPORTED; }

int32_t ferry_pinned_pool_reset_stats(ferry_pinned_pool *) { return FERRY_ERROR_UNSUPPORTED; }

int32_t ferry_pinned_pool_trim(ferry_pinned_pool *, uint64_t) { return FERRY_ERROR_UNSUPPORTED; }

} // extern "C"
