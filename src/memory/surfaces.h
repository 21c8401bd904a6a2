// Records the arrays that ferry created, and the surfaces through which kernels access arrays with FERRY_ARRAY_SURFACE.
// A surface is created when a kernel first needs it, and destroyed with its array. An array that the program created
// without ferry has no surface: after that array is destroyed, the driver may reuse its handle, and nothing reports
// that.
#pragma once

#include <mutex>

#include "base/growing.h"
#include "device/contexts.h"
#include "ferry/ferry_memory.h"

namespace ferry {

// How an array was created. Arrays that were created in the same way are interchangeable.
struct made_array {
    CUcontext context;
    int device;
    bool is_mipmapped;
    std::uint32_t levels; // as requested
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

    // Record a new array. Without memory for the record, kernels do not access the array, and it is not reused after a
    // deferred free.
    void note(CUarray array, const made_array &as) noexcept;
    void note(CUmipmappedArray mipmapped, const made_array &as) noexcept;
    // Record a level of a mipmapped array, or a plane of an array, if `whole` is recorded.
    void note_part(const void *whole, CUarray part) noexcept;

    // Finds how a whole array or mipmapped array was created; false if it is not recorded.
    bool describe(const void *whole, made_array &found) const noexcept;

    // Returns the device of an array, a level or a plane; -1 if it is not recorded.
    int device_of(CUarray array) const noexcept;

    // Returns whether an array may have a surface in this context.
    bool may_serve(CUarray array, CUcontext context) const noexcept;
    // Finds the surface of an array, and creates it if necessary; false if the array has none. The context must be
    // current.
    bool find(CUarray array, CUcontext context, array_surface &found) noexcept;

    // Destroy any array, recorded or not. The surface is destroyed after the array, when no running work reads it any
    // more.
    error destroy(CUarray array) noexcept;
    error destroy(CUmipmappedArray mipmapped) noexcept;
    // Drops the records of everything created in a context, because it ends with the context.
    void forget(CUcontext context) noexcept;

private:
    struct record {
        CUarray array;     // null: this record is of a whole mipmapped array
        const void *whole; // of a level or plane; both null: the array is destroyed, but its surface is not yet
        made_array as;     // for a level or plane: the description of the whole
        bool may_have_surface;
        array_surface made;

        const void *key() const noexcept { return array ? static_cast<const void *>(array) : whole; }
    };
    // A mipmapped array and its levels: the largest side length that CUDA can express has 32 bits.
    static constexpr std::size_t max_parts = 1 + 32;
    struct parts {
        record records[max_parts];
        std::size_t count = 0;
    };

    void add(const record &added) noexcept;
    std::size_t lower_bound(const void *key) const noexcept;
    record *look_up(const void *key) noexcept;
    template <class Is> parts take(const Is &is) noexcept;
    template <class Destroy> error destroy_with(const parts &gone, const Destroy &destroy) noexcept;
    void end(const record &gone) noexcept;                              // only if its context is known to be alive
    [[nodiscard]] bool end_in_its_context(const record &gone) noexcept; // false if the context cannot be entered

    const driver_table &cu_;
    device_contexts &contexts_;
    mutable std::mutex mutex_;
    growing<record> records_; // sorted by key
};

} // namespace ferry
