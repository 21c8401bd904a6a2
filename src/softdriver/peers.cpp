// Peer access: which context may access the memory of which other context. Copies do not need it; fills and kernels do.
#include "softdriver/entry.h"
#include "softdriver/state.h"

#include <algorithm>

namespace ferry::softdriver {

namespace {

struct link_fact {
    CUdevice_P2PAttribute attribute;
    int value;
};
// Linked devices are linked like two H200. Without a link all values are 0.
constexpr link_fact link_facts[] = {
    {CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK, 0},
    {CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 1},
    {CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED, 1},
    {CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED, 1},
    {CU_DEVICE_P2P_ATTRIBUTE_ONLY_PARTIAL_NATIVE_ATOMIC_SUPPORTED, 0},
};

const context &find_peer(driver &cu, CUcontext handle) {
    const context *const found = cu.contexts.find(handle);
    require(found, CUDA_ERROR_INVALID_CONTEXT);
    return *found;
}

} // namespace

bool are_linked(const driver &cu, int device, int peer) {
    if (cu.settings.links == device_links::none) return device == peer;
    return cu.settings.links != device_links::pairs || device / 2 == peer / 2;
}

bool has_peer_access(const context &from, CUcontext to) {
    return std::find(from.peers.begin(), from.peers.end(), to) != from.peers.end();
}

// Access to pool memory is set on the pool, not between contexts (seen on CUDA 13.0 with two H200).
bool can_reach(const context &from, const allocation &memory) {
    if (memory.is_stream_ordered()) return memory.accessible_from() >> from.device & 1;
    // Memory of another process is mapped only in the context that opened it (seen on CUDA 13.0, H200).
    const bool is_at_home = memory.imported ? memory.owner == from.handle : from.device == memory.device;
    return memory.kind != allocation_kind::device || is_at_home || has_peer_access(from, memory.owner);
}

bool loses_accesses(const driver &cu, const context &from, const allocation &memory) {
    return cu.settings.links == device_links::lossy && memory.kind == allocation_kind::device &&
           memory.device != from.device && can_reach(from, memory);
}

CUresult cuDeviceCanAccessPeer(int *can, CUdevice ordinal, CUdevice peer) {
    return enter([&](driver &cu) {
        require(can);
        find_device(cu, ordinal);
        find_device(cu, peer);
        *can = ordinal != peer && are_linked(cu, ordinal, peer);
    });
}

CUresult cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attribute, CUdevice from, CUdevice to) {
    return enter([&](driver &cu) {
        require(value);
        find_device(cu, from);
        find_device(cu, to);
        require(from != to, CUDA_ERROR_INVALID_DEVICE);
        for (const link_fact &known : link_facts)
            if (known.attribute == attribute) {
                *value = are_linked(cu, from, to) ? known.value : 0;
                return;
            }
        throw refusal{CUDA_ERROR_INVALID_VALUE};
    });
}

CUresult cuCtxEnablePeerAccess(CUcontext handle, unsigned flags) {
    return enter_context([&](driver &cu, context &current) {
        const context &peer = find_peer(cu, handle);
        require(flags == 0);
        require(peer.device != current.device && are_linked(cu, current.device, peer.device),
                CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
        require(!has_peer_access(current, handle), CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
        current.peers.push_back(handle);
    });
}

CUresult cuCtxDisablePeerAccess(CUcontext handle) {
    return enter_context([&](driver &cu, context &current) {
        find_peer(cu, handle);
        require(std::erase(current.peers, handle) != 0, CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
    });
}

} // namespace ferry::softdriver
