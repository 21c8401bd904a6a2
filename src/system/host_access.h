// Finds host memory that the process may not read or write. Looks at the process's mappings and at the sizes of mapped
// files, because a probe that touched the memory would allocate pages of sparse files.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/address_span.h"
#include "system/address_space.h"

namespace ferry {

enum class host_use : std::uint8_t { read, write };

// Serves one call: what it has learnt about a mapping counts until its end.
class host_access {
public:
    explicit host_access(const address_space &mappings) noexcept : mappings_(mappings) {}

    // Finds the first bytes of `range` that the process may not use, up to the end of their mapping or hole. Where the
    // system does not report mappings, only tests whether the first and the last byte can be read.
    //
    // Does not notice file systems without room for the pages of a hole, protection keys and guard regions.
    bool find_barred(const address_span &range, host_use use, address_span &barred) noexcept;

    // Returns whether an end of the range lies in a guard region (MADV_GUARD_INSTALL), such as that of a stack. Reads
    // memory of no file, which allocates nothing.
    bool has_guarded_end(const address_span &range) noexcept;

private:
    const mapping_report *find(std::uint64_t address, mapping_search &result) noexcept;

    // Ranges of one call often alternate between a few mappings.
    static constexpr std::size_t most = 8;

    const address_space &mappings_;
    mapping_report known_[most] = {};
    std::size_t latest_ = 0;
};

} // namespace ferry
