// Queries whether the earlier work on a stream is complete, and waits for it.
#pragma once

#include "device/capture_mode.h"

namespace ferry {

// Whether the earlier work on a stream is complete. The stream must not be under capture.
//
// For a stream that synchronises with the legacy stream, work on the legacy stream is earlier work too. Neither
// querying the stream nor waiting for it covers that work (seen on CUDA 13.0, H200), and querying the legacy stream
// itself would break a capture of another such stream. So the caller states with `legacy_counts` whether the legacy
// stream may have work. If it may, a stream that synchronises with it never counts as idle.
bool is_idle(const driver_table &cu, CUstream stream, bool legacy_counts) noexcept;

// Whether the stream synchronises with the legacy stream. False for the legacy stream itself, whose queries cover such
// streams.
bool follows_legacy_stream(const driver_table &cu, CUstream stream) noexcept;

// Makes a driver that delays enqueued work (device_facts) submit the stream's work to the device. The stream must not
// be under capture.
void pass_to_device(const driver_table &cu, CUstream stream) noexcept;

// Waits until the earlier work on the stream is complete.
[[gnu::cold, gnu::noinline]] error pass_earlier_work(const driver_table &cu, CUstream stream,
                                                     bool legacy_counts) noexcept;

// Waits for the legacy stream after calls that return early. The wait is never captured, and must not break a capture
// in progress on any thread. In the default capture mode it would, even if the preceding copy did not (seen on CUDA
// 13.0).
[[gnu::noinline]] error wait_for_legacy_stream(const driver_table &cu) noexcept;

} // namespace ferry
