// Tests stream-ordered memory and its pools, through the raw entry points. The same tests hold on the software driver
// and on a real GPU. Each expectation is documented by CUDA or was seen on two H200 (docs/driver.md).
#include "support/gate.h"
#include "support/raw_objects.h"
#include "support/system.h"

#include <cstring>
#include <numeric>
#include <optional>

namespace ferry::test {
namespace {

constexpr size_t mib = size_t{1} << 20;

struct driver_pools_test : driver_test {
    void SetUp() override {
        driver_test::SetUp();
        if (!raw().cuMemAllocAsync) GTEST_SKIP() << "this driver has no stream-ordered memory";
    }
};

CUmemPoolProps props_of(CUmemLocation location) {
    CUmemPoolProps props{};
    props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.location = location;
    return props;
}
CUmemPoolProps props_of_device(int device) { return props_of({CU_MEM_LOCATION_TYPE_DEVICE, device}); }

struct test_pool {
    explicit test_pool(const CUmemPoolProps &props = props_of_device(0)) {
        EXPECT_OK(raw().cuMemPoolCreate(&handle, &props));
    }
    ~test_pool() {
        if (handle) raw().cuMemPoolDestroy(handle);
    }
    test_pool(const test_pool &) = delete;
    operator CUmemoryPool() const { return handle; }

    CUdeviceptr allocate(size_t size, CUstream stream) const {
        CUdeviceptr address = 0;
        EXPECT_OK(raw().cuMemAllocFromPoolAsync(&address, size, handle, stream));
        return address;
    }
    std::uint64_t number(CUmemPool_attribute attribute) const {
        std::uint64_t value = 0;
        EXPECT_OK(raw().cuMemPoolGetAttribute(handle, attribute, &value));
        return value;
    }
    void set(CUmemPool_attribute attribute, std::uint64_t value) const {
        EXPECT_OK(raw().cuMemPoolSetAttribute(handle, attribute, &value));
    }
    void turn(CUmemPool_attribute attribute, int value) const {
        EXPECT_OK(raw().cuMemPoolSetAttribute(handle, attribute, &value));
    }
    void keep_everything() const { set(CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, ~std::uint64_t{0}); }
    CUmemoryPool handle = nullptr;
};

CUmemAccessDesc access_of(int device, CUmemAccess_flags flags) {
    return {{CU_MEM_LOCATION_TYPE_DEVICE, device}, flags};
}

bool is_known(CUdeviceptr address) {
    unsigned type = 0;
    return raw().cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) == CUDA_SUCCESS;
}

// ---- Allocating and freeing

TEST_F(driver_pools_test, memory_is_usable_by_the_work_after_its_allocation) {
    test_stream stream;
    const bytes data = random_bytes(100'000, 1);
    bytes back(data.size());
    CUdeviceptr address = 0;
    ASSERT_OK(raw().cuMemAllocAsync(&address, data.size(), stream));
    EXPECT_EQ(0u, address % 256);
    EXPECT_OK(raw().cuMemcpyHtoDAsync(address, data.data(), data.size(), stream));
    EXPECT_OK(raw().cuMemcpyDtoHAsync(back.data(), address, back.size(), stream));
    EXPECT_OK(raw().cuMemFreeAsync(address, stream));
    ASSERT_OK(raw().cuStreamSynchronize(stream));
    EXPECT_EQ(data, back);
}

TEST_F(driver_pools_test, memory_belongs_to_its_pool_and_to_no_context) {
    test_stream stream;
    test_pool pool;
    const CUdeviceptr address = pool.allocate(1000, stream);
    const CUdeviceptr inside = address + 777;
    CUcontext owner = context;
    CUmemoryPool from = nullptr;
    unsigned type = 0;
    int ordinal = -1;
    int is_legacy = 1;
    CUdeviceptr device_pointer = 0;
    CUdeviceptr start = 0;
    size_t size = 0;
    std::uint64_t handle_types = 77;
    CUpointer_attribute asked[] = {CU_POINTER_ATTRIBUTE_CONTEXT,
                                   CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE,
                                   CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                   CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                   CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
                                   CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
                                   CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                                   CU_POINTER_ATTRIBUTE_RANGE_SIZE,
                                   CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES};
    void *out[] = {&owner, &from, &type, &ordinal, &is_legacy, &device_pointer, &start, &size, &handle_types};
    ASSERT_OK(raw().cuPointerGetAttributes(std::size(asked), asked, out, inside));
    EXPECT_EQ(nullptr, owner);
    EXPECT_EQ(pool.handle, from);
    EXPECT_EQ(static_cast<unsigned>(CU_MEMORYTYPE_DEVICE), type);
    EXPECT_EQ(0, ordinal);
    EXPECT_EQ(0, is_legacy);
    EXPECT_EQ(inside, device_pointer);
    EXPECT_EQ(address, start);
    EXPECT_EQ(1000u, size);
    EXPECT_EQ(0u, handle_types);
    EXPECT_OK(raw().cuMemFreeAsync(address, stream));

    device_memory plain(64);
    ASSERT_OK(raw().cuPointerGetAttribute(&is_legacy, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, plain));
    EXPECT_EQ(1, is_legacy);
}

TEST_F(driver_pools_test, only_a_named_stream_needs_no_current_context) {
    test_stream stream;
    CUdeviceptr address = 0;
    {
        made_current nothing(nullptr);
        EXPECT_RESULT(CUDA_ERROR_INVALID_CONTEXT, raw().cuMemAllocAsync(&address, 64, nullptr));
        ASSERT_OK(raw().cuMemAllocAsync(&address, 64, stream));
        EXPECT_RESULT(CUDA_ERROR_INVALID_CONTEXT, raw().cuMemFreeAsync(address, nullptr));
        EXPECT_OK(raw().cuMemFreeAsync(address, stream));
    }
    EXPECT_OK(raw().cuMemAllocAsync(&address, 0, stream));
}

TEST_F(driver_pools_test, both_frees_take_pool_and_plain_memory_but_only_once) {
    test_stream stream;
    CUdeviceptr pooled = 0;
    CUdeviceptr plain = 0;
    ASSERT_OK(raw().cuMemAllocAsync(&pooled, 64, stream));
    ASSERT_OK(raw().cuMemAlloc(&plain, 64));
    EXPECT_OK(raw().cuMemFree(pooled));
    EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, raw().cuMemFree(pooled));
    EXPECT_OK(raw().cuMemFreeAsync(plain, stream));
    EXPECT_OK(raw().cuStreamSynchronize(stream));

    ASSERT_OK(raw().cuMemAllocAsync(&pooled, 4096, stream));
    EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, raw().cuMemFreeAsync(pooled + 256, stream));
    EXPECT_OK(raw().cuMemFreeAsync(pooled, stream));
    EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, raw().cuMemFreeAsync(pooled, stream));
    EXPECT_OK(raw().cuMemFreeAsync(0, stream));
    int here = 0;
    EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, raw().cuMemFreeAsync(reinterpret_cast<CUdeviceptr>(&here), stream));
}

