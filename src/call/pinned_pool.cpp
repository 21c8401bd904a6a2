// The pinned pools: each call checks its arguments and hands them on.
#include <new>

#include "base/sized.h"
#include "call/instance.h"
#include "memory/pinned_pool.h"

using namespace ferry;

struct ferry_pinned_pool {
    const allocator &memory;
    const ferry::fork_mark
        &fork_mark; // the child may have been born with the pool's mutex locked, and has not its memory
    pinned_pool pool;
};

namespace {

failure bad_option(std::int32_t status, std::int32_t field, std::uint64_t limit = 0, std::uint64_t value = 0) noexcept {
    return refuse(status, FERRY_SIDE_OPTIONS, field, limit, value);
}

failure read_options(const ferry_instance &instance, const ferry_pinned_pool_options *theirs,
                     ferry_pinned_pool_options &options, host_request &request) noexcept {
    if (theirs)
        if (failure failed = read_sized(theirs, options)) return on_side(failed, FERRY_SIDE_OPTIONS);
    constexpr std::uint32_t known =
        FERRY_HOST_WRITE_COMBINED | FERRY_HOST_BY_DRIVER | FERRY_HOST_NOT_PORTABLE | FERRY_HOST_NOT_MAPPED;
    if (options.flags & ~known) return bad_option(FERRY_ERROR_FLAGS, FERRY_FIELD_FLAGS, 0, options.flags);
    if (options.reserved) return bad_option(FERRY_ERROR_RESERVED, FERRY_FIELD_RESERVED);
    request.flags = options.flags;
    request.owner = host_owner::pool;
    return instance.pinned.find_node(options.numa, options.device, options.numa_node, request.node);
}

failure create(ferry_instance &instance, const ferry_pinned_pool_options *theirs, ferry_pinned_pool *&pool) noexcept {
    ferry_pinned_pool_options options = {};
    host_request request;
    if (failure failed = read_options(instance, theirs, options, request)) return failed;
    const int device = options.numa == FERRY_NUMA_DEVICE ? options.device : 0;
    void *const place = instance.allocator.allocate(sizeof(ferry_pinned_pool), alignof(ferry_pinned_pool));
    if (!place) return {.status = FERRY_ERROR_OUT_OF_MEMORY};
    pool = new (place) ferry_pinned_pool{instance.allocator, instance.fork_mark,
                                         pinned_pool(instance.cu, instance.contexts, instance.pinned,
                                                     instance.allocator, request, device, options.limit)};
    return {};
}

} // namespace

extern "C" {

int32_t ferry_pinned_pool_create(ferry_instance *instance, const ferry_pinned_pool_options *options,
                                 ferry_pinned_pool **pool, ferry_error_info *error) {
    if (pool) *pool = nullptr;
    if (!instance || !pool) return report(error, null_argument);
    return report(error, create(*instance, options, *pool));
}

int32_t ferry_pinned_pool_destroy(ferry_pinned_pool *pool) {
    if (!pool) return FERRY_SUCCESS;
    if (pool->fork_mark.is_in_child()) return no_driver_in_child;
    const failure failed = pool->pool.close();
    if (failed.status == FERRY_ERROR_IN_USE) return failed.status;
    const allocator &memory = pool->memory;
    pool->~ferry_pinned_pool();
    memory.deallocate(pool, sizeof(ferry_pinned_pool));
    return failed.status;
}

int32_t ferry_pinned_pool_alloc(ferry_pinned_pool *pool, uint64_t size, void **address) {
    if (address) *address = nullptr;
    if (!pool || !size || !address) return FERRY_ERROR_INVALID_ARGUMENT;
    if (pool->fork_mark.is_in_child()) return no_driver_in_child;
    return pool->pool.allocate(size, *address).status;
}

int32_t ferry_pinned_pool_alloc_async(ferry_pinned_pool *pool, uint64_t size, CUstream_st *stream, void **address) {
    if (address) *address = nullptr;
    if (!pool || !size || !address) return FERRY_ERROR_INVALID_ARGUMENT;
    if (pool->fork_mark.is_in_child()) return no_driver_in_child;
    return pool->pool.allocate_on(stream, size, *address).status;
}

int32_t ferry_pinned_pool_free(ferry_pinned_pool *pool, void *address) {
    if (!pool) return FERRY_ERROR_INVALID_ARGUMENT;
    if (pool->fork_mark.is_in_child()) return no_driver_in_child;
    return address ? pool->pool.free(address).status : FERRY_SUCCESS;
}

int32_t ferry_pinned_pool_free_async(ferry_pinned_pool *pool, void *address, CUstream_st *stream) {
    if (!pool) return FERRY_ERROR_INVALID_ARGUMENT;
    if (pool->fork_mark.is_in_child()) return no_driver_in_child;
    return address ? pool->pool.free_on(stream, address).status : FERRY_SUCCESS;
}

int32_t ferry_pinned_pool_trim(ferry_pinned_pool *pool, uint64_t keep) {
    if (!pool) return FERRY_ERROR_INVALID_ARGUMENT;
    if (pool->fork_mark.is_in_child()) return no_driver_in_child;
    return pool->pool.trim(keep).status;
}

int32_t ferry_pinned_pool_get_stats(ferry_pinned_pool *pool, ferry_pool_stats *stats) {
    if (!pool || !stats) return FERRY_ERROR_INVALID_ARGUMENT;
    if (pool->fork_mark.is_in_child()) return no_driver_in_child;
    ferry_pool_stats found = {};
    if (failure failed = pool->pool.get_stats(found)) return failed.status;
    return write_sized(found, stats).status;
}

int32_t ferry_pinned_pool_reset_stats(ferry_pinned_pool *pool) {
    if (!pool) return FERRY_ERROR_INVALID_ARGUMENT;
    if (pool->fork_mark.is_in_child()) return no_driver_in_child;
    return pool->pool.reset_stats().status;
}

} // extern "C"
