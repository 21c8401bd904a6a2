// Operations that capture graphs and launch them several times, with different contents at each launch.
#include "fuzz/operations.h"

namespace ferry::test {

namespace {

// A capture in progress. A call that ferry itself rejects does not break the capture.
class capture {
public:
    capture(world &of, std::size_t lane) : w_(of), on_(of.lanes[lane]) { made_.context = on_.context; }

    void add() {
        switch (w_.random.up_to(7)) {
        case 0:
            return fill();
        case 1:
            return write();
        case 2:
        case 3:
            return launch();
        default:
            return copy();
        }
    }
    bool is_broken() const { return is_broken_; }
    held_graph &made() { return made_; }

private:
    // A copy that cannot be captured has its own status. A route may be forced, kernels may be missing,
    // and staging may not be prepared for a call that must not wait.
    bool went_well(std::int32_t status, const ferry_error_info &error, bool may_lack_a_kernel) {
        if (status == 0) return true;
        if (status == FERRY_ERROR_CAPTURE || status == FERRY_ERROR_ROUTE || status == FERRY_ERROR_WOULD_BLOCK ||
            (may_lack_a_kernel && status == FERRY_ERROR_UNSUPPORTED))
            return false;
        is_broken_ = status < FERRY_STATUS_DRIVER_BASE;
        w_.fail("a valid call was refused under capture: " + describe_status(status, error));
        return false;
    }
    void copy() {
        const drawn_copy drawn = any_copy(w_);
        ferry_instance *const ferry = w_.instance_for({drawn});
        const ferry_copy_desc copy = drawn.describe();
        ferry_error_info error = new_error();
        w_.say("capturing on '" + std::string(on_.name) + "' of device " + std::to_string(on_.device) + ": " +
               drawn.words());
        const std::int32_t status = w_.call(w_.any_context(), [&] {
            return ferry_copy_async(ferry, &copy, drawn.options, on_.stream, nullptr, &error);
        });
        if (went_well(status, error, false)) made_.effects.push_back(drawn);
    }
    void fill() {
        buffer &to = any_buffer(w_);
        if (!to.traits().is_fillable || !is_filled_on(to, on_)) return;
        const drawn_fill drawn = draw_fill(w_.random, to);
        const ferry_fill_desc fill = drawn.describe();
        ferry_error_info error = new_error();
        w_.say("capturing: " + drawn.words());
        const std::int32_t status = w_.call(w_.any_context(), [&] {
            return ferry_fill_async(w_.run.ferry.get(), &fill, drawn.options, on_.stream, nullptr, &error);
        });
        if (went_well(status, error, true)) made_.effects.push_back(drawn);
    }
    void write() {
        buffer &to = any_buffer(w_);
        if (!to.traits().is_on_host) return;
        made_.writes.push_back(std::make_shared<drawn_write>(draw_write(w_.random, to)));
        drawn_write &drawn = *made_.writes.back();
        w_.say("capturing: " + drawn.words());
        w_.require(raw().cuLaunchHostFunc(
            on_.stream,
            [](void *argument) {
                const auto &write = *static_cast<const drawn_write *>(argument);
                std::memcpy(write.to->bytes_on_host() + write.offset, write.data.data(), write.data.size());
            },
            &drawn));
        made_.effects.push_back(drawn);
    }
    void launch() {
        if (w_.prepared.empty()) return;
        const held_prepared &held = w_.random.among(w_.prepared);
        if (held.is_updatable || w_.lanes[held.lane].context != on_.context) return;
        ferry_error_info error = new_error();
        w_.say("capturing a prepared batch of " + std::to_string(held.copies.size()));
        const std::int32_t status = w_.call(
            w_.any_context(), [&] { return ferry_prepared_launch(held.handle, nullptr, on_.stream, nullptr, &error); });
        if (!went_well(status, error, false)) return;
        made_.effects.insert(made_.effects.end(), held.copies.begin(), held.copies.end());
        made_.prepared.push_back(held.handle);
    }

    world &w_;
    const lane &on_;
    held_graph made_ = {};
    bool is_broken_ = false;
};

} // namespace

void capture_a_graph(world &w) {
    if (w.graphs.size() > 4) w.release_graph(0);
    const std::size_t lane = w.any_lane([](const struct lane &one) { return !one.is_default; });
    const CUstream stream = w.lanes[lane].stream;
    constexpr CUstreamCaptureMode modes[] = {CU_STREAM_CAPTURE_MODE_RELAXED, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
                                             CU_STREAM_CAPTURE_MODE_GLOBAL};
    w.say("beginning a capture");
    const made_current scope(w.lanes[lane].context);
    w.require(raw().cuStreamBeginCapture(stream, modes[w.random.up_to(2)]));
    capture captured(w, lane);
    for (std::uint64_t steps = 1 + w.random.up_to(4); steps && !captured.is_broken() && !w.has_failed(); --steps)
        captured.add();
    held_graph &made = captured.made();
    const CUresult ended = raw().cuStreamEndCapture(stream, &made.graph);
    if (captured.is_broken()) return;
    if (!w.require(ended) || !w.require(raw().cuGraphInstantiateWithFlags(&made.executable, made.graph, 0))) return;
    w.graphs.push_back(std::move(made));
}

void launch_a_graph(world &w) {
    if (w.graphs.empty()) return;
    const held_graph &held = w.random.among(w.graphs);
    const std::size_t lane = w.any_lane([&](const struct lane &one) { return one.context == held.context; });
    const struct lane &on = w.lanes[lane];
    std::string words = std::string("launching a graph on '") + on.name + "' of device " + std::to_string(on.device);
    for (const effect &one : held.effects)
        words += "\n    " + words_of(one);
    w.say(words);
    for (std::uint64_t launches = 1 + w.random.up_to(2); launches; --launches) {
        w.order(lane, held.effects);
        const made_current scope(on.context);
        if (!w.require(raw().cuGraphLaunch(held.executable, on.stream))) return;
        w.enqueued(lane, held.effects);
    }
}

void destroy_a_graph(world &w) {
    if (w.graphs.empty()) return;
    w.say("destroying a graph");
    w.release_graph(w.random.up_to(w.graphs.size() - 1));
}

} // namespace ferry::test
