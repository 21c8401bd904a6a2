// Tests sharing memory and events with another process, through the raw entry points. The same tests hold on the
// software driver and on a real GPU. Each expectation is documented by CUDA or was seen on two H200 (docs/driver.md).
#include "support/gate.h"
#include "support/raw_objects.h"
#include "support/second_process.h"

#include <cstring>

#include <fcntl.h>
#include <unistd.h>

namespace ferry::test {
namespace {

using driver_ipc_test = driver_test;

// ---- The second process itself

FERRY_SECOND_PROCESS(answers) {
    const int received = channel.receive<int>();
    const int descriptor = channel.receive_descriptor();
    EXPECT_NE(-1, fcntl(descriptor, F_GETFD));
    EXPECT_EQ(0, close(descriptor));
    channel.send(received + 1);
    CUcontext current = nullptr;
    EXPECT_OK(raw().cuCtxGetCurrent(&current));
    EXPECT_NE(nullptr, current);
    return 3;
}

FERRY_SECOND_PROCESS(waits_for_ever) {
    channel.arrive();
    channel.await();
    return 0;
}

TEST_F(driver_ipc_test, a_second_process_plays_its_role_and_ends) {
    second_process other("answers");
    other->send(41);
    other->send_descriptor(STDOUT_FILENO);
    EXPECT_EQ(42, other->receive<int>());
    EXPECT_EQ(3, other.wait());
    EXPECT_THROW(other->receive<int>(), std::runtime_error);
    second_process killed("waits_for_ever");
    killed->await();
    killed.kill();
    EXPECT_THROW(killed->receive<int>(), std::runtime_error);
}

// ---- Memory

bool shares_memory() { return raw().cuIpcGetMemHandle != nullptr; }

CUipcMemHandle handle_of(CUdeviceptr address) {
    CUipcMemHandle handle{};
    EXPECT_OK(raw().cuIpcGetMemHandle(&handle, address));
    return handle;
}

void fill(CUdeviceptr address, unsigned char value, size_t size) {
    EXPECT_OK(raw().cuMemsetD8(address, value, size));
    EXPECT_OK(raw().cuCtxSynchronize());
}

// An importer checks what a handle states against this range.
void expect_range(CUdeviceptr opened, size_t size) {
    CUdeviceptr start = 0;
    size_t length = 0;
    EXPECT_OK(raw().cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, opened));
    EXPECT_OK(raw().cuPointerGetAttribute(&length, CU_POINTER_ATTRIBUTE_RANGE_SIZE, opened));
    EXPECT_LE(start, opened);
    EXPECT_GE(start + length, opened + size);
}

FERRY_SECOND_PROCESS(reads_and_writes_imported_memory) {
    const auto handle = channel.receive<CUipcMemHandle>();
    const auto size = channel.receive<size_t>();
    CUdeviceptr address = 0;
    EXPECT_OK(raw().cuIpcOpenMemHandle(&address, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    EXPECT_EQ(bytes(size, std::byte{1}), read_back(address, size));
    expect_range(address, size);
    unsigned type = 0;
    EXPECT_OK(raw().cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address));
    EXPECT_EQ(static_cast<unsigned>(CU_MEMORYTYPE_DEVICE), type);
    int is_legacy = 1;
    EXPECT_OK(raw().cuPointerGetAttribute(&is_legacy, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, address));
    EXPECT_EQ(0, is_legacy);
    CUipcMemHandle again{};
    EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, raw().cuIpcGetMemHandle(&again, address));
    CUdeviceptr without_flag = 0;
    EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, raw().cuIpcOpenMemHandle(&without_flag, handle, 0));
    fill(address, 2, size);
    channel.arrive();
    channel.await(); // until the exporter has written again
    EXPECT_EQ(bytes(size, std::byte{3}), read_back(address, size));
    EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, raw().cuMemFree(address));
    EXPECT_OK(raw().cuIpcCloseMemHandle(address));
    EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, raw().cuIpcCloseMemHandle(address));
    channel.arrive();
    return 0;
}

