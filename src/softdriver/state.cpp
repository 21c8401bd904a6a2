// Opening and closing the software driver, the memory behind its devices, and its state after a fork.
#include "softdriver/state.h"
#include "base/checked.h"

#include "system/thread_end.h"

namespace ferry::softdriver {

namespace {

// The driver is not destroyed at process exit: threads may still be running work then. Only the last close() frees it.
std::mutex lifecycle;
unsigned openers = 0;
std::atomic<driver *> current_driver = nullptr;
std::atomic<bool> forked = false;

constexpr std::size_t placement = std::size_t{2} << 20; // device ranges begin on a large page, as on GPUs

// A forked child has the memory but none of the threads. As with the real driver, the child has no driver at all.
void after_fork_in_child() {
    if (current_driver.load() || !lifecycle.try_lock())
        forked = true;
    else
        lifecycle.unlock();
}

void watch_forks() {
    static bool watching = false;
    if (!watching) watching = call_in_forked_child(after_fork_in_child);
}

config with_defaults(config asked) {
    if (!asked.devices) asked.devices = 2;
    if (!asked.hardware_queues) asked.hardware_queues = 8;
    if (!asked.device_memory) asked.device_memory = std::uint64_t{4} << 30;
    if (asked.links == device_links::unset) asked.links = device_links::all;
    asked.device_memory = (asked.device_memory + placement - 1) / placement * placement;
    return asked;
}

bool agrees(const config &asked, const config &runs) {
    const config full = with_defaults(asked);
    return (!asked.devices || full.devices == runs.devices) &&
           (!asked.hardware_queues || full.hardware_queues == runs.hardware_queues) &&
           (!asked.device_memory || full.device_memory == runs.device_memory) &&
           (asked.links == device_links::unset || asked.links == runs.links);
}

thread_end at_thread_end;

void thread_ends(void *serial) noexcept {
    if (forked || !current_driver.load()) return; // close() may call, with the lock
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
    : settings(with_defaults(asked)), engine(settings.devices, settings.hardware_queues),
      pages_(settings.devices * settings.device_memory, placement) {
    devices.resize(settings.devices);
    create_default_pools(*this);
    for (unsigned i = 0; i < settings.devices; ++i) {
        device &one = devices[i];
        one.memory = heap(pages_.begin() + i * settings.device_memory, settings.device_memory);
        one.primary = reinterpret_cast<CUcontext>(next_handle());
    }
    const std::size_t all = settings.devices * settings.device_memory;
    imports = heap(pages_.begin() + all, all);
    device_window = {pages_.begin(), pages_.end(), pages_.distance()};
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
            unmap_host_pages(reinterpret_cast<void *>(address), memory.size);
    // Before the pages that they map.
    allocations.clear();
    mipmapped_arrays.remove_if([](const mipmapped_array &) { return true; });
    external_semaphores.remove_if([](const external_semaphore &) { return true; });
    events.remove_if([](const event &) { return true; }); // before the page that holds their slots
    own = nullptr;
    if (host_pages_) unmap_host_pages(host_pages_, settings.device_memory);
    device_window = {};
}

void driver::reserve_host_memory() {
    if (host_pages_) return;
    void *const pages = reserve_host_pages(settings.device_memory);
    require(pages, CUDA_ERROR_OUT_OF_MEMORY);
    host_pages_ = pages;
    host_memory = heap(reinterpret_cast<std::uintptr_t>(pages), settings.device_memory);
}

std::optional<std::uintptr_t> driver::take_memory(heap &from, std::size_t bytes) {
    const auto address = from.take(bytes);
    if (!address) return address;
    if (is_device_address(*address) ? pages_.provide(*address, bytes) : provide_host_pages(*address, bytes))
        return address;
    from.release(*address, bytes);
    return std::nullopt;
}

std::uintptr_t driver::map_import(int file, std::uint64_t offset, std::size_t bytes) {
    const auto address = imports.take(bytes);
    require(address.has_value(), CUDA_ERROR_OUT_OF_MEMORY);
    if (!pages_.map_import(*address, file, offset, bytes)) {
        imports.release(*address, bytes);
        throw refusal{CUDA_ERROR_MAP_FAILED};
    }
    return *address;
}

void driver::unmap_import(std::uintptr_t address, std::size_t bytes) {
    // Otherwise the addresses stay taken: another process's memory may still be mapped there.
    if (pages_.unmap_import(address, bytes)) imports.release(address, bytes);
}

void driver::discard_pages(std::uintptr_t address, std::size_t bytes) {
    if (is_device_address(address))
        pages_.discard(address, bytes);
    else
        discard_host_pages(address, bytes);
}

void use_host_page_tables(bool use) noexcept { uses_host_page_tables = use; }

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
        !multiply(full.devices, full.device_memory, memory) || memory > std::uint64_t{1} << 46)
        return open_result::out_of_memory;
    if (!at_thread_end.open(thread_ends)) return open_result::out_of_memory;
    try {
        watch_forks();
        current_driver = new driver(asked);
    } catch (...) {
        at_thread_end.close();
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
    at_thread_end.close();
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
void watch_thread_end() noexcept { at_thread_end.set(reinterpret_cast<void *>(std::uintptr_t{this_thread()})); }
void enter_host_function(bool inside) noexcept { inside_host_function = inside; }
bool in_host_function() noexcept { return inside_host_function; }

} // namespace ferry::softdriver
