#include "device/facts.h"

#include <cstring>

#include "driver/result.h"

namespace ferry {

namespace {

struct attribute_row {
    CUdevice_attribute attribute;
    std::int32_t ferry_device_info::*field;
    std::int32_t unknown; // the value if the driver does not support the attribute
};

constexpr attribute_row attribute_rows[] = {
    {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &ferry_device_info::compute_major, 0},
    {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &ferry_device_info::compute_minor, 0},
    {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &ferry_device_info::sm_count, 0},
    {CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, &ferry_device_info::copy_engine_count, 0},
    {CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, &ferry_device_info::unified_addressing, 0},
    {CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, &ferry_device_info::pageable_access, 0},
    {CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES,
     &ferry_device_info::pageable_uses_host_page_tables, 0},
    {CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, &ferry_device_info::can_map_host_memory, 0},
    {CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, &ferry_device_info::host_register, 0},
    {CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED, &ferry_device_info::host_register_read_only, 0},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM,
     &ferry_device_info::registered_address_is_device_address, 0},
    {CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, &ferry_device_info::managed_memory, 0},
    {CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, &ferry_device_info::concurrent_managed_access, 0},
    {CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, &ferry_device_info::memory_pools, 0},
    {CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, &ferry_device_info::numa_node, -1},
    {CU_DEVICE_ATTRIBUTE_INTEGRATED, &ferry_device_info::integrated, 0},
    {CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT, &ferry_device_info::texture_pitch_alignment, 0},
    {CU_DEVICE_ATTRIBUTE_HOST_MEMORY_POOLS_SUPPORTED, &ferry_device_info::host_memory_pools, 0},
    {CU_DEVICE_ATTRIBUTE_HOST_NUMA_MEMORY_POOLS_SUPPORTED, &ferry_device_info::host_numa_memory_pools, 0},
    {CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED, &ferry_device_info::ipc_events, 0},
};

std::int32_t attribute(const driver_table &cu, CUdevice device, CUdevice_attribute which,
                       std::int32_t unknown) noexcept {
    int value = unknown;
    return cu.cuDeviceGetAttribute(&value, which, device) == CUDA_SUCCESS ? value : unknown;
}

} // namespace

error query_device(const driver_table &cu, int ordinal, bool is_software, device_facts &facts) noexcept {
    if (call_result result = cu.cuDeviceGet(&facts.handle, ordinal)) return to_error(result);
    ferry_device_info &info = facts.info;
    info = {};
    info.struct_size = sizeof info;
    info.device = ordinal;
    info.is_software = is_software;
    if (call_result result = cu.cuDeviceGetName(info.name, sizeof info.name, facts.handle)) return to_error(result);
    CUuuid uuid = {};
    if (call_result result = cu.cuDeviceGetUuid(&uuid, facts.handle)) return to_error(result);
    std::memcpy(info.uuid, uuid.bytes, sizeof info.uuid);
    if (call_result result = cu.cuDeviceGetPCIBusId(info.pci_address, sizeof info.pci_address, facts.handle))
        return to_error(result);
    unsigned nodes = 0;
    char luid[sizeof info.luid] = {}; // only set on Windows
    if (cu.cuDeviceGetLuid && cu.cuDeviceGetLuid(luid, &nodes, facts.handle) == CUDA_SUCCESS) {
        std::memcpy(info.luid, luid, sizeof info.luid);
        info.luid_node_mask = nodes;
    }
    size_t total = 0;
    if (call_result result = cu.cuDeviceTotalMem(&total, facts.handle)) return to_error(result);
    info.total_memory = total;
    for (const attribute_row &row : attribute_rows)
        info.*row.field = attribute(cu, facts.handle, row.attribute, row.unknown);
    facts.has_watchdog = attribute(cu, facts.handle, CU_DEVICE_ATTRIBUTE_KERNEL_EXEC_TIMEOUT, 0) != 0;
#if defined(_WIN32)
    facts.keeps_work_back = !is_software && !attribute(cu, facts.handle, CU_DEVICE_ATTRIBUTE_TCC_DRIVER, 0);
#endif
    info.overlap = overlap_of(info.copy_engine_count);
    info.max_pitch = static_cast<std::uint32_t>(attribute(cu, facts.handle, CU_DEVICE_ATTRIBUTE_MAX_PITCH, INT32_MAX));
    // CUmemAllocationHandleType and FERRY_HANDLE_* use the same bits.
    info.pool_handle_types =
        static_cast<std::uint32_t>(attribute(cu, facts.handle, CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES, 0));
    return {};
}

} // namespace ferry
