#include "calibrate/piece_rates.h"

#include <algorithm>

#include "driver/result.h"
#include "exec/kernel_launch.h"
#include "plan/plan.h"
#include "plan/predict.h"

namespace ferry {

namespace {

constexpr std::size_t batch_count = 128;

// Copies by cuMemcpyBatchAsync, or boxes by cuMemcpy3DBatchAsync, with the signature that the driver has.
error copy_batch(calibration_workspace &work, copy_direction direction, bool are_boxes, std::size_t count) noexcept {
    constexpr std::size_t size = 256, rows = 4, apart = 4 * KiB;
    const copy_ends base = work.ends_of(direction);
    const driver_table &cu = work.cu;
    CUmemcpyAttributes attributes = {};
    attributes.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
    CUdeviceptr to[batch_count], from[batch_count];
    std::size_t sizes[batch_count], first = 0, failed_at = 0;
    // On the stack, the boxes would take 13 KiB. No copy uses this memory now.
    static_assert(batch_count * sizeof(CUDA_MEMCPY3D_BATCH_OP) <= calibration_workspace::pageable_bytes);
    auto *const boxes = static_cast<CUDA_MEMCPY3D_BATCH_OP *>(work.pageable);
    for (std::size_t i = 0; i < count; ++i) {
        from[i] = base.source + i * apart;
        to[i] = base.destination + i * 7 % batch_count * apart;
        sizes[i] = size;
        CUDA_MEMCPY3D_BATCH_OP &box = boxes[i];
        box = {};
        box.src.type = box.dst.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
        box.src.op.ptr.ptr = from[i];
        box.dst.op.ptr.ptr = to[i];
        box.src.op.ptr.rowLength = box.dst.op.ptr.rowLength = 2 * size / rows;
        box.src.op.ptr.layerHeight = box.dst.op.ptr.layerHeight = rows;
        box.extent = {size / rows, rows, 1};
        box.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
    }
    if (are_boxes)
        return to_error(cu.cuMemcpy3DBatchAsync
                            ? cu.cuMemcpy3DBatchAsync(count, boxes, 0, work.stream)
                            : cu.cuMemcpy3DBatchAsync_v12080(count, boxes, &failed_at, 0, work.stream));
    return to_error(
        cu.cuMemcpyBatchAsync
            ? cu.cuMemcpyBatchAsync(to, from, sizes, count, &attributes, &first, 1, work.stream)
            : cu.cuMemcpyBatchAsync_v12080(to, from, sizes, count, &attributes, &first, 1, &failed_at, work.stream));
}

} // namespace

error measure_calls(calibration_workspace &work, copy_direction direction, device_profile &profile) noexcept {
    constexpr std::uint64_t count = 64, size = 256, apart = 4 * KiB;
    const auto copy_all = [&]() noexcept -> error {
        for (std::uint64_t i = 0; i < count; ++i) {
            copy_ends piece = work.ends_of(direction);
            piece.source += i * apart;
            piece.destination += i * 7 % count * apart;
            if (error failed = work.copy_by_driver(shape_of(piece, size, 1))) return failed;
        }
        return {};
    };
    std::uint64_t ns = 0;
    if (error failed = work.watch.median_of(5, copy_all, ns)) return failed;
    direction_profile &found = profile[direction];
    found.call_ns = to_fact((ns - std::min<std::uint64_t>(ns, found.driver_fixed_ns)) / (count - 1));
    return {};
}

error measure_batches(calibration_workspace &work, copy_direction direction, device_profile &profile) noexcept {
    const bool is_there[] = {work.cu.cuMemcpyBatchAsync || work.cu.cuMemcpyBatchAsync_v12080,
                             work.cu.cuMemcpy3DBatchAsync || work.cu.cuMemcpy3DBatchAsync_v12080};
    direction_profile &found = profile[direction];
    std::uint32_t *const piece_ns[] = {&found.batch_piece_ns, &found.batch_box_ns};
    for (const bool are_boxes : {false, true}) {
        if (!is_there[are_boxes]) continue;
        bool is_refused = false;
        const auto time_batches = [&](std::size_t count, std::uint64_t &ns) noexcept {
            const auto copy_some = [&]() noexcept -> error {
                if (!is_refused && copy_batch(work, direction, are_boxes, count)) is_refused = true;
                return {};
            };
            return work.watch.median_of(5, copy_some, ns);
        };
        std::uint64_t one = 0, all = 0;
        if (error failed = time_batches(1, one)) return failed;
        if (error failed = time_batches(batch_count, all)) return failed;
        if (is_refused) continue;
        *piece_ns[are_boxes] = to_fact((all - std::min(all, one)) / (batch_count - 1));
        if (!are_boxes && direction == copy_direction::host_to_device) profile.batch_fixed_ns = to_fact(one);
    }
    return {};
}

error measure_kernel_pieces(calibration_workspace &work, copy_direction direction, device_profile &profile) noexcept {
    constexpr std::uint64_t count = 4096, size = 64, apart = 512;
    constexpr std::uint64_t table_bytes = count * sizeof(gpu::piece);
    static_assert(count * apart + table_bytes <= min_host_bytes);
    const std::uint64_t table_offset = work.host_bytes - table_bytes;
    auto *const table = reinterpret_cast<gpu::piece *>(static_cast<std::byte *>(work.pinned) + table_offset);
    const shape whole = shape_of(work.ends_of(direction), count * apart, 1);
    const std::uint64_t from = work.to_device(whole.source), to = work.to_device(whole.destination);
    direction_profile &found = profile[direction];
    constexpr double bytes = count * size;
    const unsigned blocks = blocks_for(found, direction, bytes, 16, 0);
    const auto copy_all = [&]() noexcept -> error {
        piece_packer packer(table, count, cut_pieces(count, count * size));
        for (std::uint64_t i = 0; i < count; ++i)
            if (!packer.add(to + i * 7 % count * apart, from + i * apart, size))
                return {.status = FERRY_ERROR_UNSUPPORTED};
        return launch_piece_table(work.cu, *work.options.kernels, packer, work.pinned_on_device + table_offset, table,
                                  blocks, work.stream);
    };
    std::uint64_t ns = 0;
    if (error failed = work.watch.median_of(5, copy_all, ns)) return failed;
    const double rate = rate_of(found.kernel_rates[static_cast<int>(gaps::both)], size, found.kernel_line_rate);
    const std::uint64_t rest = found.kernel_fixed_ns + static_cast<std::uint64_t>(bytes * 1000 / rate);
    found.kernel_piece_ns = to_fact((ns - std::min(ns, rest)) / count);
    return {};
}

} // namespace ferry
