// ferry-info: shows what ferry finds on this machine, as a table or as JSON.
#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <iostream>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "../output.h"
#include "../version.h"
#include "advice.h"
#include "limits.h"
#include "machine.h"
#include "words.h"

namespace {

using namespace ferry_info;
using json = nlohmann::ordered_json;

std::string uuid_text(const std::uint8_t (&uuid)[16]) {
    std::string text = "GPU-";
    for (int i = 0; i < 16; ++i) {
        char byte[4];
        std::snprintf(byte, sizeof byte, "%02x", uuid[i]);
        if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
        text += byte;
    }
    return text;
}

const char *probe_text(std::int32_t probe) {
    constexpr const char *names[] = {"not run", "passed", "failed"};
    return probe >= 0 && probe <= FERRY_PROBE_FAILED ? names[probe] : "?";
}

// The facts about each device except its name, memory and link: in words for the table, and by name for JSON.
struct fact {
    const char *name;
    std::int32_t ferry_device_info::*value;
    const char *words = nullptr; // if the fact is a flag: what the device supports if it is 1
};
constexpr fact facts[] = {
    {"copy_engines", &ferry_device_info::copy_engine_count},
    {"multiprocessors", &ferry_device_info::sm_count},
    {"numa_node", &ferry_device_info::numa_node},
    {"unified_addressing", &ferry_device_info::unified_addressing, "one address space with the host"},
    {"can_map_host_memory", &ferry_device_info::can_map_host_memory, "kernels that reach pinned memory"},
    {"host_register", &ferry_device_info::host_register, "pinning the program's own memory"},
    {"host_register_read_only", &ferry_device_info::host_register_read_only, "pinning read-only memory"},
    {"registered_address_is_device_address", &ferry_device_info::registered_address_is_device_address,
     "one address for memory that the program has pinned"},
    {"pageable_access", &ferry_device_info::pageable_access, "kernels that reach pageable memory"},
    {"managed_memory", &ferry_device_info::managed_memory, "managed memory"},
    {"concurrent_managed_access", &ferry_device_info::concurrent_managed_access,
     "managed memory that host and device use at the same time"},
    {"memory_pools", &ferry_device_info::memory_pools, "pools of device memory"},
    {"host_memory_pools", &ferry_device_info::host_memory_pools, "pools of host memory"},
    {"host_numa_memory_pools", &ferry_device_info::host_numa_memory_pools, "pools of a NUMA node's memory"},
    {"ipc_events", &ferry_device_info::ipc_events, "events shared between processes"},
    {"integrated", &ferry_device_info::integrated, "memory shared with the host"},
};

// The same for a pool's policies for memory that another stream freed.
struct reuse_policy {
    const char *name;
    std::int32_t ferry_pool_attributes::*value;
    const char *words;
};
constexpr reuse_policy reuse_policies[] = {
    {"reuse_follow_event_dependencies", &ferry_pool_attributes::reuse_follow_event_dependencies, "after an event"},
    {"reuse_opportunistic", &ferry_pool_attributes::reuse_opportunistic, "once the free is complete"},
    {"reuse_internal_dependencies", &ferry_pool_attributes::reuse_internal_dependencies, "by waiting for the free"},
};

// The handles through which other processes can use a pool.
struct handle_type {
    std::uint32_t type;
    const char *name, *words;
};
constexpr handle_type handle_types[] = {{FERRY_HANDLE_POSIX_FD, "posix_fd", "file descriptors"},
                                        {FERRY_HANDLE_WIN32, "win32", "Windows handles"},
                                        {FERRY_HANDLE_WIN32_KMT, "win32_kmt", "global Windows handles"},
                                        {FERRY_HANDLE_FABRIC, "fabric", "fabric handles, also on other machines"}};

std::vector<std::string> handle_type_names(std::uint32_t types, const char *handle_type::*in = &handle_type::name) {
    std::vector<std::string> found;
    for (const handle_type &each : handle_types)
        if (types & each.type) found.emplace_back(each.*in);
    return found;
}

json to_json(const std::optional<pool> &pool) {
    if (!pool) return nullptr;
    json result = {{"release_threshold", pool->attributes.release_threshold}};
    for (const reuse_policy &policy : reuse_policies)
        result[policy.name] = pool->attributes.*policy.value != 0;
    result["reserved_current"] = pool->stats.reserved_current;
    result["reserved_high"] = pool->stats.reserved_high;
    result["used_current"] = pool->stats.used_current;
    result["used_high"] = pool->stats.used_high;
    return result;
}

json to_json(const std::optional<pci_link> &link) {
    if (!link) return nullptr;
    return {{"gigatransfers_per_second", link->transfers},
            {"lanes", link->lanes},
            {"gigabytes_per_second", link->gigabytes_per_second()}};
}

json to_json(const device &device) {
    const ferry_device_info &info = device.info;
    json result = {
        {"device", info.device},
        {"name", info.name},
        {"uuid", uuid_text(info.uuid)},
        {"pci_address", info.pci_address},
        {"is_software", info.is_software != 0},
        {"compute_capability", std::to_string(info.compute_major) + "." + std::to_string(info.compute_minor)},
        {"total_memory", info.total_memory},
        {"max_pitch", info.max_pitch},
        {"pool_handle_types", handle_type_names(info.pool_handle_types)},
        {"default_pool", to_json(device.default_pool)},
        {"link", to_json(device.links.now)},
        {"link_max", to_json(device.links.max)},
        {"profile", profile_source(device)}};
    for (const fact &fact : facts) {
        const std::int32_t value = info.*fact.value;
        result[fact.name] = fact.words ? json(value != 0) : json(value);
    }
    return result;
}

json gigabytes_per_second(std::uint32_t rate) { return rate ? json(rate / 1000.0) : json(); }

json to_json(const ferry_peer_info &info) {
    return {{"device", info.device},
            {"peer", info.peer},
            {"can_access", info.can_access != 0},
            {"driver_can_access", info.driver_can_access != 0},
            {"probe", probe_text(info.probe)},
            {"performance_rank", info.performance_rank},
            {"native_atomics", info.native_atomics != 0},
            {"array_access", info.array_access != 0},
            {"direct_gigabytes_per_second", gigabytes_per_second(info.direct_mb_per_s)},
            {"bounced_gigabytes_per_second", gigabytes_per_second(info.bounce_mb_per_s)},
            {"relayed_gigabytes_per_second", gigabytes_per_second(info.relay_mb_per_s)},
            {"relay_fixed_ns", info.relay_fixed_ns ? json(info.relay_fixed_ns) : json()},
            {"direct_fixed_ns", info.direct_fixed_ns ? json(info.direct_fixed_ns) : json()},
            {"link_to_peer_gigabytes_per_second", gigabytes_per_second(info.link_to_mb_per_s)},
            {"link_from_peer_gigabytes_per_second", gigabytes_per_second(info.link_from_mb_per_s)}};
}

// Names FERRY_KERNELS_* and FERRY_STAGING_*, which have the same values.
const char *when_text(std::int32_t when) {
    constexpr const char *names[] = {"lazy", "at_open", "none"};
    static_assert(FERRY_KERNELS_NONE == FERRY_STAGING_NONE && FERRY_KERNELS_AT_OPEN == FERRY_STAGING_AT_OPEN);
    return when >= 0 && when <= FERRY_STAGING_NONE ? names[when] : "?";
}

json to_json(const machine &machine) {
    const ferry_report &report = machine.report;
    json result = {{"ferry", ferry_version_text()},
                   {"driver", report.driver == FERRY_DRIVER_SOFTWARE ? "software" : "cuda"},
                   {"cuda_version", cuda_version_text(report.driver_version)},
                   {"why_software", report.fallback_reason ? json(ferry_status_name(report.fallback_reason)) : json()},
                   {"missing_entry_points", machine.missing},
                   {"kernels",
                    {{"when", when_text(report.kernels)},
                     {"loaded", report.kernels_loaded != 0},
                     {"contexts", report.kernel_contexts}}},
                   {"staging",
                    {{"when", when_text(report.staging)},
                     {"threads", report.staging_threads},
                     {"threads_running", machine.staging.threads},
                     {"bytes_per_device", report.staging_bytes},
                     {"bytes_pinned", machine.staging.staging_bytes}}},
                   {"devices", json::array()},
                   {"peers", json::array()},
                   {"limits", json::array()},
                   {"advice", json::array()}};
    for (const device &device : machine.devices)
        result["devices"].push_back(to_json(device));
    for (const ferry_peer_info &info : machine.peers)
        result["peers"].push_back(to_json(info));
    const auto or_null = [](const std::string &text) { return text.empty() ? json() : json(text); };
    for (const limit &each : find_limits(machine))
        result["limits"].push_back({{"name", each.name},
                                    {"value", each.value},
                                    {"effect", or_null(each.effect)},
                                    {"remedy", or_null(each.remedy)}});
    for (const advice &each : advise(machine))
        result["advice"].push_back({{"finding", each.finding}, {"remedy", each.remedy}});
    return result;
}

std::string joined(const std::vector<std::string> &words, const char *if_empty) {
    std::string list;
    for (const std::string &each : words)
        list += (list.empty() ? "" : ", ") + each;
    return list.empty() ? if_empty : list;
}

// Prints a line of the table. Long texts continue on separate lines, indented to their start.
void print_line(const char *name, const std::string &text) {
    constexpr std::size_t indent = 21, width = 110;
    std::printf("%-*s", static_cast<int>(indent), name);
    std::size_t begin = 0;
    while (text.size() - begin > width - indent) {
        const std::size_t space = text.rfind(' ', begin + width - indent);
        if (space == std::string::npos || space <= begin) break;
        std::printf("%s\n%*s", text.substr(begin, space - begin).c_str(), static_cast<int>(indent), "");
        begin = space + 1;
    }
    std::printf("%s\n", text.substr(begin).c_str());
}

void print_link(const device &device) {
    if (!device.links.now) return;
    std::printf("    link             PCIe, %.1f GT/s x %d: %.1f GB/s", device.links.now->transfers,
                device.links.now->lanes, device.links.now->gigabytes_per_second());
    if (device.links.max && !(*device.links.max == *device.links.now))
        std::printf(" now, up to %.1f GB/s", device.links.max->gigabytes_per_second());
    std::printf("\n");
}

void print_pools(const device &device) {
    if (!device.default_pool) {
        std::printf("    default pool     none: pools are not supported\n");
        return;
    }
    const auto &[attributes, stats] = *device.default_pool;
    print_line("    pools shared by",
               joined(handle_type_names(device.info.pool_handle_types, &handle_type::words), "nothing"));
    print_line("    default pool", "keeps " +
                                       (attributes.release_threshold == UINT64_MAX
                                            ? std::string("all freed memory")
                                            : bytes_text(attributes.release_threshold) + " of freed memory") +
                                       "; holds " + bytes_text(stats.reserved_current) + ", high-water mark " +
                                       bytes_text(stats.reserved_high) + "; used " + bytes_text(stats.used_current) +
                                       ", high-water mark " + bytes_text(stats.used_high));
    std::vector<std::string> policies;
    for (const reuse_policy &policy : reuse_policies)
        if (attributes.*policy.value) policies.emplace_back(policy.words);
    print_line("    freed memory", policies.empty() ? "is reused only by the stream that freed it"
                                                    : "is reused by other streams " + joined(policies, ""));
}

void print_device(const device &device) {
    const ferry_device_info &info = device.info;
    constexpr const char *overlaps[] = {"copies and kernels take turns", "one copy beside kernels",
                                        "one copy each way beside kernels",
                                        "one copy each way and more beside kernels"};
    const bool is_known = info.overlap >= 0 && info.overlap <= FERRY_COPY_OVERLAP_BOTH_AND_MORE;
    std::printf("\ndevice %d            %s, compute %d.%d, %d SMs\n", info.device, info.name, info.compute_major,
                info.compute_minor, info.sm_count);
    std::printf("    uuid             %s\n", uuid_text(info.uuid).c_str());
    std::printf("    PCI address      %s\n", info.pci_address);
    print_link(device);
    std::printf("    memory           %.1f GiB\n", static_cast<double>(info.total_memory) / (1 << 30));
    std::printf("    copy engines     %d: %s\n", info.copy_engine_count, is_known ? overlaps[info.overlap] : "?");
    if (info.numa_node >= 0) std::printf("    NUMA node        %d\n", info.numa_node);
    std::vector<std::string> has, lacks;
    for (const fact &fact : facts)
        if (fact.words) (info.*fact.value ? has : lacks).emplace_back(fact.words);
    print_line("    with", joined(has, "none of the following"));
    print_line("    without", joined(lacks, "none of the above"));
    print_line("    profile", profile_source(device));
    print_pools(device);
}

const char *cell(const ferry_peer_info &info) {
    if (!info.driver_can_access) return "no";
    return info.probe == FERRY_PROBE_FAILED ? "LOST" : info.probe == FERRY_PROBE_PASSED ? "yes" : "untested";
}

// Both rates of a helper's link, if they were measured.
std::string link_cell(const ferry_peer_info &info) {
    if (!info.link_to_mb_per_s || !info.link_from_mb_per_s) return "-";
    char text[32];
    std::snprintf(text, sizeof text, "%.0f/%.0f", info.link_to_mb_per_s / 1000.0, info.link_from_mb_per_s / 1000.0);
    return text;
}

// The rate of copies to a peer. Without access, the faster rate of ferry and the driver.
std::string rate_cell(const ferry_peer_info &info) {
    char text[32];
    const double without = std::max(info.bounce_mb_per_s, info.relay_mb_per_s) / 1000.0;
    std::snprintf(text, sizeof text, info.direct_mb_per_s ? "%.1f" : "(%.1f)",
                  info.direct_mb_per_s ? info.direct_mb_per_s / 1000.0 : without);
    return text;
}

template <class Cell> void print_matrix(const machine &machine, const char *title, const Cell &cell_of) {
    std::printf("\n%s\n     ", title);
    for (const device &device : machine.devices)
        std::printf("%10d", device.info.device);
    std::size_t next = 0;
    for (const device &row : machine.devices) {
        std::printf("\n%5d", row.info.device);
        for (const device &column : machine.devices) {
            const bool is_one = row.info.device == column.info.device;
            std::printf("%10s", is_one ? "-" : std::string(cell_of(machine.peers[next++])).c_str());
        }
    }
    std::printf("\n");
}

void print_peers(const machine &machine, bool are_measured) {
    if (machine.peers.empty()) return;
    print_matrix(machine,
                 "peer access          (row reaches column; LOST: the driver reports access, but bytes do not arrive)",
                 cell);
    if (!are_measured) return;
    print_matrix(machine, "copies between       (from row to column, GB/s; in brackets: without peer access)",
                 rate_cell);
    print_matrix(machine,
                 "links for others     (the row's link between host and the column's memory, GB/s to it/from it)",
                 link_cell);
}

void print_rate(std::FILE *out, std::uint32_t rate) {
    if (rate)
        std::fprintf(out, "%10.1f", rate / 1000.0);
    else
        std::fprintf(out, "%10s", "-");
}

// Prints one line per peer, because some machines have many devices.
void print_rates(std::FILE *out, std::int32_t device, const std::vector<ferry_peer_info> &pairs) {
    if (pairs.empty()) return;
    std::fprintf(
        out,
        "copies to peers      (from device %d, GB/s; direct: with peer access; bounced by the driver and relayed "
        "by ferry without;\n"
        "                      link to, link from: between the host and the peer, over the link of device %d)\n"
        "%5s%10s%10s%10s%10s%10s%10s\n",
        device, device, "", "access", "direct", "bounced", "relayed", "link to", "link from");
    for (const ferry_peer_info &pair : pairs) {
        std::fprintf(out, "%5d%10s", pair.peer, cell(pair));
        for (const std::uint32_t rate : {pair.direct_mb_per_s, pair.bounce_mb_per_s, pair.relay_mb_per_s,
                                         pair.link_to_mb_per_s, pair.link_from_mb_per_s})
            print_rate(out, rate);
        std::fprintf(out, "\n");
    }
}

void print_staging(const machine &machine) {
    const ferry_report &report = machine.report;
    if (report.kernels_loaded)
        std::printf("kernels              loaded in %u context%s\n", report.kernel_contexts,
                    report.kernel_contexts == 1 ? "" : "s");
    else
        std::printf("kernels              %s\n",
                    report.kernels == FERRY_KERNELS_NONE ? "none: the driver makes all copies" : "not loaded yet");
    if (report.staging == FERRY_STAGING_NONE) {
        std::printf("staging              none: copies of pageable memory block\n");
        return;
    }
    std::printf("staging              threads: %u for each device, running: %u; %.1f MiB for each device, pinned now: "
                "%.1f MiB\n",
                report.staging_threads, machine.staging.threads, static_cast<double>(report.staging_bytes) / (1 << 20),
                static_cast<double>(machine.staging.staging_bytes) / (1 << 20));
}

void print_limits(const machine &machine) {
    std::printf("\nlimits\n");
    for (const limit &each : find_limits(machine)) {
        const std::string name = "    " + each.name;
        std::printf("%-27s%s\n", name.c_str(), each.value.c_str());
        if (each.effect.empty()) continue;
        print_line("        effect", each.effect);
        print_line("        what to do", each.remedy);
    }
}

void print_advice(const machine &machine) {
    const std::vector<advice> found = advise(machine);
    std::printf("\nslow on this machine%s\n", found.empty() ? "  nothing was found" : "");
    for (const advice &each : found) {
        print_line("    finding", each.finding);
        print_line("    what to do", each.remedy);
    }
}

void print(const machine &machine, bool are_peers_measured) {
    const ferry_report &report = machine.report;
    std::printf("ferry                %s\n", ferry_version_text().c_str());
    std::printf("driver               %s, CUDA %s\n", report.driver == FERRY_DRIVER_SOFTWARE ? "software" : "NVIDIA",
                cuda_version_text(report.driver_version).c_str());
    if (report.fallback_reason)
        std::printf("no GPU               %s (%s)\n", ferry_status_text(report.fallback_reason),
                    ferry_status_name(report.fallback_reason));
    print_line("missing in driver", joined(machine.missing, "nothing"));
    print_staging(machine);
    for (const device &device : machine.devices)
        print_device(device);
    print_peers(machine, are_peers_measured);
    print_limits(machine);
    print_advice(machine);
}

std::int32_t device_count(ferry_instance *instance) {
    auto report = sized<ferry_report>();
    check(ferry_instance_get_report(instance, &report, nullptr), "ferry_instance_get_report");
    return report.device_count;
}

// Measures the copies of a device to each peer. Returns these pairs.
std::vector<ferry_peer_info> measure_peers(ferry_instance *instance, std::int32_t device) {
    std::vector<ferry_peer_info> pairs;
    for (std::int32_t peer = 0; peer < device_count(instance); ++peer) {
        if (peer == device) continue;
        check(ferry_peer_calibrate(instance, device, peer, nullptr), "ferry_peer_calibrate");
        pairs.push_back(sized<ferry_peer_info>());
        check(ferry_peer_get_info(instance, device, peer, &pairs.back(), nullptr), "ferry_peer_get_info");
    }
    return pairs;
}

// Measures the device, and its copies to each peer. Returns these pairs.
std::vector<ferry_peer_info> calibrate(ferry_instance *instance, std::int32_t device) {
    check(ferry_device_calibrate(instance, device, nullptr), "ferry_device_calibrate");
    return measure_peers(instance, device);
}

int run(int argument_count, char **arguments) {
    const std::map<std::string, std::int32_t> drivers = {
        {"auto", FERRY_DRIVER_AUTO}, {"cuda", FERRY_DRIVER_CUDA}, {"software", FERRY_DRIVER_SOFTWARE}};
    std::int32_t driver = FERRY_DRIVER_AUTO;
    std::int32_t calibrated = -1;
    std::string profile;
    bool as_json = false, no_probe = false, measures_peers = false;
    CLI::App app("Shows what ferry finds on this machine: driver, devices, and access between devices.");
    app.add_flag("--json", as_json, "Write JSON");
    app.add_flag("--no-probe", no_probe,
                 "Do not send data between devices or load kernels; both need a context on each device");
    app.add_flag("--peers", measures_peers,
                 "Measure the copies between all devices, which takes up to two seconds for each pair");
    app.add_option(
           "--calibrate", calibrated,
           "Measure this device and its copies to peers (with --peers, copies between all devices), and write the "
           "profile instead of the report; with --json, write both")
        ->option_text("DEVICE")
        ->check(CLI::NonNegativeNumber);
    app.add_option("--profile", profile, "Load this profile; the report shows on which devices the profile is active")
        ->type_name("FILE");
    app.add_option("--driver", driver, "The driver to use; auto uses the software driver if there is no GPU")
        ->transform(CLI::CheckedTransformer(drivers))
        ->option_text("auto|cuda|software");
    app.set_version_flag("--version", "ferry-info " + ferry_version_text());
    CLI11_PARSE(app, argument_count, arguments);
    try {
        // Staging set up at open can be reported.
        const bool is_tried = !no_probe && (calibrated < 0 || as_json);
        const instance_owner instance = open_instance(driver, is_tried ? FERRY_STAGING_AT_OPEN : FERRY_STAGING_LAZY);
        std::optional<profile_file> loaded;
        if (!profile.empty()) loaded = load_profile(instance.get(), profile);
        std::vector<ferry_peer_info> pairs;
        if (calibrated >= 0) pairs = calibrate(instance.get(), calibrated);
        const int devices = measures_peers ? device_count(instance.get()) : 0;
        for (std::int32_t device = 0; device < devices; ++device)
            if (device != calibrated) measure_peers(instance.get(), device);
        if (calibrated >= 0 && !as_json) {
            // Nothing else is written to standard output, so that it can be redirected to a file.
            std::cout << profile_text(instance.get(), calibrated);
            print_rates(stderr, calibrated, pairs);
            return 0;
        }
        const machine found = inspect(instance.get(), !no_probe, loaded);
        json described = as_json ? to_json(found) : json();
        if (calibrated >= 0) described["profile"] = profile_text(instance.get(), calibrated);
        if (as_json)
            std::cout << described.dump(2) << '\n';
        else
            print(found, measures_peers);
        return 0;
    } catch (const std::exception &failure) {
        std::cerr << "ferry-info: " << failure.what() << '\n';
        return 1;
    }
}

} // namespace

int main(int argument_count, char **arguments) {
    return ferry_tools::exit_code("ferry-info", run(argument_count, arguments));
}
