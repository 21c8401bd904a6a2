// The participants of a broadcast: the source, the devices that get its bytes, and the access between these devices.
#pragma once

#include "batch/request.h"
#include "submit/instance.h"

namespace ferry {

// Returns the context of a device. On the device of the caller's stream, this is the stream's context.
error context_of(ferry_instance &instance, const launch_site &site, int device, CUcontext &context) noexcept;

class broadcast_targets {
public:
    static constexpr unsigned max_targets = device_contexts::max_devices;

    // A device that gets the bytes.
    struct target {
        const broadcast_member *member;
        CUcontext context;
        unsigned island;
    };

    broadcast_targets(ferry_instance &instance, const broadcast_member *members, std::size_t count,
                      const launch_site &site) noexcept
        : instance_(instance), site_(site), members_(members), count_(count), size_(members->size) {}

    error look_at_source() noexcept;
    // Excludes devices whose context is dead. `refused` and `bad_index` report the first of these devices.
    void find(error &refused, std::uint64_t &bad_index) noexcept;

    unsigned count() const noexcept { return target_count_; }
    const target &operator[](unsigned at) const noexcept { return targets_[at]; }
    // An island is a set of devices that exchange the bytes, because they can access each other's destinations.
    unsigned islands() const noexcept { return island_count_; }
    // If a device is dead, calls that forward its chunks fail too. Returns the index of that device's copy.
    std::uint64_t index_of_dead(std::uint64_t otherwise) const noexcept;

    std::uint64_t size() const noexcept { return size_; }
    const shape_end &source() const noexcept { return source_; }
    bool is_from_device() const noexcept { return source_.device >= 0; }
    bool is_staged() const noexcept { return source_.file || source_.kind == memory_kind::pageable; }
    CUcontext source_context() const noexcept { return source_context_; } // context of a source on a device

    shape_end part_of_source(std::uint64_t at, std::uint64_t size) const noexcept;
    shape_end part_of(unsigned target, std::uint64_t at, std::uint64_t size) const noexcept;

private:
    void find_islands() noexcept;
    bool may_exchange() const noexcept;
    bool reach(const target &one, const target &other) const noexcept;
    bool reaches(const target &one, const target &other) const noexcept;
    bool reaches_source(const target &one) const noexcept;
    bool is_reached_from(CUcontext context, int device, std::uint64_t address, int peer) const noexcept;

    ferry_instance &instance_;
    const launch_site &site_;
    const broadcast_member *const members_;
    const std::size_t count_;
    const std::uint64_t size_;
    shape_end source_ = {};
    CUcontext source_context_ = nullptr;
    target targets_[max_targets];
    unsigned target_count_ = 0, island_count_ = 0;
};

} // namespace ferry
