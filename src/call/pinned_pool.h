// A pinned pool as programs hold it.
#pragma once

#include "call/instance.h"

struct ferry_pinned_pool {
    const ferry::allocator &memory;
    // The child may have been born with the pool's mutex locked, and has not its memory.
    const ferry::fork_mark &fork_mark;
    ferry::pinned_pool pool;
};

namespace ferry {

// The flags of the options are known ones.
failure create_pinned_pool(ferry_instance &instance, const ferry_pinned_pool_options &options,
                           ferry_pinned_pool *&pool) noexcept;
// It lives on where some of its memory is in use.
failure destroy_pinned_pool(ferry_pinned_pool &pool) noexcept;

} // namespace ferry
