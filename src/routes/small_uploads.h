// Remembers the small copies from pageable memory to a device that ferry has enqueued on a stream since the stream was
// last idle. The driver reads the source of such a copy in its call, and a copy of up to 64 KiB becomes part of the
// stream's commands. The call therefore waits for nothing while the stream has room for its commands.
#pragma once

#include <atomic>
#include <cstdint>

#include "driver/table.h"
#include "system/threads.h"

namespace ferry {

// A stream, and the device of its context, because the default streams of all contexts have the same handles.
struct upload_stream {
    CUstream stream;
    int device;
};

// All functions may be called by any thread. Two streams in use at the same time may share an entry, which then belongs
// to the stream that was idle last. If several threads use a stream, they may exceed its room slightly.
class small_uploads {
public:
    // A copy of `bytes` is enqueued. `was_idle`: the stream's earlier work was complete.
    void note(const upload_stream &on, std::uint64_t bytes, bool was_idle) noexcept {
        entry &of = entries_[index_of(on)];
        if (was_idle) {
            of.count.store(0, relaxed);
            of.bytes.store(0, relaxed);
            of.key.store(key_of(on), relaxed);
            of.has_longer_work.store(false, relaxed);
        } else if (of.key.load(relaxed) != key_of(on)) {
            return;
        }
        of.noted_ns.store(clock_ns(), relaxed);
        of.count.fetch_add(1, relaxed);
        of.bytes.fetch_add(bytes, relaxed);
    }
    // The stream did not become idle soon: longer work is ahead.
    void note_longer_work(const upload_stream &on) noexcept {
        entry &of = entries_[index_of(on)];
        if (of.key.load(relaxed) == key_of(on)) of.has_longer_work.store(true, relaxed);
    }
    // Whether such a copy was enqueued within the last 50 us, and no longer work has been noted since the stream was
    // idle. Then probably only such copies are ahead.
    bool are_probably_alone(const upload_stream &on) const noexcept {
        constexpr std::uint64_t recent_ns = 50'000;
        const entry &of = entries_[index_of(on)];
        return of.key.load(relaxed) == key_of(on) && !of.has_longer_work.load(relaxed) &&
               clock_ns() - of.noted_ns.load(relaxed) < recent_ns;
    }
    // Whether the stream has room for the commands of another such copy of up to 64 KiB. Half of the driver's room
    // (docs/driver.md) is left for the program's own calls.
    bool has_room(const upload_stream &on, std::uint64_t bytes) const noexcept {
        constexpr std::uint64_t max_count = 1020 / 2, max_bytes = std::uint64_t{2} << 20;
        const entry &of = entries_[index_of(on)];
        return of.key.load(relaxed) == key_of(on) && of.count.load(relaxed) < max_count &&
               of.bytes.load(relaxed) + bytes <= max_bytes;
    }

private:
    static constexpr auto relaxed = std::memory_order_relaxed;
    static constexpr std::uint64_t no_key = UINT64_MAX;
    struct alignas(64) entry {
        std::atomic<std::uint64_t> key = no_key, count = 0, bytes = 0, noted_ns = 0;
        std::atomic<bool> has_longer_work = false;
    };

    static std::uint64_t key_of(const upload_stream &on) noexcept {
        constexpr std::uint64_t max_devices = 64;
        return reinterpret_cast<std::uintptr_t>(on.stream) * max_devices + static_cast<unsigned>(on.device);
    }
    static constexpr int index_bits = 4;
    static std::size_t index_of(const upload_stream &on) noexcept {
        constexpr std::uint64_t golden_ratio = 0x9e37'79b9'7f4a'7c15; // spreads handles, which are multiples of 16
        return key_of(on) * golden_ratio >> (64 - index_bits);
    }

    entry entries_[1 << index_bits];
};

} // namespace ferry
