// Queries whether the earlier work on a stream is complete, and waits for it.
#pragma once

#include "device/capture_mode.h"

namespace ferry {

// Whether the earlier work on a stream is complete. The stream must not be under capture.
//
// On a stream that synchronises with the legacy stream, the work on the legacy stream is earlier work too. Neither a
// query of the stream nor waiting for it covers that work (seen on CUDA 13.0, H200), and a query of the legacy stream
// itself would break a capture of another such stream. So the caller says whether the legacy stream may have work:
// `legacy_counts`. If so, such a stream never counts as idle.
bool is_idle(const driver_table &cu, CUstream stream, bool legacy_counts) noexcept;

// Whether the stream synchronises with the legacy stream. False for that stream itself: its queries cover the others.
bool follows_legacy_stream(const driver_table &cu, CUstream stream) noexcept;

// Makes a driver that keeps work back (device_facts) pass the stream's work to the device. The stream must not be under
// capture.
void pass_to_device(const driver_table &cu, CUstream stream) noexcept;

// Waits until the earlier work is complete.
[[gnu::cold, gnu::noinline]] error pass_earlier_work(const driver_table &cu, CUstream stream,
                                                     bool legacy_counts) noexcept;

} // namespace ferry
