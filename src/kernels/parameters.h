// Kernel parameters: plain structs of fixed size, with the same layout for the host's and the device's compiler.
// src/plan fills them.
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
// Accesses that a thread keeps in flight before it waits for the first.
constexpr u32 in_flight = 4;

// Division by a number known before the launch: Granlund and Montgomery, "Division by Invariant Integers using
// Multiplication" (1994), figure 4.1.
struct divisor {
    u64 multiplier;
    u32 shift_before, shift_after;
};

// A row is cut into windows: the words, aligned in the destination, that contain bytes of the row. The first and the
// last window may extend beyond the row. A thread takes windows of the box a fixed step apart, in the order of their
// bytes.
struct windows {
    u64 per_row, rows_per_slice, count; // count: of the whole box
    divisor by_row, by_slice;           // by per_row and by rows_per_slice
    u64 step, step_x, step_y, step_z;   // from a thread's window to its next one: in windows; as window, row, slice
};

struct box_end {
    u64 address, row_pitch, slice_pitch; // bytes
};

struct strided_parameters {
    box_end destination, source;
    u64 width; // bytes
    windows over;
};

// Many jobs in one launch. Each job is cut into units of a fixed size, and the units of all jobs are numbered
// consecutively. A team of threads takes consecutive units, of one job or of many. Boxes of arrays are the exception:
// there teams take units in turn.
struct team_work {
    u32 count, units;
    u32 units_per_team, teams_with_one_more;
    u32 unit_shift, team_shift; // log2 of the bytes or windows of a unit, and of the threads of a team
    u64 jobs_per_unit;          // fixed point with 32 fractional bits: the first guess at a unit's job
};

// A run of bytes. Its units are bytes, counted from the last 16-byte boundary at or before its destination.
struct piece {
    u64 destination, source;
    u32 size; // bytes, not 0
    u32 first_unit;
};
static_assert(sizeof(piece) == 24, "tables lie in memory in this form");

// Every driver and GPU accepts 4 KiB of kernel parameters. team_work takes 32 bytes of them.
constexpr u32 max_pieces_in_parameters = 169;
struct piece_parameters {
    team_work work;
    piece pieces[max_pieces_in_parameters];
};
static_assert(sizeof(piece_parameters) <= 4096, "the parameters of a kernel");

// The table may lie behind a bus. The parameters therefore hold what teams search first, as far as it fits: first_unit
// of every 2^index_shift-th piece.
constexpr u32 max_indexed_pieces = 1008;
struct piece_table_parameters {
    team_work work;
    u64 table;                // the address of `count` pieces
    u32 indexed, index_shift; // indexed: the number of entries in first_units, or 0
    u32 first_units[max_indexed_pieces];
};
static_assert(sizeof(piece_table_parameters) <= 4096, "the parameters of a kernel");

// One of many boxes. Its units are windows, at most 2^31 of them.
struct box {
    box_end destination, source;
    u64 by_row, by_slice; // multipliers for short divisions by per_row and by rows_per_slice
    u32 width;            // bytes
    u32 per_row, rows_per_slice, windows;
    u32 word_shift; // log2 of a word's bytes
    u32 first_unit;
};
static_assert(sizeof(box) == 88, "tables lie in memory in this form");

constexpr u32 max_boxes_in_parameters = 46;
struct box_parameters {
    team_work work;
    u64 table; // the address of `count` boxes, or 0 if they are in `boxes`
    box boxes[max_boxes_in_parameters];
};
static_assert(sizeof(box_parameters) <= 4096, "the parameters of a kernel");

// The form of a surface's array. A cubemap counts as layers of 2D.
enum class array_form : u8 { one_d, two_d, three_d, layers_of_one_d, layers_of_two_d };

// A warp reads a tile of an array together.
constexpr u32 threads_per_tile = 32;

// One box of an array, read through a surface in whole words. `over` counts tiles, and its step leads from a warp's
// tile to its next one. A tile is 2^tile_rows_shift rows of twice 2^tile_words_shift words. The last tiles may extend
// beyond the box.
struct array_parameters {
    box_end destination;
    u64 surface;
    u32 x, y, z;     // the origin: bytes, row, slice or layer
    u32 words, rows; // words of a row, rows of a slice
    array_form form;
    u8 word_shift; // log2 of a word's bytes
    u8 tile_words_shift, tile_rows_shift;
    windows over;
};

// One of many boxes of arrays. Windows are numbered tile by tile, at most 2^31, including those of a tile that lie
// outside the box. A tile is 2^tile_rows_shift rows of 2^tile_words_shift words.
struct array_box {
    box_end destination;
    u64 surface;
    u64 by_row, by_slice;         // multipliers for short divisions by tiles_per_row and by tile_rows
    u32 x, y, z;                  // the origin: bytes, row, slice or layer
    u32 words, rows;              // words of a row, rows of a slice
    u32 tiles_per_row, tile_rows; // tile_rows: rows of tiles in a slice
    u32 windows;                  // of all tiles
    array_form form;
    u8 word_shift; // log2 of a word's bytes
    u8 tile_words_shift, tile_rows_shift;
    u32 first_unit;
};
static_assert(sizeof(array_box) == 88, "tables lie in memory in this form");

constexpr u32 max_array_boxes_in_parameters = 46;
struct array_box_parameters {
    team_work work;
    u64 table; // as in box_parameters
    array_box boxes[max_array_boxes_in_parameters];
};
static_assert(sizeof(array_box_parameters) <= 4096, "the parameters of a kernel");

