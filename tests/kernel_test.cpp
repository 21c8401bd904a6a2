// ferry's own kernels on the driver under test. Every result is compared with a plain copy on the CPU, and the bytes
// beside it must not change.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <thread>

#include "device/kernel_image.h"
#include "device/kernels.h"
#include "exec/kernel_launch.h"
#include "support/captured_graph.h"
#include "support/fault_driver.h"
#include "support/gate.h"
#include "support/raw_objects.h"
#include "support/surface_array.h"

namespace ferry::test {
namespace {

using gpu::box_end;

enum class side { device, host };
constexpr side sides[] = {side::device, side::host};

// Memory that kernels can access, with a copy of its bytes on the CPU.
class reachable {
public:
    reachable(side where, std::size_t size, std::uint64_t seed) : where_(where), picture(random_bytes(size, seed)) {
        if (where == side::device) {
            EXPECT_OK(raw().cuMemAlloc(&address, size));
        } else {
            EXPECT_OK(raw().cuMemHostAlloc(&host_, size, 0));
            EXPECT_OK(raw().cuMemHostGetDevicePointer(&address, host_, 0));
        }
        write_picture();
    }
    ~reachable() {
        if (where_ == side::device)
            raw().cuMemFree(address);
        else
            raw().cuMemFreeHost(host_);
    }
    reachable(const reachable &) = delete;

