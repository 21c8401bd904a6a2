// What both sides publish in a record, and the work of a worker on a channel.
#include "staging/launch.h"

#include <cstring>

#include "base/atomic_word.h"
#include "staging/host_copy.h"

namespace ferry {

namespace {

constexpr std::uint32_t low_half(std::uint64_t word) noexcept { return static_cast<std::uint32_t>(word); }
constexpr std::uint32_t high_half(std::uint64_t word) noexcept { return static_cast<std::uint32_t>(word >> 32); }

std::uint64_t seen_by(const staging_launch &launch, std::uint32_t block) noexcept {
    return atomic_word(launch.record.shared->seen[block]).load(std::memory_order_acquire);
}

// The presence word of a block. A stream writes only this half of `seen`, so only this half is read: then the work before
// the stream's write also comes before this read.
std::uint32_t presence_of(const staging_launch &launch, std::uint32_t block) noexcept {
    std::uint64_t &seen = launch.record.shared->seen[block];
    if (!launch.work.by_copies) return high_half(atomic_word(seen).load(std::memory_order_acquire));
    return atomic_word(reinterpret_cast<std::uint32_t *>(&seen)[1]).load(std::memory_order_acquire);
}
bool is_present(const staging_launch &launch, std::uint32_t block) noexcept {
    return presence_of(launch, block) == (launch.record.channels[block].ended << 1 | 1);
}

// The block whose presence word represents `block`: a stream publishes its presence only once.
std::uint32_t door_of(const staging_launch &launch, std::uint32_t block) noexcept {
    return launch.work.by_copies ? 0 : block;
}

// The number of the next chunk of a channel in a copy-engine launch. Valid only while it is less than
// `copies_enqueued`.
std::uint64_t next_copy(const staging_launch &launch, const staging_channel &channel) noexcept {
    const auto block = static_cast<std::uint64_t>(&channel - launch.record.channels);
    return std::uint64_t{channel.published - channel.first_message} * launch.work.blocks + block;
}

bool has_chunk(const staging_launch &launch, const staging_channel &channel) noexcept {
    if (!launch.work.by_copies) return launch.has_chunks();
    const std::uint64_t enqueued = launch.shared.copies_enqueued.load(std::memory_order_acquire);
    return launch.work.is_on_host() ? enqueued != 0 && launch.has_chunks() : next_copy(launch, channel) < enqueued;
}

void publish(staging_launch &launch, std::uint32_t block, staged_slot &slot) noexcept {
    staging_channel &channel = launch.record.channels[block];
    const std::uint32_t place = channel.published % gpu::messages_at_once;
    const std::uint64_t mark = gpu::ring_mark(channel.published);
    const auto put = [&](std::uint64_t &word, std::uint64_t value) noexcept {
        atomic_word(word).store(value << 1 | mark, std::memory_order_release);
    };
    if (const staged_list *const list = launch.work.cut->list()) write_records(*list, slot.chunk, slot.host);
    gpu::ring_message &message = launch.record.shared->mailboxes[block].messages[place];
    put(message.slot, slot.device_address + slot.chunk.lead - launch.record.device_address);
    put(message.first, slot.chunk.first);
    put(message.count, slot.chunk.count);
    channel.published_slots[place] = &slot;
    ++channel.published;
    if (launch.work.by_copies) // only the message's marks matter, for later launches of the record
        atomic_word(launch.record.shared->mailboxes[block].published)
            .store(channel.published, std::memory_order_release);
}

staged_slot &oldest_published(staging_channel &channel) noexcept {
    return *channel.published_slots[channel.taken_back % gpu::messages_at_once];
}

void take_back(staging_channel &channel) noexcept {
    staged_slot &slot = oldest_published(channel);
    ++channel.taken_back;
    channel.idle[channel.idle_count++] = &slot;
}

void count_arrival(staging_launch &launch, const staged_chunk &chunk) noexcept {
    const std::uint64_t bytes = chunk.bytes();
    launch.shared.bytes_done.fetch_add(bytes, std::memory_order_relaxed);
    if (launch.work.progress) launch.work.progress->bytes_done.fetch_add(bytes, std::memory_order_relaxed);
    launch.shared.chunks_left.fetch_sub(1, std::memory_order_release);
}

// Allows other threads to enter the channel while the worker accesses the program's memory, where it may block forever.
struct at_memory {
    explicit at_memory(staging_channel &channel) noexcept : channel(channel) { channel.leave_for_memory(); }
    ~at_memory() { channel.come_back(); }
    at_memory(const at_memory &) = delete;
    staging_channel &channel;
};

// Takes a chunk (the next one or the wanted one) and an idle slot for it. Returns null if the mailbox has no space, if
// no idle slot or chunk is left, or if another worker has the wanted chunk.
staged_slot *next_to_publish(staging_launch &launch, staging_channel &channel,
                             std::optional<std::uint64_t> wanted = {}) noexcept {
    if (!has_room(launch, channel) || channel.idle_count == 0) return nullptr;
    std::uint64_t chunk = wanted.value_or(0);
    if (launch.work.by_copies) {
        chunk = next_copy(launch, channel);
        launch.shared.next_chunk.fetch_add(1, std::memory_order_relaxed); // counts the taken chunks
    } else if (!wanted)
        chunk = launch.shared.next_chunk.fetch_add(1, std::memory_order_relaxed);
    else if (!launch.shared.next_chunk.compare_exchange_strong(chunk, chunk + 1, std::memory_order_relaxed))
        return nullptr;
    if (chunk >= launch.work.end_chunk) return nullptr;
    staged_slot *const slot = channel.idle[--channel.idle_count]; // the slot used last is still in a cache
    slot->chunk = launch.work.cut->chunk(chunk);
    return slot;
}

std::byte *begin_of(const staged_slot &slot) noexcept { return slot.host + slot.chunk.lead; }

bool is_filled(const staging_launch &launch, std::uint32_t block) noexcept {
    return !launch.work.is_to_device() && launch.record.channels[block].taken_back != low_half(seen_by(launch, block));
}

// Streaming stores into slots use memory bandwidth twice: when the slot is written and when the device reads it. One
// link leaves enough bandwidth for that, but the links of several devices do not.
bool streams_into_slots(const staging_launch &launch) noexcept {
    return launch.work.are_stores_streamed && staging_buffers::devices_at_work() <= 1;
}

// The stream of a copy-engine launch that was cut short does not wait for the workers. Bytes that arrive later must not
// be written to the program's memory, which may have been freed. Must be called while away.
bool is_discarded(const staging_launch &launch) noexcept {
    return launch.work.by_copies && launch.shared.is_cut_short.load(std::memory_order_seq_cst);
}

// Whether the stream of a copy to the device does not wait for the next chunk of the channel, because the launch was
// cut short. The program may have freed the source. Must be called while away.
bool is_left_out(const staging_launch &launch, const staging_channel &channel) noexcept {
    return is_discarded(launch) &&
           next_copy(launch, channel) >= launch.shared.copies_enqueued.load(std::memory_order_relaxed);
}

void note_failure(const staging_launch &launch, const staged_chunk &chunk, const file_failure &failed) noexcept {
    if (!failed) return;
    const staged_list *const list = launch.work.cut->list();
    const std::uint64_t at = list ? list->bytes_before(chunk.row, failed.offset) : launch.work.index;
    if (launch.work.progress->fail(failed, at) && failed.code != file_failure::cancelled)
        ++launch.work.buffers->failed_files;
}

// Transfers a chunk of a file. After a failure, the other chunks of the copy are not transferred. Must be called while
// away.
void transfer(staging_launch &launch, const staged_chunk &chunk, std::byte *slot) noexcept {
    const staging &cut = *launch.work.cut;
    const staged_progress &progress = *launch.work.progress;
    const auto has_failed = [&]() noexcept { return progress.has_failed.load(std::memory_order_relaxed); };
    const bool is_cancelled = progress.is_cancelled.load(std::memory_order_relaxed);
    if (cut.box().writes_file && !is_cancelled &&
        !launch.shared.is_space_reserved.exchange(true, std::memory_order_relaxed))
        reserve_space(cut);
    if (!has_failed())
        note_failure(launch, chunk,
                     is_cancelled ? file_failure{file_failure::cancelled, file_offset(cut, chunk)}
                                  : transfer_chunk(cut, chunk, slot));
    if (!cut.box().writes_file) return;
    const bool is_last = launch.shared.writes_left.fetch_sub(1, std::memory_order_acq_rel) == 1;
    if (is_last && !has_failed())
        note_failure(launch, chunk, {cut.box().file->file.end_writes(), cut.box().host.address});
}

// The host's half of a chunk. Must be called while away.
void fill(staging_launch &launch, const staged_slot &slot) noexcept {
    const staging &cut = *launch.work.cut;
    if (!cut.box().file)
        fill_slot(cut, slot.chunk, begin_of(slot), streams_into_slots(launch));
    else
        transfer(launch, slot.chunk, begin_of(slot));
}
void empty(staging_launch &launch, const staged_chunk &chunk, std::byte *bytes, bool streams) noexcept {
    const staging &cut = *launch.work.cut;
    if (is_discarded(launch)) return;
    if (!cut.box().file)
        empty_slot(cut, chunk, bytes, streams);
    else
        transfer(launch, chunk, bytes);
}

// Transfers the next chunk between a file and the program's memory. The stream waits for the end of the launch.
std::uint64_t transfer_next(staging_launch &launch, std::uint32_t block) noexcept {
    staging_channel &channel = launch.record.channels[block];
    if (!has_room(launch, channel)) return 0;
    const std::uint64_t next = launch.shared.next_chunk.fetch_add(1, std::memory_order_relaxed);
    if (next >= launch.work.end_chunk) return 0;
    const staged_chunk chunk = launch.work.cut->chunk(next);
    {
        const at_memory away(channel);
        transfer(launch, chunk, nullptr);
    }
    count_arrival(launch, chunk);
    return chunk.bytes();
}

std::uint64_t fill_next(staging_launch &launch, std::uint32_t block) noexcept {
    staging_channel &channel = launch.record.channels[block];
    std::optional<std::uint64_t> touched;
    if (launch.work.buffers->is_crowded() && has_room(launch, channel) && !launch.work.cut->box().file) {
        touched = launch.work.by_copies
                      ? next_copy(launch, channel)
                      : std::min(launch.shared.next_chunk.load(std::memory_order_relaxed), launch.work.end_chunk - 1);
        const at_memory away(channel);
        if (!is_left_out(launch, channel)) touch_source(*launch.work.cut, launch.work.cut->chunk(*touched));
    }
    staged_slot *const slot = next_to_publish(launch, channel, touched);
    if (!slot) return 0;
    channel.in_use = 1;
    {
        const at_memory away(channel);
        if (!is_left_out(launch, channel)) fill(launch, *slot);
    }
    channel.in_use = 0;
    publish(launch, block, *slot);
    return slot->chunk.bytes();
}

std::uint64_t deliver_parcel(staging_launch &launch, staging_channel &channel) noexcept {
    staged_parcel *const parcel = channel.parcels;
    channel.parcels = parcel->next;
    const staged_chunk chunk = parcel->chunk;
    {
        const at_memory away(channel);
        empty(launch, chunk, parcel->bytes() + chunk.lead, false);
        free_parcel(*launch.work.buffers->parcel_memory, parcel);
    }
    count_arrival(launch, chunk);
    return chunk.bytes();
}

std::uint64_t empty_next(staging_launch &launch, std::uint32_t block) noexcept {
    staging_channel &channel = launch.record.channels[block];
    if (!channel.parcels && is_filled(launch, block) && launch.work.buffers->is_crowded()) {
        const staged_chunk chunk = oldest_published(channel).chunk;
        const at_memory away(channel);
        if (!launch.work.cut->box().file && !is_discarded(launch)) touch_destination(*launch.work.cut, chunk);
    }
    if (channel.parcels) return deliver_parcel(launch, channel);
    if (!is_filled(launch, block)) return 0;
    staged_slot &slot = oldest_published(channel);
    ++channel.taken_back;
    channel.in_use = 1;
    {
        const at_memory away(channel);
        empty(launch, slot.chunk, begin_of(slot), launch.work.are_stores_streamed);
    }
    channel.in_use = 0;
    count_arrival(launch, slot.chunk);
    channel.idle[channel.idle_count++] = &slot;
    return slot.chunk.bytes();
}

} // namespace

bool has_started(const staging_launch &launch) noexcept {
    for (std::uint32_t block = 0; block <= door_of(launch, launch.work.blocks - 1); ++block)
        if (is_present(launch, block)) return true;
    return false;
}

bool has_started_since(const launch_record &record, std::uint32_t ended) noexcept {
    return high_half(atomic_word(record.shared->seen[0]).load(std::memory_order_acquire)) != ended << 1;
}

bool has_left(const staging_launch &launch) noexcept {
    for (std::uint32_t block = 0; block <= door_of(launch, launch.work.blocks - 1); ++block)
        if (presence_of(launch, block) != launch.record.channels[block].ended << 1) return false;
    return true;
}

bool is_at_work(const staging_launch &launch, const tracked_context *but) noexcept {
    for (std::uint32_t block = 0; block < launch.work.blocks; ++block)
        if ((!but || launch.work.context_of(block) != but) &&
            low_half(seen_by(launch, block)) != launch.record.channels[block].published)
            return true;
    return false;
}

void publish_end(staging_launch &launch) noexcept {
    for (std::uint32_t block = 0; block < launch.work.blocks; ++block) {
        staging_channel &channel = launch.record.channels[block];
        channel.ended = (channel.ended + 1) & 0x7fffffff;
        channel.is_present = false;
        if (launch.work.by_copies && block != 0) // the stream writes this only for its own presence word
            atomic_word(launch.record.shared->seen[block])
                .store(std::uint64_t{channel.ended} << 33 | channel.published, std::memory_order_relaxed);
        if (launch.shared.is_cut_short) // for a copy that was enqueued although no worker will serve it
            atomic_word(launch.record.shared->mailboxes[block].published)
                .store(channel.published + 1, std::memory_order_release);
        atomic_word(launch.record.shared->mailboxes[block].ended).store(channel.ended, std::memory_order_release);
    }
}

void pass_by(staging_launch &launch, std::uint32_t block) noexcept {
    constexpr std::uint64_t in_and_out = std::uint64_t{2} << 32;
    atomic_word(launch.record.shared->seen[block]).fetch_add(in_and_out, std::memory_order_release);
}

void abort_blocks(staging_launch &launch) noexcept {
    for (std::uint32_t block = 0; block < launch.work.blocks; ++block)
        atomic_word(launch.record.shared->mailboxes[block].ended).store(gpu::ring_aborted, std::memory_order_release);
}

void look_at(staging_launch &launch, std::uint32_t block) noexcept {
    staging_channel &channel = launch.record.channels[block];
    channel.is_present = is_present(launch, door_of(launch, block));
    const std::uint64_t seen = seen_by(launch, block);
    while (launch.work.is_to_device() && channel.taken_back != low_half(seen)) {
        count_arrival(launch, oldest_published(channel).chunk);
        take_back(channel);
    }
}

void take_back_all(staging_channel &channel) noexcept {
    while (channel.taken_back != channel.published)
        take_back(channel);
}

bool has_arrived(const staging_launch &launch, std::uint32_t block) noexcept {
    return launch.record.channels[block].parcels || is_filled(launch, block);
}

bool move_to_parcel(staging_launch &launch, std::uint32_t block, staged_parcel &parcel) noexcept {
    if (!is_filled(launch, block)) return false;
    staging_channel &channel = launch.record.channels[block];
    const staged_slot &slot = oldest_published(channel);
    parcel.chunk = slot.chunk;
    std::memcpy(parcel.bytes(), slot.host, std::min(parcel.room, launch.work.buffers->slot_size + slot_margin));
    take_back(channel);
    staged_parcel **last = &channel.parcels;
    while (*last)
        last = &(*last)->next;
    *last = &parcel;
    return true;
}

void free_parcel(const allocator &memory, staged_parcel *parcel) noexcept {
    if (parcel) memory.deallocate(parcel, sizeof(staged_parcel) + parcel->room);
}

bool has_room(const staging_launch &launch, const staging_channel &channel) noexcept {
    return channel.is_present && channel.published - channel.taken_back < gpu::messages_at_once &&
           has_chunk(launch, channel);
}

std::uint64_t advance(staging_launch &launch, std::uint32_t block) noexcept {
    staging_channel &channel = launch.record.channels[block];
    look_at(launch, block);
    if (launch.work.is_on_host()) return transfer_next(launch, block);
    if (launch.work.is_to_device()) return fill_next(launch, block);
    const std::uint64_t moved = empty_next(launch, block);
    if (moved != 0 && compare_with_share(launch, channel) == slot_share::over) return moved; // others wait for the slot
    while (staged_slot *const slot = next_to_publish(launch, channel))
        publish(launch, block, *slot);
    return moved;
}

} // namespace ferry
