#include "renderer.h"

#include "tile.frag.h"
#include "tile.vert.h"

renderer::renderer(const vulkan_device &on, const ferry::instance &ferry)
    : on_(on), screen_(on, nullptr, sizeof(std::uint32_t) * frame_size * frame_size, VK_BUFFER_USAGE_TRANSFER_DST_BIT) {
    auto pool = make<VkCommandPoolCreateInfo>(VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO);
    pool.flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT;
    VK_CHECK(vkCreateCommandPool(on.device, &pool, nullptr, &pool_));
    const VkDescriptorPoolSize sizes[] = {{VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER, frames_in_flight},
                                          {VK_DESCRIPTOR_TYPE_COMBINED_IMAGE_SAMPLER, 2 * tiles}};
    auto descriptors = make<VkDescriptorPoolCreateInfo>(VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO);
    descriptors.flags = VK_DESCRIPTOR_POOL_CREATE_FREE_DESCRIPTOR_SET_BIT;
    descriptors.maxSets = frames_in_flight + 2 * tiles;
    descriptors.poolSizeCount = 2;
    descriptors.pPoolSizes = sizes;
    VK_CHECK(vkCreateDescriptorPool(on.device, &descriptors, nullptr, &descriptors_));
    make_target();
    make_pipeline();
    for (std::unique_ptr<slot> &one : slots_) {
        one = std::make_unique<slot>(on, ferry);
        one->set = allocate_set(layouts_[0]);
        const VkDescriptorBufferInfo buffer = {one->constants.handle, 0, VK_WHOLE_SIZE};
        auto write = make<VkWriteDescriptorSet>(VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET);
        write.dstSet = one->set;
        write.descriptorCount = 1;
        write.descriptorType = VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER;
        write.pBufferInfo = &buffer;
        vkUpdateDescriptorSets(on.device, 1, &write, 0, nullptr);
        auto commands = make<VkCommandBufferAllocateInfo>(VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO);
        commands.commandPool = pool_;
        commands.commandBufferCount = 1;
        VK_CHECK(vkAllocateCommandBuffers(on.device, &commands, &one->commands));
    }
}

renderer::~renderer() {
    vkDestroyPipeline(on_.device, pipeline_, nullptr);
    vkDestroyPipelineLayout(on_.device, layout_, nullptr);
    vkDestroyFramebuffer(on_.device, framebuffer_, nullptr);
    vkDestroyRenderPass(on_.device, pass_, nullptr);
    vkDestroyImageView(on_.device, target_view_, nullptr);
    vkDestroyImage(on_.device, target_, nullptr);
    vkFreeMemory(on_.device, target_memory_, nullptr);
    vkDestroySampler(on_.device, sampler_, nullptr);
    vkDestroyDescriptorPool(on_.device, descriptors_, nullptr);
    for (const VkDescriptorSetLayout one : layouts_)
        vkDestroyDescriptorSetLayout(on_.device, one, nullptr);
    vkDestroyCommandPool(on_.device, pool_, nullptr);
}

