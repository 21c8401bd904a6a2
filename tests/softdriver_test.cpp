// Tests that need the software driver: its configuration and lifetime, its hardware queues, memory that the host cannot
// access, stale handles, fork.
#include "softdriver/softdriver.h"
#include "support/emulator.h"

#include "driver/table.h"
#include "softdriver/arrays.h"
#include "softdriver/state.h"
#include "support/system.h"
#include "system/readable.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <future>
#include <iterator>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace ferry::softdriver {
namespace {

#define ASSERT_RESULT(expected, call) ASSERT_EQ(static_cast<int>(expected), static_cast<int>(call))
#define EXPECT_RESULT(expected, call) EXPECT_EQ(static_cast<int>(expected), static_cast<int>(call))

void *resolve(void *, const char *name, int version) { return get_proc(name, version); }

driver_table resolved() {
    driver_table table;
    bool found[driver_symbol_count];
    resolve_table({resolve, nullptr}, table, found);
    return table;
}

constexpr std::uint32_t queues = 8;

struct softdriver_test : ::testing::Test {
    void SetUp() override {
        ASSERT_EQ(open_result::opened, open({.devices = 2, .hardware_queues = queues, .device_memory = 0}));
        cu = resolved();
        ASSERT_RESULT(CUDA_SUCCESS, cu.cuInit(0));
        ASSERT_RESULT(CUDA_SUCCESS, cu.cuDevicePrimaryCtxRetain(&context, 0));
        ASSERT_RESULT(CUDA_SUCCESS, cu.cuCtxPushCurrent(context));
    }
    void TearDown() override {
        cu.cuCtxSynchronize();
        cu.cuCtxPopCurrent(nullptr);
        cu.cuDevicePrimaryCtxRelease(0);
        close();
    }
    CUstream new_stream() {
        CUstream stream = nullptr;
        EXPECT_RESULT(CUDA_SUCCESS, cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        return stream;
    }
    // Blocks the stream until `opened` is set.
    void hold(CUstream stream, std::promise<void> &opened) {
        EXPECT_RESULT(CUDA_SUCCESS,
                      cu.cuLaunchHostFunc(
                          stream,
                          [](void *promise) { static_cast<std::promise<void> *>(promise)->get_future().wait(); },
                          &opened));
    }
    driver_table cu;
    CUcontext context = nullptr;
};

TEST_F(softdriver_test, exactly_the_rows_of_the_list_are_implemented) {
    for (const driver_symbol &symbol : driver_symbols) {
        EXPECT_NE(nullptr, get_proc(symbol.name, symbol.version)) << symbol.name;
        const bool has_older =
            std::any_of(std::begin(driver_symbols), std::end(driver_symbols), [&](const auto &other) {
                return std::string(other.name) == symbol.name && other.version < symbol.version;
            });
        EXPECT_EQ(has_older, get_proc(symbol.name, symbol.version - 1) != nullptr) << symbol.name;
    }
    EXPECT_NE(nullptr, get_proc("ferrySoftwareDriver", 0));
    EXPECT_EQ(nullptr, get_proc("cuModuleLoadData", 13000));
    EXPECT_EQ(nullptr, get_proc(nullptr, 13000));
}

TEST_F(softdriver_test, graph_instantiate_is_found_under_the_name_in_the_header) {
    void *const expected = get_proc("cuGraphInstantiateWithFlags", 12000);
    EXPECT_NE(nullptr, expected);
    EXPECT_EQ(expected, get_proc("cuGraphInstantiate", 12000));
    EXPECT_EQ(nullptr, get_proc("cuGraphInstantiate", 11030));
}

TEST_F(softdriver_test, a_later_open_may_not_request_another_configuration) {
    int devices = 0;
    ASSERT_RESULT(CUDA_SUCCESS, cu.cuDeviceGetCount(&devices));
    const auto same = static_cast<std::uint32_t>(devices);
    EXPECT_EQ(open_result::refused_config, open({.devices = same + 1, .hardware_queues = 0, .device_memory = 0}));
    EXPECT_EQ(open_result::refused_config, open({.devices = 0, .hardware_queues = 3, .device_memory = 0}));
    EXPECT_EQ(open_result::opened, open({.devices = same, .hardware_queues = 0, .device_memory = 0}));
    close();
    EXPECT_RESULT(CUDA_SUCCESS, cu.cuDeviceGetCount(&devices)) << "the driver is still open for this test";
}

TEST(softdriver_lifetime_test, the_last_close_ends_it_and_the_next_open_configures_it_anew) {
    const driver_table cu = resolved();
    int count = 0;
    EXPECT_RESULT(CUDA_ERROR_NOT_INITIALIZED, cu.cuInit(0));
    for (const std::uint32_t devices : {3u, 1u}) {
        ASSERT_EQ(open_result::opened, open({.devices = devices, .hardware_queues = 1, .device_memory = 1 << 24}));
        ASSERT_EQ(open_result::opened, open({}));
        EXPECT_RESULT(CUDA_ERROR_NOT_INITIALIZED, cu.cuDeviceGetCount(&count));
        EXPECT_RESULT(CUDA_SUCCESS, cu.cuInit(0));
        EXPECT_RESULT(CUDA_SUCCESS, cu.cuDeviceGetCount(&count));
        EXPECT_EQ(devices, static_cast<std::uint32_t>(count));
        close();
        EXPECT_RESULT(CUDA_SUCCESS, cu.cuDeviceGetCount(&count)) << "one open is left";
        close();
        EXPECT_RESULT(CUDA_ERROR_NOT_INITIALIZED, cu.cuDeviceGetCount(&count));
    }
    EXPECT_EQ(open_result::out_of_memory, open({.devices = 65, .hardware_queues = 0, .device_memory = 0}));
    EXPECT_EQ(open_result::out_of_memory, open({.devices = 0, .hardware_queues = 0, .device_memory = ~0ull}));
}

TEST(softdriver_lifetime_test, a_driver_that_is_not_initialised_reports_it_before_it_checks_arguments) {
    const driver_table cu = resolved();
    EXPECT_RESULT(CUDA_ERROR_NOT_INITIALIZED, cu.cuMemcpy2D(nullptr));
    EXPECT_RESULT(CUDA_ERROR_NOT_INITIALIZED, cu.cuMemcpy3DAsync(nullptr, nullptr));
    EXPECT_RESULT(CUDA_ERROR_NOT_INITIALIZED, cu.cuDeviceGetLuid(nullptr, nullptr, 0));
}

TEST(softdriver_lifetime_test, closing_finishes_running_work) {
    const driver_table cu = resolved();
    ASSERT_EQ(open_result::opened, open({}));
    ASSERT_RESULT(CUDA_SUCCESS, cu.cuInit(0));
    CUcontext context = nullptr;
    std::vector<char> seen(1 << 20);
    void *const target = seen.data();
    CUdeviceptr memory = 0;
    ASSERT_RESULT(CUDA_SUCCESS, cu.cuCtxCreate(&context, 0, 1));
    ASSERT_RESULT(CUDA_SUCCESS, cu.cuMemHostRegister(target, seen.size(), 0));
    ASSERT_RESULT(CUDA_SUCCESS, cu.cuMemAlloc(&memory, seen.size()));
    ASSERT_RESULT(CUDA_SUCCESS, cu.cuMemsetD8Async(memory, 3, seen.size(), CU_STREAM_PER_THREAD));
    ASSERT_RESULT(CUDA_SUCCESS, cu.cuMemcpyDtoHAsync(target, memory, seen.size(), CU_STREAM_PER_THREAD));
    close();
    EXPECT_EQ(std::vector<char>(seen.size(), 3), seen);
    ASSERT_EQ(open_result::opened, open({}));
    ASSERT_RESULT(CUDA_SUCCESS, cu.cuInit(0));
    EXPECT_RESULT(CUDA_ERROR_CONTEXT_IS_DESTROYED, cu.cuMemAlloc(&memory, 64)) << "made before the driver was closed";
    EXPECT_RESULT(CUDA_SUCCESS, cu.cuCtxPopCurrent(nullptr));
    close();
}

TEST_F(softdriver_test, streams_and_captures_of_a_thread_end_with_it) {
    CUcontext context = nullptr;
    CUdeviceptr address = 0;
    ASSERT_RESULT(CUDA_SUCCESS, cu.cuCtxGetCurrent(&context));
    std::thread([&] {
        EXPECT_RESULT(CUDA_SUCCESS, cu.cuCtxSetCurrent(context));
        EXPECT_RESULT(CUDA_SUCCESS, cu.cuStreamBeginCapture(CU_STREAM_PER_THREAD, CU_STREAM_CAPTURE_MODE_GLOBAL));
        EXPECT_RESULT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cu.cuMemAlloc(&address, 64));
    }).join();
    ASSERT_RESULT(CUDA_SUCCESS, cu.cuMemAlloc(&address, 64)) << "a capture that no thread can end blocks nothing";
    std::thread([&] {
        EXPECT_RESULT(CUDA_SUCCESS, cu.cuCtxSetCurrent(context));
        EXPECT_RESULT(CUDA_SUCCESS, cu.cuMemsetD8Async(address, 5, 64, CU_STREAM_PER_THREAD));
    }).join();
    unsigned char bytes[64] = {};
    EXPECT_RESULT(CUDA_SUCCESS, cu.cuMemcpyDtoH(bytes, address, 64)) << "after the work of a thread that has ended";
    EXPECT_EQ(5, bytes[63]);
    EXPECT_RESULT(CUDA_SUCCESS, cu.cuMemFree(address));
}

TEST_F(softdriver_test, per_thread_synchronous_calls_are_ordered_on_the_thread_s_own_stream) {
    constexpr std::size_t size = 64;
    CUdeviceptr memory = 0;
    CUstream held = nullptr;
    ASSERT_RESULT(CUDA_SUCCESS, cu.cuMemAlloc(&memory, size));
    ASSERT_RESULT(CUDA_SUCCESS, cu.cuStreamCreate(&held, CU_STREAM_DEFAULT));
    std::promise<void> opened;
    hold(held, opened);
    std::vector<unsigned char> bytes(size);
    {
        const per_thread_default_stream own; // the legacy stream would wait for `held`
        EXPECT_RESULT(CUDA_SUCCESS, cu.cuMemsetD8(memory, 7, size));
        EXPECT_RESULT(CUDA_SUCCESS, cu.cuMemcpyDtoH(bytes.data(), memory, size));
    }
    EXPECT_EQ(std::vector<unsigned char>(size, 7), bytes);
    EXPECT_RESULT(CUDA_ERROR_NOT_READY, cu.cuStreamQuery(held));
    opened.set_value();
    EXPECT_RESULT(CUDA_SUCCESS, cu.cuStreamSynchronize(held));

    CUgraph graph = nullptr;
    for (const bool is_fill : {false, true}) {
        ASSERT_RESULT(CUDA_SUCCESS, cu.cuStreamBeginCapture(CU_STREAM_PER_THREAD, CU_STREAM_CAPTURE_MODE_RELAXED));
        const per_thread_default_stream own;
        EXPECT_RESULT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
                      is_fill ? cu.cuMemsetD8(memory, 8, size) : cu.cuMemcpyDtoH(bytes.data(), memory, size));
        EXPECT_RESULT(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cu.cuStreamEndCapture(CU_STREAM_PER_THREAD, &graph));
    }
    EXPECT_RESULT(CUDA_SUCCESS, cu.cuStreamDestroy(held));
    EXPECT_RESULT(CUDA_SUCCESS, cu.cuMemFree(memory));
}

