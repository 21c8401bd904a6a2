// What batches keep between calls, while contexts, arrays and the instance end.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <future>
#include <thread>

#include "support/emulator.h"
#include "support/fault_driver.h"
#include "support/ferry_array.h"
#include "support/gate.h"
#include "support/how.h"
#include "support/piece_lists.h"
#include "support/raw_objects.h"
#include "support/system.h"

namespace ferry::test {
namespace {

// Pieces that a kernel copies from pinned memory to the device. There are gaps between them, so that none are merged.
struct kernel_pieces {
    static constexpr std::uint64_t size = 96, apart = 128;

    explicit kernel_pieces(std::size_t count) : count(count), from(count * apart), to(count * apart) {
        for (std::size_t i = 0; i < count; ++i) {
            sources.push_back(reinterpret_cast<std::uintptr_t>(from.data()) + i * apart);
            destinations.push_back(to + i * apart);
            sizes.push_back(size);
        }
        fill(1);
        write_for_all_streams(to, bytes(count * apart));
    }
    void fill(std::uint64_t seed) {
        const bytes data = random_bytes(count * apart, seed);
        std::copy(data.begin(), data.end(), from.data());
    }
    std::int32_t copy(ferry_instance *instance, CUstream stream) const {
        return ferry_copy_pieces_async(instance, in_arrays(destinations.data(), sources.data(), sizes.data(), count),
                                       nullptr, stream, nullptr, nullptr);
    }
    std::int32_t prepare(ferry_instance *instance, CUstream stream, const how &options,
                         ferry_prepared **prepared) const {
        return ferry_prepared_create_pieces(instance,
                                            in_arrays(destinations.data(), sources.data(), sizes.data(), count),
                                            options, stream, prepared, nullptr);
    }
    bool have_arrived() const {
        const bytes arrived = read_back(to, count * apart), sent = from.copy();
        for (std::size_t i = 0; i < count; ++i)
            if (!std::equal(&arrived[i * apart], &arrived[i * apart] + size, &sent[i * apart])) return false;
        return true;
    }

