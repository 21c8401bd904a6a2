// Tests arrays and memory that are freed in stream order: no call waits, an array is reused only after
// the free has completed on its stream, and everything is destroyed exactly once.
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <future>
#include <mutex>
#include <thread>
#include <vector>

#include "support/captured_graph.h"
#include "support/counted_test.h"
#include "support/emulator.h"
#include "support/gate.h"
#include "support/how.h"
#include "support/raw_objects.h"
#include "support/replaced_call.h"
#include "support/system.h"

namespace ferry::test {
namespace {

constexpr std::uint64_t side = 64;

ferry_array_desc description(std::uint64_t width = side, std::uint32_t flags = 0) {
    return {.struct_size = sizeof(ferry_array_desc),
            .format = FERRY_FORMAT_UINT8,
            .channels = 4,
            .flags = flags,
            .width = width,
            .height = side,
            .depth = 0};
}

class deferred_frees : public counted_test {
protected:
    CUarray make(const ferry_array_desc &desc = description(), int device = 0) {
        CUarray made = nullptr;
        EXPECT_OK(ferry_array_create(counted.get(), device, &desc, &made, nullptr));
        return made;
    }
    CUmipmappedArray make_mipmapped(std::uint32_t levels = 3) {
        const ferry_array_desc desc = description();
        CUmipmappedArray made = nullptr;
        EXPECT_OK(ferry_mipmapped_array_create(counted.get(), 0, &desc, levels, &made, nullptr));
        return made;
    }
    std::uint64_t allocate(std::uint64_t size) {
        std::uint64_t made = 0;
        EXPECT_OK(ferry_device_alloc(counted.get(), 0, size, &made, nullptr));
        return made;
    }
    void *allocate_host(std::uint64_t size, std::uint32_t flags = 0) {
        void *made = nullptr;
        EXPECT_OK(allocate_pinned(counted.get(), size, flags, &made));
        return made;
    }
    std::int32_t give_up(void *host) { return ferry_host_free_deferred(counted.get(), host, stream, nullptr); }
    std::int32_t give_up(CUarray array) { return ferry_array_destroy_deferred(counted.get(), array, stream, nullptr); }
    std::int32_t give_up(std::uint64_t address) {
        return ferry_device_free_deferred(counted.get(), address, stream, nullptr);
    }
    void expect_kept(std::uint32_t arrays, std::uint32_t allocations, std::uint64_t bytes, int device = -1) {
        ferry_deferred_info info = {};
        info.struct_size = sizeof info;
        EXPECT_OK(ferry_deferred_get_info(counted.get(), device, &info, nullptr));
        EXPECT_EQ(arrays, info.arrays);
        EXPECT_EQ(allocations, info.allocations);
        EXPECT_EQ(bytes, info.bytes);
    }
    std::int32_t trim(std::uint64_t keep = 0, int device = -1) {
        return ferry_deferred_trim(counted.get(), device, keep, nullptr);
    }
    // Waits until the frees have completed on the stream, without invalidating a capture of this thread.
    void pass() {
        CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
        EXPECT_OK(raw().cuThreadExchangeStreamCaptureMode(&mode));
        EXPECT_OK(raw().cuStreamSynchronize(stream));
        EXPECT_OK(raw().cuThreadExchangeStreamCaptureMode(&mode));
    }
    void open(const ferry_options &options) {
        counted.reset();
        counted = open_or_fail(options);
        driver.reset_counts();
    }