TEST_F(softdriver_test, the_host_cannot_access_device_memory) {
    SKIP_WITHOUT(process_vm_reads);
    CUdeviceptr address = 0;
    ASSERT_RESULT(CUDA_SUCCESS, cu.cuMemAlloc(&address, 4096));
    EXPECT_FALSE(host_range_is_readable(address, address));
    EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, cu.cuMemcpyHtoD(address, reinterpret_cast<void *>(address + 8192), 10))
        << "device addresses that are not allocated are refused, not accessed";
    EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, cu.cuMemHostRegister(reinterpret_cast<void *>(address), 4096, 0));
    EXPECT_RESULT(CUDA_SUCCESS, cu.cuMemFree(address));
}

TEST_F(softdriver_test, unmapped_addresses_cannot_be_registered) {
    EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, cu.cuMemHostRegister(reinterpret_cast<void *>(0x10000), 1 << 30, 0));
}

// The driver's own allocations follow the rule that tests/driver_conformance_test.cpp checks for registrations.
TEST_F(softdriver_test, the_rows_of_a_copy_may_not_span_two_allocations_of_pinned_memory) {
    constexpr std::size_t size = 8192, width = 64;
    void *blocks[2] = {};
    for (void *&block : blocks)
        ASSERT_RESULT(CUDA_SUCCESS, cu.cuMemHostAlloc(&block, size, 0));
    std::sort(std::begin(blocks), std::end(blocks), std::less<>());
    const auto first = static_cast<std::byte *>(blocks[0]), second = static_cast<std::byte *>(blocks[1]);
    CUdeviceptr memory = 0;
    ASSERT_RESULT(CUDA_SUCCESS, cu.cuMemAlloc(&memory, 4 * width));
    const CUstream stream = new_stream();
    struct scene {
        std::byte *begin;
        std::ptrdiff_t pitch;
        std::size_t rows;
        CUresult expected;
    };
    const std::ptrdiff_t distance = second - first;
    for (const scene &one : {scene{first, distance, 2, CUDA_ERROR_INVALID_VALUE},
                             {first + size - width, distance, 2, CUDA_ERROR_INVALID_VALUE},
                             {first, size - width, 3, CUDA_ERROR_INVALID_VALUE},
                             {first, size - width + 1, 2, CUDA_ERROR_INVALID_VALUE},
                             {first, size - width, 2, CUDA_SUCCESS},
                             {second, size - width, 2, CUDA_SUCCESS}})
        for (const bool are_slices : {false, true})
            for (const bool to_device : {false, true}) {
                SCOPED_TRACE(testing::Message() << "pitch " << one.pitch << ", " << one.rows << " rows");
                CUDA_MEMCPY3D copy = {};
                copy.srcMemoryType = to_device ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
                copy.dstMemoryType = to_device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
                copy.srcHost = copy.dstHost = one.begin;
                copy.srcDevice = copy.dstDevice = memory;
                (to_device ? copy.srcPitch : copy.dstPitch) = static_cast<std::size_t>(one.pitch);
                (to_device ? copy.dstPitch : copy.srcPitch) = width;
                copy.srcHeight = copy.dstHeight = are_slices;
                copy.WidthInBytes = width;
                copy.Height = are_slices ? 1 : one.rows;
                copy.Depth = are_slices ? one.rows : 1;
                EXPECT_RESULT(one.expected, cu.cuMemcpy3DAsync(&copy, stream));
                EXPECT_RESULT(one.expected, cu.cuMemcpy3D(&copy));
            }
    EXPECT_RESULT(CUDA_SUCCESS, cu.cuStreamDestroy(stream));
    EXPECT_RESULT(CUDA_SUCCESS, cu.cuMemFree(memory));
    for (void *const block : blocks)
        EXPECT_RESULT(CUDA_SUCCESS, cu.cuMemFreeHost(block));
}

