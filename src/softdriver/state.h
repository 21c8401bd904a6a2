// The software driver's state: devices, contexts, streams, memory and captures; and enter(), the wrapper around every
// entry point.
//
// There are two locks. Every call except a query takes `submission` first and holds it while its body runs. The real
// driver's frees wait for running work while they hold a lock that other calls need (docs/driver.md), so a program that
// deadlocks there must also deadlock here. `state` guards the data. A free releases `state` while it waits, so queries,
// which take only `state`, still return.
#pragma once

#include "softdriver/address_window.h"
#include "softdriver/arrays.h"
#include "softdriver/external_file.h"
#include "softdriver/handles.h"
#include "softdriver/heap.h"
#include "softdriver/operations.h"
#include "softdriver/pages.h"
#include "softdriver/pool.h"
#include "softdriver/softdriver.h"

#include <atomic>
#include <iterator>
#include <map>
#include <mutex>
#include <new>
#include <system_error>
#include <type_traits>
#include <unordered_map>
#include <variant>

namespace ferry::softdriver {

// Entry points reject a call by throwing this; enter() returns the result.
struct refusal {
    CUresult result;
};
inline void require(bool holds, CUresult otherwise = CUDA_ERROR_INVALID_VALUE) {
    if (!holds) throw refusal{otherwise};
}

struct driver;
struct context;
struct stream;

// Work for a stream: submitted immediately, or stored as a node of the graph during a capture.
struct work {
    lane_kind kind = lane_kind::compute;
    unsigned copy_device = 0;  // whose copy engine runs an H2D or D2H copy
    std::uint64_t devices = 0; // used in addition to the stream's own
    bool is_transfer = false;  // a copy or a fill: waits for nothing, and does nothing in a broken context
    std::function<void()> body{};
    // If set, makes the body when the work is submitted; in a graph, at every launch.
    std::function<std::function<void()>(driver &)> prepare{};
};

// Memory that a graph allocates. Its address is fixed at capture and the same at every launch.
struct graph_memory {
    std::uintptr_t address = 0;
    std::size_t size = 0;
    CUmemLocation location{};
    std::uint64_t accessible_from = 0; // as of the pool named in the capture
    bool live = false;                 // a launch has allocated it, and nothing has freed it since
    operation_ptr last_use;
};
using graph_memory_ptr = std::shared_ptr<graph_memory>;

// Lives as long as a handle, a graph or an unfinished launch of a graph refers to it.
struct user_resource {
    user_resource(driver &cu, void *user, CUhostFn destroy) : of(cu), user(user), destroy(destroy) {}
    ~user_resource();
    user_resource(const user_resource &) = delete;

    driver &of;
    void *user;
    CUhostFn destroy;
};
using user_resources = std::vector<std::shared_ptr<user_resource>>;

struct user_object {
    std::shared_ptr<user_resource> resource;
    unsigned references = 0; // held by the program
};

// A node. Capture makes nodes without a handle, because nothing here can name them.
struct graph_node {
    work what{};
    CUgraphNode handle = nullptr;
    // What a node with a handle copies or fills, for updates of executables.
    std::variant<std::monostate, CUDA_MEMCPY3D, CUDA_MEMSET_NODE_PARAMS> parameters{};
    // Whether an update may change the node: a copy of one row between linear memory, or a fill of one row.
    bool is_line = false;
    bool from_host = false, to_host = false; // a copy
};

struct graph {
    std::vector<graph_node> nodes; // each after the nodes that it depends on
    user_resources keeps;
    std::vector<graph_memory_ptr> allocates;
    std::vector<graph_memory_ptr> frees;
};
using graph_ptr = std::shared_ptr<graph>;

struct executable {
    graph_ptr runs; // a copy: later changes of the graph do not affect it
    bool frees_on_launch = false;
};

struct capture {
    struct node {
        work what;
        std::vector<std::size_t> after; // indices of earlier nodes
    };
    std::uint64_t id = 0;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
    std::uint64_t thread = 0;
    const stream *origin = nullptr;
    CUgraph handle = nullptr; // of the graph, once it was requested
    user_resources keeps;
    bool invalidated = false;
    bool ended = false;
    std::vector<node> nodes;
    std::vector<graph_memory_ptr> allocates;
    std::vector<graph_memory_ptr> frees;
};
using capture_ptr = std::shared_ptr<capture>;

struct stream {
    CUstream handle = nullptr;
    context *owner = nullptr;
    unsigned flags = CU_STREAM_DEFAULT;
    int priority = 0;
    unsigned queue = 0;
    operation_ptr last;
    frees_before after; // frees that `last` is ordered after
    capture_ptr capturing;
    std::vector<std::size_t> captured_after; // nodes that the next captured operation depends on
    std::uint64_t id = next_handle();        // never reused, not even after destruction

