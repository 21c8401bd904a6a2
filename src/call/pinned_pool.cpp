#include "call/pinned_pool.h"

#include <new>

namespace ferry {

failure create_pinned_pool(ferry_instance &instance, const ferry_pinned_pool_options &options,
                           ferry_pinned_pool *&pool) noexcept {
    host_request request = {.flags = options.flags, .owner = host_owner::pool};
    if (failure failed = instance.pinned.find_node(options.numa, options.device, options.numa_node, request.node))
        return failed;
    const int device = options.numa == FERRY_NUMA_DEVICE ? options.device : 0;
    void *const place = instance.allocator.allocate(sizeof(ferry_pinned_pool), alignof(ferry_pinned_pool));
    if (!place) return no_memory;
    pool = new (place) ferry_pinned_pool{instance.allocator, instance.fork_mark,
                                         pinned_pool(instance.cu, instance.contexts, instance.pinned,
                                                     instance.allocator, request, device, options.limit)};
    return {};
}

failure destroy_pinned_pool(ferry_pinned_pool &pool) noexcept {
    const failure failed = pool.pool.close();
    if (failed.status == FERRY_ERROR_IN_USE) return failed;
    const allocator &memory = pool.memory;
    pool.~ferry_pinned_pool();
    memory.deallocate(&pool, sizeof(ferry_pinned_pool));
    return failed;
}

} // namespace ferry
