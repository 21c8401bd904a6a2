// Pinned memory. ferry allocates it several times as fast as the driver. It is registered memory, which several calls
// treat differently from the driver's own memory, so these calls are replaced too.
#include <algorithm>
#include <pthread.h>

#include "exported.h"
#include "ferry/ferry_memory.h"
#include "serve.h"

using namespace ferry_run;

namespace {

// The driver's own allocations of fewer bytes are faster than starting ferry's threads.
constexpr std::uint64_t worth_allocating = std::uint64_t{8} << 20;

struct block {
    std::uint64_t begin, end;
};

// The blocks that ferry allocated, sorted by address.
class block_set {
public:
    bool add(const block &added) noexcept {
        pthread_mutex_lock(&mutex_);
        const bool has_room = count_ < max_blocks;
        if (has_room) {
            block *const at = first_behind(added.begin);
            std::copy_backward(at, all_ + count_, all_ + count_ + 1);
            *at = added;
            ++count_;
        }
        pthread_mutex_unlock(&mutex_);
        return has_room;
    }
    // Whether a block starts at the address; with `inside`, whether the address is anywhere in a block.
    bool contains(std::uint64_t address, bool inside = false) noexcept {
        pthread_mutex_lock(&mutex_);
        const block *const at = first_behind(address);
        const bool is_known = at != all_ && (at[-1].begin == address || (inside && address < at[-1].end));
        pthread_mutex_unlock(&mutex_);
        return is_known;
    }
    bool remove(std::uint64_t address) noexcept {
        pthread_mutex_lock(&mutex_);
        block *const at = first_behind(address);
        const bool is_known = at != all_ && at[-1].begin == address;
        if (is_known) {
            std::copy(at, all_ + count_, at - 1);
            --count_;
        }
        pthread_mutex_unlock(&mutex_);
        return is_known;
    }

private:
    block *first_behind(std::uint64_t address) noexcept {
        return std::upper_bound(all_, all_ + count_, address,
                                [](std::uint64_t one, const block &other) { return one < other.begin; });
    }

    static constexpr unsigned max_blocks = 1U << 14; // of at least 8 MiB, which is 128 GiB in total
    pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
    block all_[max_blocks] = {};
    unsigned count_ = 0;
};
block_set blocks;

std::uint64_t number(const void *address) noexcept { return reinterpret_cast<std::uintptr_t>(address); }

// Whether the address belongs to memory that ferry allocated: its start, or with `inside` any part of it. In a forked
// child, the answer is always false, because another thread may have held the lock at the fork.
bool is_of_ferry(const void *address, bool inside = false) noexcept {
    return may_serve.load(std::memory_order_relaxed) && !is_inside() && blocks.contains(number(address), inside);
}

verdict allocate(void **address, std::size_t bytes, unsigned flags) noexcept {
    const inside_ferry inside;
    constexpr traffic kind = traffic::pinned_allocation;
    constexpr unsigned known = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP;
    if (!address || flags & ~known) return {outcome::unserved_call, kind}; // the driver allocates write-combined memory
    const driver *const on = the_driver();
    CUcontext current = nullptr;
    if (!on) return {outcome::no_ferry, kind};
    if (on->cuCtxGetCurrent(&current) != CUDA_SUCCESS || !current) return {outcome::other_context, kind};
    if (the_settings().mode == mode::report_only) return {outcome::report_only_other, kind};
    ferry_instance *const ferry = allocating_instance();
    if (!ferry) return {outcome::no_ferry, kind};
    ferry_host_options options = {};
    options.struct_size = sizeof options;
    options.flags = (flags & CU_MEMHOSTALLOC_PORTABLE ? 0 : FERRY_HOST_NOT_PORTABLE) |
                    (the_settings().pins_privately ? 0 : FERRY_HOST_SHARED);
    ferry_host_block made = {};
    made.struct_size = sizeof made;
    if (ferry_host_alloc(ferry, bytes, &options, &made, nullptr) != FERRY_SUCCESS) return {outcome::refused, kind};
    if (made.origin == FERRY_HOST_FROM_MAPPING && !blocks.add({number(made.address), number(made.address) + bytes})) {
        ferry_host_free(ferry, made.address, nullptr);
        return {outcome::refused, kind};
    }
    *address = made.address;
    return {outcome::allocated, kind};
}

template <entry self, class... Arguments>
CUresult run(void **address, std::size_t bytes, unsigned flags, Arguments... arguments) {
    const auto try_ferry = [&]() -> verdict {
        if (bytes < worth_allocating) return {outcome::small, traffic::pinned_allocation};
        if (the_settings().pins) return allocate(address, bytes, flags);
        return {outcome::driver_is_fastest, traffic::pinned_allocation};
    };
    return pass_on<self>(bytes, try_ferry, arguments...);
}

} // namespace

FERRY_RUN_EXPORTED cuMemHostAlloc(void **address, size_t bytes, unsigned flags) {
    return run<entry::cuMemHostAlloc>(address, bytes, flags, address, bytes, flags);
}

FERRY_RUN_EXPORTED cuMemAllocHost_v2(void **address, size_t bytes) {
    return run<entry::cuMemAllocHost_v2>(address, bytes, 0, address, bytes);
}

FERRY_RUN_EXPORTED cuMemFreeHost(void *address) {
    // Applies even if ferry-run was turned off meanwhile, because ferry still owns the memory.
    forget_pinned();
    ferry_instance *const ferry = is_of_ferry(address) ? allocating_instance() : nullptr;
    if (!ferry) return call_real<entry::cuMemFreeHost>(address);
    const inside_ferry inside;
    // Memory whose context has ended is still mapped, but the driver no longer knows it and its call reports that.
    ferry_address_info info = {};
    info.struct_size = sizeof info;
    const int32_t status = ferry_address_get_info(ferry, number(address), &info, nullptr);
    const bool is_gone = status == FERRY_SUCCESS && info.memory != FERRY_MEMORY_PINNED;
    if (!blocks.remove(number(address))) return call_real<entry::cuMemFreeHost>(address);
    // First, because another block may get the address once it is unmapped.
    const CUresult refused = is_gone ? call_real<entry::cuMemFreeHost>(address) : CUDA_SUCCESS;
    const int32_t freed = ferry_host_free(ferry, address, nullptr);
    return is_gone ? refused : to_result(freed);
}

// The driver registers and unregisters only memory that it did not allocate.
FERRY_RUN_EXPORTED cuMemHostRegister_v2(void *address, size_t bytes, unsigned flags) {
    if (is_of_ferry(address, true)) return CUDA_ERROR_INVALID_VALUE;
    return call_real<entry::cuMemHostRegister_v2>(address, bytes, flags);
}
FERRY_RUN_EXPORTED cuMemHostUnregister(void *address) {
    forget_pinned();
    if (is_of_ferry(address)) return CUDA_ERROR_INVALID_VALUE;
    return call_real<entry::cuMemHostUnregister>(address);
}
