// Copies with streaming stores, which bypass the processor's caches.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ferry {

// Whether the processor can store a whole cache line in one instruction, which is faster: 8 threads fill pinned memory
// at 44 GB/s instead of 30 to 36 (docs/driver.md).
bool has_whole_lines() noexcept;
// Uses plain stores if the compiler or the processor has no streaming stores. `by_whole_lines` requires
// has_whole_lines().
void stream_bytes(std::byte *to, const std::byte *from, std::uint64_t size, bool by_whole_lines) noexcept;
// Orders the streaming stores before later stores. A release alone does not.
void end_streaming() noexcept;

} // namespace ferry
