#include "device/kernels.h"

#include <algorithm>
#include <iterator>

#include "device/capture_mode.h"
#include "device/kernel_image.h"
#include "driver/result.h"

namespace ferry {

namespace {

// Whether the native code can run on all devices of the machine, because one library serves all of them.
bool serve_native_kernels(const driver_table &cu) noexcept {
    constexpr int first_version = 12040; // the first version that decompresses it
    int version = 0, count = 0;
    if (native_kernels[0] == 0 || cu.cuDriverGetVersion(&version) || version < first_version) return false;
    if (cu.cuDeviceGetCount(&count)) return false;
    for (int i = 0; i < count; ++i) {
        CUdevice device = 0;
        int major = 0, minor = 0;
        if (cu.cuDeviceGet(&device, i) ||
            cu.cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device) ||
            cu.cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device))
            return false;
        constexpr int orin = 7; // a Tegra: code for other GPUs of 8.x may not run there
        if (major == 8 ? minor == orin : major != 9 || minor != 0) return false;
    }
    return true;
}

} // namespace

kernel_set::~kernel_set() {
    if (!library_) return;
    // At process exit, the driver may already be unloaded. Then nothing needs to be unloaded.
    const relaxed_capture_mode relaxed(cu_);
    cu_.cuLibraryUnload(library_);
}

const char *kernel_set::missing_entry_point() const noexcept {
    if (!cu_.cuLibraryLoadData) return "cuLibraryLoadData";
    if (!cu_.cuLibraryUnload) return "cuLibraryUnload";
    if (!cu_.cuLibraryGetKernel) return "cuLibraryGetKernel";
    if (!cu_.cuKernelGetFunction) return "cuKernelGetFunction";
    if (!cu_.cuLaunchKernel) return "cuLaunchKernel";
    return nullptr;
}

error kernel_set::try_to_load() noexcept {
    if (missing_entry_point()) return {.status = FERRY_ERROR_UNSUPPORTED};
    const relaxed_capture_mode relaxed(cu_);
    if (!relaxed.entered()) return relaxed.why();
    if (image_) return try_to_load(image_);
    if (!serve_native_kernels(cu_)) return try_to_load(portable_kernels);
    const error failed = try_to_load(native_kernels);
    const bool is_image_refused = failed.status == to_status(CUDA_ERROR_INVALID_IMAGE) ||
                                  failed.status == to_status(CUDA_ERROR_NO_BINARY_FOR_GPU);
    return is_image_refused ? try_to_load(portable_kernels) : failed;
}

error kernel_set::try_to_load(const void *image) noexcept {
    CUlibrary library = nullptr;
    if (call_result result = cu_.cuLibraryLoadData(&library, image, nullptr, nullptr, 0, nullptr, nullptr, 0))
        return to_error(result);
    for (unsigned i = 0; i < gpu::kernel_count; ++i) {
        CUkernel kernel = nullptr;
        if (call_result result = cu_.cuLibraryGetKernel(&kernel, library, gpu::entry_names[i])) {
            cu_.cuLibraryUnload(library);
            return to_error(result);
        }
        // cuLaunchKernel also accepts a CUkernel cast to CUfunction ("CUfunction or CUkernel" in its manual).
        functions_[i] = reinterpret_cast<CUfunction>(kernel);
    }
    library_ = library;
    return {};
}

error kernel_set::load_now() noexcept {
    // A forked child has no driver, and its copy of the mutex may be locked. There, this query fails before the mutex
    // is used.
    CUcontext current = nullptr;
    if (call_result result = cu_.cuCtxGetCurrent(&current)) return to_error(result);
    const std::lock_guard lock(mutex_);
    const state before = state_.load(std::memory_order_relaxed);
    if (before != state::not_requested) return why_;
    const error failed = try_to_load();
    if (means_dead_context(failed.status)) return failed;
    why_ = failed;
    state_.store(why_ ? state::failed : state::loaded, std::memory_order_release);
    return why_;
}

error kernel_set::load_into_now(CUcontext context) noexcept {
    if (error failed = load()) return failed;
    const relaxed_capture_mode relaxed(cu_);
    if (!relaxed.entered()) return relaxed.why();
    for (CUfunction kernel : functions_) {
        CUfunction function = nullptr;
        if (call_result result = cu_.cuKernelGetFunction(&function, reinterpret_cast<CUkernel>(kernel)))
            return to_error(result);
    }
    for (std::atomic<CUcontext> &one : contexts_) {
        CUcontext none = nullptr;
        if (one.compare_exchange_strong(none, context, std::memory_order_acq_rel) || none == context) break;
    }
    return {};
}

std::uint32_t kernel_set::context_count() const noexcept {
    const auto is_taken = [](const std::atomic<CUcontext> &one) noexcept { return one.load() != nullptr; };
    return static_cast<std::uint32_t>(std::count_if(std::begin(contexts_), std::end(contexts_), is_taken));
}

void kernel_set::forget(CUcontext context) noexcept {
    for (std::atomic<CUcontext> &one : contexts_) {
        CUcontext gone = context;
        one.compare_exchange_strong(gone, nullptr, std::memory_order_acq_rel);
    }
}

} // namespace ferry
