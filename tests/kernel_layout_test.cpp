// The host's preparations for kernels: divisions, word sizes and windows of boxes, tables of pieces, chunks of staged
// copies.
#include <algorithm>
#include <atomic>
#include <random>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/boxes.h"
#include "kernels/pieces.h"
#include "plan/kernel_arrays.h"
#include "plan/kernel_boxes.h"
#include "plan/kernel_pieces.h"
#include "plan/staged_chunks.h"
#include "staging/host_copy.h"
#include "support/system.h"
#include "system/pages.h"
#include "system/streaming_stores.h"

namespace ferry {
namespace {

using gpu::kernel;

TEST(kernel_layout, division_by_multiplication_is_exact) {
    std::mt19937_64 random(1);
    std::vector<std::uint64_t> numbers = {1, 2, 3, 5, 6, 7, 10, 641, UINT32_MAX, UINT64_MAX, UINT64_MAX - 1};
    for (unsigned shift = 1; shift < 64; ++shift)
        for (const std::uint64_t around : {0, 1, 2})
            numbers.push_back((std::uint64_t{1} << shift) - 1 + around);
    for (int i = 0; i < 200; ++i)
        numbers.push_back((random() >> random() % 64) | 1);
    for (const std::uint64_t by : numbers) {
        const gpu::divisor divisor = divisor_of(by);
        for (const std::uint64_t n : numbers)
            for (const std::uint64_t near : {n - 1, n, n + 1, n / by * by, n / by * by - 1})
                ASSERT_EQ(gpu::divide(near, divisor), near / by) << near << " / " << by;
    }
}

struct box_row {
    const char *name;
    kernel_box box;
    kernel expected;
    std::uint64_t windows_per_row;
};
constexpr std::uint64_t base = 1 << 20;
const box_row boxes[] = {
    {"a line", {{base, 0, 0}, {base, 0, 0}, 4096, 1, 1}, kernel::strided_16_whole, 256},
    {"a line of odd length", {{base, 0, 0}, {base, 0, 0}, 4097, 1, 1}, kernel::strided_16, 257},
    {"a line that begins at an odd address",
     {{base + 3, 0, 0}, {base + 19, 0, 0}, 4096, 1, 1},
     kernel::strided_16,
     257},
    {"a line whose ends are 4 bytes apart",
     {{base + 4, 0, 0}, {base, 0, 0}, 4096, 1, 1},
     kernel::strided_4_whole,
     1024},
    {"a line whose ends are a byte apart", {{base + 1, 0, 0}, {base, 0, 0}, 4096, 1, 1}, kernel::strided_1_whole, 4096},
    {"rows of 4 bytes", {{base, 4, 0}, {base, 8, 0}, 4, 1000, 1}, kernel::strided_4_whole, 1},
    {"rows of 16 bytes", {{base, 32, 0}, {base, 16, 0}, 16, 1000, 1}, kernel::strided_16_whole, 1},
    {"rows of 12 bytes", {{base, 24, 0}, {base, 12, 0}, 12, 1000, 1}, kernel::strided_4_whole, 3},
    {"rows of one byte", {{base, 3, 0}, {base, 1, 0}, 1, 1000, 1}, kernel::strided_1_whole, 1},
    {"wide rows of odd pitch", {{base, 1009, 0}, {base, 1009, 0}, 1000, 1000, 1}, kernel::strided_16, 64},
    {"wide rows whose pitches differ by 2",
     {{base, 1002, 0}, {base, 1000, 0}, 1000, 9, 1},
     kernel::strided_2_whole,
     500},
    {"a pitch without rows does not count", {{base, 7, 0}, {base, 9, 0}, 64, 1, 1}, kernel::strided_16_whole, 4},
    {"slices apart", {{base, 64, 6400}, {base, 64, 640}, 64, 10, 5}, kernel::strided_16_whole, 4},
    {"rows with parts at both ends", {{base, 17, 0}, {base, 25, 0}, 17, 1000, 1}, kernel::strided_8, 3},
    {"into a host, which takes each part by itself",
     {{base, 17, 0}, {base, 25, 0}, 17, 1000, 1, true},
     kernel::strided_1_whole,
     17},
    {"wide rows into a host", {{base, 1001, 0}, {base, 1009, 0}, 1001, 1000, 1, true}, kernel::strided_8, 126},
    {"slices 8 bytes off", {{base, 64, 648}, {base, 64, 640}, 64, 10, 5}, kernel::strided_8_whole, 8},
};

TEST(kernel_layout, words_are_as_wide_as_both_ends_allow) {
    for (const box_row &row : boxes) {
        const strided_launch launch = lay_out_strided(row.box, 8);
        EXPECT_EQ(launch.kernel, row.expected) << row.name;
        EXPECT_EQ(launch.parameters.over.per_row, row.windows_per_row) << row.name;
        EXPECT_EQ(launch.parameters.over.count, row.windows_per_row * row.box.height * row.box.depth) << row.name;
    }
}

TEST(kernel_layout, a_launch_takes_no_more_blocks_than_have_work) {
    const kernel_box small = {{base, 0, 0}, {base, 0, 0}, 16 * 513, 1, 1};
    EXPECT_EQ(lay_out_strided(small, 100).blocks, 2u);
    EXPECT_EQ(lay_out_strided(small, 1).blocks, 1u);
    EXPECT_EQ(lay_out_strided(small, 0).blocks, 1u);
    const kernel_box huge = {{base, 0, 0}, {base, 0, 0}, std::uint64_t{1} << 45, 1, 1};
    EXPECT_EQ(lay_out_strided(huge, 5000).blocks, 5000u);
}

// The last boxes have more windows than 32 bits can count.
TEST(kernel_layout, threads_visit_every_window_once_without_dividing) {
    for (const kernel_box &box :
         {kernel_box{{base, 48, 480}, {base, 64, 6400}, 48, 7, 5}, kernel_box{{base, 4, 0}, {base, 8, 0}, 4, 5000, 1},
          kernel_box{{base, 17, 34}, {base, 1, 2}, 1, 2, 999},
          kernel_box{{base, 0, 0}, {base, 0, 0}, std::uint64_t{3} << 40, 1, 1},
          kernel_box{{base, 1 << 20, 0}, {base, 2 << 20, 0}, 1 << 20, 1 << 22, 1}}) {
        const gpu::windows over = lay_out_strided(box, 3).parameters.over;
        for (const std::uint64_t begin : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{1535}, over.count / 2}) {
            gpu::position at = gpu::find(over, begin);
            std::uint64_t window = begin;
            for (int i = 0; i < 100 && window < over.count; ++i) {
                ASSERT_EQ((at.z * over.rows_per_slice + at.y) * over.per_row + at.x, window);
                ASSERT_LT(at.x, over.per_row);
                ASSERT_LT(at.y, over.rows_per_slice);
                window += over.step;
                gpu::advance(over, at);
            }
        }
    }
}

// ---- Pieces ---------------------------------------------------------------------------------------------------

TEST(kernel_layout, teams_grow_with_the_pieces) {
    const auto team_of = [](std::uint64_t size) { return 1u << cut_pieces(4096, 4096 * size).team_shift; };
    EXPECT_EQ(team_of(1), 4u);
    EXPECT_EQ(team_of(256), 4u);
    EXPECT_EQ(team_of(512), 8u);
    EXPECT_EQ(team_of(1024), 16u);
    EXPECT_EQ(team_of(4096), 32u);
    EXPECT_EQ(team_of(64 << 20), 32u);
}

TEST(kernel_layout, units_are_counted_in_32_bits_however_large_the_copy) {
    std::vector<gpu::piece> table(1 << 16);
    const std::uint64_t all = std::uint64_t{1} << 46;
    piece_packer packer(table.data(), 1 << 16, cut_pieces(1, all));
    EXPECT_TRUE(packer.add(base + 1, base + 1, all));
    EXPECT_EQ(packer.count(), all / piece_packer::max_record);
    EXPECT_LT(packer.work_for(1).units, UINT32_MAX);
}

TEST(kernel_layout, a_piece_larger_than_a_record_takes_several_or_none) {
    gpu::piece table[3];
    const std::uint64_t size = 2 * piece_packer::max_record + 5;
    piece_packer packer(table, 3, cut_pieces(1, size));
    ASSERT_TRUE(packer.add(base, base + 16, size));
    ASSERT_EQ(packer.count(), 3u);
    EXPECT_EQ(table[2].destination, base + 2 * piece_packer::max_record);
    EXPECT_EQ(table[2].source, base + 16 + 2 * piece_packer::max_record);
    EXPECT_EQ(table[2].size, 5u);
    piece_packer short_of_room(table, 2, cut_pieces(1, size));
    EXPECT_FALSE(short_of_room.add(base, base + 16, size));
    EXPECT_EQ(short_of_room.count(), 0u);
    EXPECT_EQ(short_of_room.work_for(1).units, 0u);
}

TEST(kernel_layout, empty_pieces_need_no_room) {
    gpu::piece table[1];
    piece_packer packer(table, 1, cut_pieces(3, 1));
    EXPECT_TRUE(packer.add(base, base, 0));
    EXPECT_TRUE(packer.add(base, base, 1));
    EXPECT_TRUE(packer.add(base, base, 0));
    EXPECT_FALSE(packer.add(base, base, 1));
    EXPECT_EQ(packer.count(), 1u);
}

TEST(kernel_layout, a_table_is_records_of_24_bytes) {
    gpu::piece table[2];
    piece_packer packer(table, 2, {8, 2});
    ASSERT_TRUE(packer.add(0x1008, 0x2000, 250)); // its first unit begins 8 bytes earlier
    ASSERT_TRUE(packer.add(0x3000, 0x4000, 1));
    EXPECT_EQ(table[0].first_unit, 0u);
    EXPECT_EQ(table[1].first_unit, 2u);
    const gpu::team_work work = packer.work_for(2);
    EXPECT_EQ(work.count, 2u);
    EXPECT_EQ(work.units, 3u);
    EXPECT_EQ(work.units_per_team, 0u);
    EXPECT_EQ(work.teams_with_one_more, 3u);
}

struct pieces_in_vector {
    const std::vector<gpu::piece> &table;
    std::uint32_t first_unit(std::uint32_t index) const { return table.at(index).first_unit; }
};

TEST(kernel_layout, every_unit_finds_its_piece) {
    std::mt19937_64 random(2);
    for (int round = 0; round < 60; ++round) {
        const auto count = static_cast<std::uint32_t>(1 + random() % (round % 2 ? 9000 : 400));
        std::vector<gpu::piece> table(count);
        const bool equal = round % 3 == 0;
        const std::uint64_t largest = std::uint64_t{1} << random() % 22;
        piece_packer packer(table.data(), count, cut_pieces(count, count * largest / 2));
        for (std::uint32_t i = 0; i < count; ++i)
            ASSERT_TRUE(packer.add(base + (equal ? 0 : random() % 16), base, equal ? largest : 1 + random() % largest));
        const gpu::team_work work = packer.work_for(1);
        const pieces_in_vector pieces = {table};
        gpu::piece_table_parameters given;
        index_pieces(table.data(), count, given);
        const gpu::indexed_pieces<pieces_in_vector> indexed = {{table}, given};
        std::uint32_t expected = 0;
        for (std::uint32_t unit = 0; unit < work.units; unit += 1 + work.units / 5000) {
            while (expected + 1 < count && table[expected + 1].first_unit <= unit)
                ++expected;
            ASSERT_EQ(gpu::find_job(pieces, work, unit), expected);
            ASSERT_EQ(gpu::find_job(indexed, work, unit), expected);
        }
    }
}

// ---- Boxes in tables ------------------------------------------------------------------------------------------

TEST(kernel_layout, short_division_is_exact) {
    std::mt19937_64 random(3);
    std::vector<std::uint32_t> numbers = {1, 2, 3, 5, 7, 641, UINT32_MAX, UINT32_MAX - 1, 1u << 31, (1u << 31) + 1};
    for (int i = 0; i < 300; ++i)
        numbers.push_back(static_cast<std::uint32_t>(random() >> (32 + random() % 31)) | 1);
    for (const std::uint32_t by : numbers)
        for (const std::uint32_t n : numbers)
            for (const std::uint32_t near : {n - 1, n, n + 1, n / by * by, n / by * by - 1})
                ASSERT_EQ(gpu::divide(near, short_divisor_of(by)), near / by) << near << " / " << by;
}

TEST(kernel_layout, a_box_too_large_for_a_record_gets_its_own_launch) {
    gpu::box table[1];
    box_packer packer(table, 1, cut_boxes(2, std::uint64_t{1} << 40));
    const std::uint64_t wide = std::uint64_t{1} << 34;
    EXPECT_EQ(packer.add({{base, wide, 0}, {base, wide, 0}, wide, 1, 1}), pack_result::too_large);
    EXPECT_EQ(packer.add({{base, 1, 0}, {base, 3, 0}, 1, wide, 1}), pack_result::too_large);
    EXPECT_EQ(packer.add({{base, 16, 0}, {base, 32, 0}, 16, 1 << 20, 1 << 20}), pack_result::too_large);
    EXPECT_TRUE(packer.empty());
    EXPECT_EQ(packer.add({{base, 16, 0}, {base, 32, 0}, 16, 10, 1}), pack_result::added);
    EXPECT_EQ(packer.add({{base, 16, 0}, {base, 32, 0}, 16, 10, 1}), pack_result::no_room);
    EXPECT_EQ(packer.count(), 1u);
    EXPECT_EQ(table[0].windows, 10u);
}

TEST(kernel_layout, a_pattern_is_rotated_to_the_first_byte_of_the_destination) {
    const kernel_fill fill = {{base + 5, 0, 0}, 64, 1, 1, {1, 2, 3, 4}, 4};
    const fill_launch launch = lay_out_fill_kernel(fill, 1);
    EXPECT_EQ(launch.kernel, kernel::fill_16);
    EXPECT_EQ(launch.parameters.pattern_low, 0x0302010403020104u);
    EXPECT_EQ(launch.parameters.pattern_high, 0x0302010403020104u);
}

TEST(kernel_layout, arrays_are_read_in_words_that_fit_both_ends) {
    using gpu::array_form;
    struct {
        gpu::box_end destination;
        std::uint64_t x, width;
        std::uint32_t word_shift, words;
    } const rows[] = {
        {{base, 2048, 0}, 0, 2048, 4, 128}, {{base, 64, 0}, 8, 64, 3, 8},   {{base, 64, 0}, 16, 60, 2, 15},
        {{base + 2, 64, 0}, 16, 64, 1, 32}, {{base, 65, 0}, 16, 64, 0, 64}, {{base, 64, 0}, 3, 16, 0, 16},
    };
    for (const auto &row : rows) {
        const kernel_array_box box = {row.destination, 1, array_form::two_d, row.x, 0, 0, row.width, 9, 1};
        gpu::array_box table[1];
        array_packer packer(table, 1, cut_array_boxes(1, 1));
        ASSERT_EQ(packer.add(box), pack_result::added);
        EXPECT_EQ(table[0].word_shift, row.word_shift);
        EXPECT_EQ(table[0].words, row.words);
        const gpu::array_parameters alone = lay_out_array(box, 1).parameters;
        EXPECT_EQ(alone.word_shift, row.word_shift);
        EXPECT_EQ(alone.words, row.words);
    }
    EXPECT_EQ(array_form_of(0, 0, false), array_form::one_d);
    EXPECT_EQ(array_form_of(4, 0, false), array_form::two_d);
    EXPECT_EQ(array_form_of(4, 4, false), array_form::three_d);
    EXPECT_EQ(array_form_of(0, 4, true), array_form::layers_of_one_d);
    EXPECT_EQ(array_form_of(4, 6, true), array_form::layers_of_two_d);
}

// Every word of the box is in exactly one tile, and few words of a tile are outside the box.
TEST(kernel_layout, arrays_are_cut_into_tiles_of_a_warp) {
    struct {
        std::uint64_t width, height, depth;
        std::uint32_t tile_words, tile_rows, windows; // in a table of boxes
        std::uint64_t tiles, blocks;                  // in a launch of its own
    } const rows[] = {
        {2048, 512, 512, 8, 4, 128 * 512 * 512, 8 * 128 * 512, 32768}, // words of 16 bytes
        {64, 16, 16, 4, 8, 4 * 16 * 16, 16, 1},
        {4096, 1, 1, 32, 1, 256, 4, 1},
        {4096, 1, 7, 32, 1, 256 * 7, 4 * 7, 2},
        {16, 4096, 1, 1, 32, 4096, 128, 8},
        {80, 9, 2, 8, 4, 8 * 12 * 2, 2 * 2, 1},
        {16, 1, 1, 1, 1, 1, 1, 1},
    };
    for (const auto &row : rows) {
        SCOPED_TRACE(testing::Message() << row.width << " x " << row.height << " x " << row.depth);
        const kernel_array_box box = {{base, row.width, row.width * row.height},
                                      1,
                                      gpu::array_form::three_d,
                                      0,
                                      0,
                                      0,
                                      row.width,
                                      row.height,
                                      row.depth};
        gpu::array_box table[1];
        array_packer packer(table, 1, cut_array_boxes(1, 1));
        ASSERT_EQ(packer.add(box), pack_result::added);
        EXPECT_EQ(1u << table[0].tile_words_shift, row.tile_words);
        EXPECT_EQ(1u << table[0].tile_rows_shift, row.tile_rows);
        EXPECT_EQ(table[0].windows, row.windows);
        const array_launch alone = lay_out_array(box, UINT16_MAX);
        EXPECT_EQ(alone.parameters.tile_words_shift + alone.parameters.tile_rows_shift, 5);
        EXPECT_EQ(alone.parameters.over.count, row.tiles);
        EXPECT_EQ(alone.blocks, row.blocks);
        EXPECT_EQ(alone.parameters.over.step, row.blocks * 16);
    }
}

// ---- Copies through slots

TEST(kernel_layout, chunks_hold_every_byte_once_with_the_alignment_of_the_device) {
    std::mt19937_64 random(8);
    const auto up_to = [&](std::uint64_t most) { return random() % (most + 1); };
    for (int round = 0; round < 3000; ++round) {
        staged_box box = {};
        box.width = 1 + up_to(up_to(1) ? 30 : 100'000);
        box.height = 1 + up_to(up_to(1) ? 0 : 50);
        box.depth = 1 + up_to(up_to(1) ? 0 : 20);
        box.to_device = up_to(1);
        for (gpu::box_end *const end : {&box.device, &box.host}) {
            end->address = base + up_to(40);
            end->row_pitch = box.width + up_to(40);
            end->slice_pitch = end->row_pitch * box.height + up_to(100);
        }
        const std::uint64_t slot_size = min_slot << up_to(8);
        const staging cut(box, slot_size);
        std::uint64_t row = 0, x = 0;
        for (std::uint64_t i = 0; i < cut.chunk_count(); ++i) {
            const staged_chunk chunk = cut.chunk(i);
            ASSERT_EQ(chunk.row, row);
            ASSERT_EQ(chunk.x, x);
            ASSERT_EQ(cut.bytes_before(i), row * box.width + x);
            ASSERT_TRUE(chunk.rows == 1 || chunk.width == box.width);
            ASSERT_GE(chunk.bytes(), 1u);
            ASSERT_LE(chunk.bytes(), cut.chunk_size());
            const std::uint64_t begin = cut.offset(cut.slot(), row);
            for (std::uint64_t k = row; k < row + chunk.rows; ++k) {
                const std::uint64_t in_slot = chunk.lead + cut.offset(cut.slot(), k) - begin;
                const std::uint64_t on_device = cut.box().device.address + cut.offset(cut.box().device, k) + x;
                ASSERT_EQ(in_slot % 16, on_device % 16);
                ASSERT_LE(in_slot + chunk.width, slot_size + slot_margin);
            }
            x += chunk.width;
            if (x < box.width) continue;
            x = 0;
            row += chunk.rows;
        }
        ASSERT_EQ(row, box.height * box.depth);
        ASSERT_EQ(x, 0u);
        ASSERT_EQ(cut.bytes_before(cut.chunk_count()), box.width * box.height * box.depth);
    }
}

// A block may read the words of a message at any time.
TEST(kernel_layout, consecutive_messages_in_the_same_place_have_different_marks) {
    for (const gpu::u32 first : {0u, 1u << 31, ~0u - 20})
        for (gpu::u32 i = 0; i < 40; ++i) {
            const gpu::u32 number = first + i;
            EXPECT_NE(gpu::ring_mark(number), gpu::ring_mark(number + gpu::messages_at_once)) << number;
        }
    EXPECT_EQ(gpu::ring_mark(0), 1u); // a record that is all 0 holds no message yet
}

TEST(kernel_layout, rows_pass_through_slots_whole_also_with_streaming_stores) {
    std::mt19937_64 random(9);
    const auto up_to = [&](std::uint64_t most) { return random() % (most + 1); };
    constexpr std::uint64_t slot_size = 1 << 16, guard = 64;
    std::vector<std::byte> slot(slot_size + slot_margin + guard);
    for (int round = 0; round < 500; ++round) {
        staged_box box = {};
        box.width = 1 + up_to(round % 2 ? 100 : 10'000);
        box.height = 1 + up_to(6);
        box.depth = 1 + up_to(2);
        box.host.row_pitch = box.width + up_to(1) * up_to(70);
        box.host.slice_pitch = box.host.row_pitch * box.height + up_to(70);
        box.device = {base + up_to(15), box.width + up_to(9), 0};
        box.device.slice_pitch = box.device.row_pitch * box.height;
        const std::uint64_t lead = guard + up_to(guard), size = lead + box.host.slice_pitch * box.depth + guard;
        std::vector<std::byte> from(size), to(size, std::byte{0xee});
        for (std::byte &one : from)
            one = static_cast<std::byte>(random());
        std::vector<std::byte> wanted = to;
        staged_box back = box;
        box.host.address = reinterpret_cast<std::uintptr_t>(from.data()) + lead;
        back.host.address = reinterpret_cast<std::uintptr_t>(to.data()) + lead;
        const staging in(box, slot_size), out(back, slot_size);
        for (std::uint64_t i = 0; i < in.chunk_count(); ++i) {
            const staged_chunk chunk = in.chunk(i);
            fill_slot(in, chunk, slot.data() + chunk.lead, round & 2);
            empty_slot(out, chunk, slot.data() + chunk.lead, round & 4);
        }
        for (std::uint64_t row = 0; row < box.height * box.depth; ++row) {
            const std::uint64_t at = lead + in.offset(box.host, row);
            std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(at), box.width,
                        wanted.begin() + static_cast<std::ptrdiff_t>(at));
        }
        ASSERT_EQ(to, wanted) << round;
    }
}

// Another processor that sees the notice of a slot finds the whole slot, as a device must.
TEST(kernel_layout, a_slot_is_whole_when_it_is_published) {
    constexpr std::uint64_t size = 1 << 16;
    std::vector<std::byte> from(size), slot(size + slot_margin);
    staged_box box = {};
    box.device.address = base;
    box.host.address = reinterpret_cast<std::uintptr_t>(from.data());
    box.width = size;
    box.height = box.depth = 1;
    const staging cut(box, size);
    std::atomic<std::uint32_t> told = 0, seen = 0;
    constexpr std::uint32_t rounds = 20'000;
    const auto wait_for = [](const std::atomic<std::uint32_t> &word, std::uint32_t value) {
        for (int i = 1; word.load(std::memory_order_acquire) != value; ++i)
            if (i % 10'000 == 0) std::this_thread::yield();
    };
    std::uint32_t torn = 0;
    std::thread reader([&] {
        for (std::uint32_t round = 1; round <= rounds; ++round) {
            wait_for(told, round);
            const auto wanted = static_cast<std::byte>(round);
            // Checked from the end: the last stores are the ones that may still be missing.
            bool is_whole = true;
            for (std::uint64_t at = size; at != 0; at -= 16)
                is_whole &= slot[at - 1] == wanted;
            torn += !is_whole;
            seen.store(round, std::memory_order_release);
        }
    });
    for (std::uint32_t round = 1; round <= rounds; ++round) {
        std::fill(from.begin(), from.end(), static_cast<std::byte>(round));
        fill_slot(cut, cut.chunk(0), slot.data(), true);
        told.store(round, std::memory_order_release);
        wait_for(seen, round);
    }
    reader.join();
    EXPECT_EQ(torn, 0u);
}

// Each processor runs the loop that it has in other tests; here it runs both.
TEST(kernel_layout, streaming_stores_copy_what_memcpy_copies_and_nothing_else) {
    std::vector<std::byte> from(512), to(from.size());
    for (std::size_t i = 0; i < from.size(); ++i)
        from[i] = static_cast<std::byte>(i * 7 + 1);
    for (const bool by_whole_lines : {false, true}) {
        if (by_whole_lines && !has_whole_lines()) break;
        for (std::size_t lead = 0; lead < 64; ++lead)
            for (std::size_t size = 0; size <= 320; size += size < 130 ? 1 : 19) {
                std::fill(to.begin(), to.end(), std::byte{0xee});
                std::vector<std::byte> wanted = to;
                std::copy_n(from.begin() + 5, size, wanted.begin() + static_cast<std::ptrdiff_t>(lead));
                stream_bytes(to.data() + lead, from.data() + 5, size, by_whole_lines);
                end_streaming();
                ASSERT_EQ(to, wanted) << by_whole_lines << ", " << lead << ", " << size;
            }
    }
}

// A compiler may replace an atomic operation that changes nothing by a load, or by nothing.
TEST(kernel_layout, touching_a_destination_writes_to_each_page_and_changes_no_byte) {
    constexpr int count = 5;
    const std::size_t page = page_size();
    const test::mapped_memory host(count * page);
    for (std::size_t i = 0; i < host.size(); ++i)
        host.data()[i] = static_cast<std::byte>(i % 251);
    host.allow(0, host.size(), test::page_access::read);
    int writes = 0; // that faulted
    const test::fault_handler handler([&](std::byte *at) {
        if (at < host.data() || at >= host.data() + host.size()) return false;
        ++writes;
        host.allow(static_cast<std::size_t>(at - host.data()) / page * page, page, test::page_access::read_write);
        return true;
    });
    const staging cut({{base, 0, 0}, {host.address(), 0, 0}, host.size(), 1, 1, false}, host.size());
    for (std::uint64_t i = 0; i < cut.chunk_count(); ++i)
        touch_source(cut, cut.chunk(i));
    EXPECT_EQ(writes, 0);
    for (std::uint64_t i = 0; i < cut.chunk_count(); ++i)
        touch_destination(cut, cut.chunk(i));
    EXPECT_EQ(writes, count);
    for (std::size_t i = 0; i < host.size(); ++i)
        ASSERT_EQ(host.data()[i], static_cast<std::byte>(i % 251)) << i;
}

TEST(kernel_layout, large_copies_fill_their_slots_and_small_copies_are_cut_finer) {
    constexpr std::uint64_t slot = 1 << 20;
    const auto cut = [&](std::uint64_t size, bool to_device) {
        return staging({{base, 0, 0}, {base, 0, 0}, size, 1, 1, to_device}, slot);
    };
    for (const bool to_device : {true, false}) {
        EXPECT_EQ(cut(std::uint64_t{1} << 30, to_device).chunk_count(), 1024u);
        EXPECT_EQ(cut(1 << 16, to_device).chunk_count(), 1u);
        EXPECT_EQ(cut(1 << 20, to_device).chunk_count(), 8u);
    }
    EXPECT_EQ(cut(std::uint64_t{1} << 25, true).chunk_size(), 1u << 19);
    EXPECT_EQ(cut(std::uint64_t{1} << 25, false).chunk_size(), 1u << 18);
    const staging rows({{base, 1024, 0}, {base, 2048, 0}, 1024, 1 << 18, 1, true}, slot);
    EXPECT_EQ(rows.kernel(), kernel::ring_rows);
    EXPECT_GE(rows.chunk(0).bytes(), slot - 2048);
}

// Every byte of every piece is in one chunk, in order, and each chunk fits its slot and its table.
TEST(kernel_layout, a_list_of_pieces_is_cut_into_chunks_that_hold_each_byte_once) {
    std::mt19937_64 random(3);
    const allocator memory;
    staged_list list(memory);
    for (int round = 0; round < 300; ++round) {
        const std::uint64_t slot = std::uint64_t{4096} << random() % 8;
        const std::size_t count = 1 + random() % 2000;
        std::vector<staged_piece> pieces;
        std::uint64_t bytes = 0;
        for (std::size_t i = 0; i < count; ++i) {
            const std::uint64_t size = 1 + random() % (random() % 50 == 0 ? 300'000 : 40);
            pieces.push_back({random() % (1 << 30), random() % (1 << 30), size});
            bytes += size;
        }
        const std::uint64_t at_once = 1 + random() % (2 * bytes);
        staged_cursor next = {pieces.data(), pieces.data() + count};
        std::size_t piece = 0;
        std::uint64_t done = 0, seen = 0;
        while (next.piece != next.end) {
            ASSERT_TRUE(list.take(next, at_once, slot));
            const staging cut(list, true);
            ASSERT_LE(cut.bytes_before(cut.chunk_count()), at_once);
            for (std::uint64_t i = 0; i < cut.chunk_count(); ++i) {
                const staged_chunk chunk = cut.chunk(i);
                ASSERT_EQ(chunk.bytes(), cut.bytes_before(i + 1) - cut.bytes_before(i));
                ASSERT_LE((chunk.first + chunk.count) * window_bytes, slot);
                ASSERT_LE(chunk.first, gpu::max_staged_records);
                std::uint64_t records = 0, windows = 0;
                list.for_each_part(i, [&](const staged_piece &part, const gpu::staged_record &record) {
                    EXPECT_EQ(part.device, pieces[piece].device + done);
                    EXPECT_EQ(part.host, pieces[piece].host + done);
                    EXPECT_EQ(record.device, part.device);
                    EXPECT_EQ(record.first_window, windows);
                    EXPECT_EQ(record.size, part.size);
                    windows += windows_of(part.device, part.size);
                    ++records;
                    done += part.size;
                    seen += part.size;
                    if (done == pieces[piece].size) ++piece, done = 0;
                });
                ASSERT_EQ(records, chunk.first);
                ASSERT_EQ(windows, chunk.count);
            }
            if (testing::Test::HasFailure()) return;
        }
        ASSERT_EQ(piece, count);
        ASSERT_EQ(seen, bytes);
    }
}

TEST(kernel_layout, a_list_finds_the_bytes_before_an_address) {
    const allocator memory;
    staged_list list(memory);
    // The addresses of the second and the third piece descend, and there is a gap before the last piece.
    const std::vector<staged_piece> pieces = {{0, 1000, 5000}, {0, 300, 100}, {0, 100, 100}, {0, 450, 50}};
    staged_cursor next = {pieces.data(), pieces.data() + pieces.size()};
    ASSERT_TRUE(list.take(next, 4000, 1 << 16));
    EXPECT_EQ(list.bytes_before(0, 1000), 0u);
    EXPECT_EQ(list.bytes_before(0, 4999), 3999u);
    ASSERT_TRUE(list.take(next, 1 << 20, 1 << 16)); // the rest of the first piece, and the others
    EXPECT_EQ(list.bytes_before(0, 5000), 4000u);
    EXPECT_EQ(list.bytes_before(0, 5999), 4999u);
    EXPECT_EQ(list.bytes_before(0, 300), 5000u);
    EXPECT_EQ(list.bytes_before(0, 399), 5099u);
    EXPECT_EQ(list.bytes_before(0, 100), 5100u);
    EXPECT_EQ(list.bytes_before(0, 420), 5200u) << "the next address";
    EXPECT_EQ(list.bytes_before(0, 460), 5210u);
}

TEST(kernel_layout, large_lists_fill_their_slots) {
    const allocator memory;
    staged_list list(memory);
    constexpr std::uint64_t slot = 512 << 10;
    const std::vector<staged_piece> tensors(120, {16, 16, 12 << 20}), small(40'000, {0, 0, 4096});
    for (const std::vector<staged_piece> &pieces : {tensors, small}) {
        staged_cursor next = {pieces.data(), pieces.data() + pieces.size()};
        ASSERT_TRUE(list.take(next, UINT64_MAX, slot));
        const std::uint64_t bytes = list[list.chunk_count()].bytes_before;
        EXPECT_LT(static_cast<double>(list.chunk_count() * slot), 1.05 * static_cast<double>(bytes));
    }
}

} // namespace
} // namespace ferry
