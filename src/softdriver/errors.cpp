// Names and texts of results. They come from the library's own list, because a failure injected in front of this driver
// may return any result.
#include "driver/result.h"
#include "softdriver/entry.h"

namespace ferry::softdriver {

namespace {

CUresult look_up(CUresult result, const char *driver_result::*field, const char **out) {
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    *out = find_driver_result(static_cast<std::int32_t>(result)).*field;
    return *out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

} // namespace

CUresult cuGetErrorName(CUresult result, const char **name) { return look_up(result, &driver_result::name, name); }
CUresult cuGetErrorString(CUresult result, const char **text) { return look_up(result, &driver_result::text, text); }

} // namespace ferry::softdriver
