// Compares the speed of staged copies with the driver's own, as tables to choose constants by. It is not a test:
// staged_test.cpp checks the bytes. Run on a GPU: FERRY_TEST_DRIVER=cuda tests/staged-speed [--gtest_filter=…].
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <thread>

#include <sys/mman.h>
#include <sys/resource.h>

#include "staging/engine.h"
#include "support/raw_objects.h"
#include "support/surface_array.h"
#include "system/readable.h"

namespace ferry::test {
namespace {

using std::chrono::steady_clock;

double since_us(steady_clock::time_point begin) {
    return std::chrono::duration<double, std::micro>(steady_clock::now() - begin).count();
}

double processor_seconds() {
    rusage used = {};
    getrusage(RUSAGE_SELF, &used);
    const auto seconds = [](const timeval &time) { return static_cast<double>(time.tv_sec) + 1e-6 * time.tv_usec; };
    return seconds(used.ru_utime) + seconds(used.ru_stime);
}

struct measured {
    double us, gigabytes_per_second, return_us, processor_seconds_per_gigabyte;
};

struct staged_speed : driver_test {
    void SetUp() override {
        driver_test::SetUp();
        room = on_software_driver() ? std::uint64_t{4} << 20 : std::uint64_t{1} << 30; // enough to see that it runs
        for (int i = 0; i < device_count(); ++i)
            ASSERT_OK(query_device(raw(), i, on_software_driver(), facts[i]).status);
        contexts.set_count(device_count());
        pinned.set_up(facts, device_count(), 0);
        ASSERT_OK(kernels.load_into(context).status);
        ASSERT_OK(raw().cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        ASSERT_OK(raw().cuMemAlloc(&device, room));
        host = fresh_pages();
        std::memset(host, 1, room);
    }
    void TearDown() override {
        close();
        raw().cuStreamDestroy(stream);
        raw().cuMemFree(device);
        munmap(host, room);
        driver_test::TearDown();
    }
    void *fresh_pages() const {
        return mmap(nullptr, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    }
    void open(const staged_options &options = {}) {
        close();
        engine.emplace(raw(), contexts, kernels, pinned, facts, memory);
        engine->set_up(options);
        ASSERT_OK(engine->prepare(0).status);
        std::this_thread::sleep_for(std::chrono::milliseconds(100)); // time for the slots added later
    }
    void close() {
        if (engine) engine->close();
        engine.reset();
    }

    staged_copy linear(std::uint64_t size, bool to_device, std::uint32_t blocks = 0) const {
        const std::uint64_t address = reinterpret_cast<std::uintptr_t>(host);
        return {.box = {{device, 0, 0}, {address, 0, 0}, size, 1, 1, to_device}, .context = context, .blocks = blocks};
    }
    template <class Work> measured measure(double bytes, const Work &work, int rounds = 9) {
        std::vector<double> times, returns;
        double processor = 0;
        for (int i = 0; i <= rounds; ++i) {
            if (pause.count() != 0) std::this_thread::sleep_for(pause);
            const double processor_before = processor_seconds();
            const auto begin = steady_clock::now();
            work();
            const double returned = since_us(begin);
            EXPECT_OK(raw().cuStreamSynchronize(stream));
            const double took = since_us(begin);
            if (i == 0) continue;
            times.push_back(took);
            returns.push_back(returned);
            processor += processor_seconds() - processor_before;
        }
        std::sort(times.begin(), times.end());
        std::sort(returns.begin(), returns.end());
        const double us = times[times.size() / 2];
        return {us, bytes * 1e-3 / us, returns[returns.size() / 2], processor / rounds / (bytes * 1e-9)};
    }
    measured staged(const staged_copy &copy) {
        const double bytes = static_cast<double>(copy.box.width * copy.box.height * copy.box.depth);
        return measure(bytes, [&] { EXPECT_OK(engine->enqueue(copy, stream, nullptr).status); });
    }
    measured by_helping(const staged_copy &copy) {
        return measure(static_cast<double>(copy.box.width), [&] {
            staged_progress progress;
            EXPECT_OK(engine->enqueue(copy, stream, &progress).status);
            EXPECT_OK(engine->help(progress).status);
        });
    }
    measured by_driver(std::uint64_t size, bool to_device) {
        return measure(
            static_cast<double>(size),
            [&] {
                EXPECT_OK(to_device ? raw().cuMemcpyHtoDAsync(device, host, size, stream)
                                    : raw().cuMemcpyDtoHAsync(host, device, size, stream));
            },
            3);
    }
    measured by_driver(const CUDA_MEMCPY3D &copy) {
        return measure(
            static_cast<double>(copy.WidthInBytes * copy.Height * copy.Depth),
            [&] { EXPECT_OK(raw().cuMemcpy3DAsync(&copy, stream)); }, 3);
    }

    std::uint64_t room = 0;
    std::chrono::microseconds pause{0}; // between copies; the threads sleep when a copy comes
    device_facts facts[device_contexts::max_devices];
    allocator memory;
    device_contexts contexts{raw(), facts};
    kernel_set kernels{raw()};
    ferry::pinned_memory pinned{raw(), memory};
    std::optional<staging_engine> engine;
    CUstream stream = nullptr;
    CUdeviceptr device = 0;
    void *host = nullptr;
};

const char *name_of(bool to_device) { return to_device ? "H2D" : "D2H"; }

TEST_F(staged_speed, sizes) {
    open();
    std::printf("          bytes  driver GB/s   staged  helped   returns after us   processor s/GB: driver staged\n");
    for (const bool to_device : {true, false})
        for (std::uint64_t size = 16 << 10; size <= room; size *= 4) {
            const measured driver = by_driver(size, to_device), mine = staged(linear(size, to_device)),
                           helped = by_helping(linear(size, to_device));
            std::printf("%s %11llu  %11.2f %8.2f %7.2f   %16.1f   %22.2f %6.2f\n", name_of(to_device),
                        static_cast<unsigned long long>(size), driver.gigabytes_per_second, mine.gigabytes_per_second,
                        helped.gigabytes_per_second, mine.return_us, driver.processor_seconds_per_gigabyte,
                        mine.processor_seconds_per_gigabyte);
        }
}

// The time that a copy loses before the link is busy, for copies that find all threads asleep.
TEST_F(staged_speed, starts) {
    struct variant {
        const char *name;
        staged_options options;
        std::uint32_t blocks = 0;
    };
    const variant variants[] = {
        {"as it is", {}},
        {"slots of 1 MiB", {.slot_size = 1 << 20}},
        {"64 slots", {.slots = 64}},
        {"64 slots of 256 KiB", {.slot_size = 256 << 10, .slots = 64}},
        {"12 blocks", {}, 12},
        {"16 blocks", {}, 16},
        {"12 blocks, 48 slots", {.slots = 48}, 12},
        {"10 threads", {.threads = 10}},
        {"12 threads, 12 blocks", {.threads = 12}, 12},
        {"6 threads", {.threads = 6}},
        {"8 slots at first", {.first_slots = 8}},
    };
    pause = std::chrono::milliseconds(1);
    for (const variant &one : variants) {
        open(one.options);
        std::printf("%s: MiB, GB/s by threads alone, with the caller, returns after us\n", one.name);
        for (const bool to_device : {true, false}) {
            std::printf("  %s", name_of(to_device));
            for (const std::uint64_t mebibytes : {1, 4, 16, 64, 256}) {
                if (mebibytes << 20 > room) continue;
                const staged_copy copy = linear(mebibytes << 20, to_device, one.blocks);
                const measured mine = staged(copy), helped = by_helping(copy);
                std::printf("  | %llu %.1f %.1f %.0f", static_cast<unsigned long long>(mebibytes),
                            mine.gigabytes_per_second, helped.gigabytes_per_second, mine.return_us);
            }
            std::printf("\n");
        }
    }
}

// The costs of the calls in a copy on a stream, by the time since the last work.
TEST_F(staged_speed, calls_after_a_pause) {
    std::atomic<std::uint32_t> calls = 0;
    std::atomic<bool> is_over = false;
    std::thread sleeper([&] {
        for (std::uint32_t seen = 0; !is_over; seen = calls)
            calls.wait(seen);
    });
    open();
    const staged_copy copy = linear(1 << 20, true);
    const std::pair<const char *, std::function<void()>> works[] = {
        {"fill enqueued", [&] { EXPECT_OK(raw().cuMemsetD8Async(device, 0, 4, stream)); }},
        {"thread woken",
         [&] {
             ++calls;
             calls.notify_one();
         }},
        {"ends of a range read",
         [&] {
             EXPECT_TRUE(host_range_is_readable(reinterpret_cast<std::uintptr_t>(host),
                                                reinterpret_cast<std::uintptr_t>(host) + room - 1));
         }},
        {"staged copy enqueued", [&] { EXPECT_OK(engine->enqueue(copy, stream, nullptr).status); }},
    };
    for (const auto &[name, work] : works) {
        std::printf("%-22s", name);
        for (const int pause_us : {0, 100, 1000, 10'000, 50'000}) {
            std::vector<double> times;
            for (int i = 0; i < 15; ++i) {
                EXPECT_OK(raw().cuStreamSynchronize(stream));
                std::this_thread::sleep_for(std::chrono::microseconds(pause_us));
                const auto begin = steady_clock::now();
                work();
                times.push_back(since_us(begin));
            }
            std::sort(times.begin(), times.end());
            std::printf("  after %5d us %6.1f us", pause_us, times[times.size() / 2]);
        }
        std::printf("\n");
    }
    is_over = true;
    ++calls;
    calls.notify_one();
    sleeper.join();
}

// The time that a first copy waits if nothing has been prepared.
TEST_F(staged_speed, preparing) {
    const auto begin = steady_clock::now();
    kernel_set its_kernels(raw());
    ASSERT_OK(its_kernels.load().status);
    const double loaded = since_us(begin);
    ASSERT_OK(its_kernels.load_into(context).status);
    std::printf("kernels: read in %.0f us, into a context in %.0f us\n", loaded, since_us(begin) - loaded);
    for (const std::uint32_t threads : {1, 8})
        for (const std::uint32_t first_slots : {1, 2, 4, 8}) {
            staged_options options;
            options.threads = threads;
            options.first_slots = first_slots;
            std::vector<double> times;
            for (int i = 0; i < 5; ++i) {
                close();
                engine.emplace(raw(), contexts, kernels, pinned, facts, memory);
                engine->set_up(options);
                const auto before = steady_clock::now();
                ASSERT_OK(engine->prepare(0).status);
                times.push_back(since_us(before));
            }
            std::sort(times.begin(), times.end());
            std::printf("%u threads, %u slots at first: %.0f us (%.0f to %.0f)\n", threads, first_slots, times[2],
                        times.front(), times.back());
        }
}

// Prints gigabytes per second and processor seconds per gigabyte.
TEST_F(staged_speed, threads_by_blocks) {
    for (const std::uint32_t threads : {1, 2, 4, 6, 8, 10}) {
        staged_options options;
        options.threads = threads;
        open(options);
        for (const bool to_device : {true, false})
            for (const std::uint64_t size : {room / 16, room}) {
                std::printf("%2u threads, %s %4llu MiB, by blocks:", threads, name_of(to_device),
                            static_cast<unsigned long long>(size >> 20));
                for (const std::uint32_t blocks : {1, 2, 4, 6, 8, 10}) {
                    const measured mine = staged(linear(size, to_device, blocks));
                    std::printf("  %u %.1f %.2f", blocks, mine.gigabytes_per_second,
                                mine.processor_seconds_per_gigabyte);
                }
                std::printf("\n");
            }
    }
}

TEST_F(staged_speed, rings) {
    for (const std::uint64_t slot_size : {256 << 10, 512 << 10, 1 << 20})
        for (const std::uint32_t slots : {16, 32}) {
            staged_options options;
            options.slot_size = slot_size;
            options.slots = slots;
            open(options);
            std::printf("%u x %4llu KiB, by blocks:", slots, static_cast<unsigned long long>(slot_size >> 10));
            for (const std::uint32_t blocks : {4, 8, 12, 16})
                for (const bool to_device : {true, false})
                    std::printf("  %u %s %.1f", blocks, name_of(to_device),
                                staged(linear(room, to_device, blocks)).gigabytes_per_second);
            std::printf("\n");
        }
}

TEST_F(staged_speed, rows) {
    open();
    const std::uint64_t size = room / 4;
    for (const std::uint64_t width : {4, 16, 64, 256, 1024, 4096, 65536})
        for (const bool to_device : {true, false})
            for (const bool host_is_strided : {false, true}) {
                const std::uint64_t height = std::min(size, width << 24) / width, wide = 2 * width;
                staged_copy copy = linear(width, to_device);
                copy.box.height = height;
                copy.box.host.row_pitch = host_is_strided ? wide : width;
                copy.box.device.row_pitch = host_is_strided ? width : wide;
                CUDA_MEMCPY3D call = {};
                call.srcMemoryType = to_device ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
                call.dstMemoryType = to_device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
                call.srcHost = call.dstHost = host;
                call.srcDevice = call.dstDevice = device;
                call.srcPitch = to_device ? copy.box.host.row_pitch : copy.box.device.row_pitch;
                call.dstPitch = to_device ? copy.box.device.row_pitch : copy.box.host.row_pitch;
                call.WidthInBytes = width;
                call.Height = call.srcHeight = call.dstHeight = height;
                call.Depth = 1;
                std::printf("%s rows of %5llu bytes, %s strided: driver %6.2f GB/s, staged %6.2f\n", name_of(to_device),
                            static_cast<unsigned long long>(width), host_is_strided ? "host" : "device",
                            by_driver(call).gigabytes_per_second, staged(copy).gigabytes_per_second);
            }
}

TEST_F(staged_speed, arrays) {
    open();
    const std::uint64_t side = on_software_driver() ? 64 : 512;
    CUDA_ARRAY3D_DESCRIPTOR descriptor = {side, side, side, CU_AD_FORMAT_FLOAT, 1, for_surfaces};
    CUDA_RESOURCE_DESC resource = {};
    resource.resType = CU_RESOURCE_TYPE_ARRAY;
    ASSERT_OK(raw().cuArray3DCreate(&resource.res.array.hArray, &descriptor));
    CUsurfObject surface = 0;
    ASSERT_OK(raw().cuSurfObjectCreate(&surface, &resource));
    for (const bool to_device : {true, false}) {
        staged_copy copy = linear(4 * side, to_device);
        copy.box.height = copy.box.depth = side;
        copy.box.host.row_pitch = 4 * side;
        copy.box.host.slice_pitch = 4 * side * side;
        copy.box.array = {surface, gpu::array_form::three_d};
        CUDA_MEMCPY3D call = {};
        call.srcMemoryType = to_device ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_ARRAY;
        call.dstMemoryType = to_device ? CU_MEMORYTYPE_ARRAY : CU_MEMORYTYPE_HOST;
        call.srcHost = call.dstHost = host;
        call.srcArray = call.dstArray = resource.res.array.hArray;
        call.srcPitch = call.dstPitch = call.WidthInBytes = 4 * side;
        call.srcHeight = call.dstHeight = call.Height = call.Depth = side;
        std::printf("%s array of %llu^3 floats: driver %.2f GB/s, staged %.2f\n", name_of(to_device),
                    static_cast<unsigned long long>(side), by_driver(call).gigabytes_per_second,
                    staged(copy).gigabytes_per_second);
    }
    EXPECT_OK(raw().cuSurfObjectDestroy(surface));
    EXPECT_OK(raw().cuArrayDestroy(resource.res.array.hArray));
}

TEST_F(staged_speed, pages_never_touched) {
    open();
    for (const bool is_mine : {false, true, false, true}) {
        void *const kept = std::exchange(host, fresh_pages());
        const auto begin = steady_clock::now();
        if (is_mine)
            EXPECT_OK(engine->enqueue(linear(room, false), stream, nullptr).status);
        else
            EXPECT_OK(raw().cuMemcpyDtoHAsync(host, device, room, stream));
        EXPECT_OK(raw().cuStreamSynchronize(stream));
        std::printf("D2H into pages never touched, %s: %.2f GB/s\n", is_mine ? "staged" : "driver",
                    static_cast<double>(room) * 1e-3 / since_us(begin));
        munmap(host, room);
        host = kept;
    }
}

TEST_F(staged_speed, many_streams) {
    open();
    constexpr int count = 8;
    std::vector<std::unique_ptr<test_stream>> streams;
    for (int i = 0; i < count; ++i)
        streams.push_back(std::make_unique<test_stream>());
    const std::uint64_t size = room / count;
    for (const bool to_device : {true, false}) {
        std::vector<double> times;
        for (int round = 0; round < 5; ++round) {
            const auto begin = steady_clock::now();
            std::vector<std::thread> callers;
            for (int i = 0; i < count; ++i)
                callers.emplace_back([&, i] {
                    EXPECT_OK(raw().cuCtxSetCurrent(context));
                    staged_copy copy = linear(size, to_device);
                    copy.box.device.address += static_cast<std::uint64_t>(i) * size;
                    copy.box.host.address += static_cast<std::uint64_t>(i) * size;
                    EXPECT_OK(engine->enqueue(copy, *streams[static_cast<std::size_t>(i)], nullptr).status);
                    EXPECT_OK(raw().cuStreamSynchronize(*streams[static_cast<std::size_t>(i)]));
                });
            for (std::thread &one : callers)
                one.join();
            times.push_back(since_us(begin));
        }
        std::sort(times.begin(), times.end());
        std::printf("%s on %d streams of as many threads: %.2f GB/s in all\n", name_of(to_device), count,
                    static_cast<double>(room) * 1e-3 / times[times.size() / 2]);
    }
}

} // namespace
} // namespace ferry::test
