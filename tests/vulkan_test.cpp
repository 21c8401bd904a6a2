// Vulkan and ferry use the same memory: NVIDIA's Vulkan with its driver, and Mesa's lavapipe, which runs on the CPU, with
// the software driver.
#include <cstring>

#include <fcntl.h>
#include <unistd.h>

#include "support/gpu_profile.h"
#include "support/vulkan_objects.h"

namespace ferry::test {
namespace {

struct vulkan_test : driver_test {
    void SetUp() override {
        driver_test::SetUp();
        ferry_options options = {};
        options.driver = on_software_driver() ? FERRY_DRIVER_SOFTWARE : FERRY_DRIVER_CUDA;
        options.staging = FERRY_STAGING_AT_OPEN; // a stream waits for what is submitted to Vulkan later
        ferry = instance::open(options).or_throw();
        plan_as_on_a_gpu(ferry.handle());
        gpu.emplace(ferry);
        if (!gpu->device) GTEST_SKIP() << "no Vulkan device of this driver exports memory";
    }
    void read_back(const turns &order, std::uint64_t after, VkBuffer from, VkDeviceSize size, bytes &found) {
        const buffer seen(*gpu, size, false);
        gpu->run(
            [&](VkCommandBuffer commands) {
                const VkBufferCopy whole = {0, 0, size};
                vkCmdCopyBuffer(commands, from, seen, 1, &whole);
            },
            gpu->exports_semaphores ? static_cast<VkSemaphore>(order.value) : nullptr, after);
        found = seen.contents();
    }

