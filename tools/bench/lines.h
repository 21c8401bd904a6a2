// Copies of one contiguous piece by the driver's own calls and by ferry's calls, timed until the bytes have arrived.
#pragma once

#include "workspace.h"

namespace bench {

enum class form { async, sync };
const char *name_of(form form);

contender raw_line(const environment &environment, const direction &direction, form form, std::size_t size);
contender ferry_line(const environment &environment, const direction &direction, form form, std::size_t size);

} // namespace bench
