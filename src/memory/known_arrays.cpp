#include "memory/known_arrays.h"

#include <algorithm>
#include <functional>

namespace ferry {

void known_arrays::begin(const driver_table &cu, const array_surfaces &made) noexcept {
    cu_ = &cu;
    made_ = &made;
    arrays_.clear();
    sorted_.clear();
    last_ = 0;
}

[[gnu::noinline]] error known_arrays::search(const ferry_place &place) noexcept {
    const place_of *const at =
        std::lower_bound(sorted_.begin(), sorted_.end(), place.array, [](const place_of &one, CUarray array) {
            return std::less<const void *>{}(one.array, array);
        });
    if (at != sorted_.end() && at->array == place.array) {
        last_ = at->index;
        return {};
    }
    known_array added = {.array = place.array, .facts = {}};
    if (error failed = look_up_array(*cu_, *made_, place, added.facts)) return failed;
    const auto position = static_cast<std::size_t>(at - sorted_.begin());
    const std::uint32_t index = size();
    if (!arrays_.append(added) || !sorted_.insert(position, {place.array, index})) return no_memory;
    last_ = index;
    return {};
}

} // namespace ferry