// The pattern is stored as it appears in 16 bytes of the destination that begin at a 16-byte boundary.
struct fill_parameters {
    box_end destination;
    u64 width; // bytes
    u64 pattern_low, pattern_high;
    windows over;
};

// A staged copy between pageable host memory and a device. The blocks of one launch and the host's threads communicate
// through a record in pinned memory. Each block has a mailbox. For each chunk of the copy that a block has to move, the
// host puts one message there: the slot (a stretch of pinned memory) to copy from or to, and the chunk's place in
// device memory. When all bytes have arrived, the host ends the run and the blocks leave.
//
// Runs are counted, because a graph may launch the same copy again. Launches of one record that overlap in time share
// its runs. No launch ends before a whole run has ended since that launch began.
struct ring_message {
    u64 slot;  // bytes from the record to the chunk's first byte, whose address equals the device's modulo 16
    u64 first; // part of a long row: the device address of its first byte, or in an array its row, with x shifted by
               // ring_x_shift; whole rows: the number of the first row, counted over slices
    u64 count; // bytes of a part, or rows; not 0
    // Of many pieces: the slot, the number of staged_record at its beginning, and the number of windows behind them
};

// One of many pieces in a slot. The slot's windows of 16 bytes hold the same bytes as the windows in which the piece
// lies on the device.
struct staged_record {
    u64 device;       // the address of its first byte
    u32 first_window; // counted from the end of the slot's records
    u32 size;         // bytes, not 0
};
static_assert(sizeof(staged_record) == 16, "a thread reads one at once");
constexpr u32 max_staged_records = threads_per_block; // in a slot

constexpr u32 ring_x_shift = 40;
constexpr u32 messages_at_once = 4; // the one that a block works on, and the next ones
// In a mailbox each word of a message is shifted left by 1, and bit 0 holds the mark of the message's number. A block
// that finds the mark in all three words has read that message and no other, whenever it read each word.
FERRY_ON_BOTH_SIDES constexpr u64 ring_mark(u32 number) { return ~(number / messages_at_once) & 1; }
struct ring_mailbox {
    u64 ended;                               // number of ended runs, in 31 bits; or ring_aborted
    ring_message messages[messages_at_once]; // message n, from 0, is at n % messages_at_once
    u64 published;                           // number of messages, ever; only for launches without a kernel
    u64 reserved[2];
};
static_assert(sizeof(ring_mailbox) == 128, "two lines of a host's cache");
// The host has given up the copy. A block that still runs, or starts later, completes all published messages and then
// traps: a stream never reports success while bytes are missing. Broadcasts are never aborted.
constexpr u64 ring_aborted = ~u64{0};

constexpr u32 max_ring_blocks = 32; // of all devices that serve a record
struct ring_record {
    ring_mailbox mailboxes[max_ring_blocks];
    // Written by the blocks. Low half: messages completed, ever. High half: twice the number of runs that blocks have
    // left, plus 1 while a block is there.
    u64 seen[max_ring_blocks];
    u64 locks[max_ring_blocks]; // among blocks of several launches
};

constexpr u32 max_copies_of_ring = 8;
struct ring_parameters {
    u64 record;
    box_end device;
    box_end slot; // pitches only; messages hold the address
    u64 width;    // bytes
    // For whole rows as in strided_parameters, walked by the threads of one block; for arrays in words
    windows over;
    u8 word_shift, is_whole;
    u8 by_rows;   // 1: chunks are whole rows; 0: parts of long rows
    u8 to_device; // 0: to the host
    u8 is_shared; // several launches may use the record at once
    // For arrays, whose rows are whole words
    array_form form;
    u32 x, y, z;     // the origin: bytes, row, slice or layer
    u32 first_block; // the channel of the launch's first block: several devices may serve one record
    u64 surface;
    // Of long rows: where the bytes go, counted from where the messages say. Further copies are read from the first,
    // which lies on the launch's own device, because the slot lies behind the bus.
    u32 copies; // not 0
    u64 to[max_copies_of_ring];
};

// One copy over the host links of several devices: a launch on each. All of them claim chunks from one counter, and the
// launch in the caller's stream, the owner's, ends when all chunks are complete. A launch that begins after that claims
// nothing. The counters lie in memory of the owner's device, which the other launches reach as peers.
// They count on from one copy to the next.
struct link_counters {
    u64 claimed, complete; // chunks; each block of a copy claims one more than there are
    u64 left[30];          // of each link's launches: blocks that will not use the counters again
};
constexpr u32 max_links = sizeof(link_counters::left) / sizeof(u64);

struct link_parameters {
    u64 counters;
    box_end destination, source; // as this launch's context has them, with the same alignment modulo 16
    u64 width, height;           // bytes of a row, rows of a slice
    u64 chunk_size;              // bytes; the last chunk of a row may be shorter
    u64 per_row, chunks;         // chunks of a row, and of all rows
    u64 claimed, complete, left; // the counters before the copy; `left` of this link
    u64 passed;                  // in pinned memory: the last block of the launch writes `number` there, then is gone
    u64 number;
    u64 patience; // of the owner: how often it looks before it takes a chunk for lost
    u32 link;     // the index of this launch's `left`
    u32 is_owner;
};

} // namespace ferry::gpu
