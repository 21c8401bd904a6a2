// Copies within one buffer. Copies whose ends share bytes must be rejected if the contract says so, and all other
// copies must be performed.
#include <algorithm>

#include "fuzz/operations.h"
#include "support/piece_lists.h"

namespace ferry::test {

namespace {

// A box of an array, or the rows of a box of memory, whose places are sorted.
struct rows_of {
    explicit rows_of(const drawn_copy &drawn, const view &end) : end(end), size(drawn.size) {
        for (std::uint64_t z = 0; z < size.depth; ++z)
            for (std::uint64_t y = 0; y < size.height; ++y)
                starts.push_back(end.offset_of(y, z));
        std::sort(starts.begin(), starts.end());
    }
    bool share_bytes_with(const rows_of &other) const {
        for (std::size_t mine = 0, theirs = 0; mine < starts.size() && theirs < other.starts.size();) {
            const std::uint64_t a = starts[mine], b = other.starts[theirs];
            if ((a > b ? a - b : b - a) < size.width) return true;
            ++(a < b ? mine : theirs);
        }
        return false;
    }

    const view &end;
    const extent &size;
    std::vector<std::uint64_t> starts;
};

bool is_layered(world &w, const buffer &one) {
    ferry_array_desc desc = {};
    desc.struct_size = sizeof desc;
    CUarray_st *const array = const_cast<buffer &>(one).array()->array();
    w.require(w.call(w.any_context(),
                     [&] { return ferry_array_get_info(w.run.ferry.get(), array, &desc, nullptr, nullptr); }));
    return desc.flags & (FERRY_ARRAY_LAYERED | FERRY_ARRAY_CUBEMAP);
}

// Whether the overlap is detected according to the contract: exactly for equal strides and in arrays, otherwise only if
// the first bytes coincide.
bool is_found(const drawn_copy &drawn) {
    const view &from = drawn.source, &to = drawn.destination;
    const bool has_equal_rows = from.row_pitch == to.row_pitch || drawn.size.height == 1;
    const bool has_equal_slices =
        from.row_pitch * from.slice_height == to.row_pitch * to.slice_height || drawn.size.depth == 1;
    return from.in->is_array() || (has_equal_rows && has_equal_slices) || from.offset_of(0, 0) == to.offset_of(0, 0);
}

// Draws two boxes of one size anywhere in the buffer. Half of them have equal strides, so that columns may interleave.
bool draw_within(world &w, buffer &in, drawn_copy &drawn) {
    drawn_copy sized;
    if (in.is_array()) {
        const ferry_array &array = *in.array();
        sized.size = {w.random.size(array.row_bytes / in.element_size) * in.element_size, w.random.size(array.rows),
                      w.random.size(array.slices)};
    } else {
        constexpr extent forms[] = {{100'000, 1, 1}, {300, 40, 1}, {40, 30, 6}};
        const extent form = w.random.of(forms);
        sized.size = {w.random.size(std::min(form.width, in.size())), w.random.size(form.height),
                      w.random.size(form.depth)};
        while (sized.size.total() > in.size() / 2 && sized.size.total() > 1) {
            extent &size = sized.size;
            std::uint64_t &side = size.depth > 1 ? size.depth : size.height > 1 ? size.height : size.width;
            side /= 2;
        }
    }
    const std::uint64_t unit = in.element_size;
    if (!draw_view(w.random, in, sized.size, unit, 0, in.size(), sized.source) ||
        !draw_view(w.random, in, sized.size, unit, 0, in.size(), sized.destination))
        return false;
    if (!in.is_array() && w.random.one_in(2)) {
        view moved = sized.source;
        const std::uint64_t end = moved.offset_of(sized.size.height - 1, sized.size.depth - 1) + sized.size.width;
        const std::uint64_t back = std::min<std::uint64_t>(moved.offset, 2 * moved.row_pitch + 50);
        moved.offset = moved.offset - back + w.random.up_to(back + std::min<std::uint64_t>(in.size() - end, 200));
        sized.destination = moved;
    }
    drawn = sized;
    return true;
}

void expect_overlap(world &w, std::int32_t status, const ferry_error_info &error, std::int32_t numbers) {
    const bool is_expected = numbers == FERRY_NUMBERS_COPY || error.side == FERRY_SIDE_DESTINATION;
    if (status != FERRY_ERROR_OVERLAP || error.status != status || !is_expected || error.field != FERRY_FIELD_ADDRESS ||
        error.numbers != numbers)
        w.fail("an overlap was not refused as expected: " + describe_status(status, error));
}

} // namespace

void copy_within_a_buffer(world &w) {
    buffer &in = any_buffer(w);
    drawn_copy drawn;
    if ((in.is_array() && is_layered(w, in)) || !draw_within(w, in, drawn)) return;
    const bool shares = rows_of(drawn, drawn.source).share_bytes_with(rows_of(drawn, drawn.destination));
    if (shares && !is_found(drawn)) return; // the bytes would be undefined
    const std::uint64_t form = w.random.up_to(4);
    const std::size_t lane = w.any_lane();
    const struct lane &on = w.lanes[lane];
    w.say(std::string(shares ? "overlap" : "copy within a buffer") + " in form " + std::to_string(form) + " on '" +
          on.name + "' of device " + std::to_string(on.device) + ": " + drawn.words());
    const std::vector<effect> effects = {drawn};
    w.wait_for(effects);
    ferry_instance *const ferry = w.instance_for(effects);
    const ferry_copy_desc copy = drawn.describe();
    ferry_error_info error = new_error();
    ferry_explanation explained = new_explanation();
    const CUcontext current = w.context_for(on);
    const std::int32_t said = w.call(
        current, [&] { return ferry_copy_explain_async(ferry, &copy, nullptr, on.stream, &explained, nullptr); });
    ferry_prepared *prepared = nullptr;
    const std::int32_t status = w.call(current, [&] {
        return form == 0   ? ferry_copy(ferry, &copy, nullptr, &error)
               : form == 1 ? ferry_copy_async(ferry, &copy, nullptr, on.stream, nullptr, &error)
               : form == 2 ? ferry_copy_batch(ferry, &copy, 1, nullptr, &error)
               : form == 3 ? ferry_copy_batch_async(ferry, &copy, 1, check_overlap, on.stream, nullptr, &error)
                           : ferry_prepared_create(ferry, &copy, 1, nullptr, on.stream, &prepared, &error);
    });
    if (shares) {
        expect_overlap(w, status, error, FERRY_NUMBERS_NONE);
        w.expect(said == FERRY_ERROR_OVERLAP && !prepared, "an overlap was explained or prepared");
        w.compare(in, "after a copy onto itself was refused");
        return;
    }
    if (!w.require(status) || !w.require(said)) return;
    if (form == 4) {
        w.require(
            w.call(current, [&] { return ferry_prepared_launch(prepared, nullptr, on.stream, nullptr, &error); }));
        w.enqueued(lane, effects);
        w.synchronize(lane);
        w.require(w.call(w.any_context(), [&] { return ferry_prepared_destroy(prepared, nullptr); }));
    } else if (form == 0 || form == 2) {
        w.done(effects);
    } else {
        w.enqueued(lane, effects);
    }
    w.compare_if_settled(in, "after a copy within a buffer");
}

// ---- Batches

namespace {

enum class exchange { flip, rotation, halves, shift };

// The destination of piece `number` of `count`.
std::uint64_t target_of(exchange kind, std::uint64_t number, std::uint64_t count) {
    switch (kind) {
    case exchange::flip:
        return count - 1 - number;
    case exchange::rotation:
        return (number + 1) % count;
    case exchange::halves:
        return number + count / 2;
    default:
        return number;
    }
}

bool share_bytes(const view &one, const view &other, std::uint64_t length) {
    const std::uint64_t a = one.offset, b = other.offset;
    return (a > b ? a - b : b - a) < length;
}

} // namespace

// Pieces of one buffer that are exchanged. In a flip or a rotation, pieces share bytes. From one half to the other,
// they do not.
void pieces_within_a_buffer(world &w) {
    buffer &in = any_buffer(w);
    if (in.is_array()) return;
    constexpr exchange exchanges[] = {exchange::flip, exchange::rotation, exchange::halves, exchange::shift};
    const exchange kind = w.random.of(exchanges);
    const std::uint64_t count = 1 + w.random.size(60), stride = in.size() / (2 * count);
    if (stride == 0) return;
    const std::uint64_t length = w.random.size(stride);
    const std::uint64_t shift = kind == exchange::shift ? w.random.up_to(2 * stride) : 0;
    const std::uint64_t made = kind == exchange::halves ? (count + 1) / 2 : count;
    std::vector<drawn_copy> all;
    for (std::uint64_t i = 0; i < made; ++i) {
        const view from = line_in(in, i * stride, length),
                   to = line_in(in, target_of(kind, i, count + count % 2 * (kind == exchange::halves)) * stride + shift,
                                length);
        all.push_back({from, to, {length, 1, 1}});
    }
    const auto own = std::find_if(all.begin(), all.end(), [&](const drawn_copy &one) {
        return share_bytes(one.source, one.destination, length);
    });
    bool share = false;
    for (std::size_t i = 0; i < all.size() && !share; ++i)
        for (std::size_t other = 0; other < all.size() && !share; ++other)
            share = i != other && (share_bytes(all[i].destination, all[other].source, length) ||
                                   share_bytes(all[i].destination, all[other].destination, length));
    const bool checks = share || w.random.one_in(2);
    const std::uint64_t form = w.random.up_to(2);
    const std::size_t lane = w.any_lane();
    const struct lane &on = w.lanes[lane];
    std::string words = std::string(share || own != all.end() ? "overlapping" : "separate") + " pieces in form " +
                        std::to_string(form) + " on '" + on.name + "' of device " + std::to_string(on.device);
    for (const drawn_copy &one : all)
        words += "\n    " + one.words();
    w.say(words);
    const std::vector<effect> effects(all.begin(), all.end());
    w.wait_for(effects);
    std::vector<std::uint64_t> to, from, sizes;
    for (const drawn_copy &one : all) {
        to.push_back(in.address + one.destination.offset);
        from.push_back(in.address + one.source.offset);
        sizes.push_back(length);
    }
    const laid_out_pieces pieces(w.random.of(piece_layouts), to, from, sizes);
    ferry_instance *const ferry = w.instance_for(effects);
    const how options = checks ? check_overlap : how();
    ferry_error_info error = new_error();
    ferry_prepared *prepared = nullptr;
    const std::int32_t status = w.call(w.context_for(on), [&] {
        return form == 0   ? ferry_copy_pieces(ferry, pieces, options, &error)
               : form == 1 ? ferry_copy_pieces_async(ferry, pieces, options, on.stream, nullptr, &error)
                           : ferry_prepared_create_pieces(ferry, pieces, options, on.stream, &prepared, &error);
    });
    if (own != all.end() || share) {
        expect_overlap(w, status, error, own != all.end() ? FERRY_NUMBERS_NONE : FERRY_NUMBERS_COPY);
        w.expect(!prepared, "pieces that share bytes were prepared");
        if (own != all.end()) {
            w.expect(error.index == static_cast<std::uint64_t>(own - all.begin()), "the error names another piece");
        } else if (error.index < all.size() && error.limit < error.index) {
            const drawn_copy &later = all[error.index], &earlier = all[error.limit];
            w.expect(share_bytes(later.destination, earlier.source, length) ||
                         share_bytes(later.source, earlier.destination, length) ||
                         share_bytes(later.destination, earlier.destination, length),
                     "the error names two pieces that share no byte");
        } else {
            w.fail("the error names no two pieces: " + describe_status(status, error));
        }
        w.compare(in, "after pieces that share bytes were refused");
        return;
    }
    if (!w.require(status)) return;
    if (form == 0) {
        w.done(effects);
    } else {
        if (form == 2)
            w.require(w.call(w.context_for(on),
                             [&] { return ferry_prepared_launch(prepared, nullptr, on.stream, nullptr, &error); }));
        w.enqueued(lane, effects);
    }
    if (prepared) {
        w.synchronize(lane);
        w.require(w.call(w.any_context(), [&] { return ferry_prepared_destroy(prepared, nullptr); }));
    }
    w.compare_if_settled(in, "after an exchange of pieces");
}

} // namespace ferry::test
