// Copies and fills as nodes of graphs that the program builds.
#include <array>
#include <cstring>

#include "ferry/ferry.hpp"
#include "support/counted_test.h"
#include "support/gate.h"
#include "support/how.h"
#include "support/raw_objects.h"
#include "support/system.h"

namespace ferry::test {
namespace {

constexpr std::uint64_t size = 64 << 10, page = 4096;
constexpr std::int32_t refused_by_driver = FERRY_STATUS_DRIVER_BASE - CUDA_ERROR_INVALID_VALUE;

ferry_copy_desc between(const ferry_place &destination, const ferry_place &source, std::uint64_t width,
                        std::uint64_t height = 1, std::uint64_t depth = 1) {
    ferry_copy_desc copy;
    ferry_copy_desc_set(&copy, &destination, &source, width, height, depth);
    return copy;
}
ferry_place host(const void *address, std::uint64_t row_pitch = 0) {
    ferry_place place;
    ferry_place_host_pitched(&place, address, row_pitch, 0);
    return place;
}
ferry_place device(std::uint64_t address, std::uint64_t row_pitch = 0, std::uint64_t slice_height = 0) {
    ferry_place place;
    ferry_place_device_pitched(&place, 0, address, row_pitch, slice_height);
    return place;
}
ferry_place texels(CUarray array) {
    ferry_place place;
    ferry_place_array(&place, 0, array);
    return place;
}
template <class Value>
ferry_fill_desc fill_of(const ferry_place &destination, Value value, std::uint64_t width, std::uint64_t height = 1,
                        std::uint64_t depth = 1) {
    ferry_fill_desc fill;
    ferry_fill_desc_init(&fill, &destination, width, height, depth, &value, sizeof value);
    return fill;
}

class graphs : public counted_test {
protected:
    void SetUp() override {
        counted_test::SetUp();
        if (!raw().cuGraphCreate || !raw().cuGraphAddMemcpyNode || !raw().cuGraphExecMemcpyNodeSetParams)
            GTEST_SKIP() << "this driver has no nodes of graphs";
        ASSERT_OK(raw().cuGraphCreate(&graph, 0));
        from.emplace(size);
        to.emplace(size);
        here.emplace(size);
        there.emplace(size);
        for (std::size_t i = 0; i < size; ++i)
            here->data()[i] = static_cast<std::byte>(i * 7 + i / 251);
    }
    void TearDown() override {
        if (executable) raw().cuGraphExecDestroy(executable);
        if (graph) raw().cuGraphDestroy(graph);
        from.reset();
        to.reset();
        here.reset();
        there.reset();
        counted_test::TearDown();
    }

    CUgraphNode add(const ferry_copy_desc &copy, std::vector<CUgraphNode> after = {}) {
        CUgraphNode node = nullptr;
        ferry_error_info error = new_error();
        EXPECT_OK(ferry_graph_add_copy(counted.get(), graph, after.data(), after.size(), &copy, nullptr, &node, &error))
            << describe(error);
        return node;
    }
    CUgraphNode add(const ferry_fill_desc &fill, std::vector<CUgraphNode> after = {}) {
        CUgraphNode node = nullptr;
        ferry_error_info error = new_error();
        EXPECT_OK(ferry_graph_add_fill(counted.get(), graph, after.data(), after.size(), &fill, nullptr, &node, &error))
            << describe(error);
        return node;
    }
    void instantiate() { ASSERT_OK(raw().cuGraphInstantiateWithFlags(&executable, graph, 0)); }
    void launch() {
        if (!executable) instantiate();
        ASSERT_OK(raw().cuGraphLaunch(executable, stream));
        ASSERT_OK(raw().cuStreamSynchronize(stream));
    }
    // The call must refuse the copy as ferry_copy does, or with this status and field, and make no node.
    ferry_error_info refuse(const ferry_copy_desc &copy, std::int32_t status,
                            const ferry_copy_options *options = nullptr) {
        ferry_error_info error = new_error();
        CUgraphNode node = reinterpret_cast<CUgraphNode>(1);
        EXPECT_EQ(status, ferry_graph_add_copy(counted.get(), graph, nullptr, 0, &copy, options, &node, &error))
            << describe(error);
        EXPECT_EQ(nullptr, node);
        return error;
    }
    ferry_error_info refuse(const ferry_fill_desc &fill, std::int32_t status,
                            const ferry_copy_options *options = nullptr) {
        ferry_error_info error = new_error();
        CUgraphNode node = reinterpret_cast<CUgraphNode>(1);
        EXPECT_EQ(status, ferry_graph_add_fill(counted.get(), graph, nullptr, 0, &fill, options, &node, &error))
            << describe(error);
        EXPECT_EQ(nullptr, node);
        return error;
    }
    static void expect_field(const ferry_error_info &error, std::int32_t side, std::int32_t field) {
        EXPECT_EQ(side, error.side) << describe(error);
        EXPECT_EQ(field, error.field) << describe(error);
    }

