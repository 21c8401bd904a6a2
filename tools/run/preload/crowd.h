// Detects whether the host has more runnable threads than processors.
#pragma once

namespace ferry_run {

// Whether, several milliseconds ago, more threads of all processes were ready to run than there are processors. In that
// case, ferry's threads start late or are preempted within a chunk. Must be called where threads cannot be cancelled.
bool is_crowded() noexcept;

} // namespace ferry_run
