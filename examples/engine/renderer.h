// Draws a frame of tiles, each with a texture of its own, into an image without a window. Knows nothing of when bytes
// arrive: the frame loop does.
#pragma once

#include <array>
#include <functional>
#include <memory>

#include "vulkan.h"

constexpr std::uint32_t tile_size = 64, tiles_per_row = 16, tiles = tiles_per_row * tiles_per_row;
constexpr std::uint32_t frame_size = tile_size * tiles_per_row, texels = tile_size * tile_size;
constexpr unsigned frames_in_flight = 2;

struct vertex {
    float x, y;             // -1 to 1
    std::int32_t left, top; // of the tile, in pixels
};
constexpr std::size_t vertices = 6 * tiles;

// The upload buffer of a frame: the vertices, then pictures of tiles.
constexpr std::size_t tile_bytes = texels * sizeof(std::uint32_t), tiles_per_frame = 64; // the budget of a frame
constexpr std::size_t vertex_bytes = vertices * sizeof(vertex),
                      upload_bytes = vertex_bytes + tiles_per_frame * tile_bytes;

// An image that shaders read. ferry writes an imported one in the layout GENERAL; the renderer copies to others.
class texture {
public:
    // An import takes some tenths of a millisecond: where a level begins, or in a job.
    texture(const vulkan &on, const ferry::instance *importer, std::uint32_t side) : device_(on.device) {
        auto shared = make<VkExternalMemoryImageCreateInfo>(VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_IMAGE_CREATE_INFO);
        shared.handleTypes = ferry::vulkan::memory_handle_type;
        auto info = make<VkImageCreateInfo>(VK_STRUCTURE_TYPE_IMAGE_CREATE_INFO, importer ? &shared : nullptr);
        info.imageType = VK_IMAGE_TYPE_2D;
        info.format = VK_FORMAT_R8G8B8A8_UINT;
        info.extent = {side, side, 1};
        info.mipLevels = info.arrayLayers = 1;
        info.samples = VK_SAMPLE_COUNT_1_BIT;
        info.usage = VK_IMAGE_USAGE_SAMPLED_BIT | VK_IMAGE_USAGE_TRANSFER_DST_BIT;
        if (importer && on.is_software) info.tiling = VK_IMAGE_TILING_LINEAR;
        // Pageable memory reaches storage images by a kernel, more than twice as fast as others.
        if (importer && !on.is_software) info.usage |= VK_IMAGE_USAGE_STORAGE_BIT;
        CHECK(vkCreateImage(device_, &info, nullptr, &image));
        VkMemoryRequirements needed;
        vkGetImageMemoryRequirements(device_, image, &needed);
        memory_ = vulkan_memory(on, importer, needed, VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, image);
        CHECK(vkBindImageMemory(device_, image, memory_.handle, 0));
        if (importer) place_ = find_place(on, info);
        auto view_info = make<VkImageViewCreateInfo>(VK_STRUCTURE_TYPE_IMAGE_VIEW_CREATE_INFO);
        view_info.image = image;
        view_info.viewType = VK_IMAGE_VIEW_TYPE_2D;
        view_info.format = info.format;
        view_info.subresourceRange = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, 0, 1};
        CHECK(vkCreateImageView(device_, &view_info, nullptr, &view));
    }
    ~texture() {
        vkDestroyImageView(device_, view, nullptr);
        vkDestroyImage(device_, image, nullptr);
        memory_.free();
    }
    texture(const texture &) = delete;
    texture &operator=(const texture &) = delete;

    const ferry_place &place() const { return place_; } // of an imported one, for copies of ferry's
    // Gives up ferry's import behind the copies on `stream`. The rest ends with this object, once Vulkan has drawn.
    void end_import(const ferry::stream &stream) { memory_.of_ferry.release_async(stream).or_throw(); }

    VkImage image = nullptr;
    VkImageView view = nullptr;
    VkDescriptorSet set = nullptr; // the renderer's

