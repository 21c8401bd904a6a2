// The host's half of a staged chunk: between its rows in pageable memory and a slot.
#pragma once

#include "plan/staged_chunks.h"

namespace ferry {

// `slot`: where the chunk begins there. `streams`: stores go past the processor's caches, but of short rows.
void fill_slot(const staging &cut, const staged_chunk &chunk, std::byte *slot, bool streams) noexcept;
// The same pages of the program's, without a byte of them moved: comes back when they are there.
void touch_source(const staging &cut, const staged_chunk &chunk) noexcept;
void touch_destination(const staging &cut, const staged_chunk &chunk) noexcept;
// Pages of the destination that have never been touched are asked for at once, rather than one by one as they are met.
void empty_slot(const staging &cut, const staged_chunk &chunk, const std::byte *slot, bool streams) noexcept;

} // namespace ferry
