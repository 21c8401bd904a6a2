// Tests the kernel route for arrays that ferry created for surfaces: kernels read such an array through a surface, and
// the surface lives as long as its array.
#include <algorithm>
#include <cstring>
#include <random>
#include <thread>

#include "support/captured_graph.h"
#include "support/counted_test.h"
#include "support/ferry_array.h"
#include "support/how.h"
#include "support/program_threads.h"
#include "support/raw_objects.h"

namespace ferry::test {
namespace {

constexpr std::uint64_t guard = 64;

class array_routes : public counted_test {
protected:
    void SetUp() override {
        counted_test::SetUp();
        if (!has_kernels()) GTEST_SKIP() << "the driver cannot load kernels";
        if (!ferry_instance_get_proc(counted.get(), "cuSurfObjectCreate", 12000))
            GTEST_SKIP() << "the driver has no surfaces";
    }
    void TearDown() override {
        counted_test::TearDown();
        EXPECT_EQ(surfaces(), 0) << "surfaces leaked";
    }

    // Describes a packed copy of the whole array.
    static ferry_copy_desc whole(const ferry_array &from, std::uint64_t to) {
        ferry_copy_desc copy = {};
        copy.source.kind = FERRY_KIND_ARRAY;
        copy.source.array = from.array();
        copy.destination.address = to;
        copy.width = from.row_bytes;
        copy.height = from.rows;
        copy.depth = from.slices;
        return copy;
    }
    std::int32_t copy_async(const ferry_copy_desc &copy, const how &options = by_kernel,
                            ferry_error_info *error = nullptr) {
        return ferry_copy_async(counted.get(), &copy, options, stream, nullptr, error);
    }
    void expect_all_of(const ferry_array &from, CUdeviceptr to) {
        ASSERT_OK(raw().cuStreamSynchronize(stream));
        EXPECT_TRUE(read_back(to, from.picture.size()) == from.picture);
    }
    void expect_refusal_as_array(const ferry_copy_desc &copy) {
        ferry_error_info error = new_error();
        expect_refusal(copy_async(copy, by_kernel, &error), error, FERRY_ERROR_ROUTE, FERRY_SIDE_OPTIONS,
                       FERRY_FIELD_ROUTE);
        EXPECT_EQ(error.value, static_cast<std::uint64_t>(FERRY_OBSTACLE_ARRAY));
    }
    int made() const { return driver.calls("cuSurfObjectCreate"); }
    int destroyed() const { return driver.calls("cuSurfObjectDestroy"); }
    int surfaces() const { return earlier_ + made() - destroyed(); }
    void reset_counts() {
        earlier_ = surfaces();
        driver.reset_counts();
    }