    bool synchronises_with_legacy() const { return !(flags & CU_STREAM_NON_BLOCKING); }
};

struct event {
    CUevent handle = nullptr;
    context *owner = nullptr;
    unsigned flags = 0;
    operation_ptr recorded;
    frees_before after;                   // frees that `recorded` is ordered after
    std::shared_ptr<shared_event> shared; // interprocess events only, exported or imported
    std::uint64_t ticket = 0;             // of `recorded`, in `shared`
    capture_ptr captured;                 // set if the last record was captured
    std::vector<std::size_t> captured_after;
};

// The error of a kernel that broke a context, which every later call returns. Once a call has returned it, no work of
// the context moves bytes any more.
class breakage {
public:
    void happen(CUresult why) { // the first error stays
        const std::lock_guard lock(mutex_);
        if (result_ == CUDA_SUCCESS) result_ = why;
    }
    // For work that runs in the context.
    CUresult seen_by_work() const { return result_; }
    bool has_happened() const { return result_ != CUDA_SUCCESS; }
    // For calls.
    CUresult result() {
        if (!has_happened()) return CUDA_SUCCESS;
        std::unique_lock lock(mutex_);
        ended_.wait(lock, [&] { return transfers_ == 0; });
        return result_;
    }
    template <class Transfer> void run_unless_broken(const Transfer &transfer) {
        {
            const std::lock_guard lock(mutex_);
            if (has_happened()) return;
            ++transfers_;
        }
        transfer();
        const std::lock_guard lock(mutex_);
        if (--transfers_ == 0 && has_happened()) ended_.notify_all();
    }

private:
    std::mutex mutex_;
    std::condition_variable ended_;
    std::atomic<CUresult> result_ = CUDA_SUCCESS;
    unsigned transfers_ = 0; // number of running transfers
};

struct context {
    CUcontext handle = nullptr;       // a primary context always has the same handle
    std::uint64_t id = next_handle(); // never reused
    int device = 0;
    unsigned flags = 0;
    bool primary = false;
    std::vector<CUcontext> peers; // whose memory this context may access
    stream legacy;
    std::unordered_map<std::uint64_t, std::unique_ptr<stream>> per_thread; // by thread serial
    std::vector<stream *> streams;                                         // all but legacy
    operations of_destroyed_streams[2];   // their last operations; [1]: for streams that synchronise with legacy
    frees_before after_destroyed_streams; // of [1]
    operations staging;                   // the work that occupies staging buffers of pageable copies, one per buffer
    // Shared, because blocked calls read it after they have released the locks.
    std::shared_ptr<breakage> broken = std::make_shared<breakage>();

    void require_sound() const {
        const CUresult result = broken->result();
        require(result == CUDA_SUCCESS, result);
    }
};

// A surface object: kernels access an array through it.
struct surface {
    CUarray of = nullptr;
    CUcontext owner = nullptr;
};

// A loaded image: the built-in kernels that it names, and the contexts that have loaded it.
struct library {
    std::vector<CUkernel> kernels;
    std::vector<CUcontext> loaded_in;
};

// Memory of another process, or memory of this process at a second address.
struct import {
    std::shared_ptr<shared_process> from;
    std::uint64_t serial = 0; // in that process's page
    std::uintptr_t mapped_at = 0;
    std::size_t mapped_size = 0;
    unsigned opened = 1;
};

struct driver;

// A part of a graphics API's memory, mapped at device addresses.
struct external_mapping {
    explicit external_mapping(driver &cu) : cu(cu) {}
    ~external_mapping();
    external_mapping(const external_mapping &) = delete;

