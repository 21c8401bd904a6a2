// The arrays that ferry made, and the surfaces through which kernels read those made for it: each is made when a kernel
// first needs it, and gone with its array. An array of the program's own has none: the driver may give its handle to
// another when it is gone, and nobody would tell.
#pragma once

#include <mutex>

#include "base/growing.h"
#include "device/contexts.h"

namespace ferry {

// What an array was made as: of two that are equal one can take the other's place.
struct made_array {
    CUcontext context;
    int device;
    bool is_mipmapped;
    std::uint32_t levels; // as asked for
    ferry_array_desc desc;
};

struct array_surface {
    CUsurfObject surface = 0;
    bool has_rows = false, has_slices = false, is_layered = false;
};

class array_surfaces {
public:
    array_surfaces(const driver_table &cu, device_contexts &contexts, const allocator &memory) noexcept
        : cu_(cu), contexts_(contexts), records_(memory) {}
    ~array_surfaces();
    array_surfaces(const array_surfaces &) = delete;
    array_surfaces &operator=(const array_surfaces &) = delete;

    // New arrays. Where there is no memory for the record an array is not noted: then kernels do not read it, and it is
    // not given out again.
    void note(CUarray array, const made_array &as) noexcept;
    void note(CUmipmappedArray mipmapped, const made_array &as) noexcept;
    void note_level(CUmipmappedArray mipmapped, CUarray level) noexcept;

    // A whole array or mipmapped array; false for one that is not noted.
    bool describe(const void *whole, made_array &found) const noexcept;

    // Whether an array may have a surface in this context.
    bool may_serve(CUarray array, CUcontext context) const noexcept;
    // The array's surface, made if need be; false where it has none. The context must be current.
    bool find(CUarray array, CUcontext context, array_surface &found) noexcept;

    // Of any array. A surface outlives its array, until nothing runs that reads it.
    failure destroy(CUarray array) noexcept;
    failure destroy(CUmipmappedArray mipmapped) noexcept;
    // What was made in a context ends with it.
    void forget(CUcontext context) noexcept;

private:
    struct record {
        CUarray array;          // null: the whole of a mipmapped array
        CUmipmappedArray whole; // of a level; both null: the array is gone, and its surface could not be destroyed yet
        made_array as;          // of a level: its whole
        bool may_have_surface;
        array_surface made;

        const void *key() const noexcept { return array ? static_cast<const void *>(array) : whole; }
    };
    // A mipmapped array and its levels: the largest side that CUDA can state has 32 bits.
    static constexpr std::size_t most_parts = 1 + 32;
    struct parts {
        record records[most_parts];
        std::size_t count = 0;
    };

    void add(const record &added) noexcept;
    std::size_t lower_bound(const void *key) const noexcept;
    record *look_up(const void *key) noexcept;
    template <class Is> parts take(const Is &is) noexcept;
    template <class Destroy> failure destroy_with(parts gone, const Destroy &destroy) noexcept;
    void end(const record &gone) noexcept;                              // if its context is known to live
    [[nodiscard]] bool end_in_its_context(const record &gone) noexcept; // false where that cannot be entered

    const driver_table &cu_;
    device_contexts &contexts_;
    mutable std::mutex mutex_;
    growing<record> records_; // by their keys
};

} // namespace ferry
