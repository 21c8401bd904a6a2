// Tests what ferry relies on from a driver, through the raw entry points. The same tests hold on the software driver
// and on a real GPU. Where the two differ, the software driver is wrong.
#include "support/gate.h"
#include "support/raw_objects.h"
#include "support/sanitizer.h"
#include "support/system.h"
#include "support/waiting_free.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <future>
#include <mutex>
#include <optional>
#include <thread>

namespace ferry::test {
namespace {

// ---- The driver and its devices

TEST_F(driver_test, result_names_match_the_header) {
    const char *name = nullptr;
    ASSERT_OK(raw().cuGetErrorName(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, &name));
    EXPECT_STREQ("CUDA_ERROR_STREAM_CAPTURE_IMPLICIT", name);
    EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, raw().cuGetErrorName(static_cast<CUresult>(1000), &name));
    EXPECT_EQ(nullptr, name);
}

TEST_F(driver_test, devices_outside_the_count_are_refused) {
    CUdevice device = 0;
    int value = 0;
    EXPECT_RESULT(CUDA_ERROR_INVALID_DEVICE, raw().cuDeviceGet(&device, device_count()));
    EXPECT_RESULT(CUDA_ERROR_INVALID_DEVICE, raw().cuDeviceGet(&device, -1));
    EXPECT_RESULT(CUDA_ERROR_INVALID_DEVICE,
                  raw().cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MAX_PITCH, device_count()));
    EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE,
                  raw().cuDeviceGetAttribute(&value, static_cast<CUdevice_attribute>(255), 0));
}

TEST_F(driver_test, a_device_has_unified_addressing_and_the_documented_maximum_pitch) {
    int value = 0;
    ASSERT_OK(raw().cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 0));
    EXPECT_EQ(1, value);
    ASSERT_OK(raw().cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MAX_PITCH, 0));
    EXPECT_EQ(2147483647, value);
}

// ---- Contexts

TEST_F(driver_test, calls_that_need_a_current_context_are_refused_without_a_context) {
    device_memory memory(64);
    CUcontext popped = nullptr;
    ASSERT_OK(raw().cuCtxPopCurrent(&popped));
    EXPECT_EQ(context, popped);

    CUcontext current = context;
    EXPECT_OK(raw().cuCtxGetCurrent(&current));
    EXPECT_EQ(nullptr, current);
    CUdeviceptr address = 0;
    EXPECT_RESULT(CUDA_ERROR_INVALID_CONTEXT, raw().cuMemAlloc(&address, 64));
    EXPECT_RESULT(CUDA_ERROR_INVALID_CONTEXT, raw().cuCtxSynchronize());
    EXPECT_RESULT(CUDA_ERROR_INVALID_CONTEXT, raw().cuStreamSynchronize(nullptr));
    EXPECT_RESULT(CUDA_ERROR_INVALID_CONTEXT, raw().cuMemsetD8(memory, 1, 64));
    EXPECT_RESULT(CUDA_ERROR_INVALID_CONTEXT, raw().cuCtxPopCurrent(nullptr));
    CUmemorytype type{};
    EXPECT_OK(raw().cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, memory));
    EXPECT_EQ(CU_MEMORYTYPE_DEVICE, type);

    ASSERT_OK(raw().cuCtxPushCurrent(context));
}

TEST_F(driver_test, queries_of_named_streams_and_events_need_no_current_context) {
    test_stream stream;
    test_event event;
    ASSERT_OK(raw().cuEventRecord(event, stream));
    ASSERT_OK(raw().cuCtxPopCurrent(nullptr));
    EXPECT_OK(raw().cuStreamSynchronize(stream));
    EXPECT_OK(raw().cuStreamQuery(stream));
    EXPECT_OK(raw().cuEventSynchronize(event));
    EXPECT_OK(raw().cuEventQuery(event));
    CUcontext owner = nullptr;
    EXPECT_OK(raw().cuStreamGetCtx(stream, &owner));
    EXPECT_EQ(context, owner);
    ASSERT_OK(raw().cuCtxPushCurrent(context));
}

TEST_F(driver_test, copies_on_a_named_stream_and_frees_need_no_current_context) {
    test_stream stream;
    const bytes data = random_bytes(256, 5);
    pinned_memory host(256);
    std::memcpy(host.data(), data.data(), data.size());
    CUdeviceptr memory = 0;
    CUarray array = nullptr;
    const CUDA_ARRAY_DESCRIPTOR line{256, 0, CU_AD_FORMAT_UNSIGNED_INT8, 1};
    ASSERT_OK(raw().cuMemAlloc(&memory, 256));
    ASSERT_OK(raw().cuArrayCreate(&array, &line));
    ASSERT_OK(raw().cuCtxPopCurrent(nullptr));
    EXPECT_OK(raw().cuMemcpyHtoDAsync(memory, host.data(), 256, stream));
    EXPECT_RESULT(CUDA_ERROR_INVALID_CONTEXT, raw().cuMemcpyHtoDAsync(memory, host.data(), 256, nullptr));
    EXPECT_OK(raw().cuStreamSynchronize(stream));
    std::memset(host.data(), 0, 256);
    EXPECT_OK(raw().cuMemcpyDtoHAsync(host.data(), memory, 256, stream));
    EXPECT_OK(raw().cuStreamSynchronize(stream));
    EXPECT_EQ(data, host.copy());
    CUDA_ARRAY3D_DESCRIPTOR told{};
    EXPECT_OK(raw().cuArray3DGetDescriptor(&told, array));
    EXPECT_OK(raw().cuArrayDestroy(array));
    EXPECT_OK(raw().cuMemFree(memory));
    ASSERT_OK(raw().cuCtxPushCurrent(context));
}

TEST_F(driver_test, a_null_context_can_be_set_but_not_pushed) {
    EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, raw().cuCtxPushCurrent(nullptr));
    ASSERT_OK(raw().cuCtxPushCurrent(context));
    ASSERT_OK(raw().cuCtxSetCurrent(nullptr)); // pops the pushed context
    CUcontext current = nullptr;
    ASSERT_OK(raw().cuCtxGetCurrent(&current));
    EXPECT_EQ(context, current);
}

TEST_F(driver_test, contexts_of_one_device_see_each_others_memory_until_they_are_destroyed) {
    const bytes data = random_bytes(256, 1);
    device_memory ours(256);
    CUcontext other = nullptr;
    CUcontext current = nullptr;
    CUdeviceptr theirs = 0;
    ASSERT_OK(raw().cuCtxCreate(&other, 0, 0));
    ASSERT_OK(raw().cuCtxGetCurrent(&current));
    EXPECT_EQ(other, current);
    write(ours, data);
    EXPECT_OK(raw().cuMemAlloc(&theirs, 256));
    EXPECT_OK(raw().cuMemcpyDtoD(theirs, ours, 256));
    EXPECT_EQ(data, read_back(theirs, 256));
    ASSERT_OK(raw().cuCtxDestroy(other)); // also pops the context
    ASSERT_OK(raw().cuCtxGetCurrent(&current));
    EXPECT_EQ(context, current);
    CUmemorytype type{};
    EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE,
                  raw().cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, theirs));
}

TEST_F(driver_test, a_context_destroyed_by_another_thread_stays_current_and_is_reported_as_destroyed) {
    CUcontext other = nullptr;
    ASSERT_OK(raw().cuCtxCreate(&other, 0, 0));
    std::thread([&] { EXPECT_OK(raw().cuCtxDestroy(other)); }).join();
    CUdeviceptr address = 0;
    EXPECT_RESULT(CUDA_ERROR_CONTEXT_IS_DESTROYED, raw().cuMemAlloc(&address, 64));
    EXPECT_OK(raw().cuCtxPopCurrent(nullptr));
}

// ---- Memory

TEST_F(driver_test, only_the_base_of_a_live_allocation_can_be_freed) {
    CUdeviceptr address = 0;
    EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, raw().cuMemAlloc(&address, 0));
    EXPECT_OK(raw().cuMemFree(0));
    ASSERT_OK(raw().cuMemAlloc(&address, 1000));
    EXPECT_EQ(0u, address % 256);
    EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, raw().cuMemFree(address + 256));
    EXPECT_OK(raw().cuMemFree(address));
    EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, raw().cuMemFree(address));
}

TEST_F(driver_test, a_free_waits_for_work_that_runs) {
    constexpr size_t size = 64 << 20;
    device_memory busy(size);
    test_stream stream;
    CUdeviceptr address = 0;
    ASSERT_OK(raw().cuMemAlloc(&address, 64));
    for (int i = 0; i < 4; ++i)
        ASSERT_OK(raw().cuMemsetD8Async(busy, 1, size, stream));
    EXPECT_OK(raw().cuMemFree(address));
    EXPECT_OK(raw().cuStreamQuery(stream));
}

TEST_F(driver_test, queries_return_while_a_free_in_another_thread_waits) {
    test_stream held, idle;
    test_event ahead, passed;
    gate gate(held);
    ASSERT_OK(raw().cuEventRecord(ahead, held));
    ASSERT_OK(raw().cuEventRecord(passed, idle));
    ASSERT_OK(raw().cuStreamSynchronize(idle));
    waiting_free free;
    EXPECT_TRUE(returns_beside(free, [held = held.handle, idle = idle.handle, ahead = ahead.handle,
                                      passed = passed.handle, context = context] {
        EXPECT_RESULT(CUDA_ERROR_NOT_READY, raw().cuEventQuery(ahead));
        EXPECT_OK(raw().cuEventQuery(passed));
        EXPECT_RESULT(CUDA_ERROR_NOT_READY, raw().cuStreamQuery(held));
        EXPECT_OK(raw().cuStreamQuery(idle));
        CUcontext found = nullptr;
        EXPECT_OK(raw().cuCtxPushCurrent(context));
        EXPECT_OK(raw().cuCtxGetCurrent(&found));
        EXPECT_EQ(context, found);
        EXPECT_OK(raw().cuCtxPopCurrent(&found));
        EXPECT_OK(raw().cuStreamGetCtx(held, &found));
        EXPECT_EQ(context, found);
    }));
    gate.let_go();
}

TEST_F(driver_test, an_allocation_larger_than_the_device_is_refused_and_takes_no_memory) {
    size_t total = 0;
    size_t before = 0;
    size_t after = 0;
    ASSERT_OK(raw().cuMemGetInfo(&before, &total));
    CUdeviceptr address = 0;
    EXPECT_RESULT(CUDA_ERROR_OUT_OF_MEMORY, raw().cuMemAlloc(&address, total + 1));
    ASSERT_OK(raw().cuMemGetInfo(&after, &total));
    if (on_software_driver()) {
        EXPECT_EQ(before, after);
    } // other processes may share a real device
}

TEST_F(driver_test, pitched_memory_has_wide_enough_rows_and_takes_elements_of_4_8_and_16_bytes) {
    CUdeviceptr address = 0;
    size_t pitch = 0;
    EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, raw().cuMemAllocPitch(&address, &pitch, 100, 10, 3));
    for (const unsigned element : {4u, 8u, 16u}) {
        ASSERT_OK(raw().cuMemAllocPitch(&address, &pitch, 1000, 10, element));
        EXPECT_GE(pitch, 1000u);
        EXPECT_EQ(0u, pitch % 512);
        EXPECT_OK(raw().cuMemFree(address));
    }
}

TEST_F(driver_test, registering_twice_or_unregistering_unknown_memory_is_refused) {
    bytes memory(8192);
    EXPECT_RESULT(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, raw().cuMemHostUnregister(memory.data()));
    ASSERT_OK(raw().cuMemHostRegister(memory.data(), memory.size(), 0));
    EXPECT_RESULT(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, raw().cuMemHostRegister(memory.data(), memory.size(), 0));
    CUdeviceptr alias = 0;
    EXPECT_OK(raw().cuMemHostGetDevicePointer(&alias, memory.data(), 0));
    EXPECT_OK(raw().cuMemHostUnregister(memory.data()));
    EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, raw().cuMemHostGetDevicePointer(&alias, memory.data(), 0));
    EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, raw().cuMemHostRegister(memory.data(), 0, 0));
}

TEST_F(driver_test, the_driver_distinguishes_its_own_host_memory_from_registered_memory) {
    for (const unsigned flags : {0u, unsigned{CU_MEMHOSTALLOC_PORTABLE}}) {
        void *own = nullptr;
        unsigned told = 0;
        ASSERT_OK(raw().cuMemHostAlloc(&own, 8192, flags));
        EXPECT_OK(raw().cuMemHostGetFlags(&told, own));
        EXPECT_EQ(told, flags | CU_MEMHOSTALLOC_DEVICEMAP);
        EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, raw().cuMemHostUnregister(own));
        EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, raw().cuMemHostRegister(own, 4096, 0));
        EXPECT_OK(raw().cuMemFreeHost(own));

        bytes memory(8192);
        ASSERT_OK(raw().cuMemHostRegister(memory.data(), memory.size(), flags));
        EXPECT_OK(raw().cuMemHostGetFlags(&told, memory.data()));
        EXPECT_EQ(told, flags | CU_MEMHOSTALLOC_DEVICEMAP);
        EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, raw().cuMemFreeHost(memory.data()));
        EXPECT_OK(raw().cuMemHostUnregister(memory.data()));
    }
}

TEST_F(driver_test, the_child_of_a_fork_shares_host_memory_of_the_driver) {
    FERRY_NEEDS_FORK();
    void *own = nullptr;
    ASSERT_OK(raw().cuMemHostAlloc(&own, 8192, 0));
    auto *const at = static_cast<volatile unsigned char *>(own);
    at[5000] = 1;
    EXPECT_EQ(run_in_child([&] { return at[5000] == 1 ? (at[5000] = 2, 0) : 1; }), 0);
    EXPECT_EQ(at[5000], 2);
    EXPECT_OK(raw().cuMemFreeHost(own));
}

TEST_F(driver_test, pointer_attributes_describe_interior_addresses) {
    device_memory memory(1000);
    const CUdeviceptr inside = memory + 777;
    CUdeviceptr start = 0;
    size_t size = 0;
    unsigned type = 0;
    int ordinal = -1;
    CUcontext owner = nullptr;
    void *host = nullptr;
    ASSERT_OK(raw().cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, inside));
    ASSERT_OK(raw().cuPointerGetAttribute(&size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, inside));
    ASSERT_OK(raw().cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, inside));
    ASSERT_OK(raw().cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, inside));
    ASSERT_OK(raw().cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, inside));
    EXPECT_EQ(memory.address, start);
    EXPECT_EQ(1000u, size);
    EXPECT_EQ(static_cast<unsigned>(CU_MEMORYTYPE_DEVICE), type);
    EXPECT_EQ(0, ordinal);
    EXPECT_EQ(context, owner);
    EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE,
                  raw().cuPointerGetAttribute(&host, CU_POINTER_ATTRIBUTE_HOST_POINTER, inside));
    ASSERT_OK(raw().cuMemGetAddressRange(&start, &size, inside));
    EXPECT_EQ(memory.address, start);
    EXPECT_EQ(1000u, size);
}

TEST_F(driver_test, pinned_memory_is_host_memory_with_a_device_address) {
    pinned_memory memory(4096);
    const auto inside = reinterpret_cast<CUdeviceptr>(memory.data() + 100);
    unsigned type = 0;
    void *host = nullptr;
    CUdeviceptr device = 0;
    ASSERT_OK(raw().cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, inside));
    ASSERT_OK(raw().cuPointerGetAttribute(&host, CU_POINTER_ATTRIBUTE_HOST_POINTER, inside));
    ASSERT_OK(raw().cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, inside));
    EXPECT_EQ(static_cast<unsigned>(CU_MEMORYTYPE_HOST), type);
    EXPECT_EQ(memory.data() + 100, host);
    EXPECT_EQ(inside, device);
    EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, raw().cuMemHostGetDevicePointer(&device, memory.data(), 7));
}

TEST_F(driver_test, an_unknown_address_fails_a_single_query_and_has_empty_results_in_a_combined_query) {
    bytes pageable(64);
    const auto address = reinterpret_cast<CUdeviceptr>(pageable.data());
    unsigned type = 77;
    EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE,
                  raw().cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address));
    CUcontext owner = context;
    int ordinal = 77;
    CUpointer_attribute asked[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_CONTEXT,
                                   CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
    void *out[] = {&type, &owner, &ordinal};
    ASSERT_OK(raw().cuPointerGetAttributes(3, asked, out, address));
    EXPECT_EQ(0u, type);
    EXPECT_EQ(nullptr, owner);
    EXPECT_EQ(CU_DEVICE_INVALID, ordinal);
    CUdeviceptr base = 0;
    EXPECT_RESULT(CUDA_ERROR_NOT_FOUND, raw().cuMemGetAddressRange(&base, nullptr, address));
}

// ---- Copies

struct box {
    size_t pitch, height, x, y, z;
    size_t at(size_t column, size_t row, size_t slice) const {
        return ((z + slice) * height + y + row) * pitch + x + column;
    }
};

// The plain reference for all 3D copies.
void copy_reference(bytes &to, const box &to_box, const bytes &from, const box &from_box, size_t width, size_t height,
                    size_t depth) {
    for (size_t z = 0; z < depth; ++z)
        for (size_t y = 0; y < height; ++y)
            for (size_t x = 0; x < width; ++x)
                to[to_box.at(x, y, z)] = from[from_box.at(x, y, z)];
}

CUDA_MEMCPY3D described(const box &to, const box &from, size_t width, size_t height, size_t depth) {
    CUDA_MEMCPY3D copy{};
    copy.dstPitch = to.pitch, copy.dstHeight = to.height;
    copy.dstXInBytes = to.x, copy.dstY = to.y, copy.dstZ = to.z;
    copy.srcPitch = from.pitch, copy.srcHeight = from.height;
    copy.srcXInBytes = from.x, copy.srcY = from.y, copy.srcZ = from.z;
    copy.WidthInBytes = width, copy.Height = height, copy.Depth = depth;
    return copy;
}

TEST_F(driver_test, a_3d_copy_moves_its_box_and_nothing_else_through_host_and_device) {
    const box from{67, 11, 5, 2, 1};
    const box via{128, 9, 3, 1, 2};
    const box to{61, 13, 7, 3, 0};
    constexpr size_t width = 33, height = 7, depth = 3;
    const bytes source = random_bytes(67 * 11 * 5, 2);
    const bytes device_before = random_bytes(128 * 9 * 6, 3);
    const bytes target_before = random_bytes(61 * 13 * 4, 4);
    for (const bool through_unified : {false, true}) {
        device_memory memory(device_before.size());
        write(memory, device_before);
        bytes target = target_before;

        CUDA_MEMCPY3D up = described(via, from, width, height, depth);
        up.srcMemoryType = through_unified ? CU_MEMORYTYPE_UNIFIED : CU_MEMORYTYPE_HOST;
        up.srcHost = source.data();
        up.srcDevice = through_unified ? reinterpret_cast<CUdeviceptr>(source.data()) : 0;
        up.dstMemoryType = through_unified ? CU_MEMORYTYPE_UNIFIED : CU_MEMORYTYPE_DEVICE;
        up.dstDevice = memory;
        ASSERT_OK(raw().cuMemcpy3D(&up));
        bytes expected = device_before;
        copy_reference(expected, via, source, from, width, height, depth);
        EXPECT_EQ(expected, read_back(memory, expected.size()));

        CUDA_MEMCPY3D down = described(to, via, width, height, depth);
        down.srcMemoryType = CU_MEMORYTYPE_DEVICE;
        down.srcDevice = memory;
        down.dstMemoryType = CU_MEMORYTYPE_HOST;
        down.dstHost = target.data();
        ASSERT_OK(raw().cuMemcpy3D(&down));
        bytes wanted = target_before;
        copy_reference(wanted, to, source, from, width, height, depth);
        EXPECT_EQ(wanted, target);
    }
}

