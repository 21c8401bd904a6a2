// From a place as the caller describes it to a place whose memory is known.
#pragma once

#include "memory/address.h"

namespace ferry {

struct array_facts {
    std::uint32_t element_size = 0; // 0: a format without elements; then its extent is not known in bytes
    std::uint64_t width = 0;        // bytes
    std::uint64_t height = 1;       // rows
    std::uint64_t depth = 1;        // slices or layers
};

struct resolved_place {
    memory_kind kind = memory_kind::pageable;
    int device = -1;               // -1: host memory, or not known
    std::uint64_t range_start = 0; // 0: not known
    std::uint64_t range_size = 0;
    array_facts array;
};

struct resolve_options {
    bool full_checks = false;
    bool need_host_kind = false; // tell pageable host memory from pinned
};

// The bytes that a copy touches at a linear place: the addresses of the first and the last one.
struct address_span {
    std::uint64_t first = 0;
    std::uint64_t last = 0;
};

// The kind must be a known one and the device in range, as lay_out of copy/layout.h checks. `span` is read for linear
// places when all is checked.
failure resolve_place(const driver_table &cu, const ferry_place &place, const address_span &span,
                      const resolve_options &options, resolved_place &resolved) noexcept;

// What an array place is made of. Unlike addresses, arrays can be asked about only within a context.
failure look_up_array(const driver_table &cu, const ferry_place &place, array_facts &facts) noexcept;

} // namespace ferry
