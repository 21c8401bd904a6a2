// Tests what ferry-info finds slow on a machine, and what it advises.
#include <gtest/gtest.h>

#include "../tools/info/advice.h"

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
    machine.locked_memory_limit = 4 * MiB;
    expect_words(only_advice(machine), {"Only 8 MiB of 32 MiB", "may lock 4 MiB", "ulimit -l", "--ulimit memlock=-1"});
    machine.locked_memory_limit.reset();
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

} // namespace
} // namespace ferry_info
