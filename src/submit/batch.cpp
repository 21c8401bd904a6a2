// Runs many copies in one call: checks all of them, plans them by groups, and enqueues them.
#include "submit/batch.h"

#include "device/capture_mode.h"
#include "exec/driver_copy.h"
#include "submit/batch_request.h"
#include "submit/note_error.h"

namespace ferry {

namespace {

error run(ferry_instance &instance, const batch_input &input, copy_form form, CUstream stream,
          batch_request &request) noexcept {
    context_scope scope(instance.cu);
    if (error failed = enter_batch_context(instance, input, stream, request, scope)) return failed;
    if (error failed = validate_batch(instance, input, true, stream, request)) return failed;
    if (request.is_empty()) return {};
    bool is_captured = false;
    if (error failed = ask_capture(instance.cu, stream, is_captured)) return failed;
    if (error failed = choose_batch_routes(instance, takes_batch_calls(stream, is_captured), nullptr, request))
        return failed;
    launch_site site = {request.context.wanted, stream, is_captured};
    site.is_waited_for = form == copy_form::synchronous;
    if (form == copy_form::asynchronous || is_single_call(request)) return submit_batch(instance, request, form, site);
    const error failed = submit_batch(instance, request, copy_form::asynchronous, site);
    const error passed = wait_for_legacy_stream(instance.cu); // also for the work enqueued before a failure
    return failed ? failed : passed;
}

} // namespace

error run_batch(ferry_instance &instance, const batch_input &input, copy_form form, CUstream stream,
                std::uint64_t &bad_index) noexcept {
    bad_index = 0;
    const borrowed_request request(instance.requests);
    if (!request) return no_memory;
    (*request).context = {};
    const error failed = run(instance, input, form, stream, *request);
    if (!failed) return {};
    bad_index = (*request).bad_index;
    note_error(instance, failed);
    return failed;
}

} // namespace ferry