private:
    ferry_place find_place(const vulkan &on, const VkImageCreateInfo &info) const {
        if (info.tiling == VK_IMAGE_TILING_OPTIMAL)
            return memory_.of_ferry.array(0, ferry::vulkan::describe(info).or_throw()).or_throw().place();
        const VkImageSubresource whole = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 0};
        VkSubresourceLayout layout;
        vkGetImageSubresourceLayout(device_, image, &whole, &layout);
        const auto line = memory_.of_ferry.line<std::uint8_t>(layout.offset, layout.size).or_throw();
        ferry_place place;
        ferry_place_device_pitched(&place, on.number, line.address(), layout.rowPitch, 0);
        return place;
    }

    VkDevice device_;
    vulkan_memory memory_;
    ferry_place place_ = {};
};

// A tile's new picture: bytes from `offset` on of the frame's upload buffer.
struct tile_upload {
    texture *to;
    VkDeviceSize offset;
};

// What a frame shows.
struct picture {
    std::array<texture *, tiles> tile_textures = {};
    texture *backdrop = nullptr; // of frame_size, imported
    std::vector<tile_upload> uploads;
};

class renderer {
public:
    renderer(const vulkan &on, const ferry::instance &ferry);
    ~renderer();
    renderer(const renderer &) = delete;
    renderer &operator=(const renderer &) = delete;

    void make_set(texture &of, VkImageLayout layout);
    void free_set(texture &of) { CHECK(vkFreeDescriptorSets(on_.device, descriptors_, 1, &of.set)); }
    // Waits for the device: where a level begins, not in a frame.
    void make_general(texture &of);

    // Draws frame number `frame` behind `uploaded`, and sets `rendered` to the same value.
    void draw(std::uint64_t frame, const picture &shown, const shared_timeline &uploaded,
              const shared_timeline &rendered, bool with_screenshot);
    // Of the last frame with a screenshot, once that has been drawn.
    const std::uint32_t *screenshot() const { return static_cast<const std::uint32_t *>(screen_.host); }

    // What the frame loop writes for a frame.
    ferry::device_view<std::uint8_t> upload_buffer_of(std::uint64_t frame) const { return slot_of(frame).upload_view; }
    ferry::device_view<std::uint32_t> constants_of(std::uint64_t frame) const { return slot_of(frame).constant_view; }

private:
    struct slot {
        slot(const vulkan &on, const ferry::instance &ferry)
            : upload_buffer(on, &ferry, upload_bytes,
                            VK_BUFFER_USAGE_VERTEX_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT),
              constants(on, &ferry, 4 * sizeof(std::uint32_t), VK_BUFFER_USAGE_UNIFORM_BUFFER_BIT),
              upload_view(upload_buffer.memory.of_ferry.line<std::uint8_t>(0, upload_bytes).or_throw()),
              constant_view(constants.memory.of_ferry.line<std::uint32_t>(0, 4).or_throw()) {}
        vulkan_buffer upload_buffer, constants;
        ferry::device_view<std::uint8_t> upload_view;
        ferry::device_view<std::uint32_t> constant_view;
        VkDescriptorSet set = nullptr;
        VkCommandBuffer commands = nullptr;
    };
    slot &slot_of(std::uint64_t frame) const { return *slots_[frame % frames_in_flight]; }
    void make_target();
    void make_pipeline();
    VkShaderModule load(const std::uint32_t *code, std::size_t bytes) const;
    VkDescriptorSet allocate_set(VkDescriptorSetLayout layout) const;
    void run_now(const std::function<void(VkCommandBuffer)> &record) const;

    const vulkan &on_;
    VkCommandPool pool_ = nullptr;
    VkDescriptorPool descriptors_ = nullptr;
    VkDescriptorSetLayout layouts_[2] = {}; // of the constants, of a texture
    VkSampler sampler_ = nullptr;
    VkPipelineLayout layout_ = nullptr;
    VkRenderPass pass_ = nullptr;
    VkPipeline pipeline_ = nullptr;
    VkImage target_ = nullptr;
    VkDeviceMemory target_memory_ = nullptr;
    VkImageView target_view_ = nullptr;
    VkFramebuffer framebuffer_ = nullptr;
    vulkan_buffer screen_;
    std::unique_ptr<slot> slots_[frames_in_flight];
};
