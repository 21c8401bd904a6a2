// Device addresses lie in a range the host cannot touch; the same pages are mapped a second time, one fixed distance
// away. Everything that runs "on a device" goes through reach(); nothing else adds the distance.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>

namespace ferry::softdriver {

struct address_window {
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    std::ptrdiff_t distance = 0;
};
inline address_window device_window; // written by open and close, while no thread can be inside

inline bool is_device_address(std::uintptr_t address) noexcept {
    return address >= device_window.begin && address < device_window.end;
}

// Pinned host memory has the same address on the device: it is reached where it lies.
inline std::byte *reach(CUdeviceptr address) noexcept {
    return reinterpret_cast<std::byte *>(is_device_address(address) ? address + device_window.distance : address);
}

} // namespace ferry::softdriver
