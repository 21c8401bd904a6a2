#include "driver.h"

#include <atomic>
#include <cstdio>
#include <ctime>
#include <iterator>
#include <pthread.h>

#include "dynamic_symbols.h"
#include "entry_points.h"
#include "exported.h"
#include "ferry/ferry_devices.h"
#include "record.h"
#include "say.h"
#include "settings.h"
#include "trace.h"

namespace ferry_run {

namespace {

thread_local unsigned depth = 0;

pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; // guards everything that is looked up or opened once
driver found_driver;
std::atomic<bool> is_driver_found = false;
std::atomic<ferry_instance *> allocating = nullptr;

pthread_rwlock_t copying_lock = PTHREAD_RWLOCK_INITIALIZER; // shared while the instance is used
ferry_instance *copying = nullptr;
std::atomic<int> is_pausing = 0;                    // number of resets that are waiting or running
std::atomic<unsigned long long> prepared[256] = {}; // ids of contexts

struct pinned_range {
    CUdeviceptr begin, end;
    std::uint64_t generation; // 0: none
};
std::atomic<std::uint64_t> pinned_generation = 1;

std::atomic<bool> is_ferry_used = false, is_ferry_refused = false;

template <class Function> bool resolve(Function &function, const char *name, int version) noexcept {
    function = reinterpret_cast<Function>(find_driver_function(nullptr, name, version));
    return function != nullptr;
}

// Whether device 0 is a device of ferry's software driver.
bool is_software_device() noexcept {
    PFN_cuDeviceGetName_v2000 get_name = nullptr;
    char name[64] = "";
    return resolve(get_name, "cuDeviceGetName", 2000) && get_name(name, sizeof name, 0) == CUDA_SUCCESS &&
           are_equal(name, "ferry software device");
}

bool find(driver &made) noexcept {
    CUcontext current = nullptr;
    // Before cuInit every call fails, and ferry must not be the first to call cuInit.
    if (!resolve(made.cuCtxGetCurrent, "cuCtxGetCurrent", 4000) || made.cuCtxGetCurrent(&current) != CUDA_SUCCESS)
        return false;
    made.is_software = is_software_device();
    return resolve(made.cuCtxGetDevice, "cuCtxGetDevice", 2000) && resolve(made.cuCtxGetId, "cuCtxGetId", 12000) &&
           resolve(made.cuCtxPopCurrent, "cuCtxPopCurrent", 4000) &&
           resolve(made.cuCtxPushCurrent, "cuCtxPushCurrent", 4000) &&
           resolve(made.cuDeviceGetCount, "cuDeviceGetCount", 2000) &&
           resolve(made.cuPointerGetAttribute, "cuPointerGetAttribute", 4000) &&
           resolve(made.cuStreamGetCtx, "cuStreamGetCtx", 9020) &&
           resolve(made.cuStreamIsCapturing, "cuStreamIsCapturing", 10000) &&
           resolve(made.cuStreamQuery, "cuStreamQuery", 2000) &&
           resolve(made.cuMemsetD8Async, "cuMemsetD8Async", 3020) &&
           resolve(made.cuThreadExchangeStreamCaptureMode, "cuThreadExchangeStreamCaptureMode", 10010) &&
           made.cuDeviceGetCount(&made.device_count) == CUDA_SUCCESS;
}

ferry_instance *open() noexcept {
    ferry_options options = {};
    options.struct_size = sizeof options;
    options.driver = FERRY_DRIVER_CUDA;
    options.checks = FERRY_CHECKS_FULL; // what the driver rejects must not reach a kernel
    options.get_proc = find_driver_function;
    if (the_settings().trace) options.trace = trace_stream, options.trace_phases = FERRY_PHASE_DONE;
    ferry_error_info error = {};
    error.struct_size = sizeof error;
    ferry_instance *instance = nullptr;
    is_ferry_used = true;
    if (ferry_open(&options, &instance, &error) == FERRY_SUCCESS) return instance;
    if (!is_ferry_refused.exchange(true)) {
        char text[256], told[320];
        ferry_error_format(&error, text, sizeof text);
        std::snprintf(told, sizeof told, "ferry-run: copies go to the driver unchanged: %s\n", text);
        say(told);
    }
    return nullptr;
}

// Nothing here waits for other threads: a forked child has only one thread, and locks may stay locked forever.
void begin_in_child() {
    forget_all();
    if (is_ferry_used) may_serve = false;
    pthread_mutex_init(&mutex, nullptr);
    pthread_rwlock_init(&copying_lock, nullptr);
}

__attribute__((constructor)) void watch_forks() { pthread_atfork(nullptr, nullptr, begin_in_child); }

} // namespace

// ---- The driver

unsigned driver::memory_type(CUdeviceptr address) const noexcept {
    unsigned type = 0;
    return cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) == CUDA_SUCCESS ? type : 0;
}

