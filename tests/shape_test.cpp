// The code that needs no driver: layouts, overlap, collapsing and splitting against brute force, and plans against
// their rules. Also the library's threads.
#include <array>
#include <atomic>
#include <cstdlib>
#include <random>
#include <set>
#include <thread>

#if !defined(_WIN32)
#include <sys/resource.h>
#include <unistd.h>
#endif

#include <gtest/gtest.h>

#include "copy/shape.h"
#include "copy/split.h"
#include "routes/ranking.h"
#include "support/system.h"
#include "system/threads.h"

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

// The addresses of all bytes, in the order in which they are copied.
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

TEST(shape, collapsing_keeps_the_bytes_and_their_order_and_overlap_is_exact_for_equal_strides) {
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
        if (validate_fields(copy, limits, shape)) continue;
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
        const error failed = validate_bounds(on_device, limits, shape);
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
    EXPECT_FALSE(validate_fields(copy, limits, shape));
    EXPECT_FALSE(validate_bounds(on_device, limits, shape));
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

    copy.destination.slice_height = 65; // a slice of 4160 bytes exceeds the maximum pitch
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
    ASSERT_FALSE(validate_fields(copy, limits, shape));
    resolved_ends ends = on_device;
    ends.destination = {memory_kind::array, 0, 0, 0, {1, 8000, 8, 1, false, true}};
    const error failed = validate_bounds(ends, limits, shape);
    EXPECT_EQ(failed.status, FERRY_ERROR_PITCH);
    EXPECT_EQ(failed.side, FERRY_SIDE_SOURCE);
    EXPECT_EQ(failed.limit, 4096u);
}

// For a copy to or from layers of a 1D array the driver takes the pitch of linear memory as the distance of its slices.
TEST(shape, for_layers_of_1d_arrays_the_slice_distance_becomes_the_pitch) {
    constexpr array_facts layers_1d = {1, 64, 1, 8, true, false};
    ferry_copy_desc copy = {};
    copy.source = linear(1 << 20, 64, 5, 0, 0, 0);
    ferry_place_array(&copy.destination, 0, reinterpret_cast<CUarray>(8));
    copy.width = 64;
    copy.depth = 8;
    resolved_ends ends = on_device;
    ends.destination = {memory_kind::array, 0, 0, 0, layers_1d};
    shape shape;
    ASSERT_FALSE(validate_fields(copy, limits, shape));
    ASSERT_FALSE(validate_bounds(ends, limits, shape));
    EXPECT_EQ(shape.source.row_pitch, 64u * 5);
    EXPECT_EQ(shape.source.slice_height, 1u);
    EXPECT_EQ(shape.depth, 8u);

    copy.source.slice_height = 65; // 64 * 65 exceeds the maximum pitch, 4096
    ASSERT_FALSE(validate_fields(copy, limits, shape));
    const error failed = validate_bounds(ends, limits, shape);
    EXPECT_EQ(failed.status, FERRY_ERROR_PITCH);
    EXPECT_EQ(failed.side, FERRY_SIDE_SOURCE);
    EXPECT_EQ(failed.field, FERRY_FIELD_SLICE_HEIGHT);
    EXPECT_EQ(failed.limit, 64u);
    EXPECT_EQ(failed.value, 65u);
    ends.destination.array.is_layered = false; // this concerns layers only
    ASSERT_FALSE(validate_fields(copy, limits, shape));
    EXPECT_FALSE(validate_bounds(ends, limits, shape));
}

// The field that an overflow error names.
std::uint64_t *field_of(ferry_copy_desc &copy, const error &failed) {
    ferry_place &place = failed.side == FERRY_SIDE_SOURCE ? copy.source : copy.destination;
    switch (failed.field) {
    case FERRY_FIELD_X:
        return &place.x;
    case FERRY_FIELD_Y:
        return &place.y;
    case FERRY_FIELD_Z:
        return &place.z;
    case FERRY_FIELD_SLICE_HEIGHT:
        return &place.slice_height;
    case FERRY_FIELD_WIDTH:
        return &copy.width;
    case FERRY_FIELD_HEIGHT:
        return &copy.height;
    default:
        return &copy.depth;
    }
}

// The width is also the pitch of the rows before the origin. The height is also the height of the slices before it.
TEST(layout, the_limit_of_an_overflow_is_the_largest_value_that_fits) {
    constexpr std::uint64_t half = std::uint64_t{1} << 63;
    ferry_copy_desc copies[2] = {};
    copies[0].source = linear(1, 0, 0, 0, 5, 0); // y
    copies[0].width = UINT64_MAX / 6 + 100;
    copies[0].height = 1;
    copies[1].source = linear(1, 2, 0, 0, 0, 3); // z
    copies[1].width = 2;
    copies[1].height = half / 4 + 100;
    const std::uint64_t limits_of[] = {UINT64_MAX / 6, ((UINT64_MAX - 2) / 2 + 1) / 4};
    for (int i : {0, 1}) {
        ferry_copy_desc &copy = copies[i];
        copy.depth = 1;
        copy.destination = linear(1, 0, 0, 0, 0, 0);
        shape layout;
        const error failed = validate_fields(copy, limits, layout);
        EXPECT_EQ(failed.status, FERRY_ERROR_OVERFLOW);
        EXPECT_EQ(failed.field, i == 0 ? FERRY_FIELD_WIDTH : FERRY_FIELD_HEIGHT);
        EXPECT_EQ(failed.limit, limits_of[i]);
        std::uint64_t &at_fault = i == 0 ? copy.width : copy.height;
        at_fault = failed.limit + 1;
        EXPECT_EQ(validate_fields(copy, limits, layout).status, FERRY_ERROR_OVERFLOW);
        at_fault = failed.limit;
        EXPECT_EQ(validate_fields(copy, limits, layout).status, FERRY_SUCCESS);
    }
}

