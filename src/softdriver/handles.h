// Handles of the software driver. They are never reused and cannot be dereferenced. So a stale or foreign handle is
// always detected, and a program that dereferences a handle crashes.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <unordered_map>

namespace ferry::softdriver {

// Handles are non-canonical addresses on x86-64, and on AArch64 without top-byte-ignore. close() and open() do not
// reset the counter.
inline std::uintptr_t next_handle() noexcept {
    static std::atomic<std::uintptr_t> next = 0x00fe'0000'0000'0000;
    return next.fetch_add(64, std::memory_order_relaxed);
}

template <class Handle, class Object> class handle_table {
public:
    Object *find(Handle handle) const {
        const auto found = objects_.find(handle);
        return found == objects_.end() ? nullptr : found->second.get();
    }
    Handle add(std::unique_ptr<Object> object, Handle handle = reinterpret_cast<Handle>(next_handle())) {
        objects_.emplace(handle, std::move(object));
        return handle;
    }
    bool remove(Handle handle) { return objects_.erase(handle) != 0; }
    template <class Condition> void remove_if(Condition &&condition) {
        std::erase_if(objects_, [&](const auto &entry) { return condition(*entry.second); });
    }
    // Calls visit(handle, object) if `visit` takes two arguments, else visit(object).
    template <class Visit> void each(Visit &&visit) const {
        for (const auto &[handle, object] : objects_) {
            if constexpr (std::is_invocable_v<Visit &, Handle, Object &>)
                visit(handle, *object);
            else
                visit(*object);
        }
    }

private:
    std::unordered_map<Handle, std::unique_ptr<Object>> objects_;
};

} // namespace ferry::softdriver
