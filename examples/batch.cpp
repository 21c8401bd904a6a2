// Many copies in one call: pieces and boxes, the index of a bad copy, and a batch prepared once and launched twice.
#include <ferry/ferry.hpp>

#include <cstdio>
#include <numeric>
#include <vector>

static const std::uint64_t count = 1000, length = 64; // pieces per frame, numbers per piece
static std::uint64_t slot_of(std::uint64_t piece) { return count - 1 - piece; }

static bool has_arrived(const std::vector<int> &received, ferry::host_view<const int> frame) {
    for (std::uint64_t i = 0; i < count * length; ++i)
        if (received[slot_of(i / length) * length + i % length] != frame.pointer()[i]) return false;
    return true;
}

int main() try {
    const auto ferry = ferry::instance::open(ferry::any_driver()).or_throw();
    const auto stream = ferry::stream::create(ferry, 0, ferry::stream_flag::non_blocking).or_throw();
    auto host = ferry::pinned_memory<int>::create(ferry, 2 * count * length).or_throw(); // two frames
    auto device = ferry::device_memory<int>::create(ferry, 0, count * length).or_throw();
    std::iota(host.begin(), host.end(), 0);
    std::vector<int> received(count * length);
    const auto first = host.view().sub(0, count * length), second = host.view().sub(count * length, count * length);

    std::vector<ferry::piece> pieces;
    std::vector<std::uint64_t> from_second;
    for (std::uint64_t i = 0; i < count; ++i) {
        const auto slot = device.view().sub(slot_of(i) * length, length);
        pieces.push_back(ferry::describe_piece(first.sub(i * length, length), slot).or_throw());
        from_second.push_back(second.sub(i * length, length).address());
    }

    pieces[617].size = std::uint64_t{1} << 30; // past the end: the whole batch is refused
    const ferry::status refused = ferry::copy_pieces(ferry, pieces);
    pieces[617].size = length * sizeof(int);
    ferry::copy_pieces(ferry, pieces).or_throw();

    const auto rows = device.view().shaped(length, count);
    const auto image = ferry::view_of(received).shaped(length, count);
    const ferry_copy_desc halves[] = {
        ferry::describe_copy(rows.sub(0, length / 2), image.sub(0, length / 2)).or_throw(),
        ferry::describe_copy(rows.sub(length / 2, length / 2), image.sub(length / 2, length / 2)).or_throw()};
    ferry::copy_batch(ferry, halves, ferry::copy_flag::check_overlap).or_throw();
    const bool first_arrived = has_arrived(received, first);

    const auto prepared = ferry::prepared::create(ferry, pieces, stream, ferry::copy_flag::updatable).or_throw();
    prepared.launch(stream).or_throw();
    prepared.set_addresses(ferry::sources(from_second), stream).or_throw(); // other sources, the same slots
    prepared.launch(stream).or_throw();
    ferry::copy_batch_async(ferry, halves, stream).or_throw();
    stream.synchronize().or_throw();

    if (!first_arrived || !has_arrived(received, second) || refused.info().index != 617) return 1;
    std::printf("the pieces arrived, twice; a bad one was number %d\n", static_cast<int>(refused.info().index));
} catch (const ferry::error &error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
