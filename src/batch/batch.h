// Runs many copies in one call.
#pragma once

#include "batch/piece_list.h"
#include "plan/call_options.h"

namespace ferry {

// The input is either descriptors or, if `copies` is null, pieces.
struct batch_input {
    const ferry_copy_desc *copies = nullptr;
    piece_list pieces = {};
    ferry_file *source_file = nullptr; // of the pieces: their sources are offsets in it
    std::uint64_t count = 0;
    const std::uint64_t *indices = nullptr; // in the program's batch, if the copies are a part of it
    bool takes_files = true;                // as ends of descriptors
    call_options options = {};
};

// The index of no input copy.
inline constexpr std::uint64_t no_index = UINT64_MAX;

// On failure, `bad_index` is the index of the input copy that failed, or no_index if the error is not about one copy.
// `ticket` may be null. Otherwise it reports the end of an asynchronous batch.
error run_batch(ferry_instance &instance, const batch_input &input, copy_form form, CUstream stream,
                ferry_ticket *ticket, std::uint64_t &bad_index) noexcept;

// Reports what run_batch would do on the stream.
error explain_batch(ferry_instance &instance, const batch_input &input, CUstream stream, ferry_batch_explanation &found,
                    std::uint64_t &bad_index) noexcept;

} // namespace ferry
