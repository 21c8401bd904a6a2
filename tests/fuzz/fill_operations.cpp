// Operations that fill, and other writers: host functions of streams and the program itself.
#include <chrono>
#include <memory>
#include <thread>

#include "fuzz/operations.h"

namespace ferry::test {

namespace {

buffer &any_fillable(world &w) {
    for (;;)
        if (buffer &drawn = any_buffer(w); drawn.traits().is_fillable) return drawn;
}

// Returns true for a success. Fills that need a kernel are rejected if kernels cannot run.
bool went_well(world &w, std::int32_t status, const ferry_error_info &error, const drawn_fill &drawn) {
    w.expect(error.status == status, "the status in the error info differs from the returned status");
    if (status == 0) return true;
    if (would_block(w, status, error, drawn.options)) return false;
    const bool may_take_a_kernel = drawn.pattern_size > 4 || drawn.size.depth > 1;
    if (status == FERRY_ERROR_ROUTE && drawn.options.has(by_kernel)) return false;
    if (status == FERRY_ERROR_UNSUPPORTED && may_take_a_kernel) return false;
    w.fail("a valid fill was refused: " + describe_status(status, error));
    return false;
}

} // namespace

void fill_on_a_stream(world &w) {
    buffer &to = any_fillable(w);
    drawn_fill drawn = draw_fill(w.random, to);
    drawn.options = may_forbid_waits(w, drawn.options);
    const std::size_t lane = w.any_lane([&](const struct lane &one) { return is_filled_on(to, one); });
    const struct lane &on = w.lanes[lane];
    w.say(std::string("ferry_fill_async on '") + on.name + "' of device " + std::to_string(on.device) + ": " +
          drawn.words());
    w.order(lane, {drawn});
    ferry_instance *const ferry = w.instance_for({drawn});
    const ferry_fill_desc fill = drawn.describe();
    ferry_error_info error = new_error();
    ferry_ticket *ticket = nullptr;
    const bool with_ticket = w.random.one_in(3);
    const std::int32_t status = w.call(w.context_for(on), [&] {
        return ferry_fill_async(ferry, &fill, drawn.options, on.stream, with_ticket ? &ticket : nullptr, &error);
    });
    if (!went_well(w, status, error, drawn)) return;
    w.enqueued(lane, {drawn});
    w.keep_ticket(ticket, lane, {drawn}, bytes_of({drawn}), drawn.options);
}

void fill_at_once(world &w) {
    const drawn_fill drawn = draw_fill(w.random, any_fillable(w));
    w.say("ferry_fill: " + drawn.words());
    w.wait_for(std::vector<effect>{drawn});
    ferry_instance *const ferry = w.instance_for({drawn});
    const ferry_fill_desc fill = drawn.describe();
    ferry_error_info error = new_error();
    const std::int32_t status =
        w.call(w.any_context(), [&] { return ferry_fill(ferry, &fill, drawn.options, &error); });
    if (!went_well(w, status, error, drawn)) return;
    w.done({drawn});
    w.compare(*drawn.destination.in, "right after a synchronous fill");
}

void write_by_a_host_function(world &w) {
    buffer &to = any_buffer(w);
    if (!to.traits().is_on_host) return;
    const drawn_write drawn = draw_write(w.random, to);
    const std::size_t lane = w.any_lane();
    const bool is_notified = w.random.one_in(2);
    w.say(drawn.words() + (is_notified ? " by a notification" : "") + " on '" + w.lanes[lane].name + "' of device " +
          std::to_string(w.lanes[lane].device));
    w.order(lane, {drawn});
    const made_current scope(w.lanes[lane].context);
    static constexpr auto write = [](void *argument) {
        const std::unique_ptr<drawn_write> made(static_cast<drawn_write *>(argument));
        std::memcpy(made->to->bytes_on_host() + made->offset, made->data.data(), made->data.size());
    };
    auto *const made = new drawn_write(drawn);
    if (is_notified)
        w.require(ferry_stream_notify(
            w.instance_for({drawn}), w.lanes[lane].stream,
            [](void *argument, std::int32_t status) {
                EXPECT_OK(status);
                write(argument);
            },
            made, nullptr));
    else
        w.require(raw().cuLaunchHostFunc(w.lanes[lane].stream, write, made));
    w.enqueued(lane, {drawn});
}

void write_by_the_program(world &w) {
    buffer &to = any_buffer(w);
    if (!to.traits().is_on_host) return;
    const drawn_write drawn = draw_write(w.random, to);
    w.say("by the program instead: " + drawn.words());
    w.wait_for(std::vector<effect>{drawn});
    std::memcpy(to.bytes_on_host() + drawn.offset, drawn.data.data(), drawn.data.size());
    w.done({drawn});
}

void hold_a_stream(world &w) {
    const lane &on = w.lanes[w.any_lane()];
    w.say(std::string("holding '") + on.name + "' of device " + std::to_string(on.device));
    const made_current scope(on.context);
    static constexpr auto hold = [](void *) { std::this_thread::sleep_for(std::chrono::milliseconds(2)); };
    w.require(raw().cuLaunchHostFunc(on.stream, hold, nullptr));
}

} // namespace ferry::test
