// The servers of a scheduler: the threads that serve all copies, ferry's own and the program's. Counts how many are in
// each state, and is the semaphore on which they sleep.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <utility>

namespace ferry {

enum class server_state : std::uint8_t {
    awake,  // holds the mutex or waits for it, or rests between two looks for work
    idle,   // has found no work, and looks again within microseconds
    busy,   // at a channel, for ever if the pages of the program do not come
    asleep, // until it is called
    called, // looks for work once the system runs it
};

// Guarded by the scheduler's mutex.
class staging_servers {
public:
    using lock = std::unique_lock<std::mutex>;

    void come() noexcept { ++in(server_state::awake); }
    void leave() noexcept { --in(server_state::awake); } // only a server that is awake
    void change(server_state from, server_state to) noexcept {
        --in(from);
        ++in(to);
    }

    std::uint32_t count(server_state state) const noexcept { return counts_[static_cast<std::size_t>(state)]; }
    std::uint32_t all() const noexcept {
        return free() + count(server_state::busy) + count(server_state::asleep) + count(server_state::called);
    }
    // Servers that are awake and have no channel.
    std::uint32_t free() const noexcept { return count(server_state::awake) + count(server_state::idle); }
    // Servers that will see new work soon, without another call.
    std::uint32_t looking() const noexcept { return count(server_state::idle) + count(server_state::called); }

    // Puts a server to sleep that is awake, until it is called.
    void sleep(lock &held) noexcept;
    // Calls up to `most` of those that sleep.
    void call(std::uint32_t most) noexcept;
    void call_all() noexcept { call(count(server_state::asleep)); }
    // Unlocks the mutex, and then makes the system calls for the servers that were called, because these take
    // microseconds.
    void unlock(lock &held) noexcept;

private:
    std::uint32_t &in(server_state state) noexcept { return counts_[static_cast<std::size_t>(state)]; }

    std::uint32_t counts_[static_cast<std::size_t>(server_state::called) + 1] = {};
    std::uint32_t unnotified_ = 0;         // called, and unlock() has yet to make the system call
    std::atomic<std::uint32_t> calls_ = 0; // changes with each call; sleepers wait for a change
};

// Locks the scheduler's mutex. Spins at first: threads hold the mutex for less than a microsecond at a time. A thread
// that slept for the mutex would be late, and the holder would have to wake it.
void lock_patiently(staging_servers::lock &held) noexcept;

} // namespace ferry