    CUgraph graph = nullptr;
    CUgraphExec executable = nullptr;
    std::optional<device_memory> from, to;
    std::optional<pinned_memory> here, there;
};

// ---- Nodes

TEST_F(graphs, copies_and_fills_run_in_the_order_of_their_dependencies) {
    CUarray array = nullptr;
    const ferry_array_desc desc = {.struct_size = sizeof desc,
                                   .format = FERRY_FORMAT_UINT8,
                                   .channels = 4,
                                   .flags = 0,
                                   .width = 32,
                                   .height = 16,
                                   .depth = 0};
    ASSERT_OK(ferry_array_create(counted.get(), 0, &desc, &array, nullptr));
    const auto count = driver.calls("cuGraphAddMemcpyNode");
    const CUgraphNode up = add(between(device(from->address), host(here->data()), size));
    const CUgraphNode rows = add(between(device(to->address, 512), device(from->address, 256), 128, 64), {up});
    const CUgraphNode into = add(between(texels(array), device(to->address, 512), 128, 16), {rows});
    const CUgraphNode filled = add(fill_of(device(to->address), std::uint8_t{0x5a}, size), {into, rows});
    const CUgraphNode out = add(between(device(to->address, 1024), texels(array), 128, 16), {filled});
    add(between(host(there->data()), device(to->address), size), {out});
    EXPECT_EQ(count + 5, driver.calls("cuGraphAddMemcpyNode"));
    EXPECT_EQ(1, driver.calls("cuGraphAddMemsetNode"));
    bytes expected(size, std::byte{0x5a});
    for (int row = 0; row < 16; ++row)
        std::memcpy(expected.data() + 1024 * row, here->data() + 256 * row, 128);
    for (int round = 0; round < 2; ++round) {
        std::memset(there->data(), 0, size);
        launch();
        EXPECT_EQ(0, std::memcmp(there->data(), expected.data(), size));
    }
    ASSERT_OK(ferry_array_destroy(counted.get(), array, nullptr));
}

TEST_F(graphs, fills_write_patterns_of_one_two_and_four_bytes_also_in_rows_and_in_pinned_memory) {
    const CUgraphNode one = add(fill_of(device(to->address), std::uint8_t{0x11}, 64));
    const CUgraphNode two = add(fill_of(device(to->address + 64), std::uint16_t{0x2233}, 64), {one});
    const CUgraphNode four = add(fill_of(device(to->address + 128), std::uint32_t{0x44556677}, 64), {two});
    add(fill_of(device(to->address + 256, 128), std::uint32_t{0x8899aabb}, 64, 4), {four});
    add(fill_of(host(there->data()), std::uint32_t{0xccddeeff}, 64), {four});
    std::memset(there->data(), 0, 128);
    launch();
    const bytes found = read_back(to->address, 768);
    const auto expect = [](const std::byte *at, auto value, std::size_t count) {
        for (std::size_t i = 0; i < count; i += sizeof value)
            EXPECT_EQ(0, std::memcmp(at + i, &value, sizeof value)) << i;
    };
    expect(found.data(), std::uint8_t{0x11}, 64);
    expect(found.data() + 64, std::uint16_t{0x2233}, 64);
    expect(found.data() + 128, std::uint32_t{0x44556677}, 64);
    for (int row = 0; row < 4; ++row)
        expect(found.data() + 256 + 128 * row, std::uint32_t{0x8899aabb}, 64);
    expect(there->data(), std::uint32_t{0xccddeeff}, 64);
    EXPECT_EQ(std::byte{0}, there->data()[64]);
}

TEST_F(graphs, a_graph_runs_after_the_instance_is_closed) {
    const CUgraphNode up = add(between(device(from->address), host(here->data()), size));
    add(between(host(there->data()), device(from->address), size), {up});
    counted.reset();
    launch();
    EXPECT_EQ(0, std::memcmp(there->data(), here->data(), size));
    counted = open_or_fail(driver.options());
}

TEST_F(graphs, a_thread_without_a_context_adds_nodes_and_every_call_leaves_the_context_unchanged) {
    CUcontext current = nullptr;
    CUcontext popped = nullptr;
    ASSERT_OK(raw().cuCtxPopCurrent(&popped));
    add(between(device(to->address), device(from->address), 64));
    add(fill_of(device(to->address), std::uint8_t{1}, 64));
    ASSERT_OK(raw().cuCtxGetCurrent(&current));
    EXPECT_EQ(nullptr, current);
    ASSERT_OK(raw().cuCtxPushCurrent(popped));
    add(between(device(to->address), device(from->address), 64));
    refuse(between(device(to->address), device(0), 64), FERRY_ERROR_ADDRESS);
    ASSERT_OK(raw().cuCtxGetCurrent(&current));
    EXPECT_EQ(popped, current);
}

TEST_F(graphs, memory_of_a_pool_is_copied_in_a_context_that_has_access) {
    if (device_count() < 2) GTEST_SKIP() << "needs two devices";
    std::uint64_t far = 0;
    if (ferry_device_alloc_async(counted.get(), 1, size, nullptr, &far, nullptr)) GTEST_SKIP() << "no pools";
    ASSERT_OK(ferry_context_synchronize(counted.get(), 1, nullptr, nullptr));
    ferry_place place;
    ferry_place_device(&place, 1, far);
    const CUgraphNode up = add(between(place, host(here->data()), size));
    add(between(host(there->data()), place, size), {up});
    launch();
    EXPECT_EQ(0, std::memcmp(there->data(), here->data(), size));
    ASSERT_OK(ferry_device_free(counted.get(), far, nullptr));
}

// ---- Errors

TEST_F(graphs, a_copy_is_refused_with_the_errors_of_ferry_copy) {
    expect_field(refuse(between(device(to->address, 32), device(from->address), 64, 4), FERRY_ERROR_PITCH),
                 FERRY_SIDE_DESTINATION, FERRY_FIELD_ROW_PITCH);
    expect_field(refuse(between(device(to->address), device(to->address + 32), 64), FERRY_ERROR_OVERLAP),
                 FERRY_SIDE_DESTINATION, FERRY_FIELD_ADDRESS);
    CUgraphNode node = nullptr;
    ferry_error_info error = new_error();
    const ferry_copy_desc past = between(device(to->address), host(here->data()), 2 * size);
    EXPECT_EQ(FERRY_ERROR_OUT_OF_BOUNDS,
              ferry_graph_add_copy(full.get(), graph, nullptr, 0, &past, nullptr, &node, &error));
    expect_field(error, FERRY_SIDE_SOURCE, FERRY_FIELD_ADDRESS);
    error = refuse(past, FERRY_ERROR_OUT_OF_BOUNDS);
    expect_field(error, FERRY_SIDE_SOURCE, FERRY_FIELD_ADDRESS);
    EXPECT_STREQ("cuGraphAddMemcpyNode", error.driver_function);
    expect_field(refuse(between(device(to->address), device(from->address), 0), FERRY_ERROR_INVALID_ARGUMENT),
                 FERRY_SIDE_EXTENT, FERRY_FIELD_WIDTH);
}

TEST_F(graphs, a_fill_that_needs_a_kernel_or_has_no_bytes_is_refused) {
    expect_field(refuse(fill_of(device(to->address), std::uint64_t{1}, 64), FERRY_ERROR_UNSUPPORTED),
                 FERRY_SIDE_DESCRIPTOR, FERRY_FIELD_PATTERN_SIZE);
    expect_field(refuse(fill_of(device(to->address, 64, 8), 1, 32, 4, 3), FERRY_ERROR_UNSUPPORTED), FERRY_SIDE_EXTENT,
                 FERRY_FIELD_DEPTH);
    expect_field(refuse(fill_of(device(to->address), 1, 0), FERRY_ERROR_INVALID_ARGUMENT), FERRY_SIDE_EXTENT,
                 FERRY_FIELD_WIDTH);
    bytes pageable(64);
    expect_field(refuse(fill_of(host(pageable.data()), 1, 64), FERRY_ERROR_PAGEABLE), FERRY_SIDE_DESTINATION,
                 FERRY_FIELD_ADDRESS);
}

TEST_F(graphs, a_copy_from_pageable_memory_to_a_device_is_refused_as_under_capture) {
    bytes pageable(size), other(size);
    for (const std::uint64_t width : {std::uint64_t{64}, size}) {
        const ferry_error_info error =
            refuse(between(device(to->address), host(pageable.data()), width), FERRY_ERROR_CAPTURE);
        expect_field(error, FERRY_SIDE_SOURCE, FERRY_FIELD_ADDRESS);
        EXPECT_EQ(error.numbers, FERRY_NUMBERS_OBSTACLE);
        EXPECT_EQ(describe(error), "source.address: a graph cannot contain this call, as a node or by capture of its "
                                   "stream: pageable memory (FERRY_ERROR_CAPTURE)");
    }
}

TEST_F(graphs, memory_that_was_registered_in_pieces_is_refused) {
    ferry_options options = driver.options();
    options.register_chunk = 4 * page;
    counted.reset();
    counted = open_or_fail(options);
    mapped_memory pages(8 * page);
    ASSERT_OK(ferry_host_register(counted.get(), pages.data(), pages.size(), 0, nullptr));
    expect_field(refuse(between(device(to->address), host(pages.data()), 8 * page), FERRY_ERROR_UNSUPPORTED),
                 FERRY_SIDE_SOURCE, FERRY_FIELD_ADDRESS);
    expect_field(refuse(between(host(pages.data()), device(to->address), 8 * page), FERRY_ERROR_UNSUPPORTED),
                 FERRY_SIDE_DESTINATION, FERRY_FIELD_ADDRESS);
    expect_field(refuse(fill_of(host(pages.data()), 1, 8 * page), FERRY_ERROR_UNSUPPORTED), FERRY_SIDE_DESTINATION,
                 FERRY_FIELD_ADDRESS);
    add(between(device(to->address), host(pages.data()), 4 * page));
    ASSERT_OK(ferry_host_unregister(counted.get(), pages.data(), nullptr));
}

TEST_F(graphs, options_that_no_node_has_are_refused) {
    ferry_copy_options options = {};
    options.struct_size = sizeof options;
    options.route = FERRY_ROUTE_KERNEL;
    const ferry_copy_desc copy = between(device(to->address), device(from->address), 64);
    ferry_error_info error = refuse(copy, FERRY_ERROR_UNSUPPORTED, &options);
    expect_field(error, FERRY_SIDE_OPTIONS, FERRY_FIELD_ROUTE);
    EXPECT_EQ(static_cast<std::uint64_t>(FERRY_ROUTE_KERNEL), error.value);
    EXPECT_EQ(describe(error), "options.route: FERRY_ROUTE_KERNEL, must be one of FERRY_ROUTE_AUTO, FERRY_ROUTE_DRIVER "
                               "(FERRY_ERROR_UNSUPPORTED)");
    expect_field(refuse(fill_of(device(to->address), 1, 64), FERRY_ERROR_UNSUPPORTED, &options), FERRY_SIDE_OPTIONS,
                 FERRY_FIELD_ROUTE);
    options.route = FERRY_ROUTE_DRIVER;
    CUgraphNode node = nullptr;
    EXPECT_OK(ferry_graph_add_copy(counted.get(), graph, nullptr, 0, &copy, &options, &node, nullptr));
    bytes pageable(64);
    options.flags = FERRY_COPY_DESTINATION_WRITTEN;
    expect_field(refuse(between(host(pageable.data()), device(from->address), 64), FERRY_ERROR_CAPTURE, &options),
                 FERRY_SIDE_OPTIONS, FERRY_FIELD_FLAGS);
    options.flags = 1u << 31;
    expect_field(refuse(copy, FERRY_ERROR_FLAGS, &options), FERRY_SIDE_OPTIONS, FERRY_FIELD_FLAGS);
}

TEST_F(graphs, wrong_arguments_are_refused) {
    const ferry_copy_desc copy = between(device(to->address), device(from->address), 64);
    const ferry_fill_desc fill = fill_of(device(to->address), 1, 64);
    ferry_error_info error = new_error();
    CUgraphNode node = nullptr;
    EXPECT_EQ(FERRY_ERROR_INVALID_ARGUMENT,
              ferry_graph_add_copy(counted.get(), nullptr, nullptr, 0, &copy, nullptr, &node, nullptr));
    EXPECT_EQ(FERRY_ERROR_INVALID_ARGUMENT,
              ferry_graph_add_copy(counted.get(), graph, nullptr, 0, &copy, nullptr, nullptr, nullptr));
    EXPECT_EQ(FERRY_ERROR_INVALID_ARGUMENT,
              ferry_graph_add_fill(counted.get(), graph, nullptr, 2, &fill, nullptr, &node, &error));
    expect_field(error, FERRY_SIDE_NONE, FERRY_FIELD_COUNT);
    EXPECT_EQ(2u, error.value);
    node = add(copy);
    instantiate();
    EXPECT_EQ(FERRY_ERROR_INVALID_ARGUMENT,
              ferry_graph_exec_set_copy(counted.get(), nullptr, node, &copy, nullptr, nullptr));
    EXPECT_EQ(FERRY_ERROR_INVALID_ARGUMENT,
              ferry_graph_exec_set_fill(counted.get(), executable, nullptr, &fill, nullptr, nullptr));
    const CUgraphNode twice[] = {node, node};
    EXPECT_EQ(refused_by_driver, ferry_graph_add_copy(counted.get(), graph, twice, 2, &copy, nullptr, &node, &error));
    EXPECT_STREQ("cuGraphAddMemcpyNode", error.driver_function);
}

TEST_F(graphs, a_driver_without_nodes_is_unsupported) {
    counted.reset();
    driver.hide("cuGraphAddMemcpyNode");
    driver.hide("cuGraphAddMemsetNode");
    counted = open_or_fail(driver.options());
    refuse(between(device(to->address), device(from->address), 64), FERRY_ERROR_UNSUPPORTED);
    refuse(fill_of(device(to->address), 1, 64), FERRY_ERROR_UNSUPPORTED);
}

// ---- Changes of executables

TEST_F(graphs, an_executable_takes_another_contiguous_copy_and_another_fill_for_each_launch) {
    const CUgraphNode filled = add(fill_of(device(to->address), std::uint8_t{0}, size));
    const CUgraphNode up = add(between(device(to->address), host(here->data()), 64), {filled});
    add(between(host(there->data()), device(to->address), size), {up});
    instantiate();
    for (std::uint64_t frame = 1; frame < 5; ++frame) {
        const std::uint32_t value = 0x01020304u * static_cast<std::uint32_t>(frame);
        const ferry_fill_desc fill = fill_of(device(to->address), value, size);
        // Rows without gaps are one row.
        const ferry_copy_desc copy =
            between(device(to->address + 64 * frame), host(here->data() + 128 * frame), 32, 2 * frame);
        ASSERT_OK(ferry_graph_exec_set_fill(counted.get(), executable, filled, &fill, nullptr, nullptr));
        ASSERT_OK(ferry_graph_exec_set_copy(counted.get(), executable, up, &copy, nullptr, nullptr));
        launch();
        bytes expected(size);
        for (std::uint64_t i = 0; i < size; i += 4)
            std::memcpy(expected.data() + i, &value, 4);
        std::memcpy(expected.data() + 64 * frame, here->data() + 128 * frame, 64 * frame);
        EXPECT_EQ(0, std::memcmp(there->data(), expected.data(), size)) << frame;
    }
}

TEST_F(graphs, a_change_that_the_driver_refuses_names_what_is_not_contiguous) {
    const CUgraphNode copied = add(between(device(to->address), device(from->address), 64));
    const CUgraphNode filled = add(fill_of(device(to->address), std::uint8_t{1}, 64), {copied});
    instantiate();
    ferry_error_info error = new_error();
    const auto change = [&](const ferry_copy_desc &copy) {
        return ferry_graph_exec_set_copy(counted.get(), executable, copied, &copy, nullptr, &error);
    };
    EXPECT_EQ(FERRY_ERROR_UNSUPPORTED, change(between(device(to->address, 128), device(from->address, 128), 64, 4)));
    expect_field(error, FERRY_SIDE_EXTENT, FERRY_FIELD_HEIGHT);
    EXPECT_EQ(4u, error.value);
    EXPECT_EQ(1u, error.limit);
    EXPECT_STREQ("cuGraphExecMemcpyNodeSetParams", error.driver_function);
    EXPECT_EQ(FERRY_ERROR_UNSUPPORTED,
              change(between(device(to->address, 128, 8), device(from->address, 128, 8), 64, 4, 3)));
    expect_field(error, FERRY_SIDE_EXTENT, FERRY_FIELD_DEPTH);
    EXPECT_EQ(refused_by_driver, change(between(device(to->address), host(here->data()), 64))) << "another direction";
    EXPECT_EQ(FERRY_ERROR_INVALID_ARGUMENT, change(between(device(to->address), device(from->address), 0)));
    CUarray array = nullptr;
    const ferry_array_desc desc = {.struct_size = sizeof desc,
                                   .format = FERRY_FORMAT_UINT8,
                                   .channels = 1,
                                   .flags = 0,
                                   .width = 64,
                                   .height = 4,
                                   .depth = 0};
    ASSERT_OK(ferry_array_create(counted.get(), 0, &desc, &array, nullptr));
    EXPECT_EQ(FERRY_ERROR_UNSUPPORTED, change(between(texels(array), device(from->address), 64)));
    expect_field(error, FERRY_SIDE_DESTINATION, FERRY_FIELD_ARRAY);
    EXPECT_EQ(FERRY_ERROR_UNSUPPORTED, change(between(device(to->address), texels(array), 64)));
    expect_field(error, FERRY_SIDE_SOURCE, FERRY_FIELD_ARRAY);
    ASSERT_OK(ferry_array_destroy(counted.get(), array, nullptr));
    const ferry_fill_desc rows = fill_of(device(to->address, 128), 1, 64, 4);
    EXPECT_EQ(FERRY_ERROR_UNSUPPORTED,
              ferry_graph_exec_set_fill(counted.get(), executable, filled, &rows, nullptr, &error));
    expect_field(error, FERRY_SIDE_EXTENT, FERRY_FIELD_HEIGHT);
    const ferry_fill_desc line = fill_of(device(to->address), 1, 64);
    EXPECT_EQ(refused_by_driver, ferry_graph_exec_set_fill(counted.get(), executable, copied, &line, nullptr, &error));
}

// ---- C++

TEST_F(graphs, cpp_adds_and_changes_nodes) {
    const host_view<std::byte> source(here->data(), 64);
    const device_view<std::byte> target(0, to->address, 64);
    const auto up = add_copy_node(counted.get(), graph, describe_copy(source, target).or_throw()).or_throw();
    const std::array<CUgraphNode, 1> after = {up};
    const auto filled =
        add_fill_node(counted.get(), graph, fill_of(device(to->address), std::uint8_t{9}, 32), after).or_throw();
    instantiate();
    launch();
    EXPECT_EQ(std::byte{9}, read_back(to->address, 64)[31]);
    EXPECT_EQ(here->data()[32], read_back(to->address, 64)[32]);
    EXPECT_TRUE(
        set_fill_node(counted.get(), executable, filled, fill_of(device(to->address), std::uint8_t{8}, 8)).ok());
    EXPECT_TRUE(set_copy_node(counted.get(), executable, up, describe_copy(source, target).or_throw()).ok());
    launch();
    EXPECT_EQ(std::byte{8}, read_back(to->address, 64)[7]);
    EXPECT_EQ(here->data()[8], read_back(to->address, 64)[8]);
    EXPECT_EQ(FERRY_ERROR_INVALID_ARGUMENT,
              add_copy_node(counted.get(), nullptr, describe_copy(source, target).or_throw()).error().code());
}

// ---- Pageable destinations

// The end of such a copy is not known, so every later copy from pageable memory reads its source in stream order. This
// applies to the whole process: the test is the last one.
TEST_F(graphs, zz_a_launch_may_write_the_pageable_source_of_a_later_copy) {
    if (!has_kernels()) GTEST_SKIP() << "without staging, only the driver reads the source";
    bytes pageable(size);
    const ferry_copy_desc later = between(device(to->address), host(pageable.data()), 4096);
    ASSERT_OK(ferry_staging_prepare(counted.get(), 0, nullptr)); // would wait for the work that a gate holds
    const auto is_read_early = [&] {
        const gate held(stream);
        ferry_explanation told = {};
        told.struct_size = sizeof told;
        EXPECT_OK(ferry_copy_explain_async(counted.get(), &later, nullptr, stream, &told, nullptr));
        return told.route != FERRY_ROUTE_STAGED;
    };
    EXPECT_TRUE(is_read_early());
    add(between(host(pageable.data()), device(from->address), size));
    EXPECT_FALSE(is_read_early());
    ASSERT_OK(raw().cuMemcpyHtoD(from->address, here->data(), size));
    instantiate();
    ASSERT_OK(raw().cuGraphLaunch(executable, stream));
    ASSERT_OK(ferry_copy_async(counted.get(), &later, nullptr, stream, nullptr, nullptr));
    ASSERT_OK(raw().cuStreamSynchronize(stream));
    EXPECT_EQ(0, std::memcmp(read_back(to->address, 4096).data(), here->data(), 4096));
    EXPECT_EQ(0, std::memcmp(pageable.data(), here->data(), size));
}

} // namespace
} // namespace ferry::test
