#include "plan/staged_chunks.h"

#include <algorithm>
#include <bit>

#include "base/rounding.h"

namespace ferry {

namespace {

// Returns the smallest number, at least `least`, that equals `with` modulo 16.
constexpr std::uint64_t agree(std::uint64_t least, std::uint64_t with) noexcept {
    return least + ((with - least) & 15);
}

// Clears the row pitch of a single row and the slice pitch of a single slice.
gpu::box_end tidy(const gpu::box_end &end, const staged_box &box) noexcept {
    return {end.address, box.height > 1 ? end.row_pitch : 0, box.depth > 1 ? end.slice_pitch : 0};
}

std::uint64_t bytes_for_a_chunk(const staged_box &box, std::uint64_t slot_size) noexcept {
    const std::uint64_t bytes = box.width * box.height * box.depth;
    return room_for_a_chunk(bytes, slot_size,
                            box.by_copies   ? overlapping_copies
                            : box.to_device ? overlapping_chunks_to_device
                                            : overlapping_chunks);
}

} // namespace

staging::staging(const staged_box &box, std::uint64_t slot_size) noexcept : box_(box) {
    // An array has the same layout as memory in which every row starts at a whole word.
    const std::uint64_t aligned_row = round_up(box.width, 16);
    box_.device = tidy(box.array.surface ? gpu::box_end{0, aligned_row, aligned_row * box.height} : box.device, box);
    box_.host = tidy(box.host, box);
    slot_.address = 0;
    slot_.row_pitch = box.by_copies       ? box.width
                      : box.array.surface ? aligned_row
                                          : agree(box.width, box_.device.row_pitch);
    slot_.slice_pitch = box.height * slot_.row_pitch;
    if (!box.by_copies) slot_.slice_pitch = agree(slot_.slice_pitch, box_.device.slice_pitch);

    const std::uint64_t rows = box.height * box.depth, max_bytes = bytes_for_a_chunk(box, slot_size);
    by_rows_ = rows > 1 && 4 * slot_.row_pitch <= max_bytes;
    if (by_rows_) {
        const std::uint64_t alignment_of_slices = 15; // maximum bytes after each slice
        const std::uint64_t cost = slot_.row_pitch + divide_up(alignment_of_slices, box.height);
        rows_per_chunk_ = 1 + (max_bytes - box.width - alignment_of_slices) / cost;
        chunk_count_ = divide_up(rows, rows_per_chunk_);
        chunk_size_ = rows_per_chunk_ * box.width;
    } else {
        part_ = round_up(divide_up(box.width, divide_up(box.width, max_bytes)), 256);
        per_row_ = divide_up(box.width, part_);
        chunk_count_ = rows * per_row_;
        chunk_size_ = part_;
    }
}

staging::staging(const staged_list &list, bool to_device, ferry_file *file) noexcept
    : list_(&list), chunk_count_(list.chunk_count()), chunk_size_(0) {
    box_.to_device = to_device;
    box_.file = file;
    box_.writes_file = file && !to_device;
}

bool staging::writes_host(const address_span &range) const noexcept {
    if (box_.is_on_host ? box_.writes_file : box_.file || box_.to_device) return false;
    if (list_) return list_->touches_host(range);
    const gpu::box_end &host = box_.is_on_host ? box_.device : box_.host;
    return row_layout{host.address, box_.width, box_.height, host.row_pitch, box_.depth, host.slice_pitch}.touches(
        range);
}

staged_chunk staging::chunk(std::uint64_t index) const noexcept {
    staged_chunk chunk = {};
    if (list_) {
        const staged_list::chunk &listed = (*list_)[index];
        return {listed.records, listed.windows, 0, index, 1, 0, list_->bytes_of(index)};
    }
    if (by_rows_) {
        chunk.row = index * rows_per_chunk_;
        chunk.rows = std::min(rows_per_chunk_, box_.height * box_.depth - chunk.row);
        chunk.width = box_.width;
    } else {
        chunk.row = index / per_row_;
        chunk.rows = 1;
        chunk.x = index % per_row_ * part_;
        chunk.width = std::min(part_, box_.width - chunk.x);
    }
    const std::uint64_t address = box_.device.address + offset(box_.device, chunk.row) + chunk.x;
    chunk.lead = address & 15;
    chunk.first = by_rows_ ? chunk.row : box_.array.surface ? chunk.row | chunk.x << gpu::ring_x_shift : address;
    chunk.count = by_rows_ ? chunk.rows : chunk.width;
    return chunk;
}

std::uint64_t staging::bytes_before(std::uint64_t index) const noexcept {
    if (list_) return (*list_)[index].bytes_before;
    if (by_rows_) return std::min(index * rows_per_chunk_, box_.height * box_.depth) * box_.width;
    return index / per_row_ * box_.width + index % per_row_ * part_;
}

gpu::kernel staging::kernel() const noexcept {
    using gpu::kernel;
    if (list_) return kernel::ring_pieces;
    if (box_.array.surface) return box_.to_device ? kernel::ring_to_array : kernel::ring_from_array;
    return by_rows_ ? kernel::ring_rows : kernel::ring;
}

void staging::describe_array(gpu::ring_parameters &given) const noexcept {
    const staged_array &array = box_.array;
    const int word_shift = std::countr_zero(array.x | box_.width | 16);
    given.over = walk_over(box_.width >> word_shift, box_.height, box_.depth, gpu::threads_per_block);
    given.word_shift = static_cast<std::uint8_t>(word_shift);
    given.form = array.form;
    given.x = static_cast<std::uint32_t>(array.x);
    given.y = static_cast<std::uint32_t>(array.y);
    given.z = static_cast<std::uint32_t>(array.z);
    given.surface = array.surface;
}

gpu::ring_parameters staging::parameters() const noexcept {
    gpu::ring_parameters given = {};
    given.copies = 1;
    if (list_) {
        given.to_device = box_.to_device;
        return given;
    }
    given.device = box_.device;
    given.slot = slot_;
    given.width = box_.width;
    given.by_rows = by_rows_;
    given.to_device = box_.to_device;
    if (box_.array.surface) {
        describe_array(given);
        return given;
    }
    if (!by_rows_) return given;
    const row_words words = choose_words({.apart = 0,
                                          .first = box_.device.address,
                                          .strides = box_.device.row_pitch | box_.device.slice_pitch,
                                          .width = box_.width},
                                         !box_.to_device);
    given.over = walk_over(words.windows, box_.height, box_.depth, gpu::threads_per_block);
    given.word_shift = static_cast<std::uint8_t>(std::countr_zero(words.word));
    given.is_whole = words.is_whole;
    return given;
}

} // namespace ferry
