// The host's half of a staged chunk: between its rows in pageable memory and a slot.
#pragma once

#include "plan/staging.h"

namespace ferry {

// `slot`: where the chunk begins there.
void fill_slot(const staging &cut, const staged_chunk &chunk, std::byte *slot) noexcept;
// Pages of the destination that have never been touched are asked for at once, rather than one by one as they are met.
void empty_slot(const staging &cut, const staged_chunk &chunk, const std::byte *slot) noexcept;

} // namespace ferry