TEST_F(driver_pools_test, a_free_takes_effect_after_the_work_before_it) {
    test_stream stream;
    pinned_memory host(mib);
    std::memset(host.data(), 0, mib);
    test_pool pool;
    const CUdeviceptr address = pool.allocate(mib, stream);
    gate held(stream);
    EXPECT_OK(raw().cuMemsetD8Async(address, 7, mib, stream));
    EXPECT_OK(raw().cuMemcpyDtoHAsync(host.data(), address, mib, stream));
    EXPECT_OK(raw().cuMemFreeAsync(address, stream));
    EXPECT_EQ(std::byte{0}, host.data()[0]);
    held.open();
    EXPECT_EQ(bytes(mib, std::byte{7}), host.copy());
}

TEST_F(driver_pools_test, memory_freed_on_a_stream_is_reused_on_that_stream) {
    test_stream stream;
    test_pool pool;
    EXPECT_OK(raw().cuMemFreeAsync(pool.allocate(20 * mib, stream), stream));
    gate held(stream);
    for (int i = 0; i < 4; ++i)
        EXPECT_OK(raw().cuMemFreeAsync(pool.allocate(20 * mib, stream), stream));
    EXPECT_EQ(32 * mib, pool.number(CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH));
}

TEST_F(driver_pools_test, memory_is_reused_on_another_stream_that_comes_after_its_free) {
    test_stream freeing;
    test_stream taking;
    test_event freed(CU_EVENT_DISABLE_TIMING);
    for (const bool follows : {true, false}) {
        test_pool pool;
        pool.keep_everything();
        pool.turn(CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, 0);
        pool.turn(CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES, follows);
        gate held(freeing);
        const CUdeviceptr first = pool.allocate(20 * mib, freeing);
        EXPECT_OK(raw().cuMemFreeAsync(first, freeing));
        EXPECT_OK(raw().cuEventRecord(freed, freeing));
        EXPECT_OK(raw().cuStreamWaitEvent(taking, freed, 0));
        const CUdeviceptr second = pool.allocate(20 * mib, taking);
        EXPECT_EQ(follows ? 32 * mib : 64 * mib, pool.number(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT));
        EXPECT_OK(raw().cuMemFreeAsync(second, taking));
        held.open();
        EXPECT_OK(raw().cuStreamSynchronize(taking));
    }
}

TEST_F(driver_pools_test, memory_is_reused_on_any_stream_once_its_free_has_completed) {
    test_stream freeing;
    test_stream taking;
    test_pool pool;
    pool.keep_everything();
    EXPECT_OK(raw().cuMemFreeAsync(pool.allocate(20 * mib, freeing), freeing));
    EXPECT_OK(raw().cuStreamSynchronize(freeing));
    EXPECT_OK(raw().cuMemFreeAsync(pool.allocate(20 * mib, taking), taking));
    EXPECT_EQ(32 * mib, pool.number(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT));
    EXPECT_OK(raw().cuStreamSynchronize(taking));
}

