#include "memory_model.h"

#include <algorithm>
#include <string_view>
#include <type_traits>

namespace ferry::protocol {

namespace {

constexpr unsigned index(scope within) { return within == scope::system ? 1 : 0; }

template <std::size_t size>
void take_later(std::array<std::uint8_t, size> &one, const std::array<std::uint8_t, size> &other) {
    for (std::size_t i = 0; i < size; ++i)
        one[i] = std::max(one[i], other[i]);
}

} // namespace

void view::join(const view &other) {
    take_later(stores, other.stores);
    take_later(accesses, other.accesses);
}

std::size_t view_pool::hash::operator()(const view &of) const {
    static_assert(std::has_unique_object_representations_v<view>);
    return std::hash<std::string_view>()({reinterpret_cast<const char *>(&of), sizeof of});
}

view_id view_pool::name(const view &one) {
    const auto [found, is_new] = names_.try_emplace(one, static_cast<view_id>(views_.size()));
    if (is_new) views_.push_back(one);
    return found->second;
}

view_id view_pool::joined(view_id one, view_id other) {
    if (one == other || other == 0) return one;
    if (one == 0) return other;
    view both = views_[one];
    both.join(views_[other]);
    return name(both);
}

// ---- Threads

void memory::begin(unsigned thread, side where, unsigned parent) {
    threads_[thread] = {.is_alive = true, .where = where, .now = threads_[parent].now};
    threads_[thread].accesses = (*views_)[threads_[thread].now].accesses[thread];
}

void memory::pass(unsigned thread, unsigned next) {
    threads_[next].now = views_->joined(threads_[next].now, threads_[thread].now);
}

// ---- Atomic locations

memory::stored &memory::at(unsigned location, unsigned number) {
    unsigned before = 0;
    for (unsigned other = 0; other < location; ++other)
        before += atomics_[other].count;
    return stores_[before + number - atomics_[location].oldest];
}

std::uint16_t memory::newest(unsigned location) const {
    return const_cast<memory *>(this)->at(location, atomics_[location].newest()).value;
}

// Each scope must include the other's thread (morally strong): a device acquires the host's stores only at system
// scope.
view_id memory::learned(const thread &reader, const stored &from, scope within) const {
    if (reader.where == side::device && from.by_device) return from.for_device;
    const bool includes_both = reader.where == side::host || within == scope::system;
    return includes_both ? from.for_all : 0;
}

std::uint16_t memory::load(unsigned by, unsigned location, order how, scope within, choices &way) {
    thread &reader = threads_[by];
    view now = (*views_)[reader.now];
    const unsigned first = std::max(now.stores[location], atomics_[location].oldest),
                   last = atomics_[location].newest();
    const unsigned number = last - way.pick(last - first + 1);
    const stored &from = at(location, number);
    now.stores[location] = static_cast<std::uint8_t>(number);
    reader.now = views_->name(now);
    if (how == order::acquire) reader.now = views_->joined(reader.now, learned(reader, from, within));
    if (reader.where == side::device) // the host's code uses no fences
        for (const scope one : {scope::device, scope::system})
            reader.to_acquire[index(one)] = views_->joined(reader.to_acquire[index(one)], learned(reader, from, one));
    return from.value;
}

// Each location has one writer at a time, so its stores are ordered by the steps.
void memory::add_store(thread &writer, unsigned location, const stored &made) {
    view now = (*views_)[writer.now];
    atomic &there = atomics_[location];
    if (now.stores[location] != there.newest()) break_with("two threads store to one location in no order");
    const auto place = &at(location, there.newest()) - stores_.data() + 1;
    stores_.insert(stores_.begin() + place, made);
    ++there.count;
    now.stores[location] = static_cast<std::uint8_t>(there.newest());
    writer.now = views_->name(now);
}

void memory::store(unsigned by, unsigned location, std::uint16_t value, order how, scope within) {
    thread &writer = threads_[by];
    stored made = {value, writer.to_release[0], writer.to_release[1], writer.where == side::device};
    if (how == order::release) {
        made.for_device = writer.now;
        if (within == scope::system) made.for_all = writer.now;
    }
    add_store(writer, location, made);
}

std::uint16_t memory::exchange(unsigned by, unsigned location, std::uint16_t value, scope within) {
    thread &one = threads_[by];
    const stored before = at(location, atomics_[location].newest());
    view now = (*views_)[one.now];
    now.stores[location] = static_cast<std::uint8_t>(atomics_[location].newest());
    one.now = views_->joined(views_->name(now), learned(one, before, within));
    // An acquire of this store also acquires the store before it.
    stored made = {value, views_->joined(one.now, before.for_device), before.for_all, one.where == side::device};
    if (within == scope::system) made.for_all = views_->joined(one.now, before.for_all);
    add_store(one, location, made);
    return before.value;
}

void memory::fence(unsigned by, scope within) {
    thread &one = threads_[by];
    one.now = views_->joined(one.now, one.to_acquire[index(within)]);
    one.to_release[0] = one.now;
    if (within == scope::system) one.to_release[1] = one.now;
}

// ---- Plain memory

void memory::note_access(unsigned by, bool is_ordered) {
    thread &one = threads_[by];
    ++one.accesses;
    if (!is_ordered) return;
    view now = (*views_)[one.now];
    now.accesses[by] = one.accesses;
    one.now = views_->name(now);
}

std::uint16_t memory::read(unsigned by, unsigned place) {
    plain &there = plain_[place];
    const view &now = (*views_)[threads_[by].now];
    if (there.writer != by && now.accesses[there.writer] < there.write)
        break_with("bytes are read that the thread may not see yet");
    note_access(by, true);
    there.reads[by] = threads_[by].accesses;
    return there.value;
}

void memory::write(unsigned by, unsigned place, std::uint16_t value) {
    stream(by, place, value);
    end_of_stream(by);
}

void memory::stream(unsigned by, unsigned place, std::uint16_t value) {
    plain &there = plain_[place];
    const view &now = (*views_)[threads_[by].now];
    if (there.writer != by && now.accesses[there.writer] < there.write)
        break_with("bytes are written by two threads in no order");
    for (unsigned reader = 0; reader < max_threads; ++reader)
        if (reader != by && now.accesses[reader] < there.reads[reader])
            break_with("bytes are overwritten that another thread may still read");
    note_access(by, false);
    there = {value, static_cast<std::uint8_t>(by), threads_[by].accesses, {}};
}

void memory::end_of_stream(unsigned by) {
    view now = (*views_)[threads_[by].now];
    now.accesses[by] = threads_[by].accesses;
    threads_[by].now = views_->name(now);
}

// ---- States

void memory::forget_unreadable() {
    std::array<std::uint8_t, max_atomics> seen_by_all;
    seen_by_all.fill(0xff);
    for (const thread &one : threads_)
        if (one.is_alive && one.may_load)
            for (unsigned location = 0; location < atomics_.size(); ++location)
                seen_by_all[location] = std::min(seen_by_all[location], (*views_)[one.now].stores[location]);
    unsigned begin = 0;
    for (unsigned location = 0; location < atomics_.size(); ++location) {
        atomic &there = atomics_[location];
        const unsigned oldest = std::min<unsigned>(seen_by_all[location], there.newest());
        const unsigned gone = oldest > there.oldest ? oldest - there.oldest : 0;
        stores_.erase(stores_.begin() + begin, stores_.begin() + begin + gone);
        there.oldest = static_cast<std::uint8_t>(there.oldest + gone);
        there.count = static_cast<std::uint8_t>(there.count - gone);
        begin += there.count;
    }
}

void memory::identify(fingerprint &state) const {
    for (const atomic &one : atomics_)
        state.add(one.oldest | one.count << 8);
    for (const stored &one : stores_) {
        state.add(std::uint64_t{one.for_device} << 32 | one.for_all);
        state.add(one.value | std::uint64_t{one.by_device} << 16);
    }
    for (const plain &one : plain_)
        state.add_bytes(one);
    for (const thread &one : threads_) {
        state.add(one.is_alive);
        if (!one.is_alive) continue;
        state.add(std::uint64_t{one.now} << 16 | one.accesses << 8 | static_cast<unsigned>(one.where));
        for (const unsigned i : {0U, 1U})
            state.add(std::uint64_t{one.to_acquire[i]} << 32 | one.to_release[i]);
    }
}

} // namespace ferry::protocol