TEST_F(driver_ipc_test, both_processes_read_and_write_the_same_memory) {
    if (!shares_memory()) GTEST_SKIP() << "this driver cannot share memory";
    for (const size_t size : {size_t{64} << 10, size_t{5} << 20}) {
        device_memory before(1000); // so that the shared memory may begin anywhere
        device_memory memory(size);
        fill(memory, 1, size);
        second_process other("reads_and_writes_imported_memory");
        other->send(handle_of(memory));
        other->send(size);
        other->await();
        EXPECT_EQ(bytes(size, std::byte{2}), read_back(memory, size));
        fill(memory, 3, size);
        other->arrive();
        other->await();
        EXPECT_EQ(bytes(size, std::byte{3}), read_back(memory, size));
        EXPECT_EQ(0, other.wait());
    }
}

FERRY_SECOND_PROCESS(sees_what_an_interior_address_names) {
    const auto handle = channel.receive<CUipcMemHandle>();
    CUdeviceptr address = 0;
    EXPECT_OK(raw().cuIpcOpenMemHandle(&address, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    EXPECT_EQ(bytes(4096, std::byte{1}), read_back(address, 4096));
    EXPECT_OK(raw().cuIpcCloseMemHandle(address));
    return 0;
}

TEST_F(driver_ipc_test, a_handle_names_the_whole_allocation_and_loses_the_offset) {
    if (!shares_memory()) GTEST_SKIP() << "this driver cannot share memory";
    device_memory memory(8192);
    fill(memory, 1, 4096);
    fill(memory + 4096, 2, 4096);
    second_process other("sees_what_an_interior_address_names");
    other->send(handle_of(memory + 4096));
    EXPECT_EQ(0, other.wait());
}

TEST_F(driver_ipc_test, only_memory_of_plain_allocations_has_a_handle) {
    if (!shares_memory()) GTEST_SKIP() << "this driver cannot share memory";
    CUipcMemHandle handle{};
    pinned_memory host(4096);
    EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE,
                  raw().cuIpcGetMemHandle(&handle, reinterpret_cast<CUdeviceptr>(host.data())));
    CUdeviceptr managed = 0;
    ASSERT_OK(raw().cuMemAllocManaged(&managed, 4096, CU_MEM_ATTACH_GLOBAL));
    EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, raw().cuIpcGetMemHandle(&handle, managed));
    EXPECT_OK(raw().cuMemFree(managed));
    CUdeviceptr pooled = 0;
    ASSERT_OK(raw().cuMemAllocAsync(&pooled, 4096, nullptr));
    EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, raw().cuIpcGetMemHandle(&handle, pooled));
    EXPECT_OK(raw().cuMemFree(pooled));
}

