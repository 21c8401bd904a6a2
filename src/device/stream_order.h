// Whether the work before the next one on a stream is complete, and waiting for it.
#pragma once

#include "device/capture_mode.h"

namespace ferry {

// The work before the next one on a stream that synchronises with the legacy stream is also what is on that. A query of
// the stream does not see it, and neither does waiting for the stream (seen on CUDA 13.0, H200); to query the legacy stream
// itself would break a capture of another such stream. So the caller says whether there may be any: `legacy_counts`.
//
// Not of a stream that is being captured.
bool is_idle(const driver_table &cu, CUstream stream, bool legacy_counts) noexcept;

// Returns when it is complete.
[[gnu::cold, gnu::noinline]] failure pass_earlier_work(const driver_table &cu, CUstream stream,
                                                       bool legacy_counts) noexcept;

} // namespace ferry
