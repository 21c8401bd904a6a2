// Finds out which memory of the process is in huge pages.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ferry::test {

struct huge_pages {
    std::uint64_t bytes = 0;    // in huge pages
    bool are_asked_for = false; // for at least one mapping
};

// For all mappings that a range touches. Empty if the system does not report huge pages.
huge_pages huge_pages_of(const void *memory, std::size_t size);

// Whether private memory gets huge pages on request, and whether shared memory gets huge pages by collapsing. Both
// functions try it.
bool can_have_huge_pages();
bool can_share_huge_pages();

} // namespace ferry::test
