#include "compute.h"

#include <chrono>
#include <thread>

namespace bench {

namespace {

// compute(rounds, nowhere): 8 fused multiply-adds per round, in four chains. The compiler must keep them, because it
// cannot know that the result never equals the number that would be stored.
// wait_for(flag, longest_ns): waits until the number at `flag` is not 0.
constexpr const char *kernels_ptx = R"(
.version 6.4
.target sm_75
.address_size 64
.visible .entry compute(.param .u32 rounds, .param .u64 nowhere)
{
    .reg .pred %p;
    .reg .u32 %n, %t;
    .reg .u64 %to;
    .reg .f32 %x, %a, %b, %c, %d;
    ld.param.u32 %n, [rounds];
    ld.param.u64 %to, [nowhere];
    mov.u32 %t, %tid.x;
    cvt.rn.f32.u32 %x, %t;
    mul.f32 %x, %x, 0f38800000;
    mov.f32 %a, %x;
    add.f32 %b, %x, 0f3F000000;
    add.f32 %c, %x, 0f3F800000;
    add.f32 %d, %x, 0f40000000;
again:
    fma.rn.f32 %a, %a, %x, %b;
    fma.rn.f32 %b, %b, %x, %c;
    fma.rn.f32 %c, %c, %x, %d;
    fma.rn.f32 %d, %d, %x, %a;
    fma.rn.f32 %a, %a, %x, %c;
    fma.rn.f32 %b, %b, %x, %d;
    fma.rn.f32 %c, %c, %x, %a;
    fma.rn.f32 %d, %d, %x, %b;
    sub.u32 %n, %n, 1;
    setp.ne.u32 %p, %n, 0;
    @%p bra again;
    add.f32 %a, %a, %b;
    add.f32 %c, %c, %d;
    add.f32 %a, %a, %c;
    setp.eq.f32 %p, %a, 0f12345678;
    @%p st.global.f32 [%to], %a;
    ret;
}
.visible .entry wait_for(.param .u64 flag, .param .u64 longest_ns)
{
    .reg .pred %p;
    .reg .u32 %value;
    .reg .u64 %at, %now, %until;
    ld.param.u64 %at, [flag];
    ld.param.u64 %until, [longest_ns];
    mov.u64 %now, %globaltimer;
    add.u64 %until, %until, %now;
again:
    nanosleep.u32 500;
    ld.volatile.global.u32 %value, [%at];
    setp.ne.u32 %p, %value, 0;
    @%p bra done;
    mov.u64 %now, %globaltimer;
    setp.lt.u64 %p, %now, %until;
    @%p bra again;
done:
    ret;
}
)";

constexpr unsigned threads_of_block = 256, blocks_at_once = 8; // these fill an SM of 2048 threads

owned<CUlibrary> load_kernels(const environment &environment) {
    CUlibrary library = nullptr;
    check(environment.cu.cuLibraryLoadData(&library, kernels_ptx, nullptr, nullptr, 0, nullptr, nullptr, 0),
          "cuLibraryLoadData");
    return owned<CUlibrary>(library, environment.cu.cuLibraryUnload);
}

void launch_kernel(const environment &environment, CUlibrary library, const char *name, unsigned blocks, void **given,
                   CUstream stream) {
    CUkernel kernel = nullptr;
    check(environment.cu.cuLibraryGetKernel(&kernel, library, name), "cuLibraryGetKernel");
    check(environment.cu.cuLaunchKernel(reinterpret_cast<CUfunction>(kernel), blocks, 1, 1, threads_of_block, 1, 1, 0,
                                        stream, given, nullptr),
          "cuLaunchKernel");
}

unsigned blocks_of_all_sms(const environment &environment) {
    return static_cast<unsigned>(environment.device_info.sm_count) * blocks_at_once;
}

} // namespace

std::string why_no_computing(const environment &environment) {
    if (environment.device_info.is_software) return "the software driver runs only ferry's kernels";
    const char *const missing = environment.missing({"cuLibraryLoadData", "cuLibraryGetKernel", "cuLibraryUnload",
                                                     "cuLaunchKernel", "cuStreamWaitEvent", "cuEventCreate",
                                                     "cuEventRecord", "cuEventElapsedTime", "cuEventDestroy"});
    return missing ? std::string("this driver lacks ") + missing : "";
}

compute_kernel::compute_kernel(const environment &environment, unsigned waves, std::uint32_t rounds)
    : environment_(environment), library_(load_kernels(environment)),
      nowhere_(allocate_device(environment, sizeof(float))), blocks_(blocks_of_all_sms(environment) * waves),
      rounds_(rounds) {}

void compute_kernel::launch(CUstream stream) const {
    std::uint32_t rounds = rounds_;
    CUdeviceptr nowhere = nowhere_.get();
    void *given[] = {&rounds, &nowhere};
    launch_kernel(environment_, library_.get(), "compute", blocks_, given, stream);
}

persistent_kernel::persistent_kernel(const environment &environment)
    : environment_(environment), library_(load_kernels(environment)),
      flag_(allocate_device(environment, sizeof(std::uint32_t))), stream_(make_stream(environment)),
      releasing_(make_stream(environment)) {
    write(0);
    CUdeviceptr flag = flag_.get();
    std::uint64_t longest_ns = 60'000'000'000;
    void *given[] = {&flag, &longest_ns};
    launch_kernel(environment, library_.get(), "wait_for", blocks_of_all_sms(environment), given, stream_.get());
    std::this_thread::sleep_for(std::chrono::milliseconds(10)); // until the kernel runs
}

persistent_kernel::~persistent_kernel() {
    write(1);
    check(environment_.cu.cuStreamSynchronize(stream_.get()), "cuStreamSynchronize");
}

void persistent_kernel::write(std::uint32_t flag) const {
    check(environment_.cu.cuMemcpyHtoDAsync(flag_.get(), &flag, sizeof flag, releasing_.get()), "cuMemcpyHtoDAsync");
    check(environment_.cu.cuStreamSynchronize(releasing_.get()), "cuStreamSynchronize");
}

stopwatch::stopwatch(const environment &environment, int count) : environment_(environment) {
    for (int i = 0; i < count; ++i) {
        CUevent event = nullptr;
        check(environment.cu.cuEventCreate(&event, CU_EVENT_DEFAULT), "cuEventCreate");
        events_.emplace_back(event, environment.cu.cuEventDestroy);
    }
}

void stopwatch::note(int i, CUstream stream) const {
    check(environment_.cu.cuEventRecord((*this)[i], stream), "cuEventRecord");
}

double stopwatch::us_between(int first, int last) const {
    float ms = 0;
    check(environment_.cu.cuEventElapsedTime(&ms, (*this)[first], (*this)[last]), "cuEventElapsedTime");
    return 1e3 * static_cast<double>(ms);
}

} // namespace bench
