#include "staging/host_copy.h"

#include <algorithm>
#include <cstring>

#include "base/rounding.h"
#include "system/pages.h"
#include "system/streaming_stores.h"

namespace ferry {

namespace {

void copy_bytes(std::byte *to, const std::byte *from, std::uint64_t size, bool streams) noexcept {
    constexpr std::uint64_t least = 4096; // streaming is slower for shorter rows (D2H, 1 KiB: 16 instead of 22 GB/s)
    if (streams && size >= least)
        stream_bytes(to, from, size, has_whole_lines());
    else
        std::memcpy(to, from, size);
}

struct side {
    std::byte *at;
    std::uint64_t row_pitch, slice_pitch;
};

// For a width that is known at compile time: calling a function for each of many short rows would cost more than
// copying the bytes.
template <std::uint64_t width> void copy_short_rows(const side &to, const side &from, std::uint64_t count) noexcept {
    for (std::uint64_t row = 0; row < count; ++row)
        std::memcpy(to.at + row * to.row_pitch, from.at + row * from.row_pitch, width);
}

void copy_rows(const side &to, const side &from, std::uint64_t width, std::uint64_t count, bool streams) noexcept {
    if (count == 1 || (to.row_pitch == width && from.row_pitch == width)) {
        copy_bytes(to.at, from.at, width * count, streams);
        return;
    }
    switch (width) {
    case 1:
        return copy_short_rows<1>(to, from, count);
    case 2:
        return copy_short_rows<2>(to, from, count);
    case 4:
        return copy_short_rows<4>(to, from, count);
    case 8:
        return copy_short_rows<8>(to, from, count);
    case 12:
        return copy_short_rows<12>(to, from, count);
    case 16:
        return copy_short_rows<16>(to, from, count);
    case 32:
        return copy_short_rows<32>(to, from, count);
    default:
        for (std::uint64_t row = 0; row < count; ++row)
            copy_bytes(to.at + row * to.row_pitch, from.at + row * from.row_pitch, width, streams);
    }
}

// Copies slice by slice. Both sides begin at row `first` of the first slice.
void copy_chunk(side to, side from, std::uint64_t width, std::uint64_t first, std::uint64_t rows, std::uint64_t height,
                bool streams) noexcept {
    while (rows != 0) {
        const std::uint64_t here = rows < height - first ? rows : height - first;
        copy_rows(to, from, width, here, streams);
        // The offset is negative if a slice starts within the rows of the previous slice.
        to.at += static_cast<std::int64_t>(to.slice_pitch - first * to.row_pitch);
        from.at += static_cast<std::int64_t>(from.slice_pitch - first * from.row_pitch);
        first = 0;
        rows -= here;
    }
    if (streams) end_streaming();
}

side host_side(const staging &cut, const staged_chunk &chunk) noexcept {
    const gpu::box_end &host = cut.box().host;
    return {reinterpret_cast<std::byte *>(host.address + cut.offset(host, chunk.row) + chunk.x), host.row_pitch,
            host.slice_pitch};
}
side slot_side(const staging &cut, std::byte *slot) noexcept {
    return {slot, cut.slot().row_pitch, cut.slot().slice_pitch};
}

// Calls run(host address, location in the slot, size) for each piece of the chunk of a list.
template <class Run>
void for_each_run(const staged_list &list, const staged_chunk &chunk, std::byte *slot, const Run &run) noexcept {
    std::byte *const windows = slot + chunk.first * sizeof(gpu::staged_record);
    list.for_each_part(chunk.row, [&](const staged_piece &piece, const gpu::staged_record &record) noexcept {
        const std::uint64_t place = record.first_window * window_bytes + piece.device % window_bytes;
        run(reinterpret_cast<std::byte *>(piece.host), windows + place, piece.size);
    });
}

// Touches a byte of each page of the rows or pieces.
template <class Touch> void touch_rows(const staging &cut, const staged_chunk &chunk, const Touch &touch) noexcept {
    const gpu::box_end &host = cut.box().host;
    const std::uint64_t page = page_size();
    const auto touch_run = [&](std::uint64_t begin, std::uint64_t size) noexcept {
        for (std::uint64_t at = begin; at < begin + size; at = (at / page + 1) * page)
            touch(reinterpret_cast<std::byte *>(at));
    };
    if (const staged_list *const list = cut.list())
        return list->for_each_part(chunk.row, [&](const staged_piece &piece, const gpu::staged_record &) noexcept {
            touch_run(piece.host, piece.size);
        });
    for (std::uint64_t row = chunk.row; row < chunk.row + chunk.rows; ++row)
        touch_run(host.address + cut.offset(host, row) + chunk.x, chunk.width);
}

// The first thread that touches a huge page clears it, which takes as long as several chunks. Threads that touch the
// same page together would each clear a page. So the thread of a chunk faults in pages further ahead. Threads get
// chunks in rotation: with a fixed distance, the same few threads would clear all pages. At the start of a copy, no
// thread has faulted in pages yet. Measured with 8 threads (16 processors beside an H100), 1 GiB: 70 ms without
// `ahead`, 61 with 8 MiB and no rotation, 54 with both, 49 with 16 MiB, 53 with 32; small pages 92 ms.
void fault_in_huge_pages(const staging &cut, std::byte *at, std::uint64_t span) noexcept {
    constexpr std::uint64_t ahead = 8 * huge_page, turns = 8;
    const gpu::box_end &host = cut.box().host;
    const std::uint64_t end = host.address + cut.offset(host, cut.box().height * cut.box().depth - 1) + cut.box().width;
    const std::uint64_t begin = reinterpret_cast<std::uintptr_t>(at) + ahead, chunk = cut.chunk_size();
    const std::uint64_t last_turn = begin + span + (turns - 1) * chunk;
    for (std::uint64_t page = round_up(begin, huge_page); page < std::min(last_turn, end); page += huge_page) {
        const std::uint64_t turn = page - page / huge_page % turns * chunk;
        if (begin <= turn && turn < begin + span) fault_in_page(reinterpret_cast<void *>(page));
    }
    fault_in_page(at);
}

// Transfers the parts of a chunk in its order. One system call transfers parts that are next to each other in the file.
class file_transfer {
public:
    enum class action : std::uint8_t { read, write, expect };
    file_transfer(const open_file &file, action wanted) noexcept : file_(file), action_(wanted) {}

