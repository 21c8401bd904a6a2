// Memory as host threads and blocks of a GPU see it, each in its own time: docs/protocol.md says by which rules. Every
// atomic location keeps the stores that some thread may still read; every thread has a view, the stores and plain
// accesses that happened before its next step. Plain memory is not read at random: an access that is not ordered after
// the accesses it conflicts with is an error of the protocol.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "search.h"

namespace ferry::protocol {

constexpr unsigned most_threads = 10, most_atomics = 16;

enum class side : std::uint8_t { host, device };
enum class order : std::uint8_t { relaxed, acquire, release };
// Device: the threads of one GPU. System: those, and the host's. What a host thread does is of the system's scope.
enum class scope : std::uint8_t { device, system };

// What happened before: of each atomic location the number of a store, of each thread its number of plain accesses.
struct view {
    std::array<std::uint8_t, most_atomics> stores = {};
    std::array<std::uint8_t, most_threads> accesses = {};

    void join(const view &other);
    bool operator==(const view &) const = default;
};

// Views are named by a number, so that states are small and equal views are equal.
using view_id = std::uint32_t;
class view_pool {
public:
    view_pool() { name({}); } // 0: nothing happened
    view_id name(const view &one);
    view_id joined(view_id one, view_id other);
    const view &operator[](view_id id) const { return views_[id]; }

private:
    struct hash {
        std::size_t operator()(const view &of) const;
    };
    std::vector<view> views_;
    std::unordered_map<view, view_id, hash> names_;
};

class memory {
public:
    memory(view_pool &views, unsigned atomics, unsigned plain) : views_(&views) {
        atomics_.resize(atomics);
        plain_.resize(plain);
        for (unsigned at = 0; at < atomics; ++at)
            stores_.push_back({});
    }

    // A thread takes part from here on, after what `parent` has done.
    void begin(unsigned thread, side where, unsigned parent);
    void begin_first(unsigned thread) { threads_[thread].is_alive = true; }
    void end(unsigned thread) { threads_[thread] = {}; }
    // It only passes on what others did.
    void loads_no_more(unsigned thread) { threads_[thread].may_load = false; }
    // What `thread` has done happens before what `next` does from now on: streams, launches and their ends, mutexes.
    void pass(unsigned thread, unsigned next);

    // ---- Atomic locations
    std::uint16_t load(unsigned thread, unsigned location, order by, scope within, choices &way);
    void store(unsigned thread, unsigned location, std::uint16_t value, order by, scope within);
    // Acquires and releases.
    std::uint16_t exchange(unsigned thread, unsigned location, std::uint16_t value, scope within);
    std::uint16_t newest(unsigned location) const;
    void fence(unsigned thread, scope within); // acquires and releases

    // ---- Plain memory
    std::uint16_t read(unsigned thread, unsigned place);
    void write(unsigned thread, unsigned place, std::uint16_t value);
    // Past the caches: no release covers it before end_of_stream().
    void stream(unsigned thread, unsigned place, std::uint16_t value);
    void end_of_stream(unsigned thread);
    std::uint16_t peek(unsigned place) const { return plain_[place].value; }

    const char *broken() const { return broken_; }
    void break_with(const char *what) {
        if (!broken_) broken_ = what;
    }
    void forget_unreadable(); // stores that no thread can read any more
    void identify(fingerprint &state) const;

private:
    struct stored {
        std::uint16_t value = 0;
        // What whoever acquires it learns: a thread of the device, and any thread.
        view_id for_device = 0, for_all = 0;
        bool by_device = false;
    };
    struct atomic {
        std::uint8_t oldest = 0, count = 1; // of the stores that are kept
        unsigned newest() const { return oldest + count - 1U; }
    };
    struct plain {
        std::uint16_t value = 0;
        std::uint8_t writer = 0, write = 0;                // the access, by its number
        std::array<std::uint8_t, most_threads> reads = {}; // of each thread the last since then
    };
    struct thread {
        bool is_alive = false, may_load = true;
        side where = side::host;
        std::uint8_t accesses = 0;
        view_id now = 0;
        // By relaxed loads so far: what a fence of each scope would learn. By a fence so far: what relaxed stores tell.
        view_id to_learn[2] = {}, told[2] = {};
    };

    stored &at(unsigned location, unsigned number);
    view_id learned(const thread &reader, const stored &from, scope within) const;
    void add_store(thread &writer, unsigned location, const stored &made);
    void note_access(unsigned by, bool is_ordered);

    view_pool *views_;
    std::vector<atomic> atomics_;
    std::vector<stored> stores_; // by location, then by number
    std::vector<plain> plain_;
    std::array<thread, most_threads> threads_ = {};
    const char *broken_ = nullptr;
};

} // namespace ferry::protocol
