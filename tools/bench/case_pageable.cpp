// pageable: ordinary host memory to the device, to arrays and back, timed until the bytes have arrived.
#include <algorithm>
#include <future>

#include "contest.h"
#include "contract_queries.h"
#include "host_memory.h"
#include "pageable.h"
#include "progress.h"
#include "units.h"

namespace bench {

namespace of_pageable {
namespace {

constexpr std::size_t KiB = 1 << 10, MiB = 1 << 20, GiB = 1 << 30;

// 4 GiB, but at most an eighth of the free host memory and an eighth of the device's memory, because four host buffers
// and two device buffers of that size are allocated. In a quick run, and if the CPU performs the copies, the smallest
// size that has a target relative to the link.
std::size_t largest_line(const session &session) {
    if (session.is_quick || session.environment.device_info.is_software) return 64 * MiB;
    std::size_t size = 4 * GiB;
    while (size > free_host_memory() / 8 || size > session.environment.device_info.total_memory / 8)
        size /= 4;
    return size;
}

// A session whose workspace has space for the largest contiguous copies: the run's own workspace, or an additional
// workspace.
class wide_session {
public:
    explicit wide_session(session &of) : session_(of), size_(largest_line(of)) {
        if (size_ <= of.workspace.largest) return;
        warm_host_memory(4 * size_);
        workspace_ = std::make_unique<workspace>(of.environment, size_);
        workspace_->load({workspace_->pinned, {size_}}); // like the run's workspace: unwritten pages may share one page
    }
    session made() const {
        return {session_.environment, workspace_ ? *workspace_ : session_.workspace,
                session_.ceilings,    session_.is_quick,
                session_.progress,    session_.listener};
    }

private:
    session &session_;
    const std::size_t size_;
    std::unique_ptr<workspace> workspace_;
};

struct targets {
    std::optional<double> ratio, of_link;
};

bool is_up(const direction &direction) { return direction.source.is_host(); }

// From 1 MiB on: faster than the driver, and at least this share of the rate without the program's pages.
targets targets_of_line(std::size_t size) {
    if (size < MiB) return {0.98, {}};
    return {1.0, size < 256 * MiB ? 0.92 : 0.98};
}

// At 4 GiB, one round of the driver's copies to the device takes 1.5 s (H200).
effort effort_of(const session &session, std::size_t size) {
    if (session.is_quick) return {2, 40, 0.02e9};
    return {size > GiB ? 2 : 3, 400, 0.35e9};
}

struct task_of_line {
    std::string what;
    bench::direction direction;
    bench::form form;
    std::size_t size;
    of_pageable::targets targets;
};

// The same copy by ferry, whose end on the host is in the processors' caches: the rate of the staging itself, without
// the program's pages.
contender without_pages(const environment &environment, const task_of_line &task, void *cached) {
    direction of = task.direction;
    (is_up(of) ? of.source : of.destination) = host_buffer(memory::pageable, cached);
    return ferry_line(environment, of, task.form, task.size);
}

// Compares contiguous copies: the driver's copy, ferry's copy, a copy of pinned memory that shows the rate of the link,
// and what limits ferry's copy. A small copy is limited by the driver's call with the necessary queries, and has that
// target if it is lower. A large copy is limited by `cached`, unless it is null.
row measure_beside_link(session &session, const task_of_line &task, const contender &raw, const contender &ferry,
                        void *cached = nullptr) {
    const auto &[what, direction, form, size, targets] = task;
    const environment &environment = session.environment;
    const bench::direction pinned = pinned_like(session.workspace, direction);
    const bool is_small = targets.ratio && size < MiB;
    std::vector<contender> all = {raw, ferry, raw_line(environment, pinned, form::async, size)};
    if (is_small) all.push_back(with_queries(environment, direction, form, size, raw));
    if (cached) all.push_back(without_pages(environment, task, cached));
    const box copied = line(direction, size);
    verify_each(session.workspace, {&copied, 1}, {all.data(), 2});
    const std::vector<samples> taken = interleave(all, effort_of(session, size));
    constexpr double least_share_of_limit = 0.97;
    std::optional<double> target = targets.ratio;
    if (is_small) target = std::min(*target, least_share_of_limit * compare(taken[0], taken[3]).ratio.median);
    return {
        .labels = {what, direction.name, ferry_call_of(form), route_of(environment, describe(copied), form), raw.name},
        .bytes = size,
        .times = compare(taken[0], taken[1]),
        .target = target,
        .ceiling = ceiling_of(direction.name, session.ceilings),
        .reference_ns = summarise(taken[2]),
        .of_link = link_share{compare(taken[cached ? 3 : 2], taken[1]).ratio, targets.of_link}};
}

std::vector<std::size_t> sizes_of_lines(const session &session) {
    if (session.is_quick) return {64 * KiB, 512 * KiB, 4 * MiB, 64 * MiB};
    return {64 * KiB, 128 * KiB, 256 * KiB, 512 * KiB, MiB, 4 * MiB, 16 * MiB, 64 * MiB, 256 * MiB, GiB, 4 * GiB};
}

void add_lines(session &session, row_list &rows) {
    const environment &environment = session.environment;
    const owned<void *> cached = map_cached(session.workspace.largest);
    for (const direction &direction : pageable_directions(session.workspace))
        for (const form form : {form::sync, form::async})
            for (const std::size_t size : sizes_of_lines(session)) {
                if (size > session.workspace.largest) break;
                session.progress.show("pageable", direction.name, size);
                targets targets = targets_of_line(size);
                if (!cached.get()) targets.of_link = std::nullopt;
                rows.push_back(measure_beside_link(
                    session, {"line", direction, form, size, targets}, raw_line(environment, direction, form, size),
                    ferry_line(environment, direction, form, size), size < MiB ? nullptr : cached.get()));
            }
}

// A contender whose destination is mapped anew before each run.
contender into_untouched(contender copy, void *memory, std::size_t size) {
    copy.prepare = [memory, size] { renew_untouched(memory, size); };
    return copy;
}

void add_untouched(session &session, row_list &rows) {
    const environment &environment = session.environment;
    const std::size_t size = session.workspace.largest, mapped = size + guard;
    const owned<void *> memory = map_untouched(mapped);
    if (!memory.get()) return;
    session.progress.show("pageable", "D2H into untouched pages", size);
    warm_host_memory(mapped);
    const direction direction = {"D2H", session.workspace.device_source, host_buffer(memory::pageable, memory.get())};
    const targets targets = {size == GiB ? std::optional(4.0) : std::nullopt, {}};
    rows.push_back(measure_beside_link(
        session, {"line into untouched pages", direction, form::async, size, targets},
        into_untouched(raw_line(environment, direction, form::async, size), memory.get(), mapped),
        into_untouched(ferry_line(environment, direction, form::async, size), memory.get(), mapped)));
}

// Compares ferry with the fastest of the driver's calls.
row measure_pageable_box(session &session, std::string what, const char *name, const box &box, const char *ceiling) {
    return measure_box(
        session,
        {std::move(what), name, ferry_call_of(form::async), route_of(session.environment, describe(box), form::async)},
        box, ceiling_of(ceiling, session.ceilings));
}

// Rows of 1 KiB, 2 KiB apart in host memory.
void add_rows_apart(session &session, row_list &rows) {
    constexpr std::size_t row_bytes = KiB, full_size = 256 * MiB;
    const extent size = {row_bytes, std::min(full_size, session.workspace.largest / 2) / row_bytes};
    for (const direction &direction : pageable_directions(session.workspace))
        for (const bool is_tight : {true, false}) {
            session.progress.show("pageable", std::string(direction.name) + " rows of 1 KiB", size.bytes());
            const auto end = [&](const buffer &buffer) {
                return padded(buffer, size, buffer.is_host() || !is_tight ? row_bytes : 0, 0);
            };
            row row = measure_pageable_box(
                session, std::string("rows of 1 KiB, ") + (is_tight ? "device tight" : "both 2 KiB apart"),
                direction.name, {end(direction.source), end(direction.destination), size}, direction.name);
            row.target = size.bytes() == full_size ? std::optional(3.0) : std::nullopt;
            rows.push_back(std::move(row));
        }
}

// Whole cubic arrays with texels of 4 bytes, created by ferry for its kernels or created by the driver.
void add_volumes(session &session, row_list &rows) {
    constexpr std::size_t texel = 4, full_side = 512;
    std::size_t side = full_side;
    while (side * side * side * texel > session.workspace.largest)
        side /= 2;
    const extent size = {side * texel, side, side};
    const buffer &device = session.workspace.device_source;
    const place host = padded(session.workspace.pageable, size, 0, 0);
    for (const bool is_ferrys : {true, false}) {
        const array array = is_ferrys ? make_ferry_array(session.environment, device, size, texel)
                                      : make_array(session.environment, device, size, texel);
        const std::string what = dimensions_text(std::to_string(side), size) + (is_ferrys ? ", ferry's" : ", driver's");
        for (const auto &[name, box, ceiling] : {std::tuple{"H2A", bench::box{host, array.place, size}, "H2D"},
                                                 std::tuple{"A2H", bench::box{array.place, host, size}, "D2H"}}) {
            session.progress.show("pageable", name, size.bytes());
            row row = measure_pageable_box(session, what, name, box, ceiling);
            row.target = side == full_side ? std::optional(3.0) : std::nullopt;
            rows.push_back(std::move(row));
        }
    }
}

// Copies a contiguous range in equal pieces, each on its own thread and stream. `copy` enqueues one piece.
template <class Copy>
contender by_threads(const char *name, const environment &environment, const std::vector<owned<CUstream>> &streams,
                     Copy copy) {
    return {name, [&environment, &streams, copy] {
                std::vector<std::future<void>> threads;
                for (std::size_t i = 0; i < streams.size(); ++i)
                    threads.push_back(std::async(std::launch::async, [&, i, stream = streams[i].get()] {
                        const current_context current(environment.cu, environment.context.handle);
                        copy(i, stream);
                        check(environment.cu.cuStreamSynchronize(stream), "cuStreamSynchronize");
                    }));
                for (std::future<void> &thread : threads)
                    thread.get();
            }};
}

void add_threads(session &session, row_list &rows) {
    constexpr std::size_t count = 8, full_size = 256 * MiB;
    const environment &environment = session.environment;
    const std::size_t size = std::min(full_size, session.workspace.largest / count);
    std::vector<owned<CUstream>> streams;
    for (std::size_t i = 0; i < count; ++i)
        streams.push_back(make_stream(environment));
    for (const direction &direction : pageable_directions(session.workspace)) {
        session.progress.show("pageable", std::string(direction.name) + " by 8 threads", count * size);
        const auto piece = [&](std::size_t i) {
            bench::direction of = direction;
            of.source.address += i * size;
            of.destination.address += i * size;
            return of;
        };
        const contender raw = by_threads("cuMemcpy*Async", environment, streams, [&](std::size_t i, CUstream stream) {
            raw_copy_async(environment, piece(i), size, stream);
        });
        const contender ferry =
            by_threads("ferry_copy_async", environment, streams, [&](std::size_t i, CUstream stream) {
                ferry_copy_async_checked(environment.basic.get(), describe(line(piece(i), size)), stream);
            });
        const targets targets = {{}, size == full_size ? std::optional(0.80) : std::nullopt};
        rows.push_back(measure_beside_link(
            session, {"8 threads, 8 streams", direction, form::async, count * size, targets}, raw, ferry));
    }
}

case_result run_pageable(session &session) {
    case_result result = session.begin(
        {.note =
             "host memory is pageable and was touched before; 'untouched' memory is mapped anew before each sample. "
             "Times "
             "end when the\nbytes have arrived: cuMemcpy*Async and ferry_copy_async with a wait for the stream. For "
             "boxes "
             "raw is the fastest of the\ndriver's calls. pinned: the driver's copy of as many bytes of pinned memory, "
             "in "
             "the same rounds; of link: its time / ferry's;\nfor lines from 1 MiB on, the time of ferry's copy of 8 "
             "MiB "
             "that are mapped again and again, so that they stay\nin the processors' caches / ferry's. "
             "Both targets must be met. 'returns': only until the call "
             "returns (pinned too), on an idle stream, behind a pinned copy that\nhas just begun, and as the first "
             "call "
             "of "
             "an instance, without options and with staging set up at open; p99: of ferry's\ncalls. The sizes of the "
             "threads are the sum over all threads.\nTargets of 'returns': 20 us; 800 us for the first call; 30 us "
             "with staging set up at open. A call whose route is\nDRIVER may take 1.05 times as long as the driver's "
             "call. Targets of lines below 1 MiB: 0.98, but at most 0.97 of a\nraw call with the queries that ferry "
             "needs, measured in the same rounds.\n" +
             note_on_costs(session),
         .label_columns = {"what", "copy", "ferry's call", "route", raw_call_column},
         .reference_column = "pinned"});
    {
        const wide_session wide(session);
        bench::session made = wide.made();
        add_lines(made, result.rows);
        add_threads(made, result.rows);
    }
    add_untouched(session, result.rows);
    add_rows_apart(session, result.rows);
    add_volumes(session, result.rows);
    add_calls(session, result.rows);
    result.numbers = measure_costs(session);
    return result;
}

} // namespace
} // namespace of_pageable

direction pinned_like(const workspace &workspace, const direction &direction) {
    return pinned_directions(workspace)[of_pageable::is_up(direction) ? 0 : 1];
}

const char *ferry_call_of(form form) { return form == form::async ? "ferry_copy_async" : "ferry_copy"; }

const char *route_of(const environment &environment, const ferry_copy_desc &copy, form form) {
    auto told = sized<ferry_explanation>();
    auto error = sized<ferry_error_info>();
    ferry_instance *const ferry = environment.basic.get();
    check(form == form::async ? ferry_copy_explain_async(ferry, &copy, nullptr, environment.stream.get(), &told, &error)
                              : ferry_copy_explain(ferry, &copy, nullptr, &told, &error),
          "ferry_copy_explain", error);
    return name_of_route(told.route);
}

const bench_case pageable_case = {"pageable",
                                  "pageable host memory: lines, boxes, arrays, many threads, and what the copies cost",
                                  of_pageable::run_pageable};

} // namespace bench
