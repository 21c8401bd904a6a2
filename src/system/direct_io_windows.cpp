#if defined(_WIN32)
#include "system/direct_io.h"

#include "system/file.h"
#include "system/windows_api.h"

namespace ferry {

// Windows always uses its cache: no transfer is direct.
direct_io::~direct_io() = default;

std::int32_t direct_io::open(std::int64_t, bool, bool) noexcept { return ERROR_NOT_SUPPORTED; }

} // namespace ferry
#endif
