#include "submit/copy.h"

#include "submit/copy_pipeline.h"
#include "submit/note_error.h"
#include "submit/run_step.h"

namespace ferry {

// Flattened, because apart from the driver's call, the cost of a submission is mostly function calls and cold code.
[[gnu::flatten]] error run_copy(ferry_instance &instance, const ferry_copy_desc &copy, copy_form form,
                                CUstream stream) noexcept {
    const auto run = [&](const prepared_copy &prepared) noexcept {
        return run_step(instance, prepared.step, prepared.site(stream));
    };
    const error result = prepare_copy(instance, copy, form, stream, purpose::run, run);
    if (result) note_error(instance, result);
    return result;
}

} // namespace ferry