    instance ferry;
    std::optional<machine> gpu;
};

TEST_F(vulkan_test, reads_what_ferry_has_copied_into_a_buffer) {
    constexpr std::size_t size = (std::size_t{8} << 20) + 12;
    const buffer target(*gpu, size, true);
    auto memory = vulkan::import(ferry, gpu->number, gpu->device, *target.memory, target.memory->size()).or_throw();
    const auto view = memory.line<std::byte>(0, size).or_throw();
    const stream copies = stream::create(ferry, gpu->number, stream_flag::non_blocking).or_throw();
    const turns order(ferry, *gpu);
    std::uint64_t value = 0;
    for (const bool is_pinned : {false, true}) {
        const bytes data = random_bytes(size, is_pinned);
        const pinned_memory pinned(size);
        std::memcpy(pinned.data(), data.data(), size);
        const host_view<const std::byte> source(is_pinned ? pinned.data() : data.data(), size);
        ASSERT_TRUE(copy_async(ferry, source, view, copies).ok());
        if (gpu->exports_semaphores)
            ASSERT_TRUE(order.imported.signal(copies, ++value).ok());
        else
            ASSERT_TRUE(copies.synchronize().ok());
        bytes found;
        read_back(order, value, target, size, found);
        EXPECT_TRUE(found == data);
        ASSERT_TRUE(copies.synchronize().ok());
    }
}

TEST_F(vulkan_test, ferry_reads_what_vulkan_has_written_into_a_buffer) {
    constexpr std::size_t size = std::size_t{4} << 20, offset = 4096;
    const buffer source(*gpu, size + offset, true);
    auto memory = vulkan::import(ferry, gpu->number, gpu->device, *source.memory, source.memory->size()).or_throw();
    const auto view = memory.line<std::byte>(offset, size).or_throw();
    const stream copies = stream::create(ferry, gpu->number, stream_flag::non_blocking).or_throw();
    const turns order(ferry, *gpu);
    bytes found(size);
    const auto fill = [&](VkCommandBuffer commands) { vkCmdFillBuffer(commands, source, offset, size, 0x17171717); };
    if (gpu->exports_semaphores) {
        // The stream waits for what is submitted after its wait.
        ASSERT_TRUE(order.imported.wait(copies, 1).ok());
        ASSERT_TRUE(copy_async(ferry, view, host_view<std::byte>(found.data(), size), copies).ok());
        gpu->run(fill, nullptr, 0, order.value, 1);
    } else {
        gpu->run(fill);
        ASSERT_TRUE(copy_async(ferry, view, host_view<std::byte>(found.data(), size), copies).ok());
    }
    ASSERT_TRUE(copies.synchronize().ok());
    EXPECT_TRUE(found == bytes(size, std::byte{0x17}));
    EXPECT_VULKAN(vkQueueWaitIdle(gpu->queue));
}

TEST_F(vulkan_test, memory_stays_valid_until_its_release_has_completed) {
    constexpr std::size_t size = std::size_t{1} << 20;
    const stream copies = stream::create(ferry, gpu->number, stream_flag::non_blocking).or_throw();
    const bytes data = random_bytes(size, 4);
    bytes found(size);
    {
        std::optional<buffer> gone;
        gone.emplace(*gpu, size, true);
        auto memory = vulkan::import(ferry, gpu->number, gpu->device, *gone->memory, gone->memory->size()).or_throw();
        const auto view = memory.line<std::byte>(0, size).or_throw();
        gone.reset(); // Vulkan frees it before ferry has used it
        ASSERT_TRUE(copy_async(ferry, host_view<const std::byte>(data.data(), size), view, copies).ok());
        ASSERT_TRUE(copy_async(ferry, view, host_view<std::byte>(found.data(), size), copies).ok());
        ASSERT_TRUE(memory.release_deferred(copies).ok());
        EXPECT_FALSE(memory);
    }
    ASSERT_TRUE(copies.synchronize().ok());
    EXPECT_TRUE(found == data);
    EXPECT_TRUE(ferry.trim_deferred().ok());
    EXPECT_EQ(ferry.deferred().or_throw().allocations, 0u);
}

TEST_F(vulkan_test, reads_what_ferry_has_copied_into_a_linear_image) {
    constexpr std::uint32_t width = 75, height = 40;
    const VkImageCreateInfo info = image_2d(VK_FORMAT_R8G8B8A8_UNORM, width, height, VK_IMAGE_TILING_LINEAR);
    EXPECT_EQ(vulkan::describe(info).error().code(), FERRY_ERROR_UNSUPPORTED);
    const image target(*gpu, info);
    gpu->run([&](VkCommandBuffer commands) { to_general(commands, target, info, VK_IMAGE_LAYOUT_UNDEFINED); });
    const VkImageSubresource part = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 0};
    VkSubresourceLayout layout;
    vkGetImageSubresourceLayout(gpu->device, target, &part, &layout);
    auto memory =
        vulkan::import(ferry, gpu->number, gpu->device, *target.memory, target.memory->size(), true).or_throw();
    const auto line = memory.line<std::uint32_t>(layout.offset, layout.rowPitch / 4 * height).or_throw();
    const device_view<std::uint32_t> rows(gpu->number, line.address(), width, height, 1, layout.rowPitch);
    bytes data = random_bytes(std::size_t{width} * height * 4, 6);
    ASSERT_TRUE(
        copy(ferry, host_view<std::uint32_t>(reinterpret_cast<std::uint32_t *>(data.data()), width, height), rows)
            .ok());
    const buffer seen(*gpu, data.size(), false);
    gpu->run([&](VkCommandBuffer commands) {
        VkBufferImageCopy whole = {};
        whole.imageSubresource = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 0, 1};
        whole.imageExtent = info.extent;
        vkCmdCopyImageToBuffer(commands, target, VK_IMAGE_LAYOUT_GENERAL, seen, 1, &whole);
    });
    EXPECT_TRUE(seen.contents() == data);
}

