#if defined(_WIN32)
#include "system/address_space.h"

namespace ferry {

// Which regions CUDA makes on Windows is not known, so none is reported.
void address_space::open() noexcept {}
bool address_space::find_readable(std::uint64_t, host_mapping &) const noexcept { return false; }

} // namespace ferry
#endif
