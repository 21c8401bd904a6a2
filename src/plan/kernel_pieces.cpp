#include "plan/kernel_pieces.h"

#include <algorithm>
#include <bit>

namespace ferry {

team_cut cut_pieces(std::uint64_t count, std::uint64_t bytes) noexcept {
    constexpr std::uint32_t word_shift = 4, max_unit_shift = 14;
    return cut_for(count, bytes, word_shift + std::countr_zero(gpu::in_flight), max_unit_shift);
}

bool piece_packer::add_in_parts(std::uint64_t destination, std::uint64_t source, std::uint64_t size) noexcept {
    const piece_packer before = *this;
    while (size != 0) {
        const std::uint64_t part = std::min(size, max_record);
        if (!add(destination, source, part)) {
            *this = before;
            return false;
        }
        destination += part;
        source += part;
        size -= part;
    }
    return true;
}

void index_pieces(const gpu::piece *table, std::uint32_t count, gpu::piece_table_parameters &given) noexcept {
    given.index_shift = 0;
    while ((count - 1) >> given.index_shift >= gpu::max_indexed_pieces)
        ++given.index_shift;
    given.indexed = ((count - 1) >> given.index_shift) + 1;
    for (std::uint32_t i = 0; i < given.indexed; ++i)
        given.first_units[i] = table[std::size_t{i} << given.index_shift].first_unit;
}

} // namespace ferry
