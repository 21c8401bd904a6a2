// Owners of Vulkan's objects, whose memory ferry can import.
#pragma once

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ferry/ferry_vulkan.hpp"

#include "support/raw_objects.h"

namespace ferry::test {

#define ASSERT_VULKAN(call) ASSERT_EQ(call, VK_SUCCESS)
#define EXPECT_VULKAN(call) EXPECT_EQ(call, VK_SUCCESS)

template <class Struct> Struct made(VkStructureType type) {
    Struct one = {};
    one.sType = type;
    return one;
}

// A device with one queue, for copies.
class machine {
public:
    explicit machine(const instance &ferry) {
        auto application = made<VkApplicationInfo>(VK_STRUCTURE_TYPE_APPLICATION_INFO);
        application.apiVersion = VK_API_VERSION_1_2;
        auto info = made<VkInstanceCreateInfo>(VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO);
        info.pApplicationInfo = &application;
        if (vkCreateInstance(&info, nullptr, &instance_) != VK_SUCCESS) return;
        std::uint32_t count = 16;
        VkPhysicalDevice all[16];
        vkEnumeratePhysicalDevices(instance_, &count, all);
        for (std::uint32_t i = 0; i < count && !physical; ++i)
            if (const auto found = vulkan::find_device(ferry, all[i]);
                found && has(all[i], "VK_KHR_external_memory_fd"))
                physical = all[i], number = *found;
        if (physical) open();
    }
    ~machine() {
        if (device) {
            vkDestroyCommandPool(device, pool_, nullptr);
            vkDestroyDevice(device, nullptr);
        }
        if (instance_) vkDestroyInstance(instance_, nullptr);
    }
    machine(const machine &) = delete;

    std::uint32_t memory_type(std::uint32_t bits, VkMemoryPropertyFlags wanted) const {
        VkPhysicalDeviceMemoryProperties found;
        vkGetPhysicalDeviceMemoryProperties(physical, &found);
        for (std::uint32_t i = 0; i < found.memoryTypeCount; ++i)
            if (bits >> i & 1 && (found.memoryTypes[i].propertyFlags & wanted) == wanted) return i;
        ADD_FAILURE() << "no such memory";
        return 0;
    }
    // Runs commands after `waited` has its value, and then sets `signalled`. Without `signalled`, waits for the end.
    void run(const std::function<void(VkCommandBuffer)> &record, VkSemaphore waited = nullptr, std::uint64_t wait = 0,
             VkSemaphore signalled = nullptr, std::uint64_t signal = 0) {
        auto how = made<VkCommandBufferAllocateInfo>(VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO);
        how.commandPool = pool_;
        how.commandBufferCount = 1;
        VkCommandBuffer commands = nullptr;
        ASSERT_VULKAN(vkAllocateCommandBuffers(device, &how, &commands));
        const auto begin = made<VkCommandBufferBeginInfo>(VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO);
        ASSERT_VULKAN(vkBeginCommandBuffer(commands, &begin));
        record(commands);
        ASSERT_VULKAN(vkEndCommandBuffer(commands));
        auto values = made<VkTimelineSemaphoreSubmitInfo>(VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO);
        const VkPipelineStageFlags stage = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
        auto submitted = made<VkSubmitInfo>(VK_STRUCTURE_TYPE_SUBMIT_INFO);
        submitted.pNext = &values;
        submitted.commandBufferCount = 1;
        submitted.pCommandBuffers = &commands;
        if (waited) {
            values.waitSemaphoreValueCount = submitted.waitSemaphoreCount = 1;
            values.pWaitSemaphoreValues = &wait;
            submitted.pWaitSemaphores = &waited;
            submitted.pWaitDstStageMask = &stage;
        }
        if (signalled) {
            values.signalSemaphoreValueCount = submitted.signalSemaphoreCount = 1;
            values.pSignalSemaphoreValues = &signal;
            submitted.pSignalSemaphores = &signalled;
        }
        ASSERT_VULKAN(vkQueueSubmit(queue, 1, &submitted, nullptr));
        if (signalled) return;
        EXPECT_VULKAN(vkQueueWaitIdle(queue));
    }

