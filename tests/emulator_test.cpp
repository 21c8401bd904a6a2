// The gaps of emulators (support/emulator.h), shown by system calls alone: no test is left out for a defect of ferry,
// nor for a gap that an emulator has closed.
#include "support/emulator.h"

#include <cstdint>
#include <functional>

#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

namespace ferry::test {
namespace {

bool is_true_in_child(const std::function<bool()> &question) {
    const pid_t child = fork();
    if (child == 0) _exit(question() ? 1 : 0);
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status));
    return WEXITSTATUS(status) == 1;
}

// What FERRY_TEST_EMULATOR's emulator lacks according to the table, it lacks.
#define EXPECT_GAP(which, works)                                                                                       \
    if (!missing(which)) GTEST_SKIP() << "not run by an emulator with this gap";                                       \
    EXPECT_FALSE(works) << "this gap is closed: remove it from support/emulator.cpp"

TEST(emulator, pages_wiped_in_children) {
    const auto size = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    void *const mapped = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(mapped, MAP_FAILED);
    auto *const byte = static_cast<volatile char *>(mapped);
    *byte = 1;
    EXPECT_EQ(madvise(mapped, size, MADV_WIPEONFORK), 0);
    const bool is_wiped = is_true_in_child([&] { return *byte == 0; });
    munmap(mapped, size);
    EXPECT_GAP(gap::pages_wiped_in_children, is_wiped);
}

TEST(emulator, execution) {
    EXPECT_GAP(gap::execution, is_true_in_child([] {
                   const pid_t child = fork();
                   if (child == 0) {
                       execl("/proc/self/exe", "program", "--gtest_list_tests", static_cast<char *>(nullptr));
                       _exit(1);
                   }
                   int status = 0;
                   return waitpid(child, &status, 0) == child && status == 0;
               }));
}

TEST(emulator, process_vm_reads) {
    char from = 1, to = 0;
    const iovec source = {&from, 1}, destination = {&to, 1};
    EXPECT_GAP(gap::process_vm_reads, process_vm_readv(getpid(), &destination, 1, &source, 1, 0) == 1);
}

TEST(emulator, guard_regions) {
    const auto size = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    void *const mapped = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(mapped, MAP_FAILED);
    constexpr int install_guard = 102; // MADV_GUARD_INSTALL, Linux 6.13
    const int file = memfd_create("guarded", MFD_CLOEXEC);
    ASSERT_GE(file, 0);
    // Without guard regions, the advice is refused.
    const bool is_kept = madvise(mapped, size, install_guard) != 0 || write(file, mapped, 1) < 0;
    close(file);
    munmap(mapped, size);
    EXPECT_GAP(gap::guard_regions, is_kept);
}

} // namespace
} // namespace ferry::test
