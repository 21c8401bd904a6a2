// Copies that travel over several devices: whether they can, and how they are run.
#pragma once

#include "submit/copy_steps.h"

namespace ferry {

// Finds out whether the copy is to be relayed: whether the devices of its ends have access to each other's memory.
error look_at_access(ferry_instance &instance, const shape &shape, plan_facts &facts) noexcept;
// What was measured of copies between the copy's two devices. All 0 where it is within one device or the host.
pair_rates rates_between(const ferry_instance &instance, const shape &shape, int context_device) noexcept;
// Finds out how many host links the copy can take, if its flags ask for several.
error look_at_links(ferry_instance &instance, const shape &shape, CUcontext context, plan_facts &facts) noexcept;

error run_relayed(ferry_instance &instance, const planned_copy &copy, const copy_site &site) noexcept;
error run_over_links(ferry_instance &instance, const planned_copy &copy, const copy_site &site) noexcept;

// The helpers of a staged copy over several links, and their lanes. Without a lane a helper is left out.
class helpers_of_copy {
public:
    explicit helpers_of_copy(ferry_instance &instance) noexcept
        : instance_(instance), own_(instance.lanes), lanes_{taken_lane(instance.lanes), taken_lane(instance.lanes),
                                                            taken_lane(instance.lanes)} {}
    // The helpers' lanes are busy until the copy's kernels there have ended.
    ~helpers_of_copy() {
        if (count_) note_use();
    }
    helpers_of_copy(const helpers_of_copy &) = delete;
    helpers_of_copy &operator=(const helpers_of_copy &) = delete;

    // Puts the lanes behind the stream's earlier work.
    void take(const planned_copy &copy, const copy_site &site) noexcept;
    const staged_helper *begin() const noexcept { return helpers_; }
    std::uint32_t count() const noexcept { return count_; }

private:
    void note_use() noexcept;

    ferry_instance &instance_;
    taken_lane own_, lanes_[max_staged_helpers];
    staged_helper helpers_[max_staged_helpers] = {};
    std::uint32_t count_ = 0;
};

// The devices, as bits, on whose streams of ferry's own work is in flight that was called on `stream`, whose context is
// `context`. If the context of one dies, the stream passes all the same, and bytes are missing.
std::uint64_t devices_at_work(ferry_instance &instance, CUcontext context, CUstream stream) noexcept;
// Once the stream has passed: the status of a context that has died on one of these devices, or success.
std::int32_t status_of_devices(ferry_instance &instance, std::uint64_t devices) noexcept;
// Likewise, of these contexts. One that has been destroyed counts as alive: the program may have had no more use for it.
std::int32_t status_of_contexts(ferry_instance &instance, const context_name *contexts, std::uint32_t count) noexcept;
// The devices of a relayed copy, but the context's own.
std::uint64_t devices_of_relay(const shape &shape, int context_device) noexcept;
// Waits for the legacy stream, and for what these devices have had to do with its work.
error wait_for_devices(ferry_instance &instance, CUcontext context, CUstream stream) noexcept;
error wait_for_devices(ferry_instance &instance, std::uint64_t devices) noexcept;

} // namespace ferry
