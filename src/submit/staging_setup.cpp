#include "submit/staging_setup.h"

#include <algorithm>

#include "driver/result.h"
#include "routes/staged.h"

namespace ferry {

namespace {

constexpr std::uint64_t max_slot = staged_options{}.slot_size, default_ring = max_slot * staged_options{}.slots;
constexpr std::uint32_t slots_of_small_rings = 8; // with this many, larger slots gain more than further slots
constexpr std::uint64_t min_slots = 2;            // copies without a kernel keep at most half of them

// Divides `bytes` of staging buffer into slots.
void cut_ring(std::uint64_t bytes, staged_options &options) noexcept {
    const std::uint64_t share = bytes / slots_of_small_rings / min_slot * min_slot;
    options.slot_size = std::clamp(share, min_slot, max_slot);
    options.slots = static_cast<std::uint32_t>(std::max(bytes / options.slot_size, min_slots));
}

// Returns the processors for the staging threads: the program's list, the processors of a NUMA node, or all
// processors that the process may use.
processor_set choose_processors(const ferry_options &options) noexcept {
    if (options.staging_numa == FERRY_NUMA_NODE) return processors_of_node(options.staging_numa_node);
    if (options.staging_cpu_count == 0) return processors_of_process();
    processor_set chosen;
    for (std::uint32_t i = 0; i < options.staging_cpu_count; ++i)
        chosen.add(static_cast<unsigned>(options.staging_cpus[i]));
    return chosen;
}

int niceness_of(const ferry_options &options) noexcept {
    switch (options.staging_priority) {
    case FERRY_STAGING_PRIORITY_HIGHEST:
        return thread_traits::lowest_niceness;
    case FERRY_STAGING_PRIORITY_OF_PROCESS:
        return thread_traits::niceness_of_process;
    default:
        return options.staging_niceness;
    }
}

} // namespace

void set_up_budgets(ferry_instance &instance, const ferry_options &options) noexcept {
    if (options.max_pinned_bytes) instance.pinned.set_limit(options.max_pinned_bytes);
    if (options.max_threads) instance.pinned.start_no_threads();
    if (!options.max_device_bytes) return;
    instance.buffers.keep_nothing();
    for (budget &of_device : instance.device_memory)
        of_device.set_limit(options.max_device_bytes);
}

void set_up_staging(ferry_instance &instance, const ferry_options &options) noexcept {
    staged_options given;
    cut_ring(options.staging_bytes ? options.staging_bytes : default_ring, given);
    instance.staging_processors = choose_processors(options);
    given.threads = options.staging_threads;
    if (options.max_threads) given.max_threads = options.max_threads - instance.trace.wants_thread();
    given.processors = available_processors();
    const bool is_chosen_by_program = options.staging_numa == FERRY_NUMA_NODE || options.staging_cpu_count != 0;
    if (!is_chosen_by_program) given.processors_of_node = processors_of_node;
    given.traits.processors = &instance.staging_processors;
    given.traits.niceness = niceness_of(options);
    given.submit = options.submit;
    given.submit_user = options.submit_user;
    instance.staging.set_up(given);
    instance.staging_threads = static_cast<std::uint16_t>(instance.staging.wanted_threads());
    instance.file_threads = static_cast<std::uint16_t>(instance.staging.wanted_threads(true));
    instance.report.staging_threads = instance.staging_threads;
    instance.report.uses_program_threads = options.submit != nullptr;
    instance.report.staging_bytes = given.slots * given.slot_size;
    instance.mappings.open();
    instance.stages =
        options.staging != FERRY_STAGING_NONE && options.kernels != FERRY_KERNELS_NONE && instance.kernels.may_serve();
}

void prepare_blocks(ferry_instance &instance) noexcept {
    if (instance.are_blocks_ready()) return; // blocks that are in use must not make the pool grow
    const std::uint64_t pinned_at = instance.contexts.changes() + 1;
    constexpr std::uint64_t KiB = 1024;
    constexpr struct {
        std::uint64_t size;
        int count;
    } kinds[] = {{max_small_copy, 2}, {max_early_copy, 4}, {64 * KiB, 16}};
    void *blocks[2 + 4 + 16] = {};
    void **next = blocks;
    error failed;
    for (const auto &[size, count] : kinds)
        for (int i = 0; i < count && !failed; ++i)
            failed = instance.read_buffers.allocate(size, *next++);
    for (void *const block : blocks)
        if (block) static_cast<void>(instance.read_buffers.free(block));
    if (!failed) instance.blocks_pinned_at = pinned_at;
}

error prepare_staging(ferry_instance &instance, int device) noexcept {
    if (instance.fork_mark.is_in_child()) return {.status = no_driver_in_child};
    if (error failed = check_device(instance, device)) return failed;
    if (!instance.stages)
        return refuse(FERRY_ERROR_UNSUPPORTED, FERRY_SIDE_NONE, FERRY_FIELD_STAGING, numbers::obstacle, 0,
                      FERRY_OBSTACLE_NO_STAGING);
    context_choice choice;
    if (error failed = choose_context_on(instance.cu, instance.contexts, nullptr, device, choice)) return failed;
    context_scope scope(instance.cu);
    if (error failed = scope.enter(choice.wanted, choice.current)) return failed;
    if (error failed = instance.kernels.load_into(choice.wanted)) return failed;
    if (error failed = make_ready_to_stage(instance, device)) return failed;
    instance.staging.finish_preparing(device, choice.wanted);
    prepare_blocks(instance);
    return {};
}

bool wait_for_buffers(ferry_instance &instance, CUmemoryPool pool) noexcept {
    context_scope scope(instance.cu);
    CUcontext any = nullptr;
    if (instance.contexts.get_any(any) || scope.enter(any)) return false;
    const relaxed_capture_mode relaxed(instance.cu);
    return relaxed.entered() && !instance.pools.wait_until_released(pool);
}

error trim_staging(ferry_instance &instance) noexcept {
    if (instance.fork_mark.is_in_child()) return {.status = no_driver_in_child};
    instance.blocks_pinned_at = 0;
    for (std::atomic<bool> &is_ready : instance.is_staging_ready)
        is_ready.store(false, std::memory_order_release);
    const error failed = instance.staging.trim();
    const error others[] = {instance.lanes.trim(), instance.read_buffers.trim(0), instance.tables.trim(0),
                            instance.buffers.trim()};
    const error *const first =
        std::find_if(std::begin(others), std::end(others), [](const error &one) { return !!one; });
    return failed || first == std::end(others) ? failed : *first;
}

error get_staging_info(ferry_instance &instance, ferry_staging_info &info) noexcept {
    if (instance.fork_mark.is_in_child()) return {.status = no_driver_in_child};
    const staging_scheduler::load load = instance.staging.in_flight();
    info.threads = instance.staging.thread_count();
    info.busy_threads = load.busy;
    info.copies_in_flight = load.copies;
    info.staging_bytes = instance.staging.staging_bytes();
    info.bytes_in_flight = load.bytes;
    info.failed_files = instance.staging.failed_files();
    return {};
}

error get_usage(ferry_instance &instance, ferry_usage &usage) noexcept {
    if (instance.fork_mark.is_in_child()) return {.status = no_driver_in_child};
    const own_memory &pinned = instance.pinned.own();
    const engine_threads &threads = instance.staging.threads();
    usage.threads = threads.count_all() + instance.trace.has_thread();
    usage.pinned_bytes = pinned.all().used();
    usage.staging_bytes = pinned.used(host_owner::staging);
    usage.table_bytes = pinned.used(host_owner::tables);
    usage.read_buffer_bytes = pinned.used(host_owner::read_buffers);
    usage.link_bytes = pinned.used(host_owner::links);
    usage.pinned_refused = pinned.all().refused();
    for (const budget &of_device : instance.device_memory) {
        usage.device_bytes += of_device.used();
        usage.device_refused += of_device.refused();
    }
    usage.device_bytes += instance.buffers.reserved();
    usage.threads_refused = threads.temporary.refused();
    ferry_deferred_info deferred = {};
    instance.deferred.count(FERRY_DEVICE_UNKNOWN, deferred);
    usage.deferred_bytes = deferred.bytes;
    return {};
}

} // namespace ferry
