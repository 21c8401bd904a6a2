// What calls wait for: the classes of the label Blocking (docs/contract.md, "Classes of blocking"). The classes come from
// ferry.json. Each function has one row with a call of it. The tests compare the rows with the classes:
// - by the driver calls that they make, which depends on no timing;
// - while a free in another thread holds the driver's lock;
// - behind a blocked stream;
// - at the first call of an instance.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <future>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#if defined(__linux__)
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#endif

#include "ferry/ferry_file.h"
#include "support/counted_test.h"
#include "support/gate.h"
#include "support/how.h"
#include "support/piece_lists.h"
#include "support/raw_objects.h"
#include "support/second_process.h"
#include "support/stuck_pages.h"
#include "support/system.h"
#include "support/temporary_file.h"
#include "support/waiting_free.h"

namespace ferry::test {
namespace {

using namespace std::chrono_literals;

enum class blocking_class { none, driver_lock, first_use, stream, device };

struct classified {
    const char *name;
    blocking_class of;
};
constexpr classified functions[] = {
#define FERRY_BLOCKING_CLASS(name, of) {#name, blocking_class::of},
#include "blocking_classes.inc"
#undef FERRY_BLOCKING_CLASS
};

// These queries return while a free in another thread waits (docs/driver.md, "Frees").
constexpr const char *queries[] = {"cuCtxGetCurrent",     "cuCtxGetId",       "cuCtxPopCurrent",
                                   "cuCtxPushCurrent",    "cuEventQuery",     "cuPointerGetAttributes",
                                   "cuStreamGetCtx",      "cuStreamGetFlags", "cuStreamGetId",
                                   "cuStreamIsCapturing", "cuStreamQuery",    "cuThreadExchangeStreamCaptureMode"};
// These calls take milliseconds. A call of ferry of the class driver_lock makes none of them.
constexpr const char *preparations[] = {"cuCtxSynchronize",    "cuDevicePrimaryCtxRetain", "cuEventSynchronize",
                                        "cuKernelGetFunction", "cuLibraryLoadData",        "cuMemAlloc",
                                        "cuMemAllocHost",      "cuMemHostAlloc",           "cuMemHostRegister"};
// These calls wait for work. Only calls of the classes stream and device make them.
constexpr const char *waits[] = {"cuArrayDestroy",     "cuCtxSynchronize", "cuEventSynchronize",
                                 "cuMemFree",          "cuMemFreeHost",    "cuMemHostUnregister",
                                 "cuMemPoolTrimTo",    "cuMemPoolDestroy", "cuMipmappedArrayDestroy",
                                 "cuStreamSynchronize"};

// These calls may wait for the device. Only calls of the class device make them.
constexpr const char *may_wait[] = {"cuExternalMemoryGetMappedMipmappedArray",
                                    "cuImportExternalMemory",
                                    "cuMemAllocManaged",
                                    "cuMemPoolCreate",
                                    "cuMemPoolDestroy",
                                    "cuMemPoolTrimTo"};

constexpr std::uint64_t size = 4096, large = std::uint64_t{4} << 20;

// The limit of a pinned pool. A block of this size needs what free blocks of other sizes take.
constexpr std::uint64_t whole_pool = std::uint64_t{64} << 10;

// A call, ready to be made once on any thread. Empty if the machine cannot make it.
using call = std::function<std::int32_t()>;

template <class Struct> Struct sized() {
    Struct made = {};
    made.struct_size = sizeof made;
    return made;
}

// Another process, which shares memory, a pool and an event with this process until it ends.
struct shared_objects {
    ferry_ipc_handle memory, other_memory, event, pool;
    std::int32_t has_pool;
};

FERRY_SECOND_PROCESS(shares_objects) {
    const instance_owner ferry = open_or_fail(options_under_test());
    shared_objects shared = {};
    for (ferry_ipc_handle *const handle : {&shared.memory, &shared.other_memory}) {
        std::uint64_t memory = 0;
        EXPECT_OK(ferry_device_alloc(ferry.get(), 0, size, &memory, nullptr));
        EXPECT_OK(ferry_ipc_export_memory(ferry.get(), memory, 0, handle, nullptr));
    }
    CUevent event = nullptr;
    EXPECT_OK(
        ferry_event_create(ferry.get(), 0, FERRY_EVENT_INTERPROCESS | FERRY_EVENT_DISABLE_TIMING, &event, nullptr));
    EXPECT_OK(ferry_ipc_export_event(ferry.get(), event, &shared.event, nullptr));
    auto desc = sized<ferry_pool_desc>();
    desc.handle_types = FERRY_HANDLE_POSIX_FD;
    CUmemoryPool pool = nullptr;
    std::int64_t descriptor = -1;
    shared.has_pool = ferry_pool_create(ferry.get(), &desc, &pool, nullptr) == FERRY_SUCCESS;
    if (shared.has_pool) {
        EXPECT_OK(ferry_ipc_export_pool(ferry.get(), pool, FERRY_HANDLE_POSIX_FD, &shared.pool, &descriptor, nullptr));
    }
    channel.send(shared);
    if (shared.has_pool) channel.send_descriptor(static_cast<int>(descriptor));
    channel.await_for_ever();
    return 0;
}

class other_process {
public:
    other_process() : shared(process_->receive<shared_objects>()) {
        if (shared.has_pool) descriptor = process_->receive_descriptor();
    }
    ~other_process() {
        if (shared.has_pool) close_descriptor(descriptor);
    }
    other_process(const other_process &) = delete;
    other_process &operator=(const other_process &) = delete;

private:
    second_process process_{"shares_objects"};

public:
    const shared_objects shared;
    int descriptor = -1;
};

// Started by the first row that needs it. It ends with the tests.
std::unique_ptr<other_process> the_other_process;
const other_process &other() {
    if (!the_other_process) the_other_process = std::make_unique<other_process>();
    return *the_other_process;
}

// A descriptor that the software driver takes for the memory or the semaphore of a graphics API, or -1.
int make_file(std::uint64_t bytes) {
#if defined(__linux__)
    if (!on_software_driver()) return -1;
    const int made = memfd_create("external", MFD_CLOEXEC);
    EXPECT_EQ(ftruncate(made, static_cast<off_t>(bytes)), 0);
    return made;
#else
    return static_cast<void>(bytes), -1;
#endif
}

ferry_external_memory_desc memory_of_file() {
    auto desc = sized<ferry_external_memory_desc>();
    desc.handle_type = FERRY_EXTERNAL_OPAQUE_FD;
    desc.handle = make_file(large);
    desc.size = large;
    return desc;
}

ferry_external_semaphore_desc semaphore_of_file() {
    auto desc = sized<ferry_external_semaphore_desc>();
    desc.handle_type = FERRY_SEMAPHORE_TIMELINE_FD;
    desc.handle = make_file(sizeof(std::uint64_t));
    return desc;
}

// What the rows use. Their objects end with it.
std::string some_file() {
    static const temporary_file file{bytes(size)};
    return file.path();
}

class scene {
public:
    scene(ferry_instance *instance, CUcontext context, CUstream on) : scene(instance, context, on, on) {}
    scene(ferry_instance *instance, CUcontext context, CUstream on, CUstream blocked)
        : ferry(instance), context(context), stream(on), blocked(blocked) {
        for (CUevent &one : events)
            EXPECT_OK(raw().cuEventCreate(&one, 0));
        for (CUevent one : events)
            EXPECT_OK(raw().cuEventRecord(one, stream));
        EXPECT_OK(raw().cuStreamSynchronize(stream));
    }
    ~scene() {
        EXPECT_OK(raw().cuStreamSynchronize(stream));
        while (!ends_.empty()) {
            ends_.back()();
            ends_.pop_back();
        }
        for (CUevent one : events)
            EXPECT_OK(raw().cuEventDestroy(one));
    }
    scene(const scene &) = delete;
    scene &operator=(const scene &) = delete;

    void at_end(std::function<void()> end) { ends_.push_back(std::move(end)); }
    // A variable that a call fills, and that lives until the end.
    template <class Value> std::shared_ptr<Value> variable() { return std::make_shared<Value>(); }

    std::uint64_t allocate(std::uint64_t bytes = size) const {
        std::uint64_t made = 0;
        EXPECT_OK(ferry_device_alloc(ferry, 0, bytes, &made, nullptr));
        return made;
    }
    void *allocate_host() const {
        void *made = nullptr;
        EXPECT_OK(allocate_pinned(ferry, size, 0, &made));
        return made;
    }
    CUarray make_array() const {
        CUarray made = nullptr;
        EXPECT_OK(ferry_array_create(ferry, 0, &image, &made, nullptr));
        return made;
    }
    CUmipmappedArray make_mipmapped() const {
        CUmipmappedArray made = nullptr;
        EXPECT_OK(ferry_mipmapped_array_create(ferry, 0, &image, 3, &made, nullptr));
        return made;
    }
    ferry_pinned_pool *make_pool(std::uint64_t max_size = 0) const {
        auto options = sized<ferry_pinned_pool_options>();
        options.max_size = max_size;
        ferry_pinned_pool *made = nullptr;
        EXPECT_OK(ferry_pinned_pool_create(ferry, &options, &made, nullptr));
        return made;
    }
    ferry_ticket *make_ticket() const {
        ferry_ticket *made = nullptr;
        EXPECT_OK(ferry_ticket_create(ferry, stream, &made, nullptr));
        return made;
    }
    ferry_ticket *make_file_ticket() {
        ferry_file *file = nullptr;
        EXPECT_OK(ferry_file_open(ferry, some_file().c_str(), nullptr, &file, nullptr));
        ferry_copy_desc copy = {};
        copy.destination.address = device();
        copy.width = size;
        ferry_place_file(&copy.source, file, 0);
        ferry_ticket *made = nullptr;
        EXPECT_OK(ferry_copy_async(ferry, &copy, nullptr, stream, &made, nullptr));
        ferry_file_close(file);
        return made;
    }
    CUgraph make_graph() {
        CUgraph made = nullptr;
        EXPECT_OK(raw().cuGraphCreate(&made, 0));
        at_end([made] { EXPECT_OK(raw().cuGraphDestroy(made)); });
        return made;
    }
    CUgraphExec instantiate(CUgraph graph) {
        CUgraphExec made = nullptr;
        EXPECT_OK(raw().cuGraphInstantiateWithFlags(&made, graph, 0));
        at_end([made] { EXPECT_OK(raw().cuGraphExecDestroy(made)); });
        return made;
    }
    // The only import of this memory: its close is the last.
    std::uint64_t import_memory() const {
        std::uint64_t made = 0;
        EXPECT_OK(ferry_ipc_import_memory(ferry, &other().shared.other_memory, &made, nullptr));
        return made;
    }
    // NULL if the driver takes only objects that a graphics API has exported.
    CUextMemory_st *import_external_memory() const {
        const auto desc = memory_of_file();
        CUextMemory_st *made = nullptr;
        if (desc.handle >= 0) {
            EXPECT_OK(ferry_external_memory_import(ferry, &desc, &made, nullptr));
        }
        return made;
    }
    CUextSemaphore_st *import_semaphore() const {
        const auto desc = semaphore_of_file();
        CUextSemaphore_st *made = nullptr;
        if (desc.handle >= 0) {
            EXPECT_OK(ferry_external_semaphore_import(ferry, &desc, &made, nullptr));
        }
        return made;
    }
    bool has_pools() const {
        auto info = sized<ferry_device_info>();
        EXPECT_OK(ferry_device_get_info(ferry, 0, &info, nullptr));
        return info.memory_pools != 0;
    }
    CUmemoryPool pool() const {
        CUmemoryPool found = nullptr;
        EXPECT_OK(ferry_pool_get_current(ferry, FERRY_LOCATION_DEVICE, 0, &found, nullptr));
        return found;
    }

