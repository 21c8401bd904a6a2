// The other devices of the machine: memory and a stream on each, and peer access between devices.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "environment.h"
#include "workspace.h"

namespace bench {

// A device other than the run's, with one buffer and one stream on it.
struct peer_device {
    peer_device(const environment &environment, int ordinal, std::size_t size);

    const primary_context context;
    const owned<CUdeviceptr> memory;
    const owned<CUstream> stream;
    const bench::buffer buffer;
};

// Turns peer access between two contexts on or off in both directions, and restores it on destruction.
class peer_access {
public:
    peer_access(const ferry::driver_table &cu, CUcontext here, CUcontext there, bool is_on);
    ~peer_access();
    peer_access(const peer_access &) = delete;

    // Turning access off cannot fail: where the driver has no peer access, access is off, whatever the driver returns.
    CUresult refusal() const { return is_on_ ? refusal_ : CUDA_SUCCESS; }

private:
    // Throws nothing, because the destructor calls it.
    CUresult set(CUcontext from, CUcontext to, bool is_on) noexcept;

    const ferry::driver_table &cu_;
    const bool is_on_;
    CUresult refusal_ = CUDA_SUCCESS;
    std::vector<std::pair<CUcontext, CUcontext>> changed_;
};

} // namespace bench
