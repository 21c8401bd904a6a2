// The slots of a process that shares, and the tickets of events.
#include "softdriver/sharing.h"

namespace ferry::softdriver {

std::uint64_t shared_name::sum() const {
    std::uint64_t sum = 0x6665'7272'7920'6970; // "ferry ip"
    for (const std::uint64_t part :
         {nonce, std::uint64_t(process), std::uint64_t(descriptor), std::uint64_t(kind), std::uint64_t{slot}, serial})
        sum = (sum ^ part) * 0x9e37'79b9'7f4a'7c15 + (sum >> 29);
    return sum;
}

shared_slot *shared_process::find(const shared_name &name) const {
    if (name.slot >= shared_page::max_slots) return nullptr;
    shared_slot &found = slot(name.slot);
    return name.serial != 0 && found.serial == name.serial && found.kind == name.kind ? &found : nullptr;
}

std::optional<std::uint32_t> shared_process::publish(shared_kind kind, int device, std::uint64_t offset,
                                                     std::uint64_t size, std::uint64_t pool) {
    static std::atomic<std::uint64_t> last_serial = 0;
    for (std::uint32_t i = 0; i < shared_page::max_slots; ++i) {
        shared_slot &taken = slot(i);
        if (taken.serial != 0) continue;
        taken.kind = kind;
        taken.device = device;
        taken.offset = offset;
        taken.size = size;
        taken.pool = pool;
        taken.last_ticket = 0;
        for (shared_slot::record &one : taken.records)
            one.taken = one.finished = 0;
        taken.serial = ++last_serial;
        return i;
    }
    return std::nullopt;
}

shared_name shared_process::name_of(std::uint32_t index) const {
    const shared_slot &named = slot(index);
    shared_name name{nonce_, own_number(), file_, named.kind, index, named.serial};
    name.check = name.sum();
    return name;
}

shared_event::shared_event(std::shared_ptr<shared_process> in, const shared_name &name)
    : in_(std::move(in)), slot_(name.slot), at_(in_->slot(slot_)), serial_(name.serial) {}

shared_event::~shared_event() {
    if (!is_own()) return;
    in_->retire(slot_);
    ++at_.changes;
    wake_sharers(at_.changes);
}

std::uint64_t shared_event::take_ticket() {
    const std::uint64_t ticket = ++at_.last_ticket;
    at_.records[ticket % shared_slot::remembered].taken = ticket << 32 | in_->participant();
    return ticket;
}

void shared_event::finish(std::uint64_t ticket) {
    if (is_gone()) return;
    std::atomic<std::uint64_t> &finished = at_.records[ticket % shared_slot::remembered].finished;
    std::uint64_t before = finished;
    while (before < ticket && !finished.compare_exchange_weak(before, ticket))
        continue;
    ++at_.changes;
    wake_sharers(at_.changes);
}

bool shared_event::is_finished(std::uint64_t ticket) const {
    const shared_slot::record &of = at_.records[ticket % shared_slot::remembered];
    if (ticket == 0 || is_gone() || of.finished >= ticket) return true;
    const std::uint64_t taken = of.taken;
    const bool is_of_ticket = taken >> 32 == (ticket & 0xffff'ffff);
    return is_of_ticket && !in_->is_alive(static_cast<std::uint32_t>(taken));
}

void shared_event::wait(std::uint64_t ticket) const {
    for (;;) {
        const std::uint32_t seen = at_.changes;
        if (is_finished(ticket)) return;
        sleep_until_changed(at_.changes, seen);
    }
}

} // namespace ferry::softdriver
