// Names and texts of results. The list is the library's own, because a failure injected in front of this driver may
// return any result.
#include "softdriver/entry.h"

namespace ferry::softdriver {

namespace {

struct named_result {
    int number;
    const char *name;
    const char *text;
};
constexpr named_result results[] = {
#define FERRY_DRIVER_RESULT(number, name, traits, text) {number, #name, text},
#include "driver/results.inc"
#undef FERRY_DRIVER_RESULT
};

CUresult look_up(CUresult result, const char *named_result::*field, const char **out) {
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    *out = nullptr;
    for (const named_result &known : results)
        if (known.number == static_cast<int>(result)) *out = known.*field;
    return *out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

} // namespace

CUresult cuGetErrorName(CUresult result, const char **name) { return look_up(result, &named_result::name, name); }
CUresult cuGetErrorString(CUresult result, const char **text) { return look_up(result, &named_result::text, text); }

} // namespace ferry::softdriver
