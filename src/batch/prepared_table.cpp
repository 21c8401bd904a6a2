#include "batch/prepared_table.h"

#include "batch/launches.h"
#include "device/capture_mode.h"
#include "exec/driver_copy.h"

namespace ferry {

namespace {

bool has_table(const ferry_prepared &prepared, int group) noexcept {
    const batch_request &request = *prepared.request;
    if (request.pieces.facts(group).count == 0 || request.plans[group].route != batch_route::kernel) return false;
    return prepared.options.is_updatable || records_of(request.pieces.facts(group)) > gpu::max_pieces_in_parameters;
}

std::uint64_t bytes_of_table(const ferry_prepared &prepared) noexcept {
    return prepared.table_records * sizeof(gpu::piece) + prepared.index_bytes;
}

budget &budget_of(const ferry_prepared &prepared) noexcept {
    return prepared.instance.device_memory[prepared.request->context_device];
}

void lay_out_table(ferry_prepared &prepared) noexcept {
    for (int group = 0; group < piece_groups; ++group)
        if (has_table(prepared, group)) prepared.table_records += records_of(prepared.request->pieces.facts(group));
    for (const prepared_nest &one : prepared.nests)
        prepared.index_bytes += bytes_of_host_indices(one.seen);
}

// Writes the lists of indices in host memory behind the records.
void write_indices(ferry_prepared &prepared, void *staged) noexcept {
    std::uint64_t at = prepared.table_records * sizeof(gpu::piece);
    for (prepared_nest &one : prepared.nests) {
        const std::uint64_t bytes = bytes_of_host_indices(one.seen);
        auto *const to = static_cast<std::byte *>(staged) + at;
        move_indices(one.seen, reinterpret_cast<std::uint64_t *>(to), prepared.table + at);
        at += bytes;
    }
}

// Writes the whole table of `request` into pinned memory. `tables` states where the part of each group will be read.
error write_table(const ferry_prepared &prepared, const batch_request &request, void *staged,
                  piece_table (&tables)[piece_groups]) noexcept {
    auto *part = static_cast<gpu::piece *>(staged);
    std::uint64_t address = prepared.table;
    for (int group = 0; group < piece_groups; ++group) {
        tables[group] = {};
        if (!has_table(prepared, group)) continue;
        const group_facts &of = request.pieces.facts(group);
        const std::uint64_t records = records_of(of);
        tables[group] = {address,
                         piece_packer(part, static_cast<std::uint32_t>(records), cut_pieces(of.count, of.bytes))};
        if (!pack_group(request, group, tables[group].packed)) return {.status = FERRY_ERROR_OVERFLOW};
        part += records;
        address += records * sizeof(gpu::piece);
    }
    return {};
}

error send_table(const ferry_prepared &prepared, const void *staged, CUstream stream) noexcept {
    const std::uint64_t bytes = bytes_of_table(prepared);
    const auto from = reinterpret_cast<std::uintptr_t>(staged);
    shape line = {};
    line.width = bytes;
    line.height = line.depth = 1;
    line.source.kind = memory_kind::pinned;
    line.destination.kind = memory_kind::device;
    line.source.device = line.destination.device = -1;
    line.source.span = {from, from + (bytes - 1)};
    line.destination.span = {prepared.table, prepared.table + (bytes - 1)};
    return run_driver_route(prepared.instance.cu, line, {}, copy_form::asynchronous, {}, stream);
}

// Uses an internal stream, so that it waits for no work of the program and joins no capture.
error send_table_and_wait(const ferry_prepared &prepared, const void *staged) noexcept {
    const driver_table &cu = prepared.instance.cu;
    CUstream stream = nullptr;
    const auto flags = static_cast<unsigned>(CU_STREAM_NON_BLOCKING);
    if (status_code status = call_optional(cu.cuStreamCreateWithPriority, &stream, flags, 0)) return {.status = status};
    error failed = send_table(prepared, staged, stream);
    if (!failed) failed = to_error(cu.cuStreamSynchronize(stream));
    const status_code status = call_optional(cu.cuStreamDestroy, stream);
    return failed ? failed : error{.status = status};
}

void leave_budget(const ferry_prepared &prepared) noexcept {
    if (prepared.table) budget_of(prepared).give_back(bytes_of_table(prepared));
}

// Writes the whole table and sends it to the device.
error fill_table(ferry_prepared &prepared) noexcept {
    void *staged = nullptr;
    if (error failed = prepared.instance.tables.allocate(bytes_of_table(prepared), staged)) return failed;
    error failed = write_table(prepared, *prepared.request, staged, prepared.tables);
    write_indices(prepared, staged);
    if (!failed) failed = send_table_and_wait(prepared, staged);
    prepared.instance.tables.free(staged);
    return failed;
}

} // namespace

error make_table(ferry_prepared &prepared) noexcept {
    lay_out_table(prepared);
    const driver_table &cu = prepared.instance.cu;
    const std::uint64_t bytes = bytes_of_table(prepared);
    if (bytes == 0) return {};
    const relaxed_capture_mode relaxed(cu);
    if (!relaxed.entered()) return relaxed.why();
    budget &of_device = budget_of(prepared);
    if (!of_device.take(bytes)) return of_device.refuse(FERRY_FIELD_MAX_DEVICE_BYTES, bytes);
    CUdeviceptr table = 0;
    if (call_result result = cu.cuMemAlloc(&table, bytes)) {
        of_device.give_back(bytes);
        return to_error(result);
    }
    prepared.table = table;
    if (call_optional(cu.cuCtxGetId, prepared.request->context.wanted, &prepared.context_number))
        prepared.context_number = 0;
    const error failed = fill_table(prepared);
    if (failed) { // while the context is current
        static_cast<void>(cu.cuMemFree(table));
        leave_budget(prepared);
        prepared.table = 0;
    }
    return failed;
}

namespace {

bool is_table_gone(const ferry_prepared &prepared) noexcept {
    return !prepared.table ||
           (prepared.context_number && refuse_another_context(prepared.instance.cu, prepared.request->context.wanted,
                                                              prepared.context_number) != FERRY_SUCCESS);
}

error free_memory_of(const ferry_prepared &prepared) noexcept {
    const driver_table &cu = prepared.instance.cu;
    if (is_table_gone(prepared)) return {};
    const relaxed_capture_mode relaxed(cu); // if it cannot be entered, the driver is unloaded
    context_scope scope(cu);
    if (error failed = scope.enter(prepared.request->context.wanted)) return failed;
    return to_error(cu.cuMemFree(prepared.table));
}

} // namespace

error free_table_of(const ferry_prepared &prepared) noexcept {
    const error failed = free_memory_of(prepared);
    leave_budget(prepared);
    return failed;
}

error defer_table_of(const ferry_prepared &prepared, CUstream stream) noexcept {
    const batch_request &request = *prepared.request;
    if (!is_table_gone(prepared))
        if (error failed = prepared.instance.deferred.defer(prepared.table, bytes_of_table(prepared),
                                                            request.context_device, request.context.wanted, stream))
            return failed;
    leave_budget(prepared);
    return {};
}

error change_table(const ferry_prepared &prepared, const batch_request &request, CUstream stream) noexcept {
    if (prepared.table_records == 0) return {};
    void *staged = nullptr;
    if (error failed = prepared.instance.tables.allocate(bytes_of_table(prepared), staged)) return failed;
    piece_table tables[piece_groups];
    error failed = write_table(prepared, request, staged, tables);
    if (!failed) failed = send_table(prepared, staged, stream);
    if (failed) {
        prepared.instance.tables.free(staged);
        return failed;
    }
    free_table(prepared.instance, stream, staged); // if this fails, the new addresses are enqueued anyway
    return {};
}

} // namespace ferry