// ---- What a pool holds

TEST_F(driver_pools_test, the_default_pool_reuses_freely_and_keeps_nothing) {
    CUmemoryPool pool = nullptr;
    ASSERT_OK(raw().cuDeviceGetDefaultMemPool(&pool, 0));
    for (const CUmemPool_attribute policy :
         {CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC,
          CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES}) {
        int on = 0;
        EXPECT_OK(raw().cuMemPoolGetAttribute(pool, policy, &on));
        EXPECT_EQ(1, on);
    }
    std::uint64_t threshold = 1;
    EXPECT_OK(raw().cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
    EXPECT_EQ(0u, threshold);
    EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, raw().cuMemPoolDestroy(pool));
}

TEST_F(driver_pools_test, a_pool_counts_reserved_and_used_memory) {
    test_stream stream;
    test_pool pool;
    pool.keep_everything();
    EXPECT_EQ(0u, pool.number(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT));
    const CUdeviceptr first = pool.allocate(mib, stream);
    const CUdeviceptr second = pool.allocate(40 * mib, stream);
    EXPECT_LE(41 * mib, pool.number(CU_MEMPOOL_ATTR_USED_MEM_CURRENT));
    const std::uint64_t reserved = pool.number(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
    EXPECT_EQ(0u, reserved % (32 * mib));
    EXPECT_LE(64 * mib, reserved);
    EXPECT_OK(raw().cuMemFreeAsync(first, stream));
    EXPECT_OK(raw().cuMemFreeAsync(second, stream));
    EXPECT_OK(raw().cuStreamSynchronize(stream));
    EXPECT_EQ(0u, pool.number(CU_MEMPOOL_ATTR_USED_MEM_CURRENT));
    EXPECT_LE(41 * mib, pool.number(CU_MEMPOOL_ATTR_USED_MEM_HIGH));
    EXPECT_EQ(reserved, pool.number(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT));
    EXPECT_EQ(reserved, pool.number(CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH));

    ASSERT_OK(raw().cuMemPoolTrimTo(pool, 0));
    EXPECT_EQ(0u, pool.number(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT));
    std::uint64_t mark = 1;
    EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE,
                  raw().cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, &mark));
    EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, raw().cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &mark));
    pool.set(CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, 0);
    pool.set(CU_MEMPOOL_ATTR_USED_MEM_HIGH, 0);
    EXPECT_EQ(0u, pool.number(CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH));
    EXPECT_EQ(0u, pool.number(CU_MEMPOOL_ATTR_USED_MEM_HIGH));
}

TEST_F(driver_pools_test, memory_freed_without_a_stream_is_released_but_counts_as_used_forever) {
    test_stream stream;
    test_pool pool;
    const CUdeviceptr address = pool.allocate(mib, stream);
    EXPECT_OK(raw().cuStreamSynchronize(stream));
    EXPECT_OK(raw().cuMemFree(address));
    ASSERT_OK(raw().cuMemPoolTrimTo(pool, 0));
    EXPECT_EQ(0u, pool.number(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT));
    EXPECT_EQ(mib, pool.number(CU_MEMPOOL_ATTR_USED_MEM_CURRENT));
    EXPECT_OK(raw().cuMemFreeAsync(pool.allocate(mib, stream), stream));
    EXPECT_OK(raw().cuStreamSynchronize(stream));
    EXPECT_EQ(mib, pool.number(CU_MEMPOOL_ATTR_USED_MEM_CURRENT));
}

