#include "memory/address.h"

#include "driver/result.h"

namespace ferry {

error look_up_address(const driver_table &cu, std::uint64_t address, address_query query,
                      address_facts &facts) noexcept {
    unsigned memory_type = 0, is_managed = 0, access = 0;
    int ordinal = -1;
    CUmemoryPool pool = nullptr;
    CUcontext owner = nullptr;
    CUdeviceptr range_start = 0, device_address = 0;
    size_t range_size = 0;
    CUpointer_attribute attributes[] = {
        CU_POINTER_ATTRIBUTE_MEMORY_TYPE,    CU_POINTER_ATTRIBUTE_IS_MANAGED,     CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
        CU_POINTER_ATTRIBUTE_DEVICE_POINTER, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
        CU_POINTER_ATTRIBUTE_RANGE_SIZE,     CU_POINTER_ATTRIBUTE_CONTEXT,        CU_POINTER_ATTRIBUTE_ACCESS_FLAGS};
    void *values[] = {&memory_type, &is_managed, &ordinal, &device_address, &pool,
                      &range_start, &range_size, &owner,   &access};
    // Unlike cuPointerGetAttribute, this call succeeds for addresses that the driver does not know, with a type of 0.
    call_result result = cu.cuPointerGetAttributes(static_cast<unsigned>(query), attributes, values, address);
    // The device pointer is specific to the current context. Without a context, the driver may refuse to report it.
    if (result == CUDA_ERROR_INVALID_CONTEXT && query > address_query::kind_only) {
        constexpr unsigned kind_only = static_cast<unsigned>(address_query::kind_only), of_range = 3;
        result = cu.cuPointerGetAttributes(kind_only, attributes, values, address);
        if (result == CUDA_SUCCESS && query > address_query::kind_and_reach)
            result = cu.cuPointerGetAttributes(of_range, attributes + kind_only + 1, values + kind_only + 1, address);
    }
    if (result) return to_error(result);
    facts = {};
    if (memory_type == 0 && !is_managed) return {};
    facts.kind = is_managed                          ? memory_kind::managed
                 : memory_type == CU_MEMORYTYPE_HOST ? memory_kind::pinned
                                                     : memory_kind::device;
    facts.device = facts.kind == memory_kind::device ? ordinal : -1;
    facts.pool = pool;
    // For memory of a host pool, the driver reports the start as an offset into the pool, as if the pool began at 0
    // (seen on CUDA 13.0, H200). The start of the allocation is then unknown.
    if (address - range_start < range_size) {
        facts.range_start = range_start;
        facts.range_size = range_size;
    }
    // The address for kernels of the current context. Device memory has the same address in every context.
    facts.device_address = facts.kind == memory_kind::device ? address : device_address;
    facts.is_mapped = device_address != 0;
    facts.is_writable = access == CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE;
    facts.owner = owner;
    return {};
}

error look_up_whole_range(const driver_table &cu, const host_ranges &ranges, std::uint64_t address,
                          address_facts &facts) noexcept {
    if (error failed = look_up_address(cu, address, address_query::everything, facts)) return failed;
    host_registration registration;
    if (facts.kind == memory_kind::pinned && ranges.find_registration(address, registration)) {
        facts.range_start = registration.address;
        facts.range_size = registration.size;
    }
    return {};
}

bool is_within_reach(const driver_table &cu, std::uint64_t address) noexcept {
    CUpointer_attribute attribute = CU_POINTER_ATTRIBUTE_DEVICE_POINTER;
    CUdeviceptr seen = 0;
    void *value = &seen;
    return cu.cuPointerGetAttributes(1, &attribute, &value, address) == CUDA_SUCCESS && seen != 0;
}

bool can_driver_copy(const driver_table &cu, std::uint64_t address, bool is_on_device_of_context) noexcept {
    if (is_on_device_of_context) return true;
    CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_CONTEXT, CU_POINTER_ATTRIBUTE_DEVICE_POINTER};
    CUcontext owner = nullptr; // pool memory belongs to no context
    CUdeviceptr seen = 0;
    void *values[] = {&owner, &seen};
    return cu.cuPointerGetAttributes(2, attributes, values, address) == CUDA_SUCCESS && (owner || seen);
}

} // namespace ferry
