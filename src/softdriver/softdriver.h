// The software driver: a CUDA driver on the CPU, called through the same table of entry points as the real one. There
// is one per process and copy of the library. The first open configures it, the last close tears it down.
#pragma once

#include <cstdint>

namespace ferry::softdriver {

inline constexpr unsigned max_devices = 64; // a bit set of devices has one word

// Which devices can access each other's memory. Copies between devices need no access.
enum class device_links : std::uint32_t {
    unset,
    all,
    none,
    pairs, // devices 2k and 2k + 1
    lossy  // for tests: all pairs, but what goes over a link is lost (trap 9 in docs/driver.md)
};

// A field of 0 takes the default on the first open, and the running driver's value afterwards.
struct config {
    std::uint32_t devices = 0;                // default 2
    std::uint32_t hardware_queues = 0;        // per device; default 8, as CUDA_DEVICE_MAX_CONNECTIONS
    std::uint64_t device_memory = 0;          // bytes per device; default 4 GiB; takes system memory only when written
    device_links links = device_links::unset; // default all
};

// While an object exists, the synchronous copies and fills of its thread are ordered on CU_STREAM_PER_THREAD instead of
// the legacy stream, as the driver's variants with the suffix _ptds are.
class per_thread_default_stream {
public:
    per_thread_default_stream() noexcept;
    ~per_thread_default_stream();
    per_thread_default_stream(const per_thread_default_stream &) = delete;
    per_thread_default_stream &operator=(const per_thread_default_stream &) = delete;
};

enum class open_result { opened, refused_config, out_of_memory };

// For tests, before an instance opens: the devices read and write all memory of the host, as beside a Grace processor.
void use_host_page_tables(bool use) noexcept;

open_result open(const config &asked) noexcept;
void close() noexcept; // once per successful open; the last call waits for running work, then frees everything

// Like cuGetProcAddress: returns the newest variant of `name` that is not newer than `version`, or null if there is no
// such variant.
void *get_proc(const char *name, int version) noexcept;

// The name of the symbol that a program gets for `name`: since CUDA 11.4, cuGraphInstantiate is
// cuGraphInstantiateWithFlags, in cuda.h and in cuGetProcAddress.
const char *current_name(const char *name) noexcept;

} // namespace ferry::softdriver
