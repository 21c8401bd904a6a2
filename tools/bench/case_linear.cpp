// linear: one contiguous piece, from 4 B to 1 GiB, timed until it has arrived.
#include "case.h"
#include "lines.h"
#include "progress.h"
#include "units.h"

namespace bench {

namespace of_linear {
namespace {

struct linear_copy {
    bench::direction direction;
    bench::form form;
};

std::vector<linear_copy> all_copies(const workspace &workspace) {
    std::vector<linear_copy> copies;
    for (const direction &direction : pinned_directions(workspace))
        for (const form each : {form::async, form::sync})
            copies.push_back({direction, each});
    // Pageable memory uses only the synchronous form, because the driver's asynchronous calls wait for such a copy as
    // well.
    for (const direction &direction : pageable_directions(workspace))
        copies.push_back({direction, form::sync});
    return copies;
}

std::vector<std::size_t> all_sizes(const session &session) {
    std::vector<std::size_t> sizes;
    for (std::size_t size = 4; size <= session.workspace.largest; size *= 4)
        sizes.push_back(size);
    if (session.is_quick)
        std::erase_if(sizes, [](std::size_t size) {
            for (const std::size_t kept : {64, 4 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20})
                if (size == kept) return false;
            return true;
        });
    return sizes;
}

row measure_copy(session &session, const linear_copy &copy, std::size_t size) {
    const environment &environment = session.environment;
    const contender contenders[] = {raw_line(environment, copy.direction, copy.form, size),
                                    ferry_line(environment, copy.direction, copy.form, size)};
    const box copied = line(copy.direction, size);
    verify_each(session.workspace, {&copied, 1}, contenders);
    // 7 rounds, 14 samples, for 1 GiB; 2000 rounds for copies of several microseconds.
    const effort effort = session.is_quick ? bench::effort{4, 200, 0.1e9} : bench::effort{7, 2000, 0.8e9};
    const std::vector<samples> taken = interleave(contenders, effort);
    const bool has_target = copy.direction.kind() == memory::pinned && size >= 1 << 20;
    return {.labels = {copy.direction.name, name_of(copy.direction.kind()), name_of(copy.form)},
            .bytes = size,
            .times = compare(taken[0], taken[1]),
            .target = has_target ? std::optional(0.99) : std::nullopt,
            .ceiling = ceiling_of(copy.direction.name, session.ceilings)};
}

case_result run_linear(session &session) {
    case_result result =
        session.begin({.note = "async: cuMemcpy*Async and ferry_copy_async, each with cuStreamSynchronize; sync: "
                               "cuMemcpy* and ferry_copy, until the bytes have arrived",
                       .label_columns = {"copy", "memory", "form"}});
    const std::vector<linear_copy> copies = all_copies(session.workspace);
    for (const linear_copy &copy : copies)
        for (const std::size_t size : all_sizes(session)) {
            session.progress.show("linear", copy.direction.text(), size);
            result.rows.push_back(measure_copy(session, copy, size));
        }
    return result;
}

} // namespace
} // namespace of_linear

const bench_case linear_case = {"linear", "one contiguous piece, 4 B to 1 GiB, pinned, pageable and on the device",
                                of_linear::run_linear};

} // namespace bench
