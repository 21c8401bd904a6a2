// Tests of pools and sharing that need the software driver: what happens when memory runs out, and what is left when
// the driver closes.
#include "softdriver/softdriver.h"

#include "driver/table.h"

#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>

#include <gtest/gtest.h>
#if !defined(_WIN32)
#include <unistd.h>
#endif

namespace ferry::softdriver {
namespace {

#define ASSERT_RESULT(expected, call) ASSERT_EQ(static_cast<int>(expected), static_cast<int>(call))
#define EXPECT_RESULT(expected, call) EXPECT_EQ(static_cast<int>(expected), static_cast<int>(call))

constexpr std::size_t mib = std::size_t{1} << 20;

struct softdriver_pools_test : ::testing::Test {
    void SetUp() override {
        ASSERT_EQ(open_result::opened, open({.devices = 1, .hardware_queues = 8, .device_memory = 64 * mib}));
        bool found[driver_symbol_count];
        resolve_table({[](void *, const char *name, int version) { return get_proc(name, version); }, nullptr}, cu,
                      found);
        ASSERT_RESULT(CUDA_SUCCESS, cu.cuInit(0));
        ASSERT_RESULT(CUDA_SUCCESS, cu.cuDevicePrimaryCtxRetain(&context, 0));
        ASSERT_RESULT(CUDA_SUCCESS, cu.cuCtxPushCurrent(context));
    }
    void TearDown() override {
        cu.cuCtxPopCurrent(nullptr);
        cu.cuDevicePrimaryCtxRelease(0);
        close();
    }
    CUstream new_stream() {
        CUstream stream = nullptr;
        EXPECT_RESULT(CUDA_SUCCESS, cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        return stream;
    }
    driver_table cu;
    CUcontext context = nullptr;
};

TEST_F(softdriver_pools_test, where_memory_runs_out_an_allocation_waits_for_a_free_if_its_pool_allows_it) {
    const CUstream freeing = new_stream();
    const CUstream taking = new_stream();
    CUmemoryPool pool = nullptr;
    CUdeviceptr first = 0;
    CUdeviceptr second = 0;
    int allowed = 0;
    ASSERT_RESULT(CUDA_SUCCESS, cu.cuDeviceGetDefaultMemPool(&pool, 0));
    ASSERT_RESULT(CUDA_SUCCESS, cu.cuMemAllocAsync(&first, 50 * mib, freeing));
    std::promise<void> opened;
    ASSERT_RESULT(
        CUDA_SUCCESS,
        cu.cuLaunchHostFunc(
            freeing, [](void *held) { static_cast<std::promise<void> *>(held)->get_future().wait(); }, &opened));
    ASSERT_RESULT(CUDA_SUCCESS, cu.cuMemFreeAsync(first, freeing));
    constexpr CUmemPool_attribute policy = CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES;
    EXPECT_RESULT(CUDA_SUCCESS, cu.cuMemPoolSetAttribute(pool, policy, &allowed));
    EXPECT_RESULT(CUDA_ERROR_OUT_OF_MEMORY, cu.cuMemAllocAsync(&second, 50 * mib, taking));
    allowed = 1;
    EXPECT_RESULT(CUDA_SUCCESS, cu.cuMemPoolSetAttribute(pool, policy, &allowed));
    EXPECT_RESULT(CUDA_SUCCESS, cu.cuMemAllocAsync(&second, 50 * mib, taking));
    EXPECT_EQ(first, second);
    EXPECT_RESULT(CUDA_ERROR_NOT_READY, cu.cuStreamQuery(taking));
    opened.set_value();
    EXPECT_RESULT(CUDA_SUCCESS, cu.cuStreamSynchronize(taking));
    EXPECT_RESULT(CUDA_SUCCESS, cu.cuMemFree(second));
}

TEST_F(softdriver_pools_test, plain_allocations_get_the_memory_that_pools_keep) {
    CUmemoryPool pool = nullptr;
    std::uint64_t everything = ~std::uint64_t{0};
    CUdeviceptr address = 0;
    ASSERT_RESULT(CUDA_SUCCESS, cu.cuDeviceGetDefaultMemPool(&pool, 0));
    ASSERT_RESULT(CUDA_SUCCESS, cu.cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &everything));
    ASSERT_RESULT(CUDA_SUCCESS, cu.cuMemAllocAsync(&address, 50 * mib, nullptr));
    ASSERT_RESULT(CUDA_SUCCESS, cu.cuMemFreeAsync(address, nullptr));
    ASSERT_RESULT(CUDA_SUCCESS, cu.cuCtxSynchronize());
    ASSERT_RESULT(CUDA_SUCCESS, cu.cuMemAlloc(&address, 60 * mib));
    EXPECT_RESULT(CUDA_SUCCESS, cu.cuMemFree(address));
}

TEST_F(softdriver_pools_test, memory_of_graphs_is_freed_with_them) {
    std::size_t before = 0;
    std::size_t after = 0;
    std::size_t total = 0;
    ASSERT_RESULT(CUDA_SUCCESS, cu.cuMemGetInfo(&before, &total));
    const CUstream stream = new_stream();
    for (int i = 0; i < 3; ++i) {
        CUgraph graph = nullptr;
        CUgraphExec runs = nullptr;
        CUdeviceptr address = 0;
        ASSERT_RESULT(CUDA_SUCCESS, cu.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
        ASSERT_RESULT(CUDA_SUCCESS, cu.cuMemAllocAsync(&address, 40 * mib, stream));
        ASSERT_RESULT(CUDA_SUCCESS, cu.cuStreamEndCapture(stream, &graph));
        ASSERT_RESULT(CUDA_SUCCESS, cu.cuGraphInstantiateWithFlags(&runs, graph, 0));
        if (i != 0) {
            ASSERT_RESULT(CUDA_SUCCESS, cu.cuGraphLaunch(runs, stream));
        }
        EXPECT_RESULT(CUDA_SUCCESS, cu.cuGraphExecDestroy(runs));
        EXPECT_RESULT(CUDA_SUCCESS, cu.cuGraphDestroy(graph));
        if (i != 0) {
            EXPECT_RESULT(CUDA_SUCCESS, cu.cuMemFree(address)) << "an allocation that ran outlives its graph";
        }
    }
    EXPECT_RESULT(CUDA_SUCCESS, cu.cuCtxSynchronize());
    ASSERT_RESULT(CUDA_SUCCESS, cu.cuMemGetInfo(&after, &total));
    EXPECT_EQ(before, after);
}

#if !defined(_WIN32)

std::size_t open_files() {
    const std::filesystem::directory_iterator files("/proc/self/fd");
    return static_cast<std::size_t>(std::distance(begin(files), end(files)));
}

std::size_t mapped_files_of_the_driver() {
    std::ifstream maps("/proc/self/maps");
    std::size_t count = 0;
    for (std::string line; std::getline(maps, line);)
        count += line.find("ferry software") != std::string::npos;
    return count;
}

TEST_F(softdriver_pools_test, closing_releases_shared_objects_that_are_still_in_use) {
    const auto leave_everything_open = [&] {
        CUmemoryPool pool = nullptr;
        CUmemoryPool imported = nullptr;
        CUmemPoolProps props{};
        props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
        props.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
        props.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
        CUdeviceptr address = 0;
        CUdeviceptr again = 0;
        CUmemPoolPtrExportData data{};
        CUevent event = nullptr;
        CUipcMemHandle memory{};
        int descriptor = -1;
        ASSERT_RESULT(CUDA_SUCCESS, cu.cuMemPoolCreate(&pool, &props));
        ASSERT_RESULT(CUDA_SUCCESS, cu.cuMemAllocFromPoolAsync(&address, mib, pool, nullptr));
        ASSERT_RESULT(CUDA_SUCCESS, cu.cuMemPoolExportToShareableHandle(&descriptor, pool,
                                                                        CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
        ASSERT_RESULT(CUDA_SUCCESS, cu.cuMemPoolImportFromShareableHandle(
                                        &imported, reinterpret_cast<void *>(std::intptr_t{descriptor}),
                                        CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
        ::close(descriptor);
        ASSERT_RESULT(CUDA_SUCCESS, cu.cuMemPoolExportPointer(&data, address));
        ASSERT_RESULT(CUDA_SUCCESS, cu.cuMemPoolImportPointer(&again, imported, &data));
        ASSERT_RESULT(CUDA_SUCCESS, cu.cuEventCreate(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
        ASSERT_RESULT(CUDA_SUCCESS, cu.cuEventRecord(event, nullptr));
        ASSERT_RESULT(CUDA_SUCCESS, cu.cuMemAlloc(&address, 4096));
        ASSERT_RESULT(CUDA_SUCCESS, cu.cuIpcGetMemHandle(&memory, address));
    };
    const std::size_t with_one_open = open_files();
    leave_everything_open();
    TearDown();
    EXPECT_EQ(with_one_open - 1, open_files());
    EXPECT_EQ(0u, mapped_files_of_the_driver());
    SetUp();
    EXPECT_EQ(with_one_open, open_files());
}

#endif

} // namespace
} // namespace ferry::softdriver