    void write_picture() const {
        if (where_ == side::device)
            write_for_all_streams(address, picture);
        else
            std::memcpy(host_, picture.data(), picture.size());
    }
    bytes read() const {
        if (where_ == side::device) return read_back(address, picture.size());
        const auto *const first = static_cast<const std::byte *>(host_);
        return bytes(first, first + picture.size());
    }

private:
    side where_;
    void *host_ = nullptr;

public:
    CUdeviceptr address = 0;
    bytes picture;
};

struct end_layout {
    std::uint64_t lead, row_pitch, slice_pitch;
    std::uint64_t size(std::uint64_t width, std::uint64_t height, std::uint64_t depth) const {
        return lead + (depth - 1) * slice_pitch + (height - 1) * row_pitch + width;
    }
    std::uint64_t at(std::uint64_t y, std::uint64_t z) const { return lead + z * slice_pitch + y * row_pitch; }
    box_end end_at(std::uint64_t address) const { return {address + lead, row_pitch, slice_pitch}; }
};

struct box_scene {
    end_layout destination, source;
    std::uint64_t width, height, depth;
};

constexpr std::uint64_t guard = 64;

// `up_to(n)` draws a number from 0 to n.
template <class Draw> box_scene random_scene(const Draw &up_to) {
    box_scene scene = {};
    scene.width = 1 + up_to(std::uint64_t{1} << up_to(9));
    scene.height = 1 + up_to(std::uint64_t{1} << up_to(6));
    scene.depth = 1 + up_to(std::uint64_t{1} << up_to(3));
    const std::uint64_t unit = std::uint64_t{1} << up_to(4); // the strides are multiples of it
    for (end_layout *const end : {&scene.destination, &scene.source}) {
        const auto rounded = [&](std::uint64_t size) { return (size + unit - 1) / unit * unit; };
        end->lead = up_to(3) * unit % 32 + (up_to(2) == 0 ? up_to(15) : 0);
        end->row_pitch = rounded(scene.width + up_to(40));
        end->slice_pitch = rounded(end->row_pitch * scene.height + up_to(100));
    }
    return scene;
}

CUdeviceptr from_host(const pinned_memory &memory) {
    CUdeviceptr address = 0;
    EXPECT_OK(raw().cuMemHostGetDevicePointer(&address, memory.address, 0));
    return address;
}

struct kernels_on : driver_test {
    void SetUp() override {
        driver_test::SetUp();
        if (const char *const missing = loaded.missing_entry_point()) GTEST_SKIP() << "the driver has no " << missing;
        ASSERT_OK(raw().cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        CUcontext current = nullptr;
        ASSERT_OK(raw().cuCtxGetCurrent(&current));
        ASSERT_OK(loaded.load_into(current).status); // loading later would wait for held work
    }
    void TearDown() override {
        if (stream) {
            EXPECT_OK(raw().cuStreamDestroy(stream));
        }
        driver_test::TearDown();
    }

    void copy_box(const box_scene &scene, side to, side from, std::uint32_t blocks) {
        SCOPED_TRACE(testing::Message() << "width " << scene.width << " height " << scene.height << " depth "
                                        << scene.depth << " destination " << scene.destination.lead << "+"
                                        << scene.destination.row_pitch << "+" << scene.destination.slice_pitch
                                        << " source " << scene.source.lead << "+" << scene.source.row_pitch << "+"
                                        << scene.source.slice_pitch << " blocks " << blocks);
        reachable destination(to, scene.destination.size(scene.width, scene.height, scene.depth) + guard, 1);
        const reachable source(from, scene.source.size(scene.width, scene.height, scene.depth) + guard, 2);
        const kernel_box box = {scene.destination.end_at(destination.address), scene.source.end_at(source.address),
                                scene.width, scene.height, scene.depth};
        ASSERT_OK(launch_strided(raw(), loaded, box, blocks, stream).status);
        for (std::uint64_t z = 0; z < scene.depth; ++z)
            for (std::uint64_t y = 0; y < scene.height; ++y)
                std::copy_n(&source.picture[scene.source.at(y, z)], scene.width,
                            &destination.picture[scene.destination.at(y, z)]);
        ASSERT_OK(raw().cuStreamSynchronize(stream));
        ASSERT_TRUE(destination.read() == destination.picture);
        ASSERT_TRUE(source.read() == source.picture);
    }

    kernel_set loaded{raw()};
    CUstream stream = nullptr;
};

// ---- Boxes ----------------------------------------------------------------------------------------------------

constexpr box_scene box_scenes[] = {
    {{0, 0, 0}, {0, 0, 0}, 1, 1, 1},
    {{0, 0, 0}, {0, 0, 0}, 65536, 1, 1},
    {{1, 0, 0}, {1, 0, 0}, 65536, 1, 1},
    {{15, 0, 0}, {31, 0, 0}, 2, 1, 1},
    {{1, 0, 0}, {0, 0, 0}, 10007, 1, 1},
    {{6, 0, 0}, {8, 0, 0}, 10007, 1, 1},
    {{0, 4, 0}, {0, 8, 0}, 4, 5000, 1},
    {{4, 8, 0}, {12, 4, 0}, 4, 5000, 1},
    {{0, 16, 0}, {0, 32, 0}, 16, 3000, 1},
    {{3, 7, 0}, {5, 9, 0}, 1, 3000, 1},
    {{2, 101, 0}, {2, 101, 0}, 100, 300, 1},
    {{0, 64, 0}, {9, 65, 0}, 64, 300, 1},
    {{0, 128, 1280}, {0, 64, 6400}, 64, 10, 20},
    {{7, 33, 1111}, {7, 33, 33 * 12}, 33, 12, 9},
    {{0, 1, 3}, {0, 5, 2}, 1, 1, 4000},
    {{0, 4096, 0}, {16, 5008, 0}, 4096, 64, 1},
};

TEST_F(kernels_on, boxes_of_every_form_arrive_whole_and_touch_nothing_else) {
    for (const box_scene &scene : box_scenes)
        for (const side to : sides)
            for (const side from : sides)
                for (const std::uint32_t blocks : {1u, 3u, 64u})
                    copy_box(scene, to, from, blocks);
}

TEST_F(kernels_on, random_boxes_arrive_whole_and_touch_nothing_else) {
    std::mt19937_64 random(3);
    const auto up_to = [&](std::uint64_t most) { return random() % (most + 1); };
    for (int round = 0; round < 300 && !HasFatalFailure(); ++round)
        copy_box(random_scene(up_to), sides[up_to(1)], sides[up_to(1)], static_cast<std::uint32_t>(1 + up_to(8)));
}

TEST_F(kernels_on, a_box_reaches_memory_of_a_peer) {
    if (device_count() < 2) GTEST_SKIP() << "needs two devices";
    int can_reach = 0;
    ASSERT_OK(raw().cuDeviceCanAccessPeer(&can_reach, 0, 1));
    if (!can_reach) GTEST_SKIP() << "needs two devices with peer access";
    const other_device peer;
    ASSERT_OK(raw().cuCtxEnablePeerAccess(peer, 0));
    CUdeviceptr there = 0;
    const bytes data = random_bytes(10000, 4);
    {
        const made_current scope(peer);
        ASSERT_OK(raw().cuMemAlloc(&there, data.size()));
        write_for_all_streams(there, bytes(data.size()));
    }
    const device_memory here(data.size()), back(data.size());
    write_for_all_streams(here, data);
    const kernel_box to_peer = {{there, 100, 0}, {here, 100, 0}, 100, 100, 1};
    const kernel_box from_peer = {{back, 100, 0}, {there, 100, 0}, 100, 100, 1};
    ASSERT_OK(launch_strided(raw(), loaded, to_peer, 8, stream).status);
    ASSERT_OK(launch_strided(raw(), loaded, from_peer, 8, stream).status);
    ASSERT_OK(raw().cuStreamSynchronize(stream));
    EXPECT_EQ(read_back(back, data.size()), data);
    EXPECT_OK(raw().cuMemFree(there));
    EXPECT_OK(raw().cuCtxDisablePeerAccess(peer));
}

// ---- Pieces ---------------------------------------------------------------------------------------------------

struct piece_scene {
    std::uint64_t destination, source, size;
};

// Places the pieces side by side in the destination, in random order, with gaps between them and any alignment.
std::vector<piece_scene> scatter(const std::vector<std::uint64_t> &sizes, std::uint64_t seed, std::uint64_t &extent) {
    std::mt19937_64 random(seed);
    std::vector<piece_scene> pieces;
    std::uint64_t at = 0;
    for (const std::uint64_t size : sizes) {
        const std::uint64_t gap = 1 + random() % 33;
        pieces.push_back({at + gap, at + (random() % 2 ? gap : random() % 34), size});
        at += size + 34;
    }
    extent = at + guard;
    std::shuffle(pieces.begin(), pieces.end(), random);
    return pieces;
}

struct piece_case {
    const char *name;
    std::function<std::uint64_t(std::mt19937_64 &)> size;
    std::uint32_t count;
};

struct pieces : kernels_on {
    // The records of the pieces are in the kernel's parameters, if they fit, or in a table in either kind of memory.
    enum class form { parameters, device_table, host_table };

