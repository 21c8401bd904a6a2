// System pages for the software driver: host memory that devices can also access, and the memory of the devices.
#pragma once

#include <cstddef>
#include <cstdint>

#include "system/handles.h"

namespace ferry::softdriver {

// Zeroed memory for the host and the devices; null if the machine has none. `is_lazy`: allocated only when it is
// written, if the system can overcommit memory.
void *map_host_pages(std::size_t bytes, bool is_lazy);
// Addresses for memory that provide_host_pages() makes usable.
void *reserve_host_pages(std::size_t bytes);
bool provide_host_pages(std::uintptr_t address, std::size_t bytes); // false if the machine has no more
void unmap_host_pages(void *pages, std::size_t bytes);
void discard_host_pages(std::uintptr_t address, std::size_t bytes); // the whole pages inside
bool are_mapped(std::uintptr_t address, std::size_t bytes);

// The memory of all devices, in one file if the system allows other processes to open it, and an equal number of
// addresses for imports. Its pages occupy memory of the machine when they are written.
class device_pages {
public:
    device_pages(std::size_t bytes, std::size_t alignment); // throws std::bad_alloc
    ~device_pages();
    device_pages(const device_pages &) = delete;
    device_pages &operator=(const device_pages &) = delete;

    // The devices' addresses, which the host cannot access. Aligned.
    std::uintptr_t begin() const { return begin_; }
    std::uintptr_t end() const { return begin_ + 2 * bytes_; }
    // The offset from a device address to the mapping that accesses its memory.
    std::ptrdiff_t distance() const { return static_cast<std::ptrdiff_t>(memory_ - begin_); }
    int file() const { return file_.get(); } // -1: the system has none, or the program has closed it

    // Must be called before unused memory at device addresses is used. False if the machine has no more memory.
    bool provide(std::uintptr_t address, std::size_t bytes);
    void discard(std::uintptr_t address, std::size_t bytes); // the contents are lost
    // Maps whole pages of another process's file at a device address after this process's own memory.
    bool map_import(std::uintptr_t address, int file, std::uint64_t offset, std::size_t bytes);
    bool unmap_import(std::uintptr_t address, std::size_t bytes);

private:
    void unmap();

    std::size_t bytes_, reserved_bytes_;
    void *reserved_ = nullptr;
    std::uintptr_t begin_ = 0, memory_ = 0;
    kept_descriptor file_;
};

} // namespace ferry::softdriver