TEST_F(driver_pools_test, synchronising_releases_memory_above_the_threshold) {
    test_stream stream;
    test_event event;
    test_pool pool;
    const auto held_after = [&](auto synchronise) {
        EXPECT_OK(raw().cuMemFreeAsync(pool.allocate(40 * mib, stream), stream));
        EXPECT_OK(raw().cuEventRecord(event, stream));
        EXPECT_OK(synchronise());
        return pool.number(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
    };
    EXPECT_EQ(0u, held_after([&] { return raw().cuStreamSynchronize(stream); }));
    EXPECT_EQ(0u, held_after([&] { return raw().cuEventSynchronize(event); }));
    EXPECT_EQ(0u, held_after([&] { return raw().cuCtxSynchronize(); }));
    pool.set(CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, 64 * mib);
    EXPECT_EQ(64 * mib, held_after([&] { return raw().cuStreamSynchronize(stream); }));
}

TEST_F(driver_pools_test, trimming_keeps_memory_in_use) {
    test_stream stream;
    test_pool pool;
    pool.keep_everything();
    const CUdeviceptr kept = pool.allocate(20 * mib, stream);
    const CUdeviceptr gone = pool.allocate(30 * mib, stream);
    EXPECT_EQ(64 * mib, pool.number(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT));
    EXPECT_OK(raw().cuMemFreeAsync(gone, stream));
    EXPECT_OK(raw().cuStreamSynchronize(stream));
    EXPECT_OK(raw().cuMemPoolTrimTo(pool, 64 * mib));
    EXPECT_EQ(64 * mib, pool.number(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT));
    EXPECT_OK(raw().cuMemPoolTrimTo(pool, 0));
    EXPECT_EQ(32 * mib, pool.number(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT));
    EXPECT_OK(raw().cuMemFreeAsync(kept, stream));
    EXPECT_OK(raw().cuStreamSynchronize(stream));
}

TEST_F(driver_pools_test, a_pool_for_other_processes_releases_memory_like_any_other) {
    FERRY_NEEDS_SECOND_PROCESS();
    CUmemPoolProps props = props_of_device(0);
    props.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    test_stream stream;
    test_pool pool(props);
    pool.keep_everything();
    const CUdeviceptr kept = pool.allocate(8 * mib, stream);
    EXPECT_EQ(32 * mib, pool.number(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT));
    const auto allocate_and_free = [&] {
        const CUdeviceptr gone = pool.allocate(64 * mib, stream);
        EXPECT_EQ(96 * mib, pool.number(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT));
        EXPECT_OK(raw().cuMemFreeAsync(gone, stream));
        EXPECT_OK(raw().cuStreamSynchronize(stream));
    };
    allocate_and_free();
    EXPECT_EQ(96 * mib, pool.number(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT));
    EXPECT_OK(raw().cuMemPoolTrimTo(pool, 0));
    EXPECT_EQ(32 * mib, pool.number(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT));
    EXPECT_EQ(8 * mib, pool.number(CU_MEMPOOL_ATTR_USED_MEM_CURRENT));
    EXPECT_EQ(96 * mib, pool.number(CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH));
    if (on_software_driver()) { // not tried on the real driver
        pool.set(CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, 0);
        allocate_and_free();
        EXPECT_EQ(32 * mib, pool.number(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT));
    }
    EXPECT_OK(raw().cuMemFreeAsync(kept, stream));
    EXPECT_OK(raw().cuStreamSynchronize(stream));
}

TEST_F(driver_pools_test, a_pool_grows_to_its_maximum_size_and_no_further) {
    CUmemPoolProps props = props_of_device(0);
    props.maxSize = 64 * mib;
    test_pool pool(props);
    test_stream stream;
    CUdeviceptr address = 0;
    EXPECT_RESULT(CUDA_ERROR_OUT_OF_MEMORY, raw().cuMemAllocFromPoolAsync(&address, 65 * mib, pool, stream));
    const CUdeviceptr first = pool.allocate(60 * mib, stream);
    EXPECT_RESULT(CUDA_ERROR_OUT_OF_MEMORY, raw().cuMemAllocFromPoolAsync(&address, 60 * mib, pool, stream));
    EXPECT_OK(raw().cuMemFreeAsync(first, stream));
    EXPECT_OK(raw().cuMemFreeAsync(pool.allocate(60 * mib, stream), stream));
    EXPECT_OK(raw().cuStreamSynchronize(stream));
}

TEST_F(driver_pools_test, more_memory_than_the_device_has_is_refused) {
    size_t total = 0;
    ASSERT_OK(raw().cuDeviceTotalMem(&total, 0));
    test_stream stream;
    CUdeviceptr address = 0;
    EXPECT_RESULT(CUDA_ERROR_OUT_OF_MEMORY, raw().cuMemAllocAsync(&address, total + 1, stream));
}

// ---- The pools of a device

TEST_F(driver_pools_test, a_streams_device_allocates_from_its_current_pool) {
    test_stream stream;
    CUmemoryPool standard = nullptr;
    CUmemoryPool current = nullptr;
    CUmemoryPool from = nullptr;
    CUdeviceptr address = 0;
    ASSERT_OK(raw().cuDeviceGetDefaultMemPool(&standard, 0));
    {
        test_pool pool;
        ASSERT_OK(raw().cuDeviceSetMemPool(0, pool));
        EXPECT_OK(raw().cuDeviceGetMemPool(&current, 0));
        EXPECT_EQ(pool.handle, current);
        ASSERT_OK(raw().cuMemAllocAsync(&address, 4096, stream));
        EXPECT_OK(raw().cuPointerGetAttribute(&from, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, address));
        EXPECT_EQ(pool.handle, from);
    } // destroyed while memory of the pool is in use
    EXPECT_OK(raw().cuDeviceGetMemPool(&current, 0));
    EXPECT_EQ(standard, current);
    EXPECT_OK(raw().cuMemsetD8Async(address, 1, 4096, stream));
    EXPECT_OK(raw().cuMemFreeAsync(address, stream));
    EXPECT_OK(raw().cuStreamSynchronize(stream));
}

TEST_F(driver_pools_test, a_pool_of_another_device_cannot_become_current) {
    if (device_count() < 2) GTEST_SKIP() << "needs two devices";
    test_pool elsewhere(props_of_device(1));
    EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, raw().cuDeviceSetMemPool(0, elsewhere));
    CUmemoryPool pool = nullptr;
    EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, raw().cuDeviceGetMemPool(&pool, device_count()));
}

