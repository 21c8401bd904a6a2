#if defined(__linux__)
#include "system/thread_end.h"

#include <pthread.h>

namespace ferry {

bool thread_end::open(void (*at_end)(void *value)) noexcept {
    static_assert(sizeof(pthread_key_t) == sizeof key_);
    return pthread_key_create(&key_, at_end) == 0;
}
void thread_end::close() noexcept { pthread_key_delete(key_); }
void thread_end::set(void *value) noexcept { pthread_setspecific(key_, value); }

bool call_in_forked_child(void (*function)()) noexcept { return pthread_atfork(nullptr, nullptr, function) == 0; }

} // namespace ferry
#endif
