// The boxes of the cases strided and volume, for every case that measures them.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "case.h"

namespace bench {

struct grid_box {
    std::vector<std::string> labels; // for each of the grid's columns
    bench::box box;
    const char *ceiling;                        // the direction whose link or memory it goes over
    std::optional<double> target = {};          // the least raw/ferry, where the box has one of its own
    std::optional<double> least_bandwidth = {}; // likewise: bytes a nanosecond (GB/s)
    bool is_large = false;                      // so that launching is none of what it costs
};

// The box's memory is there only during the visit.
using box_visitor = std::function<void(const grid_box &)>;

struct box_grid {
    const char *name;
    std::vector<std::string> columns;
    void (*visit)(session &, const box_visitor &);
};
extern const box_grid strided_grid;
extern const box_grid volume_grid;

} // namespace bench