TEST_F(driver_pools_test, locations_name_the_pools_of_devices_too) {
    if (!raw().cuMemGetMemPool) GTEST_SKIP() << "this driver has only pools of devices";
    CUmemLocation place{CU_MEM_LOCATION_TYPE_DEVICE, 0};
    CUmemoryPool by_place = nullptr;
    CUmemoryPool by_device = nullptr;
    ASSERT_OK(raw().cuMemGetDefaultMemPool(&by_place, &place, CU_MEM_ALLOCATION_TYPE_PINNED));
    ASSERT_OK(raw().cuDeviceGetDefaultMemPool(&by_device, 0));
    EXPECT_EQ(by_device, by_place);
    test_pool pool;
    ASSERT_OK(raw().cuMemSetMemPool(&place, CU_MEM_ALLOCATION_TYPE_PINNED, pool));
    ASSERT_OK(raw().cuMemGetMemPool(&by_place, &place, CU_MEM_ALLOCATION_TYPE_PINNED));
    EXPECT_EQ(pool.handle, by_place);
    ASSERT_OK(raw().cuDeviceGetMemPool(&by_device, 0));
    EXPECT_EQ(pool.handle, by_device);
    ASSERT_OK(raw().cuMemGetDefaultMemPool(&by_place, &place, CU_MEM_ALLOCATION_TYPE_PINNED));
    EXPECT_OK(raw().cuMemSetMemPool(&place, CU_MEM_ALLOCATION_TYPE_PINNED, by_place));
}

TEST_F(driver_pools_test, impossible_pools_are_refused) {
    CUmemoryPool pool = nullptr;
    CUmemPoolProps props = props_of_device(0);
    props.allocType = CU_MEM_ALLOCATION_TYPE_INVALID;
    EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, raw().cuMemPoolCreate(&pool, &props));
    props = props_of({CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT, 0});
    EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, raw().cuMemPoolCreate(&pool, &props));
    props = props_of({CU_MEM_LOCATION_TYPE_HOST, 0});
    props.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, raw().cuMemPoolCreate(&pool, &props));
    props = props_of({CU_MEM_LOCATION_TYPE_HOST_NUMA, 5}); // no machine that was tried has so many nodes
    EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, raw().cuMemPoolCreate(&pool, &props));
    EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, raw().cuMemPoolCreate(&pool, nullptr));
}

// ---- Pools on the host

TEST_F(driver_pools_test, a_pool_on_a_numa_node_may_be_for_other_processes) {
    FERRY_NEEDS_SECOND_PROCESS();
    int supported = 0;
    ASSERT_OK(raw().cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_HOST_NUMA_MEMORY_POOLS_SUPPORTED, 0));
    if (!supported) GTEST_SKIP() << "no pools on NUMA nodes";
    CUmemPoolProps props = props_of({CU_MEM_LOCATION_TYPE_HOST_NUMA, 0});
    props.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    test_pool pool(props);
}

TEST_F(driver_pools_test, memory_of_host_pools_is_host_memory_that_a_device_reaches_only_with_access) {
    for (const CUmemLocationType type : {CU_MEM_LOCATION_TYPE_HOST, CU_MEM_LOCATION_TYPE_HOST_NUMA}) {
        int supported = 0;
        ASSERT_OK(raw().cuDeviceGetAttribute(&supported,
                                             type == CU_MEM_LOCATION_TYPE_HOST
                                                 ? CU_DEVICE_ATTRIBUTE_HOST_MEMORY_POOLS_SUPPORTED
                                                 : CU_DEVICE_ATTRIBUTE_HOST_NUMA_MEMORY_POOLS_SUPPORTED,
                                             0));
        if (!supported) continue;
        test_stream stream;
        test_pool pool(props_of({type, 0}));
        const CUdeviceptr address = pool.allocate(4096, stream);
        ASSERT_OK(raw().cuStreamSynchronize(stream));
        unsigned kind = 0;
        EXPECT_OK(raw().cuPointerGetAttribute(&kind, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address));
        EXPECT_EQ(static_cast<unsigned>(CU_MEMORYTYPE_HOST), kind);
        int ordinal = -1;
        EXPECT_OK(raw().cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address));
        EXPECT_EQ(0, ordinal) << "the current device, even for host memory";
        CUmemLocation device{CU_MEM_LOCATION_TYPE_DEVICE, 0};
        CUmemAccess_flags flags{};
        EXPECT_OK(raw().cuMemPoolGetAccess(&flags, pool, &device));
        EXPECT_EQ(CU_MEM_ACCESS_FLAGS_PROT_NONE, flags);
        CUdeviceptr alias = address;
        CUpointer_attribute asked[] = {CU_POINTER_ATTRIBUTE_DEVICE_POINTER};
        void *out[] = {&alias};
        EXPECT_OK(raw().cuPointerGetAttributes(1, asked, out, address));
        EXPECT_EQ(0u, alias);
        EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, raw().cuMemsetD8Async(address, 9, 4096, stream));
        device_memory copied(4096);
        std::memset(reinterpret_cast<void *>(address), 1, 4096);
        EXPECT_OK(raw().cuMemcpyHtoDAsync(copied, reinterpret_cast<void *>(address), 4096, stream));
        EXPECT_OK(raw().cuStreamSynchronize(stream));
        EXPECT_EQ(bytes(4096, std::byte{1}), read_back(copied, 4096));

        const CUmemAccessDesc access = access_of(0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
        ASSERT_OK(raw().cuMemPoolSetAccess(pool, &access, 1));
        EXPECT_OK(raw().cuMemPoolGetAccess(&flags, pool, &device));
        EXPECT_EQ(CU_MEM_ACCESS_FLAGS_PROT_READWRITE, flags);
        EXPECT_OK(raw().cuPointerGetAttribute(&alias, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, address));
        EXPECT_EQ(address, alias);
        auto *const data = reinterpret_cast<unsigned char *>(address);
        std::iota(data, data + 4096, static_cast<unsigned char>(0));
        EXPECT_OK(raw().cuMemcpyHtoDAsync(copied, data, 4096, stream));
        EXPECT_OK(raw().cuMemsetD8Async(address, 9, 4096, stream));
        ASSERT_OK(raw().cuStreamSynchronize(stream));
        EXPECT_EQ(9, data[4095]);
        EXPECT_EQ(std::byte{255}, read_back(copied, 256)[255]);
        EXPECT_OK(raw().cuMemFreeAsync(address, stream));
        EXPECT_OK(raw().cuStreamSynchronize(stream));
    }
}

