// The calling thread reads a small pageable source into pinned memory, from which the driver copies it. The call does
// not wait, and the program may write the source as soon as the call returns.
#include <cstring>

#include "routes/driver.h"
#include "routes/ends.h"

namespace ferry {

namespace {

// Whether the copy could only be staged without a kernel, although the caller may read the source. Behind other work,
// few such copies find slots. For the others, the driver's call would wait for that work. A call that must not wait reads
// only what its documentation says.
bool would_need_slots(const copy_question &copy) noexcept {
    const auto &[call, profile, kernels, staging, links] = copy.facts;
    const bool has_kernel =
        !call.preferences.no_kernels && !is_obstacle(kernels.why_not) && !is_obstacle(staging.reach);
    return call.may_read_early && !call.preferences.is_urgent && !call.preferences.no_wait && !has_kernel;
}

obstacle why_not_buffered(const copy_question &copy) noexcept {
    const call_facts &call = copy.facts.call;
    // Behind other copies of its batch, the driver's call would wait for them, unless it sends the bytes with its
    // commands.
    const bool follows_batch = call.form == copy_form::asynchronous && call.is_source_final && !call.is_stream_idle &&
                               is_read_in_the_call(copy.shape) && !is_sent_with_commands(copy.shape);
    const bool is_read = is_read_early(copy.shape, call) || may_be_read_early(copy.shape, call) ||
                         would_need_slots(copy) || follows_batch;
    if (copy.shape.has_file()) return obstacle::file;
    if (!is_read) return obstacle::not_pageable;
    if (call.is_stream_idle && !call.preferences.no_wait) return obstacle::not_pageable; // the driver is faster
    return copy.shape.bytes() <= max_small_copy ? obstacle::none : obstacle::no_route;
}

void pack_rows(const shape &shape, std::byte *packed) noexcept {
    const shape_end &source = shape.source;
    for (std::uint64_t z = 0; z < shape.depth; ++z)
        for (std::uint64_t y = 0; y < shape.height; ++y, packed += shape.width) {
            const std::uint64_t row = source.span.first + (z * source.slice_height + y) * source.row_pitch;
            std::memcpy(packed, reinterpret_cast<const void *>(row), shape.width);
        }
}

// The block is free again once the copy has completed on the stream.
error run_buffered(machine &machine, const copy_step &step, const copy_site &site, staged_progress *) noexcept {
    const std::uint64_t bytes = step.shape.bytes();
    void *block = nullptr;
    read_block of_copy(machine.read_buffers, site.stream);
    read_block &reads = site.reads ? *site.reads : of_copy;
    if (error failed = reads.take(bytes, block, !step.call.preferences.no_wait)) return failed;
    pack_rows(step.shape, static_cast<std::byte *>(block));
    shape packed = step.shape;
    packed.source = packed_end(memory_kind::pinned, -1, reinterpret_cast<std::uintptr_t>(block), packed);
    const error failed = copy_by_driver(machine, packed, step.call, plan_for_driver(packed, step.call), site);
    machine.uploads.note({site.stream, step.call.context_device}, bytes, false);
    return failed;
}

} // namespace

const route buffered_route = {
    .kind = route_kind::buffered,
    .why_not = why_not_buffered,
    .predict = nullptr,
    .run = run_buffered,
    .may_fall_back = true,
    .prefer =
        [](const copy_question &) noexcept {
            return preference{true, FERRY_REASON_SOURCE_ORDER};
        },
    // The driver rejects unreadable memory.
    .prepare =
        [](machine &machine, const shape &shape, plan_facts &facts) noexcept {
            if (!is_readable(machine, shape.source.span)) return obstacle::pageable;
            if (!facts.call.preferences.no_wait || machine.read_buffers.has_block(shape.bytes())) return obstacle::none;
            return machine.are_blocks_ready() ? obstacle::busy : obstacle::not_prepared;
        },
    .call_name = [](const copy_step &step) noexcept { return driver_call_name(step.plan, step.call.form); },
};

} // namespace ferry
