#if defined(_WIN32)
#include "system/thread_end.h"

#include "system/windows_api.h"

namespace ferry {

bool thread_end::open(void (*at_end)(void *value)) noexcept {
    const DWORD key = FlsAlloc(at_end); // 64-bit Windows has one calling convention
    key_ = key;
    return key != FLS_OUT_OF_INDEXES;
}
void thread_end::close() noexcept { FlsFree(key_); }
void thread_end::set(void *value) noexcept { FlsSetValue(key_, value); }

bool call_in_forked_child(void (*)()) noexcept { return true; } // Windows has no fork

} // namespace ferry
#endif
