// Copies of boxes: places and boxes, ferry's copy descriptor, and the driver's calls that perform the same copy.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "environment.h"
#include "measure.h"

namespace bench {

enum class memory { pageable, pinned, device, array };
const char *name_of(memory kind);

struct buffer {
    memory kind;
    std::uint64_t address = 0; // unused for an array
    CUarray array = nullptr;
    int device = -1; // unused for host memory, as is the context
    CUcontext context = nullptr;

    bool is_host() const { return kind == memory::pageable || kind == memory::pinned; }
    std::byte *host() const { return reinterpret_cast<std::byte *>(address); }
};

struct extent {
    std::size_t width; // bytes
    std::size_t height = 1, depth = 1;

    std::size_t bytes() const { return width * height * depth; }
    bool is_line() const { return height == 1 && depth == 1; }
};

// One end of a copy. The frame is the whole array, or the row pitch, slice height and number of slices of linear
// memory. The box starts x bytes, y rows and z slices into the frame.
struct place {
    bench::buffer buffer;
    extent frame;
    std::size_t x = 0, y = 0, z = 0;

    // The byte offset of a row of the box in the frame.
    std::size_t row(std::size_t in_slice, std::size_t slice) const {
        return ((z + slice) * frame.height + y + in_slice) * frame.width + x;
    }
};

struct box {
    place source, destination;
    extent size;

    bool is_between_devices() const;
};

// A place in linear memory with padding after each row, in bytes, and after each slice, in rows.
place padded(const buffer &buffer, const extent &size, std::size_t row_padding, std::size_t slice_padding);

struct array {
    owned<CUarray> handle;
    bench::place place; // the whole array
};
// Creates an array on the current context's device. `size.width` is in bytes. One row gives a 1D array, several rows in
// one slice give a 2D array. `element_size` is 1, 2, 4, 8 or 16.
array make_array(const environment &environment, const buffer &where, const extent &size, std::size_t element_size);
// Creates an array through ferry, so that ferry's kernels can read it.
array make_ferry_array(const environment &environment, const buffer &where, const extent &size,
                       std::size_t element_size);

CUDA_MEMCPY3D lower(const box &box);
ferry_copy_desc describe(const box &box);

// Waits for the environment's stream.
void drain(const environment &environment);
// The options of a copy. nullptr: the options of the instance.
using copy_options = std::optional<ferry_copy_options>;
inline const ferry_copy_options *pointer_to(const copy_options &options) { return options ? &*options : nullptr; }
copy_options with_route(std::int32_t route, std::uint32_t max_sms = 0);
copy_options with_flags(std::uint32_t flags);
copy_options with_priority(std::int32_t priority);
void ferry_copy_async_checked(ferry_instance *ferry, const ferry_copy_desc &copy, CUstream stream,
                              const copy_options &options = {});

// All driver calls that perform this copy, timed until the bytes have arrived. Omits calls that the driver rejects. To
// detect these, each call is tried, so both ends must exist.
std::vector<contender> raw_contenders(const environment &environment, const box &box);
// Same as above, on another stream, whose context must be current.
std::vector<contender> raw_contenders(const environment &environment, const box &box, CUstream stream);
// ferry_copy_async, timed until the bytes have arrived.
contender ferry_contender(const environment &environment, const box &box, const copy_options &options = {});
contender ferry_contender(const environment &environment, const box &box, const copy_options &options, CUstream stream);
// Explains what ferry_copy_async would do on the environment's stream. Returns nothing if the options force a route that
// cannot serve the copy.
std::optional<ferry_explanation> explain(const environment &environment, const ferry_copy_desc &copy,
                                         const copy_options &options = {});
const char *name_of_route(std::int32_t route);

} // namespace bench