TEST_F(driver_test, a_2d_copy_between_device_pitches_keeps_the_gaps) {
    const bytes source = random_bytes(640 * 9, 5);
    const bytes before = random_bytes(512 * 9, 6);
    device_memory from(source.size());
    device_memory to(before.size());
    write(from, source);
    write(to, before);
    CUDA_MEMCPY2D copy{};
    copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.srcDevice = from, copy.srcPitch = 640, copy.srcXInBytes = 13, copy.srcY = 1;
    copy.dstDevice = to, copy.dstPitch = 512, copy.dstXInBytes = 1, copy.dstY = 2;
    copy.WidthInBytes = 301, copy.Height = 7;
    test_stream stream;
    bytes expected = before;
    copy_reference(expected, {512, 9, 1, 2, 0}, source, {640, 9, 13, 1, 0}, 301, 7, 1);
    ASSERT_OK(raw().cuCtxSynchronize()); // the writes above may still be in flight (trap 8)
    ASSERT_OK(raw().cuMemcpy2DAsync(&copy, stream));
    ASSERT_OK(raw().cuStreamSynchronize(stream));
    EXPECT_EQ(expected, read_back(to, expected.size()));
    write(to, before);
    ASSERT_OK(raw().cuMemcpy2DUnaligned(&copy));
    EXPECT_EQ(expected, read_back(to, expected.size()));
}

TEST_F(driver_test, a_pitch_and_a_height_of_zero_mean_tight) {
    const bytes source = random_bytes(10 * 6 * 4, 18);
    device_memory memory(source.size());
    CUDA_MEMCPY3D copy{};
    copy.srcMemoryType = CU_MEMORYTYPE_HOST, copy.srcHost = source.data();
    copy.dstMemoryType = CU_MEMORYTYPE_DEVICE, copy.dstDevice = memory;
    copy.WidthInBytes = 10, copy.Height = 6, copy.Depth = 4;
    ASSERT_OK(raw().cuMemcpy3D(&copy));
    EXPECT_EQ(source, read_back(memory, source.size()));
}

TEST_F(driver_test, an_empty_copy_succeeds) {
    device_memory memory(64);
    bytes host(64);
    EXPECT_OK(raw().cuMemcpyHtoD(memory, host.data(), 0));
    CUDA_MEMCPY3D copy{};
    copy.srcMemoryType = CU_MEMORYTYPE_HOST, copy.srcHost = host.data();
    copy.dstMemoryType = CU_MEMORYTYPE_DEVICE, copy.dstDevice = memory;
    EXPECT_OK(raw().cuMemsetD8(memory, 5, 64));
    for (const auto &[height, depth] : {std::pair{0, 1}, std::pair{1, 0}, std::pair{0, 0}}) {
        copy.WidthInBytes = 16, copy.Height = height, copy.Depth = depth;
        EXPECT_OK(raw().cuMemcpy3D(&copy));
    }
    EXPECT_OK(raw().cuCtxSynchronize());
    EXPECT_OK(raw().cuMemcpyDtoH(host.data(), memory, 64));
    EXPECT_EQ(host, bytes(64, std::byte{5}));
}

TEST_F(driver_test, copies_that_leave_their_memory_or_have_contradictory_fields_are_refused) {
    device_memory memory(4096);
    bytes host(1 << 16);
    EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, raw().cuMemcpyHtoD(memory, host.data(), 4097));
    EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, raw().cuMemcpyDtoH(host.data(), memory + 4000, 97));
    EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, raw().cuMemcpyHtoD(memory, nullptr, 16));
    EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, raw().cuMemcpyHtoD(0, host.data(), 16));
    EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE,
                  raw().cuMemcpyDtoH(host.data(), reinterpret_cast<CUdeviceptr>(host.data() + 100), 16));

    CUDA_MEMCPY3D fine{};
    fine.srcMemoryType = CU_MEMORYTYPE_HOST, fine.srcHost = host.data();
    fine.dstMemoryType = CU_MEMORYTYPE_DEVICE, fine.dstDevice = memory;
    fine.srcPitch = fine.dstPitch = 64, fine.srcHeight = fine.dstHeight = 8;
    fine.WidthInBytes = 64, fine.Height = 8, fine.Depth = 8;
    EXPECT_OK(raw().cuMemcpy3D(&fine));
    const auto refused = [&](auto change) {
        CUDA_MEMCPY3D copy = fine;
        change(copy);
        return static_cast<int>(raw().cuMemcpy3D(&copy));
    };
    EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, refused([](auto &c) { c.srcPitch = 63; }));
    EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, refused([](auto &c) { c.srcXInBytes = 1; }));
    EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, refused([](auto &c) { c.srcHeight = 7; }));
    EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, refused([](auto &c) { c.dstPitch = size_t{1} << 31; }));
    EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, refused([](auto &c) { c.dstZ = 1; }));
    EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, refused([](auto &c) { c.srcMemoryType = static_cast<CUmemorytype>(0); }));
    EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, refused([](auto &c) { c.srcHeight = 7, c.Depth = 1; }));
    EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, refused([](auto &c) { c.srcPitch = 63, c.Height = c.Depth = 1; }));
    EXPECT_EQ(CUDA_ERROR_INVALID_VALUE,
              refused([&](auto &c) { c.dstDevice = reinterpret_cast<CUdeviceptr>(host.data() + 32768), c.Depth = 1; }))
        << "an address stated as device memory must be known to the driver";
    EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, raw().cuMemcpy3D(nullptr));
}

TEST_F(driver_test, the_memory_type_host_is_a_hint_and_the_level_of_detail_is_read_only_for_arrays) {
    device_memory memory(256);
    const bytes data = random_bytes(256, 77);
    write(memory, data);
    bytes out(64);
    CUDA_MEMCPY3D copy{};
    copy.srcMemoryType = CU_MEMORYTYPE_HOST, copy.srcHost = reinterpret_cast<void *>(memory.address + 64);
    copy.dstMemoryType = CU_MEMORYTYPE_HOST, copy.dstHost = out.data();
    copy.srcLOD = copy.dstLOD = 1;
    copy.WidthInBytes = 64, copy.Height = 1, copy.Depth = 1;
    EXPECT_OK(raw().cuMemcpy3D(&copy));
    EXPECT_EQ(bytes(data.begin() + 64, data.begin() + 128), out);
}

TEST_F(driver_test, a_copy_may_not_leave_a_registration_but_may_run_into_one) {
    constexpr size_t page = 4096;
    bytes buffer(6 * page);
    auto *const aligned =
        reinterpret_cast<std::byte *>((reinterpret_cast<uintptr_t>(buffer.data()) + page - 1) / page * page);
    device_memory memory(4 * page);
    ASSERT_OK(raw().cuMemHostRegister(aligned, page, 0));
    ASSERT_OK(raw().cuMemHostRegister(aligned + page, page, 0));
    EXPECT_OK(raw().cuMemcpyHtoD(memory, aligned, page));
    EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, raw().cuMemcpyHtoD(memory, aligned, 2 * page));
    EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, raw().cuMemcpyHtoD(memory, aligned + page, 2 * page));
    EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, raw().cuMemcpyDtoH(aligned, memory, 2 * page));
    EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, raw().cuMemcpy(reinterpret_cast<CUdeviceptr>(aligned + 2 * page),
                                                           reinterpret_cast<CUdeviceptr>(aligned + page / 2), page));
    EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, raw().cuMemsetD8(reinterpret_cast<CUdeviceptr>(aligned), 1, 2 * page));
    CUDA_MEMCPY2D rows = {};
    rows.srcMemoryType = CU_MEMORYTYPE_HOST;
    rows.srcHost = aligned;
    rows.srcPitch = page;
    rows.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    rows.dstDevice = memory;
    rows.dstPitch = rows.WidthInBytes = 64;
    rows.Height = 2;
    EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, raw().cuMemcpy2D(&rows)); // one row in each registration
    rows.srcHost = aligned + page;
    rows.srcPitch = page / 2;
    EXPECT_OK(raw().cuMemcpy2D(&rows)); // both rows in one registration
    rows.srcHost = aligned + page + 64;
    rows.srcPitch = page - 128;
    EXPECT_OK(raw().cuMemcpy2D(&rows)); // the last row ends with the registration, and only its padding is beyond
    rows.srcPitch += 1;
    EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, raw().cuMemcpy2D(&rows)); // the last row leaves by one byte
    EXPECT_OK(raw().cuMemHostUnregister(aligned));
    const bytes told = random_bytes(4 * page, 24);
    std::memcpy(aligned, told.data(), told.size());
    EXPECT_OK(raw().cuMemcpyHtoD(memory, aligned, 4 * page)); // begins and ends in pageable memory
    EXPECT_EQ(told, read_back(memory, told.size()));
    EXPECT_OK(raw().cuMemHostUnregister(aligned + page));
    EXPECT_OK(raw().cuMemcpyHtoD(memory, aligned, 4 * page));
}

TEST_F(driver_test, copies_reach_memory_on_any_device_and_fills_only_on_their_own) {
    if (device_count() < 2) GTEST_SKIP() << "needs two devices";
    const bytes data = random_bytes(5000, 7);
    device_memory here(data.size());
    write(here, data);
    ASSERT_OK(
        raw().cuCtxSynchronize()); // a small pageable copy may be in flight, and the other context does not wait for it
    CUcontext other = nullptr;
    ASSERT_OK(raw().cuDevicePrimaryCtxRetain(&other, 1));
    ASSERT_OK(raw().cuCtxPushCurrent(other));
    {
        device_memory there(data.size());
        bytes host(data.size());
        EXPECT_OK(raw().cuMemcpyDtoH(host.data(), here, host.size()));
        EXPECT_EQ(data, host);
        EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, raw().cuMemsetD8(here, 0, data.size()));
        EXPECT_OK(raw().cuMemcpyPeer(there, other, here, context, data.size()));
        EXPECT_EQ(data, read_back(there, data.size()));
        EXPECT_OK(raw().cuMemsetD8(there, 0, data.size()));
        EXPECT_OK(raw().cuMemcpy(there, here, data.size()));
        EXPECT_OK(raw().cuCtxSynchronize());
        EXPECT_EQ(data, read_back(there, data.size()));
    }
    EXPECT_OK(raw().cuCtxPopCurrent(nullptr));
    EXPECT_OK(raw().cuDevicePrimaryCtxRelease(1));
}

// ---- Fills

TEST_F(driver_test, fills_write_their_pattern_and_respect_the_pitch) {
    const bytes before = random_bytes(1024, 8);
    device_memory memory(before.size());
    write(memory, before);
    ASSERT_OK(raw().cuMemsetD2D16(memory + 4, 128, 0xabcd, 10, 3));
    bytes expected = before;
    for (size_t row = 0; row < 3; ++row)
        for (size_t i = 0; i < 10; ++i) {
            const unsigned short value = 0xabcd;
            std::memcpy(&expected[4 + row * 128 + i * 2], &value, 2);
        }
    EXPECT_EQ(expected, read_back(memory, expected.size()));
    test_stream stream;
    ASSERT_OK(raw().cuMemsetD32Async(memory + 512, 0x01020304, 100, stream));
    ASSERT_OK(raw().cuStreamSynchronize(stream));
    for (size_t i = 0; i < 100; ++i) {
        const unsigned value = 0x01020304;
        std::memcpy(&expected[512 + i * 4], &value, 4);
    }
    EXPECT_EQ(expected, read_back(memory, expected.size()));
    EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, raw().cuMemsetD16(memory + 1, 0, 4));
    EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, raw().cuMemsetD32(memory + 2, 0, 4));
    EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, raw().cuMemsetD2D16(memory, 65, 0, 4, 2));
    EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, raw().cuMemsetD8(memory, 0, 1025));
}

// One call of one of the twelve forms of a fill.
struct fill {
    unsigned bits;
    size_t offset, pitch, width, rows;
};
constexpr size_t no_rows = ~size_t{0}; // selects a form without a pitch

CUresult run(const fill &asked, CUdeviceptr base, const CUstream *stream, unsigned value) {
    const CUdeviceptr at = base + asked.offset;
    const auto call = [&](auto linear, auto linear_async, auto pitched, auto pitched_async, auto element) {
        if (asked.rows == no_rows)
            return stream ? linear_async(at, element, asked.width, *stream) : linear(at, element, asked.width);
        return stream ? pitched_async(at, asked.pitch, element, asked.width, asked.rows, *stream)
                      : pitched(at, asked.pitch, element, asked.width, asked.rows);
    };
    const driver_table &cu = raw();
    if (asked.bits == 8)
        return call(cu.cuMemsetD8, cu.cuMemsetD8Async, cu.cuMemsetD2D8, cu.cuMemsetD2D8Async,
                    static_cast<unsigned char>(value));
    if (asked.bits == 16)
        return call(cu.cuMemsetD16, cu.cuMemsetD16Async, cu.cuMemsetD2D16, cu.cuMemsetD2D16Async,
                    static_cast<unsigned short>(value));
    return call(cu.cuMemsetD32, cu.cuMemsetD32Async, cu.cuMemsetD2D32, cu.cuMemsetD2D32Async, value);
}

TEST_F(driver_test, every_form_of_a_fill_writes_its_elements_and_nothing_else) {
    const bytes before = random_bytes(1024, 26);
    device_memory memory(before.size());
    test_stream stream;
    const CUstream handle = stream;
    for (const unsigned bits : {8u, 16u, 32u})
        for (const size_t rows : {no_rows, size_t{1}, size_t{5}})
            for (const CUstream *on : {static_cast<const CUstream *>(nullptr), &handle}) {
                SCOPED_TRACE(std::to_string(bits) + " bits, rows " + std::to_string(rows));
                constexpr unsigned value = 0x0a1b2c3d;
                const fill asked{bits, 8, 64, 7, rows};
                write(memory, before);
                ASSERT_OK(raw().cuCtxSynchronize());
                ASSERT_OK(run(asked, memory, on, value));
                ASSERT_OK(raw().cuCtxSynchronize());
                bytes expected = before;
                for (size_t row = 0; row < (rows == no_rows ? 1 : rows); ++row)
                    for (size_t i = 0; i < 7; ++i) // little-endian, like every host of CUDA
                        std::memcpy(&expected[8 + row * 64 + i * bits / 8], &value, bits / 8);
                EXPECT_EQ(expected, read_back(memory, expected.size()));
            }
}

TEST_F(driver_test, fills_must_be_aligned_and_inside_their_memory_and_one_row_needs_no_pitch) {
    constexpr size_t size = 65536;
    const struct {
        fill asked;
        bool is_possible;
    } fills[] = {
        {{16, 1, 0, 8, no_rows}, false},
        {{32, 2, 0, 8, no_rows}, false},
        {{16, 1, 16, 8, 2}, false},
        {{16, 0, 17, 8, 2}, false},
        {{32, 0, 18, 4, 2}, false},
        {{8, 0, 7, 8, 2}, false},
        {{8, 0, 0, 8, 2}, false},
        {{8, 0, 0, 8, 1}, true},
        {{8, 0, 7, 8, 1}, true},
        {{16, 0, 17, 4, 1}, true},
        {{8, 0, 8, 0, 2}, true},
        {{8, 0, 8, 8, 0}, true},
        {{8, 0, 0, 0, no_rows}, true},
        {{8, 0, 0, size, no_rows}, true},
        {{8, 0, 0, size + 1, no_rows}, false},
        {{8, 0, 0, (2 << 20) + 1, no_rows}, false},
        {{8, 0, size_t{3} << 30, 8, 1}, true},
        {{8, 0, size_t{3} << 30, 8, 2}, false},
        {{8, 0, 1 << 15, 8, 2}, true},
    };
    device_memory memory(size);
    for (const auto &[asked, is_possible] : fills) {
        SCOPED_TRACE(std::to_string(asked.bits) + " bits at " + std::to_string(asked.offset) + ", pitch " +
                     std::to_string(asked.pitch) + ", " + std::to_string(asked.width) + " x " +
                     std::to_string(asked.rows));
        EXPECT_RESULT(is_possible ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE, run(asked, memory, nullptr, 5));
    }
    EXPECT_OK(raw().cuMemsetD8(0, 5, 0));
    EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, raw().cuMemsetD8(0, 5, 1));
}

TEST_F(driver_test, host_memory_known_to_the_driver_is_filled_from_any_device) {
    constexpr size_t page = 4096;
    pinned_memory pinned(2 * page);
    bytes buffer(4 * page);
    auto *const pageable =
        reinterpret_cast<std::byte *>((reinterpret_cast<uintptr_t>(buffer.data()) + page - 1) / page * page);
    const auto at = [](void *address) { return reinterpret_cast<CUdeviceptr>(address); };
    EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, raw().cuMemsetD8(at(pageable), 5, 2 * page));
    ASSERT_OK(raw().cuMemHostRegister(pageable, 2 * page, 0));
    EXPECT_OK(raw().cuMemsetD8(at(pageable), 5, 2 * page));
    EXPECT_OK(raw().cuCtxSynchronize());
    EXPECT_EQ(std::byte{5}, pageable[2 * page - 1]);
    EXPECT_OK(raw().cuMemHostUnregister(pageable));
    if (device_count() < 2) return;
    const other_device other;
    const made_current there(other);
    test_stream stream;
    EXPECT_OK(raw().cuMemsetD8(at(pinned.data()), 1, 16));
    EXPECT_OK(raw().cuMemsetD8Async(at(pinned.data()) + 16, 2, 16, stream));
    EXPECT_OK(raw().cuCtxSynchronize());
    EXPECT_EQ(std::byte{1}, pinned.data()[15]);
    EXPECT_EQ(std::byte{2}, pinned.data()[31]);
}

TEST_F(driver_test, a_fill_on_a_named_stream_needs_no_current_context) {
    device_memory memory(16);
    test_stream stream;
    const made_current none(nullptr);
    EXPECT_OK(raw().cuMemsetD8Async(memory, 1, 16, stream));
    EXPECT_RESULT(CUDA_ERROR_INVALID_CONTEXT, raw().cuMemsetD8(memory, 1, 16));
    EXPECT_RESULT(CUDA_ERROR_INVALID_CONTEXT, raw().cuMemsetD8Async(memory, 1, 16, nullptr));
    EXPECT_OK(raw().cuStreamSynchronize(stream));
}

TEST_F(driver_test, a_fill_reaches_memory_of_another_context_of_its_device) {
    device_memory memory(64);
    CUcontext other = nullptr;
    ASSERT_OK(raw().cuCtxCreate(&other, 0, 0)); // becomes current
    EXPECT_OK(raw().cuMemsetD8(memory, 7, 64));
    EXPECT_OK(raw().cuCtxSynchronize());
    EXPECT_OK(raw().cuCtxDestroy(other));
    ASSERT_OK(raw().cuCtxSetCurrent(context));
    EXPECT_EQ(read_back(memory, 64), bytes(64, std::byte{7}));
}

TEST_F(driver_test, a_fill_of_pinned_memory_is_done_when_the_call_returns) {
    pinned_memory memory(1 << 20);
    std::memset(memory.data(), 0, memory.size);
    ASSERT_OK(raw().cuMemsetD8(reinterpret_cast<CUdeviceptr>(memory.data()), 0x5a, memory.size));
    EXPECT_EQ(bytes(memory.size, std::byte{0x5a}), memory.copy());
}

// ---- Arrays

struct array_shape {
    const char *what;
    CUDA_ARRAY3D_DESCRIPTOR descriptor;
    size_t element;
};

const array_shape array_shapes[] = {
    {"1D bytes", {301, 0, 0, CU_AD_FORMAT_UNSIGNED_INT8, 1, 0}, 1},
    {"2D halves", {37, 21, 0, CU_AD_FORMAT_HALF, 4, 0}, 8},
    {"2D floats", {53, 17, 0, CU_AD_FORMAT_FLOAT, 4, CUDA_ARRAY3D_SURFACE_LDST}, 16},
    {"3D shorts", {19, 13, 7, CU_AD_FORMAT_SIGNED_INT16, 2, 0}, 4},
    {"1D layers", {37, 0, 5, CU_AD_FORMAT_FLOAT, 1, CUDA_ARRAY3D_LAYERED}, 4},
    {"2D layers", {21, 9, 5, CU_AD_FORMAT_FLOAT, 2, CUDA_ARRAY3D_LAYERED}, 8},
    {"cubemap", {17, 17, 6, CU_AD_FORMAT_UNSIGNED_INT8, 4, CUDA_ARRAY3D_CUBEMAP}, 4},
    {"cubemap layers", {13, 13, 12, CU_AD_FORMAT_HALF, 1, CUDA_ARRAY3D_CUBEMAP | CUDA_ARRAY3D_LAYERED}, 2},
};

