// Kernel parameters: plain structs of fixed size, with the same layout for the host's and the device's compiler.
// src/plan fills them in.
#pragma once

#include <stdint.h>

// Marks functions that both the kernels and the host call.
#if defined(__CUDACC__)
#define FERRY_ON_BOTH_SIDES __host__ __device__
#else
#define FERRY_ON_BOTH_SIDES
#endif

namespace ferry::gpu {

using u8 = uint8_t;
using u16 = uint16_t;
using u32 = uint32_t;
using u64 = uint64_t;

constexpr u32 threads_per_block = 512;
// The number of accesses that a thread keeps in flight before it waits for the first.
constexpr u32 in_flight = 4;

// Division by a number that is known before the launch: Granlund and Montgomery, "Division by Invariant Integers using
// Multiplication" (1994), figure 4.1.
struct divisor {
    u64 multiplier;
    u32 shift_before, shift_after;
};

// A row is divided into windows: the words, aligned in the destination, that contain bytes of the row. The first and
// the last window may extend past the row. A thread processes windows of the box at a fixed step, in the order of their
// bytes.
struct windows {
    u64 per_row, rows_per_slice, count; // count: windows of the whole box
    divisor by_row, by_slice;           // divisors per_row and rows_per_slice
    u64 step, step_x, step_y, step_z;   // from a thread's window to its next window: in windows; as window, row, slice
};

struct box_end {
    u64 address, row_pitch, slice_pitch; // bytes
};

struct strided_parameters {
    box_end destination, source;
    u64 width; // bytes
    windows over;
};

// Many jobs in one launch. Each job is divided into units of a fixed size, and the units of all jobs are numbered
// consecutively. A team of threads processes consecutive units, which may belong to several jobs. Boxes of arrays are
// an exception: there, units are assigned to teams in rotation.
struct team_work {
    u32 count, units;
    u32 units_per_team, teams_with_one_more;
    u32 unit_shift, team_shift; // log2 of the bytes or windows per unit, and of the threads per team
    u64 jobs_per_unit;          // fixed point with 32 fractional bits: gives the first guess for a unit's job
};

// A run of bytes. Its units are bytes, counted from the last 16-byte boundary at or before its destination.
struct piece {
    u64 destination, source;
    u32 size; // bytes, not 0
    u32 first_unit;
};
static_assert(sizeof(piece) == 24, "the format of tables in memory");

// Every driver and GPU supports 4 KiB of kernel parameters. team_work takes 32 bytes of them.
constexpr u32 max_pieces_in_parameters = 169;
struct piece_parameters {
    team_work work;
    piece pieces[max_pieces_in_parameters];
};
static_assert(sizeof(piece_parameters) <= 4096, "the limit of kernel parameters");

// The table may be in host memory. So the parameters contain an index that teams search first: first_unit of every
// 2^index_shift-th piece, as far as it fits.
constexpr u32 max_indexed_pieces = 1008;
struct piece_table_parameters {
    team_work work;
    u64 table;                // address of `count` pieces
    u32 indexed, index_shift; // indexed: number of entries in first_units, or 0
    u32 first_units[max_indexed_pieces];
};
static_assert(sizeof(piece_table_parameters) <= 4096, "the limit of kernel parameters");

// One of many boxes. Its units are windows, at most 2^31.
struct box {
    box_end destination, source;
    u64 by_row, by_slice; // multipliers for short divisions by per_row and by rows_per_slice
    u32 width;            // bytes
    u32 per_row, rows_per_slice, windows;
    u32 word_shift; // log2 of a word's size in bytes
    u32 first_unit;
};
static_assert(sizeof(box) == 88, "the format of tables in memory");

constexpr u32 max_boxes_in_parameters = 46;
struct box_parameters {
    team_work work;
    u64 table; // address of `count` boxes, or 0 if they are in `boxes`
    box boxes[max_boxes_in_parameters];
};
static_assert(sizeof(box_parameters) <= 4096, "the limit of kernel parameters");

// The form of a surface's array. A cubemap is treated as layers of 2D.
enum class array_form : u8 { one_d, two_d, three_d, layers_of_one_d, layers_of_two_d };

// The threads of a warp read a tile of an array together.
constexpr u32 threads_per_tile = 32;

// One box of an array, read through a surface in whole words. `over` counts tiles, and its step is from a warp's tile
// to its next tile. A tile is 2^tile_rows_shift rows of twice 2^tile_words_shift words. The last tiles may extend past
// the box.
struct array_parameters {
    box_end destination;
    u64 surface;
    u32 x, y, z;     // the origin: bytes, row, slice or layer
    u32 words, rows; // words per row, rows per slice
    array_form form;
    u8 word_shift; // log2 of a word's size in bytes
    u8 tile_words_shift, tile_rows_shift;
    windows over;
};

// One of many boxes of arrays. Windows are numbered tile by tile, at most 2^31, including windows of a tile that are
// outside the box. A tile is 2^tile_rows_shift rows of 2^tile_words_shift words.
struct array_box {
    box_end destination;
    u64 surface;
    u64 by_row, by_slice;         // multipliers for short divisions by tiles_per_row and by tile_rows
    u32 x, y, z;                  // the origin: bytes, row, slice or layer
    u32 words, rows;              // words per row, rows per slice
    u32 tiles_per_row, tile_rows; // tile_rows: rows of tiles per slice
    u32 windows;                  // in all tiles
    array_form form;
    u8 word_shift; // log2 of a word's size in bytes
    u8 tile_words_shift, tile_rows_shift;
    u32 first_unit;
};
static_assert(sizeof(array_box) == 88, "the format of tables in memory");

constexpr u32 max_array_boxes_in_parameters = 46;
struct array_box_parameters {
    team_work work;
    u64 table; // as in box_parameters
    array_box boxes[max_array_boxes_in_parameters];
};
static_assert(sizeof(array_box_parameters) <= 4096, "the limit of kernel parameters");

// The pattern is stored as it appears in 16 bytes of the destination that start at a 16-byte boundary.
struct fill_parameters {
    box_end destination;
    u64 width; // bytes
    u64 pattern_low, pattern_high;
    windows over;
};

// A copy between two layouts: a nest of axes, each with a stride at either end. Two axes, x and y, are cut into tiles
// that a team of threads copies together. The coordinates on the other axes are constant within a tile.
struct tiled_axis {
    u64 count;
    u64 destination_stride, source_stride; // bytes; negative strides wrap around
    divisor by_tiles;                      // the number of tiles on the axis; of axes other than x and y: count
    u64 tiles;
    // Lists of `count` indices, by which the strides are multiplied instead of by the coordinate. 0: none.
    u64 destination_indices, source_indices;
    u64 destination_limit, source_limit;     // larger indices are skipped, as is the index equal to the limit
    u32 destination_is_wide, source_is_wide; // indices of 64 bits, otherwise of 32
};

constexpr u32 max_nest_axes = 8;
struct nest_parameters {
    u64 destination, source;
    u64 tiles;
    u64 skipped;                     // address of a u64 that counts skipped indices, or 0
    u32 axes;                        // x, y and the others, from the one whose coordinate changes fastest
    u8 team_shift, x_shift, y_shift; // log2 of the threads of a team, and of the words or groups on a tile's axes
    // A warp covers 2^x_low neighbours on x, and as many on y as it has threads left.
    u8 x_low, y_low;
    tiled_axis axis[max_nest_axes];
};
static_assert(sizeof(nest_parameters) <= 4096, "the limit of kernel parameters");

// A staged copy between pageable host memory and a device. The blocks of one launch and the host's threads communicate
// through a record in pinned memory. Each block has a mailbox. For each chunk that a block must copy, the host writes
// one message to the mailbox: the slot (a range of pinned memory) to copy from or to, and the location of the chunk in
// device memory. When all bytes have arrived, the host ends the run and the blocks exit.
//
// Runs are counted, because a graph may launch the same copy again. Launches of the same record that overlap in time
// share its runs. Each launch ends only after a whole run has ended since its start.
struct ring_message {
    u64 slot; // offset from the record to the chunk's first byte, whose address equals the device's modulo 16
    // Part of a long row: the device address of its first byte, or in an array its row, with x shifted by ring_x_shift.
    // Whole rows: the number of the first row, counted over slices.
    u64 first;
    u64 count; // bytes of a part, or number of rows; not 0
    // For many pieces: the slot, the number of staged_records at its start, and the number of windows after them.
};

// One of many pieces in a slot. The slot's windows of 16 bytes contain the same bytes as the windows of the device that
// contain the piece.
struct staged_record {
    u64 device;       // address of the piece's first byte
    u32 first_window; // counted from the end of the slot's records
    u32 size;         // bytes, not 0
};
static_assert(sizeof(staged_record) == 16, "a thread reads a record in one access");
constexpr u32 max_staged_records = threads_per_block; // in a slot

constexpr u32 ring_x_shift = 40;
constexpr u32 messages_at_once = 4; // the message that a block is processing, and the following messages
// In a mailbox, each word of a message is shifted left by 1, and bit 0 contains the mark of the message's number. If a
// block finds the mark in all three words, it has read exactly that message, regardless of when it read each word.
FERRY_ON_BOTH_SIDES constexpr u64 ring_mark(u32 number) { return ~(number / messages_at_once) & 1; }
struct ring_mailbox {
    u64 ended;                               // number of ended runs, in 31 bits; or ring_aborted
    ring_message messages[messages_at_once]; // message n, from 0, is at n % messages_at_once
    u64 published;                           // total number of messages; only for launches without a kernel
    u64 reserved[2];
};
static_assert(sizeof(ring_mailbox) == 128, "two cache lines of the host");
// The host has abandoned the copy. A block that is running, or starts later, completes all published messages and then
// traps, because a stream must never report success while bytes are missing. Broadcasts are never aborted.
constexpr u64 ring_aborted = ~u64{0};

constexpr u32 max_ring_blocks = 32; // on all devices that serve a record
struct ring_record {
    ring_mailbox mailboxes[max_ring_blocks];
    // Written by the blocks. Low half: total number of completed messages. High half: twice the number of runs that
    // blocks have left, plus 1 while a block is present.
    u64 seen[max_ring_blocks];
    u64 locks[max_ring_blocks]; // between blocks of several launches
};

constexpr u32 max_copies_of_ring = 8;
struct ring_parameters {
    u64 record;
    box_end device;
    box_end slot; // only its pitches are used; messages contain the address
    u64 width;    // bytes
    // For whole rows: same as in strided_parameters, traversed by the threads of one block. For arrays: in words.
    windows over;
    u8 word_shift, is_whole;
    u8 by_rows;   // 1: chunks are whole rows; 0: parts of long rows
    u8 to_device; // 0: to the host
    u8 is_shared; // several launches may use the record at the same time
    // For arrays, whose rows are whole words.
    array_form form;
    u32 x, y, z;     // the origin: bytes, row, slice or layer
    u32 first_block; // the channel of the launch's first block: several devices may serve one record
    u64 surface;
    // For long rows: offsets from the addresses in the messages to the destinations. Further copies are read from the
    // first destination, which is on the launch's own device, because reading the slot again would use the bus.
    u32 copies; // not 0
    u64 to[max_copies_of_ring];
};

// One copy over the host links of several devices, with one launch on each device. All launches claim chunks from one
// counter. The launch on the caller's stream (the owner) ends when all chunks are complete. A launch that starts later
// claims nothing. The counters are in memory of the owner's device, which the other launches access as peers. The
// counters continue from one copy to the next.
struct link_counters {
    u64 claimed, complete; // in chunks; each block of a copy claims one more than exist
    u64 left[30];          // per link: blocks that will not use the counters again
};
constexpr u32 max_links = sizeof(link_counters::left) / sizeof(u64);

struct link_parameters {
    u64 counters;
    box_end destination, source; // in this launch's context, with the same alignment modulo 16
    u64 width, height;           // bytes per row, rows per slice
    u64 chunk_size;              // bytes; the last chunk of a row may be shorter
    u64 per_row, chunks;         // chunks per row, and in all rows
    u64 claimed, complete, left; // counter values before the copy; `left` of this link
    u64 passed;                  // in pinned memory: the last block of the launch writes `number` there before it exits
    u64 number;
    u64 patience; // for the owner: number of polls before it considers a chunk lost
    u32 link;     // index of this launch in `left`
    u32 is_owner;
};

} // namespace ferry::gpu