    // Leaves memory behind which the next allocation must free. The instance keeps one byte of deferred frees at most.
    void leave_device_memory() const { EXPECT_OK(ferry_device_free_deferred(ferry, allocate(), stream, nullptr)); }
    void leave_host_memory() const { EXPECT_OK(ferry_host_free_deferred(ferry, allocate_host(), stream, nullptr)); }
    void free_at_end(const std::shared_ptr<std::uint64_t> &made) {
        at_end([this, made] { EXPECT_OK(ferry_device_free(ferry, *made, nullptr)); });
    }
    // A pool with free blocks.
    ferry_pinned_pool *make_used_pool(std::uint64_t max_size = 0) const {
        ferry_pinned_pool *const pool = make_pool(max_size);
        void *block = nullptr;
        EXPECT_OK(ferry_pinned_pool_alloc(pool, size, &block, nullptr));
        EXPECT_OK(ferry_pinned_pool_free(pool, block, nullptr));
        return pool;
    }
    // Makes work of another context wait for the blocked stream.
    void let_wait(CUcontext other) const {
        EXPECT_OK(raw().cuEventRecord(events[0], blocked));
        EXPECT_OK(raw().cuCtxPushCurrent(other));
        CUstream waiting = nullptr;
        EXPECT_OK(raw().cuStreamCreate(&waiting, CU_STREAM_NON_BLOCKING));
        EXPECT_OK(raw().cuStreamWaitEvent(waiting, events[0], 0));
        EXPECT_OK(raw().cuCtxPopCurrent(nullptr));
    }
    CUmemoryPool make_driver_pool(std::uint32_t handle_types) {
        auto desc = sized<ferry_pool_desc>();
        desc.handle_types = handle_types;
        CUmemoryPool made = nullptr;
        EXPECT_OK(ferry_pool_create(ferry, &desc, &made, nullptr));
        return made;
    }

    static constexpr ferry_array_desc image = {.struct_size = sizeof(ferry_array_desc),
                                               .format = FERRY_FORMAT_UINT8,
                                               .channels = 4,
                                               .flags = 0,
                                               .width = 64,
                                               .height = 64,
                                               .depth = 0};
    ferry_instance *const ferry;
    const CUcontext context;
    const CUstream stream;
    const CUstream blocked; // for work that a call of the class device waits for
    CUevent events[2] = {};
    const device_memory there{2 * large};
    const pinned_memory here{2 * large};
    bytes pageable = bytes(2 * large);

