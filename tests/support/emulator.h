// Emulators that run the tests of a cross build, and the features that they lack. FERRY_TEST_EMULATOR is the command of
// the emulator, set by the cross files in tools/cross.
#pragma once

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace ferry::test {

// emulator_test.cpp proves each gap with a program without ferry, and fails when the emulator has closed the gap.
enum class gap {
    pages_wiped_in_children, // MADV_WIPEONFORK
    execution,               // of the program itself, by execve
    process_vm_reads,        // process_vm_readv
    guard_regions,           // MADV_GUARD_INSTALL
};

// The words of the command; empty on a real machine.
const std::vector<std::string> &emulator_command();
// Describes what the emulator does instead. Null if the tests run on a real machine or the emulator has the feature.
const char *missing(gap which);

} // namespace ferry::test

// Skips a test that cannot pass in an emulator with this gap.
#define SKIP_WITHOUT(which)                                                                                            \
    if (const char *const why = ::ferry::test::missing(::ferry::test::gap::which)) GTEST_SKIP() << why
