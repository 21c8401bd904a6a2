// A weak memory model of host threads and blocks of a GPU, with the rules of docs/protocol.md. Every atomic location
// keeps the stores that some thread may still read. Every thread has a view: the stores and plain accesses that
// happened before its next step. Plain reads return the current value: a plain access that is not ordered after a
// conflicting access is an error of the protocol.
// accesses it conflicts with is an error of the protocol.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "search.h"

namespace ferry::protocol {

constexpr unsigned max_threads = 10, max_atomics = 16;

enum class side : std::uint8_t { host, device };
enum class order : std::uint8_t { relaxed, acquire, release };
// device: the threads of one GPU. system: the threads of the GPU and of the host. Accesses of a host thread have system
// scope.
enum class scope : std::uint8_t { device, system };

// What happened before: for each atomic location, the number of its oldest readable store; for each thread, its number
// of plain accesses.
struct view {
    std::array<std::uint8_t, max_atomics> stores = {};
    std::array<std::uint8_t, max_threads> accesses = {};

    void join(const view &other);
    bool operator==(const view &) const = default;
};

// Assigns numbers to views, so that states are small and equal views have equal numbers.
using view_id = std::uint32_t;
class view_pool {
public:
    view_pool() { name({}); } // view 0: nothing has happened before
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

    // Starts a thread, ordered after the steps of `parent`.
    void begin(unsigned thread, side where, unsigned parent);
    void begin_first(unsigned thread) { threads_[thread].is_alive = true; }
    void end(unsigned thread) { threads_[thread] = {}; }
    // After this call, the thread only passes on what other threads have done.
    void loads_no_more(unsigned thread) { threads_[thread].may_load = false; }
    // The steps of `thread` so far happen before all further steps of `next`: streams, launches and their ends,
    // mutexes.
    void pass(unsigned thread, unsigned next);

    // ---- Atomic locations
    std::uint16_t load(unsigned thread, unsigned location, order by, scope within, choices &way);
    void store(unsigned thread, unsigned location, std::uint16_t value, order by, scope within);
    // Acquires and releases, within its scope.
    std::uint16_t exchange(unsigned thread, unsigned location, std::uint16_t value, scope within);
    std::uint16_t newest(unsigned location) const;
    void fence(unsigned thread, scope within); // acquires and releases

    // ---- Plain memory
    std::uint16_t read(unsigned thread, unsigned place);
    void write(unsigned thread, unsigned place, std::uint16_t value);
    // Writes with a streaming store: no release covers the write before end_of_stream().
    void stream(unsigned thread, unsigned place, std::uint16_t value);
    void end_of_stream(unsigned thread);
    std::uint16_t peek(unsigned place) const { return plain_[place].value; }

    const char *broken() const { return broken_; }
    void break_with(const char *what) {
        if (!broken_) broken_ = what;
    }
    void forget_unreadable(); // drops the stores that no thread can read any more
    void identify(fingerprint &state) const;

private:
    struct stored {
        std::uint16_t value = 0;
        // What an acquire of this store acquires: by a thread of its device, and by any thread.
        view_id for_device = 0, for_all = 0;
        bool by_device = false;
    };
    struct atomic {
        std::uint8_t oldest = 0, count = 1; // of the kept stores
        unsigned newest() const { return oldest + count - 1U; }
    };
    struct plain {
        std::uint16_t value = 0;
        std::uint8_t writer = 0, write = 0;               // the last write: its thread, and its number there
        std::array<std::uint8_t, max_threads> reads = {}; // each thread's last read since that write
    };
    struct thread {
        bool is_alive = false, may_load = true;
        side where = side::host;
        std::uint8_t accesses = 0;
        view_id now = 0;
        // to_acquire: what a fence of each scope would acquire from the relaxed loads so far. to_release: what relaxed
        // stores release since the last fence of each scope.
        view_id to_acquire[2] = {}, to_release[2] = {};
    };

    stored &at(unsigned location, unsigned number);
    view_id learned(const thread &reader, const stored &from, scope within) const;
    void add_store(thread &writer, unsigned location, const stored &made);
    void note_access(unsigned by, bool is_ordered);

    view_pool *views_;
    std::vector<atomic> atomics_;
    std::vector<stored> stores_; // by location, then by number
    std::vector<plain> plain_;
    std::array<thread, max_threads> threads_ = {};
    const char *broken_ = nullptr;
};

} // namespace ferry::protocol
