// Lists of pieces for one call, in each layout that a list can describe.
#pragma once

#include <cstdint>
#include <vector>

#include "ferry/ferry.h"

namespace ferry::test {

// Three arrays of the test.
struct in_arrays {
    in_arrays(const std::uint64_t *destinations, const std::uint64_t *sources, const std::uint64_t *sizes,
              std::uint64_t count) {
        ferry_piece_list_set_arrays(&list, destinations, sources, sizes, count);
    }
    operator const ferry_piece_list *() const { return &list; }

    ferry_piece_list list;
};

// How pieces are in memory: their fields are at these words of each struct. Three arrays have no structs.
struct piece_layout {
    std::uint64_t words, destination, source, size;
    bool is_in_arrays() const { return words == 0; }
};
inline constexpr piece_layout three_arrays = {0, 0, 0, 0};
inline constexpr piece_layout array_of_pieces = {3, 0, 1, 2};
inline constexpr piece_layout own_structs = {5, 3, 1, 4}; // other fields before, between and after
inline constexpr piece_layout wide_structs = {64, 60, 7, 9};
inline constexpr piece_layout piece_layouts[] = {three_arrays, array_of_pieces, own_structs, wide_structs};

// Copies of the pieces in a layout, and their list. The words between the fields are neither addresses nor sizes.
class laid_out_pieces {
public:
    laid_out_pieces(const piece_layout &layout, const std::vector<std::uint64_t> &destinations,
                    const std::vector<std::uint64_t> &sources, const std::vector<std::uint64_t> &sizes) {
        const std::size_t count = destinations.size();
        const piece_layout of = layout.is_in_arrays() ? piece_layout{1, 0, count, 2 * count} : layout;
        words_.assign((layout.is_in_arrays() ? 3 : of.words) * (count + 1), 0xdddddddddddddddd); // not empty
        for (std::size_t i = 0; i < count; ++i) {
            words_[i * of.words + of.destination] = destinations[i];
            words_[i * of.words + of.source] = sources[i];
            words_[i * of.words + of.size] = sizes[i];
        }
        const std::uint64_t *const first = words_.data();
        ferry_piece_list_set_arrays(&list, first + of.destination, first + of.source, first + of.size, count);
        if (!layout.is_in_arrays()) list.stride = 8 * of.words;
    }
    laid_out_pieces(const laid_out_pieces &) = delete;
    laid_out_pieces &operator=(const laid_out_pieces &) = delete;
    operator const ferry_piece_list *() const { return &list; }

    ferry_piece_list list;

private:
    std::vector<std::uint64_t> words_;
};

} // namespace ferry::test
