// The boxes of the cases strided and volume, for every case that measures them.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "case.h"

namespace bench {

struct grid_box {
    std::vector<std::string> labels; // one for each column of the grid
    bench::box box;
    const char *ceiling;                      // the direction whose link or memory limits the copy
    std::optional<double> target = {};        // the minimum raw/ferry, if the box has its own target
    std::optional<double> min_bandwidth = {}; // the same in bytes per nanosecond (GB/s)
    bool is_large = false;                    // launching is a negligible part of its cost
};

// The box's memory exists only during the visit.
using box_visitor = std::function<void(const grid_box &)>;

struct box_grid {
    const char *name;
    std::vector<std::string> columns;
    void (*visit)(session &, const box_visitor &);
};
extern const box_grid strided_grid;
extern const box_grid volume_grid;

} // namespace bench
