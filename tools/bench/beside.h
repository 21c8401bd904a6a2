// What keeps the processors or the device busy while copies are measured.
#pragma once

#include <atomic>
#include <thread>
#include <vector>

#include "compute.h"

namespace bench {

#if defined(__linux__)
// Processes that compute until they are destroyed. They use neither the driver nor memory.
class computing_processes {
public:
    explicit computing_processes(unsigned count);
    ~computing_processes();
    computing_processes(const computing_processes &) = delete;
    computing_processes &operator=(const computing_processes &) = delete;

private:
    std::vector<int> children_;
};
#endif

// Launches kernels back to back on its own stream. Each kernel fills the device for about 1.5 ms.
class computing_device {
public:
    explicit computing_device(const environment &environment);
    ~computing_device();
    computing_device(const computing_device &) = delete;
    computing_device &operator=(const computing_device &) = delete;

private:
    static constexpr int kernels_at_once = 4;

    void run(const environment &environment);

    const compute_kernel kernel_;
    const stopwatch watch_;
    const owned<CUstream> stream_;
    std::atomic<bool> is_over_ = false;
    std::thread thread_;
};

} // namespace bench
