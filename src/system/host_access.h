// Finds host memory that the process may not read or write. Checks the process's mappings and the sizes of mapped
// files, because a probe that touched the memory would allocate pages of sparse files.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/address_span.h"
#include "system/address_space.h"

namespace ferry {

enum class host_use : std::uint8_t { read, write };

// Serves one call: cached properties of a mapping are valid until the call ends.
class host_access {
public:
    explicit host_access(const address_space &mappings) noexcept : mappings_(mappings) {}

    // Finds the first bytes of `range` that the process may not access, up to the end of their mapping or hole. If the
    // system does not report mappings, tests only whether the first and the last byte are readable.
    //
    // Does not detect full file systems that cannot allocate the pages of a hole, protection keys, or guard regions.
    bool find_barred(const address_span &range, host_use use, address_span &barred) noexcept;

    // Returns whether the first or last byte of the range is in a guard region (MADV_GUARD_INSTALL), such as the guard
    // region of a stack. Reads only memory that is not backed by a file, so no page of a file is allocated.
    bool has_guarded_end(const address_span &range) noexcept;

private:
    const mapping_report *find(std::uint64_t address, mapping_search &result) noexcept;

    // The ranges of one call often alternate between a few mappings.
    static constexpr std::size_t most = 8;

    const address_space &mappings_;
    mapping_report known_[most] = {};
    std::size_t latest_ = 0;
};

} // namespace ferry
