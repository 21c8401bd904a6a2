/*
 * Vulkan's memory, images and semaphores as ferry's. Header-only; include your Vulkan header first if it is not
 * <vulkan/vulkan.h> (volk.h, for example), and on Windows define VK_USE_PLATFORM_WIN32_KHR.
 *
 *     const int device = ferry::vulkan::find_device(gpu, physical_device).or_throw();
 *     auto memory = ferry::vulkan::import(gpu, device, vk_device, vk_memory, allocation_size).or_throw();
 *     auto vertices = memory.line<float>(offset, count).or_throw();
 *     ferry::copy_async(gpu, data, vertices, stream).or_throw();
 *
 *   What Vulkan must do   The instance and the device have Vulkan 1.1 or newer. The VkDevice has
 *                         VK_KHR_external_memory_fd and, for semaphores, VK_KHR_external_semaphore_fd (on Windows
 *                         _win32). Memory, and each buffer and image bound to it, is created with the handle type
 *                         ferry::vulkan::memory_handle_type; a semaphore with semaphore_handle_type.
 *   Ownership             The handle that Vulkan exports is used up in all cases. The Vulkan objects stay the program's.
 *                         Imported memory keeps its bytes alive even after vkFreeMemory.
 *   Order                 Before a copy, the stream waits for a semaphore that Vulkan signals, and after it the stream
 *                         signals one that Vulkan waits for. Images are in VK_IMAGE_LAYOUT_GENERAL meanwhile. Vulkan's
 *                         specification wants resources of VK_SHARING_MODE_EXCLUSIVE released to, and acquired from,
 *                         VK_QUEUE_FAMILY_EXTERNAL; NVIDIA's driver was seen to work without.
 */
#ifndef FERRY_FERRY_VULKAN_HPP
#define FERRY_FERRY_VULKAN_HPP

#ifndef VULKAN_CORE_H_
#include <vulkan/vulkan.h>
#endif

#include <cstring>

#if !defined(_WIN32)
#include <unistd.h>
#endif

#include "ferry.hpp"