TEST_F(driver_ipc_test, handles_of_this_process_and_forged_handles_do_not_open) {
    if (!shares_memory()) GTEST_SKIP() << "this driver cannot share memory";
    device_memory memory(4096);
    const CUipcMemHandle handle = handle_of(memory);
    CUdeviceptr address = 0;
    EXPECT_RESULT(CUDA_ERROR_INVALID_CONTEXT,
                  raw().cuIpcOpenMemHandle(&address, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    CUipcMemHandle forged{};
    std::memset(&forged, 0x5a, sizeof forged);
    EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE,
                  raw().cuIpcOpenMemHandle(&address, forged, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, raw().cuIpcCloseMemHandle(memory));
}

FERRY_SECOND_PROCESS(opens_twice) {
    const auto handle = channel.receive<CUipcMemHandle>();
    CUdeviceptr first = 0;
    CUdeviceptr second = 0;
    EXPECT_OK(raw().cuIpcOpenMemHandle(&first, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    EXPECT_OK(raw().cuIpcOpenMemHandle(&second, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    EXPECT_EQ(first, second);
    EXPECT_OK(raw().cuIpcCloseMemHandle(first));
    EXPECT_EQ(bytes(4096, std::byte{1}), read_back(second, 4096));
    EXPECT_OK(raw().cuIpcCloseMemHandle(second));
    return 0;
}

TEST_F(driver_ipc_test, memory_opened_twice_must_be_closed_twice) { // as the manual says
    if (!shares_memory()) GTEST_SKIP() << "this driver cannot share memory";
    device_memory memory(4096);
    fill(memory, 1, 4096);
    second_process other("opens_twice");
    other->send(handle_of(memory));
    EXPECT_EQ(0, other.wait());
}

FERRY_SECOND_PROCESS(opens_in_two_contexts) {
    const auto handle = channel.receive<CUipcMemHandle>();
    CUdeviceptr here = 0;
    CUdeviceptr there = 0;
    int ordinal = -1;
    EXPECT_OK(raw().cuIpcOpenMemHandle(&here, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    EXPECT_OK(raw().cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, here));
    EXPECT_EQ(0, ordinal);
    {
        other_device second;
        made_current current(second);
        EXPECT_OK(raw().cuIpcOpenMemHandle(&there, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
        EXPECT_NE(here, there);
        EXPECT_OK(raw().cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, there));
        EXPECT_EQ(1, ordinal);
        CUcontext owner = nullptr;
        EXPECT_OK(raw().cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, there));
        EXPECT_EQ(CUcontext{second}, owner);
        EXPECT_EQ(bytes(4096, std::byte{1}), read_back(there, 4096));
        EXPECT_OK(raw().cuIpcCloseMemHandle(there));
    }
    EXPECT_EQ(bytes(4096, std::byte{1}), read_back(here, 4096));
    EXPECT_OK(raw().cuIpcCloseMemHandle(here));
    return 0;
}

TEST_F(driver_ipc_test, memory_opened_in_another_devices_context_has_another_address_on_that_device) {
    if (!shares_memory()) GTEST_SKIP() << "this driver cannot share memory";
    int peer = 0;
    if (device_count() > 1) {
        ASSERT_OK(raw().cuDeviceCanAccessPeer(&peer, 1, 0));
    }
    if (!peer) GTEST_SKIP() << "device 1 cannot reach device 0";
    device_memory memory(4096);
    fill(memory, 1, 4096);
    second_process other("opens_in_two_contexts");
    other->send(handle_of(memory));
    EXPECT_EQ(0, other.wait());
}

FERRY_SECOND_PROCESS(fills_in_another_context) {
    const auto handle = channel.receive<CUipcMemHandle>();
    CUdeviceptr opened = 0;
    EXPECT_OK(raw().cuIpcOpenMemHandle(&opened, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    device_memory own(4096);
    {
        const test_context second;
        const made_current current(second);
        EXPECT_OK(raw().cuMemsetD8(own, 2, 4096));
        EXPECT_OK(raw().cuCtxSynchronize());
        EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, raw().cuMemsetD8(opened, 2, 4096));
        EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, raw().cuMemsetD2D32Async(opened, 64, 2, 4, 10, nullptr));
        EXPECT_EQ(bytes(4096, std::byte{1}), read_back(opened, 4096));
    }
    EXPECT_EQ(bytes(4096, std::byte{2}), read_back(own, 4096));
    EXPECT_OK(raw().cuIpcCloseMemHandle(opened));
    return 0;
}

TEST_F(driver_ipc_test, opened_memory_is_copied_in_every_context_and_filled_only_in_its_own) {
    if (!shares_memory()) GTEST_SKIP() << "this driver cannot share memory";
    device_memory memory(4096);
    fill(memory, 1, 4096);
    second_process other("fills_in_another_context");
    other->send(handle_of(memory));
    EXPECT_EQ(0, other.wait());
}

FERRY_SECOND_PROCESS(shares_memory_and_waits) {
    CUdeviceptr memory = 0;
    EXPECT_OK(raw().cuMemAlloc(&memory, 4096));
    fill(memory, 4, 4096);
    channel.send(handle_of(memory));
    channel.await();
    EXPECT_OK(raw().cuMemFree(memory));
    channel.arrive();
    channel.await();
    return 0;
}

TEST_F(driver_ipc_test, the_death_of_an_exporter_breaks_nothing_in_this_process) {
    if (!shares_memory()) GTEST_SKIP() << "this driver cannot share memory";
    second_process other("shares_memory_and_waits");
    const auto handle = other->receive<CUipcMemHandle>();
    CUdeviceptr address = 0;
    ASSERT_OK(raw().cuIpcOpenMemHandle(&address, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    EXPECT_EQ(bytes(4096, std::byte{4}), read_back(address, 4096));
    other.kill();
    EXPECT_OK(raw().cuCtxSynchronize());
    EXPECT_OK(raw().cuIpcCloseMemHandle(address));
    EXPECT_NE(CUDA_SUCCESS, raw().cuIpcOpenMemHandle(&address, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    device_memory still(4096);
    fill(still, 1, 4096);
}

// ---- Events

constexpr unsigned for_others = CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING;

CUipcEventHandle handle_of(const test_event &event) {
    CUipcEventHandle handle{};
    EXPECT_OK(raw().cuIpcGetEventHandle(&handle, event));
    return handle;
}

TEST_F(driver_ipc_test, an_interprocess_event_must_not_have_timing) {
    CUevent event = nullptr;
    EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, raw().cuEventCreate(&event, CU_EVENT_INTERPROCESS));
    test_event shared(for_others);
    const CUipcEventHandle handle = handle_of(shared);
    CUevent opened = nullptr;
    EXPECT_RESULT(CUDA_ERROR_INVALID_CONTEXT, raw().cuIpcOpenEventHandle(&opened, handle));
    CUipcEventHandle forged{};
    std::memset(&forged, 0x5a, sizeof forged);
    EXPECT_RESULT(CUDA_ERROR_MAP_FAILED, raw().cuIpcOpenEventHandle(&opened, forged));
    test_event local(CU_EVENT_DISABLE_TIMING);
    EXPECT_RESULT(CUDA_ERROR_INVALID_HANDLE, raw().cuIpcGetEventHandle(&forged, local));
    test_stream stream;
    EXPECT_OK(raw().cuEventQuery(shared));
    EXPECT_OK(raw().cuEventRecord(shared, stream));
    EXPECT_OK(raw().cuEventSynchronize(shared));
}

FERRY_SECOND_PROCESS(waits_for_an_event_of_another) {
    CUevent event = nullptr;
    EXPECT_OK(raw().cuIpcOpenEventHandle(&event, channel.receive<CUipcEventHandle>()));
    CUipcEventHandle again{};
    EXPECT_RESULT(CUDA_ERROR_INVALID_HANDLE, raw().cuIpcGetEventHandle(&again, event));
    EXPECT_RESULT(CUDA_ERROR_NOT_READY, raw().cuEventQuery(event));
    test_stream stream;
    EXPECT_OK(raw().cuStreamWaitEvent(stream, event, 0));
    EXPECT_RESULT(CUDA_ERROR_NOT_READY, raw().cuStreamQuery(stream));
    channel.arrive();
    EXPECT_OK(raw().cuStreamSynchronize(stream));
    EXPECT_OK(raw().cuEventSynchronize(event));
    EXPECT_OK(raw().cuEventQuery(event));
    EXPECT_OK(raw().cuEventDestroy(event));
    return 0;
}

TEST_F(driver_ipc_test, a_record_blocks_the_streams_of_another_process) {
    test_event event(for_others);
    test_stream stream;
    gate held(stream);
    ASSERT_OK(raw().cuEventRecord(event, stream));
    second_process other("waits_for_an_event_of_another");
    other->send(handle_of(event));
    other->await();
    held.open();
    EXPECT_EQ(0, other.wait());
}

FERRY_SECOND_PROCESS(records_an_event_of_another) {
    CUevent event = nullptr;
    EXPECT_OK(raw().cuIpcOpenEventHandle(&event, channel.receive<CUipcEventHandle>()));
    {
        test_stream stream;
        gate held(stream);
        EXPECT_OK(raw().cuEventRecord(event, stream));
        channel.arrive();
        channel.await(); // until the other process waits
    }
    EXPECT_OK(raw().cuEventSynchronize(event));
    channel.arrive();
    channel.await();
    EXPECT_OK(raw().cuEventDestroy(event));
    return 0;
}

TEST_F(driver_ipc_test, a_record_in_another_process_is_waited_for_here) {
    test_event event(for_others);
    second_process other("records_an_event_of_another");
    other->send(handle_of(event));
    other->await();
    EXPECT_RESULT(CUDA_ERROR_NOT_READY, raw().cuEventQuery(event));
    test_stream stream;
    EXPECT_OK(raw().cuStreamWaitEvent(stream, event, 0));
    EXPECT_RESULT(CUDA_ERROR_NOT_READY, raw().cuStreamQuery(stream));
    other->arrive();
    EXPECT_OK(raw().cuEventSynchronize(event));
    EXPECT_OK(raw().cuStreamSynchronize(stream));
    other->await();
    EXPECT_OK(raw().cuEventRecord(event, stream)); // the last record counts, whichever process made it
    EXPECT_OK(raw().cuEventSynchronize(event));
    other->arrive();
    EXPECT_EQ(0, other.wait());
}

FERRY_SECOND_PROCESS(outlives_events_of_another) {
    CUevent opened_before = nullptr;
    CUevent opened_after = nullptr;
    EXPECT_OK(raw().cuIpcOpenEventHandle(&opened_before, channel.receive<CUipcEventHandle>()));
    channel.arrive();
    EXPECT_OK(
        raw().cuIpcOpenEventHandle(&opened_after, channel.receive<CUipcEventHandle>())); // destroyed by the exporter
    test_stream stream;
    for (const CUevent event : {opened_before, opened_after})
        EXPECT_OK(raw().cuEventQuery(event));
    EXPECT_OK(raw().cuEventRecord(opened_before, stream));
    EXPECT_OK(raw().cuEventSynchronize(opened_before));
    for (const CUevent event : {opened_before, opened_after})
        EXPECT_OK(raw().cuEventDestroy(event));
    return 0;
}

TEST_F(driver_ipc_test, an_event_destroyed_by_its_process_still_opens_and_counts_as_complete) {
    test_stream stream;
    CUevent first = nullptr;
    CUevent second = nullptr;
    CUipcEventHandle of_first{};
    CUipcEventHandle of_second{};
    ASSERT_OK(raw().cuEventCreate(&first, for_others));
    ASSERT_OK(raw().cuEventCreate(&second, for_others));
    EXPECT_OK(raw().cuIpcGetEventHandle(&of_first, first));
    EXPECT_OK(raw().cuIpcGetEventHandle(&of_second, second));
    EXPECT_OK(raw().cuEventRecord(first, stream));
    ASSERT_OK(raw().cuStreamSynchronize(stream));
    second_process other("outlives_events_of_another");
    other->send(of_first);
    other->await();
    EXPECT_OK(raw().cuEventDestroy(first));
    EXPECT_OK(raw().cuEventDestroy(second));
    other->send(of_second);
    EXPECT_EQ(0, other.wait());
}

FERRY_SECOND_PROCESS(records_and_never_gets_there) {
    CUevent event = nullptr;
    EXPECT_OK(raw().cuIpcOpenEventHandle(&event, channel.receive<CUipcEventHandle>()));
    test_stream stream;
    gate held(stream);
    EXPECT_OK(raw().cuEventRecord(event, stream));
    channel.arrive();
    channel.await();
    return 0;
}

TEST_F(driver_ipc_test, the_death_of_the_recording_process_ends_the_wait) {
    if (!on_software_driver()) GTEST_SKIP() << "the NVIDIA driver waits forever (docs/driver.md)";
    test_event event(for_others);
    test_stream stream;
    second_process other("records_and_never_gets_there");
    other->send(handle_of(event));
    other->await();
    EXPECT_OK(raw().cuStreamWaitEvent(stream, event, 0));
    EXPECT_RESULT(CUDA_ERROR_NOT_READY, raw().cuStreamQuery(stream));
    other.kill();
    EXPECT_OK(raw().cuStreamSynchronize(stream));
    EXPECT_OK(raw().cuEventSynchronize(event));
}

// ---- Pools

struct shared_pool {
    explicit shared_pool(CUmemAllocationHandleType types = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) {
        CUmemPoolProps props{};
        props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
        props.handleTypes = types;
        props.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
        EXPECT_OK(raw().cuMemPoolCreate(&handle, &props));
    }
    ~shared_pool() { EXPECT_OK(raw().cuMemPoolDestroy(handle)); }
    shared_pool(const shared_pool &) = delete;
    operator CUmemoryPool() const { return handle; }
    CUmemoryPool handle = nullptr;
};

int export_pool(CUmemoryPool pool) {
    int descriptor = -1;
    EXPECT_OK(raw().cuMemPoolExportToShareableHandle(&descriptor, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    return descriptor;
}

CUmemoryPool import_pool(int descriptor) {
    CUmemoryPool pool = nullptr;
    EXPECT_OK(raw().cuMemPoolImportFromShareableHandle(&pool, reinterpret_cast<void *>(std::intptr_t{descriptor}),
                                                       CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    return pool;
}

FERRY_SECOND_PROCESS(uses_memory_of_an_imported_pool) {
    const int descriptor = channel.receive_descriptor();
    const CUmemoryPool pool = import_pool(descriptor);
    EXPECT_EQ(pool, import_pool(descriptor)) << "a second import gives the same pool";
    EXPECT_EQ(0, close(descriptor));
    CUmemoryPool none = nullptr;
    EXPECT_RESULT(CUDA_ERROR_UNKNOWN,
                  raw().cuMemPoolImportFromShareableHandle(&none, reinterpret_cast<void *>(std::intptr_t{-1}),
                                                           CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    auto data = channel.receive<CUmemPoolPtrExportData>();
    CUdeviceptr address = 0;
    EXPECT_OK(raw().cuMemPoolImportPointer(&address, pool, &data));
    EXPECT_EQ(bytes(100'000, std::byte{1}), read_back(address, 100'000));
    CUmemoryPool from = nullptr;
    EXPECT_OK(raw().cuPointerGetAttribute(&from, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, address));
    EXPECT_EQ(pool, from);
    fill(address, 2, 100'000);
    CUdeviceptr more = 0;
    EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, raw().cuMemAllocFromPoolAsync(&more, 64, pool, nullptr));
    EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, raw().cuMemPoolTrimTo(pool, 0));
    std::uint64_t number = 0;
    for (const CUmemPool_attribute one :
         {CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, CU_MEMPOOL_ATTR_USED_MEM_CURRENT,
          CU_MEMPOOL_ATTR_USED_MEM_HIGH, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD})
        EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, raw().cuMemPoolGetAttribute(pool, one, &number));
    EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE,
                  raw().cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &number));
    EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, raw().cuDeviceSetMemPool(0, pool));
    int exported = -1;
    EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE,
                  raw().cuMemPoolExportToShareableHandle(&exported, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    CUmemPoolPtrExportData exported_data{};
    EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, raw().cuMemPoolExportPointer(&exported_data, address));
    CUipcMemHandle legacy{};
    EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, raw().cuIpcGetMemHandle(&legacy, address));
    std::uint64_t handle_types = 77;
    EXPECT_OK(raw().cuPointerGetAttribute(&handle_types, CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, address));
    EXPECT_EQ(0u, handle_types);
    if (device_count() > 1) {
        const CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 1}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
        EXPECT_OK(raw().cuMemPoolSetAccess(pool, &access, 1));
        other_device second;
        made_current there(second);
        EXPECT_EQ(bytes(100'000, std::byte{2}), read_back(address, 100'000));
    }
    expect_range(address, 100'000);
    CUdeviceptr again = 0;
    EXPECT_OK(raw().cuMemPoolImportPointer(&again, pool, &data));
    EXPECT_EQ(address, again);
    EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, raw().cuMemPoolDestroy(pool)) << "memory of the pool is imported";
    test_stream stream;
    EXPECT_OK(raw().cuMemFreeAsync(address, stream));
    EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, raw().cuMemFreeAsync(address, stream)) << "two imports count once";
    EXPECT_OK(raw().cuStreamSynchronize(stream));
    EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, raw().cuMemFreeAsync(address, stream));
    EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, raw().cuMemFree(address));
    EXPECT_OK(raw().cuMemPoolDestroy(pool));
    return 0;
}

TEST_F(driver_ipc_test, memory_of_a_pool_is_shared_through_a_descriptor_and_export_data) {
    shared_pool pool;
    test_stream stream;
    CUdeviceptr before = 0;
    CUdeviceptr address = 0;
    CUmemPoolPtrExportData data{};
    const int descriptor = export_pool(pool);
    ASSERT_OK(raw().cuMemAllocFromPoolAsync(&before, 1000, pool, stream));
    ASSERT_OK(raw().cuMemAllocFromPoolAsync(&address, 100'000, pool, stream));
    EXPECT_OK(raw().cuMemsetD8Async(address, 1, 100'000, stream));
    ASSERT_OK(raw().cuStreamSynchronize(stream));
    std::uint64_t handle_types = 0;
    EXPECT_OK(raw().cuPointerGetAttribute(&handle_types, CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, address));
    EXPECT_EQ(std::uint64_t{CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR}, handle_types);
    ASSERT_OK(raw().cuMemPoolExportPointer(&data, address));
    CUmemPoolPtrExportData inside{};
    EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, raw().cuMemPoolExportPointer(&inside, address + 4096));
    second_process other("uses_memory_of_an_imported_pool");
    other->send_descriptor(descriptor);
    other->send(data);
    EXPECT_EQ(0, other.wait());
    EXPECT_EQ(bytes(100'000, std::byte{2}), read_back(address, 100'000));
    EXPECT_OK(raw().cuMemFreeAsync(address, stream));
    EXPECT_OK(raw().cuMemFreeAsync(before, stream));
    EXPECT_OK(raw().cuStreamSynchronize(stream));
    EXPECT_EQ(0, close(descriptor));
}

TEST_F(driver_ipc_test, a_pool_imported_in_its_own_process_has_the_same_memory_at_another_address) {
    shared_pool pool;
    CUdeviceptr address = 0;
    CUdeviceptr again = 0;
    CUmemPoolPtrExportData data{};
    ASSERT_OK(raw().cuMemAllocFromPoolAsync(&address, 4096, pool, nullptr));
    const int first = export_pool(pool);
    const int second = export_pool(pool);
    EXPECT_NE(first, second);
    const CUmemoryPool imported = import_pool(first);
    EXPECT_EQ(0, close(first));
    EXPECT_EQ(0, close(second));
    ASSERT_OK(raw().cuMemPoolExportPointer(&data, address));
    ASSERT_OK(raw().cuMemPoolImportPointer(&again, imported, &data));
    EXPECT_NE(address, again);
    fill(address, 7, 4096);
    EXPECT_EQ(bytes(4096, std::byte{7}), read_back(again, 4096));
    EXPECT_OK(raw().cuMemFree(again));
    EXPECT_EQ(bytes(4096, std::byte{7}), read_back(address, 4096));
    EXPECT_OK(raw().cuMemFree(address));
    EXPECT_OK(raw().cuMemPoolDestroy(imported));
}

TEST_F(driver_ipc_test, memory_cannot_be_exported_before_its_pool) {
    shared_pool pool;
    CUdeviceptr address = 0;
    CUmemPoolPtrExportData data{};
    ASSERT_OK(raw().cuMemAllocFromPoolAsync(&address, 4096, pool, nullptr));
    ASSERT_OK(raw().cuCtxSynchronize());
    EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, raw().cuMemPoolExportPointer(&data, address));
    EXPECT_OK(raw().cuMemFree(address));
}

TEST_F(driver_ipc_test, pools_without_a_handle_type_cannot_be_exported) {
    shared_pool pool(CU_MEM_HANDLE_TYPE_NONE);
    CUmemoryPool standard = nullptr;
    int descriptor = -1;
    ASSERT_OK(raw().cuDeviceGetDefaultMemPool(&standard, 0));
    for (const CUmemoryPool one : {pool.handle, standard})
        EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, raw().cuMemPoolExportToShareableHandle(
                                                    &descriptor, one, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
}

} // namespace
} // namespace ferry::test
