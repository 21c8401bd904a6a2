// Names a context so that the name stays unambiguous after the context is destroyed.
#pragma once

#include "device/contexts.h"

namespace ferry {

// After a context is destroyed, a new context may get the same handle, but not the same number.
struct context_name {
    CUcontext handle = nullptr;
    unsigned long long number = 0; // 0: unknown
    bool operator==(const context_name &) const noexcept = default;
};

inline context_name name_context(const driver_table &cu, CUcontext context) noexcept {
    context_name name = {context, 0};
    if (call_optional(cu.cuCtxGetId, context, &name.number)) name.number = 0;
    return name;
}

// Fails only if the driver reports that the context no longer exists.
inline status_code refuse_destroyed(const driver_table &cu, const context_name &context) noexcept {
    return context.number ? refuse_another_context(cu, context.handle, context.number) : status_code();
}

inline bool may_live(const driver_table &cu, const context_name &context) noexcept {
    return refuse_destroyed(cu, context) == FERRY_SUCCESS;
}

} // namespace ferry
