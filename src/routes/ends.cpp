#include "routes/ends.h"

#include "system/readable.h"

namespace ferry {

error look_up_pool_ends(machine &machine, int context_device, shape &shape) noexcept {
    const auto look_up = [&](shape_end &end, const shape_end &other) noexcept -> error {
        if (end.kind != memory_kind::pageable && end.kind != memory_kind::host_pool) return {};
        if (!is_elsewhere(other, context_device)) return {};
        CUcontext there = nullptr;
        if (error failed = machine.contexts.get(other.device, there)) return failed;
        context_scope scope(machine.cu);
        if (error failed = scope.enter(there)) return failed;
        address_facts facts;
        if (error failed = look_up_address(machine.cu, end.span.first, address_query::kind_and_reach, facts))
            return failed;
        const bool is_pageable_there = kind_to_context(facts) == memory_kind::pageable;
        if (is_pageable_there)
            end.kind = memory_kind::pageable;
        else if (end.kind == memory_kind::pageable)
            end.kind = memory_kind::far_pinned;
        return {};
    };
    if (error failed = look_up(shape.source, shape.destination)) return failed;
    return look_up(shape.destination, shape.source);
}

error find_contexts(machine &machine, const shape &shape, int context_device, end_contexts &contexts) noexcept {
    const auto find = [&](const shape_end &end, CUcontext &found) noexcept -> error {
        return is_elsewhere(end, context_device) ? machine.contexts.get(end.device, found) : ok;
    };
    if (error failed = find(shape.source, contexts.source)) return failed;
    if (error failed = find(shape.destination, contexts.destination)) return failed;
    if (is_host(shape.source.kind)) contexts.source = contexts.destination;
    if (is_host(shape.destination.kind)) contexts.destination = contexts.source;
    return {};
}

bool is_readable(const machine &machine, const address_span &span) noexcept {
    return machine.full_checks || host_range_is_readable(span.first, span.last);
}

pair_rates rates_between(const machine &machine, const shape &shape, int context_device) noexcept {
    if (is_host(shape.source.kind) || is_host(shape.destination.kind)) return {};
    const int from = device_of(shape.source, context_device), to = device_of(shape.destination, context_device);
    return from == to ? pair_rates{} : machine.peers.rates(from, to);
}

} // namespace ferry
