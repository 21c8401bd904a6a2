// Compares copies into Vulkan's buffers and images with the same copies into ferry's memory and arrays, and
// measures the calls of a frame. It is not a test: vulkan_test.cpp checks the bytes. Run on a GPU with
// FERRY_TEST_DRIVER=cuda tests/vulkan-speed.
#include <chrono>
#include <cstdio>
#include <cstring>
#include <thread>

#include "support/piece_lists.h"
#include "support/vulkan_objects.h"

namespace ferry::test {
namespace {

using std::chrono::steady_clock;

double since_us(steady_clock::time_point begin) {
    return std::chrono::duration<double, std::micro>(steady_clock::now() - begin).count();
}

double at(std::vector<double> values, double share) {
    std::sort(values.begin(), values.end());
    return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1))];
}

struct vulkan_speed : driver_test {
    void SetUp() override {
        driver_test::SetUp();
        ferry_options options = {};
        options.driver = on_software_driver() ? FERRY_DRIVER_SOFTWARE : FERRY_DRIVER_CUDA;
        ferry = instance::open(options).or_throw();
        gpu.emplace(ferry);
        if (!gpu->device) GTEST_SKIP() << "no Vulkan device of this driver exports memory";
        copies = stream::create(ferry, gpu->number, stream_flag::non_blocking).or_throw();
        ASSERT_OK(ferry_staging_prepare(ferry, gpu->number, nullptr));
        std::this_thread::sleep_for(std::chrono::milliseconds(100)); // time for the slots added later
    }
    double time_us(const ferry_copy_desc &copy) {
        const auto begin = steady_clock::now();
        EXPECT_OK(ferry_copy_async(ferry, &copy, nullptr, copies, nullptr, nullptr));
        EXPECT_TRUE(copies.synchronize().ok());
        return since_us(begin);
    }
    // The same copy to both places, in turns.
    void compare(const char *what, ferry_copy_desc copy, const ferry_place &own, const ferry_place &theirs) {
        std::vector<double> own_us, their_us, ratios;
        for (int round = 0; round < 41; ++round) {
            copy.destination = own;
            const double one = time_us(copy);
            copy.destination = theirs;
            const double other = time_us(copy);
            if (round == 0) continue;
            own_us.push_back(one);
            their_us.push_back(other);
            ratios.push_back(one / other);
        }
        const double bytes = static_cast<double>(copy.width * std::max<std::uint64_t>(copy.height, 1));
        std::printf("%-44s own %6.1f GB/s, Vulkan's %6.1f GB/s, own/Vulkan's %.3f [%.3f..%.3f]\n", what,
                    bytes * 1e-3 / at(own_us, 0.5), bytes * 1e-3 / at(their_us, 0.5), at(ratios, 0.5), at(ratios, 0.25),
                    at(ratios, 0.75));
    }
    void print_calls(const char *what, const std::vector<double> &us) {
        std::printf("%-44s %6.1f us [%.1f..%.1f], 99 %% %.1f, longest %.1f\n", what, at(us, 0.5), at(us, 0.25),
                    at(us, 0.75), at(us, 0.99), at(us, 1));
    }

    instance ferry;
    std::optional<machine> gpu;
    stream copies;
};

