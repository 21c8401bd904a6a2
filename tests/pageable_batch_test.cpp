// Batches with pageable ends: one staged copy makes all copies of a direction. Compares every byte with a plain
// reference, and checks the order on streams.
#include <cstring>
#include <deque>
#include <optional>
#include <thread>

#if !defined(_WIN32)
#include <sys/mman.h>
#include <unistd.h>
#endif

#include "support/captured_graph.h"
#include "support/counted_test.h"
#include "support/gate.h"
#include "support/how.h"
#include "support/piece_batch.h"
#include "support/piece_lists.h"
#include "support/raw_objects.h"
#include "support/stuck_pages.h"
#include "support/system.h"
#include "system/address_space.h"

namespace ferry::test {
namespace {

struct way {
    place_kind from, to;
};
constexpr way both_ways[] = {{place_kind::pageable, place_kind::device}, {place_kind::device, place_kind::pageable}};

class pageable_batch : public counted_test {
protected:
    void SetUp() override {
        counted_test::SetUp();
        if (!has_kernels()) GTEST_SKIP() << "without kernels nothing is staged";
        ASSERT_OK(ferry_staging_prepare(counted.get(), 0, nullptr));
    }
    void reopen(const auto &change) {
        ferry_options options = driver.options();
        change(options);
        counted = open_or_fail(options);
        ASSERT_OK(ferry_staging_prepare(counted.get(), 0, nullptr));
    }
    void wait() { ASSERT_OK(raw().cuStreamSynchronize(stream)); }
    // A batch behind other work, which is always staged.
    void copy_behind_work(scattered &pieces) {
        driver.reset_counts();
        const gate held(stream);
        ASSERT_OK(pieces.batch.copy_async(counted.get(), stream));
    }
    void expect_explained(const way &one, const how &options, std::uint64_t size, std::uint64_t count, bool is_busy);
    void expect_one_launch(int launches = 1) {
        EXPECT_EQ(driver.calls("cuLaunchKernel"), launches);
        for (const char *const call : {"cuMemcpy3DAsync", "cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync", "cuMemcpyAsync"})
            EXPECT_EQ(driver.calls(call), 0) << call;
    }
};

TEST_F(pageable_batch, thousands_of_pieces_take_one_launch) {
    for (const way &one : both_ways)
        for (const std::size_t largest : {40, 3000}) {
            scattered pieces(one.from, one.to, 3000, largest, 10 + largest);
            copy_behind_work(pieces);
            wait();
            expect_one_launch();
            pieces.expect_copied();
        }
}

TEST_F(pageable_batch, pieces_of_every_small_size_and_alignment_touch_no_other_byte) {
    constexpr std::uint64_t sizes = 50, step = 96;
    for (const way &one : both_ways) {
        const grid all = {.width = 256 * sizes * step};
        test_place source(one.from, all), destination(one.to, all);
        source.fill(1);
        destination.fill(2);
        piece_batch batch;
        std::uint64_t slot = 0;
        for (std::uint64_t alignment = 0; alignment < 256; ++alignment)
            for (std::uint64_t size = 1; size <= sizes; ++size, ++slot) {
                const std::uint64_t to = slot * step + alignment % 16, from = slot * step + alignment / 16;
                batch.add(destination.address() + to, source.address() + from, size);
                reference_copy(source, {.x = from}, destination, {.x = to}, size, 1, 1);
            }
        {
            const gate held(stream);
            ASSERT_OK(batch.copy_async(counted.get(), stream));
        }
        wait();
        EXPECT_TRUE(destination.read() == destination.picture());
        EXPECT_TRUE(source.read() == source.picture());
    }
}

TEST_F(pageable_batch, long_pieces_are_shared_among_small_slots) {
    for (const std::uint64_t ring : {4096, 8 * 4096, 1 << 20}) {
        reopen([&](ferry_options &options) { options.staging_bytes = ring; });
        for (const way &one : both_ways) {
            scattered pieces(one.from, one.to, 40, 70'000, ring);
            copy_behind_work(pieces);
            wait();
            pieces.expect_copied();
        }
    }
}

TEST_F(pageable_batch, both_directions_and_other_memory_share_a_batch) {
    scattered up(place_kind::pageable, place_kind::device, 300, 900, 1),
        down(place_kind::device, place_kind::pageable, 300, 900, 2),
        pinned(place_kind::pinned, place_kind::device, 300, 900, 3),
        within(place_kind::device, place_kind::device, 300, 900, 4);
    piece_batch all;
    for (std::size_t i = 0; i < 300; ++i)
        for (const scattered *const one : {&up, &down, &pinned, &within})
            all.add(one->batch.to[i], one->batch.from[i], one->batch.sizes[i]);
    for (const bool is_synchronous : {false, true}) {
        if (is_synchronous) {
            ASSERT_OK(all.copy(counted.get()));
        } else {
            {
                const gate held(stream);
                driver.reset_counts();
                ASSERT_OK(all.copy_async(counted.get(), stream));
                EXPECT_LE(driver.calls("cuLaunchKernel"), 4);
            }
            wait();
        }
        for (scattered *const one : {&up, &down, &pinned, &within})
            one->expect_copied();
    }
}

TEST_F(pageable_batch, boxes_and_rows_share_the_launch) {
    for (const way &one : both_ways) {
        const grid layout = {.width = 700, .height = 60, .depth = 5, .row_pitch = 733, .slice_height = 64, .lead = 3};
        const grid other = {.width = 700, .height = 60, .depth = 5, .row_pitch = 1000, .lead = 1};
        test_place source(one.from, layout), destination(one.to, other);
        source.fill(1);
        destination.fill(2);
        struct part {
            box from, to;
            std::uint64_t width, height, depth;
        };
        const part parts[] = {{{}, {}, 300, 60, 5},
                              {{.x = 300}, {.x = 300}, 100, 1, 1},
                              {{.x = 400, .y = 7}, {.x = 401, .y = 9}, 1, 50, 5},
                              {{.x = 500, .y = 3, .z = 1}, {.x = 480, .y = 1, .z = 2}, 200, 40, 2}};
        std::vector<ferry_copy_desc> copies;
        for (const part &of : parts) {
            copies.push_back(describe_copy(source.describe(statement::any, of.from),
                                           destination.describe(statement::any, of.to), of.width, of.height, of.depth));
            reference_copy(source, of.from, destination, of.to, of.width, of.height, of.depth);
        }
        driver.reset_counts();
        {
            const gate held(stream);
            ASSERT_OK(
                ferry_copy_batch_async(counted.get(), copies.data(), copies.size(), nullptr, stream, nullptr, nullptr));
        }
        wait();
        expect_one_launch();
        EXPECT_TRUE(destination.read() == destination.picture());
        EXPECT_TRUE(source.read() == source.picture());
    }
}

TEST_F(pageable_batch, an_explanation_reports_how_many_copies_take_each_route) {
    scattered up(place_kind::pageable, place_kind::device, 1500, 900, 1),
        down(place_kind::device, place_kind::pageable, 20, 900, 2),
        within(place_kind::device, place_kind::device, 3000, 900, 3),
        apart(place_kind::pageable, place_kind::pinned, 7, 90, 4);
    piece_batch all;
    std::uint64_t copies[4] = {}, bytes[4] = {};
    const scattered *const parts[] = {&up, &down, &within, &apart};
    for (int part = 0; part < 4; ++part)
        for (std::size_t i = 0; i < parts[part]->batch.sizes.size(); ++i) {
            const piece_batch &of = parts[part]->batch;
            all.add(of.to[i], of.from[i], of.sizes[i]);
            copies[part] += of.sizes[i] != 0;
            bytes[part] += of.sizes[i];
        }
    ferry_batch_explanation told = {};
    told.struct_size = sizeof told;
    {
        const gate held(stream);
        driver.reset_counts();
        ASSERT_OK(ferry_copy_pieces_explain_async(
            counted.get(), in_arrays(all.to.data(), all.from.data(), all.sizes.data(), all.sizes.size()), nullptr,
            stream, &told, nullptr));
        expect_one_launch(0);
    }
    EXPECT_EQ(told.context_device, 0);
    EXPECT_EQ(told.staged.copies, copies[0] + copies[1]);
    EXPECT_EQ(told.staged.bytes, bytes[0] + bytes[1]);
    EXPECT_EQ(told.kernels.copies + told.batch_calls.copies + told.singles.copies, copies[2] + copies[3]);
    EXPECT_EQ(told.kernels.bytes + told.batch_calls.bytes + told.singles.bytes, bytes[2] + bytes[3]);
    EXPECT_GE(told.singles.copies, copies[3]);
    EXPECT_GT(told.threads, 0u);
    EXPECT_GT(told.max_sms, 0u);
    char line[300];
    const std::uint64_t length = ferry_batch_explanation_format(&told, line, sizeof line);
    EXPECT_EQ(length, std::strlen(line));
    EXPECT_EQ(std::string(line).find(std::to_string(told.staged.copies) + " copies staged on "), 0u) << line;
    EXPECT_NE(std::string(line).find(" by separate calls, "), std::string::npos) << line;
    ASSERT_OK(ferry_copy_batch_explain_async(counted.get(), nullptr, 0, nullptr, stream, &told, nullptr));
    EXPECT_EQ(told.context_device, -1);
    EXPECT_EQ(told.staged.copies, 0u);
    ferry_batch_explanation_format(&told, line, sizeof line);
    EXPECT_STREQ(line, "nothing to copy");
    told.struct_size = 0;
    EXPECT_EQ(ferry_copy_batch_explain_async(counted.get(), nullptr, 0, nullptr, stream, &told, nullptr),
              FERRY_ERROR_ABI_MISMATCH);
}

TEST_F(pageable_batch, the_explanation_counts_a_caller_that_helps_with_its_direction) {
    for (const how &options : {how(), read_in_the_call, written_in_the_call}) {
        reopen([&](ferry_options &of_instance) { of_instance.copy_options = options; });
        ferry_report report = {};
        report.struct_size = sizeof report;
        ASSERT_OK(ferry_instance_get_report(counted.get(), &report, nullptr));
        for (const way &one : both_ways) {
            SCOPED_TRACE(testing::Message() << options << (one.from == place_kind::pageable ? " up" : " down"));
            const scattered pieces(one.from, one.to, 400, 9000, 5);
            ferry_batch_explanation told = {};
            told.struct_size = sizeof told;
            const gate held(stream);
            ASSERT_OK(ferry_copy_pieces_explain_async(counted.get(),
                                                      in_arrays(pieces.batch.to.data(), pieces.batch.from.data(),
                                                                pieces.batch.sizes.data(), pieces.batch.sizes.size()),
                                                      nullptr, stream, &told, nullptr));
            const bool helps = options == (one.from == place_kind::pageable ? read_in_the_call : written_in_the_call);
            EXPECT_GT(told.staged.copies, 0u);
            EXPECT_EQ(told.threads, report.staging_threads + (helps ? 1u : 0u));
            const std::int32_t wait =
                one.from == place_kind::pageable ? FERRY_BLOCKS_UNTIL_STAGED : FERRY_BLOCKS_UNTIL_DONE;
            EXPECT_EQ(told.blocks, helps ? wait : FERRY_BLOCKS_NO);
        }
    }
}

TEST_F(pageable_batch, the_explanation_reports_the_longest_wait_of_a_copy) {
    const scattered up(place_kind::pageable, place_kind::device, 400, 9000, 5),
        within(place_kind::device, place_kind::device, 300, 900, 3),
        apart(place_kind::pageable, place_kind::pinned, 7, 90, 4);
    const auto wait_of = [&](std::initializer_list<const scattered *> parts) {
        piece_batch all;
        for (const scattered *const part : parts)
            for (std::size_t i = 0; i < part->batch.sizes.size(); ++i)
                all.add(part->batch.to[i], part->batch.from[i], part->batch.sizes[i]);
        ferry_batch_explanation told = {};
        told.struct_size = sizeof told;
        const gate held(stream);
        EXPECT_OK(ferry_copy_pieces_explain_async(
            counted.get(), in_arrays(all.to.data(), all.from.data(), all.sizes.data(), all.sizes.size()), nullptr,
            stream, &told, nullptr));
        char line[300];
        ferry_batch_explanation_format(&told, line, sizeof line);
        EXPECT_EQ(std::string(line).find("; blocks until copies are complete") != std::string::npos,
                  told.blocks == FERRY_BLOCKS_UNTIL_DONE)
            << line;
        return told.blocks;
    };
    EXPECT_EQ(wait_of({&within}), FERRY_BLOCKS_NO);
    EXPECT_EQ(wait_of({&within, &up}), FERRY_BLOCKS_NO);
    EXPECT_EQ(wait_of({&within, &up, &apart}), FERRY_BLOCKS_UNTIL_DONE) << "between host memory";
}

struct shares {
    std::uint64_t staged, driver, kernel, buffered;
};
shares counted_by(const instance_owner &instance) {
    ferry_device_counters all = {};
    all.struct_size = sizeof all;
    EXPECT_OK(ferry_device_get_counters(instance.get(), 0, &all, nullptr));
    return {all.staged.copies, all.driver.copies, all.kernel.copies, all.buffered.copies};
}

// Leaves `count` pieces of one size that do not touch each other.
void make_equal(scattered &pieces, std::uint64_t count, std::uint64_t size) {
    pieces.offsets.resize(count);
    pieces.batch.to.resize(count);
    pieces.batch.from.resize(count);
    pieces.batch.sizes.resize(count);
    for (std::uint64_t i = 0; i < count; ++i) {
        pieces.offsets[i] = {i * (size + 3), i * (size + 1), size};
        pieces.batch.to[i] = pieces.destination.address() + i * (size + 3);
        pieces.batch.from[i] = pieces.source.address() + i * (size + 1);
        pieces.batch.sizes[i] = size;
    }
}

TEST_F(pageable_batch, urgent_pieces_on_an_idle_stream_are_staged_together) {
    constexpr std::uint64_t above_commands = (64 << 10) + 1;
    for (const way &one : both_ways) {
        const bool is_up = one.from == place_kind::pageable;
        const std::uint64_t size = is_up ? above_commands : 500;
        scattered pieces(one.from, one.to, 30, size, 1);
        make_equal(pieces, 30, size);
        wait();
        const shares before = counted_by(counted);
        driver.reset_counts();
        ASSERT_OK(pieces.batch.copy_async(counted.get(), stream, urgent));
        wait();
        const shares after = counted_by(counted);
        EXPECT_EQ(after.staged - before.staged, 30u);
        EXPECT_EQ(after.driver - before.driver, 0u);
        expect_one_launch(2); // the first one finds out whether the device has room
        pieces.expect_copied();
    }
}

// The driver's call for an array would wait until it has completed on the stream.
TEST_F(pageable_batch, textures_without_surfaces_are_read_into_buffers_and_wait_for_nothing) {
    constexpr std::uint64_t count = 64, width = 128, height = 128;
    const bytes expected = random_bytes(count * width * height, 9);
    bytes source = expected;
    std::vector<CUarray> textures(count);
    std::vector<ferry_copy_desc> copies(count);
    for (std::uint64_t i = 0; i < count; ++i) {
        CUDA_ARRAY_DESCRIPTOR desc = {width / 4, height, CU_AD_FORMAT_UNSIGNED_INT8, 4};
        ASSERT_OK(raw().cuArrayCreate(&textures[i], &desc));
        ferry_place from = {}, to = {};
        ferry_place_any(&from, reinterpret_cast<std::uintptr_t>(source.data()) + i * width * height);
        ferry_place_array(&to, 0, textures[i]);
        copies[i] = {};
        copies[i].source = from;
        copies[i].destination = to;
        copies[i].width = width;
        copies[i].height = height;
    }
    enum class moment { idle, behind_work, one_by_one, source_is_free };
    for (const moment when : {moment::idle, moment::behind_work, moment::one_by_one, moment::source_is_free}) {
        const bool is_source_free = when == moment::source_is_free;
        const shares before = counted_by(counted);
        driver.reset_counts();
        {
            std::optional<gate> held;
            if (when != moment::idle) held.emplace(stream);
            if (when == moment::one_by_one)
                for (const ferry_copy_desc &one : copies)
                    ASSERT_OK(ferry_copy_async(counted.get(), &one, nullptr, stream, nullptr, nullptr));
            else
                ASSERT_OK(ferry_copy_batch_async(counted.get(), copies.data(), count,
                                                 is_source_free ? read_in_the_call : how(), stream, nullptr, nullptr));
            if (is_source_free) std::fill(source.begin(), source.end(), std::byte{1});
        }
        wait();
        const shares after = counted_by(counted);
        EXPECT_EQ(after.buffered - before.buffered, count);
        EXPECT_LE(driver.calls("cuEventRecord"), when == moment::one_by_one ? count : 8)
            << "the sources of a batch share blocks of 256 KiB";
    }
    for (std::uint64_t i = 0; i < count; ++i) {
        bytes found(width * height);
        CUDA_MEMCPY3D back = {};
        back.srcMemoryType = CU_MEMORYTYPE_ARRAY;
        back.srcArray = textures[i];
        back.dstMemoryType = CU_MEMORYTYPE_HOST;
        back.dstHost = found.data();
        back.WidthInBytes = width;
        back.Height = height;
        back.Depth = 1;
        ASSERT_OK(raw().cuMemcpy3D(&back));
        EXPECT_EQ(std::memcmp(found.data(), &expected[i * width * height], width * height), 0) << i;
        EXPECT_OK(raw().cuArrayDestroy(textures[i]));
    }
}

void pageable_batch::expect_explained(const way &one, const how &options, std::uint64_t size, std::uint64_t count,
                                      bool is_busy) {
    const bool is_up = one.from == place_kind::pageable;
    const bool waits_for_work = options.has(is_up ? read_in_the_call : written_in_the_call);
    if (is_busy && waits_for_work) return; // the call would wait for the gate
    scattered pieces(one.from, one.to, count + 1, size, 1);
    make_equal(pieces, count, size);
    wait();
    ferry_batch_explanation told = {};
    told.struct_size = sizeof told;
    const shares before = counted_by(counted);
    {
        std::optional<gate> held;
        if (is_busy) held.emplace(stream);
        ASSERT_OK(ferry_copy_pieces_explain_async(
            counted.get(),
            in_arrays(pieces.batch.to.data(), pieces.batch.from.data(), pieces.batch.sizes.data(), count), options,
            stream, &told, nullptr));
        if (is_busy && told.blocks != FERRY_BLOCKS_NO) return;
        ASSERT_OK(pieces.batch.copy_async(counted.get(), stream, options));
    }
    wait();
    const shares after = counted_by(counted);
    const std::uint64_t staged = after.staged - before.staged, by_driver = after.driver - before.driver;
    EXPECT_EQ(staged + by_driver + after.buffered - before.buffered, count);
    EXPECT_EQ(told.staged.copies + told.singles.copies, count);
    const bool is_as_told = count == 1 ? told.staged.copies <= staged : told.staged.copies == staged;
    EXPECT_TRUE(is_as_told || told.staging_delay_ns != 0) << told.staged.copies << " explained, " << staged << " made";
    EXPECT_TRUE(by_driver == 0 || is_busy || waits_for_work || told.blocks != FERRY_BLOCKS_NO);
    EXPECT_TRUE(staged == 0 || waits_for_work || told.blocks == FERRY_BLOCKS_NO);
    EXPECT_EQ(told.staged.predicted_ns + told.singles.predicted_ns != 0, staged + by_driver == count);
    pieces.expect_copied();
}

// Every explanation is compared with what the call then does.
TEST_F(pageable_batch, the_explanation_is_what_the_call_does) {
    for (const bool is_software_profile : {false, true}) {
        if (is_software_profile) {
            ferry_options options = driver.options();
            ferry_instance *opened = nullptr;
            ASSERT_OK(ferry_open(&options, &opened, nullptr));
            counted = instance_owner(opened);
            ASSERT_OK(ferry_staging_prepare(counted.get(), 0, nullptr));
        }
        for (const way &one : both_ways)
            for (const how &options : {ordinary, urgent, urgent | read_in_the_call, urgent | written_in_the_call})
                for (const std::uint64_t size : {500, 16 << 10, 80 << 10})
                    for (const std::uint64_t count : {1, 2, 20})
                        for (const bool is_busy : {false, true}) {
                            SCOPED_TRACE(testing::Message()
                                         << options << (one.from == place_kind::pageable ? " up" : " down") << ", size "
                                         << size << ", count " << count << (is_busy ? ", busy" : "")
                                         << (is_software_profile ? ", default profile" : ""));
                            expect_explained(one, options, size, count, is_busy);
                        }
    }
}

TEST_F(pageable_batch, the_explanation_of_an_updatable_batch_is_what_its_launch_does) {
    constexpr std::uint64_t size = 512, count = 40; // neighbours, which other batches merge
    const test_place source(place_kind::pageable, {.width = size * count}),
        destination(place_kind::device, {.width = size * count});
    piece_batch batch;
    for (std::uint64_t i = 0; i < count; ++i)
        batch.add(destination.address() + i * size, source.address() + i * size, size);
    for (const how &options : {ordinary, updatable}) {
        ferry_batch_explanation told = {};
        told.struct_size = sizeof told;
        ferry_prepared *prepared = nullptr;
        gate held(stream);
        ASSERT_OK(ferry_copy_pieces_explain_async(
            counted.get(), in_arrays(batch.to.data(), batch.from.data(), batch.sizes.data(), count), options, stream,
            &told, nullptr));
        ASSERT_OK(batch.prepare(counted.get(), stream, options, &prepared));
        const shares before = counted_by(counted);
        ASSERT_OK(ferry_prepared_launch(prepared, nullptr, stream, nullptr, nullptr));
        const shares after = counted_by(counted);
        EXPECT_EQ(told.staged.copies, after.staged - before.staged);
        EXPECT_EQ(told.staged.copies == count, options == updatable) << told.staged.copies;
        held.open();
        wait();
        EXPECT_OK(ferry_prepared_destroy(prepared, nullptr));
    }
}

TEST_F(pageable_batch, the_bytes_that_earlier_work_writes_are_copied) {
    scattered pieces(place_kind::pageable, place_kind::device, 500, 300, 7);
    {
        gate held(stream);
        ASSERT_OK(pieces.batch.copy_async(counted.get(), stream));
        pieces.source.fill(99); // as earlier work would
        held.open();
    }
    wait();
    pieces.expect_copied();
}

TEST_F(pageable_batch, sources_are_read_before_the_call_returns_if_the_options_say_so) {
    reopen([](ferry_options &options) { options.copy_options = read_in_the_call; });
    for (const std::size_t largest : {300, 9000}) { // buffered; staged
        scattered pieces(place_kind::pageable, place_kind::device, 500, largest, 8);
        const bytes before = pieces.source.read();
        {
            gate held(stream);
            std::thread later([&] { // the larger batch waits for the stream
                std::this_thread::sleep_for(std::chrono::milliseconds(20));
                held.let_go();
            });
            ASSERT_OK(pieces.batch.copy_async(counted.get(), stream));
            pieces.apply();
            pieces.source.fill(100); // no byte of this may travel
            later.join();
        }
        wait();
        EXPECT_TRUE(pieces.destination.read() == pieces.destination.picture());
    }
    scattered pieces(place_kind::pageable, place_kind::device, 5, 300, 9);
    captured_graph graph(stream);
    EXPECT_EQ(pieces.batch.copy_async(counted.get(), stream), FERRY_ERROR_CAPTURE);
    graph.end();
}

TEST_F(pageable_batch, a_graph_copies_at_every_launch) {
    for (const way &one : both_ways) {
        scattered pieces(one.from, one.to, 400, 500, 20);
        captured_graph graph(stream);
        ASSERT_OK(pieces.batch.copy_async(counted.get(), stream));
        graph.end();
        EXPECT_TRUE(pieces.destination.read() == pieces.destination.picture()) << "captured copies must not run";
        for (std::uint64_t round = 0; round < 3; ++round) {
            pieces.source.fill(200 + round);
            graph.run();
            pieces.expect_copied();
        }
    }
}

TEST_F(pageable_batch, a_prepared_batch_copies_the_bytes_of_each_launch) {
    for (const way &one : both_ways) {
        scattered pieces(one.from, one.to, 400, 500, 30);
        ferry_prepared *prepared = nullptr;
        ASSERT_OK(pieces.batch.prepare(counted.get(), stream, {}, &prepared));
        for (std::uint64_t round = 0; round < 3; ++round) {
            pieces.source.fill(300 + round);
            driver.reset_counts();
            {
                const gate held(stream);
                ASSERT_OK(ferry_prepared_launch(prepared, nullptr, stream, nullptr, nullptr));
            }
            wait();
            expect_one_launch();
            pieces.expect_copied();
        }
        EXPECT_OK(ferry_prepared_destroy(prepared, nullptr));
    }
}

TEST_F(pageable_batch, new_addresses_of_a_prepared_batch_apply_to_later_launches) {
    for (const way &one : both_ways) {
        constexpr std::size_t count = 300;
        scattered first(one.from, one.to, count, 500, 40);
        scattered second(one.from, one.to, count, 500, 40); // the same sizes
        ferry_prepared *prepared = nullptr;
        ASSERT_OK(first.batch.prepare(counted.get(), stream, updatable, &prepared));
        ASSERT_OK(ferry_prepared_launch(prepared, nullptr, stream, nullptr, nullptr));
        wait();
        first.expect_copied();
        bool moves_by_words = true; // what an update demands
        for (std::size_t i = 0; i < count; ++i)
            moves_by_words &= (second.batch.to[i] - first.batch.to[i]) % 16 == 0;
        if (moves_by_words) {
            ferry_error_info error = new_error();
            ASSERT_OK(ferry_prepared_set_addresses(
                prepared, in_arrays(second.batch.to.data(), second.batch.from.data(), nullptr, second.batch.to.size()),
                stream, &error))
                << describe(error);
            ASSERT_OK(ferry_prepared_launch(prepared, nullptr, stream, nullptr, nullptr));
            wait();
            second.expect_copied();
        }
        EXPECT_OK(ferry_prepared_destroy(prepared, nullptr));
    }
}

TEST_F(pageable_batch, without_threads_or_kernels_every_piece_is_copied_by_a_call) {
    std::uint64_t seed = 60;
    for (const how &options : {no_kernels, by_driver}) {
        reopen([&](ferry_options &of_instance) { of_instance.copy_options = options; });
        for (const way &one : both_ways) {
            scattered pieces(one.from, one.to, 30, 500, seed++);
            driver.reset_counts();
            ASSERT_OK(pieces.batch.copy_async(counted.get(), stream));
            wait();
            EXPECT_EQ(driver.calls("cuLaunchKernel"), 0);
            pieces.expect_copied();
        }
    }
}

// The staging buffer cannot be had, or the launch fails.
TEST_F(pageable_batch, if_the_driver_refuses_what_staging_needs_the_call_reports_it_or_the_driver_copies) {
    for (const way &one : both_ways)
        for (const char *const call : {"cuMemHostAlloc", "cuMemHostRegister", "cuLaunchKernel", "cuEventRecord"})
            for (int nth = 1; nth <= 2; ++nth) {
                SCOPED_TRACE(testing::Message() << call << " fails at its call number " << nth);
                counted = open_or_fail(driver.options());
                scattered pieces(one.from, one.to, 300, 9000, 50);
                driver.fail(call, CUDA_ERROR_OUT_OF_MEMORY, nth, true);
                const std::int32_t status = pieces.batch.copy_async(counted.get(), stream);
                driver.heal();
                wait();
                EXPECT_TRUE(status == FERRY_SUCCESS ||
                            status == FERRY_STATUS_DRIVER_BASE - static_cast<int>(CUDA_ERROR_OUT_OF_MEMORY))
                    << ferry_status_name(status);
                if (status == FERRY_SUCCESS) pieces.expect_copied();
                ASSERT_OK(pieces.batch.copy(counted.get()));
                pieces.expect_copied();
            }
}

TEST_F(pageable_batch, unreadable_memory_is_refused_and_no_thread_touches_it) {
    const std::size_t page = 4096;
    const mapped_memory none(page, page_access::none);
    scattered pieces(place_kind::pageable, place_kind::device, 100, 50'000, 60); // enough to be staged
    const device_memory device(page);
    pieces.batch.add(device, none.address(), page);
    driver.reset_counts();
    driver.fail("cuMemcpy3DAsync", CUDA_ERROR_INVALID_VALUE, 1, true);
    EXPECT_EQ(pieces.batch.copy_async(counted.get(), stream), FERRY_ERROR_ADDRESS);
    EXPECT_EQ(driver.calls("cuLaunchKernel"), 0);
    driver.heal();
    EXPECT_OK(raw().cuCtxSynchronize());
}

// Where the system reports mappings, the driver is queried for some pieces of a mapping, but not for each piece.
TEST_F(pageable_batch, pieces_of_one_mapping_cost_few_look_ups) {
    constexpr std::size_t count = 400, size = 3000, step = 8192;
    mapped_memory memory(count * step);
    const device_memory device(count * size);
    const bytes drawn = random_bytes(memory.size(), 1);
    std::memcpy(memory.data(), drawn.data(), memory.size());
    address_space mappings;
    mappings.open();
    host_mapping found;
    const bool is_reported = mappings.find_readable(memory.address(), found);
    piece_batch batch;
    for (std::size_t i = 0; i < count; ++i)
        batch.add(device + i * size, memory.address() + (count - 1 - i) * step, size);
    {
        const gate held(stream);
        driver.reset_counts();
        ASSERT_OK(batch.copy_async(counted.get(), stream));
        const int calls = driver.calls("cuPointerGetAttributes");
        EXPECT_TRUE(is_reported ? calls < static_cast<int>(count) / 8 : calls >= static_cast<int>(count)) << calls;
        expect_one_launch();
    }
    wait();
    bytes there(count * size);
    ASSERT_OK(raw().cuMemcpyDtoH(there.data(), device, there.size()));
    for (std::size_t i = 0; i < count; ++i)
        ASSERT_EQ(std::memcmp(&there[i * size], memory.data() + (count - 1 - i) * step, size), 0) << i;
}

#if !defined(_WIN32)
// Pieces of a mapped file do not prevent this for pieces of the heap.
TEST_F(pageable_batch, pieces_of_files_are_looked_up_one_by_one_and_others_are_not) {
    constexpr std::size_t count = 200, size = 3000, step = 8192;
    mapped_memory memory(count * step);
    const int file = memfd_create("pieces", MFD_CLOEXEC);
    ASSERT_EQ(ftruncate(file, count * step), 0);
    void *const mapped = mmap(nullptr, count * step, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    ASSERT_NE(mapped, MAP_FAILED);
    const bytes drawn = random_bytes(memory.size(), 1), others = random_bytes(memory.size(), 2);
    std::memcpy(memory.data(), drawn.data(), drawn.size());
    std::memcpy(mapped, others.data(), others.size());
    address_space mappings;
    mappings.open();
    host_mapping found;
    const bool is_reported = mappings.find_readable(memory.address(), found);
    const device_memory device(2 * count * size);
    piece_batch batch;
    for (std::size_t i = 0; i < count; ++i)
        batch.add(device + 2 * i * size, reinterpret_cast<std::uintptr_t>(mapped) + i * step, size);
    for (std::size_t i = 0; i < count; ++i)
        batch.add(device + (2 * i + 1) * size, memory.address() + i * step, size);
    {
        const gate held(stream);
        driver.reset_counts();
        ASSERT_OK(batch.copy_async(counted.get(), stream));
        if (is_reported) {
            EXPECT_LT(driver.calls("cuPointerGetAttributes"), static_cast<int>(count + count / 4));
        }
        expect_one_launch();
    }
    wait();
    bytes there(2 * count * size);
    ASSERT_OK(raw().cuMemcpyDtoH(there.data(), device, there.size()));
    for (std::size_t i = 0; i < count; ++i) {
        ASSERT_EQ(std::memcmp(&there[2 * i * size], &others[i * step], size), 0) << i;
        ASSERT_EQ(std::memcmp(&there[(2 * i + 1) * size], &drawn[i * step], size), 0) << i;
    }
    munmap(mapped, count * step);
    close(file);
}
#endif

// Kernels copy the pinned parts of a mapping, whether ferry or the program itself has registered them.
TEST_F(pageable_batch, registered_parts_of_a_mapping_are_found) {
    constexpr std::size_t count = 200, size = 3000, step = 8192, pinned = 96; // pieces 64 to 159
    for (const bool by_ferry : {true, false}) {
        mapped_memory memory(count * step);
        const device_memory device(count * size);
        const bytes drawn = random_bytes(memory.size(), 2);
        std::memcpy(memory.data(), drawn.data(), memory.size());
        std::byte *const part = memory.data() + 64 * step;
        ASSERT_OK(by_ferry ? ferry_host_register(counted.get(), part, pinned * step, 0, nullptr)
                           : raw().cuMemHostRegister(part, pinned * step, 0));
        piece_batch batch;
        for (std::size_t i = 0; i < count; ++i)
            batch.add(device + i * size, memory.address() + i * step, size);
        ferry_batch_explanation explanation = {};
        explanation.struct_size = sizeof explanation;
        {
            const gate held(stream);
            ASSERT_OK(ferry_copy_pieces_explain_async(
                counted.get(), in_arrays(batch.to.data(), batch.from.data(), batch.sizes.data(), count), nullptr,
                stream, &explanation, nullptr));
            EXPECT_EQ(explanation.staged.copies, count - pinned);
            EXPECT_EQ(explanation.staged.copies + explanation.kernels.copies + explanation.batch_calls.copies +
                          explanation.singles.copies,
                      count);
            ASSERT_OK(batch.copy_async(counted.get(), stream));
        }
        wait();
        bytes there(count * size);
        ASSERT_OK(raw().cuMemcpyDtoH(there.data(), device, there.size()));
        for (std::size_t i = 0; i < count; ++i)
            ASSERT_EQ(std::memcmp(&there[i * size], memory.data() + i * step, size), 0) << i;
        ASSERT_OK(by_ferry ? ferry_host_unregister(counted.get(), part, nullptr) : raw().cuMemHostUnregister(part));
    }
}

// One batch waits in pages that do not come, and the others go on.
TEST_F(pageable_batch, pages_that_do_not_arrive_block_no_other_batch) {
    if (!on_software_driver()) GTEST_SKIP() << "the driver itself would touch the pages";
    reopen([](ferry_options &options) {
        options.staging_bytes = 256 << 10;
        options.staging_threads = 3;
    });
    constexpr std::size_t parts = 6, size = 64 << 10;
    for (const way &one : both_ways) {
        const bool up = one.from == place_kind::pageable;
        stuck_pages stuck(parts, size, 70);
        const device_memory device(parts * size);
        piece_batch slow;
        for (std::size_t i = 0; i < parts; ++i) {
            const auto host = reinterpret_cast<std::uintptr_t>(stuck.data + i * size);
            slow.add(up ? device + i * size : host, up ? host : device + i * size, size - 1); // apart
        }
        std::deque<scattered> others; // making and comparing them waits for all work
        for (std::uint64_t i = 0; i < 6; ++i)
            others.emplace_back(one.from, one.to, 100, 5000, 80 + i);
        const test_stream other;
        {
            gate held(other);
            ASSERT_OK(slow.copy_async(counted.get(), other));
            held.let_go();
        }
        for (scattered &pieces : others) {
            copy_behind_work(pieces);
            wait();
        }
        stuck.release();
        ASSERT_OK(raw().cuStreamSynchronize(other));
        for (scattered &pieces : others)
            pieces.expect_copied();
        bytes there(parts * size);
        ASSERT_OK(raw().cuMemcpyDtoH(there.data(), device, there.size()));
        for (std::size_t i = 0; i < parts; ++i)
            EXPECT_EQ(std::memcmp(&there[i * size], stuck.data + i * size, size - 1), 0) << i;
    }
}

// All devices share the threads. Those that are stuck in one device's copy hold up no other device.
TEST_F(pageable_batch, stuck_copies_of_one_device_block_no_other_device) {
    if (!on_software_driver()) GTEST_SKIP() << "the driver itself would touch the pages";
    if (device_count() < 2) GTEST_SKIP() << "needs two devices";
    reopen([](ferry_options &options) { options.staging_threads = 2; });
    constexpr std::size_t parts = 8, size = 64 << 10;
    for (const way &one : both_ways) {
        const bool up = one.from == place_kind::pageable;
        stuck_pages stuck(parts, size, 75);
        CUcontext other_context = nullptr;
        ASSERT_OK(raw().cuDevicePrimaryCtxRetain(&other_context, 1));
        const device_memory device(parts * size);
        std::deque<scattered> others;
        for (std::uint64_t i = 0; i < 4; ++i)
            others.emplace_back(one.from, one.to, 100, 5000, 90 + i, up ? 0 : 1, up ? 1 : 0);
        std::deque<test_stream> streams(parts);
        for (std::size_t i = 0; i < parts; ++i) {
            const auto host = reinterpret_cast<std::uintptr_t>(stuck.data + i * size);
            ferry_copy_desc copy = {};
            copy.source.address = up ? host : device + i * size;
            copy.destination.address = up ? device + i * size : host;
            copy.width = size;
            ASSERT_OK(ferry_copy_async(counted.get(), &copy, by_staging, streams[i], nullptr, nullptr));
        }
        {
            const made_current there(other_context);
            const test_stream stream_there;
            for (scattered &pieces : others) {
                ASSERT_OK(pieces.batch.copy_async(counted.get(), stream_there));
                ASSERT_OK(raw().cuStreamSynchronize(stream_there));
            }
        }
        stuck.release();
        for (const test_stream &of : streams)
            ASSERT_OK(raw().cuStreamSynchronize(of));
        for (scattered &pieces : others)
            pieces.expect_copied();
        ASSERT_OK(raw().cuDevicePrimaryCtxRelease(1));
    }
}

TEST_F(pageable_batch, threads_copy_batches_at_the_same_time) {
    std::vector<std::thread> threads;
    for (std::uint64_t i = 0; i < 4; ++i)
        threads.emplace_back([&, i] {
            const made_current as(context);
            const test_stream mine;
            for (std::uint64_t round = 0; round < 8; ++round) {
                const way &one = both_ways[(i + round) % 2];
                scattered pieces(one.from, one.to, 200, 3000, 1000 * i + round);
                if (round % 3 == 0) {
                    EXPECT_OK(pieces.batch.copy(counted.get()));
                } else {
                    EXPECT_OK(pieces.batch.copy_async(counted.get(), mine));
                    EXPECT_OK(raw().cuStreamSynchronize(mine));
                }
                pieces.expect_copied();
            }
        });
    for (std::thread &one : threads)
        one.join();
}

} // namespace
} // namespace ferry::test
