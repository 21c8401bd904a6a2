// The state that processes share: a page of slots after a process's device memory in the same file. A handle names the
// process, its file descriptor and a slot of that page. Other processes open the file through /proc.
#pragma once

#include "driver/cuda_api.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>

#include "system/handles.h"

namespace ferry::softdriver {

// Whether the system has the features that sharing between processes requires.
#if defined(__linux__)
inline constexpr bool can_share = true;
#else
inline constexpr bool can_share = false;
#endif

enum class shared_kind : std::uint32_t { memory, pool, pool_memory, event };

// One shared object. Processes other than the owner write only the fields for events.
struct shared_slot {
    std::atomic<std::uint64_t> serial; // of the object here, never reused; 0: the slot is free
    shared_kind kind;
    std::int32_t device;
    std::uint64_t offset; // for memory: offset in its owner's file
    std::uint64_t size;
    std::uint64_t pool; // for pool memory: the pool's serial

    // For events. Each record of the event takes the next ticket, in any process. The state of ticket n is in records[n
    // % remembered].
    static constexpr std::size_t remembered = 16;
    struct record {
        std::atomic<std::uint64_t> taken;    // upper half: the ticket, lower half: the participant that took it
        std::atomic<std::uint64_t> finished; // the last ticket that finished
    };
    std::atomic<std::uint64_t> last_ticket;
    std::atomic<std::uint32_t> changes; // a futex that waiters sleep on
    std::array<record, remembered> records;
};

struct shared_page {
    static constexpr std::size_t max_slots = 4096;
    std::atomic<std::uint64_t> nonce; // written last
    std::atomic<std::uint32_t> participants;
    std::array<shared_slot, max_slots> slots;
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free && std::atomic<std::uint32_t>::is_always_lock_free);

// The contents of a handle for other processes. The 64 bytes of a handle may come from any source, so they have a
// checksum.
struct shared_name {
    std::uint64_t nonce = 0; // of the process
    std::int32_t process = 0;
    std::int32_t descriptor = -1; // in that process
    shared_kind kind = shared_kind::memory;
    std::uint32_t slot = 0;
    std::uint64_t serial = 0;
    std::uint64_t check = 0;

    template <class Handle> void write_to(Handle &handle) const {
        static_assert(sizeof *this <= sizeof handle);
        std::memset(&handle, 0, sizeof handle);
        std::memcpy(&handle, this, sizeof *this);
    }
    template <class Handle> static std::optional<shared_name> read_from(const Handle &handle, shared_kind wanted) {
        shared_name name;
        std::memcpy(static_cast<void *>(&name), &handle, sizeof name);
        if (name.kind != wanted || name.check != name.sum()) return std::nullopt;
        return name;
    }

    std::uint64_t sum() const;
};

// Returns a file from which another process can read the name; -1 if the system has none.
int write_name(const shared_name &name);
std::optional<shared_name> read_name(int file);

// A word on which several processes wait. May return early, after several milliseconds at the latest.
void sleep_until_changed(std::atomic<std::uint32_t> &word, std::uint32_t seen);
void wake_sharers(std::atomic<std::uint32_t> &word);

std::int32_t own_number(); // of the process

// The open file of a process that shares: this process or another process. Thread-safe.
class shared_process {
public:
    // `file` contains device memory up to the offset `page`. The caller closes the file.
    static std::shared_ptr<shared_process> make_own(int file, std::size_t page);
    // Returns null if the process has ended or the name is invalid.
    static std::shared_ptr<shared_process> open(const shared_name &name);
    ~shared_process();
    shared_process(const shared_process &) = delete;

    bool is_own() const { return is_own_; }
    bool is_named_by(const shared_name &name) const { return nonce_ == name.nonce; }
    bool is_same_file(const shared_name &name) const;
    int file() const { return is_own_ ? file_ : opened_.get(); }
    std::size_t memory_size() const { return page_at_; }
    std::uint32_t participant() const { return participant_; }
    // Returns whether the process with this participant number is still running this driver. The owner is the first
    // participant.
    static constexpr std::uint32_t owner = 1;
    bool is_alive(std::uint32_t participant = owner) const;

    shared_slot &slot(std::uint32_t index) const { return page_->slots[index]; }
    shared_slot *find(const shared_name &name) const; // null if the object no longer exists

    // Only for the own process. Returns nothing if all slots are in use.
    std::optional<std::uint32_t> publish(shared_kind kind, int device, std::uint64_t offset, std::uint64_t size,
                                         std::uint64_t pool = 0);
    void retire(std::uint32_t index) { slot(index).serial = 0; }
    shared_name name_of(std::uint32_t index) const;

private:
    shared_process() = default;
    void take_part();

    bool is_own_ = false;
    int file_ = -1;
    kept_descriptor opened_; // the file of another process
    std::size_t page_at_ = 0;
    shared_page *page_ = nullptr;
    std::uint64_t nonce_ = 0;
    std::uint32_t participant_ = 0;
    std::uint64_t file_number_ = 0;
};

// An event's slot, kept as long as this process needs it.
class shared_event {
public:
    shared_event(std::shared_ptr<shared_process> in, const shared_name &name);
    ~shared_event(); // retires the slot if this process owns it

    std::uint64_t last_ticket() const { return at_.last_ticket; }
    std::uint64_t take_ticket();
    void finish(std::uint64_t ticket);
    bool is_finished(std::uint64_t ticket) const; // or the event or the ticket's process no longer exists
    void wait(std::uint64_t ticket) const;

    bool is_own() const { return in_->is_own(); }
    bool is_gone() const { return at_.serial != serial_; } // the owner has destroyed the event
    shared_name name() const { return in_->name_of(slot_); }

private:
    const std::shared_ptr<shared_process> in_;
    const std::uint32_t slot_;
    shared_slot &at_;
    const std::uint64_t serial_;
};

} // namespace ferry::softdriver
