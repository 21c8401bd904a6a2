// Fills elements of ELEMENT_SIZE bytes. It compiles only if a pattern can have that size.
#include <ferry/ferry.hpp>

#include <array>

using element = std::array<unsigned char, ELEMENT_SIZE>;

ferry::status fill_with_zeros(ferry_instance *instance, ferry::device_view<element> view) {
    return ferry::fill(instance, view, element{});
}
