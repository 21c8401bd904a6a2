// Tests ferry.hpp: ownership, whether exactly the bytes that a view names are copied, and what is refused.
#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <numeric>
#include <span>
#include <string>
#include <thread>

#if defined(__linux__)
#include <sys/mman.h>
#include <unistd.h>
#endif

#include "ferry/ferry.hpp"
#include "support/fault_driver.h"
#include "support/gate.h"
#include "support/second_process.h"
#include "support/system.h"
#include "support/temporary_file.h"
#include "support/test_place.h"

namespace ferry::test {

::testing::AssertionResult is_success(const status &done) {
    if (done.ok()) return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure() << done.line().text;
}
template <class T>::testing::AssertionResult is_success(const result<T> &made) { return is_success(made.error()); }

namespace {

class cpp : public ferry_test {
protected:
    void SetUp() override {
        ferry_test::SetUp();
        gpu = full.get();
    }
    ferry_instance *gpu = nullptr;
};

void expect_refusal(const status &refused, std::int32_t code, std::int32_t side, std::int32_t field) {
    test::expect_refusal(refused.code(), refused.info(), code, side, field);
}

using volume_view = host_view<std::uint32_t>;

// A host volume of distinct numbers.
struct volume {
    std::uint64_t width, height, depth;
    std::vector<std::uint32_t> elements = numbers(width * height * depth);

