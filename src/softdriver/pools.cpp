// Memory pools: creation, attributes, access, and the current pool of each location. Where the manual is silent, pools
// behave as seen on CUDA 13.0 with H200s (docs/driver.md).
#include "softdriver/entry.h"
#include "softdriver/state.h"

#include <algorithm>
#include <cstring>
#include <iterator>

namespace ferry::softdriver {

namespace {

pool_place place_with_default(driver &cu, CUmemLocation at) {
    pool &made = add_pool(cu, at);
    made.is_default = true;
    return {&made, &made};
}

// Rejects locations that do not exist.
pool_place &find_place(driver &cu, const CUmemLocation &at) {
    switch (at.type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
        return find_device(cu, at.id).pools;
    case CU_MEM_LOCATION_TYPE_HOST:
        return cu.host_pools;
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
        require(at.id == 0); // the software driver has one node
        return cu.numa_pools;
    default:
        throw refusal{CUDA_ERROR_INVALID_VALUE};
    }
}

pool_place &find_place(driver &cu, const CUmemLocation *at, CUmemAllocationType type) {
    require(at);
    require(type != CU_MEM_ALLOCATION_TYPE_MANAGED, CUDA_ERROR_NOT_SUPPORTED);
    require(type == CU_MEM_ALLOCATION_TYPE_PINNED);
    return find_place(cu, *at);
}

void set_current(pool_place &at, const pool_place &of_pool, pool &wanted) {
    require(&at == &of_pool && !wanted.exporter);
    at.current = &wanted;
}

void check(const CUmemPoolProps &asked) {
    require(asked.allocType != CU_MEM_ALLOCATION_TYPE_MANAGED, CUDA_ERROR_NOT_SUPPORTED);
    require(asked.allocType == CU_MEM_ALLOCATION_TYPE_PINNED && !asked.win32SecurityAttributes);
    require(std::all_of(std::begin(asked.reserved), std::end(asked.reserved), [](auto byte) { return byte == 0; }));
    require(asked.usage == 0, CUDA_ERROR_NOT_SUPPORTED);
    require(asked.handleTypes == CU_MEM_HANDLE_TYPE_NONE || asked.location.type != CU_MEM_LOCATION_TYPE_HOST);
    const int known = can_share ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : CU_MEM_HANDLE_TYPE_NONE;
    require(!(asked.handleTypes & ~known), CUDA_ERROR_NOT_SUPPORTED);
}

// An attribute is a 64-bit number or a switch. Each function returns null for attributes of the other type.
std::uint64_t *find_number(pool &of, CUmemPool_attribute attribute) {
    switch (attribute) {
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
        return &of.release_threshold;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
        return &of.reserved.now;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
        return &of.reserved.high;
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
        return &of.used.now;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        return &of.used.high;
    default:
        return nullptr;
    }
}
int *find_switch(pool &of, CUmemPool_attribute attribute) {
    switch (attribute) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
        return &of.follow_event_dependencies;
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
        return &of.allow_opportunistic;
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
        return &of.allow_internal_dependencies;
    default:
        return nullptr;
    }
}

std::uint64_t bit(int device) { return std::uint64_t{1} << device; }

} // namespace

pool &add_pool(driver &cu, CUmemLocation at) {
    auto made = std::make_unique<pool>();
    made->location = at;
    if (made->on_device()) made->accessible_from = std::uint64_t{1} << at.id;
    pool &kept = *made;
    kept.handle = cu.pools.add(std::move(made));
    return kept;
}

void create_default_pools(driver &cu) {
    for (std::size_t i = 0; i < cu.devices.size(); ++i)
        cu.devices[i].pools = place_with_default(cu, {CU_MEM_LOCATION_TYPE_DEVICE, static_cast<int>(i)});
    cu.host_pools = place_with_default(cu, {CU_MEM_LOCATION_TYPE_HOST, 0});
    cu.numa_pools = place_with_default(cu, {CU_MEM_LOCATION_TYPE_HOST_NUMA, 0});
}

pool &find_pool(driver &cu, CUmemoryPool handle) {
    pool *const found = cu.pools.find(handle);
    require(found && !found->destroyed);
    return *found;
}

CUresult cuMemPoolCreate(CUmemoryPool *handle, const CUmemPoolProps *asked) {
    return enter([&](driver &cu) {
        refuse_if_capture_forbids(cu);
        require(handle && asked);
        check(*asked);
        find_place(cu, asked->location);
        pool &made = add_pool(cu, asked->location);
        made.handle_types = asked->handleTypes;
        made.largest = asked->maxSize;
        *handle = made.handle;
    });
}

// Memory that is in use stays valid, and the pool exists until all of its memory is freed.
CUresult cuMemPoolDestroy(CUmemoryPool handle) {
    return enter([&](driver &cu) {
        refuse_if_capture_forbids(cu);
        pool &gone = find_pool(cu, handle);
        require(!gone.is_default && !(gone.exporter && gone.live));
        pool_place &at = find_place(cu, gone.location);
        if (at.current == &gone) at.current = at.standard;
        gone.destroyed = true;
        if (gone.shared_at) cu.own->retire(*gone.shared_at);
        collect_frees(cu);
    });
}

