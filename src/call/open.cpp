#include "call/open.h"

#include <algorithm>
#include <iterator>
#include <new>

#include "call/staging.h"
#include "driver/result.h"
#if FERRY_HAS_SOFTWARE_DRIVER
#include "softdriver/softdriver.h"
#endif

namespace ferry {

namespace {

constexpr int oldest_driver = 12000;

failure check_version(ferry_instance &instance) noexcept {
    int version = 0;
    if (instance.cu.cuDriverGetVersion && instance.cu.cuDriverGetVersion(&version) == CUDA_SUCCESS)
        instance.report.driver_version = version;
    if (version && version < oldest_driver)
        return {.status = FERRY_ERROR_DRIVER_TOO_OLD, .limit = oldest_driver, .value = static_cast<unsigned>(version)};
    for (int i = 0; i < driver_symbol_count; ++i) {
        if (instance.found[i] || !driver_symbols[i].required) continue;
        instance.log.write(FERRY_LOG_ERROR, "the driver has no %s of version %d", driver_symbols[i].name,
                           driver_symbols[i].version);
        return {.status = FERRY_ERROR_DRIVER_TOO_OLD, .limit = oldest_driver, .value = static_cast<unsigned>(version)};
    }
    return {};
}

failure initialise(ferry_instance &instance) noexcept {
    const CUresult result = instance.cu.cuInit(0);
    if (result == CUDA_ERROR_NO_DEVICE) return {.status = FERRY_ERROR_NO_DEVICE};
    if (result == CUDA_ERROR_STUB_LIBRARY) return {.status = FERRY_ERROR_NO_DRIVER};
    return to_failure(result);
}

failure query_devices(ferry_instance &instance) noexcept {
    int count = 0;
    if (CUresult result = instance.cu.cuDeviceGetCount(&count)) return to_failure(result);
    if (count <= 0) return {.status = FERRY_ERROR_NO_DEVICE};
    if (count > device_contexts::most_devices)
        instance.log.write(FERRY_LOG_WARNING, "only the first %d of %d devices are used", device_contexts::most_devices,
                           count);
    count = std::min(count, device_contexts::most_devices);
    const bool is_software = instance.report.driver == FERRY_DRIVER_SOFTWARE;
    instance.limits.max_pitch = UINT64_MAX;
    for (int device = 0; device < count; ++device) {
        if (failure failed = query_device(instance.cu, device, is_software, instance.devices[device])) return failed;
        instance.limits.max_pitch = std::min(instance.limits.max_pitch, instance.devices[device].info.max_pitch);
    }
    instance.limits.device_count = count;
    instance.report.device_count = count;
    instance.contexts.set_count(count);
    instance.profiles.set_up(instance.devices, count);
    return {};
}

// Everything from the entry points to the devices' facts.
failure start(ferry_instance &instance, resolver entry_points) noexcept {
    instance.entry_points = entry_points;
    resolve_table(entry_points, instance.cu, instance.found);
    // No real driver exports this name; the software one does, also through a resolver of the host's.
    const bool is_software = entry_points.get_proc(entry_points.user, "ferrySoftwareDriver", oldest_driver) != nullptr;
    instance.report.driver = is_software ? FERRY_DRIVER_SOFTWARE : FERRY_DRIVER_CUDA;
    if (failure failed = check_version(instance)) return failed;
    if (failure failed = initialise(instance)) return failed;
    return query_devices(instance);
}

failure start_software([[maybe_unused]] ferry_instance &instance,
                       [[maybe_unused]] const ferry_options &options) noexcept {
#if FERRY_HAS_SOFTWARE_DRIVER
    const softdriver::config config = {options.software_devices, options.software_queues, options.software_memory};
    switch (softdriver::open(config)) {
    case softdriver::open_result::refused_config:
        return refuse_option(FERRY_ERROR_SOFTWARE_CONFIG, FERRY_FIELD_SOFTWARE);
    case softdriver::open_result::out_of_memory:
        return no_memory;
    case softdriver::open_result::opened:
        break;
    }
    instance.holds_software_driver = true;
    return start(instance, {[](void *, const char *name, int version) { return softdriver::get_proc(name, version); }});
#else
    return refuse_option(FERRY_ERROR_UNSUPPORTED, FERRY_FIELD_DRIVER);
#endif
}

failure start_cuda(ferry_instance &instance, const ferry_options &options) noexcept {
    if (options.get_proc) return start(instance, {options.get_proc, options.get_proc_user});
    if (!instance.library.open()) return {.status = FERRY_ERROR_NO_DRIVER};
    return start(instance, instance.library.entry_points());
}

failure start_chosen(ferry_instance &instance, const ferry_options &options) noexcept {
    if (options.driver == FERRY_DRIVER_SOFTWARE) return start_software(instance, options);
    const failure failed = start_cuda(instance, options);
    if (!failed || options.driver == FERRY_DRIVER_CUDA) return failed;
    instance.library.close();
    instance.report.fallback_reason = failed.status;
    instance.log.write(FERRY_LOG_WARNING, "no usable GPU: %s (%s); running on the software driver",
                       status_text(failed.status), status_name(failed.status));
    return start_software(instance, options);
}

void log_what_was_found(const ferry_instance &instance) noexcept {
    const ferry_report &report = instance.report;
    instance.log.write(FERRY_LOG_INFO, "%s, CUDA %d.%d, devices: %d",
                       report.driver == FERRY_DRIVER_SOFTWARE ? "software driver" : "NVIDIA driver",
                       report.driver_version / 1000, report.driver_version % 1000 / 10, report.device_count);
    for (std::uint32_t i = 0; i < report.missing_count; ++i)
        instance.log.write(FERRY_LOG_INFO, "the driver has no %s", missing_entry_point(instance, i));
}

// Without them the instance works as well, on the driver's own calls.
void set_up_kernels(ferry_instance &instance, const ferry_options &options) noexcept {
    instance.copy_flags = options.copy_flags;
    if (options.kernels == FERRY_KERNELS_NONE) return instance.kernels.give_up();
    const bool stages = options.staging == FERRY_STAGING_AT_OPEN;
    if (options.kernels != FERRY_KERNELS_AT_OPEN && !stages) return;
    for (int device = 0; device < instance.limits.device_count; ++device) {
        context_scope scope(instance.cu);
        CUcontext context = nullptr;
        failure failed = instance.contexts.get(device, context);
        if (!failed) failed = scope.enter(context);
        if (!failed) failed = instance.kernels.load_into(context);
        if (failed)
            instance.log.write(FERRY_LOG_WARNING, "no GPU kernels on device %d: %s (%s)", device,
                               status_text(failed.status), status_name(failed.status));
        else if (stages && !is_ready_to_stage(instance, device))
            instance.log.write(FERRY_LOG_WARNING, "no threads or no pinned memory for staging on device %d", device);
    }
}

} // namespace

failure open_instance(const ferry_options &options, ferry_instance *&instance) noexcept {
    const allocator memory =
        options.allocate ? allocator(options.allocate, options.deallocate, options.allocate_user) : allocator();
    void *const place = memory.allocate(sizeof(ferry_instance), alignof(ferry_instance));
    if (!place) return no_memory;
    instance = new (place) ferry_instance;
    instance->allocator = memory;
    instance->log = log_sink(options.log, options.log_user);
    instance->full_checks = options.checks == FERRY_CHECKS_FULL;
    instance->deferred_bytes = options.deferred_bytes;
    instance->report.checks = options.checks;
    instance->report.kernels =
        options.staging == FERRY_STAGING_AT_OPEN ? std::int32_t{FERRY_KERNELS_AT_OPEN} : options.kernels;
    instance->report.staging = options.staging;
    if (failure failed = start_chosen(*instance, options)) {
        close_instance(*instance);
        instance = nullptr;
        return failed;
    }
    instance->pinned.set_up(instance->devices, instance->limits.device_count, options.register_chunk);
    instance->report.missing_count =
        static_cast<std::uint32_t>(std::count(std::begin(instance->found), std::end(instance->found), false));
    log_what_was_found(*instance);
    set_up_staging(*instance, options);
    set_up_kernels(*instance, options);
    return {};
}

void close_instance(ferry_instance &instance) noexcept {
    // Another thread may have been changing any list, or holding any mutex, the program's allocator's too, when the
    // process forked. In the child nothing is read, freed or locked: all of it ends with the process.
    if (instance.fork_mark.is_in_child()) return;
    const allocator memory = instance.allocator;
    // Without devices no driver was found, and none is asked.
    if (instance.limits.device_count) {
        instance.staging.close();
        instance.tables.close();
        instance.deferred.close();
    }
    [[maybe_unused]] const bool holds_software_driver = instance.holds_software_driver;
    instance.~ferry_instance();
    memory.deallocate(&instance, sizeof(ferry_instance));
#if FERRY_HAS_SOFTWARE_DRIVER
    if (holds_software_driver) softdriver::close();
#endif
}

ferry_report describe_instance(const ferry_instance &instance) noexcept {
    ferry_report told = instance.report;
    told.failed_peers = instance.peers.failed_count();
    if (!instance.kernels.may_serve()) {
        told.kernels = FERRY_KERNELS_NONE;
        told.staging = FERRY_STAGING_NONE;
    }
    told.kernels_loaded = instance.kernels.is_loaded();
    told.kernel_contexts = instance.kernels.context_count();
    if (told.staging != FERRY_STAGING_NONE) return told;
    told.staging_threads = told.program_threads = 0;
    told.staging_bytes = 0;
    return told;
}

const char *missing_entry_point(const ferry_instance &instance, std::uint32_t index) noexcept {
    for (int i = 0; i < driver_symbol_count; ++i)
        if (!instance.found[i] && index-- == 0) return driver_symbols[i].name;
    return nullptr;
}

} // namespace ferry
