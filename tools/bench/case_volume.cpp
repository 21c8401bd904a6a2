// volume: copies to, from and between CUDA arrays: whole arrays and boxes inside, one by one and many in one call.
#include <random>

#include "contest.h"
#include "grids.h"
#include "progress.h"
#include "units.h"

namespace bench {

namespace of_volume {
namespace {

// Boxes from an array that ferry created to device memory, each to its own block.
std::vector<box> make_boxes(const session &session, const array &source, std::size_t side, std::size_t texel_size,
                            std::size_t count, std::size_t step) {
    constexpr std::size_t alignment = 256;
    const extent size = {side * texel_size, side, side}, whole = source.place.frame;
    const std::size_t apart = (size.bytes() + guard + alignment - 1) / alignment * alignment;
    std::mt19937_64 random(3);
    const auto below = [&](std::size_t end) { return random() % ((end - side) / step + 1) * step; };
    std::vector<box> boxes;
    for (std::size_t i = 0; i < std::min(count, session.workspace.largest / apart); ++i) {
        place from = source.place;
        from.x = below(whole.width / texel_size) * texel_size;
        from.y = below(whole.height);
        from.z = below(whole.depth);
        buffer to = session.workspace.device_destination;
        to.address += i * apart;
        boxes.push_back({from, padded(to, size, 0, 0), size});
    }
    return boxes;
}

contender raw_loop(const environment &environment, const std::vector<box> &boxes) {
    std::vector<CUDA_MEMCPY3D> calls;
    for (const box &box : boxes)
        calls.push_back(lower(box));
    return {"loop of cuMemcpy3DAsync", [&environment, calls] {
                for (const CUDA_MEMCPY3D &call : calls)
                    check(environment.cu.cuMemcpy3DAsync(&call, environment.stream.get()), "cuMemcpy3DAsync");
                drain(environment);
            }};
}

contender ferry_batch(const environment &environment, const std::vector<box> &boxes) {
    std::vector<ferry_copy_desc> copies;
    for (const box &box : boxes)
        copies.push_back(describe(box));
    return {"ferry_copy_batch_async", [&environment, copies] {
                auto error = sized<ferry_error_info>();
                check(ferry_copy_batch_async(environment.basic.get(), copies.data(), copies.size(), nullptr,
                                             environment.stream.get(), nullptr, &error),
                      "ferry_copy_batch_async", error);
                drain(environment);
            }};
}

// Many boxes of one array in one call, with texels of 4 bytes. The boxes start at multiples of 16 texels, like bricks,
// or anywhere.
void measure_many_boxes(session &session, row_list &rows) {
    constexpr std::size_t texel_size = 4, largest_side = 512, box_side = 16, count = 1000;
    constexpr double target = 20;
    std::size_t side = largest_side;
    while (side > box_side && side * side * side * texel_size > session.workspace.largest)
        side /= 2;
    const extent size = {side * texel_size, side, side};
    const array source = make_ferry_array(session.environment, session.workspace.device_source, size, texel_size);
    for (const std::size_t step : {box_side, std::size_t{1}}) {
        const std::vector<box> boxes = make_boxes(session, source, box_side, texel_size, count, step);
        const std::string text = std::to_string(boxes.size()) + " of 16 x 16 x 16";
        session.progress.show("volume", "A2D " + text, boxes[0].size.bytes());
        const contender loop[] = {raw_loop(session.environment, boxes)};
        row row = measure_beside_fastest(
            session,
            {{"A2D", "3D, ferry's", text, std::to_string(texel_size), step == 1 ? "anywhere" : "bricks", "tight"},
             boxes,
             ceiling_of("D2D", session.ceilings)},
            loop, ferry_batch(session.environment, boxes));
        row.target = target;
        rows.push_back(std::move(row));
    }
}

case_result run_volume(session &session) {
    std::vector<std::string> columns = volume_grid.columns;
    columns.emplace_back(raw_call_column);
    case_result result = session.begin(
        {.note =
             joined({"arrays of up to 64 MiB; inside: the array less a margin; linear memory is pinned or on the "
                     "device,\nwith tight rows or (odd) 13 B between rows and in 3D 3 rows between slices; ferry's: "
                     "made with\nFERRY_ARRAY_SURFACE; many boxes: in one call, raw in a loop;\n",
                     contest_note}),
         .label_columns = columns});
    volume_grid.visit(session, [&](const grid_box &of) {
        session.progress.show("volume", of.labels[0] + ' ' + of.labels[2], of.box.size.bytes());
        row row = measure_box(session, of.labels, of.box, ceiling_of(of.ceiling, session.ceilings));
        if (of.target) row.target = of.target;
        result.rows.push_back(std::move(row));
    });
    measure_many_boxes(session, result.rows);
    return result;
}

} // namespace
} // namespace of_volume

const bench_case volume_case = {"volume", "copies to, from and between CUDA arrays: whole arrays and boxes inside",
                                of_volume::run_volume};

} // namespace bench
