// The engine of staged copies, on whichever driver is under test: every byte against a plain copy on the CPU, and the order
// of things on streams.
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <thread>

#include <pthread.h>
#include <sys/mman.h>

#include "route/staged_engine.h"
#include "support/captured_graph.h"
#include "support/fault_driver.h"
#include "support/gate.h"
#include "support/raw_objects.h"

// Threads that the system does not give.
static std::atomic<int> threads_given = -1; // no limit
extern "C" int __real_pthread_create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
extern "C" int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*run)(void *), void *user) {
    if (threads_given >= 0 && threads_given-- <= 0) {
        threads_given = 0;
        return EAGAIN;
    }
    return __real_pthread_create(thread, how, run, user);
}

namespace ferry::test {
namespace {

using kernels::box_end;

// One end of a copy in linear memory.
struct end_layout {
    std::uint64_t lead = 0, row_pitch = 0, slice_pitch = 0;
    std::uint64_t size(std::uint64_t width, std::uint64_t height, std::uint64_t depth) const {
        return lead + (depth - 1) * slice_pitch + (height - 1) * row_pitch + width;
    }
    std::uint64_t at(std::uint64_t y, std::uint64_t z) const { return lead + z * slice_pitch + y * row_pitch; }
    box_end end_at(std::uint64_t address) const { return {address + lead, row_pitch, slice_pitch}; }
};

struct copy_scene {
    end_layout device, host;
    std::uint64_t width = 0, height = 1, depth = 1;
};
constexpr std::uint64_t guard = 100;

// Both ends, with what each must hold in the end.
class copied {
public:
    copied(const copy_scene &scene, bool to_device, std::uint64_t seed)
        : scene(scene), to_device(to_device),
          host(random_bytes(scene.host.size(scene.width, scene.height, scene.depth) + guard, seed)),
          on_device(random_bytes(scene.device.size(scene.width, scene.height, scene.depth) + guard, seed + 1)),
          device(on_device.size()), expected_host(host), expected_device(on_device) {
        write_for_all_streams(device, on_device);
        for (std::uint64_t z = 0; z < scene.depth; ++z)
            for (std::uint64_t y = 0; y < scene.height; ++y) {
                if (to_device)
                    std::copy_n(&host[scene.host.at(y, z)], scene.width, &expected_device[scene.device.at(y, z)]);
                else
                    std::copy_n(&on_device[scene.device.at(y, z)], scene.width, &expected_host[scene.host.at(y, z)]);
            }
    }
    staged_box box() {
        return {scene.device.end_at(device),
                scene.host.end_at(reinterpret_cast<std::uintptr_t>(host.data())),
                scene.width,
                scene.height,
                scene.depth,
                to_device};
    }
    void expect_whole() const {
        EXPECT_TRUE(host == expected_host);
        EXPECT_TRUE(read_back(device, on_device.size()) == expected_device);
    }

    copy_scene scene;
    bool to_device;
    bytes host, on_device;
    device_memory device;
    bytes expected_host, expected_device;
};

copy_scene linear(std::uint64_t size, std::uint64_t device_lead = 0, std::uint64_t host_lead = 0) {
    return {{device_lead, 0, 0}, {host_lead, 0, 0}, size};
}

constexpr bool both_ways[] = {true, false};

struct staged : driver_test {
    void SetUp() override {
        driver_test::SetUp();
        count = std::min(device_count(), device_contexts::most_devices);
        for (int i = 0; i < count; ++i)
            ASSERT_OK(query_device(raw(), i, on_software_driver(), facts[i]).status);
        contexts.set_count(count);
        pinned.set_up(facts, count, 0);
        if (const char *const missing = kernels.missing_entry_point()) GTEST_SKIP() << "the driver has no " << missing;
        ASSERT_OK(kernels.load_into(context).status);
    }
    void TearDown() override {
        close();
        driver_test::TearDown();
    }
    // Small slots, so that small copies have many chunks.
    static staged_options small() {
        staged_options options;
        options.slot_size = 16384;
        options.slots = 8;
        options.first_slots = 2;
        options.largest_launch = 1 << 20;
        options.threads = 3;
        return options;
    }
    staged_engine &open(const staged_options &options = small(), const driver_table &cu = raw()) {
        close();
        engine.emplace(cu, contexts, kernels, pinned, facts, memory);
        engine->set_up(options);
        return *engine;
    }
    void close() {
        if (engine) engine->close();
        engine.reset();
    }
    std::int32_t enqueue(copied &one, CUstream stream, staged_watch *watch = nullptr, std::uint32_t blocks = 0) {
        return engine->enqueue({.box = one.box(), .context = context, .blocks = blocks}, stream, watch).status;
    }
    void copy_scenes(const std::vector<copy_scene> &scenes, std::uint32_t blocks = 0) {
        const test_stream stream;
        for (const copy_scene &scene : scenes)
            for (const bool to_device : both_ways) {
                SCOPED_TRACE(testing::Message()
                             << scene.width << "x" << scene.height << "x" << scene.depth << " device "
                             << scene.device.lead << "+" << scene.device.row_pitch << "+" << scene.device.slice_pitch
                             << " host " << scene.host.lead << "+" << scene.host.row_pitch << "+"
                             << scene.host.slice_pitch << (to_device ? " to the device" : " to the host"));
                copied one(scene, to_device, scene.width);
                ASSERT_OK(enqueue(one, stream, nullptr, blocks));
                ASSERT_OK(raw().cuStreamSynchronize(stream));
                one.expect_whole();
                if (HasFailure()) return;
            }
    }