// A query takes 60 ns, which is significant in a loop of small copies.
bool driver::is_pinned(CUdeviceptr address) const noexcept {
    thread_local pinned_range known[4];
    thread_local unsigned next = 0;
    const std::uint64_t now = pinned_generation.load(std::memory_order_relaxed);
    for (const pinned_range &one : known)
        if (one.generation == now && address >= one.begin && address < one.end) return true;
    if (memory_type(address) != CU_MEMORYTYPE_HOST) return false;
    pinned_range &found = known[next++ % std::size(known)];
    std::size_t size = 0;
    found.generation = 0;
    if (cuPointerGetAttribute(&found.begin, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, address) != CUDA_SUCCESS ||
        cuPointerGetAttribute(&size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, address) != CUDA_SUCCESS)
        return true;
    found.end = found.begin + size;
    found.generation = now;
    return true;
}

void forget_pinned() noexcept { pinned_generation.fetch_add(1, std::memory_order_relaxed); }

int driver::device_of(CUdeviceptr address) const noexcept {
    int device = -1;
    return cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address) == CUDA_SUCCESS ? device : -1;
}

CUresult driver::settle(CUstream stream) const noexcept {
    constexpr std::uint64_t moment_ns = 1'000'000;
    CUresult result = cuStreamQuery(stream);
    for (const std::uint64_t start = clock_ns(); result == CUDA_ERROR_NOT_READY && clock_ns() - start < moment_ns;)
        result = cuStreamQuery(stream);
    return result == CUDA_ERROR_NOT_READY ? CUDA_SUCCESS : result;
}

bool driver::is_synchronised(CUdeviceptr address) const noexcept {
    unsigned value = 0;
    return cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, address) == CUDA_SUCCESS && value;
}

const driver *the_driver() noexcept {
    if (is_driver_found.load(std::memory_order_acquire)) return &found_driver;
    pthread_mutex_lock(&mutex);
    if (!is_driver_found.load(std::memory_order_relaxed) && find(found_driver))
        is_driver_found.store(true, std::memory_order_release);
    pthread_mutex_unlock(&mutex);
    return the_known_driver();
}

const driver *the_known_driver() noexcept {
    return is_driver_found.load(std::memory_order_acquire) ? &found_driver : nullptr;
}

relaxed_captures::relaxed_captures(const driver &on) noexcept : on_(on) {
    on_.cuThreadExchangeStreamCaptureMode(&mode_);
}
relaxed_captures::~relaxed_captures() { on_.cuThreadExchangeStreamCaptureMode(&mode_); }

// ---- ferry

copying_instance::copying_instance() noexcept {
    // Never waits for a reset, which may wait for this thread's work. While a reset waits, no new copies begin.
    if (is_pausing) return;
    if (pthread_rwlock_tryrdlock(&copying_lock) != 0) return;
    if (!copying && !is_ferry_refused) {
        pthread_rwlock_unlock(&copying_lock);
        if (pthread_rwlock_trywrlock(&copying_lock) == 0) {
            if (!copying) copying = open();
            pthread_rwlock_unlock(&copying_lock);
        }
        if (pthread_rwlock_tryrdlock(&copying_lock) != 0) return;
    }
    is_locked_ = true;
    instance_ = copying;
}
copying_instance::~copying_instance() {
    if (is_locked_) pthread_rwlock_unlock(&copying_lock);
}

CUresult copying_instance::wait_for(ferry_ticket *copy, CUstream stream) const noexcept {
    int32_t status = ferry_ticket_wait(copy, FERRY_NO_TIMEOUT, nullptr);
    ferry_ticket_release(copy, nullptr);
    if (status != FERRY_SUCCESS) return to_result(status);
    // The bytes have arrived. The copy completes on its stream a moment later.
    ferry_ticket *ticket = nullptr;
    status = ferry_ticket_create(instance_, stream, &ticket, nullptr);
    if (status == FERRY_SUCCESS) status = ferry_ticket_wait(ticket, FERRY_NO_TIMEOUT, nullptr);
    ferry_ticket_release(ticket, nullptr);
    // Another thread has started a capture on a stream that synchronises with this stream.
    return status == FERRY_ERROR_CAPTURE ? CUDA_SUCCESS : to_result(status);
}

