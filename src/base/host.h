// The host program's callbacks: an allocator for the library's own structures, and a log.
#pragma once

#include <cstdint>

namespace ferry {

class allocator {
public:
    allocator() noexcept = default;
    allocator(void *(*allocate)(void *, std::uint64_t, std::uint64_t),
              void (*deallocate)(void *, void *, std::uint64_t), void *user) noexcept;
    void *allocate(std::uint64_t size, std::uint64_t alignment) const noexcept;
    void deallocate(void *memory, std::uint64_t size) const noexcept;

private:
    void *(*allocate_)(void *, std::uint64_t, std::uint64_t) = nullptr;
    void (*deallocate_)(void *, void *, std::uint64_t) = nullptr;
    void *user_ = nullptr;
};

class log_sink {
public:
    log_sink() noexcept = default;
    log_sink(void (*log)(void *, std::int32_t, const char *), void *user) noexcept : log_(log), user_(user) {}
    [[gnu::format(printf, 3, 4)]] void write(std::int32_t level, const char *format, ...) const noexcept;

private:
    void (*log_)(void *, std::int32_t, const char *) = nullptr;
    void *user_ = nullptr;
};

} // namespace ferry
