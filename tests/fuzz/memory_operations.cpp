// Operations that create and free memory concurrently with copies, and that wait for work in flight.
#include "fuzz/operations.h"

namespace ferry::test {

void replace_a_buffer(world &w) {
    const std::size_t number = w.random.up_to(w.buffers.size() - 1);
    w.say("replacing " + w.buffers[number]->name());
    w.replace(number);
}

void register_another_part(world &w) {
    for (const auto &one : w.buffers) {
        if (one->kind != memory_kind::registered_in_part) continue;
        w.say("registering other parts of " + one->name());
        w.wait_for(*one);
        w.drop_users(*one);
        one->unregister_parts();
        if (!w.random.one_in(4)) one->register_part(w.random);
        return;
    }
}

void reallocate_in_stream_order(world &w) {
    buffer &one = any_buffer(w);
    if (one.kind != memory_kind::stream_ordered && one.kind != memory_kind::device_pool) return;
    const CUcontext primary = w.contexts[static_cast<std::size_t>(1 + one.device)];
    const std::size_t lane = w.any_lane([&](const struct lane &each) { return each.context == primary; });
    const struct lane &on = w.lanes[lane];
    w.say("freeing " + one.name() + " and allocating it anew on '" + on.name + "'");
    w.drop_users(one);
    // The new memory contains undefined bytes until it is filled.
    drawn_fill whole;
    whole.destination = line_in(one, 0, one.size());
    whole.size.width = one.size();
    whole.pattern[0] = static_cast<std::uint8_t>(w.random.up_to(255));
    w.order(lane, {whole});
    {
        const made_current scope(on.context);
        one.reallocate(on.stream);
    }
    const ferry_fill_desc fill = whole.describe();
    w.require(w.call(w.context_for(on),
                     [&] { return ferry_fill_async(w.run.ferry.get(), &fill, nullptr, on.stream, nullptr, nullptr); }));
    w.enqueued(lane, {whole});
}

void trim_staging(world &w) {
    w.say("ferry_staging_trim");
    w.require(w.call(w.any_context(), [&] { return ferry_staging_trim(w.run.ferry.get(), nullptr); }));
}

void trim_pools(world &w) {
    w.say("trimming pools");
    ferry_instance *const ferry = w.run.ferry.get();
    const std::uint64_t keep = w.random.size(1 << 20);
    w.require(w.call(w.any_context(), [&] { return ferry_pinned_pool_trim(w.sources.pinned, keep, nullptr); }));
    for (CUmemPoolHandle_st *const pool :
         {w.sources.host_pool, w.sources.host_pools_of_one[0], w.sources.device_pools[0], w.sources.device_pools[1]}) {
        if (!pool) continue;
        ferry_pool_stats stats = {};
        stats.struct_size = sizeof stats;
        ferry_pool_attributes attributes = {};
        attributes.struct_size = sizeof attributes;
        w.require(
            w.call(w.any_context(), [&] { return ferry_pool_get_attributes(ferry, pool, &attributes, nullptr); }));
        attributes.release_threshold = w.random.one_in(2) ? 0 : ~std::uint64_t{0};
        attributes.reuse_opportunistic = w.random.one_in(2);
        w.require(
            w.call(w.any_context(), [&] { return ferry_pool_set_attributes(ferry, pool, &attributes, nullptr); }));
        w.require(w.call(w.any_context(), [&] { return ferry_pool_trim(ferry, pool, keep, nullptr); }));
        w.require(w.call(w.any_context(), [&] { return ferry_pool_get_stats(ferry, pool, &stats, nullptr); }));
        w.expect(stats.reserved_current <= stats.reserved_high && stats.used_current <= stats.used_high,
                 "the statistics of a pool contradict each other");
    }
}

void prepare_staging(world &w) {
    const int device = static_cast<int>(w.random.up_to(static_cast<std::uint64_t>(device_count())));
    w.say("ferry_staging_prepare of device " + std::to_string(device));
    const std::int32_t status =
        w.call(w.any_context(), [&] { return ferry_staging_prepare(w.run.ferry.get(), device, nullptr); });
    const std::int32_t expected = device == device_count()                      ? FERRY_ERROR_DEVICE
                                  : w.run.setting.staging == FERRY_STAGING_NONE ? FERRY_ERROR_UNSUPPORTED
                                                                                : 0;
    w.expect(status == expected, "ferry_staging_prepare returned an unexpected status");
}

void change_peer_access(world &w) {
    if (device_count() < 2) return;
    const int device = w.random.one_in(2);
    const bool enables = w.random.one_in(2);
    w.say(std::string(enables ? "enabling" : "disabling") + " peer access of device " + std::to_string(device));
    ferry_instance *const ferry = w.run.ferry.get();
    // Prepared batches and graphs keep the peer access that was enabled when they were created.
    while (!w.graphs.empty())
        w.release_graph(0);
    while (!w.prepared.empty())
        w.release_prepared(0);
    const std::int32_t status = w.call(w.any_context(), [&] {
        return enables ? ferry_peer_enable(ferry, device, 1 - device, nullptr)
                       : ferry_peer_disable(ferry, device, 1 - device, nullptr);
    });
    w.expect(status == 0 || is_without_access(status), "a change of peer access returned an unexpected status");
}

void wait_for_a_stream(world &w) {
    const std::size_t lane = w.any_lane();
    w.say(std::string("waiting for '") + w.lanes[lane].name + "' of device " + std::to_string(w.lanes[lane].device));
    w.synchronize(lane);
    std::int32_t is_done = 0;
    if (!w.is_alone() && w.lanes[lane].is_blocking) return; // other threads may have enqueued work there
    w.require(w.call(w.lanes[lane].context,
                     [&] { return ferry_stream_query(w.run.ferry.get(), w.lanes[lane].stream, &is_done, nullptr); }));
    w.expect(is_done, "a synchronized stream still has work");
}

void compare_everything(world &w) {
    w.say("comparing every byte");
    w.check_all();
}

} // namespace ferry::test
