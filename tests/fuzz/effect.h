// The effect of one step on bytes: a copy, a fill, or a write by a host function of a stream. Each effect can be
// described to ferry, applied to the models, and expressed in words.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "fuzz/buffer.h"
#include "support/how.h"
#include "support/test_place.h"

namespace ferry::test {

struct extent {
    std::uint64_t width = 0, height = 1, depth = 1;
    std::uint64_t total() const { return width * height * depth; }
};

// The position and layout of a box in a buffer.
struct view {
    buffer *in = nullptr;
    std::uint64_t offset = 0; // of the stated address
    std::uint64_t row_pitch = 0, slice_height = 0;
    box at = {};
    bool states_pitches = true; // otherwise the pitches are tight and stated as 0
    bool states_kind = true;    // otherwise the kind is FERRY_KIND_ANY
    bool states_device = true;

    std::uint64_t offset_of(std::uint64_t y, std::uint64_t z) const {
        return offset + ((at.z + z) * slice_height + at.y + y) * row_pitch + at.x;
    }
    std::byte *model_row(std::uint64_t y, std::uint64_t z) const { return &in->model[offset_of(y, z)]; }
    ferry_place describe() const;
};

// A contiguous range for which only the address is stated.
view line_in(buffer &in, std::uint64_t offset, std::uint64_t length);

struct drawn_copy {
    view source, destination;
    extent size;
    how options = {}; // none in a batch, which has options of its own

    ferry_copy_desc describe() const;
    void apply() const;
    std::string words() const;
};

struct drawn_fill {
    view destination;
    extent size;
    std::uint8_t pattern[16] = {};
    std::uint32_t pattern_size = 1;
    how options = {};

    ferry_fill_desc describe() const;
    void apply() const;
    std::string words() const;

private:
    void fill_row(std::byte *row) const;
};

// Bytes that a host function writes to host memory.
struct drawn_write {
    buffer *to = nullptr;
    std::uint64_t offset = 0;
    bytes data;

    void apply() const;
    std::string words() const;
};

using effect = std::variant<drawn_copy, drawn_fill, drawn_write>;

const buffer *source_of(const effect &one);
buffer *destination_of(const effect &one);
void apply(const effect &one);
std::uint64_t bytes_of(const std::vector<effect> &all);
bool writes_byte(const effect &one, std::uint64_t offset);
std::string words_of(const effect &one);
std::string words_of(const how &options);

// ---- Drawing

// Adds a tag to a quarter of the options.
how with_any_tag(dice &random, const how &options);
// Draws a box of `size` in a buffer, with offsets and pitches that are multiples of `unit`. Returns false if the box
// does not fit between `first` and `end`.
bool draw_view(dice &random, buffer &in, const extent &size, std::uint64_t unit, std::uint64_t first, std::uint64_t end,
               view &drawn);
// Returns false if no box fits both buffers.
bool draw_copy(dice &random, buffer &from, buffer &to, drawn_copy &drawn);
drawn_fill draw_fill(dice &random, buffer &to);
drawn_write draw_write(dice &random, buffer &to);
// Draws pieces of `to` that do not overlap, from any of `sources`, which must not contain `to`.
std::vector<drawn_copy> draw_pieces(dice &random, const std::vector<buffer *> &sources, buffer &to, std::uint64_t most);

} // namespace ferry::test
