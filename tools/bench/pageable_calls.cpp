// Submission latency for pageable memory: the time until the asynchronous call returns, regardless of what is in flight
// then.
#include "pageable.h"
#include "progress.h"
#include "units.h"

namespace bench {

namespace {

enum class moment { idle, busy, first, first_prepared };
struct situation {
    bench::moment moment;
    const char *text;
    double max_ns; // of ferry's call
};
constexpr situation situations[] = {{moment::idle, "returns, stream idle", 20e3},
                                    {moment::busy, "returns, stream busy", 20e3},
                                    {moment::first, "returns, first call", 800e3},
                                    {moment::first_prepared, "returns, first call, staging at open", 30e3}};
// If ferry's route is the driver's call, which blocks, ferry's call may take this multiple of its time.
constexpr double most_of_driver = 1.05;

// An instance that has not copied anything yet: without options, or with staging set up at open.
instance open_fresh(const environment &environment, moment moment) {
    auto options = sized<ferry_options>();
    options.driver = environment.report.driver;
    options.staging = moment == moment::first_prepared ? FERRY_STAGING_AT_OPEN : FERRY_STAGING_LAZY;
    return open_ferry(options);
}

// Keeps the stream busy for 10 ms on an H200, with a copy to memory that is not the destination of any row here.
void enqueue_big_copy(const session &session) {
    const direction down = pinned_directions(session.workspace)[1];
    raw_copy_async(session.environment, down, std::min<std::size_t>(session.workspace.largest, 512 << 20),
                   session.environment.stream.get());
}

row measure_call(session &session, const direction &direction, std::size_t size, const situation &situation) {
    const auto &[moment, text, max_ns] = situation;
    const environment &environment = session.environment;
    const box copied = line(direction, size);
    const ferry_copy_desc copy = describe(copied);
    const CUstream stream = environment.stream.get();
    std::optional<instance> opened;
    const bool is_first = moment == moment::first || moment == moment::first_prepared;
    const auto make_busy = [&] {
        if (moment == moment::busy) enqueue_big_copy(session);
    };
    const bench::direction pinned = pinned_like(session.workspace, direction);
    const contender all[] = {
        {"cuMemcpy*Async", [&] { raw_copy_async(environment, direction, size, stream); }, 1,
         [&] { drain(environment); }, make_busy},
        {"ferry_copy_async",
         [&] { ferry_copy_async_checked(opened ? opened->get() : environment.basic.get(), copy, stream); }, 1,
         [&] {
             drain(environment);
             opened.reset();
         },
         [&] {
             if (is_first) opened.emplace(open_fresh(environment, moment));
             make_busy();
         }},
        {"pinned", [&] { raw_copy_async(environment, pinned, size, stream); }, 1, [&] { drain(environment); },
         make_busy}};
    verify_each(session.workspace, {&copied, 1}, {all, 2});
    const effort effort = session.is_quick ? bench::effort{2, 10, 0.01e9} : bench::effort{3, 200, 0.2e9};
    const std::vector<samples> taken = interleave(all, effort);
    make_busy();
    const std::string route = route_of(environment, copy, form::async);
    drain(environment);
    const bool is_by_driver = route == name_of_route(FERRY_ROUTE_DRIVER);
    return {.labels = {text, direction.name, all[1].name, route, all[0].name},
            .bytes = size,
            .times = compare(taken[0], taken[1]),
            .max_ns = is_by_driver ? std::max(max_ns, most_of_driver * summarise(taken[0]).median) : max_ns,
            .reference_ns = summarise(taken[2])};
}

// 64 textures of 16 KiB that no kernel can access, in one batch. The driver's call for each waits until it has arrived.
row measure_textures(session &session) {
    const environment &environment = session.environment;
    constexpr std::size_t count = 64, texel = 4;
    constexpr extent size = {64 * texel, 64, 1};
    constexpr double max_batch_ns = 150e3;
    const CUstream stream = environment.stream.get();
    const buffer &pageable = session.workspace.pageable;
    std::vector<array> arrays;
    std::vector<box> boxes;
    std::vector<CUDA_MEMCPY3D> raw;
    std::vector<ferry_copy_desc> copies;
    for (std::size_t i = 0; i < count; ++i) {
        arrays.push_back(make_array(environment, session.workspace.device_source, size, texel));
        buffer part = pageable;
        part.address += i * size.bytes();
        boxes.push_back({padded(part, size, 0, 0), arrays.back().place, size});
        raw.push_back(lower(boxes.back()));
        copies.push_back(describe(boxes.back()));
    }
    const contender all[] = {{"cuMemcpy3DAsync",
                              [&] {
                                  for (const CUDA_MEMCPY3D &copy : raw)
                                      check(environment.cu.cuMemcpy3DAsync(&copy, stream), "cuMemcpy3DAsync");
                              },
                              1, [&] { drain(environment); }},
                             {"ferry_copy_batch_async",
                              [&] {
                                  auto error = sized<ferry_error_info>();
                                  check(ferry_copy_batch_async(environment.basic.get(), copies.data(), count, nullptr,
                                                               stream, nullptr, &error),
                                        "ferry_copy_batch_async", error);
                              },
                              1, [&] { drain(environment); }}};
    verify_each(session.workspace, boxes, all);
    const effort effort = session.is_quick ? bench::effort{2, 10, 0.01e9} : bench::effort{3, 200, 0.2e9};
    const std::vector<samples> taken = interleave(all, effort);
    return {.labels = {"64 textures in a batch, returns", "H2A", all[1].name,
                       route_of(environment, copies[0], form::async), all[0].name},
            .bytes = count * size.bytes(),
            .times = compare(taken[0], taken[1]),
            .max_ns = max_batch_ns};
}

} // namespace

void add_calls(session &session, row_list &rows) {
    constexpr std::size_t KiB = 1 << 10, MiB = 1 << 20;
    const std::vector<std::size_t> sizes =
        session.is_quick
            ? std::vector{64 * KiB, MiB, 64 * MiB}
            : std::vector{4 * KiB, 64 * KiB, 256 * KiB, MiB, 4 * MiB, 16 * MiB, 64 * MiB, 256 * MiB, 1024 * MiB};
    for (const situation &situation : situations)
        for (const direction &direction : pageable_directions(session.workspace))
            for (const std::size_t size : sizes) {
                if (size > session.workspace.largest) break;
                session.progress.show("pageable", std::string(direction.name) + ' ' + situation.text, size);
                rows.push_back(measure_call(session, direction, size, situation));
            }
    session.progress.show("pageable", "H2A textures", std::size_t{1} << 20);
    rows.push_back(measure_textures(session));
}

} // namespace bench
