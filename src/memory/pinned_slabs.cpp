#include "memory/pinned_slabs.h"

#include <algorithm>

#include "base/rounding.h"
#include "driver/result.h"

namespace ferry {

namespace {

constexpr std::uint64_t slab_unit = 4096; // granularity of slabs on every system
// A class grows by as much as it has, within these limits. Allocating less than 64 KiB costs as much as 64 KiB, and 2
// MiB is a huge page.
constexpr std::uint64_t min_slab = 64 << 10, max_shared_slab = 2 << 20;

constexpr std::uint64_t to_units(std::uint64_t size) noexcept { return round_up(size, slab_unit); }

constexpr std::uint64_t record_size(std::uint64_t block_count) noexcept {
    return sizeof(pinned_slab) + block_count * sizeof(pinned_block);
}

} // namespace

// ---- Memory

error pinned_slabs::enter_own_context(context_scope &scope, CUcontext &context) noexcept {
    if (error failed = contexts_.get(device_, context)) return failed;
    return scope.enter(context);
}

error pinned_slabs::allocate_memory(std::uint64_t size, pinned_slab &made) noexcept {
    context_scope scope(cu_);
    if (error failed = enter_own_context(scope, made.made_in.handle)) return failed;
    made.made_in = name_context(cu_, made.made_in.handle);
    host_request request = request_;
    request.size = size;
    host_block taken = {};
    if (error failed = pinned_.allocate(request, taken)) return failed;
    made.base = reinterpret_cast<std::byte *>(taken.address);
    return {};
}

error pinned_slabs::free_memory(const pinned_slab &gone) noexcept {
    context_scope scope(cu_);
    CUcontext context = nullptr;
    if (error failed = enter_own_context(scope, context)) return failed;
    const auto address = reinterpret_cast<std::uintptr_t>(gone.base);
    if (!may_live(cu_, gone.made_in)) return pinned_.free_lost(address, request_.owner);
    const error failed = pinned_.free(address, request_.owner);
    // The driver rejects an address whose memory ended with its context.
    return failed.status == to_status(CUDA_ERROR_INVALID_VALUE) ? ok : failed;
}

// ---- Slabs

std::uint64_t pinned_slabs::min_size(int block_class) noexcept { return to_units(block_class_size(block_class)); }

std::uint64_t pinned_slabs::room() const noexcept {
    const std::uint64_t limit = limit_ ? limit_ : UINT64_MAX;
    return (limit - std::min(limit, reserved_ + growing_)) / slab_unit * slab_unit;
}

error pinned_slabs::refuse(std::uint64_t amount) const noexcept {
    return refuse_option(FERRY_ERROR_LIMIT, FERRY_FIELD_MAX_SIZE, numbers::at_most, limit_,
                         reserved_ + growing_ + amount);
}

std::uint64_t pinned_slabs::ready_bytes() const noexcept {
    std::uint64_t bytes = 0;
    for (const slab_place &place : slabs_)
        if (place.there->ready_count == place.there->count) bytes += place.there->size;
    return bytes;
}

void pinned_slabs::insert(pinned_slab &made) noexcept {
    const slab_place place = {reinterpret_cast<std::uintptr_t>(made.base), &made};
    const slab_place *const after = find_place_after(place.base);
    [[maybe_unused]] const bool inserted = slabs_.insert(static_cast<std::size_t>(after - slabs_.begin()), place);
    --unlisted_slabs_; // slabs_ always has space for the unlisted slabs
    class_slabs &of = classes_[made.block_class];
    of.available.push_front(made);
    of.held += made.size;
}

pinned_block *pinned_slabs::take_ready_or_larger(int block_class) noexcept {
    pinned_block *taken = nullptr;
    while (!taken && block_class < block_class_count)
        taken = take_ready(block_class++);
    return taken;
}

error pinned_slabs::grow(int block_class, pool_lock &held, pinned_block *&taken) noexcept {
    const class_slabs &of = classes_[block_class];
    const std::uint64_t block_size = block_class_size(block_class);
    const std::uint64_t wanted = std::max(std::clamp(of.held, min_slab, max_shared_slab), block_size);
    const std::uint64_t allowed = std::max(pinned_.room(request_.owner) / slab_unit * slab_unit, block_size);
    const std::uint64_t count = std::min({wanted, room(), allowed}) / block_size, size = to_units(count * block_size);
    if (!slabs_.reserve(slabs_.size() + unlisted_slabs_ + 1)) return no_memory;
    auto *const made = static_cast<pinned_slab *>(memory_.allocate(record_size(count), alignof(pinned_slab)));
    if (!made) return no_memory;
    *made = {};
    made->size = size;
    made->block_class = block_class;
    made->context_changes = contexts_.changes();
    made->count = made->ready_count = static_cast<std::uint32_t>(count);
    for (std::uint64_t i = count; i-- > 0;) {
        made->blocks()[i] = {made, made->first_ready, nullptr, block_state::ready};
        made->first_ready = &made->blocks()[i];
    }

    growing_ += size;
    ++unlisted_slabs_;
    held.unlock();
    const error failed = allocate_memory(size, *made);
    held.lock();
    growing_ -= size;
    if (failed) {
        --unlisted_slabs_;
        memory_.deallocate(made, record_size(count));
        return failed;
    }
    reserved_ += size;
    reserved_high_ = std::max(reserved_high_, reserved_);
    insert(*made);
    taken = take_from(*made);
    return {};
}

error pinned_slabs::release(std::uint64_t bytes, pool_lock &held) noexcept {
    chain<pinned_slab> gone;
    std::uint64_t taken_out = 0;
    for (std::size_t i = slabs_.size(); i-- > 0 && taken_out < bytes;) {
        pinned_slab &one = *slabs_[i].there;
        if (one.ready_count < one.count) continue;
        if (!one.is_set_aside) leave_available(one);
        one.is_set_aside = false;
        slabs_.remove(i);
        ++unlisted_slabs_;
        gone.push_back(one);
        taken_out += one.size;
    }
    error first_failed;
    while (pinned_slab *const one = gone.pop()) {
        held.unlock();
        const error failed = free_memory(*one);
        held.lock();
        if (failed) {
            if (!first_failed) first_failed = failed;
            insert(*one);
            continue;
        }
        --unlisted_slabs_;
        reserved_ -= one->size;
        memory_.deallocate(one, record_size(one->count));
    }
    return first_failed;
}

error pinned_slabs::close(pool_lock &held) noexcept {
    const error failed = release(UINT64_MAX, held);
    for (const slab_place &place : slabs_) { // slabs that could not be released
        // Retries in the current context, because afterwards there is no record of the slab.
        static_cast<void>(pinned_.free(place.base, request_.owner));
        memory_.deallocate(place.there, record_size(place.there->count));
    }
    return failed;
}

void pinned_slabs::leave_available(pinned_slab &one) noexcept {
    class_slabs &of = classes_[one.block_class];
    of.available.remove(one);
    of.held -= one.size;
}

// ---- Statistics

void pinned_slabs::get_stats(ferry_pool_stats &stats) const noexcept {
    stats.reserved_current = reserved_;
    stats.reserved_high = reserved_high_;
    stats.used_current = used_;
    stats.used_high = used_high_;
}

void pinned_slabs::reset_stats() noexcept {
    reserved_high_ = reserved_;
    used_high_ = used_;
}

} // namespace ferry
