#include "batch/request.h"

namespace ferry {

void know_ends(const batch_request &request, const shape &shape, const known_ends &known,
               resolved_ends &ends) noexcept {
    const auto know = [&](const shape_end &end, std::uint32_t index, resolved_place &place) noexcept {
        if (!end.array && request.ranges.facts_at(end.span.first, index, place.facts.emplace()))
            place.query = address_query::everything_and_access;
    };
    know(shape.source, known.from, ends.source);
    know(shape.destination, known.to, ends.destination);
}

} // namespace ferry
