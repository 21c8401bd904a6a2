// Reads and checks ferry_piece_list.
#pragma once

#include "base/status.h"
#include "batch/piece_list.h"

namespace ferry {

// Whether a call requires all three pointers, or sets new addresses of pieces whose sizes are known.
enum class piece_fields { all, addresses };

// Checks the list that a program passes. Does not read its elements.
error read_pieces(const ferry_piece_list &given, piece_fields required, piece_list &pieces, std::uint64_t &count,
                  ferry_file *&source_file) noexcept;

} // namespace ferry
