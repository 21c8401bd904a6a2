#include "limits.h"

#include <algorithm>

#include "words.h"

namespace ferry_info {

namespace {

constexpr std::uint64_t GiB = std::uint64_t{1} << 30;

// What the staging buffers of all devices take.
std::uint64_t staging_bytes(const machine &machine) {
    return machine.report.staging_bytes * static_cast<std::uint64_t>(machine.report.device_count);
}

std::string amount(const std::optional<std::uint64_t> &bytes) { return bytes ? bytes_text(*bytes) : "no limit"; }

std::string device_text(const device &device) { return "Device " + std::to_string(device.info.device); }

void find_locked_memory(const machine &machine, std::vector<limit> &found) {
    if (!machine.limits.are_known) return;
    const std::optional<std::uint64_t> &bytes = machine.limits.locked_memory;
    limit made = {"locked memory", amount(bytes), "", ""};
    if (bytes && *bytes < GiB + staging_bytes(machine)) {
        made.effect = "The system may refuse to pin more memory than this.";
        made.remedy = "Raise the limit: `ulimit -l unlimited`, memlock in /etc/security/limits.conf, or a container's "
                      "--ulimit memlock=-1.";
    }
    found.push_back(made);
}

void find_group_memory(const machine &machine, std::vector<limit> &found) {
    if (!machine.limits.are_known) return;
    const std::optional<std::uint64_t> &left = machine.limits.group_left;
    limit made = {"memory of the group", left ? bytes_text(*left) + " left" : amount(left), "", ""};
    if (left && *left < 2 * GiB + staging_bytes(machine)) {
        made.effect =
            "Pinned memory counts, and the system ends a process that exceeds the memory of its control group.";
        made.remedy = "Raise the container's --memory, or limit ferry with ferry_options.max_pinned_bytes.";
    }
    found.push_back(made);
}

void find_address_space(const machine &machine, std::vector<limit> &found) {
    const std::optional<std::uint64_t> &bytes = machine.limits.address_space;
    if (!bytes) return;
    found.push_back({"address space", amount(bytes),
                     "CUDA reserves more addresses than the machine has memory, so opening the driver may fail.",
                     "Remove the limit: `ulimit -v unlimited`."});
}

bool have_common(const std::set<int> &some, const std::set<int> &others) {
    return std::any_of(some.begin(), some.end(), [&](int one) { return others.count(one) != 0; });
}

void find_placement(const machine &machine, std::vector<limit> &found) {
    const process_limits &limits = machine.limits;
    if (limits.nodes.empty()) return;
    found.push_back({"NUMA nodes",
                     std::to_string(limits.nodes.size()) + ", memory of " + list_text(limits.memory_nodes) +
                         ", processors " + list_text(limits.processors),
                     "", ""});
    for (const device &device : machine.devices) {
        const auto node = limits.nodes.find(device.info.numa_node);
        if (node == limits.nodes.end() || limits.nodes.size() == 1) continue;
        const std::string at = device_text(device) + " is at node " + std::to_string(node->first);
        if (!limits.memory_nodes.empty() && limits.memory_nodes.count(node->first) == 0)
            found.push_back({"memory near device", "none",
                             at + ", whose memory the process may not use, so its copies cross between the nodes.",
                             "Allow the node: numactl --membind, or a container's --cpuset-mems."});
        if (!limits.processors.empty() && !have_common(limits.processors, node->second))
            found.push_back(
                {"processors near device", "none",
                 at + ", on whose processors the process may not run, so its threads copy between the nodes.",
                 "Allow some of the node's processors: taskset, or a container's --cpuset-cpus."});
    }
}

void find_huge_pages(const machine &machine, std::vector<limit> &found) {
    const std::string &mode = machine.limits.huge_pages;
    if (mode.empty()) return;
    limit made = {"huge pages", mode, "", ""};
    if (mode == "never") {
        made.effect = "Pinned memory and new destinations of copies consist of pages of 4 KiB, so that allocating them "
                      "takes several times as long.";
        made.remedy = "Write `madvise` to /sys/kernel/mm/transparent_hugepage/enabled.";
    }
    found.push_back(made);
}

void find_sharing(const machine &machine, std::vector<limit> &found) {
    const process_limits &limits = machine.limits;
    if (limits.has_mps_daemon) found.push_back({"multi-process service", "in use", "", ""});
    if (!limits.mps_threads.empty())
        found.push_back(
            {"share of the SMs", limits.mps_threads + " %",
             "The multi-process service gives the process only a part of the SMs, also for ferry's kernels.",
             "Raise CUDA_MPS_ACTIVE_THREAD_PERCENTAGE. Half a dozen SMs suffice for the copies."});
    if (!limits.mps_memory.empty())
        found.push_back(
            {"device memory", limits.mps_memory,
             "The multi-process service limits the memory that the process may allocate on the device.",
             "Raise CUDA_MPS_PINNED_DEVICE_MEM_LIMIT, or limit ferry with ferry_options.max_device_bytes."});
}

void find_devices(const machine &machine, std::vector<limit> &found) {
    for (const device &device : machine.devices) {
        if (std::string(device.info.name).find("MIG ") != std::string::npos)
            found.push_back({"part of a GPU", device.info.name,
                             device_text(device) + " has " + std::to_string(device.info.copy_engine_count) +
                                 " copy engines, a part of the SMs, and no access to other devices.",
                             "Use a whole GPU for copies that need more."});
        if (!device.info.is_software && !device.info.host_register)
            found.push_back(
                {"registration", "not possible",
                 device_text(device) + " cannot pin the program's own memory, as in confidential computing.",
                 "Allocate pinned memory with ferry_host_alloc or a pinned pool instead."});
    }
}

} // namespace

std::vector<limit> find_limits(const machine &machine) {
    std::vector<limit> found;
    for (const auto subject : {find_locked_memory, find_group_memory, find_address_space, find_placement,
                               find_huge_pages, find_sharing, find_devices})
        subject(machine, found);
    return found;
}

} // namespace ferry_info