    driver &cu;
    std::uintptr_t mapped_at = 0;
    std::size_t mapped_size = 0;
    std::uintptr_t address = 0;
};

struct external_memory {
    context *owner = nullptr;
    std::uint64_t size = 0;
    std::unique_ptr<external_file> file;
};

struct external_semaphore {
    context *owner = nullptr;
    bool is_timeline = false;
    std::shared_ptr<external_mapping> mapping;
};

enum class allocation_kind { device, managed, host, registered };

struct allocation {
    std::uintptr_t address = 0;
    std::size_t size = 0; // as requested
    allocation_kind kind = allocation_kind::device;
    int device = 0;
    CUcontext owner = nullptr; // null for memory of a pool or a graph
    unsigned flags = 0;
    std::uint64_t buffer_id = 0;
    struct pool *pool = nullptr;
    graph_memory *graph = nullptr;
    std::optional<std::uint32_t> shared_at = std::nullopt; // the slot that publishes it to other processes
    std::shared_ptr<import> imported = nullptr;
    std::shared_ptr<external_mapping> external = nullptr; // of a graphics API

    bool on_host() const { return kind == allocation_kind::host || kind == allocation_kind::registered; }
    bool is_stream_ordered() const { return pool || graph; }
    bool awaits_launch() const { return graph && !graph->live; }
    std::uint64_t accessible_from() const { return pool ? pool->accessible_from : graph->accessible_from; }
};

// Memory of cuMemAlloc or of an imported pool, freed by cuMemFreeAsync. The addresses become free when the free has
// completed on the stream.
struct late_free {
    operation_ptr freed;
    allocation memory;
};

// Pinned host memory. A kernel can also access memory that was allocated or registered after its launch (seen on CUDA
// 13.0, H200), so kernels look it up without the driver's locks.
class mapped_host_memory {
public:
    void add(std::uintptr_t address, std::size_t size) {
        const std::lock_guard lock(mutex_);
        ranges_[address] = address + size;
    }
    void remove(std::uintptr_t address) {
        const std::lock_guard lock(mutex_);
        ranges_.erase(address);
    }
    struct range {
        std::uintptr_t begin = 0, end = 0; // empty: none
    };
    range find(std::uintptr_t address) const {
        const std::lock_guard lock(mutex_);
        const auto beyond = ranges_.upper_bound(address);
        if (beyond == ranges_.begin() || address >= std::prev(beyond)->second) return {};
        return {std::prev(beyond)->first, std::prev(beyond)->second};
    }

private:
    mutable std::mutex mutex_;
    std::map<std::uintptr_t, std::uintptr_t> ranges_; // first address, and the address after the last
};

struct device {
    heap memory;
    CUcontext primary = nullptr; // the handle; the context exists while it is retained
    unsigned primary_retained = 0;
    unsigned next_queue = 0;
    pool_place pools;
};

struct driver {
    explicit driver(const config &asked); // throws std::bad_alloc
    ~driver();

    const config settings;
    std::atomic<bool> initialised = false;
    std::mutex submission;
    std::mutex state; // locked after `submission`; guards all that follows
    std::vector<device> devices;
    std::map<std::uintptr_t, allocation> allocations; // by address
    mapped_host_memory mapped_host;
    handle_table<CUcontext, context> contexts;
    handle_table<CUstream, stream> streams;
    handle_table<CUevent, event> events;
    handle_table<CUarray, array> arrays; // including levels and planes
    handle_table<CUmipmappedArray, mipmapped_array> mipmapped_arrays;
    handle_table<CUexternalMemory, external_memory> external_memories;
    handle_table<CUexternalSemaphore, external_semaphore> external_semaphores;
    handle_table<CUgraph, graph_ptr> graphs;
    handle_table<CUuserObject, user_object> user_objects;
    handle_table<CUsurfObject, surface> surfaces;
    handle_table<CUlibrary, library> libraries;
    handle_table<CUkernel, const struct built_in_kernel *> kernels;
    handle_table<CUgraphExec, executable> executables;
    handle_table<CUmemoryPool, pool> pools; // including destroyed pools whose memory is in use
    pool_place host_pools;
    pool_place numa_pools;                   // of node 0
    heap host_memory;                        // addresses for pools on the host; empty until one is used
    std::vector<graph_memory_ptr> of_graphs; // and of captures in progress
    std::vector<late_free> late_frees;
    heap imports;                                        // device addresses for memory of other processes
    std::shared_ptr<shared_process> own;                 // null until something is shared
    std::vector<std::shared_ptr<shared_process>> others; // whose memory or events are opened here
    std::vector<capture_ptr> captures;                   // in progress
    std::uint64_t managed_bytes = 0;
    std::uint64_t next_id = 1;
    class engine engine;