    void copy(const std::vector<piece_scene> &all, std::uint64_t extent, side to, side from, form how,
              std::uint32_t blocks) {
        reachable destination(to, extent, 5);
        const reachable source(from, extent, 6);
        std::uint64_t sum = 0;
        for (const piece_scene &one : all)
            sum += one.size;
        gpu::piece_parameters given = {};
        std::vector<gpu::piece> table(all.size());
        const bool has_table = how != form::parameters;
        piece_packer packer(has_table ? table.data() : given.pieces,
                            has_table ? static_cast<std::uint32_t>(table.size()) : gpu::max_pieces_in_parameters,
                            cut_pieces(all.size(), sum));
        for (const piece_scene &one : all)
            ASSERT_TRUE(packer.add(destination.address + one.destination, source.address + one.source, one.size));
        reachable memory(how == form::host_table ? side::host : side::device, table.size() * sizeof table[0] + 1, 7);
        std::memcpy(memory.picture.data(), table.data(), table.size() * sizeof table[0]);
        memory.write_picture();
        const gpu::piece *const readable = how == form::host_table ? table.data() : nullptr;
        ASSERT_OK(has_table ? launch_piece_table(raw(), loaded, packer, memory.address, readable, blocks, stream).status
                            : launch_pieces(raw(), loaded, packer, given, blocks, stream).status);
        for (const piece_scene &one : all)
            std::copy_n(source.picture.begin() + static_cast<std::ptrdiff_t>(one.source), one.size,
                        destination.picture.begin() + static_cast<std::ptrdiff_t>(one.destination));
        ASSERT_OK(raw().cuStreamSynchronize(stream));
        ASSERT_TRUE(destination.read() == destination.picture);
    }
};

TEST_F(pieces, of_all_sizes_arrive_whole_and_touch_nothing_else) {
    const piece_case cases[] = {
        {"one byte", [](auto &) { return 1; }, 3000},
        {"one piece", [](auto &) { return 100003; }, 1},
        {"equal and small", [](auto &) { return 256; }, 1024},
        {"equal and a unit", [](auto &) { return 2048; }, 100},
        {"up to 40 bytes", [](auto &random) { return 1 + random() % 40; }, 2000},
        {"a large one among small ones", [](auto &random) { return random() % 100 ? 5 : 400000; }, 300},
        {"of all magnitudes", [](auto &random) { return 1 + (random() & ((1u << random() % 17) - 1)); }, 500},
    };
    for (const piece_case &one : cases)
        for (const auto &[to, from] : {std::pair{side::device, side::device},
                                       {side::device, side::host},
                                       {side::host, side::device},
                                       {side::host, side::host}})
            for (const form how : {form::parameters, form::device_table, form::host_table}) {
                SCOPED_TRACE(testing::Message() << one.name << ", form " << static_cast<int>(how));
                std::mt19937_64 random(8);
                const std::uint32_t most = gpu::max_pieces_in_parameters;
                std::vector<std::uint64_t> sizes(how == form::parameters ? std::min(one.count, most) : one.count);
                for (std::uint64_t &size : sizes)
                    size = one.size(random);
                std::uint64_t extent = 0;
                const std::vector<piece_scene> all = scatter(sizes, 9, extent);
                for (const std::uint32_t blocks : {1u, 5u, 200u}) {
                    copy(all, extent, to, from, how, blocks);
                    if (HasFatalFailure()) return;
                }
            }
}

TEST_F(pieces, none_at_all_is_a_success) {
    gpu::piece_parameters given = {};
    const piece_packer packer(given.pieces, gpu::max_pieces_in_parameters, cut_pieces(0, 0));
    EXPECT_OK(launch_pieces(raw(), loaded, packer, given, 8, stream).status);
    EXPECT_OK(launch_piece_table(raw(), loaded, packer, 0, nullptr, 8, stream).status);
    EXPECT_OK(raw().cuStreamSynchronize(stream));
}

// ---- Many boxes -----------------------------------------------------------------------------------------------

struct placed_box {
    box_scene scene;
    std::uint64_t destination, source; // where the layouts of the scene begin
};

struct many_boxes : kernels_on {
    enum class form { parameters, device_table, host_table };

