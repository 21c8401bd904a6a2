// What a calibration measures with: a stream, memory of each kind, and copies between them.
#pragma once

#include "calibrate/calibrate.h"
#include "calibrate/stopwatch.h"
#include "copy/shape.h"

namespace ferry {

// No buffer of pinned memory is smaller.
inline constexpr std::uint64_t min_host_bytes = 8 * MiB;

// The array from which reads are measured: elements of 4 bytes, the side of a slice, and the bytes of a slice.
inline constexpr std::uint64_t array_side = 256, array_element = 4;
inline constexpr std::uint64_t array_slice = array_side * array_side * array_element;

// Both ends of a copy: where each begins, its kind of memory, and whether its rows have gaps.
struct copy_ends {
    memory_kind source_kind, destination_kind;
    std::uint64_t source, destination;
    bool source_gaps, destination_gaps;
};

shape shape_of(const copy_ends &ends, std::uint64_t width, std::uint64_t rows) noexcept;

// Halves `size` down to an eighth of the memory that is free on the current context's device, but not below `min_size`:
// others may allocate at the same time.
error leave_room(const driver_table &cu, std::uint64_t &size, std::uint64_t min_size) noexcept;

// Allocates `size`, or half of it, and so on down to `min_size`, while memory is short.
template <class Allocate>
error allocate_shrinking(std::uint64_t &size, std::uint64_t min_size, const Allocate &allocate) noexcept {
    for (;; size /= 2) {
        const CUresult result = allocate(size);
        if (result != CUDA_ERROR_OUT_OF_MEMORY || size / 2 < min_size) return to_error(result);
    }
}

class calibration_workspace {
public:
    calibration_workspace(const driver_table &table, const calibration_options &options) noexcept
        : cu(table), options(options), watch(table) {}
    ~calibration_workspace();
    calibration_workspace(const calibration_workspace &) = delete;
    calibration_workspace &operator=(const calibration_workspace &) = delete;

    // Allocates everything, in the current context.
    error prepare() noexcept;

    // Both ends of a line of memory, and the bytes that fit there.
    copy_ends ends_of(copy_direction direction) const noexcept;
    std::uint64_t room_of(copy_direction direction) const noexcept;
    // Pinned memory may have another address on the device than on the host.
    std::uint64_t to_device(const shape_end &end) const noexcept;

    error copy_by_driver(const shape &shape) noexcept;
    error copy_by_kernel(const shape &shape, unsigned blocks) noexcept;

    const driver_table &cu;
    const calibration_options &options;
    stopwatch watch;
    bool has_kernels = false;
    CUstream stream = nullptr;
    CUdeviceptr device[2] = {};
    std::uint64_t device_bytes = 0; // of each of the two
    void *pinned = nullptr;
    std::uint64_t host_bytes = 0;       // of pinned memory
    std::uint64_t pinned_on_device = 0; // the address of pinned memory on the device
    void *pageable = nullptr;
    static constexpr std::uint64_t pageable_bytes = 32 * MiB; // more than caches hold
    CUarray array = nullptr;
    CUsurfObject surface = 0; // of the array, if kernels can read it

private:
    error allocate_memory() noexcept;
    error create_array(bool is_surface) noexcept;
};

} // namespace ferry
