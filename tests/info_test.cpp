// Tests what ferry-info finds slow on a machine, and what it advises.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "../tools/info/advice.h"
#include "../tools/info/limits.h"
#include "../tools/info/words.h"

#include "ferry/ferry_devices.h"

namespace ferry_info {
namespace {

constexpr std::uint64_t MiB = 1 << 20;
constexpr pci_link full_link = {32, 16}, half_link = {32, 8}, slow_link = {8, 16};

device hopper(std::int32_t ordinal) {
    device made = {};
    made.info.device = ordinal;
    made.info.compute_major = 9;
    made.links = {full_link, full_link};
    return made;
}

ferry_peer_info peer_of(std::int32_t device, std::int32_t peer, bool has_access, std::int32_t probe) {
    ferry_peer_info info = {};
    info.device = device;
    info.peer = peer;
    info.driver_can_access = has_access;
    info.probe = probe;
    return info;
}

// Two H200 with peer access and 16 processors: nothing is slow.
machine fast_machine() {
    machine made = {};
    made.report.driver = FERRY_DRIVER_CUDA;
    made.report.device_count = 2;
    made.report.kernels = FERRY_KERNELS_AT_OPEN;
    made.report.staging = FERRY_STAGING_AT_OPEN;
    made.report.staging_threads = 8;
    made.report.staging_bytes = 16 * MiB;
    made.staging.staging_bytes = 32 * MiB;
    made.devices = {hopper(0), hopper(1)};
    made.peers = {peer_of(0, 1, true, FERRY_PROBE_PASSED), peer_of(1, 0, true, FERRY_PROBE_PASSED)};
    made.was_probed = true;
    made.processors = 16;
    return made;
}

// The only advice, as one text.
std::string only_advice(const machine &machine) {
    const std::vector<advice> found = advise(machine);
    EXPECT_EQ(found.size(), 1u);
    return found.empty() ? "" : found[0].finding + ' ' + found[0].remedy;
}

void expect_words(const std::string &text, std::initializer_list<const char *> all_words) {
    for (const char *words : all_words)
        EXPECT_NE(text.find(words), std::string::npos) << "'" << words << "' in: " << text;
}

TEST(ferry_info_advice, nothing_is_slow_on_a_fast_machine) { EXPECT_TRUE(advise(fast_machine()).empty()); }

TEST(ferry_info_advice, on_the_software_driver_only_the_missing_gpu_counts) {
    machine machine = fast_machine();
    machine.report.driver = FERRY_DRIVER_SOFTWARE;
    machine.report.staging_threads = 2;
    machine.peers.clear();
    expect_words(only_advice(machine), {"No GPU is in use", "--driver software"});
    machine.report.fallback_reason = FERRY_ERROR_NO_DRIVER;
    expect_words(only_advice(machine), {"No GPU is in use", "Install NVIDIA's driver", "--gpus all"});
}

TEST(ferry_info_advice, pairs_without_peer_access_are_named_once) {
    machine machine = fast_machine();
    machine.peers = {peer_of(0, 1, false, FERRY_PROBE_NOT_RUN), peer_of(1, 0, false, FERRY_PROBE_NOT_RUN)};
    expect_words(only_advice(machine), {"no peer access (P2P) between devices 0 and 1:", "nvidia-smi topo -p2p r"});
}

TEST(ferry_info_advice, a_few_of_many_pairs_are_named) {
    machine machine = fast_machine();
    machine.peers.clear();
    for (std::int32_t device = 0; device < 4; ++device)
        for (std::int32_t peer = 0; peer < 4; ++peer)
            if (device != peer) machine.peers.push_back(peer_of(device, peer, false, FERRY_PROBE_NOT_RUN));
    expect_words(only_advice(machine), {"0 and 1, 0 and 2, 0 and 3, 1 and 2, and 2 more:"});
}

TEST(ferry_info_advice, access_that_moves_no_bytes_is_not_mistaken_for_none) {
    machine machine = fast_machine();
    machine.peers[1].probe = FERRY_PROBE_FAILED;
    expect_words(only_advice(machine), {"access from device 1 to 0,", "bytes do not arrive", "ACS"});
}

TEST(ferry_info_advice, few_staging_threads_count_where_the_link_carries_more) {
    machine machine = fast_machine();
    machine.report.staging_threads = 2;
    machine.processors = 4;
    expect_words(only_advice(machine), {"only 2 threads", "may use 4 processors", "about 12.6 GB/s of the link's 63.",
                                        "use 16 processors", "ferry_options.staging_threads"});
    machine.report.staging_threads = 3;
    for (device &device : machine.devices)
        device.links = {slow_link, slow_link};
    EXPECT_TRUE(advise(machine).empty()) << "PCIe 3 carries 15.8 GB/s";
    for (device &device : machine.devices)
        device.links = {};
    expect_words(only_advice(machine), {"only 3 threads", "about 18.9 GB/s."});
}

TEST(ferry_info_advice, staging_buffers_that_could_not_be_pinned_name_the_limit) {
    machine machine = fast_machine();
    machine.staging.staging_bytes = 8 * MiB;
    machine.limits.locked_memory = 4 * MiB;
    expect_words(only_advice(machine),
                 {"Only 8.0 MiB of 32.0 MiB", "may lock 4.0 MiB", "ulimit -l", "--ulimit memlock=-1"});
    machine.limits.locked_memory.reset();
    EXPECT_EQ(only_advice(machine).find("may lock"), std::string::npos);
    machine.was_probed = false;
    EXPECT_TRUE(advise(machine).empty()) << "nothing has been pinned yet";
}

TEST(ferry_info_advice, missing_lanes_are_reported_and_an_idle_link_is_not) {
    machine machine = fast_machine();
    machine.devices[1].links = {half_link, full_link};
    expect_words(only_advice(machine), {"Device 1 uses 8 of its 16 PCIe lanes", "slot"});
    machine.devices[1].links = {slow_link, full_link};
    EXPECT_TRUE(advise(machine).empty()) << "an idle GPU lowers the speed, not the lanes";
}

TEST(ferry_info_advice, calibration_is_recommended_for_a_device_that_was_not_measured) {
    machine machine = fast_machine();
    machine.devices[1].info.compute_major = 8;
    expect_words(only_advice(machine), {"Device 1 has no measured profile", "ferry-info --calibrate 1 > gpu.profile"});
    machine.devices[1].profile = profile_file{"gpu.profile", 0};
    EXPECT_TRUE(advise(machine).empty());
}

TEST(ferry_info_advice, the_features_that_an_old_driver_lacks_are_named) {
    machine machine = fast_machine();
    machine.missing = {"cuMemcpyBatchAsync", "cuMemcpy3DBatchAsync"};
    expect_words(only_advice(machine), {"lacks 2 optional functions, such as cuMemcpyBatchAsync", "newer driver"});
    machine = fast_machine();
    machine.report.kernels = FERRY_KERNELS_NONE;
    machine.report.staging = FERRY_STAGING_NONE;
    expect_words(only_advice(machine), {"does not run ferry's kernels", "newer driver"});
}

TEST(ferry_info_advice, a_profile_reports_its_origin_and_its_age) {
    device device = hopper(0);
    EXPECT_EQ(profile_source(device), "built in, measured on an H200");
    device.info.pageable_uses_host_page_tables = 1;
    EXPECT_EQ(profile_source(device), "built in, a cautious guess for devices that were not measured");
    device.info.is_software = 1;
    EXPECT_EQ(profile_source(device), "built in, measured on the software driver");
    for (const auto &[days, expected] : {std::pair{0.9, "gpu.profile, less than a day old"},
                                         {1.5, "gpu.profile, 1 day old"},
                                         {40.0, "gpu.profile, 40 days old"}}) {
        device.profile = profile_file{"gpu.profile", days};
        EXPECT_EQ(profile_source(device), expected);
    }
}

// ---- Limits

// The limit with this name, or one that says so.
limit limit_named(const machine &machine, const std::string &name) {
    for (const limit &each : find_limits(machine))
        if (each.name == name) return each;
    return {name, "missing", "", ""};
}

// A machine with two nodes, whose device n is at node n, and a process that may use all of it.
machine machine_with_nodes() {
    machine made = fast_machine();
    made.limits.are_known = true;
    made.limits.nodes = {{0, {0, 1, 2, 3}}, {1, {4, 5, 6, 7}}};
    made.limits.processors = {0, 1, 2, 3, 4, 5, 6, 7};
    made.limits.memory_nodes = {0, 1};
    made.limits.huge_pages = "madvise";
    for (device &device : made.devices) {
        device.info.numa_node = device.info.device;
        device.info.host_register = 1;
    }
    return made;
}

TEST(ferry_info_limits, do_no_harm_on_a_fast_machine) {
    const machine machine = machine_with_nodes();
    for (const limit &each : find_limits(machine))
        EXPECT_EQ(each.effect + each.remedy, "") << each.name;
    EXPECT_EQ(limit_named(machine, "locked memory").value, "no limit");
    EXPECT_EQ(limit_named(machine, "memory of the group").value, "no limit");
    EXPECT_EQ(limit_named(machine, "NUMA nodes").value, "2, memory of 0-1, processors 0-7");
    EXPECT_EQ(limit_named(machine, "huge pages").value, "madvise");
    EXPECT_EQ(limit_named(machine, "address space").value, "missing");
}

TEST(ferry_info_limits, that_are_not_known_are_left_out) {
    machine machine = machine_with_nodes();
    machine.limits = {};
    EXPECT_TRUE(find_limits(machine).empty());
}

TEST(ferry_info_limits, of_memory_count_if_they_leave_little) {
    machine machine = machine_with_nodes();
    machine.limits.locked_memory = 1024 * MiB + 32 * MiB; // 1 GiB beside the staging buffers of both devices
    machine.limits.group_left = 2048 * MiB + 32 * MiB;
    EXPECT_EQ(limit_named(machine, "locked memory").effect, "");
    EXPECT_EQ(limit_named(machine, "memory of the group").effect, "");
    *machine.limits.locked_memory -= 1;
    *machine.limits.group_left -= 1;
    expect_words(limit_named(machine, "locked memory").remedy, {"ulimit -l", "--ulimit memlock=-1"});
    expect_words(limit_named(machine, "memory of the group").effect, {"control group"});
    machine.limits.address_space = 4096 * MiB;
    expect_words(limit_named(machine, "address space").remedy, {"ulimit -v"});
}

TEST(ferry_info_limits, of_placement_name_the_device_that_is_elsewhere) {
    machine machine = machine_with_nodes();
    machine.limits.memory_nodes = {0};
    machine.limits.processors = {2, 3};
    expect_words(limit_named(machine, "memory near device").effect, {"Device 1 is at node 1"});
    expect_words(limit_named(machine, "processors near device").remedy, {"--cpuset-cpus"});
    machine.devices.pop_back(); // device 0 is near
    EXPECT_EQ(limit_named(machine, "memory near device").value, "missing");
    EXPECT_EQ(limit_named(machine, "processors near device").value, "missing");
}

TEST(ferry_info_limits, of_shared_and_divided_devices_are_named) {
    machine machine = machine_with_nodes();
    machine.limits.huge_pages = "never";
    machine.limits.has_mps_daemon = true;
    machine.limits.mps_threads = "25";
    machine.limits.mps_memory = "0=2G";
    std::strcpy(machine.devices[0].info.name, "NVIDIA H200 MIG 1g.18gb");
    machine.devices[1].info.host_register = 0;
    expect_words(limit_named(machine, "huge pages").remedy, {"madvise"});
    EXPECT_EQ(limit_named(machine, "multi-process service").value, "in use");
    EXPECT_EQ(limit_named(machine, "share of the SMs").value, "25 %");
    EXPECT_EQ(limit_named(machine, "device memory").value, "0=2G");
    expect_words(limit_named(machine, "part of a GPU").effect, {"Device 0", "no access to other devices"});
    expect_words(limit_named(machine, "registration").remedy, {"ferry_host_alloc"});
    machine.devices[1].info.is_software = 1;
    EXPECT_EQ(limit_named(machine, "registration").value, "missing");
}

struct made_up_system {
    made_up_system()
        : root(std::filesystem::temp_directory_path() / ("ferry-info-" + std::to_string(std::random_device()()))) {}
    ~made_up_system() { std::filesystem::remove_all(root); }
    made_up_system(const made_up_system &) = delete;
    void write(const std::string &path, const std::string &text) const {
        std::filesystem::create_directories((root / path).parent_path());
        std::ofstream(root / path) << text;
    }
    const std::filesystem::path root;
};

TEST(ferry_info_limits, are_read_from_the_files_of_the_system) {
    const made_up_system system;
    process_limits found;
    read_placement(system.root, found); // no file
    EXPECT_TRUE(found.nodes.empty() && found.processors.empty() && found.memory_nodes.empty());
    EXPECT_EQ(found.huge_pages, "");
    system.write("sys/devices/system/node/online", "0,2\n");
    system.write("sys/devices/system/node/node0/cpulist", "0-1,4\n");
    system.write("sys/devices/system/node/node2/cpulist", "\n"); // memory alone
    system.write("proc/self/status", "Name:\tx\nCpus_allowed_list:\t1-2\nMems_allowed_list:\t0\n");
    system.write("sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n");
    read_placement(system.root, found);
    EXPECT_EQ(found.nodes, (std::map<int, std::set<int>>{{0, {0, 1, 4}}, {2, {}}}));
    EXPECT_EQ(found.processors, (std::set<int>{1, 2}));
    EXPECT_EQ(found.memory_nodes, (std::set<int>{0}));
    EXPECT_EQ(found.huge_pages, "never");
}

TEST(ferry_info_limits, lists_are_parsed_and_written) {
    for (const char *text : {"0", "0-3", "0-3,8", "1,3,5-7"})
        EXPECT_EQ(list_text(parse_list(text)), text);
    EXPECT_EQ(list_text(parse_list("")), "unknown");
    EXPECT_TRUE(parse_list("x,-").empty());
    EXPECT_EQ(bytes_text(1023), "1023 B");
    EXPECT_EQ(bytes_text(16 * MiB), "16.0 MiB");
}

} // namespace
} // namespace ferry_info