    void copy(const std::vector<placed_box> &all, std::uint64_t extent, side to, side from, form how,
              std::uint32_t blocks) {
        reachable destination(to, extent, 13);
        const reachable source(from, extent, 14);
        gpu::box_parameters given = {};
        std::vector<gpu::box> table(all.size());
        const bool has_table = how != form::parameters;
        std::uint64_t sum = 0;
        for (const placed_box &one : all)
            sum += one.scene.width * one.scene.height * one.scene.depth;
        box_packer packer(has_table ? table.data() : given.boxes,
                          has_table ? static_cast<std::uint32_t>(table.size()) : gpu::max_boxes_in_parameters,
                          cut_boxes(all.size(), sum));
        for (const placed_box &one : all) {
            const box_scene &scene = one.scene;
            ASSERT_EQ(
                packer.add({scene.destination.end_at(destination.address + one.destination),
                            scene.source.end_at(source.address + one.source), scene.width, scene.height, scene.depth}),
                pack_result::added);
        }
        reachable memory(how == form::host_table ? side::host : side::device, table.size() * sizeof table[0] + 1, 15);
        std::memcpy(memory.picture.data(), table.data(), table.size() * sizeof table[0]);
        memory.write_picture();
        ASSERT_OK(launch_boxes(raw(), loaded, packer, given, has_table ? memory.address : 0, blocks, stream).status);
        for (const placed_box &one : all)
            for (std::uint64_t z = 0; z < one.scene.depth; ++z)
                for (std::uint64_t y = 0; y < one.scene.height; ++y)
                    std::copy_n(&source.picture[one.source + one.scene.source.at(y, z)], one.scene.width,
                                &destination.picture[one.destination + one.scene.destination.at(y, z)]);
        ASSERT_OK(raw().cuStreamSynchronize(stream));
        ASSERT_TRUE(destination.read() == destination.picture);
    }
};

TEST_F(many_boxes, of_all_forms_arrive_whole_and_touch_nothing_else) {
    for (const std::uint32_t count : {1u, 30u, gpu::max_boxes_in_parameters, 1000u})
        for (const form how : {form::parameters, form::device_table, form::host_table}) {
            if (how == form::parameters && count > gpu::max_boxes_in_parameters) continue;
            std::mt19937_64 random(count);
            const auto up_to = [&](std::uint64_t most) { return random() % (most + 1); };
            std::vector<placed_box> all;
            std::uint64_t extent = 0;
            for (std::uint32_t i = 0; i < count; ++i) {
                placed_box one = {random_scene(up_to), extent, extent};
                const box_scene &scene = one.scene;
                extent += std::max(scene.destination.size(scene.width, scene.height, scene.depth),
                                   scene.source.size(scene.width, scene.height, scene.depth)) +
                          guard;
                extent = extent / 16 * 16;
                all.push_back(one);
            }
            for (const std::uint32_t blocks : {1u, 7u, 300u}) {
                SCOPED_TRACE(testing::Message() << count << " boxes, form " << static_cast<int>(how));
                copy(all, extent + guard, sides[up_to(1)], sides[up_to(1)], how, blocks);
                if (HasFatalFailure()) return;
            }
        }
}

// ---- Fills ----------------------------------------------------------------------------------------------------

TEST_F(kernels_on, fills_cover_the_box_with_every_pattern_and_touch_nothing_else) {
    std::mt19937_64 random(16);
    const auto up_to = [&](std::uint64_t most) { return random() % (most + 1); };
    for (int round = 0; round < 300 && !HasFatalFailure(); ++round) {
        const std::uint32_t unit = 1u << up_to(4);
        box_scene scene = random_scene(up_to);
        end_layout &end = scene.destination;
        scene.width = (scene.width + unit - 1) / unit * unit;
        end.row_pitch = (scene.width + up_to(40) + unit - 1) / unit * unit;
        end.slice_pitch = end.row_pitch * scene.height + up_to(9) * unit;
        reachable memory(sides[up_to(1)], end.size(scene.width, scene.height, scene.depth) + guard, 17);
        kernel_fill fill = {end.end_at(memory.address), scene.width, scene.height, scene.depth, {}, unit};
        for (std::uint32_t i = 0; i < unit; ++i)
            fill.pattern[i] = static_cast<std::uint8_t>(random());
        ASSERT_OK(launch_fill(raw(), loaded, fill, static_cast<std::uint32_t>(1 + up_to(8)), stream).status);
        for (std::uint64_t z = 0; z < scene.depth; ++z)
            for (std::uint64_t y = 0; y < scene.height; ++y)
                for (std::uint64_t x = 0; x < scene.width; ++x)
                    memory.picture[end.at(y, z) + x] = std::byte{fill.pattern[x % unit]};
        ASSERT_OK(raw().cuStreamSynchronize(stream));
        ASSERT_TRUE(memory.read() == memory.picture)
            << "unit " << unit << " width " << scene.width << " height " << scene.height << " depth " << scene.depth
            << " lead " << end.lead << " pitches " << end.row_pitch << " " << end.slice_pitch;
    }
}

// ---- Arrays ---------------------------------------------------------------------------------------------------

struct array_reads : kernels_on {
    void SetUp() override {
        kernels_on::SetUp();
        if (!IsSkipped() && !(raw().cuSurfObjectCreate && raw().cuSurfObjectDestroy))
            GTEST_SKIP() << "the driver has no surfaces";
    }
};

TEST_F(array_reads, boxes_of_every_kind_of_array_arrive_whole_in_one_launch) {
    std::mt19937_64 random(19);
    const auto up_to = [&](std::uint64_t most) { return random() % (most + 1); };
    std::vector<std::unique_ptr<test_array>> arrays;
    for (const array_kind &kind : array_kinds)
        arrays.push_back(std::make_unique<test_array>(kind.descriptor, arrays.size()));
    for (const bool has_table : {false, true})
        for (const side to : sides) {
            const std::uint32_t count = has_table ? 500 : gpu::max_array_boxes_in_parameters;
            reachable destination(to, 4 << 20, 20);
            gpu::array_box_parameters given = {};
            std::vector<gpu::array_box> table(count);
            array_packer packer(has_table ? table.data() : given.boxes, count, cut_array_boxes(count, count * 2000));
            std::uint64_t extent = 0;
            for (std::uint32_t i = 0; i < count; ++i) {
                const test_array &of = *arrays[i % arrays.size()];
                const bool all_of_it = up_to(5) == 0;
                kernel_array_box box = {{}, of.surface, of.form, 0, 0, 0, of.row_bytes, of.rows, of.slices};
                if (!all_of_it) {
                    box.x = up_to(of.row_bytes - 1);
                    box.y = up_to(of.rows - 1);
                    box.z = up_to(of.slices - 1);
                    box.width = 1 + up_to(of.row_bytes - box.x - 1);
                    box.height = 1 + up_to(of.rows - box.y - 1);
                    box.depth = 1 + up_to(of.slices - box.z - 1);
                }
                const std::uint64_t row_pitch = box.width + up_to(20), slice_pitch = row_pitch * box.height + up_to(9);
                const std::uint64_t begin = extent + up_to(17);
                box.destination = {destination.address + begin, row_pitch, slice_pitch};
                if (begin + slice_pitch * box.depth + guard > destination.picture.size()) break;
                ASSERT_EQ(packer.add(box), pack_result::added);
                for (std::uint64_t z = 0; z < box.depth; ++z)
                    for (std::uint64_t y = 0; y < box.height; ++y)
                        std::copy_n(&of.picture[((box.z + z) * of.rows + box.y + y) * of.row_bytes + box.x], box.width,
                                    &destination.picture[begin + z * slice_pitch + y * row_pitch]);
                extent = begin + slice_pitch * box.depth;
            }
            reachable memory(side::device, table.size() * sizeof table[0], 21);
            std::memcpy(memory.picture.data(), table.data(), table.size() * sizeof table[0]);
            memory.write_picture();
            ASSERT_OK(launch_arrays(raw(), loaded, packer, given, has_table ? memory.address : 0, 9, stream).status);
            ASSERT_OK(raw().cuStreamSynchronize(stream));
            ASSERT_TRUE(destination.read() == destination.picture) << packer.count() << " boxes";
        }
}

TEST_F(array_reads, a_surface_of_an_array_created_without_surface_support_is_accepted) {
    CUDA_ARRAY3D_DESCRIPTOR descriptor = {64, 64, 0, CU_AD_FORMAT_FLOAT, 1, 0};
    CUDA_RESOURCE_DESC resource = {};
    resource.resType = CU_RESOURCE_TYPE_ARRAY;
    ASSERT_OK(raw().cuArray3DCreate(&resource.res.array.hArray, &descriptor));
    CUsurfObject surface = 0;
    EXPECT_OK(raw().cuSurfObjectCreate(&surface, &resource));
    EXPECT_OK(raw().cuSurfObjectDestroy(surface));
    EXPECT_OK(raw().cuArrayDestroy(resource.res.array.hArray));
}

TEST_F(array_reads, one_box_of_every_kind_of_array_arrives_whole) {
    std::mt19937_64 random(23);
    const auto up_to = [&](std::uint64_t most) { return random() % (most + 1); };
    for (const array_kind &kind : array_kinds) {
        const test_array of(kind.descriptor, 24);
        for (int round = 0; round < 24; ++round) {
            SCOPED_TRACE(testing::Message() << kind.name << ", round " << round);
            kernel_array_box box = {{}, of.surface, of.form, 0, 0, 0, of.row_bytes, of.rows, of.slices};
            // The first rounds copy the whole array. Later rounds copy boxes in words of every size.
            const std::uint64_t unit = std::uint64_t{1} << round % 5;
            if (round >= 5 && of.row_bytes >= unit) {
                box.x = up_to((of.row_bytes - unit) / unit) * unit;
                box.y = up_to(of.rows - 1);
                box.z = up_to(of.slices - 1);
                box.width = (1 + up_to((of.row_bytes - box.x) / unit - 1)) * unit;
                box.height = 1 + up_to(of.rows - box.y - 1);
                box.depth = 1 + up_to(of.slices - box.z - 1);
            }
            const std::uint64_t row_pitch = box.width + up_to(3) * unit;
            const std::uint64_t slice_pitch = row_pitch * box.height + up_to(3) * unit, begin = up_to(3) * unit;
            reachable destination(sides[static_cast<std::size_t>(round) % std::size(sides)],
                                  begin + slice_pitch * box.depth + guard, 25);
            box.destination = {destination.address + begin, row_pitch, slice_pitch};
            for (std::uint64_t z = 0; z < box.depth; ++z)
                for (std::uint64_t y = 0; y < box.height; ++y)
                    std::copy_n(&of.picture[((box.z + z) * of.rows + box.y + y) * of.row_bytes + box.x], box.width,
                                &destination.picture[begin + z * slice_pitch + y * row_pitch]);
            ASSERT_OK(launch_array(raw(), loaded, box, 1 + static_cast<std::uint32_t>(up_to(3)), stream).status);
            ASSERT_OK(raw().cuStreamSynchronize(stream));
            ASSERT_TRUE(destination.read() == destination.picture);
        }
    }
}

// ---- Streams and graphs ---------------------------------------------------------------------------------------

TEST_F(kernels_on, a_kernel_runs_in_the_order_of_its_stream) {
    constexpr std::uint64_t size = 1 << 20;
    const pinned_memory first(size), last(size);
    const device_memory from(size), to(size);
    const bytes data = random_bytes(size, 10);
    std::copy(data.begin(), data.end(), first.data());
    std::fill_n(last.data(), size, std::byte{0});
    write_for_all_streams(from, bytes(size));
    {
        gate held(stream);
        ASSERT_OK(raw().cuMemcpyHtoDAsync(from, first.data(), size, stream));
        ASSERT_OK(launch_strided(raw(), loaded, {{to, 0, 0}, {from, 0, 0}, size, 1, 1}, 16, stream).status);
        ASSERT_OK(raw().cuMemcpyDtoHAsync(last.data(), to, size, stream));
        EXPECT_EQ(last.copy(), bytes(size)) << "nothing runs before the gate opens";
    }
    EXPECT_EQ(last.copy(), data);
}

TEST_F(kernels_on, captured_kernels_run_at_every_launch_of_their_graph) {
    constexpr std::uint64_t size = 3 << 10;
    const pinned_memory from(size);
    const device_memory to(2 * size);
    write_for_all_streams(to, bytes(2 * size));
    gpu::piece_parameters given = {};
    piece_packer packer(given.pieces, gpu::max_pieces_in_parameters, cut_pieces(1, size));
    ASSERT_TRUE(packer.add(to + size, from_host(from), size));

    captured_graph graph(stream);
    EXPECT_OK(launch_strided(raw(), loaded, {{to, 0, 0}, {from_host(from), 0, 0}, size, 1, 1}, 2, stream).status);
    EXPECT_OK(launch_pieces(raw(), loaded, packer, given, 2, stream).status);
    given = {}; // parameters are read before the calls return
    graph.end();
    EXPECT_EQ(read_back(to, 2 * size), bytes(2 * size)) << "nothing may run before the launch";
    for (const std::uint64_t seed : {11, 12}) {
        const bytes data = random_bytes(size, seed);
        std::copy(data.begin(), data.end(), from.data());
        graph.run();
        bytes twice = data;
        twice.insert(twice.end(), data.begin(), data.end());
        EXPECT_EQ(read_back(to, 2 * size), twice);
    }
}

// ---- Loading --------------------------------------------------------------------------------------------------

// Resolves the table of a wrapped driver, as an instance does.
driver_table table_of(const fault_driver &wrapped) {
    const ferry_options options = wrapped.options();
    driver_table table;
    bool found[driver_symbol_count];
    resolve_table({options.get_proc, options.get_proc_user}, table, found);
    return table;
}

struct loading : kernels_on {
    fault_driver wrapped{raw_entry_points()};
    CUresult launched = CUDA_SUCCESS;
};

TEST_F(loading, happens_once_for_any_number_of_threads_and_ends_with_the_instance) {
    const driver_table cu = table_of(wrapped);
    {
        kernel_set kernels(cu);
        EXPECT_EQ(wrapped.calls("cuLibraryLoadData"), 0) << "loaded on first need only";
        EXPECT_TRUE(kernels.may_serve());
        EXPECT_FALSE(kernels.is_loaded());
        std::vector<std::thread> threads;
        for (int i = 0; i < 8; ++i)
            threads.emplace_back([&] { EXPECT_OK(kernels.load().status); });
        for (std::thread &one : threads)
            one.join();
        EXPECT_TRUE(kernels.is_loaded());
        EXPECT_EQ(wrapped.calls("cuLibraryLoadData"), 1);
        EXPECT_EQ(wrapped.calls("cuLibraryUnload"), 0);
    }
    EXPECT_EQ(wrapped.calls("cuLibraryUnload"), 1);
}

TEST_F(loading, reports_a_failure_and_does_not_try_again) {
    const driver_table cu = table_of(wrapped);
    for (const char *const entry : {"cuLibraryLoadData", "cuLibraryGetKernel"}) {
        wrapped.reset_counts();
        wrapped.fail(entry, CUDA_ERROR_OUT_OF_MEMORY);
        kernel_set kernels(cu);
        for (int i = 0; i < 3; ++i) {
            const error failed = launch_strided(cu, kernels, {{256, 0, 0}, {512, 0, 0}, 16, 1, 1}, 1, stream);
            EXPECT_EQ(failed.status, FERRY_STATUS_DRIVER_BASE - CUDA_ERROR_OUT_OF_MEMORY);
        }
        EXPECT_FALSE(kernels.may_serve());
        EXPECT_EQ(kernels.missing_entry_point(), nullptr);
        EXPECT_EQ(wrapped.calls("cuLibraryLoadData"), 1);
        EXPECT_EQ(wrapped.calls("cuLaunchKernel"), 0);
    }
    EXPECT_EQ(wrapped.calls("cuLibraryUnload"), 1) << "only the library that was loaded and lacked a kernel";
}

// What the driver reports of its version and of the devices, and the images that it was given.
struct machine {
    int version = 0, major = 0, minor = 0;
    CUresult refusal = CUDA_SUCCESS; // of native code
};
machine seen_machine;
std::vector<const void *> loaded_images;

TEST_F(loading, native_code_is_loaded_where_all_devices_and_the_driver_can_use_it) {
    if (native_kernels[0] == 0) GTEST_SKIP() << "this build has none";
    driver_table cu = raw();
    cu.cuDriverGetVersion = [](int *version) {
        *version = seen_machine.version;
        return CUDA_SUCCESS;
    };
    cu.cuDeviceGetAttribute = [](int *value, CUdevice_attribute which, CUdevice device) {
        const bool is_last = device == device_count() - 1; // the others are as good as any
        if (which == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) *value = is_last ? seen_machine.major : 9;
        if (which == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR) *value = is_last ? seen_machine.minor : 0;
        return CUDA_SUCCESS;
    };
    cu.cuLibraryLoadData = [](CUlibrary *library, const void *image, CUjit_option *options, void **values,
                              unsigned count, CUlibraryOption *library_options, void **library_values,
                              unsigned library_count) -> CUresult {
        loaded_images.push_back(image);
        if (image == native_kernels && seen_machine.refusal) return seen_machine.refusal;
        return raw().cuLibraryLoadData(library, image, options, values, count, library_options, library_values,
                                       library_count);
    };
    const struct {
        machine seen;
        std::vector<const void *> images;
        const char *what;
    } all[] = {
        {{13000, 9, 0}, {native_kernels}, "Hopper"},
        {{12040, 8, 0}, {native_kernels}, "A100"},
        {{12040, 8, 9}, {native_kernels}, "Ada"},
        {{12030, 9, 0}, {portable_kernels}, "a driver that cannot decompress it"},
        {{13000, 8, 7}, {portable_kernels}, "Orin"},
        {{13000, 7, 5}, {portable_kernels}, "Turing"},
        {{13000, 10, 0}, {portable_kernels}, "Blackwell"},
        {{13000, 9, 1}, {portable_kernels}, "a later one of the same major version"},
        {{13000, 9, 0, CUDA_ERROR_INVALID_IMAGE}, {native_kernels, portable_kernels}, "refused"},
        {{13000, 9, 0, CUDA_ERROR_NO_BINARY_FOR_GPU}, {native_kernels, portable_kernels}, "refused for the device"},
    };
    for (const auto &one : all) {
        SCOPED_TRACE(one.what);
        seen_machine = one.seen;
        loaded_images.clear();
        kernel_set kernels(cu);
        EXPECT_OK(kernels.load().status);
        EXPECT_EQ(loaded_images, one.images);
        const device_memory from(64), to(64);
        const bytes data = random_bytes(64, 18);
        write_for_all_streams(from, data);
        EXPECT_OK(launch_strided(raw(), kernels, {{to, 0, 0}, {from, 0, 0}, 64, 1, 1}, 1, nullptr).status);
        EXPECT_EQ(read_back(to, 64), data);
    }
}

TEST_F(loading, without_an_entry_point_names_it) {
    for (const char *const entry : {"cuLibraryLoadData", "cuLibraryUnload", "cuLibraryGetKernel", "cuLaunchKernel"}) {
        wrapped.hide(entry);
        const driver_table cu = table_of(wrapped);
        wrapped.heal();
        kernel_set kernels(cu);
        EXPECT_STREQ(kernels.missing_entry_point(), entry);
        EXPECT_FALSE(kernels.may_serve());
        EXPECT_EQ(kernels.load().status, FERRY_ERROR_UNSUPPORTED);
        EXPECT_FALSE(kernels.is_loaded());
    }
}

TEST_F(loading, does_not_break_the_capture_of_another_thread) {
    ASSERT_OK(raw().cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    std::thread([&] {
        const made_current scope(context);
        kernel_set kernels(raw());
        EXPECT_OK(kernels.load().status);
    }).join();
    CUgraph graph = nullptr;
    EXPECT_OK(raw().cuStreamEndCapture(stream, &graph));
    EXPECT_OK(raw().cuGraphDestroy(graph));
}

TEST_F(loading, waits_for_running_work_in_the_context_and_happens_once) {
    CUcontext current = nullptr;
    ASSERT_OK(raw().cuCtxGetCurrent(&current));
    kernel_set kernels(raw());
    std::atomic<bool> is_open = false;
    gate held(stream);
    std::thread opener([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(30)); // a wrong driver would return meanwhile
        is_open = true;
        held.let_go();
    });
    EXPECT_OK(kernels.load_into(current).status);
    EXPECT_TRUE(is_open);
    opener.join();
    EXPECT_OK(raw().cuStreamSynchronize(stream));
    gate again(stream);
    EXPECT_OK(kernels.load_into(current).status);
}

TEST_F(loading, serves_every_context) {
    const device_memory memory(64);
    ASSERT_OK(loaded.load().status);
    CUcontext another = nullptr;
    ASSERT_OK(raw().cuCtxCreate(&another, 0, 0));
    {
        const device_memory from(64), to(64);
        const bytes data = random_bytes(64, 18);
        write_for_all_streams(from, data);
        EXPECT_OK(launch_strided(raw(), loaded, {{to, 0, 0}, {from, 0, 0}, 64, 1, 1}, 1, nullptr).status);
        EXPECT_EQ(read_back(to, 64), data);
    }
    EXPECT_OK(raw().cuCtxDestroy(another));
}

TEST_F(loading, refuses_data_that_is_not_a_kernel_image) {
    CUlibrary library = nullptr;
    for (const char *const image : {"", "garbage",
                                    // CUDA 13.0 parses a long text only when the first kernel is looked up.
                                    "this is no program, however long the text may be that says so"}) {
        CUkernel kernel = nullptr;
        const CUresult loaded = raw().cuLibraryLoadData(&library, image, nullptr, nullptr, 0, nullptr, nullptr, 0);
        EXPECT_TRUE(loaded || raw().cuLibraryGetKernel(&kernel, library, gpu::entry_names[0]));
    }
    EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE,
                  raw().cuLibraryLoadData(&library, nullptr, nullptr, nullptr, 0, nullptr, nullptr, 0));
}

TEST_F(loading, finds_only_kernels_that_exist) {
    CUlibrary library = nullptr;
    ASSERT_OK(raw().cuLibraryLoadData(&library, portable_kernels, nullptr, nullptr, 0, nullptr, nullptr, 0));
    CUkernel kernel = nullptr;
    EXPECT_RESULT(CUDA_ERROR_NOT_FOUND, raw().cuLibraryGetKernel(&kernel, library, "ferry_nothing"));
    for (const char *const name : gpu::entry_names)
        EXPECT_OK(raw().cuLibraryGetKernel(&kernel, library, name)) << name;
    const auto launch = [&](unsigned blocks, unsigned threads) {
        gpu::fill_parameters nothing = {};
        nothing.over.per_row = nothing.over.rows_per_slice = 1;
        void *parameters[] = {&nothing};
        ASSERT_OK(raw().cuLibraryGetKernel(&kernel, library, "ferry_fill_1"));
        launched = raw().cuLaunchKernel(reinterpret_cast<CUfunction>(kernel), blocks, 1, 1, threads, 1, 1, 0, stream,
                                        parameters, nullptr);
    };
    launch(1, 32);
    EXPECT_OK(launched);
    launch(0, 32);
    EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, launched);
    launch(1, 0);
    EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, launched);
    launch(1, 2048);
    EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, launched);
    EXPECT_OK(raw().cuStreamSynchronize(stream));
    EXPECT_RESULT(CUDA_ERROR_INVALID_HANDLE,
                  raw().cuLaunchKernel(nullptr, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr));
    EXPECT_OK(raw().cuLibraryUnload(library));
}

