// The fills.
#include "submit/fill.h"
#include "submit/staging_setup.h"

using namespace ferry;

namespace {

int32_t fill_and_report(ferry_instance *instance, const ferry_fill_desc *desc, copy_form form, CUstream stream,
                        ferry_error_info *error) noexcept {
    if (!instance || !desc) return report(error, null_argument);
    const failure failed = run_fill(*instance, *desc, form, stream);
    if (failed) note_failure(*instance, failed);
    return report(error, failed);
}

} // namespace

extern "C" {

int32_t ferry_fill(ferry_instance *instance, const ferry_fill_desc *fill, ferry_error_info *error) {
    return fill_and_report(instance, fill, copy_form::synchronous, nullptr, error);
}

int32_t ferry_fill_async(ferry_instance *instance, const ferry_fill_desc *fill, CUstream_st *stream,
                         ferry_error_info *error) {
    return fill_and_report(instance, fill, copy_form::asynchronous, stream, error);
}

} // extern "C"
