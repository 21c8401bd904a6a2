// The servers of a scheduler: the threads that serve all copies, both ferry's and the program's. Counts the servers in
// each state, and is the semaphore on which they sleep.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <utility>

namespace ferry {

enum class server_state : std::uint8_t {
    awake,  // owns the mutex or waits for it, or rests before it checks for work again
    idle,   // has found no work, and checks again within microseconds
    busy,   // serves a channel, forever if a page of the program never arrives
    asleep, // until it is called
    called, // checks for work once the system runs it
};

// The NUMA node on whose processors a server runs. The server prefers copies of that node's devices. any_node: the
// server runs on any node and has no preference.
constexpr int homes = 15; // further nodes have no servers of their own
constexpr bool is_home(int node) noexcept { return node >= 0 && node < homes; }

// Guarded by the scheduler's mutex.
class staging_servers {
public:
    using lock = std::unique_lock<std::mutex>;

    void come(int home) noexcept {
        ++in(server_state::awake);
        ++of(home).free;
    }
    void leave(int home) noexcept { // only for a server that is awake
        --in(server_state::awake);
        --of(home).free;
    }
    void change(server_state from, server_state to, int home) noexcept {
        --in(from);
        ++in(to);
        of(home).free += is_free(to) - is_free(from);
    }

    std::uint32_t count(server_state state) const noexcept { return counts_[static_cast<std::size_t>(state)]; }
    std::uint32_t all() const noexcept {
        return free() + count(server_state::busy) + count(server_state::asleep) + count(server_state::called);
    }
    // Servers that are awake and do not serve a channel.
    std::uint32_t free() const noexcept { return count(server_state::awake) + count(server_state::idle); }
    // Whether any free server has this home.
    bool is_any_free(int home) const noexcept { return by_home_[room(home)].free != 0; }
    // Servers that will see new work soon, without another call.
    std::uint32_t looking() const noexcept { return count(server_state::idle) + count(server_state::called); }

    // Puts an awake server to sleep until it is called.
    void sleep(lock &held, int home) noexcept;
    // Calls up to `most` sleeping servers, preferring servers with this home.
    void call(std::uint32_t most, int home) noexcept;
    void call_all() noexcept { call(count(server_state::asleep), -1); }
    static constexpr std::uint32_t woken_by_server = 3;
    // Unlocks the mutex, and then makes the system calls for at most `most` of the called servers, because each call
    // takes a microsecond or more. The servers that wake make the calls for the others when they unlock the mutex.
    void unlock(lock &held, std::uint32_t most = woken_by_server) noexcept;

private:
    // The servers of one home.
    struct home_servers {
        int free = 0;
        std::uint32_t asleep = 0, called = 0;
        std::uint32_t unnotified = 0;         // calls for which unlock() has not made the system call yet
        std::atomic<std::uint32_t> calls = 0; // changes with each call; sleeping servers wait for a change
    };
    static int is_free(server_state state) noexcept {
        return state == server_state::awake || state == server_state::idle;
    }
    static std::size_t room(int home) noexcept { return is_home(home) ? static_cast<std::size_t>(1 + home) : 0; }
    home_servers &of(int home) noexcept { return by_home_[room(home)]; }
    std::uint32_t call_from(home_servers &one, std::uint32_t most) noexcept;
    std::uint32_t &in(server_state state) noexcept { return counts_[static_cast<std::size_t>(state)]; }

    alignas(64) std::uint32_t counts_[static_cast<std::size_t>(server_state::called) + 1] = {};
    std::uint32_t unnotified_ = 0;    // for all homes
    std::size_t first_to_wake_ = 0;   // the room of the last call
    home_servers by_home_[1 + homes]; // the first is for servers without a home
};

// Locks the scheduler's mutex. Spins first, because threads hold the mutex for less than a microsecond. A thread that
// slept on the mutex would be delayed, and the owner would have to wake it.
void lock_patiently(staging_servers::lock &held) noexcept;

} // namespace ferry
