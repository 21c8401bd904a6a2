// Whether the host has more to do than it has processors.
#pragma once

namespace ferry_run {

// Whether more threads of all processes are ready to run than there are processors, as of some milliseconds ago. Then
// ferry's threads get processors late, or lose them in the middle of a chunk. Call where threads cannot be cancelled.
bool is_crowded() noexcept;

} // namespace ferry_run
