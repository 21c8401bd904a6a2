// Pages from the system: huge ones where it gives them, on a NUMA node of choice, touched by several threads. Elsewhere
// than on Linux there are none, and the driver allocates.
#pragma once

#include <cstdint>

namespace ferry {

inline constexpr int any_node = -1;

std::uint64_t page_size() noexcept;

// `size` bytes, readable, writable, zeroed, not inherited by the child of a fork; null where there are none. The node is
// a preference. Nothing is touched yet.
void *map_pages(std::uint64_t size, int node) noexcept;
void unmap_pages(void *pages, std::uint64_t size) noexcept;

// Makes the system find memory for all the pages, by `threads` threads, or by as many as help for 0.
void touch_pages(void *pages, std::uint64_t size, unsigned threads) noexcept;

// The same for memory of the program's that is about to be written, by this thread, where it looks as if it had never
// been: what it holds stays. Asking at once is several times as fast as meeting the pages one by one.
void fault_in(void *memory, std::uint64_t size) noexcept;

// Whether touching `size` bytes may be tried: a system, or a container, that runs out of memory over it does not refuse
// but ends a process. True where the system does not tell.
bool is_memory_left(std::uint64_t size) noexcept;

// Where the page of `address` lies; any_node where the system does not tell.
int node_of_page(const void *address) noexcept;

// Whether the machine has a node of that number; true where the system does not tell.
bool is_node(int node) noexcept;

} // namespace ferry
