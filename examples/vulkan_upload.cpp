// Uploads pageable memory to a Vulkan buffer that Vulkan reads: on an NVIDIA GPU, or without a GPU on Mesa's lavapipe
// and ferry's software driver.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <ferry/ferry_vulkan.hpp>

static void check(VkResult result, const char *what) {
    if (result == VK_SUCCESS) return;
    std::fprintf(stderr, "%s: VkResult %d\n", what, result);
    std::exit(1);
}
#define CHECK(call) check(call, #call)

template <class Struct> static Struct make(VkStructureType type, const void *next = nullptr) {
    Struct made = {};
    made.sType = type;
    made.pNext = const_cast<void *>(next);
    return made;
}

static bool has(VkPhysicalDevice device, const char *extension) {
    std::uint32_t count = 0;
    vkEnumerateDeviceExtensionProperties(device, nullptr, &count, nullptr);
    std::vector<VkExtensionProperties> all(count);
    vkEnumerateDeviceExtensionProperties(device, nullptr, &count, all.data());
    for (const VkExtensionProperties &one : all)
        if (std::strcmp(one.extensionName, extension) == 0) return true;
    return false;
}

static std::uint32_t memory_type(VkPhysicalDevice device, std::uint32_t bits, VkMemoryPropertyFlags wanted) {
    VkPhysicalDeviceMemoryProperties found;
    vkGetPhysicalDeviceMemoryProperties(device, &found);
    for (std::uint32_t i = 0; i < found.memoryTypeCount; ++i)
        if (bits >> i & 1 && (found.memoryTypes[i].propertyFlags & wanted) == wanted) return i;
    check(VK_ERROR_OUT_OF_DEVICE_MEMORY, "no such memory");
    return 0;
}

struct buffer {
    VkBuffer handle = nullptr;
    VkDeviceMemory memory = nullptr;
    VkDeviceSize allocated = 0; // the size that ferry needs, not the buffer's
};

static buffer make_buffer(VkPhysicalDevice physical, VkDevice device, VkDeviceSize size, bool is_shared) {
    auto shared = make<VkExternalMemoryBufferCreateInfo>(VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_BUFFER_CREATE_INFO);
    shared.handleTypes = ferry::vulkan::memory_handle_type;
    auto info = make<VkBufferCreateInfo>(VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO, is_shared ? &shared : nullptr);
    info.size = size;
    info.usage = VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT;
    buffer made;
    CHECK(vkCreateBuffer(device, &info, nullptr, &made.handle));
    VkMemoryRequirements needed;
    vkGetBufferMemoryRequirements(device, made.handle, &needed);
    auto exported = make<VkExportMemoryAllocateInfo>(VK_STRUCTURE_TYPE_EXPORT_MEMORY_ALLOCATE_INFO);
    exported.handleTypes = ferry::vulkan::memory_handle_type;
    auto how = make<VkMemoryAllocateInfo>(VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO, is_shared ? &exported : nullptr);
    made.allocated = how.allocationSize = needed.size;
    how.memoryTypeIndex =
        memory_type(physical, needed.memoryTypeBits,
                    is_shared ? VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT
                              : VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT);
    CHECK(vkAllocateMemory(device, &how, nullptr, &made.memory));
    CHECK(vkBindBufferMemory(device, made.handle, made.memory, 0));
    return made;
}