void CUDA_CB ignore(CUstream, CUresult, void *) {}

// Runs on the software driver only: a context that a kernel broke stays broken, and a GPU may misbehave further.
TEST_F(kernels_on, an_invalid_address_breaks_the_context_and_no_other) {
    if (!on_software_driver()) GTEST_SKIP() << "not on a GPU";
    ASSERT_OK(loaded.load().status);
    const device_memory elsewhere(64);
    for (const CUdeviceptr address : {elsewhere.address + 64, elsewhere.address - 16, CUdeviceptr{4096}}) {
        CUcontext broken = nullptr;
        ASSERT_OK(raw().cuCtxCreate(&broken, 0, 0));
        CUstream on = nullptr;
        ASSERT_OK(raw().cuStreamCreate(&on, CU_STREAM_NON_BLOCKING));
        EXPECT_OK(launch_strided(raw(), loaded, {{address, 0, 0}, {elsewhere, 0, 0}, 16, 1, 1}, 1, on).status);
        CUcontext popped = nullptr;
        ASSERT_OK(raw().cuCtxPopCurrent(&popped));
        EXPECT_RESULT(CUDA_ERROR_ILLEGAL_ADDRESS, raw().cuStreamSynchronize(on)) << "whichever context is current";
        ASSERT_OK(raw().cuCtxPushCurrent(popped));
        EXPECT_RESULT(CUDA_ERROR_ILLEGAL_ADDRESS, raw().cuCtxSynchronize());
        CUdeviceptr memory = 0;
        EXPECT_RESULT(CUDA_ERROR_ILLEGAL_ADDRESS, raw().cuMemAlloc(&memory, 64));
        EXPECT_EQ(launch_strided(raw(), loaded, {{elsewhere, 0, 0}, {elsewhere, 0, 0}, 16, 1, 1}, 1, on).status,
                  FERRY_STATUS_DRIVER_BASE - CUDA_ERROR_ILLEGAL_ADDRESS);
        EXPECT_RESULT(CUDA_ERROR_ILLEGAL_ADDRESS, raw().cuStreamAddCallback(on, ignore, nullptr, 0));
        EXPECT_OK(raw().cuCtxDestroy(broken));
        EXPECT_OK(raw().cuCtxSynchronize()) << "the previous context still works";
    }
}

