// Draws a frame of tiles, each with its own texture, into an image without a window. The frame loop, not the renderer,
// tracks when bytes arrive.
#pragma once

#include <array>
#include <functional>
#include <memory>

#include "device.h"

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

// A tile's new picture: bytes of the frame's upload buffer, starting at `offset`.
struct tile_upload {
    texture *to;
    VkDeviceSize offset;
};

// The contents of a frame.
struct picture {
    std::array<texture *, tiles> tile_textures = {};
    texture *backdrop = nullptr; // of frame_size, imported
    std::vector<tile_upload> uploads;
};

class renderer {
public:
    renderer(const vulkan_device &on, const ferry::instance &ferry);
    ~renderer();
    renderer(const renderer &) = delete;
    renderer &operator=(const renderer &) = delete;

    void make_set(texture &of, VkImageLayout layout);
    void free_set(texture &of) { VK_CHECK(vkFreeDescriptorSets(on_.device, descriptors_, 1, &of.set)); }
    // Waits for the device: call it at the start of a level, not in a frame.
    void make_general(texture &of);

    // Draws frame number `frame` after `uploaded`, and sets `rendered` to the same value.
    void draw(std::uint64_t frame, const picture &shown, const shared_timeline &uploaded,
              const shared_timeline &rendered, bool with_screenshot);
    // The pixels of the last frame with a screenshot, valid once that frame has been drawn.
    const std::uint32_t *screenshot() const { return static_cast<const std::uint32_t *>(screen_.host); }

    // The memory that the frame loop writes for a frame.
    ferry::device_view<std::uint8_t> upload_buffer_of(std::uint64_t frame) const { return slot_of(frame).upload_view; }
    ferry::device_view<std::uint32_t> constants_of(std::uint64_t frame) const { return slot_of(frame).constant_view; }

private:
    struct slot {
        slot(const vulkan_device &on, const ferry::instance &ferry)
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

    const vulkan_device &on_;
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
