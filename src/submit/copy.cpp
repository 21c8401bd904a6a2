#include "submit/copy.h"

#include "submit/copy_pipeline.h"

namespace ferry {

// In one piece: what a submission costs beside the driver's call is mostly calls and cold code.
[[gnu::flatten]] failure run_copy(ferry_instance &instance, const ferry_copy_desc &copy, copy_form form,
                                  CUstream stream) noexcept {
    const auto run = [&](const prepared_copy &prepared) noexcept -> failure {
        const auto &[shape, facts, plan, choice, views] = prepared;
        return run_planned(instance, shape, facts, plan, views, prepared.site(stream));
    };
    const failure result = prepare_copy(instance, copy, form, stream, run);
    if (result) note_failure(instance, result);
    return result;
}

} // namespace ferry
