// Copies between two layouts: by one launch of a kernel, or as boxes by other routes.
#pragma once

#include "ferry/ferry_nest.h"
#include "plan/call_options.h"
#include "submit/instance.h"

namespace ferry {

// The nests of a call. On failure, `bad` is the nest, or its axis, that the error is about.
struct nest_input {
    const ferry_nest *nests;
    std::uint64_t count;
    call_options options;
};

// `ticket` may be null. Otherwise it reports the end of an asynchronous copy.
error run_nests(ferry_instance &instance, const nest_input &input, copy_form form, CUstream stream,
                ferry_ticket *ticket, error_item &bad) noexcept;

// Reports what run_nests would do with the only nest of the input. Copies nothing.
error explain_nest(ferry_instance &instance, const nest_input &input, CUstream stream, ferry_explanation &found,
                   error_item &bad) noexcept;

} // namespace ferry