// Each level, layer or slice of images in their optimal layout, both ways.
TEST_F(vulkan_test, images_are_arrays_with_the_same_texels) {
    if (on_software_driver()) GTEST_SKIP() << "lavapipe's arrays have another layout than the software driver's arrays";
    struct form {
        VkFormat format;
        std::uint32_t texel, width, height, depth, levels, layers;
        VkImageUsageFlags usage;
    };
    const form all[] = {
        {VK_FORMAT_R8G8B8A8_UNORM, 4, 300, 200, 1, 1, 1, 0},
        {VK_FORMAT_R8G8B8A8_SRGB, 4, 256, 256, 1, 9, 1, 0},
        {VK_FORMAT_R8_UNORM, 1, 513, 77, 1, 1, 1, 0},
        {VK_FORMAT_R16G16_SFLOAT, 4, 64, 64, 1, 1, 5, 0},
        {VK_FORMAT_R16G16B16A16_SFLOAT, 8, 640, 360, 1, 1, 1, VK_IMAGE_USAGE_STORAGE_BIT},
        {VK_FORMAT_R32G32B32A32_SFLOAT, 16, 1000, 600, 1, 1, 1, VK_IMAGE_USAGE_COLOR_ATTACHMENT_BIT},
        {VK_FORMAT_R32_SFLOAT, 4, 40, 30, 20, 1, 1, 0},
        {VK_FORMAT_R32G32_UINT, 8, 128, 128, 1, 8, 3, VK_IMAGE_USAGE_STORAGE_BIT},
        {VK_FORMAT_A2B10G10R10_UNORM_PACK32, 4, 96, 50, 1, 1, 1, 0},
        {VK_FORMAT_A2R10G10B10_UINT_PACK32, 4, 96, 50, 1, 1, 1, 0},
        {VK_FORMAT_B10G11R11_UFLOAT_PACK32, 4, 300, 200, 1, 1, 1, VK_IMAGE_USAGE_COLOR_ATTACHMENT_BIT},
        {VK_FORMAT_E5B9G9R9_UFLOAT_PACK32, 4, 128, 128, 1, 8, 1, 0},
        {VK_FORMAT_B8G8R8A8_UNORM, 4, 300, 200, 1, 1, 1, VK_IMAGE_USAGE_COLOR_ATTACHMENT_BIT},
        {VK_FORMAT_R5G6B5_UNORM_PACK16, 2, 301, 77, 1, 1, 1, 0},
        {VK_FORMAT_B4G4R4A4_UNORM_PACK16, 2, 64, 64, 1, 1, 3, 0},
        {VK_FORMAT_R64_UINT, 8, 65, 33, 1, 1, 1, 0},
        {VK_FORMAT_R10X6G10X6_UNORM_2PACK16, 4, 64, 64, 1, 1, 1, 0},
    };
    for (const form &one : all) {
        SCOPED_TRACE(testing::Message() << "format " << one.format << ", " << one.width << " x " << one.height << " x "
                                        << one.depth << ", levels " << one.levels << ", layers " << one.layers);
        VkImageCreateInfo info = image_2d(one.format, one.width, one.height);
        info.imageType = one.depth > 1 ? VK_IMAGE_TYPE_3D : VK_IMAGE_TYPE_2D;
        info.extent.depth = one.depth;
        info.mipLevels = one.levels;
        info.arrayLayers = one.layers;
        info.usage |= one.usage;
        VkImageFormatProperties limits;
        if (vkGetPhysicalDeviceImageFormatProperties(gpu->physical, info.format, info.imageType, info.tiling,
                                                     info.usage, 0, &limits) == VK_ERROR_FORMAT_NOT_SUPPORTED) {
            std::printf("Vulkan has no images of format %d\n", static_cast<int>(one.format));
            continue;
        }
        const image target(*gpu, info);
        gpu->run([&](VkCommandBuffer commands) { to_general(commands, target, info, VK_IMAGE_LAYOUT_UNDEFINED); });
        const ferry_array_desc desc = vulkan::describe(info).or_throw();
        auto memory =
            vulkan::import(ferry, gpu->number, gpu->device, *target.memory, target.memory->size(), true).or_throw();
        const auto whole = memory.mipmapped(0, desc, one.levels);
        ASSERT_TRUE(whole.ok()) << whole.error().line().c_str();
        for (std::uint32_t level = 0; level < one.levels; ++level) {
            SCOPED_TRACE(testing::Message() << "level " << level);
            const VkExtent3D extent = {std::max(one.width >> level, 1U), std::max(one.height >> level, 1U),
                                       std::max(one.depth >> level, 1U)};
            const std::uint32_t slices = std::max(extent.depth, one.layers);
            const bytes data = random_bytes(std::size_t{extent.width} * extent.height * slices * one.texel, level);
            CUarray_st *array = nullptr;
            ASSERT_OK(ferry_mipmapped_array_get_level(ferry, *whole, level, &array, nullptr));
            ferry_copy_desc copy = {};
            ferry_place_host(&copy.source, data.data());
            ferry_place_array(&copy.destination, gpu->number, array);
            copy.width = std::uint64_t{extent.width} * one.texel;
            copy.height = extent.height;
            copy.depth = slices;
            ASSERT_OK(ferry_copy(ferry, &copy, nullptr, nullptr));
            ASSERT_TRUE(ferry.synchronize(gpu->number).ok());
            const buffer seen(*gpu, data.size(), false);
            gpu->run([&](VkCommandBuffer commands) {
                VkBufferImageCopy part = {};
                part.imageSubresource = {VK_IMAGE_ASPECT_COLOR_BIT, level, 0, one.layers};
                part.imageExtent = extent;
                vkCmdCopyImageToBuffer(commands, target, VK_IMAGE_LAYOUT_GENERAL, seen, 1, &part);
            });
            EXPECT_TRUE(seen.contents() == data);
            bytes back(data.size());
            ferry_place_array(&copy.source, gpu->number, array);
            ferry_place_host(&copy.destination, back.data());
            ASSERT_OK(ferry_copy(ferry, &copy, nullptr, nullptr));
            EXPECT_TRUE(back == data);
        }
    }
}

