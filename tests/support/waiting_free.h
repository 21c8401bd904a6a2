// A free of device memory in another thread, which cannot return while the test blocks a stream.
#pragma once

#include <chrono>
#include <future>
#include <thread>

#include "support/gate.h"

namespace ferry::test {

// Construct it while a gate is shut, and open the gate before destroying it.
class waiting_free {
public:
    waiting_free() {
        EXPECT_OK(raw().cuMemAlloc(&address_, 256));
        std::promise<void> begins;
        std::future<void> begun = begins.get_future();
        freed_ = std::async(std::launch::async, [this, &begins] {
            begins.set_value();
            return raw().cuMemFree(address_);
        });
        begun.wait();
    }
    ~waiting_free() { EXPECT_OK(freed_.get()); }
    waiting_free(const waiting_free &) = delete;
    waiting_free &operator=(const waiting_free &) = delete;

    bool has_returned() const { return freed_.wait_for(std::chrono::seconds(0)) == std::future_status::ready; }

private:
    CUdeviceptr address_ = 0;
    std::future<call_result> freed_;
};

// Calls `query` repeatedly in another thread, for long enough that the free has begun to wait. Returns false if one of
// the calls does not return.
template <class Query> bool returns_beside(const waiting_free &free, const Query &query) {
    using namespace std::chrono_literals;
    const auto asked = std::make_shared<std::promise<void>>();
    std::future<void> answered = asked->get_future();
    std::thread([asked, query] {
        const auto until = std::chrono::steady_clock::now() + 100ms;
        while (std::chrono::steady_clock::now() < until)
            query();
        asked->set_value();
    }).detach();
    const bool returned = answered.wait_for(20s) == std::future_status::ready;
    EXPECT_FALSE(free.has_returned());
    return returned;
}

} // namespace ferry::test
