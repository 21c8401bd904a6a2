#include "base/fork_mark.h"

#if defined(__linux__)
#include <cstddef>
#include <sys/mman.h>
#include <unistd.h>
#endif

namespace ferry {

#if defined(__linux__) && defined(MADV_WIPEONFORK)

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

#else

fork_mark::fork_mark() noexcept = default;
fork_mark::~fork_mark() = default;

#endif

} // namespace ferry
