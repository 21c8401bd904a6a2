// Double buffering: chunk n + 1 is uploaded while chunk n is downloaded, on two streams that events synchronise.
#include <ferry/ferry.hpp>

#include <algorithm>
#include <cstdio>
#include <numeric>

struct buffer {
    ferry::device_memory<int> memory;
    ferry::event arrived, emptied;
};

static buffer make_buffer(const ferry::instance &ferry, std::uint64_t count) {
    return {ferry::device_memory<int>::create(ferry, 0, count).or_throw(),
            ferry::event::create(ferry, 0, ferry::event_flag::disable_timing).or_throw(),
            ferry::event::create(ferry, 0, ferry::event_flag::disable_timing).or_throw()};
}

int main() try {
    const std::uint64_t chunk = 1 << 18, chunks = 8;
    const auto ferry = ferry::instance::open(ferry::any_driver()).or_throw();
    // Pinned, because ferry's threads would stage copies of pageable memory.
    auto sent = ferry::pinned_memory<int>::create(ferry, chunks * chunk).or_throw();
    auto received = ferry::pinned_memory<int>::create(ferry, chunks * chunk).or_throw();
    const auto up = ferry::stream::create(ferry, 0, ferry::stream_flag::non_blocking).or_throw();
    const auto down = ferry::stream::create(ferry, 0, ferry::stream_flag::non_blocking).or_throw();
    buffer buffers[] = {make_buffer(ferry, chunk), make_buffer(ferry, chunk)};
    std::iota(sent.begin(), sent.end(), 0);

    for (std::uint64_t n = 0; n < chunks; ++n) {
        buffer &buffer = buffers[n % 2];
        up.wait(buffer.emptied).or_throw(); // not recorded before the first two: no wait
        ferry::copy_async(ferry, sent.view().sub(n * chunk, chunk), buffer.memory, up).or_throw();
        buffer.arrived.record(up).or_throw();
        down.wait(buffer.arrived).or_throw(); // a kernel would go here
        ferry::copy_async(ferry, buffer.memory, received.view().sub(n * chunk, chunk), down).or_throw();
        buffer.emptied.record(down).or_throw();
    }
    down.synchronize().or_throw();

    if (!std::equal(sent.begin(), sent.end(), received.begin())) return 1;
    std::printf("%d chunks of %d numbers went there and back\n", static_cast<int>(chunks), static_cast<int>(chunk));
} catch (const ferry::error &error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
