// The C functions for pinned host memory and registrations.
#include <cstddef>

#include "base/sized.h"
#include "submit/deferred_room.h"
#include "submit/note_error.h"
#include "system/pages.h"

using namespace ferry;

namespace {

// `options` may be null.
error read_options(const ferry_instance &instance, std::uint64_t size, const ferry_host_options *options,
                   host_request &request) noexcept {
    ferry_host_options wanted = {};
    if (options)
        if (error failed = read_sized(options, wanted)) return on_side(failed, FERRY_SIDE_OPTIONS);
    constexpr std::uint32_t known =
        common_host_flags | FERRY_HOST_ALLOW_SMALLER | FERRY_HOST_ALLOW_PAGEABLE | FERRY_HOST_SHARED;
    if (wanted.flags & ~known)
        return refuse_option(FERRY_ERROR_FLAGS, FERRY_FIELD_FLAGS, numbers::bits, known, wanted.flags);
    if (wanted.threads > max_touching_threads)
        return refuse_option(FERRY_ERROR_INVALID_ARGUMENT, FERRY_FIELD_THREADS, numbers::at_most, max_touching_threads,
                             wanted.threads);
    request = {size, wanted.min_size, wanted.flags, wanted.threads};
    return instance.pinned.find_node(wanted.numa, wanted.device, wanted.numa_node, request.node);
}

// Called before host memory is pinned: trims deferred frees to the limit.
void make_host_room(ferry_instance &instance) noexcept {
    // If this fails, the allocation may still succeed.
    static_cast<void>(instance.deferred.limit_host(deferred_limit(instance, 0)));
}

template <class Allocate> error allocate_or_trim_host(ferry_instance &instance, const Allocate &allocate) noexcept {
    return allocate_or_trim(allocate,
                            [&](std::uint64_t &freed) noexcept { return instance.deferred.trim_host(0, &freed); });
}

// Fills every field of `result` except struct_size.
error allocate_host(ferry_instance &instance, const host_request &request, ferry_host_block &result) noexcept {
    context_scope scope(instance.cu);
    if (error failed = enter_any(instance, nullptr, scope)) return failed;
    host_block block;
    make_host_room(instance);
    const error failed =
        allocate_or_trim_host(instance, [&]() noexcept { return instance.pinned.allocate(request, block); });
    if (failed) {
        note_error(instance, failed);
        return failed;
    }
    result.memory = block.origin == FERRY_HOST_FROM_SYSTEM ? FERRY_MEMORY_PAGEABLE : FERRY_MEMORY_PINNED;
    result.address = reinterpret_cast<void *>(block.address);
    result.size = block.size;
    result.origin = block.origin;
    result.numa_node = node_of_page(result.address);
    return {};
}

error allocate_block(ferry_instance &instance, std::uint64_t size, const ferry_host_options *options,
                     ferry_host_block *block) noexcept {
    // Rejects a struct that is too small for the address before allocating, because the block would leak.
    if (!plausible_size(block->struct_size) || block->struct_size < offsetof(ferry_host_block, origin))
        return abi_mismatch(block->struct_size, sizeof *block);
    if (!size) return refuse_zero(FERRY_FIELD_SIZE);
    host_request request;
    if (error failed = read_options(instance, size, options, request)) return failed;
    ferry_host_block result = {};
    if (error failed = allocate_host(instance, request, result)) return about(failed, FERRY_FIELD_SIZE, size);
    return write_sized(result, block);
}

} // namespace

extern "C" {

int32_t ferry_host_alloc(ferry_instance *instance, uint64_t size, const ferry_host_options *options,
                         ferry_host_block *block, ferry_error_info *details) {
    if (!instance || !block) return report_null(details, instance, block);
    return report(details, allocate_block(*instance, size, options, block));
}

int32_t ferry_host_free(ferry_instance *instance, void *address, ferry_error_info *details) {
    if (!instance) return report_null(details, instance);
    if (!address) return report(details, ok);
    context_scope scope(instance->cu);
    if (error failed = enter_any(*instance, nullptr, scope)) return report(details, failed);
    return report(details, about(noted(*instance, instance->pinned.free(number(address), host_owner::caller)),
                                 FERRY_FIELD_ADDRESS, number(address)));
}

int32_t ferry_host_free_deferred(ferry_instance *instance, void *address, CUstream_st *stream,
                                 ferry_error_info *details) {
    if (!instance) return report_null(details, instance);
    if (!address) return report(details, ok);
    if (instance->fork_mark.is_in_child()) return report(details, in_child);
    context_scope scope(instance->cu); // without a current context, a driver may not report the owner
    if (error failed = enter_any(*instance, nullptr, scope)) return report(details, failed);
    return report(details, about(noted(*instance, instance->deferred.defer_host(number(address), stream)),
                                 FERRY_FIELD_ADDRESS, number(address)));
}

int32_t ferry_host_register(ferry_instance *instance, void *address, uint64_t size, uint32_t flags,
                            ferry_error_info *details) {
    if (!instance) return report_null(details, instance);
    if (!address) return report_null_field(details, FERRY_FIELD_ADDRESS);
    if (!size) return report(details, refuse_zero(FERRY_FIELD_SIZE));
    if (flags & ~FERRY_REGISTER_READ_ONLY)
        return report(details, refuse(FERRY_ERROR_FLAGS, FERRY_SIDE_NONE, FERRY_FIELD_FLAGS, numbers::bits,
                                      FERRY_REGISTER_READ_ONLY, flags));
    context_scope scope(instance->cu);
    if (error failed = enter_any(*instance, nullptr, scope)) return report(details, failed);
    make_host_room(*instance);
    const error failed = allocate_or_trim_host(
        *instance, [&]() noexcept { return instance->pinned.register_range(number(address), size, flags); });
    note_error(*instance, failed);
    return report(details, about(failed, FERRY_FIELD_ADDRESS, number(address)));
}

int32_t ferry_host_unregister(ferry_instance *instance, void *address, ferry_error_info *details) {
    if (!instance) return report_null(details, instance);
    if (!address) return report_null_field(details, FERRY_FIELD_ADDRESS);
    context_scope scope(instance->cu);
    if (error failed = enter_any(*instance, nullptr, scope)) return report(details, failed);
    return report(details, about(noted(*instance, instance->pinned.unregister_range(number(address))),
                                 FERRY_FIELD_ADDRESS, number(address)));
}

int32_t ferry_host_unregister_deferred(ferry_instance *instance, void *address, CUstream_st *stream,
                                       ferry_error_info *details) {
    if (!instance || !address) return report_null(details, instance, address);
    if (instance->fork_mark.is_in_child()) return report(details, in_child);
    context_scope scope(instance->cu); // without a current context, a driver may not report the owner
    if (error failed = enter_any(*instance, nullptr, scope)) return report(details, failed);
    return report(details, about(noted(*instance, instance->deferred.defer_unregistering(number(address), stream)),
                                 FERRY_FIELD_ADDRESS, number(address)));
}

} // extern "C"
