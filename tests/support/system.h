// The features of the operating system that the tests need: memory whose pages can be closed, forked children, faults.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

namespace ferry::test {

// Freed by free_aligned. Null if there is not enough memory.
void *allocate_aligned(std::size_t size, std::size_t alignment);
void free_aligned(void *memory);

enum class page_access { none, read, read_write };

// Zeroed pages of the process.
class mapped_memory {
public:
    explicit mapped_memory(std::size_t size, page_access access = page_access::read_write);
    ~mapped_memory();
    mapped_memory(const mapped_memory &) = delete;
    mapped_memory &operator=(const mapped_memory &) = delete;

    std::byte *data() const { return data_; }
    std::size_t size() const { return size_; }
    std::uint64_t address() const { return reinterpret_cast<std::uintptr_t>(data_); }
    // The range must consist of whole pages. Both functions report a failed expectation if the system rejects the
    // request.
    void allow(std::size_t offset, std::size_t size, page_access access) const;
    void remove(std::size_t offset, std::size_t size) const; // nothing is mapped there any more

private:
    std::size_t size_;
    std::byte *data_;
};

#if defined(_WIN32)
inline constexpr bool has_fork = false, can_refuse_threads = false, has_second_process = false, has_huge_pages = false;
#else
inline constexpr bool has_fork = true, can_refuse_threads = true, has_second_process = true, has_huge_pages = true;
#endif
#define FERRY_NEEDS_FORK()                                                                                             \
    if (!::ferry::test::has_fork) GTEST_SKIP() << "Windows has no fork"
#define FERRY_NEEDS_REFUSED_THREADS()                                                                                  \
    if (!::ferry::test::can_refuse_threads) GTEST_SKIP() << "no test can make Windows refuse threads"
#define FERRY_NEEDS_SECOND_PROCESS()                                                                                   \
    if (!::ferry::test::has_second_process)                                                                            \
    GTEST_SKIP() << "the software driver shares nothing between processes on Windows"

// Runs the function in a forked child, without its other threads, and returns the function's result. -1 if the child
// ended in another way, or not within five seconds.
int run_in_child(const std::function<int()> &function);

// While this object exists, calls `handle` for each fault of any thread, on that thread. The access is repeated if
// `handle` returns true; otherwise the process is killed. Only one object can exist at a time.
class fault_handler {
public:
    explicit fault_handler(std::function<bool(std::byte *at)> handle);
    ~fault_handler();
    fault_handler(const fault_handler &) = delete;
    fault_handler &operator=(const fault_handler &) = delete;
};

void keep_thread_on(unsigned processor);
unsigned first_processor(); // of the processors that the process may run on

std::uint64_t own_process_number();

} // namespace ferry::test
