// Copies and fills that cross the borders of registered host memory: one driver call for each part.
#pragma once

#include "copy/fill.h"
#include "copy/split.h"
#include "memory/host_ranges.h"
#include "route/driver_route.h"

namespace ferry {

// Where a registered piece that the instance knows ends, as for_each_part asks for it.
struct known_pieces {
    const host_ranges &ranges;
    std::uint64_t operator()(std::uint64_t address) const noexcept { return ranges.end_of_piece(address); }
};

// Whether an end begins in a piece that the instance knows, and leaves it.
bool crosses_border(const shape &shape, const host_ranges &ranges) noexcept;

// Each part as it would be planned by itself, until `then(part, plan)` fails.
template <class Then>
failure for_each_planned_part(const driver_table &cu, const host_ranges &ranges, const shape &whole,
                              const plan_facts &facts, const Then &then) noexcept {
    return for_each_part(whole, known_pieces{ranges}, [&](shape part) noexcept -> failure {
        for (shape_end *const end : {&part.source, &part.destination})
            if (is_host(end->kind))
                if (failure failed = look_up_kind(cu, end->span.first, end->kind)) return failed;
        return then(part, plan_for_driver(part, facts));
    });
}

// As run_driver_route, part by part. Should one fail, those before it stay enqueued.
[[gnu::cold, gnu::noinline]] failure run_in_parts(const driver_table &cu, const host_ranges &ranges, const shape &whole,
                                                  const plan_facts &facts, const end_contexts &contexts,
                                                  CUstream stream) noexcept;

// As run_driver_fill, part by part, after the driver has refused the whole. Where some of it is not registered, or a
// border cuts a pattern, what the driver said stands and nothing is filled.
[[gnu::cold, gnu::noinline]] failure run_fill_in_parts(const driver_table &cu, const host_ranges &ranges,
                                                       const fill_shape &whole, const failure &refused,
                                                       CUstream stream) noexcept;

} // namespace ferry
