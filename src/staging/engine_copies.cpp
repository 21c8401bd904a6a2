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
    CUstreamBatchMemOpParams all_[3];
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

// Copies some rows of a chunk. The rows are in one slice, or are whole slices.
error copy_rows(const driver_table &cu, const staging &cut, const shape_end &device, const staged_chunk &chunk,
                std::uint64_t row, std::uint64_t rows, std::uint64_t slices, std::byte *slot,
                CUstream stream) noexcept {
    const std::uint64_t y = row % cut.box().height, z = row / cut.box().height;
    const auto first = reinterpret_cast<std::uintptr_t>(slot) + (row - chunk.row) * cut.box().width;
    const shape_end in_slot = {memory_kind::pinned, -1,  nullptr, 0, 0, 0, {first, first + chunk.width - 1},
                               chunk.width,         rows};
    shape_end on_device = device;
    if (device.array) {
        on_device.x += chunk.x;
        on_device.y += y;
        on_device.z += z;
    } else {
        on_device.span.first += (z * device.slice_height + y) * device.row_pitch + chunk.x;
    }
    const bool to_device = cut.box().to_device;
    const shape part = {to_device ? in_slot : on_device, to_device ? on_device : in_slot, chunk.width, rows, slices};
    return run_driver_route(cu, part, {}, copy_form::asynchronous, {}, stream);
}

error copy_chunk(const driver_table &cu, const staging &cut, const shape_end &device, std::uint64_t index,
                 std::byte *slot, CUstream stream) noexcept {
    const staged_chunk chunk = cut.chunk(index);
    const std::uint64_t height = cut.box().height, end = chunk.row + chunk.rows;
    for (std::uint64_t row = chunk.row; row != end;) {
        const std::uint64_t left = end - row, slices = row % height == 0 ? left / height : 0;
        const std::uint64_t rows = slices != 0 ? height : std::min(left, height - row % height);
        if (error failed = copy_rows(cu, cut, device, chunk, row, rows, std::max<std::uint64_t>(slices, 1),
                                     slot + chunk.lead, stream))
            return failed;
        row += rows * std::max<std::uint64_t>(slices, 1);
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

// A wait is never enqueued without a worker that can satisfy it. The reason is that this thread's next call may block
// on a driver lock, whose holder may wait for the stream. So workers serve a chunk as soon as its wait is enqueued,
// before its copy is enqueued. If the first wait fails, the stream contains nothing of the copy, and the launch is
// released.
error staging_engine::enqueue_copies(const staged_copy &copy, staging_launch &launch, CUstream stream) noexcept {
    if (launch.work.is_on_host()) return enqueue_wait(copy, launch, stream);
    const std::uint64_t count = launch.work.end_chunk, blocks = launch.work.blocks;
    const staging cut = *launch.work.cut; // after its last copy, the launch may be reused
    const words_of_block door(launch.record, 0);
    const std::uint32_t ended = launch.record.channels[0].ended;
    struct {
        std::byte *slot;
        std::uint32_t first_message;
    } of_block[max_blocks_of_copies];
    for (std::uint64_t block = 0; block < blocks; ++block)
        of_block[block] = {launch.record.channels[block].idle[0]->host, launch.record.channels[block].first_message};

    const auto cut_short = [&](std::uint64_t arriving, const error &failed) noexcept {
        scheduler_.cut_short(launch, arriving);
        return failed;
    };
    stream_values values(cu_, stream);
    values.write(door.presence, ended << 1 | 1);
    for (std::uint64_t i = 0; i < count; ++i) {
        const auto &[slot, first_message] = of_block[i % blocks];
        const words_of_block words(launch.record, i % blocks);
        const auto message = static_cast<std::uint32_t>(first_message + i / blocks + 1);
        values.wait(words.published, message, CU_STREAM_WAIT_VALUE_GEQ);
        error failed = values.enqueue();
        if (failed && i == 0) {
            scheduler_.withdraw(launch, is_announced_by_function(copy));
            return failed.status == to_status(CUDA_ERROR_NOT_SUPPORTED) ? no_slots : failed;
        }
        if (failed) return cut_short(i - 1, failed);
        launch.shared.copies_enqueued.store(i + 1, std::memory_order_release);
        failed = copy_chunk(cu_, cut, *copy.device_end, i, slot, stream);
        if (failed) return cut_short(i, failed);
        values.write(words.completed, message);
    }
    values.wait(door.ended, (ended + 1) & 0x7fffffff, CU_STREAM_WAIT_VALUE_EQ);
    values.write(door.presence, (ended + 1) << 1);
    const error failed = values.enqueue();
    return failed ? cut_short(count - 1, failed) : ok;
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
