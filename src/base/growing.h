// A growable array for the library's own small tables. It allocates with the host program's allocator, throws nothing
// and reports when memory runs out.
#pragma once

#include <cstddef>
#include <cstring>
#include <type_traits>
#include <utility>

#include "base/host.h"

namespace ferry {

template <class Record> class growing {
    static_assert(std::is_trivially_copyable_v<Record> && std::is_trivially_destructible_v<Record>);

public:
    explicit growing(const allocator &memory) noexcept : memory_(memory) {}
    ~growing() { memory_.deallocate(records_, capacity_ * sizeof(Record)); }
    growing(const growing &) = delete;
    growing &operator=(const growing &) = delete;

    std::size_t size() const noexcept { return size_; }
    std::size_t capacity() const noexcept { return capacity_; }
    Record *begin() noexcept { return records_; }
    Record *end() noexcept { return records_ + size_; }
    const Record *begin() const noexcept { return records_; }
    const Record *end() const noexcept { return records_ + size_; }
    Record &operator[](std::size_t at) noexcept { return records_[at]; }
    const Record &operator[](std::size_t at) const noexcept { return records_[at]; }

    // Allocates space for `count` records. Insertions up to that size cannot fail.
    [[nodiscard]] bool reserve(std::size_t count) noexcept {
        if (count <= capacity_) return true;
        const std::size_t grown = count > 2 * capacity_ ? count : 2 * capacity_;
        auto *const larger = static_cast<Record *>(memory_.allocate(grown * sizeof(Record), alignof(Record)));
        if (!larger) return false;
        if (size_) std::memcpy(static_cast<void *>(larger), records_, size_ * sizeof(Record));
        memory_.deallocate(records_, capacity_ * sizeof(Record));
        records_ = larger;
        capacity_ = grown;
        return true;
    }

    [[nodiscard]] bool insert(std::size_t at, const Record &record) noexcept {
        if (!reserve(size_ + 1)) return false;
        if (at < size_)
            std::memmove(static_cast<void *>(records_ + at + 1), records_ + at, (size_ - at) * sizeof(Record));
        records_[at] = record;
        ++size_;
        return true;
    }
    [[nodiscard]] bool append(const Record &record) noexcept { return insert(size_, record); }
    // The caller must have reserved the space.
    void append_reserved(const Record &record) noexcept { records_[size_++] = record; }
    // New records are not initialised.
    [[nodiscard]] bool resize(std::size_t count) noexcept {
        if (!reserve(count)) return false;
        size_ = count;
        return true;
    }
    void clear() noexcept { size_ = 0; }
    // Both arrays must use the same allocator.
    void swap(growing &other) noexcept {
        std::swap(records_, other.records_);
        std::swap(size_, other.size_);
        std::swap(capacity_, other.capacity_);
    }

    void remove(std::size_t at, std::size_t count = 1) noexcept {
        size_ -= count;
        if (at < size_)
            std::memmove(static_cast<void *>(records_ + at), records_ + at + count, (size_ - at) * sizeof(Record));
    }

private:
    const allocator &memory_;
    Record *records_ = nullptr;
    std::size_t size_ = 0, capacity_ = 0;
};

} // namespace ferry