// ---- Access to the memory of a pool

TEST_F(driver_pools_test, the_owner_always_has_access_and_read_only_access_is_refused) {
    test_pool pool;
    const auto set = [&](int device, CUmemAccess_flags flags) {
        const CUmemAccessDesc access = access_of(device, flags);
        return raw().cuMemPoolSetAccess(pool, &access, 1);
    };
    EXPECT_OK(set(0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    EXPECT_RESULT(CUDA_ERROR_INVALID_DEVICE, set(0, CU_MEM_ACCESS_FLAGS_PROT_NONE));
    EXPECT_RESULT(CUDA_ERROR_INVALID_DEVICE, set(device_count(), CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    if (device_count() < 2) GTEST_SKIP() << "needs two devices";
    EXPECT_RESULT(CUDA_ERROR_NOT_SUPPORTED, set(1, CU_MEM_ACCESS_FLAGS_PROT_READ));
}

TEST_F(driver_pools_test, copies_are_checked_against_the_current_context_and_fills_against_their_streams) {
    if (device_count() < 2) GTEST_SKIP() << "needs two devices";
    other_device other;
    test_stream here;
    test_pool pool;
    pinned_memory host(4096);
    const CUdeviceptr address = pool.allocate(4096, here);
    EXPECT_OK(raw().cuMemsetD8Async(address, 1, 4096, here));
    ASSERT_OK(raw().cuStreamSynchronize(here));
    CUmemLocation second{CU_MEM_LOCATION_TYPE_DEVICE, 1};
    CUmemAccess_flags flags{};
    EXPECT_OK(raw().cuMemPoolGetAccess(&flags, pool, &second));
    EXPECT_EQ(CU_MEM_ACCESS_FLAGS_PROT_NONE, flags);
    {
        made_current elsewhere(other);
        test_stream there;
        CUdeviceptr device_pointer = address;
        CUpointer_attribute asked[] = {CU_POINTER_ATTRIBUTE_DEVICE_POINTER};
        void *out[] = {&device_pointer};
        EXPECT_OK(raw().cuPointerGetAttributes(1, asked, out, address));
        EXPECT_EQ(0u, device_pointer);
        EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, raw().cuMemcpyDtoHAsync(host.data(), address, 4096, here));
        EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, raw().cuMemcpyDtoH(host.data(), address, 4096));
        EXPECT_OK(raw().cuMemsetD8Async(address, 2, 4096, here));
        EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, raw().cuMemsetD8Async(address, 2, 4096, there));
        device_memory theirs(4096);
        EXPECT_OK(raw().cuMemcpyPeerAsync(theirs, other, address, context, 4096, here));
        EXPECT_OK(raw().cuStreamSynchronize(here));
        EXPECT_EQ(bytes(4096, std::byte{2}), read_back(theirs, 4096));

        // Peer access between contexts does not apply to pool memory.
        int peer = 0;
        ASSERT_OK(raw().cuDeviceCanAccessPeer(&peer, 1, 0));
        if (!peer) GTEST_SKIP() << "device 1 cannot reach device 0";
        const CUresult enabled = raw().cuCtxEnablePeerAccess(context, 0);
        EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, raw().cuMemcpyDtoH(host.data(), address, 4096));
        if (enabled == CUDA_SUCCESS) {
            EXPECT_OK(raw().cuCtxDisablePeerAccess(context));
        }

        const CUmemAccessDesc access = access_of(1, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
        ASSERT_OK(raw().cuMemPoolSetAccess(pool, &access, 1));
        EXPECT_OK(raw().cuMemsetD8Async(address, 3, 4096, there));
        EXPECT_OK(raw().cuStreamSynchronize(there));
        EXPECT_OK(raw().cuMemcpyDtoHAsync(host.data(), address, 4096, here));
        EXPECT_OK(raw().cuStreamSynchronize(here));
        EXPECT_EQ(bytes(4096, std::byte{3}), host.copy());
    }
    EXPECT_OK(raw().cuMemFree(address));
}

TEST_F(driver_pools_test, copies_on_a_stream_of_another_device_are_checked_against_the_current_context) {
    if (device_count() < 2) GTEST_SKIP() << "needs two devices";
    other_device other;
    test_stream here;
    std::optional<test_stream> there;
    {
        const made_current elsewhere(other);
        there.emplace();
    }
    test_pool pool;
    device_memory plain(4096);
    const CUdeviceptr pooled = pool.allocate(4096, here);
    ASSERT_OK(raw().cuStreamSynchronize(here));
    pinned_memory host(4096);
    for (const CUdeviceptr address : {CUdeviceptr{plain}, pooled}) {
        SCOPED_TRACE(address == pooled ? "pool memory" : "plain memory");
        std::memset(host.data(), 7, 4096);
        EXPECT_OK(raw().cuMemcpyHtoDAsync(address, host.data(), 2048, *there));
        EXPECT_OK(raw().cuMemcpyDtoDAsync(address + 2048, address, 2048, *there));
        EXPECT_OK(raw().cuStreamSynchronize(*there));
        std::memset(host.data(), 1, 4096);
        EXPECT_OK(raw().cuMemcpyDtoHAsync(host.data(), address, 4096, *there));
        EXPECT_OK(raw().cuStreamSynchronize(*there));
        EXPECT_EQ(bytes(4096, std::byte{7}), host.copy());
    }
    EXPECT_OK(raw().cuMemFree(pooled));
}

TEST_F(driver_pools_test, memory_is_on_the_device_of_its_pool_whatever_stream_allocates_it) {
    if (device_count() < 2) GTEST_SKIP() << "needs two devices";
    test_stream here;
    test_pool elsewhere(props_of_device(1));
    const CUdeviceptr address = elsewhere.allocate(4096, here);
    int ordinal = -1;
    EXPECT_OK(raw().cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address));
    EXPECT_EQ(1, ordinal);
    EXPECT_OK(raw().cuMemFreeAsync(address, here));
    EXPECT_OK(raw().cuStreamSynchronize(here));
}

