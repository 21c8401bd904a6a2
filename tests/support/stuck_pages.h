// Memory of the program with pages that do not arrive: a thread that touches such a page waits until the test releases
// it. Real pages behave like this if they come from a stalled file system, a userfaultfd or a swap device.
#pragma once

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "support/driver_under_test.h"
#include "support/system.h"
#include "system/pages.h"

namespace ferry::test {

// Parts of equal size. The first and the last page of each part are present, and the other pages are stuck. Only one
// stuck_pages can exist at a time.
class stuck_pages {
public:
    stuck_pages(std::size_t parts, std::size_t size, std::uint64_t seed)
        : memory_(parts * size), handler_([this](std::byte *at) { return wait_at_gate(at); }) {
        data = memory_.data();
        const bytes drawn = random_bytes(memory_.size(), seed);
        std::memcpy(data, drawn.data(), memory_.size());
        for (std::size_t part = 0; part < parts; ++part)
            memory_.allow(part * size + page_size(), size - 2 * page_size(), page_access::none);
    }
    ~stuck_pages() {
        release();
        while (waiting_ != 0)
            std::this_thread::yield();
    }
    stuck_pages(const stuck_pages &) = delete;

    // Makes all pages accessible and lets every waiting thread continue.
    void release() {
        if (is_released_) return;
        memory_.allow(0, memory_.size(), page_access::read_write);
        is_released_ = true;
    }
    static int waiting() { return waiting_; } // the number of waiting threads

    std::byte *data = nullptr;

private:
    bool wait_at_gate(const std::byte *at) const {
        if (at < data || at >= data + memory_.size()) return false;
        ++waiting_;
        while (!is_released_)
            std::this_thread::sleep_for(std::chrono::microseconds(100));
        --waiting_;
        return true;
    }

    static inline std::atomic<int> waiting_ = 0;
    mapped_memory memory_;
    std::atomic<bool> is_released_ = false;
    fault_handler handler_; // last, because it uses the members above
};

} // namespace ferry::test
