// Pieces whose sources are in one file, and whose destinations are in memory of one device.
#pragma once

#include "batch/batch.h"

namespace ferry {

// Stages all pieces as one copy, as run_batch. If a destination is not in memory of the stream's device, or no kernel
// can serve, nothing is done and `are_copies` is set: each piece must be a copy of its own.
error run_file_pieces(ferry_instance &instance, const batch_input &input, copy_form form, CUstream stream,
                      ferry_ticket *ticket, std::uint64_t &bad_index, bool &are_copies) noexcept;
// As explain_batch.
error explain_file_pieces(ferry_instance &instance, const batch_input &input, CUstream stream,
                          ferry_batch_explanation &found, std::uint64_t &bad_index, bool &are_copies) noexcept;

} // namespace ferry
