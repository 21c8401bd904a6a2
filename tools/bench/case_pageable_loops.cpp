// pageable-loops: 400 consecutive small copies of pageable memory, as in programs with many small tensors or a buffer
// per draw call, on an idle stream and after other work. Measures from the end of that work.
#include "case.h"
#include "compute.h"
#include "contract_queries.h"
#include "lines.h"
#include "progress.h"
#include "units.h"

namespace bench {

namespace of_pageable_loops {
namespace {

constexpr std::size_t KiB = 1 << 10, MiB = 1 << 20, ahead_size = 512 * MiB;

struct loop {
    const char *name;
    std::function<void(std::size_t offset)> copy; // enqueues one copy
};

struct loop_times {
    double copy_ns, call_ns; // per copy: until all have arrived, and in the call
};

class stream_loops {
public:
    stream_loops(session &session, bool is_busy)
        : copies(session.is_quick ? 100 : 400), environment_(session.environment), is_busy_(is_busy),
          watch_(environment_, 2), ahead_size_(std::min(ahead_size, session.workspace.largest)),
          target_(allocate_device(environment_, ahead_size_)), ahead_{"H2D", session.workspace.pinned,
                                                                      session.workspace.device_destination} {
        ahead_.destination.address = target_.get();
    }

    const int copies;
    // Runs the loop over `room` bytes of the buffers.
    loop_times run(const loop &one, std::size_t size, std::size_t room) const {
        const CUstream stream = environment_.stream.get();
        if (is_busy_) {
            raw_copy_async(environment_, ahead_, ahead_size_, stream);
            watch_.note(0, stream);
        }
        const double begun = now_ns();
        for (int i = 0; i < copies; ++i)
            one.copy(static_cast<std::size_t>(i) * size % room);
        const double enqueued = now_ns();
        if (is_busy_) watch_.note(1, stream);
        check(environment_.cu.cuStreamSynchronize(stream), "cuStreamSynchronize");
        const double all = is_busy_ ? watch_.us_between(0, 1) * 1e3 : now_ns() - begun;
        return {all / copies, (enqueued - begun) / copies};
    }

private:
    const environment &environment_;
    const bool is_busy_;
    const stopwatch watch_;
    const std::size_t ahead_size_;
    const owned<CUdeviceptr> target_;
    direction ahead_; // to separate memory
};

buffer moved(buffer place, std::size_t offset) {
    place.address += offset;
    return place;
}

loop raw_loop(const environment &environment, const direction &of, std::size_t size) {
    return {"raw", [&environment, of, size](std::size_t offset) {
                const direction part = {of.name, moved(of.source, offset), moved(of.destination, offset)};
                raw_copy_async(environment, part, size, environment.stream.get());
            }};
}

loop ferry_loop(const environment &environment, const direction &of, std::size_t size, std::int32_t order) {
    auto options = sized<ferry_copy_options>();
    options.source_order = order;
    return {"ferry", [&environment, of, size, options](std::size_t offset) {
                ferry_copy_desc copy = {};
                copy.source.address = of.source.address + offset;
                copy.destination.address = of.destination.address + offset;
                copy.width = size;
                ferry_copy_async_checked(environment.basic.get(), copy, environment.stream.get(), options);
            }};
}

// The raw calls with the queries without which ferry's call could not know what it must: see contract_queries.h.
loop queried_loop(const environment &environment, const direction &of, std::size_t size) {
    return {"queries and raw", [&environment, of, size, raw = raw_loop(environment, of, size)](std::size_t offset) {
                const CUstream stream = environment.stream.get();
                query_context(environment);
                query_kind(environment, of.source.address + offset);
                query_kind(environment, of.destination.address + offset);
                query_capture(environment, stream);
                if (!of.source.is_host()) query_idle(environment, stream);
                raw.copy(offset);
            }};
}

// The target of a loop relative to the driver. `limit`: the driver's time relative to the driver with the queries.
double target_of_loop(bool is_busy, bool to_device, double limit) {
    constexpr double least_share_of_limit = 0.97;
    if (is_busy) return to_device ? 1.0 : 0.9;
    return std::min(1.0, least_share_of_limit * limit);
}

case_result run_pageable_loops(session &session) {
    case_result result = session.begin(
        {.note =
             "400 pageable copies in a row; times are per copy, until all have arrived, from the "
             "end of the earlier work.\nraw: cuMemcpy*Async; ferry: ferry_copy_async with "
             "FERRY_SOURCE_ORDER_ANY or _CALL. Busy: after a copy of 512 MiB of pinned memory.\nTargets: on an idle "
             "stream 0.97 of raw calls with the queries of the kinds, the capture and the order that "
             "ferry's promises need; busy 1.0, from the device 0.9",
         .label_columns = {"stream", "copy", "order"}});
    result.numbers.label_columns = {"stream", "copy", "order", "size"};
    result.numbers.number_columns = {"raw call us", "ferry call us"};
    const environment &environment = session.environment;
    for (const bool is_busy : {false, true}) {
        const stream_loops loops(session, is_busy);
        for (const direction &direction : pageable_directions(session.workspace))
            for (const std::int32_t order : {FERRY_SOURCE_ORDER_ANY, FERRY_SOURCE_ORDER_CALL}) {
                const char *const order_name = order == FERRY_SOURCE_ORDER_CALL ? "call" : "any";
                const bool to_device = direction.source.is_host();
                if (order != FERRY_SOURCE_ORDER_ANY && !to_device) continue;
                for (const std::size_t size : {std::size_t{256}, 4 * KiB, 16 * KiB, 64 * KiB, 256 * KiB}) {
                    const std::size_t room =
                        std::min(session.workspace.largest / size, static_cast<std::size_t>(loops.copies)) * size;
                    if (room == 0) break;
                    const char *const stream = is_busy ? "busy" : "idle";
                    session.progress.show("pageable-loops", std::string(stream) + ", " + direction.name, size);
                    const loop all[] = {raw_loop(environment, direction, size),
                                        ferry_loop(environment, direction, size, order),
                                        queried_loop(environment, direction, size)};
                    const auto whole = [&](const loop &one) {
                        return contender{one.name, [&loops, &one, size, room] { loops.run(one, size, room); }};
                    };
                    const contender checked[] = {whole(all[0]), whole(all[1]), whole(all[2])};
                    const box copied = line(direction, room);
                    verify_each(session.workspace, {&copied, 1}, checked);
                    constexpr int contenders = 3;
                    samples taken[contenders], calls[contenders];
                    const int rounds = session.is_quick ? 3 : 15;
                    for (int round = -1; round < rounds; ++round)
                        for (int turn = 0; turn < 2 * contenders; ++turn) { // forwards, then backwards
                            const int who = turn < contenders ? turn : 2 * contenders - 1 - turn;
                            const loop_times times = loops.run(all[who], size, room);
                            if (round < 0) continue; // warm-up
                            taken[who].push_back(times.copy_ns);
                            calls[who].push_back(times.call_ns);
                        }
                    row found = {.labels = {stream, direction.name, order_name},
                                 .bytes = size,
                                 .times = compare(taken[0], taken[1])};
                    found.target = target_of_loop(is_busy, to_device, compare(taken[0], taken[2]).ratio.median);
                    result.rows.push_back(found);
                    result.numbers.lines.push_back(
                        {{stream, direction.name, order_name, size_text(size)},
                         {summarise(calls[0]).median * 1e-3, summarise(calls[1]).median * 1e-3}});
                }
            }
    }
    return result;
}

} // namespace
} // namespace of_pageable_loops

const bench_case pageable_loops_case = {"pageable-loops",
                                        "400 small pageable copies in a row, on an idle and a busy stream",
                                        of_pageable_loops::run_pageable_loops};

} // namespace bench
