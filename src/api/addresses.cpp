// The C function that reports the memory at an address.
#include "base/sized.h"
#include "memory/address.h"
#include "submit/instance.h"

using namespace ferry;

namespace {

error look_up(const ferry_instance &instance, std::uint64_t address, address_facts &facts) noexcept {
    return look_up_whole_range(instance.cu, instance.pinned.ranges(), address, facts);
}

// The first look-up may have run without a current context.
[[gnu::cold, gnu::noinline]] error look_up_in_context(ferry_instance &instance, std::uint64_t address,
                                                      address_facts &facts) noexcept {
    context_scope scope(instance.cu);
    if (error failed = enter_any(instance, nullptr, scope)) return failed;
    return look_up(instance, address, facts);
}

error describe_address(ferry_instance &instance, std::uint64_t address, ferry_address_info &found) noexcept {
    address_facts facts;
    if (error failed = look_up(instance, address, facts)) return failed;
    if (facts.kind == memory_kind::pinned && (facts.pool || !facts.device_address))
        if (error failed = look_up_in_context(instance, address, facts)) return failed;
    found.memory = public_kind(kind_to_context(facts));
    found.device = facts.device;
    found.range_start = facts.range_start;
    found.range_size = facts.range_size;
    found.device_address = facts.device_address;
    found.pool = facts.pool;
    return {};
}

} // namespace

extern "C" {

[[gnu::hot]] int32_t ferry_address_get_info(ferry_instance *instance, uint64_t address, ferry_address_info *info,
                                            ferry_error_info *details) {
    if (!instance || !info) return report_null(details, instance, info);
    ferry_address_info found = {};
    if (error failed = describe_address(*instance, address, found)) return report(details, failed);
    return report(details, write_sized(found, info));
}

} // extern "C"
