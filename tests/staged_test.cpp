// Tests the engine of staged copies on the driver under test: compares every byte with a plain copy on the CPU, and
// tests the order on streams.
#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <thread>

#include "exec/kernel_launch.h"
#include "staging/engine.h"
#include "support/alias_driver.h"
#include "support/captured_graph.h"
#include "support/fault_driver.h"
#include "support/gate.h"
#include "support/how.h"
#include "support/huge_pages.h"
#include "support/program_threads.h"
#include "support/raw_objects.h"
#include "support/surface_array.h"
#include "support/system.h"
#include "support/temporary_file.h"

// Limits how many more threads pthread_create starts.
static std::atomic<int> threads_given = -1; // no limit
#if !defined(_WIN32)
#include <pthread.h>
#include <sched.h>
extern "C" int __real_pthread_create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
extern "C" int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*run)(void *), void *user) {
    if (threads_given >= 0 && threads_given-- <= 0) {
        threads_given = 0;
        return EAGAIN;
    }
    return __real_pthread_create(thread, how, run, user);
}
#endif

namespace ferry::test {
namespace {

using gpu::box_end;

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

// Both ends of a copy, with the bytes that each end must contain after it.
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
        count = std::min(device_count(), device_contexts::max_devices);
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
        // compute-sanitizer does not know memory that was added after a kernel had begun.
        options.first_slots = std::getenv("FERRY_TEST_ALL_SLOTS_AT_FIRST") ? options.slots : 2;
        options.max_launch = 1 << 20;
        options.threads = 3;
        return options;
    }
    staging_engine &open(const staged_options &options = small(), const driver_table &cu = raw()) {
        close();
        engine.emplace(cu, contexts, kernels, pinned, facts, memory);
        engine->set_up(options);
        return *engine;
    }
    // Opens an engine whose work runs on threads of the program.
    staging_engine &open_on(program_threads &jobs) {
        staged_options options = small();
        options.submit = program_threads::submit;
        options.submit_user = &jobs;
        return open(options);
    }
    void close() {
        if (engine) engine->close();
        engine.reset();
    }
    std::int32_t enqueue(copied &one, CUstream stream, staged_progress *progress = nullptr, std::uint32_t blocks = 0) {
        return engine->enqueue({.box = one.box(), .context = context, .blocks = blocks}, stream, progress).status;
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

    // Tests contiguous copies and a box, and a captured copy that is launched several times.
    void copies_of_every_form_arrive() {
        copy_scenes({linear(10'000), linear(3'000'000), {{0, 1024, 0}, {0, 2048, 0}, 1000, 300, 1}});
        const test_stream stream;
        copied up(linear(300'000), true, 1);
        captured_graph graph(stream);
        ASSERT_OK(engine->enqueue({.box = up.box(), .context = context, .is_captured = true}, stream, nullptr).status);
        graph.end();
        for (int round = 0; round < 3; ++round)
            graph.run();
        up.expect_whole();
    }

    // Makes a context for the test to break. It is current and has the kernels.
    CUcontext make_doomed() {
        CUcontext doomed = nullptr;
        EXPECT_OK(raw().cuCtxCreate(&doomed, 0, 0));
        EXPECT_OK(kernels.load_into(doomed).status);
        return doomed;
    }
    // Destroys a dead context and pops everything above the test's own context.
    void leave_dead(CUcontext doomed) {
        kernels.forget(doomed);
        raw().cuCtxDestroy(doomed);
        CUcontext left = nullptr;
        while (raw().cuCtxGetCurrent(&left) == CUDA_SUCCESS && left != context)
            ASSERT_OK(raw().cuCtxPopCurrent(nullptr));
    }

    int count = 0;
    device_facts facts[device_contexts::max_devices];
    allocator memory;
    device_contexts contexts{raw(), facts};
    kernel_set kernels{raw()};
    ferry::pinned_memory pinned{raw(), memory};
    std::optional<staging_engine> engine;
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
    for (int round = 0; round < 60; ++round) {
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

TEST_F(staged, one_slot_and_one_thread_suffice) {
    staged_options options = small();
    options.slots = options.first_slots = options.threads = 1;
    open(options);
    copy_scenes({linear(1'000'001, 3), {{0, 1024, 0}, {0, 2048, 0}, 1000, 300, 1}});
    EXPECT_EQ(engine->thread_count(), 1u);
    copy_scenes({linear(1'000'001, 3)}, gpu::max_ring_blocks);
}

TEST_F(staged, the_default_staging_buffer_works) {
    open(staged_options{});
    copy_scenes({linear(20'000'007)});
    EXPECT_LE(engine->staging_bytes(), std::uint64_t{33} << 20);
}

TEST_F(staged, boxes_of_arrays_of_every_form_arrive_whole) {
    if (!raw().cuSurfObjectCreate) GTEST_SKIP() << "the driver has no cuSurfObjectCreate";
    open();
    const test_stream stream;
    std::mt19937_64 random(11);
    const auto up_to = [&](std::uint64_t most) { return random() % (most + 1); };
    std::vector<array_kind> kinds(std::begin(array_kinds), std::end(array_kinds));
    kinds.push_back({"long rows", {3000, 7, 0, CU_AD_FORMAT_FLOAT, 4, for_surfaces}});
    kinds.push_back({"long rows in 3D", {5001, 3, 3, CU_AD_FORMAT_UNSIGNED_INT16, 1, for_surfaces}});
    kinds.push_back({"large", {300, 200, 9, CU_AD_FORMAT_FLOAT, 1, for_surfaces}});
    for (const array_kind &kind : kinds) {
        test_array of(kind.descriptor, 24);
        for (int round = 0; round < 10; ++round)
            for (const bool to_device : both_ways) {
                const bool all_of_it = round == 0;
                staged_array array = {of.surface, of.form};
                if (!all_of_it) array.x = up_to(of.row_bytes - 1), array.y = up_to(of.rows - 1);
                if (!all_of_it) array.z = up_to(of.slices - 1);
                const std::uint64_t width = all_of_it ? of.row_bytes : 1 + up_to(of.row_bytes - array.x - 1);
                const std::uint64_t height = all_of_it ? of.rows : 1 + up_to(of.rows - array.y - 1);
                const std::uint64_t depth = all_of_it ? of.slices : 1 + up_to(of.slices - array.z - 1);
                const end_layout at = {up_to(20), width + up_to(20), (width + 20) * height + up_to(9)};
                bytes host = random_bytes(at.size(width, height, depth) + guard, random()), expected = host;
                for (std::uint64_t z = 0; z < depth; ++z)
                    for (std::uint64_t y = 0; y < height; ++y) {
                        std::byte *const here =
                            &of.picture[((array.z + z) * of.rows + array.y + y) * of.row_bytes + array.x];
                        if (to_device)
                            std::copy_n(&host[at.at(y, z)], width, here);
                        else
                            std::copy_n(here, width, &expected[at.at(y, z)]);
                    }
                const staged_copy copy = {.box = {{},
                                                  at.end_at(reinterpret_cast<std::uintptr_t>(host.data())),
                                                  width,
                                                  height,
                                                  depth,
                                                  to_device,
                                                  array},
                                          .context = context};
                ASSERT_OK(engine->enqueue(copy, stream, nullptr).status);
                ASSERT_OK(raw().cuStreamSynchronize(stream));
                ASSERT_TRUE(host == expected) << kind.name;
                ASSERT_TRUE(of.read() == of.picture)
                    << kind.name << ", round " << round << (to_device ? ", to it" : "");
            }
    }
}

TEST_F(staged, every_device_has_a_staging_buffer_for_its_copies) {
    if (count < 2) GTEST_SKIP() << "one device only";
    open();
    const other_device second;
    const made_current scope(second);
    ASSERT_OK(kernels.load_into(second).status);
    const test_stream stream;
    for (const bool to_device : both_ways) {
        copied one(linear(700'000), to_device, 3);
        ASSERT_OK(engine->enqueue({.box = one.box(), .device = 1, .context = second}, stream, nullptr).status);
        ASSERT_OK(raw().cuStreamSynchronize(stream));
        one.expect_whole();
    }
    kernels.forget(second);
}

TEST_F(staged, pinned_memory_may_have_another_address_on_the_device) {
    const alias_driver aliases(raw_entry_points());
    driver_table cu;
    bool found[driver_symbol_count] = {};
    resolve_table(aliases.entry_points(), cu, found);
    kernel_set its_kernels(cu);
    ASSERT_OK(its_kernels.load_into(context).status);
    ferry::pinned_memory its_pinned(cu, memory);
    its_pinned.set_up(facts, count, 0);
    staging_engine its(cu, contexts, its_kernels, its_pinned, facts, memory);
    its.set_up(small());
    const test_stream stream;
    for (const bool to_device : both_ways) {
        copied one(linear(700'000, 3), to_device, 3), box({{0, 8, 0}, {0, 4, 0}, 4, 5000, 1}, to_device, 4);
        ASSERT_OK(its.enqueue({.box = one.box(), .context = context}, stream, nullptr).status);
        ASSERT_OK(its.enqueue({.box = box.box(), .context = context}, stream, nullptr).status);
        ASSERT_OK(raw().cuStreamSynchronize(stream));
        one.expect_whole();
        box.expect_whole();
    }
    its.close();
    EXPECT_EQ(aliases.refused(), 0);
}

TEST_F(staged, an_untouched_destination_is_filled) {
    open(staged_options{});
    const std::size_t size = 20'000'000;
    const mapped_memory fresh(size);
    copied one(linear(size), false, 3);
    staged_box box = one.box();
    box.host.address = fresh.address();
    const test_stream stream;
    ASSERT_OK(engine->enqueue({.box = box, .context = context}, stream, nullptr).status);
    ASSERT_OK(raw().cuStreamSynchronize(stream));
    EXPECT_EQ(std::memcmp(fresh.data(), one.on_device.data(), size), 0);
}

TEST_F(staged, large_destinations_that_were_never_written_are_placed_in_huge_pages) {
    if (!can_have_huge_pages()) GTEST_SKIP() << "the system gives no huge pages";
    constexpr std::uint64_t huge_page = 2 << 20;
    open(staged_options{});
    const test_stream stream;
    const end_layout tight = {0, 6000, 0}, gaps = {0, 6100, 0};
    struct {
        const char *text;
        copy_scene scene;
        bool in_pieces, was_written, are_expected;
    } const rows[] = {{"a line", linear(20'000'000), false, false, true},
                      {"rows", {tight, tight, 6000, 3500, 1}, false, false, true},
                      {"two pieces", linear(20'000'000), true, false, true},
                      {"rows with gaps", {tight, gaps, 6000, 3500, 1}, false, false, false},
                      {"a small line", linear(2 * huge_page - 1), false, false, false},
                      {"a line that was written", linear(20'000'000), false, true, false}};
    for (const auto &row : rows) {
        SCOPED_TRACE(row.text);
        copied one(row.scene, false, 3);
        const std::uint64_t size = row.scene.host.size(row.scene.width, row.scene.height, row.scene.depth), lead = 100;
        const mapped_memory fresh(lead + size + lead);
        if (row.was_written) fresh.data()[lead + size / 2] = std::byte{1};
        staged_box box = one.box();
        box.host.address = fresh.address() + lead;
        const std::uint64_t half = size / 2;
        const staged_piece pieces[] = {{box.device.address, box.host.address, half},
                                       {box.device.address + half, box.host.address + half, size - half}};
        staged_copy copy = {.box = box, .context = context};
        if (row.in_pieces) copy.pieces = {pieces, 2, size};
        ASSERT_OK(engine->enqueue(copy, stream, nullptr).status);
        ASSERT_OK(raw().cuStreamSynchronize(stream));
        for (std::uint64_t y = 0; y < row.scene.height; ++y)
            ASSERT_EQ(std::memcmp(&fresh.data()[lead + row.scene.host.at(y, 0)],
                                  &one.on_device[row.scene.device.at(y, 0)], row.scene.width),
                      0);
        for (std::uint64_t i = 0; i < lead; ++i) {
            ASSERT_EQ(fresh.data()[i], std::byte{});
            ASSERT_EQ(fresh.data()[lead + size + i], std::byte{});
        }
        const huge_pages found = huge_pages_of(fresh.data(), fresh.size());
        EXPECT_EQ(found.are_asked_for, row.are_expected);
        if (row.are_expected) {
            EXPECT_GE(found.bytes, size - size / 4);
        }
    }
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
        const auto moved = std::count(one.host.begin(), one.host.begin() + size, std::byte(round));
        ASSERT_EQ(static_cast<std::size_t>(moved), size);
    }
}

TEST_F(staged, work_enqueued_after_a_copy_to_the_device_sees_its_bytes) {
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

TEST_F(staged, a_waiting_copy_reserves_no_slot) {
    if (streams_share_a_queue()) GTEST_SKIP() << "nothing passes a stream that waits";
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

TEST_F(staged, a_watch_reports_the_progress_of_a_copy) {
    open();
    const test_stream stream;
    copied one(linear(3'000'000), true, 1);
    staged_progress progress;
    ASSERT_OK(engine->prepare(0).status);
    gate held(stream);
    ASSERT_OK(enqueue(one, stream, &progress));
    EXPECT_FALSE(progress.is_done());
    EXPECT_EQ(progress.bytes_done, 0u);
    EXPECT_EQ(progress.launches_left, 3u); // of 1 MiB each
    held.open();
    ASSERT_OK(engine->help(progress).status);
    EXPECT_EQ(progress.bytes_done, 3'000'000u);
    EXPECT_TRUE(progress.is_done());
    one.expect_whole();
}

TEST_F(staged, the_idle_time_begins_at_the_end_of_a_copy_or_when_a_use_is_noted) {
    open();
    const test_stream stream;
    copied one(linear(300'000), false, 1);
    ASSERT_OK(engine->prepare(0).status);
    constexpr std::uint64_t ms = 1'000'000;
    EXPECT_GT(engine->delays_on(0).idle_ns, 1000 * ms) << "no copy has ended";
    {
        gate held(stream);
        ASSERT_OK(enqueue(one, stream));
        EXPECT_EQ(engine->delays_on(0).idle_ns, 0u);
    }
    ASSERT_OK(raw().cuStreamSynchronize(stream));
    one.expect_whole();
    const std::uint64_t idle = engine->delays_on(0).idle_ns;
    EXPECT_LT(idle, 60'000 * ms);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_GE(engine->delays_on(0).idle_ns, idle + 10 * ms);
    const std::uint64_t before = clock_ns();
    engine->note_use();
    EXPECT_LE(engine->delays_on(0).idle_ns, clock_ns() - before);
}

TEST(staging_threads, by_default_there_are_eight_for_each_device_or_twelve_for_files_and_some_processors_are_left) {
    const struct {
        std::uint32_t processors, devices, threads, threads_for_files;
    } all[] = {{1, 1, 2, 2},    {2, 1, 2, 2},   {8, 1, 4, 6},    {16, 1, 8, 12},   {16, 2, 8, 12},
               {32, 2, 16, 24}, {64, 1, 8, 12}, {64, 4, 32, 48}, {256, 8, 64, 64}, {512, 16, 64, 64}};
    for (const auto &one : all) {
        SCOPED_TRACE(testing::Message() << one.processors << " processors, " << one.devices << " devices");
        EXPECT_EQ(default_threads(one.processors, one.devices), one.threads);
        EXPECT_EQ(default_threads(one.processors, one.devices, true), one.threads_for_files);
    }
}

TEST_F(staged, threads_come_with_each_device_and_stay) {
    if (count < 2) GTEST_SKIP() << "needs two devices";
    constexpr std::uint32_t processors = 24;
    staged_options options;
    options.processors = processors;
    open(options);
    for (int round = 0; round < 2; ++round)
        for (int device = 0; device < 2; ++device) {
            ASSERT_OK(engine->prepare(device).status);
            const std::uint32_t devices = round == 0 ? static_cast<std::uint32_t>(device) + 1 : 2;
            EXPECT_EQ(engine->thread_count(), default_threads(processors, devices));
        }
}

TEST_F(staged, the_first_copy_of_a_file_brings_more_threads) {
    constexpr std::uint32_t processors = 24;
    const temporary_file source(random_bytes(100'000, 1));
    for (const bool is_prepared : {false, true}) {
        staged_options options;
        options.processors = processors;
        open(options);
        if (is_prepared) {
            ASSERT_OK(engine->prepare(0).status);
            EXPECT_EQ(engine->thread_count(), threads_of_device);
        }
        ferry_file file(memory);
        ASSERT_EQ(file.file.open(source.path().c_str(), {.reads = true}), 0);
        ++file.uses; // destroyed by its owner
        copied one(linear(100'000), true, 1);
        const bytes before = std::exchange(one.expected_device, one.on_device);
        one.host = one.expected_host = source.read();
        std::copy(one.host.begin(), one.host.begin() + 100'000, one.expected_device.begin());
        staged_box box = one.box();
        box.host.address = 0;
        box.file = &file;
        staged_progress progress;
        const test_stream stream;
        ASSERT_OK(engine->enqueue({.box = box, .context = context, .caller_helps = true}, stream, &progress).status);
        ASSERT_OK(engine->help(progress).status);
        ASSERT_OK(raw().cuStreamSynchronize(stream));
        one.expect_whole();
        EXPECT_EQ(engine->thread_count(), threads_of_device_for_files);
        close();
    }
}

#if defined(__linux__)
// Two of the processors that this process may run on. Each represents a NUMA node, together with processors that do not
// exist.
struct two_nodes {
    static processor_set node(int number) noexcept {
        const processor_set mine = processors_of_process();
        processor_set found;
        unsigned passed = 0;
        for (unsigned i = 0; i < processor_set::most && found.count() == 0; ++i)
            if (mine.has(i) && passed++ == static_cast<unsigned>(number)) found.add(i);
        for (unsigned i = 0; found.count() != 0 && i < 16; ++i)
            found.add(processor_set::most - 1 - i);
        return found;
    }
    static bool exist() { return processors_of_process().count() >= 2; }

    two_nodes(device_facts *facts, staged_options &options) : all(node(0)) {
        const processor_set second = node(1);
        for (unsigned i = 0; i < processor_set::most; ++i)
            if (second.has(i)) all.add(i);
        facts[0].info.numa_node = 0;
        facts[1].info.numa_node = 1;
        options.processors = 32;
        options.traits.processors = &all;
        options.processors_of_node = node;
    }

    processor_set all;
};

// Returns the fake node on whose only processor the calling thread runs; any_node if it may run on both.
int node_of_caller() {
    processor_set mine;
    if (sched_getaffinity(0, sizeof mine.words, reinterpret_cast<cpu_set_t *>(mine.words)) != 0) return any_node;
    if (mine.count() != 1) return any_node;
    return two_nodes::node(0).has(static_cast<unsigned>(std::countr_zero(mine.words[0]))) ? 0 : 1;
}

// Makes long copies at the same time, to both devices or to the second. Returns the share of pages that threads of the
// device's own node read.
double share_of_own_node(staged &test, CUcontext second, bool to_both) {
    constexpr std::size_t size = std::size_t{4} << 20, page = std::size_t{64} << 10;
    const mapped_memory sources[2] = {mapped_memory(size), mapped_memory(size)};
    std::atomic<std::size_t> pages[2] = {0, 0}, own = 0, counted = 0;
    const fault_handler open_page([&](std::byte *at) {
        for (int device = 0; device < 2; ++device) {
            const std::byte *const begin = sources[device].data();
            if (at < begin || at >= begin + size) continue;
            // Threads whose copy is complete help with the others.
            if (++pages[device] < size / page && pages[1 - device] < size / page) {
                ++counted;
                own += node_of_caller() == device;
            }
            sources[device].allow(static_cast<std::size_t>(at - begin) / page * page, page, page_access::read);
            return true;
        }
        return false;
    });
    for (const mapped_memory &source : sources)
        source.allow(0, size, page_access::none);
    const CUcontext contexts[2] = {test.context, second};
    std::optional<test_stream> streams[2];
    std::optional<device_memory> targets[2];
    for (int device = to_both ? 0 : 1; device < 2; ++device) {
        const made_current scope(contexts[device]);
        streams[device].emplace();
        targets[device].emplace(size);
    }
    for (int device = to_both ? 0 : 1; device < 2; ++device) {
        const made_current scope(contexts[device]);
        const staged_box box = {{*targets[device], 0, 0}, {sources[device].address(), 0, 0}, size, 1, 1, true};
        EXPECT_OK(
            test.engine->enqueue({.box = box, .device = device, .context = contexts[device]}, *streams[device], nullptr)
                .status);
    }
    for (int device = to_both ? 0 : 1; device < 2; ++device) {
        const made_current scope(contexts[device]);
        EXPECT_OK(raw().cuStreamSynchronize(*streams[device]));
        streams[device].reset();
        targets[device].reset();
    }
    EXPECT_GT(counted, 0u);
    return static_cast<double>(own) / static_cast<double>(std::max<std::size_t>(counted, 1));
}

TEST_F(staged, threads_of_a_node_serve_its_devices_first) {
    if (count < 2 || !two_nodes::exist()) GTEST_SKIP() << "needs two devices and two processors";
    staged_options options;
    options.slot_size = 65536;
    options.slots = 16;
    const two_nodes nodes(facts, options);
    open(options);
    const other_device second;
    {
        const made_current scope(second);
        ASSERT_OK(kernels.load_into(second).status);
    }
    for (int device = 0; device < 2; ++device)
        ASSERT_OK(engine->prepare(device).status);
    EXPECT_EQ(engine->thread_count(), 16u);
    double best = 0;
    for (int i = 0; i < 40 && best < 0.9; ++i) // where threads of the node are late, others help
        best = std::max(best, share_of_own_node(*this, second, false));
    EXPECT_GE(best, 0.9);
    for (int i = 0; i < 5; ++i) // how much they help then depends on the machine
        EXPECT_GT(share_of_own_node(*this, second, true), -1);
    kernels.forget(second);
}

TEST(staging_servers, those_with_the_wanted_home_are_called_first) {
    std::mutex mutex;
    staging_servers servers;
    int woken[3] = {}; // by home, from any_node on
    bool is_over = false;
    std::vector<std::thread> threads;
    for (const int home : {any_node, 0, 0, 1, 1})
        threads.emplace_back([&, home] {
            staging_servers::lock held(mutex);
            servers.come(home);
            while (!is_over) {
                servers.sleep(held, home);
                ++woken[home + 1];
            }
            servers.leave(home);
            servers.unlock(held); // wakes others that were called
        });
    const auto wait_until = [&](const auto &is_so) {
        for (;;) {
            const staging_servers::lock held(mutex);
            if (is_so()) return;
        }
    };
    const auto all_sleep = [&] { return servers.count(server_state::asleep) == 5; };
    const struct {
        std::uint32_t calls;
        int home;
        int woken[3];
    } all[] = {{1, 0, {0, 1, 0}}, {2, 1, {0, 0, 2}},        {3, 1, {1, 0, 2}},
               {2, 7, {1, 1, 0}}, {1, any_node, {1, 0, 0}}, {9, 0, {1, 2, 2}}};
    for (const auto &one : all) {
        wait_until(all_sleep);
        staging_servers::lock held(mutex);
        EXPECT_FALSE(servers.is_any_free(0));
        std::fill(std::begin(woken), std::end(woken), 0);
        servers.call(one.calls, one.home);
        servers.unlock(held);
        wait_until([&] { return servers.count(server_state::called) == 0 && all_sleep(); });
        const staging_servers::lock again(mutex);
        for (int i = 0; i < 3; ++i)
            EXPECT_EQ(woken[i], one.woken[i]) << one.calls << " calls for " << one.home << ", home " << i - 1;
    }
    {
        staging_servers::lock held(mutex);
        is_over = true;
        servers.call_all();
        servers.unlock(held);
    }
    for (std::thread &one : threads)
        one.join();
    servers.come(1);
    EXPECT_TRUE(servers.is_any_free(1));
    EXPECT_FALSE(servers.is_any_free(0));
    servers.change(server_state::awake, server_state::busy, 1);
    EXPECT_FALSE(servers.is_any_free(1));
    servers.change(server_state::busy, server_state::awake, 1);
    servers.leave(1);
}

TEST_F(staged, threads_run_anywhere_where_their_node_has_few_processors) {
    if (!two_nodes::exist()) GTEST_SKIP() << "needs two processors";
    staged_options options;
    const two_nodes nodes(facts, options);
    options.processors_of_node = [](int number) noexcept {
        processor_set found = two_nodes::node(number);
        for (unsigned i = 0; i < 3; ++i) // leaves 14, and eight threads want 16
            found.words[std::size(found.words) - 1] &= ~(std::uint64_t{1} << (63 - i));
        return found;
    };
    open(options);
    ASSERT_OK(engine->prepare(0).status);
    std::atomic<int> on_one = 0, pages = 0;
    const mapped_memory source(std::size_t{4} << 20);
    {
        const fault_handler open_page([&](std::byte *) {
            on_one += node_of_caller() != any_node;
            ++pages;
            source.allow(0, source.size(), page_access::read);
            return true;
        });
        source.allow(0, source.size(), page_access::none);
        const test_stream stream;
        const device_memory target(source.size());
        const staged_box box = {{target, 0, 0}, {source.address(), 0, 0}, source.size(), 1, 1, true};
        ASSERT_OK(engine->enqueue({.box = box, .context = context}, stream, nullptr).status);
        ASSERT_OK(raw().cuStreamSynchronize(stream));
    }
    EXPECT_GT(pages, 0);
    EXPECT_EQ(on_one, 0);
}
#endif

TEST_F(staged, launches_are_short_where_the_device_has_a_watchdog) {
    driver_table cu = raw();
    cu.cuDeviceGetAttribute = [](int *value, CUdevice_attribute which, CUdevice device) -> CUresult {
        if (which != CU_DEVICE_ATTRIBUTE_KERNEL_EXEC_TIMEOUT) return raw().cuDeviceGetAttribute(value, which, device);
        *value = 1;
        return CUDA_SUCCESS;
    };
    const bool had_one = facts[0].has_watchdog;
    ASSERT_OK(query_device(cu, 0, on_software_driver(), facts[0]).status);
    EXPECT_TRUE(facts[0].has_watchdog);
    open(staged_options{});
    const test_stream stream;
    constexpr std::uint64_t size = 136'000'000;
    const mapped_memory from(size), back(size);
    for (std::uint64_t at = 0; at < size; at += 4096)
        from.data()[at] = static_cast<std::byte>(at / 4096);
    const device_memory to(size);
    ASSERT_OK(raw().cuMemsetD8(to, 0xff, size));
    ASSERT_OK(raw().cuCtxSynchronize()); // the stream does not wait for it
    const staged_box line = {{to, 0, 0}, {from.address(), 0, 0}, size, 1, 1, true};
    staged_progress progress;
    ASSERT_OK(engine->prepare(0).status);
    {
        gate held(stream);
        ASSERT_OK(engine->enqueue({.box = line, .context = context}, stream, &progress).status);
        EXPECT_EQ(progress.launches_left, 3u); // of 64 MiB each
    }
    ASSERT_OK(engine->help(progress).status);
    ASSERT_OK(raw().cuStreamSynchronize(stream));
    ASSERT_OK(raw().cuMemcpyDtoH(back.data(), to, size));
    EXPECT_EQ(std::memcmp(back.data(), from.data(), size), 0);
    facts[0].has_watchdog = had_one;
}

TEST_F(staged, enqueued_work_is_submitted_where_the_driver_defers_it) {
    static std::atomic<int> queries = 0;
    static driver_table cu; // the engine uses it until TearDown
    cu = raw();
    cu.cuStreamQuery = [](CUstream stream) -> CUresult {
        ++queries;
        return raw().cuStreamQuery(stream);
    };
    const bool kept_some = facts[0].keeps_work_back;
    for (const bool keeps_some : {false, true}) {
        facts[0].keeps_work_back = keeps_some;
        open(small(), cu);
        ASSERT_OK(engine->prepare(0).status);
        const test_stream stream;
        copied one(linear(100'000), true, 1);
        queries = 0;
        ASSERT_OK(enqueue(one, stream));
        EXPECT_EQ(queries, keeps_some ? 1 : 0);
        ASSERT_OK(raw().cuStreamSynchronize(stream));
        one.expect_whole();
    }
    facts[0].keeps_work_back = kept_some;
}

// ---- Many at a time -------------------------------------------------------------------------------------------

// Returns how much of the big copy has arrived when the small copy is done, which was enqueued after the big one's
// first chunks.
struct big_and_small {
    std::uint32_t blocks, slots;
    bool helps;
};
double share_of_big(staged &test, const big_and_small &given, bool to_device) {
    staged_options options = staged::small();
    options.slots = given.slots;
    options.first_slots = std::min(options.first_slots, given.slots);
    options.max_launch = 1 << 30;
    test.open(options);
    const test_stream big_stream, small_stream;
    const std::uint64_t size = on_software_driver() ? 20'000'000 : 200'000'000;
    copied big(linear(size), to_device, 1), little(linear(20'000), false, 2);
    staged_progress of_big, of_little;
    EXPECT_OK(test.enqueue(big, big_stream, &of_big, given.blocks));
    while (of_big.bytes_done == 0)
        std::this_thread::yield();
    EXPECT_OK(test.enqueue(little, small_stream, &of_little));
    if (given.helps) {
        EXPECT_OK(test.engine->help(of_little).status);
    }
    EXPECT_OK(raw().cuStreamSynchronize(small_stream));
    const auto bytes_done = static_cast<double>(of_big.bytes_done);
    EXPECT_OK(raw().cuStreamSynchronize(big_stream));
    little.expect_whole();
    big.expect_whole();
    return bytes_done / static_cast<double>(size);
}

TEST_F(staged, a_small_copy_does_not_wait_for_a_large_copy) {
    if (streams_share_a_queue()) GTEST_SKIP() << "nothing passes a stream that waits";
    // Fewer blocks than threads; one block per thread, so that a thread may stay at its block; more blocks than
    // threads; and fewer slots than copies.
    for (const big_and_small &given : {big_and_small{1, 8, true}, {3, 8, false}, {8, 8, true}, {1, 1, false}})
        for (const bool to_device : both_ways) {
            double least = 1;
            for (int i = 0; i < 3 && least > 0.8; ++i) // the machine may have been busy
                least = std::min(least, share_of_big(*this, given, to_device));
            EXPECT_LT(least, 0.8) << (to_device ? "to" : "from") << " the device, " << given.blocks << " blocks, "
                                  << given.slots << " slots, helps: " << given.helps;
        }
}

TEST_F(staged, copies_and_kernels_on_many_streams_run_beside_allocations_and_frees) {
    staged_options options = small();
    options.max_launch = 64 << 10; // a free may wait for one launch, and the next launch for the free
    open(options);
    constexpr int streams = 64;
    ASSERT_OK(engine->prepare(0).status);
    std::atomic<bool> is_over = false;
    std::thread other([&] {
        ASSERT_OK(raw().cuCtxSetCurrent(context));
        while (!is_over) {
            CUdeviceptr address = 0;
            void *host = nullptr;
            ASSERT_OK(raw().cuMemAlloc(&address, 1 << 16));
            ASSERT_OK(raw().cuMemHostAlloc(&host, 1 << 16, 0));
            ASSERT_OK(raw().cuMemFree(address));
            ASSERT_OK(raw().cuMemFreeHost(host));
        }
        ASSERT_OK(raw().cuCtxSetCurrent(nullptr));
    });
    std::vector<std::unique_ptr<test_stream>> on;
    std::vector<std::unique_ptr<copied>> all;
    std::mt19937_64 random(9);
    for (int i = 0; i < streams; ++i) {
        on.push_back(std::make_unique<test_stream>());
        for (int k = 0; k < 2; ++k)
            all.push_back(std::make_unique<copied>(linear(1 + random() % 200'000, random() % 16), random() % 2, i));
    }
    constexpr std::uint64_t size = 4096;
    const device_memory ground(2 * size * streams); // for kernels between the copies: each reads one half of its part
    const bytes picture = random_bytes(2 * size * streams, 3);
    write_for_all_streams(ground, picture);
    for (int round = 0; round < 3; ++round)
        for (std::size_t i = 0; i < all.size(); ++i) {
            ASSERT_OK(enqueue(*all[i], *on[i / 2]));
            const std::uint64_t its = ground + i / 2 * 2 * size;
            ASSERT_OK(
                launch_strided(raw(), kernels, {{its + size, 0, 0}, {its, 0, 0}, size, 1, 1}, 1, *on[i / 2]).status);
        }
    for (const auto &stream : on)
        EXPECT_OK(raw().cuStreamSynchronize(*stream));
    is_over = true;
    other.join();
    for (const auto &one : all)
        one->expect_whole();
    const bytes after = read_back(ground, picture.size());
    for (std::uint64_t i = 0; i < 2 * streams; i += 2)
        for (const std::uint64_t half : {i, i + 1})
            EXPECT_TRUE(std::equal(&after[half * size], &after[half * size] + size, &picture[i * size])) << half;
}

TEST_F(staged, threads_enqueue_at_the_same_time) {
    open();
    std::vector<std::thread> callers;
    for (int t = 0; t < 4; ++t)
        callers.emplace_back([&, t] {
            ASSERT_OK(raw().cuCtxSetCurrent(context));
            const test_stream stream;
            for (int round = 0; round < 10; ++round) {
                copied one(linear(300'000 + static_cast<std::uint64_t>(t)), round % 2, static_cast<std::uint64_t>(t));
                staged_progress progress;
                ASSERT_OK(enqueue(one, stream, &progress));
                ASSERT_OK(round % 3 ? engine->help(progress).status.number
                                    : static_cast<std::int32_t>(raw().cuStreamSynchronize(stream)));
                ASSERT_TRUE(progress.is_done());
                one.expect_whole();
            }
            ASSERT_OK(raw().cuStreamSynchronize(stream));
            ASSERT_OK(raw().cuCtxSetCurrent(nullptr));
        });
    for (std::thread &one : callers)
        one.join();
}

TEST_F(staged, any_number_of_copies_can_wait) {
    open();
    const test_stream stream;
    copied one(linear(5000), true, 1);
    ASSERT_OK(engine->prepare(0).status);
    gate held(stream);
    for (int i = 0; i < 600; ++i)
        ASSERT_OK(enqueue(one, stream));
    held.open();
    ASSERT_OK(raw().cuStreamSynchronize(stream));
    one.expect_whole();
}

// ---- Graphs ---------------------------------------------------------------------------------------------------

struct staged_graph : staged {
    std::int32_t capture(copied &one, CUstream stream) {
        return engine->enqueue({.box = one.box(), .context = context, .is_captured = true}, stream, nullptr).status;
    }
};

TEST_F(staged_graph, a_captured_copy_runs_at_every_launch) {
    open();
    const test_stream stream;
    copied up(linear(300'000, 1), true, 1), down(linear(300'000, 1), false, 2);
    captured_graph graph(stream);
    ASSERT_OK(capture(up, stream));
    ASSERT_OK(raw().cuMemcpyDtoDAsync(down.device, up.device, 300'001, stream));
    ASSERT_OK(capture(down, stream));
    graph.end();
    for (int round = 0; round < 10; ++round) {
        const bytes data = random_bytes(up.host.size(), static_cast<std::uint64_t>(round));
        std::copy(data.begin(), data.end(), up.host.begin());
        graph.run();
        ASSERT_EQ(std::memcmp(up.host.data(), down.host.data(), 300'000), 0);
    }
    // A plain copy takes nothing that the graph still needs.
    copied plain(linear(300'000), true, 4);
    ASSERT_OK(enqueue(plain, stream));
    graph.run();
    plain.expect_whole();
}

TEST_F(staged_graph, a_graph_that_is_never_launched_leaves_nothing_to_wait_for) {
    open();
    const test_stream stream;
    copied one(linear(300'000), true, 1);
    captured_graph graph(stream);
    ASSERT_OK(capture(one, stream));
    graph.end();
    close();
}

TEST_F(staged_graph, two_executables_of_one_graph_run_at_the_same_time) {
    open();
    const test_stream first, second;
    copied one(linear(300'000), true, 1), other(linear(400'000), false, 2);
    captured_graph graph(first);
    ASSERT_OK(capture(one, first));
    ASSERT_OK(capture(other, first));
    graph.end();
    CUgraphExec again = nullptr;
    ASSERT_OK(raw().cuGraphInstantiateWithFlags(&again, graph.graph, 0));
    for (int round = 0; round < 30; ++round) {
        ASSERT_OK(raw().cuGraphLaunch(graph.executable, first));
        ASSERT_OK(raw().cuGraphLaunch(again, second));
        if (round % 4 == 3) {
            ASSERT_OK(raw().cuStreamSynchronize(first));
            ASSERT_OK(raw().cuStreamSynchronize(second));
            one.expect_whole();
            other.expect_whole();
        }
    }
    ASSERT_OK(raw().cuStreamSynchronize(first));
    ASSERT_OK(raw().cuStreamSynchronize(second));
    one.expect_whole();
    other.expect_whole();
    EXPECT_OK(raw().cuGraphExecDestroy(again));
}

TEST_F(staged_graph, a_copy_whose_capture_fails_leaves_nothing_once_its_graph_is_gone) {
    if (!raw().cuUserObjectCreate) GTEST_SKIP() << "the driver has no user objects";
    fault_driver faults(raw_entry_points());
    driver_table cu;
    bool found[driver_symbol_count] = {};
    resolve_table({faults.options().get_proc, nullptr}, cu, found);
    const test_stream stream;
    for (const char *const entry : {"cuLaunchHostFunc", "cuLaunchKernel"})
        for (int nth = 1; nth <= 3; ++nth) {
            SCOPED_TRACE(testing::Message() << entry << ", call " << nth);
            open(small(), cu);
            copied one(linear(3'000'000), true, 1), plain(linear(3'000'000), true, 2); // 3 launches
            CUgraph graph = nullptr;
            ASSERT_OK(raw().cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
            faults.fail(entry, CUDA_ERROR_NOT_PERMITTED, nth);
            EXPECT_EQ(capture(one, stream), -1000 - CUDA_ERROR_NOT_PERMITTED);
            faults.heal();
            ASSERT_OK(raw().cuStreamEndCapture(stream, &graph));
            ASSERT_OK(raw().cuGraphDestroy(graph));
            ASSERT_OK(enqueue(plain, stream));
            ASSERT_OK(raw().cuStreamSynchronize(stream));
            plain.expect_whole();
            while (engine->staging_bytes() != 0) { // part of the slots stays as long as a captured copy may run
                engine->trim();
                std::this_thread::yield();
            }
            close();
        }
}

// ---- Threads --------------------------------------------------------------------------------------------------

struct few_threads {
    explicit few_threads(int count) { threads_given = count; }
    ~few_threads() { threads_given = -1; }
};

TEST_F(staged, the_job_system_of_the_program_does_the_work) {
    program_threads jobs(1);
    staged_options options = small();
    options.submit = program_threads::submit;
    options.submit_user = &jobs;
    open(options);
    copy_scenes({linear(3'000'000), {{0, 1024, 0}, {0, 2048, 0}, 1000, 300, 1}});
    EXPECT_EQ(engine->thread_count(), 0u);
    EXPECT_GT(jobs.submitted, 0);

    // Many copies at the same time on the single thread, some of them behind others.
    const test_stream first, second;
    std::vector<std::unique_ptr<copied>> all;
    for (int i = 0; i < 20; ++i)
        all.push_back(std::make_unique<copied>(linear(100'000), i % 2, i));
    for (int i = 0; i < 20; ++i)
        ASSERT_OK(enqueue(*all[static_cast<std::size_t>(i)], i % 3 ? first : second));
    ASSERT_OK(raw().cuStreamSynchronize(first));
    ASSERT_OK(raw().cuStreamSynchronize(second));
    for (const auto &one : all)
        one->expect_whole();
    close();
}

// Makes the driver start its threads, so that few_threads limits only the engine's threads.
void start_threads_of_the_driver() {
    const test_stream warm;
    ASSERT_OK(raw().cuLaunchHostFunc(
        warm, [](void *) {}, nullptr));
    ASSERT_OK(raw().cuMemsetD8Async(device_memory(16), 0, 16, warm));
    ASSERT_OK(raw().cuStreamSynchronize(warm));
}

TEST_F(staged, copies_arrive_although_the_job_system_refuses_work) {
    struct refusal {
        const char *when;
        bool (*refuses)(int nth);
    };
    for (const refusal &one : {refusal{"always", [](int) { return true; }},
                               {"every second time", [](int nth) { return nth % 2 == 1; }},
                               {"after a while", [](int nth) { return nth > 5; }}}) {
        SCOPED_TRACE(one.when);
        program_threads jobs(1);
        jobs.refuses = one.refuses;
        open_on(jobs);
        copies_of_every_form_arrive();
        EXPECT_EQ(engine->thread_count(), 1u) << "the engine starts one thread of its own when work is refused";
        close();
    }
}

// A full queue makes submit run a job itself, in front of the kernel that the job should serve.
TEST_F(staged, copies_arrive_although_submit_runs_work_itself) {
    struct full_queue {
        const char *when;
        bool (*is_full)(int nth);
        int threads;
    };
    for (const full_queue &one : {full_queue{"always", program_threads::always, 0},
                                  {"always, with threads", program_threads::always, 2},
                                  {"sometimes", program_threads::sometimes, 1},
                                  {"after a while", [](int nth) { return nth > 5; }, 1}}) {
        SCOPED_TRACE(one.when);
        program_threads jobs(one.threads);
        jobs.is_full = one.is_full;
        open_on(jobs);
        copies_of_every_form_arrive();
        EXPECT_EQ(engine->thread_count(), 1u) << "the engine starts one thread of its own";

        std::vector<std::thread> callers;
        for (int caller = 0; caller < 4; ++caller)
            callers.emplace_back([&, caller] {
                const made_current as(context);
                const test_stream stream;
                std::vector<std::unique_ptr<copied>> all;
                for (int i = 0; i < 10; ++i)
                    all.push_back(std::make_unique<copied>(linear(100'000), i % 2, 10 * caller + i));
                for (const auto &each : all)
                    EXPECT_OK(enqueue(*each, stream));
                EXPECT_OK(raw().cuStreamSynchronize(stream));
                for (const auto &each : all)
                    each->expect_whole();
            });
        for (std::thread &caller : callers)
            caller.join();
        close();
    }
}

// Only the program's pool of threads serves both instances.
TEST_F(staged, work_of_one_instance_that_runs_in_submit_of_another_gets_a_thread) {
    if (streams_share_a_queue()) GTEST_SKIP() << "the second copy comes only when the first one has ended";
    program_threads jobs(1);
    jobs.is_full = [](int nth) { return nth == 2; };
    ferry_options options = options_under_test();
    options.copy_options = by_staging;
    options.staging =
        FERRY_STAGING_AT_OPEN;   // the second instance's first copy would wait for the first instance's copy
    options.staging_threads = 1; // so that a copy requests one thread
    options.submit = program_threads::submit;
    options.submit_user = &jobs;
    const instance_owner first = open_or_fail(options), second = open_or_fail(options);
    constexpr std::uint64_t size = 500'000;
    const device_memory device(2 * size);
    const bytes from = random_bytes(size, 1);
    const auto source = reinterpret_cast<std::uintptr_t>(from.data());
    const test_stream of_first, of_second;
    jobs.hold(true);
    ASSERT_OK(ferry_copy_bytes_async(first.get(), device, source, size, nullptr, of_first, nullptr, nullptr));
    while (jobs.submitted < 1)
        std::this_thread::yield();
    ASSERT_OK(ferry_copy_bytes_async(second.get(), device + size, source, size, nullptr, of_second, nullptr, nullptr));
    ASSERT_OK(raw().cuStreamSynchronize(of_first)); // its work ran in the second call of submit
    EXPECT_EQ(jobs.jobs_waiting(), 1);
    jobs.hold(false);
    ASSERT_OK(raw().cuStreamSynchronize(of_second));
    EXPECT_TRUE(read_back(device, size) == from);
    EXPECT_TRUE(read_back(device + size, size) == from);
}

TEST_F(staged, a_refused_copy_waits_until_a_thread_can_be_started) {
    FERRY_NEEDS_REFUSED_THREADS();
    program_threads jobs(1);
    jobs.refuses = [](int) { return threads_given == 0; };
    start_threads_of_the_driver();
    for (const bool has_threads_later : {true, false}) {
        open_on(jobs);
        ASSERT_OK(engine->prepare(0).status);
        const test_stream stream;
        copied one(linear(300'000), true, 1);
        {
            const few_threads limit(0);
            const int before = jobs.asked;
            ASSERT_OK(enqueue(one, stream));
            while (jobs.asked < before + 3)
                std::this_thread::yield();
            EXPECT_NE(raw().cuStreamQuery(stream), CUDA_SUCCESS);
            if (has_threads_later) threads_given = 1; // the program then accepts work again, too
        }
        ASSERT_OK(raw().cuStreamSynchronize(stream));
        one.expect_whole();
    }
    close();
}

TEST_F(staged, closing_serves_a_copy_that_no_thread_serves) {
    FERRY_NEEDS_REFUSED_THREADS();
    program_threads jobs(1);
    jobs.refuses = [](int) { return true; };
    start_threads_of_the_driver();
    open_on(jobs);
    ASSERT_OK(engine->prepare(0).status);
    const test_stream stream;
    copied one(linear(300'000), true, 1);
    {
        const few_threads limit(0);
        ASSERT_OK(enqueue(one, stream));
        while (jobs.asked == 0)
            std::this_thread::yield();
        close();
    }
    ASSERT_OK(raw().cuStreamSynchronize(stream));
    one.expect_whole();
}

TEST_F(staged, fewer_threads_than_requested_are_enough) {
    FERRY_NEEDS_REFUSED_THREADS();
    open();
    const test_stream stream; // makes the software driver start its threads
    {
        copied first(linear(1000), true, 1);
        ASSERT_OK(enqueue(first, stream));
        ASSERT_OK(raw().cuStreamSynchronize(stream));
    }
    open();
    {
        const few_threads limit(1);
        ASSERT_OK(engine->prepare(0).status);
    }
    EXPECT_EQ(engine->thread_count(), 1u);
    copy_scenes({linear(1'000'000)});
}

TEST_F(staged, without_any_thread_nothing_is_enqueued_unless_the_caller_helps) {
    FERRY_NEEDS_REFUSED_THREADS();
    open();
    const test_stream stream;
    copied one(linear(300'000), true, 1);
    {
        const few_threads limit(0);
        EXPECT_EQ(engine->prepare(0).status, FERRY_ERROR_OUT_OF_MEMORY);
        EXPECT_EQ(enqueue(one, stream), FERRY_ERROR_OUT_OF_MEMORY);
    }
    ASSERT_OK(raw().cuStreamSynchronize(stream));
    EXPECT_TRUE(read_back(one.device, one.on_device.size()) == one.on_device);
    // Makes the software driver start the threads of its streams.
    ASSERT_OK(raw().cuMemsetD8Async(one.device, 0, 16, stream));
    ASSERT_OK(raw().cuStreamSynchronize(stream));
    write_for_all_streams(one.device, one.on_device);
    {
        const few_threads limit(0);
        staged_progress progress;
        ASSERT_OK(
            engine->enqueue({.box = one.box(), .context = context, .caller_helps = true}, stream, &progress).status);
        ASSERT_OK(engine->help(progress).status);
        EXPECT_EQ(engine->thread_count(), 0u);
        ASSERT_OK(raw().cuStreamSynchronize(stream));
    }
    one.expect_whole();
}

// ---- The end --------------------------------------------------------------------------------------------------

TEST_F(staged, closing_waits_for_copies_in_flight) {
    const test_stream stream;
    for (const bool to_device : both_ways) {
        open();
        copied one(linear(5'000'000), to_device, 1);
        ASSERT_OK(engine->prepare(0).status);
        std::optional<gate> held;
        held.emplace(stream);
        ASSERT_OK(enqueue(one, stream));
        std::thread opener([&] { held->let_go(); });
        close();
        opener.join();
        ASSERT_OK(raw().cuStreamSynchronize(stream));
        held.reset();
        one.expect_whole();
    }
}

// Breaks the current context, as a kernel of the program may.
void touch_nothing(kernel_set &kernels) {
    const test_stream stream;
    const kernel_box nowhere = {{4096, 0, 0}, {8192, 0, 0}, 16, 1, 1};
    EXPECT_OK(launch_strided(raw(), kernels, nowhere, 1, stream).status);
    EXPECT_NE(raw().cuStreamSynchronize(stream), CUDA_SUCCESS);
}

TEST_F(staged, copies_of_a_context_that_dies_fail_and_others_continue) {
    if (!on_software_driver()) GTEST_SKIP() << "on a GPU the other contexts of the process are lost too";
    if (streams_share_a_queue()) GTEST_SKIP() << "nothing passes a stream that waits";
    open();
    ASSERT_OK(engine->prepare(0).status);
    const CUcontext doomed = make_doomed();
    {
        const test_stream stream;
        copied waiting(linear(300'000), true, 1), other(linear(300'000), true, 2);
        staged_progress progress, of_other;
        {
            gate held(stream);
            ASSERT_OK(engine->enqueue({.box = waiting.box(), .context = doomed}, stream, &progress).status);
            touch_nothing(kernels);
        }
        const std::int32_t told = engine->help(progress).status;
        EXPECT_TRUE(ferry_status_traits(told) & FERRY_STATUS_CONTEXT_DEAD) << told;
        {
            const made_current scope(context);
            const test_stream alive;
            copied here(linear(300'000), true, 2);
            ASSERT_OK(enqueue(here, alive, &of_other));
            ASSERT_OK(raw().cuStreamSynchronize(alive));
            here.expect_whole();
        }
        EXPECT_EQ(waiting.host, waiting.expected_host);
        close();
    }
    leave_dead(doomed);
}

TEST_F(staged, closing_does_not_wait_for_a_context_that_has_died) {
    if (!on_software_driver()) GTEST_SKIP() << "on a GPU the other contexts of the process are lost too";
    if (streams_share_a_queue()) GTEST_SKIP() << "nothing passes a stream that waits";
    open();
    ASSERT_OK(engine->prepare(0).status);
    const CUcontext doomed = make_doomed();
    bytes host(300'000);
    {
        const test_stream stream;
        const device_memory device(host.size());
        const box_end at = {reinterpret_cast<std::uintptr_t>(host.data()), 0, 0};
        gate held(stream);
        ASSERT_OK(
            engine->enqueue({.box = {{device, 0, 0}, at, host.size(), 1, 1, true}, .context = doomed}, stream, nullptr)
                .status);
        touch_nothing(kernels);
    }
    close();
    leave_dead(doomed);
}

// ---- Without a kernel -----------------------------------------------------------------------------------------

// A driver that counts copies, and whose pinned memory has a higher address with each allocation.
class ascending_driver {
public:
    explicit ascending_driver(std::size_t most_bytes) {
        copies = 0;
        for (void *&block : blocks_)
            EXPECT_OK(raw().cuMemHostAlloc(&block, most_bytes, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
        std::sort(std::begin(blocks_), std::end(blocks_), std::less<>());
        used_ = 0;
        table.cuMemHostAlloc = [](void **address, std::size_t, unsigned) {
            if (used_ == std::size(blocks_)) return CUDA_ERROR_OUT_OF_MEMORY;
            *address = blocks_[used_++];
            return CUDA_SUCCESS;
        };
        table.cuMemcpy3DAsync = [](const CUDA_MEMCPY3D *copy, CUstream stream) -> CUresult {
            ++copies;
            return raw().cuMemcpy3DAsync(copy, stream);
        };
    }
    ~ascending_driver() {
        for (; used_ != std::size(blocks_); ++used_)
            EXPECT_OK(raw().cuMemFreeHost(blocks_[used_]));
    }
    ascending_driver(const ascending_driver &) = delete;
    ascending_driver &operator=(const ascending_driver &) = delete;

    driver_table table = raw();
    static inline std::atomic<std::uint64_t> copies;

private:
    static inline void *blocks_[3] = {}; // the records and two lots
    static inline std::size_t used_ = 0;
};

staged_box by_copies(copied &one) {
    staged_box box = one.box();
    box.by_copies = true;
    return box;
}

std::int32_t enqueue_by_copies(staging_engine &engine, copied &one, CUcontext context, CUstream stream) {
    const auto &[first, row_pitch, slice_pitch] = one.box().device;
    const shape_end end = {
        memory_kind::device, -1, nullptr, 0, 0, 0, {first, 0}, row_pitch, row_pitch ? slice_pitch / row_pitch : 0};
    return engine.enqueue({.box = by_copies(one), .context = context, .device_end = &end}, stream, nullptr).status;
}

struct joined_scene {
    copy_scene scene;
    bool is_joined; // most of its chunks share a copy with other chunks
};

TEST_F(staged, neighbouring_chunks_share_a_copy_unless_they_are_in_two_allocations) {
    if (!raw().cuStreamBatchMemOp) GTEST_SKIP() << "the driver has no stream memory operations";
    device_facts without_registration = facts[0];
    without_registration.info.host_register = 0;
    staged_options options = small();
    options.slots = 32;
    const joined_scene scenes[] = {
        {linear(1'600'000, 5, 3), true},
        {{{5, 200'000, 0}, {1, 170'000, 0}, 160'000, 8, 1}, true},                 // ten chunks each row
        {{{7, 20'000, 0}, {0, 16'400, 0}, 16'384, 60, 1}, true},                   // one chunk each row
        {{{0, 1000, 0}, {0, 2048, 0}, 1000, 1000, 1}, true},                       // gaps only at the host
        {{{3, 100, 100 * 50}, {0, 128, 128 * 60}, 100, 50, 200}, true},            // the same with slices
        {{{3, 20'000, 20'000 * 4}, {0, 20'000, 20'000 * 3}, 16'300, 3, 20}, true}, // gaps between slices
        {{{0, 1001, 0}, {0, 1000, 0}, 1000, 1000, 1}, false},
        {{{9, 100, 100 * 60}, {0, 100, 100 * 50}, 100, 50, 200}, false},
    };
    for (const std::uint32_t first_slots : {4, 25, 26, 27, 28, 31, 32}) {
        options.first_slots = first_slots;
        ascending_driver driver(options.slots * (options.slot_size + slot_margin) + (std::size_t{4} << 20));
        ferry::pinned_memory its_pinned(driver.table, memory);
        its_pinned.set_up(&without_registration, 1, 0);
        staging_engine its(driver.table, contexts, kernels, its_pinned, facts, memory);
        its.set_up(options);
        ASSERT_OK(its.prepare(0).status);
        its.finish_preparing(0, context);
        const test_stream stream;
        for (const joined_scene &one : scenes)
            for (const bool to_device : both_ways) {
                SCOPED_TRACE(testing::Message()
                             << first_slots << " slots at first, " << one.scene.width << "x" << one.scene.height << "x"
                             << one.scene.depth << (to_device ? " to the device" : " to the host"));
                copied copy(one.scene, to_device, one.scene.width);
                driver.copies = 0;
                ASSERT_OK(enqueue_by_copies(its, copy, context, stream));
                ASSERT_OK(raw().cuStreamSynchronize(stream));
                copy.expect_whole();
                const std::uint64_t chunks = staging(by_copies(copy), options.slot_size).chunk_count();
                EXPECT_GE(chunks, 40u);
                EXPECT_EQ(driver.copies < chunks * 3 / 4, one.is_joined) << driver.copies << " of " << chunks;
            }
        its.close();
    }
}

// A driver call may wait for a lock whose holder waits for the stream, such as a free in another thread.
TEST_F(staged, copies_without_a_kernel_arrive_if_each_driver_call_waits_for_the_stream) {
    if (!raw().cuStreamBatchMemOp) GTEST_SKIP() << "the driver has no stream memory operations";
    static driver_table cu; // used until the fixture closes the engine
    cu = raw();
    cu.cuStreamBatchMemOp = [](CUstream stream, unsigned count, CUstreamBatchMemOpParams *all, unsigned flags) {
        EXPECT_OK(raw().cuStreamBatchMemOp(stream, count, all, flags));
        return static_cast<CUresult>(raw().cuStreamSynchronize(stream));
    };
    cu.cuMemcpy3DAsync = [](const CUDA_MEMCPY3D *copy, CUstream stream) {
        EXPECT_OK(raw().cuMemcpy3DAsync(copy, stream));
        return static_cast<CUresult>(raw().cuStreamSynchronize(stream));
    };
    staged_options options = small();
    options.slots = 32;
    open(options, cu);
    ASSERT_OK(engine->prepare(0).status);
    engine->finish_preparing(0, context);
    const test_stream stream;
    for (const bool to_device : both_ways)
        for (const std::uint64_t chunks : {1, 2, 3, 12, 50}) {
            copied one(linear(chunks * options.slot_size), to_device, chunks);
            ASSERT_OK(enqueue_by_copies(*engine, one, context, stream));
            ASSERT_OK(raw().cuStreamSynchronize(stream));
            one.expect_whole();
        }
}

// The first copy has the last slots, and the second copy the slots before them. The third copy then has slots on both
// sides of the second copy's slots.
TEST_F(staged, copies_without_a_kernel_arrive_through_slots_with_other_slots_between_them) {
    if (!raw().cuStreamBatchMemOp) GTEST_SKIP() << "the driver has no stream memory operations";
    if (streams_share_a_queue()) GTEST_SKIP() << "nothing passes a stream that waits";
    staged_options options = small();
    options.slots = 32;
    for (std::uint64_t chunks_between = 1; chunks_between <= 4; ++chunks_between)
        for (const bool to_device : both_ways) {
            open(options);
            ASSERT_OK(engine->prepare(0).status);
            engine->finish_preparing(0, context);
            const test_stream streams[3];
            copied first(linear(3 * options.slot_size), true, 1),
                second(linear(chunks_between * options.slot_size), true, 2),
                third(linear(100 * options.slot_size), to_device, 3);
            gate of_first(streams[0]), of_second(streams[1]);
            ASSERT_OK(enqueue_by_copies(*engine, first, context, streams[0]));
            ASSERT_OK(enqueue_by_copies(*engine, second, context, streams[1]));
            of_first.open();
            ASSERT_OK(raw().cuStreamSynchronize(streams[0]));
            ASSERT_OK(enqueue_by_copies(*engine, third, context, streams[2]));
            ASSERT_OK(raw().cuStreamSynchronize(streams[2]));
            of_second.open();
            ASSERT_OK(raw().cuStreamSynchronize(streams[1]));
            for (const copied *const one : {&first, &second, &third})
                one->expect_whole();
        }
}

// ---- Failures -------------------------------------------------------------------------------------------------

TEST_F(staged, any_failing_driver_call_is_reported_and_the_next_copy_works) {
    struct place {
        const char *entry;
        int calls; // the most that a copy makes
    };
    constexpr place places[] = {{"cuLaunchKernel", 3},         {"cuLaunchHostFunc", 3},
                                {"cuPointerGetAttributes", 3}, {"cuThreadExchangeStreamCaptureMode", 6},
                                {"cuMemHostRegister", 3},      {"cuMemHostAlloc", 3},
                                {"cuCtxGetCurrent", 3},        {"cuDevicePrimaryCtxRetain", 1}};
    fault_driver faults(raw_entry_points());
    driver_table cu;
    bool found[driver_symbol_count] = {};
    resolve_table({faults.options().get_proc, nullptr}, cu, found);
    const test_stream stream;
    for (const place &one : places)
        for (int nth = 1; nth <= one.calls; ++nth)
            for (const bool is_for_ever : {false, true}) {
                SCOPED_TRACE(testing::Message() << one.entry << ", call " << nth << (is_for_ever ? " and on" : ""));
                device_contexts its_contexts(cu, facts);
                its_contexts.set_count(count);
                ferry::pinned_memory its_pinned(cu, memory);
                its_pinned.set_up(facts, count, 0);
                staged_options options = small();
                options.max_launch = 256 << 10;
                // The engine's own thread works in both cases. With submit, host functions announce the runs.
                if ((nth + is_for_ever) % 2)
                    options.submit = [](void *, void (*)(void *), void *) { return std::int32_t{0}; };
                staging_engine its(cu, its_contexts, kernels, its_pinned, facts, memory);
                its.set_up(options);
                faults.reset_counts();
                faults.fail(one.entry, CUDA_ERROR_UNKNOWN, nth, is_for_ever);
                copied first(linear(600'000), true, 1), second(linear(200'000), false, 2); // 3 launches
                staged_progress progress;
                const std::int32_t status =
                    its.enqueue({.box = first.box(), .context = context}, stream, &progress).status;
                faults.heal();
                EXPECT_TRUE(status == FERRY_SUCCESS || status == -1000 - CUDA_ERROR_UNKNOWN) << status;
                ASSERT_OK(raw().cuStreamSynchronize(stream));
                if (status == FERRY_SUCCESS) first.expect_whole();
                EXPECT_TRUE(progress.is_done());
                ASSERT_OK(its.enqueue({.box = second.box(), .context = context}, stream, nullptr).status);
                ASSERT_OK(raw().cuStreamSynchronize(stream));
                second.expect_whole();
                its.close();
                if (HasFailure()) return;
            }
}

// Imitates a system where little memory can be pinned.
constexpr std::size_t largest_pinned = 100'000;

TEST_F(staged, where_little_can_be_pinned_slots_are_fewer_and_smaller) {
    driver_table cu = raw();
    cu.cuMemHostRegister = [](void *address, std::size_t size, unsigned flags) -> CUresult {
        return size > largest_pinned ? CUDA_ERROR_OUT_OF_MEMORY : raw().cuMemHostRegister(address, size, flags);
    };
    cu.cuMemHostAlloc = [](void **address, std::size_t size, unsigned flags) -> CUresult {
        return size > largest_pinned ? CUDA_ERROR_OUT_OF_MEMORY : raw().cuMemHostAlloc(address, size, flags);
    };
    ferry::pinned_memory its_pinned(cu, memory);
    its_pinned.set_up(facts, count, 0);
    staging_engine its(cu, contexts, kernels, its_pinned, facts, memory);
    its.set_up({});
    const test_stream stream;
    for (const bool to_device : both_ways) {
        copied one(linear(1'000'000, 3), to_device, 3);
        for (int i = 0; i < 100; ++i) // more records than a page holds
            ASSERT_OK(its.enqueue({.box = one.box(), .context = context}, stream, nullptr).status);
        ASSERT_OK(raw().cuStreamSynchronize(stream));
        one.expect_whole();
    }
    EXPECT_GT(its.staging_bytes(), 0u);
    EXPECT_LE(its.staging_bytes(), 2 * largest_pinned);
    its.close();
}

TEST_F(staged, a_forked_child_leaves_the_engine_alone) {
    FERRY_NEEDS_FORK();
    open();
    copy_scenes({linear(100'000)});
    const int status = run_in_child([&] {
        engine.reset(); // a forked child destroys the engine without closing it
        return 0;
    });
    EXPECT_EQ(status, 0);
    copy_scenes({linear(100'000)});
}

TEST_F(staged, pinned_memory_is_released) {
    open();
    copy_scenes({linear(1'000'000)});
    while (engine->staging_bytes() < 8 * 16384)
        std::this_thread::yield();
    while (engine->staging_bytes() != 0) { // possible once the engine knows that its last kernel is complete
        engine->trim();
        std::this_thread::yield();
    }
    copy_scenes({linear(1'000'000)});
    EXPECT_GT(engine->staging_bytes(), 0u);

    const test_stream stream;
    copied one(linear(1'000'000), true, 1);
    staged_progress progress;
    ASSERT_OK(enqueue(one, stream, &progress));
    engine->trim();
    EXPECT_TRUE(progress.is_done() || engine->staging_bytes() != 0);
    ASSERT_OK(raw().cuStreamSynchronize(stream));
    one.expect_whole();
}

} // namespace
} // namespace ferry::test