TEST_F(kernels_on, a_broken_context_moves_no_bytes_once_a_call_has_reported_it) {
    if (!on_software_driver()) GTEST_SKIP() << "not on a GPU";
    ASSERT_OK(loaded.load().status);
    const std::uint64_t size = 64 << 20;
    const pinned_memory later(64), long_copy(size);
    std::memset(later.address, 0x11, 64);
    std::memset(long_copy.address, 0x11, size);
    const device_memory source(size);
    ASSERT_OK(raw().cuMemsetD8(source.address, 0x22, size));
    CUcontext broken = nullptr;
    ASSERT_OK(raw().cuCtxCreate(&broken, 0, 0));
    CUstream on = nullptr, busy = nullptr, held = nullptr;
    for (CUstream *const one : {&on, &busy, &held})
        ASSERT_OK(raw().cuStreamCreate(one, CU_STREAM_NON_BLOCKING));
    const CUdeviceptr host = from_host(later);
    ASSERT_OK(launch_strided(raw(), loaded, {{host, 0, 0}, {host + 16, 0, 0}, 16, 1, 1}, 1, on).status); // loads it
    {
        const gate shut(held);
        ASSERT_OK(raw().cuMemcpyDtoHAsync(later.address, source.address, 32, held));
        ASSERT_OK(raw().cuMemsetD8Async(host + 32, 0x33, 32, held));
        ASSERT_OK(raw().cuMemcpyDtoHAsync(long_copy.address, source.address, size, busy));
        EXPECT_OK(launch_strided(raw(), loaded, {{4096, 0, 0}, {8192, 0, 0}, 16, 1, 1}, 1, on).status);
        while (raw().cuStreamQuery(on) != CUDA_ERROR_ILLEGAL_ADDRESS)
            std::this_thread::yield();
        std::memset(long_copy.address, 0x44, size); // under the thread sanitizer: nothing writes it any more
    }
    ASSERT_OK(raw().cuCtxDestroy(broken)); // waits for its work
    const auto *const found = static_cast<const std::byte *>(later.address);
    EXPECT_EQ(bytes(found, found + 64), bytes(64, std::byte{0x11}));
    const auto *const written = static_cast<const std::byte *>(long_copy.address);
    EXPECT_EQ(bytes(written, written + size), bytes(size, std::byte{0x44}));
}

} // namespace
} // namespace ferry::test