void renderer::make_target() {
    auto info = make<VkImageCreateInfo>(VK_STRUCTURE_TYPE_IMAGE_CREATE_INFO);
    info.imageType = VK_IMAGE_TYPE_2D;
    info.format = VK_FORMAT_R8G8B8A8_UINT;
    info.extent = {frame_size, frame_size, 1};
    info.mipLevels = info.arrayLayers = 1;
    info.samples = VK_SAMPLE_COUNT_1_BIT;
    info.usage = VK_IMAGE_USAGE_COLOR_ATTACHMENT_BIT | VK_IMAGE_USAGE_TRANSFER_SRC_BIT;
    VK_CHECK(vkCreateImage(on_.device, &info, nullptr, &target_));
    VkMemoryRequirements needed;
    vkGetImageMemoryRequirements(on_.device, target_, &needed);
    auto memory = make<VkMemoryAllocateInfo>(VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO);
    memory.allocationSize = needed.size;
    memory.memoryTypeIndex = on_.memory_type(needed.memoryTypeBits, VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT);
    VK_CHECK(vkAllocateMemory(on_.device, &memory, nullptr, &target_memory_));
    VK_CHECK(vkBindImageMemory(on_.device, target_, target_memory_, 0));
    auto view = make<VkImageViewCreateInfo>(VK_STRUCTURE_TYPE_IMAGE_VIEW_CREATE_INFO);
    view.image = target_;
    view.viewType = VK_IMAGE_VIEW_TYPE_2D;
    view.format = info.format;
    view.subresourceRange = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, 0, 1};
    VK_CHECK(vkCreateImageView(on_.device, &view, nullptr, &target_view_));

    VkAttachmentDescription color = {};
    color.format = info.format;
    color.samples = VK_SAMPLE_COUNT_1_BIT;
    color.loadOp = VK_ATTACHMENT_LOAD_OP_CLEAR;
    color.storeOp = VK_ATTACHMENT_STORE_OP_STORE;
    color.stencilLoadOp = VK_ATTACHMENT_LOAD_OP_DONT_CARE;
    color.stencilStoreOp = VK_ATTACHMENT_STORE_OP_DONT_CARE;
    color.initialLayout = VK_IMAGE_LAYOUT_UNDEFINED;
    color.finalLayout = VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL;
    const VkAttachmentReference reference = {0, VK_IMAGE_LAYOUT_COLOR_ATTACHMENT_OPTIMAL};
    VkSubpassDescription subpass = {};
    subpass.pipelineBindPoint = VK_PIPELINE_BIND_POINT_GRAPHICS;
    subpass.colorAttachmentCount = 1;
    subpass.pColorAttachments = &reference;
    // The screenshot of the previous frame, then this frame, then its screenshot.
    const VkSubpassDependency order[] = {
        {VK_SUBPASS_EXTERNAL, 0, VK_PIPELINE_STAGE_TRANSFER_BIT | VK_PIPELINE_STAGE_COLOR_ATTACHMENT_OUTPUT_BIT,
         VK_PIPELINE_STAGE_COLOR_ATTACHMENT_OUTPUT_BIT, VK_ACCESS_TRANSFER_READ_BIT,
         VK_ACCESS_COLOR_ATTACHMENT_WRITE_BIT, 0},
        {0, VK_SUBPASS_EXTERNAL, VK_PIPELINE_STAGE_COLOR_ATTACHMENT_OUTPUT_BIT, VK_PIPELINE_STAGE_TRANSFER_BIT,
         VK_ACCESS_COLOR_ATTACHMENT_WRITE_BIT, VK_ACCESS_TRANSFER_READ_BIT, 0}};
    auto pass = make<VkRenderPassCreateInfo>(VK_STRUCTURE_TYPE_RENDER_PASS_CREATE_INFO);
    pass.attachmentCount = 1;
    pass.pAttachments = &color;
    pass.subpassCount = 1;
    pass.pSubpasses = &subpass;
    pass.dependencyCount = 2;
    pass.pDependencies = order;
    VK_CHECK(vkCreateRenderPass(on_.device, &pass, nullptr, &pass_));
    auto buffer = make<VkFramebufferCreateInfo>(VK_STRUCTURE_TYPE_FRAMEBUFFER_CREATE_INFO);
    buffer.renderPass = pass_;
    buffer.attachmentCount = 1;
    buffer.pAttachments = &target_view_;
    buffer.width = buffer.height = frame_size;
    buffer.layers = 1;
    VK_CHECK(vkCreateFramebuffer(on_.device, &buffer, nullptr, &framebuffer_));
}

VkShaderModule renderer::load(const std::uint32_t *code, std::size_t bytes) const {
    auto info = make<VkShaderModuleCreateInfo>(VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO);
    info.codeSize = bytes;
    info.pCode = code;
    VkShaderModule made = nullptr;
    VK_CHECK(vkCreateShaderModule(on_.device, &info, nullptr, &made));
    return made;
}

