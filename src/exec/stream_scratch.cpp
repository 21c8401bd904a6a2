#include "exec/stream_scratch.h"

#include "driver/result.h"

namespace ferry {

stream_scratch::~stream_scratch() {
    if (span_.first) cu_.cuMemFreeAsync(span_.first, stream_);
}

error stream_scratch::allocate(std::uint64_t bytes) noexcept {
    CUdeviceptr address = 0;
    if (const status_code failed = call_optional(cu_.cuMemAllocAsync, &address, bytes, stream_); failed)
        return {.status = failed};
    span_ = {address, address + bytes - 1};
    return {};
}

} // namespace ferry
