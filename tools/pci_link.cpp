#include "pci_link.h"

#include <cctype>
#include <fstream>

namespace {

// Parses the system's description of a link, such as "32.0 GT/s PCIe" and "16".
std::optional<pci_link> read_link(const std::string &folder, const std::string &which) {
    pci_link found;
    std::ifstream speed(folder + "/" + which + "_link_speed"), width(folder + "/" + which + "_link_width");
    if (!(speed >> found.transfers) || !(width >> found.lanes) || found.lanes <= 0) return std::nullopt;
    return found;
}

} // namespace

pci_links read_pci_links(const std::string &address) {
    std::string folder = "/sys/bus/pci/devices/";
    for (const char letter : address)
        folder += static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
    return {read_link(folder, "current"), read_link(folder, "max")};
}
