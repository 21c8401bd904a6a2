#if defined(__linux__)
#include "system/handles.h"

namespace ferry {

void *default_handle_attributes() noexcept { return nullptr; }

} // namespace ferry
#endif