TEST_F(softdriver_test, stale_and_foreign_handles_are_recognised) {
    const CUstream stream = new_stream();
    CUevent event = nullptr;
    CUarray array = nullptr;
    const CUDA_ARRAY_DESCRIPTOR shape{4, 4, CU_AD_FORMAT_FLOAT, 1};
    ASSERT_RESULT(CUDA_SUCCESS, cu.cuEventCreate(&event, 0));
    ASSERT_RESULT(CUDA_SUCCESS, cu.cuArrayCreate(&array, &shape));
    EXPECT_RESULT(CUDA_SUCCESS, cu.cuStreamDestroy(stream));
    EXPECT_RESULT(CUDA_SUCCESS, cu.cuEventDestroy(event));
    EXPECT_RESULT(CUDA_SUCCESS, cu.cuArrayDestroy(array));
    CUDA_ARRAY_DESCRIPTOR out{};
    EXPECT_RESULT(CUDA_ERROR_INVALID_HANDLE, cu.cuStreamSynchronize(stream));
    EXPECT_RESULT(CUDA_ERROR_INVALID_HANDLE, cu.cuEventQuery(event));
    EXPECT_RESULT(CUDA_ERROR_INVALID_HANDLE, cu.cuArrayGetDescriptor(&out, array));
    EXPECT_RESULT(CUDA_ERROR_INVALID_CONTEXT, cu.cuCtxPushCurrent(reinterpret_cast<CUcontext>(stream)));
}

