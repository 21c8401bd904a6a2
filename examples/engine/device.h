// A device that both Vulkan and ferry use, and the Vulkan objects that ferry copies to. Throws std::runtime_error.
#pragma once

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include <ferry/ferry_vulkan.hpp>

inline void check(VkResult result, const char *what) {
    if (result != VK_SUCCESS) throw std::runtime_error(std::string(what) + ": VkResult " + std::to_string(result));
}
#define VK_CHECK(call) check(call, #call)

template <class Struct> Struct make(VkStructureType type, const void *next = nullptr) {
    Struct made = {};
    made.sType = type;
    made.pNext = const_cast<void *>(next);
    return made;
}

struct vulkan_device {
    explicit vulkan_device(const ferry::instance &ferry) {
        auto application = make<VkApplicationInfo>(VK_STRUCTURE_TYPE_APPLICATION_INFO);
        application.apiVersion = VK_API_VERSION_1_2;
        auto info = make<VkInstanceCreateInfo>(VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO);
        info.pApplicationInfo = &application;
        VK_CHECK(vkCreateInstance(&info, nullptr, &instance));
        std::uint32_t count = 0;
        VK_CHECK(vkEnumeratePhysicalDevices(instance, &count, nullptr));
        std::vector<VkPhysicalDevice> all(count);
        VK_CHECK(vkEnumeratePhysicalDevices(instance, &count, all.data()));
        for (const VkPhysicalDevice one : all) {
            const auto found = ferry::vulkan::find_device(ferry, one); // by UUID: the numbers differ
            if (!found || !has(one, "VK_KHR_external_memory_fd")) continue;
            physical = one;
            number = *found;
            break;
        }
        if (!physical) throw std::runtime_error("no device that Vulkan and ferry share");
        exports_semaphores = has(physical, "VK_KHR_external_semaphore_fd");
        is_software = ferry.device_info(number).or_throw().is_software;
        open_device();
    }
    ~vulkan_device() {
        if (device) vkDestroyDevice(device, nullptr);
        vkDestroyInstance(instance, nullptr);
    }
    vulkan_device(const vulkan_device &) = delete;
    vulkan_device &operator=(const vulkan_device &) = delete;

    std::uint32_t memory_type(std::uint32_t bits, VkMemoryPropertyFlags wanted) const {
        VkPhysicalDeviceMemoryProperties found;
        vkGetPhysicalDeviceMemoryProperties(physical, &found);
        for (std::uint32_t i = 0; i < found.memoryTypeCount; ++i)
            if (bits >> i & 1 && (found.memoryTypes[i].propertyFlags & wanted) == wanted) return i;
        throw std::runtime_error("no memory of the wanted kind");
    }

    VkInstance instance = nullptr;
    VkPhysicalDevice physical = nullptr;
    VkDevice device = nullptr;
    VkQueue queue = nullptr;
    int number = -1;                 // the device's number in ferry
    bool exports_semaphores = false; // lavapipe does not
    bool is_software = false;        // ferry's software driver cannot map images of optimal tiling

private:
    static bool has(VkPhysicalDevice of, const char *extension) {
        std::uint32_t count = 0;
        VK_CHECK(vkEnumerateDeviceExtensionProperties(of, nullptr, &count, nullptr));
        std::vector<VkExtensionProperties> all(count);
        VK_CHECK(vkEnumerateDeviceExtensionProperties(of, nullptr, &count, all.data()));
        for (const VkExtensionProperties &one : all)
            if (std::strcmp(one.extensionName, extension) == 0) return true;
        return false;
    }
    void open_device() {
        const char *const extensions[] = {"VK_KHR_external_memory_fd", "VK_KHR_external_semaphore_fd"};
        const float priority = 1;
        auto queues = make<VkDeviceQueueCreateInfo>(VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO);
        queues.queueCount = 1; // of family 0, which can draw with all drivers that this example was tried on
        queues.pQueuePriorities = &priority;
        auto timelines = make<VkPhysicalDeviceTimelineSemaphoreFeatures>(
            VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES);
        timelines.timelineSemaphore = VK_TRUE;
        auto info = make<VkDeviceCreateInfo>(VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO, &timelines);
        info.queueCreateInfoCount = 1;
        info.pQueueCreateInfos = &queues;
        info.enabledExtensionCount = exports_semaphores ? 2 : 1;
        info.ppEnabledExtensionNames = extensions;
        VK_CHECK(vkCreateDevice(physical, &info, nullptr, &device));
        vkGetDeviceQueue(device, 0, 0, &queue);
    }
};

