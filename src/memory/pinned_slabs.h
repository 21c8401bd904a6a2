// The slabs of a pinned pool: pinned memory that is divided into blocks of one class, with a free list per slab.
//
// The pool's mutex guards everything here. A function with a `held` lock unlocks it during driver calls.
#pragma once

#include <algorithm>
#include <cstddef>
#include <mutex>

#include "base/chain.h"
#include "base/growing.h"
#include "device/context_name.h"
#include "ferry/ferry_memory.h"
#include "memory/block_class.h"
#include "memory/pinned.h"

namespace ferry {

using pool_lock = std::unique_lock<std::mutex>;

struct pinned_slab;
struct block_wait;

enum class block_state : std::uint8_t {
    ready,     // in the free list of its slab
    allocated, // used by the program
    leaving,   // being freed on a stream; allocated again if that fails
    waiting,   // for the event of `behind`
};

struct pinned_block {
    pinned_slab *home;
    pinned_block *next_ready;
    block_wait *behind; // work that may still use the block; also set for a block that take_behind has allocated
    block_state state;
};

// One allocation. The records of its blocks follow in memory.
struct pinned_slab {
    std::byte *base;
    std::uint64_t size;
    context_name made_in;
    int block_class;
    std::uint32_t count, ready_count;
    pinned_block *first_ready;
    pinned_slab *previous, *next;  // in the list of slabs of this class that have ready blocks
    std::uint64_t context_changes; // value of device_contexts::changes() before the allocation
    bool is_set_aside;             // the contexts have changed since: its ready blocks are not used again
    pinned_block *blocks() noexcept { return reinterpret_cast<pinned_block *>(this + 1); }
};

class pinned_slabs {
public:
    // Slabs are allocated according to `request`, in the context in use for `device`. A limit of 0 means no limit. With
    // `follows_contexts`, no block is taken from a slab that is older than the last change of the contexts in use.
    pinned_slabs(const driver_table &cu, device_contexts &contexts, pinned_memory &pinned, const allocator &memory,
                 const host_request &request, int device, std::uint64_t limit, bool follows_contexts) noexcept
        : cu_(cu), contexts_(contexts), pinned_(pinned), memory_(memory), request_(request), device_(device),
          limit_(limit), follows_contexts_(follows_contexts), slabs_(memory) {}

    pinned_block *take_ready(int block_class) noexcept; // null if no block is ready
    pinned_block *take_ready_or_larger(int block_class) noexcept;
    void make_ready(pinned_block &one) noexcept;
    bool is_outdated(const pinned_slab &one) const noexcept {
        return follows_contexts_ && one.context_changes != contexts_.changes();
    }

    static void *address_of(const pinned_block &one) noexcept;
    pinned_block *find_allocated(const void *address) noexcept; // null if no allocated block starts there

    // The size in bytes of the smallest slab that contains a block of this class.
    static std::uint64_t min_size(int block_class) noexcept;
    std::uint64_t room() const noexcept;        // bytes up to the limit
    std::uint64_t ready_bytes() const noexcept; // in slabs in which every block is ready
    // The error of a request for which there is no room. Only for a pool with a limit.
    [[gnu::cold]] error refuse(std::uint64_t amount) const noexcept;
    // Allocates a slab and takes a block of it. The limit must leave space for one block.
    error grow(int block_class, pool_lock &held, pinned_block *&taken) noexcept;
    // Releases slabs in which every block is ready, until `bytes` are released or there is no such slab left.
    error release(std::uint64_t bytes, pool_lock &held) noexcept;
    // Releases all slabs, including slabs with allocated blocks.
    error close(pool_lock &held) noexcept;

    std::uint64_t reserved() const noexcept { return reserved_; }
    void get_stats(ferry_pool_stats &stats) const noexcept;
    void reset_stats() noexcept;

private:
    struct slab_place { // sorted by address
        std::uintptr_t base;
        pinned_slab *there;
    };
    struct class_slabs {
        chain<pinned_slab> available;
        std::uint64_t held = 0; // bytes in its slabs, except slabs that are set aside
    };

    error allocate_memory(std::uint64_t size, pinned_slab &made) noexcept;
    error free_memory(const pinned_slab &gone) noexcept;
    error enter_own_context(context_scope &scope, CUcontext &context) noexcept;
    const slab_place *find_place_after(std::uintptr_t address) const noexcept;
    void insert(pinned_slab &made) noexcept;
    void leave_available(pinned_slab &one) noexcept;
    pinned_block *take_from(pinned_slab &home) noexcept;

    const driver_table &cu_;
    device_contexts &contexts_;
    pinned_memory &pinned_;
    const allocator &memory_;
    const host_request request_;
    const int device_;
    const std::uint64_t limit_;
    const bool follows_contexts_;

    class_slabs classes_[block_class_count];
    growing<slab_place> slabs_;
    std::size_t unlisted_slabs_ = 0; // being allocated or released
    std::uint64_t growing_ = 0;      // bytes being allocated
    std::uint64_t reserved_ = 0, reserved_high_ = 0, used_ = 0, used_high_ = 0;
};

// ---- The hot path: allocating and freeing a block.

inline pinned_block *pinned_slabs::take_from(pinned_slab &home) noexcept {
    pinned_block *const taken = home.first_ready;
    home.first_ready = taken->next_ready;
    if (--home.ready_count == 0) classes_[home.block_class].available.remove(home);
    used_ += block_class_size(home.block_class);
    used_high_ = std::max(used_high_, used_);
    return taken;
}

inline pinned_block *pinned_slabs::take_ready(int block_class) noexcept {
    const class_slabs &of = classes_[block_class];
    while (pinned_slab *const home = of.available.first()) {
        if (!is_outdated(*home)) return take_from(*home);
        leave_available(*home);
        home->is_set_aside = true;
    }
    return nullptr;
}

inline void pinned_slabs::make_ready(pinned_block &one) noexcept {
    pinned_slab &home = *one.home;
    one.state = block_state::ready;
    one.next_ready = home.first_ready;
    home.first_ready = &one;
    if (home.ready_count++ == 0) classes_[home.block_class].available.push_front(home);
    used_ -= block_class_size(home.block_class);
}

inline const pinned_slabs::slab_place *pinned_slabs::find_place_after(std::uintptr_t address) const noexcept {
    return std::upper_bound(slabs_.begin(), slabs_.end(), address,
                            [](std::uintptr_t base, const slab_place &there) { return base < there.base; });
}

inline pinned_block *pinned_slabs::find_allocated(const void *address) noexcept {
    const auto wanted = reinterpret_cast<std::uintptr_t>(address);
    const slab_place *const after = find_place_after(wanted);
    if (after == slabs_.begin()) return nullptr;
    pinned_slab &home = *after[-1].there;
    const std::uint64_t offset = wanted - after[-1].base, block_size = block_class_size(home.block_class);
    if (offset >= home.count * block_size || offset % block_size) return nullptr;
    pinned_block &found = home.blocks()[offset / block_size];
    return found.state == block_state::allocated ? &found : nullptr;
}

inline void *pinned_slabs::address_of(const pinned_block &one) noexcept {
    pinned_slab &home = *one.home;
    return home.base + static_cast<std::uint64_t>(&one - home.blocks()) * block_class_size(home.block_class);
}

} // namespace ferry