TEST_F(softdriver_test, kinds_of_arrays_that_are_not_implemented_are_reported) {
    CUarray array = nullptr;
    for (const unsigned flags : {CUDA_ARRAY3D_SPARSE, CUDA_ARRAY3D_DEFERRED_MAPPING}) {
        const CUDA_ARRAY3D_DESCRIPTOR asked{16, 16, 0, CU_AD_FORMAT_FLOAT, 1, flags};
        EXPECT_RESULT(CUDA_ERROR_NOT_SUPPORTED, cu.cuArray3DCreate(&array, &asked));
    }
}

TEST_F(softdriver_test, arrays_are_limited_to_what_the_device_reports) {
    const struct {
        CUdevice_attribute limit;
        std::size_t CUDA_ARRAY3D_DESCRIPTOR::*dimension;
        CUDA_ARRAY3D_DESCRIPTOR smallest;
    } limits[] = {
        {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_WIDTH, &CUDA_ARRAY3D_DESCRIPTOR::Width, {1, 0, 0, {}, 0, 0}},
        {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_WIDTH, &CUDA_ARRAY3D_DESCRIPTOR::Width, {1, 1, 0, {}, 0, 0}},
        {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_HEIGHT, &CUDA_ARRAY3D_DESCRIPTOR::Height, {1, 1, 0, {}, 0, 0}},
        {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_WIDTH, &CUDA_ARRAY3D_DESCRIPTOR::Width, {1, 1, 1, {}, 0, 0}},
        {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_HEIGHT, &CUDA_ARRAY3D_DESCRIPTOR::Height, {1, 1, 1, {}, 0, 0}},
        {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_DEPTH, &CUDA_ARRAY3D_DESCRIPTOR::Depth, {1, 1, 1, {}, 0, 0}},
        {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LAYERED_WIDTH,
         &CUDA_ARRAY3D_DESCRIPTOR::Width,
         {1, 0, 1, {}, 0, CUDA_ARRAY3D_LAYERED}},
        {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LAYERED_LAYERS,
         &CUDA_ARRAY3D_DESCRIPTOR::Depth,
         {1, 0, 1, {}, 0, CUDA_ARRAY3D_LAYERED}},
        {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_WIDTH,
         &CUDA_ARRAY3D_DESCRIPTOR::Width,
         {1, 1, 1, {}, 0, CUDA_ARRAY3D_LAYERED}},
        {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_HEIGHT,
         &CUDA_ARRAY3D_DESCRIPTOR::Height,
         {1, 1, 1, {}, 0, CUDA_ARRAY3D_LAYERED}},
        {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_LAYERS,
         &CUDA_ARRAY3D_DESCRIPTOR::Depth,
         {1, 1, 1, {}, 0, CUDA_ARRAY3D_LAYERED}},
        {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_LAYERED_LAYERS,
         &CUDA_ARRAY3D_DESCRIPTOR::Depth,
         {1, 1, 6, {}, 0, CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP}},
        {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_GATHER_WIDTH,
         &CUDA_ARRAY3D_DESCRIPTOR::Width,
         {1, 1, 0, {}, 0, CUDA_ARRAY3D_TEXTURE_GATHER}},
        {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_GATHER_HEIGHT,
         &CUDA_ARRAY3D_DESCRIPTOR::Height,
         {1, 1, 0, {}, 0, CUDA_ARRAY3D_TEXTURE_GATHER}},
    };
    for (const auto &one : limits) {
        SCOPED_TRACE(one.limit);
        int most = 0;
        ASSERT_RESULT(CUDA_SUCCESS, cu.cuDeviceGetAttribute(&most, one.limit, 0));
        CUDA_ARRAY3D_DESCRIPTOR asked = one.smallest;
        asked.Format = CU_AD_FORMAT_UNSIGNED_INT8, asked.NumChannels = 1;
        CUarray array = nullptr;
        asked.*one.dimension = static_cast<std::size_t>(most);
        ASSERT_RESULT(CUDA_SUCCESS, cu.cuArray3DCreate(&array, &asked));
        EXPECT_RESULT(CUDA_SUCCESS, cu.cuArrayDestroy(array));
        asked.*one.dimension += asked.Flags & CUDA_ARRAY3D_CUBEMAP ? 6 : 1;
        EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, cu.cuArray3DCreate(&array, &asked));
    }
}

