// The C functions for fills.
#include "api/call_options.h"
#include "base/sized.h"
#include "submit/fill.h"
#include "submit/note_error.h"
#include "submit/ticket.h"

using namespace ferry;

namespace {

int32_t fill_and_report(ferry_instance *instance, const ferry_fill_desc *desc, const ferry_copy_options *given,
                        copy_form form, CUstream stream, ferry_ticket **ticket, ferry_error_info *details) noexcept {
    if (ticket) *ticket = nullptr;
    if (!instance || !desc) return report_null(details, instance, desc);
    call_options options;
    if (error failed = choose_options(*instance, given, options)) return report(details, failed);
    const traced_call call = {FERRY_TRACE_FILL, form, stream, bytes_of(desc->width, desc->height, desc->depth), 1,
                              options.tag};
    const auto run = [&]() noexcept {
        return enqueue_with_ticket(*instance, ticket, call.tag, call.bytes, [&](ferry_ticket *made) noexcept {
            return noted(*instance, run_fill(*instance, *desc, options.preferences, form, stream, made));
        });
    };
    return report(details, instance->trace ? instance->trace.run(call, run) : run());
}

int32_t explain_and_report(ferry_instance *instance, const ferry_fill_desc *desc, const ferry_copy_options *given,
                           copy_form form, CUstream stream, ferry_explanation *explanation,
                           ferry_error_info *details) noexcept {
    if (!instance || !desc || !explanation) return report_null(details, instance, desc, explanation);
    call_options options;
    ferry_explanation found;
    error failed = choose_options(*instance, given, options);
    if (!failed) failed = explain_fill(*instance, *desc, options.preferences, form, stream, found);
    if (!failed) failed = write_sized(found, explanation);
    return report(details, failed);
}

} // namespace

extern "C" {

int32_t ferry_fill(ferry_instance *instance, const ferry_fill_desc *fill, const ferry_copy_options *options,
                   ferry_error_info *details) {
    return fill_and_report(instance, fill, options, copy_form::synchronous, nullptr, nullptr, details);
}

int32_t ferry_fill_async(ferry_instance *instance, const ferry_fill_desc *fill, const ferry_copy_options *options,
                         CUstream_st *stream, ferry_ticket **ticket, ferry_error_info *details) {
    return fill_and_report(instance, fill, options, copy_form::asynchronous, stream, ticket, details);
}

int32_t ferry_fill_explain(ferry_instance *instance, const ferry_fill_desc *fill, const ferry_copy_options *options,
                           ferry_explanation *explanation, ferry_error_info *details) {
    return explain_and_report(instance, fill, options, copy_form::synchronous, nullptr, explanation, details);
}

int32_t ferry_fill_explain_async(ferry_instance *instance, const ferry_fill_desc *fill,
                                 const ferry_copy_options *options, CUstream_st *stream, ferry_explanation *explanation,
                                 ferry_error_info *details) {
    return explain_and_report(instance, fill, options, copy_form::asynchronous, stream, explanation, details);
}

} // extern "C"