// The sizes of formats in the order of their numbers: Vulkan's specification, "Compatible formats of planes and
// multi-planar formats" and "Representation and Texel Block Size".
struct format_sizes {
    VkFormat last; // the first is the one after the row before
    std::uint32_t bytes;
    bool has_twin = true;
    std::uint32_t side = 1; // of a block of texels
};
constexpr format_sizes all_sizes[] = {
    {VK_FORMAT_R4G4_UNORM_PACK8, 1},
    {VK_FORMAT_A1R5G5B5_UNORM_PACK16, 2},
    {VK_FORMAT_R8_SRGB, 1},
    {VK_FORMAT_R8G8_SRGB, 2},
    {VK_FORMAT_B8G8R8_SRGB, 3, false},
    {VK_FORMAT_A2B10G10R10_SINT_PACK32, 4},
    {VK_FORMAT_R16_SFLOAT, 2},
    {VK_FORMAT_R16G16_SFLOAT, 4},
    {VK_FORMAT_R16G16B16_SFLOAT, 6, false},
    {VK_FORMAT_R16G16B16A16_SFLOAT, 8},
    {VK_FORMAT_R32_SFLOAT, 4},
    {VK_FORMAT_R32G32_SFLOAT, 8},
    {VK_FORMAT_R32G32B32_SFLOAT, 12, false},
    {VK_FORMAT_R32G32B32A32_SFLOAT, 16},
    {VK_FORMAT_R64_SFLOAT, 8},
    {VK_FORMAT_R64G64_SFLOAT, 16},
    {VK_FORMAT_R64G64B64A64_SFLOAT, 32, false},
    {VK_FORMAT_E5B9G9R9_UFLOAT_PACK32, 4},
    {VK_FORMAT_D32_SFLOAT_S8_UINT, 0, false},
    {VK_FORMAT_BC1_RGBA_SRGB_BLOCK, 8, true, 4},
    {VK_FORMAT_BC3_SRGB_BLOCK, 16, true, 4},
    {VK_FORMAT_BC4_SNORM_BLOCK, 8, true, 4},
    {VK_FORMAT_BC7_SRGB_BLOCK, 16, true, 4},
    {VK_FORMAT_ASTC_12x12_SRGB_BLOCK, 0, false},
};

struct vulkan_formats : driver_test {
    void SetUp() override {
        driver_test::SetUp();
        ferry_options options = {};
        options.driver = on_software_driver() ? FERRY_DRIVER_SOFTWARE : FERRY_DRIVER_CUDA;
        ferry = instance::open(options).or_throw();
        plan_as_on_a_gpu(ferry.handle());
    }
    // The twin of the format is an array with elements of that size.
    void expect_size(VkFormat format, std::uint32_t bytes, std::uint32_t side) {
        SCOPED_TRACE(testing::Message() << "format " << format);
        const auto desc = vulkan::describe(image_2d(format, 16 * side, 8 * side));
        ASSERT_TRUE(desc) << desc.error().line().c_str();
        EXPECT_EQ(desc->width, 16 * side);
        const auto made = array::create(ferry, 0, *desc);
        ASSERT_TRUE(made) << made.error().line().c_str();
        EXPECT_EQ(made->view().element_size(), bytes);
        EXPECT_EQ(made->view().width(), 16u);
        EXPECT_EQ(made->view().height(), 8u);
    }
    instance ferry;
};

