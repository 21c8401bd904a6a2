// The bytes of a handle: what travels from the process that exports to the one that imports.
#pragma once

#include "base/process.h"
#include "base/status.h"

namespace ferry {

constexpr std::uint32_t handle_version = 1;

// The layout of version 1, little-endian. What a kind has no use for is zero.
struct handle_contents {
    char magic[8];
    std::uint32_t version;
    std::int32_t kind;             // FERRY_IPC_*
    process_identity exporter;     // whose numbers the next ones are
    std::uint8_t device_uuid[16];  // all zero: of no device
    std::uint64_t offset;          // of memory: from the beginning of its allocation
    std::uint64_t size;            // of memory: from there on
    std::uint64_t allocation_size; // the whole of it
    std::uint64_t buffer_id;       // the driver's number for the allocation, never used twice in a process
    std::uint64_t original;        // where the exporter has it
    std::uint8_t key[16];          // of a pool, of the one that memory is from, of an event: random
    std::uint32_t handle_type;     // of a pool: FERRY_HANDLE_*
    std::int32_t location;         // of a pool: FERRY_LOCATION_*
    std::int32_t index;            // of a pool in host memory: its node
    std::uint32_t reserved0;
    std::uint8_t payload[64]; // the driver's own handle, where it fits in
    std::uint8_t reserved[40];
    std::uint64_t checksum; // over all before
};
static_assert(sizeof(handle_contents) == FERRY_IPC_HANDLE_SIZE);
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the bytes of a handle are those of the struct");

// Adds what makes it a handle.
void encode(handle_contents contents, ferry_ipc_handle &handle) noexcept;

// Refuses what is no handle, was damaged or is of a later version.
failure decode(const ferry_ipc_handle &handle, handle_contents &contents) noexcept;

inline failure bad_handle(std::int32_t status) noexcept { return refuse(status, FERRY_SIDE_NONE, FERRY_FIELD_HANDLE); }

} // namespace ferry
