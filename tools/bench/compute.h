// A kernel that computes on all SMs, to measure how much copies slow it down, and events to time the kernel and the
// copies.
#pragma once

#include <string>
#include <vector>

#include "environment.h"
#include "workspace.h"

namespace bench {

// Returns why this driver cannot run the kernel; empty if it can.
std::string why_no_computing(const environment &environment);

// A kernel that fills the device. Its blocks run in waves: a block runs for `rounds`, about 70 ns each. By default, one
// launch takes 3 ms on an H200. As in most programs, there is always a block that is about to end.
class compute_kernel {
public:
    explicit compute_kernel(const environment &environment, unsigned waves = 60, std::uint32_t rounds = 700);
    void launch(CUstream stream) const;

private:
    const environment &environment_;
    const owned<CUlibrary> library_;
    const owned<CUdeviceptr> nowhere_;
    const unsigned blocks_;
    const std::uint32_t rounds_;
};

// One kernel that fills the device from the constructor to the destructor, at most for a minute. Meanwhile, no
// other kernels or memsets start.
class persistent_kernel {
public:
    explicit persistent_kernel(const environment &environment);
    ~persistent_kernel();
    persistent_kernel(const persistent_kernel &) = delete;
    persistent_kernel &operator=(const persistent_kernel &) = delete;

private:
    void write(std::uint32_t flag) const;

    const environment &environment_;
    const owned<CUlibrary> library_;
    const owned<CUdeviceptr> flag_;
    const owned<CUstream> stream_, releasing_;
};

// Events that are recorded repeatedly.
class stopwatch {
public:
    stopwatch(const environment &environment, int count);
    CUevent operator[](int i) const { return events_[static_cast<std::size_t>(i)].get(); }
    void note(int i, CUstream stream) const;
    double us_between(int first, int last) const;

private:
    const environment &environment_;
    std::vector<owned<CUevent>> events_;
};

} // namespace bench
