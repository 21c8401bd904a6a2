// Tests whether the process may read host memory. The test behaves like a read by the program: it waits for pages that
// have not arrived yet. But an invalid address does not crash the process.
#pragma once

#include <cstddef>

#include "base/address_span.h"
#include "base/function_ref.h"
#include "system/address_space.h"

namespace ferry {

// Returns whether the process may read the first and the last byte of a host range. True if the system cannot report
// it.
bool host_range_is_readable(std::uint64_t first, std::uint64_t last) noexcept;

// Returns whether host_range_is_readable holds for every range. `range` returns the range with the given index. If the
// system reports mappings, the cost is one or two system calls per mapping, and again if a mapping is used after 32
// other mappings. Otherwise the cost is one system call for hundreds of ranges, if the system permits it. Does not wait
// for pages of known mappings, and treats their guard regions (MADV_GUARD_INSTALL) as readable.
bool host_ranges_are_readable(const address_space &mappings, std::size_t count,
                              function_ref<address_span(std::size_t)> range) noexcept;

} // namespace ferry
