// Memory and addresses, where a call of ferry's is more than one of the driver's.
#pragma once

#include "call/instance.h"

namespace ferry {

// Device or managed memory, or memory of a pool; not what belongs to another process.
failure free_device_memory(ferry_instance &instance, std::uint64_t address) noexcept;

// Fills `told`, but for its size.
failure allocate_host(ferry_instance &instance, const host_request &request, ferry_host_block &told) noexcept;

failure describe_address(ferry_instance &instance, std::uint64_t address, ferry_address_info &found) noexcept;

} // namespace ferry