    // Takes writable memory from the heap of a device or of the host. Returns nothing if there is not enough memory.
    std::optional<std::uintptr_t> take_memory(heap &from, std::size_t bytes);
    void discard_pages(std::uintptr_t address, std::size_t bytes); // returns whole pages to the system
    void reserve_host_memory();                                    // for host pools, on the first call
    int device_file() const { return pages_.file(); }
    std::uintptr_t map_import(int file, std::uint64_t offset, std::size_t bytes); // whole pages
    void unmap_import(std::uintptr_t address, std::size_t bytes);

private:
    device_pages pages_;
    void *host_pages_ = nullptr;
};

// Returns the running driver. Null if it is not open, if `initialised` is set and cuInit was not called, and in a
// forked child.
driver *running_driver(bool initialised) noexcept;

inline std::atomic<bool> uses_host_page_tables = false;

std::uint64_t this_thread() noexcept;
// Retires the calling thread's per-thread streams when the thread ends.
void watch_thread_end() noexcept;
void enter_host_function(bool inside) noexcept;
bool in_host_function() noexcept;

inline constexpr int greatest_priority = -5; // as on the H200; least is 0

// device.cpp
device &find_device(driver &cu, CUdevice ordinal); // rejects an invalid ordinal

// context.cpp
context &current_context(driver &cu); // rejects the call if no context is current
const context *find_current_context(driver &cu);
void destroy_context(driver &cu, context &gone);

// stream.cpp
stream &find_stream(driver &cu, CUstream handle);
stream &stream_of_synchronous_call(driver &cu); // rejects the call if it would join a capture
void retire_streams_of_thread(driver &cu, std::uint64_t thread);
operation_ptr enqueue(driver &cu, stream &on, work what, operations also_after = {}); // null under capture
operations work_of(const context &all);
operations work_before(const stream &next); // the work that an operation enqueued now on this stream must wait for
void note_frees_before(stream &next);       // same for frees: adds them to next.after

// capture.cpp
void refuse_if_capture_forbids(driver &cu); // for calls that are unsafe during a capture: allocating, freeing, waiting
void refuse_if_legacy_would_join_capture(const context &of);
void add_to_capture(stream &on, work what);
void end_capture(driver &cu, capture &over);
[[noreturn]] void invalidate(capture &broken, CUresult result);

// peers.cpp
bool are_linked(const driver &cu, int device, int peer); // also true for a device with itself
bool has_peer_access(const context &from, CUcontext to);
bool can_reach(const context &from, const allocation &memory);
bool loses_accesses(const driver &cu, const context &from, const allocation &memory); // they succeed and move no bytes

// memory.cpp
const allocation *find_allocation(const driver &cu, std::uintptr_t address);
const allocation *find_told_of(const driver &cu, std::uintptr_t address); // memory that programs can query and free
const allocation *find_overlapping(const driver &cu, std::uintptr_t address, std::size_t size);
void release(driver &cu, std::map<std::uintptr_t, allocation>::iterator gone);
void release(driver &cu, const allocation &memory); // not for memory of pools and graphs

// pools.cpp
void create_default_pools(driver &cu);
pool &find_pool(driver &cu, CUmemoryPool handle);
pool &add_pool(driver &cu, CUmemLocation at);

// pool_memory.cpp
std::size_t rounded_size(const allocation &memory);      // as pools count it
heap &memory_below(driver &cu, const CUmemLocation &at); // the heap that pools and graphs take memory from
void free_to_pool(driver &cu, const allocation &memory); // memory that no work uses any more
void collect_frees(driver &cu);                          // handles frees that have completed on the devices
void release_unused_memory(driver &cu);                  // of all pools, regardless of thresholds

// imports.cpp
std::uint32_t publish(driver &cu, shared_kind kind, int device = 0); // returns the slot
std::uint32_t publish(driver &cu, shared_kind kind, const allocation &memory, std::uint64_t pool = 0);
void no_longer_shared(driver &cu, const allocation &memory);
std::shared_ptr<shared_process> find_process(driver &cu, const shared_name &name); // null if it is gone
// Maps the memory that a slot names. `like` gives the other fields of the allocation, including its device.
std::uintptr_t import_memory(driver &cu, const std::shared_ptr<shared_process> &from, const shared_slot &what,
                             allocation like);
void forget_unused_processes(driver &cu);
void end_import(driver &cu, const allocation &gone);

// graph_memory.cpp
std::uintptr_t allocate_in_capture(driver &cu, stream &on, const pool &like, std::size_t bytes);
void free_in_capture(driver &cu, stream &on, const allocation &memory);
void require_launchable(const graph &runs, const stream &on, bool frees_on_launch);
void note_memory_of_launch(driver &cu, const graph &launched, const stream &on);
void collect_graph_memory(driver &cu); // frees memory that neither a graph nor the program uses any more

// Waits, like frees, until nothing runs on these devices. `submission` stays locked and `state` is released, so only
// queries run meanwhile.
void wait_for_devices(driver &cu, std::uint64_t devices);

enum class entry_kind { call, query };

// Runs `body` with the locks held. `body` returns nothing, a CUresult, or work to wait for without the locks.
template <entry_kind kind = entry_kind::call, class Body> CUresult enter(Body &&body) noexcept {
    if (in_host_function()) return CUDA_ERROR_NOT_PERMITTED;
    driver *const cu = running_driver(true);
    if (!cu) return CUDA_ERROR_NOT_INITIALIZED;
    try {
        std::unique_lock submission(cu->submission, std::defer_lock);
        if constexpr (kind == entry_kind::call) submission.lock();
        std::unique_lock state(cu->state);
        using returned = std::invoke_result_t<Body &, driver &>;
        if constexpr (std::is_void_v<returned>) {
            body(*cu);
        } else if constexpr (std::is_same_v<returned, CUresult>) {
            return body(*cu);
        } else {
            const auto pending = body(*cu); // one operation or several
            const context *const current = find_current_context(*cu);
            const auto broken = current ? current->broken : nullptr;
            state.unlock();
            submission.unlock();
            cu->engine.wait(pending);
            if (broken) return broken->result();
        }
        return CUDA_SUCCESS;
    } catch (const refusal &why) {
        return why.result;
    } catch (const std::bad_alloc &) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    } catch (const std::system_error &) { // no thread could be started
        return CUDA_ERROR_OPERATING_SYSTEM;
    } catch (...) {
        return CUDA_ERROR_UNKNOWN;
    }
}

// For queries, which return while a free in another thread waits for running work (docs/driver.md). `body` may add and
// remove only per-thread streams.
template <class Body> CUresult enter_query(Body &&body) noexcept { return enter<entry_kind::query>(body); }

// For calls that wait for a stream, an event or a context: afterwards pools release memory above their thresholds.
void after_synchronising(driver &cu);
template <class Body> CUresult enter_to_synchronise(Body &&body) noexcept {
    const CUresult result = enter(body);
    return result == CUDA_SUCCESS ? enter([](driver &cu) { after_synchronising(cu); }) : result;
}

// For calls that need a current context.
template <class Body> CUresult enter_context(Body &&body) noexcept {
    return enter([&](driver &cu) { return body(cu, current_context(cu)); });
}

} // namespace ferry::softdriver
