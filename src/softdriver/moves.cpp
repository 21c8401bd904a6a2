#include "softdriver/moves.h"

#include <algorithm>
#include <cstring>

namespace ferry::softdriver {

namespace {

struct run_of_bytes {
    std::byte *at;
    std::size_t length;
};

// A row of one end of a copy.
class row_of_side {
public:
    row_of_side(const side &of, std::size_t y, std::size_t z)
        : is_tiled_(of.memory == side::kind::array), tile_bits_(of.tiles.tile_bits()), x_(of.x),
          start_(is_tiled_ ? reach(of.tiles.storage + of.tiles.row_offset(of.y + y, of.z + z))
                           : reach(of.start) + z * of.slice_pitch + y * of.row_pitch) {}

    // Returns at most `wanted` contiguous bytes.
    run_of_bytes bytes_at(std::size_t x, std::size_t wanted) const {
        if (!is_tiled_) return {start_ + x, wanted};
        x += x_;
        const std::size_t left = tiled_layout::piece - x % tiled_layout::piece;
        return {start_ + tiled_layout::offset_in_row(x, tile_bits_), std::min(left, wanted)};
    }

private:
    bool is_tiled_;
    unsigned tile_bits_;
    std::size_t x_;
    std::byte *start_;
};

// An overlap is the caller's error.
void move_run(std::byte *to, const std::byte *from, std::size_t length) {
    if (length == tiled_layout::piece)
        std::memmove(to, from, tiled_layout::piece); // without a call
    else
        std::memmove(to, from, length);
}

// Calls action(x, y, z, length) for the parts of rows in a stretch.
template <class Action> void for_each_row(const extent &size, const stretch &of, const Action &action) {
    std::size_t x = of.first % size.width, y = of.first / size.width % size.height;
    std::size_t z = of.first / size.width / size.height;
    for (std::size_t left = of.end - of.first; left;) {
        const std::size_t length = std::min(size.width - x, left);
        action(x, y, z, length);
        left -= length;
        x = 0;
        if (++y == size.height) {
            y = 0;
            ++z;
        }
    }
}

// Calls action(at, staged, length) for the contiguous bytes of a stretch and their place in a staging buffer.
template <class Action>
void for_each_staged_run(const side &place, const extent &size, const stretch &of, std::byte *staged,
                         const Action &action) {
    for_each_row(size, of, [&](std::size_t x, std::size_t y, std::size_t z, std::size_t left) {
        const row_of_side row(place, y, z);
        while (left) {
            const run_of_bytes run = row.bytes_at(x, left);
            action(run.at, staged, run.length);
            staged += run.length;
            x += run.length;
            left -= run.length;
        }
    });
}

} // namespace

std::size_t bytes_of(const extent &size) { return size.width * size.height * size.depth; }

void move_bytes(const side &destination, const side &source, const extent &size, const stretch &of) {
    for_each_row(size, of, [&](std::size_t x, std::size_t y, std::size_t z, std::size_t left) {
        const row_of_side from_row(source, y, z), to_row(destination, y, z);
        while (left) {
            const run_of_bytes from = from_row.bytes_at(x, left);
            const run_of_bytes to = to_row.bytes_at(x, from.length);
            move_run(to.at, from.at, to.length);
            x += to.length;
            left -= to.length;
        }
    });
}

staged_bytes::staged_bytes(const extent &size, const stretch &of)
    : size_(size), of_(of), buffer_(new std::byte[of.end - of.first]) {}

void staged_bytes::read(const side &source) const {
    for_each_staged_run(source, size_, of_, buffer_.get(),
                        [](std::byte *at, std::byte *staged, std::size_t length) { move_run(staged, at, length); });
}

void staged_bytes::write(const side &destination) const {
    for_each_staged_run(destination, size_, of_, buffer_.get(), move_run);
}

} // namespace ferry::softdriver
