// Stream-ordered memory and its pools.
#include "call/pools.h"
#include "base/sized.h"
#include "call/pool_memory.h"
#include "driver/result.h"

using namespace ferry;

extern "C" {

int32_t ferry_device_alloc_async(ferry_instance *instance, int32_t device, uint64_t size, CUstream_st *stream,
                                 uint64_t *address) {
    if (address) *address = 0;
    if (!instance || !address) return FERRY_ERROR_INVALID_ARGUMENT;
    return allocate_on_stream(*instance, device, size, stream, *address);
}

int32_t ferry_device_free_async(ferry_instance *instance, uint64_t address, CUstream_st *stream) {
    if (!instance) return FERRY_ERROR_INVALID_ARGUMENT;
    return address ? free_on_stream(*instance, address, stream) : FERRY_SUCCESS;
}

int32_t ferry_pool_alloc_async(ferry_instance *instance, CUmemPoolHandle_st *pool, uint64_t size, CUstream_st *stream,
                               uint64_t *address) {
    if (address) *address = 0;
    if (!instance || !pool || !address) return FERRY_ERROR_INVALID_ARGUMENT;
    return allocate_from_pool(*instance, pool, size, stream, *address);
}

int32_t ferry_pool_create(ferry_instance *instance, const ferry_pool_desc *desc, CUmemPoolHandle_st **pool,
                          ferry_error_info *error) {
    if (pool) *pool = nullptr;
    if (!instance || !desc || !pool) return report(error, null_argument);
    ferry_pool_desc wanted = {};
    if (failure failed = read_sized(desc, wanted)) return report(error, on_side(failed, FERRY_SIDE_OPTIONS));
    return report(error, create_pool(*instance, wanted, *pool));
}

int32_t ferry_pool_destroy(ferry_instance *instance, CUmemPoolHandle_st *pool) {
    if (!instance) return FERRY_ERROR_INVALID_ARGUMENT;
    if (!pool) return FERRY_SUCCESS;
    return administer_own(*instance, pool, [&]() noexcept { return destroy_pool(*instance, pool); });
}

int32_t ferry_pool_get_default(ferry_instance *instance, int32_t location, int32_t index, CUmemPoolHandle_st **pool) {
    if (pool) *pool = nullptr;
    if (!instance || !pool) return FERRY_ERROR_INVALID_ARGUMENT;
    const pool_location where = {location, index};
    if (failure failed = check_location(*instance, where)) return failed.status;
    return instance->pools.get_default(where, *pool).status;
}

int32_t ferry_pool_get_current(ferry_instance *instance, int32_t location, int32_t index, CUmemPoolHandle_st **pool) {
    if (pool) *pool = nullptr;
    if (!instance || !pool) return FERRY_ERROR_INVALID_ARGUMENT;
    const pool_location where = {location, index};
    if (failure failed = check_location(*instance, where)) return failed.status;
    return instance->pools.get_current(where, *pool).status;
}

int32_t ferry_pool_set_current(ferry_instance *instance, int32_t location, int32_t index, CUmemPoolHandle_st *pool) {
    if (!instance || !pool) return FERRY_ERROR_INVALID_ARGUMENT;
    const pool_location where = {location, index};
    if (failure failed = check_location(*instance, where)) return failed.status;
    return administer_own(*instance, pool,
                          [&]() noexcept -> failure { return instance->pools.set_current(where, pool); });
}

int32_t ferry_pool_get_info(ferry_instance *instance, CUmemPoolHandle_st *pool, ferry_pool_info *info) {
    if (!instance || !pool || !info) return FERRY_ERROR_INVALID_ARGUMENT;
    return administer(*instance, [&]() noexcept -> failure {
        ferry_pool_info found = {};
        if (failure failed = describe_pool(*instance, pool, found)) return failed;
        return write_sized(found, info);
    });
}

int32_t ferry_pool_get_attributes(ferry_instance *instance, CUmemPoolHandle_st *pool,
                                  ferry_pool_attributes *attributes) {
    if (!instance || !pool || !attributes) return FERRY_ERROR_INVALID_ARGUMENT;
    return administer_own(*instance, pool, [&]() noexcept -> failure {
        ferry_pool_attributes found = {};
        if (failure failed = get_pool_attributes(instance->cu, pool, found)) return failed;
        return write_sized(found, attributes);
    });
}

int32_t ferry_pool_set_attributes(ferry_instance *instance, CUmemPoolHandle_st *pool,
                                  const ferry_pool_attributes *attributes) {
    if (!instance || !pool || !attributes) return FERRY_ERROR_INVALID_ARGUMENT;
    ferry_pool_attributes wanted = {};
    if (failure failed = read_sized(attributes, wanted)) return failed.status;
    return administer_own(*instance, pool, [&]() noexcept -> failure {
        return set_pool_attributes(instance->cu, pool, wanted, attributes->struct_size);
    });
}

int32_t ferry_pool_get_stats(ferry_instance *instance, CUmemPoolHandle_st *pool, ferry_pool_stats *stats) {
    if (!instance || !pool || !stats) return FERRY_ERROR_INVALID_ARGUMENT;
    return administer_own(*instance, pool, [&]() noexcept -> failure {
        ferry_pool_stats found = {};
        if (failure failed = get_pool_stats(instance->cu, pool, found)) return failed;
        return write_sized(found, stats);
    });
}

int32_t ferry_pool_reset_stats(ferry_instance *instance, CUmemPoolHandle_st *pool) {
    if (!instance || !pool) return FERRY_ERROR_INVALID_ARGUMENT;
    return administer_own(*instance, pool, [&]() noexcept -> failure { return reset_pool_stats(instance->cu, pool); });
}

int32_t ferry_pool_trim(ferry_instance *instance, CUmemPoolHandle_st *pool, uint64_t keep) {
    if (!instance || !pool) return FERRY_ERROR_INVALID_ARGUMENT;
    return administer_own(*instance, pool, [&]() noexcept -> failure {
        return {.status = call_optional(instance->cu.cuMemPoolTrimTo, pool, keep)};
    });
}

int32_t ferry_pool_set_access(ferry_instance *instance, CUmemPoolHandle_st *pool, int32_t device, int32_t access) {
    if (!instance || !pool) return FERRY_ERROR_INVALID_ARGUMENT;
    if (access != FERRY_ACCESS_NONE && access != FERRY_ACCESS_READ_WRITE) return FERRY_ERROR_INVALID_ARGUMENT;
    if (failure failed = check_device(*instance, device)) return failed.status;
    return administer(*instance,
                      [&]() noexcept -> failure { return set_pool_access(*instance, pool, device, access); });
}

int32_t ferry_pool_get_access(ferry_instance *instance, CUmemPoolHandle_st *pool, int32_t device, int32_t *access) {
    if (access) *access = FERRY_ACCESS_NONE;
    if (!instance || !pool || !access) return FERRY_ERROR_INVALID_ARGUMENT;
    if (failure failed = check_device(*instance, device)) return failed.status;
    return administer(*instance,
                      [&]() noexcept -> failure { return instance->pools.get_access(pool, device, *access); });
}

} // extern "C"
