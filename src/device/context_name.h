// Contexts that may have been destroyed: a name that no other context gets, and what is left of events there.
#pragma once

#include "device/contexts.h"

namespace ferry {

// Once a context is destroyed another may have its handle, but not its number.
struct context_name {
    CUcontext handle = nullptr;
    unsigned long long number = 0; // 0: not told
    bool operator==(const context_name &) const noexcept = default;
};

inline context_name name_context(const driver_table &cu, CUcontext context) noexcept {
    context_name name = {context, 0};
    if (call_optional(cu.cuCtxGetId, context, &name.number)) name.number = 0;
    return name;
}

// False only where the driver says that the context has ended.
inline bool may_live(const driver_table &cu, const context_name &context) noexcept {
    return !context.number || !is_another_context(cu, context.handle, context.number);
}

} // namespace ferry