TEST_F(driver_test, arrays_keep_their_contents_and_boxes_are_copied_between_them) {
    for (const array_shape &shape : array_shapes) {
        SCOPED_TRACE(shape.what);
        const size_t width = shape.descriptor.Width * shape.element;
        const size_t height = std::max<size_t>(shape.descriptor.Height, 1);
        const size_t depth = std::max<size_t>(shape.descriptor.Depth, 1);
        const box whole{width, height, 0, 0, 0};
        const bytes first_data = random_bytes(width * height * depth, 9);
        const bytes second_data = random_bytes(width * height * depth, 10);
        CUarray first = nullptr;
        CUarray second = nullptr;
        ASSERT_OK(raw().cuArray3DCreate(&first, &shape.descriptor));
        ASSERT_OK(raw().cuArray3DCreate(&second, &shape.descriptor));

        CUDA_MEMCPY3D up = described(whole, whole, width, height, depth);
        up.srcMemoryType = CU_MEMORYTYPE_HOST;
        up.dstMemoryType = CU_MEMORYTYPE_ARRAY;
        up.srcHost = first_data.data(), up.dstArray = first;
        EXPECT_OK(raw().cuMemcpy3D(&up));
        up.srcHost = second_data.data(), up.dstArray = second;
        EXPECT_OK(raw().cuMemcpy3D(&up));

        // A box of odd size, between odd places.
        const size_t column = shape.element;
        const box from{width, height, column * 5, height / 3, depth / 4};
        const box to{width, height, column * 2, height / 4, depth / 2};
        const size_t boxed = width - column * 7;
        const size_t rows = std::max<size_t>(height / 2, 1);
        const size_t slices = std::max<size_t>(depth / 2, 1);
        CUDA_MEMCPY3D across = described(to, from, boxed, rows, slices);
        across.srcMemoryType = across.dstMemoryType = CU_MEMORYTYPE_ARRAY;
        across.srcArray = first, across.dstArray = second;
        EXPECT_OK(raw().cuMemcpy3D(&across));

        bytes expected = second_data;
        copy_reference(expected, to, first_data, from, boxed, rows, slices);
        bytes out(expected.size());
        CUDA_MEMCPY3D down = described(whole, whole, width, height, depth);
        down.srcMemoryType = CU_MEMORYTYPE_ARRAY, down.srcArray = second;
        down.dstMemoryType = CU_MEMORYTYPE_HOST, down.dstHost = out.data();
        EXPECT_OK(raw().cuMemcpy3D(&down));
        EXPECT_EQ(expected, out);

        device_memory linear(out.size());
        down.dstMemoryType = CU_MEMORYTYPE_DEVICE, down.dstDevice = linear;
        EXPECT_OK(raw().cuMemcpy3D(&down));
        EXPECT_EQ(expected, read_back(linear, out.size()));

        down.srcXInBytes = column; // one element past the end
        EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, raw().cuMemcpy3D(&down));
        down.srcXInBytes = 0, down.srcLOD = 1; // outside a mipmapped array there is only level 0
        EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, raw().cuMemcpy3D(&down));
        CUDA_ARRAY3D_DESCRIPTOR described_as{};
        EXPECT_OK(raw().cuArray3DGetDescriptor(&described_as, second));
        EXPECT_EQ(shape.descriptor.Width, described_as.Width);
        EXPECT_EQ(shape.descriptor.Height, described_as.Height);
        EXPECT_EQ(shape.descriptor.Depth, described_as.Depth);
        EXPECT_EQ(shape.descriptor.Format, described_as.Format);
        EXPECT_EQ(shape.descriptor.NumChannels, described_as.NumChannels);
        EXPECT_OK(raw().cuArrayDestroy(first));
        EXPECT_OK(raw().cuArrayDestroy(second));
    }
}

TEST_F(driver_test, the_short_forms_for_arrays_count_their_offsets_in_bytes) {
    const CUDA_ARRAY_DESCRIPTOR shape{100, 0, CU_AD_FORMAT_UNSIGNED_INT32, 1};
    CUarray array = nullptr;
    ASSERT_OK(raw().cuArrayCreate(&array, &shape));
    const bytes data = random_bytes(400, 11);
    bytes out(200);
    device_memory memory(400);
    EXPECT_OK(raw().cuMemcpyHtoA(array, 0, data.data(), 400));
    EXPECT_OK(raw().cuMemcpyAtoD(memory, array, 100, 200));
    EXPECT_EQ(bytes(data.begin() + 100, data.begin() + 300), read_back(memory, 200));
    EXPECT_OK(raw().cuMemcpyDtoA(array, 0, memory, 200));
    EXPECT_OK(raw().cuMemcpyAtoH(out.data(), array, 0, 200));
    EXPECT_EQ(bytes(data.begin() + 100, data.begin() + 300), out);
    EXPECT_OK(raw().cuArrayDestroy(array));
}

TEST_F(driver_test, impossible_arrays_are_refused) {
    CUarray array = nullptr;
    const auto create = [&](CUDA_ARRAY3D_DESCRIPTOR shape) {
        return static_cast<int>(raw().cuArray3DCreate(&array, &shape));
    };
    EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, create({16, 16, 0, CU_AD_FORMAT_FLOAT, 3, 0}));
    EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, create({16, 16, 0, static_cast<CUarray_format>(0x7f), 1, 0}));
    EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, create({0, 16, 0, CU_AD_FORMAT_FLOAT, 1, 0}));
    EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, create({1 << 20, 16, 16, CU_AD_FORMAT_FLOAT, 1, 0}));
    EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, create({16, 16, 0, CU_AD_FORMAT_UNORM_INT8X4, 1, 0}));
}

// Expects the array to take copies of exactly this size, and none that is larger in any dimension.
void expect_copies_of(CUarray array, size_t row_bytes, size_t rows, size_t slices) {
    const size_t size = row_bytes * rows * slices;
    const bytes data = random_bytes((row_bytes + 1) * (rows + 1) * (slices + 1), 23);
    bytes out(size);
    CUDA_MEMCPY3D up{};
    up.srcMemoryType = CU_MEMORYTYPE_HOST, up.srcHost = data.data();
    up.dstMemoryType = CU_MEMORYTYPE_ARRAY, up.dstArray = array;
    up.WidthInBytes = row_bytes, up.Height = rows, up.Depth = slices;
    for (const auto dimension : {&CUDA_MEMCPY3D::WidthInBytes, &CUDA_MEMCPY3D::Height, &CUDA_MEMCPY3D::Depth}) {
        CUDA_MEMCPY3D larger = up;
        larger.*dimension += 1;
        EXPECT_NE(CUDA_SUCCESS, raw().cuMemcpy3D(&larger));
    }
    ASSERT_OK(raw().cuMemcpy3D(&up));
    CUDA_MEMCPY3D down = up;
    down.srcMemoryType = CU_MEMORYTYPE_ARRAY, down.srcArray = array;
    down.dstMemoryType = CU_MEMORYTYPE_HOST, down.dstHost = out.data();
    ASSERT_OK(raw().cuMemcpy3D(&down));
    EXPECT_EQ(bytes(data.begin(), data.begin() + static_cast<ptrdiff_t>(size)), out);
}

void expect_descriptor(CUarray array, const CUDA_ARRAY3D_DESCRIPTOR &expected) {
    CUDA_ARRAY3D_DESCRIPTOR told{};
    ASSERT_OK(raw().cuArray3DGetDescriptor(&told, array));
    EXPECT_EQ(expected.Width, told.Width);
    EXPECT_EQ(expected.Height, told.Height);
    EXPECT_EQ(expected.Depth, told.Depth);
    EXPECT_EQ(expected.Format, told.Format);
    EXPECT_EQ(expected.NumChannels, told.NumChannels);
    EXPECT_EQ(expected.Flags, told.Flags);
}

TEST_F(driver_test, each_format_has_its_channel_counts_and_element_sizes) {
    struct {
        CUarray_format name;
        size_t bytes[4]; // size of an element of 1 … 4 channels; 0: the number of channels does not exist
        size_t side = 1; // side of an element, in texels
    } const formats[] = {
        {CU_AD_FORMAT_UNSIGNED_INT8, {1, 2, 0, 4}},
        {CU_AD_FORMAT_UNSIGNED_INT16, {2, 4, 0, 8}},
        {CU_AD_FORMAT_UNSIGNED_INT32, {4, 8, 0, 16}},
        {CU_AD_FORMAT_SIGNED_INT8, {1, 2, 0, 4}},
        {CU_AD_FORMAT_SIGNED_INT16, {2, 4, 0, 8}},
        {CU_AD_FORMAT_SIGNED_INT32, {4, 8, 0, 16}},
        {CU_AD_FORMAT_HALF, {2, 4, 0, 8}},
        {CU_AD_FORMAT_FLOAT, {4, 8, 0, 16}},
        {CU_AD_FORMAT_UNORM_INT8X1, {1}},
        {CU_AD_FORMAT_UNORM_INT8X2, {0, 2}},
        {CU_AD_FORMAT_UNORM_INT8X4, {0, 0, 0, 4}},
        {CU_AD_FORMAT_UNORM_INT16X1, {2}},
        {CU_AD_FORMAT_UNORM_INT16X2, {0, 4}},
        {CU_AD_FORMAT_UNORM_INT16X4, {0, 0, 0, 8}},
        {CU_AD_FORMAT_SNORM_INT8X1, {1}},
        {CU_AD_FORMAT_SNORM_INT8X2, {0, 2}},
        {CU_AD_FORMAT_SNORM_INT8X4, {0, 0, 0, 4}},
        {CU_AD_FORMAT_SNORM_INT16X1, {2}},
        {CU_AD_FORMAT_SNORM_INT16X2, {0, 4}},
        {CU_AD_FORMAT_SNORM_INT16X4, {0, 0, 0, 8}},
        {CU_AD_FORMAT_UNORM_INT_101010_2, {0, 0, 0, 4}},
        {CU_AD_FORMAT_BC1_UNORM, {0, 0, 0, 8}, 4},
        {CU_AD_FORMAT_BC1_UNORM_SRGB, {0, 0, 0, 8}, 4},
        {CU_AD_FORMAT_BC2_UNORM, {0, 0, 0, 16}, 4},
        {CU_AD_FORMAT_BC2_UNORM_SRGB, {0, 0, 0, 16}, 4},
        {CU_AD_FORMAT_BC3_UNORM, {0, 0, 0, 16}, 4},
        {CU_AD_FORMAT_BC3_UNORM_SRGB, {0, 0, 0, 16}, 4},
        {CU_AD_FORMAT_BC4_UNORM, {8}, 4},
        {CU_AD_FORMAT_BC4_SNORM, {8}, 4},
        {CU_AD_FORMAT_BC5_UNORM, {0, 16}, 4},
        {CU_AD_FORMAT_BC5_SNORM, {0, 16}, 4},
        {CU_AD_FORMAT_BC6H_UF16, {0, 0, 16}, 4},
        {CU_AD_FORMAT_BC6H_SF16, {0, 0, 16}, 4},
        {CU_AD_FORMAT_BC7_UNORM, {0, 0, 0, 16}, 4},
        {CU_AD_FORMAT_BC7_UNORM_SRGB, {0, 0, 0, 16}, 4},
    };
    for (const auto &format : formats)
        for (unsigned channels = 1; channels <= 4; ++channels) {
            SCOPED_TRACE("format " + std::to_string(format.name) + ", channels " + std::to_string(channels));
            const CUDA_ARRAY3D_DESCRIPTOR asked{20, 12, 0, format.name, channels, 0};
            const size_t element = format.bytes[channels - 1];
            CUarray array = nullptr;
            EXPECT_RESULT(element ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE, raw().cuArray3DCreate(&array, &asked));
            if (!element) continue;
            expect_descriptor(array, asked);
            expect_copies_of(array, 20 / format.side * element, 12 / format.side, 1);
            CUarray plane = nullptr;
            EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, raw().cuArrayGetPlane(&plane, array, 0));
            EXPECT_OK(raw().cuArrayDestroy(array));
        }
}

TEST_F(driver_test, video_formats_need_their_flag_and_are_packed_or_planar) {
    struct plane {
        size_t width, height;
        unsigned channels;
    };
    struct {
        CUarray_format name;
        unsigned channels;
        size_t element;                 // bytes: of an element if packed, of each channel if planar
        std::vector<plane> planes = {}; // for an array of 64 × 64
    } const formats[] = {
        {CU_AD_FORMAT_YUY2, 4, 4},
        {CU_AD_FORMAT_Y210, 2, 4},
        {CU_AD_FORMAT_Y216, 2, 4},
        {CU_AD_FORMAT_AYUV, 4, 4},
        {CU_AD_FORMAT_Y410, 1, 4},
        {CU_AD_FORMAT_Y416, 4, 8},
        {CU_AD_FORMAT_NV12, 3, 1, {{64, 64, 1}, {32, 32, 2}}},
        {CU_AD_FORMAT_P010, 3, 2, {{64, 64, 1}, {32, 32, 2}}},
        {CU_AD_FORMAT_P016, 3, 2, {{64, 64, 1}, {32, 32, 2}}},
        {CU_AD_FORMAT_NV16, 3, 1, {{64, 64, 1}, {32, 64, 2}}},
        {CU_AD_FORMAT_P210, 3, 2, {{64, 64, 1}, {32, 64, 2}}},
        {CU_AD_FORMAT_P216, 3, 2, {{64, 64, 1}, {32, 64, 2}}},
        {CU_AD_FORMAT_YUV444_8bit_SemiPlanar, 3, 1, {{64, 64, 1}, {64, 64, 2}}},
        {CU_AD_FORMAT_YUV444_16bit_SemiPlanar, 3, 2, {{64, 64, 1}, {64, 64, 2}}},
        {CU_AD_FORMAT_Y444_PLANAR8, 3, 1, {{64, 64, 1}, {64, 64, 1}, {64, 64, 1}}},
        {CU_AD_FORMAT_Y444_PLANAR10, 3, 2, {{64, 64, 1}, {64, 64, 1}, {64, 64, 1}}},
    };
    constexpr unsigned video = CUDA_ARRAY3D_VIDEO_ENCODE_DECODE;
    for (const auto &format : formats)
        for (const unsigned flags : {0u, CUDA_ARRAY3D_SURFACE_LDST + 0u, CUDA_ARRAY3D_TEXTURE_GATHER + 0u, video,
                                     video | CUDA_ARRAY3D_SURFACE_LDST})
            for (unsigned channels = 1; channels <= 4; ++channels) {
                SCOPED_TRACE("format " + std::to_string(format.name) + ", channels " + std::to_string(channels) +
                             ", flags " + std::to_string(flags));
                const CUDA_ARRAY3D_DESCRIPTOR asked{64, 64, 0, format.name, channels, flags};
                CUarray array = nullptr;
                const CUresult created = raw().cuArray3DCreate(&array, &asked);
                const bool is_possible = flags & video && channels == format.channels;
                EXPECT_EQ(is_possible, created == CUDA_SUCCESS);
                if (created != CUDA_SUCCESS) continue;
                expect_descriptor(array, asked);
                if (format.planes.empty()) {
                    expect_copies_of(array, 64 * format.element, 64, 1);
                } else {
                    bytes out(64);
                    CUDA_MEMCPY3D down{};
                    down.srcMemoryType = CU_MEMORYTYPE_ARRAY, down.srcArray = array;
                    down.dstMemoryType = CU_MEMORYTYPE_HOST, down.dstHost = out.data();
                    down.WidthInBytes = down.Height = down.Depth = 1;
                    EXPECT_NE(CUDA_SUCCESS, raw().cuMemcpy3D(&down)) << "only the planes can be copied";
                }
                for (unsigned i = 0; i < format.planes.size(); ++i) {
                    CUarray plane = nullptr;
                    CUarray again = nullptr;
                    ASSERT_OK(raw().cuArrayGetPlane(&plane, array, i));
                    ASSERT_OK(raw().cuArrayGetPlane(&again, array, i));
                    EXPECT_EQ(plane, again);
                    const auto [width, height, plane_channels] = format.planes[i];
                    expect_descriptor(plane,
                                      {width, height, 0,
                                       format.element == 1 ? CU_AD_FORMAT_UNSIGNED_INT8 : CU_AD_FORMAT_UNSIGNED_INT16,
                                       plane_channels, flags});
                    expect_copies_of(plane, width * format.element * plane_channels, height, 1);
                }
                CUarray none = nullptr;
                EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE,
                              raw().cuArrayGetPlane(&none, array, static_cast<unsigned>(format.planes.size())));
                EXPECT_OK(raw().cuArrayDestroy(array));
            }
}

TEST_F(driver_test, planes_of_an_array_do_not_overlap) {
    const CUDA_ARRAY3D_DESCRIPTOR asked{64, 64, 0, CU_AD_FORMAT_NV12, 3, CUDA_ARRAY3D_VIDEO_ENCODE_DECODE};
    CUarray array = nullptr;
    ASSERT_OK(raw().cuArray3DCreate(&array, &asked));
    const bytes data[] = {random_bytes(64 * 64, 24), random_bytes(64 * 32, 25)};
    CUarray planes[2] = {};
    CUDA_MEMCPY3D copy{};
    copy.WidthInBytes = 64, copy.Depth = 1;
    for (unsigned i = 0; i < 2; ++i) {
        ASSERT_OK(raw().cuArrayGetPlane(&planes[i], array, i));
        copy.srcMemoryType = CU_MEMORYTYPE_HOST, copy.srcHost = data[i].data();
        copy.dstMemoryType = CU_MEMORYTYPE_ARRAY, copy.dstArray = planes[i];
        copy.Height = data[i].size() / 64;
        EXPECT_OK(raw().cuMemcpy3D(&copy));
    }
    for (unsigned i = 0; i < 2; ++i) {
        bytes out(data[i].size());
        copy.srcMemoryType = CU_MEMORYTYPE_ARRAY, copy.srcArray = planes[i];
        copy.dstMemoryType = CU_MEMORYTYPE_HOST, copy.dstHost = out.data();
        copy.Height = data[i].size() / 64;
        EXPECT_OK(raw().cuMemcpy3D(&copy));
        EXPECT_EQ(data[i], out);
    }
    EXPECT_OK(raw().cuArrayDestroy(array));
}

constexpr unsigned layered = CUDA_ARRAY3D_LAYERED;
constexpr unsigned surface = CUDA_ARRAY3D_SURFACE_LDST;
constexpr unsigned cubemap = CUDA_ARRAY3D_CUBEMAP;
constexpr unsigned gather = CUDA_ARRAY3D_TEXTURE_GATHER;

TEST_F(driver_test, arrays_have_the_shapes_that_their_flags_and_limits_allow) {
    struct {
        size_t width, height, depth;
        unsigned flags;
        bool is_possible;
    } const shapes[] = {
        {16, 0, 0, 0, true},
        {16, 1, 0, 0, true},
        {16, 0, 5, 0, false},
        {16, 0, 5, layered, true},
        {16, 1, 5, layered, true},
        {16, 8, 5, layered, true},
        {16, 8, 0, layered, false},
        {16, 0, 0, layered, false},
        {16, 16, 6, cubemap, true},
        {16, 16, 12, cubemap | layered, true},
        {16, 16, 6, cubemap | layered, true},
        {16, 16, 7, cubemap | layered, false},
        {16, 16, 5, cubemap, false},
        {16, 8, 6, cubemap, false},
        {16, 16, 12, cubemap, false},
        {16, 0, 6, cubemap, false},
        {16, 8, 5, surface, true},
        {16, 8, 5, surface | layered, true},
        {16, 16, 6, surface | cubemap, true},
        {16, 16, 12, surface | cubemap | layered, true},
        {16, 8, 0, gather, true},
        {16, 0, 0, gather, false},
        {16, 8, 5, gather, false},
        {16, 8, 5, gather | layered, false},
        {16, 8, 0, CUDA_ARRAY3D_DEPTH_TEXTURE, false}, // the format is float
        {16, 8, 0, CUDA_ARRAY3D_COLOR_ATTACHMENT, false},
        {16, 8, 0, CUDA_ARRAY3D_VIDEO_ENCODE_DECODE, true},
        {16, 0, 2048, layered, true},
        {16, 0, 2049, layered, false},
        {16, 8, 2048, layered, true},
        {16, 8, 2049, layered, false},
        {131072, 0, 0, 0, true},
        {131073, 0, 0, 0, false},
        {32768, 0, 2, layered, true},
        {32769, 0, 2, layered, false},
        {32768, 8, 2, layered, true},
        {32769, 8, 2, layered, false},
        {8, 32768, 2, layered, true},
        {8, 32769, 2, layered, false},
        {32769, 32769, 6, cubemap, false},
        {16, 16, 2046, cubemap | layered, true},
        {16, 16, 2052, cubemap | layered, false},
        {131072, 1, 0, 0, true},
        {131073, 8, 0, 0, false},
        {8, 65536, 0, 0, true},
        {8, 65537, 0, 0, false},
        {16384, 8, 8, 0, true},
        {16385, 8, 8, 0, false},
    };
    for (const auto &shape : shapes) {
        SCOPED_TRACE(std::to_string(shape.width) + " x " + std::to_string(shape.height) + " x " +
                     std::to_string(shape.depth) + ", flags " + std::to_string(shape.flags));
        const CUDA_ARRAY3D_DESCRIPTOR asked{shape.width, shape.height, shape.depth, CU_AD_FORMAT_FLOAT, 1, shape.flags};
        CUarray array = nullptr;
        EXPECT_RESULT(shape.is_possible ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE,
                      raw().cuArray3DCreate(&array, &asked));
        if (!shape.is_possible) continue;
        expect_descriptor(array, asked);
        if (std::max({shape.width, shape.height, shape.depth}) <= 16)
            expect_copies_of(array, shape.width * 4, std::max<size_t>(shape.height, 1),
                             std::max<size_t>(shape.depth, 1));
        EXPECT_OK(raw().cuArrayDestroy(array));
    }
}

