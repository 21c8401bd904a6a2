// Ordinary host memory: mapped, in huge pages if the system provides them, and touched.
#pragma once

#include <cstddef>

#include "environment.h"

namespace bench {

// Aligned to a huge page.
owned<void *> allocate_touched(std::size_t size);

// Maps pages that were never touched. They are huge pages only if the system itself decides so.
owned<void *> map_untouched(std::size_t size);
// Replaces the pages by untouched pages at the same address.
void renew_untouched(void *memory, std::size_t size);

// Maps `size` bytes of addresses to the same few bytes again and again, so that all of them stay in the processors'
// caches. Null where the system has no such mappings.
owned<void *> map_cached(std::size_t size);

// 0 if the system does not report it.
std::size_t free_host_memory();

// A virtual machine may get memory from its host only when it first touches it, which the first measurement would
// include. So this touches and releases `size` bytes, but at most half of the free memory.
void warm_host_memory(std::size_t size);

} // namespace bench