TEST_F(softdriver_test, planes_and_levels_end_with_their_array_and_with_their_context) {
    size_t before = 0;
    size_t after = 0;
    size_t total = 0;
    ASSERT_RESULT(CUDA_SUCCESS, cu.cuMemGetInfo(&before, &total));
    const CUDA_ARRAY3D_DESCRIPTOR planar{64, 64, 0, CU_AD_FORMAT_NV12, 3, CUDA_ARRAY3D_VIDEO_ENCODE_DECODE};
    const CUDA_ARRAY3D_DESCRIPTOR floats{64, 64, 0, CU_AD_FORMAT_FLOAT, 1, 0};
    const CUDA_ARRAY3D_DESCRIPTOR too_large{32768, 32768, 0, CU_AD_FORMAT_FLOAT, 4, 0}; // 16 GiB
    for (const bool with_context : {false, true}) {
        CUcontext created = nullptr;
        if (with_context) {
            ASSERT_RESULT(CUDA_SUCCESS, cu.cuCtxCreate(&created, 0, 0));
        }
        CUarray whole = nullptr;
        CUarray plane = nullptr;
        CUmipmappedArray mipmapped = nullptr;
        CUarray level = nullptr;
        ASSERT_RESULT(CUDA_SUCCESS, cu.cuArray3DCreate(&whole, &planar));
        ASSERT_RESULT(CUDA_SUCCESS, cu.cuArrayGetPlane(&plane, whole, 1));
        ASSERT_RESULT(CUDA_SUCCESS, cu.cuMipmappedArrayCreate(&mipmapped, &floats, 3));
        ASSERT_RESULT(CUDA_SUCCESS, cu.cuMipmappedArrayGetLevel(&level, mipmapped, 2));
        EXPECT_RESULT(CUDA_SUCCESS, cu.cuArrayDestroy(plane)) << "changes nothing";
        EXPECT_RESULT(CUDA_SUCCESS, cu.cuArrayDestroy(level)) << "changes nothing";
        CUDA_ARRAY3D_DESCRIPTOR told{};
        EXPECT_RESULT(CUDA_SUCCESS, cu.cuArray3DGetDescriptor(&told, plane));
        EXPECT_RESULT(CUDA_SUCCESS, cu.cuArray3DGetDescriptor(&told, level));
        if (with_context) {
            EXPECT_RESULT(CUDA_SUCCESS, cu.cuCtxDestroy(created));
        } else {
            EXPECT_RESULT(CUDA_SUCCESS, cu.cuArrayDestroy(whole));
            EXPECT_RESULT(CUDA_SUCCESS, cu.cuMipmappedArrayDestroy(mipmapped));
        }
        EXPECT_RESULT(CUDA_ERROR_INVALID_HANDLE, cu.cuArray3DGetDescriptor(&told, plane));
        EXPECT_RESULT(CUDA_ERROR_INVALID_HANDLE, cu.cuArray3DGetDescriptor(&told, level));
        EXPECT_RESULT(CUDA_ERROR_INVALID_HANDLE, cu.cuArrayGetPlane(&plane, whole, 0));
        EXPECT_RESULT(CUDA_ERROR_INVALID_HANDLE, cu.cuMipmappedArrayGetLevel(&level, mipmapped, 0));
        EXPECT_RESULT(CUDA_ERROR_OUT_OF_MEMORY, cu.cuMipmappedArrayCreate(&mipmapped, &too_large, 2));
        ASSERT_RESULT(CUDA_SUCCESS, cu.cuMemGetInfo(&after, &total));
        EXPECT_EQ(before, after);
    }
}

TEST(tiled_layout_test, every_byte_has_its_own_place_and_no_row_is_contiguous) {
    for (const tiled_layout &layout :
         {tiled_layout{0, 80, 1, 1}, tiled_layout{0, 100, 21, 1}, tiled_layout{0, 48, 9, 7}}) {
        std::vector<bool> taken(layout.storage_size());
        for (std::size_t z = 0; z < layout.slices; ++z)
            for (std::size_t y = 0; y < layout.rows; ++y)
                for (std::size_t x = 0; x < layout.row_bytes; ++x) {
                    const std::size_t at = layout.offset(x, y, z);
                    ASSERT_LT(at, taken.size());
                    ASSERT_FALSE(taken[at]);
                    taken[at] = true;
                    if (x % tiled_layout::piece) {
                        EXPECT_EQ(layout.offset(x - 1, y, z) + 1, at) << "a texel is contiguous";
                    } else if (x) {
                        EXPECT_NE(layout.offset(x - 1, y, z) + 1, at);
                    }
                }
    }
}

