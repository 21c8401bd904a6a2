// ferry_open and ferry_close, and the C functions that query an instance and its devices.
#include "api/call_options.h"
#include "base/sized.h"
#include "batch/request.h"
#include "driver/result.h"
#include "plan/staged_chunks.h"
#include "routes/staged.h"
#include "submit/instance.h"
#include "submit/staging_setup.h"
#include "system/pages.h"
#include "system/threads.h"
#include <algorithm>
#include <cstring>
#include <iterator>
#include <new>

using namespace ferry;

namespace {

constexpr int oldest_driver = 12000;

error check_version(ferry_instance &instance) noexcept {
    int version = 0;
    if (instance.cu.cuDriverGetVersion && instance.cu.cuDriverGetVersion(&version) == CUDA_SUCCESS)
        instance.report.driver_version = version;
    if (version && version < oldest_driver)
        return refuse(FERRY_ERROR_DRIVER_TOO_OLD, FERRY_SIDE_NONE, FERRY_FIELD_VERSION, numbers::at_least,
                      oldest_driver, static_cast<unsigned>(version));
    for (int i = 0; i < driver_symbol_count; ++i) {
        if (instance.found[i] || !driver_symbols[i].required) continue;
        instance.log.write(FERRY_LOG_ERROR, "the driver lacks the required entry point %s of version %d",
                           driver_symbols[i].name, driver_symbols[i].version);
        return refuse(FERRY_ERROR_DRIVER_TOO_OLD, FERRY_SIDE_NONE, FERRY_FIELD_VERSION, numbers::at_least,
                      oldest_driver, static_cast<unsigned>(version));
    }
    return {};
}

error initialise(ferry_instance &instance) noexcept {
    const call_result result = instance.cu.cuInit(0);
    if (result == CUDA_ERROR_NO_DEVICE) return replace(to_status(result), {.status = FERRY_ERROR_NO_DEVICE});
    if (result == CUDA_ERROR_STUB_LIBRARY) return replace(to_status(result), {.status = FERRY_ERROR_NO_DRIVER});
    return to_error(result);
}

error query_devices(ferry_instance &instance) noexcept {
    int count = 0;
    if (call_result result = instance.cu.cuDeviceGetCount(&count)) return to_error(result);
    if (count <= 0) return {.status = FERRY_ERROR_NO_DEVICE};
    if (count > device_contexts::max_devices)
        instance.log.write(FERRY_LOG_WARNING, "only the first %d of %d devices are used", device_contexts::max_devices,
                           count);
    count = std::min(count, device_contexts::max_devices);
    const bool is_software = instance.report.driver == FERRY_DRIVER_SOFTWARE;
    instance.limits.max_pitch = UINT64_MAX;
    for (int device = 0; device < count; ++device) {
        if (error failed = query_device(instance.cu, device, is_software, instance.devices[device])) return failed;
        instance.limits.max_pitch = std::min(instance.limits.max_pitch, instance.devices[device].info.max_pitch);
    }
    instance.limits.device_count = count;
    instance.report.device_count = count;
    instance.contexts.set_count(count);
    instance.profiles.set_up(instance.devices, count);
    return {};
}

// Resolves the entry points, initialises the driver and queries the devices.
error start(ferry_instance &instance, resolver entry_points) noexcept {
    instance.entry_points = entry_points;
    bool is_software = false;
    if (error failed = identify_driver(entry_points, instance.log, is_software)) return failed;
    instance.report.driver = is_software ? FERRY_DRIVER_SOFTWARE : FERRY_DRIVER_CUDA;
    resolve_table(entry_points, instance.cu, instance.found);
    if (error failed = check_version(instance)) return failed;
    if (error failed = initialise(instance)) return failed;
    return query_devices(instance);
}

error start_software(ferry_instance &instance, const ferry_options &options) noexcept {
    const auto *settings = static_cast<const ferry_software_options *>(options.driver_options);
    if (error failed = instance.software.open(settings, instance.log)) return failed;
    return start(instance, instance.software.entry_points());
}

error start_cuda(ferry_instance &instance, const ferry_options &options) noexcept {
    if (options.get_proc) return start(instance, {options.get_proc, options.get_proc_user});
    if (!instance.library.open()) return {.status = FERRY_ERROR_NO_DRIVER};
    return start(instance, instance.library.entry_points());
}

error start_chosen(ferry_instance &instance, const ferry_options &options) noexcept {
    if (options.driver == FERRY_DRIVER_SOFTWARE) return start_software(instance, options);
    const error failed = start_cuda(instance, options);
    if (!failed || options.driver == FERRY_DRIVER_CUDA) return failed;
    instance.library.close();
    instance.report.fallback_reason = failed.status;
    instance.log.write(FERRY_LOG_WARNING, "no usable GPU: %s (%s); running on the software driver",
                       status_text(failed.status), status_name(failed.status));
    return start_software(instance, options);
}

// Returns the name of the index-th entry point that the driver lacks; null if there are no more.
const char *missing_entry_point(const ferry_instance &instance, std::uint32_t index) noexcept {
    for (int i = 0; i < driver_symbol_count; ++i)
        if (!instance.found[i] && index-- == 0) return driver_symbols[i].name;
    return nullptr;
}

void log_what_was_found(const ferry_instance &instance) noexcept {
    const ferry_report &report = instance.report;
    instance.log.write(FERRY_LOG_INFO, "%s, CUDA %d.%d, devices: %d",
                       report.driver == FERRY_DRIVER_SOFTWARE ? "software driver" : "NVIDIA driver",
                       report.driver_version / 1000, report.driver_version % 1000 / 10, report.device_count);
    for (std::uint32_t i = 0; i < report.missing_count; ++i)
        instance.log.write(FERRY_LOG_INFO, "the driver lacks the optional entry point %s",
                           missing_entry_point(instance, i));
}

// Failures are only logged: without kernels, the instance uses the driver's own calls.
void set_up_kernels(ferry_instance &instance, const ferry_options &options) noexcept {
    if (options.kernels == FERRY_KERNELS_NONE) return instance.kernels.disable();
    const bool stages = options.staging == FERRY_STAGING_AT_OPEN;
    if (options.kernels != FERRY_KERNELS_AT_OPEN && !stages) return;
    for (int device = 0; device < instance.limits.device_count; ++device) {
        context_scope scope(instance.cu);
        CUcontext context = nullptr;
        error failed = instance.contexts.get(device, context);
        if (!failed) failed = scope.enter(context);
        if (!failed) failed = instance.kernels.load_into(context);
        if (failed)
            instance.log.write(FERRY_LOG_WARNING, "cannot load the GPU kernels on device %d: %s (%s)", device,
                               status_text(failed.status), status_name(failed.status));
        else if (stages && !is_ready_to_stage(instance, device))
            instance.log.write(FERRY_LOG_WARNING, "cannot prepare staging on device %d: no threads or no pinned memory",
                               device);
        else if (stages)
            instance.staging.finish_preparing(device, context);
    }
    if (stages) prepare_blocks(instance);
}

void close_instance(ferry_instance &instance) noexcept {
    // At the time of the fork, another thread may have been changing any list or holding any mutex, including the mutex
    // of the program's allocator. So the child reads, frees and locks nothing: its memory ends with the process.
    if (instance.fork_mark.is_in_child()) return;
    const allocator memory = instance.allocator;
    const code_reference code = instance.code;
    // Without devices, there is no usable driver to call.
    if (instance.limits.device_count) {
        instance.trace.close();
        instance.staging.close();
        instance.lanes.close();
        instance.links.close();
        instance.tables.close();
        instance.read_buffers.close();
        instance.deferred.close();
        instance.buffers.close([&](CUmemoryPool pool) noexcept { return wait_for_buffers(instance, pool); });
    }
    software_driver software = instance.software;
    instance.~ferry_instance();
    memory.deallocate(&instance, sizeof(ferry_instance));
    software.close();
    code.release();
}

error open_instance(const ferry_options &options, const call_options &for_calls, ferry_instance *&instance) noexcept {
    const allocator memory =
        options.allocate ? allocator(options.allocate, options.deallocate, options.allocate_user) : allocator();
    void *const place = memory.allocate(sizeof(ferry_instance), alignof(ferry_instance));
    if (!place) return no_memory;
    instance = new (place) ferry_instance;
    instance->code.take();
    instance->allocator = memory;
    instance->log = log_sink(options.log, options.log_user);
    instance->trace.set_up(options);
    instance->options = for_calls;
    instance->full_checks = options.checks == FERRY_CHECKS_FULL;
    instance->deferred_bytes = options.deferred_bytes;
    instance->report.checks = options.checks;
    instance->report.kernels =
        options.staging == FERRY_STAGING_AT_OPEN ? std::int32_t{FERRY_KERNELS_AT_OPEN} : options.kernels;
    instance->report.staging = options.staging;
    if (error failed = start_chosen(*instance, options)) {
        close_instance(*instance);
        instance = nullptr;
        return failed;
    }
    instance->pinned.set_up(instance->devices, instance->limits.device_count, options.register_chunk);
    instance->report.missing_count =
        static_cast<std::uint32_t>(std::count(std::begin(instance->found), std::end(instance->found), false));
    log_what_was_found(*instance);
    set_up_budgets(*instance, options);
    set_up_staging(*instance, options);
    set_up_kernels(*instance, options);
    return {};
}

ferry_report describe_instance(const ferry_instance &instance) noexcept {
    ferry_report current = instance.report;
    current.failed_peers = instance.peers.failed_count();
    if (!instance.kernels.may_serve()) {
        current.kernels = FERRY_KERNELS_NONE;
        current.staging = FERRY_STAGING_NONE;
    }
    current.kernels_loaded = instance.kernels.is_loaded();
    current.kernel_contexts = instance.kernels.context_count();
    if (current.staging != FERRY_STAGING_NONE) return current;
    current.staging_threads = current.uses_program_threads = 0;
    current.staging_bytes = 0;
    return current;
}

// Validates staging options that the range table in read_open_options does not cover.
error check_staging(const ferry_options &options, error_item &bad) noexcept {
    const auto refuse_number = [](std::int32_t field, numbers given, std::int64_t limit, std::int64_t value) noexcept {
        return refuse_signed(FERRY_ERROR_INVALID_ARGUMENT, FERRY_SIDE_OPTIONS, field, given, limit, value);
    };
    if (options.staging == FERRY_STAGING_AT_OPEN && options.kernels == FERRY_KERNELS_NONE)
        return refuse_number(FERRY_FIELD_STAGING, numbers::excluded, FERRY_FIELD_KERNELS, options.staging);
    if (options.staging == FERRY_STAGING_NONE && options.submit)
        return refuse_number(FERRY_FIELD_STAGING, numbers::excluded, FERRY_FIELD_SUBMIT, options.staging);
    constexpr std::int32_t max_nice = 19, min_nice = thread_traits::lowest_niceness;
    if (options.staging_priority != FERRY_STAGING_PRIORITY_NICENESS && options.staging_niceness)
        return refuse_number(FERRY_FIELD_STAGING_NICENESS, numbers::equal, 0, options.staging_niceness);
    if (options.staging_niceness < min_nice)
        return refuse_number(FERRY_FIELD_STAGING_NICENESS, numbers::at_least, min_nice, options.staging_niceness);
    if (options.staging_niceness > max_nice)
        return refuse_number(FERRY_FIELD_STAGING_NICENESS, numbers::at_most, max_nice, options.staging_niceness);
    if (!options.staging_cpus && options.staging_cpu_count)
        return refuse_number(FERRY_FIELD_STAGING_CPU_COUNT, numbers::requires_field, FERRY_FIELD_STAGING_CPUS,
                             options.staging_cpu_count);
    if (options.staging_cpus && !options.staging_cpu_count)
        return refuse_number(FERRY_FIELD_STAGING_CPU_COUNT, numbers::at_least, 1, 0);
    for (std::uint32_t i = 0; i < options.staging_cpu_count; ++i)
        if (options.staging_cpus[i] < 0 || options.staging_cpus[i] >= static_cast<std::int32_t>(processor_set::most)) {
            bad = {FERRY_ITEM_CPU, i};
            return refuse_number(FERRY_FIELD_STAGING_CPUS, numbers::count, processor_set::most,
                                 options.staging_cpus[i]);
        }
    if (options.staging_numa != FERRY_NUMA_ANY && options.staging_numa != FERRY_NUMA_NODE)
        return refuse_number(FERRY_FIELD_STAGING_NUMA, numbers::value, 0, options.staging_numa);
    if (options.staging_numa == FERRY_NUMA_NODE) {
        if (!is_node(options.staging_numa_node))
            return refuse_number(FERRY_FIELD_STAGING_NUMA_NODE, numbers::value, 0, options.staging_numa_node);
        if (options.staging_cpus) // the node chooses the processors
            return refuse_number(FERRY_FIELD_STAGING_CPU_COUNT, numbers::excluded, FERRY_FIELD_STAGING_NUMA,
                                 options.staging_cpu_count);
    }
    constexpr std::uint64_t min_bytes = min_slot, max_bytes = std::uint64_t{1} << 30;
    if (options.staging_bytes && options.staging_bytes < min_bytes)
        return refuse_option(FERRY_ERROR_INVALID_ARGUMENT, FERRY_FIELD_STAGING_BYTES, numbers::at_least, min_bytes,
                             options.staging_bytes);
    if (options.staging_bytes > max_bytes)
        return refuse_option(FERRY_ERROR_INVALID_ARGUMENT, FERRY_FIELD_STAGING_BYTES, numbers::at_most, max_bytes,
                             options.staging_bytes);
    return {};
}

// Staging needs a worker, the watchdog and a temporary thread. Traces need a thread if they report the end of work.
error check_max_threads(const ferry_options &options) noexcept {
    const bool may_stage = options.staging != FERRY_STAGING_NONE && options.kernels != FERRY_KERNELS_NONE;
    const bool traces_ends =
        options.trace && (options.trace_phases == 0 || options.trace_phases & std::uint32_t{FERRY_PHASE_DONE});
    const std::uint32_t least = (may_stage ? 3 : 0) + traces_ends;
    if (!options.max_threads || options.max_threads >= least) return {};
    return refuse_option(FERRY_ERROR_INVALID_ARGUMENT, FERRY_FIELD_MAX_THREADS, numbers::at_least, least,
                         options.max_threads);
}

error read_open_options(const ferry_options *theirs, ferry_options &options, call_options &for_calls,
                        error_item &bad) noexcept {
    options = {};
    if (!theirs) return {};
    if (error failed = read_sized(theirs, options)) return on_side(failed, FERRY_SIDE_OPTIONS);
    struct {
        std::int64_t value, limit;
        std::int32_t field;
    } const ranges[] = {
        {options.driver, FERRY_DRIVER_SOFTWARE, FERRY_FIELD_DRIVER},
        {options.checks, FERRY_CHECKS_FULL, FERRY_FIELD_CHECKS},
        {options.kernels, FERRY_KERNELS_NONE, FERRY_FIELD_KERNELS},
        {options.staging, FERRY_STAGING_NONE, FERRY_FIELD_STAGING},
        {options.staging_priority, FERRY_STAGING_PRIORITY_NICENESS, FERRY_FIELD_STAGING_PRIORITY},
        {options.staging_threads, max_threads, FERRY_FIELD_STAGING_THREADS},
        {options.staging_cpu_count, processor_set::most, FERRY_FIELD_STAGING_CPU_COUNT},
    };
    for (const auto &range : ranges)
        if (range.value < 0 || range.value > range.limit)
            return refuse_signed(FERRY_ERROR_INVALID_ARGUMENT, FERRY_SIDE_OPTIONS, range.field, numbers::up_to,
                                 range.limit, range.value);
    if (options.copy_options)
        if (error failed = read_options(*options.copy_options, flags_of_every_call, for_calls)) return failed;
    constexpr std::uint32_t all_phases = FERRY_PHASE_BEGIN | FERRY_PHASE_RETURN | FERRY_PHASE_DONE;
    if (options.trace_phases & ~all_phases)
        return refuse_option(FERRY_ERROR_FLAGS, FERRY_FIELD_TRACE_PHASES, numbers::bits, all_phases,
                             options.trace_phases);
    constexpr std::uint64_t chunk_unit = 4096;
    if (options.register_chunk % chunk_unit)
        return refuse_option(FERRY_ERROR_INVALID_ARGUMENT, FERRY_FIELD_REGISTER_CHUNK, numbers::multiple, chunk_unit,
                             options.register_chunk);
    if (error failed = check_staging(options, bad)) return failed;
    if (error failed = check_max_threads(options)) return failed;
    if (options.reserved) return refuse_option(FERRY_ERROR_RESERVED, FERRY_FIELD_RESERVED);
    if (!options.allocate != !options.deallocate)
        return refuse_option(FERRY_ERROR_INVALID_ARGUMENT, FERRY_FIELD_CALLBACKS);
    return {};
}

} // namespace

