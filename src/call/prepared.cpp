// Prepared batches: checked and planned once, launched as often as wanted. Their pieces that kernels copy lie in one table
// in the device's memory, which changes in the order of a stream, so that graphs see new addresses too.
#include <algorithm>
#include <new>

#include "call/batch_job.h"
#include "call/instance.h"
#include "device/capture_mode.h"
#include "route/driver_route.h"
#include "route/kernel_route.h"

using namespace ferry;

struct ferry_prepared {
    ferry_prepared(ferry_instance &of, batch_job &made) noexcept
        : instance(of), job(&made), destinations(of.allocator), sources(of.allocator), sizes(of.allocator),
          kinds(of.allocator) {}

    ferry_instance &instance;
    batch_job *job;
    std::uint64_t table = 0, table_records = 0;
    piece_table tables[piece_groups]; // parts of it
    bool takes_kernels = false;
    // Of changeable ones: what was asked for, and the group of each piece that has a size.
    bool is_changeable = false;
    std::uint32_t flags = 0;
    growing<std::uint64_t> destinations, sources, sizes;
    growing<piece_group> kinds;
};

namespace {

// ---- The table

bool has_table(const ferry_prepared &prepared, int group) noexcept {
    const batch_job &job = *prepared.job;
    if (job.pieces.facts(group).count == 0 || job.plans[group].way != batch_way::kernel) return false;
    return prepared.is_changeable || records_of(job.pieces.facts(group)) > kernels::most_pieces_in_parameters;
}

void lay_out_table(ferry_prepared &prepared) noexcept {
    for (int group = 0; group < piece_groups; ++group)
        if (has_table(prepared, group)) prepared.table_records += records_of(prepared.job->pieces.facts(group));
}

// The whole table of `job`, in pinned memory; `tables` is where each group's part will be read.
failure write_table(const ferry_prepared &prepared, const batch_job &job, void *staged,
                    piece_table (&tables)[piece_groups]) noexcept {
    auto *part = static_cast<kernels::piece *>(staged);
    std::uint64_t address = prepared.table;
    for (int group = 0; group < piece_groups; ++group) {
        tables[group] = {};
        if (!has_table(prepared, group)) continue;
        const group_facts &of = job.pieces.facts(group);
        const std::uint64_t records = records_of(of);
        tables[group] = {address,
                         piece_packer(part, static_cast<std::uint32_t>(records), cut_pieces(of.count, of.bytes))};
        if (!pack_group(job, group, tables[group].packed)) return {.status = FERRY_ERROR_OVERFLOW};
        part += records;
        address += records * sizeof(kernels::piece);
    }
    return {};
}

failure send_table(const ferry_prepared &prepared, const void *staged, CUstream stream) noexcept {
    const std::uint64_t bytes = prepared.table_records * sizeof(kernels::piece);
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

// On a stream of its own: nothing of the program's is waited for, and no capture joined.
failure send_table_and_wait(const ferry_prepared &prepared, const void *staged) noexcept {
    const driver_table &cu = prepared.instance.cu;
    CUstream stream = nullptr;
    const auto flags = static_cast<unsigned>(CU_STREAM_NON_BLOCKING);
    if (std::int32_t status = call_optional(cu.cuStreamCreateWithPriority, &stream, flags, 0))
        return {.status = status};
    failure failed = send_table(prepared, staged, stream);
    if (!failed) failed = to_failure(cu.cuStreamSynchronize(stream));
    const std::int32_t status = call_optional(cu.cuStreamDestroy, stream);
    return failed ? failed : failure{.status = status};
}

failure make_table(ferry_prepared &prepared) noexcept {
    lay_out_table(prepared);
    if (prepared.table_records == 0) return {};
    const driver_table &cu = prepared.instance.cu;
    const std::uint64_t bytes = prepared.table_records * sizeof(kernels::piece);
    const relaxed_capture_mode relaxed(cu);
    if (!relaxed.entered()) return relaxed.why();
    CUdeviceptr table = 0;
    if (CUresult result = cu.cuMemAlloc(&table, bytes)) return to_failure(result);
    prepared.table = table;
    void *staged = nullptr;
    if (failure failed = prepared.instance.tables.allocate(bytes, staged)) return failed;
    failure failed = write_table(prepared, *prepared.job, staged, prepared.tables);
    if (!failed) failed = send_table_and_wait(prepared, staged);
    prepared.instance.tables.free(staged);
    return failed;
}

// ---- Making and ending

bool keep(growing<std::uint64_t> &kept, const std::uint64_t *values, std::uint64_t count) noexcept {
    if (!kept.resize(count)) return false;
    std::copy_n(values, count, kept.begin());
    return true;
}

// The groups of a changeable one's pieces, and that there is one for each that has a size.
failure note_kinds(ferry_prepared &prepared, const batch_input &input) noexcept {
    const batch_job &job = *prepared.job;
    if (!keep(prepared.destinations, input.destinations, input.count) ||
        !keep(prepared.sources, input.sources, input.count) || !keep(prepared.sizes, input.sizes, input.count) ||
        !prepared.kinds.reserve(job.pieces.size()))
        return no_memory;
    for (const batch_piece &piece : job.pieces)
        prepared.kinds.append_reserved(group_of(job.ranges[piece.from], job.ranges[piece.to]));
    const auto with_size =
        std::count_if(input.sizes, input.sizes + input.count, [](std::uint64_t size) { return size != 0; });
    return static_cast<std::size_t>(with_size) == job.pieces.size() ? failure{} : failure{FERRY_ERROR_UNSUPPORTED};
}

failure prepare(ferry_prepared &prepared, const batch_input &input, CUstream stream) noexcept {
    ferry_instance &instance = prepared.instance;
    batch_job &job = *prepared.job;
    prepared.is_changeable = input.flags & FERRY_BATCH_CHANGEABLE;
    prepared.flags = input.flags;
    context_scope scope(instance.cu);
    if (failure failed = enter_for_batch(instance, input, stream, job, scope)) return failed;
    if (failure failed = check_batch(instance, input, !prepared.is_changeable, stream, job)) return failed;
    if (prepared.is_changeable)
        if (failure failed = note_kinds(prepared, input)) return failed;
    if (failure failed = plan_job(instance, true, nullptr, job)) return failed;
    prepared.takes_kernels = takes_kernels(job);
    return make_table(prepared);
}

failure end(ferry_prepared &prepared) noexcept {
    ferry_instance &instance = prepared.instance;
    failure failed;
    if (prepared.table) {
        const relaxed_capture_mode relaxed(instance.cu); // if it cannot be entered, there is no driver left to speak of
        failed = to_failure(instance.cu.cuMemFree(prepared.table));
    }
    instance.jobs.give_back(*prepared.job);
    prepared.~ferry_prepared();
    instance.allocator.deallocate(&prepared, sizeof(ferry_prepared));
    return failed;
}

std::int32_t create_and_report(ferry_instance *instance, const batch_input &input, std::uint32_t known_flags,
                               CUstream stream, ferry_prepared **prepared, ferry_error_info *error) noexcept {
    if (prepared) *prepared = nullptr;
    if (failure failed = check_input(instance, input, known_flags)) return report(error, failed);
    if (!prepared) return report(error, null_argument);
    batch_job *const job = instance->jobs.take();
    if (!job) return report(error, no_memory);
    void *const place = instance->allocator.allocate(sizeof(ferry_prepared), alignof(ferry_prepared));
    if (!place) {
        instance->jobs.give_back(*job);
        return report(error, no_memory);
    }
    auto *const made = new (place) ferry_prepared(*instance, *job);
    if (failure failed = prepare(*made, input, stream)) {
        const std::uint64_t index = job->bad_index;
        end(*made);
        return report(error, failed, index);
    }
    *prepared = made;
    return report(error, {});
}

// ---- Launching and changing

// The stream's context, made current, if it is of the device.
failure enter_stream(ferry_prepared &prepared, CUstream stream, context_scope &scope, CUcontext &context) noexcept {
    ferry_instance &instance = prepared.instance;
    const int wanted = prepared.job->context_device;
    context_choice choice;
    if (failure failed = choose_context(instance.cu, instance.contexts, stream, wanted, -1, choice)) return failed;
    if (failure failed = scope.enter(choice.wanted, choice.current)) return failed;
    int device = -1;
    if (failure failed = instance.contexts.device_of_current(choice.wanted, device)) return failed;
    context = choice.wanted;
    if (device == wanted) return {};
    return refuse(FERRY_ERROR_DEVICE, FERRY_SIDE_NONE, FERRY_FIELD_DEVICE, static_cast<std::uint64_t>(wanted),
                  static_cast<std::uint64_t>(device));
}

// Whether a graph would read all addresses from the table.
bool reads_all_from_table(const ferry_prepared &prepared) noexcept {
    for (int group = 0; group < piece_groups; ++group)
        if (prepared.job->pieces.facts(group).count != 0 && !prepared.tables[group].address) return false;
    return true;
}

failure launch(ferry_prepared &prepared, CUstream stream) noexcept {
    ferry_instance &instance = prepared.instance;
    context_scope scope(instance.cu);
    launch_site site = {nullptr, stream, false, prepared.tables};
    if (failure failed = enter_stream(prepared, stream, scope, site.context)) return failed;
    site.is_captured = is_being_captured(instance.cu, stream);
    // Prepared in another context of the same device, kernels may be new to this one.
    if (prepared.takes_kernels)
        if (failure failed = instance.kernels.load_into(site.context)) return failed;
    if (site.is_captured && prepared.is_changeable && !reads_all_from_table(prepared))
        return {.status = FERRY_ERROR_CAPTURE};
    return enqueue_job(instance, *prepared.job, copy_form::asynchronous, site);
}

// That only the addresses change.
failure compare_with_old(const ferry_prepared &prepared, const batch_input &input, batch_job &job) noexcept {
    std::size_t piece = 0;
    for (std::uint64_t i = 0; i < input.count; ++i) {
        if (input.sizes[i] == 0) continue;
        job.bad_index = i;
        constexpr std::uint64_t word = 16; // what units of pieces are counted from
        if ((input.destinations[i] - prepared.destinations[i]) % word)
            return refuse(FERRY_ERROR_ALIGNMENT, FERRY_SIDE_DESTINATION, FERRY_FIELD_ADDRESS, word,
                          input.destinations[i]);
        if (piece == job.pieces.size() || job.pieces[piece].destination != input.destinations[i] ||
            job.pieces[piece].size != input.sizes[i]) // it was cut where an allocation ends
            return refuse(FERRY_ERROR_OUT_OF_BOUNDS, FERRY_SIDE_NONE, FERRY_FIELD_ADDRESS);
        const batch_piece &one = job.pieces[piece];
        if (group_of(job.ranges[one.from], job.ranges[one.to]) != prepared.kinds[piece++])
            return refuse(FERRY_ERROR_KIND, FERRY_SIDE_NONE, FERRY_FIELD_KIND);
    }
    job.bad_index = 0;
    return {};
}

failure check_and_send(ferry_prepared &prepared, const batch_input &input, CUstream stream, batch_job &job) noexcept {
    ferry_instance &instance = prepared.instance;
    job.bad_index = 0;
    job.context_device = prepared.job->context_device;
    context_scope scope(instance.cu);
    if (failure failed = enter_stream(prepared, stream, scope, job.context.wanted)) return failed;
    if (is_being_captured(instance.cu, stream)) return {.status = FERRY_ERROR_CAPTURE};
    if (failure failed = check_batch(instance, input, false, stream, job)) return failed;
    if (failure failed = compare_with_old(prepared, input, job)) return failed;
    if (failure failed = plan_job(instance, true, prepared.job->plans, job)) return failed;
    if (prepared.table_records == 0) return {};
    void *staged = nullptr;
    if (failure failed = instance.tables.allocate(prepared.table_records * sizeof(kernels::piece), staged))
        return failed;
    piece_table tables[piece_groups];
    failure failed = write_table(prepared, job, staged, tables);
    if (!failed) failed = send_table(prepared, staged, stream);
    if (failed) {
        instance.tables.free(staged);
        return failed;
    }
    return free_table(instance, stream, staged);
}

failure set_addresses(ferry_prepared &prepared, const std::uint64_t *destinations, const std::uint64_t *sources,
                      CUstream stream, std::uint64_t &bad_index) noexcept {
    if (!prepared.is_changeable) return {.status = FERRY_ERROR_UNSUPPORTED};
    const batch_input input = {.destinations = destinations ? destinations : prepared.destinations.begin(),
                               .sources = sources ? sources : prepared.sources.begin(),
                               .sizes = prepared.sizes.begin(),
                               .count = prepared.sizes.size(),
                               .flags = prepared.flags};
    ferry_instance &instance = prepared.instance;
    batch_job *job = instance.jobs.take();
    if (!job) return no_memory;
    const failure failed = check_and_send(prepared, input, stream, *job);
    bad_index = failed ? job->bad_index : 0;
    if (!failed) {
        if (destinations) std::copy_n(destinations, input.count, prepared.destinations.begin());
        if (sources) std::copy_n(sources, input.count, prepared.sources.begin());
        std::swap(prepared.job, job);
    }
    instance.jobs.give_back(*job);
    return failed;
}

} // namespace

extern "C" {

int32_t ferry_prepared_create(ferry_instance *instance, const ferry_copy_desc *copies, uint64_t count, uint32_t flags,
                              CUstream_st *stream, ferry_prepared **prepared, ferry_error_info *error) {
    const batch_input input = {.copies = copies, .count = count, .flags = flags};
    return create_and_report(instance, input, FERRY_BATCH_CHECK_OVERLAP, stream, prepared, error);
}

int32_t ferry_prepared_create_pieces(ferry_instance *instance, const uint64_t *destinations, const uint64_t *sources,
                                     const uint64_t *sizes, uint64_t count, uint32_t flags, CUstream_st *stream,
                                     ferry_prepared **prepared, ferry_error_info *error) {
    const batch_input input = {
        .destinations = destinations, .sources = sources, .sizes = sizes, .count = count, .flags = flags};
    return create_and_report(instance, input, FERRY_BATCH_CHECK_OVERLAP | FERRY_BATCH_CHANGEABLE, stream, prepared,
                             error);
}

int32_t ferry_prepared_launch(ferry_prepared *prepared, CUstream_st *stream, ferry_error_info *error) {
    if (!prepared) return report(error, null_argument);
    return report(error, launch(*prepared, stream));
}

int32_t ferry_prepared_set_addresses(ferry_prepared *prepared, const uint64_t *destinations, const uint64_t *sources,
                                     CUstream_st *stream, ferry_error_info *error) {
    if (!prepared) return report(error, null_argument);
    std::uint64_t bad_index = 0;
    const failure failed = set_addresses(*prepared, destinations, sources, stream, bad_index);
    return report(error, failed, bad_index);
}

int32_t ferry_prepared_destroy(ferry_prepared *prepared) {
    if (!prepared) return FERRY_SUCCESS;
    if (prepared->instance.fork_mark.is_in_child()) return no_driver_in_child;
    return end(*prepared).status;
}

} // extern "C"