TEST_F(driver_test, block_compressed_arrays_have_rows_of_whole_blocks_in_every_shape_but_1d) {
    struct {
        size_t width, height, depth;
        unsigned flags;
        CUresult result;
        size_t row_bytes = 0, rows = 0;
    } const shapes[] = {
        {20, 12, 0, 0, CUDA_SUCCESS, 40, 3},
        {21, 13, 0, 0, CUDA_SUCCESS, 48, 4},
        {2, 2, 0, 0, CUDA_SUCCESS, 8, 1},
        {20, 12, 5, 0, CUDA_SUCCESS, 40, 3},
        {20, 12, 5, layered, CUDA_SUCCESS, 40, 3},
        {20, 20, 6, cubemap, CUDA_SUCCESS, 40, 5},
        {20, 0, 0, 0, CUDA_ERROR_INVALID_VALUE},
        {20, 0, 5, layered, CUDA_ERROR_INVALID_VALUE},
        {20, 12, 0, surface, CUDA_ERROR_NOT_SUPPORTED},
    };
    for (const auto &shape : shapes) {
        SCOPED_TRACE(std::to_string(shape.width) + " x " + std::to_string(shape.height) + " x " +
                     std::to_string(shape.depth) + ", flags " + std::to_string(shape.flags));
        const CUDA_ARRAY3D_DESCRIPTOR asked{shape.width, shape.height, shape.depth, CU_AD_FORMAT_BC1_UNORM,
                                            4,           shape.flags};
        CUarray array = nullptr;
        EXPECT_RESULT(shape.result, raw().cuArray3DCreate(&array, &asked));
        if (shape.result != CUDA_SUCCESS) continue;
        expect_descriptor(array, asked);
        expect_copies_of(array, shape.row_bytes, shape.rows, std::max<size_t>(shape.depth, 1));
        EXPECT_OK(raw().cuArrayDestroy(array));
    }
}

TEST_F(driver_test, levels_halve_every_dimension_except_layers_down_to_one_texel) {
    struct extent {
        size_t width, height, depth;
    };
    constexpr CUarray_format floats = CU_AD_FORMAT_FLOAT, blocks = CU_AD_FORMAT_BC1_UNORM;
    const std::vector<extent> of_20_12 = {{20, 12, 0}, {10, 6, 0}, {5, 3, 0}, {2, 1, 0}, {1, 1, 0}};
    const std::vector<extent> of_16_16 = {{16, 16, 0}, {8, 8, 0}, {4, 4, 0}, {2, 2, 0}, {1, 1, 0}};
    const auto first = [](const std::vector<extent> &all, size_t count) {
        return std::vector<extent>(all.begin(), all.begin() + static_cast<ptrdiff_t>(count));
    };
    const auto in_layers = [](std::vector<extent> all, size_t layers) {
        for (extent &one : all)
            one.depth = layers;
        return all;
    };
    struct {
        unsigned flags, asked_levels;
        CUarray_format format;
        unsigned channels;
        std::vector<extent> levels; // the first is the array itself
    } const mipmaps[] = {
        {0, 0, floats, 1, first(of_20_12, 1)},
        {0, 1, floats, 1, first(of_20_12, 1)},
        {0, 5, floats, 1, of_20_12},
        {0, 6, floats, 1, of_20_12},
        {0, 99, floats, 1, of_20_12},
        {0, 5, floats, 1, {{20, 0, 0}, {10, 0, 0}, {5, 0, 0}, {2, 0, 0}, {1, 0, 0}}},
        {0, 5, floats, 1, {{20, 12, 9}, {10, 6, 4}, {5, 3, 2}, {2, 1, 1}, {1, 1, 1}}},
        {layered, 5, floats, 1, in_layers(of_20_12, 5)},
        {layered, 5, floats, 1, {{20, 0, 5}, {10, 0, 5}, {5, 0, 5}, {2, 0, 5}, {1, 0, 5}}},
        {cubemap, 5, floats, 1, in_layers(of_16_16, 6)},
        {cubemap | layered, 5, floats, 1, in_layers(of_16_16, 12)},
        {surface, 5, floats, 1, of_20_12},
        {gather, 5, floats, 1, of_20_12},
        {0, 5, blocks, 4, of_20_12},
        {0, 5, blocks, 4, of_16_16},
        {0, 3, blocks, 4, first(of_16_16, 3)},
        {0, 1, floats, 1, {{1, 1, 0}}},
        {0, 2, floats, 1, {{1, 1, 0}}},
        {0, 3, CU_AD_FORMAT_UNSIGNED_INT8, 4, {{5, 3, 2}, {2, 1, 1}, {1, 1, 1}}},
    };
    for (const auto &mipmap : mipmaps) {
        CUDA_ARRAY3D_DESCRIPTOR shape{mipmap.levels[0].width, mipmap.levels[0].height, mipmap.levels[0].depth,
                                      mipmap.format,          mipmap.channels,         mipmap.flags};
        SCOPED_TRACE(std::to_string(shape.Width) + " x " + std::to_string(shape.Height) + " x " +
                     std::to_string(shape.Depth) + ", flags " + std::to_string(shape.Flags) + ", levels " +
                     std::to_string(mipmap.asked_levels));
        CUmipmappedArray whole = nullptr;
        ASSERT_OK(raw().cuMipmappedArrayCreate(&whole, &shape, mipmap.asked_levels));
        for (unsigned i = 0; i < mipmap.levels.size(); ++i) {
            SCOPED_TRACE(i);
            CUarray level = nullptr;
            CUarray again = nullptr;
            ASSERT_OK(raw().cuMipmappedArrayGetLevel(&level, whole, i));
            ASSERT_OK(raw().cuMipmappedArrayGetLevel(&again, whole, i));
            EXPECT_EQ(level, again);
            shape.Width = mipmap.levels[i].width;
            shape.Height = mipmap.levels[i].height;
            shape.Depth = mipmap.levels[i].depth;
            expect_descriptor(level, shape);
            const size_t side = mipmap.format == blocks ? 4 : 1;
            const size_t element = mipmap.format == blocks ? 8 : 4; // for the two formats above
            expect_copies_of(level, (shape.Width + side - 1) / side * element,
                             std::max<size_t>((shape.Height + side - 1) / side, 1), std::max<size_t>(shape.Depth, 1));
        }
        CUarray none = nullptr;
        for (auto i = static_cast<unsigned>(mipmap.levels.size()); i < 8; ++i)
            EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, raw().cuMipmappedArrayGetLevel(&none, whole, i));
        EXPECT_OK(raw().cuMipmappedArrayDestroy(whole));
    }
    CUmipmappedArray whole = nullptr;
    const CUDA_ARRAY3D_DESCRIPTOR planar{20, 12, 0, CU_AD_FORMAT_NV12, 3, 0};
    EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, raw().cuMipmappedArrayCreate(&whole, &planar, 5));
}

TEST_F(driver_test, a_mipmapped_array_can_be_destroyed_after_one_of_its_levels) {
    const CUDA_ARRAY3D_DESCRIPTOR shape{20, 12, 0, CU_AD_FORMAT_FLOAT, 1, 0};
    CUmipmappedArray whole = nullptr;
    CUarray level = nullptr;
    ASSERT_OK(raw().cuMipmappedArrayCreate(&whole, &shape, 1));
    ASSERT_OK(raw().cuMipmappedArrayGetLevel(&level, whole, 0));
    EXPECT_OK(raw().cuArrayDestroy(level));
    EXPECT_OK(raw().cuMipmappedArrayDestroy(whole));
}

// ---- Peers

TEST_F(driver_test, a_link_is_described_between_two_devices_and_not_from_one_to_itself) {
    const auto first_unknown = static_cast<CUdevice_P2PAttribute>(6);
    for (int from = 0; from < device_count(); ++from)
        for (int to = 0; to < device_count(); ++to)
            for (int number = 0; number <= first_unknown; ++number) {
                const auto attribute = static_cast<CUdevice_P2PAttribute>(number);
                const bool is_known = number != 0 && attribute != first_unknown;
                int value = -1;
                EXPECT_RESULT(from == to  ? CUDA_ERROR_INVALID_DEVICE
                              : !is_known ? CUDA_ERROR_INVALID_VALUE
                                          : CUDA_SUCCESS,
                              raw().cuDeviceGetP2PAttribute(&value, attribute, from, to));
                int can = -1;
                EXPECT_OK(raw().cuDeviceCanAccessPeer(&can, from, to));
                if (from == to) {
                    EXPECT_EQ(0, can);
                } else if (attribute == CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED) {
                    EXPECT_EQ(can, value);
                }
            }
    int value = 0;
    EXPECT_RESULT(CUDA_ERROR_INVALID_DEVICE, raw().cuDeviceCanAccessPeer(&value, 0, 99));
    EXPECT_RESULT(CUDA_ERROR_INVALID_DEVICE,
                  raw().cuDeviceGetP2PAttribute(&value, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 0, 99));
    EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE,
                  raw().cuDeviceGetP2PAttribute(nullptr, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 0, 0));
}

TEST_F(driver_test, a_context_has_no_peers_on_its_own_device) {
    EXPECT_RESULT(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, raw().cuCtxEnablePeerAccess(context, 0));
    EXPECT_RESULT(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, raw().cuCtxDisablePeerAccess(context));
    EXPECT_RESULT(CUDA_ERROR_INVALID_CONTEXT, raw().cuCtxEnablePeerAccess(nullptr, 0));
    EXPECT_RESULT(CUDA_ERROR_INVALID_CONTEXT, raw().cuCtxDisablePeerAccess(nullptr));
    CUcontext second = nullptr;
    ASSERT_OK(raw().cuCtxCreate(&second, 0, 0));
    ASSERT_OK(raw().cuCtxPopCurrent(nullptr));
    EXPECT_RESULT(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, raw().cuCtxEnablePeerAccess(second, 0));
    EXPECT_RESULT(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, raw().cuCtxDisablePeerAccess(second));
    EXPECT_OK(raw().cuCtxDestroy(second));
}

TEST_F(driver_test, access_to_a_peer_is_enabled_once_and_disabled_once) {
    if (device_count() < 2) GTEST_SKIP() << "needs two devices";
    const other_device other;
    EXPECT_RESULT(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, raw().cuCtxDisablePeerAccess(other));
    EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, raw().cuCtxEnablePeerAccess(other, 1));
    EXPECT_OK(raw().cuCtxEnablePeerAccess(other, 0));
    EXPECT_RESULT(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, raw().cuCtxEnablePeerAccess(other, 0));
    EXPECT_OK(raw().cuCtxDisablePeerAccess(other));
    EXPECT_RESULT(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, raw().cuCtxDisablePeerAccess(other));
    const made_current none(nullptr);
    EXPECT_RESULT(CUDA_ERROR_INVALID_CONTEXT, raw().cuCtxEnablePeerAccess(other, 0));
    EXPECT_RESULT(CUDA_ERROR_INVALID_CONTEXT, raw().cuCtxDisablePeerAccess(other));
}

TEST_F(driver_test, a_context_reaches_memory_of_its_peer_only_with_access) {
    if (device_count() < 2) GTEST_SKIP() << "needs two devices";
    const other_device other;
    device_memory here(65536);
    test_stream stream_here;
    const made_current there(other);
    test_stream stream_there;
    for (const bool has_access : {false, true, false}) {
        SCOPED_TRACE(has_access);
        if (has_access) {
            ASSERT_OK(raw().cuCtxEnablePeerAccess(context, 0));
        }
        const int refused = has_access ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
        CUdeviceptr found = 0;
        CUdeviceptr start = 0;
        int ordinal = -1;
        CUpointer_attribute asked[] = {CU_POINTER_ATTRIBUTE_DEVICE_POINTER, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                                       CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
        void *out[] = {&found, &start, &ordinal};
        EXPECT_OK(raw().cuPointerGetAttributes(3, asked, out, here));
        EXPECT_EQ(has_access ? here.address : 0, found);
        EXPECT_EQ(here.address, start);
        EXPECT_EQ(0, ordinal);
        EXPECT_RESULT(has_access ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND,
                      raw().cuMemGetAddressRange(&start, nullptr, here + 5));
        // Three streams without any order between them, so each fills its own bytes.
        EXPECT_RESULT(refused, raw().cuMemsetD8(here, 9, 16));
        EXPECT_RESULT(refused, raw().cuMemsetD8Async(here + 16, 9, 16, stream_there));
        EXPECT_OK(raw().cuMemsetD8Async(here + 32, 9, 16, stream_here));
        {
            const made_current back(context); // the stream's context decides, not the current one
            EXPECT_RESULT(refused, raw().cuMemsetD8Async(here + 16, 9, 16, stream_there));
            EXPECT_OK(raw().cuCtxSynchronize());
        }
        EXPECT_OK(raw().cuCtxSynchronize());
        if (has_access) {
            ASSERT_OK(raw().cuCtxDisablePeerAccess(context));
        }
    }
}

// One end of a copy between devices: linear memory of 64 bytes by 8 rows by some slices, or an array of that size.
struct peer_end {
    const char *what;
    bool is_array;
    CUDA_ARRAY3D_DESCRIPTOR shape;
};
const peer_end peer_ends[] = {
    {"linear", false, {}},
    {"2D", true, {16, 8, 0, CU_AD_FORMAT_FLOAT, 1, 0}},
    {"3D", true, {16, 8, 8, CU_AD_FORMAT_FLOAT, 1, 0}},
    {"layers", true, {16, 8, 8, CU_AD_FORMAT_FLOAT, 1, CUDA_ARRAY3D_LAYERED}},
    {"cubemap", true, {16, 16, 6, CU_AD_FORMAT_FLOAT, 1, CUDA_ARRAY3D_CUBEMAP}},
};

struct made_end {
    explicit made_end(const peer_end &end) {
        EXPECT_OK(end.is_array ? raw().cuArray3DCreate(&array, &end.shape) : raw().cuMemAlloc(&memory, 65536));
    }
    ~made_end() { array ? raw().cuArrayDestroy(array) : raw().cuMemFree(memory); }
    made_end(const made_end &) = delete;
    CUmemorytype type() const { return array ? CU_MEMORYTYPE_ARRAY : CU_MEMORYTYPE_DEVICE; }
    CUarray array = nullptr;
    CUdeviceptr memory = 0;
};

template <class Descriptor> Descriptor from_to(const made_end &from, const made_end &to, size_t depth) {
    Descriptor copy{};
    copy.srcMemoryType = from.type(), copy.srcArray = from.array, copy.srcDevice = from.memory;
    copy.dstMemoryType = to.type(), copy.dstArray = to.array, copy.dstDevice = to.memory;
    copy.srcPitch = copy.dstPitch = 64, copy.srcHeight = copy.dstHeight = 8;
    copy.WidthInBytes = 64, copy.Height = 8, copy.Depth = depth;
    return copy;
}

TEST_F(driver_test, copies_between_devices_need_a_current_context_but_no_access) {
    if (device_count() < 2) GTEST_SKIP() << "needs two devices";
    const other_device other;
    for (const bool has_access : {false, true}) {
        if (has_access) {
            ASSERT_OK(raw().cuCtxEnablePeerAccess(other, 0));
        }
        for (const peer_end &from_end : peer_ends)
            for (const peer_end &to_end : peer_ends) {
                SCOPED_TRACE(std::string(from_end.what) + " to " + to_end.what + (has_access ? ", access" : ""));
                const size_t depth = from_end.shape.Depth && to_end.shape.Depth ? 6 : 1;
                const bytes data = random_bytes(64 * 8 * depth, 21);
                const made_end from(from_end);
                const made_current there(other);
                const made_end to(to_end);
                const auto plain = from_to<CUDA_MEMCPY3D>(from, to, depth);
                auto peer = from_to<CUDA_MEMCPY3D_PEER>(from, to, depth);
                peer.srcContext = context, peer.dstContext = other;
                CUDA_MEMCPY3D up = plain;
                up.srcMemoryType = CU_MEMORYTYPE_HOST, up.srcHost = data.data();
                up.dstMemoryType = from.type(), up.dstArray = from.array, up.dstDevice = from.memory;
                CUDA_MEMCPY3D down = plain;
                bytes out(data.size());
                down.srcMemoryType = to.type(), down.srcArray = to.array, down.srcDevice = to.memory;
                down.dstMemoryType = CU_MEMORYTYPE_HOST, down.dstHost = out.data();
                for (const bool as_peers : {true, false})
                    for (const CUcontext current : {context, other.context, CUcontext{}}) {
                        {
                            const made_current here(context);
                            ASSERT_OK(raw().cuMemcpy3D(&up));
                            ASSERT_OK(raw().cuCtxSynchronize());
                        }
                        {
                            const made_current changed(current);
                            const int expected = current ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
                            EXPECT_RESULT(expected, as_peers ? raw().cuMemcpy3DPeer(&peer) : raw().cuMemcpy3D(&plain));
                            if (current) {
                                EXPECT_OK(raw().cuCtxSynchronize());
                            }
                        }
                        if (!current) continue;
                        std::ranges::fill(out, std::byte{0});
                        ASSERT_OK(raw().cuMemcpy3D(&down));
                        EXPECT_EQ(data, out);
                    }
            }
        if (has_access) {
            ASSERT_OK(raw().cuCtxDisablePeerAccess(other));
        }
    }
}

// ---- Managed memory

struct managed_memory {
    explicit managed_memory(size_t size, unsigned flags = CU_MEM_ATTACH_GLOBAL) : size(size) {
        EXPECT_OK(raw().cuMemAllocManaged(&address, size, flags));
    }
    ~managed_memory() { EXPECT_OK(raw().cuMemFree(address)); }
    managed_memory(const managed_memory &) = delete;
    operator CUdeviceptr() const { return address; }
    std::byte *data() const { return reinterpret_cast<std::byte *>(address); }
    bytes copy() const { return bytes(data(), data() + size); }
    CUdeviceptr address = 0;
    size_t size;
};

TEST_F(driver_test, managed_memory_is_attached_globally_or_to_the_host_and_to_nothing_else) {
    CUdeviceptr address = 0;
    EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, raw().cuMemAllocManaged(&address, 0, CU_MEM_ATTACH_GLOBAL));
    for (const unsigned flags : {0u, 3u, 4u})
        EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, raw().cuMemAllocManaged(&address, 4096, flags));
    for (const unsigned flags : {CU_MEM_ATTACH_GLOBAL, CU_MEM_ATTACH_HOST}) {
        ASSERT_OK(raw().cuMemAllocManaged(&address, 4096, flags));
        EXPECT_OK(raw().cuMemFree(address));
    }
}

