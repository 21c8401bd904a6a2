// Device memory, managed memory and pinned host memory. Frees wait for everything that runs on the device and hold the
// submission lock meanwhile, as measured on the real driver (docs/driver.md). If a stream is blocked, a free can
// deadlock.
#include "base/checked.h"
#include "softdriver/entry.h"
#include "softdriver/state.h"

namespace ferry::softdriver {

namespace {

constexpr std::size_t pitch_alignment = 512;                   // as measured for cuMemAllocPitch on GPUs
constexpr std::size_t worth_discarding = std::size_t{1} << 20; // smaller holes cost more than they save
constexpr unsigned host_flags = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
constexpr unsigned register_flags = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP |
                                    CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY;

void record(driver &cu, const context &owner, allocation_kind kind, std::uintptr_t address, std::size_t size,
            unsigned flags) {
    if (kind == allocation_kind::host || kind == allocation_kind::registered) cu.mapped_host.add(address, size);
    cu.allocations[address] = {.address = address,
                               .size = size,
                               .kind = kind,
                               .device = owner.device,
                               .owner = owner.handle,
                               .flags = flags,
                               .buffer_id = cu.next_id++};
}

std::uintptr_t allocate(driver &cu, context &current, std::size_t bytes) {
    refuse_if_capture_forbids(cu);
    require(bytes != 0);
    heap &memory = cu.devices[current.device].memory;
    auto address = cu.take_memory(memory, bytes);
    if (!address) {
        release_unused_memory(cu);
        address = cu.take_memory(memory, bytes);
    }
    require(address.has_value(), CUDA_ERROR_OUT_OF_MEMORY);
    try {
        record(cu, current, allocation_kind::device, *address, bytes, 0);
    } catch (...) {
        memory.release(*address, bytes);
        throw;
    }
    return *address;
}

// Allocates memory that the host can access.
void *allocate_pages(driver &cu, context &current, allocation_kind kind, std::size_t bytes, unsigned flags) {
    void *const pages = map_host_pages(bytes, kind == allocation_kind::managed);
    require(pages, CUDA_ERROR_OUT_OF_MEMORY);
    try {
        record(cu, current, kind, reinterpret_cast<std::uintptr_t>(pages), bytes, flags);
    } catch (...) {
        unmap_host_pages(pages, bytes);
        throw;
    }
    return pages;
}

CUresult allocate_host(void **address, std::size_t bytes, unsigned flags) {
    return enter_context([&](driver &cu, context &current) {
        refuse_if_capture_forbids(cu);
        require(address && bytes != 0 && !(flags & ~host_flags));
        *address = allocate_pages(cu, current, allocation_kind::host, bytes, flags);
    });
}

// Frees the allocation that starts at `address` if `may_be` accepts it. Freeing device memory waits for that device.
// Freeing other memory waits for all devices, because any of them may be using it.
template <class Condition>
void free_exactly(driver &cu, std::uintptr_t address, Condition &&may_be,
                  CUresult otherwise = CUDA_ERROR_INVALID_VALUE) {
    refuse_if_capture_forbids(cu);
    const auto found = cu.allocations.find(address);
    require(found != cu.allocations.end() && may_be(found->second), otherwise);
    const allocation &memory = found->second;
    const bool on_device = memory.kind == allocation_kind::device;
    wait_for_devices(cu, on_device ? std::uint64_t{1} << memory.device : ~std::uint64_t{0});
    release(cu, found);
}

const allocation &find_host(driver &cu, const void *address) {
    const allocation *const found = find_allocation(cu, reinterpret_cast<std::uintptr_t>(address));
    require(found && found->on_host() && !found->is_stream_ordered());
    return *found;
}

} // namespace

const allocation *find_allocation(const driver &cu, std::uintptr_t address) { return find_overlapping(cu, address, 1); }

// Until its graph is launched, memory that was allocated during a capture exists only for the capture (seen on CUDA
// 13.0, H200).
const allocation *find_told_of(const driver &cu, std::uintptr_t address) {
    const allocation *const found = find_allocation(cu, address);
    return found && !found->awaits_launch() ? found : nullptr;
}

const allocation *find_overlapping(const driver &cu, std::uintptr_t address, std::size_t size) {
    // Allocations do not overlap: step back from the end of the range until one ends before the range begins.
    auto after = cu.allocations.lower_bound(address + size);
    const allocation *first = nullptr;
    while (after != cu.allocations.begin()) {
        --after;
        if (after->second.address + after->second.size <= address) break;
        first = &after->second;
    }
    return first;
}

void release(driver &cu, std::map<std::uintptr_t, allocation>::iterator gone) {
    const allocation memory = gone->second;
    cu.allocations.erase(gone);
    if (memory.on_host()) cu.mapped_host.remove(memory.address);
    no_longer_shared(cu, memory);
    if (memory.pool) return free_to_pool(cu, memory);
    if (memory.graph) { // the graph keeps its address
        memory.graph->live = false;
        return collect_graph_memory(cu);
    }
    release(cu, memory);
}

void release(driver &cu, const allocation &memory) {
    if (memory.imported) return end_import(cu, memory);
    if (memory.external) return; // unmapped with its last user
    switch (memory.kind) {
    case allocation_kind::device:
        if (memory.size >= worth_discarding) cu.discard_pages(memory.address, memory.size);
        cu.devices[memory.device].memory.release(memory.address, memory.size);
        break;
    case allocation_kind::managed:
        cu.managed_bytes -= memory.size;
        [[fallthrough]];
    case allocation_kind::host:
        unmap_host_pages(reinterpret_cast<void *>(memory.address), memory.size);
        break;
    case allocation_kind::registered:
        break;
    }
}

CUresult cuMemAlloc(CUdeviceptr *address, size_t bytes) {
    return enter_context([&](driver &cu, context &current) {
        require(address);
        *address = allocate(cu, current, bytes);
    });
}

CUresult cuMemAllocPitch(CUdeviceptr *address, size_t *pitch, size_t width, size_t height, unsigned element_size) {
    return enter_context([&](driver &cu, context &current) {
        require(address && pitch && width != 0 && height != 0);
        require(element_size == 4 || element_size == 8 || element_size == 16);
        size_t row = 0;
        size_t bytes = 0;
        require(add(width, pitch_alignment - 1, row), CUDA_ERROR_OUT_OF_MEMORY);
        row &= ~(pitch_alignment - 1);
        require(multiply(row, height, bytes), CUDA_ERROR_OUT_OF_MEMORY);
        *address = allocate(cu, current, bytes);
        *pitch = row;
    });
}

CUresult cuMemFree(CUdeviceptr address) {
    return enter([&](driver &cu) {
        if (!address) return;
        free_exactly(cu, address, [](const allocation &memory) {
            if (memory.awaits_launch()) return false;
            return memory.is_stream_ordered() || memory.kind == allocation_kind::managed ||
                   (memory.kind == allocation_kind::device && !memory.imported);
        });
        after_synchronising(cu);
    });
}

// Managed memory may oversubscribe one device, but not all devices together.
CUresult cuMemAllocManaged(CUdeviceptr *address, size_t bytes, unsigned flags) {
    return enter_context([&](driver &cu, context &current) {
        refuse_if_capture_forbids(cu);
        require(address && bytes != 0 && (flags == CU_MEM_ATTACH_GLOBAL || flags == CU_MEM_ATTACH_HOST));
        const std::uint64_t limit = cu.settings.devices * cu.settings.device_memory;
        require(bytes <= limit - cu.managed_bytes, CUDA_ERROR_OUT_OF_MEMORY);
        void *const pages = allocate_pages(cu, current, allocation_kind::managed, bytes, flags);
        cu.managed_bytes += bytes;
        *address = reinterpret_cast<CUdeviceptr>(pages);
    });
}

CUresult cuMemHostAlloc(void **address, size_t bytes, unsigned flags) { return allocate_host(address, bytes, flags); }
CUresult cuMemAllocHost(void **address, size_t bytes) { return allocate_host(address, bytes, 0); }

CUresult cuMemFreeHost(void *address) {
    return enter([&](driver &cu) {
        free_exactly(cu, reinterpret_cast<std::uintptr_t>(address), [](const allocation &memory) {
            return memory.kind == allocation_kind::host && !memory.is_stream_ordered();
        });
    });
}

CUresult cuMemHostRegister(void *address, size_t bytes, unsigned flags) {
    return enter_context([&](driver &cu, context &current) {
        refuse_if_capture_forbids(cu);
        const auto begin = reinterpret_cast<std::uintptr_t>(address);
        std::uintptr_t end = 0;
        require(begin && bytes != 0 && !(flags & ~register_flags) && add(begin, bytes, end));
        require(end <= device_window.begin || begin >= device_window.end);
        const allocation *const taken = find_overlapping(cu, begin, bytes);
        require(!taken || taken->kind == allocation_kind::registered);
        require(!taken, CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
        require(are_mapped(begin, bytes));
        record(cu, current, allocation_kind::registered, begin, bytes, flags);
    });
}

CUresult cuMemHostUnregister(void *address) {
    return enter_context([&](driver &cu, context &) {
        require(address);
        const allocation *const known = find_allocation(cu, reinterpret_cast<std::uintptr_t>(address));
        require(!known || known->kind != allocation_kind::host); // seen on CUDA 13.0, H100
        free_exactly(
            cu, reinterpret_cast<std::uintptr_t>(address),
            [](const allocation &memory) { return memory.kind == allocation_kind::registered; },
            CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    });
}

CUresult cuMemHostGetDevicePointer(CUdeviceptr *alias, void *address, unsigned flags) {
    return enter_context([&](driver &cu, context &) {
        require(alias && flags == 0);
        find_host(cu, address);
        *alias = reinterpret_cast<CUdeviceptr>(address);
    });
}

CUresult cuMemHostGetFlags(unsigned *flags, void *address) {
    return enter_context([&](driver &cu, context &) {
        require(flags);
        const allocation &memory = find_host(cu, address);
        *flags = memory.flags | CU_MEMHOSTALLOC_DEVICEMAP; // unified addressing maps everything
    });
}

} // namespace ferry::softdriver
