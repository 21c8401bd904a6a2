#include "memory/host_ranges.h"

#include <algorithm>
#include <type_traits>

#include "system/pages.h"

namespace ferry {

std::uint64_t host_registration::end_of_piece(std::uint64_t inside) const noexcept {
    const std::uint64_t base = address / page_size() * page_size(), end = address + size;
    const std::uint64_t into = (inside - base) / piece * piece + piece; // can be past the end by less than a piece
    return end - base <= into ? end : base + into;
}

// ---- Disjoint ranges, sorted by address

template <class Range>
std::size_t host_ranges::sorted_ranges<Range>::lower_bound(std::uint64_t address) const noexcept {
    const auto *const found = std::lower_bound(ranges_.begin(), ranges_.end(), address,
                                               [](const Range &range, std::uint64_t at) { return range.address < at; });
    return static_cast<std::size_t>(found - ranges_.begin());
}

template <class Range> Range *host_ranges::sorted_ranges<Range>::find(std::uint64_t address) noexcept {
    if (address == UINT64_MAX) return nullptr;
    const std::size_t after = lower_bound(address + 1);
    if (after == 0) return nullptr;
    Range &range = ranges_[after - 1];
    return address - range.address < range.size ? &range : nullptr;
}

template <class Range>
const Range *host_ranges::sorted_ranges<Range>::first_from(std::uint64_t address) const noexcept {
    const std::size_t at = lower_bound(address);
    return at < ranges_.size() ? &ranges_[at] : nullptr;
}

template <class Range>
void host_ranges::sorted_ranges<Range>::leave_out(std::uint64_t address, std::uint64_t &first,
                                                  std::uint64_t &end) const noexcept {
    const std::size_t after = lower_bound(address + 1);
    if (after < ranges_.size()) end = std::min(end, ranges_[after].address);
    if (after == 0) return;
    const Range &before = ranges_[after - 1];
    first = std::max(first, before.address + before.size);
    if (first > address) end = first;
}

template <class Range>
void host_ranges::sorted_ranges<Range>::forget_overlapping(std::uint64_t address, std::uint64_t size) noexcept {
    std::size_t at = lower_bound(address);
    if (at > 0 && address - ranges_[at - 1].address < ranges_[at - 1].size) --at;
    while (at < ranges_.size() && ranges_[at].address < address + size)
        remove(ranges_[at]);
}

template <class Range> void host_ranges::sorted_ranges<Range>::remove(const Range &range) noexcept {
    if constexpr (std::is_same_v<Range, host_block>)
        if (is_own(range.owner)) own_.give_back(range.owner, range.size);
    ranges_.remove(static_cast<std::size_t>(&range - ranges_.begin()));
}

template <class Range> bool host_ranges::sorted_ranges<Range>::add(const Range &range) noexcept {
    forget_overlapping(range.address, range.size);
    return ranges_.insert(lower_bound(range.address), range);
}

// ---- The two lists

void host_ranges::forget(std::uint64_t address, std::uint64_t size) noexcept {
    const std::lock_guard lock(mutex_);
    blocks_.forget_overlapping(address, size);
    registrations_.forget_overlapping(address, size);
}

bool host_ranges::add(const host_block &block) noexcept {
    const std::lock_guard lock(mutex_);
    registrations_.forget_overlapping(block.address, block.size);
    return blocks_.add(block);
}

bool host_ranges::add(const host_registration &registration) noexcept {
    has_registered_.store(true, std::memory_order_relaxed);
    const std::lock_guard lock(mutex_);
    return registrations_.add(registration);
}

bool host_ranges::find_block(std::uint64_t address, host_block &block) const noexcept {
    const std::lock_guard lock(mutex_);
    const host_block *const found = blocks_.find(address);
    if (found) block = *found;
    return found != nullptr;
}

bool host_ranges::begin_freeing(std::uint64_t address, host_owner owner, host_block &block) noexcept {
    const std::lock_guard lock(mutex_);
    host_block *const found = blocks_.find(address);
    if (!found || found->address != address || found->owner != owner || found->is_leaving) return false;
    found->is_leaving = true;
    block = *found;
    return true;
}

void host_ranges::end_freeing(std::uint64_t address, bool is_gone) noexcept {
    const std::lock_guard lock(mutex_);
    host_block *const found = blocks_.find(address);
    if (!found || !found->is_leaving) return; // another block already has the address
    found->is_leaving = false;
    if (is_gone) blocks_.remove(*found);
}

bool host_ranges::add_leaving(const host_block &block) noexcept {
    const std::lock_guard lock(mutex_);
    return !blocks_.find(block.address) && blocks_.add(block);
}

bool host_ranges::look_up_registration(std::uint64_t address, host_registration &registration) const noexcept {
    const std::lock_guard lock(mutex_);
    const host_registration *const found = registrations_.find(address);
    if (found) registration = *found;
    return found != nullptr;
}

bool host_ranges::remove_registration(std::uint64_t address, host_registration &registration) noexcept {
    const std::lock_guard lock(mutex_);
    host_registration *const found = registrations_.find(address);
    if (!found || found->address != address || found->is_leaving) return false;
    registration = *found;
    registrations_.remove(*found);
    return true;
}

bool host_ranges::begin_unregistering(std::uint64_t address, host_registration &registration) noexcept {
    const std::lock_guard lock(mutex_);
    host_registration *const found = registrations_.find(address);
    if (!found || found->address != address || found->is_leaving) return false;
    found->is_leaving = true;
    registration = *found;
    return true;
}

void host_ranges::end_unregistering(std::uint64_t address, bool is_gone) noexcept {
    const std::lock_guard lock(mutex_);
    host_registration *const found = registrations_.find(address);
    if (!found || !found->is_leaving) return; // the memory was registered again after its context had ended
    found->is_leaving = false;
    if (is_gone) registrations_.remove(*found);
}

std::uint64_t host_ranges::end_of_piece(std::uint64_t address) const noexcept {
    host_registration registration;
    return find_registration(address, registration) ? registration.end_of_piece(address) : 0;
}

std::uint64_t host_ranges::look_up_next_registration(std::uint64_t address) const noexcept {
    const std::lock_guard lock(mutex_);
    const host_registration *const found = registrations_.first_from(address);
    return found ? found->address : UINT64_MAX;
}

void host_ranges::leave_out_records(std::uint64_t address, std::uint64_t &first, std::uint64_t &end) const noexcept {
    const std::lock_guard lock(mutex_);
    blocks_.leave_out(address, first, end);
    registrations_.leave_out(address, first, end);
}

} // namespace ferry
