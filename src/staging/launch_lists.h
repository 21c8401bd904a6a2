// The lists of a scheduler's launches, one list per state. A launch changes its state only by moving to another list.
#pragma once

#include <initializer_list>

#include "staging/launch.h"

namespace ferry {

class launch_lists {
public:
    void add(staging_launch &made) noexcept { insert(made, launch_state::unused); }
    void move(staging_launch &launch, launch_state to) noexcept {
        list &from = lists_[index(launch.state)];
        from.launches.remove(launch);
        from.count.fetch_sub(1, std::memory_order_relaxed);
        insert(launch, to);
    }
    staging_launch *first(launch_state state) const noexcept { return lists_[index(state)].launches.first(); }
    staging_launch *last(launch_state state) const noexcept { return lists_[index(state)].launches.last(); }
    // May be called without the scheduler's mutex. The result may then be outdated.
    std::uint32_t count(launch_state state) const noexcept {
        return lists_[index(state)].count.load(std::memory_order_relaxed);
    }
    bool has(launch_state state) const noexcept { return first(state); }

    // Calls visit(launch) for all launches in these states. visit() may move the launch.
    template <class Visit>
    void for_each(std::initializer_list<launch_state> states, const Visit &visit) const noexcept {
        for (const launch_state state : states)
            for (staging_launch *next = first(state); next;) {
                staging_launch &launch = *next;
                next = launch.next;
                visit(launch);
            }
    }

private:
    struct list {
        chain<staging_launch> launches;
        std::atomic<std::uint32_t> count = 0;
    };
    static constexpr std::size_t index(launch_state state) noexcept { return static_cast<std::size_t>(state); }
    void insert(staging_launch &launch, launch_state state) noexcept {
        list &to = lists_[index(state)];
        // The free list has launches that keep memory for pieces at its front, and the others at its back. At both ends
        // the launch used last, which is still in a cache, is taken first.
        if (state == launch_state::unused && launch.list.has_memory())
            to.launches.push_front(launch);
        else
            to.launches.push_back(launch);
        to.count.fetch_add(1, std::memory_order_relaxed);
        launch.state = state;
    }

    list lists_[launch_states];
};

} // namespace ferry