TEST_F(driver_test, managed_memory_is_device_memory_with_a_host_address_wherever_it_was_touched) {
    for (const unsigned flags : {CU_MEM_ATTACH_GLOBAL, CU_MEM_ATTACH_HOST}) {
        const managed_memory memory(5000, flags);
        const auto expect_attributes = [&](CUdeviceptr address) {
            unsigned type = 0;
            unsigned is_managed = 0;
            int ordinal = -1;
            CUdeviceptr device = 0;
            void *host = nullptr;
            CUdeviceptr start = 0;
            size_t size = 0;
            CUcontext owner = nullptr;
            CUpointer_attribute asked[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,    CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                           CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
                                           CU_POINTER_ATTRIBUTE_HOST_POINTER,   CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                                           CU_POINTER_ATTRIBUTE_RANGE_SIZE,     CU_POINTER_ATTRIBUTE_CONTEXT};
            void *out[] = {&type, &is_managed, &ordinal, &device, &host, &start, &size, &owner};
            ASSERT_OK(raw().cuPointerGetAttributes(8, asked, out, address));
            EXPECT_EQ(static_cast<unsigned>(CU_MEMORYTYPE_DEVICE), type);
            EXPECT_EQ(1u, is_managed);
            EXPECT_EQ(0, ordinal);
            EXPECT_EQ(address, device);
            EXPECT_EQ(reinterpret_cast<void *>(address), host);
            EXPECT_EQ(memory.address, start);
            EXPECT_EQ(5000u, size);
            EXPECT_EQ(context, owner);
        };
        expect_attributes(memory);
        std::memset(memory.data(), 1, memory.size);
        expect_attributes(memory);
        expect_attributes(memory + 4999);
        if (flags == CU_MEM_ATTACH_GLOBAL) {
            EXPECT_OK(raw().cuMemsetD8(memory, 2, memory.size));
            EXPECT_OK(raw().cuCtxSynchronize());
            expect_attributes(memory);
            EXPECT_EQ(bytes(memory.size, std::byte{2}), memory.copy());
        }
        CUdeviceptr start = 0;
        size_t size = 0;
        EXPECT_OK(raw().cuMemGetAddressRange(&start, &size, memory + 5));
        EXPECT_EQ(memory.address, start);
        EXPECT_EQ(5000u, size);
        EXPECT_RESULT(CUDA_ERROR_NOT_FOUND, raw().cuMemGetAddressRange(&start, &size, memory + 5004));
    }
}

TEST_F(driver_test, managed_memory_ends_at_the_requested_size) {
    const managed_memory memory(5000);
    unsigned type = 77;
    unsigned is_managed = 77;
    int ordinal = 77;
    CUdeviceptr device = 77;
    void *host = nullptr;
    size_t size = 77;
    CUpointer_attribute asked[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,    CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                   CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
                                   CU_POINTER_ATTRIBUTE_HOST_POINTER,   CU_POINTER_ATTRIBUTE_RANGE_SIZE};
    void *out[] = {&type, &is_managed, &ordinal, &device, &host, &size};
    ASSERT_OK(raw().cuPointerGetAttributes(6, asked, out, memory + 5001));
    EXPECT_EQ(0u, type);
    EXPECT_EQ(0u, is_managed & 0xff);
    EXPECT_EQ(CU_DEVICE_INVALID, ordinal);
    EXPECT_EQ(0u, device);
    EXPECT_EQ(reinterpret_cast<void *>(memory + 5001), host);
    EXPECT_EQ(77u, size) << "an unknown size is not written";
}

TEST_F(driver_test, managed_memory_is_copied_as_any_kind_from_any_context_and_within_its_bounds) {
    const managed_memory memory(5000);
    const managed_memory of_host(5000, CU_MEM_ATTACH_HOST);
    device_memory device(8192);
    const bytes data = random_bytes(5000, 22);
    std::vector<CUcontext> currents = {context, nullptr};
    std::optional<other_device> other;
    if (device_count() > 1) currents.push_back(other.emplace());
    for (const CUmemorytype type : {CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_UNIFIED})
        for (const CUcontext current : currents) {
            const auto expected = [&](int result) { return current ? result : int{CUDA_ERROR_INVALID_CONTEXT}; };
            std::memcpy(memory.data(), data.data(), data.size());
            ASSERT_OK(raw().cuMemsetD8(device, 0, 8192));
            ASSERT_OK(raw().cuCtxSynchronize());
            const made_current changed(current);
            CUDA_MEMCPY3D copy{};
            copy.srcMemoryType = type, copy.srcHost = memory.data(), copy.srcDevice = memory;
            copy.dstMemoryType = CU_MEMORYTYPE_DEVICE, copy.dstDevice = device;
            copy.WidthInBytes = 5000, copy.Height = copy.Depth = 1;
            EXPECT_RESULT(expected(CUDA_SUCCESS), raw().cuMemcpy3D(&copy));
            for (const size_t too_wide : {5001, 8192}) {
                copy.WidthInBytes = too_wide;
                EXPECT_RESULT(expected(CUDA_ERROR_INVALID_VALUE), raw().cuMemcpy3D(&copy));
            }
            copy.WidthInBytes = 5000;
            copy.dstMemoryType = type, copy.dstHost = of_host.data(), copy.dstDevice = of_host;
            EXPECT_RESULT(expected(CUDA_SUCCESS), raw().cuMemcpy3D(&copy));
            if (!current) continue;
            EXPECT_OK(raw().cuCtxSynchronize());
            EXPECT_EQ(data, read_back(device, 5000));
            EXPECT_EQ(data, of_host.copy());
        }
}

TEST_F(driver_test, managed_memory_is_filled_from_any_device_and_freed_without_a_context) {
    CUdeviceptr address = 0;
    ASSERT_OK(raw().cuMemAllocManaged(&address, 5000, CU_MEM_ATTACH_GLOBAL));
    if (device_count() > 1) {
        const other_device other;
        const made_current there(other);
        EXPECT_OK(raw().cuMemsetD8(address, 3, 5000));
        EXPECT_OK(raw().cuCtxSynchronize());
        EXPECT_EQ(std::byte{3}, reinterpret_cast<std::byte *>(address)[4999]);
    }
    const made_current none(nullptr);
    EXPECT_RESULT(CUDA_ERROR_INVALID_CONTEXT, raw().cuMemsetD8(address, 3, 5000));
    EXPECT_OK(raw().cuMemFree(address));
}

TEST_F(driver_test, managed_and_device_memory_cannot_be_registered_or_freed_as_host_memory) {
    const managed_memory memory(8192);
    device_memory device(8192);
    EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, raw().cuMemHostRegister(memory.data(), 8192, 0));
    EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, raw().cuMemHostRegister(reinterpret_cast<void *>(device.address), 4096, 0));
    EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, raw().cuMemFreeHost(memory.data()));
}

TEST_F(driver_test, a_synchronous_copy_of_managed_memory_is_done_when_it_returns) {
    constexpr size_t size = 8 << 20;
    const managed_memory memory(size);
    device_memory device(size);
    pinned_memory pinned(size);
    bytes pageable(size);
    const auto at = [](void *address) { return reinterpret_cast<CUdeviceptr>(address); };
    const CUdeviceptr ends[] = {device, at(pinned.data()), at(pageable.data())};
    for (const CUdeviceptr end : ends)
        for (const bool to_managed : {false, true}) {
            EXPECT_OK(to_managed ? raw().cuMemcpy(memory, end, size) : raw().cuMemcpy(end, memory, size));
            EXPECT_OK(raw().cuStreamQuery(nullptr));
        }
}

// ---- Streams and events

TEST_F(driver_test, work_on_a_stream_runs_in_its_order_and_reports_when_it_is_done) {
    const bytes data = random_bytes(4096, 12);
    device_memory memory(4096);
    pinned_memory source(4096);
    pinned_memory target(4096);
    std::memcpy(source.data(), data.data(), 4096);
    test_stream stream;
    test_event finished;
    gate held(stream);
    ASSERT_OK(raw().cuMemcpyHtoDAsync(memory, source.data(), 4096, stream));
    ASSERT_OK(raw().cuMemsetD8Async(memory, 0x11, 100, stream));
    ASSERT_OK(raw().cuMemcpyDtoHAsync(target.data(), memory, 4096, stream));
    ASSERT_OK(raw().cuEventRecord(finished, stream));
    EXPECT_RESULT(CUDA_ERROR_NOT_READY, raw().cuStreamQuery(stream));
    EXPECT_RESULT(CUDA_ERROR_NOT_READY, raw().cuEventQuery(finished));
    held.open();
    ASSERT_OK(raw().cuEventSynchronize(finished));
    EXPECT_OK(raw().cuEventQuery(finished));
    EXPECT_OK(raw().cuStreamQuery(stream));
    bytes expected = data;
    std::fill_n(expected.begin(), 100, std::byte{0x11});
    EXPECT_EQ(expected, target.copy());
}

TEST_F(driver_test, a_small_pageable_source_may_change_as_soon_as_the_asynchronous_call_returns) {
    const bytes data = random_bytes(4096, 13);
    bytes source = data;
    device_memory memory(4096);
    test_stream stream;
    ASSERT_OK(raw().cuMemcpyHtoDAsync(memory, source.data(), source.size(), stream));
    std::fill(source.begin(), source.end(), std::byte{0});
    ASSERT_OK(raw().cuStreamSynchronize(stream));
    EXPECT_EQ(data, read_back(memory, 4096));
}

TEST_F(driver_test, a_small_pageable_source_is_copied_to_the_current_context_on_streams_of_other_contexts) {
    const bytes data = random_bytes(65536, 14);
    device_memory memory(data.size());
    std::vector<CUcontext> others(1);
    ASSERT_OK(raw().cuCtxCreate(&others[0], 0, 0));
    ASSERT_OK(raw().cuCtxPopCurrent(nullptr));
    if (device_count() > 1) {
        ASSERT_OK(raw().cuDevicePrimaryCtxRetain(&others.emplace_back(), 1));
    }
    for (const CUcontext other : others)
        for (const size_t size : {size_t{64}, size_t{4096}, data.size()}) {
            SCOPED_TRACE(testing::Message() << size << " B");
            CUstream stream = nullptr;
            {
                const made_current there(other);
                ASSERT_OK(raw().cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
            }
            ASSERT_OK(raw().cuMemsetD8(memory, 0, data.size()));
            ASSERT_OK(raw().cuCtxSynchronize());
            bytes source(data.begin(), data.begin() + static_cast<std::ptrdiff_t>(size));
            {
                gate closed(stream);
                EXPECT_OK(raw().cuMemcpyHtoDAsync(memory, source.data(), size, stream));
                std::fill(source.begin(), source.end(), std::byte{1});
                EXPECT_EQ(read_back(memory, size), bytes(size)) << "the copy follows the stream's earlier work";
            }
            EXPECT_OK(raw().cuStreamSynchronize(stream));
            EXPECT_TRUE(std::equal(data.begin(), data.begin() + static_cast<std::ptrdiff_t>(size),
                                   read_back(memory, size).begin()));
            EXPECT_OK(raw().cuStreamDestroy(stream));
        }
    EXPECT_OK(raw().cuCtxDestroy(others[0]));
    ASSERT_OK(raw().cuCtxSetCurrent(context));
    if (others.size() > 1) {
        EXPECT_OK(raw().cuDevicePrimaryCtxRelease(1));
    }
}

// Blocks a stream until opened, or for at most `patience`. Then overwrites memory with ones.
class overwriting_gate {
public:
    overwriting_gate(CUstream stream, void *memory, size_t size, std::chrono::milliseconds patience)
        : memory_(memory), size_(size), patience_(patience) {
        EXPECT_OK(raw().cuLaunchHostFunc(
            stream, [](void *self) { static_cast<overwriting_gate *>(self)->pass(); }, this));
    }
    // Whether the gate was still closed.
    bool open() {
        const std::lock_guard lock(mutex_);
        opened_ = true;
        changed_.notify_all();
        return !passed_;
    }

private:
    void pass() {
        std::unique_lock lock(mutex_);
        changed_.wait_for(lock, patience_, [&] { return opened_; });
        passed_ = true;
        overwrite(memory_, size_);
    }
    // The driver may read the memory at this time: the tests find out whether it does. The thread sanitizer would report
    // this race.
    __attribute__((no_sanitize("thread"))) static void overwrite(void *memory, size_t size) {
        auto *const words = static_cast<volatile std::uint64_t *>(memory);
        auto *const bytes = static_cast<volatile std::byte *>(memory);
        const size_t count = size / sizeof *words;
        for (size_t i = 0; i < count; ++i)
            words[i] = 0x0101010101010101;
        for (size_t i = count * sizeof *words; i < size; ++i)
            bytes[i] = std::byte{1};
    }

    void *memory_;
    size_t size_;
    std::chrono::milliseconds patience_;
    std::mutex mutex_;
    std::condition_variable changed_;
    bool opened_ = false, passed_ = false;
};
// The driver must read what it reads early within `shortly`, on a busy machine too.
constexpr std::chrono::milliseconds for_ever{20'000}, shortly{is_sanitized ? 250 : 100};

constexpr size_t KiB = 1 << 10, MiB = 1 << 20;

// A pageable source of zeros behind a gate that overwrites it, and a copy of it to device memory without gaps.
struct gated_upload {
    size_t width, height = 1, depth = 1, pitch = width, rows = height;

    size_t bytes() const { return width * height * depth; }
    size_t span() const { return ((depth - 1) * rows + height - 1) * pitch + width; }
    template <class Descriptor> Descriptor describe(const void *from, CUdeviceptr to) const {
        Descriptor copy = {};
        copy.srcMemoryType = CU_MEMORYTYPE_HOST, copy.srcHost = from, copy.srcPitch = pitch, copy.srcHeight = rows;
        copy.dstMemoryType = CU_MEMORYTYPE_DEVICE, copy.dstDevice = to, copy.dstPitch = width, copy.dstHeight = height;
        copy.WidthInBytes = width, copy.Height = height, copy.Depth = depth;
        return copy;
    }
    CUDA_MEMCPY3D_BATCH_OP describe(const void *from, CUdeviceptr to, CUmemcpySrcAccessOrder order) const {
        CUDA_MEMCPY3D_BATCH_OP copy = {};
        copy.src.type = copy.dst.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
        copy.src.op.ptr = {reinterpret_cast<CUdeviceptr>(from), pitch, rows, {}};
        copy.dst.op.ptr = {to, width, height, {}};
        copy.extent = {width, height, depth};
        copy.srcAccessOrder = order;
        return copy;
    }

    // The bytes that two staging buffers of 1 MiB hold: whole rows, or as much of a single row.
    size_t early() const {
        const size_t room = height * depth == 1 ? 2 * MiB : MiB / width * width * 2;
        return std::min(bytes(), room);
    }

    // Expects the first `early` bytes to be read before the gate, the others behind it, and the call to return before
    // the gate opens, or behind it.
    template <class Call>
    void expect(size_t early, bool returns_first, CUdeviceptr to, CUstream stream, const Call &call) const {
        SCOPED_TRACE(testing::Message() << width << " B x " << height << " x " << depth << ", pitch " << pitch);
        struct bytes source(span());
        {
            overwriting_gate gate(stream, source.data(), source.size(), returns_first ? for_ever : shortly);
            EXPECT_OK(call(source.data()));
            EXPECT_EQ(gate.open(), returns_first);
            ASSERT_OK(raw().cuStreamSynchronize(stream));
        }
        const struct bytes arrived = read_back(to, bytes());
        const auto find = [&](int value, size_t begin) { // fast, although test code is not optimised
            const void *const found = std::memchr(arrived.data() + begin, value, arrived.size() - begin);
            return found ? static_cast<size_t>(static_cast<const std::byte *>(found) - arrived.data()) : arrived.size();
        };
        const size_t read_early = find(1, 0);
        EXPECT_EQ(read_early, early);
        EXPECT_EQ(find(0, read_early), arrived.size());
    }
};

constexpr gated_upload early_uploads[] = {{64 * KiB + 1},
                                          {2 * MiB},
                                          {.width = 512, .height = 4096, .pitch = 1024},
                                          {.width = 512, .height = 64, .depth = 64, .pitch = 1024, .rows = 70}};
constexpr gated_upload late_uploads[] = {{2 * MiB + 1},
                                         {5 * MiB},
                                         {.width = 3000, .height = 1000, .pitch = 4000},
                                         {.width = 512, .height = 64, .depth = 65, .pitch = 1024, .rows = 70}};

TEST_F(driver_test, calls_read_2_MiB_of_a_pageable_source_immediately_and_the_rest_in_stream_order) {
    device_memory memory(8 * MiB);
    const CUdeviceptr to = memory;
    for (const unsigned flags : {CU_STREAM_DEFAULT, CU_STREAM_NON_BLOCKING}) {
        test_stream stream(flags);
        const auto expect_all = [&](const gated_upload &upload) {
            const bool is_early = upload.bytes() <= 2 * MiB;
            const size_t early = upload.early();
            upload.expect(early, is_early, to, stream, [&](const void *from) {
                const auto copy = upload.describe<CUDA_MEMCPY3D>(from, to);
                return raw().cuMemcpy3DAsync(&copy, stream);
            });
            upload.expect(early, is_early, to, stream, [&](const void *from) {
                auto copy = upload.describe<CUDA_MEMCPY3D_PEER>(from, to);
                copy.srcContext = copy.dstContext = context;
                return raw().cuMemcpy3DPeerAsync(&copy, stream);
            });
            if (upload.height > 1) return;
            upload.expect(early, is_early, to, stream,
                          [&](const void *from) { return raw().cuMemcpyHtoDAsync(to, from, upload.width, stream); });
        };
        for (const gated_upload &upload : early_uploads)
            expect_all(upload);
        for (const gated_upload &upload : late_uploads)
            expect_all(upload);
    }
}

TEST_F(driver_test, two_staging_buffers_of_1_MiB_serve_the_pageable_copies_of_a_context) {
    device_memory memory(4 * MiB);
    const CUdeviceptr to = memory + 2 * MiB;
    test_stream held, other;
    bytes occupying(2 * MiB);
    for (const bool is_full : {false, true})
        for (const bool is_elsewhere : {false, true})
            for (const size_t size : {64 * KiB, 128 * KiB, 2 * MiB}) {
                SCOPED_TRACE(testing::Message() << is_full << is_elsewhere << ", " << size << " B");
                bytes source(size);
                const CUstream stream = is_elsewhere ? other : held;
                const size_t room = size <= 64 * KiB ? size : is_full ? 0 : MiB;
                const bool returns_first = size <= room;
                {
                    overwriting_gate gate(held, source.data(), size, returns_first ? for_ever : shortly);
                    for (size_t i = 0; i <= is_full; ++i)
                        ASSERT_OK(raw().cuMemcpyHtoDAsync(memory + i * MiB, occupying.data(), MiB, held));
                    EXPECT_OK(raw().cuMemcpyHtoDAsync(to, source.data(), size, stream));
                    EXPECT_EQ(gate.open(), returns_first);
                    ASSERT_OK(raw().cuStreamSynchronize(held));
                    ASSERT_OK(raw().cuStreamSynchronize(stream));
                }
                bytes expected(size, std::byte{1});
                std::fill_n(expected.begin(), std::min(room, size), std::byte{0});
                EXPECT_TRUE(read_back(to, size) == expected);
            }
}

constexpr CUmemcpySrcAccessOrder access_orders[] = {
    CU_MEMCPY_SRC_ACCESS_ORDER_STREAM, CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL, CU_MEMCPY_SRC_ACCESS_ORDER_ANY};

CUresult copy_boxes(CUDA_MEMCPY3D_BATCH_OP copy, CUstream stream) {
    size_t failed = 0;
    if (raw().cuMemcpy3DBatchAsync) return raw().cuMemcpy3DBatchAsync(1, &copy, 0, stream);
    return raw().cuMemcpy3DBatchAsync_v12080(1, &copy, &failed, 0, stream);
}
CUresult copy_row(CUdeviceptr to, CUdeviceptr from, size_t size, CUmemcpySrcAccessOrder order, CUstream stream) {
    CUmemcpyAttributes how = {};
    how.srcAccessOrder = order;
    size_t first = 0, failed = 0;
    if (raw().cuMemcpyBatchAsync) return raw().cuMemcpyBatchAsync(&to, &from, &size, 1, &how, &first, 1, stream);
    return raw().cuMemcpyBatchAsync_v12080(&to, &from, &size, 1, &how, &first, 1, &failed, stream);
}

TEST_F(driver_test, batches_read_boxes_of_pageable_memory_as_single_calls_do_in_any_order) {
    if (!raw().cuMemcpy3DBatchAsync && !raw().cuMemcpy3DBatchAsync_v12080)
        GTEST_SKIP() << "the driver has no batch calls";
    device_memory memory(8 * MiB);
    const CUdeviceptr to = memory;
    test_stream stream;
    for (const CUmemcpySrcAccessOrder order : access_orders) {
        SCOPED_TRACE(order);
        const auto expect = [&](const gated_upload &upload) {
            if (upload.height == 1) return;
            const bool waits = upload.bytes() > 2 * MiB || order == CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL;
            upload.expect(upload.early(), !waits, to, stream,
                          [&](const void *from) { return copy_boxes(upload.describe(from, to, order), stream); });
        };
        for (const gated_upload &upload : early_uploads)
            expect(upload);
        for (const gated_upload &upload : late_uploads)
            expect(upload);
    }
}

TEST_F(driver_test, batches_read_rows_of_pageable_memory_up_to_64_KiB_immediately_unless_in_stream_order) {
    if (!raw().cuMemcpyBatchAsync && !raw().cuMemcpyBatchAsync_v12080) GTEST_SKIP() << "the driver has no batch calls";
    device_memory memory(4 * MiB);
    const managed_memory managed(4 * MiB);
    test_stream stream;
    for (const CUmemcpySrcAccessOrder order : access_orders)
        for (const CUdeviceptr to : {memory.address, static_cast<CUdeviceptr>(managed)})
            for (const size_t size : {KiB, 64 * KiB, 64 * KiB + 1, 3 * MiB})
                for (const bool as_box : {false, true}) {
                    SCOPED_TRACE(testing::Message() << "order " << order << (to == memory ? "" : ", managed"));
                    const gated_upload upload = {size};
                    const bool in_order = order == CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
                    const bool is_early = !in_order && to == memory && size <= 64 * KiB;
                    upload.expect(is_early ? size : 0, !in_order, to, stream, [&](const void *from) {
                        return as_box ? copy_boxes(upload.describe(from, to, order), stream)
                                      : copy_row(to, reinterpret_cast<CUdeviceptr>(from), size, order, stream);
                    });
                }
}

TEST_F(driver_test, batches_write_rows_of_pageable_memory_after_their_call_unless_their_order_is_the_call) {
    if (!raw().cuMemcpyBatchAsync && !raw().cuMemcpyBatchAsync_v12080) GTEST_SKIP() << "the driver has no batch calls";
    device_memory memory(2 * MiB);
    ASSERT_OK(raw().cuMemsetD8(memory, 7, 2 * MiB));
    ASSERT_OK(raw().cuCtxSynchronize());
    test_stream stream;
    for (const CUmemcpySrcAccessOrder order : access_orders)
        for (const size_t size : {8 * KiB, 2 * MiB})
            for (const bool as_box : {false, true}) {
                SCOPED_TRACE(testing::Message() << "order " << order << ", " << size << " B");
                const bool returns_first = order != CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL;
                bytes target(size);
                const auto to = reinterpret_cast<CUdeviceptr>(target.data());
                {
                    overwriting_gate gate(stream, nullptr, 0, returns_first ? for_ever : shortly);
                    EXPECT_OK(as_box ? copy_boxes(gated_upload{size}.describe(reinterpret_cast<void *>(memory.address),
                                                                              to, order),
                                                  stream)
                                     : copy_row(to, memory, size, order, stream));
                    EXPECT_TRUE(target == bytes(size, std::byte{returns_first ? std::uint8_t{0} : std::uint8_t{7}}));
                    EXPECT_EQ(gate.open(), returns_first);
                    ASSERT_OK(raw().cuStreamSynchronize(stream));
                }
                EXPECT_TRUE(target == bytes(size, std::byte{7}));
            }
}

TEST_F(driver_test, a_pageable_target_is_filled_when_the_asynchronous_call_returns) {
    const bytes data = random_bytes(1 << 20, 14);
    bytes target(data.size());
    device_memory memory(data.size());
    write(memory, data);
    test_stream stream(CU_STREAM_DEFAULT);
    ASSERT_OK(raw().cuMemcpyDtoHAsync(target.data(), memory, target.size(), stream));
    EXPECT_EQ(data, target);
}

TEST_F(driver_test, a_stream_that_waits_for_an_event_runs_after_it) {
    device_memory memory(64);
    ASSERT_OK(raw().cuMemsetD8(memory, 1, 64));
    ASSERT_OK(raw().cuCtxSynchronize());
    pinned_memory target(64);
    test_stream first;
    test_stream second;
    test_event between(CU_EVENT_DISABLE_TIMING);
    EXPECT_OK(raw().cuStreamWaitEvent(second, between, 0)) << "an event that was never recorded is not waited for";
    gate held(first);
    ASSERT_OK(raw().cuMemsetD8Async(memory, 2, 64, first));
    ASSERT_OK(raw().cuEventRecord(between, first));
    ASSERT_OK(raw().cuStreamWaitEvent(second, between, 0));
    ASSERT_OK(raw().cuMemcpyDtoHAsync(target.data(), memory, 64, second));
    EXPECT_RESULT(CUDA_ERROR_NOT_READY, raw().cuStreamQuery(second));
    held.open();
    ASSERT_OK(raw().cuStreamSynchronize(second));
    EXPECT_EQ(bytes(64, std::byte{2}), target.copy());
}

TEST_F(driver_test, the_legacy_stream_and_blocking_streams_wait_for_each_other_and_others_do_not) {
    pinned_memory source(64);
    device_memory memory(64);
    device_memory elsewhere(64);
    test_stream blocking(CU_STREAM_DEFAULT);
    test_stream later(CU_STREAM_DEFAULT);
    test_stream free_running(CU_STREAM_NON_BLOCKING);
    gate held(blocking);
    ASSERT_OK(raw().cuMemsetD8Async(memory, 1, 64, nullptr));                // on the legacy stream, behind the gate
    ASSERT_OK(raw().cuMemcpyHtoDAsync(elsewhere, source.data(), 64, later)); // behind the legacy stream
    EXPECT_RESULT(CUDA_ERROR_NOT_READY, raw().cuStreamQuery(nullptr));
    EXPECT_RESULT(CUDA_ERROR_NOT_READY, raw().cuStreamQuery(later));
    ASSERT_OK(raw().cuMemcpyHtoDAsync(elsewhere, source.data(), 64, free_running));
    EXPECT_OK(raw().cuStreamSynchronize(free_running)); // would hang if the stream waited for the gate
    EXPECT_RESULT(CUDA_ERROR_NOT_READY, raw().cuStreamQuery(later));
    held.open();
    EXPECT_OK(raw().cuStreamSynchronize(later));
    EXPECT_OK(raw().cuStreamQuery(nullptr));
}

TEST_F(driver_test, a_synchronous_copy_comes_after_the_work_of_blocking_streams) {
    device_memory memory(1 << 20);
    test_stream stream(CU_STREAM_DEFAULT);
    for (int round = 0; round < 20; ++round) {
        ASSERT_OK(raw().cuMemsetD8Async(memory, static_cast<unsigned char>(round), 1 << 20, stream));
        EXPECT_EQ(bytes(1 << 20, static_cast<std::byte>(round)), read_back(memory, 1 << 20));
    }
}

TEST_F(driver_test, each_thread_has_its_own_per_thread_stream) {
    CUcontext owner = nullptr;
    EXPECT_OK(raw().cuStreamGetCtx(CU_STREAM_PER_THREAD, &owner));
    EXPECT_EQ(context, owner);
    gate held(CU_STREAM_PER_THREAD);
    EXPECT_RESULT(CUDA_ERROR_NOT_READY, raw().cuStreamQuery(CU_STREAM_PER_THREAD));
    std::thread([&] {
        EXPECT_OK(raw().cuCtxPushCurrent(context));
        EXPECT_OK(raw().cuStreamQuery(CU_STREAM_PER_THREAD));
        EXPECT_OK(raw().cuCtxPopCurrent(nullptr));
    }).join();
}

TEST_F(driver_test, streams_keep_their_flags_priority_and_context) {
    int least = 0;
    int greatest = 0;
    ASSERT_OK(raw().cuCtxGetStreamPriorityRange(&least, &greatest));
    EXPECT_EQ(0, least);
    EXPECT_LT(greatest, 0);
    CUstream stream = nullptr;
    ASSERT_OK(raw().cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, greatest - 10));
    int priority = 0;
    unsigned flags = 0;
    CUcontext owner = nullptr;
    EXPECT_OK(raw().cuStreamGetPriority(stream, &priority));
    EXPECT_OK(raw().cuStreamGetFlags(stream, &flags));
    EXPECT_OK(raw().cuStreamGetCtx(stream, &owner));
    EXPECT_EQ(greatest, priority);
    EXPECT_EQ(static_cast<unsigned>(CU_STREAM_NON_BLOCKING), flags);
    EXPECT_EQ(context, owner);
    EXPECT_OK(raw().cuStreamDestroy(stream));
    EXPECT_OK(raw().cuStreamGetCtx(nullptr, &owner));
    EXPECT_EQ(context, owner);
    EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, raw().cuStreamCreate(&stream, 0x80));
}

