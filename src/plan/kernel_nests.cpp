#include "plan/kernel_nests.h"

#include <algorithm>
#include <bit>

#include "base/rounding.h"
#include "base/small_sort.h"
#include "plan/kernel_boxes.h"

namespace ferry {

namespace {

using gpu::kernel;

constexpr kernel word_kernels[] = {kernel::nest_1, kernel::nest_2, kernel::nest_4, kernel::nest_8, kernel::nest_16};

// The groups of the kernels that transpose, by the log2 of the element's size: elements on x and y.
struct transpose_form {
    kernel which;
    std::uint32_t across, along;
};
constexpr transpose_form transpose_forms[] = {{kernel::transpose_1, 8, 16},
                                              {kernel::transpose_2, 8, 8},
                                              {kernel::transpose_4, 4, 4},
                                              {kernel::transpose_8, 2, 2}};
constexpr std::uint64_t widest = 16;

constexpr std::uint32_t ceil_log2(std::uint64_t count) noexcept {
    return static_cast<std::uint32_t>(std::bit_width(count - 1));
}

// A nest whose run has become an axis of words.
struct word_axes {
    std::uint64_t word;
    int count;
    nest_axis axis[gpu::max_nest_axes];
};

word_axes words_of(const nest &of) noexcept {
    word_axes words = {word_of(of), 0, {}};
    const auto stride = static_cast<std::int64_t>(words.word);
    if (of.run != words.word) words.axis[words.count++] = {of.run / words.word, stride, stride};
    for (int i = 0; i < of.axes; ++i)
        words.axis[words.count++] = of.axis[i];
    while (words.count < 2)
        words.axis[words.count++] = {1, 0, 0};
    return words;
}

void move_to(word_axes &words, int from, int to) noexcept {
    std::rotate(words.axis + to, words.axis + from, words.axis + from + 1);
}

std::uint64_t stride_at(const nest_axis &axis, bool at_source) noexcept {
    const std::uint64_t stride = magnitude(at_source ? axis.source_stride : axis.destination_stride);
    return stride ? stride : UINT64_MAX;
}

// Returns the axis of the smallest stride at an end, from `first` on.
int shortest(const word_axes &words, int first, bool at_source) noexcept {
    int best = first;
    for (int i = first + 1; i < words.count; ++i)
        if (stride_at(words.axis[i], at_source) < stride_at(words.axis[best], at_source)) best = i;
    return best;
}

// Returns log2 of the tile's extent on an axis: at most `max`, and smaller if that leaves many fewer places outside the
// axis.
std::uint32_t extent_for(std::uint64_t count, std::uint32_t max) noexcept {
    constexpr std::uint32_t tried = 4;
    const auto places = [&](std::uint32_t shift) noexcept {
        return divide_up(count, std::uint64_t{1} << shift) << shift;
    };
    const std::uint32_t largest = std::min(ceil_log2(count), max);
    std::uint32_t best = largest;
    for (std::uint32_t less = 1; less <= std::min(largest, tried); ++less)
        if (places(largest - less) + places(largest - less) / 8 < places(best)) best = largest - less;
    return best;
}

bool is_transposable(const nest &of, const word_axes &words) noexcept {
    const nest_axis &x = words.axis[0], &y = words.axis[1];
    const auto size = static_cast<std::int64_t>(words.word);
    if (words.word == widest || x.has_indices() || y.has_indices() || x.destination_stride != size ||
        y.source_stride != size)
        return false;
    // Stores of `across` elements, loads of `along` elements.
    const transpose_form &form = transpose_forms[std::countr_zero(words.word)];
    std::uint64_t destinations = of.destination, sources = of.source;
    for (int i = 0; i < words.count; ++i) {
        if (i != 0) destinations |= static_cast<std::uint64_t>(words.axis[i].destination_stride);
        if (i != 1) sources |= static_cast<std::uint64_t>(words.axis[i].source_stride);
    }
    return destinations % (form.across * words.word) == 0 && sources % (form.along * words.word) == 0;
}

} // namespace

std::uint64_t word_of(const nest &of) noexcept {
    std::uint64_t all = of.destination | of.source | of.run | widest;
    for (int i = 0; i < of.axes; ++i)
        all |= static_cast<std::uint64_t>(of.axis[i].destination_stride) |
               static_cast<std::uint64_t>(of.axis[i].source_stride);
    return std::uint64_t{1} << std::countr_zero(all);
}

nest_launch lay_out_nest(const nest &of, nest_link link, std::uint64_t skipped, std::uint32_t blocks) noexcept {
    word_axes words = words_of(of);
    const bool has_run = of.run != words.word;
    const bool by_source = link == nest_link::from_host;
    bool crosses = false;
    if (has_run) {
        move_to(words, shortest(words, 1, by_source), 1);
    } else {
        move_to(words, shortest(words, 0, false), 0);
        const int runs_of_source = shortest(words, 0, true);
        crosses = runs_of_source != 0;
        move_to(words, crosses ? runs_of_source : shortest(words, 1, by_source), 1);
    }
    sort_few(words.axis + 2, words.axis + words.count,
             [&](const nest_axis &a, const nest_axis &b) { return stride_at(a, by_source) < stride_at(b, by_source); });

    const bool transposes = crosses && is_transposable(of, words);
    const transpose_form form = transposes ? transpose_forms[std::countr_zero(words.word)] : transpose_form{};
    const std::uint32_t per_thread_shift = transposes ? 0 : 2; // log2 of the groups, or of in_flight
    const std::uint64_t x_units =
        transposes ? divide_up(words.axis[0].count, std::uint64_t{form.across}) : words.axis[0].count;
    const std::uint64_t y_units =
        transposes ? divide_up(words.axis[1].count, std::uint64_t{form.along}) : words.axis[1].count;

    // A team is a block at most, and a warp at least if there is enough.
    std::uint32_t x_shift = 0, y_shift = 0, x_low = 0, y_low = 0;
    const std::uint32_t tile_shift = per_thread_shift + 9;
    if (crosses) {
        const bool reads_host = link == nest_link::from_host, writes_host = link == nest_link::to_host;
        y_shift = extent_for(y_units, reads_host ? 5 : 4);
        x_shift = extent_for(x_units, std::min<std::uint32_t>(tile_shift - y_shift, writes_host ? 6 : 5));
        x_low = std::min(x_shift, reads_host ? 1u : writes_host ? 5u : 3u);
        y_low = std::min(y_shift, 5 - x_low);
        x_low = std::min(x_shift, 5 - y_low);
    } else {
        x_shift = extent_for(x_units, 9);
        y_shift = extent_for(y_units, 9 - x_shift);
        x_low = std::min(x_shift, 5u);
        y_low = std::min(y_shift, 5 - x_low);
    }
    if (x_shift + y_shift < per_thread_shift) x_shift = per_thread_shift - y_shift;

    nest_launch launch = {};
    gpu::nest_parameters &given = launch.parameters;
    launch.kernel = transposes ? form.which : word_kernels[std::countr_zero(words.word)];
    given.destination = of.destination;
    given.source = of.source;
    given.skipped = skipped;
    given.axes = static_cast<std::uint32_t>(words.count);
    given.x_shift = static_cast<std::uint8_t>(x_shift);
    given.y_shift = static_cast<std::uint8_t>(y_shift);
    given.x_low = static_cast<std::uint8_t>(x_low);
    given.y_low = static_cast<std::uint8_t>(y_low);
    given.team_shift = static_cast<std::uint8_t>(x_shift + y_shift - per_thread_shift);
    given.tiles = 1;
    for (int i = 0; i < words.count; ++i) {
        const nest_axis &axis = words.axis[i];
        const std::uint64_t tiles = i == 0   ? divide_up(x_units, std::uint64_t{1} << x_shift)
                                    : i == 1 ? divide_up(y_units, std::uint64_t{1} << y_shift)
                                             : axis.count;
        given.axis[i] = {.count = axis.count,
                         .destination_stride = static_cast<std::uint64_t>(axis.destination_stride),
                         .source_stride = static_cast<std::uint64_t>(axis.source_stride),
                         .by_tiles = divisor_of(tiles),
                         .tiles = tiles,
                         .destination_indices = axis.destination_indices.address,
                         .source_indices = axis.source_indices.address,
                         .destination_limit = axis.destination_indices.limit,
                         .source_limit = axis.source_indices.limit,
                         .destination_is_wide = axis.destination_indices.is_wide,
                         .source_is_wide = axis.source_indices.is_wide};
        given.tiles *= tiles;
    }
    launch.blocks = blocks_with_work(blocks, given.tiles << given.team_shift);
    return launch;
}

} // namespace ferry
