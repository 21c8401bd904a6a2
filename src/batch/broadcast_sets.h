// The copies of a batch that share their source and have destinations on several devices, or that read a file and have a
// destination on another device than the batch's context.
#pragma once

#include <cstddef>

#include "base/growing.h"
#include "batch/batch.h"

namespace ferry {

struct checked_batch; // batch/request.h

// A contiguous copy of the batch.
struct broadcast_member {
    std::uint64_t source, size, destination;
    std::uint64_t index; // in the batch
    int device;          // of the destination
    unsigned nth;        // among the destinations of this source on this device
    ferry_file *file;    // not null: `source` is an offset in it
};

// The broadcasts in a batch, and all other copies.
class broadcast_sets {
public:
    explicit broadcast_sets(const allocator &memory) noexcept
        : members_(memory), sets_(memory), rest_copies_(memory), rest_pieces_(memory), rest_index_(memory),
          taken_(memory), place_(memory) {}

    // Finds the broadcasts of a validated batch, or none if memory runs out. The context of the batch must be current.
    error find(ferry_instance &instance, const batch_input &input, const checked_batch &batch,
               bool of_pageable) noexcept;
    void clear() noexcept;
    bool empty() const noexcept { return sets_.size() == 0; }

    batch_input rest() const noexcept;
    // Of the whole batch.
    const copy_preferences &preferences() const noexcept { return options_.preferences; }
    std::uint64_t index_of_rest(std::uint64_t index) const noexcept {
        return index < rest_index_.size() ? rest_index_[index] : no_index;
    }
    std::size_t size() const noexcept { return sets_.size(); }
    const broadcast_member *begin(std::size_t set) const noexcept { return members_.begin() + sets_[set].first; }
    std::size_t count(std::size_t set) const noexcept { return sets_[set].count; }
    // Memory for the running broadcast, which is too large for small stacks. Null if memory runs out.
    void *place_for(std::size_t bytes) noexcept {
        constexpr std::size_t unit = sizeof(std::max_align_t);
        return place_.reserve((bytes + unit - 1) / unit) ? place_.begin() : nullptr;
    }
    std::uint64_t copies() const noexcept;
    std::uint64_t bytes() const noexcept; // total size of the sources

private:
    struct range {
        std::size_t first, count;
    };
    bool find_large(ferry_instance &instance, const batch_input &input, bool takes_memory, bool has_files) noexcept;
    bool keep_rest(const batch_input &input) noexcept;

    growing<broadcast_member> members_; // of the sets, one after another
    growing<range> sets_;
    growing<ferry_copy_desc> rest_copies_;
    growing<ferry_piece> rest_pieces_;
    growing<std::uint64_t> rest_index_;
    growing<std::uint64_t> taken_; // the indices of the members, while the rest is found
    growing<std::max_align_t> place_;
    call_options options_;
};

} // namespace ferry