TEST_F(driver_test, a_destroyed_stream_finishes_its_work) {
    device_memory memory(64);
    pinned_memory target(64);
    CUstream stream = nullptr;
    ASSERT_OK(raw().cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    std::promise<void> open;
    ASSERT_OK(raw().cuLaunchHostFunc(
        stream, [](void *promise) { static_cast<std::promise<void> *>(promise)->get_future().wait(); }, &open));
    ASSERT_OK(raw().cuMemsetD8Async(memory, 9, 64, stream));
    ASSERT_OK(raw().cuMemcpyDtoHAsync(target.data(), memory, 64, stream));
    ASSERT_OK(raw().cuStreamDestroy(stream)); // returns although the work is held
    open.set_value();
    ASSERT_OK(raw().cuCtxSynchronize());
    EXPECT_EQ(bytes(64, std::byte{9}), target.copy());
}

TEST_F(driver_test, a_callback_runs_after_earlier_work_and_before_later_work) {
    struct seen {
        CUstream stream = nullptr;
        CUresult result = CUDA_ERROR_UNKNOWN;
        std::byte first{0}, second{0};
        const std::byte *memory = nullptr;
    } one;
    test_stream stream;
    device_memory memory(64);
    pinned_memory target(64);
    std::memset(target.data(), 0, 64);
    one.memory = static_cast<const std::byte *>(target.data());
    {
        const gate held(stream);
        ASSERT_OK(raw().cuMemsetD8Async(memory, 9, 32, stream));
        ASSERT_OK(raw().cuMemcpyDtoHAsync(target.data(), memory, 32, stream));
        ASSERT_OK(raw().cuStreamAddCallback(
            stream,
            [](CUstream on, CUresult result, void *given) {
                auto &here = *static_cast<seen *>(given);
                here.stream = on, here.result = result, here.first = here.memory[31], here.second = here.memory[32];
            },
            &one, 0));
        ASSERT_OK(raw().cuMemsetD8Async(memory, 9, 64, stream));
        ASSERT_OK(raw().cuMemcpyDtoHAsync(target.data(), memory, 64, stream));
        EXPECT_EQ(one.stream, nullptr);
    }
    ASSERT_OK(raw().cuStreamSynchronize(stream));
    EXPECT_EQ(one.stream, stream);
    EXPECT_RESULT(CUDA_SUCCESS, one.result);
    EXPECT_EQ(one.first, std::byte{9});
    EXPECT_EQ(one.second, std::byte{0});
    EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, raw().cuStreamAddCallback(stream, nullptr, &one, 0));
}

TEST_F(driver_test, a_capture_refuses_callbacks) {
    test_stream stream;
    CUgraph graph = nullptr;
    ASSERT_OK(raw().cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    EXPECT_RESULT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, raw().cuStreamAddCallback(
                                                             stream, [](CUstream, CUresult, void *) {}, nullptr, 0));
    EXPECT_RESULT(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, raw().cuStreamEndCapture(stream, &graph));
}

TEST_F(driver_test, elapsed_time_needs_two_recorded_and_timed_events) {
    test_stream stream;
    test_event first;
    test_event second;
    test_event untimed(CU_EVENT_DISABLE_TIMING);
    float elapsed = -1;
    EXPECT_RESULT(CUDA_ERROR_INVALID_HANDLE, raw().cuEventElapsedTime(&elapsed, first, second));
    ASSERT_OK(raw().cuEventRecord(first, stream));
    ASSERT_OK(raw().cuEventRecord(untimed, stream));
    {
        gate held(stream);
        ASSERT_OK(raw().cuEventRecord(second, stream));
        EXPECT_RESULT(CUDA_ERROR_NOT_READY, raw().cuEventElapsedTime(&elapsed, first, second));
    }
    EXPECT_OK(raw().cuEventElapsedTime(&elapsed, first, second));
    EXPECT_GE(elapsed, 0.0f);
    EXPECT_RESULT(CUDA_ERROR_INVALID_HANDLE, raw().cuEventElapsedTime(&elapsed, first, untimed));
}

TEST_F(driver_test, unknown_event_flags_are_refused_and_an_unrecorded_event_counts_as_done) {
    CUevent refused = nullptr;
    EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, raw().cuEventCreate(&refused, 8));
    test_stream stream;
    test_event event;
    EXPECT_OK(raw().cuEventQuery(event));
    EXPECT_OK(raw().cuEventSynchronize(event));
    EXPECT_OK(raw().cuStreamWaitEvent(stream, event, 0));
    float elapsed = -1;
    EXPECT_RESULT(CUDA_ERROR_INVALID_HANDLE, raw().cuEventElapsedTime(&elapsed, event, event));
}

TEST_F(driver_test, without_a_current_context_named_streams_and_events_work_and_others_do_not) {
    test_stream stream;
    test_stream other;
    test_event first;
    test_event second;
    ASSERT_OK(raw().cuEventRecord(first, stream));
    CUevent event = nullptr;
    ASSERT_OK(raw().cuEventCreate(&event, 0));
    const made_current none(nullptr);
    EXPECT_OK(raw().cuEventRecord(second, stream));
    EXPECT_OK(raw().cuStreamWaitEvent(other, second, 0));
    EXPECT_OK(raw().cuStreamSynchronize(other));
    EXPECT_OK(raw().cuEventSynchronize(second));
    float elapsed = -1;
    EXPECT_OK(raw().cuEventElapsedTime(&elapsed, first, second));
    EXPECT_OK(raw().cuEventDestroy(event));
    EXPECT_RESULT(CUDA_ERROR_INVALID_CONTEXT, raw().cuStreamQuery(nullptr));
    EXPECT_RESULT(CUDA_ERROR_INVALID_CONTEXT, raw().cuStreamSynchronize(nullptr));
    EXPECT_RESULT(CUDA_ERROR_INVALID_CONTEXT, raw().cuEventRecord(first, nullptr));
    EXPECT_RESULT(CUDA_ERROR_INVALID_CONTEXT, raw().cuStreamWaitEvent(nullptr, first, 0));
    CUstream refused = nullptr;
    EXPECT_RESULT(CUDA_ERROR_INVALID_CONTEXT, raw().cuEventCreate(&event, 0));
    EXPECT_RESULT(CUDA_ERROR_INVALID_CONTEXT, raw().cuStreamCreate(&refused, 0));
}

TEST_F(driver_test, an_event_is_recorded_in_its_context_and_waited_for_in_any) {
    if (device_count() < 2) GTEST_SKIP() << "needs two devices";
    const other_device other;
    test_stream here;
    test_event event_here;
    CUstream there = nullptr;
    CUevent event_there = nullptr;
    {
        const made_current changed(other);
        EXPECT_OK(raw().cuStreamQuery(here));
        EXPECT_OK(raw().cuStreamSynchronize(here));
        EXPECT_OK(raw().cuEventRecord(event_here, here));
        EXPECT_RESULT(CUDA_ERROR_INVALID_HANDLE, raw().cuEventRecord(event_here, nullptr));
        EXPECT_OK(raw().cuEventSynchronize(event_here));
        ASSERT_OK(raw().cuStreamCreate(&there, CU_STREAM_NON_BLOCKING));
        EXPECT_RESULT(CUDA_ERROR_INVALID_HANDLE, raw().cuEventRecord(event_here, there));
        EXPECT_OK(raw().cuStreamWaitEvent(there, event_here, 0));
        ASSERT_OK(raw().cuEventCreate(&event_there, 0));
        EXPECT_OK(raw().cuEventRecord(event_there, there));
        EXPECT_OK(raw().cuEventSynchronize(event_there));
        float elapsed = -1;
        EXPECT_RESULT(CUDA_ERROR_INVALID_HANDLE, raw().cuEventElapsedTime(&elapsed, event_here, event_there));
    }
    EXPECT_OK(raw().cuStreamWaitEvent(here, event_there, 0));
    EXPECT_OK(raw().cuEventRecord(event_there, there));
    EXPECT_OK(raw().cuStreamDestroy(there));
    EXPECT_OK(raw().cuEventDestroy(event_there));
}

TEST_F(driver_test, host_functions_may_not_call_the_driver) {
    test_stream stream;
    CUresult inside = CUDA_SUCCESS;
    ASSERT_OK(raw().cuLaunchHostFunc(
        stream,
        [](void *result) {
            CUdeviceptr address = 0;
            *static_cast<CUresult *>(result) = raw().cuMemAlloc(&address, 64);
        },
        &inside));
    ASSERT_OK(raw().cuStreamSynchronize(stream));
    EXPECT_RESULT(CUDA_ERROR_NOT_PERMITTED, inside);
}

// ---- Capture

struct captured_graph {
    explicit captured_graph(CUstream stream) {
        EXPECT_OK(raw().cuStreamEndCapture(stream, &graph));
        EXPECT_OK(raw().cuGraphInstantiateWithFlags(&executable, graph, 0));
    }
    // An executable of a graph that the caller destroys.
    explicit captured_graph(CUgraph of) { EXPECT_OK(raw().cuGraphInstantiateWithFlags(&executable, of, 0)); }
    ~captured_graph() {
        raw().cuGraphExecDestroy(executable);
        if (graph) raw().cuGraphDestroy(graph);
    }
    CUgraph graph = nullptr;
    CUgraphExec executable = nullptr;
};

