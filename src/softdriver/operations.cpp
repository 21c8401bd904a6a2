// Lanes and the dependencies between operations. A compute lane is a hardware queue, strictly first in, first out: an
// operation that waits blocks everything after it in the queue, on any stream (docs/driver.md). Copy engines and the
// host-function thread run operations in the order in which they become ready.
#include "softdriver/operations.h"

#include <chrono>

#include "system/threads.h"

namespace ferry::softdriver {

class lane {
public:
    lane(engine &owner, bool strict) : owner_(owner), strict_(strict) {}

    bool strict() const { return strict_; }

    // start() to stop() must be called with the engine's mutex locked.
    void start() {
        if (thread_.joinable()) return;
        const signals_blocked blocked; // the program's signal handlers must not run on the driver's threads
        // g++ exports the instances of this template to the whole process, so it must not use types of this library.
        thread_ = std::thread(run_lane, static_cast<void *>(this));
    }
    void push(operation_ptr work) noexcept {
        operation *const last = work.get();
        (tail_ ? tail_->next : head_) = std::move(work);
        tail_ = last;
        wake_.notify_one();
    }
    void front_may_be_ready(const operation_ptr &work) {
        if (head_ == work) wake_.notify_one();
    }
    void stop() {
        stopping_ = true;
        wake_.notify_one();
    }

    void join() {
        if (thread_.joinable()) thread_.join();
    }

private:
    static void run_lane(void *self) { static_cast<lane *>(self)->run(); }

    void run() {
        unblock_faults(); // faults reach the program's handlers: the real driver copies on its threads
        std::unique_lock lock(owner_.mutex_);
        for (;;) {
            wake_.wait(lock, [&] { return head_ ? head_->unmet == 0 : stopping_; });
            if (!head_) return;
            const operation_ptr work = std::move(head_);
            head_ = std::move(work->next);
            if (!head_) tail_ = nullptr;
            lock.unlock();
            if (work->body) work->body();
            work->body = nullptr;
            lock.lock();
            owner_.finish(work);
        }
    }

    engine &owner_;
    const bool strict_;
    bool stopping_ = false;
    std::condition_variable wake_;
    operation_ptr head_;
    operation *tail_ = nullptr;
    std::thread thread_;
};

// The order of lanes_: the host-function thread, then for each device its two copy engines and its hardware queues.
engine::engine(unsigned devices, unsigned hardware_queues) : hardware_queues_(hardware_queues), outstanding_(devices) {
    lanes_.push_back(std::make_unique<lane>(*this, false));
    for (unsigned device = 0; device < devices; ++device)
        for (unsigned i = 0; i < 2 + hardware_queues; ++i)
            lanes_.push_back(std::make_unique<lane>(*this, i >= 2));
}

engine::~engine() {
    wait_idle(~std::uint64_t{0});
    {
        const std::lock_guard lock(mutex_);
        for (auto &lane : lanes_)
            lane->stop();
    }
    for (auto &lane : lanes_)
        lane->join();
}

operation_ptr engine::submit(lane_id where, std::function<void()> body, std::uint64_t devices,
                             const operations &after) {
    const std::size_t first_of_device = 1 + where.device * (2 + hardware_queues_);
    const std::size_t index = where.kind == lane_kind::host_function    ? 0
                              : where.kind == lane_kind::host_to_device ? first_of_device
                              : where.kind == lane_kind::device_to_host ? first_of_device + 1
                                                                        : first_of_device + 2 + where.queue;
    operation_ptr work = std::make_shared<operation>();
    work->body = std::move(body);
    work->runs_on = lanes_[index].get();
    work->devices = devices;

    const std::lock_guard lock(mutex_);
    // Everything that can throw is done first.
    work->runs_on->start();
    for (const operation_ptr &earlier : after)
        if (earlier && !earlier->done && earlier->dependents.capacity() < earlier->dependents.size() + after.size())
            earlier->dependents.reserve(2 * earlier->dependents.size() + after.size());
    for (const operation_ptr &earlier : after) {
        if (!earlier || earlier->done) continue;
        earlier->dependents.push_back(work);
        ++work->unmet;
    }
    if (work->runs_on->strict() || work->unmet == 0) work->runs_on->push(work);
    for (std::size_t device = 0; device < outstanding_.size(); ++device)
        outstanding_[device] += devices >> device & 1;
    return work;
}

void engine::finish(const operation_ptr &work) {
    work->finished_ns = std::chrono::steady_clock::now().time_since_epoch().count();
    work->done = true;
    for (const operation_ptr &later : work->dependents) {
        if (--later->unmet != 0) continue;
        if (later->runs_on->strict())
            later->runs_on->front_may_be_ready(later);
        else
            later->runs_on->push(later);
    }
    work->dependents = {};
    for (std::size_t device = 0; device < outstanding_.size(); ++device)
        outstanding_[device] -= work->devices >> device & 1;
    if (waiting_ != 0) progress_.notify_all();
}

bool engine::finished(const operation_ptr &work) {
    const std::lock_guard lock(mutex_);
    return !work || work->done;
}

std::int64_t engine::finished_ns(const operation_ptr &work) {
    const std::lock_guard lock(mutex_);
    return work->finished_ns;
}

void engine::wait(const operation_ptr &work) {
    if (!work) return;
    std::unique_lock lock(mutex_);
    ++waiting_;
    progress_.wait(lock, [&] { return work->done; });
    --waiting_;
}

void engine::wait(const operations &work) {
    if (work.empty()) return;
    std::unique_lock lock(mutex_);
    ++waiting_;
    for (const operation_ptr &one : work)
        progress_.wait(lock, [&] { return !one || one->done; });
    --waiting_;
}

void engine::wait_idle(std::uint64_t devices) {
    std::unique_lock lock(mutex_);
    ++waiting_;
    for (std::size_t device = 0; device < outstanding_.size(); ++device)
        if (devices >> device & 1) progress_.wait(lock, [&] { return outstanding_[device] == 0; });
    --waiting_;
}

void engine::forget_finished(operations &work) {
    const std::lock_guard lock(mutex_);
    std::erase_if(work, [](const operation_ptr &one) { return !one || one->done; });
}

} // namespace ferry::softdriver
