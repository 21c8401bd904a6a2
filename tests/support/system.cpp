#include "support/system.h"

#include <cstdlib>

#include <gtest/gtest.h>

#include "base/rounding.h"
#include "system/threads.h"

#if defined(_WIN32)
#include "system/windows_api.h"
#else
#include <csignal>
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#endif

namespace ferry::test {

namespace {

std::function<bool(std::byte *at)> handle_fault;

} // namespace

unsigned first_processor() {
    const processor_set processors = processors_of_process();
    unsigned first = 0;
    while (first + 1 < processor_set::most && !processors.has(first))
        ++first;
    return first;
}

#if defined(_WIN32)

namespace {

DWORD protection(page_access access) {
    switch (access) {
    case page_access::none:
        return PAGE_NOACCESS;
    case page_access::read:
        return PAGE_READONLY;
    default:
        return PAGE_READWRITE;
    }
}

LONG CALLBACK on_exception(EXCEPTION_POINTERS *thrown) {
    const EXCEPTION_RECORD &record = *thrown->ExceptionRecord;
    if (record.ExceptionCode != EXCEPTION_ACCESS_VIOLATION || !handle_fault) return EXCEPTION_CONTINUE_SEARCH;
    const bool is_mended = handle_fault(reinterpret_cast<std::byte *>(record.ExceptionInformation[1]));
    return is_mended ? EXCEPTION_CONTINUE_EXECUTION : EXCEPTION_CONTINUE_SEARCH;
}

void *installed = nullptr;

} // namespace

void *allocate_aligned(std::size_t size, std::size_t alignment) { return _aligned_malloc(size, alignment); }
void free_aligned(void *memory) { _aligned_free(memory); }

mapped_memory::mapped_memory(std::size_t size, page_access access)
    : size_(size),
      data_(static_cast<std::byte *>(VirtualAlloc(nullptr, size, MEM_RESERVE | MEM_COMMIT, protection(access)))) {
    EXPECT_TRUE(data_);
}
mapped_memory::~mapped_memory() { VirtualFree(data_, 0, MEM_RELEASE); }
void mapped_memory::allow(std::size_t offset, std::size_t size, page_access access) const {
    DWORD before = 0;
    EXPECT_TRUE(VirtualProtect(data_ + offset, size, protection(access), &before));
}
void mapped_memory::remove(std::size_t offset, std::size_t size) const {
    EXPECT_TRUE(VirtualFree(data_ + offset, size, MEM_DECOMMIT));
}

int run_in_child(const std::function<int()> &) { return -1; }

fault_handler::fault_handler(std::function<bool(std::byte *at)> handle) {
    handle_fault = std::move(handle);
    installed = AddVectoredExceptionHandler(1, on_exception);
    EXPECT_TRUE(installed);
}
fault_handler::~fault_handler() {
    RemoveVectoredExceptionHandler(installed);
    handle_fault = nullptr;
}

void keep_thread_on(unsigned processor) {
    EXPECT_TRUE(SetThreadAffinityMask(GetCurrentThread(), DWORD_PTR{1} << processor));
}

std::uint64_t own_process_number() { return GetCurrentProcessId(); }

#else

namespace {

int protection(page_access access) {
    switch (access) {
    case page_access::none:
        return PROT_NONE;
    case page_access::read:
        return PROT_READ;
    default:
        return PROT_READ | PROT_WRITE;
    }
}

void on_signal(int, siginfo_t *info, void *) {
    if (!handle_fault(static_cast<std::byte *>(info->si_addr))) _exit(2); // a genuine fault
}

struct sigaction before_segv, before_bus;

} // namespace

void *allocate_aligned(std::size_t size, std::size_t alignment) {
    return std::aligned_alloc(alignment, round_up(size, alignment));
}
void free_aligned(void *memory) { std::free(memory); }

mapped_memory::mapped_memory(std::size_t size, page_access access) : size_(size) {
    void *const mapped = mmap(nullptr, size, protection(access), MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(mapped, MAP_FAILED);
    data_ = static_cast<std::byte *>(mapped);
}
mapped_memory::~mapped_memory() { munmap(data_, size_); }
void mapped_memory::allow(std::size_t offset, std::size_t size, page_access access) const {
    EXPECT_EQ(mprotect(data_ + offset, size, protection(access)), 0);
}
void mapped_memory::remove(std::size_t offset, std::size_t size) const { EXPECT_EQ(munmap(data_ + offset, size), 0); }

int run_in_child(const std::function<int()> &function) {
    const pid_t child = fork();
    if (child == 0) {
        alarm(5); // kills a child that hangs
        _exit(function());
    }
    EXPECT_GE(child, 0);
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

fault_handler::fault_handler(std::function<bool(std::byte *at)> handle) {
    handle_fault = std::move(handle);
    struct sigaction action = {};
    action.sa_flags = SA_SIGINFO;
    action.sa_sigaction = on_signal;
    EXPECT_EQ(sigaction(SIGSEGV, &action, &before_segv), 0);
    EXPECT_EQ(sigaction(SIGBUS, &action, &before_bus), 0);
}
fault_handler::~fault_handler() {
    EXPECT_EQ(sigaction(SIGSEGV, &before_segv, nullptr), 0);
    EXPECT_EQ(sigaction(SIGBUS, &before_bus, nullptr), 0);
    handle_fault = nullptr;
}

void keep_thread_on(unsigned processor) {
    cpu_set_t only;
    CPU_ZERO(&only);
    CPU_SET(processor, &only);
    EXPECT_EQ(sched_setaffinity(0, sizeof only, &only), 0);
}

std::uint64_t own_process_number() { return static_cast<std::uint64_t>(getpid()); }

#endif

} // namespace ferry::test
