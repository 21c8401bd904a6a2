// Records that are reused, so that a call that needs no more memory than an earlier call allocates nothing.
#pragma once

#include <mutex>
#include <new>

#include "base/chain.h"
#include "base/host.h"

namespace ferry {

// A record is constructed with the allocator, keeps its state when it is released, and has the links of a chain.
template <class Record> class spare_records {
public:
    explicit spare_records(const allocator &memory) noexcept : memory_(memory) {}
    ~spare_records() {
        while (Record *const record = spare_.pop())
            destroy(*record);
    }
    spare_records(const spare_records &) = delete;
    spare_records &operator=(const spare_records &) = delete;

    // Returns null if memory runs out. Does not wait for the mutex: in the child of a fork, the mutex may stay locked
    // forever. Everywhere else, a new record is as good.
    Record *take() noexcept {
        if (std::unique_lock held(mutex_, std::try_to_lock); held.owns_lock())
            if (Record *const reused = spare_.pop()) return reused;
        void *const place = memory_.allocate(sizeof(Record), alignof(Record));
        return place ? new (place) Record(memory_) : nullptr;
    }
    void release(Record &record) noexcept {
        if (std::unique_lock held(mutex_, std::try_to_lock); held.owns_lock())
            spare_.push_front(record);
        else
            destroy(record);
    }

private:
    void destroy(Record &record) noexcept {
        record.~Record();
        memory_.deallocate(&record, sizeof(Record));
    }

    const allocator &memory_;
    std::mutex mutex_;
    chain<Record> spare_;
};

} // namespace ferry
