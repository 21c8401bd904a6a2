#include "support/emulator.h"

#include <cstdlib>
#include <sstream>

namespace ferry::test {

namespace {

struct known_gap {
    const char *emulator; // the beginning of the command
    gap which;
    const char *why;
};

// QEMU 7.2, user mode.
constexpr known_gap gaps[] = {
    {"qemu-", gap::pages_wiped_in_children, "QEMU accepts MADV_WIPEONFORK, and wipes nothing"},
    {"qemu-", gap::execution, "QEMU leaves execve to the system, which cannot run the program"},
    {"qemu-", gap::process_vm_reads, "QEMU has no process_vm_readv"},
    {"qemu-", gap::guard_regions, "QEMU accepts advice that it does not know, and ignores it"},
};

} // namespace

const std::vector<std::string> &emulator_command() {
    static const std::vector<std::string> words = [] {
        const char *const given = std::getenv("FERRY_TEST_EMULATOR");
        std::istringstream command(given ? given : "");
        std::vector<std::string> read;
        for (std::string word; command >> word;)
            read.push_back(word);
        return read;
    }();
    return words;
}

const char *missing(gap which) {
    for (const known_gap &one : gaps)
        if (one.which == which && !emulator_command().empty() && emulator_command()[0].starts_with(one.emulator))
            return one.why;
    return nullptr;
}

} // namespace ferry::test
