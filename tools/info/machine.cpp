#include "machine.h"

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>
#if defined(__linux__)
#include <sched.h>
#include <sys/resource.h>

#include "system/control_groups.h"
#endif

namespace ferry_info {

namespace {

unsigned usable_processors() {
#if defined(__linux__)
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) return static_cast<unsigned>(CPU_COUNT(&allowed));
#endif
    return std::thread::hardware_concurrency();
}

#if defined(__linux__)
// Empty: no limit.
template <class Resource> std::optional<std::uint64_t> limit_of(Resource resource) {
    rlimit granted = {};
    if (getrlimit(resource, &granted) != 0 || granted.rlim_cur == RLIM_INFINITY) return std::nullopt;
    return granted.rlim_cur;
}
#endif

std::string variable(const char *name) {
    const char *const value = std::getenv(name);
    return value ? value : "";
}

process_limits read_process_limits() {
    process_limits found;
#if defined(__linux__)
    found.are_known = true;
    found.locked_memory = limit_of(RLIMIT_MEMLOCK);
    found.address_space = limit_of(RLIMIT_AS);
    constexpr std::uint64_t more_than_any_machine = std::uint64_t{1} << 60; // groups without a limit
    if (const std::uint64_t left = ferry::memory_left_in_groups(); left < more_than_any_machine)
        found.group_left = left;
    read_placement("/", found);
    const std::string folder = variable("CUDA_MPS_PIPE_DIRECTORY");
    std::error_code ignored;
    found.has_mps_daemon = std::filesystem::exists(
        std::filesystem::path(folder.empty() ? "/tmp/nvidia-mps" : folder) / "control", ignored);
#endif
    found.mps_threads = variable("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE");
    found.mps_memory = variable("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT");
    return found;
}

std::string read_file(const std::string &path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) throw std::runtime_error("cannot read " + path);
    return {std::istreambuf_iterator<char>(file), {}};
}

std::optional<pool> describe_default_pool(ferry_instance *instance, std::int32_t ordinal) {
    CUmemPoolHandle_st *handle = nullptr;
    const std::int32_t status = ferry_pool_get_default(instance, FERRY_LOCATION_DEVICE, ordinal, &handle, nullptr);
    if (status == FERRY_ERROR_UNSUPPORTED) return std::nullopt;
    check(status, "ferry_pool_get_default");
    pool found = {sized<ferry_pool_attributes>(), sized<ferry_pool_stats>()};
    check(ferry_pool_get_attributes(instance, handle, &found.attributes, nullptr), "ferry_pool_get_attributes");
    check(ferry_pool_get_stats(instance, handle, &found.stats, nullptr), "ferry_pool_get_stats");
    return found;
}

device describe_device(ferry_instance *instance, std::int32_t ordinal) {
    device found = {sized<ferry_device_info>(), {}, {}, {}};
    check(ferry_device_get_info(instance, ordinal, &found.info, nullptr), "ferry_device_get_info");
    found.links = read_pci_links(found.info.pci_address);
    if (found.info.memory_pools) found.default_pool = describe_default_pool(instance, ordinal);
    return found;
}

// Waits until the staging buffers are complete, but at most 2 s: a thread pins most of a staging buffer after
// ferry_open has returned, and a staging buffer stays smaller if the system cannot pin all of it.
ferry_staging_info whole_staging(ferry_instance *instance, const ferry_report &report) {
    const std::uint64_t whole = report.staging_bytes * static_cast<std::uint64_t>(report.device_count);
    const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(2);
    for (;;) {
        auto staging = sized<ferry_staging_info>();
        check(ferry_staging_get_info(instance, &staging, nullptr), "ferry_staging_get_info");
        const bool is_growing = staging.staging_bytes != 0 && staging.staging_bytes < whole;
        if (!is_growing || std::chrono::steady_clock::now() >= patience) return staging;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
}

} // namespace

void check(std::int32_t status, const char *call) {
    if (status != FERRY_SUCCESS)
        throw std::runtime_error(std::string(call) + ": " + ferry_status_text(status) + " (" +
                                 ferry_status_name(status) + ")");
}

instance_owner open_instance(std::int32_t driver, std::int32_t staging) {
    auto options = sized<ferry_options>();
    options.driver = driver;
    options.staging = staging;
    ferry_instance *instance = nullptr;
    check(ferry_open(&options, &instance, nullptr), "ferry_open");
    return instance_owner(instance);
}

profile_file load_profile(ferry_instance *instance, const std::string &path) {
    const std::string text = read_file(path);
    auto error = sized<ferry_error_info>();
    if (ferry_profile_load(instance, text.data(), text.size(), &error) != FERRY_SUCCESS) {
        std::string why(ferry_error_format(&error, nullptr, 0) + 1, '\0');
        ferry_error_format(&error, why.data(), why.size());
        throw std::runtime_error(path + " cannot be loaded: " + why.c_str() +
                                 ". Measure it again: ferry-info --calibrate DEVICE > " + path);
    }
    const auto age = std::filesystem::file_time_type::clock::now() - std::filesystem::last_write_time(path);
    return {path, std::chrono::duration<double, std::ratio<86400>>(age).count()};
}

std::string profile_text(ferry_instance *instance, std::int32_t device) {
    std::uint64_t size = 0;
    check(ferry_profile_save(instance, device, nullptr, 0, &size, nullptr), "ferry_profile_save");
    std::string text(size, '\0');
    check(ferry_profile_save(instance, device, text.data(), size, nullptr, nullptr), "ferry_profile_save");
    text.pop_back(); // the terminating zero
    return text;
}

machine inspect(ferry_instance *instance, bool probe, const std::optional<profile_file> &loaded) {
    machine found = {};
    found.report = sized<ferry_report>();
    found.was_probed = probe;
    found.processors = usable_processors();
    found.limits = read_process_limits();
    check(ferry_instance_get_report(instance, &found.report, nullptr), "ferry_instance_get_report");
    found.staging = whole_staging(instance, found.report);
    for (std::uint32_t i = 0; i < found.report.missing_count; ++i)
        found.missing.push_back(ferry_instance_get_missing_entry_point(instance, i));
    const std::int32_t count = found.report.device_count;
    for (std::int32_t ordinal = 0; ordinal < count; ++ordinal) {
        found.devices.push_back(describe_device(instance, ordinal));
        if (loaded && profile_text(instance, ordinal) == read_file(loaded->path)) found.devices.back().profile = loaded;
    }
    for (std::int32_t from = 0; from < count; ++from)
        for (std::int32_t to = 0; to < count; ++to) {
            if (from == to) continue;
            const std::int32_t status = probe ? ferry_peer_probe(instance, from, to, nullptr) : FERRY_SUCCESS;
            // ferry_peer_info reports both.
            if (status != FERRY_ERROR_PEER_ACCESS && status != FERRY_ERROR_DATA_LOST) check(status, "ferry_peer_probe");
            auto info = sized<ferry_peer_info>();
            check(ferry_peer_get_info(instance, from, to, &info, nullptr), "ferry_peer_get_info");
            found.peers.push_back(info);
        }
    return found;
}

} // namespace ferry_info
