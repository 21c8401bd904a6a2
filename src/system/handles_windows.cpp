#if defined(_WIN32)
#include "system/handles.h"

#include "system/windows_api.h"

namespace ferry {

// CUDA's headers document a SECURITY_ATTRIBUTES, but NVIDIA's samples pass an OBJECT_ATTRIBUTES. With only zeros after
// the length, both structs mean default security.
void *default_handle_attributes() noexcept {
    static struct {
        ULONG length;
        void *zeros[5];
    } attributes = {sizeof attributes, {}};
    static_assert(sizeof attributes == sizeof(OBJECT_ATTRIBUTES) && sizeof attributes >= sizeof(SECURITY_ATTRIBUTES));
    return &attributes;
}

bool is_open_handle(std::int64_t handle) noexcept {
    DWORD flags = 0;
    return GetHandleInformation(reinterpret_cast<HANDLE>(static_cast<std::uintptr_t>(handle)), &flags) != 0;
}

int duplicate_descriptor(int) noexcept { return -1; }
void close_descriptor(int) noexcept {}
int open_again(int, int) noexcept { return -1; }
void close_duplicate(int, int) noexcept {}

kept_descriptor::kept_descriptor(int) noexcept {}
kept_descriptor::~kept_descriptor() = default;
int kept_descriptor::get() const noexcept { return -1; }

} // namespace ferry
#endif
