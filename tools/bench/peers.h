// The other devices of the machine: memory and a stream on each device, and peer access between devices.
#pragma once

#include <memory>
#include <string>
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
using peer_devices = std::vector<std::unique_ptr<peer_device>>;
// Returns every device other than the run's device, in the order of their numbers, each with a buffer of `size` bytes.
peer_devices open_peers(const environment &environment, std::size_t size);

// Enables or disables peer access between two contexts in both directions, and restores it on destruction.
class peer_access {
public:
    peer_access(const ferry::driver_table &cu, CUcontext here, CUcontext there, bool is_on);
    ~peer_access();
    peer_access(const peer_access &) = delete;

    // Disabling access cannot fail: if the driver has no peer access, access is disabled, whatever the driver returns.
    CUresult refusal() const { return is_on_ ? refusal_ : CUDA_SUCCESS; }

private:
    // Does not throw, because the destructor calls it.
    CUresult set(CUcontext from, CUcontext to, bool is_on) noexcept;

    const ferry::driver_table &cu_;
    const bool is_on_;
    CUresult refusal_ = CUDA_SUCCESS;
    std::vector<std::pair<CUcontext, CUcontext>> changed_;
};

// Enables peer access through ferry between all devices that support it, until destruction.
class access_between_devices {
public:
    explicit access_between_devices(const environment &environment);
    ~access_between_devices();
    access_between_devices(const access_between_devices &) = delete;

    bool has_both_ways(int device, int peer) const;
    std::string text() const; // for how many of the ordered pairs access is enabled

private:
    const environment &environment_;
    std::vector<std::pair<int, int>> enabled_; // a device and the peer whose memory it accesses
};

// A contiguous copy by the driver on a stream of one of its devices.
struct transfer {
    direction way;
    std::size_t size;
    CUcontext context; // of the stream
    CUstream stream;
};
// Runs all transfers at the same time, until the last bytes have arrived: all are started before any is waited for.
// Calls that copy pageable memory block, so each of these calls has its own thread.
contender raw_transfers(const char *name, const environment &environment, std::vector<transfer> all);
// The same for calls that do not block, as work of the environment's stream: that stream waits for all of them.
contender raw_transfers_in_order(const char *name, const environment &environment, std::vector<transfer> all);

} // namespace bench
