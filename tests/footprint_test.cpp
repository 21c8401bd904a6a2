// The footprint of an array: a layout of its levels in one buffer. The copies that it describes must move every texel.
#include <algorithm>
#include <random>

#include "ferry/ferry.hpp"
#include "support/raw_objects.h"
#include "support/system.h"

namespace ferry::test {
namespace {

ferry_array_desc array_of(std::int32_t format, std::uint32_t channels, std::uint64_t width, std::uint64_t height,
                          std::uint64_t depth, std::uint32_t flags = 0) {
    return {.struct_size = sizeof(ferry_array_desc),
            .format = format,
            .channels = channels,
            .flags = flags,
            .width = width,
            .height = height,
            .depth = depth};
}

array_footprint lay_out(const ferry_array_desc &desc, std::uint32_t levels = array_footprint::max_levels,
                        std::uint32_t row_alignment = 1, std::uint32_t level_alignment = 1) {
    const auto made = array_footprint::of(desc, levels, row_alignment, level_alignment);
    EXPECT_TRUE(made) << made.error().code();
    return made ? *made : array_footprint();
}

void expect_level(const ferry_level_footprint &level, const ferry_level_footprint &expected) {
    EXPECT_EQ(expected.offset, level.offset);
    EXPECT_EQ(expected.size, level.size);
    EXPECT_EQ(expected.row_pitch, level.row_pitch);
    EXPECT_EQ(expected.slice_height, level.slice_height);
    EXPECT_EQ(expected.width, level.width);
    EXPECT_EQ(expected.height, level.height);
    EXPECT_EQ(expected.depth, level.depth);
    EXPECT_EQ(0u, level.reserved);
}

// ---- Numbers

TEST(footprint, levels_are_halved_and_aligned_as_direct3d_requires) {
    const array_footprint made = lay_out(array_of(FERRY_FORMAT_UINT8, 4, 100, 5, 0), 100, 256, 512);
    ASSERT_EQ(7u, made.size());
    expect_level(made[0], {0, 4 * 512 + 400, 512, 5, 400, 5, 1, 0});
    expect_level(made[1], {2560, 256 + 200, 256, 2, 200, 2, 1, 0});
    expect_level(made[2], {3072, 100, 256, 1, 100, 1, 1, 0});
    expect_level(made[6], {5120, 4, 256, 1, 4, 1, 1, 0});
    EXPECT_EQ(5124u, made.bytes());
}

TEST(footprint, without_alignment_the_buffer_has_no_padding) {
    const array_footprint made = lay_out(array_of(FERRY_FORMAT_HALF, 1, 9, 0, 0), 3);
    ASSERT_EQ(3u, made.size());
    expect_level(made[0], {0, 18, 18, 1, 18, 1, 1, 0});
    expect_level(made[1], {18, 8, 8, 1, 8, 1, 1, 0});
    expect_level(made[2], {26, 4, 4, 1, 4, 1, 1, 0});
    EXPECT_EQ(30u, made.bytes());
}

TEST(footprint, volumes_halve_their_depth_and_layers_and_faces_stay) {
    const auto depths = [](const ferry_array_desc &desc) {
        std::vector<std::uint64_t> found;
        for (const ferry_level_footprint &level : lay_out(desc))
            found.push_back(level.depth);
        return found;
    };
    using all = std::vector<std::uint64_t>;
    EXPECT_EQ((all{5, 2, 1, 1}), depths(array_of(FERRY_FORMAT_FLOAT, 1, 8, 4, 5)));
    EXPECT_EQ((all{8, 4, 2, 1}), depths(array_of(FERRY_FORMAT_FLOAT, 1, 1, 1, 8)));
    EXPECT_EQ((all{5, 5, 5, 5}), depths(array_of(FERRY_FORMAT_FLOAT, 1, 8, 4, 5, FERRY_ARRAY_LAYERED)));
    EXPECT_EQ((all{5, 5, 5, 5}), depths(array_of(FERRY_FORMAT_FLOAT, 1, 8, 0, 5, FERRY_ARRAY_LAYERED)));
    EXPECT_EQ((all{6, 6, 6}), depths(array_of(FERRY_FORMAT_FLOAT, 1, 4, 4, 6, FERRY_ARRAY_CUBEMAP)));
    EXPECT_EQ((all{12, 12}),
              depths(array_of(FERRY_FORMAT_FLOAT, 1, 2, 2, 12, FERRY_ARRAY_CUBEMAP | FERRY_ARRAY_LAYERED)));
}

TEST(footprint, compressed_formats_count_blocks_and_the_smallest_level_is_one_block) {
    const array_footprint made =
        lay_out(array_of(FERRY_FORMAT_BC1_UNORM, 4, 18, 6, 3, FERRY_ARRAY_LAYERED), 100, 16, 16);
    ASSERT_EQ(5u, made.size());
    expect_level(made[0], {0, 48 * 5 + 40, 48, 2, 40, 2, 3, 0});
    expect_level(made[1], {288, 32 * 2 + 24, 32, 1, 24, 1, 3, 0});
    expect_level(made[4], {288 + 96 + 48 + 48, 16 * 2 + 8, 16, 1, 8, 1, 3, 0});
    EXPECT_EQ(16u, lay_out(array_of(FERRY_FORMAT_BC7_UNORM_SRGB, 4, 1, 1, 0)).bytes());
}

TEST(footprint, only_the_laid_out_levels_are_written_and_a_null_array_only_measures) {
    const ferry_array_desc desc = array_of(FERRY_FORMAT_UINT8, 1, 4, 4, 0);
    ferry_level_footprint levels[5] = {};
    levels[2].offset = levels[3].offset = 77;
    std::uint32_t count = 7;
    std::uint64_t size = 7;
    ASSERT_OK(ferry_array_desc_get_footprint(&desc, 2, 0, 0, levels, &count, &size, nullptr));
    EXPECT_EQ(2u, count);
    EXPECT_EQ(20u, size);
    EXPECT_EQ(77u, levels[2].offset);
    ASSERT_OK(ferry_array_desc_get_footprint(&desc, 5, 0, 0, levels, &count, &size, nullptr));
    EXPECT_EQ(3u, count);
    EXPECT_EQ(20u, levels[2].offset);
    EXPECT_EQ(77u, levels[3].offset);
    ASSERT_OK(ferry_array_desc_get_footprint(&desc, 0, 0, 0, nullptr, &count, nullptr, nullptr));
    EXPECT_EQ(3u, count);
    ASSERT_OK(ferry_array_desc_get_footprint(&desc, 1, 0, 0, nullptr, nullptr, &size, nullptr));
    EXPECT_EQ(16u, size);
}

// ---- Errors

TEST(footprint, a_description_that_no_array_has_is_refused_by_its_field) {
    constexpr std::uint32_t layered = FERRY_ARRAY_LAYERED, cubemap = FERRY_ARRAY_CUBEMAP;
    constexpr std::int32_t argument = FERRY_ERROR_INVALID_ARGUMENT, r32 = FERRY_FORMAT_FLOAT;
    constexpr std::uint64_t huge = std::uint64_t{1} << 32;
    const struct {
        ferry_array_desc desc;
        std::int32_t status, field, numbers;
        std::uint64_t value, limit;
    } cases[] = {
        {array_of(r32, 1, 8, 8, 0, 0x40), FERRY_ERROR_FLAGS, FERRY_FIELD_FLAGS, FERRY_NUMBERS_BITS, 0x40, 0x12f},
        {array_of(0x7f, 1, 8, 8, 0), FERRY_ERROR_ARRAY_FORMAT, FERRY_FIELD_FORMAT, FERRY_NUMBERS_VALUE, 0x7f, 0},
        {array_of(r32, 3, 8, 8, 0), FERRY_ERROR_ARRAY_FORMAT, FERRY_FIELD_CHANNELS, FERRY_NUMBERS_POWER, 3, 4},
        {array_of(FERRY_FORMAT_NV12, 3, 8, 8, 0), FERRY_ERROR_UNSUPPORTED, FERRY_FIELD_FORMAT, FERRY_NUMBERS_VALUE,
         FERRY_FORMAT_NV12, 0},
        {array_of(r32, 1, 0, 8, 0), argument, FERRY_FIELD_WIDTH, FERRY_NUMBERS_AT_LEAST, 0, 1},
        {array_of(r32, 1, huge, 8, 0), argument, FERRY_FIELD_WIDTH, FERRY_NUMBERS_AT_MOST, huge, huge - 1},
        {array_of(r32, 1, 8, huge, 0), argument, FERRY_FIELD_HEIGHT, FERRY_NUMBERS_AT_MOST, huge, huge - 1},
        {array_of(r32, 1, 8, 8, huge), argument, FERRY_FIELD_DEPTH, FERRY_NUMBERS_AT_MOST, huge, huge - 1},
        {array_of(r32, 1, 8, 0, 8), argument, FERRY_FIELD_HEIGHT, FERRY_NUMBERS_AT_LEAST, 0, 1},
        {array_of(FERRY_FORMAT_BC1_UNORM, 4, 8, 0, 0), argument, FERRY_FIELD_HEIGHT, FERRY_NUMBERS_AT_LEAST, 0, 1},
        {array_of(r32, 1, 8, 8, 0, layered), argument, FERRY_FIELD_DEPTH, FERRY_NUMBERS_AT_LEAST, 0, 1},
        {array_of(r32, 1, 8, 4, 6, cubemap), argument, FERRY_FIELD_HEIGHT, FERRY_NUMBERS_EQUAL, 4, 8},
        {array_of(r32, 1, 8, 8, 12, cubemap), argument, FERRY_FIELD_DEPTH, FERRY_NUMBERS_EQUAL, 12, 6},
        {array_of(r32, 1, 8, 8, 8, cubemap | layered), argument, FERRY_FIELD_DEPTH, FERRY_NUMBERS_MULTIPLE, 8, 6},
        {array_of(r32, 1, 8, 8, 0, cubemap | layered), argument, FERRY_FIELD_DEPTH, FERRY_NUMBERS_AT_LEAST, 0, 6},
        {array_of(r32, 1, huge - 1, huge - 1, 0), FERRY_ERROR_OVERFLOW, FERRY_FIELD_HEIGHT, FERRY_NUMBERS_AT_MOST,
         huge - 1, huge / 4},
        {array_of(r32, 1, 1 << 30, 1 << 30, 17), FERRY_ERROR_OVERFLOW, FERRY_FIELD_DEPTH, FERRY_NUMBERS_AT_MOST, 17, 3},
    };
    for (const auto &one : cases) {
        ferry_error_info error = new_error();
        ferry_level_footprint level = {};
        level.offset = 77;
        std::uint32_t count = 7;
        std::uint64_t size = 7;
        EXPECT_EQ(one.status, ferry_array_desc_get_footprint(&one.desc, 1, 0, 0, &level, &count, &size, &error));
        SCOPED_TRACE(describe(error));
        EXPECT_EQ(FERRY_SIDE_OPTIONS, error.side);
        EXPECT_EQ(one.field, error.field);
        EXPECT_EQ(one.numbers, error.numbers);
        EXPECT_EQ(one.value, error.value);
        EXPECT_EQ(one.limit, error.limit);
        EXPECT_EQ(77u, level.offset);
        EXPECT_EQ(0u, count);
        EXPECT_EQ(0u, size);
    }
}

TEST(footprint, wrong_arguments_are_refused) {
    ferry_array_desc desc = array_of(FERRY_FORMAT_FLOAT, 1, 8, 8, 0);
    ferry_level_footprint level = {};
    ferry_error_info error = new_error();
    EXPECT_EQ(FERRY_ERROR_INVALID_ARGUMENT,
              ferry_array_desc_get_footprint(nullptr, 1, 0, 0, &level, nullptr, nullptr, &error));
    EXPECT_EQ(FERRY_ERROR_INVALID_ARGUMENT,
              ferry_array_desc_get_footprint(&desc, 0, 0, 0, &level, nullptr, nullptr, &error));
    EXPECT_EQ(FERRY_FIELD_LEVEL, error.field);
    EXPECT_EQ(1u, error.limit);
    desc.struct_size = 0;
    EXPECT_EQ(FERRY_ERROR_ABI_MISMATCH,
              ferry_array_desc_get_footprint(&desc, 1, 0, 0, &level, nullptr, nullptr, &error));
}

TEST(footprint, a_buffer_of_more_than_64_bits_is_refused) {
    const ferry_array_desc desc = array_of(FERRY_FORMAT_UINT8, 1, UINT32_MAX, UINT32_MAX, 0);
    std::uint64_t size = 0;
    ASSERT_OK(ferry_array_desc_get_footprint(&desc, 1, 0, 0, nullptr, nullptr, &size, nullptr));
    EXPECT_EQ(std::uint64_t{UINT32_MAX} * UINT32_MAX, size);
    ferry_error_info error = new_error();
    EXPECT_EQ(FERRY_ERROR_OVERFLOW, ferry_array_desc_get_footprint(&desc, 2, 0, 0, nullptr, nullptr, &size, &error));
    EXPECT_EQ(FERRY_FIELD_LEVEL, error.field);
    EXPECT_EQ(1u, error.value);
    EXPECT_EQ(0u, size);
}

// ---- Copies

struct footprint_copies : ferry_test {
    // Copies the levels between the buffer and the array, with one copy for each.
    void copy_all(CUmipmappedArray chain, const array_footprint &footprint, bytes &buffer, bool is_upload) {
        for (std::size_t i = 0; i < footprint.size(); ++i) {
            const ferry_level_footprint &level = footprint[i];
            CUarray array = nullptr;
            ASSERT_OK(
                ferry_mipmapped_array_get_level(basic.get(), chain, static_cast<std::uint32_t>(i), &array, nullptr));
            ferry_place memory, texels;
            ferry_place_host_pitched(&memory, buffer.data() + level.offset, level.row_pitch, level.slice_height);
            ferry_place_array(&texels, 0, array);
            ferry_copy_desc copy;
            ferry_copy_desc_set(&copy, is_upload ? &texels : &memory, is_upload ? &memory : &texels, level.width,
                                level.height, level.depth);
            ferry_error_info error = new_error();
            ASSERT_OK(ferry_copy(basic.get(), &copy, nullptr, &error)) << "level " << i << ": " << describe(error);
        }
    }
    // Uploads random bytes to all levels from one buffer and reads them back through another layout.
    void round_trip(const ferry_array_desc &desc, std::mt19937 &random) {
        SCOPED_TRACE(::testing::Message() << desc.width << " x " << desc.height << " x " << desc.depth << ", format "
                                          << desc.format << ", flags " << desc.flags);
        CUmipmappedArray chain = nullptr;
        ferry_error_info error = new_error();
        ASSERT_OK(ferry_mipmapped_array_create(basic.get(), 0, &desc, 0, &chain, &error)) << describe(error);
        const auto any_alignment = [&] {
            return static_cast<std::uint32_t>(random() % 3 ? 1 << random() % 10 : random() % 300);
        };
        const array_footprint there = lay_out(desc, array_footprint::max_levels, any_alignment(), any_alignment()),
                              back = lay_out(desc, array_footprint::max_levels, any_alignment(), any_alignment());
        ASSERT_EQ(there.size(), back.size());
        CUarray missing = nullptr;
        EXPECT_NE(FERRY_SUCCESS, ferry_mipmapped_array_get_level(
                                     basic.get(), chain, static_cast<std::uint32_t>(there.size()), &missing, nullptr));
        bytes upload(there.bytes()), download(back.bytes());
        std::generate(upload.begin(), upload.end(), [&] { return static_cast<std::byte>(random()); });
        copy_all(chain, there, upload, true);
        copy_all(chain, back, download, false);
        for (std::size_t i = 0; i < there.size(); ++i) {
            const ferry_level_footprint &from = there[i], &to = back[i];
            for (std::uint64_t row = 0; row < from.height * from.depth; ++row) {
                const auto expected = upload.begin() + static_cast<std::ptrdiff_t>(from.offset + row * from.row_pitch),
                           found = download.begin() + static_cast<std::ptrdiff_t>(to.offset + row * to.row_pitch);
                ASSERT_TRUE(std::equal(expected, expected + static_cast<std::ptrdiff_t>(from.width), found))
                    << "level " << i << ", row " << row;
            }
        }
        EXPECT_OK(ferry_mipmapped_array_destroy(basic.get(), chain, nullptr));
    }
};

TEST_F(footprint_copies, every_level_of_every_kind_of_array_is_uploaded_from_one_buffer) {
    const unsigned seed = std::random_device()();
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    const auto side = [&](std::uint64_t most) { return 1 + random() % most; };
    constexpr std::uint32_t layered = FERRY_ARRAY_LAYERED, cubemap = FERRY_ARRAY_CUBEMAP;
    const struct {
        std::int32_t format;
        std::uint32_t channels;
        bool is_compressed;
    } formats[] = {{FERRY_FORMAT_UINT8, 1, false},
                   {FERRY_FORMAT_HALF, 4, false},
                   {FERRY_FORMAT_FLOAT, 4, false},
                   {FERRY_FORMAT_UNORM_INT8X2, 2, false},
                   {FERRY_FORMAT_UNORM_INT_101010_2, 4, false},
                   {FERRY_FORMAT_BC1_UNORM, 4, true},
                   {FERRY_FORMAT_BC4_SNORM, 1, true},
                   {FERRY_FORMAT_BC6H_UF16, 3, true},
                   {FERRY_FORMAT_BC7_UNORM_SRGB, 4, true}};
    for (const auto &one : formats) {
        // Drivers refuse block-compressed arrays whose first level is no multiple of blocks.
        const auto fit = [&](std::uint64_t texels) { return one.is_compressed ? (texels + 3) / 4 * 4 : texels; };
        const auto try_it = [&](std::uint64_t width, std::uint64_t height, std::uint64_t depth,
                                std::uint32_t flags = 0) {
            round_trip(array_of(one.format, one.channels, fit(width), fit(height), depth, flags), random);
        };
        if (!one.is_compressed) {
            try_it(side(300), 0, 0);
            try_it(side(90), 0, side(7), layered);
        }
        try_it(side(100), side(60), 0);
        try_it(1, side(60), 0);
        try_it(side(40), side(40), side(5), layered);
        try_it(side(30), side(20), side(20));
        const std::uint64_t square = side(33);
        try_it(square, square, 6, cubemap);
        try_it(square, square, 12, cubemap | layered);
        if (HasFatalFailure()) return;
    }
}

TEST_F(footprint_copies, the_planes_of_a_video_array_have_footprints) {
    const ferry_array_desc desc = array_of(FERRY_FORMAT_NV12, 3, 64, 36, 0, FERRY_ARRAY_VIDEO);
    CUarray array = nullptr;
    if (ferry_array_create(basic.get(), 0, &desc, &array, nullptr)) GTEST_SKIP() << "no video arrays";
    std::uint64_t bytes = 0;
    for (std::uint32_t i = 0; i < 2; ++i) {
        CUarray plane = nullptr;
        ASSERT_OK(ferry_array_get_plane(basic.get(), array, i, &plane, nullptr));
        ferry_array_desc part = {};
        part.struct_size = sizeof part;
        ASSERT_OK(ferry_array_get_info(basic.get(), plane, &part, nullptr, nullptr));
        bytes += lay_out(part, 1).bytes();
    }
    EXPECT_EQ(64u * 36 * 3 / 2, bytes);
    EXPECT_OK(ferry_array_destroy(basic.get(), array, nullptr));
}

} // namespace
} // namespace ferry::test
