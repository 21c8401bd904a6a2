// Operations that only query, between operations that copy. Their results must match the buffers.
#include <algorithm>
#include <chrono>
#include <thread>

#include "fuzz/operations.h"
#include "memory/ipc_handle.h"
#include "support/raw_objects.h"
#include "support/system.h"

namespace ferry::test {

namespace {

template <class Info> Info sized() {
    Info info = {};
    info.struct_size = sizeof info;
    return info;
}

} // namespace

void query_an_address(world &w) {
    const buffer &one = any_buffer(w);
    w.say("querying " + one.name());
    ferry_instance *const ferry = w.run.ferry.get();
    if (one.is_array()) {
        auto desc = sized<ferry_array_desc>();
        std::uint32_t element_size = 0;
        CUarray_st *const array = const_cast<buffer &>(one).array()->array();
        w.require(
            w.call(w.any_context(), [&] { return ferry_array_get_info(ferry, array, &desc, &element_size, nullptr); }));
        w.expect(element_size == one.element_size, "wrong element size of an array");
        return;
    }
    auto info = sized<ferry_address_info>();
    const std::uint64_t address = one.address + w.random.up_to(one.size() - 1);
    w.require(w.call(w.contexts[1], [&] { return ferry_address_get_info(ferry, address, &info, nullptr); }));
    if (one.kind == memory_kind::registered_in_part) return;
    const bool is_reached = one.kind == memory_kind::host_pool_of_one_device && one.device == 0; // the context's
    const std::int32_t memory = one.kind == memory_kind::managed          ? FERRY_MEMORY_MANAGED
                                : !one.traits().is_on_host                ? FERRY_MEMORY_DEVICE
                                : one.traits().is_pageable && !is_reached ? FERRY_MEMORY_PAGEABLE
                                                                          : FERRY_MEMORY_PINNED;
    w.expect(info.memory == memory, "wrong memory kind of an address");
    if (memory == FERRY_MEMORY_DEVICE) w.expect(info.device == one.device, "wrong device of an address");
    if (info.range_start)
        w.expect(info.range_start <= one.address && info.range_start + info.range_size >= one.address + one.size(),
                 "the range does not contain the buffer");
}

void query_the_rest(world &w) {
    w.say("querying the instance, its devices and staging");
    ferry_instance *const ferry = w.run.ferry.get();
    auto report = sized<ferry_report>();
    w.require(w.call(w.any_context(), [&] { return ferry_instance_get_report(ferry, &report, nullptr); }));
    w.expect(report.device_count == device_count(), "wrong number of devices in the report");
    auto device = sized<ferry_device_info>();
    w.require(w.call(w.any_context(), [&] { return ferry_device_get_info(ferry, 0, &device, nullptr); }));
    auto counters = sized<ferry_device_counters>();
    w.require(w.call(w.any_context(), [&] { return ferry_device_get_counters(ferry, 0, &counters, nullptr); }));
    auto memory = sized<ferry_device_memory_info>();
    w.require(w.call(w.any_context(), [&] { return ferry_device_get_memory(ferry, 0, &memory, nullptr); }));
    w.expect(memory.free <= memory.total, "more memory is free than the device has");
    auto usage = sized<ferry_usage>();
    w.require(w.call(w.any_context(), [&] { return ferry_instance_get_usage(ferry, &usage, nullptr); }));
    auto staging = sized<ferry_staging_info>();
    w.require(w.call(w.any_context(), [&] { return ferry_staging_get_info(ferry, &staging, nullptr); }));
    w.expect(staging.threads <= w.run.setting.staging_threads, "more staging threads than requested");
    if (device_count() > 1) {
        auto peer = sized<ferry_peer_info>();
        w.require(w.call(w.any_context(), [&] { return ferry_peer_get_info(ferry, 1, 0, &peer, nullptr); }));
    }
    auto pinned = sized<ferry_pool_stats>();
    w.require(w.call(w.any_context(), [&] { return ferry_pinned_pool_get_stats(w.sources.pinned, &pinned, nullptr); }));
    w.expect(pinned.used_current <= pinned.reserved_current, "the pinned pool uses more than it has reserved");
    if (!w.sources.device_pools[0]) return;
    auto pool = sized<ferry_pool_info>();
    w.require(
        w.call(w.any_context(), [&] { return ferry_pool_get_info(ferry, w.sources.device_pools[0], &pool, nullptr); }));
    w.expect(pool.location == FERRY_LOCATION_DEVICE && pool.index == 0 && !pool.is_default,
             "wrong attributes of a pool");
}

void push_and_pop_contexts(world &w) {
    w.say("pushing and popping contexts");
    ferry_instance *const ferry = w.run.ferry.get();
    const made_current scope(w.any_context());
    CUcontext before = nullptr, pushed = nullptr, popped = nullptr, after = nullptr;
    const int device = static_cast<int>(w.random.up_to(static_cast<std::uint64_t>(device_count() - 1)));
    w.require(ferry_context_get_current(ferry, &before, nullptr));
    w.require(ferry_context_push(ferry, device, w.random.one_in(2) ? nullptr : w.contexts.back(), nullptr));
    w.require(ferry_context_get_current(ferry, &pushed, nullptr));
    w.require(ferry_context_pop(ferry, &popped, nullptr));
    w.require(ferry_context_get_current(ferry, &after, nullptr));
    w.expect(pushed && pushed == popped && before == after, "push and pop changed the current context");
}

// Imports memory and events that this process exported, which must result in the original objects.
void share_with_itself(world &w) {
    buffer &one = any_buffer(w);
    w.say("sharing " + one.name());
    ferry_instance *const ferry = w.run.ferry.get();
    ferry_ipc_handle handle = {};
    ferry_error_info error = new_error();
    const bool can_share = one.kind == memory_kind::device || one.kind == memory_kind::device_pitched;
    const std::int32_t status =
        w.call(w.any_context(), [&] { return ferry_ipc_export_memory(ferry, one.address, 0, &handle, &error); });
    if (!has_second_process) {
        w.expect(status != FERRY_SUCCESS, "memory was exported that no other process can import");
        return;
    }
    if (!can_share) {
        w.expect(status == FERRY_ERROR_NOT_SHAREABLE ||
                     (status == FERRY_ERROR_ADDRESS && (one.is_array() || one.traits().is_pageable)),
                 "unexpected status for memory that cannot be shared");
    } else if (w.require(status)) {
        std::uint64_t address = 0;
        auto info = sized<ferry_ipc_info>();
        w.require(w.call(w.any_context(), [&] { return ferry_ipc_get_info(ferry, &handle, &info, nullptr); }));
        w.expect(info.kind == FERRY_IPC_MEMORY && info.is_own && info.device == one.device,
                 "a handle describes another object");
        w.require(w.call(w.any_context(), [&] { return ferry_ipc_import_memory(ferry, &handle, &address, nullptr); }));
        w.expect(address == one.address, "memory of this process was imported at another address");
        w.require(w.call(w.any_context(), [&] { return ferry_ipc_close_memory(ferry, address, nullptr, nullptr); }));
        // A damaged handle must be rejected.
        handle.bytes[w.random.up_to(sizeof handle.bytes - 1)] ^= static_cast<std::uint8_t>(1 + w.random.up_to(254));
        w.expect(w.call(w.any_context(), [&] { return ferry_ipc_import_memory(ferry, &handle, &address, nullptr); }) ==
                     FERRY_ERROR_HANDLE,
                 "a damaged handle was accepted");
    }
    CUevent_st *event = nullptr, *imported = nullptr;
    w.require(ferry_event_create(ferry, 0, FERRY_EVENT_INTERPROCESS | FERRY_EVENT_DISABLE_TIMING, &event, nullptr));
    w.require(w.call(w.any_context(), [&] { return ferry_ipc_export_event(ferry, event, &handle, nullptr); }));
    w.require(w.call(w.any_context(), [&] { return ferry_ipc_import_event(ferry, &handle, &imported, nullptr); }));
    w.expect(imported == event, "an event of this process was imported as another event");
    w.require(ferry_ipc_close_event(ferry, imported, nullptr));
    w.require(ferry_event_destroy(ferry, event, nullptr));
}

// Another process may state anything in a handle. An import must be within the memory that the process has lent.
void import_forged_handles(world &w) {
    if (!w.run.lent) return;
    ferry_instance *const ferry = w.run.ferry.get();
    std::uint64_t base = 0, inside = 0;
    w.say("importing forged handles");
    w.require(w.call(w.any_context(), [&] { return ferry_ipc_import_memory(ferry, w.run.lent, &base, nullptr); }));
    handle_contents contents;
    w.require(decode(*w.run.lent, contents).status);
    const std::uint64_t here = reinterpret_cast<std::uintptr_t>(&base);
    const std::uint64_t sizes[] = {0,    1,           4096,      lent_bytes / 2, lent_bytes, lent_bytes + 1,
                                   here, here - base, UINT64_MAX};
    for (std::uint64_t *const field : {&contents.offset, &contents.size, &contents.allocation_size})
        if (w.random.one_in(2)) *field = w.random.of(sizes) + w.random.up_to(1);
    if (w.random.one_in(2) && contents.size < UINT64_MAX - contents.offset)
        contents.allocation_size = std::max(contents.allocation_size, contents.offset + contents.size);
    for (std::uint64_t *const field : {&contents.original, &contents.buffer_id})
        if (w.random.one_in(4)) *field = w.random.up_to(1) ? 0 : *field + 1;
    if (w.random.one_in(8) && on_software_driver()) contents.payload[w.random.up_to(sizeof contents.payload - 1)] ^= 1;
    ferry_ipc_handle forged;
    encode(contents, forged);
    const std::int32_t status =
        w.call(w.any_context(), [&] { return ferry_ipc_import_memory(ferry, &forged, &inside, nullptr); });
    if (status == FERRY_SUCCESS) {
        const std::uint64_t offset = inside - base;
        w.expect(offset < lent_bytes && contents.size <= lent_bytes - offset, "a forged handle reaches other memory");
        w.require(w.call(w.any_context(), [&] { return ferry_ipc_close_memory(ferry, inside, nullptr, nullptr); }));
    } else {
        w.expect(status == FERRY_ERROR_HANDLE && !inside, "a forged handle was not refused as one");
    }
    w.require(w.call(w.any_context(), [&] { return ferry_ipc_close_memory(ferry, base, nullptr, nullptr); }));
}

// The copy must complete, and a trace must not report that it failed.
void end_a_context(world &w) {
    ferry_instance *const ferry = w.run.ferry.get();
    CUcontext ending = nullptr;
    w.say("ending a context with a copy in flight");
    if (!w.require(ferry_context_create(ferry, 0, 0, &ending, nullptr))) return;
    const std::uint64_t size = 1 + w.random.up_to(300'000);
    const bytes sent = random_bytes(size, w.random.up_to(1000));
    bytes got(size);
    {
        const made_current scope(ending);
        CUstream stream = nullptr;
        CUdeviceptr there = 0;
        w.require(raw().cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        w.require(raw().cuMemAlloc(&there, size));
        if (w.random.one_in(2)) {
            static constexpr auto hold = [](void *) { std::this_thread::sleep_for(std::chrono::microseconds(300)); };
            w.require(raw().cuLaunchHostFunc(stream, hold, nullptr));
        }
        const auto copy = [&](std::uint64_t to, std::uint64_t from) {
            w.require(ferry_copy_bytes_async(ferry, to, from, size, nullptr, stream, nullptr, nullptr));
        };
        copy(there, reinterpret_cast<std::uintptr_t>(sent.data()));
        copy(reinterpret_cast<std::uintptr_t>(got.data()), there);
    }
    w.require(ferry_context_destroy(ferry, ending, nullptr));
    w.expect(got == sent, "a copy was lost with its context");
}

void save_and_load_a_profile(world &w) {
    w.say("saving and loading a profile");
    ferry_instance *const ferry = w.run.ferry.get();
    std::uint64_t needed = 0;
    w.require(w.call(w.any_context(), [&] { return ferry_profile_save(ferry, 0, nullptr, 0, &needed, nullptr); }));
    std::string text(needed, '\0');
    w.require(w.call(w.any_context(),
                     [&] { return ferry_profile_save(ferry, 0, text.data(), text.size(), &needed, nullptr); }));
    if (w.random.one_in(2)) {
        w.require(
            w.call(w.any_context(), [&] { return ferry_profile_load(ferry, text.data(), text.size(), nullptr); }));
    } else {
        // A truncated profile must be rejected.
        const std::uint64_t cut = w.random.up_to(text.size() - 3);
        w.expect(ferry_profile_load(ferry, text.data(), cut, nullptr) == FERRY_ERROR_PROFILE,
                 "a truncated profile was accepted");
    }
}

} // namespace ferry::test
