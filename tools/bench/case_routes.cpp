// routes: the route that ferry plans for rows of every width and number. Copies nothing.
#include "case.h"
#include "progress.h"
#include "units.h"

namespace bench {

namespace of_routes {
namespace {

constexpr std::size_t max_width = 1 << 20, max_rows = 1 << 20;

// Powers of two, or powers of four in a quick run.
std::vector<std::size_t> steps(const session &session, std::size_t last) {
    std::vector<std::size_t> values;
    for (std::size_t value = 1; value <= last; value *= session.is_quick ? 4 : 2)
        values.push_back(value);
    return values;
}

// At an end with gaps, the distance of rows is twice their width.
struct gaps {
    const char *name;
    bool at_source, at_destination;
};
constexpr gaps all_gaps[] = {{"source", true, false}, {"destination", false, true}, {"both", true, true}};

const char *route_of(const session &session, const direction &direction, const gaps &gaps, const extent &size) {
    if (2 * size.bytes() > session.workspace.largest) return nullptr;
    const auto place = [&](const buffer &buffer, bool has_gaps) {
        return padded(buffer, size, has_gaps ? size.width : 0, 0);
    };
    const box box = {place(direction.source, gaps.at_source), place(direction.destination, gaps.at_destination), size};
    return name_of_route(explain(session.environment, describe(box))->route);
}

route_map map_of(const session &session, const direction &direction, const gaps &gaps) {
    route_map map = {{direction.name, name_of(direction.kind()), gaps.name},
                     steps(session, max_width),
                     steps(session, max_rows),
                     {}};
    for (const std::size_t rows : map.rows) {
        map.routes.emplace_back();
        for (const std::size_t width : map.widths)
            map.routes.back().push_back(route_of(session, direction, gaps, {width, rows}));
    }
    return map;
}

case_result run_routes(session &session) {
    case_result result = session.begin(
        {.note =
             "planned for ferry_copy_async on an idle stream with the active profile.\nAt ends with gaps, the pitch "
             "is twice the row width.",
         .label_columns = {}});
    std::vector<direction> directions = pinned_directions(session.workspace);
    for (const direction &direction : pageable_directions(session.workspace))
        directions.push_back(direction);
    for (const direction &direction : directions)
        for (const gaps &gaps : all_gaps) {
            session.progress.show("routes", direction.text(), max_width);
            result.route_maps.push_back(map_of(session, direction, gaps));
        }
    return result;
}

} // namespace
} // namespace of_routes

const bench_case routes_case = {"routes", "the route that ferry plans for rows of every width and number",
                                of_routes::run_routes};

} // namespace bench
