#include "call/copy.h"

#include "call/copy_way.h"

namespace ferry {

// In one piece: what a submission costs beside the driver's call is mostly calls and cold code.
[[gnu::flatten]] failure run_copy(ferry_instance &instance, const ferry_copy_desc &copy, copy_form form,
                                  CUstream stream) noexcept {
    return prepare_copy(instance, copy, form, stream, [&](const prepared_copy &prepared) noexcept -> failure {
        const auto &[shape, facts, plan, choice, views] = prepared;
        copy_site site = {choice.wanted, stream, {choice.wanted, choice.wanted}};
        if (plan.names_contexts)
            if (failure failed = find_contexts(instance, shape, facts.context_device, site.contexts)) return failed;
        const failure result = run_planned(instance, shape, facts, plan, views, site);
        if (result) note_failure(instance, choice.wanted, result);
        return result;
    });
}

} // namespace ferry