// Memory, which ferry imports if there is an importer.
class vulkan_memory {
public:
    vulkan_memory() = default;
    // `image`: the image to which the memory is dedicated.
    vulkan_memory(const vulkan_device &on, const ferry::instance *importer, const VkMemoryRequirements &needed,
                  VkMemoryPropertyFlags wanted, VkImage image = nullptr)
        : device_(on.device) {
        auto exported = make<VkExportMemoryAllocateInfo>(VK_STRUCTURE_TYPE_EXPORT_MEMORY_ALLOCATE_INFO);
        exported.handleTypes = ferry::vulkan::memory_handle_type;
        auto dedicated = make<VkMemoryDedicatedAllocateInfo>(VK_STRUCTURE_TYPE_MEMORY_DEDICATED_ALLOCATE_INFO,
                                                             importer ? &exported : nullptr);
        dedicated.image = image;
        auto info = make<VkMemoryAllocateInfo>(VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO, &dedicated);
        info.allocationSize = needed.size;
        info.memoryTypeIndex = on.memory_type(needed.memoryTypeBits, wanted);
        VK_CHECK(vkAllocateMemory(device_, &info, nullptr, &handle));
        if (importer)
            of_ferry =
                ferry::vulkan::import(*importer, on.number, device_, handle, needed.size, image != nullptr).or_throw();
    }
    void free() {
        if (handle) vkFreeMemory(device_, handle, nullptr); // ferry's import keeps the memory alive
        handle = nullptr;
    }

    VkDeviceMemory handle = nullptr;
    ferry::external_memory of_ferry;

private:
    VkDevice device_ = nullptr;
};

// A buffer that ferry writes, or without an importer a buffer that the host reads.
class vulkan_buffer {
public:
    vulkan_buffer(const vulkan_device &on, const ferry::instance *importer, VkDeviceSize size, VkBufferUsageFlags usage)
        : device_(on.device) {
        auto shared = make<VkExternalMemoryBufferCreateInfo>(VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_BUFFER_CREATE_INFO);
        shared.handleTypes = ferry::vulkan::memory_handle_type;
        auto info = make<VkBufferCreateInfo>(VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO, importer ? &shared : nullptr);
        info.size = size;
        info.usage = usage;
        VK_CHECK(vkCreateBuffer(device_, &info, nullptr, &handle));
        VkMemoryRequirements needed;
        vkGetBufferMemoryRequirements(device_, handle, &needed);
        memory = vulkan_memory(on, importer, needed,
                               importer ? VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT
                                        : VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT);
        VK_CHECK(vkBindBufferMemory(device_, handle, memory.handle, 0));
        if (!importer) VK_CHECK(vkMapMemory(device_, memory.handle, 0, VK_WHOLE_SIZE, 0, &host));
    }
    ~vulkan_buffer() {
        vkDestroyBuffer(device_, handle, nullptr);
        memory.free();
    }
    vulkan_buffer(const vulkan_buffer &) = delete;
    vulkan_buffer &operator=(const vulkan_buffer &) = delete;

    VkBuffer handle = nullptr;
    vulkan_memory memory;
    void *host = nullptr;

private:
    VkDevice device_;
};

