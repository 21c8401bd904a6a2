#include "beside.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#if defined(__linux__)
#include <csignal>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#endif

namespace bench {

#if defined(__linux__)
namespace {

[[noreturn]] void compute() {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (std::atomic<std::uint64_t> count = 0;;)
        count.fetch_add(1, std::memory_order_relaxed);
}

} // namespace

computing_processes::computing_processes(unsigned count) {
    for (unsigned i = 0; i < count; ++i) {
        const pid_t child = fork();
        if (child == 0) compute();
        if (child > 0) children_.push_back(child);
    }
}

computing_processes::~computing_processes() {
    for (const pid_t child : children_)
        kill(child, SIGKILL);
    for (const pid_t child : children_)
        waitpid(child, nullptr, 0);
}
#endif

computing_device::computing_device(const environment &environment)
    : kernel_(environment, 1, 21'000), watch_(environment, kernels_at_once), stream_(make_stream(environment)),
      thread_([this, &environment] { run(environment); }) {}

computing_device::~computing_device() {
    is_over_ = true;
    thread_.join();
}

void computing_device::run(const environment &environment) {
    const current_context here(environment.cu, environment.context.handle);
    for (int i = 0; !is_over_; ++i) {
        const int oldest = i % kernels_at_once;
        if (i >= kernels_at_once) check(environment.cu.cuEventSynchronize(watch_[oldest]), "cuEventSynchronize");
        kernel_.launch(stream_.get());
        watch_.note(oldest, stream_.get());
    }
    check(environment.cu.cuStreamSynchronize(stream_.get()), "cuStreamSynchronize");
}

namespace {

// The events: start of both streams, end of the kernel, then the end of each copy.
constexpr int both_begun = 0, kernel_ended = 1, first_copy_ended = 2;

enum class stream_priority { least, greatest };

owned<CUstream> make_stream_of_priority(const environment &environment, stream_priority wanted) {
    environment.need({"cuCtxGetStreamPriorityRange", "cuStreamCreateWithPriority", "cuStreamDestroy"});
    int least = 0, greatest = 0;
    check(environment.cu.cuCtxGetStreamPriorityRange(&least, &greatest), "cuCtxGetStreamPriorityRange");
    CUstream stream = nullptr;
    check(environment.cu.cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING,
                                                    wanted == stream_priority::least ? least : greatest),
          "cuStreamCreateWithPriority");
    return {stream, environment.cu.cuStreamDestroy};
}

} // namespace

copies_beside_kernel::copies_beside_kernel(const environment &environment)
    : environment_(environment), watch_(environment, first_copy_ended + max_copies) {}

copies_beside_kernel::measured copies_beside_kernel::measure(const streams &on, const compute_kernel *kernel,
                                                             const std::function<void(CUstream)> &enqueue,
                                                             int copies) const {
    watch_.note(both_begun, on.compute);
    check(environment_.cu.cuStreamWaitEvent(on.copy, watch_[both_begun], 0), "cuStreamWaitEvent");
    if (kernel) kernel->launch(on.compute);
    watch_.note(kernel_ended, on.compute);
    for (int i = 0; i < copies; ++i) {
        enqueue(on.copy);
        watch_.note(first_copy_ended + i, on.copy);
    }
    for (const CUstream stream : {on.compute, on.copy})
        check(environment_.cu.cuStreamSynchronize(stream), "cuStreamSynchronize");
    const auto us_until = [&](int event) { return watch_.us_between(both_begun, event); };
    measured found = {us_until(kernel_ended), 0};
    if (!copies) return found;
    if (!kernel) return {0, us_until(first_copy_ended + copies - 1) / copies, copies};
    while (found.copies < copies && us_until(first_copy_ended + found.copies) <= found.compute_us)
        ++found.copies;
    // If no copy completed in time, the first copy waited for the whole kernel.
    const int counted = std::max(found.copies, 1);
    found.copy_us = us_until(first_copy_ended + counted - 1) / counted;
    return found;
}

int copies_beside_kernel::copies_for(double compute_us, double copy_us) {
    return static_cast<int>(std::clamp(std::ceil(2 * compute_us / copy_us), 1.0, double{max_copies}));
}

owned<CUstream> make_stream_of_least_priority(const environment &environment) {
    return make_stream_of_priority(environment, stream_priority::least);
}

owned<CUstream> make_stream_of_greatest_priority(const environment &environment) {
    return make_stream_of_priority(environment, stream_priority::greatest);
}

} // namespace bench
