#include "serve.h"

#include "crowd.h"

namespace ferry_run {

namespace {

bool is_default(CUstream stream) noexcept { return reinterpret_cast<std::uintptr_t>(stream) <= 2; }

// The driver looks up addresses in the current context, and ferry in the stream's context.
bool has_own_context(const driver &on, CUstream stream) noexcept {
    CUcontext current = nullptr, owner = nullptr;
    if (on.cuCtxGetCurrent(&current) != CUDA_SUCCESS || !current) return false;
    return is_default(stream) || (on.cuStreamGetCtx(stream, &owner) == CUDA_SUCCESS && owner == current);
}

bool is_captured(const driver &on, CUstream stream) noexcept {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    return on.cuStreamIsCapturing(stream, &status) != CUDA_SUCCESS || status != CU_STREAM_CAPTURE_STATUS_NONE;
}

// A contiguous copy between memory that the driver reads and writes directly runs at the speed of the link or of the
// memory.
bool is_fast_line(const driver &on, const request &asked, const ferry_copy_desc &copy, traffic &kind) noexcept {
    const CUdeviceptr from = copy.source.address, to = copy.destination.address;
    const auto look_at_host = [&](CUdeviceptr address, traffic pinned, traffic pageable) {
        const bool is_pinned = on.is_pinned(address);
        if (is_pinned || !on.memory_type(address)) kind = is_pinned ? pinned : pageable;
        return is_pinned;
    };
    if (asked.source == end::device && asked.destination == end::host)
        return look_at_host(to, traffic::device_to_pinned, traffic::device_to_pageable);
    if (asked.source == end::host && asked.destination == end::device)
        return look_at_host(from, traffic::pinned_to_device, traffic::pageable_to_device);
    const auto is_on_device = [&](end one, CUdeviceptr address) {
        return one == end::device || on.memory_type(address) == CU_MEMORYTYPE_DEVICE;
    };
    const bool from_device = is_on_device(asked.source, from), to_device = is_on_device(asked.destination, to);
    if (from_device && to_device) {
        kind = traffic::on_device;
        if (on.device_count == 1 || on.device_of(from) == on.device_of(to)) return true;
        kind = traffic::between_devices;
        return false;
    }
    if (to_device && on.is_pinned(from)) kind = traffic::pinned_to_device;
    if (from_device && on.is_pinned(to)) kind = traffic::device_to_pinned;
    return kind == traffic::pinned_to_device || kind == traffic::device_to_pinned;
}

bool matches(end one, int32_t memory) noexcept {
    switch (one) {
    case end::host:
        return memory == FERRY_MEMORY_PAGEABLE || memory == FERRY_MEMORY_PINNED;
    case end::device:
        return memory == FERRY_MEMORY_DEVICE;
    case end::array:
        return memory == FERRY_MEMORY_ARRAY;
    case end::any:
        return memory != FERRY_MEMORY_MANAGED;
    }
    return false;
}

traffic kind_of(const ferry_explanation &plan) noexcept {
    const auto is_host = [](int32_t memory) {
        return memory == FERRY_MEMORY_PAGEABLE || memory == FERRY_MEMORY_PINNED;
    };
    const bool from_host = is_host(plan.source_memory), to_host = is_host(plan.destination_memory);
    if (from_host && to_host) return traffic::other;
    if (from_host)
        return plan.source_memory == FERRY_MEMORY_PAGEABLE ? traffic::pageable_to_device : traffic::pinned_to_device;
    if (to_host)
        return plan.destination_memory == FERRY_MEMORY_PAGEABLE ? traffic::device_to_pageable
                                                                : traffic::device_to_pinned;
    return plan.source_device == plan.destination_device ? traffic::on_device : traffic::between_devices;
}

struct way {
    outcome served, reported;
    std::uint64_t time_ns; // predicted
};

outcome outcome_of(int32_t route) noexcept {
    switch (route) {
#define FERRY_ROUTE(name, number, ...)                                                                                 \
    case number:                                                                                                       \
        return outcome::by_##name##_route;
        FERRY_ROUTES(FERRY_ROUTE)
#undef FERRY_ROUTE
    default:
        return outcome::by_driver_route;
    }
}

way way_of(const ferry_explanation &plan) noexcept {
    const auto ns = ferry::entry_of_number(plan.route).ns;
    way taken = {outcome_of(plan.route), outcome::report_only_other, ns ? plan.*ns : plan.driver_ns};
    if (taken.served == outcome::by_staged_route) taken.reported = outcome::report_only_staged;
    if (taken.served == outcome::by_kernel_route) taken.reported = outcome::report_only_kernel;
    if (taken.served == outcome::by_driver_route) taken.reported = outcome::driver_is_fastest;
    return taken;
}

// Changes a byte of the copy, so that a program that compares its bytes detects it.
void flip_a_byte(const driver &on, const request &asked, const ferry_copy_desc &copy, bool is_complete) noexcept {
    const ferry_place &from = copy.source, &to = copy.destination;
    const auto first_byte = [](const ferry_place &place) {
        return place.address + place.x + place.row_pitch * (place.y + place.slice_height * place.z);
    };
    if (to.array) return;
    if (on.memory_type(to.address) != CU_MEMORYTYPE_DEVICE) {
        // A different byte than the byte that the copy to the device changed.
        if (is_complete) *reinterpret_cast<unsigned char *>(first_byte(to) + (copy.width > 1)) ^= 0xff;
        return;
    }
    const bool is_readable = !from.array && on.memory_type(from.address) != CU_MEMORYTYPE_DEVICE;
    const unsigned char old = is_readable ? *reinterpret_cast<const unsigned char *>(first_byte(from)) : 0;
    on.cuMemsetD8Async(first_byte(to), static_cast<unsigned char>(old ^ 0xff), 1, asked.stream);
}

bool is_on_legacy_stream(const request &asked) noexcept { return !asked.stream || asked.stream == CU_STREAM_LEGACY; }

// Whether the program may expect the bytes at its own end when the call returns.
bool is_awaited(const request &asked, const ferry_explanation &plan) noexcept {
    if (plan.destination_memory == FERRY_MEMORY_PAGEABLE) return !(asked.is_async && the_settings().leaves_async);
    const bool has_host_end = plan.source_memory == FERRY_MEMORY_PAGEABLE ||
                              plan.source_memory == FERRY_MEMORY_PINNED ||
                              plan.destination_memory == FERRY_MEMORY_PINNED;
    return !asked.is_async && has_host_end; // the driver's synchronous copies on a device do not wait either
}

// Provides the guarantees of the driver's calls. The calling thread takes part in such copies. A synchronous copy reads
// its source only after earlier work, whereas the order CALL could read a small source before.
ferry_copy_options options_for(const request &asked) noexcept {
    ferry_copy_options options = {};
    options.struct_size = sizeof options;
    options.source_order =
        asked.is_async || asked.bytes >= worth_staging ? FERRY_SOURCE_ORDER_CALL : FERRY_SOURCE_ORDER_STREAM;
    if (!asked.is_async || !the_settings().leaves_async) options.flags = FERRY_COPY_DESTINATION_WRITTEN;
    return options;
}

verdict copy_by_ferry(const driver &on, const copying_instance &ferry, const request &asked,
                      const ferry_copy_desc &copy, const ferry_copy_options &options,
                      const ferry_explanation &plan) noexcept {
    const way taken = way_of(plan);
    verdict found = {taken.served, kind_of(plan)};
    if (!on.is_software && plan.driver_ns > taken.time_ns) found.saved_ns = plan.driver_ns - taken.time_ns;
    if (the_settings().mode == mode::report_only) {
        found.what = taken.reported;
        return found;
    }
    const bool is_complete = is_awaited(asked, plan);
    const relaxed_captures relaxed(on);
    ferry_ticket *ticket = nullptr;
    const bool waits = is_complete && !asked.is_async;
    if (ferry_copy_async(ferry.get(), &copy, &options, asked.stream, waits ? &ticket : nullptr, nullptr) !=
        FERRY_SUCCESS)
        return {outcome::refused, found.kind}; // the driver's call returns its own error to the program
    // The bytes of an asynchronous copy have arrived, but its stream may continue a moment later than after the
    // driver's call. Querying the legacy stream would break captures on other streams, and include their work.
    if (waits) found.result = ferry.wait_for(ticket, asked.stream);
    if (is_complete && asked.is_async && !is_on_legacy_stream(asked)) found.result = on.settle(asked.stream);
    if (the_settings().flips_a_byte) flip_a_byte(on, asked, copy, is_complete);
    return found;
}

bool is_left_by_a_crowd(const request &asked) noexcept {
    return asked.bytes < worth_staging_in_a_crowd && !the_settings().takes_all &&
           !has_narrow_rows(asked.bytes, asked.rows) && is_crowded();
}

} // namespace

bool may_enqueue(const driver &on, CUstream stream, outcome &why) noexcept {
    why = has_own_context(on, stream) ? outcome::captured : outcome::other_context;
    return why == outcome::captured && !is_captured(on, stream);
}

verdict serve(const request &asked, const ferry_copy_desc &copy) noexcept {
    const inside_ferry inside;
    traffic kind = kind_by_name(asked);
    const driver *const on = the_driver();
    if (!on) return {outcome::no_ferry, kind};
    if (asked.is_line && !the_settings().takes_all && is_fast_line(*on, asked, copy, kind))
        return {outcome::driver_is_fastest, kind};
    if (outcome why; !may_enqueue(*on, asked.stream, why)) return {why, kind};
    if (on->is_synchronised(copy.source.address) || on->is_synchronised(copy.destination.address))
        return {outcome::other_memory, kind};
    // Querying ferry takes 6 us, and the driver's copy about 300 us.
    if ((kind == traffic::pageable_to_device || kind == traffic::device_to_pageable) && is_left_by_a_crowd(asked))
        return {outcome::crowded, kind};

    const copying_instance ferry;
    if (!ferry.get()) return {outcome::no_ferry, kind};
    const ferry_copy_options options = options_for(asked);
    ferry_explanation plan = {};
    plan.struct_size = sizeof plan;
    if (ferry_copy_explain_async(ferry.get(), &copy, &options, asked.stream, &plan, nullptr) != FERRY_SUCCESS)
        return {outcome::refused, kind};
    kind = kind_of(plan);
    if (!matches(asked.source, plan.source_memory) || !matches(asked.destination, plan.destination_memory) ||
        kind == traffic::other)
        return {outcome::other_memory, kind};
    // The driver orders these copies with the work of all devices involved, and ferry only with the work of the stream.
    const auto is_elsewhere = [&](int32_t device) { return device >= 0 && device != plan.context_device; };
    const bool is_alone_here = !is_elsewhere(plan.source_device) && !is_elsewhere(plan.destination_device);
    if (!is_alone_here && (!asked.is_async || is_on_legacy_stream(asked))) return {outcome::driver_is_fastest, kind};
    const bool is_by_driver = plan.route == FERRY_ROUTE_DRIVER;
    if (plan.route == FERRY_ROUTE_NONE || (is_by_driver && !the_settings().takes_all))
        return {outcome::driver_is_fastest, kind};
    if (plan.route == FERRY_ROUTE_STAGED && is_left_by_a_crowd(asked)) return {outcome::crowded, kind};
    return copy_by_ferry(*on, ferry, asked, copy, options, plan);
}

} // namespace ferry_run