// Streams share hardware queues. Work that waits in a queue holds up the kernels and device copies of other streams,
// but not their copies from and to the host (docs/driver.md).
TEST_F(softdriver_test, a_blocked_hardware_queue_blocks_other_streams_but_not_their_host_copies) {
    CUdeviceptr memory = 0;
    void *pinned = nullptr;
    ASSERT_RESULT(CUDA_SUCCESS, cu.cuMemAlloc(&memory, (queues + 1) * 1024));
    ASSERT_RESULT(CUDA_SUCCESS, cu.cuMemHostAlloc(&pinned, 512, 0));
    std::memset(pinned, 5, 512);
    std::promise<void> opened;
    const CUstream held = new_stream();
    hold(held, opened);
    ASSERT_RESULT(CUDA_SUCCESS, cu.cuMemsetD8Async(memory, 1, 16, held)); // waits at the head of its queue
    std::vector<CUstream> streams;
    int blocked = 0;
    for (std::uint32_t i = 0; i < queues; ++i) {
        streams.push_back(new_stream());
        const CUdeviceptr own = memory + 1024 + CUdeviceptr{i} * 1024;
        EXPECT_RESULT(CUDA_SUCCESS, cu.cuMemcpyHtoDAsync(own, pinned, 512, streams.back()));
        EXPECT_RESULT(CUDA_SUCCESS, cu.cuStreamSynchronize(streams.back())); // would hang behind the held queue
        EXPECT_RESULT(CUDA_SUCCESS, cu.cuMemcpyDtoDAsync(own + 512, own, 512, streams.back()));
    }
    // All but one queue make progress; the stream that shares the held one does not.
    for (std::uint32_t i = 0; i < queues - 1; ++i)
        EXPECT_RESULT(CUDA_SUCCESS, cu.cuStreamSynchronize(streams[i]));
    for (const CUstream stream : streams)
        blocked += cu.cuStreamQuery(stream) == CUDA_ERROR_NOT_READY;
    EXPECT_EQ(1, blocked);
    opened.set_value();
    for (const CUstream stream : streams) {
        EXPECT_RESULT(CUDA_SUCCESS, cu.cuStreamSynchronize(stream));
        EXPECT_RESULT(CUDA_SUCCESS, cu.cuStreamDestroy(stream));
    }
    EXPECT_RESULT(CUDA_SUCCESS, cu.cuStreamDestroy(held));
    EXPECT_RESULT(CUDA_SUCCESS, cu.cuMemFree(memory));
    EXPECT_RESULT(CUDA_SUCCESS, cu.cuMemFreeHost(pinned));
}

TEST_F(softdriver_test, a_free_that_waits_blocks_every_call_except_queries) {
    using namespace std::chrono_literals;
    CUdeviceptr memory = 0;
    CUevent event = nullptr;
    ASSERT_RESULT(CUDA_SUCCESS, cu.cuMemAlloc(&memory, 512));
    ASSERT_RESULT(CUDA_SUCCESS, cu.cuEventCreate(&event, 0));
    std::promise<void> opened;
    const CUstream held = new_stream(), other = new_stream();
    hold(held, opened);
    ASSERT_RESULT(CUDA_SUCCESS, cu.cuEventRecord(event, held));
    std::future<call_result> freed = std::async(std::launch::async, [&] { return cu.cuMemFree(memory); });
    while (running_driver(true)->submission.try_lock()) { // until the free has locked it
        running_driver(true)->submission.unlock();
        std::this_thread::yield();
    }
    std::future<call_result> queried = std::async(std::launch::async, [&] { return cu.cuEventQuery(event); });
    std::future<call_result> enqueued =
        std::async(std::launch::async, [&] { return cu.cuMemsetD8Async(memory, 1, 16, other); });
    EXPECT_EQ(std::future_status::ready, queried.wait_for(20s));
    EXPECT_EQ(std::future_status::timeout, enqueued.wait_for(50ms));
    EXPECT_EQ(std::future_status::timeout, freed.wait_for(0s));
    opened.set_value();
    EXPECT_RESULT(CUDA_ERROR_NOT_READY, queried.get());
    EXPECT_RESULT(CUDA_SUCCESS, freed.get());
    EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, enqueued.get()); // the memory was freed first
    EXPECT_RESULT(CUDA_SUCCESS, cu.cuEventDestroy(event));
    EXPECT_RESULT(CUDA_SUCCESS, cu.cuStreamDestroy(held));
    EXPECT_RESULT(CUDA_SUCCESS, cu.cuStreamDestroy(other));
}

TEST_F(softdriver_test, one_thread_runs_all_host_functions) {
    const CUstream first = new_stream();
    const CUstream second = new_stream();
    std::promise<void> opened;
    bool ran = false;
    hold(first, opened);
    ASSERT_RESULT(CUDA_SUCCESS, cu.cuLaunchHostFunc(
                                    second, [](void *out) { *static_cast<bool *>(out) = true; }, &ran));
    EXPECT_RESULT(CUDA_ERROR_NOT_READY, cu.cuStreamQuery(second));
    opened.set_value();
    EXPECT_RESULT(CUDA_SUCCESS, cu.cuStreamSynchronize(second));
    EXPECT_TRUE(ran);
    EXPECT_RESULT(CUDA_SUCCESS, cu.cuStreamDestroy(first));
    EXPECT_RESULT(CUDA_SUCCESS, cu.cuStreamDestroy(second));
}

