// Memory and addresses, where a call of ferry's is more than one of the driver's.
#pragma once

#include "call/instance.h"

namespace ferry {

// Device or managed memory, or memory of a pool; not what belongs to another process.
failure free_device_memory(ferry_instance &instance, std::uint64_t address) noexcept;

// In the order of `stream`.
failure defer_free(ferry_instance &instance, std::uint64_t address, CUstream stream) noexcept;

// Before memory of a device is allocated there: destroys what is kept beyond the limit.
void make_room(ferry_instance &instance, int device) noexcept;
// Calls `allocate`, once more after everything was destroyed that can be where the device has no memory left.
template <class Allocate>
failure allocate_on_device(ferry_instance &instance, int device, const Allocate &allocate) noexcept {
    make_room(instance, device);
    const failure failed = allocate();
    if (failed.status != to_status(CUDA_ERROR_OUT_OF_MEMORY)) return failed;
    std::uint64_t freed = 0;
    static_cast<void>(instance.deferred.trim(device, 0, &freed));
    return freed ? allocate() : failed;
}

failure make_array(ferry_instance &instance, int device, const ferry_array_desc &desc, CUarray &array) noexcept;
failure make_mipmapped_array(ferry_instance &instance, int device, const ferry_array_desc &desc, std::uint32_t levels,
                             CUmipmappedArray &mipmapped) noexcept;
failure destroy_array(ferry_instance &instance, CUarray array) noexcept;
failure destroy_array(ferry_instance &instance, CUmipmappedArray mipmapped) noexcept;

// Fills `told`, but for its size.
failure allocate_host(ferry_instance &instance, const host_request &request, ferry_host_block &told) noexcept;

failure describe_address(ferry_instance &instance, std::uint64_t address, ferry_address_info &found) noexcept;

} // namespace ferry