TEST(layout, hostile_numbers_never_wrap_and_an_overflow_names_the_field_at_fault) {
    const char *const given = std::getenv("FERRY_TEST_SEED");
    const std::uint64_t seed = given ? std::strtoull(given, nullptr, 0) : std::random_device{}();
    std::mt19937_64 random(seed);
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    using wide = unsigned __int128;
    const auto hostile = [&]() -> std::uint64_t {
        const std::uint64_t bits = random() % 65;
        const std::uint64_t value = bits == 64 ? random() : random() & ((std::uint64_t{1} << bits) - 1);
        return random() % 4 == 0 ? ~(value >> 40) : value;
    };
    int accepted = 0, overflowing = 0;
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
        const error failed = validate_fields(copy, limits, layout);
        if (failed.status == FERRY_ERROR_OVERFLOW) {
            ++overflowing;
            ASSERT_GT(failed.value, failed.limit);
            ferry_copy_desc changed = copy;
            std::uint64_t &at_fault = *field_of(changed, failed);
            ASSERT_EQ(at_fault, failed.value);
            at_fault = failed.limit + 1;
            ASSERT_TRUE(validate_fields(changed, limits, layout));
            at_fault = failed.limit;
            const error next = validate_fields(changed, limits, layout);
            const bool is_same = next.status == failed.status && next.side == failed.side && next.field == failed.field;
            ASSERT_FALSE(is_same && failed.side != FERRY_SIDE_EXTENT) << "the other end may have less room";
        }
        if (failed || layout.empty()) continue;
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
    EXPECT_GT(overflowing, 1000);
}

// ---- Splits ----------------------------------------------------------------------------------------------------

// Pieces of registered memory in ascending order, some with pageable memory between them.
struct drawn_pieces {
    std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges; // first address, end
    std::uint64_t operator()(std::uint64_t address) const {
        for (const auto &[first, end] : ranges)
            if (address >= first && address < end) return end;
        return 0;
    }
};

// The source and destination of each byte. The bytes of an array are numbered by x, y and z.
std::multiset<std::pair<std::uint64_t, std::uint64_t>> moves_of(const shape &copy) {
    const auto address = [](const shape_end &end, std::uint64_t x, std::uint64_t y, std::uint64_t z) {
        return end.array ? ((end.z + z) * 1000 + end.y + y) * 1000 + end.x + x
                         : end.span.first + (z * end.slice_height + y) * end.row_pitch + x;
    };
    std::multiset<std::pair<std::uint64_t, std::uint64_t>> moves;
    for (std::uint64_t z = 0; z < copy.depth; ++z)
        for (std::uint64_t y = 0; y < copy.height; ++y)
            for (std::uint64_t x = 0; x < copy.width; ++x)
                moves.emplace(address(copy.source, x, y, z), address(copy.destination, x, y, z));
    return moves;
}

