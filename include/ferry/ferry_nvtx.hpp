/*
 * NVTX ranges around ferry's calls, for Nsight Systems and other tools. Header-only. It includes NVTX's own header,
 * which comes with the CUDA Toolkit and is at https://github.com/NVIDIA/NVTX. Nothing is to be linked, except -ldl with
 * a glibc before 2.34.
 *
 *     ferry_options options = ferry::any_driver();
 *     ferry::nvtx::trace(options);
 *     auto gpu = ferry::instance::open(options).or_throw();
 *
 *   What a tool shows   On the thread that calls, in the domain "ferry": a range for each copy, batch, fill and launch
 *                       of a prepared batch, with its bytes as payload. Nsight Systems also projects the ranges onto
 *                       the work that they enqueued on the GPU.
 *   Without a tool      NVTX looks for one at run time. Where there is none, a call costs the two calls of the trace.
 *                       ferry queries the driver for the device of a context that it does not know yet.
 *   Beside a trace      A program with a trace of its own calls `ferry::nvtx::tell(*event)` in it, and adds
 *                       ferry::nvtx::phases to its trace_phases.
 */
#ifndef FERRY_FERRY_NVTX_HPP
#define FERRY_FERRY_NVTX_HPP

#include <cstdint>

#include <nvtx3/nvToolsExt.h>

#include "ferry.h"

namespace ferry {
inline namespace v0_7 {
namespace nvtx {

constexpr std::uint32_t phases = FERRY_PHASE_BEGIN | FERRY_PHASE_RETURN; // of ferry_options.trace_phases

inline nvtxDomainHandle_t domain() noexcept {
    static const nvtxDomainHandle_t made = nvtxDomainCreateA("ferry");
    return made;
}

// Begins or ends the range of a call. Other phases are left alone.
inline void tell(const ferry_trace_event &event) noexcept {
    if (event.phase == FERRY_PHASE_RETURN) nvtxDomainRangePop(domain());
    if (event.phase != FERRY_PHASE_BEGIN) return;
    nvtxEventAttributes_t range = {};
    range.version = NVTX_VERSION;
    range.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    range.messageType = NVTX_MESSAGE_TYPE_ASCII;
    range.message.ascii = event.kind == FERRY_TRACE_COPY       ? "copy"
                          : event.kind == FERRY_TRACE_BATCH    ? "batch"
                          : event.kind == FERRY_TRACE_PREPARED ? "prepared batch"
                          : event.kind == FERRY_TRACE_FILL     ? "fill"
                                                               : "call";
    range.payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64;
    range.payload.ullValue = event.bytes;
    nvtxDomainRangePushEx(domain(), &range);
}

// Sets the trace of an instance that is to be opened.
inline void trace(ferry_options &options) noexcept {
    options.trace = [](void *, const ferry_trace_event *event) { tell(*event); };
    options.trace_phases = phases;
}

} // namespace nvtx
} // namespace v0_7
} // namespace ferry

#endif
