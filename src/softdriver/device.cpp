// The driver's initialisation and version, and its devices with their names and attributes. Attributes of features that
// this driver lacks are 0, so a program that queries them first gets a correct result.
#include "softdriver/entry.h"
#include "softdriver/state.h"

#include <cstdio>
#include <cstring>

namespace ferry::softdriver {

namespace {

constexpr int first_pci_bus = 0xf0;    // beyond the buses of real machines
constexpr int end_of_attributes = 148; // of devices, in CUDA 13.0

struct fact {
    CUdevice_attribute attribute;
    int value;
};
constexpr fact facts[] = {
    // Attributes that matter to ferry: the values of an H200.
    {CU_DEVICE_ATTRIBUTE_MAX_PITCH, 2147483647},
    {CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 3},
    {CU_DEVICE_ATTRIBUTE_GPU_OVERLAP, 1},
    {CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 1},
    {CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 1},
    {CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, 1},
    {CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 1},
    {CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES,
     can_share ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : CU_MEM_HANDLE_TYPE_NONE},
    {CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED, can_share},
    {CU_DEVICE_ATTRIBUTE_HOST_MEMORY_POOLS_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_HOST_NUMA_MEMORY_POOLS_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, 1},
    {CU_DEVICE_ATTRIBUTE_KERNEL_EXEC_TIMEOUT, 0},
    {CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT, 32},
    {CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, 512},
    {CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT, 512},
    // Arrays: the limits that arrays.cpp enforces.
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_WIDTH, 131072},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_WIDTH, 131072},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_HEIGHT, 65536},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_WIDTH, 16384},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_HEIGHT, 16384},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_DEPTH, 16384},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_WIDTH, 131072},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_WIDTH, 131072},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_HEIGHT, 65536},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_WIDTH, 16384},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_HEIGHT, 16384},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_DEPTH, 16384},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LAYERED_WIDTH, 32768},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LAYERED_LAYERS, 2048},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_WIDTH, 32768},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_HEIGHT, 32768},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_LAYERS, 2048},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_WIDTH, 32768},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_LAYERED_WIDTH, 32768},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_LAYERED_LAYERS, 2046},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_LAYERED_WIDTH, 32768},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_LAYERED_LAYERS, 2048},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_WIDTH, 32768},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_HEIGHT, 32768},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_LAYERS, 2048},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_WIDTH, 32768},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_LAYERED_WIDTH, 32768},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_LAYERED_LAYERS, 2046},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_GATHER_WIDTH, 32768},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_GATHER_HEIGHT, 32768},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_MIPMAPPED_WIDTH, 32768},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_MIPMAPPED_WIDTH, 32768},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_MIPMAPPED_HEIGHT, 32768},
    // A GPU that runs blocks of threads; 7.5 is the oldest compute capability that CUDA 13 supports.
    {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 7},
    {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 5},
    {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 8},
    {CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32},
    {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR, 16},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 2147483647},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65535},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 65535},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 49152},
    {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, 65536},
    {CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY, 65536},
    {CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 1000000},
};

} // namespace

device &find_device(driver &cu, CUdevice ordinal) {
    require(ordinal >= 0 && static_cast<std::size_t>(ordinal) < cu.devices.size(), CUDA_ERROR_INVALID_DEVICE);
    return cu.devices[ordinal];
}

CUresult cuInit(unsigned flags) {
    if (in_host_function()) return CUDA_ERROR_NOT_PERMITTED;
    driver *const cu = running_driver(false);
    if (!cu) return CUDA_ERROR_NOT_INITIALIZED;
    if (flags) return CUDA_ERROR_INVALID_VALUE;
    cu->initialised = true;
    return CUDA_SUCCESS;
}

CUresult cuDriverGetVersion(int *version) {
    if (!version) return CUDA_ERROR_INVALID_VALUE;
    *version = 13000;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int *count) {
    return enter([&](driver &cu) {
        require(count);
        *count = static_cast<int>(cu.devices.size());
    });
}

CUresult cuDeviceGet(CUdevice *device, int ordinal) {
    return enter([&](driver &cu) {
        require(device);
        find_device(cu, ordinal);
        *device = ordinal;
    });
}

CUresult cuDeviceGetName(char *name, int length, CUdevice ordinal) {
    return enter([&](driver &cu) {
        require(name && length > 0);
        find_device(cu, ordinal);
        std::snprintf(name, static_cast<std::size_t>(length), "ferry software device");
    });
}

CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice ordinal) {
    return enter([&](driver &cu) {
        require(uuid);
        find_device(cu, ordinal);
        std::memcpy(uuid->bytes, "ferry-softdev-\0", sizeof uuid->bytes);
        uuid->bytes[15] = static_cast<char>(ordinal);
    });
}

CUresult cuDeviceGetPCIBusId(char *id, int length, CUdevice ordinal) {
    return enter([&](driver &cu) {
        require(id && length > 0);
        find_device(cu, ordinal);
        char text[16];
        const int needed = std::snprintf(text, sizeof text, "0000:%02X:%02X.0", first_pci_bus, ordinal & 31);
        require(length > needed);
        std::memcpy(id, text, static_cast<std::size_t>(needed) + 1);
    });
}

CUresult cuDeviceTotalMem(size_t *bytes, CUdevice ordinal) {
    return enter([&](driver &cu) {
        require(bytes);
        *bytes = find_device(cu, ordinal).memory.size();
    });
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice ordinal) {
    return enter([&](driver &cu) {
        require(value && attribute > 0 && attribute < end_of_attributes);
        find_device(cu, ordinal);
        *value = attribute == CU_DEVICE_ATTRIBUTE_PCI_BUS_ID      ? first_pci_bus
                 : attribute == CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID ? ordinal & 31
                                                                  : 0;
        if (attribute == CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS ||
            attribute == CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES)
            *value = uses_host_page_tables;
        for (const fact &known : facts)
            if (known.attribute == attribute) *value = known.value;
    });
}

CUresult cuMemGetInfo(size_t *free, size_t *total) {
    return enter_context([&](driver &cu, context &current) {
        require(free && total);
        const heap &memory = cu.devices[current.device].memory;
        *free = memory.free_bytes();
        *total = memory.size();
    });
}

} // namespace ferry::softdriver