TEST_F(vulkan_speed, buffers_and_images_beside_ferrys_own) {
    const std::uint32_t side = on_software_driver() ? 256 : 4096;
    const std::size_t size = std::size_t{4} * side * side;
    const buffer target(*gpu, size, true);
    auto memory = vulkan::import(ferry, gpu->number, gpu->device, *target.memory, target.memory->size()).or_throw();
    const auto line = memory.line<std::byte>(0, size).or_throw();
    const auto own = ferry::device_memory<std::byte>::create(ferry, gpu->number, size).or_throw();
    const pinned_memory pinned(2 * size);
    bytes pageable(2 * size, std::byte{1});
    std::memset(pinned.data(), 1, 2 * size);
    ferry_place own_place = {}, their_place = {};
    for (const bool is_pinned : {true, false}) {
        ferry_copy_desc copy = {};
        ferry_place_host(&copy.source, is_pinned ? pinned.data() : pageable.data());
        copy.width = size;
        ferry_place_device(&own_place, gpu->number, own.view().address());
        ferry_place_device(&their_place, gpu->number, line.address());
        compare(is_pinned ? "pinned line to a buffer" : "pageable line to a buffer", copy, own_place, their_place);
        copy.source.row_pitch = 8 * side;
        copy.width = std::uint64_t{4} * side;
        copy.height = side;
        own_place.row_pitch = their_place.row_pitch = std::uint64_t{4} * side;
        compare(is_pinned ? "pinned box to a buffer" : "pageable box to a buffer", copy, own_place, their_place);
    }
    if (on_software_driver()) return;
    for (const bool is_storage : {false, true}) {
        VkImageCreateInfo info = image_2d(VK_FORMAT_R8G8B8A8_UNORM, side, side);
        if (is_storage) info.usage |= VK_IMAGE_USAGE_STORAGE_BIT;
        const image picture(*gpu, info);
        gpu->run([&](VkCommandBuffer commands) { to_general(commands, picture, info, VK_IMAGE_LAYOUT_UNDEFINED); });
        const ferry_array_desc desc = vulkan::describe(info).or_throw();
        auto of_image =
            vulkan::import(ferry, gpu->number, gpu->device, *picture.memory, picture.memory->size(), true).or_throw();
        const auto theirs = of_image.array(0, desc).or_throw();
        const auto mine = array::create(ferry, gpu->number, desc).or_throw();
        for (const bool is_pinned : {true, false}) {
            ferry_copy_desc copy = {};
            ferry_place_host(&copy.source, is_pinned ? pinned.data() : pageable.data());
            copy.width = std::uint64_t{4} * side;
            copy.height = side;
            std::string what = is_pinned ? "pinned to an image" : "pageable to an image";
            if (is_storage) what += ", storage";
            compare(what.c_str(), copy, mine.view().place(), theirs.place());
            copy.source.row_pitch = 8 * side;
            compare((what + ", pitched").c_str(), copy, mine.view().place(), theirs.place());
        }
    }
}

// A frame's 200 uploads from pageable memory, 4 MiB in all: the time in the call.
TEST_F(vulkan_speed, the_calls_of_a_frame) {
    constexpr std::size_t pieces = 200, each = (std::size_t{4} << 20) / pieces / 16 * 16, size = pieces * each;
    const buffer target(*gpu, 2 * size, true);
    auto memory = vulkan::import(ferry, gpu->number, gpu->device, *target.memory, target.memory->size()).or_throw();
    const std::uint64_t to_address = memory.line<std::byte>(0, 2 * size).or_throw().address();
    const bytes data = random_bytes(2 * size, 1);
    std::vector<std::uint64_t> to, from, sizes(pieces, each);
    for (std::size_t i = 0; i < pieces; ++i) {
        to.push_back(to_address + i * 2 * each);
        from.push_back(reinterpret_cast<std::uintptr_t>(data.data()) + (pieces - 1 - i) * 2 * each);
    }
    const auto own = ferry::device_memory<std::byte>::create(ferry, gpu->number, 2 * size).or_throw();
    std::vector<std::uint64_t> to_own;
    for (const std::uint64_t address : to)
        to_own.push_back(address - to_address + own.view().address());
    const turns order(ferry, *gpu);
    std::uint64_t value = 0;
    const auto copy = [&](const std::vector<std::uint64_t> &where) {
        EXPECT_OK(ferry_copy_pieces_async(ferry, in_arrays(where.data(), from.data(), sizes.data(), pieces), nullptr,
                                          copies, nullptr, nullptr));
    };
    const auto signal = [&] {
        if (!gpu->exports_semaphores) return;
        EXPECT_TRUE(order.imported.signal(copies, ++value).ok());
    };
    const auto measure = [&](const char *what, bool is_throttled, const auto &call) {
        std::vector<double> us;
        const int frames = on_software_driver() ? 20 : is_throttled ? 300 : 1000;
        for (int i = 0; i <= frames; ++i) {
            if (is_throttled) std::this_thread::sleep_for(std::chrono::microseconds(16'667));
            const auto begin = steady_clock::now();
            call();
            if (i != 0) us.push_back(since_us(begin));
            EXPECT_TRUE(copies.synchronize().ok());
        }
        print_calls(what, us);
    };
    measure("a signal", false, signal);
    measure("200 pieces to ferry's memory", false, [&] { copy(to_own); });
    measure("200 pieces to Vulkan's memory", false, [&] { copy(to); });
    for (const bool is_throttled : {false, true})
        measure(is_throttled ? "200 pieces and a signal, 60 frames a second" : "200 pieces and a signal", is_throttled,
                [&] {
                    copy(to);
                    signal();
                });
}

} // namespace
} // namespace ferry::test
