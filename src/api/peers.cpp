// The C functions for peer access.
#include "base/sized.h"
#include "submit/instance.h"

using namespace ferry;

namespace {

error check_pair(const ferry_instance &instance, std::int32_t device, std::int32_t peer) noexcept {
    if (error failed = check_device(instance, device)) return failed;
    if (error failed = check_device(instance, peer)) return failed;
    return device == peer ? error{.status = FERRY_ERROR_DEVICE} : ok;
}

} // namespace

extern "C" {

int32_t ferry_peer_get_info(ferry_instance *instance, int32_t device, int32_t peer, ferry_peer_info *info) {
    if (!instance || !info) return FERRY_ERROR_INVALID_ARGUMENT;
    if (error failed = check_pair(*instance, device, peer)) return failed.status;
    ferry_peer_info found = {};
    instance->peers.describe(device, peer, found);
    return write_sized(found, info).status;
}

int32_t ferry_peer_probe(ferry_instance *instance, int32_t device, int32_t peer) {
    if (!instance) return FERRY_ERROR_INVALID_ARGUMENT;
    if (error failed = check_pair(*instance, device, peer)) return failed.status;
    return instance->peers.probe(device, peer, instance->allocator, instance->log).status;
}

int32_t ferry_peer_enable(ferry_instance *instance, int32_t device, int32_t peer) {
    if (!instance) return FERRY_ERROR_INVALID_ARGUMENT;
    if (error failed = check_pair(*instance, device, peer)) return failed.status;
    return instance->peers.enable(device, peer, instance->allocator, instance->log).status;
}

int32_t ferry_peer_disable(ferry_instance *instance, int32_t device, int32_t peer) {
    if (!instance) return FERRY_ERROR_INVALID_ARGUMENT;
    if (error failed = check_pair(*instance, device, peer)) return failed.status;
    return instance->peers.disable(device, peer).status;
}

} // extern "C"
