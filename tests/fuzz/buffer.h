// Memory of every kind that can be an end of a copy, created by ferry's own calls, and files. Each buffer has a model in
// plain memory: the bytes that the buffer will contain once all enqueued work has run.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "ferry/ferry_ipc.h"
#include "support/dice.h"
#include "support/ferry_array.h"
#include "support/system.h"
#include "support/temporary_file.h"

namespace ferry::test {

enum class memory_kind {
    heap,
    mapped,
    registered_in_part,
    registered,
    host_alloc,
    pinned_pool,
    host_pool,
    host_pool_with_access,
    host_pool_of_one_device,
    device,
    device_pitched,
    stream_ordered,
    device_pool,
    managed,
    imported,
    array,
    array_without_surface,
    file
};

struct memory_traits {
    memory_kind kind;
    const char *name;
    bool is_on_host; // the CPU can read and write it
    bool is_pageable;
    bool is_fillable;
    std::int32_t place; // the FERRY_KIND_* constant that describes it
};
inline constexpr memory_traits all_memory[] = {
    {memory_kind::heap, "heap", true, true, false, FERRY_KIND_HOST},
    {memory_kind::mapped, "mapped", true, true, false, FERRY_KIND_HOST},
    {memory_kind::registered_in_part, "registered in part", true, true, false, FERRY_KIND_HOST},
    {memory_kind::registered, "registered", true, false, true, FERRY_KIND_HOST},
    {memory_kind::host_alloc, "ferry_host_alloc", true, false, true, FERRY_KIND_HOST},
    {memory_kind::pinned_pool, "pinned pool", true, false, true, FERRY_KIND_HOST},
    {memory_kind::host_pool, "host pool without access", true, true, false, FERRY_KIND_HOST},
    {memory_kind::host_pool_with_access, "host pool with access", true, false, true, FERRY_KIND_HOST},
    // Pageable for the other device. Could be filled only on streams of this device, so it is never filled here.
    {memory_kind::host_pool_of_one_device, "host pool of one device", true, true, false, FERRY_KIND_HOST},
    {memory_kind::device, "device", false, false, true, FERRY_KIND_DEVICE},
    {memory_kind::device_pitched, "pitched", false, false, true, FERRY_KIND_DEVICE},
    {memory_kind::stream_ordered, "stream-ordered", false, false, true, FERRY_KIND_DEVICE},
    {memory_kind::device_pool, "device pool", false, false, true, FERRY_KIND_DEVICE},
    {memory_kind::managed, "managed", false, false, true, FERRY_KIND_DEVICE},
    {memory_kind::imported, "imported", false, false, true, FERRY_KIND_DEVICE},
    {memory_kind::array, "array", false, false, false, FERRY_KIND_ARRAY},
    {memory_kind::array_without_surface, "array without a surface", false, false, false, FERRY_KIND_ARRAY},
    {memory_kind::file, "file", false, false, false, FERRY_KIND_FILE}, // an end of batches with files only
};
constexpr const memory_traits &traits_of(memory_kind kind) { return all_memory[static_cast<std::size_t>(kind)]; }

// The size of the device memory that another process exports.
inline constexpr std::uint64_t lent_bytes = 96 << 10;

// The sources of the buffers in one world. Null if the driver does not have the source.
struct buffer_sources {
    ferry_instance *ferry = nullptr;
    ferry_pinned_pool *pinned = nullptr;
    CUmemPoolHandle_st *host_pool = nullptr, *host_pool_with_access = nullptr, *host_pools_of_one[2] = {},
                       *device_pools[2] = {};
    const ferry_ipc_handle *lent = nullptr;
    bool opens_files = true;
    bool has(memory_kind kind, int device) const;
};

class buffer {
public:
    buffer(const buffer_sources &from, memory_kind kind, int device, std::uint64_t size, std::uint32_t number,
           dice &random);
    ~buffer();
    buffer(const buffer &) = delete;

    const memory_traits &traits() const { return traits_of(kind); }
    bool is_array() const { return made_array_.has_value(); }
    ferry_file *file() const { return file_; } // null for memory
    const temporary_file &on_disk() const { return *on_disk_; }
    ferry_array *array() { return made_array_ ? &*made_array_ : nullptr; }
    std::uint64_t size() const { return model.size(); }
    // Whether a copy in a context of `context_device` may treat some of the memory as pinned, or gives the guarantees
    // for pageable memory. `other` is the other end of the copy.
    bool may_be_pinned() const;
    bool is_pageable_beside(const buffer &other, int context_device) const;
    std::byte *bytes_on_host() const { return reinterpret_cast<std::byte *>(address); }
    std::string name() const;

    // Only for memory that is registered in part. The buffer must not be in use.
    void register_part(dice &random);
    void unregister_parts();
    // Only for stream-ordered memory: frees the memory and allocates it again on `stream`, with undefined bytes.
    void reallocate(CUstream_st *stream);

    const memory_kind kind;
    const int device;
    const std::uint32_t number;
    std::uint64_t address = 0;
    bytes model;
    std::uint32_t element_size = 1;
    // Bit masks of the lanes that have work on this buffer which was not waited for.
    std::uint32_t readers = 0, writers = 0;

private:
    void allocate(std::uint64_t size);
    void make_array(dice &random);
    void make_file(dice &random);

    const buffer_sources &from_;
    std::optional<mapped_memory> mapped_;
    std::optional<ferry_array> made_array_;
    std::vector<void *> registered_;
    std::optional<temporary_file> on_disk_;
    ferry_file *file_ = nullptr;
};

// Reads and writes whole buffers only through driver calls, on its own streams, which wait for nothing, and files through
// the system. So the witness
// sees the same bytes as any other stream or thread would see at that moment.
class witness {
public:
    witness();
    ~witness();
    // The first difference between the buffer and the model, and a description.
    struct difference {
        std::uint64_t at;
        std::string words;
    };
    std::optional<difference> first_difference(const buffer &one);
    bytes read(const buffer &one);
    void write_model(buffer &one);

private:
    std::byte *fetch(const buffer &one);
    void transfer(const buffer &one, bool to_buffer);
    std::byte *room_for(std::uint64_t size);

    CUcontext contexts_[2] = {};
    CUstream streams_[2] = {};
    std::optional<pinned_memory> room_;
    bytes of_file_;
};

} // namespace ferry::test
