// What keeps the processors or the device busy while copies are measured.
#pragma once

#include <atomic>
#include <functional>
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

// Times copies that are enqueued back to back on one stream while a kernel runs on another stream. Both start at the same
// time.
class copies_beside_kernel {
public:
    // The driver's queue accepts about a thousand launches.
    static constexpr int max_copies = 400;

    struct streams {
        CUstream compute, copy;
    };
    struct measured {
        double compute_us, copy_us;
        int copies = 0; // that completed before the kernel did
    };

    explicit copies_beside_kernel(const environment &environment);
    // Measures only the kernel if there are no copies, and only the copies if there is no kernel.
    measured measure(const streams &on, const compute_kernel *kernel, const std::function<void(CUstream)> &enqueue,
                     int copies) const;
    // Enough copies to last as long as the kernel if both take twice as long.
    static int copies_for(double compute_us, double copy_us);

private:
    const environment &environment_;
    const stopwatch watch_;
};

// Creates a stream with the least or with the greatest priority.
owned<CUstream> make_stream_of_least_priority(const environment &environment);
owned<CUstream> make_stream_of_greatest_priority(const environment &environment);

} // namespace bench
