// The device's half of a staged copy without a kernel: copy-engine copies on the stream between the slots and the
// device. Instead of a block, stream memory operations publish progress in the record and wait for messages.
#include <algorithm>
#include <cstddef>

#include "base/atomic_word.h"
#include "driver/result.h"
#include "exec/driver_copy.h"
#include "staging/engine.h"

namespace ferry {

namespace {

// This kind of copy is not possible now. A kernel or the driver may still serve it.
constexpr error no_slots = {.status = FERRY_ERROR_LIMIT};

// The stream copies chunks in groups, because each memory operation idles the link: in chunks of 512 KiB, the driver
// alone copied 35 GB/s with an operation before and behind each chunk, 44 GB/s without them, and 48 GB/s in copies of
// 2 MiB (H200).
constexpr std::uint64_t max_grouped_chunks = 4;

// Collects memory operations, and enqueues them in one call.
class stream_values {
public:
    stream_values(const driver_table &cu, CUstream stream) noexcept : cu_(cu), stream_(stream) {}

    void write(std::uint64_t address, std::uint32_t value) noexcept {
        CUstreamBatchMemOpParams &one = add();
        one.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
        one.writeValue.address = address;
        one.writeValue.value = value;
        one.writeValue.flags = CU_STREAM_WRITE_VALUE_DEFAULT;
    }
    void wait(std::uint64_t address, std::uint32_t value, unsigned condition) noexcept {
        CUstreamBatchMemOpParams &one = add();
        one.waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
        one.waitValue.address = address;
        one.waitValue.value = value;
        one.waitValue.flags = condition;
    }
    error enqueue() noexcept {
        const unsigned count = count_;
        count_ = 0;
        return to_error(cu_.cuStreamBatchMemOp(stream_, count, all_, 0));
    }

private:
    CUstreamBatchMemOpParams &add() noexcept { return all_[count_++] = {}; }

    const driver_table &cu_;
    CUstream stream_;
    unsigned count_ = 0;
    CUstreamBatchMemOpParams all_[max_grouped_chunks + 2];
};

// The addresses of a block's words for stream memory operations.
struct words_of_block {
    std::uint64_t completed, presence, published, ended;

    words_of_block(const launch_record &record, std::uint64_t block) noexcept {
        const std::uint64_t seen = record.device_address + offsetof(gpu::ring_record, seen) + block * sizeof(gpu::u64);
        const std::uint64_t mailbox = record.device_address + block * sizeof(gpu::ring_mailbox);
        completed = seen;
        presence = seen + sizeof(std::uint32_t);
        published = mailbox + offsetof(gpu::ring_mailbox, published);
        ended = mailbox + offsetof(gpu::ring_mailbox, ended);
    }
};

// What is needed of a block and its slot.
struct block_of_copies {
    std::uintptr_t slot;
    std::uint32_t lot, first_message;
};

// The copies of a launch. All of them use one shape, because callers may have little stack.
struct slot_copies {
    slot_copies(const driver_table &cu, const staging &cut, const shape_end &device, std::uint64_t max_pitch,
                CUstream stream) noexcept
        : cu(cu), cut(cut), device(device), max_pitch(max_pitch), stream(stream) {
        in_slots = {memory_kind::pinned, -1, nullptr, 0, 0, 0, {}, 0, 0};
        on_device = device;
    }
    std::uint64_t offset_on_device(std::uint64_t row) const noexcept {
        const std::uint64_t height = cut.box().height;
        return (row / height * device.slice_height + row % height) * device.row_pitch;
    }
    // The caller has set `on_device`.
    error copy(std::uintptr_t in_slot, std::uint64_t slot_pitch, std::uint64_t width, std::uint64_t rows,
               std::uint64_t slices) noexcept {
        in_slots.span = {in_slot, in_slot + width - 1};
        in_slots.row_pitch = slot_pitch;
        in_slots.slice_height = rows;
        part.width = width;
        part.height = rows;
        part.depth = slices;
        return run_driver_route(cu, part, {}, copy_form::asynchronous, {}, stream);
    }

