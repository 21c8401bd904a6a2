#include "route/kernel_route.h"

#include "driver/result.h"

namespace ferry {

namespace {

using kernels::kernel;

template <class Parameters>
failure launch(const driver_table &cu, kernel_set &kernels, kernel which, std::uint32_t blocks,
               const Parameters &parameters, CUstream stream) noexcept {
    CUfunction function = nullptr;
    if (failure failed = kernels.get(which, function)) return failed;
    void *given[] = {const_cast<Parameters *>(&parameters)}; // read before the call returns
    return to_failure(
        cu.cuLaunchKernel(function, blocks, 1, 1, kernels::threads_per_block, 1, 1, 0, stream, given, nullptr));
}

} // namespace

failure launch_strided(const driver_table &cu, kernel_set &kernels, const kernel_box &box, std::uint32_t blocks,
                       CUstream stream) noexcept {
    const strided_launch laid_out = lay_out_strided(box, blocks);
    return launch(cu, kernels, laid_out.kernel, laid_out.blocks, laid_out.parameters, stream);
}

failure launch_pieces(const driver_table &cu, kernel_set &kernels, const piece_packer &packed,
                      kernels::piece_parameters &given, std::uint32_t blocks, CUstream stream) noexcept {
    if (packed.empty()) return {};
    blocks = packed.blocks_with_work(blocks);
    given.work = packed.work_for(blocks);
    return launch(cu, kernels, kernel::pieces, blocks, given, stream);
}

failure launch_piece_table(const driver_table &cu, kernel_set &kernels, const piece_packer &packed, std::uint64_t table,
                           std::uint32_t blocks, CUstream stream) noexcept {
    if (packed.empty()) return {};
    blocks = packed.blocks_with_work(blocks);
    const kernels::piece_table_parameters given = {packed.work_for(blocks), table};
    return launch(cu, kernels, kernel::piece_table, blocks, given, stream);
}

} // namespace ferry
