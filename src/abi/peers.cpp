// The peer calls.
#include "base/sized.h"
#include "call/instance.h"

using namespace ferry;

namespace {

failure check_pair(const ferry_instance &instance, std::int32_t device, std::int32_t peer) noexcept {
    if (failure failed = check_device(instance, device)) return failed;
    if (failure failed = check_device(instance, peer)) return failed;
    return device == peer ? failure{.status = FERRY_ERROR_DEVICE} : failure{};
}

} // namespace

extern "C" {

int32_t ferry_get_peer_info(ferry_instance *instance, int32_t device, int32_t peer, ferry_peer_info *info) {
    if (!instance || !info) return FERRY_ERROR_INVALID_ARGUMENT;
    if (failure failed = check_pair(*instance, device, peer)) return failed.status;
    const peer_access &peers = instance->peers;
    ferry_peer_info found = {};
    found.device = device;
    found.peer = peer;
    found.driver_can_access = peers.reported(device, peer);
    found.probe = peers.probe_result(device, peer);
    found.can_access = found.driver_can_access && found.probe != FERRY_PROBE_FAILED;
    found.performance_rank = peers.attribute(CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK, device, peer, -1);
    found.native_atomics = peers.attribute(CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED, device, peer, 0);
    found.array_access = peers.attribute(CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED, device, peer, 0);
    return write_sized(found, info).status;
}

int32_t ferry_peer_probe(ferry_instance *instance, int32_t device, int32_t peer) {
    if (!instance) return FERRY_ERROR_INVALID_ARGUMENT;
    if (failure failed = check_pair(*instance, device, peer)) return failed.status;
    return instance->peers.probe(device, peer, instance->allocator, instance->log).status;
}

int32_t ferry_peer_enable(ferry_instance *instance, int32_t device, int32_t peer) {
    if (!instance) return FERRY_ERROR_INVALID_ARGUMENT;
    if (failure failed = check_pair(*instance, device, peer)) return failed.status;
    return instance->peers.enable(device, peer, instance->allocator, instance->log).status;
}

int32_t ferry_peer_disable(ferry_instance *instance, int32_t device, int32_t peer) {
    if (!instance) return FERRY_ERROR_INVALID_ARGUMENT;
    if (failure failed = check_pair(*instance, device, peer)) return failed.status;
    return instance->peers.disable(device, peer).status;
}

} // extern "C"
