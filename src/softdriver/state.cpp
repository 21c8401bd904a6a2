// Opening and closing the software driver, the memory behind its devices, and its state after a fork.
#include "softdriver/state.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

namespace ferry::softdriver {

namespace {

// The driver is not destroyed at process exit: threads may still be running work then. Only the last close() frees it.
std::mutex lifecycle;
unsigned openers = 0;
std::atomic<driver *> current_driver = nullptr;
std::atomic<bool> forked = false;

constexpr std::size_t placement = std::size_t{2} << 20; // device ranges begin on a large page, as on GPUs
constexpr unsigned max_devices = 64;                    // operation::devices is a bit set

// A forked child has the memory but none of the threads. As with the real driver, the child has no driver at all.
void after_fork_in_child() {
    if (current_driver.load() || !lifecycle.try_lock())
        forked = true;
    else
        lifecycle.unlock();
}

void watch_forks() {
    static bool watching = false;
    if (!watching) watching = pthread_atfork(nullptr, nullptr, after_fork_in_child) == 0;
}

config with_defaults(config asked) {
    if (!asked.devices) asked.devices = 2;
    if (!asked.hardware_queues) asked.hardware_queues = 8;
    if (!asked.device_memory) asked.device_memory = std::uint64_t{4} << 30;
    asked.device_memory = (asked.device_memory + placement - 1) / placement * placement;
    return asked;
}

bool agrees(const config &asked, const config &runs) {
    const config full = with_defaults(asked);
    return (!asked.devices || full.devices == runs.devices) &&
           (!asked.hardware_queues || full.hardware_queues == runs.hardware_queues) &&
           (!asked.device_memory || full.device_memory == runs.device_memory);
}

// A key rather than the destructor of a thread_local: a key can be deleted, so the library can be unloaded.
pthread_key_t thread_end_key;

void thread_ends(void *serial) noexcept {
    if (forked) return;
    const std::lock_guard alive(lifecycle);
    driver *const cu = current_driver.load();
    if (!cu) return;
    try {
        const std::scoped_lock lock(cu->submission, cu->state);
        retire_streams_of_thread(*cu, reinterpret_cast<std::uintptr_t>(serial));
    } catch (...) { // no memory: the streams stay until their contexts are destroyed
    }
}

std::atomic<std::uint64_t> last_thread = 0;
// Trivially destructible, so that the library can be unloaded while threads that called it live on.
thread_local std::uint64_t thread_serial = 0;
thread_local bool inside_host_function = false;

} // namespace

driver::driver(const config &asked)
    : settings(with_defaults(asked)), engine(settings.devices, settings.hardware_queues) {
    devices.resize(settings.devices); // what can throw comes before what would need undoing
    create_default_pools(*this);
    const std::size_t all = settings.devices * settings.device_memory;
    backing_size_ = 2 * all; // as much again for imports
    reserved_size_ = backing_size_ + placement;
    pages_ = memfd_create("ferry software device memory", MFD_CLOEXEC);
    const bool sized = pages_ >= 0 && ftruncate(pages_, static_cast<off_t>(all)) == 0;
    reserved_ = mmap(nullptr, reserved_size_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    backing_ = mmap(nullptr, backing_size_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (!sized || reserved_ == MAP_FAILED || backing_ == MAP_FAILED ||
        mmap(backing_, all, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED, pages_, 0) == MAP_FAILED) {
        unmap();
        throw std::bad_alloc();
    }
    madvise(backing_, all, MADV_DONTFORK);

    const std::uintptr_t begin = (reinterpret_cast<std::uintptr_t>(reserved_) + placement - 1) / placement * placement;
    const auto distance = static_cast<std::ptrdiff_t>(reinterpret_cast<std::uintptr_t>(backing_) - begin);
    for (unsigned i = 0; i < settings.devices; ++i) {
        device &one = devices[i];
        one.memory = heap(begin + i * settings.device_memory, settings.device_memory);
        one.primary = reinterpret_cast<CUcontext>(next_handle());
    }
    imports = heap(begin + all, all);
    device_window = {begin, begin + backing_size_, distance};
}

driver::~driver() {
    engine.wait_idle(~std::uint64_t{0});
    // The engine, still alive here, destroys the user objects that graphs keep.
    while (!captures.empty())
        end_capture(*this, *capture_ptr(captures.back()));
    executables.remove_if([](const executable &) { return true; });
    graphs.remove_if([](const graph_ptr &) { return true; });
    user_objects.remove_if([](const user_object &) { return true; });
    for (const auto &[address, memory] : allocations)
        if ((memory.kind == allocation_kind::host && !memory.is_stream_ordered()) ||
            memory.kind == allocation_kind::managed)
            munmap(reinterpret_cast<void *>(address), memory.size);
    events.remove_if([](const event &) { return true; }); // before the page that holds their slots
    own = nullptr;
    unmap();
    device_window = {};
}

void driver::unmap() {
    if (reserved_ != MAP_FAILED) munmap(reserved_, reserved_size_);
    if (backing_ != MAP_FAILED) munmap(backing_, backing_size_);
    if (host_pages_) munmap(host_pages_, settings.device_memory);
    if (pages_ >= 0) ::close(pages_);
}

void driver::reserve_host_memory() {
    if (host_pages_) return;
    void *const pages = mmap(nullptr, settings.device_memory, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    require(pages != MAP_FAILED, CUDA_ERROR_OUT_OF_MEMORY);
    host_pages_ = pages;
    host_memory = heap(reinterpret_cast<std::uintptr_t>(pages), settings.device_memory);
}

std::uintptr_t driver::map_import(int file, std::uint64_t offset, std::size_t bytes) {
    const auto address = imports.take(bytes);
    require(address.has_value(), CUDA_ERROR_OUT_OF_MEMORY);
    if (mmap(reach(*address), bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED, file,
             static_cast<off_t>(offset)) == MAP_FAILED) {
        imports.release(*address, bytes);
        throw refusal{CUDA_ERROR_MAP_FAILED};
    }
    madvise(reach(*address), bytes, MADV_DONTFORK);
    return *address;
}

void driver::unmap_import(std::uintptr_t address, std::size_t bytes) {
    constexpr int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
    // If mmap fails the addresses stay taken: another process's memory may still be mapped there.
    if (mmap(reach(address), bytes, PROT_NONE, flags, -1, 0) != MAP_FAILED) imports.release(address, bytes);
}

void driver::discard_pages(std::uintptr_t address, std::size_t bytes) {
    if (is_device_address(address)) {
        fallocate(pages_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(address - device_window.begin),
                  static_cast<off_t>(bytes));
        return;
    }
    const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
    const std::uintptr_t begin = (address + page - 1) & ~(page - 1);
    const std::uintptr_t end = (address + bytes) & ~(page - 1);
    if (begin < end) madvise(reinterpret_cast<void *>(begin), end - begin, MADV_DONTNEED);
}

open_result open(const config &asked) noexcept {
    if (forked) return open_result::opened; // cuInit fails instead, as in the real driver's library
    const std::lock_guard lock(lifecycle);
    if (driver *const cu = current_driver.load()) {
        if (!agrees(asked, cu->settings)) return open_result::refused_config;
        ++openers;
        return open_result::opened;
    }
    std::uint64_t memory = 0;
    const config full = with_defaults(asked);
    if (full.devices > max_devices || full.device_memory < asked.device_memory ||
        __builtin_mul_overflow(full.devices, full.device_memory, &memory) || memory > std::uint64_t{1} << 46)
        return open_result::out_of_memory;
    if (pthread_key_create(&thread_end_key, thread_ends) != 0) return open_result::out_of_memory;
    try {
        watch_forks();
        current_driver = new driver(asked);
    } catch (...) {
        pthread_key_delete(thread_end_key);
        return open_result::out_of_memory;
    }
    openers = 1;
    return open_result::opened;
}

void close() noexcept {
    if (forked) return;
    const std::lock_guard lock(lifecycle);
    if (openers == 0 || --openers != 0) return;
    delete current_driver.exchange(nullptr);
    pthread_key_delete(thread_end_key);
}

void wait_for_devices(driver &cu, std::uint64_t devices) {
    cu.state.unlock();
    cu.engine.wait_idle(devices);
    cu.state.lock();
}

driver *running_driver(bool initialised) noexcept {
    driver *const cu = forked ? nullptr : current_driver.load();
    return cu && (!initialised || cu->initialised) ? cu : nullptr;
}

std::uint64_t this_thread() noexcept {
    if (!thread_serial) thread_serial = ++last_thread;
    return thread_serial;
}
void watch_thread_end() noexcept {
    pthread_setspecific(thread_end_key, reinterpret_cast<void *>(std::uintptr_t{this_thread()}));
}
void enter_host_function(bool inside) noexcept { inside_host_function = inside; }
bool in_host_function() noexcept { return inside_host_function; }

} // namespace ferry::softdriver
