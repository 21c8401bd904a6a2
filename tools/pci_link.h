// The PCIe link of a device, as Linux reports it.
#pragma once

#include <optional>
#include <string>

struct pci_link {
    double transfers = 0; // GT/s per lane
    int lanes = 0;

    // PCIe encodes 8 bits in 10 up to 5 GT/s, and 128 bits in 130 up to 32 GT/s. At 64 GT/s, 236 of 256 bytes are
    // payload.
    double gigabytes_per_second() const {
        const double payload = transfers <= 5 ? 0.8 : transfers <= 32 ? 128.0 / 130 : 236.0 / 256;
        return transfers * lanes * payload / 8;
    }
    bool operator==(const pci_link &other) const { return transfers == other.transfers && lanes == other.lanes; }
};

// An idle GPU lowers the speed in `now` to save power.
struct pci_links {
    std::optional<pci_link> now, max;
};

// `address` is the PCI address from ferry_device_info. Both links are empty if the system reports nothing.
pci_links read_pci_links(const std::string &address);
