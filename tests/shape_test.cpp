// The pure part: layouts, overlap and collapsing against brute force, plans against the rules they follow.
#include <random>
#include <set>

#include <gtest/gtest.h>

#include "copy/shape.h"
#include "plan/plan.h"

namespace ferry::test {
namespace {

constexpr copy_limits limits = {.device_count = 2, .max_pitch = 4096};
constexpr resolved_place device_0 = {memory_kind::device, 0, 0, 0, {}};
constexpr resolved_ends on_device = {device_0, device_0};

ferry_place linear(std::uint64_t address, std::uint64_t row_pitch, std::uint64_t slice_height, std::uint64_t x,
                   std::uint64_t y, std::uint64_t z) {
    ferry_place place;
    ferry_place_device_pitched(&place, 0, address, row_pitch, slice_height);
    place.x = x;
    place.y = y;
    place.z = z;
    return place;
}

// Byte addresses in the order they are copied.
std::vector<std::uint64_t> addresses_of(const ferry_place &place, const shape &copy) {
    const std::uint64_t pitch = place.row_pitch ? place.row_pitch : copy.width;
    const std::uint64_t slice = place.slice_height ? place.slice_height : copy.height;
    std::vector<std::uint64_t> bytes;
    for (std::uint64_t z = 0; z < copy.depth; ++z)
        for (std::uint64_t y = 0; y < copy.height; ++y)
            for (std::uint64_t x = 0; x < copy.width; ++x)
                bytes.push_back(place.address + ((place.z + z) * slice + place.y + y) * pitch + place.x + x);
    return bytes;
}

std::vector<std::uint64_t> addresses_of(const shape_end &end, const shape &shape) {
    std::vector<std::uint64_t> bytes;
    for (std::uint64_t z = 0; z < shape.depth; ++z)
        for (std::uint64_t y = 0; y < shape.height; ++y)
            for (std::uint64_t x = 0; x < shape.width; ++x)
                bytes.push_back(end.span.first + (z * end.slice_height + y) * end.row_pitch + x);
    return bytes;
}

TEST(shape, keeps_the_bytes_and_their_order_and_overlap_is_exact_for_equal_strides) {
    std::random_device device;
    const std::uint64_t seed = device();
    std::mt19937_64 random(seed);
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const auto draw = [&](std::uint64_t low, std::uint64_t high) {
        return std::uniform_int_distribution<std::uint64_t>(low, high)(random);
    };
    int overlapping = 0, collapsed = 0;
    for (int round = 0; round < 40000; ++round) {
        const std::uint64_t width = draw(1, 6), height = draw(1, 4), depth = draw(1, 3);
        const auto place = [&](std::uint64_t pitch, std::uint64_t slice) {
            const std::uint64_t x = draw(0, 2) ? 0 : draw(0, 3), y = draw(0, 2) ? 0 : draw(0, 2), z = draw(0, 1);
            return linear(1000 + draw(0, 150), pitch, slice, x, y, z);
        };
        const bool tight = draw(0, 3) == 0;
        const std::uint64_t pitch = tight ? width : draw(width, width + 5),
                            slice = tight ? height : draw(height, height + 3);
        const bool same_strides = draw(0, 1);
        ferry_copy_desc copy = {};
        copy.source = place(pitch, slice);
        copy.destination = same_strides ? place(pitch, slice) : place(draw(width, width + 5), draw(height, height + 3));
        copy.width = width;
        copy.height = height;
        copy.depth = depth;
        shape shape;
        if (lay_out(copy, limits, shape)) continue;
        const auto source = addresses_of(copy.source, shape), destination = addresses_of(copy.destination, shape);
        ASSERT_EQ(shape.source.span.first, source.front());
        ASSERT_EQ(shape.source.span.last, source.back());
        const std::set<std::uint64_t> read(source.begin(), source.end());
        bool shares = false;
        for (const std::uint64_t address : destination)
            shares |= read.count(address) > 0;
        const bool told = ends_overlap(shape);
        if (same_strides)
            ASSERT_EQ(told, shares);
        else
            ASSERT_TRUE(!told || shares) << "never a false alarm";
        overlapping += shares;
        const std::uint64_t depth_before = shape.depth, height_before = shape.height;
        const failure failed = settle(on_device, limits, shape);
        if (told) {
            ASSERT_EQ(failed.status, FERRY_ERROR_OVERLAP);
            continue;
        }
        ASSERT_FALSE(failed);
        ASSERT_EQ(addresses_of(shape.source, shape), source);
        ASSERT_EQ(addresses_of(shape.destination, shape), destination);
        collapsed += shape.depth < depth_before || shape.height < height_before;
    }
    EXPECT_GT(overlapping, 1000);
    EXPECT_GT(collapsed, 1000);
}

shape shape_of(const ferry_copy_desc &copy) {
    shape shape;
    EXPECT_FALSE(lay_out(copy, limits, shape));
    EXPECT_FALSE(settle(on_device, limits, shape));
    return shape;
}

TEST(shape, tight_volumes_become_lines_and_tight_slices_rectangles) {
    ferry_copy_desc copy = {};
    copy.source = linear(1 << 20, 0, 0, 0, 0, 0);
    copy.destination = linear(1 << 24, 64, 8, 0, 0, 0);
    copy.width = 64;
    copy.height = 8;
    copy.depth = 5;
    shape line = shape_of(copy);
    EXPECT_EQ(line.width, 64u * 8 * 5);
    EXPECT_EQ(line.height * line.depth, 1u);

    copy.destination.slice_height = 9;
    shape rectangle = shape_of(copy);
    EXPECT_EQ(rectangle.width, 64u * 8);
    EXPECT_EQ(rectangle.height, 5u);
    EXPECT_EQ(rectangle.depth, 1u);
    EXPECT_EQ(rectangle.destination.row_pitch, 64u * 9);

    copy.destination.slice_height = 65; // a slice of 4160 bytes is more than the pitch may be
    shape volume = shape_of(copy);
    EXPECT_EQ(volume.depth, 5u);
    EXPECT_EQ(volume.height, 8u);
}

TEST(shape, a_tight_row_beyond_the_pitch_limit_is_refused_only_where_it_is_a_stride) {
    ferry_copy_desc copy = {};
    copy.source = linear(1 << 20, 0, 0, 0, 0, 0);
    copy.destination = linear(1 << 24, 0, 0, 0, 0, 0);
    copy.width = 5000;
    copy.height = 3;
    EXPECT_EQ(shape_of(copy).width, 15000u);
    ferry_place_array(&copy.destination, 0, reinterpret_cast<CUarray>(8));
    shape shape;
    ASSERT_FALSE(lay_out(copy, limits, shape));
    resolved_ends ends = on_device;
    ends.destination = {memory_kind::array, 0, 0, 0, {1, 8000, 8, 1, false, true}};
    const failure failed = settle(ends, limits, shape);
    EXPECT_EQ(failed.status, FERRY_ERROR_PITCH);
    EXPECT_EQ(failed.side, FERRY_SIDE_SOURCE);
    EXPECT_EQ(failed.limit, 4096u);
}

// Beside layers of 1D arrays the driver takes the pitch from slice to slice.
TEST(shape, slices_of_one_row_beside_an_array_have_their_height_in_the_pitch) {
    constexpr array_facts layers_1d = {1, 64, 1, 8, true, false};
    ferry_copy_desc copy = {};
    copy.source = linear(1 << 20, 64, 5, 0, 0, 0);
    ferry_place_array(&copy.destination, 0, reinterpret_cast<CUarray>(8));
    copy.width = 64;
    copy.depth = 8;
    resolved_ends ends = on_device;
    ends.destination = {memory_kind::array, 0, 0, 0, layers_1d};
    shape shape;
    ASSERT_FALSE(lay_out(copy, limits, shape));
    ASSERT_FALSE(settle(ends, limits, shape));
    EXPECT_EQ(shape.source.row_pitch, 64u * 5);
    EXPECT_EQ(shape.source.slice_height, 1u);
    EXPECT_EQ(shape.depth, 8u);

    copy.source.slice_height = 65; // 64 * 65 is above the largest pitch, 4096
    ASSERT_FALSE(lay_out(copy, limits, shape));
    const failure failed = settle(ends, limits, shape);
    EXPECT_EQ(failed.status, FERRY_ERROR_PITCH);
    EXPECT_EQ(failed.side, FERRY_SIDE_SOURCE);
    EXPECT_EQ(failed.field, FERRY_FIELD_SLICE_HEIGHT);
    EXPECT_EQ(failed.limit, 64u);
    EXPECT_EQ(failed.value, 65u);
    ends.destination.array.is_layered = false; // other arrays have no such trouble
    ASSERT_FALSE(lay_out(copy, limits, shape));
    EXPECT_FALSE(settle(ends, limits, shape));
}

TEST(layout, hostile_numbers_never_wrap) {
    std::random_device device;
    const std::uint64_t seed = device();
    std::mt19937_64 random(seed);
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    using wide = unsigned __int128;
    const auto hostile = [&]() -> std::uint64_t {
        const std::uint64_t bits = random() % 65;
        const std::uint64_t value = bits == 64 ? random() : random() & ((std::uint64_t{1} << bits) - 1);
        return random() % 4 == 0 ? ~(value >> 40) : value;
    };
    int accepted = 0;
    for (int round = 0; round < 200000; ++round) {
        ferry_copy_desc copy = {};
        copy.source =
            linear(hostile(), random() % 2 ? 0 : hostile() % 8192, hostile(), hostile(), hostile(), hostile());
        copy.destination = linear(hostile(), 0, 0, 0, 0, 0);
        copy.width = hostile();
        copy.height = random() % 2 ? 1 : hostile();
        copy.depth = random() % 2 ? 1 : hostile();
        if (random() % 2) copy.source.x = copy.source.y = copy.source.z = 0;
        shape layout;
        if (lay_out(copy, limits, layout) || layout.empty()) continue;
        ++accepted;
        for (const auto &[place, end] :
             {std::pair{copy.source, layout.source}, {copy.destination, layout.destination}}) {
            const wide pitch = place.row_pitch ? place.row_pitch : layout.width;
            const wide slice = place.slice_height ? place.slice_height : layout.height;
            const wide row = (wide{place.z} + layout.depth - 1) * slice + place.y + layout.height - 1;
            ASSERT_LT(row, wide{1} << 64);
            ASSERT_EQ(row * pitch + place.x + layout.width - 1 + place.address, wide{end.span.last});
        }
    }
    EXPECT_GT(accepted, 1000);
}

TEST(plan, waits_exactly_where_the_driver_returns_early) {
    using k = memory_kind;
    const auto waits = [](k source, k destination, copy_form form) {
        shape shape = {};
        shape.source.kind = source;
        shape.destination.kind = destination;
        return plan_copy(shape, {.context_device = 0, .form = form}).synchronise_after;
    };
    for (const k host : {k::pageable, k::pinned}) {
        EXPECT_FALSE(waits(k::device, host, copy_form::synchronous));
        EXPECT_FALSE(waits(k::array, host, copy_form::synchronous));
    }
    for (const k there : {k::device, k::array}) {
        EXPECT_FALSE(waits(k::pinned, there, copy_form::synchronous));
        EXPECT_TRUE(waits(k::pageable, there, copy_form::synchronous));
        EXPECT_TRUE(waits(k::device, there, copy_form::synchronous));
        EXPECT_TRUE(waits(k::array, there, copy_form::synchronous));
        EXPECT_FALSE(waits(k::device, there, copy_form::asynchronous));
    }
    EXPECT_TRUE(waits(k::pinned, k::managed, copy_form::synchronous));
}

TEST(plan, names_contexts_when_an_end_is_elsewhere) {
    shape shape = {};
    shape.source.device = -1;
    shape.destination.device = 1;
    EXPECT_FALSE(plan_copy(shape, {.context_device = 1}).names_contexts);
    EXPECT_TRUE(plan_copy(shape, {.context_device = 0}).names_contexts);
    shape.source.device = 0;
    EXPECT_TRUE(plan_copy(shape, {.context_device = 1}).names_contexts);
}

} // namespace
} // namespace ferry::test
