// Peer access between devices. Some machines (IOMMU set-ups) report access but transfer no data. So each ordered pair
// is probed with data before its first use, and a pair that fails counts as having no access.
#pragma once

#include <atomic>
#include <mutex>

#include "base/host.h"
#include "device/contexts.h"
#include "ferry/ferry_devices.h"
#include "plan/profile.h"

namespace ferry {

inline constexpr error no_access = {.status = FERRY_ERROR_PEER_ACCESS};
inline constexpr error data_lost = {.status = FERRY_ERROR_DATA_LOST};

class peer_access {
public:
    peer_access(const driver_table &cu, const device_facts *devices, device_contexts &contexts,
                const allocator &memory) noexcept
        : cu_(cu), devices_(devices), contexts_(contexts), memory_(memory) {}
    ~peer_access();
    peer_access(const peer_access &) = delete;
    peer_access &operator=(const peer_access &) = delete;

    // Queries the driver. Both devices must exist and differ.
    error query_access(int device, int peer) const noexcept;
    // Same as query_access. A driver error counts as no access.
    bool reported(int device, int peer) const noexcept;
    std::int32_t probe_result(int device, int peer) const noexcept { // FERRY_PROBE_*
        return found_[device][peer].load(std::memory_order_acquire);
    }
    void describe(int device, int peer, ferry_peer_info &found) const noexcept;
    std::uint32_t failed_count() const noexcept { return failed_count_.load(std::memory_order_relaxed); }

    // Succeeds if the pair has access and data is transferred correctly. Probes the pair unless it was probed before.
    error probe(int device, int peer, const allocator &memory, const log_sink &log) noexcept;
    // Enable or disable access between the contexts in use for the two devices. `enable` probes the pair first. If
    // access is already enabled or disabled, the call succeeds.
    error enable(int device, int peer, const allocator &memory, const log_sink &log) noexcept;
    error disable(int device, int peer) noexcept;

    // Allocates the table of rates if it does not exist.
    error make_room_for_rates() noexcept;
    // The table must exist.
    void keep_rates(int device, int peer, const pair_rates &rates) noexcept;
    // Returns the rates of copies from `device` to `peer` that were measured by this instance or loaded with a profile.
    pair_rates rates(int device, int peer) const noexcept;

private:
    // Returns a P2P attribute of the pair, or `unknown` if the driver does not report it.
    std::int32_t attribute(CUdevice_P2PAttribute which, int device, int peer, std::int32_t unknown) const noexcept;
    error enter(int device, int peer, context_scope &scope, CUcontext &near, CUcontext &far) noexcept;
    bool is_known(int device, int peer) const noexcept { return probe_result(device, peer) != FERRY_PROBE_NOT_RUN; }
    error known(int device, int peer) const noexcept {
        return probe_result(device, peer) == FERRY_PROBE_PASSED ? ok : data_lost;
    }
    // Probes between two contexts. `near` must be current and have access, and mutex_ must be locked.
    error probe_between(int device, int peer, CUcontext near, CUcontext far, const allocator &memory,
                        const log_sink &log) noexcept;

    // While another thread stores new rates, a reader may see some of the old rates: both were measured.
    struct kept_rates {
        std::array<std::atomic<std::uint32_t>, std::tuple_size_v<pair_numbers>> numbers = {};
    };
    std::size_t table_size() const noexcept {
        return static_cast<std::size_t>(contexts_.count()) * static_cast<std::size_t>(contexts_.count());
    }
    kept_rates *rates_of(int device, int peer) const noexcept { // null: no pair was measured
        kept_rates *const table = rates_.load(std::memory_order_acquire);
        return table ? table + device * contexts_.count() + peer : nullptr;
    }

    const driver_table &cu_;
    const device_facts *devices_;
    device_contexts &contexts_;
    const allocator &memory_;
    std::mutex mutex_;                          // one probe at a time
    std::atomic<kept_rates *> rates_ = nullptr; // of all ordered pairs; few programs calibrate: made on demand
    std::atomic<std::uint32_t> failed_count_ = 0;
    std::atomic<std::uint8_t> found_[device_contexts::max_devices][device_contexts::max_devices] = {};
};

} // namespace ferry