    int count = 0;
    device_facts facts[device_contexts::most_devices];
    allocator memory;
    device_contexts contexts{raw(), facts};
    kernel_set kernels{raw()};
    ferry::pinned_memory pinned{raw(), memory};
    std::optional<staged_engine> engine;
};

// ---- Bytes ----------------------------------------------------------------------------------------------------

TEST_F(staged, long_rows_of_every_size_and_alignment_arrive_whole) {
    open();
    std::vector<copy_scene> scenes;
    for (const std::uint64_t size : {1, 15, 16, 17, 255, 4096, 16384, 16385, 65536, 100'003, 1'000'000, 3'000'001})
        for (const std::uint64_t device_lead : {0, 1, 8, 15})
            for (const std::uint64_t host_lead : {0, 5})
                scenes.push_back(linear(size, device_lead, host_lead));
    copy_scenes(scenes);
}

TEST_F(staged, boxes_of_every_form_arrive_whole) {
    open();
    copy_scenes({
        {{0, 8, 0}, {0, 4, 0}, 4, 5000, 1},
        {{0, 4, 0}, {0, 8, 0}, 4, 5000, 1},
        {{3, 7, 0}, {5, 9, 0}, 1, 3000, 1},
        {{1, 33, 0}, {2, 35, 0}, 32, 3000, 1},
        {{2, 101, 0}, {2, 101, 0}, 100, 3000, 1},
        {{0, 1024, 0}, {0, 2048, 0}, 1000, 300, 1},
        {{0, 2048, 0}, {0, 1024, 0}, 1024, 300, 1},
        {{0, 128, 1280}, {0, 64, 6400}, 64, 10, 20},
        {{7, 33, 1111}, {7, 33, 33 * 12}, 33, 12, 90},
        {{0, 1, 3}, {0, 5, 2}, 1, 1, 4000},
        {{5, 40000, 0}, {1, 33000, 0}, 32999, 7, 1},
        {{5, 40000, 130000}, {1, 33000, 100001}, 32999, 3, 4},
        {{0, 4096, 0}, {16, 5008, 0}, 4096, 64, 1},
        {{0, 4095, 0}, {16, 5008, 0}, 4095, 64, 1},
    });
}

TEST_F(staged, random_boxes_arrive_whole) {
    open();
    std::mt19937_64 random(5);
    const auto up_to = [&](std::uint64_t most) { return random() % (most + 1); };
    std::vector<copy_scene> scenes;
    for (int round = 0; round < 150; ++round) {
        copy_scene scene;
        scene.width = 1 + up_to(up_to(1) ? 40 : 3000);
        scene.height = 1 + up_to(60);
        scene.depth = 1 + up_to(up_to(1) ? 0 : 20);
        for (end_layout *const end : {&scene.device, &scene.host}) {
            end->lead = up_to(40);
            end->row_pitch = scene.width + up_to(40);
            end->slice_pitch = end->row_pitch * scene.height + up_to(100);
        }
        scenes.push_back(scene);
    }
    copy_scenes(scenes);
    copy_scenes(scenes, 1);
}

TEST_F(staged, one_slot_and_one_thread_are_enough) {
    staged_options options = small();
    options.slots = options.first_slots = options.threads = 1;
    open(options);
    copy_scenes({linear(1'000'001, 3), {{0, 1024, 0}, {0, 2048, 0}, 1000, 300, 1}});
    EXPECT_EQ(engine->thread_count(), 1u);
    copy_scenes({linear(1'000'001, 3)}, kernels::most_ring_blocks);
}

TEST_F(staged, the_default_ring_serves) {
    open(staged_options{});
    copy_scenes({linear(40'000'007)});
    EXPECT_LE(engine->ring_bytes(), std::uint64_t{33} << 20);
}

// ---- Order ----------------------------------------------------------------------------------------------------

TEST_F(staged, a_copy_to_the_host_comes_after_what_was_enqueued_before_it) {
    open();
    const test_stream stream;
    const std::size_t size = 500'000;
    for (int round = 0; round < 20; ++round) {
        copied one(linear(size), false, 1);
        ASSERT_OK(raw().cuMemsetD8Async(one.device, static_cast<unsigned char>(round), size, stream));
        ASSERT_OK(enqueue(one, stream));
        ASSERT_OK(raw().cuMemsetD8Async(one.device, 0xff, size, stream));
        ASSERT_OK(raw().cuStreamSynchronize(stream));
        ASSERT_EQ(std::count(one.host.begin(), one.host.begin() + size, std::byte(round)), size);
    }
}

TEST_F(staged, what_is_enqueued_after_a_copy_to_the_device_finds_it_done) {
    open();
    const test_stream first, second;
    const test_event event;
    const std::size_t size = 500'000;
    const device_memory there(size);
    for (int round = 0; round < 20; ++round) {
        copied one(linear(size), true, static_cast<std::uint64_t>(round));
        bytes back(size);
        copied last(linear(size), false, 7);
        ASSERT_OK(enqueue(one, first));
        ASSERT_OK(raw().cuEventRecord(event, first));
        ASSERT_OK(raw().cuStreamWaitEvent(second, event, 0));
        ASSERT_OK(raw().cuMemcpyDtoDAsync(last.device, one.device, size, second));
        ASSERT_OK(enqueue(last, second));
        ASSERT_OK(raw().cuStreamSynchronize(second));
        ASSERT_EQ(std::memcmp(last.host.data(), one.host.data(), size), 0);
    }
}

TEST_F(staged, the_default_streams_take_copies) {
    open();
    for (const CUstream stream : {CUstream{}, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD})
        for (const bool to_device : both_ways) {
            copied one(linear(100'000), to_device, 3);
            ASSERT_OK(enqueue(one, stream));
            ASSERT_OK(raw().cuStreamSynchronize(stream));
            one.expect_whole();
        }
}

TEST_F(staged, a_waiting_copy_holds_no_slot) {
    staged_options options = small();
    options.slots = options.first_slots = 1;
    open(options);
    const test_stream held_stream, stream;
    copied behind(linear(200'000), true, 1), other(linear(200'000), true, 2);
    ASSERT_OK(engine->prepare(0).status);
    gate held(held_stream);
    ASSERT_OK(enqueue(behind, held_stream));
    ASSERT_OK(enqueue(other, stream));
    ASSERT_OK(raw().cuStreamSynchronize(stream));
    other.expect_whole();
    held.open();
    ASSERT_OK(raw().cuStreamSynchronize(held_stream));
    behind.expect_whole();
}

TEST_F(staged, a_watch_tells_how_far_a_copy_is) {
    open();
    const test_stream stream;
    copied one(linear(3'000'000), true, 1);
    staged_watch watch;
    ASSERT_OK(engine->prepare(0).status);
    gate held(stream);
    ASSERT_OK(enqueue(one, stream, &watch));
    EXPECT_FALSE(watch.is_done());
    EXPECT_EQ(watch.landed, 0u);
    EXPECT_EQ(watch.launches_left, 3u); // of 1 MiB each
    held.open();
    ASSERT_OK(engine->help(watch, context).status);
    EXPECT_EQ(watch.landed, 3'000'000u);
    EXPECT_TRUE(watch.is_done());
    one.expect_whole();
}

} // namespace
} // namespace ferry::test
