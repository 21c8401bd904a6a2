// Many copies in one call: check all, plan by groups, enqueue.
#include "submit/batch.h"

#include "device/capture_mode.h"
#include "exec/driver_copy.h"
#include "submit/batch_request.h"
#include "submit/staging_setup.h"

namespace ferry {

namespace {

failure run(ferry_instance &instance, const batch_input &input, copy_form form, CUstream stream,
            batch_job &job) noexcept {
    context_scope scope(instance.cu);
    if (failure failed = enter_for_batch(instance, input, stream, job, scope)) return failed;
    if (failure failed = check_batch(instance, input, true, stream, job)) return failed;
    if (job.is_empty()) return {};
    bool is_captured = false;
    if (failure failed = ask_capture(instance.cu, stream, is_captured)) return failed;
    if (failure failed = plan_job(instance, takes_batch_calls(stream, is_captured), nullptr, job)) return failed;
    launch_site site = {job.context.wanted, stream, is_captured};
    site.is_waited_for = form == copy_form::synchronous;
    if (form == copy_form::asynchronous || is_single_call(job)) return enqueue_job(instance, job, form, site);
    const failure failed = enqueue_job(instance, job, copy_form::asynchronous, site);
    const failure passed = wait_for_legacy_stream(instance.cu); // also for what came before a failure
    return failed ? failed : passed;
}

} // namespace

failure run_batch(ferry_instance &instance, const batch_input &input, copy_form form, CUstream stream,
                  std::uint64_t &bad_index) noexcept {
    bad_index = 0;
    const borrowed_job job(instance.jobs);
    if (!job) return no_memory;
    (*job).context = {};
    const failure failed = run(instance, input, form, stream, *job);
    if (!failed) return {};
    bad_index = (*job).bad_index;
    note_failure(instance, failed);
    return failed;
}

} // namespace ferry
