// The C functions for fills.
#include "base/sized.h"
#include "submit/fill.h"
#include "submit/note_error.h"

using namespace ferry;

namespace {

int32_t fill_and_report(ferry_instance *instance, const ferry_fill_desc *desc, copy_form form, CUstream stream,
                        ferry_error_info *details) noexcept {
    if (!instance || !desc) return report(details, null_argument);
    const auto run = [&]() noexcept { return run_fill(*instance, *desc, form, stream); };
    const traced_call call = {FERRY_TRACE_FILL, form, stream, bytes_of(desc->width, desc->height, desc->depth), 1};
    const error failed = instance->trace ? instance->trace.run(call, run) : run();
    if (failed) note_error(*instance, failed);
    return report(details, failed);
}

int32_t explain_and_report(ferry_instance *instance, const ferry_fill_desc *desc, copy_form form, CUstream stream,
                           ferry_explanation *explanation, ferry_error_info *details) noexcept {
    if (!instance || !desc || !explanation) return report(details, null_argument);
    ferry_explanation found;
    error failed = explain_fill(*instance, *desc, form, stream, found);
    if (!failed) failed = write_sized(found, explanation);
    return report(details, failed);
}

} // namespace

extern "C" {

int32_t ferry_fill(ferry_instance *instance, const ferry_fill_desc *fill, ferry_error_info *details) {
    return fill_and_report(instance, fill, copy_form::synchronous, nullptr, details);
}

int32_t ferry_fill_async(ferry_instance *instance, const ferry_fill_desc *fill, CUstream_st *stream,
                         ferry_error_info *details) {
    return fill_and_report(instance, fill, copy_form::asynchronous, stream, details);
}

int32_t ferry_fill_explain(ferry_instance *instance, const ferry_fill_desc *fill, ferry_explanation *explanation,
                           ferry_error_info *details) {
    return explain_and_report(instance, fill, copy_form::synchronous, nullptr, explanation, details);
}

int32_t ferry_fill_explain_async(ferry_instance *instance, const ferry_fill_desc *fill, CUstream_st *stream,
                                 ferry_explanation *explanation, ferry_error_info *details) {
    return explain_and_report(instance, fill, copy_form::asynchronous, stream, explanation, details);
}

} // extern "C"
