// Queries about an address: pointer attributes and the allocation's range. They need no current context.
#include "softdriver/entry.h"
#include "softdriver/state.h"

#include <cstring>

namespace ferry::softdriver {

namespace {

template <class Value> bool put(void *out, Value value) {
    std::memcpy(out, &value, sizeof value);
    return true;
}

// Returns whether the current context can access the memory; true without a context (seen on CUDA 13.0 with two H200).
bool is_reached(driver &cu, const allocation &memory) {
    const context *const current = find_current_context(cu);
    return !current || can_reach(*current, memory);
}

// Returns false if the attribute does not apply to this memory. In that case, it writes the value that
// cuPointerGetAttributes returns. `memory` is null for an address that the driver does not know. Rejects attributes
// that do not exist.
bool read(driver &cu, const allocation *memory, std::uintptr_t address, CUpointer_attribute attribute, void *out) {
    static const allocation unknown{.device = CU_DEVICE_INVALID};
    const bool known = memory != nullptr;
    const allocation &of = known ? *memory : unknown;
    const bool on_device = known && of.kind == allocation_kind::device;
    const bool is_managed = known && of.kind == allocation_kind::managed;
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        put(out, of.owner);
        return known;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        put(out, !known ? 0u : static_cast<unsigned>(of.on_host() ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE));
        return known;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER: {
        // The address for kernels of the current context: null on another device, unless peer access was enabled.
        const bool is_there = known && is_reached(cu, of);
        put(out, CUdeviceptr{is_there ? address : 0});
        return is_there;
    }
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        put(out, on_device ? std::uintptr_t{0} : address); // unknown: the address itself (seen)
        return known && !on_device;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        put(out, of.buffer_id);
        return known;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: {
        // For host pools, it is the current device (seen on CUDA 13.0, H200, where the current device was the first
        // device).
        const context *const current = find_current_context(cu);
        const bool of_current = known && of.on_host() && of.is_stream_ordered() && current;
        put(out, of_current ? current->device : of.device);
        return known;
    }
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        // Not written for an unknown address. For a host pool, it is the offset from the start of the pool's memory,
        // which the pool reserves in steps of 32 MiB (both seen on CUDA 13.0, H200).
        return known &&
               put(out, CUdeviceptr{of.on_host() && of.is_stream_ordered() ? of.address % (32 << 20) : of.address});
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        return known && put(out, of.size);
    case CU_POINTER_ATTRIBUTE_MAPPED:
        put(out, int{known});
        return known;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS: {
        const bool has_access = known && (!of.is_stream_ordered() || is_reached(cu, of));
        const bool is_read_only = of.kind == allocation_kind::registered && (of.flags & CU_MEMHOSTREGISTER_READ_ONLY);
        put(out, !has_access    ? CU_POINTER_ATTRIBUTE_ACCESS_FLAG_NONE
                 : is_read_only ? CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READ
                                : CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE);
        return known;
    }
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        put(out, int{is_managed});
        return known;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        put(out, int{on_device && !of.is_stream_ordered() && !of.imported});
        return known;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
        put(out, static_cast<std::uint64_t>(of.pool ? of.pool->handle_types : CU_MEM_HANDLE_TYPE_NONE));
        return known;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        put(out, of.pool ? of.pool->handle : nullptr);
        return known;
    // Features that this driver lacks.
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
        put(out, 0);
        return known;
    default:
        throw refusal{CUDA_ERROR_INVALID_VALUE};
    }
}

} // namespace

CUresult cuPointerGetAttribute(void *out, CUpointer_attribute attribute, CUdeviceptr address) {
    return enter_query([&](driver &cu) {
        require(out);
        std::uint64_t scratch = 0; // the caller's value must not change if the call fails
        const allocation *const memory = find_told_of(cu, address);
        require(memory && read(cu, memory, address, attribute, &scratch));
        read(cu, memory, address, attribute, out);
    });
}

CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute *attributes, void **out, CUdeviceptr address) {
    return enter_query([&](driver &cu) {
        require(count != 0 && attributes && out);
        const allocation *const memory = find_told_of(cu, address);
        for (unsigned i = 0; i < count; ++i) {
            require(out[i]);
            read(cu, memory, address, attributes[i], out[i]);
        }
    });
}

CUresult cuMemGetAddressRange(CUdeviceptr *base, size_t *size, CUdeviceptr address) {
    return enter([&](driver &cu) {
        const allocation *const memory = find_told_of(cu, address);
        require(memory && is_reached(cu, *memory), CUDA_ERROR_NOT_FOUND);
        if (base) *base = memory->address;
        if (size) *size = memory->size;
    });
}

} // namespace ferry::softdriver