namespace ferry {
inline namespace v0_7 {
namespace vulkan {

#if defined(_WIN32)
constexpr VkExternalMemoryHandleTypeFlagBits memory_handle_type = VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_WIN32_BIT;
constexpr VkExternalSemaphoreHandleTypeFlagBits semaphore_handle_type =
    VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_WIN32_BIT;
#else
constexpr VkExternalMemoryHandleTypeFlagBits memory_handle_type = VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT;
constexpr VkExternalSemaphoreHandleTypeFlagBits semaphore_handle_type = VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD_BIT;
#endif

// The number of the physical device in ferry: found by its UUID. A Vulkan driver that runs on the CPU, such as lavapipe,
// is device 0 of ferry's software driver. FERRY_ERROR_DEVICE if the instance has no such device.
inline result<std::int32_t> find_device(const instance &ferry, VkPhysicalDevice physical) noexcept {
    VkPhysicalDeviceIDProperties id = {};
    id.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES;
    VkPhysicalDeviceProperties2 properties = {};
    properties.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2;
    properties.pNext = &id;
    vkGetPhysicalDeviceProperties2(physical, &properties);
    const auto found = ferry.find_device(id.deviceUUID);
    if (found || properties.properties.deviceType != VK_PHYSICAL_DEVICE_TYPE_CPU) return found;
    const auto first = ferry.device_info(0);
    if (!first) return first.error();
    return first->is_software ? result<std::int32_t>(0) : found;
}

namespace detail {

using ferry::detail::refusal;

#if defined(_WIN32)
inline void close_handle(std::int64_t handle) noexcept { CloseHandle(reinterpret_cast<HANDLE>(handle)); }
constexpr bool driver_takes_handle = false;
#else
inline void close_handle(std::int64_t handle) noexcept { ::close(static_cast<int>(handle)); }
constexpr bool driver_takes_handle = true;
#endif

// What Vulkan could not export: the status is FERRY_ERROR_NOT_SHAREABLE, and the value is the VkResult.
inline status not_exported(VkResult result) noexcept {
    return refusal(FERRY_ERROR_NOT_SHAREABLE, FERRY_FIELD_OS_HANDLE, 0, static_cast<std::uint64_t>(result),
                   FERRY_SIDE_OPTIONS);
}

template <class Imported, class Description>
result<Imported> open(const instance &ferry, const Description &description) noexcept {
    auto imported = Imported::open(ferry, description);
    if (!imported || !driver_takes_handle) close_handle(description.handle);
    return imported;
}

} // namespace detail

// Imports memory. `size` is VkMemoryAllocateInfo.allocationSize. `is_dedicated`: it was allocated with
// VkMemoryDedicatedAllocateInfo, which some images need (VkMemoryDedicatedRequirements).
inline result<external_memory> import(const instance &ferry, std::int32_t device, VkDevice vk_device,
                                      VkDeviceMemory memory, VkDeviceSize size, bool is_dedicated = false) noexcept {
    ferry_external_memory_desc description = {};
    description.device = device;
    description.flags = is_dedicated ? FERRY_EXTERNAL_DEDICATED : 0;
    description.size = size;
#if defined(_WIN32)
    const auto get =
        reinterpret_cast<PFN_vkGetMemoryWin32HandleKHR>(vkGetDeviceProcAddr(vk_device, "vkGetMemoryWin32HandleKHR"));
    VkMemoryGetWin32HandleInfoKHR info = {};
    info.sType = VK_STRUCTURE_TYPE_MEMORY_GET_WIN32_HANDLE_INFO_KHR;
    HANDLE handle = nullptr;
    description.handle_type = FERRY_EXTERNAL_OPAQUE_WIN32;
#else
    const auto get = reinterpret_cast<PFN_vkGetMemoryFdKHR>(vkGetDeviceProcAddr(vk_device, "vkGetMemoryFdKHR"));
    VkMemoryGetFdInfoKHR info = {};
    info.sType = VK_STRUCTURE_TYPE_MEMORY_GET_FD_INFO_KHR;
    int handle = -1;
    description.handle_type = FERRY_EXTERNAL_OPAQUE_FD;
#endif
    info.memory = memory;
    info.handleType = memory_handle_type;
    const VkResult exported = get ? get(vk_device, &info, &handle) : VK_ERROR_EXTENSION_NOT_PRESENT;
    if (exported != VK_SUCCESS) return detail::not_exported(exported);
    description.handle = (std::int64_t)handle; // an int or a pointer
    return detail::open<external_memory>(ferry, description);
}

// Imports a semaphore. `is_timeline`: its VkSemaphoreType is VK_SEMAPHORE_TYPE_TIMELINE.
inline result<external_semaphore> import(const instance &ferry, std::int32_t device, VkDevice vk_device,
                                         VkSemaphore semaphore, bool is_timeline) noexcept {
    ferry_external_semaphore_desc description = {};
    description.device = device;
#if defined(_WIN32)
    const auto get = reinterpret_cast<PFN_vkGetSemaphoreWin32HandleKHR>(
        vkGetDeviceProcAddr(vk_device, "vkGetSemaphoreWin32HandleKHR"));
    VkSemaphoreGetWin32HandleInfoKHR info = {};
    info.sType = VK_STRUCTURE_TYPE_SEMAPHORE_GET_WIN32_HANDLE_INFO_KHR;
    HANDLE handle = nullptr;
    description.handle_type = is_timeline ? FERRY_SEMAPHORE_TIMELINE_WIN32 : FERRY_SEMAPHORE_OPAQUE_WIN32;
#else
    const auto get = reinterpret_cast<PFN_vkGetSemaphoreFdKHR>(vkGetDeviceProcAddr(vk_device, "vkGetSemaphoreFdKHR"));
    VkSemaphoreGetFdInfoKHR info = {};
    info.sType = VK_STRUCTURE_TYPE_SEMAPHORE_GET_FD_INFO_KHR;
    int handle = -1;
    description.handle_type = is_timeline ? FERRY_SEMAPHORE_TIMELINE_FD : FERRY_SEMAPHORE_OPAQUE_FD;
#endif
    info.semaphore = semaphore;
    info.handleType = semaphore_handle_type;
    const VkResult exported = get ? get(vk_device, &info, &handle) : VK_ERROR_EXTENSION_NOT_PRESENT;
    if (exported != VK_SUCCESS) return detail::not_exported(exported);
    description.handle = (std::int64_t)handle; // an int or a pointer
    return detail::open<external_semaphore>(ferry, description);
}

template <class... Arguments>
void import(const instance &&, Arguments &&...) = delete; // the instance would be closed before what is imported

namespace detail {

struct twin {
    VkFormat vulkan;
    std::int32_t format;
    std::uint32_t channels;
};

// Copies move bits, so a format's twin has texels of the same size, and where the driver has it, the same channels. A
// packed format's twin is one integer. Formats of three channels have none; nor have depth and stencil, planar and
// subsampled formats, and compressed ones other than BC.
constexpr twin twins[] = {
    {VK_FORMAT_R4G4_UNORM_PACK8, FERRY_FORMAT_UINT8, 1},
    {VK_FORMAT_R4G4B4A4_UNORM_PACK16, FERRY_FORMAT_UINT16, 1},
    {VK_FORMAT_B4G4R4A4_UNORM_PACK16, FERRY_FORMAT_UINT16, 1},
    {VK_FORMAT_R5G6B5_UNORM_PACK16, FERRY_FORMAT_UINT16, 1},
    {VK_FORMAT_B5G6R5_UNORM_PACK16, FERRY_FORMAT_UINT16, 1},
    {VK_FORMAT_R5G5B5A1_UNORM_PACK16, FERRY_FORMAT_UINT16, 1},
    {VK_FORMAT_B5G5R5A1_UNORM_PACK16, FERRY_FORMAT_UINT16, 1},
    {VK_FORMAT_A1R5G5B5_UNORM_PACK16, FERRY_FORMAT_UINT16, 1},
    {VK_FORMAT_R8_UNORM, FERRY_FORMAT_UINT8, 1},
    {VK_FORMAT_R8_SNORM, FERRY_FORMAT_SINT8, 1},
    {VK_FORMAT_R8_USCALED, FERRY_FORMAT_UINT8, 1},
    {VK_FORMAT_R8_SSCALED, FERRY_FORMAT_SINT8, 1},
    {VK_FORMAT_R8_UINT, FERRY_FORMAT_UINT8, 1},
    {VK_FORMAT_R8_SINT, FERRY_FORMAT_SINT8, 1},
    {VK_FORMAT_R8_SRGB, FERRY_FORMAT_UINT8, 1},
    {VK_FORMAT_R8G8_UNORM, FERRY_FORMAT_UINT8, 2},
    {VK_FORMAT_R8G8_SNORM, FERRY_FORMAT_SINT8, 2},
    {VK_FORMAT_R8G8_USCALED, FERRY_FORMAT_UINT8, 2},
    {VK_FORMAT_R8G8_SSCALED, FERRY_FORMAT_SINT8, 2},
    {VK_FORMAT_R8G8_UINT, FERRY_FORMAT_UINT8, 2},
    {VK_FORMAT_R8G8_SINT, FERRY_FORMAT_SINT8, 2},
    {VK_FORMAT_R8G8_SRGB, FERRY_FORMAT_UINT8, 2},
    {VK_FORMAT_R8G8B8A8_UNORM, FERRY_FORMAT_UINT8, 4},
    {VK_FORMAT_R8G8B8A8_SNORM, FERRY_FORMAT_SINT8, 4},
    {VK_FORMAT_R8G8B8A8_USCALED, FERRY_FORMAT_UINT8, 4},
    {VK_FORMAT_R8G8B8A8_SSCALED, FERRY_FORMAT_SINT8, 4},
    {VK_FORMAT_R8G8B8A8_UINT, FERRY_FORMAT_UINT8, 4},
    {VK_FORMAT_R8G8B8A8_SINT, FERRY_FORMAT_SINT8, 4},
    {VK_FORMAT_R8G8B8A8_SRGB, FERRY_FORMAT_UINT8, 4},
    {VK_FORMAT_B8G8R8A8_UNORM, FERRY_FORMAT_UINT8, 4},
    {VK_FORMAT_B8G8R8A8_SNORM, FERRY_FORMAT_SINT8, 4},
    {VK_FORMAT_B8G8R8A8_USCALED, FERRY_FORMAT_UINT8, 4},
    {VK_FORMAT_B8G8R8A8_SSCALED, FERRY_FORMAT_SINT8, 4},
    {VK_FORMAT_B8G8R8A8_UINT, FERRY_FORMAT_UINT8, 4},
    {VK_FORMAT_B8G8R8A8_SINT, FERRY_FORMAT_SINT8, 4},
    {VK_FORMAT_B8G8R8A8_SRGB, FERRY_FORMAT_UINT8, 4},
    {VK_FORMAT_A8B8G8R8_UNORM_PACK32, FERRY_FORMAT_UINT8, 4},
    {VK_FORMAT_A8B8G8R8_SNORM_PACK32, FERRY_FORMAT_SINT8, 4},
    {VK_FORMAT_A8B8G8R8_USCALED_PACK32, FERRY_FORMAT_UINT8, 4},
    {VK_FORMAT_A8B8G8R8_SSCALED_PACK32, FERRY_FORMAT_SINT8, 4},
    {VK_FORMAT_A8B8G8R8_UINT_PACK32, FERRY_FORMAT_UINT8, 4},
    {VK_FORMAT_A8B8G8R8_SINT_PACK32, FERRY_FORMAT_SINT8, 4},
    {VK_FORMAT_A8B8G8R8_SRGB_PACK32, FERRY_FORMAT_UINT8, 4},
    {VK_FORMAT_A2R10G10B10_UNORM_PACK32, FERRY_FORMAT_UINT32, 1},
    {VK_FORMAT_A2R10G10B10_SNORM_PACK32, FERRY_FORMAT_UINT32, 1},
    {VK_FORMAT_A2R10G10B10_USCALED_PACK32, FERRY_FORMAT_UINT32, 1},
    {VK_FORMAT_A2R10G10B10_SSCALED_PACK32, FERRY_FORMAT_UINT32, 1},
    {VK_FORMAT_A2R10G10B10_UINT_PACK32, FERRY_FORMAT_UINT32, 1},
    {VK_FORMAT_A2R10G10B10_SINT_PACK32, FERRY_FORMAT_UINT32, 1},
    {VK_FORMAT_A2B10G10R10_UNORM_PACK32, FERRY_FORMAT_UNORM_INT_101010_2, 4},
    {VK_FORMAT_A2B10G10R10_SNORM_PACK32, FERRY_FORMAT_UINT32, 1},
    {VK_FORMAT_A2B10G10R10_USCALED_PACK32, FERRY_FORMAT_UINT32, 1},
    {VK_FORMAT_A2B10G10R10_SSCALED_PACK32, FERRY_FORMAT_UINT32, 1},
    {VK_FORMAT_A2B10G10R10_UINT_PACK32, FERRY_FORMAT_UINT32, 1},
    {VK_FORMAT_A2B10G10R10_SINT_PACK32, FERRY_FORMAT_UINT32, 1},
    {VK_FORMAT_R16_UNORM, FERRY_FORMAT_UINT16, 1},
    {VK_FORMAT_R16_SNORM, FERRY_FORMAT_SINT16, 1},
    {VK_FORMAT_R16_USCALED, FERRY_FORMAT_UINT16, 1},
    {VK_FORMAT_R16_SSCALED, FERRY_FORMAT_SINT16, 1},
    {VK_FORMAT_R16_UINT, FERRY_FORMAT_UINT16, 1},
    {VK_FORMAT_R16_SINT, FERRY_FORMAT_SINT16, 1},
    {VK_FORMAT_R16_SFLOAT, FERRY_FORMAT_HALF, 1},
    {VK_FORMAT_R16G16_UNORM, FERRY_FORMAT_UINT16, 2},
    {VK_FORMAT_R16G16_SNORM, FERRY_FORMAT_SINT16, 2},
    {VK_FORMAT_R16G16_USCALED, FERRY_FORMAT_UINT16, 2},
    {VK_FORMAT_R16G16_SSCALED, FERRY_FORMAT_SINT16, 2},
    {VK_FORMAT_R16G16_UINT, FERRY_FORMAT_UINT16, 2},
    {VK_FORMAT_R16G16_SINT, FERRY_FORMAT_SINT16, 2},
    {VK_FORMAT_R16G16_SFLOAT, FERRY_FORMAT_HALF, 2},
    {VK_FORMAT_R16G16B16A16_UNORM, FERRY_FORMAT_UINT16, 4},
    {VK_FORMAT_R16G16B16A16_SNORM, FERRY_FORMAT_SINT16, 4},
    {VK_FORMAT_R16G16B16A16_USCALED, FERRY_FORMAT_UINT16, 4},
    {VK_FORMAT_R16G16B16A16_SSCALED, FERRY_FORMAT_SINT16, 4},
    {VK_FORMAT_R16G16B16A16_UINT, FERRY_FORMAT_UINT16, 4},
    {VK_FORMAT_R16G16B16A16_SINT, FERRY_FORMAT_SINT16, 4},
    {VK_FORMAT_R16G16B16A16_SFLOAT, FERRY_FORMAT_HALF, 4},
    {VK_FORMAT_R32_UINT, FERRY_FORMAT_UINT32, 1},
    {VK_FORMAT_R32_SINT, FERRY_FORMAT_SINT32, 1},
    {VK_FORMAT_R32_SFLOAT, FERRY_FORMAT_FLOAT, 1},
    {VK_FORMAT_R32G32_UINT, FERRY_FORMAT_UINT32, 2},
    {VK_FORMAT_R32G32_SINT, FERRY_FORMAT_SINT32, 2},
    {VK_FORMAT_R32G32_SFLOAT, FERRY_FORMAT_FLOAT, 2},
    {VK_FORMAT_R32G32B32A32_UINT, FERRY_FORMAT_UINT32, 4},
    {VK_FORMAT_R32G32B32A32_SINT, FERRY_FORMAT_SINT32, 4},
    {VK_FORMAT_R32G32B32A32_SFLOAT, FERRY_FORMAT_FLOAT, 4},
    {VK_FORMAT_R64_UINT, FERRY_FORMAT_UINT32, 2},
    {VK_FORMAT_R64_SINT, FERRY_FORMAT_UINT32, 2},
    {VK_FORMAT_R64_SFLOAT, FERRY_FORMAT_UINT32, 2},
    {VK_FORMAT_R64G64_UINT, FERRY_FORMAT_UINT32, 4},
    {VK_FORMAT_R64G64_SINT, FERRY_FORMAT_UINT32, 4},
    {VK_FORMAT_R64G64_SFLOAT, FERRY_FORMAT_UINT32, 4},
    {VK_FORMAT_B10G11R11_UFLOAT_PACK32, FERRY_FORMAT_UINT32, 1},
    {VK_FORMAT_E5B9G9R9_UFLOAT_PACK32, FERRY_FORMAT_UINT32, 1},
    {VK_FORMAT_BC1_RGB_UNORM_BLOCK, FERRY_FORMAT_BC1_UNORM, 4},
    {VK_FORMAT_BC1_RGB_SRGB_BLOCK, FERRY_FORMAT_BC1_UNORM_SRGB, 4},
    {VK_FORMAT_BC1_RGBA_UNORM_BLOCK, FERRY_FORMAT_BC1_UNORM, 4},
    {VK_FORMAT_BC1_RGBA_SRGB_BLOCK, FERRY_FORMAT_BC1_UNORM_SRGB, 4},
    {VK_FORMAT_BC2_UNORM_BLOCK, FERRY_FORMAT_BC2_UNORM, 4},
    {VK_FORMAT_BC2_SRGB_BLOCK, FERRY_FORMAT_BC2_UNORM_SRGB, 4},
    {VK_FORMAT_BC3_UNORM_BLOCK, FERRY_FORMAT_BC3_UNORM, 4},
    {VK_FORMAT_BC3_SRGB_BLOCK, FERRY_FORMAT_BC3_UNORM_SRGB, 4},
    {VK_FORMAT_BC4_UNORM_BLOCK, FERRY_FORMAT_BC4_UNORM, 1},
    {VK_FORMAT_BC4_SNORM_BLOCK, FERRY_FORMAT_BC4_SNORM, 1},
    {VK_FORMAT_BC5_UNORM_BLOCK, FERRY_FORMAT_BC5_UNORM, 2},
    {VK_FORMAT_BC5_SNORM_BLOCK, FERRY_FORMAT_BC5_SNORM, 2},
    {VK_FORMAT_BC6H_UFLOAT_BLOCK, FERRY_FORMAT_BC6H_UF16, 3},
    {VK_FORMAT_BC6H_SFLOAT_BLOCK, FERRY_FORMAT_BC6H_SF16, 3},
    {VK_FORMAT_BC7_UNORM_BLOCK, FERRY_FORMAT_BC7_UNORM, 4},
    {VK_FORMAT_BC7_SRGB_BLOCK, FERRY_FORMAT_BC7_UNORM_SRGB, 4},
    {VK_FORMAT_R10X6_UNORM_PACK16, FERRY_FORMAT_UINT16, 1},
    {VK_FORMAT_R10X6G10X6_UNORM_2PACK16, FERRY_FORMAT_UINT16, 2},
    {VK_FORMAT_R10X6G10X6B10X6A10X6_UNORM_4PACK16, FERRY_FORMAT_UINT16, 4},
    {VK_FORMAT_R12X4_UNORM_PACK16, FERRY_FORMAT_UINT16, 1},
    {VK_FORMAT_R12X4G12X4_UNORM_2PACK16, FERRY_FORMAT_UINT16, 2},
    {VK_FORMAT_R12X4G12X4B12X4A12X4_UNORM_4PACK16, FERRY_FORMAT_UINT16, 4},
#ifdef VK_VERSION_1_3
    {VK_FORMAT_A4R4G4B4_UNORM_PACK16, FERRY_FORMAT_UINT16, 1},
    {VK_FORMAT_A4B4G4R4_UNORM_PACK16, FERRY_FORMAT_UINT16, 1},
#endif
#ifdef VK_KHR_maintenance5
    {VK_FORMAT_A1B5G5R5_UNORM_PACK16_KHR, FERRY_FORMAT_UINT16, 1},
    {VK_FORMAT_A8_UNORM_KHR, FERRY_FORMAT_UINT8, 1},
#endif
};

} // namespace detail

// Describes an image for external_memory::mipmapped and external_memory::array. FERRY_ERROR_ARRAY_FORMAT for a format
// without a twin, whose number is then the value; FERRY_ERROR_UNSUPPORTED, naming the flags, for several samples, sparse
// images and linear tiling (external_memory::line takes images of linear tiling).
inline result<ferry_array_desc> describe(const VkImageCreateInfo &image) noexcept {
    constexpr VkImageCreateFlags sparse =
        VK_IMAGE_CREATE_SPARSE_BINDING_BIT | VK_IMAGE_CREATE_SPARSE_RESIDENCY_BIT | VK_IMAGE_CREATE_SPARSE_ALIASED_BIT;
    if (image.tiling != VK_IMAGE_TILING_OPTIMAL || image.samples != VK_SAMPLE_COUNT_1_BIT || image.flags & sparse)
        return detail::refusal(FERRY_ERROR_UNSUPPORTED, FERRY_FIELD_FLAGS, 0, image.flags, FERRY_SIDE_OPTIONS);
    for (const detail::twin &one : detail::twins) {
        if (one.vulkan != image.format) continue;
        const bool is_cube = image.flags & VK_IMAGE_CREATE_CUBE_COMPATIBLE_BIT && image.arrayLayers % 6 == 0;
        array_flags flags;
        if (is_cube) flags |= array_flag::cubemap;
        if (is_cube ? image.arrayLayers > 6 : image.arrayLayers > 1) flags |= array_flag::layered;
        if (image.usage & VK_IMAGE_USAGE_STORAGE_BIT) flags |= array_flag::surface;
        if (image.usage & VK_IMAGE_USAGE_COLOR_ATTACHMENT_BIT) flags |= array_flag::color_attachment;
        const bool has_layers = flags.has(array_flag::layered) || is_cube;
        return array_desc(one.format, one.channels, image.extent.width,
                          image.imageType == VK_IMAGE_TYPE_1D ? 0 : image.extent.height,
                          has_layers                            ? image.arrayLayers
                          : image.imageType == VK_IMAGE_TYPE_3D ? image.extent.depth
                                                                : 0,
                          flags);
    }
    return detail::refusal(FERRY_ERROR_ARRAY_FORMAT, FERRY_FIELD_FORMAT, 0, static_cast<std::uint64_t>(image.format),
                           FERRY_SIDE_OPTIONS);
}

} // namespace vulkan
} // namespace v0_7
} // namespace ferry

#endif
