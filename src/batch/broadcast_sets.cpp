#include "batch/broadcast_sets.h"

#include <algorithm>
#include <functional>

#include "batch/request.h"
#include "memory/address.h"
#include "submit/instance.h"

namespace ferry {

namespace {

// The sizes from which the lanes of a broadcast save more time than they cost: from pinned memory, each device gets
// small copies over its own link.
constexpr std::uint64_t min_from_pinned = std::uint64_t{256} << 10, min_from_others = std::uint64_t{4} << 20;

// Whether the copy reads contiguous bytes of a file, as far as the descriptor shows.
bool is_read_of_file(const ferry_copy_desc &copy) noexcept {
    const auto has_origin = [](const ferry_place &place) noexcept { return (place.x | place.y | place.z) != 0; };
    return copy.source.kind == FERRY_KIND_FILE && copy.destination.kind <= FERRY_KIND_DEVICE && copy.width != 0 &&
           copy.height <= 1 && copy.depth <= 1 && !has_origin(copy.source) && !has_origin(copy.destination);
}

// Whether the batch is large enough for a broadcast, which has two copies, or one copy of a file. Contiguous copies of
// memory are in the pieces.
bool may_contain_any(const checked_batch &batch) noexcept {
    std::uint64_t bytes = 0;
    for (int group = 0; group < piece_groups; ++group)
        bytes += batch.pieces.facts(group).bytes;
    return batch.has_files || bytes >= 2 * min_from_pinned;
}

// Looks up memory. `is_one`: all of the memory is of one kind and in one allocation or registration, which its chunks
// require.
error look_up_one(const ferry_instance &instance, std::uint64_t address, std::uint64_t size, address_facts &facts,
                  bool &is_one) noexcept {
    if (error failed = look_up_address(instance.cu, address, address_query::everything, facts)) return failed;
    is_one = facts.kind == memory_kind::pageable
                 ? instance.pinned.ranges().next_registration(address) - address >= size
                 : facts.range_size != 0 && address + (size - 1) - facts.range_start < facts.range_size;
    return {};
}

} // namespace

bool broadcast_sets::find_large(ferry_instance &instance, const batch_input &input, bool takes_memory,
                                bool has_files) noexcept {
    const std::uint64_t min_size = takes_memory ? min_from_pinned : UINT64_MAX;
    const auto add = [&](std::uint64_t index, std::uint64_t destination, std::uint64_t source, std::uint64_t size,
                         ferry_file *file = nullptr) noexcept {
        return members_.append({source, size, destination, index, -1, 0, file});
    };
    for (std::uint64_t i = 0; i < input.count; ++i) {
        bool has_room = true;
        if (!input.copies) {
            const ferry_piece piece = input.pieces[i];
            has_room = piece.size < min_size || add(i, piece.destination, piece.source, piece.size);
        } else if (const ferry_copy_desc &copy = input.copies[i];
                   copy.width >= min_size && is_contiguous_copy(copy, instance.limits)) {
            has_room = add(i, copy.destination.address, copy.source.address, copy.width);
        } else if (has_files && is_read_of_file(copy)) {
            has_room = add(i, copy.destination.address, copy.source.address, copy.width, copy.source.file);
        }
        if (!has_room) return false;
    }
    return true;
}

error broadcast_sets::find(ferry_instance &instance, const batch_input &input, const checked_batch &batch,
                           bool of_pageable) noexcept {
    const copy_preferences &wanted = input.options.preferences;
    const bool takes_memory = !wanted.is_source_read() && !wanted.is_urgent;
    if (instance.limits.device_count < 2 || !instance.lanes.may_serve() || wanted.forced != route_kind::none ||
        (!takes_memory && !batch.has_files) || !may_contain_any(batch))
        return {};
    if (!find_large(instance, input, takes_memory, batch.has_files)) return clear(), ok;
    const auto is_before = [](const broadcast_member &one, const broadcast_member &other) noexcept {
        if (one.file != other.file) return std::less<>()(one.file, other.file);
        if (one.source != other.source) return one.source < other.source;
        if (one.size != other.size) return one.size < other.size;
        if (one.nth != other.nth) return one.nth < other.nth;
        return one.device != other.device ? one.device < other.device : one.index < other.index;
    };
    std::sort(members_.begin(), members_.end(), is_before);
    std::size_t kept = 0;
    for (std::size_t first = 0, end = 0; first < members_.size(); first = end) {
        const broadcast_member of = members_[first]; // a copy, because the members are sorted below
        while (end < members_.size() && members_[end].file == of.file && members_[end].source == of.source &&
               members_[end].size == of.size)
            ++end;
        if (end - first < 2 && !of.file) continue;
        address_facts source;
        bool is_one = true;
        if (!of.file)
            if (error failed = look_up_one(instance, of.source, of.size, source, is_one)) return failed;
        // Managed memory may reside anywhere. Devices differ in how they copy memory of a host pool.
        if (!is_one || source.kind == memory_kind::managed || (source.kind == memory_kind::pinned && source.pool))
            continue;
        if (source.kind == memory_kind::pageable && !of_pageable && !of.file) continue;
        if (!of.file && of.size < (source.kind == memory_kind::pinned ? min_from_pinned : min_from_others)) continue;
        for (std::size_t i = first; i < end; ++i) {
            address_facts to;
            if (error failed = look_up_one(instance, members_[i].destination, of.size, to, is_one)) return failed;
            const bool goes_elsewhere = to.kind == memory_kind::device && to.device != source.device;
            members_[i].device = goes_elsewhere && is_one ? to.device : -1;
        }
        const auto sort_again = [&] { std::sort(members_.begin() + first, members_.begin() + end, is_before); };
        sort_again();
        for (std::size_t i = first + 1; i < end; ++i)
            if (members_[i].device == members_[i - 1].device) members_[i].nth = members_[i - 1].nth + 1;
        sort_again();
        // Of several destinations on a device, the first is used. The others of a file are further sets, because no other
        // copy of a file reaches them.
        for (std::size_t i = first; i < end && (members_[i].nth == 0 || of.file);) {
            const std::size_t begun = kept;
            for (const unsigned nth = members_[i].nth; i < end && members_[i].nth == nth; ++i)
                if (members_[i].device >= 0) members_[kept++] = members_[i];
            const bool leaves_device = kept != begun && of.file && members_[begun].device != batch.context_device;
            if (kept - begun < 2 && !leaves_device)
                kept = begun;
            else if (!sets_.append({begun, kept - begun}))
                return clear(), ok;
        }
    }
    const bool has_room = members_.resize(kept) && (sets_.size() == 0 || keep_rest(input));
    if (!has_room) clear();
    return {};
}

void broadcast_sets::clear() noexcept {
    members_.clear();
    sets_.clear();
    rest_copies_.clear();
    rest_pieces_.clear();
    rest_index_.clear();
    taken_.clear();
}

bool broadcast_sets::keep_rest(const batch_input &input) noexcept {
    options_ = input.options;
    options_.checks_overlap = false; // the whole batch was checked
    if (!taken_.reserve(members_.size())) return false;
    for (const broadcast_member &one : members_)
        taken_.append_reserved(one.index);
    std::sort(taken_.begin(), taken_.end());
    std::size_t next = 0;
    for (std::uint64_t i = 0; i < input.count; ++i) {
        if (next < taken_.size() && taken_[next] == i) {
            ++next;
            continue;
        }
        const bool is_kept = input.copies ? rest_copies_.append(input.copies[i]) : rest_pieces_.append(input.pieces[i]);
        if (!is_kept || !rest_index_.append(i)) return false;
    }
    return true;
}

batch_input broadcast_sets::rest() const noexcept {
    batch_input input;
    input.count = rest_index_.size();
    input.indices = rest_index_.begin();
    input.options = options_;
    if (rest_copies_.size())
        input.copies = rest_copies_.begin();
    else if (rest_pieces_.size())
        input.pieces = piece_list(rest_pieces_.begin());
    return input;
}

std::uint64_t broadcast_sets::copies() const noexcept { return members_.size(); }

std::uint64_t broadcast_sets::bytes() const noexcept {
    std::uint64_t all = 0;
    for (const range &set : sets_)
        all += members_[set.first].size;
    return all;
}

} // namespace ferry
