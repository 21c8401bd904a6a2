#if defined(__linux__)
#include "system/handles.h"

#include <climits>

#include <fcntl.h>

namespace ferry {

void *default_handle_attributes() noexcept { return nullptr; }

bool is_open_handle(std::int64_t handle) noexcept {
    return handle >= 0 && handle <= INT_MAX && fcntl(static_cast<int>(handle), F_GETFD) != -1;
}

} // namespace ferry
#endif