    static std::vector<std::uint32_t> numbers(std::uint64_t count) {
        std::vector<std::uint32_t> numbers(count);
        for (std::uint32_t i = 0; i < count; ++i)
            numbers[i] = 0x9e3779b9u * (i + 1);
        return numbers;
    }
    volume_view view() { return view_of(elements).shaped(width, height, depth); }
    std::uint32_t &at(std::uint64_t x, std::uint64_t y, std::uint64_t z) {
        return elements[(z * height + y) * width + x];
    }
};

// Ownership

// Far enough apart that no two registrations share a page.
constexpr std::size_t registered_step = 1 << 16;

// `known`: the further arguments of the constructor that takes over a handle.
template <class Make, class... Known>
void expect_owner_destroys(fault_driver &driver, const char *creates, const char *destroys, Make make,
                           const Known &...known) {
    SCOPED_TRACE(creates);
    auto made = make();
    ASSERT_OK(made);
    driver.reset_counts();
    {
        auto first = *std::move(made);
        using owner = decltype(first);
        static_assert(!std::is_copy_constructible_v<owner> && !std::is_copy_assignable_v<owner>);
        static_assert(std::is_nothrow_move_constructible_v<owner> && std::is_nothrow_move_assignable_v<owner>);
        EXPECT_FALSE(*made) << "must be empty after a move";
        const auto handle = first.handle();
        owner &itself = first;
        first = std::move(itself);
        EXPECT_EQ(first.handle(), handle);

        owner second = *make();
        second = std::move(first); // destroys the handle that `second` had
        EXPECT_EQ(driver.calls(destroys), 1);
        EXPECT_FALSE(first);
        EXPECT_EQ(second.handle(), handle);

        ferry_instance *const gpu = second.instance();
        owner third(gpu, second.release(), known...);
        second.reset();
        EXPECT_FALSE(second);
        EXPECT_EQ(driver.calls(destroys), 1) << "a released handle belongs to the caller";
        third.reset();
        third.reset();
        EXPECT_EQ(driver.calls(destroys), 2);

        const owner last = *make();
        EXPECT_TRUE(last);
    }
    EXPECT_EQ(driver.calls(creates), 2);
    EXPECT_EQ(driver.calls(destroys), 3);

    driver.fail(creates, CUDA_ERROR_OUT_OF_MEMORY);
    const auto refused = make();
    EXPECT_FALSE(refused);
    EXPECT_FALSE(*refused);
    EXPECT_EQ(refused.error().code(), FERRY_STATUS_DRIVER_BASE - CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_TRUE(refused.error().can_retry());
    EXPECT_EQ(driver.calls(destroys), 3) << "a failed call leaves nothing to destroy";
}

TEST_F(cpp, owners_destroy_their_handle_once) {
    fault_driver driver(raw_entry_points());
    const instance_owner opened = open_or_fail(driver.options());
    ferry_instance *const gpu = opened.get();
    const auto expect = [&](const char *creates, const char *destroys, auto make, const auto &...known) {
        expect_owner_destroys(driver, creates, destroys, make, known...);
    };
    expect(
        "cuMemAlloc", "cuMemFree", [=] { return device_memory<int>::create(gpu, 0, 100); }, device_view<int>());
    expect(
        "cuMemAllocPitch", "cuMemFree", [=] { return pitched_memory<int>::create(gpu, 0, 9, 5); }, device_view<int>());
    expect(
        "cuMemHostAlloc", "cuMemFreeHost", [=] { return pinned_memory<int>::create(gpu, 100, host_flag::by_driver); },
        host_view<int>());
    expect(
        "cuArray3DCreate", "cuArrayDestroy",
        [=] { return array::create(gpu, 0, array_desc(FERRY_FORMAT_FLOAT, 1, 16, 16)); }, array_view());
    expect("cuStreamCreateWithPriority", "cuStreamDestroy", [=] { return stream::create(gpu, 0); });
    expect("cuEventCreate", "cuEventDestroy", [=] { return event::create(gpu, 0); });
    std::vector<std::byte> pages(8 * registered_step); // a page can be registered only once at a time
    std::size_t next = 0;
    expect("cuMemHostRegister", "cuMemHostUnregister", [&] {
        return registration::create(gpu, std::span(pages).subspan(next++ * registered_step, registered_step / 4));
    });
}

TEST_F(cpp, an_array_whose_description_fails_is_destroyed) {
    fault_driver driver(raw_entry_points());
    const instance_owner opened = open_or_fail(driver.options());
    driver.fail("cuArray3DGetDescriptor", CUDA_ERROR_UNKNOWN);
    EXPECT_FALSE(array::create(opened.get(), 0, array_desc(FERRY_FORMAT_FLOAT, 1, 16)));
    EXPECT_EQ(driver.calls("cuArray3DCreate"), driver.calls("cuArrayDestroy"));
}

TEST_F(cpp, a_moved_owner_keeps_its_view) {
    device_memory<float> memory = device_memory<float>::create(gpu, 0, 100).or_throw();
    const std::uint64_t address = memory.address();
    EXPECT_EQ(memory.view().width(), 100u);
    const device_memory<float> other = std::move(memory);
    EXPECT_EQ(other.address(), address);
    EXPECT_EQ(other.view().width(), 100u);
    EXPECT_EQ(memory.view().width(), 0u);
    EXPECT_EQ(memory.address(), 0u);
}

TEST_F(cpp, an_owner_can_take_over_a_handle_and_its_view) {
    std::uint64_t address = 0;
    ASSERT_OK(ferry_device_alloc(gpu, 0, 400, &address, nullptr));
    device_memory<std::uint32_t> memory(gpu, address, device_view<std::uint32_t>(0, address, 100));
    const std::vector<std::uint32_t> sent = volume::numbers(100);
    ASSERT_OK(copy(gpu, sent, memory));
    EXPECT_EQ(memory.view().width(), 100u);

    const std::int32_t last = device_count() - 1;
    const auto shape = array_desc(FERRY_FORMAT_UINT32, 1, 16, 12);
    CUmipmappedArray handle = nullptr;
    ASSERT_OK(ferry_mipmapped_array_create(gpu, last, &shape, 2, &handle, nullptr));
    const mipmapped_array chain(gpu, handle, last);
    const result<array_view> level = chain.level(1);
    ASSERT_OK(level);
    EXPECT_EQ(level->device(), last);
    EXPECT_EQ(level->width(), 8u);
}

TEST_F(cpp, empty_streams_and_events_refuse_every_call) {
    stream moved = stream::create(gpu, 0).or_throw();
    const stream taken = std::move(moved), never;
    const event recorded = event::create(gpu, 0).or_throw();
    ASSERT_OK(taken.wait(recorded));
    for (const stream *const empty : {&std::as_const(moved), &never}) {
        EXPECT_EQ(empty->synchronize().code(), FERRY_ERROR_INVALID_ARGUMENT);
        EXPECT_EQ(empty->is_done().error().code(), FERRY_ERROR_INVALID_ARGUMENT);
        EXPECT_EQ(empty->wait(recorded).code(), FERRY_ERROR_INVALID_ARGUMENT);
    }
    event gone = event::create(gpu, 0).or_throw();
    gone.reset();
    const event none;
    for (const event *const empty : {&std::as_const(gone), &none}) {
        EXPECT_EQ(empty->record(taken).code(), FERRY_ERROR_INVALID_ARGUMENT);
        EXPECT_EQ(empty->synchronize().code(), FERRY_ERROR_INVALID_ARGUMENT);
        EXPECT_EQ(empty->is_done().error().code(), FERRY_ERROR_INVALID_ARGUMENT);
        EXPECT_EQ(empty->elapsed_ms_since(recorded).error().code(), FERRY_ERROR_INVALID_ARGUMENT);
        EXPECT_EQ(taken.wait(*empty).code(), FERRY_ERROR_INVALID_ARGUMENT);
    }
}

TEST_F(cpp, an_instance_opens_reports_and_moves) {
    result<instance> opened = instance::open(options_under_test());
    ASSERT_OK(opened);
    const instance moved = *std::move(opened);
    EXPECT_FALSE(*opened);
    const result<ferry_report> report = moved.report();
    ASSERT_OK(report);
    EXPECT_EQ(report->device_count, device_count());
    ASSERT_OK(moved.device_info(0));
    EXPECT_EQ(moved.device_info(0)->device, 0);
    EXPECT_EQ(moved.device_info(1000).error().code(), FERRY_ERROR_DEVICE);
    EXPECT_OK(moved.synchronize(0));
    const device_memory<int> memory = device_memory<int>::create(moved, 0, 10).or_throw();
    EXPECT_EQ(moved.address_info(memory.address())->memory, FERRY_MEMORY_DEVICE);

    ferry_options wrong = {};
    wrong.driver = 99;
    expect_refusal(instance::open(wrong).error(), FERRY_ERROR_INVALID_ARGUMENT, FERRY_SIDE_OPTIONS, FERRY_FIELD_DRIVER);
}

TEST_F(cpp, a_context_is_current_while_its_scope_lives) {
    ASSERT_OK(raw().cuCtxSetCurrent(nullptr));
    const auto current = [&] {
        CUcontext context = nullptr;
        EXPECT_OK(ferry_context_get_current(gpu, &context, nullptr));
        return context;
    };
    {
        const result<context_scope> outer = context_scope::enter(gpu, 0);
        ASSERT_OK(outer);
        const CUcontext primary = current();
        EXPECT_NE(primary, nullptr);
        CUcontext own = nullptr;
        ASSERT_OK(ferry_context_create(gpu, 0, 0, &own, nullptr));
        {
            context_scope inner = context_scope::enter(gpu, own).or_throw();
            EXPECT_EQ(current(), own);
            const context_scope moved = std::move(inner);
            EXPECT_EQ(current(), own);
        }
        EXPECT_EQ(current(), primary);
        EXPECT_OK(ferry_context_destroy(gpu, own, nullptr));
    }
    EXPECT_EQ(current(), nullptr);
    EXPECT_EQ(context_scope::enter(gpu, nullptr).error().code(), FERRY_ERROR_INVALID_ARGUMENT);
}

// Copies

TEST_F(cpp, contiguous_memory_is_copied_from_and_to_every_container) {
    const std::vector<std::uint32_t> sent = volume::numbers(60);
    device_memory<std::uint32_t> memory = device_memory<std::uint32_t>::create(gpu, 0, 60).or_throw();
    pinned_memory<std::uint32_t> pinned = pinned_memory<std::uint32_t>::create(gpu, 60).or_throw();
    std::array<std::uint32_t, 60> array = {};
    std::uint32_t plain[60] = {};
    std::vector<std::uint32_t> vector(60);

    ASSERT_OK(copy(gpu, sent, memory));
    ASSERT_OK(copy(gpu, memory, pinned));
    EXPECT_TRUE(std::equal(pinned.begin(), pinned.end(), sent.begin(), sent.end()));
    ASSERT_OK(copy(gpu, std::as_const(memory), array));
    EXPECT_TRUE(std::equal(array.begin(), array.end(), sent.begin()));
    ASSERT_OK(copy(gpu, memory, plain));
    EXPECT_TRUE(std::equal(std::begin(plain), std::end(plain), sent.begin()));
    ASSERT_OK(copy(gpu, memory, std::span(vector)));
    EXPECT_EQ(vector, sent);
    pinned[7] = 77;
    ASSERT_OK(copy(gpu, std::span<const std::uint32_t>(pinned.data(), 60), memory));
    ASSERT_OK(copy(gpu, any_view<const std::uint32_t>(memory.view().pointer(), 60), vector));
    EXPECT_EQ(vector[7], 77u);
    ASSERT_OK(copy(gpu, std::vector<std::uint32_t>{1, 2}, memory.view().sub(58, 2)));
    ASSERT_OK(copy(gpu, memory.view().as_bytes(), view_of(vector).as_bytes()));
    EXPECT_EQ(vector[59], 2u);
}

// The driver is queried about host memory too, so containers of unknown memory cost no driver call.
TEST_F(cpp, containers_of_any_memory_make_the_driver_calls_of_host_memory) {
    fault_driver driver(raw_entry_points());
    for (const std::int32_t checks : {FERRY_CHECKS_BASIC, FERRY_CHECKS_FULL}) {
        ferry_options options = driver.options();
        options.checks = checks;
        const instance_owner opened = open_or_fail(options);
        ferry_instance *const gpu = opened.get();
        const stream own = stream::create(gpu, 0, stream_flag::non_blocking).or_throw();
        auto memory = device_memory<std::uint32_t>::create(gpu, 0, 64).or_throw();
        std::vector<std::uint32_t> numbers = volume::numbers(64);
        auto pinned = pinned_memory<std::uint32_t>::create(gpu, 64).or_throw();
        const auto calls_of = [&](auto host) {
            EXPECT_OK(copy(gpu, host, memory));
            EXPECT_OK(copy_async(gpu, memory, host, own));
            EXPECT_OK(own.synchronize());
            driver.reset_counts();
            EXPECT_OK(copy(gpu, host, memory));
            EXPECT_OK(copy_async(gpu, host, memory, own));
            EXPECT_OK(own.synchronize());
            EXPECT_OK(copy_async(gpu, memory, host, own));
            EXPECT_OK(own.synchronize());
            return driver.calls_beginning("cu");
        };
        static_assert(std::is_same_v<decltype(view_of(std::span(numbers))), any_view<std::uint32_t>>);
        EXPECT_EQ(calls_of(std::span(numbers)), calls_of(view_of(numbers)));
        EXPECT_EQ(calls_of(std::span(pinned.data(), 64)), calls_of(pinned.view()));
    }
}

TEST_F(cpp, registered_memory_is_pinned_in_place) {
    std::vector<std::uint32_t> numbers = volume::numbers(registered_step), back(100);
    const auto lent = std::span(numbers).subspan(registered_step / 4, registered_step / 2);
    const auto memory_of = [&](const void *pointer) {
        ferry_address_info info = {};
        info.struct_size = sizeof info;
        EXPECT_OK(ferry_address_get_info(gpu, reinterpret_cast<std::uintptr_t>(pointer), &info, nullptr));
        return info.memory;
    };
    {
        const result<registration> registered = registration::create(gpu, lent);
        ASSERT_OK(registered);
        EXPECT_EQ(memory_of(lent.data()), FERRY_MEMORY_PINNED);
        EXPECT_EQ(memory_of(&lent.back()), FERRY_MEMORY_PINNED);
        auto memory = device_memory<std::uint32_t>::create(gpu, 0, 100).or_throw();
        ASSERT_OK(copy(gpu, lent.subspan(7, 100), memory));
        ASSERT_OK(copy(gpu, memory, back));
        EXPECT_TRUE(std::equal(back.begin(), back.end(), lent.begin() + 7));
    }
    EXPECT_EQ(memory_of(lent.data()), FERRY_MEMORY_PAGEABLE);
}

// Copies a box of `source` to a box of `destination` and compares all of `destination` with the result of plain loops.
template <class Range> void expect_box_arrives(ferry_instance *gpu, Range &&destination, volume source) {
    const auto whole = view_of(destination);
    volume expected = source, found = source;
    std::fill(expected.elements.begin(), expected.elements.end(), 0x55555555u);
    ASSERT_OK(copy(gpu, expected.view(), whole));

    const std::uint64_t w = source.width - 2, h = source.height > 2 ? source.height - 2 : 1,
                        d = source.depth > 2 ? source.depth - 2 : 1;
    const std::uint64_t from_y = source.height - h, from_z = source.depth - d, to_y = from_y / 2, to_z = from_z / 2;
    for (std::uint64_t z = 0; z < d; ++z)
        for (std::uint64_t y = 0; y < h; ++y)
            for (std::uint64_t x = 0; x < w; ++x)
                expected.at(x + 1, y + to_y, z + to_z) = source.at(x + 2, y + from_y, z + from_z);

    const auto box = source.view().sub(2, from_y, from_z, w, h, d);
    // The box is a view of a larger box, so the two origins must add up.
    const auto around = whole.sub(1, to_y, to_z, w + 1, source.height - to_y, source.depth - to_z);
    ASSERT_OK(copy(gpu, box, around.sub(0, 0, 0, w, h, d)));
    ASSERT_OK(copy(gpu, whole, found.view()));
    EXPECT_EQ(found.elements, expected.elements);

    std::vector<std::uint32_t> back(w * h * d); // and back
    ASSERT_OK(copy(gpu, around.sub(0, 0, 0, w, h, d), view_of(back).shaped(w, h, d)));
    volume cut = source;
    ASSERT_OK(copy(gpu, view_of(std::as_const(back)).shaped(w, h, d), cut.view().sub(2, from_y, from_z, w, h, d)));
    EXPECT_EQ(cut.elements, source.elements);
}

TEST_F(cpp, boxes_of_lines_images_and_volumes_are_copied_to_the_named_place) {
    for (ferry_instance *const instance : {basic.get(), full.get()})
        for (const volume &source : {volume{9, 1, 1}, volume{9, 7, 1}, volume{9, 7, 5}}) {
            SCOPED_TRACE(::testing::Message() << source.width << " x " << source.height << " x " << source.depth);
            const std::uint64_t w = source.width, h = source.height, d = source.depth;
            auto line = device_memory<std::uint32_t>::create(instance, 0, w * h * d).or_throw();
            expect_box_arrives(instance, line.view().shaped(w, h, d), source);
            auto pitched = pitched_memory<std::uint32_t>::create(instance, 0, w, h, d).or_throw();
            EXPECT_TRUE(h == 1 || pitched.view().row_pitch() > w * 4) << "without padding the test proves nothing";
            expect_box_arrives(instance, pitched, source);
            auto pinned = pinned_memory<std::uint32_t>::create(instance, 2 * w * h * d).or_throw();
            expect_box_arrives(instance, host_view<std::uint32_t>(pinned.data(), w, h, d, 4 * w + 12, h + 1), source);
            const std::uint64_t height = h == 1 ? 0 : h, depth = d == 1 ? 0 : d;
            auto texels = array::create(instance, 0, array_desc(FERRY_FORMAT_UINT32, 1, w, height, depth)).or_throw();
            expect_box_arrives(instance, texels, source);
        }
}

TEST_F(cpp, c_arrays_of_two_and_three_dimensions_are_images_and_volumes) {
    std::uint32_t image[3][4] = {}, cube[2][3][4] = {};
    cube[1][0][0] = 12;
    cube[1][2][3] = 23;
    auto memory = pitched_memory<std::uint32_t>::create(gpu, 0, 4, 3, 2).or_throw();
    ASSERT_OK(copy(gpu, cube, memory));
    ASSERT_OK(copy(gpu, memory.view().sub(0, 0, 1, 4, 3, 1), image));
    EXPECT_EQ(image[0][0], 12u);
    EXPECT_EQ(image[2][3], 23u);
}

TEST_F(cpp, texels_may_be_wider_than_elements) {
    // Two channels of 16 bits make an element of 32 bits.
    array texels = array::create(gpu, 0, array_desc(FERRY_FORMAT_UINT16, 2, 8, 4)).or_throw();
    EXPECT_EQ(texels.view().element_size(), 4u);
    volume source{8, 4, 1};
    ASSERT_OK(copy(gpu, source.view(), texels));
    std::vector<std::uint16_t> back(2 * 8 * 4);
    ASSERT_OK(copy(gpu, texels, view_of(back).shaped(16, 4)));
    EXPECT_EQ(std::memcmp(back.data(), source.elements.data(), 128), 0);
    expect_refusal(copy(gpu, source.view(), texels.view().sub(7, 0, 2, 4)), FERRY_ERROR_OUT_OF_BOUNDS,
                   FERRY_SIDE_DESTINATION, FERRY_FIELD_X);
}

TEST_F(cpp, elements_larger_than_the_array_s_are_refused) {
    array texels = array::create(gpu, 0, array_desc(FERRY_FORMAT_FLOAT, 1, 8)).or_throw();
    std::vector<double> doubles(4), as_many(8);
    const struct {
        status refused;
        std::int32_t side;
    } cases[] = {{copy(gpu, doubles, texels), FERRY_SIDE_DESTINATION},
                 {copy(gpu, as_many, texels), FERRY_SIDE_DESTINATION},
                 {copy(gpu, texels, doubles), FERRY_SIDE_SOURCE},
                 {copy_async(gpu, texels, doubles, nullptr), FERRY_SIDE_SOURCE}};
    for (const auto &each : cases) {
        expect_refusal(each.refused, FERRY_ERROR_ARRAY_FORMAT, each.side, FERRY_FIELD_ARRAY);
        EXPECT_EQ(each.refused.info().value, 8u);
        EXPECT_EQ(each.refused.info().limit, 4u);
    }
    EXPECT_STREQ(cases[0].refused.line().c_str(),
                 "destination.array: 8, does not fit elements of 4 (FERRY_ERROR_ARRAY_FORMAT)");
    std::vector<float> floats(8);
    EXPECT_OK(copy(gpu, texels, floats));
    EXPECT_OK(copy(gpu, texels, view_of(doubles).as_bytes()));
}

TEST_F(cpp, an_empty_array_owner_is_refused_as_a_null_array) {
    array none, filled = array::create(gpu, 0, array_desc(FERRY_FORMAT_FLOAT, 1, 8)).or_throw();
    std::vector<float> floats(8);
    expect_refusal(copy(gpu, none, floats), FERRY_ERROR_ADDRESS, FERRY_SIDE_SOURCE, FERRY_FIELD_ARRAY);
    expect_refusal(copy(gpu, floats, none), FERRY_ERROR_ADDRESS, FERRY_SIDE_DESTINATION, FERRY_FIELD_ARRAY);
    const array moved = std::move(filled);
    expect_refusal(copy(gpu, floats, filled), FERRY_ERROR_ADDRESS, FERRY_SIDE_DESTINATION, FERRY_FIELD_ARRAY);
    EXPECT_OK(copy(gpu, floats, moved));
}

TEST_F(cpp, an_unknown_array_format_is_refused_by_field) {
    const auto three = array::create(gpu, 0, array_desc(FERRY_FORMAT_FLOAT, 3, 8)).error();
    expect_refusal(three, FERRY_ERROR_ARRAY_FORMAT, FERRY_SIDE_OPTIONS, FERRY_FIELD_CHANNELS);
    EXPECT_STREQ(three.line().c_str(), "options.channels: 3, must be a power of two, at most 4 "
                                       "(FERRY_ERROR_ARRAY_FORMAT from cuArray3DCreate)");
    const auto unknown = mipmapped_array::create(gpu, 0, array_desc(0x7f, 1, 8)).error();
    const auto swapped = array::create(gpu, 0, array_desc(4, FERRY_FORMAT_FLOAT, 8)).error();
    EXPECT_NE(std::strstr(swapped.line().text, "; array_desc() takes a FERRY_FORMAT_* constant first"), nullptr)
        << swapped.line().text;
    expect_refusal(unknown, FERRY_ERROR_ARRAY_FORMAT, FERRY_SIDE_OPTIONS, FERRY_FIELD_FORMAT);
    EXPECT_EQ(unknown.info().value, 0x7fu);
}

TEST_F(cpp, layers_and_faces_are_slices) {
    for (const array_flags flags : {array_flag::layered, array_flag::cubemap}) {
        const auto shape = array_desc(FERRY_FORMAT_UINT32, 1, 8, 8, 6, flags);
        const array layered = array::create(gpu, 0, shape).or_throw(), other = array::create(gpu, 0, shape).or_throw();
        EXPECT_EQ(layered.view().depth(), 6u);
        volume source{8, 8, 6}, back{8, 8, 6};
        ASSERT_OK(copy(gpu, source.view(), layered));
        ASSERT_OK(copy(gpu, layered, other));
        ASSERT_OK(copy(gpu, layered.view().layer(2), other.view().layer(4)));
        ASSERT_OK(copy(gpu, layered.view().layer(5).sub(2, 1, 4, 2),
                       other.view().sub(0, 0, 1, 8, 8, 3).layer(2).sub(0, 6, 4, 2)));
        ASSERT_OK(copy(gpu, other, back.view()));
        for (std::uint64_t y = 0; y < 8; ++y)
            for (std::uint64_t x = 0; x < 8; ++x) {
                source.at(x, y, 4) = source.at(x, y, 2);
                if (x < 4 && y >= 6) source.at(x, y, 3) = source.at(x + 2, y - 5, 5);
            }
        EXPECT_EQ(back.elements, source.elements);
        expect_refusal(copy(gpu, source.view().sub(0, 0, 0, 8, 8, 1), layered.view().layer(6)),
                       FERRY_ERROR_OUT_OF_BOUNDS, FERRY_SIDE_DESTINATION, FERRY_FIELD_Z);
    }
    const array lines =
        array::create(gpu, 0, array_desc(FERRY_FORMAT_UINT32, 1, 8, 0, 3, array_flag::layered)).or_throw();
    EXPECT_EQ(lines.view().height(), 1u);
    expect_box_arrives(gpu, lines, volume{8, 1, 3});
}

TEST_F(cpp, levels_of_a_mipmapped_array_are_arrays) {
    const auto shape = array_desc(FERRY_FORMAT_UINT32, 1, 16, 12);
    const mipmapped_array chain = mipmapped_array::create(gpu, 0, shape).or_throw();
    const result<array_view> first = chain.level(0), second = chain.level(1), last = chain.level(4);
    ASSERT_OK(first);
    ASSERT_OK(second);
    ASSERT_OK(last);
    EXPECT_EQ(second->width(), 8u);
    EXPECT_EQ(second->height(), 6u);
    EXPECT_EQ(last->width(), 1u);
    expect_box_arrives(gpu, *first, volume{16, 12, 1});
    expect_box_arrives(gpu, *second, volume{8, 6, 1});
    EXPECT_FALSE(chain.level(5));
    EXPECT_EQ(chain.level(5).error().code(), FERRY_STATUS_DRIVER_BASE - CUDA_ERROR_INVALID_VALUE);
}

TEST_F(cpp, arrays_and_memory_are_freed_in_stream_order) {
    const auto shape = array_desc(FERRY_FORMAT_UINT32, 1, 16, 12);
    stream order = stream::create(gpu, 0, stream_flag::non_blocking).or_throw();
    array texture = array::create(gpu, 0, shape).or_throw();
    mipmapped_array chain = mipmapped_array::create(gpu, 0, shape, 1).or_throw();
    auto line = device_memory<std::uint32_t>::create(gpu, 0, 1000).or_throw();
    auto image = pitched_memory<std::uint32_t>::create(gpu, 0, 16, 12).or_throw();
    auto pinned = pinned_memory<std::uint32_t>::create(gpu, 500).or_throw();
    const std::uint64_t image_bytes = image.view().row_pitch() * 12;
    const CUarray_st *const handle = texture;
    instance view(gpu);
    {
        gate held(order);
        ASSERT_OK(texture.destroy_deferred(order));
        ASSERT_OK(chain.destroy_deferred(order));
        ASSERT_OK(line.free_deferred(order));
        ASSERT_OK(image.free_deferred(order));
        EXPECT_OK(image.free_deferred(order)); // already empty
        ASSERT_OK(pinned.free_deferred(order));
        const ferry_deferred_info kept = view.deferred().or_throw();
        EXPECT_EQ(kept.arrays, 2u);
        EXPECT_EQ(kept.allocations, 3u);
        EXPECT_EQ(kept.bytes, 2 * 16 * 12 * 4 + 4000 + image_bytes + 2000);
        const ferry_device_memory_info memory = view.memory_info(0).or_throw();
        EXPECT_EQ(memory.deferred, kept.bytes - 2000); // the pinned memory is on no device
        EXPECT_GE(memory.total, memory.free);
    }
    EXPECT_FALSE(texture || chain || line || image || pinned);
    texture = array::create(gpu, 0, shape).or_throw();
    EXPECT_EQ(texture, handle);
    expect_box_arrives(gpu, texture, volume{16, 12, 1});
    EXPECT_OK(view.trim_deferred(UINT64_MAX));
    EXPECT_EQ(view.deferred(0).or_throw().arrays, 1u);
    EXPECT_OK(view.trim_deferred());
    EXPECT_EQ(view.deferred().or_throw().bytes, 0u);
    array foreign(gpu, texture.release(), array_view());
    ASSERT_OK(foreign.destroy_deferred(order));
    array twice(gpu, const_cast<CUarray_st *>(handle), array_view());
    EXPECT_EQ(twice.destroy_deferred(order).code(), FERRY_ERROR_INVALID_ARGUMENT);
    EXPECT_TRUE(twice);
    twice.release();
    EXPECT_EQ(view.release(), gpu);
}

TEST_F(cpp, owners_with_a_stream_end_in_its_order_and_wait_for_nothing) {
    const auto shape = array_desc(FERRY_FORMAT_UINT32, 1, 16, 12);
    const stream order = stream::create(gpu, 0, stream_flag::non_blocking).or_throw();
    std::vector<std::byte> lent(3 * 4096);
    instance view(gpu);
    {
        array texture = array::create(gpu, 0, shape).or_throw();
        mipmapped_array chain = mipmapped_array::create(gpu, 0, shape, 1).or_throw();
        auto line = device_memory<std::uint32_t>::create(gpu, 0, 1000).or_throw();
        auto image = pitched_memory<std::uint32_t>::create(gpu, 0, 16, 12).or_throw();
        auto pinned = pinned_memory<std::uint32_t>::create(gpu, 500).or_throw();
        registration registered = registration::create(gpu, lent).or_throw();
        pinned_pool pool = pinned_pool::create(gpu).or_throw();
        auto managed = managed_memory<std::uint32_t>::create(gpu, 0, 100);
        gate held(order);
        texture.set_stream(order);
        chain.set_stream(order);
        line.set_stream(order);
        image.set_stream(order);
        pinned.set_stream(order);
        registered.set_stream(order);
        pool.set_stream(order);
        const std::uint32_t managed_count = managed ? 1 : 0; // not every device has managed memory
        if (managed) managed->set_stream(order);
        {
            const auto moved = std::move(line); // takes the stream with it
            array assigned;
            assigned = std::move(texture);
            const auto gone_chain = std::move(chain);
            const auto gone_image = std::move(image);
            const auto gone_pinned = std::move(pinned);
            const auto gone_registered = std::move(registered);
            const auto gone_pool = std::move(pool);
            const auto gone_managed = managed ? std::move(*managed) : managed_memory<std::uint32_t>();
        } // a destructor that waits would never return: the gate is closed
        EXPECT_FALSE(line || texture || chain || image || pinned || registered || pool);
        const ferry_deferred_info kept = view.deferred().or_throw();
        EXPECT_EQ(kept.arrays, 2u);
        EXPECT_EQ(kept.allocations, 5u + managed_count);
    }
    EXPECT_OK(view.trim_deferred());
    EXPECT_EQ(view.deferred().or_throw().allocations, 0u);
    registration registered = registration::create(gpu, lent).or_throw();
    EXPECT_OK(registered.unregister_deferred(order));
    EXPECT_FALSE(registered);
    pinned_pool pool = pinned_pool::create(gpu).or_throw();
    EXPECT_OK(pool.destroy_deferred(order));
    EXPECT_OK(order.synchronize());
    EXPECT_OK(view.trim_deferred());
    EXPECT_EQ(view.release(), gpu);
}

TEST_F(cpp, an_owner_that_cannot_end_in_the_order_of_its_stream_waits) {
    fault_driver driver(raw_entry_points());
    const instance_owner opened = open_or_fail(driver.options());
    const stream order = stream::create(opened.get(), 0, stream_flag::non_blocking).or_throw();
    auto line = device_memory<std::uint32_t>::create(opened.get(), 0, 1000).or_throw();
    line.set_stream(order);
    driver.fail("cuEventRecord", CUDA_ERROR_OUT_OF_MEMORY, 1, true);
    line.reset();
    EXPECT_FALSE(line);
    EXPECT_EQ(driver.calls("cuMemFree"), 1);
}

TEST_F(cpp, planes_are_arrays_and_a_planar_array_as_a_whole_cannot_be_copied) {
    const result<array> made = array::create(gpu, 0, array_desc(FERRY_FORMAT_NV12, 3, 64, 32, 0, array_flag::video));
    if (!made && !on_software_driver()) GTEST_SKIP() << "no video formats: " << made.error().line().text;
    ASSERT_OK(made);
    const result<array_view> brightness = made->plane(0), colour = made->plane(1);
    ASSERT_OK(brightness);
    ASSERT_OK(colour);
    EXPECT_EQ(brightness->byte_extent().width, 64u);
    EXPECT_EQ(brightness->height(), 32u);
    EXPECT_EQ(colour->height(), 16u);
    std::vector<std::uint8_t> sent(64 * 32, 0x5a), back(64 * 32);
    ASSERT_OK(copy(gpu, view_of(sent).shaped(64, 32), *brightness));
    ASSERT_OK(copy(gpu, *brightness, view_of(back).shaped(64, 32)));
    EXPECT_EQ(back, sent);
    expect_refusal(copy(gpu, view_of(sent).shaped(64, 32), *made), FERRY_ERROR_ARRAY_FORMAT, FERRY_SIDE_DESTINATION,
                   FERRY_FIELD_ARRAY);
}

TEST_F(cpp, managed_memory_is_usable_on_host_and_device) {
    managed_memory<std::uint32_t> managed = managed_memory<std::uint32_t>::create(gpu, 0, 9 * 7).or_throw();
    const volume source{9, 7, 1};
    std::copy(source.elements.begin(), source.elements.end(), managed.begin());
    auto memory = device_memory<std::uint32_t>::create(gpu, 0, 9 * 7).or_throw();
    ASSERT_OK(copy(gpu, managed, memory));
    ASSERT_OK(fill(gpu, managed, 0u));
    EXPECT_EQ(managed[10], 0u);
    ASSERT_OK(copy(gpu, memory, managed));
    EXPECT_TRUE(std::equal(managed.begin(), managed.end(), source.elements.begin()));
    expect_box_arrives(gpu, managed.view().shaped(9, 7), source);
}

TEST_F(cpp, managed_memory_ends_in_the_order_of_its_stream_and_waits_for_nothing) {
    fault_driver driver(raw_entry_points());
    const instance_owner opened = open_or_fail(driver.options());
    const stream order = stream::create(opened.get(), 0, stream_flag::non_blocking).or_throw();
    auto first = managed_memory<int>::create(opened.get(), 0, 100),
         second = managed_memory<int>::create(opened.get(), 0, 100);
    if (!first || !second) GTEST_SKIP() << "no managed memory";
    {
        gate held(order);
        first->set_stream(order);
        first->reset();
        EXPECT_OK(second->free_deferred(order));
        EXPECT_FALSE(*first || *second);
        EXPECT_EQ(driver.calls("cuMemFree"), 0);
    }
    EXPECT_OK(ferry_deferred_trim(opened.get(), FERRY_DEVICE_UNKNOWN, 0, nullptr));
    EXPECT_EQ(driver.calls("cuMemFree"), 2);
}

TEST_F(cpp, owners_of_mipmapped_arrays_and_managed_memory_destroy_once_too) {
    fault_driver driver(raw_entry_points());
    const instance_owner opened = open_or_fail(driver.options());
    ferry_instance *const gpu = opened.get();
    expect_owner_destroys(
        driver, "cuMipmappedArrayCreate", "cuMipmappedArrayDestroy",
        [=] { return mipmapped_array::create(gpu, 0, array_desc(FERRY_FORMAT_FLOAT, 1, 16, 16)); }, 0);
    expect_owner_destroys(
        driver, "cuMemAllocManaged", "cuMemFree", [=] { return managed_memory<int>::create(gpu, 0, 100); },
        device_view<int>());
}

TEST_F(cpp, peers_are_queried_probed_enabled_and_disabled) {
    if (device_count() < 2) GTEST_SKIP() << "needs two devices";
    const instance opened = instance::open(options_under_test()).or_throw();
    const result<ferry_peer_info> before = opened.peer_info(0, 1);
    ASSERT_OK(before);
    EXPECT_EQ(before->peer, 1);
    EXPECT_EQ(opened.probe_peer(0, 1).ok(), before->can_access == 1);
    if (!before->can_access) GTEST_SKIP() << "device 0 cannot reach device 1";
    ASSERT_OK(opened.enable_peer(0, 1));
    auto here = device_memory<std::uint32_t>::create(opened, 0, 100).or_throw(),
         there = device_memory<std::uint32_t>::create(opened, 1, 100).or_throw();
    std::vector<std::uint32_t> sent = volume::numbers(100), back(100);
    ASSERT_OK(copy(opened, sent, here));
    ASSERT_OK(copy(opened, here, there));
    ASSERT_OK(copy(opened, there, back));
    EXPECT_EQ(back, sent);
    ASSERT_OK(opened.disable_peer(0, 1));
    EXPECT_EQ(opened.peer_info(0, 0).error().code(), FERRY_ERROR_DEVICE);
    ASSERT_OK(opened.calibrate_peer(0, 1));
    EXPECT_GT(opened.peer_info(0, 1)->direct_mb_per_s, 0u);
    EXPECT_EQ(opened.calibrate_peer(0, 0).code(), FERRY_ERROR_DEVICE);
}

TEST_F(cpp, access_is_enabled_between_all_pairs_that_offer_it) {
    const instance opened = instance::open(options_under_test()).or_throw();
    std::uint32_t offered = 0;
    const auto for_each_pair = [&](const auto &use) {
        for (std::int32_t device = 0; device < device_count(); ++device)
            for (std::int32_t peer = 0; peer < device_count(); ++peer)
                if (device != peer) use(device, peer);
    };
    for_each_pair([&](std::int32_t device, std::int32_t peer) { offered += opened.probe_peer(device, peer).ok(); });
    EXPECT_EQ(opened.enable_all_peers().or_throw(), offered);
    EXPECT_EQ(opened.enable_all_peers().or_throw(), offered) << "the second time too";
    for_each_pair([&](std::int32_t device, std::int32_t peer) { EXPECT_OK(opened.disable_peer(device, peer)); });
    EXPECT_FALSE(instance().enable_all_peers().ok());
}

TEST_F(cpp, helpers_are_set_and_a_copy_over_several_links_is_explained) {
    if (device_count() < 2) GTEST_SKIP() << "needs two devices";
    const instance opened = instance::open(options_under_test()).or_throw();
    const std::int32_t helpers[] = {1}, itself[] = {0};
    const status refused = opened.set_multilink(0, itself);
    EXPECT_EQ(refused.code(), FERRY_ERROR_DEVICE);
    EXPECT_EQ(refused.field(), FERRY_FIELD_HELPERS);
    const status set = opened.set_multilink(0, helpers, 4);
    if (!set.ok()) GTEST_SKIP() << set.line().text;
    constexpr std::uint64_t count = 2 << 20;
    const stream own = stream::create(opened, 0, stream_flag::non_blocking).or_throw();
    auto memory = device_memory<std::uint32_t>::create(opened, 0, count).or_throw();
    auto sent = pinned_memory<std::uint32_t>::create(opened, count).or_throw();
    std::vector<std::uint32_t> back(count);
    const std::vector<std::uint32_t> numbers = volume::numbers(count);
    std::copy(numbers.begin(), numbers.end(), sent.begin());
    const ferry_explanation told = explain_async(opened, sent, memory, own, copy_flag::multilink).or_throw();
    EXPECT_EQ(told.route, FERRY_ROUTE_MULTILINK);
    EXPECT_EQ(told.links, 2u);
    EXPECT_NE(std::string(line_of(told).text).find("over 2 links"), std::string::npos) << line_of(told).text;
    ASSERT_OK(copy_async(opened, sent, memory, own, copy_flag::multilink));
    ASSERT_OK(own.synchronize());
    ASSERT_OK(copy(opened, memory, back));
    EXPECT_TRUE(back == numbers);

    ASSERT_OK(opened.set_multilink(0));
    const ferry_explanation without = explain_async(opened, sent, memory, own, copy_flag::multilink).or_throw();
    EXPECT_EQ(without.multilink_obstacle, FERRY_OBSTACLE_NO_HELPERS);
    EXPECT_EQ(without.links, 0u);
    ASSERT_OK(opened.disable_peer(1, 0));
}

TEST_F(cpp, peer_access_permits_kernels_on_the_device_that_has_the_access) {
    if (device_count() < 2) GTEST_SKIP() << "needs two devices";
    const instance opened = instance::open(options_under_test()).or_throw();
    const auto first = device_memory<int>::create(opened, 0, 1 << 20).or_throw();
    auto second = device_memory<int>::create(opened, 1, 1 << 20).or_throw();
    const stream own[] = {stream::create(opened, 0).or_throw(), stream::create(opened, 1).or_throw()};
    for (const std::int32_t device : {0, 1}) {
        ASSERT_OK(opened.disable_peer(0, 1));
        ASSERT_OK(opened.disable_peer(1, 0));
        const status enabled = opened.enable_peer(device, 1 - device);
        if (!enabled.ok()) GTEST_SKIP() << enabled.line().text;
        for (const std::int32_t runs : {0, 1}) {
            const auto told = explain_async(opened, first, second, own[runs]).or_throw();
            EXPECT_EQ(told.kernel_obstacle == FERRY_OBSTACLE_NO_ACCESS, runs != device) << line_of(told).text;
            EXPECT_EQ(told.relay_obstacle, FERRY_OBSTACLE_DIRECT_ACCESS) << line_of(told).text;
        }
        ferry_explanation told = {}; // of a thread without a current context: the destination's device runs the copy
        std::thread([&] { told = explain(opened, first, second).or_throw(); }).join();
        EXPECT_EQ(told.kernel_obstacle == FERRY_OBSTACLE_NO_ACCESS, device == 0) << line_of(told).text;
    }
    ASSERT_OK(opened.disable_peer(1, 0));
}

// Every number and name in this explanation is as long as it can be.
TEST_F(cpp, the_longest_explanation_fits_into_a_line) {
    constexpr std::uint64_t longest = ~std::uint64_t{0};
    ferry_explanation told = {};
    told.struct_size = sizeof told;
    told.blocks = FERRY_BLOCKS_UNTIL_DONE;
    told.synchronises = 1;
    std::fill_n(told.driver_call, sizeof told.driver_call - 1, 'c');
    told.source_memory = told.destination_memory = FERRY_MEMORY_ARRAY;
    told.source_device = told.destination_device = std::numeric_limits<std::int32_t>::min();
    told.calls = told.max_sms = told.threads = told.links = told.helper_sms = ~0u;
    told.width = told.height = told.depth = longest;
    told.driver_ns = told.kernel_ns = told.staged_ns = told.relay_ns = told.multilink_ns = longest;
    told.profile = FERRY_PROFILE_CAUTIOUS;
    std::uint64_t length = 0;
    for (std::int32_t route = 0; route <= FERRY_ROUTE_MULTILINK; ++route)
        for (std::int32_t obstacle = 0; obstacle <= FERRY_OBSTACLE_BUSY; ++obstacle)
            for (std::int32_t reason = 0; reason <= FERRY_REASON_MULTILINK; ++reason) {
                told.route = route;
                told.kernel_obstacle = told.staged_obstacle = obstacle;
                told.reason = reason;
                length = std::max(length, ferry_explanation_format(&told, nullptr, 0));
            }
    EXPECT_GT(length, 300u);
    EXPECT_LT(length, sizeof line().text);

    ferry_batch_explanation batch = {};
    batch.struct_size = sizeof batch;
    batch.blocks = FERRY_BLOCKS_UNTIL_DONE;
    batch.max_sms = batch.threads = ~0u;
    batch.broadcasts = batch.staged = batch.kernels = batch.batch_calls =
        batch.singles = {longest, longest, longest, 0};
    EXPECT_LT(ferry_batch_explanation_format(&batch, nullptr, 0), sizeof line().text);
}

TEST_F(cpp, a_copy_between_devices_can_be_relayed) {
    if (device_count() < 2) GTEST_SKIP() << "needs two devices";
    const std::vector<std::uint32_t> sent = volume::numbers(1 << 20);
    std::vector<std::uint32_t> back(sent.size());
    auto near = device_memory<std::uint32_t>::create(gpu, 0, sent.size()).or_throw(),
         far = device_memory<std::uint32_t>::create(gpu, 1, sent.size()).or_throw();
    ASSERT_OK(copy(gpu, sent, near));
    const ferry_explanation told = explain(gpu, near, far, copy_route::relayed).or_throw();
    EXPECT_EQ(told.route, FERRY_ROUTE_RELAYED);
    EXPECT_NE(std::string(line_of(told).text).find("relayed route"), std::string::npos) << line_of(told).text;
    ASSERT_OK(copy(gpu, near, far, copy_route::relayed));
    ASSERT_OK(copy(gpu, far, back));
    EXPECT_TRUE(back == sent);
    EXPECT_EQ(copy(gpu, sent, near, copy_route::relayed).code(), FERRY_ERROR_ROUTE);
}

TEST_F(cpp, a_device_is_calibrated_and_its_profile_saved_and_loaded) {
    const instance measured = instance::open(options_under_test()).or_throw(),
                   told = instance::open(options_under_test()).or_throw();
    ASSERT_OK(measured.calibrate(0));
    EXPECT_EQ(measured.calibrate(-1).code(), FERRY_ERROR_DEVICE);
    std::string text(measured.profile_size(0).or_throw(), '\0'), same = text;
    ASSERT_OK(measured.save_profile(0, text.data(), text.size()));
    ASSERT_OK(told.load_profile(text.data(), text.size()));
    ASSERT_EQ(told.profile_size(0).or_throw(), text.size());
    ASSERT_OK(told.save_profile(0, same.data(), same.size()));
    EXPECT_EQ(same, text);
    text[text.size() / 2] ^= 1;
    const status refused = told.load_profile(text.data(), text.size());
    EXPECT_EQ(refused.code(), FERRY_ERROR_PROFILE);
    EXPECT_EQ(told.profile_size(device_count()).error().code(), FERRY_ERROR_DEVICE);
}

TEST_F(cpp, elements_of_compressed_arrays_are_blocks) {
    array blocks = array::create(gpu, 0, array_desc(FERRY_FORMAT_BC1_UNORM, 4, 20, 8)).or_throw();
    EXPECT_EQ(blocks.view().width(), 5u);
    EXPECT_EQ(blocks.view().height(), 2u);
    const std::vector<std::uint64_t> sent = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
    std::vector<std::uint64_t> back(10);
    ASSERT_OK(copy(gpu, view_of(sent).shaped(5, 2), blocks));
    ASSERT_OK(copy(gpu, blocks, view_of(back).shaped(5, 2)));
    EXPECT_EQ(back, sent);
}

TEST_F(cpp, copies_and_fills_on_streams_keep_their_order) {
    const stream upload = stream::create(gpu, 0, stream_flag::non_blocking).or_throw();
    const stream download = stream::create(gpu, 0, stream_flag::non_blocking).or_throw();
    const event start = event::create(gpu, 0).or_throw(), filled = event::create(gpu, 0).or_throw();
    const std::uint64_t count = 1 << 21; // large enough for the copies to take a while
    auto memory = device_memory<std::uint32_t>::create(gpu, 0, count).or_throw();
    auto pinned = pinned_memory<std::uint32_t>::create(gpu, count).or_throw();
    std::fill(pinned.begin(), pinned.end(), 5u);
    ASSERT_OK(start.record(upload));
    ASSERT_OK(copy_async(gpu, pinned, memory, upload));
    const ferry_fill_desc nines = describe_fill(memory.view().sub(10, 20), 9u).or_throw();
    EXPECT_EQ(explain(gpu, nines)->synchronises, 1);
    EXPECT_STREQ(explain_async(gpu, nines, upload)->driver_call, "cuMemsetD32Async");
    ASSERT_OK(fill_async(gpu, nines, upload));
    ASSERT_OK(filled.record(upload));
    ASSERT_OK(download.wait(filled));
    ASSERT_OK(copy_async(gpu, memory, pinned, download));
    ASSERT_OK(download.synchronize());
    EXPECT_TRUE(*download.is_done());
    EXPECT_EQ(pinned[9], 5u);
    EXPECT_EQ(pinned[10], 9u);
    EXPECT_EQ(pinned[29], 9u);
    EXPECT_EQ(pinned[30], 5u);
    ASSERT_OK(filled.synchronize());
    EXPECT_TRUE(*filled.is_done());
    const result<float> elapsed = filled.elapsed_ms_since(start);
    ASSERT_OK(elapsed);
    EXPECT_GT(*elapsed, 0.0f);
    const CUstream cuda_stream = upload; // converts without a cast
    EXPECT_OK(raw().cuStreamQuery(cuda_stream));
}

TEST_F(cpp, a_fill_takes_its_pattern_from_the_element) {
    auto memory = pitched_memory<float>::create(gpu, 0, 9, 7).or_throw();
    std::vector<float> back(9 * 7);
    ASSERT_OK(fill(gpu, memory, 0));
    ASSERT_OK(fill(gpu, memory.view().sub(2, 1, 4, 3), 1.5f));
    ASSERT_OK(copy(gpu, memory, view_of(back).shaped(9, 7)));
    for (std::size_t i = 0; i < back.size(); ++i) {
        const std::size_t x = i % 9, y = i / 9;
        EXPECT_EQ(back[i], x >= 2 && x < 6 && y >= 1 && y < 4 ? 1.5f : 0.0f) << x << ", " << y;
    }
    expect_refusal(fill(gpu, memory.view().sub(2, 8), 1.0f), FERRY_ERROR_OUT_OF_BOUNDS, FERRY_SIDE_DESTINATION,
                   FERRY_FIELD_X);
    expect_refusal(fill(gpu, back, 1.0f), FERRY_ERROR_PAGEABLE, FERRY_SIDE_DESTINATION, FERRY_FIELD_ADDRESS);
}

template <class Element> void fill_some_of(ferry_instance *gpu, const Element &value) {
    auto memory = pitched_memory<Element>::create(gpu, 0, 9, 7, 3).or_throw();
    std::vector<Element> back(9 * 7 * 3);
    ASSERT_OK(fill(gpu, memory, Element{}));
    ASSERT_OK(fill(gpu, memory.view().sub(2, 1, 1, 4, 3, 2), value));
    ASSERT_OK(copy(gpu, memory, view_of(back).shaped(9, 7, 3)));
    for (std::size_t i = 0; i < back.size(); ++i) {
        const std::size_t x = i % 9, y = i / 9 % 7, z = i / 63;
        const bool is_inside = x >= 2 && x < 6 && y >= 1 && y < 4 && z >= 1;
        EXPECT_TRUE(back[i] == (is_inside ? value : Element{})) << x << ", " << y << ", " << z;
    }
}

TEST_F(cpp, elements_of_8_and_16_bytes_fill_boxes_of_volumes) {
    if (!ferry_instance_get_proc(gpu, "cuLibraryLoadData", 12000)) GTEST_SKIP() << "the driver cannot load kernels";
    fill_some_of(gpu, 1.0 / 3);
    fill_some_of(gpu, std::array<float, 4>{1, 2, 3, 4});
}

TEST_F(cpp, an_explanation_describes_the_copy_that_would_be_made) {
    auto memory = pitched_memory<std::uint32_t>::create(gpu, 0, 9, 7).or_throw();
    auto pinned = pinned_memory<std::uint32_t>::create(gpu, 63).or_throw();
    const stream own = stream::create(gpu, 0).or_throw();
    const auto explained = explain_async(gpu, pinned.view().shaped(9, 7), memory, own);
    ASSERT_OK(explained);
    EXPECT_EQ(explained->width, 36u);
    EXPECT_EQ(explained->height, 7u);
    EXPECT_EQ(explained->blocks, FERRY_BLOCKS_NO);
    EXPECT_NE(std::string(line_of(*explained).text).find("cuMemcpy3DAsync"), std::string::npos);
    EXPECT_EQ(explain(gpu, pinned.view().shaped(9, 7), memory)->blocks, FERRY_BLOCKS_UNTIL_DONE);
    EXPECT_EQ(explain(gpu, pinned, memory).error().code(), FERRY_ERROR_OUT_OF_BOUNDS);
}

// Options that exclude each other.
constexpr copy_options contradiction = copy_route::kernel | copy_flag::no_kernels;

TEST_F(cpp, options_reach_every_call_and_explanation) {
    auto memory = pitched_memory<std::uint32_t>::create(gpu, 0, 9, 7).or_throw();
    auto pinned = pinned_memory<std::uint32_t>::create(gpu, 63).or_throw();
    const stream own = stream::create(gpu, 0).or_throw();
    const auto image = pinned.view().shaped(9, 7);
    const ferry_copy_desc desc = describe_copy(image, memory).or_throw(), batch[] = {desc};
    const ferry_fill_desc zeros = describe_fill(memory, 0u).or_throw();
    const std::uint64_t to[] = {memory.address()}, from[] = {pinned.address()}, size[] = {36};
    const pieces piece(ferry::sources(from), ferry::destinations(to), ferry::sizes(size));
    const temporary_file on_disk(bytes(36));
    const file opened = file::open(gpu, on_disk.path().c_str()).or_throw();
    const ferry_place of_file = opened.at(0);
    const status refused[] = {
        copy(gpu, image, memory, contradiction),
        copy(gpu, desc, contradiction),
        copy_async(gpu, image, memory, own, contradiction),
        copy_async(gpu, desc, own, contradiction),
        copy_async_ticket(gpu, image, memory, own, contradiction).error(),
        copy_async_ticket(gpu, desc, own, contradiction).error(),
        explain(gpu, image, memory, contradiction).error(),
        explain(gpu, desc, contradiction).error(),
        explain_async(gpu, image, memory, own, contradiction).error(),
        explain_async(gpu, desc, own, contradiction).error(),
        fill(gpu, memory, 1u, contradiction),
        fill(gpu, zeros, contradiction),
        fill_async(gpu, memory, 1u, own, contradiction),
        fill_async(gpu, zeros, own, contradiction),
        fill_async_ticket(gpu, memory, 1u, own, contradiction).error(),
        fill_async_ticket(gpu, zeros, own, contradiction).error(),
        explain(gpu, zeros, contradiction).error(),
        explain_async(gpu, zeros, own, contradiction).error(),
        copy_batch(gpu, batch, contradiction),
        copy_batch_async(gpu, batch, own, contradiction),
        copy_batch_async_ticket(gpu, batch, own, contradiction).error(),
        explain_batch_async(gpu, batch, own, contradiction).error(),
        copy_pieces(gpu, piece, contradiction),
        copy_pieces_async(gpu, piece, own, contradiction),
        copy_pieces_async_ticket(gpu, piece, own, contradiction).error(),
        explain_pieces_async(gpu, piece, own, contradiction).error(),
        broadcast(gpu, source(from[0]), destinations(to), 36, contradiction),
        broadcast_async(gpu, source(from[0]), destinations(to), 36, own, contradiction),
        broadcast_async_ticket(gpu, source(from[0]), destinations(to), 36, own, contradiction).error(),
        explain_broadcast_async(gpu, source(from[0]), destinations(to), 36, own, contradiction).error(),
        broadcast(gpu, of_file, destinations(to), 36, contradiction),
        broadcast_async_ticket(gpu, of_file, destinations(to), 36, own, contradiction).error(),
        explain_broadcast_async(gpu, of_file, destinations(to), 36, own, contradiction).error(),
        prepared::create(gpu, batch, own, contradiction).error(),
        prepared::create(gpu, piece, own, contradiction).error(),
    };
    for (const status &each : refused) {
        SCOPED_TRACE(&each - refused);
        expect_refusal(each, FERRY_ERROR_ROUTE, FERRY_SIDE_OPTIONS, FERRY_FIELD_ROUTE);
        EXPECT_EQ(each.info().value, std::uint64_t{FERRY_OBSTACLE_FORBIDDEN});
    }
}

TEST_F(cpp, no_options_are_the_options_of_the_instance) {
    constexpr copy_options staged = copy_route::staged | max_sms(1);
    ferry_options of_instance = options_under_test();
    of_instance.copy_options = staged.get();
    const instance opened = instance::open(of_instance).or_throw();
    const stream own = stream::create(opened, 0).or_throw();
    auto memory = device_memory<std::uint32_t>::create(opened, 0, 64).or_throw();
    const std::vector<std::uint32_t> sent(64);
    const auto way = [&](const copy_options &options) {
        const ferry_explanation found = explain_async(opened, sent, memory, own, options).or_throw();
        return std::pair(found.route, found.reason);
    };
    EXPECT_EQ(way({}), std::pair(FERRY_ROUTE_STAGED, FERRY_REASON_FORCED));
    EXPECT_NE(way(copy_options::ordinary()).second, FERRY_REASON_FORCED);
    EXPECT_NE(way(max_sms(1)).second, FERRY_REASON_FORCED) << "a part replaces all options of the instance";
    EXPECT_EQ(way(copy_route::driver), std::pair(FERRY_ROUTE_DRIVER, FERRY_REASON_FORCED));
}

TEST_F(cpp, every_call_on_a_stream_returns_a_ticket_with_its_tag) {
    auto device = device_memory<std::uint32_t>::create(gpu, 0, 64).or_throw();
    auto host = pinned_memory<std::uint32_t>::create(gpu, 64).or_throw();
    const stream own = stream::create(gpu, 0, stream_flag::non_blocking).or_throw();
    const ferry_copy_desc desc = describe_copy(host, device).or_throw(), batch[] = {desc};
    const std::uint64_t to[] = {device.address()}, from[] = {host.address()}, size[] = {256};
    const pieces piece(ferry::sources(from), ferry::destinations(to), ferry::sizes(size));
    const prepared again = prepared::create(gpu, piece, own, tag(3)).or_throw();
    const struct {
        ticket made;
        std::uint64_t tag, bytes;
    } rows[] = {
        {copy_async_ticket(gpu, host, device, own, tag(1)).or_throw(), 1, 256},
        {copy_async_ticket(gpu, desc, own, copy_flag::no_kernels | tag(2)).or_throw(), 2, 256},
        {copy_async_ticket(gpu, desc, own).or_throw(), 0, 256},
        {copy_batch_async_ticket(gpu, batch, own, tag(4)).or_throw(), 4, 256},
        {copy_pieces_async_ticket(gpu, piece, own, tag(5)).or_throw(), 5, 256},
        {broadcast_async_ticket(gpu, source(from[0]), destinations(to), 256, own, tag(7)).or_throw(), 7, 256},
        {fill_async_ticket(gpu, device, 1u, own, tag(6)).or_throw(), 6, 256},
        {fill_async_ticket(gpu, describe_fill(device, 1u).or_throw(), own, tag(~std::uint64_t{})).or_throw(),
         ~std::uint64_t{}, 256},
        {again.launch_ticket(own).or_throw(), 3, 256},
        {again.launch_ticket(own, tag(8)).or_throw(), 8, 256},
    };
    for (const auto &row : rows) {
        SCOPED_TRACE(row.tag);
        ASSERT_OK(row.made.wait());
        const ferry_ticket_info info = row.made.info().or_throw();
        EXPECT_EQ(info.tag, row.tag);
        EXPECT_EQ(info.bytes_total, row.bytes);
    }
}

TEST_F(cpp, a_forced_route_is_taken_and_explained) {
    fault_driver driver(raw_entry_points());
    const instance_owner opened = open_or_fail(driver.options());
    ferry_instance *const gpu = opened.get();
    if (!ferry_instance_get_proc(gpu, "cuLibraryLoadData", 12000)) GTEST_SKIP() << "the driver cannot load kernels";
    const stream own = stream::create(gpu, 0).or_throw();
    auto memory = pitched_memory<std::uint32_t>::create(gpu, 0, 9, 7).or_throw();
    auto pinned = pinned_memory<std::uint32_t>::create(gpu, 63).or_throw();
    const auto image = pinned.view().shaped(9, 7);
    const auto launches = [&](const status &done) {
        EXPECT_OK(done);
        EXPECT_OK(own.synchronize());
        const int count = driver.calls("cuLaunchKernel");
        driver.reset_counts();
        return count;
    };
    for (const copy_route forced : {copy_route::driver, copy_route::kernel}) {
        const bool by_kernel = forced == copy_route::kernel;
        const std::int32_t route = by_kernel ? FERRY_ROUTE_KERNEL : FERRY_ROUTE_DRIVER;
        driver.reset_counts();
        EXPECT_EQ(launches(copy(gpu, image, memory, forced)), by_kernel);
        EXPECT_EQ(launches(copy_async(gpu, image, memory, own, forced)), by_kernel);
        EXPECT_EQ(launches(fill(gpu, memory, 1u, forced)), by_kernel);
        EXPECT_EQ(launches(fill_async(gpu, memory, 1u, own, forced)), by_kernel);
        EXPECT_EQ(explain(gpu, image, memory, forced).or_throw().route, route);
        EXPECT_EQ(explain_async(gpu, image, memory, own, forced).or_throw().route, route);
    }
}

TEST_F(cpp, descriptors_are_copied_filled_and_explained) {
    auto memory = pitched_memory<std::uint32_t>::create(gpu, 0, 9, 7).or_throw();
    const std::vector<std::uint32_t> sent = volume::numbers(63);
    std::vector<std::uint32_t> back(63);
    const stream own = stream::create(gpu, 0, stream_flag::non_blocking).or_throw();
    const auto up = describe_copy(view_of(sent).shaped(9, 7), memory).or_throw();
    auto down = describe_copy(memory, view_of(back).shaped(9, 7)).or_throw();
    ASSERT_OK(copy(gpu, up));
    ASSERT_OK(copy_async(gpu, down, own));
    ASSERT_OK(own.synchronize());
    EXPECT_EQ(back, sent);
    EXPECT_EQ(explain(gpu, up).or_throw().width, 36u);
    EXPECT_EQ(explain_async(gpu, down, own).or_throw().height, 7u);

    auto inner = describe_fill(memory.view().sub(2, 1, 4, 3), 5u).or_throw();
    ASSERT_OK(fill(gpu, inner));
    inner.destination.x = 0;
    inner.destination.y = 0;
    inner.destination.address = memory.address();
    inner.height = 1;
    ASSERT_OK(fill_async(gpu, inner, own));
    ASSERT_OK(copy_async(gpu, down, own));
    ASSERT_OK(own.synchronize());
    for (std::size_t i = 0; i < back.size(); ++i) {
        const std::size_t x = i % 9, y = i / 9;
        const bool is_filled = (x >= 2 && x < 6 && y >= 1 && y < 4) || (x < 4 && y == 0);
        EXPECT_EQ(back[i], is_filled ? 5u : sent[i]) << x << ", " << y;
    }

    down.width += 1 << 20;
    for (const status &each : {copy(gpu, down), copy_async(gpu, down, own), explain(gpu, down).error(),
                               explain_async(gpu, down, own).error()})
        expect_refusal(each, FERRY_ERROR_PITCH, FERRY_SIDE_SOURCE, FERRY_FIELD_ROW_PITCH);
    expect_refusal(describe_fill(memory.view().sub(2, 8), 1u).error(), FERRY_ERROR_OUT_OF_BOUNDS,
                   FERRY_SIDE_DESTINATION, FERRY_FIELD_X);
}

// Pinned memory and its pools

TEST_F(cpp, pinned_memory_reports_how_it_was_allocated) {
    ferry_host_options options = {};
    options.threads = 2;
    result<pinned_memory<std::uint32_t>> made = pinned_memory<std::uint32_t>::create(gpu, 1000, options);
    ASSERT_OK(made);
    EXPECT_EQ(made->size(), 1000u);
    EXPECT_EQ(made->block().address, made->data());
    EXPECT_EQ(made->block().size, 4000u);
    EXPECT_EQ(made->block().memory, FERRY_MEMORY_PINNED);
    const pinned_memory<std::uint32_t> moved = *std::move(made);
    EXPECT_EQ(moved.block().address, moved.data());
    EXPECT_EQ(made->block().address, nullptr);
    const auto from_driver = pinned_memory<std::uint32_t>::create(gpu, 1000, host_flag::by_driver);
    ASSERT_OK(from_driver);
    EXPECT_EQ(from_driver->block().origin, FERRY_HOST_FROM_DRIVER);

    options.numa = 99;
    expect_refusal(pinned_memory<int>::create(gpu, 1000, options).error(), FERRY_ERROR_INVALID_ARGUMENT,
                   FERRY_SIDE_OPTIONS, FERRY_FIELD_NUMA);
}

TEST_F(cpp, pinned_memory_may_be_smaller_or_pageable_where_allowed) {
    fault_driver driver(raw_entry_points());
    const instance_owner opened = open_or_fail(driver.options());
    ferry_host_options options = {};
    options.flags = FERRY_HOST_BY_DRIVER | FERRY_HOST_ALLOW_SMALLER;
    driver.fail("cuMemHostAlloc", CUDA_ERROR_OUT_OF_MEMORY);
    const auto smaller = pinned_memory<std::uint32_t>::create(opened.get(), 1 << 20, options);
    ASSERT_OK(smaller);
    EXPECT_EQ(smaller->size(), 1u << 19);
    EXPECT_EQ(smaller->size(), smaller->block().size / 4);
    EXPECT_EQ(smaller->view().width(), smaller->size());

    options.flags = FERRY_HOST_ALLOW_PAGEABLE;
    for (const char *const entry : {"cuMemHostRegister", "cuMemHostAlloc"})
        driver.fail(entry, CUDA_ERROR_OUT_OF_MEMORY, 1, true);
    const auto pageable = pinned_memory<std::uint32_t>::create(opened.get(), 1 << 20, options);
    ASSERT_OK(pageable);
    EXPECT_EQ(pageable->size(), 1u << 20);
    EXPECT_EQ(pageable->block().memory, FERRY_MEMORY_PAGEABLE);
    EXPECT_EQ(pageable->block().origin, FERRY_HOST_FROM_SYSTEM);
}

std::uint64_t used_of(const pinned_pool &pool) {
    const result<ferry_pool_stats> stats = pool.stats();
    EXPECT_OK(stats);
    return stats->used_current;
}

TEST_F(cpp, a_block_returns_to_its_pinned_pool_with_its_owner) {
    result<pinned_pool> made = pinned_pool::create(gpu);
    ASSERT_OK(made);
    const pinned_pool pool = *std::move(made);
    EXPECT_FALSE(*made);
    EXPECT_EQ(pinned_block<int>::create(*made, 10).error().code(), FERRY_ERROR_INVALID_ARGUMENT);
    {
        auto first = pinned_block<std::uint32_t>::create(pool, 1000).or_throw();
        auto second = pinned_block<std::uint32_t>::create(pool, 100'000).or_throw();
        EXPECT_GE(used_of(pool), 404'000u);
        second = std::move(first); // the block that `second` had returns to the pool
        EXPECT_FALSE(first);
        EXPECT_LT(used_of(pool), 404'000u);
        EXPECT_GE(used_of(pool), 4000u);
        ASSERT_EQ(second.size(), 1000u);

        const std::vector<std::uint32_t> sent = volume::numbers(1000);
        std::copy(sent.begin(), sent.end(), second.begin());
        auto memory = device_memory<std::uint32_t>::create(gpu, 0, 1000).or_throw();
        ASSERT_OK(copy(gpu, second, memory));
        ASSERT_OK(fill(gpu, second, 0u));
        ASSERT_OK(copy(gpu, memory, second));
        EXPECT_TRUE(std::equal(sent.begin(), sent.end(), second.begin(), second.end()));

        void *const released = second.release();
        EXPECT_FALSE(second);
        pinned_block<std::uint32_t> taken(gpu, released, {{static_cast<std::uint32_t *>(released), 1000}, {pool}});
        taken.reset();
        taken.reset();
        EXPECT_EQ(used_of(pool), 0u);
        EXPECT_TRUE(pinned_block<std::uint32_t>::create(pool, 1000));
    }
    EXPECT_EQ(used_of(pool), 0u);
    EXPECT_GT(pool.stats()->used_high, 0u);
    ASSERT_OK(pool.reset_stats());
    EXPECT_EQ(pool.stats()->used_high, 0u);
    ASSERT_OK(pool.trim());
    EXPECT_EQ(pool.stats()->reserved_current, 0u);
}

TEST_F(cpp, a_block_with_a_stream_returns_after_the_work_on_the_stream) {
    const pinned_pool pool = pinned_pool::create(gpu).or_throw();
    const stream own = stream::create(gpu, 0, stream_flag::non_blocking).or_throw();
    const auto expect_waits = [&](auto make) {
        gate held(own);
        { const auto block = make(); }
        EXPECT_GT(used_of(pool), 0u);
        held.open();
        EXPECT_EQ(used_of(pool), 0u);
    };
    expect_waits([&] { return pinned_block<int>::create(pool, 1000, own).or_throw(); });
    expect_waits([&] {
        auto block = pinned_block<int>::create(pool, 1000).or_throw();
        block.set_stream(own);
        return block;
    });
}

TEST_F(cpp, a_pinned_pool_obeys_its_options) {
    ferry_pinned_pool_options options = {};
    options.max_size = 1 << 20;
    const pinned_pool pool = pinned_pool::create(gpu, options).or_throw();
    EXPECT_EQ(pinned_block<std::byte>::create(pool, 2 << 20).error().code(), FERRY_ERROR_LIMIT);
    options.flags = 1u << 31;
    expect_refusal(pinned_pool::create(gpu, options).error(), FERRY_ERROR_FLAGS, FERRY_SIDE_OPTIONS, FERRY_FIELD_FLAGS);
}

// Stream-ordered memory

class cpp_pools : public cpp {
protected:
    void SetUp() override {
        cpp::SetUp();
        info.struct_size = sizeof info;
        ASSERT_OK(ferry_device_get_info(gpu, 0, &info, nullptr));
        if (!info.memory_pools) GTEST_SKIP() << "the device has no pools";
        own = *stream::create(gpu, 0, stream_flag::non_blocking);
        ASSERT_TRUE(own);
    }
    void TearDown() override {
        own.reset();
        cpp::TearDown();
    }
    ferry_device_info info = {};
    stream own;
};

// Copies numbers to `memory` and back.
template <class Memory> void expect_holds_numbers(ferry_instance *gpu, Memory &memory, const stream &stream) {
    const std::vector<std::uint32_t> sent = volume::numbers(memory.view().width());
    std::vector<std::uint32_t> back(sent.size());
    ASSERT_OK(copy_async(gpu, sent, memory, stream));
    ASSERT_OK(copy_async(gpu, std::as_const(memory), back, stream));
    ASSERT_OK(stream.synchronize());
    EXPECT_EQ(back, sent);
}

TEST_F(cpp_pools, owners_of_pools_and_of_stream_ordered_memory_destroy_once_too) {
    fault_driver driver(raw_entry_points());
    const instance_owner opened = open_or_fail(driver.options());
    ferry_instance *const gpu = opened.get();
    CUstream_st *const stream = own;
    expect_owner_destroys(
        driver, "cuMemPoolCreate", "cuMemPoolDestroy", [=] { return pool::create(gpu, {}); }, detail::pool_location());
    expect_owner_destroys(
        driver, "cuMemAllocAsync", "cuMemFreeAsync", [=] { return stream_memory<int>::create(gpu, 0, 100, stream); },
        detail::view_and{device_view<int>(), stream});
    const pool from = pool::create(gpu, {}).or_throw();
    expect_owner_destroys(
        driver, "cuMemAllocFromPoolAsync", "cuMemFreeAsync",
        [&] { return stream_memory<int>::create(from, 100, stream); }, detail::view_and{device_view<int>(), stream});
}

TEST_F(cpp_pools, stream_ordered_memory_is_copied_and_freed_in_the_order_of_its_stream) {
    const stream other = stream::create(gpu, 0, stream_flag::non_blocking).or_throw();
    const pool from = pool::create(gpu, {}).or_throw();
    const auto used = [&] { return from.stats()->used_current; };
    {
        auto memory = stream_memory<std::uint32_t>::create(gpu, 0, 1000, own).or_throw();
        EXPECT_EQ(memory.view().device(), 0);
        EXPECT_EQ(memory.view().width(), 1000u);
        EXPECT_EQ(memory.stream(), own.handle());
        expect_holds_numbers(gpu, memory, own);

        auto pooled = stream_memory<std::uint32_t>::create(from, 500, own).or_throw();
        EXPECT_EQ(pooled.view().device(), 0);
        EXPECT_GE(used(), 2000u);
        expect_holds_numbers(gpu, pooled, own);
        pooled.set_stream(other);
        const auto moved = std::move(pooled);
        EXPECT_EQ(moved.stream(), other.handle());
        EXPECT_EQ(pooled.stream(), nullptr);
        EXPECT_EQ(pooled.address(), 0u);
        EXPECT_GE(used(), 2000u);
    }
    ASSERT_OK(own.synchronize());
    ASSERT_OK(other.synchronize());
    EXPECT_EQ(used(), 0u);
    EXPECT_EQ(stream_memory<int>::create(gpu, 1000, 10, own).error().code(), FERRY_ERROR_DEVICE);
    EXPECT_EQ(stream_memory<int>::create(pool_view(), 10, own).error().code(), FERRY_ERROR_INVALID_ARGUMENT);
}

TEST_F(cpp_pools, stream_ordered_memory_is_freed_on_the_stream_set_last) {
    const stream other = stream::create(gpu, 0, stream_flag::non_blocking).or_throw();
    const pool from = pool::create(gpu, {}).or_throw();
    ferry_pool_attributes attributes = from.attributes().or_throw();
    attributes.reuse_follow_event_dependencies = 0;
    attributes.reuse_opportunistic = 0;
    attributes.reuse_internal_dependencies = 0;
    ASSERT_OK(from.set_attributes(attributes)); // memory is reused only on the stream where it was freed
    for (const bool names_stream : {true, false}) {
        auto memory = stream_memory<int>::create(from, 1000, own).or_throw();
        const std::uint64_t address = memory.address();
        ASSERT_OK(own.synchronize());
        const gate held(own);
        if (names_stream) memory.set_stream(other);
        memory.reset();
        const auto next = stream_memory<int>::create(from, 1000, other).or_throw();
        EXPECT_EQ(next.address() == address, names_stream);
    }
}

TEST_F(cpp_pools, a_pool_with_a_stream_ends_behind_the_frees_of_its_memory) {
    instance view(gpu);
    {
        pool first = pool::create(gpu, {}).or_throw(), second = pool::create(gpu, {}).or_throw();
        auto memory = stream_memory<int>::create(first, 1000, own).or_throw();
        first.set_stream(own);
        const gate held(own);
        memory.reset();
        const auto moved = std::move(first);
        EXPECT_OK(second.destroy_deferred(own));
        EXPECT_FALSE(first || second);
        EXPECT_EQ(view.deferred().or_throw().allocations, 1u);
    } // a destructor that waits would never return: the gate is closed
    EXPECT_EQ(view.deferred().or_throw().allocations, 2u);
    EXPECT_OK(own.synchronize());
    EXPECT_OK(view.trim_deferred());
    EXPECT_EQ(view.deferred().or_throw().allocations, 0u);
    EXPECT_EQ(view.release(), gpu);
}

TEST_F(cpp_pools, pools_can_be_queried_and_set_up) {
    ferry_pool_desc desc = {};
    desc.max_size = 1 << 26;
    const pool made = pool::create(gpu, desc).or_throw();
    EXPECT_EQ(made.location(), FERRY_LOCATION_DEVICE);
    EXPECT_EQ(made.index(), 0);
    const result<ferry_pool_info> known = made.info();
    ASSERT_OK(known);
    EXPECT_EQ(known->max_size, 1u << 26);
    EXPECT_EQ(known->is_default, 0);
    EXPECT_EQ(*made.access(0), FERRY_ACCESS_READ_WRITE);
    EXPECT_OK(made.set_access(0, FERRY_ACCESS_READ_WRITE));

    result<ferry_pool_attributes> attributes = made.attributes();
    ASSERT_OK(attributes);
    attributes->reuse_opportunistic = !attributes->reuse_opportunistic;
    attributes->release_threshold = 1 << 25;
    ASSERT_OK(made.set_attributes(*attributes));
    EXPECT_EQ(made.attributes()->reuse_opportunistic, attributes->reuse_opportunistic);
    EXPECT_EQ(made.attributes()->release_threshold, 1u << 25);

    ASSERT_OK(stream_memory<int>::create(made, 1000, own));
    ASSERT_OK(own.synchronize());
    EXPECT_GT(made.stats()->reserved_current, 0u) << "the release threshold keeps the memory";
    EXPECT_GE(made.stats()->used_high, 4000u);
    ASSERT_OK(made.reset_stats());
    EXPECT_EQ(made.stats()->used_high, 0u);
    ASSERT_OK(made.trim());
    EXPECT_EQ(made.stats()->reserved_current, 0u);

    desc.index = 1000;
    const status refused = pool::create(gpu, desc).error();
    EXPECT_EQ(refused.code(), FERRY_ERROR_DEVICE);
    EXPECT_EQ(refused.field(), FERRY_FIELD_INDEX);
}

TEST_F(cpp_pools, the_default_and_current_pools_of_a_device_are_found_and_set) {
    const pool_view usual = pool_view::default_of(gpu, FERRY_LOCATION_DEVICE, 0).or_throw();
    EXPECT_EQ(pool_view::current_of(gpu, FERRY_LOCATION_DEVICE, 0)->handle(), usual.handle());
    EXPECT_EQ(usual.info()->is_default, 1);
    {
        const pool made = pool::create(gpu, {}).or_throw();
        ASSERT_OK(made.make_current());
        EXPECT_EQ(pool_view::current_of(gpu, FERRY_LOCATION_DEVICE, 0)->handle(), made.handle());
        auto memory = stream_memory<std::uint32_t>::create(gpu, 0, 1000, own).or_throw();
        EXPECT_GE(made.stats()->used_current, 4000u);
        ASSERT_OK(usual.make_current());
        EXPECT_EQ(pool_view::current_of(gpu, FERRY_LOCATION_DEVICE, 0)->handle(), usual.handle());
    }
    if (device_count() > 1) {
        ferry_pool_desc desc = {};
        desc.index = 1;
        const pool there = pool::create(gpu, desc).or_throw();
        const result<pool_view> found = pool_view::of(gpu, there);
        ASSERT_OK(found);
        EXPECT_EQ(found->index(), 1);
        const stream stream = stream::create(gpu, 1).or_throw();
        auto memory = stream_memory<std::uint32_t>::create(*found, 1000, stream).or_throw();
        EXPECT_EQ(memory.view().device(), 1);
        expect_holds_numbers(gpu, memory, stream);
    }
    EXPECT_EQ(pool_view::of(gpu, nullptr).error().code(), FERRY_ERROR_INVALID_ARGUMENT);
}

TEST_F(cpp_pools, memory_of_a_host_pool_is_host_memory) {
    if (!info.host_memory_pools) GTEST_SKIP() << "the driver has no host memory pools";
    ferry_pool_desc desc = {};
    desc.location = FERRY_LOCATION_HOST;
    const pool made = pool::create(gpu, desc).or_throw();
    ASSERT_OK(made.set_access(0, FERRY_ACCESS_READ_WRITE));
    auto memory = stream_memory<std::uint32_t, FERRY_KIND_HOST>::create(made, 1000, own).or_throw();
    expect_holds_numbers(gpu, memory, own);
    EXPECT_EQ(memory.view().pointer()[999], volume::numbers(1000)[999]);
    EXPECT_EQ(stream_memory<int>::create(made, 10, own).error().code(), FERRY_ERROR_OTHER_KIND);
    const pool on_device = pool::create(gpu, {}).or_throw();
    const auto refused = stream_memory<int, FERRY_KIND_HOST>::create(on_device, 10, own);
    EXPECT_EQ(refused.error().code(), FERRY_ERROR_OTHER_KIND);
}

// Sharing

constexpr event_flags shared_event = event_flag::interprocess | event_flag::disable_timing;

TEST_F(cpp, an_export_covers_what_its_view_names) {
    FERRY_NEEDS_SECOND_PROCESS();
    auto memory = device_memory<std::uint32_t>::create(gpu, 0, 1000).or_throw();
    const result<ferry_ipc_handle> handle = export_memory(gpu, memory.view().sub(100, 50));
    ASSERT_OK(handle);
    {
        auto opened = imported_memory<std::uint32_t>::open(gpu, *handle, nullptr).or_throw();
        EXPECT_EQ(opened.address(), memory.address() + 400) << "memory of this process keeps its address";
        EXPECT_EQ(opened.view().width(), 50u);
        EXPECT_EQ(opened.view().device(), 0);
        ASSERT_OK(fill(gpu, opened, 7u));
        const auto moved = std::move(opened);
        EXPECT_EQ(opened.address(), 0u);
    }
    EXPECT_EQ(ferry_ipc_close_memory(gpu, memory.address() + 400, nullptr, nullptr), FERRY_ERROR_ADDRESS)
        << "already closed";
    std::vector<std::uint32_t> found(1);
    ASSERT_OK(copy(gpu, memory.view().sub(149, 1), found));
    EXPECT_EQ(found[0], 7u);

    const auto pitched = pitched_memory<std::byte>::create(gpu, 0, 100, 3).or_throw();
    const result<ferry_ipc_handle> image = export_memory(gpu, pitched);
    ASSERT_OK(image);
    ferry_ipc_info info = {};
    info.struct_size = sizeof info;
    ASSERT_OK(ferry_ipc_get_info(gpu, &*image, &info, nullptr));
    EXPECT_EQ(info.size, pitched.view().row_pitch() * 2 + 100);

    EXPECT_EQ(export_memory(gpu, memory.view().sub(0, 0)).error().code(), FERRY_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(export_memory(gpu, memory.view().sub(990, 20)).error().code(), FERRY_ERROR_OUT_OF_BOUNDS);
    expect_refusal(imported_memory<int>::open(gpu, {}, nullptr).error(), FERRY_ERROR_HANDLE, FERRY_SIDE_NONE,
                   FERRY_FIELD_HANDLE);
    const auto wrong_kind = imported_memory<int, FERRY_KIND_HOST>::open(gpu, *handle, nullptr);
    EXPECT_EQ(wrong_kind.error().code(), FERRY_ERROR_OTHER_KIND);
    EXPECT_EQ(ferry_ipc_close_memory(gpu, memory.address() + 400, nullptr, nullptr), FERRY_ERROR_ADDRESS)
        << "nothing is open";
}

TEST_F(cpp, an_imported_event_works_as_an_event) {
    FERRY_NEEDS_SECOND_PROCESS();
    const event made = event::create(gpu, 0, shared_event).or_throw();
    const result<ferry_ipc_handle> handle = export_event(gpu, made);
    ASSERT_OK(handle);
    const stream own = stream::create(gpu, 0).or_throw();
    const imported_event opened = imported_event::open(gpu, *handle).or_throw();
    ASSERT_OK(opened.record(own));
    ASSERT_OK(own.wait(opened));
    ASSERT_OK(opened.synchronize());
    EXPECT_TRUE(*opened.is_done());
    EXPECT_EQ(export_event(gpu, event::create(gpu, 0).or_throw()).error().code(), FERRY_ERROR_NOT_SHAREABLE);
    EXPECT_EQ(imported_event::open(gpu, {}).error().code(), FERRY_ERROR_HANDLE);
}

// What one process sends to the other. The pool's descriptor follows separately.
struct shared_things {
    ferry_ipc_handle memory, filled, pool, pool_memory;
};

// Opens everything, reads the numbers once the memory has been filled, and writes them doubled to the pool's memory.
FERRY_SECOND_PROCESS(doubles_what_it_is_given) {
    const instance gpu = instance::open(options_under_test()).or_throw();
    const auto given = channel.receive<shared_things>();
    const int descriptor = channel.receive_descriptor();
    const stream own = stream::create(gpu, 0, stream_flag::non_blocking).or_throw();
    const imported_event filled = imported_event::open(gpu, given.filled).or_throw();
    const auto source = imported_memory<std::uint32_t>::open(gpu, given.memory, own).or_throw();
    const imported_pool pool = imported_pool::open(gpu, given.pool, descriptor).or_throw();
    close_descriptor(descriptor);
    EXPECT_EQ(pool.location(), FERRY_LOCATION_DEVICE);
    EXPECT_EQ(pool.info()->is_imported, 1);
    imported_pool again = imported_pool::open(gpu, given.pool, -1).or_throw();
    again.set_stream(own);
    again.reset();
    EXPECT_FALSE(again);
    imported_pool once_more = imported_pool::open(gpu, given.pool, -1).or_throw();
    EXPECT_OK(once_more.close_deferred(own));
    auto destination = imported_memory<std::uint32_t>::open(gpu, given.pool_memory, own).or_throw();

    std::vector<std::uint32_t> numbers(source.view().width());
    EXPECT_OK(own.wait(filled));
    EXPECT_OK(copy_async(gpu, source, numbers, own));
    EXPECT_OK(own.synchronize());
    for (std::uint32_t &number : numbers)
        number *= 2;
    EXPECT_OK(copy(gpu, numbers, destination));
    return 0;
}

TEST_F(cpp_pools, two_processes_share_memory_pools_and_events) {
    if (!(info.pool_handle_types & FERRY_HANDLE_POSIX_FD)) GTEST_SKIP() << "the driver cannot share pools";
    ferry_pool_desc desc = {};
    desc.handle_types = FERRY_HANDLE_POSIX_FD;
    const pool pool = pool::create(gpu, desc).or_throw();
    auto memory = device_memory<std::uint32_t>::create(gpu, 0, 1000).or_throw();
    auto doubled = stream_memory<std::uint32_t>::create(pool, 1000, own).or_throw();
    const event filled = event::create(gpu, 0, shared_event).or_throw();
    const result<exported_pool> exported = export_pool(gpu, pool, FERRY_HANDLE_POSIX_FD);
    ASSERT_OK(exported);
    const shared_things given = {export_memory(gpu, memory).or_throw(), export_event(gpu, filled).or_throw(),
                                 exported->handle, export_memory(gpu, doubled).or_throw()};
    std::vector<std::uint32_t> sent = volume::numbers(1000), back(1000);
    {
        second_process other("doubles_what_it_is_given");
        ASSERT_OK(copy_async(gpu, sent, memory, own));
        ASSERT_OK(filled.record(own));
        other->send(given);
        other->send_descriptor(static_cast<int>(exported->os_handle));
        close_descriptor(static_cast<int>(exported->os_handle));
        ASSERT_EQ(other.wait(), 0);
    }
    ASSERT_OK(copy(gpu, doubled, back));
    for (std::uint32_t &number : sent)
        number *= 2;
    EXPECT_EQ(back, sent);
    EXPECT_EQ(
        export_pool(gpu, *pool_view::default_of(gpu, FERRY_LOCATION_DEVICE, 0), FERRY_HANDLE_POSIX_FD).error().code(),
        FERRY_ERROR_NOT_SHAREABLE);
}

// Refusals

TEST_F(cpp, ends_of_different_sizes_are_refused_with_both_sizes) {
    fault_driver driver(raw_entry_points());
    const instance_owner opened = open_or_fail(driver.options());
    volume large{8, 6, 4};
    auto memory = device_memory<std::uint32_t>::create(opened.get(), 0, 8 * 6 * 4).or_throw();
    const auto whole = memory.view().shaped(8, 6, 4);
    const struct {
        device_view<std::uint32_t> small;
        std::int32_t field;
        std::uint64_t size, limit;
    } cases[] = {{whole.sub(0, 0, 0, 7, 6, 4), FERRY_FIELD_WIDTH, 28, 32},
                 {whole.sub(0, 0, 0, 8, 5, 4), FERRY_FIELD_HEIGHT, 5, 6},
                 {whole.sub(0, 0, 0, 8, 6, 3), FERRY_FIELD_DEPTH, 3, 4}};
    for (const auto &each : cases) {
        const status too_small = copy(opened.get(), large.view(), each.small);
        expect_refusal(too_small, FERRY_ERROR_OUT_OF_BOUNDS, FERRY_SIDE_DESTINATION, each.field);
        EXPECT_EQ(too_small.info().value, each.size);
        EXPECT_EQ(too_small.info().limit, each.limit);
        EXPECT_EQ(too_small.info().numbers, FERRY_NUMBERS_EQUAL);
        const status too_large = describe_copy(each.small, large.view()).error();
        expect_refusal(too_large, FERRY_ERROR_OUT_OF_BOUNDS, FERRY_SIDE_DESTINATION, each.field);
        EXPECT_EQ(too_large.info().value, each.limit);
        EXPECT_EQ(too_large.info().limit, each.size);
    }
    EXPECT_EQ(driver.calls_beginning("cuMemcpy"), 0);
    EXPECT_STREQ(
        copy(opened.get(), large.view(), cases[0].small).line().c_str(),
        "destination.width: 28, must be 32 (FERRY_ERROR_OUT_OF_BOUNDS); both ends must have the same width, and the "
        "source's is 32; in elements of 4 bytes: 7, limit 8");
    EXPECT_STREQ(copy(opened.get(), large.view(), cases[2].small).line().c_str(),
                 "destination.depth: 3, must be 4 (FERRY_ERROR_OUT_OF_BOUNDS); both ends must have the same depth, and "
                 "the source's is 4");
    // A moved owner has no elements.
    auto emptied = device_memory<std::uint32_t>::create(gpu, 0, 10).or_throw();
    const auto owner = std::move(emptied);
    EXPECT_STREQ(
        copy(gpu, std::vector<std::uint32_t>(10), emptied).line().c_str(),
        "destination.width: 0, must be 40 (FERRY_ERROR_OUT_OF_BOUNDS); both ends must have the same width, and "
        "the source's is 40; in elements of 4 bytes: 0, limit 10");
}

TEST_F(cpp, a_box_past_the_edge_is_refused_by_the_call_that_gets_it) {
    volume source{8, 6, 4};
    auto memory = device_memory<std::uint32_t>::create(gpu, 0, 8 * 6 * 4).or_throw();
    const auto whole = memory.view().shaped(8, 6, 4);
    const std::uint64_t far = ~std::uint64_t{0};
    const struct {
        volume_view box;
        std::int32_t field;
        std::uint64_t value, limit;
    } cases[] = {{source.view().sub(5, 0, 0, 4, 1, 1), FERRY_FIELD_X, 36, 32},
                 {source.view().sub(0, 5, 0, 4, 2, 1), FERRY_FIELD_Y, 7, 6},
                 {source.view().sub(0, 0, 5, 4, 1, 1), FERRY_FIELD_Z, 6, 4},
                 {source.view().sub(far, 0, 0, 4, 1, 1), FERRY_FIELD_X, far, 32},
                 {source.view().sub(0, 2, 2, 8, 3, 2).sub(0, 2, 0, 1, 2, 1), FERRY_FIELD_Y, 4, 3}};
    for (const auto &each : cases) {
        const status refused = copy(gpu, each.box, whole.sub(0, 0, 0, 4, 1, 1));
        expect_refusal(refused, FERRY_ERROR_OUT_OF_BOUNDS, FERRY_SIDE_SOURCE, each.field);
        EXPECT_EQ(refused.info().value, each.value);
        EXPECT_EQ(refused.info().limit, each.limit);
        EXPECT_EQ(each.box.sub(0, 1).error().field(), each.field) << "the first error stays";
    }
    EXPECT_EQ(view_of(source.elements).shaped(8, 6, 5).error().code(), FERRY_ERROR_OUT_OF_BOUNDS);
    EXPECT_EQ(source.view().shaped(4, 4).error().code(), FERRY_ERROR_INVALID_ARGUMENT);
    const std::uint64_t room = far - reinterpret_cast<std::uintptr_t>(source.elements.data());
    const host_view<std::uint32_t> tight(source.elements.data(), 8, far, far, 0, 6),
        endless(source.elements.data(), 8, 6, far, far / 2);
    const struct {
        status refused;
        std::int32_t field;
        std::uint64_t value, limit;
    } overflows[] = {{tight.sub(0, far - 1, 0, 1, 1, 1).error(), FERRY_FIELD_Y, far - 1, room / 32},
                     {tight.sub(0, 0, far - 1, 1, 1, 1).error(), FERRY_FIELD_Z, far - 1, room / (32 * 6)},
                     {endless.sub(0, 0, far - 1, 1, 1, 1).error(), FERRY_FIELD_SLICE_HEIGHT, 6, 2}};
    for (const auto &each : overflows) {
        EXPECT_EQ(each.refused.code(), FERRY_ERROR_OVERFLOW);
        EXPECT_EQ(each.refused.field(), each.field);
        EXPECT_EQ(each.refused.info().value, each.value);
        EXPECT_EQ(each.refused.info().limit, each.limit);
    }
    EXPECT_FALSE(device_memory<int>::create(gpu, 0, far / 2)) << "the size in bytes must not wrap around";
}

TEST_F(cpp, the_address_of_a_view_in_error_is_refused_by_calls_without_views) {
    auto memory = device_memory<std::uint32_t>::create(gpu, 0, 100).or_throw();
    auto texels = array::create(gpu, 0, array_desc(FERRY_FORMAT_UINT32, 1, 8, 4)).or_throw();
    std::vector<std::uint32_t> numbers = volume::numbers(100);
    ASSERT_OK(fill(gpu, memory, 7u));
    const device_view<std::uint32_t> bad = memory.view().sub(98, 10);
    const host_view<std::uint32_t> bad_host = view_of(numbers).sub(98, 10);
    const array_view bad_box = texels.view().sub(6, 0, 4, 4);
    EXPECT_EQ(bad.address(), 0u);
    EXPECT_EQ(bad.pointer(), nullptr);
    EXPECT_EQ(bad.as_bytes().address(), 0u);
    EXPECT_EQ(bad.sub(0, 1).address(), 0u);
    EXPECT_EQ(device_view<const std::uint32_t>(bad).address(), 0u);
    EXPECT_EQ(bad_host.pointer(), nullptr);
    EXPECT_EQ(bad_box.array(), nullptr);
    EXPECT_EQ(bad_box.layer(0).array(), nullptr);

    const auto refuse = [](const status &each, std::int32_t side, std::int32_t field) {
        EXPECT_EQ(each.code(), FERRY_ERROR_ADDRESS);
        EXPECT_EQ(each.side(), side);
        EXPECT_EQ(each.field(), field);
        EXPECT_EQ(each.info().value, 0u);
    };
    const piece up[] = {{source(numbers.data()), destination(bad.address()), 40}},
                down[] = {{source(bad.address()), destination(numbers.data()), 40}},
                from_host[] = {{source(bad_host.pointer()), destination(memory.address()), 40}};
    refuse(copy_pieces(gpu, up), FERRY_SIDE_DESTINATION, FERRY_FIELD_ADDRESS);
    refuse(copy_pieces(gpu, down), FERRY_SIDE_SOURCE, FERRY_FIELD_ADDRESS);
    refuse(copy_pieces(gpu, from_host), FERRY_SIDE_SOURCE, FERRY_FIELD_ADDRESS);
    const auto line = describe_copy(view_of(numbers).sub(0, 8), memory.view().sub(0, 8)).or_throw();
    const auto image = describe_copy(view_of(numbers).sub(0, 32).shaped(8, 4), texels).or_throw();
    const struct {
        ferry_copy_desc desc;
        ferry_place source, destination;
        std::int32_t side, field;
    } cases[] = {{line, line.source, bad.place(), FERRY_SIDE_DESTINATION, FERRY_FIELD_ADDRESS},
                 {line, bad_host.place(), line.destination, FERRY_SIDE_SOURCE, FERRY_FIELD_ADDRESS},
                 {image, image.source, bad_box.place(), FERRY_SIDE_DESTINATION, FERRY_FIELD_ARRAY},
                 {image, bad_box.place(), line.destination, FERRY_SIDE_SOURCE, FERRY_FIELD_ARRAY}};
    for (const auto &each : cases) {
        ferry_copy_desc desc = each.desc;
        desc.source = each.source;
        desc.destination = each.destination;
        refuse(copy(gpu, desc), each.side, each.field);
        refuse(copy_batch(gpu, std::vector<ferry_copy_desc>{desc}), each.side, each.field);
    }
    auto zeros = describe_fill(memory.view().sub(0, 10), 0u).or_throw();
    zeros.destination = bad.place();
    refuse(fill(gpu, zeros), FERRY_SIDE_DESTINATION, FERRY_FIELD_ADDRESS);

    std::vector<std::uint32_t> back(100);
    ASSERT_OK(copy(gpu, memory, back));
    EXPECT_EQ(back, std::vector<std::uint32_t>(100, 7u));
    EXPECT_EQ(numbers, volume::numbers(100));
}

// The line of an error without addresses, which differ from run to run.
std::string line_without_addresses(const status &failed) {
    std::string line = failed.line().c_str();
    for (std::size_t first; (first = line.find("0x")) != std::string::npos;)
        line.replace(first, line.find_first_not_of("0123456789abcdef", first + 2) - first, "@");
    return line;
}

TEST_F(cpp, errors_about_typed_views_count_bytes_and_elements) {
    using element = std::array<float, 3>; // 12 bytes
    auto memory = device_memory<element>::create(gpu, 0, 100).or_throw();
    auto floats = device_memory<float>::create(gpu, 0, 100).or_throw();
    auto texels = array::create(gpu, 0, array_desc(FERRY_FORMAT_FLOAT, 2, 8, 4)).or_throw();
    const stream own = stream::create(gpu, 0).or_throw();
    std::vector<element> line(100), long_line(106);
    std::vector<float> numbers(72);
    const device_view<element> too_long(0, memory.address(), 106);
    const device_view<float> too_long_floats(0, floats.address(), 106), moved(0, floats.address() + 3, 100);
    const host_view<element> overlapping(line.data(), 10, 10, 1, 108);
    const auto image = memory.view().shaped(10, 10);
    const auto columns = view_of(line).shaped(10, 10).sub(8, 4);

    const std::string past_end = "destination.address: @, past the end at @ (FERRY_ERROR_OUT_OF_BOUNDS)",
                      past_row = "x: 144, past the end at 120 (FERRY_ERROR_OUT_OF_BOUNDS)",
                      row_in_elements = "; in elements of 12 bytes: 12, limit 10",
                      same_width = "; both ends must have the same width, and the source's is ";
    const ferry_error_info cut_off = {
        sizeof cut_off, FERRY_ERROR_OVERFLOW, FERRY_SIDE_SOURCE,    FERRY_FIELD_WIDTH, 0, 24, 36,
        nullptr,        FERRY_ITEM_NONE,      FERRY_NUMBERS_AT_MOST};
    std::vector<float> nothing;
    const struct {
        status refused;
        std::string line;
    } cases[] = {
        {status(cut_off, 12), "source.width: 36, must be at most 24 (FERRY_ERROR_OVERFLOW)"},
        {copy(gpu, long_line, too_long), past_end + "; in elements of 12 bytes: by 6"},
        {copy_async(gpu, long_line, too_long, own), past_end + "; in elements of 12 bytes: by 6"},
        {copy_async_ticket(gpu, long_line, too_long, own).error(), past_end + "; in elements of 12 bytes: by 6"},
        {explain(gpu, long_line, too_long).error(), past_end + "; in elements of 12 bytes: by 6"},
        {explain_async(gpu, long_line, too_long, own).error(), past_end + "; in elements of 12 bytes: by 6"},
        {fill(gpu, too_long_floats, 1.0f), past_end + "; in elements of 4 bytes: by 6"},
        {fill_async(gpu, too_long_floats, 1.0f, own), past_end + "; in elements of 4 bytes: by 6"},
        // No whole number of elements, and elements that are bytes.
        {copy(gpu, floats, moved), past_end},
        {copy(gpu, view_of(long_line).as_bytes(), too_long.as_bytes()), past_end},
        {ferry::describe_copy(long_line, line).error(),
         "destination.width: 1200, must be 1272 (FERRY_ERROR_OUT_OF_BOUNDS)" + same_width +
             "1272; in elements of 12 bytes: 100, limit 106"},
        {copy(gpu, overlapping, image),
         "source.row_pitch: 108, must be at least 120 (FERRY_ERROR_PITCH); in elements of 12 bytes: 9, limit 10"},
        // Errors of a box and of what is made from it.
        {columns.error(), past_row + row_in_elements},
        {columns.as_bytes().error(), past_row + row_in_elements},
        {copy(gpu, columns, image), "source." + past_row + row_in_elements},
        {describe_fill(floats.view().sub(98, 3), 1.0f).error(),
         "destination.x: 404, past the end at 400 (FERRY_ERROR_OUT_OF_BOUNDS); in elements of 4 bytes: 101, limit 100"},
        // Each end in its own elements.
        {copy(gpu, texels, view_of(numbers).shaped(18, 4)),
         "destination.width: 72, must be 64 (FERRY_ERROR_OUT_OF_BOUNDS)" + same_width +
             "64; in elements of 4 bytes: 18, limit 16"},
        {copy(gpu, texels, view_of(numbers).shaped(14, 4)),
         "destination.width: 56, must be 64 (FERRY_ERROR_OUT_OF_BOUNDS)" + same_width +
             "64; in elements of 4 bytes: 14, limit 16"},
        {copy(gpu, view_of(numbers).shaped(18, 4), texels),
         "destination.width: 64, must be 72 (FERRY_ERROR_OUT_OF_BOUNDS)" + same_width +
             "72; in elements of 8 bytes: 8, limit 9"},
        {copy(gpu, floats, nothing), "destination.width: 0, must be 400 (FERRY_ERROR_OUT_OF_BOUNDS)" + same_width +
                                         "400; in elements of 4 bytes: 0, limit 100"},
        // Rows and slices are counted as they are.
        {copy(gpu, image.sub(0, 8, 10, 4), image), "source.y: 12, past the end at 10 (FERRY_ERROR_OUT_OF_BOUNDS)"},
    };
    for (const auto &each : cases)
        EXPECT_EQ(line_without_addresses(each.refused), each.line);
    EXPECT_EQ(cases[0].refused.element_size(), sizeof(element));
    try {
        columns.error().or_throw();
        FAIL() << "the box is past the edge";
    } catch (const error &thrown) {
        EXPECT_EQ(thrown.what(), past_row + row_in_elements);
    }
}

TEST_F(cpp, an_empty_view_copies_and_fills_nothing) {
    volume source{8, 6, 4};
    auto memory = device_memory<std::uint32_t>::create(gpu, 0, 8 * 6 * 4).or_throw();
    ASSERT_OK(fill(gpu, memory, 3u));
    for (const auto &[w, h, d] : {std::array<std::uint64_t, 3>{0, 6, 4}, {8, 0, 4}, {8, 6, 0}}) {
        const auto nowhere = memory.view().shaped(8, 6, 4).sub(0, 0, 0, w, h, d);
        ASSERT_OK(copy(gpu, source.view().sub(0, 0, 0, w, h, d), nowhere));
        ASSERT_OK(fill(gpu, nowhere, 4u));
    }
    ASSERT_OK(copy(gpu, std::vector<std::uint32_t>(), memory.view().sub(0, 0)));
    std::vector<std::uint32_t> back(8 * 6 * 4);
    ASSERT_OK(copy(gpu, memory, back));
    EXPECT_EQ(back, std::vector<std::uint32_t>(8 * 6 * 4, 3u));
}

TEST_F(cpp, a_failure_throws_only_where_requested) {
    EXPECT_NO_THROW(status().or_throw());
    const device_memory<int> memory = device_memory<int>::create(gpu, 0, 10).or_throw();
    EXPECT_TRUE(memory);
    try {
        device_memory<int>::create(gpu, 1000, 10).or_throw();
        FAIL() << "there is no such device";
    } catch (const std::exception &thrown) {
        EXPECT_EQ(thrown.what(), "device: 1000, must be at least 0 and less than " + std::to_string(device_count()) +
                                     " (FERRY_ERROR_DEVICE)");
        EXPECT_EQ(dynamic_cast<const error &>(thrown).status().code(), FERRY_ERROR_DEVICE);
    }
    const status dead(FERRY_STATUS_DRIVER_BASE - CUDA_ERROR_ILLEGAL_ADDRESS);
    EXPECT_TRUE(dead.context_is_dead());
    EXPECT_STREQ(dead.name(), "CUDA_ERROR_ILLEGAL_ADDRESS");
}

// Batches

TEST_F(cpp, batches_take_containers_of_descriptors_and_of_addresses) {
    std::vector<std::uint32_t> from = volume::numbers(256), to(256), back(256);
    auto device = device_memory<std::uint32_t>::create(gpu, 0, 256).or_throw();
    const device_view<std::uint32_t> there = device.view();
    std::vector<ferry_copy_desc> halves;
    for (const std::uint64_t first : {std::uint64_t{128}, std::uint64_t{0}})
        halves.push_back(describe_copy(view_of(from).sub(first, 128), there.sub(first, 128)).or_throw());
    ASSERT_OK(copy_batch(gpu, halves, copy_flag::check_overlap));
    ASSERT_OK(copy_batch_async(gpu, std::span<const ferry_copy_desc>(halves), nullptr));

    std::vector<std::uint64_t> destinations, sources, sizes;
    for (std::uint64_t i = 0; i < 256; i += 16) {
        destinations.push_back(reinterpret_cast<std::uintptr_t>(back.data() + (240 - i)));
        sources.push_back(device.handle() + 4 * i);
        sizes.push_back(64);
    }
    const pieces all(ferry::sources(sources), ferry::destinations(destinations), ferry::sizes(sizes));
    ASSERT_OK(copy_pieces(gpu, all));
    for (std::size_t i = 0; i < 256; ++i)
        ASSERT_EQ(back[i], from[240 - i / 16 * 16 + i % 16]);
    std::fill(back.begin(), back.end(), 0);
    ferry_piece_list list;
    ferry_piece_list_set_arrays(&list, destinations.data(), sources.data(), sizes.data(), 16);
    ASSERT_OK(copy_pieces_async(gpu, pieces(list), nullptr));
    ASSERT_OK(raw().cuStreamSynchronize(nullptr));
    EXPECT_EQ(back[0], from[240]);

    const auto copies_of = [](const ferry_batch_explanation &told) {
        return told.singles.copies + told.batch_calls.copies + told.kernels.copies + told.staged.copies;
    };
    const ferry_batch_explanation of_halves = explain_batch_async(gpu, halves, nullptr).or_throw();
    EXPECT_EQ(copies_of(of_halves), 2u);
    EXPECT_EQ(copies_of(explain_pieces_async(gpu, all, nullptr).or_throw()), 16u);
    EXPECT_NE(std::strstr(line_of(of_halves).text, "2 copies"), nullptr) << line_of(of_halves).text;

    sizes.back() = 1 << 20;
    EXPECT_EQ(explain_pieces_async(gpu, all, nullptr).error().info().index, 15u);
    const status refused = copy_pieces(gpu, all);
    EXPECT_EQ(refused.code(), FERRY_ERROR_OUT_OF_BOUNDS);
    EXPECT_EQ(refused.info().index, 15u);
}

TEST_F(cpp, batches_take_c_arrays) {
    const std::vector<std::uint32_t> sent = volume::numbers(64);
    std::uint32_t back[64] = {};
    auto memory = device_memory<std::uint32_t>::create(gpu, 0, 64).or_throw();
    const stream own = stream::create(gpu, 0).or_throw();
    const ferry_copy_desc halves[] = {describe_copy(view_of(sent).sub(32, 32), memory.view().sub(32, 32)).or_throw(),
                                      describe_copy(view_of(sent).sub(0, 32), memory.view().sub(0, 32)).or_throw()};
    ASSERT_OK(copy_batch(gpu, halves));
    ASSERT_OK(copy_batch_async(gpu, halves, own));
    ASSERT_OK(prepared::create(gpu, halves, own).or_throw().launch(own));
    const std::uint64_t destinations[] = {reinterpret_cast<std::uintptr_t>(back + 32),
                                          reinterpret_cast<std::uintptr_t>(back)},
                        sources[] = {memory.address() + 128, memory.address()};
    const std::array<std::uint64_t, 2> sizes = {128, 128};
    const pieces all(ferry::sources(sources), ferry::destinations(destinations), ferry::sizes(sizes));
    EXPECT_EQ(all.count(), 2u);
    ASSERT_OK(copy_pieces_async(gpu, all, own));
    ASSERT_OK(own.synchronize());
    EXPECT_TRUE(std::equal(sent.begin(), sent.end(), std::begin(back)));
    std::fill(std::begin(back), std::end(back), 0);
    ASSERT_OK(prepared::create(gpu, all, own).or_throw().launch(own));
    ASSERT_OK(own.synchronize());
    EXPECT_TRUE(std::equal(sent.begin(), sent.end(), std::begin(back)));
}

TEST_F(cpp, piece_lists_of_unequal_lengths_are_refused_naming_the_wrong_side) {
    const std::uint64_t three[] = {4096, 8192, 12288}, two[] = {1, 1};
    const auto expect_refused = [](const status &each, std::int32_t side, std::uint64_t limit, std::uint64_t value) {
        expect_refusal(each, FERRY_ERROR_INVALID_ARGUMENT, side, FERRY_FIELD_SIZE);
        EXPECT_EQ(each.info().limit, limit);
        EXPECT_EQ(each.info().value, value);
    };
    const auto expect_all_refuse = [&](const pieces &all, std::int32_t side, std::uint64_t limit, std::uint64_t value) {
        expect_refused(all.error, side, limit, value);
        expect_refused(copy_pieces(gpu, all), side, limit, value);
        expect_refused(copy_pieces_async(gpu, all, nullptr), side, limit, value);
        expect_refused(prepared::create(gpu, all, nullptr).error(), side, limit, value);
    };
    expect_all_refuse({sources(two), destinations(three), sizes(two)}, FERRY_SIDE_DESTINATION, 2, 3);
    expect_all_refuse({sources(three), destinations(two), sizes(two)}, FERRY_SIDE_SOURCE, 2, 3);
    expect_all_refuse({sources(three), destinations(two), sizes(three)}, FERRY_SIDE_DESTINATION, 3, 2);
    const std::vector<std::uint64_t> none;
    expect_all_refuse({sources(none), destinations(none), sizes(two)}, FERRY_SIDE_DESTINATION, 2, 0);
    EXPECT_OK(copy_pieces(gpu, {sources(none), destinations(none), sizes(none)}));
    EXPECT_OK(copy_pieces(gpu, std::span<const piece>()));
}

TEST_F(cpp, pieces_are_structs_of_ferry_or_fields_of_own_structs) {
    struct upload {
        char name[5];
        const void *from;
        std::uint64_t bytes;
        std::uintptr_t to;
    };
    std::vector<std::uint32_t> sent = volume::numbers(64), back(64);
    auto memory = device_memory<std::uint32_t>::create(gpu, 0, 64).or_throw();
    std::vector<upload> uploads;
    std::vector<piece> downloads;
    for (std::size_t i = 0; i < 64; i += 8) {
        const std::uint64_t there = memory.address() + 4 * i;
        uploads.push_back({"file", &sent[56 - i], 32, there});
        downloads.push_back({source(there), destination(&back[56 - i]), 32});
    }
    const pieces all(uploads, &upload::from, &upload::to, &upload::bytes);
    EXPECT_EQ(all.count(), 8u);
    ASSERT_OK(copy_pieces(gpu, all));
    ASSERT_OK(copy_pieces(gpu, downloads));
    EXPECT_EQ(back, sent);
    std::fill(back.begin(), back.end(), 0);
    const std::vector<ferry_piece> plain(downloads.begin(), downloads.end());
    ASSERT_OK(copy_pieces(gpu, std::span(plain)));
    EXPECT_EQ(back, sent);
    const piece one(source(&sent[0]), destination(memory.address()), 4);
    EXPECT_EQ(one.source, reinterpret_cast<std::uintptr_t>(sent.data()));
    EXPECT_EQ(one.destination, memory.address());
    EXPECT_EQ(one.size, 4u);
    EXPECT_EQ(piece().size, 0u);

    uploads[3].bytes = 512;
    const status refused = copy_pieces(gpu, all);
    EXPECT_EQ(refused.code(), FERRY_ERROR_OUT_OF_BOUNDS);
    EXPECT_EQ(refused.info().index, 3u);
}

TEST_F(cpp, a_piece_is_described_by_its_two_ranges) {
    std::vector<std::uint32_t> sent = volume::numbers(96), back(96);
    auto memory = device_memory<std::uint32_t>::create(gpu, 0, 96).or_throw();
    std::vector<piece> up, down;
    for (std::uint64_t i = 0; i < 96; i += 24) {
        up.push_back(describe_piece(view_of(sent).sub(i, 24), memory.view().sub(72 - i, 24)).or_throw());
        // Images and volumes without gaps.
        const auto volume = memory.view().sub(72 - i, 24).shaped(3, 2, 4);
        down.push_back(describe_piece(std::as_const(memory).view().sub(72 - i, 24).shaped(3, 2, 4),
                                      view_of(back).sub(i, 24).shaped(3, 2, 4))
                           .or_throw());
        EXPECT_EQ(down.back().source, volume.address());
        EXPECT_EQ(down.back().size, 96u);
    }
    ASSERT_OK(copy_pieces(gpu, up));
    ASSERT_OK(copy_pieces(gpu, down));
    EXPECT_EQ(back, sent);
    const piece whole = describe_piece(sent, memory).or_throw();
    EXPECT_EQ(whole.source, reinterpret_cast<std::uintptr_t>(sent.data()));
    EXPECT_EQ(whole.destination, memory.address());
    EXPECT_EQ(whole.size, 96 * sizeof(std::uint32_t));
    EXPECT_EQ(describe_piece(view_of(sent).sub(96, 0), memory.view().sub(0, 0)).or_throw().size, 0u);

    // One row of an image is contiguous, two are not.
    const auto image = memory.view().shaped(12, 8);
    const auto image_on_host = view_of(sent).shaped(12, 8);
    EXPECT_EQ(describe_piece(view_of(sent).sub(0, 6), image.sub(6, 1, 6, 1)).or_throw().destination,
              memory.address() + 18 * sizeof(std::uint32_t));
    const auto columns = image.sub(0, 6);
    const device_view<std::uint32_t> gaps(0, memory.address(), 12, 2, 2, 0, 4);
    const struct {
        status refused;
        const char *line;
    } cases[] = {
        {describe_piece(view_of(sent).sub(0, 48).shaped(6, 8), columns).error(),
         "destination.row_pitch: 48, must be 24 (FERRY_ERROR_PITCH); in elements of 4 bytes: 12, limit 6"},
        {describe_piece(columns, view_of(sent).sub(0, 48).shaped(6, 8)).error(),
         "source.row_pitch: 48, must be 24 (FERRY_ERROR_PITCH); in elements of 4 bytes: 12, limit 6"},
        {describe_piece(gaps, view_of(back).sub(0, 48).shaped(12, 2, 2)).error(),
         "source.slice_height: 4, must be 2 (FERRY_ERROR_PITCH)"},
        {describe_piece(view_of(sent).sub(90, 10), memory.view().sub(0, 10)).error(),
         "source.x: 400, past the end at 384 (FERRY_ERROR_OUT_OF_BOUNDS); in elements of 4 bytes: 100, limit 96"},
    };
    for (const auto &each : cases)
        EXPECT_STREQ(each.refused.line().c_str(), each.line);
    expect_refusal(describe_piece(view_of(sent).sub(0, 10), memory).error(), FERRY_ERROR_OUT_OF_BOUNDS,
                   FERRY_SIDE_DESTINATION, FERRY_FIELD_WIDTH);
    expect_refusal(describe_piece(image_on_host, memory.view().sub(0, 48).shaped(12, 4)).error(),
                   FERRY_ERROR_OUT_OF_BOUNDS, FERRY_SIDE_DESTINATION, FERRY_FIELD_HEIGHT);
}

TEST_F(cpp, a_broadcast_reaches_every_destination) {
    constexpr std::uint64_t count = 1 << 20, size = count * sizeof(std::uint32_t); // 4 MiB: the devices share the work
    const std::vector<std::uint32_t> sent = volume::numbers(count);
    std::vector<device_memory<std::uint32_t>> memory;
    std::vector<std::uint64_t> addresses;
    for (std::int32_t device = 0; device < device_count(); ++device) {
        memory.push_back(device_memory<std::uint32_t>::create(gpu, device, count).or_throw());
        addresses.push_back(memory.back().address());
    }
    const source_address from = source(sent.data());
    const destination_list to = destinations(addresses);
    const stream own = stream::create(gpu, 0, stream_flag::non_blocking).or_throw();
    const ferry_batch_explanation told = explain_broadcast_async(gpu, from, to, size, own).or_throw();
    EXPECT_EQ(told.broadcasts.copies, device_count() > 1 ? addresses.size() : 0u) << line_of(told).text;
    const auto expect_everywhere = [&] {
        for (device_memory<std::uint32_t> &each : memory) {
            std::vector<std::uint32_t> back(count);
            ASSERT_OK(copy(gpu, each, back));
            EXPECT_TRUE(back == sent);
            ASSERT_OK(fill(gpu, each, 0u));
        }
    };
    ASSERT_OK(broadcast(gpu, from, to, size));
    expect_everywhere();
    ASSERT_OK(broadcast_async(gpu, from, to, size, own));
    ASSERT_OK(own.synchronize());
    expect_everywhere();

    const std::uint64_t bad[] = {addresses[0], 0};
    EXPECT_EQ(broadcast(gpu, from, destinations(bad), size).info().index, 1u);
    EXPECT_EQ(broadcast(gpu, from, destinations(bad), size, copy_flag::updatable).code(), FERRY_ERROR_FLAGS);
    addresses.clear();
    EXPECT_OK(broadcast(gpu, from, destinations(addresses), size));
}

TEST_F(cpp, a_broadcast_of_a_file_reaches_every_destination) {
    const instance opened_here = instance::open(options_under_test()).or_throw();
    if (!ferry_instance_get_proc(opened_here, "cuLibraryLoadData", 12000))
        GTEST_SKIP() << "without kernels, a file is copied only on the device of the stream";
    constexpr std::uint64_t count = 1 << 20, size = count * sizeof(std::uint32_t), offset = 4099;
    const std::vector<std::uint32_t> sent = volume::numbers(count);
    bytes contents(offset + size);
    std::memcpy(contents.data() + offset, sent.data(), size);
    const temporary_file on_disk(contents);
    const file opened = file::open(opened_here, on_disk.path().c_str()).or_throw();
    std::vector<device_memory<std::uint32_t>> memory;
    std::vector<std::uint64_t> addresses;
    for (std::int32_t device = 0; device < device_count(); ++device) {
        memory.push_back(device_memory<std::uint32_t>::create(opened_here, device, count).or_throw());
        addresses.push_back(memory.back().address());
    }
    const ferry_place from = opened.at(offset);
    const destination_list to = destinations(addresses);
    const stream own = stream::create(opened_here, 0, stream_flag::non_blocking).or_throw();
    const ferry_batch_explanation told = explain_broadcast_async(opened_here, from, to, size, own).or_throw();
    if (device_count() > 1) {
        EXPECT_EQ(told.broadcasts.copies, addresses.size()) << line_of(told).text;
        EXPECT_EQ(told.broadcasts.bytes, size) << "the file is read once";
    }
    const auto expect_everywhere = [&] {
        for (device_memory<std::uint32_t> &each : memory) {
            std::vector<std::uint32_t> back(count);
            ASSERT_OK(copy(opened_here, each, back));
            EXPECT_TRUE(back == sent);
            ASSERT_OK(fill(opened_here, each, 0u));
        }
    };
    for (const bool with_access : {false, true}) {
        SCOPED_TRACE(with_access);
        if (with_access) {
            ASSERT_OK(opened_here.enable_all_peers().error());
        }
        ASSERT_OK(broadcast(opened_here, from, to, size));
        expect_everywhere();
        const ticket made = broadcast_async_ticket(opened_here, from, to, size, own, tag(7)).or_throw();
        ASSERT_OK(made.wait());
        EXPECT_EQ(made.info().or_throw().tag, 7u);
        expect_everywhere();
    }

    const status past = broadcast(opened_here, opened.at(offset + 1), to, size);
    expect_refusal(past, FERRY_ERROR_OUT_OF_BOUNDS, FERRY_SIDE_SOURCE, FERRY_FIELD_OFFSET);
    EXPECT_EQ(broadcast_async_ticket(opened_here, opened.at(offset + 1), to, size, own).error().code(),
              FERRY_ERROR_OUT_OF_BOUNDS);
    const std::uint64_t bad[] = {addresses[0], 0};
    EXPECT_EQ(broadcast(opened_here, from, destinations(bad), size).info().index, 1u);
    addresses.clear();
    EXPECT_OK(broadcast(opened_here, from, destinations(addresses), size));
}

TEST_F(cpp, a_ticket_reports_its_copy_and_is_released_with_its_owner) {
    auto device = device_memory<std::uint32_t>::create(gpu, 0, 100'000).or_throw();
    const std::vector<std::uint32_t> numbers = volume::numbers(100'000);
    std::vector<std::uint32_t> back(numbers.size());
    ASSERT_OK(copy_async(gpu, numbers, device, nullptr));
    ticket of_copy = copy_async_ticket(gpu, device, back, nullptr).or_throw();
    ASSERT_OK(of_copy.wait());
    EXPECT_EQ(back, numbers);
    const ferry_ticket_info info = of_copy.info().or_throw();
    EXPECT_EQ(info.done, 1);
    EXPECT_EQ(info.bytes_done, numbers.size() * sizeof(std::uint32_t));
    const ferry_copy_desc desc = describe_copy(view_of(numbers), view_of(device)).or_throw();
    EXPECT_OK(copy_async_ticket(gpu, desc, nullptr).or_throw().wait());
    const auto own = stream::create(gpu, 0, stream_flag::non_blocking).or_throw();
    std::promise<status> notified;
    ASSERT_OK(own.notify([&notified](const status &ended) { notified.set_value(ended); }));
    EXPECT_OK(ticket::create(gpu, own).or_throw().wait());
    EXPECT_OK(notified.get_future().get());
    EXPECT_EQ(stream().notify([](const status &) {}).code(), FERRY_ERROR_INVALID_ARGUMENT);
    const ticket moved = std::move(of_copy);
    EXPECT_FALSE(of_copy);
    EXPECT_TRUE(moved);
    instance view(gpu);
    EXPECT_OK(view.prepare_staging(0));
    EXPECT_GT(view.staging().or_throw().staging_bytes, 0u);
    EXPECT_OK(view.trim_staging());
    EXPECT_EQ(view.release(), gpu);
}

TEST_F(cpp, a_ticket_is_done_when_its_work_has_ended_and_reports_a_failure) {
    fault_driver driver(raw_entry_points());
    const instance_owner opened = open_or_fail(driver.options());
    const stream own = stream::create(opened.get(), 0, stream_flag::non_blocking).or_throw();
    gate held(own);
    const ticket ended = ticket::create(opened.get(), own).or_throw(),
                 failed = ticket::create(opened.get(), own).or_throw();
    EXPECT_FALSE(*ended.is_done());
    EXPECT_OK(ended.is_done());
    EXPECT_EQ(ended.wait(1000).code(), FERRY_ERROR_NOT_READY);
    const std::vector<ferry_ticket *> any = {failed, ended};
    EXPECT_EQ(wait_any(any, 0).error().code(), FERRY_ERROR_NOT_READY);
    EXPECT_EQ(wait_any(std::vector<ferry_ticket *>()).error().info().field, FERRY_FIELD_COUNT);
    EXPECT_OK(ended.wait_async(own));
    held.open();
    EXPECT_OK(ended.wait());
    EXPECT_EQ(wait_any(any).or_throw(), 0u);
    EXPECT_TRUE(*ended.is_done());
    driver.fail("cuEventQuery", CUDA_ERROR_LAUNCH_FAILED, 1, true);
    EXPECT_EQ(failed.is_done().error().code(), FERRY_STATUS_DRIVER_BASE - CUDA_ERROR_LAUNCH_FAILED);
    EXPECT_EQ(ticket().is_done().error().code(), FERRY_ERROR_INVALID_ARGUMENT);
}

TEST_F(cpp, a_prepared_batch_is_launched_changed_and_destroyed_with_its_owner) {
    auto host = pinned_memory<std::uint32_t>::create(gpu, 256).or_throw();
    auto device = device_memory<std::uint32_t>::create(gpu, 0, 256).or_throw();
    const std::vector<std::uint32_t> numbers = volume::numbers(256);
    std::copy(numbers.begin(), numbers.end(), host.data());
    std::vector<std::uint64_t> destinations, sources;
    for (std::uint64_t i = 0; i < 8; ++i) {
        destinations.push_back(device.handle() + 128 * i);
        sources.push_back(reinterpret_cast<std::uintptr_t>(host.data()) + 128 * (7 - i));
    }
    const std::vector<std::uint64_t> sizes(8, 128);
    prepared batch =
        prepared::create(gpu, pieces(ferry::sources(sources), ferry::destinations(destinations), ferry::sizes(sizes)),
                         nullptr, copy_flag::updatable)
            .or_throw();
    EXPECT_EQ(batch.count(), 8u);
    std::vector<std::uint32_t> back(256);
    ASSERT_OK(batch.launch(nullptr));
    ASSERT_OK(copy(gpu, device, back));
    EXPECT_EQ(back[0], numbers[7 * 32]);
    std::reverse(sources.begin(), sources.end());
    ASSERT_OK(batch.set_addresses(ferry::sources(sources), nullptr));
    prepared moved = std::move(batch);
    EXPECT_FALSE(batch);
    EXPECT_EQ(batch.count(), 0u);
    EXPECT_EQ(batch.launch(nullptr).code(), FERRY_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(batch.set_addresses(ferry::sources(sources), nullptr).code(), FERRY_ERROR_INVALID_ARGUMENT);
    ASSERT_OK(moved.launch(nullptr));
    ASSERT_OK(copy(gpu, device, back));
    EXPECT_EQ(back, numbers);
    const std::vector<ferry_copy_desc> one = {describe_copy(host.view(), device.view()).or_throw()};
    const prepared whole = prepared::create(gpu, one, nullptr).or_throw();
    EXPECT_OK(whole.launch(nullptr));
    EXPECT_EQ(whole.count(), 1u);
    EXPECT_EQ(whole.set_addresses(ferry::sources(sources), nullptr).code(), FERRY_ERROR_UNSUPPORTED)
        << "made of descriptors";
    EXPECT_EQ(prepared::create(gpu, one, nullptr, copy_flags(~std::uint32_t{0})).error().code(), FERRY_ERROR_FLAGS);

    prepared taken(gpu, moved.release(), 8); // as if the handle came from the C function
    EXPECT_EQ(moved.count(), 0u);
    ASSERT_OK(taken.set_addresses(ferry::sources(sources), ferry::destinations(destinations), nullptr));
    ASSERT_OK(taken.launch(nullptr));
    ASSERT_OK(copy(gpu, device, back));
    EXPECT_EQ(back, numbers);
}

// Sizes around 2 and 4 GiB

constexpr std::uint64_t largest_size = (std::uint64_t{1} << 32) + 5;
constexpr std::uint64_t sizes_above_32_bits[] = {(std::uint64_t{1} << 31) - 1, std::uint64_t{1} << 31,
                                                 (std::uint64_t{1} << 31) + 1, (std::uint64_t{1} << 32) - 1,
                                                 std::uint64_t{1} << 32,       largest_size};

// Errors and descriptors have the whole sizes; few bytes are copied.
TEST_F(cpp, sizes_above_32_bits_keep_all_their_bits) {
    const mapped_memory host(largest_size); // of which few pages are touched
    auto *const first = reinterpret_cast<std::uint8_t *>(host.data());
    auto device = device_memory<std::uint8_t>::create(gpu, 0, std::uint64_t{1} << 31).or_throw();
    for (const std::uint64_t size : sizes_above_32_bits) {
        SCOPED_TRACE(size);
        const host_view<std::uint8_t> whole(first, size);
        const host_view<std::uint32_t> elements(reinterpret_cast<std::uint32_t *>(first), size / 4);
        EXPECT_EQ(whole.reach(), size);
        EXPECT_EQ(elements.byte_extent().width, size / 4 * 4);
        const result<ferry_copy_desc> desc = describe_copy(whole, host_view<std::uint8_t>(first + size, size));
        ASSERT_OK(desc);
        EXPECT_EQ(desc->width, size);
        const status refused = copy(gpu, whole, host_view<std::uint8_t>(first, size - 1));
        expect_refusal(refused, FERRY_ERROR_OUT_OF_BOUNDS, FERRY_SIDE_DESTINATION, FERRY_FIELD_WIDTH);
        EXPECT_EQ(refused.info().value, size - 1);
        EXPECT_EQ(refused.info().limit, size);
        // The last bytes of two rows as far apart as rows can be, and a box at the end of the view.
        const std::uint64_t pitch = size / 2;
        if (pitch > std::uint64_t{INT32_MAX}) continue;
        std::memset(first + 2 * pitch - 8, 7, 8);
        std::array<std::uint8_t, 16> rows{}, tail{};
        ASSERT_OK(
            copy(gpu, whole.sub(0, 2 * pitch).shaped(pitch, 2).sub(pitch - 8, 0, 8, 2), view_of(rows).shaped(8, 2)));
        EXPECT_EQ(rows[15], 7);
        std::memset(first + size - 16, 9, 16);
        ASSERT_OK(copy(gpu, whole.sub(size - 16, 16), tail));
        EXPECT_EQ(tail[0] + tail[15], 18);
    }
    for (const std::uint64_t size : {std::uint64_t{1} << 31, (std::uint64_t{1} << 31) - 1}) {
        ASSERT_OK(fill(gpu, device.view().sub(size - 16, 16), std::uint8_t{3}));
        std::array<std::uint8_t, 16> tail{};
        ASSERT_OK(copy(gpu, device.view().sub(size - 16, 16), tail));
        EXPECT_EQ(tail[0] + tail[15], 6);
    }
    for (const std::uint64_t count : {UINT64_MAX, UINT64_MAX / 4 + 1, UINT64_MAX / 8 + 1, std::uint64_t{1} << 62}) {
        EXPECT_FALSE(device_memory<std::uint64_t>::create(gpu, 0, count)) << count;
        EXPECT_FALSE(pinned_memory<std::uint64_t>::create(gpu, count)) << count;
        EXPECT_FALSE(pitched_memory<std::uint64_t>::create(gpu, 0, count, 2)) << count;
        EXPECT_FALSE(pitched_memory<std::uint64_t>::create(gpu, 0, 2, count, count)) << count;
        EXPECT_FALSE(stream_memory<std::uint64_t>::create(gpu, 0, count, nullptr)) << count;
    }
}

#if defined(__linux__)
// A range of addresses with few pages: the same 4 MiB everywhere, except for the first page and those around the end.
class folded_memory {
public:
    explicit folded_memory(std::size_t size) : whole(size / page * page + 2 * page, page_access::none) {
        const int file = memfd_create("ferry-test", MFD_CLOEXEC);
        EXPECT_EQ(ftruncate(file, static_cast<off_t>(piece)), 0);
        for (std::size_t at = 0; at < whole.size(); at += piece)
            map(at, std::min(piece, whole.size() - at), MAP_SHARED, file);
        map(0, page, MAP_PRIVATE | MAP_ANONYMOUS, -1);
        map((size - 8) / page * page, 2 * page, MAP_PRIVATE | MAP_ANONYMOUS, -1);
        close(file);
    }
    std::uint8_t *data() const { return reinterpret_cast<std::uint8_t *>(whole.data()); }

private:
    static constexpr std::size_t piece = 4 << 20, page = 4096;

    void map(std::size_t at, std::size_t size, int flags, int file) const {
        EXPECT_NE(mmap(whole.data() + at, size, PROT_READ | PROT_WRITE, flags | MAP_FIXED | MAP_POPULATE, file, 0),
                  MAP_FAILED);
    }
    const mapped_memory whole;
};

TEST_F(cpp, copies_above_32_bits_arrive_whole) {
    const std::uint64_t middle = std::uint64_t{1} << 31;
    for (const std::uint64_t size : {middle - 1, middle, largest_size}) {
        SCOPED_TRACE(size);
        const folded_memory from(size), to(size);
        std::memset(from.data(), 7, 8);
        std::memset(from.data() + size - 8, 9, 8);
        to.data()[size] = 0xee;
        ASSERT_OK(copy(gpu, host_view<std::uint8_t>(from.data(), size), host_view<std::uint8_t>(to.data(), size)));
        EXPECT_EQ(std::memcmp(to.data(), from.data(), 8), 0);
        EXPECT_EQ(std::memcmp(to.data() + size - 8, from.data() + size - 8, 8), 0);
        EXPECT_EQ(to.data()[size], 0xee);
    }
}
#endif

TEST_F(cpp, new_addresses_whose_number_differs_from_the_pieces_are_refused) {
    auto host = pinned_memory<std::uint32_t>::create(gpu, 64).or_throw();
    auto device = device_memory<std::uint32_t>::create(gpu, 0, 64).or_throw();
    std::iota(host.begin(), host.end(), 0u);
    const std::uint64_t from = reinterpret_cast<std::uintptr_t>(host.data()), to = device.address();
    const std::uint64_t destinations[] = {to, to + 128}, sources[] = {from, from + 128}, sizes[] = {128, 128},
                        swapped[] = {from + 128, from}, three[] = {from, from, from};
    const stream own = stream::create(gpu, 0).or_throw();
    const prepared batch =
        prepared::create(gpu, pieces(ferry::sources(sources), ferry::destinations(destinations), ferry::sizes(sizes)),
                         own, copy_flag::updatable)
            .or_throw();
    const auto expect_refused = [](const status &each, std::int32_t side, std::int32_t field, std::uint64_t value) {
        expect_refusal(each, FERRY_ERROR_INVALID_ARGUMENT, side, field);
        EXPECT_EQ(each.info().limit, 2u);
        EXPECT_EQ(each.info().value, value);
    };
    const std::vector<std::uint64_t> none;
    const std::array<piece, 3> many = {};
    expect_refused(batch.set_addresses(ferry::sources(three), own), FERRY_SIDE_PIECES, FERRY_FIELD_COUNT, 3);
    expect_refused(batch.set_addresses(ferry::destinations(three), own), FERRY_SIDE_PIECES, FERRY_FIELD_COUNT, 3);
    expect_refused(batch.set_addresses(many, own), FERRY_SIDE_PIECES, FERRY_FIELD_COUNT, 3);
    expect_refused(batch.set_addresses(ferry::sources(swapped), ferry::destinations(none), own), FERRY_SIDE_DESTINATION,
                   FERRY_FIELD_SIZE, 0);

    const auto expect_arrived = [&](std::uint32_t first) {
        std::vector<std::uint32_t> back(64);
        ASSERT_OK(batch.launch(own));
        ASSERT_OK(copy_async(gpu, device, back, own));
        ASSERT_OK(own.synchronize());
        EXPECT_EQ(back[0], first);
        EXPECT_EQ(back[32], 32 - first);
    };
    expect_arrived(0); // the refused calls have changed nothing
    ASSERT_OK(batch.set_addresses(ferry::sources(swapped), own));
    expect_arrived(32);
    const std::array changed = {piece(ferry::source(from + 128), ferry::destination(to + 128), 0),
                                piece(ferry::source(from), ferry::destination(to), 0)}; // the sizes are not read
    ASSERT_OK(batch.set_addresses(changed, own));
    expect_arrived(0);
    const std::array crossed = {to + 128, to};
    ASSERT_OK(batch.set_addresses(ferry::sources(std::span(swapped)), ferry::destinations(crossed), own));
    expect_arrived(0);
}

} // namespace
} // namespace ferry::test
