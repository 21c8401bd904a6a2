// What the host hands to the kernels: plain structs of fixed size, the same for the compilers of both sides.
// What fills them is in src/plan.
#pragma once

#include <stdint.h>

// Of what kernels and the host both call.
#if defined(__CUDACC__)
#define FERRY_ON_BOTH_SIDES __host__ __device__
#else
#define FERRY_ON_BOTH_SIDES
#endif

namespace ferry::kernels {

using u8 = uint8_t;
using u16 = uint16_t;
using u32 = uint32_t;
using u64 = uint64_t;

constexpr u32 threads_per_block = 512;
// Accesses that a thread has under way before it waits for the first.
constexpr u32 in_flight = 4;

// Division by a number known before the launch: Granlund and Montgomery, "Division by Invariant Integers using
// Multiplication" (1994), figure 4.1.
struct divisor {
    u64 multiplier;
    u32 shift_before, shift_after;
};

// A row is cut into windows: the aligned words, as its destination lies, that it has bytes of. The first and the last
// may lie in the row in part. A thread takes every so many windows of the box, in the order of the bytes.
struct windows {
    u64 per_row, rows_per_slice, count; // count: of the whole box
    divisor by_row, by_slice;           // by per_row and by rows_per_slice
    u64 step, step_x, step_y, step_z;   // from a thread's window to its next: in all, and as window, row and slice
};

struct box_end {
    u64 address, row_pitch, slice_pitch; // bytes
};

struct strided_parameters {
    box_end destination, source;
    u64 width; // bytes
    windows over;
};

// Many jobs of one launch: each is cut into units of a fixed size, and a team of threads takes some that follow each
// other, of one job or of many. The units of all jobs are counted through.
struct team_work {
    u32 count, units;
    u32 units_per_team, teams_with_one_more;
    u32 unit_shift, team_shift; // bytes or windows of a unit, threads of a team
    u64 jobs_per_unit;          // fixed point, 32 bits behind it: where to begin looking for a unit's job
};

// Its units are bytes, as its destination lies.
struct piece {
    u64 destination, source;
    u32 size; // bytes, not 0
    u32 first_unit;
};
static_assert(sizeof(piece) == 24, "tables lie in memory in this form");

// All that a kernel has for parameters on every driver and GPU is 4 KiB; 40 bytes go to team_work.
constexpr u32 most_pieces_in_parameters = 169;
struct piece_parameters {
    team_work work;
    piece pieces[most_pieces_in_parameters];
};
static_assert(sizeof(piece_parameters) <= 4096, "the parameters of a kernel");

// A table may lie behind a bus, so what teams look for first is here as far as it fits: the first units of every
// 2^index_shift-th piece.
constexpr u32 most_indexed_pieces = 1008;
struct piece_table_parameters {
    team_work work;
    u64 table;                // the address of `count` pieces
    u32 indexed, index_shift; // indexed: how many of first_units; 0: none
    u32 first_units[most_indexed_pieces];
};
static_assert(sizeof(piece_table_parameters) <= 4096, "the parameters of a kernel");

// A box among many. Its units are windows, of which there are 2^31 at most.
struct box {
    box_end destination, source;
    u64 by_row, by_slice; // multipliers of short divisions: by per_row and by rows_per_slice
    u32 width;            // bytes
    u32 per_row, rows_per_slice, windows;
    u32 word_shift; // bytes of a word
    u32 first_unit;
};
static_assert(sizeof(box) == 88, "tables lie in memory in this form");

constexpr u32 most_boxes_in_parameters = 46;
struct box_parameters {
    team_work work;
    u64 table; // the address of `count` boxes; 0: they are in `boxes`
    box boxes[most_boxes_in_parameters];
};
static_assert(sizeof(box_parameters) <= 4096, "the parameters of a kernel");

// What a surface is of; a cubemap is layers of 2D.
enum class array_form : u8 { one_d, two_d, three_d, layers_of_one_d, layers_of_two_d };

// Threads that read a tile of an array together: a warp.
constexpr u32 threads_per_tile = 32;

// One box of an array, read through a surface in whole words. `over` counts tiles, and steps from one that a warp reads
// to its next. A tile is 2^tile_rows_shift rows of twice 2^tile_words_shift words; the last ones may lie in the box in part.
struct array_parameters {
    box_end destination;
    u64 surface;
    u32 x, y, z;     // the origin: bytes, row, slice or layer
    u32 words, rows; // of a row and of a slice
    array_form form;
    u8 word_shift; // bytes of a word
    u8 tile_words_shift, tile_rows_shift;
    windows over;
};

// A box among many. Its windows are counted tile by tile, 2^31 at most, those that the box does not have too.
struct array_box {
    box_end destination;
    u64 surface;
    u64 by_row, by_slice;         // as of a box, of tiles
    u32 x, y, z;                  // the origin: bytes, row, slice or layer
    u32 words, rows;              // of a row and of a slice
    u32 tiles_per_row, tile_rows; // of a slice
    u32 windows;                  // of all tiles
    array_form form;
    u8 word_shift; // bytes of a word
    u8 tile_words_shift, tile_rows_shift;
    u32 first_unit;
};
static_assert(sizeof(array_box) == 88, "tables lie in memory in this form");

constexpr u32 most_array_boxes_in_parameters = 46;
struct array_box_parameters {
    team_work work;
    u64 table; // as of boxes
    array_box boxes[most_array_boxes_in_parameters];
};
static_assert(sizeof(array_box_parameters) <= 4096, "the parameters of a kernel");

// The pattern as it lies in 16 bytes of the destination that are aligned to 16.
struct fill_parameters {
    box_end destination;
    u64 width; // bytes
    u64 pattern_low, pattern_high;
    windows over;
};

// A copy between the host's pageable memory and a device: blocks of one launch meet the host's threads in a record in
// pinned memory. Each block has a mailbox, in which the host puts one message for each chunk of the copy that the block
// shall move: the slot, a stretch of pinned memory, from which or to which, and what of the device's memory. When all of
// the copy is where it belongs, the host ends the run and the blocks leave.
//
// Runs are counted, as a graph may launch the same again; launches of one record that overlap in time share its runs, and
// none leaves before one whole run that has ended after it came.
struct ring_message {
    u64 slot;  // bytes from the record to the first byte within it, whose address agrees with the device's modulo 16
    u64 first; // of a long row: the address of the first byte, or of an array: its row, and x shifted by ring_x_shift;
               // else: the number of the first row, counted over slices
    u64 count; // of bytes or rows, not 0
};
constexpr u32 ring_x_shift = 40;
constexpr u32 messages_at_once = 4; // one that a block is at, and its next
// In a mailbox each word is shifted by 1 and has the mark of the message's number, so that a block that finds it in all
// of them has read no other message, whenever it has read which word.
FERRY_ON_BOTH_SIDES constexpr u64 ring_mark(u32 number) { return ~(number / messages_at_once) & 1; }
struct ring_mailbox {
    u64 ended;                               // runs, in 31 bits; or ring_aborted
    ring_message messages[messages_at_once]; // the n-th, from 0, is at n % messages_at_once
    u64 reserved[3];
};
static_assert(sizeof(ring_mailbox) == 128, "two lines of a host's cache");
// The host has given the copy up. A block that still runs, or comes later, traps once it has done all that it was told:
// a stream never reports success over missing bytes.
constexpr u64 ring_aborted = ~u64{0};

constexpr u32 most_ring_blocks = 16;
struct ring_record {
    ring_mailbox mailboxes[most_ring_blocks];
    // By the blocks. The low half: messages done, ever; the high half: runs left, twice, and 1 while a block is there
    u64 seen[most_ring_blocks];
    u64 locks[most_ring_blocks]; // among the blocks of several launches
};

struct ring_parameters {
    u64 record;
    box_end device;
    box_end slot; // its pitches; the address is in messages
    u64 width;    // bytes
    // Of rows: as of strided_parameters, by the threads of one block
    windows over;
    u8 word_shift, is_whole;
    u8 by_rows;   // 0: chunks are of long rows
    u8 to_device; // 0: to the host
    u8 is_shared; // several launches may use the record at once
    // Of arrays, whose words are whole
    array_form form;
    u32 x, y, z; // the origin: bytes, row, slice or layer
    u64 surface;
};

} // namespace ferry::kernels
