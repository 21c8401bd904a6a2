// Fills: every pattern width on every memory that takes one, against the plain reference; and what is refused.
#include <cstring>

#include "support/fault_driver.h"
#include "support/test_place.h"

namespace ferry::test {
namespace {

constexpr std::uint8_t pattern_bytes[4] = {0x1b, 0xa2, 0x3d, 0xc4}; // all different: the order of bytes shows

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
};
constexpr place_kind fillable[] = {place_kind::device, place_kind::pool, place_kind::managed, place_kind::pinned,
                                   place_kind::registered};

ferry_fill_desc describe_fill(const ferry_place &place, std::uint64_t width, std::uint64_t height = 1,
                              std::uint64_t depth = 1, std::uint32_t unit = 1) {
    ferry_fill_desc fill;
    ferry_fill_desc_init(&fill, &place, width, height, depth, pattern_bytes, unit);
    return fill;
}

class fills : public ferry_test {};

TEST_F(fills, patterns_cover_the_box_and_no_other_byte) {
    CUstream stream = nullptr;
    ASSERT_OK(raw().cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (const place_kind kind : fillable)
        for (const fill_scene &scene : scenes) {
            test_place memory(kind, scene.memory);
            for (const std::uint32_t unit : {1u, 2u, 4u})
                for (const statement how : {statement::stated, statement::any})
                    for (const bool is_synchronous : {true, false}) {
                        SCOPED_TRACE(testing::Message() << name_of(kind) << " " << scene.name << " unit " << unit);
                        memory.fill(unit);
                        const ferry_fill_desc fill = describe_fill(memory.describe(how, scene.from), scene.width,
                                                                   scene.height, scene.depth, unit);
                        ferry_instance *const instance = how == statement::any ? full.get() : basic.get();
                        ferry_error_info error = new_error();
                        ASSERT_OK(is_synchronous ? ferry_fill(instance, &fill, &error)
                                                 : ferry_fill_async(instance, &fill, stream, &error))
                            << describe(error);
                        if (!is_synchronous) {
                            ASSERT_OK(raw().cuStreamSynchronize(stream));
                        }
                        for (std::uint64_t z = 0; z < scene.depth; ++z)
                            for (std::uint64_t y = 0; y < scene.height; ++y)
                                for (std::uint64_t x = 0; x < scene.width; ++x)
                                    memory.picture_at(scene.from.x + x, scene.from.y + y, scene.from.z + z) =
                                        std::byte{pattern_bytes[x % unit]};
                        ASSERT_EQ(memory.read(), memory.picture());
                    }
        }
    EXPECT_OK(raw().cuStreamDestroy(stream));
}

TEST_F(fills, a_fill_is_one_driver_call_however_many_rows_it_has) {
    fault_driver driver(raw_entry_points());
    const instance_owner instance = open_or_fail(driver.options());
    test_place memory(place_kind::device, {.width = 64, .height = 5000, .row_pitch = 80});
    const ferry_fill_desc fill = describe_fill(memory.describe(statement::stated), 64, 5000, 1, 4);
    ASSERT_OK(ferry_fill_async(instance.get(), &fill, nullptr, nullptr));
    EXPECT_EQ(driver.calls("cuMemsetD2D32Async"), 1);
    EXPECT_EQ(driver.calls_beginning("cuMemset"), 1);
    EXPECT_EQ(driver.calls_beginning("cuPointerGetAttribute"), 0) << "the place states its device";
    const ferry_fill_desc line = describe_fill(memory.describe(statement::stated), 64, 1, 1, 2);
    ASSERT_OK(ferry_fill(instance.get(), &line, nullptr));
    EXPECT_EQ(driver.calls("cuMemsetD16Async"), 1);
    EXPECT_EQ(driver.calls("cuStreamSynchronize"), 1);
}

TEST_F(fills, a_synchronous_fill_has_ended_when_it_returns) {
    constexpr std::uint64_t size = 8 << 20;
    CUstream stream = nullptr;
    ASSERT_OK(raw().cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    test_place memory(place_kind::device, {.width = size}), seen(place_kind::pinned, {.width = size});
    for (std::uint8_t round = 1; round <= 5; ++round) {
        ferry_fill_desc fill = describe_fill(memory.describe(statement::stated), size);
        fill.pattern[0] = round;
        ASSERT_OK(ferry_fill(basic.get(), &fill, nullptr));
        ASSERT_OK(raw().cuMemcpyDtoHAsync(reinterpret_cast<void *>(seen.address()), memory.address(), size, stream));
        ASSERT_OK(raw().cuStreamSynchronize(stream));
        ASSERT_EQ(seen.read(), std::vector<std::byte>(size, std::byte{round}));
    }
    EXPECT_OK(raw().cuStreamDestroy(stream));
}

TEST_F(fills, captured_fills_run_when_the_graph_is_launched) {
    test_place memory(place_kind::device, {.width = 256, .height = 4, .row_pitch = 300});
    memory.fill(1);
    CUstream stream = nullptr;
    ASSERT_OK(raw().cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    ASSERT_OK(raw().cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    const ferry_fill_desc fill = describe_fill(memory.describe(statement::any), 256, 4, 1, 4);
    EXPECT_OK(ferry_fill_async(full.get(), &fill, stream, nullptr));
    CUgraph graph = nullptr;
    ASSERT_OK(raw().cuStreamEndCapture(stream, &graph));
    EXPECT_EQ(memory.read(), memory.picture()) << "nothing may run before the launch";
    CUgraphExec executable = nullptr;
    ASSERT_OK(raw().cuGraphInstantiateWithFlags(&executable, graph, 0));
    ASSERT_OK(raw().cuGraphLaunch(executable, stream));
    ASSERT_OK(raw().cuStreamSynchronize(stream));
    for (std::uint64_t y = 0; y < 4; ++y)
        for (std::uint64_t x = 0; x < 256; ++x)
            memory.picture_at(x, y, 0) = std::byte{pattern_bytes[x % 4]};
    EXPECT_EQ(memory.read(), memory.picture());
    EXPECT_OK(raw().cuGraphExecDestroy(executable));
    EXPECT_OK(raw().cuGraphDestroy(graph));
    EXPECT_OK(raw().cuStreamDestroy(stream));
}

// ---- What is refused -----------------------------------------------------------------------------------------

struct refusal_row {
    const char *name;
    void (*spoil)(ferry_fill_desc &);
    std::int32_t status, side, field;
    std::uint64_t limit, value;
};
constexpr refusal_row refusals[] = {
    {"flags", [](ferry_fill_desc &fill) { fill.flags = 4; }, FERRY_ERROR_FLAGS, FERRY_SIDE_DESCRIPTOR,
     FERRY_FIELD_FLAGS, 0, 4},
    {"reserved", [](ferry_fill_desc &fill) { fill.reserved[5] = 1; }, FERRY_ERROR_RESERVED, FERRY_SIDE_DESCRIPTOR,
     FERRY_FIELD_RESERVED, 0, 0},
    {"place_reserved", [](ferry_fill_desc &fill) { fill.destination.reserved[0] = 1; }, FERRY_ERROR_RESERVED,
     FERRY_SIDE_DESTINATION, FERRY_FIELD_RESERVED, 0, 0},
    {"no_pattern", [](ferry_fill_desc &fill) { fill.pattern_size = 0; }, FERRY_ERROR_INVALID_ARGUMENT,
     FERRY_SIDE_DESCRIPTOR, FERRY_FIELD_PATTERN, 16, 0},
    {"pattern_of_three", [](ferry_fill_desc &fill) { fill.pattern_size = 3; }, FERRY_ERROR_INVALID_ARGUMENT,
     FERRY_SIDE_DESCRIPTOR, FERRY_FIELD_PATTERN, 16, 3},
    {"pattern_of_32", [](ferry_fill_desc &fill) { fill.pattern_size = 32; }, FERRY_ERROR_INVALID_ARGUMENT,
     FERRY_SIDE_DESCRIPTOR, FERRY_FIELD_PATTERN, 16, 32},
    {"pattern_of_8", [](ferry_fill_desc &fill) { fill.pattern_size = 8; }, FERRY_ERROR_UNSUPPORTED,
     FERRY_SIDE_DESCRIPTOR, FERRY_FIELD_PATTERN, 4, 8},
    {"kind", [](ferry_fill_desc &fill) { fill.destination.kind = 9; }, FERRY_ERROR_KIND, FERRY_SIDE_DESTINATION,
     FERRY_FIELD_KIND, 0, 0},
    {"array", [](ferry_fill_desc &fill) { fill.destination.kind = FERRY_KIND_ARRAY; }, FERRY_ERROR_UNSUPPORTED,
     FERRY_SIDE_DESTINATION, FERRY_FIELD_KIND, 0, 0},
    {"no_address", [](ferry_fill_desc &fill) { fill.destination.address = 0; }, FERRY_ERROR_ADDRESS,
     FERRY_SIDE_DESTINATION, FERRY_FIELD_ADDRESS, 0, 0},
    {"pitch_below_width", [](ferry_fill_desc &fill) { fill.destination.row_pitch = 60; }, FERRY_ERROR_PITCH,
     FERRY_SIDE_DESTINATION, FERRY_FIELD_ROW_PITCH, 64, 60},
    {"odd_pitch", [](ferry_fill_desc &fill) { fill.destination.row_pitch = 66; }, FERRY_ERROR_ALIGNMENT,
     FERRY_SIDE_DESTINATION, FERRY_FIELD_ROW_PITCH, 4, 66},
    {"odd_width", [](ferry_fill_desc &fill) { fill.width = 62; }, FERRY_ERROR_ALIGNMENT, FERRY_SIDE_EXTENT,
     FERRY_FIELD_WIDTH, 4, 62},
    {"slices_apart",
     [](ferry_fill_desc &fill) {
         fill.depth = 2;
         fill.destination.slice_height = 5;
     },
     FERRY_ERROR_UNSUPPORTED, FERRY_SIDE_EXTENT, FERRY_FIELD_DEPTH, 1, 2},
    {"overflow", [](ferry_fill_desc &fill) { fill.destination.x = ~std::uint64_t{0} - 3; }, FERRY_ERROR_OVERFLOW,
     FERRY_SIDE_DESTINATION, FERRY_FIELD_X, 0, ~std::uint64_t{0} - 3},
};

TEST_F(fills, bad_descriptors_are_refused_by_name_and_nothing_is_filled) {
    test_place memory(place_kind::device, {.width = 80, .height = 12});
    memory.fill(1);
    ferry_place place = memory.describe(statement::stated);
    place.slice_height = 0;
    for (const refusal_row &row : refusals)
        for (ferry_instance *const instance : {basic.get(), full.get()}) {
            SCOPED_TRACE(row.name);
            ferry_fill_desc fill = describe_fill(place, 64, 4, 1, 4);
            row.spoil(fill);
            for (const bool is_synchronous : {true, false}) {
                ferry_error_info error = new_error();
                expect_refusal(is_synchronous ? ferry_fill(instance, &fill, &error)
                                              : ferry_fill_async(instance, &fill, nullptr, &error),
                               error, row.status, row.side, row.field);
                EXPECT_EQ(error.limit, row.limit);
                EXPECT_EQ(error.value, row.value);
            }
        }
    EXPECT_EQ(memory.read(), memory.picture());
    EXPECT_EQ(ferry_fill(nullptr, nullptr, nullptr), FERRY_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(ferry_fill(basic.get(), nullptr, nullptr), FERRY_ERROR_INVALID_ARGUMENT);
}

TEST_F(fills, an_odd_address_is_refused_for_wide_patterns_alone) {
    test_place memory(place_kind::device, {.width = 80});
    memory.fill(1);
    ferry_fill_desc fill = describe_fill(memory.describe(statement::stated, {.x = 2}), 64, 1, 1, 4);
    ferry_error_info error = new_error();
    expect_refusal(ferry_fill(basic.get(), &fill, &error), error, FERRY_ERROR_ALIGNMENT, FERRY_SIDE_DESTINATION,
                   FERRY_FIELD_ADDRESS);
    fill.pattern_size = 2;
    EXPECT_OK(ferry_fill(basic.get(), &fill, &error));
}

TEST_F(fills, pageable_memory_is_refused) {
    test_place memory(place_kind::pageable, {.width = 64});
    memory.fill(1);
    for (const statement how : {statement::stated, statement::any})
        for (ferry_instance *const instance : {basic.get(), full.get()}) {
            const ferry_fill_desc fill = describe_fill(memory.describe(how), 64);
            ferry_error_info error = new_error();
            expect_refusal(ferry_fill(instance, &fill, &error), error, FERRY_ERROR_KIND, FERRY_SIDE_DESTINATION,
                           FERRY_FIELD_KIND);
        }
    EXPECT_EQ(memory.read(), memory.picture());
}

TEST_F(fills, past_the_allocation_is_refused_by_full_checks) {
    test_place memory(place_kind::device, {.width = 4096});
    memory.fill(1);
    ferry_fill_desc fill = describe_fill(memory.describe(statement::stated), 4096);
    fill.destination.address += 1;
    ferry_error_info error = new_error();
    expect_refusal(ferry_fill(full.get(), &fill, &error), error, FERRY_ERROR_OUT_OF_BOUNDS, FERRY_SIDE_DESTINATION,
                   FERRY_FIELD_ADDRESS);
    EXPECT_EQ(memory.read(), memory.picture());
}

TEST_F(fills, a_width_of_zero_is_a_success_and_fills_nothing) {
    test_place memory(place_kind::device, {.width = 64});
    memory.fill(1);
    const ferry_fill_desc fill = describe_fill(memory.describe(statement::stated), 0, 3, 3);
    EXPECT_OK(ferry_fill(basic.get(), &fill, nullptr));
    EXPECT_EQ(memory.read(), memory.picture());
}

TEST_F(fills, a_driver_without_a_memset_says_so) {
    fault_driver driver(raw_entry_points());
    driver.hide("cuMemsetD16Async");
    const instance_owner instance = open_or_fail(driver.options());
    test_place memory(place_kind::device, {.width = 64});
    const ferry_fill_desc fill = describe_fill(memory.describe(statement::stated), 64, 1, 1, 2);
    EXPECT_EQ(ferry_fill(instance.get(), &fill, nullptr), FERRY_ERROR_UNSUPPORTED);
}

// ---- Two devices ---------------------------------------------------------------------------------------------

TEST_F(fills, memory_of_another_device_is_filled_in_its_own_context) {
    if (device_count() < 2) GTEST_SKIP() << "one device only";
    test_place memory(place_kind::device, {.width = 4096}, 1);
    for (const CUcontext current : {context, CUcontext{nullptr}}) {
        memory.fill(1);
        ASSERT_OK(raw().cuCtxSetCurrent(current));
        for (const statement how : {statement::stated, statement::any}) {
            const ferry_fill_desc fill = describe_fill(memory.describe(how), 4096, 1, 1, 4);
            EXPECT_OK(ferry_fill(basic.get(), &fill, nullptr));
            EXPECT_OK(ferry_fill_async(basic.get(), &fill, nullptr, nullptr));
        }
        CUcontext after = nullptr;
        EXPECT_OK(raw().cuCtxGetCurrent(&after));
        EXPECT_EQ(after, current);
        EXPECT_OK(ferry_context_synchronize(basic.get(), 1, nullptr));
        for (std::uint64_t x = 0; x < 4096; ++x)
            memory.picture_at(x, 0, 0) = std::byte{pattern_bytes[x % 4]};
        EXPECT_EQ(memory.read(), memory.picture());
    }
    ASSERT_OK(raw().cuCtxSetCurrent(context));
}

TEST_F(fills, a_stream_that_does_not_reach_the_memory_is_refused) {
    if (device_count() < 2) GTEST_SKIP() << "one device only";
    test_place memory(place_kind::device, {.width = 4096}, 1);
    memory.fill(1);
    CUstream stream = nullptr;
    ASSERT_OK(raw().cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    const ferry_fill_desc fill = describe_fill(memory.describe(statement::stated), 4096);
    ferry_error_info error = new_error();
    expect_refusal(ferry_fill_async(basic.get(), &fill, stream, &error), error, FERRY_ERROR_DEVICE,
                   FERRY_SIDE_DESTINATION, FERRY_FIELD_DEVICE);
    EXPECT_EQ(error.value, 1u);
    EXPECT_EQ(error.limit, 0u);
    EXPECT_EQ(memory.read(), memory.picture());
    if (ferry_peer_enable(basic.get(), 0, 1) == FERRY_SUCCESS) {
        EXPECT_OK(ferry_fill_async(basic.get(), &fill, stream, &error)) << "with peer access it does";
        EXPECT_OK(raw().cuStreamSynchronize(stream));
        EXPECT_EQ(memory.read(), std::vector<std::byte>(4096, std::byte{pattern_bytes[0]}));
        ferry_fill_desc past_the_end = describe_fill(memory.describe(statement::stated), 64 << 20);
        past_the_end.destination.row_pitch = 0;
        EXPECT_EQ(ferry_fill_async(basic.get(), &past_the_end, stream, &error),
                  FERRY_STATUS_DRIVER_BASE - CUDA_ERROR_INVALID_VALUE)
            << "the driver's own number, where the device is not what is wrong";
        EXPECT_OK(ferry_peer_disable(basic.get(), 0, 1));
    }
    EXPECT_OK(raw().cuStreamDestroy(stream));
}

} // namespace
} // namespace ferry::test
