// Runs the software driver's work: operations, which can depend on other operations, and lanes, the threads that run
// operations. The engine knows neither streams nor contexts. No other lock is taken while its mutex is locked.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace ferry::softdriver {

class lane;

struct operation {
    std::function<void()> body; // released as soon as it has run: it may own a staging buffer
    lane *runs_on = nullptr;
    std::uint64_t devices = 0; // bit per device that counts this as running work
    std::vector<std::shared_ptr<operation>> dependents;
    std::shared_ptr<operation> next; // in the lane's queue, a list: completing work must never allocate
    unsigned unmet = 0;
    bool done = false;
    std::int64_t finished_ns = 0;
};
using operation_ptr = std::shared_ptr<operation>;
using operations = std::vector<operation_ptr>;

enum class lane_kind { compute, host_to_device, device_to_host, host_function };

struct lane_id {
    lane_kind kind = lane_kind::compute;
    unsigned device = 0;
    unsigned queue = 0; // compute lanes only
};

class engine {
public:
    engine(unsigned devices, unsigned hardware_queues);
    ~engine(); // waits for all work first

    // `after` may contain nulls. Throws std::bad_alloc, or std::system_error if no thread can be started. In that case,
    // nothing is submitted.
    operation_ptr submit(lane_id where, std::function<void()> body, std::uint64_t devices, const operations &after);

    bool finished(const operation_ptr &work);
    std::int64_t finished_ns(const operation_ptr &work);
    void wait(const operation_ptr &work);   // returns immediately for null
    void wait(const operations &work);      // nulls allowed
    void wait_idle(std::uint64_t devices);  // until no work runs or waits on any of these devices
    void forget_finished(operations &work); // and nulls

private:
    friend class lane;
    void finish(const operation_ptr &work);

    std::mutex mutex_;
    std::condition_variable progress_;
    unsigned waiting_ = 0;
    unsigned hardware_queues_;
    std::vector<std::size_t> outstanding_; // per device
    std::vector<std::unique_ptr<lane>> lanes_;
};

} // namespace ferry::softdriver