    VkPhysicalDevice physical = nullptr;
    VkDevice device = nullptr;
    VkQueue queue = nullptr;
    int number = -1; // in ferry
    bool exports_semaphores = false;

private:
    static bool has(VkPhysicalDevice of, const std::string &extension) {
        std::uint32_t count = 0;
        vkEnumerateDeviceExtensionProperties(of, nullptr, &count, nullptr);
        std::vector<VkExtensionProperties> all(count);
        vkEnumerateDeviceExtensionProperties(of, nullptr, &count, all.data());
        return std::any_of(all.begin(), all.end(), [&](const auto &one) { return extension == one.extensionName; });
    }
    void open() {
        exports_semaphores = has(physical, "VK_KHR_external_semaphore_fd");
        const char *const extensions[] = {"VK_KHR_external_memory_fd", "VK_KHR_external_semaphore_fd"};
        const float priority = 1;
        auto queues = made<VkDeviceQueueCreateInfo>(VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO);
        queues.queueCount = 1;
        queues.pQueuePriorities = &priority;
        auto timelines = made<VkPhysicalDeviceTimelineSemaphoreFeatures>(
            VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES);
        timelines.timelineSemaphore = VK_TRUE;
        auto info = made<VkDeviceCreateInfo>(VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO);
        info.pNext = &timelines;
        info.queueCreateInfoCount = 1;
        info.pQueueCreateInfos = &queues;
        info.enabledExtensionCount = exports_semaphores ? 2 : 1;
        info.ppEnabledExtensionNames = extensions;
        ASSERT_VULKAN(vkCreateDevice(physical, &info, nullptr, &device));
        vkGetDeviceQueue(device, 0, 0, &queue);
        const auto how = made<VkCommandPoolCreateInfo>(VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO);
        ASSERT_VULKAN(vkCreateCommandPool(device, &how, nullptr, &pool_));
    }

    VkInstance instance_ = nullptr;
    VkCommandPool pool_ = nullptr;
};

// Memory of Vulkan: exportable on the device, or visible to the host.
class vulkan_memory {
public:
    vulkan_memory(const machine &on, const VkMemoryRequirements &needed, bool is_exported,
                  const VkMemoryDedicatedAllocateInfo *dedicated = nullptr)
        : on_(on), size_(needed.size) {
        auto exported = made<VkExportMemoryAllocateInfo>(VK_STRUCTURE_TYPE_EXPORT_MEMORY_ALLOCATE_INFO);
        exported.handleTypes = vulkan::memory_handle_type;
        exported.pNext = dedicated;
        auto info = made<VkMemoryAllocateInfo>(VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO);
        info.allocationSize = needed.size;
        info.pNext = is_exported ? &exported : nullptr;
        info.memoryTypeIndex =
            on.memory_type(needed.memoryTypeBits,
                           is_exported ? VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT
                                       : VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT);
        EXPECT_VULKAN(vkAllocateMemory(on.device, &info, nullptr, &handle_));
    }
    ~vulkan_memory() { vkFreeMemory(on_.device, handle_, nullptr); }
    vulkan_memory(const vulkan_memory &) = delete;
    operator VkDeviceMemory() const { return handle_; }
    VkDeviceSize size() const { return size_; }

private:
    const machine &on_;
    VkDeviceSize size_;
    VkDeviceMemory handle_ = nullptr;
};

class buffer {
public:
    buffer(const machine &on, VkDeviceSize size, bool is_exported) : on_(on), size_(size) {
        auto exported = made<VkExternalMemoryBufferCreateInfo>(VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_BUFFER_CREATE_INFO);
        exported.handleTypes = vulkan::memory_handle_type;
        auto info = made<VkBufferCreateInfo>(VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO);
        info.pNext = is_exported ? &exported : nullptr;
        info.size = size;
        info.usage = VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT;
        EXPECT_VULKAN(vkCreateBuffer(on.device, &info, nullptr, &handle_));
        VkMemoryRequirements needed;
        vkGetBufferMemoryRequirements(on.device, handle_, &needed);
        memory.emplace(on, needed, is_exported);
        EXPECT_VULKAN(vkBindBufferMemory(on.device, handle_, *memory, 0));
    }
    ~buffer() { vkDestroyBuffer(on_.device, handle_, nullptr); }
    buffer(const buffer &) = delete;
    operator VkBuffer() const { return handle_; }
    bytes contents() const { // of a buffer that the host sees
        void *mapped = nullptr;
        EXPECT_VULKAN(vkMapMemory(on_.device, *memory, 0, size_, 0, &mapped));
        const auto *const begin = static_cast<const std::byte *>(mapped);
        bytes found(begin, begin + size_);
        vkUnmapMemory(on_.device, *memory);
        return found;
    }