void renderer::make_pipeline() {
    const VkDescriptorType types[] = {VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER, VK_DESCRIPTOR_TYPE_COMBINED_IMAGE_SAMPLER};
    for (int i = 0; i < 2; ++i) {
        const VkDescriptorSetLayoutBinding binding = {0, types[i], 1, VK_SHADER_STAGE_FRAGMENT_BIT, nullptr};
        auto info = make<VkDescriptorSetLayoutCreateInfo>(VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO);
        info.bindingCount = 1;
        info.pBindings = &binding;
        VK_CHECK(vkCreateDescriptorSetLayout(on_.device, &info, nullptr, &layouts_[i]));
    }
    const auto sampler = make<VkSamplerCreateInfo>(VK_STRUCTURE_TYPE_SAMPLER_CREATE_INFO); // nearest
    VK_CHECK(vkCreateSampler(on_.device, &sampler, nullptr, &sampler_));
    auto layout = make<VkPipelineLayoutCreateInfo>(VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO);
    const VkDescriptorSetLayout sets[] = {layouts_[0], layouts_[1], layouts_[1]}; // constants, tile, backdrop
    layout.setLayoutCount = 3;
    layout.pSetLayouts = sets;
    VK_CHECK(vkCreatePipelineLayout(on_.device, &layout, nullptr, &layout_));

    VkPipelineShaderStageCreateInfo stages[2];
    for (VkPipelineShaderStageCreateInfo &one : stages) {
        one = make<VkPipelineShaderStageCreateInfo>(VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO);
        one.pName = "main";
    }
    stages[0].stage = VK_SHADER_STAGE_VERTEX_BIT;
    stages[0].module = load(tile_vert, sizeof tile_vert);
    stages[1].stage = VK_SHADER_STAGE_FRAGMENT_BIT;
    stages[1].module = load(tile_frag, sizeof tile_frag);
    const VkVertexInputBindingDescription stride = {0, sizeof(vertex), VK_VERTEX_INPUT_RATE_VERTEX};
    const VkVertexInputAttributeDescription attributes[] = {{0, 0, VK_FORMAT_R32G32_SFLOAT, 0},
                                                            {1, 0, VK_FORMAT_R32G32_SINT, offsetof(vertex, left)}};
    auto input = make<VkPipelineVertexInputStateCreateInfo>(VK_STRUCTURE_TYPE_PIPELINE_VERTEX_INPUT_STATE_CREATE_INFO);
    input.vertexBindingDescriptionCount = 1;
    input.pVertexBindingDescriptions = &stride;
    input.vertexAttributeDescriptionCount = 2;
    input.pVertexAttributeDescriptions = attributes;
    auto assembly =
        make<VkPipelineInputAssemblyStateCreateInfo>(VK_STRUCTURE_TYPE_PIPELINE_INPUT_ASSEMBLY_STATE_CREATE_INFO);
    assembly.topology = VK_PRIMITIVE_TOPOLOGY_TRIANGLE_LIST;
    const VkViewport viewport = {0, 0, frame_size, frame_size, 0, 1};
    const VkRect2D whole = {{0, 0}, {frame_size, frame_size}};
    auto view = make<VkPipelineViewportStateCreateInfo>(VK_STRUCTURE_TYPE_PIPELINE_VIEWPORT_STATE_CREATE_INFO);
    view.viewportCount = view.scissorCount = 1;
    view.pViewports = &viewport;
    view.pScissors = &whole;
    auto raster =
        make<VkPipelineRasterizationStateCreateInfo>(VK_STRUCTURE_TYPE_PIPELINE_RASTERIZATION_STATE_CREATE_INFO);
    raster.lineWidth = 1;
    auto samples = make<VkPipelineMultisampleStateCreateInfo>(VK_STRUCTURE_TYPE_PIPELINE_MULTISAMPLE_STATE_CREATE_INFO);
    samples.rasterizationSamples = VK_SAMPLE_COUNT_1_BIT;
    VkPipelineColorBlendAttachmentState written = {};
    written.colorWriteMask =
        VK_COLOR_COMPONENT_R_BIT | VK_COLOR_COMPONENT_G_BIT | VK_COLOR_COMPONENT_B_BIT | VK_COLOR_COMPONENT_A_BIT;
    auto blend = make<VkPipelineColorBlendStateCreateInfo>(VK_STRUCTURE_TYPE_PIPELINE_COLOR_BLEND_STATE_CREATE_INFO);
    blend.attachmentCount = 1;
    blend.pAttachments = &written;
    auto info = make<VkGraphicsPipelineCreateInfo>(VK_STRUCTURE_TYPE_GRAPHICS_PIPELINE_CREATE_INFO);
    info.stageCount = 2;
    info.pStages = stages;
    info.pVertexInputState = &input;
    info.pInputAssemblyState = &assembly;
    info.pViewportState = &view;
    info.pRasterizationState = &raster;
    info.pMultisampleState = &samples;
    info.pColorBlendState = &blend;
    info.layout = layout_;
    info.renderPass = pass_;
    VK_CHECK(vkCreateGraphicsPipelines(on_.device, nullptr, 1, &info, nullptr, &pipeline_));
    for (const VkPipelineShaderStageCreateInfo &one : stages)
        vkDestroyShaderModule(on_.device, one.module, nullptr);
}

