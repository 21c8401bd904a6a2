// Tests which fills the driver makes and which a kernel makes, in a table to be checked by eye, and what is refused.
#include <cstring>
#include <string>

#include <gtest/gtest.h>

#include "plan/fill_plan.h"

#include "ferry/ferry_devices.h"

namespace ferry::test {
namespace {

constexpr std::uint64_t max_pitch = (1ull << 31) - 1;
constexpr copy_limits limits = {.device_count = 2, .max_pitch = max_pitch};

// A box in memory of device 0, or in host memory if `kind` says so.
struct fill_box {
    std::uint64_t width, height, depth, row_pitch, slice_height;
    std::uint32_t pattern_size = 4;
    memory_kind kind = memory_kind::device;
    bool repeats = false; // every four bytes of the pattern are the same
};

fill_shape settled(const fill_box &box) {
    ferry_fill_desc fill = {};
    fill.destination.kind = FERRY_KIND_DEVICE;
    fill.destination.address = 1ull << 40;
    fill.destination.row_pitch = box.row_pitch;
    fill.destination.slice_height = box.slice_height;
    fill.width = box.width;
    fill.height = box.height;
    fill.depth = box.depth;
    fill.pattern_size = box.pattern_size;
    for (std::uint32_t i = 0; i < box.pattern_size; ++i)
        fill.pattern[i] = static_cast<std::uint8_t>(box.repeats ? i % 4 : i + 1);
    fill_shape shape = {};
    EXPECT_EQ(validate_fill_fields(fill, limits, shape).status, FERRY_SUCCESS);
    const resolved_place memory = {box.kind, is_host(box.kind) || box.kind == memory_kind::managed ? -1 : 0, 0, 0, {}};
    EXPECT_EQ(validate_fill_bounds(memory, limits, shape).status, FERRY_SUCCESS);
    return shape;
}

fill_facts facts_with(const copy_preferences &preferences) {
    static const ferry_device_info h200 = [] {
        ferry_device_info info = {};
        std::strcpy(info.name, "NVIDIA H200");
        info.compute_major = 9;
        info.sm_count = 132;
        return info;
    }();
    return {.context_device = 0,
            .kernels = obstacle::none,
            .reach = obstacle::none,
            .preferences = preferences,
            .profile = &built_in_profile(h200)};
}

// ---- The simplest form ---------------------------------------------------------------------------------------

TEST(fill_shapes, tight_dimensions_are_folded_away) {
    struct {
        const char *name;
        fill_box box;
        std::uint64_t width, height, depth, row_pitch;
    } const rows[] = {
        {"line", {64, 1, 1, 0, 0}, 64, 1, 1, 64},
        {"tight rows", {64, 8, 1, 0, 0}, 512, 1, 1, 64},
        {"rows", {64, 8, 1, 80, 0}, 64, 8, 1, 80},
        {"tight slices of tight rows", {64, 8, 5, 0, 0}, 2560, 1, 1, 64},
        {"tight slices of rows", {64, 8, 5, 80, 8}, 64, 40, 1, 80},
        {"slices apart, of tight rows", {64, 8, 5, 64, 10}, 512, 5, 1, 640},
        {"slices apart, of one row", {64, 1, 5, 80, 10}, 64, 5, 1, 800},
        {"slices apart, of rows", {64, 8, 5, 80, 10}, 64, 8, 5, 80},
        {"slices so far apart that the driver has no such pitch", {64, 1, 5, 1 << 20, 1 << 11}, 64, 1, 5, 1 << 20},
    };
    for (const auto &row : rows) {
        SCOPED_TRACE(row.name);
        const fill_shape shape = settled(row.box);
        EXPECT_EQ(shape.width, row.width);
        EXPECT_EQ(shape.height, row.height);
        EXPECT_EQ(shape.depth, row.depth);
        if (!shape.is_line()) {
            EXPECT_EQ(shape.destination.row_pitch, row.row_pitch);
        }
    }
}

// ---- The choice ----------------------------------------------------------------------------------------------

TEST(fill_plans, a_kernel_fills_what_no_driver_call_can_fill_and_many_narrow_rows) {
    constexpr auto driver = route_kind::driver, kernel = route_kind::kernel;
    constexpr std::uint64_t KiB = 1024, MiB = 1024 * KiB;
    struct {
        const char *name;
        fill_box box;
        route_kind expected;
    } const rows[] = {
        {"a line", {256 * MiB, 1, 1, 0, 0}, driver},
        {"rows of 4 KiB", {4 * KiB, 64 * KiB, 1, 8 * KiB, 0}, driver},
        {"rows of 512 B", {512, 512 * KiB, 1, KiB, 0}, driver},
        {"rows of 100 B", {100, 640 * KiB, 1, 200, 0}, kernel},
        {"rows of 16 B", {16, 4 * MiB, 1, 32, 0}, kernel},
        {"rows of 4 B", {4, 16 * MiB, 1, 8, 0}, kernel},
        {"a few rows of 4 B", {4, 1000, 1, 8, 0}, driver},
        {"rows of 4 B of the host", {4, 16 * MiB, 1, 8, 0, 4, memory_kind::pinned}, driver},
        {"rows of 4 B of managed memory", {4, 16 * MiB, 1, 8, 0, 4, memory_kind::managed}, driver},
        {"a pattern of 8 B", {64, 1, 1, 0, 0, 8}, kernel},
        {"a pattern of 16 B in the host's memory", {64, 1, 1, 0, 0, 16, memory_kind::pinned}, kernel},
        {"16 B, four times the same", {64, 1, 1, 0, 0, 16, memory_kind::device, true}, driver},
        {"slices apart", {64, 8, 5, 80, 10, 1}, kernel},
        {"slices apart, of tight rows", {64, 8, 5, 64, 10, 1}, driver},
    };
    for (const auto &row : rows) {
        SCOPED_TRACE(row.name);
        const fill_shape shape = settled(row.box);
        const fill_plan plan = plan_fill(shape, facts_with({}));
        EXPECT_EQ(static_cast<int>(plan.route), static_cast<int>(row.expected));
        EXPECT_EQ(plan.blocks != 0, row.expected == kernel);
        EXPECT_EQ(static_cast<int>(plan.refused), 0);
        if (needs_no_choice(shape, {})) {
            EXPECT_EQ(static_cast<int>(plan.route), static_cast<int>(driver));
        }
    }
}

TEST(fill_plans, preferences_are_obeyed_or_refused) {
    constexpr fill_box line = {4096, 1, 1, 0, 0}, wide = {4096, 1, 1, 0, 0, 8}, narrow = {4, 1 << 20, 1, 8, 0},
                       apart = {64, 8, 5, 80, 10};
    constexpr auto none = route_kind::none, driver = route_kind::driver, kernel = route_kind::kernel;
    constexpr copy_preferences by_kernel = {.forced = kernel}, by_driver = {.forced = driver},
                               no_kernels = {.no_kernels = true}, urgent = {.is_urgent = true};
    struct {
        const char *name;
        fill_box box;
        copy_preferences preferences;
        obstacle kernels, reach;
        route_kind expected;
        std::int32_t status, field;
    } const rows[] = {
        {"by kernel", line, by_kernel, obstacle::none, obstacle::none, kernel, 0, 0},
        {"urgent", line, urgent, obstacle::none, obstacle::none, kernel, 0, 0},
        {"by driver", narrow, by_driver, obstacle::none, obstacle::none, driver, 0, 0},
        {"on one multiprocessor, which is slower",
         {100, 1 << 16, 1, 200, 0},
         {.max_blocks = 1},
         obstacle::none,
         obstacle::none,
         driver,
         0,
         0},
        {"no kernels", narrow, no_kernels, obstacle::none, obstacle::none, driver, 0, 0},
        {"none loaded", narrow, {}, obstacle::not_loaded, obstacle::none, driver, 0, 0},
        {"none loaded, urgent", line, urgent, obstacle::not_loaded, obstacle::none, driver, 0, 0},
        {"managed, as the driver says", narrow, {}, obstacle::none, obstacle::managed, driver, 0, 0},
        {"managed, wide", wide, {}, obstacle::none, obstacle::managed, kernel, 0, 0},
        {"by kernel, none loaded", line, by_kernel, obstacle::not_loaded, obstacle::none, none, FERRY_ERROR_ROUTE,
         FERRY_FIELD_ROUTE},
        {"wide, no kernels", wide, no_kernels, obstacle::none, obstacle::none, none, FERRY_ERROR_UNSUPPORTED,
         FERRY_FIELD_PATTERN_SIZE},
        {"wide, by driver", wide, by_driver, obstacle::none, obstacle::none, none, FERRY_ERROR_UNSUPPORTED,
         FERRY_FIELD_PATTERN_SIZE},
        {"apart, none loaded",
         apart,
         {},
         obstacle::not_loaded,
         obstacle::none,
         none,
         FERRY_ERROR_UNSUPPORTED,
         FERRY_FIELD_DEPTH},
        {"apart, past the end",
         apart,
         {},
         obstacle::none,
         obstacle::beyond,
         none,
         FERRY_ERROR_UNSUPPORTED,
         FERRY_FIELD_DEPTH},
    };
    for (const auto &row : rows) {
        SCOPED_TRACE(row.name);
        const fill_shape shape = settled(row.box);
        fill_facts facts = facts_with(row.preferences);
        facts.kernels = row.kernels;
        facts.reach = row.reach;
        const fill_plan plan = plan_fill(shape, facts);
        EXPECT_EQ(static_cast<int>(plan.route), static_cast<int>(row.expected));
        ASSERT_EQ(plan.refused != obstacle::none, row.expected == none);
        if (row.expected == none) {
            const error told = refusal_of(shape, facts, plan);
            EXPECT_EQ(told.status, row.status);
            EXPECT_EQ(told.field, row.field);
        }
    }
}

TEST(fill_plans, memory_of_a_device_out_of_reach_is_refused_by_its_device) {
    fill_shape shape = settled({4096, 1, 1, 0, 0, 8});
    shape.destination.device = 1;
    fill_facts facts = facts_with({});
    EXPECT_EQ(static_cast<int>(plan_fill(shape, facts).route), static_cast<int>(route_kind::kernel)) << "with access";
    facts.reach = obstacle::no_peer_access;
    const error told = refusal_of(shape, facts, plan_fill(shape, facts));
    EXPECT_EQ(told.status, FERRY_ERROR_DEVICE);
    EXPECT_EQ(told.value, 1u);
    EXPECT_EQ(told.limit, 0u);
}

TEST(fill_plans, sms_are_limited_by_the_options_and_few_over_the_link) {
    const fill_box large = {1 << 20, 64, 1, 1 << 21, 0, 8};
    fill_box on_host = large;
    on_host.kind = memory_kind::pinned;
    const std::uint16_t many = plan_fill(settled(large), facts_with({})).blocks;
    EXPECT_GE(many, 64u);
    EXPECT_LT(plan_fill(settled(on_host), facts_with({})).blocks, 64u);
    EXPECT_EQ(plan_fill(settled(large), facts_with({.max_blocks = 3})).blocks, 3u);
}

} // namespace
} // namespace ferry::test
