// Launches ferry's own kernels: one launch for each call, as src/plan has laid it out. The stream's context must be
// current. All addresses are device addresses, which the caller looks up: where CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM
// is 0, pinned memory has another address on the device than on the host.
#pragma once

#include "device/kernels.h"
#include "plan/kernel_arrays.h"
#include "plan/kernel_boxes.h"
#include "plan/kernel_pieces.h"

namespace ferry {

// Copies one box with at most `blocks` blocks of 512 threads.
error launch_strided(const driver_table &cu, kernel_set &kernels, const kernel_box &box, std::uint32_t blocks,
                     CUstream stream) noexcept;

// Copies the pieces in the kernel's parameters: `packed` has written to `given.pieces`. Nothing needs to outlive the
// call.
error launch_pieces(const driver_table &cu, kernel_set &kernels, const piece_packer &packed,
                    gpu::piece_parameters &given, std::uint32_t blocks, CUstream stream) noexcept;

// Copies the pieces in a table that `packed` has written and the device finds at `table`. The table must live until the
// stream has passed the launch. `readable` is the same table as the host reads it, or null.
error launch_piece_table(const driver_table &cu, kernel_set &kernels, const piece_packer &packed, std::uint64_t table,
                         const gpu::piece *readable, std::uint32_t blocks, CUstream stream) noexcept;

// Copies boxes: `packed` has written them to the table, or to `given.boxes` if `table` is 0.
error launch_boxes(const driver_table &cu, kernel_set &kernels, const box_packer &packed, gpu::box_parameters &given,
                   std::uint64_t table, std::uint32_t blocks, CUstream stream) noexcept;

// Copies one box of an array, of any size. It does the same as launch_arrays, but faster. The surface must belong to
// the stream's context, and live as long as the memory must.
error launch_array(const driver_table &cu, kernel_set &kernels, const kernel_array_box &box, std::uint32_t blocks,
                   CUstream stream) noexcept;

// Copies many boxes of arrays. The surfaces must belong to the stream's context, and live as long as the memory must.
error launch_arrays(const driver_table &cu, kernel_set &kernels, const array_packer &packed,
                    gpu::array_box_parameters &given, std::uint64_t table, std::uint32_t blocks,
                    CUstream stream) noexcept;

// Launches a ring kernel, as staging has laid it out. `given` names a record that nobody else uses.
error launch_ring(const driver_table &cu, kernel_set &kernels, gpu::kernel which, const gpu::ring_parameters &given,
                  std::uint32_t blocks, CUstream stream) noexcept;

// Launches one link's share of a copy over several links.
error launch_link(const driver_table &cu, kernel_set &kernels, const gpu::link_parameters &given, std::uint32_t blocks,
                  CUstream stream) noexcept;

error launch_fill(const driver_table &cu, kernel_set &kernels, const kernel_fill &fill, std::uint32_t blocks,
                  CUstream stream) noexcept;

} // namespace ferry
