// First fit with immediate coalescing: slow in theory, fast enough in practice, and free neighbours are always merged.
#include "softdriver/heap.h"

#include "base/checked.h"

#include <algorithm>

namespace ferry::softdriver {

bool heap::round_up(std::size_t &bytes) {
    if (bytes == 0 || !add(bytes, alignment - 1, bytes)) return false;
    bytes &= ~(alignment - 1);
    return true;
}

std::optional<std::uintptr_t> heap::take(std::size_t bytes) {
    if (!round_up(bytes)) return std::nullopt;
    for (auto block = free_.begin(); block != free_.end(); ++block) {
        if (block->second < bytes) continue;
        // Takes the end of the block: the block keeps its map node, so nothing is allocated here.
        block->second -= bytes;
        const std::uintptr_t address = block->first + block->second;
        if (block->second == 0) free_.erase(block);
        free_bytes_ -= bytes;
        return address;
    }
    return std::nullopt;
}

std::size_t heap::largest_free() const {
    std::size_t largest = 0;
    for (const auto &[address, bytes] : free_)
        largest = std::max(largest, bytes);
    return largest;
}

void heap::release(std::uintptr_t address, std::size_t bytes) {
    round_up(bytes);
    const auto after = free_.lower_bound(address);
    const bool joins_after = after != free_.end() && address + bytes == after->first;
    if (after != free_.begin()) {
        const auto before = std::prev(after);
        if (before->first + before->second == address) {
            free_bytes_ += bytes;
            before->second += bytes;
            if (joins_after) {
                before->second += after->second;
                free_.erase(after);
            }
            return;
        }
    }
    if (joins_after) {
        free_bytes_ += bytes;
        auto node = free_.extract(after);
        node.key() = address;
        node.mapped() += bytes;
        free_.insert(std::move(node));
        return;
    }
    free_.emplace(address, bytes); // may throw; nothing has changed yet
    free_bytes_ += bytes;
}

} // namespace ferry::softdriver
