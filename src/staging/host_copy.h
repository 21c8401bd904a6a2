// The host's half of a staged chunk: copies between the chunk's rows in pageable memory or in a file and a slot.
#pragma once

#include "plan/staged_chunks.h"
#include "system/file.h"

namespace ferry {

// Writes the records of a list's chunk to the beginning of its slot.
void write_records(const staged_list &list, const staged_chunk &chunk, std::byte *slot) noexcept;
// `slot`: the address of the chunk in its slot. `streams`: uses streaming stores, which bypass the processor's caches,
// except for short rows.
void fill_slot(const staging &cut, const staged_chunk &chunk, std::byte *slot, bool streams) noexcept;
// Touch the chunk's pages in the program's memory without changing a byte, and return when the pages are present.
void touch_source(const staging &cut, const staged_chunk &chunk) noexcept;
void touch_destination(const staging &cut, const staged_chunk &chunk) noexcept;
// Faults in all pages of the destination in one request if they appear never to have been touched.
void empty_slot(const staging &cut, const staged_chunk &chunk, const std::byte *slot, bool streams) noexcept;

// For a box of a file.
bool has_gaps_in_file(const staging &cut) noexcept;
// Must be called before a file is written.
void reserve_space(const staging &cut) noexcept;
// Returns the offset of the chunk's first byte in the file.
std::uint64_t file_offset(const staging &cut, const staged_chunk &chunk) noexcept;
// Fills or empties the slot of a copy with a file, or reads or writes the program's memory if `slot` is null. After a
// failure, the rest of the memory or of the file is unchanged.
file_failure transfer_chunk(const staging &cut, const staged_chunk &chunk, std::byte *slot) noexcept;

} // namespace ferry
