// ferry's own kernels at work: one launch each, of what src/plan has laid out. The context whose stream it is must be
// current. All addresses are those that its device has for the memory, which the caller finds out: where
// CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM is 0, pinned memory has another address on the device than on the host.
#pragma once

#include "device/kernels.h"
#include "plan/kernel_arrays.h"
#include "plan/kernel_boxes.h"
#include "plan/kernel_pieces.h"

namespace ferry {

// The box takes at most `blocks` blocks of 512 threads.
error launch_strided(const driver_table &cu, kernel_set &kernels, const kernel_box &box, std::uint32_t blocks,
                     CUstream stream) noexcept;

// Pieces within the kernel's parameters: `packed` has written to `given.pieces`. Nothing need outlive the call.
error launch_pieces(const driver_table &cu, kernel_set &kernels, const piece_packer &packed,
                    kernels::piece_parameters &given, std::uint32_t blocks, CUstream stream) noexcept;

// Pieces in a table that the device finds at `table`, as `packed` has written it. It must stay until the stream has
// passed the launch. `readable` is the same table for the host, or null.
error launch_piece_table(const driver_table &cu, kernel_set &kernels, const piece_packer &packed, std::uint64_t table,
                         const kernels::piece *readable, std::uint32_t blocks, CUstream stream) noexcept;

// The same for boxes: `packed` has written to `given.boxes`, or what lies in the table.
error launch_boxes(const driver_table &cu, kernel_set &kernels, const box_packer &packed,
                   kernels::box_parameters &given, std::uint32_t blocks, CUstream stream) noexcept;
error launch_box_table(const driver_table &cu, kernel_set &kernels, const box_packer &packed, std::uint64_t table,
                       std::uint32_t blocks, CUstream stream) noexcept;

// One box of an array, of any size: what launch_arrays does, but faster. Its surface is of the stream's context, and must
// stay as the memory must.
error launch_array(const driver_table &cu, kernel_set &kernels, const kernel_array_box &box, std::uint32_t blocks,
                   CUstream stream) noexcept;

// Many boxes of arrays. Surfaces are of the stream's context, and must stay as the memory must.
error launch_arrays(const driver_table &cu, kernel_set &kernels, const array_packer &packed,
                    kernels::array_box_parameters &given, std::uint32_t blocks, CUstream stream) noexcept;
error launch_array_table(const driver_table &cu, kernel_set &kernels, const array_packer &packed, std::uint64_t table,
                         std::uint32_t blocks, CUstream stream) noexcept;

// A ring kernel, as staging has laid it out; `given` names a record that nobody else uses.
error launch_ring(const driver_table &cu, kernel_set &kernels, kernels::kernel which,
                  const kernels::ring_parameters &given, std::uint32_t blocks, CUstream stream) noexcept;

error launch_fill(const driver_table &cu, kernel_set &kernels, const kernel_fill &fill, std::uint32_t blocks,
                  CUstream stream) noexcept;

} // namespace ferry
