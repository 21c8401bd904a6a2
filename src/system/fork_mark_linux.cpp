#if defined(__linux__)
#include "system/fork_mark.h"

#include <cstddef>
#include <sys/mman.h>
#include <unistd.h>

namespace ferry {

namespace {

std::size_t mark_size() noexcept { return static_cast<std::size_t>(sysconf(_SC_PAGESIZE)); }

} // namespace

fork_mark::fork_mark() noexcept {
    void *const page = mmap(nullptr, mark_size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) return;
    if (madvise(page, mark_size(), MADV_WIPEONFORK) != 0) { // fails before Linux 4.14
        munmap(page, mark_size());
        return;
    }
    *static_cast<volatile char *>(page) = 1;
    page_ = static_cast<const volatile char *>(page);
}

fork_mark::~fork_mark() {
    if (page_) munmap(const_cast<char *>(page_), mark_size());
}

} // namespace ferry
#endif
