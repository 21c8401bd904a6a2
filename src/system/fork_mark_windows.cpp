#if defined(_WIN32)
#include "system/fork_mark.h"

namespace ferry {

fork_mark::fork_mark() noexcept = default; // Windows has no fork
fork_mark::~fork_mark() = default;

} // namespace ferry
#endif
