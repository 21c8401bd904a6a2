// Queries the operating system for the mapping that contains an address. One query covers all addresses of the mapping,
// whereas readable.h and the driver need one query per address.
#pragma once

#include <cstdint>

#include "system/handles.h"

namespace ferry {

struct host_mapping {
    std::uint64_t first = 0, end = 0;
    // Writable and not backed by a file, such as the memory of malloc and of stacks. A driver can at most have
    // registered parts of it.
    bool is_private = false;

    bool holds(std::uint64_t address) const noexcept { return address - first < end - first; }
};

// The properties of a mapping that decide whether the process may access it.
struct mapping_report {
    std::uint64_t first = 0, end = 0;
    // A mapping can extend past the end of its file. Bytes from this address on must be tested. Equals `first` if the
    // file size is unknown.
    std::uint64_t sure_end = 0;
    bool is_readable = false, is_writable = false;
    bool is_anonymous = false; // not backed by a file and not shared
};

// unknown: the system does not report mappings.
enum class mapping_search : std::uint8_t { unknown, nothing, found };

class address_space {
public:
    // Opens the system's report of mappings. In the child of a fork, an object still reports the mappings of the
    // parent.
    void open() noexcept;

    // Finds the mapping that contains `address`, if it is readable. Pages past the end of a truncated file are
    // unreadable even inside a readable mapping. Returns false if the system does not report it.
    bool find_readable(std::uint64_t address, host_mapping &found) const noexcept;

    // Finds the mapping that contains `address`, or else the next higher mapping. Before Linux 6.11 this reads the list
    // of mappings up to that address.
    mapping_search find_from(std::uint64_t address, mapping_report &found) const noexcept;

private:
    kept_descriptor file_;
};

} // namespace ferry
