#include "batch/broadcast_targets.h"

#include "device/context_status.h"
#include "driver/result.h"

namespace ferry {

error context_of(ferry_instance &instance, const launch_site &site, int device, CUcontext &context) noexcept {
    int of_stream = -1;
    if (error failed = instance.contexts.device_of_current(site.context, of_stream)) return failed;
    if (device == of_stream) return context = site.context, ok;
    return instance.contexts.get(device, context);
}

error broadcast_targets::look_at_source() noexcept {
    if (members_->file) {
        source_ = line_end_at(memory_kind::file, -1, members_->source, size_);
        source_.file = members_->file;
        return {};
    }
    address_facts facts;
    if (error failed = look_up_address(instance_.cu, members_->source, address_query::kind_and_reach, facts))
        return failed;
    source_ = line_end_at(kind_to_context(facts), facts.device, members_->source, size_);
    return is_from_device() ? context_of(instance_, site_, source_.device, source_context_) : ok;
}

void broadcast_targets::find(error &refused, std::uint64_t &bad_index) noexcept {
    for (std::size_t i = 0; i < count_ && target_count_ < max_targets; ++i) {
        target &one = targets_[target_count_];
        one.member = &members_[i];
        error failed = context_of(instance_, site_, one.member->device, one.context);
        const status_code status = failed ? failed.status : context_status(instance_.cu, one.context);
        if (!failed && means_dead_context(status)) failed = {.status = status};
        if (!failed) {
            ++target_count_;
        } else if (!refused) {
            refused = failed;
            bad_index = one.member->index;
        }
    }
    find_islands();
}

std::uint64_t broadcast_targets::index_of_dead(std::uint64_t otherwise) const noexcept {
    for (unsigned i = 0; i < target_count_; ++i)
        if (means_dead_context(context_status(instance_.cu, targets_[i].context))) return targets_[i].member->index;
    return otherwise;
}

// The calls that exchange small copies from pinned memory take longer than the host's links.
bool broadcast_targets::may_exchange() const noexcept {
    constexpr std::uint64_t least_share = std::uint64_t{2} << 20;
    return is_from_device() || is_staged() || size_ >= least_share * target_count_;
}

void broadcast_targets::find_islands() noexcept {
    const bool exchanges = may_exchange();
    for (unsigned i = 0; i < target_count_; ++i) {
        target &one = targets_[i];
        one.island = island_count_;
        for (unsigned island = 0; exchanges && island < island_count_ && one.island == island_count_; ++island) {
            bool is_reached = true;
            for (unsigned other = 0; other < i && is_reached; ++other)
                if (targets_[other].island == island) is_reached = reach(one, targets_[other]);
            if (is_reached) one.island = island;
        }
        island_count_ += one.island == island_count_;
    }
}

bool broadcast_targets::reach(const target &one, const target &other) const noexcept {
    return reaches(one, other) && reaches(other, one) && reaches_source(one) && reaches_source(other);
}

bool broadcast_targets::reaches(const target &one, const target &other) const noexcept {
    return is_reached_from(one.context, one.member->device, other.member->destination, other.member->device);
}

// If the source is on a device, the source and the target must be accessible to each other in at least one direction.
bool broadcast_targets::reaches_source(const target &one) const noexcept {
    return !is_from_device() || is_reached_from(one.context, one.member->device, source_.span.first, source_.device) ||
           is_reached_from(source_context_, source_.device, one.member->destination, one.member->device);
}

// Access counts only after test data has arrived. The probe may block, so it does not run here.
bool broadcast_targets::is_reached_from(CUcontext context, int device, std::uint64_t address, int peer) const noexcept {
    if (instance_.peers.probe_result(device, peer) != FERRY_PROBE_PASSED) return false;
    context_scope scope(instance_.cu);
    return !scope.enter(context) && is_within_reach(instance_.cu, address);
}

shape_end broadcast_targets::part_of_source(std::uint64_t at, std::uint64_t size) const noexcept {
    shape_end part = line_end_at(source_.kind, source_.device, source_.span.first + at, size);
    part.file = source_.file;
    return part;
}

shape_end broadcast_targets::part_of(unsigned target, std::uint64_t at, std::uint64_t size) const noexcept {
    const broadcast_member &one = *targets_[target].member;
    return line_end_at(memory_kind::device, one.device, one.destination + at, size);
}

} // namespace ferry
