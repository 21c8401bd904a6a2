// An intrusive doubly linked list. The owner of the records provides their memory, including the two links `previous`
// and `next`. Adding and removing therefore allocates nothing and cannot fail.
#pragma once

namespace ferry {

template <class Record> class chain {
public:
    Record *first() const noexcept { return first_; }
    Record *last() const noexcept { return last_; }
    bool is_empty() const noexcept { return !first_; }

    void push_front(Record &added) noexcept { link(added, nullptr, first_); }
    void push_back(Record &added) noexcept { link(added, last_, nullptr); }
    void remove(Record &gone) noexcept {
        (gone.previous ? gone.previous->next : first_) = gone.next;
        (gone.next ? gone.next->previous : last_) = gone.previous;
    }
    Record *pop() noexcept {
        Record *const taken = first_;
        if (taken) remove(*taken);
        return taken;
    }

private:
    void link(Record &added, Record *previous, Record *next) noexcept {
        added.previous = previous;
        added.next = next;
        (previous ? previous->next : first_) = &added;
        (next ? next->previous : last_) = &added;
    }

    Record *first_ = nullptr, *last_ = nullptr;
};

} // namespace ferry
