#include "support/fault_driver.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <type_traits>

namespace ferry::test {

namespace {

struct entry_state {
    void *real = nullptr;
    std::atomic<int> calls = 0;
    std::atomic<int> calls_until_fault = 0; // 0: no fault
    bool sticky = false;
    bool hidden = false;
    CUresult result = CUDA_SUCCESS;
};

entry_state entries[driver_symbol_count];
resolver inner_entry_points;
std::atomic<bool> is_paused = false;
std::atomic<int> injected_count = 0;
std::atomic<int> look_up_count = 0;
thread_local std::uintptr_t deepest_frame = 0;

void note_frame(const void *frame) {
    const auto at = reinterpret_cast<std::uintptr_t>(frame);
    if (!deepest_frame || at < deepest_frame) deepest_frame = at;
}

bool is_faulty(entry_state &entry) {
    if (is_paused) return false;
    ++entry.calls;
    int left = entry.calls_until_fault;
    while (left > 1)
        if (entry.calls_until_fault.compare_exchange_weak(left, left - 1)) return false;
    if (left == 0) return false;
    // If the exchange fails, the fault was injected on another thread.
    if (!entry.sticky && !entry.calls_until_fault.compare_exchange_strong(left, 0)) return false;
    ++injected_count;
    return true;
}

// ---- Objects

// creates_once: the driver may return the same object again, without counting references.
enum class effect { creates, creates_once, destroys };
// The location of the handle. Most calls that create an object write the handle to the target of their first argument.
enum class handle_at { first_argument, target_of_first_argument, second_argument };
struct object_call {
    const char *entry;
    effect what;
    const char *kind;
    handle_at handle;
};
constexpr object_call object_calls[] = {
    {"cuDevicePrimaryCtxRetain", effect::creates, "reference to a primary context", handle_at::second_argument},
    {"cuDevicePrimaryCtxRelease", effect::destroys, "reference to a primary context", handle_at::first_argument},
    {"cuCtxCreate", effect::creates, "context", handle_at::target_of_first_argument},
    {"cuCtxDestroy", effect::destroys, "context", handle_at::first_argument},
    {"cuMemAlloc", effect::creates, "device memory", handle_at::target_of_first_argument},
    {"cuMemAllocPitch", effect::creates, "device memory", handle_at::target_of_first_argument},
    {"cuMemAllocManaged", effect::creates, "device memory", handle_at::target_of_first_argument},
    {"cuMemAllocAsync", effect::creates, "device memory", handle_at::target_of_first_argument},
    {"cuMemAllocFromPoolAsync", effect::creates, "device memory", handle_at::target_of_first_argument},
    {"cuMemPoolImportPointer", effect::creates_once, "device memory", handle_at::target_of_first_argument},
    {"cuMemFree", effect::destroys, "device memory", handle_at::first_argument},
    {"cuMemFreeAsync", effect::destroys, "device memory", handle_at::first_argument},
    {"cuIpcOpenMemHandle", effect::creates, "mapping of another process", handle_at::target_of_first_argument},
    {"cuIpcCloseMemHandle", effect::destroys, "mapping of another process", handle_at::first_argument},
    {"cuImportExternalMemory", effect::creates, "external memory", handle_at::target_of_first_argument},
    {"cuDestroyExternalMemory", effect::destroys, "external memory", handle_at::first_argument},
    {"cuExternalMemoryGetMappedBuffer", effect::creates, "device memory", handle_at::target_of_first_argument},
    {"cuExternalMemoryGetMappedMipmappedArray", effect::creates, "mipmapped array",
     handle_at::target_of_first_argument},
    {"cuImportExternalSemaphore", effect::creates, "external semaphore", handle_at::target_of_first_argument},
    {"cuDestroyExternalSemaphore", effect::destroys, "external semaphore", handle_at::first_argument},
    {"cuMemHostAlloc", effect::creates, "pinned memory", handle_at::target_of_first_argument},
    {"cuMemFreeHost", effect::destroys, "pinned memory", handle_at::first_argument},
    {"cuMemHostRegister", effect::creates, "registration", handle_at::first_argument},
    {"cuMemHostUnregister", effect::destroys, "registration", handle_at::first_argument},
    {"cuArray3DCreate", effect::creates, "array", handle_at::target_of_first_argument},
    {"cuArrayDestroy", effect::destroys, "array", handle_at::first_argument},
    {"cuMipmappedArrayCreate", effect::creates, "mipmapped array", handle_at::target_of_first_argument},
    {"cuMipmappedArrayDestroy", effect::destroys, "mipmapped array", handle_at::first_argument},
    {"cuSurfObjectCreate", effect::creates, "surface", handle_at::target_of_first_argument},
    {"cuSurfObjectDestroy", effect::destroys, "surface", handle_at::first_argument},
    {"cuLibraryLoadData", effect::creates, "kernel library", handle_at::target_of_first_argument},
    {"cuLibraryUnload", effect::destroys, "kernel library", handle_at::first_argument},
    {"cuStreamCreateWithPriority", effect::creates, "stream", handle_at::target_of_first_argument},
    {"cuStreamDestroy", effect::destroys, "stream", handle_at::first_argument},
    {"cuEventCreate", effect::creates, "event", handle_at::target_of_first_argument},
    {"cuIpcOpenEventHandle", effect::creates, "event", handle_at::target_of_first_argument},
    {"cuEventDestroy", effect::destroys, "event", handle_at::first_argument},
    {"cuMemPoolCreate", effect::creates, "pool", handle_at::target_of_first_argument},
    {"cuMemPoolImportFromShareableHandle", effect::creates, "pool", handle_at::target_of_first_argument},
    {"cuMemPoolDestroy", effect::destroys, "pool", handle_at::first_argument},
};

const object_call *object_calls_by_row[driver_symbol_count];
std::mutex objects_mutex;
std::vector<fault_driver::live_object> objects; // guarded by objects_mutex

template <class Argument> std::uint64_t as_number([[maybe_unused]] Argument argument) {
    if constexpr (std::is_pointer_v<Argument>)
        return reinterpret_cast<std::uint64_t>(argument);
    else if constexpr (std::is_integral_v<Argument>)
        return static_cast<std::uint64_t>(argument);
    else
        return 0;
}

// Called after a call has succeeded, or instead of a call that is made to fail.
void note_object(const object_call &call, const std::uint64_t *arguments, bool is_injected) {
    if (call.what != effect::destroys && is_injected) return;
    std::uint64_t handle = arguments[call.handle == handle_at::second_argument];
    if (call.handle == handle_at::target_of_first_argument)
        std::memcpy(&handle, reinterpret_cast<const void *>(arguments[0]), sizeof handle);
    if (handle == 0 && call.handle == handle_at::target_of_first_argument) return; // an allocation of 0 bytes
    const std::lock_guard lock(objects_mutex);
    const auto is_known = [&](const fault_driver::live_object &one) {
        return one.handle == handle && std::strcmp(one.kind, call.kind) == 0;
    };
    if (call.what == effect::creates_once && std::any_of(objects.begin(), objects.end(), is_known)) return;
    if (call.what != effect::destroys) return objects.push_back({call.kind, handle, false, arguments[1]});
    // Of several references to one context, prefers a reference whose release has not failed.
    std::size_t found = objects.size();
    for (std::size_t i = 0; i < objects.size(); ++i) {
        if (!is_known(objects[i])) continue;
        found = i;
        if (!objects[i].destruction_failed) break;
    }
    if (found == objects.size()) return;
    if (is_injected) {
        objects[found].destruction_failed = true;
        return;
    }
    objects.erase(objects.begin() + static_cast<std::ptrdiff_t>(found));
    // Streams and events end with their context. The list does not record their contexts, so all of them are dropped.
    if (std::strcmp(call.kind, "context") == 0)
        std::erase_if(objects, [](const auto &one) {
            return std::strcmp(one.kind, "event") == 0 || std::strcmp(one.kind, "stream") == 0;
        });
}

// One wrapper function per row, with the signature of the row.
template <int row, class Function> struct thunk;
template <int row, class... Arguments> struct thunk<row, CUresult(CUDAAPI *)(Arguments...)> {
    static CUresult CUDAAPI call(Arguments... arguments) {
        note_frame(__builtin_frame_address(0));
        entry_state &entry = entries[row];
        const object_call *const of_objects = object_calls_by_row[row];
        const std::uint64_t numbers[] = {as_number(arguments)..., 0, 0};
        if (is_faulty(entry)) {
            if (of_objects && entry.result != CUDA_SUCCESS) note_object(*of_objects, numbers, true);
            return entry.result;
        }
        const CUresult result = reinterpret_cast<CUresult(CUDAAPI *)(Arguments...)>(entry.real)(arguments...);
        if (of_objects && result == CUDA_SUCCESS) note_object(*of_objects, numbers, false);
        return result;
    }
};

struct row_number {
    enum {
#define FERRY_DRIVER_SYMBOL(need, name, version, parameters) row_of_##name##_##version,
#include "driver/symbols.inc"
#undef FERRY_DRIVER_SYMBOL
    };
};

void *const thunks[] = {
#define FERRY_DRIVER_SYMBOL(need, name, version, parameters)                                                           \
    reinterpret_cast<void *>(&thunk<row_number::row_of_##name##_##version, PFN_##name##_v##version>::call),
#include "driver/symbols.inc"
#undef FERRY_DRIVER_SYMBOL
};

// Visits the rows of an entry point: one row for each signature that ferry calls.
template <class Action> void for_each_row(const char *name, Action action) {
    bool is_known = false;
    for (int row = 0; row < driver_symbol_count; ++row)
        if (std::strcmp(driver_symbols[row].name, name) == 0) {
            is_known = true;
            action(entries[row], driver_symbols[row].version);
        }
    if (is_known) return;
    std::fprintf(stderr, "no driver entry point %s in driver/symbols.inc\n", name);
    std::abort();
}

void *get_wrapped(void *, const char *name, int version) {
    ++look_up_count;
    for (int row = 0; row < driver_symbol_count; ++row) {
        if (std::strcmp(driver_symbols[row].name, name) != 0 || driver_symbols[row].version != version) continue;
        return entries[row].hidden || !entries[row].real ? nullptr : thunks[row];
    }
    return inner_entry_points.get_proc(inner_entry_points.user, name, version);
}

} // namespace

fault_driver::fault_driver(resolver inner) {
    inner_entry_points = inner;
    heal();
    reset_counts();
    objects.clear();
    for (int row = 0; row < driver_symbol_count; ++row) {
        entries[row].real = inner.get_proc(inner.user, driver_symbols[row].name, driver_symbols[row].version);
        for (const object_call &call : object_calls)
            if (std::strcmp(call.entry, driver_symbols[row].name) == 0) object_calls_by_row[row] = &call;
    }
}

fault_driver::~fault_driver() { heal(); }

ferry_options fault_driver::options() const {
    ferry_options options = {};
    options.struct_size = sizeof options;
    options.driver = FERRY_DRIVER_CUDA;
    options.get_proc = get_wrapped;
    return options;
}

void fault_driver::fail(const char *entry, CUresult result, int nth, bool sticky) {
    for_each_row(entry, [&](entry_state &state, int) {
        state.result = result;
        state.sticky = sticky;
        state.calls_until_fault = nth;
    });
}

void fault_driver::hide(const char *entry, int from_version) {
    for_each_row(entry, [&](entry_state &state, int version) { state.hidden = version >= from_version; });
}

void fault_driver::heal() {
    for (entry_state &entry : entries) {
        entry.calls_until_fault = 0;
        entry.hidden = false;
    }
    is_paused = false;
}

void fault_driver::pause(bool is_to_be_paused) { is_paused = is_to_be_paused; }

int fault_driver::injected() const { return injected_count; }

std::vector<fault_driver::live_object> fault_driver::live_objects() const {
    const std::lock_guard lock(objects_mutex);
    return objects;
}

int fault_driver::calls(const char *entry) const {
    int sum = 0;
    for_each_row(entry, [&](const entry_state &state, int) { sum += state.calls; });
    return sum;
}

int fault_driver::look_ups() const { return look_up_count; }

const void *fault_driver::deepest_call() { return reinterpret_cast<const void *>(deepest_frame); }

int fault_driver::calls_beginning(const char *prefix) const {
    int sum = 0;
    for (int row = 0; row < driver_symbol_count; ++row)
        if (std::strncmp(driver_symbols[row].name, prefix, std::strlen(prefix)) == 0) sum += entries[row].calls;
    return sum;
}

void fault_driver::reset_counts() {
    for (entry_state &entry : entries)
        entry.calls = 0;
    injected_count = look_up_count = 0;
}

} // namespace ferry::test
