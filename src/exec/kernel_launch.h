// Launches ferry's own kernels: one launch per call, as laid out by src/plan. The stream's context must be current. All
// addresses are device addresses, which the caller looks up: if CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM is 0, the
// device address of pinned memory differs from its host address.
#pragma once

#include "device/kernels.h"
#include "plan/kernel_arrays.h"
#include "plan/kernel_boxes.h"
#include "plan/kernel_nests.h"
#include "plan/kernel_pieces.h"

namespace ferry {

// Copies one box with at most `blocks` blocks of 512 threads.
error launch_strided(const driver_table &cu, kernel_set &kernels, const kernel_box &box, std::uint32_t blocks,
                     CUstream stream) noexcept;

// Copies the pieces in the kernel's parameters, which `packed` has written to `given.pieces`. Nothing needs to stay
// valid after the call.
error launch_pieces(const driver_table &cu, kernel_set &kernels, const piece_packer &packed,
                    gpu::piece_parameters &given, std::uint32_t blocks, CUstream stream) noexcept;

// Copies the pieces in the table at the device address `table`, which `packed` has written. The table must stay valid
// until the launch has completed on the stream. `readable` is the same table at a host address, or null.
error launch_piece_table(const driver_table &cu, kernel_set &kernels, const piece_packer &packed, std::uint64_t table,
                         const gpu::piece *readable, std::uint32_t blocks, CUstream stream) noexcept;

// Copies boxes, which `packed` has written to the table, or to `given.boxes` if `table` is 0.
error launch_boxes(const driver_table &cu, kernel_set &kernels, const box_packer &packed, gpu::box_parameters &given,
                   std::uint64_t table, std::uint32_t blocks, CUstream stream) noexcept;

// Copies one box of an array, of any size. Faster than launch_arrays. The surface must belong to the stream's context,
// and must stay valid as long as the memory must.
error launch_array(const driver_table &cu, kernel_set &kernels, const kernel_array_box &box, std::uint32_t blocks,
                   CUstream stream) noexcept;

// Copies many boxes of arrays. The surfaces must belong to the stream's context, and must stay valid as long as the
// memory must.
error launch_arrays(const driver_table &cu, kernel_set &kernels, const array_packer &packed,
                    gpu::array_box_parameters &given, std::uint64_t table, std::uint32_t blocks,
                    CUstream stream) noexcept;

// Launches a ring kernel, as laid out by staging. `given` must name a record that is not otherwise in use.
error launch_ring(const driver_table &cu, kernel_set &kernels, gpu::kernel which, const gpu::ring_parameters &given,
                  std::uint32_t blocks, CUstream stream) noexcept;

// Launches one link's share of a copy over several links.
error launch_link(const driver_table &cu, kernel_set &kernels, const gpu::link_parameters &given, std::uint32_t blocks,
                  CUstream stream) noexcept;

// Copies a nest with at most `blocks` blocks. Its indices must be in memory that kernels can read, and must stay valid
// until the launch has completed on the stream.
error launch_nest(const driver_table &cu, kernel_set &kernels, const nest &of, nest_link link, std::uint64_t skipped,
                  std::uint32_t blocks, CUstream stream) noexcept;

error launch_fill(const driver_table &cu, kernel_set &kernels, const kernel_fill &fill, std::uint32_t blocks,
                  CUstream stream) noexcept;

} // namespace ferry
