// Memory of the program with pages that do not arrive: a thread that touches one waits until the test releases it.
// Pages behave like this when a stalled file system, a userfaultfd or a swap device has to bring them.
#pragma once

#include <atomic>
#include <csignal>
#include <cstring>

#include <sys/mman.h>
#include <unistd.h>

#include "support/driver_under_test.h"

namespace ferry::test {

// Parts of equal size. The first and the last page of each part are present, the others are stuck. Only one stuck_pages
// can exist at a time.
class stuck_pages {
public:
    stuck_pages(std::size_t parts, std::size_t size, std::uint64_t seed) : total_(parts * size) {
        void *const mapped = mmap(nullptr, total_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        EXPECT_NE(mapped, MAP_FAILED);
        data = static_cast<std::byte *>(mapped);
        const bytes drawn = random_bytes(total_, seed);
        std::memcpy(data, drawn.data(), total_);
        const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
        for (std::size_t part = 0; part < parts; ++part)
            EXPECT_EQ(mprotect(data + part * size + page, size - 2 * page, PROT_NONE), 0);
        EXPECT_EQ(pipe(gate_), 0);
        waiting_ = 0;
        current_ = this;
        struct sigaction action = {};
        action.sa_flags = SA_SIGINFO;
        action.sa_sigaction = wait_at_gate;
        EXPECT_EQ(sigaction(SIGSEGV, &action, &before_), 0);
    }
    ~stuck_pages() {
        release();
        EXPECT_EQ(sigaction(SIGSEGV, &before_, nullptr), 0);
        close(gate_[0]);
        munmap(data, total_);
    }
    stuck_pages(const stuck_pages &) = delete;

    // Makes all pages accessible and lets every waiting thread continue.
    void release() {
        if (is_released_) return;
        is_released_ = true;
        EXPECT_EQ(mprotect(data, total_, PROT_READ | PROT_WRITE), 0);
        close(gate_[1]);
    }
    static int waiting() { return waiting_; } // the number of waiting threads

    std::byte *data = nullptr;

private:
    static void wait_at_gate(int, siginfo_t *info, void *) {
        const auto *const at = static_cast<std::byte *>(info->si_addr);
        const stuck_pages &self = *current_;
        if (at < self.data || at >= self.data + self.total_) _exit(2); // a genuine fault, not a stuck page
        ++waiting_;
        char none = 0;
        while (read(self.gate_[0], &none, 1) != 0) {
        }
        --waiting_;
    }

    static inline const stuck_pages *current_ = nullptr;
    static inline std::atomic<int> waiting_ = 0;
    std::size_t total_;
    int gate_[2] = {-1, -1};
    bool is_released_ = false;
    struct sigaction before_ = {};
};

} // namespace ferry::test
