// Many copies in one call: check all, plan by groups, enqueue.
#include "call/batch_job.h"
#include "call/instance.h"
#include "device/capture_mode.h"
#include "route/driver_route.h"

namespace ferry {
namespace {

failure run(ferry_instance &instance, const batch_input &input, copy_form form, CUstream stream,
            batch_job &job) noexcept {
    context_scope scope(instance.cu);
    if (failure failed = enter_for_batch(instance, input, stream, job, scope)) return failed;
    if (failure failed = check_batch(instance, input, true, stream, job)) return failed;
    if (job.is_empty()) return {};
    const bool is_captured = is_being_captured(instance.cu, stream);
    if (failure failed = plan_job(instance, takes_batch_calls(stream, is_captured), nullptr, job)) return failed;
    const launch_site site = {job.context.wanted, stream, is_captured};
    if (form == copy_form::asynchronous || is_single_call(job)) return enqueue_job(instance, job, form, site);
    const failure failed = enqueue_job(instance, job, copy_form::asynchronous, site);
    const failure passed = wait_for_legacy_stream(instance.cu); // also for what came before a failure
    return failed ? failed : passed;
}

std::int32_t run_and_report(ferry_instance *instance, const batch_input &input, copy_form form, CUstream stream,
                            ferry_error_info *error) noexcept {
    if (failure failed = check_input(instance, input, FERRY_BATCH_CHECK_OVERLAP)) return report(error, failed);
    const borrowed_job job(instance->jobs);
    if (!job) return report(error, {.status = FERRY_ERROR_OUT_OF_MEMORY});
    const failure failed = run(*instance, input, form, stream, *job);
    return report(error, failed, failed ? (*job).bad_index : 0);
}

} // namespace

failure check_input(const ferry_instance *instance, const batch_input &input, std::uint32_t known_flags) noexcept {
    if (!instance) return null_argument;
    if (input.flags & ~known_flags)
        return refuse(FERRY_ERROR_FLAGS, FERRY_SIDE_NONE, FERRY_FIELD_FLAGS, 0, input.flags);
    const bool is_whole = input.copies || (input.destinations && input.sources && input.sizes);
    return is_whole || input.count == 0 ? failure{} : null_argument;
}

} // namespace ferry

using namespace ferry;

extern "C" {

int32_t ferry_copy_batch(ferry_instance *instance, const ferry_copy_desc *copies, uint64_t count, uint32_t flags,
                         ferry_error_info *error) {
    const batch_input input = {.copies = copies, .count = count, .flags = flags};
    return run_and_report(instance, input, copy_form::synchronous, nullptr, error);
}

int32_t ferry_copy_batch_async(ferry_instance *instance, const ferry_copy_desc *copies, uint64_t count, uint32_t flags,
                               CUstream_st *stream, ferry_error_info *error) {
    const batch_input input = {.copies = copies, .count = count, .flags = flags};
    return run_and_report(instance, input, copy_form::asynchronous, stream, error);
}

int32_t ferry_copy_pieces(ferry_instance *instance, const uint64_t *destinations, const uint64_t *sources,
                          const uint64_t *sizes, uint64_t count, uint32_t flags, ferry_error_info *error) {
    const batch_input input = {
        .destinations = destinations, .sources = sources, .sizes = sizes, .count = count, .flags = flags};
    return run_and_report(instance, input, copy_form::synchronous, nullptr, error);
}

int32_t ferry_copy_pieces_async(ferry_instance *instance, const uint64_t *destinations, const uint64_t *sources,
                                const uint64_t *sizes, uint64_t count, uint32_t flags, CUstream_st *stream,
                                ferry_error_info *error) {
    const batch_input input = {
        .destinations = destinations, .sources = sources, .sizes = sizes, .count = count, .flags = flags};
    return run_and_report(instance, input, copy_form::asynchronous, stream, error);
}

} // extern "C"
