#include "batch/launches.h"

#include "device/capture_mode.h"
#include "device/tracked_contexts.h"
#include "driver/result.h"
#include "exec/kernel_box_launcher.h"

namespace ferry {

namespace {

constexpr error too_large = {.status = FERRY_ERROR_OVERFLOW}; // more bytes than any memory holds

// ---- Tables

// Returns null if the records fit the parameters, or if memory runs out. A graph outlives the call, so a captured batch
// uses no table: its records are in the parameters of as many launches as necessary.
void *take_table(const batch_submission &of, std::uint64_t records, std::uint64_t in_parameters,
                 std::uint64_t record_size) noexcept {
    void *table = nullptr;
    if (records <= in_parameters || records > UINT32_MAX || of.site.is_captured) return nullptr;
    return of.instance.tables.allocate(records * record_size, table, !of.site.no_wait) ? nullptr : table;
}

// Calls launch(address), and frees the table after the launches.
template <class Launch> error launch_from(const batch_submission &of, void *table, const Launch &launch) noexcept {
    address_facts facts;
    error failed =
        look_up_address(of.instance.cu, reinterpret_cast<std::uintptr_t>(table), address_query::everything, facts);
    if (!failed) failed = launch(facts.device_address);
    const error passed =
        free_table(of.instance, of.site.stream, table); // on failure, some launches may have been enqueued
    return failed ? failed : passed;
}

// ---- Pieces

[[gnu::always_inline]] inline bool pack(const known_ranges &ranges, const batch_piece &piece,
                                        piece_packer &packed) noexcept {
    return packed.add(piece.destination + ranges[piece.to].alias, piece.source + ranges[piece.from].alias, piece.size);
}

// Not inline, because the parameters would be on the stack of every batch.
[[gnu::noinline]] error launch_in_parameters(const batch_submission &of, int group, std::uint32_t blocks) noexcept {
    const batch_request &request = of.request;
    const group_facts &facts = request.pieces.facts(group);
    const team_cut cut = cut_pieces(facts.count, facts.bytes);
    const batch_piece *next = request.pieces.begin(group);
    const batch_piece *const end = request.pieces.end(group);
    while (next != end) {
        gpu::piece_parameters given;
        piece_packer packer(given.pieces, gpu::max_pieces_in_parameters, cut);
        while (next != end && pack(request.ranges, *next, packer))
            ++next;
        if (packer.empty()) return too_large;
        if (error failed = launch_pieces(of.instance.cu, of.instance.kernels, packer, given, blocks, of.site.stream))
            return failed;
    }
    return {};
}

} // namespace

std::uint64_t records_of(const group_facts &group) noexcept {
    return group.count + group.bytes / piece_packer::max_record;
}

bool pack_group(const batch_request &request, int group, piece_packer &packed) noexcept {
    for (const batch_piece *piece = request.pieces.begin(group); piece != request.pieces.end(group); ++piece)
        if (!pack(request.ranges, *piece, packed)) return false;
    return true;
}

error free_table(ferry_instance &instance, CUstream stream, void *table) noexcept {
    if (!instance.tables.free_on(stream, table)) return {};
    const relaxed_capture_mode relaxed(instance.cu); // a wait would break a capture of another thread
    const error failed = relaxed.entered() ? to_error(instance.cu.cuStreamSynchronize(stream)) : relaxed.why();
    const bool is_over = !failed || (means_dead_context(failed.status) && current_context_has_died(instance.cu));
    if (is_over) instance.tables.free(table); // otherwise the block leaks, because kernels may still read it
    return failed;
}

error run_piece_kernel(const batch_submission &of, const batch_step &step) noexcept {
    const auto group = static_cast<int>(step.group);
    const auto launch = [&](const piece_packer &packed, std::uint64_t address, const gpu::piece *readable) noexcept {
        return launch_piece_table(of.instance.cu, of.instance.kernels, packed, address, readable, step.blocks,
                                  of.site.stream);
    };
    if (of.site.tables && of.site.tables[group].address)
        return launch(of.site.tables[group].packed, of.site.tables[group].address, nullptr);
    const group_facts &facts = of.request.pieces.facts(group);
    const std::uint64_t records = records_of(facts);
    void *const table = take_table(of, records, gpu::max_pieces_in_parameters, sizeof(gpu::piece));
    if (!table) return launch_in_parameters(of, group, step.blocks);
    return launch_from(of, table, [&](std::uint64_t address) noexcept -> error {
        auto *const pieces = static_cast<gpu::piece *>(table);
        piece_packer packer(pieces, static_cast<std::uint32_t>(records), cut_pieces(facts.count, facts.bytes));
        return pack_group(of.request, group, packer) ? launch(packer, address, pieces) : too_large;
    });
}

// ---- Boxes

namespace {

kernel_box box_for(linear_boxes, const batch_request &request, const batch_box &box) noexcept {
    return box_of(box.shape, box.shape.destination.span.first + request.ranges[box.to].alias,
                  box.shape.source.span.first + request.ranges[box.from].alias);
}

kernel_array_box box_for(array_boxes, const batch_request &request, const batch_box &box) noexcept {
    kernel_views views;
    views.source = request.array_views[box.from];
    views.destination.address = box.shape.destination.span.first + request.ranges[box.to].alias;
    return array_box_of(box.shape, views);
}

template <class Kind>
error launch_boxes_of(const batch_submission &of, const batch_steps &steps, const batch_step &step) noexcept {
    const auto launch = [&](const box_table<Kind> &table) noexcept -> error {
        box_launcher<Kind> launcher(of.instance.cu, of.instance.kernels, Kind::cut(step.copies, step.bytes),
                                    step.blocks, of.site.stream, table);
        const auto add = [&](const batch_box &box) noexcept { return launcher.add(box_for(Kind{}, of.request, box)); };
        if (error failed = steps.for_each_box(step, of.request.boxes, add)) return failed;
        return launcher.launch();
    };
    using record = typename Kind::record;
    void *const table = take_table(of, step.copies, Kind::max_in_parameters, sizeof(record));
    if (!table) return launch({});
    return launch_from(of, table, [&](std::uint64_t address) noexcept {
        return launch({static_cast<record *>(table), static_cast<std::uint32_t>(step.copies), address});
    });
}

} // namespace

error run_box_kernel(const batch_submission &of, const batch_steps &steps, const batch_step &step) noexcept {
    return step.source == from_array ? launch_boxes_of<array_boxes>(of, steps, step)
                                     : launch_boxes_of<linear_boxes>(of, steps, step);
}

} // namespace ferry
