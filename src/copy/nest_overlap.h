// Finds bytes that a nest writes twice, or that it both reads and writes.
#pragma once

#include "base/address_span.h"
#include "base/host.h"
#include "base/status.h"
#include "copy/nest.h"

namespace ferry {

// Refuses a normalized nest if its strides and its indices in host memory prove that bytes are shared. `source` and
// `destination` are the spans of both ends; `is_one_space`: both are memory. Up to max_compared_runs runs are compared
// one by one, if the strides alone prove nothing.
constexpr std::uint64_t max_compared_runs = std::uint64_t{1} << 20;
error refuse_shared_bytes(const nest &of, const address_span &destination, const address_span &source,
                          bool is_one_space, const allocator &memory) noexcept;

} // namespace ferry
