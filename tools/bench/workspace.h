// The buffers that all rows of a run share, the data in them, and the driver's own copies between them.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "environment.h"
#include "measure.h"

namespace bench {

enum class memory { pageable, pinned, device };
const char *name_of(memory kind);

struct buffer {
    memory kind;
    std::uint64_t address;

    bool is_device() const { return kind == memory::device; }
    std::byte *host() const { return reinterpret_cast<std::byte *>(address); }
};

// The data has no zero byte, and a cleared destination has no other: a byte that was not copied is always found, and so
// is one written past the end.
class workspace {
public:
    workspace(const environment &environment, std::size_t largest);

    // Puts the first `size` bytes of the data into a buffer.
    void load(const buffer &to, std::size_t size);
    // Sets the first `size` bytes of a buffer and some beyond to zero.
    void clear(const buffer &in, std::size_t size);
    // Throws if the buffer does not hold the data and nothing past it; `who` copied it.
    void verify(const buffer &in, std::size_t size, const char *who);

    const std::size_t largest;

private:
    const environment &environment_;
    const std::unique_ptr<std::byte[]> data_, pageable_memory_;
    const owned<void *> pinned_memory_, bounce_memory_;
    const owned<CUdeviceptr> source_memory_, destination_memory_;

public:
    const buffer pageable, pinned, device_source, device_destination;
};

// One direction of copying, and the two buffers it goes between.
struct direction {
    const char *name;
    buffer source, destination;

    // What kind of memory a reader asks about: the host's, or the device's where no host is in it.
    memory kind() const { return source.is_device() ? destination.kind : source.kind; }
};
std::vector<direction> pinned_directions(const workspace &workspace);
std::vector<direction> pageable_directions(const workspace &workspace);

ferry_copy_desc describe(const direction &direction, std::size_t size, int device);

// Enqueues the driver's one-dimensional copy, as a user of the raw driver would.
void raw_copy_async(const environment &environment, const direction &direction, std::size_t size);
// The same, blocking: returns when the bytes are there.
void raw_copy(const environment &environment, const direction &direction, std::size_t size);
void ferry_copy_async_checked(ferry_instance *ferry, const ferry_copy_desc &copy, CUstream stream);
// Waits for the environment's stream.
void drain(const environment &environment);

// For each contender: poisons the destination, runs it, compares every byte. Throws if one differs.
void verify_each(workspace &workspace, const direction &direction, std::size_t size,
                 std::span<const contender> contenders);

// The most this machine moves, in bytes a nanosecond (GB/s): the best of the driver's own copies of 64 MiB and more
// from or to pinned memory and on the device, or of the largest size there is.
struct ceiling {
    const char *direction;
    double bandwidth;
};
std::vector<ceiling> measure_ceilings(const environment &environment, workspace &workspace);
double ceiling_of(const direction &direction, const std::vector<ceiling> &ceilings);

} // namespace bench
