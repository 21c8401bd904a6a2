#if defined(_WIN32)
#include "system/handles.h"

#include "system/windows_api.h"

namespace ferry {

// CUDA's headers speak of a SECURITY_ATTRIBUTES, while NVIDIA's samples pass an OBJECT_ATTRIBUTES. Zeros after the
// length say the same in both: default security.
void *default_handle_attributes() noexcept {
    static struct {
        ULONG length;
        void *zeros[5];
    } attributes = {sizeof attributes, {}};
    static_assert(sizeof attributes == sizeof(OBJECT_ATTRIBUTES) && sizeof attributes >= sizeof(SECURITY_ATTRIBUTES));
    return &attributes;
}

} // namespace ferry
#endif
