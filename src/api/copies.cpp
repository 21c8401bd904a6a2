// The C functions that run or explain a single copy.
#include "api/call_options.h"
#include "base/explanation.h"
#include "base/sized.h"
#include "submit/copy.h"
#include "submit/ticket.h"

using namespace ferry;

namespace {

[[gnu::cold]] traced_call call_of(const ferry_copy_desc &desc, const call_options &options, copy_form form,
                                  CUstream stream) noexcept {
    return {FERRY_TRACE_COPY, form, stream, bytes_of(desc.width, desc.height, desc.depth), 1, options.tag};
}

// The form is a template parameter, so that a call has only as many parameters as registers can pass, and takes no stack for more.
template <copy_form form>
[[gnu::hot, gnu::noinline]] int32_t copy_and_report(ferry_instance *instance, const ferry_copy_desc *desc,
                                                    const ferry_copy_options *given, CUstream stream,
                                                    ferry_ticket **ticket, ferry_error_info *details) noexcept {
    if (ticket) *ticket = nullptr;
    if (!instance || !desc) return report_null(details, instance, desc);
    call_options options;
    if (error failed = choose_options(*instance, given, options)) return report(details, failed);
    const auto run = [&]() noexcept {
        return ticket ? run_copy_with_ticket(*instance, *desc, options, stream, *ticket)
                      : run_copy(*instance, *desc, options.preferences, form, stream);
    };
    if (!instance->trace) return report(details, run());
    return report(details, instance->trace.run(call_of(*desc, options, form, stream), run));
}

int32_t explain_and_report(ferry_instance *instance, const ferry_copy_desc *desc, const ferry_copy_options *given,
                           copy_form form, CUstream stream, ferry_explanation *explanation,
                           ferry_error_info *details) noexcept {
    if (!instance || !desc || !explanation) return report_null(details, instance, desc, explanation);
    call_options options;
    ferry_explanation found = {};
    error failed = choose_options(*instance, given, options);
    if (!failed) failed = explain_copy(*instance, *desc, options.preferences, form, stream, found);
    if (!failed) failed = write_sized(found, explanation);
    return report(details, failed);
}

ferry_copy_desc describe_bytes(uint64_t destination, uint64_t source, uint64_t size) noexcept {
    ferry_copy_desc desc = {};
    desc.source.address = source;
    desc.destination.address = destination;
    desc.width = size;
    return desc;
}

} // namespace

extern "C" {

int32_t ferry_copy(ferry_instance *instance, const ferry_copy_desc *copy, const ferry_copy_options *options,
                   ferry_error_info *details) {
    return copy_and_report<copy_form::synchronous>(instance, copy, options, nullptr, nullptr, details);
}

[[gnu::hot]] int32_t ferry_copy_async(ferry_instance *instance, const ferry_copy_desc *copy,
                                      const ferry_copy_options *options, CUstream_st *stream, ferry_ticket **ticket,
                                      ferry_error_info *details) {
    const bool is_usual = instance && copy && !options && !ticket && !instance->trace;
    if (is_unlikely(!is_usual))
        return copy_and_report<copy_form::asynchronous>(instance, copy, options, stream, ticket, details);
    const copy_preferences &wanted = instance->options.preferences;
    short_findings found;
    const call_result result = run_short(*instance, *copy, wanted, copy_form::asynchronous, stream, found);
    if (is_likely(result == CUDA_SUCCESS)) return report_success(details);
    return report(details, run_long(*instance, *copy, wanted, copy_form::asynchronous, stream, result, found));
}

int32_t ferry_copy_bytes(ferry_instance *instance, uint64_t destination, uint64_t source, uint64_t size,
                         const ferry_copy_options *options, ferry_error_info *details) {
    const ferry_copy_desc desc = describe_bytes(destination, source, size);
    return copy_and_report<copy_form::synchronous>(instance, &desc, options, nullptr, nullptr, details);
}

int32_t ferry_copy_bytes_async(ferry_instance *instance, uint64_t destination, uint64_t source, uint64_t size,
                               const ferry_copy_options *options, CUstream_st *stream, ferry_ticket **ticket,
                               ferry_error_info *details) {
    const ferry_copy_desc desc = describe_bytes(destination, source, size);
    return ferry_copy_async(instance, &desc, options, stream, ticket, details);
}

int32_t ferry_copy_explain(ferry_instance *instance, const ferry_copy_desc *copy, const ferry_copy_options *options,
                           ferry_explanation *explanation, ferry_error_info *details) {
    return explain_and_report(instance, copy, options, copy_form::synchronous, nullptr, explanation, details);
}

int32_t ferry_copy_explain_async(ferry_instance *instance, const ferry_copy_desc *copy,
                                 const ferry_copy_options *options, CUstream_st *stream, ferry_explanation *explanation,
                                 ferry_error_info *details) {
    return explain_and_report(instance, copy, options, copy_form::asynchronous, stream, explanation, details);
}

uint64_t ferry_explanation_format(const ferry_explanation *explanation, char *buffer, uint64_t size) {
    if (!buffer) size = 0;
    if (size) buffer[0] = '\0';
    ferry_explanation known = {};
    if (!explanation || read_sized(explanation, known)) return 0;
    known.driver_call[sizeof known.driver_call - 1] = '\0'; // the caller may have left it unterminated
    return format_explanation(known, buffer, size);
}

} // extern "C"
