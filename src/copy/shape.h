// The library's representation of a copy: validated, in its simplest form, with the strides of both ends filled in and
// linear origins added to the address. Plans are computed from it, and routes execute it.
#pragma once

#include "base/route_kind.h"
#include "memory/resolve.h"

namespace ferry {

// Mostly uninitialised: validate_fields and validate_bounds set every field, and clearing the fields first would cost as much
// as the checks.
struct shape_end {
    memory_kind kind;
    int device;                 // -1: host memory, or the context's device
    CUarray array;              // null: linear memory, or a file
    std::uint64_t x, y, z;      // array: the origin
    address_span span;          // linear: the first byte, origin included, and the last
    std::uint64_t row_pitch;    // linear: bytes
    std::uint64_t slice_height; // linear: rows
    ferry_file *file = nullptr; // null: memory. The span and the strides of a file are offsets in it
};

struct shape {
    shape_end source, destination;
    std::uint64_t width, height, depth;
    bool empty() const noexcept { return width == 0; }
    std::uint64_t bytes() const noexcept { return width * height * depth; }
    bool is_line() const noexcept { return height == 1 && depth == 1; }
    bool has_file() const noexcept { return source.file || destination.file; }
};

struct extent {
    std::uint64_t width, height, depth;
};

// Returns an end of `size` contiguous bytes at `first` in linear memory. The size is not 0.
inline shape_end line_end_at(memory_kind kind, int device, std::uint64_t first, std::uint64_t size) noexcept {
    return {kind, device, nullptr, 0, 0, 0, {first, first + (size - 1)}, size, 1};
}

// Returns an end at `first` in linear memory that has the bytes of a box without gaps. The box is not empty.
inline shape_end packed_end(memory_kind kind, int device, std::uint64_t first, const shape &box) noexcept {
    return {kind, device, nullptr, 0, 0, 0, {first, first + box.bytes() - 1}, box.width, box.height};
}

// Returns the rows of a linear end.
inline row_layout rows_of(const shape_end &end, const extent &extent) noexcept {
    return {end.span.first, extent.width, extent.height, end.row_pitch, extent.depth, end.slice_height * end.row_pitch};
}

struct copy_limits {
    int device_count = 0;
    std::uint64_t max_pitch = 0; // bytes; the minimum over all devices
};

// Whether a descriptor is a contiguous copy: linear memory at both ends without origin or pitch, and valid as far as
// the descriptor alone shows. Most copies are contiguous. Tests all conditions together, without a branch for each.
[[gnu::always_inline]] inline bool is_contiguous_copy(const ferry_copy_desc &copy, const copy_limits &limits) noexcept {
    // Returns zero for a place without strides, origin or non-zero reserved fields.
    const auto unusual = [](const ferry_place &place) noexcept {
        return place.row_pitch | place.slice_height | place.x | place.y | place.z |
               reinterpret_cast<std::uintptr_t>(place.file) | place.reserved[0] | place.reserved[1] | place.reserved[2];
    };
    const auto is_known_memory = [&](const ferry_place &place) noexcept {
        constexpr unsigned memory =
            1 << FERRY_KIND_ANY | 1 << FERRY_KIND_HOST | 1 << FERRY_KIND_DEVICE | 1 << FERRY_KIND_PINNED;
        // Adding 1 maps FERRY_DEVICE_UNKNOWN, which is -1, to 0 and every other negative number to a large number.
        const bool is_known_device =
            static_cast<unsigned>(place.device) + 1u <= static_cast<unsigned>(limits.device_count);
        return place.address && static_cast<unsigned>(place.kind) <= FERRY_KIND_PINNED && memory >> place.kind & 1 &&
               (place.kind != FERRY_KIND_DEVICE || is_known_device);
    };
    const std::uint64_t odd = copy.reserved[0] | copy.reserved[1] | copy.reserved[2] | copy.reserved[3] |
                              copy.reserved[4] | unusual(copy.source) | unusual(copy.destination);
    if (odd || copy.height > 1 || copy.depth > 1 || copy.width == 0) return false;
    return is_known_memory(copy.source) && is_known_memory(copy.destination);
}

// The first half of the validation: errors of the descriptor alone, for any memory. An empty copy is valid with any
// addresses.
error validate_fields(const ferry_copy_desc &copy, const copy_limits &limits, shape &shape) noexcept;

// Refuses a copy with a file, for calls that take no files. Requires validate_fields.
inline error refuse_files(const shape &shape) noexcept {
    if (!shape.has_file()) return {};
    return refuse_signed(FERRY_ERROR_UNSUPPORTED, shape.source.file ? FERRY_SIDE_SOURCE : FERRY_SIDE_DESTINATION,
                         FERRY_FIELD_KIND, numbers::up_to, FERRY_KIND_ARRAY, FERRY_KIND_FILE);
}

struct resolved_ends {
    resolved_place source, destination;
};

// The second half of the validation, against the memory. Afterwards, if both ends are linear, folds tight 3D into 2D
// and tight 2D into 1D.
error validate_bounds(const resolved_ends &resolved, const copy_limits &limits, shape &shape) noexcept;

// The parts of both halves that fills share with copies. check_place checks kind, device and reserved fields.
// validate_linear computes the strides and the span of a linear place. check_range checks the span against its
// allocation if the allocation is known.
error check_place(const ferry_place &place, std::int32_t side, const copy_limits &limits) noexcept;
error validate_linear(const ferry_place &place, std::int32_t side, const copy_limits &limits, const extent &extent,
                      shape_end &end) noexcept;
error check_range(const shape_end &end, std::int32_t side, const resolved_place &resolved) noexcept;

// Whether source and destination share bytes. Exact for two linear ends with equal strides (columns of one image may
// interleave) and for boxes of one array. For unequal strides, true only if the first bytes coincide.
bool ends_overlap(const shape &shape) noexcept;

} // namespace ferry
