// The C functions for pairs of devices: peer access, calibration, helpers.
#include "base/sized.h"
#include "calibrate/pair_rates.h"
#include "routes/staged.h"
#include "submit/instance.h"
#include "submit/staging_setup.h"

using namespace ferry;

namespace {

// `named` is a device that the call also names as `device`.
error refuse_equal(std::int32_t device, std::int32_t named, std::int32_t field) noexcept {
    return refuse_signed(FERRY_ERROR_DEVICE, FERRY_SIDE_NONE, field, numbers::different, device, named);
}

error check_pair(const ferry_instance &instance, std::int32_t device, std::int32_t peer) noexcept {
    if (error failed = check_device(instance, device)) return failed;
    if (error failed = check_device(instance, peer, FERRY_FIELD_PEER)) return failed;
    return device == peer ? refuse_equal(device, peer, FERRY_FIELD_PEER) : ok;
}

// Performs everything that may fail before the first change.
error measure_pair(ferry_instance &instance, std::int32_t device, std::int32_t peer) noexcept {
    if (error failed = check_pair(instance, device, peer)) return failed;
    const error refused = instance.peers.probe(device, peer, instance.allocator, instance.log);
    const bool lacks_access = refused.status == FERRY_ERROR_PEER_ACCESS || refused.status == FERRY_ERROR_DATA_LOST ||
                              refused.status == FERRY_ERROR_UNSUPPORTED;
    if (refused && !lacks_access) return refused;
    const pair_ground ground = {
        instance.contexts, instance.pinned, instance.kernels, instance.devices, instance.allocator, device, peer,
        !lacks_access};
    pair_rates found;
    if (error failed = calibrate_pair(instance.cu, ground, found)) return failed;
    if (error failed = instance.peers.make_room_for_rates()) return failed;
    instance.peers.keep_rates(device, peer, found);
    return {};
}

// The errors of a helper report the field, the helper and its index in the list.
std::int32_t refuse_helper(ferry_error_info *details, error why, std::uint32_t at, std::int32_t helper) noexcept {
    why.side = FERRY_SIDE_OPTIONS;
    why.field = FERRY_FIELD_HELPERS;
    if (why.numbers == numbers::none) why.numbers = numbers::value;
    why.value = static_cast<std::uint64_t>(helper);
    return report(details, why, {FERRY_ITEM_HELPER, at});
}

// Enables a helper to access the device's memory.
error enable_helper(ferry_instance &instance, std::int32_t helper, std::int32_t device) noexcept {
    if (error failed = instance.peers.enable(helper, device, instance.allocator, instance.log)) return failed;
    ferry_peer_info link = {};
    instance.peers.describe(helper, device, link);
    return link.native_atomics ? ok : no_access;
}

} // namespace

extern "C" {

int32_t ferry_peer_get_info(ferry_instance *instance, int32_t device, int32_t peer, ferry_peer_info *info,
                            ferry_error_info *details) {
    if (!instance || !info) return report_null(details, instance, info);
    if (error failed = check_pair(*instance, device, peer)) return report(details, failed);
    ferry_peer_info found = {};
    instance->peers.describe(device, peer, found);
    return report(details, write_sized(found, info));
}

int32_t ferry_peer_probe(ferry_instance *instance, int32_t device, int32_t peer, ferry_error_info *details) {
    if (!instance) return report_null(details, instance);
    if (error failed = check_pair(*instance, device, peer)) return report(details, failed);
    return report(details, instance->peers.probe(device, peer, instance->allocator, instance->log));
}

int32_t ferry_peer_enable(ferry_instance *instance, int32_t device, int32_t peer, ferry_error_info *details) {
    if (!instance) return report_null(details, instance);
    if (error failed = check_pair(*instance, device, peer)) return report(details, failed);
    return report(details, instance->peers.enable(device, peer, instance->allocator, instance->log));
}

int32_t ferry_peer_disable(ferry_instance *instance, int32_t device, int32_t peer, ferry_error_info *details) {
    if (!instance) return report_null(details, instance);
    if (error failed = check_pair(*instance, device, peer)) return report(details, failed);
    return report(details, instance->peers.disable(device, peer));
}

int32_t ferry_peer_calibrate(ferry_instance *instance, int32_t device, int32_t peer, ferry_error_info *details) {
    if (!instance) return report_null(details, instance);
    return report(details, measure_pair(*instance, device, peer));
}

int32_t ferry_multilink_set(ferry_instance *instance, int32_t device, const ferry_multilink_options *options,
                            ferry_error_info *details) {
    if (!instance) return report_null(details, instance);
    if (error failed = check_device(*instance, device)) return report(details, failed);
    ferry_multilink_options given = {};
    if (options)
        if (error failed = read_sized(options, given)) return report(details, failed);
    if (given.reserved) return report(details, refuse_option(FERRY_ERROR_RESERVED, FERRY_FIELD_RESERVED));
    if (given.helper_count && !given.helpers)
        return report(details, refuse_option(FERRY_ERROR_INVALID_ARGUMENT, FERRY_FIELD_HELPERS));
    constexpr std::uint32_t most = gpu::max_links - 1;
    if (given.helper_count > most)
        return report(
            details, refuse_option(FERRY_ERROR_LIMIT, FERRY_FIELD_HELPERS, numbers::at_most, most, given.helper_count));
    std::uint64_t helpers = 0;
    for (std::uint32_t i = 0; i < given.helper_count; ++i) {
        const std::int32_t helper = given.helpers[i];
        if (error failed = check_device(*instance, helper)) return refuse_helper(details, failed, i, helper);
        if (helper == device || (helpers >> helper & 1))
            return refuse_helper(details, refuse_equal(helper, helper, FERRY_FIELD_HELPERS), i, helper);
        helpers |= std::uint64_t{1} << helper;
    }
    for (std::uint32_t i = 0; i < given.helper_count; ++i)
        if (error failed = enable_helper(*instance, given.helpers[i], device))
            return refuse_helper(details, failed, i, given.helpers[i]);
    if (error failed = instance->links.set(device, helpers, given.max_sms)) return report(details, failed);
    // Pageable copies over these links need threads and slots for all the links. With fewer, such copies are slower.
    for (std::uint32_t i = 0; i < given.helper_count && instance->stages; ++i)
        static_cast<void>(is_ready_to_stage(*instance, given.helpers[i]));
    if (given.helper_count && instance->stages)
        static_cast<void>(instance->staging.widen(device, given.helper_count + 1));
    return report(details, ok);
}

} // extern "C"