// The copy reads its source at the launch, even while the stream has earlier work to do.
TEST_F(driver_test, a_captured_copy_reads_its_pageable_source_when_the_graph_is_launched) {
    const test_stream stream;
    for (const bool is_managed : {false, true})
        for (const std::size_t size : {std::size_t{64}, std::size_t{300'000}}) {
            CUdeviceptr target = 0;
            if (is_managed) {
                ASSERT_OK(raw().cuMemAllocManaged(&target, size, CU_MEM_ATTACH_GLOBAL));
            } else {
                ASSERT_OK(raw().cuMemAlloc(&target, size));
            }
            bytes source(size, std::byte{1});
            {
                ASSERT_OK(raw().cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
                ASSERT_OK(raw().cuMemcpyHtoDAsync(target, source.data(), size, stream));
                const captured_graph captured(stream);
                for (int round = 2; round < 4; ++round) {
                    const auto value = static_cast<std::byte>(round);
                    std::memset(source.data(), round, size);
                    {
                        gate held(stream);
                        ASSERT_OK(raw().cuGraphLaunch(captured.executable, stream));
                        std::memset(source.data(), 9, size);
                    }
                    ASSERT_OK(raw().cuStreamSynchronize(stream));
                    EXPECT_EQ(read_back(target, size), bytes(size, value));
                }
            }
            ASSERT_OK(raw().cuMemFree(target));
        }
}

// ---- Nodes of graphs

struct graph_nodes : driver_test {
    void SetUp() override {
        driver_test::SetUp();
        if (!raw().cuGraphCreate || !raw().cuGraphAddMemcpyNode || !raw().cuGraphExecMemcpyNodeSetParams)
            GTEST_SKIP() << "this driver has no nodes of graphs";
        ASSERT_OK(raw().cuGraphCreate(&graph, 0));
        ASSERT_OK(raw().cuMemAlloc(&a, size));
        ASSERT_OK(raw().cuMemAlloc(&b, size));
        ASSERT_OK(raw().cuMemAllocManaged(&managed, size, CU_MEM_ATTACH_GLOBAL));
        pinned.emplace(size);
        CUDA_ARRAY3D_DESCRIPTOR desc = {};
        desc.Width = 64;
        desc.Height = 32;
        desc.Format = CU_AD_FORMAT_UNSIGNED_INT8;
        desc.NumChannels = 4;
        ASSERT_OK(raw().cuArray3DCreate(&array, &desc));
    }
    void TearDown() override {
        if (graph) {
            EXPECT_OK(raw().cuGraphDestroy(graph));
            EXPECT_OK(raw().cuMemFree(a));
            EXPECT_OK(raw().cuMemFree(b));
            EXPECT_OK(raw().cuMemFree(managed));
            EXPECT_OK(raw().cuArrayDestroy(array));
        }
        pinned.reset();
        driver_test::TearDown();
    }

    static CUDA_MEMCPY3D within(CUdeviceptr to, CUdeviceptr from, size_t width, size_t height = 1, size_t pitch = 0) {
        CUDA_MEMCPY3D copy = {};
        copy.dstMemoryType = copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
        copy.dstDevice = to;
        copy.srcDevice = from;
        copy.dstPitch = copy.srcPitch = pitch;
        copy.WidthInBytes = width;
        copy.Height = height;
        copy.Depth = 1;
        return copy;
    }
    static CUDA_MEMCPY3D up(CUdeviceptr to, const void *from, size_t width, size_t height = 1, size_t pitch = 0) {
        CUDA_MEMCPY3D copy = within(to, 0, width, height, pitch);
        copy.srcMemoryType = CU_MEMORYTYPE_HOST;
        copy.srcHost = from;
        return copy;
    }
    static CUDA_MEMCPY3D down(void *to, CUdeviceptr from, size_t width, size_t height = 1, size_t pitch = 0) {
        CUDA_MEMCPY3D copy = within(0, from, width, height, pitch);
        copy.dstMemoryType = CU_MEMORYTYPE_HOST;
        copy.dstHost = to;
        return copy;
    }
    CUDA_MEMCPY3D into_array(size_t width, size_t height) const {
        CUDA_MEMCPY3D copy = within(0, a, width, height, 256);
        copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
        copy.dstArray = array;
        return copy;
    }
    static CUDA_MEMSET_NODE_PARAMS fill(CUdeviceptr to, unsigned value, unsigned element, size_t width,
                                        size_t height = 1, size_t pitch = 0) {
        CUDA_MEMSET_NODE_PARAMS params = {};
        params.dst = to;
        params.pitch = pitch;
        params.value = value;
        params.elementSize = element;
        params.width = width;
        params.height = height;
        return params;
    }
    CUresult add(const CUDA_MEMCPY3D &copy, CUgraphNode &node) {
        return raw().cuGraphAddMemcpyNode(&node, graph, nullptr, 0, &copy, context);
    }
    CUresult add(const CUDA_MEMSET_NODE_PARAMS &params, CUgraphNode &node) {
        return raw().cuGraphAddMemsetNode(&node, graph, nullptr, 0, &params, context);
    }
    CUresult set(CUgraphExec executable, CUgraphNode node, const CUDA_MEMCPY3D &copy) {
        return raw().cuGraphExecMemcpyNodeSetParams(executable, node, &copy, context);
    }
    CUresult set(CUgraphExec executable, CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS &params) {
        return raw().cuGraphExecMemsetNodeSetParams(executable, node, &params, context);
    }
    // Whether an executable with a node `before` accepts `after`.
    template <class Node> CUresult change(const Node &before, const Node &after) {
        CUgraphNode node = nullptr;
        EXPECT_OK(add(before, node));
        CUgraphExec executable = nullptr;
        EXPECT_OK(raw().cuGraphInstantiateWithFlags(&executable, graph, 0));
        const CUresult result = set(executable, node, after);
        EXPECT_OK(raw().cuGraphExecDestroy(executable));
        EXPECT_OK(raw().cuGraphDestroy(graph));
        EXPECT_OK(raw().cuGraphCreate(&graph, 0));
        return result;
    }

    static constexpr size_t size = 1 << 20;
    CUgraph graph = nullptr;
    CUdeviceptr a = 0, b = 0, managed = 0;
    CUarray array = nullptr;
    std::optional<pinned_memory> pinned;
    bytes pageable = bytes(size);
};

TEST_F(graph_nodes, arguments_and_dependencies_are_checked) {
    const CUDA_MEMCPY3D copy = within(b, a, 64);
    CUgraphNode first = nullptr, node = nullptr, null = nullptr, foreign = nullptr;
    CUgraph other = nullptr;
    EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, raw().cuGraphCreate(&other, 1));
    EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, raw().cuGraphCreate(nullptr, 0));
    ASSERT_OK(raw().cuGraphCreate(&other, 0));
    ASSERT_OK(raw().cuGraphAddMemcpyNode(&foreign, other, nullptr, 0, &copy, context));
    ASSERT_OK(add(copy, first));
    const CUgraphNode twice[] = {first, first};
    const struct {
        CUgraphNode *node;
        CUgraph graph;
        const CUgraphNode *dependencies;
        size_t count;
        const CUDA_MEMCPY3D *copy;
    } refused[] = {{nullptr, graph, nullptr, 0, &copy}, {&node, nullptr, nullptr, 0, &copy},
                   {&node, graph, nullptr, 0, nullptr}, {&node, graph, nullptr, 1, &copy},
                   {&node, graph, &null, 1, &copy},     {&node, graph, &foreign, 1, &copy},
                   {&node, graph, twice, 2, &copy}};
    for (const auto &one : refused)
        EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE,
                      raw().cuGraphAddMemcpyNode(one.node, one.graph, one.dependencies, one.count, one.copy, context));
    EXPECT_OK(raw().cuGraphAddMemcpyNode(&node, graph, &first, 1, &copy, nullptr));
    EXPECT_OK(raw().cuGraphDestroy(other));
}

TEST_F(graph_nodes, a_copy_is_checked_like_a_call_and_must_not_be_empty) {
    CUgraphNode node = nullptr;
    const CUdeviceptr pages = reinterpret_cast<CUdeviceptr>(pageable.data());
    for (const CUDA_MEMCPY3D &copy : {within(b, a, 0), within(b, a, 16, 0), within(b, a, 2 * size), within(0, a, 16),
                                      within(b, a, 16, 4, 8), within(b, pages, 16), into_array(257, 32)})
        EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, add(copy, node));
    for (const CUDA_MEMCPY3D &copy : {within(managed, a, 64), up(a, pageable.data(), 64), down(pageable.data(), a, 64),
                                      up(a, pinned->data(), 64), into_array(256, 32)})
        EXPECT_OK(add(copy, node));
}

TEST_F(graph_nodes, a_fill_is_checked_like_a_call_and_must_not_be_empty) {
    CUgraphNode node = nullptr;
    const CUdeviceptr pages = reinterpret_cast<CUdeviceptr>(pageable.data());
    for (const CUDA_MEMSET_NODE_PARAMS &params :
         {fill(a, 1, 3, 4), fill(a, 1, 8, 4), fill(a, 1, 0, 4), fill(a, 1, 4, 4, 4, 8), fill(a, 1, 4, 2, 4, 18),
          fill(a, 1, 4, 2, 4, 0), fill(a + 1, 1, 4, 2), fill(a, 1, 4, 0), fill(a, 1, 4, 1, 0), fill(a, 1, 4, size),
          fill(pages, 1, 4, 1), fill(0, 1, 4, 1)})
        EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, add(params, node));
    for (const CUDA_MEMSET_NODE_PARAMS &params :
         {fill(a, 0x1234, 1, 8), fill(a, 0x123456, 2, 4), fill(a, 1, 4, 2, 1, 3), fill(managed, 1, 4, 1),
          fill(reinterpret_cast<CUdeviceptr>(pinned->data()), 1, 4, 1)})
        EXPECT_OK(add(params, node));
}

TEST_F(graph_nodes, nodes_run_after_their_dependencies) {
    const test_stream stream;
    const CUDA_MEMSET_NODE_PARAMS low = fill(a, 0x34, 1, 1024), rows = fill(b, 0x89abcdef, 4, 2, 4, 16);
    CUgraphNode first = nullptr, second = nullptr, third = nullptr;
    ASSERT_OK(add(low, first));
    const CUDA_MEMCPY3D copy = within(b, a, 64);
    ASSERT_OK(raw().cuGraphAddMemcpyNode(&second, graph, &first, 1, &copy, context));
    ASSERT_OK(raw().cuGraphAddMemsetNode(&third, graph, &second, 1, &rows, context));
    const captured_graph made(graph);
    ASSERT_OK(raw().cuGraphLaunch(made.executable, stream));
    ASSERT_OK(raw().cuStreamSynchronize(stream));
    bytes expected(64, std::byte{0x34});
    const unsigned value = 0x89abcdef;
    for (int row = 0; row < 4; ++row)
        for (int column = 0; column < 2; ++column)
            std::memcpy(expected.data() + 16 * row + 4 * column, &value, 4);
    EXPECT_EQ(read_back(b, 64), expected);
}

TEST_F(graph_nodes, a_copy_reads_its_pageable_source_when_the_graph_is_launched) {
    const test_stream stream;
    CUgraphNode node = nullptr;
    std::memset(pageable.data(), 1, size);
    ASSERT_OK(add(up(a, pageable.data(), 65536), node));
    const captured_graph made(graph);
    std::memset(pageable.data(), 2, size);
    {
        gate held(stream);
        ASSERT_OK(raw().cuGraphLaunch(made.executable, stream));
        std::memset(pageable.data(), 3, size);
    }
    ASSERT_OK(raw().cuStreamSynchronize(stream));
    EXPECT_EQ(read_back(a, 65536), bytes(65536, std::byte{2}));
}

TEST_F(graph_nodes, an_executable_takes_only_contiguous_copies_of_the_same_direction) {
    const CUDA_MEMCPY3D copies[] = {within(b, a, 4096),
                                    within(a, managed, 65536),
                                    within(b, a, 64, 16, 128),
                                    within(b, a, 128, 16, 128),
                                    up(a, pinned->data(), 4096),
                                    up(b, pageable.data(), 64),
                                    up(b, pinned->data(), 64, 4, 128),
                                    down(pinned->data(), a, 4096),
                                    down(pageable.data(), b, 64),
                                    into_array(256, 32),
                                    into_array(256, 1)};
    constexpr int none = 0, inside = 1, to_device = 2, to_host = 3;
    constexpr int direction[] = {inside, inside, none, none, to_device, to_device, none, to_host, to_host, none, none};
    for (std::size_t before = 0; before < std::size(copies); ++before)
        for (std::size_t after = 0; after < std::size(copies); ++after) {
            const bool is_taken = before == after || (direction[before] && direction[before] == direction[after]);
            EXPECT_RESULT(is_taken ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE, change(copies[before], copies[after]))
                << before << " to " << after;
        }
    EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, change(copies[0], within(b, a, 0)));
    EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, change(copies[0], within(b, a, 2 * size)));
}

TEST_F(graph_nodes, an_executable_takes_only_contiguous_fills) {
    const CUDA_MEMSET_NODE_PARAMS fills[] = {fill(a, 1, 1, 8), fill(b, 2, 4, 16),
                                             fill(reinterpret_cast<CUdeviceptr>(pinned->data()), 1, 2, 8),
                                             fill(a, 1, 4, 4, 4, 32), fill(b, 1, 4, 8, 2, 64)};
    for (const auto &before : fills)
        for (const auto &after : fills) {
            const bool is_taken = &before == &after || (before.height == 1 && after.height == 1);
            EXPECT_RESULT(is_taken ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE, change(before, after));
        }
}

TEST_F(graph_nodes, a_change_affects_later_launches_of_the_executable_and_not_the_graph) {
    const test_stream stream;
    CUgraphNode node = nullptr, added = nullptr;
    ASSERT_OK(add(fill(a, 1, 1, 64), node));
    captured_graph made(graph);
    ASSERT_OK(add(fill(a, 3, 1, 64), added));
    const auto launched = [&](CUgraphExec executable) {
        EXPECT_OK(raw().cuGraphLaunch(executable, stream));
        EXPECT_OK(raw().cuStreamSynchronize(stream));
        return read_back(a, 64);
    };
    EXPECT_EQ(launched(made.executable), bytes(64, std::byte{1}));
    ASSERT_OK(set(made.executable, node, fill(a, 2, 1, 64)));
    EXPECT_EQ(launched(made.executable), bytes(64, std::byte{2}));
    EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, set(made.executable, added, fill(a, 2, 1, 64)));
    EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, set(made.executable, nullptr, fill(a, 2, 1, 64)));
    EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, set(nullptr, node, fill(a, 2, 1, 64)));
    EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, set(made.executable, node, within(b, a, 64)));
    ASSERT_OK(raw().cuGraphDestroy(graph));
    EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, set(made.executable, node, fill(a, 2, 1, 64)));
    EXPECT_EQ(launched(made.executable), bytes(64, std::byte{2}));
    ASSERT_OK(raw().cuGraphCreate(&graph, 0));
}

TEST_F(driver_test, queries_and_waits_of_a_blocking_stream_ignore_legacy_work_until_an_event_is_recorded) {
    const test_stream blocking(CU_STREAM_DEFAULT);
    const test_event passed(CU_EVENT_DISABLE_TIMING);
    {
        gate held(nullptr);
        EXPECT_OK(raw().cuStreamQuery(blocking));
        EXPECT_OK(raw().cuStreamSynchronize(blocking));
        EXPECT_RESULT(CUDA_ERROR_NOT_READY, raw().cuStreamQuery(CU_STREAM_LEGACY));
        ASSERT_OK(raw().cuEventRecord(passed, blocking));
        EXPECT_RESULT(CUDA_ERROR_NOT_READY, raw().cuEventQuery(passed));
    }
    ASSERT_OK(raw().cuEventSynchronize(passed));
    {
        gate held(blocking);
        EXPECT_RESULT(CUDA_ERROR_NOT_READY, raw().cuStreamQuery(CU_STREAM_LEGACY));
    }
    ASSERT_OK(raw().cuCtxSynchronize());
}

// The implicit order between the legacy stream and the streams that synchronise with it does not hold for a source that
// is read inside the call: one short row of pinned memory, copied to device memory on a stream that has nothing else to
// do.
TEST_F(driver_test, a_short_pinned_row_is_read_in_the_call_despite_pending_writes_of_the_legacy_stream) {
    constexpr size_t largest = 65536;
    pinned_memory source(largest);
    device_memory target(largest), other(largest);
    const test_stream blocking(CU_STREAM_DEFAULT);
    struct {
        CUstream first, second;
    } const pairs[] = {
        {CU_STREAM_LEGACY, blocking}, {blocking, CU_STREAM_LEGACY}, {CU_STREAM_LEGACY, CU_STREAM_PER_THREAD}};
    for (const auto &[first, second] : pairs)
        for (const bool is_written_by_copy : {false, true})
            for (const size_t size : {size_t{46}, size_t{4096}, size_t{16384}, size_t{32768}, largest})
                for (const bool is_box : {false, true}) {
                    ASSERT_OK(raw().cuMemsetD8(target, 0, largest));
                    ASSERT_OK(raw().cuMemsetD8(other, 2, largest));
                    std::memset(source.data(), 1, largest);
                    ASSERT_OK(raw().cuCtxSynchronize());
                    const auto write = [](void *memory) { std::memset(memory, 2, largest); };
                    gate held(first);
                    if (is_written_by_copy)
                        ASSERT_OK(raw().cuMemcpyDtoHAsync(source.data(), other, largest, first));
                    else
                        ASSERT_OK(raw().cuLaunchHostFunc(first, write, source.data()));
                    CUDA_MEMCPY3D copy = {};
                    copy.srcMemoryType = CU_MEMORYTYPE_HOST;
                    copy.srcHost = source.data();
                    copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
                    copy.dstDevice = target;
                    copy.WidthInBytes = size;
                    copy.Height = copy.Depth = 1;
                    ASSERT_OK(is_box ? raw().cuMemcpy3DAsync(&copy, second)
                                     : raw().cuMemcpyHtoDAsync(target, source.data(), size, second));
                    held.open();
                    ASSERT_OK(raw().cuCtxSynchronize());
                    EXPECT_EQ(read_back(target, size), bytes(size, size <= 16384 ? std::byte{1} : std::byte{2}))
                        << size;
                }
}

TEST_F(driver_test, an_event_orders_a_short_pinned_row_after_the_stream_that_writes_it) {
    constexpr size_t size = 4096;
    pinned_memory source(size);
    device_memory target(size);
    const test_stream blocking(CU_STREAM_DEFAULT);
    std::memset(source.data(), 1, size);
    CUevent written = nullptr;
    ASSERT_OK(raw().cuEventCreate(&written, CU_EVENT_DISABLE_TIMING));
    {
        gate held(CU_STREAM_LEGACY);
        ASSERT_OK(raw().cuLaunchHostFunc(
            CU_STREAM_LEGACY, [](void *memory) { std::memset(memory, 2, size); }, source.data()));
        ASSERT_OK(raw().cuEventRecord(written, CU_STREAM_LEGACY));
        ASSERT_OK(raw().cuStreamWaitEvent(blocking, written, 0));
        ASSERT_OK(raw().cuMemcpyHtoDAsync(target, source.data(), size, blocking));
    }
    ASSERT_OK(raw().cuStreamSynchronize(blocking));
    EXPECT_EQ(read_back(target, size), bytes(size, std::byte{2}));
    ASSERT_OK(raw().cuEventDestroy(written));
}

