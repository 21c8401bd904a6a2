#include "call/copy.h"

#include "call/copy_way.h"

namespace ferry {

// In one piece: what a submission costs beside the driver's call is mostly calls and cold code.
[[gnu::flatten]] failure run_copy(ferry_instance &instance, const ferry_copy_desc &copy, copy_form form,
                                  CUstream stream) noexcept {
    return prepare_copy(instance, copy, form, stream, [&](const prepared_copy &prepared) noexcept -> failure {
        const auto &[shape, facts, plan, choice, views] = prepared;
        if (plan.route == route_kind::kernel)
            return run_kernel_copy(instance.cu, instance.kernels, shape, plan, views, stream);
        end_contexts contexts = {choice.wanted, choice.wanted};
        if (plan.names_contexts)
            if (failure failed = find_contexts(instance, shape, facts.context_device, contexts)) return failed;
        failure result = run_driver_route(instance.cu, shape, plan, form, contexts, stream);
        if (result) run_refused_in_parts(instance, shape, facts, contexts, stream, result);
        return result;
    });
}

} // namespace ferry
