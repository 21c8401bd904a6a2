#include "fuzz/effect.h"

#include <algorithm>
#include <numeric>

namespace ferry::test {

namespace {

std::string words_of_view(const view &one) {
    const ferry_place place = one.describe();
    return one.in->name() + " at " + std::to_string(one.offset) + " (kind " + std::to_string(place.kind) + ", pitch " +
           std::to_string(place.row_pitch) + ", slice height " + std::to_string(place.slice_height) + ", origin " +
           std::to_string(place.x) + "," + std::to_string(place.y) + "," + std::to_string(place.z) + ")";
}

std::string words_of_extent(const extent &size) {
    return std::to_string(size.width) + " x " + std::to_string(size.height) + " x " + std::to_string(size.depth);
}

extent largest_of(buffer &one) {
    const ferry_array *const array = one.array();
    return array ? extent{array->row_bytes, array->rows, array->slices} : extent{one.size(), one.size(), one.size()};
}

constexpr how copy_options[] = {{},
                                {},
                                {},
                                {},
                                ordinary,
                                in_stream_order,
                                urgent,
                                no_kernels,
                                by_staging | no_kernels,
                                by_driver,
                                by_kernel,
                                by_staging,
                                by_staging | max_sms(1),
                                urgent | max_sms(3)};
constexpr how fill_options[] = {{}, {}, ordinary, urgent, by_driver, by_kernel, by_staging, no_kernels};

} // namespace

ferry_place view::describe() const {
    ferry_place place = {};
    const std::int32_t device = states_device ? in->device : FERRY_DEVICE_UNKNOWN;
    if (in->is_array()) {
        ferry_place_array(&place, device, in->array()->array());
    } else if (in->file()) {
        ferry_place_file_pitched(&place, in->file(), offset, states_pitches ? row_pitch : 0,
                                 states_pitches ? slice_height : 0);
    } else {
        place.kind = states_kind ? in->traits().place : FERRY_KIND_ANY;
        place.device = device;
        place.address = in->address + offset;
        place.row_pitch = states_pitches ? row_pitch : 0;
        place.slice_height = states_pitches ? slice_height : 0;
    }
    place.x = at.x;
    place.y = at.y;
    place.z = at.z;
    return place;
}

view line_in(buffer &in, std::uint64_t offset, std::uint64_t length) {
    view line;
    line.in = &in;
    line.offset = offset;
    line.row_pitch = length;
    line.slice_height = 1;
    line.states_pitches = line.states_kind = false;
    return line;
}

// ---- Copies

ferry_copy_desc drawn_copy::describe() const {
    return describe_copy(source.describe(), destination.describe(), size.width, size.height, size.depth);
}

void drawn_copy::apply() const {
    for (std::uint64_t z = 0; z < size.depth; ++z)
        for (std::uint64_t y = 0; y < size.height && size.width; ++y)
            std::memcpy(destination.model_row(y, z), source.model_row(y, z), size.width);
}

std::string drawn_copy::words() const {
    return "copy of " + words_of_extent(size) + " from " + words_of_view(source) + " to " + words_of_view(destination) +
           words_of(options);
}

// ---- Fills

ferry_fill_desc drawn_fill::describe() const {
    const ferry_place place = destination.describe();
    ferry_fill_desc fill;
    ferry_fill_desc_init(&fill, &place, size.width, size.height, size.depth, pattern, pattern_size);
    return fill;
}

void drawn_fill::fill_row(std::byte *row) const {
    std::uint64_t filled = std::min<std::uint64_t>(pattern_size, size.width);
    std::memcpy(row, pattern, filled);
    for (std::uint64_t more = 0; filled < size.width; filled += more) {
        more = std::min(filled, size.width - filled);
        std::memcpy(row + filled, row, more);
    }
}

void drawn_fill::apply() const {
    for (std::uint64_t z = 0; z < size.depth; ++z)
        for (std::uint64_t y = 0; y < size.height && size.width; ++y)
            fill_row(destination.model_row(y, z));
}

std::string drawn_fill::words() const {
    return "fill of " + words_of_extent(size) + " with " + std::to_string(pattern_size) + " B in " +
           words_of_view(destination) + words_of(options);
}

// ---- Writes

void drawn_write::apply() const { std::memcpy(&to->model[offset], data.data(), data.size()); }

std::string drawn_write::words() const {
    return "write of " + std::to_string(data.size()) + " B by a host function to " + to->name() + " at " +
           std::to_string(offset);
}

// ---- Any of them

const buffer *source_of(const effect &one) {
    const auto *const copy = std::get_if<drawn_copy>(&one);
    return copy ? copy->source.in : nullptr;
}

buffer *destination_of(const effect &one) {
    if (const auto *const copy = std::get_if<drawn_copy>(&one)) return copy->destination.in;
    if (const auto *const fill = std::get_if<drawn_fill>(&one)) return fill->destination.in;
    return std::get<drawn_write>(one).to;
}

void apply(const effect &one) {
    std::visit([](const auto &each) { each.apply(); }, one);
}

std::uint64_t bytes_of(const std::vector<effect> &all) {
    const auto add = [](std::uint64_t sum, const effect &one) {
        if (const auto *const copy = std::get_if<drawn_copy>(&one)) return sum + copy->size.total();
        if (const auto *const fill = std::get_if<drawn_fill>(&one)) return sum + fill->size.total();
        return sum + std::get<drawn_write>(one).data.size();
    };
    return std::accumulate(all.begin(), all.end(), std::uint64_t{0}, add);
}

namespace {

bool box_holds(const view &one, const extent &size, std::uint64_t offset) {
    for (std::uint64_t z = 0; z < size.depth; ++z)
        for (std::uint64_t y = 0; y < size.height; ++y)
            if (const std::uint64_t row = one.offset_of(y, z); row <= offset && offset - row < size.width) return true;
    return false;
}

} // namespace

bool writes_byte(const effect &one, std::uint64_t offset) {
    if (const auto *const copy = std::get_if<drawn_copy>(&one)) return box_holds(copy->destination, copy->size, offset);
    if (const auto *const fill = std::get_if<drawn_fill>(&one)) return box_holds(fill->destination, fill->size, offset);
    const auto &write = std::get<drawn_write>(one);
    return write.offset <= offset && offset - write.offset < write.data.size();
}

std::string words_of(const effect &one) {
    return std::visit([](const auto &each) { return each.words(); }, one);
}

std::string words_of(const how &options) { return options == how() ? "" : ", " + testing::PrintToString(options); }

// ---- Drawing

how with_any_tag(dice &random, const how &options) {
    return random.one_in(4) ? ordinary | options | tag(1 + random.up_to(1000)) : options;
}

bool draw_view(dice &random, buffer &in, const extent &size, std::uint64_t unit, std::uint64_t first, std::uint64_t end,
               view &drawn) {
    drawn = line_in(in, 0, size.width);
    drawn.states_kind = random.one_in(2);
    drawn.states_device = !random.one_in(4);
    if (const ferry_array *const array = in.array()) {
        drawn.row_pitch = array->row_bytes;
        drawn.slice_height = array->rows;
        drawn.at = {random.up_to((array->row_bytes - size.width) / unit) * unit,
                    random.up_to(array->rows - size.height), random.up_to(array->slices - size.depth)};
        return true;
    }
    const auto needed = [&] { return drawn.offset_of(size.height - 1, size.depth - 1) - drawn.offset + size.width; };
    const bool is_line = size.height == 1 && size.depth == 1;
    drawn.row_pitch = size.width;
    drawn.slice_height = size.height;
    if (first + needed() > end) return false;
    const std::uint64_t room = (end - first - needed()) / unit * unit;
    if (!random.one_in(3)) {
        const view tight = drawn;
        const std::uint64_t gap = random.up_to((random.one_in(4) ? 6000 : 40) / unit) * unit;
        drawn.row_pitch += gap;
        drawn.slice_height += random.up_to(3);
        drawn.at = {random.up_to(gap / unit) * unit, random.up_to(drawn.slice_height - size.height), random.up_to(2)};
        if (first + needed() > end) drawn = tight;
    }
    const bool is_tight = drawn.row_pitch == size.width && drawn.slice_height == size.height && drawn.at.z == 0;
    drawn.states_pitches = !is_tight || random.one_in(2);
    const std::uint64_t slack = is_tight ? room : (end - first - needed()) / unit * unit;
    drawn.offset = first + (random.one_in(3) ? 0 : random.up_to(slack / unit) * unit);
    if (random.one_in(3)) drawn.offset = std::max(first, drawn.offset / 256 * 256);
    // The stated address may be far before the first byte.
    if (is_line && is_tight && random.one_in(3)) {
        const std::uint64_t moved = random.up_to((drawn.offset - first) / unit) * unit;
        drawn.offset -= moved;
        drawn.at.x = moved;
        drawn.states_pitches = false;
    }
    return true;
}

bool draw_copy(dice &random, buffer &from, buffer &to, drawn_copy &drawn) {
    if (from.is_array() && to.is_array() && (&from == &to || from.element_size != to.element_size)) return false;
    const std::uint64_t unit = std::max(from.element_size, to.element_size);
    const extent one = largest_of(from), other = largest_of(to);
    extent most = {std::min(one.width, other.width), std::min(one.height, other.height),
                   std::min(one.depth, other.depth)};
    const std::uint64_t bytes_at_most = std::min(from.size(), to.size()) / (&from == &to ? 2 : 1);
    if (!from.is_array() && !to.is_array()) {
        constexpr extent forms[] = {{1 << 22, 1, 1}, {1 << 22, 1, 1}, {3000, 100, 1}, {40, 900, 1}, {300, 40, 12}};
        const extent form = random.of(forms);
        most = {std::min(most.width, form.width), form.height, form.depth};
    }
    extent size = {random.size(std::max<std::uint64_t>(most.width / unit, 1)) * unit, random.size(most.height),
                   random.size(most.depth)};
    while (size.total() > bytes_at_most) {
        std::uint64_t &side = size.depth > 1 ? size.depth : size.height > 1 ? size.height : size.width;
        side /= 2;
    }
    size.width = size.width / unit * unit;
    if (random.one_in(60)) size.width = 0;
    drawn.size = size;
    drawn.options = with_any_tag(random, random.of(copy_options));
    const std::uint64_t middle = &from == &to ? from.size() / 2 : 0;
    return draw_view(random, from, size, unit, 0, middle ? middle : from.size(), drawn.source) &&
           draw_view(random, to, size, unit, middle, to.size(), drawn.destination);
}

drawn_fill draw_fill(dice &random, buffer &to) {
    constexpr std::uint32_t pattern_sizes[] = {1, 1, 2, 4, 4, 8, 16};
    constexpr extent forms[] = {{1 << 22, 1, 1}, {1 << 22, 1, 1}, {2000, 60, 1}, {40, 500, 1}, {300, 20, 8}};
    drawn_fill drawn;
    drawn.pattern_size = random.of(pattern_sizes);
    for (std::uint8_t &one : drawn.pattern)
        one = static_cast<std::uint8_t>(random.any());
    drawn.options = with_any_tag(random, random.of(fill_options));
    const extent form = random.of(forms);
    const std::uint64_t unit = drawn.pattern_size;
    extent size = {random.size(std::min(form.width, to.size()) / unit) * unit, random.size(form.height),
                   random.size(form.depth)};
    while (size.total() > to.size())
        (size.depth > 1 ? size.depth : size.height) /= 2;
    drawn.size = size;
    draw_view(random, to, size, unit, 0, to.size(), drawn.destination);
    return drawn;
}

drawn_write draw_write(dice &random, buffer &to) {
    const std::uint64_t length = random.size(std::min<std::uint64_t>(to.size(), 100'000));
    return {&to, random.up_to(to.size() - length), random_bytes(length, random.any())};
}

std::vector<drawn_copy> draw_pieces(dice &random, const std::vector<buffer *> &sources, buffer &to,
                                    std::uint64_t most) {
    std::vector<drawn_copy> drawn;
    const std::uint64_t count = 1 + random.up_to(most - 1), stride = to.size() / count;
    for (std::uint64_t i = 0; i < count && stride; ++i) {
        buffer &from = *sources[random.up_to(sources.size() - 1)];
        const std::uint64_t length = random.size(std::min(stride, from.size()));
        const view source = line_in(from, random.up_to(from.size() - length), length),
                   destination = line_in(to, i * stride + random.up_to(stride - length), length);
        drawn.push_back({source, destination, {length, 1, 1}});
    }
    return drawn;
}

} // namespace ferry::test