// The weakest reading of the manual's "API synchronization behavior". Code that relies on more must fail here first.
TEST_F(softdriver_test, a_synchronous_copy_returns_as_early_as_the_manual_allows) {
    CUdeviceptr memory = 0;
    ASSERT_RESULT(CUDA_SUCCESS, cu.cuMemAlloc(&memory, 4096));
    CUstream blocking = nullptr;
    ASSERT_RESULT(CUDA_SUCCESS, cu.cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    std::vector<unsigned char> source(1024, 7);
    ASSERT_RESULT(CUDA_SUCCESS, cu.cuMemcpyHtoD(memory, source.data(), source.size()));
    source.assign(1024, 0); // the call has read it already
    std::promise<void> opened;
    hold(blocking, opened);
    // The calls would hang here if they waited for their own work, which runs after the held stream.
    EXPECT_RESULT(CUDA_SUCCESS, cu.cuMemcpyDtoD(memory + 2048, memory, source.size()));
    EXPECT_RESULT(CUDA_SUCCESS, cu.cuMemsetD8(memory, 1, source.size()));
    EXPECT_RESULT(CUDA_ERROR_NOT_READY, cu.cuStreamQuery(nullptr));
    opened.set_value();
    std::vector<unsigned char> out(1024);
    EXPECT_RESULT(CUDA_SUCCESS, cu.cuMemcpyDtoH(out.data(), memory + 2048, out.size()));
    EXPECT_EQ(std::vector<unsigned char>(1024, 7), out);
    EXPECT_RESULT(CUDA_SUCCESS, cu.cuStreamDestroy(blocking));
    EXPECT_RESULT(CUDA_SUCCESS, cu.cuMemFree(memory));
}

TEST_F(softdriver_test, the_end_of_a_large_pageable_source_arrives_after_the_call_has_returned) {
    constexpr std::size_t width = 300, height = 250, depth = 3; // more than is staged in one step, in every dimension
    CUdeviceptr memory = 0;
    ASSERT_RESULT(CUDA_SUCCESS, cu.cuMemAlloc(&memory, width * height * depth));
    std::vector<unsigned char> source(400 * height * depth);
    for (std::size_t i = 0; i < source.size(); ++i)
        source[i] = static_cast<unsigned char>(i * 7 + i / 251);
    std::vector<unsigned char> expected;
    for (std::size_t row = 0; row < height * depth; ++row)
        expected.insert(expected.end(), &source[row * 400], &source[row * 400] + width);
    CUDA_MEMCPY3D up{};
    up.srcMemoryType = CU_MEMORYTYPE_HOST, up.srcHost = source.data(), up.srcPitch = 400;
    up.dstMemoryType = CU_MEMORYTYPE_DEVICE, up.dstDevice = memory;
    up.WidthInBytes = width, up.Height = height, up.Depth = depth;
    EXPECT_RESULT(CUDA_SUCCESS, cu.cuMemcpy3D(&up));
    source.assign(source.size(), 0); // the source has been read
    std::vector<unsigned char> out(expected.size());
    EXPECT_RESULT(CUDA_SUCCESS, cu.cuMemcpyDtoH(out.data(), memory, out.size()));
    EXPECT_EQ(expected, out);
    EXPECT_RESULT(CUDA_SUCCESS, cu.cuMemFree(memory));
}

TEST_F(softdriver_test, an_asynchronous_copy_of_managed_memory_waits_only_for_a_pageable_target) {
    CUdeviceptr managed = 0;
    CUdeviceptr memory = 0;
    void *pinned = nullptr;
    ASSERT_RESULT(CUDA_SUCCESS, cu.cuMemAllocManaged(&managed, 4096, CU_MEM_ATTACH_GLOBAL));
    ASSERT_RESULT(CUDA_SUCCESS, cu.cuMemAlloc(&memory, 4096));
    ASSERT_RESULT(CUDA_SUCCESS, cu.cuMemHostAlloc(&pinned, 4096, 0));
    const CUstream stream = new_stream();
    std::promise<void> opened;
    std::vector<unsigned char> pageable(4096, 7);
    const auto at = [](void *address) { return reinterpret_cast<CUdeviceptr>(address); };
    hold(stream, opened);
    // The calls would hang here if they waited.
    EXPECT_RESULT(CUDA_SUCCESS, cu.cuMemcpyAsync(managed, at(pageable.data()), 4096, stream));
    EXPECT_RESULT(CUDA_SUCCESS, cu.cuMemcpyAsync(memory, managed, 4096, stream));
    EXPECT_RESULT(CUDA_SUCCESS, cu.cuMemcpyAsync(managed, memory, 4096, stream));
    EXPECT_RESULT(CUDA_SUCCESS, cu.cuMemcpyAsync(at(pinned), managed, 4096, stream));
    EXPECT_RESULT(CUDA_SUCCESS, cu.cuMemcpyAsync(managed, at(pinned), 4096, stream));
    EXPECT_RESULT(CUDA_ERROR_NOT_READY, cu.cuStreamQuery(stream));
    opened.set_value();
    std::vector<unsigned char> out(4096);
    EXPECT_RESULT(CUDA_SUCCESS, cu.cuMemcpyAsync(at(out.data()), managed, 4096, stream));
    EXPECT_EQ(pageable, out);
    EXPECT_RESULT(CUDA_SUCCESS, cu.cuStreamDestroy(stream));
    EXPECT_RESULT(CUDA_SUCCESS, cu.cuMemFree(managed));
    EXPECT_RESULT(CUDA_SUCCESS, cu.cuMemFree(memory));
    EXPECT_RESULT(CUDA_SUCCESS, cu.cuMemFreeHost(pinned));
}

TEST_F(softdriver_test, managed_memory_is_limited_by_all_devices_together) {
    size_t total = 0;
    ASSERT_RESULT(CUDA_SUCCESS, cu.cuDeviceTotalMem(&total, 0));
    CUdeviceptr most = 0;
    CUdeviceptr more = 0;
    ASSERT_RESULT(CUDA_SUCCESS, cu.cuMemAllocManaged(&most, 2 * total, CU_MEM_ATTACH_GLOBAL));
    EXPECT_RESULT(CUDA_ERROR_OUT_OF_MEMORY, cu.cuMemAllocManaged(&more, 1, CU_MEM_ATTACH_GLOBAL));
    EXPECT_RESULT(CUDA_SUCCESS, cu.cuMemFree(most));
    ASSERT_RESULT(CUDA_SUCCESS, cu.cuMemAllocManaged(&more, 1, CU_MEM_ATTACH_GLOBAL));
    EXPECT_RESULT(CUDA_SUCCESS, cu.cuMemFree(more));
}

TEST_F(softdriver_test, access_to_a_peer_ends_with_its_context) {
    CUcontext peer = nullptr;
    for (int life = 0; life < 2; ++life) {
        ASSERT_RESULT(CUDA_SUCCESS, cu.cuDevicePrimaryCtxRetain(&peer, 1));
        EXPECT_RESULT(CUDA_SUCCESS, cu.cuCtxEnablePeerAccess(peer, 0)) << "a new context has no access enabled";
        ASSERT_RESULT(CUDA_SUCCESS, cu.cuDevicePrimaryCtxRelease(1));
    }
    CUcontext created = nullptr;
    ASSERT_RESULT(CUDA_SUCCESS, cu.cuCtxCreate(&created, 0, 1));
    EXPECT_RESULT(CUDA_SUCCESS, cu.cuCtxEnablePeerAccess(context, 0));
    EXPECT_RESULT(CUDA_SUCCESS, cu.cuCtxDestroy(created));
    EXPECT_RESULT(CUDA_ERROR_INVALID_CONTEXT, cu.cuCtxEnablePeerAccess(created, 0));
}

TEST_F(softdriver_test, many_threads_copy_at_the_same_time) {
    std::vector<std::thread> threads;
    for (int seed = 1; seed <= 4; ++seed)
        threads.emplace_back([this, seed] {
            EXPECT_RESULT(CUDA_SUCCESS, cu.cuCtxPushCurrent(context));
            const CUstream stream = new_stream();
            std::vector<unsigned char> in(100'000, static_cast<unsigned char>(seed));
            for (int round = 0; round < 50; ++round) {
                std::vector<unsigned char> out(in.size());
                CUdeviceptr a = 0;
                CUdeviceptr b = 0;
                EXPECT_RESULT(CUDA_SUCCESS, cu.cuMemAlloc(&a, in.size()));
                EXPECT_RESULT(CUDA_SUCCESS, cu.cuMemAlloc(&b, in.size()));
                EXPECT_RESULT(CUDA_SUCCESS, cu.cuMemcpyHtoDAsync(a, in.data(), in.size(), stream));
                EXPECT_RESULT(CUDA_SUCCESS, cu.cuMemcpyDtoDAsync(b, a, in.size(), stream));
                EXPECT_RESULT(CUDA_SUCCESS, cu.cuMemcpyDtoHAsync(out.data(), b, in.size(), stream));
                EXPECT_EQ(in, out);
                EXPECT_RESULT(CUDA_SUCCESS, cu.cuMemFree(a));
                EXPECT_RESULT(CUDA_SUCCESS, cu.cuMemFree(b));
            }
            EXPECT_RESULT(CUDA_SUCCESS, cu.cuStreamDestroy(stream));
            EXPECT_RESULT(CUDA_SUCCESS, cu.cuCtxPopCurrent(nullptr));
        });
    for (std::thread &thread : threads)
        thread.join();
}

TEST_F(softdriver_test, freed_memory_is_merged_again) {
    size_t before = 0;
    size_t after = 0;
    size_t total = 0;
    ASSERT_RESULT(CUDA_SUCCESS, cu.cuMemGetInfo(&before, &total));
    std::vector<CUdeviceptr> parts(100);
    for (std::size_t i = 0; i < parts.size(); ++i)
        ASSERT_RESULT(CUDA_SUCCESS, cu.cuMemAlloc(&parts[i], 1 + i * 1000));
    for (const std::size_t step : {2, 1}) // every other one first: the second pass closes the holes
        for (std::size_t i = step - 1; i < parts.size(); i += 2)
            EXPECT_RESULT(CUDA_SUCCESS, cu.cuMemFree(parts[i]));
    ASSERT_RESULT(CUDA_SUCCESS, cu.cuMemGetInfo(&after, &total));
    EXPECT_EQ(before, after);
    CUdeviceptr everything = 0;
    EXPECT_RESULT(CUDA_SUCCESS, cu.cuMemAlloc(&everything, after));
    EXPECT_RESULT(CUDA_SUCCESS, cu.cuMemFree(everything));
}

// ThreadSanitizer does not run the child of a process with threads.
#if !defined(__SANITIZE_THREAD__)
TEST_F(softdriver_test, a_forked_child_has_no_driver) {
    FERRY_NEEDS_FORK();
    const int status = ferry::test::run_in_child([&] {
        int count = 0;
        const bool gone = cu.cuDeviceGetCount(&count) == CUDA_ERROR_NOT_INITIALIZED &&
                          open({}) == open_result::opened && cu.cuInit(0) == CUDA_ERROR_NOT_INITIALIZED;
        close();
        return gone ? 0 : 1;
    });
    EXPECT_EQ(0, status);
    int count = 0;
    EXPECT_RESULT(CUDA_SUCCESS, cu.cuDeviceGetCount(&count)) << "the parent keeps the driver";
}
#endif

} // namespace
} // namespace ferry::softdriver
