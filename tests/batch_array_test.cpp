// Tests batches that copy boxes out of arrays. Where ferry created the arrays for surfaces, kernels read them, many
// boxes in one launch.
#include <cstring>

#include "support/captured_graph.h"
#include "support/counted_test.h"
#include "support/ferry_array.h"
#include "support/how.h"

namespace ferry::test {
namespace {

constexpr array_kind volume = {"3D", 64, 48, 40, 0};
constexpr std::uint32_t float_texel = 4;

class batches_of_arrays : public counted_test {
protected:
    void SetUp() override {
        counted_test::SetUp();
        if (!has_kernels()) GTEST_SKIP() << "the driver cannot load kernels";
        if (!ferry_instance_get_proc(counted.get(), "cuSurfObjectCreate", 12000))
            GTEST_SKIP() << "the driver has no surfaces";
    }
    std::int32_t copy(const std::vector<ferry_copy_desc> &copies, const how &options = {}) {
        return ferry_copy_batch_async(counted.get(), copies.data(), copies.size(), options, stream, nullptr, nullptr);
    }
    int launches() const { return driver.calls("cuLaunchKernel"); }
    int copies_by_the_driver() const { return driver.calls_beginning("cuMemcpy"); }
};

// Device memory that collects boxes one after the other. The bytes between the boxes must not change.
class catcher {
public:
    explicit catcher(std::uint64_t size) : expected_(size, std::byte{0x5a}), memory_(size) { clear(); }

