// Device addresses are in a range that the host cannot access. The same pages are mapped a second time, at a fixed
// distance. Everything that runs "on a device" goes through reach(). No other code adds the distance.
#pragma once

#include "driver/cuda_api.h"

#include <cstddef>
#include <cstdint>

namespace ferry::softdriver {

struct address_window {
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    std::ptrdiff_t distance = 0;
};
inline address_window device_window; // written by open() and close(), when no thread can be inside the driver

inline bool is_device_address(std::uintptr_t address) noexcept {
    return address >= device_window.begin && address < device_window.end;
}

// Pinned host memory has the same address on the device as on the host, so its address is used unchanged.
inline std::byte *reach(CUdeviceptr address) noexcept {
    return reinterpret_cast<std::byte *>(is_device_address(address) ? address + device_window.distance : address);
}

} // namespace ferry::softdriver