    void note_failed_making() { --earlier_; }
    void forget_surfaces() { earlier_ = destroyed() - made(); }

private:
    int earlier_ = 0; // live surfaces when the counts were last reset
};

TEST_F(array_routes, a_kernel_copies_boxes_of_every_array_kind_and_texel_size) {
    std::mt19937_64 random(31);
    const auto up_to = [&](std::uint64_t most) { return random() % (most + 1); };
    for (const array_kind &kind : array_kinds)
        for (const texel &texel : texels) {
            ferry_array from(counted.get(), kind, texel);
            from.fill(random());
            for (int round = 0; round < 8; ++round) {
                SCOPED_TRACE(testing::Message() << kind.name << ", texels of " << texel.size << ", round " << round);
                ferry_copy_desc copy = whole(from, 0);
                if (round > 1) {
                    copy.source.x = up_to(from.row_bytes / texel.size - 1) * texel.size;
                    copy.source.y = up_to(from.rows - 1);
                    copy.source.z = up_to(from.slices - 1);
                    copy.width = (1 + up_to((from.row_bytes - copy.source.x) / texel.size - 1)) * texel.size;
                    copy.height = 1 + up_to(from.rows - copy.source.y - 1);
                    copy.depth = 1 + up_to(from.slices - copy.source.z - 1);
                }
                const std::uint64_t row_pitch = copy.width + (round ? up_to(20) : 0);
                const std::uint64_t slice_height = copy.height + (round ? up_to(2) : 0);
                const std::uint64_t lead = round ? up_to(17) : 0, size = row_pitch * slice_height * copy.depth;
                copy.destination.row_pitch = row_pitch;
                copy.destination.slice_height = slice_height;

                bytes expected(lead + size + guard, std::byte{0xa5});
                for (std::uint64_t z = 0; z < copy.depth; ++z)
                    for (std::uint64_t y = 0; y < copy.height; ++y)
                        std::copy_n(
                            &from.picture[((copy.source.z + z) * from.rows + copy.source.y + y) * from.row_bytes +
                                          copy.source.x],
                            copy.width, &expected[lead + (z * slice_height + y) * row_pitch]);
                const bool to_host = round % 4 == 3;
                const device_memory on_device(expected.size());
                const pinned_memory on_host(expected.size());
                const bytes before(expected.size(), std::byte{0xa5});
                std::memcpy(on_host.data(), before.data(), before.size());
                write_for_all_streams(on_device, before);
                ASSERT_OK(raw().cuCtxSynchronize());
                copy.destination.address = lead + (to_host ? reinterpret_cast<std::uintptr_t>(on_host.data())
                                                           : static_cast<std::uint64_t>(on_device));
                reset_counts();
                ferry_error_info error = new_error();
                if (round % 2) {
                    ASSERT_OK(ferry_copy(counted.get(), &copy, by_kernel, &error)) << describe(error);
                } else {
                    ASSERT_OK(copy_async(copy, by_kernel, &error)) << describe(error);
                    ASSERT_OK(raw().cuStreamSynchronize(stream));
                }
                EXPECT_EQ(driver.calls("cuLaunchKernel"), 1);
                EXPECT_EQ(driver.calls_beginning("cuMemcpy"), 0);
                EXPECT_EQ(made(), round == 0) << "one surface per array";
                ASSERT_TRUE((to_host ? on_host.copy() : read_back(on_device, expected.size())) == expected);
            }
            from.destroy();
            EXPECT_EQ(surfaces(), 0);
        }
}

TEST_F(array_routes, the_driver_copies_other_arrays) {
    const device_memory to(1 << 20);
    CUDA_ARRAY3D_DESCRIPTOR foreign = {70, 33, 0, CU_AD_FORMAT_FLOAT, 1, CUDA_ARRAY3D_SURFACE_LDST};
    ferry_copy_desc copy = {};
    copy.source.kind = FERRY_KIND_ARRAY;
    copy.destination.address = to;
    copy.width = 280;
    copy.height = 33;
    ASSERT_OK(raw().cuArray3DCreate(&copy.source.array, &foreign));
    const auto expect = [&] {
        expect_refusal_as_array(copy);
        const how hint = urgent; // not a demand
        EXPECT_OK(copy_async(copy, hint));
        ASSERT_OK(raw().cuStreamSynchronize(stream));
        ferry_explanation told = {};
        told.struct_size = sizeof told;
        EXPECT_OK(ferry_copy_explain_async(counted.get(), &copy, hint, stream, &told, nullptr));
        EXPECT_EQ(told.kernel_obstacle, FERRY_OBSTACLE_ARRAY);
        EXPECT_EQ(told.route, FERRY_ROUTE_DRIVER);
        EXPECT_EQ(driver.calls("cuLaunchKernel") + made(), 0);
    };
    {
        SCOPED_TRACE("of the program's own");
        expect();
    }
    EXPECT_OK(raw().cuArrayDestroy(copy.source.array));
    {
        SCOPED_TRACE("not made for surfaces");
        const ferry_array plain(counted.get(), array_kinds[1], texels[2], 0);
        copy.source.array = plain.array();
        expect();
    }
    const ferry_array both(counted.get(), array_kinds[1], texels[2]);
    copy.destination = {};
    copy.destination.kind = FERRY_KIND_ARRAY;
    copy.destination.array = both.array();
    copy.source = {};
    copy.source.address = to;
    {
        SCOPED_TRACE("as a destination");
        expect();
    }
}

TEST_F(array_routes, a_surface_is_created_on_first_use_and_destroyed_with_its_array) {
    const device_memory to(1 << 20);
    for (const array_kind &kind : {array_kinds[2], array_kinds[8]}) {
        SCOPED_TRACE(kind.name);
        reset_counts();
        {
            ferry_array unused(counted.get(), kind, texels[2]);
            ASSERT_OK(copy_async(whole(unused, to), by_driver));
        }
        EXPECT_EQ(made(), 0);
        ferry_array from(counted.get(), kind, texels[2]);
        from.fill(1);
        for (int round = 0; round < 3; ++round)
            ASSERT_OK(copy_async(whole(from, to)));
        EXPECT_EQ(made(), 1);
        if (from.mipmapped()) {
            CUarray again = nullptr, first = nullptr;
            ASSERT_OK(ferry_mipmapped_array_get_level(counted.get(), from.mipmapped(), 2, &again, nullptr));
            ASSERT_OK(copy_async(whole(from, to)));
            EXPECT_EQ(made(), 1) << "the same level, looked up again, keeps its surface";
            ASSERT_OK(ferry_mipmapped_array_get_level(counted.get(), from.mipmapped(), 0, &first, nullptr));
            ferry_copy_desc copy = whole(from, to);
            copy.source.array = first;
            ASSERT_OK(copy_async(copy));
            EXPECT_EQ(made(), 2) << "each level has its own surface";
        }
        from.destroy(); // copies are still in flight
        EXPECT_EQ(surfaces(), 0);
        EXPECT_OK(raw().cuStreamSynchronize(stream));
    }
}

TEST_F(array_routes, an_array_that_failed_to_be_destroyed_can_still_be_copied) {
    const device_memory to(1 << 20);
    for (const array_kind &kind : {array_kinds[2], array_kinds[8]}) {
        SCOPED_TRACE(kind.name);
        ferry_array from(counted.get(), kind, texels[2]);
        from.fill(2);
        ASSERT_OK(copy_async(whole(from, to)));
        driver.fail(from.mipmapped() ? "cuMipmappedArrayDestroy" : "cuArrayDestroy", CUDA_ERROR_UNKNOWN);
        EXPECT_EQ(FERRY_STATUS_DRIVER_BASE - CUDA_ERROR_UNKNOWN,
                  from.mipmapped() ? ferry_mipmapped_array_destroy(counted.get(), from.mipmapped(), nullptr)
                                   : ferry_array_destroy(counted.get(), from.array(), nullptr));
        ASSERT_OK(raw().cuStreamSynchronize(stream));
        reset_counts();
        write_for_all_streams(to, bytes(from.picture.size()));
        ASSERT_OK(copy_async(whole(from, to)));
        EXPECT_EQ(driver.calls("cuLaunchKernel"), 1);
        EXPECT_EQ(made(), 0);
        expect_all_of(from, to);
        from.destroy();
        EXPECT_EQ(surfaces(), 0);
    }
}

TEST_F(array_routes, closing_destroys_the_remaining_surfaces_and_no_array) {
    const device_memory to(1 << 20);
    ferry_array from(counted.get(), array_kinds[2], texels[2]), level(counted.get(), array_kinds[8], texels[2]);
    ASSERT_OK(copy_async(whole(from, to)));
    ASSERT_OK(copy_async(whole(level, to)));
    ASSERT_OK(raw().cuStreamSynchronize(stream));
    EXPECT_EQ(surfaces(), 2);
    counted.reset();
    EXPECT_EQ(surfaces(), 0);
    from.destroy_by_the_driver();
    level.destroy_by_the_driver();
}

TEST_F(array_routes, no_surface_leaks_if_a_driver_call_fails_while_its_array_is_destroyed) {
    const device_memory to(1 << 20);
    const made_current none(nullptr);
    for (const char *const entry : {"cuCtxGetCurrent", "cuCtxPushCurrent", "cuThreadExchangeStreamCaptureMode",
                                    "cuArrayDestroy", "cuMipmappedArrayDestroy", "cuStreamGetCtx"})
        for (const std::size_t kind : {2, 8}) // an array and a level
            for (int nth = 1, is_reached = true; is_reached; ++nth) {
                SCOPED_TRACE(testing::Message() << entry << ", call " << nth << ", " << array_kinds[kind].name);
                ferry_array from(counted.get(), array_kinds[kind], texels[2]);
                ASSERT_OK(copy_async(whole(from, to)));
                ASSERT_OK(raw().cuStreamSynchronize(stream));
                reset_counts();
                driver.fail(entry, CUDA_ERROR_NOT_PERMITTED, nth);
                const bool is_gone = from.try_to_destroy() == FERRY_SUCCESS;
                is_reached = driver.calls(entry) >= nth;
                driver.heal();
                if (!is_gone) from.destroy();
            }
    counted.reset();
    EXPECT_EQ(surfaces(), 0);
}

TEST_F(array_routes, surfaces_are_destroyed_with_their_context) {
    const device_memory to(1 << 20);
    CUctx_st *own = nullptr;
    ASSERT_OK(ferry_context_create(counted.get(), 0, 0, &own, nullptr));
    ASSERT_OK(ferry_context_adopt(counted.get(), 0, own, nullptr));
    const ferry_array_desc desc = {.struct_size = sizeof desc,
                                   .format = FERRY_FORMAT_FLOAT,
                                   .channels = 1,
                                   .flags = FERRY_ARRAY_SURFACE,
                                   .width = 64,
                                   .height = 8,
                                   .depth = 0};
    ferry_copy_desc copy = {};
    copy.source.kind = FERRY_KIND_ARRAY;
    copy.width = 256;
    copy.height = 8;
    ASSERT_OK(ferry_array_create(counted.get(), 0, &desc, &copy.source.array, nullptr));
    ASSERT_OK(ferry_device_alloc(counted.get(), 0, 4096, &copy.destination.address, nullptr));
    {
        const made_current in_own(own);
        ASSERT_OK(ferry_copy(counted.get(), &copy, by_kernel, nullptr));
    }
    EXPECT_EQ(made(), 1);
    copy.destination.address = to;
    expect_refusal_as_array(copy); // the stream belongs to another context
    ASSERT_OK(ferry_context_destroy(counted.get(), own, nullptr));
    counted.reset();
    EXPECT_EQ(destroyed(), 0) << "the surface was destroyed with its context";
    forget_surfaces();
}

TEST_F(array_routes, a_copy_out_of_an_array_is_captured_and_replayed) {
    const device_memory to(1 << 20);
    ferry_array from(counted.get(), array_kinds[4], texels[3]);
    const ferry_copy_desc copy = whole(from, to);
    // The capture itself loads the kernels and creates the surface.
    captured_graph graph(stream);
    EXPECT_OK(copy_async(copy));
    graph.end();
    for (const std::uint64_t seed : {1u, 2u}) {
        from.fill(seed);
        graph.run();
        expect_all_of(from, to);
    }
    EXPECT_EQ(made(), 1);
}

TEST_F(array_routes, without_a_surface_the_driver_copies) {
    const device_memory to(1 << 20);
    ferry_array from(counted.get(), array_kinds[2], texels[4]);
    from.fill(3);
    write_for_all_streams(to, bytes(from.picture.size()));
    driver.fail("cuSurfObjectCreate", CUDA_ERROR_OUT_OF_MEMORY);
    expect_refusal_as_array(whole(from, to));
    EXPECT_EQ(made(), 1);
    note_failed_making();
    reset_counts();
    driver.fail("cuSurfObjectCreate", CUDA_ERROR_OUT_OF_MEMORY);
    ASSERT_OK(copy_async(whole(from, to), urgent));
    EXPECT_EQ(made(), 1);
    note_failed_making();
    EXPECT_EQ(driver.calls("cuLaunchKernel"), 0);
    expect_all_of(from, to);
    reset_counts();
    write_for_all_streams(to, bytes(from.picture.size()));
    ASSERT_OK(copy_async(whole(from, to), urgent));
    EXPECT_EQ(driver.calls("cuLaunchKernel"), 1) << "ferry tries again to create the surface";
    expect_all_of(from, to);
}

TEST_F(array_routes, a_driver_without_surfaces_copies_arrays_itself) {
    for (const char *const entry : {"cuSurfObjectCreate", "cuSurfObjectDestroy"}) {
        SCOPED_TRACE(entry);
        driver.hide(entry);
        const instance_owner bare = open_or_fail(driver.options());
        driver.heal();
        const device_memory to(1 << 20);
        const ferry_array from(bare.get(), array_kinds[2], texels[2]);
        const ferry_copy_desc copy = whole(from, to);
        EXPECT_EQ(FERRY_ERROR_ROUTE, ferry_copy(bare.get(), &copy, by_kernel, nullptr));
        EXPECT_OK(ferry_copy(bare.get(), &copy, nullptr, nullptr));
    }
}

TEST_F(array_routes, concurrent_first_copies_share_one_surface) {
    const device_memory to(1 << 20);
    for (int round = 0; round < 20; ++round) {
        ferry_array from(counted.get(), array_kinds[2], texels[2]);
        const ferry_copy_desc copy = whole(from, to);
        std::thread others[4];
        for (std::thread &one : others)
            one = std::thread([&] { EXPECT_OK(ferry_copy(counted.get(), &copy, by_kernel, nullptr)); });
        for (std::thread &one : others)
            one.join();
        EXPECT_EQ(surfaces(), 1);
    }
}

TEST_F(array_routes, an_explanation_matches_what_the_copy_does) {
    int copies_by_kernel = 0;
    for (const std::uint64_t side : {16u, 128u})
        for (const how &options : {how(), by_kernel, by_driver, no_kernels}) {
            SCOPED_TRACE(testing::Message() << side << " cubed, " << options);
            const ferry_array from(counted.get(), {"3D", side, side, side, 0}, texels[2]);
            const device_memory to(side * side * side * 4);
            const ferry_copy_desc copy = whole(from, to);
            ferry_explanation told = {};
            told.struct_size = sizeof told;
            ASSERT_OK(ferry_copy_explain_async(counted.get(), &copy, options, stream, &told, nullptr));
            EXPECT_EQ(told.kernel_obstacle, options == no_kernels ? FERRY_OBSTACLE_FORBIDDEN : FERRY_OBSTACLE_NONE);
            EXPECT_GT(told.driver_ns, 0u);
            if (!options) {
                EXPECT_EQ(told.route == FERRY_ROUTE_KERNEL, told.kernel_ns * 21 / 20 < told.driver_ns);
            }
            reset_counts();
            ASSERT_OK(copy_async(copy, options));
            EXPECT_EQ(driver.calls(told.driver_call), 1) << told.driver_call;
            EXPECT_EQ(driver.calls("cuLaunchKernel"), told.route == FERRY_ROUTE_KERNEL);
            ASSERT_OK(raw().cuStreamSynchronize(stream));
            copies_by_kernel += told.route == FERRY_ROUTE_KERNEL;
        }
    EXPECT_GT(copies_by_kernel, 0);
}

// ---- Pageable memory and arrays that no kernel can access

// An array of 4-byte texels without a surface.
struct plain_array {
    plain_array(std::size_t width, std::size_t height, std::size_t depth) {
        CUDA_ARRAY3D_DESCRIPTOR desc = {};
        desc.Width = width;
        desc.Height = height;
        desc.Depth = depth;
        desc.Format = CU_AD_FORMAT_UNSIGNED_INT8;
        desc.NumChannels = 4;
        EXPECT_OK(raw().cuArray3DCreate(&handle, &desc));
    }
    ~plain_array() { EXPECT_OK(raw().cuArrayDestroy(handle)); }
    plain_array(const plain_array &) = delete;
    CUarray handle = nullptr;
};

// A copy of whole rows of 8192 bytes to the array.
ferry_copy_desc describe_upload(const bytes &source, const plain_array &array) {
    ferry_copy_desc copy = {};
    ferry_place_array(&copy.destination, 0, array.handle);
    ferry_place_any(&copy.source, reinterpret_cast<std::uintptr_t>(source.data()));
    copy.width = 8192;
    copy.height = source.size() / copy.width;
    return copy;
}

class plain_arrays : public counted_test {
protected:
    void SetUp() override {
        counted_test::SetUp();
        if (!has_kernels()) GTEST_SKIP() << "the driver cannot load kernels";
        if (!raw().cuMemAllocFromPoolAsync) GTEST_SKIP() << "the driver has no stream-ordered memory";
        ASSERT_OK(ferry_staging_prepare(counted.get(), 0, nullptr));
    }
    struct copied_box {
        std::uint64_t x, y, z, width, height, depth; // bytes, rows, slices
        std::uint64_t bytes() const { return width * height * depth; }
    };
    // Copies the box to the array and back into other memory, and compares all bytes. Returns a status that is not 0.
    std::int32_t round_trip(ferry_instance *instance, const plain_array &array, const copied_box &box,
                            bool is_synchronous, const how &up = {}, const how &down = {}) {
        bytes source = random_bytes(box.bytes() + 100, box.bytes()), destination(source.size(), std::byte{0xee});
        ferry_copy_desc to_array = {}, back = {};
        ferry_place_array(&to_array.destination, 0, array.handle);
        to_array.destination.x = box.x, to_array.destination.y = box.y, to_array.destination.z = box.z;
        back.source = to_array.destination;
        ferry_place_any(&to_array.source, reinterpret_cast<std::uintptr_t>(source.data()) + 3);
        ferry_place_any(&back.destination, reinterpret_cast<std::uintptr_t>(destination.data()) + 3);
        to_array.width = back.width = box.width;
        to_array.height = back.height = box.height;
        to_array.depth = back.depth = box.depth;
        for (const auto &[copy, options] : {std::pair{&to_array, &up}, std::pair{&back, &down}}) {
            const std::int32_t status = is_synchronous
                                            ? ferry_copy(instance, copy, *options, nullptr)
                                            : ferry_copy_async(instance, copy, *options, stream, nullptr, nullptr);
            if (copy == &to_array && up.has(read_in_the_call) && !status)
                std::fill(source.begin(), source.end(), std::byte{1}); // the call has read it
            if (copy == &back && (is_synchronous || down.has(written_in_the_call))) {
                EXPECT_TRUE(status || destination[3] != std::byte{0xee} || destination[4] != std::byte{0xee});
            }
            if (!is_synchronous) {
                EXPECT_OK(raw().cuStreamSynchronize(stream));
            }
            if (status) return status;
        }
        const bytes expected = random_bytes(box.bytes() + 100, box.bytes());
        EXPECT_EQ(std::memcmp(destination.data() + 3, expected.data() + 3, box.bytes()), 0);
        EXPECT_EQ(destination[2], std::byte{0xee});
        EXPECT_EQ(destination[3 + box.bytes()], std::byte{0xee});
        return 0;
    }
    std::uint64_t device_bytes_after_trim() const {
        EXPECT_OK(ferry_staging_trim(counted.get(), nullptr));
        return device_bytes();
    }
    std::uint64_t device_bytes() const {
        const int calls = driver.calls_beginning("cu");
        ferry_usage usage = {};
        usage.struct_size = sizeof usage;
        EXPECT_OK(ferry_instance_get_usage(counted.get(), &usage, nullptr));
        EXPECT_EQ(driver.calls_beginning("cu"), calls);
        return usage.device_bytes;
    }
};

TEST_F(plain_arrays, are_staged_through_a_buffer_on_the_device) {
    const plain_array flat(2048, 1024, 0), deep(256, 192, 400); // 8 MiB, 75 MiB
    const copied_box boxes[] = {{0, 0, 0, 8192, 1024, 1}, {16, 5, 0, 8000, 900, 1}};
    for (const bool is_synchronous : {false, true})
        for (const copied_box &box : boxes) {
            driver.reset_counts();
            ASSERT_OK(round_trip(counted.get(), flat, box, is_synchronous, by_staging, by_staging));
            EXPECT_EQ(driver.calls("cuMemAllocFromPoolAsync"), 2);
            EXPECT_EQ(driver.calls("cuMemFreeAsync"), 2);
            EXPECT_EQ(driver.calls("cuMemcpy3DAsync"), 2);
            EXPECT_EQ(device_bytes_after_trim(), 0u);
        }
    ASSERT_OK(round_trip(counted.get(), flat, boxes[0], false, by_staging | read_in_the_call,
                         by_staging | written_in_the_call));
    // Two parts.
    driver.reset_counts();
    ASSERT_OK(round_trip(counted.get(), deep, {0, 0, 0, 1024, 192, 400}, false, by_staging, by_staging));
    EXPECT_EQ(driver.calls("cuMemAllocFromPoolAsync"), 2);
    EXPECT_EQ(driver.calls("cuMemcpy3DAsync"), 4);
}

TEST_F(plain_arrays, are_copied_without_a_buffer_if_there_is_no_memory_for_it) {
    const plain_array array(2048, 1024, 0);
    const copied_box box = {0, 0, 0, 8192, 1024, 1};
    ferry_options options = driver.options();
    options.max_device_bytes = box.bytes() - 1;
    const instance_owner small = open_or_fail(options);
    ASSERT_OK(ferry_staging_prepare(small.get(), 0, nullptr));
    driver.reset_counts();
    ASSERT_OK(round_trip(small.get(), array, box, false, by_staging, by_staging));
    EXPECT_EQ(driver.calls("cuMemAllocAsync"), 0);
    options.max_device_bytes = box.bytes();
    const instance_owner sufficient = open_or_fail(options);
    ASSERT_OK(ferry_staging_prepare(sufficient.get(), 0, nullptr));
    driver.reset_counts();
    ASSERT_OK(round_trip(sufficient.get(), array, box, false, by_staging, by_staging));
    EXPECT_EQ(driver.calls("cuMemAllocAsync"), 2) << "without the maximum";
    for (const CUresult refusal : {CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_NOT_SUPPORTED}) {
        driver.fail("cuMemAllocFromPoolAsync", refusal, 1, true);
        ASSERT_OK(round_trip(counted.get(), array, box, false));
        driver.heal();
    }
    driver.fail("cuMemAllocFromPoolAsync", CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_NE(round_trip(counted.get(), array, box, false, by_staging), 0);
    EXPECT_EQ(device_bytes_after_trim(), 0u);
}

// Such copies have more chunks than a copy without a kernel may have.
TEST_F(plain_arrays, that_are_too_large_without_a_buffer_name_what_is_missing) {
    const plain_array array(2048, 1024, 0);
    const copied_box box = {0, 0, 0, 8192, 1024, 1};
    ferry_options options = driver.options();
    options.staging_bytes = 64 << 10;
    for (const std::uint64_t max_device_bytes : {std::uint64_t{0}, box.bytes() - 1}) {
        options.max_device_bytes = max_device_bytes;
        const instance_owner small = open_or_fail(options);
        ASSERT_OK(ferry_staging_prepare(small.get(), 0, nullptr));
        driver.fail("cuMemAllocFromPoolAsync", CUDA_ERROR_OUT_OF_MEMORY, 1, true);
        ferry_copy_desc copy = {};
        const bytes source = random_bytes(box.bytes(), 1);
        ferry_place_array(&copy.destination, 0, array.handle);
        ferry_place_any(&copy.source, reinterpret_cast<std::uintptr_t>(source.data()));
        copy.width = box.width;
        copy.height = box.height;
        ferry_error_info error = new_error();
        const std::int32_t status = ferry_copy_async(small.get(), &copy, by_staging, stream, nullptr, &error);
        EXPECT_EQ(status, max_device_bytes ? FERRY_ERROR_LIMIT : FERRY_ERROR_OUT_OF_MEMORY) << describe(error);
        EXPECT_EQ(error.field, max_device_bytes ? FERRY_FIELD_MAX_DEVICE_BYTES : FERRY_FIELD_NONE);
        driver.heal();
    }
}

// The thread that waits for a batch does the work that the program's threads would do.
TEST_F(plain_arrays, of_a_batch_need_no_other_thread_than_the_one_that_waits) {
    program_threads own(1);
    ferry_options options = driver.options();
    options.submit = program_threads::submit;
    options.submit_user = &own;
    const instance_owner instance = open_or_fail(options);
    const plain_array first(2048, 512, 0), second(2048, 512, 0);
    const bytes source = random_bytes(std::size_t{8192} * 512, 6);
    bytes destination(source.size());
    const ferry_copy_desc up[] = {describe_upload(source, first), describe_upload(source, second)};
    ferry_copy_desc down = up[1];
    down.source = up[1].destination;
    ferry_place_any(&down.destination, reinterpret_cast<std::uintptr_t>(destination.data()));
    own.hold(true);
    ASSERT_OK(ferry_copy_batch(instance.get(), up, 2, by_staging, nullptr));
    ASSERT_OK(ferry_copy_batch(instance.get(), &down, 1, by_staging, nullptr));
    own.hold(false);
    EXPECT_EQ(destination, source);
}

TEST_F(plain_arrays, are_copied_while_another_stream_is_captured) {
    const plain_array array(2048, 1024, 0);
    const copied_box box = {0, 0, 0, 8192, 1024, 1};
    ASSERT_OK(round_trip(counted.get(), array, box, false, by_staging, by_staging)); // loads the kernels
    const bytes source = random_bytes(box.bytes(), 8);
    const ferry_copy_desc copy = describe_upload(source, array);
    const test_stream captured;
    ASSERT_OK(raw().cuStreamBeginCapture(captured, CU_STREAM_CAPTURE_MODE_GLOBAL));
    EXPECT_OK(ferry_copy_async(counted.get(), &copy, by_staging, stream, nullptr, nullptr));
    EXPECT_GT(device_bytes(), 0u);
    CUgraph graph = nullptr;
    EXPECT_OK(raw().cuStreamEndCapture(captured, &graph)) << "the capture is intact";
    if (graph) {
        EXPECT_OK(raw().cuGraphDestroy(graph));
    }
    ASSERT_OK(raw().cuStreamSynchronize(stream));
}

TEST_F(plain_arrays, of_a_ticket_need_no_other_thread_than_the_one_that_waits) {
    program_threads own(1);
    ferry_options options = driver.options();
    options.submit = program_threads::submit;
    options.submit_user = &own;
    const instance_owner instance = open_or_fail(options);
    const plain_array array(2048, 1024, 0);
    const bytes source = random_bytes(std::size_t{8192} * 1024, 9);
    const ferry_copy_desc copy = describe_upload(source, array);
    own.hold(true);
    for (const std::int64_t timeout_ns : {std::int64_t{FERRY_NO_TIMEOUT}, std::int64_t{30'000'000'000}}) {
        ferry_ticket *ticket = nullptr;
        ASSERT_OK(ferry_copy_async(instance.get(), &copy, by_staging, stream, &ticket, nullptr));
        EXPECT_OK(ferry_ticket_wait(ticket, timeout_ns, nullptr));
        EXPECT_OK(raw().cuStreamQuery(stream)) << "the array is complete";
        ASSERT_OK(ferry_ticket_release(ticket, nullptr));
    }
    own.hold(false);
}

TEST_F(plain_arrays, complete_their_tickets_when_the_array_is_complete) {
    const plain_array array(2048, 1024, 0);
    const bytes source = random_bytes(8192 * 1024, 4);
    const ferry_copy_desc copy = describe_upload(source, array);
    ferry_ticket *ticket = nullptr;
    ASSERT_OK(ferry_copy_async(counted.get(), &copy, by_staging, stream, &ticket, nullptr));
    ASSERT_OK(ferry_ticket_wait(ticket, FERRY_NO_TIMEOUT, nullptr));
    EXPECT_OK(raw().cuStreamQuery(stream));
    ferry_ticket_info info = {};
    info.struct_size = sizeof info;
    ASSERT_OK(ferry_ticket_get_info(ticket, &info, nullptr));
    EXPECT_EQ(info.bytes_done, source.size());
    EXPECT_EQ(info.route, FERRY_ROUTE_STAGED);
    ASSERT_OK(ferry_ticket_release(ticket, nullptr));
}

} // namespace
} // namespace ferry::test
