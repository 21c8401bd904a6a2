// The bytes of a handle, which the exporting process sends to the importing process.
#pragma once

#include <bit>

#include "base/status.h"
#include "ferry/ferry_ipc.h"
#include "system/process.h"

namespace ferry {

constexpr std::uint32_t handle_version = 1;

// The layout of version 1, little-endian. Fields that a kind does not use are zero.
struct handle_contents {
    char magic[8];
    std::uint32_t version;
    std::int32_t kind;             // FERRY_IPC_*
    process_identity exporter;     // the process in which the following numbers are valid
    std::uint8_t device_uuid[16];  // all zero: no device
    std::uint64_t offset;          // memory: from the start of the allocation
    std::uint64_t size;            // memory: bytes starting at `offset`
    std::uint64_t allocation_size; // memory: size of the whole allocation
    std::uint64_t buffer_id;       // the driver's number for the allocation, unique within a process
    std::uint64_t original;        // address of the allocation in the exporter
    std::uint8_t key[16];          // random name of a pool, of the pool that contains the memory, or of an event
    std::uint32_t handle_type;     // pool: FERRY_HANDLE_*
    std::int32_t location;         // pool: FERRY_LOCATION_*
    std::int32_t index;            // pool in host memory: its NUMA node
    std::uint32_t reserved0;
    std::uint8_t payload[64]; // the driver's own handle, if it fits
    std::uint8_t reserved[40];
    std::uint64_t checksum; // over all preceding bytes
};
static_assert(sizeof(handle_contents) == FERRY_IPC_HANDLE_SIZE);
static_assert(std::endian::native == std::endian::little, "handles are little-endian");

// Encodes a handle: the contents with magic bytes, version and checksum.
void encode(handle_contents contents, ferry_ipc_handle &handle) noexcept;

// Decodes a handle. Rejects bytes that are not a handle, are damaged or have another version.
error decode(const ferry_ipc_handle &handle, handle_contents &contents) noexcept;

inline error bad_handle(std::int32_t status) noexcept { return refuse(status, FERRY_SIDE_NONE, FERRY_FIELD_HANDLE); }

} // namespace ferry