CUresult cuMemPoolSetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute, void *value) {
    return enter([&](driver &cu) {
        refuse_if_capture_forbids(cu);
        pool &of = find_pool(cu, handle);
        require(value && !of.exporter);
        if (int *const turned = find_switch(of, attribute)) {
            std::memcpy(turned, value, sizeof *turned);
            *turned = *turned != 0;
            return;
        }
        std::uint64_t number = 0;
        std::memcpy(&number, value, sizeof number);
        switch (attribute) {
        case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
            of.release_threshold = number;
            break;
        case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
            require(number == 0);
            of.reserved.high = of.reserved.now;
            break;
        case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
            require(number == 0);
            of.used.high = of.used.now;
            break;
        default:
            throw refusal{CUDA_ERROR_INVALID_VALUE};
        }
    });
}

CUresult cuMemPoolGetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute, void *value) {
    return enter([&](driver &cu) {
        refuse_if_capture_forbids(cu);
        pool &of = find_pool(cu, handle);
        require(value);
        if (const int *const turned = find_switch(of, attribute)) {
            std::memcpy(value, turned, sizeof *turned);
            return;
        }
        const std::uint64_t *const number = find_number(of, attribute);
        require(number && !of.exporter); // only the exporter has an imported pool's numbers (seen on CUDA 13.0, H200)
        std::memcpy(value, number, sizeof *number);
    });
}

// Applies all descriptors or none.
CUresult cuMemPoolSetAccess(CUmemoryPool handle, const CUmemAccessDesc *map, size_t count) {
    return enter([&](driver &cu) {
        refuse_if_capture_forbids(cu);
        pool &of = find_pool(cu, handle);
        require(map && count != 0);
        std::uint64_t wanted = of.accessible_from;
        for (size_t i = 0; i < count; ++i) {
            const auto [at, flags] = map[i];
            require(at.type == CU_MEM_LOCATION_TYPE_DEVICE);
            find_device(cu, at.id);
            require(flags != CU_MEM_ACCESS_FLAGS_PROT_READ, CUDA_ERROR_NOT_SUPPORTED);
            require(flags == CU_MEM_ACCESS_FLAGS_PROT_NONE || flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
            const bool gives = flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
            const bool is_owner = of.on_device() && at.id == of.location.id;
            require(gives || !is_owner, CUDA_ERROR_INVALID_DEVICE);
            // As the CUDA C++ Programming Guide states ("Device Accessibility for Multi-GPU Support"). The real driver
            // may grant the access before the first allocation (trap 20 in docs/driver.md). This driver always rejects
            // it.
            require(!gives || !of.on_device() || are_linked(cu, at.id, of.location.id), CUDA_ERROR_INVALID_DEVICE);
            wanted = gives ? wanted | bit(at.id) : wanted & ~bit(at.id);
        }
        of.accessible_from = wanted;
    });
}

CUresult cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool handle, CUmemLocation *at) {
    return enter([&](driver &cu) {
        refuse_if_capture_forbids(cu);
        const pool &of = find_pool(cu, handle);
        require(flags && at);
        bool has_access = !of.on_device();
        if (at->type == CU_MEM_LOCATION_TYPE_DEVICE) {
            find_device(cu, at->id);
            has_access = of.accessible_from & bit(at->id);
        } else {
            find_place(cu, *at);
        }
        *flags = has_access ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    });
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *handle, CUdevice ordinal) {
    return enter([&](driver &cu) {
        require(handle);
        *handle = find_device(cu, ordinal).pools.standard->handle;
    });
}

CUresult cuDeviceGetMemPool(CUmemoryPool *handle, CUdevice ordinal) {
    return enter([&](driver &cu) {
        require(handle && ordinal >= 0 &&
                static_cast<std::size_t>(ordinal) < cu.devices.size()); // not INVALID_DEVICE (seen)
        *handle = find_device(cu, ordinal).pools.current->handle;
    });
}

CUresult cuDeviceSetMemPool(CUdevice ordinal, CUmemoryPool handle) {
    return enter([&](driver &cu) {
        pool_place &at = find_device(cu, ordinal).pools;
        pool &wanted = find_pool(cu, handle);
        set_current(at, find_place(cu, wanted.location), wanted);
    });
}

CUresult cuMemGetDefaultMemPool(CUmemoryPool *handle, CUmemLocation *at, CUmemAllocationType type) {
    return enter([&](driver &cu) {
        require(handle);
        *handle = find_place(cu, at, type).standard->handle;
    });
}

CUresult cuMemGetMemPool(CUmemoryPool *handle, CUmemLocation *at, CUmemAllocationType type) {
    return enter([&](driver &cu) {
        require(handle);
        *handle = find_place(cu, at, type).current->handle;
    });
}

CUresult cuMemSetMemPool(CUmemLocation *at, CUmemAllocationType type, CUmemoryPool handle) {
    return enter([&](driver &cu) {
        pool_place &place = find_place(cu, at, type);
        pool &wanted = find_pool(cu, handle);
        set_current(place, find_place(cu, wanted.location), wanted);
    });
}

} // namespace ferry::softdriver
