// Pieces whose sources are in one file, and whose destinations are on one device.
#pragma once

#include "batch/batch.h"

namespace ferry {

// Stages all pieces as one copy. As run_batch.
error run_file_pieces(ferry_instance &instance, const batch_input &input, copy_form form, CUstream stream,
                      ferry_ticket *ticket, std::uint64_t &bad_index) noexcept;
// As explain_batch.
error explain_file_pieces(ferry_instance &instance, const batch_input &input, CUstream stream,
                          ferry_batch_explanation &found, std::uint64_t &bad_index) noexcept;

} // namespace ferry
