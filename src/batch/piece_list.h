// The pieces of a batch, read where the program has them: in three arrays, or in fields of structs.
#pragma once

#include <cstdint>

#include "ferry/ferry.h"

namespace ferry {

class piece_list {
public:
    piece_list() noexcept = default;
    // The pointers are to the fields of the first piece. `stride` is a multiple of 8, in bytes.
    piece_list(const std::uint64_t *destinations, const std::uint64_t *sources, const std::uint64_t *sizes,
               std::uint64_t stride) noexcept
        : destinations_(destinations), sources_(sources), sizes_(sizes), step_(stride / sizeof(std::uint64_t)) {}
    explicit piece_list(const ferry_piece *pieces) noexcept {
        if (pieces) *this = piece_list(reinterpret_cast<const std::uint64_t *>(pieces));
    }

    bool has_destinations() const noexcept { return destinations_ != nullptr; }
    bool has_sources() const noexcept { return sources_ != nullptr; }

    std::uint64_t destination(std::uint64_t i) const noexcept { return destinations_[i * step_]; }
    std::uint64_t source(std::uint64_t i) const noexcept { return sources_[i * step_]; }
    std::uint64_t size(std::uint64_t i) const noexcept { return sizes_[i * step_]; }
    ferry_piece operator[](std::uint64_t i) const noexcept { return {destination(i), source(i), size(i)}; }

private:
    static_assert(sizeof(ferry_piece) == 3 * sizeof(std::uint64_t)); // in the order of the fields
    explicit piece_list(const std::uint64_t *words) noexcept
        : piece_list(words, words + 1, words + 2, sizeof(ferry_piece)) {}

    const std::uint64_t *destinations_ = nullptr, *sources_ = nullptr, *sizes_ = nullptr;
    std::uint64_t step_ = 0; // in elements
};

} // namespace ferry
