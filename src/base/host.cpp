#include "base/host.h"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>

#include "base/rounding.h"

namespace ferry {

allocator::allocator(void *(*allocate)(void *, std::uint64_t, std::uint64_t),
                     void (*deallocate)(void *, void *, std::uint64_t), void *user) noexcept
    : allocate_(allocate), deallocate_(deallocate), user_(user) {}

void *allocator::allocate(std::uint64_t size, std::uint64_t alignment) const noexcept {
    if (allocate_) return allocate_(user_, size, alignment);
    const std::uint64_t rounded = round_up(size, alignment); // aligned_alloc requires a multiple of the alignment
#if defined(_WIN32)
    return _aligned_malloc(rounded, alignment);
#else
    return std::aligned_alloc(alignment, rounded);
#endif
}

void allocator::deallocate(void *memory, std::uint64_t size) const noexcept {
    if (!memory) return;
    if (deallocate_) return deallocate_(user_, memory, size);
#if defined(_WIN32)
    _aligned_free(memory);
#else
    std::free(memory);
#endif
}

void log_sink::write(std::int32_t level, const char *format, ...) const noexcept {
    if (!log_) return;
    char line[512];
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    log_(user_, level, line);
}

} // namespace ferry
