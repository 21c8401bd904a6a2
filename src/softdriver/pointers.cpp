// "What is this address?": pointer attributes. They need no current context.
#include "softdriver/entry.h"
#include "softdriver/state.h"

#include <cstring>

namespace ferry::softdriver {

namespace {

template <class Value> bool put(void *out, Value value) {
    std::memcpy(out, &value, sizeof value);
    return true;
}

// False where the attribute says nothing about this memory; `memory` is null for an address the driver does not know.
// What is written then is what cuPointerGetAttributes answers; refuses attributes that do not exist.
bool read(driver &cu, const allocation *memory, std::uintptr_t address, CUpointer_attribute attribute, void *out) {
    static const allocation unknown{.device = CU_DEVICE_INVALID};
    const bool known = memory != nullptr;
    const allocation &of = known ? *memory : unknown;
    const bool on_device = known && of.kind == allocation_kind::device;
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        put(out, of.owner);
        return known;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        put(out, !known ? 0u : static_cast<unsigned>(on_device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST));
        return known;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER: {
        // Where kernels of the current context find it: not on another device (seen on CUDA 13.0 with two H200).
        const context *const current = find_current_context(cu);
        const bool is_elsewhere = on_device && current && current->device != of.device;
        put(out, CUdeviceptr{known && !is_elsewhere ? address : 0});
        return known && !is_elsewhere;
    }
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        put(out, known && !on_device ? address : std::uintptr_t{0});
        return known && !on_device;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        put(out, of.buffer_id);
        return known;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        put(out, of.device);
        return known;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        put(out, CUdeviceptr{of.address});
        return known;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        put(out, of.size);
        return known;
    case CU_POINTER_ATTRIBUTE_MAPPED:
        put(out, int{known});
        return known;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
        put(out, known ? CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE : CU_POINTER_ATTRIBUTE_ACCESS_FLAG_NONE);
        return known;
    // What this driver has none of: managed memory, pools, IPC, exported handles, RDMA.
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
        put(out, 0);
        return known;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
        put(out, std::uint64_t{0});
        return known;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        put(out, CUmemoryPool{});
        return known;
    default:
        throw refusal{CUDA_ERROR_INVALID_VALUE};
    }
}

} // namespace

CUresult cuPointerGetAttribute(void *out, CUpointer_attribute attribute, CUdeviceptr address) {
    return enter([&](driver &cu) {
        require(out);
        std::uint64_t scratch = 0; // the caller's value stays as it was where the call fails
        const allocation *const memory = find_allocation(cu, address);
        require(memory && read(cu, memory, address, attribute, &scratch));
        read(cu, memory, address, attribute, out);
    });
}

CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute *attributes, void **out, CUdeviceptr address) {
    return enter([&](driver &cu) {
        require(count != 0 && attributes && out);
        const allocation *const memory = find_allocation(cu, address);
        for (unsigned i = 0; i < count; ++i) {
            require(out[i]);
            read(cu, memory, address, attributes[i], out[i]);
        }
    });
}

CUresult cuMemGetAddressRange(CUdeviceptr *base, size_t *size, CUdeviceptr address) {
    return enter([&](driver &cu) {
        const allocation *const memory = find_allocation(cu, address);
        require(memory, CUDA_ERROR_NOT_FOUND);
        if (base) *base = memory->address;
        if (size) *size = memory->size;
    });
}

} // namespace ferry::softdriver