    // `memory` is in the slot. After a failure, nothing more is transferred.
    void add(std::uint64_t offset, std::byte *memory, std::uint64_t size) noexcept {
        if (!follows(offset)) flush();
        if (count_ == 0)
            first_ = offset;
        else if (offset != end_)
            parts_[count_++] = {gap_, offset - end_};
        parts_[count_++] = {memory, size};
        end_ = offset + size;
    }
    file_failure flush() noexcept {
        if (count_ != 0 && !failed_) {
            if (action_ == action::expect)
                file_.expect(first_, end_ - first_);
            else if (action_ == action::write)
                failed_ = file_.write(first_, parts_, count_);
            else
                failed_ = file_.read(first_, parts_, count_, is_repeated_);
            is_repeated_ = true;
        }
        count_ = 0;
        return failed_;
    }

private:
    // Reads gaps that are at most as long as the part before them, so at most half of the bytes are read in vain.
    bool follows(std::uint64_t offset) const noexcept {
        constexpr std::size_t with_gap = 2;
        if (count_ == 0 || count_ + with_gap > open_file::max_parts || offset < end_) return false;
        const std::uint64_t gap = offset - end_;
        return gap == 0 || (action_ != action::write && gap <= sizeof gap_ && gap <= parts_[count_ - 1].size);
    }

