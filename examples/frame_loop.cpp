// A frame loop with a job system of one worker, which also moves ferry's bytes. Textures are destroyed in stream order:
// ferry_array_destroy would wait for a copy that waits for the worker.
#include <ferry/ferry.hpp>

#include <condition_variable>
#include <cstdio>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

struct job_system {
    ~job_system() { finish(); }
    void finish() { // runs the queued jobs, then stops
        if (worker.joinable()) add(nullptr), worker.join();
    }
    void add(std::function<void()> job) {
        const std::lock_guard<std::mutex> lock(mutex);
        jobs.push_back(std::move(job));
        added.notify_one();
    }
    void run() {
        for (std::unique_lock<std::mutex> lock(mutex);; lock.lock()) {
            added.wait(lock, [this] { return !jobs.empty(); });
            if (!jobs.front()) return;
            const auto job = std::move(jobs.front());
            jobs.pop_front();
            lock.unlock();
            job();
        }
    }
    std::mutex mutex;
    std::condition_variable added;
    std::deque<std::function<void()>> jobs;
    std::thread worker{[this] { run(); }};
};

static std::uint32_t pixels[256][256];

int main() {
    job_system jobs; // must outlive the instance
    ferry_options options = ferry::any_driver();
    options.submit_user = &jobs;
    options.submit = [](void *self, void (*work)(void *), void *argument) -> std::int32_t {
        static_cast<job_system *>(self)->add([=] { work(argument); });
        return 1; // the work will be called
    };
    const auto ferry = ferry::instance::open(options).or_throw();
    const auto stream = ferry::stream::create(ferry, 0, ferry::stream_flag::non_blocking).or_throw();
    const auto shape = ferry::array_desc(FERRY_FORMAT_UINT32, 1, 256, 256, 0, ferry::array_flag::surface);
    for (int frame = 0; frame < 60; ++frame) {
        auto texture = ferry::array::create(ferry, 0, shape).or_throw(); // may reuse a texture freed earlier
        ferry::copy_async(ferry, pixels, texture, stream).or_throw();
        jobs.add([&, old = texture.release()] { ferry_array_destroy_deferred(ferry, old, stream, nullptr); });
        if (frame % 2) stream.synchronize().or_throw(); // the display's pace
    }
    jobs.finish();
    std::printf("60 frames took %u textures\n", ferry.deferred().or_throw().arrays);
}
