// ferry_open and ferry_close, and what an instance tells about itself.
#include "call/open.h"
#include "base/sized.h"
#include "base/threads.h"
#include "memory/pages.h"
#include "plan/staging.h"

using namespace ferry;

namespace {

// What is more than a range of numbers.
failure check_staging(const ferry_options &options) noexcept {
    const auto refuse_value = [](std::int32_t field, std::int64_t limit, std::int64_t value) noexcept {
        return refuse_option(FERRY_ERROR_INVALID_ARGUMENT, field, static_cast<std::uint64_t>(limit),
                             static_cast<std::uint64_t>(value));
    };
    constexpr std::int32_t most_nice = 19, least_nice = -20;
    if (options.staging_priority < least_nice || options.staging_priority > most_nice)
        return refuse_value(FERRY_FIELD_STAGING_PRIORITY, most_nice, options.staging_priority);
    if (!options.staging_cpus != !options.staging_cpu_count)
        return refuse_option(FERRY_ERROR_INVALID_ARGUMENT, FERRY_FIELD_STAGING_CPUS);
    for (std::uint32_t i = 0; i < options.staging_cpu_count; ++i)
        if (options.staging_cpus[i] < 0 || options.staging_cpus[i] >= static_cast<std::int32_t>(processor_set::most))
            return refuse_value(FERRY_FIELD_STAGING_CPUS, processor_set::most - 1, options.staging_cpus[i]);
    if (options.staging_numa != FERRY_NUMA_ANY && options.staging_numa != FERRY_NUMA_NODE)
        return refuse_value(FERRY_FIELD_NUMA, FERRY_NUMA_NODE, options.staging_numa);
    if (options.staging_numa == FERRY_NUMA_NODE) {
        if (!is_node(options.staging_numa_node))
            return refuse_value(FERRY_FIELD_NUMA_NODE, 0, options.staging_numa_node);
        if (options.staging_cpus) return refuse_option(FERRY_ERROR_INVALID_ARGUMENT, FERRY_FIELD_STAGING_CPUS);
    }
    constexpr std::uint64_t least_bytes = smallest_slot, most_bytes = std::uint64_t{1} << 30;
    if (options.staging_bytes && options.staging_bytes < least_bytes)
        return refuse_option(FERRY_ERROR_INVALID_ARGUMENT, FERRY_FIELD_STAGING_BYTES, least_bytes,
                             options.staging_bytes);
    if (options.staging_bytes > most_bytes)
        return refuse_option(FERRY_ERROR_INVALID_ARGUMENT, FERRY_FIELD_STAGING_BYTES, most_bytes,
                             options.staging_bytes);
    return {};
}

failure read_options(const ferry_options *theirs, ferry_options &options) noexcept {
    options = {};
    if (!theirs) return {};
    if (failure failed = read_sized(theirs, options)) return on_side(failed, FERRY_SIDE_OPTIONS);
    if (options.reserved) return refuse_option(FERRY_ERROR_RESERVED, FERRY_FIELD_RESERVED);
    struct {
        std::int64_t value, limit;
        std::int32_t field;
    } const ranges[] = {
        {options.driver, FERRY_DRIVER_SOFTWARE, FERRY_FIELD_DRIVER},
        {options.checks, FERRY_CHECKS_FULL, FERRY_FIELD_CHECKS},
        {options.software_devices, device_contexts::most_devices, FERRY_FIELD_SOFTWARE_DEVICES},
        {options.software_queues, 128, FERRY_FIELD_SOFTWARE_QUEUES},
        {options.kernels, FERRY_KERNELS_NONE, FERRY_FIELD_KERNELS},
        {options.staging, FERRY_STAGING_NONE, FERRY_FIELD_STAGING},
        {options.staging_threads, most_threads, FERRY_FIELD_THREADS},
        {options.staging_cpu_count, processor_set::most, FERRY_FIELD_STAGING_CPUS},
    };
    for (const auto &range : ranges)
        if (range.value < 0 || range.value > range.limit)
            return refuse_option(FERRY_ERROR_INVALID_ARGUMENT, range.field, static_cast<std::uint64_t>(range.limit),
                                 static_cast<std::uint64_t>(range.value));
    if (!are_known_copy_flags(options.copy_flags))
        return refuse_option(FERRY_ERROR_FLAGS, FERRY_FIELD_FLAGS, 0, options.copy_flags);
    constexpr std::uint64_t chunk_unit = 4096;
    if (options.register_chunk % chunk_unit)
        return refuse_option(FERRY_ERROR_INVALID_ARGUMENT, FERRY_FIELD_REGISTER_CHUNK, chunk_unit,
                             options.register_chunk);
    if (failure failed = check_staging(options)) return failed;
    if (!options.allocate != !options.deallocate)
        return refuse_option(FERRY_ERROR_INVALID_ARGUMENT, FERRY_FIELD_CALLBACKS);
    return {};
}

} // namespace

extern "C" {

int32_t ferry_open(const ferry_options *options, ferry_instance **instance, ferry_error_info *error) {
    if (!instance) return report(error, null_argument);
    *instance = nullptr;
    ferry_options known;
    failure failed = read_options(options, known);
    if (!failed) failed = open_instance(known, *instance);
    return report(error, failed);
}

void ferry_close(ferry_instance *instance) {
    if (instance) close_instance(*instance);
}

int32_t ferry_get_report(const ferry_instance *instance, ferry_report *report) {
    if (!instance || !report) return FERRY_ERROR_INVALID_ARGUMENT;
    return write_sized(describe_instance(*instance), report).status;
}

const char *ferry_missing_entry_point(const ferry_instance *instance, uint32_t index) {
    return instance ? missing_entry_point(*instance, index) : nullptr;
}

void *ferry_get_proc(const ferry_instance *instance, const char *name, int32_t version) {
    if (!instance || !name) return nullptr;
    return instance->entry_points.get_proc(instance->entry_points.user, name, version);
}

int32_t ferry_get_device_info(const ferry_instance *instance, int32_t device, ferry_device_info *info) {
    if (!instance || !info) return FERRY_ERROR_INVALID_ARGUMENT;
    if (failure failed = check_device(*instance, device)) return failed.status;
    return write_sized(instance->devices[device].info, info).status;
}

} // extern "C"
