// Asks the system for the mapping that holds an address. One answer covers all addresses of the mapping, where
// readable.h and the driver have to be asked for each.
#pragma once

#include <cstdint>

#include "system/handles.h"

namespace ferry {

struct host_mapping {
    std::uint64_t first = 0, end = 0;
    // Writable and of no file: the memory of malloc and of stacks, in which a driver has at most registered some.
    bool is_private = false;

    bool holds(std::uint64_t address) const noexcept { return address - first < end - first; }
};

// Everything that matters for whether the process may use a mapping.
struct mapping_report {
    std::uint64_t first = 0, end = 0;
    // A file may end within its mapping: bytes from here on have to be tested. `first` if the file's size is unknown.
    std::uint64_t sure_end = 0;
    bool is_readable = false, is_writable = false;
    bool is_anonymous = false; // of no file, and not shared
};

// unknown: the system does not report mappings.
enum class mapping_search : std::uint8_t { unknown, nothing, found };

class address_space {
public:
    // Opens what the system reports mappings through. In the child of a fork an object still reports those of its
    // parent.
    void open() noexcept;

    // Finds the mapping that holds `address`, if it is readable. A file that has become shorter than its mapping cannot
    // be read beyond its end all the same. Returns false where the system cannot tell.
    bool find_readable(std::uint64_t address, host_mapping &found) const noexcept;

    // Finds the mapping that holds `address`, or else the next one above. Before Linux 6.11 this reads the list of
    // mappings up to there.
    mapping_search find_from(std::uint64_t address, mapping_report &found) const noexcept;

private:
    kept_descriptor file_;
};

} // namespace ferry