TEST_F(vulkan_formats, each_twin_has_texels_of_the_same_size) {
    int format = VK_FORMAT_UNDEFINED + 1;
    for (const format_sizes &row : all_sizes)
        for (; format <= row.last; ++format) {
            const auto one = static_cast<VkFormat>(format);
            if (row.has_twin)
                expect_size(one, row.bytes, row.side);
            else
                EXPECT_EQ(vulkan::describe(image_2d(one, 16, 8)).error().code(), FERRY_ERROR_ARRAY_FORMAT) << one;
        }
    const struct {
        VkFormat format;
        std::uint32_t bytes;
    } later[] = {
        {VK_FORMAT_R10X6_UNORM_PACK16, 2},
        {VK_FORMAT_R10X6G10X6_UNORM_2PACK16, 4},
        {VK_FORMAT_R10X6G10X6B10X6A10X6_UNORM_4PACK16, 8},
        {VK_FORMAT_R12X4_UNORM_PACK16, 2},
        {VK_FORMAT_R12X4G12X4_UNORM_2PACK16, 4},
        {VK_FORMAT_R12X4G12X4B12X4A12X4_UNORM_4PACK16, 8},
#ifdef VK_VERSION_1_3
        {VK_FORMAT_A4R4G4B4_UNORM_PACK16, 2},
        {VK_FORMAT_A4B4G4R4_UNORM_PACK16, 2},
#endif
#ifdef VK_KHR_maintenance5
        {VK_FORMAT_A1B5G5R5_UNORM_PACK16_KHR, 2},
        {VK_FORMAT_A8_UNORM_KHR, 1},
#endif
    };
    for (const auto &one : later)
        expect_size(one.format, one.bytes, 1);
    std::size_t rows = std::size(later);
    for (int i = 1; i <= VK_FORMAT_BC7_SRGB_BLOCK; ++i)
        rows += vulkan::describe(image_2d(static_cast<VkFormat>(i), 16, 8)).ok();
    EXPECT_EQ(std::size(vulkan::detail::twins), rows) << "a format is there twice, or is not tested";
}

TEST_F(vulkan_formats, those_without_a_twin_are_refused_by_number) {
    for (const VkFormat format : {VK_FORMAT_R8G8B8_UNORM, VK_FORMAT_D32_SFLOAT, VK_FORMAT_G8_B8R8_2PLANE_420_UNORM}) {
        const auto described = vulkan::describe(image_2d(format, 4, 4));
        ASSERT_FALSE(described);
        EXPECT_EQ(described.error().code(), FERRY_ERROR_ARRAY_FORMAT);
        EXPECT_EQ(described.error().field(), FERRY_FIELD_FORMAT);
        EXPECT_EQ(described.error().info().value, static_cast<std::uint64_t>(format));
    }
    VkImageCreateInfo samples = image_2d(VK_FORMAT_R8_UNORM, 4, 4);
    samples.samples = VK_SAMPLE_COUNT_4_BIT;
    EXPECT_EQ(vulkan::describe(samples).error().code(), FERRY_ERROR_UNSUPPORTED);
    VkImageCreateInfo cube = image_2d(VK_FORMAT_R8_UNORM, 4, 4);
    cube.flags = VK_IMAGE_CREATE_CUBE_COMPATIBLE_BIT;
    cube.arrayLayers = 12;
    EXPECT_EQ(vulkan::describe(cube).or_throw().flags, FERRY_ARRAY_CUBEMAP | FERRY_ARRAY_LAYERED);
    EXPECT_EQ(vulkan::describe(cube).or_throw().depth, 12u);
}

// The next free descriptor: it does not change if all descriptors that a call makes are closed.
int next_descriptor() {
    const int next = fcntl(0, F_DUPFD_CLOEXEC, 0);
    close(next);
    return next;
}

TEST_F(vulkan_test, memory_that_cannot_be_imported_is_refused_and_no_descriptor_leaks) {
    const buffer target(*gpu, 65536, true);
    const int before = next_descriptor();
    for (const std::uint64_t beyond : {std::uint64_t{1} << 16, std::uint64_t{1} << 40}) {
        const auto too_large =
            vulkan::import(ferry, gpu->number, gpu->device, *target.memory, target.memory->size() + beyond);
        ASSERT_FALSE(too_large);
        EXPECT_EQ(too_large.error().code(), FERRY_ERROR_OUT_OF_BOUNDS) << too_large.error().line().c_str();
        EXPECT_EQ(too_large.error().field(), FERRY_FIELD_SIZE);
    }
    const auto no_device = vulkan::import(ferry, 99, gpu->device, *target.memory, target.memory->size());
    EXPECT_EQ(no_device.error().code(), FERRY_ERROR_DEVICE);
    EXPECT_EQ(next_descriptor(), before);
}

} // namespace
} // namespace ferry::test