    std::uint64_t device() const { return there.address; }
    std::uint64_t host() const { return reinterpret_cast<std::uintptr_t>(here.data()); }
    std::uint64_t pages() const { return reinterpret_cast<std::uintptr_t>(pageable.data()); }

private:
    std::vector<std::function<void()>> ends_;
};

// Narrow rows, which a kernel copies if it may.
ferry_copy_desc narrow_rows(const scene &at) {
    ferry_copy_desc copy = {};
    ferry_place_host_pitched(&copy.source, at.here.data(), 64, 0);
    ferry_place_device_pitched(&copy.destination, 0, at.device(), 64, 0);
    copy.width = 16;
    copy.height = 1024;
    return copy;
}

// Words of 4 bytes, whose two axes change places.
ferry_nest transposed(std::uint64_t destination, std::uint64_t source) {
    constexpr std::uint64_t words = 16;
    ferry_nest nest = {};
    ferry_place_any(&nest.source.place, source);
    ferry_place_any(&nest.destination.place, destination);
    nest.width = 4;
    nest.axes = 2;
    for (ferry_nest_end *const end : {&nest.source, &nest.destination})
        end->axes[0].count = end->axes[1].count = words;
    nest.source.axes[0].stride = nest.destination.axes[1].stride = 4;
    nest.source.axes[1].stride = nest.destination.axes[0].stride = 4 * words;
    return nest;
}

ferry_copy_desc contiguous(std::uint64_t destination, std::uint64_t source, std::uint64_t bytes) {
    ferry_copy_desc copy = {};
    ferry_place_any(&copy.source, source);
    ferry_place_any(&copy.destination, destination);
    copy.width = bytes;
    return copy;
}

ferry_fill_desc fill_of(const scene &at) {
    ferry_fill_desc fill = {};
    ferry_place_device(&fill.destination, 0, at.device());
    fill.width = size;
    fill.pattern_size = 16; // needs a kernel
    fill.pattern[0] = 1;
    return fill;
}

// A fill that the driver makes.
ferry_fill_desc short_fill_of(const scene &at) {
    ferry_fill_desc fill = fill_of(at);
    fill.pattern_size = 4;
    return fill;
}

// A batch with a table on the device.
ferry_prepared *prepare_batch(scene &at) {
    const std::uint64_t destination = at.device(), source = at.host(), bytes = 64;
    ferry_prepared *made = nullptr;
    EXPECT_OK(ferry_prepared_create_pieces(at.ferry, in_arrays(&destination, &source, &bytes, 1), by_kernel | updatable,
                                           at.stream, &made, nullptr));
    return made;
}

// Fills a struct about the current pool.
template <class Struct, auto fill> call query_pool(scene &at) {
    if (!at.has_pools()) return {};
    return [&at, pool = at.pool()] {
        auto found = sized<Struct>();
        return fill(at.ferry, pool, &found, nullptr);
    };
}

template <auto find> call find_pool(scene &at) {
    if (!at.has_pools()) return {};
    return [&at] {
        CUmemoryPool found = nullptr;
        return find(at.ferry, FERRY_LOCATION_DEVICE, 0, &found, nullptr);
    };
}

struct row {
    const char *name;
    call (*make)(scene &at);
};

constexpr std::int32_t done = FERRY_SUCCESS;

// Calls that must not wait behind the stream, by the name of their function.
const row rows[] = {
    // Values without a driver call.
    {"ferry_version", [](scene &) -> call { return [] { return ferry_version() > 0 ? done : -1; }; }},
    {"ferry_status_name", [](scene &) -> call { return [] { return ferry_status_name(-1) ? done : -1; }; }},
    {"ferry_status_text", [](scene &) -> call { return [] { return ferry_status_text(-1) ? done : -1; }; }},
    {"ferry_status_traits", [](scene &) -> call { return [] { return ferry_status_traits(-1), done; }; }},
    {"ferry_place_any", [](scene &) -> call { return [] { return ferry_place_any(nullptr, 0), done; }; }},
    {"ferry_array_desc_get_footprint",
     [](scene &) -> call {
         return [] {
             std::uint64_t bytes = 0;
             return ferry_array_desc_get_footprint(&scene::image, 0, 0, 0, nullptr, nullptr, &bytes, nullptr);
         };
     }},
    {"ferry_place_file", [](scene &) -> call { return [] { return ferry_place_file(nullptr, nullptr, 0), done; }; }},
    {"ferry_place_file_pitched",
     [](scene &) -> call { return [] { return ferry_place_file_pitched(nullptr, nullptr, 0, 0, 0), done; }; }},
    {"ferry_place_host", [](scene &) -> call { return [] { return ferry_place_host(nullptr, nullptr), done; }; }},
    {"ferry_place_host_pitched",
     [](scene &) -> call { return [] { return ferry_place_host_pitched(nullptr, nullptr, 0, 0), done; }; }},
    {"ferry_place_device", [](scene &) -> call { return [] { return ferry_place_device(nullptr, 0, 0), done; }; }},
    {"ferry_place_device_pitched",
     [](scene &) -> call { return [] { return ferry_place_device_pitched(nullptr, 0, 0, 0, 0), done; }; }},
    {"ferry_place_array", [](scene &) -> call { return [] { return ferry_place_array(nullptr, 0, nullptr), done; }; }},
    {"ferry_place_array_layer",
     [](scene &) -> call { return [] { return ferry_place_array_layer(nullptr, 0, nullptr, 0), done; }; }},
    {"ferry_copy_desc_set",
     [](scene &) -> call { return [] { return ferry_copy_desc_set(nullptr, nullptr, nullptr, 1, 1, 1), done; }; }},
    {"ferry_piece_list_set",
     [](scene &) -> call { return [] { return ferry_piece_list_set(nullptr, nullptr, 0), done; }; }},
    {"ferry_piece_list_set_arrays",
     [](scene &) -> call {
         return [] { return ferry_piece_list_set_arrays(nullptr, nullptr, nullptr, nullptr, 0), done; };
     }},
    {"ferry_fill_desc_init",
     [](scene &) -> call { return [] { return ferry_fill_desc_init(nullptr, nullptr, 1, 1, 1, nullptr, 0), done; }; }},
    {"ferry_obstacle_text", [](scene &) -> call { return [] { return ferry_obstacle_text(1) ? done : -1; }; }},
    {"ferry_explanation_format",
     [](scene &) -> call {
         return [] {
             const auto explanation = sized<ferry_explanation>();
             return ferry_explanation_format(&explanation, nullptr, 0) ? done : -1;
         };
     }},
    {"ferry_batch_explanation_format",
     [](scene &) -> call {
         return [] {
             const auto explanation = sized<ferry_batch_explanation>();
             return ferry_batch_explanation_format(&explanation, nullptr, 0) ? done : -1;
         };
     }},
    {"ferry_error_format",
     [](scene &) -> call {
         return [] {
             const ferry_error_info error = new_error();
             return ferry_error_format(&error, nullptr, 0) ? done : -1;
         };
     }},
    {"ferry_instance_get_report",
     [](scene &at) -> call {
         return [&] {
             auto report = sized<ferry_report>();
             return ferry_instance_get_report(at.ferry, &report, nullptr);
         };
     }},
    {"ferry_instance_get_missing_entry_point",
     [](scene &at) -> call { return [&] { return ferry_instance_get_missing_entry_point(at.ferry, 0), done; }; }},
    {"ferry_instance_get_proc",
     [](scene &at) -> call { return [&] { return ferry_instance_get_proc(at.ferry, "cuInit", 12000) ? done : -1; }; }},
    {"ferry_device_get_info",
     [](scene &at) -> call {
         return [&] {
             auto info = sized<ferry_device_info>();
             return ferry_device_get_info(at.ferry, 0, &info, nullptr);
         };
     }},
    {"ferry_device_get_counters",
     [](scene &at) -> call {
         return [&] {
             auto counters = sized<ferry_device_counters>();
             return ferry_device_get_counters(at.ferry, 0, &counters, nullptr);
         };
     }},
    {"ferry_device_find",
     [](scene &at) -> call {
         auto info = sized<ferry_device_info>();
         EXPECT_OK(ferry_device_get_info(at.ferry, 0, &info, nullptr));
         return [&at, info] {
             std::int32_t found = -1;
             return ferry_device_find(at.ferry, info.uuid, nullptr, &found, nullptr);
         };
     }},
    {"ferry_profile_save",
     [](scene &at) -> call {
         return [&] {
             std::uint64_t needed = 0;
             return ferry_profile_save(at.ferry, 0, nullptr, 0, &needed, nullptr);
         };
     }},
    {"ferry_profile_load",
     [](scene &at) -> call {
         std::string text(16384, '\0');
         EXPECT_OK(ferry_profile_save(at.ferry, 0, text.data(), text.size(), nullptr, nullptr));
         text.resize(text.find('\0'));
         return [&at, text] { return ferry_profile_load(at.ferry, text.data(), text.size(), nullptr); };
     }},
    {"ferry_instance_get_usage",
     [](scene &at) -> call {
         return [&] {
             auto usage = sized<ferry_usage>();
             return ferry_instance_get_usage(at.ferry, &usage, nullptr);
         };
     }},
    {"ferry_staging_get_info",
     [](scene &at) -> call {
         return [&] {
             auto info = sized<ferry_staging_info>();
             return ferry_staging_get_info(at.ferry, &info, nullptr);
         };
     }},

    // Refused handles: these two make the same calls for any handle.
    {"ferry_ipc_get_info",
     [](scene &at) -> call {
         return [&] {
             const ferry_ipc_handle handle = {};
             auto info = sized<ferry_ipc_info>();
             const std::int32_t status = ferry_ipc_get_info(at.ferry, &handle, &info, nullptr);
             return status == FERRY_ERROR_HANDLE ? done : status;
         };
     }},
    {"ferry_external_memory_get_address",
     [](scene &at) -> call {
         return [&] {
             auto *const handle = reinterpret_cast<CUextMemory_st *>(&at);
             std::uint64_t address = 0;
             const std::int32_t status =
                 ferry_external_memory_get_address(at.ferry, handle, 0, size, &address, nullptr);
             return status == FERRY_ERROR_HANDLE ? done : status;
         };
     }},

    // Tickets.
    {"ferry_ticket_create",
     [](scene &at) -> call {
         const auto ticket = at.variable<ferry_ticket *>();
         at.at_end([ticket] { EXPECT_OK(ferry_ticket_release(*ticket, nullptr)); });
         return [&at, ticket] { return ferry_ticket_create(at.ferry, at.stream, ticket.get(), nullptr); };
     }},
    {"ferry_ticket_get_info",
     [](scene &at) -> call {
         ferry_ticket *const ticket = at.make_ticket();
         at.at_end([ticket] { EXPECT_OK(ferry_ticket_release(ticket, nullptr)); });
         return [ticket] {
             auto info = sized<ferry_ticket_info>();
             return ferry_ticket_get_info(ticket, &info, nullptr);
         };
     }},
    {"ferry_ticket_wait_async",
     [](scene &at) -> call {
         ferry_ticket *const ticket = at.make_ticket();
         at.at_end([ticket] { EXPECT_OK(ferry_ticket_release(ticket, nullptr)); });
         return [&at, ticket] { return ferry_ticket_wait_async(ticket, at.stream, nullptr); };
     }},
    {"ferry_ticket_release",
     [](scene &at) -> call {
         ferry_ticket *const ticket = at.make_ticket();
         return [ticket] { return ferry_ticket_release(ticket, nullptr); };
     }},

    // Copies that the driver makes from pinned memory, fills, explanations. The copies that wait have a test of their own.
    {"ferry_copy_async",
     [](scene &at) -> call {
         return [&] {
             const ferry_copy_desc copy = contiguous(at.device(), at.host(), large);
             return ferry_copy_async(at.ferry, &copy, nullptr, at.stream, nullptr, nullptr);
         };
     }},
    {"ferry_copy_bytes_async",
     [](scene &at) -> call {
         return [&] {
             return ferry_copy_bytes_async(at.ferry, at.host(), at.device(), large, nullptr, at.stream, nullptr,
                                           nullptr);
         };
     }},
    {"ferry_copy_batch_async",
     [](scene &at) -> call {
         return [&] {
             const ferry_copy_desc copies[] = {narrow_rows(at), contiguous(at.device() + large, at.host() + large, 64)};
             return ferry_copy_batch_async(at.ferry, copies, 2, nullptr, at.stream, nullptr, nullptr);
         };
     }},
    {"ferry_copy_pieces_async",
     [](scene &at) -> call {
         return [&] {
             const std::uint64_t to[] = {at.device(), at.device() + 256}, from[] = {at.host(), at.host() + 256},
                                 sizes[] = {64, 64};
             return ferry_copy_pieces_async(at.ferry, in_arrays(to, from, sizes, 2), nullptr, at.stream, nullptr,
                                            nullptr);
         };
     }},
    {"ferry_copy_nests_async",
     [](scene &at) -> call {
         return [&] {
             const ferry_nest nest = transposed(at.device(), at.host());
             return ferry_copy_nests_async(at.ferry, &nest, 1, nullptr, at.stream, nullptr, nullptr);
         };
     }},
    {"ferry_prepared_launch",
     [](scene &at) -> call {
         ferry_prepared *const batch = prepare_batch(at);
         at.at_end([batch] { EXPECT_OK(ferry_prepared_destroy(batch, nullptr)); });
         return [&at, batch] { return ferry_prepared_launch(batch, nullptr, at.stream, nullptr, nullptr); };
     }},
    {"ferry_prepared_set_addresses",
     [](scene &at) -> call {
         ferry_prepared *const batch = prepare_batch(at);
         at.at_end([batch] { EXPECT_OK(ferry_prepared_destroy(batch, nullptr)); });
         return [&at, batch] {
             const std::uint64_t to = at.device() + 256, from = at.host() + 256;
             return ferry_prepared_set_addresses(batch, in_arrays(&to, &from, nullptr, 1), at.stream, nullptr);
         };
     }},
    {"ferry_prepared_destroy_deferred",
     [](scene &at) -> call {
         ferry_prepared *const batch = prepare_batch(at);
         return [&at, batch] { return ferry_prepared_destroy_deferred(batch, at.stream, nullptr); };
     }},
    {"ferry_fill_async",
     [](scene &at) -> call {
         return [&] {
             const ferry_fill_desc fill = fill_of(at);
             return ferry_fill_async(at.ferry, &fill, nullptr, at.stream, nullptr, nullptr);
         };
     }},
    {"ferry_copy_explain",
     [](scene &at) -> call {
         return [&] {
             const ferry_copy_desc copy = narrow_rows(at);
             auto explanation = sized<ferry_explanation>();
             return ferry_copy_explain(at.ferry, &copy, by_kernel, &explanation, nullptr);
         };
     }},
    {"ferry_copy_explain_async",
     [](scene &at) -> call {
         return [&] {
             const ferry_copy_desc copy = contiguous(at.device(), at.pages(), large);
             auto explanation = sized<ferry_explanation>();
             return ferry_copy_explain_async(at.ferry, &copy, by_staging, at.stream, &explanation, nullptr);
         };
     }},
    {"ferry_fill_explain",
     [](scene &at) -> call {
         return [&] {
             const ferry_fill_desc fill = fill_of(at);
             auto explanation = sized<ferry_explanation>();
             return ferry_fill_explain(at.ferry, &fill, nullptr, &explanation, nullptr);
         };
     }},
    {"ferry_fill_explain_async",
     [](scene &at) -> call {
         return [&] {
             const ferry_fill_desc fill = fill_of(at);
             auto explanation = sized<ferry_explanation>();
             return ferry_fill_explain_async(at.ferry, &fill, nullptr, at.stream, &explanation, nullptr);
         };
     }},
    {"ferry_copy_batch_explain_async",
     [](scene &at) -> call {
         return [&] {
             const ferry_copy_desc copy = narrow_rows(at);
             auto explanation = sized<ferry_batch_explanation>();
             return ferry_copy_batch_explain_async(at.ferry, &copy, 1, by_kernel, at.stream, &explanation, nullptr);
         };
     }},
    {"ferry_copy_nest_explain_async",
     [](scene &at) -> call {
         return [&] {
             const ferry_nest nest = transposed(at.device(), at.host());
             auto explanation = sized<ferry_explanation>();
             return ferry_copy_nest_explain_async(at.ferry, &nest, by_kernel, at.stream, &explanation, nullptr);
         };
     }},
    {"ferry_copy_pieces_explain_async",
     [](scene &at) -> call {
         return [&] {
             const std::uint64_t to = at.device(), from = at.host(), bytes = 64;
             auto explanation = sized<ferry_batch_explanation>();
             return ferry_copy_pieces_explain_async(at.ferry, in_arrays(&to, &from, &bytes, 1), by_kernel, at.stream,
                                                    &explanation, nullptr);
         };
     }},

    // Contexts, streams, events.
    {"ferry_context_retain_primary",
     [](scene &at) -> call {
         at.at_end([&] { EXPECT_OK(ferry_context_release_primary(at.ferry, 0, nullptr)); });
         return [&] {
             CUcontext made = nullptr;
             return ferry_context_retain_primary(at.ferry, 0, &made, nullptr);
         };
     }},
    {"ferry_context_create",
     [](scene &at) -> call {
         const auto made = at.variable<CUcontext>();
         at.at_end([&at, made] { EXPECT_OK(ferry_context_destroy(at.ferry, *made, nullptr)); });
         return [&at, made] { return ferry_context_create(at.ferry, 0, 0, made.get(), nullptr); };
     }},
    {"ferry_context_adopt",
     [](scene &at) -> call {
         if (device_count() < 2) return {}; // the call then needs only queries
         CUcontext made = nullptr;
         EXPECT_OK(ferry_context_create(at.ferry, 0, 0, &made, nullptr));
         at.at_end([&at, made] { EXPECT_OK(ferry_context_destroy(at.ferry, made, nullptr)); });
         return [&at, made] {
             const std::int32_t status = ferry_context_adopt(at.ferry, 0, made, nullptr);
             return status ? status : ferry_context_adopt(at.ferry, 0, nullptr, nullptr);
         };
     }},
    {"ferry_context_push",
     [](scene &at) -> call {
         return [&] {
             const std::int32_t status = ferry_context_push(at.ferry, 0, nullptr, nullptr);
             if (!status) raw().cuCtxPopCurrent(nullptr);
             return status;
         };
     }},
    {"ferry_context_pop",
     [](scene &at) -> call {
         return [&] {
             raw().cuCtxPushCurrent(at.context);
             return ferry_context_pop(at.ferry, nullptr, nullptr);
         };
     }},
    {"ferry_context_get_current",
     [](scene &at) -> call {
         return [&] {
             CUcontext found = nullptr;
             return ferry_context_get_current(at.ferry, &found, nullptr);
         };
     }},
    {"ferry_stream_create",
     [](scene &at) -> call {
         const auto made = at.variable<CUstream>();
         at.at_end([made] { EXPECT_OK(raw().cuStreamDestroy(*made)); });
         return [&at, made] {
             return ferry_stream_create(at.ferry, 0, FERRY_STREAM_NON_BLOCKING, 0, made.get(), nullptr);
         };
     }},
    {"ferry_stream_destroy",
     [](scene &at) -> call {
         CUstream made = nullptr;
         EXPECT_OK(raw().cuStreamCreate(&made, CU_STREAM_NON_BLOCKING));
         return [&at, made] { return ferry_stream_destroy(at.ferry, made, nullptr); };
     }},
    {"ferry_stream_query",
     [](scene &at) -> call {
         return [&] {
             std::int32_t is_done = 0;
             return ferry_stream_query(at.ferry, at.stream, &is_done, nullptr);
         };
     }},
    {"ferry_stream_notify",
     [](scene &at) -> call {
         return [&] {
             return ferry_stream_notify(
                 at.ferry, at.stream, [](void *, std::int32_t) {}, nullptr, nullptr);
         };
     }},
    {"ferry_stream_wait_event",
     [](scene &at) -> call {
         return [&] { return ferry_stream_wait_event(at.ferry, at.stream, at.events[0], nullptr); };
     }},
    {"ferry_event_create",
     [](scene &at) -> call {
         const auto made = at.variable<CUevent>();
         at.at_end([made] { EXPECT_OK(raw().cuEventDestroy(*made)); });
         return [&at, made] { return ferry_event_create(at.ferry, 0, 0, made.get(), nullptr); };
     }},
    {"ferry_event_destroy",
     [](scene &at) -> call {
         CUevent made = nullptr;
         EXPECT_OK(raw().cuEventCreate(&made, 0));
         return [&at, made] { return ferry_event_destroy(at.ferry, made, nullptr); };
     }},
    {"ferry_event_record",
     [](scene &at) -> call {
         const auto made = at.variable<CUevent>();
         EXPECT_OK(raw().cuEventCreate(made.get(), 0));
         at.at_end([made] { EXPECT_OK(raw().cuEventDestroy(*made)); });
         return [&at, made] { return ferry_event_record(at.ferry, *made, at.stream, nullptr); };
     }},
    {"ferry_event_query",
     [](scene &at) -> call {
         return [&] {
             std::int32_t is_done = 0;
             return ferry_event_query(at.ferry, at.events[0], &is_done, nullptr);
         };
     }},
    {"ferry_event_elapsed_time",
     [](scene &at) -> call {
         return [&] {
             float milliseconds = 0;
             return ferry_event_elapsed_time(at.ferry, at.events[0], at.events[1], &milliseconds, nullptr);
         };
     }},

    // Memory and arrays.
    {"ferry_device_free_deferred",
     [](scene &at) -> call {
         const std::uint64_t made = at.allocate();
         return [&at, made] { return ferry_device_free_deferred(at.ferry, made, at.stream, nullptr); };
     }},
    {"ferry_deferred_get_info",
     [](scene &at) -> call {
         return [&] {
             auto info = sized<ferry_deferred_info>();
             return ferry_deferred_get_info(at.ferry, 0, &info, nullptr);
         };
     }},
    {"ferry_device_get_memory",
     [](scene &at) -> call {
         return [&] {
             auto info = sized<ferry_device_memory_info>();
             return ferry_device_get_memory(at.ferry, 0, &info, nullptr);
         };
     }},
    {"ferry_host_free_deferred",
     [](scene &at) -> call {
         void *const made = at.allocate_host();
         return [&at, made] { return ferry_host_free_deferred(at.ferry, made, at.stream, nullptr); };
     }},
    {"ferry_host_unregister_deferred",
     [](scene &at) -> call {
         const auto pages = std::make_shared<mapped_memory>(std::size_t{1} << 16);
         EXPECT_OK(ferry_host_register(at.ferry, pages->data(), pages->size(), 0, nullptr));
         at.at_end([&at, pages] { EXPECT_OK(ferry_deferred_trim(at.ferry, FERRY_DEVICE_UNKNOWN, 0, nullptr)); });
         return [&at, pages] { return ferry_host_unregister_deferred(at.ferry, pages->data(), at.stream, nullptr); };
     }},
    {"ferry_address_get_info",
     [](scene &at) -> call {
         return [&] {
             auto info = sized<ferry_address_info>();
             return ferry_address_get_info(at.ferry, at.device(), &info, nullptr);
         };
     }},
    {"ferry_graph_add_copy",
     [](scene &at) -> call {
         if (!raw().cuGraphAddMemcpyNode) return {};
         const CUgraph graph = at.make_graph();
         return [&at, graph] {
             CUgraphNode node = nullptr;
             const ferry_copy_desc copy = contiguous(at.device(), at.host(), size);
             return ferry_graph_add_copy(at.ferry, graph, nullptr, 0, &copy, nullptr, &node, nullptr);
         };
     }},
    {"ferry_graph_add_fill",
     [](scene &at) -> call {
         if (!raw().cuGraphAddMemsetNode) return {};
         const CUgraph graph = at.make_graph();
         return [&at, graph] {
             CUgraphNode node = nullptr;
             const ferry_fill_desc fill = short_fill_of(at);
             return ferry_graph_add_fill(at.ferry, graph, nullptr, 0, &fill, nullptr, &node, nullptr);
         };
     }},
    {"ferry_graph_exec_set_copy",
     [](scene &at) -> call {
         if (!raw().cuGraphAddMemcpyNode) return {};
         const CUgraph graph = at.make_graph();
         CUgraphNode node = nullptr;
         const ferry_copy_desc copy = contiguous(at.device(), at.host(), size);
         EXPECT_OK(ferry_graph_add_copy(at.ferry, graph, nullptr, 0, &copy, nullptr, &node, nullptr));
         return [&at, node, executable = at.instantiate(graph)] {
             const ferry_copy_desc other = contiguous(at.device() + size, at.host(), size / 2);
             return ferry_graph_exec_set_copy(at.ferry, executable, node, &other, nullptr, nullptr);
         };
     }},
    {"ferry_graph_exec_set_fill",
     [](scene &at) -> call {
         if (!raw().cuGraphAddMemsetNode) return {};
         const CUgraph graph = at.make_graph();
         CUgraphNode node = nullptr;
         const ferry_fill_desc fill = short_fill_of(at);
         EXPECT_OK(ferry_graph_add_fill(at.ferry, graph, nullptr, 0, &fill, nullptr, &node, nullptr));
         return [&at, node, executable = at.instantiate(graph)] {
             const ferry_fill_desc other = short_fill_of(at);
             return ferry_graph_exec_set_fill(at.ferry, executable, node, &other, nullptr, nullptr);
         };
     }},
    {"ferry_file_open",
     [](scene &at) -> call {
         const auto made = at.variable<ferry_file *>();
         at.at_end([made] { ferry_file_close(*made); });
         return [&at, made] { return ferry_file_open(at.ferry, some_file().c_str(), nullptr, made.get(), nullptr); };
     }},
    {"ferry_file_open_descriptor",
     [](scene &at) -> call {
#if defined(__linux__)
         const int descriptor = open(some_file().c_str(), O_RDONLY | O_CLOEXEC);
         const auto made = at.variable<ferry_file *>();
         at.at_end([made, descriptor] {
             ferry_file_close(*made);
             close(descriptor);
         });
         return [&at, made, descriptor] {
             return ferry_file_open_descriptor(at.ferry, descriptor, nullptr, made.get(), nullptr);
         };
#else
         static_cast<void>(at);
         return {};
#endif
     }},
    {"ferry_file_close",
     [](scene &at) -> call {
         ferry_file *made = nullptr;
         EXPECT_OK(ferry_file_open(at.ferry, some_file().c_str(), nullptr, &made, nullptr));
         return [made] { return ferry_file_close(made), done; };
     }},
    {"ferry_file_get_info",
     [](scene &at) -> call {
         ferry_file *made = nullptr;
         EXPECT_OK(ferry_file_open(at.ferry, some_file().c_str(), nullptr, &made, nullptr));
         at.at_end([made] { ferry_file_close(made); });
         return [made] {
             ferry_file_info info = {};
             info.struct_size = sizeof info;
             return ferry_file_get_info(made, &info, nullptr);
         };
     }},
    {"ferry_ticket_cancel",
     [](scene &at) -> call {
         ferry_ticket *const ticket = at.make_file_ticket();
         at.at_end([ticket] { EXPECT_OK(ferry_ticket_release(ticket, nullptr)); });
         return [ticket] { return ferry_ticket_cancel(ticket, nullptr); };
     }},
    {"ferry_ticket_write_status",
     [](scene &at) -> call {
         ferry_ticket *const ticket = at.make_file_ticket();
         at.at_end([ticket] { EXPECT_OK(ferry_ticket_release(ticket, nullptr)); });
         return [&at, ticket] { return ferry_ticket_write_status(ticket, at.device(), at.stream, nullptr); };
     }},
    {"ferry_array_destroy_deferred",
     [](scene &at) -> call {
         CUarray const made = at.make_array();
         return [&at, made] { return ferry_array_destroy_deferred(at.ferry, made, at.stream, nullptr); };
     }},
    {"ferry_array_get_info",
     [](scene &at) -> call {
         CUarray const made = at.make_array();
         at.at_end([&at, made] { EXPECT_OK(ferry_array_destroy(at.ferry, made, nullptr)); });
         return [&at, made] {
             auto found = sized<ferry_array_desc>();
             return ferry_array_get_info(at.ferry, made, &found, nullptr, nullptr);
         };
     }},
    {"ferry_mipmapped_array_get_level",
     [](scene &at) -> call {
         CUmipmappedArray const made = at.make_mipmapped();
         at.at_end([&at, made] { EXPECT_OK(ferry_mipmapped_array_destroy(at.ferry, made, nullptr)); });
         return [&at, made] {
             CUarray level = nullptr;
             return ferry_mipmapped_array_get_level(at.ferry, made, 1, &level, nullptr);
         };
     }},
    {"ferry_mipmapped_array_destroy_deferred",
     [](scene &at) -> call {
         CUmipmappedArray const made = at.make_mipmapped();
         return [&at, made] { return ferry_mipmapped_array_destroy_deferred(at.ferry, made, at.stream, nullptr); };
     }},

    // Pinned pools.
    {"ferry_pinned_pool_create",
     [](scene &at) -> call {
         const auto made = at.variable<ferry_pinned_pool *>();
         at.at_end([made] { EXPECT_OK(ferry_pinned_pool_destroy(*made, nullptr)); });
         return [&at, made] { return ferry_pinned_pool_create(at.ferry, nullptr, made.get(), nullptr); };
     }},
    {"ferry_pool_destroy_deferred",
     [](scene &at) -> call {
         if (!at.has_pools()) return {};
         CUmemoryPool const pool = at.make_driver_pool(0);
         std::uint64_t memory = 0;
         EXPECT_OK(ferry_pool_alloc_async(at.ferry, pool, size, at.stream, &memory, nullptr));
         return [&at, pool, memory] {
             EXPECT_OK(ferry_device_free_async(at.ferry, memory, at.blocked, nullptr));
             return ferry_pool_destroy_deferred(at.ferry, pool, at.blocked, nullptr);
         };
     }},
    {"ferry_pinned_pool_destroy_deferred",
     [](scene &at) -> call {
         ferry_pinned_pool *const pool = at.make_pool();
         return [&at, pool] { return ferry_pinned_pool_destroy_deferred(pool, at.stream, nullptr); };
     }},
    {"ferry_pinned_pool_free",
     [](scene &at) -> call {
         ferry_pinned_pool *const pool = at.make_pool();
         void *block = nullptr;
         EXPECT_OK(ferry_pinned_pool_alloc(pool, size, &block, nullptr));
         at.at_end([pool] { EXPECT_OK(ferry_pinned_pool_destroy(pool, nullptr)); });
         return [pool, block] { return ferry_pinned_pool_free(pool, block, nullptr); };
     }},
    {"ferry_pinned_pool_free_async",
     [](scene &at) -> call {
         ferry_pinned_pool *const pool = at.make_pool();
         void *block = nullptr;
         EXPECT_OK(ferry_pinned_pool_alloc(pool, size, &block, nullptr));
         at.at_end([pool] { EXPECT_OK(ferry_pinned_pool_destroy(pool, nullptr)); });
         return [&at, pool, block] { return ferry_pinned_pool_free_async(pool, block, at.stream, nullptr); };
     }},
    {"ferry_pinned_pool_get_stats",
     [](scene &at) -> call {
         ferry_pinned_pool *const pool = at.make_pool();
         void *block = nullptr;
         EXPECT_OK(ferry_pinned_pool_alloc(pool, size, &block, nullptr));
         EXPECT_OK(ferry_pinned_pool_free_async(pool, block, at.stream, nullptr));
         at.at_end([pool] { EXPECT_OK(ferry_pinned_pool_destroy(pool, nullptr)); });
         return [pool] {
             auto stats = sized<ferry_pool_stats>();
             return ferry_pinned_pool_get_stats(pool, &stats, nullptr);
         };
     }},
    {"ferry_pinned_pool_reset_stats",
     [](scene &at) -> call {
         ferry_pinned_pool *const pool = at.make_pool();
         void *block = nullptr;
         EXPECT_OK(ferry_pinned_pool_alloc(pool, size, &block, nullptr));
         EXPECT_OK(ferry_pinned_pool_free_async(pool, block, at.stream, nullptr));
         at.at_end([pool] { EXPECT_OK(ferry_pinned_pool_destroy(pool, nullptr)); });
         return [pool] { return ferry_pinned_pool_reset_stats(pool, nullptr); };
     }},

    // The driver's pools.
    {"ferry_device_alloc_async",
     [](scene &at) -> call {
         if (!at.has_pools()) return {};
         const auto made = at.variable<std::uint64_t>();
         at.at_end([&at, made] { EXPECT_OK(ferry_device_free_async(at.ferry, *made, at.stream, nullptr)); });
         return [&at, made] { return ferry_device_alloc_async(at.ferry, 0, size, at.stream, made.get(), nullptr); };
     }},
    {"ferry_device_free_async",
     [](scene &at) -> call {
         if (!at.has_pools()) return {};
         std::uint64_t made = 0;
         EXPECT_OK(ferry_device_alloc_async(at.ferry, 0, size, at.stream, &made, nullptr));
         EXPECT_OK(raw().cuStreamSynchronize(at.stream));
         return [&at, made] { return ferry_device_free_async(at.ferry, made, at.stream, nullptr); };
     }},
    {"ferry_pool_alloc_async",
     [](scene &at) -> call {
         if (!at.has_pools()) return {};
         const auto made = at.variable<std::uint64_t>();
         CUmemoryPool const pool = at.pool();
         at.at_end([&at, made] { EXPECT_OK(ferry_device_free_async(at.ferry, *made, at.stream, nullptr)); });
         return
             [&at, made, pool] { return ferry_pool_alloc_async(at.ferry, pool, size, at.stream, made.get(), nullptr); };
     }},
    {"ferry_pool_get_default", find_pool<ferry_pool_get_default>},
    {"ferry_pool_get_current", find_pool<ferry_pool_get_current>},
    {"ferry_pool_set_current",
     [](scene &at) -> call {
         if (!at.has_pools()) return {};
         CUmemoryPool const pool = at.pool();
         return [&at, pool] { return ferry_pool_set_current(at.ferry, FERRY_LOCATION_DEVICE, 0, pool, nullptr); };
     }},
    {"ferry_pool_get_info", query_pool<ferry_pool_info, ferry_pool_get_info>},
    {"ferry_pool_get_attributes", query_pool<ferry_pool_attributes, ferry_pool_get_attributes>},
    {"ferry_pool_set_attributes",
     [](scene &at) -> call {
         if (!at.has_pools()) return {};
         CUmemoryPool const pool = at.pool();
         auto found = sized<ferry_pool_attributes>();
         EXPECT_OK(ferry_pool_get_attributes(at.ferry, pool, &found, nullptr));
         return [&at, pool, found] { return ferry_pool_set_attributes(at.ferry, pool, &found, nullptr); };
     }},
    {"ferry_pool_get_stats", query_pool<ferry_pool_stats, ferry_pool_get_stats>},
    {"ferry_pool_reset_stats",
     [](scene &at) -> call {
         if (!at.has_pools()) return {};
         CUmemoryPool const pool = at.pool();
         return [&at, pool] { return ferry_pool_reset_stats(at.ferry, pool, nullptr); };
     }},
    {"ferry_pool_get_access",
     [](scene &at) -> call {
         if (!at.has_pools()) return {};
         CUmemoryPool const pool = at.pool();
         return [&at, pool] {
             std::int32_t access = 0;
             return ferry_pool_get_access(at.ferry, pool, 0, &access, nullptr);
         };
     }},

    // Objects of another process. Their own exports need none.
    {"ferry_ipc_export_memory",
     [](scene &at) -> call {
         if (!has_second_process) return {};
         const std::uint64_t made = at.allocate();
         at.at_end([&at, made] { EXPECT_OK(ferry_device_free(at.ferry, made, nullptr)); });
         return [&at, made] {
             ferry_ipc_handle handle = {};
             return ferry_ipc_export_memory(at.ferry, made, 0, &handle, nullptr);
         };
     }},
    {"ferry_ipc_export_event",
     [](scene &at) -> call {
         if (!has_second_process) return {};
         CUevent made = nullptr;
         constexpr std::uint32_t flags = FERRY_EVENT_INTERPROCESS | FERRY_EVENT_DISABLE_TIMING;
         EXPECT_OK(ferry_event_create(at.ferry, 0, flags, &made, nullptr));
         at.at_end([&at, made] { EXPECT_OK(ferry_event_destroy(at.ferry, made, nullptr)); });
         return [&at, made] {
             ferry_ipc_handle handle = {};
             return ferry_ipc_export_event(at.ferry, made, &handle, nullptr);
         };
     }},
    {"ferry_ipc_export_pool",
     [](scene &at) -> call {
         if (!has_second_process || !other().shared.has_pool) return {};
         CUmemoryPool const pool = at.make_driver_pool(FERRY_HANDLE_POSIX_FD);
         at.at_end([&at, pool] { EXPECT_OK(ferry_pool_destroy(at.ferry, pool, nullptr)); });
         return [&at, pool] {
             ferry_ipc_handle handle = {};
             std::int64_t descriptor = -1;
             const std::int32_t status =
                 ferry_ipc_export_pool(at.ferry, pool, FERRY_HANDLE_POSIX_FD, &handle, &descriptor, nullptr);
             if (!status) close_descriptor(static_cast<int>(descriptor));
             return status;
         };
     }},
    {"ferry_ipc_import_memory",
     [](scene &at) -> call {
         if (!has_second_process) return {};
         const auto made = at.variable<std::uint64_t>();
         at.at_end([&at, made] { EXPECT_OK(ferry_ipc_close_memory(at.ferry, *made, nullptr, nullptr)); });
         return [&at, made, &shared = other().shared] {
             return ferry_ipc_import_memory(at.ferry, &shared.memory, made.get(), nullptr);
         };
     }},
    {"ferry_ipc_import_event",
     [](scene &at) -> call {
         if (!has_second_process) return {};
         const auto made = at.variable<CUevent>();
         at.at_end([&at, made] { EXPECT_OK(ferry_ipc_close_event(at.ferry, *made, nullptr)); });
         return [&at, made, &shared = other().shared] {
             return ferry_ipc_import_event(at.ferry, &shared.event, made.get(), nullptr);
         };
     }},
    // This row comes before the next row, whose imports stay open, because only the last close is deferred.
    {"ferry_ipc_close_pool_deferred",
     [](scene &at) -> call {
         if (!has_second_process || !other().shared.has_pool) return {};
         CUmemoryPool made = nullptr;
         EXPECT_OK(ferry_ipc_import_pool(at.ferry, &other().shared.pool, other().descriptor, &made, nullptr));
         return [&at, made] { return ferry_ipc_close_pool_deferred(at.ferry, made, at.stream, nullptr); };
     }},
    {"ferry_ipc_import_pool",
     [](scene &at) -> call {
         if (!has_second_process || !other().shared.has_pool) return {};
         const auto made = at.variable<CUmemoryPool>();
         at.at_end([&at, made] { EXPECT_OK(ferry_ipc_close_pool(at.ferry, *made, nullptr)); });
         return [&at, made, &from = other()] {
             return ferry_ipc_import_pool(at.ferry, &from.shared.pool, from.descriptor, made.get(), nullptr);
         };
     }},
    {"ferry_ipc_close_memory_deferred",
     [](scene &at) -> call {
         if (!has_second_process) return {};
         const std::uint64_t made = at.import_memory();
         return [&at, made] { return ferry_ipc_close_memory_deferred(at.ferry, made, at.stream, nullptr); };
     }},
    {"ferry_ipc_close_event",
     [](scene &at) -> call {
         if (!has_second_process) return {};
         CUevent made = nullptr;
         EXPECT_OK(ferry_ipc_import_event(at.ferry, &other().shared.event, &made, nullptr));
         return [&at, made] { return ferry_ipc_close_event(at.ferry, made, nullptr); };
     }},

    // Objects of a graphics API. The software driver takes files for them.
    {"ferry_external_memory_release_deferred",
     [](scene &at) -> call {
         CUextMemory_st *const made = at.import_external_memory();
         if (!made) return {};
         return [&at, made] { return ferry_external_memory_release_deferred(at.ferry, made, at.stream, nullptr); };
     }},
    {"ferry_external_semaphore_import",
     [](scene &at) -> call {
         const auto desc = semaphore_of_file();
         if (desc.handle < 0) return {};
         const auto made = at.variable<CUextSemaphore_st *>();
         at.at_end([&at, made] { EXPECT_OK(ferry_external_semaphore_release(at.ferry, *made, nullptr)); });
         return [&at, made, desc] { return ferry_external_semaphore_import(at.ferry, &desc, made.get(), nullptr); };
     }},
    {"ferry_external_semaphore_signal_async",
     [](scene &at) -> call {
         CUextSemaphore_st *const made = at.import_semaphore();
         if (!made) return {};
         at.at_end([&at, made] { EXPECT_OK(ferry_external_semaphore_release(at.ferry, made, nullptr)); });
         return [&at, made] { return ferry_external_semaphore_signal_async(at.ferry, made, 1, at.stream, nullptr); };
     }},
    {"ferry_external_semaphore_wait_async",
     [](scene &at) -> call {
         CUextSemaphore_st *const made = at.import_semaphore();
         if (!made) return {};
         at.at_end([&at, made] { EXPECT_OK(ferry_external_semaphore_release(at.ferry, made, nullptr)); });
         return [&at, made] { return ferry_external_semaphore_wait_async(at.ferry, made, 0, 0, at.stream, nullptr); };
     }},
    {"ferry_external_semaphore_release",
     [](scene &at) -> call {
         CUextSemaphore_st *const made = at.import_semaphore();
         if (!made) return {};
         return [&at, made] { return ferry_external_semaphore_release(at.ferry, made, nullptr); };
     }},
    {"ferry_external_semaphore_release_deferred",
     [](scene &at) -> call {
         CUextSemaphore_st *const made = at.import_semaphore();
         if (!made) return {};
         return [&at, made] { return ferry_external_semaphore_release_deferred(at.ferry, made, at.stream, nullptr); };
     }},

    {"ferry_array_get_plane",
     [](scene &at) -> call {
         constexpr ferry_array_desc planar = {sizeof planar, FERRY_FORMAT_NV12, 3, FERRY_ARRAY_VIDEO, 64, 36, 0};
         CUarray made = nullptr;
         if (ferry_array_create(at.ferry, 0, &planar, &made, nullptr)) return {};
         at.at_end([&at, made] { EXPECT_OK(ferry_array_destroy(at.ferry, made, nullptr)); });
         return [&at, made] {
             CUarray plane = nullptr;
             return ferry_array_get_plane(at.ferry, made, 0, &plane, nullptr);
         };
     }},

    {"ferry_peer_get_info",
     [](scene &at) -> call {
         if (device_count() < 2) return {};
         return [&] {
             auto info = sized<ferry_peer_info>();
             return ferry_peer_get_info(at.ferry, 0, 1, &info, nullptr);
         };
     }},
};

// Calls that must wait behind a stream that synchronises with the legacy stream.
const row waiting_rows[] = {
    {"ferry_copy",
     [](scene &at) -> call {
         return [&] {
             const ferry_copy_desc copy = contiguous(at.device(), at.host(), size);
             return ferry_copy(at.ferry, &copy, nullptr, nullptr);
         };
     }},
    {"ferry_copy_bytes",
     [](scene &at) -> call {
         return [&] { return ferry_copy_bytes(at.ferry, at.device(), at.host(), size, nullptr, nullptr); };
     }},
    {"ferry_copy_batch",
     [](scene &at) -> call {
         return [&] {
             const ferry_copy_desc copy = contiguous(at.device(), at.host(), size);
             return ferry_copy_batch(at.ferry, &copy, 1, nullptr, nullptr);
         };
     }},
    {"ferry_copy_pieces",
     [](scene &at) -> call {
         return [&] {
             const std::uint64_t to = at.device(), from = at.host(), bytes = size;
             return ferry_copy_pieces(at.ferry, in_arrays(&to, &from, &bytes, 1), nullptr, nullptr);
         };
     }},
    {"ferry_copy_nests",
     [](scene &at) -> call {
         const auto copy = [&] {
             const ferry_nest nest = transposed(at.device(), at.host());
             return ferry_copy_nests(at.ferry, &nest, 1, nullptr, nullptr);
         };
         EXPECT_OK(copy()); // loads the kernels
         return copy;
     }},
    {"ferry_fill",
     [](scene &at) -> call {
         return [&] {
             const ferry_fill_desc fill = short_fill_of(at);
             return ferry_fill(at.ferry, &fill, nullptr, nullptr);
         };
     }},
    {"ferry_stream_synchronize",
     [](scene &at) -> call { return [&] { return ferry_stream_synchronize(at.ferry, at.stream, nullptr); }; }},
    {"ferry_event_synchronize",
     [](scene &at) -> call {
         const auto made = at.variable<CUevent>();
         EXPECT_OK(raw().cuEventCreate(made.get(), 0));
         at.at_end([made] { EXPECT_OK(raw().cuEventDestroy(*made)); });
         return [&at, made] {
             EXPECT_OK(ferry_event_record(at.ferry, *made, at.stream, nullptr));
             return ferry_event_synchronize(at.ferry, *made, nullptr);
         };
     }},
    {"ferry_ticket_wait",
     [](scene &at) -> call {
         return [&] {
             ferry_ticket *const ticket = at.make_ticket();
             const std::int32_t status = ferry_ticket_wait(ticket, FERRY_NO_TIMEOUT, nullptr);
             EXPECT_OK(ferry_ticket_release(ticket, nullptr));
             return status;
         };
     }},
    {"ferry_ticket_wait_any",
     [](scene &at) -> call {
         return [&] {
             ferry_ticket *const ticket = at.make_ticket();
             std::uint64_t index = 1;
             const std::int32_t status = ferry_ticket_wait_any(&ticket, 1, FERRY_NO_TIMEOUT, &index, nullptr);
             EXPECT_OK(ferry_ticket_release(ticket, nullptr));
             return status;
         };
     }},
    {"ferry_context_synchronize",
     [](scene &at) -> call { return [&] { return ferry_context_synchronize(at.ferry, 0, nullptr, nullptr); }; }},
    {"ferry_device_free",
     [](scene &at) -> call {
         const std::uint64_t made = at.allocate();
         return [&at, made] { return ferry_device_free(at.ferry, made, nullptr); };
     }},
    {"ferry_host_free",
     [](scene &at) -> call {
         void *const made = at.allocate_host();
         return [&at, made] { return ferry_host_free(at.ferry, made, nullptr); };
     }},
    {"ferry_host_unregister",
     [](scene &at) -> call {
         EXPECT_OK(ferry_host_register(at.ferry, at.pageable.data(), at.pageable.size(), 0, nullptr));
         return [&] { return ferry_host_unregister(at.ferry, at.pageable.data(), nullptr); };
     }},
    {"ferry_array_destroy",
     [](scene &at) -> call {
         CUarray const made = at.make_array();
         return [&at, made] { return ferry_array_destroy(at.ferry, made, nullptr); };
     }},
    {"ferry_mipmapped_array_destroy",
     [](scene &at) -> call {
         CUmipmappedArray const made = at.make_mipmapped();
         return [&at, made] { return ferry_mipmapped_array_destroy(at.ferry, made, nullptr); };
     }},

    // Instances, contexts, staging.
    {"ferry_open",
     [](scene &at) -> call {
         const auto made = at.variable<ferry_instance *>();
         at.at_end([made] { ferry_close(*made); });
         return [made] {
             ferry_options options = options_under_test();
             options.kernels = FERRY_KERNELS_AT_OPEN;
             return ferry_open(&options, made.get(), nullptr);
         };
     }},
    {"ferry_close",
     [](scene &at) -> call {
         ferry_instance *const made = open_or_fail(options_under_test()).release();
         std::uint64_t memory = 0;
         EXPECT_OK(ferry_device_alloc(made, 0, size, &memory, nullptr));
         return [&at, made, memory] {
             const std::int32_t status = ferry_device_free_deferred(made, memory, at.blocked, nullptr);
             return ferry_close(made), status;
         };
     }},
    {"ferry_context_destroy",
     [](scene &at) -> call {
         CUcontext made = nullptr;
         EXPECT_OK(ferry_context_create(at.ferry, 0, 0, &made, nullptr));
         return [&at, made] {
             at.let_wait(made);
             return ferry_context_destroy(at.ferry, made, nullptr);
         };
     }},
    {"ferry_context_release_primary",
     [](scene &at) -> call {
         const int last = device_count() - 1;
         if (last == 0) return {}; // the fixture has another reference
         // main releases its reference, so that this is the only one. It gets a new one afterwards.
         CUcontext made = nullptr;
         EXPECT_OK(ferry_context_retain_primary(at.ferry, last, &made, nullptr));
         EXPECT_OK(raw().cuDevicePrimaryCtxRelease(last));
         at.at_end([last] {
             CUcontext kept = nullptr;
             EXPECT_OK(raw().cuDevicePrimaryCtxRetain(&kept, last));
         });
         return [&at, made, last] {
             at.let_wait(made);
             return ferry_context_release_primary(at.ferry, last, nullptr);
         };
     }},
    {"ferry_staging_prepare",
     [](scene &at) -> call { return [&] { return ferry_staging_prepare(at.ferry, 0, nullptr); }; }},
    {"ferry_staging_trim",
     [](scene &at) -> call {
         EXPECT_OK(ferry_staging_prepare(at.ferry, 0, nullptr));
         return [&] { return ferry_staging_trim(at.ferry, nullptr); };
     }},
    {"ferry_device_calibrate",
     [](scene &at) -> call { return [&] { return ferry_device_calibrate(at.ferry, 0, nullptr); }; }},

    // Allocations, which free what deferred frees have left.
    {"ferry_device_alloc",
     [](scene &at) -> call {
         const auto made = at.variable<std::uint64_t>();
         at.free_at_end(made);
         at.leave_device_memory();
         return [&at, made] { return ferry_device_alloc(at.ferry, 0, size, made.get(), nullptr); };
     }},
    {"ferry_device_alloc_pitched",
     [](scene &at) -> call {
         const auto made = at.variable<std::uint64_t>();
         at.free_at_end(made);
         at.leave_device_memory();
         return [&at, made] {
             std::uint64_t pitch = 0;
             return ferry_device_alloc_pitched(at.ferry, 0, 64, 64, 4, made.get(), &pitch, nullptr);
         };
     }},
    {"ferry_host_alloc",
     [](scene &at) -> call {
         const auto made = at.variable<void *>();
         at.at_end([&at, made] { EXPECT_OK(ferry_host_free(at.ferry, *made, nullptr)); });
         at.leave_host_memory();
         return [&at, made] { return allocate_pinned(at.ferry, size, 0, made.get()); };
     }},
    {"ferry_host_register",
     [](scene &at) -> call {
         at.at_end([&] { EXPECT_OK(ferry_host_unregister(at.ferry, at.pageable.data(), nullptr)); });
         at.leave_host_memory();
         return [&] { return ferry_host_register(at.ferry, at.pageable.data(), at.pageable.size(), 0, nullptr); };
     }},
    {"ferry_array_create",
     [](scene &at) -> call {
         const auto made = at.variable<CUarray>();
         at.at_end([&at, made] { EXPECT_OK(ferry_array_destroy(at.ferry, *made, nullptr)); });
         at.leave_device_memory();
         return [&at, made] { return ferry_array_create(at.ferry, 0, &scene::image, made.get(), nullptr); };
     }},
    {"ferry_mipmapped_array_create",
     [](scene &at) -> call {
         const auto made = at.variable<CUmipmappedArray>();
         at.at_end([&at, made] { EXPECT_OK(ferry_mipmapped_array_destroy(at.ferry, *made, nullptr)); });
         at.leave_device_memory();
         return
             [&at, made] { return ferry_mipmapped_array_create(at.ferry, 0, &scene::image, 3, made.get(), nullptr); };
     }},
    {"ferry_deferred_trim",
     [](scene &at) -> call {
         at.leave_device_memory();
         return [&] { return ferry_deferred_trim(at.ferry, 0, 0, nullptr); };
     }},
    {"ferry_prepared_create",
     [](scene &at) -> call {
         const auto made = at.variable<ferry_prepared *>();
         at.at_end([made] { EXPECT_OK(ferry_prepared_destroy(*made, nullptr)); });
         at.leave_device_memory();
         return [&at, made] {
             const ferry_copy_desc copy = narrow_rows(at);
             return ferry_prepared_create(at.ferry, &copy, 1, by_kernel, at.stream, made.get(), nullptr);
         };
     }},
    {"ferry_prepared_create_pieces",
     [](scene &at) -> call {
         const auto made = at.variable<ferry_prepared *>();
         at.at_end([made] { EXPECT_OK(ferry_prepared_destroy(*made, nullptr)); });
         at.leave_device_memory();
         return [&at, made] { return *made = prepare_batch(at), done; };
     }},
    {"ferry_prepared_create_nests",
     [](scene &at) -> call {
         const auto made = at.variable<ferry_prepared *>();
         at.at_end([made] { EXPECT_OK(ferry_prepared_destroy(*made, nullptr)); });
         at.leave_device_memory();
         return [&at, made] {
             static constexpr std::uint32_t columns[] = {2, 0, 3, 1}; // for the table
             ferry_nest nest = transposed(at.device(), at.host());
             ferry_axis &axis = nest.source.axes[0];
             nest.destination.axes[0].count = axis.count = std::size(columns);
             axis.indices = reinterpret_cast<std::uintptr_t>(columns);
             axis.index_type = FERRY_INDEX_U32;
             axis.index_limit = std::size(columns);
             return ferry_prepared_create_nests(at.ferry, &nest, 1, by_kernel, at.stream, made.get(), nullptr);
         };
     }},
    {"ferry_prepared_destroy",
     [](scene &at) -> call {
         ferry_prepared *const made = prepare_batch(at);
         return [made] { return ferry_prepared_destroy(made, nullptr); };
     }},
    {"ferry_pinned_pool_destroy",
     [](scene &at) -> call {
         ferry_pinned_pool *const pool = at.make_used_pool();
         return [pool] { return ferry_pinned_pool_destroy(pool, nullptr); };
     }},
    {"ferry_pinned_pool_alloc",
     [](scene &at) -> call {
         ferry_pinned_pool *const pool = at.make_used_pool(whole_pool);
         const auto made = at.variable<void *>();
         at.at_end([pool, made] {
             EXPECT_OK(ferry_pinned_pool_free(pool, *made, nullptr));
             EXPECT_OK(ferry_pinned_pool_destroy(pool, nullptr));
         });
         return [pool, made] { return ferry_pinned_pool_alloc(pool, whole_pool, made.get(), nullptr); };
     }},
    {"ferry_pinned_pool_alloc_async",
     [](scene &at) -> call {
         ferry_pinned_pool *const pool = at.make_used_pool(whole_pool);
         const auto made = at.variable<void *>();
         at.at_end([pool, made] {
             EXPECT_OK(ferry_pinned_pool_free(pool, *made, nullptr));
             EXPECT_OK(ferry_pinned_pool_destroy(pool, nullptr));
         });
         return [&at, pool, made] {
             return ferry_pinned_pool_alloc_async(pool, whole_pool, at.stream, made.get(), nullptr);
         };
     }},
    {"ferry_pinned_pool_trim",
     [](scene &at) -> call {
         ferry_pinned_pool *const pool = at.make_used_pool();
         at.at_end([pool] { EXPECT_OK(ferry_pinned_pool_destroy(pool, nullptr)); });
         return [pool] { return ferry_pinned_pool_trim(pool, 0, nullptr); };
     }},

    // The driver's pools.
    {"ferry_pool_destroy",
     [](scene &at) -> call {
         if (!at.has_pools()) return {};
         CUmemoryPool const pool = at.make_driver_pool(0);
         std::uint64_t memory = 0;
         EXPECT_OK(ferry_pool_alloc_async(at.ferry, pool, size, at.stream, &memory, nullptr));
         return [&at, pool, memory] {
             EXPECT_OK(ferry_device_free_async(at.ferry, memory, at.blocked, nullptr));
             return ferry_pool_destroy(at.ferry, pool, nullptr);
         };
     }},
    {"ferry_pool_set_access",
     [](scene &at) -> call {
         if (!at.has_pools() || device_count() < 2) return {};
         CUmemoryPool const pool = at.make_driver_pool(0);
         EXPECT_OK(ferry_pool_set_access(at.ferry, pool, 1, FERRY_ACCESS_READ_WRITE, nullptr));
         CUcontext made = nullptr;
         EXPECT_OK(ferry_context_retain_primary(at.ferry, 1, &made, nullptr));
         at.at_end([&at, pool] {
             EXPECT_OK(ferry_context_release_primary(at.ferry, 1, nullptr));
             EXPECT_OK(ferry_pool_destroy(at.ferry, pool, nullptr));
         });
         return [&at, pool, made] {
             at.let_wait(made);
             return ferry_pool_set_access(at.ferry, pool, 1, FERRY_ACCESS_NONE, nullptr);
         };
     }},

    // Pairs of devices.
    {"ferry_peer_probe",
     [](scene &at) -> call {
         if (device_count() < 2) return {};
         return [&] { return ferry_peer_probe(at.ferry, 0, 1, nullptr); };
     }},
    {"ferry_peer_enable",
     [](scene &at) -> call {
         if (device_count() < 2) return {};
         return [&] { return ferry_peer_enable(at.ferry, 0, 1, nullptr); };
     }},
    {"ferry_peer_disable",
     [](scene &at) -> call {
         if (device_count() < 2) return {};
         EXPECT_OK(ferry_peer_enable(at.ferry, 0, 1, nullptr));
         return [&] { return ferry_peer_disable(at.ferry, 0, 1, nullptr); };
     }},
    {"ferry_multilink_set",
     [](scene &at) -> call {
         if (device_count() < 2) return {};
         at.leave_device_memory();
         return [&] {
             const std::int32_t helper = 1;
             auto options = sized<ferry_multilink_options>();
             options.helper_count = 1;
             options.helpers = &helper;
             return ferry_multilink_set(at.ferry, 0, &options, nullptr);
         };
     }},
    {"ferry_peer_calibrate",
     [](scene &at) -> call {
         if (device_count() < 2) return {};
         return [&] { return ferry_peer_calibrate(at.ferry, 0, 1, nullptr); };
     }},

    // Objects of another process and of a graphics API.
    {"ferry_ipc_close_memory",
     [](scene &at) -> call {
         if (!has_second_process) return {};
         const std::uint64_t made = at.import_memory();
         return [&at, made] { return ferry_ipc_close_memory(at.ferry, made, nullptr, nullptr); };
     }},
    {"ferry_external_memory_release",
     [](scene &at) -> call {
         CUextMemory_st *const made = at.import_external_memory();
         if (!made) return {};
         return [&at, made] { return ferry_external_memory_release(at.ferry, made, nullptr); };
     }},
};

// Calls of the class device that wait only if the driver decides to wait. The driver's call of each is in may_wait.
const row driver_rows[] = {
    {"ferry_managed_alloc",
     [](scene &at) -> call {
         const auto made = at.variable<std::uint64_t>();
         at.free_at_end(made);
         return [&at, made] { return ferry_managed_alloc(at.ferry, 0, size, made.get(), nullptr); };
     }},
    {"ferry_pool_create",
     [](scene &at) -> call {
         if (!at.has_pools()) return {};
         const auto made = at.variable<CUmemoryPool>();
         at.at_end([&at, made] { EXPECT_OK(ferry_pool_destroy(at.ferry, *made, nullptr)); });
         return [&at, made] { return *made = at.make_driver_pool(0), done; };
     }},
    {"ferry_pool_trim",
     [](scene &at) -> call {
         if (!at.has_pools()) return {};
         CUmemoryPool const pool = at.make_driver_pool(0);
         std::uint64_t memory = 0;
         EXPECT_OK(ferry_pool_alloc_async(at.ferry, pool, size, at.stream, &memory, nullptr));
         EXPECT_OK(ferry_device_free_async(at.ferry, memory, at.stream, nullptr));
         at.at_end([&at, pool] { EXPECT_OK(ferry_pool_destroy(at.ferry, pool, nullptr)); });
         return [&at, pool] { return ferry_pool_trim(at.ferry, pool, 0, nullptr); };
     }},
    {"ferry_ipc_close_pool",
     [](scene &at) -> call {
         if (!has_second_process || !other().shared.has_pool) return {};
         CUmemoryPool made = nullptr;
         EXPECT_OK(ferry_ipc_import_pool(at.ferry, &other().shared.pool, other().descriptor, &made, nullptr));
         return [&at, made] { return ferry_ipc_close_pool(at.ferry, made, nullptr); };
     }},
    {"ferry_external_memory_import",
     [](scene &at) -> call {
         const auto desc = memory_of_file();
         if (desc.handle < 0) return {};
         const auto made = at.variable<CUextMemory_st *>();
         at.at_end([&at, made] { EXPECT_OK(ferry_external_memory_release(at.ferry, *made, nullptr)); });
         return [&at, made, desc] { return ferry_external_memory_import(at.ferry, &desc, made.get(), nullptr); };
     }},
    {"ferry_external_memory_create_array",
     [](scene &at) -> call {
         CUextMemory_st *const memory = at.import_external_memory();
         if (!memory) return {};
         at.at_end([&at, memory] { EXPECT_OK(ferry_external_memory_release(at.ferry, memory, nullptr)); });
         return [&at, memory] {
             CUmipmappedArray made = nullptr;
             return ferry_external_memory_create_array(at.ferry, memory, 0, &scene::image, 1, &made, nullptr);
         };
     }},
};

blocking_class class_of(const std::string &name) {
    const auto *const found = std::find_if(std::begin(functions), std::end(functions),
                                           [&](const classified &one) { return one.name == name; });
    if (found != std::end(functions)) return found->of;
    ADD_FAILURE() << "no such function: " << name;
    return blocking_class::device;
}

// These functions wait for the file system instead of the driver.
bool is_about_files(const std::string &name) { return name.rfind("ferry_file_", 0) == 0; }

// A call that runs on a thread of its own, where the context is current.
class running_call {
public:
    running_call(const call &made, CUcontext context) {
        auto status = std::make_shared<std::promise<std::int32_t>>();
        status_ = status->get_future();
        thread_ = std::thread([status, made, context] {
            raw().cuCtxSetCurrent(context);
            status->set_value(made());
        });
    }
    ~running_call() { thread_.join(); }
    running_call(const running_call &) = delete;
    running_call &operator=(const running_call &) = delete;

