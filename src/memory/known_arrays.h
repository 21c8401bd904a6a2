// Caches the format and extent of the arrays of many copies, so that the driver is queried once per array. The cache
// lasts for one call, because nothing reports when an array is destroyed.
#pragma once

#include "base/growing.h"
#include "memory/resolve.h"

namespace ferry {

struct known_array {
    CUarray array;
    array_facts facts;
};

class known_arrays {
public:
    explicit known_arrays(const allocator &memory) noexcept : arrays_(memory), sorted_(memory) {}

    // Clears the cache for a call in the current context.
    void begin(const driver_table &cu, const array_surfaces &made) noexcept;

    const known_array &operator[](std::uint32_t index) const noexcept { return arrays_[index]; }
    std::uint32_t size() const noexcept { return static_cast<std::uint32_t>(arrays_.size()); }

    // Finds the array of a place. Fails like look_up_array, or with FERRY_ERROR_OUT_OF_MEMORY.
    error find(const ferry_place &place, std::uint32_t &index) noexcept {
        if (last_ >= arrays_.size() || arrays_[last_].array != place.array)
            if (error failed = search(place)) return failed;
        index = last_;
        return {};
    }

private:
    error search(const ferry_place &place) noexcept;

    struct place_of {
        CUarray array;
        std::uint32_t index;
    };

    const driver_table *cu_ = nullptr;
    const array_surfaces *made_ = nullptr;
    growing<known_array> arrays_;
    growing<place_of> sorted_; // sorted by handle
    std::uint32_t last_ = 0;   // the last array found: consecutive copies often use the same array
};

} // namespace ferry
