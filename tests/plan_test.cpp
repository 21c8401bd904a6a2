// The planner: the measured best route of each shape on an H200, the effect of the caller's wishes, and the
// predictions. Also profiles, as text and damaged.
#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/hash.h"
#include "copy/nest_packing.h"
#include "plan/batch_plan.h"
#include "plan/nest_costs.h"
#include "plan/pageable_pieces.h"
#include "plan/profile_text.h"
#include "routes/multilink.h"
#include "routes/ranking.h"
#include "routes/relayed.h"

namespace ferry::test {
namespace {

ferry_device_info h200() {
    ferry_device_info info = {};
    std::strcpy(info.name, "NVIDIA H200");
    info.compute_major = 9;
    info.sm_count = 132;
    return info;
}

ferry_device_info unknown_device() {
    ferry_device_info info = h200();
    std::strcpy(info.name, "NVIDIA A100");
    info.compute_major = 8;
    info.sm_count = 108;
    return info;
}

ferry_device_info software_device() {
    ferry_device_info info = unknown_device();
    info.is_software = 1;
    return info;
}

const device_profile &h200_profile() { return built_in_profile(h200()); }
const device_profile &unknown_profile() { return built_in_profile(unknown_device()); }

constexpr std::uint64_t KiB = 1024, MiB = 1024 * KiB;

enum class ends { h2d, d2h, d2d, peer };
enum class gapped { none, source, destination, both };

// `bytes` in rows of `width`. Ends with gaps have this pitch; 0 means twice the width.
shape shape_of(ends way, gapped gap, std::uint64_t width, std::uint64_t bytes, std::uint64_t pitch = 0) {
    shape shape = {};
    shape.width = gap == gapped::none ? bytes : width;
    shape.height = bytes / shape.width;
    shape.depth = 1;
    const auto end = [&](memory_kind kind, int device, bool has_gaps, std::uint64_t address) {
        const std::uint64_t row_pitch = !has_gaps ? shape.width : pitch ? pitch : 2 * shape.width;
        return shape_end{kind,      device,      nullptr, 0, 0, 0, {address, address + row_pitch * shape.height - 1},
                         row_pitch, shape.height};
    };
    const bool from_host = way == ends::h2d, to_host = way == ends::d2h;
    shape.source = end(from_host ? memory_kind::pinned : memory_kind::device, from_host ? -1 : 0,
                       gap == gapped::source || gap == gapped::both, 1ull << 40);
    shape.destination = end(to_host ? memory_kind::pinned : memory_kind::device,
                            to_host             ? -1
                            : way == ends::peer ? 1
                                                : 0,
                            gap == gapped::destination || gap == gapped::both, 1ull << 41);
    return shape;
}

// Rows with these pitches. 0 means without gaps.
shape rows_apart(ends way, std::uint64_t width, std::uint64_t rows, std::uint64_t source, std::uint64_t destination) {
    shape shape = shape_of(way, gapped::both, width, width * rows);
    for (const auto &[end, pitch] : {std::pair{&shape.source, source}, std::pair{&shape.destination, destination}}) {
        end->row_pitch = pitch ? pitch : width;
        end->span.last = end->span.first + end->row_pitch * (rows - 1) + width - 1;
    }
    return shape;
}

// Facts under which a kernel can serve both ends.
plan_facts facts_with(const device_profile *profile, const copy_preferences &preferences = {}) {
    plan_facts facts;
    facts.call.context_device = 0;
    facts.call.form = copy_form::asynchronous;
    facts.kernels.why_not = facts.kernels.source_reach = facts.kernels.destination_reach = obstacle::none;
    facts.call.preferences = preferences;
    facts.profile = profile;
    return facts;
}

route_kind route_of(const shape &shape, const device_profile &profile) {
    return plan_copy(shape, facts_with(&profile)).route;
}

// ---- Shape to route --------------------------------------------------------------------------------------------

struct row {
    ends way;
    gapped gap;
    std::uint64_t width, bytes;
    const char *route; // on an H200
    const char *route_unknown = "driver";
};

TEST(plan, each_shape_takes_the_route_that_was_measured_to_be_faster) {
    const row rows[] = {
        // Lines take the copy engines, whatever their size.
        {ends::h2d, gapped::none, 0, 4, "driver"},
        {ends::h2d, gapped::none, 0, 1024 * MiB, "driver"},
        {ends::d2h, gapped::none, 0, 64 * KiB, "driver"},
        {ends::d2d, gapped::none, 0, 1024 * MiB, "driver"},
        {ends::peer, gapped::none, 0, 64 * MiB, "driver"},
        // Rows gathered from the host: kernels read them while they are narrower than the packets of the link.
        {ends::h2d, gapped::source, 1, 8 * MiB, "kernel", "kernel"},
        {ends::h2d, gapped::source, 4, 8 * MiB, "kernel"},
        {ends::h2d, gapped::source, 16, 8 * MiB, "kernel"},
        {ends::h2d, gapped::source, 64, 32 * MiB, "driver"},
        {ends::h2d, gapped::source, 256, 32 * MiB, "driver"},
        {ends::h2d, gapped::source, 64 * KiB, 32 * MiB, "driver"},
        // Rows scattered on the device, from the host.
        {ends::h2d, gapped::destination, 1, 8 * MiB, "kernel", "kernel"},
        {ends::h2d, gapped::destination, 4, 8 * MiB, "kernel", "kernel"},
        {ends::h2d, gapped::destination, 16, 8 * MiB, "kernel"},
        {ends::h2d, gapped::destination, 64, 32 * MiB, "kernel"},
        {ends::h2d, gapped::destination, 256, 32 * MiB, "driver"},
        {ends::h2d, gapped::destination, 64 * KiB, 32 * MiB, "driver"},
        // Rows scattered on the host, from the device: kernels write them more slowly than the copy engines.
        {ends::d2h, gapped::destination, 4, 8 * MiB, "driver"},
        {ends::d2h, gapped::destination, 16, 8 * MiB, "driver"},
        {ends::d2h, gapped::destination, 256, 32 * MiB, "driver"},
        {ends::d2h, gapped::destination, 4 * KiB, 32 * MiB, "driver"},
        // Rows gathered on the device, packed into host memory.
        {ends::d2h, gapped::source, 4, 8 * MiB, "kernel", "kernel"},
        {ends::d2h, gapped::source, 16, 8 * MiB, "kernel"},
        {ends::d2h, gapped::source, 256, 32 * MiB, "driver"},
        // Within the device.
        {ends::d2d, gapped::source, 4, 8 * MiB, "kernel"},
        {ends::d2d, gapped::source, 16, 8 * MiB, "kernel"},
        {ends::d2d, gapped::source, 64, 256 * MiB, "kernel"},
        {ends::d2d, gapped::source, 256, 256 * MiB, "kernel"},
        {ends::d2d, gapped::source, 1 * KiB, 256 * MiB, "kernel"},
        {ends::d2d, gapped::source, 4 * KiB, 256 * MiB, "kernel"},
        {ends::d2d, gapped::source, 64 * KiB, 256 * MiB, "kernel"},
        {ends::d2d, gapped::source, 1 * MiB, 256 * MiB, "kernel"},
        {ends::d2d, gapped::source, 4 * MiB, 256 * MiB, "driver"},
        {ends::d2d, gapped::destination, 4, 8 * MiB, "kernel"},
        {ends::d2d, gapped::both, 4 * KiB, 256 * MiB, "kernel"},
        // Small copies: a launch costs more than the driver's call.
        {ends::d2d, gapped::source, 4, 64, "driver"},
        {ends::d2d, gapped::source, 4 * KiB, 64 * KiB, "driver"},
        {ends::h2d, gapped::source, 4, 256, "driver"},
        {ends::h2d, gapped::source, 4, 64 * KiB, "kernel"},
        // To a peer over NVLink.
        {ends::peer, gapped::source, 4, 8 * MiB, "kernel"},
        {ends::peer, gapped::source, 256, 64 * MiB, "driver"},
    };
    const auto name_of = [](route_kind route) {
        return route == route_kind::kernel ? "kernel" : route == route_kind::driver ? "driver" : "none";
    };
    for (const row &row : rows) {
        SCOPED_TRACE(testing::Message() << "way " << static_cast<int>(row.way) << " gap " << static_cast<int>(row.gap)
                                        << " width " << row.width << " bytes " << row.bytes);
        const shape shape = shape_of(row.way, row.gap, row.width, row.bytes);
        EXPECT_STREQ(name_of(route_of(shape, h200_profile())), row.route);
        EXPECT_STREQ(name_of(route_of(shape, unknown_profile())), row.route_unknown) << "on a device never measured";
    }
}

TEST(plan, a_kernel_is_taken_only_where_it_is_predicted_faster_by_a_margin) {
    device_profile profile = h200_profile();
    direction_profile &to_device = profile[copy_direction::host_to_device];
    to_device.driver_fixed_ns = to_device.kernel_fixed_ns = 10000;
    auto &driver = to_device.driver_rates[static_cast<int>(gaps::source)],
         &kernel = to_device.kernel_rates[static_cast<int>(gaps::source)];
    std::fill(std::begin(driver), std::end(driver), 10000);
    for (const auto &[rate, expected] : {std::pair{5000u, route_kind::driver},
                                         {10000u, route_kind::driver},
                                         {10400u, route_kind::driver},
                                         {10700u, route_kind::kernel}}) {
        std::fill(std::begin(kernel), std::end(kernel), rate);
        EXPECT_EQ(route_of(shape_of(ends::h2d, gapped::source, 32, 256 * MiB), profile), expected) << rate;
    }
}

TEST(plan, alignment_and_distance_of_rows_matter) {
    shape shape = shape_of(ends::d2d, gapped::source, 256, 8 * MiB);
    ASSERT_EQ(route_of(shape, h200_profile()), route_kind::kernel);
    shape.source.span.first += 1; // both ends share an alignment of single bytes only
    EXPECT_EQ(route_of(shape, h200_profile()), route_kind::driver);
    shape.destination.span.first += 1; // the same offset: narrow words at the beginning only
    EXPECT_EQ(route_of(shape, h200_profile()), route_kind::kernel);

    const auto kernel_ns = [&](std::uint64_t pitch) {
        const auto facts = facts_with(&h200_profile());
        return predict_copy(shape_of(ends::h2d, gapped::source, 4, 8 * MiB, pitch), facts)[route_kind::kernel]
            .predicted_ns;
    };
    EXPECT_GT(kernel_ns(16), kernel_ns(8) * 3 / 2) << "the gaps are transferred too, up to the size of a request";
    EXPECT_EQ(kernel_ns(128), kernel_ns(4096));
}

TEST(plan, separate_slices_without_gaps_inside_count_as_rows) {
    shape volume = shape_of(ends::d2d, gapped::none, 0, 4);
    volume.width = 4, volume.height = 256, volume.depth = 65536;
    volume.source.row_pitch = volume.destination.row_pitch = 4;
    volume.source.slice_height = 512, volume.destination.slice_height = 256;
    const auto facts = facts_with(&h200_profile());
    const copy_forecast as_volume = predict_copy(volume, facts),
                        as_rows = predict_copy(shape_of(ends::d2d, gapped::source, KiB, 64 * MiB), facts);
    EXPECT_EQ(as_volume[route_kind::driver].predicted_ns, as_rows[route_kind::driver].predicted_ns);
}

// A copy out of a 3D array of `side`^3 texels of 4 bytes, to an address this many bytes past a line of device memory.
shape out_of_array(std::uint64_t side, std::uint64_t past_line = 0) {
    shape shape = shape_of(ends::d2d, gapped::none, 0, 4 * side * side * side);
    shape.width = shape.destination.row_pitch = 4 * side;
    shape.height = shape.depth = shape.destination.slice_height = side;
    shape.source.kind = memory_kind::array;
    shape.source.array = reinterpret_cast<CUarray>(8);
    shape.source.x = 0;
    shape.destination.span.first += past_line;
    shape.destination.span.last += past_line;
    return shape;
}

TEST(plan, whole_arrays_are_read_by_kernels_and_small_boxes_by_the_driver) {
    EXPECT_EQ(route_of(out_of_array(512), h200_profile()), route_kind::kernel);
    EXPECT_EQ(route_of(out_of_array(128), h200_profile()), route_kind::kernel);
    EXPECT_EQ(route_of(out_of_array(16), h200_profile()), route_kind::driver);
    EXPECT_EQ(route_of(out_of_array(512), unknown_profile()), route_kind::driver);
    EXPECT_EQ(route_of(out_of_array(512, 16), h200_profile()), route_kind::kernel);
    EXPECT_EQ(route_of(out_of_array(512, 4), h200_profile()), route_kind::driver) << "no faster: 1050 and 1100 GB/s";
    EXPECT_EQ(route_of(out_of_array(512, 1), h200_profile()), route_kind::driver) << "byte by byte";
    EXPECT_EQ(plan_copy(out_of_array(512), facts_with(&h200_profile())).blocks, 32769) << "as many blocks as have work";
    EXPECT_EQ(plan_copy(out_of_array(512), facts_with(&h200_profile(), {.max_blocks = 7})).route, route_kind::driver)
        << "the driver is faster than seven blocks";
    EXPECT_EQ(plan_copy(out_of_array(512), facts_with(&h200_profile(), {.is_urgent = true, .max_blocks = 7})).blocks,
              7);
}

// ---- What can serve, and wishes --------------------------------------------------------------------------------

TEST(plan, without_the_facts_no_kernel_is_chosen) {
    const shape shape = shape_of(ends::d2d, gapped::source, 4, 8 * MiB);
    EXPECT_EQ(plan_copy(shape, {}).route, route_kind::driver);
    EXPECT_EQ(plan_copy(shape, facts_with(nullptr)).route, route_kind::driver);
    EXPECT_EQ(predict_copy(shape, facts_with(nullptr))[route_kind::kernel].why_not, obstacle::not_measured);
}

struct obstructed {
    obstacle expected;
    shape copy;
    plan_facts facts;
};

std::vector<obstructed> obstructed_copies() {
    const shape narrow = shape_of(ends::h2d, gapped::source, 4, 8 * MiB);
    const plan_facts facts = facts_with(&h200_profile());
    std::vector<obstructed> all;
    const auto add = [&](obstacle expected, auto change) {
        obstructed one = {expected, narrow, facts};
        change(one.copy, one.facts);
        all.push_back(one);
    };
    add(obstacle::not_loaded, [](shape &, plan_facts &facts) { facts.kernels.why_not = obstacle::not_loaded; });
    add(obstacle::pageable, [](shape &, plan_facts &facts) { facts.kernels.source_reach = obstacle::pageable; });
    add(obstacle::not_known, [](shape &, plan_facts &facts) { facts.kernels.source_reach = obstacle::not_known; });
    add(obstacle::no_peer_access,
        [](shape &, plan_facts &facts) { facts.kernels.destination_reach = obstacle::no_peer_access; });
    add(obstacle::forbidden, [](shape &, plan_facts &facts) { facts.call.preferences.no_kernels = true; });
    add(obstacle::host_to_host, [](shape &copy, plan_facts &) {
        copy.destination.kind = memory_kind::pinned;
        copy.destination.device = -1;
    });
    add(obstacle::array, [](shape &copy, plan_facts &) {
        copy.destination.kind = memory_kind::array;
        copy.destination.array = reinterpret_cast<CUarray>(8);
    });
    return all;
}

TEST(plan, the_driver_makes_copies_that_kernels_cannot_make_and_forecasts_report_why) {
    for (const auto &[expected, copy, facts] : obstructed_copies()) {
        SCOPED_TRACE(text_of(expected));
        const copy_plan plan = plan_copy(copy, facts);
        EXPECT_EQ(plan.route, route_kind::driver);
        EXPECT_EQ(plan.refused, obstacle::none);
        EXPECT_EQ(predict_copy(copy, facts)[route_kind::kernel].why_not, expected);
        EXPECT_EQ(predict_copy(copy, facts)[route_kind::kernel].predicted_ns, 0u);
        EXPECT_EQ(predict_copy(copy, facts)[route_kind::driver].why_not, obstacle::none);
    }
}

TEST(plan, a_forced_route_that_cannot_serve_is_refused_with_its_reason) {
    for (auto [expected, copy, facts] : obstructed_copies()) {
        SCOPED_TRACE(text_of(expected));
        facts.call.preferences.forced = route_kind::kernel;
        const copy_plan plan = plan_copy(copy, facts);
        EXPECT_EQ(plan.route, route_kind::none);
        EXPECT_EQ(plan.refused, expected);
    }
    const auto facts = facts_with(&h200_profile(), {.forced = static_cast<route_kind>(99)});
    EXPECT_EQ(plan_copy(shape_of(ends::d2d, gapped::none, 0, MiB), facts).refused, obstacle::no_route);
}

TEST(plan, a_forced_route_is_taken_whatever_is_predicted) {
    const shape line = shape_of(ends::h2d, gapped::none, 0, 64 * MiB),
                narrow = shape_of(ends::h2d, gapped::source, 4, 8 * MiB);
    for (const device_profile *const profile : {&h200_profile(), static_cast<const device_profile *>(nullptr)}) {
        EXPECT_EQ(plan_copy(line, facts_with(profile, {.forced = route_kind::kernel})).route, route_kind::kernel);
        EXPECT_GT(plan_copy(line, facts_with(profile, {.forced = route_kind::kernel})).blocks, 0);
        EXPECT_EQ(plan_copy(narrow, facts_with(profile, {.forced = route_kind::driver})).route, route_kind::driver);
    }
    // Managed memory too: kernels can access it, but how fast is unknown.
    plan_facts managed = facts_with(&h200_profile());
    managed.kernels.source_reach = obstacle::managed;
    EXPECT_EQ(plan_copy(narrow, managed).route, route_kind::driver);
    EXPECT_EQ(predict_copy(narrow, managed)[route_kind::kernel].why_not, obstacle::managed);
    managed.call.preferences.forced = route_kind::kernel;
    EXPECT_EQ(plan_copy(narrow, managed).route, route_kind::kernel);
    EXPECT_EQ(predict_copy(narrow, managed)[route_kind::kernel].why_not, obstacle::none);
}

// ---- Several devices ---------------------------------------------------------------------------------------------

plan_facts without_access(const device_profile &profile, const copy_preferences &preferences = {}) {
    plan_facts facts = facts_with(&profile, preferences);
    facts.links.relay = obstacle::none;
    facts.kernels.source_reach = facts.kernels.destination_reach = obstacle::no_peer_access;
    return facts;
}

TEST(plan, copies_between_devices_without_access_are_relayed_where_that_wins) {
    const auto route = [](const shape &of, const plan_facts &facts) { return plan_copy(of, facts).route; };
    const plan_facts far = without_access(h200_profile());
    EXPECT_EQ(route(shape_of(ends::peer, gapped::none, 0, 4 * MiB), far), route_kind::driver);
    EXPECT_EQ(route(shape_of(ends::peer, gapped::none, 0, 16 * MiB), far), route_kind::relayed);
    EXPECT_EQ(route(shape_of(ends::peer, gapped::none, 0, 1024 * MiB), far), route_kind::relayed);
    EXPECT_EQ(route(shape_of(ends::peer, gapped::both, 4096, 32 * MiB), far), route_kind::relayed);
    EXPECT_EQ(route(shape_of(ends::peer, gapped::both, 4, 32 * MiB), far), route_kind::driver)
        << "engines copy narrow rows from and to the host as slowly as between devices";
    EXPECT_EQ(route(shape_of(ends::peer, gapped::none, 0, 1024 * MiB), without_access(unknown_profile())),
              route_kind::driver)
        << "not measured";

    const shape line = shape_of(ends::peer, gapped::none, 0, 64 * MiB);
    const copy_forecast forecast = predict_copy(line, far);
    EXPECT_GT(forecast[route_kind::relayed].predicted_ns, 0u);
    EXPECT_LT(forecast[route_kind::relayed].predicted_ns, forecast[route_kind::driver].predicted_ns);
    for (const obstacle why : {obstacle::direct_access, obstacle::not_between_devices, obstacle::no_entry_point}) {
        plan_facts facts = facts_with(&h200_profile());
        facts.links.relay = why;
        EXPECT_EQ(route(line, facts), route_kind::driver);
        EXPECT_EQ(predict_copy(line, facts)[route_kind::relayed].why_not, why);
        facts.call.preferences.forced = route_kind::relayed;
        EXPECT_EQ(route(line, facts), why == obstacle::direct_access ? route_kind::relayed : route_kind::none);
    }
    plan_facts synchronous = far;
    synchronous.call.form = copy_form::synchronous;
    EXPECT_TRUE(plan_copy(line, synchronous).synchronise_after);
    EXPECT_EQ(route(line, without_access(h200_profile(), {.forced = route_kind::driver})), route_kind::driver);
}

// Two pairs of a machine may have links of different kinds.
TEST(plan, measurements_of_the_pair_override_the_profile) {
    const shape line = shape_of(ends::peer, gapped::none, 0, 64 * MiB),
                rows = shape_of(ends::peer, gapped::both, 4, 64 * MiB);
    const auto in = [](std::uint64_t rate) { return 64 * MiB * 1000 / rate; };
    plan_facts far = without_access(unknown_profile());
    EXPECT_EQ(plan_copy(line, far).route, route_kind::driver);
    far.links.pair = {.bounce_rate = 10'000, .relay_rate = 40'000, .relay_fixed_ns = 100'000};
    EXPECT_EQ(plan_copy(line, far).route, route_kind::relayed);
    EXPECT_EQ(predict_copy(line, far)[route_kind::relayed].predicted_ns, 100'000 + in(40'000));
    EXPECT_GE(predict_copy(line, far)[route_kind::driver].predicted_ns, in(10'000));
    far.links.pair.bounce_rate = 50'000;
    EXPECT_EQ(plan_copy(line, far).route, route_kind::driver);

    plan_facts near = facts_with(&h200_profile());
    near.links.relay = obstacle::direct_access;
    EXPECT_EQ(plan_copy(rows, near).route, route_kind::kernel);
    const copy_forecast built_in = predict_copy(line, near);
    near.links.pair = {.direct_rate = 700'000, .direct_fixed_ns = 900};
    EXPECT_EQ(predict_copy(line, near)[route_kind::driver].predicted_ns, 900 + in(700'000))
        << "a faster link than the profile's";
    EXPECT_LT(predict_copy(line, near)[route_kind::driver].predicted_ns, built_in[route_kind::driver].predicted_ns);
    near.links.pair.direct_rate = 20'000;
    for (const shape &each : {line, rows}) {
        EXPECT_GE(predict_copy(each, near)[route_kind::driver].predicted_ns, in(20'000));
        EXPECT_GE(predict_copy(each, near)[route_kind::kernel].predicted_ns, in(20'000))
            << "no kernel is faster than the link";
    }
}

TEST(plan, with_no_wait_the_first_route_that_does_not_wait_is_taken) {
    const auto plan_without_waits = [](const shape &shape, plan_facts facts) {
        facts.call.form = copy_form::asynchronous;
        facts.call.preferences.no_wait = true;
        return plan_copy(shape, facts);
    };
    const auto upload = [](std::uint64_t bytes) {
        shape made = shape_of(ends::h2d, gapped::none, 0, bytes);
        made.source.kind = memory_kind::pageable;
        return made;
    };
    plan_facts facts = facts_with(&h200_profile());
    facts.call.is_stream_idle = true;
    facts.staging.why_not = facts.staging.reach = obstacle::none;
    facts.staging.threads = 8;
    const shape pageable = upload(512 << 10);
    EXPECT_EQ(plan_without_waits(pageable, facts).route, route_kind::staged) << "the driver would wait for the copy";
    EXPECT_EQ(plan_without_waits(pageable, facts).reason, FERRY_REASON_NO_WAIT);
    EXPECT_EQ(plan_without_waits(upload(64 << 10), facts).route, route_kind::driver) << "sent with the commands";
    EXPECT_EQ(plan_without_waits(shape_of(ends::h2d, gapped::none, 0, MiB), facts).route, route_kind::driver);
    plan_facts unstaged = facts;
    unstaged.staging.why_not = obstacle::no_staging;
    EXPECT_EQ(plan_without_waits(pageable, unstaged).refused, obstacle::waits);
    plan_facts forced = facts;
    forced.call.preferences.forced = route_kind::driver;
    EXPECT_EQ(plan_without_waits(pageable, forced).refused, obstacle::waits);
    plan_facts early = facts;
    early.call.preferences.order = source_order::call;
    EXPECT_EQ(plan_without_waits(upload(4 * MiB), early).refused, obstacle::waits) << "too large to be buffered";
    plan_facts synchronous = facts;
    synchronous.call.preferences.no_wait = true;
    synchronous.call.form = copy_form::synchronous;
    EXPECT_EQ(plan_copy(pageable, synchronous).refused, obstacle::waits);
}

TEST(plan, access_is_queried_only_for_large_copies_between_devices) {
    const plan_facts facts = facts_with(&h200_profile());
    EXPECT_TRUE(may_be_relayed(shape_of(ends::peer, gapped::none, 0, 2 * MiB), facts.call));
    EXPECT_FALSE(may_be_relayed(shape_of(ends::peer, gapped::none, 0, 2 * MiB - 1), facts.call));
    EXPECT_FALSE(may_be_relayed(shape_of(ends::d2d, gapped::none, 0, 64 * MiB), facts.call));
    EXPECT_FALSE(may_be_relayed(shape_of(ends::h2d, gapped::none, 0, 64 * MiB), facts.call));
    plan_facts forced = facts, urgent = facts;
    forced.call.preferences.forced = route_kind::relayed;
    urgent.call.preferences.is_urgent = true;
    EXPECT_FALSE(may_be_relayed(shape_of(ends::peer, gapped::none, 0, 64 * MiB), urgent.call));
    EXPECT_TRUE(may_be_relayed(shape_of(ends::peer, gapped::none, 0, 1), forced.call));
}

TEST(plan, copies_use_several_links_where_allowed_and_possible) {
    const copy_preferences wished = {.over_links = true};
    for (const ends way : {ends::h2d, ends::d2h}) {
        const shape line = shape_of(way, gapped::none, 0, 64 * MiB);
        plan_facts facts = facts_with(&h200_profile(), wished);
        EXPECT_TRUE(may_take_links(line, facts.call));
        EXPECT_EQ(plan_copy(line, facts).route, route_kind::driver) << "not found to be possible";
        facts.links.multilink = obstacle::none;
        facts.links.count = 4;
        facts.links.own_share = 0.25;
        EXPECT_EQ(plan_copy(line, facts).route, route_kind::multilink);
        EXPECT_EQ(plan_copy(line, facts).blocks, way == ends::h2d ? 24 : 16);
        EXPECT_LT(predict_copy(line, facts)[route_kind::multilink].predicted_ns,
                  predict_copy(line, facts)[route_kind::driver].predicted_ns / 2);
        plan_facts beside_slow = facts;
        beside_slow.links.own_share = 0.5;
        EXPECT_GT(predict_copy(line, beside_slow)[route_kind::multilink].predicted_ns,
                  predict_copy(line, facts)[route_kind::multilink].predicted_ns * 18 / 10);
        facts.call.preferences.max_blocks = 3;
        EXPECT_EQ(plan_copy(line, facts).blocks, 3);
        facts.call.preferences.forced = route_kind::driver;
        EXPECT_EQ(plan_copy(line, facts).route, route_kind::driver);
    }
    EXPECT_FALSE(may_take_links(shape_of(ends::h2d, gapped::none, 0, 64 * MiB), facts_with(&h200_profile()).call));
    EXPECT_FALSE(
        may_take_links(shape_of(ends::d2d, gapped::none, 0, 64 * MiB), facts_with(&h200_profile(), wished).call));
}

// ---- Pageable memory --------------------------------------------------------------------------------------------

shape pageable_line(ends way, std::uint64_t bytes) {
    shape line = shape_of(way, gapped::none, 0, bytes);
    (way == ends::h2d ? line.source : line.destination).kind = memory_kind::pageable;
    return line;
}
plan_facts facts_to_stage(copy_form form, const copy_preferences &preferences = {}) {
    plan_facts facts = facts_with(&h200_profile(), preferences);
    facts.call.form = form;
    facts.staging.why_not = facts.staging.reach = obstacle::none;
    facts.staging.threads = 8;
    return facts;
}
constexpr copy_form on_a_stream = copy_form::asynchronous, at_once = copy_form::synchronous;

TEST(staged_plan, on_an_idle_stream_pageable_memory_takes_the_route_that_is_predicted_faster) {
    for (const ends way : {ends::h2d, ends::d2h})
        for (const std::uint64_t bytes : {std::uint64_t{1}, 512 * KiB, 2 * MiB, 1024 * MiB})
            for (const bool is_idle : {false, true})
                for (const bool is_known : {false, true}) {
                    plan_facts facts = facts_to_stage(on_a_stream);
                    facts.call.is_stream_idle = is_idle;
                    if (!is_known) facts.profile = nullptr;
                    const bool is_by_driver = is_idle && is_known && bytes <= 512 * KiB;
                    const copy_plan plan = plan_copy(pageable_line(way, bytes), facts);
                    EXPECT_EQ(plan.route, is_by_driver ? route_kind::driver : route_kind::staged);
                    EXPECT_FALSE(plan.synchronise_after || plan.wait_before);
                    EXPECT_EQ(plan.blocks, is_by_driver ? 0 : 8);
                }
}

TEST(staged_plan, on_the_software_driver_pageable_memory_is_staged_only_after_other_work) {
    for (const ends way : {ends::h2d, ends::d2h})
        for (const std::uint64_t bytes : {4 * KiB, MiB, MiB + 1, 16 * MiB, 1024 * MiB})
            for (const std::uint64_t width : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{16}, KiB})
                for (const std::uint16_t threads : {1, 2, 8}) {
                    SCOPED_TRACE(testing::Message() << bytes << " bytes in rows of " << width << ", " << threads);
                    shape copy = pageable_line(way, bytes);
                    if (width) {
                        copy = shape_of(way, way == ends::h2d ? gapped::source : gapped::destination, width, bytes);
                        (way == ends::h2d ? copy.source : copy.destination).kind = memory_kind::pageable;
                    }
                    plan_facts facts = facts_to_stage(at_once);
                    facts.profile = &built_in_profile(software_device());
                    facts.staging.threads = threads;
                    EXPECT_EQ(plan_copy(copy, facts).route, route_kind::driver);
                    facts.call.form = on_a_stream;
                    EXPECT_EQ(plan_copy(copy, facts).route, route_kind::staged);
                    facts.call.is_stream_idle = true;
                    EXPECT_EQ(plan_copy(copy, facts).route, route_kind::driver);
                    EXPECT_EQ(plan_copy(copy, facts).reason, FERRY_REASON_PREDICTED);
                }
}

TEST(staged_plan, on_a_gpu_large_copies_on_an_idle_stream_are_staged_however_few_threads_there_are) {
    for (const device_profile *const profile : {&h200_profile(), &unknown_profile()})
        for (const ends way : {ends::h2d, ends::d2h})
            for (const std::uint64_t bytes : {MiB + 1, 2 * MiB, 16 * MiB, 1024 * MiB})
                for (const std::uint16_t threads : {1, 2, 8, 64}) {
                    plan_facts facts = facts_to_stage(on_a_stream);
                    facts.profile = profile;
                    facts.call.is_stream_idle = true;
                    facts.staging.threads = threads;
                    EXPECT_EQ(plan_copy(pageable_line(way, bytes), facts).route, route_kind::staged)
                        << bytes << " bytes, " << threads << " threads";
                }
}

TEST(staged_plan, copies_that_are_too_small_to_stage_take_the_driver_route_whatever_the_threads_and_delays) {
    const device_profile &software_profile = built_in_profile(software_device());
    for (const device_profile *const profile : {&h200_profile(), &unknown_profile(), &software_profile})
        for (const ends way : {ends::h2d, ends::d2h}) {
            EXPECT_TRUE(is_too_small_to_stage(pageable_line(way, 1), *profile));
            EXPECT_FALSE(is_too_small_to_stage(pageable_line(way, 1024 * MiB), *profile));
            for (std::uint64_t bytes = 1; bytes <= max_small_copy; bytes *= 2)
                for (const std::uint16_t threads : {1, 8, 64})
                    for (const std::uint32_t delay_ns : {0u, 50'000u}) {
                        const shape copy = pageable_line(way, bytes);
                        if (!is_too_small_to_stage(copy, *profile)) continue;
                        plan_facts facts = facts_to_stage(on_a_stream);
                        facts.profile = profile;
                        facts.call.is_stream_idle = true;
                        facts.staging.threads = threads;
                        facts.staging.start_delay_ns = facts.staging.thread_delay_ns = delay_ns;
                        facts.staging.has_stream_waits = true;
                        EXPECT_EQ(plan_copy(copy, facts).route, route_kind::driver)
                            << bytes << " bytes, " << threads << " threads";
                    }
        }
}

TEST(staged_plan, after_other_copies_of_its_batch_the_driver_copies_only_a_source_that_it_reads_in_the_call) {
    plan_facts facts = facts_to_stage(on_a_stream);
    facts.call.is_source_final = true;
    EXPECT_EQ(plan_copy(pageable_line(ends::h2d, 4 * KiB), facts).route, route_kind::driver);
    EXPECT_FALSE(plan_copy(pageable_line(ends::h2d, 4 * KiB), facts).wait_before);
    EXPECT_EQ(plan_copy(pageable_line(ends::d2h, 4 * KiB), facts).route, route_kind::staged);
}

TEST(staged_plan, a_source_that_may_be_read_early_is_buffered_after_other_work_if_it_is_short_and_contiguous) {
    plan_facts facts = facts_to_stage(on_a_stream);
    facts.call.may_read_early = true;
    for (const std::uint64_t size : {std::uint64_t{1}, 64 * KiB, 256 * KiB, 256 * KiB + 1, MiB, 16 * MiB}) {
        const copy_plan plan = plan_copy(pageable_line(ends::h2d, size), facts);
        EXPECT_EQ(plan.route, size <= 256 * KiB ? route_kind::buffered : route_kind::staged) << size;
        EXPECT_FALSE(plan.wait_in_the_call || plan_for_driver(pageable_line(ends::h2d, size), facts.call).wait_before);
    }
    shape rows = pageable_line(ends::h2d, 64);
    rows.height = 2;
    EXPECT_EQ(plan_copy(rows, facts).route, route_kind::staged);
    facts.call.preferences.is_urgent = true;
    EXPECT_EQ(plan_copy(pageable_line(ends::h2d, 4 * KiB), facts).route, route_kind::staged) << "a copy engine is late";
    facts.call.has_command_room = true;
    EXPECT_EQ(plan_copy(pageable_line(ends::h2d, 4 * KiB), facts).route, route_kind::driver);
}

TEST(staged_plan, a_source_that_the_call_must_read_is_buffered_after_other_work_up_to_1_mib) {
    plan_facts reading = facts_to_stage(on_a_stream);
    reading.call.preferences.order = source_order::call;
    plan_facts with_room = reading;
    with_room.call.has_command_room = true;
    EXPECT_EQ(plan_copy(pageable_line(ends::h2d, 4 * KiB), with_room).route, route_kind::driver);
    EXPECT_EQ(plan_copy(pageable_line(ends::h2d, 4 * KiB), reading).route, route_kind::buffered);
    shape rows = pageable_line(ends::h2d, 64);
    rows.height = 2;
    EXPECT_EQ(plan_copy(rows, reading).route, route_kind::buffered);
    shape elsewhere = pageable_line(ends::h2d, 64);
    elsewhere.destination.device = reading.call.context_device + 1;
    EXPECT_EQ(plan_copy(elsewhere, reading).route, route_kind::buffered);
    for (const std::uint64_t size : {4 * KiB + 1, 64 * KiB, MiB, MiB + 1, 16 * MiB}) {
        const shape there = pageable_line(ends::h2d, size), back = pageable_line(ends::d2h, size);
        plan_facts facts = facts_to_stage(on_a_stream);
        facts.call.preferences.order = source_order::call;
        const copy_plan behind = plan_copy(there, facts);
        EXPECT_EQ(behind.route, size <= MiB ? route_kind::buffered : route_kind::staged) << size;
        EXPECT_EQ(behind.wait_in_the_call, size > MiB) << size;
        EXPECT_FALSE(plan_for_driver(there, facts.call).wait_before); // the driver's call may read it early
        EXPECT_FALSE(plan_copy(back, facts).wait_in_the_call);
        facts.call.is_stream_idle = true;
        const copy_plan alone = plan_copy(there, facts);
        EXPECT_EQ(alone.route, size <= MiB ? route_kind::driver : route_kind::staged) << size;
        EXPECT_EQ(alone.wait_in_the_call, alone.route == route_kind::staged) << size;
        facts.call.form = copy_form::synchronous;
        EXPECT_FALSE(plan_copy(there, facts).wait_in_the_call);
    }
}

TEST(staged_plan, late_staging_is_predicted_and_avoided) {
    constexpr std::uint64_t ms = 1'000'000;
    for (const ends way : {ends::h2d, ends::d2h}) {
        const shape middle = pageable_line(way, 16 * MiB), large = pageable_line(way, 1024 * MiB);
        plan_facts facts = facts_to_stage(on_a_stream);
        facts.call.is_stream_idle = true;
        const std::uint64_t alone = predict_copy(middle, facts)[route_kind::staged].predicted_ns;
        EXPECT_EQ(plan_copy(middle, facts).route, route_kind::staged);
        for (const auto member : {&staging_facts::thread_delay_ns, &staging_facts::start_delay_ns}) {
            plan_facts late = facts;
            late.staging.*member = 8 * ms;
            EXPECT_EQ(predict_copy(middle, late)[route_kind::staged].predicted_ns, alone + 8 * ms);
            EXPECT_EQ(plan_copy(middle, late).route, route_kind::driver);
            EXPECT_EQ(plan_copy(large, late).route, route_kind::staged);
        }
        // Behind other work the driver would make the caller wait for that work.
        facts.call.is_stream_idle = false;
        facts.staging.start_delay_ns = facts.staging.thread_delay_ns = 8 * ms;
        EXPECT_EQ(plan_copy(middle, facts).route, route_kind::staged);
        // The caller of a synchronous copy does not wait for the threads.
        plan_facts helped = facts_to_stage(at_once);
        helped.staging.thread_delay_ns = 8 * ms;
        EXPECT_EQ(plan_copy(middle, helped).route, route_kind::staged);
        EXPECT_EQ(predict_copy(middle, helped)[route_kind::staged].delay_ns, 0u);
    }
}

// Threads that sleep delay copies to the host. To the device, the driver loses as much after a pause. An asynchronous
// copy is staged after a short pause nevertheless, because the driver's call would block the caller.
TEST(staged_plan, threads_that_sleep_count_against_staging_to_the_host) {
    constexpr std::uint64_t us = 1000;
    for (const copy_form form : {at_once, on_a_stream}) {
        plan_facts facts = facts_to_stage(form);
        facts.call.is_stream_idle = true;
        facts.profile = &h200_profile();
        facts.staging.threads = 8;
        const auto route_of = [&](ends way, std::uint64_t bytes, std::uint64_t idle_ns) {
            facts.staging.idle_ns = idle_ns;
            return plan_copy(pageable_line(way, bytes), facts).route;
        };
        const bool is_synchronous = form == at_once;
        EXPECT_EQ(route_of(ends::d2h, MiB, 10 * us), route_kind::staged);
        EXPECT_EQ(route_of(ends::d2h, MiB, 400 * us), is_synchronous ? route_kind::driver : route_kind::staged);
        EXPECT_EQ(route_of(ends::d2h, MiB, 10'000 * us), route_kind::driver);
        // The driver's call notes that copies follow each other, if only the sleep decided for it.
        EXPECT_TRUE(plan_copy(pageable_line(ends::d2h, MiB), facts).are_threads_asleep);
        EXPECT_FALSE(plan_copy(pageable_line(ends::d2h, 64 * KiB), facts).are_threads_asleep);
        EXPECT_FALSE(plan_copy(pageable_line(ends::h2d, MiB), facts).are_threads_asleep);
        for (const ends way : {ends::h2d, ends::d2h})
            for (const std::uint64_t idle_ns : {0 * us, 400 * us, 10'000 * us})
                EXPECT_EQ(route_of(way, 2 * MiB, idle_ns), route_kind::staged);
    }
}

// The caller works on such copies until they are done.
TEST(staged_plan, the_delay_of_threads_is_ignored_if_the_caller_copies_too) {
    constexpr std::uint64_t ms = 1'000'000;
    for (const ends way : {ends::h2d, ends::d2h}) {
        const shape middle = pageable_line(way, 16 * MiB);
        plan_facts facts = facts_to_stage(on_a_stream);
        facts.call.is_stream_idle = true;
        facts.staging.thread_delay_ns = 8 * ms;
        EXPECT_EQ(plan_copy(middle, facts).route, route_kind::driver);
        if (way == ends::h2d)
            facts.call.preferences.order = source_order::call;
        else
            facts.call.preferences.written = true;
        EXPECT_EQ(plan_copy(middle, facts).route, route_kind::staged);
        EXPECT_TRUE(plan_copy(middle, facts).wait_in_the_call);
        EXPECT_EQ(predict_copy(middle, facts)[route_kind::staged].delay_ns, 0u);
        facts.staging.start_delay_ns = 8 * ms;
        EXPECT_EQ(plan_copy(middle, facts).route, route_kind::driver) << "the caller cannot start the kernel";
        // Each flag is about its own end.
        const shape other = pageable_line(way == ends::h2d ? ends::d2h : ends::h2d, 16 * MiB);
        facts.staging.start_delay_ns = 0;
        EXPECT_EQ(plan_copy(other, facts).route, route_kind::driver);
        facts.call.preferences.forced = route_kind::staged;
        EXPECT_FALSE(plan_copy(other, facts).wait_in_the_call);
    }
}

TEST(staged_plan, urgent_copies_are_staged_unless_the_driver_sends_them_with_its_commands) {
    for (const copy_form form : {at_once, on_a_stream}) {
        plan_facts facts = facts_to_stage(form, {.is_urgent = true});
        facts.call.is_stream_idle = true;
        EXPECT_EQ(plan_copy(pageable_line(ends::h2d, 64 * KiB), facts).route, route_kind::driver);
        EXPECT_EQ(plan_copy(pageable_line(ends::h2d, 64 * KiB + 1), facts).route, route_kind::staged);
        EXPECT_EQ(plan_copy(pageable_line(ends::d2h, 64), facts).route, route_kind::staged);
        facts.call.is_stream_idle = false; // the driver would read the source too early
        EXPECT_EQ(plan_copy(pageable_line(ends::h2d, 64), facts).route,
                  form == at_once ? route_kind::driver : route_kind::staged);
    }
}

TEST(staged_plan, synchronous_copies_take_the_route_that_is_predicted_faster) {
    for (const ends way : {ends::h2d, ends::d2h}) {
        EXPECT_EQ(plan_copy(pageable_line(way, 32 * KiB), facts_to_stage(at_once)).route, route_kind::driver);
        const copy_plan large = plan_copy(pageable_line(way, 64 * MiB), facts_to_stage(at_once));
        EXPECT_EQ(large.route, route_kind::staged);
        EXPECT_TRUE(large.synchronise_after);
    }
    const copy_forecast forecast = predict_copy(pageable_line(ends::h2d, 1024 * MiB), facts_to_stage(at_once));
    EXPECT_GT(forecast[route_kind::driver].predicted_ns, 3 * forecast[route_kind::staged].predicted_ns);
    plan_facts few = facts_to_stage(at_once);
    few.staging.threads = 1;
    EXPECT_GT(predict_copy(pageable_line(ends::h2d, 1024 * MiB), few)[route_kind::staged].predicted_ns,
              2 * forecast[route_kind::staged].predicted_ns);
}

TEST(staged_plan, copies_that_cannot_be_staged_take_the_driver_route_or_are_refused_with_the_reason) {
    const shape line = pageable_line(ends::h2d, 64 * MiB);
    const auto expect = [](obstacle why, const shape &shape, plan_facts facts) {
        SCOPED_TRACE(text_of(why));
        EXPECT_EQ(predict_copy(shape, facts)[route_kind::staged].why_not, why);
        EXPECT_EQ(plan_copy(shape, facts).route, route_kind::driver);
        facts.call.preferences.forced = route_kind::staged;
        EXPECT_EQ(plan_copy(shape, facts).refused, why);
    };
    const auto with = [&](auto change) {
        plan_facts facts = facts_to_stage(on_a_stream);
        change(facts);
        return facts;
    };
    expect(obstacle::forbidden, line, with([](plan_facts &facts) { facts.call.preferences.no_kernels = true; }));
    expect(obstacle::not_loaded, line, with([](plan_facts &facts) { facts.kernels.why_not = obstacle::not_loaded; }));
    expect(obstacle::no_staging, line, with([](plan_facts &facts) { facts.staging.why_not = obstacle::no_staging; }));
    expect(obstacle::beyond, line, with([](plan_facts &facts) { facts.staging.reach = obstacle::beyond; }));
    expect(obstacle::other_device, line, with([](plan_facts &facts) { facts.call.context_device = 1; }));
    const plan_facts facts = facts_to_stage(on_a_stream);
    shape other = line;
    other.destination.kind = memory_kind::managed;
    expect(obstacle::managed, other, facts);
    other.destination.kind = memory_kind::pageable;
    expect(obstacle::host_to_host, other, facts);
    expect(obstacle::not_pageable, shape_of(ends::h2d, gapped::none, 0, 64 * MiB), facts);
    expect(obstacle::not_pageable, shape_of(ends::d2h, gapped::none, 0, 64 * MiB), facts);
    expect(obstacle::not_pageable, shape_of(ends::d2d, gapped::none, 0, 64 * MiB), facts);
}

TEST(staged_plan, a_device_that_uses_the_hosts_page_tables_copies_pageable_memory_itself) {
    plan_facts facts = facts_to_stage(on_a_stream);
    facts.kernels.reaches_pageable = true;
    for (const ends way : {ends::h2d, ends::d2h}) {
        const shape large = pageable_line(way, 1024 * MiB);
        EXPECT_EQ(plan_copy(large, facts).route, route_kind::driver);
        EXPECT_EQ(predict_copy(large, facts)[route_kind::staged].why_not, obstacle::direct);
        EXPECT_LT(predict_copy(large, facts)[route_kind::driver].predicted_ns,
                  predict_copy(large, facts_to_stage(on_a_stream))[route_kind::driver].predicted_ns)
            << "the driver does not copy through a buffer of its own";
        shape narrow = shape_of(way, gapped::both, 8, 4 * MiB);
        (way == ends::h2d ? narrow.source : narrow.destination).kind = memory_kind::pageable;
        plan_facts forced = facts;
        forced.call.preferences.forced = route_kind::kernel;
        EXPECT_EQ(plan_copy(narrow, forced).route, route_kind::kernel);
        forced.kernels.reaches_pageable = false;
        EXPECT_EQ(plan_copy(narrow, forced).refused, obstacle::pageable);
    }
}

TEST(staged_plan, threads_fill_slots_for_one_block_each_and_empty_slots_of_two) {
    struct line {
        std::uint16_t threads;
        copy_form form;
        std::uint16_t most, to_device, to_host;
    };
    const line table[] = {
        {1, on_a_stream, 0, 1, 2}, {1, at_once, 0, 2, 4}, {4, on_a_stream, 0, 4, 8}, {8, on_a_stream, 0, 8, 8},
        {32, at_once, 0, 8, 8},    {8, at_once, 3, 3, 3}, {2, on_a_stream, 3, 2, 3},
    };
    for (const line &row : table) {
        SCOPED_TRACE(testing::Message() << row.threads << " threads, " << row.most << " blocks at most");
        plan_facts facts = facts_to_stage(row.form);
        facts.staging.threads = row.threads;
        facts.call.preferences.max_blocks = row.most;
        facts.call.preferences.forced = route_kind::staged;
        EXPECT_EQ(plan_copy(pageable_line(ends::h2d, 64 * MiB), facts).blocks, row.to_device);
        EXPECT_EQ(plan_copy(pageable_line(ends::d2h, 64 * MiB), facts).blocks, row.to_host);
        facts.call.preferences.forced = route_kind::none;
        EXPECT_EQ(predict_copy(pageable_line(ends::h2d, 64 * MiB), facts)[route_kind::staged].blocks, row.to_device);
    }
}

TEST(staged_plan, narrow_rows_scattered_into_pinned_memory_are_staged) {
    const plan_facts facts = facts_to_stage(on_a_stream);
    EXPECT_EQ(plan_copy(shape_of(ends::d2h, gapped::destination, 4, 64 * MiB), facts).route, route_kind::staged);
    EXPECT_NE(plan_copy(shape_of(ends::d2h, gapped::destination, 256, 64 * MiB), facts).route, route_kind::staged);
    EXPECT_NE(plan_copy(shape_of(ends::d2h, gapped::source, 4, 64 * MiB), facts).route, route_kind::staged);
    EXPECT_NE(plan_copy(shape_of(ends::h2d, gapped::source, 4, 64 * MiB), facts).route, route_kind::staged);
    EXPECT_NE(plan_copy(shape_of(ends::d2h, gapped::destination, 4, 4 * KiB), facts).route, route_kind::staged);
}

TEST(plan, each_preference_for_the_route_counts_by_itself) {
    for (const copy_preferences &one :
         {copy_preferences{.forced = route_kind::driver}, copy_preferences{.no_kernels = true},
          copy_preferences{.is_urgent = true}, copy_preferences{.over_links = true},
          copy_preferences{.order = source_order::call}, copy_preferences{.written = true},
          copy_preferences{.max_blocks = 1}, copy_preferences{.max_blocks = 256}})
        EXPECT_TRUE(one.any());
    for (const copy_preferences &other :
         {copy_preferences{}, copy_preferences{.order = source_order::stream}, copy_preferences{.no_wait = true}})
        EXPECT_FALSE(other.any());
}

TEST(plan, urgent_copies_take_a_kernel_where_one_serves) {
    const copy_preferences urgent = {.is_urgent = true};
    for (const ends way : {ends::h2d, ends::d2h, ends::d2d})
        EXPECT_EQ(plan_copy(shape_of(way, gapped::none, 0, 64 * KiB), facts_with(&h200_profile(), urgent)).route,
                  route_kind::kernel);
    for (auto [expected, copy, facts] : obstructed_copies()) {
        SCOPED_TRACE(text_of(expected));
        facts.call.preferences.is_urgent = true;
        EXPECT_EQ(plan_copy(copy, facts).route, route_kind::driver);
        EXPECT_EQ(plan_copy(copy, facts).refused, obstacle::none);
    }
}

TEST(plan, kernels_take_few_multiprocessors_on_the_host_link_and_no_more_than_allowed) {
    const auto blocks = [](const shape &shape, const copy_preferences &preferences) {
        return plan_copy(shape, facts_with(&h200_profile(), preferences)).blocks;
    };
    const copy_preferences kernel = {.forced = route_kind::kernel};
    EXPECT_EQ(blocks(shape_of(ends::h2d, gapped::none, 0, 256 * MiB), kernel), 4);
    EXPECT_EQ(blocks(shape_of(ends::d2h, gapped::none, 0, 256 * MiB), kernel), 2);
    EXPECT_EQ(blocks(shape_of(ends::h2d, gapped::source, 4, 64 * MiB), kernel), 16);
    EXPECT_EQ(blocks(shape_of(ends::h2d, gapped::source, 1, 64 * MiB), kernel), 32);
    EXPECT_EQ(blocks(shape_of(ends::d2d, gapped::source, 256, 256 * MiB), kernel), 132);
    EXPECT_EQ(blocks(shape_of(ends::d2d, gapped::source, 4, 256 * MiB), kernel), 264);
    EXPECT_EQ(blocks(shape_of(ends::d2d, gapped::none, 0, 64), kernel), 1);
    EXPECT_EQ(blocks(shape_of(ends::h2d, gapped::none, 0, 32 * KiB), kernel), 3);
    for (const std::uint16_t most : {1, 2, 16, 100}) {
        const copy_preferences limited = {.forced = route_kind::kernel, .max_blocks = most};
        EXPECT_EQ(blocks(shape_of(ends::d2d, gapped::source, 256, 256 * MiB), limited), most);
        EXPECT_LE(blocks(shape_of(ends::h2d, gapped::none, 0, 256 * MiB), limited), std::min<int>(most, 4));
    }
}

TEST(plan, a_limit_that_makes_kernels_slower_than_the_driver_selects_the_driver) {
    const shape rows = shape_of(ends::d2d, gapped::source, 256, 256 * MiB);
    const auto route = [&](std::uint16_t most) {
        return plan_copy(rows, facts_with(&h200_profile(), {.max_blocks = most})).route;
    };
    EXPECT_EQ(route(1), route_kind::driver);
    EXPECT_EQ(route(8), route_kind::driver);
    EXPECT_EQ(route(132), route_kind::kernel);
    EXPECT_EQ(route(0), route_kind::kernel);
}

TEST(plan, synchronous_copies_wait_for_kernels_and_kernels_name_no_contexts) {
    shape shape = shape_of(ends::peer, gapped::source, 4, 8 * MiB);
    plan_facts facts = facts_with(&h200_profile());
    EXPECT_FALSE(plan_copy(shape, facts).synchronise_after);
    EXPECT_FALSE(plan_copy(shape, facts).names_contexts);
    facts.call.form = copy_form::synchronous;
    EXPECT_TRUE(plan_copy(shape, facts).synchronise_after);
    facts.call.preferences.forced = route_kind::driver;
    EXPECT_TRUE(plan_copy(shape, facts).names_contexts);
}

TEST(plan, every_obstacle_has_a_text_of_its_own) {
    std::vector<std::string> texts;
    for (int why = 0; why < obstacles; ++why)
        texts.emplace_back(text_of(static_cast<obstacle>(why)));
    std::sort(texts.begin(), texts.end());
    EXPECT_EQ(std::adjacent_find(texts.begin(), texts.end()), texts.end());
    EXPECT_FALSE(texts.front().empty());
}

// ---- Predictions -----------------------------------------------------------------------------------------------

TEST(plan, predictions_are_close_to_measurements) {
    struct {
        ends way;
        gapped gap;
        std::uint64_t width, bytes;
        double driver_us, kernel_us;
    } const measured[] = {
        {ends::h2d, gapped::none, 0, 1 * MiB, 26.85, 0},
        {ends::d2h, gapped::none, 0, 64 * MiB, 1223.6, 0},
        {ends::h2d, gapped::source, 4, 8 * MiB, 4854, 342},
        {ends::h2d, gapped::destination, 4, 8 * MiB, 7523, 178},
        {ends::h2d, gapped::source, 16, 8 * MiB, 802, 340},
        {ends::d2d, gapped::source, 64, 256 * MiB, 516, 144.8},
        {ends::d2d, gapped::source, 16, 8 * MiB, 77.1, 0},
        {ends::d2d, gapped::source, 4 * KiB, 256 * MiB, 182.7, 140.7},
        {ends::d2d, gapped::none, 0, 1024 * MiB, 510.3, 0},
    };
    for (const auto &row : measured) {
        SCOPED_TRACE(testing::Message() << "width " << row.width << " bytes " << row.bytes);
        const copy_forecast forecast =
            predict_copy(shape_of(row.way, row.gap, row.width, row.bytes), facts_with(&h200_profile()));
        EXPECT_NEAR(static_cast<double>(forecast[route_kind::driver].predicted_ns) / 1000, row.driver_us,
                    row.driver_us * 0.15);
        if (row.kernel_us > 0) {
            EXPECT_NEAR(static_cast<double>(forecast[route_kind::kernel].predicted_ns) / 1000, row.kernel_us,
                        row.kernel_us * 0.15);
        }
    }
}

// Measured by ferry-bench --case strided on an H200: both routes where a kernel was measured, with as many blocks.
TEST(plan, predictions_for_rows_with_gaps_are_close_to_measurements) {
    constexpr auto driver = route_kind::driver, kernel = route_kind::kernel;
    struct {
        ends way;
        std::uint64_t width, rows, source, destination;
        double driver_us, kernel_us;
        std::uint16_t blocks;
        route_kind route;
    } const measured[] = {
        // Rows of host memory that share a sector take longer, the more rows share one.
        {ends::h2d, 1, 65536, 2, 0, 552.5, 15.4, 16, kernel},
        {ends::h2d, 1, 65536, 9, 0, 144.4, 23.9, 16, kernel},
        {ends::h2d, 4, 65536, 8, 0, 154.6, 21.7, 16, kernel},
        {ends::h2d, 4, 65536, 11, 0, 140.1, 29.1, 16, kernel},
        {ends::h2d, 1, 65536, 0, 512, 802.0, 18.3, 16, kernel},
        {ends::h2d, 4, 65536, 0, 512, 228.2, 19.3, 16, kernel},
        {ends::h2d, 17, 65536, 25, 0, 122.5, 70.3, 16, kernel},
        {ends::h2d, 17, 65536, 0, 512, 138.6, 70.4, 16, kernel},
        {ends::h2d, 100, 41943, 200, 0, 120.5, 0, 0, driver},
        {ends::h2d, 4096, 1024, 4103, 0, 84.3, 0, 0, driver},
        {ends::h2d, 4, 65536, 512, 0, 99.3, 0, 0, driver},
        {ends::h2d, 32, 65536, 512, 0, 97.7, 0, 0, driver},
        {ends::d2h, 1, 65536, 2, 0, 87.9, 12.3, 8, kernel},
        {ends::d2h, 1, 65536, 9, 0, 87.8, 12.3, 8, kernel},
        {ends::d2h, 4, 65536, 11, 0, 87.7, 20.3, 8, kernel},
        {ends::d2h, 17, 65536, 25, 0, 101.0, 0, 0, kernel},
        {ends::d2h, 100, 41943, 200, 0, 121.9, 0, 0, kernel},
        {ends::d2h, 100, 41943, 107, 0, 123.0, 0, 0, driver},
        {ends::d2h, 17, 65536, 0, 512, 88.3, 0, 0, driver},
        {ends::d2h, 4096, 1024, 0, 4608, 82.3, 0, 0, driver},
        // Parts of one word of the link count as one request.
        {ends::d2h, 1, 65536, 0, 2, 87.7, 41.9, 8, kernel},
        {ends::d2h, 2, 65536, 0, 4, 87.7, 74.7, 8, kernel},
        {ends::d2h, 4, 65536, 0, 8, 87.7, 140.3, 8, driver},
        {ends::d2h, 16, 65536, 0, 32, 87.8, 140.3, 8, driver},
        {ends::h2d, 32, 65536, 39, 0, 123.2, 96.2, 16, kernel},
        {ends::d2h, 32, 65536, 39, 0, 90.4, 81.1, 16, kernel},
        // Within the device the driver is fast for many rows of whole 4-byte words.
        {ends::d2d, 4, 262144, 8, 0, 49.5, 11.0, 0, kernel},
        {ends::d2d, 4, 262144, 11, 0, 175.5, 0 /* 16.3, for which 11.5 is predicted */, 0, kernel},
        {ends::d2d, 17, 262144, 34, 0, 176.0, 0, 0, kernel},
        {ends::d2d, 1, 131072, 0, 512, 92.6, 0, 0, kernel},
        {ends::d2d, 4, 131072, 0, 512, 36.3, 11.9, 0, kernel},
        {ends::d2d, 17, 131072, 0, 512, 92.4, 0, 0, kernel},
        {ends::d2d, 100, 83886, 107, 0, 62.5, 0, 0, kernel},
        {ends::d2d, 100, 83886, 200, 0, 26.4, 0, 0, kernel},
        {ends::d2d, 100, 262144, 200, 200, 56.8, 72.2, 0, driver},
        {ends::d2d, 100, 262144, 0, 200, 56.2, 0 /* 38.7, for which 45.6 is predicted */, 0, kernel},
        {ends::d2d, 100, 262144, 0, 512, 52.7, 0 /* 29.3 */, 0, kernel},
        {ends::d2d, 4096, 2048, 8192, 0, 19.0, 0, 0, kernel},
        {ends::d2d, 4096, 2048, 4103, 0, 17.9, 0, 0, driver},
    };
    for (const auto &row : measured) {
        SCOPED_TRACE(testing::Message() << static_cast<int>(row.way) << ": " << row.rows << " x " << row.width
                                        << " B, pitches " << row.source << ", " << row.destination);
        const shape shape = rows_apart(row.way, row.width, row.rows, row.source, row.destination);
        const copy_forecast forecast = predict_copy(shape, facts_with(&h200_profile(), {.max_blocks = row.blocks}));
        EXPECT_NEAR(static_cast<double>(forecast[route_kind::driver].predicted_ns) / 1000, row.driver_us,
                    row.driver_us * 0.25);
        if (row.kernel_us > 0) {
            EXPECT_NEAR(static_cast<double>(forecast[route_kind::kernel].predicted_ns) / 1000, row.kernel_us,
                        row.kernel_us * 0.25);
        }
        EXPECT_EQ(route_of(shape, h200_profile()), row.route);
    }
}

TEST(plan, parts_of_words_are_separate_writes_to_the_host) {
    // 65536 rows of 17 B, in 8-byte words with parts at both ends, took 423 us: three writes of 2 ns each per row.
    const auto facts = facts_with(&h200_profile());
    const auto kernel_ns = [&](std::uint64_t width, std::uint64_t source) {
        return predict_copy(rows_apart(ends::d2h, width, 65536, source, 0), facts)[route_kind::kernel].predicted_ns;
    };
    EXPECT_NEAR(static_cast<double>(kernel_ns(1001, 1009)), static_cast<double>(kernel_ns(1000, 1008)) + 65536 * 6.0,
                65536.0);
    EXPECT_LT(kernel_ns(17, 25), 100'000u) << "short rows take single bytes, which have no parts";
}

TEST(plan, more_rows_never_take_less_time_and_more_multiprocessors_never_take_more) {
    for (const device_profile *const profile : {&h200_profile(), &unknown_profile()})
        for (const ends way : {ends::h2d, ends::d2h, ends::d2d, ends::peer})
            for (const gapped gap : {gapped::source, gapped::destination, gapped::both})
                for (std::uint64_t width = 1; width <= 4 * MiB; width = width * 5 / 4 + 1) {
                    SCOPED_TRACE(testing::Message()
                                 << static_cast<int>(way) << ' ' << static_cast<int>(gap) << ' ' << width);
                    copy_forecast before = {};
                    for (std::uint64_t rows = 2; rows <= 1 << 20; rows *= 2) {
                        const shape shape = shape_of(way, gap, width, width * rows);
                        const copy_forecast forecast = predict_copy(shape, facts_with(profile));
                        // Within a device the driver has a faster method for many rows than for somewhat fewer.
                        if (way != ends::d2d || rows != 65536) {
                            ASSERT_GE(forecast[route_kind::driver].predicted_ns,
                                      before[route_kind::driver].predicted_ns);
                        }
                        ASSERT_GE(forecast[route_kind::kernel].predicted_ns + 1,
                                  before[route_kind::kernel].predicted_ns);
                        before = forecast;
                        std::uint64_t slower = UINT64_MAX;
                        for (const std::uint16_t most : {1, 4, 32, 2000}) {
                            const auto limited = predict_copy(shape, facts_with(profile, {.max_blocks = most}));
                            ASSERT_LE(limited[route_kind::kernel].predicted_ns, slower);
                            slower = limited[route_kind::kernel].predicted_ns;
                        }
                    }
                }
}

TEST(plan, the_plan_follows_the_forecast) {
    std::random_device device;
    const std::uint64_t seed = device();
    std::mt19937_64 random(seed);
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    int kernels = 0;
    for (int round = 0; round < 20000; ++round) {
        const auto way = static_cast<ends>(random() % 4);
        const auto gap = static_cast<gapped>(1 + random() % 3);
        const std::uint64_t width = 1 + random() % (1ull << (random() % 22)), rows = 2 + random() % 100000;
        const shape shape = shape_of(way, gap, width, width * rows);
        const plan_facts facts = facts_with(random() % 2 ? &h200_profile() : &unknown_profile(),
                                            {.max_blocks = static_cast<std::uint16_t>(random() % 3 * 16)});
        const copy_forecast forecast = predict_copy(shape, facts);
        const copy_plan plan = plan_copy(shape, facts);
        const auto driver = static_cast<double>(forecast[route_kind::driver].predicted_ns),
                   kernel = static_cast<double>(forecast[route_kind::kernel].predicted_ns);
        if (plan.route == route_kind::kernel) {
            ++kernels;
            EXPECT_LT(kernel * 1.04, driver);
            EXPECT_EQ(plan.blocks, forecast[route_kind::kernel].blocks);
        } else {
            EXPECT_GT(kernel * 1.06, driver);
        }
    }
    EXPECT_GT(kernels, 1000);
}

// ---- Batches ---------------------------------------------------------------------------------------------------

batch_facts pieces(copy_direction direction, std::uint64_t count, std::uint64_t size) {
    batch_facts facts;
    facts.direction = direction;
    facts.count = count;
    facts.bytes = count * size;
    facts.largest = size;
    facts.kernels = facts.batch_call = obstacle::none;
    facts.profile = &h200_profile();
    return facts;
}

TEST(batch_plan, pieces_with_a_pageable_end_are_staged_together_after_other_work_and_if_that_is_faster) {
    struct expected {
        copy_direction direction;
        std::uint64_t count, bytes;
        bool is_idle, source_read, is_staged;
    };
    constexpr auto up = copy_direction::host_to_device, down = copy_direction::device_to_host;
    const expected all[] = {
        {up, 2, 512, true, false, false},          {up, 2, 512, false, false, true},
        {up, 1500, 90 * MiB, true, false, true},   {down, 1500, 90 * MiB, true, false, true},
        {up, 4096, 16 * MiB, true, false, true},   {down, 4096, 16 * MiB, false, false, true},
        {down, 100, 100 * 256, true, false, true}, {up, 400, 400 * 256, false, true, false}, // buffered one by one
        {up, 400, 400 * 65536, false, true, true},
    };
    for (const expected &one : all) {
        SCOPED_TRACE(testing::Message() << (one.direction == up ? "up" : "down") << ", " << one.count << " of "
                                        << one.bytes << " bytes" << (one.is_idle ? ", idle" : ", behind work"));
        pageable_facts facts = {.direction = one.direction, .form = copy_form::asynchronous};
        facts.count = one.count;
        facts.bytes = one.bytes;
        facts.is_stream_idle = one.is_idle;
        facts.threads = 8;
        if (one.source_read) facts.preferences.order = source_order::call;
        facts.profile = &h200_profile();
        EXPECT_EQ(are_pieces_staged(facts), one.is_staged);
        facts.preferences.forced = route_kind::staged;
        EXPECT_TRUE(are_pieces_staged(facts)) << "forced";
        facts.is_captured = true;
        EXPECT_EQ(are_pieces_staged(facts), !one.source_read || one.direction == down) << "captured";
    }
}

TEST(batch_plan, on_the_software_driver_pieces_with_a_pageable_end_are_staged_only_after_other_work) {
    for (const copy_direction direction : {copy_direction::host_to_device, copy_direction::device_to_host})
        for (const std::uint64_t count : {2, 120, 1500})
            for (const std::uint64_t size : {4096, 65536}) {
                pageable_facts facts = {.direction = direction, .form = copy_form::asynchronous};
                facts.count = count;
                facts.bytes = count * size;
                facts.threads = 2;
                facts.profile = &built_in_profile(software_device());
                SCOPED_TRACE(testing::Message() << count << " of " << size);
                EXPECT_TRUE(are_pieces_staged(facts));
                facts.is_stream_idle = true;
                EXPECT_FALSE(are_pieces_staged(facts));
                facts.form = copy_form::synchronous;
                EXPECT_FALSE(are_pieces_staged(facts));
            }
}

TEST(batch_plan, each_group_takes_the_route_that_was_measured_faster) {
    using d = copy_direction;
    using w = batch_route;
    struct {
        d direction;
        std::uint64_t count, size;
        w route, without_kernels, in_a_graph_without_kernels;
    } const rows[] = {
        {d::host_to_device, 1, 64 * MiB, w::calls, w::calls, w::calls},
        {d::host_to_device, 1, 256, w::calls, w::calls, w::calls},
        {d::host_to_device, 4096, 256, w::kernel, w::batch_call, w::calls},
        {d::host_to_device, 4096, 4 * KiB, w::kernel, w::batch_call, w::calls},
        {d::host_to_device, 4096, 64 * KiB, w::kernel, w::batch_call, w::calls},
        {d::host_to_device, 64, 4 * MiB, w::batch_call, w::batch_call, w::calls},
        {d::device_to_host, 4096, 256, w::kernel, w::batch_call, w::calls},
        {d::device_to_host, 4096, 64 * KiB, w::kernel, w::batch_call, w::calls},
        {d::device_to_host, 64, 4 * MiB, w::batch_call, w::batch_call, w::calls},
        {d::within_device, 4096, 256, w::kernel, w::batch_call, w::calls},
        {d::within_device, 4096, 64 * KiB, w::kernel, w::batch_call, w::calls},
        {d::within_device, 2, 256 * MiB, w::calls, w::calls, w::calls},
    };
    for (const auto &row : rows) {
        SCOPED_TRACE(testing::Message() << static_cast<int>(row.direction) << ": " << row.count << " x " << row.size);
        batch_facts facts = pieces(row.direction, row.count, row.size);
        EXPECT_EQ(plan_batch(facts).route, row.route);
        facts.kernels = obstacle::not_loaded;
        EXPECT_EQ(plan_batch(facts).route, row.without_kernels);
        facts.batch_call = obstacle::captured;
        EXPECT_EQ(plan_batch(facts).route, row.in_a_graph_without_kernels);
        EXPECT_EQ(predict_batch(facts)[w::batch_call].why_not, obstacle::captured);
    }
}

TEST(batch_plan, small_boxes_of_arrays_take_a_kernel_and_large_ones_if_their_words_are_wide) {
    using d = copy_direction;
    using w = batch_route;
    struct {
        d direction;
        std::uint64_t count, size;
        unsigned access;
        w route;
    } const rows[] = {
        {d::within_device, 1, 16 * KiB, 4, w::calls},        {d::within_device, 1000, 16 * KiB, 16, w::kernel},
        {d::within_device, 1000, 16 * KiB, 1, w::kernel},    {d::within_device, 4, 64 * MiB, 16, w::kernel},
        {d::within_device, 4, 64 * MiB, 2, w::batch_call},   {d::device_to_host, 1000, 1 * KiB, 16, w::kernel},
        {d::device_to_host, 4, 64 * MiB, 16, w::batch_call},
    };
    for (const auto &row : rows) {
        SCOPED_TRACE(testing::Message() << row.count << " x " << row.size << " in words of " << row.access);
        batch_facts facts = pieces(row.direction, row.count, row.size);
        facts.are_boxes = facts.are_of_arrays = true;
        facts.access = row.access;
        EXPECT_EQ(plan_batch(facts).route, row.route);
        facts.kernels = obstacle::array;
        EXPECT_NE(plan_batch(facts).route, w::kernel);
    }
}

TEST(batch_plan, preferences_apply_to_batches) {
    batch_facts facts = pieces(copy_direction::device_to_host, 4096, 256);
    facts.preferences.no_kernels = true;
    EXPECT_EQ(plan_batch(facts).route, batch_route::batch_call);
    EXPECT_EQ(predict_batch(facts)[batch_route::kernel].why_not, obstacle::forbidden);
    facts.preferences = {.forced = route_kind::driver};
    EXPECT_EQ(plan_batch(facts).route, batch_route::batch_call);
    facts.preferences = {.max_blocks = 2};
    EXPECT_EQ(plan_batch(facts).route, batch_route::kernel);
    EXPECT_EQ(plan_batch(facts).blocks, 2);
    facts.preferences = {.forced = static_cast<route_kind>(99)};
    EXPECT_EQ(plan_batch(facts).refused, obstacle::no_route);
    for (const device_profile *const profile : {&h200_profile(), static_cast<const device_profile *>(nullptr)}) {
        batch_facts large = pieces(copy_direction::host_to_device, 2, 64 * MiB);
        large.profile = profile;
        EXPECT_NE(plan_batch(large).route, batch_route::kernel);
        large.preferences = {.is_urgent = true};
        EXPECT_EQ(plan_batch(large).route, batch_route::kernel);
        EXPECT_GT(plan_batch(large).blocks, 0);
        large.preferences = {.forced = route_kind::kernel};
        EXPECT_EQ(plan_batch(large).route, batch_route::kernel);
        large.kernels = obstacle::not_loaded;
        EXPECT_EQ(plan_batch(large).refused, obstacle::not_loaded);
    }
}

TEST(batch_plan, more_pieces_or_more_bytes_never_take_less_time) {
    for (const bool are_boxes : {false, true})
        for (int direction = 0; direction < copy_directions; ++direction)
            for (std::uint64_t size = 1; size <= 64 * MiB; size *= 4) {
                batch_forecasts before = {};
                for (std::uint64_t count = 1; count <= 65536; count *= 2) {
                    batch_facts facts = pieces(static_cast<copy_direction>(direction), count, size);
                    facts.are_boxes = are_boxes;
                    const batch_forecasts forecasts = predict_batch(facts);
                    for (int route = 0; route < batch_routes; ++route)
                        ASSERT_GE(forecasts.routes[route].predicted_ns, before.routes[route].predicted_ns);
                    before = forecasts;
                }
            }
}

TEST(batch_plan, one_large_piece_does_not_hide_the_small_ones) {
    batch_facts small = pieces(copy_direction::within_device, 100000, 4), mixed = small;
    mixed.count += 1;
    mixed.bytes += 512 * MiB;
    mixed.largest = 512 * MiB;
    EXPECT_GE(predict_batch(mixed)[batch_route::kernel].predicted_ns,
              predict_batch(small)[batch_route::kernel].predicted_ns);
}

// ---- Profiles as text ------------------------------------------------------------------------------------------

constexpr int driver_version = 13000;

constexpr auto no_pairs = [](const pair_use &) {};

std::string text_of_profile(const device_profile &profile, const ferry_device_info &device = h200(),
                            int version = driver_version, const pair_list &pairs = no_pairs) {
    const std::uint64_t length = write_profile(profile, {device, version}, pairs, nullptr, 0);
    std::string text(length + 1, 'x');
    EXPECT_EQ(write_profile(profile, {device, version}, pairs, text.data(), text.size()), length);
    EXPECT_EQ(text.back(), '\0');
    text.pop_back();
    return text;
}

profile_problem read(const std::string &text, device_profile &profile, const ferry_device_info &device = h200(),
                     int version = driver_version) {
    const std::vector<char> exact(text.begin(), text.end()); // sanitizers detect reads past its end
    return read_profile(exact.data(), exact.size(), {device, version}, profile);
}

bool is_same(const device_profile &left, const device_profile &right) {
    return std::memcmp(&left, &right, sizeof left) == 0;
}

// Gives a damaged text a valid checksum.
std::string with_checksum(std::string body) {
    char line[32];
    std::snprintf(line, sizeof line, "checksum %016llx\n",
                  static_cast<unsigned long long>(hash_of(body.data(), body.size())));
    return body + line;
}
std::string body_of(const std::string &text) { return text.substr(0, text.rfind("checksum ")); }

std::string replaced(std::string text, const std::string &what, const std::string &by) {
    const std::size_t at = text.find(what);
    EXPECT_NE(at, std::string::npos) << what;
    return text.replace(at, what.size(), by);
}

TEST(profile, a_written_profile_reads_back) {
    std::random_device device;
    const std::uint64_t seed = device();
    std::mt19937_64 random(seed);
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    static_assert(sizeof(device_profile) % sizeof(std::uint32_t) == 0);
    for (int round = 0; round < 50; ++round) {
        std::uint32_t numbers[sizeof(device_profile) / sizeof(std::uint32_t)];
        for (std::uint32_t &number : numbers) // within the bounds of every kind of number
            number = static_cast<std::uint32_t>(1 + random() % (round % 2 ? 9 : 65535));
        device_profile written, found = {};
        std::memcpy(&written, numbers, sizeof written);
        const std::string text = text_of_profile(written);
        ASSERT_EQ(read(text, found).fault, profile_fault::none);
        EXPECT_TRUE(is_same(written, found)) << "every number has a line";
        EXPECT_TRUE(text_of_profile(found) == text);
    }
    device_profile found = {};
    EXPECT_EQ(read(text_of_profile(h200_profile()), found).fault, profile_fault::none);
    EXPECT_TRUE(is_same(h200_profile(), found));
    EXPECT_EQ(read(text_of_profile(unknown_profile()), found).fault, profile_fault::none);
}

constexpr auto two_pairs = [](const pair_use &use) {
    profile_pair pair = {"0000:3B:00.0", "0000:AF:00.0", {1, 2, 3, 4, 5, 6, 7}};
    use(pair);
    std::swap(pair.device, pair.peer);
    pair.rates = {.bounce_rate = 100'000'000};
    use(pair);
};
constexpr char pair_lines[] = "pair 0000:3B:00.0 0000:AF:00.0 1 2 3 4 5 6 7\n"
                              "pair 0000:AF:00.0 0000:3B:00.0 0 0 100000000 0 0 0 0\n";

std::string pairs_in(const std::string &text) {
    std::string lines;
    read_pairs(text.data(), text.size(), [&](const profile_pair &pair) {
        const auto use_one = [&](const pair_use &use) { use(pair); };
        const std::string one = body_of(text_of_profile(h200_profile(), h200(), driver_version, use_one));
        lines += one.substr(one.find("pair "));
    });
    return lines;
}

TEST(profile, pairs_of_devices_are_lines_at_the_end_that_read_back) {
    const std::string text = text_of_profile(h200_profile(), h200(), driver_version, two_pairs);
    EXPECT_EQ(body_of(text), body_of(text_of_profile(h200_profile())) + pair_lines);
    device_profile found = {};
    ASSERT_EQ(read(text, found).fault, profile_fault::none);
    EXPECT_TRUE(is_same(h200_profile(), found));
    EXPECT_EQ(pairs_in(text), pair_lines);
    EXPECT_EQ(pairs_in(text_of_profile(h200_profile())), "");
}

// Pairs may be measured by another thread while the text is written.
TEST(profile, a_text_is_whole_although_pairs_change_meanwhile) {
    int calls = 0;
    const auto more_each_time = [&](const pair_use &use) {
        for (int i = 0; i < std::min(calls, 3); ++i)
            two_pairs(use);
        ++calls;
    };
    std::string text(65536, 'x');
    const std::uint64_t length =
        write_profile(h200_profile(), {h200(), driver_version}, more_each_time, text.data(), text.size());
    device_profile found = {};
    EXPECT_EQ(read(text.substr(0, length), found).fault, profile_fault::none);
    EXPECT_EQ(calls, 6);
}

TEST(profile, a_profile_is_readable_text) {
    const std::string text = text_of_profile(h200_profile());
    EXPECT_EQ(text.rfind("ferry-profile 5\n"
                         "device NVIDIA H200, compute 9.0, multiprocessors 132\n"
                         "driver 13000\n"
                         "host_to_device.driver_fixed_ns 5700\n",
                         0),
              0u);
    EXPECT_NE(text.find("\nwithin_device.driver_line_rate 2104000\n"), std::string::npos);
    EXPECT_NE(text.find("\nhost_to_device.driver_rates.source_gaps 114 590 1800 "), std::string::npos);
    EXPECT_NE(text.find("\narray_call_ns 5460\n"), std::string::npos);
}

TEST(profile, a_text_that_does_not_fit_is_not_written) {
    const std::uint64_t length = text_of_profile(h200_profile()).size();
    for (const std::uint64_t room : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{100}, length}) {
        std::vector<char> buffer(room + 8, '#');
        EXPECT_EQ(write_profile(h200_profile(), {h200(), driver_version}, no_pairs, buffer.data(), room), length);
        EXPECT_EQ(static_cast<std::size_t>(std::count(buffer.begin(), buffer.end(), '#')), buffer.size());
    }
}

TEST(profile, every_kind_of_damage_is_refused_and_named) {
    const std::string text = text_of_profile(h200_profile()), body = body_of(text);
    const auto lines = static_cast<std::uint32_t>(std::count(text.begin(), text.end(), '\n'));
    const std::string first_fact = "host_to_device.driver_fixed_ns 5700";
    struct {
        const char *what;
        std::string text;
        profile_fault fault;
        std::uint32_t line;
    } const damaged[] = {
        {"nothing", "", profile_fault::damage, 1},
        {"something else", "hello\n", profile_fault::damage, 1},
        {"another version", with_checksum(replaced(body, "profile 5", "profile 1")), profile_fault::version, 1},
        {"a longer version", with_checksum(replaced(body, "profile 5", "profile 22")), profile_fault::version, 1},
        {"the last byte lost", text.substr(0, text.size() - 1), profile_fault::damage, lines},
        {"the checksum lost", body, profile_fault::damage, lines - 1},
        {"half of it lost", text.substr(0, text.size() / 2), profile_fault::damage, 0},
        {"bytes behind", text + "\n", profile_fault::damage, lines + 1},
        {"a changed number", replaced(text, "5700", "5701"), profile_fault::damage, lines},
        {"other line ends", replaced(text, "5700\n", "5700\r\n"), profile_fault::damage, lines},
        {"a line missing", with_checksum(replaced(body, first_fact + "\n", "")), profile_fault::damage, 4},
        {"a line twice", with_checksum(replaced(body, first_fact, first_fact + "\n" + first_fact)),
         profile_fault::damage, 5},
        {"an unknown name", with_checksum(replaced(body, "driver_fixed_ns", "driver_fixed_us")), profile_fault::damage,
         4},
        {"a line more", with_checksum(body + "more 1\n"), profile_fault::damage, lines},
        {"a number missing", with_checksum(replaced(body, first_fact, "host_to_device.driver_fixed_ns")),
         profile_fault::damage, 4},
        {"a number more", with_checksum(replaced(body, first_fact, first_fact + " 1")), profile_fault::damage, 4},
        {"zero", with_checksum(replaced(body, "5700", "0")), profile_fault::value, 4},
        {"negative", with_checksum(replaced(body, "5700", "-5700")), profile_fault::damage, 4},
        {"no number", with_checksum(replaced(body, "5700", "nan")), profile_fault::damage, 4},
        {"a fraction", with_checksum(replaced(body, "5700", "5700.5")), profile_fault::damage, 4},
        {"a leading zero", with_checksum(replaced(body, "5700", "05700")), profile_fault::damage, 4},
        {"absurd", with_checksum(replaced(body, "5700", "1000000001")), profile_fault::value, 4},
        {"beyond 64 bits", with_checksum(replaced(body, "5700", "99999999999999999999999")), profile_fault::value, 4},
        {"another device", with_checksum(replaced(body, "H200", "H100")), profile_fault::other_device, 2},
        {"another size", with_checksum(replaced(body, "multiprocessors 132", "multiprocessors 13")),
         profile_fault::other_device, 2},
        {"another driver", with_checksum(replaced(body, "driver 13000", "driver 12080")), profile_fault::other_driver,
         3},
        {"a pair without rates", with_checksum(body + "pair 0000:3B:00.0 0000:AF:00.0\n"), profile_fault::damage,
         lines},
        {"a pair without peer", with_checksum(body + "pair 0000:3B:00.0 1 2 3 4 5 6 7\n"), profile_fault::damage,
         lines},
        {"a rate too few", with_checksum(body + "pair 0000:3B:00.0 0000:AF:00.0 1 2 3 4 5 6\n"), profile_fault::damage,
         lines},
        {"a rate too many", with_checksum(body + "pair 0000:3B:00.0 0000:AF:00.0 1 2 3 4 5 6 7 8\n"),
         profile_fault::damage, lines},
        {"an address too long", with_checksum(body + "pair 0 " + std::string(32, '1') + " 1 2 3 4 5 6 7\n"),
         profile_fault::damage, lines},
        {"an absurd rate", with_checksum(body + pair_lines + "pair 0 1 1 2 3 4 5 6 100000001\n"), profile_fault::value,
         lines + 2},
        {"a pair cut off", with_checksum(body + "pair 0 1 1 2 3 4 5 6 7"), profile_fault::damage, lines},
    };
    for (const auto &row : damaged) {
        SCOPED_TRACE(row.what);
        device_profile found = unknown_profile();
        const profile_problem problem = read(row.text, found);
        EXPECT_EQ(static_cast<int>(problem.fault), static_cast<int>(row.fault));
        if (row.line) {
            EXPECT_EQ(problem.line, row.line);
        }
        EXPECT_TRUE(is_same(found, unknown_profile())) << "nothing was loaded";
    }
}

TEST(profile, a_profile_belongs_to_its_device_and_its_driver) {
    const std::string text = text_of_profile(h200_profile());
    device_profile found = {};
    EXPECT_EQ(read(text, found, unknown_device()).fault, profile_fault::other_device);
    EXPECT_EQ(read(text, found, h200(), 12090).fault, profile_fault::other_driver);
    ferry_device_info odd = h200();
    std::strcpy(odd.name, "two\nlines");
    EXPECT_EQ(read(text_of_profile(h200_profile(), odd), found, odd).fault, profile_fault::none);
}

TEST(profile, any_mutation_is_refused) {
    std::random_device device;
    const std::uint64_t seed = device();
    std::mt19937_64 random(seed);
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const std::string text = text_of_profile(h200_profile(), h200(), driver_version, two_pairs);
    const std::string alphabet = "0123456789 .\n-abcdef\r\t\xff";
    int taken_with_new_checksum = 0;
    for (int round = 0; round < 6000; ++round) {
        std::string mutated = text;
        for (std::uint64_t changes = 1 + random() % 3; changes; --changes) {
            const std::size_t at = random() % mutated.size();
            switch (random() % 4) {
            case 0:
                mutated[at] = static_cast<char>(random());
                break;
            case 1:
                mutated[at] = alphabet[random() % alphabet.size()];
                break;
            case 2:
                mutated.erase(at, 1 + random() % 20);
                break;
            default:
                mutated.insert(at, 1 + random() % 3, alphabet[random() % alphabet.size()]);
            }
        }
        device_profile found = unknown_profile();
        const bool is_taken = read(mutated, found).fault == profile_fault::none;
        ASSERT_EQ(is_taken, mutated == text);
        ASSERT_TRUE(is_taken || is_same(found, unknown_profile()));
        // A mutation with a valid checksum may be loaded. Then the profile is exactly what the text says.
        const std::string signed_mutation = with_checksum(body_of(mutated));
        if (read(signed_mutation, found).fault == profile_fault::none) {
            const std::string without_pairs = body_of(text_of_profile(found));
            ASSERT_TRUE(without_pairs + pairs_in(signed_mutation) == body_of(signed_mutation));
            ++taken_with_new_checksum;
        }
    }
    EXPECT_GT(taken_with_new_checksum, 100);
}

// ---- Nests

struct nest_row {
    const char *name;
    copy_direction direction;
    nest of; // normalized
    bool is_for_kernel;
};

nest nest_of(std::uint64_t run, std::initializer_list<nest_axis> axes) {
    nest made = {.run = run};
    for (const nest_axis &axis : axes)
        made.add(axis);
    return made;
}

TEST(nest_costs, many_boxes_take_the_kernel_and_few_large_ones_the_copy_engines) {
    constexpr auto up = copy_direction::host_to_device, down = copy_direction::device_to_host,
                   within = copy_direction::within_device;
    constexpr std::int64_t apart = std::int64_t{1} << 30;
    const nest_row rows[] = {
        {"blocks of 4 KiB", up, nest_of(4 * KiB, {{8192, 4096, 8192, {}, {16, 1, false, true}}}), true},
        {"blocks of 24 KiB", down, nest_of(24 * KiB, {{50000, 24576, 24576, {16, 1, false, true}, {}}}), true},
        {"three boxes of 256 MiB", up, nest_of(256 * MiB, {{3, -apart, apart}}), false},
        {"twelve boxes of 64 MiB", down, nest_of(64 * MiB, {{12, -apart, apart}}), false},
        {"a transpose", within, nest_of(2, {{16384, 2, 32768}, {16384, 32768, 2}}), true},
        {"a transpose of a few elements", within, nest_of(4, {{32, 4, 256}, {64, 128, 4}}), true}};
    for (const nest_row &row : rows) {
        SCOPED_TRACE(row.name);
        const nest_boxes cut = cut_into_boxes(row.of, UINT32_MAX);
        const nest_facts facts = {&h200_profile(), row.direction, {}};
        shape box = first_box(row.of, cut);
        box.source.kind = row.direction == up ? memory_kind::pinned : memory_kind::device;
        box.destination.kind = row.direction == down ? memory_kind::pinned : memory_kind::device;
        const std::uint64_t kernel_ns = predict_nest_kernel(facts, row.of),
                            boxes_ns = predict_nest_boxes(facts, box, cut.count);
        EXPECT_EQ(is_nest_for_kernel(facts, kernel_ns, boxes_ns, cut.count), row.is_for_kernel)
            << kernel_ns << " ns by a kernel, " << boxes_ns << " as boxes";
    }
}

TEST(nest_costs, times_of_any_number_of_boxes_are_numbers) {
    shape box = first_box(nest_of(1, {}), {});
    box.source.kind = box.destination.kind = memory_kind::device;
    EXPECT_GE(predict_nest_boxes({&h200_profile(), copy_direction::within_device, {}}, box, UINT64_MAX),
              1'000'000'000u);
}

TEST(nest_costs, of_transposes_and_blocks_agree_with_an_h200) {
    // Measured rates, in bytes per microsecond.
    const struct {
        const char *name;
        copy_direction direction;
        nest of;
        double rate;
    } rows[] = {{"transpose of 1 B", copy_direction::within_device, nest_of(1, {{16384, 1, 16384}, {16384, 16384, 1}}),
                 0.686 * 1946000},
                {"transpose of 4 B", copy_direction::within_device, nest_of(4, {{16384, 4, 65536}, {16384, 65536, 4}}),
                 0.795 * 1946000},
                {"blocks of 512 B", copy_direction::host_to_device, nest_of(512, {{50000, 512, 1024}}), 50000},
                {"blocks of 4 KiB", copy_direction::device_to_host, nest_of(4096, {{50000, 8192, 4096}}), 52500}};
    for (const auto &row : rows) {
        SCOPED_TRACE(row.name);
        const double ns = static_cast<double>(predict_nest_kernel({&h200_profile(), row.direction, {}}, row.of));
        const double measured_ns = static_cast<double>(row.of.bytes()) * 1000 / row.rate;
        EXPECT_LT(ns, 1.25 * measured_ns);
        EXPECT_GT(ns, 0.8 * measured_ns);
    }
}

TEST(nest_costs, a_buffer_pays_if_it_replaces_many_small_rows) {
    struct row {
        const char *name;
        nest of;
        bool is_packed;
    };
    const row rows[] = {
        {"a transpose of 2 B", nest_of(2, {{4096, 2, 8192}, {4096, 8192, 2}}), true},
        {"heads and tokens of 256 B", nest_of(256, {{64, 256, 16384}, {64, 16384, 256}, {64, MiB, MiB}}), true},
        {"one run that is repeated", nest_of(64 * KiB, {{64, 64 * KiB, 0}}), true},
        {"blocks of 1 MiB", nest_of(MiB, {{32, 2 * MiB, 4 * MiB}, {4, 64 * MiB, MiB}}), false},
        {"blocks of 64 KiB apart", nest_of(64 * KiB, {{1000, 128 * KiB, 128 * KiB}}), false}};
    for (const row &one : rows) {
        SCOPED_TRACE(one.name);
        const nest_packing packing(one.of, true, 64 * MiB);
        const nest outer = packing.first().outer;
        packed_facts facts;
        facts.pageable = {.bytes = one.of.bytes(), .threads = 8, .profile = &h200_profile()};
        facts.of = &one.of;
        facts.outer = &outer;
        facts.boxes = cut_into_boxes(one.of, UINT32_MAX).count;
        facts.outer_boxes = cut_into_boxes(outer, UINT32_MAX).count;
        facts.parts = packing.parts();
        EXPECT_EQ(is_nest_packed(facts), one.is_packed);
    }
}

TEST(profile, built_in_profiles_are_for_one_generation_and_link) {
    EXPECT_NE(&h200_profile(), &unknown_profile());
    for (auto change : {+[](ferry_device_info &info) { info.pageable_uses_host_page_tables = 1; },
                        +[](ferry_device_info &info) { info.integrated = 1; },
                        +[](ferry_device_info &info) { info.compute_major = 10; },
                        +[](ferry_device_info &info) { info.compute_minor = 1; }}) {
        ferry_device_info other = h200();
        change(other);
        EXPECT_EQ(&built_in_profile(other), &unknown_profile());
        other.is_software = 1;
        EXPECT_EQ(&built_in_profile(other), &built_in_profile(software_device()));
    }
    EXPECT_NE(&built_in_profile(software_device()), &unknown_profile());
    EXPECT_EQ(origin_of(&built_in_profile(software_device()), software_device()), FERRY_PROFILE_BUILT_IN);
}

} // namespace
} // namespace ferry::test
