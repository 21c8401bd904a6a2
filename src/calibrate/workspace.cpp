#include "calibrate/workspace.h"

#include <algorithm>
#include <cstring>

#include "exec/driver_copy.h"
#include "exec/kernel_launch.h"
#include "memory/address.h"

namespace ferry {

namespace {

// Large enough that the bytes of a copy do not stay in a cache of the device. A buffer is twice the size of a copy,
// which leaves space for the gaps.
constexpr std::uint64_t max_device_bytes = 256 * MiB, min_device_bytes = 8 * MiB;
constexpr std::uint64_t max_host_bytes = 64 * MiB;

} // namespace

error leave_room(const driver_table &cu, std::uint64_t &size, std::uint64_t min_size) noexcept {
    if (!cu.cuMemGetInfo) return {};
    std::size_t free_bytes = 0, total = 0;
    if (call_result result = cu.cuMemGetInfo(&free_bytes, &total)) return to_error(result);
    while (size > min_size && size > free_bytes / 8)
        size /= 2;
    return {};
}

calibration_workspace::~calibration_workspace() {
    if (stream) cu.cuStreamSynchronize(stream); // a copy may still be in flight after another copy failed
    if (surface) cu.cuSurfObjectDestroy(surface);
    if (array) cu.cuArrayDestroy(array);
    for (const CUdeviceptr memory : device)
        if (memory) cu.cuMemFree(memory);
    if (pinned) cu.cuMemFreeHost(pinned);
    if (pageable) options.memory.deallocate(pageable, pageable_bytes);
    if (stream) cu.cuStreamDestroy(stream);
}

error calibration_workspace::prepare() noexcept {
    if (!cu.cuStreamCreateWithPriority || !cu.cuStreamDestroy) return {.status = FERRY_ERROR_UNSUPPORTED};
    if (call_result result = cu.cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0)) return to_error(result);
    if (error failed = allocate_memory()) return failed;
    return create_array(has_kernels && cu.cuSurfObjectCreate && cu.cuSurfObjectDestroy);
}

error calibration_workspace::allocate_memory() noexcept {
    device_bytes = max_device_bytes;
    if (error failed = leave_room(cu, device_bytes, min_device_bytes)) return failed;
    const auto allocate_two = [&](std::uint64_t size) noexcept -> call_result {
        for (CUdeviceptr &memory : device)
            if (call_result result = cu.cuMemAlloc(&memory, size)) {
                memory = 0;
                if (device[0]) cu.cuMemFree(device[0]);
                device[0] = 0;
                return result;
            }
        return {};
    };
    if (error failed = allocate_shrinking(device_bytes, min_device_bytes, allocate_two)) return failed;
    host_bytes = max_host_bytes;
    const auto allocate_host = [&](std::uint64_t size) noexcept {
        const call_result result = cu.cuMemHostAlloc(&pinned, size, 0);
        if (result) pinned = nullptr;
        return result;
    };
    if (error failed = allocate_shrinking(host_bytes, min_host_bytes, allocate_host)) return failed;
    address_facts facts;
    if (error failed = look_up_address(cu, reinterpret_cast<std::uintptr_t>(pinned), address_query::everything, facts))
        return failed;
    pinned_on_device = facts.device_address;
    has_kernels = has_kernels && pinned_on_device;
    pageable = options.memory.allocate(pageable_bytes, alignof(std::max_align_t));
    if (!pageable) return no_memory;
    std::memset(pageable, 1, pageable_bytes);
    return {};
}

error calibration_workspace::create_array(bool is_surface) noexcept {
    CUDA_ARRAY3D_DESCRIPTOR description = {};
    description.Width = description.Height = array_side;
    description.Depth = std::min<std::uint64_t>(device_bytes / array_slice, array_side);
    description.Format = CU_AD_FORMAT_FLOAT;
    description.NumChannels = 1;
    if (is_surface) description.Flags = CUDA_ARRAY3D_SURFACE_LDST;
    if (call_result result = cu.cuArray3DCreate(&array, &description)) {
        array = nullptr;
        return to_error(result);
    }
    if (!is_surface) return {};
    CUDA_RESOURCE_DESC resource = {};
    resource.resType = CU_RESOURCE_TYPE_ARRAY;
    resource.res.array.hArray = array;
    const call_result result = cu.cuSurfObjectCreate(&surface, &resource);
    if (result) surface = 0;
    return to_error(result);
}

// ---- Copies

shape shape_of(const copy_ends &ends, std::uint64_t width, std::uint64_t rows) noexcept {
    shape shape = {};
    shape.width = width;
    shape.height = rows;
    shape.depth = 1;
    const auto fill = [&](shape_end &end, memory_kind kind, std::uint64_t address, bool has_gaps) noexcept {
        end.kind = kind;
        end.device = -1;
        end.row_pitch = has_gaps ? 2 * width : width;
        end.slice_height = rows;
        end.span = {address, address + (rows - 1) * end.row_pitch + width - 1};
    };
    fill(shape.source, ends.source_kind, ends.source, ends.source_gaps);
    fill(shape.destination, ends.destination_kind, ends.destination, ends.destination_gaps);
    return shape;
}

copy_ends calibration_workspace::ends_of(copy_direction direction) const noexcept {
    const auto host = reinterpret_cast<std::uintptr_t>(pinned);
    switch (direction) {
    case copy_direction::host_to_device:
        return {memory_kind::pinned, memory_kind::device, host, device[0], false, false};
    case copy_direction::device_to_host:
        return {memory_kind::device, memory_kind::pinned, device[0], host, false, false};
    default:
        return {memory_kind::device, memory_kind::device, device[0], device[1], false, false};
    }
}

std::uint64_t calibration_workspace::room_of(copy_direction direction) const noexcept {
    return direction == copy_direction::within_device ? device_bytes : std::min(device_bytes, host_bytes);
}

error calibration_workspace::copy_by_driver(const shape &shape) noexcept {
    return run_driver_route(cu, shape, {}, copy_form::asynchronous, {}, stream);
}

error calibration_workspace::copy_by_kernel(const shape &shape, unsigned blocks) noexcept {
    const kernel_box box = box_of(shape, to_device(shape.destination), to_device(shape.source));
    return launch_strided(cu, *options.kernels, box, blocks, stream);
}

std::uint64_t calibration_workspace::to_device(const shape_end &end) const noexcept {
    const auto host = reinterpret_cast<std::uintptr_t>(pinned);
    return end.kind == memory_kind::pinned ? pinned_on_device + (end.span.first - host) : end.span.first;
}

} // namespace ferry