    bool has_returned_after(std::chrono::milliseconds time) const {
        return status_.wait_for(time) == std::future_status::ready;
    }
    std::int32_t status() { return status_.get(); }

private:
    std::future<std::int32_t> status_;
    std::thread thread_;
};

constexpr auto patience = 20s;             // for calls that return
constexpr auto time_to_see_a_wait = 100ms; // for calls that wait: a call that is late passes too

// Expects that the call returns while `blocked` is shut, and opens it if the call waits.
void expect_return(const char *name, const call &made, CUcontext context, gate &blocked) {
    SCOPED_TRACE(name);
    running_call running(made, context);
    const bool has_returned = running.has_returned_after(patience);
    EXPECT_TRUE(has_returned) << "the call waits";
    if (!has_returned) blocked.let_go();
    EXPECT_OK(running.status());
}

// Expects that the call returns only after `blocked` is opened.
void expect_wait(const char *name, const call &made, CUcontext context, gate &blocked) {
    SCOPED_TRACE(name);
    running_call running(made, context);
    EXPECT_FALSE(running.has_returned_after(time_to_see_a_wait)) << "the call does not wait";
    blocked.let_go();
    ASSERT_TRUE(running.has_returned_after(patience));
    EXPECT_OK(running.status());
}

// Creates events in another thread, which a free that holds the driver's lock prevents. Release the lock before
// destroying it.
class lock_probe {
public:
    explicit lock_probe(CUcontext context)
        : thread_([this, context] {
              raw().cuCtxSetCurrent(context);
              while (!is_over_) {
                  CUevent made = nullptr;
                  if (raw().cuEventCreate(&made, 0) == CUDA_SUCCESS) raw().cuEventDestroy(made);
                  ++created_;
                  std::this_thread::yield();
              }
          }) {}
    ~lock_probe() {
        is_over_ = true;
        thread_.join();
    }
    lock_probe(const lock_probe &) = delete;
    lock_probe &operator=(const lock_probe &) = delete;