int main() {
    constexpr std::size_t size = std::size_t{16} << 20;
    ferry::instance ferry = ferry::instance::open(ferry::any_driver()).or_throw();

    // Finds the device that both use. Its number in Vulkan may differ.
    auto application = make<VkApplicationInfo>(VK_STRUCTURE_TYPE_APPLICATION_INFO);
    application.apiVersion = VK_API_VERSION_1_2;
    auto instance_info = make<VkInstanceCreateInfo>(VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO);
    instance_info.pApplicationInfo = &application;
    VkInstance instance = nullptr;
    CHECK(vkCreateInstance(&instance_info, nullptr, &instance));
    std::uint32_t count = 0;
    CHECK(vkEnumeratePhysicalDevices(instance, &count, nullptr));
    std::vector<VkPhysicalDevice> all(count);
    CHECK(vkEnumeratePhysicalDevices(instance, &count, all.data()));
    VkPhysicalDevice physical = nullptr;
    int device_number = -1;
    for (std::uint32_t i = 0; i < count && !physical; ++i) {
        const auto found = ferry::vulkan::find_device(ferry, all[i]);
        if (!found || !has(all[i], "VK_KHR_external_memory_fd")) continue;
        physical = all[i];
        device_number = *found;
    }
    if (!physical) {
        std::puts("no device that Vulkan and ferry share");
        return 77;
    }
    const bool shares_semaphores = has(physical, "VK_KHR_external_semaphore_fd"); // lavapipe cannot share them

    const float priority = 1;
    auto queues = make<VkDeviceQueueCreateInfo>(VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO);
    queues.queueCount = 1;
    queues.pQueuePriorities = &priority;
    auto timelines =
        make<VkPhysicalDeviceTimelineSemaphoreFeatures>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES);
    timelines.timelineSemaphore = VK_TRUE;
    const char *const extensions[] = {"VK_KHR_external_memory_fd", "VK_KHR_external_semaphore_fd"};
    auto device_info = make<VkDeviceCreateInfo>(VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO, &timelines);
    device_info.queueCreateInfoCount = 1;
    device_info.pQueueCreateInfos = &queues;
    device_info.enabledExtensionCount = shares_semaphores ? 2 : 1;
    device_info.ppEnabledExtensionNames = extensions;
    VkDevice device = nullptr;
    CHECK(vkCreateDevice(physical, &device_info, nullptr, &device));
    VkQueue queue = nullptr;
    vkGetDeviceQueue(device, 0, 0, &queue);

    auto exported = make<VkExportSemaphoreCreateInfo>(VK_STRUCTURE_TYPE_EXPORT_SEMAPHORE_CREATE_INFO);
    exported.handleTypes = ferry::vulkan::semaphore_handle_type;
    auto type = make<VkSemaphoreTypeCreateInfo>(VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
                                                shares_semaphores ? &exported : nullptr);
    type.semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE;
    const auto semaphore_info = make<VkSemaphoreCreateInfo>(VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, &type);
    VkSemaphore uploaded = nullptr;
    CHECK(vkCreateSemaphore(device, &semaphore_info, nullptr, &uploaded));
    const buffer target = make_buffer(physical, device, size, true);
    const buffer seen = make_buffer(physical, device, size, false);

    // The upload. The call returns immediately, and the semaphore gets the value 1 when all bytes have arrived.
    std::vector<std::uint32_t> data(size / sizeof(std::uint32_t));
    for (std::size_t i = 0; i < data.size(); ++i)
        data[i] = static_cast<std::uint32_t>(i * 2654435761U);
    {
        const auto stream = ferry::stream::create(ferry, device_number, ferry::stream_flag::non_blocking).or_throw();
        auto memory = ferry::vulkan::import(ferry, device_number, device, target.memory, target.allocated).or_throw();
        const auto words = memory.line<std::uint32_t>(0, data.size()).or_throw();
        ferry::copy_async(ferry, data, words, stream).or_throw();
        if (shares_semaphores) {
            auto signal = ferry::vulkan::import(ferry, device_number, device, uploaded, true).or_throw();
            signal.signal(stream, 1).or_throw();
            stream.synchronize().or_throw(); // only because `signal` is destroyed here
        } else {
            stream.synchronize().or_throw();
            auto value = make<VkSemaphoreSignalInfo>(VK_STRUCTURE_TYPE_SEMAPHORE_SIGNAL_INFO);
            value.semaphore = uploaded;
            value.value = 1;
            CHECK(vkSignalSemaphore(device, &value));
        }
        memory.release_deferred(stream).or_throw();
        stream.synchronize().or_throw();  // trim_deferred keeps objects in use on a stream
        ferry.trim_deferred().or_throw(); // waits for running work: not in every frame
    }

    // Vulkan waits for the upload and reads the buffer.
    const auto pool_info = make<VkCommandPoolCreateInfo>(VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO);
    VkCommandPool pool = nullptr;
    CHECK(vkCreateCommandPool(device, &pool_info, nullptr, &pool));
    auto commands_info = make<VkCommandBufferAllocateInfo>(VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO);
    commands_info.commandPool = pool;
    commands_info.commandBufferCount = 1;
    VkCommandBuffer commands = nullptr;
    CHECK(vkAllocateCommandBuffers(device, &commands_info, &commands));
    const auto begin = make<VkCommandBufferBeginInfo>(VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO);
    CHECK(vkBeginCommandBuffer(commands, &begin));
    const VkBufferCopy whole = {0, 0, size};
    vkCmdCopyBuffer(commands, target.handle, seen.handle, 1, &whole);
    CHECK(vkEndCommandBuffer(commands));
    const std::uint64_t one = 1;
    auto values = make<VkTimelineSemaphoreSubmitInfo>(VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO);
    values.waitSemaphoreValueCount = 1;
    values.pWaitSemaphoreValues = &one;
    const VkPipelineStageFlags stage = VK_PIPELINE_STAGE_TRANSFER_BIT;
    auto submit = make<VkSubmitInfo>(VK_STRUCTURE_TYPE_SUBMIT_INFO, &values);
    submit.waitSemaphoreCount = 1;
    submit.pWaitSemaphores = &uploaded;
    submit.pWaitDstStageMask = &stage;
    submit.commandBufferCount = 1;
    submit.pCommandBuffers = &commands;
    CHECK(vkQueueSubmit(queue, 1, &submit, nullptr));
    CHECK(vkQueueWaitIdle(queue));
    void *bytes = nullptr;
    CHECK(vkMapMemory(device, seen.memory, 0, size, 0, &bytes));
    const bool is_right = std::memcmp(bytes, data.data(), size) == 0;
    std::printf("%zu bytes from pageable memory, read by Vulkan: %s\n", size, is_right ? "right" : "WRONG");

    vkDestroyCommandPool(device, pool, nullptr);
    vkDestroySemaphore(device, uploaded, nullptr);
    for (const buffer &gone : {target, seen}) {
        vkDestroyBuffer(device, gone.handle, nullptr);
        vkFreeMemory(device, gone.memory, nullptr);
    }
    vkDestroyDevice(device, nullptr);
    vkDestroyInstance(instance, nullptr);
    return is_right ? 0 : 1;
}
