// Tests sharing memory, pools and events with another process through ferry. The second process is a fresh start of
// this program on the same driver. It plays the role defined above each test.
#include <csignal>
#include <cstring>
#include <functional>
#include <thread>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "memory/ipc_handle.h"
#include "support/fault_driver.h"
#include "support/gate.h"
#include "support/raw_objects.h"
#include "support/second_process.h"
#include "support/system.h"

namespace ferry::test {
namespace {

constexpr std::size_t small = 64 << 10;

struct ferry_memory {
    ferry_memory(ferry_instance *instance, std::uint64_t size) : instance(instance) {
        EXPECT_OK(ferry_device_alloc(instance, 0, size, &address, nullptr));
    }
    ~ferry_memory() { EXPECT_OK(ferry_device_free(instance, address, nullptr)); }
    ferry_memory(const ferry_memory &) = delete;
    operator std::uint64_t() const { return address; }
    ferry_instance *instance;
    std::uint64_t address = 0;
};

struct ferry_event {
    explicit ferry_event(ferry_instance *instance,
                         std::uint32_t flags = FERRY_EVENT_INTERPROCESS | FERRY_EVENT_DISABLE_TIMING, int device = 0)
        : instance(instance) {
        EXPECT_OK(ferry_event_create(instance, device, flags, &handle, nullptr));
    }
    ~ferry_event() { EXPECT_OK(ferry_event_destroy(instance, handle, nullptr)); }
    ferry_event(const ferry_event &) = delete;
    operator CUevent_st *() const { return handle; }
    ferry_instance *instance;
    CUevent_st *handle = nullptr;
};

// A pool for other processes, with the handle and the descriptor to send.
struct shared_pool {
    explicit shared_pool(ferry_instance *instance, std::uint32_t handle_types = FERRY_HANDLE_POSIX_FD)
        : instance(instance) {
        ferry_pool_desc desc = {};
        desc.struct_size = sizeof desc;
        desc.handle_types = handle_types;
        EXPECT_OK(ferry_pool_create(instance, &desc, &pool, nullptr));
        if (!handle_types) return;
        std::int64_t os_handle = 0;
        EXPECT_OK(ferry_ipc_export_pool(instance, pool, FERRY_HANDLE_POSIX_FD, &handle, &os_handle, nullptr));
        descriptor = static_cast<int>(os_handle);
    }
    ~shared_pool() {
        if (descriptor >= 0) {
            EXPECT_EQ(close(descriptor), 0);
        }
        EXPECT_OK(ferry_pool_destroy(instance, pool, nullptr));
    }
    shared_pool(const shared_pool &) = delete;
    std::uint64_t allocate(std::uint64_t size) const {
        std::uint64_t address = 0;
        EXPECT_OK(ferry_pool_alloc_async(instance, pool, size, nullptr, &address, nullptr));
        EXPECT_OK(raw().cuCtxSynchronize());
        return address;
    }
    void send_to(second_process &other) const {
        other->send(handle);
        other->send_descriptor(descriptor);
    }
    ferry_instance *instance;
    CUmemPoolHandle_st *pool = nullptr;
    ferry_ipc_handle handle = {};
    int descriptor = -1;
};

bool has_pools(ferry_instance *instance) {
    ferry_device_info info = {};
    info.struct_size = sizeof info;
    EXPECT_OK(ferry_device_get_info(instance, 0, &info, nullptr));
    return info.memory_pools && info.pool_handle_types & FERRY_HANDLE_POSIX_FD;
}

CUmemPoolHandle_st *receive_pool(channel &channel, ferry_instance *instance) {
    const auto handle = channel.receive<ferry_ipc_handle>();
    const int descriptor = channel.receive_descriptor();
    CUmemPoolHandle_st *pool = nullptr;
    EXPECT_OK(ferry_ipc_import_pool(instance, &handle, descriptor, &pool, nullptr));
    EXPECT_EQ(close(descriptor), 0);
    return pool;
}

ferry_ipc_handle export_memory(ferry_instance *instance, std::uint64_t address, std::uint64_t size = 0) {
    ferry_ipc_handle handle = {};
    ferry_error_info error = new_error();
    EXPECT_OK(ferry_ipc_export_memory(instance, address, size, &handle, &error)) << describe(error);
    return handle;
}

ferry_ipc_handle export_event(ferry_instance *instance, CUevent_st *event) {
    ferry_ipc_handle handle = {};
    EXPECT_OK(ferry_ipc_export_event(instance, event, &handle, nullptr));
    return handle;
}

std::uint64_t import_memory(ferry_instance *instance, const ferry_ipc_handle &handle) {
    std::uint64_t address = 0;
    ferry_error_info error = new_error();
    EXPECT_OK(ferry_ipc_import_memory(instance, &handle, &address, &error)) << describe(error);
    return address;
}

CUevent_st *import_event(ferry_instance *instance, const ferry_ipc_handle &handle) {
    CUevent_st *event = nullptr;
    EXPECT_OK(ferry_ipc_import_event(instance, &handle, &event, nullptr));
    return event;
}

// Returns the handle as it would be with `change` made to its contents, with a correct checksum.
template <class Change> ferry_ipc_handle forge(const ferry_ipc_handle &handle, Change change) {
    handle_contents contents;
    EXPECT_OK(decode(handle, contents).status);
    change(contents);
    ferry_ipc_handle forged;
    encode(contents, forged);
    return forged;
}

void fill(std::uint64_t address, unsigned char value, std::size_t size) {
    EXPECT_OK(raw().cuMemsetD8(address, value, size));
    EXPECT_OK(raw().cuCtxSynchronize());
}

// Shares a pool and memory of the pool, if the driver has pools, and waits until the other process has ended well.
void share_pool_and_wait(ferry_instance *instance, second_process &other) {
    if (!has_pools(instance)) {
        EXPECT_EQ(other.wait(), 0);
        return;
    }
    shared_pool pool(instance);
    const std::uint64_t pooled = pool.allocate(small);
    fill(pooled, 1, small);
    pool.send_to(other);
    other->send(export_memory(instance, pooled));
    EXPECT_EQ(other.wait(), 0);
    EXPECT_OK(ferry_device_free(instance, pooled, nullptr));
}

bool holds(std::uint64_t address, unsigned char value, std::size_t size) {
    return read_back(address, size) == bytes(size, std::byte{value});
}

// The number of objects that the driver was called to open.
int openings(const fault_driver &driver) {
    return driver.calls("cuIpcOpenMemHandle") + driver.calls("cuIpcOpenEventHandle") +
           driver.calls("cuMemPoolImportFromShareableHandle") + driver.calls("cuMemPoolImportPointer");
}

// Tries all three imports, one of which is for the handle's kind.
void expect_no_import(ferry_instance *instance, const ferry_ipc_handle &handle, std::int32_t status) {
    std::uint64_t address = 7;
    CUmemPoolHandle_st *pool = reinterpret_cast<CUmemPoolHandle_st *>(7);
    CUevent_st *event = reinterpret_cast<CUevent_st *>(7);
    ferry_error_info error = new_error();
    expect_refusal(ferry_ipc_import_memory(instance, &handle, &address, &error), error, status, FERRY_SIDE_NONE,
                   FERRY_FIELD_HANDLE);
    expect_refusal(ferry_ipc_import_pool(instance, &handle, -1, &pool, &error), error, status, FERRY_SIDE_NONE,
                   FERRY_FIELD_HANDLE);
    expect_refusal(ferry_ipc_import_event(instance, &handle, &event, &error), error, status, FERRY_SIDE_NONE,
                   FERRY_FIELD_HANDLE);
    EXPECT_EQ(address, 0u);
    EXPECT_EQ(pool, nullptr);
    EXPECT_EQ(event, nullptr);
}

// Lets each driver call that `call` makes fail in turn. Expects `call` to report each failure and to leave the current
// context as it was. `undo` reverses a successful `call`.
void let_each_call_fail(fault_driver &driver, const std::function<std::int32_t()> &call,
                        const std::function<void()> &undo) {
    EXPECT_OK(call()); // the first call creates contexts and records
    undo();
    driver.reset_counts();
    EXPECT_OK(call());
    int counts[driver_symbol_count];
    for (int row = 0; row < driver_symbol_count; ++row)
        counts[row] = driver.calls(driver_symbols[row].name);
    undo();
    for (int row = 0; row < driver_symbol_count; ++row)
        for (int nth = 1; nth <= counts[row]; ++nth) {
            const std::string name = driver_symbols[row].name;
            // A failure to restore the capture mode cannot be reported.
            if (name == "cuThreadExchangeStreamCaptureMode" && nth % 2 == 0) continue;
            CUcontext before = nullptr, after = nullptr;
            EXPECT_OK(raw().cuCtxGetCurrent(&before));
            driver.fail(name.c_str(), CUDA_ERROR_OUT_OF_MEMORY, nth);
            EXPECT_EQ(call(), FERRY_STATUS_DRIVER_BASE - CUDA_ERROR_OUT_OF_MEMORY) << name << ", call " << nth;
            driver.heal();
            EXPECT_OK(raw().cuCtxGetCurrent(&after));
            EXPECT_EQ(after, before) << name;
            EXPECT_OK(call()) << "after " << name << ", call " << nth;
            undo();
        }
}

class ipc : public ferry_test {};

class ipc_between_processes : public ipc {};

// ---- Handles

TEST_F(ipc, a_handle_describes_what_it_names) {
    ferry_memory memory(basic.get(), small);
    const ferry_ipc_handle handle = export_memory(basic.get(), memory + 100);
    ferry_device_info device = {};
    device.struct_size = sizeof device;
    ASSERT_OK(ferry_device_get_info(basic.get(), 0, &device, nullptr));
    ferry_ipc_info info = {};
    info.struct_size = sizeof info;
    ASSERT_OK(ferry_ipc_get_info(full.get(), &handle, &info, nullptr));
    EXPECT_EQ(info.kind, FERRY_IPC_MEMORY);
    EXPECT_EQ(info.device, 0);
    EXPECT_EQ(info.handle_types, 0u);
    EXPECT_EQ(info.size, small - 100);
    EXPECT_EQ(info.process, static_cast<std::uint64_t>(getpid()));
    EXPECT_EQ(std::memcmp(info.device_uuid, device.uuid, sizeof device.uuid), 0);
    EXPECT_EQ(info.is_own, 1);

    ferry_event event(basic.get());
    const ferry_ipc_handle of_event = export_event(basic.get(), event);
    ASSERT_OK(ferry_ipc_get_info(basic.get(), &of_event, &info, nullptr));
    EXPECT_EQ(info.kind, FERRY_IPC_EVENT);
    EXPECT_EQ(info.device, 0);
    EXPECT_EQ(info.size, 0u);

    info.struct_size = 4;
    EXPECT_EQ(ferry_ipc_get_info(basic.get(), &handle, &info, nullptr), FERRY_ERROR_ABI_MISMATCH);
    EXPECT_EQ(ferry_ipc_get_info(basic.get(), &handle, nullptr, nullptr), FERRY_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(ferry_ipc_get_info(basic.get(), nullptr, &info, nullptr), FERRY_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(ferry_ipc_get_info(nullptr, &handle, &info, nullptr), FERRY_ERROR_INVALID_ARGUMENT);
}

TEST_F(ipc, damaged_and_truncated_handles_are_refused) {
    ferry_memory memory(basic.get(), small);
    const ferry_ipc_handle handle = export_memory(basic.get(), memory);
    fault_driver driver(raw_entry_points());
    const instance_owner counted = open_or_fail(driver.options());
    ferry_ipc_info info = {};
    info.struct_size = sizeof info;
    for (std::size_t i = 0; i < FERRY_IPC_HANDLE_SIZE; ++i) {
        ferry_ipc_handle damaged = handle;
        damaged.bytes[i] ^= 0x10;
        EXPECT_EQ(ferry_ipc_get_info(counted.get(), &damaged, &info, nullptr), FERRY_ERROR_HANDLE) << "byte " << i;
        expect_no_import(counted.get(), damaged, FERRY_ERROR_HANDLE);
        ferry_ipc_handle cut_off = handle; // as if only the first i bytes had arrived
        std::memset(cut_off.bytes + i, 0, sizeof cut_off.bytes - i);
        if (std::memcmp(&cut_off, &handle, sizeof handle) == 0) continue; // the checksum ends in zeros
        expect_no_import(counted.get(), cut_off, FERRY_ERROR_HANDLE);
    }
    EXPECT_EQ(openings(driver), 0);
}

TEST_F(ipc, a_handle_of_a_later_version_is_refused_with_both_versions) {
    ferry_memory memory(basic.get(), small);
    ferry_ipc_handle later = export_memory(basic.get(), memory);
    later.bytes[8] = 2;
    std::uint64_t address = 0;
    ferry_error_info error = new_error();
    EXPECT_EQ(ferry_ipc_import_memory(basic.get(), &later, &address, &error), FERRY_ERROR_HANDLE);
    EXPECT_EQ(error.value, 2u);
    EXPECT_EQ(error.limit, 1u);
    EXPECT_EQ(describe(error), "handle: 2, unlike this library's 1 (FERRY_ERROR_HANDLE)");
}

TEST_F(ipc, handles_that_cannot_be_valid_here_are_refused_before_the_driver_opens_anything) {
    ferry_memory memory(basic.get(), small);
    const ferry_ipc_handle handle = export_memory(basic.get(), memory);
    fault_driver driver(raw_entry_points());
    const instance_owner counted = open_or_fail(driver.options());
    for (const std::int32_t kind : {FERRY_IPC_MEMORY, FERRY_IPC_POOL, FERRY_IPC_POOL_MEMORY, FERRY_IPC_EVENT}) {
        const auto refused = [&](auto change, std::int32_t status) {
            const ferry_ipc_handle forged = forge(handle, [&](handle_contents &contents) {
                contents.kind = kind;
                contents.handle_type = FERRY_HANDLE_POSIX_FD;
                change(contents);
            });
            std::uint64_t address = 0;
            CUmemPoolHandle_st *pool = nullptr;
            CUevent_st *event = nullptr;
            ferry_error_info error = new_error();
            const auto expected = [&](bool is_of_kind) { return is_of_kind ? status : FERRY_ERROR_OTHER_KIND; };
            EXPECT_EQ(ferry_ipc_import_memory(counted.get(), &forged, &address, &error),
                      expected(kind == FERRY_IPC_MEMORY || kind == FERRY_IPC_POOL_MEMORY));
            EXPECT_EQ(error.field, FERRY_FIELD_HANDLE);
            EXPECT_EQ(ferry_ipc_import_pool(counted.get(), &forged, -1, &pool, &error),
                      expected(kind == FERRY_IPC_POOL));
            EXPECT_EQ(error.field, FERRY_FIELD_HANDLE);
            EXPECT_EQ(ferry_ipc_import_event(counted.get(), &forged, &event, &error),
                      expected(kind == FERRY_IPC_EVENT));
            EXPECT_EQ(error.field, FERRY_FIELD_HANDLE);
        };
        refused([](handle_contents &contents) { contents.exporter.machine[3] ^= 1; }, FERRY_ERROR_MACHINE);
        refused([](handle_contents &contents) { ++contents.exporter.start_time; }, FERRY_ERROR_HANDLE);
        refused([](handle_contents &contents) { contents.exporter.number = 0; }, FERRY_ERROR_HANDLE);
        refused([](handle_contents &contents) { contents.exporter.number = UINT64_MAX; }, FERRY_ERROR_HANDLE);
        refused([](handle_contents &contents) { contents.device_uuid[0] ^= 1; }, FERRY_ERROR_DEVICE);
    }
    const auto nonsense = [&](auto change) {
        expect_no_import(counted.get(), forge(handle, change), FERRY_ERROR_HANDLE);
    };
    nonsense([](handle_contents &contents) { contents.kind = 5; });
    nonsense([](handle_contents &contents) { contents.kind = 0; });
    nonsense([](handle_contents &contents) { contents.size = 0; });
    nonsense([](handle_contents &contents) { contents.offset = 1; });
    nonsense([](handle_contents &contents) { contents.offset = UINT64_MAX; });
    nonsense([](handle_contents &contents) { contents.original = UINT64_MAX; });
    nonsense([](handle_contents &contents) { contents.kind = FERRY_IPC_POOL; });
    // Pools in places that do not exist, and an event with the key of events that were never exported.
    constexpr std::int32_t places[][2] = {
        {FERRY_LOCATION_DEVICE, 0}, {FERRY_LOCATION_DEVICE, -7}, {FERRY_LOCATION_HOST_NUMA, -1}, {9, 0}};
    for (const auto &[location, index] : places) {
        const ferry_ipc_handle forged =
            forge(handle, [&, location = location, index = index](handle_contents &contents) {
                contents.kind = FERRY_IPC_POOL;
                contents.handle_type = FERRY_HANDLE_POSIX_FD;
                std::memset(contents.device_uuid, 0, sizeof contents.device_uuid);
                contents.location = location;
                contents.index = index;
            });
        CUmemPoolHandle_st *pool = nullptr;
        EXPECT_EQ(ferry_ipc_import_pool(counted.get(), &forged, -1, &pool, nullptr), FERRY_ERROR_HANDLE) << location;
    }
    CUevent_st *made = nullptr, *event = nullptr;
    ASSERT_OK(
        ferry_event_create(counted.get(), 0, FERRY_EVENT_INTERPROCESS | FERRY_EVENT_DISABLE_TIMING, &made, nullptr));
    const ferry_ipc_handle nameless = forge(handle, [](handle_contents &contents) {
        contents.kind = FERRY_IPC_EVENT;
        std::memset(contents.key, 0, sizeof contents.key);
    });
    EXPECT_EQ(ferry_ipc_import_event(counted.get(), &nameless, &event, nullptr), FERRY_ERROR_HANDLE);
    EXPECT_OK(ferry_event_destroy(counted.get(), made, nullptr));
    EXPECT_EQ(openings(driver), 0);
}

TEST_F(ipc, nulls_are_refused_and_closing_nothing_succeeds) {
    ferry_ipc_handle handle = {};
    std::uint64_t address = 7;
    std::int64_t os_handle = 7;
    CUmemPoolHandle_st *pool = nullptr;
    CUevent_st *event = nullptr;
    EXPECT_EQ(ferry_ipc_export_memory(nullptr, 1, 1, &handle, nullptr), FERRY_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(ferry_ipc_export_memory(basic.get(), 1, 1, nullptr, nullptr), FERRY_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(ferry_ipc_export_pool(basic.get(), nullptr, 1, &handle, &os_handle, nullptr),
              FERRY_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(os_handle, -1);
    EXPECT_EQ(ferry_ipc_export_event(basic.get(), nullptr, &handle, nullptr), FERRY_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(ferry_ipc_import_memory(basic.get(), nullptr, &address, nullptr), FERRY_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(address, 0u);
    EXPECT_EQ(ferry_ipc_import_memory(basic.get(), &handle, nullptr, nullptr), FERRY_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(ferry_ipc_import_pool(basic.get(), nullptr, 0, &pool, nullptr), FERRY_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(ferry_ipc_import_pool(basic.get(), &handle, 0, nullptr, nullptr), FERRY_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(ferry_ipc_import_event(basic.get(), nullptr, &event, nullptr), FERRY_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(ferry_ipc_import_event(basic.get(), &handle, nullptr, nullptr), FERRY_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(ferry_ipc_close_memory(nullptr, 0, nullptr, nullptr), FERRY_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(ferry_ipc_close_memory_deferred(nullptr, 0, nullptr, nullptr), FERRY_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(ferry_ipc_close_pool(nullptr, nullptr, nullptr), FERRY_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(ferry_ipc_close_pool_deferred(nullptr, nullptr, nullptr, nullptr), FERRY_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(ferry_ipc_close_event(nullptr, nullptr, nullptr), FERRY_ERROR_INVALID_ARGUMENT);
    EXPECT_OK(ferry_ipc_close_memory(basic.get(), 0, nullptr, nullptr));
    EXPECT_OK(ferry_ipc_close_memory_deferred(basic.get(), 0, nullptr, nullptr));
    EXPECT_OK(ferry_ipc_close_pool(basic.get(), nullptr, nullptr));
    EXPECT_OK(ferry_ipc_close_pool_deferred(basic.get(), nullptr, nullptr, nullptr));
    EXPECT_OK(ferry_ipc_close_event(basic.get(), nullptr, nullptr));
    ferry_memory memory(basic.get(), small);
    ferry_event event_here(basic.get());
    EXPECT_EQ(ferry_ipc_close_memory(basic.get(), memory, nullptr, nullptr), FERRY_ERROR_ADDRESS);
    EXPECT_EQ(ferry_ipc_close_memory_deferred(basic.get(), memory, nullptr, nullptr), FERRY_ERROR_ADDRESS);
    EXPECT_EQ(ferry_ipc_close_event(basic.get(), event_here, nullptr), FERRY_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(ferry_ipc_close_pool(basic.get(), reinterpret_cast<CUmemPoolHandle_st *>(8), nullptr), FERRY_ERROR_POOL);
    EXPECT_EQ(ferry_ipc_close_pool_deferred(basic.get(), reinterpret_cast<CUmemPoolHandle_st *>(8), nullptr, nullptr),
              FERRY_ERROR_POOL);
}

// ---- What can be shared

TEST_F(ipc, objects_that_cannot_be_shared_are_refused_by_field) {
    ferry_ipc_handle handle = {};
    ferry_error_info error = new_error();
    const auto refuses_memory = [&](std::uint64_t address, std::int32_t status, std::int32_t field) {
        expect_refusal(ferry_ipc_export_memory(basic.get(), address, 0, &handle, &error), error, status,
                       FERRY_SIDE_NONE, field);
    };
    int pageable = 0;
    refuses_memory(reinterpret_cast<std::uintptr_t>(&pageable), FERRY_ERROR_ADDRESS, FERRY_FIELD_ADDRESS);
    refuses_memory(0, FERRY_ERROR_ADDRESS, FERRY_FIELD_ADDRESS);
    pinned_memory pinned(4096);
    refuses_memory(reinterpret_cast<std::uintptr_t>(pinned.data()), FERRY_ERROR_NOT_SHAREABLE, FERRY_FIELD_ADDRESS);
    std::uint64_t managed = 0;
    ASSERT_OK(ferry_managed_alloc(basic.get(), 0, 4096, &managed, nullptr));
    refuses_memory(managed, FERRY_ERROR_NOT_SHAREABLE, FERRY_FIELD_ADDRESS);
    EXPECT_OK(ferry_device_free(basic.get(), managed, nullptr));

    for (const std::uint32_t flags : {0u, FERRY_EVENT_DISABLE_TIMING}) {
        ferry_event plain(basic.get(), flags);
        expect_refusal(ferry_ipc_export_event(basic.get(), plain, &handle, &error), error, FERRY_ERROR_NOT_SHAREABLE,
                       FERRY_SIDE_NONE, FERRY_FIELD_EVENT);
    }
    if (!has_pools(basic.get())) return;
    std::int64_t os_handle = 7;
    const auto refuses_pool = [&](CUmemPoolHandle_st *pool) {
        expect_refusal(ferry_ipc_export_pool(basic.get(), pool, FERRY_HANDLE_POSIX_FD, &handle, &os_handle, &error),
                       error, FERRY_ERROR_NOT_SHAREABLE, FERRY_SIDE_NONE, FERRY_FIELD_POOL);
        EXPECT_EQ(os_handle, -1);
    };
    CUmemPoolHandle_st *standard = nullptr;
    ASSERT_OK(ferry_pool_get_default(basic.get(), FERRY_LOCATION_DEVICE, 0, &standard, nullptr));
    refuses_pool(standard);
    shared_pool for_us_alone(basic.get(), 0);
    refuses_pool(for_us_alone.pool);
    const std::uint64_t ours = for_us_alone.allocate(4096);
    refuses_memory(ours, FERRY_ERROR_NOT_SHAREABLE, FERRY_FIELD_POOL);
    EXPECT_OK(ferry_device_free(basic.get(), ours, nullptr));
    std::uint64_t pooled = 0;
    ASSERT_OK(ferry_device_alloc_async(basic.get(), 0, 4096, nullptr, &pooled, nullptr));
    refuses_memory(pooled, FERRY_ERROR_NOT_SHAREABLE, FERRY_FIELD_POOL);
    EXPECT_OK(ferry_device_free(basic.get(), pooled, nullptr));
    shared_pool pool(basic.get());
    for (const std::uint32_t type : {0u, 3u, 16u})
        expect_refusal(ferry_ipc_export_pool(basic.get(), pool.pool, type, &handle, &os_handle, &error), error,
                       FERRY_ERROR_INVALID_ARGUMENT, FERRY_SIDE_NONE, FERRY_FIELD_HANDLE_TYPES);
    expect_refusal(ferry_ipc_export_pool(basic.get(), pool.pool, FERRY_HANDLE_FABRIC, &handle, &os_handle, &error),
                   error, FERRY_ERROR_NOT_SHAREABLE, FERRY_SIDE_NONE, FERRY_FIELD_POOL);
}

TEST_F(ipc, an_export_stays_within_its_allocation) {
    ferry_memory memory(basic.get(), small);
    ferry_ipc_handle handle = {};
    ferry_error_info error = new_error();
    EXPECT_OK(ferry_ipc_export_memory(basic.get(), memory + 10, small - 10, &handle, nullptr));
    for (const std::uint64_t size : {small - 9, UINT64_MAX}) {
        expect_refusal(ferry_ipc_export_memory(basic.get(), memory + 10, size, &handle, &error), error,
                       FERRY_ERROR_OUT_OF_BOUNDS, FERRY_SIDE_NONE, FERRY_FIELD_SIZE);
        EXPECT_EQ(error.limit, small - 10);
        EXPECT_EQ(error.value, size);
    }
}

// ---- Imports in the exporting process

TEST_F(ipc, own_memory_is_imported_as_itself_and_counted) {
    auto memory = std::make_unique<ferry_memory>(basic.get(), small);
    const std::uint64_t address = *memory;
    const ferry_ipc_handle handle = export_memory(basic.get(), address + 4096, 100);
    EXPECT_EQ(import_memory(basic.get(), handle), address + 4096);
    EXPECT_EQ(import_memory(basic.get(), export_memory(basic.get(), address)), address);
    EXPECT_EQ(import_memory(full.get(), handle), address + 4096) << "another instance of this process";
    EXPECT_OK(ferry_ipc_close_memory(full.get(), address + 4096, nullptr, nullptr));
    EXPECT_OK(ferry_ipc_close_memory(basic.get(), address + 4096, nullptr, nullptr));
    EXPECT_OK(ferry_ipc_close_memory(basic.get(), address, nullptr, nullptr));
    EXPECT_EQ(ferry_ipc_close_memory(basic.get(), address, nullptr, nullptr), FERRY_ERROR_ADDRESS);
    fill(address, 1, small);
    EXPECT_TRUE(holds(address, 1, small)) << "closing must not free the memory";
    EXPECT_EQ(import_memory(basic.get(), handle), address + 4096);
    memory.reset();
    EXPECT_OK(ferry_ipc_close_memory(basic.get(), address + 4096, nullptr, nullptr)) << "the memory was freed first";
    std::uint64_t outdated = 7;
    EXPECT_EQ(ferry_ipc_import_memory(basic.get(), &handle, &outdated, nullptr), FERRY_ERROR_HANDLE);
    EXPECT_EQ(outdated, 0u);
    ferry_memory in_its_place(basic.get(), small);
    EXPECT_EQ(ferry_ipc_import_memory(basic.get(), &handle, &outdated, nullptr), FERRY_ERROR_HANDLE);
}

TEST_F(ipc, own_events_are_imported_as_themselves_and_counted) {
    auto event = std::make_unique<ferry_event>(basic.get());
    const ferry_ipc_handle handle = export_event(basic.get(), *event);
    CUevent_st *const first = import_event(basic.get(), handle), *const second = import_event(basic.get(), handle);
    EXPECT_EQ(first, event->handle);
    EXPECT_EQ(second, event->handle);
    EXPECT_OK(ferry_ipc_close_event(basic.get(), first, nullptr));
    EXPECT_OK(ferry_ipc_close_event(basic.get(), second, nullptr));
    EXPECT_EQ(ferry_ipc_close_event(basic.get(), first, nullptr), FERRY_ERROR_INVALID_ARGUMENT);
    EXPECT_OK(ferry_event_record(basic.get(), *event, nullptr, nullptr));
    EXPECT_OK(ferry_event_synchronize(basic.get(), *event, nullptr));
    CUevent_st *refused = first;
    EXPECT_EQ(ferry_ipc_import_event(full.get(), &handle, &refused, nullptr), FERRY_ERROR_HANDLE)
        << "another instance cannot know whether the event still exists";
    EXPECT_EQ(refused, nullptr);
    event.reset();
    EXPECT_EQ(ferry_ipc_import_event(basic.get(), &handle, &refused, nullptr), FERRY_ERROR_HANDLE);
}

TEST_F(ipc, own_pools_are_imported_as_themselves_and_counted) {
    if (!has_pools(basic.get())) GTEST_SKIP() << "the driver cannot share pools";
    auto pool = std::make_unique<shared_pool>(basic.get());
    const ferry_ipc_handle handle = pool->handle;
    const std::uint64_t address = pool->allocate(small);
    const ferry_ipc_handle of_memory = export_memory(basic.get(), address + 100);
    EXPECT_EQ(import_memory(basic.get(), of_memory), address + 100);
    EXPECT_OK(ferry_ipc_close_memory(basic.get(), address, nullptr, nullptr));
    CUmemPoolHandle_st *imported = nullptr;
    for (int i = 0; i < 2; ++i) {
        EXPECT_OK(ferry_ipc_import_pool(basic.get(), &handle, -1, &imported, nullptr));
        EXPECT_EQ(imported, pool->pool);
    }
    EXPECT_OK(ferry_ipc_close_pool(basic.get(), imported, nullptr));
    EXPECT_OK(ferry_ipc_close_pool(basic.get(), imported, nullptr));
    EXPECT_EQ(ferry_ipc_close_pool(basic.get(), imported, nullptr), FERRY_ERROR_POOL);
    EXPECT_OK(ferry_ipc_import_pool(full.get(), &handle, pool->descriptor, &imported, nullptr));
    EXPECT_NE(imported, pool->pool) << "another instance imports through the driver";
    EXPECT_OK(ferry_ipc_close_pool_deferred(full.get(), imported, nullptr, nullptr));
    EXPECT_EQ(ferry_ipc_close_pool_deferred(full.get(), imported, nullptr, nullptr), FERRY_ERROR_POOL);
    fill(address, 1, small);
    EXPECT_OK(ferry_device_free(basic.get(), address, nullptr));
    pool.reset();
    ferry_error_info error = new_error();
    expect_refusal(ferry_ipc_import_pool(basic.get(), &handle, -1, &imported, &error), error, FERRY_ERROR_HANDLE,
                   FERRY_SIDE_NONE, FERRY_FIELD_OS_HANDLE);
}

// ---- Memory

FERRY_SECOND_PROCESS(imports_parts_of_one_allocation) {
    fault_driver driver(raw_entry_points());
    const instance_owner ferry = open_or_fail(driver.options());
    const auto whole = channel.receive<ferry_ipc_handle>(), part = channel.receive<ferry_ipc_handle>();
    ferry_ipc_info info = {};
    info.struct_size = sizeof info;
    EXPECT_OK(ferry_ipc_get_info(ferry.get(), &part, &info, nullptr));
    EXPECT_EQ(info.size, 1000u);
    EXPECT_EQ(info.is_own, 0);
    const std::uint64_t start = import_memory(ferry.get(), whole), inside = import_memory(ferry.get(), part);
    EXPECT_EQ(driver.calls("cuIpcOpenMemHandle"), 1) << "both imports share one mapping";
    EXPECT_EQ(inside, start + 5000);
    EXPECT_TRUE(holds(start, 1, 5000));
    EXPECT_TRUE(holds(inside, 2, 1000));
    EXPECT_TRUE(holds(inside + 1000, 1, small - 6000));
    fill(inside, 3, 1000);
    ferry_ipc_handle again = {};
    ferry_error_info error = new_error();
    expect_refusal(ferry_ipc_export_memory(ferry.get(), start, 0, &again, &error), error, FERRY_ERROR_NOT_SHAREABLE,
                   FERRY_SIDE_NONE, FERRY_FIELD_ADDRESS);
    EXPECT_OK(ferry_ipc_close_memory(ferry.get(), inside + 999, nullptr, nullptr)) << "any address inside the import";
    EXPECT_EQ(driver.calls("cuIpcCloseMemHandle"), 0);
    EXPECT_TRUE(holds(start, 1, 5000)) << "imported twice, closed once";
    EXPECT_OK(ferry_ipc_close_memory(ferry.get(), start, nullptr, nullptr));
    EXPECT_EQ(driver.calls("cuIpcCloseMemHandle"), 1);
    EXPECT_EQ(ferry_ipc_close_memory(ferry.get(), start, nullptr, nullptr), FERRY_ERROR_ADDRESS);
    ferry_address_info address_info = {};
    address_info.struct_size = sizeof address_info;
    EXPECT_OK(ferry_address_get_info(ferry.get(), start, &address_info, nullptr));
    EXPECT_EQ(address_info.memory, FERRY_MEMORY_PAGEABLE) << "the mapping is gone";
    return 0;
}

TEST_F(ipc_between_processes, handles_carry_offset_and_size_and_share_one_mapping_per_allocation) {
    ferry_memory before(basic.get(), 1000), memory(basic.get(), small);
    fill(memory, 1, small);
    fill(memory + 5000, 2, 1000);
    second_process other("imports_parts_of_one_allocation");
    other->send(export_memory(basic.get(), memory));
    other->send(export_memory(basic.get(), memory + 5000, 1000));
    EXPECT_EQ(other.wait(), 0);
    EXPECT_TRUE(holds(memory + 5000, 3, 1000));
    EXPECT_TRUE(holds(memory, 1, 5000));
}

FERRY_SECOND_PROCESS(closes_imports_behind_a_stream) {
    fault_driver driver(raw_entry_points());
    instance_owner ferry = open_or_fail(driver.options());
    const auto handle = channel.receive<ferry_ipc_handle>();
    const test_stream stream;
    const auto count_kept = [&] {
        ferry_deferred_info info = {};
        info.struct_size = sizeof info;
        EXPECT_OK(ferry_deferred_get_info(ferry.get(), FERRY_DEVICE_UNKNOWN, &info, nullptr));
        return info.allocations;
    };
    const auto close = [&](std::uint64_t address) {
        return ferry_ipc_close_memory_deferred(ferry.get(), address, stream, nullptr);
    };
    const std::uint64_t address = import_memory(ferry.get(), handle);
    EXPECT_EQ(import_memory(ferry.get(), handle), address);
    {
        gate held(stream);
        EXPECT_OK(close(address));
        EXPECT_EQ(count_kept(), 0u) << "imported twice, closed once";
        EXPECT_OK(close(address + 100)); // a call that waits would never return: the gate is closed
        EXPECT_EQ(close(address), FERRY_ERROR_ADDRESS);
        EXPECT_EQ(ferry_ipc_close_memory(ferry.get(), address, nullptr, nullptr), FERRY_ERROR_ADDRESS);
        EXPECT_NE(ferry_device_free(ferry.get(), address, nullptr), FERRY_SUCCESS);
        EXPECT_OK(ferry_deferred_trim(ferry.get(), FERRY_DEVICE_UNKNOWN, 0, nullptr));
        EXPECT_EQ(count_kept(), 1u);
        EXPECT_EQ(driver.calls("cuIpcCloseMemHandle"), 0);
        const std::uint64_t again = import_memory(ferry.get(), handle);
        EXPECT_OK(close(again));
        EXPECT_EQ(count_kept(), 2u);
    }
    EXPECT_OK(ferry_deferred_trim(ferry.get(), FERRY_DEVICE_UNKNOWN, 0, nullptr));
    EXPECT_EQ(count_kept(), 0u);
    EXPECT_EQ(driver.calls("cuIpcCloseMemHandle"), driver.calls("cuIpcOpenMemHandle"));
    ferry_address_info info = {};
    info.struct_size = sizeof info;
    EXPECT_OK(ferry_address_get_info(ferry.get(), address, &info, nullptr));
    EXPECT_EQ(info.memory, FERRY_MEMORY_PAGEABLE) << "the mapping is gone";

    const std::uint64_t refused = import_memory(ferry.get(), handle);
    driver.fail("cuEventRecord", CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(close(refused), -1000 - CUDA_ERROR_OUT_OF_MEMORY);
    driver.heal();
    EXPECT_TRUE(holds(refused, 1, small)) << "the import is still open";
    driver.fail("cuIpcCloseMemHandle", CUDA_ERROR_UNKNOWN);
    EXPECT_OK(close(refused));
    EXPECT_OK(raw().cuStreamSynchronize(stream));
    EXPECT_EQ(ferry_deferred_trim(ferry.get(), FERRY_DEVICE_UNKNOWN, 0, nullptr), -1000 - CUDA_ERROR_UNKNOWN);
    EXPECT_EQ(count_kept(), 1u) << "what the driver does not unmap stays";
    driver.heal();
    EXPECT_OK(ferry_deferred_trim(ferry.get(), FERRY_DEVICE_UNKNOWN, 0, nullptr));

    EXPECT_OK(close(import_memory(ferry.get(), handle)));
    driver.reset_counts();
    ferry.reset();
    EXPECT_EQ(driver.calls("cuIpcCloseMemHandle"), 1) << "ferry_close ends what is kept";
    return 0;
}

TEST_F(ipc_between_processes, imports_are_closed_behind_a_stream_and_without_waiting) {
    ferry_memory memory(basic.get(), small);
    fill(memory, 1, small);
    second_process other("closes_imports_behind_a_stream");
    other->send(export_memory(basic.get(), memory));
    EXPECT_EQ(other.wait(), 0);
}

FERRY_SECOND_PROCESS(imports_through_two_instances) {
    const instance_owner first = open_or_fail(options_under_test()), second = open_or_fail(options_under_test());
    const auto handle = channel.receive<ferry_ipc_handle>();
    const std::uint64_t address = import_memory(first.get(), handle);
    EXPECT_EQ(import_memory(second.get(), handle), address);
    EXPECT_OK(ferry_ipc_close_memory(first.get(), address, nullptr, nullptr));
    EXPECT_EQ(ferry_ipc_close_memory(first.get(), address, nullptr, nullptr), FERRY_ERROR_ADDRESS);
    EXPECT_TRUE(holds(address, 1, small)) << "the other instance still has its import";
    ferry_ipc_handle again = {};
    EXPECT_EQ(ferry_ipc_export_memory(first.get(), address, 0, &again, nullptr), FERRY_ERROR_NOT_SHAREABLE);
    EXPECT_OK(ferry_ipc_close_memory(second.get(), address, nullptr, nullptr));
    return 0;
}

TEST_F(ipc_between_processes, instances_of_one_process_count_their_own_imports) {
    ferry_memory memory(basic.get(), small);
    fill(memory, 1, small);
    second_process other("imports_through_two_instances");
    other->send(export_memory(basic.get(), memory));
    EXPECT_EQ(other.wait(), 0);
}

FERRY_SECOND_PROCESS(imports_without_a_context) {
    const instance_owner ferry = open_or_fail(options_under_test());
    const auto of_memory = channel.receive<ferry_ipc_handle>(), of_event = channel.receive<ferry_ipc_handle>();
    CUcontext before = nullptr, after = nullptr;
    EXPECT_OK(raw().cuCtxGetCurrent(&before));
    EXPECT_OK(raw().cuCtxSetCurrent(nullptr));
    const std::uint64_t address = import_memory(ferry.get(), of_memory);
    CUevent_st *const event = import_event(ferry.get(), of_event);
    unsigned char byte = 0;
    EXPECT_OK(ferry_copy_bytes(ferry.get(), reinterpret_cast<std::uintptr_t>(&byte), address, 1, nullptr, nullptr));
    EXPECT_EQ(byte, 1);
    EXPECT_OK(ferry_event_record(ferry.get(), event, nullptr, nullptr));
    EXPECT_OK(ferry_event_synchronize(ferry.get(), event, nullptr));
    EXPECT_OK(ferry_ipc_close_event(ferry.get(), event, nullptr));
    EXPECT_OK(ferry_ipc_close_memory(ferry.get(), address, nullptr, nullptr));
    EXPECT_OK(raw().cuCtxGetCurrent(&after));
    EXPECT_EQ(after, nullptr);
    EXPECT_OK(raw().cuCtxSetCurrent(before));
    return 0;
}

TEST_F(ipc_between_processes, a_thread_without_a_context_can_export_and_import) {
    ASSERT_OK(raw().cuCtxSetCurrent(nullptr));
    {
        std::uint64_t address = 0;
        ferry_event event(basic.get());
        ASSERT_OK(ferry_device_alloc(basic.get(), 0, small, &address, nullptr));
        const ferry_ipc_handle of_memory = export_memory(basic.get(), address);
        const ferry_ipc_handle of_event = export_event(basic.get(), event);
        CUcontext after = context;
        EXPECT_OK(raw().cuCtxGetCurrent(&after));
        EXPECT_EQ(after, nullptr);
        ASSERT_OK(raw().cuCtxSetCurrent(context));
        fill(address, 1, small);
        second_process other("imports_without_a_context");
        other->send(of_memory);
        other->send(of_event);
        EXPECT_EQ(other.wait(), 0);
        EXPECT_OK(ferry_device_free(basic.get(), address, nullptr));
    }
}

FERRY_SECOND_PROCESS(fills_in_another_context) {
    const instance_owner ferry = open_or_fail(options_under_test());
    const bool has_kernels = ferry_instance_get_proc(ferry.get(), "cuLibraryLoadData", 12000) != nullptr;
    const std::uint64_t address = import_memory(ferry.get(), channel.receive<ferry_ipc_handle>());
    const test_context second;
    const made_current current(second);
    const test_stream stream;
    ferry_place place = {};
    ferry_place_any(&place, address);
    const bytes pattern = random_bytes(8, 1);
    for (const std::uint32_t size : {1u, 4u, 8u}) { // a pattern of 8 bytes takes a kernel
        if (size == 8 && !has_kernels) continue;
        ferry_fill_desc desc;
        ferry_fill_desc_init(&desc, &place, small, 1, 1, pattern.data(), size);
        ferry_error_info error = new_error();
        const std::int32_t status = ferry_fill_async(ferry.get(), &desc, nullptr, stream, nullptr, &error);
        if (size == 8)
            EXPECT_EQ(status, FERRY_ERROR_UNSUPPORTED);
        else
            expect_refusal(status, error, FERRY_ERROR_NO_CONTEXT, FERRY_SIDE_DESTINATION, FERRY_FIELD_ADDRESS);
        EXPECT_OK(raw().cuStreamSynchronize(stream));
        EXPECT_TRUE(holds(address, 1, small));
        EXPECT_OK(ferry_fill(ferry.get(), &desc, nullptr, &error)) << describe(error);
        const bytes found = read_back(address, small);
        for (std::size_t i = 0; i < small; ++i)
            if (found[i] != pattern[i % size]) return 2;
        CUcontext after = nullptr;
        EXPECT_OK(raw().cuCtxGetCurrent(&after));
        EXPECT_EQ(after, static_cast<CUcontext>(second));
        const bytes ones(small, std::byte{1});
        EXPECT_OK(ferry_copy_bytes(ferry.get(), address, reinterpret_cast<std::uintptr_t>(ones.data()), small, nullptr,
                                   nullptr));
    }
    EXPECT_OK(ferry_ipc_close_memory(ferry.get(), address, nullptr, nullptr));
    return 0;
}

TEST_F(ipc_between_processes, imported_memory_is_filled_in_the_context_that_opened_it) {
    ferry_memory memory(basic.get(), small);
    fill(memory, 1, small);
    second_process other("fills_in_another_context");
    other->send(export_memory(basic.get(), memory));
    EXPECT_EQ(other.wait(), 0);
}

FERRY_SECOND_PROCESS(imports_memory_of_the_second_device) {
    const instance_owner ferry = open_or_fail(options_under_test());
    const auto of_memory = channel.receive<ferry_ipc_handle>(), of_event = channel.receive<ferry_ipc_handle>();
    const std::uint64_t address = import_memory(ferry.get(), of_memory);
    ferry_address_info info = {};
    info.struct_size = sizeof info;
    EXPECT_OK(ferry_address_get_info(ferry.get(), address, &info, nullptr));
    EXPECT_EQ(info.device, 1);
    CUevent_st *const event = import_event(ferry.get(), of_event);
    CUstream_st *stream = nullptr;
    EXPECT_OK(ferry_stream_create(ferry.get(), 1, FERRY_STREAM_NON_BLOCKING, 0, &stream, nullptr));
    EXPECT_OK(ferry_event_record(ferry.get(), event, stream, nullptr)) << "the event belongs to that device here, too";
    EXPECT_OK(ferry_stream_synchronize(ferry.get(), stream, nullptr));
    bytes got(small);
    EXPECT_OK(
        ferry_copy_bytes(ferry.get(), reinterpret_cast<std::uintptr_t>(got.data()), address, small, nullptr, nullptr));
    EXPECT_EQ(got, random_bytes(small, 5));
    EXPECT_OK(ferry_stream_destroy(ferry.get(), stream, nullptr));
    EXPECT_OK(ferry_ipc_close_event(ferry.get(), event, nullptr));
    EXPECT_OK(ferry_ipc_close_memory(ferry.get(), address, nullptr, nullptr));
    return 0;
}

TEST_F(ipc_between_processes, a_handle_names_its_device) {
    if (device_count() < 2) GTEST_SKIP() << "needs two devices";
    std::uint64_t address = 0;
    ASSERT_OK(ferry_device_alloc(basic.get(), 1, small, &address, nullptr));
    const bytes sent = random_bytes(small, 5);
    ASSERT_OK(
        ferry_copy_bytes(basic.get(), address, reinterpret_cast<std::uintptr_t>(sent.data()), small, nullptr, nullptr));
    ferry_event event(basic.get(), FERRY_EVENT_INTERPROCESS | FERRY_EVENT_DISABLE_TIMING, 1);
    second_process other("imports_memory_of_the_second_device");
    other->send(export_memory(basic.get(), address));
    other->send(export_event(basic.get(), event));
    EXPECT_EQ(other.wait(), 0);
    EXPECT_OK(ferry_device_free(basic.get(), address, nullptr));
}

FERRY_SECOND_PROCESS(exports_and_lives_until_told) {
    const instance_owner ferry = open_or_fail(options_under_test());
    constexpr std::size_t size = 16 << 20;
    std::uint64_t address = 0;
    CUevent_st *event = nullptr;
    EXPECT_OK(ferry_device_alloc(ferry.get(), 0, size, &address, nullptr));
    EXPECT_OK(
        ferry_event_create(ferry.get(), 0, FERRY_EVENT_INTERPROCESS | FERRY_EVENT_DISABLE_TIMING, &event, nullptr));
    fill(address, 6, size);
    channel.send(export_memory(ferry.get(), address));
    channel.send(export_event(ferry.get(), event));
    channel.await();
    return 0;
}

TEST_F(ipc_between_processes, imported_memory_stays_valid_if_its_exporter_dies_during_copies) {
    constexpr std::size_t size = 16 << 20;
    second_process other("exports_and_lives_until_told");
    const std::uint64_t address = import_memory(basic.get(), other->receive<ferry_ipc_handle>());
    ferry_memory copy(basic.get(), size);
    test_stream stream;
    {
        gate held(stream);
        for (int i = 0; i < 8; ++i)
            ASSERT_OK(ferry_copy_bytes_async(basic.get(), copy, address, size, nullptr, stream, nullptr, nullptr));
        other.kill();
    }
    EXPECT_OK(ferry_stream_synchronize(basic.get(), stream, nullptr));
    EXPECT_TRUE(holds(copy, 6, size));
    EXPECT_TRUE(holds(address, 6, size));
    EXPECT_OK(ferry_ipc_close_memory(basic.get(), address, nullptr, nullptr));
    EXPECT_OK(raw().cuCtxSynchronize());
}

// A killed process keeps its number until its parent has waited for it.
TEST(process_identity, a_process_that_has_ended_is_recognised_even_if_its_number_is_reused) {
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
        const ferry::process_identity itself = ferry::own_process();
        if (::write(ends[1], &itself, sizeof itself) == sizeof itself) pause();
        _exit(1);
    }
    ferry::process_identity other = {};
    ASSERT_EQ(read(ends[0], &other, sizeof other), static_cast<ssize_t>(sizeof other));
    const ferry::process_identity own = ferry::own_process();
    EXPECT_EQ(other.number, static_cast<std::uint64_t>(child));
    EXPECT_TRUE(ferry::is_same_machine(other, own));
    EXPECT_FALSE(ferry::is_same(other, own));
    EXPECT_FALSE(ferry::is_gone(other, own));
    ferry::process_identity earlier = other, foreign = other;
    --earlier.start_time;
    ++foreign.number_space;
    EXPECT_TRUE(ferry::is_gone(earlier, own));
    EXPECT_EQ(kill(child, SIGKILL), 0);
    siginfo_t ended = {};
    EXPECT_EQ(waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT), 0);
    EXPECT_TRUE(ferry::is_gone(other, own)) << "dead, but its parent has not waited yet";
    EXPECT_EQ(waitpid(child, nullptr, 0), child);
    EXPECT_TRUE(ferry::is_gone(other, own));
    EXPECT_FALSE(ferry::is_gone(foreign, own)) << "processes of another namespace are unknown";
    close(ends[0]);
    close(ends[1]);
}

FERRY_SECOND_PROCESS(imports_into_a_context_that_ends) {
    const instance_owner ferry = open_or_fail(options_under_test());
    const auto of_memory = channel.receive<ferry_ipc_handle>(), of_event = channel.receive<ferry_ipc_handle>();
    CUctx_st *adopted = nullptr;
    EXPECT_OK(ferry_context_create(ferry.get(), 0, 0, &adopted, nullptr));
    EXPECT_OK(ferry_context_adopt(ferry.get(), 0, adopted, nullptr));
    const std::uint64_t there = import_memory(ferry.get(), of_memory);
    CUevent_st *const event = import_event(ferry.get(), of_event);
    EXPECT_OK(ferry_context_destroy(ferry.get(), adopted, nullptr));
    EXPECT_EQ(ferry_ipc_close_memory(ferry.get(), there, nullptr, nullptr), FERRY_ERROR_ADDRESS);
    EXPECT_EQ(ferry_ipc_close_event(ferry.get(), event, nullptr), FERRY_ERROR_INVALID_ARGUMENT);
    const std::uint64_t here = import_memory(ferry.get(), of_memory);
    EXPECT_TRUE(holds(here, 1, small)) << "opened again, in the primary context";
    EXPECT_OK(ferry_ipc_close_memory(ferry.get(), here, nullptr, nullptr));
    return 0;
}

TEST_F(ipc_between_processes, imports_end_with_the_context_that_opened_them) {
    ferry_memory memory(basic.get(), small);
    fill(memory, 1, small);
    ferry_event event(basic.get());
    second_process other("imports_into_a_context_that_ends");
    other->send(export_memory(basic.get(), memory));
    other->send(export_event(basic.get(), event));
    EXPECT_EQ(other.wait(), 0);
}

TEST_F(ipc_between_processes, handles_of_a_dead_exporter_are_refused) {
    second_process other("exports_and_lives_until_told");
    const auto of_memory = other->receive<ferry_ipc_handle>(), of_event = other->receive<ferry_ipc_handle>();
    fault_driver driver(raw_entry_points());
    const instance_owner counted = open_or_fail(driver.options());
    const std::uint64_t address = import_memory(counted.get(), of_memory);
    other.kill();
    driver.reset_counts();
    std::uint64_t refused = 7;
    CUevent_st *event = nullptr;
    ferry_error_info error = new_error();
    expect_refusal(ferry_ipc_import_memory(counted.get(), &of_memory, &refused, &error), error, FERRY_ERROR_HANDLE,
                   FERRY_SIDE_NONE, FERRY_FIELD_HANDLE);
    expect_refusal(ferry_ipc_import_event(counted.get(), &of_event, &event, &error), error, FERRY_ERROR_HANDLE,
                   FERRY_SIDE_NONE, FERRY_FIELD_HANDLE);
    EXPECT_EQ(openings(driver), 0);
    EXPECT_OK(ferry_ipc_close_memory(counted.get(), address, nullptr, nullptr));
}

FERRY_SECOND_PROCESS(exports_what_it_has_freed) {
    const instance_owner ferry = open_or_fail(options_under_test());
    std::uint64_t address = 0;
    EXPECT_OK(ferry_device_alloc(ferry.get(), 0, small, &address, nullptr));
    const ferry_ipc_handle handle = export_memory(ferry.get(), address);
    EXPECT_OK(ferry_device_free(ferry.get(), address, nullptr));
    channel.send(handle);
    channel.await();
    return 0;
}

TEST_F(ipc_between_processes, memory_that_its_exporter_has_freed_is_refused) {
    second_process other("exports_what_it_has_freed");
    const auto handle = other->receive<ferry_ipc_handle>();
    std::uint64_t address = 0;
    ferry_error_info error = new_error();
    expect_refusal(ferry_ipc_import_memory(basic.get(), &handle, &address, &error), error, FERRY_ERROR_HANDLE,
                   FERRY_SIDE_NONE, FERRY_FIELD_HANDLE);
    other->arrive();
    EXPECT_EQ(other.wait(), 0);
}

// ---- Pools

FERRY_SECOND_PROCESS(imports_memory_of_a_pool) {
    fault_driver driver(raw_entry_points());
    const instance_owner ferry = open_or_fail(driver.options());
    const auto of_pool = channel.receive<ferry_ipc_handle>();
    const int descriptor = channel.receive_descriptor();
    const auto of_memory = channel.receive<ferry_ipc_handle>(), of_part = channel.receive<ferry_ipc_handle>();
    std::uint64_t address = 7;
    ferry_error_info error = new_error();
    expect_refusal(ferry_ipc_import_memory(ferry.get(), &of_memory, &address, &error), error, FERRY_ERROR_POOL,
                   FERRY_SIDE_NONE, FERRY_FIELD_POOL);
    EXPECT_EQ(address, 0u);
    CUmemPoolHandle_st *pool = nullptr, *again = nullptr;
    const int no_pool = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (const int wrong : {-1, 9999, no_pool}) {
        expect_refusal(ferry_ipc_import_pool(ferry.get(), &of_pool, wrong, &pool, &error), error, FERRY_ERROR_HANDLE,
                       FERRY_SIDE_NONE, FERRY_FIELD_OS_HANDLE);
        EXPECT_EQ(pool, nullptr);
    }
    EXPECT_EQ(close(no_pool), 0);
    EXPECT_OK(ferry_ipc_import_pool(ferry.get(), &of_pool, descriptor, &pool, nullptr));
    EXPECT_NE(fcntl(descriptor, F_GETFD), -1) << "the descriptor stays with the caller";
    EXPECT_EQ(close(descriptor), 0);
    EXPECT_OK(ferry_ipc_import_pool(ferry.get(), &of_pool, -1, &again, nullptr))
        << "a second import gives the same pool";
    EXPECT_EQ(again, pool);

    driver.reset_counts();
    address = import_memory(ferry.get(), of_memory);
    const std::uint64_t part = import_memory(ferry.get(), of_part);
    EXPECT_EQ(driver.calls("cuMemPoolImportPointer"), 1);
    EXPECT_EQ(part, address + 5000);
    EXPECT_TRUE(holds(address, 1, 5000));
    EXPECT_TRUE(holds(part, 2, 1000));
    fill(part, 3, 1000);
    ferry_ipc_handle handle = {};
    std::int64_t os_handle = 7;
    expect_refusal(ferry_ipc_export_memory(ferry.get(), address, 0, &handle, &error), error, FERRY_ERROR_NOT_SHAREABLE,
                   FERRY_SIDE_NONE, FERRY_FIELD_ADDRESS);
    expect_refusal(ferry_ipc_export_pool(ferry.get(), pool, FERRY_HANDLE_POSIX_FD, &handle, &os_handle, &error), error,
                   FERRY_ERROR_NOT_SHAREABLE, FERRY_SIDE_NONE, FERRY_FIELD_POOL);

    EXPECT_OK(ferry_ipc_close_pool(ferry.get(), pool, nullptr)) << "the first of two imports";
    EXPECT_EQ(ferry_ipc_close_pool(ferry.get(), pool, nullptr), FERRY_ERROR_IN_USE);
    test_stream stream;
    EXPECT_OK(ferry_ipc_close_memory(ferry.get(), part, stream, nullptr));
    EXPECT_TRUE(holds(address, 1, 5000)) << "imported twice, closed once";
    EXPECT_OK(raw().cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    EXPECT_EQ(ferry_ipc_close_memory(ferry.get(), address, stream, nullptr), FERRY_ERROR_CAPTURE)
        << "each launch of the graph would close the memory";
    CUgraph graph = nullptr;
    EXPECT_OK(raw().cuStreamEndCapture(stream, &graph));
    EXPECT_OK(raw().cuGraphDestroy(graph));
    EXPECT_EQ(driver.calls("cuMemFreeAsync"), 0);
    EXPECT_OK(ferry_ipc_close_memory(ferry.get(), address, stream, nullptr));
    EXPECT_EQ(ferry_ipc_close_memory(ferry.get(), address, stream, nullptr), FERRY_ERROR_ADDRESS);
    const std::uint64_t once_more = import_memory(ferry.get(), of_part);
    EXPECT_TRUE(holds(once_more, 3, 1000));
    EXPECT_OK(ferry_ipc_close_memory(ferry.get(), once_more, nullptr, nullptr));
    EXPECT_OK(raw().cuCtxSynchronize());
    EXPECT_OK(ferry_stream_synchronize(ferry.get(), stream, nullptr));
    EXPECT_OK(ferry_ipc_close_pool(ferry.get(), pool, nullptr));
    EXPECT_EQ(ferry_ipc_close_pool(ferry.get(), pool, nullptr), FERRY_ERROR_POOL);
    EXPECT_EQ(driver.calls("cuMemPoolDestroy"), 1);
    EXPECT_EQ(ferry_ipc_import_memory(ferry.get(), &of_memory, &address, nullptr), FERRY_ERROR_POOL);
    return 0;
}

TEST_F(ipc_between_processes, memory_of_a_pool_is_imported_through_its_pool_and_counted) {
    if (!has_pools(basic.get())) GTEST_SKIP() << "the driver cannot share pools";
    shared_pool pool(basic.get());
    const std::uint64_t before = pool.allocate(1000), address = pool.allocate(small);
    fill(address, 1, small);
    fill(address + 5000, 2, 1000);
    second_process other("imports_memory_of_a_pool");
    pool.send_to(other);
    other->send(export_memory(basic.get(), address));
    other->send(export_memory(basic.get(), address + 5000, 1000));
    EXPECT_EQ(other.wait(), 0);
    EXPECT_TRUE(holds(address + 5000, 3, 1000));
    EXPECT_OK(ferry_device_free(basic.get(), address, nullptr));
    EXPECT_OK(ferry_device_free(basic.get(), before, nullptr));
}

FERRY_SECOND_PROCESS(closes_pools_behind_a_stream) {
    fault_driver driver(raw_entry_points());
    instance_owner ferry = open_or_fail(driver.options());
    const auto handle = channel.receive<ferry_ipc_handle>();
    const int descriptor = channel.receive_descriptor();
    const auto of_memory = channel.receive<ferry_ipc_handle>();
    const test_stream stream;
    const auto import_pool = [&] {
        CUmemPoolHandle_st *made = nullptr;
        EXPECT_OK(ferry_ipc_import_pool(ferry.get(), &handle, descriptor, &made, nullptr));
        return made;
    };
    const auto close_pool = [&](CUmemPoolHandle_st *pool) {
        return ferry_ipc_close_pool_deferred(ferry.get(), pool, stream, nullptr);
    };
    const auto trim = [&] { return ferry_deferred_trim(ferry.get(), FERRY_DEVICE_UNKNOWN, 0, nullptr); };
    const auto count_kept = [&] {
        ferry_deferred_info info = {};
        info.struct_size = sizeof info;
        EXPECT_OK(ferry_deferred_get_info(ferry.get(), FERRY_DEVICE_UNKNOWN, &info, nullptr));
        return info.allocations;
    };
    CUmemPoolHandle_st *const pool = import_pool();
    EXPECT_EQ(import_pool(), pool);
    EXPECT_OK(close_pool(pool));
    EXPECT_EQ(count_kept(), 0u) << "imported twice, closed once";
    std::uint64_t address = import_memory(ferry.get(), of_memory);
    EXPECT_EQ(close_pool(pool), FERRY_ERROR_IN_USE);
    {
        gate held(stream);
        EXPECT_OK(ferry_ipc_close_memory(ferry.get(), address, stream, nullptr));
        EXPECT_OK(close_pool(pool)); // a call that waits would never return: the gate is closed
        EXPECT_EQ(close_pool(pool), FERRY_ERROR_POOL);
        EXPECT_EQ(ferry_ipc_close_pool(ferry.get(), pool, nullptr), FERRY_ERROR_POOL);
        EXPECT_EQ(ferry_ipc_import_memory(ferry.get(), &of_memory, &address, nullptr), FERRY_ERROR_POOL);
        std::int32_t access = 0;
        EXPECT_EQ(ferry_pool_get_access(ferry.get(), pool, 0, &access, nullptr), FERRY_ERROR_INVALID_ARGUMENT);
        EXPECT_OK(trim());
        EXPECT_EQ(count_kept(), 1u);
        EXPECT_EQ(driver.calls("cuMemPoolDestroy"), 0);
    }
    EXPECT_OK(raw().cuStreamSynchronize(stream));
    EXPECT_OK(trim());
    EXPECT_EQ(count_kept(), 0u);
    EXPECT_EQ(driver.calls("cuMemPoolDestroy"), 1);

    CUmemPoolHandle_st *again = import_pool();
    EXPECT_OK(close_pool(again));
    driver.reset_counts();
    EXPECT_EQ(import_pool(), again) << "an import takes the pool back";
    EXPECT_EQ(driver.calls("cuMemPoolImportFromShareableHandle"), 0);
    EXPECT_OK(raw().cuStreamSynchronize(stream));
    EXPECT_OK(trim());
    EXPECT_EQ(count_kept(), 0u);
    EXPECT_EQ(driver.calls("cuMemPoolDestroy"), 0);
    address = import_memory(ferry.get(), of_memory);
    EXPECT_TRUE(holds(address, 1, small));
    EXPECT_OK(ferry_ipc_close_memory(ferry.get(), address, stream, nullptr));
    EXPECT_OK(raw().cuStreamSynchronize(stream));

    driver.fail("cuEventRecord", CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(close_pool(again), -1000 - CUDA_ERROR_OUT_OF_MEMORY);
    driver.heal();
    address = import_memory(ferry.get(), of_memory);
    EXPECT_TRUE(holds(address, 1, small)) << "the import is still open";
    EXPECT_OK(ferry_ipc_close_memory(ferry.get(), address, stream, nullptr));
    EXPECT_OK(close_pool(again));
    EXPECT_OK(raw().cuStreamSynchronize(stream));
    driver.fail("cuMemPoolDestroy", CUDA_ERROR_UNKNOWN);
    EXPECT_EQ(trim(), -1000 - CUDA_ERROR_UNKNOWN);
    EXPECT_EQ(count_kept(), 1u) << "what the driver does not destroy stays";
    driver.heal();
    EXPECT_EQ(close_pool(again), FERRY_ERROR_POOL);
    EXPECT_OK(trim());
    EXPECT_EQ(count_kept(), 0u);

    EXPECT_OK(close_pool(import_pool()));
    driver.reset_counts();
    ferry.reset();
    EXPECT_EQ(driver.calls("cuMemPoolDestroy"), 1) << "ferry_close ends what is kept";
    EXPECT_EQ(close(descriptor), 0);
    return 0;
}

TEST_F(ipc_between_processes, pools_are_closed_behind_a_stream) {
    if (!has_pools(basic.get())) GTEST_SKIP() << "the driver cannot share pools";
    shared_pool pool(basic.get());
    const std::uint64_t address = pool.allocate(small);
    fill(address, 1, small);
    second_process other("closes_pools_behind_a_stream");
    pool.send_to(other);
    other->send(export_memory(basic.get(), address));
    EXPECT_EQ(other.wait(), 0);
    EXPECT_OK(ferry_device_free(basic.get(), address, nullptr));
}

FERRY_SECOND_PROCESS(imports_a_pool_under_two_names) {
    const instance_owner ferry = open_or_fail(options_under_test());
    CUmemPoolHandle_st *const pool = receive_pool(channel, ferry.get());
    EXPECT_EQ(receive_pool(channel, ferry.get()), pool);
    const auto through_first = channel.receive<ferry_ipc_handle>(),
               through_second = channel.receive<ferry_ipc_handle>();
    EXPECT_OK(ferry_ipc_close_pool(ferry.get(), pool, nullptr));
    const std::uint64_t address = import_memory(ferry.get(), through_first);
    EXPECT_EQ(import_memory(ferry.get(), through_second), address);
    EXPECT_TRUE(holds(address, 1, small));
    EXPECT_OK(ferry_ipc_close_memory(ferry.get(), address, nullptr, nullptr));
    EXPECT_EQ(ferry_ipc_close_pool(ferry.get(), pool, nullptr), FERRY_ERROR_IN_USE);
    EXPECT_OK(ferry_ipc_close_memory(ferry.get(), address, nullptr, nullptr));
    EXPECT_OK(raw().cuCtxSynchronize());
    EXPECT_OK(ferry_ipc_close_pool(ferry.get(), pool, nullptr));
    EXPECT_EQ(ferry_ipc_close_pool(ferry.get(), pool, nullptr), FERRY_ERROR_POOL);
    return 0;
}

TEST_F(ipc_between_processes, a_pool_exported_by_two_instances_is_one_pool_to_the_importer) {
    if (!has_pools(basic.get())) GTEST_SKIP() << "the driver cannot share pools";
    shared_pool pool(basic.get());
    const std::uint64_t address = pool.allocate(small);
    fill(address, 1, small);
    ferry_ipc_handle second_handle = {};
    std::int64_t second_descriptor = -1;
    ASSERT_OK(ferry_ipc_export_pool(full.get(), pool.pool, FERRY_HANDLE_POSIX_FD, &second_handle, &second_descriptor,
                                    nullptr));
    second_process other("imports_a_pool_under_two_names");
    pool.send_to(other);
    other->send(second_handle);
    other->send_descriptor(static_cast<int>(second_descriptor));
    other->send(export_memory(basic.get(), address));
    other->send(export_memory(full.get(), address));
    EXPECT_EQ(other.wait(), 0);
    EXPECT_EQ(close(static_cast<int>(second_descriptor)), 0);
    EXPECT_OK(ferry_device_free(basic.get(), address, nullptr));
}

FERRY_SECOND_PROCESS(frees_what_is_not_its_own) {
    const instance_owner ferry = open_or_fail(options_under_test());
    const std::uint64_t classic = import_memory(ferry.get(), channel.receive<ferry_ipc_handle>());
    CUevent_st *const event = import_event(ferry.get(), channel.receive<ferry_ipc_handle>());
    EXPECT_EQ(ferry_device_free(ferry.get(), classic, nullptr), FERRY_ERROR_IMPORTED);
    EXPECT_EQ(ferry_device_free(ferry.get(), classic + 10, nullptr), FERRY_ERROR_IMPORTED);
    EXPECT_EQ(ferry_event_destroy(ferry.get(), event, nullptr), FERRY_ERROR_IMPORTED);
    EXPECT_TRUE(holds(classic, 1, small));
    EXPECT_OK(ferry_ipc_close_event(ferry.get(), event, nullptr));
    if (has_pools(ferry.get())) {
        EXPECT_EQ(ferry_device_free_async(ferry.get(), classic, nullptr, nullptr), FERRY_ERROR_IMPORTED);
        CUmemPoolHandle_st *const pool = receive_pool(channel, ferry.get());
        const std::uint64_t address = import_memory(ferry.get(), channel.receive<ferry_ipc_handle>());
        EXPECT_EQ(ferry_device_free(ferry.get(), address, nullptr), FERRY_ERROR_IMPORTED);
        EXPECT_EQ(ferry_device_free_async(ferry.get(), address, nullptr, nullptr), FERRY_ERROR_IMPORTED);
        EXPECT_TRUE(holds(address, 1, small));
        std::uint64_t refused = 7;
        EXPECT_EQ(ferry_pool_alloc_async(ferry.get(), pool, 100, nullptr, &refused, nullptr), FERRY_ERROR_IMPORTED);
        EXPECT_EQ(refused, 0u);
        EXPECT_EQ(ferry_pool_trim(ferry.get(), pool, 0, nullptr), FERRY_ERROR_IMPORTED);
        EXPECT_EQ(ferry_pool_set_current(ferry.get(), FERRY_LOCATION_DEVICE, 0, pool, nullptr), FERRY_ERROR_IMPORTED);
        EXPECT_EQ(ferry_pool_destroy(ferry.get(), pool, nullptr), FERRY_ERROR_IMPORTED);
        EXPECT_EQ(ferry_pool_destroy_deferred(ferry.get(), pool, nullptr, nullptr), FERRY_ERROR_IMPORTED);
        ferry_pool_info info = {};
        info.struct_size = sizeof info;
        EXPECT_OK(ferry_pool_get_info(ferry.get(), pool, &info, nullptr));
        EXPECT_EQ(info.is_imported, 1);
        EXPECT_EQ(info.can_share, 0);
        EXPECT_EQ(info.location, FERRY_LOCATION_DEVICE);
        EXPECT_EQ(info.index, 0);
        EXPECT_OK(ferry_ipc_close_memory(ferry.get(), address, nullptr, nullptr));
        EXPECT_OK(raw().cuCtxSynchronize());
        EXPECT_OK(ferry_ipc_close_pool(ferry.get(), pool, nullptr));
    }
    EXPECT_OK(ferry_ipc_close_memory(ferry.get(), classic, nullptr, nullptr));
    return 0;
}

TEST_F(ipc_between_processes, imported_objects_can_neither_be_freed_nor_used_as_own_ones) {
    ferry_memory memory(basic.get(), small);
    fill(memory, 1, small);
    ferry_event event(basic.get());
    second_process other("frees_what_is_not_its_own");
    other->send(export_memory(basic.get(), memory));
    other->send(export_event(basic.get(), event));
    share_pool_and_wait(basic.get(), other);
}

// ---- Events

FERRY_SECOND_PROCESS(consumes_what_is_produced) {
    const instance_owner ferry = open_or_fail(options_under_test());
    const std::uint64_t address = import_memory(ferry.get(), channel.receive<ferry_ipc_handle>());
    CUevent_st *const filled = import_event(ferry.get(), channel.receive<ferry_ipc_handle>());
    CUevent_st *const copied = import_event(ferry.get(), channel.receive<ferry_ipc_handle>());
    EXPECT_NE(filled, copied);
    test_stream stream;
    for (int round = 1; round <= 3; ++round) {
        channel.await(); // the exporter has recorded the event, which has not passed yet
        std::int32_t done = 1;
        EXPECT_OK(ferry_event_query(ferry.get(), filled, &done, nullptr));
        EXPECT_EQ(done, 0);
        EXPECT_OK(ferry_stream_wait_event(ferry.get(), stream, filled, nullptr));
        pinned_memory host(small);
        EXPECT_OK(ferry_copy_bytes_async(ferry.get(), reinterpret_cast<std::uintptr_t>(host.data()), address, small,
                                         nullptr, stream, nullptr, nullptr));
        EXPECT_OK(ferry_event_record(ferry.get(), copied, stream, nullptr));
        channel.arrive(); // this process has recorded the event, which has not passed yet
        EXPECT_OK(ferry_stream_synchronize(ferry.get(), stream, nullptr));
        EXPECT_EQ(host.copy(), bytes(small, static_cast<std::byte>(round)));
    }
    EXPECT_OK(ferry_ipc_close_event(ferry.get(), filled, nullptr));
    EXPECT_OK(ferry_ipc_close_event(ferry.get(), copied, nullptr));
    EXPECT_EQ(ferry_ipc_close_event(ferry.get(), copied, nullptr), FERRY_ERROR_INVALID_ARGUMENT);
    EXPECT_OK(ferry_ipc_close_memory(ferry.get(), address, nullptr, nullptr));
    channel.arrive();
    return 0;
}

TEST_F(ipc_between_processes, events_order_both_directions) {
    std::uint64_t address = 0;
    ASSERT_OK(ferry_device_alloc(basic.get(), 0, small, &address, nullptr));
    ferry_event filled(basic.get()), copied(basic.get());
    test_stream stream;
    second_process other("consumes_what_is_produced");
    other->send(export_memory(basic.get(), address));
    other->send(export_event(basic.get(), filled));
    other->send(export_event(basic.get(), copied));
    for (int round = 1; round <= 3; ++round) {
        gate held(stream);
        EXPECT_OK(raw().cuMemsetD8Async(address, static_cast<unsigned char>(round), small, stream));
        EXPECT_OK(ferry_event_record(basic.get(), filled, stream, nullptr));
        other->arrive();
        other->await();
        // The next fill comes after the importer's copy, which it must not overtake.
        EXPECT_OK(ferry_stream_wait_event(basic.get(), stream, copied, nullptr));
        EXPECT_OK(raw().cuMemsetD8Async(address, 0xee, small, stream));
        held.open();
    }
    other->await(); // until the importer has closed its imports
    EXPECT_OK(ferry_stream_synchronize(basic.get(), stream, nullptr));
    EXPECT_OK(ferry_device_free(basic.get(), address, nullptr));
    EXPECT_EQ(other.wait(), 0);
}

FERRY_SECOND_PROCESS(shares_an_event_again) {
    const instance_owner ferry = open_or_fail(options_under_test());
    const auto handle = channel.receive<ferry_ipc_handle>();
    CUevent_st *const first = import_event(ferry.get(), handle), *const second = import_event(ferry.get(), handle);
    EXPECT_NE(first, second) << "each import is a separate event";
    ferry_ipc_handle again = {};
    EXPECT_EQ(ferry_ipc_export_event(ferry.get(), first, &again, nullptr), FERRY_ERROR_NOT_SHAREABLE);
    float milliseconds = 1;
    EXPECT_EQ(ferry_event_elapsed_time(ferry.get(), first, second, &milliseconds, nullptr),
              FERRY_STATUS_DRIVER_BASE - CUDA_ERROR_INVALID_HANDLE);
    EXPECT_OK(ferry_ipc_close_event(ferry.get(), first, nullptr));
    EXPECT_EQ(ferry_ipc_close_event(ferry.get(), first, nullptr), FERRY_ERROR_INVALID_ARGUMENT);
    EXPECT_OK(ferry_event_synchronize(ferry.get(), second, nullptr));
    EXPECT_OK(ferry_ipc_close_event(ferry.get(), second, nullptr));
    return 0;
}

TEST_F(ipc_between_processes, an_imported_event_has_no_timing_and_cannot_be_shared_again) {
    ferry_event event(basic.get());
    second_process other("shares_an_event_again");
    other->send(export_event(basic.get(), event));
    EXPECT_EQ(other.wait(), 0);
}

TEST_F(ipc_between_processes, an_event_made_without_ferry_can_be_shared_too) {
    test_event event(CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING);
    const ferry_ipc_handle handle = export_event(basic.get(), event);
    ferry_ipc_info info = {};
    info.struct_size = sizeof info;
    EXPECT_OK(ferry_ipc_get_info(basic.get(), &handle, &info, nullptr));
    EXPECT_EQ(info.device, -1) << "the driver does not report the device";
    second_process other("shares_an_event_again");
    other->send(handle);
    EXPECT_EQ(other.wait(), 0);
}

// ---- Forged handles of memory that is imported already

FERRY_SECOND_PROCESS(exports_two_allocations) {
    const instance_owner ferry = open_or_fail(options_under_test());
    const bool from_a_pool = channel.receive<bool>();
    std::unique_ptr<shared_pool> pool;
    if (from_a_pool) {
        pool = std::make_unique<shared_pool>(ferry.get());
        channel.send(pool->handle);
        channel.send_descriptor(pool->descriptor);
    }
    std::uint64_t addresses[2] = {};
    for (int i = 0; i < 2; ++i) {
        if (pool)
            addresses[i] = pool->allocate(small);
        else
            EXPECT_OK(ferry_device_alloc(ferry.get(), 0, small, &addresses[i], nullptr));
        fill(addresses[i], static_cast<unsigned char>(i + 1), small);
        channel.send(export_memory(ferry.get(), addresses[i]));
    }
    channel.await();
    for (const std::uint64_t address : addresses)
        EXPECT_OK(ferry_device_free(ferry.get(), address, nullptr));
    return 0;
}

// Expects every forgery to be refused, and the genuine imports to be open, counted and closed as if it had not come.
void expect_only_what_is_mapped(ferry_instance *instance, bool from_a_pool) {
    second_process other("exports_two_allocations");
    other->send(from_a_pool);
    CUmemPoolHandle_st *const pool = from_a_pool ? receive_pool(*other.operator->(), instance) : nullptr;
    const auto first = other->receive<ferry_ipc_handle>(), second = other->receive<ferry_ipc_handle>();
    test_stream stream;
    std::uint64_t base = 0;
    const int on_the_stack = 0;
    const std::uint64_t host = reinterpret_cast<std::uintptr_t>(&on_the_stack);
    const auto refuses = [&](std::uint64_t offset, std::uint64_t size, std::uint64_t allocation_size) {
        const ferry_ipc_handle forged = forge(first, [&](handle_contents &contents) {
            contents.offset = offset;
            contents.size = size;
            contents.allocation_size = allocation_size;
            contents.original = 0; // may be anything, and large sizes must not wrap
        });
        const ferry_ipc_handle same_name = forge(first, [&](handle_contents &contents) {
            contents.offset = offset;
            contents.size = size;
            contents.allocation_size = allocation_size;
        });
        for (const ferry_ipc_handle &one : {forged, same_name}) {
            std::uint64_t address = 7;
            ferry_error_info error = new_error();
            expect_refusal(ferry_ipc_import_memory(instance, &one, &address, &error), error, FERRY_ERROR_HANDLE,
                           FERRY_SIDE_NONE, FERRY_FIELD_HANDLE);
            EXPECT_EQ(address, 0u);
        }
    };
    const auto refuses_all = [&] {
        constexpr std::uint64_t far = std::uint64_t{1} << 40;
        refuses(0, far, far);
        refuses(far, 1, far + 1);
        // The address that the importer would compute is a variable of its own.
        const std::uint64_t distance = host > base ? host - base : far;
        refuses(distance, sizeof on_the_stack, distance + sizeof on_the_stack);
    };
    refuses_all(); // nothing is mapped yet
    base = import_memory(instance, first);
    EXPECT_TRUE(holds(base, 1, small));
    refuses_all();

    // A forged name of the first allocation, in a handle that opens the second.
    EXPECT_OK(ferry_ipc_close_memory(instance, base, stream, nullptr));
    EXPECT_OK(raw().cuStreamSynchronize(stream));
    handle_contents of_second;
    ASSERT_OK(decode(second, of_second).status);
    const std::uint64_t wrong_name =
        import_memory(instance, forge(first, [&](handle_contents &contents) {
                          std::memcpy(contents.payload, of_second.payload, sizeof contents.payload);
                          contents.allocation_size = contents.size = 100;
                      }));
    base = import_memory(instance, first);
    EXPECT_TRUE(holds(base, 1, small)) << "the genuine handle names the first allocation";
    EXPECT_TRUE(holds(wrong_name, 2, 100));
    EXPECT_OK(ferry_ipc_close_memory(instance, wrong_name, stream, nullptr));

    // A handle that states less than is mapped does not make a later, genuine one invalid.
    const std::uint64_t part = import_memory(
        instance, forge(second, [](handle_contents &contents) { contents.allocation_size = contents.size = 100; }));
    const std::uint64_t whole = import_memory(instance, second);
    EXPECT_EQ(part, whole);
    EXPECT_TRUE(holds(whole, 2, small));
    for (const std::uint64_t address : {whole + small - 1, part, base})
        EXPECT_OK(ferry_ipc_close_memory(instance, address, stream, nullptr));
    for (const std::uint64_t address : {whole, base})
        EXPECT_EQ(ferry_ipc_close_memory(instance, address, stream, nullptr), FERRY_ERROR_ADDRESS);
    EXPECT_OK(raw().cuStreamSynchronize(stream));
    EXPECT_OK(raw().cuCtxSynchronize());
    if (pool) {
        EXPECT_OK(ferry_ipc_close_pool(instance, pool, nullptr)) << "no refused import is left in the pool";
    }
    other->arrive();
    EXPECT_EQ(other.wait(), 0);
}

TEST_F(ipc_between_processes, a_forged_handle_reaches_nothing_beyond_imported_memory) {
    expect_only_what_is_mapped(basic.get(), false);
}

TEST_F(ipc_between_processes, a_forged_handle_reaches_nothing_beyond_imported_pool_memory) {
    if (!has_pools(basic.get())) GTEST_SKIP() << "the driver cannot share pools";
    expect_only_what_is_mapped(basic.get(), true);
}

// ---- Failures

FERRY_SECOND_PROCESS(imports_while_calls_fail) {
    fault_driver driver(raw_entry_points());
    const instance_owner ferry = open_or_fail(driver.options());
    const auto of_memory = channel.receive<ferry_ipc_handle>(), of_event = channel.receive<ferry_ipc_handle>();
    std::uint64_t address = 0;
    CUevent_st *event = nullptr;
    const auto import = [&] { return ferry_ipc_import_memory(ferry.get(), &of_memory, &address, nullptr); };
    const auto close_it = [&] { return ferry_ipc_close_memory(ferry.get(), address, nullptr, nullptr); };
    const auto import_one = [&] { return ferry_ipc_import_event(ferry.get(), &of_event, &event, nullptr); };
    const auto close_one = [&] { return ferry_ipc_close_event(ferry.get(), event, nullptr); };
    const auto is_balanced = [&] {
        EXPECT_EQ(ferry_ipc_close_memory(ferry.get(), address, nullptr, nullptr), FERRY_ERROR_ADDRESS);
        EXPECT_OK(raw().cuCtxSynchronize());
    };
    let_each_call_fail(driver, import, [&] { EXPECT_OK(close_it()); });
    is_balanced();
    EXPECT_OK(import());
    let_each_call_fail(driver, close_it, [&] { EXPECT_OK(import()); });
    EXPECT_TRUE(holds(address, 1, small));
    EXPECT_OK(close_it());
    is_balanced();
    let_each_call_fail(driver, import_one, [&] { EXPECT_OK(close_one()); });
    EXPECT_OK(import_one());
    let_each_call_fail(driver, close_one, [&] { EXPECT_OK(import_one()); });
    EXPECT_OK(close_one());
    EXPECT_EQ(close_one(), FERRY_ERROR_INVALID_ARGUMENT);
    for (const char *const entry : {"cuIpcOpenMemHandle", "cuIpcOpenEventHandle"}) {
        driver.hide(entry);
        const instance_owner poor = open_or_fail(driver.options());
        const bool is_of_memory = std::strstr(entry, "Mem");
        EXPECT_EQ(is_of_memory ? ferry_ipc_import_memory(poor.get(), &of_memory, &address, nullptr)
                               : ferry_ipc_import_event(poor.get(), &of_event, &event, nullptr),
                  FERRY_ERROR_UNSUPPORTED);
        driver.heal();
    }
    if (!has_pools(ferry.get())) return 0;

    const auto of_pool = channel.receive<ferry_ipc_handle>();
    const int descriptor = channel.receive_descriptor();
    const auto of_pooled = channel.receive<ferry_ipc_handle>();
    CUmemPoolHandle_st *pool = nullptr;
    const auto import_pool = [&] { return ferry_ipc_import_pool(ferry.get(), &of_pool, descriptor, &pool, nullptr); };
    const auto close_pool = [&] { return ferry_ipc_close_pool(ferry.get(), pool, nullptr); };
    const auto import_pooled = [&] { return ferry_ipc_import_memory(ferry.get(), &of_pooled, &address, nullptr); };
    let_each_call_fail(driver, import_pool, [&] { EXPECT_OK(close_pool()); });
    EXPECT_OK(import_pool());
    let_each_call_fail(driver, import_pooled, [&] { EXPECT_OK(close_it()); });
    is_balanced();
    EXPECT_OK(import_pooled());
    let_each_call_fail(driver, close_it, [&] { EXPECT_OK(import_pooled()); });
    EXPECT_TRUE(holds(address, 1, small));
    EXPECT_OK(close_it());
    is_balanced();
    let_each_call_fail(driver, close_pool, [&] { EXPECT_OK(import_pool()); });
    EXPECT_OK(close_pool());
    EXPECT_EQ(close_pool(), FERRY_ERROR_POOL);
    EXPECT_EQ(close(descriptor), 0);
    return 0;
}

TEST_F(ipc_between_processes, each_failing_driver_call_of_an_import_is_reported_and_leaves_nothing_open) {
    ferry_memory memory(basic.get(), small);
    fill(memory, 1, small);
    ferry_event event(basic.get());
    second_process other("imports_while_calls_fail");
    other->send(export_memory(basic.get(), memory));
    other->send(export_event(basic.get(), event));
    share_pool_and_wait(basic.get(), other);
}

TEST_F(ipc, each_failing_driver_call_of_an_export_is_reported) {
    fault_driver driver(raw_entry_points());
    const instance_owner faulty = open_or_fail(driver.options());
    ferry_memory memory(basic.get(), small);
    ferry_event event(faulty.get());
    ferry_ipc_handle handle = {};
    const auto nothing = [] {};
    let_each_call_fail(
        driver, [&] { return ferry_ipc_export_memory(faulty.get(), memory, 0, &handle, nullptr); }, nothing);
    let_each_call_fail(
        driver, [&] { return ferry_ipc_export_event(faulty.get(), event, &handle, nullptr); }, nothing);
    std::uint64_t address = 0;
    const ferry_ipc_handle own = export_memory(faulty.get(), memory);
    let_each_call_fail(
        driver, [&] { return ferry_ipc_import_memory(faulty.get(), &own, &address, nullptr); },
        [&] { EXPECT_OK(ferry_ipc_close_memory(faulty.get(), address, nullptr, nullptr)); });
    if (!has_pools(basic.get())) return;
    shared_pool pool(faulty.get());
    const std::uint64_t pooled = pool.allocate(small);
    let_each_call_fail(
        driver, [&] { return ferry_ipc_export_memory(faulty.get(), pooled, 0, &handle, nullptr); }, nothing);
    std::int64_t os_handle = -1;
    let_each_call_fail(
        driver,
        [&] {
            return ferry_ipc_export_pool(faulty.get(), pool.pool, FERRY_HANDLE_POSIX_FD, &handle, &os_handle, nullptr);
        },
        [&] { EXPECT_EQ(close(static_cast<int>(os_handle)), 0); });
    EXPECT_OK(ferry_device_free(faulty.get(), pooled, nullptr));
}

// An allocator of the host program that can run out of memory.
struct failing_allocator {
    explicit failing_allocator(ferry_options &options) {
        options.allocate_user = this;
        options.allocate = [](void *self, std::uint64_t size, std::uint64_t alignment) -> void * {
            auto *const memory = static_cast<failing_allocator *>(self);
            if (memory->is_empty) return nullptr;
            ++memory->live;
            return allocate_aligned(size, alignment);
        };
        options.deallocate = [](void *self, void *block, std::uint64_t) {
            --static_cast<failing_allocator *>(self)->live;
            free_aligned(block);
        };
    }
    bool is_empty = false;
    int live = 0;
};

FERRY_SECOND_PROCESS(imports_without_memory) {
    fault_driver driver(raw_entry_points());
    ferry_options options = driver.options();
    failing_allocator memory(options);
    {
        const instance_owner ferry = open_or_fail(options);
        const auto of_memory = channel.receive<ferry_ipc_handle>(), of_event = channel.receive<ferry_ipc_handle>();
        std::uint64_t address = 7;
        CUevent_st *event = nullptr;
        memory.is_empty = true;
        EXPECT_EQ(ferry_ipc_import_memory(ferry.get(), &of_memory, &address, nullptr), FERRY_ERROR_OUT_OF_MEMORY);
        EXPECT_EQ(ferry_ipc_import_event(ferry.get(), &of_event, &event, nullptr), FERRY_ERROR_OUT_OF_MEMORY);
        EXPECT_EQ(driver.calls("cuIpcOpenMemHandle"), driver.calls("cuIpcCloseMemHandle"));
        EXPECT_EQ(driver.calls("cuIpcOpenEventHandle"), driver.calls("cuEventDestroy"));
        memory.is_empty = false;
        EXPECT_OK(ferry_ipc_close_memory(ferry.get(), import_memory(ferry.get(), of_memory), nullptr, nullptr));
    }
    EXPECT_EQ(memory.live, 0);
    return 0;
}

TEST_F(ipc_between_processes, without_memory_for_its_records_an_import_leaves_nothing_open) {
    ferry_memory memory(basic.get(), small);
    ferry_event event(basic.get());
    second_process other("imports_without_memory");
    other->send(export_memory(basic.get(), memory));
    other->send(export_event(basic.get(), event));
    EXPECT_EQ(other.wait(), 0);

    ferry_options options = options_under_test();
    failing_allocator own_memory(options);
    const instance_owner poor = open_or_fail(options);
    own_memory.is_empty = true;
    CUevent_st *refused = event;
    EXPECT_EQ(
        ferry_event_create(poor.get(), 0, FERRY_EVENT_INTERPROCESS | FERRY_EVENT_DISABLE_TIMING, &refused, nullptr),
        FERRY_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(refused, nullptr);
    ferry_ipc_handle handle = {};
    EXPECT_EQ(ferry_ipc_export_event(poor.get(), event, &handle, nullptr), FERRY_ERROR_OUT_OF_MEMORY);
    const ferry_ipc_handle own = export_memory(basic.get(), memory);
    std::uint64_t address = 0;
    EXPECT_EQ(ferry_ipc_import_memory(poor.get(), &own, &address, nullptr), FERRY_ERROR_OUT_OF_MEMORY);
    own_memory.is_empty = false;
}

// ---- Threads and captures

constexpr int threads = 4, rounds = 50;

template <class Work> void in_threads(Work work) {
    CUcontext context = nullptr;
    EXPECT_OK(raw().cuCtxGetCurrent(&context));
    std::vector<std::thread> running;
    for (int i = 0; i < threads; ++i)
        running.emplace_back([&] {
            EXPECT_OK(raw().cuCtxSetCurrent(context));
            for (int round = 0; round < rounds; ++round)
                work();
        });
    for (std::thread &thread : running)
        thread.join();
}

FERRY_SECOND_PROCESS(imports_in_many_threads) {
    fault_driver driver(raw_entry_points());
    const instance_owner ferry = open_or_fail(driver.options());
    const auto of_memory = channel.receive<ferry_ipc_handle>(), of_event = channel.receive<ferry_ipc_handle>();
    in_threads([&] {
        const std::uint64_t address = import_memory(ferry.get(), of_memory);
        CUevent_st *const event = import_event(ferry.get(), of_event);
        std::byte byte{};
        EXPECT_OK(raw().cuMemcpyDtoH(&byte, address, 1));
        EXPECT_EQ(byte, std::byte{1});
        EXPECT_OK(ferry_event_synchronize(ferry.get(), event, nullptr));
        EXPECT_OK(ferry_ipc_close_event(ferry.get(), event, nullptr));
        EXPECT_OK(ferry_ipc_close_memory(ferry.get(), address, nullptr, nullptr));
    });
    EXPECT_EQ(driver.calls("cuIpcOpenMemHandle"), driver.calls("cuIpcCloseMemHandle"));
    EXPECT_LE(driver.calls("cuIpcOpenMemHandle"), threads * rounds);
    if (!has_pools(ferry.get())) return 0;
    const auto of_pool = channel.receive<ferry_ipc_handle>();
    const int descriptor = channel.receive_descriptor();
    const auto of_pooled = channel.receive<ferry_ipc_handle>();
    CUmemPoolHandle_st *kept = nullptr;
    EXPECT_OK(ferry_ipc_import_pool(ferry.get(), &of_pool, descriptor, &kept, nullptr));
    test_stream stream;
    in_threads([&] {
        CUmemPoolHandle_st *pool = nullptr;
        EXPECT_OK(ferry_ipc_import_pool(ferry.get(), &of_pool, descriptor, &pool, nullptr));
        const std::uint64_t address = import_memory(ferry.get(), of_pooled);
        std::byte byte{};
        EXPECT_OK(raw().cuMemcpyDtoH(&byte, address, 1));
        EXPECT_EQ(byte, std::byte{1});
        EXPECT_OK(ferry_ipc_close_memory(ferry.get(), address, stream, nullptr));
        EXPECT_OK(ferry_ipc_close_pool(ferry.get(), pool, nullptr));
    });
    EXPECT_OK(ferry_stream_synchronize(ferry.get(), stream, nullptr));
    EXPECT_OK(ferry_ipc_close_pool(ferry.get(), kept, nullptr));
    EXPECT_EQ(driver.calls("cuMemPoolImportPointer"), driver.calls("cuMemFreeAsync"));
    EXPECT_EQ(close(descriptor), 0);
    return 0;
}

TEST_F(ipc_between_processes, threads_import_and_close_one_handle) {
    ferry_memory memory(basic.get(), small);
    fill(memory, 1, small);
    ferry_event event(basic.get());
    const ferry_ipc_handle of_memory = export_memory(basic.get(), memory), of_event = export_event(basic.get(), event);
    in_threads([&] { // imports in the exporting process
        EXPECT_EQ(import_memory(basic.get(), of_memory), memory.address);
        EXPECT_EQ(import_event(basic.get(), of_event), event.handle);
        EXPECT_OK(ferry_ipc_close_event(basic.get(), event, nullptr));
        EXPECT_OK(ferry_ipc_close_memory(basic.get(), memory, nullptr, nullptr));
    });
    second_process other("imports_in_many_threads");
    other->send(of_memory);
    other->send(of_event);
    share_pool_and_wait(basic.get(), other);
}

FERRY_SECOND_PROCESS(imports_beside_a_capture) {
    const instance_owner ferry = open_or_fail(options_under_test());
    const auto of_memory = channel.receive<ferry_ipc_handle>(), of_event = channel.receive<ferry_ipc_handle>();
    device_memory target(small);
    test_stream stream;
    EXPECT_OK(raw().cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    EXPECT_OK(raw().cuMemsetD8Async(target, 1, small, stream));
    const std::uint64_t address = import_memory(ferry.get(), of_memory);
    EXPECT_OK(ferry_ipc_close_event(ferry.get(), import_event(ferry.get(), of_event), nullptr));
    EXPECT_OK(ferry_ipc_close_memory(ferry.get(), address, nullptr, nullptr));
    EXPECT_OK(raw().cuMemsetD8Async(target, 2, small, stream));
    CUgraph graph = nullptr;
    EXPECT_OK(raw().cuStreamEndCapture(stream, &graph));
    EXPECT_OK(raw().cuGraphDestroy(graph));
    return 0;
}

TEST_F(ipc_between_processes, a_capture_survives_exports_and_imports_beside_it) {
    ferry_memory memory(basic.get(), small);
    ferry_event event(basic.get());
    device_memory target(small);
    test_stream stream;
    ASSERT_OK(raw().cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    EXPECT_OK(raw().cuMemsetD8Async(target, 1, small, stream));
    const ferry_ipc_handle of_memory = export_memory(basic.get(), memory), of_event = export_event(basic.get(), event);
    EXPECT_OK(raw().cuMemsetD8Async(target, 2, small, stream));
    CUgraph graph = nullptr;
    EXPECT_OK(raw().cuStreamEndCapture(stream, &graph));
    EXPECT_OK(raw().cuGraphDestroy(graph));
    second_process other("imports_beside_a_capture");
    other->send(of_memory);
    other->send(of_event);
    EXPECT_EQ(other.wait(), 0);
}

} // namespace
} // namespace ferry::test