extern "C" {

int32_t ferry_open(const ferry_options *options, ferry_instance **instance, ferry_error_info *details) {
    if (!instance) return report_null(details, instance);
    *instance = nullptr;
    ferry_options known;
    error_item bad;
    call_options for_calls;
    error failed = read_open_options(options, known, for_calls, bad);
    if (!failed) failed = open_instance(known, for_calls, *instance);
    return report(details, failed, bad);
}

void ferry_close(ferry_instance *instance) {
    if (instance) close_instance(*instance);
}

int32_t ferry_instance_get_report(ferry_instance *instance, ferry_report *filled, ferry_error_info *details) {
    if (!instance || !filled) return report_null(details, instance, filled);
    return report(details, write_sized(describe_instance(*instance), filled));
}

int32_t ferry_instance_get_usage(ferry_instance *instance, ferry_usage *usage, ferry_error_info *details) {
    if (!instance || !usage) return report_null(details, instance, usage);
    ferry_usage found = {};
    if (error failed = get_usage(*instance, found)) return report(details, failed);
    return report(details, write_sized(found, usage));
}

const char *ferry_instance_get_missing_entry_point(ferry_instance *instance, uint32_t index) {
    return instance ? missing_entry_point(*instance, index) : nullptr;
}

void *ferry_instance_get_proc(ferry_instance *instance, const char *name, int32_t version) {
    if (!instance || !name) return nullptr;
    return instance->entry_points.get_proc(instance->entry_points.user, name, version);
}

int32_t ferry_device_get_info(ferry_instance *instance, int32_t device, ferry_device_info *info,
                              ferry_error_info *details) {
    if (!instance || !info) return report_null(details, instance, info);
    if (error failed = check_device(*instance, device)) return report(details, failed);
    return report(details, write_sized(instance->devices[device].info, info));
}

int32_t ferry_device_get_counters(ferry_instance *instance, int32_t device, ferry_device_counters *counters,
                                  ferry_error_info *details) {
    if (!instance || !counters) return report_null(details, instance, counters);
    if (error failed = check_device(*instance, device)) return report(details, failed);
    ferry_device_counters found;
    instance->counters.sum(device, found);
    return report(details, write_sized(found, counters));
}

int32_t ferry_device_find(ferry_instance *instance, const uint8_t *uuid, const uint8_t *luid, int32_t *device,
                          ferry_error_info *details) {
    if (device) *device = -1;
    if (!instance || !device) return report_null(details, instance, device);
    if (!uuid && !luid) return report(details, {.status = FERRY_ERROR_INVALID_ARGUMENT});
    for (int32_t i = 0; i < instance->limits.device_count; ++i) {
        const ferry_device_info &info = instance->devices[i].info;
        const bool is_here = uuid ? std::memcmp(uuid, info.uuid, sizeof info.uuid) == 0
                                  : info.luid_node_mask != 0 && std::memcmp(luid, info.luid, sizeof info.luid) == 0;
        if (!is_here) continue;
        *device = i;
        return report(details, ok);
    }
    return report(details, {.status = FERRY_ERROR_DEVICE});
}

} // extern "C"
