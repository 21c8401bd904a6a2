// Emulators that run the tests of a cross build, and what they lack. FERRY_TEST_EMULATOR is the command of the emulator;
// the cross files in tools/cross set it.
#pragma once

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace ferry::test {

// emulator_test.cpp shows that a program without ferry meets each gap too, and fails when the emulator has closed it.
enum class gap {
    pages_wiped_in_children, // MADV_WIPEONFORK
    execution,               // of the program itself, by execve
    process_vm_reads,        // process_vm_readv
};

// The words of the command; none on a real machine.
const std::vector<std::string> &emulator_command();
// Says what the emulator does in place of this. Null if the tests run on a real machine or in an emulator that has it.
const char *missing(gap which);

} // namespace ferry::test

// Skips a test that cannot pass in an emulator with this gap.
#define SKIP_WITHOUT(which)                                                                                            \
    if (const char *const why = ::ferry::test::missing(::ferry::test::gap::which)) GTEST_SKIP() << why
