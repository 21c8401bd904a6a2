#include "calibrate/calibrate.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <iterator>

#include "calibrate/staged_rates.h"
#include "device/capture_mode.h"
#include "driver/result.h"
#include "exec/driver_copy.h"
#include "exec/kernel_launch.h"
#include "memory/address.h"
#include "plan/kernel_arrays.h"
#include "plan/plan.h"
#include "plan/predict.h"

namespace ferry {

namespace {

// Large enough that the bytes of a copy do not stay in a cache of the device. A buffer holds twice the bytes of a copy,
// for the gaps.
constexpr std::uint64_t max_device_bytes = 256 * MiB, min_device_bytes = 8 * MiB;
constexpr std::uint64_t max_host_bytes = 64 * MiB, min_host_bytes = 8 * MiB;
constexpr std::uint64_t pageable_bytes = 32 * MiB; // more than caches hold

// The array from which reads are measured: elements of 4 bytes, the side of a slice, and the bytes of a slice.
constexpr std::uint64_t array_side = 256, array_element = 4;
constexpr std::uint64_t array_slice = array_side * array_side * array_element;

std::uint32_t rate_in(std::uint64_t bytes, std::uint64_t ns, std::uint64_t fixed_ns) noexcept {
    // A copy that takes no longer than an empty one says nothing about its bytes. So the bytes count for at least a
    // quarter of the time.
    const std::uint64_t of_bytes = std::max(ns - std::min(ns, fixed_ns), std::max<std::uint64_t>(ns / 4, 1));
    return to_fact(bytes * 1000 / of_bytes);
}

// Both ends of a copy: where each begins, its kind of memory, and whether its rows have gaps.
struct ends {
    memory_kind source_kind, destination_kind;
    std::uint64_t source, destination;
    bool source_gaps, destination_gaps;
};

shape shape_of(const ends &ends, std::uint64_t width, std::uint64_t rows) noexcept {
    shape shape = {};
    shape.width = width;
    shape.height = rows;
    shape.depth = 1;
    const auto fill = [&](shape_end &end, memory_kind kind, std::uint64_t address, bool has_gaps) noexcept {
        end.kind = kind;
        end.device = -1;
        end.row_pitch = has_gaps ? 2 * width : width;
        end.slice_height = rows;
        end.span = {address, address + (rows - 1) * end.row_pitch + width - 1};
    };
    fill(shape.source, ends.source_kind, ends.source, ends.source_gaps);
    fill(shape.destination, ends.destination_kind, ends.destination, ends.destination_gaps);
    return shape;
}

class calibration {
public:
    calibration(const driver_table &cu, const calibration_options &options, device_profile &profile) noexcept
        : cu_(cu), options_(options), profile_(profile) {}
    ~calibration() {
        if (stream_) cu_.cuStreamSynchronize(stream_); // a copy may be in flight when another fails
        if (surface_) cu_.cuSurfObjectDestroy(surface_);
        if (array_) cu_.cuArrayDestroy(array_);
        for (const CUdeviceptr memory : device_)
            if (memory) cu_.cuMemFree(memory);
        if (pinned_) cu_.cuMemFreeHost(pinned_);
        if (pageable_) options_.memory.deallocate(pageable_, pageable_bytes);
        if (stream_) cu_.cuStreamDestroy(stream_);
    }
    calibration(const calibration &) = delete;
    calibration &operator=(const calibration &) = delete;

    error run() noexcept {
        has_kernels_ = options_.kernels && !options_.kernels->load();
        if (error failed = prepare()) return failed;
        deadline_ns_ = clock_ns() + options_.budget_ns;
        const int routes = has_kernels_ ? 2 : 1;
        cells_left_ = 3 * gap_sides * width_classes * routes + 3 * (2 + (routes - 1) * 16) + 4;
        for (const copy_direction direction :
             {copy_direction::host_to_device, copy_direction::device_to_host, copy_direction::within_device})
            if (error failed = measure_direction(direction)) return failed;
        if (error failed = measure_many_rows()) return failed;
        if (error failed = measure_array()) return failed;
        return has_kernels_ && options_.staging ? measure_staging() : ok;
    }

private:
    // Allocates `size`, or half of it, and so on down to `least`, while memory is short.
    template <class Allocate> error allocate_most(std::uint64_t &size, std::uint64_t least, const Allocate &allocate) {
        for (;; size /= 2) {
            const CUresult result = allocate(size);
            if (result != CUDA_ERROR_OUT_OF_MEMORY || size / 2 < least) return to_error(result);
        }
    }

