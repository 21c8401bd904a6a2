#include "beside.h"

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

} // namespace bench
