// What processes see of each other: a page of names beside a process's device memory, in the same file. Handles name
// the process, its file and a slot of that page; the file is found in /proc.
#pragma once

#include <cuda.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>

namespace ferry::softdriver {

enum class shared_kind : std::uint32_t { memory, pool, pool_memory, event };

// One shared thing. Processes write to slots of each other only where it says so.
struct shared_slot {
    std::atomic<std::uint64_t> serial; // of what is here: never another's, and 0 where nothing is
    shared_kind kind;
    std::int32_t device;
    std::uint64_t offset; // of memory, in its owner's file
    std::uint64_t size;
    std::uint64_t pool; // of memory of pools: the pool's serial

    // Of events. Every process that records one takes the next ticket; how each of the last tickets fares is written
    // where its number leads to.
    static constexpr std::size_t remembered = 16;
    struct record {
        std::atomic<std::uint64_t> taken;    // by the lower half, as the number in the upper half
        std::atomic<std::uint64_t> finished; // the last ticket that has
    };
    std::atomic<std::uint64_t> last_ticket;
    std::atomic<std::uint32_t> changes; // what waiters sleep on
    std::array<record, remembered> records;
};

struct shared_page {
    static constexpr std::size_t most = 4096;
    std::atomic<std::uint64_t> nonce; // written last
    std::atomic<std::uint32_t> participants;
    std::array<shared_slot, most> slots;
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free && std::atomic<std::uint32_t>::is_always_lock_free);

// What a handle for other processes holds. Its 64 bytes may come from anywhere.
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

// A process's file as this process has it open: its own, or another's. Safe from any thread.
class shared_process {
public:
    // `file` holds device memory up to `page`, and is its owner's to close.
    static std::shared_ptr<shared_process> make_own(int file, std::size_t page);
    // Null where there is no such process any more, or the name is none.
    static std::shared_ptr<shared_process> open(const shared_name &name);
    ~shared_process();
    shared_process(const shared_process &) = delete;

    bool is_own() const { return is_own_; }
    bool is_named_by(const shared_name &name) const { return nonce_ == name.nonce; }
    bool is_same_file(const shared_name &name) const;
    int file() const { return file_; }
    std::size_t memory_size() const { return page_at_; }
    std::uint32_t participant() const { return participant_; }
    // Whether a process that has taken part since still runs this driver. The owner is the first.
    static constexpr std::uint32_t owner = 1;
    bool is_alive(std::uint32_t participant = owner) const;

    shared_slot &slot(std::uint32_t index) const { return page_->slots[index]; }
    shared_slot *find(const shared_name &name) const; // null where that has gone

    // Of the own process. Nothing where all slots are taken.
    std::optional<std::uint32_t> publish(shared_kind kind, int device, std::uint64_t offset, std::uint64_t size,
                                         std::uint64_t pool = 0);
    void retire(std::uint32_t index) { slot(index).serial = 0; }
    shared_name name_of(std::uint32_t index) const;

private:
    shared_process() = default;
    void take_part();

    bool is_own_ = false;
    int file_ = -1;
    std::size_t page_at_ = 0;
    shared_page *page_ = nullptr;
    std::uint64_t nonce_ = 0;
    std::uint32_t participant_ = 0;
    std::uint64_t file_number_ = 0;
};

// An event's slot, as long as anything here needs it.
class shared_event {
public:
    shared_event(std::shared_ptr<shared_process> in, const shared_name &name);
    ~shared_event(); // of the own process: it goes

    std::uint64_t last_ticket() const { return at_.last_ticket; }
    std::uint64_t take_ticket();
    void finish(std::uint64_t ticket);
    bool is_finished(std::uint64_t ticket) const; // or its process is gone
    void wait(std::uint64_t ticket) const;

    bool is_own() const { return in_->is_own(); }
    bool is_gone() const { return at_.serial != serial_; } // its owner has destroyed it
    shared_name name() const { return in_->name_of(slot_); }

private:
    const std::shared_ptr<shared_process> in_;
    const std::uint32_t slot_;
    shared_slot &at_;
    const std::uint64_t serial_;
};

} // namespace ferry::softdriver
