// The memory of the engine: the staging buffer of each device, in lots, and the launches with their records.
#include <algorithm>
#include <cstring>
#include <memory>
#include <new>

#include "staging/engine.h"

namespace ferry {

namespace {

static_assert(staging_buffers::max_lots == 1 + max_staged_links);

constexpr std::uint64_t max_launches_of_a_page = 128, min_launches_of_a_page = 16;

std::uint64_t room_of_slot(std::uint64_t slot_size) noexcept { return slot_size + slot_margin; }

} // namespace

// Enters the primary context. Pinned memory ends with its context, so it must not be allocated in a context of the
// program.
error staging_engine::enter_device(int device, context_scope &scope) noexcept {
    CUcontext context = nullptr;
    if (error failed = contexts_.get_primary(device, context)) return failed;
    return scope.enter(context);
}

error staging_engine::provide(int device, bool needs_threads) noexcept {
    const std::lock_guard lock(mutex_);
    context_scope scope(cu_);
    if (error failed = enter_device(device, scope)) return failed;
    if (error failed = make_buffers(device)) return failed;
    device_buffers &of = *buffers_[device].load(std::memory_order_relaxed);
    if (pages_.size() == 0)
        if (error failed = add_launches(device)) return failed;
    if (!of.buffers.memory[0])
        if (error failed = add_lot(of, 0)) return failed;
    const error refused = start_threads(of);
    if (!options_.submit) add_other_slots(of);
    return needs_threads ? refused : ok;
}

error staging_engine::make_buffers(int device) noexcept {
    if (buffers_[device].load(std::memory_order_relaxed)) return {};
    const std::uint32_t room = std::min(options_.slots * max_staged_links, staging_buffers::max_slots);
    void *const place = memory_.allocate(sizeof(device_buffers), alignof(device_buffers));
    void *const slots = memory_.allocate(room * sizeof(staged_slot), alignof(staged_slot));
    if (!place || !slots) {
        memory_.deallocate(place, sizeof(device_buffers));
        memory_.deallocate(slots, room * sizeof(staged_slot));
        return no_memory;
    }
    auto *const made = new (place) device_buffers;
    made->engine = this;
    made->device = device;
    made->buffers.room = room;
    made->buffers.slot_size = options_.slot_size;
    made->buffers.slots = static_cast<staged_slot *>(slots);
    made->buffers.parcel_memory = &memory_;
    std::uninitialized_default_construct_n(made->buffers.slots, room);
    buffers_[device].store(made, std::memory_order_release);
    return {};
}

staging_engine::slot_range staging_engine::slots_of_lot(const staging_buffers &buffers,
                                                        std::uint32_t lot) const noexcept {
    const std::uint32_t begin = lot == 0 ? 0 : lot == 1 ? buffers.used[0] : (lot - 1) * options_.slots;
    const std::uint32_t end = std::min(lot == 0 ? options_.first_slots : lot * options_.slots, buffers.room);
    return {begin, end > begin ? end - begin : 0};
}

// Must be called in the device's context. If less memory can be pinned, there are fewer slots. If fewer than two slots
// of the first lot fit, its slots are smaller: copy-engine launches never use all slots.
error staging_engine::add_lot(device_buffers &of, std::uint32_t lot) noexcept {
    staging_buffers &buffers = of.buffers;
    const auto [begin, wanted] = slots_of_lot(buffers, lot);
    if (wanted == 0 || buffers.memory[lot]) return {};
    if (lot == 0) buffers.slot_size = options_.slot_size;
    const std::uint64_t fewest = lot == 0 ? std::min(wanted, 2U) : 1U;
    const std::uint64_t least = fewest * room_of_slot(lot == 0 ? min_slot : buffers.slot_size);
    staged_memory &memory = buffers.memory[lot];
    if (error failed = memory.allocate(cu_, pinned_, wanted * room_of_slot(buffers.slot_size), least,
                                       devices_[of.device].info.numa_node, host_owner::staging))
        return failed;
    if (memory.block.size < fewest * room_of_slot(buffers.slot_size))
        buffers.slot_size = (memory.block.size / fewest - slot_margin) / min_slot * min_slot;
    const std::uint64_t room = room_of_slot(buffers.slot_size);
    const auto count = static_cast<std::uint32_t>(std::min<std::uint64_t>(wanted, memory.block.size / room));
    for (std::uint32_t i = 0; i < count; ++i) {
        staged_slot &slot = buffers.slots[begin + i];
        slot.host = memory.host() + i * room;
        slot.device_address = memory.device_address + i * room;
        slot.lot = lot;
    }
    buffers.used[lot] = count;
    staging_bytes_ += memory.block.size;
    scheduler_.add_slots(buffers, buffers.slots + begin, count);
    return {};
}

error staging_engine::add_other_lots(device_buffers &of) noexcept {
    for (std::uint32_t lot = 0; lot <= of.links; ++lot) // the first lot may have been trimmed
        if (error failed = of.engine->add_lot(of, lot)) return failed;
    return {};
}

// Adds the remaining lots on another thread, because the allocation may wait for work that waits for slots. If no
// thread can be started, only the first lot is used.
void staging_engine::add_other_slots(device_buffers &of) noexcept {
    if (of.is_adding.load(std::memory_order_acquire)) return;
    of.adding.join();
    of.wants_more = false;
    bool has_all = true;
    for (std::uint32_t lot = 0; lot <= of.links; ++lot)
        has_all &= of.buffers.memory[lot] || !slots_of_lot(of.buffers, lot).count;
    if (has_all || threads_.is_closing()) return;
    const auto add = [](void *given) {
        device_buffers &buffers = *static_cast<device_buffers *>(given);
        {
            context_scope scope(buffers.engine->cu_);
            if (!buffers.engine->enter_device(buffers.device, scope))
                static_cast<void>(add_other_lots(buffers)); // without them, copies are slower
        }
        buffers.engine->threads_.temporary.give_back(1);
        buffers.is_adding.store(false, std::memory_order_release);
    };
    if (!threads_.temporary.take(1)) {
        of.wants_more = true; // a later copy tries again
        return;
    }
    of.is_adding.store(true, std::memory_order_relaxed);
    if (of.adding.start(add, &of, options_.traits)) return;
    threads_.temporary.give_back(1);
    of.is_adding.store(false, std::memory_order_relaxed);
}

void staging_engine::finish_preparing(int device, CUcontext current) noexcept {
    const tracked_context *context = nullptr; // on failure, the first copy reports the error
    if (!tracked_.track(current, context))
        if (side_stream *const made = sides_.take(*context)) side_streams::release(*made);
    const std::lock_guard lock(mutex_);
    device_buffers *const of = buffers_[device].load(std::memory_order_relaxed);
    if (!of) return;
    of->adding.join();
    if (options_.submit || !of->wants_more.exchange(false)) return;
    // The budget of threads was used up. This call may wait, so it adds the lots itself.
    context_scope scope(cu_);
    if (!enter_device(device, scope)) static_cast<void>(add_other_lots(*of));
}

error staging_engine::add_launches(int device) noexcept {
    context_scope scope(cu_);
    if (error failed = enter_device(device, scope)) return failed;
    if (!pages_.reserve(pages_.size() + 1)) return no_memory;
    launch_page page = {};
    constexpr std::uint64_t record = sizeof(gpu::ring_record);
    if (error failed = page.records.allocate(cu_, pinned_, max_launches_of_a_page * record,
                                             min_launches_of_a_page * record, any_node, host_owner::staging))
        return failed;
    std::memset(page.records.host(), 0, page.records.block.size);
    page.count = static_cast<std::uint32_t>(page.records.block.size / record);
    page.launches =
        static_cast<staging_launch *>(memory_.allocate(page.count * sizeof(staging_launch), alignof(staging_launch)));
    if (!page.launches) {
        page.records.free(cu_, contexts_, pinned_);
        return no_memory;
    }
    for (std::uint32_t i = page.count; i-- != 0;) {
        staging_launch &launch = *new (page.launches + i) staging_launch(memory_);
        launch.record.shared = reinterpret_cast<gpu::ring_record *>(page.records.host()) + i;
        launch.record.device_address = page.records.device_address + i * record;
        launch.record.engine = this;
        scheduler_.add(launch);
    }
    pages_.append_reserved(page);
    return {};
}

error staging_engine::widen(int device, std::uint32_t links) noexcept {
    if (error failed = provide(device, true)) return failed;
    const std::lock_guard lock(mutex_);
    device_buffers &of = *buffers_[device].load(std::memory_order_relaxed);
    context_scope scope(cu_);
    if (error failed = enter_device(device, scope)) return failed;
    of.adding.join();
    of.links = std::max(of.links.load(), std::min(links, max_staged_links));
    return options_.submit ? ok : add_other_lots(of);
}

// ---- Release

error staging_engine::free_lot(device_buffers &of, std::uint32_t lot) noexcept {
    staging_buffers &buffers = of.buffers;
    const std::uint64_t size = buffers.memory[lot].block.size;
    if (size == 0 || !scheduler_.take_slots(buffers, lot)) return {};
    if (error failed = buffers.memory[lot].free(cu_, contexts_, pinned_)) {
        staged_slot *const first = std::find_if(buffers.slots, buffers.slots + buffers.room,
                                                [&](const staged_slot &slot) noexcept { return slot.lot == lot; });
        scheduler_.add_slots(buffers, first, buffers.used[lot]);
        return failed;
    }
    staging_bytes_ -= size;
    buffers.used[lot] = 0;
    return {};
}

error staging_engine::trim() noexcept {
    const std::lock_guard lock(mutex_);
    error first_failed;
    const auto note = [&](const error &failed) noexcept {
        if (!first_failed) first_failed = failed;
        return failed;
    };
    for (std::atomic<device_buffers *> &one : buffers_) {
        device_buffers *const of = one.load(std::memory_order_relaxed);
        context_scope scope(cu_);
        if (!of || of->is_adding.load(std::memory_order_acquire) || note(enter_device(of->device, scope))) continue;
        bool is_kept = false;
        for (std::uint32_t lot = staging_buffers::max_lots; lot-- > 0;) {
            if (lot != 0 || !is_kept) note(free_lot(*of, lot));
            is_kept |= static_cast<bool>(of->buffers.memory[lot]);
        }
        of->wants_more = true;
    }
    return first_failed;
}

// ---- Threads for the devices that have buffers

std::uint32_t staging_engine::threads_for_all_devices() const noexcept {
    if (options_.threads) return options_.threads;
    std::uint32_t devices = 0;
    for (const std::atomic<device_buffers *> &one : buffers_)
        devices += one.load(std::memory_order_relaxed) != nullptr;
    return default_threads(options_.processors, devices, serves_files_.load(std::memory_order_relaxed));
}

// Whether the threads that are started for a device run on the processors of its NUMA node, where each thread then
// fills slots in local memory. Like the threads for the whole process, they leave half of the processors to the
// program.
bool staging_engine::find_home(device_buffers &of, std::uint32_t threads) const noexcept {
    const int node = devices_[of.device].info.numa_node;
    if (!options_.processors_of_node || options_.threads || !is_home(node)) return false;
    if (!of.traits.processors) { // otherwise threads may already read it
        of.processors = options_.processors_of_node(node);
        if (options_.traits.processors) of.processors.keep(*options_.traits.processors);
        of.traits = options_.traits;
        of.traits.processors = &of.processors;
    }
    const std::uint32_t processors = of.processors.count();
    return processors >= 2 * threads && processors < options_.processors; // otherwise all processors are on that node
}

error staging_engine::start_threads(device_buffers &of) noexcept {
    const int node = devices_[of.device].info.numa_node;
    const std::uint32_t wanted = threads_.limit(threads_for_all_devices());
    if (!threads_.has_enough(wanted)) {
        const bool have_home = find_home(of, wanted - std::min(threads_.count(), wanted));
        threads_.start(wanted, have_home ? node : any_node, have_home ? of.traits : options_.traits);
    }
    if (threads_.have_home(node)) of.buffers.home = node;
    if (!threads_.can_serve()) return no_memory;
    threads_.start_watchdog();
    return {};
}

} // namespace ferry