    error prepare() noexcept {
        if (!cu_.cuStreamCreateWithPriority || !cu_.cuStreamDestroy) return {.status = FERRY_ERROR_UNSUPPORTED};
        if (CUresult result = cu_.cuStreamCreateWithPriority(&stream_, CU_STREAM_NON_BLOCKING, 0))
            return to_error(result);
        // Leave room for allocations that others make at the same time.
        std::size_t free_bytes = max_device_bytes * 8, total = 0;
        if (cu_.cuMemGetInfo)
            if (CUresult result = cu_.cuMemGetInfo(&free_bytes, &total)) return to_error(result);
        device_bytes_ = max_device_bytes;
        while (device_bytes_ > min_device_bytes && device_bytes_ > free_bytes / 8)
            device_bytes_ /= 2;
        const auto allocate_two = [&](std::uint64_t size) noexcept {
            for (CUdeviceptr &memory : device_)
                if (CUresult result = cu_.cuMemAlloc(&memory, size)) {
                    memory = 0;
                    if (device_[0]) cu_.cuMemFree(device_[0]);
                    device_[0] = 0;
                    return result;
                }
            return CUDA_SUCCESS;
        };
        if (error failed = allocate_most(device_bytes_, min_device_bytes, allocate_two)) return failed;
        host_bytes_ = max_host_bytes;
        const auto allocate_host = [&](std::uint64_t size) noexcept {
            const CUresult result = cu_.cuMemHostAlloc(&pinned_, size, 0);
            if (result) pinned_ = nullptr;
            return result;
        };
        if (error failed = allocate_most(host_bytes_, min_host_bytes, allocate_host)) return failed;
        address_facts pinned;
        if (error failed = look_up_address(cu_, reinterpret_cast<std::uintptr_t>(pinned_), ask::everything, pinned))
            return failed;
        pinned_on_device_ = pinned.device_address;
        has_kernels_ = has_kernels_ && pinned_on_device_;
        pageable_ = options_.memory.allocate(pageable_bytes, alignof(std::max_align_t));
        if (!pageable_) return no_memory;
        std::memset(pageable_, 1, pageable_bytes);
        CUDA_ARRAY3D_DESCRIPTOR array = {};
        array.Width = array.Height = array_side;
        array.Depth = std::min<std::uint64_t>(device_bytes_ / array_slice, array_side);
        array.Format = CU_AD_FORMAT_FLOAT;
        array.NumChannels = 1;
        const bool is_surface = has_kernels_ && cu_.cuSurfObjectCreate && cu_.cuSurfObjectDestroy;
        if (is_surface) array.Flags = CUDA_ARRAY3D_SURFACE_LDST;
        if (CUresult result = cu_.cuArray3DCreate(&array_, &array)) {
            array_ = nullptr;
            return to_error(result);
        }
        if (!is_surface) return {};
        CUDA_RESOURCE_DESC resource = {};
        resource.resType = CU_RESOURCE_TYPE_ARRAY;
        resource.res.array.hArray = array_;
        const CUresult result = cu_.cuSurfObjectCreate(&surface_, &resource);
        if (result) surface_ = 0;
        return to_error(result);
    }

    // Measures the time of `run` and of the work that it enqueues.
    template <class Run> error time_once(const Run &run, std::uint64_t &ns) noexcept {
        const std::uint64_t begin = clock_ns();
        if (error failed = run()) return failed;
        if (CUresult result = cu_.cuStreamSynchronize(stream_)) return to_error(result);
        ns = clock_ns() - begin;
        return {};
    }

    static constexpr int max_runs = 15;
    // Returns the median of an odd number of runs, after one warm-up run.
    template <class Run> error median_of(int runs, const Run &run, std::uint64_t &ns) noexcept {
        std::uint64_t times[max_runs];
        if (error failed = time_once(run, times[0])) return failed;
        for (int i = 0; i < runs; ++i)
            if (error failed = time_once(run, times[i])) return failed;
        std::nth_element(times, times + runs / 2, times + runs);
        ns = times[runs / 2];
        return {};
    }

