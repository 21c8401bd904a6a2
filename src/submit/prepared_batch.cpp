#include "submit/prepared_batch.h"

#include <algorithm>
#include <new>

#include "device/capture_mode.h"
#include "submit/prepared_table.h"
#include "submit/staging_setup.h"

namespace ferry {

// ---- Making and ending

namespace {

bool keep(growing<std::uint64_t> &kept, const std::uint64_t *values, std::uint64_t count) noexcept {
    if (!kept.resize(count)) return false;
    std::copy_n(values, count, kept.begin());
    return true;
}

// Whether a piece of the input is one of the job: it is cut where an allocation ends.
bool is_whole(const batch_input &input, std::uint64_t index, const batch_job &job, std::size_t piece) noexcept {
    return piece < job.pieces.size() && job.pieces[piece].destination == input.destinations[index] &&
           job.pieces[piece].size == input.sizes[index];
}

failure refuse_cut(std::uint64_t index, batch_job &job) noexcept {
    job.bad_index = index;
    return refuse(FERRY_ERROR_OUT_OF_BOUNDS, FERRY_SIDE_DESCRIPTOR, FERRY_FIELD_ADDRESS);
}

// The groups of a changeable one's pieces, and that there is one for each that has a size.
failure note_kinds(ferry_prepared &prepared, const batch_input &input) noexcept {
    batch_job &job = *prepared.job;
    if (!keep(prepared.destinations, input.destinations, input.count) ||
        !keep(prepared.sources, input.sources, input.count) || !keep(prepared.sizes, input.sizes, input.count) ||
        !prepared.kinds.reserve(job.pieces.size()))
        return no_memory;
    for (const batch_piece &piece : job.pieces)
        prepared.kinds.append_reserved(group_of(job.ranges[piece.from], job.ranges[piece.to]));
    std::size_t piece = 0;
    for (std::uint64_t i = 0; i < input.count; ++i)
        if (input.sizes[i] != 0 && !is_whole(input, i, job, piece++)) return refuse_cut(i, job);
    return {};
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
    return make_table(prepared);
}

failure end(ferry_prepared &prepared) noexcept {
    ferry_instance &instance = prepared.instance;
    const failure failed = free_table_of(prepared);
    instance.jobs.give_back(*prepared.job);
    prepared.~ferry_prepared();
    instance.allocator.deallocate(&prepared, sizeof(ferry_prepared));
    return failed;
}

} // namespace

failure create_prepared(ferry_instance &instance, const batch_input &input, CUstream stream, ferry_prepared *&prepared,
                        std::uint64_t &bad_index) noexcept {
    bad_index = 0;
    batch_job *const job = instance.jobs.take();
    if (!job) return no_memory;
    void *const place = instance.allocator.allocate(sizeof(ferry_prepared), alignof(ferry_prepared));
    if (!place) {
        instance.jobs.give_back(*job);
        return no_memory;
    }
    auto *const made = new (place) ferry_prepared(instance, *job);
    const failure failed = prepare(*made, input, stream);
    if (failed) {
        bad_index = job->bad_index;
        note_failure(instance, failed);
        end(*made);
    } else {
        prepared = made;
    }
    return failed;
}

failure destroy_prepared(ferry_prepared &prepared) noexcept {
    return prepared.instance.fork_mark.is_in_child() ? failure{.status = no_driver_in_child} : end(prepared);
}

// ---- Launching and changing

namespace {

// The stream's context, made current, if it is of the device.
failure enter_stream(ferry_prepared &prepared, CUstream stream, context_scope &scope, CUcontext &context) noexcept {
    ferry_instance &instance = prepared.instance;
    const int wanted = prepared.job->context_device;
    context_choice choice;
    if (failure failed = choose_context(instance.cu, instance.contexts, stream, wanted, choice)) return failed;
    if (failure failed = scope.enter(choice.wanted, choice.current)) return failed;
    int device = -1;
    if (failure failed = instance.contexts.device_of_current(choice.wanted, device)) return failed;
    context = choice.wanted;
    if (device == wanted) return {};
    return refuse(FERRY_ERROR_DEVICE, FERRY_SIDE_NONE, FERRY_FIELD_DEVICE, static_cast<std::uint64_t>(wanted),
                  static_cast<std::uint64_t>(device));
}

bool is_at_home(const ferry_prepared &prepared, CUcontext context) noexcept {
    return context == prepared.job->context.wanted;
}

// Whether a graph would read all addresses from the table, at home.
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
    if (failure failed = ask_capture(instance.cu, stream, site.is_captured)) return failed;
    const bool holds_addresses = !is_at_home(prepared, site.context) || !reads_all_from_table(prepared);
    if (site.is_captured && prepared.is_changeable && holds_addresses) return {.status = FERRY_ERROR_CAPTURE};
    return enqueue_job(instance, *prepared.job, copy_form::asynchronous, site);
}

} // namespace

failure launch_prepared(ferry_prepared &prepared, CUstream stream) noexcept {
    const failure failed = launch(prepared, stream);
    if (failed) note_failure(prepared.instance, failed);
    return failed;
}

namespace {

// That only the addresses change.
failure compare_with_old(const ferry_prepared &prepared, const batch_input &input, batch_job &job) noexcept {
    std::size_t piece = 0;
    for (std::uint64_t i = 0; i < input.count; ++i) {
        if (input.sizes[i] == 0) continue;
        job.bad_index = i;
        constexpr std::uint64_t word = 16; // what units of pieces are counted from
        const std::uint64_t moved_by = input.destinations[i] - prepared.destinations[i];
        if (moved_by % word)
            return refuse(FERRY_ERROR_ALIGNMENT, FERRY_SIDE_DESTINATION, FERRY_FIELD_ADDRESS, word, moved_by);
        if (!is_whole(input, i, job, piece)) return refuse_cut(i, job);
        const batch_piece &one = job.pieces[piece];
        if (group_of(job.ranges[one.from], job.ranges[one.to]) != prepared.kinds[piece++])
            return refuse(FERRY_ERROR_KIND, FERRY_SIDE_DESCRIPTOR, FERRY_FIELD_KIND);
    }
    job.bad_index = 0;
    return {};
}

failure check_and_send(ferry_prepared &prepared, const batch_input &input, CUstream stream, batch_job &job) noexcept {
    ferry_instance &instance = prepared.instance;
    job.bad_index = 0;
    job.context_device = prepared.job->context_device;
    context_scope scope(instance.cu);
    CUcontext of_stream = nullptr;
    if (failure failed = enter_stream(prepared, stream, scope, of_stream)) return failed;
    if (failure failed = refuse_captured(instance.cu, stream)) return failed;
    job.context.wanted = prepared.job->context.wanted;
    {
        context_scope home(instance.cu);
        if (failure failed = home.enter(job.context.wanted, of_stream)) return failed;
        if (failure failed = check_batch(instance, input, false, stream, job)) return failed;
        if (failure failed = compare_with_old(prepared, input, job)) return failed;
        if (failure failed = plan_job(instance, true, prepared.job->plans, job)) return failed;
    }
    return change_table(prepared, job, stream);
}

} // namespace

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
    if (failed) {
        note_failure(instance, failed);
    } else {
        if (destinations) std::copy_n(destinations, input.count, prepared.destinations.begin());
        if (sources) std::copy_n(sources, input.count, prepared.sources.begin());
        std::swap(prepared.job, job);
    }
    instance.jobs.give_back(*job);
    return failed;
}

} // namespace ferry
