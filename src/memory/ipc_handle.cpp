#include "memory/ipc_handle.h"

#include <cstddef>
#include <cstring>

#include "base/checked.h"
#include "base/hash.h"

namespace ferry {

namespace {

constexpr char magic[8] = {'f', 'e', 'r', 'r', 'y', 'i', 'p', 'c'};

std::uint64_t checksum_of(const handle_contents &contents) noexcept {
    return hash_of(&contents, offsetof(handle_contents, checksum));
}

// Checks the fields that later computations use, because a matching checksum does not prove that they are valid.
bool makes_sense(const handle_contents &contents) noexcept {
    std::uint64_t end = 0;
    switch (contents.kind) {
    case FERRY_IPC_MEMORY:
    case FERRY_IPC_POOL_MEMORY:
        return contents.size && add(contents.offset, contents.size, end) && end <= contents.allocation_size &&
               add(contents.original, contents.allocation_size, end);
    case FERRY_IPC_POOL:
        return contents.handle_type == FERRY_HANDLE_POSIX_FD || contents.handle_type == FERRY_HANDLE_WIN32 ||
               contents.handle_type == FERRY_HANDLE_WIN32_KMT || contents.handle_type == FERRY_HANDLE_FABRIC;
    default:
        return contents.kind == FERRY_IPC_EVENT;
    }
}

} // namespace

void encode(handle_contents contents, ferry_ipc_handle &handle) noexcept {
    std::memcpy(contents.magic, magic, sizeof magic);
    contents.version = handle_version;
    contents.checksum = checksum_of(contents);
    std::memcpy(handle.bytes, &contents, sizeof contents);
}

error decode(const ferry_ipc_handle &handle, handle_contents &contents) noexcept {
    std::memcpy(&contents, handle.bytes, sizeof contents);
    if (std::memcmp(contents.magic, magic, sizeof magic) != 0) return bad_handle(FERRY_ERROR_HANDLE);
    if (contents.version != handle_version)
        return refuse(FERRY_ERROR_HANDLE, FERRY_SIDE_NONE, FERRY_FIELD_HANDLE, numbers::known, handle_version,
                      contents.version);
    if (contents.checksum != checksum_of(contents) || !makes_sense(contents)) return bad_handle(FERRY_ERROR_HANDLE);
    return {};
}

} // namespace ferry
