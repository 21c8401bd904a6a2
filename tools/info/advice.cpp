#include "advice.h"

#include <cmath>
#include <cstdio>

#include "words.h"

namespace ferry_info {

namespace {

// The GB/s of one staging thread: 6.3 to the device, with eight threads on an H200's host (docs/staging.md, measured
// costs).
constexpr double rate_of_thread = 6.3;
constexpr std::uint32_t max_default_threads = 8;

std::string number(double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%.3g", value);
    return text;
}

std::string counted(std::uint64_t count, const char *what) {
    return std::to_string(count) + ' ' + what + (count == 1 ? "" : "s");
}

// The same rule as in src/plan/built_in_profile.cpp.
bool is_measured_kind(const ferry_device_info &device) {
    return device.compute_major == 9 && device.compute_minor == 0 && !device.is_software && !device.integrated &&
           !device.pageable_uses_host_page_tables;
}

bool is_software(const machine &machine) { return machine.report.driver == FERRY_DRIVER_SOFTWARE; }

void advise_on_software(const machine &machine, std::vector<advice> &found) {
    found.push_back({"No GPU is in use: the software driver copies with the CPU.",
                     machine.report.fallback_reason
                         ? "Install NVIDIA's driver for CUDA 12.0 or newer. In a container, make the GPU available "
                           "to the container, for example with --gpus all."
                         : "Leave out --driver software to use the GPU."});
}

void advise_on_kernels(const machine &machine, std::vector<advice> &found) {
    if (machine.report.kernels != FERRY_KERNELS_NONE) return;
    found.push_back({"The driver does not run ferry's kernels, so it copies narrow rows, small pieces and pageable "
                     "memory by itself.",
                     "Install a newer driver."});
}

// Such as "0 and 1, 0 and 2, and 5 more".
std::string pair_list(const std::vector<std::string> &pairs) {
    constexpr std::size_t max_shown = 4;
    std::string list;
    for (std::size_t i = 0; i < pairs.size() && i < max_shown; ++i)
        list += (i ? ", " : "") + pairs[i];
    return pairs.size() > max_shown ? list + ", and " + std::to_string(pairs.size() - max_shown) + " more" : list;
}

void advise_on_peers(const machine &machine, std::vector<advice> &found) {
    std::vector<std::string> lost, without;
    for (const ferry_peer_info &pair : machine.peers) {
        const std::string device = std::to_string(pair.device), peer = std::to_string(pair.peer);
        if (pair.driver_can_access && pair.probe == FERRY_PROBE_FAILED)
            lost.push_back(device + " to " + peer);
        else if (!pair.driver_can_access && pair.device < pair.peer)
            without.push_back(device + " and " + peer);
    }
    if (!lost.empty())
        found.push_back(
            {"The driver reports peer access from device " + pair_list(lost) +
                 ", but bytes do not arrive. ferry copies through host memory instead.",
             "Turn off access control services (ACS) of the PCIe switches, or the IOMMU, in the firmware."});
    if (!without.empty())
        found.push_back(
            {"There is no peer access (P2P) between devices " + pair_list(without) +
                 ": copies between these devices pass through host memory.",
             "`nvidia-smi topo -p2p r` shows the reason. In a virtual machine, the host configures peer access. "
             "ferry-info --calibrate DEVICE measures these copies, so that ferry can plan them."});
}

void advise_on_links(const machine &machine, std::vector<advice> &found) {
    for (const device &device : machine.devices) {
        const pci_links &links = device.links;
        if (!links.now || !links.max || links.now->lanes >= links.max->lanes) continue;
        found.push_back({"Device " + std::to_string(device.info.device) + " uses " + std::to_string(links.now->lanes) +
                             " of its " + std::to_string(links.max->lanes) +
                             " PCIe lanes, so copies to and from the host have that share of the speed.",
                         "Put the device into a slot with all lanes, and check the firmware's settings for the slot."});
    }
}

// The maximum bandwidth of the devices' links in each direction, in GB/s; 0: unknown.
double fastest_link(const machine &machine) {
    double fastest = 0;
    for (const device &device : machine.devices)
        if (device.links.max) fastest = std::max(fastest, device.links.max->gigabytes_per_second());
    return fastest;
}

void advise_on_staging(const machine &machine, std::vector<advice> &found) {
    const ferry_report &report = machine.report;
    if (report.staging == FERRY_STAGING_NONE) return; // for the same reasons as the kernels
    const double link = fastest_link(machine), staged = report.staging_threads * rate_of_thread;
    if (report.staging_threads < max_default_threads && (link == 0 || staged < link))
        found.push_back({"Staging has only " + counted(report.staging_threads, "thread") +
                             " for each device, because the process "
                             "may use " +
                             counted(machine.processors, "processor") + ". Copies of pageable memory reach about " +
                             number(staged) + " GB/s" + (link > 0 ? " of the link's " + number(link) : "") + '.',
                         "Let the process use " + std::to_string(2 * max_default_threads) +
                             " processors (taskset, a container's --cpuset-cpus), or set "
                             "ferry_options.staging_threads."});
    const std::uint64_t whole = report.staging_bytes * static_cast<std::uint64_t>(report.device_count);
    if (!machine.was_probed || machine.staging.staging_bytes >= whole) return;
    found.push_back({"Only " + bytes_text(machine.staging.staging_bytes) + " of " + bytes_text(whole) +
                         " of staging buffers could be pinned" +
                         (machine.limits.locked_memory
                              ? ". The process may lock " + bytes_text(*machine.limits.locked_memory) + " of memory"
                              : std::string()) +
                         ". Copies of pageable memory are slower or block.",
                     "Raise the limit of locked memory (`ulimit -l`, memlock in /etc/security/limits.conf, a "
                     "container's --ulimit memlock=-1) or the memory limit of the container."});
}

void advise_on_profiles(const machine &machine, std::vector<advice> &found) {
    for (const device &device : machine.devices) {
        if (device.profile || is_measured_kind(device.info)) continue;
        const std::string ordinal = std::to_string(device.info.device);
        found.push_back({"Device " + ordinal +
                             " has no measured profile, so ferry uses its own routes only where "
                             "they are expected to be faster on every GPU.",
                         "`ferry-info --calibrate " + ordinal +
                             " > gpu.profile` measures it in seconds. The program "
                             "loads the file with ferry_profile_load."});
    }
}

void advise_on_driver(const machine &machine, std::vector<advice> &found) {
    if (machine.missing.empty()) return;
    found.push_back({"The driver lacks " + counted(machine.missing.size(), "optional function") + ", such as " +
                         machine.missing.front() +
                         ". ferry makes slower calls instead, or rejects calls that need these functions.",
                     "Install a newer driver."});
}

} // namespace

std::vector<advice> advise(const machine &machine) {
    std::vector<advice> found;
    if (is_software(machine)) {
        advise_on_software(machine, found);
        return found;
    }
    for (const auto subject :
         {advise_on_kernels, advise_on_peers, advise_on_links, advise_on_staging, advise_on_profiles, advise_on_driver})
        subject(machine, found);
    return found;
}

std::string profile_source(const device &device) {
    if (device.profile) {
        const double age = device.profile->age_days;
        return device.profile->path + ", " +
               (age < 1 ? "less than a day" : counted(static_cast<std::uint64_t>(age), "day")) + " old";
    }
    if (device.info.is_software) return "built in, measured on the software driver";
    if (is_measured_kind(device.info)) return "built in, measured on an H200";
    return "built in, a cautious guess for devices that were not measured";
}

} // namespace ferry_info