VkDescriptorSet renderer::allocate_set(VkDescriptorSetLayout layout) const {
    auto info = make<VkDescriptorSetAllocateInfo>(VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO);
    info.descriptorPool = descriptors_;
    info.descriptorSetCount = 1;
    info.pSetLayouts = &layout;
    VkDescriptorSet made = nullptr;
    VK_CHECK(vkAllocateDescriptorSets(on_.device, &info, &made));
    return made;
}

void renderer::make_set(texture &of, VkImageLayout layout) {
    of.set = allocate_set(layouts_[1]);
    const VkDescriptorImageInfo image = {sampler_, of.view, layout};
    auto write = make<VkWriteDescriptorSet>(VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET);
    write.dstSet = of.set;
    write.descriptorCount = 1;
    write.descriptorType = VK_DESCRIPTOR_TYPE_COMBINED_IMAGE_SAMPLER;
    write.pImageInfo = &image;
    vkUpdateDescriptorSets(on_.device, 1, &write, 0, nullptr);
}

namespace {

void change_layout(VkCommandBuffer commands, const texture &of, VkImageLayout from, VkImageLayout to,
                   VkPipelineStageFlags before, VkAccessFlags written, VkPipelineStageFlags after, VkAccessFlags read) {
    auto barrier = make<VkImageMemoryBarrier>(VK_STRUCTURE_TYPE_IMAGE_MEMORY_BARRIER);
    barrier.srcAccessMask = written;
    barrier.dstAccessMask = read;
    barrier.oldLayout = from;
    barrier.newLayout = to;
    barrier.srcQueueFamilyIndex = barrier.dstQueueFamilyIndex = VK_QUEUE_FAMILY_IGNORED;
    barrier.image = of.image;
    barrier.subresourceRange = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, 0, 1};
    vkCmdPipelineBarrier(commands, before, after, 0, 0, nullptr, 0, nullptr, 1, &barrier);
}

// Copies the new pictures of tiles from the upload buffer. No frame in flight draws their textures.
void copy_tiles(VkCommandBuffer commands, VkBuffer from, const std::vector<tile_upload> &uploads) {
    constexpr VkPipelineStageFlags copies = VK_PIPELINE_STAGE_TRANSFER_BIT,
                                   draws = VK_PIPELINE_STAGE_FRAGMENT_SHADER_BIT;
    for (const tile_upload &one : uploads)
        change_layout(commands, *one.to, VK_IMAGE_LAYOUT_UNDEFINED, VK_IMAGE_LAYOUT_TRANSFER_DST_OPTIMAL, draws, 0,
                      copies, VK_ACCESS_TRANSFER_WRITE_BIT);
    for (const tile_upload &one : uploads) {
        VkBufferImageCopy whole = {};
        whole.bufferOffset = one.offset;
        whole.imageSubresource = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 0, 1};
        whole.imageExtent = {tile_size, tile_size, 1};
        vkCmdCopyBufferToImage(commands, from, one.to->image, VK_IMAGE_LAYOUT_TRANSFER_DST_OPTIMAL, 1, &whole);
    }
    for (const tile_upload &one : uploads)
        change_layout(commands, *one.to, VK_IMAGE_LAYOUT_TRANSFER_DST_OPTIMAL, VK_IMAGE_LAYOUT_SHADER_READ_ONLY_OPTIMAL,
                      copies, VK_ACCESS_TRANSFER_WRITE_BIT, draws, VK_ACCESS_SHADER_READ_BIT);
}

} // namespace

void renderer::make_general(texture &of) {
    const VkCommandBuffer commands = slots_[0]->commands;
    const auto begin = make<VkCommandBufferBeginInfo>(VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO);
    VK_CHECK(vkQueueWaitIdle(on_.queue));
    VK_CHECK(vkBeginCommandBuffer(commands, &begin));
    change_layout(commands, of, VK_IMAGE_LAYOUT_UNDEFINED, VK_IMAGE_LAYOUT_GENERAL, VK_PIPELINE_STAGE_TOP_OF_PIPE_BIT,
                  0, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, VK_ACCESS_MEMORY_READ_BIT | VK_ACCESS_MEMORY_WRITE_BIT);
    VK_CHECK(vkEndCommandBuffer(commands));
    auto submit = make<VkSubmitInfo>(VK_STRUCTURE_TYPE_SUBMIT_INFO);
    submit.commandBufferCount = 1;
    submit.pCommandBuffers = &commands;
    VK_CHECK(vkQueueSubmit(on_.queue, 1, &submit, nullptr));
    VK_CHECK(vkQueueWaitIdle(on_.queue));
}

