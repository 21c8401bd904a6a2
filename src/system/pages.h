// Maps pages from the operating system: huge pages if available, on a preferred NUMA node, touched by several threads.
#pragma once

#include <cstdint>

#include "base/function_ref.h"

namespace ferry {

inline constexpr int any_node = -1;
inline constexpr std::uint64_t huge_page = std::uint64_t{2} << 20;

std::uint64_t page_size() noexcept;

// How mapped pages are inherited by the child of a fork.
enum class inheritance { none, shared };

// Maps `size` bytes that are readable, writable and zeroed. Returns null on failure. The node is only a preference.
// Touches no page.
void *map_pages(std::uint64_t size, int node, inheritance children) noexcept;
void unmap_pages(void *pages, std::uint64_t size) noexcept;

// Touches all mapped pages with `threads` threads, so that the system backs them with memory, with huge pages if
// possible. 0: the fastest number of threads.
void touch_pages(void *pages, std::uint64_t size, inheritance children, unsigned threads) noexcept;
// Backs mapped pages that are shared with children by huge pages. Has no effect if the system rejects the request.
void back_with_huge_pages(void *pages, std::uint64_t size) noexcept;

// Calls work(begin, end) for parts of `size` bytes, each on its own thread. Parts consist of whole huge pages if `size`
// is large enough. 0: the fastest number of threads.
void for_parts_of_pages(std::uint64_t size, unsigned threads,
                        function_ref<void(std::uint64_t begin, std::uint64_t end)> work) noexcept;

// Faults in memory of the program that is about to be written, on the calling thread, if the memory appears never to
// have been written. Keeps the contents. One request is several times as fast as faulting page by page.
void fault_in(void *memory, std::uint64_t size) noexcept;
// Requests huge pages for memory of the program that is about to be overwritten, if the memory is large and appears
// never to have been written. Touches no page. Returns whether the request was made.
bool ask_for_huge_pages(void *memory, std::uint64_t size) noexcept;
// Faults in the page at `address`, as a huge page if huge pages were requested and one is available. Keeps the
// contents.
void fault_in_page(void *address) noexcept;
// The total time that the calling thread has spent in fault_in() and fault_in_page().
std::uint64_t faulting_ns_of_caller() noexcept;

// Makes the page that contains a byte writable. Keeps the byte.
void touch_byte(void *address) noexcept;

// Returns whether touching `size` bytes is safe. A system or container that runs out of memory does not fail the access
// but kills a process. True if the system does not report its free memory.
bool is_memory_left(std::uint64_t size) noexcept;

// Returns the node of the page at `address`; any_node if the system does not report it.
int node_of_page(const void *address) noexcept;

// Returns whether the machine has a node with that number. True if the system does not list its nodes.
bool is_node(int node) noexcept;

} // namespace ferry
