// Ordinary host memory that is there: mapped, in huge pages where the system gives them, and touched.
#pragma once

#include <cstddef>

#include "environment.h"

namespace bench {

// Aligned to a huge page.
owned<void *> allocate_touched(std::size_t size);

// Pages that nobody has touched, none of them in huge pages but where the system itself decides so; NULL where it does not
// hand out such.
owned<void *> map_untouched(std::size_t size);
// In their place others that nobody has touched, at the same address.
void renew_untouched(void *memory, std::size_t size);

// 0 where the system does not tell.
std::size_t free_host_memory();

// A virtual machine may get its memory from its host as it touches it for the first time, which would be measured with
// whatever comes first. Touches `size` bytes and gives them back, but no more than half of what is free.
void warm_host_memory(std::size_t size);

} // namespace bench
