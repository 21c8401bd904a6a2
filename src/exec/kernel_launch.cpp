#include "exec/kernel_launch.h"

#include "driver/result.h"

namespace ferry {

namespace {

using gpu::kernel;

template <class Parameters>
error launch(const driver_table &cu, kernel_set &kernels, kernel which, std::uint32_t blocks,
             const Parameters &parameters, CUstream stream) noexcept {
    CUfunction function = nullptr;
    if (error failed = kernels.get(which, function)) return failed;
    void *given[] = {const_cast<Parameters *>(&parameters)}; // read before the call returns
    return to_error(cu.cuLaunchKernel(function, blocks, 1, 1, gpu::threads_per_block, 1, 1, 0, stream, given, nullptr));
}

template <class Parameters>
error launch_jobs(const driver_table &cu, kernel_set &kernels, kernel which, const job_counter &jobs,
                  Parameters &parameters, std::uint32_t blocks, CUstream stream) noexcept {
    if (jobs.empty()) return {};
    blocks = jobs.blocks_with_work(blocks);
    parameters.work = jobs.work_for(blocks);
    return launch(cu, kernels, which, blocks, parameters, stream);
}

} // namespace

error launch_strided(const driver_table &cu, kernel_set &kernels, const kernel_box &box, std::uint32_t blocks,
                     CUstream stream) noexcept {
    const strided_launch laid_out = lay_out_strided(box, blocks);
    return launch(cu, kernels, laid_out.kernel, laid_out.blocks, laid_out.parameters, stream);
}

error launch_pieces(const driver_table &cu, kernel_set &kernels, const piece_packer &packed,
                    gpu::piece_parameters &given, std::uint32_t blocks, CUstream stream) noexcept {
    return launch_jobs(cu, kernels, kernel::pieces, packed, given, blocks, stream);
}

error launch_piece_table(const driver_table &cu, kernel_set &kernels, const piece_packer &packed, std::uint64_t table,
                         const gpu::piece *readable, std::uint32_t blocks, CUstream stream) noexcept {
    gpu::piece_table_parameters given; // the kernel reads only the indexed part
    given.table = table;
    given.indexed = 0;
    if (readable && !packed.empty()) index_pieces(readable, packed.count(), given);
    return launch_jobs(cu, kernels, kernel::piece_table, packed, given, blocks, stream);
}

error launch_boxes(const driver_table &cu, kernel_set &kernels, const box_packer &packed, gpu::box_parameters &given,
                   std::uint64_t table, std::uint32_t blocks, CUstream stream) noexcept {
    given.table = table; // with a table, the kernel does not read the boxes in `given`
    return launch_jobs(cu, kernels, kernel::boxes, packed, given, blocks, stream);
}

error launch_array(const driver_table &cu, kernel_set &kernels, const kernel_array_box &box, std::uint32_t blocks,
                   CUstream stream) noexcept {
    const array_launch laid_out = lay_out_array(box, blocks);
    return launch(cu, kernels, kernel::array, laid_out.blocks, laid_out.parameters, stream);
}

error launch_arrays(const driver_table &cu, kernel_set &kernels, const array_packer &packed,
                    gpu::array_box_parameters &given, std::uint64_t table, std::uint32_t blocks,
                    CUstream stream) noexcept {
    given.table = table;
    return launch_jobs(cu, kernels, kernel::arrays, packed, given, blocks, stream);
}

error launch_ring(const driver_table &cu, kernel_set &kernels, kernel which, const gpu::ring_parameters &given,
                  std::uint32_t blocks, CUstream stream) noexcept {
    return launch(cu, kernels, which, blocks, given, stream);
}

error launch_link(const driver_table &cu, kernel_set &kernels, const gpu::link_parameters &given, std::uint32_t blocks,
                  CUstream stream) noexcept {
    return launch(cu, kernels, kernel::links, blocks, given, stream);
}

error launch_nest(const driver_table &cu, kernel_set &kernels, const nest &of, nest_link link, std::uint64_t skipped,
                  std::uint32_t blocks, CUstream stream) noexcept {
    const nest_launch laid_out = lay_out_nest(of, link, skipped, blocks);
    return launch(cu, kernels, laid_out.kernel, laid_out.blocks, laid_out.parameters, stream);
}

error launch_fill(const driver_table &cu, kernel_set &kernels, const kernel_fill &fill, std::uint32_t blocks,
                  CUstream stream) noexcept {
    const fill_launch laid_out = lay_out_fill_kernel(fill, blocks);
    return launch(cu, kernels, laid_out.kernel, laid_out.blocks, laid_out.parameters, stream);
}

} // namespace ferry
