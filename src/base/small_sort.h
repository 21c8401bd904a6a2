// Sorts arrays of a few elements. Stable, and allocates nothing, unlike std::stable_sort.
#pragma once

#include <utility>

namespace ferry {

template <class Element, class Less> void sort_few(Element *first, Element *end, const Less &less) noexcept {
    for (Element *next = first; next != end; ++next)
        for (Element *at = next; at != first && less(*at, at[-1]); --at)
            std::swap(*at, at[-1]);
}

} // namespace ferry