CUresult copying_instance::pause(CUresult (*call)(CUdevice), CUdevice device) noexcept {
    const inside_ferry inside;
    ++is_pausing;
    pthread_rwlock_wrlock(&copying_lock);
    ferry_close(copying);
    copying = nullptr;
    for (std::atomic<unsigned long long> &one : prepared) // the next instance must be prepared again
        one = 0;
    const CUresult result = call(device);
    pthread_rwlock_unlock(&copying_lock);
    --is_pausing;
    return result;
}

ferry_instance *allocating_instance() noexcept {
    ferry_instance *instance = allocating.load(std::memory_order_acquire);
    if (instance || is_ferry_refused) return instance;
    pthread_mutex_lock(&mutex);
    if (!allocating.load(std::memory_order_relaxed)) allocating.store(open(), std::memory_order_release);
    pthread_mutex_unlock(&mutex);
    return allocating.load(std::memory_order_acquire);
}

bool is_inside() noexcept { return depth != 0; }

// A thread that is cancelled during ferry's work would leave locks locked.
inside_ferry::inside_ferry() noexcept {
    ++depth;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state_);
}
inside_ferry::~inside_ferry() {
    pthread_setcancelstate(cancel_state_, nullptr);
    --depth;
}

CUresult to_result(int32_t status) noexcept {
    if (status == FERRY_SUCCESS) return CUDA_SUCCESS;
    return status <= FERRY_STATUS_DRIVER_BASE ? static_cast<CUresult>(FERRY_STATUS_DRIVER_BASE - status)
                                              : CUDA_ERROR_UNKNOWN;
}

} // namespace ferry_run

using namespace ferry_run;

namespace {

// Loads ferry's kernels into a context of the program and pins memory for it while no work runs there. Later, both
// would wait for running work, which may wait for the program.
void prepare(CUcontext context) noexcept {
    static std::atomic<unsigned> next = 0;
    if (!is_on() || is_inside()) return;
    const inside_ferry inside;
    const driver *const on = the_driver();
    unsigned long long id = 0;
    if (!on || on->cuCtxGetId(context, &id) != CUDA_SUCCESS) return;
    for (const std::atomic<unsigned long long> &one : prepared)
        if (one.load(std::memory_order_relaxed) == id) return;
    // Another thread may be opening ferry.
    constexpr timespec moment = {0, 1'000'000};
    for (int tries = 0; tries < 1000 && !is_ferry_refused && !is_pausing; ++tries, nanosleep(&moment, nullptr)) {
        const copying_instance ferry;
        if (!ferry.get()) continue;
        if (on->cuCtxPushCurrent(context) != CUDA_SUCCESS) return;
        CUdevice device = 0;
        if (on->cuCtxGetDevice(&device) == CUDA_SUCCESS) ferry_staging_prepare(ferry.get(), device, nullptr);
        on->cuCtxPopCurrent(nullptr);
        prepared[next.fetch_add(1, std::memory_order_relaxed) % std::size(prepared)] = id;
        return;
    }
}

template <entry self, class... Arguments> CUresult make_context(CUcontext *context, Arguments... arguments) {
    const CUresult result = call_real<self>(context, arguments...);
    if (result == CUDA_SUCCESS && context) prepare(*context);
    return result;
}

// Pinned memory, including ferry's, ends with the context.
template <entry self> CUresult reset(CUdevice device) noexcept {
    forget_pinned();
    if (!is_on() || is_inside()) return call_real<self>(device);
    return copying_instance::pause([](CUdevice one) { return call_real<self>(one); }, device);
}

} // namespace

FERRY_RUN_EXPORTED cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
    return make_context<entry::cuDevicePrimaryCtxRetain>(context, device);
}
FERRY_RUN_EXPORTED cuCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice device) {
    return make_context<entry::cuCtxCreate_v2>(context, flags, device);
}
FERRY_RUN_EXPORTED cuCtxCreate_v3(CUcontext *context, void *parameters, int count, unsigned flags, CUdevice device) {
    return make_context<entry::cuCtxCreate_v3>(context, parameters, count, flags, device);
}
FERRY_RUN_EXPORTED cuCtxCreate_v4(CUcontext *context, void *parameters, unsigned flags, CUdevice device) {
    return make_context<entry::cuCtxCreate_v4>(context, parameters, flags, device);
}
FERRY_RUN_EXPORTED cuCtxFromGreenCtx(CUcontext *context, void *green) {
    return make_context<entry::cuCtxFromGreenCtx>(context, green);
}
FERRY_RUN_EXPORTED cuDevicePrimaryCtxReset(CUdevice device) { return reset<entry::cuDevicePrimaryCtxReset>(device); }
FERRY_RUN_EXPORTED cuDevicePrimaryCtxReset_v2(CUdevice device) {
    return reset<entry::cuDevicePrimaryCtxReset_v2>(device);
}
