// Copies many boxes with as few launches as possible. Packs boxes into the kernel's parameters or a table until it is
// full, then launches.
#pragma once

#include "exec/kernel_launch.h"

namespace ferry {

// Boxes between ends in linear memory.
struct linear_boxes {
    using box = kernel_box;
    using record = gpu::box;
    using parameters = gpu::box_parameters;
    using packer = box_packer;
    static constexpr std::uint32_t max_in_parameters = gpu::max_boxes_in_parameters;
    static constexpr auto cut = cut_boxes;
    static constexpr auto launch = launch_boxes;
    static constexpr auto launch_one = launch_strided;
};

// Boxes read from arrays.
struct array_boxes {
    using box = kernel_array_box;
    using record = gpu::array_box;
    using parameters = gpu::array_box_parameters;
    using packer = array_packer;
    static constexpr std::uint32_t max_in_parameters = gpu::max_array_boxes_in_parameters;
    static constexpr auto cut = cut_array_boxes;
    static constexpr auto launch = launch_arrays;
    static constexpr auto launch_one = launch_array;
};

// A table in memory at the device address `address`. If `records` is null, there is no table, and the parameters are
// used. The table must stay valid until the launches have completed on the stream.
template <class Kind> struct box_table {
    typename Kind::record *records = nullptr;
    std::uint32_t room = 0;
    std::uint64_t address = 0;
};

template <class Kind> class box_launcher {
public:
    box_launcher(const driver_table &cu, kernel_set &kernels, const team_cut &cut, std::uint32_t blocks,
                 CUstream stream, const box_table<Kind> &table) noexcept
        : cu_(cu), kernels_(kernels), cut_(cut), blocks_(blocks), stream_(stream), table_(table),
          packed_(empty_packer()) {}
    box_launcher(const box_launcher &) = delete;
    box_launcher &operator=(const box_launcher &) = delete;

    // Adds a box. A box that is too large to share a launch gets a separate launch.
    error add(const typename Kind::box &box) noexcept {
        pack_result result = packed_.add(box);
        if (result == pack_result::no_room) {
            if (error failed = launch()) return failed;
            result = packed_.add(box);
        }
        return result == pack_result::added ? ok : Kind::launch_one(cu_, kernels_, box, blocks_, stream_);
    }

    // Launches the boxes that were added since the last launch.
    error launch() noexcept {
        if (packed_.empty()) return {};
        const std::uint32_t count = packed_.count();
        const error failed = Kind::launch(cu_, kernels_, packed_, given_, table_.address, blocks_, stream_);
        if (table_.records)
            table_ = {table_.records + count, table_.room - count,
                      table_.address + count * sizeof(typename Kind::record)};
        packed_ = empty_packer();
        return failed;
    }

private:
    typename Kind::packer empty_packer() noexcept {
        return table_.records ? typename Kind::packer(table_.records, table_.room, cut_)
                              : typename Kind::packer(given_.boxes, Kind::max_in_parameters, cut_);
    }

    const driver_table &cu_;
    kernel_set &kernels_;
    const team_cut cut_;
    const std::uint32_t blocks_;
    const CUstream stream_;
    box_table<Kind> table_;
    typename Kind::parameters given_;
    typename Kind::packer packed_;
};

} // namespace ferry
