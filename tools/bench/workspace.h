// The buffers that all rows of a run share, their data, and the driver's own contiguous copies between them.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "box.h"
#include "environment.h"
#include "measure.h"

namespace bench {

// Bytes past the end of linear memory that a copy must not change.
inline constexpr std::size_t guard = 64;

// The data has no zero byte, and a cleared destination has only zero bytes. So a byte that was not copied is always
// detected, and so is a byte that was written outside the box, in its frame or just past it.
class workspace {
public:
    workspace(const environment &environment, std::size_t largest);

    // Fills a place's frame with the data.
    void load(const place &to);
    // Sets a place's frame to zero, and in linear memory also the guard bytes past it.
    void clear(const place &in);
    // Throws unless the destination contains a loaded source's bytes in the box and zeros elsewhere. `who` names the
    // contender.
    void verify(const box &box, const char *who);

    const std::size_t largest; // bytes of a frame

private:
    // Fills a whole frame from tightly packed host memory.
    void put(const place &to, const std::byte *bytes);
    // Returns the whole frame and the bytes past it in host memory.
    const std::byte *get(const place &from);

    const environment &environment_;
    const std::unique_ptr<std::byte[]> data_, image_, pageable_memory_;
    const owned<void *> pinned_memory_;
    const owned<CUdeviceptr> source_memory_, destination_memory_;

public:
    const buffer pageable, pinned, device_source, device_destination;
};

// Returns the sizes that fit a frame of the workspace, or the size of the whole frame if none fits.
std::vector<std::size_t> sizes_that_fit(const workspace &workspace, std::initializer_list<std::size_t> sizes);

// Allocates space for a frame of `size` bytes and the guard bytes past it. Device memory is on the current context's
// device.
owned<void *> allocate_pinned(const environment &environment, std::size_t size);
owned<CUdeviceptr> allocate_device(const environment &environment, std::size_t size);
buffer host_buffer(memory kind, void *address);
buffer device_buffer(CUdeviceptr address, int device, CUcontext context);

// A direction of copying, with its two buffers.
struct direction {
    const char *name;
    buffer source, destination;

    // The kind of memory that the report names: the kind of the host end, or of the device if neither end is on the
    // host.
    memory kind() const { return source.is_host() ? source.kind : destination.kind; }
    std::string text() const { return std::string(name) + ' ' + name_of(kind()); }
};
std::vector<direction> pinned_directions(const workspace &workspace);
std::vector<direction> pageable_directions(const workspace &workspace);

// A copy of one contiguous piece.
box line(const direction &direction, std::size_t size);

// Enqueues the driver's one-dimensional copy, as a user of the raw driver would.
void raw_copy_async(const environment &environment, const direction &direction, std::size_t size, CUstream stream);
// Same as raw_copy_async, but blocks until the bytes have arrived.
void raw_copy(const environment &environment, const direction &direction, std::size_t size);

// For each contender, all of which perform the same copies: clears the destinations, runs it, and compares every byte.
// Throws if a byte differs.
void verify_each(workspace &workspace, std::span<const box> boxes, std::span<const contender> contenders);

// The maximum bandwidth of this machine in bytes per nanosecond (GB/s): the best driver copy of 64 MiB
// and more from or to pinned memory and on the device, or of the largest size if it is smaller.
double measure_ceiling(const environment &environment, workspace &workspace, const direction &direction);
struct ceiling {
    const char *direction;
    double bandwidth;
};
std::vector<ceiling> measure_ceilings(const environment &environment, workspace &workspace);
double ceiling_of(const char *direction, const std::vector<ceiling> &ceilings);

} // namespace bench
