// Maps pages from the operating system: huge pages where the system provides them, on a preferred NUMA node, touched by
// several threads.
#pragma once

#include <cstdint>

#include "base/function_ref.h"

namespace ferry {

inline constexpr int any_node = -1;
inline constexpr std::uint64_t huge_page = std::uint64_t{2} << 20;

std::uint64_t page_size() noexcept;

// What the child of a fork has of mapped pages.
enum class inheritance { none, shared };

// Maps `size` bytes: readable, writable and zeroed. Returns null if the system has none. The node is a preference.
// Touches no page.
void *map_pages(std::uint64_t size, int node, inheritance children) noexcept;
void unmap_pages(void *pages, std::uint64_t size) noexcept;

// Touches all mapped pages with `threads` threads, so that the system backs them with memory: huge pages where it can.
// 0: as many threads as help.
void touch_pages(void *pages, std::uint64_t size, inheritance children, unsigned threads) noexcept;
// Backs mapped pages that children share with huge pages. Where the system refuses that, nothing happens.
void back_with_huge_pages(void *pages, std::uint64_t size) noexcept;

// Calls work(begin, end) for parts of `size` bytes, whole huge pages where `size` has any, each on a thread of its own.
// 0: as many threads as help.
void for_parts_of_pages(std::uint64_t size, unsigned threads,
                        function_ref<void(std::uint64_t begin, std::uint64_t end)> work) noexcept;

// Faults in memory of the program that is about to be written, on the calling thread, if the memory looks as if it had
// never been written. Keeps the contents. One request is several times as fast as faulting page by page.
void fault_in(void *memory, std::uint64_t size) noexcept;
// Asks the system for huge pages for memory of the program that is about to be overwritten, if the memory is large and
// looks as if it had never been written. Touches no page. Returns whether the system has been asked.
bool ask_for_huge_pages(void *memory, std::uint64_t size) noexcept;
// Faults in the page at `address`, which is huge where the system has been asked and has one. Keeps the contents.
void fault_in_page(void *address) noexcept;
// The time that the calling thread has spent in fault_in() and fault_in_page(), ever.
std::uint64_t faulting_ns_of_caller() noexcept;

// Makes the page of a byte one that can be written. Keeps the byte.
void touch_byte(void *address) noexcept;

// Returns whether touching `size` bytes is safe. A system or container that runs out of memory does not refuse the
// pages, but kills a process. True where the system does not report its free memory.
bool is_memory_left(std::uint64_t size) noexcept;

// Returns the node of the page at `address`; any_node where the system does not report it.
int node_of_page(const void *address) noexcept;

// Returns whether the machine has a node of that number. True where the system does not list its nodes.
bool is_node(int node) noexcept;

} // namespace ferry
