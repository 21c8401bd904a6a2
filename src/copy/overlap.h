// Whether source and destination share bytes, where that can be told exactly.
#pragma once

#include "copy/layout.h"

namespace ferry {

// Exact for two linear ends of equal strides (columns of one image may interleave) and for boxes of one array; for
// unequal strides true only where the first bytes coincide.
bool ends_overlap(const ferry_copy_desc &copy, const copy_layout &layout) noexcept;

} // namespace ferry