    // Describes a copy of a box at `at` to the next free place, `lead` bytes past a multiple of 256, with the given
    // gaps between rows and slices. `at` and `size` are in bytes, rows and slices.
    ferry_copy_desc add(const ferry_array &from, const std::uint64_t (&at)[3], const std::uint64_t (&size)[3],
                        std::uint64_t lead = 0, std::uint64_t row_gap = 0, std::uint64_t slice_gap = 0) {
        ferry_copy_desc copy = {};
        copy.source.kind = FERRY_KIND_ARRAY;
        copy.source.array = from.array();
        copy.source.x = at[0];
        copy.source.y = at[1];
        copy.source.z = at[2];
        copy.width = size[0];
        copy.height = size[1];
        copy.depth = size[2];
        copy.destination.address = memory_ + next_ + lead;
        copy.destination.row_pitch = copy.width + row_gap;
        copy.destination.slice_height = copy.height + slice_gap;
        expect(from, copy);
        next_ +=
            (lead + copy.destination.row_pitch * copy.destination.slice_height * copy.depth + 64 + 255) / 256 * 256;
        EXPECT_LE(next_, expected_.size());
        return copy;
    }
    void expect(const ferry_array &from, const ferry_copy_desc &copy) {
        const std::uint64_t to = copy.destination.address - memory_;
        for (std::uint64_t z = 0; z < copy.depth; ++z)
            for (std::uint64_t y = 0; y < copy.height; ++y)
                std::memcpy(&expected_[to + (z * copy.destination.slice_height + y) * copy.destination.row_pitch],
                            &from.picture[((copy.source.z + z) * from.rows + copy.source.y + y) * from.row_bytes +
                                          copy.source.x],
                            copy.width);
    }
    void clear() {
        write_for_all_streams(memory_, bytes(expected_.size(), std::byte{0x5a}));
        EXPECT_OK(raw().cuCtxSynchronize());
    }
    void check(CUstream stream) {
        ASSERT_OK(raw().cuStreamSynchronize(stream));
        EXPECT_TRUE(read_back(memory_, expected_.size()) == expected_);
    }
    void expect_nothing(CUstream stream) {
        ASSERT_OK(raw().cuStreamSynchronize(stream));
        EXPECT_TRUE(read_back(memory_, expected_.size()) == bytes(expected_.size(), std::byte{0x5a}));
    }
    CUdeviceptr end() const { return memory_ + expected_.size(); }

private:
    bytes expected_;
    const device_memory memory_;
    std::uint64_t next_ = 0;
};

// Small boxes of one size at random places in a volume of floats.
std::vector<ferry_copy_desc> small_boxes(const ferry_array &from, catcher &to, std::size_t count, std::uint64_t seed) {
    std::mt19937_64 random(seed);
    std::vector<ferry_copy_desc> copies;
    for (std::size_t i = 0; i < count; ++i)
        copies.push_back(to.add(from,
                                {random() % (volume.width - 7) * float_texel, random() % (volume.height - 4),
                                 random() % (volume.depth - 3)},
                                {8 * float_texel, 5, 4}));
    return copies;
}
constexpr std::uint64_t small_box_room = 8 * float_texel * 5 * 4 + 256;

TEST_F(batches_of_arrays, boxes_of_every_array_kind_and_texel_share_a_batch_with_lines_and_boxes_of_memory) {
    std::mt19937_64 random(41);
    const auto up_to = [&](std::uint64_t most) { return random() % (most + 1); };
    for (const texel &texel : texels)
        for (ferry_instance *const instance : {basic.get(), full.get()}) {
            SCOPED_TRACE(testing::Message() << "texels of " << texel.size);
            std::vector<std::unique_ptr<ferry_array>> arrays;
            for (const array_kind &kind : array_kinds) {
                arrays.push_back(std::make_unique<ferry_array>(instance, kind, texel));
                arrays.back()->fill(random());
            }
            catcher to(8 << 20);
            std::vector<ferry_copy_desc> copies;
            for (int i = 0; i < 300; ++i) {
                const ferry_array &from = *arrays[random() % arrays.size()];
                const std::uint64_t x = up_to(from.row_bytes / texel.size - 1) * texel.size, y = up_to(from.rows - 1),
                                    z = up_to(from.slices - 1);
                const std::uint64_t width =
                    (1 + up_to(std::min<std::uint64_t>((from.row_bytes - x) / texel.size - 1, 20))) * texel.size;
                copies.push_back(to.add(from, {x, y, z},
                                        {width, 1 + up_to(std::min<std::uint64_t>(from.rows - y - 1, 9)),
                                         1 + up_to(std::min<std::uint64_t>(from.slices - z - 1, 4))},
                                        up_to(17), up_to(20), up_to(2)));
            }
            // Lines and boxes of memory in the same batch.
            constexpr std::uint64_t line = 3000, pitch = 100;
            const bytes data = random_bytes(line * pitch, 9);
            const device_memory linear(data.size()), beside(data.size());
            write_for_all_streams(linear, data);
            write_for_all_streams(beside, bytes(data.size()));
            ASSERT_OK(raw().cuCtxSynchronize());
            for (std::uint64_t i = 0; i < 60; ++i) {
                ferry_copy_desc copy = {};
                copy.source.address = linear + i * line;
                copy.destination.address = beside + i * line;
                copy.source.row_pitch = copy.destination.row_pitch = i % 2 ? pitch : 0;
                copy.width = i % 2 ? 1 + up_to(pitch - 1) : line - 1;
                copy.height = i % 2 ? line / pitch : 1;
                copies.push_back(copy);
            }
            std::shuffle(copies.begin(), copies.end(), random);
            ferry_error_info error = new_error();
            const bool is_synchronous = random() % 2;
            const std::int32_t status =
                is_synchronous
                    ? ferry_copy_batch(instance, copies.data(), copies.size(), check_overlap, &error)
                    : ferry_copy_batch_async(instance, copies.data(), copies.size(), nullptr, stream, nullptr, &error);
            ASSERT_OK(status) << describe(error) << " at " << error.index;
            to.check(stream);
            const bytes found = read_back(beside, data.size());
            for (const ferry_copy_desc &copy : copies)
                for (std::uint64_t y = 0; copy.source.kind != FERRY_KIND_ARRAY && y < copy.height; ++y) {
                    const std::uint64_t at = copy.source.address - linear + y * pitch;
                    ASSERT_EQ(0, std::memcmp(&found[at], &data[at], copy.width));
                }
        }
}

TEST_F(batches_of_arrays, many_boxes_take_one_launch_and_each_array_one_query_and_one_surface) {
    constexpr std::size_t count = 1000;
    ferry_array first(counted.get(), volume, texels[2]), second(counted.get(), volume, texels[2]);
    first.fill(1);
    second.fill(2);
    catcher to(2 * count * small_box_room);
    std::vector<ferry_copy_desc> copies = small_boxes(first, to, count, 3);
    const std::vector<ferry_copy_desc> others = small_boxes(second, to, count, 4);
    copies.insert(copies.end(), others.begin(), others.end());
    std::shuffle(copies.begin(), copies.end(), std::mt19937_64(5));
    for (int round = 0; round < 2; ++round) {
        to.clear();
        driver.reset_counts();
        ASSERT_OK(copy(copies));
        EXPECT_EQ(launches(), 1);
        EXPECT_EQ(copies_by_the_driver(), 0);
        EXPECT_EQ(driver.calls_beginning("cuArray3DGetDescriptor"), 2);
        EXPECT_EQ(driver.calls("cuSurfObjectCreate"), round == 0 ? 2 : 0);
        EXPECT_LE(driver.calls_beginning("cuPointerGetAttribute"), 6);
        to.check(stream);
    }
    first.destroy(); // nothing else makes ferry destroy the surface
    EXPECT_EQ(driver.calls("cuSurfObjectDestroy"), 1);
}

TEST_F(batches_of_arrays, few_boxes_travel_in_the_parameters_of_one_launch) {
    constexpr std::size_t count = 46;
    ferry_array from(counted.get(), volume, texels[2]);
    from.fill(1);
    catcher to(count * small_box_room);
    const std::vector<ferry_copy_desc> copies = small_boxes(from, to, count, 3);
    ASSERT_OK(copy(copies));
    EXPECT_EQ(launches(), 1);
    EXPECT_EQ(copies_by_the_driver(), 0);
    EXPECT_EQ(driver.calls_beginning("cuMemHostAlloc") + driver.calls_beginning("cuMemHostRegister"), 0) << "no table";
    to.check(stream);
}

TEST_F(batches_of_arrays, an_array_may_be_destroyed_while_its_boxes_are_in_flight) {
    constexpr std::size_t count = 200;
    catcher to(count * small_box_room);
    ferry_array from(counted.get(), volume, texels[2]);
    from.fill(6);
    ASSERT_OK(copy(small_boxes(from, to, count, 7)));
    from.destroy();
    EXPECT_EQ(driver.calls("cuSurfObjectDestroy"), 1);
    to.check(stream);
}

TEST_F(batches_of_arrays, boxes_are_copied_to_pinned_memory) {
    ferry_array from(counted.get(), volume, texels[2]);
    from.fill(8);
    constexpr std::uint64_t count = 300, row = 32, rows = 6;
    const pinned_memory to(count * row * rows);
    std::memset(to.data(), 0, to.size);
    std::vector<ferry_copy_desc> copies(count);
    for (std::uint64_t i = 0; i < count; ++i) {
        copies[i].source.kind = FERRY_KIND_ARRAY;
        copies[i].source.array = from.array();
        copies[i].source.x = i % 56 * float_texel;
        copies[i].source.y = i % 40;
        copies[i].source.z = i % 39;
        copies[i].destination.address = reinterpret_cast<std::uintptr_t>(to.data()) + i * row * rows;
        copies[i].width = row;
        copies[i].height = rows;
    }
    ASSERT_OK(copy(copies));
    ASSERT_OK(raw().cuStreamSynchronize(stream));
    const bytes found = to.copy();
    for (const ferry_copy_desc &one : copies)
        for (std::uint64_t y = 0; y < rows; ++y)
            ASSERT_EQ(
                0, std::memcmp(
                       &found[(static_cast<std::uint64_t>(&one - copies.data()) * rows + y) * row],
                       &from.picture[((one.source.z * from.rows) + one.source.y + y) * from.row_bytes + one.source.x],
                       row));
}

TEST_F(batches_of_arrays, a_bad_box_is_refused_with_its_index_before_anything_is_enqueued) {
    constexpr std::uint64_t index = 23;
    ferry_array from(counted.get(), volume, texels[2]);
    from.fill(1);
    const struct {
        const char *what;
        void (*spoil)(ferry_copy_desc &, CUdeviceptr end);
        std::int32_t status, side, field;
    } bad[] = {
        {"past the row", [](ferry_copy_desc &copy, CUdeviceptr) { copy.source.x = 57 * float_texel; },
         FERRY_ERROR_OUT_OF_BOUNDS, FERRY_SIDE_SOURCE, FERRY_FIELD_X},
        {"past the slice", [](ferry_copy_desc &copy, CUdeviceptr) { copy.source.y = 44; }, FERRY_ERROR_OUT_OF_BOUNDS,
         FERRY_SIDE_SOURCE, FERRY_FIELD_Y},
        {"past the array", [](ferry_copy_desc &copy, CUdeviceptr) { copy.source.z = 37; }, FERRY_ERROR_OUT_OF_BOUNDS,
         FERRY_SIDE_SOURCE, FERRY_FIELD_Z},
        {"beyond 64 bits", [](ferry_copy_desc &copy, CUdeviceptr) { copy.source.x = UINT64_MAX - 3; },
         FERRY_ERROR_OVERFLOW, FERRY_SIDE_SOURCE, FERRY_FIELD_X},
        {"within a texel", [](ferry_copy_desc &copy, CUdeviceptr) { copy.source.x = 6; }, FERRY_ERROR_ARRAY_FORMAT,
         FERRY_SIDE_SOURCE, FERRY_FIELD_X},
        {"without a destination", [](ferry_copy_desc &copy, CUdeviceptr) { copy.destination.address = 0; },
         FERRY_ERROR_ADDRESS, FERRY_SIDE_DESTINATION, FERRY_FIELD_ADDRESS},
        {"past the destination", [](ferry_copy_desc &copy, CUdeviceptr end) { copy.destination.address = end - 100; },
         FERRY_ERROR_OUT_OF_BOUNDS, FERRY_SIDE_DESTINATION, FERRY_FIELD_ADDRESS},
        {"without an array", [](ferry_copy_desc &copy, CUdeviceptr) { copy.source.array = nullptr; },
         FERRY_ERROR_ADDRESS, FERRY_SIDE_SOURCE, FERRY_FIELD_ARRAY},
        {"with a reserved field", [](ferry_copy_desc &copy, CUdeviceptr) { copy.source.reserved[2] = 1; },
         FERRY_ERROR_RESERVED, FERRY_SIDE_SOURCE, FERRY_FIELD_RESERVED},
        {"with a reserved field of the descriptor", [](ferry_copy_desc &copy, CUdeviceptr) { copy.reserved[4] = 1; },
         FERRY_ERROR_RESERVED, FERRY_SIDE_DESCRIPTOR, FERRY_FIELD_RESERVED},
    };
    for (ferry_instance *const instance : {basic.get(), full.get()})
        for (const auto &one : bad) {
            SCOPED_TRACE(one.what);
            catcher to(60 * small_box_room);
            std::vector<ferry_copy_desc> copies = small_boxes(from, to, 60, 9);
            one.spoil(copies[index], to.end());
            ferry_error_info error = new_error();
            expect_refusal(
                ferry_copy_batch_async(instance, copies.data(), copies.size(), nullptr, stream, nullptr, &error), error,
                one.status, one.side, one.field);
            EXPECT_EQ(error.index, index);
            to.expect_nothing(stream);
        }
}

TEST_F(batches_of_arrays, a_captured_batch_copies_at_every_launch_of_the_graph) {
    constexpr std::size_t count = 100;
    ferry_array from(counted.get(), volume, texels[2]);
    from.fill(1);
    catcher to(count * small_box_room);
    const std::vector<ferry_copy_desc> copies = small_boxes(from, to, count, 10);
    captured_graph graph(stream);
    EXPECT_OK(copy(copies)); // loads the kernels and creates the surface within the capture
    EXPECT_EQ(launches(), 3) << "boxes travel in the parameters: a table would not outlive the capture";
    EXPECT_EQ(copies_by_the_driver(), 0);
    graph.end();
    for (const std::uint64_t seed : {2u, 3u}) {
        from.fill(seed);
        for (const ferry_copy_desc &one : copies)
            to.expect(from, one);
        graph.run();
        to.check(stream);
    }
}

TEST_F(batches_of_arrays, a_prepared_batch_is_launched_and_captured) {
    constexpr std::size_t count = 100;
    ferry_array from(counted.get(), volume, texels[2]);
    from.fill(1);
    catcher to(count * small_box_room);
    const std::vector<ferry_copy_desc> copies = small_boxes(from, to, count, 11);
    ferry_prepared *prepared = nullptr;
    ASSERT_OK(ferry_prepared_create(counted.get(), copies.data(), copies.size(), nullptr, stream, &prepared, nullptr));
    for (int round = 0; round < 2; ++round) {
        driver.reset_counts();
        ASSERT_OK(ferry_prepared_launch(prepared, nullptr, stream, nullptr, nullptr));
        EXPECT_EQ(launches(), 1);
        EXPECT_EQ(copies_by_the_driver(), 0);
        to.check(stream);
        to.clear();
    }
    captured_graph graph(stream);
    EXPECT_OK(ferry_prepared_launch(prepared, nullptr, stream, nullptr, nullptr));
    graph.end();
    graph.run();
    to.check(stream);
    // A surface belongs to one context.
    CUctx_st *other = nullptr;
    ASSERT_OK(ferry_context_create(counted.get(), 0, 0, &other, nullptr));
    ASSERT_OK(ferry_context_adopt(counted.get(), 0, other, nullptr));
    {
        const made_current in_other(other);
        driver.reset_counts();
        ferry_prepared_launch(prepared, nullptr, nullptr, nullptr,
                              nullptr); // the driver may refuse an array of another context
        EXPECT_EQ(launches(), 0);
        EXPECT_GT(copies_by_the_driver(), 0);
        EXPECT_OK(raw().cuCtxSynchronize());
    }
    ASSERT_OK(ferry_context_destroy(counted.get(), other, nullptr));
    EXPECT_OK(ferry_prepared_destroy(prepared, nullptr));
}

TEST_F(batches_of_arrays, options_of_the_batch_apply_to_each_copy) {
    constexpr std::size_t count = 50;
    ferry_array from(counted.get(), volume, texels[2]);
    from.fill(1);
    const struct {
        how options;
        bool takes_kernels;
    } rows[] = {
        {by_driver, false}, {no_kernels, false}, {by_kernel, true}, {urgent, true}, {by_kernel | max_sms(1), true}};
    for (const auto &row : rows) {
        SCOPED_TRACE(row.options);
        catcher to(count * small_box_room);
        const std::vector<ferry_copy_desc> copies = small_boxes(from, to, count, 12);
        driver.reset_counts();
        ASSERT_OK(copy(copies, row.options));
        EXPECT_EQ(launches(), row.takes_kernels ? static_cast<int>(count) : 0) << "each box has a launch of its own";
        EXPECT_EQ(copies_by_the_driver(), row.takes_kernels ? 0 : static_cast<int>(count));
        to.check(stream);
    }
}

TEST_F(batches_of_arrays, the_driver_copies_arrays_that_kernels_cannot_read) {
    constexpr std::size_t count = 60;
    ferry_array plain(counted.get(), volume, texels[2], 0), made(counted.get(), volume, texels[2]);
    plain.fill(1);
    made.fill(2);
    catcher to(2 * count * small_box_room);
    std::vector<ferry_copy_desc> copies = small_boxes(plain, to, count, 13);
    ASSERT_OK(copy(copies));
    EXPECT_EQ(launches(), 0);
    EXPECT_GT(copies_by_the_driver(), 0);
    const std::vector<ferry_copy_desc> others = small_boxes(made, to, count, 14);
    copies.insert(copies.end(), others.begin(), others.end());
    std::shuffle(copies.begin(), copies.end(), std::mt19937_64(15));
    driver.reset_counts();
    ASSERT_OK(copy(copies));
    EXPECT_GT(launches(), 0) << "kernels read the other arrays";
    EXPECT_GT(copies_by_the_driver(), 0);
    to.check(stream);
}

TEST_F(batches_of_arrays, without_surfaces_or_kernels_the_driver_copies) {
    constexpr std::size_t count = 60;
    const auto expect_no_kernel = [&](ferry_instance *instance) {
        ferry_array from(instance, volume, texels[2]);
        from.fill(1);
        catcher to(count * small_box_room);
        const std::vector<ferry_copy_desc> copies = small_boxes(from, to, count, 16);
        driver.reset_counts();
        ASSERT_OK(ferry_copy_batch_async(instance, copies.data(), copies.size(), nullptr, stream, nullptr, nullptr));
        EXPECT_EQ(launches(), 0);
        EXPECT_GT(copies_by_the_driver(), 0);
        to.check(stream);
        driver.heal();
    };
    {
        SCOPED_TRACE("a surface cannot be made");
        driver.fail("cuSurfObjectCreate", CUDA_ERROR_OUT_OF_MEMORY, 1, true);
        expect_no_kernel(counted.get());
    }
    for (const char *const entry : {"cuSurfObjectCreate", "cuLaunchKernel"}) {
        SCOPED_TRACE(entry);
        driver.hide(entry);
        const instance_owner bare = open_or_fail(driver.options());
        expect_no_kernel(bare.get());
    }
    {
        SCOPED_TRACE("kernels cannot be loaded");
        driver.fail("cuLibraryLoadData", CUDA_ERROR_UNSUPPORTED_PTX_VERSION, 1, true);
        const instance_owner unloaded = open_or_fail(driver.options());
        expect_no_kernel(unloaded.get());
    }
}

TEST_F(batches_of_arrays, a_failed_launch_is_reported_and_the_next_batch_works) {
    constexpr std::size_t count = 100;
    ferry_array from(counted.get(), volume, texels[2]);
    from.fill(1);
    catcher to(count * small_box_room);
    const std::vector<ferry_copy_desc> copies = small_boxes(from, to, count, 17);
    const auto try_again = [&] {
        driver.heal();
        to.clear();
        ASSERT_OK(copy(copies));
        to.check(stream);
        to.clear();
    };
    driver.fail("cuLaunchKernel", CUDA_ERROR_UNKNOWN);
    EXPECT_EQ(copy(copies), FERRY_STATUS_DRIVER_BASE - CUDA_ERROR_UNKNOWN);
    to.expect_nothing(stream);
    try_again();
    for (int nth = 1; nth <= 6; ++nth) {
        SCOPED_TRACE(testing::Message() << "look-up number " << nth);
        driver.fail("cuPointerGetAttributes", CUDA_ERROR_UNKNOWN, nth);
        const std::int32_t status = copy(copies);
        if (status) {
            EXPECT_EQ(status, FERRY_STATUS_DRIVER_BASE - CUDA_ERROR_UNKNOWN);
            to.expect_nothing(stream);
        } else { // the table's look-up failed, and the boxes travelled in the parameters
            to.check(stream);
        }
        try_again();
    }
}

TEST_F(batches_of_arrays, without_memory_for_a_table_boxes_travel_in_parameters) {
    constexpr std::size_t count = 100;
    ferry_array from(counted.get(), volume, texels[2]);
    from.fill(1);
    catcher to(count * small_box_room);
    const std::vector<ferry_copy_desc> copies = small_boxes(from, to, count, 18);
    for (const char *const entry : {"cuMemHostAlloc", "cuMemHostRegister"})
        driver.fail(entry, CUDA_ERROR_OUT_OF_MEMORY, 1, true);
    driver.reset_counts();
    ASSERT_OK(copy(copies));
    EXPECT_EQ(copies_by_the_driver(), 0);
    to.check(stream);
}

} // namespace
} // namespace ferry::test
