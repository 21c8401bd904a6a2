#include "plan/kernel_arrays.h"

#include <bit>

namespace ferry {

kernels::array_form array_form_of(std::uint64_t rows, std::uint64_t slices, bool is_layered) noexcept {
    using kernels::array_form;
    if (is_layered) return rows ? array_form::layers_of_two_d : array_form::layers_of_one_d;
    if (slices) return array_form::three_d;
    return rows ? array_form::two_d : array_form::one_d;
}

pack_result array_packer::add(const kernel_array_box &box) noexcept {
    // Arrays are addressed in 32 bits, of which a surface takes 31.
    constexpr std::uint64_t largest = std::uint64_t{1} << 31;
    if (box.x + box.width > largest || box.y + box.height > largest || box.z + box.depth > largest)
        return pack_result::too_large;
    const std::uint64_t word_shift = std::countr_zero(
        box.destination.address | strides_of(box.destination, box.height, box.depth) | box.x | box.width | 16);
    const std::uint64_t per_row = box.width >> word_shift;
    std::uint64_t windows = 0;
    if (__builtin_mul_overflow(per_row * box.height, box.depth, &windows) || windows > most_windows_of_a_box)
        return pack_result::too_large;
    if (count() == room_) return pack_result::no_room;
    kernels::array_box &record = table_[count()];
    std::uint32_t first_unit = 0;
    if (!note(windows, first_unit)) return pack_result::no_room;
    const auto narrow = [](std::uint64_t number) { return static_cast<std::uint32_t>(number); };
    record = {.destination = box.destination,
              .surface = box.surface,
              .by_row = short_divisor_of(narrow(per_row)),
              .by_slice = short_divisor_of(narrow(box.height)),
              .x = narrow(box.x),
              .y = narrow(box.y),
              .z = narrow(box.z),
              .per_row = narrow(per_row),
              .rows_per_slice = narrow(box.height),
              .windows = narrow(windows),
              .form = box.form,
              .word_shift = narrow(word_shift),
              .reserved = 0,
              .first_unit = first_unit};
    return pack_result::added;
}

} // namespace ferry