    std::optional<vulkan_memory> memory;

private:
    const machine &on_;
    VkDeviceSize size_;
    VkBuffer handle_ = nullptr;
};

class image {
public:
    image(const machine &on, VkImageCreateInfo info) : on_(on) {
        auto exported = made<VkExternalMemoryImageCreateInfo>(VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_IMAGE_CREATE_INFO);
        exported.handleTypes = vulkan::memory_handle_type;
        info.pNext = &exported;
        EXPECT_VULKAN(vkCreateImage(on.device, &info, nullptr, &handle_));
        VkMemoryRequirements needed;
        vkGetImageMemoryRequirements(on.device, handle_, &needed);
        auto dedicated = made<VkMemoryDedicatedAllocateInfo>(VK_STRUCTURE_TYPE_MEMORY_DEDICATED_ALLOCATE_INFO);
        dedicated.image = handle_;
        memory.emplace(on, needed, true, &dedicated);
        EXPECT_VULKAN(vkBindImageMemory(on.device, handle_, *memory, 0));
    }
    ~image() { vkDestroyImage(on_.device, handle_, nullptr); }
    image(const image &) = delete;
    operator VkImage() const { return handle_; }

    std::optional<vulkan_memory> memory;

private:
    const machine &on_;
    VkImage handle_ = nullptr;
};

class timeline {
public:
    explicit timeline(const machine &on) : on_(on) {
        auto exported = made<VkExportSemaphoreCreateInfo>(VK_STRUCTURE_TYPE_EXPORT_SEMAPHORE_CREATE_INFO);
        exported.handleTypes = vulkan::semaphore_handle_type;
        auto type = made<VkSemaphoreTypeCreateInfo>(VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO);
        type.semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE;
        type.pNext = on.exports_semaphores ? &exported : nullptr;
        auto info = made<VkSemaphoreCreateInfo>(VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO);
        info.pNext = &type;
        EXPECT_VULKAN(vkCreateSemaphore(on.device, &info, nullptr, &handle_));
    }
    ~timeline() { vkDestroySemaphore(on_.device, handle_, nullptr); }
    timeline(const timeline &) = delete;
    operator VkSemaphore() const { return handle_; }

private:
    const machine &on_;
    VkSemaphore handle_ = nullptr;
};

// Orders a stream and a Vulkan queue alternately: by an exported timeline semaphore, or else by waits of the host.
struct turns {
    turns(const instance &ferry, const machine &on) : value(on) {
        if (on.exports_semaphores) imported = vulkan::import(ferry, on.number, on.device, value, true).or_throw();
    }
    timeline value;
    external_semaphore imported;
};

inline VkImageCreateInfo image_2d(VkFormat format, std::uint32_t width, std::uint32_t height,
                                  VkImageTiling tiling = VK_IMAGE_TILING_OPTIMAL) {
    auto info = made<VkImageCreateInfo>(VK_STRUCTURE_TYPE_IMAGE_CREATE_INFO);
    info.imageType = VK_IMAGE_TYPE_2D;
    info.format = format;
    info.extent = {width, height, 1};
    info.mipLevels = info.arrayLayers = 1;
    info.samples = VK_SAMPLE_COUNT_1_BIT;
    info.tiling = tiling;
    info.usage = VK_IMAGE_USAGE_TRANSFER_SRC_BIT | VK_IMAGE_USAGE_TRANSFER_DST_BIT | VK_IMAGE_USAGE_SAMPLED_BIT;
    info.initialLayout = VK_IMAGE_LAYOUT_UNDEFINED;
    return info;
}

inline void to_general(VkCommandBuffer commands, VkImage of, const VkImageCreateInfo &info, VkImageLayout from) {
    auto barrier = made<VkImageMemoryBarrier>(VK_STRUCTURE_TYPE_IMAGE_MEMORY_BARRIER);
    barrier.srcAccessMask = barrier.dstAccessMask = VK_ACCESS_MEMORY_READ_BIT | VK_ACCESS_MEMORY_WRITE_BIT;
    barrier.oldLayout = from;
    barrier.newLayout = VK_IMAGE_LAYOUT_GENERAL;
    barrier.srcQueueFamilyIndex = barrier.dstQueueFamilyIndex = VK_QUEUE_FAMILY_IGNORED;
    barrier.image = of;
    barrier.subresourceRange = {VK_IMAGE_ASPECT_COLOR_BIT, 0, info.mipLevels, 0, info.arrayLayers};
    vkCmdPipelineBarrier(commands, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, 0, 0,
                         nullptr, 0, nullptr, 1, &barrier);
}

} // namespace ferry::test
