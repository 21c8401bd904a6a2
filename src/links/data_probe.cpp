#include "links/data_probe.h"

#include <cstring>

#include "driver/result.h"

namespace ferry {

namespace {

template <class Call> Call describe(const probe_end &from, const probe_end &to) noexcept {
    Call call = {};
    call.srcMemoryType = from.type;
    call.srcDevice = from.address; // the driver reads the address that the type selects
    call.srcHost = reinterpret_cast<const void *>(from.address);
    call.dstMemoryType = to.type;
    call.dstDevice = to.address;
    call.dstHost = reinterpret_cast<void *>(to.address);
    call.WidthInBytes = probe_size;
    call.Height = call.Depth = 1;
    return call;
}

// Sends a pattern from one end to the other and compares. `host` must have space for twice probe_size. Each byte of the
// pattern depends on its position, and the receiving end first contains the complement of each byte. So old or shifted
// bytes are detected.
error comes_through(const driver_table &cu, probe_move move, const probe_end &from, const probe_end &to,
                    CUstream stream, unsigned seed, std::byte *host, bool &passed) noexcept {
    std::byte *const sent = host, *const received = host + probe_size;
    for (std::size_t i = 0; i < probe_size; ++i)
        sent[i] = static_cast<std::byte>(i * 167 + (i >> 8) * 59 + seed * 83);
    for (std::size_t i = 0; i < probe_size; ++i)
        received[i] = ~sent[i];
    const probe_end sent_from = {CU_MEMORYTYPE_HOST, reinterpret_cast<std::uintptr_t>(sent), nullptr};
    const probe_end received_at = {CU_MEMORYTYPE_HOST, reinterpret_cast<std::uintptr_t>(received), nullptr};
    const struct {
        probe_end from, to;
    } steps[] = {{received_at, to}, {sent_from, from}, {from, to}, {to, received_at}};
    for (const auto &step : steps)
        if (call_result result = move(cu, step.from, step.to, stream)) return to_error(result);
    if (call_result result = cu.cuStreamSynchronize(stream)) return to_error(result);
    passed = std::memcmp(sent, received, probe_size) == 0;
    return {};
}

} // namespace

call_result move_between_contexts(const driver_table &cu, const probe_end &from, const probe_end &to,
                                  CUstream stream) noexcept {
    auto call = describe<CUDA_MEMCPY3D_PEER>(from, to);
    call.srcContext = from.context;
    call.dstContext = to.context;
    return cu.cuMemcpy3DPeerAsync(&call, stream);
}

call_result move_in_current_context(const driver_table &cu, const probe_end &from, const probe_end &to,
                                    CUstream stream) noexcept {
    const auto call = describe<CUDA_MEMCPY3D>(from, to);
    return cu.cuMemcpy3DAsync(&call, stream);
}

error probe_both_ways(const driver_table &cu, probe_move move, const probe_end &near, const probe_end &far,
                      CUstream stream, const allocator &memory, bool &passed) noexcept {
    auto *const host = static_cast<std::byte *>(memory.allocate(2 * probe_size, alignof(std::max_align_t)));
    if (!host) return no_memory;
    error failed = comes_through(cu, move, far, near, stream, 1, host, passed);
    if (!failed && passed) failed = comes_through(cu, move, near, far, stream, 2, host, passed);
    // A copy that was enqueued before the failure may still read or write this memory.
    if (failed) cu.cuStreamSynchronize(stream);
    memory.deallocate(host, 2 * probe_size);
    return failed;
}

} // namespace ferry
