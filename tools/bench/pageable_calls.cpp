// How long the asynchronous call on pageable memory takes until it returns, whatever it has set going by then.
#include "pageable.h"
#include "report.h"

namespace bench {

namespace {

constexpr double most_call_ns = 20e3;

enum class moment { idle, busy, first };
constexpr struct {
    bench::moment moment;
    const char *text;
} moments[] = {{moment::idle, "returns, stream idle"},
               {moment::busy, "returns, stream busy"},
               {moment::first, "returns, first call"}};

// An instance that has copied nothing yet, with the options of a program that sets none.
ferry_options default_options(const environment &environment) {
    auto options = sized<ferry_options>();
    options.driver = environment.report.driver;
    return options;
}

// Something that keeps the stream busy for 10 ms on an H200, in memory that no row here copies to.
void enqueue_big_copy(const session &session) {
    const direction down = pinned_directions(session.workspace)[1];
    raw_copy_async(session.environment, down, std::min<std::size_t>(session.workspace.largest, 512 << 20),
                   session.environment.stream.get());
}

row measure_call(session &session, const direction &direction, std::size_t size, moment moment, const char *text) {
    const environment &environment = session.environment;
    const box copied = line(direction, size);
    const ferry_copy_desc copy = describe(copied);
    const CUstream stream = environment.stream.get();
    std::optional<instance> opened;
    const auto make_busy = [&] {
        if (moment == moment::busy) enqueue_big_copy(session);
    };
    const contender both[] = {
        {"cuMemcpy*Async", [&] { raw_copy_async(environment, direction, size, stream); }, 1,
         [&] { drain(environment); }, make_busy},
        {"ferry_copy_async",
         [&] { ferry_copy_async_checked(opened ? opened->get() : environment.basic.get(), copy, stream); }, 1,
         [&] {
             drain(environment);
             opened.reset();
         },
         [&] {
             if (moment == moment::first) opened.emplace(open_ferry(default_options(environment)));
             make_busy();
         }}};
    verify_each(session.workspace, {&copied, 1}, both);
    const effort effort = session.is_quick ? bench::effort{2, 10, 0.01e9} : bench::effort{3, 200, 0.2e9};
    const std::vector<samples> taken = interleave(both, effort);
    return {.labels = {text, direction.name, both[1].name, route_of(environment, copy, form::async), both[0].name},
            .bytes = size,
            .times = compare(taken[0], taken[1]),
            .most_ns = most_call_ns};
}

} // namespace

void add_calls(session &session, std::vector<row> &rows) {
    for (const auto &[moment, text] : moments)
        for (const direction &direction : pageable_directions(session.workspace))
            for (const std::size_t size : {64 << 10, 1 << 20, 64 << 20, 1 << 30}) {
                if (size > session.workspace.largest) break;
                session.progress.show("pageable", std::string(direction.name) + ' ' + text, size);
                rows.push_back(measure_call(session, direction, size, moment, text));
            }
}

} // namespace bench
