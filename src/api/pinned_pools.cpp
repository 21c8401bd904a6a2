// The C functions for pinned pools.
#include "base/sized.h"
#include "submit/note_error.h"
#include <new>

using namespace ferry;

struct ferry_pinned_pool {
    ferry_instance &instance;
    ferry::pinned_pool pool;

    // In a forked child, the pool's mutex may be locked forever, and the pool's memory is not mapped.
    bool is_in_child() const noexcept { return instance.fork_mark.is_in_child(); }
};

namespace {

// The caller must have checked the flags in `options`.
error create_pinned_pool(ferry_instance &instance, const ferry_pinned_pool_options &options,
                         ferry_pinned_pool *&pool) noexcept {
    host_request request = {.flags = options.flags, .owner = host_owner::pool};
    if (error failed = instance.pinned.find_node(options.numa, options.device, options.numa_node, request.node))
        return failed;
    const int device = options.numa == FERRY_NUMA_DEVICE ? options.device : 0;
    void *const place = instance.allocator.allocate(sizeof(ferry_pinned_pool), alignof(ferry_pinned_pool));
    if (!place) return no_memory;
    pool = new (place) ferry_pinned_pool{instance, pinned_pool(instance.cu, instance.contexts, instance.pinned,
                                                               instance.allocator, request, device, options.max_size)};
    return {};
}

// If some of the pool's memory is in use, returns FERRY_ERROR_IN_USE and the pool stays open.
error destroy_pinned_pool(ferry_pinned_pool &pool) noexcept {
    const error failed = pool.pool.close();
    if (failed.status == FERRY_ERROR_IN_USE) return failed;
    const allocator &memory = pool.instance.allocator;
    pool.~ferry_pinned_pool();
    memory.deallocate(&pool, sizeof(ferry_pinned_pool));
    return failed;
}

// Whatever the driver returns, the pool is gone.
error end_pinned_pool(void *, void *pool) noexcept {
    static_cast<void>(destroy_pinned_pool(*static_cast<ferry_pinned_pool *>(pool)));
    return {};
}

error destroy_pinned_pool_deferred(ferry_pinned_pool &pool, CUstream stream) noexcept {
    if (pool.is_in_child()) return in_child;
    std::uint64_t bytes = 0;
    if (error failed = pool.pool.check_unused(bytes)) return failed;
    constexpr int host = -1;
    const error failed = pool.instance.deferred.defer({nullptr, &pool, end_pinned_pool}, bytes, host, stream);
    note_error(pool.instance, failed);
    return failed;
}

error read_options(const ferry_pinned_pool_options *theirs, ferry_pinned_pool_options &options) noexcept {
    if (theirs)
        if (error failed = read_sized(theirs, options)) return on_side(failed, FERRY_SIDE_OPTIONS);
    if (options.flags & ~common_host_flags)
        return refuse_option(FERRY_ERROR_FLAGS, FERRY_FIELD_FLAGS, numbers::bits, common_host_flags, options.flags);
    return options.reserved ? refuse_option(FERRY_ERROR_RESERVED, FERRY_FIELD_RESERVED) : ok;
}

error check_block_request(const ferry_pinned_pool *pool, std::uint64_t size, void *const *address) noexcept {
    if (!pool) return refuse_null(FERRY_FIELD_POOL);
    if (!address) return null_among(address);
    if (!size) return refuse_zero(FERRY_FIELD_SIZE);
    return pool->is_in_child() ? in_child : ok;
}

} // namespace

extern "C" {

int32_t ferry_pinned_pool_create(ferry_instance *instance, const ferry_pinned_pool_options *options,
                                 ferry_pinned_pool **pool, ferry_error_info *details) {
    if (pool) *pool = nullptr;
    if (!instance || !pool) return report_null(details, instance, pool);
    ferry_pinned_pool_options known = {};
    error failed = read_options(options, known);
    if (!failed) failed = create_pinned_pool(*instance, known, *pool);
    return report(details, failed);
}

int32_t ferry_pinned_pool_destroy(ferry_pinned_pool *pool, ferry_error_info *details) {
    if (!pool) return report(details, ok);
    if (pool->is_in_child()) return report(details, in_child);
    return report(details, destroy_pinned_pool(*pool));
}

int32_t ferry_pinned_pool_destroy_deferred(ferry_pinned_pool *pool, CUstream_st *stream, ferry_error_info *details) {
    return report(details, pool ? destroy_pinned_pool_deferred(*pool, stream) : ok);
}

int32_t ferry_pinned_pool_alloc(ferry_pinned_pool *pool, uint64_t size, void **address, ferry_error_info *details) {
    if (address) *address = nullptr;
    if (error failed = check_block_request(pool, size, address)) return report(details, failed);
    return report(details, about(pool->pool.allocate(size, *address), FERRY_FIELD_SIZE, size));
}

int32_t ferry_pinned_pool_alloc_async(ferry_pinned_pool *pool, uint64_t size, CUstream_st *stream, void **address,
                                      ferry_error_info *details) {
    if (address) *address = nullptr;
    if (error failed = check_block_request(pool, size, address)) return report(details, failed);
    return report(details, about(pool->pool.allocate_on(stream, size, *address), FERRY_FIELD_SIZE, size));
}

int32_t ferry_pinned_pool_free(ferry_pinned_pool *pool, void *address, ferry_error_info *details) {
    if (!pool) return report_null_field(details, FERRY_FIELD_POOL);
    if (pool->is_in_child()) return report(details, in_child);
    return report(details, address ? about(pool->pool.free(address), FERRY_FIELD_ADDRESS, number(address)) : ok);
}

int32_t ferry_pinned_pool_free_async(ferry_pinned_pool *pool, void *address, CUstream_st *stream,
                                     ferry_error_info *details) {
    if (!pool) return report_null_field(details, FERRY_FIELD_POOL);
    if (pool->is_in_child()) return report(details, in_child);
    return report(details,
                  address ? about(pool->pool.free_on(stream, address), FERRY_FIELD_ADDRESS, number(address)) : ok);
}

int32_t ferry_pinned_pool_trim(ferry_pinned_pool *pool, uint64_t keep, ferry_error_info *details) {
    if (!pool) return report_null_field(details, FERRY_FIELD_POOL);
    if (pool->is_in_child()) return report(details, in_child);
    return report(details, pool->pool.trim(keep));
}

int32_t ferry_pinned_pool_get_stats(ferry_pinned_pool *pool, ferry_pool_stats *stats, ferry_error_info *details) {
    if (!pool) return report_null_field(details, FERRY_FIELD_POOL);
    if (!stats) return report_null(details, stats);
    if (pool->is_in_child()) return report(details, in_child);
    ferry_pool_stats found = {};
    if (error failed = pool->pool.get_stats(found)) return report(details, failed);
    return report(details, write_sized(found, stats));
}

int32_t ferry_pinned_pool_reset_stats(ferry_pinned_pool *pool, ferry_error_info *details) {
    if (!pool) return report_null_field(details, FERRY_FIELD_POOL);
    if (pool->is_in_child()) return report(details, in_child);
    return report(details, pool->pool.reset_stats());
}

} // extern "C"