void renderer::draw(std::uint64_t frame, const picture &shown, const shared_timeline &uploaded,
                    const shared_timeline &rendered, bool with_screenshot) {
    const slot &mine = slot_of(frame);
    auto begin = make<VkCommandBufferBeginInfo>(VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO);
    begin.flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT;
    VK_CHECK(vkBeginCommandBuffer(mine.commands, &begin));
    copy_tiles(mine.commands, mine.upload_buffer.handle, shown.uploads);
    const VkClearValue black = {};
    auto pass = make<VkRenderPassBeginInfo>(VK_STRUCTURE_TYPE_RENDER_PASS_BEGIN_INFO);
    pass.renderPass = pass_;
    pass.framebuffer = framebuffer_;
    pass.renderArea = {{0, 0}, {frame_size, frame_size}};
    pass.clearValueCount = 1;
    pass.pClearValues = &black;
    vkCmdBeginRenderPass(mine.commands, &pass, VK_SUBPASS_CONTENTS_INLINE);
    vkCmdBindPipeline(mine.commands, VK_PIPELINE_BIND_POINT_GRAPHICS, pipeline_);
    vkCmdBindDescriptorSets(mine.commands, VK_PIPELINE_BIND_POINT_GRAPHICS, layout_, 0, 1, &mine.set, 0, nullptr);
    const VkDeviceSize start = 0;
    vkCmdBindDescriptorSets(mine.commands, VK_PIPELINE_BIND_POINT_GRAPHICS, layout_, 2, 1, &shown.backdrop->set, 0,
                            nullptr);
    vkCmdBindVertexBuffers(mine.commands, 0, 1, &mine.upload_buffer.handle, &start);
    for (std::uint32_t tile = 0; tile < tiles; ++tile) {
        if (!shown.tile_textures[tile]) continue;
        vkCmdBindDescriptorSets(mine.commands, VK_PIPELINE_BIND_POINT_GRAPHICS, layout_, 1, 1,
                                &shown.tile_textures[tile]->set, 0, nullptr);
        vkCmdDraw(mine.commands, 6, 1, 6 * tile, 0);
    }
    vkCmdEndRenderPass(mine.commands);
    if (with_screenshot) {
        VkBufferImageCopy whole = {};
        whole.imageSubresource = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 0, 1};
        whole.imageExtent = {frame_size, frame_size, 1};
        vkCmdCopyImageToBuffer(mine.commands, target_, VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL, screen_.handle, 1, &whole);
        auto to_host = make<VkMemoryBarrier>(VK_STRUCTURE_TYPE_MEMORY_BARRIER);
        to_host.srcAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT;
        to_host.dstAccessMask = VK_ACCESS_HOST_READ_BIT;
        vkCmdPipelineBarrier(mine.commands, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &to_host,
                             0, nullptr, 0, nullptr);
    }
    VK_CHECK(vkEndCommandBuffer(mine.commands));
    auto values = make<VkTimelineSemaphoreSubmitInfo>(VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO);
    values.waitSemaphoreValueCount = values.signalSemaphoreValueCount = 1;
    values.pWaitSemaphoreValues = values.pSignalSemaphoreValues = &frame;
    const VkPipelineStageFlags first_use =
        VK_PIPELINE_STAGE_TRANSFER_BIT | VK_PIPELINE_STAGE_VERTEX_INPUT_BIT | VK_PIPELINE_STAGE_FRAGMENT_SHADER_BIT;
    auto submit = make<VkSubmitInfo>(VK_STRUCTURE_TYPE_SUBMIT_INFO, &values);
    submit.waitSemaphoreCount = submit.signalSemaphoreCount = submit.commandBufferCount = 1;
    submit.pWaitSemaphores = &uploaded.handle;
    submit.pWaitDstStageMask = &first_use;
    submit.pSignalSemaphores = &rendered.handle;
    submit.pCommandBuffers = &mine.commands;
    VK_CHECK(vkQueueSubmit(on_.queue, 1, &submit, nullptr));
}
