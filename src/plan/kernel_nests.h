// Lays out nests for the kernels that copy them: the width of the words, the two axes of a tile, and the tile's form.
// Pure.
#pragma once

#include "copy/nest.h"
#include "kernels/names.h"
#include "kernels/parameters.h"

namespace ferry {

// The end over a host link, if any: its runs decide the order in which tiles are copied.
enum class nest_link : std::uint8_t { none, to_host, from_host };

struct nest_launch {
    gpu::kernel kernel;
    std::uint32_t blocks;
    gpu::nest_parameters parameters;
};

// The size of the words that the kernel copies, which divides all addresses and strides: at most 16 bytes.
std::uint64_t word_of(const nest &of) noexcept;

// Lays out a normalized nest that is not empty, with at most `blocks` blocks. `skipped` is the address of a word that
// counts skipped indices, or 0.
nest_launch lay_out_nest(const nest &of, nest_link link, std::uint64_t skipped, std::uint32_t blocks) noexcept;

} // namespace ferry
