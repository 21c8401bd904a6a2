// What ferry finds on a machine.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "../pci_link.h"
#include "ferry/ferry.h"
#include "ferry/ferry_devices.h"
#include "ferry/ferry_memory.h"
#include "process_limits.h"

namespace ferry_info {

struct close_instance {
    void operator()(ferry_instance *instance) const { ferry_close(instance); }
};
using instance_owner = std::unique_ptr<ferry_instance, close_instance>;

// Throws for a failed call, and names the call.
void check(std::int32_t status, const char *call);

template <class Struct> Struct sized() {
    Struct value = {};
    value.struct_size = sizeof value;
    return value;
}

// A device's default pool in this process.
struct pool {
    ferry_pool_attributes attributes;
    ferry_pool_stats stats;
};

// A profile that the user has stored in a file.
struct profile_file {
    std::string path;
    double age_days; // according to the file's date
};

struct device {
    ferry_device_info info;
    pci_links links;
    std::optional<pool> default_pool;    // if the device has pools
    std::optional<profile_file> profile; // the profile in use, unless it is built in
};

struct machine {
    ferry_report report;
    std::vector<std::string> missing;
    std::vector<device> devices;
    std::vector<ferry_peer_info> peers;
    ferry_staging_info staging;
    bool was_probed;     // access between devices was tested, and staging was set up
    unsigned processors; // number that the process may use
    process_limits limits;
};

instance_owner open_instance(std::int32_t driver, std::int32_t staging);
// Loads a profile. Throws with a readable message if it fits no device.
profile_file load_profile(ferry_instance *instance, const std::string &path);
// Returns the text of the profile in use.
std::string profile_text(ferry_instance *instance, std::int32_t device);

// `probe`: also sends data between devices and loads kernels. `loaded`: the result of load_profile.
machine inspect(ferry_instance *instance, bool probe, const std::optional<profile_file> &loaded);

} // namespace ferry_info
