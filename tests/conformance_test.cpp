// Tests copies between every pair of places, in one, two and three dimensions, synchronous and on a stream, against a
// plain reference. The same tests run on the software driver and on a GPU.
#include <cstdlib>
#include <tuple>

#include "support/how.h"
#include "support/test_place.h"

namespace ferry::test {
namespace {

struct extent {
    std::uint64_t width, height, depth;
};

// A box at odd offsets inside odd grids. Arrays get element sizes that divide their x and width.
struct scene {
    const char *name;
    grid source, destination;
    box from, to;
    extent size;
};

constexpr scene scenes[] = {
    {"one_byte", {.width = 64}, {.width = 64}, {.x = 3}, {.x = 60}, {1, 1, 1}},
    {"odd_line", {.width = 4099, .lead = 1}, {.width = 5003, .lead = 3}, {.x = 7}, {.x = 13}, {4001, 1, 1}},
    {"whole_line", {.width = 65536}, {.width = 65536}, {}, {}, {65536, 1, 1}},
    {"tight_rectangle", {.width = 96, .height = 41}, {.width = 96, .height = 41}, {}, {}, {96, 41, 1}},
    {"odd_rectangle",
     {.width = 131, .height = 29, .row_pitch = 157, .lead = 5},
     {.width = 97, .height = 37, .row_pitch = 101, .lead = 9},
     {.x = 11, .y = 3},
     {.x = 2, .y = 8},
     {83, 21, 1}},
    {"narrow_rows",
     {.width = 64, .height = 300, .row_pitch = 67},
     {.width = 48, .height = 300, .row_pitch = 48},
     {.x = 1},
     {.x = 2},
     {3, 300, 1}},
    {"texels_of_16",
     {.width = 256, .height = 16, .row_pitch = 300, .element_size = 16},
     {.width = 512, .height = 20, .row_pitch = 512, .element_size = 16},
     {.x = 32, .y = 2},
     {.x = 64, .y = 5},
     {160, 11, 1}},
    {"tight_volume",
     {.width = 32, .height = 8, .depth = 6},
     {.width = 32, .height = 8, .depth = 6},
     {},
     {},
     {32, 8, 6}},
    {"tight_slices_apart",
     {.width = 32, .height = 8, .depth = 5, .slice_height = 11},
     {.width = 32, .height = 8, .depth = 5, .slice_height = 9},
     {},
     {},
     {32, 8, 5}},
    {"odd_volume",
     {.width = 67, .height = 13, .depth = 9, .row_pitch = 71, .slice_height = 17, .lead = 7},
     {.width = 53, .height = 19, .depth = 11, .row_pitch = 59, .slice_height = 23, .lead = 2},
     {.x = 5, .y = 1, .z = 2},
     {.x = 3, .y = 4, .z = 1},
     {41, 9, 6}},
    {"six_faces",
     {.width = 64, .height = 16, .depth = 6, .row_pitch = 68, .slice_height = 18, .element_size = 4},
     {.width = 96, .height = 24, .depth = 6, .row_pitch = 96, .slice_height = 24, .element_size = 4},
     {.x = 8, .y = 2, .z = 1},
     {.x = 12, .y = 5, .z = 2},
     {40, 11, 4}},
    {"line_onto_a_face",
     {.width = 128, .element_size = 4},
     {.width = 64, .height = 16, .depth = 6, .row_pitch = 68, .slice_height = 18, .element_size = 4},
     {.x = 16},
     {.x = 8, .y = 3, .z = 5},
     {40, 1, 1}},
    {"line_from_a_face",
     {.width = 64, .height = 16, .depth = 6, .row_pitch = 68, .slice_height = 18, .element_size = 4},
     {.width = 128, .element_size = 4},
     {.x = 8, .y = 3, .z = 5},
     {.x = 16},
     {40, 1, 1}},
    {"lines_in_layers",
     {.width = 240, .height = 1, .depth = 7, .row_pitch = 251, .slice_height = 3, .element_size = 2},
     {.width = 300, .height = 1, .depth = 9, .row_pitch = 300, .slice_height = 2, .element_size = 2},
     {.x = 4, .z = 1},
     {.x = 10, .z = 3},
     {200, 1, 5}},
    {"texels_of_4_in_a_volume",
     {.width = 128, .height = 12, .depth = 7, .row_pitch = 140, .slice_height = 12, .element_size = 4},
     {.width = 96, .height = 15, .depth = 8, .row_pitch = 96, .slice_height = 16, .element_size = 4},
     {.x = 12, .y = 2, .z = 1},
     {.x = 20, .y = 5, .z = 3},
     {64, 7, 4}},
};

enum class form { synchronous, on_a_stream, on_the_null_stream, on_the_per_thread_stream };
constexpr form all_forms[] = {form::synchronous, form::on_a_stream, form::on_the_null_stream,
                              form::on_the_per_thread_stream};

class every_pairing : public ferry_test, public ::testing::WithParamInterface<std::tuple<place_kind, place_kind>> {};

TEST_P(every_pairing, copies_the_bytes_of_the_box_and_no_other) {
    const auto [source_kind, destination_kind] = GetParam();
    if (!is_supported(source_kind) || !is_supported(destination_kind)) GTEST_SKIP() << "the driver has no such memory";
    CUstream stream = nullptr;
    ASSERT_OK(raw().cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    int scenes_run = 0;
    std::uint64_t seed = 1;
    for (const scene &scene : scenes) {
        if (!can_be(source_kind, scene.source) || !can_be(destination_kind, scene.destination)) continue;
        ++scenes_run;
        test_place source(source_kind, scene.source), destination(destination_kind, scene.destination);
        for (const form form : all_forms) {
            for (const statement stating : {statement::stated, statement::any, statement::pinned}) {
                SCOPED_TRACE(std::string(scene.name) + " form " + std::to_string(static_cast<int>(form)) + " kinds " +
                             (stating == statement::any      ? "any"
                              : stating == statement::stated ? "stated"
                                                             : "pinned"));
                source.fill(seed++);
                destination.fill(seed++);
                const ferry_copy_desc copy =
                    describe_copy(source.describe(stating, scene.from), destination.describe(stating, scene.to),
                                  scene.size.width, scene.size.height, scene.size.depth);
                ferry_instance *const instance = stating == statement::any ? full.get() : basic.get();
                ferry_error_info error = new_error();
                const CUstream on = form == form::on_a_stream                ? stream
                                    : form == form::on_the_per_thread_stream ? CU_STREAM_PER_THREAD
                                                                             : nullptr;
                const std::int32_t status = form == form::synchronous
                                                ? ferry_copy(instance, &copy, nullptr, &error)
                                                : ferry_copy_async(instance, &copy, nullptr, on, nullptr, &error);
                ASSERT_OK(status) << describe(error);
                if (form != form::synchronous) {
                    ASSERT_OK(raw().cuStreamSynchronize(on));
                }
                reference_copy(source, scene.from, destination, scene.to, scene.size.width, scene.size.height,
                               scene.size.depth);
                ASSERT_EQ(destination.read(), destination.picture());
                ASSERT_EQ(source.read(), source.picture());
            }
        }
    }
    EXPECT_GT(scenes_run, 0);
    EXPECT_OK(raw().cuStreamDestroy(stream));
}

INSTANTIATE_TEST_SUITE_P(places, every_pairing,
                         ::testing::Combine(::testing::ValuesIn(all_place_kinds), ::testing::ValuesIn(all_place_kinds)),
                         [](const auto &info) {
                             return std::string(name_of(std::get<0>(info.param))) + "_to_" +
                                    name_of(std::get<1>(info.param));
                         });

// ---- The forms of the call ------------------------------------------------------------------------------------

class copy_forms : public ferry_test {};

TEST_F(copy_forms, the_short_form_copies_bytes_between_any_addresses) {
    for (const place_kind from : {place_kind::pageable, place_kind::pinned, place_kind::device})
        for (const place_kind to : {place_kind::pageable, place_kind::registered, place_kind::device}) {
            test_place source(from, {.width = 1000}), destination(to, {.width = 1000});
            source.fill(1);
            destination.fill(2);
            ASSERT_OK(
                ferry_copy_bytes(basic.get(), destination.address() + 9, source.address() + 4, 801, nullptr, nullptr));
            reference_copy(source, {.x = 4}, destination, {.x = 9}, 801, 1, 1);
            ASSERT_EQ(destination.read(), destination.picture());
            ASSERT_OK(ferry_copy_bytes_async(full.get(), destination.address(), source.address() + 100, 50, nullptr,
                                             nullptr, nullptr, nullptr));
            ASSERT_OK(raw().cuStreamSynchronize(nullptr));
            reference_copy(source, {.x = 100}, destination, {}, 50, 1, 1);
            ASSERT_EQ(destination.read(), destination.picture());
        }
}

TEST_F(copy_forms, zeroed_descriptor_with_two_addresses_and_a_width_is_a_1d_copy) {
    test_place source(place_kind::pinned, {.width = 256}), destination(place_kind::device, {.width = 256});
    source.fill(1);
    destination.fill(2);
    ferry_copy_desc copy = {};
    copy.source.address = source.address();
    copy.destination.address = destination.address();
    copy.width = 200;
    ASSERT_OK(ferry_copy(basic.get(), &copy, nullptr, nullptr));
    reference_copy(source, {}, destination, {}, 200, 1, 1);
    EXPECT_EQ(destination.read(), destination.picture());
}

TEST_F(copy_forms, a_thread_without_a_context_can_copy) {
    test_place source(place_kind::pageable, {.width = 4096}), destination(place_kind::device, {.width = 4096});
    source.fill(1);
    ASSERT_OK(raw().cuCtxSetCurrent(nullptr));
    EXPECT_OK(ferry_copy_bytes(basic.get(), destination.address(), source.address(), 4096, nullptr, nullptr));
    CUcontext current = context;
    EXPECT_OK(raw().cuCtxGetCurrent(&current));
    EXPECT_EQ(current, nullptr);
    ASSERT_OK(raw().cuCtxSetCurrent(context));
    EXPECT_EQ(destination.read(), source.picture());
}

TEST_F(copy_forms, async_copies_are_ordered_with_other_work_on_their_stream) {
    constexpr std::uint64_t size = 1 << 20;
    CUstream stream = nullptr;
    ASSERT_OK(raw().cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    test_place host(place_kind::pinned, {.width = size}), first(place_kind::device, {.width = size}),
        second(place_kind::device, {.width = size});
    host.fill(3);
    for (int round = 0; round < 20; ++round) {
        const auto value = static_cast<unsigned char>(round + 1);
        ASSERT_OK(raw().cuMemsetD8Async(first.address(), value, size, stream));
        ASSERT_OK(ferry_copy_bytes_async(basic.get(), second.address(), first.address(), size, nullptr, stream, nullptr,
                                         nullptr));
        ASSERT_OK(raw().cuMemsetD8Async(first.address(), 0, size, stream));
        ASSERT_OK(ferry_copy_bytes_async(basic.get(), host.address(), second.address(), size, nullptr, stream, nullptr,
                                         nullptr));
        ASSERT_OK(raw().cuMemsetD8Async(second.address(), 0, size, stream));
        ASSERT_OK(raw().cuStreamSynchronize(stream));
        ASSERT_EQ(host.read(), bytes(size, std::byte{value}));
    }
    EXPECT_OK(raw().cuStreamDestroy(stream));
}

// The driver's own call returns before a copy from device to device has completed. ferry's must not: a stream that does
// not synchronise with the legacy stream sees the bytes without being ordered after them.
TEST_F(copy_forms, a_synchronous_copy_has_completed_when_it_returns) {
    constexpr std::uint64_t size = 8 << 20;
    CUstream stream = nullptr;
    ASSERT_OK(raw().cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    test_place pageable(place_kind::pageable, {.width = size}), source(place_kind::device, {.width = size}),
        destination(place_kind::device, {.width = size}), seen(place_kind::pinned, {.width = size});
    for (const test_place *from : {&source, &pageable}) {
        for (int round = 0; round < 5; ++round) {
            source.fill(static_cast<std::uint64_t>(round) + 10);
            pageable.fill(static_cast<std::uint64_t>(round) + 20);
            destination.fill(static_cast<std::uint64_t>(round) + 30);
            ASSERT_OK(ferry_copy_bytes(basic.get(), destination.address(), from->address(), size, nullptr, nullptr));
            ASSERT_OK(
                raw().cuMemcpyDtoHAsync(reinterpret_cast<void *>(seen.address()), destination.address(), size, stream));
            ASSERT_OK(raw().cuStreamSynchronize(stream));
            ASSERT_EQ(seen.read(), from->picture());
        }
    }
    EXPECT_OK(raw().cuStreamDestroy(stream));
}

TEST_F(copy_forms, captured_copies_run_when_the_graph_is_launched) {
    test_place host(place_kind::pinned, {.width = 4096}), device(place_kind::device, {.width = 4096}),
        back(place_kind::pinned, {.width = 4096});
    host.fill(1);
    device.fill(2);
    back.fill(3);
    CUstream stream = nullptr;
    ASSERT_OK(raw().cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    ASSERT_OK(raw().cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    EXPECT_OK(
        ferry_copy_bytes_async(basic.get(), device.address(), host.address(), 4096, nullptr, stream, nullptr, nullptr));
    EXPECT_OK(
        ferry_copy_bytes_async(full.get(), back.address(), device.address(), 4096, nullptr, stream, nullptr, nullptr));
    CUgraph graph = nullptr;
    ASSERT_OK(raw().cuStreamEndCapture(stream, &graph));
    EXPECT_EQ(back.read(), back.picture()) << "nothing may run before the launch";
    CUgraphExec executable = nullptr;
    ASSERT_OK(raw().cuGraphInstantiateWithFlags(&executable, graph, 0));
    for (std::uint64_t seed = 40; seed < 43; ++seed) {
        host.fill(seed);
        ASSERT_OK(raw().cuGraphLaunch(executable, stream));
        ASSERT_OK(raw().cuStreamSynchronize(stream));
        ASSERT_EQ(back.read(), host.picture());
    }
    EXPECT_OK(raw().cuGraphExecDestroy(executable));
    EXPECT_OK(raw().cuGraphDestroy(graph));
    EXPECT_OK(raw().cuStreamDestroy(stream));
}

TEST_F(copy_forms, synchronous_copies_leave_captures_on_other_streams_alone) {
    test_place pageable(place_kind::pageable, {.width = 200000}), first(place_kind::device, {.width = 200000}),
        second(place_kind::device, {.width = 200000});
    pageable.fill(1);
    CUstream stream = nullptr;
    ASSERT_OK(raw().cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    ASSERT_OK(raw().cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    EXPECT_OK(ferry_copy_bytes(basic.get(), first.address(), pageable.address(), 200000, nullptr, nullptr));
    EXPECT_OK(ferry_copy_bytes(full.get(), second.address(), first.address(), 200000, nullptr, nullptr));
    CUgraph graph = nullptr;
    EXPECT_OK(raw().cuStreamEndCapture(stream, &graph));
    EXPECT_OK(raw().cuGraphDestroy(graph));
    EXPECT_OK(raw().cuStreamDestroy(stream));
    EXPECT_EQ(second.read(), pageable.picture());
}

TEST_F(copy_forms, waiting_for_a_ticket_and_querying_it_leave_captures_on_other_streams_alone) {
    test_place host(place_kind::pinned, {.width = 4096}), device(place_kind::device, {.width = 4096});
    host.fill(1);
    CUstream captured = nullptr, other = nullptr;
    ASSERT_OK(raw().cuStreamCreate(&captured, CU_STREAM_NON_BLOCKING));
    ASSERT_OK(raw().cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    ASSERT_OK(raw().cuStreamBeginCapture(captured, CU_STREAM_CAPTURE_MODE_GLOBAL));
    const ferry_copy_desc copy =
        describe_copy(host.describe(statement::stated), device.describe(statement::stated), 4096);
    ferry_ticket *ticket = nullptr;
    ASSERT_OK(ferry_copy_async(basic.get(), &copy, nullptr, other, &ticket, nullptr));
    ferry_ticket_info info = {};
    info.struct_size = sizeof info;
    EXPECT_OK(ferry_ticket_get_info(ticket, &info, nullptr));
    EXPECT_OK(ferry_ticket_wait(ticket, FERRY_NO_TIMEOUT, nullptr));
    EXPECT_OK(ferry_ticket_release(ticket, nullptr));
    CUgraph graph = nullptr;
    EXPECT_OK(raw().cuStreamEndCapture(captured, &graph));
    EXPECT_OK(raw().cuGraphDestroy(graph));
    EXPECT_OK(raw().cuStreamDestroy(captured));
    EXPECT_OK(raw().cuStreamDestroy(other));
    EXPECT_EQ(device.read(), host.picture());
}

TEST_F(copy_forms, a_copy_completes_even_if_its_stream_is_destroyed_immediately) {
    test_place host(place_kind::pinned, {.width = 1 << 20}), device(place_kind::device, {.width = 1 << 20});
    host.fill(1);
    CUstream stream = nullptr;
    ASSERT_OK(raw().cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    ASSERT_OK(ferry_copy_bytes_async(basic.get(), device.address(), host.address(), 1 << 20, nullptr, stream, nullptr,
                                     nullptr));
    ASSERT_OK(raw().cuStreamDestroy(stream));
    ASSERT_OK(raw().cuCtxSynchronize());
    EXPECT_EQ(device.read(), host.picture());
}

// ---- Two devices ---------------------------------------------------------------------------------------------

class two_devices : public ferry_test {
protected:
    void SetUp() override {
        if (device_count() < 2) GTEST_SKIP() << "needs two devices";
        ferry_test::SetUp();
    }
    void TearDown() override {
        if (device_count() >= 2) ferry_test::TearDown();
    }
};

constexpr place_kind kinds_on_devices[] = {
    place_kind::device,   place_kind::managed,   place_kind::pool,      place_kind::array_1d, place_kind::array_2d,
    place_kind::array_3d, place_kind::layers_1d, place_kind::layers_2d, place_kind::cubemap,  place_kind::mipmap_level};

enum class access { none, forth, back, both };
const char *name_of(access access) {
    constexpr const char *names[] = {"without", "forth", "back", "both_ways"};
    return names[static_cast<int>(access)];
}

class between_devices : public two_devices,
                        public ::testing::WithParamInterface<std::tuple<place_kind, place_kind, access>> {
protected:
    // There is access only over links that do not lose data. Copies arrive without it too.
    void ask_for_access(std::int32_t device, std::int32_t peer) {
        const std::int32_t refused = ferry_peer_enable(basic.get(), device, peer, nullptr);
        if (on_software_driver() && !std::getenv("FERRY_TEST_LINKS")) {
            EXPECT_OK(refused);
        } else if (refused) {
            EXPECT_TRUE(is_without_access(refused)) << ferry_status_name(refused);
            EXPECT_EQ(ferry_peer_probe(basic.get(), device, peer, nullptr), refused);
        }
    }
};

TEST_P(between_devices, boxes_are_copied_with_and_without_peer_access) {
    const auto [source_kind, destination_kind, access] = GetParam();
    const bool forth = access == access::forth || access == access::both;
    const bool back = access == access::back || access == access::both;
    if (forth) ask_for_access(0, 1);
    if (back) ask_for_access(1, 0);
    CUstream stream = nullptr;
    ASSERT_OK(raw().cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    int scenes_run = 0;
    for (const scene &scene : scenes) {
        if (!can_be(source_kind, scene.source) || !can_be(destination_kind, scene.destination)) continue;
        ++scenes_run;
        test_place source(source_kind, scene.source, 1), destination(destination_kind, scene.destination, 0);
        const bool is_relayed = source_kind != place_kind::managed && destination_kind != place_kind::managed;
        for (const auto &[is_synchronous, stating, options] : {std::tuple(true, statement::stated, how()),
                                                               {false, statement::stated, how()},
                                                               {true, statement::any, how()},
                                                               {false, statement::any, how()},
                                                               {true, statement::stated, by_relay},
                                                               {false, statement::any, by_relay}}) {
            if (is_relayed || !options) {
                SCOPED_TRACE(scene.name);
                source.fill(1);
                destination.fill(2);
                const ferry_copy_desc copy =
                    describe_copy(source.describe(stating, scene.from), destination.describe(stating, scene.to),
                                  scene.size.width, scene.size.height, scene.size.depth);
                ferry_instance *const instance = stating == statement::any ? full.get() : basic.get();
                ferry_error_info error = new_error();
                ASSERT_OK(is_synchronous ? ferry_copy(instance, &copy, options, &error)
                                         : ferry_copy_async(instance, &copy, options, stream, nullptr, &error))
                    << ferry::test::describe(error);
                ASSERT_OK(raw().cuStreamSynchronize(stream));
                reference_copy(source, scene.from, destination, scene.to, scene.size.width, scene.size.height,
                               scene.size.depth);
                ASSERT_EQ(destination.read(), destination.picture());
            }
        }
    }
    EXPECT_OK(raw().cuStreamDestroy(stream));
    EXPECT_OK(ferry_peer_disable(basic.get(), 0, 1, nullptr));
    EXPECT_OK(ferry_peer_disable(basic.get(), 1, 0, nullptr));
    if (!scenes_run) GTEST_SKIP() << "no scene fits both kinds";
}

INSTANTIATE_TEST_SUITE_P(peers, between_devices,
                         ::testing::Combine(::testing::ValuesIn(kinds_on_devices),
                                            ::testing::ValuesIn(kinds_on_devices),
                                            ::testing::Values(access::none, access::forth, access::back, access::both)),
                         [](const auto &info) {
                             return std::string(name_of(std::get<0>(info.param))) + "_to_" +
                                    name_of(std::get<1>(info.param)) + "_" + name_of(std::get<2>(info.param));
                         });

// The driver checks pool memory against the current context, but not other memory.
TEST_F(two_devices, the_current_context_does_not_matter) {
    CUcontext other = nullptr;
    ASSERT_OK(raw().cuDevicePrimaryCtxRetain(&other, 1));
    CUstream streams[2] = {};
    ASSERT_OK(raw().cuStreamCreate(&streams[0], CU_STREAM_NON_BLOCKING));
    ASSERT_OK(raw().cuCtxSetCurrent(other));
    ASSERT_OK(raw().cuStreamCreate(&streams[1], CU_STREAM_NON_BLOCKING));
    test_place host(place_kind::pinned, {.width = 4096});
    struct {
        CUstream stream;
        const char *name;
    } const all_streams[] = {{streams[0], "stream of 0"},
                             {streams[1], "stream of 1"},
                             {nullptr, "legacy stream"},
                             {CU_STREAM_PER_THREAD, "per-thread stream"}};
    for (const place_kind kind : {place_kind::device, place_kind::pool})
        for (const int device : {0, 1})
            for (const auto &[stream, name] : all_streams)
                for (const CUcontext current : {context, other, CUcontext{nullptr}})
                    for (const bool device_is_known : {true, false})
                        for (const statement stating : {statement::stated, statement::any}) {
                            if (!is_supported(kind)) continue;
                            SCOPED_TRACE(testing::Message()
                                         << name_of(kind) << " on " << device << ", " << name << ", current "
                                         << (current == context ? "0"
                                             : current == other ? "1"
                                                                : "none"));
                            test_place memory(kind, {.width = 4096}, device), back(place_kind::pinned, {.width = 4096}),
                                twin(kind, {.width = 4096}, 1 - device);
                            host.fill(7);
                            ASSERT_OK(raw().cuCtxSetCurrent(current));
                            const auto enqueue = [&, stream = stream](test_place &from, test_place &to) {
                                ferry_copy_desc copy =
                                    describe_copy(from.describe(stating), to.describe(stating), 4096);
                                if (!device_is_known)
                                    copy.source.device = copy.destination.device = FERRY_DEVICE_UNKNOWN;
                                ferry_error_info error = new_error();
                                ferry_instance *const instance = stating == statement::any ? full.get() : basic.get();
                                EXPECT_OK(ferry_copy_async(instance, &copy, nullptr, stream, nullptr, &error))
                                    << ferry::test::describe(error);
                                // A default stream may belong to either context, so the test waits for both.
                                for (const CUcontext each : {context, other}) {
                                    ASSERT_OK(raw().cuCtxSetCurrent(each));
                                    ASSERT_OK(raw().cuCtxSynchronize());
                                }
                                ASSERT_OK(raw().cuCtxSetCurrent(current));
                            };
                            enqueue(host, memory);
                            enqueue(memory, twin);
                            enqueue(twin, back);
                            CUcontext after = nullptr;
                            EXPECT_OK(raw().cuCtxGetCurrent(&after));
                            EXPECT_EQ(after, current);
                            EXPECT_EQ(back.read(), host.picture());
                            ferry_copy_desc copy = describe_copy(twin.describe(stating), memory.describe(stating), 100);
                            twin.fill(8);
                            EXPECT_OK(ferry_copy(basic.get(), &copy, nullptr, nullptr));
                            ASSERT_OK(raw().cuCtxSetCurrent(context));
                            reference_copy(twin, {}, host, {}, 100, 1, 1);
                            EXPECT_EQ(memory.read(), host.picture());
                        }
    ASSERT_OK(raw().cuCtxSetCurrent(context));
    for (const CUstream stream : streams)
        EXPECT_OK(raw().cuStreamDestroy(stream));
    EXPECT_OK(raw().cuDevicePrimaryCtxRelease(1));
}

} // namespace
} // namespace ferry::test