TEST(split, every_byte_is_in_one_part_and_no_part_leaves_its_first_piece) {
    std::random_device device;
    const std::uint64_t seed = device();
    std::mt19937_64 random(seed);
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const auto draw = [&](std::uint64_t low, std::uint64_t high) {
        return std::uniform_int_distribution<std::uint64_t>(low, high)(random);
    };
    int max_parts = 0;
    for (int round = 0; round < 20000; ++round) {
        shape copy = {};
        copy.width = draw(1, 9);
        copy.height = draw(1, 4);
        copy.depth = draw(1, 4);
        drawn_pieces pieces;
        const auto draw_end = [&](shape_end &end, std::uint64_t base) {
            end.kind = draw(0, 3) ? memory_kind::host : memory_kind::device;
            if (!draw(0, 4)) {
                end.kind = memory_kind::array;
                end.array = reinterpret_cast<CUarray>(1);
                end.x = draw(0, 5), end.y = draw(0, 5), end.z = draw(0, 5);
                return;
            }
            end.row_pitch = copy.width + draw(0, 3);
            end.slice_height = copy.height + draw(0, 2);
            end.span.first = base + draw(0, 20);
            end.span.last = end.span.first + ((copy.depth - 1) * end.slice_height + copy.height - 1) * end.row_pitch +
                            copy.width - 1;
            for (std::uint64_t at = base + draw(0, 30); at <= end.span.last;) {
                const std::uint64_t length = draw(1, 40);
                if (draw(0, 3)) pieces.ranges.emplace_back(at, at + length);
                at += length;
            }
        };
        draw_end(copy.source, 1000);
        draw_end(copy.destination, 100000);
        std::multiset<std::pair<std::uint64_t, std::uint64_t>> moved;
        int parts = 0;
        ASSERT_FALSE(for_each_part(copy, pieces, [&](const shape &part) -> error {
            ++parts;
            moved.merge(moves_of(part));
            for (const shape_end *const end : {&part.source, &part.destination}) {
                if (end->array) continue;
                EXPECT_EQ(end->span.last,
                          end->span.first + ((part.depth - 1) * end->slice_height + part.height - 1) * end->row_pitch +
                              part.width - 1);
                const std::uint64_t border = is_host(end->kind) ? pieces(end->span.first) : 0;
                EXPECT_TRUE(border == 0 || end->span.last < border);
            }
            return {};
        }));
        ASSERT_EQ(moved, moves_of(copy));
        max_parts = std::max(max_parts, parts);
        int run = 0;
        const error stopped = for_each_part(copy, pieces, [&](const shape &) -> error {
            return {.status = ++run * 2 > parts ? FERRY_ERROR_LIMIT : FERRY_SUCCESS};
        });
        ASSERT_EQ(stopped.status, FERRY_ERROR_LIMIT);
        ASSERT_EQ(run, parts / 2 + 1) << "no part runs after the first failure";
    }
    EXPECT_GT(max_parts, 20);
}

TEST(split, whole_slices_and_rows_stay_together) {
    shape copy = {};
    copy.width = 10, copy.height = 8, copy.depth = 6;
    copy.source = {memory_kind::host, -1, nullptr, 0, 0, 0, {1000, 1000 + 479}, 10, 8};
    copy.destination = {memory_kind::device, 0, nullptr, 0, 0, 0, {5000, 5000 + 479}, 10, 8};
    std::vector<std::array<std::uint64_t, 4>> parts;
    const drawn_pieces pieces = {{{900, 1000 + 203}}}; // within the fifth row of the third slice
    ASSERT_FALSE(for_each_part(copy, pieces, [&](const shape &part) -> error {
        parts.push_back({part.source.span.first - 1000, part.width, part.height, part.depth});
        return {};
    }));
    const std::vector<std::array<std::uint64_t, 4>> expected = {{0, 10, 8, 2},  {160, 10, 4, 1}, {200, 3, 1, 1},
                                                                {203, 7, 1, 1}, {210, 10, 3, 1}, {240, 10, 8, 3}};
    EXPECT_EQ(parts, expected);
}

// ---- Threads ---------------------------------------------------------------------------------------------------

TEST(threads, each_part_runs_once_for_any_number_of_threads) {
    for (const unsigned count : {1u, 2u, 3u, 16u, max_threads}) {
        std::array<std::atomic<int>, max_threads> runs = {};
        auto job = [&](unsigned index) noexcept { ++runs[index]; };
        run_on_threads(count, job);
        for (unsigned index = 0; index < max_threads; ++index)
            EXPECT_EQ(runs[index], index < count) << index << " of " << count;
    }
    EXPECT_GE(available_processors(), 1u);
}

#if !defined(_WIN32)
TEST(threads, the_caller_runs_every_part_if_no_thread_can_be_started) {
    const int status = run_in_child([] { // in a child, because the limit applies to the whole process
        const rlimit none = {0, 0};
        const bool is_limited = setrlimit(RLIMIT_NPROC, &none) == 0 && (getuid() || setuid(65534) == 0);
        int runs = 0;
        bool all_here = true;
        const std::thread::id self = std::this_thread::get_id();
        auto job = [&](unsigned) noexcept {
            ++runs;
            all_here = all_here && self == std::this_thread::get_id();
        };
        if (is_limited) run_on_threads(8, job);
        return !is_limited ? 77 : runs == 8 && all_here ? 0 : 1;
    });
    if (status == 77) GTEST_SKIP() << "the number of threads cannot be limited here";
    EXPECT_EQ(status, 0);
}
#endif

TEST(plan, waits_exactly_where_the_driver_returns_early) {
    using k = memory_kind;
    const auto waits = [](k source, k destination, copy_form form) {
        shape shape = {};
        shape.source.kind = source;
        shape.destination.kind = destination;
        return plan_copy(shape, {.call = {.context_device = 0, .form = form}}).synchronise_after;
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

TEST(plan, names_contexts_if_an_end_is_elsewhere) {
    shape shape = {};
    shape.source.device = -1;
    shape.destination.device = 1;
    EXPECT_FALSE(plan_copy(shape, {.call = {.context_device = 1}}).names_contexts);
    EXPECT_TRUE(plan_copy(shape, {.call = {.context_device = 0}}).names_contexts);
    shape.source.device = 0;
    EXPECT_TRUE(plan_copy(shape, {.call = {.context_device = 1}}).names_contexts);
}

} // namespace
} // namespace ferry::test
