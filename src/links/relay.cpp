#include "links/relay.h"

#include <algorithm>

#include "copy/split.h"
#include "driver/result.h"
#include "exec/driver_copy.h"

namespace ferry {

namespace {

// A change of chunks costs an engine some 5 us, whatever the number of streams (H100: lines of 1 GiB in chunks of 1, 2,
// 4, 8 MiB ran at 45, 49, 52, 53 GB/s). Both engines together are at work only between the first and the last chunk. The
// best size is the one for which all changes take as long as one chunk does.
std::uint64_t size_of_chunk(std::uint64_t bytes, std::uint64_t slot_size) noexcept {
    constexpr double change_ns = 5'000, bytes_per_ns = 53;
    const double best_squared = static_cast<double>(bytes) * change_ns * bytes_per_ns;
    std::uint64_t chunk = std::uint64_t{512} << 10;
    while (2 * static_cast<double>(chunk) * static_cast<double>(chunk) < best_squared)
        chunk *= 2;
    return std::min(chunk, slot_size);
}

class relay_run {
public:
    relay_run(const driver_table &cu, lane_set &lanes, const shape &shape, const relay_site &site) noexcept
        : cu_(cu), lanes_(lanes), shape_(shape), site_(site) {}

    error run() noexcept {
        if (error failed = prepare()) return failed;
        error failed = lanes_.join(lane_of_caller(), site_.stream, from_->stream);
        const std::uint64_t chunk = size_of_chunk(shape_.bytes(), to_->slot_size);
        if (!failed) failed = for_each_chunk(shape_, chunk, [&](const shape &part) noexcept { return move(part); });
        const error ended = end();
        return failed ? failed : ended;
    }

private:
    error prepare() noexcept {
        stream_key user;
        if (error failed = name_stream(cu_, site_.context, site_.stream, user)) return failed;
        if (error failed = take(from_, site_.source, user)) return failed;
        if (error failed = take(to_, site_.destination, user)) return failed;
        if (site_.context != site_.source && site_.context != site_.destination)
            if (error failed = own_.take(site_.context, user)) return failed;
        return lanes_.provide_slots(*to_, site_.destination_device);
    }
    error take(taken_lane &lane, CUcontext context, const stream_key &user) noexcept {
        context_scope scope(cu_);
        if (error failed = scope.enter(context)) return failed;
        return lane.take(context, user);
    }
    lane &lane_of_caller() const noexcept {
        return site_.context == site_.source ? *from_ : site_.context == site_.destination ? *to_ : *own_;
    }

    // Moves a chunk into a slot and out of it. An event that has never been recorded counts as passed.
    error move(const shape &part) noexcept {
        const auto slot = static_cast<unsigned>(moved_++ % lane::slots);
        const auto first = reinterpret_cast<std::uintptr_t>(to_->memory.host()) + slot * to_->slot_size;
        const shape_end packed = {memory_kind::pinned, -1,         nullptr, 0, 0, 0, {first, first + part.bytes() - 1},
                                  part.width,          part.height};
        shape filling = part, emptying = part;
        filling.destination = emptying.source = packed;
        if (error failed = copy(filling, *from_, to_->emptied[slot], from_->filled[slot])) return failed;
        return copy(emptying, *to_, from_->filled[slot], to_->emptied[slot]);
    }
    error copy(const shape &half, const lane &on, CUevent before, CUevent behind) noexcept {
        context_scope scope(cu_);
        if (error failed = scope.enter(on.context())) return failed;
        if (const CUresult result = cu_.cuStreamWaitEvent(on.stream, before, 0)) return to_error(result);
        if (error failed = run_driver_route(cu_, half, {}, copy_form::asynchronous, {}, on.stream)) return failed;
        return to_error(cu_.cuEventRecord(behind, on.stream));
    }

    // Orders the caller's stream behind both lanes, whatever they hold.
    error end() noexcept {
        const error failed = lanes_.join_or_wait(*from_, to_->stream);
        const error refused = lanes_.join_or_wait(*to_, site_.stream);
        return failed ? failed : refused;
    }

    const driver_table &cu_;
    lane_set &lanes_;
    const shape &shape_;
    const relay_site &site_;
    taken_lane from_{lanes_}, to_{lanes_}, own_{lanes_};
    std::uint64_t moved_ = 0; // chunks
};

} // namespace

error run_relay(const driver_table &cu, lane_set &lanes, const shape &shape, const relay_site &site) noexcept {
    return relay_run(cu, lanes, shape, site).run();
}

} // namespace ferry