    std::size_t count;
    pinned_memory from;
    device_memory to;
    std::vector<std::uint64_t> destinations, sources, sizes;
};

constexpr std::size_t beyond_parameters = 1000;

// The driver counts calls, and every copy uses a kernel.
struct lifetimes : driver_test {
    void SetUp() override {
        driver_test::SetUp();
        ferry = open_or_fail(options());
    }
    void TearDown() override {
        ferry.reset();
        driver_test::TearDown();
    }
    ferry_options options() const {
        ferry_options options = driver.options();
        options.copy_options = by_kernel;
        return options;
    }
    int host_memory_held() const {
        return driver.calls("cuMemHostRegister") + driver.calls("cuMemHostAlloc") -
               driver.calls("cuMemHostUnregister") - driver.calls("cuMemFreeHost");
    }
    fault_driver driver{raw_entry_points()};
    instance_owner ferry;
};

TEST_F(lifetimes, tables_are_released_when_the_instance_closes) {
    const test_stream stream;
    const kernel_pieces pieces(beyond_parameters);
    driver.reset_counts();
    ASSERT_OK(pieces.copy(ferry.get(), stream));
    EXPECT_GT(host_memory_held(), 0);
    ferry.reset();
    EXPECT_EQ(host_memory_held(), 0);
    EXPECT_OK(raw().cuStreamSynchronize(stream));
    EXPECT_TRUE(pieces.have_arrived());
}

TEST_F(lifetimes, tables_of_a_destroyed_context_are_not_written) {
    for (const bool is_destroyed_by_ferry : {true, false})
        for (const bool is_from_driver : {true, false}) {
            SCOPED_TRACE(testing::Message() << "destroyed by " << (is_destroyed_by_ferry ? "ferry" : "the driver")
                                            << ", tables from " << (is_from_driver ? "the driver" : "a mapping"));
            if (is_from_driver) driver.fail("cuMemHostRegister", CUDA_ERROR_NOT_SUPPORTED, 1, true);
            ferry = open_or_fail(options());
            CUctx_st *own = nullptr;
            ASSERT_OK(ferry_context_create(ferry.get(), 0, 0, &own, nullptr));
            ASSERT_OK(ferry_context_adopt(ferry.get(), 0, own, nullptr));
            {
                const made_current in_own(own);
                const test_stream stream;
                const kernel_pieces pieces(beyond_parameters);
                ASSERT_OK(pieces.copy(ferry.get(), stream));
                ASSERT_OK(raw().cuStreamSynchronize(stream));
                EXPECT_TRUE(pieces.have_arrived());
            }
            if (is_destroyed_by_ferry) {
                ASSERT_OK(ferry_context_destroy(ferry.get(), own, nullptr));
            } else {
                ASSERT_OK(ferry_context_adopt(ferry.get(), 0, nullptr, nullptr));
                ASSERT_OK(raw().cuCtxDestroy(own));
            }
            const test_stream stream;
            const kernel_pieces pieces(beyond_parameters);
            driver.reset_counts();
            ASSERT_OK(pieces.copy(ferry.get(), stream));
            EXPECT_EQ(driver.calls("cuLaunchKernel"), 1) << "through a new table";
            EXPECT_EQ(driver.calls("cuEventQuery"), 0) << "the event ended with its context";
            ASSERT_OK(raw().cuStreamSynchronize(stream));
            EXPECT_TRUE(pieces.have_arrived());
            ferry.reset();
            driver.heal();
        }
}

struct own_context {
    explicit own_context(ferry_instance *of) : ferry(of) {
        EXPECT_OK(ferry_context_create(of, 0, 0, &handle, nullptr));
    }
    ~own_context() { destroy(); }
    own_context(const own_context &) = delete;
    void destroy() {
        if (handle) {
            EXPECT_OK(ferry_context_destroy(ferry, handle, nullptr));
        }
        handle = nullptr;
    }
    ferry_instance *ferry;
    CUctx_st *handle = nullptr;
};

// Kernels of one context reach neither the memory nor the tables of another context.
TEST_F(lifetimes, the_driver_copies_a_prepared_batch_in_another_context) {
    own_context other(ferry.get());
    for (const std::size_t count : {std::size_t{5}, beyond_parameters})
        for (const how &options : {how(), by_kernel | updatable}) {
            SCOPED_TRACE(testing::Message() << count << " pieces, " << options);
            kernel_pieces pieces(count);
            ferry_prepared *prepared = nullptr;
            ASSERT_OK(pieces.prepare(ferry.get(), nullptr, options, &prepared));
            const auto launch = [&](bool is_at_home) {
                driver.reset_counts();
                ASSERT_OK(ferry_prepared_launch(prepared, nullptr, nullptr, nullptr, nullptr));
                EXPECT_EQ(driver.calls("cuLaunchKernel") > 0, is_at_home);
                ASSERT_OK(raw().cuCtxSynchronize());
                EXPECT_TRUE(pieces.have_arrived());
            };
            launch(true);
            {
                const made_current in_other(other.handle);
                pieces.fill(2);
                launch(false);
                if (options.has(updatable)) {
                    std::reverse(pieces.destinations.begin(), pieces.destinations.end());
                    std::reverse(pieces.sources.begin(), pieces.sources.end());
                    EXPECT_OK(ferry_prepared_set_addresses(prepared,
                                                           in_arrays(pieces.destinations.data(), pieces.sources.data(),
                                                                     nullptr, pieces.destinations.size()),
                                                           nullptr, nullptr));
                    pieces.fill(3);
                    launch(false);
                    const test_stream stream;
                    ASSERT_OK(raw().cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
                    EXPECT_EQ(ferry_prepared_launch(prepared, nullptr, stream, nullptr, nullptr), FERRY_ERROR_CAPTURE);
                    CUgraph graph = nullptr;
                    ASSERT_OK(raw().cuStreamEndCapture(stream, &graph));
                    EXPECT_OK(raw().cuGraphDestroy(graph));
                }
            }
            pieces.fill(4);
            launch(true);
            EXPECT_OK(ferry_prepared_destroy(prepared, nullptr));
        }
}

TEST_F(lifetimes, new_addresses_are_checked_for_the_context_that_a_batch_was_prepared_in) {
    own_context other(ferry.get());
    kernel_pieces pieces(beyond_parameters);
    ferry_prepared *prepared = nullptr;
    ASSERT_OK(pieces.prepare(ferry.get(), nullptr, by_kernel | updatable, &prepared));
    {
        const made_current in_other(other.handle);
        const kernel_pieces elsewhere(beyond_parameters);
        EXPECT_EQ(ferry_prepared_set_addresses(
                      prepared,
                      in_arrays(elsewhere.destinations.data(), nullptr, nullptr, elsewhere.destinations.size()),
                      nullptr, nullptr),
                  FERRY_ERROR_OTHER_KIND);
    }
    ASSERT_OK(ferry_prepared_launch(prepared, nullptr, nullptr, nullptr, nullptr));
    EXPECT_TRUE(pieces.have_arrived());
    EXPECT_OK(ferry_prepared_destroy(prepared, nullptr));
}

TEST_F(lifetimes, a_prepared_batch_that_outlives_its_context_frees_no_foreign_memory) {
    own_context own(ferry.get());
    ferry_prepared *prepared = nullptr;
    {
        const made_current in_own(own.handle);
        const kernel_pieces pieces(beyond_parameters);
        ASSERT_OK(pieces.prepare(ferry.get(), nullptr, {}, &prepared));
    }
    own.destroy();
    driver.reset_counts();
    EXPECT_OK(ferry_prepared_destroy(prepared, nullptr));
    EXPECT_EQ(driver.calls("cuMemFree"), 0) << "the address may belong to a new allocation";
}

TEST_F(lifetimes, a_prepared_batch_is_destroyed_without_a_current_context) {
    const kernel_pieces pieces(beyond_parameters);
    ferry_prepared *prepared = nullptr;
    ASSERT_OK(pieces.prepare(ferry.get(), nullptr, {}, &prepared));
    const made_current none(nullptr);
    EXPECT_OK(ferry_prepared_destroy(prepared, nullptr));
    CUcontext current = nullptr;
    EXPECT_OK(raw().cuCtxGetCurrent(&current));
    EXPECT_EQ(current, nullptr);
}

ferry_copy_desc all_of(const ferry_array &from, std::uint64_t to) {
    ferry_copy_desc copy = {};
    copy.source.kind = FERRY_KIND_ARRAY;
    copy.source.array = from.array();
    copy.destination.address = to;
    copy.width = from.row_bytes;
    copy.height = from.rows;
    copy.depth = from.slices;
    return copy;
}

TEST_F(lifetimes, a_surface_ends_with_its_array_when_its_context_is_no_longer_adopted) {
    own_context own(ferry.get());
    ASSERT_OK(ferry_context_adopt(ferry.get(), 0, own.handle, nullptr));
    {
        const made_current in_own(own.handle);
        const device_memory to(1 << 20);
        ferry_array from(ferry.get(), array_kinds[2], texels[2]);
        const ferry_copy_desc copy = all_of(from, to);
        ASSERT_OK(ferry_copy(ferry.get(), &copy, nullptr, nullptr));
        EXPECT_EQ(driver.calls("cuSurfObjectCreate"), 1);
        ASSERT_OK(ferry_context_adopt(ferry.get(), 0, nullptr, nullptr));
        from.destroy();
        EXPECT_EQ(driver.calls("cuSurfObjectDestroy"), 1);
    }
}

// A driver that blocks while it makes the primary context of device 1, until the test releases it.
struct slow_driver {
    static inline std::promise<void> *has_begun = nullptr;
    static inline std::shared_future<void> may_end;

    static CUresult CUDAAPI retain(CUcontext *context, CUdevice device) {
        if (device == 1 && has_begun) {
            has_begun->set_value();
            may_end.wait();
        }
        return raw().cuDevicePrimaryCtxRetain(context, device);
    }
    static void *get_proc(void *, const char *name, int version) {
        if (!std::strcmp(name, "cuDevicePrimaryCtxRetain")) return reinterpret_cast<void *>(&retain);
        return raw_entry_points().get_proc(raw_entry_points().user, name, version);
    }
};

// Trap 17: another thread may hold any lock when the process forks. That thread does not exist in the child, so no
// thread releases the lock there.
TEST_F(lifetimes, a_forked_child_can_close_an_instance_that_another_thread_was_using) {
    FERRY_NEEDS_FORK();
    if (device_count() < 2) GTEST_SKIP() << "needs two devices";
    ferry_options options = this->options();
    options.get_proc = slow_driver::get_proc;
    const instance_owner slow = open_or_fail(options);
    const device_memory to(1 << 20);
    ferry_array from(slow.get(), array_kinds[2], texels[2]);
    const ferry_copy_desc copy = all_of(from, to);
    ASSERT_OK(ferry_copy(slow.get(), &copy, nullptr, nullptr)); // makes a surface
    std::promise<void> has_begun, may_end;
    slow_driver::may_end = may_end.get_future();
    slow_driver::has_begun = &has_begun;
    std::thread at_work([&] {
        std::uint64_t address = 0;
        EXPECT_OK(ferry_device_alloc(slow.get(), 1, 64, &address, nullptr));
        EXPECT_OK(ferry_device_free(slow.get(), address, nullptr));
    });
    has_begun.get_future().wait();
    const int status = run_in_child([&] {
        ferry_close(slow.get());
        return 17;
    });
    may_end.set_value();
    at_work.join();
    slow_driver::has_begun = nullptr;
    EXPECT_EQ(status, 17);
}

// The program's allocator. It blocks the thread that next frees memory inside the library until the test lets it
// continue.
struct stopping_allocator {
    std::promise<void> has_stopped, may_go_on;
    std::atomic<bool> stops_next = false;
    std::atomic<int> frees = 0;

    void install(ferry_options &options) {
        options.allocate_user = this;
        options.allocate = [](void *, std::uint64_t size, std::uint64_t alignment) -> void * {
            return allocate_aligned(size, alignment);
        };
        options.deallocate = [](void *self, void *memory, std::uint64_t) {
            auto &of = *static_cast<stopping_allocator *>(self);
            ++of.frees;
            if (of.stops_next.exchange(false)) {
                of.has_stopped.set_value();
                of.may_go_on.get_future().wait();
            }
            free_aligned(memory);
        };
    }
};

// While a list grows, it refers for a moment to memory that has been freed already. So the child frees no list, ticket
// or job: their memory ends with the child.
TEST_F(lifetimes, closing_in_a_forked_child_frees_nothing_that_another_thread_may_have_been_changing) {
    FERRY_NEEDS_FORK();
    SKIP_WITHOUT(pages_wiped_in_children);
    stopping_allocator memory;
    ferry_options options = this->options();
    memory.install(options);
    const instance_owner instance = open_or_fail(options);
    const test_stream stream;
    const device_memory device(4096);
    ferry_place place;
    ferry_place_device(&place, 0, device);
    ferry_copy_desc copy = {};
    copy.source = place;
    ferry_place_device(&copy.destination, 0, device + 2048);
    copy.width = 64;
    ferry_ticket *ticket = nullptr;
    ASSERT_OK(ferry_copy_async(instance.get(), &copy, nullptr, stream, &ticket, nullptr));
    ASSERT_OK(raw().cuStreamSynchronize(stream));
    ASSERT_OK(ferry_ticket_release(ticket, nullptr));
    const kernel_pieces pieces(5);
    ASSERT_OK(pieces.copy(instance.get(), stream));
    ASSERT_OK(raw().cuStreamSynchronize(stream));

    constexpr std::size_t page = 4096, ranges = 8;
    void *const pages = allocate_aligned(2 * ranges * page, page);
    const auto range = [&](std::size_t at) { return static_cast<std::byte *>(pages) + 2 * at * page; };
    memory.stops_next = true;
    std::thread at_work([&] {
        for (std::size_t at = 0; at < ranges; ++at)
            EXPECT_OK(ferry_host_register(instance.get(), range(at), page, 0, nullptr));
        for (std::size_t at = 0; at < ranges; ++at)
            EXPECT_OK(ferry_host_unregister(instance.get(), range(at), nullptr));
    });
    memory.has_stopped.get_future().wait();
    const int status = run_in_child([&] {
        memory.frees = 0;
        ferry_close(instance.get());
        return memory.frees == 0 ? 17 : 1;
    });
    memory.may_go_on.set_value();
    at_work.join();
    free_aligned(pages);
    EXPECT_EQ(status, 17);
}

TEST_F(lifetimes, kernels_that_fail_to_load_in_a_dead_context_still_serve_others) {
    const kernel_pieces pieces(beyond_parameters);
    const test_stream stream;
    driver.fail("cuLibraryLoadData", CUDA_ERROR_ILLEGAL_ADDRESS); // every call in a dead context returns this
    EXPECT_NE(pieces.copy(ferry.get(), stream), FERRY_SUCCESS);
    EXPECT_OK(pieces.copy(ferry.get(), stream));
    EXPECT_EQ(driver.calls("cuLaunchKernel"), 1);
    ASSERT_OK(raw().cuStreamSynchronize(stream));
    EXPECT_TRUE(pieces.have_arrived());
}

// The library of the kernels is unloaded and their surfaces are destroyed while the kernels have yet to run.
TEST_F(lifetimes, kernel_copies_in_flight_complete_when_the_instance_closes) {
    const test_stream stream;
    const kernel_pieces few(5);
    const device_memory to(1 << 20);
    ferry_array from(ferry.get(), array_kinds[2], texels[2]);
    from.fill(1);
    const ferry_copy_desc copy = all_of(from, to);
    const auto copy_all = [&] {
        ASSERT_OK(few.copy(ferry.get(), stream));
        ASSERT_OK(ferry_copy_async(ferry.get(), &copy, nullptr, stream, nullptr, nullptr));
    };
    copy_all(); // loads the kernels and makes the surface, since either may wait
    ASSERT_OK(raw().cuStreamSynchronize(stream));
    write_for_all_streams(few.to, bytes(few.count * few.apart));
    write_for_all_streams(to, bytes(from.picture.size()));
    gate held(stream);
    copy_all();
    std::thread opener([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(30)); // a close that does not wait would return meanwhile
        held.let_go();
    });
    ferry.reset();
    opener.join();
    ASSERT_OK(raw().cuStreamSynchronize(stream));
    EXPECT_TRUE(few.have_arrived());
    EXPECT_TRUE(read_back(to, from.picture.size()) == from.picture);
    from.destroy_by_the_driver();
}

TEST_F(lifetimes, a_table_that_may_still_be_read_is_not_reused) {
    const test_stream stream, other;
    const kernel_pieces first(beyond_parameters), second(beyond_parameters);
    ASSERT_OK(first.copy(ferry.get(), stream));
    ASSERT_OK(raw().cuStreamSynchronize(stream));
    write_for_all_streams(first.to, bytes(first.count * first.apart));
    gate held(stream);
    driver.fail("cuEventRecord", CUDA_ERROR_OUT_OF_MEMORY, 1, true);
    driver.fail("cuStreamSynchronize", CUDA_ERROR_NOT_SUPPORTED);
    EXPECT_EQ(first.copy(ferry.get(), stream), FERRY_STATUS_DRIVER_BASE - CUDA_ERROR_NOT_SUPPORTED);
    driver.heal();
    ASSERT_OK(second.copy(ferry.get(), other));
    ASSERT_OK(raw().cuStreamSynchronize(other));
    EXPECT_TRUE(second.have_arrived());
    held.open();
    ASSERT_OK(raw().cuStreamSynchronize(stream));
    EXPECT_TRUE(first.have_arrived());
    const kernel_pieces third(beyond_parameters); // its table can be released normally
    ASSERT_OK(third.copy(ferry.get(), stream));
    driver.reset_counts();
    ferry.reset();
    EXPECT_GT(driver.calls("cuEventDestroy"), 0) << "tables that can be released are released";
    ASSERT_OK(raw().cuStreamSynchronize(stream));
    EXPECT_TRUE(third.have_arrived());
}

TEST_F(lifetimes, either_all_new_addresses_are_set_or_none_whatever_fails) {
    const test_stream stream;
    const char *const entries[] = {"cuCtxGetCurrent",        "cuStreamGetCtx",      "cuStreamIsCapturing",
                                   "cuPointerGetAttributes", "cuMemcpy3DAsync",     "cuEventRecord",
                                   "cuEventCreate",          "cuStreamSynchronize", "cuMemHostRegister"};
    for (const char *const entry : entries)
        for (int nth = 1; nth <= 4; ++nth) {
            SCOPED_TRACE(testing::Message() << entry << " fails from call number " << nth << " on");
            kernel_pieces pieces(beyond_parameters);
            ferry_prepared *prepared = nullptr;
            ASSERT_OK(pieces.prepare(ferry.get(), stream, by_kernel | updatable, &prepared));
            kernel_pieces moved(beyond_parameters);
            driver.fail(entry, CUDA_ERROR_OUT_OF_MEMORY, nth, true);
            if (!std::strcmp(entry, "cuStreamSynchronize")) driver.fail("cuEventRecord", CUDA_ERROR_OUT_OF_MEMORY);
            const std::int32_t status = ferry_prepared_set_addresses(
                prepared,
                in_arrays(moved.destinations.data(), moved.sources.data(), nullptr, moved.destinations.size()), stream,
                nullptr);
            driver.heal();
            CUcontext current = nullptr;
            EXPECT_OK(raw().cuCtxGetCurrent(&current));
            EXPECT_EQ(current, context);
            ASSERT_OK(ferry_prepared_launch(prepared, nullptr, stream, nullptr, nullptr));
            ASSERT_OK(raw().cuStreamSynchronize(stream));
            EXPECT_EQ(status == FERRY_SUCCESS, moved.have_arrived());
            EXPECT_EQ(status != FERRY_SUCCESS, pieces.have_arrived());
            EXPECT_OK(ferry_prepared_destroy(prepared, nullptr));
        }
}

TEST_F(lifetimes, closing_frees_no_table_that_ended_with_its_context) {
    driver.fail("cuMemHostRegister", CUDA_ERROR_NOT_SUPPORTED, 1, true); // tables then come from cuMemHostAlloc
    own_context own(ferry.get());
    ASSERT_OK(ferry_context_adopt(ferry.get(), 0, own.handle, nullptr));
    {
        const made_current in_own(own.handle);
        const test_stream stream;
        const kernel_pieces pieces(beyond_parameters);
        driver.reset_counts();
        ASSERT_OK(pieces.copy(ferry.get(), stream));
        EXPECT_GT(driver.calls("cuMemHostAlloc"), 0);
    }
    own.destroy();
    driver.reset_counts();
    ferry.reset();
    EXPECT_EQ(driver.calls("cuMemFreeHost"), 0) << "the address may belong to a new allocation";
}

// ---- Captures, failures and threads

// Makes copies and batches of all forms, with memory of its own.
struct everything {
    std::int32_t run(ferry_instance *ferry, CUstream stream, const ferry_array &from) {
        ferry_copy_desc box = all_of(from, to);
        box.width = 64;
        box.height = box.depth = 2;
        std::vector<ferry_copy_desc> boxes(80, box);
        for (std::size_t i = 0; i < boxes.size(); ++i)
            boxes[i].destination.address = to + i * 4096;
        std::int32_t first =
            ferry_copy_batch_async(ferry, boxes.data(), boxes.size(), nullptr, stream, nullptr, nullptr);
        box.destination.address = to + boxes.size() * 4096;
        const auto note = [&](std::int32_t status) { first = first ? first : status; };
        note(ferry_copy_batch_async(ferry, &box, 1, by_driver, stream, nullptr, nullptr));
        note(pieces.copy(ferry, stream));
        ferry_prepared *prepared = nullptr;
        note(pieces.prepare(ferry, stream, by_kernel | updatable, &prepared));
        if (!prepared) return first;
        note(ferry_prepared_launch(prepared, nullptr, stream, nullptr, nullptr));
        note(ferry_prepared_set_addresses(
            prepared, in_arrays(pieces.destinations.data(), nullptr, nullptr, pieces.destinations.size()), stream,
            nullptr));
        note(ferry_prepared_launch(prepared, nullptr, stream, nullptr, nullptr));
        note(ferry_prepared_destroy(prepared, nullptr));
        return first;
    }
    kernel_pieces pieces{beyond_parameters};
    device_memory to{1 << 20};
};

TEST_F(lifetimes, batches_on_other_streams_do_not_break_captures) {
    const test_stream captured, other;
    const device_memory memory(64);
    everything all;
    for (const bool is_of_this_thread : {false, true}) {
        SCOPED_TRACE(is_of_this_thread ? "of this thread" : "of another thread");
        ferry = open_or_fail(options()); // a new instance has loaded nothing yet
        ferry_array from(ferry.get(), array_kinds[2], texels[2]);
        ASSERT_OK(raw().cuStreamBeginCapture(captured, CU_STREAM_CAPTURE_MODE_GLOBAL));
        const auto run = [&] {
            for (int round = 0; round < 3; ++round)
                EXPECT_OK(all.run(ferry.get(), other, from));
        };
        if (is_of_this_thread)
            run();
        else
            std::thread([&] {
                const made_current as(context);
                run();
            }).join();
        EXPECT_OK(raw().cuMemsetD8Async(memory, 1, 64, captured));
        CUgraph graph = nullptr;
        EXPECT_OK(raw().cuStreamEndCapture(captured, &graph));
        EXPECT_OK(raw().cuGraphDestroy(graph));
        ASSERT_OK(raw().cuStreamSynchronize(other));
        EXPECT_TRUE(all.pieces.have_arrived());
    }
}

TEST_F(lifetimes, whatever_fails_the_context_is_restored_and_nothing_leaks) {
    const char *const entries[] = {"cuArray3DGetDescriptor",
                                   "cuCtxGetCurrent",
                                   "cuCtxPushCurrent",
                                   "cuEventCreate",
                                   "cuEventQuery",
                                   "cuEventRecord",
                                   "cuKernelGetFunction",
                                   "cuLaunchKernel",
                                   "cuLibraryGetKernel",
                                   "cuLibraryLoadData",
                                   "cuMemAlloc",
                                   "cuMemHostRegister",
                                   "cuMemcpy3DAsync",
                                   "cuMemcpy3DBatchAsync",
                                   "cuPointerGetAttributes",
                                   "cuStreamCreateWithPriority",
                                   "cuStreamGetCtx",
                                   "cuStreamGetId",
                                   "cuStreamIsCapturing",
                                   "cuStreamSynchronize",
                                   "cuSurfObjectCreate"};
    const test_stream stream;
    everything all;
    for (const char *const entry : entries)
        for (int nth = 1; nth <= 40; nth = nth < 6 ? nth + 1 : nth * 2) {
            SCOPED_TRACE(testing::Message() << entry << " fails at its call number " << nth);
            ferry = open_or_fail(options());
            ferry_array from(ferry.get(), array_kinds[2], texels[2]);
            driver.reset_counts();
            driver.fail(entry, CUDA_ERROR_NOT_PERMITTED, nth);
            {
                const made_current none(nullptr);
                all.run(ferry.get(), stream, from);
                driver.heal();
                CUcontext current = nullptr;
                EXPECT_OK(raw().cuCtxGetCurrent(&current));
                EXPECT_EQ(current, nullptr);
                CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
                EXPECT_OK(raw().cuThreadExchangeStreamCaptureMode(&mode));
                EXPECT_EQ(mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
            }
            ASSERT_OK(raw().cuStreamSynchronize(stream));
            const int failed_alloc = !std::strcmp(entry, "cuMemAlloc") && driver.calls(entry) >= nth;
            EXPECT_EQ(driver.calls("cuMemAlloc") - failed_alloc, driver.calls("cuMemFree"));
            const int failed_surface = !std::strcmp(entry, "cuSurfObjectCreate") && driver.calls(entry) >= nth;
            if (std::strcmp(entry, "cuLibraryLoadData") && std::strcmp(entry, "cuLibraryGetKernel")) {
                EXPECT_OK(all.run(ferry.get(), stream, from)) << "once nothing fails any more";
                ASSERT_OK(raw().cuStreamSynchronize(stream));
                EXPECT_TRUE(all.pieces.have_arrived());
            }
            from.destroy();
            EXPECT_EQ(driver.calls("cuSurfObjectCreate") - failed_surface, driver.calls("cuSurfObjectDestroy"));
            ferry.reset();
            const int failed_register = !std::strcmp(entry, "cuMemHostRegister") && driver.calls(entry) >= nth;
            EXPECT_EQ(host_memory_held() - failed_register, 0);
        }
}

TEST_F(lifetimes, threads_do_everything_at_the_same_time_while_the_context_changes) {
    own_context own(ferry.get());
    ferry_array shared(ferry.get(), array_kinds[2], texels[2]);
    std::atomic<int> left = 3;
    std::vector<std::thread> threads;
    for (int thread = 0; thread < 3; ++thread)
        threads.emplace_back([&, thread] {
            const made_current as(context);
            const test_stream stream;
            everything all;
            for (int round = 0; round < 8; ++round) {
                EXPECT_OK(all.run(ferry.get(), stream, shared));
                if (thread == 0) {
                    ferry_array brief(ferry.get(), array_kinds[1], texels[2]);
                    const ferry_copy_desc copy = all_of(brief, all.to);
                    const std::int32_t status = ferry_copy_async(ferry.get(), &copy, nullptr, stream, nullptr, nullptr);
                    // The array may have been made in the other context.
                    EXPECT_TRUE(status == FERRY_SUCCESS || status == FERRY_ERROR_ROUTE);
                }
                EXPECT_OK(raw().cuStreamSynchronize(stream));
                EXPECT_TRUE(all.pieces.have_arrived());
            }
            --left;
        });
    while (left > 0) {
        EXPECT_OK(ferry_context_adopt(ferry.get(), 0, own.handle, nullptr));
        std::this_thread::yield();
        EXPECT_OK(ferry_context_adopt(ferry.get(), 0, nullptr, nullptr));
        std::this_thread::yield();
    }
    for (std::thread &one : threads)
        one.join();
}

} // namespace
} // namespace ferry::test