    const open_file &file_;
    const action action_;
    file_part parts_[open_file::max_parts];
    std::size_t count_ = 0;
    std::uint64_t first_ = 0, end_ = 0; // of the parts, in the file
    std::byte gap_[1024];
    bool is_repeated_ = false;
    file_failure failed_;
};

// Calls run(offset in the file, memory, size) for each part of a chunk. The memory is in the slot, or in the program's
// memory if `slot` is null.
template <class Run>
void for_each_part(const staging &cut, const staged_chunk &chunk, std::byte *slot, const Run &run) noexcept {
    if (const staged_list *const list = cut.list())
        return for_each_run(*list, chunk, slot, [&](std::byte *host, std::byte *place, std::uint64_t size) noexcept {
            run(reinterpret_cast<std::uintptr_t>(host), place, size);
        });
    const gpu::box_end &file = cut.box().host, &memory = slot ? cut.slot() : cut.box().device;
    std::byte *const first =
        slot ? slot - cut.offset(memory, chunk.row) : reinterpret_cast<std::byte *>(memory.address + chunk.x);
    for (std::uint64_t row = chunk.row; row < chunk.row + chunk.rows; ++row)
        run(file.address + cut.offset(file, row) + chunk.x, first + cut.offset(memory, row), chunk.width);
}

file_failure transfer_parts(const staging &cut, const staged_chunk &chunk, std::byte *slot,
                            file_transfer::action action) noexcept {
    file_transfer transfer(cut.box().file->file, action);
    for_each_part(cut, chunk, slot, [&](std::uint64_t offset, std::byte *memory, std::uint64_t size) noexcept {
        transfer.add(offset, memory, size);
    });
    return transfer.flush();
}

} // namespace

bool has_gaps_in_file(const staging &cut) noexcept {
    const std::uint64_t rows = cut.box().height * cut.box().depth;
    return cut.offset(cut.box().host, rows - 1) != cut.box().width * (rows - 1);
}

void reserve_space(const staging &cut) noexcept {
    const staged_box &box = cut.box();
    if (!has_gaps_in_file(cut)) box.file->file.reserve(box.host.address, box.width * box.height * box.depth);
}

std::uint64_t file_offset(const staging &cut, const staged_chunk &chunk) noexcept {
    const staged_list *const list = cut.list();
    const gpu::box_end &file = cut.box().host;
    return list ? list->host_of(chunk.row) : file.address + cut.offset(file, chunk.row) + chunk.x;
}

// A system call waits for the disk several times if its bytes are not cached, and rows are read one after the other.
// Therefore the system first learns of all bytes of a chunk, and reads them at the same time. Software driver, 2
// processors, ext4 on a virtual disk, 2 GiB: a range 0.75 instead of 0.50 GB/s. Plain reads by 8 threads of rows of 8 KiB
// out of 64 KiB: 0.53 instead of 0.26 GB/s. If the rows are cached, the hints would cost a third of the rate.
file_failure transfer_chunk(const staging &cut, const staged_chunk &chunk, std::byte *slot) noexcept {
    using action = file_transfer::action;
    if (cut.box().writes_file) return transfer_parts(cut, chunk, slot, action::write);
    if (cut.box().file->file.is_missing(file_offset(cut, chunk))) transfer_parts(cut, chunk, slot, action::expect);
    return transfer_parts(cut, chunk, slot, action::read);
}

void touch_source(const staging &cut, const staged_chunk &chunk) noexcept {
    touch_rows(cut, chunk,
               [](const std::byte *at) { static_cast<void>(*static_cast<const volatile std::byte *>(at)); });
}
void touch_destination(const staging &cut, const staged_chunk &chunk) noexcept {
    touch_rows(cut, chunk, [](std::byte *at) { touch_byte(at); });
}

void write_records(const staged_list &list, const staged_chunk &chunk, std::byte *slot) noexcept {
    list.for_each_part(chunk.row, [&](const staged_piece &, const gpu::staged_record &record) noexcept {
        std::memcpy(slot, &record, sizeof record);
        slot += sizeof record;
    });
}

void fill_slot(const staging &cut, const staged_chunk &chunk, std::byte *slot, bool streams) noexcept {
    if (const staged_list *const list = cut.list()) {
        for_each_run(*list, chunk, slot, [&](const std::byte *host, std::byte *place, std::uint64_t size) noexcept {
            copy_bytes(place, host, size, streams);
        });
        if (streams) end_streaming();
        return;
    }
    const std::uint64_t height = cut.box().height;
    copy_chunk(slot_side(cut, slot), host_side(cut, chunk), chunk.width, chunk.row % height, chunk.rows, height,
               streams);
}

void empty_slot(const staging &cut, const staged_chunk &chunk, const std::byte *slot, bool streams) noexcept {
    if (const staged_list *const list = cut.list()) {
        for_each_run(*list, chunk, const_cast<std::byte *>(slot),
                     [&](std::byte *host, const std::byte *place, std::uint64_t size) noexcept {
                         fault_in(host, size);
                         copy_bytes(host, place, size, streams);
                     });
        if (streams) end_streaming();
        return;
    }
    const std::uint64_t height = cut.box().height;
    const gpu::box_end &host = cut.box().host;
    const side to = host_side(cut, chunk);
    const std::uint64_t span = cut.offset(host, chunk.row + chunk.rows - 1) - cut.offset(host, chunk.row) + chunk.width;
    if (cut.box().is_host_new) fault_in_huge_pages(cut, to.at, span);
    if (span <= 2 * chunk.bytes()) fault_in(to.at, span); // otherwise much of the span is not part of the copy
    copy_chunk(to, slot_side(cut, const_cast<std::byte *>(slot)), chunk.width, chunk.row % height, chunk.rows, height,
               streams);
}

} // namespace ferry