// An image that shaders read. ferry writes imported images in the layout GENERAL; the renderer copies to other images.
class texture {
public:
    // An import takes several tenths of a millisecond: do it at the start of a level, or in a job.
    texture(const vulkan_device &on, const ferry::instance *importer, std::uint32_t side) : device_(on.device) {
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
        // A kernel copies pageable memory to storage images, more than twice as fast as to other images.
        if (importer && !on.is_software) info.usage |= VK_IMAGE_USAGE_STORAGE_BIT;
        VK_CHECK(vkCreateImage(device_, &info, nullptr, &image));
        VkMemoryRequirements needed;
        vkGetImageMemoryRequirements(device_, image, &needed);
        memory_ = vulkan_memory(on, importer, needed, VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, image);
        VK_CHECK(vkBindImageMemory(device_, image, memory_.handle, 0));
        if (importer) place_ = find_place(on, info);
        auto view_info = make<VkImageViewCreateInfo>(VK_STRUCTURE_TYPE_IMAGE_VIEW_CREATE_INFO);
        view_info.image = image;
        view_info.viewType = VK_IMAGE_VIEW_TYPE_2D;
        view_info.format = info.format;
        view_info.subresourceRange = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, 0, 1};
        VK_CHECK(vkCreateImageView(device_, &view_info, nullptr, &view));
    }
    ~texture() {
        vkDestroyImageView(device_, view, nullptr);
        vkDestroyImage(device_, image, nullptr);
        memory_.free();
    }
    texture(const texture &) = delete;
    texture &operator=(const texture &) = delete;

    const ferry_place &place() const { return place_; } // of an imported image, for ferry's copies
    // Ends ferry's import after the copies on `stream`. The rest ends with this object, after Vulkan has drawn.
    void end_import(const ferry::stream &stream) { memory_.of_ferry.release_deferred(stream).or_throw(); }

    VkImage image = nullptr;
    VkImageView view = nullptr;
    VkDescriptorSet set = nullptr; // owned by the renderer

private:
    ferry_place find_place(const vulkan_device &on, const VkImageCreateInfo &info) const {
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

// A timeline semaphore that Vulkan and ferry's streams wait for and signal. If the driver cannot export one, the host
// takes part.
class shared_timeline {
public:
    shared_timeline(const vulkan_device &on, const ferry::instance &ferry) : device_(on.device) {
        auto exported = make<VkExportSemaphoreCreateInfo>(VK_STRUCTURE_TYPE_EXPORT_SEMAPHORE_CREATE_INFO);
        exported.handleTypes = ferry::vulkan::semaphore_handle_type;
        auto type = make<VkSemaphoreTypeCreateInfo>(VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
                                                    on.exports_semaphores ? &exported : nullptr);
        type.semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE;
        const auto info = make<VkSemaphoreCreateInfo>(VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, &type);
        VK_CHECK(vkCreateSemaphore(device_, &info, nullptr, &handle));
        if (on.exports_semaphores)
            of_ferry_ = ferry::vulkan::import(ferry, on.number, device_, handle, true).or_throw();
    }
    ~shared_timeline() { vkDestroySemaphore(device_, handle, nullptr); }
    shared_timeline(const shared_timeline &) = delete;
    shared_timeline &operator=(const shared_timeline &) = delete;

    std::uint64_t value() const {
        std::uint64_t found = 0;
        VK_CHECK(vkGetSemaphoreCounterValue(device_, handle, &found));
        return found;
    }
    void wait_on_host(std::uint64_t value) const {
        auto info = make<VkSemaphoreWaitInfo>(VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO);
        info.semaphoreCount = 1;
        info.pSemaphores = &handle;
        info.pValues = &value;
        VK_CHECK(vkWaitSemaphores(device_, &info, UINT64_MAX));
    }
    // Without an exported semaphore, the host must have seen the value.
    void make_wait(const ferry::stream &stream, std::uint64_t value) const {
        if (of_ferry_) of_ferry_.wait(stream, value).or_throw();
    }
    void make_signal(const ferry::stream &stream, std::uint64_t value) const {
        if (of_ferry_) return of_ferry_.signal(stream, value).or_throw();
        const auto on_host = [device = device_, semaphore = handle, value](const ferry::status &) {
            auto info = make<VkSemaphoreSignalInfo>(VK_STRUCTURE_TYPE_SEMAPHORE_SIGNAL_INFO);
            info.semaphore = semaphore;
            info.value = value;
            vkSignalSemaphore(device, &info); // fails only if the device is lost
        };
        stream.notify(on_host).or_throw();
    }

    VkSemaphore handle = nullptr;

private:
    VkDevice device_;
    ferry::external_semaphore of_ferry_;
};