    // Waits until no more events are created.
    bool finds_lock() const {
        const auto until = std::chrono::steady_clock::now() + patience;
        while (std::chrono::steady_clock::now() < until) {
            const unsigned before = created_;
            std::this_thread::sleep_for(time_to_see_a_wait);
            if (created_ == before) return true;
        }
        return false;
    }

private:
    std::atomic<unsigned> created_ = 0;
    std::atomic<bool> is_over_ = false;
    std::thread thread_; // last: it uses the other members
};

class blocking_classes : public counted_test {
protected:
    // The number of driver calls since the counters were reset, including look-ups of entry points, except for
    // `queries`.
    int calls_except_queries() const {
        int count = driver.calls_beginning("cu") + driver.look_ups();
        for (const char *const query : queries)
            count -= driver.calls(query);
        return count;
    }
    int count_of(const char *const *first, const char *const *end) const {
        int count = 0;
        for (; first != end; ++first)
            count += driver.calls(*first);
        return count;
    }
    int waits_made() const { return count_of(std::begin(waits), std::end(waits)); }
    int preparations_made() const { return count_of(std::begin(preparations), std::end(preparations)); }
    static void TearDownTestSuite() { the_other_process.reset(); }
    void open_again(std::uint64_t deferred_bytes = 0) {
        counted.reset();
        ferry_options options = driver.options();
        options.deferred_bytes = deferred_bytes;
        counted = open_or_fail(options);
    }
};

TEST_F(blocking_classes, cover_all_functions) {
    std::vector<std::string> covered;
    for (const row &one : rows)
        covered.emplace_back(one.name);
    for (const row &one : waiting_rows)
        covered.emplace_back(one.name);
    for (const row &one : driver_rows)
        covered.emplace_back(one.name);
    for (const classified &one : functions)
        EXPECT_EQ(std::count(covered.begin(), covered.end(), one.name), 1) << one.name;
    EXPECT_EQ(covered.size(), std::size(functions));
}

TEST_F(blocking_classes, agree_with_the_driver_calls) {
    if (!has_kernels()) GTEST_SKIP() << "the driver has no kernels";
    EXPECT_OK(ferry_staging_prepare(counted.get(), 0, nullptr)); // else threads pin memory in the background
    scene at(counted.get(), context, stream);
    for (const row &one : rows) {
        SCOPED_TRACE(one.name);
        const call first = one.make(at);
        if (!first) continue;
        EXPECT_OK(first());
        const call again = one.make(at);
        EXPECT_OK(raw().cuStreamSynchronize(stream));
        driver.reset_counts();
        EXPECT_OK(again());
        const blocking_class of = class_of(one.name);
        EXPECT_NE(of, blocking_class::device);
        if (of == blocking_class::none) {
            EXPECT_EQ(calls_except_queries(), 0);
        }
        EXPECT_EQ(waits_made(), 0);
        EXPECT_EQ(count_of(std::begin(may_wait), std::end(may_wait)), 0);
        // Each retain calls the driver. Only the first in the process creates a context.
        if (std::string(one.name) != "ferry_context_retain_primary") {
            EXPECT_EQ(preparations_made(), 0);
        }
        if (of == blocking_class::driver_lock && !is_about_files(one.name)) {
            EXPECT_GT(calls_except_queries(), 0) << "the class is none";
        }
    }
}

#if defined(__linux__)
// Only the system knows what these functions return or change.
TEST_F(blocking_classes, driver_lock_includes_waits_for_the_file_system) {
    const temporary_file contents{bytes(size)};
    ferry_file *first = nullptr, *second = nullptr;
    auto info = sized<ferry_file_info>();
    std::vector<std::string> checked;
    const auto expect_descriptors = [&](const char *name, std::size_t count) {
        EXPECT_EQ(contents.count_descriptors(), count) << name;
        checked.emplace_back(name);
    };
    EXPECT_OK(ferry_file_open(counted.get(), contents.path().c_str(), nullptr, &first, nullptr));
    expect_descriptors("ferry_file_open", 1);
    const int descriptor = open(contents.path().c_str(), O_RDONLY | O_CLOEXEC);
    EXPECT_OK(ferry_file_open_descriptor(counted.get(), descriptor, nullptr, &second, nullptr));
    expect_descriptors("ferry_file_open_descriptor", 3);
    close(descriptor);
    contents.resize(2 * size);
    EXPECT_OK(ferry_file_get_info(first, &info, nullptr));
    EXPECT_EQ(info.size, 2 * size);
    checked.emplace_back("ferry_file_get_info");
    ferry_file_close(first);
    ferry_file_close(second);
    expect_descriptors("ferry_file_close", 0);
    for (const classified &one : functions)
        if (is_about_files(one.name)) {
            EXPECT_EQ(one.of, blocking_class::driver_lock) << one.name;
            EXPECT_EQ(std::count(checked.begin(), checked.end(), one.name), 1) << one.name;
        }
}
#endif

TEST_F(blocking_classes, none_return_while_a_free_in_another_thread_waits) {
    scene at(counted.get(), context, stream);
    std::vector<std::pair<const char *, call>> calls;
    for (const row &one : rows)
        if (class_of(one.name) == blocking_class::none) calls.emplace_back(one.name, one.make(at));
    ASSERT_GT(calls.size(), 30u);
    gate blocked(stream);
    {
        waiting_free free;
        const lock_probe probe(context);
        EXPECT_TRUE(probe.finds_lock());
        for (const auto &[name, made] : calls)
            expect_return(name, made, context, blocked);
        EXPECT_FALSE(free.has_returned());
        blocked.let_go();
    }
}

TEST_F(blocking_classes, except_stream_and_device_return_behind_a_blocked_stream) {
    if (!has_kernels()) GTEST_SKIP() << "the driver has no kernels";
    EXPECT_OK(ferry_staging_prepare(counted.get(), 0, nullptr)); // else threads pin memory in the background
    scene at(counted.get(), context, stream);
    std::vector<std::pair<const char *, call>> calls;
    for (const row &one : rows) {
        SCOPED_TRACE(one.name);
        const call first = one.make(at);
        if (!first) continue;
        EXPECT_OK(first());
        calls.emplace_back(one.name, one.make(at));
    }
    EXPECT_OK(raw().cuStreamSynchronize(stream));
    gate blocked(stream);
    for (const auto &[name, made] : calls)
        expect_return(name, made, context, blocked);
    blocked.open();
}

TEST_F(blocking_classes, stream_and_device_wait_for_a_blocked_stream) {
    if (!has_kernels()) GTEST_SKIP() << "the driver has no kernels";
    for (const row &one : waiting_rows) {
        SCOPED_TRACE(one.name);
        const blocking_class of = class_of(one.name);
        const bool is_stream = of == blocking_class::stream;
        EXPECT_TRUE(is_stream || of == blocking_class::device);
        // A GPU's driver may decide that it does not need to wait for the device.
        if (!is_stream && !on_software_driver()) continue;
        // Copies without a stream are in the legacy stream, which waits for a stream of the first kind. A call that
        // waits for a stream of the second kind, which the call does not name, waits for the device.
        const test_stream worked(is_stream ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING);
        open_again(1); // so that each allocation frees what deferred frees keep
        scene at(counted.get(), context, is_stream ? CUstream(worked) : stream, worked);
        const call made = one.make(at);
        if (!made) continue;
        EXPECT_OK(raw().cuStreamSynchronize(at.stream));
        EXPECT_OK(raw().cuStreamSynchronize(worked));
        if (is_stream) {
            gate unrelated(stream);
            expect_return(one.name, made, context, unrelated);
            unrelated.open();
        }
        const call again = is_stream ? one.make(at) : made;
        gate blocked(worked);
        expect_wait(one.name, again, context, blocked);
        blocked.open();
    }
}

TEST_F(blocking_classes, device_may_also_wait_as_the_driver_decides) {
    for (const row &one : driver_rows) {
        SCOPED_TRACE(one.name);
        EXPECT_EQ(class_of(one.name), blocking_class::device);
        scene at(counted.get(), context, stream);
        const call made = one.make(at);
        if (!made) continue;
        driver.reset_counts();
        EXPECT_OK(made());
        EXPECT_GT(count_of(std::begin(may_wait), std::end(may_wait)), 0);
    }
}

TEST_F(blocking_classes, first_use_prepares_at_the_first_call_and_lower_classes_do_not) {
    if (!has_kernels()) GTEST_SKIP() << "the driver has no kernels";
    for (const row &one : rows) {
        const std::string name = one.name;
        const blocking_class of = class_of(name);
        if (of > blocking_class::first_use) continue;
        SCOPED_TRACE(name);
        open_again();
        scene at(counted.get(), context, stream);
        const call first = one.make(at);
        if (!first) continue;
        EXPECT_OK(ferry_staging_trim(counted.get(), nullptr)); // releases what the objects of the row have pinned
        driver.reset_counts();
        EXPECT_OK(first());
        EXPECT_EQ(preparations_made() > 0, of == blocking_class::first_use) << preparations_made() << " preparations";
    }
}

// The asynchronous calls of the class stream do not wait in their rows above. They wait for the driver's copies of
// pageable memory.
const row pageable_rows[] = {
    {"ferry_copy_async",
     [](scene &at) -> call {
         return [&] {
             const ferry_copy_desc copy = contiguous(at.device(), at.pages(), large);
             return ferry_copy_async(at.ferry, &copy, by_driver, at.stream, nullptr, nullptr);
         };
     }},
    {"ferry_copy_bytes_async",
     [](scene &at) -> call {
         return [&] {
             return ferry_copy_bytes_async(at.ferry, at.device(), at.pages(), large, by_driver, at.stream, nullptr,
                                           nullptr);
         };
     }},
    {"ferry_copy_batch_async",
     [](scene &at) -> call {
         return [&] {
             const ferry_copy_desc copy = contiguous(at.device(), at.pages(), large);
             return ferry_copy_batch_async(at.ferry, &copy, 1, by_driver, at.stream, nullptr, nullptr);
         };
     }},
    {"ferry_copy_pieces_async",
     [](scene &at) -> call {
         return [&] {
             const std::uint64_t to = at.device(), from = at.pages(), bytes = large;
             return ferry_copy_pieces_async(at.ferry, in_arrays(&to, &from, &bytes, 1), by_driver, at.stream, nullptr,
                                            nullptr);
         };
     }},
    {"ferry_copy_nests_async",
     [](scene &at) -> call {
         return [&] {
             const ferry_nest nest = transposed(at.device(), at.pages());
             return ferry_copy_nests_async(at.ferry, &nest, 1, by_driver, at.stream, nullptr, nullptr);
         };
     }},
    {"ferry_prepared_launch",
     [](scene &at) -> call {
         ferry_prepared *batch = nullptr;
         const ferry_copy_desc copy = contiguous(at.device(), at.pages(), large);
         EXPECT_OK(ferry_prepared_create(at.ferry, &copy, 1, by_driver, at.stream, &batch, nullptr));
         at.at_end([batch] { EXPECT_OK(ferry_prepared_destroy(batch, nullptr)); });
         return [&at, batch] { return ferry_prepared_launch(batch, nullptr, at.stream, nullptr, nullptr); };
     }},
};

TEST_F(blocking_classes, stream_waits_for_pageable_memory_that_is_not_staged) {
    scene at(counted.get(), context, stream);
    for (const row &one : pageable_rows) {
        EXPECT_EQ(class_of(one.name), blocking_class::stream) << one.name;
        const call made = one.make(at);
        gate blocked(stream);
        expect_wait(one.name, made, context, blocked);
        blocked.open();
    }
}

// ---- The table of ferry_copy_async

enum class end { device, other_device_memory, pinned, other_pinned, pageable };

std::uint64_t address_of(const scene &at, end which) {
    switch (which) {
    case end::device:
        return at.device();
    case end::other_device_memory:
        return at.device() + large;
    case end::pinned:
        return at.host();
    case end::other_pinned:
        return at.host() + large;
    default:
        return at.pages();
    }
}

constexpr std::uint64_t in_commands = std::uint64_t{64} << 10, small = std::uint64_t{1} << 20;

const struct {
    const char *name;
    end from, to;
    std::uint64_t bytes;
    how options;
    std::int32_t on_idle; // FERRY_BLOCKS_*: until when the call waits on an idle stream, unless a prediction decides
    bool waits;           // after earlier work on the stream
} copy_table[] = {
    {"from pinned memory", end::pinned, end::device, large, ordinary, FERRY_BLOCKS_NO, false},
    {"to pinned memory", end::device, end::pinned, large, ordinary, FERRY_BLOCKS_NO, false},
    {"within the device", end::device, end::other_device_memory, large, ordinary, FERRY_BLOCKS_NO, false},
    {"from pageable memory, up to 1 MiB", end::pageable, end::device, small, ordinary, FERRY_BLOCKS_UNTIL_STAGED,
     false},
    {"to pageable memory, up to 1 MiB", end::device, end::pageable, small, ordinary, FERRY_BLOCKS_UNTIL_DONE, false},
    {"from pageable memory, above 1 MiB", end::pageable, end::device, large, ordinary, FERRY_BLOCKS_NO, false},
    {"to pageable memory, above 1 MiB", end::device, end::pageable, large, ordinary, FERRY_BLOCKS_NO, false},
    {"from pageable memory, staged", end::pageable, end::device, large, by_staging, FERRY_BLOCKS_NO, false},
    {"to pageable memory, staged", end::device, end::pageable, large, by_staging, FERRY_BLOCKS_NO, false},
    {"from pageable memory, in the driver's commands", end::pageable, end::device, in_commands, ordinary,
     FERRY_BLOCKS_NO, false},
    {"CALL, in the driver's commands", end::pageable, end::device, in_commands, read_in_the_call, FERRY_BLOCKS_NO,
     false},
    {"CALL, up to 1 MiB", end::pageable, end::device, small, read_in_the_call, FERRY_BLOCKS_UNTIL_STAGED, false},
    {"CALL, above 1 MiB", end::pageable, end::device, large, read_in_the_call, FERRY_BLOCKS_UNTIL_STAGED, true},
    {"DESTINATION_WRITTEN", end::device, end::pageable, small, written_in_the_call, FERRY_BLOCKS_UNTIL_DONE, true},
    {"from pageable memory, not staged", end::pageable, end::device, large, by_driver, FERRY_BLOCKS_UNTIL_STAGED, true},
    {"to pageable memory, not staged", end::device, end::pageable, large, by_driver, FERRY_BLOCKS_UNTIL_DONE, true},
    {"from pageable to pinned memory", end::pageable, end::pinned, large, ordinary, FERRY_BLOCKS_UNTIL_DONE, true},
    {"within pinned memory", end::pinned, end::other_pinned, large, ordinary, FERRY_BLOCKS_UNTIL_DONE, true},
};

TEST_F(blocking_classes, an_asynchronous_copy_waits_as_its_table_says) {
    if (!has_kernels()) GTEST_SKIP() << "the driver has no kernels";
    EXPECT_OK(ferry_staging_prepare(counted.get(), 0, nullptr)); // loading kernels would wait for the blocked stream
    scene at(counted.get(), context, stream);
    for (const auto &one : copy_table) {
        SCOPED_TRACE(one.name);
        const ferry_copy_desc copy = contiguous(address_of(at, one.to), address_of(at, one.from), one.bytes);
        const call made = [&] { return ferry_copy_async(at.ferry, &copy, one.options, at.stream, nullptr, nullptr); };
        EXPECT_OK(made()); // what only the first copy needs
        EXPECT_OK(raw().cuStreamSynchronize(stream));
        gate blocked(stream);
        ferry_explanation explanation = new_explanation();
        EXPECT_OK(ferry_copy_explain_async(at.ferry, &copy, one.options, at.stream, &explanation, nullptr));
        EXPECT_EQ(explanation.blocks != FERRY_BLOCKS_NO, one.waits) << describe(explanation);
        if (one.waits)
            expect_wait(one.name, made, context, blocked);
        else
            expect_return(one.name, made, context, blocked);
        blocked.open();
    }
}

// Until when a copy waits on an idle stream. The prediction chooses the route of some copies of pageable memory.
template <class Row> std::int32_t wait_on_idle(const Row &one, std::int32_t route) {
    const bool is_up = one.from == end::pageable && one.to == end::device, is_down = one.to == end::pageable;
    if (one.options != ordinary || one.bytes < small || !(is_up || is_down)) return one.on_idle;
    if (route == FERRY_ROUTE_STAGED) return FERRY_BLOCKS_NO;
    return is_up ? FERRY_BLOCKS_UNTIL_STAGED : FERRY_BLOCKS_UNTIL_DONE;
}

TEST_F(blocking_classes, an_asynchronous_copy_waits_on_an_idle_stream_as_its_table_says) {
    if (!has_kernels()) GTEST_SKIP() << "the driver has no kernels";
    EXPECT_OK(ferry_staging_prepare(counted.get(), 0, nullptr)); // loading kernels may wait
    scene at(counted.get(), context, stream);
    const auto is_on_device = [](end which) { return which == end::device || which == end::other_device_memory; };
    const auto set = [&](end which, const bytes &data) {
        if (is_on_device(which))
            write_for_all_streams(address_of(at, which), data);
        else
            std::memcpy(reinterpret_cast<void *>(address_of(at, which)), data.data(), data.size());
    };
    const auto get = [&](end which, std::uint64_t count) {
        if (is_on_device(which)) return read_back(address_of(at, which), count);
        const auto *const first = reinterpret_cast<const std::byte *>(address_of(at, which));
        return bytes(first, first + count);
    };
    const auto describe_row = [&](const auto &row) {
        return contiguous(address_of(at, row.to), address_of(at, row.from), row.bytes);
    };
    const auto explain = [&](const auto &row) {
        const ferry_copy_desc copy = describe_row(row);
        ferry_explanation explanation = new_explanation();
        EXPECT_OK(ferry_copy_explain_async(at.ferry, &copy, row.options, at.stream, &explanation, nullptr));
        return explanation;
    };
    for (const auto &one : copy_table) // no copy of this instance has been late
        if (one.bytes == large) {
            EXPECT_EQ(explain(one).blocks, one.on_idle) << one.name;
        }
    for (const auto &one : copy_table) {
        SCOPED_TRACE(one.name);
        const ferry_copy_desc copy = describe_row(one);
        const bytes data = random_bytes(one.bytes, 3), zeros(one.bytes);
        EXPECT_OK(ferry_copy_async(at.ferry, &copy, one.options, stream, nullptr, nullptr)); // first-use work
        EXPECT_OK(raw().cuStreamSynchronize(stream));
        set(one.from, data);
        set(one.to, zeros);
        const ferry_explanation explanation = explain(one);
        EXPECT_EQ(explanation.blocks, wait_on_idle(one, explanation.route)) << describe(explanation);
        ferry_ticket *ticket = nullptr;
        auto taken = sized<ferry_ticket_info>();
        driver.reset_counts();
        ASSERT_OK(ferry_copy_async(at.ferry, &copy, one.options, stream, &ticket, nullptr));
        const bool has_waited = waits_made() != 0;
        EXPECT_OK(ferry_ticket_get_info(ticket, &taken, nullptr)); // the prediction may have changed
        const std::int32_t wait = wait_on_idle(one, taken.route);
        EXPECT_TRUE(wait != FERRY_BLOCKS_NO || !has_waited);
        if (wait == FERRY_BLOCKS_UNTIL_STAGED || one.options == read_in_the_call) set(one.from, zeros);
        EXPECT_TRUE(wait != FERRY_BLOCKS_UNTIL_DONE || get(one.to, one.bytes) == data) << "the copy is not complete";
        EXPECT_OK(ferry_ticket_release(ticket, nullptr));
        EXPECT_OK(raw().cuStreamSynchronize(stream));
        EXPECT_TRUE(get(one.to, one.bytes) == data);
    }
}

TEST_F(blocking_classes, a_staged_copy_waits_on_an_idle_stream_for_its_pages_only_if_the_options_require_it) {
    if (!has_kernels()) GTEST_SKIP() << "the driver has no kernels";
    EXPECT_OK(ferry_staging_prepare(counted.get(), 0, nullptr));
    const device_memory there(large);
    const struct {
        bool is_up;
        how options;
        bool waits;
    } cases[] = {{true, ordinary, false},
                 {false, ordinary, false},
                 {true, read_in_the_call, true},
                 {false, written_in_the_call, true}};
    for (const auto &one : cases) {
        SCOPED_TRACE(testing::Message() << (one.is_up ? "from" : "to") << " pageable memory, " << one.options);
        const bytes data = random_bytes(large, 5), other = random_bytes(large, 6);
        write_for_all_streams(there, other);
        stuck_pages stuck(1, large, 5);
        const auto pages = reinterpret_cast<std::uintptr_t>(stuck.data);
        const ferry_copy_desc copy = one.is_up ? contiguous(there, pages, large) : contiguous(pages, there, large);
        running_call running(
            [&] { return ferry_copy_async(counted.get(), &copy, one.options | by_staging, stream, nullptr, nullptr); },
            context);
        if (one.waits)
            EXPECT_FALSE(running.has_returned_after(time_to_see_a_wait)) << "the call does not wait";
        else
            EXPECT_TRUE(running.has_returned_after(patience)) << "the call waits";
        stuck.release();
        EXPECT_OK(running.status());
        EXPECT_OK(raw().cuStreamSynchronize(stream));
        const bytes arrived = one.is_up ? read_back(there, large) : bytes(stuck.data, stuck.data + large);
        EXPECT_TRUE(arrived == (one.is_up ? data : other));
    }
}

} // namespace
} // namespace ferry::test
