// Memory of every kind that a copy can have at an end. Each place keeps a plain picture of its bytes on the CPU: the
// reference copies between pictures, and tests compare them with the driver's memory.
#pragma once

#include <memory>
#include <random>

#include "support/driver_under_test.h"

namespace ferry::test {

enum class place_kind {
    pageable,
    pinned,
    registered,
    managed,
    device,
    pool,              // stream-ordered device memory
    pool_of_host,      // stream-ordered host memory that no device has access to
    open_pool_of_host, // stream-ordered host memory that every device has access to
    array_1d,
    array_2d,
    array_3d,
    layers_1d,
    layers_2d,
    cubemap,
    mipmap_level
};
constexpr place_kind all_place_kinds[] = {
    place_kind::pageable,  place_kind::pinned,   place_kind::registered,   place_kind::managed,
    place_kind::device,    place_kind::pool,     place_kind::pool_of_host, place_kind::open_pool_of_host,
    place_kind::array_1d,  place_kind::array_2d, place_kind::array_3d,     place_kind::layers_1d,
    place_kind::layers_2d, place_kind::cubemap,  place_kind::mipmap_level};
const char *name_of(place_kind kind);
// Returns whether the driver under test supports this kind.
bool is_supported(place_kind kind);
constexpr bool is_array(place_kind kind) { return kind >= place_kind::array_1d; }

// Whether the place is described to ferry with its kind or as FERRY_KIND_ANY.
enum class statement { stated, any, pinned }; // pinned: stated, and host memory as PINNED if it is

// A grid of `width` bytes × `height` rows × `depth` slices. In linear memory the row pitch may exceed the width and the
// slice height may exceed the height, and the first byte may have an odd address.
struct grid {
    std::uint64_t width = 0, height = 1, depth = 1;
    std::uint64_t row_pitch = 0;    // 0: width
    std::uint64_t slice_height = 0; // 0: height
    std::uint64_t lead = 0;         // bytes before the first byte of the grid
    std::uint32_t element_size = 1; // for arrays: 1, 2, 4, 8 or 16; the width is a multiple of it
};

// Returns whether memory of this kind is supported and can have this shape.
bool can_be(place_kind kind, const grid &shape);

struct box {
    std::uint64_t x = 0, y = 0, z = 0;
};

class test_place {
public:
    test_place(place_kind kind, const grid &shape, int device = 0);
    ~test_place();
    test_place(const test_place &) = delete;
    test_place &operator=(const test_place &) = delete;

    // Writes random bytes to the whole memory and to the picture.
    void fill(std::uint64_t seed);
    // Reads the whole memory back, including the bytes outside any box.
    bytes read() const;

    ferry_place describe(statement how, const box &origin = {}) const;
    std::byte &picture_at(std::uint64_t x, std::uint64_t y, std::uint64_t z);

    place_kind kind() const { return kind_; }
    const grid &shape() const { return shape_; }
    const bytes &picture() const { return picture_; }
    std::uint64_t address() const { return address_; } // of the first byte after the lead
    CUarray array() const { return array_; }
    int device() const { return device_; }

private:
    void create_array();
    void enter() const;
    void leave() const;

    place_kind kind_;
    grid shape_;
    int device_;
    CUcontext context_ = nullptr;
    bytes picture_;
    std::uint64_t allocation_ = 0, address_ = 0;
    CUarray array_ = nullptr;
    CUmipmappedArray mipmap_ = nullptr; // array_ is its level 1
};

// The reference copy: row by row between the two pictures.
void reference_copy(test_place &source, const box &from, test_place &destination, const box &to, std::uint64_t width,
                    std::uint64_t height, std::uint64_t depth);

ferry_copy_desc describe_copy(const ferry_place &source, const ferry_place &destination, std::uint64_t width,
                              std::uint64_t height = 1, std::uint64_t depth = 1);

} // namespace ferry::test
