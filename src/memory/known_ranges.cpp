#include "memory/known_ranges.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "device/capture_mode.h"

namespace ferry {

error known_ranges::begin(const driver_table &cu, CUcontext context, int context_device, CUstream stream,
                          std::uint64_t bytes, const host_knowledge &host) noexcept {
    cu_ = &cu;
    context_ = context;
    context_device_ = context_device;
    stream_ = stream;
    host_ = host;
    pageable_in_a_row_ = not_assumed_ = 0;
    not_private_ = {};
    ranges_.clear();
    facts_.clear();
    sorted_.clear();
    min_stretch_bits_ = std::max(min_stretch_bits, static_cast<int>(std::bit_width(bytes / max_stretches)));
    set_stretch(max_stretch_bits);
    known_range unknown_memory;
    unknown_memory.as_source = unknown_memory.as_destination = range_use::pageable;
    return ranges_.append(unknown_memory) && facts_.append({}) ? ok : no_memory;
}

namespace {

range_use use_of(const known_range &range, int context_device) noexcept {
    if (!range.is_reached) return range_use::none;
    if (range.kind == memory_kind::host_pool) return range_use::host_pool;
    if (is_pinned(range.kind)) return range_use::pinned;
    if (range.kind == memory_kind::managed) return range_use::managed;
    return range.device == context_device ? range_use::of_device : range_use::of_peer;
}

} // namespace

void known_ranges::set_stretch(int bits) noexcept {
    stretch_bits_ = bits;
    std::memset(memo_, 0, sizeof memo_);
}

// Fills the slots of the first stretches_of_range stretches. Further slots of a larger range are filled when they are
// searched.
void known_ranges::remember_all(const known_range &range, std::uint32_t index) noexcept {
    const int bits = std::max(min_stretch_bits_, static_cast<int>(std::bit_width(range.size / stretches_of_range)));
    if (bits < stretch_bits_) set_stretch(bits);
    const std::uint64_t stretches = std::min(range.size >> stretch_bits_, stretches_of_range);
    for (std::uint64_t i = 0; i <= stretches; ++i)
        remember(range.first + (i << stretch_bits_), index);
}

const known_ranges::place *known_ranges::first_above(std::uint64_t address) const noexcept {
    return std::upper_bound(sorted_.begin(), sorted_.end(), address,
                            [](std::uint64_t first, const place &one) { return first < one.first; });
}

bool known_ranges::search(std::uint64_t address, std::uint32_t &index) const noexcept {
    std::size_t left = sorted_.size();
    if (left == 0) return false;
    const place *at = sorted_.begin();
    while (left > 1) { // branchless, because the branches would be unpredictable
        const std::size_t half = left / 2;
        at += half & -static_cast<std::size_t>(at[half].first <= address);
        left -= half;
    }
    index = at->index;
    return ranges_[index].holds(address, 1);
}

std::uint32_t known_ranges::search_and_remember(std::uint64_t address, std::uint64_t bytes) noexcept {
    std::uint32_t index = unknown;
    if (!search(address, index) || !ranges_[index].holds(address, bytes)) return unknown;
    remember(address, index);
    return index;
}

bool known_ranges::assume_pageable(std::uint64_t address, known_range &range) noexcept {
    constexpr unsigned some = 4;
    host_mapping mapping;
    if (!host_.mappings || not_assumed_ == some || not_private_.holds(address)) return false;
    if (!host_.mappings->find_readable(address, mapping) || !mapping.is_private) {
        ++not_assumed_;
        not_private_ = mapping;
        return false;
    }
    host_.pinned->leave_out_records(address, mapping.first, mapping.end);
    const place *const after = first_above(address);
    if (after != sorted_.end()) mapping.end = std::min(mapping.end, after->first);
    if (after != sorted_.begin()) {
        const known_range &before = ranges_[after[-1].index];
        mapping.first = std::max(mapping.first, before.first + before.size);
    }
    if (!mapping.holds(address)) return false;
    range.first = mapping.first;
    range.size = mapping.end - mapping.first;
    range.as_source = range.as_destination = range_use::pageable;
    return true;
}

error known_ranges::check_assumption(std::uint64_t address, std::uint32_t index, bool &is_right) const noexcept {
    is_right = true;
    if (index == unknown || ranges_[index].as_source != range_use::pageable) return {};
    address_facts facts;
    if (error failed = look_up_address(*cu_, address, address_query::kind_only, facts)) return failed;
    is_right = facts.kind == memory_kind::pageable;
    return {};
}

error known_ranges::query(std::uint64_t address, std::uint64_t bytes, int stated_device, known_range &range,
                          address_facts &facts) noexcept {
    // After several pageable pieces, the next piece is likely pageable too, and only the kind must be queried.
    constexpr unsigned some = 4;
    if (pageable_in_a_row_ >= some)
        if (error failed = look_up_address(*cu_, address, address_query::kind_only, facts)) return failed;
    if (pageable_in_a_row_ < some || facts.kind != memory_kind::pageable)
        if (error failed = look_up_address(*cu_, address, address_query::everything_and_access, facts)) return failed;
    pageable_in_a_row_ = facts.kind == memory_kind::pageable ? pageable_in_a_row_ + 1 : 0;
    range.kind = kind_to_context(facts);
    range.device = facts.device;
    range.first = facts.range_size ? facts.range_start : address;
    range.size = facts.range_size ? facts.range_size : bytes;
    range.has_known_extent = facts.range_size != 0;
    if (range.kind == memory_kind::pageable) {
        range.size = 0;
        if (pageable_in_a_row_ > some && stated_device < 0 && assume_pageable(address, range)) return {};
        if (stated_device < 0 || facts.kind != memory_kind::pageable || !is_being_captured(*cu_, stream_)) return {};
        range = {.first = address, .size = bytes, .kind = memory_kind::device, .device = stated_device};
        range.is_reached = stated_device == context_device_;
        range.as_source = range.as_destination = use_of(range, context_device_);
        return {};
    }
    range.is_reached = is_reached_by_kernels(facts, context_, context_device_);
    range.alias = facts.device_address - address;
    range.as_source = use_of(range, context_device_);
    if (facts.is_writable) range.as_destination = range.as_source;
    return {};
}

error known_ranges::find(std::uint64_t address, std::uint64_t bytes, int stated_device, std::uint32_t &index) noexcept {
    if (!search(address, index)) {
        known_range range;
        address_facts facts;
        if (error failed = query(address, bytes, stated_device, range, facts)) return failed;
        index = unknown;
        if (range.size == 0) return {};
        index = static_cast<std::uint32_t>(ranges_.size());
        const place *const at = first_above(range.first);
        if (!sorted_.insert(static_cast<std::size_t>(at - sorted_.begin()), {range.first, index}) ||
            !ranges_.append(range) || !facts_.append(facts))
            return no_memory;
        remember_all(range, index);
    }
    known_range &found = ranges_[index];
    if (!found.has_known_extent && found.kind != memory_kind::pageable)
        found.size = std::max(found.size, address - found.first + bytes);
    remember(address, index);
    return {};
}

} // namespace ferry
