// The C functions for copies between two layouts.
#include "ferry/ferry_nest.h"

#include "api/call_options.h"
#include "base/explanation.h"
#include "base/sized.h"
#include "batch/nests.h"
#include "batch/prepared.h"
#include "submit/ticket.h"

using namespace ferry;

namespace {

error read_nests(const ferry_instance *instance, const ferry_nest *nests, std::uint64_t count,
                 const ferry_copy_options *options, nest_input &input) noexcept {
    if (!instance) return null_among(instance);
    input = {nests, count, {}};
    if (error failed = choose_options(*instance, options, input.options)) return failed;
    return nests || count == 0 ? ok : refuse_null(FERRY_FIELD_NESTS);
}

[[gnu::cold]] std::uint64_t sum_bytes(const nest_input &input) noexcept {
    std::uint64_t bytes = 0;
    for (std::uint64_t i = 0; i < input.count; ++i) {
        const ferry_nest &one = input.nests[i];
        std::uint64_t of_nest = one.width;
        for (std::uint32_t axis = 0; axis < one.axes && axis < FERRY_NEST_AXES; ++axis)
            of_nest *= one.destination.axes[axis].count;
        bytes += of_nest;
    }
    return bytes;
}

std::int32_t copy_and_report(ferry_instance *instance, const ferry_nest *nests, std::uint64_t count,
                             const ferry_copy_options *options, copy_form form, CUstream stream, ferry_ticket **ticket,
                             ferry_error_info *details) noexcept {
    if (ticket) *ticket = nullptr;
    nest_input input;
    if (error failed = read_nests(instance, nests, count, options, input)) return report(details, failed);
    error_item bad;
    const auto enqueue = [&](ferry_ticket *made) noexcept {
        return run_nests(*instance, input, form, stream, made, bad);
    };
    const auto run = [&]() noexcept {
        return enqueue_with_ticket(*instance, ticket, input.options.tag, ticket ? sum_bytes(input) : 0, enqueue);
    };
    const error failed =
        instance->trace
            ? instance->trace.run({FERRY_TRACE_COPY, form, stream, sum_bytes(input), count, input.options.tag}, run)
            : run();
    return report(details, failed, failed ? bad : error_item{});
}

} // namespace

extern "C" {

int32_t ferry_copy_nests(ferry_instance *instance, const ferry_nest *nests, uint64_t count,
                         const ferry_copy_options *options, ferry_error_info *details) {
    return copy_and_report(instance, nests, count, options, copy_form::synchronous, nullptr, nullptr, details);
}

int32_t ferry_copy_nests_async(ferry_instance *instance, const ferry_nest *nests, uint64_t count,
                               const ferry_copy_options *options, CUstream_st *stream, ferry_ticket **ticket,
                               ferry_error_info *details) {
    return copy_and_report(instance, nests, count, options, copy_form::asynchronous, stream, ticket, details);
}

int32_t ferry_prepared_create_nests(ferry_instance *instance, const ferry_nest *nests, uint64_t count,
                                    const ferry_copy_options *options, CUstream_st *stream, ferry_prepared **prepared,
                                    ferry_error_info *details) {
    if (prepared) *prepared = nullptr;
    nest_input input;
    if (error failed = read_nests(instance, nests, count, options, input)) return report(details, failed);
    if (!prepared) return report_null(details, prepared);
    const bool no_wait = input.options.preferences.no_wait; // of the launches
    input.options.preferences.no_wait = false;
    error_item bad;
    const error failed = create_prepared_nests(*instance, input, stream, *prepared, bad);
    if (!failed) {
        (*prepared)->no_wait = no_wait;
        (*prepared)->count = count;
        (*prepared)->bytes = sum_bytes(input);
    }
    return report(details, failed, failed ? bad : error_item{});
}

int32_t ferry_copy_nest_explain_async(ferry_instance *instance, const ferry_nest *nest,
                                      const ferry_copy_options *options, CUstream_st *stream,
                                      ferry_explanation *explanation, ferry_error_info *details) {
    if (!explanation) return report_null_field(details, FERRY_FIELD_RESULT);
    nest_input input;
    error failed = read_nests(instance, nest, 1, options, input);
    ferry_explanation found;
    error_item bad;
    if (!failed) failed = explain_nest(*instance, input, stream, found, bad);
    if (!failed) failed = write_sized(found, explanation);
    return report(details, failed, failed ? bad : error_item{});
}

} // extern "C"
