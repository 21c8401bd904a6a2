#include "peers.h"

namespace bench {

peer_device::peer_device(const environment &environment, int ordinal, std::size_t size)
    : context(retain_primary(environment.cu, ordinal)), memory([&] {
          const current_context current(environment.cu, context.handle);
          return allocate_device(environment, size);
      }()),
      stream([&] {
          const current_context current(environment.cu, context.handle);
          return make_stream(environment);
      }()),
      buffer(device_buffer(memory.get(), ordinal, context.handle)) {}

peer_access::peer_access(const ferry::driver_table &cu, CUcontext here, CUcontext there, bool is_on)
    : cu_(cu), is_on_(is_on) {
    for (const auto &[from, to] : {std::pair(here, there), std::pair(there, here)}) {
        const CUresult result = set(from, to, is_on);
        if (result == CUDA_SUCCESS)
            changed_.push_back({from, to});
        else if (result != CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED && result != CUDA_ERROR_PEER_ACCESS_NOT_ENABLED)
            refusal_ = result;
    }
}

peer_access::~peer_access() {
    for (const auto &[from, to] : changed_)
        set(from, to, !is_on_);
}

CUresult peer_access::set(CUcontext from, CUcontext to, bool is_on) noexcept {
    if (const CUresult failed = cu_.cuCtxPushCurrent(from)) return failed;
    const CUresult result = is_on ? cu_.cuCtxEnablePeerAccess(to, 0) : cu_.cuCtxDisablePeerAccess(to);
    cu_.cuCtxPopCurrent(&from);
    return result;
}

} // namespace bench
