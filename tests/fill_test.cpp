// Tests fills: every pattern width on every memory that can be filled, against a plain reference; what fills cost; and
// what is refused.
#include <cstdlib>
#include <cstring>
#include <random>

#include "support/captured_graph.h"
#include "support/counted_test.h"
#include "support/how.h"
#include "support/raw_objects.h"
#include "support/system.h"
#include "support/test_place.h"

namespace ferry::test {
namespace {

// All bytes differ, so that the byte order shows.
constexpr std::uint8_t pattern_bytes[16] = {0x1b, 0xa2, 0x3d, 0xc4, 0x5e, 0xe5, 0x76, 0x87,
                                            0x98, 0x29, 0xba, 0x4b, 0xdc, 0x6d, 0xfe, 0x0f};

struct fill_scene {
    const char *name;
    grid memory;
    box from;
    std::uint64_t width, height, depth;
};
constexpr fill_scene scenes[] = {
    {"line", {.width = 4096, .lead = 4}, {.x = 12}, 1200, 1, 1},
    {"whole_line", {.width = 65536}, {}, 65536, 1, 1},
    {"tight_rectangle", {.width = 96, .height = 41}, {}, 96, 41, 1},
    {"rectangle", {.width = 132, .height = 29, .row_pitch = 160, .lead = 8}, {.x = 12, .y = 3}, 84, 21, 1},
    {"one_column", {.width = 64, .height = 300, .row_pitch = 68}, {.x = 8}, 4, 300, 1},
    {"tight_slices", {.width = 32, .height = 8, .depth = 6, .row_pitch = 40}, {}, 32, 8, 6},
    {"tight_volume", {.width = 32, .height = 8, .depth = 6}, {}, 32, 8, 6},
    {"a_column_of_slices", {.width = 32, .height = 8, .depth = 6, .row_pitch = 40}, {.x = 8, .y = 2}, 16, 1, 6},
    {"whole_rows_of_slices", {.width = 32, .height = 8, .depth = 6, .lead = 4}, {.y = 3}, 32, 4, 6},
};
constexpr place_kind fillable[] = {place_kind::device, place_kind::pool, place_kind::managed, place_kind::pinned,
                                   place_kind::registered};

ferry_fill_desc describe_fill(const ferry_place &place, std::uint64_t width, std::uint64_t height = 1,
                              std::uint64_t depth = 1, std::uint32_t unit = 1) {
    ferry_fill_desc fill;
    ferry_fill_desc_init(&fill, &place, width, height, depth, pattern_bytes, unit);
    return fill;
}

// Explanations refuse what fills refuse.
using fill_call = std::int32_t (*)(ferry_instance *, const ferry_fill_desc *, const ferry_copy_options *,
                                   ferry_error_info *);
constexpr fill_call fill_calls[] = {
    ferry_fill,
    [](ferry_instance *instance, const ferry_fill_desc *fill, const ferry_copy_options *options,
       ferry_error_info *error) { return ferry_fill_async(instance, fill, options, nullptr, nullptr, error); },
    [](ferry_instance *instance, const ferry_fill_desc *fill, const ferry_copy_options *options,
       ferry_error_info *error) {
        ferry_explanation told = new_explanation();
        return ferry_fill_explain(instance, fill, options, &told, error);
    },
    [](ferry_instance *instance, const ferry_fill_desc *fill, const ferry_copy_options *options,
       ferry_error_info *error) {
        ferry_explanation told = new_explanation();
        return ferry_fill_explain_async(instance, fill, options, nullptr, &told, error);
    },
};

class fills : public counted_test {};
#define NEED_KERNELS()                                                                                                 \
    if (!has_kernels()) GTEST_SKIP() << "the driver cannot load kernels"

// The same fill on the CPU.
void reference_fill(test_place &memory, const box &from, const ferry_fill_desc &fill) {
    for (std::uint64_t z = 0; z < fill.depth; ++z)
        for (std::uint64_t y = 0; y < fill.height; ++y)
            for (std::uint64_t x = 0; x < fill.width; ++x)
                memory.picture_at(from.x + x, from.y + y, from.z + z) = std::byte{fill.pattern[x % fill.pattern_size]};
}

TEST_F(fills, patterns_cover_the_box_and_no_other_byte) {
    for (const place_kind kind : fillable)
        for (const fill_scene &scene : scenes) {
            test_place memory(kind, scene.memory);
            for (const std::uint32_t unit : {1u, 2u, 4u})
                for (const statement stating : {statement::stated, statement::any})
                    for (const bool is_synchronous : {true, false}) {
                        SCOPED_TRACE(testing::Message() << name_of(kind) << " " << scene.name << " unit " << unit);
                        memory.fill(unit);
                        const ferry_fill_desc fill = describe_fill(memory.describe(stating, scene.from), scene.width,
                                                                   scene.height, scene.depth, unit);
                        const how options = no_kernels; // the driver's own calls cover all of these scenes
                        ferry_instance *const instance = stating == statement::any ? full.get() : basic.get();
                        ferry_error_info error = new_error();
                        ASSERT_OK(is_synchronous ? ferry_fill(instance, &fill, options, &error)
                                                 : ferry_fill_async(instance, &fill, options, stream, nullptr, &error))
                            << describe(error);
                        if (!is_synchronous) {
                            ASSERT_OK(raw().cuStreamSynchronize(stream));
                        }
                        reference_fill(memory, scene.from, fill);
                        ASSERT_EQ(memory.read(), memory.picture());
                    }
        }
}

TEST_F(fills, random_patterns_and_boxes_match_the_reference) {
    NEED_KERNELS();
    std::mt19937_64 random(20261121);
    const auto between = [&](std::uint64_t low, std::uint64_t high) { return low + random() % (high - low + 1); };
    for (const place_kind kind : fillable)
        for (const std::uint32_t unit : {1u, 2u, 4u, 8u, 16u})
            for (int grids = 0; grids < 3; ++grids) {
                const std::uint64_t width = between(20, 60), height = between(6, 20), depth = between(3, 5);
                const grid shape = {.width = width * unit,
                                    .height = height,
                                    .depth = depth,
                                    .row_pitch = (width + (grids ? between(0, 9) : 0)) * unit,
                                    .slice_height = height + (grids ? between(0, 3) : 0),
                                    .lead = between(0, 17) * unit};
                test_place memory(kind, shape);
                memory.fill(random());
                for (int round = 0; round < 12; ++round) {
                    const box at = {between(0, width - 1) * unit, between(0, height - 1), between(0, depth - 1)};
                    ferry_fill_desc fill =
                        describe_fill(memory.describe(between(0, 1) ? statement::stated : statement::any, at),
                                      between(1, width - at.x / unit) * unit, between(1, height - at.y),
                                      between(1, depth - at.z), unit);
                    for (std::uint32_t i = 0; i < unit; ++i)
                        fill.pattern[i] = static_cast<std::uint8_t>(random());
                    constexpr how choices[] = {{}, by_kernel, urgent, by_kernel | max_sms(1)};
                    const how &options = choices[between(0, std::size(choices) - 1)];
                    SCOPED_TRACE(testing::Message()
                                 << name_of(kind) << " unit " << unit << " at " << at.x << ", " << at.y << ", " << at.z
                                 << ": " << fill.width << " x " << fill.height << " x " << fill.depth << " in pitch "
                                 << shape.row_pitch << " x " << shape.slice_height << " lead " << shape.lead << ", "
                                 << options);
                    const bool is_synchronous = between(0, 1);
                    ferry_error_info error = new_error();
                    driver.reset_counts();
                    ASSERT_OK(is_synchronous ? ferry_fill(counted.get(), &fill, options, &error)
                                             : ferry_fill_async(counted.get(), &fill, options, stream, nullptr, &error))
                        << describe(error);
                    EXPECT_EQ(driver.calls_beginning("cuMemset") + driver.calls("cuLaunchKernel"), 1);
                    if (options) {
                        EXPECT_EQ(driver.calls("cuLaunchKernel"), 1);
                    }
                    if (!is_synchronous) {
                        ASSERT_OK(raw().cuStreamSynchronize(stream));
                    }
                    reference_fill(memory, at, fill);
                    ASSERT_EQ(memory.read(), memory.picture());
                }
            }
}

// ---- Costs ---------------------------------------------------------------------------------------------------

TEST_F(fills, a_fill_is_one_driver_call_however_many_rows_it_has) {
    test_place memory(place_kind::device, {.width = 512, .height = 5000, .row_pitch = 520});
    const ferry_fill_desc fill = describe_fill(memory.describe(statement::stated), 512, 5000, 1, 4);
    driver.reset_counts();
    ASSERT_OK(ferry_fill_async(counted.get(), &fill, nullptr, nullptr, nullptr, nullptr));
    EXPECT_EQ(driver.calls("cuMemsetD2D32Async"), 1);
    EXPECT_EQ(driver.calls_beginning("cuMemset"), 1);
    EXPECT_EQ(driver.calls_beginning("cuPointerGetAttribute"), 0) << "the place states its device";
    const ferry_fill_desc line = describe_fill(memory.describe(statement::stated), 64, 1, 1, 2);
    ASSERT_OK(ferry_fill(counted.get(), &line, nullptr, nullptr));
    EXPECT_EQ(driver.calls("cuMemsetD16Async"), 1);
    EXPECT_EQ(driver.calls("cuStreamSynchronize"), 1);
    EXPECT_EQ(driver.calls("cuLibraryLoadData"), 0) << "a fill by the driver loads no kernels";
}

TEST_F(fills, a_fill_that_needs_a_kernel_is_one_launch) {
    NEED_KERNELS();
    test_place memory(place_kind::device, {.width = 96, .height = 9, .depth = 5, .row_pitch = 112, .slice_height = 11});
    const ferry_place place = memory.describe(statement::stated);
    for (const bool is_first : {true, false}) {
        driver.reset_counts();
        const ferry_fill_desc apart = describe_fill(place, 96, 9, 5, 1);
        ASSERT_OK(ferry_fill_async(counted.get(), &apart, nullptr, stream, nullptr, nullptr));
        const ferry_fill_desc wide = describe_fill(place, 96, 9, 1, 16);
        ASSERT_OK(ferry_fill_async(counted.get(), &wide, nullptr, stream, nullptr, nullptr));
        EXPECT_EQ(driver.calls("cuLaunchKernel"), 2);
        EXPECT_EQ(driver.calls_beginning("cuMemset"), 0);
        EXPECT_EQ(driver.calls_beginning("cuStreamSynchronize"), 0);
        EXPECT_EQ(driver.calls("cuLibraryLoadData"), is_first);
    }
    ASSERT_OK(raw().cuStreamSynchronize(stream));
}

TEST_F(fills, the_driver_fills_slices_that_fold_into_rows) {
    test_place memory(place_kind::device, {.width = 64, .height = 8, .depth = 6});
    const auto expect_call = [&](const ferry_fill_desc &fill, const char *call) {
        driver.reset_counts();
        ASSERT_OK(ferry_fill_async(counted.get(), &fill, nullptr, stream, nullptr, nullptr));
        EXPECT_EQ(driver.calls(call), 1) << call;
        EXPECT_EQ(driver.calls_beginning("cuMemset"), 1);
    };
    const ferry_place place = memory.describe(statement::stated);
    expect_call(describe_fill(place, 64, 8, 6, 4), "cuMemsetD32Async");
    expect_call(describe_fill(place, 64, 5, 6, 4), "cuMemsetD2D32Async");
    expect_call(describe_fill(place, 32, 1, 6, 4), "cuMemsetD2D32Async");
    expect_call(describe_fill(place, 32, 8, 6, 4), "cuMemsetD2D32Async");
    ASSERT_OK(raw().cuStreamSynchronize(stream));
}

TEST_F(fills, the_driver_fills_a_wide_pattern_that_repeats_a_narrow_one) {
    const instance_owner without_kernels = [&] {
        ferry_options options = driver.options();
        options.kernels = FERRY_KERNELS_NONE;
        return open_or_fail(options);
    }();
    test_place memory(place_kind::device, {.width = 64, .height = 3, .row_pitch = 80});
    memory.fill(1);
    for (const std::uint32_t size : {8u, 16u}) {
        ferry_fill_desc fill = describe_fill(memory.describe(statement::stated), 48, 3, 1, size);
        for (std::uint32_t i = 0; i < size; ++i)
            fill.pattern[i] = static_cast<std::uint8_t>(size + i % 4);
        driver.reset_counts();
        ASSERT_OK(ferry_fill(without_kernels.get(), &fill, nullptr, nullptr));
        EXPECT_EQ(driver.calls("cuMemsetD2D32Async"), 1);
        reference_fill(memory, {}, fill);
        EXPECT_EQ(memory.read(), memory.picture());
    }
}

TEST_F(fills, many_narrow_rows_take_a_kernel_unless_the_options_forbid_it) {
    NEED_KERNELS();
    test_place memory(place_kind::device, {.width = 4, .height = 50000, .row_pitch = 8});
    std::uint64_t seed = 0;
    const auto launches = [&](ferry_instance *instance, const how &options) {
        memory.fill(++seed);
        const ferry_fill_desc fill = describe_fill(memory.describe(statement::stated), 4, 50000, 1, 4);
        driver.reset_counts();
        EXPECT_OK(ferry_fill(instance, &fill, options, nullptr));
        reference_fill(memory, {}, fill);
        EXPECT_EQ(memory.read(), memory.picture());
        EXPECT_EQ(driver.calls("cuMemsetD2D32Async") + driver.calls("cuLaunchKernel"), 1);
        return driver.calls("cuLaunchKernel");
    };
    EXPECT_EQ(launches(counted.get(), {}), 1);
    EXPECT_EQ(launches(counted.get(), no_kernels), 0);
    EXPECT_EQ(launches(counted.get(), by_driver), 0);
    ferry_options options = driver.options();
    options.copy_options = no_kernels;
    const instance_owner by_default = open_or_fail(options);
    EXPECT_EQ(launches(by_default.get(), {}), 0);
    EXPECT_EQ(launches(by_default.get(), by_kernel), 1) << "the options of a fill replace the options of the instance";
    EXPECT_EQ(launches(by_default.get(), ordinary), 1) << "options of zeros replace them too";
}

// ---- Explanations --------------------------------------------------------------------------------------------

TEST_F(fills, are_explained_as_they_are_made) {
    constexpr std::uint64_t rows = 50000;
    const struct {
        const char *what;
        grid memory;
        std::uint64_t width, height, depth;
        std::uint32_t unit;
        how options;
        std::int32_t route, reason, obstacle;
        const char *line;
    } cases[] = {
        {"a line",
         {.width = 4096},
         4096,
         1,
         1,
         1,
         {},
         FERRY_ROUTE_DRIVER,
         FERRY_REASON_LINE,
         FERRY_OBSTACLE_NONE,
         "driver route: cuMemsetD8Async, device 0, 4096 B x 1 rows x 1 slices; does not block; because the driver is "
         "as fast for contiguous memory"},
        {"wide rows",
         {.width = 512, .height = 8, .row_pitch = 520},
         512,
         8,
         1,
         2,
         {},
         FERRY_ROUTE_DRIVER,
         FERRY_REASON_PREDICTED,
         FERRY_OBSTACLE_NONE,
         "driver route: cuMemsetD2D16Async, device 0, 512 B x 8 rows x 1 slices; does not block; because it is "
         "predicted to be the fastest"},
        {"without kernels",
         {.width = 512, .height = 8, .row_pitch = 520},
         512,
         8,
         1,
         4,
         no_kernels,
         FERRY_ROUTE_DRIVER,
         FERRY_REASON_ONLY,
         FERRY_OBSTACLE_FORBIDDEN,
         "driver route: cuMemsetD2D32Async, device 0, 512 B x 8 rows x 1 slices; does not block; no kernel: "},
        {"forced to the driver",
         {.width = 4, .height = rows, .row_pitch = 8},
         4,
         rows,
         1,
         4,
         by_driver,
         FERRY_ROUTE_DRIVER,
         FERRY_REASON_FORCED,
         FERRY_OBSTACLE_FORBIDDEN,
         "driver route: cuMemsetD2D32Async, device 0, 4 B x 50000 rows x 1 slices; does not block; no kernel: "},
        {"narrow rows",
         {.width = 4, .height = rows, .row_pitch = 8},
         4,
         rows,
         1,
         4,
         {},
         FERRY_ROUTE_KERNEL,
         FERRY_REASON_PREDICTED,
         FERRY_OBSTACLE_NONE,
         "kernel route: cuLaunchKernel on "},
        {"a wide pattern",
         {.width = 96, .height = 4, .row_pitch = 112},
         96,
         4,
         1,
         16,
         {},
         FERRY_ROUTE_KERNEL,
         FERRY_REASON_ONLY,
         FERRY_OBSTACLE_NONE,
         "kernel route: cuLaunchKernel on "},
        {"urgent",
         {.width = 4096},
         4096,
         1,
         1,
         4,
         urgent,
         FERRY_ROUTE_KERNEL,
         FERRY_REASON_URGENT,
         FERRY_OBSTACLE_NONE,
         "kernel route: cuLaunchKernel on "},
        {"forced to a kernel",
         {.width = 4096},
         4096,
         1,
         1,
         4,
         by_kernel,
         FERRY_ROUTE_KERNEL,
         FERRY_REASON_FORCED,
         FERRY_OBSTACLE_NONE,
         "kernel route: cuLaunchKernel on "},
    };
    for (const auto &one : cases) {
        SCOPED_TRACE(one.what);
        if (one.route == FERRY_ROUTE_KERNEL && !has_kernels()) continue;
        test_place memory(place_kind::device, one.memory);
        memory.fill(1);
        const ferry_fill_desc fill =
            describe_fill(memory.describe(statement::any), one.width, one.height, one.depth, one.unit);
        for (const bool is_synchronous : {true, false}) {
            ferry_explanation told = new_explanation();
            driver.reset_counts();
            ASSERT_OK(is_synchronous
                          ? ferry_fill_explain(counted.get(), &fill, one.options, &told, nullptr)
                          : ferry_fill_explain_async(counted.get(), &fill, one.options, stream, &told, nullptr));
            EXPECT_EQ(driver.calls_beginning("cuMemset") + driver.calls("cuLaunchKernel"), 0)
                << "nothing may be filled";
            EXPECT_EQ(driver.calls_beginning("cuStreamSynchronize"), 0);
            EXPECT_EQ(told.route, one.route);
            EXPECT_EQ(told.reason, one.reason);
            EXPECT_EQ(told.kernel_obstacle, one.obstacle);
            EXPECT_EQ(told.max_sms != 0, one.route == FERRY_ROUTE_KERNEL);
            EXPECT_EQ(told.source_memory, FERRY_MEMORY_NONE);
            EXPECT_EQ(told.source_device, -1);
            EXPECT_EQ(told.destination_memory, FERRY_MEMORY_DEVICE);
            EXPECT_EQ(told.destination_device, 0);
            EXPECT_EQ(told.context_device, 0);
            EXPECT_EQ(told.calls, 1u);
            EXPECT_EQ(told.blocks, is_synchronous ? FERRY_BLOCKS_UNTIL_DONE : FERRY_BLOCKS_NO);
            const std::string line = describe(told);
            if (is_synchronous)
                EXPECT_NE(line.find("and cuStreamSynchronize, device 0, "), std::string::npos) << line;
            else
                EXPECT_EQ(line.compare(0, std::strlen(one.line), one.line), 0) << line;
            EXPECT_EQ(line.find("until the fill is complete") != std::string::npos, is_synchronous) << line;
            ASSERT_EQ(memory.read(), memory.picture());
            driver.reset_counts();
            ASSERT_OK(is_synchronous ? ferry_fill(counted.get(), &fill, one.options, nullptr)
                                     : ferry_fill_async(counted.get(), &fill, one.options, stream, nullptr, nullptr));
            EXPECT_EQ(driver.calls(told.driver_call), 1) << told.driver_call;
            EXPECT_EQ(driver.calls_beginning("cuMemset") + driver.calls("cuLaunchKernel"), 1);
            EXPECT_EQ(driver.calls("cuStreamSynchronize"), told.synchronises);
            ASSERT_OK(raw().cuStreamSynchronize(stream));
            memory.fill(1);
        }
    }
    ferry_fill_desc nothing = describe_fill({}, 0);
    ferry_explanation told = new_explanation();
    ASSERT_OK(ferry_fill_explain(counted.get(), &nothing, nullptr, &told, nullptr));
    EXPECT_EQ(told.route, FERRY_ROUTE_NONE);
    EXPECT_EQ(told.context_device, -1);
    EXPECT_EQ(describe(told), "nothing to fill");
    told.struct_size = 4;
    EXPECT_EQ(ferry_fill_explain(counted.get(), &nothing, nullptr, &told, nullptr), FERRY_ERROR_ABI_MISMATCH);
    EXPECT_EQ(ferry_fill_explain(counted.get(), &nothing, nullptr, nullptr, nullptr), FERRY_ERROR_INVALID_ARGUMENT);
}

TEST_F(fills, of_host_memory_are_explained_with_a_call_for_each_registered_piece) {
    constexpr std::uint64_t page = 4096;
    ferry_options options = driver.options();
    options.register_chunk = page;
    const instance_owner instance = open_or_fail(options);
    void *const memory = allocate_aligned(4 * page, page);
    std::memset(memory, 7, 4 * page);
    ASSERT_OK(ferry_host_register(instance.get(), memory, 3 * page, 0, nullptr));
    ferry_place place;
    ferry_place_any(&place, reinterpret_cast<std::uintptr_t>(memory) + page / 2);
    const ferry_fill_desc fill = describe_fill(place, 2 * page, 1, 1, 4);
    ferry_explanation told = new_explanation();
    ASSERT_OK(ferry_fill_explain_async(instance.get(), &fill, nullptr, stream, &told, nullptr));
    EXPECT_EQ(told.calls, 3u);
    EXPECT_EQ(told.destination_memory, FERRY_MEMORY_PINNED);
    EXPECT_EQ(told.destination_device, -1);
    driver.reset_counts();
    ASSERT_OK(ferry_fill_async(instance.get(), &fill, nullptr, stream, nullptr, nullptr));
    EXPECT_EQ(driver.calls("cuMemsetD32Async"), 1 + 3) << "the driver refuses the whole first";
    ASSERT_OK(raw().cuStreamSynchronize(stream));
    // The last page is not registered.
    const ferry_fill_desc beyond = describe_fill(place, 3 * page, 1, 1, 4);
    for (const fill_call call : fill_calls)
        EXPECT_EQ(call(instance.get(), &beyond, nullptr, nullptr), FERRY_STATUS_DRIVER_BASE - CUDA_ERROR_INVALID_VALUE);
    ASSERT_OK(ferry_host_unregister(instance.get(), memory, nullptr));
    EXPECT_EQ(ferry_fill_explain(instance.get(), &fill, nullptr, &told, nullptr), FERRY_ERROR_PAGEABLE);
    free_aligned(memory);
}

// ---- Order and graphs ----------------------------------------------------------------------------------------

TEST_F(fills, a_synchronous_fill_has_completed_when_it_returns) {
    constexpr std::uint64_t size = 8 << 20;
    test_place memory(place_kind::device, {.width = size}), seen(place_kind::pinned, {.width = size});
    for (std::uint8_t round = 1; round <= 5; ++round) {
        ferry_fill_desc fill = describe_fill(memory.describe(statement::stated), size);
        fill.pattern[0] = round;
        const how options = round > 2 ? urgent : how(); // by a kernel, where the driver takes kernels
        ASSERT_OK(ferry_fill(basic.get(), &fill, options, nullptr));
        ASSERT_OK(raw().cuMemcpyDtoHAsync(reinterpret_cast<void *>(seen.address()), memory.address(), size, stream));
        ASSERT_OK(raw().cuStreamSynchronize(stream));
        ASSERT_EQ(seen.read(), bytes(size, std::byte{round}));
    }
}

TEST_F(fills, captured_fills_run_when_the_graph_is_launched) {
    const grid shape = {.width = 256, .height = 4, .depth = 2, .row_pitch = 304, .slice_height = 7};
    for (const std::uint32_t unit : {4u, 16u}) {
        const bool needs_kernel = unit == 16;
        if (needs_kernel && !has_kernels()) continue;
        test_place memory(place_kind::device, shape);
        memory.fill(1);
        // This instance loads its kernels within the capture.
        const instance_owner fresh = open_or_fail(driver.options());
        captured_graph graph(stream);
        const ferry_fill_desc fill = describe_fill(memory.describe(statement::any), 256, 4, needs_kernel ? 2 : 1, unit);
        EXPECT_OK(ferry_fill_async(fresh.get(), &fill, nullptr, stream, nullptr, nullptr));
        graph.end();
        EXPECT_EQ(memory.read(), memory.picture()) << "nothing may run before the launch";
        for (const std::uint64_t seed : {1u, 2u}) {
            memory.fill(seed);
            graph.run();
            reference_fill(memory, {}, fill);
            EXPECT_EQ(memory.read(), memory.picture());
        }
    }
}

// ---- Refusals ------------------------------------------------------------------------------------------------

struct refusal_row {
    const char *name;
    void (*spoil)(ferry_fill_desc &);
    std::int32_t status, side, field;
    std::uint64_t limit, value;
};
constexpr refusal_row refusals[] = {
    {"reserved0", [](ferry_fill_desc &fill) { fill.reserved0 = 0x80; }, FERRY_ERROR_RESERVED, FERRY_SIDE_DESCRIPTOR,
     FERRY_FIELD_RESERVED, 0, 0},
    {"reserved", [](ferry_fill_desc &fill) { fill.reserved[5] = 1; }, FERRY_ERROR_RESERVED, FERRY_SIDE_DESCRIPTOR,
     FERRY_FIELD_RESERVED, 0, 0},
    {"place_reserved", [](ferry_fill_desc &fill) { fill.destination.reserved[0] = 1; }, FERRY_ERROR_RESERVED,
     FERRY_SIDE_DESTINATION, FERRY_FIELD_RESERVED, 0, 0},
    {"no_pattern", [](ferry_fill_desc &fill) { fill.pattern_size = 0; }, FERRY_ERROR_INVALID_ARGUMENT,
     FERRY_SIDE_DESCRIPTOR, FERRY_FIELD_PATTERN_SIZE, 16, 0},
    {"pattern_of_three", [](ferry_fill_desc &fill) { fill.pattern_size = 3; }, FERRY_ERROR_INVALID_ARGUMENT,
     FERRY_SIDE_DESCRIPTOR, FERRY_FIELD_PATTERN_SIZE, 16, 3},
    {"pattern_of_32", [](ferry_fill_desc &fill) { fill.pattern_size = 32; }, FERRY_ERROR_INVALID_ARGUMENT,
     FERRY_SIDE_DESCRIPTOR, FERRY_FIELD_PATTERN_SIZE, 16, 32},
    {"kind", [](ferry_fill_desc &fill) { fill.destination.kind = 9; }, FERRY_ERROR_KIND, FERRY_SIDE_DESTINATION,
     FERRY_FIELD_KIND, FERRY_KIND_FILE, 9},
    {"array", [](ferry_fill_desc &fill) { fill.destination.kind = FERRY_KIND_ARRAY; }, FERRY_ERROR_UNSUPPORTED,
     FERRY_SIDE_DESTINATION, FERRY_FIELD_KIND, FERRY_KIND_DEVICE, FERRY_KIND_ARRAY},
    {"no_address", [](ferry_fill_desc &fill) { fill.destination.address = 0; }, FERRY_ERROR_ADDRESS,
     FERRY_SIDE_DESTINATION, FERRY_FIELD_ADDRESS, 0, 0},
    {"pitch_below_width", [](ferry_fill_desc &fill) { fill.destination.row_pitch = 60; }, FERRY_ERROR_PITCH,
     FERRY_SIDE_DESTINATION, FERRY_FIELD_ROW_PITCH, 64, 60},
    {"odd_pitch", [](ferry_fill_desc &fill) { fill.destination.row_pitch = 66; }, FERRY_ERROR_ALIGNMENT,
     FERRY_SIDE_DESTINATION, FERRY_FIELD_ROW_PITCH, 4, 66},
    {"odd_width", [](ferry_fill_desc &fill) { fill.width = 62; }, FERRY_ERROR_ALIGNMENT, FERRY_SIDE_EXTENT,
     FERRY_FIELD_WIDTH, 4, 62},
    {"odd_width_for_8",
     [](ferry_fill_desc &fill) {
         fill.pattern_size = 8;
         fill.width = 60;
     },
     FERRY_ERROR_ALIGNMENT, FERRY_SIDE_EXTENT, FERRY_FIELD_WIDTH, 8, 60},
    {"odd_pitch_for_16",
     [](ferry_fill_desc &fill) {
         fill.pattern_size = 16;
         fill.destination.row_pitch = 72;
     },
     FERRY_ERROR_ALIGNMENT, FERRY_SIDE_DESTINATION, FERRY_FIELD_ROW_PITCH, 16, 72},
    {"overflow", [](ferry_fill_desc &fill) { fill.destination.x = ~std::uint64_t{0} - 3; }, FERRY_ERROR_OVERFLOW,
     FERRY_SIDE_DESTINATION, FERRY_FIELD_X, 0, ~std::uint64_t{0} - 3},
};

TEST_F(fills, bad_descriptors_are_refused_by_field_and_nothing_is_filled) {
    test_place memory(place_kind::device, {.width = 80, .height = 12});
    memory.fill(1);
    ferry_place place = memory.describe(statement::stated);
    place.slice_height = 0;
    for (const refusal_row &row : refusals)
        for (ferry_instance *const instance : {basic.get(), full.get()}) {
            SCOPED_TRACE(row.name);
            ferry_fill_desc fill = describe_fill(place, 64, 4, 1, 4);
            row.spoil(fill);
            for (const fill_call call : fill_calls) {
                ferry_error_info error = new_error();
                expect_refusal(call(instance, &fill, nullptr, &error), error, row.status, row.side, row.field);
                EXPECT_EQ(error.limit, row.status == FERRY_ERROR_OVERFLOW ? ~fill.destination.address : row.limit);
                EXPECT_EQ(error.value, row.value);
            }
        }
    EXPECT_EQ(memory.read(), memory.picture());
    for (const fill_call call : fill_calls) {
        EXPECT_EQ(call(nullptr, nullptr, nullptr, nullptr), FERRY_ERROR_INVALID_ARGUMENT);
        EXPECT_EQ(call(basic.get(), nullptr, nullptr, nullptr), FERRY_ERROR_INVALID_ARGUMENT);
    }
}

TEST_F(fills, an_odd_address_is_refused_only_for_wide_patterns) {
    test_place memory(place_kind::device, {.width = 80});
    memory.fill(1);
    ferry_fill_desc fill = describe_fill(memory.describe(statement::stated, {.x = 2}), 64, 1, 1, 4);
    ferry_error_info error = new_error();
    expect_refusal(ferry_fill(basic.get(), &fill, nullptr, &error), error, FERRY_ERROR_ALIGNMENT,
                   FERRY_SIDE_DESTINATION, FERRY_FIELD_ADDRESS);
    fill.pattern_size = 2;
    EXPECT_OK(ferry_fill(basic.get(), &fill, nullptr, &error));
}

// Why a fill needs a kernel, and how the fill is refused where no kernel can run.
struct kernel_row {
    std::uint64_t depth;
    std::uint32_t pattern_size;
    std::int32_t side, field;
    std::uint64_t limit, value;
};
constexpr kernel_row kernel_rows[] = {
    {1, 8, FERRY_SIDE_DESCRIPTOR, FERRY_FIELD_PATTERN_SIZE, 4, 8},
    {1, 16, FERRY_SIDE_DESCRIPTOR, FERRY_FIELD_PATTERN_SIZE, 4, 16},
    {2, 4, FERRY_SIDE_EXTENT, FERRY_FIELD_DEPTH, 1, 2},
};

TEST_F(fills, fills_that_need_a_kernel_are_refused_by_field_where_none_can_run) {
    ferry_options options = driver.options();
    options.kernels = FERRY_KERNELS_NONE;
    const instance_owner without_kernels = open_or_fail(options);
    options.kernels = FERRY_KERNELS_LAZY;
    driver.fail("cuLibraryLoadData", CUDA_ERROR_UNSUPPORTED_PTX_VERSION, 1, true);
    const instance_owner not_loaded = open_or_fail(options);
    test_place memory(place_kind::device, {.width = 64, .height = 4, .depth = 2, .row_pitch = 80, .slice_height = 5});
    memory.fill(1);
    struct {
        ferry_instance *instance;
        how options;
    } const ways[] = {{without_kernels.get(), {}},
                      {without_kernels.get(), urgent},
                      {not_loaded.get(), {}},
                      {counted.get(), no_kernels},
                      {counted.get(), by_driver}};
    for (const kernel_row &row : kernel_rows)
        for (const auto &way : ways) {
            const ferry_fill_desc fill =
                describe_fill(memory.describe(statement::stated), 64, 4, row.depth, row.pattern_size);
            for (const fill_call call : fill_calls) {
                ferry_error_info error = new_error();
                expect_refusal(call(way.instance, &fill, way.options, &error), error, FERRY_ERROR_UNSUPPORTED, row.side,
                               row.field);
                EXPECT_EQ(error.limit, row.limit);
                EXPECT_EQ(error.value, row.value);
            }
        }
    const ferry_fill_desc fill = describe_fill(memory.describe(statement::stated), 64, 4, 1, 4);
    for (const fill_call call : fill_calls) {
        ferry_error_info error = new_error();
        expect_refusal(call(without_kernels.get(), &fill, by_kernel, &error), error, FERRY_ERROR_ROUTE,
                       FERRY_SIDE_OPTIONS, FERRY_FIELD_ROUTE);
        EXPECT_EQ(error.value, static_cast<std::uint64_t>(FERRY_OBSTACLE_NOT_LOADED));
    }
    EXPECT_EQ(memory.read(), memory.picture());
}

TEST_F(fills, a_pattern_that_only_a_kernel_fills_does_not_cross_registrations) {
    constexpr std::uint64_t page = 4096;
    ferry_options options = driver.options();
    options.register_chunk = page;
    const instance_owner instance = open_or_fail(options);
    void *const memory = allocate_aligned(2 * page, page);
    ASSERT_OK(ferry_host_register(instance.get(), memory, 2 * page, 0, nullptr));
    std::memset(memory, 7, 2 * page);
    ferry_place place;
    ferry_place_any(&place, reinterpret_cast<std::uintptr_t>(memory) + page - 64);
    ferry_fill_desc fill = describe_fill(place, 128, 1, 1, 8);
    ferry_error_info error = new_error();
    expect_refusal(ferry_fill(instance.get(), &fill, nullptr, &error), error, FERRY_ERROR_UNSUPPORTED,
                   FERRY_SIDE_DESCRIPTOR, FERRY_FIELD_PATTERN_SIZE);
    const bytes as_before(2 * page, std::byte{7});
    EXPECT_EQ(std::memcmp(memory, as_before.data(), 2 * page), 0);
    fill.pattern_size = 4;
    EXPECT_OK(ferry_fill(instance.get(), &fill, nullptr, &error)) << "the driver fills it in parts";
    EXPECT_OK(ferry_host_unregister(instance.get(), memory, nullptr));
    free_aligned(memory);
}

TEST_F(fills, a_failed_launch_is_reported_and_fills_nothing) {
    NEED_KERNELS();
    test_place memory(place_kind::device, {.width = 64});
    memory.fill(1);
    const ferry_fill_desc fill = describe_fill(memory.describe(statement::stated), 64, 1, 1, 8);
    driver.fail("cuLaunchKernel", CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
    EXPECT_EQ(ferry_fill_async(counted.get(), &fill, nullptr, stream, nullptr, nullptr),
              FERRY_STATUS_DRIVER_BASE - CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
    ASSERT_OK(raw().cuStreamSynchronize(stream));
    EXPECT_EQ(memory.read(), memory.picture());
}

TEST_F(fills, pageable_memory_is_refused) {
    test_place memory(place_kind::pageable, {.width = 64});
    memory.fill(1);
    for (const statement stating : {statement::stated, statement::any})
        for (ferry_instance *const instance : {basic.get(), full.get()})
            for (const std::uint32_t unit : {1u, 8u}) {
                const ferry_fill_desc fill = describe_fill(memory.describe(stating), 64, 1, 1, unit);
                ferry_error_info error = new_error();
                expect_refusal(ferry_fill(instance, &fill, nullptr, &error), error, FERRY_ERROR_PAGEABLE,
                               FERRY_SIDE_DESTINATION, FERRY_FIELD_ADDRESS);
            }
    EXPECT_EQ(memory.read(), memory.picture());
}

TEST_F(fills, full_checks_refuse_a_fill_past_the_allocation) {
    test_place memory(place_kind::device, {.width = 4096});
    memory.fill(1);
    ferry_fill_desc fill = describe_fill(memory.describe(statement::stated), 4096);
    fill.destination.address += 1;
    ferry_error_info error = new_error();
    expect_refusal(ferry_fill(full.get(), &fill, nullptr, &error), error, FERRY_ERROR_OUT_OF_BOUNDS,
                   FERRY_SIDE_DESTINATION, FERRY_FIELD_ADDRESS);
    EXPECT_EQ(memory.read(), memory.picture());
}

TEST_F(fills, a_width_of_zero_succeeds_and_fills_nothing) {
    test_place memory(place_kind::device, {.width = 64});
    memory.fill(1);
    const ferry_fill_desc fill = describe_fill(memory.describe(statement::stated), 0, 3, 3);
    EXPECT_OK(ferry_fill(basic.get(), &fill, nullptr, nullptr));
    EXPECT_EQ(memory.read(), memory.picture());
}

TEST_F(fills, a_missing_memset_of_the_driver_is_reported) {
    driver.hide("cuMemsetD16Async");
    const instance_owner instance = open_or_fail(driver.options());
    test_place memory(place_kind::device, {.width = 64});
    const ferry_fill_desc fill = describe_fill(memory.describe(statement::stated), 64, 1, 1, 2);
    EXPECT_EQ(ferry_fill(instance.get(), &fill, nullptr, nullptr), FERRY_ERROR_UNSUPPORTED);
}

// ---- Two devices ---------------------------------------------------------------------------------------------

TEST_F(fills, memory_of_another_device_is_filled_in_its_own_context) {
    if (device_count() < 2) GTEST_SKIP() << "needs two devices";
    test_place memory(place_kind::device, {.width = 4096}, 1);
    for (const CUcontext current : {context, CUcontext{nullptr}}) {
        memory.fill(1);
        ASSERT_OK(raw().cuCtxSetCurrent(current));
        for (const statement stating : {statement::stated, statement::any}) {
            const ferry_fill_desc fill = describe_fill(memory.describe(stating), 4096, 1, 1, 4);
            EXPECT_OK(ferry_fill(basic.get(), &fill, nullptr, nullptr));
            EXPECT_OK(ferry_fill_async(basic.get(), &fill, nullptr, nullptr, nullptr, nullptr));
        }
        CUcontext after = nullptr;
        EXPECT_OK(raw().cuCtxGetCurrent(&after));
        EXPECT_EQ(after, current);
        EXPECT_OK(ferry_context_synchronize(basic.get(), 1, nullptr, nullptr));
        for (std::uint64_t x = 0; x < 4096; ++x)
            memory.picture_at(x, 0, 0) = std::byte{pattern_bytes[x % 4]};
        EXPECT_EQ(memory.read(), memory.picture());
    }
    ASSERT_OK(raw().cuCtxSetCurrent(context));
}

TEST_F(fills, a_stream_that_does_not_reach_the_memory_is_refused) {
    if (device_count() < 2) GTEST_SKIP() << "needs two devices";
    test_place memory(place_kind::device, {.width = 4096}, 1);
    memory.fill(1);
    const ferry_fill_desc fill = describe_fill(memory.describe(statement::stated), 4096);
    const ferry_fill_desc wide = describe_fill(memory.describe(statement::stated), 4096, 1, 1, 16);
    ferry_error_info error = new_error();
    for (const ferry_fill_desc *const one : {&fill, &wide}) {
        if (one == &wide && !has_kernels()) continue;
        expect_refusal(ferry_fill_async(basic.get(), one, nullptr, stream, nullptr, &error), error, FERRY_ERROR_DEVICE,
                       FERRY_SIDE_DESTINATION, FERRY_FIELD_DEVICE);
        EXPECT_EQ(error.value, 1u);
        EXPECT_EQ(error.limit, 0u);
    }
    EXPECT_EQ(memory.read(), memory.picture());
    if (ferry_peer_enable(basic.get(), 0, 1, nullptr) == FERRY_SUCCESS) {
        EXPECT_OK(ferry_fill_async(basic.get(), &fill, nullptr, stream, nullptr, &error))
            << "reaches the memory with peer access";
        EXPECT_OK(raw().cuStreamSynchronize(stream));
        EXPECT_EQ(memory.read(), bytes(4096, std::byte{pattern_bytes[0]}));
        if (has_kernels()) {
            EXPECT_OK(ferry_fill_async(basic.get(), &wide, nullptr, stream, nullptr, &error));
            EXPECT_OK(raw().cuStreamSynchronize(stream));
            reference_fill(memory, {}, wide);
            EXPECT_EQ(memory.read(), memory.picture());
        }
        ferry_fill_desc past_the_end = describe_fill(memory.describe(statement::stated), 64 << 20);
        past_the_end.destination.row_pitch = 0;
        EXPECT_EQ(ferry_fill_async(basic.get(), &past_the_end, nullptr, stream, nullptr, &error),
                  FERRY_STATUS_DRIVER_BASE - CUDA_ERROR_INVALID_VALUE)
            << "the driver's own status, since the device is right";
        EXPECT_OK(ferry_peer_disable(basic.get(), 0, 1, nullptr));
    }
}

} // namespace
} // namespace ferry::test