    const driver_table &cu;
    const staging &cut;
    const shape_end &device;
    std::uint64_t max_pitch;
    CUstream stream;
    shape part = {};
    shape_end &in_slots = cut.to_device() ? part.source : part.destination;
    shape_end &on_device = cut.to_device() ? part.destination : part.source;
};

// Copies a chunk with gaps on the device, or of an array. Each copy consists of rows in one slice, or of whole slices.
error copy_chunk(slot_copies &copies, std::uint64_t index, std::uintptr_t slot) noexcept {
    const staged_chunk chunk = copies.cut.chunk(index);
    const shape_end &device = copies.device;
    const std::uint64_t height = copies.cut.box().height, end = chunk.row + chunk.rows;
    std::uintptr_t in_slot = slot + chunk.lead;
    for (std::uint64_t row = chunk.row; row != end;) {
        const std::uint64_t left = end - row, whole = row % height == 0 ? left / height : 0;
        const std::uint64_t rows = whole != 0 ? height : std::min(left, height - row % height);
        const std::uint64_t slices = std::max<std::uint64_t>(whole, 1);
        if (device.array) {
            copies.on_device.x = device.x + chunk.x;
            copies.on_device.y = device.y + row % height;
            copies.on_device.z = device.z + row / height;
        } else {
            copies.on_device.span.first = device.span.first + copies.offset_on_device(row) + chunk.x;
            copies.on_device.row_pitch = device.row_pitch;
        }
        if (error failed = copies.copy(in_slot, chunk.width, chunk.width, rows, slices)) return failed;
        in_slot += chunk.width * rows * slices;
        row += rows * slices;
    }
    return {};
}

// A chunk without gaps on the device, at its addresses in the slot and on the device.
struct contiguous_chunk {
    std::uint64_t in_slot, on_device, size; // size: 0 for another chunk
};

contiguous_chunk find_contiguous(const slot_copies &copies, std::uint64_t index, std::uintptr_t slot) noexcept {
    const staged_box &box = copies.cut.box();
    const staged_chunk chunk = copies.cut.chunk(index);
    const bool has_gaps =
        copies.device.row_pitch != box.width || (box.depth > 1 && copies.device.slice_height != box.height);
    if (copies.device.array || (chunk.rows > 1 && has_gaps)) return {};
    return {slot + chunk.lead, copies.device.span.first + copies.offset_on_device(chunk.row) + chunk.x, chunk.bytes()};
}

// Copies a group of chunks. Contiguous chunks of equal size at equal distances, both in pinned memory and on the device,
// are the rows of one copy. Their slots are in one lot: the driver rejects a copy that spans two allocations.
error copy_group(slot_copies &copies, const block_of_copies *blocks, std::uint64_t begin,
                 std::uint64_t count) noexcept {
    for (std::uint64_t i = 0, joined = 1; i != count; i += joined, joined = 1) {
        const contiguous_chunk first = find_contiguous(copies, begin + i, blocks[i].slot);
        if (first.size == 0) {
            if (error failed = copy_chunk(copies, begin + i, blocks[i].slot)) return failed;
            continue;
        }
        std::uint64_t slot_pitch = 0, device_pitch = 0;
        for (; i + joined != count; ++joined) {
            const block_of_copies &its = blocks[i + joined];
            const contiguous_chunk next = find_contiguous(copies, begin + i + joined, its.slot);
            if (joined == 1) {
                slot_pitch = next.in_slot - first.in_slot;
                device_pitch = next.on_device - first.on_device;
            }
            const bool is_next_row = next.in_slot == first.in_slot + joined * slot_pitch &&
                                     next.on_device == first.on_device + joined * device_pitch;
            if (its.lot != blocks[i].lot || next.size != first.size || !is_next_row ||
                std::max(slot_pitch, device_pitch) > copies.max_pitch)
                break;
        }
        copies.on_device.span.first = first.on_device;
        copies.on_device.row_pitch = device_pitch;
        if (error failed = copies.copy(first.in_slot, slot_pitch, first.size, joined, 1)) return failed;
    }
    return {};
}

} // namespace

// Precondition: no other thread knows the launch yet.
error staging_engine::prepare_for_copies(staging_launch &launch) noexcept {
    launch.count_chunks();
    launch.shared.copies_enqueued = 0;
    if (launch.work.is_on_host()) return {};
    launch.work.blocks = scheduler_.reserve_slots(launch, launch.work.blocks);
    if (launch.work.blocks == 0) return no_slots;
    for (std::uint32_t block = 0; block < launch.work.blocks; ++block) {
        staging_channel &channel = launch.record.channels[block];
        channel.first_message = channel.published;
        atomic_word(launch.record.shared->mailboxes[block].published).store(channel.published);
    }
    return {};
}

// A wait is never enqueued without a worker that can satisfy it. The reason is that this thread's next call, or the call
// with the waits itself, may block on a driver lock, whose holder may wait for the stream. So workers may serve the
// chunks of a group before their waits are enqueued, and the slots that these waits need were released by earlier
// groups. If the first wait fails, the stream contains nothing of the copy, and the launch is released.
[[gnu::noinline]] error staging_engine::enqueue_copies(const staged_copy &copy, staging_launch &launch,
                                                       CUstream stream) noexcept {
    if (launch.work.is_on_host()) return enqueue_wait(copy, launch, stream);
    const std::uint64_t count = launch.work.end_chunk, blocks = launch.work.blocks;
    const words_of_block door(launch.record, 0);
    const std::uint32_t ended = launch.record.channels[0].ended;
    block_of_copies of_block[max_blocks_of_copies];
    for (std::uint64_t block = 0; block < blocks; ++block) {
        const staging_channel &channel = launch.record.channels[block];
        const staged_slot &slot = *channel.idle[0];
        of_block[block] = {reinterpret_cast<std::uintptr_t>(slot.host), slot.lot, channel.first_message};
    }

    // Workers access the slots of two groups while the device accesses the slots of a third group. The first and the
    // last groups are smaller, because the first copy waits for the workers, and the workers wait for the last copy.
    const std::uint64_t most = std::clamp<std::uint64_t>(blocks / 3, 1, max_grouped_chunks);
    const auto size_of_group = [&](std::uint64_t begin) noexcept {
        return std::min({most, begin + 1, (count - begin + 1) / 2, blocks - begin % blocks});
    };
    slot_copies copies(cu_, *launch.work.cut, *copy.device_end, devices_[copy.device].info.max_pitch, stream);
    stream_values values(cu_, stream);
    values.write(door.presence, ended << 1 | 1);
    for (std::uint64_t begin = 0, grouped = 0; begin < count; begin += grouped) {
        grouped = size_of_group(begin);
        const std::uint64_t first = begin % blocks;
        const auto message_of = [&](std::uint64_t block) noexcept {
            return static_cast<std::uint32_t>(of_block[block].first_message + begin / blocks + 1);
        };
        for (std::uint64_t block = first; block != first + grouped; ++block)
            values.wait(words_of_block(launch.record, block).published, message_of(block), CU_STREAM_WAIT_VALUE_GEQ);
        launch.shared.copies_enqueued.store(begin + grouped, std::memory_order_release);
        error failed = values.enqueue();
        if (failed && begin == 0) {
            scheduler_.withdraw(launch, is_announced_by_function(copy));
            return failed.status == to_status(CUDA_ERROR_NOT_SUPPORTED) ? no_slots : failed;
        }
        if (!failed) failed = copy_group(copies, of_block + first, begin, grouped);
        if (!failed) {
            for (std::uint64_t block = first; block != first + grouped; ++block)
                values.write(words_of_block(launch.record, block).completed, message_of(block));
            if (begin + grouped == count) {
                values.wait(door.ended, (ended + 1) & 0x7fffffff, CU_STREAM_WAIT_VALUE_EQ);
                values.write(door.presence, (ended + 1) << 1);
            }
            failed = values.enqueue();
        }
        if (failed) {
            scheduler_.cut_short(launch, begin);
            return failed;
        }
    }
    return {};
}

// For a launch without copies.
error staging_engine::enqueue_wait(const staged_copy &copy, staging_launch &launch, CUstream stream) noexcept {
    const words_of_block door(launch.record, 0);
    const std::uint32_t ended = launch.record.channels[0].ended, next = (ended + 1) & 0x7fffffff;
    stream_values values(cu_, stream);
    values.write(door.presence, ended << 1 | 1);
    values.wait(door.ended, next, CU_STREAM_WAIT_VALUE_EQ);
    values.write(door.presence, next << 1);
    launch.shared.copies_enqueued.store(1, std::memory_order_release); // nothing of the launch is read below
    const error failed = values.enqueue();
    if (failed) scheduler_.withdraw(launch, is_announced_by_function(copy));
    return failed;
}

} // namespace ferry
