#include "plan/pageable_pieces.h"

#include <algorithm>

#include "plan/predict.h"
#include "plan/staged_chunks.h"

namespace ferry {

pageable_forecast predict_pageable(const pageable_facts &facts) noexcept {
    if (!facts.profile) return {};
    const direction_profile &profile = (*facts.profile)[facts.direction];
    const auto count = static_cast<double>(facts.count), bytes = static_cast<double>(facts.bytes);
    const bool is_synchronous = facts.form == copy_form::synchronous;
    // Each piece has a record and, on average, a window that is not full.
    const double moved = bytes + count * (sizeof(gpu::staged_record) + window_bytes);
    const double threads =
        std::clamp(moved / static_cast<double>(min_chunk), 1.0, static_cast<double>(facts.threads + is_synchronous));
    const double by_threads = (bytes * 1000 / profile.staged_thread_rate + count * profile.staged_row_ns) / threads;
    const double staged_ns = profile.staged_fixed_ns + std::max(moved * 1000 / profile.staged_rate, by_threads) +
                             static_cast<double>(facts.delay_ns);
    // To the host each call waits for its copy.
    const bool to_device = facts.direction == copy_direction::host_to_device;
    const double calls_ns = profile.driver_fixed_ns +
                            (count - 1) * (to_device ? profile.call_ns : profile.driver_fixed_ns) +
                            bytes * 1000 / profile.driver_pageable_rate;
    return {static_cast<std::uint64_t>(staged_ns), static_cast<std::uint64_t>(calls_ns)};
}

bool are_pieces_staged(const pageable_facts &facts) noexcept {
    const bool to_device = facts.direction == copy_direction::host_to_device;
    const bool is_asynchronous = facts.form == copy_form::asynchronous;
    const bool is_read_early = facts.preferences.is_source_read() && is_asynchronous && to_device;
    if (facts.is_captured) // a graph copies at each launch
        return !is_asynchronous || !facts.preferences.is_awaited(to_device);
    if (facts.preferences.forced == route_kind::staged) return true;
    if (is_read_early && !facts.is_stream_idle && facts.bytes <= max_small_copy) return false;
    if (is_asynchronous && !facts.is_stream_idle && !is_read_early) return true;
    // Separate calls would stage each of these pieces too: only small uploads pass the queues of copy engines.
    if (facts.preferences.is_urgent && !(to_device && facts.largest <= max_sent_with_commands)) return true;
    if (!facts.profile) return is_asynchronous;
    if (is_asynchronous && facts.delay_ns == 0 && is_worth_staging(facts.bytes, (*facts.profile)[facts.direction]))
        return true;
    const pageable_forecast predicted = predict_pageable(facts);
    return static_cast<double>(predicted.staged_ns) * kernel_margin < static_cast<double>(predicted.calls_ns);
}

} // namespace ferry
