// The software driver: a CUDA driver on the CPU, reached through the same table of entry points as the real one.
// One per process and library copy; the first to open it configures it, the last to close it tears it down.
#pragma once

#include <cstdint>

namespace ferry::softdriver {

// 0 asks for nothing in particular: the default on the first open, whatever is running afterwards.
struct config {
    std::uint32_t devices = 0;         // default 2
    std::uint32_t hardware_queues = 0; // per device; default 8, as CUDA_DEVICE_MAX_CONNECTIONS
    std::uint64_t device_memory = 0;   // bytes per device; default 4 GiB, taken from the system only when written
};

enum class open_result { opened, refused_config, out_of_memory };

open_result open(const config &asked) noexcept;
void close() noexcept; // once per successful open; waits for running work, then frees everything

// As cuGetProcAddress: the newest variant of `name` not newer than `version`; null where it is not implemented.
void *get_proc(const char *name, int version) noexcept;

} // namespace ferry::softdriver
