// The C functions that build lists of pieces, and the check of such lists.
#include <algorithm>
#include <cstddef>

#include "api/piece_lists.h"
#include "base/checked.h"
#include "base/sized.h"

namespace ferry {

namespace {

constexpr std::uint64_t element = sizeof(std::uint64_t);

struct field_of_list {
    const std::uint64_t *first;
    std::int32_t field;

    std::uint64_t address() const noexcept { return reinterpret_cast<std::uintptr_t>(first); }
    std::uint64_t distance_to(const field_of_list &other) const noexcept {
        return std::max(address(), other.address()) - std::min(address(), other.address());
    }
};

error refuse_list(std::int32_t status, std::int32_t field, numbers given, std::uint64_t limit,
                  std::uint64_t value) noexcept {
    return refuse(status, FERRY_SIDE_PIECES, field, given, limit, value);
}

error check_pointer(const field_of_list &of, bool may_be_null) noexcept {
    if (!of.first && !may_be_null) return refuse_list(FERRY_ERROR_INVALID_ARGUMENT, of.field, numbers::value, 0, 0);
    return of.address() % element
               ? refuse_list(FERRY_ERROR_ALIGNMENT, of.field, numbers::multiple, element, of.address())
               : ok;
}

// Checks that the last element is within the address space.
error check_end(const field_of_list &of, std::uint64_t count, std::uint64_t stride) noexcept {
    const std::uint64_t room = UINT64_MAX - of.address() - (element - 1), steps = count - 1;
    std::uint64_t length = 0;
    if (multiply(steps, stride, length) && length <= room) return {};
    const std::uint64_t largest = room / steps / element * element;
    if (largest == 0 || stride == element)
        return refuse_list(FERRY_ERROR_OVERFLOW, FERRY_FIELD_COUNT, numbers::at_most, room / stride + 1, count);
    return refuse_list(FERRY_ERROR_OVERFLOW, FERRY_FIELD_STRIDE, numbers::at_most, largest, stride);
}

bool share_an_element(const field_of_list &one, const field_of_list &other, std::uint64_t count,
                      std::uint64_t stride) noexcept {
    const std::uint64_t distance = one.distance_to(other);
    if (distance < stride || distance > (count - 1) * stride) return false; // no division for arrays and structs
    return distance % stride == 0;
}

error check_pointers(const ferry_piece_list &list, piece_fields required, std::uint64_t stride) noexcept {
    const bool has_sizes = required == piece_fields::all;
    const field_of_list all[] = {{list.destinations, FERRY_FIELD_DESTINATIONS},
                                 {list.sources, FERRY_FIELD_SOURCES},
                                 {list.sizes, FERRY_FIELD_SIZES}};
    const field_of_list *const end = all + (has_sizes ? 3 : 2);
    std::uint64_t lowest = UINT64_MAX, highest = 0;
    bool is_shared = false;
    for (const field_of_list *one = all; one != end; ++one) {
        if (error failed = check_pointer(*one, !has_sizes)) return failed;
        if (!one->first) continue;
        if (error failed = check_end(*one, list.count, stride)) return failed;
        for (const field_of_list *other = all; other != one; ++other) {
            if (!other->first) continue;
            if (other->first == one->first)
                return refuse_list(FERRY_ERROR_INVALID_ARGUMENT, one->field, numbers::same, other->field,
                                   one->address());
            is_shared |= share_an_element(*one, *other, list.count, stride);
        }
        lowest = std::min(lowest, one->address());
        highest = std::max(highest, one->address());
    }
    if (!is_shared) return {};
    // The program left out the stride of an array of structs, or passes arrays that overlap.
    return refuse_list(FERRY_ERROR_INVALID_ARGUMENT, FERRY_FIELD_STRIDE, numbers::at_least, highest - lowest + element,
                       list.stride);
}

} // namespace

error read_pieces(const ferry_piece_list &given, piece_fields required, piece_list &pieces, std::uint64_t &count,
                  ferry_file *&source_file) noexcept {
    ferry_piece_list known = {};
    if (error failed = read_sized(&given, known)) return on_side(failed, FERRY_SIDE_PIECES);
    if (known.reserved)
        return refuse_list(FERRY_ERROR_RESERVED, FERRY_FIELD_RESERVED, numbers::value, 0, known.reserved);
    const std::uint64_t stride = known.stride ? known.stride : element;
    if (stride % element)
        return refuse_list(FERRY_ERROR_ALIGNMENT, FERRY_FIELD_STRIDE, numbers::multiple, element, stride);
    if (known.count)
        if (error failed = check_pointers(known, required, stride)) return failed;
    pieces = {known.destinations, known.sources, known.sizes, stride};
    count = known.count;
    source_file = known.source_file;
    return {};
}

} // namespace ferry

namespace {

// A program that was built with this version has no space for fields that a later version adds.
constexpr std::uint32_t size_in_first_version = 56;
static_assert(offsetof(ferry_piece_list, source_file) + sizeof(ferry_piece_list::source_file) == size_in_first_version);

void set(ferry_piece_list *list, const uint64_t *destinations, const uint64_t *sources, const uint64_t *sizes,
         uint64_t count, uint64_t stride) noexcept {
    if (!list) return;
    list->struct_size = size_in_first_version;
    list->reserved = 0;
    list->count = count;
    list->destinations = destinations;
    list->sources = sources;
    list->sizes = sizes;
    list->stride = stride;
    list->source_file = nullptr;
}

} // namespace

extern "C" {

void ferry_piece_list_set(ferry_piece_list *list, const ferry_piece *pieces, uint64_t count) {
    // The fields are words in this order. A pointer to one field would not reach the next piece.
    const auto *const words = reinterpret_cast<const uint64_t *>(pieces);
    set(list, words, words ? words + 1 : nullptr, words ? words + 2 : nullptr, count, sizeof(ferry_piece));
}

void ferry_piece_list_set_arrays(ferry_piece_list *list, const uint64_t *destinations, const uint64_t *sources,
                                 const uint64_t *sizes, uint64_t count) {
    set(list, destinations, sources, sizes, count, sizeof(uint64_t));
}

} // extern "C"
