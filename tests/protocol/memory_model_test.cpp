// Litmus tests: the checker's memory model permits the outcomes that C++ and PTX permit, and no other outcomes.
#include <set>

#include <gtest/gtest.h>

#include "memory_model.h"

namespace ferry::protocol {
namespace {

constexpr unsigned writer = 0, reader = 1, third = 2;
constexpr unsigned flag = 0, other_flag = 1, data = 0;

// Returns every value that `run` returns over all choices. -1 represents a broken protocol.
template <class Run> std::set<int> outcomes_of(const Run &run) {
    std::set<int> all;
    choices way;
    do {
        view_pool views;
        memory all_memory(views, 2, 1);
        all_memory.begin_first(writer);
        const int outcome = run(all_memory, way);
        all.insert(all_memory.broken() ? -1 : outcome);
    } while (way.advance());
    return all;
}

struct passing {
    order stored, loaded;
    scope load_scope;
    bool is_fenced; // a fence of the load's scope follows the load
    side from;
    bool is_right;
};

TEST(memory_model, a_message_orders_its_data_where_release_and_acquire_include_each_other) {
    constexpr passing cases[] = {
        {order::release, order::acquire, scope::system, false, side::host, true},
        {order::release, order::acquire, scope::device, false, side::host, false},
        {order::release, order::relaxed, scope::system, false, side::host, false},
        {order::relaxed, order::acquire, scope::system, false, side::host, false},
        {order::release, order::relaxed, scope::system, true, side::host, true},
        {order::release, order::relaxed, scope::device, true, side::host, false},
        {order::release, order::acquire, scope::device, false, side::device, true},
        {order::release, order::relaxed, scope::device, true, side::device, true},
    };
    for (const passing &one : cases) {
        const std::set<int> outcomes = outcomes_of([&](memory &all, choices &way) {
            all.begin(third, one.from, writer);
            all.begin(reader, side::device, writer);
            all.write(third, data, 1);
            all.store(third, flag, 1, one.stored, one.from == side::host ? scope::system : scope::device);
            if (all.load(reader, flag, one.loaded, one.load_scope, way) == 0) return 0;
            if (one.is_fenced) all.fence(reader, one.load_scope);
            return 10 + all.read(reader, data);
        });
        const std::set<int> wanted = one.is_right ? std::set{0, 11} : std::set{-1, 0};
        EXPECT_EQ(outcomes, wanted) << "case " << &one - cases;
    }
}

TEST(memory_model, a_fence_of_the_device_does_not_release_to_the_host) {
    for (const scope within : {scope::device, scope::system}) {
        const std::set<int> outcomes = outcomes_of([&](memory &all, choices &way) {
            all.begin(third, side::device, writer);
            all.write(third, data, 1);
            all.fence(third, within);
            all.store(third, flag, 1, order::relaxed, scope::system);
            if (all.load(writer, flag, order::acquire, scope::system, way) == 0) return 0;
            return 10 + all.read(writer, data);
        });
        EXPECT_EQ(outcomes, within == scope::system ? (std::set{0, 11}) : (std::set{-1, 0}));
    }
}

TEST(memory_model, stores_to_two_locations_may_be_seen_in_either_order) {
    const std::set<int> outcomes = outcomes_of([](memory &all, choices &way) {
        all.begin(reader, side::device, writer);
        all.store(writer, flag, 1, order::relaxed, scope::system);
        all.store(writer, other_flag, 1, order::relaxed, scope::system);
        const int second = all.load(reader, other_flag, order::relaxed, scope::system, way);
        return second * 10 + all.load(reader, flag, order::relaxed, scope::system, way);
    });
    EXPECT_EQ(outcomes, (std::set{0, 1, 10, 11}));
}

TEST(memory_model, both_of_two_threads_may_miss_the_others_store) {
    const std::set<int> outcomes = outcomes_of([](memory &all, choices &way) {
        all.begin(reader, side::host, writer);
        all.store(writer, flag, 1, order::release, scope::system);
        all.store(reader, other_flag, 1, order::release, scope::system);
        const int one = all.load(writer, other_flag, order::acquire, scope::system, way);
        return one * 10 + all.load(reader, flag, order::acquire, scope::system, way);
    });
    EXPECT_TRUE(outcomes.contains(0));
}

TEST(memory_model, a_thread_never_reads_an_older_store_than_it_has_read) {
    const std::set<int> outcomes = outcomes_of([](memory &all, choices &way) {
        all.begin(reader, side::device, writer);
        all.store(writer, flag, 1, order::relaxed, scope::system);
        const int first = all.load(reader, flag, order::relaxed, scope::system, way);
        return first * 10 + all.load(reader, flag, order::relaxed, scope::system, way);
    });
    EXPECT_EQ(outcomes, (std::set{0, 1, 11}));
}

TEST(memory_model, what_a_thread_has_acquired_it_passes_on_in_a_narrower_scope) {
    const std::set<int> outcomes = outcomes_of([](memory &all, choices &way) {
        all.begin(reader, side::device, writer);
        all.begin(third, side::device, writer);
        all.write(writer, data, 1);
        all.store(writer, flag, 1, order::release, scope::system);
        if (all.load(reader, flag, order::acquire, scope::system, way) == 0) return 0;
        all.fence(reader, scope::device);
        all.store(reader, other_flag, 1, order::relaxed, scope::device);
        if (all.load(third, other_flag, order::acquire, scope::device, way) == 0) return 1;
        return 10 + all.read(third, data);
    });
    EXPECT_EQ(outcomes, (std::set{0, 1, 11}));
}

TEST(memory_model, an_exchange_passes_a_lock_on_within_its_scope) {
    const std::set<int> outcomes = outcomes_of([](memory &all, choices &) {
        all.begin(reader, side::device, writer);
        all.begin(third, side::device, writer);
        all.exchange(reader, flag, 1, scope::device);
        all.write(reader, data, 1);
        all.exchange(reader, flag, 0, scope::device);
        all.exchange(third, flag, 1, scope::device);
        return int{all.read(third, data)};
    });
    EXPECT_EQ(outcomes, (std::set{1}));
}

TEST(memory_model, bytes_that_another_may_still_read_are_not_overwritten) {
    for (const bool is_released : {false, true}) {
        const std::set<int> outcomes = outcomes_of([&](memory &all, choices &way) {
            all.begin(reader, side::device, writer);
            static_cast<void>(all.read(reader, data));
            all.store(reader, flag, 1, is_released ? order::release : order::relaxed, scope::system);
            if (all.load(writer, flag, order::acquire, scope::system, way) == 0) return 0;
            all.write(writer, data, 1);
            return 1;
        });
        EXPECT_EQ(outcomes, is_released ? (std::set{0, 1}) : (std::set{-1, 0}));
    }
}

TEST(memory_model, a_release_does_not_cover_streamed_bytes_before_the_end_of_the_stream) {
    for (const bool is_ended : {false, true}) {
        const std::set<int> outcomes = outcomes_of([&](memory &all, choices &way) {
            all.begin(reader, side::device, writer);
            all.stream(writer, data, 1);
            if (is_ended) all.end_of_stream(writer);
            all.store(writer, flag, 1, order::release, scope::system);
            if (all.load(reader, flag, order::acquire, scope::system, way) == 0) return 0;
            return 10 + all.read(reader, data);
        });
        EXPECT_EQ(outcomes, is_ended ? (std::set{0, 11}) : (std::set{-1, 0}));
    }
}

TEST(memory_model, two_stores_in_no_order_are_found) {
    const std::set<int> outcomes = outcomes_of([](memory &all, choices &) {
        all.begin(reader, side::device, writer);
        all.store(writer, flag, 1, order::release, scope::system);
        all.store(reader, flag, 2, order::release, scope::system);
        return 0;
    });
    EXPECT_EQ(outcomes, (std::set{-1}));
}

} // namespace
} // namespace ferry::protocol
