// The resources of a calibration: a stream, memory of each kind, and copies between them.
#pragma once

#include "calibrate/calibrate.h"
#include "calibrate/stopwatch.h"
#include "copy/shape.h"

namespace ferry {

// The minimum size of a buffer of pinned memory.
inline constexpr std::uint64_t min_host_bytes = 8 * MiB;

// The array used to measure reads: side of a slice, size of an element, and size of a slice in bytes.
inline constexpr std::uint64_t array_side = 256, array_element = 4;
inline constexpr std::uint64_t array_slice = array_side * array_side * array_element;

// Both ends of a copy: address, kind of memory, and whether rows have gaps.
struct copy_ends {
    memory_kind source_kind, destination_kind;
    std::uint64_t source, destination;
    bool source_gaps, destination_gaps;
};

shape shape_of(const copy_ends &ends, std::uint64_t width, std::uint64_t rows) noexcept;

// Halves `size` until it is at most an eighth of the free memory on the current context's device, but not below
// `min_size`. The rest is left for other users, which may allocate at the same time.
error leave_room(const driver_table &cu, std::uint64_t &size, std::uint64_t min_size) noexcept;

// Allocates `size` bytes. While memory is short, halves the size, down to `min_size`.
template <class Allocate>
error allocate_shrinking(std::uint64_t &size, std::uint64_t min_size, const Allocate &allocate) noexcept {
    for (;; size /= 2) {
        const call_result result = allocate(size);
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

    // The ends of a contiguous copy, and the number of bytes that fit there.
    copy_ends ends_of(copy_direction direction) const noexcept;
    std::uint64_t room_of(copy_direction direction) const noexcept;
    // The device address of pinned memory may differ from its host address.
    std::uint64_t to_device(const shape_end &end) const noexcept;

    error copy_by_driver(const shape &shape) noexcept;
    error copy_by_kernel(const shape &shape, unsigned blocks) noexcept;

    const driver_table &cu;
    const calibration_options &options;
    stopwatch watch;
    bool has_kernels = false;
    CUstream stream = nullptr;
    CUdeviceptr device[2] = {};
    std::uint64_t device_bytes = 0; // of each of the two buffers
    void *pinned = nullptr;
    std::uint64_t host_bytes = 0;       // size of pinned memory
    std::uint64_t pinned_on_device = 0; // device address of pinned memory
    void *pageable = nullptr;
    static constexpr std::uint64_t pageable_bytes = 32 * MiB; // exceeds the size of caches
    CUarray array = nullptr;
    CUsurfObject surface = 0; // of the array, if kernels can read it

private:
    error allocate_memory() noexcept;
    error create_array(bool is_surface) noexcept;
};

} // namespace ferry
