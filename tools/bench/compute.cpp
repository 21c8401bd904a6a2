#include "compute.h"

namespace bench {

namespace {

// compute(rounds, nowhere): 8 fused multiply-adds a round, in four chains. The compiler must keep them, because it
// cannot know that the result is never the number that would be stored.
constexpr const char *compute_ptx = R"(
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
)";

constexpr unsigned threads_of_block = 256, blocks_at_once = 8; // these fill an SM of 2048 threads

} // namespace

std::string why_no_computing(const environment &environment) {
    if (environment.device_info.is_software) return "the software driver runs only ferry's kernels";
    const char *const missing = environment.missing({"cuLibraryLoadData", "cuLibraryGetKernel", "cuLibraryUnload",
                                                     "cuLaunchKernel", "cuStreamWaitEvent", "cuEventCreate",
                                                     "cuEventRecord", "cuEventElapsedTime", "cuEventDestroy"});
    return missing ? std::string("this driver lacks ") + missing : "";
}

compute_kernel::compute_kernel(const environment &environment, unsigned waves, std::uint32_t rounds)
    : cu_(environment.cu), library_([&] {
          CUlibrary library = nullptr;
          check(cu_.cuLibraryLoadData(&library, compute_ptx, nullptr, nullptr, 0, nullptr, nullptr, 0),
                "cuLibraryLoadData");
          return owned<CUlibrary>(library, cu_.cuLibraryUnload);
      }()),
      nowhere_(allocate_device(environment, sizeof(float))),
      blocks_(static_cast<unsigned>(environment.device_info.sm_count) * blocks_at_once * waves), rounds_(rounds) {
    check(cu_.cuLibraryGetKernel(&kernel_, library_.get(), "compute"), "cuLibraryGetKernel");
}

void compute_kernel::launch(CUstream stream) const {
    std::uint32_t rounds = rounds_;
    CUdeviceptr nowhere = nowhere_.get();
    void *given[] = {&rounds, &nowhere};
    check(cu_.cuLaunchKernel(reinterpret_cast<CUfunction>(kernel_), blocks_, 1, 1, threads_of_block, 1, 1, 0, stream,
                             given, nullptr),
          "cuLaunchKernel");
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
