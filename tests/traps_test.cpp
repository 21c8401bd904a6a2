// One test for each driver trap that others have fallen into. The numbers are the same as in docs/driver.md.
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "device/kernels.h"
#include "exec/kernel_launch.h"
#include "memory/address.h"
#include "support/alias_driver.h"
#include "support/emulator.h"
#include "support/fault_driver.h"
#include "support/gate.h"
#include "support/gpu_profile.h"
#include "support/how.h"
#include "support/piece_lists.h"
#include "support/second_process.h"
#include "support/system.h"
#include "support/test_place.h"

namespace ferry::test {
namespace {

class trap : public ferry_test {};

// Records the calls that the driver gets.
class recording : public ferry_test {
protected:
    void SetUp() override {
        ferry_test::SetUp();
        driver = std::make_unique<fault_driver>(raw_entry_points());
        ferry_options options = driver->options();
        // Sits between ferry and the wrapped driver and keeps the arguments of cuMemcpy3DAsync.
        options.get_proc_user = this;
        inner = driver->options().get_proc;
        options.get_proc = [](void *self, const char *name, int version) -> void * {
            auto *const test = static_cast<recording *>(self);
            void *const entry = test->inner(nullptr, name, version);
            if (std::string(name) != "cuMemcpy3DAsync") return entry;
            next = reinterpret_cast<PFN_cuMemcpy3DAsync_v3020>(entry);
            return reinterpret_cast<void *>(&record);
        };
        recorded = open_or_fail(options);
    }
    void TearDown() override {
        recorded.reset();
        driver.reset();
        ferry_test::TearDown();
    }
    static CUresult CUDAAPI record(const CUDA_MEMCPY3D *call, CUstream stream) {
        last = *call;
        return next(call, stream);
    }
    static inline CUDA_MEMCPY3D last = {};
    static inline PFN_cuMemcpy3DAsync_v3020 next = nullptr;
    void *(*inner)(void *, const char *, int) = nullptr;
    std::unique_ptr<fault_driver> driver;
    instance_owner recorded;
};

// 1: drivers have computed srcY and srcZ wrongly on stream-ordered memory, so linear ends never pass an origin.
TEST_F(recording, trap_1_origins_of_linear_memory_are_folded_into_the_address) {
    const grid shape = {.width = 64, .height = 16, .depth = 8, .row_pitch = 80, .slice_height = 20};
    test_place source(place_kind::device, shape), destination(place_kind::device, shape);
    source.fill(1);
    destination.fill(2);
    const box from = {.x = 3, .y = 2, .z = 4}, to = {.x = 5, .y = 6, .z = 1};
    const ferry_copy_desc copy =
        describe_copy(source.describe(statement::stated, from), destination.describe(statement::stated, to), 32, 7, 3);
    ASSERT_OK(ferry_copy_async(recorded.get(), &copy, nullptr, nullptr, nullptr, nullptr));
    ASSERT_OK(raw().cuCtxSynchronize());
    EXPECT_EQ(last.srcXInBytes | last.srcY | last.srcZ | last.dstXInBytes | last.dstY | last.dstZ, 0u);
    EXPECT_EQ(last.srcDevice, source.address() + (4 * 20 + 2) * 80 + 3);
    EXPECT_EQ(last.dstDevice, destination.address() + (1 * 20 + 6) * 80 + 5);
    reference_copy(source, from, destination, to, 32, 7, 3);
    EXPECT_EQ(destination.read(), destination.picture());
}

// 2: the driver checks pointers against the current context, not against the stream's (NVIDIA/cccl pull request 9997).
TEST_F(trap, trap_2_the_streams_context_is_made_current_for_the_call_and_the_callers_put_back) {
    if (device_count() < 2) GTEST_SKIP() << "needs two devices";
    CUcontext other = nullptr;
    ASSERT_OK(raw().cuDevicePrimaryCtxRetain(&other, 1));
    CUstream stream = nullptr;
    ASSERT_OK(raw().cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    test_place source(place_kind::device, {.width = 64, .height = 4}),
        destination(place_kind::array_2d, {.width = 64, .height = 4});
    source.fill(1);
    ASSERT_OK(raw().cuCtxSetCurrent(other));
    const ferry_copy_desc copy =
        describe_copy(source.describe(statement::stated), destination.describe(statement::stated), 64, 4);
    EXPECT_OK(ferry_copy_async(basic.get(), &copy, nullptr, stream, nullptr, nullptr));
    CUcontext current = nullptr;
    EXPECT_OK(raw().cuCtxGetCurrent(&current));
    EXPECT_EQ(current, other);
    ASSERT_OK(raw().cuCtxSetCurrent(context));
    ASSERT_OK(raw().cuStreamSynchronize(stream));
    EXPECT_EQ(destination.read(), source.picture());
    EXPECT_OK(raw().cuStreamDestroy(stream));
    EXPECT_OK(raw().cuDevicePrimaryCtxRelease(1));
}

// 3: CUDA_MEMCPY3D has no contexts and CUDA_MEMCPY3D_PEER has. Each copy uses the call that can express it.
TEST_F(trap, trap_3_the_call_that_names_contexts_is_used_exactly_when_an_end_is_on_another_device) {
    fault_driver driver(raw_entry_points());
    const instance_owner counted = open_or_fail(driver.options());
    test_place first(place_kind::device, {.width = 64}), second(place_kind::device, {.width = 64});
    first.fill(1);
    driver.reset_counts();
    ASSERT_OK(ferry_copy_bytes(counted.get(), second.address(), first.address(), 64, nullptr, nullptr));
    ASSERT_OK(ferry_copy_bytes_async(counted.get(), second.address(), first.address(), 64, nullptr, nullptr, nullptr,
                                     nullptr));
    EXPECT_EQ(driver.calls("cuMemcpy3D"), 1);
    EXPECT_EQ(driver.calls("cuMemcpy3DAsync"), 1);
    EXPECT_EQ(driver.calls_beginning("cuMemcpy3DPeer"), 0);
    if (device_count() < 2) return;
    test_place far(place_kind::device, {.width = 64}, 1);
    driver.reset_counts();
    ASSERT_OK(ferry_copy_bytes(counted.get(), far.address(), first.address(), 64, nullptr, nullptr));
    ASSERT_OK(
        ferry_copy_bytes_async(counted.get(), far.address(), first.address(), 64, nullptr, nullptr, nullptr, nullptr));
    EXPECT_EQ(driver.calls("cuMemcpy3DPeer"), 1);
    EXPECT_EQ(driver.calls("cuMemcpy3DPeerAsync"), 1);
    ASSERT_OK(raw().cuCtxSynchronize());
    EXPECT_EQ(far.read(), first.picture());
}

// 4: the batch calls have one argument more in 12.8 than in 13.0. If a program requests the 13.0 entry point, a
// driver of 12.8 may return its own, so ferry calls the signature of the driver's own version. The batch calls refuse the legacy
// stream and sizes of 0.
class driver_of_12_8 : public ferry_test {
protected:
    void SetUp() override {
        ferry_test::SetUp();
        if (!raw().cuMemcpyBatchAsync_v12080) GTEST_SKIP() << "the driver has no batch calls";
        ferry_options options = driver.options();
        inner = options.get_proc;
        options.get_proc = [](void *, const char *name, int version) -> void * {
            const std::string entry = name;
            if (entry == "cuDriverGetVersion") return reinterpret_cast<void *>(&tell_version);
            if (entry == "cuLaunchKernel") return nullptr; // otherwise batches would take a kernel
            const bool has_changed = entry == "cuMemcpyBatchAsync" || entry == "cuMemcpy3DBatchAsync";
            return inner(nullptr, name, has_changed ? 12080 : version);
        };
        old = open_or_fail(options);
    }
    static CUresult CUDAAPI tell_version(int *version) { return *version = 12080, CUDA_SUCCESS; }
    static inline void *(*inner)(void *, const char *, int) = nullptr;
    fault_driver driver{raw_entry_points()};
    instance_owner old;
};

TEST_F(driver_of_12_8, trap_4_batches_use_the_drivers_own_signature_and_pass_nothing_that_it_refuses) {
    constexpr std::uint64_t count = 100, apart = 64;
    test_place source(place_kind::pinned, {.width = count * apart}),
        destination(place_kind::device, {.width = count * apart});
    source.fill(1);
    destination.fill(2);
    std::vector<std::uint64_t> to, from, sizes;
    for (std::uint64_t i = 0; i < count; ++i) {
        to.push_back(i % 10 == 3 ? 0 : destination.address() + i * apart);
        from.push_back(source.address() + i * apart);
        sizes.push_back(i % 10 == 3 ? 0 : apart / 2);
        if (sizes[i]) reference_copy(source, {.x = i * apart}, destination, {.x = i * apart}, sizes[i], 1, 1);
    }
    CUstream stream = nullptr;
    ASSERT_OK(raw().cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (CUstream const on : {stream, CUstream{}, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD}) {
        driver.reset_counts();
        ASSERT_OK(ferry_copy_pieces_async(old.get(), in_arrays(to.data(), from.data(), sizes.data(), count), nullptr,
                                          on, nullptr, nullptr));
        const bool is_legacy = on == CUstream{} || on == CU_STREAM_LEGACY;
        EXPECT_EQ(driver.calls("cuMemcpyBatchAsync"), is_legacy ? 0 : 1);
        ASSERT_OK(raw().cuStreamSynchronize(on));
        EXPECT_EQ(destination.read(), destination.picture());
    }
    // Copies of a batch call have vanished during a capture (rapidsai/rmm issue 2518).
    driver.reset_counts();
    ASSERT_OK(raw().cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    ASSERT_OK(ferry_copy_pieces_async(old.get(), in_arrays(to.data(), from.data(), sizes.data(), count), nullptr,
                                      stream, nullptr, nullptr));
    EXPECT_EQ(driver.calls("cuMemcpyBatchAsync"), 0);
    CUgraph graph = nullptr;
    ASSERT_OK(raw().cuStreamEndCapture(stream, &graph));
    EXPECT_OK(raw().cuGraphDestroy(graph));
    EXPECT_OK(raw().cuStreamDestroy(stream));
}

// 5: with the access order ANY a source may be read before earlier work on the stream has written it.
TEST_F(driver_of_12_8, trap_5_sources_of_a_batch_are_read_in_the_order_of_the_stream) {
    constexpr std::uint64_t count = 64, apart = 64;
    test_place first(place_kind::device, {.width = count * apart}), host(place_kind::pinned, {.width = count * apart}),
        last(place_kind::device, {.width = count * apart});
    first.fill(1);
    host.fill(2);
    last.fill(3);
    std::vector<std::uint64_t> to, from;
    const std::vector<std::uint64_t> sizes(count, apart / 2);
    for (std::uint64_t i = 0; i < count; ++i) {
        to.push_back(last.address() + i * apart);
        from.push_back(host.address() + i * apart);
    }
    CUstream stream = nullptr;
    ASSERT_OK(raw().cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    driver.reset_counts();
    {
        gate held(stream);
        ASSERT_OK(
            raw().cuMemcpyDtoHAsync(reinterpret_cast<void *>(host.address()), first.address(), count * apart, stream));
        ASSERT_OK(ferry_copy_pieces_async(old.get(), in_arrays(to.data(), from.data(), sizes.data(), count), nullptr,
                                          stream, nullptr, nullptr));
    }
    EXPECT_EQ(driver.calls("cuMemcpyBatchAsync"), 1);
    ASSERT_OK(raw().cuStreamSynchronize(stream));
    for (std::uint64_t i = 0; i < count; ++i)
        reference_copy(first, {.x = i * apart}, last, {.x = i * apart}, apart / 2, 1, 1);
    EXPECT_EQ(last.read(), last.picture());
    EXPECT_OK(raw().cuStreamDestroy(stream));
}

// 6: the driver refuses a copy that leaves the registration it begins in.
TEST_F(trap, trap_6_a_copy_across_the_end_of_a_registration_runs_in_parts) {
    constexpr std::uint64_t page = 4096;
    auto *const pages = static_cast<std::byte *>(allocate_aligned(4 * page, page));
    const auto address = reinterpret_cast<std::uint64_t>(pages);
    const bytes told = random_bytes(4 * page, 6);
    std::memcpy(pages, told.data(), told.size());
    test_place device(place_kind::device, {.width = page});
    for (ferry_instance *const instance : {basic.get(), full.get()}) {
        const auto expect_copied = [&](std::uint64_t offset) {
            device.fill(offset);
            EXPECT_OK(ferry_copy_bytes(instance, device.address(), address + offset, page, nullptr, nullptr));
            EXPECT_EQ(std::memcmp(device.read().data(), told.data() + offset, page), 0);
        };
        ASSERT_OK(ferry_host_register(instance, pages, page, 0, nullptr));
        ASSERT_OK(ferry_host_register(instance, pages + page, page, 0, nullptr));
        expect_copied(page / 2);     // from one registration into the next
        expect_copied(3 * page / 2); // from a registration into pageable memory
        ASSERT_OK(ferry_host_unregister(instance, pages, nullptr));
        expect_copied(page / 2); // from pageable memory into a registration
        ASSERT_OK(ferry_host_unregister(instance, pages + page, nullptr));
    }
    free_aligned(pages);
}

// 7: srcHeight and dstHeight are the heights of the allocations, not of the copy.
TEST_F(recording, trap_7_slice_heights_reach_the_driver_as_the_allocations) {
    const grid shape = {.width = 64, .height = 16, .depth = 4, .row_pitch = 64, .slice_height = 19};
    test_place source(place_kind::pinned, shape), destination(place_kind::device, shape);
    source.fill(1);
    destination.fill(2);
    const ferry_copy_desc copy =
        describe_copy(source.describe(statement::stated), destination.describe(statement::stated), 60, 5, 4);
    ASSERT_OK(ferry_copy_async(recorded.get(), &copy, nullptr, nullptr, nullptr, nullptr));
    ASSERT_OK(raw().cuCtxSynchronize());
    EXPECT_EQ(last.srcHeight, 19u);
    EXPECT_EQ(last.dstHeight, 19u);
    EXPECT_EQ(last.Height, 5u);
    reference_copy(source, {}, destination, {}, 60, 5, 4);
    EXPECT_EQ(destination.read(), destination.picture());
}

// 9: after access to a pool was set, copies into it have silently written nothing (JuliaGPU/CUDA.jl issue 3112). A copy
// that does nothing and succeeds imitates such a machine. tests/peer_test.cpp checks that peers are probed.
class pool_trap : public ferry_test {
protected:
    void SetUp() override {
        ferry_test::SetUp();
        if (!is_supported(place_kind::pool)) GTEST_SKIP() << "this driver has no stream-ordered memory";
        driver = std::make_unique<fault_driver>(raw_entry_points());
        faulty = open_or_fail(driver->options());
        ferry_pool_desc desc = {};
        desc.struct_size = sizeof desc;
        ASSERT_OK(ferry_pool_create(faulty.get(), &desc, &pool, nullptr));
    }
    void TearDown() override {
        if (pool) {
            EXPECT_OK(ferry_pool_destroy(faulty.get(), pool, nullptr));
        }
        faulty.reset();
        driver.reset();
        ferry_test::TearDown();
    }
    std::int32_t give_access() {
        return ferry_pool_set_access(faulty.get(), pool, 1, FERRY_ACCESS_READ_WRITE, nullptr);
    }
    std::int32_t access() {
        std::int32_t access = -1;
        EXPECT_OK(ferry_pool_get_access(basic.get(), pool, 1, &access, nullptr));
        return access;
    }
    static bool has_peers() {
        int can = 0;
        return device_count() > 1 && raw().cuDeviceCanAccessPeer(&can, 1, 0) == CUDA_SUCCESS && can;
    }
    std::unique_ptr<fault_driver> driver;
    instance_owner faulty;
    CUmemoryPool pool = nullptr;
};

TEST_F(pool_trap, trap_9_access_to_a_pool_that_loses_bytes_is_revoked) {
    if (!has_peers()) GTEST_SKIP() << "needs two devices with peer access";
    for (const int lost_copy : {2, 3, 7, 8}) { // into the pool and out of it, in both directions
        SCOPED_TRACE(lost_copy);
        driver->fail("cuMemcpy3DAsync", CUDA_SUCCESS, lost_copy);
        EXPECT_EQ(give_access(), FERRY_ERROR_DATA_LOST);
        EXPECT_EQ(access(), FERRY_ACCESS_NONE);
    }
    driver->fail("cuMemcpy3DAsync", CUDA_SUCCESS, 1, true);
    EXPECT_EQ(give_access(), FERRY_ERROR_DATA_LOST) << "no copy works";
    EXPECT_EQ(access(), FERRY_ACCESS_NONE);
    driver->heal();
    EXPECT_OK(give_access());
    EXPECT_EQ(access(), FERRY_ACCESS_READ_WRITE);
}

// 10: it is an error to revoke the access of a pool's owner. Pool memory belongs to no context. After the free its
// attributes mean nothing.
TEST_F(pool_trap, trap_10_owners_keep_access_and_ferry_relies_on_no_context_or_attribute) {
    driver->reset_counts();
    EXPECT_EQ(ferry_pool_set_access(faulty.get(), pool, 0, FERRY_ACCESS_NONE, nullptr), FERRY_ERROR_DEVICE);
    EXPECT_EQ(driver->calls("cuMemPoolSetAccess"), 0);
    CUstream stream = nullptr;
    ASSERT_OK(raw().cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    std::uint64_t address = 0;
    ASSERT_OK(ferry_pool_alloc_async(basic.get(), pool, 4096, stream, &address, nullptr));
    CUcontext owner = context;
    CUpointer_attribute asked[] = {CU_POINTER_ATTRIBUTE_CONTEXT};
    void *answers[] = {&owner};
    EXPECT_OK(raw().cuPointerGetAttributes(1, asked, answers, address));
    EXPECT_EQ(owner, nullptr);
    test_place host(place_kind::pinned, {.width = 4096});
    ASSERT_OK(raw().cuCtxSetCurrent(nullptr)); // the driver's own copy has killed the process here
    EXPECT_OK(ferry_copy_bytes_async(full.get(), address, host.address(), 4096, nullptr, stream, nullptr, nullptr));
    EXPECT_OK(ferry_device_free_async(full.get(), address, stream, nullptr));
    ferry_error_info error = new_error();
    const std::int32_t status = ferry_copy_bytes(full.get(), host.address(), address, 64, nullptr, &error);
    expect_refusal(status, error, FERRY_ERROR_ADDRESS, FERRY_SIDE_SOURCE, FERRY_FIELD_ADDRESS);
    EXPECT_EQ(ferry_device_free_async(full.get(), address, stream, nullptr), FERRY_ERROR_ADDRESS);
    ASSERT_OK(raw().cuCtxSetCurrent(context));
    EXPECT_OK(raw().cuStreamSynchronize(stream));
    EXPECT_OK(raw().cuStreamDestroy(stream));
}

// 11: legacy handles name the allocation and lose the offset. Each opening counts. They do not open in the process that
// made them.
FERRY_SECOND_PROCESS(imports_an_interior_address_twice) {
    const instance_owner ferry = open_or_fail(options_under_test());
    const auto handle = channel.receive<ferry_ipc_handle>();
    std::uint64_t first = 0, second = 0;
    EXPECT_OK(ferry_ipc_import_memory(ferry.get(), &handle, &first, nullptr));
    EXPECT_OK(ferry_ipc_import_memory(ferry.get(), &handle, &second, nullptr));
    EXPECT_EQ(first, second);
    EXPECT_OK(ferry_ipc_close_memory(ferry.get(), first, nullptr, nullptr));
    bytes got(4096);
    EXPECT_OK(raw().cuMemcpyDtoH(got.data(), second, got.size()));
    EXPECT_EQ(got, random_bytes(4096, 11));
    EXPECT_OK(ferry_ipc_close_memory(ferry.get(), second, nullptr, nullptr));
    EXPECT_EQ(ferry_ipc_close_memory(ferry.get(), second, nullptr, nullptr), FERRY_ERROR_ADDRESS);
    return 0;
}

TEST_F(trap, trap_11_the_offset_survives_imports_are_counted_and_own_handles_open) {
    FERRY_NEEDS_SECOND_PROCESS();
    test_place memory(place_kind::device, {.width = 64 << 10});
    const std::uint64_t interior = memory.address() + 12'345;
    ASSERT_OK(raw().cuMemcpyHtoD(interior, random_bytes(4096, 11).data(), 4096));
    ferry_ipc_handle handle = {};
    ASSERT_OK(ferry_ipc_export_memory(basic.get(), interior, 4096, &handle, nullptr));
    second_process other("imports_an_interior_address_twice");
    other->send(handle);
    EXPECT_EQ(other.wait(), 0);
    std::uint64_t own = 0;
    EXPECT_OK(ferry_ipc_import_memory(basic.get(), &handle, &own, nullptr));
    EXPECT_EQ(own, interior);
    EXPECT_OK(ferry_ipc_close_memory(basic.get(), own, nullptr, nullptr));
}

// 12: imported pools neither allocate nor trim, and the importer must free before the exporter.
FERRY_SECOND_PROCESS(imports_a_pool_and_closes_first) {
    const instance_owner ferry = open_or_fail(options_under_test());
    const auto of_pool = channel.receive<ferry_ipc_handle>(), of_memory = channel.receive<ferry_ipc_handle>();
    const int descriptor = channel.receive_descriptor();
    CUmemPoolHandle_st *pool = nullptr;
    std::uint64_t address = 0, more = 7;
    EXPECT_OK(ferry_ipc_import_pool(ferry.get(), &of_pool, descriptor, &pool, nullptr));
    EXPECT_EQ(close(descriptor), 0);
    EXPECT_OK(ferry_ipc_import_memory(ferry.get(), &of_memory, &address, nullptr));
    EXPECT_EQ(ferry_pool_alloc_async(ferry.get(), pool, 4096, nullptr, &more, nullptr), FERRY_ERROR_IMPORTED);
    EXPECT_EQ(more, 0u);
    EXPECT_EQ(ferry_pool_trim(ferry.get(), pool, 0, nullptr), FERRY_ERROR_IMPORTED);
    EXPECT_EQ(ferry_device_free(ferry.get(), address, nullptr), FERRY_ERROR_IMPORTED);
    EXPECT_EQ(ferry_device_free_async(ferry.get(), address, nullptr, nullptr), FERRY_ERROR_IMPORTED);
    EXPECT_EQ(ferry_ipc_close_pool(ferry.get(), pool, nullptr), FERRY_ERROR_IN_USE);
    EXPECT_OK(ferry_ipc_close_memory(ferry.get(), address, nullptr, nullptr));
    EXPECT_OK(raw().cuCtxSynchronize());
    EXPECT_OK(ferry_ipc_close_pool(ferry.get(), pool, nullptr));
    return 0;
}

TEST_F(trap, trap_12_operations_that_an_imported_pool_lacks_are_refused_by_name) {
    ferry_pool_desc desc = {};
    desc.struct_size = sizeof desc;
    desc.handle_types = FERRY_HANDLE_POSIX_FD;
    CUmemPoolHandle_st *pool = nullptr;
    const std::int32_t status = ferry_pool_create(basic.get(), &desc, &pool, nullptr);
    if (status == FERRY_ERROR_UNSUPPORTED) GTEST_SKIP() << "the driver cannot share pools";
    ASSERT_OK(status);
    std::uint64_t address = 0;
    std::int64_t descriptor = -1;
    ferry_ipc_handle of_pool = {}, of_memory = {};
    ASSERT_OK(ferry_pool_alloc_async(basic.get(), pool, 4096, nullptr, &address, nullptr));
    ASSERT_OK(ferry_ipc_export_pool(basic.get(), pool, FERRY_HANDLE_POSIX_FD, &of_pool, &descriptor, nullptr));
    ASSERT_OK(ferry_ipc_export_memory(basic.get(), address, 0, &of_memory, nullptr));
    second_process other("imports_a_pool_and_closes_first");
    other->send(of_pool);
    other->send(of_memory);
    other->send_descriptor(static_cast<int>(descriptor));
    EXPECT_EQ(other.wait(), 0);
    close_descriptor(static_cast<int>(descriptor));
    EXPECT_OK(ferry_device_free_async(basic.get(), address, nullptr, nullptr));
    EXPECT_OK(ferry_pool_destroy(basic.get(), pool, nullptr));
}

// 13: one register call of 512 GiB or more fails on recent drivers. Here the limit is 64 KiB. A large registration is
// made in pieces, and a large block by the driver's own allocation: both degrade and never fail.
class with_a_register_limit : public ferry_test {
protected:
    static constexpr std::uint64_t limit = 64 << 10;
    void SetUp() override {
        ferry_test::SetUp();
        ferry_options options = driver.options();
        inner = options.get_proc;
        largest = 0;
        options.get_proc_user = this;
        options.get_proc = [](void *self, const char *name, int version) -> void * {
            void *const entry = static_cast<with_a_register_limit *>(self)->inner(nullptr, name, version);
            if (std::string(name) != "cuMemHostRegister") return entry;
            next = reinterpret_cast<PFN_cuMemHostRegister_v6050>(entry);
            return reinterpret_cast<void *>(&refuse_large);
        };
        unlimited = open_or_fail(options);
        options.register_chunk = limit - 4096;
        limited = open_or_fail(options);
    }
    void TearDown() override {
        unlimited.reset();
        limited.reset();
        ferry_test::TearDown();
    }
    static CUresult CUDAAPI refuse_large(void *address, size_t size, unsigned flags) {
        largest = std::max<std::uint64_t>(largest, size);
        return size < limit ? next(address, size, flags) : CUDA_ERROR_INVALID_VALUE;
    }
    static inline PFN_cuMemHostRegister_v6050 next = nullptr;
    static inline std::uint64_t largest = 0;
    void *(*inner)(void *, const char *, int) = nullptr;
    fault_driver driver{raw_entry_points()};
    instance_owner unlimited, limited;
};

TEST_F(with_a_register_limit, trap_13_no_register_call_exceeds_the_chunk_and_the_copy_is_whole) {
    constexpr std::uint64_t page = 4096, size = 3 * limit + 100;
    auto *const pages = static_cast<std::byte *>(allocate_aligned(4 * limit, page));
    const bytes told = random_bytes(4 * limit, 13);
    std::memcpy(pages, told.data(), told.size());
    EXPECT_NE(ferry_host_register(unlimited.get(), pages, size, 0, nullptr), FERRY_SUCCESS)
        << "the limit must be in force";
    for (const std::uint64_t lead : {std::uint64_t{0}, std::uint64_t{24}}) {
        largest = 0;
        ASSERT_OK(ferry_host_register(limited.get(), pages + lead, size, 0, nullptr));
        EXPECT_LE(largest, limit - page);
        test_place device(place_kind::device, {.width = size});
        device.fill(1);
        const auto address = reinterpret_cast<std::uint64_t>(pages) + lead;
        EXPECT_OK(ferry_copy_bytes(limited.get(), device.address(), address, size, nullptr, nullptr));
        EXPECT_EQ(std::memcmp(device.read().data(), told.data() + lead, size), 0);
        EXPECT_OK(ferry_host_unregister(limited.get(), pages + lead, nullptr));
    }
    for (ferry_instance *const instance : {limited.get(), unlimited.get()}) {
        void *block = nullptr;
        EXPECT_OK(allocate_pinned(instance, size, 0, &block));
        EXPECT_OK(ferry_host_free(instance, block, nullptr));
    }
    free_aligned(pages);
}

// 15: host memory may have another address on the device. Kernels and fills must get that address.
TEST_F(trap, trap_15_kernels_and_fills_get_the_devices_address_of_host_memory) {
    const alias_driver driver(raw_entry_points());
    driver_table cu;
    bool found[driver_symbol_count];
    resolve_table(driver.entry_points(), cu, found);
    test_place memory(place_kind::pinned, {.width = 4096}), device(place_kind::device, {.width = 4096});
    memory.fill(1);
    device.fill(2);
    address_facts facts;
    ASSERT_OK(look_up_address(cu, memory.address(), address_query::everything, facts).status);
    EXPECT_NE(facts.device_address, memory.address());
    kernel_set kernels(cu);
    const auto launch = [&](std::uint64_t source) {
        return launch_strided(cu, kernels, {{device.address(), 0, 0}, {source, 0, 0}, 4096, 1, 1}, 2, nullptr).status;
    };
    EXPECT_NE(launch(memory.address()), FERRY_SUCCESS) << "the host address is invalid on the device";
    EXPECT_EQ(driver.refused(), 1);
    ASSERT_OK(launch(facts.device_address));
    EXPECT_EQ(device.read(), memory.picture());

    // Through the public interface, on whichever route it takes.
    const instance_owner instance = open_or_fail(driver.options());
    const grid narrow = {.width = 4, .height = 5000, .row_pitch = 8};
    test_place rows(place_kind::pinned, narrow), there(place_kind::device, narrow);
    rows.fill(3);
    there.fill(4);
    const ferry_copy_desc copy = describe_copy(rows.describe(statement::any), there.describe(statement::any), 4, 5000);
    ASSERT_OK(ferry_copy(instance.get(), &copy, nullptr, nullptr));
    reference_copy(rows, {}, there, {}, 4, 5000, 1);
    EXPECT_EQ(there.read(), there.picture());
    const ferry_place place = memory.describe(statement::any);
    ferry_fill_desc fill;
    ferry_fill_desc_init(&fill, &place, 4096, 1, 1, "abcd", 4);
    EXPECT_OK(ferry_fill(instance.get(), &fill, nullptr, nullptr));
    ferry_fill_desc_init(&fill, &place, 2048, 1, 1, "abcdefgh", 8); // uses a kernel
    EXPECT_OK(ferry_fill(instance.get(), &fill, nullptr, nullptr));
    for (std::uint64_t x = 0; x < 4096; ++x)
        memory.picture_at(x, 0, 0) = std::byte(x < 2048 ? "abcdefgh"[x % 8] : "abcd"[x % 4]);
    EXPECT_EQ(memory.read(), memory.picture());
    EXPECT_EQ(driver.refused(), 1);
}

// 16: a plain dlsym("cuMemGetAddressRange") finds the first version, which has 32-bit sizes.
TEST_F(trap, trap_16_entry_points_are_the_variants_whose_signature_is_called) {
    std::uint64_t address = 0;
    ASSERT_OK(ferry_device_alloc(basic.get(), 0, 12345, &address, nullptr));
    struct {
        CUdeviceptr base = 0;
        size_t size = ~size_t{0}; // a 32-bit write would leave the upper half set
        std::uint64_t guard = 0x1234567890abcdef;
    } told;
    ASSERT_OK(raw().cuMemGetAddressRange(&told.base, &told.size, address + 100));
    EXPECT_EQ(told.base, address);
    EXPECT_EQ(told.size, 12345u);
    EXPECT_EQ(told.guard, 0x1234567890abcdefu);
    EXPECT_OK(ferry_device_free(basic.get(), address, nullptr));
    EXPECT_EQ(ferry_instance_get_proc(basic.get(), "cuMemcpy3DAsync", 13000),
              ferry_instance_get_proc(basic.get(), "cuMemcpy3DAsync", 3020));
}

// 17: at process exit the driver may be gone, and after fork the child has no driver.
[[noreturn]] void exit_with_one_of_everything_alive_and_in_use() {
    static ferry_instance *late = nullptr;
    std::atexit([] { ferry_close(late); });
    const ferry_options options = options_under_test();
    if (ferry_open(&options, &late, nullptr)) std::exit(2);
    plan_as_on_a_gpu(late);
    std::uint64_t address = 0, managed = 0;
    void *pinned = nullptr;
    CUarray array = nullptr;
    CUmipmappedArray mipmapped = nullptr;
    CUstream stream = nullptr;
    CUevent event = nullptr;
    const ferry_array_desc desc = {sizeof desc, FERRY_FORMAT_FLOAT, 1, 0, 16, 16, 0};
    if (ferry_device_alloc(late, 0, 1 << 20, &address, nullptr) ||
        ferry_managed_alloc(late, 0, 4096, &managed, nullptr) || allocate_pinned(late, 1 << 20, 0, &pinned) ||
        ferry_array_create(late, 0, &desc, &array, nullptr) ||
        ferry_mipmapped_array_create(late, 0, &desc, 0, &mipmapped, nullptr) ||
        ferry_stream_create(late, 0, FERRY_STREAM_NON_BLOCKING, 0, &stream, nullptr) ||
        ferry_event_create(late, 0, 0, &event, nullptr))
        std::exit(3);
    if (device_count() > 1) ferry_peer_enable(late, 0, 1, nullptr); // if there is access
    if (is_supported(place_kind::pool)) {
        ferry_pool_desc pool_desc = {};
        pool_desc.struct_size = sizeof pool_desc;
        CUmemoryPool pool = nullptr;
        std::uint64_t pooled = 0;
        if (ferry_pool_create(late, &pool_desc, &pool, nullptr) ||
            ferry_pool_alloc_async(late, pool, 4096, stream, &pooled, nullptr))
            std::exit(6);
    }
    const auto source = reinterpret_cast<std::uint64_t>(pinned);
    for (int i = 0; i < 16; ++i)
        if (ferry_copy_bytes_async(late, address, source, 1 << 20, nullptr, stream, nullptr, nullptr)) std::exit(4);
    if (ferry_event_record(late, event, stream, nullptr)) std::exit(5);
    std::exit(0);
}

TEST_F(trap, trap_17_closing_at_process_exit_is_harmless) {
    SKIP_WITHOUT(execution);
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_EXIT(exit_with_one_of_everything_alive_and_in_use(), ::testing::ExitedWithCode(0), "");
}

TEST_F(trap, trap_17_closing_after_the_driver_has_gone_is_harmless) {
    fault_driver driver(raw_entry_points());
    instance_owner late = open_or_fail(driver.options());
    std::uint64_t address = 0;
    ASSERT_OK(ferry_device_alloc(late.get(), 0, 4096, &address, nullptr));
    for (const char *const entry : {"cuDevicePrimaryCtxRelease", "cuCtxGetCurrent", "cuCtxSynchronize"})
        driver.fail(entry, CUDA_ERROR_DEINITIALIZED, 1, true);
    const std::int32_t status = ferry_copy_bytes(late.get(), address, address + 64, 32, nullptr, nullptr);
    EXPECT_EQ(status, FERRY_STATUS_DRIVER_BASE - CUDA_ERROR_DEINITIALIZED);
    EXPECT_EQ(ferry_status_traits(status), FERRY_STATUS_CONTEXT_DEAD);
    late.reset();
    driver.heal();
    EXPECT_OK(raw().cuDevicePrimaryCtxRelease(0)); // closing could not release it
    EXPECT_OK(raw().cuMemFree(address));
}

TEST_F(trap, trap_17_a_forked_child_gets_a_status_and_the_parent_continues) {
    FERRY_NEEDS_FORK();
    test_place device(place_kind::device, {.width = 4096}), host(place_kind::pageable, {.width = 4096});
    host.fill(1);
    const int status = run_in_child([&] {
        const ferry_fill_desc fill = [&] {
            const ferry_place place = device.describe(statement::stated);
            ferry_fill_desc desc;
            ferry_fill_desc_init(&desc, &place, 64, 1, 1, "a", 1);
            return desc;
        }();
        CUstream stream = nullptr;
        CUevent event = nullptr;
        std::uint64_t address = 0;
        const std::int32_t statuses[] = {
            ferry_copy_bytes(basic.get(), device.address(), host.address(), 4096, nullptr, nullptr),
            ferry_fill(basic.get(), &fill, nullptr, nullptr),
            ferry_stream_create(basic.get(), 0, 0, 0, &stream, nullptr),
            ferry_event_create(basic.get(), 0, 0, &event, nullptr),
            ferry_stream_synchronize(basic.get(), nullptr, nullptr),
            ferry_managed_alloc(basic.get(), 0, 64, &address, nullptr),
        };
        const bool all_told = std::all_of(std::begin(statuses), std::end(statuses),
                                          [](std::int32_t status) { return status <= FERRY_STATUS_DRIVER_BASE; });
        ferry_close(basic.release());
        return all_told ? 17 : 1;
    });
    EXPECT_EQ(status, 17);
    EXPECT_OK(ferry_copy_bytes(basic.get(), device.address(), host.address(), 4096, nullptr, nullptr));
    EXPECT_EQ(device.read(), host.picture());
}

TEST_F(trap, trap_17_a_forked_child_gets_no_block_from_a_pinned_pool) {
    FERRY_NEEDS_FORK();
    SKIP_WITHOUT(pages_wiped_in_children);
    ferry_pinned_pool *pinned = nullptr;
    void *block = nullptr, *ready = nullptr;
    ASSERT_OK(ferry_pinned_pool_create(basic.get(), nullptr, &pinned, nullptr));
    ASSERT_OK(ferry_pinned_pool_alloc(pinned, 4096, &block, nullptr));
    ASSERT_OK(ferry_pinned_pool_alloc(pinned, 4096, &ready, nullptr));
    ASSERT_OK(ferry_pinned_pool_free(pinned, ready, nullptr));
    const int status = run_in_child([&] {
        constexpr std::int32_t no_driver = FERRY_STATUS_DRIVER_BASE - CUDA_ERROR_NOT_INITIALIZED;
        ferry_pool_stats stats = {};
        stats.struct_size = sizeof stats;
        void *more = nullptr;
        const bool all_told = ferry_pinned_pool_alloc(pinned, 4096, &more, nullptr) == no_driver && !more &&
                              ferry_pinned_pool_free(pinned, block, nullptr) == no_driver &&
                              ferry_pinned_pool_get_stats(pinned, &stats, nullptr) == no_driver &&
                              ferry_pinned_pool_trim(pinned, 0, nullptr) == no_driver &&
                              ferry_pinned_pool_destroy(pinned, nullptr) == no_driver;
        return all_told ? 17 : 1;
    });
    EXPECT_EQ(status, 17);
    EXPECT_OK(ferry_pinned_pool_free(pinned, block, nullptr));
    EXPECT_OK(ferry_pinned_pool_destroy(pinned, nullptr));
}

TEST_F(pool_trap, trap_17_calls_on_pools_fail_in_a_forked_child) {
    FERRY_NEEDS_FORK();
    CUstream stream = nullptr;
    std::uint64_t address = 0;
    ASSERT_OK(raw().cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    ASSERT_OK(ferry_pool_alloc_async(faulty.get(), pool, 64, stream, &address, nullptr));
    const int status = run_in_child([&] {
        ferry_pool_desc desc = {};
        desc.struct_size = sizeof desc;
        ferry_pool_info info = {};
        info.struct_size = sizeof info;
        CUmemoryPool made = nullptr;
        std::uint64_t more = 0;
        ferry_instance *const it = faulty.get();
        const std::int32_t statuses[] = {
            ferry_device_alloc_async(it, FERRY_DEVICE_UNKNOWN, 64, stream, &more, nullptr),
            ferry_device_alloc_async(it, 0, 64, nullptr, &more, nullptr),
            ferry_pool_alloc_async(it, pool, 64, nullptr, &more, nullptr),
            ferry_device_free_async(it, address, stream, nullptr),
            ferry_pool_create(it, &desc, &made, nullptr),
            ferry_pool_get_info(it, pool, &info, nullptr),
            ferry_pool_set_access(it, pool, 0, FERRY_ACCESS_READ_WRITE, nullptr),
            ferry_pool_trim(it, pool, 0, nullptr),
            ferry_pool_destroy_deferred(it, pool, stream, nullptr),
            ferry_pool_destroy(it, pool, nullptr),
        };
        const auto *const untold = std::find_if(std::begin(statuses), std::end(statuses),
                                                [](std::int32_t status) { return status > FERRY_STATUS_DRIVER_BASE; });
        ferry_close(faulty.release());
        return untold == std::end(statuses) ? 17 : 20 + static_cast<int>(untold - std::begin(statuses));
    });
    EXPECT_EQ(status, 17);
    EXPECT_OK(ferry_device_free_async(faulty.get(), address, stream, nullptr));
    EXPECT_OK(raw().cuStreamSynchronize(stream));
    EXPECT_OK(raw().cuStreamDestroy(stream));
}

// 18: ferry never copies row by row. A copy of any shape is one call, also of a million narrow rows.
TEST_F(trap, trap_18_a_million_rows_of_one_byte_are_one_driver_call) {
    constexpr std::uint64_t rows = 1 << 20;
    fault_driver driver(raw_entry_points());
    const instance_owner counted = open_or_fail(driver.options());
    test_place source(place_kind::pinned, {.width = 1, .height = rows, .row_pitch = 3}),
        destination(place_kind::device, {.width = 1, .height = rows, .row_pitch = 2});
    source.fill(1);
    destination.fill(2);
    const ferry_copy_desc copy =
        describe_copy(source.describe(statement::stated), destination.describe(statement::stated), 1, rows);
    reference_copy(source, {}, destination, {}, 1, rows, 1);
    for (const how &options : {how(), by_driver}) {
        driver.reset_counts();
        ASSERT_OK(ferry_copy(counted.get(), &copy, options, nullptr));
        EXPECT_EQ(driver.calls_beginning("cuMemcpy") + driver.calls("cuLaunchKernel"), 1);
        EXPECT_EQ(destination.read(), destination.picture());
    }
}

// 19: texels of 3, 6 and 12 bytes in linear memory, odd pitches, odd base addresses, a depth of 0.
TEST_F(trap, trap_19_odd_texels_pitches_and_bases_are_copied) {
    for (const std::uint64_t texel : {3, 6, 12})
        for (const place_kind from : {place_kind::pageable, place_kind::pinned, place_kind::device})
            for (const place_kind to : {place_kind::registered, place_kind::device}) {
                const std::uint64_t width = 17 * texel;
                test_place source(
                    from,
                    {.width = width, .height = 9, .depth = 3, .row_pitch = width + 1, .slice_height = 11, .lead = 1}),
                    destination(to, {.width = width,
                                     .height = 9,
                                     .depth = 3,
                                     .row_pitch = width + 5,
                                     .slice_height = 9,
                                     .lead = 3});
                source.fill(texel);
                destination.fill(texel + 1);
                const box origin = {.x = texel, .y = 1, .z = 1};
                ferry_copy_desc copy = describe_copy(source.describe(statement::any, origin),
                                                     destination.describe(statement::any), 13 * texel, 7, 2);
                ASSERT_OK(ferry_copy(full.get(), &copy, nullptr, nullptr));
                reference_copy(source, origin, destination, {}, 13 * texel, 7, 2);
                ASSERT_EQ(destination.read(), destination.picture());
                copy.depth = 0;
                copy.height = 0;
                copy.source.x = copy.source.y = copy.source.z = 0;
                ASSERT_OK(ferry_copy(full.get(), &copy, nullptr, nullptr));
                reference_copy(source, {}, destination, {}, 13 * texel, 1, 1);
                ASSERT_EQ(destination.read(), destination.picture());
            }
}

// 20: a driver has accepted access to a pool for a device that is not a peer, if access was set before any allocation.
// The next allocation then failed. So ferry asks the devices first. (The other half of trap 20 concerns kernels.)
TEST_F(pool_trap, trap_20_a_device_that_is_not_a_peer_gets_no_access_to_a_pool) {
    if (device_count() < 2) GTEST_SKIP() << "needs two devices";
    driver->reset_counts();
    driver->fail("cuDeviceCanAccessPeer", CUDA_SUCCESS, 1, true); // its answer stays 0
    EXPECT_EQ(give_access(), FERRY_ERROR_PEER_ACCESS);
    EXPECT_EQ(driver->calls("cuMemPoolSetAccess"), 0);
    EXPECT_EQ(access(), FERRY_ACCESS_NONE);
    std::uint64_t address = 0;
    EXPECT_OK(ferry_pool_alloc_async(faulty.get(), pool, 4096, nullptr, &address, nullptr));
    EXPECT_OK(ferry_device_free_async(faulty.get(), address, nullptr, nullptr));
    driver->fail("cuDeviceCanAccessPeer", CUDA_ERROR_LAUNCH_FAILED);
    EXPECT_EQ(give_access(), FERRY_STATUS_DRIVER_BASE - CUDA_ERROR_LAUNCH_FAILED);
}

// 20: drivers refuse PTX of a newer CUDA. The kernels are then a missing feature, and ferry tries to load them
// only once.
TEST_F(trap, trap_20_kernels_that_the_driver_refuses_are_reported_as_missing) {
    fault_driver driver(raw_entry_points());
    driver.fail("cuLibraryLoadData", CUDA_ERROR_UNSUPPORTED_PTX_VERSION, 1, true);
    const ferry_options options = driver.options();
    driver_table cu;
    bool found[driver_symbol_count];
    resolve_table({options.get_proc, options.get_proc_user}, cu, found);
    kernel_set kernels(cu);
    EXPECT_TRUE(kernels.may_serve());
    for (int i = 0; i < 2; ++i)
        EXPECT_EQ(kernels.load().status, FERRY_STATUS_DRIVER_BASE - CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
    EXPECT_FALSE(kernels.may_serve());
    EXPECT_EQ(driver.calls("cuLibraryLoadData"), 1);
}

// 21: under a global capture, calls that are unsafe during a capture break it from any thread. No form of batch does.
TEST_F(trap, trap_21_batches_beside_a_capture_do_not_break_it) {
    constexpr std::uint64_t count = 500, apart = 64;
    test_place source(place_kind::pinned, {.width = count * apart}),
        destination(place_kind::device, {.width = count * apart}),
        another(place_kind::device, {.width = count * apart});
    std::vector<std::uint64_t> to, to_another, from;
    const std::vector<std::uint64_t> sizes(count, apart / 2);
    for (std::uint64_t i = 0; i < count; ++i) {
        to.push_back(destination.address() + i * apart);
        to_another.push_back(another.address() + i * apart);
        from.push_back(source.address() + i * apart);
    }
    CUstream captured = nullptr, other = nullptr;
    ASSERT_OK(raw().cuStreamCreate(&captured, CU_STREAM_NON_BLOCKING));
    ASSERT_OK(raw().cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    ASSERT_OK(raw().cuStreamBeginCapture(captured, CU_STREAM_CAPTURE_MODE_GLOBAL));
    EXPECT_OK(ferry_copy_pieces_async(basic.get(), in_arrays(to.data(), from.data(), sizes.data(), count), nullptr,
                                      other, nullptr, nullptr));
    EXPECT_OK(ferry_copy_pieces_async(basic.get(), in_arrays(to.data(), from.data(), sizes.data(), count), nullptr,
                                      captured, nullptr, nullptr));
    EXPECT_OK(ferry_copy_pieces(basic.get(), in_arrays(to_another.data(), from.data(), sizes.data(), count), nullptr,
                                nullptr));
    ferry_prepared *prepared = nullptr;
    EXPECT_OK(ferry_prepared_create_pieces(basic.get(), in_arrays(to.data(), from.data(), sizes.data(), count),
                                           updatable, other, &prepared, nullptr));
    EXPECT_OK(ferry_prepared_launch(prepared, nullptr, other, nullptr, nullptr));
    EXPECT_OK(
        ferry_prepared_set_addresses(prepared, in_arrays(to.data(), from.data(), nullptr, to.size()), other, nullptr));
    EXPECT_OK(ferry_prepared_destroy(prepared, nullptr));
    CUgraph graph = nullptr;
    EXPECT_OK(raw().cuStreamEndCapture(captured, &graph));
    EXPECT_OK(raw().cuGraphDestroy(graph));
    EXPECT_OK(raw().cuStreamSynchronize(other));
    EXPECT_OK(raw().cuStreamDestroy(captured));
    EXPECT_OK(raw().cuStreamDestroy(other));
}

// 22: a sticky error kills the context. ferry reports that, leaves the number unchanged, and does not retry behind the
// caller's back.
TEST_F(trap, trap_22_a_sticky_error_is_reported_as_a_dead_context_and_not_retried) {
    fault_driver driver(raw_entry_points());
    const instance_owner dying = open_or_fail(driver.options());
    for (const place_kind kind : {place_kind::pinned, place_kind::pageable}) {
        SCOPED_TRACE(kind == place_kind::pinned ? "pinned" : "pageable");
        test_place source(kind, {.width = 64}), destination(place_kind::device, {.width = 64});
        driver.reset_counts();
        driver.fail("cuMemcpy3DAsync", CUDA_ERROR_ILLEGAL_ADDRESS, 2, true);
        const auto enqueue = [&] {
            return ferry_copy_bytes_async(dying.get(), destination.address(), source.address(), 64, nullptr, nullptr,
                                          nullptr, nullptr);
        };
        EXPECT_OK(enqueue());
        for (int attempt = 0; attempt < 2; ++attempt) {
            const std::int32_t status = enqueue();
            EXPECT_EQ(status, FERRY_STATUS_DRIVER_BASE - CUDA_ERROR_ILLEGAL_ADDRESS);
            EXPECT_EQ(ferry_status_traits(status), FERRY_STATUS_CONTEXT_DEAD);
            EXPECT_STREQ(ferry_status_name(status), "CUDA_ERROR_ILLEGAL_ADDRESS");
        }
        EXPECT_EQ(driver.calls("cuMemcpy3DAsync"), 3);
        driver.heal();
        ASSERT_OK(raw().cuCtxSynchronize());
    }
}

} // namespace
} // namespace ferry::test
