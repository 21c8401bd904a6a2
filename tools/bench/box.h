// Copies of boxes: where the bytes lie, ferry's descriptor of a copy, and the driver's calls that make the same copy.
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
    std::uint64_t address = 0; // of an array: none
    CUarray array = nullptr;
    int device = -1; // host memory: none, and no context
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

// One end of a copy. The frame is all of an array, and of linear memory its row pitch, slice height and slices; the box
// begins x bytes, y rows and z slices into it.
struct place {
    bench::buffer buffer;
    extent frame;
    std::size_t x = 0, y = 0, z = 0;

    // Where a row of the box begins in the frame, in bytes.
    std::size_t row(std::size_t in_slice, std::size_t slice) const {
        return ((z + slice) * frame.height + y + in_slice) * frame.width + x;
    }
};

struct box {
    place source, destination;
    extent size;

    bool is_between_devices() const;
};

// A place in linear memory with bytes between its rows and rows between its slices.
place padded(const buffer &buffer, const extent &size, std::size_t row_padding, std::size_t slice_padding);

struct array {
    owned<CUarray> handle;
    bench::place place; // all of it
};
// An array on the device of the context that is current. `size` is in bytes as everywhere; a size of one row makes it
// one-dimensional, one of several in one slice two-dimensional. `element_size` is 1, 2, 4, 8 or 16.
array make_array(const environment &environment, const buffer &where, const extent &size, std::size_t element_size);
// One that ferry makes, whose kernels can read it.
array make_ferry_array(const environment &environment, const buffer &where, const extent &size,
                       std::size_t element_size);

CUDA_MEMCPY3D lower(const box &box);
ferry_copy_desc describe(const box &box);

// Waits for the environment's stream.
void drain(const environment &environment);
void ferry_copy_async_checked(ferry_instance *ferry, const ferry_copy_desc &copy, CUstream stream);

// Every one of the driver's calls that makes this copy, until the bytes are there. Those that the driver refuses for it
// are left out, which takes a try: both ends must be there.
std::vector<contender> raw_contenders(const environment &environment, const box &box);
// ferry_copy_async, until the bytes are there. `flags`: FERRY_COPY_*.
contender ferry_contender(const environment &environment, const box &box, std::uint32_t flags = 0);
// What ferry_copy_async would do on the environment's stream; nothing if the route that its flags force cannot serve.
std::optional<ferry_explanation> explain(const environment &environment, const ferry_copy_desc &copy);
const char *name_of_route(std::int32_t route);

} // namespace bench
