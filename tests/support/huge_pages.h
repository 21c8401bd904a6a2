// Which memory of the process lies in huge pages.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ferry::test {

struct huge_pages {
    std::uint64_t bytes = 0;    // in huge pages
    bool are_asked_for = false; // of at least one mapping
};

// Of all mappings that a range touches. Where the system does not tell, there are none.
huge_pages huge_pages_of(const void *memory, std::size_t size);

// Whether private memory that asks for huge pages has them, and whether shared memory has them that is collapsed. Both try.
bool can_have_huge_pages();
bool can_share_huge_pages();

} // namespace ferry::test