// ---- Graphs

struct captured_graph {
    explicit captured_graph(CUgraph of) : graph(of) { EXPECT_OK(raw().cuGraphInstantiateWithFlags(&runs, of, 0)); }
    ~captured_graph() {
        EXPECT_OK(raw().cuGraphExecDestroy(runs));
        EXPECT_OK(raw().cuGraphDestroy(graph));
    }
    captured_graph(const captured_graph &) = delete;
    CUgraph graph;
    CUgraphExec runs = nullptr;
};

TEST_F(driver_pools_test, a_graph_that_frees_its_allocation_can_be_launched_repeatedly) {
    test_stream stream;
    pinned_memory host(4096);
    CUgraph graph = nullptr;
    CUdeviceptr address = 0;
    ASSERT_OK(raw().cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    EXPECT_OK(raw().cuMemAllocAsync(&address, 4096, stream));
    EXPECT_NE(0u, address);
    EXPECT_FALSE(is_known(address)) << "unknown before the launch";
    EXPECT_OK(raw().cuMemsetD8Async(address, 5, 4096, stream));
    EXPECT_OK(raw().cuMemcpyDtoHAsync(host.data(), address, 4096, stream));
    EXPECT_OK(raw().cuMemFreeAsync(address, stream));
    ASSERT_OK(raw().cuStreamEndCapture(stream, &graph));
    captured_graph captured(graph);
    for (int i = 0; i < 3; ++i) {
        std::memset(host.data(), 0, 4096);
        ASSERT_OK(raw().cuGraphLaunch(captured.runs, stream));
        ASSERT_OK(raw().cuStreamSynchronize(stream));
        EXPECT_EQ(bytes(4096, std::byte{5}), host.copy());
    }
}

TEST_F(driver_pools_test, a_graph_that_keeps_its_allocation_runs_again_only_after_a_free) {
    test_stream stream;
    CUgraph graph = nullptr;
    CUdeviceptr address = 0;
    ASSERT_OK(raw().cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    EXPECT_OK(raw().cuMemAllocAsync(&address, 4096, stream));
    EXPECT_OK(raw().cuMemsetD8Async(address, 6, 4096, stream));
    ASSERT_OK(raw().cuStreamEndCapture(stream, &graph));
    captured_graph captured(graph);
    ASSERT_OK(raw().cuGraphLaunch(captured.runs, stream));
    EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, raw().cuGraphLaunch(captured.runs, stream));
    ASSERT_OK(raw().cuStreamSynchronize(stream));
    EXPECT_EQ(bytes(4096, std::byte{6}), read_back(address, 4096));
    EXPECT_OK(raw().cuMemFreeAsync(address, stream));
    ASSERT_OK(raw().cuGraphLaunch(captured.runs, stream));
    EXPECT_OK(raw().cuMemFreeAsync(address, stream));
    ASSERT_OK(raw().cuStreamSynchronize(stream));
}

TEST_F(driver_pools_test, pool_calls_break_a_capture_on_their_thread) {
    test_pool pool;
    test_stream stream;
    test_stream beside;
    CUdeviceptr address = 0;
    std::uint64_t number = 0;
    CUmemoryPool made = nullptr;
    const CUmemPoolProps props = props_of_device(0);
    const auto breaks_capture = [&](auto call) {
        CUgraph graph = nullptr;
        EXPECT_OK(raw().cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
        EXPECT_RESULT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, call());
        EXPECT_RESULT(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, raw().cuStreamEndCapture(stream, &graph));
    };
    breaks_capture([&] { return raw().cuMemPoolCreate(&made, &props); });
    breaks_capture([&] { return raw().cuMemPoolDestroy(pool); });
    breaks_capture([&] { return raw().cuMemPoolTrimTo(pool, 0); });
    breaks_capture([&] { return raw().cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &number); });
    breaks_capture([&] { return raw().cuMemAllocAsync(&address, 4096, beside); });

    CUgraph graph = nullptr;
    ASSERT_OK(raw().cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    EXPECT_OK(raw().cuDeviceGetDefaultMemPool(&made, 0));
    EXPECT_OK(raw().cuDeviceGetMemPool(&made, 0));
    ASSERT_OK(raw().cuStreamEndCapture(stream, &graph));
    EXPECT_OK(raw().cuGraphDestroy(graph));
}

TEST_F(driver_pools_test, a_capture_cannot_free_memory_allocated_outside_it) {
    test_stream stream;
    CUgraph graph = nullptr;
    CUdeviceptr address = 0;
    ASSERT_OK(raw().cuMemAllocAsync(&address, 4096, stream));
    ASSERT_OK(raw().cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, raw().cuMemFreeAsync(address, stream));
    raw().cuStreamEndCapture(stream, &graph);
    if (graph) raw().cuGraphDestroy(graph);
    EXPECT_TRUE(is_known(address));
    EXPECT_OK(raw().cuMemFreeAsync(address, stream));
    EXPECT_OK(raw().cuStreamSynchronize(stream));
}

// The current device has access to the pool. Without access the memory counts as pageable.
TEST_F(driver_pools_test, host_pool_memory_is_copied_like_device_memory_where_the_device_has_access) {
    int supported = 0;
    if (raw().cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_HOST_MEMORY_POOLS_SUPPORTED, 0) || !supported)
        GTEST_SKIP() << "the driver has no host memory pools";
    constexpr size_t size = 60'000; // an asynchronous call reads a pageable source of this size before it returns
    const test_stream stream;
    test_pool reached(props_of({CU_MEM_LOCATION_TYPE_HOST, 0})), closed(props_of({CU_MEM_LOCATION_TYPE_HOST, 0}));
    const CUmemAccessDesc access = access_of(0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    ASSERT_OK(raw().cuMemPoolSetAccess(reached, &access, 1));
    const CUdeviceptr there = reached.allocate(size, stream), too = reached.allocate(size, stream),
                      unreached = closed.allocate(size, stream);
    ASSERT_OK(raw().cuStreamSynchronize(stream));
    pinned_memory pinned(size);
    bytes pageable(size);
    const auto of = [](const void *memory) { return CUdeviceptr{reinterpret_cast<std::uintptr_t>(memory)}; };
    struct row {
        const char *name;
        CUdeviceptr to, from;
        bool reads_early;
    };
    const row rows[] = {{"pinned to pool", there, of(pinned.data()), false},
                        {"pool to pinned", of(pinned.data()), there, false},
                        {"pool to pool", too, there, false},
                        {"pageable to pool", there, of(pageable.data()), true},
                        {"unreached to pool", there, unreached, true}};
    for (const row &one : rows) {
        SCOPED_TRACE(one.name);
        std::memset(reinterpret_cast<void *>(one.from), 1, size);
        std::memset(reinterpret_cast<void *>(one.to), 9, size);
        {
            const gate held(stream);
            ASSERT_OK(raw().cuMemcpyAsync(one.to, one.from, size, stream));
            EXPECT_EQ(9, *reinterpret_cast<const unsigned char *>(one.to))
                << "the call returns before the copy is made";
            std::memset(reinterpret_cast<void *>(one.from), 2, size);
        }
        ASSERT_OK(raw().cuStreamSynchronize(stream));
        EXPECT_EQ(one.reads_early ? 1 : 2, *reinterpret_cast<const unsigned char *>(one.to));
    }
    for (const CUdeviceptr address : {there, too, unreached})
        EXPECT_OK(raw().cuMemFreeAsync(address, stream));
    EXPECT_OK(raw().cuStreamSynchronize(stream));
}

} // namespace
} // namespace ferry::test
