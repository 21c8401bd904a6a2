// Tests whether the process may read host memory. Such a test reads as the program would, and waits for pages that have
// yet to arrive, but a wrong address does not crash the process.
#pragma once

#include <cstddef>

#include "base/address_span.h"
#include "base/function_ref.h"
#include "system/address_space.h"

namespace ferry {

// Returns whether the process may read the first and the last byte of a host range. True where the system cannot tell.
bool host_range_is_readable(std::uint64_t first, std::uint64_t last) noexcept;

// Returns whether host_range_is_readable holds for every range. `range` returns the range of an index. Where the system
// reports mappings, it takes a system call or two for each mapping that holds ranges, and again when ranges come back to
// a mapping after 32 others. Elsewhere it takes one for hundreds of ranges, where the system permits. Does not wait for
// pages of mappings that it knows, and takes guard regions in them (MADV_GUARD_INSTALL) for readable.
bool host_ranges_are_readable(const address_space &mappings, std::size_t count,
                              function_ref<address_span(std::size_t)> range) noexcept;

} // namespace ferry
