#if defined(__linux__)
#include "system/processor_descriptors.h"

#include <iterator>

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include "system/handles.h"

namespace ferry {

namespace {

// Of the whole process, whose limit is often 1024 descriptors.
constexpr std::int32_t max_descriptors = 64;
std::atomic<std::int32_t> in_use = 0;

int open_one(int descriptor) noexcept {
    const bool may_open = in_use.fetch_add(1, std::memory_order_relaxed) < max_descriptors;
    const int opened = may_open ? open_again(descriptor, O_RDONLY) : -1;
    if (opened < 0) in_use.fetch_sub(1, std::memory_order_relaxed);
    return opened;
}

void close_one(int opened) noexcept {
    close(opened);
    in_use.fetch_sub(1, std::memory_order_relaxed);
}

} // namespace

processor_descriptors::~processor_descriptors() {
    for (const std::atomic<std::int32_t> &one : opened_)
        if (const std::int32_t opened = one.load(std::memory_order_relaxed); opened > 0) close_one(opened - 1);
}

int processor_descriptors::here(int descriptor) noexcept {
    const int processor = sched_getcpu();
    if (processor < 0) return descriptor;
    std::atomic<std::int32_t> &mine = opened_[static_cast<std::size_t>(processor) % std::size(opened_)];
    std::int32_t found = mine.load(std::memory_order_acquire);
    if (found == not_opened) {
        const int opened = open_one(descriptor);
        const std::int32_t made = opened < 0 ? cannot_be_opened : opened + 1;
        if (mine.compare_exchange_strong(found, made, std::memory_order_acq_rel))
            found = made;
        else if (opened >= 0) // a thread that ran on this processor before was first
            close_one(opened);
    }
    return found > 0 ? found - 1 : descriptor;
}

} // namespace ferry
#endif
