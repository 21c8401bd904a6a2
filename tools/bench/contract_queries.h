// The driver's queries without which a library cannot keep ferry's promises for a copy. A raw call with these queries is the
// limit for ferry's call, because each query costs 40 to 140 ns.
#pragma once

#include "lines.h"

namespace bench {

// The kind of memory at an address, and whether the current context reaches it.
void query_kind(const environment &environment, std::uint64_t address);
// Where the memory at an address begins and ends, in addition.
void query_range(const environment &environment, std::uint64_t address);
void query_context(const environment &environment);
// Whether the stream is under capture.
void query_capture(const environment &environment, CUstream stream);
// Whether the earlier work on the stream is complete, without an effect on captures.
void query_idle(const environment &environment, CUstream stream);

// A raw copy of pageable memory with all queries that a contiguous copy of this size needs.
contender with_queries(const environment &environment, const direction &direction, form form, std::size_t size,
                       const contender &raw);

} // namespace bench