    // Measures the payload rate of `run(bytes)`, in bytes per microsecond. Copies a multiple of `unit` that takes half
    // a millisecond, or this cell's share of the time left. A small copy ends before its rate shows, and stays in a
    // cache. Copies at least `wanted` bytes if that does not take much longer.
    template <class Run>
    error rate_of_run(std::uint64_t unit, std::uint64_t most, std::uint64_t fixed_ns, const Run &run,
                      std::uint32_t &rate, std::uint64_t wanted = 0) noexcept {
        constexpr int runs = 3;
        constexpr std::uint64_t growth = 8, max_target_ns = 500'000;
        const std::uint64_t now = clock_ns(), left = deadline_ns_ - std::min(now, deadline_ns_);
        const std::uint64_t share = left / static_cast<std::uint64_t>(std::max(cells_left_--, 1)) / (runs + 2);
        const std::uint64_t target_ns = std::clamp<std::uint64_t>(share, 10'000, max_target_ns);
        const std::uint64_t all = most / unit * unit;
        std::uint64_t bytes = std::min(all, std::max<std::uint64_t>(unit, 16 * KiB / unit * unit)), ns = 0;
        const auto run_all = [&]() noexcept { return run(bytes); };
        if (error failed = time_once(run_all, ns)) return failed; // warm-up
        for (;; bytes = std::min(all, bytes * growth)) {
            if (error failed = time_once(run_all, ns)) return failed;
            if (bytes == all || ns > fixed_ns + target_ns / growth) break;
        }
        const auto bytes_in = [&](std::uint64_t time_ns) noexcept {
            return std::clamp(rate_in(bytes, ns, fixed_ns) * time_ns / 1000 / unit * unit, unit, all);
        };
        bytes = std::clamp(wanted / unit * unit, bytes_in(target_ns), bytes_in(4 * target_ns));
        if (error failed = median_of(runs, run_all, ns)) return failed;
        rate = rate_in(bytes, ns, fixed_ns);
        return {};
    }

    error copy_by_driver(const shape &shape) noexcept {
        return run_driver_route(cu_, shape, {}, copy_form::asynchronous, {}, stream_);
    }
    error copy_by_kernel(const shape &shape, unsigned blocks) noexcept {
        const kernel_box box = box_of(shape, to_device(shape.destination), to_device(shape.source));
        return launch_strided(cu_, *options_.kernels, box, blocks, stream_);
    }
    // Pinned memory may have another address on the device than on the host.
    std::uint64_t to_device(const shape_end &end) const noexcept {
        const auto host = reinterpret_cast<std::uintptr_t>(pinned_);
        return end.kind == memory_kind::pinned ? pinned_on_device_ + (end.span.first - host) : end.span.first;
    }

    ends ends_of(copy_direction direction) const noexcept {
        const auto host = reinterpret_cast<std::uintptr_t>(pinned_);
        switch (direction) {
        case copy_direction::host_to_device:
            return {memory_kind::pinned, memory_kind::device, host, device_[0], false, false};
        case copy_direction::device_to_host:
            return {memory_kind::device, memory_kind::pinned, device_[0], host, false, false};
        default:
            return {memory_kind::device, memory_kind::device, device_[0], device_[1], false, false};
        }
    }
    std::uint64_t room_of(copy_direction direction) const noexcept {
        return direction == copy_direction::within_device ? device_bytes_ : std::min(device_bytes_, host_bytes_);
    }

    error measure_direction(copy_direction direction) noexcept {
        direction_profile &found = profile_[direction];
        const ends line = ends_of(direction);
        const std::uint64_t room = room_of(direction);
        const auto line_of = [&](std::uint64_t bytes) noexcept { return shape_of(line, bytes, 1); };

        std::uint64_t ns = 0;
        constexpr int small_runs = 9;
        constexpr std::uint64_t small = 4;
        if (error failed = median_of(
                small_runs, [&]() noexcept { return copy_by_driver(line_of(small)); }, ns))
            return failed;
        found.driver_fixed_ns = to_fact(ns);
        if (error failed = rate_of_run(
                64 * KiB, room, found.driver_fixed_ns,
                [&](std::uint64_t bytes) noexcept { return copy_by_driver(line_of(bytes)); }, found.driver_line_rate))
            return failed;
        if (error failed = measure_pageable(direction)) return failed;
        if (error failed = measure_calls(direction)) return failed;
        if (has_kernels_)
            if (error failed = measure_kernel_lines(direction)) return failed;
        if (error failed = measure_batches(direction)) return failed;
        if (error failed = measure_rows(direction)) return failed;
        return has_kernels_ ? measure_kernel_pieces(direction) : ok;
    }

    error measure_pageable(copy_direction direction) noexcept {
        direction_profile &found = profile_[direction];
        if (direction == copy_direction::within_device) {
            found.driver_pageable_rate = found.driver_line_rate; // neither end is host memory
            return {};
        }
        ends ends = ends_of(direction);
        const bool to_device = direction == copy_direction::host_to_device;
        (to_device ? ends.source : ends.destination) = reinterpret_cast<std::uintptr_t>(pageable_);
        (to_device ? ends.source_kind : ends.destination_kind) = memory_kind::pageable;
        return rate_of_run(
            64 * KiB, std::min(8 * MiB, device_bytes_), found.driver_fixed_ns,
            [&](std::uint64_t bytes) noexcept { return copy_by_driver(shape_of(ends, bytes, 1)); },
            found.driver_pageable_rate);
    }

    // If there are no threads or no memory for staging, its numbers stay as they were.
    error measure_staging() noexcept {
        if (options_.staging->prepare(options_.device)) return {};
        const staging_ground ground = {.engine = *options_.staging,
                                       .device = options_.device,
                                       .context = options_.context,
                                       .stream = stream_,
                                       .on_device = device_[0],
                                       .pageable = static_cast<std::byte *>(pageable_),
                                       .pinned = static_cast<std::byte *>(pinned_),
                                       .size = std::min({pageable_bytes, host_bytes_, device_bytes_})};
        return calibrate_staging(cu_, ground, profile_);
    }

    // Measures many small pieces, each copied by its own call.
    error measure_calls(copy_direction direction) noexcept {
        constexpr std::uint64_t count = 64, size = 256, apart = 4 * KiB;
        const auto copy_all = [&]() noexcept -> error {
            for (std::uint64_t i = 0; i < count; ++i) {
                ends piece = ends_of(direction);
                piece.source += i * apart;
                piece.destination += i * 7 % count * apart;
                if (error failed = copy_by_driver(shape_of(piece, size, 1))) return failed;
            }
            return {};
        };
        std::uint64_t ns = 0;
        if (error failed = median_of(5, copy_all, ns)) return failed;
        direction_profile &found = profile_[direction];
        found.call_ns = to_fact((ns - std::min<std::uint64_t>(ns, found.driver_fixed_ns)) / (count - 1));
        return {};
    }

    static constexpr std::size_t batch_count = 128;

    // Copies by cuMemcpyBatchAsync, or boxes by cuMemcpy3DBatchAsync, in the signature that the driver has.
    error copy_batch(copy_direction direction, bool are_boxes, std::size_t count) noexcept {
        constexpr std::size_t size = 256, rows = 4, apart = 4 * KiB;
        const ends base = ends_of(direction);
        CUmemcpyAttributes attributes = {};
        attributes.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
        CUdeviceptr to[batch_count], from[batch_count];
        std::size_t sizes[batch_count], first = 0, failed_at = 0;
        CUDA_MEMCPY3D_BATCH_OP boxes[batch_count];
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
            return to_error(cu_.cuMemcpy3DBatchAsync
                                ? cu_.cuMemcpy3DBatchAsync(count, boxes, 0, stream_)
                                : cu_.cuMemcpy3DBatchAsync_v12080(count, boxes, &failed_at, 0, stream_));
        return to_error(
            cu_.cuMemcpyBatchAsync
                ? cu_.cuMemcpyBatchAsync(to, from, sizes, count, &attributes, &first, 1, stream_)
                : cu_.cuMemcpyBatchAsync_v12080(to, from, sizes, count, &attributes, &first, 1, &failed_at, stream_));
    }

    // A driver with the entry point may still refuse the call. Then the number stays as it was. If the refusal broke
    // the context, the stream reports it.
    error measure_batches(copy_direction direction) noexcept {
        const bool is_there[] = {cu_.cuMemcpyBatchAsync || cu_.cuMemcpyBatchAsync_v12080,
                                 cu_.cuMemcpy3DBatchAsync || cu_.cuMemcpy3DBatchAsync_v12080};
        direction_profile &found = profile_[direction];
        std::uint32_t *const piece_ns[] = {&found.batch_piece_ns, &found.batch_box_ns};
        for (const bool are_boxes : {false, true}) {
            if (!is_there[are_boxes]) continue;
            bool is_refused = false;
            const auto time_batches = [&](std::size_t count, std::uint64_t &ns) noexcept {
                const auto copy_some = [&]() noexcept -> error {
                    if (!is_refused && copy_batch(direction, are_boxes, count)) is_refused = true;
                    return {};
                };
                return median_of(5, copy_some, ns);
            };
            std::uint64_t one = 0, all = 0;
            if (error failed = time_batches(1, one)) return failed;
            if (error failed = time_batches(batch_count, all)) return failed;
            if (is_refused) continue;
            *piece_ns[are_boxes] = to_fact((all - std::min(all, one)) / (batch_count - 1));
            if (!are_boxes && direction == copy_direction::host_to_device) profile_.batch_fixed_ns = to_fact(one);
        }
        return {};
    }

    error measure_kernel_lines(copy_direction direction) noexcept {
        direction_profile &found = profile_[direction];
        const std::uint64_t room = room_of(direction);
        const auto rate_with = [&](unsigned blocks, std::uint64_t offset, std::uint32_t &rate) noexcept {
            ends line = ends_of(direction);
            line.source += offset;
            return rate_of_run(
                64 * KiB, room - 64 * KiB, found.kernel_fixed_ns,
                [&](std::uint64_t bytes) noexcept { return copy_by_kernel(shape_of(line, bytes, 1), blocks); }, rate);
        };
        std::uint64_t ns = 0;
        if (error failed = median_of(
                9, [&]() noexcept { return copy_by_kernel(shape_of(ends_of(direction), 4, 1), 1); }, ns))
            return failed;
        found.kernel_fixed_ns = to_fact(ns);
        // Takes the fewest blocks that come close to the best rate. Links need few blocks, device memory needs many on
        // each SM.
        const bool is_within = direction == copy_direction::within_device;
        const unsigned first = is_within ? static_cast<unsigned>(std::max(options_.multiprocessors, 1)) : 1;
        constexpr int steps = 6;
        std::uint32_t rates[steps];
        for (int step = 0; step < steps; ++step)
            if (error failed = rate_with(std::min(first << step, 0xffffu), 0, rates[step])) return failed;
        const std::uint32_t best = *std::max_element(rates, rates + steps);
        int enough = 0;
        while (rates[enough] < best / 100 * 97)
            ++enough;
        found.kernel_blocks = std::min(first << enough, 0xffffu);
        found.kernel_line_rate = rates[enough];
        found.kernel_block_rate = rates[0];
        if (is_within)
            if (error failed = rate_with(1, 0, found.kernel_block_rate)) return failed;
        // The ends share no alignment beyond an access of this size.
        constexpr unsigned widest = 1 << (access_classes - 1);
        for (int access = 0; access < access_classes; ++access) {
            const unsigned size = 1u << access;
            const unsigned blocks = blocks_for(found, direction, static_cast<double>(room), size, 0);
            if (error failed = rate_with(blocks, size % widest, found.kernel_access_rates[access])) return failed;
        }
        return {};
    }

    error measure_rows(copy_direction direction) noexcept {
        direction_profile &found = profile_[direction];
        for (int side = 0; side < gap_sides; ++side) {
            ends ends = ends_of(direction);
            ends.source_gaps = side != static_cast<int>(gaps::destination);
            ends.destination_gaps = side != static_cast<int>(gaps::source);
            for (int at = 0; at < width_classes; ++at) {
                const std::uint64_t width = 1ull << at, unit = 2 * width; // at least two rows
                const std::uint64_t most = room_of(direction) / 2;
                // The driver copies few rows within the device by another method.
                const std::uint64_t many = direction == copy_direction::within_device ? many_rows * width : 0;
                const auto by_driver = [&](std::uint64_t bytes) noexcept {
                    return copy_by_driver(shape_of(ends, width, bytes / width));
                };
                if (error failed =
                        rate_of_run(unit, most, found.driver_fixed_ns, by_driver, found.driver_rates[side][at], many))
                    return failed;
                if (!has_kernels_) continue;
                const auto by_kernel = [&](std::uint64_t bytes) noexcept {
                    const auto access = static_cast<unsigned>(std::min<std::uint64_t>(width, 16));
                    const unsigned blocks = blocks_for(found, direction, static_cast<double>(bytes), access, 0);
                    return copy_by_kernel(shape_of(ends, width, bytes / width), blocks);
                };
                if (error failed =
                        rate_of_run(unit, most, found.kernel_fixed_ns, by_kernel, found.kernel_rates[side][at]))
                    return failed;
            }
        }
        return {};
    }

    // Measures the fixed time of the driver's method for many rows.
    error measure_many_rows() noexcept {
        ends ends = ends_of(copy_direction::within_device);
        ends.source_gaps = true;
        constexpr std::uint64_t width = 4;
        const auto &within = profile_[copy_direction::within_device];
        std::uint64_t ns = 0;
        if (error failed = median_of(
                9, [&]() noexcept { return copy_by_driver(shape_of(ends, width, many_rows)); }, ns))
            return failed;
        const double rate = rate_of(within.driver_rates[static_cast<int>(gaps::source)], width, 1);
        const auto of_rows = static_cast<std::uint64_t>(many_rows * width * 1000 / rate);
        profile_.many_rows_fixed_ns =
            to_fact(std::max<std::uint64_t>(ns - std::min(ns, of_rows), within.driver_fixed_ns));
        return {};
    }

    // Measures many small pieces by one launch. Each time the host writes the table and the device reads it.
    error measure_kernel_pieces(copy_direction direction) noexcept {
        constexpr std::uint64_t count = 4096, size = 64, apart = 512;
        constexpr std::uint64_t table_bytes = count * sizeof(kernels::piece);
        static_assert(count * apart + table_bytes <= min_host_bytes);
        const std::uint64_t table_offset = host_bytes_ - table_bytes;
        auto *const table = reinterpret_cast<kernels::piece *>(static_cast<std::byte *>(pinned_) + table_offset);
        const shape whole = shape_of(ends_of(direction), count * apart, 1);
        const std::uint64_t from = to_device(whole.source), to = to_device(whole.destination);
        direction_profile &found = profile_[direction];
        constexpr double bytes = count * size;
        const unsigned blocks = blocks_for(found, direction, bytes, 16, 0);
        const auto copy_all = [&]() noexcept -> error {
            piece_packer packer(table, count, cut_pieces(count, count * size));
            for (std::uint64_t i = 0; i < count; ++i)
                if (!packer.add(to + i * 7 % count * apart, from + i * apart, size))
                    return {.status = FERRY_ERROR_UNSUPPORTED};
            return launch_piece_table(cu_, *options_.kernels, packer, pinned_on_device_ + table_offset, table, blocks,
                                      stream_);
        };
        std::uint64_t ns = 0;
        if (error failed = median_of(5, copy_all, ns)) return failed;
        const double rate = rate_of(found.kernel_rates[static_cast<int>(gaps::both)], size, found.kernel_line_rate);
        const std::uint64_t rest = found.kernel_fixed_ns + static_cast<std::uint64_t>(bytes * 1000 / rate);
        found.kernel_piece_ns = to_fact((ns - std::min(ns, rest)) / count);
        return {};
    }

    // Measures boxes from the array into linear device memory.
    error measure_array() noexcept {
        const std::uint64_t fixed_ns = profile_[copy_direction::within_device].driver_fixed_ns;
        const auto copy_box = [&](std::uint64_t x, std::uint64_t side, std::uint64_t depth) noexcept {
            shape box = shape_of({memory_kind::array, memory_kind::device, 0, device_[0], false, false},
                                 side * array_element, side);
            box.depth = depth;
            box.source.array = array_;
            box.source.x = x * array_element;
            return copy_by_driver(box);
        };
        const std::uint64_t most = std::min(device_bytes_, array_side * array_slice);
        if (error failed = rate_of_run(
                array_slice, most, fixed_ns,
                [&](std::uint64_t bytes) noexcept { return copy_box(0, array_side, bytes / array_slice); },
                profile_.array_driver_rate))
            return failed;
        const auto copy_boxes = [&](std::uint64_t count) noexcept -> error {
            for (std::uint64_t i = 0; i < count; ++i)
                if (error failed = copy_box(i * box_side % array_side, box_side, box_side)) return failed;
            return {};
        };
        if (error failed = measure_boxes(fixed_ns, profile_.array_call_ns, copy_boxes)) return failed;
        return surface_ ? measure_array_kernel(most) : ok;
    }

    // Measures small boxes, no more than fit into the parameters of one launch.
    static constexpr std::uint64_t box_side = 16, box_count = 32;
    static_assert(box_count <= kernels::max_array_boxes_in_parameters);
    template <class Copy>
    error measure_boxes(std::uint64_t fixed_ns, std::uint32_t &box_ns, const Copy &copy_boxes) noexcept {
        std::uint64_t ns = 0;
        if (error failed = median_of(
                5, [&]() noexcept { return copy_boxes(box_count); }, ns))
            return failed;
        box_ns = to_fact((ns - std::min(ns, fixed_ns)) / (box_count - 1));
        return {};
    }

    // Returns box `i`. At both ends it lies beside the box before it.
    kernel_array_box array_box(std::uint64_t i, std::uint64_t side, std::uint64_t depth) const noexcept {
        const std::uint64_t width = side * array_element, size = width * side * depth;
        return {.destination = {device_[0] + i * size, width, width * side},
                .surface = surface_,
                .form = array_form_of(array_side, array_side, false),
                .x = i * width % (array_side * array_element),
                .y = 0,
                .z = 0,
                .width = width,
                .height = side,
                .depth = depth};
    }

    unsigned blocks_for_array(std::uint64_t bytes) const noexcept {
        constexpr unsigned widest_access = 1 << (access_classes - 1);
        return blocks_for(profile_[copy_direction::within_device], copy_direction::within_device,
                          static_cast<double>(bytes), widest_access, 0, true);
    }

    // Copies all boxes by one launch.
    error copy_boxes_by_kernel(std::uint64_t count) noexcept {
        constexpr std::uint64_t size = box_side * box_side * box_side * array_element;
        kernels::array_box_parameters given;
        array_packer packer(given.boxes, kernels::max_array_boxes_in_parameters, cut_array_boxes(count, count * size));
        for (std::uint64_t i = 0; i < count; ++i)
            if (packer.add(array_box(i, box_side, box_side)) != pack_result::added)
                return {.status = FERRY_ERROR_UNSUPPORTED};
        return launch_arrays(cu_, *options_.kernels, packer, given, blocks_for_array(count * size), stream_);
    }

    error measure_array_kernel(std::uint64_t most) noexcept {
        const std::uint64_t fixed_ns = profile_[copy_direction::within_device].kernel_fixed_ns;
        const auto copy_whole = [&](std::uint64_t bytes) noexcept {
            return launch_array(cu_, *options_.kernels, array_box(0, array_side, bytes / array_slice),
                                blocks_for_array(bytes), stream_);
        };
        if (error failed = rate_of_run(array_slice, most, fixed_ns, copy_whole, profile_.array_kernel_rate))
            return failed;
        return measure_boxes(fixed_ns, profile_.array_kernel_box_ns,
                             [&](std::uint64_t count) noexcept { return copy_boxes_by_kernel(count); });
    }

    const driver_table &cu_;
    const calibration_options &options_;
    device_profile &profile_;
    CUstream stream_ = nullptr;
    CUdeviceptr device_[2] = {};
    void *pinned_ = nullptr, *pageable_ = nullptr;
    CUarray array_ = nullptr;
    CUsurfObject surface_ = 0; // of the array, if kernels can read it
    std::uint64_t pinned_on_device_ = 0;
    bool has_kernels_ = false;
    std::uint64_t device_bytes_ = 0, host_bytes_ = 0;
    std::uint64_t deadline_ns_ = 0;
    int cells_left_ = 0;
};

} // namespace

error calibrate(const driver_table &cu, const calibration_options &options, device_profile &profile) noexcept {
    const relaxed_capture_mode relaxed(cu); // calibration allocates, which a capture on another thread forbids
    if (!relaxed.entered()) return relaxed.why();
    device_profile found = profile;
    error failed;
    {
        calibration measuring(cu, options, found);
        failed = measuring.run();
    }
    if (!failed) profile = found;
    return failed;
}

} // namespace ferry
