#include "call/copy.h"

#include "call/copy_way.h"

namespace ferry {

// In one piece: what a submission costs beside the driver's call is mostly calls and cold code.
[[gnu::flatten]] failure run_copy(ferry_instance &instance, const ferry_copy_desc &copy, copy_form form,
                                  CUstream stream) noexcept {
    return prepare_copy(instance, copy, form, stream, [&](const prepared_copy &prepared) noexcept -> failure {
        const auto &[shape, facts, plan, choice, views] = prepared;
        const failure result = run_planned(instance, shape, facts, plan, views, prepared.site(stream));
        if (result) note_failure(instance, choice.wanted, result);
        return result;
    });
}

} // namespace ferry