    void copy(CUarray array, bytes &host, bool to_array, const how &options) {
        ferry_copy_desc copy = {};
        ferry_place &texels = to_array ? copy.destination : copy.source,
                    &memory = to_array ? copy.source : copy.destination;
        ferry_place_array(&texels, 0, array);
        ferry_place_any(&memory, reinterpret_cast<std::uintptr_t>(host.data()));
        copy.width = 4 * side;
        copy.height = side;
        ferry_error_info error = new_error();
        ASSERT_OK(ferry_copy(counted.get(), &copy, options, &error)) << describe(error);
    }
};

constexpr std::uint64_t array_size = side * side * 4;

// ---- Reuse ------------------------------------------------------------------------------------------------------

TEST_F(deferred_frees, an_array_is_reused_only_after_its_free_has_completed) {
    const CUarray array = make();
    CUarray early = nullptr;
    {
        gate held(stream);
        ASSERT_OK(give_up(array));
        expect_kept(1, 0, array_size);
        early = make();
        EXPECT_NE(array, early);
    }
    EXPECT_EQ(array, make());
    EXPECT_EQ(2, driver.calls("cuArray3DCreate"));
    EXPECT_EQ(0, driver.calls("cuArrayDestroy"));
    expect_kept(0, 0, 0);
    EXPECT_OK(ferry_array_destroy(counted.get(), array, nullptr));
    EXPECT_OK(ferry_array_destroy(counted.get(), early, nullptr));
}

TEST_F(deferred_frees, an_array_of_another_description_is_not_reused) {
    const CUarray array = make();
    ASSERT_OK(give_up(array));
    pass();
    std::vector<ferry_array_desc> others(6, description());
    others[0].width *= 2;
    others[1].height /= 2;
    others[2].depth = 2;
    others[3].channels = 2;
    others[4].format = FERRY_FORMAT_SINT8;
    others[5].flags = FERRY_ARRAY_SURFACE;
    for (const ferry_array_desc &other : others) {
        const CUarray made = make(other);
        EXPECT_NE(array, made);
        EXPECT_OK(ferry_array_destroy(counted.get(), made, nullptr));
    }
    EXPECT_EQ(array, make());
    EXPECT_OK(ferry_array_destroy(counted.get(), array, nullptr));
}

TEST_F(deferred_frees, a_mipmapped_array_is_reused_only_for_the_same_number_of_levels) {
    const CUmipmappedArray array = make_mipmapped(3);
    CUarray level = nullptr, again = nullptr;
    ASSERT_OK(ferry_mipmapped_array_get_level(counted.get(), array, 1, &level, nullptr));
    EXPECT_EQ(FERRY_ERROR_INVALID_ARGUMENT, give_up(level));
    ASSERT_OK(ferry_mipmapped_array_destroy_deferred(counted.get(), array, stream, nullptr));
    expect_kept(1, 0, array_size + array_size / 4 + array_size / 16);
    EXPECT_EQ(FERRY_ERROR_INVALID_ARGUMENT,
              ferry_mipmapped_array_destroy_deferred(counted.get(), array, stream, nullptr));
    EXPECT_EQ(FERRY_ERROR_INVALID_ARGUMENT, ferry_mipmapped_array_destroy(counted.get(), array, nullptr));
    pass();
    const CUmipmappedArray smaller = make_mipmapped(2);
    EXPECT_NE(array, smaller);
    EXPECT_EQ(array, make_mipmapped(3));
    ASSERT_OK(ferry_mipmapped_array_get_level(counted.get(), array, 1, &again, nullptr));
    EXPECT_EQ(level, again);
    EXPECT_OK(ferry_mipmapped_array_destroy(counted.get(), array, nullptr));
    EXPECT_OK(ferry_mipmapped_array_destroy_deferred(counted.get(), smaller, stream, nullptr));
    pass();
    EXPECT_OK(trim());
    EXPECT_EQ(2, driver.calls("cuMipmappedArrayDestroy"));
}

TEST_F(deferred_frees, reused_arrays_hold_the_bytes_of_their_new_owner) {
    if (!has_kernels()) GTEST_SKIP() << "the driver cannot load kernels";
    for (const how &options : {how(), by_driver, by_staging}) {
        CUarray last = nullptr;
        for (std::uint64_t round = 0; round < 6; ++round) {
            SCOPED_TRACE(testing::Message() << options << ", round " << round);
            const CUarray array = make(description(side, FERRY_ARRAY_SURFACE));
            if (last) {
                EXPECT_EQ(last, array);
            }
            bytes picture = random_bytes(array_size, round), back(array_size);
            copy(array, picture, true, options);
            copy(array, back, false, options);
            EXPECT_TRUE(picture == back);
            ASSERT_OK(give_up(last = array));
            pass();
        }
    }
    EXPECT_EQ(1, driver.calls("cuArray3DCreate"));
    EXPECT_LE(driver.calls("cuSurfObjectCreate"), 1); // the surface stays with the array
    EXPECT_OK(trim());
    EXPECT_EQ(1, driver.calls("cuArrayDestroy"));
    EXPECT_EQ(driver.calls("cuSurfObjectCreate"), driver.calls("cuSurfObjectDestroy"));
}

TEST_F(deferred_frees, an_array_of_another_device_is_not_reused) {
    if (device_count() < 2) GTEST_SKIP() << "needs two devices";
    const CUarray array = make(description(), 1);
    ASSERT_OK(ferry_array_destroy_deferred(counted.get(), array, nullptr,
                                           nullptr)); // the default stream of the array's device
    expect_kept(0, 0, 0, 0);
    expect_kept(1, 0, array_size, 1);
    EXPECT_OK(ferry_context_synchronize(counted.get(), 1, nullptr, nullptr));
    const CUarray other = make();
    EXPECT_NE(array, other);
    EXPECT_OK(trim(0, 0));
    EXPECT_EQ(0, driver.calls("cuArrayDestroy"));
    EXPECT_EQ(array, make(description(), 1));
    EXPECT_OK(ferry_array_destroy(counted.get(), array, nullptr));
    EXPECT_OK(ferry_array_destroy(counted.get(), other, nullptr));
}

// ---- No call waits ----------------------------------------------------------------------------------------------

// Runs `work` in another thread and returns whether the work ends within 20 s.
bool returns(const std::function<void()> &work) {
    const auto done = std::make_shared<std::promise<void>>();
    std::future<void> over = done->get_future();
    std::thread([done, work] {
        work();
        done->set_value();
    }).detach();
    return over.wait_for(std::chrono::seconds(20)) == std::future_status::ready;
}

TEST_F(deferred_frees, freeing_does_not_wait_for_work) {
    const CUarray array = make(), passed = make(description(2 * side));
    const CUmipmappedArray mipmapped = make_mipmapped();
    const std::uint64_t memory = allocate(1 << 20);
    std::uint64_t pitched = 0, pitch = 0;
    ASSERT_OK(ferry_device_alloc_pitched(counted.get(), 0, 1000, 10, 4, &pitched, &pitch, nullptr));
    ASSERT_OK(give_up(passed));
    pass();
    driver.reset_counts();
    CUarray again = nullptr;
    {
        gate held(stream);
        EXPECT_TRUE(returns([&, instance = counted.get()] {
            EXPECT_OK(ferry_array_destroy_deferred(instance, array, stream, nullptr));
            EXPECT_OK(ferry_mipmapped_array_destroy_deferred(instance, mipmapped, stream, nullptr));
            EXPECT_OK(ferry_device_free_deferred(instance, memory, stream, nullptr));
            EXPECT_OK(ferry_device_free_deferred(instance, pitched, stream, nullptr));
            const ferry_array_desc desc = description(2 * side);
            EXPECT_OK(ferry_array_create(instance, 0, &desc, &again, nullptr));
            EXPECT_OK(ferry_deferred_trim(instance, 0, 0, nullptr)); // no free has completed on the stream
        }));
        expect_kept(2, 2, array_size + array_size / 16 * 21 + (1 << 20) + pitch * 10);
    }
    EXPECT_EQ(passed, again);
    for (const char *const waits : {"cuArrayDestroy", "cuMipmappedArrayDestroy", "cuMemFree"})
        EXPECT_EQ(0, driver.calls(waits)) << waits;
    EXPECT_OK(trim());
    EXPECT_EQ(1, driver.calls("cuArrayDestroy"));
    EXPECT_EQ(1, driver.calls("cuMipmappedArrayDestroy"));
    EXPECT_EQ(2, driver.calls("cuMemFree"));
    expect_kept(0, 0, 0);
    EXPECT_OK(ferry_array_destroy(counted.get(), again, nullptr));
}

// A job system with one thread, which moves the bytes of staged copies and runs the program's jobs.
struct one_worker {
    static std::int32_t submit(void *user, void (*work)(void *), void *argument) {
        static_cast<one_worker *>(user)->push([=] { work(argument); });
        return 1;
    }
    void push(std::function<void()> job) {
        const std::lock_guard lock(mutex);
        jobs.push_back(std::move(job));
        wake.notify_all();
    }
    std::size_t waiting() {
        const std::lock_guard lock(mutex);
        return jobs.size();
    }
    void begin() {
        const std::lock_guard lock(mutex);
        is_held = false;
        wake.notify_all();
    }
    void hold() {
        const std::lock_guard lock(mutex);
        is_held = true;
    }
    ~one_worker() {
        {
            const std::lock_guard lock(mutex);
            is_over = true;
            is_held = false;
        }
        wake.notify_all();
        thread.join();
    }
    void run() {
        std::unique_lock lock(mutex);
        for (;;) {
            wake.wait(lock, [&] { return !is_held && (is_over || !jobs.empty()); });
            if (jobs.empty()) return;
            const std::function<void()> job = std::move(jobs.front());
            jobs.pop_front();
            lock.unlock();
            job();
            lock.lock();
        }
    }
    std::mutex mutex;
    std::condition_variable wake;
    std::deque<std::function<void()>> jobs;
    bool is_over = false, is_held = false;
    std::thread thread{[this] { run(); }};
};

// The frame loop of a program with one worker. The job that frees the last frame's texture comes before the work of the
// copy in flight, and must not wait for that copy.
TEST_F(deferred_frees, the_only_worker_frees_arrays_while_a_copy_waits_for_it) {
    if (!has_kernels()) GTEST_SKIP() << "the driver cannot load kernels";
    one_worker worker;
    ferry_options options = driver.options();
    options.submit = one_worker::submit;
    options.submit_user = &worker;
    options.staging_threads = 1;
    options.staging = FERRY_STAGING_AT_OPEN;
    options.copy_options = by_staging;
    open(options);
    const std::uint64_t size = 1 << 20;
    const device_memory target(size);
    std::int32_t given = FERRY_SUCCESS;
    for (std::uint64_t frame = 0; frame < 10; ++frame) {
        const CUarray old = make();
        const std::uint64_t memory = allocate(1024);
        const bytes picture = random_bytes(size, frame);
        worker.hold();
        worker.push([&, old, memory] {
            given = give_up(old);
            if (!given) given = give_up(memory);
        });
        ASSERT_OK(ferry_copy_bytes_async(counted.get(), target, reinterpret_cast<std::uintptr_t>(picture.data()), size,
                                         nullptr, stream, nullptr, nullptr));
        while (worker.waiting() < 2) // the program's job and the copy's work
            std::this_thread::yield();
        worker.begin();
        const CUstream waited_for = stream;
        ASSERT_TRUE(returns([waited_for] { EXPECT_OK(raw().cuStreamSynchronize(waited_for)); }));
        EXPECT_OK(given);
        EXPECT_TRUE(read_back(target, size) == picture);
        ASSERT_OK(raw().cuStreamSynchronize(stream)); // for the free, which may have begun after that wait
    }
    EXPECT_EQ(1, driver.calls("cuArray3DCreate"));
    counted.reset();
    EXPECT_EQ(1, driver.calls("cuArrayDestroy"));
}

// ---- Destruction ------------------------------------------------------------------------------------------------

TEST_F(deferred_frees, trimming_keeps_the_given_number_of_bytes_and_closing_none) {
    const std::uint64_t size = 1 << 20;
    for (int i = 0; i < 4; ++i)
        ASSERT_OK(give_up(allocate(size)));
    const CUarray array = make();
    ASSERT_OK(give_up(array));
    pass();
    EXPECT_OK(trim(UINT64_MAX));
    EXPECT_OK(trim(4 * size + array_size));
    EXPECT_EQ(0, driver.calls("cuMemFree"));
    EXPECT_OK(trim(2 * size + array_size));
    EXPECT_EQ(2, driver.calls("cuMemFree"));
    expect_kept(1, 2, 2 * size + array_size);
    gate held(stream);
    const std::uint64_t late = allocate(size);
    ASSERT_OK(give_up(late));
    held.let_go();
    counted.reset(); // waits for the stream
    EXPECT_EQ(5, driver.calls("cuMemFree"));
    EXPECT_EQ(1, driver.calls("cuArrayDestroy"));
    EXPECT_EQ(driver.calls("cuEventCreate"), driver.calls("cuEventDestroy"));
    held.open();
}

TEST_F(deferred_frees, an_allocation_that_finds_no_memory_destroys_arrays_whose_free_has_completed) {
    const std::uint64_t size = 1 << 20;
    const auto out_of_memory = [&](const char *entry) { driver.fail(entry, CUDA_ERROR_OUT_OF_MEMORY); };
    const CUarray kept = make();
    ASSERT_OK(give_up(kept));
    pass();
    out_of_memory("cuArray3DCreate");
    const CUarray wider = make(description(2 * side));
    EXPECT_EQ(1, driver.calls("cuArrayDestroy"));
    ASSERT_OK(give_up(wider));
    pass();
    out_of_memory("cuMemAlloc");
    const std::uint64_t memory = allocate(size);
    EXPECT_EQ(2, driver.calls("cuArrayDestroy"));
    ASSERT_OK(give_up(memory));
    pass();
    out_of_memory("cuMemAllocPitch");
    std::uint64_t pitched = 0, pitch = 0;
    ASSERT_OK(ferry_device_alloc_pitched(counted.get(), 0, 1000, 10, 4, &pitched, &pitch, nullptr));
    EXPECT_EQ(1, driver.calls("cuMemFree"));
    ASSERT_OK(give_up(pitched));
    pass();
    out_of_memory("cuMipmappedArrayCreate");
    const CUmipmappedArray mipmapped = make_mipmapped();
    EXPECT_EQ(2, driver.calls("cuMemFree"));

    gate held(stream);
    ASSERT_OK(ferry_mipmapped_array_destroy_deferred(counted.get(), mipmapped, stream, nullptr));
    out_of_memory("cuArray3DCreate");
    const ferry_array_desc desc = description();
    CUarray none = nullptr;
    EXPECT_EQ(-1000 - CUDA_ERROR_OUT_OF_MEMORY, ferry_array_create(counted.get(), 0, &desc, &none, nullptr));
    EXPECT_EQ(nullptr, none);
    EXPECT_EQ(0, driver.calls("cuMipmappedArrayDestroy"));
}

TEST_F(deferred_frees, the_next_allocation_destroys_the_oldest_frees_beyond_the_limit) {
    const std::uint64_t size = 1 << 20;
    ferry_options options = driver.options();
    options.deferred_bytes = 2 * size;
    open(options);
    const std::uint64_t first = allocate(size), second = allocate(size), third = allocate(size / 2);
    for (const std::uint64_t one : {first, second})
        ASSERT_OK(give_up(one));
    pass();
    const std::uint64_t fourth = allocate(size);
    EXPECT_EQ(0, driver.calls("cuMemFree"));
    ASSERT_OK(give_up(third));
    pass();
    const CUarray array = make();
    EXPECT_EQ(1, driver.calls("cuMemFree"));
    expect_kept(0, 2, size + size / 2);
    EXPECT_EQ(FERRY_ERROR_ADDRESS,
              ferry_device_free(counted.get(), second, nullptr)); // still kept, since it was not the oldest
    EXPECT_OK(ferry_device_free(counted.get(), fourth, nullptr));
    EXPECT_OK(ferry_array_destroy(counted.get(), array, nullptr));
}

// ---- Refused ----------------------------------------------------------------------------------------------------

TEST_F(deferred_frees, invalid_frees_are_refused_and_change_nothing) {
    ferry_instance *const instance = counted.get();
    EXPECT_OK(ferry_array_destroy_deferred(instance, nullptr, stream, nullptr));
    EXPECT_OK(ferry_mipmapped_array_destroy_deferred(instance, nullptr, stream, nullptr));
    EXPECT_OK(ferry_device_free_deferred(instance, 0, stream, nullptr));
    EXPECT_EQ(FERRY_ERROR_INVALID_ARGUMENT, ferry_array_destroy_deferred(nullptr, nullptr, stream, nullptr));
    EXPECT_EQ(FERRY_ERROR_INVALID_ARGUMENT, ferry_mipmapped_array_destroy_deferred(nullptr, nullptr, stream, nullptr));
    EXPECT_EQ(FERRY_ERROR_INVALID_ARGUMENT, ferry_device_free_deferred(nullptr, 0, stream, nullptr));
    EXPECT_EQ(FERRY_ERROR_INVALID_ARGUMENT, ferry_deferred_trim(nullptr, 0, 0, nullptr));
    EXPECT_EQ(FERRY_ERROR_DEVICE, ferry_deferred_trim(instance, device_count(), 0, nullptr));
    EXPECT_EQ(FERRY_ERROR_DEVICE, ferry_deferred_trim(instance, -2, 0, nullptr));
    ferry_deferred_info info = {};
    EXPECT_EQ(FERRY_ERROR_INVALID_ARGUMENT, ferry_deferred_get_info(instance, 0, nullptr, nullptr));
    EXPECT_EQ(FERRY_ERROR_ABI_MISMATCH, ferry_deferred_get_info(instance, 0, &info, nullptr));
    info.struct_size = sizeof info;
    EXPECT_EQ(FERRY_ERROR_DEVICE, ferry_deferred_get_info(instance, device_count(), &info, nullptr));

    const CUarray twice = make();
    ASSERT_OK(give_up(twice));
    EXPECT_EQ(FERRY_ERROR_INVALID_ARGUMENT, give_up(twice));
    EXPECT_EQ(FERRY_ERROR_INVALID_ARGUMENT, ferry_array_destroy(instance, twice, nullptr));
    CUDA_ARRAY3D_DESCRIPTOR raw_desc = {side, side, 0, CU_AD_FORMAT_UNSIGNED_INT8, 4, 0};
    CUarray foreign = nullptr;
    ASSERT_OK(raw().cuArray3DCreate(&foreign, &raw_desc));
    EXPECT_EQ(FERRY_ERROR_INVALID_ARGUMENT, give_up(foreign));
    EXPECT_OK(raw().cuArrayDestroy(foreign));

    const std::uint64_t memory = allocate(4096);
    EXPECT_EQ(FERRY_ERROR_ADDRESS, give_up(memory + 1));
    ASSERT_OK(give_up(memory));
    EXPECT_EQ(FERRY_ERROR_ADDRESS, give_up(memory));
    EXPECT_EQ(FERRY_ERROR_ADDRESS, ferry_device_free(instance, memory, nullptr));
    int here = 0;
    EXPECT_EQ(FERRY_ERROR_ADDRESS, give_up(reinterpret_cast<std::uintptr_t>(&here)));
    const pinned_memory pinned(4096);
    EXPECT_EQ(FERRY_ERROR_ADDRESS, give_up(reinterpret_cast<std::uintptr_t>(pinned.data())));
    std::uint64_t pooled = 0;
    if (ferry_device_alloc_async(instance, 0, 4096, stream, &pooled, nullptr) == FERRY_SUCCESS) {
        EXPECT_EQ(FERRY_ERROR_ADDRESS, give_up(pooled)); // ferry_device_free_async is for pool memory
        EXPECT_OK(ferry_device_free_async(instance, pooled, stream, nullptr));
    }
    expect_kept(1, 1, array_size + 4096);
}

TEST_F(deferred_frees, freeing_is_refused_on_a_capturing_stream_and_breaks_no_capture) {
    const CUarray array = make();
    const std::uint64_t memory = allocate(4096);
    test_stream capturing, blocking(CU_STREAM_DEFAULT);
    {
        captured_graph graph(capturing);
        EXPECT_EQ(FERRY_ERROR_CAPTURE, ferry_array_destroy_deferred(counted.get(), array, capturing, nullptr));
        EXPECT_EQ(FERRY_ERROR_CAPTURE, ferry_device_free_deferred(counted.get(), memory, capturing, nullptr));
        expect_kept(0, 0, 0);
        ASSERT_OK(give_up(array));
        ASSERT_OK(give_up(memory));
        pass();
        EXPECT_EQ(array, make());
        ASSERT_OK(give_up(array));
        pass();
        EXPECT_OK(trim());
        expect_kept(0, 0, 0);
        graph.end();
        graph.run();
    }
    const CUarray other = make();
    captured_graph graph(blocking);
    EXPECT_EQ(FERRY_ERROR_CAPTURE, ferry_array_destroy_deferred(counted.get(), other, nullptr, nullptr));
    graph.end();
    ASSERT_OK(ferry_array_destroy_deferred(counted.get(), other, nullptr, nullptr));
    ASSERT_OK(ferry_array_destroy_deferred(
        counted.get(), make(), reinterpret_cast<CUstream>(std::uintptr_t{FERRY_DEFAULT_STREAM_PER_THREAD}), nullptr));
}

// ---- Host memory ------------------------------------------------------------------------------------------------

constexpr std::uint64_t host_size = 40'000;

// Flags of each origin of host memory, and the call that ends its pinning.
struct host_form {
    std::uint32_t flags;
    std::int32_t origin;
    const char *end;
};
constexpr host_form host_forms[] = {{0, FERRY_HOST_FROM_MAPPING, "cuMemHostUnregister"},
                                    {FERRY_HOST_BY_DRIVER, FERRY_HOST_FROM_DRIVER, "cuMemFreeHost"},
                                    {FERRY_HOST_WRITE_COMBINED, FERRY_HOST_FROM_DRIVER, "cuMemFreeHost"}};

TEST_F(deferred_frees, host_memory_stays_valid_until_its_free_has_completed) {
    for (const host_form &form : host_forms) {
        SCOPED_TRACE(form.flags);
        void *const memory = allocate_host(host_size, form.flags);
        const device_memory target(host_size);
        const bytes data = random_bytes(host_size, form.flags);
        std::memcpy(memory, data.data(), host_size);
        driver.reset_counts();
        {
            gate held(stream);
            ASSERT_OK(ferry_copy_bytes_async(counted.get(), target, reinterpret_cast<std::uintptr_t>(memory), host_size,
                                             nullptr, stream, nullptr, nullptr));
            EXPECT_TRUE(returns([&, instance = counted.get()] {
                EXPECT_OK(ferry_host_free_deferred(instance, memory, stream, nullptr));
                EXPECT_OK(ferry_deferred_trim(instance, FERRY_DEVICE_UNKNOWN, 0, nullptr));
            }));
            expect_kept(0, 1, host_size);
            expect_kept(0, 0, 0, 0); // host memory is on no device
        }
        pass();
        EXPECT_TRUE(read_back(target, host_size) == data);
        EXPECT_OK(trim(0, 0));
        EXPECT_EQ(0, driver.calls("cuMemHostUnregister") + driver.calls("cuMemFreeHost"));
        EXPECT_OK(trim(host_size));
        expect_kept(0, 1, host_size);
        EXPECT_OK(trim());
        expect_kept(0, 0, 0);
        EXPECT_EQ(1, driver.calls("cuMemHostUnregister") + driver.calls("cuMemFreeHost"));
        if (on_software_driver()) { // on a GPU ferry may map no memory at all
            EXPECT_EQ(1, driver.calls(form.end));
        }
        ferry_address_info info = {};
        info.struct_size = sizeof info;
        EXPECT_OK(ferry_address_get_info(counted.get(), reinterpret_cast<std::uintptr_t>(memory), &info, nullptr));
        EXPECT_EQ(FERRY_MEMORY_PAGEABLE, info.memory);
    }
}

TEST_F(deferred_frees, host_memory_is_freed_once_whichever_call_frees_it) {
    for (const host_form &form : host_forms) {
        SCOPED_TRACE(form.flags);
        void *const memory = allocate_host(host_size, form.flags);
        char *const inside = static_cast<char *>(memory) + 4096;
        EXPECT_EQ(FERRY_ERROR_ADDRESS, give_up(inside));
        ASSERT_OK(give_up(memory));
        EXPECT_EQ(FERRY_ERROR_ADDRESS, give_up(memory));
        EXPECT_EQ(FERRY_ERROR_ADDRESS, give_up(inside));
        EXPECT_EQ(FERRY_ERROR_ADDRESS, ferry_host_free(counted.get(), memory, nullptr));
        EXPECT_NE(FERRY_SUCCESS, ferry_host_unregister(counted.get(), inside, nullptr));
        expect_kept(0, 1, host_size);
        pass();
        driver.reset_counts();
        EXPECT_OK(trim());
        EXPECT_EQ(1, driver.calls("cuMemHostUnregister") + driver.calls("cuMemFreeHost"));
        EXPECT_EQ(FERRY_ERROR_ADDRESS, give_up(memory));
        EXPECT_NE(FERRY_SUCCESS, ferry_host_free(counted.get(), memory, nullptr));
    }
}

TEST_F(deferred_frees, addresses_that_are_not_blocks_of_host_memory_are_refused) {
    ferry_instance *const instance = counted.get();
    EXPECT_OK(ferry_host_free_deferred(instance, nullptr, stream, nullptr));
    EXPECT_EQ(FERRY_ERROR_INVALID_ARGUMENT, ferry_host_free_deferred(nullptr, nullptr, stream, nullptr));
    int here = 0;
    EXPECT_EQ(FERRY_ERROR_ADDRESS, give_up(static_cast<void *>(&here)));
    const std::uint64_t on_device = allocate(4096);
    EXPECT_EQ(FERRY_ERROR_ADDRESS, give_up(reinterpret_cast<void *>(on_device)));
    EXPECT_OK(ferry_device_free(instance, on_device, nullptr));
    bytes own(3 * 4096);
    void *const page = reinterpret_cast<void *>((reinterpret_cast<std::uintptr_t>(own.data()) + 4095) / 4096 * 4096);
    ASSERT_OK(ferry_host_register(instance, page, 4096, 0, nullptr));
    EXPECT_EQ(FERRY_ERROR_ADDRESS, give_up(page));
    EXPECT_OK(ferry_host_unregister(instance, page, nullptr));
    ferry_pinned_pool *pool = nullptr;
    void *block = nullptr;
    ASSERT_OK(ferry_pinned_pool_create(instance, nullptr, &pool, nullptr));
    ASSERT_OK(ferry_pinned_pool_alloc(pool, 4096, &block, nullptr));
    EXPECT_EQ(FERRY_ERROR_ADDRESS, give_up(block));
    EXPECT_OK(ferry_pinned_pool_free(pool, block, nullptr));
    EXPECT_OK(ferry_pinned_pool_destroy(pool, nullptr));
    void *const memory = allocate_host(host_size);
    {
        test_stream capturing;
        captured_graph graph(capturing);
        EXPECT_EQ(FERRY_ERROR_CAPTURE, ferry_host_free_deferred(instance, memory, capturing, nullptr));
        ASSERT_OK(give_up(allocate_host(host_size))); // on another stream
        pass();
        EXPECT_OK(trim());
        graph.end();
        graph.run();
    }
    expect_kept(0, 0, 0);
    EXPECT_OK(ferry_host_free(instance, memory, nullptr)) << "still the caller's";
}

TEST_F(deferred_frees, pageable_host_memory_is_freed_without_a_call_of_the_driver) {
    ferry_host_options options = {};
    options.struct_size = sizeof options;
    options.flags = FERRY_HOST_ALLOW_PAGEABLE;
    ferry_host_block block = {};
    block.struct_size = sizeof block;
    driver.fail("cuMemHostRegister", CUDA_ERROR_OUT_OF_MEMORY, 1, true);
    driver.fail("cuMemHostAlloc", CUDA_ERROR_OUT_OF_MEMORY, 1, true);
    ASSERT_OK(ferry_host_alloc(counted.get(), host_size, &options, &block, nullptr));
    driver.heal();
    ASSERT_EQ(FERRY_HOST_FROM_SYSTEM, block.origin);
    ASSERT_OK(ferry_host_register(counted.get(), block.address, block.size, 0, nullptr));
    EXPECT_EQ(FERRY_ERROR_ADDRESS, give_up(block.address)) << "it is registered";
    ASSERT_OK(ferry_host_unregister(counted.get(), block.address, nullptr));
    ASSERT_OK(give_up(block.address));
    EXPECT_EQ(FERRY_ERROR_ADDRESS, give_up(block.address));
    EXPECT_EQ(FERRY_ERROR_ADDRESS, ferry_host_free(counted.get(), block.address, nullptr));
    expect_kept(0, 1, host_size);
    pass();
    driver.reset_counts();
    EXPECT_OK(trim());
    expect_kept(0, 0, 0);
    EXPECT_EQ(0, driver.calls("cuMemHostUnregister") + driver.calls("cuMemFreeHost"));
    EXPECT_NE(FERRY_SUCCESS, ferry_host_free(counted.get(), block.address, nullptr)) << "its record is gone";
}

TEST_F(deferred_frees, the_next_allocation_of_host_memory_frees_memory_beyond_the_limit) {
    ferry_options options = driver.options();
    options.deferred_bytes = host_size;
    open(options);
    const std::uint64_t on_device = allocate(2 * host_size);
    void *blocks[3] = {};
    for (void *&block : blocks)
        block = allocate_host(host_size, FERRY_HOST_BY_DRIVER);
    for (void *const block : blocks)
        ASSERT_OK(give_up(block));
    ASSERT_OK(give_up(on_device));
    pass();
    expect_kept(0, 4, 5 * host_size);
    driver.reset_counts();
    void *const next = allocate_host(host_size, FERRY_HOST_BY_DRIVER);
    expect_kept(0, 2, 3 * host_size); // one block, and the device's memory
    EXPECT_EQ(0, driver.calls("cuMemFree"));
    driver.fail("cuMemHostAlloc", CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_OK(ferry_host_free(counted.get(), allocate_host(host_size, FERRY_HOST_BY_DRIVER), nullptr));
    driver.heal();
    expect_kept(0, 1, 2 * host_size);
    EXPECT_OK(ferry_host_free(counted.get(), next, nullptr));
}

TEST_F(deferred_frees, pages_of_host_memory_outlive_the_context_that_they_were_pinned_in) {
    for (const bool by_ferry : {true, false}) {
        for (const host_form &form : host_forms) {
            SCOPED_TRACE(testing::Message() << by_ferry << ", flags " << form.flags);
            CUcontext made = nullptr;
            ASSERT_OK(ferry_context_create(counted.get(), 0, 0, &made, nullptr));
            ASSERT_OK(raw().cuCtxPushCurrent(made));
            void *const memory = allocate_host(host_size, form.flags);
            ASSERT_OK(raw().cuCtxPopCurrent(nullptr));
            ASSERT_OK(give_up(memory)); // on a stream of the primary context
            driver.reset_counts();
            if (by_ferry)
                ASSERT_OK(ferry_context_destroy(counted.get(), made, nullptr));
            else
                ASSERT_OK(raw().cuCtxDestroy(made));
            pass();
            // The driver may now give the address to someone else.
            void *const next = allocate_host(host_size, form.flags);
            EXPECT_OK(trim());
            expect_kept(0, 0, 0);
            EXPECT_EQ(0, driver.calls("cuMemFreeHost"));
            std::memset(next, 1, host_size);
            EXPECT_OK(ferry_host_free(counted.get(), next, nullptr));
            EXPECT_NE(FERRY_SUCCESS, ferry_host_free(counted.get(), memory, nullptr));
        }
    }
}

TEST_F(deferred_frees, closing_frees_host_memory_once_its_free_has_completed) {
    gate held(stream);
    for (const host_form &form : host_forms)
        ASSERT_OK(give_up(allocate_host(host_size, form.flags)));
    held.let_go();
    counted.reset();
    EXPECT_EQ(3, driver.calls("cuMemHostUnregister") + driver.calls("cuMemFreeHost"));
    EXPECT_EQ(driver.calls("cuEventCreate"), driver.calls("cuEventDestroy"));
    held.open();
}

TEST_F(deferred_frees, failing_driver_calls_leak_no_host_memory) {
    const char *const entries[] = {"cuCtxGetCurrent",     "cuStreamIsCapturing", "cuEventCreate",
                                   "cuEventRecord",       "cuEventQuery",        "cuThreadExchangeStreamCaptureMode",
                                   "cuMemHostUnregister", "cuMemFreeHost",       "cuPointerGetAttributes",
                                   "cuCtxPushCurrent",    "cuCtxGetId"};
    for (const char *const entry : entries)
        for (int nth = 1; nth <= 3; ++nth) {
            SCOPED_TRACE(testing::Message() << entry << " " << nth);
            open(driver.options());
            for (const host_form &form : host_forms) {
                void *const memory = allocate_host(host_size, form.flags);
                const made_current none(nullptr); // so that ferry has to push contexts
                driver.fail(entry, CUDA_ERROR_UNKNOWN, nth);
                const bool is_given = give_up(memory) == FERRY_SUCCESS;
                EXPECT_TRUE(raw().cuStreamSynchronize(stream) == CUDA_SUCCESS);
                static_cast<void>(trim());
                driver.heal();
                EXPECT_OK(trim());
                expect_kept(0, 0, 0);
                if (!is_given) {
                    EXPECT_OK(ferry_host_free(counted.get(), memory, nullptr));
                }
                ferry_address_info info = {};
                info.struct_size = sizeof info;
                EXPECT_OK(
                    ferry_address_get_info(counted.get(), reinterpret_cast<std::uintptr_t>(memory), &info, nullptr));
                EXPECT_EQ(FERRY_MEMORY_PAGEABLE, info.memory);
            }
        }
}

TEST_F(deferred_frees, only_one_of_several_threads_succeeds_in_freeing_a_block) {
    for (int round = 0; round < 50; ++round) {
        void *const memory = allocate_host(host_size, host_forms[round % 3].flags);
        std::atomic<int> frees = 0;
        std::vector<std::thread> threads;
        for (int thread = 0; thread < 3; ++thread)
            threads.emplace_back([&] {
                EXPECT_OK(raw().cuCtxSetCurrent(context));
                frees += give_up(memory) == FERRY_SUCCESS;
            });
        for (std::thread &thread : threads)
            thread.join();
        EXPECT_EQ(1, frees);
        if (round % 10 == 9) {
            pass();
            EXPECT_OK(trim());
        }
    }
    pass();
    EXPECT_OK(trim());
    expect_kept(0, 0, 0);
}

// ---- Streams, contexts and failures -----------------------------------------------------------------------------

TEST_F(deferred_frees, a_stream_may_be_destroyed_right_after_a_free) {
    const CUarray array = make();
    {
        test_stream gone;
        gate held(gone);
        ASSERT_OK(ferry_array_destroy_deferred(counted.get(), array, gone, nullptr));
        held.let_go();
    }
    EXPECT_OK(raw().cuCtxSynchronize());
    EXPECT_EQ(array, make());
    EXPECT_OK(ferry_array_destroy(counted.get(), array, nullptr));
}

TEST_F(deferred_frees, freed_arrays_and_memory_are_dropped_with_their_context) {
    for (const bool by_ferry : {true, false}) {
        SCOPED_TRACE(by_ferry);
        CUcontext made = nullptr;
        ASSERT_OK(ferry_context_create(counted.get(), 0, 0, &made, nullptr));
        ASSERT_OK(ferry_context_adopt(counted.get(), 0, made, nullptr));
        const CUarray there = make();
        const std::uint64_t memory = allocate(4096);
        CUstream_st *own = nullptr;
        ASSERT_OK(ferry_stream_create(counted.get(), 0, FERRY_STREAM_NON_BLOCKING, 0, &own, nullptr));
        ASSERT_OK(ferry_array_destroy_deferred(counted.get(), there, own, nullptr));
        ASSERT_OK(ferry_device_free_deferred(counted.get(), memory, own, nullptr));
        ASSERT_OK(ferry_context_adopt(counted.get(), 0, nullptr, nullptr));
        const CUarray here = make(); // of the primary context, but freed on a stream of `made`
        EXPECT_NE(there, here);
        ASSERT_OK(ferry_array_destroy_deferred(counted.get(), here, own, nullptr));
        driver.reset_counts();
        if (by_ferry)
            ASSERT_OK(ferry_context_destroy(counted.get(), made, nullptr));
        else
            ASSERT_OK(raw().cuCtxDestroy(made));
        EXPECT_EQ(here, make());
        EXPECT_OK(ferry_array_destroy(counted.get(), here, nullptr));
        EXPECT_OK(trim());
        expect_kept(0, 0, 0);
        EXPECT_EQ(1, driver.calls("cuArrayDestroy"));
        EXPECT_EQ(0, driver.calls("cuMemFree"));
    }
}

TEST_F(deferred_frees, failing_driver_calls_leak_nothing_and_destroy_nothing_twice) {
    const char *const entries[] = {"cuCtxGetCurrent",   "cuStreamGetCtx", "cuStreamIsCapturing",
                                   "cuCtxGetId",        "cuEventCreate",  "cuThreadExchangeStreamCaptureMode",
                                   "cuEventRecord",     "cuEventQuery",   "cuPointerGetAttributes",
                                   "cuCtxPushCurrent",  "cuArrayDestroy", "cuMemFree",
                                   "cuEventSynchronize"};
    for (const char *const entry : entries)
        for (int nth = 1; nth <= 3; ++nth) {
            SCOPED_TRACE(testing::Message() << entry << " " << nth);
            open(driver.options());
            const CUarray array = make();
            const std::uint64_t memory = allocate(4096);
            CUarray again = nullptr;
            {
                const made_current none(nullptr); // so that ferry has to push contexts
                const ferry_array_desc desc = description();
                driver.fail(entry, CUDA_ERROR_UNKNOWN, nth);
                const bool gave_array = give_up(array) == FERRY_SUCCESS, gave_memory = give_up(memory) == FERRY_SUCCESS;
                const bool has_passed = raw().cuStreamSynchronize(stream) == CUDA_SUCCESS;
                EXPECT_TRUE(has_passed);
                const bool made = ferry_array_create(counted.get(), 0, &desc, &again, nullptr) == FERRY_SUCCESS;
                static_cast<void>(trim());
                driver.heal();
                EXPECT_OK(trim());
                expect_kept(0, 0, 0);
                if (!gave_array) {
                    EXPECT_OK(ferry_array_destroy(counted.get(), array, nullptr));
                }
                if (!gave_memory) {
                    EXPECT_OK(ferry_device_free(counted.get(), memory, nullptr));
                }
                if (made) {
                    EXPECT_OK(ferry_array_destroy(counted.get(), again, nullptr));
                }
            }
            counted.reset();
            // The counts include the calls that failed.
            EXPECT_GE(driver.calls("cuArrayDestroy"), driver.calls("cuArray3DCreate"));
            EXPECT_LE(driver.calls("cuArrayDestroy"), driver.calls("cuArray3DCreate") + 1);
            EXPECT_LE(driver.calls("cuEventDestroy"), driver.calls("cuEventCreate"));
        }
}

TEST_F(deferred_frees, threads_free_allocate_and_trim_at_the_same_time) {
    std::vector<std::thread> threads;
    for (int thread = 0; thread < 4; ++thread)
        threads.emplace_back([&, thread] {
            CUstream own = nullptr;
            EXPECT_OK(raw().cuCtxSetCurrent(context));
            EXPECT_OK(raw().cuStreamCreate(&own, CU_STREAM_NON_BLOCKING));
            for (int round = 0; round < 50; ++round) {
                const CUarray array = make(description(side << (round + thread) % 2));
                EXPECT_OK(ferry_array_destroy_deferred(counted.get(), array, own, nullptr));
                EXPECT_OK(ferry_device_free_deferred(counted.get(), allocate(4096), own, nullptr));
                if (round % 8 == thread) {
                    EXPECT_OK(trim(thread % 2 ? 0 : array_size));
                }
            }
            EXPECT_OK(raw().cuStreamDestroy(own));
        });
    for (std::thread &thread : threads)
        thread.join();
    EXPECT_OK(raw().cuCtxSynchronize());
    EXPECT_OK(trim());
    expect_kept(0, 0, 0);
    EXPECT_EQ(driver.calls("cuArray3DCreate"), driver.calls("cuArrayDestroy"));
    EXPECT_EQ(200, driver.calls("cuMemFree"));
}

TEST_F(deferred_frees, the_child_of_a_fork_is_refused) {
    FERRY_NEEDS_FORK();
    SKIP_WITHOUT(pages_wiped_in_children);
    const CUarray array = make();
    ASSERT_OK(give_up(array));
    const int status = run_in_child([&] {
        ferry_deferred_info info = {};
        info.struct_size = sizeof info;
        constexpr std::int32_t refused = -1000 - CUDA_ERROR_NOT_INITIALIZED;
        const bool is_refused = give_up(array) == refused && give_up(std::uint64_t{1}) == refused &&
                                give_up(static_cast<void *>(&info)) == refused && trim() == refused &&
                                ferry_deferred_get_info(counted.get(), 0, &info, nullptr) == refused;
        ferry_close(counted.get());
        return is_refused ? 0 : 1;
    });
    EXPECT_EQ(0, status);
}

// A free that waits until the test lets it go on.
struct held_free {
    std::promise<void> begun, may_end;
    std::atomic<bool> is_held = true;
};
held_free *held_now = nullptr;
CUresult CUDAAPI free_when_allowed(CUdeviceptr address) {
    if (held_now && held_now->is_held.exchange(false)) {
        held_now->begun.set_value();
        held_now->may_end.get_future().wait();
    }
    return static_cast<CUresult>(raw().cuMemFree(address));
}

TEST_F(deferred_frees, a_trim_returns_after_the_driver_has_what_the_trim_of_another_thread_took) {
    held_free one;
    held_now = &one;
    replaced_call frees{"cuMemFree", reinterpret_cast<void *>(free_when_allowed)};
    const instance_owner instance = open_or_fail(frees.options());
    std::uint64_t address = 0;
    ASSERT_OK(ferry_device_alloc(instance.get(), 0, 4096, &address, nullptr));
    ASSERT_OK(ferry_device_free_deferred(instance.get(), address, nullptr, nullptr));
    ASSERT_OK(raw().cuCtxSynchronize());
    const auto trim = [&] { EXPECT_OK(ferry_deferred_trim(instance.get(), 0, 0, nullptr)); };
    std::thread first(trim);
    one.begun.get_future().wait();
    std::future<void> second = std::async(std::launch::async, trim);
    EXPECT_EQ(second.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
    // An allocation must not wait for the trim, which may wait for work that needs the allocating thread.
    void *host = nullptr;
    if (on_software_driver()) { // the real driver holds a lock during a free
        EXPECT_OK(allocate_pinned(instance.get(), 4096, 0, &host));
        EXPECT_OK(ferry_host_free(instance.get(), host, nullptr));
    }
    one.may_end.set_value();
    second.wait();
    first.join();
    held_now = nullptr;
}

} // namespace
} // namespace ferry::test