TEST_F(driver_test, captured_work_runs_at_each_launch_and_not_before) {
    device_memory memory(4096);
    ASSERT_OK(raw().cuMemsetD8(memory, 0, 4096));
    ASSERT_OK(raw().cuCtxSynchronize());
    bytes pageable = random_bytes(4096, 15);
    test_stream stream;
    CUstreamCaptureStatus status{};
    ASSERT_OK(raw().cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    ASSERT_OK(raw().cuMemcpyHtoDAsync(memory, pageable.data(), 4096, stream));
    ASSERT_OK(raw().cuMemsetD8Async(memory, 0x77, 16, stream));
    ASSERT_OK(raw().cuStreamIsCapturing(stream, &status));
    EXPECT_EQ(CU_STREAM_CAPTURE_STATUS_ACTIVE, status);
    captured_graph captured(stream);
    ASSERT_OK(raw().cuStreamIsCapturing(stream, &status));
    EXPECT_EQ(CU_STREAM_CAPTURE_STATUS_NONE, status);
    EXPECT_EQ(bytes(4096, std::byte{0}), read_back(memory, 4096));
    for (const uint64_t seed : {16, 17}) {
        std::ranges::copy(random_bytes(4096, seed), pageable.begin()); // the graph's node reads the source at launch
        ASSERT_OK(raw().cuGraphLaunch(captured.executable, stream));
        ASSERT_OK(raw().cuStreamSynchronize(stream));
        bytes expected = pageable;
        std::fill_n(expected.begin(), 16, std::byte{0x77});
        EXPECT_EQ(expected, read_back(memory, 4096));
    }
}

TEST_F(driver_test, fills_of_device_and_of_pinned_memory_are_captured) {
    device_memory memory(256);
    pinned_memory pinned(64);
    std::memset(pinned.data(), 0, 64);
    test_stream stream;
    ASSERT_OK(raw().cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    EXPECT_OK(raw().cuMemsetD2D8Async(memory, 64, 1, 32, 4, stream));
    EXPECT_OK(raw().cuMemsetD8Async(reinterpret_cast<CUdeviceptr>(pinned.data()), 1, 64, stream));
    captured_graph captured(stream);
    EXPECT_EQ(bytes(64), pinned.copy());
    ASSERT_OK(raw().cuGraphLaunch(captured.executable, stream));
    ASSERT_OK(raw().cuStreamSynchronize(stream));
    EXPECT_EQ(bytes(64, std::byte{1}), pinned.copy());
}

TEST_F(driver_test, a_user_object_lives_as_long_as_anything_can_run_its_graph) {
    if (!raw().cuUserObjectCreate) GTEST_SKIP() << "the driver has no user objects";
    static std::atomic<int> destroyed;
    static std::atomic<CUresult> told;
    destroyed = 0;
    const auto destroy = [](void *user) {
        CUcontext current = nullptr;
        told = raw().cuCtxGetCurrent(&current); // not permitted here; drivers differ in what they return
        destroyed += *static_cast<int *>(user);
    };
    int one = 1, ten = 10;
    CUuserObject object = nullptr;
    EXPECT_NE(raw().cuUserObjectCreate(&object, &one, destroy, 1, 0), CUDA_SUCCESS);
    EXPECT_NE(raw().cuUserObjectCreate(&object, &one, destroy, 0, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC), CUDA_SUCCESS);
    ASSERT_OK(raw().cuUserObjectCreate(&object, &ten, destroy, 2, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
    ASSERT_OK(raw().cuUserObjectRelease(object, 2));
    const auto become = [](int wanted) {
        for (int i = 0; i < 10'000 && destroyed != wanted; ++i)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        return destroyed == wanted;
    };
    EXPECT_TRUE(become(10)); // a thread of the driver runs the destructor

    const test_stream stream;
    const device_memory memory(16);
    CUgraph graph = nullptr, under_way = nullptr;
    CUgraphExec executable = nullptr;
    ASSERT_OK(raw().cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    ASSERT_OK(raw().cuMemsetD8Async(memory, 1, 16, stream));
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    ASSERT_OK(raw().cuStreamGetCaptureInfo(stream, &status, nullptr, &under_way, nullptr, nullptr));
    EXPECT_EQ(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    ASSERT_OK(raw().cuUserObjectCreate(&object, &one, destroy, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
    ASSERT_OK(raw().cuGraphRetainUserObject(under_way, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
    ASSERT_OK(raw().cuStreamEndCapture(stream, &graph));
    EXPECT_EQ(graph, under_way);
    ASSERT_OK(raw().cuGraphInstantiateWithFlags(&executable, graph, 0));
    ASSERT_OK(raw().cuGraphDestroy(graph));
    {
        gate held(stream);
        ASSERT_OK(raw().cuGraphLaunch(executable, stream));
        ASSERT_OK(raw().cuGraphExecDestroy(executable));
        EXPECT_EQ(destroyed, 10);
    }
    EXPECT_TRUE(become(11));
    EXPECT_TRUE(read_back(memory, 16) == bytes(16, std::byte{1}));
}

TEST_F(driver_test, an_event_forks_a_capture_to_another_stream_which_must_be_joined) {
    device_memory memory(64);
    test_stream origin;
    test_stream forked;
    test_event fork(CU_EVENT_DISABLE_TIMING);
    test_event join(CU_EVENT_DISABLE_TIMING);
    for (const bool joins : {true, false}) {
        CUstreamCaptureStatus status{};
        ASSERT_OK(raw().cuStreamBeginCapture(origin, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
        ASSERT_OK(raw().cuMemsetD8Async(memory, 1, 64, origin));
        ASSERT_OK(raw().cuEventRecord(fork, origin));
        ASSERT_OK(raw().cuStreamWaitEvent(forked, fork, 0));
        ASSERT_OK(raw().cuStreamIsCapturing(forked, &status));
        EXPECT_EQ(CU_STREAM_CAPTURE_STATUS_ACTIVE, status);
        ASSERT_OK(raw().cuMemsetD8Async(memory, 2, 64, forked));
        ASSERT_OK(raw().cuEventRecord(join, forked));
        if (joins) {
            ASSERT_OK(raw().cuStreamWaitEvent(origin, join, 0));
            captured_graph captured(origin);
            ASSERT_OK(raw().cuGraphLaunch(captured.executable, origin));
            ASSERT_OK(raw().cuStreamSynchronize(origin));
            EXPECT_EQ(bytes(64, std::byte{2}), read_back(memory, 64));
        } else {
            CUgraph graph = nullptr;
            EXPECT_RESULT(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, raw().cuStreamEndCapture(origin, &graph));
        }
        ASSERT_OK(raw().cuStreamIsCapturing(forked, &status));
        EXPECT_EQ(CU_STREAM_CAPTURE_STATUS_NONE, status);
    }
}

TEST_F(driver_test, calls_that_cannot_be_captured_are_refused_and_break_the_capture) {
    device_memory memory(64);
    test_stream stream;
    CUdeviceptr address = 0;
    bytes host(64);
    const auto broken_by = [&](auto call) {
        EXPECT_OK(raw().cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
        const int result = call();
        CUgraph graph = nullptr;
        EXPECT_RESULT(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, raw().cuStreamEndCapture(stream, &graph));
        EXPECT_EQ(nullptr, graph);
        return result;
    };
    EXPECT_EQ(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, broken_by([&] { return raw().cuStreamSynchronize(stream); }));
    EXPECT_EQ(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, broken_by([&] { return raw().cuStreamQuery(stream); }));
    EXPECT_EQ(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, broken_by([&] { return raw().cuMemAlloc(&address, 64); }));
    EXPECT_EQ(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
              broken_by([&] { return raw().cuStreamSynchronize(CU_STREAM_LEGACY); }));
    EXPECT_EQ(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, broken_by([&] { return raw().cuCtxSynchronize(); }));
}

TEST_F(driver_test, copies_that_name_contexts_are_not_captured) {
    device_memory from(64);
    device_memory to(64);
    test_stream stream;
    CUgraph graph = nullptr;
    ASSERT_OK(raw().cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    EXPECT_RESULT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
                  raw().cuMemcpyPeerAsync(to, context, from, context, 64, stream));
    EXPECT_RESULT(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, raw().cuStreamEndCapture(stream, &graph));
}

TEST_F(driver_test, a_capture_on_a_non_blocking_stream_survives_synchronous_copies_and_refused_calls) {
    device_memory memory(64);
    test_stream stream;
    bytes host(64);
    CUgraph graph = nullptr;
    ASSERT_OK(raw().cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    EXPECT_OK(raw().cuMemcpyHtoD(memory, host.data(), 64));
    EXPECT_OK(raw().cuMemsetD8(memory, 0, 64));
    EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, raw().cuMemcpyHtoDAsync(0, host.data(), 64, stream));
    ASSERT_OK(raw().cuStreamEndCapture(stream, &graph));
    EXPECT_OK(raw().cuGraphDestroy(graph));
}

TEST_F(driver_test, only_a_global_capture_is_broken_by_other_threads) {
    test_stream stream;
    const auto allocate_elsewhere = [&] {
        CUresult result = CUDA_SUCCESS;
        std::thread([&] {
            raw().cuCtxPushCurrent(context);
            CUdeviceptr address = 0;
            result = raw().cuMemAlloc(&address, 64);
            if (result == CUDA_SUCCESS) raw().cuMemFree(address);
            raw().cuCtxPopCurrent(nullptr);
        }).join();
        return result;
    };
    CUgraph graph = nullptr;
    ASSERT_OK(raw().cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    EXPECT_RESULT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, allocate_elsewhere());
    EXPECT_RESULT(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, raw().cuStreamEndCapture(stream, &graph));
    for (const auto mode : {CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, CU_STREAM_CAPTURE_MODE_RELAXED}) {
        ASSERT_OK(raw().cuStreamBeginCapture(stream, mode));
        EXPECT_OK(allocate_elsewhere());
        ASSERT_OK(raw().cuStreamEndCapture(stream, &graph));
        EXPECT_OK(raw().cuGraphDestroy(graph));
    }
}

TEST_F(driver_test, the_legacy_stream_neither_captures_nor_joins_a_capture) {
    device_memory memory(64);
    EXPECT_RESULT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
                  raw().cuStreamBeginCapture(nullptr, CU_STREAM_CAPTURE_MODE_RELAXED));
    test_stream blocking(CU_STREAM_DEFAULT);
    CUgraph graph = nullptr;
    ASSERT_OK(raw().cuStreamBeginCapture(blocking, CU_STREAM_CAPTURE_MODE_RELAXED));
    EXPECT_RESULT(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, raw().cuMemsetD8Async(memory, 1, 64, nullptr));
    EXPECT_RESULT(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, raw().cuStreamEndCapture(blocking, &graph));
}

TEST_F(driver_test, a_synchronous_copy_breaks_the_capture_of_a_blocking_stream) {
    device_memory memory(64);
    bytes host(64);
    test_stream blocking(CU_STREAM_DEFAULT);
    CUgraph graph = nullptr;
    ASSERT_OK(raw().cuStreamBeginCapture(blocking, CU_STREAM_CAPTURE_MODE_RELAXED));
    EXPECT_RESULT(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, raw().cuMemcpyHtoD(memory, host.data(), 64));
    EXPECT_RESULT(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, raw().cuStreamEndCapture(blocking, &graph));
}

TEST_F(driver_test, events_do_not_cross_the_border_of_a_capture) {
    test_stream stream;
    test_stream other;
    test_event outside(CU_EVENT_DISABLE_TIMING);
    test_event inside(CU_EVENT_DISABLE_TIMING);
    CUgraph graph = nullptr;
    ASSERT_OK(raw().cuEventRecord(outside, other));
    ASSERT_OK(raw().cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    EXPECT_RESULT(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, raw().cuStreamWaitEvent(stream, outside, 0));
    EXPECT_RESULT(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, raw().cuStreamEndCapture(stream, &graph));

    ASSERT_OK(raw().cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    ASSERT_OK(raw().cuEventRecord(inside, stream));
    EXPECT_RESULT(CUDA_ERROR_CAPTURED_EVENT, raw().cuEventQuery(inside));
    raw().cuStreamEndCapture(stream, &graph);
    if (graph) raw().cuGraphDestroy(graph);

    ASSERT_OK(raw().cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    ASSERT_OK(raw().cuStreamBeginCapture(other, CU_STREAM_CAPTURE_MODE_RELAXED));
    ASSERT_OK(raw().cuEventRecord(inside, stream));
    EXPECT_RESULT(CUDA_ERROR_STREAM_CAPTURE_MERGE, raw().cuStreamWaitEvent(other, inside, 0));
    EXPECT_RESULT(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, raw().cuStreamEndCapture(other, &graph));
    EXPECT_RESULT(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, raw().cuStreamEndCapture(stream, &graph));
}

TEST_F(driver_test, a_capture_ends_on_the_thread_that_began_it_unless_it_is_relaxed) {
    test_stream stream;
    const auto end_elsewhere = [&] {
        CUresult result = CUDA_SUCCESS;
        std::thread([&] {
            raw().cuCtxPushCurrent(context);
            CUgraph graph = nullptr;
            result = raw().cuStreamEndCapture(stream, &graph);
            if (graph) raw().cuGraphDestroy(graph);
            raw().cuCtxPopCurrent(nullptr);
        }).join();
        return result;
    };
    CUgraph graph = nullptr;
    ASSERT_OK(raw().cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    EXPECT_RESULT(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, end_elsewhere());
    raw().cuStreamEndCapture(stream, &graph);
    if (graph) raw().cuGraphDestroy(graph);
    ASSERT_OK(raw().cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    EXPECT_OK(end_elsewhere());
}

TEST_F(driver_test, captures_begin_once_and_end_on_their_own_stream) {
    test_stream stream;
    test_stream other;
    CUgraph graph = nullptr;
    EXPECT_RESULT(CUDA_ERROR_ILLEGAL_STATE, raw().cuStreamEndCapture(stream, &graph));
    ASSERT_OK(raw().cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    EXPECT_RESULT(CUDA_ERROR_ILLEGAL_STATE, raw().cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    EXPECT_RESULT(CUDA_ERROR_ILLEGAL_STATE, raw().cuStreamEndCapture(other, &graph));
    raw().cuStreamEndCapture(stream, &graph);
    if (graph) raw().cuGraphDestroy(graph);
}

// ---- Batches

struct raw_batch {
    std::vector<CUdeviceptr> to, from;
    std::vector<size_t> sizes;
    CUmemcpyAttributes attributes = {
        .srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM, .srcLocHint = {}, .dstLocHint = {}, .flags = 0};
    size_t first = 0;

    void add(CUdeviceptr destination, CUdeviceptr source, size_t size) {
        to.push_back(destination);
        from.push_back(source);
        sizes.push_back(size);
    }
    CUresult run(CUstream stream) {
        return raw().cuMemcpyBatchAsync(to.data(), from.data(), sizes.data(), sizes.size(), &attributes, &first, 1,
                                        stream);
    }
    CUresult run_as_of_12_8(CUstream stream, size_t &fail_index) {
        return raw().cuMemcpyBatchAsync_v12080(to.data(), from.data(), sizes.data(), sizes.size(), &attributes, &first,
                                               1, &fail_index, stream);
    }
};

TEST_F(driver_test, a_stream_waits_for_values_in_memory_and_writes_them) {
    if (!raw().cuStreamBatchMemOp) GTEST_SKIP() << "the driver has no stream memory operations";
    const pinned_memory words(64);
    auto *const value = reinterpret_cast<std::uint32_t *>(words.data());
    std::memset(value, 0, 64);
    const auto address = reinterpret_cast<std::uintptr_t>(value); // unified: the device has the same address
    const test_stream stream;
    const auto enqueue = [&](CUstreamBatchMemOpType what, unsigned word, std::uint32_t operand, unsigned flags) {
        CUstreamBatchMemOpParams one = {};
        one.waitValue.operation = what; // both kinds have their members in the same places
        one.waitValue.address = address + word * sizeof *value;
        one.waitValue.value = operand;
        one.waitValue.flags = flags;
        return raw().cuStreamBatchMemOp(stream, 1, &one, 0);
    };
    constexpr auto wait = CU_STREAM_MEM_OP_WAIT_VALUE_32, write = CU_STREAM_MEM_OP_WRITE_VALUE_32;
    const auto put = [&](unsigned word, std::uint32_t stored) { std::atomic_ref(value[word]).store(stored); };
    const auto get = [&](unsigned word) { return std::atomic_ref(value[word]).load(); };
    ASSERT_OK(enqueue(write, 1, 1, 0));
    ASSERT_OK(enqueue(wait, 0, 0x80000001, CU_STREAM_WAIT_VALUE_GEQ)); // 0 is greater, as the difference wraps
    ASSERT_OK(enqueue(write, 1, 2, 0));
    ASSERT_OK(enqueue(wait, 0, 5, CU_STREAM_WAIT_VALUE_GEQ));
    ASSERT_OK(enqueue(write, 1, 3, 0));
    ASSERT_OK(enqueue(wait, 0, 9, CU_STREAM_WAIT_VALUE_EQ));
    ASSERT_OK(enqueue(write, 1, 4, 0));
    const auto comes_to = [&](std::uint32_t expected) {
        for (int i = 0; i < 5000 && get(1) < expected; ++i)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        return get(1) == expected;
    };
    EXPECT_TRUE(comes_to(2));
    EXPECT_RESULT(CUDA_ERROR_NOT_READY, raw().cuStreamQuery(stream));
    put(0, 7);
    EXPECT_TRUE(comes_to(3)) << "7 >= 5";
    put(0, 9);
    EXPECT_TRUE(comes_to(4));
    EXPECT_OK(raw().cuStreamSynchronize(stream));
    EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, enqueue(write, 1, 1, CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER));
}

TEST_F(driver_test, a_batch_copies_all_its_pieces_with_either_signature) {
    if (!raw().cuMemcpyBatchAsync || !raw().cuMemcpyBatchAsync_v12080) GTEST_SKIP() << "the driver has no batch calls";
    constexpr size_t count = 100, size = 70, apart = 96;
    device_memory device(count * apart);
    pinned_memory from(count * apart), to(count * apart);
    const bytes data = random_bytes(count * apart, 1);
    std::copy(data.begin(), data.end(), from.data());
    test_stream stream;
    raw_batch up, down;
    for (size_t i = 0; i < count; ++i) {
        up.add(device + i * apart, reinterpret_cast<CUdeviceptr>(from.data()) + (count - 1 - i) * apart, size);
        down.add(reinterpret_cast<CUdeviceptr>(to.data()) + (count - 1 - i) * apart, device + i * apart, size);
    }
    size_t fail_index = 0;
    ASSERT_OK(up.run(stream));
    ASSERT_OK(down.run_as_of_12_8(stream, fail_index));
    ASSERT_OK(raw().cuStreamSynchronize(stream));
    for (size_t i = 0; i < count; ++i)
        ASSERT_EQ(0, std::memcmp(to.data() + i * apart, data.data() + i * apart, size)) << i;
}

TEST_F(driver_test, a_batch_is_refused_on_the_legacy_stream_and_with_a_size_or_an_address_of_zero) {
    if (!raw().cuMemcpyBatchAsync || !raw().cuMemcpyBatchAsync_v12080) GTEST_SKIP() << "the driver has no batch calls";
    device_memory device(1024);
    pinned_memory host(1024);
    const auto from = reinterpret_cast<CUdeviceptr>(host.data());
    test_stream stream;
    raw_batch good;
    good.add(device, from, 64);
    EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, good.run(nullptr));
    EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, good.run(CU_STREAM_LEGACY));
    EXPECT_OK(good.run(CU_STREAM_PER_THREAD));
    EXPECT_OK(raw().cuStreamSynchronize(CU_STREAM_PER_THREAD));
    const struct {
        CUdeviceptr to, from;
        size_t size;
    } bad[] = {{device + 64, from, 0}, {0, from, 64}, {device + 64, 0, 64}};
    for (const auto &one : bad) {
        raw_batch batch;
        batch.add(device, from, 64);
        batch.add(one.to, one.from, one.size);
        size_t fail_index = 0;
        EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, batch.run(stream));
        EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, batch.run_as_of_12_8(stream, fail_index));
        EXPECT_EQ(1u, fail_index);
    }
    EXPECT_OK(raw().cuStreamSynchronize(stream));
}

TEST_F(driver_test, a_batch_cannot_be_captured) {
    if (!raw().cuMemcpyBatchAsync) GTEST_SKIP() << "the driver has no batch calls";
    device_memory device(1024);
    pinned_memory host(1024);
    test_stream stream;
    raw_batch batch;
    batch.add(device, reinterpret_cast<CUdeviceptr>(host.data()), 64);
    ASSERT_OK(raw().cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    EXPECT_NE(CUDA_SUCCESS, batch.run(stream));
    CUgraph graph = nullptr;
    raw().cuStreamEndCapture(stream, &graph); // the driver may break the capture or return an empty graph
    if (graph) {
        EXPECT_OK(raw().cuGraphDestroy(graph));
    }
}

TEST_F(driver_test, a_batch_of_boxes_counts_in_elements_of_arrays) {
    if (!raw().cuMemcpy3DBatchAsync) GTEST_SKIP() << "the driver has no batch calls";
    CUDA_ARRAY3D_DESCRIPTOR made = {};
    made.Width = 16, made.Height = 8, made.Format = CU_AD_FORMAT_UNSIGNED_INT32, made.NumChannels = 2;
    CUarray array = nullptr;
    ASSERT_OK(raw().cuArray3DCreate(&array, &made));
    constexpr size_t element = 8, row = 20 * element;
    device_memory from(8 * row), to(8 * row);
    const bytes data = random_bytes(8 * row, 2);
    write_for_all_streams(from, data);
    write_for_all_streams(to, bytes(8 * row));
    CUDA_MEMCPY3D_BATCH_OP box = {};
    box.extent = {5, 3, 1};
    box.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
    box.src.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
    box.src.op.ptr.ptr = from + row + element;
    box.src.op.ptr.rowLength = row / element;
    box.dst.type = CU_MEMCPY_OPERAND_TYPE_ARRAY;
    box.dst.op.array.array = array;
    box.dst.op.array.offset = {2, 1, 0};
    test_stream stream;
    EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, raw().cuMemcpy3DBatchAsync(1, &box, 0, nullptr));
    EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, raw().cuMemcpy3DBatchAsync(1, &box, 1, stream));
    ASSERT_OK(raw().cuMemcpy3DBatchAsync(1, &box, 0, stream));
    std::swap(box.src, box.dst);
    box.dst.op.ptr.ptr = to;
    size_t fail_index = 0;
    if (raw().cuMemcpy3DBatchAsync_v12080) {
        ASSERT_OK(raw().cuMemcpy3DBatchAsync_v12080(1, &box, &fail_index, 0, stream));
    } else {
        ASSERT_OK(raw().cuMemcpy3DBatchAsync(1, &box, 0, stream));
    }
    ASSERT_OK(raw().cuStreamSynchronize(stream));
    const bytes out = read_back(to, 8 * row);
    for (size_t y = 0; y < 3; ++y) {
        EXPECT_EQ(0, std::memcmp(&out[y * row], &data[(y + 1) * row + element], 5 * element)) << y;
        EXPECT_EQ(std::byte{0}, out[y * row + 5 * element]);
    }
    box.extent.depth = 0;
    EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, raw().cuMemcpy3DBatchAsync(1, &box, 0, stream));
    EXPECT_OK(raw().cuArrayDestroy(array));
}

} // namespace
} // namespace ferry::test
